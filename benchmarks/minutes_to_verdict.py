"""Minutes to a verdict: servers that alternate within a block against one start after another.

A configuration against itself, the same servers and work in both designs, reads and writes in every
block; campaigns of a few minutes by turns (a coin says which comes first in each pair), so that
both designs meet the same hours of the machine. The figure is the variance of a block's contrast
times the seconds of a block: what an interval of a given width costs. Every campaign is printed,
whatever it says.

    python benchmarks/minutes_to_verdict.py --hours 2 --keep DIRECTORY
    python benchmarks/minutes_to_verdict.py --read DIRECTORY      # tell again what is kept there

A directory that holds a part of the series gets the next part. The records of the campaigns that
alternate are kept in it, too: they are a series of a configuration against itself.

Exit code 10 when the goal is missed: at least 5 times fewer minutes on reads (lower end of the
interval at least 3) and 4 on writes (2.5). Source of goal and method: METHOD 3.1, 3.17.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from steelyard.answers.observations import observe
from steelyard.core.wording import ExitCode
from steelyard.record.directory import read_campaign

FloatArray = npt.NDArray[np.float64]

SEED = 20261123  # fixed before the first series
DRAWS = 10_000
HALF_WIDTH = 0.015
NORMAL = 1.96
GOALS = {"reads": (5.0, 3.0), "writes": (4.0, 2.5)}
CAMPAIGNS = "campaigns.jsonl"
DESIGNS = ("alternating", "one-by-one")
# Of starts as `preset:aa` has them; alternating as it is by default.
MEASURE = {
    "alternating": "measure: {machine_limits: off, max_other_load: ignore}",
    "one-by-one": "measure: {run_time: 5s, discard_start: 1s, warm_up: 3s, prewarm: true,"
    " switch: restart, machine_limits: off, max_other_load: ignore}",
}
EXPERIMENT = """\
version: 1
name: a configuration against itself, {design}
baseline: first
design: {design}
workloads:
  - {{name: reads, builtin: select-only, scale: 10}}
  - {{name: writes, builtin: simple-update, scale: 10}}
