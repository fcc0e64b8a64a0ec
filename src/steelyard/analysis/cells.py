"""Every treatment in every cell, described on its own; never a comparison."""

from collections.abc import Sequence

import numpy as np

from steelyard.analysis.block_values import estimate_of
from steelyard.analysis.observations import Observations
from steelyard.analysis.results import CellSummary
from steelyard.model.findings import Finding, Validity
from steelyard.model.measurement import Run
from steelyard.model.schedule import CellKey
from steelyard.stats.confidence import BoolArray, FloatArray
from steelyard.stats.median import median_interval

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
