"""Where the time goes: the latency of a transaction in parts, and how the parts differ."""

from collections.abc import Iterable, Sequence

from steelyard.analysis.budget import BudgetChange, CellBudget, PartChange
from steelyard.analysis.explanation import Explanation
from steelyard.analysis.latency_parts import Part
from steelyard.analysis.reasons import Reasons
from steelyard.analysis.results import CampaignAnalysis
from steelyard.analysis.watching import Watching
from steelyard.model.experiment import EngineName
from steelyard.model.units import format_duration, format_percent
from steelyard.model.verdicts import Estimate
from steelyard.model.work_words import MANY, ONE, RATE
from steelyard.report.costs import POINTWISE
from steelyard.report.document import (
    Block,
    BulletList,
    Column,
    Paragraph,
    Row,
    Section,
    Table,
    number_column,
)
from steelyard.report.formats import MISSING, bounds, count, ended, part_ms
from steelyard.report.waterfall import PART_LABELS, REMAINDER, bars, steps, waterfall_figure
from steelyard.report.wording import cell_name

_NOTABLE_BEYOND = 0.05  # of the latency: a guess
_LEAST_SHARE = 0.0005
TITLE = "Where the time goes"
NOTE = (
    f"Sessions in a class / {RATE}, by Little's law; on a CPU and waiting for one: by the kernel's"
    f" account of the server's processes, where they are on this machine; unseen: clients / {RATE}"
    " minus the rest, which may be below 0 within noise. Differences are taken within blocks."
    f" {POINTWISE} Medians do not add exactly."
)
_THREAD_NOTE = (
    "One thread serves all clients, so each waits while it is with the others: a part is the time"
    " that the main thread spends so per request, times the requests in flight. Executing and"
    " forking: as the server counts; blocked by storage: in uninterruptible sleep, sampled at 10 Hz"
    " and only where the server is on this machine; client: the rest, in which it waits for"
    f" requests. Differences are taken within blocks. {POINTWISE} Medians do not add exactly."
)
_CELL_NOTE = (
    f"Milliseconds, medians over blocks: a closed loop's latency, clients / {RATE}, and its parts."
    f" As the generator tells it the latency lacks its own time between two {MANY}"
)


def budget_section(analysis: CampaignAnalysis) -> tuple[Section, ...]:
    """Return the parts of the latency; nothing where no run was watched."""
    reasons = analysis.reasons
    if reasons is None:
        return ()
    largest = analysis.experiment.largest_load
    told = [each for each in reasons.explanations if each.cell.load == largest]
    changes = [each for each in reasons.budget.changes if each.cell.load == largest]
    blocks: list[Block] = []
    if told:
        items = tuple(explanation_line(analysis, each) for each in told)
        blocks.append(BulletList(lead=f"What changed in a {ONE}'s time", items=items))
    blocks += [change_table(analysis, each) for each in changes if each.parts]
    figure = waterfall_figure(analysis, changes)
    blocks += [] if figure is None else [figure]
    blocks += _cell_tables(analysis, reasons.budget.cells)
    blocks += watching_lines(reasons)
    return (Section(anchor="time", title=TITLE, blocks=tuple(blocks)),)


def time_note(analysis: CampaignAnalysis) -> str:
    """Return what the parts of a latency are, and where they come from."""
    return _THREAD_NOTE if analysis.experiment.engine is EngineName.REDIS else NOTE


def explanation_line(analysis: CampaignAnalysis, explanation: Explanation) -> str:
    """Return an explanation with its comparison, as a sentence."""
    place = cell_name(analysis.experiment, explanation.cell.load)
    who = f"{explanation.treatment} against {explanation.baseline}"
    return ended(f"{explanation.cell.workload}, {place}, {who}: {explanation.sentence}")


def change_table(
    analysis: CampaignAnalysis, change: BudgetChange, *, with_bars: bool = False
) -> Table:
    """Return the parts of both sides with their differences; as a waterfall with bars."""
    place = f"{change.cell.workload}, {cell_name(analysis.experiment, change.cell.load)}"
    drawn = bars(steps(change)) if with_bars else ()
    rows = [
        _whole_row(change),
        *(_part_row(change, part) for part in change.parts),
        *_remainder_rows(change),
    ]
    columns = (
        Column(name="part of the latency"),
        number_column(change.baseline, "ms"),
        number_column(change.treatment, "ms"),
        number_column("difference", "ms"),
        number_column("95 % interval", "ms"),
        number_column("of the change", spare=with_bars),
        *((Column(name="from baseline to treatment"),) if with_bars else ()),
    )
    if with_bars:
        rows = [
            Row(cells=(*row.cells, bar))
            for row, bar in zip([*rows, _end_row(change)], drawn, strict=True)
        ]
    return Table(
        title=f"{place}: {change.treatment} against {change.baseline}",
        columns=columns,
        rows=tuple(rows),
        note=f"{count(change.blocks, 'block')}.",
    )


def _whole_row(change: BudgetChange) -> Row:
    cells = (_ms(change.start_s), _ms(change.end_s))
    return Row(cells=("latency", *cells, *_difference(change.change), MISSING))


def _end_row(change: BudgetChange) -> Row:
    return Row(cells=("latency", "", _ms(change.end_s), "", "", ""))


