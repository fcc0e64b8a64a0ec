"""The charts and tables of a report: cells, comparisons, stalls, settings that differ, facts."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product

from steelyard.answers.ceilings import ceiling_tables
from steelyard.answers.cells import level_settings
from steelyard.answers.latency.compute import campaign_latency
from steelyard.answers.latency.results import LatencyAnalysis
from steelyard.answers.result.section import rankings
from steelyard.answers.results import (
    BURST_ONLY,
    LABEL,
    CampaignAnalysis,
    CellSummary,
    Comparison,
    StallTest,
    cell_name,
    cells_together,
    compared_names,
    load_name,
    one_key_label,
    short_load,
    time_to_decide,
    tone_of,
    uncompared,
    verdict_sentence,
    verdict_word,
)
from steelyard.answers.sustained.compute import within_bursts
from steelyard.answers.turns import absolute_words
from steelyard.core.experiment import MANY_FIRST, RATE, RATE_UNIT
from steelyard.core.measurement import Fact, Run
from steelyard.core.schedule import CellKey, Load
from steelyard.report.document import (
    CONFIDENCE,
    MISSING,
    TONES,
    Align,
    Block,
    ChartKind,
    Column,
    Figure,
    KeyValues,
    Paragraph,
    Row,
    Section,
    Table,
    Value,
    between,
    bounds,
    count,
    effect_interval,
    effect_value,
    enumeration,
    milliseconds,
    number_column,
    p_value,
    present,
    rate,
    share,
    table_of,
)
from steelyard.stats.spending import has_many_cells

# A strip of five to ten points per run stays legible, and the page light, up to about this many.
_MOST_STRIP_POINTS = 6000

_ASIDE = 0.08  # of the distance between two loads
_ASIDE_IN_ALL = 0.64  # so that the combinations of factors stay nearer to their load than the next


def chart_section(analysis: CampaignAnalysis) -> tuple[Section, ...]:
    """Return the charts that have something to show; nothing when none has."""
    effects = tuple(figure for figure in _effects_by_load(analysis) if figure.rows)
    if rankings(analysis):  # where they are many, the picture of all effects is read with them
        alone = Section(anchor="effects", title="All effects", blocks=effects, first=True)
        return (alone, *_charts(_loads(analysis), _blocks(analysis), _strips(analysis)))
    return _charts(*effects, _loads(analysis), _blocks(analysis), _strips(analysis))


def _charts(*figures: Figure) -> tuple[Section, ...]:
    drawn = tuple(figure for figure in figures if figure.rows)
    return (Section(anchor="charts", title="Charts", blocks=drawn),) if drawn else ()


def _percent(fraction: float | None) -> float | None:
    value = present(fraction)
    return None if value is None else 100.0 * value


def _effects_by_load(analysis: CampaignAnalysis) -> tuple[Figure, ...]:
    """Return the effects; none of factors under one load, which have their own section."""
    attributed = analysis.experiment.attribution is not None
    return (
        () if attributed and len(analysis.experiment.closed_loads) == 1 else (_effects(analysis),)
    )


def _effects(analysis: CampaignAnalysis) -> Figure:
    margin = share(analysis.experiment.stop.equivalence)
    marks = "diamonds are results with their intervals"
    if len(analysis.experiment.closed_loads) > 1:
        marks = "diamonds are results over all loads, dots cells "
        marks += f"({cells_together(analysis.experiment)})"
    sentences = "; ".join(verdict_sentence(analysis, c) for c in analysis.results)
    return Figure(
        identity="effects",
        kind=ChartKind.EFFECTS,
        title="Effects with their intervals",
        caption=f"Difference in {RATE} against {compared_names(analysis)[0]}: {marks}; the grey "
        f"band is ±{margin}, of no practical weight. Each workload has its own axis.",
        alt=f"Forest plot of effects on {RATE}. {sentences}.",
        columns=(
            *("workload", "configuration", "place", "row", "pooled", "text"),
            *("effect", "low", "high", "below", "margin"),
        ),
        rows=tuple(_effect_rows(analysis)),
        configurations=compared_names(analysis),
    )


def _effect_rows(analysis: CampaignAnalysis) -> Iterator[tuple[Value, ...]]:
    margin = _percent(analysis.experiment.stop.equivalence)
    places: dict[str, int] = {}
    for c in analysis.comparisons:
        if c.effect is None or _redundant(analysis, c):
            continue
        place = places[c.workload] = places.get(c.workload, -1) + 1
        low, high = bounds(c.effect) or (None, None)
        interval = "no interval yet" if bounds(c.effect) is None else effect_interval(c.effect)
        yield (
            *(c.workload, c.configuration, place, _effect_name(analysis, c), c.load is None),
            f"{effect_value(c.effect)} {interval}",
            *(_percent(c.effect.value), _percent(low), _percent(high)),
            *(None if margin is None else -margin, margin),
        )


def _redundant(analysis: CampaignAnalysis, comparison: Comparison) -> bool:
    """Return whether it is the only cell of a result: the same blocks, shown once."""
    return len(analysis.experiment.closed_loads) == 1 and comparison.load is not None


def _effect_name(analysis: CampaignAnalysis, comparison: Comparison) -> str:
    experiment = analysis.experiment
    if len(experiment.closed_loads) == 1:
        return comparison.configuration
    name = cell_name(experiment, comparison.load)
    return name if len(experiment.contenders) == 1 else f"{comparison.configuration} · {name}"


def _loads(analysis: CampaignAnalysis) -> Figure:
    several = len(analysis.experiment.closed_loads) > 1
    return Figure(
        identity="loads",
        kind=ChartKind.LOADS,
        title=f"{MANY_FIRST} per second over loads" if several else f"{MANY_FIRST} per second",
        caption=_load_caption(analysis),
        alt=f"{MANY_FIRST} per second of {enumeration(analysis.names)} by workload and load; the"
        " table of cells holds the same numbers.",
        columns=(
            *("workload", "configuration", "row", "pooled", "text"),
            *("clients", "order", "place", "tps", "low", "high"),
        ),
        rows=tuple(_load_rows(analysis)),
        configurations=analysis.names,
    )


def _load_caption(analysis: CampaignAnalysis) -> str:
    if analysis.experiment.is_single_pass:
        return f"A {LABEL}: one run per point, no interval. Each workload has its own axis."
    return (
        "Median of the runs with its interval over blocks. Each workload has its own axis; the "
        "medians move with the machine, so read differences from the effects above."
    )


def _load_rows(analysis: CampaignAnalysis) -> Iterator[tuple[Value, ...]]:
    loads, names = analysis.experiment.closed_loads, analysis.names
    for cell in analysis.cells:
        # What an open loop completes was asked for: it is no throughput of the server.
        if cell.cell.load.is_open or not cell.runs or present(cell.tps.value) is None:
            continue
        load = cell.cell.load
        order = loads.index(load) if load in loads else len(loads)
        # Side by side, so that intervals of configurations that are alike do not cover one another.
        aside = min(_ASIDE, _ASIDE_IN_ALL / len(names)) * (
            names.index(cell.configuration) - (len(names) - 1) / 2
        )
        interval = "no interval" if bounds(cell.tps) is None else f"({between(cell.tps, rate)})"
        text = f"{rate(cell.tps.value)} {interval}"
        yield (
            *(cell.cell.workload, cell.configuration, cell.configuration, False, text),
            *(short_load(analysis.experiment, load), order, round(order + aside, 4)),
            *(cell.tps.value, *(bounds(cell.tps) or (None, None))),
        )


def _blocks(analysis: CampaignAnalysis) -> Figure:
    return Figure(
        identity="blocks",
        kind=ChartKind.BLOCKS,
        title="Block by block",
        caption="Each dot is one block's effect, in run order; the line is their running mean, the"
        f" shaded band the final {CONFIDENCE} interval (none before the first interim result). A"
        " slope would mean that the effect drifted.",
        alt=f"Effect of each of {count(analysis.blocks, 'block')} in run order, by workload and "
        "configuration, with the running mean and the final interval.",
        columns=("workload", "configuration", "block", "log_ratio", "low", "high"),
        rows=tuple(row for c in analysis.results for row in _contrast_rows(c)),
        configurations=compared_names(analysis),
    )


def _contrast_rows(comparison: Comparison) -> Iterator[tuple[Value, ...]]:
    low, high = bounds(comparison.effect) or (None, None)
    for number, contrast in enumerate(comparison.contrasts, start=1):
        if math.isfinite(contrast):
            ends = (_percent(low), _percent(high))
            yield (comparison.workload, comparison.configuration, number, contrast, *ends)


_WITH_RAMP = "the faded start of each is the ramp, which does not count"
_IN_TURNS = (
    "each is that of the turns of one configuration in one block, without the pauses between them"
)


def _strips(analysis: CampaignAnalysis) -> Figure:
    every = _thinning(analysis)
    thinned = (
        "" if every == 1 else f" Of {analysis.blocks} blocks every {_ordinal(every)} is drawn."
    )
    return Figure(
        identity="strips",
        kind=ChartKind.STRIPS,
        title="Turn by turn" if analysis.is_in_turns else "Second by second",
        caption=f"{MANY_FIRST} per second of every run, runs in the order they were made; "
        f"{_IN_TURNS if analysis.is_in_turns else _WITH_RAMP}.{thinned}",
        alt=f"{'Rates of the turns' if analysis.is_in_turns else 'One-second rates'} of"
        f" {count(len(analysis.runs), 'run')}, by workload and load, coloured by configuration.",
        columns=("workload", "load", "configuration", "run", "at", "tps", "ramp"),
        rows=tuple(_strip_rows(analysis, every)),
        configurations=analysis.names,
    )


def _ordinal(number: int) -> str:
    return {2: "2nd", 3: "3rd"}.get(number, f"{number}th")


def _thinning(analysis: CampaignAnalysis) -> int:
    points = sum(len(r.measurement.series) for r in analysis.runs if r.measurement is not None)
    return max(1, math.ceil(points / _MOST_STRIP_POINTS))


def _strip_rows(analysis: CampaignAnalysis, every: int) -> Iterator[tuple[Value, ...]]:
    experiment = analysis.experiment
    for workload, load in product(experiment.workloads, experiment.loads):
        cell = CellKey(workload=workload.name, load=load)
        runs = (r for r in analysis.runs if r.cell == cell and r.block % every == 0)
        panel = (workload.name, cell_name(experiment, load))
        for place, run in enumerate((r for r in runs if r.measurement is not None), start=1):
            yield from _seconds(analysis, run, panel, place)


def _seconds(
    analysis: CampaignAnalysis, run: Run, panel: tuple[str, str], place: int
) -> Iterator[tuple[Value, ...]]:
    """Return a run's points; ``at`` counts runs from 1, and each run fills most of one unit."""
    series = run.measurement.series if run.measurement is not None else ()
    if not series:
        return
    yield (*panel, run.configuration, place, float(place), None, False)  # lifts the pen
    ramp_s = 0.0 if run.turns else analysis.experiment.measure.ramp_s
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


