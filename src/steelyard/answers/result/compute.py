"""Configurations against the baseline: effects, intervals, verdicts, and when a campaign may end.

Everything here works on arrays of log ratios, one row per block, so that the same code judges a
campaign and the simulator's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from steelyard.answers.gate import judge_results
from steelyard.answers.results import Comparison, early_note
from steelyard.core.campaign import CampaignPlan, CampaignRecord, Status, StoppingRule
from steelyard.core.findings import Condition, Estimate, Outcome, Verdict
from steelyard.core.schedule import Load
from steelyard.core.wording import SECONDS_PER_MINUTE, format_share
from steelyard.report.document import count
from steelyard.stats.factorial import pooled_contrasts
from steelyard.stats.intervals import (
    FloatArray,
    block_interval,
    block_p_value,
    blocks_to_decide,
    has_no_practical_weight,
    is_by_t,
    verdict_of,
)
from steelyard.stats.spending import (
    PRECISION_FROM,
    cell_level,
    discoveries,
    has_many_cells,
    result_level,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Who is compared, under which workload."""

    baseline: str
    configuration: str
    workload: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a comparison is judged by.

    Attributes:
        rule: Looks and levels.
        margin: Relative difference of no practical weight.
        detect: Relative effect the user wants decided.
        block_s: Seconds that one more block takes.
        stopped_early: The campaign ended because its results were decided, before its last look.
        time_is_up: It ended because no further block fitted into the budget, so that this look is
            the last one whatever it shows.
    """

    rule: StoppingRule
    margin: float
    detect: float
    block_s: float
    stopped_early: bool = False
    time_is_up: bool = False


def compare(
    contrasts: FloatArray, pair: Pair, loads: Sequence[Load], terms: Terms
) -> tuple[Comparison, ...]:
    """Return a workload's result, then each of its cells, whose interval allows for the others.

    Up to 10 cells the intervals hold simultaneously. With more, those that are called different
    are chosen by their false discovery rate, and their intervals keep the false coverage rate;
    the others keep the simultaneous interval, from which alone they may be called equivalent.

    Args:
        contrasts: Shape (blocks, loads), log ratio, paired; no block is needed.
        pair: Who is compared.
        loads: One per column.
        terms: What they are judged by.
    """
    together = _simultaneous(contrasts, pair, loads, terms)
    result = compare_result(contrasts, pair, terms, depends_on_load=disagree(together))
    return (result, *_with_discoveries(together, contrasts, pair, terms))


def compare_result(
    contrasts: FloatArray, pair: Pair, terms: Terms, *, depends_on_load: bool = False
) -> Comparison:
    """Return the effect pooled over the cells: one number per block, one test."""
    blocks = len(contrasts)
    pooled = pooled_contrasts(contrasts) if blocks else np.empty(0)
    level = result_level(terms.rule, blocks, is_last=terms.time_is_up)
    result = _compared(pooled, pair, None, level, terms)
    decided_early = terms.stopped_early and result.verdict.decided
    note = early_note(result.verdict, blocks) if decided_early else result.note
    return replace(result, depends_on_load=depends_on_load, note=note)


def _simultaneous(
    contrasts: FloatArray, pair: Pair, loads: Sequence[Load], terms: Terms
) -> tuple[Comparison, ...]:
    is_last = terms.time_is_up
    level = cell_level(terms.rule, len(contrasts), len(loads), is_last=is_last)
    return tuple(
        _compared(contrasts[:, column], pair, load, level, terms)
        for column, load in enumerate(loads)
    )


def _with_discoveries(
    together: tuple[Comparison, ...], contrasts: FloatArray, pair: Pair, terms: Terms
) -> tuple[Comparison, ...]:
    """Return the cells of a large family with those called different at their own level."""
    blocks, cells = len(contrasts), len(together)
    if not has_many_cells(cells) or cell_level(terms.rule, blocks, cells) is None:
        return together

    def level_of(called: int) -> float:
        return cell_level(terms.rule, blocks, cells, called, is_last=terms.time_is_up) or 0.0

    p_values = np.array([block_p_value(column) for column in contrasts.T])
    called = discoveries(p_values, level_of)
    if not called:
        return together
    level = level_of(called)
    return tuple(
        _compared(contrasts[:, column], pair, cell.load, level, terms)
        if p_values[column] <= level
        else cell
        for column, cell in enumerate(together)
    )


def disagree(cells: Sequence[Comparison]) -> bool:
    """Return whether two cells' simultaneous intervals do not overlap."""
    effects = [cell.effect for cell in cells if cell.effect is not None]
    lows = [effect.low for effect in effects if effect.low is not None]
    highs = [effect.high for effect in effects if effect.high is not None]
    return bool(lows and highs) and max(lows) > min(highs)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Weighed:
    blocks: int
    effect: Estimate | None
    verdict: Verdict
    no_practical_weight: bool
    looked: bool

    @property
    def width(self) -> float | None:
        """Return the interval's width, relative; None without both bounds."""
        if self.effect is None or self.effect.low is None or self.effect.high is None:
            return None
        return self.effect.high - self.effect.low


