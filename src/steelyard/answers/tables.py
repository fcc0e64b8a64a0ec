"""The charts and tables of a report: cells, comparisons, stalls, settings that differ, facts."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product

from steelyard.answers import results
from steelyard.answers.ceilings import ceiling_tables
from steelyard.answers.cells import level_settings
from steelyard.answers.latency.compute import LatencyAnalysis, campaign_latency
from steelyard.answers.result.section import rankings
from steelyard.answers.sustained.compute import within_bursts
from steelyard.answers.turns import absolute_words
from steelyard.core.experiment import MANY_FIRST, RATE, RATE_UNIT
from steelyard.core.findings import Fact
from steelyard.core.measurement import Run
from steelyard.core.schedule import CellKey, Load
from steelyard.report import document as doc
from steelyard.stats.spending import has_many_cells

# A strip of five to ten points per run stays legible, and the page light, up to about this many.
_MOST_STRIP_POINTS = 6000

_ASIDE = 0.08  # of the distance between two loads
_ASIDE_IN_ALL = 0.64  # so that the combinations of factors stay nearer to their load than the next


def chart_section(analysis: results.CampaignAnalysis) -> tuple[doc.Section, ...]:
    """Return the charts that have something to show; nothing when none has."""
    effects = tuple(figure for figure in _effects_by_load(analysis) if figure.rows)
    if rankings(analysis):  # where they are many, the picture of all effects is read with them
        alone = doc.Section(anchor="effects", title="All effects", blocks=effects, first=True)
        return (alone, *_charts(_loads(analysis), _blocks(analysis), _strips(analysis)))
    return _charts(*effects, _loads(analysis), _blocks(analysis), _strips(analysis))


def _charts(*figures: doc.Figure) -> tuple[doc.Section, ...]:
    drawn = tuple(figure for figure in figures if figure.rows)
    return (doc.Section(anchor="charts", title="Charts", blocks=drawn),) if drawn else ()


def _percent(fraction: float | None) -> float | None:
    value = doc.present(fraction)
    return None if value is None else 100.0 * value


def _effects_by_load(analysis: results.CampaignAnalysis) -> tuple[doc.Figure, ...]:
    """Return the effects; none of factors under one load, which have their own section."""
    attributed = analysis.experiment.attribution is not None
    return (
        () if attributed and len(analysis.experiment.closed_loads) == 1 else (_effects(analysis),)
    )


def _effects(analysis: results.CampaignAnalysis) -> doc.Figure:
    margin = doc.share(analysis.experiment.stop.margin)
    marks = "diamonds are results with their intervals"
    if len(analysis.experiment.closed_loads) > 1:
        marks = "diamonds are results over all loads, dots cells "
        marks += f"({results.cells_together(analysis.experiment)})"
    sentences = "; ".join(results.verdict_sentence(analysis, c) for c in analysis.results)
    return doc.Figure(
        identity="effects",
        kind=doc.ChartKind.EFFECTS,
        title="Effects with their intervals",
        caption=f"Difference in {RATE} against {results.compared_names(analysis)[0]}: {marks}; the"
        " grey "
        f"band is ±{margin}, of no practical weight. Each workload has its own axis.",
        alt=f"Forest plot of effects on {RATE}. {sentences}.",
        columns=(
            *("workload", "configuration", "place", "row", "pooled", "text"),
            *("effect", "low", "high", "below", "margin"),
        ),
        rows=tuple(_effect_rows(analysis)),
        configurations=results.compared_names(analysis),
    )


def _effect_rows(analysis: results.CampaignAnalysis) -> Iterator[tuple[doc.Value, ...]]:
    margin = _percent(analysis.experiment.stop.margin)
    places: dict[str, int] = {}
    for c in analysis.comparisons:
        if c.effect is None or _redundant(analysis, c):
            continue
        place = places[c.workload] = places.get(c.workload, -1) + 1
        low, high = doc.bounds(c.effect) or (None, None)
        interval = (
            "no interval yet" if doc.bounds(c.effect) is None else doc.effect_interval(c.effect)
        )
        yield (
            *(c.workload, c.configuration, place, _effect_name(analysis, c), c.load is None),
            f"{doc.effect_value(c.effect)} {interval}",
            *(_percent(c.effect.value), _percent(low), _percent(high)),
            *(None if margin is None else -margin, margin),
        )


def _redundant(analysis: results.CampaignAnalysis, comparison: results.Comparison) -> bool:
    """Return whether it is the only cell of a result: the same blocks, shown once."""
    return len(analysis.experiment.closed_loads) == 1 and comparison.load is not None


def _effect_name(analysis: results.CampaignAnalysis, comparison: results.Comparison) -> str:
    experiment = analysis.experiment
    if len(experiment.closed_loads) == 1:
        return comparison.configuration
    name = results.cell_name(experiment, comparison.load)
    return name if len(experiment.contenders) == 1 else f"{comparison.configuration} · {name}"


def _loads(analysis: results.CampaignAnalysis) -> doc.Figure:
    several = len(analysis.experiment.closed_loads) > 1
    return doc.Figure(
        identity="loads",
        kind=doc.ChartKind.LOADS,
        title=f"{MANY_FIRST} per second over loads" if several else f"{MANY_FIRST} per second",
        caption=_load_caption(analysis),
        alt=f"{MANY_FIRST} per second of {doc.enumeration(analysis.names)} by workload and load;"
        " the"
        " table of cells holds the same numbers.",
        columns=(
            *("workload", "configuration", "row", "pooled", "text"),
            *("clients", "order", "place", "tps", "low", "high"),
        ),
        rows=tuple(_load_rows(analysis)),
        configurations=analysis.names,
    )


def _load_caption(analysis: results.CampaignAnalysis) -> str:
    if analysis.experiment.is_single_pass:
        return f"A {results.LABEL}: one run per point, no interval. Each workload has its own axis."
    return (
        "Median of the runs with its interval over blocks. Each workload has its own axis; the "
        "medians move with the machine, so read differences from the effects above."
    )


def _load_rows(analysis: results.CampaignAnalysis) -> Iterator[tuple[doc.Value, ...]]:
    loads, names = analysis.experiment.closed_loads, analysis.names
    for cell in analysis.cells:
        # What an open loop completes was asked for: it is no throughput of the server.
        if cell.cell.load.is_open or not cell.runs or doc.present(cell.tps.value) is None:
            continue
        load = cell.cell.load
        order = loads.index(load) if load in loads else len(loads)
        # Side by side, so that intervals of configurations that are alike do not cover one another.
        aside = min(_ASIDE, _ASIDE_IN_ALL / len(names)) * (
            names.index(cell.configuration) - (len(names) - 1) / 2
        )
        interval = (
            "no interval"
            if doc.bounds(cell.tps) is None
            else f"({doc.between(cell.tps, doc.rate)})"
        )
        text = f"{doc.rate(cell.tps.value)} {interval}"
        yield (
            *(cell.cell.workload, cell.configuration, cell.configuration, False, text),
            *(results.short_load(analysis.experiment, load), order, round(order + aside, 4)),
            *(cell.tps.value, *(doc.bounds(cell.tps) or (None, None))),
        )


def _blocks(analysis: results.CampaignAnalysis) -> doc.Figure:
    return doc.Figure(
        identity="blocks",
        kind=doc.ChartKind.BLOCKS,
        title="Block by block",
        caption="Each dot is one block's effect, in run order; the line is their running mean, the"
        f" shaded band the final {doc.CONFIDENCE} interval (none before the first interim result)."
        " A"
        " slope would mean that the effect drifted.",
        alt=f"Effect of each of {doc.count(analysis.blocks, 'block')} in run order, by workload"
        " and "
        "configuration, with the running mean and the final interval.",
        columns=("workload", "configuration", "block", "log_ratio", "low", "high"),
        rows=tuple(row for c in analysis.results for row in _contrast_rows(c)),
        configurations=results.compared_names(analysis),
    )


def _contrast_rows(comparison: results.Comparison) -> Iterator[tuple[doc.Value, ...]]:
    low, high = doc.bounds(comparison.effect) or (None, None)
    for number, contrast in enumerate(comparison.contrasts, start=1):
        if math.isfinite(contrast):
            ends = (_percent(low), _percent(high))
            yield (comparison.workload, comparison.configuration, number, contrast, *ends)


_WITH_RAMP = "the faded start of each is the ramp, which does not count"
_IN_TURNS = (
    "each is that of the turns of one configuration in one block, without the pauses between them"
)


def _strips(analysis: results.CampaignAnalysis) -> doc.Figure:
    points = sum(len(r.measurement.series) for r in analysis.runs if r.measurement is not None)
    every = max(1, math.ceil(points / _MOST_STRIP_POINTS))
    thinned = (
        "" if every == 1 else f" Of {analysis.blocks} blocks every {_ordinal(every)} is drawn."
    )
    return doc.Figure(
        identity="strips",
        kind=doc.ChartKind.STRIPS,
        title="Turn by turn" if analysis.is_in_turns else "Second by second",
        caption=f"{MANY_FIRST} per second of every run, runs in the order they were made; "
        f"{_IN_TURNS if analysis.is_in_turns else _WITH_RAMP}.{thinned}",
        alt=f"{'Rates of the turns' if analysis.is_in_turns else 'One-second rates'} of"
        f" {doc.count(len(analysis.runs), 'run')}, by workload and load, coloured by"
        " configuration.",
        columns=("workload", "load", "configuration", "run", "at", "tps", "ramp"),
        rows=tuple(_strip_rows(analysis, every)),
        configurations=analysis.names,
    )


def _ordinal(number: int) -> str:
    return {2: "2nd", 3: "3rd"}.get(number, f"{number}th")


def _strip_rows(analysis: results.CampaignAnalysis, every: int) -> Iterator[tuple[doc.Value, ...]]:
    experiment = analysis.experiment
    for workload, load in product(experiment.workloads, experiment.loads):
        cell = CellKey(workload=workload.name, load=load)
        runs = (r for r in analysis.runs if r.cell == cell and r.block % every == 0)
        panel = (workload.name, results.cell_name(experiment, load))
        for place, run in enumerate((r for r in runs if r.measurement is not None), start=1):
            yield from _seconds(analysis, run, panel, place)


def _seconds(
    analysis: results.CampaignAnalysis, run: Run, panel: tuple[str, str], place: int
) -> Iterator[tuple[doc.Value, ...]]:
    """Return a run's points; ``at`` counts runs from 1, and each run fills most of one unit."""
    series = run.measurement.series if run.measurement is not None else ()
    if not series:
        return
    yield (*panel, run.configuration, place, float(place), None, False)  # lifts the pen
    ramp_s = 0.0 if run.turns else analysis.experiment.measure.discard_start_s
    whole_s = series[-1].end_s
    for second in series:
        if second.seconds > 0 and whole_s > 0:
            at = round(place + 0.1 + 0.9 * second.end_s / whole_s, 4)
            tps = round(second.transactions / second.seconds, 2)
            in_ramp = second.end_s - second.seconds / 2 < ramp_s
            yield (*panel, run.configuration, place, at, tps, in_ramp)


