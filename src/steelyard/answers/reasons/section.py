"""Why a comparison came out as it did, and where the time goes: the latency in parts, their change.

A waterfall leads from the baseline's latency to the configuration's, part by part, for charts and
terminals. What ``explain`` shows of a campaign, too: per comparison verdict, reason, waterfall and
costs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Final, NamedTuple

from steelyard.answers.budget import BudgetChange, CellBudget, Part, PartChange
from steelyard.answers.costs import LedgerChange, cost_note, cost_section
from steelyard.answers.costs import change_table as cost_table
from steelyard.answers.observations import Watching
from steelyard.answers.reasons.compute import Explanation, Reasons, campaign_reasons
from steelyard.answers.results import (
    CampaignAnalysis,
    cell_columns,
    compared_data,
    ending,
    place_name,
    verdict_sentence,
)
from steelyard.answers.statements.section import (
    WAITS_TITLE,
    measured_apart,
    wait_blocks,
    waits_of,
)
from steelyard.core.experiment import ONE
from steelyard.core.findings import Estimate
from steelyard.core.quantities import PERCENT, SECONDS
from steelyard.core.schedule import CellKey
from steelyard.core.target import EngineName
from steelyard.core.wording import MS_PER_S, format_duration, format_share
from steelyard.report import document as doc
from steelyard.report.keys import keys_of
from steelyard.report.texts import Texts

_TEXTS: Final = Texts(__name__)

PART_LABELS = {
    Part.ON_CPU: "server on a CPU",
    Part.CPU_WAIT: "server waiting for a CPU",
    Part.CPU: "server on or waiting for a CPU",
    Part.EXECUTING: "executing commands",
    Part.SERVING: "sockets, protocol, log",
    Part.FORKING: "forking",
    Part.BLOCKED: "blocked by storage",
    Part.IO: "data files",
    Part.WAL: "WAL",
    Part.LWLOCK: "internal locks (LWLock)",
    Part.LOCK: "row and table locks",
    Part.REPLICATION: "standby",
    Part.OTHER: "other waits",
    Part.OFF_CPU: "main thread off the CPU",
    Part.CLIENT: "client",
    Part.UNSEEN: "unseen",
}
REMAINDER = "rounding and rest"
_BAR = 32  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One bar of a waterfall, ms.

    Attributes:
        whole: It is a whole latency, at either end of the way.
    """

    label: str
    start_ms: float
    end_ms: float
    whole: bool = False


def steps(change: BudgetChange) -> tuple[Step, ...]:
    """Return the bars from the baseline's latency to the configuration's.

    None where it is missing.
    """
    if change.baseline_s is None or change.configuration_s is None:
        return ()
    moves = [(PART_LABELS[part.part], part.change.value) for part in change.parts]
    moves.append((REMAINDER, change.remainder_s or 0.0))
    return (
        _whole(change.baseline, change.baseline_s),
        *_moved(moves, change.baseline_s),
        _whole(change.configuration, change.configuration_s),
    )


def _moved(moves: Sequence[tuple[str, float]], from_s: float) -> Iterator[Step]:
    """Yield a bar for each move, which has a name and seconds, from where the one before ends."""
    levels = accumulate((move for _, move in moves), initial=from_s)
    for (label, move), level in zip(moves, levels, strict=False):
        yield Step(label=label, start_ms=level * MS_PER_S, end_ms=(level + move) * MS_PER_S)


def _whole(label: str, seconds: float) -> Step:
    return Step(label=label, start_ms=0.0, end_ms=seconds * MS_PER_S, whole=True)


def bars(drawn: tuple[Step, ...]) -> tuple[str, ...]:
    """Return each step as characters on one common scale; one that is too small is a dot."""
    ends = [0.0, *(end for step in drawn for end in (step.start_ms, step.end_ms))]
    least, span = min(ends), max(ends) - min(ends)

    def at(value: float) -> int:
        return round((value - least) / span * _BAR) if span else 0

    told = []
    for step in drawn:
        low, high = sorted((at(step.start_ms), at(step.end_ms)))
        told.append(" " * low + ("█" * (high - low) or "·"))
    return tuple(told)


