"""What is outside: commands to run, servers to reach, and what a campaign makes or changes there.

An engine asks for commands and a platform runs them. What a platform must know of a server program
stands here; an engine supplies it.

Each kind of thing that is made or changed is a class of ``Outside``, with the ``word`` by which
records name it and a ``label``, which tells things of one campaign apart. How it is shown and
undone is one entry of ``campaign.cleanup.undoing``. What a record lists is a claim; a value of
``Outside`` that is undone comes from the registry of this account.

Prepared data and noise profiles are found again, in a later version too, by keys. A key is the hash
of JSON: the fields of a dataclass by their names, sorted. The name of the class is no part of it,
nor is a field that has its default, so that a class may be renamed and a field with a default
added. Who changes what a default means changes ``FORMAT``.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Protocol, TypeVar, get_args

from steelyard.core.kubernetes import ObjectRef, SecretRef
from steelyard.core.stack import Knob
from steelyard.core.wording import redacted

_SERVER_ERROR: Final = re.compile(r"\b(ERROR|FATAL|PANIC): ")


def host_and_port(host: str, port: int | str) -> str:
    """Return them as one word, in which an IPv6 address stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One program call without a shell.

    Attributes:
        argv: Program and arguments; secrets never go here.
        secrets: What stands in ``argv`` for a word that only the program gets, and the word: the
            password of a guest, where the program takes it in no other way.
        environment: Added to a minimal environment; kept out of every log and repr.
        directory: Working directory; leftovers of a campaign are recognised by it.
        account: Name of the account to run as when Steelyard is root; None means no change.
        parent_death_signal: Signal the kernel sends it when Steelyard dies; 0 means none.
        groups: Directories of the control groups that it joins before it becomes the program.
        reads: Files of ours that it reads.
        writes: How the names of files begin that it writes for us, with their directory; None:
            it writes none.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    directory: Path | None = None
    account: str | None = None
    parent_death_signal: int = 0
    groups: tuple[Path, ...] = ()
    reads: tuple[Path, ...] = ()
    writes: Path | None = None

    @property
    def whole_argv(self) -> tuple[str, ...]:
        """Return what the program gets; no record, log or message may have it."""
        words = self.argv
        for name, secret in self.secrets.items():
            words = tuple(word.replace(name, secret) for word in words)
        return words


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """What a finished command printed."""

    argv: tuple[str, ...]
    exit_status: int
    stdout: str
    stderr: str

    @property
    def succeeded(self) -> bool:
        """Return whether the exit status is 0."""
        return self.exit_status == 0

    def tail(self, lines: int = 5) -> str:
        """Return the last lines of what it printed, standard error first choice; no secrets."""
        text = redacted(self.stderr.strip() or self.stdout.strip())
        return "\n".join(text.splitlines()[-lines:])

    def cause(self, lines: int = 3) -> str:
        """Return what a client printed from the server's first error on, else its last lines.

        pgbench with prepared statements ends with statements that do not exist: that one could not
        be prepared, and why, it says before.
        """
        printed = self.stderr.splitlines()
        first = next((i for i, line in enumerate(printed) if _SERVER_ERROR.search(line)), None)
        if first is None:
            return self.tail(lines)
        return redacted("\n".join(printed[first : first + lines]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """A user of a server that is made for one campaign's load generator and goes with it.

    Some generators take a password as an argument only, where others can read it: so they come as
    somebody who may do nothing but send the load.
    """

    name: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """How to reach a server: libpq's words, which Redis shares where they apply.

    Attributes:
        host: Name, address, or directory of the Unix socket.
        password: From the environment or made for this campaign; never in argv or a record.
        parameters: Further libpq keywords with their values, such as ``sslmode``; no secrets.
        databases: The database of each data set where a platform made it; elsewhere it is
            called like the data set and made by the engine.
        service: Host and port of the Service that it leads to in a cluster; messages name it, since
            a forwarded port tells nothing.
        beside: The replica that a platform started beside it; None: there is none, or it is not
            the platform's.
        guest: As whom a generator comes that cannot keep the password to itself; None: as
            ``user``.
    """

    host: str
    port: int
    user: str = ""
    database: str = ""
    password: str = field(default="", repr=False)
    parameters: tuple[tuple[str, str], ...] = ()
    databases: tuple[tuple[str, str], ...] = ()
    service: tuple[str, int] | None = None
    beside: "ServerAddress | None" = None
    guest: Guest | None = None

    def at(self, dataset: str) -> "ServerAddress":
        """Return the address of a data set's database."""
        return replace(self, database=dict(self.databases).get(dataset, dataset))


class ServerProgram(Protocol):
    """One server program of one version: how it is made, configured and started."""

    @property
    def version(self) -> str:
        """Return the version as the program reports it."""

    @property
    def identity(self) -> tuple[str, ...]:
        """Return what decides the content of an empty data directory."""

    @property
    def while_preparing(self) -> Mapping[str, str]:
        """Return settings that make loading fast; durability does not matter then."""

    @property
    def stop_signals(self) -> tuple[int, int]:
        """Return the signals for an orderly stop and for one at once."""

    @property
    def superuser(self) -> tuple[str, str]:
        """Return the user and the database through which a new server is reached."""

    def create(self, data: Path, account: str | None) -> Command:
        """Return the command that makes an empty data directory."""

    def start(self, data: Path, account: str | None) -> Command:
        """Return the command that runs the server in the foreground."""

    def configuration(
        self, settings: Mapping[str, str], address: ServerAddress, sockets: Path
    ) -> Mapping[str, str]:
        """Return the text of each configuration file, by its name in the data directory."""

    def is_ready(self, address: ServerAddress) -> bool:
        """Return whether the server answers."""

    def is_loading(self, address: ServerAddress) -> bool:  # noqa: ARG002 - none says it by itself
        """Return whether one that does not answer yet says that it is reading its data."""
        return False

    def companion(self, settings: Mapping[str, str], address: ServerAddress) -> "Companion | None":  # noqa: ARG002 - it is alone
        """Return the server that is started beside a running one with these settings, or None."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Companion:
    """A second server, started after the first and stopped before it: a replica of it.

    Attributes:
        program: Its data directory begins empty; it is ready when it has all that the first has.
    """

    program: ServerProgram
    settings: Mapping[str, str]


POSTGRES_MARK: Final = "steelyard campaign "  # so begin comments on what Steelyard made there
REDIS_MARK: Final = "steelyard:"  # so begins what Steelyard calls its own on a Redis server


# How records name the kinds, in the order in which what is left behind is told.
Word = Literal["directory", "cgroup", "on-server", "in-cluster", "in-aws", "knob"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _AtPath:
    path: Path

    @property
    def label(self) -> str:
        """Return what it is called in lists, as with every kind: it tells its like apart."""
        return str(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeDirectory(_AtPath):
    """A tree that is removed, after the processes in it were ended."""

    word: ClassVar[Word] = "directory"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlGroup(_AtPath):
    """A control group that is removed when no process is in it."""

    word: ClassVar[Word] = "cgroup"


class Foreign(StrEnum):
    """A kind of thing on somebody else's server, in the order in which they go.

    While settings are not as they were, the marks on what was made keep other campaigns away, and
    what needs a restart is waited for by what comes after it.
    """

    USER = "user"  # of a Redis server, in its ACL
    CONFIG = "config"  # of a Redis server, by CONFIG SET
    SETTINGS = "settings"
    KEYS = "keys"  # of a Redis server, in a database of theirs
    TABLES = "tables"
    DATABASE = "database"

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

    word: ClassVar[Word] = "knob"

    knob: Knob
    snapshot: str

    @property
    def label(self) -> str:
        """Return what it is called."""
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

    word: ClassVar[Word] = "on-server"

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
        """Return what it is called."""
        where = f"on {host_and_port(self.host, self.port)}" if self.port else f"on {self.host}"
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

    word: ClassVar[Word] = "in-cluster"

    context: str
    server: str
    ref: ObjectRef
    campaign_id: str
    before: str = ""
    uid: str = ""
    cluster: str = ""

    @property
    def label(self) -> str:
        """Return what it is called."""
        what = "fields of " if self.before else ""
        return f"{what}{self.ref.label} in {self.context or 'its own cluster'}"


class Rented(StrEnum):
    """A kind of thing in an account of AWS, in the order in which they go."""

    INSTANCE = "DB instance"
    CLUSTER = "DB cluster"
    PARAMETER_GROUP = "DB parameter group"
    CLUSTER_PARAMETER_GROUP = "DB cluster parameter group"
    SCHEDULES = "schedule group"  # last: until then it deletes what is billed


@dataclass(frozen=True, slots=True, kw_only=True)
class InAws:
    """Something that a campaign makes in an account of AWS.

    Attributes:
        account: Its number, so that other credentials are noticed.
        name: That tells it from others of its kind in the region: creating is asked for with it.
        campaign_id: Value of its tag; nothing is deleted without it.
    """

    word: ClassVar[Word] = "in-aws"

    account: str
    region: str
    resource: Rented
    name: str
    campaign_id: str

    @property
    def label(self) -> str:
        """Return what it is called."""
        return f"{self.resource} {self.name} in {self.region}, account {self.account}"

    def stays_with(self, left: Iterable["InAws"]) -> bool:
        """Return whether it stays while these do: what belongs to a server, and the schedules.

        A group that is in use is refused for an hour, and a schedule may yet delete the server.
        """
        is_last = self.resource is Rented.SCHEDULES
        return any(is_last or each.name == self.name for each in left)


Outside = OnServer | InCluster | InAws | TurnedKnob | ControlGroup | MadeDirectory
# In the order of undoing: the servers first, for a way to one may lead through what is taken away
# after it.
KINDS: Final[tuple[type[Outside], ...]] = get_args(Outside)
_Thing = TypeVar("_Thing", bound=Outside)


def in_undoing_order(things: Iterable[_Thing]) -> list[_Thing]:
    """Return things in the order in which they are undone; equals stay in the order given."""

    def turn(thing: Outside) -> tuple[int, int]:
        part = 0
        if isinstance(thing, OnServer | InAws):
            part = list[object](type(thing.resource)).index(thing.resource)
        return KINDS.index(type(thing)), part

    return sorted(things, key=turn)


FORMAT: Final = 1
_LENGTH: Final = 16
_ALWAYS: Final = "kind"  # tells classes apart whose other fields are equal


def stored_key(value: object) -> str:
    """Return the key of a value: equal for equal ones, in every process and version."""
    text = json.dumps([FORMAT, canonical(value)], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]


def canonical(value: Any) -> Any:  # noqa: ANN401 - what JSON can hold
    """Return what counts of a value as JSON has it.

    Raises:
        TypeError: It is no dataclass, sequence, mapping or plain value.
    """
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, tuple | list):
        return [canonical(part) for part in value]
    if isinstance(value, Mapping):
        return {str(name): canonical(part) for name, part in value.items()}
    if is_dataclass(value):
        parts = dict[str, object]()
        for field in fields(value):  # what is compared, and has not its default
            part, make = getattr(value, field.name), field.default_factory
            default = field.default if make is MISSING else make()
            is_default = field.name != _ALWAYS and default is not MISSING and part == default
            if field.compare and not is_default:
                parts[field.name] = canonical(part)
        return parts
    raise TypeError(f"no stored key is made of {type(value).__name__}")
