"""What every platform has in common whose server's machine is out of reach.

Nobody limits the server from here or looks into its files; the generator runs where its processes
are, from a directory of this machine.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from steelyard.gateways.files import cache_directory, free_bytes
from steelyard.gateways.process import Processes
from steelyard.model.command import Command, Completed
from steelyard.model.errors import SteelyardError
from steelyard.model.program import ServerProgram
from steelyard.model.stored_keys import stored_key
from steelyard.model.vantage import Vantage
from steelyard.platforms.campaign_directory import WithCampaignDirectory
from steelyard.platforms.platform import Ledger, LimitsInForce, PreparedState, Unfit
from steelyard.platforms.tokens import token_of


class ServerElsewhere(WithCampaignDirectory, ABC):
    """A server whose data take no disk of this machine.

    Args:
        campaign_id: Names the directory of this machine where scripts and logs go.
        ledger: Is told before anything is made or changed.
        processes: To run the generator.
    """

    def __init__(self, campaign_id: str, ledger: Ledger, processes: Processes) -> None:
        super().__init__(cache_directory() / "live" / campaign_id, ledger)
        self._processes = processes
        self._prepared: PreparedState | None = None

    @property
    def root(self) -> Path | None:
        """Return None: the data take no disk of this machine."""
        return None

    def find(self, program: ServerProgram, content: Sequence[object]) -> PreparedState | None:
        """Return the state that this session has made, or None: none is kept there."""
        return self._prepared

    def _state_of(
        self, program: ServerProgram, content: Sequence[object], size_bytes: int = 0
    ) -> PreparedState:
        """Return the state of data that were made there; a size of 0 is one that nobody knows."""
        key = token_of(stored_key([program.identity, content]))
        return PreparedState(key=key, data=self._live, size_bytes=size_bytes)

    def vantage(self) -> Vantage | None:
        """Return None: the server is no process of this machine that is ours to look into."""
        return None

    def unfit(self, limits: Mapping[str, str]) -> tuple[Unfit, ...]:
        """Return nothing: an experiment has no limits for what runs elsewhere."""
        return ()

    def limit(self, limits: Mapping[str, str]) -> LimitsInForce:
        """Limit nothing: the server's machine is out of reach, and pods are limited as made."""
        return LimitsInForce()

    def run_together(
        self, commands: Sequence[Command], *, timeout_s: float
    ) -> tuple[Completed, ...]:
        """Run the generator's commands at the same time, recognisable by their directory."""
        return self._processes.run_together(self._placed(commands), timeout_s=timeout_s)

    def _placed(self, commands: Sequence[Command]) -> list[Command]:
        directory = self._made(self._live)
        return [replace(command, directory=directory) for command in commands]

    def copies_by_reflink(self, state: PreparedState) -> bool:
        """Return false: the files of the data are out of reach."""
        return False

    def free_bytes(self) -> int:
        """Return the free space of this machine's cache, where scripts go."""
        return free_bytes(cache_directory())

    def destroy(self) -> None:
        """Undo what was made or changed for the campaign, there and then on this machine.

        Raises:
            SteelyardError: The first trouble, after everything was tried.
        """
        troubles = self._undone()
        for directory in self._removed_here():
            self._ledger.removed(directory)
        if troubles:
            raise troubles[0]

    @abstractmethod
    def _undone(self) -> list[SteelyardError]:
        """Undo everything where the server is; return what went wrong."""
