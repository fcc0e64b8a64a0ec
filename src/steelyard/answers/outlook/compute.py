"""What a campaign will be able to say, before it starts: minutes to decide, by effect (METHOD 4.1).

The levels, first looks and intervals are those that the campaign itself will use.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from itertools import islice
from pathlib import Path

import numpy as np

from steelyard.core.campaign import (
    NoiseProfile,
    Rounds,
    ShortBlocks,
    StoppingRule,
    WorkloadNoise,
    times_of_blocks,
)
from steelyard.core.experiment import Experiment, Reset, SwitchCost
from steelyard.core.findings import Estimate
from steelyard.core.schedule import LEAST_ASKED, Load, Mode, Pausing, SharedMemory, WorkloadTurns
from steelyard.stats.planning import (
    PAIR,
    BlockShape,
    Look,
    Simulated,
    contrast_sd,
    look_half_width,
    simulated,
)
from steelyard.stats.spending import PRECISION_FROM, has_many_cells, look_levels, stopping_rule

EFFECTS = (0.01, 0.02, 0.03, 0.05, 0.10)
HALF, MOST = 0.5, 0.9  # the shares of campaigns that the minutes are given for
_MOST_LOOKS = 40  # of longer plans every second, third, ... look stands for its neighbours
_SEARCH_LOOKS = 16
_GRID_POINTS = 201  # of the levels' recursion: a forecast needs no more
_SEARCHED = tuple(dict.fromkeys(round(8 * 1.25**step) for step in range(-3, 16)))  # blocks
_NEVER = 1e6  # blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlookTerms:
    """The design whose minutes are asked for.

    Attributes:
        shape: Of one block; its cells are those of one result.
        results: That share the error.
        preparation_s: Before the first block.
        block_s: Of one block with all its workloads.
        budget_s: From the start of the preparation.
        max_blocks: That fit into it.
        first_look: Blocks at the first look.
        precision: Half-width asked for; then the verdicts do not stop the campaign.
        weights: Of the configurations in a contrast.
        is_fixed: A number of blocks is asked for, and looked at once.
        contrasts: Of the blocks of an A/A campaign that campaigns are drawn from, as in the noise.
        short: The first blocks, where they are shorter; their noise counts as that of the others.
    """

    shape: BlockShape
    results: int
    preparation_s: float
    block_s: float
    budget_s: float
    max_blocks: int
    first_look: int
    precision: float | None = None
    weights: tuple[float, ...] = PAIR
    is_fixed: bool = False
    contrasts: tuple[float, ...] = ()
    short: tuple[ShortBlocks, ...] = ()

    def seconds(self, blocks: float) -> float:
        """Return the seconds from the start to the end of so many blocks."""
        saved_s, left = 0.0, blocks
        for part in self.short:
            number = min(left, part.blocks)
            saved_s, left = saved_s + number * (self.block_s - part.block_s), left - number
        return self.preparation_s + blocks * self.block_s - saved_s

    def rule(self, max_blocks: int) -> StoppingRule:
        """Return what a campaign of at most so many blocks stops by."""
        return stopping_rule(
            results=self.results,
            first_look=self.first_look,
            max_blocks=max_blocks,
            precision=self.precision,
            blocks=max_blocks if self.is_fixed else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectOutlook:
    """How one effect fares; times count from the start of the campaign.

    Attributes:
        effect: True relative difference.
        half_s: By then half of the campaigns call it; None: not within the budget.
        most_s: By then nine in ten do; None likewise.
        within_budget: Share of campaigns that call it at all, between 0 and 1.
        needed_s: The least budget in which nine in ten do; None: no reachable one.
    """

    effect: float
    half_s: float | None
    most_s: float | None
    within_budget: float
    needed_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeOutlook:
    """The result of a workload, or each of its cells.

    Attributes:
        pooled: Whether it is the result.
        contrast_sd: Of one block's contrast, log scale.
        half_width: Relative, to expect at the end of the budget; None: no look before it.
        smallest: Least relative effect that nine in ten campaigns call within the budget.
        effects: One per effect asked about.
    """

    pooled: bool
    contrast_sd: float
    half_width: float | None
    smallest: float | None
    effects: tuple[EffectOutlook, ...]

    def at(self, effect: float) -> EffectOutlook:
        """Return what is said of an effect that was asked about."""
        return next(each for each in self.effects if each.effect == effect)


def outlook(
    noise: WorkloadNoise, terms: OutlookTerms, effects: Sequence[float], *, pooled: bool
) -> ScopeOutlook:
    """Return when a result, or each of its cells, is decided.

    Args:
        noise: Of the workload.
        terms: The design.
        effects: Relative, > 0; the minutes of a slowdown are those of the speed-up.
        pooled: The result, or the cells with their simultaneous intervals. Of many cells the one
            that differs alone has that level, too: the false discovery rate gives it its smallest.
    """
    deviation = contrast_sd(noise, terms.shape, pooled=pooled, weights=terms.weights)
    terms = replace(terms, contrasts=noise.contrasts)
    looks = looks_of(terms.rule(terms.max_blocks), None if pooled else terms.shape.cells)
    plan = _simulated(looks, terms.precision, terms.contrasts) if looks else None
    return ScopeOutlook(
        pooled=pooled,
        contrast_sd=deviation,
        half_width=math.expm1(look_half_width(looks[-1], deviation)) if looks else None,
        smallest=math.expm1(plan.drift_needed(MOST) * deviation) if plan else None,
        effects=tuple(_effect(plan, terms, effect, deviation, pooled=pooled) for effect in effects),
    )


def needed_at_s(
    deviation: float, terms: OutlookTerms, effect: float, *, pooled: bool
) -> float | None:
    """Return the least budget in which nine in ten campaigns call the effect; None: none.

    One block's contrast is known to vary by so much.
    """
    blocks = _blocks_needed(terms, _drift(effect, deviation), pooled=pooled)
    return None if blocks is None else terms.seconds(blocks)


def looks_of(
    rule: StoppingRule, cells: int | None = None, *, most: int = _MOST_LOOKS
) -> tuple[Look, ...]:
    """Return the looks of a campaign with their levels; none if it ends before the first.

    Args:
        rule: Of the campaign.
        cells: With simultaneous intervals; None for a result.
        most: Of a longer plan evenly spread looks stand for all.
    """
    first = rule.first_look if cells is None else rule.cell_first_look
    alpha = rule.alpha / (cells or 1)
    if rule.max_blocks < first:
        return ()
    spread = np.linspace(first, rule.max_blocks, min(most, rule.max_blocks - first + 1))
    blocks = [int(number) for number in spread.round()]
    if rule.precision is not None:
        return tuple(Look(blocks=n, level=alpha) for n in blocks)
    levels = look_levels(
        blocks, rule.max_blocks, alpha, rule.spending_power, grid_points=_GRID_POINTS
    )
    return tuple(Look(blocks=n, level=a) for n, a in zip(blocks, levels, strict=True))


def precision_s(noise: WorkloadNoise, terms: OutlookTerms) -> float | None:
    """Return when a result's interval is expected to be as narrow as asked; None: not asked."""
    if terms.precision is None:
        return None
    deviation = contrast_sd(noise, terms.shape, pooled=True, weights=terms.weights)
    level = terms.rule(terms.max_blocks).alpha
    blocks = PRECISION_FROM
    while look_half_width(Look(blocks=blocks, level=level), deviation) > math.log1p(
        terms.precision
    ):
        blocks = math.ceil(blocks * 1.02)
        if blocks > _NEVER:
            return None
    return terms.seconds(blocks)