def waterfall_figure(
    analysis: CampaignAnalysis, changes: Sequence[BudgetChange]
) -> doc.Figure | None:
    """Return the ways of comparisons whose latency clearly changed, a panel each; None for none."""
    drawn = [change for change in changes if change.parts and change.clear]
    if not drawn:
        return None
    told = "; ".join(_in_words(analysis, change) for change in drawn)
    return doc.Figure(
        identity="waterfall",
        kind=doc.ChartKind.WATERFALL,
        title="From the baseline's latency to the configuration's",
        caption=f"Mean latency of a {ONE} in ms, medians over blocks at the largest load; each bar"
        " is the change of one part within blocks, the largest first. The table has the intervals.",
        alt=f"Waterfall of the parts of the latency. {told}.",
        columns=("workload", "configuration", "row", "start", "end", "whole", "text"),
        rows=tuple(row for change in drawn for row in _rows(change)),
        configurations=analysis.names,
    )


def _rows(change: BudgetChange) -> Iterator[tuple[doc.Value, ...]]:
    panel = change.cell.workload, doc.versus(change.configuration, change.baseline)
    for step in steps(change):
        moved_s = (step.end_ms - step.start_ms) / MS_PER_S
        text = doc.part_ms(moved_s, signed=not step.whole)
        ends = round(step.start_ms, 6), round(step.end_ms, 6)
        yield (*panel, step.label, *ends, step.whole, f"{text} ms")


def _in_words(analysis: CampaignAnalysis, change: BudgetChange) -> str:
    place = place_name(analysis.experiment, change.cell)
    first, *_, last = steps(change)
    return f"{place}: from {first.end_ms:.3g} ms to {last.end_ms:.3g} ms"


_NOTABLE_BEYOND = 0.05  # of the latency: a guess
_LEAST_SHARE = 0.0005
TITLE = "Where the time goes"


def budget_section(analysis: CampaignAnalysis) -> tuple[doc.Section, ...]:
    """Return the parts of the latency; nothing where no run was watched."""
    reasons = analysis.answer(campaign_reasons)
    if reasons is None:
        return ()
    largest = analysis.experiment.largest_load
    told = [each for each in reasons.explanations if each.cell.load == largest]
    changes = [each for each in reasons.budget.changes if each.cell.load == largest]
    blocks: list[doc.Block] = []
    if told:
        items = tuple(explanation_line(analysis, each) for each in told)
        blocks.append(doc.BulletList(lead=f"What changed in a {ONE}'s time", items=items))
    blocks += _cell_tables(analysis, reasons.budget.cells)
    drawn = waterfall_figure(analysis, changes)
    blocks += [drawn] if drawn else []
    tables = (change_table(analysis, each) for each in changes if each.parts)
    more = (*tables, *_interval_table(analysis, reasons.budget.cells), *watching_lines(reasons))
    return (doc.Section(anchor="time", title=TITLE, blocks=tuple(blocks), more=more),)


def time_note(analysis: CampaignAnalysis) -> str:
    """Return what the parts of a latency are, and where they come from."""
    if analysis.experiment.engine is EngineName.REDIS:
        return _TEXTS.one_thread(pointwise=doc.POINTWISE)
    return _TEXTS.parts(pointwise=doc.POINTWISE)


def explanation_line(analysis: CampaignAnalysis, explanation: Explanation) -> str:
    """Return an explanation with its comparison, as a sentence."""
    place = place_name(analysis.experiment, explanation.cell)
    who = doc.versus(explanation.configuration, explanation.baseline)
    return doc.ended(f"{place}, {who}: {explanation.sentence}")


