"""Which keys each workload runs on, in which database, how they get there, and what room they take.

They are named as redis-benchmark names those that it asks for, so that reads hit; their values are
random bytes, the same on every server, so that neither LZF nor a file system shrinks them. Room is
that of the workload's further keys in memory, and of the append-only file while a start lasts.

A server at the end of a narrow way makes them itself by a script, from a random text that it gets
once for many keys. Through a forwarded port of a pod each value would go through the cluster's API:
12 MB/s and 90 us for a key were measured on a busy machine of two cores. Source: Redis
documentation, "EVAL".

Crash tests write a key for each write; its value says its number again.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from steelyard.core.experiment import Experiment, KeySpace, RedisWork, Workload
from steelyard.core.findings import Finding, Severity
from steelyard.core.outside import ServerAddress
from steelyard.core.redis import READ_ONLY, in_bytes
from steelyard.core.wording import GIB, MIB, TargetError, format_bytes
from steelyard.gateways.redis import RedisDoor, RedisSession, ReplyError, opened
from steelyard.systems.protocol import Dataset
from steelyard.systems.redis.settings import DATA, NUMBER, command_of

# redis-benchmark.c: `key:__rand_int__`, where the word becomes 12 digits only with -r.
_ONE_KEY: Final = "key:__rand_int__"
_SEED: Final = 9  # any; it must stay, because prepared states are kept
_VALUE_SHIFTS: Final = 4096  # so many different values, of one random text shifted byte by byte
_VALUE_STEP: Final = 61  # prime to it, so that neighbours differ
# What is under way at once: neither we nor the server's buffers hold more (guesses).
PIPELINE_BYTES: Final = 1024**2
PIPELINE_COMMANDS: Final = 1000


def benchmark_key(space: KeySpace, number: int) -> str:
    """Return how redis-benchmark names a key; its single key is the word itself."""
    is_word = space.keys == 1 and number == 0
    return _ONE_KEY if is_word else f"key:{number:012d}"


def _random_text(value_bytes: int) -> bytes:
    return random.Random(_SEED).randbytes(value_bytes + _VALUE_SHIFTS)  # noqa: S311 - no secret


def values(value_bytes: int) -> Callable[[int], bytes]:
    """Return the value of each key by its number: random bytes that any process makes again."""
    text = _random_text(value_bytes)

    def value(number: int) -> bytes:
        begin = number * _VALUE_STEP % _VALUE_SHIFTS
        return text[begin : begin + value_bytes]

    return value


def fill(session: RedisSession, space: KeySpace, *, beside: int = 0) -> None:
    """Load the keys of a space into the session's database, beside so many other keys.

    They go in pipelines of at most ``PIPELINE_BYTES``, or of one value where that is larger.

    Raises:
        ReplyError: The server refuses: it is out of memory, or its disk is full.
        TargetError: It is gone, or holds another number of keys than it was given.
    """
    value = values(space.value_bytes)
    most = max(1, min(PIPELINE_COMMANDS, PIPELINE_BYTES // max(1, space.value_bytes)))
    for begin in range(0, space.loaded, most):
        numbers = range(begin, min(begin + most, space.loaded))
        session.pipeline(
            [("SET", benchmark_key(space, number), value(number)) for number in numbers]
        )
    _require_held(session, space, beside)


def _require_held(session: RedisSession, space: KeySpace, beside: int) -> None:
    held = int(str(session.command("DBSIZE"))) - beside
    if held != space.loaded:
        raise TargetError(
            f"the server was given {space.loaded} keys and holds {held}",
            hint="Does it evict (maxmemory), or does somebody else write to it?",
        )


# What one script makes: it holds the server up for so long, and nothing else asks it (guesses).
_SCRIPT_BYTES: Final = 64 * 1024**2
_SCRIPT_KEYS: Final = 10_000
# How a server says that a user may not run scripts, or that nobody may.
_NO_SCRIPTS: Final = ("NOPERM", "unknown command", "no permissions")
_SCRIPT: Final = """
local text, bytes = ARGV[1], tonumber(ARGV[2])
for number = tonumber(ARGV[3]), tonumber(ARGV[4]) - 1 do
  local begin = (number * tonumber(ARGV[5])) % tonumber(ARGV[6])
  local key = string.format('key:%012d', number)
  if number == 0 and ARGV[7] ~= '' then key = ARGV[7] end
  redis.call('SET', key, string.sub(text, begin + 1, begin + bytes))
