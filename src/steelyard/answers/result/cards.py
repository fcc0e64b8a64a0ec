"""The card of a result: workload, verdict, rates, latency, and the reason in a line."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeGuard

from steelyard.answers import findings
from steelyard.answers.budget import BudgetChange, Part
from steelyard.answers.costs import Cost, CostChange, LedgerChange
from steelyard.answers.latency.compute import LatencyChange, campaign_latency
from steelyard.answers.money import money_clause
from steelyard.answers.observations import result_contrasts
from steelyard.answers.reasons.compute import (
    PART_NAMES,
    Reasons,
    campaign_reasons,
    format_change,
    notable_parts,
)
from steelyard.answers.results import (
    DIVIDED,
    CampaignAnalysis,
    CellSummary,
    Comparison,
    bounds_phrase,
    cell_name,
    contest,
    decided_early,
    durability_clause,
    effect_at,
    extreme_cells,
    intervals_together,
    is_interim,
    more_minutes,
    pending,
    tone_of,
    verdict_clause,
    verdict_sentence,
    verdict_word,
    what_it_runs,
)
from steelyard.core.experiment import ONE, RATE, Workload
from steelyard.core.findings import Severity, Validity, Verdict, words_of
from steelyard.core.schedule import Load
from steelyard.core.target import EngineName
from steelyard.core.wording import US_PER_S, format_bytes, format_latencies
from steelyard.report import document as doc

_SHOWN: Final = (0.5, 0.99)  # percentiles of the line on latency
_MOST_LOADS: Final = 2  # the least and the largest load say how the rates go
_MB_PER_SCALE: Final = 16  # about, with its indexes: 100,000 accounts
_MB_PER_GB: Final = 1000
_PROGRAMS: Final = {EngineName.POSTGRES: "pgbench", EngineName.REDIS: "redis-benchmark"}


def cards(analysis: CampaignAnalysis) -> tuple[doc.VerdictCard, ...]:
    """Return one card per result; all intervals are drawn along one axis."""
    axis = _axis(analysis)
    return tuple(_card(analysis, each, axis) for each in analysis.results)


def _card(
    analysis: CampaignAnalysis, comparison: Comparison, axis: doc.Axis | None
) -> doc.VerdictCard:
    ranged = doc.bounds(comparison.effect) is not None
    divided = comparison.depends_on_load and ranged
    word = verdict_word(comparison, analysis.experiment.stop.margin)
    price = durability_clause(comparison) if ranged else ""
    return doc.VerdictCard(
        workload=comparison.workload,
        configuration=comparison.configuration,
        contest=contest(comparison),
        word=f"interim: {word}" if ranged and is_interim(analysis) else word,
        tone=tone_of(comparison),
        main=_main(analysis, comparison),
        sentence=verdict_sentence(analysis, comparison),
        claim=f"{comparison.workload}, {verdict_clause(analysis, comparison)}",
        details=_details(analysis, comparison),
        drawing=None if divided or axis is None else _drawing(comparison, axis),
        notes=tuple(_notes(analysis, comparison)),
        price=price,
        marked=(DIVIDED if divided else comparison.verdict.value, price) if ranged else (),
        work=next(
            work_line(each, analysis.experiment.engine)
            for each in analysis.experiment.workloads
            if each.name == comparison.workload
        ),
        levels=level_lines(analysis, comparison),
        latency=_latency_line(analysis, comparison),
        why=why(analysis, comparison),
        money=money_clause(analysis, comparison) if ranged else "",
    )


def _main(analysis: CampaignAnalysis, comparison: Comparison) -> str:
    pair = doc.bounds(comparison.effect)
    if pair is None:
        return "no interval yet"
    if comparison.depends_on_load:
        ends = extreme_cells(analysis, comparison) or ()
        return " to ".join(doc.effect_value(each.effect) for each in ends)
    if comparison.is_mixed:
        return "different by script"
    return bounds_phrase(comparison, pair, analysis.experiment.stop.margin)


def _details(analysis: CampaignAnalysis, comparison: Comparison) -> tuple[str, ...]:
    if doc.bounds(comparison.effect) is None:
        return (pending(comparison),)
    if comparison.depends_on_load:
        blocks = doc.count(comparison.blocks, "block")
        cells = extreme_cells(analysis, comparison) or ()
        ends = (effect_at(analysis.experiment, cell) for cell in cells)
        return (*ends, f"{intervals_together(analysis.experiment)}, {blocks}")
    details = [f"{doc.CONFIDENCE} interval, estimate {doc.effect_value(comparison.effect)}"]
    if comparison.no_practical_weight:
        details.append("of no practical relevance")
    early = f", {comparison.note or 'stopped early'}" if decided_early(analysis, comparison) else ""
    details.append(doc.count(comparison.blocks, "block") + early)
    if comparison.is_of_pair:
        details.append(f"this pair of instances: {comparison.instances} per side")
    more = more_minutes(comparison, analysis.experiment.stop.detect)
    return (*details, more) if more else tuple(details)


def _notes(analysis: CampaignAnalysis, comparison: Comparison) -> Iterator[str]:
    """Yield what limits a verdict and stands nowhere else on its card."""
    told = doc.bounds(comparison.effect) is None or decided_early(analysis, comparison)
    if comparison.note and not told:
        yield comparison.note
    if _only_together(analysis, comparison):
        yield "clear over all client counts together, at none alone"
    if doubt := _suspect(analysis, comparison):
        yield doubt


def _only_together(analysis: CampaignAnalysis, comparison: Comparison) -> bool:
    loads = analysis.experiment.closed_loads
    alone = [_at(analysis, comparison, load) for load in loads]
    differs = Verdict.FASTER, Verdict.SLOWER
    clear = comparison.verdict in differs and not comparison.depends_on_load
    return clear and len(loads) > 1 and not any(each.verdict in differs for each in alone)


def _suspect(analysis: CampaignAnalysis, comparison: Comparison) -> str:
    """Return how many of the measurements behind a verdict are suspect, and by which rule most."""
    sides = {comparison.baseline, comparison.configuration}
    of_it = [
        cell
        for cell in analysis.cells
        if cell.cell.workload == comparison.workload and cell.configuration in sides
    ]
    number, rules = doubts(of_it)
    if not number or doc.bounds(comparison.effect) is None:
        return ""
    why_so = f" ({words_of(rules[0][0])})" if rules else ""
    return f"suspect: {number} of the {doc.count(len(of_it), 'cell')} behind it{why_so}"


def doubts(cells: Sequence[CellSummary]) -> tuple[int, list[tuple[str, int]]]:
    """Return how many cells are not valid, and how many of them each rule doubts.

    The commonest rule comes first.
    """
    doubted = [cell for cell in cells if cell.validity is not Validity.VALID]
    codes = Counter(
        code
        for cell in doubted
        for code in dict.fromkeys(f.code for f in cell.findings if f.severity is not Severity.INFO)
    )
    return len(doubted), codes.most_common()


# What was run, and the rates.


def work_line(workload: Workload, engine: EngineName) -> str:
    """Return what a workload runs, and on how much data: ``pgbench select-only, about 320 MB``."""
    program = f"{_PROGRAMS.get(engine, '')} " if workload.builtin else ""
    parts = [f"{program}{what_it_runs(workload)}"] if what_it_runs(workload) else []
    if workload.scale and engine is EngineName.POSTGRES:
        size = workload.scale * _MB_PER_SCALE
        told = f"{size} MB" if size < _MB_PER_GB else f"{size / _MB_PER_GB:.3g} GB"
        parts.append(f"about {told} of data (scale {workload.scale})")
    if workload.redis is not None and workload.builtin and not workload.builtin.startswith("ping"):
        space = workload.redis.space
        parts.append(f"values of {doc.count(space.value_bytes, 'byte')}")
        parts.append(doc.count(space.keys, "key"))
    return ", ".join(parts)


def level_lines(analysis: CampaignAnalysis, result: Comparison) -> tuple[str, ...]:
    """Return rates at the least and the largest load, rounded, as the verdict has them.

    The first is the baseline's median over runs; the second is that times the effect, which
    compares runs that were made at the same time. Where it is not clear both stand without an
    arrow, and one rate where they are equivalent.
    """
    known = [(load, _baseline(analysis, result, load)) for load in analysis.experiment.closed_loads]
    known = [(load, cells) for load, cells in known if cells]
    ends = known if len(known) <= _MOST_LOADS else [known[0], known[-1]]
    lines = [_line(analysis, result, load, cells) for load, cells in ends]
    many = len(ends[0][1]) if ends else 1
    if many > 1:  # geometric means: effects of factors are means of logs
        load, colon, rates = lines[0].partition(":")
        tied = load.replace(" ", "\N{NO-BREAK SPACE}")
        lines[0] = f"means of {many} combinations, {tied}{colon}{rates}"
    return tuple(lines)


def _line(
    analysis: CampaignAnalysis, result: Comparison, load: Load, cells: Sequence[CellSummary]
) -> str:
    before = math.exp(math.fsum(math.log(cell.tps.value) for cell in cells) / len(cells))
    found = _at(analysis, result, load)
    same = found.verdict is Verdict.EQUIVALENT or found.effect is None
    after = before if same or found.effect is None else before * (1.0 + found.effect.value)
    told = tuple(dict.fromkeys(_about(before, after)))
    clear = found.verdict in (Verdict.FASTER, Verdict.SLOWER)
    rates = (" \N{RIGHTWARDS ARROW} " if clear else " and ").join(told)
    end = " on both sides" if len(told) == 1 else "" if clear else ", not clearly apart"
    return f"{cell_name(analysis.experiment, load)}: about {rates} {RATE}{end}"


def _at(analysis: CampaignAnalysis, result: Comparison, load: Load) -> Comparison:
    """Return a result at one load; the result itself where there is but one."""
    if len(analysis.experiment.closed_loads) == 1:
        return result
    sides = result.workload, result.baseline, result.configuration
    own = (
        each
        for each in analysis.comparisons
        if each.load == load and (each.workload, each.baseline, each.configuration) == sides
    )
    return next(own, result)


def _about(*values: float) -> tuple[str, ...]:
    """Return rates with two significant digits, or as many as tell them apart."""
    told: tuple[str, ...] = ()
    for digits in (2, 3, 4):
        told = tuple(_rounded(each, digits) for each in values)
        if len(set(told)) == len(set(values)):
            return told
    return told


def _rounded(value: float, digits: int) -> str:
    places = digits - 1 - math.floor(math.log10(value))
    return f"{round(value, places):,.{max(0, places)}f}"


def _baseline(
    analysis: CampaignAnalysis, result: Comparison, load: Load
) -> tuple[CellSummary, ...]:
    """Return the cells of the baseline's side; nothing where one has no rate.

    A level of a factor has those of all combinations that count for it.
    """
    found = {
        cell.configuration: cell
        for cell in analysis.cells
        if cell.cell.workload == result.workload and cell.cell.load == load and cell.runs
    }
    names = [configuration.name for configuration in analysis.experiment.configurations]
    for asked in result_contrasts(analysis.experiment):
        if (asked.baseline, asked.configuration) == (result.baseline, result.configuration):
            side = tuple(found.get(names[each]) for each in asked.negative)
            whole = tuple(cell for cell in side if _has_rate(cell))
            return whole if len(whole) == len(side) else ()
    return ()


def _has_rate(cell: CellSummary | None) -> TypeGuard[CellSummary]:
    return cell is not None and math.isfinite(cell.tps.value) and cell.tps.value > 0.0


def _latency_line(analysis: CampaignAnalysis, result: Comparison) -> str:
    """Return which percentiles clearly changed, by how much, at the largest load."""
    loads = analysis.experiment.closed_loads
    latency = analysis.answer(campaign_latency)
    if latency is None or not loads or doc.bounds(result.effect) is None:
        return ""
    sides = result.workload, result.baseline, result.configuration, loads[-1]
    found = [
        each
        for share in _SHOWN
        for each in latency.changes
        if (each.workload, each.baseline, each.configuration, each.load) == sides
        and each.share == share
        and each.change is not None
    ]
    if not found:
        return ""
    at = f" at {cell_name(analysis.experiment, loads[-1])}" if len(loads) > 1 else ""
    if not any(each.called for each in found):
        return (
            f"latency{at}: no clear change in {doc.enumeration(tuple(e.percentile for e in found))}"
        )
    return f"latency{at}: {', '.join(map(_percentile, found))}"


def _percentile(found: LatencyChange) -> str:
    change = f"{doc.effect_value(found.change)} {doc.effect_interval(found.change)}"
    return f"{found.percentile} {change if found.called else 'no clear change'}"


# Why.


class _Tell(NamedTuple):
    """A counter that gives a reason.

    Attributes:
        least: Of a transaction, on the side that has more: less explains nothing. A guess.
        words: What a number of it is, to follow the number.
        shown: A number of it.
    """

    cost: Cost
    least: float
    words: str
    shown: Callable[[float], str] = "{:.3g}".format


def _time(seconds: float) -> str:
    return f"{seconds * US_PER_S:,.3g} µs"


# By what lies nearest to a setting: pages and flushes before the time that they take.
_TELLS: Final = (
    _Tell(Cost.THROTTLED, 1e-6, f"per {ONE} without a CPU, because of the quota", _time),
    _Tell(Cost.PAGES_READ, 0.5, f"pages per {ONE} came from the operating system"),
    _Tell(Cost.WAL_SYNCS, 0.01, f"flushes of the WAL per {ONE}"),
    _Tell(Cost.AOF_DELAYED_FSYNCS, 1e-6, f"delayed fsyncs of the append-only file per {ONE}"),
    _Tell(Cost.AOF_BYTES, 1.0, f"written to the append-only file per {ONE}", format_bytes),
    _Tell(Cost.FULL_PAGE_IMAGES, 0.01, f"full-page images per {ONE}"),
    _Tell(Cost.WAL_BYTES, 16.0, f"WAL per {ONE}", format_bytes),
    _Tell(Cost.DEVICE_READS, 0.01, f"reads of the data device per {ONE}"),
    _Tell(Cost.DEVICE_FLUSHES, 0.01, f"flushes of the data device per {ONE}"),
    _Tell(Cost.DEVICE_WRITES, 0.01, f"writes to the data device per {ONE}"),
    _Tell(Cost.ROWS_READ, 0.5, f"rows and index entries read per {ONE}"),
    _Tell(Cost.SERVER_SWITCHES, 0.5, f"context switches of the server per {ONE}"),
    _Tell(Cost.SERVER_CPU, 1e-6, f"CPU time in the server per {ONE}", _time),
)
_LEAST_RATIO: Final = 1.1  # between the sides; less is not the reason of much. A guess
_LEAST_EXPLAINED: Final = 0.5  # of the effect, both as logs of ratios. A guess
_MANY: Final = 3.0  # times the other side, and what explains anything; without an interval. A guess
_NONE_LEFT: Final = 0.01  # of the other side's: told as none
_REGIME: Final = "cache-regime-differs"  # the pages themselves say it better
_LEAST_PART: Final = 0.25  # of the change in latency: less is not worth a place in the line


def why(analysis: CampaignAnalysis, result: Comparison) -> str:
    """Return in a line which counter moved with a clear difference, and where the time went.

    A counter that moved need not be the cause. Empty without a difference.
    """
    if result.verdict not in (Verdict.FASTER, Verdict.SLOWER) or result.no_practical_weight:
        return ""
    limit = _limit(analysis, result)
    reasons, loads = analysis.answer(campaign_reasons), analysis.experiment.closed_loads
    if reasons is None or not loads:
        return limit
    at = f"at {cell_name(analysis.experiment, loads[-1])} " if len(loads) > 1 else ""
    said = limit or _other_plans(result) or _counter(reasons, result, loads[-1])
    told = [*([said] if said else []), *_part(reasons, result, loads[-1])]
    early = (
        f"reasons need {findings.LEAST_BLOCKS} blocks"
        if result.blocks < findings.LEAST_BLOCKS
        else ""
    )
    return f"{at}{'; '.join(told)}" if told else early or "no clear change in any counter"


def _limit(analysis: CampaignAnalysis, result: Comparison) -> str:
    """Return the limit that a finding gives for the slower side; empty without one."""
    slower = result.baseline if result.verdict is Verdict.FASTER else result.configuration
    _, explaining = findings.split_by_weight(analysis)
    told = [
        each.message.partition("; ")[0].removeprefix(f"{slower}: ")
        for each in explaining
        if each.subject == slower and each.code != _REGIME
    ]
    others = [w.name for w in analysis.experiment.workloads if w.name != result.workload]
    here = (each for each in told if not any(f"under {name} " in each for name in others))
    return next(here, "")


def _other_plans(result: Comparison) -> str:
    """Return which scripts that differ have another plan."""
    found = tuple(each.title for each in result.scripts if each.differs and each.plan_differs)
    return f"another plan of {doc.enumeration(found)}" if found else ""


def _counter(reasons: Reasons, result: Comparison, load: Load) -> str:
    """Return the counter that moved as the verdict did, the nearest to a setting first."""
    for change in reasons.ledger.changes:
        if _is_of(change, result, load):
            by_cost = {each.cost: each for each in change.costs}
            for tell in _TELLS:
                found = by_cost.get(tell.cost)
                if found is not None and _moved(found, tell, result):
                    return _told(found, tell, result)
    return ""


def _is_of(change: LedgerChange | BudgetChange, result: Comparison, load: Load) -> bool:
    sides = change.baseline, change.configuration, change.cell.workload, change.cell.load
    return sides == (result.baseline, result.configuration, result.workload, load)


def _moved(found: CostChange, tell: _Tell, result: Comparison) -> bool:
    """Return whether a cost is clearly higher on the slower side, and by enough for its effect.

    Of too few blocks for an interval it has to be many times higher.
    """
    if found.baseline is None or found.configuration is None:
        return False
    less, more = found.baseline, found.configuration
    if result.verdict is Verdict.FASTER:
        less, more = more, less
    effect = math.log1p(result.effect.value) if result.effect else 0.0
    enough = max(_LEAST_RATIO, math.exp(_LEAST_EXPLAINED * abs(effect)))
    many = found.blocks < findings.LEAST_BLOCKS and more >= _MANY * max(tell.least, less)
    return (found.clear or many) and more >= max(tell.least, enough * less)


def _told(found: CostChange, tell: _Tell, result: Comparison) -> str:
    sides = {
        result.baseline: found.baseline or 0.0,
        result.configuration: found.configuration or 0.0,
    }
    (more, most), (less, least) = sorted(sides.items(), key=lambda side: -side[1])
    rest = "none" if least < _NONE_LEFT * most else tell.shown(least)
    seen = "" if found.clear else f" ({found.blocks} blocks, no interval)"
    return f"{tell.shown(most)} {tell.words} under {more}, {rest} under {less}{seen}"


def _part(reasons: Reasons, result: Comparison, load: Load) -> Iterator[str]:
    """Yield the part of the latency that changed most; not the client's, which no setting moves."""
    for change in reasons.budget.changes:
        if not _is_of(change, result, load) or change.change is None:
            continue
        parts = [each for each in notable_parts(change) if each.part is not Part.CLIENT]
        whole = change.change.value
        if parts and abs(parts[0].change.value) >= _LEAST_PART * abs(whole):
            part = parts[0]
            (of,) = format_latencies([whole], signed=True)
            told = f"{PART_NAMES[part.part]} {format_change(part.change)}"
            yield f"in latency, {told} of {of}"