def comparison_section(analysis: CampaignAnalysis) -> Section:
    """Return every cell's comparison against the baseline, and the stalls."""
    cells = [c for c in analysis.comparisons if c.load is not None]
    if not cells:
        text = uncompared(analysis.experiment)
        text = text or "Not measured: no block is complete, so no cell was compared."
        return Section(
            anchor="comparisons", title="Comparisons per cell", blocks=(Paragraph(text=text),)
        )
    title = f"Comparisons per cell, against {compared_names(analysis)[0]}"
    margin = analysis.experiment.stop.equivalence
    table = table_of(
        cells,
        ("workload", lambda c: c.workload),
        ("configuration", lambda c: c.configuration),
        (number_column("clients"), lambda c: _clients(c.load)),
        (
            number_column("threads", spare=True),
            lambda c: MISSING if c.load is None else str(c.load.threads),
        ),
        (number_column(f"effect on {RATE}"), lambda c: effect_value(c.effect)),
        (number_column(f"{CONFIDENCE} interval"), lambda c: effect_interval(c.effect)),
        ("verdict", lambda c: verdict_word(c, margin)),
        (number_column("blocks", spare=True), lambda c: str(c.blocks)),
        (number_column("more time", spare=True), lambda c: time_to_decide(c) or MISSING),
        title=title,
        note=_comparison_note(analysis),
        brief=_BRIEF,
        tone=tone_of,
        tone_column=6,
    )
    blocks = (table, *_stall_blocks(analysis.stalls))
    return Section(anchor="comparisons", title=title, blocks=blocks)


