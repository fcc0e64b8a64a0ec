"""Crash tests of a server whose replica takes over: what is promised, what is told of the lag."""

from dataclasses import replace

from fakes.crashes import OFF, a_crash, a_test
from steelyard.answers.crashes import crash_document, crash_summaries
from steelyard.core.crash import CrashMode, CrashTest
from steelyard.core.redis import Death
from steelyard.report.html import render_markdown

SPLIT = CrashMode(name="split", settings=OFF.settings, replica=(("appendonly", "yes"),))


def taken(*behind: int | None) -> CrashTest:
    """Return a test of deaths before which a replica was so far behind."""
    crashes = [replace(a_crash(SPLIT, death=Death.KILL), behind_bytes=each) for each in behind]
    return a_test(*crashes, modes=(SPLIT,))


def text_of(test: CrashTest) -> str:
    """Return the report in one line."""
    return " ".join(render_markdown(crash_document(test, crash_summaries(test))).split())


def test_no_time_bounds_what_a_replica_lacks() -> None:
    """The promise names the replica, no seconds and not everything; it is not broken."""
    (found,) = crash_summaries(taken(0))
    assert found.promised.words == "what the replica lacked"
    assert found.promised.most_s is None
    assert not found.is_broken
    assert not found.exceeds


def test_the_worst_lag_is_told_with_what_it_is_of() -> None:
    """The most of all crashes, how many were seen, and the replica's own settings."""
    text = text_of(taken(0, 3 * 1024**2, None))
    assert "behind by at most 3.0 MiB of the stream (the worst of 2 crashes)" in text
    assert "its replica: appendonly yes" in text


def test_a_cut_that_a_replica_does_not_feel_shows_nothing_of_the_cut() -> None:
    """Its disk was not cut: that nothing is lost is no sign that these cuts lose nothing."""
    kept = a_test(a_crash(SPLIT), a_crash(OFF, 1000), modes=(SPLIT, OFF))
    assert "split: nothing was lost, in cuts" not in text_of(kept)


def test_without_a_look_nothing_is_said_of_the_lag() -> None:
    """What nobody saw is not told as 0."""
    assert "behind by" not in text_of(taken(None))
    assert "behind by" not in text_of(a_test(a_crash(OFF, 1000, death=Death.KILL), modes=(OFF,)))