def change_table(
    analysis: CampaignAnalysis, change: BudgetChange, *, with_bars: bool = False
) -> doc.Table:
    """Return the parts of both sides with their differences; as a waterfall with bars."""
    table = doc.table_of(
        _lines(change),
        doc.column("part of the latency", lambda line: line.name, key="part"),
        doc.column(change.baseline, lambda line: line.baseline_s, _MS, key="baseline"),
        doc.column(
            change.configuration, lambda line: line.configuration_s, _MS, key="configuration"
        ),
        doc.column("difference", lambda line: line.change, _DIFFERENCE, key="change"),
        doc.numbers(
            "95 % interval", lambda line: doc.in_brackets(line.change, doc.changed_ms), "ms"
        ),
        doc.column("of the change", lambda line: line.share, _SHARE, spare=with_bars),
        title=f"{place_name(analysis.experiment, change.cell)}: {change.configuration} against"
        f" {change.baseline}",
        note=f"{doc.count(change.blocks, 'block')}.",
        common=compared_data(change),
    )
    if not with_bars:
        return table
    end = ("latency", "", doc.part_ms(change.configuration_s), "", "", "")
    cells = [*(row.cells for row in table.rows), end]
    drawn = zip(cells, bars(steps(change)), strict=True)
    return replace(
        table,
        columns=(*table.columns, doc.Column(name="from baseline to configuration")),
        rows=tuple(doc.Row(cells=(*row, bar)) for row, bar in drawn),
    )


class _Line(NamedTuple):
    """The latency, one of its parts, or the rest."""

    name: str
    baseline_s: float | None
    configuration_s: float | None
    change: Estimate | None
    share: float | None = None


def _lines(change: BudgetChange) -> Iterator[_Line]:
    yield _Line("latency", change.baseline_s, change.configuration_s, change.change)
    for part in change.parts:
        sides = (part.baseline_s, part.configuration_s, part.change)
        yield _Line(PART_LABELS[part.part], *sides, _share(change, part))
    yield _Line(REMAINDER, None, None, Estimate(value=change.remainder_s or 0.0))


def _share(change: BudgetChange, part: PartChange) -> float | None:
    """Return a part's share of a change that is there; of one that is not it would say nothing."""
    if change.change is None or not change.clear:
        return None
    return part.change.value / change.change.value


_MS: Final = doc.Form(
    show=lambda value: doc.part_ms(value.value if isinstance(value, Estimate) else value),
    unit=SECONDS,
    heading="ms",
)
_DIFFERENCE: Final = replace(_MS, show=lambda change: doc.changed_ms(change.value))
_SHARE: Final = doc.Form(
    show=lambda share: format_share(share) if abs(share) >= _LEAST_SHARE else "0 %", unit=PERCENT
)
_IN_TITLE: Final = replace(_MS, heading="")
_WITH_ENDS: Final = replace(_IN_TITLE, show=partial(doc.with_interval, shown=doc.part_ms))


def _cell_tables(analysis: CampaignAnalysis, cells: tuple[CellBudget, ...]) -> list[doc.Table]:
    """Return the parts of every cell; nothing where none was split."""
    split = [each for each in cells if each.parts]
    if not split:
        return []
    parts = [part for part in Part if any(part in each.parts for each in split)]
    missing = [
        f"{each.configuration}, {place_name(analysis.experiment, each.cell)}: {each.missing}"
        for each in cells
        if each.missing
    ]
    note = " ".join(
        [
            _cell_note(analysis),
            time_note(analysis),
            *_beyond(analysis, split),
            *(doc.ended(f"Not split: {text}") for text in missing),
        ]
    )
    table = doc.table_of(
        split,
        *cell_columns(analysis.experiment),
        doc.column("latency", lambda each: each.latency, _IN_TITLE),
        doc.numbers(
            "95 % interval", lambda each: doc.between(each.latency, doc.part_ms), spare=True
        ),
        *(
            doc.column(
                PART_LABELS[part],
                partial(lambda part, each: each.parts.get(part), part),
                _IN_TITLE,
                key=part.value,
                spare=not any(_weighs(part, each) for each in split),
            )
            for part in parts
        ),
        doc.column(
            "as the generator tells it",
            lambda each: each.latency_mean_s,
            _IN_TITLE,
            key="latency_mean",
            spare=True,
        ),
        title="Latency and its parts in all cells, ms",
        note=note,
    )
    return [table]


