"""Rules about the work: what fell into the runs, their shape and size, the client's part."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np

from steelyard.analysis.judging.events import BY_RUNS, events_differ
from steelyard.analysis.judging.facts import (
    CampaignFacts,
    Runs,
)
from steelyard.model.ceilings import Ceiling, CeilingKind
from steelyard.model.evidence import Evidence, Quantity
from steelyard.model.experiment import EngineName
from steelyard.model.findings import Severity
from steelyard.model.measurement import Run
from steelyard.model.rules import (
    KEPT,
    NOTHING_TO_JUDGE,
    Judges,
    Rule,
    Ruling,
    Threshold,
    broken,
    lacking,
)
from steelyard.model.units import MS_PER_S, format_percent, format_share
from steelyard.stats.interval import block_interval

TREND: Final = 0.05
TREND_LEVEL: Final = 0.01
TREND_FROM: Final = 8  # blocks; METHOD 3.4's first look
TREND_SECONDS: Final = 4  # of a run: two halves of two
FEW_TRANSACTIONS: Final = 100
TRIP_FACTOR: Final = 1.5
LEAST_TRIP_S: Final = 2e-5


def _checkpoints(facts: CampaignFacts) -> Iterator[Ruling]:
    yield from _events(facts, Quantity.CHECKPOINTS, "a checkpoint")


def _autovacuums(facts: CampaignFacts) -> Iterator[Ruling]:
    yield from _events(facts, Quantity.AUTOVACUUMS, "an autovacuum")


def _events(facts: CampaignFacts, quantity: Quantity, what: str) -> Iterator[Ruling]:
    """Compare how many runs of the sides held an event."""
    return events_differ(facts, what, partial(_has_event, quantity), quantity.value)


def _has_event(quantity: Quantity, evidence: Evidence) -> bool | None:
    """Return whether it happened: an idle server counts checkpoints that it skips."""
    counted = evidence.total(quantity)
    skipped = quantity is Quantity.CHECKPOINTS and evidence.total(Quantity.WAL_BYTES) == 0
    return None if counted is None else counted > 0 and not skipped


def _trend(facts: CampaignFacts) -> Iterator[Ruling]:
    ramp_s = facts.experiment.measure.ramp_s
    every = [(t, w.name) for t in facts.seen.treatments for w in facts.experiment.workloads]
    for treatment, workload in every:
        runs = [run for run in facts.runs_of(treatment) if run.cell.workload == workload]
        by_block: dict[int, list[float]] = {}
        for run in runs:
            change = half_change(run, 0.0 if run.turns else ramp_s)
            if change is not None:
                by_block.setdefault(run.block, []).append(change)
        if len(by_block) < TREND_FROM:
            yield NOTHING_TO_JUDGE
            continue
        changes = np.array([np.mean(of_block) for of_block in by_block.values()])
        found = block_interval(changes, TREND_LEVEL / len(every))
        if abs(np.expm1(found.estimate)) > TREND and not found.low <= 0.0 <= found.high:
            yield broken(
                f"{treatment}: in its runs of {workload} the second half is"
                f" {format_percent(float(np.expm1(found.estimate)))} faster than the first",
                subject=treatment,
            )
        else:
            yield KEPT


def half_change(run: Run, ramp_s: float) -> float | None:
    """Return ln of the rate of a run's second half over its first, the ramp left out.

    None where it is too short, or where nothing was done in one half.
    """
    series = run.measurement.series if run.measurement is not None else ()
    kept = [second for second in series if second.end_s - second.seconds >= ramp_s - 0.5]
    if len(kept) < TREND_SECONDS:
        return None
    half = len(kept) // 2
    rates = [
        sum(second.transactions for second in part) / sum(second.seconds for second in part)
        for part in (kept[:half], kept[-half:])
    ]
    return float(np.log(rates[1] / rates[0])) if min(rates) > 0 else None


def _few_transactions(facts: CampaignFacts) -> Iterator[Ruling]:
    for treatment in facts.seen.treatments:
        cells = {
            cell: float(np.median([r.measurement.transactions for r in runs if r.measurement]))
            for (name, cell), runs in facts.seen.runs.items()
            if name == treatment and any(run.measurement for run in runs)
        }
        if not cells:
            yield NOTHING_TO_JUDGE
            continue
        cell = min(cells, key=lambda each: cells[each])
        if cells[cell] < FEW_TRANSACTIONS:
            yield broken(
                f"{treatment}: half of the runs of {cell.workload}, {cell.load.label}, have at most"
                f" {cells[cell]:.0f} {facts.experiment.words.many}",
                subject=treatment,
            )
        else:
            yield KEPT


def _round_trip(facts: CampaignFacts) -> Iterator[Ruling]:
    for sides in facts.sides():
        mine, theirs = (_trip_s(facts.ceilings, runs) for runs in (sides.mine, sides.theirs))
        if mine is None or theirs is None:
            yield lacking("the round trip of each side")
            continue
        differ = abs(mine - theirs) > LEAST_TRIP_S
        if differ and max(mine, theirs) > TRIP_FACTOR * min(mine, theirs):
            yield broken(
                f"{sides.name}: an empty statement came back after {mine * MS_PER_S:.3f} ms, under"
                f" {sides.other} after {theirs * MS_PER_S:.3f} ms",
                subject=sides.name,
            )
        else:
            yield KEPT


def _trip_s(ceilings: Sequence[Ceiling], runs: Runs) -> float | None:
    """Return the median round trip of the runs' servers, in seconds."""
    names = {run.treatment for run in runs}
    found = [
        each.latency_s
        for each in ceilings
        if each.kind is CeilingKind.ROUND_TRIP
        and each.latency_s is not None
        and names & set(each.treatments)
    ]
    return float(np.median(found)) if found else None


