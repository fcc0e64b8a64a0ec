"""The noise floor from a record, of starts and of turns: parts, half-widths and advice."""

import math
from dataclasses import replace

import numpy as np
import pytest
from made_records import a_record, an_experiment, compared, noise
from turned_records import in_turns

from steelyard.answers.campaign import analyse
from steelyard.answers.noise.compute import MINUTES, NoiseFloor, analyse_noise
from steelyard.answers.results import CampaignAnalysis
from steelyard.core.campaign import ALL_NAMED, ASSUMED_NOISE, CampaignRecord, Status
from steelyard.core.experiment import Design, Experiment, OtherDesign, Stop, SwitchCost, TwinOf
from steelyard.core.measurement import Second
from steelyard.core.schedule import Mode, TurnTimes, WorkloadTurns
from steelyard.stats.planning import BlockShape, half_width, optimal_run_time_s
from steelyard.stats.spending import cell_level, result_level, stopping_rule

RATE = 1000.0


def twin(configurations: int = 2, loads: int = 5, workloads: int = 1, **stop: float) -> Experiment:
    """Return a twin of an experiment with so many configurations."""
    plain = an_experiment(workloads=workloads, loads=loads)
    behind = TwinOf(name="asked", configurations=configurations, stop=Stop(**stop))
    return replace(plain, twin_of=behind)


def a_campaign(
    experiment: Experiment,
    blocks: int = 20,
    *,
    seconds: int = 7,
    switch: SwitchCost = SwitchCost.RESTART,
    status: Status = Status.BUDGET,
    rounds: int = 1,
) -> CampaignRecord:
    """Return the record of an A/A campaign, a block every 100 s after a minute of preparation."""
    cells = len(experiment.workloads) * len(experiment.loads)
    logs = noise(blocks, 2, rounds * cells).reshape(blocks, 2, rounds, cells).swapaxes(1, 2)
    record = a_record(logs, experiment, switch=switch, status=status, rounds=rounds)
    rng = np.random.default_rng(5)
    runs = []
    for run in record.runs:
        assert run.measurement is not None
        rates = np.log(run.measurement.tps) + 0.05 * rng.standard_normal(seconds)
        series = tuple(
            Second(end_s=place + 1.0, seconds=1.0, transactions=math.exp(rate), latency_mean_s=None)
            for place, rate in enumerate(rates)
        )
        started_at = 60.0 + 100.0 * run.block + 40.0 * run.start + run.position
        measurement = replace(run.measurement, series=series)
        runs.append(replace(run, measurement=measurement, started_at=started_at))
    return replace(record, runs=tuple(runs), planned_at_s=60.0, elapsed_s=60.0 + 100.0 * blocks)


def floor_of(record: CampaignRecord) -> NoiseFloor:
    """Return the floor that the analysis of a record holds."""
    floor = analyse(record).answer(analyse_noise)
    assert floor is not None
    return floor


def test_only_a_finished_twin_has_a_noise_floor() -> None:
    """Other campaigns have none; while one runs it would cost CPU between its blocks."""
    assert analyse(compared(20)).answer(analyse_noise) is None
    assert analyse(a_campaign(twin(), status=Status.RUNNING)).answer(analyse_noise) is None
    assert analyse(a_campaign(twin())).answer(analyse_noise) is not None


def test_blocks_are_counted_from_what_they_took() -> None:
    """Ten minutes less one of preparation hold five blocks of 100 s, two hours hold 71."""
    sights = floor_of(a_campaign(twin())).workloads[0].comparisons[0].expected
    assert [sight.minutes for sight in sights] == [*MINUTES]
    assert [sight.blocks for sight in sights] == [5, 11, 35, 71]
    halves = [sight.half_width.value for sight in sights if sight.half_width is not None]
    assert len(halves) == 4  # the first look comes at four
    assert halves == sorted(halves, reverse=True)


def test_clearing_up_and_preparing_again_are_no_part_of_a_block() -> None:
    """Servers of a provider take minutes to go; a try that was thrown away is time of blocks."""
    record = a_campaign(twin())
    blocks = tuple(replace(each, lasted_s=90.0) for each in record.blocks)
    void = replace(blocks[3], complete=False, lasted_s=40.0)
    known = replace(record, blocks=(*blocks[:3], void, *blocks[3:]), elapsed_s=4000.0)
    assert floor_of(known).block_s == pytest.approx((20 * 90.0 + 40.0) / 20)
    assert floor_of(replace(record, elapsed_s=4060.0)).block_s == pytest.approx(200.0)


