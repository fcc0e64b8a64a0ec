"""Capacity, rates and goal: the answers in sentences, the section, its chart, and plain values."""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from steelyard.answers.capacity.compute import (
    Goal,
    GoalContrast,
    GoalRate,
    OpenLoops,
    RatePoint,
    open_loops,
    side,
)
from steelyard.answers.latency.compute import MAXIMUM, PercentileLevel, Timed
from steelyard.answers.latency.section import TITLE as LATENCY
from steelyard.answers.latency.section import level_text
from steelyard.answers.results import CampaignAnalysis, pool_name, short_pool
from steelyard.core.campaign import Capacity, CapacityPoint
from steelyard.core.experiment import MANY, MANY_FIRST, RATE, RATE_UNIT, Experiment
from steelyard.core.findings import Estimate
from steelyard.core.quantities import PER_SECOND, PERCENT, SECONDS
from steelyard.core.wording import format_log_ratio, format_percent
from steelyard.report import document as doc
from steelyard.report.document import bounds, rate
from steelyard.report.keys import load_data
from steelyard.report.texts import Texts
from steelyard.stats.capacity import CAPACITY_COVERAGE, Reached

TITLE = "Capacity and rates"
NOT_ENOUGH = f"not enough {MANY}"
_LEAST_BLOCKS = 6  # below, signed ranks have no bounds at 95 %
_SPLIT = "undecided, as many blocks lie below all measured rates as above them"
_NEEDED = (Timed.LATENCY, 0.99)  # the others are left out first where a table is too wide
_TIMES = (
    (Timed.LATENCY, 0.5, "p50", "latency_p50"),
    (Timed.LATENCY, 0.99, "p99", "latency_p99"),
    (Timed.LAG, 0.5, "lag p50", "schedule_lag_p50"),
    (Timed.LAG, 0.99, "lag p99", "schedule_lag_p99"),
    (Timed.LAG, MAXIMUM, "lag max", "schedule_lag_max"),
    (Timed.SERVICE, 0.5, "service p50", "service_time_p50"),
    (Timed.SERVICE, 0.99, "service p99", "service_time_p99"),
    (Timed.SERVICE, MAXIMUM, "service max", "service_time_max"),
)
_TEXTS: Final = Texts(__name__)
_WHOLE: Final = doc.Form()
_SHARE: Final = doc.Form(show=doc.proportion, unit=PERCENT)
_RATED: Final = doc.Form(show=partial(doc.with_interval, shown=rate), heading="1/s")
_SECONDS: Final = doc.Form(unit=SECONDS)


def rate_answers(analysis: CampaignAnalysis) -> tuple[doc.BulletList, ...]:
    """Return capacity and goal in sentences, for the place of the results."""
    found = analysis.answer(open_loops)
    if found is None:
        return ()
    blocks = []
    if found.capacities:
        items = tuple(_capacity_sentence(capacity) for capacity in found.capacities)
        blocks.append(doc.BulletList(lead="The most that it sustains", items=items))
    if found.goal is not None:
        experiment = analysis.experiment
        items = tuple(goal_sentence(experiment, goal) for goal in found.goal.rates)
        more = tuple(
            f"{doc.versus(contrast.configuration, contrast.baseline)}, {contrast.workload},"
            f" {pool_name(experiment, contrast.load)}: {_ratio(contrast)}."
            for contrast in found.goal.contrasts
        )
        lead = f"The highest rate with {found.goal.asked_for.label}"
        blocks.append(doc.BulletList(lead=lead, items=(*items, *more)))
    return tuple(blocks)


def capacity_section(analysis: CampaignAnalysis, found: OpenLoops) -> tuple[doc.Section, ...]:
    """Return capacity, rates and goal in tables, and the chart."""
    blocks: list[doc.Block] = []
    if found.goal is not None:
        blocks.append(_goal_table(analysis.experiment, found.goal))
    if found.points:
        blocks.append(_rate_table(analysis, found))
    if found.capacities:
        blocks += [_capacity_table(found), _figure(analysis, found)]
    if not blocks:
        return ()
    return (doc.Section(anchor="capacity", title=TITLE, blocks=tuple(blocks), first=True),)


# --- sentences ---


def _capacity_sentence(capacity: Capacity) -> str:
    return (
        f"{capacity.workload}: {per_s(capacity.tps)}, from {doc.count(capacity.clients, 'client')}"
        " on"
        f" ({capacity.configuration}, before the first block)."
    )


def per_s(estimate: Estimate) -> str:
    """Return a rate with its interval: ``1,234/s [1,200, 1,260]``."""
    interval = "no interval" if bounds(estimate) is None else doc.in_brackets(estimate, rate)
    return f"{rate(estimate.value)}/s {interval}"


def goal_sentence(experiment: Experiment, goal: GoalRate) -> str:
    """Return what one configuration carries under the goal, in one sentence."""
    return f"{_of(experiment, goal)}: {_told(goal)}."


