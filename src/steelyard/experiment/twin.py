"""The A/A twin of an experiment: its baseline against itself, brought together as it would be.

Whatever it finds to differ is noise of the set-up: same target, workloads, loads and slices, and
the same way of switching.
"""

import math
from dataclasses import replace

from steelyard.analysis.contrasts import headline_contrasts
from steelyard.experiment.files import LoadedExperiment
from steelyard.experiment.forecast import Forecast
from steelyard.model.errors import InputError
from steelyard.model.experiment import Design, Experiment, OtherDesign, Stop, TwinOf
from steelyard.model.measure import SwitchCost

AGAIN = "again"
# As long as a first answer may take: six-minute campaigns have 8 or 9 blocks, this about 14.
LEAST_BUDGET_S = 600.0
# They know a deviation to about a fifth of itself: 1 / sqrt(2 x 11) is 0.21.
ENOUGH_BLOCKS = 12
_SECONDS_PER_MINUTE = 60.0


def aa_twin(
    loaded: LoadedExperiment,
    *,
    switch: SwitchCost,
    budget_s: float,
    alternates: bool = False,
    other: OtherDesign | None = None,
) -> LoadedExperiment:
    """Return an experiment's A/A twin; only its budget ends it.

    Args:
        loaded: The experiment, with any number of treatments.
        switch: How the arms are brought together: what its differences need, or as asked.
        budget_s: Seconds from the start of preparation to the end of the last block.
        alternates: The experiment's treatments do, whatever its twin could: what keeps them from
            it may be their differences, of which the twin has none.
        other: The design that it does not take.

    Raises:
        InputError: All its loads are open loops.
    """
    given = loaded.experiment
    if not given.closed_loads:
        raise InputError(
            "the noise is that of comparisons of throughput, and all loads are open loops",
            hint="Add a closed loop: --set loads.rate=closed.",
        )
    baseline = given.treatment(given.baseline)
    headlines = headline_contrasts(given)
    again = AGAIN if baseline.name != AGAIN else f"{AGAIN}-2"
    twin = replace(
        given,
        name=f"noise of {given.name}",
        description="What can this set-up see? The baseline against itself.",
        treatments=(baseline, replace(baseline, name=again)),
        measure=given.measure if alternates else replace(given.measure, switch=switch),
        stop=Stop(budget_s=budget_s, decide=given.stop.decide, equivalence=given.stop.equivalence),
        design=given.design if alternates else Design.ONE_BY_ONE,
        sustained_s=None,
        attribution=None,
        goal=None,
        twin_of=TwinOf(
            name=given.name,
            treatments=len(given.treatments),
            stop=given.stop,
            contrasts=len(headlines),
            other=other,
            squares=max((sum(w * w for w in each.weights) for each in headlines), default=2.0),
        ),
    )
    return replace(loaded, experiment=twin, parents={**loaded.parents, again: baseline.name})


def with_budget(loaded: LoadedExperiment, budget_s: float) -> LoadedExperiment:
    """Return an experiment that ends after other seconds."""
    experiment = loaded.experiment
    stop = replace(experiment.stop, budget_s=budget_s)
    return replace(loaded, experiment=replace(experiment, stop=stop))


def default_budget_s(expected: Forecast, twin: Experiment) -> float:
    """Return how long an A/A campaign takes when nobody says: ten minutes, or twelve blocks.

    Where blocks are long, ten minutes hold too few to know a deviation; but measuring the noise
    must not cost more than the experiment that it is measured for.
    """
    enough = expected.preparation_s + ENOUGH_BLOCKS * expected.block_s
    own = LEAST_BUDGET_S if twin.twin_of is None else twin.twin_of.stop.budget_s
    wanted = max(LEAST_BUDGET_S, min(enough, own))
    return math.ceil(wanted / _SECONDS_PER_MINUTE) * _SECONDS_PER_MINUTE
