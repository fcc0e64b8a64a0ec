"""What an experiment can decide, how long that takes, and what would be cheaper; nothing runs."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from steelyard.analysis.attribution import synergies
from steelyard.analysis.campaign_outlook import (
    CampaignOutlook,
    DiskNeed,
    SliceOutlook,
    WorkloadOutlook,
)
from steelyard.analysis.contrasts import headline_contrasts
from steelyard.analysis.outlook import EFFECTS, OutlookTerms, outlook, precision_s
from steelyard.experiment.assembly import Assembly
from steelyard.experiment.cheaper import cheaper_designs
from steelyard.experiment.design_choice import choose_design
from steelyard.experiment.durations import GUESSED_SWITCH_S, run_s
from steelyard.experiment.forecast import Forecast, forecast
from steelyard.experiment.noise_profiles import profile_for
from steelyard.model.experiment import Experiment
from steelyard.model.noise import LEAST_STARTS, NoiseProfile, WorkloadNoise
from steelyard.model.schedule import Mode
from steelyard.stats.planning import (
    PAIR,
    BlockShape,
    optimal_slice_s,
    optimal_turns,
    turn_noise,
    turns_ratio,
    width_ratio,
    within_visits,
)


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
    choice = choose_design(experiment, assembly.engine, assembly.room)
    noise = profile_for(experiment, in_turns=choice.alternates)
    expected = forecast(experiment, assembly, measured=noise)
    compared = experiment.compares_throughput and not experiment.is_single_pass
    asked = tuple(sorted({*(effects or EFFECTS), experiment.stop.decide}))
    found = CampaignOutlook(
        experiment=experiment,
        noise=noise,
        mode=expected.mode,
        switch=expected.switch,
        discard_s=expected.discard_s,
        preparation_s=expected.preparation_s,
        capacity_s=expected.capacity_s,
        block_s=expected.block_s,
        max_blocks=expected.max_blocks,
        first_look=expected.stopping.first_look,
        first_look_s=expected.first_look_s,
        sustained_s=expected.sustained_s,
        sustained_most_s=expected.sustained_most_s,
        rounds=expected.rounds.number,
        rounds_reason=expected.rounds.reason,
        design_reason=expected.design_reason,
        pausing=expected.pausing,
        memory=expected.memory,
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
        cells=max(len(experiment.closed_loads), 1),
        slice_s=experiment.measure.slice_s,
        step_s=expected.block_s / arms if visits else run_s(experiment) + GUESSED_SWITCH_S,
        turns=experiment.measure.turns,
        rounds=expected.rounds.number,
    )
    return OutlookTerms(
        shape=shape,
        headlines=expected.stopping.headlines,
        preparation_s=expected.preparation_s,
        block_s=expected.block_s,
        budget_s=experiment.stop.budget_s,
        max_blocks=expected.max_blocks,
        precision=experiment.stop.precision,
        weights=_weights(experiment),
    )


def _weights(experiment: Experiment) -> tuple[float, ...]:
    """Return those of one headline: all headlines of a design have the same sum of squares."""
    return next((asked.weights for asked in headline_contrasts(experiment)), PAIR)


def synergy_terms(experiment: Experiment, terms: OutlookTerms) -> OutlookTerms | None:
    """Return the same for a synergy of two factors; None where the design tells none.

    The synergies of all workloads share an error of their own, as in the report.
    """
    told = synergies(experiment.attribution) if experiment.attribution else ()
    if not told:
        return None
    weights = tuple(float(weight) for weight in told[0][1])
    return replace(terms, weights=weights, headlines=len(told) * len(experiment.workloads))


def slice_outlook(
    noise: WorkloadNoise, experiment: Experiment, expected: Forecast, *, advises: bool = True
) -> SliceOutlook:
    """Return the slice of the file beside the best one for this overhead and noise.

    The noise floor finds the same length by the same function.

    Args:
        noise: Of the workload.
        experiment: As resolved.
        expected: Its forecast.
        advises: The noise is known well enough to change how turns are taken.
    """
    shape = outlook_terms(experiment, expected).shape
    cells = len(experiment.workloads) * len(experiment.loads)
    runs = len(experiment.treatments) * cells * shape.rounds
    overhead_s = expected.block_s / runs - shape.slice_s
    if expected.mode is Mode.ALTERNATING:
        return _turn_outlook(noise, shape, overhead_s, advises=advises)
    here = within_visits(noise, expected.mode)
    still = replace(here, drift_sd=0.0, trend_per_h=None)
    alone = replace(shape, cells=1)
    best_s = optimal_slice_s([here], shape, overhead_s=overhead_s)
    return SliceOutlook(
        slice_s=shape.slice_s,
        overhead_s=overhead_s,
        single_s=optimal_slice_s([still], alone, overhead_s=overhead_s),
        best_s=best_s,
        cost=width_ratio(here, shape, best_s, overhead_s) ** 2,
    )


def _turn_outlook(
    noise: WorkloadNoise, shape: BlockShape, overhead_s: float, *, advises: bool
) -> SliceOutlook:
    """Return the seconds of turns of the file, beside the best where that can be said."""
    best = optimal_turns([noise], shape, overhead_s=overhead_s) if advises else shape
    alone = optimal_turns([noise], replace(shape, cells=1), overhead_s=overhead_s)
    tells = turn_noise(noise).connection_sd is not None
    return SliceOutlook(
        slice_s=shape.slice_s,
        overhead_s=overhead_s,
        single_s=alone.slice_s,
        best_s=best.slice_s,
        cost=turns_ratio(noise, shape, best, overhead_s) ** 2,
        advised=advises,
        reconnections=best.turns.reconnections if advises and tells else None,
    )


def advises_turns(noise: NoiseProfile) -> bool:
    """Return whether a profile is enough to change how turns are taken (METHOD 3.18)."""
    return noise.is_of_turns and noise.blocks >= LEAST_STARTS


def _workloads(
    experiment: Experiment, expected: Forecast, noise: NoiseProfile, effects: tuple[float, ...]
) -> tuple[WorkloadOutlook, ...]:
    terms = outlook_terms(experiment, expected)
    parts = [replace(noise.of(w.name), workload="") for w in experiment.workloads]
    named = zip(experiment.workloads, parts, strict=True)
    several = len(experiment.closed_loads) > 1
    pairs = synergy_terms(experiment, terms)
    return tuple(
        WorkloadOutlook(
            names=tuple(workload.name for workload, _ in group),
            noise=part,
            pooled=outlook(part, terms, effects, pooled=True),
            cells=outlook(part, terms, effects, pooled=False) if several else None,
            synergies=outlook(part, pairs, effects, pooled=True) if pairs else None,
            slices=slice_outlook(part, experiment, expected, advises=advises_turns(noise)),
            precision_s=precision_s(part, terms),
        )
        for part, group in groupby(named, key=lambda pair: pair[1])
    )
