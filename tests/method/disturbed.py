"""Campaigns one by one between equal configurations beside a neighbour that slows what it meets.

Which runs are invalid, how often a block is tried, and the interval are the product's own; the
machine, its neighbour and the clock are made here.
"""

from dataclasses import dataclass, replace

import adapter
import numpy as np
from neighbours import Timeline
from sequential import CHANGED, at_its_end, terms_of

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
from steelyard.core.measurement import Measurement
from steelyard.core.findings import NEIGHBOUR_CPU
from steelyard.stats import spending
from steelyard.stats.intervals import block_interval

CPUS, RUN_S, START_S = 2, 5.0, 25.0  # a restart and the warm-up come before each run
BLOCK_S = 2 * (START_S + RUN_S)
LEVEL = 0.045  # METHOD 3.3, fixed number of blocks
NOISE, DRIFT = 0.04, 0.01  # ln(tps): of a run, and of a random walk from run to run
LEAST_BLOCKS, BUDGET_S = 10, 1800.0


@dataclass(kw_only=True)
class Machine:
    """A clock, and what a neighbour does along it."""

    rng: np.random.Generator
    beside: Timeline
    clock_s: float = 0.0
    level: float = 0.0

    def pass_by(self, seconds):
        """Let time pass; return the neighbour's mean share of the machine in it."""
        begin_s, self.clock_s = self.clock_s, self.clock_s + seconds
        return self.beside.share(begin_s, self.clock_s) if seconds else 0.0

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


def campaign(machine, *, budget_s, voids=lambda _: True, bears=bears_neighbours):
    """Return one contrast per block, as many as the budget has room for, and all tries.

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
            begun_s = machine.clock_s
            bearing = bears(outcomes, block, block_s=BLOCK_S, budget_s=budget_s)
            contrast = attempt(machine, first, voids, bearing=bearing)
            outcome = BlockOutcome(
                index=block,
                attempt=tried,
                complete=contrast is not None,
                cause="" if contrast is not None else NEIGHBOUR_CPU,
                lasted_s=machine.clock_s - begun_s,
            )
            outcomes.append(outcome)
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


def campaigns_beside(neighbour, campaigns, seed, *, budget_s=BUDGET_S, **how):
    """Yield contrasts and tries of so many campaigns."""
    for number in range(campaigns):
        rng = np.random.default_rng([seed, number])
        machine = Machine(rng=rng, beside=neighbour.timeline(rng, 2 * budget_s))
        contrasts, outcomes = campaign(machine, budget_s=budget_s, **how)
        assert len(contrasts) >= LEAST_BLOCKS
        yield contrasts, outcomes


def calls_different(contrasts):
    """Return whether an interval over all blocks leaves out zero."""
    interval = block_interval(contrasts, LEVEL)
    return not interval.low <= 0.0 <= interval.high


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How campaigns between equal configurations ended.

    Attributes:
        called: Share that call them different by one interval over all blocks.
        called_looking: The same of those that look after every block, and when the time is up.
        by_time: Share of these that the budget ended before the planned number of blocks.
        narrower: Mean half-width of those at their end, over that of a look before the end.
        lost: Share of the budget that went into tries that were thrown away, at most.
    """

    called: float
    called_looking: float
    by_time: float
    narrower: float
    lost: float


def ended(campaigns, seed, neighbour):
    """Return how campaigns end whose plan knows nothing of the neighbour that delays them."""
    planned = spending.blocks_within(BUDGET_S, BLOCK_S)
    rule, terms = terms_of(planned)
    called, looking, by_time, ratios, lost = 0, 0, 0, [], []
    for contrasts, outcomes in campaigns_beside(neighbour, campaigns, seed):
        called += calls_different(contrasts)
        lost.append(sum(each.lasted_s for each in outcomes if not each.complete) / BUDGET_S)
        last = _last_look(contrasts[:planned], rule, terms)
        looking += last.verdict in CHANGED
        if last.blocks == len(contrasts) < planned and not last.verdict.decided:
            by_time += 1
            before = comparisons.compare_result(contrasts[:, None], adapter.PAIR, terms)
            ratios.append(_width(last) / _width(before))
    return Ended(
        called=called / campaigns,
        called_looking=looking / campaigns,
        by_time=by_time / campaigns,
        narrower=float(np.mean(ratios)) if ratios else 1.0,
        lost=max(lost),
    )


def _last_look(contrasts, rule, terms):
    """Return the result at the first look that decides, or when the time is up."""
    (result,) = at_its_end([contrasts[:, None]], rule, terms)
    if comparisons.decide((result,), rule):
        return result
    last = replace(terms, time_is_up=True)
    return comparisons.compare_result(contrasts[:, None], adapter.PAIR, last)


def _width(result):
    return result.effect.high - result.effect.low
