"""The Universal Scalability Law: what waiting and agreeing cost as clients are added (METHOD 6).

X(N) = gamma N / (1 + alpha (N - 1) + beta N (N - 1)): alpha is the part of the work that is done
one client at a time (contention), beta the price of every pair of clients that must agree
(coherency). With beta above zero the throughput has a peak, N* = sqrt((1 - alpha) / beta).

Without a curve: retrograde scaling as it was seen, more clients and less throughput; a latency
at one client, split into a cost of each statement and a cost of the commit; and whether three such
latencies changed alike at every wait.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from steelyard.stats import special
from steelyard.stats.intervals import FloatArray, Interval, block_interval, jackknife_half_width

LEAST_LOADS = 4  # three parameters, and one degree of freedom to contradict them
LEAST_BLOCKS = 3
MOST_FITS = 200  # an interval gains nothing by more, and each takes milliseconds
FARTHEST_PEAK = 1e4  # clients; a peak beyond is none
LEAST_BETA = 1e-7  # below it nothing falls before the farthest peak: reported as zero
_NEAREST_PEAK = 1e-2
_NO_BETA = 1e-9
_MADS = 3.0
_MAD_TO_DEVIATION = 1.4826  # median absolute deviation to standard deviation, normal values


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """One curve: ln(1/s) of one client, contention and coherency, both at least 0."""

    log_gamma: float
    alpha: float
    beta: float

    def log_rate(self, clients: FloatArray) -> FloatArray:
        """Return ln(1/s) at each number of clients, same shape."""
        slowed = np.log1p(self.alpha * (clients - 1.0) + self.beta * clients * (clients - 1.0))
        return np.asarray(self.log_gamma + np.log(clients) - slowed)

    @property
    def peak_clients(self) -> float:
        """Return N*, where the curve is highest; ``FARTHEST_PEAK`` when it rises for ever."""
        if self.beta <= _NO_BETA:
            return FARTHEST_PEAK
        peak = float(np.sqrt(max(1.0 - self.alpha, 0.0) / self.beta))
        return min(max(peak, _NEAREST_PEAK), FARTHEST_PEAK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalability:
    """A fitted law with what the blocks say about its certainty.

    Attributes:
        law: Fitted to all blocks.
        replicates: Fitted without one block each, in block order; without a group of many.
        alpha: Contention, a fraction; its low bound is at least 0.
        beta: Coherency per pair of clients; 0 where no fit sees any, and then without an upper
            bound.
        peak_clients: N*, clients; without an upper bound where the blocks set none.
        peak_rate: Throughput at N*, 1/s.
        peak_in_range: Whether N* lies within the loads measured; outside it is a guess.
        max_error: Largest relative miss of the curve at a load, >= 0.
        lack_of_fit_p: F-type test that the loads differ from the curve by noise alone.
    """

    law: Law
    replicates: tuple[Law, ...]
    alpha: Interval
    beta: Interval
    peak_clients: Interval
    peak_rate: Interval
    peak_in_range: bool
    max_error: float
    lack_of_fit_p: float


def fit_law(clients: FloatArray, log_tps: FloatArray) -> Law:
    """Return the law closest to one value per load, by least squares on the logarithms.

    Args:
        clients: Shape (loads,), >= 1, rising, at least 3 different ones.
        log_tps: Same shape, ln(1/s).

    Returns:
        The law with alpha and beta between 0 and 1.

    Raises:
        ValueError: Fewer than three loads.

    Source:
        Gunther, "Guerrilla Capacity Planning" (2007); METHOD 6.
    """
    if len(clients) < 3:
        raise ValueError(f"no scalability law from {len(clients)} loads")
    from scipy.optimize import least_squares  # noqa: PLC0415 - half a second of import

    def misses(parameters: FloatArray) -> FloatArray:
        return _law(parameters).log_rate(clients) - log_tps

    def slopes(parameters: FloatArray) -> FloatArray:
        pairs = clients * (clients - 1.0)
        slowed = 1.0 + parameters[1] * (clients - 1.0) + parameters[2] * pairs
        return np.stack([np.ones_like(clients), -(clients - 1.0) / slowed, -pairs / slowed], axis=1)

    found = least_squares(
        misses,
        [float(log_tps[0] - np.log(clients[0])), 0.02, 1e-4],
        jac=slopes,
        bounds=([-np.inf, 0.0, 0.0], [np.inf, 1.0, 1.0]),
        x_scale=[1.0, 0.1, 1e-3],
    )
    return _law(found.x)


def levelled(log_tps: FloatArray) -> FloatArray:
    """Return the blocks without what moves all their loads together, and without far outliers.

    Args:
        log_tps: Shape (blocks, loads), ln(1/s), n >= 1.

    Returns:
        Same shape and unit, at the height of the middle block. The level of a block is the mean
        of its loads' deviations from what is typical of them, those beyond 3 robust standard
        deviations (MAD) pulled in. Then each load is winsorised likewise, so that a stalled slice
        counts as a slow one.

    Source:
        METHOD 6, which takes the block's median as its level: with an odd number of loads that is
        nearly always the same load, whose noise is then gone, so that every curve is rejected.
    """
    rough = np.median(log_tps, axis=1, keepdims=True)
    deviations = log_tps - rough
    deviations -= np.median(deviations, axis=0)
    middle = np.median(deviations, axis=1, keepdims=True)
    around = deviations - middle
    reach = _MADS * _MAD_TO_DEVIATION * float(np.median(np.abs(around)))
    level = rough + middle + np.clip(around, -reach, reach).mean(axis=1, keepdims=True)
    return _winsorised(log_tps - level + np.median(level))


def _winsorised(log_tps: FloatArray) -> FloatArray:
    middle = np.median(log_tps, axis=0)
    reach = _MADS * _MAD_TO_DEVIATION * np.median(np.abs(log_tps - middle), axis=0)
    return np.asarray(np.clip(log_tps, middle - reach, middle + reach))


def fit_scalability(clients: FloatArray, log_tps: FloatArray, level: float) -> Scalability:
    """Return the law of one configuration's throughput over its loads.

    Args:
        clients: Shape (loads,), rising, different, >= 4 loads (5 or more to be worth drawing).
        log_tps: Shape (blocks, loads), ln(1/s), >= 3 blocks (8 or more to rely on intervals).
        level: Two-sided error level of each interval, between 0 and 1.

    Returns:
        Intervals by the delete-one-block jackknife of alpha, ln beta (beta itself where it touches
        zero), ln N* and ln X(N*), t with blocks - 1 degrees; confidence about 1 - level each, not
        together. More than 200 blocks are left out in 200 groups.

    Raises:
        ValueError: Too few loads or blocks, or the level is not between 0 and 1.

    Source:
        METHOD 6 (coverage .94 to .985 with 8 to 16 blocks of 6 loads).
    """
    blocks, loads = log_tps.shape
    if blocks < LEAST_BLOCKS or loads < LEAST_LOADS:
        raise ValueError(f"no scalability law from {blocks} blocks of {loads} loads")
    taken = levelled(log_tps)
    law = fit_law(clients, taken.mean(axis=0))
    groups = min(blocks, MOST_FITS)
    rest = (np.delete(taken, slice(g, None, groups), axis=0).mean(axis=0) for g in range(groups))
    replicates = tuple(fit_law(clients, mean) for mean in rest)
    centre = _quantities(law)
    left_out = np.array([_quantities(replicate) for replicate in replicates])
    half = jackknife_half_width(centre, left_out, level)
    low, high = centre - half, centre + half
    misses = taken.mean(axis=0) - law.log_rate(clients)
    return Scalability(
        law=law,
        replicates=replicates,
        alpha=Interval(
            estimate=law.alpha,
            low=max(float(low[0]), 0.0),
            high=float(high[0]),
            confidence=1.0 - level,
        ),
        beta=_beta(law, replicates, level),
        peak_clients=_peak(centre[1], half[1], level),
        peak_rate=_ratio(centre[2], half[2], level),
        peak_in_range=bool(clients.min() <= law.peak_clients <= clients.max()),
        max_error=float(np.max(np.abs(np.expm1(misses)))),
        lack_of_fit_p=_lack_of_fit_p(misses, taken),
    )


def fitted_curve(fit: Scalability, clients: FloatArray, level: float) -> tuple[Interval, ...]:
    """Return the fitted throughput at any numbers of clients, with a pointwise band.

    Args:
        fit: Of ``fit_scalability``.
        clients: Shape (points,), >= 1.
        level: Two-sided error level of each point, between 0 and 1; the band as a whole misses
            somewhere more often.

    Returns:
        1/s, one per point: jackknife of ln X(N) at that N. It says where the curve lies if the
        law holds, not where a new run would.

    Raises:
        ValueError: The level is not between 0 and 1.
    """
    centre = fit.law.log_rate(clients)
    left_out = np.array([replicate.log_rate(clients) for replicate in fit.replicates])
    half = jackknife_half_width(centre, left_out, level)
    return tuple(_ratio(*point, level) for point in zip(centre, half, strict=True))


def _law(parameters: FloatArray) -> Law:
    log_gamma, alpha, beta = (float(parameter) for parameter in parameters)
    return Law(log_gamma=log_gamma, alpha=alpha, beta=beta)


def _quantities(law: Law) -> FloatArray:
    """Return alpha, ln N* and ln X(N*): each on a scale on which it is about symmetric."""
    peak = law.peak_clients
    rate = float(law.log_rate(np.array([peak]))[0])
    return np.array([law.alpha, np.log(peak), rate])


def _ratio(centre: float, half: float, level: float) -> Interval:
    """Return an interval on the scale of the thing itself from one of its logarithm."""
    low, middle, high = (float(np.exp(centre + side * half)) for side in (-1, 0, 1))
    return Interval(estimate=middle, low=low, high=high, confidence=1.0 - level)


def _beta(law: Law, replicates: tuple[Law, ...], level: float) -> Interval:
    """Return the interval of beta: of its logarithm, or where some fits see none, of beta itself.

    At zero a logarithm has no scale: a single fit without coherency would stretch it over decades.
    """
    floor = float(np.log(LEAST_BETA))
    found = np.array([[replicate.beta] for replicate in replicates])
    if min(law.beta, float(found.min())) > LEAST_BETA:
        centre = np.log([law.beta])
        half = jackknife_half_width(centre, np.log(found), level)[0]
        interval = _ratio(centre[0], half, level)
        return interval if centre[0] - half > floor else replace(interval, low=0.0)
    half = jackknife_half_width(np.array([law.beta]), found, level)[0]
    none = law.beta <= LEAST_BETA
    return Interval(
        estimate=0.0 if none else law.beta,
        low=max(law.beta - half, 0.0) if not none else 0.0,
        high=np.inf if float(found.max()) <= LEAST_BETA else law.beta + half,
        confidence=1.0 - level,
    )


def _peak(log_peak: float, half: float, level: float) -> Interval:
    """Return the interval of N*, without an upper bound where that is beyond any peak."""
    interval = _ratio(log_peak, half, level)
    return interval if interval.high < FARTHEST_PEAK else replace(interval, high=np.inf)


def _lack_of_fit_p(misses: FloatArray, taken: FloatArray) -> float:
    """Return the p value of squared misses over the variances of the loads' means.

    F with loads - 3 and blocks - 1 degrees. Taking out the level of each block took 1 / loads of
    the variance with it, which is put back.

    Source:
        METHOD 6; it cries wolf in 4 to 9 % at 5 % (typical profile, 5 to 7 loads, 8 and 12 blocks).
    """
    blocks, loads = taken.shape
    variance = taken.var(axis=0, ddof=1) / blocks * loads / (loads - 1)
    if bool((variance <= 0.0).any()):  # without noise every miss is real
        return 1.0 if np.allclose(misses, 0.0, atol=1e-9) else 0.0
    spare = loads - 3
    ratio = float((misses**2 / variance).sum()) / spare
    return float(special.fdtrc(spare, blocks - 1, ratio))


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrograde:
    """The best load, and how the loads above it compare with it.

    Attributes:
        best: Place of the load with the highest mean of logarithms.
        above: Log ratio to the best, of each load above it in order; they hold together.
        first: Place of the first load whose whole interval lies below zero; None if there is none.
    """

    best: int
    above: tuple[Interval, ...]
    first: int | None


def retrograde(log_tps: FloatArray, level: float) -> Retrograde:
    """Return from which load on the throughput is lower than at the best one.

    Args:
        log_tps: Shape (blocks, loads), ln(1/s), loads in rising order of clients and in random
            order within each block; n >= 2 blocks, >= 2 loads.
        level: Two-sided error level over all pairs of loads, between 0 and 1.

    Returns:
        Paired contrasts within blocks, with the interval of every other contrast. The best load is
        chosen by the same blocks, so a load that is as good looks worse than it: Bonferroni over
        all pairs of loads, not only over those above the best, makes up for any choice.

    Raises:
        ValueError: Fewer than two blocks or loads, or the level is not between 0 and 1.

    Source:
        METHOD 3.3 for the interval. Bonferroni over the loads above the best alone would call seven
        equal loads falling in up to 10 % of campaigns instead of 5 %; over all pairs it is 2 %.
    """
    blocks, loads = log_tps.shape
    if blocks < 2 or loads < 2:
        raise ValueError(f"no falling load among {loads} loads in {blocks} blocks")
    best = int(np.argmax(log_tps.mean(axis=0)))
    pairs = loads * (loads - 1) // 2
    above = tuple(
        block_interval(log_tps[:, load] - log_tps[:, best], level / pairs)
        for load in range(best + 1, loads)
    )
    falling = [place for place, interval in enumerate(above, best + 1) if interval.high < 0.0]
    return Retrograde(best=best, above=above, first=falling[0] if falling else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementCosts:
    """The fit ``latency = a x statements + b x commits``, block by block.

    Attributes:
        per_statement: a, shape (blocks,), in the unit of the latencies.
        per_commit: b, same shape; it may be negative within noise.
        residual: Largest absolute miss of the fit to the median latencies; with as many scripts
            as parameters it would be 0 whatever the latencies are.
    """

    per_statement: FloatArray
    per_commit: FloatArray
    residual: float


def fit_statements(
    latency: FloatArray, statements: FloatArray, commits: FloatArray
) -> StatementCosts:
    """Return least squares of every block's latencies on statements and commits.

    Args:
        latency: Shape (blocks, scripts), any unit of time: mean latency at one client.
        statements: Shape (scripts,): statements that a client sends and waits for, one by one.
        commits: Shape (scripts,): commits that must be durable.

    Returns:
        In the unit of the latencies; unweighted, as the source does it.

    Raises:
        ValueError: Fewer than three scripts, or they do not tell statements from commits.

    Source:
        The published latencies at one client fit it within 0.02 ms (layers, section 4.1).
    """
    design = np.column_stack([statements, commits]).astype(float)
    if len(design) <= design.shape[1] or np.linalg.matrix_rank(design) < design.shape[1]:
        raise ValueError("a fit of two costs needs three scripts that differ in both")
    solved = np.linalg.lstsq(design, latency.T, rcond=None)[0]
    median = np.median(latency, axis=0)
    missed = design @ np.linalg.lstsq(design, median, rcond=None)[0] - median
    return StatementCosts(
        per_statement=solved[0], per_commit=solved[1], residual=float(np.abs(missed).max())
    )


# A guess: how far the read-only statement may be from the others and still be called alike. The
# published case is within 4 %.
ALIKE_FRACTION: Final = 0.25
# More than an access to memory of the own node. Source: 40 to 100 ns (layers, section 4.2).
REMOTE_ACCESS_S: Final = 100e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitChange:
    """What vanished from each wait, or was added to it, in the unit of the latencies.

    Attributes:
        per_statement: Of a statement of the writing scripts, which differ in two statements only.
        per_commit: Of what else a writing script does, its commit.
        read_only: Of the read-only script, one statement: independent of the other two.
    """

    per_statement: float
    per_commit: float
    read_only: float

    @property
    def is_alike(self) -> bool:
        """Return whether the read-only statement changed as those of the writing scripts.

        Work differs from statement to statement (BEGIN does next to none), waiting for the other
        side does not.
        """
        return self.per_statement * self.read_only > 0.0 and (
            abs(self.read_only - self.per_statement) < ALIKE_FRACTION * abs(self.per_statement)
        )


def change_of_waits(before: FloatArray, after: FloatArray, statements: FloatArray) -> WaitChange:
    """Return how the waits of three scripts changed; single values, so without an interval.

    Args:
        before: Shape (3,), any unit of time: mean latency at one client of a read-only script of
            one statement and of two writing scripts with one commit each.
        after: The same later.
        statements: Shape (3,): statements that each script waits for, one by one.

    Returns:
        After minus before.

    Raises:
        ValueError: The writing scripts have equally many statements.

    Source:
        The published latencies (layers, section 4.1).
    """
    change = after - before
    further = statements[2] - statements[1]
    if further == 0:
        raise ValueError("two writing scripts of equally many statements tell no cost of one")
    per_statement = float((change[2] - change[1]) / further)
    return WaitChange(
        per_statement=per_statement,
        per_commit=float(change[1]) - float(statements[1]) * per_statement,
        read_only=float(change[0]),
    )
