"""The charts and tables of a report: cells, comparisons, stalls, settings that differ, facts."""

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby, product
from operator import attrgetter, itemgetter
from typing import Final

from steelyard.answers import results
from steelyard.answers.ceilings import ceiling_tables
from steelyard.answers.cells import level_settings
from steelyard.answers.latency.compute import campaign_latency
from steelyard.answers.result.section import rankings
from steelyard.answers.sustained.compute import within_bursts
from steelyard.answers.turns import absolute_words
from steelyard.core.experiment import MANY, MANY_FIRST, RATE, RATE_UNIT
from steelyard.core.findings import Estimate, Fact, Validity
from steelyard.core.measurement import Run
from steelyard.core.quantities import PERCENT, SECONDS
from steelyard.core.schedule import CellKey, Load, Turn
from steelyard.report import document as doc
from steelyard.report.keys import row_of
from steelyard.stats.spending import has_many_cells

# A strip of five to ten points per run stays legible, and the page light, up to about this many.
_MOST_STRIP_POINTS = 6000

_ASIDE = 0.08  # of the distance between two loads
_ASIDE_IN_ALL = 0.64  # so that the combinations of factors stay nearer to their load than the next


def chart_section(analysis: results.CampaignAnalysis) -> tuple[doc.Section, ...]:
    """Return the charts that have something to show; nothing when none has."""
    effects = tuple(figure for figure in _effects_by_load(analysis) if figure.rows)
    course = _loads(analysis), _blocks(analysis), _strips(analysis)
    more = tuple(figure for figure in course if len(figure.rows) > 1)  # a dot is not a chart
    # Where they are many, the picture of all effects is read with them; a few the cards have drawn.
    first = bool(rankings(analysis))
    if not first and len(analysis.experiment.closed_loads) == 1:
        effects, more = (), (*effects, *more)
    drawn = doc.Section(anchor="effects", title="Effects", blocks=effects, first=first)
    details = doc.Section(anchor="charts", title="Course of the campaign", more=more)
    return tuple(each for each in (drawn, details) if each.every)


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
    return doc.figure_of(
        _effect_rows(analysis),
        identity="effects",
        kind=doc.ChartKind.EFFECTS,
        title="Effects with their intervals",
        caption=f"Difference in {RATE} vs {results.compared_names(analysis)[0]}: {marks};"
        f" the grey band is ±{margin}, of no practical weight. Each workload has its own axis.",
        alt=f"Forest plot of effects on {RATE}. {sentences}.",
        configurations=results.compared_names(analysis),
    )


def _effect_rows(analysis: results.CampaignAnalysis) -> Iterator[dict[str, doc.Value]]:
    margin = 100.0 * analysis.experiment.stop.margin
    places: dict[str, int] = {}
    for c in analysis.comparisons:
        if c.effect is None or _redundant(analysis, c):
            continue
        place = places[c.workload] = places.get(c.workload, -1) + 1
        is_ranged = doc.bounds(c.effect) is not None
        interval = doc.effect_interval(c.effect) if is_ranged else "no interval yet"
        yield {
            "workload": c.workload,
            "configuration": c.configuration,
            "place": place,
            "row": _effect_name(analysis, c),
            "pooled": c.load is None,
            "text": f"{doc.effect_value(c.effect)} {interval}",
            **doc.ends("effect", c.effect, PERCENT),
            "below": -margin,
            "margin": margin,
        }


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
    return doc.figure_of(
        _load_rows(analysis),
        identity="loads",
        kind=doc.ChartKind.LOADS,
        title=f"{MANY_FIRST} per second over loads" if several else f"{MANY_FIRST} per second",
        caption=_load_caption(analysis),
        alt=f"{MANY_FIRST} per second of {doc.enumeration(analysis.names)} by workload and load;"
        " the"
        " table of cells holds the same numbers.",
        configurations=analysis.names,
    )


