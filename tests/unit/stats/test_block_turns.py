"""What the turns of one block say: warming, carry-over, and how few transactions are pooled."""

from dataclasses import replace

import numpy as np
import pytest
from chance import highest_rate, lowest_rate

from steelyard.stats.intervals import FloatArray, Interval
from steelyard.stats.turns import (
    LEAST_BLOCKS,
    SUSPECT_LEVEL,
    BlockTurns,
    change_by_predecessor,
    change_over_block,
    change_within_turns,
    gain_after_itself,
    interval_of_changes,
    is_suspect,
    predecessors,
    round_log_ratios,
)

SECONDS = 0.15
RATIO = (-1.0, 1.0)


def turns_of(
    transactions: FloatArray,
    *,
    places: FloatArray | None = None,
    early: FloatArray | None = None,
    rounds: FloatArray | None = None,
) -> BlockTurns:
    """Return turns of equal length, in the same order in every round unless told otherwise."""
    count, configurations = transactions.shape
    alike = np.tile(np.arange(configurations, dtype=float), (count, 1))
    return BlockTurns(
        rounds=np.arange(count, dtype=float) if rounds is None else rounds,
        places=alike if places is None else places,
        seconds=np.full_like(transactions, SECONDS),
        transactions=transactions,
        early=transactions / 2 if early is None else early,
    )


def steady(rounds: int = 24, configurations: int = 2) -> FloatArray:
    """Return 1000 transactions in every turn."""
    return np.full((rounds, configurations), 1000.0)


def shuffled(rounds: int, configurations: int, seed: int) -> FloatArray:
    """Return a place in the round for every configuration, drawn anew for each."""
    rng = np.random.default_rng(seed)
    places = np.tile(np.arange(configurations, dtype=float), (rounds, 1))
    return np.asarray(rng.permuted(places, axis=1))


def test_every_round_has_its_log_ratio() -> None:
    """Transactions over seconds, in the order of the rounds, one number for each."""
    taken = steady(3)
    taken[:, 1] = [1100.0, 1000.0, 900.0]
    found = round_log_ratios(turns_of(taken), RATIO)
    assert found is not None
    assert found.ratios == pytest.approx(np.log([1.1, 1.0, 0.9]))
    assert found.numbers.tolist() == [0.0, 1.0, 2.0]
    assert found.sizes.tolist() == [1.0, 1.0, 1.0]


def test_turns_of_unequal_length_are_rates() -> None:
    """Twice the transactions in twice the seconds are no difference."""
    taken = steady(2)
    taken[0, 1] = 2000.0
    turns = turns_of(taken)
    turns.seconds[0, 1] = 2 * SECONDS
    found = round_log_ratios(turns, RATIO)
    assert found is not None
    assert found.ratios == pytest.approx([0.0, 0.0], abs=1e-12)


def test_rounds_without_transactions_are_pooled_with_what_follows() -> None:
    """A dead turn keeps its seconds and its round; the number of the group is the mean one."""
    taken = steady(4)
    taken[1, 1] = 0.0
    found = round_log_ratios(turns_of(taken), RATIO)
    assert found is not None
    assert found.sizes.tolist() == [1.0, 2.0, 1.0]
    assert found.numbers.tolist() == [0.0, 1.5, 3.0]
    assert found.ratios == pytest.approx([0.0, np.log(0.5), 0.0])


def test_what_is_left_over_joins_the_group_before() -> None:
    """Dead turns at the end count too, and a block that is all dead has no ratio."""
    taken = steady(4)
    taken[2:, 0] = 3.0
    found = round_log_ratios(turns_of(taken), RATIO)
    assert found is not None
    assert found.sizes.tolist() == [1.0, 3.0]
    assert found.ratios[1] == pytest.approx(np.log(3000.0 / 1006.0))
    taken[:, 0] = 2.0
    assert round_log_ratios(turns_of(taken), RATIO) is None
    assert change_over_block(turns_of(taken), RATIO) is None
    assert round_log_ratios(turns_of(steady(0)), RATIO) is None