end
"""


def fill_by_script(session: RedisSession, space: KeySpace, *, beside: int = 0) -> None:
    """Let the server make the keys of a space in the session's database.

    Where a server takes no scripts, the keys are sent to it one by one. Raises as ``fill``.
    """
    text = _random_text(space.value_bytes)
    word = _ONE_KEY if space.keys == 1 else ""
    constant = (_VALUE_STEP, _VALUE_SHIFTS, word)
    most = max(1, min(_SCRIPT_KEYS, _SCRIPT_BYTES // max(1, space.value_bytes)))
    for begin in range(0, space.loaded, most):
        end = min(begin + most, space.loaded)
        try:
            session.command(*("EVAL", _SCRIPT, 0, text, space.value_bytes, begin, end, *constant))
        except ReplyError as error:
            if begin == 0 and any(word in error.message for word in _NO_SCRIPTS):
                return fill(session, space, beside=beside)
            raise
    return _require_held(session, space, beside)


_BUILD_TIMEOUT_S: Final = 6 * 3600.0
_NAMED_TEST: Final = "steelyard_redis"
_POLL_S: Final = "0.1"
_REWRITE_POLLS: Final = 6 * 36_000  # hours
Filler = Callable[[RedisSession, KeySpace], None]


def space_of(workload: Workload) -> KeySpace:
    """Return the keys of a workload."""
    return (workload.redis or RedisWork()).space


def dataset_of(workload: Workload) -> Dataset:
    """Return the data a workload runs on; equal key spaces give equal names."""
    space = space_of(workload)
    name = f"{_NAMED_TEST}_{space.loaded}_of_{space.keys}_x_{space.value_bytes}"
    return Dataset(name=name, space=space)


def datasets_of(workloads: Sequence[Workload]) -> tuple[Dataset, ...]:
    """Return the distinct data sets of workloads, in their order."""
    found = {dataset_of(workload).name: dataset_of(workload) for workload in workloads}
    return tuple(found.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Databases:
    """The data sets of an experiment, each in its own database.

    Attributes:
        persisted: A server is left with a dump and an append-only file of the same keys, so that
            it loads them whichever of the two its configuration reads.
        fill: Loads the keys of a space.
        beside: So many keys are in each database beside its data: the platform's marker.
    """

    datasets: tuple[Dataset, ...]
    redis: RedisDoor
    persisted: bool
    fill: Filler = fill
    beside: int = 0

    def at(self, address: ServerAddress, dataset: Dataset) -> ServerAddress:
        """Return the address of a data set's database: of the platform's choice, or its place."""
        names = [each.name for each in self.datasets]
        chosen = dict(address.databases).get(dataset.name)
        number = chosen if chosen is not None else str(names.index(dataset.name))
        return replace(address, database=number)

    def number(self, address: ServerAddress, workload: Workload) -> int:
        """Return the number of a workload's database."""
        return int(self.at(address, dataset_of(workload)).database)

    def build(self, dataset: Dataset, address: ServerAddress) -> None:
        """Load a data set; after the last one all are persisted, where they are.

        Raises:
            TargetError: The server refuses, or it is gone.
        """
        if dataset.space is not None:
            with self._session(self.at(address, dataset)) as session:
                self.fill(session, dataset.space)
        if self.persisted and dataset == self.datasets[-1]:
            with self._session(address) as session:
                _persist(session)

    def missing(self, address: ServerAddress) -> tuple[str, ...]:
        """Return a sentence for each data set that is not there as it was loaded."""
        sentences = []
        for dataset in self.datasets:
            loaded = 0 if dataset.space is None else dataset.space.loaded
            own = self.at(address, dataset)
            with self._session(own) as session:
                held = int(str(session.command("DBSIZE"))) - self.beside
            if held != loaded:
                sentences.append(f"database {own.database} holds {held} keys, not {loaded}")
        return tuple(sentences)

    def _session(self, address: ServerAddress) -> AbstractContextManager[RedisSession]:
        return opened(self.redis, address, timeout_s=_BUILD_TIMEOUT_S)