def _load_caption(analysis: results.CampaignAnalysis) -> str:
    if analysis.experiment.is_single_pass:
        return f"A {results.LABEL}: one run per point, no interval. Each workload has its own axis."
    return (
        "Median of the runs with its interval over blocks. Each workload has its own axis; the "
        "medians move with the machine, so read differences from the effects above."
    )


def _load_rows(analysis: results.CampaignAnalysis) -> Iterator[dict[str, doc.Value]]:
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
        is_ranged = doc.bounds(cell.tps) is not None
        interval = f"({doc.between(cell.tps, doc.rate)})" if is_ranged else "no interval"
        yield {
            "workload": cell.cell.workload,
            "configuration": cell.configuration,
            "row": cell.configuration,
            "pooled": False,
            "text": f"{doc.rate(cell.tps.value)} {interval}",
            "clients": results.short_load(analysis.experiment, load),
            "order": order,
            "place": round(order + aside, 4),
            **doc.ends("tps", cell.tps),
        }


def _blocks(analysis: results.CampaignAnalysis) -> doc.Figure:
    return doc.figure_of(
        (row for c in analysis.results for row in _contrast_rows(c)),
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
        configurations=results.compared_names(analysis),
    )


def _contrast_rows(comparison: results.Comparison) -> Iterator[dict[str, doc.Value]]:
    for number, contrast in enumerate(comparison.contrasts, start=1):
        if math.isfinite(contrast):
            yield {
                "workload": comparison.workload,
                "configuration": comparison.configuration,
                "block": number,
                "log_ratio": contrast,
                **doc.ends("effect", comparison.effect, PERCENT),
            }


def _strips(analysis: results.CampaignAnalysis) -> doc.Figure:
    in_turns = any(run.turns for run in analysis.runs)
    points = sum(len(r.measurement.series) for r in analysis.runs if r.measurement is not None)
    points *= 3 if in_turns else 1  # a dash has two ends and a gap behind it
    every = max(1, math.ceil(points / _MOST_STRIP_POINTS))
    if in_turns:
        title, rows = "Turn by turn", _turn_rows(analysis, every)
        caption = f"Each dash is one turn: when it ran in its block, and its {MANY} per second."
        caption += " The turns of the configurations alternate."
        alt = f"Rates of the turns of {doc.count(analysis.blocks, 'block')} in the order in which"
        alt += " they ran"
    else:
        title, rows = "Second by second", _strip_rows(analysis, every)
        caption = f"{MANY_FIRST} per second of every run, runs in the order they were made; the"
        caption += " faded start of each is the ramp, which does not count."
        alt = f"One-second rates of {doc.count(len(analysis.runs), 'run')}"
    if every > 1:
        caption += f" Of {analysis.blocks} blocks every {_ordinal(every)} is drawn."
    return doc.figure_of(
        rows,
        identity="turns" if in_turns else "strips",
        kind=doc.ChartKind.STRIPS,
        title=title,
        caption=caption,
        alt=f"{alt}, by workload and load, coloured by configuration.",
        configurations=analysis.names,
    )


def _ordinal(number: int) -> str:
    return {2: "2nd", 3: "3rd"}.get(number, f"{number}th")


def _strip_rows(analysis: results.CampaignAnalysis, every: int) -> Iterator[dict[str, doc.Value]]:
    for panel, runs in _runs_by_cell(analysis, every):
        for place, run in enumerate(runs, start=1):
            named = {**panel, "configuration": run.configuration, "run": place}
            yield from ({**named, **point} for point in _seconds(analysis, run, place))


def _runs_by_cell(
    analysis: results.CampaignAnalysis, every: int
) -> Iterator[tuple[dict[str, doc.Value], list[Run]]]:
    """Yield the name of each cell's panel, and its runs in every so many blocks.

    A single run of a few seconds is a figure in a table, not a chart.
    """
    experiment = analysis.experiment
    cells = product(experiment.workloads, experiment.loads) if len(analysis.runs) > 1 else ()
    for workload, load in cells:
        cell = CellKey(workload=workload.name, load=load)
        runs = (r for r in analysis.runs if r.cell == cell and r.block % every == 0)
        panel: dict[str, doc.Value] = {
            "workload": workload.name,
            "load": results.cell_name(experiment, load),
        }
        yield panel, [run for run in runs if run.measurement is not None]


