"""What a design will show: when a campaign decides a true effect, how narrow its intervals become.

Before any block is taken, the noise of a block's contrast follows from its parts; later from
measured contrasts, for any number of blocks. It answers what a design costs: METHOD 4.1. When it
decides an effect is simulated: campaigns are drawn from the contrasts of an A/A campaign, or from
normal ones, and looked at with the intervals and levels of a real one. Nothing here is needed for
a verdict.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from steelyard.core.campaign import ASSUMED_TURNS, TurnNoise, WorkloadNoise
from steelyard.core.schedule import CONNECTION_S, Mode, TurnTimes
from steelyard.stats import intervals, special
from steelyard.stats.factorial import TRIMMED_FROM
from steelyard.stats.noise import mean_variance

# Asymptotic efficiency of the Hodges-Lehmann centre against the mean, normal values: 3 / pi.
HODGES_LEHMANN_EFFICIENCY = 3.0 / np.pi
_SEED, _CAMPAIGNS = 43, 200
_DRAWN_UP_TO = 40  # blocks; ranks of more take seconds
_FAR = 4.0  # standard deviations
_DRAWN_ONE_BY_ONE = 10_000  # blocks: days; of further ones the sums are, as budgets may be long


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look: how many blocks there are, and the two-sided level of the interval."""

    blocks: int
    level: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """Drawn campaigns under a plan of looks, and what each of them detects.

    Attributes:
        looks: At least one, rising.
        needed: Shape (campaigns, looks): the least effect, in standard deviations of one block's
            contrast, that the campaign calls by that look; where it does not stop, at that look.
    """

    looks: tuple[Look, ...]
    needed: intervals.FloatArray

    def decided(self, drift: float) -> intervals.FloatArray:
        """Return the share of campaigns with a verdict by each look, shape (looks,).

        Args:
            drift: Effect over the standard deviation of one block's contrast, >= 0.
        """
        return np.asarray((self.needed < drift).mean(axis=0))

    def blocks_until(self, drift: float, share: float) -> int | None:
        """Return after how many blocks this share of campaigns has decided; None: not at all."""
        reached = np.flatnonzero(self.decided(drift) >= share)
        return self.looks[reached[0]].blocks if len(reached) else None

    def drift_needed(self, share: float) -> float:
        """Return the drift above which this share of campaigns decides by the last look."""
        return float(np.quantile(self.needed[:, -1], share, method="higher"))


@lru_cache(maxsize=512)
def simulated(
    looks: tuple[Look, ...], *, cumulative: bool = True, contrasts: tuple[float, ...] = ()
) -> Simulated:
    """Draw campaigns of unit noise and look at them as a campaign does.

    An interval moves with its contrasts, so one set of campaigns serves every effect. The sides of
    each are exchanged, too. The numbers drawn are always the same: plans differ by their looks.

    Args:
        looks: Rising block counts with the levels of their intervals.
        cumulative: Whether a campaign stops at its first verdict; else each look stands for itself.
        contrasts: Of the blocks of an A/A campaign, of deviation 1, that are drawn from; normal
            ones where there are none.

    Raises:
        ValueError: There is no look.
    """
    if not looks:
        raise ValueError("a plan without an interim result decides nothing")
    coin, blocks = np.random.default_rng(_SEED), min(looks[-1].blocks, _DRAWN_ONE_BY_ONE)
    shape = (blocks, _CAMPAIGNS)
    drawn = coin.choice(contrasts, shape) if contrasts else coin.standard_normal(shape)
    needed = np.empty((len(looks), 2, _CAMPAIGNS))
    single = [look for look in looks if look.blocks <= blocks]
    for place, look in enumerate(single):
        low, high = _ends(drawn[: look.blocks], look)
        needed[place] = -low, high
    if len(single) < len(looks):
        total = np.clip(drawn, -_FAR, _FAR).sum(axis=0)
        one = np.clip(contrasts or (-1.0, 1.0), -_FAR, _FAR)
        mean, deviation = one.mean(), one.std()
    for place, look in enumerate(looks[len(single) :], start=len(single)):
        further = look.blocks - blocks  # their sum is normal
        total += mean * further + deviation * further**0.5 * coin.standard_normal(_CAMPAIGNS)
        blocks = look.blocks
        low, high = _ends_about(total / blocks, look)
        needed[place] = -low, high
    if cumulative:
        np.minimum.accumulate(needed, axis=0, out=needed)
    return Simulated(looks=looks, needed=needed.reshape(len(looks), -1).T)