def _interval_table(
    analysis: CampaignAnalysis, cells: tuple[CellBudget, ...]
) -> tuple[doc.Table, ...]:
    """Return the parts of every cell with their intervals; nothing below 6 blocks."""
    known = [each for each in cells if any(map(doc.bounds, each.parts.values()))]
    if not known:
        return ()
    table = doc.table_of(
        known,
        *cell_columns(analysis.experiment),
        *(
            doc.column(
                PART_LABELS[part],
                partial(lambda part, each: each.parts.get(part), part),
                _WITH_ENDS,
                key=part.value,
            )
            for part in Part
            if any(part in each.parts for each in known)
        ),
        doc.column("CPU beyond the samples", lambda each: each.cpu_beyond_class_s, _IN_TITLE),
        doc.column("blocks", lambda each: each.blocks, doc.WHOLE),
        title="Parts of the latency with their 95 % intervals, ms",
        note=doc.POINTWISE,
    )
    return (table,)


def _weighs(part: Part, cell: CellBudget) -> bool:
    """Return whether a part of a cell is more than nothing."""
    found, whole = cell.parts.get(part), cell.latency.value if cell.latency else 0.0
    return found is not None and abs(found.value) > _LEAST_SHARE * whole


def _cell_note(analysis: CampaignAnalysis) -> str:
    return _TEXTS.cells(in_turns=analysis.is_in_turns)


def _beyond(analysis: CampaignAnalysis, cells: Sequence[CellBudget]) -> tuple[str, ...]:
    """Return where the server used more CPU than the samples cover, by a weight that matters."""
    told = [
        f"{each.configuration}, {place_name(analysis.experiment, each.cell)}:"
        f" {doc.part_ms(each.cpu_beyond_class_s)} ms"
        for each in cells
        if each.latency is not None
        and each.cpu_beyond_class_s is not None
        and each.cpu_beyond_class_s > _NOTABLE_BEYOND * each.latency.value
    ]
    if not told:
        return ()
    lead = f"CPU time of the server per {ONE} that the samples do not cover"
    why = "of background processes, or samples came late and found sessions waiting again"
    return (f"{lead} ({why}): {'; '.join(told)}.",)


def watching_lines(reasons: Reasons) -> list[doc.Block]:
    """Return what was not visible, and what the watching cost."""
    watched = reasons.watching
    sources = " and ".join(watched.sources)
    told = f"Wait events come from {sources}." if sources else "Wait events were not sampled."
    lines: list[doc.Block] = [doc.Paragraph(text=f"{told} {_cost(watched)}")]
    if watched.unseen:
        items = tuple(
            f"{each.subject}: {doc.ended(each.reason)} ({doc.count(each.runs, 'run')} of"
            f" {watched.runs})"
            for each in watched.unseen
        )
        lines.append(doc.BulletList(lead="What was not visible", items=items))
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
        else f", {format_share(watched.share)} of the CPU time used in these runs"
    )
    runs = doc.count(watched.runs, "run")
    return f"Watching {runs} cost {own} of CPU time here, and on the server {server}{share}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The cells to be explained; None stands for all.

    Attributes:
        clients: None for all loads of the workload.
    """

    workload: str | None = None
    clients: int | None = None

    def holds(self, cell: CellKey) -> bool:
        """Return whether a cell is chosen."""
        if self.workload is not None and cell.workload != self.workload:
            return False
        return self.clients is None or cell.load.clients == self.clients


def explain_document(analysis: CampaignAnalysis, choice: Choice) -> doc.Document:
    """Return the reasons of a campaign's comparisons."""
    reasons = analysis.answer(campaign_reasons)
    sections: tuple[doc.Section, ...]
    if reasons is None:
        text = doc.Paragraph(text=_TEXTS.nothing(), tone=doc.Tone.WARNING)
        sections = (doc.Section(anchor="nothing", title="No evidence", blocks=(text,)),)
    elif not reasons.explanations:
        sections = (*budget_section(analysis), *cost_section(analysis))
    else:
        chosen = [each for each in reasons.explanations if choice.holds(each.cell)]
        sections = (
            *(_comparison(analysis, reasons, each) for each in chosen),
            *(_waits(analysis) if choice == Choice() else ()),
            doc.Section(
                anchor="watching",
                title="How it was watched, and how to read it",
                blocks=(
                    *watching_lines(reasons),
                    doc.Paragraph(text=time_note(analysis)),
                    doc.Paragraph(text=cost_note(analysis)),
                ),
            ),
        )
    document = doc.Document(
        title=f"Why: {analysis.experiment.name}",
        subtitle=f"{analysis.campaign_id} · {ending(analysis)} · {doc.utc(analysis.started_at)}",
        sections=sections,
    )
    return doc.filled(document, analysis.experiment.words)