def _turn_rows(analysis: results.CampaignAnalysis, every: int) -> Iterator[dict[str, doc.Value]]:
    """Yield turns in the order in which they ran: two ends of a dash each, then a gap.

    ``at`` counts blocks from 1, and each block fills most of one unit.
    """
    for panel, runs in _runs_by_cell(analysis, every):
        blocks: dict[int, list[Run]] = {}
        for run in runs:
            blocks.setdefault(run.block, []).append(run)
        for place, block in enumerate(blocks.values(), start=1):
            turns = _in_order(block)
            whole_s = turns[-1][1] + turns[-1][2].seconds if turns else 0.0
            for name, began_s, turn in turns:
                named = {**panel, "configuration": name, "run": place}
                ends = began_s, began_s + turn.seconds
                begin, end = (round(place + 0.95 * each / whole_s, 5) for each in ends)
                rate = round(turn.transactions / turn.seconds, 2)
                for at, tps in ((begin, rate), (end, rate), (end + 1e-5, None)):
                    yield {**named, "at": at, "tps": tps, "ramp": False}


def _in_order(runs: Iterable[Run]) -> list[tuple[str, float, Turn]]:
    """Return turns as they ran, s since the block's first; a sub-block counts from its own."""
    ordered: list[tuple[str, float, Turn]] = []
    sub_block = attrgetter("sub_block")
    for _, part in groupby(sorted(runs, key=sub_block), key=sub_block):
        since_s = ordered[-1][1] + ordered[-1][2].seconds if ordered else 0.0
        turns = [
            (r.configuration, since_s + t.began_s, t) for r in part for t in r.turns if t.seconds
        ]
        ordered += sorted(turns, key=itemgetter(1))
    return ordered


def _seconds(
    analysis: results.CampaignAnalysis, run: Run, place: int
) -> Iterator[dict[str, doc.Value]]:
    """Yield a run's points; ``at`` counts runs from 1, and each run fills most of one unit."""
    series = run.measurement.series if run.measurement is not None else ()
    if not series:
        return
    yield {"at": float(place), "tps": None, "ramp": False}  # lifts the pen
    ramp_s = analysis.experiment.measure.discard_start_s if run.has_ramp else 0.0
    whole_s = series[-1].end_s
    for second in series:
        if second.seconds > 0 and whole_s > 0:
            yield {
                "at": round(place + 0.1 + 0.9 * second.end_s / whole_s, 4),
                "tps": round(second.transactions / second.seconds, 2),
                "ramp": second.end_s - second.seconds / 2 < ramp_s,
            }


_CELL_NOTE = (
    "Medians over the runs of complete blocks, with the signed-rank interval over blocks (none"
    " below 6 blocks). They move with the machine: compare configurations by their effects only."
)
_EFFECTS = (
    "Rates are medians, effects are ratios within blocks: where the machine moved between blocks"
    " the two differ, even in sign."
)
_RATES: Final = "Rates and effects"
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
    title = f"Comparisons per cell, vs {results.compared_names(analysis)[0]} (baseline)"
    margin = analysis.experiment.stop.margin
    table = doc.table_of(
        cells,
        ("workload", lambda c: c.workload),
        ("configuration", lambda c: c.configuration),
        (doc.number_column("clients"), lambda c: _clients(c.under)),
        (doc.number_column("threads", spare=True), lambda c: str(c.under.threads)),
        (doc.number_column(f"effect on {RATE}"), lambda c: doc.effect_value(c.effect)),
        (doc.number_column(f"{doc.CONFIDENCE} interval"), lambda c: doc.effect_interval(c.effect)),
        ("verdict", lambda c: results.verdict_word(c, margin)),
        (doc.number_column("blocks", spare=True), lambda c: str(c.blocks)),
        (
            doc.number_column("more time", spare=True),
            lambda c: results.time_to_decide(c) or doc.MISSING,
        ),
        data=row_of,
        title=title,
        note=_comparison_note(analysis),
        tone=results.tone_of,
        tone_column=6,
    )
    blocks = (table, *_stall_blocks(analysis.stalls))
    return doc.Section(anchor="comparisons", title=title, blocks=blocks)


