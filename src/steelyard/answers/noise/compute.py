"""The noise floor: what an A/A campaign could and could not have seen (METHOD 3.11).

Deviations are of ln(tps): 0.02 means about 2 %. The interval of an A/A comparison itself is an
ordinary one, of ``answers.result.compute``.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Final

import numpy as np

from steelyard.answers.observations import Observations
from steelyard.answers.outlook.compute import OutlookTerms, looks_of, needed_at_s
from steelyard.answers.results import CampaignAnalysis, Comparison, Grounds
from steelyard.answers.turns import block_turns
from steelyard.core import campaign
from steelyard.core.experiment import Experiment
from steelyard.core.findings import Estimate, Finding, Severity, Verdict
from steelyard.core.measurement import Run
from steelyard.core.quantities import INLINE, OPTIONAL, PERCENT, Computed, Named
from steelyard.core.schedule import (
    CLIENTS,
    LEAST_ASKED,
    THREADS,
    Blocks,
    Load,
    Mode,
    TurnTimes,
    WorkloadName,
)
from steelyard.core.wording import SECONDS_PER_MINUTE, format_percent
from steelyard.report import document as doc
from steelyard.stats import planning
from steelyard.stats.drift import LEAST_BLOCKS as DRIFT_FROM
from steelyard.stats.drift import Drift, drift_of, stalled_slices
from steelyard.stats.factorial import pooled_contrasts
from steelyard.stats.intervals import FloatArray, Interval
from steelyard.stats.noise import (
    LEAST_NOISE_BLOCKS,
    LEAST_SECONDS,
    NoiseParts,
    NoiseSample,
    noise_parts,
    unit_contrasts,
)
from steelyard.stats.planning import contrast_sd, half_width, width_ratio
from steelyard.stats.spending import cell_level, first_look_of, result_level, stopping_rule
from steelyard.stats.turns import (
    TurnNoiseParts,
    TurnNoiseSample,
    Within,
    turn_noise_parts,
    within_block,
)

MINUTES = (10, 20, 60, 120)
EFFECTS = (0.03, 0.05)  # that both designs are asked about


_MODE: Final = "How configurations are brought together: alternating, or one by one."
_BLOCK: Final = "Time of a block, s."
_CONTRAST: Final = "Deviation of the contrast of a block, %."


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What the measured experiment would see in some minutes, its preparation included.

    Attributes:
        blocks: That fit.
        half_width: At the last look, relative; None below the first look, as the other.
    """

    minutes: Annotated[int, "Minutes."]
    blocks: Blocks
    half_width: Annotated[Estimate | None, PERCENT, "Half-width, %."]
    smallest_visible: Annotated[
        Estimate | None, PERCENT, "Smallest effect that nine in ten campaigns see, %."
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How far one comparison sees.

    Attributes:
        load: The cell's load, or None for the pooled result.
        contrast_sd: As its interval shows it.
        half_width_here: Relative; None before the first look.
        expected: One per entry of ``MINUTES``.
    """

    load: Load | None
    clients: ClassVar = Computed(
        lambda reach: "pooled" if reach.load is None else reach.load.clients,
        Annotated[int | str, CLIENTS],
    )
    threads: ClassVar = Computed(
        lambda reach: None if reach.load is None else reach.load.threads,
        Annotated[int | None, THREADS],
    )
    contrast_sd: Annotated[Estimate, PERCENT, _CONTRAST]
    half_width_here: Annotated[float | None, PERCENT, "Half-width that this campaign reached, %."]
    expected: Annotated[tuple[Sight, ...], "Expectations by minutes."]


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignSight:
    """What one design of the experiment would see in one workload's result.

    Attributes:
        measured: Else its figures follow from the parts.
        half_width: At the last look, relative, by ``MINUTES``; None below the first look.
        needed_s: The least budget in which nine in ten campaigns call an effect, by ``EFFECTS``;
            None: no reachable one.
    """

    workload: WorkloadName
    mode: Annotated[Mode, _MODE]
    measured: Annotated[bool, "Measured, and not computed."]
    block_s: Annotated[float, _BLOCK]
    contrast_sd: Annotated[float, PERCENT, _CONTRAST]
    half_width: Annotated[Mapping[int, float | None], PERCENT, "Half-width by minutes, %."]
    needed_s: Annotated[
        Mapping[str, float | None], "Seconds until an effect of that size is decided, by size."
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorInTurns:
    """The parts of one workload's noise in turns.

    Attributes:
        connection_sd: None also where nothing tells what connections draw.
        apart_sd: Of a run, beside one of the next block's.
        start_share: Of the variance of one cell's contrast; of connections, too.
    """

    start_sd: Annotated[Estimate | None, PERCENT, "Deviation from start to start, %."]
    connection_sd: Annotated[
        Estimate | None, PERCENT, "Deviation from connection to connection, %."
    ]
    apart_sd: Annotated[
        Estimate | None, PERCENT, "Deviation of a run from one of the next block, %."
    ]
    start_share: Annotated[float | None, "Share of starts in the variance."]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadFloor:
    """The noise floor of one workload.

    Attributes:
        second_sd: Of one-second rates within a run; in turns, of a second of turns; None where the
            parts could not be told apart, as the next two.
        restart_sd: None also where both arms share the start, so that it cancels.
        drift_sd: Of the level's random walk; None with too few blocks, as the trend.
        restart_share: Of the variance of one cell's contrast; None likewise.
        best_run_time_s: None when it is not known.
        noise: The parts for later plans; None likewise.
        comparisons: The pooled one first, then the cells where there are several.
        own_s: Measured length of its runs where the file gives it one of its own.
    """

    workload: WorkloadName
    second_sd: Annotated[Estimate | None, PERCENT, "Deviation from second to second, %."]
    autocorrelation: Annotated[Estimate | None, "Autocorrelation of seconds."] = None
    slice_sd: Annotated[
        Estimate | None, Named("run_sd_percent"), PERCENT, "Deviation from run to run, %."
    ] = None
    restart_sd: Annotated[Estimate | None, PERCENT, "Deviation from restart to restart, %."] = None
    in_turns: Annotated[FloorInTurns | None, INLINE] = None
    drift_sd: Annotated[Estimate | None, PERCENT, "Drift after an hour, %."]
    trend_per_h: Annotated[
        Estimate | None, Named("trend_percent_per_h"), PERCENT, "Trend, % per hour."
    ]
    restart_share: Annotated[float | None, "Share of the restart in the variance."] = None
    best_run_time_s: Annotated[float | None, "Length of the run with the narrowest interval, s."]
    noise: campaign.WorkloadNoise | None
    not_measured: ClassVar = Computed(
        lambda floor: () if floor.noise is None else floor.noise.assumed,
        Annotated[tuple[str, ...], "Parts that were assumed, not measured."],
    )
    reason: Annotated[str, "Reason for missing parts; may be null."] = ""
    comparisons: Annotated[tuple[Reach, ...], "Configurations against the baseline."]
    own_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnsTaken:
    """How turns were taken, and how they are better taken.

    Attributes:
        advised_reconnects: The number beside the advised length; None as that, and where
            nothing tells what connections draw.
    """

    reconnects: Annotated[int, "Number of reconnections in a run."]
    advised_reconnects: Annotated[int | None, "Advised number of reconnections."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseFloor:
    """The noise floor of a set-up.

    Attributes:
        preparation_s: As it took here.
        block_s: Of one block of the experiment itself, from what a block took here.
        run_time_s: Measured length of a run, in the mean over the workloads.
        advised_run_time_s: The length that suits all workloads best; None when it is not known, and
            in turns below 10 starts.
        width_ratio: Half-width with that length over the present one's; None likewise.
        turns: None one by one.
        workloads: Empty when no two blocks are complete.
        designs: What each design of the experiment would see, by workload.
    """

    experiment: Annotated[str, "Experiment whose noise it is."]
    mode: Annotated[Mode, _MODE]
    preparation_s: Annotated[float, "Time before the first block, s."]
    block_s: Annotated[float, _BLOCK]
    run_time_s: Annotated[float, "Measured length of a run, s."]
    advised_run_time_s: Annotated[float | None, "Advised length, s."] = None
    width_ratio: Annotated[float | None, "Width of its intervals relative to the ones now."] = None
    turns: Annotated[TurnsTaken | None, INLINE] = None
    workloads: Annotated[tuple[WorkloadFloor, ...], "An entry for each workload."]
    designs: Annotated[tuple[DesignSight, ...], OPTIONAL, "Designs side by side."] = ()


_NOTHING = Within(second=math.nan)


def parts_in_turns(
    seen: Observations, workload: str, times: TurnTimes, run_time_s: float
) -> tuple[TurnNoiseParts | None, str]:
    """Return the parts of one workload's noise in turns, or why there are none."""
    if seen.blocks < LEAST_NOISE_BLOCKS:
        return None, f"{seen.blocks} blocks; the parts need {LEAST_NOISE_BLOCKS}"
    columns = seen.columns_of(workload)
    rounds = times.turns_in(run_time_s)
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
        number_of_sets=times.reconnects + 1,
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


def noise_in_turns(workload: str, parts: TurnNoiseParts, block_h: float) -> campaign.WorkloadNoise:
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
    return campaign.WorkloadNoise(
        workload=workload,
        second_sd=second,
        autocorrelation=0.0,
        slice_sd=0.0,
        restart_sd=math.sqrt(drawn),
        drift_sd=math.sqrt(2.0 * max(moved, 0.0) / block_h),
        unnamed=campaign.ALL_NAMED,
        turns=campaign.TurnNoise(
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


def design_sights(
    experiment: Experiment, floor: NoiseFloor, present: planning.BlockShape
) -> Iterator[DesignSight]:
    """Yield what the measured design would see, and the one that the experiment does not take."""
    twin = experiment.twin_of
    assert twin is not None  # noqa: S101 - only a twin has a noise floor
    share = result_share(experiment)
    for workload in floor.workloads:
        measured = workload.comparisons[0].contrast_sd.value * share
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
    experiment: Experiment, floor: NoiseFloor, shape: planning.BlockShape, block_s: float
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
        first_look=first_look_of(twin.configurations),
        precision=twin.stop.width,
        is_fixed=twin.stop.blocks is not None,
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
        half_width={minutes: _half_at(terms, deviation, minutes) for minutes in MINUTES},
        needed_s={
            doc.share(effect): needed_at_s(deviation, terms, effect, pooled=True)
            for effect in EFFECTS
        },
    )


def _half_at(terms: OutlookTerms, deviation: float, minutes: int) -> float | None:
    """Return the half-width at the last look of a campaign of so many minutes."""
    left_s = minutes * SECONDS_PER_MINUTE - terms.preparation_s
    blocks = max(math.floor(left_s / terms.block_s), 0)
    if terms.is_fixed and blocks < LEAST_ASKED:
        return None
    looks = looks_of(terms.rule(blocks))
    return half_width(deviation, looks[-1].blocks, looks[-1].level) if looks else None


def step_s(experiment: Experiment, mode: Mode, block_s: float, arms: int) -> float:
    """Return the seconds between two configurations' runs in one cell.

    In turns it does not matter.
    """
    run_s = experiment.measure.discard_start_s + experiment.mean_run_time_s
    return block_s / arms if mode is Mode.STARTS else run_s


def result_share(experiment: Experiment) -> float:
    """Return the deviation of the experiment's own contrast over that of the pair measured."""
    twin = experiment.twin_of
    return 1.0 if twin is None else math.sqrt(twin.squares / _PAIR_SQUARES)


_SECONDS_PER_HOUR = 3600.0
_REACH_FROM = 2
# The level of a last look barely changes beyond: 1.04 % at 80 looks, 0.92 % at 500, which widens
# the interval by less than 2 %. The recursion takes seconds there.
_MOST_LOOKS = 80


def analyse_noise(grounds: Grounds) -> NoiseFloor | None:
    """Return the noise floor that an A/A campaign measured.

    None for every other campaign, and while it runs: it takes seconds to compute, which would
    disturb the next block.
    """
    record, seen, comparisons = grounds.record, grounds.closed, grounds.analysis.comparisons
    experiment, plan = record.experiment, record.plan
    twin = experiment.twin_of
    if twin is None or plan is None or record.status is campaign.Status.RUNNING:
        return None
    block_s = _block_s(record, plan, seen.blocks)
    alternates = plan.mode is Mode.ALTERNATING
    floor = NoiseFloor(
        experiment=twin.name,
        mode=plan.mode,
        turns=TurnsTaken(reconnects=experiment.measure.turns.reconnects) if alternates else None,
        preparation_s=record.planned_at_s or 0.0,
        block_s=_scaled(block_s, experiment, plan.mode, twin.configurations, plan.rounds),
        run_time_s=experiment.mean_run_time_s,
        workloads=(),
    )
    if seen.blocks < _REACH_FROM:
        return floor
    design = _design(experiment, floor, twin.configurations, plan.rounds)
    workloads = tuple(
        _workload(_Of(record, seen, workload.name), floor, comparisons, design)
        for workload in experiment.workloads
    )
    advised = _advised(replace(floor, workloads=workloads), design, starts=seen.blocks)
    return replace(advised, designs=tuple(design_sights(experiment, advised, design.shape)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Design:
    """The blocks of the experiment itself, and what of each run is not measured."""

    shape: planning.BlockShape
    overhead_s: float

    def best(self, noises: Sequence[campaign.WorkloadNoise]) -> planning.BlockShape:
        """Return the best length for workloads of such noise, as a plan says it."""
        if self.shape.mode is Mode.ALTERNATING:
            return planning.optimal_turns(noises, self.shape, overhead_s=self.overhead_s)
        return replace(
            self.shape,
            run_time_s=planning.optimal_run_time_s(noises, self.shape, overhead_s=self.overhead_s),
        )

    def width_ratio(self, noise: campaign.WorkloadNoise, best: planning.BlockShape) -> float:
        """Return how a half-width in a given time changes with another shape."""
        if self.shape.mode is Mode.ALTERNATING:
            return planning.turns_ratio(noise, self.shape, best, self.overhead_s)
        return width_ratio(noise, self.shape, best.run_time_s, self.overhead_s)


def _design(experiment: Experiment, floor: NoiseFloor, configurations: int, rounds: int) -> _Design:
    arms, cells = max(configurations, 2), len(experiment.workloads) * len(experiment.loads)
    runs = arms * cells * rounds
    shape = planning.BlockShape(
        mode=floor.mode,
        configurations=arms,
        cells=len(experiment.closed_loads),
        run_time_s=floor.run_time_s,
        step_s=step_s(experiment, floor.mode, floor.block_s, arms),
        rounds=rounds,
        turns=experiment.measure.turns,
    )
    return _Design(shape=shape, overhead_s=max(floor.block_s / runs - floor.run_time_s, 0.0))


def _advised(floor: NoiseFloor, design: _Design, *, starts: int) -> NoiseFloor:
    """Return the floor with one slice length for all workloads, unless they have their own."""
    known = [
        planning.within_starts(w.noise, floor.mode) for w in floor.workloads if w.noise is not None
    ]
    own = any(w.own_s is not None for w in floor.workloads)
    if own or not known or (floor.turns is not None and starts < campaign.LEAST_STARTS):
        return floor
    best = design.best(known)
    ratios = [design.width_ratio(noise, best) for noise in known]
    turns = floor.turns
    if turns and all(planning.turn_noise(noise).connection_sd is not None for noise in known):
        turns = replace(turns, advised_reconnects=best.turns.reconnects)
    return replace(
        floor,
        advised_run_time_s=best.run_time_s,
        turns=turns,
        width_ratio=math.prod(ratios) ** (1.0 / len(ratios)),
    )


def noise_findings(analysis: CampaignAnalysis) -> tuple[Finding, ...]:
    """Return a warning for every difference that was found between a server and itself."""
    if analysis.experiment.twin_of is None:
        return ()
    return tuple(_difference(c) for c in analysis.comparisons if c.load is None and _differs(c))


def _differs(comparison: Comparison) -> bool:
    return comparison.verdict in (Verdict.FASTER, Verdict.SLOWER)


def _difference(comparison: Comparison) -> Finding:
    effect = comparison.effect
    value = "" if effect is None else f" by {format_percent(effect.value)}"
    return Finding(
        code="aa-difference",
        severity=Severity.WARNING,
        message=(
            f"{comparison.workload}: the same configuration is called {comparison.verdict}"
            f" than itself{value}"
        ),
        remedy=(
            "At most 4 of 100 sound set-ups show this by chance. Repeat it with another seed; if it"
            " comes again, something outside the configuration decides the numbers: do not trust"
            " comparisons here until it is found."
        ),
        source="METHOD 3.11",
        subject=comparison.workload,
    )


def _block_s(record: campaign.CampaignRecord, plan: campaign.CampaignPlan, blocks: int) -> float:
    """Return the seconds one block took, as planned where that is not known.

    Tries that were thrown away are in it; what a resumed campaign prepared again and the clearing
    up at the end are not, as far as the record says how long blocks lasted.
    """
    if record.planned_at_s is None or not blocks:
        return plan.block_s
    lasted_s = [each.lasted_s for each in record.blocks if each.lasted_s is not None]
    if all(each.lasted_s is not None for each in record.blocks if each.complete):
        return max(sum(lasted_s) / blocks, 1.0)
    return max((record.elapsed_s - record.planned_at_s) / blocks, 1.0)


def _scaled(
    block_s: float, experiment: Experiment, mode: Mode, configurations: int, rounds: int
) -> float:
    """Return the seconds of a block with another number of configurations."""
    here = len(experiment.configurations)
    if mode is not Mode.BACK_TO_BACK:
        return block_s * max(configurations, 2) / here
    cells = len(experiment.workloads) * len(experiment.loads) * rounds
    run_s = experiment.mean_run_time_s + experiment.measure.discard_start_s
    return block_s + (max(configurations, 2) - here) * cells * run_s


class _Of:
    """One workload's part of the observations; several rounds of a start count like cells."""

    def __init__(self, record: campaign.CampaignRecord, seen: Observations, workload: str) -> None:
        assert record.plan is not None  # noqa: S101 - no noise floor without a plan
        self.experiment = record.experiment
        self.plan = record.plan
        self.workload = workload
        self.own_s = record.experiment.workload(workload).run_time_s
        self.seen = seen
        self.columns = seen.columns_of(workload)
        arms = seen.configurations[:2]
        self.contrasts = seen.contrasts(*arms)[:, self.columns]
        each = seen.slice_contrasts(*arms)
        self.single = each[:, :, self.columns].reshape(seen.blocks, -1)
        self.companions = np.delete(each, self.columns, axis=2).reshape(seen.blocks, -1)

    def runs(self, side: int, column: int, of_round: int = 0) -> tuple[Run, ...]:
        """Return the runs of an arm in a cell and a round, in block order."""
        every = self.seen.runs[self.seen.configurations[side], self.seen.cells[column]]
        return every[of_round :: self.seen.rounds]

    def seconds(self) -> FloatArray:
        """Return ln(1/s) of every second after the ramp, shape (n, 2, cells, seconds)."""
        ramp_s = self.experiment.measure.discard_start_s
        places = [(r, column) for r in range(self.seen.rounds) for column in self.columns]
        series = [
            [[_rates(run, ramp_s) for run in self.runs(side, c, r)] for r, c in places]
            for side in range(2)
        ]
        longest = max(len(rates) for arm in series for cell in arm for rates in cell)
        found = np.full((self.seen.blocks, 2, len(places), longest), np.nan)
        for side, arm in enumerate(series):
            for column, cell in enumerate(arm):
                for block, rates in enumerate(cell):
                    found[block, side, column, : len(rates)] = rates
        return found

    def levels(self) -> tuple[FloatArray, FloatArray]:
        """Return each block's level, stalled slices left out, and its time in hours."""
        log_tps = self.seen.log_tps[:, :, self.columns]
        centred = log_tps - np.median(log_tps, axis=0)
        kept = ~stalled_slices(log_tps)
        count = np.maximum(kept.sum(axis=(1, 2)), 1)
        levels = np.where(kept, centred, 0.0).sum(axis=(1, 2)) / count
        starts = zip(*(self.runs(s, c) for s in range(2) for c in self.columns), strict=True)
        hours = np.array([min(run.started_at for run in block) for block in starts])
        return levels, (hours - hours[0]) / _SECONDS_PER_HOUR

    def with_contrasts(self, noise: campaign.WorkloadNoise) -> campaign.WorkloadNoise:
        """Return the parts with the blocks that campaigns are drawn from."""
        return replace(noise, contrasts=unit_contrasts(pooled_contrasts(self.contrasts)))

    def block_h(self) -> float:
        """Return the hours from one block to the next, in the middle."""
        _, hours = self.levels()
        return float(np.median(np.diff(hours)))


def _rates(run: Run, ramp_s: float) -> list[float]:
    """Return ln(1/s) of the run's whole seconds after its ramp."""
    series = run.measurement.series if run.measurement is not None else ()
    return [
        math.log(max(second.transactions, 1.0) / second.seconds)
        for second in series
        if second.seconds > 0.5 and second.end_s - second.seconds / 2.0 > ramp_s
    ]


def _workload(
    of: _Of, floor: NoiseFloor, comparisons: Sequence[Comparison], design: _Design
) -> WorkloadFloor:
    if floor.turns is not None:
        return _in_turns(of, floor, comparisons, design)
    parts, reason = _parts(of, floor.mode)
    drift = _drift(of)
    noise = None if parts is None else of.with_contrasts(_noise(of.workload, parts, drift))
    best = (
        None
        if noise is None
        else design.best([planning.within_starts(noise, floor.mode)]).run_time_s
    )
    return WorkloadFloor(
        workload=of.workload,
        noise=noise,
        second_sd=None if parts is None else _estimate(parts.second_sd),
        autocorrelation=None if parts is None else _estimate(parts.autocorrelation),
        slice_sd=None if parts is None else _estimate(parts.slice_sd),
        restart_sd=None if parts is None else _estimate(parts.restart_sd),
        drift_sd=None if drift is None else _estimate(drift.walk_sd),
        trend_per_h=None if drift is None else _estimate(drift.trend_per_h),
        restart_share=None if parts is None else _restart_share(parts),
        best_run_time_s=best,
        comparisons=tuple(_reaches(of, floor, comparisons)),
        reason=reason,
        own_s=of.own_s,
    )


def _in_turns(
    of: _Of, floor: NoiseFloor, comparisons: Sequence[Comparison], design: _Design
) -> WorkloadFloor:
    """Return the floor of a workload whose runs were taken in turns."""
    plan, run_time_s = of.plan, of.experiment.run_time_s(of.workload)
    parts, reason = parts_in_turns(
        of.seen, of.workload, campaign.turn_times(plan, of.workload), run_time_s
    )
    drift = _drift(of)
    noise = (
        None
        if parts is None
        else of.with_contrasts(noise_in_turns(of.workload, parts, of.block_h()))
    )
    starts_tell = of.seen.blocks >= campaign.LEAST_STARTS
    return WorkloadFloor(
        workload=of.workload,
        noise=noise,
        second_sd=None if parts is None else _estimate(parts.second_sd),
        drift_sd=None if drift is None else _estimate(drift.walk_sd),
        trend_per_h=None if drift is None else _estimate(drift.trend_per_h),
        best_run_time_s=design.best([noise]).run_time_s
        if noise is not None and starts_tell
        else None,
        comparisons=tuple(_reaches(of, floor, comparisons)),
        reason=reason,
        own_s=of.own_s,
        in_turns=None if parts is None else _told_by_turns(parts),
    )


def _told_by_turns(parts: TurnNoiseParts) -> FloorInTurns:
    return FloorInTurns(
        start_sd=_estimate(parts.start_sd),
        connection_sd=_estimate(parts.connection_sd),
        apart_sd=_estimate(parts.apart_sd),
        start_share=start_share(parts),
    )


def _parts(of: _Of, mode: Mode) -> tuple[NoiseParts | None, str]:
    seconds = of.seconds()
    if seconds.shape[-1] < LEAST_SECONDS:
        return None, (
            f"the runs have {seconds.shape[-1]} whole seconds after the ramp; from"
            f" {LEAST_SECONDS} on their noise can be told from that between runs"
        )
    if of.seen.blocks < LEAST_NOISE_BLOCKS:
        return None, f"{of.seen.blocks} blocks; the parts need {LEAST_NOISE_BLOCKS}"
    sample = NoiseSample(
        contrasts=of.single,
        seconds=seconds,
        companions=of.companions,
        same_start=mode is Mode.BACK_TO_BACK,
    )
    return noise_parts(sample), ""


def _drift(of: _Of) -> Drift | None:
    levels, hours = of.levels()
    if len(levels) < DRIFT_FROM or np.any(np.diff(hours) <= 0.0):
        return None
    return drift_of(levels, hours)


def _noise(workload: str, parts: NoiseParts, drift: Drift | None) -> campaign.WorkloadNoise:
    """Return the parts for later plans; what was not seen is assumed, and named."""
    assumed = campaign.ASSUMED_NOISE.workloads[0]
    names = {"restart_sd": parts.restart_sd is None, "drift_sd": drift is None}
    if not parts.separated:
        names |= {"slice_sd": True, "restart_sd": True}
    return campaign.WorkloadNoise(
        workload=workload,
        second_sd=parts.second_sd.estimate,
        autocorrelation=parts.autocorrelation.estimate,
        slice_sd=parts.slice_sd.estimate,
        restart_sd=assumed.restart_sd if parts.restart_sd is None else parts.restart_sd.estimate,
        drift_sd=assumed.drift_sd if drift is None else drift.walk_sd.estimate,
        trend_per_h=None if drift is None else drift.trend_per_h.estimate,
        assumed=tuple(name for name, is_assumed in names.items() if is_assumed),
        unnamed=campaign.ALL_NAMED,
    )


def _restart_share(parts: NoiseParts) -> float | None:
    if parts.restart_sd is None or not parts.separated or parts.contrast_variance <= 0.0:
        return None
    return min(2.0 * parts.restart_sd.estimate**2 / parts.contrast_variance, 1.0)


def _reaches(of: _Of, floor: NoiseFloor, comparisons: Sequence[Comparison]) -> Iterator[Reach]:
    loads = of.experiment.closed_loads
    samples: list[tuple[Load | None, FloatArray]] = [(None, pooled_contrasts(of.contrasts))]
    if len(loads) > 1:
        samples += [(load, of.contrasts[:, place]) for place, load in enumerate(loads)]
    for load, contrasts in samples:
        scale = planning.contrast_scale(contrasts)
        yield Reach(
            load=load,
            contrast_sd=_ordered((scale.estimate, scale.low, scale.high)),
            half_width_here=_seen(comparisons, of.workload, load),
            expected=tuple(
                _sight(of.experiment, floor, minutes, scale, load) for minutes in MINUTES
            ),
        )


def _seen(comparisons: Sequence[Comparison], workload: str, load: Load | None) -> float | None:
    effect = next((c.effect for c in comparisons if (c.workload, c.load) == (workload, load)), None)
    if effect is None or effect.low is None or effect.high is None:
        return None
    return (effect.high - effect.low) / 2.0


def _sight(
    experiment: Experiment, floor: NoiseFloor, minutes: int, scale: Interval, load: Load | None
) -> Sight:
    left_s = minutes * SECONDS_PER_MINUTE - floor.preparation_s
    blocks = max(math.floor(left_s / floor.block_s), 0)
    level = _level(experiment, blocks, pooled=load is None)
    if level is None:
        return Sight(minutes=minutes, blocks=blocks, half_width=None, smallest_visible=None)
    share = result_share(experiment)
    halves = [half_width(share * s, blocks, level) for s in (scale.estimate, scale.low, scale.high)]
    return Sight(
        minutes=minutes,
        blocks=blocks,
        half_width=_ordered(halves),
        smallest_visible=_ordered([planning.smallest_visible(half) for half in halves]),
    )


def _level(experiment: Experiment, blocks: int, *, pooled: bool) -> float | None:
    """Return the level of the last look at so many blocks, in the experiment itself."""
    twin = experiment.twin_of
    assert twin is not None  # noqa: S101 - only a twin has a noise floor
    looks, is_fixed = min(blocks, _MOST_LOOKS), twin.stop.blocks is not None
    if is_fixed and looks < LEAST_ASKED:
        return None
    rule = stopping_rule(
        results=len(experiment.workloads) * twin.results,
        first_look=first_look_of(twin.configurations),
        max_blocks=looks,
        precision=twin.stop.width,
        blocks=looks if is_fixed else None,
    )
    if pooled:
        return result_level(rule, looks)
    return cell_level(rule, looks, len(experiment.closed_loads))


def _ordered(values: Sequence[float]) -> Estimate:
    estimate, low, high = values
    return Estimate(value=estimate, low=low, high=high)


def _estimate(interval: Interval | None) -> Estimate | None:
    if interval is None:
        return None
    return Estimate(value=interval.estimate, low=interval.low, high=interval.high)