def _part_row(change: BudgetChange, part: PartChange) -> Row:
    cells = (_ms(part.baseline_s), _ms(part.treatment_s))
    label = PART_LABELS[part.part]
    return Row(cells=(label, *cells, *_difference(part.change), _share(change, part)))


def _share(change: BudgetChange, part: PartChange) -> str:
    """Return a part's share of a change that is there; of one that is not it would say nothing."""
    if change.change is None or not change.clear:
        return MISSING
    share = part.change.value / change.change.value
    return format_percent(share, signed=False) if abs(share) >= _LEAST_SHARE else "0 %"


def _remainder_rows(change: BudgetChange) -> tuple[Row, ...]:
    told = part_ms(change.remainder_s, signed=True)
    return (Row(cells=(REMAINDER, MISSING, MISSING, told, MISSING, MISSING)),)


def _difference(change: Estimate | None) -> tuple[str, str]:
    if change is None:
        return MISSING, MISSING
    pair = bounds(change)
    told = (
        MISSING
        if pair is None
        else f"[{part_ms(pair[0], signed=True)}, {part_ms(pair[1], signed=True)}]"
    )
    return part_ms(change.value, signed=True), told


def _ms(seconds: float | None) -> str:
    return MISSING if seconds is None else part_ms(seconds)


def _cell_tables(analysis: CampaignAnalysis, cells: tuple[CellBudget, ...]) -> list[Table]:
    """Return the parts of every cell; nothing where none was split."""
    split = [each for each in cells if each.parts]
    if not split:
        return []
    parts = [part for part in Part if any(_level(each, part) is not None for each in split)]
    columns = (
        Column(name="workload"),
        Column(name="treatment"),
        number_column("clients"),
        number_column("latency"),
        number_column("95 % interval"),
        *(number_column(PART_LABELS[part], spare=True) for part in parts),
        number_column("as the generator tells it", spare=True),
    )
    rows = tuple(_cell_row(each, parts) for each in split)
    missing = [
        f"{each.treatment}, {each.cell.workload}, {cell_name(analysis.experiment, each.cell.load)}:"
        f" {each.missing}"
        for each in cells
        if each.missing
    ]
    note = " ".join(
        [
            _cell_note(analysis),
            time_note(analysis),
            *_beyond(analysis, split),
            *(ended(f"Not split: {text}") for text in missing),
        ]
    )
    title = "Latency and its parts in all cells, ms"
    return [Table(title=title, columns=columns, rows=rows, note=note)]


def _cell_note(analysis: CampaignAnalysis) -> str:
    if analysis.is_in_turns:
        return f"{_CELL_NOTE}, and is of what counts of its turns."
    return f"{_CELL_NOTE}, and has the ramp in it."


def _beyond(analysis: CampaignAnalysis, cells: Sequence[CellBudget]) -> tuple[str, ...]:
    """Return where the server used more CPU than the samples cover, by a weight that matters."""
    told = [
        f"{each.treatment}, {each.cell.workload},"
        f" {cell_name(analysis.experiment, each.cell.load)}: {part_ms(each.beyond_s)} ms"
        for each in cells
        if each.latency is not None
        and each.beyond_s is not None
        and each.beyond_s > _NOTABLE_BEYOND * each.latency.value
    ]
    if not told:
        return ()
    lead = f"CPU time of the server per {ONE} that the samples do not cover"
    why = "of background processes, or samples came late and found sessions waiting again"
    return (f"{lead} ({why}): {'; '.join(told)}.",)


def _level(budget: CellBudget, part: Part) -> Estimate | None:
    return next((each.seconds for each in budget.parts if each.part is part), None)


def _cell_row(budget: CellBudget, parts: Iterable[Part]) -> Row:
    pair = bounds(budget.latency)
    interval = MISSING if pair is None else f"{_ms(pair[0])} to {_ms(pair[1])}"
    levels = [_level(budget, part) for part in parts]
    return Row(
        cells=(
            budget.cell.workload,
            budget.treatment,
            str(budget.cell.load.clients),
            _ms(None if budget.latency is None else budget.latency.value),
            interval,
            *(MISSING if each is None else _ms(each.value) for each in levels),
            _ms(budget.measured_s),
        )
    )


def watching_lines(reasons: Reasons) -> list[Block]:
    """Return what was not visible, and what the watching cost."""
    watched = reasons.watching
    sources = " and ".join(watched.sources)
    told = f"Wait events come from {sources}." if sources else "Wait events were not sampled."
    lines: list[Block] = [Paragraph(text=f"{told} {_cost(watched)}")]
    if watched.unseen:
        items = tuple(
            f"{each.subject}: {ended(each.reason)} ({count(each.runs, 'run')} of {watched.runs})"
            for each in watched.unseen
        )
        lines.append(BulletList(lead="What was not visible", items=items))
    return lines


def _cost(watched: Watching) -> str:
    if watched.own_cpu_s is None:
        return "What the watching cost was not measured."
    server = (
        "not visible" if watched.server_cpu_s is None else format_duration(watched.server_cpu_s)
    )
    own = format_duration(watched.own_cpu_s)
    share = (
        ""
        if watched.share is None
        else f", {format_percent(watched.share, signed=False)} of the CPU time used in these runs"
    )
    runs = count(watched.runs, "run")
    return f"Watching {runs} cost {own} of CPU time here, and on the server {server}{share}."