load: {{clients: 8, threads: auto, protocol: prepared}}
{measure}
stop: {{budget: {minutes}m, width: 0.01%, margin: 1%}}
seed: {seed}
configurations:
  first:
    target: {{kind: local, server: embedded}}
    postgres: {{shared_buffers: 512MB, max_wal_size: 4GB}}
  second: {{extends: first}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """What one campaign gave: the contrast of each block by workload, and the seconds of one."""

    design: str
    contrasts: dict[str, list[float]]
    block_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The price of a width: variance of a block's contrast times its seconds."""

    blocks: int
    mean: float
    sd: float
    block_s: float

    @property
    def minutes(self) -> float:
        """Return the minutes to a 95 % interval of plus and minus ``HALF_WIDTH`` in one cell."""
        return self.block_s / 60.0 * (NORMAL * self.sd / HALF_WIDTH) ** 2


def series(hours: float, minutes: int, keep: Path) -> None:
    """Run campaigns of both designs by turns, and keep what each gave as a line."""
    coin = np.random.default_rng(SEED)
    end = time.monotonic() + hours * 3600.0
    number = 0
    known = sum(1 for _ in kept(keep))
    while time.monotonic() < end:
        for place in coin.permutation(len(DESIGNS)):
            number += 1
            if number <= known:
                continue
            design = DESIGNS[place]
            record = keep / f"{number:03}-{design}"
            shutil.rmtree(record, ignore_errors=True)  # of a series that was stopped in it
            one = campaign(design, SEED + number, minutes, record)
            line = {"number": number, "seed": SEED + number, **asdict(one)}
            with (keep / CAMPAIGNS).open("a") as file:
                file.write(json.dumps(line) + "\n")
            print("\n".join(told(one)), flush=True)
            if design != DESIGNS[0]:
                shutil.rmtree(record)


def campaign(design: str, seed: int, minutes: int, record: Path) -> Campaign:
    """Return what a campaign of these minutes gives.

    Raises:
        SystemExit: It failed.
    """
    text = EXPERIMENT.format(design=design, measure=MEASURE[design], minutes=minutes, seed=seed)
    with tempfile.TemporaryDirectory(prefix="minutes-to-verdict-") as place:
        file = Path(place) / "experiment.yaml"
        file.write_text(text)
        argv = [sys.executable, "-m", "steelyard", "run", str(file), "--dir", str(record)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"the campaign failed ({done.returncode}): {done.stderr[-2000:]}")
    found = read_campaign(record)
    seen = observe(found)
    contrasts = seen.contrasts("first", "second")
    took_s = found.elapsed_s - (found.planned_at_s or 0.0)
    return Campaign(
        design=design,
        contrasts={
            cell.workload: [round(float(each), 6) for each in contrasts[:, place]]
            for place, cell in enumerate(seen.cells)
        },
        block_s=round(took_s / seen.blocks, 3),
    )


def told(one: Campaign) -> Iterator[str]:
    """Yield a line for each workload of a campaign."""
    for workload in one.contrasts:
        found = cost([one], workload)
        yield (
            f"{one.design:12} {workload:6} {found.blocks:3} blocks of {one.block_s:5.1f} s:"
            f" mean {100 * found.mean:+5.2f} %, sd {100 * found.sd:5.2f} %"
        )


def cost(campaigns: Sequence[Campaign], workload: str) -> Cost:
    """Return the cost over campaigns of one design; blocks weigh alike."""
    values = np.concatenate([one.contrasts[workload] for one in campaigns])
    seconds = sum(len(one.contrasts[workload]) * one.block_s for one in campaigns)
    return Cost(
        blocks=len(values),
        mean=float(values.mean()),
        sd=float(values.std(ddof=1)),
        block_s=seconds / len(values),
    )


def ratio_interval(one: Sequence[Campaign], other: Sequence[Campaign], workload: str) -> FloatArray:
    """Return the 95 % interval of how many times the minutes of ``one`` are those of ``other``.

    Percentiles of a bootstrap over whole campaigns: the machine moves more from one to the next
    than within one.
    """
    coin = np.random.default_rng(SEED)

    def draw(campaigns: Sequence[Campaign]) -> float:
        chosen = coin.integers(len(campaigns), size=len(campaigns))
        return cost([campaigns[place] for place in chosen], workload).minutes

    ratios = [draw(one) / draw(other) for _ in range(DRAWS)]
    return np.percentile(ratios, [2.5, 97.5])


def kept(directory: Path) -> Iterator[Campaign]:
    """Yield the campaigns that are kept in a directory, in the order in which they ran."""
    path = directory / CAMPAIGNS
    for line in path.read_text().splitlines() if path.exists() else []:
        found = json.loads(line)
        yield Campaign(**{name: found[name] for name in ("design", "contrasts", "block_s")})


def tell(workload: str, campaigns: Sequence[Campaign]) -> bool:
    """Print both designs and how many times fewer minutes; return whether the goal is reached."""
    turns, starts = ([one for one in campaigns if one.design == name] for name in DESIGNS)
    for name, of_design in zip(DESIGNS, (turns, starts), strict=True):
        found = cost(of_design, workload)
        print(
            f"{workload}, {name}: {found.blocks} blocks of {found.block_s:.1f} s in"
            f" {len(of_design)} campaigns, mean {100 * found.mean:+.2f} %, sd of a block"
            f" {100 * found.sd:.2f} %, {found.minutes:.1f} min to +-{100 * HALF_WIDTH:g} %"
        )
    ratio = cost(starts, workload).minutes / cost(turns, workload).minutes
    low, high = ratio_interval(starts, turns, workload)
    goal, least = GOALS[workload]
    print(f"{workload}: {ratio:.1f} times fewer minutes [{low:.1f}, {high:.1f}] (goal {goal:g})")
    return ratio >= goal and low >= least


def main() -> int:
    """Run a series, or tell a kept one; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--minutes", type=int, default=6, help="of one campaign")
    parser.add_argument("--keep", type=Path, help="directory of the figures")
    parser.add_argument("--read", type=Path, help="tell what is kept there, and run nothing")
    options = parser.parse_args()
    if options.read is None:
        keep = options.keep or Path(tempfile.mkdtemp(prefix="minutes-to-verdict-"))
        keep.mkdir(parents=True, exist_ok=True)
        series(options.hours, options.minutes, keep)
        options.read = keep
    found = list(kept(options.read))
    reached = [tell(workload, found) for workload in GOALS]
    return 0 if all(reached) else ExitCode.GATE


if __name__ == "__main__":
    sys.exit(main())
