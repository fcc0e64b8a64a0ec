"""Experiments with factors that never ran, and records of them with effects that are known."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from made_records import a_record, an_experiment, noise

from fakes.factorial import attribution_of
from steelyard.core import experiment as model
from steelyard.core.campaign import CampaignRecord
from steelyard.core.target import LocalTarget

NAMES = ("huge-pages", "buffers", "commit", "wal", "io", "jit", "slots")


def an_attribution(
    factors: int, kind: model.AttributionKind = model.AttributionKind.FACTORS
) -> model.Attribution:
    """Return the design of a kind for so many factors."""
    named = (model.Factor(name=name, first="off", second="on") for name in NAMES[:factors])
    return attribution_of(kind, tuple(named))


def with_factors(
    factors: int,
    kind: model.AttributionKind = model.AttributionKind.FACTORS,
    *,
    workloads: int = 1,
    loads: int = 2,
) -> model.Experiment:
    """Return an experiment of these factors, its configurations named by their combination."""
    attribution = an_attribution(factors, kind)
    configurations = tuple(
        model.Configuration(name="".join(map(str, combination)), target=LocalTarget())
        for combination in attribution.combinations
    )
    return replace(
        an_experiment(workloads=workloads, loads=loads),
        baseline=configurations[0].name,
        configurations=configurations,
        attribution=attribution,
    )


def measured(
    experiment: model.Experiment, truth: Callable[[model.Combination], float], blocks: int = 12
) -> CampaignRecord:
    """Return a record whose combinations are as much faster as ``truth`` says, in logs."""
    assert experiment.attribution is not None
    effects = np.array([truth(c) for c in experiment.attribution.combinations])
    cells = len(experiment.workloads) * len(experiment.loads)
    levels = noise(blocks, len(experiment.configurations), cells)
    return a_record(levels + effects[:, None], experiment)
