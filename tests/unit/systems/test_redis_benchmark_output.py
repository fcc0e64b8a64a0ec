"""The reading of redis-benchmark's output, against what it really printed and never would."""

import math
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_redis import Recording, recorded, recordings

from steelyard.core.outside import Completed
from steelyard.core.wording import MeasurementError
from steelyard.stats.histogram import from_text
from steelyard.systems.redis.redis_benchmark import (
    Printed,
    Step,
    latency,
    measurement,
    parse,
    rising,
)

_ONE_TEST = [r for r in recordings() if r.exit_status == 0 and r.name != "lrange"]
_RATED = [r for r in _ONE_TEST if r.name != "one-request"]  # in 0 ms, which is no rate


def _asked(recording: Recording, flag: str) -> int:
    return int(recording.arguments[recording.arguments.index(flag) + 1])


@pytest.mark.parametrize("recording", _ONE_TEST, ids=str)
def test_all_requests_are_counted_once_everywhere(recording: Recording) -> None:
    """Summary, distribution of latencies and progress tell of the same number of requests."""
    printed = parse(recording.completed())
    asked, pipeline = _asked(recording, "-n"), _asked(recording, "-P")
    assert asked <= printed.requests < asked + pipeline * _asked(recording, "-c")
    assert printed.steps[-1].requests == asked
    told = sum(second.transactions for second in printed.series)
    assert told == pytest.approx(printed.requests, rel=1e-3)
    assert sum(second.seconds for second in printed.series) == pytest.approx(printed.seconds)


@pytest.mark.parametrize("recording", _RATED, ids=str)
def test_the_rate_is_the_one_it_prints(recording: Recording) -> None:
    """The throughput is redis-benchmark's own to its last decimal, not that of a rounded time."""
    completed = recording.completed()
    printed = parse(completed)
    rate = re.search(r"throughput summary: ([\d.]+) ", completed.stdout)
    assert rate is not None
    assert measurement([printed]).tps == pytest.approx(float(rate[1]), rel=1e-4)


def test_times_are_read_to_the_millisecond() -> None:
    """A run that it says took 3.91 s is known to 1 ms: a pilot of half a second needs that."""
    completed = recorded("set")
    rounded = re.search(r"completed in ([\d.]+) seconds", completed.stdout)
    assert rounded is not None
    seconds = parse(completed).seconds
    assert seconds == pytest.approx(float(rounded[1]), abs=0.005)
    assert seconds * 1000 == pytest.approx(round(seconds * 1000), abs=0.05)


@pytest.mark.parametrize("recording", _ONE_TEST, ids=str)
def test_percentiles_are_never_below_those_it_prints(recording: Recording) -> None:
    """p50, p95 and p99 of the counts are those of its summary, within a bucket."""
    completed = recording.completed()
    printed = parse(completed)
    told = latency([printed], "test")
    assert told is not None
    counts = from_text(told.scripts[0].latency)
    assert counts.total == _asked(recording, "-n")
    words = re.search(r"max *\n +(.*)$", completed.stdout, re.MULTILINE)
    assert words is not None
    for share, word in zip((0.5, 0.95, 0.99), words[1].split()[2:5], strict=True):
        # A percentile that it prints as 0.000 is less than the 8 us that it tells apart.
        expected_us = max(float(word) * 1000.0, 1.0)
        assert counts.quantile(share) == pytest.approx(expected_us, rel=0.004, abs=0.6)


def test_a_count_between_two_steps_goes_to_the_upper_one() -> None:
    """p99.9 of a run is rounded up to a step of the table, never down."""
    printed = parse(recorded("set"))
    told = latency([printed], "set")
    assert told is not None
    value = from_text(told.scripts[0].latency).quantile(0.999)
    rank = math.ceil(0.999 * printed.requests)
    step = next(step for step in printed.steps if step.requests >= rank)
    assert value == pytest.approx(step.latency_us, rel=0.004)


