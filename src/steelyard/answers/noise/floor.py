"""What an A/A campaign says of its set-up: the parts of the noise, and what can be seen through it.

Deviations are of ln(tps): 0.02 means about 2 %.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from steelyard.answers.observations import Observations
from steelyard.answers.outlook.compute import OutlookTerms, looks_of, needed_at_s
from steelyard.answers.turns import block_turns
from steelyard.core.campaign import ALL_NAMED, TurnNoise, WorkloadNoise
from steelyard.core.experiment import Experiment
from steelyard.core.findings import Estimate
from steelyard.core.measurement import Run
from steelyard.core.schedule import Load, Mode, TurnTimes
from steelyard.stats.noise import LEAST_NOISE_BLOCKS
from steelyard.stats.planning import BlockShape, contrast_sd, half_width
from steelyard.stats.turns import (
    TurnNoiseParts,
    TurnNoiseSample,
    Within,
    turn_noise_parts,
    within_block,
)

MINUTES = (10, 20, 60, 120)
EFFECTS = (0.03, 0.05)  # that both designs are asked about


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What the measured experiment would see in some minutes, its preparation included.

    Attributes:
        blocks: That fit.
        half_width: Of the interval at the last look, relative; None below the first look.
        visible: Effect that it decides with 90 % power, relative; None likewise.
    """

    minutes: int
    blocks: int
    half_width: Estimate | None
    visible: Estimate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How far one comparison sees.

    Attributes:
        load: The cell's load, or None for the pooled result.
        contrast_sd: Of one block's contrast, as its interval shows it.
        seen: Half-width of this campaign's own interval, relative; None before the first look.
        sights: One per entry of ``MINUTES``.
    """

    load: Load | None
    contrast_sd: Estimate
    seen: float | None
    sights: tuple[Sight, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignSight:
    """What one design of the experiment would see in one workload's result.

    Attributes:
        measured: It is the design that was measured; else its figures follow from the parts.
        block_s: Of one of its blocks.
        contrast_sd: Of one block's contrast.
        halves: Half-width of the interval at the last look, relative, one per entry of ``MINUTES``;
            None below the first look.
        needed_s: The least budget in which nine in ten campaigns call an effect, one per entry of
            ``EFFECTS``; None: no reachable one.
    """

    workload: str
    mode: Mode
    measured: bool
    block_s: float
    contrast_sd: float
    halves: tuple[float | None, ...]
    needed_s: tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadFloor:
    """The noise floor of one workload.

    Attributes:
        noise: The parts for later plans; None where they could not be told apart.
        second_sd: Of one-second rates within a run; in turns, of a second of turns; None likewise,
            as the next two.
        restart_sd: None also where both arms share the start, so that it cancels.
        walk_sd: Of the level's random walk, after one hour; None with too few blocks.
        trend_per_h: Slope of the level; None likewise.
        restart_share: Of the variance of one cell's contrast, what restarts bring; None likewise.
        slice_s: The length that gives the narrowest intervals; None when it is not known.
        reaches: The pooled one first, then the cells where there are several.
        missing: Why parts are None; empty when none is.
        own_s: Measured length of its runs where the file gives it one of its own.
        start_sd: In turns: what a start draws.
        connection_sd: In turns: what a set of connections draws; None also where nothing tells.
        apart_sd: In turns: of a run, beside one of the next block's.
        start_share: In turns: of the variance of one cell's contrast, what starts and connections
            bring.
    """

    workload: str
    noise: WorkloadNoise | None
    second_sd: Estimate | None
    autocorrelation: Estimate | None
    slice_sd: Estimate | None
    restart_sd: Estimate | None
    walk_sd: Estimate | None
    trend_per_h: Estimate | None
    restart_share: float | None
    slice_s: float | None
    reaches: tuple[Reach, ...]
    missing: str = ""
    own_s: float | None = None
    start_sd: Estimate | None = None
    connection_sd: Estimate | None = None
    apart_sd: Estimate | None = None
    start_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseFloor:
    """The noise floor of a set-up.

    Attributes:
        name: The experiment whose twin was measured.
        mode: How the blocks were made.
        preparation_s: Before the first block, as it took here.
        block_s: Of one block of the experiment itself, from what a block took here.
        slice_s: Measured length of a run, in the mean over the workloads.
        advised_slice_s: The length that suits all workloads best; None when it is not known, and
            in turns below 10 starts.
        advised_reconnections: The number beside that length; None likewise, one by one, and where
            nothing tells what connections draw.
        turns: How turns were taken; None one by one.
        designs: What each design of the experiment would see, by workload.
        narrower: Half-width with that length over the present one's; None likewise.
        workloads: Empty when no two blocks are complete.
    """

    name: str
    mode: Mode
    preparation_s: float
    block_s: float
    slice_s: float
    workloads: tuple[WorkloadFloor, ...]
    advised_slice_s: float | None = None
    narrower: float | None = None
    advised_reconnections: int | None = None
    turns: TurnTimes | None = None
    designs: tuple[DesignSight, ...] = ()


_NOTHING = Within(second=math.nan)


def parts_in_turns(
    seen: Observations, workload: str, times: TurnTimes, slice_s: float
) -> tuple[TurnNoiseParts | None, str]:
    """Return the parts of one workload's noise in turns, or why there are none."""
    if seen.blocks < LEAST_NOISE_BLOCKS:
        return None, f"{seen.blocks} blocks; the parts need {LEAST_NOISE_BLOCKS}"
    columns = seen.columns_of(workload)
    rounds = times.turns_in(slice_s)
    found = [_within(seen, column, times.sets(rounds)) for column in columns]
    second, sets, set_s = (
        np.array([[getattr(each, name) for each in cell] for cell in found]).T
        for name in ("second", "sets", "set_s")
    )
    if not np.isfinite(second).any():
        return None, "no block has turns enough to tell the noise within it"
    first, again = seen.configurations[:2]
    sample = TurnNoiseSample(
        levels=seen.log_tps[:, :2][:, :, columns],
        companions=np.delete(seen.contrasts(first, again), columns, axis=1),
        second=second,
        sets=sets,
        set_s=set_s,
        counted_s=_counted_s(seen, columns),
        number_of_sets=times.reconnections + 1,
    )
    return turn_noise_parts(sample), ""


