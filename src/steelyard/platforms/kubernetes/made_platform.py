"""What every platform has in common whose servers a campaign makes in a cluster and takes away.

Equal targets share one server for the campaign. Where targets differ, every visit makes its server
anew, volumes and all, and only one is there at a time.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from steelyard.gateways.process import Processes
from steelyard.model.command import ServerAddress
from steelyard.model.environment import Fact
from steelyard.model.errors import SteelyardError
from steelyard.model.findings import Finding
from steelyard.model.program import ServerProgram
from steelyard.platforms.elsewhere import ServerElsewhere
from steelyard.platforms.kubernetes.made_server import MadeOptions, MadeServer
from steelyard.platforms.kubernetes.place_findings import moved, stays
from steelyard.platforms.platform import Ledger, PreparedState


class MadeInCluster(ServerElsewhere):
    """The servers of one target, one at a time.

    Args:
        options: How they are used.
        ledger: Is told before anything is made on this machine.
        processes: Of the load generators.
        own: The server, while there is one.
    """

    def __init__(
        self,
        options: MadeOptions,
        ledger: Ledger,
        processes: Processes,
        own: MadeServer[Any, Any],
    ) -> None:
        super().__init__(options.campaign_id, ledger, processes)
        self._own = own
        self._provisions = options.provisions

    @property
    def address(self) -> ServerAddress:
        """Return where the server is reached.

        Raises:
            TargetError: No treatment is in force.
        """
        return self._own.address

    @property
    def is_running(self) -> bool:
        """Return whether the server answers and was not restarted since the activation."""
        return self._own.is_running

    def prepare(
        self,
        program: ServerProgram,
        content: Sequence[object],
        build: Callable[[ServerAddress], None],
    ) -> PreparedState:
        """Return the state, made now on a server that is made now."""
        if self._prepared is None:
            self._prepared = self._made_anew(program, content, build)
        return self._prepared

    def reprovision(
        self,
        program: ServerProgram,
        content: Sequence[object],
        build: Callable[[ServerAddress], None],
    ) -> PreparedState:
        """Make server, volumes and data anew; of the last ones nothing is left.

        Raises:
            TargetError: The server does not come up, for a reason that is told.
            LeftBehindError: The last one does not go away.
        """
        self._prepared = self._made_anew(program, content, build)
        return self._prepared

    def _made_anew(
        self,
        program: ServerProgram,
        content: Sequence[object],
        build: Callable[[ServerAddress], None],
    ) -> PreparedState:
        self._take_away()  # the last one, also where it did not come up
        return self._state_of(program, content, self._build(program, build))

    @abstractmethod
    def _build(self, program: ServerProgram, build: Callable[[ServerAddress], None]) -> int:
        """Make a server and its data; return the bytes of the data, 0 where nobody knows.

        Raises:
            TargetError: The server does not come up, for a reason that is told.
        """

    def has_live_copy(self, state: PreparedState) -> bool:
        """Return whether the data of a state are on a server that is there."""
        return self._own.is_there and self._prepared == state

    def stop(self, *, keep_data: bool) -> None:
        """Leave the server alone; one that is made for each visit makes room for the next."""
        self._own.rest()
        if self._provisions and not keep_data:
            self._take_away()

    def _take_away(self) -> None:
        self._prepared = None
        self._own.take_away()

    def logs(self) -> str:
        """Return what the servers logged in the pods of this campaign, the last lines of each."""
        return self._own.logs()

    def facts(self) -> tuple[Fact, ...]:
        """Return what a reader must know of the place: all of it once a server was made."""
        return (*self._own.facts, *self._class_facts())

    @abstractmethod
    def _class_facts(self) -> tuple[Fact, ...]:
        """Return what the storage classes of the target say of themselves."""

    def findings(self) -> tuple[Finding, ...]:
        """Return what is worth knowing of the place."""
        own = self._own
        return (
            *self._target_findings(),
            *moved(own.part, own.nodes),
            *map(stays, own.kept),
        )

    @abstractmethod
    def _target_findings(self) -> Iterator[Finding]:
        """Yield what is worth knowing of the target as it was made."""

    def _undone(self) -> list[SteelyardError]:
        """Remove the server and all that it had; return what went wrong."""
        try:
            self._take_away()
        except SteelyardError as error:
            return [error]
        return []
