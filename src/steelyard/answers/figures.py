"""The rows behind each chart, and what the chart says in words."""

import math
from collections.abc import Iterator
from itertools import product

from steelyard.answers.attribution.section import compared_names
from steelyard.answers.drawing import specification
from steelyard.answers.results import CampaignAnalysis, Comparison
from steelyard.answers.wording import LABEL, cell_name, cells_together, short_load, verdict_sentence
from steelyard.core.experiment import MANY_FIRST, RATE
from steelyard.core.measurement import Run
from steelyard.core.schedule import CellKey
from steelyard.report.document import ChartKind, Figure, Section, Value
from steelyard.report.formats import (
    CONFIDENCE,
    bounds,
    count,
    effect_interval,
    effect_value,
    enumeration,
    present,
    rate,
    rate_interval,
    share,
)

Rows = tuple[tuple[Value, ...], ...]

# A strip of five to ten points per run stays legible, and the page light, up to about this many.
_MOST_STRIP_POINTS = 6000

_ASIDE = 0.08  # of the distance between two loads
_ASIDE_IN_ALL = 0.64  # so that the combinations of factors stay nearer to their load than the next


def chart_section(analysis: CampaignAnalysis) -> Section | None:
    """Return the charts that have something to show; None when none has."""
    figures = (
        *_effects_by_load(analysis),
        _loads(analysis),
        _blocks(analysis),
        _strips(analysis),
    )
    drawn = tuple(figure for figure in figures if figure.rows)
    return Section(anchor="charts", title="Charts", blocks=drawn) if drawn else None


def _treatments(analysis: CampaignAnalysis) -> tuple[str, ...]:
    """Return the baseline, then the others in file order: the order of the colours."""
    return (analysis.experiment.baseline, *analysis.experiment.contenders)


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
    marks = "diamonds are headlines with their intervals"
    if len(analysis.experiment.closed_loads) > 1:
        marks = "diamonds are headlines over all loads, dots cells "
        marks += f"({cells_together(analysis.experiment)})"
    sentences = "; ".join(verdict_sentence(analysis, c) for c in analysis.headlines)
    return Figure(
        specify=specification,
        identity="effects",
        kind=ChartKind.EFFECTS,
        title="Effects with their intervals",
        caption=f"Difference in {RATE} against {compared_names(analysis)[0]}: {marks}; the grey "
        f"band is ±{margin}, of no practical weight. Each workload has its own axis.",
        alt=f"Forest plot of effects on {RATE}. {sentences}.",
        columns=(
            *("workload", "treatment", "place", "row", "pooled", "text"),
            *("effect", "low", "high", "below", "margin"),
        ),
        rows=tuple(_effect_rows(analysis)),
        treatments=compared_names(analysis),
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
            *(c.workload, c.treatment, place, _effect_name(analysis, c), c.load is None),
            f"{effect_value(c.effect)} {interval}",
            *(_percent(c.effect.value), _percent(low), _percent(high)),
            *(None if margin is None else -margin, margin),
        )


def _redundant(analysis: CampaignAnalysis, comparison: Comparison) -> bool:
    """Return whether it is the only cell of a headline: the same blocks, shown once."""
    return len(analysis.experiment.closed_loads) == 1 and comparison.load is not None


def _effect_name(analysis: CampaignAnalysis, comparison: Comparison) -> str:
    experiment = analysis.experiment
    if len(experiment.closed_loads) == 1:
        return comparison.treatment
    name = cell_name(experiment, comparison.load)
    return name if len(experiment.contenders) == 1 else f"{comparison.treatment} · {name}"


def _loads(analysis: CampaignAnalysis) -> Figure:
    several = len(analysis.experiment.closed_loads) > 1
    return Figure(
        specify=specification,
        identity="loads",
        kind=ChartKind.LOADS,
        title=f"{MANY_FIRST} per second over loads" if several else f"{MANY_FIRST} per second",
        caption=_load_caption(analysis),
        alt=f"{MANY_FIRST} per second of "
        f"{enumeration(_treatments(analysis))} by workload and load; the table of cells holds the "
        "same numbers.",
        columns=(
            *("workload", "treatment", "row", "pooled", "text"),
            *("clients", "order", "place", "tps", "low", "high"),
        ),
        rows=tuple(_load_rows(analysis)),
        treatments=_treatments(analysis),
    )


