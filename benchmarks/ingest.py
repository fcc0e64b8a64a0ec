"""How fast a transaction log is read, beside DuckDB, polars and pandas in one run.

Usage: python benchmarks/ingest.py [--lines N] [--rounds N] [--seed X]

Writes a log of pgbench's form: 8 clients, two scripts, latencies from a lognormal distribution with
a tail. Then every reader, in a process of its own, on the same two CPUs, in rounds whose order is
drawn from the seed: how many transactions fell into each second, script and bucket of the
histogram. All must give the same counts. ``bytes`` reads the file and does nothing: no reader can
be faster. The time begins when the libraries are imported and ends when the counts are in memory;
the page cache is warm for all.

Printed: seconds and CPU seconds (medians), the ratio of the seconds to Steelyard's with its 95 %
interval over the rounds, and the peak memory of the process. Exit code 1 when Steelyard takes more
than 1.5 times as long as the best of the three and the interval of their ratio says so too, when it
took over 500 MB, or when counts differ.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from steelyard.stats.histogram import bucket_indices
from steelyard.stats.intervals import block_interval

LEVEL = 0.05
# Which of Steelyard and polars is faster depends on the machine: in six runs on virtual machines of
# one size polars took 0.81 to 1.38 times as long.
MOST_SLOWER = 1.5
MOST_BYTES = 500_000_000
CPUS = 2
STARTED_US = 1_795_296_543_250_017  # not at the beginning of a second
CHUNK_BYTES = 1 << 20
PART = 1_000_000  # lines that are made at once
Counts = tuple[int, int]  # how many cells, and a checksum of all cells with their counts


def write_log(path: Path, lines: int, seed: int) -> None:
    """Write the log; whole columns at once."""
    import pyarrow as pa  # noqa: PLC0415 - the readers' processes do without
    from pyarrow import csv  # noqa: PLC0415

    chance = np.random.default_rng(seed)
    options = csv.WriteOptions(include_header=False, delimiter=" ")
    end_us = STARTED_US
    with path.open("wb") as file:
        for first in range(0, lines, PART):
            number = min(PART, lines - first)
            time_us = np.rint(np.exp(chance.normal(np.log(800.0), 0.6, number)))
            stalled = chance.random(number) < 0.002
            time_us[stalled] *= chance.integers(5, 500, int(stalled.sum()))
            ends = end_us + np.cumsum(chance.integers(0, 200, number))
            end_us = int(ends[-1])
            columns = [
                chance.integers(0, 8, number),
                (first + np.arange(number)) // 8 + 1,
                time_us.astype(np.int64),
                (chance.random(number) < 0.1).astype(np.int64),
                ends // 1_000_000,
                ends % 1_000_000,
            ]
            table = pa.table([pa.array(column) for column in columns], names=list("abcdef"))
            csv.write_csv(table, file, write_options=options)


def checksum(seconds: Any, scripts: Any, buckets: Any, counts: Any) -> Counts:  # noqa: ANN401
    """Return a sum over the cells that does not depend on their order."""
    keys = (np.asarray(seconds, np.uint64) * np.uint64(4) + np.asarray(scripts, np.uint64)) * (
        np.uint64(8192)
    ) + np.asarray(buckets, np.uint64)
    mixed = (keys + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    return len(keys), int((mixed * np.asarray(counts, np.uint64)).sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Seconds by the clock, and seconds of CPU of all threads together."""

    wall: float
    cpu: float


def timed(work: Callable[[], Any]) -> tuple[Spent, Any]:
    """Return what it took, and its result."""
    began, cpu = time.perf_counter(), time.process_time()
    result = work()
    return Spent(wall=time.perf_counter() - began, cpu=time.process_time() - cpu), result


def with_bytes(path: str) -> tuple[Spent, Counts | None]:
    """Read the file and do nothing."""

    def work() -> None:
        with Path(path).open("rb", buffering=0) as file:
            while file.read(CHUNK_BYTES):
                pass

    return timed(work)[0], None