def _clients(load: Load) -> str:
    """Return the clients of a load, with its rate where it has one."""
    return f"{load.clients} at {load.rate_label}" if load.is_open else f"{load.clients}"


def _comparison_note(analysis: results.CampaignAnalysis) -> str:
    ratios = f"More time is about what would decide {doc.share(analysis.experiment.stop.detect)}."
    if len(analysis.experiment.closed_loads) == 1:
        return f"With one load, each result and its cell rest on the same blocks. {ratios}"
    first = (
        "" if analysis.plan is None else f" (from block {analysis.plan.stopping.cell_first_look})"
    )
    if has_many_cells(len(analysis.experiment.closed_loads)):
        return (
            f"{len(analysis.experiment.closed_loads)} cells{first}: those called faster or slower"
            " are wrong in 5 % of cases at most (false discovery rate), the others have wider,"
            f" simultaneous intervals (docs/methods.md, 3.5). {ratios}"
        )
    return (
        f"Simultaneous intervals{first}: those of one configuration and workload hold together at "
        f"{doc.CONFIDENCE}, so each is wider than it would be alone. {ratios}"
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
        data=row_of,
        title="Stalls",
        note="A run stalled if it fell far below its cell's median. The effects above discount"
        " stalls.",
    )
    return (table,)


def cell_section(analysis: results.CampaignAnalysis) -> doc.Section:
    """Return the measurements of each cell, with the effects if cells were compared."""
    if not analysis.cells:
        text = "Not measured: no block is complete."
        return doc.Section(anchor="cells", title=_RATES, blocks=(doc.Paragraph(text=text),))
    latency, limited = analysis.answer(campaign_latency), analysis.answer(within_bursts)

    def tail_s(cell: results.CellSummary) -> float | None:
        return latency.percentile_s(cell.configuration, cell.cell, 0.99) if latency else None

    def lasting(cell: results.CellSummary) -> str:
        within = (cell.configuration, cell.cell.workload) in (limited or ())
        return results.BURST_ONLY if within else doc.MISSING

    # The section on latency says why a percentile is not there.
    tail = (doc.column("p99", tail_s, _TAIL, key="latency_p99", spare=True),) if latency else ()
    table = doc.table_of(
        analysis.cells,
        ("configuration", lambda c: c.configuration),
        ("workload", lambda c: c.cell.workload),
        (doc.number_column("clients"), lambda c: _clients(c.cell.load)),
        (doc.number_column("threads", spare=True), lambda c: str(c.cell.load.threads)),
        (doc.number_column("runs", spare=True), lambda c: str(c.runs)),
        (doc.number_column(RATE, RATE_UNIT), lambda c: doc.rate(c.tps.value)),
        (
            doc.number_column(f"{doc.CONFIDENCE} interval", "1/s"),
            lambda c: doc.between(c.tps, doc.rate),
        ),
        (
            doc.number_column("mean latency", "ms", spare=True),
            lambda c: doc.milliseconds(c.latency_mean_s),
        ),
        *tail,
        ("validity", lambda c: c.validity.value),
        (doc.number_column("stalls", spare=True), lambda c: str(c.stalled)),
        *((doc.column("lasting", lasting),) if limited else ()),
        title="Cells",
        note=_note(analysis),
        tone=lambda c: doc.TONES[c.validity],
        tone_column=8 + len(tail),
        data=row_of,
    )
    by_workload = tuple(_by_workload(analysis))
    more = (table,) if by_workload else ()
    return doc.Section(anchor="cells", title=_RATES, blocks=by_workload or (table,), more=more)


