"""How many rounds a visit has: one, as many as a checkpoint cycle needs, or the best for instances.

A round is one run in every cell (back to back: of every treatment). What a visit costs before its
first run is paid once, whatever the rounds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from steelyard.engines.engine import Engine
from steelyard.experiment import durations
from steelyard.experiment.differences import differing_settings
from steelyard.model.environment import ServerEnvironment
from steelyard.model.errors import InputError
from steelyard.model.experiment import Experiment, Treatment
from steelyard.model.findings import Finding, Severity
from steelyard.model.measure import Reset, SwitchCost
from steelyard.model.noise import ASSUMED_NOISE, NoiseOrigin, NoiseProfile, WorkloadNoise
from steelyard.model.plan import RoundsFor
from steelyard.model.schedule import Mode
from steelyard.model.units import format_duration, format_percent, parse_duration_s
from steelyard.stats.noise import mean_variance
from steelyard.stats.two_level import instances_needed, optimal_runs

# Between instances of one kind: a guess; METHOD 3.8 simulates 1.4 %, and 1 to 4 % are expected.
ASSUMED_INSTANCE_SD = 0.02
DEFAULT_CYCLE_S = 300.0  # PostgreSQL's default checkpoint_timeout


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitFrame:
    """What is known of a campaign's visits when their rounds are chosen.

    Attributes:
        times: Guessed before the start, measured before the plan is frozen.
        cycle_s: The longest checkpoint cycle of the treatments.
    """

    mode: Mode
    switch: SwitchCost
    reset: Reset
    discard_s: float
    times: durations.SwitchTimes
    cycle_s: float

    @property
    def instance_s(self) -> float:
        """Return the seconds from nothing to a server that can be measured."""
        return self.times.restore_s + self.times.start_s + self.discard_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """How many rounds each visit has.

    Attributes:
        chosen_for: Why not one; ``reason`` says it in a sentence.
        early_only: Settings whose effect changes over a checkpoint cycle that one visit's runs do
            not cover; empty where they do, or where it does not matter.
        covered_s: Seconds from the first run of a visit to the end of its last.
        least_instances: Per side, to find the effect worth deciding, at the least; None where no
            servers are made anew.
    """

    number: int = 1
    chosen_for: RoundsFor = RoundsFor.ONE
    reason: str = ""
    early_only: tuple[str, ...] = ()
    covered_s: float = 0.0
    least_instances: int | None = None


def choose_rounds(
    experiment: Experiment,
    engine: Engine,
    frame: VisitFrame,
    noise: NoiseProfile = ASSUMED_NOISE,
) -> Rounds:
    """Return the rounds asked for, else as many as the differences and the switch call for."""
    if experiment.is_single_pass:
        return Rounds()
    names = _cycle_settings(experiment, engine, frame)
    round_s = _round_s(experiment, frame)
    needed = math.ceil(frame.cycle_s / _least_round_s(experiment, frame)) if names else 1
    asked = experiment.measure.rounds
    if asked is not None:
        return Rounds(
            number=asked,
            chosen_for=RoundsFor.ASKED,
            reason="as the experiment asks",
            early_only=names if asked < needed else (),
            covered_s=asked * round_s,
        )
    chosen = _for_instances(experiment, frame, noise)
    if needed > chosen.number:
        return Rounds(
            number=needed,
            chosen_for=RoundsFor.CYCLE,
            reason=f"the effect of {', '.join(names)} changes over a checkpoint cycle, and the runs"
            f" of one visit cover a whole one of {format_duration(frame.cycle_s)}",
            covered_s=needed * round_s,
        )
    return chosen


def _for_instances(experiment: Experiment, frame: VisitFrame, noise: NoiseProfile) -> Rounds:
    """Return the best number of runs in a newly made server; one where none are made."""
    if frame.switch is not SwitchCost.REPROVISION:
        return Rounds()
    round_s = _round_s(experiment, frame)
    levels = [_levels(experiment, noise, workload.name) for workload in experiment.workloads]
    number = max(
        optimal_runs(
            instance_cost=frame.instance_s,
            run_cost=round_s,
            instance_sd=instance_sd,
            run_sd=run_sd,
        )
        for instance_sd, run_sd in levels
    )
    return Rounds(
        number=number,
        chosen_for=RoundsFor.INSTANCES,
        reason=f"best where a new server takes {format_duration(frame.instance_s)} to the first"
        f" run and a round {format_duration(round_s)}, with {_deviations(levels, noise)}",
        covered_s=number * round_s,
        least_instances=max(
            instances_needed(
                experiment.stop.decide, instance_sd=instance_sd, run_sd=run_sd, runs=number
            )
            for instance_sd, run_sd in levels
        ),
    )


def _levels(experiment: Experiment, noise: NoiseProfile, workload: str) -> tuple[float, float]:
    """Return the deviations between instances and between rounds, of the mean over the loads.

    What restarts differ by says nothing of newly made servers.
    """
    part = noise.of(workload)
    remade = noise.switch is SwitchCost.REPROVISION
    cells = max(len(experiment.closed_loads), 1)
    run_sd = _run_sd(part, experiment.measure.slice_s) / math.sqrt(cells)
    return part.visit_sd if remade else ASSUMED_INSTANCE_SD, run_sd


def _deviations(levels: Sequence[tuple[float, float]], noise: NoiseProfile) -> str:
    """Return the deviations in words, with where they come from."""
    measured = noise.origin is NoiseOrigin.MEASURED
    of_servers = measured and noise.switch is SwitchCost.REPROVISION
    instance_sd, run_sd = (
        format_percent(max(level), signed=False) for level in zip(*levels, strict=True)
    )
    return (
        f"a standard deviation of {instance_sd} between servers"
        f" ({'measured' if of_servers else 'assumed'}) and {run_sd} between rounds"
        f" ({'measured' if measured else 'assumed'})"
    )


def _run_sd(noise: WorkloadNoise, slice_s: float) -> float:
    """Return the noise of a slice: its own, and its seconds with their autocorrelation."""
    seconds = mean_variance(noise.second_sd, noise.autocorrelation, slice_s)
    return math.sqrt(noise.slice_sd**2 + seconds)


def _round_s(experiment: Experiment, frame: VisitFrame) -> float:
    """Return the seconds of one round in a visit."""
    cells = len(experiment.workloads) * len(experiment.loads)
    runs_s = durations.cells_s(experiment)
    arms = len(experiment.treatments)
    if frame.mode is Mode.BACK_TO_BACK:
        return arms * (runs_s + cells * frame.times.switch_s)
    if frame.mode is Mode.ALTERNATING:
        return arms * cells * (experiment.measure.slice_s + durations.connecting_s(experiment))
    return runs_s


def _least_round_s(experiment: Experiment, frame: VisitFrame) -> float:
    """Return the seconds that one round takes at least: what its runs last, and nothing guessed.

    A cycle that is to be covered must be covered also where starting a run takes no time.
    """
    cells = len(experiment.workloads) * len(experiment.loads)
    if frame.mode is Mode.ALTERNATING:
        return len(experiment.treatments) * cells * experiment.measure.slice_s
    arms = len(experiment.treatments) if frame.mode is Mode.BACK_TO_BACK else 1
    return arms * cells * (experiment.measure.ramp_s + experiment.measure.slice_s)


def _cycle_settings(experiment: Experiment, engine: Engine, frame: VisitFrame) -> tuple[str, ...]:
    """Return the differing settings for which the phase of the cycle matters here.

    Not where nothing is written. Not on a server that runs on from block to block, for then the
    blocks themselves are spread over whole cycles.
    """
    runs_on = frame.mode is Mode.BACK_TO_BACK and frame.reset is Reset.CAMPAIGN
    if runs_on or not engine.writes():
        return ()
    names = {
        name
        for one, other in combinations(experiment.treatments, 2)
        for name in differing_settings(one, other)
    }
    return engine.checkpoint_settings(sorted(names))


def asked_cycle_s(experiment: Experiment) -> float:
    """Return the longest checkpoint cycle asked for, PostgreSQL's default where none is."""
    return max(_cycle_s(treatment) for treatment in experiment.treatments)