def with_steelyard(path: str) -> tuple[Spent, Counts]:
    """Read as a run does: chunk by chunk."""
    from steelyard.systems.postgres.log_lines import LogForm  # noqa: PLC0415
    from steelyard.systems.postgres.transaction_log import BUCKETS  # noqa: PLC0415
    from steelyard.systems.postgres.transaction_log import TransactionLogReader as LogReader  # noqa: PLC0415

    def work() -> Any:  # noqa: ANN401
        form = LogForm(scripts=("reads", "writes"), open_loop=False, retries=False)
        reader = LogReader(form, started_at=STARTED_US / 1e6, ramp_s=0.0)
        with Path(path).open("rb", buffering=0) as file:
            while chunk := file.read(CHUNK_BYTES):
                reader.feed("log", chunk)
        return reader.finish()

    spent, log = timed(work)
    owners, buckets = np.divmod(log.cells.keys, BUCKETS)
    return spent, checksum(owners // 4, owners % 2, buckets, log.cells.counts)


def with_duckdb(path: str) -> tuple[Spent, Counts]:
    """One statement on the file."""
    import duckdb  # noqa: PLC0415

    columns = {"a": "INT", "b": "INT", "time": "BIGINT", "script": "INT", "s": "BIGINT", "u": "INT"}
    statement = f"""
        SELECT (s * 1000000 + u - {STARTED_US}) // 1000000 AS second, script,
          CASE WHEN time < 256 THEN greatest(time, 1)
            ELSE ((floor(log2(time))::INT - 7) << 7) + (time >> (floor(log2(time))::INT - 7))
          END AS bucket, count(*) AS number
        FROM read_csv('{path}', delim=' ', header=false, auto_detect=false, columns={columns})
        GROUP BY ALL"""  # noqa: S608 - the file is ours
    connection = duckdb.connect(config={"threads": CPUS})
    spent, found = timed(lambda: connection.sql(statement).fetchnumpy())
    return spent, checksum(found["second"], found["script"], found["bucket"], found["number"])


def with_polars(path: str) -> tuple[Spent, Counts]:
    """A lazy query on the streaming engine: the faster and smaller of its two."""
    import polars as pl  # noqa: PLC0415

    time_us = pl.col("time")
    since_us = (pl.col("s") - STARTED_US // 1_000_000) * 1_000_000 + (
        pl.col("u") - STARTED_US % 1_000_000
    )
    query = (
        pl.scan_csv(
            path,
            has_header=False,
            separator=" ",
            schema=dict.fromkeys(("a", "b", "time", "script", "s", "u"), pl.Int64),
        )
        .select(
            (since_us // 1_000_000).alias("second"),
            pl.col("script"),
            pl.lit(table()).gather(time_us).alias("bucket"),
        )
        .group_by("second", "script", "bucket")
        .len()
    )
    spent, found = timed(lambda: query.collect(engine="streaming"))
    return spent, checksum(found["second"], found["script"], found["bucket"], found["len"])


def with_pandas(path: str) -> tuple[Spent, Counts]:
    """Its fastest parser, the columns that count, and one grouping."""
    import pandas as pd  # noqa: PLC0415

    def work() -> Any:  # noqa: ANN401
        frame = pd.read_csv(
            path,
            sep=" ",
            header=None,
            usecols=[2, 3, 4, 5],
            engine="pyarrow",
        )
        frame.columns = pd.Index(["time", "script", "s", "u"])
        second = (frame["s"] * 1_000_000 + frame["u"] - STARTED_US) // 1_000_000
        bucket = table()[frame["time"].to_numpy()]
        keys = pd.Series((second.to_numpy() * 4 + frame["script"].to_numpy()) * 8192 + bucket)
        return keys.value_counts(sort=False)

    spent, found = timed(work)
    keys = found.index.to_numpy()
    return spent, checksum(keys // 32768, keys // 8192 % 4, keys % 8192, found.to_numpy())


def table() -> Any:  # noqa: ANN401
    """Return the bucket of every time that the log may hold: the quickest way for all of them."""
    return np.concatenate(
        [bucket_indices(np.arange(n << 20, (n + 1) << 20)).astype(np.int16) for n in range(16)]
    )


READERS = {
    "bytes": with_bytes,
    "steelyard": with_steelyard,
    "duckdb": with_duckdb,
    "polars": with_polars,
    "pandas": with_pandas,
}
OTHERS = ("duckdb", "polars", "pandas")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one process did: seconds, its peak memory, and the checksum of its counts."""

    wall: float
    cpu: float
    peak_bytes: int
    counts: list[int] | None


def child(name: str, path: str) -> None:
    """Read once, on two CPUs, and print what it took."""
    spent, counts = READERS[name](path)
    print(json.dumps({**asdict(spent), "peak_bytes": peak_bytes(), "counts": counts}))


def peak_bytes() -> int:
    """Return the most memory that this process had; ru_maxrss begins with that of its parent."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def read_by(name: str, path: Path) -> Reading:
    """Return what a process of its own took."""
    done = subprocess.run(
        [sys.executable, __file__, "--child", name, str(path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "POLARS_MAX_THREADS": str(CPUS)},
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["nothing was said"])[-1]
        sys.exit(f"error: {name} failed: {last}\nhint: `make bench` installs what is compared.")
    return Reading(**json.loads(done.stdout))


def measure(path: Path, rounds: int, seed: int) -> dict[str, list[Reading]]:
    """Return all readings by reader, those of a round at the same place."""
    chance = np.random.default_rng(seed)
    readings: dict[str, list[Reading]] = {name: [] for name in READERS}
    read_by("bytes", path)  # fills the page cache
    for number in range(rounds):
        for name in chance.permutation(list(READERS)).tolist():
            readings[name].append(read_by(name, path))
        print(f"round {number + 1} of {rounds} is done", file=sys.stderr, flush=True)
    return readings


def report(readings: dict[str, list[Reading]], lines: int, size: int) -> int:
    """Print the table; return the exit code."""
    seconds = {name: np.array([each.wall for each in all_]) for name, all_ in readings.items()}
    cpu = {name: np.median([each.cpu for each in all_]) for name, all_ in readings.items()}
    peaks = {name: max(each.peak_bytes for each in all_) for name, all_ in readings.items()}
    print(f"{lines:,} lines, {size / 1e6:.0f} MB, {len(seconds['bytes'])} rounds, {CPUS} CPUs")
    heading = f"{'reader':<10} {'seconds':>8} {'CPU s':>6} {'M lines/s':>10}"
    print(f"{heading} {'time / ours':>24} {'peak MB':>8}")
    slower = {}
    for name, values in seconds.items():
        interval = block_interval(np.log(values / seconds["steelyard"]), LEVEL)
        ratio, low, high = np.exp([interval.estimate, interval.low, interval.high])
        slower[name] = high < 1.0 / MOST_SLOWER
        told = "1" if name == "steelyard" else f"{ratio:.2f} [{low:.2f}, {high:.2f}]"
        middle = float(np.median(values))
        print(
            f"{name:<10} {middle:8.2f} {cpu[name]:6.2f} {lines / middle / 1e6:10.1f}"
            f" {told:>24} {peaks[name] / 1e6:8.0f}"
        )
    best = min(OTHERS, key=lambda name: float(np.median(seconds[name])))
    faults = []
    if slower[best]:
        faults.append(f"{MOST_SLOWER} times slower than {best}, beyond the error of measurement")
    if peaks["steelyard"] > MOST_BYTES:
        faults.append(f"took {peaks['steelyard'] / 1e6:.0f} MB of at most {MOST_BYTES / 1e6:.0f}")
    if len({str(each.counts) for name in readings for each in readings[name] if each.counts}) != 1:
        faults.append("the readers' counts differ")
    print(f"FAILED: {'; '.join(faults)}" if faults else f"passed (the best of the others: {best})")
    return 1 if faults else 0


def main() -> int:
    """Write, measure, report, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=6)  # the least with an interval of 95 %
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CPUS])
    if options.child:
        child(*options.child)
        return 0
    if options.rounds < 2 or options.lines < 1:
        parser.error("two rounds are the least that have an interval, and one line is a log")
    with tempfile.TemporaryDirectory(prefix="steelyard-ingest-") as home:
        path = Path(home) / "pgbench_log"
        write_log(path, options.lines, options.seed)
        readings = measure(path, options.rounds, options.seed)
        return report(readings, options.lines, path.stat().st_size)


if __name__ == "__main__":
    sys.exit(main())
