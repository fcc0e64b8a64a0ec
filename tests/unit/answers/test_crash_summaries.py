"""What crashes say of a mode: medians with their intervals, bounds, broken promises, controls."""

from dataclasses import replace

import pytest

from fakes.crashes import ALWAYS, EVERYSEC, NO, OFF, a_crash, a_test
from steelyard.answers.crashes import CrashSummary, crash_summaries
from steelyard.core.crash import CrashMode, CrashTest
from steelyard.core.redis import Death


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
    (summary,) = crash_summaries(replace(found, engine="postgres"))
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
