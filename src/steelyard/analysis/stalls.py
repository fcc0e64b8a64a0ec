"""Stalled slices of the treatments against the baseline's."""

from steelyard.analysis.observations import Observations
from steelyard.analysis.results import StallTest
from steelyard.model.experiment import Experiment
from steelyard.stats.confidence import BoolArray
from steelyard.stats.stalls import stalls_p_value


def compare_stalls(
    seen: Observations, stalled: BoolArray, experiment: Experiment
) -> tuple[StallTest, ...]:
    """Return one test per workload and contender; none before the first block.

    Args:
        seen: The observations.
        stalled: Which of the single runs stalled, same shape as ``seen.by_slice``.
        experiment: Names the workloads, the baseline and the contenders.
    """
    if not seen.blocks:
        return ()
    return tuple(
        _test(seen, stalled, experiment.baseline, contender, workload.name)
        for workload in experiment.workloads
        for contender in experiment.contenders
    )


def _test(
    seen: Observations, stalled: BoolArray, baseline: str, treatment: str, workload: str
) -> StallTest:
    columns = seen.columns_of(workload)
    runs = len(stalled) * len(columns)
    mine, theirs = (
        int(stalled[:, seen.treatments.index(name)][:, columns].sum())
        for name in (treatment, baseline)
    )
    return StallTest(
        baseline=baseline,
        treatment=treatment,
        workload=workload,
        baseline_stalled=theirs,
        baseline_runs=runs,
        treatment_stalled=mine,
        treatment_runs=runs,
        p_value=stalls_p_value((theirs, mine), (runs, runs)),
    )