def test_pooling_is_symmetric_in_the_labels() -> None:
    """Exchanged labels give the same groups and the negative ratios."""
    taken = np.random.default_rng(3).poisson(8.0, (40, 2)).astype(float)
    found = round_log_ratios(turns_of(taken), RATIO)
    other = round_log_ratios(turns_of(taken[:, ::-1]), RATIO)
    assert found is not None
    assert other is not None
    assert found.sizes.max() > 1.0
    assert found.sizes.sum() == 40.0
    assert (found.sizes == other.sizes).all()
    assert found.ratios == pytest.approx(-other.ratios)


def test_configurations_without_a_weight_are_not_looked_at() -> None:
    """A third one that is dead neither pools rounds nor takes the ratio away."""
    taken = steady(4, 3)
    taken[:, 2] = 0.0
    found = round_log_ratios(turns_of(taken), (-1.0, 1.0, 0.0))
    assert found is not None
    assert len(found.ratios) == 4
    assert change_over_block(turns_of(taken), (-1.0, 1.0, 0.0)) == pytest.approx(0.0, abs=1e-12)


def test_the_change_over_a_block_is_its_slope_from_first_round_to_last() -> None:
    """A line of 6 % over 24 rounds is 6 %, also when rounds are lost and when some are pooled."""
    rise = np.linspace(0.0, 0.06, 24)
    taken = steady()
    taken[:, 1] *= np.exp(rise)
    assert change_over_block(turns_of(taken), RATIO) == pytest.approx(0.06)
    assert change_over_block(turns_of(taken), (1.0, -1.0)) == pytest.approx(-0.06)
    kept = [*range(8), *range(11, 24)]
    lost = turns_of(taken[kept], rounds=np.array(kept, dtype=float))
    assert change_over_block(lost, RATIO) == pytest.approx(0.06)
    few = turns_of(taken / 250.0)
    assert change_over_block(few, RATIO) == pytest.approx(0.06, rel=0.05)


def test_pooled_rounds_weigh_as_many_as_they_are() -> None:
    """The slope is the weighted least-squares line through the groups."""
    taken = np.random.default_rng(4).poisson(9.0, (60, 2)).astype(float)
    found = round_log_ratios(turns_of(taken), RATIO)
    assert found is not None
    assert len(set(found.sizes)) > 1
    slope, _ = np.polyfit(found.numbers, found.ratios, 1, w=np.sqrt(found.sizes))
    assert change_over_block(turns_of(taken), RATIO) == pytest.approx(59 * slope)


def test_what_all_share_is_no_change() -> None:
    """Drift of the machine within the block cancels round by round."""
    drift = np.exp(np.linspace(0.0, -0.7, 24))[:, None]
    assert change_over_block(turns_of(steady() * drift), RATIO) == pytest.approx(0.0, abs=1e-12)


def test_one_round_has_no_slope() -> None:
    """One group is one point."""
    assert change_over_block(turns_of(steady(1)), RATIO) is None


def test_the_change_within_turns_is_of_the_second_halves_against_the_first() -> None:
    """Positive for the side whose turns begin slowly; a loss that both have cancels."""
    early = steady() / 2
    early[:, 1] *= 0.9
    late = steady() / 2
    turns = turns_of(early + late, early=early)
    assert change_within_turns(turns, RATIO) == pytest.approx(-np.log(0.9))
    assert change_within_turns(turns, (1.0, -1.0)) == pytest.approx(np.log(0.9))
    both = turns_of(0.9 * steady() / 2 + late, early=0.9 * steady() / 2)
    assert change_within_turns(both, RATIO) == pytest.approx(0.0, abs=1e-12)


def test_a_dead_half_stays_finite() -> None:
    """As the value of a dead run does: it is floored at one transaction; no round, no value."""
    taken = steady(2)
    early = taken / 2
    early[:, 1] = 0.0
    dead = turns_of(taken, early=early)
    assert change_within_turns(dead, RATIO) == pytest.approx(np.log(2000.0))
    assert change_within_turns(turns_of(steady(0)), RATIO) is None


def test_predecessors_follow_places_and_rounds() -> None:
    """The last of a round is before the first of the next one, unless a round between is lost."""
    places = np.array([[0, 1, 2], [2, 1, 0], [0, 2, 1], [1, 0, 2]], dtype=float)
    rounds = np.array([0.0, 1.0, 2.0, 5.0])
    found = predecessors(turns_of(steady(4, 3), places=places, rounds=rounds))
    assert found.tolist() == [[-1, 0, 1], [1, 2, 2], [0, 2, 0], [1, -1, 0]]