def _load_caption(analysis: CampaignAnalysis) -> str:
    if analysis.experiment.is_single_pass:
        return f"A {LABEL}: one run per point, no interval. Each workload has its own axis."
    return (
        "Median of the runs with its interval over blocks. Each workload has its own axis; the "
        "medians move with the machine, so read differences from the effects above."
    )


def _load_rows(analysis: CampaignAnalysis) -> Iterator[tuple[Value, ...]]:
    loads, names = analysis.experiment.closed_loads, _treatments(analysis)
    for cell in analysis.cells:
        # What an open loop completes was asked for: it is no throughput of the server.
        if cell.cell.load.is_open or not cell.runs or present(cell.tps.value) is None:
            continue
        load = cell.cell.load
        order = loads.index(load) if load in loads else len(loads)
        # Side by side, so that intervals of treatments that are alike do not cover one another.
        aside = min(_ASIDE, _ASIDE_IN_ALL / len(names)) * (
            names.index(cell.treatment) - (len(names) - 1) / 2
        )
        interval = "no interval" if bounds(cell.tps) is None else f"({rate_interval(cell.tps)})"
        text = f"{rate(cell.tps.value)} {interval}"
        yield (
            *(cell.cell.workload, cell.treatment, cell.treatment, False, text),
            *(short_load(analysis.experiment, load), order, round(order + aside, 4)),
            *(cell.tps.value, *(bounds(cell.tps) or (None, None))),
        )


def _blocks(analysis: CampaignAnalysis) -> Figure:
    return Figure(
        specify=specification,
        identity="blocks",
        kind=ChartKind.BLOCKS,
        title="Block by block",
        caption="Each dot is one block's effect, in run order; the line is their running mean, the "
        f"shaded band the final {CONFIDENCE} interval (none before the first look). A slope would "
        "mean that the effect drifted.",
        alt=f"Effect of each of {count(analysis.blocks, 'block')} in run order, by workload and "
        "treatment, with the running mean and the final interval.",
        columns=("workload", "treatment", "block", "log_ratio", "low", "high"),
        rows=tuple(row for c in analysis.headlines for row in _contrast_rows(c)),
        treatments=compared_names(analysis),
    )


def _contrast_rows(comparison: Comparison) -> Iterator[tuple[Value, ...]]:
    low, high = bounds(comparison.effect) or (None, None)
    for number, contrast in enumerate(comparison.contrasts, start=1):
        if math.isfinite(contrast):
            ends = (_percent(low), _percent(high))
            yield (comparison.workload, comparison.treatment, number, contrast, *ends)


_WITH_RAMP = "the faded start of each is the ramp, which does not count"
_IN_TURNS = (
    "each is that of the turns of one treatment in one block, without the pauses between them"
)


def _strips(analysis: CampaignAnalysis) -> Figure:
    every = _thinning(analysis)
    thinned = (
        "" if every == 1 else f" Of {analysis.blocks} blocks every {_ordinal(every)} is drawn."
    )
    return Figure(
        specify=specification,
        identity="strips",
        kind=ChartKind.STRIPS,
        title="Turn by turn" if analysis.is_in_turns else "Second by second",
        caption=f"{MANY_FIRST} per second of every run, runs in the order they were made; "
        f"{_IN_TURNS if analysis.is_in_turns else _WITH_RAMP}.{thinned}",
        alt=f"{'Rates of the turns' if analysis.is_in_turns else 'One-second rates'} of"
        f" {count(len(analysis.runs), 'run')}, by workload and load, coloured by treatment.",
        columns=("workload", "load", "treatment", "run", "at", "tps", "ramp"),
        rows=tuple(_strip_rows(analysis, every)),
        treatments=_treatments(analysis),
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
    yield (*panel, run.treatment, place, float(place), None, False)  # lifts the pen between runs
    ramp_s = 0.0 if run.turns else analysis.experiment.measure.ramp_s
    whole_s = series[-1].end_s
    for second in series:
        if second.seconds > 0 and whole_s > 0:
            at = round(place + 0.1 + 0.9 * second.end_s / whole_s, 4)
            tps = round(second.transactions / second.seconds, 2)
            in_ramp = second.end_s - second.seconds / 2 < ramp_s
            yield (*panel, run.treatment, place, at, tps, in_ramp)