def _simulated(
    looks: tuple[Look, ...], precision: float | None, contrasts: tuple[float, ...]
) -> Simulated:
    return simulated(looks, cumulative=precision is None, contrasts=contrasts)


def _effect(
    plan: Simulated | None,
    terms: OutlookTerms,
    effect: float,
    deviation: float,
    *,
    pooled: bool,
) -> EffectOutlook:
    drift = _drift(effect, deviation)
    by = [plan.blocks_until(drift, share) if plan else None for share in (HALF, MOST)]
    half_s, most_s = (None if blocks is None else terms.seconds(blocks) for blocks in by)
    blocks = _blocks_needed(terms, drift, pooled=pooled)
    return EffectOutlook(
        effect=effect,
        half_s=half_s,
        most_s=most_s,
        within_budget=float(plan.decided(drift)[-1]) if plan else 0.0,
        needed_s=None if blocks is None else terms.seconds(blocks),
    )


def _drift(effect: float, deviation: float) -> float:
    return math.log1p(effect) / deviation if deviation else math.inf


def _blocks_needed(terms: OutlookTerms, drift: float, *, pooled: bool) -> float | None:
    """Return the blocks of the shortest plan in which nine in ten campaigns call the effect."""
    cells = None if pooled else terms.shape.cells
    rule = terms.rule(LEAST_ASKED)
    first = rule.first_look if pooled else rule.cell_first_look
    plans = [blocks for blocks in _SEARCHED if blocks >= first]
    needed = [_drift_needed(terms.rule(plans[-1]), cells, terms.contrasts)]
    if drift < needed[0]:
        # Far out the drift that is needed falls with the root of the blocks.
        blocks = plans[-1] * (needed[0] / drift) ** 2 if drift else math.inf
        return math.ceil(blocks) if blocks < _NEVER else None
    low, high = 0, len(plans) - 1
    while low < high:
        middle = (low + high) // 2
        enough = drift >= _drift_needed(terms.rule(plans[middle]), cells, terms.contrasts)
        low, high = (low, middle) if enough else (middle + 1, high)
    least = plans[low - 1] + 1 if low else first
    enough_at = _drift_needed(terms.rule(plans[low]), cells, terms.contrasts)
    between = plans[low] * (enough_at / drift) ** 2
    return min(max(math.ceil(between), least), plans[low])