def test_a_stalled_server_leaves_empty_seconds_and_a_clipped_latency() -> None:
    """Progress shows the seconds without an answer; a latency of 3.6 s is printed as 3 s."""
    printed = parse(recorded("stalled"))
    rates = [second.transactions / second.seconds for second in printed.series]
    assert len(rates) == 5
    assert rates[1] == rates[2] == rates[3] == 0.0
    assert printed.series[2].latency_mean_s is None
    assert printed.longest_s == pytest.approx(3.0, rel=1e-3)


def test_a_short_run_is_one_interval() -> None:
    """A run that ended before the first progress line has its whole in one interval."""
    printed = parse(recorded("one-request"))
    assert [second.transactions for second in printed.series] == [1.0]
    assert printed.seconds >= 1e-3


def test_a_command_of_its_own_is_read_like_a_test() -> None:
    """A title of several words is understood."""
    assert parse(recorded("command")).test == "HSET myhash f:__rand_int__ abcdef"


def test_two_tests_in_one_output_are_refused() -> None:
    """`lrange_100` runs LPUSH first: their numbers are not taken for one."""
    with pytest.raises(MeasurementError, match="2 tests"):
        parse(recorded("lrange"))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no-server", "Could not connect to Redis at /nonexistent"),
        ("no-password", "NOAUTH Authentication required"),
        ("out-of-memory", "OOM command not allowed"),
        ("wrong-type", "WRONGTYPE"),
        ("server-killed", "Connection reset by peer"),
    ],
)
def test_a_failure_is_told_in_the_servers_words(name: str, words: str) -> None:
    """What ended redis-benchmark stands in the error."""
    with pytest.raises(MeasurementError, match=words):
        parse(recorded(name))


def test_processes_of_one_run_are_added_up() -> None:
    """Requests add up, the run lasts as long as the last process, counts are of both."""
    parts = [parse(recorded("set")), parse(recorded("stalled"))]
    together = measurement(parts)
    assert together.transactions == 350_000
    assert together.seconds == max(part.seconds for part in parts)
    assert together.latency_mean_s == pytest.approx(
        sum(part.requests * (part.mean_s or 0.0) for part in parts) / 350_000
    )
    assert sum(s.transactions for s in together.series) == pytest.approx(350_000, rel=1e-3)
    told = latency(parts, "set")
    assert told is not None
    assert from_text(told.scripts[0].latency).total == 350_000
    assert told.scripts[0].longest_s == parts[1].longest_s


@given(
    st.lists(
        st.builds(
            Step,
            latency_us=st.integers(min_value=0, max_value=3_000_319),
            requests=st.integers(min_value=1, max_value=10**9),
        )
    )
)
def test_steps_rise_whatever_they_were(steps: list[Step]) -> None:
    """Counts between steps are never negative, and none of the last step's requests is lost."""
    kept = rising(steps)
    assert all(b.latency_us > a.latency_us for a, b in pairwise(kept))
    assert all(b.requests > a.requests for a, b in pairwise(kept))
    assert max((s.requests for s in kept), default=0) == max((s.requests for s in steps), default=0)


def _assert_sound(stdout: str) -> None:
    completed = Completed(argv=("redis-benchmark",), exit_status=0, stdout=stdout, stderr="")
    try:
        printed: Printed = parse(completed)
    except MeasurementError:
        return
    measured = measurement([printed])
    assert measured.seconds > 0.0
    assert math.isfinite(measured.tps)
    assert all(second.seconds > 0.0 and second.transactions >= 0.0 for second in measured.series)
    latency([printed], "set")


@given(st.text())
def test_any_text_is_a_measurement_error(text: str) -> None:
    """No output ends in a traceback."""
    _assert_sound(text)


@st.composite
def _mutated(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(_ONE_TEST)).completed().stdout
    begin = draw(st.integers(0, len(text)))
    end = draw(st.integers(begin, min(len(text), begin + 40)))
    piece = draw(st.text(alphabet="0123456789.-% =nanover\n\r", max_size=12))
    return text[:begin] + piece + text[end:]


@given(_mutated())
def test_a_damaged_output_is_an_error_or_sound(text: str) -> None:
    """An output that was cut or changed gives no negative, endless or undefined number."""
    _assert_sound(text)
