"""The percentiles of a report and of ``summary.json``: levels and differences, and a warning.

The warning is of throughput that became better while the slowest transactions did not. Lag behind
a schedule is told in ``capacity``.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Final

from steelyard.answers import results
from steelyard.answers.latency.compute import (
    MAXIMUM,
    SHARES,
    Basis,
    LatencyAnalysis,
    LatencyChange,
    LatencyLevels,
    Moment,
    PercentileLevel,
    TailCurve,
    TailPoint,
    Timed,
    campaign_latency,
    percentile_name,
)
from steelyard.answers.turns import CUT_LATENCY
from steelyard.core.experiment import GENERATOR, MANY, ONE, Experiment, GeneratorName
from steelyard.core.findings import Verdict
from steelyard.core.quantities import PERCENT
from steelyard.core.schedule import CellKey, Load, Pausing
from steelyard.core.wording import MS_PER_S, format_percent, format_share
from steelyard.report import document as doc
from steelyard.report.keys import load_data, row_of
from steelyard.report.texts import Texts

_TEXTS: Final = Texts(__name__)

_MOST_PANELS = 6
_MOST_POINTS = 6000  # as many as keep the page light
_COLUMNS = ("workload", "load", "configuration", "percentile", "at", "latency")
_TAIL_COLUMNS = ("workload", "load", "configuration", "told", "latency", "place")


def _drawn(*figures: doc.Figure) -> tuple[doc.Figure, ...]:
    """Return the pictures that have something to show."""
    return tuple(figure for figure in figures if figure.rows)


def _shown(cells: Sequence[CellKey]) -> tuple[CellKey, ...]:
    """Return all cells where they are few, else each workload's at its largest load."""
    different = tuple(dict.fromkeys(cells))
    if len(different) <= _MOST_PANELS:
        return different
    largest = {cell.workload: cell for cell in sorted(different, key=lambda cell: cell.load.size)}
    return tuple(cell for cell in different if cell in largest.values())[:_MOST_PANELS]


def _panel(analysis: results.CampaignAnalysis, cell: CellKey) -> tuple[str, str]:
    return (cell.workload, results.cell_name(analysis.experiment, cell.load))


def _tails(analysis: results.CampaignAnalysis, found: LatencyAnalysis) -> doc.Figure:
    shown = _shown([curve.cell for curve in found.tails])
    curves = [curve for curve in found.tails if curve.cell in shown]
    fewer = "" if len(shown) == len({c.cell for c in found.tails}) else " Largest loads alone."
    return doc.Figure(
        identity="latency-tail",
        kind=doc.ChartKind.LATENCY_TAIL,
        title="Distribution of latency, to its tail",
        caption=f"The share of all {MANY} that are not slower, blocks together; the axis of shares"
        " is stretched towards the tail. Of two lines the one to the left is faster. Dashed: fewer"
        f" than 10 {MANY} lie beyond. Logarithmic in milliseconds.{fewer}",
        alt=f"Cumulative distribution of latency of {doc.enumeration(analysis.names)} by"
        f" workload and load, from the fastest {ONE} to beyond the 99.9th percentile; the"
        " table of levels holds the percentiles.",
        columns=_TAIL_COLUMNS,
        rows=tuple(row for curve in curves for row in _tail_rows(analysis, curve)),
        configurations=analysis.names,
    )


def _tail_rows(
    analysis: results.CampaignAnalysis, curve: TailCurve
) -> Iterator[tuple[doc.Value, ...]]:
    for values in _tail_values(curve.points):
        yield (*_panel(analysis, curve.cell), curve.configuration, *values)


def _tail_values(points: Sequence[TailPoint]) -> Iterator[tuple[bool, float, float]]:
    """Yield the points that are told, and from the last of them on those that are not.

    Each is whether it is told, its latency in ms, and its place: how many nines.
    """
    positive = [point for point in points if point.latency_s > 0.0]
    told = [point for point in positive if point.told]
    beyond = [*told[-1:], *(point for point in positive if not point.told)]
    for shown, flag in ((told, True), (beyond, False)):
        for point in shown:
            place = round(-math.log10(1.0 - point.share), 4) + 0.0
            yield flag, round(MS_PER_S * point.latency_s, 6), place


