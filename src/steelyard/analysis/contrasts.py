"""What a campaign's headlines compare: the one place that knows, for every kind of experiment.

Each headline is a weighted sum of a block's log throughputs over the treatments. Without factors
that is a contender minus the baseline; with factors it is a main effect, a step or a removal.
"""

from dataclasses import dataclass

import numpy as np

from steelyard.model.attribution import Attribution, AttributionKind
from steelyard.model.experiment import Experiment
from steelyard.stats.confidence import FloatArray
from steelyard.stats.factorial import difference, main_effect, removed_last


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadlineContrast:
    """One statement that the campaign is to decide under every workload.

    Attributes:
        baseline: What is on the negative side: a treatment, or the first level of a factor.
        treatment: What is on the positive side.
        weights: One per treatment, in treatment order; their sum is 0.
    """

    baseline: str
    treatment: str
    weights: tuple[float, ...]

    @property
    def positive(self) -> tuple[int, ...]:
        """Return the places of the treatments on the positive side."""
        return tuple(place for place, weight in enumerate(self.weights) if weight > 0)

    @property
    def negative(self) -> tuple[int, ...]:
        """Return the places of the treatments on the negative side."""
        return tuple(place for place, weight in enumerate(self.weights) if weight < 0)


def headline_contrasts(experiment: Experiment) -> tuple[HeadlineContrast, ...]:
    """Return what is compared under every workload, in file order; none for a single treatment."""
    if experiment.attribution is not None:
        return _attributed(experiment.attribution)
    names = [treatment.name for treatment in experiment.treatments]
    places = {name: np.eye(len(names))[place] for place, name in enumerate(names)}
    return tuple(
        _contrast(experiment.baseline, contender, places[contender] - places[experiment.baseline])
        for contender in experiment.contenders
    )


def headline_count(experiment: Experiment) -> int:
    """Return how many headlines share the campaign's error: contrasts times workloads.

    They are about throughput; where all loads are open loops there is none.
    """
    if not experiment.compares_throughput:
        return 0
    return len(experiment.workloads) * len(headline_contrasts(experiment))


def _attributed(attribution: Attribution) -> tuple[HeadlineContrast, ...]:
    """Return each factor's main effect, step on the ladder, or removal."""
    return tuple(
        _contrast(factor.off, factor.on, _weights(attribution, place))
        for place, factor in enumerate(attribution.factors)
    )


def _weights(attribution: Attribution, place: int) -> FloatArray:
    combinations = attribution.combinations
    match attribution.kind:
        case AttributionKind.FACTORS:
            return main_effect(combinations, place)
        case AttributionKind.LADDER:
            return difference(combinations, combinations[place], combinations[place + 1])
        case AttributionKind.ABLATION:
            return removed_last(combinations, place)


def _contrast(baseline: str, treatment: str, weights: FloatArray) -> HeadlineContrast:
    return HeadlineContrast(
        baseline=baseline, treatment=treatment, weights=tuple(map(float, weights))
    )
