"""Logs of single runs: percentiles where they can be told, exact sums of threads."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.answers.latency.results import MAXIMUM, Basis, Timed
from steelyard.answers.logged import LoggedGroup, intervals_together, logged_times
from steelyard.core.measurement import LoggedInterval, RunLatency, ScriptLatency, Spread
from steelyard.stats.histogram import histogram_of, to_text


def a_group(values_us: list[int], *, name: str = "a", open_loop: bool = False) -> LoggedGroup:
    """Return a run of one script with these latencies, and half of each as lag."""
    counts = to_text(histogram_of(values_us))
    half = to_text(histogram_of([value // 2 for value in values_us])) if open_loop else ""
    longest_s = max(values_us, default=0) / 1e6 if values_us else None
    script = ScriptLatency(script="script 0", latency=counts, longest_s=longest_s)
    return LoggedGroup(
        name=name,
        files=1,
        open_loop=open_loop,
        tells_retries=False,
        started_at=0.0,
        ramp_s=0.0,
        seconds=2.0,
        latency=RunLatency(scripts=(script,), lag=half, service=half),
    )


def test_a_percentile_without_enough_transactions_is_none() -> None:
    """Of 999 transactions p95 is told and p99 is not; the longest is exact."""
    (times,) = logged_times([a_group([*range(1, 999), 1_234_567])])
    told = {level.share: level for level in times.percentiles}
    assert told[0.95].basis is Basis.ONE_RUN
    assert told[0.99].value_s is None
    assert (told[0.99].there, told[0.99].needed) == (999, 1000)
    assert told[MAXIMUM].value_s is not None
    assert told[MAXIMUM].value_s.value == 1.234567
    assert all(level.value_s is None or level.value_s.low is None for level in times.percentiles)


def test_runs_stand_beside_each_other_by_what_is_timed() -> None:
    """The same time of both runs comes together; a closed loop has no lag."""
    times = logged_times([a_group([5]), a_group([7], name="b", open_loop=True)])
    assert [(each.timed, each.group) for each in times] == [
        (Timed.LATENCY, "a"),
        (Timed.LATENCY, "b"),
        (Timed.LAG, "b"),
        (Timed.SERVICE, "b"),
    ]


def test_a_run_that_ended_with_its_ramp_has_no_rate() -> None:
    """No transaction: no percentile, no longest, and the rate of no time is none."""
    group = a_group([])
    (times,) = logged_times([group])
    assert {level.value_s for level in times.percentiles} == {None}
    assert group.tail == ()
    assert group.achieved_per_s == 0.0
    assert LoggedGroup(**{**_fields(group), "seconds": 0.0}).achieved_per_s is None


def _fields(group: LoggedGroup) -> dict[str, object]:
    return {name: getattr(group, name) for name in group.__dataclass_fields__}


def an_interval(values_s: list[float], lags_s: list[float] | None = None) -> LoggedInterval:
    """Return what a thread logs of these transactions."""
    return LoggedInterval(
        start_s=60,
        transactions=len(values_s),
        latency=_spread(values_s),
        lag=_spread(lags_s) if lags_s and any(lags_s) else None,
        skipped=1,
        retried=2,
        retries=3,
        serialization_failures=4,
        deadlock_failures=5,
    )


def _spread(values: list[float]) -> Spread | None:
    if not values:
        return None
    return Spread(
        mean_s=float(np.mean(values)),
        stddev_s=float(np.std(values)),
        least_s=min(values),
        longest_s=max(values),
    )


THREAD = st.lists(st.floats(0.0, 10.0), max_size=8)


@given(st.lists(THREAD, min_size=1, max_size=4))
def test_threads_together_are_as_if_one_had_logged_all(threads: list[list[float]]) -> None:
    """Mean, deviation and extremes of an interval are those of its pooled transactions."""
    (found,) = intervals_together([an_interval(thread, thread) for thread in threads])
    pooled = [value for thread in threads for value in thread]
    assert found.transactions == len(pooled)
    assert (found.skipped, found.retries) == (len(threads), 3 * len(threads))
    for spread, expected in ((found.latency, _spread(pooled)), (found.lag, _spread(pooled))):
        if not any(pooled) and spread is None:
            continue  # nothing lagged
        assert spread is not None
        assert expected is not None
        assert spread.mean_s == pytest.approx(expected.mean_s, abs=1e-12)
        assert math.isclose(spread.stddev_s, expected.stddev_s, rel_tol=1e-6, abs_tol=1e-7)
        assert (spread.least_s, spread.longest_s) == (expected.least_s, expected.longest_s)
