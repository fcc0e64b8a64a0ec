"""Redis in the vocabulary: what it may lose, settings taken at its start, sizes and URIs.

What a configuration, of PostgreSQL too, may lose of the writes that it acknowledged follows from
its settings: the worst case of what they allow. That a disk keeps what it has flushed is taken for
granted; replicas and backups are not looked at. ``steelyard crash-test redis`` and ``steelyard
crash-test postgresql`` measure it.

URIs are ``redis://``, ``rediss://`` (TLS) and ``unix://``. As in the registration of the scheme
with IANA, ``redis://USER@HOST:PORT/DB`` and ``?db=N``; what stands alone before the ``@`` is the
user, never a password.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar, Final
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from steelyard.core.experiment import Workload
from steelyard.core.quantities import Computed, Named
from steelyard.core.target import REDIS, REDIS_PORT
from steelyard.core.wording import MS_PER_S, InputError

_DEFAULTS: Final = {
    "appendonly": "no",
    "appendfsync": "everysec",
    "no-appendfsync-on-rewrite": "no",
    "save": "3600 1 300 100 60 10000",
}
# What Redis 7.0.15 refused to change while it runs ("can't set immutable config"), asked of it for
# every setting that it has; the places and names that no experiment may set are left out. A server
# of another version that refuses more says so when its configuration is first activated.
_NEED_RESTART: Final = frozenset(
    {
        *("aof_rewrite_cpulist", "always-show-logo", "bgsave_cpulist", "bio_cpulist"),
        *("databases", "disable-thp", "enable-debug-command", "enable-module-command"),
        *("enable-protected-configs", "io-threads", "io-threads-do-reads", "rdbchecksum"),
        *("server_cpulist", "set-proc-title", "socket-mark-id", "tcp-backlog"),
    }
)
_CONF: Final = "Redis 7.0, redis.conf"
_PERSISTENCE: Final = "Redis documentation, 'Redis persistence'"
_LATENCY: Final = "Redis documentation, 'Diagnosing latency issues', on AOF and disk I/O"
# Linux writes a dirty page back when it is 30 s old (vm.dirty_expire_centisecs, 3000 by default),
# and looks for such ones every 5 s (vm.dirty_writeback_centisecs, 500).
_OLD_S: Final = 30.0
_LOOKS_S: Final = 5.0
_VM: Final = "Linux documentation, sysctl/vm, on dirty_expire_centisecs"
_HELD_BACK_S: Final = 2.0  # so long Redis keeps answered writes to itself while a flush goes on
_WAL: Final = "PostgreSQL documentation, 'Write Ahead Log'"
_ASYNCHRONOUS: Final = "PostgreSQL documentation, 'Asynchronous Commit'"
_WRITER_DELAYS: Final = 3  # of wal_writer_delay, by the chapter on asynchronous commit
_WRITER_DELAY_MS: Final = 200.0  # its default
_DELAY: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?) *(us|ms|s|min|h|d)?")
_SECONDS_PER: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_OFF: Final = frozenset({"off", "of", "false", "fals", "fal", "fa", "f", "no", "n", "0"})
_AT_ONCE: Final = "each write is with the kernel before its answer, and the kernel lives on"


class Death(StrEnum):
    """How a server dies."""

    KILL = "kill"
    POWER = "power"


@dataclass(frozen=True, slots=True, kw_only=True)
class PromisedDeath:
    """What may be gone of what was acknowledged after one death.

    Attributes:
        reason: To be read after "because".
        known_as: The bound in words, where it is none of time.
        on_top: What is added to the seconds, in words: its length follows from no setting.
        most_writes: So many writes may be gone however old they are, and more where they come fast;
            None: no such bound.
        writes: So many at the rate that was measured, as its two digits allow; without one as
            ``most_writes``.
    """

    most_s: Annotated[
        float | None,
        "Only what was acknowledged in so many seconds before the death; 0: all is kept; null:"
        " there is no such bound.",
    ]
    bound: ClassVar = Computed(
        lambda death: death.words, Annotated[str, Named("words"), "The bound in words."]
    )
    reason: Annotated[str, "Why."]
    source: Annotated[str, "Source."]
    known_as: str = ""
    on_top: str = ""
    most_writes: int | None = None
    writes: float | None = None

    @property
    def rank(self) -> tuple[float, float, bool]:
        """Return what orders bounds, the least loss first: without one in seconds is worst."""
        if self.most_s is not None:
            return self.most_s, 0.0, bool(self.on_top)
        return math.inf, math.inf if self.most_writes is None else self.most_writes, False

    @property
    def words(self) -> str:
        """Return the bound in words."""
        if self.known_as:
            return self.known_as
        if self.most_s is None:
            return "everything"
        if self.on_top:
            return f"{self.most_s:g} s of writes and {self.on_top}"
        return f"{self.most_s:g} s of writes" if self.most_s else "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class PromisedLoss:
    """What a configuration promises for each death of one server."""

    kill: PromisedDeath
    power: PromisedDeath

    def after(self, death: Death) -> PromisedDeath:
        """Return what may be gone after one death."""
        return self.kill if death is Death.KILL else self.power


def promised_loss(settings: Mapping[str, str], per_s: float | None = None) -> PromisedLoss:
    """Return what a Redis with these settings may lose; what is not named has its default.

    Args:
        settings: By name.
        per_s: Writes per second, where they were measured: save points bound writes by them.
    """
    given = {name.lower(): value.strip().lower() for name, value in settings.items()}
    asked = {**_DEFAULTS, **given}
    if asked["appendonly"] != "yes":
        snapshots = _by_snapshots(asked["save"], per_s)
        return PromisedLoss(kill=snapshots, power=snapshots)
    return PromisedLoss(kill=_log_killed(asked["appendfsync"]), power=_log_cut(asked))


def promised_by_replica() -> PromisedLoss:
    """Return what is gone when a replica takes the place of a dead Redis: the same both ways."""
    death = PromisedDeath(
        most_s=None,
        reason="no write waits for the replica; what it had not received died with the primary",
        source="Redis documentation, 'Redis replication'",
        known_as="what the replica lacked",
    )
    return PromisedLoss(kill=death, power=death)


def _by_snapshots(save: str, per_s: float | None) -> PromisedDeath:
    """Return what is gone with what was in memory alone: the same for both deaths.

    A save point asks for seconds and for changes: only one that asks for a single change bounds
    the seconds.
    """
    words = save.replace('"', "").split()
    pairs = zip(map(_whole, words[::2]), map(_whole, words[1::2]), strict=False)
    points = [pair for pair in pairs if pair[0] > 0]  # Redis takes no others
    if not points:
        reason = "the data are in memory alone (appendonly no, no save points)"
        return PromisedDeath(most_s=None, reason=reason, source=_PERSISTENCE)
    by_time = [seconds for seconds, changes in points if changes <= 1]
    return _within(min(by_time)) if by_time else _by_writes(points, per_s)


def _within(seconds: int) -> PromisedDeath:
    reason = (
        "only the last complete snapshot comes back, and the next begins when more than"
        f" {seconds} s, counted in whole ones, have passed since that was complete; what was"
        " written while that was saved, and while the next is, is gone with it"
    )
    return PromisedDeath(
        most_s=float(seconds),
        reason=reason,
        source=f"{_CONF}, on save; {_PERSISTENCE}",
        on_top="the time of two saves",
    )


def _by_writes(points: Sequence[tuple[int, int]], per_s: float | None) -> PromisedDeath:
    """Return what is gone where each save point waits for several writes, and for its seconds.

    The next snapshot begins when both have passed, so the more of the two is gone: fewer writes
    than the point asks for, or what came in its seconds.
    """
    seconds, changes = min(points, key=lambda point: (point[1], point[0]))
    reason = (
        "only the last complete snapshot comes back, and none begins before there were"
        f" {changes:,} writes, however long that takes, nor before {seconds} s have passed since"
        " the last; what is written while two snapshots are saved is gone with it"
    )
    few = "1 write" if changes == 2 else f"{changes - 1:,} writes"
    words = f"{few}, or the writes of {seconds} s if these are more, {_DURING_SAVES}"
    writes = changes - 1.0
    if per_s is not None:
        most = min(max(per_s * seconds, changes - 1.0) for seconds, changes in points)
        words = f"up to {few}, however old, {_DURING_SAVES}"
        if most > writes:
            writes = _rounded(most)
            words = f"about {writes:,.0f} writes {_DURING_SAVES}"
            reason += (
                f". At the {_rounded(per_s):,.0f} writes/s that were measured that is about"
                f" {writes:,.0f} before the two saves; at a lower rate {few}, however old, may"
                " be gone"
            )
    return PromisedDeath(
        most_s=None,
        reason=reason,
        source=f"{_CONF}, on save",
        known_as=words,
        most_writes=changes - 1,
        writes=writes,
    )


_DURING_SAVES: Final = "and those that come during two saves"


def _rounded(number: float) -> float:
    """Return a number to two digits: a rate of one machine is good for no more."""
    return float(f"{number:.2g}")


def _whole(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _log_killed(appendfsync: str) -> PromisedDeath:
    if appendfsync != "everysec":
        return PromisedDeath(most_s=0.0, reason=_AT_ONCE, source=_PERSISTENCE)
    reason = (
        f"{_AT_ONCE}; only while a flush goes on are answered writes held back in memory,"
        f" {_HELD_BACK_S:g} s at most"
    )
    return PromisedDeath(most_s=_HELD_BACK_S, reason=reason, source=_LATENCY)


def _log_cut(asked: Mapping[str, str]) -> PromisedDeath:
    appendfsync = asked["appendfsync"]
    if appendfsync == "no" or asked["no-appendfsync-on-rewrite"] == "yes":
        what = (
            "appendfsync no: nobody asks for a flush"
            if appendfsync == "no"
            else "no-appendfsync-on-rewrite yes: nobody flushes during a rewrite or a snapshot"
        )
        reason = (
            f"{what}, and Linux writes back what is {_OLD_S:g} s old, and looks for it every"
            f" {_LOOKS_S:g} s, by default"
        )
        source = f"{_CONF}, on no-appendfsync-on-rewrite; {_VM}"
        return PromisedDeath(most_s=_OLD_S + _LOOKS_S, reason=reason, source=source)
    if appendfsync == "always":
        reason = "the log is flushed before a write is answered"
        return PromisedDeath(most_s=0.0, reason=reason, source=f"{_CONF}, on appendfsync")
    reason = (
        "the log is flushed once a second, and what comes while a flush goes on waits for the"
        " next; a flush that takes longer than a second adds its length"
    )
    source = f"{_CONF}, on appendfsync; {_LATENCY}"
    return PromisedDeath(most_s=_HELD_BACK_S, reason=reason, source=source)


def needs_restart(name: str) -> bool:
    """Return whether a running server takes no other value of a setting."""
    return name.lower() in _NEED_RESTART


def folded_switch(value: str) -> str:
    """Return off for every spelling of it that PostgreSQL takes; other values in lower case.

    Source: PostgreSQL documentation, "Parameter Names and Values": any unambiguous prefix will do.
    """
    said = value.strip().lower()
    return "off" if said in _OFF else said


def promised_commits(settings: Mapping[str, str]) -> PromisedLoss:
    """Return what a PostgreSQL with these settings may lose; what is not named has its default.

    Of ``fsync``, ``full_page_writes``, ``synchronous_commit`` and ``wal_writer_delay``, as a
    configuration file may spell them.
    """
    if folded_switch(settings.get("synchronous_commit", "on")) == "off":
        delay_s = _WRITER_DELAY_MS / MS_PER_S
        if delay := _DELAY.fullmatch(settings.get("wal_writer_delay", "").strip()):
            delay_s = float(delay[1]) * _SECONDS_PER[delay[2] or "ms"]
        most_s = _WRITER_DELAYS * delay_s
        reason = f"synchronous_commit off: WAL is written up to {most_s:g} s after the answer"
        written = PromisedDeath(most_s=most_s, reason=reason, source=_ASYNCHRONOUS)
        flushed = written
    else:
        reason = "WAL is with the kernel before a commit is answered, and the kernel lives on"
        written = PromisedDeath(most_s=0.0, reason=reason, source=_WAL)
        reason = "WAL is flushed before a commit is answered"
        flushed = PromisedDeath(most_s=0.0, reason=reason, source=_WAL)
    unsafe = [
        name
        for name in ("fsync", "full_page_writes")
        if folded_switch(settings.get(name, "")) == "off"
    ]
    if unsafe:
        reason = f"{' and '.join(unsafe)} off: the whole database may be damaged"
        flushed = PromisedDeath(most_s=None, reason=reason, source=_WAL)
    return PromisedLoss(kill=written, power=flushed)


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
_WITHOUT_KEYS: Final = _TESTS | {"ping", "echo", "time"}
_LISTS: Final = "lrange_"  # lrange_100 and so on


def changes_keys(workload: Workload) -> bool:
    """Return whether a workload of Redis may change keys: a test or a command."""
    name = _command(workload)
    return name not in READ_ONLY | _TESTS and not (workload.builtin and name.startswith(_LISTS))


def touches_no_key(workload: Workload) -> bool:
    """Return whether a workload of Redis neither reads nor changes a key."""
    return _command(workload) in _WITHOUT_KEYS


def _command(workload: Workload) -> str:
    """Return the test of redis-benchmark, or the command in lower case; empty for another."""
    if workload.builtin is not None:
        return workload.builtin
    command = () if workload.redis is None else workload.redis.command
    return command[0].lower() if command else ""


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
_SIZE: Final = re.compile(r"(-?[0-9]{1,18})(b|[kmg]b?)?", re.IGNORECASE | re.ASCII)


def in_bytes(text: str) -> int | None:
    """Return the number that a size means; None where the text is none."""
    match = _SIZE.fullmatch(text.strip())
    return None if match is None else int(match[1]) * _BYTES[(match[2] or "").lower()]


DEFAULT_PORT: Final = REDIS_PORT
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


def parse_redis_uri(text: str) -> RedisUri:
    """Return what a URI says.

    Raises:
        InputError: It is none of Redis, or it has a password, which is not repeated.
    """
    named = re.match(REDIS.uris, text, re.IGNORECASE)
    named = named or re.match(r"[A-Za-z][\w+.-]*:(?=//)", text, re.ASCII)
    scheme = "" if named is None else named[0][:-1].lower()
    if scheme not in SCHEMES:
        form = "the URI is none of a Redis server"
        if scheme:
            form = f"a URI that begins with `{scheme}:` is not taken"
        sentinel = " SENTINEL GET-MASTER-ADDR-BY-NAME has its address."
        raise InputError(form, hint=_FORMS + sentinel * ("sentinel" in scheme))
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise InputError(
            "the URI is not understood: its port or host is wrong", hint=_FORMS
        ) from error
    if parts.password is not None:
        raise _with_password()
    user = unquote(parts.username) if parts.username else None
    if parts.scheme == "unix":
        if not parts.path.startswith("/") or parts.path == "/" or parts.hostname:
            raise InputError(
                "the URI names no Unix socket", hint="Write unix:///PATH, three slashes."
            )
        return RedisUri(host=unquote(parts.path), user=user, db=_database(parts, path=""))
    return RedisUri(
        host=parts.hostname or "localhost",
        port=port,
        user=user,
        db=_database(parts, path=parts.path.strip("/")),
        tls=parts.scheme == "rediss",
    )


def _with_password() -> InputError:
    return InputError(
        "the URI has a password in it", hint="Records carry no secrets: put it into REDISCLI_AUTH."
    )


def _database(parts: SplitResult, *, path: str) -> int | None:
    """Return the number of the database, in the path or as ``?db=``; None where there is none."""
    asked = parse_qs(parts.query, keep_blank_values=True)
    if "password" in asked:
        raise _with_password()
    if (others := sorted(asked.keys() - {"db"})) or parts.fragment:
        names = ", ".join(f"`{name}`" for name in others if name.isidentifier())
        raise InputError(
            f"the URI has options that Steelyard does not know{names and ': '}{names}",
            hint="Only ?db= may be there; the target's keys say the rest (`cacert`, `cert`).",
        )
    given = [*asked.get("db", ()), *([path] if path else ())]
    if len(given) > 1 or not all(_NUMBER.fullmatch(number) for number in given):
        raise InputError("the URI names no database by its number", hint=_FORMS)
    return int(given[0]) if given else None
