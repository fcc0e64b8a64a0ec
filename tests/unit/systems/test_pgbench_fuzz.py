"""pgbench's output as it never was: the parser raises MeasurementError or returns numbers."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from recorded import recordings

from steelyard.core.measurement import Measurement
from steelyard.core.outside import Completed
from steelyard.core.wording import MeasurementError
from steelyard.systems.postgres.pgbench import parse_progress, parse_run

_GOOD = [r.completed() for r in recordings() if r.exit_status == 0]
_SUMMARY = "number of transactions actually processed: {}\ntps = {} (without)\n"


def _parsed(stdout: str, stderr: str, ramp_s: float = 1.0) -> Measurement | None:
    completed = Completed(argv=("pgbench",), exit_status=0, stdout=stdout, stderr=stderr)
    try:
        return parse_run(completed, ramp_s=ramp_s, started_at=1_795_297_411.0)
    except MeasurementError:
        return None


def _assert_sound(measured: Measurement | None) -> None:
    if measured is None:
        return
    assert measured.transactions >= 0
    assert math.isfinite(measured.transactions)
    assert measured.seconds > 0
    assert math.isfinite(measured.tps)
    assert all(second.seconds > 0 for second in measured.series)
    assert all(s.latency_mean_s is None or s.latency_mean_s > 0 for s in measured.series)


@given(stdout=st.text(), stderr=st.text())
@example(stdout=_SUMMARY.format("9" * 400, "1.0"), stderr="")
@example(stdout=_SUMMARY.format("9", "9" * 400 + ".0"), stderr="")
@example(stdout=_SUMMARY.format("9", "1.0"), stderr="progress: nan s, nan tps, lat NaN ms stddev")
def test_any_text_is_a_measurement_error_or_a_measurement(stdout: str, stderr: str) -> None:
    """Nothing that a program may print ends in a traceback or a number that is none."""
    _assert_sound(_parsed(stdout, stderr))


@st.composite
def _mutated(draw: st.DrawFn) -> tuple[str, str]:
    recording = draw(st.sampled_from(_GOOD))
    texts = []
    for text in (recording.stdout, recording.stderr):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(start + 40, len(text))))
        texts.append(text[:start] + draw(st.text(max_size=12)) + text[end:])
    return texts[0], texts[1]


@given(texts=_mutated(), ramp_s=st.integers(0, 10))
def test_a_damaged_recording_is_a_measurement_error_or_sound(
    texts: tuple[str, str], ramp_s: int
) -> None:
    """Cut, overwritten or lengthened output never becomes a measurement with absurd numbers."""
    _assert_sound(_parsed(*texts, ramp_s=ramp_s))


_interval = st.tuples(
    st.floats(0.5, 1.5).map(lambda s: round(s, 3)),
    st.floats(0.0, 1e6).map(lambda tps: round(tps, 1)),
)


@given(intervals=st.lists(_interval, min_size=1, max_size=30), ramp_s=st.integers(0, 40))
def test_ramp_and_rest_are_conserved(intervals: list[tuple[float, float]], ramp_s: int) -> None:
    """For any series, ramp plus rest is what was processed, unless the ramp is all there is."""
    end_s, lines, done, lasted_s = 0.0, [], 0.0, 0.0
    for number, (seconds, tps) in enumerate(intervals):
        length_s = 1.0 if number == 0 else seconds
        end_s, lasted_s = end_s + length_s, lasted_s + length_s
        done += tps * length_s
        lines.append(f"progress: {end_s:.3f} s, {tps} tps, lat 1.000 ms stddev 0.100, 0 failed")
    processed = int(done) + 1
    summary = _SUMMARY.format(processed, f"{processed / lasted_s:.6f}")
    measured = _parsed(summary, "\n".join(lines), ramp_s)
    if measured is None:
        assert processed / lasted_s < 1e-6
        return
    ramp = measured.series[:ramp_s]
    assert len(measured.series) == len(intervals)
    taken = sum(second.transactions for second in ramp)
    assert measured.transactions + taken >= processed - 0.01 * len(intervals)
    if ramp_s < len(intervals):
        rest = sum(second.transactions for second in measured.series[ramp_s:])
        assert abs(measured.transactions - rest) <= 1.1 + 0.01 * len(intervals)


@given(started_at=st.floats(1.6e9, 2.0e9), first=st.floats(-5.0, 5.0))
def test_a_stepped_clock_leaves_the_first_interval_one_second(
    started_at: float, first: float
) -> None:
    """Whatever the clock says of the start, the first interval is the second asked for."""
    line = f"progress: {started_at + first:.3f} s, 100.0 tps, lat 1.0 ms stddev 0.1, 0 failed"
    (second,) = parse_progress(line, started_at=started_at)
    assert (second.seconds, second.transactions) == (1.0, 100.0)


# What else pgbench and libpq write to standard error during a run, versions 15 to 18.
_REMARKS = (
    "pgbench (18.6)",
    "pgbench: warning: scale option ignored, using count from pgbench_branches table (1)",
    "pgbench: error: client 3 script 0 aborted in command 4 query 0: ERROR:  deadlock detected",
    "pgbench: error: client 0 aborted: could not send data to server: Broken pipe",
    "pgbench: client 2 sending SELECT abalance FROM pgbench_accounts WHERE aid = 17;",
    "pgbench: error: Run was aborted; the above results are incomplete.",
    "WARNING:  terminating connection because of crash of another server process",
    "DETAIL:  Process 11 waits for ShareLock on transaction 9; blocked by process 12.",
    "\tThis probably means the server terminated abnormally",
    "progress: ",
    "progress: 3.0 s, ",
    "progress: nan s, nan tps, lat nan ms stddev nan",
    "progress: 4.0 s, 12,5 tps, lat 1,000 ms stddev 0,100, 0 failed",
    "",
)


@given(
    recording=st.sampled_from(_GOOD),
    remarks=st.lists(st.tuples(st.integers(0, 40), st.sampled_from(_REMARKS)), max_size=12),
)
def test_remarks_between_the_progress_lines_change_nothing(
    recording: Completed, remarks: list[tuple[int, str]]
) -> None:
    """Warnings, errors and torn lines are passed over wherever they stand."""
    lines = recording.stderr.splitlines()
    for place, remark in remarks:
        lines.insert(min(place, len(lines)), remark)
    assert _parsed(recording.stdout, "\n".join(lines)) == _parsed(
        recording.stdout, recording.stderr
    )


@given(
    recording=st.sampled_from(_GOOD),
    exit_status=st.integers(-64, 255).filter(bool),
    last=st.sampled_from(_REMARKS) | st.text(max_size=40),
)
def test_a_run_that_was_aborted_is_never_a_measurement(
    recording: Completed, exit_status: int, last: str
) -> None:
    """A summary that looks whole counts for nothing when pgbench or a signal ended the run."""
    aborted = Completed(
        argv=recording.argv,
        exit_status=exit_status,
        stdout=recording.stdout,
        stderr=f"{recording.stderr}\n{last}",
    )
    with pytest.raises(MeasurementError, match=f"pgbench exited with {exit_status}"):
        parse_run(aborted, ramp_s=0.0, started_at=1_795_297_411.0)


@given(recording=st.sampled_from(_GOOD), share=st.floats(0.0, 1.0))
def test_progress_that_was_cut_is_a_prefix(recording: Completed, share: float) -> None:
    """Standard error that ends anywhere loses its end: no second before it is another."""
    started_at = 1_795_297_411.0
    whole = parse_progress(recording.stderr, started_at=started_at)
    text = recording.stderr[: round(share * len(recording.stderr))]
    cut = parse_progress(text, started_at=started_at)
    assert len(cut) <= len(whole)
    assert cut[:-1] == whole[: len(cut)][:-1]


@given(
    end_s=st.integers(1, 10**6),
    tps=st.integers(0, 10**7),
    latency=st.sampled_from(["0.000", "1.234", "NaN", "-nan"]),
    failed=st.none() | st.integers(0, 10**6),
    retried=st.none() | st.tuples(st.integers(0, 999), st.integers(0, 9999)),
    lag=st.none() | st.tuples(st.floats(0, 999).map("{:.3f}".format), st.integers(0, 99)),
)
def test_every_form_of_a_progress_line_is_read(
    end_s: int,
    tps: int,
    latency: str,
    failed: int | None,
    retried: tuple[int, int] | None,
    lag: tuple[str, int] | None,
) -> None:
    """Failures, a rate's lag, skipped and retried transactions may stand behind, or not."""
    line = f"progress: {end_s}.0 s, {tps}.0 tps, lat {latency} ms stddev {latency}"
    line += "" if failed is None else f", {failed} failed"
    line += "" if lag is None else f", lag {lag[0]} ms, {lag[1]} skipped"
    line += "" if retried is None else f", {retried[0]} retried, {retried[1]} retries"
    (second,) = parse_progress(line, started_at=1_795_297_411.0)
    assert (second.end_s, second.transactions) == (float(end_s), float(tps))
    assert second.failed == (failed or 0)
    measured = tps > 0 and latency == "1.234"
    assert second.latency_mean_s == (pytest.approx(0.001234) if measured else None)
