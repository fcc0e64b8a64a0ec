"""The tables of a report: cells, comparisons, stalls, settings that differ, facts."""

from collections.abc import Iterable
from dataclasses import replace

from steelyard.answers.attribution.section import compared_names
from steelyard.answers.ceilings.section import ceiling_tables
from steelyard.answers.cells.section import level_settings
from steelyard.answers.latency.results import LatencyAnalysis
from steelyard.answers.result.stopping import has_many_cells
from steelyard.answers.results import CampaignAnalysis, CellSummary, Comparison, StallTest
from steelyard.answers.stack.redis_split import one_key_label
from steelyard.answers.sustained.compute import BURST_ONLY
from steelyard.answers.turns.section import absolute_words
from steelyard.answers.wording import load_name, time_to_decide, tone_of, uncompared, verdict_word
from steelyard.core.experiment import RATE, RATE_UNIT
from steelyard.core.findings import Validity
from steelyard.core.measurement import Fact
from steelyard.report.document import (
    Align,
    Block,
    Column,
    KeyValues,
    Paragraph,
    Row,
    Section,
    Table,
    Tone,
    number_column,
)
from steelyard.report.formats import (
    CONFIDENCE,
    MISSING,
    effect_interval,
    effect_value,
    milliseconds,
    p_value,
    rate,
    rate_interval,
    share,
)

_VALIDITY_TONE = {
    Validity.VALID: Tone.PLAIN,
    Validity.SUSPECT: Tone.WARNING,
    Validity.INVALID: Tone.ERROR,
}


_CELL_NOTE = (
    "Medians over the runs of complete blocks, with the signed-rank interval over blocks (none "
    "below 6 blocks). They move with the machine: compare treatments by the table of comparisons "
    "only."
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
    reference = compared_names(analysis)[0]
    title = f"Comparisons per cell, against {reference}"
    table = Table(
        title=title,
        columns=(
            Column(name="workload"),
            Column(name="treatment"),
            number_column("clients"),
            number_column("threads", spare=True),
            number_column(f"effect on {RATE}"),
            number_column(f"{CONFIDENCE} interval"),
            Column(name="verdict"),
            number_column("blocks", spare=True),
            number_column("more time", spare=True),
        ),
        rows=tuple(_comparison_row(analysis, c) for c in cells),
        tone_column=6,
        note=_comparison_note(analysis),
        brief=_BRIEF,
    )
    return Section(
        anchor="comparisons",
        title=title,
        blocks=(table, *_stall_blocks(analysis.stalls)),
    )


def _comparison_row(analysis: CampaignAnalysis, comparison: Comparison) -> Row:
    stop = analysis.experiment.stop
    return Row(
        cells=(
            comparison.workload,
            comparison.treatment,
            *_load_cells(comparison),
            effect_value(comparison.effect),
            effect_interval(comparison.effect),
            verdict_word(comparison, stop.equivalence),
            str(comparison.blocks),
            time_to_decide(comparison) or MISSING,
        ),
        tone=tone_of(comparison),
    )


def _load_cells(comparison: Comparison) -> tuple[str, str]:
    load = comparison.load
    if load is None:
        return load_name(load), MISSING
    rated = f" at {load.rate_label}" if load.is_open else ""
    return f"{load.clients}{rated}", str(load.threads)


def _comparison_note(analysis: CampaignAnalysis) -> str:
    ratios = (
        "Effects come from the ratios within blocks, not from the medians in the cells. "
        f"More time is about what would decide {share(analysis.experiment.stop.decide)}."
    )
    if len(analysis.experiment.closed_loads) == 1:
        return f"With one load, each headline and its cell rest on the same blocks. {ratios}"
    first = (
        "" if analysis.plan is None else f" (from block {analysis.plan.stopping.cell_first_look})"
    )
    if has_many_cells(len(analysis.experiment.closed_loads)):
        return f"{_many_cells_note(analysis, first)} {ratios}"
    return (
        f"Simultaneous intervals{first}: those of one treatment and workload hold together at "
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
    if not any(s.baseline_stalled or s.treatment_stalled for s in stalls):
        return (Paragraph(text="Stalls: no run stalled."),)
    columns = (
        Column(name="workload"),
        Column(name="treatment"),
        number_column("stalled runs"),
        number_column("stalled runs of the baseline"),
        Column(name="Fisher's exact test"),
    )
    rows = tuple(
        Row(
            cells=(
                s.workload,
                s.treatment,
                f"{s.treatment_stalled} of {s.treatment_runs}",
                f"{s.baseline_stalled} of {s.baseline_runs}",
                p_value(s.p_value),
            )
        )
        for s in stalls
    )
    note = (
        "A run stalled if it fell far below its cell's median. The effects above discount stalls."
    )
    return (Table(title="Stalls", columns=columns, rows=rows, note=note),)


def cell_section(analysis: CampaignAnalysis) -> Section:
    """Return what was measured in each cell."""
    if not analysis.cells:
        text = "Not measured: no block is complete."
        return Section(anchor="cells", title="Cells", blocks=(Paragraph(text=text),))
    logged = analysis.latency is not None
    table = Table(
        title="Cells",
        columns=(
            Column(name="treatment"),
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
            *((Column(name="lasting"),) if analysis.burst_only else ()),
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
    row = _cell_row(cell, analysis.latency)
    if not analysis.burst_only:
        return row
    within = (cell.treatment, cell.cell.workload) in analysis.burst_only
    return replace(row, cells=(*row.cells, BURST_ONLY if within else MISSING))


def _cell_row(cell: CellSummary, latency: LatencyAnalysis | None) -> Row:
    load = cell.cell.load
    rated = f" at {load.rate_label}" if load.is_open else ""
    measured = cell.runs > 0
    return Row(
        cells=(
            cell.treatment,
            cell.cell.workload,
            f"{load.clients}{rated}",
            str(load.threads),
            str(cell.runs),
            rate(cell.tps.value) if measured else MISSING,
            rate_interval(cell.tps) if measured else MISSING,
            milliseconds(cell.latency_mean_s),
            *(() if latency is None else (_tail(cell, latency),)),
            cell.validity.value if measured else "not measured",
            str(cell.stalled) if measured else MISSING,
        ),
        tone=_VALIDITY_TONE[cell.validity],
    )


def _tail(cell: CellSummary, latency: LatencyAnalysis) -> str:
    """Return the 99th percentile in ms, or a dash: the section on latency says why."""
    levels = latency.of(cell.treatment, cell.cell)
    found = None if levels is None else levels.at(0.99)
    return MISSING if found is None or found.value_s is None else milliseconds(found.value_s.value)


def settings_section(analysis: CampaignAnalysis) -> Section:
    """Return the effective settings that differ between the treatments."""
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
        *(Column(name=t.name, align=Align.RIGHT) for t in analysis.experiment.treatments),
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
