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
from steelyard.core.wording import format_duration, format_percent, format_share
from steelyard.report import document as doc

TITLE = "Noise"
_WORTH = 0.1  # a guess: for less, another slice length is not worth a change
_SEEN = "What this set-up can see"
_SEES_NOTE = (
    "What the experiment itself would reach when it ends after so many minutes, its preparation"
    " included, at the level of its last interim result; in brackets what this campaign leaves"
    " open. The smallest effect is the one that nine of ten such campaigns would decide: the"
    " half-width over 0.6."
)
_CELL_NOTE = "At the level of simultaneous cells, which is smaller than that of the result."
_PARTS_NOTE = (
    "Standard deviations of the logarithm of throughput, about percent; intervals of 95 % over "
    "blocks. Slices and starts are what remains when the noise within the runs is subtracted."
)
_TURN_PARTS_NOTE = (
    "Standard deviations of the logarithm of throughput, about percent; intervals of 95 % over "
    "blocks. A second of turns falls with the root of the seconds that count; what a start draws "
    "is in all cells of its block. The line about the next block is what the same runs vary by "
    "when each is compared with one of the next block, as servers are that are measured one after "
    "another."
)
_UNTOLD = (
    "With one cell and one set of connections nothing tells what these draw: it is in the starts."
)
# By whether generators were connected anew.
_UNKNOWN = {
    True: " Whether more connections help is not clear from these.",
    False: " Whether more connections help is not known: measure with measure.reconnects of 1 or"
    " more.",
}
_LONG = 60
_DESIGN_NOTE = (
    "For the experiment itself, pooled over its loads, preparation included: half-width at the "
    "last interim result, and the least budget in which nine of ten campaigns decide an effect."
)
# By whether turns were measured.
_OTHER_NOTE = {
    True: "One by one is foretold from these runs, each compared with one of the next block, and "
    "from the length that its blocks would have.",
    False: "Alternating is foretold from what starts one by one say of it at most, else from the"
    " assumed noise of turns: measure it to know.",
}
_HALVES = (
    "With one run per start, slices and starts cannot be told apart: their sum is measured, and "
    "each is shown with half of its variance."
)


def noise_section(analysis: CampaignAnalysis, floor: compute.NoiseFloor) -> tuple[doc.Section, ...]:
    """Return what an A/A campaign measured."""
    blocks: list[doc.Block] = [_outcome(analysis, floor)]
    if floor.workloads:
        blocks += [
            _sight_table(analysis, _SEEN, _reaches(floor, pooled=True), _SEES_NOTE),
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
    named = f"This is {floor.experiment}, its baseline against itself"
    if not floor.workloads:
        text = (
            f"{named}: {doc.count(analysis.blocks, 'complete block')} cannot say what the noise is."
        )
        return doc.Paragraph(text=text, tone=doc.Tone.WARNING)
    found = [c for c in analysis.results if c.verdict in (Verdict.FASTER, Verdict.SLOWER)]
    if found:
        differences = "; ".join(_difference(c) for c in found)
        text = (
            f"{named}, and it found a difference where there is none: {differences}. At most 4 of "
            "100 sound set-ups show this by chance. Repeat it with another seed before you trust "
            "a comparison here."
        )
        return doc.Paragraph(text=text, tone=doc.Tone.WARNING)
    text = f"{named}: no difference was found, as it should be. What varies is noise."
    return doc.Paragraph(text=text)


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
    return (_sight_table(analysis, title, cells, _CELL_NOTE),) if cells else ()


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
            lambda row: doc.load_data(row[1].load),
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
_NEEDED: Final = doc.Form(show=doc.about, unit=SECONDS)


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
        note=f"{_DESIGN_NOTE} {_OTHER_NOTE[floor.mode is Mode.ALTERNATING]}",
    )
    return (table,)


# --- what the noise is made of ---


def _part_table(floor: compute.NoiseFloor) -> doc.Table:
    note = _PARTS_NOTE if floor.turns is None else _TURN_PARTS_NOTE
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
    return doc.transposed(table, "part")


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
            yield _HALVES
        if workload.in_turns is not None and workload.in_turns.connection_sd is None:
            yield _UNTOLD


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
    yield (
        f"A block takes about {format_duration(floor.block_s)}, the preparation took "
        f"{format_duration(floor.preparation_s)}."
    )


