"""The noise floor of a set-up: what it can see in which time, what the noise is, what to use."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from steelyard.answers.noise import compute
from steelyard.answers.results import CampaignAnalysis, Comparison, cell_name
from steelyard.answers.turns import TAKEN
from steelyard.core.campaign import LEAST_STARTS
from steelyard.core.findings import Estimate, Verdict
from steelyard.core.quantities import PERCENT, SECONDS
from steelyard.core.schedule import Mode
from steelyard.core.wording import format_about, format_percent, format_share
from steelyard.report import document as doc
from steelyard.report.keys import load_data
from steelyard.report.texts import Texts

TITLE = "Noise"
_WORTH = 0.1  # a guess: for less, another slice length is not worth a change
_SEEN = "What this set-up can see"
_LONG = 60
_TEXTS: Final = Texts(__name__)


def noise_section(analysis: CampaignAnalysis, floor: compute.NoiseFloor) -> tuple[doc.Section, ...]:
    """Return what an A/A campaign measured."""
    blocks: list[doc.Block] = [_outcome(analysis, floor)]
    if floor.workloads:
        blocks += [
            _sight_table(analysis, _SEEN, _reaches(floor, pooled=True), _TEXTS.results()),
            *_design_table(floor),
            *_figure(analysis, floor),
            doc.BulletList(lead="What to use", items=tuple(_advice(analysis, floor))),
            _part_table(floor),
            *_cell_table(analysis, floor),
        ]
    decide = analysis.experiment.stop.detect
    figures = tuple((each.workload, _in_brief(each, decide)) for each in floor.workloads)
    brief = (doc.KeyValues(title="", pairs=figures),) if figures else ()
    return (
        doc.Section(anchor="noise", title=TITLE, blocks=tuple(blocks), first=True, brief=brief),
    )


def _in_brief(workload: compute.WorkloadFloor, decide: float) -> str:
    """Return what a block varies by, what the campaign saw, and what is decided in which time."""
    pooled = workload.comparisons[0]
    told = [f"a block varies by {_bare(pooled.contrast_sd)}"]
    if pooled.half_width_here is not None:
        told.append(f"this campaign saw ±{format_share(pooled.half_width_here)}")
    sights = [sight for sight in pooled.expected if sight.smallest_visible is not None]
    enough = [
        s for s in sights if s.smallest_visible is not None and s.smallest_visible.value <= decide
    ]
    if enough:
        told.append(f"{enough[0].minutes} minutes decide {doc.share(decide)}")
    elif sights:
        least = f"{sights[-1].minutes} minutes decide {_bare(sights[-1].smallest_visible)}"
        told.append(f"{least}, not {doc.share(decide)}")
    return ", ".join(told)


def _bare(estimate: Estimate | None) -> str:
    return doc.MISSING if estimate is None else f"{_number(estimate.value)} %"


def _outcome(analysis: CampaignAnalysis, floor: compute.NoiseFloor) -> doc.Paragraph:
    decided = [c for c in analysis.results if c.verdict in (Verdict.FASTER, Verdict.SLOWER)]
    text = _TEXTS.outcome(
        experiment=floor.experiment,
        blocks=analysis.blocks,
        is_measured=bool(floor.workloads),
        differences="; ".join(map(_difference, decided)),
    )
    is_doubtful = decided or not floor.workloads
    return doc.Paragraph(text=text, tone=doc.Tone.WARNING if is_doubtful else doc.Tone.PLAIN)


def _difference(comparison: Comparison) -> str:
    value = doc.effect_value(comparison.effect)
    return f"{comparison.workload} {comparison.verdict.value}, {value}"


# --- what can be seen ---


def _reaches(floor: compute.NoiseFloor, *, pooled: bool) -> list[tuple[str, compute.Reach]]:
    return [
        (workload.workload, reach)
        for workload in floor.workloads
        for reach in workload.comparisons
        if (reach.load is None) is pooled
    ]


def _cell_table(analysis: CampaignAnalysis, floor: compute.NoiseFloor) -> tuple[doc.Table, ...]:
    """Return the cells, where they are something else than the results."""
    cells = _reaches(floor, pooled=False)
    title = f"{_SEEN}, cell by cell"
    return (_sight_table(analysis, title, cells, _TEXTS.cells()),) if cells else ()


def _sight_table(
    analysis: CampaignAnalysis, title: str, reaches: Sequence[tuple[str, compute.Reach]], note: str
) -> doc.Table:
    rows = [(name, reach, sight) for name, reach in reaches for sight in reach.expected]
    return doc.table_of(
        rows,
        doc.column("workload", lambda row: row[0]),
        doc.Cells(
            doc.Column(name="load"),
            lambda row: _load(analysis, row[1]),
            lambda row: load_data(row[1].load),
        ),
        doc.column(
            "time", lambda row: row[2].minutes, replace(doc.WHOLE, heading="min"), key="minutes"
        ),
        doc.column("blocks", lambda row: row[2].blocks, doc.WHOLE, spare=True),
        doc.column(
            "half-width of the interval", lambda row: row[2].half_width, _HALF, key="half_width"
        ),
        doc.column(
            "smallest effect seen",
            lambda row: row[2].smallest_visible,
            _SIZE,
            key="smallest_visible",
        ),
        title=title,
        note=note,
    )


def _load(analysis: CampaignAnalysis, reach: compute.Reach) -> str:
    loads = analysis.experiment.closed_loads
    return cell_name(analysis.experiment, loads[0] if len(loads) == 1 else reach.load)


def _ranged(estimate: Estimate) -> str:
    """Return ``1.9 % (1.5 to 2.6)``."""
    return f"{_number(estimate.value)} %{_between(estimate, _number)}"


def _number(fraction: float) -> str:
    """Return a percentage without its sign and unit; what rounds to nothing is 0."""
    text = format_share(fraction).removesuffix(" %")
    return "0" if float(text) == 0.0 else text


def _between(estimate: Estimate, shown: Callable[[float], str]) -> str:
    pair = doc.bounds(estimate)
    return "" if pair is None else f" ({shown(pair[0])} to {shown(pair[1])})"


def _trend(estimate: Estimate) -> str:
    if doc.bounds(estimate) is None:
        return doc.MISSING
    ends = _between(estimate, lambda end: format_percent(end).removesuffix(" %"))
    return f"{format_percent(estimate.value)}{ends}"


_SIZE: Final = doc.Form(show=_ranged, unit=PERCENT)
_HALF: Final = replace(_SIZE, show=lambda half: f"±{_ranged(half)}", missing="no interim result")
_SHARE: Final = doc.Form(show=format_share, unit=PERCENT)
_TREND: Final = replace(_SIZE, show=_trend)
_RATIO: Final = doc.Form(show=lambda ratio: f"{ratio.value:.2f}{_between(ratio, '{:.2f}'.format)}")
_BLOCK: Final = doc.Form(show="{:.1f}".format, unit=SECONDS, heading="s")
_NEEDED: Final = doc.Form(show=format_about, unit=SECONDS)


# --- both designs ---


def _design_table(floor: compute.NoiseFloor) -> tuple[doc.Table, ...]:
    """Return what each design decides in how many minutes, where there are two."""
    if len({each.mode for each in floor.designs}) < 2:
        return ()
    table = doc.table_of(
        floor.designs,
        doc.column("workload", lambda each: each.workload),
        doc.Cells(
            doc.Column(name="design"),
            lambda each: f"{TAKEN[each.mode]}{'' if each.measured else ', foretold'}",
            lambda each: (("mode", each.mode.value), ("measured", each.measured)),
        ),
        doc.column("block", lambda each: each.block_s, _BLOCK, spare=True),
        doc.column("one block varies by", lambda each: each.contrast_sd, _SHARE, key="contrast_sd"),
        *(
            doc.column(
                f"half-width after {m} min",
                partial(lambda minutes, each: each.half_width[minutes], m),
                replace(_HALF, show=lambda half: f"±{_number(half)} %"),
                spare=m > _LONG,
            )
            for m in compute.MINUTES
        ),
        *(
            doc.column(
                f"{size} decided in",
                partial(lambda effect, each: each.needed_s[effect], size),
                _NEEDED,
                key=f"needed_{size.removesuffix(' %')}_percent",
            )
            for size in map(doc.share, compute.EFFECTS)
        ),
        title="What each design decides",
        note=_TEXTS.designs(in_turns=floor.mode is Mode.ALTERNATING),
    )
    return (table,)


# --- what the noise is made of ---


def _part_table(floor: compute.NoiseFloor) -> doc.Table:
    note = _TEXTS.parts(in_turns=floor.turns is not None)
    table = doc.table_of(
        floor.workloads,
        doc.column("workload", lambda w: w.workload),
        *(_LINES_IN_TURNS if floor.turns is not None else _lines_in_starts(floor.mode)),
        doc.column("drift, after one hour", lambda w: w.drift_sd, _SIZE, key="drift_sd"),
        doc.column("trend per hour", lambda w: w.trend_per_h, _TREND, key="trend_per_h"),
        doc.column(
            "one block, all loads",
            lambda w: w.comparisons[0].contrast_sd,
            _SIZE,
            key="contrast_sd",
        ),
        doc.column(
            "this campaign's own half-width",
            lambda w: w.comparisons[0].half_width_here,
            replace(_SHARE, show=lambda half: f"±{format_share(half)}"),
            key="half_width_here",
        ),
        title="What the noise is made of",
        note=" ".join([note, *dict.fromkeys(_remarks(floor))]),
        reason=lambda w: w.reason,
    )
    return _transposed(table, "part")


def _transposed(table: doc.Table, head: str) -> doc.Table:
    """Return a table with a row for each column; its data stay as they are."""
    columns = tuple(doc.number_column(row.cells[0]) for row in table.rows)
    rows = (
        doc.Row(cells=(column.heading, *(row.cells[place] for row in table.rows)))
        for place, column in enumerate(table.columns)
    )
    _, *shown = rows
    return replace(table, columns=(doc.Column(name=head), *columns), rows=tuple(shown))


def _lines_in_starts(mode: Mode) -> tuple[doc.Cells, ...]:
    cancels = mode is Mode.BACK_TO_BACK
    return (
        doc.column("from second to second", lambda w: w.second_sd, _SIZE, key="second_sd"),
        doc.column(
            "autocorrelation of seconds", lambda w: w.autocorrelation, _RATIO, key="autocorrelation"
        ),
        doc.column("from slice to slice", lambda w: w.slice_sd, _SIZE, key="slice_sd"),
        doc.column(
            "from start to start",
            lambda w: None if cancels else w.restart_sd,
            replace(_SIZE, missing="cancels" if cancels else doc.MISSING),
            key="restart_sd",
        ),
    )


def _remarks(floor: compute.NoiseFloor) -> Iterator[str]:
    for workload in floor.workloads:
        if workload.reason:
            yield f"{workload.workload}: {workload.reason}."
        if workload.noise is not None and "slice_sd" in workload.noise.assumed:
            yield _TEXTS.halves()
        if workload.in_turns is not None and workload.in_turns.connection_sd is None:
            yield _TEXTS.one_cell()


def _in_turns(name: str, part: str) -> doc.Cells:
    """Return a part that only turns have."""
    return doc.column(name, lambda w: w.in_turns and getattr(w.in_turns, part), _SIZE, key=part)


_LINES_IN_TURNS: Final = (
    doc.column("one second of turns", lambda w: w.second_sd, _SIZE, key="second_sd"),
    _in_turns("from start to start", "start_sd"),
    _in_turns("from connections to connections", "connection_sd"),
    _in_turns("one run against one of the next block", "apart_sd"),
)


# --- what to use ---


def _advice(analysis: CampaignAnalysis, floor: compute.NoiseFloor) -> Iterator[str]:
    yield _slices(floor, analysis.blocks)
    yield _mode(floor)
    decide = analysis.experiment.stop.detect
    for workload in floor.workloads:
        yield f"{workload.workload}: {_time_for(workload, decide)}"
    yield _TEXTS.lengths(block_s=floor.block_s, preparation_s=floor.preparation_s)


def _slices(floor: compute.NoiseFloor, starts: int) -> str:
    """Return which slices, or seconds of turns and connections, are best."""
    if any(workload.own_s is not None for workload in floor.workloads):
        return f"Best slices by workload: {', '.join(map(_best, floor.workloads))}."
    best_s, ratio, turns = floor.advised_run_time_s, floor.width_ratio, floor.turns
    values = {
        "now_s": f"{floor.run_time_s:g}",
        "best_s": "" if best_s is None else f"{best_s:g}",
        "gain": None if best_s is None or ratio is None else 1.0 - ratio,
        "is_worth_it": ratio is not None and ratio <= 1.0 - _WORTH,
        "worth": _WORTH,
    }
    if turns is None:
        return _TEXTS.slices(**values)
    return _TEXTS.turns(
        **values,
        starts=starts,
        least=LEAST_STARTS,
        reconnects=turns.reconnects,
        best_reconnects=turns.advised_reconnects,
    )


def _best(workload: compute.WorkloadFloor) -> str:
    """Return the best slice of a workload, and its own of the file."""
    best = "not known" if workload.best_run_time_s is None else f"{workload.best_run_time_s:g} s"
    own = "" if workload.own_s is None else f" (now {workload.own_s:g} s)"
    return f"{workload.workload} {best}{own}"


def _mode(floor: compute.NoiseFloor) -> str:
    if floor.mode is Mode.BACK_TO_BACK:
        return _TEXTS.back_to_back()
    if floor.mode is Mode.ALTERNATING:
        drawn = _shares(floor, lambda w: w.in_turns.start_share if w.in_turns else None)
        return _TEXTS.in_turns(shares=drawn)
    return _TEXTS.one_by_one(shares=_shares(floor, lambda w: w.restart_share))


def _shares(
    floor: compute.NoiseFloor, share: Callable[[compute.WorkloadFloor], float | None]
) -> str:
    by_workload = {workload.workload: share(workload) for workload in floor.workloads}
    return ", ".join(
        f"{format_share(value)} ({name})"
        for name, value in by_workload.items()
        if value is not None
    )


def _time_for(workload: compute.WorkloadFloor, decide: float) -> str:
    pooled = workload.comparisons[0]
    enough = [
        s
        for s in pooled.expected
        if s.smallest_visible is not None and s.smallest_visible.value <= decide
    ]
    if enough:
        return _TEXTS.decided(minutes=enough[0].minutes, effect=decide)
    last = pooled.expected[-1]
    smallest = "" if last.smallest_visible is None else _ranged(last.smallest_visible)
    return _TEXTS.undecided(minutes=last.minutes, effect=decide, smallest=smallest)


# --- the chart ---


def _figure(analysis: CampaignAnalysis, floor: compute.NoiseFloor) -> tuple[doc.Figure, ...]:
    rows = tuple(_figure_rows(analysis, floor))
    if not rows:
        return ()
    said = "; ".join(_said(workload) for workload in floor.workloads)
    figure = doc.Figure(
        identity="noise",
        kind=doc.ChartKind.NOISE,
        title="Half-width against minutes",
        caption=_TEXTS.figure(has_cells=len(analysis.experiment.closed_loads) > 1),
        alt=f"Half-width of the interval against minutes, by workload. {said}.",
        columns=("workload", "row", "pooled", "minutes", "half", "low", "high"),
        rows=rows,
        configurations=analysis.names,
    )
    return (figure,)


def _figure_rows(
    analysis: CampaignAnalysis, floor: compute.NoiseFloor
) -> Iterator[tuple[doc.Value, ...]]:
    for workload in floor.workloads:
        for reach in workload.comparisons:
            for sight in reach.expected:
                half = sight.half_width
                pair = None if half is None else doc.bounds(half)
                if half is None or pair is None or half.value <= 0.0:
                    continue  # nothing to draw on a logarithmic axis
                yield (
                    *(workload.workload, _load(analysis, reach), reach.load is None),
                    *(sight.minutes, *(round(100.0 * end, 6) for end in (half.value, *pair))),
                )


def _said(workload: compute.WorkloadFloor) -> str:
    points = [
        f"±{format_share(sight.half_width.value)} in {sight.minutes} min"
        for sight in workload.comparisons[0].expected
        if sight.half_width is not None
    ]
    return f"{workload.workload}: {', '.join(points) or 'no interim result within two hours'}"
