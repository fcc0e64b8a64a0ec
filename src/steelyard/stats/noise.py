"""What the noise of an A/A campaign is made of: seconds, slices and starts (METHOD 3.1, 3.11).

Both arms are the same, so every difference between them within a block is noise. Deviations are
of ln(tps): 0.02 means about 2 %.

Where a configuration is compared on instances that are made anew each time, noise has two levels:
made instances, and runs in each of them. Further runs in one instance cost less than another
instance, and they average only the noise of runs away.
"""

import math
from dataclasses import dataclass

import numpy as np

from steelyard.stats import special
from steelyard.stats.intervals import FloatArray, Interval, hodges_lehmann_centres

LEAST_SECONDS = 3  # of a slice: differences at lag 1 and lag 2
LEAST_NOISE_BLOCKS = 4  # a guess: below, an interval over blocks says nothing
DRAWN_FROM = 12  # blocks
_LEVEL = 0.05
_MAD_TO_DEVIATION = 1.4826  # median absolute deviation to standard deviation, normal values
_FAR_SECOND = 4.0  # robust deviations beyond which a step belongs to a stall
_FAR_BLOCK = 5.0  # the same for a contrast; normal noise loses nothing by either
# Of successive seconds, as estimated: in slices of a few seconds, more cannot be told from a level
# that moves. METHOD 9 measured 0.79 on a busy machine.
_MOST_AUTOCORRELATION = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseParts:
    """Standard deviations of ln(tps), each with an interval of 95 % by jackknife over blocks.

    Attributes:
        second_sd: Of one-second rates within a run.
        autocorrelation: Of successive seconds within a run, between -1 and 1.
        slice_sd: Between runs of one start, the averaged seconds subtracted; at least 0.
        restart_sd: Shared by all runs of one start; None where both arms share the start.
        contrast_variance: Of one cell's contrast, stalls left out.
        separated: Whether slice and start could be told apart; else their variances are halves.
    """

    second_sd: Interval
    autocorrelation: Interval
    slice_sd: Interval
    restart_sd: Interval | None
    contrast_variance: float
    separated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseSample:
    """What an A/A campaign gives of one workload.

    Attributes:
        contrasts: Shape (n, cells), log ratio of the arms, paired within block and cell, n >= 4;
            several rounds of one start stand beside one another like cells.
        seconds: Shape (n, 2, cells, seconds), ln(1/s) of every second after the ramp; NaN where
            a run has fewer. At least 3 seconds.
        companions: Shape (n, others), contrasts of other workloads in the same starts.
        same_start: Both arms run in one start, so what it adds to both cancels.
    """

    contrasts: FloatArray
    seconds: FloatArray
    companions: FloatArray
    same_start: bool


def noise_parts(sample: NoiseSample) -> NoiseParts:
    """Return the parts of one workload's noise by moments.

    Steps between seconds at lag 1 and 2 give deviation and autocorrelation of an AR(1) without
    the mean of each run, so short slices do not bias them. The variance of the contrasts is
    twice that of a run; what two cells of one start share is the start's. Steps and contrasts
    far outside belong to stalls, which have a test of their own, and are left out.

    Args:
        sample: Of one workload.

    Returns:
        Deviations of ln(tps), 95 % each; where a variance comes out negative, 0.

    Raises:
        ValueError: Fewer than 4 blocks, or slices of fewer than 3 seconds.

    Source:
        Variance components by moments, METHOD 3.1 and 3.11; Cochran, "Sampling Techniques", for
        the jackknife over groups. METHOD subtracts s^2 (1 + rho) / (1 - rho) / L; the exact
        variance of a mean of L seconds is used here, for L is small.
    """
    blocks = len(sample.contrasts)
    length = sample.seconds.shape[-1]
    if blocks < LEAST_NOISE_BLOCKS or length < LEAST_SECONDS:
        raise ValueError(f"no parts of noise from {blocks} blocks of {length} seconds")
    sums = np.hstack(
        [_step_sums(sample.seconds), contrast_sums(sample.contrasts, sample.companions)]
    )
    separated = not sample.same_start and bool(sums[:, 7].sum())
    way = _Way(seconds=length, same_start=sample.same_start, separated=separated)
    whole = sums.sum(axis=0)
    centre = _components(whole, way)
    spread = jackknife_error(_components(whole - sums, way))
    reach = -float(special.stdtrit(blocks - 1, _LEVEL / 2.0)) * spread
    low, high = centre - reach, centre + reach
    return NoiseParts(
        second_sd=_interval(*(math.exp(end[0] / 2.0) for end in (centre, low, high))),
        autocorrelation=_interval(centre[1], max(low[1], -1.0), min(high[1], 1.0)),
        slice_sd=_interval(*(_root(end[2]) for end in (centre, low, high))),
        restart_sd=None
        if sample.same_start
        else _interval(*(_root(end[3]) for end in (centre, low, high))),
        contrast_variance=float(whole[4] / whole[5]),
        separated=separated or sample.same_start,
    )


