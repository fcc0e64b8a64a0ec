"""What crashes say of a mode, and how far replicas were behind."""

from dataclasses import replace

import pytest

from fakes.analyses import quick
from fakes.crashes import ALWAYS, EVERYSEC, NO, OFF, a_crash, a_test
from steelyard.answers.crashes import CrashSummary, crash_summaries
from steelyard.answers.durability.compute import campaign_durability, measured_lags, replica_lags
from steelyard.answers.durability.rules import (
    ConfigurationDurability,
    Fate,
    Loss,
    ReplicaLag,
    Survival,
)
from steelyard.answers.report import build_document
from steelyard.core.crash import CrashMode, CrashTest
from steelyard.core.findings import Validity
from steelyard.core.measurement import Evidence, Quantity, Run
from steelyard.core.redis import Death
from steelyard.core.schedule import CellKey, Load
from steelyard.core.target import EngineName
from steelyard.report.html import render_markdown


def _one(test: CrashTest, mode: CrashMode, death: Death = Death.POWER) -> CrashSummary:
    (found,) = (s for s in crash_summaries(test) if (s.mode, s.death) == (mode.name, death))
    return found


def test_no_loss_in_twenty_cuts_has_its_bound() -> None:
    """Nothing lost in 20 says no more than: at most 13.9 % of cuts lose something."""
    summary = _one(a_test(*[a_crash(ALWAYS)] * 20), ALWAYS)
    assert (summary.losing, summary.most_lost, summary.most_lost_s) == (0, 0, 0.0)
    assert summary.chance_at_most == pytest.approx(0.139, abs=1e-3)
    assert not summary.is_broken


def test_losses_have_a_median_with_its_interval() -> None:
    """Of 20 losses the 6th and the 15th bound the median, of the writes and of the seconds."""
    summary = _one(a_test(*[a_crash(EVERYSEC, 10 * (n + 1)) for n in range(20)]), EVERYSEC)
    assert (summary.lost.value, summary.lost.low, summary.lost.high) == (105.0, 60.0, 150.0)
    assert summary.lost_s.low == pytest.approx(0.12)
    assert (summary.most_lost, summary.most_lost_s) == (200, pytest.approx(0.4))


def test_few_crashes_have_no_interval() -> None:
    """Below six crashes there is a median and no bounds."""
    summary = _one(a_test(*[a_crash(NO, 1000)] * 5), NO)
    assert (summary.lost.value, summary.lost.low) == (1000.0, None)
    assert summary.whole_load == 5


def test_a_loss_where_none_may_be_is_a_broken_promise() -> None:
    """One lost write of one cut is enough; where two seconds may be lost it breaks nothing."""
    assert _one(a_test(a_crash(ALWAYS), a_crash(ALWAYS, 1)), ALWAYS).is_broken
    assert not _one(a_test(a_crash(EVERYSEC, 1)), EVERYSEC).is_broken


def test_more_seconds_than_promised_are_seen() -> None:
    """Everysec may lose two seconds, and not five."""
    assert not _one(a_test(a_crash(EVERYSEC, 10, lost_s=1.9)), EVERYSEC).exceeds
    assert _one(a_test(a_crash(EVERYSEC, 10, lost_s=5.0)), EVERYSEC).exceeds
    assert not _one(a_test(a_crash(OFF, 10, lost_s=5.0)), OFF).exceeds


def test_snapshots_exceed_no_bound_of_seconds() -> None:
    """The time of two saves comes on top, which no setting bounds: 2.2 s of `save 1 1`."""
    rdb = CrashMode(name="rdb", settings=(("appendonly", "no"), ("save", "1 1")))
    assert not _one(a_test(a_crash(rdb, 10, lost_s=2.2), modes=(rdb,)), rdb).exceeds


def test_only_what_was_not_flushed_is_a_control() -> None:
    """A server without a log loses as much in a kill, so its loss shows nothing of the cut."""
    test = a_test(a_crash(OFF, 1000), a_crash(NO, 900), a_crash(EVERYSEC, 5), a_crash(EVERYSEC))
    assert not _one(test, OFF).is_control
    assert _one(test, NO).is_control
    assert not _one(test, EVERYSEC).is_control  # one of its cuts lost nothing


def test_kinds_of_death_are_kept_apart() -> None:
    """A kill of a mode is not counted among its cuts."""
    test = a_test(a_crash(NO, 900), a_crash(NO, death=Death.KILL))
    assert _one(test, NO).crashes == _one(test, NO, Death.KILL).crashes == 1
    assert _one(test, NO, Death.KILL).losing == 0


def test_postgres_has_its_own_promises() -> None:
    """A mode of PostgreSQL is judged by its own settings: without fsync nothing is promised."""
    mode = CrashMode(name="no-fsync", settings=(("fsync", "off"),))
    found = a_test(a_crash(mode, 1000, unusable="PANIC"), modes=(mode,))
    (summary,) = crash_summaries(replace(found, engine="postgresql"))
    assert (summary.promised.most_s, summary.unusable, summary.is_control) == (None, 1, True)


