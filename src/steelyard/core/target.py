"""Where a server runs: one class per kind of target, and what the rest of the house asks of any."""

import re
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Literal, Self
from urllib.parse import parse_qs, unquote, urlsplit

from steelyard.core import places, quantities
from steelyard.core.aws import (
    CLASSES,
    STORAGE_TYPES,
    Volume,
    burst_lasts_s,
    hidden_by_burst,
    volume_of,
)
from steelyard.core.money import Rates
from steelyard.core.places import Provision, Store
from steelyard.core.quantities import inside, key
from steelyard.core.wording import (
    GIB,
    POSTGRES_WORDS,
    REDIS_WORDS,
    InputError,
    OpenWord,
    WorkWords,
    did_you_mean,
    form_of,
    format_duration,
    parse_quantity,
)


class EngineName(OpenWord):
    """A database system that can be weighed; ``engine:`` of an experiment file."""

    POSTGRES = "postgresql"
    REDIS = "redis"


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


_PROGRAM_WORDS: Final = ("embedded", "redis-server", "valkey-server")  # that may be misspelled


def is_directory(given: str) -> bool:
    """Return whether programs are named by a directory, or by the path of a program."""
    return "/" in given or given.startswith("~")


def _programs(value: object) -> str:
    given = quantities.as_text(value)
    if not is_directory(given) and not any(each.names_programs(given) for each in systems()):
        message = f"{quantities.shown(given)} is neither `embedded`, nor a version, nor a directory"
        hint = did_you_mean(given, _PROGRAM_WORDS) or (
            "Write a version as 15, a directory with a `/`, a running server as"
            " postgresql://HOST/DATABASE."
        )
        raise quantities.refusal(message, hint)
    return given


PROGRAMS: Final = quantities.Quantity(
    read=_programs, schema={"type": ["string", "number"]}, names_path=is_directory
)
CONNECTION: Final = quantities.word(("socket", "tcp"))
_GIBS: Final = places.volumes(GIB, "{} is no whole number of GiB")


def _restore() -> Any:  # noqa: ANN401 - as of field
    ways = quantities.word(("reflink", "copy", "template", "vacuum"))
    return key(None, ways, "How data go back to the prepared state.")