@lru_cache(maxsize=512)
def _drift_needed(rule: StoppingRule, cells: int | None, contrasts: tuple[float, ...]) -> float:
    looks = looks_of(rule, cells, most=_SEARCH_LOOKS)
    return _simulated(looks, rule.precision, contrasts).drift_needed(MOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadOutlook:
    """Workloads of the same noise, whose minutes are therefore the same.

    Attributes:
        names: Of the workloads.
        cells: Of each cell; None where the result is the only cell. Where they are many, of one
            that differs alone: the others it differs with only make it sooner.
        synergies: Of each synergy of two factors; None where the design tells none.
        precision_s: When a result is expected to be as narrow as asked; None: not asked.
    """

    names: tuple[str, ...]
    noise: WorkloadNoise
    pooled: ScopeOutlook
    cells: ScopeOutlook | None
    precision_s: float | None
    synergies: ScopeOutlook | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignOutlook:
    """How the effect of ``stop.detect`` fares in all results of a design.

    Attributes:
        change: From the file's design, in words; empty: there is none.
        within_budget: Share of campaigns that detect it within the budget of the file.
        needed_s: The least budget in which nine in ten do; None: no reachable one.
        campaigns: How many of such campaigns replace the one.
    """

    change: str
    within_budget: float
    needed_s: float | None
    campaigns: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """An estimate of a campaign, from guesses where nothing was measured yet.

    Attributes:
        preparation_s: Data, calibration, the first start of every configuration, the ceilings, and
            the capacity.
        block_s: Of one block.
        max_blocks: That fit into the budget after the preparation.
        disk_bytes: Needed and free, by the directory they are needed in.
        cached: Configurations whose data are prepared already.
        sustained_s: Of all long runs after the last block; they come on top of the budget.
        sustained_most_s: The same, when each of them falls near its end and is extended.
        rounds: Of each start.
        capacity_s: Of finding the capacity, which is a part of the preparation.
        design_reason: Why the configurations alternate or not, as a clause.
        pausing: What stands still between turns; None where none are taken.
        memory: Of the servers that are up together; None likewise, and where it is not known.
        reading: Workloads that only read, which come first in a block of turns.
        otherwise: The same where transactions turn out to be too long for turns; None: no turns
            are expected, or the file insists on them.
        short: The first blocks, where they are shorter.
        copying_s: Of one block: data are brought back to the prepared state.
        turns: Of each workload, if the run times no transaction any more; else empty.
        starts_to_shorten: Of each configuration, which would show whether less warm-up than the
            method's is enough; None if the warm-up is another one.
    """

    mode: Mode
    switch: SwitchCost
    reset: Reset
    preparation_s: float
    block_s: float
    max_blocks: int
    stopping: StoppingRule
    warm_up_s: float
    disk_bytes: Mapping[Path, tuple[int, int]]
    cached: int
    sustained_s: float = 0.0
    sustained_most_s: float = 0.0
    rounds: Rounds = field(default_factory=Rounds)
    capacity_s: float = 0.0
    design_reason: str = ""
    pausing: Pausing | None = None
    memory: SharedMemory | None = None
    reading: tuple[str, ...] = ()
    otherwise: "Forecast | None" = None
    short: tuple[ShortBlocks, ...] = ()
    copying_s: float = 0.0
    turns: tuple[WorkloadTurns, ...] = ()
    starts_to_shorten: int | None = None

    @property
    def at_once(self) -> int | None:
        """Return how many servers are up together where blocks have sub-blocks; else None."""
        return None if self.memory is None else self.memory.at_once

    @property
    def first_look_s(self) -> float:
        """Return seconds from the start to the first look at the results."""
        times_s = times_of_blocks(self.short, self.block_s)
        return self.preparation_s + sum(islice(times_s, self.stopping.first_look))

    def most_s(self, experiment: Experiment) -> float:
        """Return the longest a campaign takes: long runs come on top of its budget."""
        blocks_s = self.pass_s if experiment.is_single_pass else experiment.stop.budget_s
        return blocks_s + self.long_runs_s

    @property
    def long_runs_s(self) -> float:
        """Return the longest that long runs take, on top of any budget."""
        return max(self.sustained_s, self.sustained_most_s)

    @property
    def pass_s(self) -> float:
        """Return seconds from the start to the end of a single pass."""
        return self.preparation_s + self.block_s


class RateFrom(StrEnum):
    """Sources of an expected rate; a plan shows the values."""

    FILE = "in the file"
    TRIAL = "the trial's, under this load"
    CLIENTS = "at most: the trial's, in proportion to clients"


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorNeed:
    """Threads and workers that a load needs.

    Attributes:
        cpu_s: CPU time of the generator per transaction in the trial, s: the configuration with
            the most, over its runs.
        tps: To expect: of the configuration with the most.
        is_limit: The generator was the limit in the trial, so the server may do more.
        cpus: That the generator keeps busy: one product of the two above.
        threads: That it needs in all, and ``workers`` as many machines of ``machine_cpus``.
    """

    workload: str
    load: Load
    cpu_s: Estimate
    tps: float
    rate_from: RateFrom
    is_limit: bool
    cpus: float
    machine_cpus: float
    threads: int
    workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignOutlook:
    """What a campaign would take and what it could say.

    Attributes:
        noise: Measured or assumed; it says which.
        workloads: Empty where nothing is compared.
        designs: That of the file first, then what could be taken in its place.
        generators: Of each load, by a trial; None without one.
    """

    experiment: Experiment
    expected: Forecast
    noise: NoiseProfile
    workloads: tuple[WorkloadOutlook, ...] = ()
    designs: tuple[DesignOutlook, ...] = ()
    generators: tuple[GeneratorNeed, ...] | None = None

    @property
    def decides_results(self) -> bool:
        """Return whether nine in ten campaigns call ``stop.detect`` in every result."""
        return all(self._decided(each.pooled) for each in self.workloads)

    @property
    def decides_cells(self) -> bool:
        """Return whether nine in ten campaigns call ``stop.detect`` in any given cell."""
        return all(each.cells is None or self._decided(each.cells) for each in self.workloads)

    @property
    def has_many_cells(self) -> bool:
        """Return whether cells that differ together are called sooner than is said here."""
        return has_many_cells(len(self.experiment.closed_loads))

    def _decided(self, scope: ScopeOutlook) -> bool:
        return scope.at(self.experiment.stop.detect).within_budget >= MOST
