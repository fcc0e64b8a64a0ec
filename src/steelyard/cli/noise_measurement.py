"""``steelyard noise``: what this set-up can and cannot see.

It turns the experiment into its A/A twin and runs it like any other.
"""

import shlex
from dataclasses import replace

from steelyard.campaign.file.files import LoadedExperiment
from steelyard.campaign.foresee.forecast import (
    LEAST_BUDGET_S,
    aa_twin,
    default_budget_s,
    forecast,
    with_budget,
)
from steelyard.campaign.run import session
from steelyard.cli.launching import RunOptions, foresee, load, start
from steelyard.core.experiment import Design, Experiment, OtherDesign, SwitchCost
from steelyard.core.plan import RoundsFor
from steelyard.core.schedule import Mode
from steelyard.core.units import parse_duration_s
from steelyard.gateways.doors import Doors, system_doors
from steelyard.targets.assembly import Assembly, assemble
from steelyard.targets.differences import choose_design, switch_cost

_SWITCHES = ("session", "reload", "restart")


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
    experiment, assembly = given.experiment, assemble(given.experiment, doors)
    cost = switch_cost(experiment, assembly.engine) if switch is None else SwitchCost(switch)
    # Who says how to switch wants to know what switching so brings: starts, or back to back.
    choice = choose_design(experiment, assembly.engine, assembly.room)
    given = _in_same_rounds(given, doors)
    twin = aa_twin(
        given,
        switch=cost,
        budget_s=LEAST_BUDGET_S if asked_s is None else asked_s,
        alternates=choice.alternates and switch is None,
        other=_other_design(experiment, assembly, alternates=choice.alternates and switch is None),
    )
    if asked_s is not None:
        return twin
    expected = forecast(twin.experiment, assemble(twin.experiment, doors))
    return with_budget(twin, default_budget_s(expected, twin.experiment))


def _other_design(
    experiment: Experiment, assembly: Assembly, *, alternates: bool
) -> OtherDesign | None:
    """Return the design that an experiment could take, too, with the length of its blocks."""
    if experiment.is_single_pass:
        return None
    other = Design.ONE_BY_ONE if alternates else Design.AUTO
    expected = forecast(replace(experiment, design=other), assembly)
    if not alternates and expected.mode is not Mode.ALTERNATING:
        return None  # there is no other
    return OtherDesign(mode=expected.mode, block_s=expected.block_s)


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
    in_turns = experiment.design is not Design.ONE_BY_ONE
    switch = None if in_turns else experiment.measure.switch
    words[_AFTER_SEED:_AFTER_SEED] = [
        *("--budget", f"{experiment.stop.budget_s:g}s"),
        *(("--switch", switch.value) if switch not in (None, SwitchCost.REPROVISION) else ()),
    ]
    return shlex.join(words)
