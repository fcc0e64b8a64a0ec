"""What ``noise`` does: turn the experiment into its A/A twin, then run it like any other."""

import shlex
from dataclasses import replace

from steelyard.cli.launching import RunOptions, foresee, load, start
from steelyard.experiment import session
from steelyard.experiment.assembly import assemble
from steelyard.experiment.differences import switch_cost
from steelyard.experiment.doors import Doors, system_doors
from steelyard.experiment.files import LoadedExperiment
from steelyard.experiment.forecast import forecast
from steelyard.experiment.twin import LEAST_BUDGET_S, aa_twin, default_budget_s, with_budget
from steelyard.model.measure import SwitchCost
from steelyard.model.plan import RoundsFor
from steelyard.model.units import parse_duration_s

_AFTER_SEED = 5  # steelyard, verb, source, --seed, N


def measure_noise(options: RunOptions, switch: str | None) -> None:
    """Run the A/A twin of an experiment and report it; or only show what would happen."""
    asked_s = None if options.budget is None else parse_duration_s(options.budget)
    options = replace(options, budget=None)  # it is the twin's, not the experiment's
    doors = system_doors()
    twin = _twin(load(options, doors), switch, asked_s, doors)
    if options.dry_run:
        foresee(twin, options, doors)
    else:
        start(twin, _command(twin, options), options, doors)


def _twin(
    given: LoadedExperiment, switch: str | None, asked_s: float | None, doors: Doors
) -> LoadedExperiment:
    cost = (
        switch_cost(given.experiment, assemble(given.experiment, doors).engine)
        if switch is None
        else SwitchCost(switch)
    )
    given = _in_same_rounds(given, doors)
    twin = aa_twin(given, switch=cost, budget_s=LEAST_BUDGET_S if asked_s is None else asked_s)
    if asked_s is not None:
        return twin
    expected = forecast(twin.experiment, assemble(twin.experiment, doors))
    return with_budget(twin, default_budget_s(expected, twin.experiment))


def _in_same_rounds(given: LoadedExperiment, doors: Doors) -> LoadedExperiment:
    """Return an experiment that asks for the rounds that a checkpoint cycle takes.

    Its differences call for them, and its twin has none: one round would be another noise.
    """
    experiment = given.experiment
    rounds = forecast(experiment, assemble(experiment, doors)).rounds
    if rounds.chosen_for is not RoundsFor.CYCLE:
        return given
    measure = replace(experiment.measure, rounds=rounds.number)
    return replace(given, experiment=replace(experiment, measure=measure))


def _command(twin: LoadedExperiment, options: RunOptions) -> str:
    """Return the command that repeats it in the same order, on the same budget."""
    experiment = twin.experiment
    words = shlex.split(
        session.command_line(
            twin.source,
            experiment.seed,
            options.all_overrides,
            options.flags,
            switches=options.switches,
        )
    )
    words[1] = "noise"
    switch = experiment.measure.switch
    words[_AFTER_SEED:_AFTER_SEED] = [
        *("--budget", f"{experiment.stop.budget_s:g}s"),
        *(("--switch", switch.value) if switch not in (None, SwitchCost.REPROVISION) else ()),
    ]
    return shlex.join(words)
