"""Scripts of long statements in a given order: which executions a run has, and what they gave.

Invariant: every configuration runs each script equally often in a block, by its weight, with equal
parameters: the draw of a mix is no part of what is compared. What counts of a script is the median
of its times, and of a run the sum of these by weight, so that one disturbed execution moves little.

Configurations that differ in settings of a session run each execution one after the other, on one
connection that gets the settings of each; which comes first is a coin's. Other configurations have
a run each, in the same order of scripts; that of those that are up together is a coin's, too.
pgbench has one database for a run, so copies of tables are among the latter.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median, pstdev
from typing import Final

import numpy as np

from steelyard.campaign.run.counting import Counted, Counting, Ran
from steelyard.core.campaign import FEW_EXECUTIONS, ScriptsInOrder, Sessions
from steelyard.core.experiment import Experiment, Workload
from steelyard.core.measurement import Measurement, RunLatency, ScriptLatency, Second
from steelyard.core.outside import Completed
from steelyard.core.wording import US_PER_S, MeasurementError
from steelyard.stats.histogram import histogram_of, to_text
from steelyard.systems.protocol import Engine, Execution

_BLOCKS: Final = 12  # that a budget should have at least before runs have more rounds: a guess
_MOST_PASSES: Final = 100
_COLD: Final = 1.1  # a first execution over the second, from which on the data are not in memory
_PATIENCE: Final = 10.0  # a guess: so much slower than it was a moment ago may a script become


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One execution of a file.

    Attributes:
        script: Its number in the workload.
        side: Which configuration has it, by its place in the experiment; 0 where one has all.
        round: That it counts in; None: it is thrown away.
    """

    execution: Execution
    script: int
    side: int = 0
    round: int | None = None


Steps = tuple[Step, ...]


