"""The two load generators of Redis as one: command lines for a run, and what they printed.

redis-benchmark takes a number of requests, so it has to learn how many fill a time;
memtier_benchmark takes the time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from steelyard.engines.engine import RunRequest
from steelyard.engines.redis import benchmark, memtier
from steelyard.engines.redis.pace import MOST_REQUESTS, Pace, PaceKey
from steelyard.engines.redis.printed import Printed, measurement
from steelyard.model.command import Completed, ServerAddress
from steelyard.model.experiment import GeneratorName


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