def _allow_existing() -> Any:  # noqa: ANN401 - as of field
    return key(
        False,
        quantities.SWITCH,
        "Measure in the named database, which Steelyard did not make. For Redis and a Cluster:"
        " change settings of an existing server, and put them back.",
        True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What may be asked of every target; here as it is of a server that is there already."""

    kind: str
    burst_lasts_s: float | None = key(
        None,
        quantities.duration(above=True),
        "How long a full bucket of the platform's burst credits lasts at full load.",
        "30m",
        compare=False,
    )
    cost: Rates | None = key(
        None,
        Rates,
        "What the server costs; inherited as a whole.",
        {"per_hour": 0.42, "currency": "EUR"},
        compare=False,
    )
    system: ClassVar[DatabaseSystem] = POSTGRES

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:  # noqa: ANN401 - its protocol
        """Return how a record holds it."""
        return _stored_target(source, handler)

    made_within_s: ClassVar[float] = 0.0  # what it takes somebody else to make it, about
    is_here: ClassVar[bool] = False  # Steelyard makes its data directory on this machine
    is_managed: ClassVar[bool] = False  # a provider runs it, by its kind
    restores: ClassVar[tuple[str, ...]] = ()  # what a file may choose as its `restore`
    parts_data: ClassVar[bool] = False  # configurations may have databases of their own there
    noun: ClassVar[str] = "endpoint"  # what one is called that is there already
    existing_key: ClassVar[str] = ""  # names one that is there, where Steelyard else makes it
    restarted_by: ClassVar[str] = "Give its target a `restart_command`"  # empty: nothing does

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
    def home(self) -> places.KubernetesPlace | None:
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

    def at(self, place: places.KubernetesPlace) -> Self:  # noqa: ARG002 - it is in none
        """Return the same target elsewhere in a cluster; itself where it is in none."""
        return self

    def opened(self) -> Self:
        """Return the same target, whose settings or named database may be changed.

        That is itself where Steelyard makes the server.
        """
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Here(Server):
    """A server that Steelyard starts on this machine."""

    is_here: ClassVar[bool] = True
    restores: ClassVar[tuple[str, ...]] = ("reflink", "copy")
    server: str
    directory: str | None = key(
        None, quantities.PATH, "Where data directories are made.", "/mnt/nvme"
    )
    store: Store | None = key(
        None,
        Store,
        "Simulated storage for the data, which Steelyard makes; takes root.",
        {"latency": "2ms"},
    )
    port: int | None = key(None, quantities.PORT, "TCP port: on the loopback interface.", 54321)
    connection: str = key("socket", CONNECTION, "How the generator connects.")
    run_as: str | None = key(
        None, quantities.TEXT, "Account of the server when run by root.", "postgres"
    )
    restore: str | None = _restore()

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
    """A server that Steelyard starts on this machine."""

    restores: ClassVar[tuple[str, ...]] = ("reflink", "copy", "template")
    kind: Literal["local"] = "local"
    server: str = key(
        "embedded",
        PROGRAMS,
        "`embedded`, a version such as 15, or the directory of the programs.",
        *("embedded", "15", "/usr/lib/postgresql/15/bin"),
    )
    initdb: tuple[str, ...] = key(
        (),
        quantities.several(quantities.INITDB),
        "Further initdb options, equal in all configurations.",
        ["--data-checksums"],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class InPods(Server):
    """A server in pods: made for the campaign, or there already."""

    place: places.KubernetesPlace = inside(places.KubernetesPlace)
    allow_existing: bool = _allow_existing()
    storage: str = key("10Gi", places.volumes(), "Size of the volume of the data.", "20Gi")
    storage_class: str | None = key(
        None, places.OBJECT_NAME, "Its StorageClass; the default one when left out.", "local-path"
    )
    resources: places.PodResources = key(
        places.PodResources(),
        places.PodResources,
        "Of each instance.",
        {"requests": {"cpu": "2", "memory": "4Gi"}},
    )
    node_selector: places.Pairs = key(
        (), places.LABELS, "Labels of the nodes that instances may run on.", {"disk": "nvme"}
    )
    tolerations: str = key(
        "[]",
        places.TOLERATIONS,
        "Taints that instances tolerate, as in a manifest.",
        [{"key": "db", "operator": "Exists"}],
    )

    @property
    def is_made(self) -> bool:
        """Return whether Steelyard makes the server: the file names no other."""
        return getattr(self, self.existing_key) is None

    @property
    def has_cpu_quota(self) -> bool:
        """Return whether a quota holds its server or its generators back."""
        pods = (self.resources, self.home.generators.resources) if self.home else ()
        return any(each.has_cpu_quota for each in pods)

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
    """A Cluster of the CloudNativePG operator: made for the campaign, or there already."""

    noun: ClassVar[str] = "Cluster"
    existing_key: ClassVar[str] = "cluster"
    restarted_by: ClassVar[str] = "Allow its change with `allow_existing: true`"
    kind: Literal["kubernetes"] = "kubernetes"
    cluster: str | None = key(
        None,
        places.CLUSTER,
        "An existing Cluster, used as it is instead of one that is made.",
        "pg",
    )
    image: str | None = key(
        None,
        places.IMAGE,
        "Image of the database; the operator's default when left out.",
        "ghcr.io/cloudnative-pg/postgresql:18",
    )
    instances: int = key(1, quantities.whole(), "The primary and its standbys.", 1)
    wal_storage: str | None = key(None, places.volumes(), "Size of a volume for WAL alone.", "5Gi")
    wal_storage_class: str | None = key(
        None, places.OBJECT_NAME, "Its StorageClass; that of the data when left out."
    )
    synchronous: places.Synchronous | None = key(
        None,
        places.Synchronous,
        "Synchronous replication; needs two instances.",
        {"method": "any", "number": 1},
    )
    affinity: str = key(
        "{}",
        places.AFFINITY,
        "Further keys of the Cluster's `spec.affinity`.",
        {"podAntiAffinityType": "required"},
    )

    @property
    def is_restarted(self) -> bool:
        """Return whether Steelyard may restart the Cluster."""
        return self.is_made or self.allow_existing

    @property
    def home(self) -> places.KubernetesPlace:
        """Return where in which cluster it is."""
        return self.place

    @property
    def identity(self) -> Hashable:
        """Return the name of one that is there; one that is made is what the file says."""
        return self if self.is_made else (self.place, self.cluster)

    def at(self, place: places.KubernetesPlace) -> Self:
        """Return the same target elsewhere."""
        return replace(self, place=place)

    @property
    def label(self) -> str:
        """Return what the file says of the place, for people."""
        storage = self.storage_class or "the default storage class"
        return f"a Cluster on {storage}" if self.is_made else f"Cluster {self.cluster}"


_PORT: Final = re.compile(r":\d*$")


def hosts_of(uri: str) -> tuple[str, ...]:
    """Return the hosts of a libpq or Redis URI, sockets too; an empty text: it names none."""
    parts = urlsplit(uri)
    if parts.scheme == "unix":
        return (parts.path,)
    listed = parse_qs(parts.query).get("host") or [parts.netloc.rpartition("@")[2]]
    return tuple(unquote(_PORT.sub("", each)).strip("[]") for each in listed[0].split(","))


@dataclass(frozen=True, slots=True, kw_only=True)
class There(Server):
    """A server that is there already.

    None of its fields can hold a password: that comes from the environment or a file of it.
    """

    uri: str | None = key(
        None,
        quantities.TEXT,
        "libpq URI of a server, or the URI of a Redis server, without a password.",
        "postgresql://bench@db.example.com/postgres?sslmode=require",
        "rediss://bench@cache.example.com:6379/3",
    )
    host: str | None = key(
        None, quantities.TEXT, "Name, address or socket of an existing server.", "db.example.com"
    )
    port: int | None = key(None, quantities.PORT, "TCP port of an existing server.", 5432)
    user: str | None = key(None, quantities.TEXT, "User of the connection.", "bench")
    allow_existing: bool = _allow_existing()
    restart_command: tuple[str, ...] = key(
        (),
        quantities.COMMAND,
        "Restarts the server; run on this machine, without a shell.",
        ["ssh", "db.example.com", "systemctl", "restart", "postgresql"],
    )

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
    """A server that is there already; what is not given, libpq finds as it always does."""

    restores: ClassVar[tuple[str, ...]] = ("template", "vacuum")
    parts_data: ClassVar[bool] = True
    kind: Literal["existing"] = "existing"
    dbname: str | None = key(None, quantities.TEXT, "Database to connect to.", "postgres")
    service: str | None = key(None, quantities.TEXT, "Section of libpq's service file.", "bench")
    reset_command: tuple[str, ...] = key(
        (),
        quantities.COMMAND,
        "Brings the data of the server's own database back before every start; run on this"
        " machine, without a shell.",
        ["/srv/bench/rollback", "tank/pg@ready"],
    )
    reset_timeout_s: float = key(
        600.0,  # a guess: a database of some GiB by pg_restore
        quantities.LONG,
        "How long the `reset_command` may take.",
        "30m",
    )
    told_memory_bytes: int | None = key(
        None,
        quantities.MEMORY,
        "What the server has, for profiles: nobody sees it from here.",
        "64GiB",
        name="memory",
        compare=False,
    )
    told_cpus: float | None = key(
        None, quantities.CPUS, "CPUs of that server, likewise.", 16, name="cpus", compare=False
    )
    restore: str | None = _restore()
    inside: places.ClusterService | None = key(
        None,
        places.ClusterService,
        "A server in a Kubernetes cluster, by the names of its Service and Secret.",
        {"service": "db", "secret": "db-user"},
        name="kubernetes",
    )

    @property
    def home(self) -> places.KubernetesPlace | None:
        """Return where the Service is that leads to it."""
        return None if self.inside is None else self.inside.place

    @property
    def identity(self) -> Hashable:
        """Return how it is reached."""
        return (self.uri, self.service, self.host, self.port, self.inside)

    def at(self, place: places.KubernetesPlace) -> Self:
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
    """A Redis server that Steelyard starts on this machine."""

    system: ClassVar[DatabaseSystem] = REDIS
    kind: Literal["local"] = "local"
    server: str = key(
        "redis-server",
        PROGRAMS,
        "For Redis: `redis-server`, `valkey-server` or the directory.",
        "valkey-server",
    )
    replica: places.Pairs | None = key(
        None,
        quantities.REPLICA,
        "Settings of a replica that is started beside the server; it has the server's where it has"
        " none of its own.",
        {"appendonly": "yes"},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisEndpointTarget(There):
    """A Redis server that is there already."""

    system: ClassVar[DatabaseSystem] = REDIS
    kind: Literal["existing"] = "existing"
    db: int | None = key(
        None,
        quantities.whole(0),
        "Number of the database; an empty one is looked for when left out.",
        3,
    )
    tls: bool = key(False, quantities.SWITCH, "The connection to the server is encrypted.", True)
    cacert: str | None = key(
        None, quantities.PATH, "File with the certificates to check the server's by.", "ca.crt"
    )
    cert: str | None = key(
        None, quantities.PATH, "File with the client's certificate.", "client.crt"
    )
    key: str | None = quantities.key(
        None, quantities.PATH, "File with its private key.", "client.key"
    )

    @property
    def label(self) -> str:
        """Return what the file says of the place, for people."""
        port = f":{self.port}" if self.port else ""
        return self.uri or f"{self.host or 'localhost'}{port}"


REDIS_PORT: Final = 6379


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisService(places.ClusterService):
    """A Redis server in a Kubernetes cluster, whoever runs it there."""

    port: int = key(5432, quantities.PORT, "Port of the Service.", 6379, unwritten=REDIS_PORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisKubernetesTarget(InPods):
    """A Redis server in a Kubernetes cluster: a StatefulSet made for the campaign, or a Service."""

    system: ClassVar[DatabaseSystem] = REDIS
    noun: ClassVar[str] = "server"
    existing_key: ClassVar[str] = "service"
    restarted_by: ClassVar[str] = ""
    kind: Literal["kubernetes"] = "kubernetes"
    service: RedisService | None = inside(RedisService, optional=True, by=["service"])
    image: str = key("redis:7", places.IMAGE, "With redis-server and redis-benchmark.", "redis:7")

    @property
    def home(self) -> places.KubernetesPlace:
        """Return where in which cluster it is."""
        return self.place if self.service is None else self.service.place

    @property
    def identity(self) -> Hashable:
        """Return the Service of one that is there; one that is made is what the file says."""
        return self.service or self

    def at(self, place: places.KubernetesPlace) -> Self:
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
        ttl_s: It expires so long after its making, as its tag says.
    """

    made_within_s: ClassVar[float] = 900.0  # 5 to 15 minutes; a guess
    is_managed: ClassVar[bool] = True
    restores: ClassVar[tuple[str, ...]] = ("template", "vacuum")
    product: ClassVar[str]  # as AWS calls the engine
    region: str = key("", quantities.TEXT, "Region of AWS.", "us-east-1")
    accounts: tuple[str, ...] = key(
        (),
        quantities.several(quantities.TEXT),
        "Numbers of the accounts it may be made in; none is assumed.",
        ["123456789012"],
    )
    version: str = key("16", quantities.VERSION, "Of PostgreSQL, with or without its minor.", "16")
    instance_class: str = key(
        "db.t4g.medium", quantities.TEXT, "Class of the DB instance.", "db.t3.large"
    )
    storage: str = key("20Gi", _GIBS, "For RDS whole GiB.", "300Gi")
    subnet_group: str | None = key(
        None, quantities.TEXT, "DB subnet group; the default one when left out."
    )
    security_groups: tuple[str, ...] = key(
        (),
        quantities.several(quantities.TEXT),
        "Ids of security groups; the default one when left out.",
    )
    public: bool = key(False, quantities.SWITCH, "It has an address outside of its VPC.", False)
    restore: str | None = _restore()
    delete_role: str | None = key(
        None,
        quantities.TEXT,
        "ARN of the role under which AWS itself deletes it when --ttl has passed.",
        "arn:aws:iam::123456789012:role/steelyard-delete",
    )
    performance_insights: bool = key(
        False, quantities.SWITCH, "AWS counts active sessions by their waits, for seven days.", True
    )
    ttl_s: float = field(default=86400.0, compare=False)

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
    storage_type: str = key("gp3", quantities.word(STORAGE_TYPES), "Kind of its storage.", "gp3")
    iops: int | None = key(
        None, quantities.whole(), "Provisioned IOPS; of gp3 from 400 GiB on.", 16000
    )
    storage_throughput: int | None = key(
        None, quantities.whole(), "MiB/s of gp3 from 400 GiB on.", 700
    )
    multi_az: bool = key(False, quantities.SWITCH, "It has a standby in another zone.", False)

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
    """A cluster of Amazon Aurora PostgreSQL with one instance."""

    noun: ClassVar[str] = "Aurora cluster"
    product: ClassVar[str] = "aurora-postgresql"
    serverless: ClassVar[str] = "db.serverless"
    kind: Literal["aurora"] = "aurora"
    storage: str = key(
        "10Gi", _GIBS, "For Aurora the size for the price alone: it grows by itself.", "10Gi"
    )
    io_optimized: bool = key(
        False, quantities.SWITCH, "Of Aurora: requests to the storage are in the price.", True
    )
    io_at_most: float | None = key(
        None,
        quantities.AMOUNT,
        "Requests a second to Aurora's storage, at most: for the plan and `--max-cost`.",
        30000,
        compare=False,
    )
    min_capacity: float = key(
        0.5, quantities.AMOUNT, "Of Aurora's class `db.serverless`: least capacity, ACU.", 0.5
    )
    max_capacity: float = key(4.0, quantities.AMOUNT, "Most of it, ACU; the price is of that.", 4)

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