def weights_of(workload: Workload) -> tuple[int, ...]:
    """Return how often each script runs in a round: its weight, as small as can be."""
    weights = [script.weight for script in workload.scripts]
    return tuple(weight // math.gcd(*weights) for weight in weights)


def of_all_sides(experiment: Experiment, workload: Workload) -> Workload:
    """Return a workload with the scripts of all configurations, one configuration after another.

    They may have rewritten some.
    """
    variants = (each.runs(workload) for each in experiment.configurations)
    return replace(workload, scripts=tuple(s for each in variants for s in each.scripts))


def steps_of(
    workload: Workload, order: ScriptsInOrder, coin: np.random.Generator, passes: int = 1
) -> Steps:
    """Return the executions of one client: passes of each script once, then rounds that count.

    ``workload`` is that of all sides where they have each execution in succession.
    """
    sides = max(len(order.sessions), 1)
    weights = weights_of(workload)[: len(workload.scripts) // sides]
    drawn: list[tuple[int | None, int]] = [
        (None, int(script)) for _ in range(passes) for script in coin.permutation(len(weights))
    ]
    for counted in range(order.rounds):
        whole = np.repeat(np.arange(len(weights)), weights)
        drawn += [(counted, int(script)) for script in coin.permutation(whole)]
    if not order.sessions:
        return tuple(
            Step(execution=Execution(script=script), script=script, round=number)
            for number, script in drawn
        )
    steps: list[Step] = []
    for number, script in drawn:
        turns = [int(side) for side in coin.permutation(sides)]
        first = turns[:1] if order.discards_first and number is not None else []
        for place, side in enumerate((*first, *turns)):
            own = side * len(weights) + script
            before = steps[-1] if steps else None
            # A rewritten script draws its own parameters.
            alike = before and _text(workload, before.execution.script) == _text(workload, own)
            execution = Execution(
                script=own,
                settings=order.sessions[side],  # a script may have changed them
                repeats=place > 0 and bool(alike),
            )
            counts = number if place >= len(first) else None
            steps.append(Step(execution=execution, script=script, side=side, round=counts))
    return tuple(steps)


def _text(workload: Workload, script: int) -> str:
    return workload.scripts[script].text


@dataclass(slots=True, kw_only=True)
class ByExecution(Counting):
    """Counts by the times that the generator prints of each execution.

    Attributes:
        workload: As the side that counts has it.
        texts: That the executions are of: of all sides, where they have them in succession.
        steps: Of each client.
        side: Whose executions count.
    """

    engine: Engine
    workload: Workload
    texts: Workload
    steps: tuple[Steps, ...]
    side: int = 0

    def result(self, ran: Ran) -> Counted:
        """Return what a run gave: rounds as long as the medians of their executions say."""
        if len(ran.completed) != len(self.steps):
            raise MeasurementError("the load generator gave no result")
        pairs = zip(ran.completed, self.steps, strict=True)
        taken = [self._taken(completed, steps) for completed, steps in pairs]
        by_script: dict[int, list[float]] = {}
        for (script, _), took_s in (one for client in taken for one in client):
            by_script.setdefault(script, []).append(took_s)
        weights = weights_of(self.workload)
        everything = [took_s for times in by_script.values() for took_s in times]
        rounds = len(everything) / (sum(weights) * len(taken))
        round_s = sum(weights[script] * median(times) for script, times in by_script.items())
        measurement = Measurement(
            transactions=float(len(everything)),
            seconds=max(rounds * round_s, 1e-6),
            latency_mean_s=fmean(everything),
            latency_stddev_s=pstdev(everything),
            failed=0,
            connection_s=None,
            series=tuple(_series(taken)),
            uncounted=float(
                sum(
                    step.side == self.side and step.round is None
                    for steps in self.steps
                    for step in steps
                )
            ),
        )
        return Counted(measurement=measurement, latency=self._latency(by_script))

    def _taken(self, completed: Completed, steps: Steps) -> list[tuple[tuple[int, int], float]]:
        """Return the script and round of each execution that counts, with its seconds."""
        executions = [step.execution for step in steps]
        load = self.engine.load
        times = load.execution_times(completed, self.texts, executions)
        return [
            ((step.script, step.round), took_s)
            for step, took_s in zip(steps, times, strict=True)
            if step.round is not None and step.side == self.side
        ]

    def _latency(self, by_script: Mapping[int, Sequence[float]]) -> RunLatency:
        return RunLatency(
            scripts=tuple(
                ScriptLatency(
                    script=self.workload.scripts[script].name,
                    latency=to_text(histogram_of([round(each * US_PER_S) for each in times])),
                    longest_s=max(times),
                    executions_s=tuple(round(each, 6) for each in times),
                )
                for script, times in sorted(by_script.items())
            )
        )


def _series(taken: Sequence[Sequence[tuple[tuple[int, int], float]]]) -> Iterator[Second]:
    """Yield each round as an interval: as long as its executions took, in the mean of clients."""
    rounds: dict[int, list[float]] = {}
    for (_, number), took_s in (one for client in taken for one in client):
        rounds.setdefault(number, []).append(took_s)
    end_s = 0.0
    for number in sorted(rounds):
        length_s = sum(rounds[number]) / len(taken)
        end_s += length_s
        yield Second(
            end_s=round(end_s, 6),
            transactions=float(len(rounds[number])),
            seconds=round(length_s, 6),
            latency_mean_s=fmean(rounds[number]),
        )


def sessions_of(experiment: Experiment, servers: Mapping[str, Mapping[str, str]]) -> Sessions:
    """Return the settings in which configurations differ, as ``ScriptsInOrder`` has them.

    Args:
        experiment: Has the configurations.
        servers: What each shows, by names in small letters.
    """
    names = sorted({name for each in experiment.configurations for name in each.asked_folded()})
    shown = {
        each.name: {
            name: servers[each.name].get(name, each.asked_folded().get(name, "")) for name in names
        }
        for each in experiment.configurations
    }
    differing = [name for name in names if len({own[name] for own in shown.values()}) > 1]
    return tuple(
        tuple((name, shown[each.name][name]) for name in differing)
        for each in experiment.configurations
    )


def is_possible(experiment: Experiment, engine: Engine, workload: Workload) -> bool:
    """Return whether the scripts of a workload can run in a given order, as often in each run."""
    searches = experiment.goal is not None or experiment.capacity is not None
    is_open = any(load.is_open for load in experiment.loads)
    return not searches and not is_open and engine.load.takes_order(workload)


def timed_in(
    experiment: Experiment, engine: Engine, workload: Workload, *, alternates: bool = True
) -> tuple[str, ...]:
    """Return the configurations in which a run finds how long the transactions of a workload take.

    Scripts may take many times longer in one of them, so those are tried in each.
    """
    names = tuple(each.name for each in experiment.configurations)
    return names if is_possible(experiment, engine, workload) else names[-1:] * alternates


def executions_in_order(
    experiment: Experiment, engine: Engine, workload: Workload, mean_s: float
) -> float | None:
    """Return how many executions a run holds where they go in a given order; None: they do not.

    ``mean_s`` is how long one takes where it takes longest.
    """
    clients = experiment.largest_load.clients
    executions = clients * experiment.run_time_s(workload.name) / mean_s
    is_asked = experiment.measure.executions is not None or executions < FEW_EXECUTIONS
    return executions if is_asked and is_possible(experiment, engine, workload) else None


def trial_steps(scripts: int, sessions: Sessions, coin: np.random.Generator) -> Steps:
    """Return the executions that show how long scripts take, and whether their data are at hand.

    Each script once for all sides, then twice in succession, of which the second one counts.
    """
    steps: list[Step] = []
    for number in (None, 0):
        for script in map(int, coin.permutation(scripts)):
            for side, settings in enumerate(sessions or ((),)):
                execution = Execution(script=side * scripts + script, settings=settings)
                step = Step(execution=execution, script=script, side=side)
                steps.append(step)
                if number is not None:
                    again = replace(execution, repeats=True)
                    steps.append(replace(step, execution=again, round=number))
    return tuple(steps)


def order_of_trial(
    workload: Workload,
    executions: float,
    sessions: Sessions,
    tried: Sequence[tuple[Steps, Sequence[float]]],
) -> ScriptsInOrder:
    """Return how scripts run in a given order, by the steps of each client and their seconds."""
    weights, ratios = weights_of(workload), []
    sides: dict[int, float] = {}
    for steps, times in tried:
        for place, step in enumerate(steps):
            if step.round is None:
                continue
            took_s = weights[step.script] * times[place] / len(tried)
            sides[step.side] = sides.get(step.side, 0.0) + took_s
            if step.side == 0:
                ratios.append(times[place - 1] / max(times[place], 1e-6))
    return ScriptsInOrder(
        workload=workload.name,
        executions=round(executions, 1),
        rounds=1,
        round_s=round(max(fmean(sides.values()), 1e-3), 6),
        sessions=sessions,
        discards_first=bool(sessions) and median(ratios) > _COLD,
    )


def rounds_for(experiment: Experiment, order: ScriptsInOrder, *, left_s: float) -> int:
    """Return how many rounds a run has: as many as its length holds, fewer for more blocks.

    At least one, and two where the budget has the blocks: the first executions of a run, which do
    not count, weigh less then. A number that the file asks for stays.
    """
    if experiment.measure.executions is not None:
        return experiment.measure.executions
    arms = len(experiment.configurations)
    cells = len(experiment.workloads) * len(experiment.loads)
    held = max(round(experiment.run_time_s(order.workload) / order.round_s), 2)
    affordable = int(left_s / (_BLOCKS * arms * cells * order.round_s)) - 1
    return max(min(held, affordable), 1)


def with_lengths(
    experiment: Experiment, in_order: Sequence[ScriptsInOrder], *, alternates: bool
) -> Experiment:
    """Return an experiment whose runs are as long as those in a given order last."""
    orders = {order.workload: order for order in in_order}

    def fitted(workload: Workload) -> Workload:
        order = orders.get(workload.name)
        if order is None:
            return workload
        sides = max(len(order.sessions), 1)
        length_s = order.round_s * (order.rounds * order.repeats / sides + _once(workload))
        ramp_s = 0.0 if alternates else experiment.measure.discard_start_s
        return replace(workload, run_time_s=max(length_s - ramp_s, 1e-3))

    return replace(experiment, workloads=tuple(map(fitted, experiment.workloads)))


def passes_of(workload: Workload, order: ScriptsInOrder, warm_up_s: float) -> int:
    """Return how often each script runs before what counts: once, or as long as a warm-up."""
    return min(max(math.ceil(warm_up_s / (_once(workload) * order.round_s)), 1), _MOST_PASSES)


def patience_s(workload: Workload, order: ScriptsInOrder, warm_up_s: float) -> int:
    """Return how long a run may take at most: a changed plan may make it much slower."""
    rounds_s = (order.rounds + _once(workload)) * order.round_s + warm_up_s
    return math.ceil(_PATIENCE * order.repeats * rounds_s)


def _once(workload: Workload) -> float:
    """Return about how long each script once takes, in rounds."""
    return len(workload.scripts) / sum(weights_of(workload))
