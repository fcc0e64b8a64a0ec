"""The probe of the server: samples of a fake reader become averages, timelines and totals."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from fakes.clock import FakeClock
from fakes.host import FakeHost
from steelyard.campaign.evidence.probe import Part
from steelyard.campaign.evidence.server import ServerProbe
from steelyard.core.measurement import Absence, Quantity, WaitClass
from steelyard.core.wording import TargetError
from steelyard.systems.protocol import Waiting
from support.watching import seen_by

_CPU = Waiting(kind="CPU", name="", group=WaitClass.CPU, sessions=1)
_SYNC = Waiting(kind="IO", name="WalSync", group=WaitClass.WAL, sessions=2)
_READ = Waiting(kind="Client", name="ClientRead", group=WaitClass.CLIENT, sessions=1)


@dataclass
class FakeReader:
    """A server that commits a hundred times between two readings."""

    waiting: Sequence[Waiting] = (_CPU, _SYNC)
    fails_in: str = ""
    settled: Mapping[str, float] = field(default_factory=dict)
    absent: tuple[Absence, ...] = ()
    source: str = "fake activity"
    pid: int | None = 4711
    serving_pid: int | None = None
    answering_s: float | None = None
    closed: bool = False
    readings: int = 0
    hangs: threading.Event | None = None
    skipped: list[float] = field(default_factory=list)

    def skip(self, seconds: float) -> None:
        """Note how long nothing went on."""
        self.skipped.append(seconds)

    def _called(self, name: str) -> None:
        if self.closed:
            raise TargetError("the connection is closed")
        if name == self.fails_in:
            raise TargetError(f"refused in {name}")

    def waits(self) -> Sequence[Waiting]:
        """Return what the test put there."""
        self._called("waits")
        return self.waiting

    def counters(self) -> Mapping[str, float]:
        """Count a hundred commits more than last time."""
        self._called("counters")
        if self.hangs is not None:
            self.hangs.wait(60)
            self._called("counters")
        self.readings += 1
        return {Quantity.COMMITS: 100.0 * self.readings, Quantity.WAL_SYNCS: 10.0 * self.readings}

    def settled_counters(self) -> Mapping[str, float]:
        """Return what the test put there, or two more commits than at last."""
        self._called("settled")
        return self.settled or {Quantity.COMMITS: 100.0 * self.readings + 2, Quantity.WAL_SYNCS: 99}

    def levels(self) -> Mapping[str, float]:
        """Return one."""
        self._called("levels")
        return {Quantity.DATABASE_BYTES: 7.0}

    def statements(self) -> None:
        """Tell nothing of statements."""

    def close(self) -> None:
        """End, also what hangs."""
        self.closed = True
        if self.hangs is not None:
            self.hangs.set()


def _probe(reader: FakeReader, *, ramp_s: float = 0.0, host: FakeHost | None = None) -> ServerProbe:
    return ServerProbe(open_reader=lambda: reader, ramp_s=ramp_s, nearby=host)


def _run(
    reader: FakeReader,
    samples: Sequence[tuple[float, Sequence[Waiting]]],
    *,
    ramp_s: float = 0.0,
    host: FakeHost | None = None,
) -> Part:
    """Let a probe see these sessions at these times of a run that ends with the last."""
    probe = _probe(reader, ramp_s=ramp_s, host=host)
    probe.begin()
    for at_s, waiting in samples:
        reader.waiting = waiting
        probe.sample(at_s)
    return probe.finish(samples[-1][0], lost=3)


def _every_tenth(
    until_s: float, waiting: Sequence[Waiting]
) -> list[tuple[float, Sequence[Waiting]]]:
    return [(n / 10, waiting) for n in range(1, round(until_s * 10) + 1)]


def test_pauses_are_told_to_the_reader() -> None:
    """What it sums over time leaves them out: 0.75 s between samples 0.25 s of the run apart."""
    clock, reader = FakeClock(), FakeReader()
    probe = ServerProbe(open_reader=lambda: reader, ramp_s=0.0, nearby=None, paused_by=clock)
    probe.begin()
    for at_s, passed_s in ((0.25, 0.25), (0.5, 1.0)):
        clock.advance(passed_s)
        probe.sample(at_s)
    clock.advance(3.0)
    probe.finish(0.75, lost=0)
    assert reader.skipped == pytest.approx([0.0, 0.75, 2.75])


def test_a_run_in_one_piece_has_no_pauses() -> None:
    """Its reader is told of none, however late a sample is."""
    reader = FakeReader()
    _run(reader, [(0.1, [_CPU]), (0.5, [_CPU])])
    assert reader.skipped == []
    assert reader.closed


def test_a_sample_that_is_forgotten_is_in_no_average() -> None:
    """Nor in the timeline; an earlier one stays."""
    reader = FakeReader()
    probe = _probe(reader)
    probe.begin()
    reader.waiting = [_CPU]
    probe.sample(0.1)
    reader.waiting = [_SYNC]
    probe.sample(0.2)
    probe.forget(0.2)
    probe.forget(0.2)
    waits = probe.finish(0.3, lost=1).waits
    assert waits is not None
    assert waits.samples == 1
    assert [event.kind for event in waits.events] == ["CPU"]


def test_sessions_are_averaged_by_event() -> None:
    """Half of the time two wait for the WAL: one on average; the most sessions come first."""
    part = _run(FakeReader(), [(0.1, [_CPU, _READ]), (0.2, [_CPU, _SYNC, _READ])])
    assert part.waits is not None
    assert part.waits.source == "fake activity at 10 Hz"
    assert (part.waits.samples, part.waits.lost) == (2, 3)
    assert {(e.kind, e.name): e.sessions for e in part.waits.events} == {
        ("CPU", ""): 1.0,
        ("Client", "ClientRead"): 1.0,
        ("IO", "WalSync"): 1.0,
    }
    assert part.waits.sessions_in(WaitClass.WAL) == 1.0
    means = [event.sessions for event in part.waits.events]
    assert means == sorted(means, reverse=True)


def test_the_ramp_and_the_time_without_a_generator_are_not_averaged() -> None:
    """The ramp begins with the first session; before it and after the last one nobody works."""
    nobody: Sequence[Waiting] = ()
    samples = [(0.1, nobody), (0.2, [_SYNC]), (0.7, [_SYNC]), (1.2, [_CPU]), (1.3, nobody)]
    part = _run(FakeReader(), [*samples, (1.4, [_CPU]), (1.5, nobody)], ramp_s=1.0)
    assert part.waits is not None
    assert part.waits.samples == 3
    (cpu,) = part.waits.events
    assert cpu.group is WaitClass.CPU
    assert cpu.sessions == pytest.approx(2 / 3, abs=1e-4)


@pytest.mark.parametrize("ramp_s", [0.0, 60.0])
def test_nobody_seen_is_no_zero(ramp_s: float) -> None:
    """Without a session after the ramp there are no averages, and the absence says why."""
    part = _run(FakeReader(), _every_tenth(1.0, () if not ramp_s else [_CPU]), ramp_s=ramp_s)
    assert part.waits is None
    (absence,) = part.absent
    assert "after the ramp" in absence.reason
    assert [series.subject for series in part.series] == ["counters"]


def test_what_the_reader_does_not_show_is_passed_on() -> None:
    """Its own reason for missing wait events is the only one."""
    hidden = Absence(subject="wait events", reason="No right.")
    part = _run(FakeReader(absent=(hidden,)), _every_tenth(0.5, ()))
    assert part.absent == (hidden,)


def test_each_second_has_its_mean_of_each_class() -> None:
    """Ramp included; a second that nobody looked at is None, not 0."""
    samples = [*_every_tenth(0.9, [_CPU]), (2.1, [_SYNC]), (2.2, []), (3.05, [_SYNC])]
    waits = next(s for s in _run(FakeReader(), samples, ramp_s=0).series if s.subject == "waits")
    assert waits.end_s == (1.0, 2.0, 3.0)
    assert waits.names == tuple(WaitClass)
    by_second = [dict(zip(waits.names, row, strict=True)) for row in waits.rows]
    assert by_second[0][WaitClass.CPU] == 1.0
    assert by_second[0][WaitClass.WAL] == 0.0
    assert set(by_second[1].values()) == {None}
    assert by_second[2][WaitClass.WAL] == 1.0


def test_counters_are_read_each_second_and_at_both_ends() -> None:
    """The totals go from before the first sample to after the last session."""
    part = _run(FakeReader(), _every_tenth(3.0, [_CPU]))
    counted = next(s for s in part.series if s.subject == "counters")
    assert counted.names == (Quantity.COMMITS,)
    assert counted.end_s == (1.0, 2.0, 3.0)
    assert counted.rows == ((100.0,), (100.0,), (100.0,))
    assert part.totals == {Quantity.COMMITS: 302.0, Quantity.WAL_SYNCS: 89.0}
    assert part.levels == {Quantity.DATABASE_BYTES: 7.0}


def test_counters_that_were_reset_are_absent() -> None:
    """A difference that is negative measures nothing."""
    reader = FakeReader(settled={Quantity.COMMITS: 5.0, Quantity.WAL_SYNCS: 99.0})
    part = _run(reader, _every_tenth(1.0, [_CPU]))
    assert part.totals == {Quantity.WAL_SYNCS: 89.0}
    (absence,) = part.absent
    assert absence.subject == Quantity.COMMITS
    assert "reset" in absence.reason


def test_the_cost_on_the_server_is_that_of_the_session() -> None:
    """By its process, where the server is on this machine; elsewhere nobody knows."""
    schedstat = FakeHost(files={"/proc/4711/schedstat": "12500000 99 7\n"})
    samples = _every_tenth(0.2, [_CPU])
    assert _run(FakeReader(), samples, host=schedstat).server_cpu_s == 0.0125
    assert _run(FakeReader(), samples, host=FakeHost()).server_cpu_s is None
    assert _run(FakeReader(), samples).server_cpu_s is None


@pytest.mark.parametrize("where", ["counters", "waits", "settled", "levels"])
def test_the_session_ends_whatever_fails(where: str) -> None:
    """No connection stays open that the next run would have to share the server with."""
    reader = FakeReader(fails_in=where)
    _, evidence = seen_by(lambda: threading.Event().wait(0.25), _probe(reader))
    assert [gone.reason for gone in evidence.absent] == [f"refused in {where}"]
    assert reader.closed


def test_a_probe_given_up_while_it_connects_keeps_no_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The connection that comes too late is closed by the thread that waited for it."""
    monkeypatch.setattr("steelyard.campaign.evidence.watch.BEGIN_WITHIN_S", 0.1)
    reader, connects = FakeReader(), threading.Event()

    def open_late() -> FakeReader:
        connects.wait(30)
        return reader

    seen_by(connects.set, ServerProbe(open_reader=open_late, ramp_s=0.0, nearby=None))
    for _ in range(1000):
        if reader.closed:
            return
        threading.Event().wait(0.005)
    raise AssertionError("the session stays open")


def test_a_probe_that_never_began_says_so() -> None:
    """Neither a sample nor an end without a session."""
    with pytest.raises(TargetError, match="never began"):
        _probe(FakeReader()).sample(0.1)


def test_a_reading_that_hangs_is_ended_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch gives it up, which closes the session and frees the thread."""
    monkeypatch.setattr("steelyard.campaign.evidence.watch.BEGIN_WITHIN_S", 0.2)
    reader = FakeReader(hangs=threading.Event())
    _, evidence = seen_by(lambda: None, _probe(reader))
    assert "not ready" in evidence.absent[0].reason
    assert reader.closed


def test_a_server_that_counts_its_answers_says_what_they_cost() -> None:
    """One process serves all sessions: its CPU time is not that of the probe."""
    schedstat = FakeHost(files={"/proc/4711/schedstat": "12500000 99 7\n"})
    reader = FakeReader(pid=None, answering_s=0.003)
    assert _run(reader, _every_tenth(0.2, [_CPU]), host=schedstat).server_cpu_s == 0.003
    silent = FakeReader(pid=None)
    assert _run(silent, _every_tenth(0.2, [_CPU]), host=schedstat).server_cpu_s is None
