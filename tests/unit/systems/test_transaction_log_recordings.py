"""Logs that pgbench 15 and 18 wrote: the counts are those of pgbench's own summary."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import words_of

from steelyard.stats.histogram import from_text, merged
from steelyard.systems.postgres.log_lines import LogForm, form_of
from steelyard.systems.postgres.transaction_log import (
    AggregatedLog,
    TransactionLog,
    TransactionLogReader,
    parse_aggregated,
)

RECORDINGS = Path(__file__).parents[2] / "recordings" / "pgbench_log"
VERSIONS = ("15", "18")
READS = LogForm(scripts=("reads",), open_loop=False, retries=False)
FORMS = {
    "plain": READS,
    "scripts": LogForm(scripts=("reads", "writes"), open_loop=False, retries=False),
    "rate": LogForm(scripts=("reads",), open_loop=True, retries=False),
    "skipped": LogForm(scripts=("nap",), open_loop=True, retries=False, latency_limit_s=0.05),
    "failed": LogForm(scripts=("conflict",), open_loop=False, retries=False),
    "retried": LogForm(scripts=("conflict",), open_loop=False, retries=True),
    "detailed": LogForm(scripts=("conflict",), open_loop=True, retries=True, latency_limit_s=0.5),
    "sampled": LogForm(scripts=("reads",), open_loop=False, retries=False, sampled=0.3),
    "killed": LogForm(scripts=("reads",), open_loop=True, retries=False),
}
everywhere = pytest.mark.parametrize("version", VERSIONS)


def recorded(version: str, name: str) -> list[Path]:
    """Return the files of the threads."""
    return sorted((RECORDINGS / version).glob(f"{name}.log.*"))


def read(version: str, name: str) -> TransactionLog:
    """Return a recording, fed by 100 bytes from each file in turn."""
    contents = {path.name: path.read_bytes() for path in recorded(version, name)}
    first = next(iter(contents.values())).split()[4]
    reader = TransactionLogReader(FORMS[name], started_at=float(first), ramp_s=0.0)
    for start in range(0, max(map(len, contents.values())), 100):
        for source, content in contents.items():
            reader.feed(source, content[start : start + 100])
    return reader.finish()


def told(version: str, name: str, what: str) -> int:
    """Return a number of pgbench's summary, 0 where it has no such line."""
    summary = (RECORDINGS / version / f"{name}.stdout").read_text()
    found = re.search(rf"^{what}: (\d+)", summary, re.MULTILINE)
    return int(found[1]) if found else 0


@everywhere
@pytest.mark.parametrize("name", sorted(set(FORMS) - {"sampled", "killed"}))
def test_the_log_says_what_the_summary_says(version: str, name: str) -> None:
    """Transactions, skipped, failed, retried, retries and late: pgbench counted the same."""
    log = read(version, name)
    latency = log.run_latency(windows_s=None)
    assert log.transactions == told(version, name, "number of transactions actually processed")
    assert words_of(log)["skipped"] == told(version, name, "number of transactions skipped")
    assert sum(latency.failed.values()) == told(version, name, "number of failed transactions")
    assert latency.retried == told(version, name, "number of transactions retried")
    assert latency.retries == told(version, name, "total number of retries")
    assert (log.damaged, log.truncated) == (0, ())
    summary = (RECORDINGS / version / f"{name}.stdout").read_text()
    above = re.search(r"above the [\d.]+ ms latency limit: (\d+)", summary)
    assert latency.late == (int(above[1]) if above else None)


@everywhere
def test_failures_have_their_kind_where_it_was_asked_for(version: str) -> None:
    """Serialization failures and deadlocks apart with --failures-detailed, else together."""
    assert set(words_of(read(version, "failed"))) == {"failed"}
    assert set(words_of(read(version, "retried"))) == {"failed"}
    told_apart = {
        "serialization": told(version, "detailed", "number of serialization failures"),
        "deadlock": told(version, "detailed", "number of deadlock failures"),
    }
    assert words_of(read(version, "detailed")) == {k: n for k, n in told_apart.items() if n}


@everywhere
def test_under_a_rate_time_counts_from_the_scheduled_start(version: str) -> None:
    """A nap of 20 ms and more took no longer than that; its time held the wait for its turn."""
    log = read(version, "skipped").run_latency(windows_s=None)
    service, lag = from_text(log.service), from_text(log.lag)
    latency = merged(from_text(script.latency) for script in log.scripts)
    assert service.total == lag.total == latency.total > 0
    assert lag.quantile(0.5) > 15_000
    assert latency.quantile(0.5) > service.quantile(0.5) + 15_000
    assert service.quantile(0.0) > 20_000