_CELL_NOTE = (
    "Medians over the runs of complete blocks, with the signed-rank interval over blocks (none"
    " below 6 blocks). They move with the machine: compare configurations by the table of"
    " comparisons only."
)
_BRIEF = (
    "Effects are ratios within blocks, not of the medians under Cells: where the machine moved"
    " between blocks the two differ, even in sign."
)
_SINGLE_NOTE = (
    "One run each, in the order of the table's workloads and loads: there is no interval, and "
    "rows must not be compared with one another."
)


def comparison_section(analysis: results.CampaignAnalysis) -> doc.Section:
    """Return every cell's comparison against the baseline, and the stalls."""
    cells = [c for c in analysis.comparisons if c.load is not None]
    if not cells:
        text = results.uncompared(analysis.experiment)
        text = text or "Not measured: no block is complete, so no cell was compared."
        return doc.Section(
            anchor="comparisons", title="Comparisons per cell", blocks=(doc.Paragraph(text=text),)
        )
    title = f"Comparisons per cell, against {results.compared_names(analysis)[0]}"
    margin = analysis.experiment.stop.margin
    table = doc.table_of(
        cells,
        ("workload", lambda c: c.workload),
        ("configuration", lambda c: c.configuration),
        (doc.number_column("clients"), lambda c: _clients(c.load)),
        (
            doc.number_column("threads", spare=True),
            lambda c: doc.MISSING if c.load is None else str(c.load.threads),
        ),
        (doc.number_column(f"effect on {RATE}"), lambda c: doc.effect_value(c.effect)),
        (doc.number_column(f"{doc.CONFIDENCE} interval"), lambda c: doc.effect_interval(c.effect)),
        ("verdict", lambda c: results.verdict_word(c, margin)),
        (doc.number_column("blocks", spare=True), lambda c: str(c.blocks)),
        (
            doc.number_column("more time", spare=True),
            lambda c: results.time_to_decide(c) or doc.MISSING,
        ),
        title=title,
        note=_comparison_note(analysis),
        brief=_BRIEF,
        tone=results.tone_of,
        tone_column=6,
    )
    blocks = (table, *_stall_blocks(analysis.stalls))
    return doc.Section(anchor="comparisons", title=title, blocks=blocks)


