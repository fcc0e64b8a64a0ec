"""How much more memory a workload may take than the keys that are loaded before it."""

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Final

from steelyard.engines.redis.words import COMMANDS, DATA, NUMBER, OTHER_NAMES
from steelyard.model.experiment import Experiment
from steelyard.model.findings import Finding, Severity
from steelyard.model.redis_commands import READ_ONLY
from steelyard.model.units import GIB, format_bytes
from steelyard.model.workload import RedisWork, Workload

_ENTRY_BYTES: Final = 100  # a guess of what a key or a member takes beside its words
_WORTH_TELLING: Final = GIB  # a guess
_MAXMEMORY: Final = "Set `maxmemory` in every treatment, or look whether the memory is enough."
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
    work = workload.redis or RedisWork()
    command = work.command or _sent(workload, work)
    verb = command[0].lower()
    if verb in READ_ONLY or verb in _SHRINKING.split():
        return 0
    if verb not in _IDENTITY:
        return None
    names = [word for part in _IDENTITY[verb] for word in command[part]]
    several = verb in ("mset", "msetnx")
    numbers = [work.space.keys ** word.count(NUMBER) for word in names]
    entries = sum(numbers) if several else _distinct(numbers)
    pairs = len(names) if several else 1
    return entries * (_entry_bytes(command, work) // pairs + _ENTRY_BYTES)


def growth_findings(experiment: Experiment) -> Iterator[Finding]:
    """Yield which workloads make their data much larger than what is loaded."""
    if all("maxmemory" in each.asked_folded() for each in experiment.treatments):
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
    """Return what is to be said of a workload's growth; empty: nothing."""
    work = workload.redis or RedisWork()
    name = (work.command or _sent(workload, work))[0].upper()
    most, loaded = growth_bytes(workload), work.space.loaded * work.space.value_bytes
    if most is None:
        return f"{name} makes its data larger with every request: nothing bounds them in a visit"
    if most - loaded < _WORTH_TELLING:
        return ""
    return (
        f"{name} may write up to {format_bytes(most)} in a visit, and {format_bytes(loaded)} are"
        " loaded"
    )


def _sent(workload: Workload, work: RedisWork) -> Sequence[str]:
    builtin = OTHER_NAMES.get(workload.builtin or "", workload.builtin or "")
    if work.read_share == 1.0:
        return COMMANDS["get"]
    return COMMANDS.get(builtin, COMMANDS["set"])  # a mix sets, too


def _distinct(numbers: Sequence[int]) -> int:
    """Return how many entries there are: for every key all members."""
    return prod(numbers[:1]) * max(sum(numbers[1:]), 1)


def _entry_bytes(command: Sequence[str], work: RedisWork) -> int:
    values = sum(word.count(DATA) for word in command) * work.space.value_bytes
    return values + sum(len(word) for word in command[1:])
