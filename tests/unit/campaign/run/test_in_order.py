"""Long scripts in a given order: which executions a run has, and what counts of them."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from fakes.campaigns import Stage, an_experiment
from steelyard.campaign.design.noise_profiles import TimedWorkload, keep_latency
from steelyard.campaign.foresee.forecast import known_turns
from steelyard.campaign.run import in_order, runner
from steelyard.campaign.run.counting import Ran
from steelyard.campaign.run.in_order import (
    ByExecution,
    Steps,
    of_all_sides,
    order_of_trial,
    passes_of,
    patience_s,
    rounds_for,
    sessions_of,
    steps_of,
    trial_steps,
    weights_of,
    with_lengths,
)
from steelyard.campaign.run.runner import Campaign
from steelyard.core.campaign import ScriptsInOrder, Sessions
from steelyard.core.experiment import (
    Configuration,
    Experiment,
    Layer,
    Measure,
    Script,
    Setting,
    Workload,
)
from steelyard.core.outside import Completed
from steelyard.core.schedule import Load, PlannedRun, TurnTimes
from steelyard.core.target import LocalTarget
from steelyard.core.wording import MeasurementError
from steelyard.gateways.doors import system_doors
from steelyard.stats.histogram import from_text
from steelyard.targets.differences import DesignChoice

WORK = Workload(
    name="reports",
    scripts=tuple(
        Script(name=f"{name}.sql", text="SELECT 1;", weight=weight)
        for name, weight in (("short", 6), ("middle", 2), ("long", 2))
    ),
)
TIMES_S = {0: 0.02, 1: 0.05, 2: 0.16}  # a factor of 8
BOTH: Sessions = ((("jit", "on"),), (("jit", "off"),))
ORDER = ScriptsInOrder(workload="reports", executions=40.0, rounds=3, round_s=0.27)


def coin(seed: int = 1) -> np.random.Generator:
    """Return a coin of its own."""
    return np.random.default_rng(seed)


def experiment(**changes: Any) -> Experiment:
    """Return an experiment of two configurations that differ in a setting of a session."""

    def with_setting(name: str, value: str) -> Configuration:
        setting = Setting(layer=Layer.POSTGRES, name="JIT", value=value)
        return Configuration(name=name, target=LocalTarget(), settings=(setting,))

    asked: dict[str, Any] = {
        "name": "jit",
        "baseline": "now",
        "configurations": (with_setting("now", "on"), with_setting("changed", "off")),
        "workloads": (WORK,),
        "loads": (Load(clients=1, threads=1),),
        "seed": 7,
    }
    return Experiment(**asked | changes)


class Told:
    """A generator whose executions took what is said."""

    def __init__(self, *times: Sequence[float]) -> None:
        self.load, self._times = self, list(times)

    def execution_times(self, *_: object) -> tuple[float, ...]:
        """Return those of the next client."""
        return tuple(self._times.pop(0))


def result(steps: Sequence[Steps], times: Sequence[Sequence[float]], side: int = 0) -> Any:
    """Return what counts of a run with these executions."""
    done = Completed(argv=("pgbench",), exit_status=0, stdout="", stderr="")
    counting = ByExecution(
        request=cast("Any", SimpleNamespace()),
        engine=cast("Any", Told(*times)),
        workload=WORK,
        texts=WORK,
        steps=tuple(steps),
        side=side,
    )
    return counting.result(Ran(completed=[done] * len(times)))


@pytest.mark.parametrize("seed", range(5))
def test_each_script_runs_as_often_as_its_weight(seed: int) -> None:
    """In each round; before the first each once, which does not count. The order is drawn."""
    steps = steps_of(WORK, ORDER, coin(seed))
    assert weights_of(WORK) == (3, 1, 1)
    assert [step.round for step in steps] == [None] * 3 + [0] * 5 + [1] * 5 + [2] * 5
    for number, weights in ((None, (1, 1, 1)), *((each, (3, 1, 1)) for each in range(3))):
        counts = Counter(step.script for step in steps if step.round == number)
        assert tuple(counts[script] for script in range(3)) == weights
    assert steps == steps_of(WORK, ORDER, coin(seed))
    assert steps != steps_of(WORK, ORDER, coin(seed + 100))


@pytest.mark.parametrize("discards", [False, True])
def test_sides_come_in_succession_in_an_order_by_coin(*, discards: bool) -> None:
    """Each execution once under each side, with equal parameters, after one that is thrown away."""
    order = replace(ORDER, sessions=BOTH, rounds=40, discards_first=discards)
    steps = steps_of(of_all_sides(experiment(), WORK), order, coin())
    counted = steps[6:]
    size = order.repeats
    assert size == 2 + discards
    firsts = Counter[int]()
    for at in range(0, len(counted), size):
        group = counted[at : at + size]
        assert len({step.script for step in group}) == 1
        assert [step.execution.repeats for step in group] == [False] + [True] * (size - 1)
        kept = [step for step in group if step.round is not None]
        assert sorted(step.side for step in kept) == [0, 1]
        firsts[kept[0].side] += 1
    assert abs(firsts[0] - firsts[1]) < 4.0 * math.sqrt(len(counted) / size)
    # Whatever a script before it has set.
    assert all(step.execution.settings == BOTH[step.side] for step in steps)


def test_a_rewritten_script_stands_beside_the_one_that_it_replaces() -> None:
    """Each side has its own text, and draws its own parameters where the texts differ."""
    rewritten = Script(name="middle.sql", text="SELECT 2;", rewritten_in="better.sql")
    asked = experiment()
    now, changed = asked.configurations
    asked = replace(asked, configurations=(now, replace(changed, scripts=(rewritten,))))
    texts = of_all_sides(asked, WORK)
    steps = steps_of(texts, replace(ORDER, sessions=((), ())), coin())
    run = [(step.script, step.side, texts.scripts[step.execution.script].text) for step in steps]
    assert set(run) == {
        (script, side, "SELECT 2;" if (script, side) == (1, 1) else "SELECT 1;")
        for script in range(3)
        for side in range(2)
    }
    assert not any(step.execution.repeats for step in steps if step.script == 1)
    assert sum(step.execution.repeats for step in steps if step.script == 0) == 10


def test_a_run_is_as_long_as_the_medians_of_its_scripts() -> None:
    """One disturbed execution changes nothing, and what was thrown away counts apart."""
    steps = steps_of(WORK, ORDER, coin())
    times = [TIMES_S[step.script] for step in steps]
    disturbed = next(n for n, step in enumerate(steps) if step.round == 1)
    times[disturbed] *= 50.0
    times[0] = 9.0  # thrown away
    counted = result([steps], [times])
    assert counted.measurement.transactions == 15.0
    assert counted.measurement.seconds == pytest.approx(3 * (3 * 0.02 + 0.05 + 0.16))
    assert counted.measurement.uncounted == 3.0
    assert [each.transactions for each in counted.measurement.series] == [5.0, 5.0, 5.0]
    by_script = {each.script: each for each in counted.latency.scripts}
    assert [len(each.executions_s) for each in by_script.values()] == [9, 3, 3]
    assert from_text(by_script["short.sql"].latency).counts.sum() == 9
    assert max(each.longest_s for each in by_script.values()) == pytest.approx(max(times[1:]))


def test_a_known_effect_shows_whatever_the_mix() -> None:
    """Every execution of one side takes 3 % longer: so does the run, though times differ by 8.

    The ratio of two runs of drawn scripts would vary by more than a tenth.
    """
    found, both = [], of_all_sides(experiment(), WORK)
    for seed in range(30):
        steps = steps_of(both, replace(ORDER, sessions=BOTH, rounds=1), coin(seed))
        noise = coin(1000 + seed).normal(1.0, 0.01, len(steps))
        times = [
            TIMES_S[step.script] * (1.0, 1.03)[step.side] * factor
            for step, factor in zip(steps, noise, strict=True)
        ]
        sides = [result([steps], [times], side).measurement for side in (0, 1)]
        found.append(sides[1].log_tps - sides[0].log_tps)
    assert np.mean(found) == pytest.approx(-math.log(1.03), abs=0.004)
    assert np.std(found, ddof=1) < 0.02


def test_clients_have_orders_of_their_own_and_count_together() -> None:
    """Two clients do twice as much in the same time."""
    generator = coin()
    steps = [steps_of(WORK, ORDER, generator) for _ in range(2)]
    assert steps[0] != steps[1]
    times = [[TIMES_S[step.script] for step in each] for each in steps]
    both, one = result(steps, times).measurement, result(steps[:1], times[:1]).measurement
    assert both.tps == pytest.approx(2.0 * one.tps)
    assert [each.seconds for each in both.series] == [each.seconds for each in one.series]


def test_a_generator_that_gave_nothing_is_refused() -> None:
    """Not every client has a result."""
    with pytest.raises(MeasurementError, match="no result"):
        result([steps_of(WORK, ORDER, coin())], [])


@pytest.mark.parametrize(("first", "discards"), [(1.0, False), (1.05, False), (1.5, True)])
def test_a_try_tells_how_long_a_round_is_and_whether_data_are_at_hand(
    first: float, *, discards: bool
) -> None:
    """The round is the mean of the sides; where first executions take longer one is discarded."""
    steps = trial_steps(3, BOTH, coin())
    times, seen = [], set[tuple[int, int]]()
    for step in steps:
        key = (step.script, step.side)
        cold = first if not step.execution.repeats and key in seen else 1.0
        seen.add(key)
        times.append(TIMES_S[step.script] * (1.0, 2.0)[step.side] * cold)
    order = order_of_trial(WORK, 40.0, BOTH, [(steps, times)])
    assert order.round_s == pytest.approx(1.5 * 0.27)
    assert order.discards_first is discards
    assert not order_of_trial(WORK, 40.0, (), [(trial_steps(3, (), coin()), times)]).discards_first


def test_sessions_have_the_settings_that_differ() -> None:
    """As the servers show them, in their own units; what all show alike is left out."""
    shown = {
        "now": {"jit": "on", "work_mem": "4096"},
        "changed": {"jit": "off", "work_mem": "4096"},
    }
    assert sessions_of(experiment(), shown) == BOTH


def test_rounds_fill_a_run_where_the_budget_has_the_blocks() -> None:
    """As many as fit, at least two; fewer where blocks would be few, at least one."""
    asked = experiment()
    assert rounds_for(asked, ORDER, left_s=1e6) == round(5.0 / 0.27)
    long = replace(ORDER, round_s=10.0)
    assert rounds_for(asked, long, left_s=1e6) == 2
    assert rounds_for(asked, long, left_s=240.0) == 1
    fixed = replace(asked, measure=replace(asked.measure, executions=7))
    assert rounds_for(fixed, long, left_s=240.0) == 7


def test_planned_lengths_and_patience_follow_the_rounds() -> None:
    """Runs of their own have the executions that do not count; in succession they share them."""
    asked = experiment()
    long = replace(ORDER, round_s=5.0)
    alone = with_lengths(asked, [long], alternates=False).run_time_s("reports")
    once = 3 / 5  # of a round
    assert alone == pytest.approx(5.0 * (3 + once) - asked.measure.discard_start_s)
    shared = replace(ORDER, round_s=5.0, sessions=BOTH, discards_first=True)
    together = with_lengths(asked, [shared], alternates=True).run_time_s("reports")
    assert together == pytest.approx(5.0 * (3 * 1.5 + once))
    beside = with_lengths(asked, [long], alternates=True).run_time_s("reports")
    assert beside == pytest.approx(5.0 * (3 + once))
    assert with_lengths(asked, [], alternates=True) == asked
    assert patience_s(WORK, shared, 2.0) > 5 * 2 * together


@pytest.mark.parametrize(("warm_up_s", "passes"), [(0.0, 1), (0.15, 1), (2.0, 13), (1e6, 100)])
def test_a_warm_up_is_as_many_passes_as_it_lasts(warm_up_s: float, passes: int) -> None:
    """Each script once at least; what counts is the same after it."""
    assert passes_of(WORK, ORDER, warm_up_s) == passes
    steps = steps_of(WORK, ORDER, coin(), passes)
    assert [step.round for step in steps[: 3 * passes]] == [None] * 3 * passes
    assert Counter(step.script for step in steps if step.round == 0) == {0: 3, 1: 1, 2: 1}


@pytest.mark.parametrize("slowest", [0, 1])
def test_scripts_are_timed_where_they_are_slowest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slowest: int
) -> None:
    """An index makes them a hundred times faster: turns and patience must hold for both sides."""
    asked = replace(an_experiment(loads=1, measure=Measure(run_time_s=5.0)), workloads=(WORK,))
    names = [each.name for each in asked.configurations]
    mean_s = dict(zip(names, (0.09, 0.0009) if slowest == 0 else (0.0009, 0.09), strict=True))

    def try_order(_: object, planned: PlannedRun, executions: float, __: Sessions) -> object:
        round_s = 5.0 * mean_s[planned.configuration]
        return ScriptsInOrder(workload="reports", executions=executions, rounds=1, round_s=round_s)

    monkeypatch.setattr(Campaign, "_latency_s", lambda _, planned: mean_s[planned.configuration])
    monkeypatch.setattr(runner, "try_order", try_order)
    monkeypatch.setattr(in_order, "is_possible", lambda *_: True)
    # Of the fast one a round is tried where it is known by then that the other one is slow.
    tried_s = [(0.22725, 0.45)[slowest]]
    for few in (200, 0):
        monkeypatch.setattr(in_order, "FEW_EXECUTIONS", few)
        campaign = Stage.new(asked, tmp_path / str(few)).campaign()
        for name in names:
            campaign._time(WORK, name, DesignChoice(alternates=True, reason=""))
        turns, orders = campaign._ways(alternates=True)
        assert [round(each.round_s, 6) for each in orders] == (tried_s if few else [])
        assert [each.times for each in turns] == ([] if few else [TurnTimes().for_latency(0.09)])


@pytest.mark.parametrize(("executions", "mean_s"), [(None, 0.001), (None, 0.4), (3, 0.001)])
def test_a_plan_knows_turns_of_what_the_run_takes_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executions: int | None, mean_s: float
) -> None:
    """Not of long scripts, and not of executions that the file counts, however short they are."""
    measure = Measure(run_time_s=5.0, executions=executions)
    asked = replace(an_experiment(loads=1, measure=measure), workloads=(WORK,))
    order = replace(ORDER, round_s=1.0)
    monkeypatch.setattr(in_order, "is_possible", lambda *_: True)
    monkeypatch.setattr(runner, "try_order", lambda *_: order)
    monkeypatch.setattr(Campaign, "_latency_s", lambda *_: mean_s)
    campaign = Stage.new(asked, tmp_path).campaign()
    timed = TimedWorkload(mean_s=mean_s, timed_at=system_doors().clock.now())
    for each in asked.configurations:
        keep_latency(asked, campaign.engine, WORK, each.name, timed)
        campaign._time(WORK, each.name, DesignChoice(alternates=True, reason=""))
    taken, _ = campaign._ways(alternates=True)
    assert known_turns(asked, campaign.engine) == taken
    assert bool(taken) is (executions is None and mean_s < 0.1)