def test_more_configurations_take_longer_blocks_and_smaller_levels() -> None:
    """The half-width is that of the experiment itself, not of its twin with two arms."""
    two, four = (floor_of(a_campaign(twin(n))) for n in (2, 4))
    assert four.block_s == 2 * two.block_s
    few, many = (floor.workloads[0].comparisons[0] for floor in (four, two))
    assert few.expected[3].blocks == 35
    level = result_level(stopping_rule(results=3, first_look=4, max_blocks=35, precision=None), 35)
    assert level is not None
    half = few.expected[3].half_width
    assert half is not None
    assert half.value == pytest.approx(half_width(few.contrast_sd.value, 35, level))
    assert few.contrast_sd == many.contrast_sd


def test_combinations_of_factors_are_no_results() -> None:
    """Levels of three results, eight starts, and main effects that vary half as much as pairs."""
    behind = TwinOf(name="f", configurations=8, stop=Stop(), contrasts=3, squares=0.5)
    factorial = replace(twin(8), twin_of=behind)
    floor, four = floor_of(a_campaign(factorial)), floor_of(a_campaign(twin(4)))
    assert floor.block_s == 2 * four.block_s
    reach = floor.workloads[0].comparisons[0]
    sight = reach.expected[3]
    rule = stopping_rule(results=3, first_look=8, max_blocks=sight.blocks, precision=None)
    level = result_level(rule, sight.blocks)
    assert level is not None
    assert sight.half_width is not None
    expected = half_width(reach.contrast_sd.value / 2, sight.blocks, level)
    assert sight.half_width.value == pytest.approx(expected)


def test_nothing_is_left_to_decide() -> None:
    """No minutes are promised to a verdict that an A/A campaign does not look for."""
    comparisons = analyse(a_campaign(twin())).comparisons
    assert comparisons
    assert all(comparison.minutes_to_decide is None for comparison in comparisons)


def test_cells_are_simultaneous() -> None:
    """Each cell has the level that the product gives it."""
    reaches = floor_of(a_campaign(twin())).workloads[0].comparisons
    assert [reach.load is None for reach in reaches] == [True] + 5 * [False]
    rule = stopping_rule(results=1, first_look=4, max_blocks=35, precision=None)
    level = cell_level(rule, 35, 5)
    assert level is not None
    half = reaches[2].expected[2].half_width
    assert half is not None
    assert half.value == pytest.approx(half_width(reaches[2].contrast_sd.value, 35, level))


def test_a_precision_has_one_level_at_every_look() -> None:
    """An experiment that stops at a half-width spends no error by looks: its intervals differ."""
    verdicts, precision = (
        floor_of(a_campaign(twin(**stop))).workloads[0].comparisons[0].expected[3].half_width
        for stop in ({}, {"width": 0.01})
    )
    assert verdicts is not None
    assert precision is not None
    assert precision.value < verdicts.value


@pytest.mark.parametrize("stop", [{"width": 0.01}, {"blocks": 6}])
def test_both_tables_look_as_the_experiment_does(stop: dict[str, float]) -> None:
    """At a width or after a number of blocks there is one level, in the table of designs, too."""
    floor = floor_of(a_campaign(twin(loads=1, **stop)))
    seen = floor.workloads[0].comparisons[0].expected[1]
    (design,) = floor.designs
    level = result_level(
        stopping_rule(results=1, first_look=4, max_blocks=11, precision=0.01), seen.blocks
    )
    assert level is not None
    assert seen.half_width is not None
    expected = half_width(floor.workloads[0].comparisons[0].contrast_sd.value, 11, level)
    assert seen.half_width.value == pytest.approx(expected)
    assert design.half_width[20] == pytest.approx(expected)


def test_no_fewer_blocks_are_foretold_than_can_be_asked_for() -> None:
    """A number of blocks is three at the least, however plain the effect is."""
    needed_s = floor_of(a_campaign(twin(blocks=6))).designs[0].needed_s
    assert all(seconds is None or seconds >= 60.0 + 3 * 100.0 for seconds in needed_s.values())


def test_a_single_load_is_shown_once() -> None:
    """Its cell is its result."""
    assert len(floor_of(a_campaign(twin(loads=1))).workloads[0].comparisons) == 1


def test_the_parts_are_for_later_plans() -> None:
    """Seconds of 5 %, runs of 2 %, nothing of the restart: close to what the record was made of."""
    workload = floor_of(a_campaign(twin(), 40)).workloads[0]
    assert workload.noise is not None
    assert workload.noise.second_sd == pytest.approx(0.05, rel=0.1)
    assert abs(workload.noise.autocorrelation) < 0.1
    assert workload.noise.restart_sd < 0.01
    assert workload.noise.assumed == ()
    assert workload.best_run_time_s is not None


