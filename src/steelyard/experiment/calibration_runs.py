"""Runs after fresh activations, from which the discard is measured."""

from collections.abc import Callable

from steelyard.experiment.redoing import MAX_TRIES
from steelyard.experiment.taking import Taker
from steelyard.experiment.validity import validity_of
from steelyard.model.errors import MeasurementError
from steelyard.model.findings import Validity
from steelyard.model.measurement import Measurement
from steelyard.model.schedule import CellKey, PlannedRun


def warm_up_runs(taker: Taker, means: str) -> Callable[[str, str, int], Measurement]:
    """Return what activates a treatment, runs a workload for some seconds, and measures it."""

    def take(treatment: str, workload: str, seconds: int) -> Measurement:
        cell = CellKey(workload=workload, load=taker.bench.warming_load)
        planned = PlannedRun(treatment=treatment, cell=cell)
        reason = ""
        for attempt in range(1, MAX_TRIES + 1):
            taker.bench.activate(treatment, restore=True, means=means)
            last = attempt == MAX_TRIES  # what the neighbour does then is in the discard
            taken = taker.take(planned, seconds=seconds, ramp_s=0.0, bearing=last)
            valid = validity_of(taken.findings) is not Validity.INVALID
            if taken.measurement is not None and valid:
                return taken.measurement
            reason = "; ".join(finding.message for finding in taken.findings)
        raise MeasurementError(
            f"measuring the warm-up failed {MAX_TRIES} times: {reason}",
            hint="Remove the cause, or declare a discard in `measure.discard`.",
        )

    return take
