"""How often two equal systems are called different, and how soon a real 3 % is found.

Steelyard's own schedule, intervals and stopping rule beside what people do today with the same
minutes: one long run per load and configuration, judged by a t interval over its seconds. Both meet
the simulated machine of ``tests/method`` (profile "typical": 2 % between runs, drift, neighbours,
stalls), so every figure is a count over seeded campaigns and repeats exactly.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "method"))

import adapter
from designs import published
from methods import welch
from simulator import Simulator, log_effects

BUDGET_S = 3600.0
PROFILE = "typical"


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


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--campaigns", type=int, default=400)
    campaigns = parser.parse_args().campaigns
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
    main()
