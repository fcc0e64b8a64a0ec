"""What each design of an experiment would see, by what an A/A campaign of one of them measured."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from steelyard.analysis.noise_floor import EFFECTS, MINUTES, DesignSight, NoiseFloor
from steelyard.analysis.outlook import OutlookTerms, looks_of, needed_at_s
from steelyard.model.experiment import Experiment
from steelyard.model.schedule import Mode
from steelyard.stats.planning import BlockShape, contrast_sd
from steelyard.stats.reach import half_width

_PAIR_SQUARES: Final = 2.0  # (-1, 1)
_SECONDS_PER_MINUTE: Final = 60.0


def design_sights(
    experiment: Experiment, floor: NoiseFloor, present: BlockShape
) -> Iterator[DesignSight]:
    """Yield what the measured design would see, and the one that the experiment does not take."""
    twin = experiment.twin_of
    assert twin is not None  # noqa: S101 - only a twin has a noise floor
    share = headline_share(experiment)
    for workload in floor.workloads:
        measured = workload.reaches[0].contrast_sd.value * share
        terms = _terms(experiment, floor, present, floor.block_s)
        yield _design_sight(workload.workload, terms, measured, measured=True)
        if twin.other is None or workload.noise is None:
            continue
        mode, block_s = twin.other.mode, twin.other.block_s
        between_s = step_s(experiment, mode, block_s, present.treatments)
        shape = replace(present, mode=mode, step_s=between_s, rounds=1)
        other = contrast_sd(workload.noise, shape, pooled=True) * share
        terms = _terms(experiment, floor, shape, block_s)
        yield _design_sight(workload.workload, terms, other, measured=False)


def _terms(
    experiment: Experiment, floor: NoiseFloor, shape: BlockShape, block_s: float
) -> OutlookTerms:
    twin = experiment.twin_of
    assert twin is not None  # noqa: S101 - only a twin has a noise floor
    return OutlookTerms(
        shape=shape,
        headlines=len(experiment.workloads) * twin.headlines,
        preparation_s=floor.preparation_s,
        block_s=block_s,
        budget_s=twin.stop.budget_s,
        max_blocks=0,
    )


def _design_sight(
    workload: str, terms: OutlookTerms, deviation: float, *, measured: bool
) -> DesignSight:
    return DesignSight(
        workload=workload,
        mode=terms.shape.mode,
        measured=measured,
        block_s=terms.block_s,
        contrast_sd=deviation,
        halves=tuple(_half_at(terms, deviation, minutes) for minutes in MINUTES),
        needed_s=tuple(needed_at_s(deviation, terms, each, pooled=True) for each in EFFECTS),
    )


def _half_at(terms: OutlookTerms, deviation: float, minutes: int) -> float | None:
    """Return the half-width at the last look of a campaign of so many minutes."""
    left_s = minutes * _SECONDS_PER_MINUTE - terms.preparation_s
    looks = looks_of(terms.rule(max(math.floor(left_s / terms.block_s), 0)))
    return half_width(deviation, looks[-1].blocks, looks[-1].level) if looks else None


def step_s(experiment: Experiment, mode: Mode, block_s: float, arms: int) -> float:
    """Return the seconds between two treatments' runs in one cell; in turns it does not matter."""
    measure = experiment.measure
    return block_s / arms if mode is Mode.VISITS else measure.ramp_s + measure.slice_s


def headline_share(experiment: Experiment) -> float:
    """Return the deviation of the experiment's own contrast over that of the pair measured."""
    twin = experiment.twin_of
    return 1.0 if twin is None else math.sqrt(twin.squares / _PAIR_SQUARES)