def _within(seen: Observations, column: int, sets: Sequence[range]) -> list[Within]:
    """Return what the turns of a cell tell, block by block; NaN where they tell nothing."""
    cell = seen.cells[column]
    arms = [seen.runs[name, cell] for name in seen.configurations[:2]]
    return [_of_block(runs, sets) for runs in zip(*arms, strict=True)]


def _of_block(runs: Sequence[Run], sets: Sequence[range]) -> Within:
    turns = block_turns(runs)
    found = None if turns is None else within_block(turns, sets)
    return _NOTHING if found is None else found


def _counted_s(seen: Observations, columns: Sequence[int]) -> float:
    """Return the mean seconds that count of a run: lost rounds do not."""
    taken = [
        run.measurement.seconds
        for column in columns
        for name in seen.configurations[:2]
        for run in seen.runs[name, seen.cells[column]]
        if run.measurement is not None
    ]
    return float(np.mean(taken))


def noise_in_turns(workload: str, parts: TurnNoiseParts, block_h: float) -> WorkloadNoise:
    """Return the parts for later plans, also what they say of starts.

    What connections draw stands alone only where it is clear that they draw something, else it
    counts as the start's: more connections are advised on no guess. A run that is compared with
    one of the next block has met another start and another minute of the machine, as in starts:
    what the first does not explain becomes a drift that explains it.

    Args:
        workload: Its name.
        parts: As measured.
        block_h: From one block to the next, hours.
    """
    second = parts.second_sd.estimate
    drawn = _drawn(parts)
    moved = parts.apart_sd.estimate**2 - drawn - second**2 / parts.counted_s
    connection = parts.connection_sd if parts.connections_show else None
    return WorkloadNoise(
        workload=workload,
        second_sd=second,
        autocorrelation=0.0,
        slice_sd=0.0,
        restart_sd=math.sqrt(drawn),
        drift_sd=math.sqrt(2.0 * max(moved, 0.0) / block_h),
        unnamed=ALL_NAMED,
        turns=TurnNoise(
            start_sd=math.sqrt(drawn) if connection is None else parts.start_sd.estimate,
            connection_sd=None if connection is None else connection.estimate,
            second_sd=second,
        ),
    )