@everywhere
def test_pgbench_that_was_killed_leaves_half_a_line(version: str) -> None:
    """What was written before is counted; the half line is named, and is no damage."""
    (path,) = recorded(version, "killed")
    log = read(version, "killed")
    assert log.truncated == (path.name,)
    assert log.damaged == 0
    assert log.transactions == path.read_bytes().count(b"\n")


@everywhere
def test_a_sample_is_not_scaled(version: str) -> None:
    """The counts are those of the log; what share they are stands beside them."""
    log = read(version, "sampled")
    assert 60 < log.transactions < 180  # 120 of 400 expected
    assert log.run_latency(windows_s=None).sampled == 0.3


@everywhere
@pytest.mark.parametrize("name", sorted(FORMS))
def test_the_form_is_found_again(version: str, name: str) -> None:
    """From the first lines, and from one word where there are seven columns."""
    form = FORMS[name]
    lines = recorded(version, name)[0].read_bytes().splitlines()[:50]
    seven = form.open_loop is not form.retries
    found = form_of(lines, open_loop=form.open_loop if seven else None)
    assert (found.open_loop, found.retries) == (form.open_loop, form.retries)
    assert len(found.scripts) == len(form.scripts)


def aggregated(version: str, name: str) -> list[AggregatedLog]:
    """Return the aggregated logs of the threads."""
    return [parse_aggregated(path.read_bytes()) for path in recorded(version, name)]


@everywhere
def test_aggregated_logs(version: str) -> None:
    """15 columns in both versions: 3 intervals of 1 s in each file, with all that is counted."""
    for log in (*aggregated(version, "aggregated"), *aggregated(version, "aggregated-all")):
        assert (len(log.intervals), log.damaged, log.truncated) == (3, 0, False)
        for interval, following in zip(log.intervals, log.intervals[1:], strict=False):
            assert following.start_s - interval.start_s == 1
            spread = interval.latency
            assert spread is not None
            assert spread.least_s <= spread.mean_s <= spread.longest_s
            assert 0 < spread.stddev_s < spread.longest_s
    plain = aggregated(version, "aggregated")
    assert len(plain) == 2
    assert all(interval.lag is None for log in plain for interval in log.intervals)
    (everything,) = aggregated(version, "aggregated-all")
    for count in ("skipped", "retried", "retries", "serialization_failures"):
        whole = told(version, "aggregated-all", _SUMMARY[count])
        assert 0 < sum(getattr(each, count) for each in everything.intervals) <= whole
    assert all(interval.lag is not None for interval in everything.intervals)


_SUMMARY = {
    "skipped": "number of transactions skipped",
    "retried": "number of transactions retried",
    "retries": "total number of retries",
    "serialization_failures": "number of serialization failures",
}


def test_an_aggregated_line_by_hand() -> None:
    """1, 2 and 3 ms: mean, standard deviation over their number, extremes; and a cut line."""
    content = b"1795333318 3 6000 14000000 1000 3000 0 0 0 0 7 5 6 2 1\n1795333319 0 0"
    log = parse_aggregated(content)
    (interval,) = log.intervals
    assert interval.latency is not None
    assert interval.latency.mean_s == pytest.approx(0.002)
    assert interval.latency.stddev_s == pytest.approx(0.001 * (2 / 3) ** 0.5)
    assert (interval.latency.least_s, interval.latency.longest_s) == (0.001, 0.003)
    assert (interval.skipped, interval.retried, interval.retries) == (7, 5, 6)
    assert (interval.serialization_failures, interval.deadlock_failures) == (2, 1)
    assert (log.damaged, log.truncated) == (0, True)
    empty = parse_aggregated(b"1795333318 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n").intervals[0]
    assert (empty.latency, empty.lag) == (None, None)


@given(st.binary(max_size=200) | st.text("0123456789 \n", max_size=200).map(str.encode))
def test_no_bytes_raise(content: bytes) -> None:
    """Every whole line is an interval or damaged."""
    log = parse_aggregated(content)
    assert len(log.intervals) + log.damaged == content.count(b"\n")
