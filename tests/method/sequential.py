"""Whole campaigns of the product on many simulated machines at once; no logic of its own.

Every lane of the simulator is a campaign with a schedule of its own from the product. The lanes
run in lock-step, so that hundreds of campaigns take seconds.
"""

from dataclasses import dataclass

import adapter
import numpy as np

from steelyard.answers.result import compute as comparisons
from steelyard.answers.result import compute as decision
from steelyard.stats import spending
from steelyard.campaign.design.schedule import make_schedule
from steelyard.core.experiment import Stop
from steelyard.core.schedule import Load
from steelyard.core.schedule import CellKey
from steelyard.core.schedule import Mode
from steelyard.core.findings import Verdict

CHANGED = (Verdict.FASTER, Verdict.SLOWER)


@dataclass(frozen=True, kw_only=True)
class Outcomes:
    """How the campaigns ended, an entry per campaign (and cell).

    Attributes:
        called: Whether the result is called faster or slower.
        cells_called: The same of every cell at the campaign's end, shape (campaigns, cells).
        covered: Whether the result's interval holds the true effect.
        cells_covered: Likewise, shape (campaigns, cells).
        seconds: Until the campaign ended.
    """

    called: np.ndarray
    cells_called: np.ndarray
    covered: np.ndarray
    cells_covered: np.ndarray
    seconds: np.ndarray


def cells_of(sim):
    """Return the simulator's client counts as cells."""
    return [CellKey(workload="all", load=Load(clients=int(c), threads=1)) for c in sim.clients]


def block_seconds(sim, mode):
    """Return the seconds of one block."""
    runs = 2 * len(sim.clients) * (adapter.SLICE_S + adapter.RAMP_S)
    if mode is Mode.BACK_TO_BACK:
        return runs
    return runs + 2 * (sim.p.restart_s + adapter.WARM_UP_S)


def contrasts_of(sim, mode, budget_s, seed):
    """Return log ratios of scheduled blocks, shape (campaigns, blocks, cells), and block times."""
    cells, block_s = cells_of(sim), block_seconds(sim, mode)
    before_s = sim.p.restart_s + adapter.WARM_UP_S if mode is Mode.BACK_TO_BACK else 0.0
    blocks = spending.blocks_within(budget_s - before_s, block_s)
    schedules = [
        make_schedule(
            configurations=adapter.CONFIGURATIONS,
            cells=cells,
            seed=seed + lane,
            mode=mode,
            blocks=blocks,
        )
        for lane in range(sim.R)
    ]
    if before_s:
        warm_up(sim)
    y = np.empty((sim.R, blocks, 2, len(cells)))
    for index in range(blocks):
        take(sim, [schedule.blocks[index] for schedule in schedules], cells, y[:, index])
    return y[:, :, 1] - y[:, :, 0], before_s, block_s


def warm_up(sim):
    """Restart and throw the warm-up away."""
    sim.restart()
    sim.idle(adapter.WARM_UP_S)


def take(sim, planned, cells, y):
    """Run one block of every campaign as scheduled, into shape (campaigns, configurations, cells)."""
    lanes = np.arange(sim.R)
    for starts in zip(*(block.starts for block in planned), strict=True):
        if len(planned[0].starts) > 1:
            warm_up(sim)
        for runs in zip(*(start.runs for start in starts), strict=True):
            configuration = np.array(
                [adapter.CONFIGURATIONS.index(run.configuration) for run in runs]
            )
            cell = np.array([cells.index(run.cell) for run in runs])
            series = sim.run(configuration, cell, adapter.SLICE_S + adapter.RAMP_S)
            mean = series[:, adapter.RAMP_S :].mean(axis=1)
            y[lanes, configuration, cell] = np.log(np.maximum(mean, 1.0))


def campaigns(sim, mode, budget_s, *, seed, effect):
    """Return how campaigns end that stop as the product's do."""
    contrasts, before_s, block_s = contrasts_of(sim, mode, budget_s, seed)
    rule = spending.stopping_rule(
        results=1,
        cells_per_result=contrasts.shape[2],
        max_blocks=contrasts.shape[1],
        precision=None,
    )
    stop = Stop(budget_s=budget_s)
    terms = comparisons.Terms(
        rule=rule, margin=stop.equivalence, decide=stop.decide, block_s=block_s
    )
    loads = [cell.load for cell in cells_of(sim)]
    ended = [_campaign(each, rule, terms, loads) for each in contrasts]
    return Outcomes(
        called=np.array([found[0].verdict in CHANGED for found in ended]),
        cells_called=np.array([[c.verdict in CHANGED for c in found[1:]] for found in ended]),
        covered=np.array([_holds(found[0].effect, effect) for found in ended]),
        cells_covered=np.array([[_holds(c.effect, effect) for c in found[1:]] for found in ended]),
        seconds=np.array([before_s + found[0].blocks * block_s for found in ended]),
    )


def _campaign(contrasts, rule, terms, loads):
    """Return the result and the cells of one campaign at its end."""
    for blocks in range(rule.first_look, rule.max_blocks + 1):
        result = comparisons.compare_result(contrasts[:blocks], adapter.PAIR, terms)
        if decision.decide((result,), rule):
            break
    return comparisons.compare(contrasts[:blocks], adapter.PAIR, loads, terms)


def _holds(estimate, effect):
    low = -np.inf if estimate.low is None else estimate.low
    high = np.inf if estimate.high is None else estimate.high
    return low <= effect <= high
