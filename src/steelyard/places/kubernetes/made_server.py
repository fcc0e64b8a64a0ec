"""What every platform has in common whose servers a campaign makes in a cluster and takes away.

Equal targets share one server for the campaign. Where targets differ, every start makes its server
anew, volumes and all, under a name of its own, and only one is there at a time.

Whatever operator or set it is of, a server is announced, made, brought under configurations, and
taken away with its volumes. Of those that are gone their log, their nodes and the volumes that
stayed are known still.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Generic, TypeVar

from steelyard.core.findings import Fact, Finding, Severity
from steelyard.core.kubernetes import (
    CLAIM,
    LATE,
    ContainerRef,
    Kind,
    Manifest,
    ObjectRef,
    SecretRef,
    class_in,
    is_node_bound,
)
from steelyard.core.outside import ServerAddress, ServerProgram, stored_key
from steelyard.core.wording import PrivilegeError, SteelyardError, TargetError
from steelyard.gateways.doors import Doors
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.places.elsewhere import ServerElsewhere, token_of
from steelyard.places.kubernetes.belongings import Belongings, object_name
from steelyard.places.kubernetes.reaching import Reach
from steelyard.places.kubernetes.undoing import Held, await_volumes, held_by
from steelyard.places.protocol import Ledger, PodSight, PreparedState

_LOG_LINES: Final = 2000  # of each server that ends; a guess


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeOptions:
    """How a campaign uses a server of its own.

    Attributes:
        secret: With user and password; it is there before the server is made.
        provisions: Whether every start makes it anew.
    """

    campaign_id: str
    namespace: str
    secret: SecretRef
    provisions: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeMeans:
    """The gateways that a server in a cluster needs, whatever database system it is.

    Attributes:
        told: Takes a sentence of progress.
    """

    api: KubernetesApi
    doors: Doors
    reach: Reach
    belongings: Belongings
    told: Callable[[str], None]


@dataclass(slots=True, kw_only=True)
class Standing:
    """A server that is there.

    Attributes:
        since: Which start of it has the configuration in force; None: none is in force.
    """

    since: object = None


There = TypeVar("There", bound=Standing)


_BIND: Final = "Bind it to one node by `node_selector:`, or let every start have another."


def early_volumes(what: str, storage_class: str | None, facts: Sequence[Fact]) -> Iterator[Finding]:
    """Yield that volumes come to a node before anybody knows where their pod runs.

    Args:
        what: Runs on them: the database, the server.
        storage_class: Of the target; None: the default one.
        facts: Of the place, with those of the class.
    """
    storage = class_in(facts, storage_class)
    if storage is not None and storage.binding != LATE and is_node_bound(storage):
        yield place_finding(
            "volume-before-pod",
            f"the storage class {storage.name} binds volumes to a node before a pod needs them"
            f" (volumeBindingMode: {storage.binding}), so the {what} runs wherever they came",
            f"Use a class with volumeBindingMode: {LATE}.",
        )


def moved(what: str, nodes: Sequence[str], remedy: str = _BIND) -> Iterator[Finding]:
    """Yield that a server was on several nodes, where it was on more than one.

    Args:
        what: Ran on them: the primary, the server.
        nodes: In order.
        remedy: How it stays on one.
    """
    if len(nodes) > 1:
        yield place_finding(
            "database-moved",
            f"the {what} ran on several nodes: {', '.join(nodes)}; what differs between them is in"
            " the numbers",
            remedy,
        )


def stays(held: Held) -> Finding:
    """Return that a volume was left, because its class wants it so."""
    storage_class = f"class {held.storage_class}" if held.storage_class else "class"
    return place_finding(
        "volume-retained",
        f"{held.ref.label} is still there: its {storage_class} retains volumes"
        " (reclaimPolicy: Retain)",
        f"kubectl delete pv {held.ref.name}, and what it holds, when nobody needs it.",
        Severity.INFO,
    )


def place_finding(
    code: str, message: str, remedy: str, severity: Severity = Severity.WARNING
) -> Finding:
    """Return a finding of a campaign's place."""
    return Finding(code=code, severity=severity, message=message, remedy=remedy, subject="campaign")


