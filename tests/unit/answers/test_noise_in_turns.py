"""The noise floor of an A/A campaign in turns: parts, advice, and both designs."""

from dataclasses import replace

import pytest
from made_records import an_experiment
from turned_records import in_turns

from steelyard.answers.campaign import analyse
from steelyard.answers.noise.compute import NoiseFloor, analyse_noise
from steelyard.core.campaign import CampaignRecord
from steelyard.core.experiment import Design, OtherDesign, Stop, TwinOf
from steelyard.core.schedule import Mode, TurnTimes, WorkloadTurns

BLOCK_S = 30.0


def a_campaign(
    blocks: int = 14, *, loads: int = 2, reconnections: int = 0, configurations: int = 2
) -> CampaignRecord:
    """Return the record of an A/A campaign in turns, a block every 30 s."""
    twin = TwinOf(
        name="asked",
        configurations=configurations,
        stop=Stop(),
        other=OtherDesign(mode=Mode.STARTS, block_s=80.0),
    )
    times = TurnTimes(reconnections=reconnections)
    plain = an_experiment(loads=loads)
    measure = replace(plain.measure, slice_s=6.0, turns=times)
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


def floor_of(record: CampaignRecord) -> NoiseFloor:
    """Return the floor that the analysis of a record holds."""
    floor = analyse(record).answer(analyse_noise)
    assert floor is not None
    return floor


def test_the_parts_are_those_of_turns() -> None:
    """Starts, connections and seconds; nothing that only starts have."""
    workload = floor_of(a_campaign()).workloads[0]
    assert workload.start_sd is not None
    assert workload.connection_sd is not None
    assert workload.apart_sd is not None
    assert (workload.slice_sd, workload.restart_sd, workload.autocorrelation) == (None, None, None)
    # A half turn of the record varies by 2 %: a second that counts by 2 % over root of 13.3 halves.
    assert workload.second_sd is not None
    assert workload.second_sd.value == pytest.approx(0.02 / (1 / 0.075) ** 0.5, rel=0.2)


def test_one_cell_does_not_tell_connections() -> None:
    """The profile then has them in the start, so that no plan promises anything of more."""
    workload = floor_of(a_campaign(loads=1)).workloads[0]
    assert workload.connection_sd is None
    assert workload.noise is not None
    assert workload.noise.turns is not None
    assert workload.noise.turns.connection_sd is None


def test_a_profile_says_what_starts_would_vary_by() -> None:
    """What one run varies by against one of the next block is start, seconds and a drift."""
    record = a_campaign(60)
    workload = floor_of(record).workloads[0]
    noise, turns = workload.noise, workload.noise and workload.noise.turns
    assert noise is not None
    assert turns is not None
    assert workload.apart_sd is not None
    hours = BLOCK_S / 3600.0
    counted = record.runs[0].measurement
    assert counted is not None
    explained = (
        noise.restart_sd**2 + noise.drift_sd**2 * hours / 2 + turns.second_sd**2 / counted.seconds
    )
    assert explained == pytest.approx(workload.apart_sd.value**2, rel=1e-6)
    assert noise.drift_sd > 0.0


def test_other_lengths_are_advised_from_ten_starts_on() -> None:
    """Nine starts know a deviation too badly to change how turns are taken."""
    few, enough = floor_of(a_campaign(9)), floor_of(a_campaign(10))
    assert (few.advised_slice_s, few.narrower, few.workloads[0].slice_s) == (None, None, None)
    assert enough.advised_slice_s is not None
    assert enough.narrower is not None
    assert enough.narrower <= 1.0
    assert enough.workloads[0].slice_s is not None


def test_both_designs_say_what_they_decide() -> None:
    """That which was measured by its contrasts, the other one by the parts and its own block."""
    floor = floor_of(a_campaign(20))
    measured, other = floor.designs
    assert (measured.mode, measured.measured, measured.block_s) == (Mode.ALTERNATING, True, BLOCK_S)
    assert (other.mode, other.measured, other.block_s) == (Mode.STARTS, False, 80.0)
    assert measured.contrast_sd == floor.workloads[0].reaches[0].contrast_sd.value
    # The level of the blocks moves by 5 %, which turns do not see and starts do.
    assert other.contrast_sd > measured.contrast_sd
    for mine, theirs in zip(measured.needed_s, other.needed_s, strict=True):
        assert mine is not None
        assert theirs is not None
        assert mine < theirs
    assert measured.halves[1] is not None
    assert other.halves[1] is not None
    assert measured.halves[1] < other.halves[1]


def test_more_configurations_take_longer_blocks() -> None:
    """Each has its start, its warm-up and its turns."""
    assert floor_of(a_campaign(configurations=4)).block_s == 2 * BLOCK_S


def test_few_blocks_have_no_parts_and_say_so() -> None:
    """The reason stands in their place."""
    workload = floor_of(a_campaign(3)).workloads[0]
    assert workload.noise is None
    assert workload.missing == "3 blocks; the parts need 4"
