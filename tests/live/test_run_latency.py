"""Every transaction of real runs: logged, counted, checked against pgbench, kept or dropped."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from steelyard.core.measurement import Run, RunLatency
from steelyard.gateways.files import free_bytes, is_in_memory
from steelyard.gateways.process import Processes
from steelyard.places.local.server import LEAST_FREE_BYTES, MEMORY
from steelyard.record.directory import read_campaign
from steelyard.stats.histogram import Histogram, bucket_values, from_text, merged
from support.live import Steelyard, one_by_one, wait_for

pytestmark = [pytest.mark.live, pytest.mark.slow]

_STARTS = one_by_one()
_OPTIONS = ("--dir", "c", "--no-verdict", "--quiet")


def _all(latency: RunLatency) -> Histogram:
    return merged(from_text(each.latency) for each in latency.scripts)


def _mean_us(histogram: Histogram) -> float:
    places = histogram.counts.nonzero()[0]
    return float((bucket_values(places) * histogram.counts[places]).sum() / histogram.total)


def _runs(steelyard: Steelyard) -> tuple[Run, ...]:
    return read_campaign(steelyard.directory / "c").runs


def _processed(steelyard: Steelyard, run: Run) -> list[int]:
    """Return what each pgbench process of a run says it processed."""
    text = gzip.decompress((steelyard.directory / "c" / "raw" / run.raw).read_bytes()).decode()
    pattern = r"^number of transactions actually processed: (\d+)"
    return [int(number) for number in re.findall(pattern, text, re.MULTILINE)]


def _left_in_memory() -> set[Path]:
    return set(Path("/dev/shm").glob("steelyard-*"))  # noqa: S108


def _logs(steelyard: Steelyard) -> list[dict[str, Any]]:
    entries = steelyard.journal
    return [e for e in entries if e["kind"] in ("created", "removed") and "/dev/shm/" in e["name"]]  # noqa: S108


def test_the_latency_of_a_run_is_that_of_every_transaction(steelyard: Steelyard) -> None:
    """Its count is what pgbench 15 processed, its mean pgbench's own within a hundredth."""
    text = _STARTS.replace("server: embedded", 'server: "15"')
    steelyard.until_blocks(1, "run", steelyard.experiment(text), *_OPTIONS)
    runs = _runs(steelyard)
    assert runs
    for run in runs:
        if run.measurement is None:
            continue  # the interruption ended it
        assert run.latency is not None, run.findings
        assert run.measurement.latency_mean_s is not None
        counted = _all(run.latency)
        assert [counted.total] == _processed(steelyard, run)
        assert counted.total == run.measurement.transactions
        assert _mean_us(counted) / 1e6 == pytest.approx(run.measurement.latency_mean_s, rel=0.01)
    kinds = [entry["kind"] for entry in _logs(steelyard)]
    assert kinds in ([], ["created", "removed"])  # nothing, where memory has no room
    assert not {Path(entry["name"]) for entry in _logs(steelyard)} & _left_in_memory()


def test_seconds_and_buckets_of_a_run_hold_the_same_transactions(steelyard: Steelyard) -> None:
    """With a ramp, the seconds hold all of them, and the table those that count."""
    text = _STARTS.replace("discard_start: 0s", "discard_start: 1s")
    steelyard.until_blocks(1, "run", steelyard.experiment(text), *_OPTIONS)
    run = _runs(steelyard)[0]
    assert run.latency is not None
    assert run.measurement is not None
    stored = steelyard.directory / "c" / "raw" / run.latency.seconds
    lines = gzip.decompress(stored.read_bytes()).decode().splitlines()
    held = {
        kind: sum(from_text(json.loads(line)[kind]).total for line in lines)
        for kind in ("counts", "apart")
    }
    assert [sum(held.values())] == _processed(steelyard, run)
    assert held["counts"] == _all(run.latency).total
    # The end of the ramp is known to a millisecond, and rates to a decimal place.
    counted = _all(run.latency).total
    assert counted == pytest.approx(run.measurement.transactions, rel=0.02, abs=3)
    assert steelyard.run("report", "c", "--write").returncode == 0
    table = pq.read_table(steelyard.directory / "c" / "latency.parquet").to_pylist()
    own = [r["count"] for r in table if (r["block"], r["start"], r["position"]) == run.place]
    assert sum(own) == counted


def test_two_generators_are_one_load(steelyard: Steelyard) -> None:
    """Their counts are the sum of both, and their clients those that were asked for."""
    text = _STARTS.replace("clients: 2, threads: 1", "clients: 3, threads: 2, generators: 2")
    steelyard.until_blocks(1, "run", steelyard.experiment(text), *_OPTIONS)
    run = _runs(steelyard)[0]
    assert run.latency is not None
    assert run.measurement is not None
    each = _processed(steelyard, run)
    assert len(each) == 2
    assert _all(run.latency).total == sum(each) == run.measurement.transactions
    raw = gzip.decompress((steelyard.directory / "c" / "raw" / run.raw).read_bytes()).decode()
    assert re.findall(r"^number of clients: (\d+)", raw, re.MULTILINE) == ["2", "1"]
    mean_s = run.measurement.latency_mean_s
    assert _mean_us(_all(run.latency)) / 1e6 == pytest.approx(mean_s, rel=0.01)


def test_kill_9_in_a_run_leaves_no_log_that_clean_does_not_find(steelyard: Steelyard) -> None:
    """The directory in memory is named by the journal before it is made; clean removes it."""
    if not is_in_memory(MEMORY) or free_bytes(MEMORY) < LEAST_FREE_BYTES:
        pytest.skip("memory has no room for logs here")
    process = steelyard.start("run", steelyard.experiment(_STARTS), *_OPTIONS)

    def made() -> list[Path]:
        """Return the directories in memory that hold a log now, by the journal."""
        named = [Path(e["name"]) for e in steelyard.journal if e["kind"] == "created"]
        return [path for path in named if path.parent == MEMORY and list(path.glob("*"))]

    wait_for(lambda: bool(made()), process)
    process.kill()
    process.communicate()
    (left,) = [Path(e["name"]) for e in steelyard.journal if "/dev/shm/" in e.get("name", "")]  # noqa: S108
    assert left.exists()
    assert steelyard.run("clean", "--yes").returncode == 0
    assert not left.exists()
    assert Processes().within(steelyard.cache / "live") == ()
