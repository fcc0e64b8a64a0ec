"""What every platform has in common whose server is there already, whatever database system it is.

Nothing of the server is ours to stop, to limit, to look into or to make anew. What is changed there
is announced before, and undone in the end.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence

from steelyard.gateways.process import Processes, RunningPrograms
from steelyard.model.command import Command, ServerAddress
from steelyard.model.errors import PreflightError, SteelyardError, TargetError
from steelyard.model.findings import Finding
from steelyard.model.outside import OnServer
from steelyard.model.program import ServerProgram
from steelyard.platforms.elsewhere import ServerElsewhere
from steelyard.platforms.endpoint.changes import Announcing, Changes
from steelyard.platforms.endpoint.server_findings import UNSEEN
from steelyard.platforms.kubernetes.sight import PodSight
from steelyard.platforms.paused_generators import PausedGenerators
from steelyard.platforms.platform import Guarded, Ledger, PreparedState, Standstill


class OthersServer(ServerElsewhere):
    """One running server that somebody else has started.

    Args:
        campaign_id: Names the directory of this machine where scripts and logs go.
        announcing: How changes on the server are written down, and where it is.
        ledger: Is told before anything is made or changed.
        processes: To run the generator.
        paused: Generators that take turns with those of other servers; None: they cannot.
    """

    def __init__(
        self,
        campaign_id: str,
        announcing: Announcing,
        ledger: Ledger,
        processes: Processes,
        paused: PausedGenerators | None = None,
    ) -> None:
        super().__init__(campaign_id, ledger, processes)
        self._paused = paused
        self._place = announcing.place
        self._mark = announcing.mark
        self._changes = Changes(announcing, ledger, self._undo)
        self._since: object = None  # the start of the server under which a treatment is in force

    @property
    def _where(self) -> str:
        return self._place.label

    @property
    def _entrance(self) -> ServerAddress:
        return self._place.entrance()

    @property
    def address(self) -> ServerAddress:
        """Return where sessions under the treatment in force go.

        Raises:
            TargetError: No treatment is in force.
        """
        if self._since is None:
            raise TargetError("no treatment is in force on the server")
        return self._inside(self._entrance)

    @abstractmethod
    def _inside(self, entrance: ServerAddress) -> ServerAddress:
        """Return the way in under the treatment: its databases, its user, its sessions."""

    @property
    def is_running(self) -> bool:
        """Return whether the server answers and was not restarted since the activation."""
        try:
            return self._since is not None and self._started_at() == self._since
        except TargetError:
            return False

    @abstractmethod
    def _started_at(self) -> object:
        """Return what tells one start of the server from another.

        Raises:
            TargetError: It does not answer.
        """

    def begin_together(self, commands: Sequence[Command], *, timeout_s: float) -> RunningPrograms:
        """Start load generators on this machine and return them while they run."""
        return self._in_turns.begin_together(self._placed(commands), timeout_s=timeout_s)

    @property
    def standstill(self) -> Standstill:
        """Return what stops the generators between turns; the server goes on."""
        return self._in_turns.standstill

    @property
    def guarded(self) -> Guarded:
        """Return what a guard lets go on: the generators, which work in our directory."""
        return Guarded(groups=(), directory=self._live)

    @property
    def _in_turns(self) -> PausedGenerators:
        if self._paused is None:
            raise TargetError(f"the load generators for {self._where} cannot be paused")
        return self._paused

    def sight(self) -> PodSight | None:
        """Return what of its pod can be watched; None where it is in no cluster."""
        return self._place.sight()

    def reprovision(
        self,
        program: ServerProgram,
        content: Sequence[object],
        build: Callable[[ServerAddress], None],
    ) -> PreparedState:
        """Refuse: nobody may remake what somebody else made.

        Raises:
            PreflightError: Always.
        """
        raise PreflightError(
            f"Steelyard did not make the server at {self._where} and cannot make it anew",
            hint=f"Use a target that Steelyard makes (`kind: {self._made_kind}`), or leave"
            " `switch` out.",
        )

    @property
    @abstractmethod
    def _made_kind(self) -> str:
        """Return the kind of target that Steelyard makes on this machine."""

    def stop(self, *, keep_data: bool) -> None:
        """Leave the server alone: it is not ours to stop."""
        self._since = None

    def logs(self) -> str:
        """Return nothing: the server's log is out of reach."""
        return ""

    def _with_place(self, said: Iterable[Finding]) -> tuple[Finding, ...]:
        """Return what is said of the server, and of its place.

        In a cluster the pod shows what is unseen elsewhere.
        """
        unseen = self._place.inside is None
        return (
            *(each for each in said if unseen or each.code != UNSEEN),
            *self._place.findings(),
        )

    def _undo(self, thing: OnServer, way: ServerAddress) -> None:
        """Undo one thing on the server that is reached there now."""
        self._undo_there(thing, way.password, way if thing.inside is not None else None)

    @abstractmethod
    def _undo_there(self, thing: OnServer, password: str, reached: ServerAddress | None) -> None:
        """Undo one thing; ``reached`` is where a server in a cluster is, None: where it was."""

    def _undone(self) -> list[SteelyardError]:
        """Put back what was changed and drop what was made, each whatever becomes of others.

        Returns what went wrong.
        """
        self._since = None
        troubles: list[SteelyardError] = []
        try:
            self._place.leave()
        except SteelyardError as error:
            troubles.append(error)
        return troubles + self._changes.undo(id(self))