def _ends(drawn: intervals.FloatArray, look: Look) -> tuple[intervals.FloatArray, ...]:
    """Return the ends of each campaign's interval; beyond some blocks those of its mean's."""
    if look.blocks <= _DRAWN_UP_TO:
        return intervals.interval_ends(drawn, look.level)
    return _ends_about(np.clip(drawn, -_FAR, _FAR).mean(axis=0), look)


def _ends_about(means: intervals.FloatArray, look: Look) -> tuple[intervals.FloatArray, ...]:
    """Return the ends of intervals about the means of blocks, without one that is far out."""
    # Ranks are so efficient, and bound what one block can do.
    centre = means / math.sqrt(HODGES_LEHMANN_EFFICIENCY)
    reach = look_half_width(look, 1.0)
    return centre - reach, centre + reach


def look_half_width(look: Look, deviation: float) -> float:
    """Return the half-width to expect of a look's interval.

    The product's own interval of a typical normal sample (Blom's scores): the asymptotic formula
    is far too narrow where signed ranks must reach a small level with few blocks.

    Args:
        look: At least 2 blocks.
        deviation: Of one block's contrast, any unit; so is the result.
    """
    return _unit_half_width(look.blocks, look.level) * deviation


@lru_cache(maxsize=4096)
def _unit_half_width(blocks: int, level: float) -> float:
    asymptotic = -float(special.ndtri(level / 2.0)) / float(
        np.sqrt(HODGES_LEHMANN_EFFICIENCY * blocks)
    )
    if blocks > intervals.EXACT_UP_TO:
        # What the formula lacks where exact ranks end fades like 1 / n.
        lacking = (
            _unit_half_width(intervals.EXACT_UP_TO, level)
            * np.sqrt(intervals.EXACT_UP_TO / blocks)
            / asymptotic
        )
        return asymptotic * (1.0 + (float(lacking) - 1.0) * intervals.EXACT_UP_TO / blocks)
    scores = special.ndtri((np.arange(1, blocks + 1) - 0.375) / (blocks + 0.25))
    found = intervals.block_interval(scores / scores.std(ddof=1), level)
    return (found.high - found.low) / 2.0


PAIR = (-1.0, 1.0)  # a configuration against the baseline
# Of one configuration, in one cell of a block: fewer were not tried against long turns.
_TURNS_S = range(4, 31)
_LEAST_ROUNDS = 2  # of one set of connections
_MOST_RECONNECTIONS = 7
_SLICES_S = range(3, 31)  # METHOD 3.1: flat between 3 and 10 s; beyond 30 s blocks are too few
# Variance of a mean without its extremes over that of a plain mean, normal values: 1.19 for 4,
# 1.13 for 5, 1.06 for 10; this fits within 2 % (a test draws it).
_TRIMMING_LOSS = 0.6
_S_PER_H = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockShape:
    """What of a block's design matters for its contrasts.

    Attributes:
        mode: In starts each configuration has a restart of its own; back to back all share one.
        configurations: In a block, at least 2.
        cells: Pooled in one result, at least 1.
        run_time_s: Measured length of a run.
        step_s: From one configuration's run in a cell to the next configuration's in the same cell.
        rounds: Runs of a configuration in one cell of a block, at least 1.
        turns: How runs are taken where configurations alternate; ``run_time_s`` is then the seconds
            of turns of one of them.
        sub_blocks: Sizes of those of a block, without the baseline that is in each; empty: all
            configurations are up together.
        base: Place of the baseline among the configurations.
    """

    mode: Mode
    configurations: int
    cells: int
    run_time_s: float
    step_s: float
    rounds: int = 1
    turns: TurnTimes = field(default_factory=TurnTimes)
    sub_blocks: tuple[int, ...] = ()
    base: int = 0


