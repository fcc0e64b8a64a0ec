"""The discard after an activation: declared, measured, or the floor of METHOD 3.7."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from steelyard.experiment import durations
from steelyard.model.errors import MeasurementError
from steelyard.model.experiment import Experiment
from steelyard.model.measure import Calibration
from steelyard.model.measurement import Measurement
from steelyard.model.plan import DiscardChoice
from steelyard.model.units import format_percent
from steelyard.stats.warmup import residual_loss, settled_after_s

_LEAST_SECONDS = 2  # two batches of MSER at its shortest batch
_GOOD_RESTARTS, _GOOD_RUN_S = 5, 90.0  # what METHOD 3.7 asks for


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmupRuns:
    """Calibration runs of one treatment: by workload, one measurement per activation."""

    treatment: str
    by_workload: dict[str, list[Measurement]] = field(default_factory=dict)


def declared_discard(experiment: Experiment, *, alternates: bool = False) -> DiscardChoice | None:
    """Return the discard when nothing is to be measured; None asks for a calibration.

    Where treatments alternate it is counted in seconds under load, and made longer in the next
    blocks when one of them was still warming up.
    """
    measure = experiment.measure
    if alternates and measure.discard_s is None:
        return DiscardChoice(
            discard_s=durations.TURNS_DISCARD_S,
            how="floor",
            risk="The warm-up is tested in every block, and longer in the next one where a"
            " treatment was still warming up.",
        )
    if measure.discard_s is not None:
        return DiscardChoice(
            discard_s=measure.discard_s,
            how="declared",
            risk="The discard was declared, not measured: a treatment that warms up more slowly is"
            " understated.",
        )
    if measure.calibration is None:
        return DiscardChoice(
            discard_s=durations.DEFAULT_DISCARD_S,
            how="floor",
            risk="The discard was not measured here: a treatment that needs longer to warm up is"
            " understated.",
        )
    return None


def calibrate(
    experiment: Experiment,
    calibration: Calibration,
    take: Callable[[str, str, int], Measurement],
) -> DiscardChoice:
    """Return the discard from runs after fresh activations, the same for all treatments.

    Args:
        experiment: Whose treatments and workloads are run.
        calibration: How often and how long.
        take: Activates a treatment on restored data, runs a workload for some seconds and
            returns what it measured, ramp included.
    """
    workloads = [workload.name for workload in experiment.workloads]
    restarts = max(calibration.restarts, len(workloads))
    collected = []
    for treatment in experiment.treatments:
        runs = WarmupRuns(treatment=treatment.name)
        for number in range(restarts):
            workload = workloads[number % len(workloads)]
            taken = take(treatment.name, workload, int(calibration.run_s))
            runs.by_workload.setdefault(workload, []).append(taken)
        collected.append(runs)
    return choose_discard(collected, calibration, restarts)


def choose_discard(
    collected: Sequence[WarmupRuns], calibration: Calibration, restarts: int
) -> DiscardChoice:
    """Return the longest discard that any treatment under any workload asks for."""
    series = [[_log_series(runs) for runs in one.by_workload.values()] for one in collected]
    batch_s = _batch_s(calibration.run_s)
    measured = [
        max(float(settled_after_s(of_workload, batch_s=batch_s)) for of_workload in of_treatment)
        for of_treatment in series
    ]
    discard = max([calibration.at_least_s, *measured])
    residual = [
        _worst(
            [residual_loss(of_workload, round(discard), window_s=2 * batch_s) for of_workload in s]
        )
        for s in series
    ]
    return DiscardChoice(
        discard_s=discard,
        how="measured",
        risk=_risk(calibration, restarts, residual),
        measured_s=tuple(measured),
        residual_fraction=tuple(residual),
        restarts=restarts,
    )


def _batch_s(run_s: float) -> int:
    """Return the batch of MSER: 5 s, shorter when the run is too short for ten such batches."""
    return max(1, min(5, int(run_s) // 10))


def _log_series(runs: Sequence[Measurement]) -> "np.ndarray[tuple[int, int], np.dtype[np.float64]]":
    """Return ln(1/s) per second, shape (restarts, seconds), cut to the shortest run."""
    seconds = min(len(run.series) for run in runs)
    if seconds < _LEAST_SECONDS:
        raise MeasurementError(
            f"a calibration run gave only {seconds} seconds of progress",
            hint="Is the server stalled? Otherwise declare a discard in `measure.discard`.",
        )
    rates = [[max(s.transactions, 1.0) / s.seconds for s in run.series[:seconds]] for run in runs]
    return np.log(np.asarray(rates, dtype=np.float64))


def _worst(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known, default=None)


def _risk(calibration: Calibration, restarts: int, residual: Sequence[float | None]) -> str:
    known = [value for value in residual if value is not None]
    left = (
        f"the throughput right after it was at most {format_percent(max(known), signed=False)}"
        " below what followed"
        if known and max(known) > 0
        else "no loss was seen after it"
    )
    if restarts >= _GOOD_RESTARTS and calibration.run_s >= _GOOD_RUN_S:
        return f"The discard was measured on {restarts} activations per treatment: {left}."
    return (
        f"The discard was measured on only {restarts} activations of {calibration.run_s:.0f} s"
        f" per treatment ({_GOOD_RESTARTS} of {_GOOD_RUN_S:.0f} s are advised): {left}; a slower"
        " warm-up of one treatment would go unseen and would understate it."
    )
