"""From a sound form to the experiment: everything concrete, nothing left to look up."""

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from steelyard.campaign.file.checks import implied_baseline
from steelyard.campaign.file.form import ExperimentForm, StopForm, WorkloadForm
from steelyard.campaign.file.form_parts import (
    CalibrationForm,
    CapacityForm,
    LoadsForm,
    ManualForm,
    MeasureForm,
    asked_rates,
)
from steelyard.campaign.file.form_values import SEED_LIMIT
from steelyard.campaign.file.generators import load_command
from steelyard.campaign.file.inheritance import Merged
from steelyard.campaign.file.kinds import located, model_of
from steelyard.campaign.file.systems import SYSTEMS, System
from steelyard.core.experiment import (
    Calibration,
    CapacityAsked,
    Configuration,
    Design,
    Experiment,
    GeneratorName,
    Layer,
    ManualStep,
    Measure,
    Reset,
    Script,
    Setting,
    Stop,
    SwitchCost,
    Track,
    Workload,
)
from steelyard.core.latency import LatencyGoal, LogPolicy
from steelyard.core.schedule import (
    QUOTA_SETTLING_S,
    QUOTA_TURN_S,
    CeilingsAsked,
    Load,
    TurnTimes,
)
from steelyard.core.target import DatabaseSystem
from steelyard.tuning.profiles import MachineFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What an experiment is resolved with, besides its file.

    Attributes:
        base: Directory that names in the file are relative to.
        facts: Of the machine that the generator and the local servers run on.
        seed: In place of the file's; None keeps the file's, or draws one.
        generator_flags: Come after the file's.
    """

    base: Path
    facts: MachineFacts
    seed: int | None = None
    generator_flags: Sequence[str] = ()


def resolve(
    form: ExperimentForm,
    merged: Mapping[str, Merged],
    texts: Mapping[str, str],
    surroundings: Surroundings,
) -> Experiment:
    """Return the experiment of a form that all checks have passed."""
    names = tuple(merged)
    configurations = tuple(
        _configuration(name, configuration, texts, surroundings.base)
        for name, configuration in merged.items()
    )
    engine = configurations[0].target.system.name  # one kind in an experiment
    system = SYSTEMS[engine]
    workloads = tuple(
        _workload(each, form, texts, surroundings.base, system) for each in form.workloads
    )
    about = workloads[0].command.seen_in(system.about) if workloads[0].command else system.about
    cpus = _generator_cpus(configurations, form.loads, surroundings)
    loads = _loads(form.loads, form.slo, cpus, system)
    return Experiment(
        name=form.name,
        description=form.description or "",
        baseline=form.baseline or implied_baseline(names) or names[0],
        configurations=configurations,
        workloads=workloads,
        loads=loads,
        protocol=form.loads.protocol,
        measure=_measure(form.measure, about, configurations),
        stop=_stop(form.stop),
        seed=_seed(surroundings.seed, form.seed),
        engine=engine,
        design=Design(form.design),
        capacity=_capacity(form.capacity, loads),
        goal=form.slo,
        track=None if form.track is None else Track(form.track),
        sustained_s=form.sustain,
        generator=GeneratorName(about.words.generator),
        generator_flags=(*form.generator.flags, *surroundings.generator_flags),
    )


def _seed(asked: int | None, written: int | None) -> int:
    given = written if asked is None else asked
    return secrets.randbelow(SEED_LIMIT) if given is None else given


def _configuration(
    name: str, merged: Merged, texts: Mapping[str, str], base: Path
) -> Configuration:
    return Configuration(
        name=name,
        target=model_of(merged.target, located(base)),
        settings=tuple(
            sorted(
                Setting(layer=layer, name=setting, value=value)
                for layer, asked in (
                    (Layer.POSTGRES, merged.settings),
                    (Layer.REDIS, merged.redis),
                    *((Layer(name), given) for name, given in merged.further.items()),
                    (Layer.CGROUP, merged.limits),
                    (Layer.LINUX, merged.linux),
                    (Layer.KVM, {} if merged.domain is None else {"domain": merged.domain}),
                )
                for setting, value in asked.items()
            )
        ),
        protocol=merged.protocol,
        profiles=merged.profiles,
        domain_xml="" if merged.domain is None else texts[merged.domain],
        manual=None if merged.manual is None else _manual(merged.manual),
    )


def _manual(form: ManualForm) -> ManualStep:
    return ManualStep(text=form.text or "", command=form.command or (), timeout_s=form.timeout)


def _workload(
    form: WorkloadForm, whole: ExperimentForm, texts: Mapping[str, str], base: Path, system: System
) -> Workload:
    return Workload(
        name=form.name,
        builtin=system.one_test(form.builtin),
        scale_factor=form.scale_factor,
        prepare=tuple(Script(name=name, text=texts[name]) for name in form.prepare),
        scripts=tuple(
            Script(name=script.file, text=texts[script.file], weight=script.weight)
            for script in form.scripts
        ),
        variables=tuple(sorted(form.variables.items())),
        redis=system.work(form),
        command=load_command(whole.generator, form.name, base),
    )


def _generator_cpus(
    configurations: Sequence[Configuration], form: LoadsForm, surroundings: Surroundings
) -> int:
    """Return how many threads have a CPU of their own: here, or in all pods of generators."""
    place = configurations[0].target.home if configurations else None
    if place is not None:
        return place.generators.cpus * form.generators
    return max(1, math.floor(surroundings.facts.cpus), form.generators)


def _loads(
    form: LoadsForm, goal: LatencyGoal | None, cpus: int, system: System
) -> tuple[Load, ...]:
    return tuple(
        Load(
            clients=int(clients),
            threads=threads,
            rate_per_s=rate.per_s,
            share=rate.share,
            latency_limit_s=None if rate.is_closed else form.latency_limit,
            generators=form.generators,
            pipeline=pipeline,
        )
        for clients in form.clients
        for threads in (
            (clients.threads,)
            if clients.threads is not None
            else form.threads or (system.threads(clients, cpus, form.generators),)
        )
        if threads <= clients
        for pipeline in form.pipeline
        for rate in asked_rates(form, goal)
    )


def _capacity(form: CapacityForm | None, loads: Sequence[Load]) -> CapacityAsked | None:
    """Return how the capacity is found; None where no load is a share of it."""
    if not any(load.share is not None for load in loads):
        return None
    asked = form or CapacityForm()
    most = max(load.clients for load in loads)
    clients = asked.clients or [*(2**power for power in range(most.bit_length())), most]
    return CapacityAsked(clients=tuple(sorted(set(clients))), rounds=asked.rounds)


def _measure(
    form: MeasureForm, about: DatabaseSystem, configurations: Sequence[Configuration]
) -> Measure:
    # Some generators cannot leave a ramp out; one that is asked for is refused.
    return Measure(
        slice_s=form.slice,
        ramp_s=form.ramp if about.has_ramp else 0.0,
        warm_up_s=form.warm_up,
        calibration=None if form.calibration is None else _calibration(form.calibration),
        reset=None if form.reset == "auto" else Reset(form.reset),
        switch=None if form.switch == "auto" else SwitchCost(form.switch),
        prewarm=form.prewarm,
        rounds=form.rounds,
        turns=_turns(form, configurations),
        ceilings=CeilingsAsked(form.ceilings),
        neighbours=form.neighbours,
        log=LogPolicy(form.log),
        log_sampling=form.log_sampling,
    )


def _turns(form: MeasureForm, configurations: Sequence[Configuration]) -> TurnTimes:
    """Return the lengths of turns, equal for all: as written, else as the longest need is."""
    held = any(
        each.target.has_cpu_quota or "cpus" in each.asked(Layer.CGROUP) for each in configurations
    )
    turn_s, settling_s = form.turn, form.settling
    if held and not form.model_fields_set & {"turn", "settling"}:
        turn_s, settling_s = QUOTA_TURN_S, QUOTA_SETTLING_S
    return TurnTimes(turn_s=turn_s, settling_s=settling_s, reconnections=form.reconnections)


def _calibration(form: CalibrationForm) -> Calibration:
    return Calibration(restarts=form.restarts, run_s=form.run, at_least_s=form.at_least)


def _stop(form: StopForm) -> Stop:
    return Stop(
        budget_s=form.budget,
        decide=Stop().decide if form.decide is None else form.decide,
        precision=form.precision,
        equivalence=form.equivalence,
        fail_if=tuple(form.fail_if),
        blocks=form.blocks,
    )
