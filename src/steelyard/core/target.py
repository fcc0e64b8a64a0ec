"""Where a server runs: one class per kind of target, and what the rest of the house asks of any."""

import math
import re
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import astuple, dataclass, field, replace
from functools import cache
from typing import Any, ClassVar, Final, Literal, Self
from urllib.parse import parse_qs, unquote, urlsplit

from steelyard.core.aws import CLASSES, Volume, burst_lasts_s, hidden_by_burst, volume_of
from steelyard.core.money import Rates
from steelyard.core.storage import PodResources, Provision, Store
from steelyard.core.wording import (
    GIB,
    InputError,
    OpenWord,
    form_of,
    format_duration,
    parse_quantity,
)


class EngineName(OpenWord):
    """A database system that can be weighed; ``engine:`` of an experiment file."""

    POSTGRES = "postgresql"
    REDIS = "redis"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkWords:
    """The words of one engine and its generator; each fills the mark of its place."""

    one: str = "transaction"
    many: str = "transactions"
    many_first: str = "Transactions"
    rate: str = "tps"
    rate_unit: str = "1/s"
    generator: str = "pgbench"
    server: str = "PostgreSQL"

    def fill(self, text: str) -> str:
        """Return a text with these words at the marks of ``core.experiment``."""
        return text if text.isascii() else text.translate(_at_marks(self))


_at_marks = cache(lambda words: dict(enumerate(astuple(words), 0xE101)))  # the first mark


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSystem:
    """What a record and a report must know of a database system and its load generator.

    Attributes:
        layer: Of its settings: their key in a file.
        programs: Regular expression of words that stand for its programs, besides a directory.
        has_programs: What these are, for people.
        uris: Regular expression of how a URI of its servers begins, whatever its case.
        takes_time: The generator is told how long to run; else how many requests to send.
        logs_transactions: It can log each of them; else it prints how long they took together.
        has_ramp: It can leave out the start of a run.
        has_checkpoints: It writes its pages out in cycles.
        passwords: Where the password for a server comes from.
        mixes_kinds: Its servers of different kinds of target can be in one experiment.
        reload: What gives a running server other settings for everyone.
        offers_rate: Its generator can offer a rate.
        has_sessions: A session can have settings of its own.
        builtins: Scripts or tests that its generator brings.
    """

    name: EngineName
    layer: str
    words: WorkWords
    programs: str = ""
    has_programs: str = "the directory of its programs"
    uris: str = ""
    takes_time: bool = True
    logs_transactions: bool = False
    has_ramp: bool = False
    has_checkpoints: bool = False
    passwords: str = "the environment"
    mixes_kinds: bool = False
    reload: str = "a reload"
    offers_rate: bool = False
    has_sessions: bool = False
    builtins: tuple[str, ...] = ()

    def names_programs(self, word: str) -> bool:
        """Return whether a word stands for its programs."""
        return bool(self.programs) and re.fullmatch(self.programs, word) is not None

    def is_of(self, uri: str) -> bool:
        """Return whether a URI is of one of its servers, also in a form that is refused."""
        return bool(self.uris) and re.match(self.uris, uri, re.IGNORECASE) is not None


POSTGRES_WORDS: Final = WorkWords()
REDIS_WORDS: Final = WorkWords(
    one="request",
    many="requests",
    many_first="Requests",
    rate="ops/s",
    rate_unit="",
    generator="redis-benchmark",
    server="Redis",
)
POSTGRES: Final = DatabaseSystem(
    name=EngineName.POSTGRES,
    layer="postgres",
    programs=r"embedded|[0-9]{1,2}(\.[0-9]{1,2})?",
    has_programs="a version of PostgreSQL",
    uris="(jdbc:)?postgres(ql)?:",
    words=POSTGRES_WORDS,
    logs_transactions=True,
    has_ramp=True,
    has_checkpoints=True,
    passwords="~/.pgpass or PGPASSWORD",
    mixes_kinds=True,
    offers_rate=True,
    has_sessions=True,
    builtins=("select-only", "simple-update", "tpcb-like"),
)
REDIS: Final = DatabaseSystem(
    name=EngineName.REDIS,
    layer="redis",
    programs="redis-server|valkey-server",
    has_programs="`redis-server` or `valkey-server`, or a directory with a `/`",
    # Other clients write redis+sentinel, redis-socket, rediss+cluster, valkeys, jdbc:redis.
    uris=r"(jdbc:)?((redis|valkey)s?|unix)([+.-][a-z0-9+.-]*)?:",
    words=REDIS_WORDS,
    takes_time=False,
    passwords="REDISCLI_AUTH",
    reload="CONFIG SET",
    builtins=(
        *("ping_inline", "ping_mbulk", "set", "get", "incr", "lpush", "rpush", "lpop", "rpop"),
        *("sadd", "hset", "spop", "zadd", "zpopmin", "mset"),
        *("lrange_100", "lrange_300", "lrange_500", "lrange_600", "ping"),
    ),
)