def _clients(load: Load | None) -> str:
    """Return the clients of a load, with its rate where it has one."""
    if load is None:
        return load_name(load)
    return f"{load.clients} at {load.rate_label}" if load.is_open else f"{load.clients}"


def _comparison_note(analysis: CampaignAnalysis) -> str:
    ratios = (
        "Effects come from the ratios within blocks, not from the medians in the cells. "
        f"More time is about what would decide {share(analysis.experiment.stop.decide)}."
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
        f"{CONFIDENCE}, so each is wider than it would be alone. {ratios}"
    )


def _many_cells_note(analysis: CampaignAnalysis, first: str) -> str:
    return (
        f"{len(analysis.experiment.closed_loads)} cells{first}: too many for simultaneous intervals"
        " alone. Those called faster or slower were chosen so that at most 5 % of them are expected"
        " to be wrong (false discovery rate), and their intervals hold at"
        f" {CONFIDENCE} on average. The others have simultaneous intervals, which are wider: not to"
        " be called different is no evidence of being equal."
    )


def _stall_blocks(stalls: tuple[StallTest, ...]) -> tuple[Block, ...]:
    if not stalls:
        return ()
    if not any(s.baseline_stalled or s.configuration_stalled for s in stalls):
        return (Paragraph(text="Stalls: no run stalled."),)
    table = table_of(
        stalls,
        ("workload", lambda s: s.workload),
        ("configuration", lambda s: s.configuration),
        (
            number_column("stalled runs"),
            lambda s: f"{s.configuration_stalled} of {s.configuration_runs}",
        ),
        (
            number_column("stalled runs of the baseline"),
            lambda s: f"{s.baseline_stalled} of {s.baseline_runs}",
        ),
        ("Fisher's exact test", lambda s: p_value(s.p_value)),
        title="Stalls",
        note="A run stalled if it fell far below its cell's median. The effects above discount"
        " stalls.",
    )
    return (table,)


