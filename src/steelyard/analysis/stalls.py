"""Stalled slices of the treatments against the baseline's."""

from collections.abc import Sequence

from steelyard.analysis.contrasts import HeadlineContrast, headline_contrasts
from steelyard.analysis.observations import Observations
from steelyard.analysis.results import StallTest
from steelyard.model.experiment import Experiment
from steelyard.stats.confidence import BoolArray
from steelyard.stats.stalls import stalled_slices, stalls_p_value


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