def test_what_was_not_seen_is_assumed_and_named() -> None:
    """Back to back, a restart is not seen; with few blocks the drift is not."""
    record = a_campaign(twin(), 5, switch=SwitchCost.SESSION)
    workload = floor_of(record).workloads[0]
    assert workload.restart_sd is None
    assert workload.drift_sd is None
    assert workload.noise is not None
    assert workload.noise.assumed == ("restart_sd", "drift_sd")
    assert workload.noise.restart_sd == ASSUMED_NOISE.workloads[0].restart_sd


@pytest.mark.parametrize(
    ("blocks", "seconds", "said"), [(20, 4, "2 whole seconds"), (3, 7, "3 blocks")]
)
def test_parts_that_cannot_be_told_apart_are_none(blocks: int, seconds: int, said: str) -> None:
    """With a reason; what the contrasts say is still there."""
    record = a_campaign(twin(), blocks, seconds=seconds)
    floor = floor_of(record)
    workload = floor.workloads[0]
    assert (workload.noise, workload.second_sd, workload.best_run_time_s) == (None, None, None)
    assert said in workload.reason
    assert workload.comparisons[0].contrast_sd.value > 0.0
    assert floor.advised_run_time_s is None


@pytest.mark.parametrize("blocks", [0, 1])
def test_without_two_blocks_there_is_only_the_frame(blocks: int) -> None:
    """A campaign that was interrupted at once is no error."""
    assert floor_of(a_campaign(twin(), blocks, status=Status.INTERRUPTED)).workloads == ()


def test_a_difference_between_equal_arms_is_a_warning() -> None:
    """It says plainly what it may mean; without one, or for other campaigns, nothing is said."""

    def codes(analysis: CampaignAnalysis) -> list[str]:
        return [finding.code for finding in analysis.findings]

    found = analyse(compared(20, 0.2, experiment=twin()))
    assert codes(found).count("aa-difference") == 1
    warning = next(f for f in found.findings if f.code == "aa-difference")
    assert "called faster than itself" in warning.message
    assert "4 of 100" in warning.remedy
    assert "aa-difference" not in codes(analyse(a_campaign(twin(), 12)))
    assert "aa-difference" not in codes(analyse(compared(20, 0.2)))


def test_the_advice_is_one_length_for_all_workloads() -> None:
    """And never a length that widens the intervals."""
    floor = floor_of(a_campaign(twin(workloads=2)))
    assert floor.advised_run_time_s is not None
    assert 3.0 <= floor.advised_run_time_s <= 30.0
    assert floor.width_ratio is not None
    assert floor.width_ratio <= 1.0


def test_the_advice_is_the_one_of_the_plan() -> None:
    """The same noise and blocks give the best slice that a plan prints, by the same function."""
    floor = floor_of(a_campaign(twin(4), 30))
    workload = floor.workloads[0]
    assert workload.noise is not None
    shape = BlockShape(
        mode=floor.mode,
        configurations=4,
        cells=5,
        run_time_s=floor.run_time_s,
        step_s=floor.block_s / 4,
    )
    overhead_s = floor.block_s / 20 - floor.run_time_s
    assert workload.best_run_time_s == optimal_run_time_s(
        [workload.noise], shape, overhead_s=overhead_s
    )
    assert workload.noise.unnamed == ALL_NAMED
    assert floor.advised_run_time_s == workload.best_run_time_s


@pytest.mark.parametrize("loads", [1, 3])
def test_rounds_of_a_start_tell_runs_from_restarts(loads: int) -> None:
    """Several runs per cell and start count like cells: the parts are those of single runs.

    With one load this is the only way to tell what a restart changes.
    """
    workload = floor_of(a_campaign(twin(loads=loads), 40, rounds=3)).workloads[0]
    assert workload.noise is not None
    assert workload.noise.assumed == ()
    once = floor_of(a_campaign(twin(loads=3 * loads), 40)).workloads[0].noise
    assert once is not None
    assert workload.noise.second_sd == pytest.approx(once.second_sd, rel=0.1)
    assert workload.noise.slice_sd == pytest.approx(once.slice_sd, rel=0.3)
    assert workload.noise.restart_sd < 0.01


BLOCK_S = 30.0