def _by_workload(analysis: results.CampaignAnalysis) -> Iterator[doc.Table]:
    """Yield the rates and effects of each workload whose cells were compared."""
    found = {(c.workload, c.configuration, c.load): c for c in analysis.comparisons if c.load}
    names = [workload.name for workload in analysis.experiment.workloads]
    last = names[-1]
    margin = analysis.experiment.stop.margin
    base, loads = analysis.experiment.baseline, analysis.experiment.closed_loads
    for name in names:
        cells = [cell for cell in analysis.cells if cell.cell.workload == name]
        rows = [(cell, found.get((name, cell.configuration, cell.cell.load))) for cell in cells]
        if not any(compared for _, compared in rows):
            continue
        yield doc.table_of(
            rows,
            (doc.number_column("clients"), lambda row: _clients(row[0].cell.load)),
            (
                doc.number_column("threads", spare=len({load.threads for load in loads}) == 1),
                lambda row: str(row[0].cell.load.threads),
            ),
            ("configuration", lambda row: row[0].configuration),
            (doc.number_column(RATE, RATE_UNIT), lambda row: doc.rate(row[0].tps.value)),
            (doc.number_column("effect"), lambda row: doc.effect_value(_effect(row))),
            (
                doc.number_column(f"{doc.CONFIDENCE} interval"),
                lambda row: doc.effect_interval(_effect(row)),
            ),
            ("verdict", lambda row: _verdict(row, base, margin)),
            title=name,
            note=f"{_EFFECTS} {absolute_words(analysis.plan)}".strip() if name == last else "",
            tone=lambda row: results.tone_of(row[1]) if row[1] else doc.Tone.PLAIN,
            tone_column=6,
            data=lambda row: (
                *row_of(row[0]),
                *doc.Form(unit=PERCENT).data("effect", _effect(row)),
            ),
        )


_Compared = tuple[results.CellSummary, results.Comparison | None]


def _effect(row: _Compared) -> Estimate | None:
    return row[1].effect if row[1] is not None else None


def _verdict(row: _Compared, baseline: str, margin: float) -> str:
    cell, compared = row
    word = "baseline" if cell.configuration == baseline else doc.MISSING
    doubt = "" if cell.validity is Validity.VALID else f" ({cell.validity.value})"
    return f"{results.verdict_word(compared, margin) if compared else word}{doubt}"


def _note(analysis: results.CampaignAnalysis) -> str:
    experiment = analysis.experiment
    told = _SINGLE_NOTE if experiment.is_single_pass else _CELL_NOTE
    return " ".join(filter(None, (told, results.one_key_label(experiment))))


_TAIL: Final = doc.Form(show=doc.milliseconds, unit=SECONDS, heading="ms")


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
    asked, others = (
        tuple(each for each in analysis.settings if each.requested is wanted)
        for wanted in (True, False)
    )
    note = "As the running servers reported them, not as they were asked for."
    tables = [
        _settings_table(analysis, each, heading, note)
        for each, heading in ((asked, title), (others, "Settings that differ unasked"))
        if each
    ]
    shown = tuple(tables[:1])
    return doc.Section(anchor="settings", title=title, blocks=shown, more=tuple(tables[1:]))


def _settings_table(
    analysis: results.CampaignAnalysis,
    settings: Sequence[results.SettingDifference],
    title: str,
    note: str,
) -> doc.Table:
    return doc.table_of(
        settings,
        ("setting", lambda each: each.name),
        *(
            (doc.number_column(name), partial(lambda name, each: _shown(each.values[name]), name))
            for name in (each.name for each in analysis.experiment.configurations)
        ),
        title=title,
        note=note,
    )


def _shown(value: str | None) -> str:
    return doc.MISSING if value is None else value


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
