"""How many newly made instances, and minutes, a 5 and a 10 % effect need.

Instances of one kind differ, and making one takes time. For each pair of the two, Steelyard's own
number of runs per instance, schedule, intervals and stopping rule meet the simulated machine of
``tests/method`` (profile "typical", one load); every figure is a count over seeded campaigns and
repeats exactly. The table is in docs/methods.md.
"""

import argparse
import math
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "method"))

from adapter import RAMP_S, SLICE_S
from provisioned import MadeInstances, OnePair, called_different
from sequential import Outcomes, block_seconds, contrasts_of, judged
from simulator import log_effects

from steelyard.core.campaign import ASSUMED_NOISE
from steelyard.stats.noise import instances_needed, optimal_runs

INSTANCE_SDS = (0.01, 0.02, 0.04)
PROVISION_S = (30.0, 120.0, 600.0)
EFFECTS = (0.05, 0.10)
CLIENTS = (25,)
MOST_BLOCKS = 60
POWER = 0.90


def run_sd() -> float:
    """Return the noise of one slice in the profile, its seconds with their autocorrelation."""
    part = ASSUMED_NOISE.workloads[0]
    stretch = (1 + part.autocorrelation) / (1 - part.autocorrelation)
    return math.sqrt(part.slice_sd**2 + part.second_sd**2 * stretch / SLICE_S)


def simulated(instance_sd: float, provision_s: float, campaigns: int) -> tuple[MadeInstances, int]:
    """Return a machine whose instances differ, and how many runs each is worth."""
    simulator = MadeInstances(
        "typical",
        log_effects([0.0, 0.0], len(CLIENTS)),
        seed=1,
        lanes=campaigns,
        clients=CLIENTS,
        instance_sd=instance_sd,
        provision_s=provision_s,
    )
    runs = optimal_runs(
        instance_cost=simulator.start_s,
        run_cost=SLICE_S + RAMP_S,
        instance_sd=instance_sd,
        run_sd=run_sd(),
    )
    return simulator, runs


def least_instances(contrasts: np.ndarray, effect: float) -> tuple[int, Outcomes] | None:
    """Return how many instances per side find the effect in nine of ten campaigns; None: too many.

    A campaign that may take more of them is surer, so the least number is found by halving.
    """
    low, high, best = 6, MOST_BLOCKS, None
    while low <= high:
        middle = (low + high) // 2
        outcomes = judged(contrasts + math.log1p(effect), effect, max_blocks=middle)
        if outcomes.share("faster") >= POWER:
            best, high = (middle, outcomes), middle - 1
        else:
            low = middle + 1
    return best


def pair_of_instances(campaigns: int) -> tuple[float, float]:
    """Return how often two equal servers, one per side and never remade, are called different.

    At the end of an hour, and with looks on the way, where some end as equivalent before.
    """
    simulator = OnePair(
        "typical", log_effects([0.0, 0.0]), seed=1, lanes=campaigns, instance_sd=0.014
    )
    contrasts = contrasts_of(simulator, blocks=int(3600 // block_seconds(simulator)), seed=0)
    return called_different(contrasts), float(judged(contrasts, 0.0).called.mean())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--campaigns", type=int, default=400)
    campaigns = parser.parse_args().campaigns
    at_the_end, looked = pair_of_instances(campaigns)
    print(f"{campaigns} campaigns per row; profile typical, one load, slices of {SLICE_S} s")
    pair = "one instance per side, never remade, sd 1.4 %, 60 min, five loads"
    print(f"{pair}: called different {at_the_end:.0%}; with looks {looked:.0%}")
    print()
    print("sd     made in  runs  effect  per side  formula  minutes  median: per side  minutes")
    for instance_sd in INSTANCE_SDS:
        for provision_s in PROVISION_S:
            simulator, runs = simulated(instance_sd, provision_s, campaigns)
            contrasts = contrasts_of(simulator, blocks=MOST_BLOCKS, rounds=runs, seed=0)
            minutes = block_seconds(simulator, rounds=runs) / 60
            for effect in EFFECTS:
                formula = instances_needed(
                    effect,
                    instance_sd=math.hypot(instance_sd, simulator.p.sd_restart),
                    run_sd=run_sd(),
                    runs=runs,
                )
                start = f"{instance_sd:.0%}  {provision_s:6.0f} s  {runs:4d}  {effect:6.0%}"
                found = least_instances(contrasts, effect)
                if found is None:
                    print(f"{start}  more than {MOST_BLOCKS}", flush=True)
                    continue
                needed, outcomes = found
                median = float(np.median(outcomes.blocks))
                print(
                    f"{start}  {needed:8d}  {formula:7d}  {needed * minutes:7.0f}"
                    f"  {median:16.0f}  {median * minutes:7.0f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