def cell_section(analysis: CampaignAnalysis) -> Section:
    """Return what was measured in each cell."""
    if not analysis.cells:
        text = "Not measured: no block is complete."
        return Section(anchor="cells", title="Cells", blocks=(Paragraph(text=text),))
    logged = analysis.answer(campaign_latency) is not None
    table = Table(
        title="Cells",
        columns=(
            Column(name="configuration"),
            Column(name="workload"),
            number_column("clients"),
            number_column("threads", spare=True),
            number_column("runs", spare=True),
            number_column(RATE, RATE_UNIT),
            number_column(f"{CONFIDENCE} interval", "1/s"),
            number_column("mean latency", "ms", spare=True),
            *((number_column("p99", "ms", spare=True),) if logged else ()),
            Column(name="validity"),
            number_column("stalls", spare=True),
            *((Column(name="lasting"),) if analysis.answer(within_bursts) else ()),
        ),
        rows=tuple(_lasting_row(analysis, cell) for cell in analysis.cells),
        tone_column=9 if logged else 8,
        note=_note(analysis),
        brief=absolute_words(analysis.plan),
    )
    return Section(anchor="cells", title="Cells", blocks=(table,))


def _note(analysis: CampaignAnalysis) -> str:
    experiment = analysis.experiment
    told = _SINGLE_NOTE if experiment.is_single_pass else _CELL_NOTE
    turns = absolute_words(analysis.plan)
    return " ".join(filter(None, (told, turns, one_key_label(experiment))))