# The axis.

_SLACK: Final = 0.04  # of the axis' length, free at each end
_MOST_TICKS: Final = 7
_STEPS: Final = (1, 2, 5, 10, 20, 25, 50, 100, 200, 500, 1000)


def _axis(analysis: CampaignAnalysis) -> doc.Axis | None:
    """Return the axis in % that holds zero, the margin and all intervals; None without any."""
    wide = 100 * analysis.experiment.stop.margin
    pairs = (doc.bounds(each.effect) for each in analysis.results if not each.depends_on_load)
    ends = [100 * end for pair in pairs if pair is not None for end in pair]
    if not ends:
        return None
    low, high = min(-wide, *ends), max(wide, *ends)
    step = next((s for s in _STEPS if (high - low) / s < _MOST_TICKS), high - low)
    first = math.ceil(low / step)
    ticks = tuple(float(step * each) for each in range(first, math.floor(high / step) + 1))
    slack = _SLACK * (high - low)
    return doc.Axis(start=low - slack, end=high + slack, margin=wide, ticks=ticks)


def _drawing(comparison: Comparison, axis: doc.Axis) -> doc.IntervalDrawing | None:
    """Return an interval in % along the axis of the page."""
    pair = doc.bounds(comparison.effect)
    if pair is None or comparison.effect is None:
        return None
    low, high = (100 * end for end in pair)
    return doc.IntervalDrawing(low=low, value=100 * comparison.effect.value, high=high, axis=axis)