def _slices(floor: compute.NoiseFloor, starts: int) -> str:
    if any(workload.own_s is not None for workload in floor.workloads):
        return f"Best slices by workload: {', '.join(map(_best, floor.workloads))}."
    if floor.turns is not None:
        return _turns(floor, floor.turns, starts)
    present = f"{floor.run_time_s:g} s"
    if floor.advised_run_time_s is None or floor.width_ratio is None:
        return (
            f"The best slice length is not known: the parts of the noise were not measured. "
            f"It stays at {present}."
        )
    best = f"{floor.advised_run_time_s:g} s"
    if floor.width_ratio > 1.0 - _WORTH:
        return (
            f"Keep slices of {present}: no other length narrows the intervals by"
            f" {doc.share(_WORTH)} (the best is {best})."
        )
    gain = format_share(1.0 - floor.width_ratio)
    return (
        f"Set measure.run_time to {floor.advised_run_time_s:g}s instead of {present}: intervals"
        f" about {gain} narrower in the same time."
    )


def _best(workload: compute.WorkloadFloor) -> str:
    """Return the best slice of a workload, and its own of the file."""
    best = "not known" if workload.best_run_time_s is None else f"{workload.best_run_time_s:g} s"
    own = "" if workload.own_s is None else f" (now {workload.own_s:g} s)"
    return f"{workload.workload} {best}{own}"


def _turns(floor: compute.NoiseFloor, turns: compute.TurnsTaken, starts: int) -> str:
    """Return which seconds of turns and connections are best, from ten starts on."""
    present = f"{floor.run_time_s:g} s of turns"
    if floor.advised_run_time_s is None or floor.width_ratio is None:
        return (
            f"Keep {present}: other lengths are advised from {LEAST_STARTS} starts on, and this"
            f" campaign has {starts}."
        )
    anew = turns.advised_reconnects
    untold = "" if anew is not None else _UNKNOWN[turns.reconnects > 0]
    if floor.width_ratio > 1.0 - _WORTH:
        best = f"{floor.advised_run_time_s:g} s" + ("" if anew is None else f" and {anew}")
        return (
            f"Keep {present} and {doc.count(turns.reconnects, 'reconnection')}: nothing else"
            f" narrows the intervals by {doc.share(_WORTH)} (the best is {best}).{untold}"
        )
    more = "" if anew in (None, turns.reconnects) else f" and measure.reconnects to {anew}"
    gain = format_share(1.0 - floor.width_ratio)
    return (
        f"Set measure.run_time to {floor.advised_run_time_s:g}s{more}: intervals about {gain}"
        f" narrower in the same time.{untold}"
    )


def _mode(floor: compute.NoiseFloor) -> str:
    if floor.mode is Mode.ALTERNATING:
        shares = [
            f"{format_share(w.in_turns.start_share)} ({w.workload})"
            for w in floor.workloads
            if w.in_turns is not None and w.in_turns.start_share is not None
        ]
        drawn = f" Starts and connections bring {', '.join(shares)} of the variance of a cell."
        part = drawn if shares else ""
        return (
            f"Measured in turns.{part} What the seconds bring falls with longer turns, what starts"
            " bring falls with more blocks only."
        )
    if floor.mode is Mode.BACK_TO_BACK:
        return (
            "Measured back to back, as a new session or a reload allows: what a restart changes "
            "cancels. It says nothing of comparisons that need restarts (--switch restart)."
        )
    shares = [
        f"{format_share(w.restart_share)} ({w.workload})"
        for w in floor.workloads
        if w.restart_share is not None
    ]
    part = f" Restarts bring {', '.join(shares)} of the variance of a cell." if shares else ""
    return (
        f"Measured one by one, with a restart for each.{part} What a reload or a new session can "
        "change is better measured back to back, where they cancel (--switch session)."
    )


def _time_for(workload: compute.WorkloadFloor, decide: float) -> str:
    pooled = workload.comparisons[0]
    enough = [
        s
        for s in pooled.expected
        if s.smallest_visible is not None and s.smallest_visible.value <= decide
    ]
    if enough:
        least = f"{enough[0].minutes} minutes"
        return f"nine of ten campaigns of {least} decide an effect of {doc.share(decide)}."
    last = pooled.expected[-1]
    least = (
        "nothing is" if last.smallest_visible is None else f"{_ranged(last.smallest_visible)} is"
    )
    return (
        f"an effect of {doc.share(decide)} is not reliably decided in {last.minutes} minutes; "
        f"{least} then."
    )


# --- the chart ---


def _figure(analysis: CampaignAnalysis, floor: compute.NoiseFloor) -> tuple[doc.Figure, ...]:
    rows = tuple(_figure_rows(analysis, floor))
    if not rows:
        return ()
    several = len(analysis.experiment.closed_loads) > 1
    lines = "the dark line is the result over all loads, the grey ones are cells; " * several
    said = "; ".join(_said(workload) for workload in floor.workloads)
    figure = doc.Figure(
        identity="noise",
        kind=doc.ChartKind.NOISE,
        title="Half-width against minutes",
        caption=f"Half-width of the {doc.CONFIDENCE} interval of the experiment itself, both axes "
        f"logarithmic: {lines}the band is what this campaign leaves open. Horizontal lines stand "
        "at 1, 2, 3 and 5 %.",
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
