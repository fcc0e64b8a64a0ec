"""Many configurations under one workload: which are clearly faster than which."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from steelyard.answers.results import CampaignAnalysis, Comparison
from steelyard.answers.wording import tone_of, verdict_word
from steelyard.report.document import (
    MISSING,
    Column,
    Row,
    Table,
    Tone,
    bounds,
    effect_interval,
    effect_value,
    number_column,
)

MOST_CARDS = 4  # results that a reader takes in as cards
_NOTE = (
    "A configuration's rank is one more than the number of those that are clearly faster: whose"
    " whole interval lies above its own. Configurations of equal rank have no clear order. The"
    " intervals hold together, against the baseline, whose effect is 0 %."
)


def rankings(analysis: CampaignAnalysis) -> tuple[Table, ...]:
    """Return one table per workload, the best first; nothing for few results or for factors."""
    if len(analysis.results) <= MOST_CARDS or analysis.experiment.attribution is not None:
        return ()
    workloads = dict.fromkeys(result.workload for result in analysis.results)
    *others, last = (_ranking(analysis, workload) for workload in workloads)
    return (*others, replace(last, note=_NOTE))


def ranks(intervals: Sequence[tuple[float, float]]) -> list[int]:
    """Return the rank of each interval: one more than the number of those wholly above it."""
    return [1 + sum(low > high for low, _ in intervals) for _, high in intervals]


def _ranking(analysis: CampaignAnalysis, workload: str) -> Table:
    results = [each for each in analysis.results if each.workload == workload]
    known = [each for each in results if bounds(each.effect) is not None]
    intervals = [(0.0, 0.0), *(bounds(each.effect) or (0.0, 0.0) for each in known)]
    order = ranks(intervals)
    baseline = Row(cells=(str(order[0]), results[0].baseline, "0 %", MISSING, "baseline"))
    rows = [(order[0], 0.0, baseline)]
    margin = analysis.experiment.stop.equivalence
    for rank, each in zip(order[1:], known, strict=True):
        value = 0.0 if each.effect is None else each.effect.value
        rows.append((rank, -value, _row(str(rank), each, margin)))
    rows.sort(key=lambda row: row[:2])
    return Table(
        title=f"Ranking under {workload}",
        columns=(
            number_column("rank"),
            Column(name="configuration"),
            number_column("change in throughput"),
            number_column("95 % interval", spare=True),
            Column(name="verdict"),
        ),
        rows=(*(row for *_, row in rows), *_unranked(results, known)),
        tone_column=4,
    )


def _unranked(results: Sequence[Comparison], known: Sequence[Comparison]) -> Iterator[Row]:
    for each in results:
        if each not in known:
            cells = (MISSING, each.configuration, MISSING, MISSING, "no interval yet")
            yield Row(cells=cells, tone=Tone.OPEN)


def _row(rank: str, result: Comparison, margin: float) -> Row:
    return Row(
        cells=(
            rank,
            result.configuration,
            effect_value(result.effect),
            effect_interval(result.effect),
            verdict_word(result, margin),
        ),
        tone=tone_of(result),
    )