WORK_RULES: Final[tuple[Rule[CampaignFacts], ...]] = (
    Rule(
        code="checkpoints-differ",
        engine=EngineName.POSTGRES,
        judges=Judges.COMPARISON,
        severity=Severity.WARNING,
        what="Checkpoints fell into more runs of one side than of the other.",
        why="A run with a checkpoint writes whole pages and waits for the disk. Where a treatment"
        " makes them rarer that is a part of its effect, at this length of a run.",
        thresholds=BY_RUNS,
        remedy="Cover whole checkpoint cycles with `measure.rounds`, or ask for `sustain`.",
        source="METHOD 3.6 (the test), METHOD 12",
        judge=_checkpoints,
    ),
    Rule(
        code="autovacuum-differs",
        engine=EngineName.POSTGRES,
        judges=Judges.COMPARISON,
        severity=Severity.WARNING,
        what="Autovacuum worked in more runs of one side than of the other.",
        why="It reads, writes and cleans; short runs count its cost and not its use.",
        thresholds=BY_RUNS,
        remedy="Restore the data per visit (`measure.reset`), or ask for `sustain`.",
        source="METHOD 3.6 (the test)",
        judge=_autovacuums,
    ),
    Rule(
        code="trend-in-runs",
        judges=Judges.TREATMENT,
        severity=Severity.WARNING,
        what="The second half of the runs is faster or slower than the first, block after block.",
        why="The value then depends on the length of the slice: warm-up that the discard and the"
        " ramp left in, or a decline that goes on.",
        thresholds=(
            Threshold(
                value=TREND,
                shown=f"{format_share(TREND)} between the halves, at level {TREND_LEVEL} shared by"
                f" treatments and workloads, from {TREND_FROM} blocks on",
                reason="a guess: less than that hardly moves a ratio of two treatments",
            ),
        ),
        remedy="Set a longer discard or ramp; ask for `sustain` to see where it leads.",
        source="METHOD 3.3 (the interval), METHOD 3.7",
        judge=_trend,
    ),
    Rule(
        code="few-transactions",
        judges=Judges.TREATMENT,
        severity=Severity.WARNING,
        what="Runs have few transactions.",
        why="A run that ends just before or after one more transaction gives another value.",
        thresholds=(
            Threshold(
                value=FEW_TRANSACTIONS,
                shown=f"{FEW_TRANSACTIONS} in the median run of a cell",
                reason="one more or less is then 1 %; METHOD 8 needs as many for a 90th percentile",
            ),
        ),
        remedy="Set a longer slice.",
        source="METHOD 8",
        judge=_few_transactions,
    ),
    Rule(
        code="round-trip-differs",
        judges=Judges.COMPARISON,
        severity=Severity.WARNING,
        what="The round trip of an empty statement differs between the sides, as it was measured"
        " before the first block.",
        why="Every statement pays it. Where the treatments connect differently it is their effect;"
        " elsewhere the servers are not compared over the same way.",
        thresholds=(
            Threshold(
                value=TRIP_FACTOR,
                shown=f"{TRIP_FACTOR:g} times as long, and {LEAST_TRIP_S * MS_PER_S:g} ms",
                reason="a guess: by the socket of a busy machine it moves by less",
            ),
        ),
        remedy="Connect both alike, or say that the way is what is compared.",
        source="ceilings; threshold: a guess",
        judge=_round_trip,
    ),
)
