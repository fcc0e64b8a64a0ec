"""The product's statistics under the names that acceptance.py asks for; no logic of its own."""

import numpy as np

from steelyard.answers.result import compute as comparisons
from steelyard.answers.result import compute as decision
from steelyard.stats import spending
from steelyard.campaign.design.schedule import make_schedule
from steelyard.campaign.design.schedule import mode_for
from steelyard.core.experiment import Stop
from steelyard.core.experiment import SwitchCost
from steelyard.core.schedule import Load
from steelyard.core.measurement import Measurement
from steelyard.core.schedule import CellKey
from steelyard.stats.intervals import block_interval
from steelyard.stats.factorial import pooled_contrasts
from steelyard.stats.spending import look_levels
from steelyard.stats.spending import spending_power

SLICE_S, RAMP_S, WARM_UP_S = 5, 2, 20  # the defaults of METHOD 3.1
CONFIGURATIONS = ("baseline", "changed")
PAIR = comparisons.Pair(baseline="baseline", configuration="changed", workload="all")


def interval(d, alpha):
    """Return the estimate and bounds of block contrasts."""
    found = block_interval(np.asarray(d, float), alpha)
    return found.estimate, found.low, found.high


def pooled(d):
    """Return one contrast per block from those of its cells."""
    return pooled_contrasts(np.asarray(d, float))


def levels(looks, n_max, alpha):
    """Return the level of every look."""
    return look_levels(tuple(looks), n_max, alpha, spending_power(n_max))


def compare(sim, budget_s):
    """Run a campaign on the simulator: the product's order, rule, comparison and decision."""
    cells = [CellKey(workload="all", load=Load(clients=int(c), threads=1)) for c in sim.clients]
    block_s = 2 * (sim.p.restart_s + WARM_UP_S + len(cells) * (SLICE_S + RAMP_S))
    rule = spending.stopping_rule(
        results=1,
        first_look=spending.first_look_of(len(CONFIGURATIONS)),
        max_blocks=spending.blocks_within(budget_s, block_s),
        precision=None,
    )
    stop = Stop(budget_s=budget_s)
    terms = comparisons.Terms(rule=rule, margin=stop.margin, detect=stop.detect, block_s=block_s)
    schedule = make_schedule(
        configurations=CONFIGURATIONS,
        cells=cells,
        seed=int(sim.rng.integers(2**31)),
        mode=mode_for(SwitchCost.RESTART),
        blocks=rule.max_blocks,
    )
    contrasts = []
    for block in schedule.blocks:
        y = take(sim, block, cells)
        contrasts.append(y[1] - y[0])
        result = comparisons.compare_result(np.array(contrasts), PAIR, terms)
        if decision.decide((result,), rule):
            break
    return {
        "verdict": str(result.verdict),
        "effect": result.effect.value,
        "lo": result.effect.low,
        "hi": result.effect.high,
        "seconds": sim.clock,
        "blocks": result.blocks,
    }


def take(sim, block, cells):
    """Return log throughput, shape (configurations, cells), of one block as scheduled."""
    y = np.empty((len(CONFIGURATIONS), len(cells)))
    for start in block.starts:
        sim.restart()
        sim.idle(WARM_UP_S)
        for run in start.runs:
            configuration, cell = CONFIGURATIONS.index(run.configuration), cells.index(run.cell)
            series = sim.run(configuration, cell, SLICE_S + RAMP_S)[0, RAMP_S:]
            y[configuration, cell] = Measurement(
                transactions=float(series.sum()),
                seconds=float(SLICE_S),
                latency_mean_s=None,
                latency_stddev_s=None,
                failed=0,
                connection_s=None,
                series=(),
            ).log_tps
    return y
