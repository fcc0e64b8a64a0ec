"""How often two equal systems are called different, and how soon a real 3 % is found.

Steelyard's own schedule, intervals and stopping rule beside what people do today with the same
minutes: one long run per load and configuration, judged by a t interval over its seconds. Both meet
the simulated machine of ``tests/method`` (profile "typical": 2 % between runs, drift, neighbours,
stalls), so every figure is a count over seeded campaigns and repeats exactly.

``--real`` measures instead: a server that alternates with itself on this machine, under reads or
writes, or with `jit` off on one side, which single-row reads never use. Each campaign takes a
fixed number of blocks and looks once, after the last. Its seed follows from its number, and every
campaign is printed and kept. Then the blocks of all campaigns of a kind are read together: their
mean, their groups of 8, and what a campaign of so many blocks would have said that looks after each
block. Exit code 10 when the mean lies more than 2 standard errors from zero.

    python benchmarks/false_alarms.py --real reads --keep FILE
    python benchmarks/false_alarms.py --real jit --first 1 --keep FILE    # the next campaign
    python benchmarks/false_alarms.py --read FILE
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "method"))

import adapter
from designs import published
from methods import welch
from sequential import at_its_end, terms_of
from simulator import Simulator, log_effects

from steelyard.answers.observations import observe
from steelyard.core.wording import ExitCode
from steelyard.record.directory import read_campaign
from steelyard.stats.intervals import block_interval
from steelyard.stats.spending import FIXED_ALPHA

BUDGET_S = 3600.0
PROFILE = "typical"
SEED = 20261129  # fixed before the first real series
GROUP = 8  # blocks, as many as those of the longer series that methods.md reports
OTHER = {  # what the other side has
    "reads": ("select-only", ""),
    "writes": ("simple-update", ""),
    "jit": ("select-only", '    postgres: {jit: "off"}'),
}
REAL = """\
version: 1
name: a configuration against itself, {kind}
baseline: first
design: alternating
workloads:
  - {{name: work, builtin: {builtin}, scale: 4}}
