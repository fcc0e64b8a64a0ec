"""pgbench's output as it really was in three versions, and as it never was."""

import math
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from recorded import VERSIONS, Recording, recorded, recordings

from steelyard.core.measurement import Measurement
from steelyard.core.outside import Completed
from steelyard.core.wording import MeasurementError
from steelyard.systems.postgres.pgbench import parse_progress, parse_run

_GOOD = [r for r in recordings() if r.exit_status == 0]
_BAD = [r for r in recordings() if r.exit_status != 0]


def _number(pattern: str, text: str) -> float:
    match = re.search(pattern, text)
    assert match is not None
    return float(match[1])


def test_all_kinds_of_output_are_recorded_for_all_versions() -> None:
    """A version without its failures, retries or aborts would leave a format untested."""
    kinds = {
        version: {r.name for r in recordings() if r.version == version} for version in VERSIONS
    }
    assert kinds[15] == kinds[16] == kinds[18]
    assert len(kinds[15]) == 10


@pytest.mark.parametrize("recording", _GOOD, ids=str)
def test_the_summary_is_read_in_base_units(recording: Recording) -> None:
    """Throughput and latencies are pgbench's own, milliseconds turned into seconds once."""
    completed = recording.completed()
    measured = parse_run(completed, ramp_s=0.0, started_at=recording.started_at)
    assert measured.tps == pytest.approx(_number(r"\ntps = ([\d.]+)", completed.stdout))
    assert measured.transactions == _number(r"actually processed: (\d+)", completed.stdout)
    latency_ms = _number(r"\nlatency average = ([\d.]+)", completed.stdout)
    stddev_ms = _number(r"\nlatency stddev = ([\d.]+)", completed.stdout)
    connection_ms = _number(r"initial connection time = ([\d.]+)", completed.stdout)
    assert measured.latency_mean_s == pytest.approx(latency_ms / 1000)
    assert measured.latency_stddev_s == pytest.approx(stddev_ms / 1000)
    assert measured.connection_s == pytest.approx(connection_ms / 1000)
    assert measured.failed == _number(r"number of failed transactions: (\d+)", completed.stdout)


@pytest.mark.parametrize("recording", _GOOD, ids=str)
def test_every_progress_line_is_an_interval(recording: Recording) -> None:
    """No line is lost, and each interval is about the second that was asked for."""
    completed = recording.completed()
    series = parse_run(completed, ramp_s=0.0, started_at=recording.started_at).series
    assert len(series) == completed.stderr.count("progress: ")
    assert all(second.seconds == pytest.approx(1.0, abs=0.05) for second in series)
    ends = [second.end_s for second in series]
    assert ends == pytest.approx([number + 1.0 for number in range(len(series))], abs=0.1)


@pytest.mark.parametrize("recording", _GOOD, ids=str)
def test_transactions_are_conserved(recording: Recording) -> None:
    """What the ramp takes and what is left are what pgbench processed, in transactions and time."""
    completed = recording.completed()
    whole = parse_run(completed, ramp_s=0.0, started_at=recording.started_at)
    for ramp_s in range(len(whole.series)):
        left = parse_run(completed, ramp_s=ramp_s, started_at=recording.started_at)
        ramp = whole.series[:ramp_s]
        assert left.series == whole.series
        taken = sum(second.transactions for second in ramp)
        assert left.transactions + taken == pytest.approx(whole.transactions)
        spent_s = sum(second.seconds for second in ramp)
        assert left.seconds + spent_s == pytest.approx(whole.seconds)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_stalled_second_stays_in_with_no_latency(version: int) -> None:
    """A second without transactions is 0 transactions and a latency of None, never 0."""
    recording = recorded(version, "stalled")
    measured = parse_run(recording.completed(), ramp_s=0.0, started_at=recording.started_at)
    stalled = [second for second in measured.series if second.transactions == 0]
    assert stalled
    assert all(second.latency_mean_s is None for second in stalled)
    assert all(s.latency_mean_s is not None for s in measured.series if s.transactions > 0)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["failures", "retries"])
def test_failed_transactions_are_counted_apart(version: int, name: str) -> None:
    """Failures are not transactions; seconds with them add up to the summary's number or less."""
    recording = recorded(version, name)
    measured = parse_run(recording.completed(), ramp_s=0.0, started_at=recording.started_at)
    in_series = sum(second.failed for second in measured.series)
    assert 0 <= in_series <= measured.failed
    assert name == "retries" or in_series > 0


@pytest.mark.parametrize("recording", [r for r in _GOOD if r.name != "stalled"], ids=str)
def test_a_tail_counts_apart(recording: Recording) -> None:
    """Ramp, slice and tail are all there is; the slice is that of the progress lines between."""
    completed = recording.completed()
    whole = parse_run(completed, ramp_s=0.0, started_at=recording.started_at)
    taken = parse_run(completed, ramp_s=1.0, started_at=recording.started_at, run_time_s=1.0)
    assert taken.transactions == whole.series[1].transactions
    assert taken.seconds == whole.series[1].seconds
    in_all = whole.series[0].transactions + taken.transactions + taken.tail_transactions
    assert in_all == pytest.approx(whole.transactions)
    lines = [int(n) for n in re.findall(r", (\d+) skipped", completed.stderr)]
    assert taken.skipped == (lines[1] if lines else 0)
    without = parse_run(completed, ramp_s=1.0, started_at=recording.started_at)
    assert without.tail_transactions == 0.0
    assert without.transactions > taken.transactions
    beyond = parse_run(completed, ramp_s=1.0, started_at=recording.started_at, run_time_s=99.0)
    assert beyond == without


