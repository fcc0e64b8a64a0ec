"""Campaigns between equal configurations beside a neighbour that comes and goes, and slows what it meets.

Which runs are invalid, how often a block is tried, and the interval are the product's own; the
machine, its neighbour and the clock are made here.
"""

from dataclasses import dataclass, field

import adapter
import numpy as np

from steelyard.answers.result import compute as comparisons
from steelyard.campaign.run.blocks import bears_neighbours
from steelyard.campaign.run.blocks import pause_before_s
from steelyard.campaign.evidence.run_rules import RunFacts
from steelyard.campaign.evidence.run_rules import judge
from steelyard.campaign.evidence.run_rules import validity_of
from steelyard.core.campaign import BlockOutcome
from steelyard.core.measurement import Evidence
from steelyard.core.measurement import Quantity
from steelyard.core.findings import Validity
from steelyard.core.findings import Verdict
from steelyard.core.measurement import Measurement
from steelyard.core.findings import NEIGHBOUR_CPU
from steelyard.stats import spending
from steelyard.stats.intervals import block_interval

CPUS, RUN_S, START_S = 2, 5.0, 25.0  # a restart and the warm-up come before each run
BLOCK_S = 2 * (START_S + RUN_S)
LEVEL = 0.045  # METHOD 3.3, fixed number of blocks
NOISE, DRIFT = 0.04, 0.01  # ln(tps): of a run, and of a random walk from run to run
LEAST_BLOCKS = 10


@dataclass(kw_only=True)
class Machine:
    """A clock, and a neighbour that is on and off for exponential times."""

    rng: np.random.Generator
    on_s: float
    off_s: float
    clock_s: float = 0.0
    level: float = 0.0
    share: float = 0.0
    until_s: float = 0.0
    on: bool = field(default=False)

    def _turn(self):
        self.on = not self.on
        self.share = self.rng.uniform(0.1, 0.7) if self.on else 0.0
        self.until_s += self.rng.exponential(self.on_s if self.on else self.off_s)

    def pass_by(self, seconds):
        """Let time pass; return the neighbour's mean share of the machine in it."""
        end, used = self.clock_s + seconds, 0.0
        while self.clock_s < end:
            until = min(end, self.until_s)
            used += self.share * (until - self.clock_s)
            self.clock_s = until
            if until == self.until_s:
                self._turn()
        return used / seconds if seconds else 0.0

    def run(self):
        """Return ln(tps) of a run, and the share that the neighbour had."""
        self.pass_by(START_S)
        share = self.pass_by(RUN_S)
        self.level += DRIFT * self.rng.standard_normal()
        noise = NOISE * self.rng.standard_normal()
        return self.level + noise + np.log1p(-share), share


def is_disturbed(share, *, bearing):
    """Return what the product makes of a run beside a neighbour with that share."""
    evidence = Evidence(
        seconds=RUN_S,
        totals={Quantity.OTHERS_CPU_S: share * CPUS * RUN_S},
        levels={Quantity.CPUS: float(CPUS)},
        waits=None,
        series=(),
        others=(),
        absent=(),
    )
    taken = Measurement(
        transactions=1000.0,
        seconds=RUN_S,
        latency_mean_s=None,
        latency_stddev_s=None,
        failed=0,
        connection_s=None,
        series=(),
    )
    facts = RunFacts(measurement=taken, evidence=evidence, clock_jump_s=0.0)
    return validity_of(judge(facts, bearing=bearing)) is Validity.INVALID