load: {{clients: 8, threads: auto, protocol: prepared}}
measure: {{run_time: 2s, machine_limits: off, max_other_load: ignore}}
stop: {{budget: 20m, blocks: {blocks}, early: no}}
seed: {seed}
configurations:
  first:
    target: {{kind: local, server: embedded}}
    postgres: {{shared_buffers: 256MB, max_wal_size: 4GB, huge_pages: "off"}}
  other:
    extends: first
{other}
"""


def published_claims(effect: float, campaigns: int) -> tuple[float, float]:
    """Return the share of campaigns that claim a difference per cell, and in any of five cells.

    One run per load and configuration, configurations one after the other, naive 95 % t interval
    over one-second samples.
    """
    simulator = Simulator(PROFILE, log_effects([0.0, effect]), seed=1, lanes=campaigns)
    series = published(simulator, BUDGET_S)
    claims = []
    for cell in range(len(simulator.clients)):
        baseline, changed = (np.log(series[configuration][cell]) for configuration in (0, 1))
        _, low, high = welch(baseline, changed)
        claims.append((low > 0) | (high < 0))
    return float(np.mean(claims)), float(np.mean(np.any(claims, axis=0)))


def steelyard_claims(effect: float, campaigns: int) -> tuple[float, float]:
    """Return the share of campaigns that decide faster or slower, and their median minutes."""
    outcomes = [
        adapter.compare(
            Simulator(PROFILE, log_effects([0.0, effect]), seed=20_000 + number), BUDGET_S
        )
        for number in range(campaigns)
    ]
    decided = [outcome["verdict"] in ("faster", "slower") for outcome in outcomes]
    minutes = float(np.median([outcome["seconds"] for outcome in outcomes])) / 60
    return float(np.mean(decided)), minutes


def real(kind: str, seed: int, blocks: int) -> dict[str, object]:
    """Return what a campaign on this machine gave: ln of the ratio in each block, and its seconds.

    Raises:
        SystemExit: It failed.
    """
    builtin, other = OTHER[kind]
    with tempfile.TemporaryDirectory(prefix="false-alarms-") as place:
        file, record = Path(place) / "experiment.yaml", Path(place) / "record"
        text = REAL.format(kind=kind, builtin=builtin, blocks=blocks, seed=seed, other=other)
        file.write_text(text)
        argv = [sys.executable, "-m", "steelyard", "run", str(file), "--dir", str(record)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode != ExitCode.DONE:
            sys.exit(f"the campaign failed ({done.returncode}): {done.stderr[-2000:]}")
        campaign = read_campaign(record)
        contrasts = observe(campaign).contrasts("first", "other")[:, 0]
    return {
        "kind": kind,
        "seed": seed,
        "seconds": round(campaign.elapsed_s),
        "contrasts": [round(float(each), 6) for each in contrasts],
    }


def tell(kept: Path) -> int:
    """Print what the campaigns of each kind say together; return the exit code."""
    lines = [json.loads(line) for line in kept.read_text().splitlines()]
    equal = True
    for kind in dict.fromkeys(line["kind"] for line in lines):
        series = [np.array(line["contrasts"]) for line in lines if line["kind"] == kind]
        values = np.concatenate(series)
        mean, sd = float(values.mean()), float(values.std(ddof=1))
        error = sd / np.sqrt(len(values))
        starts = range(0, len(values) - GROUP + 1, GROUP)
        groups = [block_interval(values[at : at + GROUP], FIXED_ALPHA) for at in starts]
        called = sum(not group.low <= 0.0 <= group.high for group in groups)
        looking = at_its_end([values[:, None]], *terms_of(len(values)))[0]
        print(
            f"{kind}: {len(values)} blocks in {len(series)} campaigns, mean {mean:+.2%} (standard"
            f" error {error:.2%}), sd of a block {sd:.1%}; {called} of {len(groups)} groups of"
            f" {GROUP} called different; with looks after each block: {looking.verdict} after"
            f" {looking.blocks}"
        )
        equal = equal and abs(mean) <= 2.0 * error
    return ExitCode.DONE if equal else ExitCode.GATE


def main() -> int:
    """Print the table, or measure and tell; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--campaigns", type=int, help="400 simulated ones, or 1 real one")
    parser.add_argument("--real", choices=OTHER, help="measure on this machine")
    parser.add_argument("--blocks", type=int, default=60, help="of a real campaign")
    parser.add_argument("--first", type=int, default=0, help="number of the first real campaign")
    parser.add_argument("--keep", type=Path, default=Path("false-alarms.jsonl"))
    parser.add_argument("--read", type=Path, help="tell what is kept there, and run nothing")
    options = parser.parse_args()
    if options.real is not None:
        for number in range(options.first, options.first + (options.campaigns or 1)):
            seed = SEED + 100 * list(OTHER).index(options.real) + number
            line = json.dumps(real(options.real, seed, options.blocks))
            print(line, flush=True)
            with options.keep.open("a") as file:
                file.write(line + "\n")
        return tell(options.keep)
    if options.read is not None:
        return tell(options.read)
    simulated(options.campaigns or 400)
    return ExitCode.DONE


def simulated(campaigns: int) -> None:
    """Print the table."""
    per_cell, any_cell = published_claims(0.0, 10 * campaigns)
    false_alarms, _ = steelyard_claims(0.0, campaigns)
    found, minutes = steelyard_claims(0.03, campaigns)
    found_published, _ = published_claims(0.03, 10 * campaigns)
    print(f"simulated machine: {PROFILE}; budget {BUDGET_S / 60:.0f} min; five loads")
    print(f"campaigns: {campaigns} (Steelyard), {10 * campaigns} (one long run per cell)")
    print()
    print("                                 one long run per cell   Steelyard")
    print(f"equal systems called different   {per_cell:>12.0%} per cell   {false_alarms:>9.1%}")
    print(f"  in at least one of five cells  {any_cell:>12.0%}            one result")
    print(f"a real +3 % called different     {found_published:>12.0%} (not power)  {found:.0%}")
    print(f"median minutes to that verdict             60            {minutes:.0f}")
    print(f"ratio of false alarms            {per_cell / max(false_alarms, 1 / campaigns):>12.1f}")


if __name__ == "__main__":
    sys.exit(main())