def start_share(parts: TurnNoiseParts) -> float | None:
    """Return of the variance of one cell's contrast, what starts and connections bring.

    None where there is none.
    """
    if parts.contrast_variance <= 0.0:
        return None
    return min(2.0 * _drawn(parts) / parts.contrast_variance, 1.0)


def _drawn(parts: TurnNoiseParts) -> float:
    """Return the variance that a start and its connections bring into a run."""
    connection = 0.0 if parts.connection_sd is None else parts.connection_sd.estimate**2
    return parts.start_sd.estimate**2 + connection / parts.number_of_sets


_PAIR_SQUARES: Final = 2.0  # (-1, 1)
_SECONDS_PER_MINUTE: Final = 60.0


def design_sights(
    experiment: Experiment, floor: NoiseFloor, present: BlockShape
) -> Iterator[DesignSight]:
    """Yield what the measured design would see, and the one that the experiment does not take."""
    twin = experiment.twin_of
    assert twin is not None  # noqa: S101 - only a twin has a noise floor
    share = result_share(experiment)
    for workload in floor.workloads:
        measured = workload.reaches[0].contrast_sd.value * share
        terms = _terms(experiment, floor, present, floor.block_s)
        yield _design_sight(workload.workload, terms, measured, measured=True)
        if twin.other is None or workload.noise is None:
            continue
        mode, block_s = twin.other.mode, twin.other.block_s
        between_s = step_s(experiment, mode, block_s, present.configurations)
        shape = replace(present, mode=mode, step_s=between_s, rounds=1)
        other = contrast_sd(workload.noise, shape, pooled=True) * share
        terms = _terms(experiment, floor, shape, block_s)
        yield _design_sight(workload.workload, terms, other, measured=False)


def _terms(
    experiment: Experiment, floor: NoiseFloor, shape: BlockShape, block_s: float
) -> OutlookTerms:
    twin = experiment.twin_of
    assert twin is not None  # noqa: S101 - only a twin has a noise floor
    return OutlookTerms(
        shape=shape,
        results=len(experiment.workloads) * twin.results,
        preparation_s=floor.preparation_s,
        block_s=block_s,
        budget_s=twin.stop.budget_s,
        max_blocks=0,
    )


def _design_sight(
    workload: str, terms: OutlookTerms, deviation: float, *, measured: bool
) -> DesignSight:
    return DesignSight(
        workload=workload,
        mode=terms.shape.mode,
        measured=measured,
        block_s=terms.block_s,
        contrast_sd=deviation,
        halves=tuple(_half_at(terms, deviation, minutes) for minutes in MINUTES),
        needed_s=tuple(needed_at_s(deviation, terms, each, pooled=True) for each in EFFECTS),
    )


def _half_at(terms: OutlookTerms, deviation: float, minutes: int) -> float | None:
    """Return the half-width at the last look of a campaign of so many minutes."""
    left_s = minutes * _SECONDS_PER_MINUTE - terms.preparation_s
    looks = looks_of(terms.rule(max(math.floor(left_s / terms.block_s), 0)))
    return half_width(deviation, looks[-1].blocks, looks[-1].level) if looks else None


def step_s(experiment: Experiment, mode: Mode, block_s: float, arms: int) -> float:
    """Return the seconds between two configurations' runs in one cell.

    In turns it does not matter.
    """
    measure = experiment.measure
    return block_s / arms if mode is Mode.STARTS else measure.ramp_s + experiment.mean_slice_s


def result_share(experiment: Experiment) -> float:
    """Return the deviation of the experiment's own contrast over that of the pair measured."""
    twin = experiment.twin_of
    return 1.0 if twin is None else math.sqrt(twin.squares / _PAIR_SQUARES)
