"""How long the report of a very large campaign takes, how much memory, and how large it is.

Usage: python benchmarks/report.py [--runs N] [--seconds N] [--seed X] [--keep DIRECTORY]

Makes the record of a campaign by the seed: two configurations under two workloads and five loads,
100,000 runs with 100 one-second intervals each, a quarter of a million seconds of load for each
load. Rates have drift, runs that stall and a difference of 3 %. There are no probes' readings in
it, as of a server on another machine that nobody may look into. Then ``steelyard report`` in a
process of its own: all files, Parquet tables included, where pyarrow is there.

Printed: seconds, the peak memory of that process, bytes of the record and of report.html. Exit code
10 when the memory or the bytes of the report miss their goal; never for the time, which is the
machine's.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from steelyard.core.campaign import (
    BlockOutcome,
    CampaignPlan,
    Status,
    StoppingRule,
    WarmUpChoice,
)
from steelyard.core.experiment import (
    Configuration,
    Experiment,
    Layer,
    Measure,
    Reset,
    Setting,
    Stop,
    SwitchCost,
    Workload,
)
from steelyard.core.findings import Validity
from steelyard.core.measurement import Measurement, Run
from steelyard.core.schedule import CellKey, Load, Mode
from steelyard.core.target import LocalTarget
from steelyard.record.journal import (
    BlockEnded,
    BlockStarted,
    Ended,
    Entry,
    Line,
    Planned,
    RunFinished,
    Started,
    encode,
)

MOST_MEMORY_BYTES: Final = 1_000_000_000
MOST_HTML_BYTES: Final = 5_000_000
MISSED: Final = 10
STARTED_AT: Final = 1_795_296_543.0
CLIENTS: Final = (1, 4, 16, 64, 128)
WORKLOADS: Final = {"reads": "select-only", "writes": "simple-update"}
NO_SERIES: Final = b'"series":[]'
CHECKSUM_BYTES: Final = len(',"crc32":"00000000"}\n')


def experiment(seed: int, measured_s: int) -> Experiment:
    """Return what is compared: two sizes of the buffers."""
    return Experiment(
        name="many runs",
        baseline="small",
        configurations=(
            Configuration(name="small", target=LocalTarget()),
            Configuration(
                name="large",
                target=LocalTarget(),
                settings=(Setting(layer=Layer.POSTGRES, name="shared_buffers", value="2GB"),),
            ),
        ),
        workloads=tuple(Workload(name=n, builtin=b) for n, b in WORKLOADS.items()),
        loads=tuple(Load(clients=number, threads=1) for number in CLIENTS),
        measure=Measure(run_time_s=measured_s - 2.0, discard_start_s=2.0, warm_up_s=2.0),
        stop=Stop(budget_s=1e9),
        seed=seed,
    )


def plan(blocks: int) -> CampaignPlan:
    """Return what was frozen before the first block: one look, after the last."""
    stopping = StoppingRule(
        max_blocks=blocks,
        alpha=0.025,
        results=len(WORKLOADS),
        first_look=blocks,
        cell_first_look=blocks,
        spending_power=2.0,
        is_fixed=True,
    )
    return CampaignPlan(
        mode=Mode.STARTS,
        switch=SwitchCost.RESTART,
        reset=Reset.START,
        restore="copy",
        restore_s=(("copy", 1.0),),
        block_s=2000.0,
        stopping=stopping,
        warm_up=WarmUpChoice(warm_up_s=2.0, how="declared", risk=""),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What one run gave: a line of text for each second, and their sums."""

    series: bytes
    transactions: float
    latency_s: float


def seconds_of(rates: Sequence[float], clients: int) -> Taken:
    """Return a run of such one-second rates, 1/s, as the journal writes them."""
    parts = [
        f'{{"end_s":{place}.000{place % 7}3,"transactions":{rate},"seconds":1.0,'
        f'"latency_mean_s":{clients / max(rate, 1.0):.9f},"failed":0}}'
        for place, rate in enumerate(rates, start=1)
    ]
    counted = rates[2:]
    total = sum(counted)
    return Taken(
        series=f'"series":[{",".join(parts)}]'.encode(),
        transactions=round(total, 3),
        latency_s=clients * len(counted) / max(total, 1.0),
    )


