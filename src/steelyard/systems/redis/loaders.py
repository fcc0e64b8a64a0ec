"""The two load generators of Redis as one, and keys that a server makes itself from a random text.

redis-benchmark takes a number of requests, so it has to learn how many fill a time;
memtier_benchmark takes the time.

A script is for servers at the end of a narrow way; its values are those of ``datasets``. Through a
forwarded port of a pod each value would go through the cluster's API: 12 MB/s and 90 us for a key
were measured on a busy machine of two cores. A script gets the text once for many keys. Source:
Redis documentation, "EVAL".
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from steelyard.core.command import Completed, ServerAddress
from steelyard.core.experiment import GeneratorName, KeySpace
from steelyard.gateways.redis import RedisSession, ReplyError
from steelyard.systems.protocol import RunRequest
from steelyard.systems.redis import memtier
from steelyard.systems.redis import redis_benchmark as benchmark
from steelyard.systems.redis.datasets import (
    ONE_KEY,
    VALUE_SHIFTS,
    VALUE_STEP,
    fill,
    random_text,
    require_held,
)
from steelyard.systems.redis.redis_benchmark import (
    MOST_REQUESTS,
    Pace,
    PaceKey,
    Printed,
    measurement,
)


class Loader(Protocol):
    """A load generator; ``number`` is that of the workload's database."""

    def refuse_flags(self, flags: Sequence[str]) -> None:
        """Raise an InputError for flags that Steelyard sets itself."""
        ...

    def environment(self, address: ServerAddress) -> Mapping[str, str]:
        """Return what it takes from its environment."""
        ...

    def pilots(self, request: RunRequest, number: int) -> tuple[tuple[str, ...], ...]:
        """Return the command lines of a try that tells how fast the server is, or nothing."""
        ...

    def learn(self, request: RunRequest, completed: Sequence[Completed]) -> None:
        """Take from what was run how fast the server is."""
        ...

    def runs(self, request: RunRequest, number: int) -> tuple[tuple[str, ...], ...]:
        """Return the command line of each process of a run."""
        ...

    def parse(self, completed: Completed) -> Printed:
        """Return what one process printed; MeasurementError where it failed."""
        ...


def loader_of(name: GeneratorName, program: Path) -> Loader:
    """Return the load generator of that name."""
    if name is GeneratorName.MEMTIER:
        return Memtier(program=str(program))
    return RedisBenchmark(program=str(program))


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisBenchmark:
    """redis-benchmark: each treatment, workload and load has a pace of its own."""

    program: str
    pace: Pace = field(default_factory=Pace)

    def refuse_flags(self, flags: Sequence[str]) -> None:
        """Raise an InputError for flags that Steelyard sets itself."""
        benchmark.refuse_own_flags(flags)

    def environment(self, address: ServerAddress) -> Mapping[str, str]:
        """Return nothing; PreflightError where the server wants a password."""
        return benchmark.environment(address)

    def pilots(self, request: RunRequest, number: int) -> tuple[tuple[str, ...], ...]:
        """Return the command lines of a longer and longer try, until one was long enough."""
        requests = self.pace.pilot(_key(request))
        return () if requests is None else self._lines(request, requests, number)

    def learn(self, request: RunRequest, completed: Sequence[Completed]) -> None:
        """Take from a try or a run how many requests were answered in which time."""
        done = measurement([self.parse(each) for each in completed])
        self.pace.learn(_key(request), round(done.transactions), done.seconds)

    def runs(self, request: RunRequest, number: int) -> tuple[tuple[str, ...], ...]:
        """Return the command line of each process of a run; in turns it ends when it is ended."""
        if request.in_turns:
            each = benchmark.processes(request.load)
            return self._lines(request, MOST_REQUESTS * each, number)
        return self._lines(request, self.pace.requests(_key(request), request.seconds), number)

    def _lines(
        self, request: RunRequest, requests: int, number: int
    ) -> tuple[tuple[str, ...], ...]:
        lists = benchmark.argument_lists(request, requests=requests, dbnum=number)
        return tuple((self.program, *arguments) for arguments in lists)

    def parse(self, completed: Completed) -> Printed:
        """Return what one process printed."""
        return benchmark.parse(completed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memtier:
    """memtier_benchmark: one process with threads, for a time."""

    program: str

    def refuse_flags(self, flags: Sequence[str]) -> None:
        """Raise an InputError for flags that Steelyard sets itself."""
        memtier.refuse_own_flags(flags)

    def environment(self, address: ServerAddress) -> Mapping[str, str]:
        """Return nothing; PreflightError where the server wants a password."""
        return memtier.environment(address)

    def pilots(self, request: RunRequest, number: int) -> tuple[tuple[str, ...], ...]:  # noqa: ARG002 - by its protocol
        """Return nothing: it takes a time."""
        return ()

    def learn(self, request: RunRequest, completed: Sequence[Completed]) -> None:
        """Learn nothing."""

    def runs(self, request: RunRequest, number: int) -> tuple[tuple[str, ...], ...]:
        """Return the command line of the one process."""
        return (memtier.command_line(self.program, request, dbnum=number),)

    def parse(self, completed: Completed) -> Printed:
        """Return what it printed."""
        return memtier.parse(completed)


def _key(request: RunRequest) -> PaceKey:
    return PaceKey(treatment=request.treatment, workload=request.workload.name, load=request.load)


# What one script makes: it holds the server up for so long, and nothing else asks it (guesses).
_SCRIPT_BYTES: Final = 64 * 1024**2
_SCRIPT_KEYS: Final = 10_000
# How a server says that a user may not run scripts, or that nobody may.
_NO_SCRIPTS: Final = ("NOPERM", "unknown command", "no permissions")
_SCRIPT: Final = """
local text, bytes = ARGV[1], tonumber(ARGV[2])
for number = tonumber(ARGV[3]), tonumber(ARGV[4]) - 1 do
  local begin = (number * tonumber(ARGV[5])) % tonumber(ARGV[6])
  local key = string.format('key:%012d', number + tonumber(ARGV[8]))
  if number == 0 and ARGV[7] ~= '' then key = ARGV[7] end
  redis.call('SET', key, string.sub(text, begin + 1, begin + bytes))
end
"""


def fill_by_script(
    session: RedisSession,
    space: KeySpace,
    *,
    told: Callable[[int], None] = lambda _: None,
    beside: int = 0,
) -> int:
    """Let the server make the keys of a space in the session's database; return how many it has.

    Where a server takes no scripts, the keys are sent to it one by one.

    Args:
        session: In the database.
        space: Which keys, and how large.
        told: Is told how many are loaded, after each script.
        beside: So many other keys are there already.

    Raises:
        ReplyError: The server refuses: it is out of memory, or its disk is full.
        TargetError: It is gone, or holds another number of keys.
    """
    text = random_text(space.value_bytes)
    word = ONE_KEY if space.keys == 1 and space.first == 0 else ""
    constant = (VALUE_STEP, VALUE_SHIFTS, word, space.first)
    for begin, end in _ranges(space):
        try:
            session.command(*("EVAL", _SCRIPT, 0, text, space.value_bytes, begin, end, *constant))
        except ReplyError as error:
            if begin == 0 and any(word in error.message for word in _NO_SCRIPTS):
                return fill(session, space, told=told, beside=beside)
            raise
        told(end)
    return require_held(session, space, beside=beside)


def _ranges(space: KeySpace) -> Iterator[tuple[int, int]]:
    most = max(1, min(_SCRIPT_KEYS, _SCRIPT_BYTES // max(1, space.value_bytes)))
    for begin in range(0, space.loaded, most):
        yield begin, min(begin + most, space.loaded)
