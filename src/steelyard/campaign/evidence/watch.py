"""Probes around a piece of work: each in a thread of its own, none able to harm or delay it."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from steelyard.core import measurement
from steelyard.core.wording import SteelyardError, TargetError
from steelyard.gateways.host import Clock, thread_cpu_s
from steelyard.systems.protocol import ServerReader


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one probe saw in one run; the parts together are the run's evidence.

    Attributes:
        server_cpu_s: What answering the probe cost the server; None where it is not visible.
    """

    totals: Mapping[str, float] = field(default_factory=dict)
    levels: Mapping[str, float] = field(default_factory=dict)
    waits: measurement.Waits | None = None
    series: tuple[measurement.Series, ...] = ()
    others: tuple[measurement.OtherProcess, ...] = ()
    absent: tuple[measurement.Absence, ...] = ()
    server_cpu_s: float | None = None
    statements: tuple[measurement.StatementUse, ...] | None = None


class Probe(Protocol):
    """Watches one kind of thing during one run.

    All of its methods but ``abandon`` are called in one thread of its own, so that it may keep a
    connection. Whatever one of them raises makes the probe absent, with the error as the reason.
    """

    @property
    def subject(self) -> str:
        """Return what it watches, as an absence calls it."""
        ...

    @property
    def interval_s(self) -> float:
        """Return the time between two samples."""
        ...

    def begin(self) -> None:
        """Take the first reading, while the server is still idle."""
        ...

    def sample(self, at_s: float) -> None:
        """Take a sample, ``at_s`` seconds after the run's start."""
        ...

    def finish(self, at_s: float, *, lost: int) -> Part:
        """Take the last reading after the generator's end, and return everything.

        Args:
            at_s: Seconds since the run's start.
            lost: Samples that were due and not taken, because others took too long.
        """
        ...

    def abandon(self) -> None:
        """Give up what a call may be waiting for; called from another thread."""
        ...


# Guesses: a probe that needs longer than that before or after a run would change what it watches.
BEGIN_WITHIN_S = 5.0
END_WITHIN_S = 10.0
_Result = TypeVar("_Result")


@dataclass(slots=True, kw_only=True)
class Watch:
    """Watches one piece of work with its probes; used once."""

    probes: Sequence[Probe]
    clock: Clock
    _workers: list["Worker"] = field(default_factory=list)
    _begun_at: float = 0.0

    def begin(self) -> None:
        """Let all probes take their first reading, then start the clock of the run."""
        self._workers = [Worker(probe, self.clock) for probe in self.probes]
        for worker in self._workers:
            worker.start(BEGIN_WITHIN_S)
        self._begun_at = self.clock.monotonic()
        for worker in self._workers:
            worker.go(self._begun_at)

    def around(self, work: Callable[[], _Result]) -> _Result:
        """Return what the work returns; the probes see its beginning and its end.

        Raises:
            Exception: What the work raises, after the probes have ended.
        """
        try:
            self.begin()
            return work()
        finally:
            for worker in self._workers:
                worker.go(self._begun_at)  # one that is interrupted before waits for it
                worker.finish()

    def evidence(self) -> measurement.Evidence | None:
        """Return what the probes saw, waiting for their end; None when there were none."""
        if not self._workers:
            return None
        seconds = self.clock.monotonic() - self._begun_at
        parts = [worker.part(END_WITHIN_S) for worker in self._workers]
        return evidence_of(parts, seconds, own_cpu_s=sum(worker.cpu_s for worker in self._workers))


def evidence_of(parts: Sequence[Part], seconds: float, *, own_cpu_s: float) -> measurement.Evidence:
    """Return what several probes saw in so many seconds of a run, at that cost here."""
    return measurement.Evidence(
        seconds=round(seconds, 4),
        totals=_merged(part.totals for part in parts),
        levels=_merged(part.levels for part in parts),
        waits=next((part.waits for part in parts if part.waits is not None), None),
        series=tuple(series for part in parts for series in part.series),
        others=tuple(other for part in parts for other in part.others),
        absent=tuple(absence for part in parts for absence in part.absent),
        cost=measurement.ProbeCost(
            own_cpu_s=round(own_cpu_s, 4),
            server_cpu_s=_sum([part.server_cpu_s for part in parts]),
        ),
        statements=next((each.statements for each in parts if each.statements is not None), None),
    )


