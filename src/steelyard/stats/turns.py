"""What the turns of a block tell beside its contrast: a configuration that warms up, carry-over.

The turn is no unit of analysis. Every function gives one value per block, so that blocks are the
sample here too. A value is of a difference between configurations: what they share (drift, an
equal warm-up, the same loss after every switch) is in none of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from steelyard.stats.signed_rank import block_interval
from steelyard.stats.student import FloatArray, Interval

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
