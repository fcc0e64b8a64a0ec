"""What every platform has in common whose server's machine is out of reach.

Nobody limits the server from here or looks into its files; the generator runs where its processes
are, from a directory of this machine. A restart is its owner's own command, waited for until the
server is another one; so is what brings data back that Steelyard did not make.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, Final

from steelyard.core.outside import (
    Command,
    MadeDirectory,
    ServerProgram,
    stored_key,
)
from steelyard.core.wording import SteelyardError, TargetError
from steelyard.gateways.doors import Doors
from steelyard.gateways.files import cache_directory, free_bytes
from steelyard.gateways.host import Clock, trouble_until
from steelyard.gateways.process import Processes, RunningProcess
from steelyard.places import protocol
from steelyard.places.local.groups import PausedGenerators
from steelyard.places.local.server import WithCampaignDirectory
from steelyard.places.workers import WorkerGenerators

_LENGTH: Final = 10


def token_of(text: str) -> str:
    """Return ten hexadecimal digits: the same for the same text, others for another one."""
    return sha256(text.encode()).hexdigest()[:_LENGTH]


class ServerElsewhere(WithCampaignDirectory, ABC):
    """A server whose data take no disk of this machine.

    Args:
        campaign_id: Names the directory of this machine where scripts and logs go.
        doors: To run the generator, and to pause it between its turns.

    Attributes:
        root: None: the data take no disk of this machine.
    """

    root: None = None

    def __init__(self, campaign_id: str, ledger: protocol.Ledger, doors: Doors) -> None:
        generators = (
            PausedGenerators(doors.processes, doors.clock)
            if doors.workers is None
            else WorkerGenerators(doors.workers, doors.clock)
        )
        super().__init__(cache_directory() / "live" / campaign_id, ledger, generators)
        self._doors = doors
        self._prepared: protocol.PreparedState | None = None

    def find(
        self, program: ServerProgram, content: Sequence[object]
    ) -> protocol.PreparedState | None:
        """Return the state that this session has made, or None: none is kept there."""
        return self._prepared

    def _state_of(
        self, program: ServerProgram, content: Sequence[object], size_bytes: int = 0
    ) -> protocol.PreparedState:
        """Return the state of data that were made there; a size of 0 is one that nobody knows."""
        key = token_of(stored_key([program.identity, content]))
        return protocol.PreparedState(key=key, data=self._live, size_bytes=size_bytes)

    @property
    def standstill(self) -> protocol.Standstill:
        """Return what stops the generators between turns; the server goes on."""
        return self._generators.standstill

    @property
    def guarded(self) -> protocol.Guarded:
        """Return what a guard lets go on: the generators of this machine work in our directory."""
        return protocol.Guarded(groups=(), directory=self._live)

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
            self._ledger.removed(MadeDirectory(path=directory))
        if troubles:
            raise troubles[0]

    @abstractmethod
    def _undone(self) -> list[SteelyardError]:
        """Undo everything where the server is; return what went wrong."""


_TIMEOUT_S: Final = 180.0
_POLL_S: Final = 0.1


def restart_by(
    command: tuple[str, ...],
    doors: Doors,
    started_at: Callable[[], object],
    environment: Mapping[str, str] | None = None,
) -> None:
    """Restart a server by its owner's command and return when another one answers.

    Args:
        command: Of the user, run on this machine.
        doors: To run it and to wait.
        started_at: Asks the server what tells one start of it from another.
        environment: Added to that of the command.

    Raises:
        TargetError: The command failed, or the server was not restarted by it.
    """
    before = started_at()
    order = Command(argv=command, environment=environment or {})
    _run("restart", order, doors.processes, _TIMEOUT_S)
    _await(
        lambda: started_at() != before,
        doors.clock,
        "restart",
        trouble="it has not been started anew",
    )


def reset_by(
    command: Command,
    doors: Doors,
    started_at: Callable[[], object],
    *,
    timeout_s: float,
) -> None:
    """Bring data back by their owner's command and return when the server answers.

    Args:
        command: Of the user, run on this machine; it may stop and start the server.
        doors: To run it and to wait.
        started_at: Asks the server for anything.
        timeout_s: For the command.

    Raises:
        TargetError: The command failed or did not end, or the server does not answer after it.
    """
    _run("reset", command, doors.processes, timeout_s)
    _await(
        lambda: started_at() is not None, doors.clock, "reset", trouble="it gives no time of start"
    )


_SHOWN_WORDS: Final = 200  # of what a command said at its end: the record keeps them


def _run(name: str, command: Command, processes: Processes, timeout_s: float) -> None:
    """Run a user's command to its end."""
    with _started(command, processes) as (process, output):
        ended = process.wait(timeout_s)
        status = process.exit_status()
        # What it started would go on, and may act on the server in a later run.
        left = () if ended else process.kill_all()
        said = " ".join(output.read().decode(errors="replace").split()[-_SHOWN_WORDS:])
    if not ended or status != 0:
        warning = (
            f"It was killed, but what it started still runs and may yet act: {', '.join(left)}."
            if left
            else ""
        )
        how = f"exited with {status}" if ended else f"did not end within {timeout_s:.0f} s"
        raise TargetError(
            f"the {name} command {how}: {said or 'it printed nothing'}",
            hint=f"{warning} Try it by hand, as the account that runs Steelyard.".lstrip(),
        )


@contextmanager
def _started(command: Command, processes: Processes) -> Iterator[tuple[RunningProcess, BinaryIO]]:
    """Start a command; yield it and what it prints.

    It prints to a file, not a pipe: the restarted server may keep the output open for ever. The
    file has no name any more when the command is at work, so that our death leaves none behind.
    """
    with TemporaryDirectory(prefix="steelyard-restart-") as directory:
        path = Path(directory) / "output"
        process = processes.start(command, output=path)
        output = path.open("rb")
    with output:
        try:
            yield process, output
        except BaseException:  # it would act on the server after us
            process.kill_all()
            raise


def _await(is_back: Callable[[], bool], clock: Clock, name: str, *, trouble: str) -> None:
    """Return once the server is back."""
    lacks = trouble_until(is_back, clock, _TIMEOUT_S, _POLL_S, trouble)
    if lacks:
        raise TargetError(
            f"{_TIMEOUT_S:.0f} s after the {name} command the server is not back: {lacks}",
            hint="Look at the server's log.",
        )
