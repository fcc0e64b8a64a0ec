"""What it costs that pgbench logs every transaction: slices with a log against slices without.

Usage: python benchmarks/log_cost.py [--blocks N] [--seconds S] [--clients C] [--scale F]
                                     [--builtin B] [--seed X]

Three arms on one server, in blocks whose order is drawn from the seed: no log, every transaction
(``--log``), and one in ten (``--sampling-rate=0.1``). The default load is the hardest for a log:
the shortest transactions there are, on all CPUs. The logs are written where temporary files are.

Printed: transactions per second against those without a log, with the interval of the product's
own method; CPU time of pgbench for a transaction; and the CPU time of reading the log, as a share
of all CPU time of server and pgbench. Nothing is asserted: the machine decides.

Needs no privilege; run by root, server and pgbench belong to an unprivileged account.
"""

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from overhead import LEVEL, REAPED_S, SERVER, Rig, Used, rig, summary_tps, used_now

from steelyard.core.wording import SteelyardError
from steelyard.stats.intervals import block_interval
from steelyard.systems.postgres.log_lines import LogForm
from steelyard.systems.postgres.transaction_log import TransactionLogReader

ARMS = {"no log": (), "every one": ("--log",), "one in ten": ("--log", "--sampling-rate=0.1")}
WITHOUT = "no log"
CHUNK_BYTES = 1 << 20
FORM = LogForm(scripts=("work",), open_loop=False, retries=False)


@dataclass(slots=True, kw_only=True)
class Costs:
    """What the slices of one arm took.

    Attributes:
        tps: Of each slice.
        transactions: Of all slices.
        used: CPU time of server and pgbench.
        reading_s: CPU time of reading the logs.
        log_bytes: Size of the logs.
    """

    tps: list[float] = field(default_factory=list)
    transactions: float = 0.0
    used: Used = field(default_factory=lambda: Used(own=0.0, generator=0.0, server=0.0))
    reading_s: float = 0.0
    log_bytes: int = 0


def slice_of(on: Rig, flags: tuple[str, ...], seconds: int, costs: Costs, postmaster: int) -> None:
    """Make a slice, read its log, and add up what both took."""
    with tempfile.TemporaryDirectory(prefix="steelyard-log-cost-") as home:
        Path(home).chmod(0o777)  # pgbench may belong to another account
        command = on.bare_command()
        flags = (*flags, f"--log-prefix={home}/log") if flags else ()
        time.sleep(REAPED_S)
        before = used_now(postmaster)
        argv = (*command.argv, *flags)
        place = on.bench.platform(SERVER)
        with place.begin_together([replace(command, argv=argv)], timeout_s=600.0) as running:
            (completed,) = running.completed()
        time.sleep(REAPED_S)
        costs.used += used_now(postmaster) - before
        costs.tps.append(summary_tps(completed))
        costs.transactions += costs.tps[-1] * seconds
        began = time.process_time()
        costs.log_bytes += read(Path(home))
        costs.reading_s += time.process_time() - began


def read(home: Path) -> int:
    """Read the logs as a run does; return their size."""
    reader = TransactionLogReader(FORM, started_at=time.time(), ramp_s=0.0)
    size = 0
    for path in sorted(home.iterdir()):
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                reader.feed(path.name, chunk)
                size += len(chunk)
    log = reader.finish()
    assert log.damaged == 0
    return size


def measure(on: Rig, blocks: int, seconds: int, seed: int) -> dict[str, Costs]:
    """Return the costs of each arm."""
    coin = np.random.default_rng(seed)
    postmaster = on.postmaster()
    on.bare()  # warms up the server for all arms
    costs = {arm: Costs() for arm in ARMS}
    for _ in range(blocks):
        for arm in coin.permutation(list(ARMS)).tolist():
            slice_of(on, ARMS[arm], seconds, costs[arm], postmaster)
    return costs


def report(costs: dict[str, Costs], seconds: int) -> None:
    """Print what was found."""
    without = np.asarray(costs[WITHOUT].tps)
    print(
        f"{len(without)} blocks of {seconds}-s slices; {np.median(without):.0f} TPS without a log"
    )
    heading = f"{'log':<12} {'TPS with / without':>28} {'us of pgbench':>14} {'us in all':>10}"
    print(f"{heading} {'MB / M':>7} {'reading':>8}")
    for arm, each in costs.items():
        interval = block_interval(np.log(np.asarray(each.tps) / without), LEVEL)
        ratio, low, high = 100 * np.exp([interval.estimate, interval.low, interval.high])
        told = "100 %" if arm == WITHOUT else f"{ratio:.1f} % [{low:.1f} %, {high:.1f} %]"
        used_s = each.used.generator + each.used.server
        print(
            f"{arm:<12} {told:>28} {1e6 * each.used.generator / each.transactions:>14.2f}"
            f" {1e6 * used_s / each.transactions:>10.1f}"
            f" {each.log_bytes / each.transactions:>7.1f} {each.reading_s / used_s:>8.2%}"
        )
    print(
        "us: CPU time for a transaction, of pgbench, and of pgbench and server; MB / M: size of the"
    )
    print("log of a million transactions")
    print("reading: CPU time of reading the log, as a share of that of server and pgbench")


def main() -> int:
    """Measure, report, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=12)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--scale", type=int, default=10)
    parser.add_argument("--builtin", default="select-only")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.blocks < 2:
        parser.error("two blocks are the least that have an interval")
    try:
        with rig(options) as on:
            costs = measure(on, options.blocks, options.seconds, options.seed)
    except SteelyardError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return error.exit_code
    report(costs, options.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