def contrast_sd(
    noise: WorkloadNoise,
    shape: BlockShape,
    *,
    pooled: bool,
    weights: Sequence[float] = PAIR,
) -> float:
    """Return the standard deviation of one block's contrast, on the log scale.

    Args:
        noise: Of the workload.
        shape: Of the blocks.
        pooled: Over all cells of the shape, or in one of them.
        weights: Of the configurations' logs in the contrast, which sum to 0: (-1, 1) for a pair,
            plus and minus 1 / 2^(k-1) for a main effect among 2^k combinations. Only their
            squares matter, because the order in a block is drawn by coin; in sub-blocks also
            which of them the baseline has. For all configurations, or two for a pair with it.

    Raises:
        ValueError: The weights do not sum to zero.
    """
    if abs(sum(weights)) > 1e-9:
        raise ValueError(f"weights {list(weights)} do not sum to 0: drift would not cancel")
    squares = sum(w * w for w in weights)
    if shape.mode is Mode.ALTERNATING:
        if shape.sub_blocks and len(weights) == shape.configurations:
            squares = squares_in_sub_blocks(weights, shape.base, shape.sub_blocks)
        return math.sqrt(squares * _in_turns(turn_noise(noise), shape, pooled=pooled))
    seconds = mean_variance(noise.second_sd, noise.autocorrelation, shape.run_time_s)
    of_run = noise.slice_sd**2 + seconds
    moving = _moved(noise, shape)
    share = shape.rounds * (_cells_averaged(shape.cells) if pooled else 1.0)
    if shape.mode is Mode.STARTS:
        # All cells and rounds of a start share its restart and its place in time.
        each = noise.restart_sd**2 + moving + of_run / share
    else:
        each = (moving + of_run) / share  # every round has an order of its own
    return noise.unnamed * math.sqrt(squares * each)


def squares_in_sub_blocks(weights: Sequence[float], base: int, sizes: Sequence[int]) -> float:
    """Return how many times the variance of one start a contrast has, expected over the coin.

    In each sub-block the baseline beside some configurations is subtracted with the sum of their
    weights: nothing of it is left where these cancel, and all of it where they do not.

    Args:
        weights: Of the configurations, which sum to 0.
        base: Place of the baseline among them.
        sizes: How many of the others are in each sub-block.

    Source:
        Variance of a sum drawn without replacement; a test draws it.
    """
    others = [weight for place, weight in enumerate(weights) if place != base]
    squares, total = sum(w * w for w in others), sum(others)
    number = len(others)
    products = (total**2 - squares) / max(number * (number - 1), 1)  # mean over ordered pairs
    return squares + sum(n * squares / number + n * (n - 1) * products for n in sizes)


def _in_turns(noise: TurnNoise, shape: BlockShape, *, pooled: bool) -> float:
    """Return the variance of one configuration's log rate in turns, beside what all of them share.

    Drift and whatever else lasts for some turns is in all configurations of a block alike.
    """
    counted_s = shape.run_time_s * shape.turns.counted_s / shape.turns.turn_s
    connections = (noise.connection_sd or 0.0) ** 2 / (shape.turns.reconnects + 1)
    of_run = connections + noise.second_sd**2 / counted_s
    return noise.start_sd**2 + of_run / (_cells_averaged(shape.cells) if pooled else 1.0)


def turn_noise(noise: WorkloadNoise) -> TurnNoise:
    """Return the noise in turns; of noise that was measured one by one what it says of turns.

    A start's noise is that of a start and of whatever the machine did between starts, one second's
    that of a second of turns and of whatever lasts longer: turns show no more than either, but it
    may be far less. So the assumed noise stands where it is smaller.
    """
    if noise.turns is not None:
        return noise.turns
    return TurnNoise(
        start_sd=min(ASSUMED_TURNS.start_sd, noise.restart_sd),
        connection_sd=None,
        second_sd=min(ASSUMED_TURNS.second_sd, noise.second_sd),
    )