class MadeInCluster(ServerElsewhere, Generic[There]):
    """The servers of one target, one at a time.

    Args:
        what: Is made; names of equal ones are the same.

    Attributes:
        noun: What such a server is called in messages.
        part: What of it runs on a node, in findings.
        label: That its pods and claims have; the value is its name.
        kept: Volumes that their class keeps.
        nodes: That it ran on, in order.
    """

    noun: ClassVar[str]
    part: ClassVar[str]
    label: ClassVar[str]

    def __init__(
        self, options: MadeOptions, ledger: Ledger, means: MadeMeans, what: object
    ) -> None:
        super().__init__(options.campaign_id, ledger, means.doors)
        self._options = options
        self._means = means
        self._token = token_of(f"{options.campaign_id} {stored_key(what)}")
        self._current: There | None = None
        self._is_announced = False
        self._number = 0
        self._said: list[str] = []
        self._facts: tuple[Fact, ...] = ()
        self.kept: list[Held] = []
        self.nodes: list[str] = []

    @property
    def name(self) -> str:
        """Return the name of the server that was made last, or is to be."""
        return self._name(self._number)

    def _name(self, number: int) -> str:
        return object_name(self._options.campaign_id, f"{self._token[:4]}-{number}")

    def _announce(self) -> None:
        """Let there be another server, of which everything is taken away later."""
        self._number += 1
        self._is_announced = True

    @property
    def _there(self) -> There:
        if self._current is None:
            raise TargetError(f"no {self.noun} was made yet")
        return self._current

    @property
    @abstractmethod
    def container(self) -> ContainerRef | None:
        """Return its container, while it is there; None: nobody knows which it is."""

    @property
    def address(self) -> ServerAddress:
        """Return where it is reached.

        Raises:
            TargetError: No configuration is in force.
        """
        if self._there.since is None:
            raise TargetError(f"no configuration is in force on the {self.noun}")
        return self._entrance()

    @abstractmethod
    def _entrance(self) -> ServerAddress:
        """Return where it is reached, under a configuration or not."""

    @property
    def is_running(self) -> bool:
        """Return whether it answers and was not restarted since the start."""
        current = self._current
        if current is None or current.since is None:
            return False
        try:
            return self._started_at() == current.since
        except TargetError:
            return False

    @abstractmethod
    def _started_at(self) -> object:
        """Return what tells one start of it from another.

        Raises:
            TargetError: It does not answer.
        """

    def _rest(self) -> None:
        """Have no configuration in force."""
        if self._current is not None:
            self._current.since = None

    def _seen_on(self, node: str) -> None:
        if node and node not in self.nodes:
            self.nodes.append(node)

    def sight(self) -> PodSight | None:
        """Return the server's container; None while there is none."""
        container = None if self._current is None else self.container
        return None if container is None else PodSight(api=self._means.api, database=container)

    def prepare(
        self,
        program: ServerProgram,
        content: Sequence[object],
        build: Callable[[ServerAddress], None],
    ) -> PreparedState:
        """Return the state, made now on a server that is made now."""
        return self._prepared or self.reprovision(program, content, build)

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
        self._take_away()  # the last one, also where it did not come up
        self._prepared = self._state_of(program, content, self._build(program, build))
        return self._prepared

    @abstractmethod
    def _build(self, program: ServerProgram, build: Callable[[ServerAddress], None]) -> int:
        """Make a server and its data; return the bytes of the data, 0 where nobody knows.

        Raises:
            TargetError: The server does not come up, for a reason that is told.
        """

    def has_live_copy(self, state: PreparedState) -> bool:
        """Return whether the data of a state are on a server that is there."""
        return self._current is not None and self._prepared == state

    def stop(self, *, keep_data: bool) -> None:
        """Leave the server alone; one that is made for each start makes room for the next."""
        self._rest()
        if self._options.provisions and not keep_data:
            self._take_away()

    def _take_away(self) -> None:
        """Remove the server with all that it had, if there is one or was to be.

        Raises:
            LeftBehindError: Something of it does not go away.
        """
        self._prepared = None
        if not self._is_announced:
            return
        if self._current is not None:
            self._keep_log()
            self._close_way()
            self._current = None
        self._means.told(f"{self.noun} {self.name} and its volumes are removed")
        claims = self._means.api.list(CLAIM, self._options.namespace, {self.label: self.name})
        volumes = tuple(held_by(self._means.api, claims))
        for ref in self._objects():
            self._means.belongings.remove(ref)
        self.kept.extend(await_volumes(self._means.api, self._means.doors.clock, volumes))
        self._is_announced = False

    @abstractmethod
    def _close_way(self) -> None:
        """Close the way to the server: it is about to go."""

    @abstractmethod
    def _objects(self) -> Iterable[ObjectRef]:
        """Return what was made for the server, in the order in which it is removed."""

    def _parts(self, kind: Kind) -> tuple[Manifest, ...]:
        return self._means.api.list(kind, self._options.namespace, {self.label: self.name})

    def _keep_log(self) -> None:
        """Keep what the server logged, which goes with its pod."""
        self._said.append(self._log())

    def _log(self) -> str:
        container = None if self._current is None else self.container
        if container is None:
            return ""
        try:
            return self._readable(self._means.api.logs(container, lines=_LOG_LINES))
        except (TargetError, PrivilegeError):  # it is gone, or nobody may ask
            return ""

    def _readable(self, log: str) -> str:
        """Return a log as it is read."""
        return log

    def logs(self) -> str:
        """Return what the servers logged in the pods of this campaign, the last lines of each."""
        return "".join([*self._said, self._log()])

    def facts(self) -> tuple[Fact, ...]:
        """Return what a reader must know of the place: all of it once a server was made."""
        return (*self._facts, *self._class_facts())

    @abstractmethod
    def _class_facts(self) -> tuple[Fact, ...]:
        """Return what the storage classes of the target say of themselves."""

    def findings(self) -> tuple[Finding, ...]:
        return (
            *self._target_findings(),
            *moved(self.part, self.nodes),
            *map(stays, self.kept),
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
