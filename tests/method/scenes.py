"""What the pictures of docs/methods.md show: rows from the simulator and the product's own code.

Every function is seeded and returns plain rows; ``pictures.py`` draws them.
"""

import adapter
import numpy as np
from designs import blocked_repeats, pairs, published
from methods import welch
from simulator import Simulator, log_effects

from steelyard.answers.result.compute import Terms
from steelyard.answers.result.compute import compare_result
from steelyard.stats.spending import first_look_of
from steelyard.stats.spending import stopping_rule
from steelyard.campaign.design.schedule import make_schedule
from steelyard.core.schedule import Load
from steelyard.core.schedule import CellKey
from steelyard.core.schedule import Mode
from steelyard.stats.intervals import block_interval
from steelyard.stats.factorial import pooled_contrasts
from steelyard.stats.intervals import critical_value
from steelyard.stats.intervals import hodges_lehmann_centres
from steelyard.stats.intervals import verdict_of
from steelyard.stats.drift import settled_after_s

HOUR_S = 3600
CAMPAIGNS = 500  # enough to draw a share; the acceptance test measures it
MARGIN = 0.01
LONG_RUNS_SEED = 22  # intervals that exclude each other, as in more than half of all pairs


def percent(log_ratio):
    """Return a log ratio in percent, to the hundredth that a drawing can show."""
    return round(100 * float(np.expm1(log_ratio)), 2)


def long_runs(seed=LONG_RUNS_SEED):
    """Return the seconds of two long runs of one system, each with its naive interval."""
    machine = Simulator("typical", log_effects([0.0, 0.0]), seed=seed)
    machine.restart()
    machine.idle(30)
    rows = []
    for name in ("A", "A again"):
        series = machine.run(0, 2, 60)[0]
        mean, half = series.mean(), 1.96 * series.std(ddof=1) / np.sqrt(len(series))
        rows += [
            {
                "run": name,
                "second": int(second) + (0 if name == "A" else 70),
                "tps": float(tps),
                "mean": round(float(mean)),
                "low": round(float(mean - half)),
                "high": round(float(mean + half)),
            }
            for second, tps in enumerate(series)
        ]
    return rows


def block_order():
    """Return when each run of the first blocks takes place, with restarts between the starts."""
    cells = [
        CellKey(workload="w", load=Load(clients=clients, threads=1)) for clients in (1, 10, 50)
    ]
    schedule = make_schedule(
        configurations=("A", "B"), cells=cells, seed=5, mode=Mode.STARTS, blocks=4
    )
    rows, clock = [], 0
    for block in schedule.blocks:
        begun = clock
        for start in block.starts:
            settling = {"block": f"block {block.index + 1}", "configuration": start.configuration}
            rows.append({**settling, "begin": clock - begun, "end": clock - begun + 14, "load": ""})
            clock += 14
            for run in start.runs:
                told = {"begin": clock - begun, "end": clock - begun + 7}
                rows.append({**settling, **told, "load": f"{run.cell.load.clients}"})
                clock += 7
        clock = begun + 70
    return rows


def pooling():
    """Return each block's contrasts, their plain mean and their pooled value; true effect 3 %."""
    machine = Simulator("typical", log_effects([0.0, 0.03]), seed=21)
    y, _ = pairs(machine, 12 * 2 * 60, secs=5)
    contrasts = (y[1] - y[0])[0]
    pooled = pooled_contrasts(contrasts)
    rows = []
    for block, cells in enumerate(contrasts, start=1):
        rows += [{"block": block, "what": "one load", "effect": percent(v)} for v in cells]
        rows.append({"block": block, "what": "plain mean", "effect": percent(cells.mean())})
        rows.append({"block": block, "what": "pooled", "effect": percent(pooled[block - 1])})
    return rows


def walsh_averages():
    """Return the sorted averages of two blocks, and which of them bound the interval."""
    machine = Simulator("typical", log_effects([0.0, 0.03]), seed=22)
    y, _ = pairs(machine, 12 * 2 * 60, secs=5)
    sample = pooled_contrasts((y[1] - y[0])[0])[:12]
    first, second = np.triu_indices(len(sample))
    averages = np.sort((sample[first] + sample[second]) / 2)
    cut = critical_value(len(sample), 0.045)
    kept = range(cut, len(averages) - cut)
    rows = [
        {"rank": rank + 1, "effect": percent(v), "part": "within" if rank in kept else "cut off"}
        for rank, v in enumerate(averages)
    ]
    centre = percent(hodges_lehmann_centres(sample))
    return rows, centre