def _compared(
    contrasts: FloatArray, pair: Pair, load: Load | None, level: float | None, terms: Terms
) -> Comparison:
    """Return a comparison by one number per block; ``load`` is None for a pooled one."""
    weighed = _weigh(contrasts, level, terms)
    rule = terms.rule
    return Comparison(
        baseline=pair.baseline,
        configuration=pair.configuration,
        workload=pair.workload,
        load=load,
        effect=weighed.effect,
        verdict=weighed.verdict,
        no_practical_weight=weighed.no_practical_weight,
        blocks=len(contrasts),
        level=level,
        contrasts=tuple(contrasts.tolist()),
        minutes_to_decide=_minutes_to_decide(weighed, terms),
        note=_note(weighed, terms, rule.first_look if load is None else rule.cell_first_look),
    )


def _weigh(contrasts: FloatArray, level: float | None, terms: Terms) -> _Weighed:
    """Return effect and verdict of one sample; without a level there is no interval yet."""
    if level is None:
        effect = Estimate(value=float(np.expm1(contrasts.mean()))) if len(contrasts) else None
        return _Weighed(
            blocks=len(contrasts),
            effect=effect,
            verdict=Verdict.NO_CLEAR_DIFFERENCE,
            no_practical_weight=False,
            looked=False,
        )
    interval = block_interval(contrasts, level)
    low, high = float(np.expm1(interval.low)), float(np.expm1(interval.high))
    return _Weighed(
        blocks=len(contrasts),
        effect=Estimate(
            value=float(np.expm1(interval.estimate)),
            low=low if np.isfinite(interval.low) else None,
            high=high if np.isfinite(interval.high) else None,
        ),
        verdict=verdict_of(low, high, terms.margin),
        no_practical_weight=has_no_practical_weight(low, high, terms.margin),
        looked=True,
    )


def _minutes_to_decide(weighed: _Weighed, terms: Terms) -> float | None:
    if weighed.verdict.decided or weighed.width is None:
        return None
    missing = blocks_to_decide(weighed.blocks, weighed.width, terms.detect) - weighed.blocks
    return missing * terms.block_s / SECONDS_PER_MINUTE if missing > 0 else None


def _note(weighed: _Weighed, terms: Terms, first_look: int) -> str:
    """Return what limits a statement; of a fixed number of blocks also what its interval is."""
    limit = _limit(weighed, terms, first_look)
    by_t = terms.rule.is_fixed and weighed.looked and is_by_t(weighed.blocks, terms.rule.alpha)
    told = f"t interval over {count(weighed.blocks, 'block')}, not the coin's" if by_t else ""
    return "; ".join(filter(None, (told, limit)))


def _limit(weighed: _Weighed, terms: Terms, first_look: int) -> str:
    """Return one sentence about what limits an undecided statement."""
    if weighed.verdict.decided:
        return ""
    blocks = count(weighed.blocks, "block")
    if not weighed.looked:
        return f"{blocks}; the first interim result is at {first_look}"
    if weighed.width is None:
        return (
            f"{blocks} cannot bound the effect at the level of this interim result; more blocks can"
        )
    if _minutes_to_decide(weighed, terms) is None:
        wanted = format_share(terms.detect)
        return f"precise enough to decide an effect of {wanted}; one that is there is smaller"
    return ""


def decide(
    comparisons: Sequence[Comparison], rule: StoppingRule, conditions: Sequence[Condition] = ()
) -> Status | None:
    """Return why the campaign may stop now, or None to go on; the budget is the runner's.

    Args:
        comparisons: Of the blocks so far; the results count with their scripts, and loads where
            these disagree.
        rule: With a precision, intervals as narrow as asked end the campaign and verdicts do
            not; without, a verdict in every result does.
        conditions: Of a gate: they end it in the place of verdicts, before or after these. An
            interval holds at whatever block one stops.
    """
    results = [comparison for comparison in comparisons if comparison.load is None]
    if not results or results[0].blocks < rule.ends_from:
        return None
    if rule.precision is None and conditions:
        outcomes = [each.outcome for each in judge_results(comparisons, conditions)]
        return None if Outcome.UNDECIDED in outcomes else Status.DECIDED
    if rule.precision is None:
        decided = all(map(_is_answered, results))
        return Status.DECIDED if decided else None
    narrow = all(_is_narrow(result, rule.precision) for result in results)
    return Status.PRECISION if narrow else None


def _is_answered(result: Comparison) -> bool:
    """Return whether a result is decided, and each of its scripts."""
    return result.verdict.decided and all(each.verdict.decided for each in result.scripts)


def _is_narrow(result: Comparison, half_width: float) -> bool:
    effect = result.effect
    if result.blocks < PRECISION_FROM or effect is None:
        return False
    if effect.low is None or effect.high is None:
        return False
    return (effect.high - effect.low) / 2.0 <= half_width


def terms_of(record: CampaignRecord, plan: CampaignPlan, blocks: int) -> Terms:
    """Return what decides a campaign's results after so many blocks."""
    experiment = record.experiment
    return Terms(
        rule=plan.stopping,
        margin=experiment.stop.margin,
        detect=experiment.stop.detect,
        block_s=plan.block_s,
        stopped_early=plan.stopping.stopped_early(record.status, blocks),
        time_is_up=record.status is Status.BUDGET,
    )
