"""Change points: rare where nothing changes, found where something does, whatever the noise."""

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from chance import highest_rate

from steelyard.stats.changes import (
    HORIZON,
    _chances,
    _of_all,
    best_split,
    change_points,
    least_values,
)
from steelyard.stats.intervals import FloatArray

Noise = Callable[[np.random.Generator, int], FloatArray]
_NOISES: dict[str, Noise] = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "heavy tails": lambda rng, n: rng.standard_t(2, n),
    "campaigns of unequal length": lambda rng, n: rng.standard_normal(n) * rng.choice([1, 3], n),
    "skewed": lambda rng, n: rng.exponential(size=n),
}


def _alarms(noise: Noise, series: int, level: float) -> float:
    rng = np.random.default_rng(20261124)
    return sum(bool(change_points(noise(rng, HORIZON), level)) for _ in range(series)) / series


@pytest.mark.slow
def test_a_hundred_campaigns_without_change_raise_few_alarms() -> None:
    """At most 5 % of whole series have any alarm, looked at after every campaign."""
    assert _alarms(_NOISES["normal"], 250, 0.05) <= highest_rate(0.05, 250)


@pytest.mark.slow
@pytest.mark.parametrize("noise", _NOISES.values(), ids=_NOISES)
def test_no_kind_of_noise_raises_more(noise: Noise) -> None:
    """Ranks ask nothing of the distribution: heavy tails and unequal campaigns are no change."""
    assert _alarms(noise, 400, 0.05) <= highest_rate(0.05, 400)


def _found_after(before: int, rng: np.random.Generator) -> float:
    """Return after how many campaigns a step of three deviations is seen, in nine of ten series."""
    after = []
    for _ in range(200):
        values = rng.standard_normal(before + 30)
        values[before:] += 3.0
        seen = [each.seen for each in change_points(values, 0.05) if each.seen > before]
        after.append(seen[0] - before if seen else np.inf)
    return float(np.quantile(after, 0.9))


@pytest.mark.slow
@pytest.mark.parametrize(("before", "within"), [(10, 12), (20, 7), (40, 6)])
def test_a_step_is_found_within_the_campaigns_that_the_page_names(before: int, within: int) -> None:
    """3 % where a campaign's effect has a deviation of 1 % (an interval of about 2 % each way)."""
    assert _found_after(before, np.random.default_rng(7)) <= within


def test_a_change_is_placed_and_measured() -> None:
    """Place, levels on both sides, and when it was seen; later values do not undo it."""
    rng = np.random.default_rng(3)
    values = 0.01 * rng.standard_normal(60)
    values[20:] += 0.05
    (change,) = change_points(values, 0.05)
    assert abs(change.place - 20) <= 1
    assert change.place < change.seen <= 30
    assert change.before == pytest.approx(0.0, abs=0.01)
    assert change.after == pytest.approx(0.05, abs=0.01)
    assert [each.place for each in change_points(values[: change.seen], 0.05)] == [change.place]
    assert change_points(values[: change.seen - 1], 0.05) == ()


def test_two_changes_are_two() -> None:
    """After a change, the series begins anew."""
    values = np.concatenate([np.full(20, x) for x in (0.0, 1.0, 0.5)])
    values += 0.01 * np.random.default_rng(1).standard_normal(60)
    assert [each.place for each in change_points(values, 0.05)] == [20, 40]


def test_a_single_outlier_is_no_change() -> None:
    """One bad campaign, however bad, is not a lasting change."""
    values = np.random.default_rng(9).standard_normal(40)
    values[25] = 1e6
    assert change_points(values, 0.05) == ()


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0, 3.0], [2.0] * 50])
def test_too_few_or_equal_values_have_no_change(values: list[float]) -> None:
    """Nothing is found where there is nothing to compare."""
    assert change_points(np.array(values), 0.05) == ()


def test_chances_are_those_of_all_orders() -> None:
    """The recursion gives what counting every order of 3 and 4 values gives."""
    wins = [sum(place - i for i, place in enumerate(c)) for c in combinations(range(7), 3)]
    counted = np.bincount(wins, minlength=13) / len(wins)
    assert np.allclose(_chances(3, 4), counted)
    assert _chances(50, 50).sum() == pytest.approx(1.0)


def test_the_clearest_split_has_the_p_value_of_its_order() -> None:
    """Ten values below ten others: twice one of all orders, for all splits that were tried."""
    values = np.arange(20.0)
    p_value, split = best_split(values)
    assert split == 10
    assert p_value == pytest.approx(_of_all(2.0 / 184756.0))


def test_the_first_campaign_that_can_show_a_change() -> None:
    """One fewer can show none at that level, even in perfect order."""
    for level in (0.05, 0.0125):
        least = least_values(level)
        assert best_split(np.arange(float(least)))[0] <= level
        assert best_split(np.arange(float(least - 1)))[0] > level