def _clients(load: Load | None) -> str:
    """Return the clients of a load, with its rate where it has one."""
    if load is None:
        return results.load_name(load)
    return f"{load.clients} at {load.rate_label}" if load.is_open else f"{load.clients}"


def _comparison_note(analysis: results.CampaignAnalysis) -> str:
    ratios = (
        "Effects come from the ratios within blocks, not from the medians in the cells. "
        f"More time is about what would decide {doc.share(analysis.experiment.stop.detect)}."
    )
    if len(analysis.experiment.closed_loads) == 1:
        return f"With one load, each result and its cell rest on the same blocks. {ratios}"
    first = (
        "" if analysis.plan is None else f" (from block {analysis.plan.stopping.cell_first_look})"
    )
    if has_many_cells(len(analysis.experiment.closed_loads)):
        return f"{_many_cells_note(analysis, first)} {ratios}"
    return (
        f"Simultaneous intervals{first}: those of one configuration and workload hold together at "
        f"{doc.CONFIDENCE}, so each is wider than it would be alone. {ratios}"
    )


def _many_cells_note(analysis: results.CampaignAnalysis, first: str) -> str:
    return (
        f"{len(analysis.experiment.closed_loads)} cells{first}: too many for simultaneous intervals"
        " alone. Those called faster or slower were chosen so that at most 5 % of them are expected"
        " to be wrong (false discovery rate), and their intervals hold at"
        f" {doc.CONFIDENCE} on average. The others have simultaneous intervals, which are wider:"
        " not to"
        " be called different is no evidence of being equal."
    )