def looks():
    """Return the interval at every look of one campaign with a true effect of 3 %."""
    rule = stopping_rule(results=1, first_look=first_look_of(2), max_blocks=30, precision=None)
    terms = Terms(rule=rule, margin=MARGIN, detect=0.03, block_s=120)
    machine = Simulator("typical", log_effects([0.0, 0.03]), seed=33)
    y, _ = pairs(machine, HOUR_S, secs=5)
    contrasts = (y[1] - y[0])[0]
    rows = []
    for blocks in range(rule.first_look, rule.max_blocks + 1):
        found = compare_result(contrasts[:blocks], adapter.PAIR, terms)
        naive = block_interval(pooled_contrasts(contrasts[:blocks]), 0.05)
        rows.append(
            {
                "blocks": blocks,
                "effect": round(100 * found.effect.value, 2),
                "low": round(100 * found.effect.low, 2),
                "high": round(100 * found.effect.high, 2),
                "naive_low": percent(naive.low),
                "naive_high": percent(naive.high),
                "decided": "decided" if found.verdict.decided else "goes on",
            }
        )
    return rows


def any_false_claim():
    """Return the share of A/A campaigns with a false claim in any cell, by number of cells."""
    rng = np.random.default_rng(7)
    rows = []
    for cells in (1, 2, 5, 10, 20, 39):
        z = np.abs(rng.standard_normal((4000, cells))).max(axis=1)
        for name, level in (("each cell at 5 %", 0.05), ("5 % shared by all", 0.05 / cells)):
            claimed = float(np.mean(z > _two_sided(level)))
            rows.append({"cells": cells, "rule": name, "share": round(100 * claimed, 1)})
    return rows


def _two_sided(level):
    from scipy.special import ndtri  # noqa: PLC0415 - used here only

    return -float(ndtri(level / 2))


def verdict_examples():
    """Return intervals as a campaign prints them, with the word that the product gives them."""
    examples = ((1.6, 4.4), (0.2, 0.8), (-3.9, -1.2), (-0.6, 0.7), (-1.1, 2.4))
    return [
        {
            "low": low,
            "high": high,
            "effect": round((low + high) / 2, 2),
            "word": str(verdict_of(low / 100, high / 100, MARGIN)),
        }
        for low, high in examples
    ]


def warm_up():
    """Return throughput after restarts of two configurations, one twice as slow to warm up."""
    machine = Simulator("typical", np.zeros((2, 5)), seed=502, warm_scale=[1, 2])
    rows, settled = [], []
    for configuration, name in enumerate(("A", "B, twice as slow")):
        runs = []
        for _ in range(5):
            machine.restart()
            runs.append(np.log(machine.run(configuration, 2, 90)[0]))
        mean = np.mean(runs, axis=0)
        settled.append(settled_after_s(np.array(runs)))
        level = mean[45:].mean()
        rows += [
            {
                "configuration": name,
                "second": second,
                "share": round(100 * float(np.exp(v - level)), 2),
            }
            for second, v in enumerate(mean)
        ]
    return rows, float(max(20, *settled))


def false_alarms():
    """Return the share of equal systems called different in an hour, by design, five loads pooled."""
    lanes = [
        Simulator("typical", log_effects([0.0, 0.0]), seed=seed, lanes=CAMPAIGNS)
        for seed in (1, 2, 3)
    ]
    series = published(lanes[0], HOUR_S)
    seconds = [
        np.mean([np.log(series[side][cell]) for cell in range(5)], axis=0) for side in (0, 1)
    ]
    repeats = blocked_repeats(lanes[1], HOUR_S).mean(axis=3)
    y, _ = pairs(lanes[2], HOUR_S, secs=5)
    ours = [block_interval(pooled_contrasts(d), 0.045) for d in y[1] - y[0]]
    different = {
        "one long run each, t over its seconds": _excluding_zero(*welch(*seconds)[1:]),
        "all runs of A, then all of B, Welch": _excluding_zero(*welch(*repeats)[1:]),
        "Steelyard: blocks by coin": [each.low > 0 or each.high < 0 for each in ours],
    }
    return [
        {"design": name, "share": round(100 * float(np.mean(claims)), 1)}
        for name, claims in different.items()
    ]


def _excluding_zero(low, high):
    return (low > 0) | (high < 0)
