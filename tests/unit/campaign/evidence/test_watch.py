"""Probes around a piece of work: what fails in them is absent, and the work goes on."""

import threading
from dataclasses import dataclass, field

import pytest

from steelyard.campaign.evidence.watch import Part, Watch
from steelyard.core.wording import TargetError
from steelyard.gateways.host import Clock


@dataclass
class Recorder:
    """A probe that counts its calls and fails where a test says so."""

    subject: str = "counting"
    interval_s: float = 0.01
    fails_in: str = ""
    hangs_in: str = ""
    calls: list[str] = field(default_factory=list)
    sampled: threading.Event = field(default_factory=threading.Event)
    failed: threading.Event = field(default_factory=threading.Event)
    freed: threading.Event = field(default_factory=threading.Event)

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if name == self.fails_in:
            self.failed.set()
            raise TargetError(f"refused in {name}")
        if name == self.hangs_in:
            self.freed.wait()

    def begin(self) -> None:
        """Begin."""
        self._called("begin")

    def sample(self, at_s: float) -> None:
        """Sample."""
        assert at_s >= 0
        self._called("sample")
        self.sampled.set()

    def finish(self, at_s: float, *, lost: int) -> Part:
        """Finish."""
        assert at_s >= 0
        assert lost >= 0
        self._called("finish")
        return Part(totals={"seen": float(self.calls.count("sample"))}, server_cpu_s=0.25)

    def abandon(self) -> None:
        """Let go of whatever hangs."""
        self.freed.set()


def _watch(*probes: Recorder) -> Watch:
    return Watch(probes=probes, clock=Clock())


def test_a_probe_sees_the_work_from_before_to_after() -> None:
    """First reading, samples while the work goes on, last reading after it."""
    probe = Recorder()
    watch = _watch(probe)
    assert watch.around(lambda: probe.sampled.wait(30)) is True
    evidence = watch.evidence()
    assert evidence is not None
    assert probe.calls[0] == "begin"
    assert probe.calls[-1] == "finish"
    assert evidence.totals["seen"] >= 1
    assert evidence.absent == ()
    assert evidence.cost is not None
    assert evidence.cost.server_cpu_s == 0.25


@pytest.mark.parametrize("where", ["begin", "sample", "finish"])
def test_a_probe_that_fails_is_absent_and_the_work_is_done(where: str) -> None:
    """The reason is the error's sentence; another probe is not touched by it."""
    failing, other = Recorder(subject="failing", fails_in=where), Recorder(subject="other")
    watch = _watch(failing, other)

    def until_both() -> bool:
        return other.sampled.wait(30) and (where == "finish" or failing.failed.wait(30))

    assert watch.around(until_both) is True
    evidence = watch.evidence()
    assert evidence is not None
    (absence,) = evidence.absent
    assert (absence.subject, absence.reason) == ("failing", f"refused in {where}")
    assert evidence.totals["seen"] >= 1


def test_a_fault_of_our_own_in_a_probe_does_not_end_the_run() -> None:
    """Also what no gateway translates becomes a reason."""
    probe = Recorder()
    probe.sample = lambda _at_s: 1 / 0  # type: ignore[method-assign, assignment]
    watch = _watch(probe)
    done = threading.Event()
    watch.around(lambda: done.wait(0.1))
    evidence = watch.evidence()
    assert evidence is not None
    assert "ZeroDivisionError" in evidence.absent[0].reason


@pytest.mark.parametrize("where", ["begin", "sample", "finish"])
def test_a_probe_that_hangs_is_left_behind(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the beginning nor the end of a run waits for it longer than its limit."""
    monkeypatch.setattr("steelyard.campaign.evidence.watch.BEGIN_WITHIN_S", 0.2)
    monkeypatch.setattr("steelyard.campaign.evidence.watch.END_WITHIN_S", 0.2)
    probe = Recorder(hangs_in=where)
    watch = _watch(probe)
    watch.around(lambda: threading.Event().wait(0.2))
    evidence = watch.evidence()
    assert evidence is not None
    assert "within" in evidence.absent[0].reason
    assert probe.freed.is_set()


def test_the_error_of_the_work_comes_through() -> None:
    """A run that fails fails as without probes, and what was seen until then is kept."""
    probe = Recorder()
    watch = _watch(probe)

    def work() -> None:
        probe.sampled.wait(30)
        raise TargetError("gone")

    with pytest.raises(TargetError, match="gone"):
        watch.around(work)
    evidence = watch.evidence()
    assert evidence is not None
    assert evidence.totals["seen"] >= 1


def test_without_probes_there_is_no_evidence() -> None:
    """Not an empty one, which would say that something was looked at."""
    watch = _watch()
    watch.around(lambda: None)
    assert watch.evidence() is None