def _stall_blocks(stalls: tuple[results.StallTest, ...]) -> tuple[doc.Block, ...]:
    if not stalls:
        return ()
    if not any(s.baseline_stalled or s.configuration_stalled for s in stalls):
        return (doc.Paragraph(text="Stalls: no run stalled."),)
    table = doc.table_of(
        stalls,
        ("workload", lambda s: s.workload),
        ("configuration", lambda s: s.configuration),
        (
            doc.number_column("stalled runs"),
            lambda s: f"{s.configuration_stalled} of {s.configuration_runs}",
        ),
        (
            doc.number_column("stalled runs of the baseline"),
            lambda s: f"{s.baseline_stalled} of {s.baseline_runs}",
        ),
        ("Fisher's exact test", lambda s: doc.p_value(s.p_value)),
        title="Stalls",
        note="A run stalled if it fell far below its cell's median. The effects above discount"
        " stalls.",
    )
    return (table,)


def cell_section(analysis: results.CampaignAnalysis) -> doc.Section:
    """Return what was measured in each cell."""
    if not analysis.cells:
        text = "Not measured: no block is complete."
        return doc.Section(anchor="cells", title="Cells", blocks=(doc.Paragraph(text=text),))
    logged = analysis.answer(campaign_latency) is not None
    table = doc.Table(
        title="Cells",
        columns=(
            doc.Column(name="configuration"),
            doc.Column(name="workload"),
            doc.number_column("clients"),
            doc.number_column("threads", spare=True),
            doc.number_column("runs", spare=True),
            doc.number_column(RATE, RATE_UNIT),
            doc.number_column(f"{doc.CONFIDENCE} interval", "1/s"),
            doc.number_column("mean latency", "ms", spare=True),
            *((doc.number_column("p99", "ms", spare=True),) if logged else ()),
            doc.Column(name="validity"),
            doc.number_column("stalls", spare=True),
            *((doc.Column(name="lasting"),) if analysis.answer(within_bursts) else ()),
        ),
        rows=tuple(_lasting_row(analysis, cell) for cell in analysis.cells),
        tone_column=9 if logged else 8,
        note=_note(analysis),
        brief=absolute_words(analysis.plan),
    )
    return doc.Section(anchor="cells", title="Cells", blocks=(table,))


