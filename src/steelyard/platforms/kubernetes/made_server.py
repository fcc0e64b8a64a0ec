"""The servers that a campaign makes in a cluster of one target: one at a time, each under a name.

Whatever operator or set it is of, a server is announced, made, brought under treatments, and taken
away with its volumes. Of those that are gone their log, their nodes and the volumes that stayed are
known still.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, Final, Generic, TypeVar

from steelyard.gateways.clock import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.gateways.process import Processes
from steelyard.model.command import ServerAddress
from steelyard.model.environment import Fact
from steelyard.model.errors import PrivilegeError, TargetError
from steelyard.model.kubernetes import SecretRef
from steelyard.model.stored_keys import stored_key
from steelyard.platforms.kubernetes.belongings import Belongings
from steelyard.platforms.kubernetes.naming import object_name
from steelyard.platforms.kubernetes.reaching import Reach
from steelyard.platforms.kubernetes.removal import Held
from steelyard.platforms.tokens import token_of

_LOG_LINES: Final = 2000  # of each server that ends; a guess


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeOptions:
    """How a campaign uses a server of its own.

    Attributes:
        secret: With user and password; it is there before the server is made.
        provisions: Whether every visit makes it anew.
    """

    campaign_id: str
    namespace: str
    secret: SecretRef
    provisions: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeMeans:
    """The gateways that a server in a cluster needs, whatever database system it is.

    Attributes:
        processes: Of the load generators: pods.
        told: Takes a sentence of progress.
    """

    api: KubernetesApi
    processes: Processes
    reach: Reach
    belongings: Belongings
    clock: Clock
    told: Callable[[str], None]


@dataclass(slots=True, kw_only=True)
class Standing:
    """A server that is there.

    Attributes:
        since: Which start of it has the treatment in force; None: none is in force.
    """

    since: object = None


There = TypeVar("There", bound=Standing)
Announced = TypeVar("Announced")


class MadeServer(ABC, Generic[There, Announced]):
    """The server of a campaign, while there is one.

    Args:
        campaign_id: Of the campaign.
        target: What is made; names of equal targets are the same.

    Attributes:
        noun: What such a server is called in messages.
        part: What of it runs on a node, in findings.
        kept: Volumes that their class keeps.
        nodes: That it ran on, in order.
    """

    noun: ClassVar[str]
    part: ClassVar[str]

    def __init__(self, campaign_id: str, target: object) -> None:
        self._campaign_id = campaign_id
        self._token = token_of(f"{campaign_id} {stored_key(target)}")
        self._current: There | None = None
        self._announced: Announced | None = None
        self._number = 0
        self._said: list[str] = []
        self._facts: tuple[Fact, ...] = ()
        self.kept: list[Held] = []
        self.nodes: list[str] = []

    @property
    def _there(self) -> There:
        if self._current is None:
            raise TargetError(f"no {self.noun} was made yet")
        return self._current

    @property
    def is_there(self) -> bool:
        """Return whether a server was made and not taken away."""
        return self._current is not None

    @property
    def facts(self) -> tuple[Fact, ...]:
        """Return what is known of the last server, which may be gone when somebody asks."""
        return self._facts

    @property
    def address(self) -> ServerAddress:
        """Return where it is reached.

        Raises:
            TargetError: No treatment is in force.
        """
        if self._there.since is None:
            raise TargetError(f"no treatment is in force on the {self.noun}")
        return self._entrance()

    @abstractmethod
    def _entrance(self) -> ServerAddress:
        """Return where it is reached, under a treatment or not."""

    @property
    def is_running(self) -> bool:
        """Return whether it answers and was not restarted since the activation."""
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

    def rest(self) -> None:
        """Have no treatment in force."""
        if self._current is not None:
            self._current.since = None

    def _name(self, number: int) -> str:
        """Return the name of the server of a number."""
        return object_name(self._campaign_id, f"{self._token[:4]}-{number}")

    def _seen_on(self, node: str) -> None:
        if node and node not in self.nodes:
            self.nodes.append(node)

    def take_away(self) -> None:
        """Remove the server with all that it had, if there is one or was to be.

        Raises:
            LeftBehindError: Something of it does not go away.
        """
        if self._announced is None:
            return
        if self._current is not None:
            self._keep_log()
            self._close_way()
            self._current = None
        self.kept.extend(self._remove(self._announced))
        self._announced = None

    @abstractmethod
    def _close_way(self) -> None:
        """Close the way to the server: it is about to go."""

    @abstractmethod
    def _remove(self, announced: Announced) -> Iterable[Held]:
        """Remove what was announced; return the volumes that stay."""

    def _keep_log(self) -> None:
        """Keep what the server logged, which goes with its pod."""
        self._said.append(self._log())

    def _log(self) -> str:
        if self._current is None:
            return ""
        try:
            return self._read_log(_LOG_LINES)
        except (TargetError, PrivilegeError):  # it is gone, or nobody may ask
            return ""

    @abstractmethod
    def _read_log(self, lines: int) -> str:
        """Return the last lines that the server logged.

        Raises:
            TargetError: Its pod is gone.
            PrivilegeError: Nobody may ask.
        """

    def logs(self) -> str:
        """Return what the servers logged in all pods, the last lines of each."""
        return "".join([*self._said, self._log()])