def optimal_turns(
    noises: Sequence[WorkloadNoise], shape: BlockShape, *, overhead_s: float
) -> BlockShape:
    """Return the seconds of turns and sets of connections that make results narrowest per minute.

    Args:
        noises: Of the workloads; the product of their half-widths becomes least.
        shape: Of the blocks as they are, in turns.
        overhead_s: Not measured, per run: its share of start and warm-up, and its connections.

    Returns:
        The shape with the best seconds and reconnections; with the sets as they are where the noise
        of connections is not known.

    Source:
        Kalibera & Jones (2013), "Rigorous benchmarking in reasonable time", with three levels.
    """
    known = all(turn_noise(noise).connection_sd is not None for noise in noises)
    present = shape.turns.reconnects
    tried = range(_MOST_RECONNECTIONS + 1) if known else (present,)
    shapes = [
        replace(shape, run_time_s=float(seconds), turns=replace(shape.turns, reconnects=number))
        for number in tried
        for seconds in _TURNS_S
        if number == present or (number + 1) * _LEAST_ROUNDS <= shape.turns.turns_in(float(seconds))
    ]
    return min(
        shapes,
        key=lambda each: math.prod(turns_ratio(noise, shape, each, overhead_s) for noise in noises),
    )


def turns_ratio(
    noise: WorkloadNoise, shape: BlockShape, other: BlockShape, overhead_s: float
) -> float:
    """Return how a result's half-width in a given time changes with other turns.

    Args:
        noise: Of the workload.
        shape: Of the blocks as they are.
        other: With other seconds of turns, and other sets of connections.
        overhead_s: Lost per run in the blocks as they are.

    Returns:
        A ratio: 0.9 means intervals a tenth narrower; 1 without noise.
    """
    sets_s = (other.turns.reconnects - shape.turns.reconnects) * CONNECTION_S
    stretch = (overhead_s + sets_s + other.run_time_s) / (overhead_s + shape.run_time_s)
    now, then = (contrast_sd(noise, each, pooled=True) for each in (shape, other))
    return then / now * math.sqrt(stretch) if now > 0.0 else 1.0


def optimal_run_time_s(
    noises: Sequence[WorkloadNoise], shape: BlockShape, *, overhead_s: float
) -> float:
    """Return the one slice length that makes the results of workloads narrowest per minute.

    Args:
        noises: Of the workloads; the product of their half-widths becomes least.
        shape: Of the blocks as they are; one cell for the best of a single cell.
        overhead_s: Not measured, per run: its share of restart and warm-up, and its ramp.

    Returns:
        Whole seconds between 3 and 30. Around the optimum little changes.

    Source:
        Kalibera & Jones (2013), "Rigorous benchmarking in reasonable time"; METHOD 3.1. Their
        sqrt(overhead s^2 (1 + r) / (1 - r) / between) holds for one cell, no drift and long slices;
        here drift, pooling and the exact variance of a mean count, so whole seconds are tried.
    """
    width = {
        float(seconds): math.prod(
            width_ratio(noise, shape, float(seconds), overhead_s) for noise in noises
        )
        for seconds in _SLICES_S
    }
    return min(width, key=lambda seconds: width[seconds])


def width_ratio(
    noise: WorkloadNoise, shape: BlockShape, run_time_s: float, overhead_s: float
) -> float:
    """Return how a result's half-width in a given time changes with another slice length.

    Args:
        noise: Of the workload.
        shape: Of the blocks as they are.
        run_time_s: The other length, seconds.
        overhead_s: Lost per run, as for ``optimal_run_time_s``.

    Returns:
        A ratio: 0.9 means intervals a tenth narrower with the other length; 1 without noise.
    """
    stretch = (overhead_s + run_time_s) / (overhead_s + shape.run_time_s)
    other = replace(shape, run_time_s=run_time_s, step_s=shape.step_s * stretch)
    now, then = (contrast_sd(noise, each, pooled=True) for each in (shape, other))
    return then / now * math.sqrt(stretch) if now > 0.0 else 1.0