def _of(experiment: Experiment, goal: GoalRate) -> str:
    return f"{goal.configuration}, {goal.workload}, {pool_name(experiment, goal.load)}"


def _told(goal: GoalRate) -> str:
    reached = goal.reached
    if reached is None:
        return f"{NOT_ENOUGH} at any of the rates for this percentile"
    lowest, highest = goal.rates_per_s[0], goal.rates_per_s[-1]
    if reached.value is None:
        return f"{_SPLIT}, {_between(goal, reached)}"
    if reached.value == math.inf:
        return (
            f"above {rate(highest)}/s, the highest rate that was measured{_open_low(goal, reached)}"
        )
    if reached.value == -math.inf:
        return (
            f"below {rate(lowest)}/s, the lowest rate that was measured{_open_high(goal, reached)}"
        )
    return f"about {rate(reached.value)}/s, {_between(goal, reached)}"


def _no_interval(of: GoalRate | GoalContrast) -> str:
    """Return from how many blocks on there is one; pooled ones count together as one."""
    return f"no interval below {_LEAST_BLOCKS * max(of.pooled, 1)} blocks"


def _open_low(goal: GoalRate, reached: Reached) -> str:
    if reached.low is None:
        return f" ({_no_interval(goal)})"
    told = math.isfinite(reached.low)
    return f" (at least {rate(reached.low)}/s with {doc.CONFIDENCE})" if told else ""


def _open_high(goal: GoalRate, reached: Reached) -> str:
    if reached.high is None:
        return f" ({_no_interval(goal)})"
    told = math.isfinite(reached.high)
    return f" (at most {rate(reached.high)}/s with {doc.CONFIDENCE})" if told else ""


def _between(goal: GoalRate, reached: Reached) -> str:
    if reached.low is None or reached.high is None:
        return _no_interval(goal)
    return f"[{_low(goal, reached.low)}, {_high(goal, reached.high)}]"


def _low(goal: GoalRate, low: float) -> str:
    return rate(low) if math.isfinite(low) else f"below {rate(goal.rates_per_s[0])}"


def _high(goal: GoalRate, high: float) -> str:
    return rate(high) if math.isfinite(high) else f"above {rate(goal.rates_per_s[-1])}"


def _ratio(contrast: GoalContrast) -> str:
    ratio = contrast.ratio
    low, high = side(ratio.low), side(ratio.high)
    if contrast.beyond:
        where = "above" if contrast.beyond > 0 else "below"
        return f"not comparable, both lie {where} the measured rates"
    value = "" if ratio.value is None else format_log_ratio(ratio.value)
    if ratio.low is None and not contrast.censored:
        return f"{value}, {_no_interval(contrast)}"
    if low is None and high is None:
        return f"undecided with {doc.count(contrast.blocks, 'block')}"
    if high is None:
        return f"at least {format_percent(low or 0.0)} with {doc.CONFIDENCE}"
    if low is None:
        return f"at most {format_percent(high)} with {doc.CONFIDENCE}"
    return f"{value} [{format_percent(low)}, {format_percent(high)}]"


# --- tables ---


def _goal_table(experiment: Experiment, goal: Goal) -> doc.Table:
    notes = [
        _TEXTS.goal(confidence=doc.CONFIDENCE),
        *(_goal_remark(experiment, each) for each in goal.rates),
    ]
    return doc.table_of(
        goal.rates,
        ("workload", lambda each: each.workload),
        ("configuration", lambda each: each.configuration),
        (doc.number_column("clients"), lambda each: short_pool(experiment, each.load)),
        (doc.number_column("highest rate", "1/s"), _value),
        (doc.number_column(f"{doc.CONFIDENCE} interval", "1/s"), _interval),
        (
            doc.number_column("measured rates", "1/s", spare=True),
            lambda each: ", ".join(map(rate, each.rates_per_s)) or doc.MISSING,
        ),
        (doc.number_column("blocks", spare=True), lambda each: str(each.blocks)),
        title=f"The highest rate with {goal.asked_for.label}",
        note=" ".join(filter(None, notes)),
        tone=lambda each: doc.Tone.PLAIN if each.reached is not None else doc.Tone.WARNING,
    )


def _value(goal: GoalRate) -> str:
    reached = goal.reached
    if reached is None:
        return NOT_ENOUGH
    if reached.value is None:
        return "undecided"
    if math.isfinite(reached.value):
        return rate(reached.value)
    if reached.value > 0:
        return f"above {rate(goal.rates_per_s[-1])}"
    return f"below {rate(goal.rates_per_s[0])}"


def _interval(goal: GoalRate) -> str:
    reached = goal.reached
    if reached is None or reached.low is None or reached.high is None:
        return doc.MISSING
    return f"{_low(goal, reached.low)} to {_high(goal, reached.high)}"