def _persist(session: RedisSession) -> None:
    session.command("SAVE")
    session.command("CONFIG", "SET", "appendonly", "yes")
    for _ in range(_REWRITE_POLLS):
        told = session.info("persistence")
        if told["aof_rewrite_in_progress"] == told["aof_rewrite_scheduled"] == "0":
            break
        # A wait at the server's side: no list is called like this.
        session.command("BLPOP", "steelyard:no-such-list", _POLL_S)
    else:
        raise TargetError(
            "the server still writes its append-only file, hours after its keys were made",
            hint="Load fewer keys, or name a faster disk with `directory:` in the target.",
        )
    if told["aof_last_bgrewrite_status"] != "ok" or told["aof_last_write_status"] != "ok":
        raise TargetError(
            "the server could not write its append-only file",
            hint="Free some disk, or name another directory with `directory:` in the target.",
        )


_ENTRY_BYTES: Final = 100  # a guess of what a key or a member takes beside its words
_WORTH_TELLING: Final = GIB  # a guess
_MAXMEMORY: Final = "Set `maxmemory` in every configuration, or look whether the memory is enough."
# Where the words are that tell one key or member from another; all else is overwritten.
_KEY: Final = (slice(1, 2),)
_IDENTITY: Final[Mapping[str, tuple[slice, ...]]] = {
    **dict.fromkeys(("set", "setnx", "setex", "psetex", "getset"), _KEY),
    **dict.fromkeys(("incr", "incrby", "incrbyfloat", "decr", "decrby", "pfadd"), _KEY),
    **dict.fromkeys(("hsetnx", "hincrby", "hincrbyfloat"), (slice(1, 3),)),
    **dict.fromkeys(("hset", "hmset"), (*_KEY, slice(2, None, 2))),
    "sadd": (*_KEY, slice(2, None)),
    "zincrby": (*_KEY, slice(3, 4)),
    "zadd": (*_KEY, slice(3, None, 2)),
    **dict.fromkeys(("mset", "msetnx"), (slice(1, None, 2),)),
}
# They remove or shorten, or change how long something lives.
_SHRINKING: Final = (
    "del unlink getdel getex expire expireat pexpire pexpireat persist lpop rpop lrem ltrim lset"
    " spop srem hdel hgetdel hgetex hexpire hexpireat hpexpire hpexpireat hpersist zpopmin zpopmax"
    " zrem zremrangebylex zremrangebyrank zremrangebyscore xack xdel xtrim xclaim xautoclaim"
)


