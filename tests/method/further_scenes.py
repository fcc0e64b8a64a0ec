"""More scenes for the pictures of docs/methods.md: what is done with factors, loads and minutes."""

import numpy as np
from designs import RAMP, pairs, slog
from provisioned import OnePair
from scenes import HOUR_S, percent
from sequential import contrasts_of
from simulator import Simulator, log_effects, true_rate
from test_planning import foretold

from steelyard.campaign.design.schedule import block_coin
from steelyard.core.schedule import Mode
from steelyard.core.schedule import TurnTimes
from steelyard.stats.capacity import scan_for_cliff
from steelyard.stats.factorial import added_alone
from steelyard.stats.factorial import factorial_design
from steelyard.stats.factorial import main_effect
from steelyard.stats.factorial import removed_last
from steelyard.stats.factorial import synergy
from steelyard.stats.intervals import block_interval
from steelyard.stats.factorial import pooled_contrasts
from steelyard.stats.planning import contrast_scale
from steelyard.stats.planning import half_width

LEVEL = 0.045


def turns(rounds=6, seed=11):
    """Return when each of two servers runs in the first rounds of a cell, and what counts of it."""
    times, coin, clock, rows = TurnTimes(), block_coin(seed, 0, 0, 0, 1), 0.0, []
    for _ in range(rounds):
        for side in coin.permutation(2):
            settled = clock + times.turn_discard_s
            ended = clock + times.turn_s
            server = f"server {'AB'[side]}"
            rows.append({"server": server, "begin": clock, "end": settled, "part": "settles"})
            rows.append({"server": server, "begin": settled, "end": ended, "part": "counts"})
            clock = ended
    return [{**row, "begin": round(row["begin"], 3), "end": round(row["end"], 3)} for row in rows]


def attribution():
    """Return what a 2^3 factorial of 15 blocks says of a known truth, effect by effect."""
    combinations = factorial_design(3).combinations
    truth = np.array([0.10 * a + 0.02 * c + 0.04 * a * c for a, _, c in combinations])
    machine = Simulator("typical", np.repeat(truth[:, None], 5, 1), seed=4)
    y = np.empty((15, len(combinations), 5))
    for block in y:
        order = machine.rng.permutation(5)
        for side in machine.rng.permutation(len(combinations)):
            machine.restart()
            machine.idle(20)
            for cell in order:
                block[side, cell] = slog(machine.run(side, cell, 5 + RAMP), RAMP)[0]
    effects = {
        **{f"main effect of {n + 1}": main_effect(combinations, n) for n in range(3)},
        "synergy of 1 and 3": synergy(combinations, 0, 2),
        "3 added alone": added_alone(combinations, 2),
        "3 removed last": removed_last(combinations, 2),
    }
    rows = []
    for name, weights in effects.items():
        contrasts = np.tensordot(y, weights, axes=(1, 0))
        found = block_interval(pooled_contrasts(contrasts), LEVEL)
        rows.append(
            {
                "name": name,
                "effect": percent(found.estimate),
                "low": percent(found.low),
                "high": percent(found.high),
                "truth": percent(float(weights @ truth)),
            }
        )
    return rows


def burst_cliff():
    """Return 15 minutes of a bucket that empties, and where the scan sees it."""
    base = float(true_rate(25))
    machine = Simulator("typical", np.zeros((1, 5)), seed=3, bucket=(0.4 * base * 300, 0.6 * base))
    series = machine.run(0, 2, 900)[0]
    scan = scan_for_cliff(series)
    rows = [
        {"second": second, "tps": round(float(series[second : second + 3].mean()))}
        for second in range(0, 900, 3)
    ]
    return rows, {"low": scan.at_low_s, "high": scan.at_high_s}


def noise_floor():
    """Return the half-width to expect over the minutes, from 12 blocks of an A/A campaign each."""
    rows = []
    for profile in ("calm", "typical", "hostile"):
        machine = Simulator(profile, log_effects([0.0, 0.0]), seed=17)
        y, block_min = pairs(machine, HOUR_S, secs=5)
        scale = contrast_scale(pooled_contrasts((y[1] - y[0])[0])[:12]).estimate
        rows += [
            {
                "profile": profile,
                "minutes": minutes,
                "half": round(100 * half_width(scale, round(minutes / block_min), LEVEL), 3),
            }
            for minutes in (20, 30, 40, 60, 90, 120)
        ]
    return rows


def planning():
    """Return by when half and nine in ten of the campaigns call an effect, in minutes."""
    names = {Mode.STARTS: "with restarts", Mode.BACK_TO_BACK: "back to back"}
    rows = []
    for mode, name in names.items():
        for effect in (0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.07, 0.10):
            found = foretold("typical", mode, effect)
            for share, seconds in (("half", found.half_s), ("nine in ten", found.most_s)):
                if seconds is not None:
                    rows.append(
                        {
                            "mode": name,
                            "share": share,
                            "effect": round(100 * effect, 1),
                            "minutes": round(seconds / 60, 1),
                        }
                    )
    return rows


def two_servers():
    """Return the intervals of campaigns on two equal servers that stay, and on one restarted."""
    lanes, blocks = 30, 30
    pair = OnePair("typical", log_effects([0.0, 0.0]), seed=8, lanes=lanes, instance_sd=0.014)
    stay = contrasts_of(pair, blocks=blocks, seed=100)
    one = Simulator("typical", log_effects([0.0, 0.0]), seed=9, lanes=lanes)
    y, _ = pairs(one, HOUR_S, secs=5)
    rows = []
    for name, sample in (("two servers that stay", stay), ("one server, restarted", y[1] - y[0])):
        for number, contrasts in enumerate(sample, start=1):
            found = block_interval(pooled_contrasts(contrasts), LEVEL)
            wrong = found.low > 0 or found.high < 0
            rows.append(
                {
                    "what": name,
                    "campaign": number,
                    "low": percent(found.low),
                    "high": percent(found.high),
                    "claim": "called different" if wrong else "holds zero",
                }
            )
    return rows
