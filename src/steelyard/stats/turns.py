"""What the turns of a block tell beside its contrast: warming up, carry-over, the parts of noise.

The turn is no unit of analysis. Every function gives one value per block, so that blocks are the
sample here too. A value is of a difference between configurations: what they share (drift, an
equal warm-up, the same loss after every switch) is in none of them. In an A/A campaign both arms
are the same, so every difference between them within a block is noise: of starts, of connections,
of the seconds of turns. Deviations are of ln(tps): 0.02 means about 2 %.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from steelyard.stats import special
from steelyard.stats.intervals import FloatArray, Interval, block_interval
from steelyard.stats.noise import LEAST_NOISE_BLOCKS, centred, contrast_sums, jackknife_error

SUSPECT_LEVEL: Final = 0.01
SUSPECT_BEYOND: Final = 0.01  # of the log ratio; as small as a difference without practical weight
LEAST_BLOCKS: Final = 6  # below, t at this level bounds nothing that is worth a word
LEAST_TRANSACTIONS: Final = 10  # the logarithm of a count n is 1/(2n) low: 5 % here

Weights = Sequence[float] | FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockTurns:
    """The turns of one block in one cell, round by round.

    Attributes:
        rounds: Shape (rounds,): their numbers, rising; a round that was lost leaves a gap.
        places: Shape (rounds, configurations): in the round, counting from 0.
        seconds: Same shape: that count.
        transactions: Same shape: that ended in them.
        early: Same shape: of these, in the first half of the seconds.
    """

    rounds: FloatArray
    places: FloatArray
    seconds: FloatArray
    transactions: FloatArray
    early: FloatArray

    def narrowed(self, configurations: Sequence[int]) -> "BlockTurns":
        """Return the turns of some configurations; their places stay those among all."""
        kept = list(configurations)
        return BlockTurns(
            rounds=self.rounds,
            places=self.places[:, kept],
            seconds=self.seconds[:, kept],
            transactions=self.transactions[:, kept],
            early=self.early[:, kept],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRatios:
    """Log ratios along a block.

    Attributes:
        numbers: Shape (groups,): of the round; the mean number where rounds are pooled.
        sizes: Same shape: how many rounds are in each, 1 unless pooled.
        ratios: Same shape: weighted sum of ln(1/s) over the configurations.
    """

    numbers: FloatArray
    sizes: FloatArray
    ratios: FloatArray


def round_log_ratios(turns: BlockTurns, weights: Weights) -> RoundRatios | None:
    """Return the log ratio of every round, rounds with too few transactions pooled.

    No round is dropped. From the first on, a round in which a configuration has fewer than 10
    transactions is pooled with the rounds after it until all have 10; what is left over at the end
    joins the group before. Whether to pool is asked of all configurations alike, so the exchange
    of two labels changes nothing but the sign.

    Args:
        turns: Of one block and cell.
        weights: One per configuration, their sum is 0: +1 and -1 for a plain ratio. Those of
            weight 0 are not looked at.

    Returns:
        Paired within each group: transactions over seconds of each configuration. None where the
        whole block does not have 10 transactions of each.
    """
    weight = np.asarray(weights, dtype=np.float64)
    mine = turns.narrowed([int(place) for place in np.flatnonzero(weight)])
    begins = _group_begins(mine.transactions)
    if not len(begins):
        return None
    sizes = np.diff([*begins, len(mine.rounds)]).astype(np.float64)
    rates = np.log(
        np.add.reduceat(mine.transactions, begins, axis=0)
        / np.add.reduceat(mine.seconds, begins, axis=0)
    )
    return RoundRatios(
        numbers=np.add.reduceat(mine.rounds, begins) / sizes,
        sizes=sizes,
        ratios=rates @ weight[weight != 0.0],
    )


def change_over_block(turns: BlockTurns, weights: Weights) -> float | None:
    """Return by how much the log ratio changes from the first round of a block to its last.

    A configuration that is still warming up gains on the others from round to round.

    Args:
        turns: Of one block and cell.
        weights: As for ``round_log_ratios``.

    Returns:
        Log ratio: the least-squares slope on the number of the round, a group weighing as many
        rounds as it has, times the numbers from the first round to the last. An exponential
        approach is no line: of its loss at the first round this is a part. None with fewer than
        two groups.

    Source:
        METHOD 3.17.
    """
    found = round_log_ratios(turns, weights)
    if found is None or len(found.numbers) < 2:
        return None
    centred = found.numbers - np.average(found.numbers, weights=found.sizes)
    weighed = found.sizes * centred
    slope = float(weighed @ found.ratios) / float(weighed @ centred)
    return slope * float(turns.rounds[-1] - turns.rounds[0])


def change_within_turns(turns: BlockTurns, weights: Weights) -> float | None:
    """Return the log ratio of the second halves of turns minus that of the first halves.

    What the turn before has left behind is worse at the beginning of a turn than at its end.

    Args:
        turns: Of one block and cell.
        weights: As for ``round_log_ratios``.

    Returns:
        Log ratio of totals over all rounds of the block, paired; both halves last equally long.
        A total is floored at one transaction, as the value of a run is. None without a round.

    Source:
        METHOD 3.17.
    """
    if not len(turns.rounds):
        return None
    early = np.maximum(turns.early.sum(axis=0), 1.0)
    late = np.maximum((turns.transactions - turns.early).sum(axis=0), 1.0)
    return float(np.log(late / early) @ np.asarray(weights, dtype=np.float64))


def predecessors(turns: BlockTurns) -> npt.NDArray[np.int64]:
    """Return whose turn was before each turn.

    Args:
        turns: Of one block and cell, of all its configurations.

    Returns:
        Shape (rounds, configurations), the column of the one before. -1 at the first turn of the
        block and after a round that was lost.
    """
    order = np.argsort(turns.places, axis=1)  # (rounds, places): the configuration there
    before = np.full_like(order, -1)
    before[:, 1:] = order[:, :-1]
    follows = np.flatnonzero(np.diff(turns.rounds) == 1) + 1
    before[follows, 0] = order[follows - 1, -1]
    found = np.empty_like(before)
    np.put_along_axis(found, order, before, axis=1)
    return found.astype(np.int64)


def gain_after_itself(turns: BlockTurns) -> FloatArray:
    """Return each configuration's rate in turns after itself against after another one.

    Orders drawn by chance put a configuration after itself in one of k squared of its turns.

    Args:
        turns: Of one block and cell, of all its k configurations.

    Returns:
        Shape (k,), ln of the ratio of two rates, each transactions over seconds of such turns,
        floored at one transaction. NaN where a configuration has no turn of one of the kinds.

    Source:
        METHOD 3.17.
    """
    before = predecessors(turns)
    itself = before == np.arange(before.shape[1])
    another = (before >= 0) & ~itself
    with np.errstate(invalid="ignore", divide="ignore"):
        gains = _log_rates(turns, itself) - _log_rates(turns, another)
    return np.where(itself.any(axis=0) & another.any(axis=0), gains, np.nan)


def change_by_predecessor(turns: BlockTurns, weights: Weights) -> float | None:
    """Return the difference between configurations in what a turn after itself gains.

    Args:
        turns: Of one block and cell, of all its configurations.
        weights: As for ``round_log_ratios``.

    Returns:
        Weighted sum of ``gain_after_itself``: positive where the positive side loses more after
        another one's turn. None where a configuration with a weight has no turn of one kind.

    Source:
        METHOD 3.17.
    """
    weight = np.asarray(weights, dtype=np.float64)
    mine = weight != 0.0
    gains = gain_after_itself(turns)[mine]
    return float(gains @ weight[mine]) if np.isfinite(gains).all() else None


def interval_of_changes(changes: FloatArray) -> Interval | None:
    """Return the centre of a change over blocks with its interval at level 1 %.

    Args:
        changes: Shape (n,), log ratio, one per block.

    Returns:
        As ``block_interval`` gives it; None below 6 blocks.

    Source:
        METHOD 3.17.
    """
    return block_interval(changes, SUSPECT_LEVEL) if len(changes) >= LEAST_BLOCKS else None


def is_suspect(interval: Interval | None) -> bool:
    """Return whether an interval of a log ratio lies wholly beyond plus or minus 0.01."""
    if interval is None:
        return False
    return interval.low > SUSPECT_BEYOND or interval.high < -SUSPECT_BEYOND


def _group_begins(transactions: FloatArray) -> npt.NDArray[np.int64]:
    """Return the rows at which groups of rounds begin; none where not even all together do."""
    if len(transactions) and transactions.min() >= LEAST_TRANSACTIONS:
        return np.arange(len(transactions))
    begins = [0]
    gathered = np.zeros(transactions.shape[1])
    for row, found in enumerate(transactions):
        gathered += found
        if gathered.min() >= LEAST_TRANSACTIONS:
            begins.append(row + 1)
            gathered[:] = 0.0
    # The last entry begins what is left over, or nothing: the group before it takes that.
    return np.array(begins[:-1], dtype=np.int64)


def _log_rates(turns: BlockTurns, chosen: npt.NDArray[np.bool_]) -> FloatArray:
    transactions = np.where(chosen, turns.transactions, 0.0).sum(axis=0)
    seconds = np.where(chosen, turns.seconds, 0.0).sum(axis=0)
    return np.asarray(np.log(np.maximum(transactions, 1.0) / seconds))


GROUPED_ROUNDS = 4  # about two seconds of two configurations: rounds that are near are alike
_LEVEL = 0.05
_LEAST_GROUPS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Within:
    """What the turns of one block tell of one cell's contrast.

    Attributes:
        second: Variance of the contrast of one second that counts of each arm.
        sets: Of contrasts of single sets of connections, between sets, n - 1; NaN for one set.
        set_s: Seconds that count of each arm in one set; NaN likewise.
    """

    second: float
    sets: float = math.nan
    set_s: float = math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnNoiseSample:
    """What an A/A campaign in turns gives of one workload.

    Attributes:
        levels: Shape (n, 2, cells), ln(1/s) of both arms in every block, n >= 4.
        companions: Shape (n, others), contrasts of other workloads in the same blocks.
        second: Shape (n, cells), ``Within.second``.
        sets: Same shape, ``Within.sets``; NaN where every run had one set of connections.
        set_s: Same shape, ``Within.set_s``; likewise.
        counted_s: Seconds that count of a run.
        number_of_sets: Of connections in a run, at least 1.
    """

    levels: FloatArray
    companions: FloatArray
    second: FloatArray
    sets: FloatArray
    set_s: FloatArray
    counted_s: float
    number_of_sets: int

    @property
    def contrasts(self) -> FloatArray:
        """Return the log ratio of the arms, shape (n, cells)."""
        return self.levels[:, 1] - self.levels[:, 0]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnNoiseParts:
    """Standard deviations of one arm's ln(tps), each with an interval of 95 % by jackknife.

    Attributes:
        start_sd: Of what a start draws, in all cells of its block.
        connection_sd: Of what a set of connections draws; None where nothing tells the two apart:
            then it is in ``start_sd``.
        second_sd: Of one second of turns that counts; it falls with the root of the seconds.
        apart_sd: Of a run, when it is compared with one of the other arm a block later.
        contrast_variance: Of one cell's contrast, stalls left out.
        counted_s: Seconds that count of a run.
        number_of_sets: Of connections in a run.
    """

    start_sd: Interval
    connection_sd: Interval | None
    second_sd: Interval
    apart_sd: Interval
    contrast_variance: float
    counted_s: float
    number_of_sets: int

    @property
    def connections_show(self) -> bool:
        """Return whether it is clear that connections draw anything of their own."""
        return self.connection_sd is not None and self.connection_sd.low > 0.0


def within_block(turns: BlockTurns, sets: Sequence[range]) -> Within | None:
    """Return what the turns of one block tell of the noise within it.

    Rounds are taken in groups of four, so that seconds that are alike are not taken for several;
    few rounds are taken in two groups.

    Args:
        turns: Of two configurations in one cell of a block.
        sets: Rounds by set of connections.

    Returns:
        None where there are fewer than two groups in every set, or a side did nothing.
    """
    rates = turns.transactions.sum(axis=0) / turns.seconds.sum(axis=0)
    if not (rates > 0).all():
        return None
    grouped = [_groups(turns, each, rates) for each in sets]
    known = [each for each in grouped if len(each.shares) >= _LEAST_GROUPS]
    if not known:
        return None
    squares = sum(float(((e.shares - e.mean) ** 2 * e.seconds).sum()) for e in known)
    second = squares / sum(len(each.shares) - 1 for each in known)
    if len(known) < _LEAST_GROUPS:
        return Within(second=second)
    means = np.array([each.mean for each in known])
    return Within(
        second=second,
        sets=float(means.var(ddof=1)),
        set_s=float(np.mean([each.seconds.sum() for each in known])),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Groups:
    """Groups of rounds: the difference of the arms' shares of their rates, and seconds of each."""

    shares: FloatArray
    seconds: FloatArray

    @property
    def mean(self) -> float:
        return float(np.average(self.shares, weights=self.seconds))


