"""Whole campaigns of the product on many simulated machines at once; no logic of its own.

Every lane of the simulator is a campaign with a schedule of its own from the product. The lanes
run in lock-step, so that hundreds of campaigns take seconds.
"""

from dataclasses import dataclass

import adapter
import numpy as np

from steelyard.answers.observations import log_rate
from steelyard.answers.result import compute as comparisons
from steelyard.stats import spending
from steelyard.campaign.design.schedule import make_schedule
from steelyard.core.experiment import Stop
from steelyard.core.schedule import Load
from steelyard.core.schedule import CellKey
from steelyard.core.schedule import Mode
from steelyard.core.findings import Verdict

CHANGED = (Verdict.FASTER, Verdict.SLOWER)
RUN_S = adapter.SLICE_S + adapter.RAMP_S


@dataclass(frozen=True, kw_only=True)
class Outcomes:
    """How the campaigns ended, an entry per campaign (and cell).

    Attributes:
        verdicts: Of the result.
        called: Whether it is called faster or slower.
        cells_called: The same of every cell at the campaign's end, shape (campaigns, cells).
        covered: Whether the result's interval holds the true effect.
        cells_covered: Likewise, shape (campaigns, cells).
        blocks: Up to the end.
    """

    verdicts: np.ndarray
    called: np.ndarray
    cells_called: np.ndarray
    covered: np.ndarray
    cells_covered: np.ndarray
    blocks: np.ndarray

    def share(self, *verdicts):
        """Return the share of campaigns with one of these verdicts."""
        return float(np.isin(self.verdicts, verdicts).mean())


def start_seconds(sim):
    """Return the seconds of a start before its first run."""
    return getattr(sim, "start_s", sim.p.restart_s + adapter.WARM_UP_S)


def block_seconds(sim, mode=Mode.STARTS, rounds=1):
    """Return the seconds of one block."""
    starts_s = 0.0 if mode is Mode.BACK_TO_BACK else 2 * start_seconds(sim)
    return starts_s + 2 * rounds * len(sim.clients) * RUN_S


def contrasts_of(sim, *, blocks, seed, mode=Mode.STARTS, rounds=1):
    """Return log ratios of scheduled blocks, shape (campaigns, blocks, cells)."""
    cells = [CellKey(workload="all", load=Load(clients=int(c), threads=1)) for c in sim.clients]
    column = {cell: place for place, cell in enumerate(cells)}
    schedules = [
        make_schedule(
            configurations=adapter.CONFIGURATIONS,
            cells=cells,
            seed=seed + lane,
            mode=mode,
            blocks=blocks,
            rounds=rounds,
        )
        for lane in range(sim.R)
    ]
    y, lanes = np.empty((sim.R, blocks, len(cells))), np.arange(sim.R)
    if mode is Mode.BACK_TO_BACK:
        _enter(sim)
    for number in range(blocks):
        transactions = np.zeros((2, sim.R, len(cells), rounds))
        planned = [schedule.blocks[number].starts for schedule in schedules]
        for starts in zip(*planned, strict=True):
            if mode is not Mode.BACK_TO_BACK:
                _enter(sim)
            for place, runs in enumerate(zip(*(start.runs for start in starts), strict=True)):
                side = np.array([adapter.CONFIGURATIONS.index(run.configuration) for run in runs])
                at = np.array([column[run.cell] for run in runs])
                series = sim.run(side, at, RUN_S)[:, adapter.RAMP_S :]
                round_ = min(place // len(cells), rounds - 1)
                transactions[side, lanes, at, round_] = series.sum(axis=1)
        rates = log_rate(transactions, np.full_like(transactions, adapter.SLICE_S))
        y[:, number] = rates[1] - rates[0]
    return y


def _enter(sim):
    """Bring a server up and throw the warm-up away."""
    if hasattr(sim, "enter"):
        sim.enter()
    else:
        sim.restart()
        sim.idle(adapter.WARM_UP_S)


def terms_of(max_blocks, *, results=1, configurations=None, block_s=60.0):
    """Return the stopping rule of a campaign and on what terms it compares.

    Each result has a configuration of its own unless the number of them is told.
    """
    rule = spending.stopping_rule(
        results=results,
        first_look=spending.first_look_of(configurations or results + 1),
        max_blocks=max_blocks,
        precision=None,
    )
    stop = Stop()
    return rule, comparisons.Terms(
        rule=rule, margin=stop.margin, detect=stop.detect, block_s=block_s
    )


def at_its_end(contrasts, rule, terms):
    """Return the results of a campaign that looks after every block until all are decided.

    Args:
        contrasts: Of each contender, shape (blocks, cells).
        rule: When it looks.
        terms: On what terms it compares.
    """
    for blocks in range(rule.first_look, min(rule.max_blocks, len(contrasts[0])) + 1):
        results = [comparisons.compare_result(d[:blocks], adapter.PAIR, terms) for d in contrasts]
        if comparisons.decide(results, rule):
            break
    return results


def judged(contrasts, effect, *, max_blocks=None, block_s=60.0):
    """Return how campaigns end that stop as the product's do.

    Args:
        contrasts: Of campaigns, shape (campaigns, blocks, cells).
        effect: The relative one that is in them.
        max_blocks: At which the budget ends; all unless told.
        block_s: How long a block takes.
    """
    _, blocks, cells = contrasts.shape
    rule, terms = terms_of(max_blocks or blocks, block_s=block_s)
    loads = [Load(clients=number + 1, threads=1) for number in range(cells)]
    ended = []
    for each in contrasts:
        (result,) = at_its_end([each], rule, terms)
        ended.append(comparisons.compare(each[: result.blocks], adapter.PAIR, loads, terms))
    return Outcomes(
        verdicts=np.array([str(found[0].verdict) for found in ended]),
        called=np.array([found[0].verdict in CHANGED for found in ended]),
        cells_called=np.array([[c.verdict in CHANGED for c in found[1:]] for found in ended]),
        covered=np.array([holds(found[0].effect, effect) for found in ended]),
        cells_covered=np.array([[holds(c.effect, effect) for c in found[1:]] for found in ended]),
        blocks=np.array([found[0].blocks for found in ended]),
    )


def campaigns(sim, mode, budget_s, *, seed, effect):
    """Return how campaigns of a budget end, and after how many seconds each."""
    block_s = block_seconds(sim, mode)
    before_s = start_seconds(sim) if mode is Mode.BACK_TO_BACK else 0.0
    blocks = spending.blocks_within(budget_s - before_s, block_s)
    contrasts = contrasts_of(sim, blocks=blocks, seed=seed, mode=mode)
    found = judged(contrasts, effect, block_s=block_s)
    return found, before_s + found.blocks * block_s


def holds(estimate, effect):
    """Return whether an interval holds an effect; without ends it holds any."""
    low = -np.inf if estimate.low is None else estimate.low
    high = np.inf if estimate.high is None else estimate.high
    return low <= effect <= high
