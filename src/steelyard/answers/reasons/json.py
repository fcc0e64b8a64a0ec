"""Wake-up or memory distance, in words.

The reasons for programs: parts of ``summary.json``, and what ``explain`` prints.

Specifications of the charts that show reasons: waterfalls and timelines; imports Altair.
"""

from collections.abc import Sequence
from typing import Any

import altair as alt

from steelyard.answers.budget.compute import BudgetChange, CellBudget, PartChange
from steelyard.answers.costs.compute import CellLedger, CostChange, LedgerChange
from steelyard.answers.observations import Watching
from steelyard.answers.reasons.compute import Explanation, Reasons
from steelyard.answers.reasons.waits import WaitCause, WaitReasoning
from steelyard.core.findings import Estimate
from steelyard.core.schedule import CellKey
from steelyard.core.units import format_share
from steelyard.report import charts as theme
from steelyard.report.charts import (
    CHARACTER_PX,
    Drawing,
    Panel,
    chart_of,
    in_columns,
    layered,
    stacked,
)
from steelyard.report.document import BulletList, Figure
from steelyard.report.formats import (
    Json,
    bounds,
    load_json,
    milliseconds,
    number,
    percent,
    signed_ms,
)

TITLE = "Wake-up or memory distance"
_LEAD = (
    f"{TITLE}. A CPU that waits for memory counts as busy: distance of memory shows as CPU time of"
    " server and load generator, as do the clock, the statement's work and the kernel's part of"
    " waking up another CPU. What is none is waiting:"
)
_SUSPECTS = (
    "What the record shows of the campaign's machine, as it was found at the start, that makes"
    " wake-ups slow. A treatment that changes one of them can be the cause:"
)
_WAITING = (
    "so it is waiting: being woken up (idle states, halted virtual CPUs, the hypervisor's"
    " scheduler) or the network, and not distance of memory"
)
_VERDICTS = {
    WaitCause.WAITING: _WAITING,
    WaitCause.CPU: "so it is mainly work of the CPU, of whatever kind",
    WaitCause.BOTH: "so part of it is waiting, and part work of the CPU, of whatever kind",
    WaitCause.UNDECIDED: "so these runs do not tell whether it is waiting or work of the CPU",
}
_ONE_NODE = (
    "; this machine shows one memory node, so none of it is distance of memory, unless a hypervisor"
    " below spreads that over several"
)


def wait_blocks(waits: Sequence[WaitReasoning]) -> tuple[BulletList, ...]:
    """Return a sentence for every comparison whose statements surely cost more or less.

    And what the record shows of wake-ups, unless all of them are work of the CPU.
    """
    if not waits:
        return ()
    told = BulletList(lead=_LEAD, items=tuple(_sentence(each) for each in waits))
    open_ones = (each for each in waits if each.cause is not WaitCause.CPU)
    suspects = tuple(dict.fromkeys(clause for each in open_ones for clause in each.suspects))
    return (told, BulletList(lead=_SUSPECTS, items=suspects)) if suspects else (told,)


def _sentence(each: WaitReasoning) -> str:
    change = signed_ms(each.per_statement_s, plus=True)
    begun = f"{each.treatment} against {each.baseline}: each statement {change} ms"
    shares = each.cpu_shares
    if shares is None:
        return f"{begun}; how much of it is CPU time is not known ({each.missing})."
    least, most = (format_share(share) for share in shares)
    told = f"at most {most}" if shares[0] <= 0.0 else f"{least} to {most}"
    node = _ONE_NODE if each.one_node else ""
    return f"{begun}, of which {told} is CPU time{_queue(each)}; {_VERDICTS[each.cause]}{node}."


def _queue(each: WaitReasoning) -> str:
    queued = each.run_queue_s
    if queued is None:
        return ""
    sign = "-" if queued < 0 else "+"
    return f", and {sign}{milliseconds(abs(queued))} ms is the queue for a CPU of this machine"


def reasons_json(reasons: Reasons) -> dict[str, Json]:
    """Return what the evidence says; times in seconds, costs in base units per transaction."""
    return {
        "explanations": [_explanation(each) for each in reasons.explanations],
        "latency_budget": {
            "cells": [_cell_budget(each) for each in reasons.budget.cells],
            "comparisons": [budget_change(each) for each in reasons.budget.changes],
        },
        "ledger": {
            "cells": [_cell_ledger(each) for each in reasons.ledger.cells],
            "comparisons": [ledger_change(each) for each in reasons.ledger.changes],
        },
        "watching": watching_json(reasons.watching),
    }