def _goal_remark(experiment: Experiment, goal: GoalRate) -> str:
    """Return what was done about too few transactions, or nothing."""
    remarks = []
    if goal.pooled > 1:
        remarks.append(f"{goal.pooled} neighbouring blocks were added up for each percentile")
    if goal.reached is not None and goal.reached.value is None:
        remarks.append(_SPLIT)
    if goal.untold:
        rates = ", ".join(rate(value) for value in goal.untold)
        remarks.append(f"{NOT_ENOUGH} at {rates}/s")
    return f"{_of(experiment, goal)}: {'; '.join(remarks)}." if remarks else ""


def _rate_table(analysis: CampaignAnalysis, found: OpenLoops) -> doc.Table:
    return doc.table_of(
        found.points,
        doc.column("workload", lambda point: point.cell.workload),
        doc.column("configuration", lambda point: point.configuration),
        doc.Cells(
            doc.number_column("clients"),
            lambda point: short_pool(analysis.experiment, point.cell.load),
            lambda point: load_data(point.cell.load),
        ),
        doc.Cells(
            doc.number_column("offered", "1/s"),
            _offered,
            lambda point: replace(_WHOLE, unit=PER_SECOND).data("offered", point.offered_per_s),
        ),
        doc.column("achieved", lambda point: point.achieved, replace(_RATED, unit=PER_SECOND)),
        doc.column("skipped", lambda point: point.skipped, _SHARE),
        doc.column("late", lambda point: point.late, _SHARE),
        *(_time_column(*time) for time in _TIMES),
        title="Rates",
        note=_TEXTS.rates(confidence=doc.CONFIDENCE, section=LATENCY),
        reason=_missing,
    )


def _time_column(timed: Timed, share: float, name: str, key: str) -> doc.Cells:
    def level(point: RatePoint) -> PercentileLevel | None:
        return point.at(timed, share)

    return doc.Cells(
        doc.number_column(name, "ms", spare=(timed, share) != _NEEDED),
        lambda point: level_text(level(point)) if point.levels else "not logged",
        lambda point: _SECONDS.data(key, (found := level(point)) and found.value_s),
    )


def _missing(point: RatePoint) -> str:
    levels = (point.at(timed, share) for timed, share, _, _ in _TIMES)
    lacking = (level.reason for level in levels if level is not None and level.value_s is None)
    return "; ".join(dict.fromkeys(filter(None, lacking))) if point.levels else "not logged"


def _offered(point: RatePoint) -> str:
    load = point.cell.load
    return f"{rate(point.offered_per_s)}{'' if load.share is None else f' ({load.rate_label})'}"


def _capacity_table(found: OpenLoops) -> doc.Table:
    return doc.table_of(
        [(capacity, point) for capacity in found.capacities for point in capacity.points],
        doc.column("workload", lambda pair: pair[0].workload),
        doc.column("configuration", lambda pair: pair[0].configuration),
        doc.column("clients", lambda pair: pair[1].clients, _WHOLE),
        doc.column("threads", lambda pair: pair[1].threads, _WHOLE, spare=True),
        doc.column(RATE, lambda pair: pair[1].tps, replace(_RATED, heading=RATE_UNIT), key="tps"),
        doc.column("slices", lambda pair: len(pair[1].slices), _WHOLE, spare=True),
        doc.column(
            "capacity",
            lambda pair: pair[0].tps if _reaches(*pair) else None,
            doc.Form(show=per_s, align=doc.Align.LEFT, missing=""),
            key="capacity_tps",
        ),
        title="Capacity",
        tone=lambda pair: doc.Tone.GOOD if _reaches(*pair) else doc.Tone.PLAIN,
        tone_column=6,
        note=_TEXTS.capacity(confidence=doc.CONFIDENCE, coverage=CAPACITY_COVERAGE),
    )


def _reaches(capacity: Capacity, point: CapacityPoint) -> bool:
    return point.clients == capacity.clients


# --- the chart ---


def _figure(analysis: CampaignAnalysis, found: OpenLoops) -> doc.Figure:
    return doc.Figure(
        identity="capacity",
        kind=doc.ChartKind.CAPACITY,
        title="Throughput of closed loops before the first block",
        caption=_TEXTS.figure(confidence=doc.CONFIDENCE),
        alt=f"{MANY_FIRST} per second over clients, by workload. "
        + " ".join(_capacity_sentence(capacity) for capacity in found.capacities),
        columns=("workload", "configuration", "clients", "tps", "low", "high", "capacity", "text"),
        rows=tuple(row for capacity in found.capacities for row in _rows(capacity)),
        configurations=analysis.names,
    )


def _rows(capacity: Capacity) -> Iterator[tuple[doc.Value, ...]]:
    name = (capacity.workload, capacity.configuration)
    for point in capacity.points:
        low, high = bounds(point.tps) or (None, None)
        yield (*name, point.clients, point.tps.value, low, high, False, "")
    low, high = bounds(capacity.tps) or (None, None)
    text = f"{rate(capacity.tps.value)}/s"
    yield (*name, capacity.clients, capacity.tps.value, low, high, True, text)