def campaign(machine, *, budget_s, voids, bears=bears_neighbours):
    """Return one contrast per block, as many as the budget has room for, and all tries.

    What the product foresees of a block, it takes.

    Args:
        voids: Whether a disturbed run of an arm (0 or 1) throws its block away.
        bears: Whether the next try of a block counts also beside a neighbour.
    """
    contrasts, outcomes = [], []
    while machine.clock_s < budget_s:
        block, first = len(contrasts), int(machine.rng.integers(2))  # the coin; a redo keeps it
        contrast, tried = None, 0
        while contrast is None:
            machine.pass_by(pause_before_s(tried))
            bearing = bears(outcomes, block, block_s=BLOCK_S, budget_s=budget_s)
            begun_s = machine.clock_s
            contrast = attempt(machine, first, voids, bearing=bearing)
            outcomes.append(
                BlockOutcome(
                    index=block,
                    attempt=tried,
                    complete=contrast is not None,
                    cause="" if contrast is not None else NEIGHBOUR_CPU,
                    lasted_s=machine.clock_s - begun_s,
                )
            )
            tried += 1
        contrasts.append(contrast)
    return np.array(contrasts), outcomes


def attempt(machine, first, voids, *, bearing):
    """Return the contrast of one try, or None when a run threw it away."""
    log_tps = {}
    for arm in (first, 1 - first):
        log_tps[arm], share = machine.run()
        if voids(arm) and is_disturbed(share, bearing=bearing):
            return None
    return log_tps[1] - log_tps[0]


def called_different(campaigns, seed, *, on_s, off_s, budget_s=1800.0, **how):
    """Return the share of campaigns that call equal configurations different, and of time lost.

    The second is the mean share of their budgets that went into tries that were thrown away.
    """
    found, lost_s = 0, 0.0
    for number in range(campaigns):
        rng = np.random.default_rng([seed, number])
        machine = Machine(rng=rng, on_s=on_s, off_s=off_s)
        contrasts, outcomes = campaign(machine, budget_s=budget_s, **how)
        assert len(contrasts) >= LEAST_BLOCKS
        interval = block_interval(contrasts, LEVEL)
        found += not interval.low <= 0.0 <= interval.high
        lost_s += sum(outcome.lasted_s for outcome in outcomes if not outcome.complete)
    return found / campaigns, lost_s / (campaigns * budget_s)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How campaigns ended that look after every block and have a budget.

    Attributes:
        called: Share that call equal configurations different.
        by_time: Share that the budget ended before the planned number of blocks.
        narrower: Mean half-width of those at their end, over that of a look before the end.
    """

    called: float
    by_time: float
    narrower: float


def looked_at(campaigns, seed, *, on_s, off_s, budget_s=1800.0):
    """Return how campaigns end whose plan knows nothing of the neighbour that delays them."""
    planned = spending.blocks_within(budget_s, BLOCK_S)
    rule = spending.stopping_rule(results=1, cells_per_result=1, max_blocks=planned, precision=None)
    called, by_time, ratios = 0, 0, []
    for number in range(campaigns):
        machine = Machine(rng=np.random.default_rng([seed, number]), on_s=on_s, off_s=off_s)
        contrasts, _ = campaign(machine, budget_s=budget_s, voids=lambda _: True)
        last = _last_look(contrasts[:planned], rule)
        called += last.verdict in (Verdict.FASTER, Verdict.SLOWER)
        if last.blocks == len(contrasts) < planned and not last.verdict.decided:
            by_time += 1
            before = comparisons.compare_result(contrasts[:, None], adapter.PAIR, _terms(rule))
            ratios.append(_width(last) / _width(before))
    return Ended(
        called=called / campaigns,
        by_time=by_time / campaigns,
        narrower=float(np.mean(ratios)) if ratios else 1.0,
    )


def _last_look(contrasts, rule):
    """Return the result at the first look that decides, or when the time is up."""
    for blocks in range(rule.first_look, len(contrasts) + 1):
        result = comparisons.compare_result(contrasts[:blocks, None], adapter.PAIR, _terms(rule))
        if comparisons.decide((result,), rule):
            return result
    terms = _terms(rule, time_is_up=True)
    return comparisons.compare_result(contrasts[:, None], adapter.PAIR, terms)


def _terms(rule, *, time_is_up=False):
    return comparisons.Terms(
        rule=rule, margin=0.01, decide=0.03, block_s=60.0, time_is_up=time_is_up
    )


def _width(result):
    return result.effect.high - result.effect.low