class Worker:
    """One probe in its thread."""

    def __init__(self, probe: Probe, clock: Clock) -> None:
        self._probe = probe
        self._clock = clock
        self._ready, self._started = threading.Event(), threading.Event()
        self._done = threading.Event()
        # Held while the work goes on. An Event does the same, at several times the CPU time in
        # every wait, of which there are ten a second.
        self._at_work = threading.Lock()
        self._at_work.acquire()
        self._begun_at = 0.0
        self._part = Part()
        self._failure = ""
        self.cpu_s = 0.0

    def start(self, within_s: float) -> None:
        """Begin the probe; one that is not ready in time is left behind."""
        thread = threading.Thread(
            target=self._work, name=f"probe {self._probe.subject}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:  # no more threads are allowed
            self._failure = f"{error}"
            self._done.set()
            return
        if not self._ready.wait(within_s):
            self._failure = f"it was not ready within {within_s:.0f} s"
            self.finish()
            self._probe.abandon()

    def go(self, begun_at: float) -> None:
        """Let it sample; times count from ``begun_at``."""
        self._begun_at = begun_at
        self._started.set()

    def finish(self) -> None:
        """Tell it that the work is over; a second time changes nothing."""
        with suppress(RuntimeError):
            self._at_work.release()

    def part(self, within_s: float) -> Part:
        """Return what it saw, or its absence."""
        if not self._failure and not self._done.wait(within_s):
            self._failure = f"it did not end within {within_s:.0f} s"
            self._probe.abandon()
        if self._failure:
            absent = measurement.Absence(subject=self._probe.subject, reason=self._failure)
            return Part(absent=(*self._part.absent, absent))
        return self._part

    def _work(self) -> None:
        try:
            self._probe.begin()
            self._ready.set()
            self._started.wait()
            lost = self._sample()
            self._part = self._probe.finish(self._elapsed_s(), lost=lost)
        except SteelyardError as error:
            self._failure = self._failure or error.message
        except Exception as error:  # noqa: BLE001 - whatever fails in a probe must not end a run
            self._failure = self._failure or f"{type(error).__name__}: {error}"
        finally:
            self.cpu_s = thread_cpu_s()
            self._ready.set()
            self._done.set()

    def _sample(self) -> int:
        """Sample until the work is over; return how many samples were due and not taken."""
        lost, due = 0, 1
        while True:
            wait_s = due * self._probe.interval_s - self._elapsed_s()
            if self._at_work.acquire(timeout=max(wait_s, 0.0)):
                return lost
            self._probe.sample(self._elapsed_s())
            next_due = max(due + 1, int(self._elapsed_s() / self._probe.interval_s) + 1)
            lost, due = lost + next_due - due - 1, next_due

    def _elapsed_s(self) -> float:
        return self._clock.monotonic() - self._begun_at


def _merged(mappings: Iterable[Mapping[str, float]]) -> dict[str, float]:
    return {name: value for mapping in mappings for name, value in mapping.items()}


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known), 4) if known else None


@dataclass(slots=True, kw_only=True)
class StatementProbe:
    """Reads what each statement used in a run, and nothing else: the server serves others, too."""

    open_reader: Callable[[], ServerReader]
    subject: str = measurement.STATEMENTS
    interval_s: float = END_WITHIN_S
    _reader: ServerReader | None = None
    _used: tuple[measurement.StatementUse, ...] | None = None

    def begin(self) -> None:
        """Open the session and read what was used so far."""
        self._reader = self.open_reader()
        self._used = self._reader.statements()

    def sample(self, at_s: float) -> None:
        """Do nothing."""

    def forget(self, at_s: float) -> None:
        """Do nothing."""

    def finish(self, at_s: float, *, lost: int) -> Part:  # noqa: ARG002 - by its protocol
        """Read it once more when the generator's sessions are gone."""
        reader = self._reader
        if reader is None:
            raise TargetError("it never began")
        statements, gone = used_between(self._used, reader.statements())
        told = (each for each in reader.absent if each.subject == measurement.STATEMENTS)
        reader.close()
        return Part(statements=statements, absent=(*told, *gone))

    def abandon(self) -> None:
        """End the session, also while a statement hangs."""
        if self._reader is not None:
            self._reader.close()


_MOST_STATEMENTS = 100  # of a run, kept in the record; others take part in no figure
_FORGOTTEN = measurement.Absence(
    subject=measurement.STATEMENTS,
    reason="pg_stat_statements was reset during the run, or forgot statements: raise"
    " pg_stat_statements.max.",
)


def used_between(
    before: Sequence[measurement.StatementUse] | None,
    after: Sequence[measurement.StatementUse] | None,
) -> tuple[tuple[measurement.StatementUse, ...] | None, tuple[measurement.Absence, ...]]:
    """Return what each statement used, the longest first, and what is not known of them.

    What the server has forgotten since might have been used: then nothing is sure.
    """
    if before is None or after is None:
        return None, ()
    known = {each.text: each for each in after}
    earlier = {each.text: each for each in before}
    if any(text not in known or known[text].calls < each.calls for text, each in earlier.items()):
        return None, (_FORGOTTEN,)
    used = [_used_since(earlier.get(text), each) for text, each in known.items()]
    called = sorted((each for each in used if each.calls), key=lambda each: -each.seconds)
    return tuple(called[:_MOST_STATEMENTS]), ()


def _used_since(
    before: measurement.StatementUse | None, after: measurement.StatementUse
) -> measurement.StatementUse:
    if before is None:
        return after
    used = after.plus(before, -1.0)
    return replace(used, seconds=round(used.seconds, 9))
