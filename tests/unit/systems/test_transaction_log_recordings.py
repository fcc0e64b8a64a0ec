"""Logs that pgbench 15 and 18 wrote: the counts are those of pgbench's own summary."""

import re
from pathlib import Path

import pytest
from recorded import words_of

from steelyard.stats.histogram import from_text, merged
from steelyard.systems.postgres.log_lines import LogForm
from steelyard.systems.postgres.transaction_log import (
    TransactionLog,
    TransactionLogReader,
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
