"""What a campaign makes or changes outside its record, and all that is needed to undo it.

Each kind has a ``label``, which tells things of one campaign apart, and its place in the order of
undoing. ``campaign.cleanup`` undoes it. What a record lists is a claim; a value of ``Outside``
that is undone comes from the registry of this account.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar

from steelyard.core.command import ServerAddress
from steelyard.core.kubernetes import ObjectRef, SecretRef
from steelyard.core.stack import Knob

REDIS_MARK: Final = "steelyard:"  # so begins what Steelyard calls its own on a Redis server


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeDirectory:
    """A tree that is removed, after the processes in it were ended."""

    path: Path

    @property
    def label(self) -> str:
        """Return its path."""
        return str(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlGroup:
    """A control group that is removed when no process is in it."""

    path: Path

    @property
    def label(self) -> str:
        """Return its path."""
        return str(self.path)


class Foreign(StrEnum):
    """A kind of thing on somebody else's server."""

    DATABASE = "database"
    TABLES = "tables"
    SETTINGS = "settings"
    KEYS = "keys"  # of a Redis server, in a database of theirs
    CONFIG = "config"  # of a Redis server, by CONFIG SET
    USER = "user"  # of a Redis server, in its ACL

    @property
    def is_of_redis(self) -> bool:
        """Return whether it is on a Redis server."""
        return self in (Foreign.KEYS, Foreign.CONFIG, Foreign.USER)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedSetting:
    """A setting as it was before the first change.

    Attributes:
        value: What stood in ``postgresql.auto.conf``, or what a Redis server said; None where
            nothing did.
    """

    name: str
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnedKnob:
    """A knob of the stack that a campaign turned, and what was there before the first time.

    Attributes:
        knob: As it was turned first; its kind and place say what goes back.
        snapshot: As its door made it.
    """

    knob: Knob
    snapshot: str

    @property
    def label(self) -> str:
        """Return what it is called in lists; it tells knobs of one campaign apart."""
        return f"{self.knob.kind} {self.knob.place}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInCluster:
    """How a server in a Kubernetes cluster is found again: its address here is of the moment.

    Attributes:
        context: Of the kubeconfig; empty: that of the pod that ran the campaign.
        server: URL of the API, so that a context that means another cluster now is noticed.
        service: That leads to it, in the namespace.
        secret: With the user and the password.
    """

    context: str
    server: str
    namespace: str
    service: str
    port: int = 5432
    secret: SecretRef


@dataclass(frozen=True, slots=True, kw_only=True)
class OnServer:
    """Something to undo on a server, with all that is needed but the password.

    Attributes:
        host: As in ``ServerAddress``, like the two after it.
        parameters: Further libpq keywords with their values, or those of a Redis address.
        database: That was made, that holds the tables, or that is connected to for the settings; a
            number on a Redis server.
        entrance: Database to connect to for dropping another.
        mark: The comment on what was made, or the key beside the keys; nothing without it is
            dropped.
        names: Of tables, or of a user.
        saved: Settings before the first change.
        restart_command: Restarts the server after the settings were put back; empty: a reload does.
        inside: It is in a Kubernetes cluster; then host and port are its service's, and how it is
            reached from here is found anew.
    """

    resource: Foreign
    host: str
    port: int
    user: str
    parameters: tuple[tuple[str, str], ...] = ()
    database: str
    entrance: str
    mark: str
    names: tuple[str, ...] = ()
    saved: tuple[SavedSetting, ...] = ()
    restart_command: tuple[str, ...] = ()
    inside: ServerInCluster | None = None

    @property
    def label(self) -> str:
        """Return what it is called in lists; it tells things of one campaign apart."""
        where = f"on {self.host}:{self.port}" if self.port else f"on {self.host}"
        if self.resource is Foreign.USER:
            return f"user {', '.join(self.names)} {where}"
        if self.resource is Foreign.KEYS:
            return f"keys in database {self.database} {where}"
        if self.resource in (Foreign.SETTINGS, Foreign.CONFIG):
            return f"settings {', '.join(saved.name for saved in self.saved)} {where}"
        if self.resource is Foreign.TABLES:
            return f"tables {', '.join(self.names)} in database {self.database} {where}"
        return f"database {self.database} {where}"

    def address(self, password: str = "") -> ServerAddress:
        """Return how to reach its server, at the database to connect to."""
        return ServerAddress(
            host=self.host,
            port=self.port,
            user=self.user,
            database=self.entrance,
            password=password,
            parameters=self.parameters,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InCluster:
    """An object that a campaign makes in a Kubernetes cluster, or changes there.

    Attributes:
        context: Of the kubeconfig; empty: that of the pod that ran the campaign.
        server: URL of the API, so that a context that means another cluster now is noticed.
        campaign_id: Value of the label; nothing that is made is deleted without it.
        before: What a merge patch puts back, as JSON; empty where the object was made.
        uid: Of an object that is changed: another one of its name is not put back.
        cluster: A namespace and its uid, as ``kube-system=UID``, which no other cluster has; empty
            where none could be read.
    """

    context: str
    server: str
    ref: ObjectRef
    campaign_id: str
    before: str = ""
    uid: str = ""
    cluster: str = ""

    @property
    def label(self) -> str:
        """Return what it is called in lists; it tells things of one campaign apart."""
        what = "fields of " if self.before else ""
        return f"{what}{self.ref.label} in {self.context or 'its own cluster'}"


Outside = OnServer | InCluster | TurnedKnob | ControlGroup | MadeDirectory
# The servers first: a way to one may lead through what is taken away after it. Of one server its
# settings first: while they are not as they were, the marks on what was made keep other campaigns
# away, and what needs a restart is waited for by what comes after it.
_UNDOING_ORDER: Final = (OnServer, InCluster, TurnedKnob, ControlGroup, MadeDirectory)
_OF_A_SERVER: Final = (
    Foreign.USER,
    Foreign.CONFIG,
    Foreign.SETTINGS,
    Foreign.KEYS,
    Foreign.TABLES,
    Foreign.DATABASE,
)
_Thing = TypeVar("_Thing", bound=Outside)


def in_undoing_order(things: Iterable[_Thing]) -> list[_Thing]:
    """Return things in the order in which they are undone; equals stay in the order given."""

    def turn(thing: Outside) -> tuple[int, int]:
        inner = _OF_A_SERVER.index(thing.resource) if isinstance(thing, OnServer) else 0
        return _UNDOING_ORDER.index(type(thing)), inner

    return sorted(things, key=turn)
