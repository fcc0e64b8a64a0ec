"""In which phase of the checkpoint cycle the runs of each treatment began."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from steelyard.analysis.contrasts import headline_contrasts
from steelyard.analysis.observations import Observations
from steelyard.analysis.results import CheckpointPhase
from steelyard.model.experiment import Experiment
from steelyard.model.findings import Finding, Severity
from steelyard.model.measurement import Run
from steelyard.model.units import format_duration

NOTABLE_PHASE_S = 30.0  # a tenth of the default cycle: a guess


def summarise_phases(seen: Observations) -> tuple[CheckpointPhase, ...]:
    """Return one summary per treatment; none where no run recorded its phase."""
    runs = {name: _runs_of(seen, name) for name in seen.treatments}
    if not any(run.checkpoint is not None for of_one in runs.values() for run in of_one):
        return ()
    return tuple(_summary(name, of_one) for name, of_one in runs.items())


def _runs_of(seen: Observations, treatment: str) -> list[Run]:
    return [run for (name, _), runs in seen.runs.items() if name == treatment for run in runs]


def _summary(treatment: str, runs: Sequence[Run]) -> CheckpointPhase:
    asked = [run.checkpoint for run in runs if run.checkpoint is not None]
    ages = [age.seconds for age in asked if age.seconds is not None]
    return CheckpointPhase(
        treatment=treatment,
        runs=len(runs),
        known=len(ages),
        least_s=min(ages, default=None),
        median_s=float(np.median(ages)) if ages else None,
        most_s=max(ages, default=None),
        unknown=next((age.unknown for age in asked if age.unknown), ""),
    )


def phase_findings(seen: Observations, experiment: Experiment) -> Iterator[Finding]:
    """Yield a note for each headline whose two sides began their runs in different phases."""
    by_block = [_mean_ages(_runs_of(seen, name)) for name in seen.treatments]
    for asked in headline_contrasts(experiment):
        name = asked.treatment
        mine, theirs = (
            _together([by_block[place] for place in places])
            for places in (asked.positive, asked.negative)
        )
        shared = sorted(mine.keys() & theirs.keys())
        if not shared:
            continue
        later_s = float(np.median([mine[block] - theirs[block] for block in shared]))
        if abs(later_s) >= NOTABLE_PHASE_S:
            yield Finding(
                code="checkpoint-phase-differs",
                severity=Severity.INFO,
                message=(
                    f"{name}: its runs began {format_duration(abs(later_s))} "
                    f"{'later' if later_s > 0 else 'earlier'} in the checkpoint cycle than those "
                    f"of {asked.baseline} (median over blocks)"
                ),
                remedy=(
                    "Where a treatment makes checkpoints rarer or more frequent this is a part of "
                    "its effect; else cover whole cycles with `measure.rounds`."
                ),
                source="METHOD 12",
                subject=name,
            )


def _together(ages: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """Return the mean age over treatments, of the blocks in which all recorded theirs."""
    shared = set.intersection(*(set(of_one) for of_one in ages))
    return {block: float(np.mean([of_one[block] for of_one in ages])) for block in shared}


def _mean_ages(runs: Sequence[Run]) -> dict[int, float]:
    """Return the mean age of the cycle by block, over the runs that recorded it."""
    ages: dict[int, list[float]] = defaultdict(list)
    for run in runs:
        if run.checkpoint is not None and run.checkpoint.seconds is not None:
            ages[run.block].append(run.checkpoint.seconds)
    return {block: float(np.mean(of_block)) for block, of_block in ages.items()}