def _cycle_s(treatment: Treatment) -> float:
    try:
        return parse_duration_s(treatment.asked_folded()["checkpoint_timeout"])
    except (KeyError, InputError):
        return DEFAULT_CYCLE_S


def cycle_in_force_s(engine: Engine, servers: Sequence[ServerEnvironment]) -> float:
    """Return the longest checkpoint cycle in force; PostgreSQL's default where none is shown."""
    shown = [engine.checkpoint_cycle_s(server.settings) for server in servers]
    return max((cycle_s for cycle_s in shown if cycle_s is not None), default=DEFAULT_CYCLE_S)


def early_phase_finding(rounds: Rounds, cycle_s: float) -> Finding | None:
    """Return what a report must say when the cycle matters and was not covered."""
    if not rounds.early_only:
        return None
    return Finding(
        code="early-checkpoint-phase",
        severity=Severity.WARNING,
        message=f"only the early phase of the checkpoint cycle was measured: the effect of"
        f" {', '.join(rounds.early_only)} changes over a cycle of {format_duration(cycle_s)}, and"
        f" the runs of one visit cover {format_duration(rounds.covered_s)} of it",
        remedy="Leave `measure.rounds` out, so that each visit covers a whole cycle, or ask for"
        " `sustain:` runs.",
        source="METHOD 3.7 and 12",
        subject="campaign",
    )