def _groups(turns: BlockTurns, rounds: range, rates: FloatArray) -> _Groups:
    inside = np.flatnonzero((turns.rounds >= rounds.start) & (turns.rounds < rounds.stop))
    number = max(len(inside) // GROUPED_ROUNDS, min(len(inside), _LEAST_GROUPS))
    parts = [part for part in np.array_split(inside, number) if len(part)] if number else []
    transactions = np.array([turns.transactions[part].sum(axis=0) for part in parts])
    seconds = np.array([turns.seconds[part].sum(axis=0) for part in parts])
    if not parts:
        return _Groups(shares=np.zeros(0), seconds=np.zeros(0))
    relative = transactions / seconds / rates
    return _Groups(shares=relative[:, 1] - relative[:, 0], seconds=seconds.mean(axis=1))


def turn_noise_parts(sample: TurnNoiseSample) -> TurnNoiseParts:
    """Return the parts of one workload's noise in turns, by moments.

    The variance of a contrast is twice that of a start, twice that of the connections over their
    sets, and what the seconds within the block leave. What cells of one block share is the
    start's; what sets of connections within a block differ by beyond their seconds is the
    connections'. Without several cells, other workloads or several sets nothing tells the last
    two apart, and all of it counts as the start's: then more connections promise nothing.
    Contrasts far outside belong to stalls and are left out.

    Args:
        sample: Of one workload.

    Returns:
        Deviations of one arm's ln(tps), 95 % each; where a variance comes out negative, 0.

    Raises:
        ValueError: Fewer than 4 blocks, or no block whose turns tell the noise within it.

    Source:
        Variance components by moments, METHOD 3.11; the jackknife over blocks.
    """
    blocks = len(sample.levels)
    if blocks < LEAST_NOISE_BLOCKS or not np.isfinite(sample.second).any():
        raise ValueError(f"no parts of noise in turns from {blocks} blocks")
    sums = _sums(sample)
    whole = sums.sum(axis=0)
    way = _Way(
        counted_s=sample.counted_s,
        sets=sample.number_of_sets,
        in_sets=bool(whole[9]),
        shared=bool(whole[3]),
    )
    centre = _components(whole, way)
    reach = -float(special.stdtrit(blocks - 1, _LEVEL / 2.0)) * jackknife_error(
        _components(whole - sums, way)
    )
    ends = [_interval(*each) for each in zip(centre, centre - reach, centre + reach, strict=True)]
    return TurnNoiseParts(
        start_sd=ends[0],
        connection_sd=ends[1] if way.tells_connections else None,
        second_sd=ends[2],
        apart_sd=ends[3],
        contrast_variance=float(whole[0] / whole[1]),
        counted_s=sample.counted_s,
        number_of_sets=sample.number_of_sets,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """How sums become components.

    Attributes:
        in_sets: Contrasts of several sets of connections tell what these draw.
        shared: What cells of a block share tells what a start draws.
    """

    counted_s: float
    sets: int
    in_sets: bool
    shared: bool

    @property
    def tells_connections(self) -> bool:
        return self.in_sets or self.shared


def _sums(sample: TurnNoiseSample) -> FloatArray:
    """Return each block's sums and their numbers, shape (n, 12).

    In pairs: squared contrasts, products of two cells, variance of a second, contrasts one block
    apart, variance between sets, one over the seconds of a set.
    """
    columns = [contrast_sums(sample.contrasts, sample.companions)]
    for values in (sample.second, _apart(sample.levels), sample.sets, 1.0 / sample.set_s):
        known = np.isfinite(values)
        kept = np.where(known, values, 0.0)
        columns.append(np.stack([kept.sum(axis=1), known.sum(axis=1)], axis=1).astype(float))
    return np.hstack(columns)


def _apart(levels: FloatArray) -> FloatArray:
    """Return squared contrasts of one arm against the other a block later; the last has none."""
    before, after = levels[:-1], levels[1:]
    steps = np.concatenate([after[:, 0] - before[:, 1], after[:, 1] - before[:, 0]], axis=1)
    squares, kept = centred(steps)
    found = np.where(kept > 0.0, squares**2, np.nan)
    nothing = np.full((1, found.shape[1]), np.nan)
    return np.vstack([found, nothing])


def _components(sums: FloatArray, way: _Way) -> FloatArray:
    """Return the variances of a start, of a set of connections, of a second, of a run apart."""
    total, shared, second, apart, sets, per_set_s = np.moveaxis(
        sums[..., 0::2] / np.maximum(sums[..., 1::2], 1.0), -1, 0
    )
    seconds = second / way.counted_s
    connection = np.zeros_like(total)
    if way.in_sets:
        connection = np.maximum(sets - second * per_set_s, 0.0) / 2.0
    elif way.shared:
        connection = np.maximum(total - shared - seconds, 0.0) / 2.0
    alone = (total - seconds) / 2.0 - connection / way.sets
    start = shared / 2.0 if way.shared else alone
    return np.stack([start, connection, second / 2.0, apart / 2.0], axis=-1)


def _interval(*ends: float) -> Interval:
    estimate, low, high = (math.sqrt(max(float(end), 0.0)) for end in ends)
    return Interval(estimate=estimate, low=low, high=high, confidence=1.0 - _LEVEL)