def cell_json(cell: CellKey) -> dict[str, Json]:
    """Return the keys by which a cell is told everywhere."""
    return {"workload": cell.workload, **load_json(cell.load)}


def _explanation(explanation: Explanation) -> dict[str, Json]:
    return {
        "baseline": explanation.baseline,
        "treatment": explanation.treatment,
        **cell_json(explanation.cell),
        "sentence": explanation.sentence,
        "parts": [part.value for part in explanation.parts],
        "costs": [cost.value for cost in explanation.costs],
        "differing": list(explanation.differing),
    }


def _estimate(estimate: Estimate | None) -> dict[str, Json] | None:
    if estimate is None:
        return None
    low, high = bounds(estimate) or (None, None)
    return {"estimate": number(estimate.value), "low": number(low), "high": number(high)}


def _cell_budget(budget: CellBudget) -> dict[str, Json]:
    return {
        "treatment": budget.treatment,
        **cell_json(budget.cell),
        "blocks": budget.blocks,
        "latency_s": _estimate(budget.latency),
        "latency_mean_s": number(budget.measured_s),
        "parts_s": {each.part.value: _estimate(each.seconds) for each in budget.parts},
        "cpu_beyond_class_s": number(budget.beyond_s),
        "missing": budget.missing or None,
    }


def budget_change(change: BudgetChange) -> dict[str, Json]:
    """Return a waterfall."""
    return {
        "baseline": change.baseline,
        "treatment": change.treatment,
        **cell_json(change.cell),
        "blocks": change.blocks,
        "baseline_s": number(change.start_s),
        "treatment_s": number(change.end_s),
        "change_s": _estimate(change.change),
        "parts": [_part(part) for part in change.parts],
        "remainder_s": number(change.remainder_s) if change.parts else None,
        "missing": change.missing or None,
    }


def _part(part: PartChange) -> dict[str, Json]:
    return {
        "part": part.part.value,
        "baseline_s": number(part.baseline_s),
        "treatment_s": number(part.treatment_s),
        "change_s": _estimate(part.change),
        "clear": part.clear,
    }


def _cell_ledger(ledger: CellLedger) -> dict[str, Json]:
    return {
        "treatment": ledger.treatment,
        **cell_json(ledger.cell),
        "tps_variation": number(ledger.tps_variation),
        "costs": {
            each.cost.value: {
                **(_estimate(each.value) or {"estimate": None, "low": None, "high": None}),
                "variation": number(each.variation),
                "blocks": each.blocks,
                "missing": each.missing or None,
            }
            for each in ledger.costs
        },
    }


def ledger_change(change: LedgerChange) -> dict[str, Json]:
    """Return how the costs differ."""
    return {
        "baseline": change.baseline,
        "treatment": change.treatment,
        **cell_json(change.cell),
        "costs": {each.cost.value: _cost(each) for each in change.costs},
    }


def _cost(change: CostChange) -> dict[str, Json]:
    low, high = bounds(change.change) or (None, None)
    value = None if change.change is None else change.change.value
    told: dict[str, Json] = {
        "baseline": number(change.baseline),
        "treatment": number(change.treatment),
    }
    if change.relative:
        told |= {"change_percent": percent(value)}
        told |= {"low_percent": percent(low), "high_percent": percent(high)}
    else:
        told |= {"difference": number(value), "low": number(low), "high": number(high)}
    return {
        **told,
        "clear": change.clear,
        "blocks": change.blocks,
        "missing": change.missing or None,
    }


def watching_json(watched: Watching) -> dict[str, Json]:
    """Return what was not visible, and what the watching cost."""
    return {
        "runs": watched.runs,
        "sources": list(watched.sources),
        "own_cpu_s": number(watched.own_cpu_s),
        "server_cpu_s": number(watched.server_cpu_s),
        "share_percent": percent(watched.share),
        "absent": [
            {"subject": each.subject, "reason": each.reason, "runs": each.runs}
            for each in watched.unseen
        ],
    }


_ROW_PX = 26
_TRACK_PX = 74
_AXIS_PX = 56  # room left of a track for its axis
_APART_PX = 26


def waterfall(figure: Figure, panels: list[Panel]) -> Drawing:
    """Return the bars of each comparison, one panel below the other."""
    rows, texts = (figure.columns.index(name) for name in ("row", "text"))
    names = max(len(str(row[rows])) for row in figure.rows)
    numbers = max(len(str(row[texts])) for row in figure.rows)
    sides = (round(size * CHARACTER_PX) + 12 for size in (names, numbers))
    left, right = sides
    return stacked([_waterfall_panel(panel, left, right) for panel in panels])