def _note(analysis: results.CampaignAnalysis) -> str:
    experiment = analysis.experiment
    told = _SINGLE_NOTE if experiment.is_single_pass else _CELL_NOTE
    turns = absolute_words(analysis.plan)
    return " ".join(filter(None, (told, turns, results.one_key_label(experiment))))


def _lasting_row(analysis: results.CampaignAnalysis, cell: results.CellSummary) -> doc.Row:
    """Return a cell's row; where burst credits are known, with what they leave unsaid."""
    row = _cell_row(cell, analysis.answer(campaign_latency))
    limited = analysis.answer(within_bursts)
    if not limited:
        return row
    within = (cell.configuration, cell.cell.workload) in limited
    return replace(row, cells=(*row.cells, results.BURST_ONLY if within else doc.MISSING))


def _cell_row(cell: results.CellSummary, latency: LatencyAnalysis | None) -> doc.Row:
    load = cell.cell.load
    measured = cell.runs > 0
    # The section on latency says why a percentile is not told.
    tail_s = () if latency is None else (latency.percentile_s(cell.configuration, cell.cell, 0.99),)
    return doc.Row(
        cells=(
            cell.configuration,
            cell.cell.workload,
            _clients(load),
            str(load.threads),
            str(cell.runs),
            doc.rate(cell.tps.value) if measured else doc.MISSING,
            doc.between(cell.tps, doc.rate) if measured else doc.MISSING,
            doc.milliseconds(cell.latency_mean_s),
            *map(doc.milliseconds, tail_s),
            cell.validity.value if measured else "not measured",
            str(cell.stalled) if measured else doc.MISSING,
        ),
        tone=doc.TONES[cell.validity],
    )


def settings_section(analysis: results.CampaignAnalysis) -> doc.Section:
    """Return the effective settings that differ between the configurations."""
    title = "Effective settings that differ"
    if not analysis.settings:
        text = "None, as far as the servers were asked."
        if analysis.blocks == 0:
            text = "Not measured: no server was asked for its settings in a complete block."
        return doc.Section(anchor="settings", title=title, blocks=(doc.Paragraph(text=text),))
    if analysis.experiment.attribution is not None:
        return level_settings(analysis, analysis.experiment.attribution, title)
    columns = (
        doc.Column(name="setting"),
        *(
            doc.Column(name=t.name, align=doc.Align.RIGHT)
            for t in analysis.experiment.configurations
        ),
        doc.Column(name="asked for"),
    )
    rows = tuple(
        doc.Row(
            cells=(
                difference.name,
                *(doc.MISSING if value is None else value for value in difference.values),
                "yes" if difference.requested else "no",
            )
        )
        for difference in analysis.settings
    )
    note = "As the running servers reported them, not as they were asked for."
    table = doc.Table(title=title, columns=columns, rows=rows, note=note)
    return doc.Section(anchor="settings", title=title, blocks=(table,))


def fact_section(analysis: results.CampaignAnalysis) -> doc.Section:
    """Return the facts of machine, tools and servers, grouped by what they are about."""
    blocks: tuple[doc.Block, ...] = tuple(
        doc.KeyValues(title=subject, pairs=tuple((f.name, f.value) for f in facts))
        for subject, facts in _by_subject(analysis.facts)
    )
    if not blocks:
        blocks = (
            doc.Paragraph(text="Not recorded: the campaign ended before they were gathered."),
        )
    blocks = (*blocks, *ceiling_tables(analysis))
    return doc.Section(anchor="facts", title="Machine, tools and servers", blocks=blocks)


def _by_subject(facts: Iterable[Fact]) -> tuple[tuple[str, tuple[Fact, ...]], ...]:
    groups: dict[str, list[Fact]] = {}
    for fact in facts:
        groups.setdefault(fact.subject, []).append(fact)
    return tuple((subject, tuple(members)) for subject, members in groups.items())
