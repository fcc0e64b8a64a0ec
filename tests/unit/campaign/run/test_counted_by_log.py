"""A run of a program that prints nothing: what its log makes of it."""

import pytest

from steelyard.campaign.evidence.run_log import Logged
from steelyard.campaign.run.taking import _Done, _Length
from steelyard.core.measurement import Measurement, RunLatency, ScriptLatency
from steelyard.stats.histogram import histogram_of, to_text

_LENGTH = _Length(seconds=3.0, ramp_s=2.0)
_ENDED = {0: 5, 1: 50, 2: 100, 3: 110, 4: 90, 5: 7}
_COUNTED = {2: 100, 3: 110, 4: 90, 5: 7}


def _done() -> _Done:
    empty = Measurement(
        transactions=0.0,
        seconds=3.0,
        latency_mean_s=None,
        latency_stddev_s=None,
        failed=0,
        connection_s=None,
        series=(),
    )
    return _Done(measurement=empty)


def test_the_rate_is_that_of_what_ended_in_the_measured_part() -> None:
    """Neither the ramp counts, nor what ended later than it was asked for; the series has both."""
    latency = RunLatency(
        scripts=(
            ScriptLatency(
                script="own", latency=to_text(histogram_of([4000] * 307)), longest_s=0.004
            ),
        )
    )
    done = _done()
    done.count_by(Logged(latency=latency, counted=_COUNTED, ended=_ENDED), _LENGTH)
    measured = done.measurement
    assert measured is not None
    assert (measured.transactions, measured.tps) == (300.0, 100.0)
    assert [second.transactions for second in measured.series] == [5, 50, 100, 110, 90]
    assert measured.latency_mean_s == pytest.approx(0.004, rel=0.01)
    assert done.failure == ""


def test_a_log_without_latencies_gives_a_rate_alone() -> None:
    """What was not measured is None."""
    done = _done()
    done.count_by(Logged(latency=None, counted=_COUNTED, ended=_ENDED), _LENGTH)
    assert done.measurement is not None
    assert done.measurement.transactions == 300.0
    assert done.measurement.latency_mean_s is None


@pytest.mark.parametrize(
    ("logged", "failure"),
    [
        (Logged(latency=None, trouble="line 7 of it"), "line 7 of it"),
        (Logged(latency=None), "after the start of the run: it is empty"),
        (Logged(latency=None, ended={0: 5, 1: 6}), "its 11 ended 0 s to 1 s after it"),
        (Logged(latency=None, counted={9: 1}, ended={9: 1}), "its 1 ended 9 s to 9 s after it"),
    ],
)
def test_a_log_that_counts_nothing_is_no_result(logged: Logged, failure: str) -> None:
    """The run failed, and why is told: nothing of a program without a rate can stand for it."""
    done = _done()
    done.count_by(logged, _LENGTH)
    assert done.measurement is None
    assert failure in done.failure
