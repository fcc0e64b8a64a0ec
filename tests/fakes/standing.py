"""Generators and servers of a formula that stand still between turns, and what counts of them."""

import json
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Protocol

from fakes.clock import FakeClock
from steelyard.core.measurement import RunLatency, ScriptLatency
from steelyard.core.outside import Command, Completed
from steelyard.core.schedule import Pausing, Stretch
from steelyard.core.wording import MeasurementError, TargetError
from steelyard.gateways.cgroups import Guard, Guards
from steelyard.stats.histogram import histogram_of, to_text


class _World(Protocol):
    """What the world of one server knows of its turns."""

    clock: FakeClock
    running: bool
    restless: set[int]
    dies_after_s: float | None
    fails_after_s: float | None
    connection_s: float
    hangs: bool
    lost_from_logs: int
    pauses: int


@dataclass(eq=False)
class FakeStandstill:
    """Stops a server of a formula with its generators, and notes when it ran."""

    world: _World
    kind: Pausing = Pausing.SIGNALS
    running_since: float | None = None  # None: it stands still
    gone: bool = False  # its group is: nothing can be done with it any more
    listeners: list[Callable[[float, float], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.running_since = self.world.clock.now()

    def announce(self) -> None:
        """Return: it is on one machine."""

    def pause(self) -> bool:
        """Stop it, unless the world's server is restless at this pause: then it goes on."""
        number, self.world.pauses = self.world.pauses, self.world.pauses + 1
        if number in self.world.restless:
            return False
        if self.running_since is not None:
            began, self.running_since = self.running_since, None
            for hears in self.listeners:
                hears(began, self.world.clock.now())
        return True

    def proceed(self) -> None:
        """Let it go on."""
        if self.gone:
            raise TargetError("the control group is gone")
        if self.running_since is None:
            self.running_since = self.world.clock.now()


class AtHome:
    """Generators of this machine: no worker has them."""

    cpu_s = 0.0

    def levels(self) -> dict[str, float]:
        """Return nothing."""
        return {}


@dataclass(kw_only=True, eq=False)
class FakeGenerators(AtHome):
    """One generator that works at a rate whenever its server does not stand still."""

    world: _World
    standstill: FakeStandstill
    command: Command
    rate: float
    log: Path | None
    began_at: float = 0.0
    signals: list[int] = field(default_factory=list)
    ran: list[tuple[float, float]] = field(default_factory=list)
    closed: bool = False
    ended: bool = False
    pids: tuple[int, ...] = (5_100_000,)

    def __post_init__(self) -> None:
        self.began_at = self.world.clock.now()
        self.standstill.listeners.append(self._note)

    def _note(self, began: float, ended: float) -> None:
        """Note that server and generator ran from then to then."""
        if not self.ended:
            self.ran.append((max(began, self.began_at), ended))

    @property
    def ran_s(self) -> float:
        """Return for how long it has run."""
        since = self.standstill.running_since
        now_s = 0.0
        if since is not None and not self.ended:
            now_s = self.world.clock.now() - max(since, self.began_at)
        return now_s + sum(ended - began for began, ended in self.ran)

    def all_run(self) -> bool:
        """Return whether it has not ended; with its server it ends, too."""
        if self._is_over(self.world.dies_after_s):
            self.world.running = False
        return not self.ended and self.world.running and not self._is_over(self.world.fails_after_s)

    def _is_over(self, after_s: float | None) -> bool:
        return after_s is not None and self.ran_s >= after_s

    def signal(self, number: int) -> None:
        """Take a signal; one that stands still hears none."""
        assert self.standstill.running_since is not None
        self.signals.append(number)

    def completed(self, *, within_s: float | None = None) -> tuple[Completed, ...]:
        """Return what it printed once it heard that it is to end, or failed."""
        assert within_s is not None
        if self.world.hangs:
            self.world.clock.advance(within_s)
            raise MeasurementError(f"generate did not end within {within_s:.0f} s and was killed")
        if not self.all_run():
            self._end()
            return (self._completed(2, "", "client 3 aborted\n"),)
        assert self.signals
        self._end()
        printed = {
            "rate": self.rate,
            "seconds": self.world.clock.now() - self.began_at,
            "done": sum(done for _, _, done in self._ran()),
            "connection_s": self.world.connection_s,
        }
        if self.log is not None:
            now = self.world.clock.now()
            lost = f"{now!r} {now!r} {-self.world.lost_from_logs}\n"
            lines = [f"{began!r} {ended!r} {done}\n" for began, ended, done in self._ran()]
            with self.log.open("a") as file:
                file.write("".join([*lines, lost]))
        return (self._completed(0, json.dumps(printed), ""),)

    def _ran(self) -> list[tuple[float, float, int]]:
        return [(began, ended, round((ended - began) * self.rate)) for began, ended in self.ran]

    def _completed(self, status: int, stdout: str, stderr: str) -> Completed:
        return Completed(argv=self.command.argv, exit_status=status, stdout=stdout, stderr=stderr)

    def _end(self) -> None:
        if not self.ended and self.standstill.running_since is not None:
            self._note(self.standstill.running_since, self.world.clock.now())
        self.ended = True

    def close(self) -> None:
        """End; one that stands still would not."""
        still = self.standstill
        assert self.closed or still.gone or still.running_since is not None
        self._end()
        self.closed = True


@dataclass(kw_only=True)
class FakeTurnLog:
    """Reads logs whose lines say from when to when how many transactions ended, evenly."""

    script: str
    stretches: Sequence[Stretch]
    damaged: int = 0
    truncated: tuple[str, ...] = ()
    _text: bytes = b""
    _ran: list[tuple[float, float, int]] = field(default_factory=list)  # in the order of time

    def feed(self, source: str, chunk: bytes) -> None:
        """Take bytes."""
        assert source
        self._text += chunk

    def finish(self, *, ramp_s: float | None = None) -> "FakeTurnLog":
        """Return the log itself."""
        assert ramp_s == 0.0
        words = [line.split() for line in self._text.splitlines()]
        self._ran = [(float(began), float(ended), int(done)) for began, ended, done in words]
        return self

    @property
    def transactions(self) -> int:
        """Return all that ended."""
        return sum(done for _, _, done in self._ran)

    @property
    def counted(self) -> Mapping[int, int]:
        """Return how many ended in each half of what counts of each stretch."""
        found = {}
        for number, stretch in enumerate(self.stretches):
            if stretch.counted is not None:
                first, last = stretch.counted
                middle = (first + last) / 2
                found[2 * number] = self._within(first, middle)
                found[2 * number + 1] = self._within(middle, last)
        return found

    @property
    def shared(self) -> Mapping[int, float]:
        """Return the same: nothing lies over an edge."""
        return self.counted

    @property
    def ended(self) -> Mapping[int, int]:
        """Return what counts: who has a counter asks for no more."""
        return self.counted

    def _within(self, first: float, last: float) -> int:
        later = bisect_right(self._ran, first, key=lambda each: each[1])
        overlaps = (
            done * max(min(ended, last) - max(began, first), 0.0) / (ended - began)
            for began, ended, done in takewhile(lambda each: each[0] < last, self._ran[later:])
            if ended > began
        )
        return round(sum(overlaps))

    def run_latency(self, *, windows_s: float | None) -> RunLatency:
        """Return as many milliseconds as count."""
        assert windows_s is None
        count = histogram_of([1000] * sum(self.counted.values()))
        one = ScriptLatency(script=self.script, latency=to_text(count), longest_s=0.001)
        return RunLatency(scripts=(one,))

    def seconds_text(self) -> str:
        """Return a line."""
        return "{}\n"


@dataclass(eq=False)
class FakeGuard(Guard):
    """Watches over nothing."""

    is_there: bool = True

    def stands(self) -> bool:
        """Return whether it was not let go."""
        return self.is_there

    def close(self) -> None:
        """Let it go."""
        self.is_there = False


@dataclass
class FakeGuards(Guards):
    """Starts guards that watch over nothing, and notes of what."""

    started: list[FakeGuard] = field(default_factory=list)
    groups: list[Path] = field(default_factory=list)
    directories: list[Path] = field(default_factory=list)

    def start(self, groups: Sequence[Path], directories: Sequence[Path]) -> FakeGuard:
        """Return a guard."""
        self.groups += groups
        self.directories += directories
        self.started.append(FakeGuard())
        return self.started[-1]