class Server:
    """What may be asked of every target; here as it is of a server that is there already."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Any]]  # every kind is one
    kind: str
    burst_lasts_s: float | None
    cost: Rates | None  # what it costs while it is there; None: nobody says
    system: ClassVar[DatabaseSystem] = POSTGRES

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:  # noqa: ANN401 - its protocol
        """Return how a record holds it."""
        return _stored_target(source, handler)

    made_within_s: ClassVar[float] = 0.0  # what it takes somebody else to make it, about
    is_here: ClassVar[bool] = False  # Steelyard makes its data directory on this machine
    is_managed: ClassVar[bool] = False  # a provider runs it, by its kind
    restores: ClassVar[tuple[str, ...]] = ()  # what a file may choose as its `restore`
    noun: ClassVar[str] = "endpoint"  # what one is called that is there already
    existing_key: ClassVar[str] = ""  # names one that is there, where Steelyard else makes it
    # What lets Steelyard restart such a server; empty: nothing does.
    restarted_by: ClassVar[str] = "Give its target a `restart_command`"

    @property
    def is_made(self) -> bool:
        """Return whether Steelyard makes the server."""
        return self.is_here

    @property
    def is_restarted(self) -> bool:
        """Return whether Steelyard restarts the server where a setting needs it."""
        return self.is_made

    @property
    def has_cpu_quota(self) -> bool:
        """Return whether a quota of the target holds its server or its generators back."""
        return self.home is not None and self.home.generators.resources.has_cpu_quota

    @property
    def home(self) -> "KubernetesPlace | None":
        """Return where in which Kubernetes cluster it is; None where it is in none."""
        return None

    @property
    def provision(self) -> Provision:
        """Return what its place gives the server, as far as the file decides it."""
        return Provision()

    @property
    def connection(self) -> str:
        """Return how the generator connects: by the address, in a cluster that of a Service."""
        return "address"

    @property
    def restore(self) -> str | None:
        """Return how its data come back, where the file chooses: None where there is one way."""
        return None

    @property
    def label(self) -> str:
        """Return what the file says of the place, for people."""
        raise NotImplementedError

    @property
    def route(self) -> str:
        """Return by which way a generator reaches it, for people."""
        return self.label

    @property
    def identity(self) -> Hashable:
        """Return what tells one server from another: how it is reached, not how it is treated."""
        return self

    def hidden_by_burst(self, seconds: float) -> tuple[str, ...]:
        """Return what a campaign of this length will not show of the place, a sentence each."""
        if self.burst_lasts_s is None or seconds > self.burst_lasts_s:
            return ()
        lasts, took = format_duration(self.burst_lasts_s), format_duration(seconds)
        return (f"{took} fit into burst credits of {lasts}: they will not show what lasts",)

    def at(self, place: "KubernetesPlace") -> Self:  # noqa: ARG002 - it is in none
        """Return the same target elsewhere in a cluster; itself where it is in none."""
        return self

    def opened(self) -> Self:
        """Return the same target, whose settings or named database may be changed.

        That is itself where Steelyard makes the server.
        """
        return self


class Here(Server):
    """A server that Steelyard starts on this machine."""

    __slots__ = ()
    is_here: ClassVar[bool] = True
    restores: ClassVar[tuple[str, ...]] = ("reflink", "copy")
    server: str
    directory: str | None
    store: Store | None
    port: int | None
    connection: str
    run_as: str | None

    @property
    def label(self) -> str:
        """Return the programs, how the generator connects, and where data directories are made."""
        where = f" in {self.directory}" if self.directory else ""
        on = f" on storage that is {self.store.label}" if self.store else ""
        return f"{self.server} by {self.connection}{where}{on}"

    @property
    def route(self) -> str:
        """Return how the generator connects."""
        return self.connection

    @property
    def identity(self) -> Hashable:
        """Return the directory: it is one disk, whatever programs and simulated storage use it."""
        return (self.is_here, self.directory)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTarget(Here):
    """A server that Steelyard starts on this machine.

    Attributes:
        server: Directory of programs, a version such as ``15``, or ``embedded`` for the PyPI wheel.
        directory: Where data directories are made; None means Steelyard's cache.
        store: Simulated storage that is made there for the data; None: they lie there themselves.
        port: TCP port on the loopback interface; None means a free one.
        connection: How the generator connects: ``socket`` or ``tcp``.
        run_as: Account for the server when Steelyard runs as root; None means a default one.
        initdb: Further initdb options, equal in all configurations of an experiment.
        restore: ``reflink``, ``copy`` or ``template``; None means the cheapest that works.
        burst_lasts_s: How long full burst credits last at full load; None: none, or not known.
    """

    restores: ClassVar[tuple[str, ...]] = ("reflink", "copy", "template")
    kind: Literal["local"] = "local"
    server: str = "embedded"
    directory: str | None = None
    store: Store | None = None
    port: int | None = None
    connection: str = "socket"
    run_as: str | None = None
    initdb: tuple[str, ...] = ()
    restore: str | None = None
    burst_lasts_s: float | None = field(default=None, compare=False)
    cost: Rates | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorPods:
    """The pod that the load comes from: that of the campaign's Job.

    Attributes:
        image: With psql and pgbench; None: the database's.
        tolerations: As Kubernetes takes them, a JSON list.
        same_node: They may share a node with the database.
    """

    image: str | None = None
    resources: PodResources = field(default_factory=PodResources)
    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: str = "[]"
    same_node: bool = False

    @property
    def cpus(self) -> int:
        """Return how many threads of one of them have a CPU of their own, at least 1."""
        return max(1, math.floor(self.resources.provision("", None).cpus or 1.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesPlace:
    """Where in which cluster.

    Attributes:
        context: Of the kubeconfig; None: the current one.
        namespace: None: one of the campaign's own, made and removed.
        generators: The pods that put the load on.
    """

    context: str | None = None
    namespace: str | None = None
    generators: GeneratorPods = GeneratorPods()


@dataclass(frozen=True, slots=True, kw_only=True)
class Synchronous:
    """Synchronous replication as CloudNativePG takes it: ``spec.postgresql.synchronous``."""

    method: str = "any"
    number: int = 1
    data_durability: str = "required"


class InPods(Server):
    """A server in pods: made for the campaign, or there already."""

    __slots__ = ()
    place: KubernetesPlace
    allow_existing: bool
    storage: str
    storage_class: str | None
    resources: PodResources

    @property
    def has_cpu_quota(self) -> bool:
        """Return whether a quota holds its server or its generators back."""
        return self.resources.has_cpu_quota or super().has_cpu_quota

    @property
    def provision(self) -> Provision:
        """Return what its pods get at most, of a server that is made."""
        if not self.is_made:
            return Provision()
        return self.resources.provision(self.storage, self.storage_class)

    def opened(self) -> Self:
        """Return the same target; the settings of one that is there may be changed."""
        return self if self.is_made else replace(self, allow_existing=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudNativePgTarget(InPods):
    """A Cluster of the CloudNativePG operator: made for the campaign, or there already.

    Attributes:
        cluster: Name of one that is there; None: Steelyard makes its own. Of the keys after it
            only ``allow_existing`` goes with it.
        allow_existing: Its settings may be changed, and put back.
        image: Of the database; None: the operator's default.
        storage: Size of the volume, as Kubernetes writes it.
        storage_class: None: the cluster's default.
        wal_storage: Size of a volume of its own for WAL; None: it has none.
        wal_storage_class: None: that of ``storage_class``.
        node_selector: Of the database's pods; so the next two.
        tolerations: A JSON list.
        affinity: Further keys of the Cluster's ``spec.affinity``, a JSON object.
        burst_lasts_s: As of a local target; it makes no target another one.
    """

    noun: ClassVar[str] = "Cluster"
    existing_key: ClassVar[str] = "cluster"
    restarted_by: ClassVar[str] = "Allow its change with `allow_existing: true`"
    kind: Literal["kubernetes"] = "kubernetes"
    place: KubernetesPlace = KubernetesPlace()
    cluster: str | None = None
    allow_existing: bool = False
    image: str | None = None
    instances: int = 1
    storage: str = "10Gi"
    storage_class: str | None = None
    wal_storage: str | None = None
    wal_storage_class: str | None = None
    resources: PodResources = field(default_factory=PodResources)
    synchronous: Synchronous | None = None
    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: str = "[]"
    affinity: str = "{}"
    burst_lasts_s: float | None = field(default=None, compare=False)
    cost: Rates | None = field(default=None, compare=False)

    @property
    def is_made(self) -> bool:
        """Return whether Steelyard makes the Cluster."""
        return self.cluster is None

    @property
    def is_restarted(self) -> bool:
        """Return whether Steelyard may restart the Cluster."""
        return self.is_made or self.allow_existing

    @property
    def home(self) -> KubernetesPlace:
        """Return where in which cluster it is."""
        return self.place

    @property
    def identity(self) -> Hashable:
        """Return the name of one that is there; one that is made is what the file says."""
        return self if self.is_made else (self.place, self.cluster)

    def at(self, place: KubernetesPlace) -> Self:
        """Return the same target elsewhere."""
        return replace(self, place=place)

    @property
    def label(self) -> str:
        """Return what the file says of the place, for people."""
        storage = self.storage_class or "the default storage class"
        return f"a Cluster on {storage}" if self.is_made else f"Cluster {self.cluster}"


_PORT: Final = re.compile(r":\d*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterService:
    """A PostgreSQL server in a cluster, whoever runs it there.

    Attributes:
        service: Name of its Service.
        secret: Name of the Secret with user and password, below these keys.
    """

    place: KubernetesPlace = KubernetesPlace()
    service: str
    port: int = 5432
    secret: str
    user_key: str = "username"
    password_key: str = "password"  # noqa: S105 - the name of a key


def hosts_of(uri: str) -> tuple[str, ...]:
    """Return the hosts of a libpq or Redis URI, sockets too; an empty text: it names none."""
    parts = urlsplit(uri)
    if parts.scheme == "unix":
        return (parts.path,)
    listed = parse_qs(parts.query).get("host") or [parts.netloc.rpartition("@")[2]]
    return tuple(unquote(_PORT.sub("", each)).strip("[]") for each in listed[0].split(","))


class There(Server):
    """A server that is there already."""

    __slots__ = ()
    allow_existing: bool
    restart_command: tuple[str, ...]
    uri: str | None
    host: str | None

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the names, addresses and sockets in the file; an empty text: it gives none."""
        return hosts_of(self.uri) if self.uri else tuple((self.host or "").split(","))

    @property
    def is_restarted(self) -> bool:
        """Return whether the file names a command that does it."""
        return bool(self.restart_command)

    @property
    def route(self) -> str:
        """Return the address."""
        return f"at {self.label}"

    def opened(self) -> Self:
        """Return the same target, where what is not Steelyard's own may be used, too."""
        return replace(self, allow_existing=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointTarget(There):
    """A server that is there already; what is not given, libpq finds as it always does.

    None of its fields can hold a password: that comes from pgpass or ``PGPASSWORD``.

    Attributes:
        uri: libpq URI, or None when the separate keys are used.
        host: Name, address, or directory of the Unix socket.
        dbname: Database to connect to; measured in only with ``allow_existing``.
        service: Name of a section of the service file.
        allow_existing: Measure in the named database, which Steelyard did not make.
        restart_command: Restarts the server; without it nothing that needs a restart is changed.
        reset_command: Brings the data of the named database back; empty: by what Steelyard can.
        reset_timeout_s: How long that may take.
        told_memory_bytes: What the user says that it has, as the next; None: not said.
        restore: ``template`` or ``vacuum``; None means the best that works.
        burst_lasts_s: How long full burst credits last at full load; None: none, or not known.
        inside: A server in a Kubernetes cluster, under load from pods there; then host, port, user
            and URI are not given.
    """

    restores: ClassVar[tuple[str, ...]] = ("template", "vacuum")
    kind: Literal["existing"] = "existing"
    uri: str | None = None
    host: str | None = None
    port: int | None = None
    user: str | None = None
    dbname: str | None = None
    service: str | None = None
    allow_existing: bool = False
    restart_command: tuple[str, ...] = ()
    reset_command: tuple[str, ...] = ()
    reset_timeout_s: float = 600.0  # a guess: a database of some GiB by pg_restore
    told_memory_bytes: int | None = field(default=None, compare=False)
    told_cpus: float | None = field(default=None, compare=False)
    restore: str | None = None
    burst_lasts_s: float | None = field(default=None, compare=False)
    cost: Rates | None = field(default=None, compare=False)
    inside: ClusterService | None = None

    @property
    def home(self) -> KubernetesPlace | None:
        """Return where the Service is that leads to it."""
        return None if self.inside is None else self.inside.place

    @property
    def identity(self) -> Hashable:
        """Return how it is reached."""
        return (self.uri, self.service, self.host, self.port, self.inside)

    def at(self, place: KubernetesPlace) -> Self:
        """Return the same target, its Service elsewhere; itself where it has none."""
        return (
            self if self.inside is None else replace(self, inside=replace(self.inside, place=place))
        )

    @property
    def label(self) -> str:
        """Return what the file says of the place, for people."""
        if self.inside is not None:
            return f"service {self.inside.service}"
        port = f":{self.port}" if self.port else ""
        named = self.uri or self.service or f"{self.host or ''}{port}" or "as libpq finds it"
        return f"{named}, database {self.dbname}" if self.allow_existing and self.dbname else named


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisLocalTarget(Here):
    """A Redis server that Steelyard starts on this machine.

    Attributes:
        server: Directory of the programs, or the name of the server program as PATH finds it:
            ``redis-server``, ``valkey-server``.
        directory: As of a local target; so ``store``, ``port``, ``connection``, ``run_as``,
            ``restore`` and ``burst_lasts_s``.
        replica: Settings of a replica that is started beside the server and follows it; None:
            there is none. With none of its own it has the server's.
    """

    system: ClassVar[DatabaseSystem] = REDIS
    kind: Literal["local"] = "local"
    server: str = "redis-server"
    directory: str | None = None
    store: Store | None = None
    port: int | None = None
    connection: str = "socket"
    run_as: str | None = None
    restore: str | None = None
    replica: tuple[tuple[str, str], ...] | None = None
    burst_lasts_s: float | None = field(default=None, compare=False)
    cost: Rates | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisEndpointTarget(There):
    """A Redis server that is there already.

    None of its fields can hold a password: that comes from ``REDISCLI_AUTH``.

    Attributes:
        uri: ``redis://``, ``rediss://`` or ``unix://``, without a password; None when the separate
            keys are used.
        host: Name, address, or path of the Unix socket.
        user: Of the ACL; None: the default user.
        db: Number of the database that is used; None: an empty one is looked for.
        tls: The connection is encrypted.
        cacert: File with the certificates that the server's is checked against.
        cert: File with the client's certificate; likewise ``key``.
        allow_existing: Databases that are not used here may hold keys, and settings of the server
            may be changed, and put back.
        restart_command: Restarts the server; without it nothing that needs a restart is changed.
    """

    system: ClassVar[DatabaseSystem] = REDIS
    kind: Literal["existing"] = "existing"
    uri: str | None = None
    host: str | None = None
    port: int | None = None
    user: str | None = None
    db: int | None = None
    tls: bool = False
    cacert: str | None = None
    cert: str | None = None
    key: str | None = None
    allow_existing: bool = False
    restart_command: tuple[str, ...] = ()
    burst_lasts_s: float | None = field(default=None, compare=False)
    cost: Rates | None = field(default=None, compare=False)

    @property
    def label(self) -> str:
        """Return what the file says of the place, for people."""
        port = f":{self.port}" if self.port else ""
        return self.uri or f"{self.host or 'localhost'}{port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisKubernetesTarget(InPods):
    """A Redis server in a Kubernetes cluster: a StatefulSet made for the campaign, or a Service.

    Attributes:
        service: Of a server that is there; None: Steelyard makes a StatefulSet. Of the keys after
            it only ``allow_existing`` goes with it.
        allow_existing: As of a Redis endpoint.
        image: With redis-server and redis-benchmark.
        storage: Size of the volume, as Kubernetes writes it.
        storage_class: None: the cluster's default.
        node_selector: Of the server's pod; so ``tolerations``, a JSON list.
    """

    system: ClassVar[DatabaseSystem] = REDIS
    noun: ClassVar[str] = "server"
    existing_key: ClassVar[str] = "service"
    restarted_by: ClassVar[str] = ""
    kind: Literal["kubernetes"] = "kubernetes"
    place: KubernetesPlace = KubernetesPlace()
    service: ClusterService | None = None
    allow_existing: bool = False
    image: str = "redis:7"
    storage: str = "10Gi"
    storage_class: str | None = None
    resources: PodResources = field(default_factory=PodResources)
    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: str = "[]"
    burst_lasts_s: float | None = field(default=None, compare=False)
    cost: Rates | None = field(default=None, compare=False)

    @property
    def is_made(self) -> bool:
        """Return whether Steelyard makes the server."""
        return self.service is None

    @property
    def home(self) -> KubernetesPlace:
        """Return where in which cluster it is."""
        return self.place if self.service is None else self.service.place

    @property
    def identity(self) -> Hashable:
        """Return the Service of one that is there; one that is made is what the file says."""
        return self.service or self

    def at(self, place: KubernetesPlace) -> Self:
        """Return the same target elsewhere."""
        if self.service is None:
            return replace(self, place=place)
        return replace(self, service=replace(self.service, place=place))

    @property
    def label(self) -> str:
        """Return what the file says of the place, for people."""
        if self.service is not None:
            return f"service {self.service.service}"
        return f"a StatefulSet on {self.storage_class or 'the default storage class'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RentedTarget(Server):
    """A server in an account of AWS, made for the campaign and deleted at its end.

    Attributes:
        accounts: Numbers of the accounts it may be made in.
        storage: Size, as Kubernetes writes it: whole GiB.
        subnet_group: Of the VPC; None: the default one.
        security_groups: Their ids; empty: the default one.
        delete_role: ARN of the role under which AWS deletes it when it expires; None: nothing does.
        performance_insights: AWS counts active sessions by what they wait for.
        ttl_s: It expires so long after its making, as its tag says.
    """

    made_within_s: ClassVar[float] = 900.0  # 5 to 15 minutes; a guess
    is_managed: ClassVar[bool] = True
    restores: ClassVar[tuple[str, ...]] = ("template", "vacuum")
    product: ClassVar[str]  # as AWS calls the engine
    kind: str
    region: str = ""
    accounts: tuple[str, ...] = ()
    version: str = "16"
    instance_class: str = "db.t4g.medium"
    storage: str = "20Gi"
    subnet_group: str | None = None
    security_groups: tuple[str, ...] = ()
    public: bool = False
    restore: str | None = None
    delete_role: str | None = None
    performance_insights: bool = False
    ttl_s: float = field(default=86400.0, compare=False)
    burst_lasts_s: float | None = field(default=None, compare=False)
    cost: Rates | None = field(default=None, compare=False)

    @property
    def is_made(self) -> bool:
        """Return that Steelyard makes it."""
        return True

    @property
    def volume(self) -> Volume | None:
        """Return its storage; None where that has no limits of its own."""
        return None

    @property
    def gib(self) -> int:
        """Return the size of its storage."""
        return int(parse_quantity(self.storage) // GIB)

    @property
    def provision(self) -> Provision:
        """Return what class and storage give; of a class that is not known here, the storage."""
        kind, volume = CLASSES.get(self.instance_class), self.volume
        return Provision(
            cpus=None if kind is None else float(kind.vcpus),
            storage="Aurora's own" if volume is None else f"{volume.gib} GiB of {volume.kind}",
            limits="" if volume is None else f"{volume.base_iops:,.0f} IOPS that last",
        )

    def hidden_by_burst(self, seconds: float) -> tuple[str, ...]:
        """Return what credits of class and storage will hide."""
        return hidden_by_burst(CLASSES.get(self.instance_class), self.volume, seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class RdsTarget(RentedTarget):
    """An instance of Amazon RDS for PostgreSQL."""

    noun: ClassVar[str] = "RDS instance"
    product: ClassVar[str] = "postgres"
    kind: Literal["rds"] = "rds"
    storage_type: str = "gp3"
    iops: int | None = None
    storage_throughput: int | None = None
    multi_az: bool = False

    def __post_init__(self) -> None:
        """Compute how long its buckets last, where nobody said."""
        kind = CLASSES.get(self.instance_class)
        if self.burst_lasts_s is None and kind is not None:
            with suppress(InputError):  # what RDS does not have is told where files are read
                object.__setattr__(self, "burst_lasts_s", burst_lasts_s(kind, self.volume))

    @property
    def volume(self) -> Volume:
        """Return its storage; raises an InputError where RDS has no such."""
        return volume_of(self.storage_type, self.gib, iops=self.iops, mib_s=self.storage_throughput)

    @property
    def label(self) -> str:
        """Return what the file says of the place, for people."""
        return f"a {self.instance_class} in {self.region} on {self.gib} GiB of {self.storage_type}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuroraTarget(RentedTarget):
    """A cluster of Amazon Aurora PostgreSQL with one instance.

    Attributes:
        storage: What the data take, for the price: Aurora's storage grows by itself.
        io_optimized: Requests to the storage are in the price of instance and storage.
        io_at_most: Requests a second, for the ceiling of what a campaign costs; None: no limit.
        min_capacity: Of class ``db.serverless``, in capacity units (ACU); so is ``max_capacity``.
    """

    noun: ClassVar[str] = "Aurora cluster"
    product: ClassVar[str] = "aurora-postgresql"
    serverless: ClassVar[str] = "db.serverless"
    kind: Literal["aurora"] = "aurora"
    storage: str = "10Gi"
    io_optimized: bool = False
    io_at_most: float | None = field(default=None, compare=False)
    min_capacity: float = 0.5
    max_capacity: float = 4.0

    @property
    def is_serverless(self) -> bool:
        """Return whether its instance has as many capacity units as its load needs."""
        return self.instance_class == self.serverless

    @property
    def label(self) -> str:
        """Return what the file says of the place, for people."""
        units = f" of {self.min_capacity:g} to {self.max_capacity:g} ACU" * self.is_serverless
        kind = "I/O-Optimized" if self.io_optimized else "standard"
        return f"a {self.instance_class}{units} of Aurora in {self.region} on {kind} storage"


Target = Server
# By engine and ``kind:``, as records and files know them; the package ``targets`` may add others.
TARGETS: Final[dict[str, dict[str, type[Server]]]] = {
    EngineName.POSTGRES: {
        "local": LocalTarget,
        "existing": EndpointTarget,
        "kubernetes": CloudNativePgTarget,
        "rds": RdsTarget,
        "aurora": AuroraTarget,
    },
    EngineName.REDIS: {
        "local": RedisLocalTarget,
        "existing": RedisEndpointTarget,
        "kubernetes": RedisKubernetesTarget,
    },
}


def systems() -> tuple[DatabaseSystem, ...]:
    """Return the database systems that there are targets of."""
    return tuple(next(iter(kinds.values())).system for kinds in TARGETS.values() if kinds)


def system_of(engine: str) -> DatabaseSystem:
    """Return the database system of that name."""
    return next(each for each in systems() if each.name == engine)


def kind_words() -> tuple[str, ...]:
    """Return the words for kinds of target of all engines, each once."""
    return tuple(dict.fromkeys(kind for kinds in TARGETS.values() for kind in kinds))


def kind_here(engine: str) -> str:
    """Return the kind of target of an engine whose servers Steelyard starts here."""
    return next((kind for kind, each in TARGETS[engine].items() if each.is_here), "")


def _stored_target(source: Any, handler: Any) -> Any:  # noqa: ANN401 - as pydantic has it
    """Return how a record holds a target: its ``engine`` and, with its ``kind``, its fields."""
    if source is not Server:
        return handler(source)
    from pydantic_core import core_schema  # noqa: PLC0415 - for records only

    def read(stored: object) -> Server:
        if isinstance(stored, Server):
            return stored
        named = stored if isinstance(stored, dict) else {}
        engine, kind = str(named.get("engine")), str(named.get("kind"))
        target = TARGETS.get(engine, {}).get(kind)
        if target is None:
            message = f"{kind!r} is not a kind of target of {engine!r}"
            raise ValueError(message)
        return form_of(target).validate_python({k: v for k, v in named.items() if k != "engine"})

    def write(target: Server, how: Any) -> object:  # noqa: ANN401 - as pydantic has it
        held = form_of(type(target)).dump_python(target, mode=how.mode)
        return {"engine": target.system.name.value, **held}

    writing = core_schema.plain_serializer_function_ser_schema(write, info_arg=True)
    return core_schema.no_info_plain_validator_function(read, serialization=writing)
