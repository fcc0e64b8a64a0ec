"""What an experiment can decide, how long that takes, and what would be cheaper; nothing runs."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from steelyard.analysis.campaign_outlook import (
    CampaignOutlook,
    DiskNeed,
    SliceOutlook,
    WorkloadOutlook,
)
from steelyard.analysis.outlook import EFFECTS, OutlookTerms, outlook, precision_s
from steelyard.experiment.assembly import Assembly
from steelyard.experiment.cheaper import cheaper_designs
from steelyard.experiment.durations import GUESSED_SWITCH_S, run_s
from steelyard.experiment.forecast import Forecast, forecast
from steelyard.model.experiment import Experiment
from steelyard.model.noise import ASSUMED_NOISE, NoiseProfile, WorkloadNoise
from steelyard.model.schedule import Mode
from steelyard.stats.planning import (
    BlockShape,
    optimal_slice_s,
    relative_cost,
    within_visits,
)

# Shorter slices than 3 s were not simulated (METHOD 3.1).
_LENGTHS_S = (3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 15.0, 20.0, 30.0, 45.0, 60.0, 120.0)


def plan_campaign(
    experiment: Experiment, assembly: Assembly, *, effects: Sequence[float] = ()
) -> CampaignOutlook:
    """Return what a campaign would take and could say.

    Args:
        experiment: As resolved.
        assembly: Its engine and platforms.
        effects: Relative effects to ask about, beside ``stop.decide``; none: the usual ones.

    Raises:
        InputError: The file asks for a switch that is too cheap.
    """
    noise = _noise(experiment)
    expected = forecast(experiment, assembly, measured=noise)
    compared = bool(experiment.contenders) and not experiment.is_single_pass
    asked = tuple(sorted({*(effects or EFFECTS), experiment.stop.decide}))
    found = CampaignOutlook(
        experiment=experiment,
        noise=noise,
        mode=expected.mode,
        switch=expected.switch,
        discard_s=expected.discard_s,
        preparation_s=expected.preparation_s,
        block_s=expected.block_s,
        max_blocks=expected.max_blocks,
        first_look=expected.stopping.first_look,
        first_look_s=expected.first_look_s,
        sustained_s=expected.sustained_s,
        cached=expected.cached,
        disk=tuple(
            DiskNeed(directory=str(place), needed_bytes=needed, free_bytes=free)
            for place, (needed, free) in expected.disk_bytes.items()
        ),
        workloads=_workloads(experiment, expected, noise, asked) if compared else (),
    )
    return replace(found, cheaper=cheaper_designs(found, assembly, outlook_terms))


def outlook_terms(experiment: Experiment, expected: Forecast) -> OutlookTerms:
    """Return the design of an experiment as the arithmetic of its minutes needs it."""
    arms = len(experiment.treatments)
    visits = expected.mode is Mode.VISITS
    shape = BlockShape(
        mode=expected.mode,
        treatments=arms,
        cells=len(experiment.loads),
        slice_s=experiment.measure.slice_s,
        step_s=expected.block_s / arms if visits else run_s(experiment) + GUESSED_SWITCH_S,
    )
    return OutlookTerms(
        shape=shape,
        headlines=expected.stopping.headlines,
        preparation_s=expected.preparation_s,
        block_s=expected.block_s,
        budget_s=experiment.stop.budget_s,
        max_blocks=expected.max_blocks,
        precision=experiment.stop.precision,
    )


def slice_outlook(noise: WorkloadNoise, experiment: Experiment, expected: Forecast) -> SliceOutlook:
    """Return the slice of the file beside the best one for this overhead and noise."""
    terms = outlook_terms(experiment, expected)
    runs = len(experiment.treatments) * len(experiment.workloads) * len(experiment.loads)
    slice_s = experiment.measure.slice_s
    overhead_s = expected.block_s / runs - slice_s
    single_s = optimal_slice_s(within_visits(noise, expected.mode), overhead_s=overhead_s)
    here = relative_cost(noise, terms.shape, expected.block_s)
    costs = {
        length: relative_cost(noise, shape, runs * (overhead_s + length))
        for length, shape in _other_slices(terms.shape, overhead_s)
    }
    best_s = min(costs, key=lambda length: costs[length])
    return SliceOutlook(
        slice_s=slice_s,
        overhead_s=overhead_s,
        single_s=single_s if math.isfinite(single_s) else None,
        best_s=best_s,
        cost=costs[best_s] / here if here else None,
    )


def _other_slices(shape: BlockShape, overhead_s: float) -> Iterator[tuple[float, BlockShape]]:
    """Yield lengths worth a thought with the blocks that they make."""
    run_s = overhead_s + shape.slice_s
    for length in _LENGTHS_S:
        step_s = shape.step_s * (overhead_s + length) / run_s
        yield length, replace(shape, slice_s=length, step_s=step_s)


def _noise(_experiment: Experiment) -> NoiseProfile:
    """Return the noise to plan with; nobody measured this set-up."""
    return ASSUMED_NOISE


def _workloads(
    experiment: Experiment, expected: Forecast, noise: NoiseProfile, effects: tuple[float, ...]
) -> tuple[WorkloadOutlook, ...]:
    terms = outlook_terms(experiment, expected)
    parts = [replace(noise.of(w.name), workload="") for w in experiment.workloads]
    named = zip(experiment.workloads, parts, strict=True)
    several = len(experiment.loads) > 1
    return tuple(
        WorkloadOutlook(
            names=tuple(workload.name for workload, _ in group),
            noise=part,
            pooled=outlook(part, terms, effects, pooled=True),
            cells=outlook(part, terms, effects, pooled=False) if several else None,
            slices=slice_outlook(part, experiment, expected),
            precision_s=precision_s(part, terms),
        )
        for part, group in groupby(named, key=lambda pair: pair[1])
    )