def growth_bytes(workload: Workload) -> int | None:
    """Return about how much memory a workload takes at most; None: it grows without bound.

    Every key that it may write is counted as new.
    """
    work, command = workload.redis or RedisWork(), command_of(workload)
    verb = command[0].lower()
    if verb in READ_ONLY or verb in _SHRINKING.split():
        return 0
    if verb not in _IDENTITY:
        return None
    names = [word for part in _IDENTITY[verb] for word in command[part]]
    several = verb in ("mset", "msetnx")
    numbers = [work.space.keys ** word.count(NUMBER) for word in names]
    # Several keys, or for every key all members.
    entries: int = sum(numbers) if several else prod(numbers[:1]) * max(sum(numbers[1:]), 1)
    pairs = len(names) if several else 1
    values_bytes = sum(word.count(DATA) for word in command) * work.space.value_bytes
    entry_bytes = values_bytes + sum(len(word) for word in command[1:])
    return entries * (entry_bytes // pairs + _ENTRY_BYTES)


def growth_findings(experiment: Experiment) -> Iterator[Finding]:
    """Yield which workloads make their data much larger than what is loaded."""
    if all("maxmemory" in each.asked_folded() for each in experiment.configurations):
        return
    for workload in experiment.workloads:
        said = _told(workload)
        if said:
            yield Finding(
                code="keys-grow",
                severity=Severity.WARNING,
                message=said,
                remedy=_MAXMEMORY,
                subject=workload.name,
            )


def _told(workload: Workload) -> str:
    work = workload.redis or RedisWork()
    name = command_of(workload)[0].upper()
    most, loaded = growth_bytes(workload), work.space.loaded * work.space.value_bytes
    if most is None:
        return f"{name} makes its data larger with every request: nothing bounds them in a start"
    if most - loaded < _WORTH_TELLING:
        return ""
    return (
        f"{name} may write up to {format_bytes(most)} in a start, and {format_bytes(loaded)} are"
        " loaded"
    )


_UNBOUNDED: Final = GIB  # a guess: nothing but the length of a start bounds a file never rewritten
_LEAST_REWRITTEN: Final = 64 * MIB  # auto-aof-rewrite-min-size of redis.conf
_FILES: Final = 2  # the one that grows and the new one, while it is rewritten


def aof_bytes(settings: Mapping[str, str], data: int) -> int:
    """Return about how much the append-only file takes beside the loaded data.

    It is rewritten when it has grown by a share of what it was, and is of a least size.

    Args:
        settings: Asked for, by name in small letters.
        data: Bytes of the loaded data on disk.
    """
    if settings.get("appendonly", "no").lower() != "yes":
        return 0
    share = settings.get("auto-aof-rewrite-percentage", "100")
    if not share.isdecimal() or int(share) == 0:
        return _UNBOUNDED
    least = in_bytes(settings.get("auto-aof-rewrite-min-size", "")) or _LEAST_REWRITTEN
    return round(_FILES * max(least, data) * (1.0 + int(share) / 100.0))


_VALUE_BYTES: Final = 100
_AT_A_TIME: Final = 500  # keys of one MGET; a guess that keeps its answer below 64 KiB
_TIMEOUT_S: Final = 60.0


class NumberedKeys:
    """Keys ``crash:WRITER:NUMBER``."""

    def __init__(self, redis: RedisDoor) -> None:
        self._redis = redis

    def prepare(self, address: ServerAddress) -> None:
        """Keys need nothing."""

    def writer(self, address: ServerAddress, writer: int) -> "KeyWriter":
        """Return a connection that writes; a pipeline is several writes at once."""
        return KeyWriter(self._redis.connect(address, timeout_s=_TIMEOUT_S), writer)

    def missing(self, address: ServerAddress, writer: int, last: int) -> list[int]:
        """Return which of a writer's keys up to the last are gone, or have another value."""
        batches = (
            range(first, min(first + _AT_A_TIME, last + 1))
            for first in range(1, last + 1, _AT_A_TIME)
        )
        with opened(self._redis, address, timeout_s=_TIMEOUT_S) as session:
            return [number for batch in batches for number in _absent(session, writer, batch)]


class KeyWriter:
    """One connection."""

    def __init__(self, session: RedisSession, writer: int) -> None:
        self._session = session
        self._writer = writer

    def write(self, first: int, count: int) -> None:
        """Set so many keys; see ``NumberedWriter``."""
        self._session.pipeline(
            [
                ("SET", _key(self._writer, number), _value(self._writer, number))
                for number in range(first, first + count)
            ]
        )

    def close(self) -> None:
        """End the connection."""
        self._session.close()


def _key(writer: int, number: int) -> str:
    return f"crash:{writer}:{number}"


def _value(writer: int, number: int) -> bytes:
    return f"{writer}:{number}".ljust(_VALUE_BYTES, ".").encode()


def _absent(session: RedisSession, writer: int, batch: range) -> Iterator[int]:
    found = session.command("MGET", *(_key(writer, number) for number in batch))
    values = found if isinstance(found, list) else [None] * len(batch)
    for number, value in zip(batch, values, strict=True):
        if value != _value(writer, number):
            yield number