def test_the_gain_after_itself_is_what_another_one_costs() -> None:
    """10 % lost after another one's turn, in one configuration of three: found in that one."""
    places = shuffled(60, 3, seed=5)
    taken = steady(60, 3)
    before = predecessors(turns_of(taken, places=places))
    taken[:, 1] = np.where(before[:, 1] == 1, 1000.0, 900.0)
    gains = gain_after_itself(turns_of(taken, places=places))
    assert gains == pytest.approx([0.0, -np.log(0.9), 0.0], abs=1e-12)
    turns = turns_of(taken, places=places)
    assert change_by_predecessor(turns, (-1.0, 1.0, 0.0)) == pytest.approx(-np.log(0.9))
    assert change_by_predecessor(turns, (-1.0, 0.0, 1.0)) == pytest.approx(0.0, abs=1e-12)


def test_a_turn_of_unknown_predecessor_counts_on_neither_side() -> None:
    """The first turn of a block is after nothing that is known."""
    places = shuffled(60, 2, seed=6)
    taken = steady(60, 2)
    first = int(np.argmin(places[0]))
    taken[0, first] = 1e6
    assert gain_after_itself(turns_of(taken, places=places)) == pytest.approx([0, 0], abs=1e-12)


def test_without_turns_of_both_kinds_there_is_no_gain() -> None:
    """Orders that never put one after itself cannot say; nor does one that has none to compare."""
    turns = turns_of(steady(10))
    assert np.isnan(gain_after_itself(turns)).all()
    assert change_by_predecessor(turns, RATIO) is None
    mixed = replace(turns, places=np.array([[0, 1], [1, 0]] * 5, dtype=float))
    assert change_by_predecessor(mixed, RATIO) == pytest.approx(0.0, abs=1e-12)


def test_as_many_turns_are_after_itself_as_the_docstring_says() -> None:
    """One in k squared, for two and three configurations."""
    for configurations in (2, 3):
        turns = turns_of(
            steady(9000, configurations), places=shuffled(9000, configurations, seed=7)
        )
        itself = predecessors(turns) == np.arange(configurations)
        assert itself.mean() == pytest.approx(1 / configurations**2, abs=0.01)


def test_an_interval_needs_six_blocks() -> None:
    """Below, nothing is decided however large the changes are."""
    changes = 0.5 + 0.001 * np.arange(LEAST_BLOCKS)
    assert interval_of_changes(changes[1:]) is None
    assert not is_suspect(interval_of_changes(changes[1:]))
    assert is_suspect(interval_of_changes(changes))
    assert is_suspect(interval_of_changes(-changes))


@pytest.mark.parametrize(
    ("low", "high", "suspect"),
    [
        (0.0101, 0.05, True),
        (0.0099, 0.05, False),
        (-0.05, -0.0101, True),
        (-0.05, -0.0099, False),
        (-0.05, 0.05, False),
        (-np.inf, np.inf, False),
    ],
)
def test_suspect_is_wholly_beyond_one_percent(low: float, high: float, *, suspect: bool) -> None:
    """An interval that holds 1 % of the log ratio, or less, accuses nobody."""
    interval = Interval(estimate=(low + high) / 2, low=low, high=high, confidence=0.99)
    assert is_suspect(interval) is suspect


@pytest.mark.parametrize("blocks", [6, 12])
def test_the_interval_of_changes_is_calibrated(blocks: int) -> None:
    """It leaves out a change of zero in 1 % of campaigns, by ranks in a little fewer."""
    campaigns = 4000
    rng = np.random.default_rng(8)
    found = [interval_of_changes(rng.standard_normal(blocks)) for _ in range(campaigns)]
    missed = np.mean([each is None or not each.low <= 0.0 <= each.high for each in found])
    assert missed <= highest_rate(SUSPECT_LEVEL, campaigns)
    assert missed >= lowest_rate(0.8 * SUSPECT_LEVEL, campaigns)