def campaign_in_turns(
    blocks: int = 14, *, loads: int = 2, reconnections: int = 0, configurations: int = 2
) -> CampaignRecord:
    """Return the record of an A/A campaign in turns, a block every 30 s."""
    twin = TwinOf(
        name="asked",
        configurations=configurations,
        stop=Stop(),
        other=OtherDesign(mode=Mode.STARTS, block_s=80.0),
    )
    times = TurnTimes(reconnects=reconnections)
    plain = an_experiment(loads=loads)
    measure = replace(plain.measure, run_time_s=6.0, turns=times)
    experiment = replace(plain, twin_of=twin, measure=measure, design=Design.ALTERNATING)
    record = in_turns(blocks, experiment=experiment, rounds=24)
    assert record.plan is not None
    turns = tuple(WorkloadTurns(workload=w.name, times=times) for w in experiment.workloads)
    runs = tuple(replace(run, started_at=60.0 + BLOCK_S * run.block) for run in record.runs)
    return replace(
        record,
        runs=runs,
        plan=replace(record.plan, mode=Mode.ALTERNATING, turns=turns),
        planned_at_s=60.0,
        elapsed_s=60.0 + BLOCK_S * blocks,
    )


def test_the_parts_are_those_of_turns() -> None:
    """Starts, connections and seconds; nothing that only starts have."""
    workload = floor_of(campaign_in_turns()).workloads[0]
    assert workload.in_turns is not None
    assert workload.in_turns.connection_sd is not None
    assert workload.in_turns.apart_sd is not None
    assert (workload.slice_sd, workload.restart_sd, workload.autocorrelation) == (None, None, None)
    # A half turn of the record varies by 2 %: a second that counts by 2 % over root of 13.3 halves.
    assert workload.second_sd is not None
    assert workload.second_sd.value == pytest.approx(0.02 / (1 / 0.075) ** 0.5, rel=0.2)


def test_one_cell_does_not_tell_connections() -> None:
    """The profile then has them in the start, so that no plan promises anything of more."""
    workload = floor_of(campaign_in_turns(loads=1)).workloads[0]
    assert workload.in_turns is not None
    assert workload.in_turns.connection_sd is None
    assert workload.noise is not None
    assert workload.noise.turns is not None
    assert workload.noise.turns.connection_sd is None


def test_a_profile_says_what_starts_would_vary_by() -> None:
    """What one run varies by against one of the next block is start, seconds and a drift."""
    record = campaign_in_turns(60)
    workload = floor_of(record).workloads[0]
    noise, turns = workload.noise, workload.noise and workload.noise.turns
    assert noise is not None
    assert turns is not None
    assert workload.in_turns is not None
    assert workload.in_turns.apart_sd is not None
    hours = BLOCK_S / 3600.0
    counted = record.runs[0].measurement
    assert counted is not None
    explained = (
        noise.restart_sd**2 + noise.drift_sd**2 * hours / 2 + turns.second_sd**2 / counted.seconds
    )
    assert explained == pytest.approx(workload.in_turns.apart_sd.value**2, rel=1e-6)
    assert noise.drift_sd > 0.0


def test_other_lengths_are_advised_from_ten_starts_on() -> None:
    """Nine starts know a deviation too badly to change how turns are taken."""
    few, enough = floor_of(campaign_in_turns(9)), floor_of(campaign_in_turns(10))
    assert (few.advised_run_time_s, few.width_ratio, few.workloads[0].best_run_time_s) == (
        None,
        None,
        None,
    )
    assert enough.advised_run_time_s is not None
    assert enough.width_ratio is not None
    assert enough.width_ratio <= 1.0
    assert enough.workloads[0].best_run_time_s is not None


def test_both_designs_say_what_they_decide() -> None:
    """That which was measured by its contrasts, the other one by the parts and its own block."""
    floor = floor_of(campaign_in_turns(20))
    measured, other = floor.designs
    assert (measured.mode, measured.measured, measured.block_s) == (Mode.ALTERNATING, True, BLOCK_S)
    assert (other.mode, other.measured, other.block_s) == (Mode.STARTS, False, 80.0)
    assert measured.contrast_sd == floor.workloads[0].comparisons[0].contrast_sd.value
    # The level of the blocks moves by 5 %, which turns do not see and starts do.
    assert other.contrast_sd > measured.contrast_sd
    for mine, theirs in zip(measured.needed_s.values(), other.needed_s.values(), strict=True):
        assert mine is not None
        assert theirs is not None
        assert mine < theirs
    halves = measured.half_width[20], other.half_width[20]
    assert halves[0] is not None
    assert halves[1] is not None
    assert halves[0] < halves[1]


def test_more_configurations_take_longer_blocks() -> None:
    """Each has its start, its warm-up and its turns."""
    assert floor_of(campaign_in_turns(configurations=4)).block_s == 2 * BLOCK_S


def test_few_blocks_have_no_parts_and_say_so() -> None:
    """The reason stands in their place."""
    workload = floor_of(campaign_in_turns(3)).workloads[0]
    assert workload.noise is None
    assert workload.reason == "3 blocks; the parts need 4"
