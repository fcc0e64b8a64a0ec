"""Every treatment in every cell, described on its own; never a comparison.

Stalled slices of the treatments against the baseline's.
"""

from collections.abc import Sequence

import numpy as np

from steelyard.answers.observations import (
    HeadlineContrast,
    Observations,
    estimate_of,
    headline_contrasts,
)
from steelyard.answers.results import CellSummary, StallTest
from steelyard.core.experiment import Experiment
from steelyard.core.findings import Finding, Validity
from steelyard.core.measurement import Run
from steelyard.core.schedule import CellKey
from steelyard.stats.drift import stalled_slices, stalls_p_value
from steelyard.stats.median import median_interval
from steelyard.stats.student import BoolArray, FloatArray

_WORST_LAST = (Validity.VALID, Validity.SUSPECT, Validity.INVALID)


def summarise_cells(seen: Observations, stalled: BoolArray) -> tuple[CellSummary, ...]:
    """Return a summary of each treatment in each cell; none before the first block.

    Args:
        seen: The observations.
        stalled: Which of the single runs stalled, same shape as ``seen.by_slice``.
    """
    if not seen.blocks:
        return ()
    return tuple(
        _summary(
            treatment,
            cell,
            seen.runs[treatment, cell],
            seen.log_tps[:, side, column],
            int(stalled[:, side, column].sum()),
        )
        for column, cell in enumerate(seen.cells)
        for side, treatment in enumerate(seen.treatments)
    )


def _summary(
    treatment: str, cell: CellKey, runs: Sequence[Run], log_tps: FloatArray, stalled: int
) -> CellSummary:
    return CellSummary(
        treatment=treatment,
        cell=cell,
        runs=len(runs),
        tps=estimate_of(median_interval(np.exp(log_tps))),
        latency_mean_s=_median_latency_s(runs),
        validity=max((run.validity for run in runs), key=_WORST_LAST.index),
        stalled=stalled,
        findings=_distinct_findings(runs),
    )


def _median_latency_s(runs: Sequence[Run]) -> float | None:
    reported = [
        run.measurement.latency_mean_s
        for run in runs
        if run.measurement is not None and run.measurement.latency_mean_s is not None
    ]
    return float(np.median(reported)) if reported else None


def _distinct_findings(runs: Sequence[Run]) -> tuple[Finding, ...]:
    """Return the first finding of each rule."""
    first: dict[str, Finding] = {}
    for run in runs:
        for finding in run.findings:
            first.setdefault(finding.code, finding)
    return tuple(first.values())


def compare_stalls(seen: Observations, experiment: Experiment) -> tuple[StallTest, ...]:
    """Return one test per workload and headline contrast; none before the first block.

    Args:
        seen: The observations of closed loops: an open one makes up for a stall within its slice,
            and shows it in its latency.
        experiment: Names the workloads and what is compared under each.
    """
    if not seen.blocks or not seen.cells:
        return ()
    stalled = stalled_slices(seen.by_slice)
    return tuple(
        _test(seen, stalled, asked, workload.name)
        for workload in experiment.workloads
        for asked in headline_contrasts(experiment)
    )


def _test(
    seen: Observations, stalled: BoolArray, asked: HeadlineContrast, workload: str
) -> StallTest:
    columns = seen.columns_of(workload)

    def counted(places: Sequence[int]) -> tuple[int, int]:
        slices = stalled[:, list(places)][:, :, columns]
        return int(slices.sum()), slices.size

    (theirs, their_runs), (mine, my_runs) = counted(asked.negative), counted(asked.positive)
    return StallTest(
        baseline=asked.baseline,
        treatment=asked.treatment,
        workload=workload,
        baseline_stalled=theirs,
        baseline_runs=their_runs,
        treatment_stalled=mine,
        treatment_runs=my_runs,
        p_value=stalls_p_value((theirs, mine), (their_runs, my_runs)),
    )