def entries(runs: int, seconds: int, seed: int) -> Iterator[tuple[Entry, bytes]]:
    """Yield what the journal says, with the seconds of each run as text beside it."""
    asked = experiment(seed, seconds)
    chance = np.random.default_rng(seed)
    cells = [CellKey(workload=w.name, load=load) for w in asked.workloads for load in asked.loads]
    blocks = runs // (len(cells) * len(asked.configurations))
    started = Started(
        campaign_id=f"made-{seed}", experiment=asked, command="steelyard run", version="0"
    )
    yield started, b""
    yield Planned(plan=plan(blocks)), b""
    drift, at = 0.0, STARTED_AT
    for block in range(blocks):
        yield BlockStarted(index=block, attempt=0), b""
        drift += float(chance.normal(0.0, 0.003))
        for start, side in enumerate(chance.permutation(2)):
            configuration = asked.configurations[side].name
            for position, place in enumerate(chance.permutation(len(cells))):
                cell = cells[place]
                level = drift + 0.03 * float(side) + float(chance.normal(0.0, 0.01))
                mean = 1000.0 * cell.load.clients**0.7 * np.exp(level)
                rates = mean * np.exp(chance.normal(0.0, 0.05, seconds))
                if chance.random() < 0.01:
                    rates[int(chance.integers(2, seconds))] = 0.0
                taken = seconds_of(np.round(rates, 1).tolist(), cell.load.clients)
                yield (
                    RunFinished(
                        run=Run(
                            block=block,
                            attempt=0,
                            start=start,
                            position=position,
                            configuration=configuration,
                            cell=cell,
                            started_at=at,
                            since_start_s=2.0 + position * seconds,
                            measurement=Measurement(
                                transactions=taken.transactions,
                                seconds=seconds - 2.0,
                                latency_mean_s=taken.latency_s,
                                latency_stddev_s=taken.latency_s / 2.0,
                                failed=0,
                                connection_s=0.01,
                                series=(),
                            ),
                            validity=Validity.VALID,
                            raw=f"{block:04}-0-{start}-{position:02}.txt.gz",
                        )
                    ),
                    taken.series,
                )
                at += seconds
        yield BlockEnded(outcome=BlockOutcome(index=block, attempt=0, complete=True)), b""
    yield Ended(status=Status.COMPLETE), b""


def write_record(path: Path, *, runs: int, seconds: int, seed: int) -> int:
    """Write the journal of a campaign and return its bytes.

    Args:
        path: The campaign's directory, which is made.
        runs: Of all configurations together.
        seconds: Of each run, ramp included.
        seed: Of everything that is drawn.
    """
    path.mkdir(parents=True)
    (path / "experiment.yaml").write_text("version: 1\n")
    with (path / "journal.jsonl").open("wb") as file:
        for sequence, (entry, series) in enumerate(entries(runs, seconds, seed)):
            elapsed_s = float(sequence * seconds)
            line = Line(
                sequence=sequence, at=STARTED_AT + elapsed_s, elapsed_s=elapsed_s, entry=entry
            )
            written = encode(line)
            if series:  # text at once: ten million objects would take most of the time
                body = written[:-CHECKSUM_BYTES].replace(NO_SERIES, series, 1)
                written = body + f',"crc32":"{zlib.crc32(body):08x}"}}\n'.encode()
            file.write(written)
        return file.tell()


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a process took: seconds by the clock and of CPU, and its peak memory in bytes."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


def spent(command: Sequence[str]) -> Spent:
    """Run a command and return what it took.

    Raises:
        RuntimeError: It failed.
    """
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return Spent(
        wall_s=time.monotonic() - began,
        cpu_s=usage.ru_utime + usage.ru_stime,
        peak_bytes=usage.ru_maxrss * 1024,
    )


def missed(peak_bytes: int, html_bytes: int) -> list[str]:
    """Return in words which goals are missed; seconds are none."""
    goals = (
        ("peak memory", peak_bytes, MOST_MEMORY_BYTES),
        ("report.html", html_bytes, MOST_HTML_BYTES),
    )
    return [
        f"{name} is {size / 1e6:.1f} MB, of at most {most / 1e6:.0f}"
        for name, size, most in goals
        if size > most
    ]


def main() -> int:
    """Make the record, report it, and print what that took; 10 when a goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--seconds", type=int, default=100, help="of each run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="make the record here and leave it")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        path = asked.keep or Path(scratch) / "campaign"
        began = time.monotonic()
        size = write_record(path, runs=asked.runs, seconds=asked.seconds, seed=asked.seed)
        made_s = time.monotonic() - began
        intervals = asked.runs * asked.seconds
        print(
            f"{asked.runs:,} runs, {intervals:,} intervals, journal {size / 1e6:.0f} MB"
            f" (made in {made_s:.0f} s), seed {asked.seed}"
        )
        took = spent([sys.executable, "-m", "steelyard", "report", "--write", str(path)])
        html = (path / "report.html").stat().st_size
        print(f"report: {took.wall_s:.1f} s, {took.cpu_s:.1f} s of CPU")
        print(f"peak memory {took.peak_bytes / 1e6:.0f} MB, report.html {html / 1e6:.2f} MB")
        for file in sorted(path.glob("*")):
            if file.suffix in {".md", ".json", ".parquet"}:
                print(f"  {file.name} {file.stat().st_size / 1e6:.2f} MB")
    wrong = missed(took.peak_bytes, html)
    print("\n".join(wrong) or "passed")
    return MISSED if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