@pytest.mark.parametrize("version", VERSIONS)
def test_skipped_transactions_are_those_after_the_ramp(version: int) -> None:
    """The summary counts the whole run; what progress lines of the ramp tell is taken off."""
    recording = recorded(version, "rate")
    completed = recording.completed()
    in_all = _number(r"transactions skipped: (\d+)", completed.stdout)
    assert in_all > 0
    lines = [int(n) for n in re.findall(r", (\d+) skipped", completed.stderr)]
    for ramp_s in range(3):
        measured = parse_run(completed, ramp_s=ramp_s, started_at=recording.started_at)
        assert measured.skipped == in_all - sum(lines[:ramp_s])
    closed = recorded(version, "failures")
    assert parse_run(closed.completed(), ramp_s=0.0, started_at=0.0).skipped == 0


@pytest.mark.parametrize("recording", _BAD, ids=str)
def test_a_failed_run_is_no_measurement(recording: Recording) -> None:
    """Absent servers are errors with pgbench's last words, aborted clients with the first error."""
    completed = recording.completed()
    with pytest.raises(MeasurementError, match=f"exited with {recording.exit_status}") as caught:
        parse_run(completed, ramp_s=0.0, started_at=recording.started_at)
    lines = completed.stderr.strip().splitlines()
    told = next(
        (line.partition("ERROR:")[2].strip() for line in lines if "ERROR:" in line), lines[-1]
    )
    assert told in caught.value.message


def test_progress_lines_before_version_15_are_read() -> None:
    """Their lines count no failures; the format is the manual's, as no such version runs here."""
    recording = recorded(15, "plain")
    old = recording.completed()
    stderr = old.stderr.replace(", 0 failed", "")
    assert stderr != old.stderr
    again = type(old)(argv=old.argv, exit_status=0, stdout=old.stdout, stderr=stderr)
    assert parse_run(again, ramp_s=1.0, started_at=0.0) == parse_run(
        old, ramp_s=1.0, started_at=0.0
    )


def test_a_summary_without_its_lines_says_which() -> None:
    """Output of a program that is no pgbench is an error that names the line it lacks."""
    good = recorded(18, "plain").completed()
    for line in ("number of transactions actually processed:", "tps ="):
        stdout = good.stdout.replace(line, "something else")
        damaged = type(good)(argv=good.argv, exit_status=0, stdout=stdout, stderr=good.stderr)
        with pytest.raises(MeasurementError, match=f"has no line '{line}'") as caught:
            parse_run(damaged, ramp_s=0.0, started_at=0.0)
        assert caught.value.hint


def test_a_run_without_a_transaction_is_a_result() -> None:
    """Nothing completed in some seconds is a rate of zero: a configuration may have caused it."""
    good = recorded(18, "plain").completed()
    stdout = re.sub(r"actually processed: .*", "actually processed: 0", good.stdout)
    stdout = re.sub(r"tps = .*", "tps = 0.000000 (without initial connection time)", stdout)
    empty = type(good)(argv=good.argv, exit_status=0, stdout=stdout, stderr=good.stderr)
    taken = parse_run(empty, ramp_s=0.0, started_at=0.0)
    assert taken.transactions == 0
    assert taken.seconds == pytest.approx(sum(second.seconds for second in taken.series))
    silent = type(good)(argv=good.argv, exit_status=0, stdout=stdout, stderr="")
    with pytest.raises(MeasurementError, match="no transaction and reported no progress"):
        parse_run(silent, ramp_s=0.0, started_at=0.0)


_COMPLETED = [r.completed() for r in recordings() if r.exit_status == 0]
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
    recording = draw(st.sampled_from(_COMPLETED))
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
    recording=st.sampled_from(_COMPLETED),
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
    recording=st.sampled_from(_COMPLETED),
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


@given(recording=st.sampled_from(_COMPLETED), share=st.floats(0.0, 1.0))
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


@pytest.mark.parametrize(
    ("number", "name"), [("0", "div.sql"), ("1", "a@b.sql"), ("7", "7")], ids=["first", "@", "none"]
)
def test_a_failure_names_the_script(number: str, name: str) -> None:
    """Who wrote files is told of files: pgbench counts them."""
    printed = f"pgbench: error: client 1 script {number} aborted in command 0 query 0: ERROR:  no"
    argv = ("pgbench", "--file=/cache/s/0-div.sql@9", "--file=/cache/s/1-a@b.sql@1")
    completed = Completed(argv=argv, exit_status=2, stdout="", stderr=printed)
    with pytest.raises(MeasurementError, match=f"client 1 script {name} aborted in command 0"):
        parse_run(completed, ramp_s=0, started_at=0)