def _windows(analysis: results.CampaignAnalysis, found: LatencyAnalysis) -> doc.Figure:
    shown = _shown([moment.cell for moment in found.windows])
    return doc.Figure(
        identity="latency-windows",
        kind=doc.ChartKind.LATENCY_OVER_TIME,
        title="Percentiles over the sustained runs",
        caption="Median, 95th and 99th percentile of every 10 s of each long run, over the seconds"
        " since its start. Logarithmic in milliseconds.",
        alt=f"p50, p95 and p99 of windows of 10 s of {doc.enumeration(analysis.names)}, by"
        " workload.",
        columns=_COLUMNS,
        rows=tuple(_moment_rows(analysis, found.windows, shown)),
        configurations=analysis.names,
    )


def _moment_rows(
    analysis: results.CampaignAnalysis, moments: Sequence[Moment], shown: Sequence[CellKey]
) -> Iterator[tuple[doc.Value, ...]]:
    drawn = [moment for moment in moments if moment.cell in shown]
    step = max(1, -(-sum(len(moment.values) for moment in drawn) // _MOST_POINTS))
    for moment in drawn[::step]:
        for share, value in moment.values:
            if value is not None:
                name, latency = percentile_name(share), round(MS_PER_S * value, 6)
                panel = _panel(analysis, moment.cell)
                yield (*panel, moment.configuration, name, round(moment.at, 1), latency)


TITLE = "Latency"
NOT_ENOUGH = "not enough"
_SPARE = (0.9, 0.95, 0.999)  # left out first where a table is too wide


def latency_section(analysis: results.CampaignAnalysis) -> tuple[doc.Section, ...]:
    """Return what the logs of all transactions say; nothing where there are none."""
    found = analysis.answer(campaign_latency)
    commands = [w.command for w in analysis.experiment.workloads if w.command is not None]
    if commands and not any(command.logs_latencies for command in commands):
        why = _TEXTS.untimed() if any(command.log for command in commands) else _TEXTS.unlogged()
        told: list[doc.Block] = [doc.Paragraph(text=why), *_printed(analysis)]
        return (doc.Section(anchor="latency", title=TITLE, blocks=tuple(told)),)
    if found is None and analysis.is_in_turns and not _logs(analysis):
        return (
            doc.Section(
                anchor="latency", title=TITLE, blocks=(doc.Paragraph(text=_TEXTS.no_log()),)
            ),
        )
    if found is None:
        return ()
    levels = (_levels(analysis, found),) if found.levels else ()
    changes = (_changes(analysis, found.changes),) if found.changes else ()
    course = _drawn(_windows(analysis, found))
    blocks = (*_lead(analysis, found), *levels, *_drawn(_tails(analysis, found)))
    return (doc.Section(anchor="latency", title=TITLE, blocks=blocks, more=(*changes, *course)),)


def _printed(analysis: results.CampaignAnalysis) -> Iterator[doc.Table]:
    """Yield the percentiles that the generator prints, if it prints any."""
    cells = [cell for cell in analysis.cells if cell.percentiles]
    if not cells:
        return
    names = dict.fromkeys(name for cell in cells for name in cell.percentiles or ())
    yield doc.table_of(
        cells,
        ("workload", lambda cell: cell.cell.workload),
        ("configuration", lambda cell: cell.configuration),
        (
            doc.number_column("clients"),
            lambda cell: results.short_load(analysis.experiment, cell.cell.load),
        ),
        *(
            doc.numbers(
                name,
                partial(lambda name, c: doc.milliseconds((c.percentiles or {}).get(name)), name),
                "ms",
            )
            for name in names
        ),
        title=f"Percentiles that {GENERATOR} prints",
        note=_TEXTS.printed(),
        data=row_of,
    )


def _logs(analysis: results.CampaignAnalysis) -> bool:
    return analysis.experiment.system.logs_transactions


def _lead(analysis: results.CampaignAnalysis, found: LatencyAnalysis) -> Iterator[doc.Paragraph]:
    kinds = {each.cell.load.is_open for each in found.levels}
    texts = [_TEXTS.closed_loop()] if False in kinds else []
    texts += [_TEXTS.open_loop()] if True in kinds else []
    sampled = min((each.sampled for each in found.levels), default=1.0)
    if sampled < 1.0:
        share = format_share(sampled)
        texts.append(
            f"The logs hold {share} of the {MANY}, drawn by chance: the longest of all may"
            " not be among them."
        )
    plan = analysis.plan
    if analysis.is_in_turns and plan is not None and plan.pausing is Pausing.GENERATOR:
        texts.append(CUT_LATENCY)
    texts += filter(None, (_latency_label(analysis.experiment),))
    if texts:
        yield doc.Paragraph(text=" ".join(texts))


# redis-benchmark.c, showLatencyReport: powers of two of the share that is left, and every 0.1 ms
# up to 2 ms, every 1 ms after it; its histogram tells 8 us apart, and 0.1 %.
_LONGEST_S = 3.0  # CONFIG_LATENCY_HISTOGRAM_MAX_VALUE of redis-benchmark.c


def _latency_label(experiment: Experiment) -> str:
    """Return how exact the latencies of the generator are; empty where a log tells each of them."""
    if experiment.generator is not GeneratorName.REDIS_BENCHMARK:
        return ""
    piped = any(load.pipeline > 1 for load in experiment.loads)
    return _TEXTS.tables(is_piped=piped)


def _is_clipped(experiment: Experiment, latency_s: float) -> bool:
    """Return whether the generator counts so long a latency as its longest, however long it was."""
    return experiment.generator is GeneratorName.REDIS_BENCHMARK and latency_s >= _LONGEST_S


# --- levels ---


def _levels(analysis: results.CampaignAnalysis, found: LatencyAnalysis) -> doc.Table:
    levels = [each for each in found.levels if each.timed is Timed.LATENCY]
    script: tuple[doc.Column, Callable[[LatencyLevels], str]] = (
        doc.Column(name="script", spare=True),
        lambda each: each.script or "all",
    )
    whole = all(each.sampled >= 1.0 for each in levels)
    is_open = any(each.cell.load.is_open for each in levels)
    return doc.table_of(
        levels,
        *results.cell_columns(analysis.experiment),
        *((script,) if any(each.script for each in levels) else ()),
        (
            doc.number_column(MANY if whole else f"{MANY} logged", spare=True),
            lambda each: f"{each.transactions:,}",
        ),
        *(
            doc.numbers(
                percentile_name(share),
                partial(lambda share, each: level_text(each.at(share)), share),
                "ms",
                spare=share in _SPARE,
            )
            for share in SHARES
        ),
        doc.numbers("max", lambda each: _longest(analysis, each.at(MAXIMUM)), "ms"),
        title=TITLE,
        note=_TEXTS.levels(is_exact=_logs(analysis), is_open=is_open),
        data=row_of,
    )


def _longest(analysis: results.CampaignAnalysis, found: PercentileLevel | None) -> str:
    """Return the longest latency; where the generator tells none so long apart, as a bound."""
    value = None if found is None or found.value_s is None else found.value_s.value
    bound = value is not None and _is_clipped(analysis.experiment, value)
    return f"at least {level_text(found)}" if bound else level_text(found)


def level_text(found: PercentileLevel | None) -> str:
    """Return a percentile in ms, with its interval or with what is lacking."""
    if found is None:
        return doc.MISSING
    if found.beyond_s is not None:
        return f"above {doc.milliseconds(found.beyond_s)}"
    if found.value_s is None:
        return f"{NOT_ENOUGH} [{found.there:,} of {found.needed:,}]"
    told = doc.with_interval(found.value_s, doc.milliseconds)
    return f"{told} [no interval]" if found.basis is Basis.TOGETHER else told


# --- differences ---


def _changes(analysis: results.CampaignAnalysis, changes: Sequence[LatencyChange]) -> doc.Table:
    cells: dict[tuple[str, Load, str], list[LatencyChange]] = {}
    for each in changes:
        cells.setdefault((each.workload, each.load, each.configuration), []).append(each)
    return doc.table_of(
        cells.values(),
        ("workload", lambda cell: cell[0].workload),
        ("configuration", lambda cell: cell[0].configuration),
        doc.numbers("clients", lambda cell: results.short_load(analysis.experiment, cell[0].load)),
        doc.column("clearly", _called),
        *(
            doc.numbers(
                percentile_name(share),
                partial(lambda place, cell: _change_text(cell[place]), place),
                spare=share in _SPARE,
            )
            for place, share in enumerate(SHARES)
        ),
        doc.column("blocks", lambda cell: max(each.blocks for each in cell), doc.WHOLE, spare=True),
        title=f"Latency vs {results.compared_names(analysis)[0]} (baseline)",
        tone=lambda cell: _tone(analysis, cell),
        tone_column=3,
        note=_TEXTS.changes(),
        data=_change_data,
        reason=lambda cell: "; ".join(dict.fromkeys(each.reason for each in cell if each.reason)),
    )


def _change_data(cell: Sequence[LatencyChange]) -> tuple[doc.Datum, ...]:
    """Return the keys of a comparison, and the change of each percentile under its name."""
    first, form = cell[0], doc.Form(unit=PERCENT)
    sides = ("baseline", first.baseline), ("configuration", first.configuration)
    changes = (form.data(percentile_name(each.share), each.change) for each in cell)
    return (("workload", first.workload), *load_data(first.load), *sides, *chain(*changes))


def _called(cell: Sequence[LatencyChange]) -> str:
    """Return what is clear, in words: ``p50, p90 lower; p99 higher``."""
    words = []
    for word in ("lower", "higher"):
        names = [percentile_name(each.share) for each in cell if each.called == word]
        words += [f"{', '.join(names)} {word}"] if names else []
    return "; ".join(words) or "nothing"


def _tone(analysis: results.CampaignAnalysis, cell: Sequence[LatencyChange]) -> doc.Tone:
    called = {each.called for each in cell if each.called}
    if len(called) != 1:
        return doc.Tone.WARNING if called else doc.Tone.OPEN
    tone = doc.Tone.GOOD if called == {"lower"} else doc.Tone.BAD
    sides = cell[0].workload, cell[0].configuration
    own = [each for each in analysis.results if (each.workload, each.configuration) == sides]
    return results.weighed(tone, own[0]) if own else tone


def _change_text(each: LatencyChange) -> str:
    if each.change is None:
        return NOT_ENOUGH if each.reason.startswith(NOT_ENOUGH) else doc.MISSING
    return doc.with_interval(each.change, format_percent)


_TOLD = 0.99
_AGAINST = {Verdict.FASTER: "higher", Verdict.SLOWER: "lower"}


def tail_warnings(analysis: results.CampaignAnalysis) -> Iterator[doc.Paragraph]:
    """Yield a sentence per result whose p99 clearly went the other way than its throughput."""
    for result in analysis.results:
        for verdict, word in _AGAINST.items():
            cells = [
                change
                for change in _tails_of(analysis, result)
                if change.called == word and _verdict_at(analysis, result, change) is verdict
            ]
            if cells:
                yield doc.Paragraph(
                    text=_sentence(analysis, result, verdict, cells), tone=doc.Tone.WARNING
                )


def _tails_of(
    analysis: results.CampaignAnalysis, result: results.Comparison
) -> Iterator[LatencyChange]:
    latency = analysis.answer(campaign_latency)
    for change in latency.changes if latency is not None else ():
        if change.share == _TOLD and _is_of(result, change):
            yield change


def _is_of(result: results.Comparison, other: LatencyChange | results.Comparison) -> bool:
    return (result.workload, result.baseline, result.configuration) == (
        *(other.workload, other.baseline, other.configuration),
    )


def _verdict_at(
    analysis: results.CampaignAnalysis, result: results.Comparison, change: LatencyChange
) -> Verdict | None:
    """Return the cell's own verdict on throughput, else that over all loads."""
    for cell in analysis.comparisons:
        if cell.load == change.load and _is_of(result, cell) and cell.verdict.decided:
            return cell.verdict
    return None if result.depends_on_load else result.verdict


def _sentence(
    analysis: results.CampaignAnalysis,
    result: results.Comparison,
    verdict: Verdict,
    cells: list[LatencyChange],
) -> str:
    told = "; ".join(
        f"{doc.effect_value(cell.change)} {doc.effect_interval(cell.change)} at"
        f" {results.cell_name(analysis.experiment, cell.load)}"
        for cell in cells
    )
    ours, theirs = results.contestants(result)
    word = "longer" if verdict is Verdict.FASTER else "shorter"
    return (
        f"{result.workload}: {ours} is {verdict.value}{results.durability_word(result)} than"
        f" {theirs},"
        f" but its slowest {MANY} take {word}: p99 latency {told}."
    )