def _waits(analysis: CampaignAnalysis) -> tuple[doc.Section, ...]:
    """Return what changed statements are made of; nothing where no cost of one surely changed."""
    blocks = wait_blocks(analysis.answer(waits_of) or ())
    if not blocks:
        return ()
    blocks = (*blocks, *measured_apart(analysis.ceilings))
    return (doc.Section(anchor="waits", title=WAITS_TITLE, blocks=blocks),)


def _comparison(
    analysis: CampaignAnalysis, reasons: Reasons, explanation: Explanation
) -> doc.Section:
    who = doc.versus(explanation.configuration, explanation.baseline)
    place = place_name(analysis.experiment, explanation.cell)
    budget = _budget_of(reasons, explanation)
    costs = next(each for each in reasons.ledger.changes if _is_of(each, explanation))
    blocks: list[doc.Block] = [
        *(doc.Paragraph(text=text) for text in _verdicts(analysis, explanation)),
        doc.Paragraph(text=doc.ended(f"Evidence: {explanation.sentence}")),
    ]
    if budget.parts:
        blocks.append(change_table(analysis, budget, with_bars=True))
    table = cost_table(analysis, costs)
    blocks += [table] if table.rows else []
    title = f"{place}: {who}"
    return doc.Section(anchor="comparison", title=title, blocks=tuple(blocks))


def _is_of(change: BudgetChange | LedgerChange, explanation: Explanation) -> bool:
    wanted = explanation.baseline, explanation.configuration, explanation.cell
    return (change.baseline, change.configuration, change.cell) == wanted


def _budget_of(reasons: Reasons, explanation: Explanation) -> BudgetChange:
    return next(each for each in reasons.budget.changes if _is_of(each, explanation))


def _verdicts(analysis: CampaignAnalysis, explanation: Explanation) -> list[str]:
    return [
        doc.ended(verdict_sentence(analysis, comparison))
        for comparison in analysis.comparisons
        if (comparison.baseline, comparison.configuration)
        == (explanation.baseline, explanation.configuration)
        and (comparison.workload, comparison.load)
        == (explanation.cell.workload, explanation.cell.load)
    ]


def explain_json(analysis: CampaignAnalysis, choice: Choice) -> dict[str, doc.Json]:
    """Return the same for programs."""
    reasons = analysis.answer(campaign_reasons)
    head: dict[str, doc.Json] = {
        "format": doc.FORMAT,
        "campaign": analysis.campaign_id,
        "name": analysis.experiment.name,
    }
    if reasons is None:
        return {
            **head,
            "comparisons": [],
            "waits": [],
            "watching": None,
            "missing": _TEXTS.nothing(),
        }
    chosen = [each for each in reasons.explanations if choice.holds(each.cell)]
    return {
        **head,
        "comparisons": [_comparison_json(analysis, reasons, each) for each in chosen],
        "waits": [keys_of(each) for each in analysis.answer(waits_of) or ()],
        "watching": keys_of(reasons.watching),
        "missing": None,
    }


def _comparison_json(
    analysis: CampaignAnalysis, reasons: Reasons, explanation: Explanation
) -> dict[str, doc.Json]:
    costs = next(each for each in reasons.ledger.changes if _is_of(each, explanation))
    return {
        "baseline": explanation.baseline,
        "configuration": explanation.configuration,
        **keys_of(explanation.cell),
        "verdict": "; ".join(_verdicts(analysis, explanation)) or None,
        "explanation": explanation.sentence,
        "parts": [part.value for part in explanation.parts],
        "differing": list(explanation.differing),
        "waterfall": keys_of(_budget_of(reasons, explanation)),
        "ledger": keys_of(costs),
    }
