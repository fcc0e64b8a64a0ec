"""What more workers give, and how far apart they begin: 1, 2, 4 and 8 of them on this machine.

Usage: python benchmarks/scale_out.py [--cpus Q] [--seconds S] [--workers 1,2,4,8] [--pairs N]

Each worker with its generator is held to a share of a CPU by a control group, so that the generator
is the limit and a further worker has something to give, as on a machine of its own. Told are the
rate by the number of workers, its share of that many times the rate of one, the largest skew of
starts with its doubt, and for which share of the time tasks waited for a CPU.

For 100 workers there is an estimate on paper. Steelyard compares clocks one worker after another
before each start: eight round trips to each. It reads all logs in one process.

With --pairs it compares percentiles instead: N pairs of runs of 8 clients at one rate, from two
generator processes of this machine and from two workers, each first in turn. Shown is the change of
each percentile from processes to workers with its 95 % interval over pairs.

Needs root, for the groups.
"""

import argparse
import sys
import tempfile
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np

from steelyard.cli.main import cli
from steelyard.core.linux import Controller
from steelyard.core.measurement import Quantity, Run
from steelyard.gateways.cgroups import Cgroups
from steelyard.gateways.workers import Workers
from steelyard.places.local.groups import quota_files
from steelyard.record.directory import read_campaign
from steelyard.stats.histogram import from_text
from steelyard.stats.intervals import block_interval

EXPERIMENT = """\
version: 1
name: scale out
design: single-pass
workloads: [{{name: reads, builtin: select-only, scale: 10}}]
load: {{clients: 8, threads: 8{more}}}
{generator}
measure: {{run_time: {seconds}s, discard_start: 2s, warm_up: 2s, machine_limits: off,
  max_other_load: ignore}}
seed: 7
configurations: {{default: {{target: {{kind: local, server: embedded}}}}}}
"""
SHARES = (0.5, 0.9, 0.95, 0.99)
_TRIPS = 8  # as places/workers.py has them
_LINE_BYTES = 45.0  # of pgbench's log
_READ_BYTES_PER_S = 100e6  # about what benchmarks/ingest.py shows for one process; a guess


def hold(groups: list[Path]) -> None:
    """Put each worker of this machine into a group of its own when it is started."""
    start = Workers._start  # noqa: SLF001 - for the benchmark alone

    def held(workers: Workers) -> None:
        start(workers)
        for group, program in zip(groups, list(workers._programs.values())[1:], strict=False):  # noqa: SLF001
            (group / "cgroup.procs").write_text(str(program.pid))

    Workers._start = held  # type: ignore[assignment, method-assign]  # noqa: SLF001


def taken(workers: int, seconds: int, more: str = "") -> Run:
    """Return the run of a campaign with so many workers; 0: with the processes of this machine."""
    generator = f"generator: {{workers: {workers}}}" if workers else ""
    with tempfile.TemporaryDirectory() as home:
        file = Path(home) / "scale-out.yaml"
        file.write_text(EXPERIMENT.format(generator=generator, seconds=seconds, more=more))
        words = ["run", str(file), "--dir", f"{home}/c", "--yes", "--quiet"]
        with redirect_stdout(StringIO()):  # its report has no interval
            cli.main(words, standalone_mode=False)
        (run,) = read_campaign(Path(home) / "c").pass_runs
        return run


def level(run: Run, quantity: Quantity) -> float:
    """Return a reading of a run."""
    assert run.evidence is not None
    return run.evidence.level(quantity) or 0.0


def show(number: int, run: Run, alone: float) -> float:
    """Print a run; return its rate."""
    assert run.measurement is not None
    assert run.evidence is not None
    rate = run.measurement.tps
    waited = (run.evidence.total(Quantity.CPU_PRESSURE_S) or 0.0) / run.evidence.seconds
    print(
        f"{number:7} {rate:9.0f} {rate / (number * (alone or rate)):8.1%}"
        f" {1e3 * level(run, Quantity.START_SKEW_S):7.2f}"
        f" {1e3 * level(run, Quantity.START_DOUBT_S):8.2f} {waited:9.1%}",
        flush=True,
    )
    return rate


def estimate(rate: float, doubt_s: float, workers: int = 100) -> None:
    """Print what so many workers of this rate ask of Steelyard, and what breaks first."""
    trip_s = doubt_s  # two shortest halves
    comparing_s = workers * _TRIPS * trip_s
    reading = workers * rate * _LINE_BYTES / _READ_BYTES_PER_S
    first = "reading logs" if reading > 1.0 else "comparing clocks"
    print(
        f"{workers} workers on paper: {comparing_s:.2f} s of round trips before each start;"
        f" {reading:.2f} s of reading logs for each second of load; first breaks {first}"
    )


def percentiles(run: Run) -> list[float]:
    """Return latencies of a run at ``SHARES``, microseconds."""
    assert run.latency is not None
    (script,) = run.latency.scripts
    counts = from_text(script.latency)
    return [counts.quantile(share) for share in SHARES]


def compare(pairs: int, seconds: int) -> None:
    """Print how percentiles of two workers differ from those of two processes."""
    changes = []
    for pair in range(pairs):
        found = {}
        for workers in (0, 2) if pair % 2 else (2, 0):
            more = ", rate: 2000" if workers else ", rate: 2000, generators: 2"
            found[workers] = percentiles(taken(workers, seconds, more))
        changes.append(np.log(np.array(found[2]) / np.array(found[0])))
        here, there = (" ".join(f"{us:.0f}" for us in found[workers]) for workers in (0, 2))
        print(f"pair {pair + 1}: processes {here} us, workers {there} us", flush=True)
    for share, logs in zip(SHARES, np.array(changes).T, strict=True):
        interval = block_interval(logs, 0.05)
        low, middle, high = np.expm1([interval.low, interval.estimate, interval.high]) * 100.0
        print(f"p{share * 100:g}: {middle:+.1f} % [{low:+.1f}, {high:+.1f}]")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cpus", type=float, default=0.1)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--workers", default="1,2,4,8")
    parser.add_argument("--pairs", type=int, default=0)
    options = parser.parse_args()
    if options.pairs:
        compare(options.pairs, options.seconds)
        return 0
    numbers = [int(word) for word in options.workers.split(",")]
    cgroups = Cgroups()
    hierarchy = cgroups.hierarchy(Controller.CPU)
    groups = [hierarchy.root / f"steelyard-scale-out-{place}" for place in range(max(numbers))]
    try:
        for group in groups:
            cgroups.make(group)
            for name, text in quota_files(hierarchy.version, options.cpus).items():
                cgroups.write(group, name, text)
        hold(groups)
        print("workers       tps  of ideal skew ms doubt ms  pressure")
        alone, doubt_s = 0.0, 0.0
        for number in numbers:
            run = taken(number, options.seconds)
            rate = show(number, run, alone)
            alone = alone or rate / number
            doubt_s = level(run, Quantity.START_DOUBT_S)
        estimate(alone, doubt_s)
    finally:
        for group in groups:
            cgroups.remove(group)
    return 0


if __name__ == "__main__":
    sys.exit(main())
