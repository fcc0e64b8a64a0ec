"""The simulator's servers as instances: made anew for each start, or one pair that stays.

The order, the estimate, the looks and the decision are the product's own; only the noise is made
here. Campaigns run in lanes, each with a schedule of its own.
"""

from dataclasses import dataclass

import numpy as np
from adapter import WARM_UP_S, PAIR, RAMP_S, SLICE_S, CONFIGURATIONS
from simulator import Simulator

from steelyard.answers.result import compute as comparisons
from steelyard.answers.result import compute as decision
from steelyard.stats import spending
from steelyard.answers.observations import log_rate
from steelyard.campaign.design.schedule import make_schedule
from steelyard.campaign.design.schedule import mode_for
from steelyard.core.experiment import Stop
from steelyard.core.experiment import SwitchCost
from steelyard.core.schedule import Load
from steelyard.core.schedule import CellKey
from steelyard.stats.intervals import block_interval
from steelyard.stats.factorial import pooled_contrasts


class MadeInstances(Simulator):
    """Every start provisions its server: that takes a while, and no two are quite alike.

    Args:
        instance_sd: Between instances, of ln(tps), beside the profile's own effect of a restart.
        provision_s: Nothing is measured meanwhile.
    """

    def __init__(self, *args, instance_sd, provision_s, **more):
        self.instance_eff = 0.0
        self.instance_sd, self.provision_s = instance_sd, provision_s
        super().__init__(*args, **more)

    def _new_incarnation(self):
        super()._new_incarnation()
        self.restart_eff = self.restart_eff + self.instance_eff

    def enter(self):
        """Make a server and throw the warm-up away."""
        self.idle(self.provision_s)
        self.instance_eff = self.instance_sd * self.rng.standard_normal(self.R)
        self._new_incarnation()
        self.idle(WARM_UP_S)

    @property
    def start_s(self):
        """Return the seconds of a start before its first run."""
        return self.provision_s + WARM_UP_S


class OnePair(Simulator):
    """Two servers, one per configuration, that are never restarted, swapped or made anew."""

    def __init__(self, *args, instance_sd, **more):
        super().__init__(*args, **more)
        self.pair = instance_sd * self.rng.standard_normal((2, self.R))

    def run(self, configuration=0, cell=0, seconds=10):
        sides = np.broadcast_to(np.asarray(configuration), (self.R,))
        self.restart_eff = self.pair[sides, np.arange(self.R)]
        return super().run(configuration, cell, seconds)

    def enter(self):
        """Nothing: the server is there."""

    start_s = 0.0


def block_s(sim, rounds):
    """Return the seconds of one block."""
    return 2 * (sim.start_s + rounds * len(sim.clients) * (SLICE_S + RAMP_S))


def take_contrasts(sim, *, blocks, rounds, seed):
    """Return the log ratios, shape (lanes, blocks, cells), as the product schedules the runs."""
    cells = [CellKey(workload="all", load=Load(clients=int(c), threads=1)) for c in sim.clients]
    schedules = [
        make_schedule(
            configurations=CONFIGURATIONS,
            cells=cells,
            seed=seed + lane,
            mode=mode_for(SwitchCost.REPROVISION),
            blocks=blocks,
            rounds=rounds,
        )
        for lane in range(sim.R)
    ]
    column = {cell: place for place, cell in enumerate(cells)}
    lanes = np.arange(sim.R)
    taken = np.empty((sim.R, blocks, len(cells)))
    for number in range(blocks):
        transactions = np.zeros((2, sim.R, len(cells), rounds))
        for start in range(len(CONFIGURATIONS)):
            sim.enter()
            planned = [schedule.blocks[number].starts[start] for schedule in schedules]
            side = np.array([CONFIGURATIONS.index(each.configuration) for each in planned])
            for place in range(rounds * len(cells)):
                at = np.array([column[each.runs[place].cell] for each in planned])
                series = sim.run(side, at, SLICE_S + RAMP_S)[:, RAMP_S:]
                transactions[side, lanes, at, place // len(cells)] = series.sum(axis=1)
        y = log_rate(transactions, np.full_like(transactions, SLICE_S))
        taken[:, number] = y[1] - y[0]
    return taken


@dataclass(frozen=True)
class Outcome:
    """How one campaign ended: its verdict, its blocks, and whether the interval holds the truth."""

    verdict: str
    blocks: int
    covers: bool


def judge(contrasts, effect, max_blocks):
    """Return how each campaign ends, with a true effect added to its contrasts."""
    rule = spending.stopping_rule(
        results=1,
        cells_per_result=contrasts.shape[2],
        max_blocks=max_blocks,
        precision=None,
    )
    stop = Stop()
    terms = comparisons.Terms(rule=rule, margin=stop.equivalence, decide=stop.decide, block_s=60.0)
    shifted = contrasts[:, :max_blocks] + np.log1p(effect)
    return [_judged(campaign, effect, rule, terms) for campaign in shifted]


def _judged(campaign, effect, rule, terms):
    for blocks in range(rule.first_look, rule.max_blocks + 1):
        result = comparisons.compare_result(campaign[:blocks], PAIR, terms)
        if decision.decide((result,), rule):
            break
    found = result.effect
    # No interval is one without ends: signed ranks cannot reach every level.
    covers = (found.low is None or found.low <= effect) and (
        found.high is None or effect <= found.high
    )
    return Outcome(verdict=str(result.verdict), blocks=blocks, covers=covers)


def called_different(contrasts):
    """Return the share of campaigns whose interval at a fixed number of blocks leaves out 0."""
    found = [
        block_interval(pooled_contrasts(campaign), spending.FIXED_ALPHA) for campaign in contrasts
    ]
    return float(np.mean([interval.low > 0 or interval.high < 0 for interval in found]))


def share(outcomes, *verdicts):
    """Return how many campaigns end with one of these verdicts, as a share."""
    return float(np.mean([outcome.verdict in verdicts for outcome in outcomes]))


def coverage(outcomes):
    """Return how many intervals hold the truth, as a share."""
    return float(np.mean([outcome.covers for outcome in outcomes]))