def test_what_is_answered_during_a_kill_counts_and_during_a_cut_not() -> None:
    """A server that is being killed answers alive; one whose file system goes would be dead."""
    test = a_test(a_crash(NO, late_lost=3, death=Death.KILL), a_crash(ALWAYS, late_lost=3))
    killed, cut = _one(test, NO, Death.KILL), _one(test, ALWAYS)
    assert (killed.losing, killed.most_lost, killed.acknowledged) == (1, 3, 1003)
    assert killed.is_broken
    assert (cut.losing, cut.most_lost, cut.acknowledged) == (0, 0, 1000)
    assert (cut.uncounted, cut.uncounted_lost, cut.is_broken) == (3, 3, False)


def test_cuts_that_took_what_was_not_flushed_are_counted() -> None:
    """One whose file outlived it, or had none, shows nothing; the longest call is the one told."""
    cut = replace(a_crash(ALWAYS), took_unflushed=True, window_s=0.002)
    kept = replace(cut, took_unflushed=False, window_s=0.009)
    assert _one(a_test(cut, cut), ALWAYS).is_shown_to_cut
    found = _one(a_test(cut, kept, a_crash(ALWAYS)), ALWAYS)
    assert (found.tried, found.took, found.longest_window_s) == (2, 1, 0.009)
    assert not found.is_shown_to_cut
    assert not _one(a_test(cut, a_crash(ALWAYS)), ALWAYS).is_shown_to_cut
    assert _one(a_test(a_crash(ALWAYS)), ALWAYS).longest_window_s is None


SET = CellKey(workload="set", load=Load(clients=20, threads=1))


def a_run(
    levels: dict[Quantity, float] | None, *, written: float = 4e6, seconds: float = 2.0
) -> Run:
    """Return a run whose primary wrote so many bytes; None: nothing was seen of it."""
    evidence = None
    if levels is not None:
        evidence = Evidence(
            seconds=seconds,
            totals={Quantity.REPLICATION_BYTES: written},
            levels=levels,
            waits=None,
            series=(),
            others=(),
            absent=(),
        )
    return Run(
        block=0,
        attempt=0,
        start=0,
        position=0,
        configuration="split",
        cell=SET,
        started_at=0.0,
        since_start_s=1.0,
        measurement=None,
        validity=Validity.VALID,
        evidence=evidence,
    )


def lag(*bytes_: float) -> list[Run]:
    """Return runs in which both servers were asked."""
    return [a_run({Quantity.REPLICA_LAG_BYTES: each}) for each in bytes_]


def test_the_worst_and_the_usual_are_told() -> None:
    """The most of all runs, the median of their most, and what time of writing that is."""
    (found,) = replica_lags({("split", SET): lag(100_000, 20_000, 8_000_000)})
    assert (found.configuration, found.cell, found.runs, found.compared) == ("split", SET, 3, True)
    assert found.most_bytes == 8_000_000
    assert found.usual_bytes == 100_000
    assert found.usual_s == pytest.approx(0.05)  # of 2 MB a second


def test_what_both_said_goes_before_what_the_primary_heard() -> None:
    """The primary's figure has a second of the stream in it: it only stands in for the other."""
    both = {Quantity.REPLICA_LAG_BYTES: 10.0, Quantity.REPLICA_BEHIND_BYTES: 2e6}
    (found,) = replica_lags({("split", SET): [a_run(both)]})
    assert (found.most_bytes, found.compared) == (10.0, True)
    (alone,) = replica_lags({("split", SET): [a_run({Quantity.REPLICA_BEHIND_BYTES: 2e6})]})
    assert (alone.most_bytes, alone.compared) == (2e6, False)


def test_runs_that_wrote_nothing_or_were_not_seen_do_not_count() -> None:
    """Nothing is behind where nothing is written: that is no evidence of a good replica."""
    idle = a_run({Quantity.REPLICA_LAG_BYTES: 0.0}, written=0.0)
    assert replica_lags({("split", SET): [idle, a_run(None), a_run({})]}) == ()
    (found,) = replica_lags({("split", SET): [idle, *lag(5)]})
    assert found.runs == 1


LAG = ReplicaLag(
    configuration="split",
    cell=SET,
    runs=21,
    most_bytes=3 * 1024**2,
    usual_bytes=200 * 1024,
    usual_s=0.0042,
    compared=True,
)


def report_of(lag_: ReplicaLag) -> str:
    """Return a report with one replica in it."""
    base = quick()
    experiment = replace(base.experiment, engine=EngineName.REDIS)
    made = replace(base, experiment=experiment).with_answer(campaign_durability, durable())
    made = made.with_answer(measured_lags, (lag_,))
    return " ".join(render_markdown(build_document(made)).split())


def durable() -> tuple[ConfigurationDurability, ...]:
    """Return what a configuration may lose."""
    gone = tuple(Survival(loss=loss, fate=Fate.ALL, reason="so it is", source="") for loss in Loss)
    return (ConfigurationDurability(configuration="split", survivals=gone, latencies=()),)


def test_the_report_has_the_lag_beside_what_may_be_lost() -> None:
    """A row with the usual, its time and the worst; where only the primary knew, a note says so."""
    text = report_of(LAG)
    assert "How far replicas were behind under load" in text
    assert "| split | set, 20 clients | 21 | 200.0 KiB | 4.20 ms | 3.0 MiB |" in text
    assert "hears of it once a second" not in text
    assert "hears of it once a second" in report_of(replace(LAG, compared=False))
