"""The capacity among closed loops: how few clients reach it, and what the choice does to it."""

import re
from pathlib import Path

import numpy as np
import pytest
from chance import lowest_rate

from steelyard.stats.capacity import CAPACITY_COVERAGE, fewest_as_good, find_capacity

CLIENTS = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0])
ROUNDS, CAMPAIGNS = 6, 250


def _rising_and_falling(alpha: float, beta: float) -> np.ndarray:
    rates = CLIENTS / (1 + alpha * (CLIENTS - 1) + beta * CLIENTS * (CLIENTS - 1))
    return np.asarray(np.log(rates / rates.max()))


CURVES = {
    "flat": np.zeros(7),
    "plateau": np.log(np.minimum(CLIENTS, 8.0) / 8.0),
    "falling": _rising_and_falling(0.05, 0.003),
}
FEWEST = {"flat": (0, 2), "plateau": (3, 4), "falling": (4, 4)}


def _noise(rng: np.random.Generator, sd: float) -> np.ndarray:
    """Return ln noise of slices as METHOD's typical profile has it: slices, drift, and stalls."""
    shape = (ROUNDS, len(CLIENTS))
    drift = np.cumsum(rng.normal(0.0, 0.0015, ROUNDS * len(CLIENTS))).reshape(shape)
    stalls = (rng.random(shape) < 0.02) * np.log(rng.uniform(0.4, 0.9, shape))
    return np.asarray(rng.normal(0.0, sd, shape) + rng.permuted(drift, axis=1) + stalls)


@pytest.mark.parametrize("curve", sorted(CURVES))
def test_choosing_the_clients_leaves_no_bias(curve: str) -> None:
    """Over noise of 4 % a slice the capacity is read within 0.6 %, with its promised interval.

    The largest median over the same flat curves is 2 % too large: a search that took it would be.
    """
    rng = np.random.default_rng(11)
    samples = [CURVES[curve] + _noise(rng, 0.04) for _ in range(CAMPAIGNS)]
    found = [find_capacity(sample) for sample in samples]
    read = np.log([each.tps.estimate for each in found])
    error = 4.0 * read.std() / np.sqrt(CAMPAIGNS)
    assert abs(read.mean()) < 0.006 + error
    covered = np.mean([each.tps.low <= 1.0 <= each.tps.high for each in found])
    assert covered >= lowest_rate(0.93, CAMPAIGNS)
    if curve == "flat":
        largest = np.mean([np.median(sample, axis=0).max() for sample in samples])
        assert largest > 0.015
        assert read.mean() < largest / 3


@pytest.mark.parametrize("curve", sorted(CURVES))
def test_it_takes_the_fewest_clients_that_will_do(curve: str) -> None:
    """In most campaigns the knee itself is found, neither a fraction of the capacity nor a crowd.

    Fewer than the knee loses 10 % or more: that happens in less than one campaign of fifty.
    """
    rng = np.random.default_rng(12)
    places = [find_capacity(CURVES[curve] + _noise(rng, 0.04)).place for _ in range(CAMPAIGNS)]
    low, high = FEWEST[curve]
    assert np.mean([place < low for place in places]) < 0.02
    assert np.mean([low <= place <= high for place in places]) > 0.7


def test_one_stalled_slice_of_the_best_hides_nothing() -> None:
    """One of six slices at a tenth of the speed does not make half the capacity pass for it."""
    log_tps = np.tile(CURVES["plateau"], (ROUNDS, 1)) + 0.001 * np.arange(ROUNDS)[:, None]
    log_tps[2, 3:] -= np.log(10.0)
    found = find_capacity(log_tps)
    assert CLIENTS[found.place] == 8.0
    assert found.tps.estimate == pytest.approx(1.0, rel=0.01)


def test_a_curve_that_still_rises_says_so() -> None:
    """Where the most clients are clearly the best, more might do better; a single one is no curve.

    Without noise every answer is exact.
    """
    rising = np.tile(np.log(CLIENTS), (ROUNDS, 1))
    found = find_capacity(rising)
    assert found.rising
    assert found.tps.estimate == pytest.approx(64.0)
    assert not find_capacity(np.tile(CURVES["plateau"], (ROUNDS, 1))).rising
    assert not find_capacity(rising[:, :1]).rising


def test_few_rounds_have_no_interval_and_choose_all_the_same() -> None:
    """One round chooses within 3 %, two by the same rule; an interval comes from six rounds on."""
    close = np.log([[100.0, 200.0, 199.0, 205.0]])
    assert fewest_as_good(close) == 1
    assert not find_capacity(close).tps.bounded
    twice = np.vstack([close, close])
    twice[1, 1] += 0.03
    assert find_capacity(twice).place == 1
    assert find_capacity(np.tile(close, (6, 1))).tps.bounded


def test_nothing_is_no_capacity() -> None:
    """No round and no number of clients is refused."""
    for shape in ((0, 3), (3, 0)):
        with pytest.raises(ValueError, match="no capacity"):
            find_capacity(np.zeros(shape))


def test_what_is_cited_stands_in_the_documentation() -> None:
    """The sections exist, and the coverage that reports tell is that of the simulated curves."""
    text = (Path(__file__).parents[3] / "docs" / "methods.md").read_text()
    assert "### The rate under a goal" in text
    section = text.split("### Capacity: ")[1].split("\n#")[0]
    rows = re.findall(r"^\| (?:flat|plateau|falling).*$", section, re.MULTILINE)
    covered = [int(row.split("|")[5].strip(" %")) for row in rows]
    assert f"{min(covered)} to {max(covered)} %" == CAPACITY_COVERAGE
    assert f"is {CAPACITY_COVERAGE}" in section
    assert CAPACITY_COVERAGE in (find_capacity.__doc__ or "")