def within_starts(noise: WorkloadNoise, mode: Mode) -> WorkloadNoise:
    """Return the noise that a contrast meets: back to back what a restart changes cancels."""
    return noise if mode is Mode.STARTS else replace(noise, restart_sd=0.0)


def _moved(noise: WorkloadNoise, shape: BlockShape) -> float:
    """Return what drift and trend add to a run, configurations in random order ``step_s`` apart.

    It is the mean over all orders of variance minus covariance: of a random walk at 1 .. k steps
    (k + 1) / 6 of a step's variance, of a line k (k + 1) / 12 squared steps.
    """
    k, hours = shape.configurations, shape.step_s / _S_PER_H
    walk = noise.drift_sd**2 * hours * (k + 1) / 6.0
    line = ((noise.trend_per_h or 0.0) * hours) ** 2 * k * (k + 1) / 12.0
    return walk + line


def _cells_averaged(cells: int) -> float:
    """Return as how many cells of a plain mean the pooled contrast counts."""
    return float(cells) if cells < TRIMMED_FROM else cells * (1.0 - _TRIMMING_LOSS / cells)


_LEVEL = 0.05
_INNER_LEVEL = 0.2
_KNOWN = 0.6  # of the degrees: what ranks know of the scale, set by simulation
_RANKS_FROM = 6  # fewer cannot be bounded by ranks at a useful level


def contrast_scale(contrasts: intervals.FloatArray) -> intervals.Interval:
    """Return the deviation of one block's contrast that its interval shows.

    It is the half-width of the signed-rank interval (METHOD 3.3), times the root of n over the
    quantile of t: for normal contrasts their standard deviation, for contrasts with stalls what
    the Hodges-Lehmann interval makes of them. Below 10 blocks an inner interval is taken, which
    one stalled block cannot stretch; below 6 the standard deviation.

    Args:
        contrasts: Shape (n,), n >= 2, log ratio: one per block.

    Returns:
        Log ratio, never negative; bounds of 95 % as for a variance with 0.6 (n - 1) degrees.

    Raises:
        ValueError: Fewer than two contrasts.

    Source:
        METHOD 3.3; the chi-squared interval of a variance; its coverage for these scales is
        simulated in tests/method.
    """
    degrees = len(contrasts) - 1
    seen = _seen(contrasts)
    quantile = -float(special.stdtrit(degrees, (1.0 - seen.confidence) / 2.0))
    scale = (seen.high - seen.low) / 2.0 * math.sqrt(len(contrasts)) / quantile
    known = _KNOWN * degrees
    low, high = (
        scale * math.sqrt(known / float(special.chdtri(known, tail)))
        for tail in (_LEVEL / 2.0, 1.0 - _LEVEL / 2.0)
    )
    return intervals.Interval(estimate=scale, low=low, high=high, confidence=1.0 - _LEVEL)


def _seen(contrasts: intervals.FloatArray) -> intervals.Interval:
    if len(contrasts) < _RANKS_FROM:
        return intervals.student_interval(contrasts, _LEVEL)
    level = _LEVEL if len(contrasts) >= intervals.SIGNED_RANK_FROM else _INNER_LEVEL
    return intervals.signed_rank_interval(contrasts, level)


def half_width(scale: float, blocks: int, level: float) -> float:
    """Return the half-width to expect of the interval of so many blocks, relative.

    It undoes ``contrast_scale``: for the blocks that were measured it is the width they showed.
    ``look_half_width`` is for a known deviation of normal contrasts, and up to a tenth wider.

    Args:
        scale: Of one block's contrast, log ratio.
        blocks: n >= 2.
        level: Two-sided error level of the interval.

    Returns:
        A fraction: 0.01 for an interval of about 1 % to either side.
    """
    return math.sinh(-float(special.stdtrit(blocks - 1, level / 2.0)) * scale / math.sqrt(blocks))


def smallest_visible(half: float) -> float:
    """Return the effect that so wide an interval decides with 90 % power (METHOD 3.6)."""
    return half / intervals.POWER_FACTOR