def mean_variance(second_sd: float, autocorrelation: float, seconds: float) -> float:
    """Return the variance of the mean of so many successive seconds, exact for an AR(1).

    Args:
        second_sd: Of one second.
        autocorrelation: At lag 1, between -1 and 1.
        seconds: Averaged over, counted as 1 at least; between whole ones it goes on smoothly.

    Returns:
        Squared unit of ``second_sd``; for long means s^2 (1 + rho) / (1 - rho) / L.
    """
    return float(second_sd**2 * _averaging(np.array(autocorrelation), max(seconds, 1.0)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """How sums become components."""

    seconds: int
    same_start: bool
    separated: bool


def _components(sums: FloatArray, way: _Way) -> FloatArray:
    """Return ln(variance of a second), autocorrelation, variance of a slice and of a start.

    ``sums`` ends with: squared steps at lag 1 and their number, the same at lag 2, squared
    contrasts and their number, products of two cells of one block and their number.
    """
    first, second, total, shared = np.moveaxis(
        sums[..., 0::2] / np.maximum(sums[..., 1::2], 1.0), -1, 0
    )
    first = np.maximum(first, 1e-24)  # the same rate in every second
    rho = np.clip(second / first - 1.0, -_MOST_AUTOCORRELATION, _MOST_AUTOCORRELATION)
    variance = first / (2.0 * (1.0 - rho))
    averaged = variance * _averaging(rho, way.seconds)
    if way.separated:
        start, piece = shared / 2.0, (total - shared) / 2.0 - averaged
    elif way.same_start:
        start, piece = np.zeros_like(total), total / 2.0 - averaged
    else:
        start = piece = (total / 2.0 - averaged) / 2.0
    return np.stack([np.log(variance), rho, piece, start], axis=-1)


def _averaging(rho: FloatArray, seconds: float) -> FloatArray:
    """Return the variance of a mean of an AR(1) over that of one of its values."""
    lags = np.arange(1, math.ceil(seconds))
    weights = 1.0 - lags / seconds
    return np.asarray((1.0 + 2.0 * (weights * rho[..., None] ** lags).sum(axis=-1)) / seconds)


def _step_sums(seconds: FloatArray) -> FloatArray:
    """Return each block's squared steps at lag 1 and 2 with their numbers, shape (n, 4)."""
    columns: list[FloatArray] = []
    for lag in (1, 2):
        steps = (seconds[..., lag:] - seconds[..., :-lag]).reshape(len(seconds), -1)
        known = np.abs(steps[np.isfinite(steps)])
        limit = _FAR_SECOND * _MAD_TO_DEVIATION * float(np.median(known)) if len(known) else 0.0
        kept = np.isfinite(steps) & (np.abs(steps) <= limit)
        columns += [np.where(kept, steps, 0.0) ** 2, kept.astype(float)]
    return np.stack([column.sum(axis=1) for column in columns], axis=1)


def contrast_sums(contrasts: FloatArray, companions: FloatArray) -> FloatArray:
    """Return each block's squared contrasts and shared products, with numbers, shape (n, 4).

    Args:
        contrasts: Shape (n, cells), n >= 2, log ratio; they are centred cell by cell.
        companions: Shape (n, others), what a single cell shares its block with.
    """
    blocks, cells = contrasts.shape
    own, kept = centred(contrasts)
    # One degree of freedom went into each centre.
    stretch = blocks / (blocks - 1)
    if cells > 1:
        products = (own.sum(axis=1) ** 2 - (own**2).sum(axis=1)) / 2.0
        pairs = (kept.sum(axis=1) ** 2 - kept.sum(axis=1)) / 2.0
    else:
        other, other_kept = centred(companions)
        products = own[:, 0] * other.sum(axis=1)
        pairs = kept[:, 0] * other_kept.sum(axis=1)
    squares = (own**2).sum(axis=1)
    return np.stack([stretch * squares, kept.sum(axis=1), stretch * products, pairs], axis=1)


def centred(contrasts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return deviations from each cell's centre, 0 where left out, and which are kept."""
    if not contrasts.shape[1]:
        return contrasts, contrasts
    deviations = contrasts - hodges_lehmann_centres(contrasts)
    limit = _FAR_BLOCK * _MAD_TO_DEVIATION * np.median(np.abs(deviations), axis=0)
    kept = np.abs(deviations) <= limit
    return np.where(kept, deviations, 0.0), kept.astype(float)


def unit_contrasts(contrasts: FloatArray) -> tuple[float, ...]:
    """Return contrasts around their centre, in standard deviations of those that no stall moved.

    Args:
        contrasts: Shape (n,), log ratio, one per block.

    Returns:
        To draw campaigns from, rounded to 4 digits; none of fewer than 12 blocks, whose ends are
        too few, or of equal ones.
    """
    if len(contrasts) < DRAWN_FROM:
        return ()
    kept, counted = centred(contrasts[:, None])
    deviation = math.sqrt(float((kept**2).sum()) / max(float(counted.sum()) - 1.0, 1.0))
    if deviation == 0.0:
        return ()
    off = (contrasts - float(hodges_lehmann_centres(contrasts))) / deviation
    return tuple(off.round(4).tolist())


def jackknife_error(left_out: FloatArray) -> FloatArray:
    """Return the standard error of each component, from the estimates without one block each."""
    blocks = len(left_out)
    return np.asarray(np.sqrt((blocks - 1) * left_out.var(axis=0)))


def _root(variance: float) -> float:
    return math.sqrt(max(variance, 0.0))


def _interval(estimate: float, low: float, high: float) -> Interval:
    return Interval(
        estimate=float(estimate), low=float(low), high=float(high), confidence=1.0 - _LEVEL
    )


MOST_RUNS = 8  # beyond it the gain is small and a start gets long: METHOD's drift then counts
LEAST_INSTANCES = 6  # per side, METHOD 3.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """The parts of a balanced sample's variance, as standard deviations in its own unit.

    Attributes:
        instance_sd: Between instances, the noise of runs taken off; 0 where nothing is left.
        run_sd: Between runs of one instance.
        instance_low: Lower end of an approximate 95 % interval of ``instance_sd``.
        instance_high: Its upper end.
        instances: How many there were.
        runs: In each of them.
    """

    instance_sd: float
    run_sd: float
    instance_low: float
    instance_high: float
    instances: int
    runs: int


def variance_components(values: FloatArray) -> Components:
    """Return the parts of the variance by moments.

    Args:
        values: Shape (instances, runs), ln(1/s) or a contrast of it; balanced, at least 2 of each.

    Returns:
        Mean squares divide by instances - 1 and instances * (runs - 1); a negative part is 0. The
        interval is that of Williams and Tukey, conservative at 95 %.

    Raises:
        ValueError: Fewer than 2 instances, or fewer than 2 runs in each.

    Source:
        Williams (1962), "A confidence interval for variance components", Biometrika 49.
    """
    instances, runs = values.shape
    if instances < 2 or runs < 2:
        raise ValueError(f"no components from {instances} instances of {runs} runs")
    means = values.mean(axis=1)
    between = runs * float(means.var(ddof=1))
    within = float(((values - means[:, None]) ** 2).sum()) / (instances * (runs - 1))
    low, high = _williams(between, within, instances, runs)
    return Components(
        instance_sd=math.sqrt(max((between - within) / runs, 0.0)),
        run_sd=math.sqrt(within),
        instance_low=math.sqrt(max(low, 0.0)),
        instance_high=math.sqrt(max(high, 0.0)),
        instances=instances,
        runs=runs,
    )


def _williams(between: float, within: float, instances: int, runs: int) -> tuple[float, float]:
    """Return the ends of the interval of the variance between instances."""
    outer, inner = instances - 1, instances * (runs - 1)
    small, large = 0.025, 0.975
    squares = outer * between / runs

    def end(quantile: float) -> float:
        of_f = float(special.fdtri(outer, inner, quantile))
        share = 1.0 - of_f * within / between if between > 0 else 0.0
        return squares * share / float(special.chdtri(outer, 1.0 - quantile))

    return end(large), end(small)


def optimal_runs(
    *,
    instance_cost: float,
    run_cost: float,
    instance_sd: float,
    run_sd: float,
    most: int = MOST_RUNS,
) -> int:
    """Return how many runs to make in one instance, 1 to ``most``.

    Args:
        instance_cost: Seconds to make one and bring it to where it can be measured.
        run_cost: Seconds of one run.
        instance_sd: Between instances, of ln(1/s).
        run_sd: Between runs of one instance, likewise.
        most: Never more than this.

    Returns:
        The whole number m that gives the least variance in a given time: it minimises
        (instance_cost + m run_cost) (instance_sd^2 + run_sd^2 / m). Without the bounds and the
        rounding that is sqrt(instance_cost / run_cost) run_sd / instance_sd.

    Source:
        Kalibera and Jones (2013), "Rigorous benchmarking in reasonable time", section 6.
    """

    def variance_times_cost(runs: int) -> float:
        return (instance_cost + runs * run_cost) * (instance_sd**2 + run_sd**2 / runs)

    return min(range(1, most + 1), key=variance_times_cost)


def instances_needed(
    effect: float, *, instance_sd: float, run_sd: float, runs: int, power: float = 0.9
) -> int:
    """Return how many instances per side find an effect, one of each side in a block.

    Args:
        effect: Relative, not 0: 0.05 is 5 % more.
        instance_sd: Between instances of one side, of ln(1/s).
        run_sd: Between runs of one instance, likewise.
        runs: In each instance.
        power: Chance to find it at the 5 % level.

    Returns:
        By Student's t on the differences of the blocks, at least ``LEAST_INSTANCES``. Looks before
        the end and drift between the sides of a block are not in it.

    Raises:
        ValueError: The effect is 0: no number of instances finds it.
    """
    difference = abs(math.log1p(effect))
    if difference == 0.0:
        raise ValueError("no number of instances finds an effect of 0")
    sd = math.sqrt(2.0 * (instance_sd**2 + run_sd**2 / runs))
    needed = LEAST_INSTANCES
    while True:
        quantiles = sum(float(special.stdtrit(needed - 1, share)) for share in (0.975, power))
        if needed >= (quantiles * sd / difference) ** 2:
            return needed
        needed += 1


def pair_components(contrasts: FloatArray) -> Components | None:
    """Return the parts of one side's noise from the contrasts of a campaign's blocks.

    The drift that both sides of a block share is not in a contrast; what drifts between the two
    starts of a block counts as a part of the instances.

    Args:
        contrasts: Shape (blocks, rounds), log ratio of the two sides in each round.

    Returns:
        Of one side: both variances halved. None below 6 blocks or 2 rounds.
    """
    blocks, rounds = contrasts.shape
    if blocks < LEAST_INSTANCES or rounds < 2:
        return None
    both = variance_components(contrasts)
    half = float(np.sqrt(0.5))
    return Components(
        instance_sd=half * both.instance_sd,
        run_sd=half * both.run_sd,
        instance_low=half * both.instance_low,
        instance_high=half * both.instance_high,
        instances=blocks,
        runs=rounds,
    )
