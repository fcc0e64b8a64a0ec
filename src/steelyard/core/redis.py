"""Commands of Redis that change nothing, as workloads and tests of redis-benchmark name them.

Sizes as Redis writes them.

URIs of Redis servers: ``redis://``, ``rediss://`` (TLS) and ``unix://``.

As in the registration of the scheme with IANA, ``redis://USER@HOST:PORT/DB`` and ``?db=N``; what
stands alone before the ``@`` is the user, never a password.

Keys under which prepared data and noise profiles are found again, in a later version too.

A key is the hash of JSON: the fields of a dataclass by their names, sorted. The name of the class
is no part of it, nor is a field that has its default, so that a class may be renamed and a field
with a default added. Who changes what a default means changes ``FORMAT``.

Split persistence: a Redis primary that writes no disk, and a replica that keeps the data.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from typing import Any, Final, Literal
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from steelyard.core.errors import InputError
from steelyard.core.experiment import Workload
from steelyard.core.stack import ArithmeticLine, PlannedSetting, RenderedFile

# Source: COMMAND of 7.0.15: those with the flag readonly, and some that name no key or only look;
# those that come with hash fields that expire are of 7.4.
READ_ONLY: Final = frozenset(
    (
        *("get", "mget", "getrange", "substr", "strlen", "exists", "type", "ttl", "pttl"),
        *("getbit", "bitcount", "bitpos", "bitfield_ro", "expiretime", "pexpiretime", "lcs"),
        *("lrange", "llen", "lindex", "lpos", "dump", "object", "memory", "randomkey"),
        *("hget", "hgetall", "hmget", "hlen", "hkeys", "hvals", "hexists", "hstrlen"),
        *("hrandfield", "hscan", "sismember", "smismember", "smembers", "scard", "srandmember"),
        *("sinter", "sintercard", "sunion", "sdiff", "sscan", "zrange", "zrangebyscore"),
        *("zrevrange", "zrevrangebyscore", "zrangebylex", "zrevrangebylex", "zscore", "zmscore"),
        *("zcard", "zcount", "zlexcount", "zrank", "zrevrank", "zrandmember", "zscan"),
        *("zinter", "zintercard", "zunion", "zdiff", "xlen", "xrange", "xrevrange", "xread"),
        *("pfcount", "geodist", "geohash", "geopos", "geosearch", "sort_ro", "eval_ro"),
        *("geohash", "georadius_ro", "georadiusbymember_ro", "hexpiretime", "hpexpiretime", "httl"),
        *("hpttl", "xpending", "touch"),
        *("evalsha_ro", "fcall_ro", "scan", "keys", "dbsize", "ping", "echo", "time"),
    )
)
_TESTS: Final = frozenset({"ping_inline", "ping_mbulk"})  # of redis-benchmark, beside get
_LISTS: Final = "lrange_"  # lrange_100 and so on


def changes_keys(workload: Workload) -> bool:
    """Return whether a workload of Redis may change keys: a test, a command or a mixture."""
    work = workload.redis
    if workload.builtin is not None:
        name = workload.builtin
        return name not in READ_ONLY | _TESTS and not name.startswith(_LISTS)
    if work is None or not work.command:
        return work is None or work.read_share != 1.0
    return work.command[0].lower() not in READ_ONLY


# redis.conf: "1k => 1000 bytes, 1kb => 1024 bytes", and so on; case does not matter.
_BYTES: Final = {
    "": 1,
    "b": 1,
    "k": 1000,
    "kb": 1024,
    "m": 1000**2,
    "mb": 1024**2,
    "g": 1000**3,
    "gb": 1024**3,
}
_SIZE: Final = re.compile(r"(-?\d+)(b|[kmg]b?)?", re.IGNORECASE)


def in_bytes(text: str) -> int | None:
    """Return the number that a size means; None where the text is none."""
    match = _SIZE.fullmatch(text.strip())
    return None if match is None else int(match[1]) * _BYTES[(match[2] or "").lower()]


DEFAULT_PORT: Final = 6379
SCHEMES: Final = ("redis", "rediss", "unix")
_FORMS: Final = "Write redis://USER@HOST:PORT/DB, rediss:// with TLS, or unix:///PATH?db=0."
_NUMBER: Final = re.compile(r"[0-9]{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisUri:
    """Where a Redis server is, by its URI.

    Attributes:
        host: Name or address, or the path of a Unix socket.
        port: None: not given; so the next two.
        user: Of the ACL.
        db: Number of the database.
        tls: The connection is encrypted.
    """

    host: str
    port: int | None = None
    user: str | None = None
    db: int | None = None
    tls: bool = False


def is_redis_uri(text: str) -> bool:
    """Return whether a URI has a scheme of Redis."""
    return text.partition("://")[0].lower() in SCHEMES and "://" in text


def parse_redis_uri(text: str) -> RedisUri:
    """Return what a URI says.

    Raises:
        InputError: It is none of Redis, or it has a password, which is not repeated.
    """
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise InputError(
            "the URI is not understood: its port or host is wrong", hint=_FORMS
        ) from error
    if parts.scheme not in SCHEMES:
        raise InputError("the URI is none of a Redis server", hint=_FORMS)
    if parts.password is not None:
        raise InputError(
            "the URI has a password in it",
            hint="Records carry no secrets: put it into REDISCLI_AUTH.",
        )
    user = unquote(parts.username) if parts.username else None
    if parts.scheme == "unix":
        return RedisUri(host=_socket(parts), user=user, db=_database(parts, path=""))
    return RedisUri(
        host=parts.hostname or "localhost",
        port=port,
        user=user,
        db=_database(parts, path=parts.path.strip("/")),
        tls=parts.scheme == "rediss",
    )


def _socket(parts: SplitResult) -> str:
    if not parts.path.startswith("/") or parts.path == "/" or parts.hostname:
        raise InputError("the URI names no Unix socket", hint="Write unix:///PATH, three slashes.")
    return unquote(parts.path)


def _database(parts: SplitResult, *, path: str) -> int | None:
    """Return the number of the database, in the path or as ``?db=``; None where there is none."""
    asked = parse_qs(parts.query, keep_blank_values=True)
    if asked.keys() - {"db"} or parts.fragment:
        raise InputError(
            "the URI has options that Steelyard does not know",
            hint="Only ?db= may be there; the target's keys say the rest (`cacert`, `cert`).",
        )
    given = [*asked.get("db", ()), *([path] if path else ())]
    if len(given) > 1 or not all(_NUMBER.fullmatch(number) for number in given):
        raise InputError("the URI names no database by its number", hint=_FORMS)
    return int(given[0]) if given else None


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
        said = {each.name: (getattr(value, each.name), each) for each in fields(value)}
        return {n: canonical(part) for n, (part, each) in said.items() if _counts(each, part)}
    raise TypeError(f"no stored key is made of {type(value).__name__}")


def _counts(each: "Field[Any]", value: object) -> bool:
    """Return whether a field is part of the key: it is compared, and has not its default."""
    if each.name == _ALWAYS or not each.compare:
        return each.compare
    default = each.default if each.default_factory is MISSING else each.default_factory()
    return default is MISSING or value != default


Role = Literal["primary", "replica"]
MOST_LAG_S: Final = 10  # a guess; also the default of Redis where the limit is on


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitServer:
    """Where one server of the pair runs: as the other reaches it, and where its files are."""

    host: str
    port: int = DEFAULT_PORT
    directory: str = "/var/lib/redis"


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitInCluster:
    """The same pair in Kubernetes.

    Attributes:
        namespace: None: that of ``kubectl``.
        cpus: Of each server, as Kubernetes writes it.
        secret: Name of the Secret that holds the password below ``password``.
        storage_class: Of the replica's volume; None: the cluster's default.
        storage_bytes: Of that volume; None: what the arithmetic asks for.
        account: Number of the image's user, which is the group of the volume, too.
    """

    namespace: str | None = None
    image: str = "redis:7"
    cpus: str = "1"
    secret: str = "redis-auth"  # noqa: S105 - the name of an object
    storage_class: str | None = None
    storage_bytes: int | None = None
    account: int = 999


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRequest:
    """What is asked for.

    Attributes:
        name: Of the objects in a cluster, and of their labels.
        memory_bytes: For each of the two servers: limit of its container, or of its machine.
        policy: What the primary does at ``maxmemory``.
        fsync: How the replica flushes its append-only file.
        most_lag_s: A primary whose replica is silent for longer takes no writes; 0: it always does.
            It bounds silence, not distance: a replica that answers may still be behind.
    """

    memory_bytes: int
    name: str = "redis"
    policy: str = "noeviction"
    fsync: Literal["everysec", "always"] = "everysec"
    most_lag_s: int = MOST_LAG_S
    primary: SplitServer = field(default_factory=lambda: SplitServer(host="redis-primary"))
    replica: SplitServer = field(default_factory=lambda: SplitServer(host="redis-replica"))
    cluster: SplitInCluster = SplitInCluster()

    def server(self, role: Role) -> SplitServer:
        """Return the place of one of the two."""
        return self.primary if role == "primary" else self.replica


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    """One way to lose something: what happens, what is gone, and what is to be done.

    Attributes:
        source: Who says so, or how it was seen.
    """

    event: str
    loss: str
    remedy: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitDesign:
    """Both servers with every setting and its reason, and what the pair may lose.

    Attributes:
        storage_bytes: What the replica's disk must hold.
    """

    request: SplitRequest
    arithmetic: tuple[ArithmeticLine, ...]
    primary: tuple[PlannedSetting, ...]
    replica: tuple[PlannedSetting, ...]
    storage_bytes: int
    risks: tuple[Risk, ...]

    def settings(self, role: Role) -> tuple[PlannedSetting, ...]:
        """Return the settings of one of the two."""
        return self.primary if role == "primary" else self.replica


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitPlan:
    """A design with its ready files.

    Attributes:
        left: Rules that the plan does not serve, in sentences.
    """

    design: SplitDesign
    files: tuple[RenderedFile, ...]
    left: tuple[str, ...] = ()
    format: int = 1