def _lasting_row(analysis: CampaignAnalysis, cell: CellSummary) -> Row:
    """Return a cell's row; where burst credits are known, with what they leave unsaid."""
    row = _cell_row(cell, analysis.answer(campaign_latency))
    limited = analysis.answer(within_bursts)
    if not limited:
        return row
    within = (cell.configuration, cell.cell.workload) in limited
    return replace(row, cells=(*row.cells, BURST_ONLY if within else MISSING))


def _cell_row(cell: CellSummary, latency: LatencyAnalysis | None) -> Row:
    load = cell.cell.load
    measured = cell.runs > 0
    # The section on latency says why a percentile is not told.
    tail_s = () if latency is None else (latency.percentile_s(cell.configuration, cell.cell, 0.99),)
    return Row(
        cells=(
            cell.configuration,
            cell.cell.workload,
            _clients(load),
            str(load.threads),
            str(cell.runs),
            rate(cell.tps.value) if measured else MISSING,
            between(cell.tps, rate) if measured else MISSING,
            milliseconds(cell.latency_mean_s),
            *map(milliseconds, tail_s),
            cell.validity.value if measured else "not measured",
            str(cell.stalled) if measured else MISSING,
        ),
        tone=TONES[cell.validity],
    )


def settings_section(analysis: CampaignAnalysis) -> Section:
    """Return the effective settings that differ between the configurations."""
    title = "Effective settings that differ"
    if not analysis.settings:
        text = "None, as far as the servers were asked."
        if analysis.blocks == 0:
            text = "Not measured: no server was asked for its settings in a complete block."
        return Section(anchor="settings", title=title, blocks=(Paragraph(text=text),))
    if analysis.experiment.attribution is not None:
        return level_settings(analysis, analysis.experiment.attribution, title)
    columns = (
        Column(name="setting"),
        *(Column(name=t.name, align=Align.RIGHT) for t in analysis.experiment.configurations),
        Column(name="asked for"),
    )
    rows = tuple(
        Row(
            cells=(
                difference.name,
                *(MISSING if value is None else value for value in difference.values),
                "yes" if difference.requested else "no",
            )
        )
        for difference in analysis.settings
    )
    note = "As the running servers reported them, not as they were asked for."
    table = Table(title=title, columns=columns, rows=rows, note=note)
    return Section(anchor="settings", title=title, blocks=(table,))


def fact_section(analysis: CampaignAnalysis) -> Section:
    """Return the facts of machine, tools and servers, grouped by what they are about."""
    blocks: tuple[Block, ...] = tuple(
        KeyValues(title=subject, pairs=tuple((f.name, f.value) for f in facts))
        for subject, facts in _by_subject(analysis.facts)
    )
    if not blocks:
        blocks = (Paragraph(text="Not recorded: the campaign ended before they were gathered."),)
    blocks = (*blocks, *ceiling_tables(analysis))
    return Section(anchor="facts", title="Machine, tools and servers", blocks=blocks)


def _by_subject(facts: Iterable[Fact]) -> tuple[tuple[str, tuple[Fact, ...]], ...]:
    groups: dict[str, list[Fact]] = {}
    for fact in facts:
        groups.setdefault(fact.subject, []).append(fact)
    return tuple((subject, tuple(members)) for subject, members in groups.items())