def _waterfall_panel(panel: Panel, left: int, right: int) -> Drawing:
    width = theme.WIDTH - left - right
    axis = alt.Axis(title="ms" if panel.last else None, tickCount=6)
    x = alt.X("start:Q", axis=axis, scale=alt.Scale(zero=True, nice=False, padding=4))
    y_axis = alt.Axis(title=None, grid=False, minExtent=left, maxExtent=left, labelColor=theme.INK)
    y = alt.Y("row:N", sort=[str(row) for row in panel.values("row")], axis=y_axis)
    base = chart_of(panel).transform_calculate(
        kind="datum.whole ? 'whole' : datum.end > datum.start ? 'more' : 'less'"
    )
    colours = alt.Scale(
        domain=["whole", "more", "less"], range=[theme.BASELINE, theme.MORE, theme.LESS]
    )
    bar = base.mark_bar(height=14).encode(
        x=x, x2=alt.X2("end:Q"), y=y, color=alt.Color("kind:N", scale=colours, legend=None)
    )
    # A change too small for a bar still has its place.
    tick = base.mark_tick(thickness=1.5, size=14, color=theme.INK).encode(x=alt.X("end:Q"), y=y)
    text = base.mark_text(align="left", color=theme.INK, fontSize=12).encode(
        x=alt.value(width + 12), y=y, text=alt.Text("text:N")
    )
    return layered(
        bar, tick, text, title=panel.title, width=width, height=_ROW_PX * len(panel.values("row"))
    )


def timeline(figure: Figure, panels: list[Panel]) -> Drawing:
    """Return the tracks below one another, a column per treatment, all over the same seconds."""
    columns = len({panel.names[2] for panel in panels})
    width = round(theme.WIDTH / columns) - _AXIS_PX - _APART_PX
    at = figure.columns.index("at")
    ends = [end for row in figure.rows if isinstance(end := row[at], float)]
    drawn = [
        _track_panel(figure, panels, place, width=width, until=max(ends), columns=columns)
        for place in range(len(panels))
    ]
    return in_columns(drawn, columns=columns, row_px=30, column_px=_AXIS_PX + _APART_PX)


def _track_panel(
    figure: Figure, panels: list[Panel], place: int, *, width: int, until: float, columns: int
) -> Drawing:
    panel = panels[place]
    workload, track, treatment = panel.names
    # The first track of a workload carries the names, the last of all the seconds.
    first = place < columns or panels[place - columns].names[0] != workload
    last = place + columns >= len(panels)
    axis = alt.Axis(
        title="seconds of the run" if last else None, labels=last, grid=False, tickCount=6
    )
    seconds = alt.Scale(domain=[0.0, until], nice=False)
    x = alt.X("at:Q", axis=axis, scale=seconds)
    top: Any = panel.records[0]["top"]
    y_axis = alt.Axis(
        title=track if place % columns == 0 else None,
        format="~s" if track == figure.words.rate else alt.Undefined,
        tickCount=3,
        titleFontSize=11,
    )
    y_scale = alt.Scale(domain=[0.0, top or 1.0], nice=False)
    base = chart_of(panel)
    values = base.transform_filter("datum.mark == 'value'")
    y = alt.Y("value:Q", axis=y_axis, scale=y_scale, stack="zero")
    drawn = values.mark_area(interpolate="step-before").encode(x=x, y=y, color=_lines(figure))
    ramp = base.transform_filter("datum.mark == 'ramp'").transform_calculate(begin="0")
    shaded = ramp.mark_rect(color=theme.BASELINE, opacity=0.16).encode(
        x=alt.X("begin:Q", axis=axis, scale=seconds), x2=alt.X2("at:Q")
    )
    checkpoint = base.transform_filter("datum.mark == 'checkpoint'").mark_rule(
        color=theme.INK, strokeWidth=1.5, strokeDash=[3, 3]
    )
    title = f"{workload} · {treatment}" if first else ""
    return layered(
        drawn, shaded, checkpoint.encode(x=x), title=title, width=width, height=_TRACK_PX
    )


def _lines(figure: Figure) -> alt.Color:
    line = figure.columns.index("line")
    names = [str(name) for name in dict.fromkeys(row[line] for row in figure.rows) if name]
    colours = [theme.line_colour(name) for name in names]
    legend = alt.Legend(columns=7, columnPadding=18, symbolType="square")
    return alt.Color("line:N", scale=alt.Scale(domain=names, range=colours), legend=legend)
