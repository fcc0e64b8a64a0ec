"""The capacity, the clients above which more bring no gain, and the highest rate under a goal."""

import math
import re
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from chance import highest_rate, lowest_rate
from hypothesis import given
from hypothesis import strategies as st

from steelyard.stats.capacity import (
    CAPACITY_COVERAGE,
    LEAST_GAIN_BLOCKS,
    Crossing,
    Reached,
    crossing,
    fewest_as_good,
    fewest_without_gain,
    find_capacity,
    goal_rate,
    goal_ratio,
    monotone,
)

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


CAMPAIGNS = 1000
LEVEL = 0.05
TRUTHS = {  # ln of the true rates, and the place of the highest one with the fewest clients
    "flat from the first on": (np.zeros(7), 0),
    "flat from the fourth on": (np.array([0.0, 0.6, 1.1, 1.4, 1.4, 1.4, 1.4]), 3),
    "flat from the fifth of eleven on": (np.minimum(np.arange(11), 4) * 0.3, 4),
    "falling from the third on": (np.array([0.0, 0.6, 0.9, 0.89, 0.88, 0.86, 0.8]), 2),
}


def campaign(truth: np.ndarray, blocks: int, seed: tuple[int, ...], *, stalls: bool) -> np.ndarray:
    """Return log rates with 2 % of noise a run and a level per block; one run in 20 stalls."""
    rng = np.random.default_rng(seed)
    noise = 0.02 * rng.standard_normal((blocks, len(truth)))
    if stalls:
        noise += np.where(rng.random(noise.shape) < 0.05, np.log(0.5), 0.0)
    return truth + 0.1 * rng.standard_normal((blocks, 1)) + noise


def places(
    truth: np.ndarray, blocks: int, seed: int, *, stalls: bool = False, campaigns: int = CAMPAIGNS
) -> np.ndarray:
    """Return the place that each of many simulated campaigns names."""
    return np.array(
        [
            fewest_without_gain(campaign(truth, blocks, (seed, number), stalls=stalls), LEVEL)
            for number in range(campaigns)
        ]
    )


@pytest.mark.parametrize("stalls", [False, True], ids=["plain", "stalls"])
@pytest.mark.parametrize("blocks", [6, 12, 20])
@pytest.mark.parametrize("name", TRUTHS)
def test_a_gain_that_is_not_there_is_seldom_claimed(
    name: str, blocks: int, *, stalls: bool
) -> None:
    """More clients than those of the highest rate are named in 2.5 % of campaigns at most."""
    truth, highest = TRUTHS[name]
    named = places(truth, blocks, 1, stalls=stalls)
    assert np.mean(named > highest) <= highest_rate(LEVEL / 2, CAMPAIGNS)


@pytest.mark.parametrize(
    ("blocks", "stalls", "share"),
    [(6, False, 0.47), (12, False, 0.99), (6, True, 0.09), (12, True, 0.53)],
)
def test_a_gain_of_five_percent_is_seen(blocks: int, *, stalls: bool, share: float) -> None:
    """The larger number of clients is named as often as docs/methods.md says, section 6."""
    truth = np.array([0.0, 0.5, 0.8, 0.8, 0.8, 0.8, 0.8 + np.log(1.05)])
    named = places(truth, blocks, 2, stalls=stalls, campaigns=300)
    assert np.mean(named == 6) == pytest.approx(share, abs=0.005)


def test_small_steps_add_up() -> None:
    """Six steps of 1 % each: neighbours alone seldom differ clearly, the whole way does."""
    truth = 0.01 * np.arange(7)
    named = places(truth, 12, 3, campaigns=300)
    assert np.mean(named >= 1) >= lowest_rate(0.97, 300)
    assert np.median(named) >= 3
    neighbours = [
        fewest_without_gain(campaign(truth, 12, (3, number), stalls=False)[:, :2], LEVEL)
        for number in range(300)
    ]
    assert np.mean(neighbours) < 0.5


@pytest.mark.parametrize("name", TRUTHS)
def test_large_differences_name_the_place_itself(name: str) -> None:
    """Steps of a third or more before the highest rate are never missed by 20 blocks."""
    truth, highest = TRUTHS[name]
    named = places(truth, 20, 4, campaigns=200)
    assert np.mean(named < highest) == 0.0


def test_rates_that_rise_to_the_end_name_the_last() -> None:
    """With one number of clients it is the last, too."""
    rising = 0.3 * np.arange(5) + 0.001 * np.arange(12)[:, None]
    assert fewest_without_gain(rising, LEVEL) == 4
    assert fewest_without_gain(rising[:, :1], LEVEL) == 0


def test_few_blocks_name_none() -> None:
    """Below six blocks there is no number, however large the differences are."""
    rising = np.tile(0.3 * np.arange(5), (LEAST_GAIN_BLOCKS, 1))
    assert LEAST_GAIN_BLOCKS == 6
    assert fewest_without_gain(rising[1:], LEVEL) is None
    assert fewest_without_gain(rising, LEVEL) == 4


@pytest.mark.parametrize(("shape", "level"), [((8, 0), 0.05), ((8, 3), 0.0), ((8, 3), 1.0)])
def test_what_makes_no_sense_is_refused(shape: tuple[int, int], level: float) -> None:
    """No number of clients, or a level outside 0 and 1."""
    with pytest.raises(ValueError, match="no gain among"):
        fewest_without_gain(np.zeros(shape), level)


CAPACITY, LEVEL = 1000.0, 0.05
CLOSE = CAPACITY * np.array([0.5, 0.6, 0.7, 0.8, 0.9])
WIDE = CAPACITY * np.array([0.5, 0.7, 0.9])
GOAL_CAMPAIGNS = 200


@lru_cache
def _law(servers: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rates and the p99 of the time in an M/M/c system of capacity 1000 at them."""
    rates = np.linspace(300.0, 995.0, 100)
    return rates, np.array([_p99(rate, servers) for rate in rates])


def _p99(rate: float, servers: int) -> float:
    """Return it from the probability to wait (Erlang C) and both exponentials."""
    own = CAPACITY / servers
    load, spare = rate / own, CAPACITY - rate
    last = load**servers / math.factorial(servers) * servers / (servers - load)
    waits = last / (sum(load**k / math.factorial(k) for k in range(servers)) + last)
    at = np.linspace(0.0, 2.0, 100_001)
    spare += 1e-6 * (abs(spare - own) < 1e-9)
    both = (spare * np.exp(-own * at) - own * np.exp(-spare * at)) / (spare - own)
    return float(at[np.argmax((1 - waits) * np.exp(-own * at) + waits * both <= 0.01)])


def _crossings(
    rng: np.random.Generator,
    blocks: int,
    *,
    share: float,
    rates: np.ndarray = CLOSE,
    servers: int = 1,
    capacity: float = CAPACITY,
) -> list[Crossing]:
    """Return those of blocks, under the limit that a share of 1000/s just meets.

    Each block has a capacity of its own, each slice noise of its own.
    """
    at, law = _law(servers)
    limit_s = float(np.interp(share * CAPACITY, at, law))
    found = []
    for _ in range(blocks):
        scale = capacity / CAPACITY * np.exp(rng.normal(0.0, 0.02))
        latencies = np.interp(rates / scale, at, law) / scale
        slices = latencies * np.exp(rng.normal(0.0, 0.15, len(rates)))
        found.append(crossing(rates, slices, limit_s))
    return found


def _holds(reached: Reached, value: float) -> bool:
    assert reached.low is not None
    assert reached.high is not None
    return reached.low <= value <= reached.high


@pytest.mark.parametrize("share", [0.62, 0.75, 0.83])
@pytest.mark.parametrize("servers", [1, 4])
@pytest.mark.parametrize("rates", [CLOSE, WIDE], ids=["close", "wide"])
def test_the_interval_covers_a_queues_rate(rates: np.ndarray, servers: int, share: float) -> None:
    """Whatever the law between two rates, how far they are apart, and 15 % of noise a slice."""
    rng = np.random.default_rng(int(100 * share) + servers + len(rates))
    found = [
        goal_rate(_crossings(rng, 16, share=share, rates=rates, servers=servers), LEVEL)
        for _ in range(GOAL_CAMPAIGNS)
    ]
    covered = np.mean([_holds(reached, share * CAPACITY) for reached in found])
    assert covered >= lowest_rate(0.95, GOAL_CAMPAIGNS)


@pytest.mark.parametrize(
    ("rates", "servers", "share", "low", "high"),
    [
        (CLOSE, 1, 0.83, -0.02, 0.0),
        (CLOSE, 4, 0.83, -0.025, 0.0),
        (WIDE, 1, 0.83, -0.045, -0.02),
        (WIDE, 4, 0.83, -0.07, -0.04),
    ],
)
def test_what_is_read_between_two_rates_is_rather_too_low(
    rates: np.ndarray, servers: int, share: float, low: float, high: float
) -> None:
    """By 1 to 2 % where rates are 10 points apart, by up to 7 % where they are 20 apart."""
    rng = np.random.default_rng(3)
    found = [
        goal_rate(_crossings(rng, 16, share=share, rates=rates, servers=servers), LEVEL).value
        for _ in range(GOAL_CAMPAIGNS)
    ]
    assert low < np.mean(found) / (share * CAPACITY) - 1.0 < high


@pytest.mark.parametrize("rates", [CLOSE, WIDE], ids=["close", "wide"])
def test_the_ratio_of_two_configurations_is_found_with_its_interval(rates: np.ndarray) -> None:
    """A server of 8 % more capacity: the gain under the goal is covered, and read within 3 %.

    An interval of the rates that were read would miss it: the line between two rates errs more in
    its middle than at its ends.
    """
    rng = np.random.default_rng(5)
    at, law = _law(1)
    limit_s = float(np.interp(0.75 * CAPACITY, at, law))
    faster = float(np.interp(limit_s * 1.08, law, at)) * 1.08
    truth = math.log(faster / (0.75 * CAPACITY))
    found = []
    for _ in range(GOAL_CAMPAIGNS):
        sides = [
            _crossings(rng, 12, share=0.75, rates=rates, capacity=c)
            for c in (CAPACITY, 1.08 * CAPACITY)
        ]
        found.append(goal_ratio(sides[0], sides[1], LEVEL))
    assert np.mean([each.value for each in found]) == pytest.approx(truth, abs=0.03)
    covered = np.mean([_holds(each, truth) for each in found])
    assert covered >= lowest_rate(0.95, GOAL_CAMPAIGNS)


def test_nothing_is_read_beyond_the_measured_rates() -> None:
    """Where all rates meet the goal the answer is above the highest; where none does, below."""
    rng = np.random.default_rng(6)
    above = goal_rate(_crossings(rng, 10, share=0.99), LEVEL)
    assert (above.value, above.low, above.high) == (np.inf, 900.0, np.inf)
    below = goal_rate(_crossings(rng, 10, share=0.31), LEVEL)
    assert (below.value, below.low, below.high) == (-np.inf, -np.inf, 500.0)


def _between(*read: float) -> list[Crossing]:
    return [
        Crossing(
            least=100.0 * math.floor(rate / 100), read=rate, most=100.0 * math.ceil(rate / 100)
        )
        for rate in read
    ]


def test_a_bound_is_censored_where_some_blocks_are() -> None:
    """Two blocks of ten above all rates open the upper bound, not the lower one nor the median."""
    known = _between(710, 715, 720, 730, 740, 750, 760, 770)
    above = [*known, *2 * [Crossing(least=900.0, read=np.inf, most=np.inf)]]
    reached = goal_rate(above, LEVEL)
    assert (reached.value, reached.low, reached.high) == (745.0, 700.0, np.inf)
    below = [*known, *2 * [Crossing(least=-np.inf, read=-np.inf, most=500.0)]]
    other = goal_rate(below, LEVEL)
    assert (other.value, other.low, other.high) == (725.0, -np.inf, 800.0)


def test_both_sides_censored_say_nothing_of_the_ratio() -> None:
    """Two servers that both carry more than was asked are not equal: nobody knows."""
    above = [Crossing(least=900.0, read=np.inf, most=np.inf)] * 10
    ratio = goal_ratio(above, above, LEVEL)
    assert (ratio.low, ratio.high) == (-np.inf, np.inf)
    one = goal_ratio(_between(*[650.0] * 10), above, LEVEL)
    assert one.high == np.inf
    assert one.low == pytest.approx(math.log(900.0 / 700.0))


def test_five_blocks_have_no_bounds() -> None:
    """Signed ranks reach 95 % from six blocks on; the median is told from the first."""
    reached = goal_rate(_between(710, 750, 790), LEVEL)
    assert (reached.value, reached.low, reached.high) == (750.0, None, None)
    assert goal_rate(_between(*[710.0] * 6), LEVEL).low == 700.0


def test_the_middle_of_an_even_number_may_be_censored_on_one_side() -> None:
    """Then the other of the two is told; between both ends there is nothing to tell."""
    above = Crossing(least=900.0, read=np.inf, most=np.inf)
    below = Crossing(least=-np.inf, read=-np.inf, most=500.0)
    assert goal_rate([*_between(750), above], LEVEL).value == 750.0
    assert goal_rate([below, *_between(750)], LEVEL).value == 750.0
    for blocks in (2, 6):
        split = goal_rate(blocks // 2 * [below] + blocks // 2 * [above], LEVEL)
        assert (split.value, split.beyond) == (None, 0.0)
    assert (split.low, split.high) == (-np.inf, np.inf)
    assert goal_rate([below, above, above], LEVEL).value == np.inf


def test_the_crossing_is_read_on_a_logarithmic_line() -> None:
    """Halfway between 1 ms and 100 ms on the logarithm is 10 ms; a noisy dip is levelled first."""
    rates = np.array([100.0, 200.0])
    found = crossing(rates, np.array([1e-3, 1e-1]), 1e-2)
    assert (found.least, found.most) == (100.0, 200.0)
    assert found.read == pytest.approx(150.0)
    dipped = crossing(np.array([100.0, 200.0, 300.0]), np.array([1e-2, 1e-4, 1e-1]), 1e-2)
    assert dipped.read == pytest.approx(250.0)
    lost = crossing(rates, np.array([1e-3, np.inf]), 1e-2)
    assert (lost.least, lost.read, lost.most) == (100.0, 100.0, 200.0)
    assert crossing(rates, np.array([np.inf, np.inf]), 1e-2).read == -np.inf


@given(st.lists(st.floats(-5.0, 5.0), min_size=1, max_size=8))
def test_monotone_means(values: list[float]) -> None:
    """It never falls, keeps the sum, and leaves alone what rises already."""
    given_values = np.array(values)
    made = monotone(given_values)
    assert (np.diff(made) >= -1e-12).all()
    assert made.sum() == pytest.approx(given_values.sum(), abs=1e-9)
    assert monotone(np.sort(given_values)) == pytest.approx(np.sort(given_values))


def test_what_cannot_be_answered_is_refused() -> None:
    """No rate, no block, unpaired blocks."""
    with pytest.raises(ValueError, match="no rate"):
        crossing(np.array([]), np.array([]), 1.0)
    with pytest.raises(ValueError, match="no block"):
        goal_rate([], LEVEL)
    with pytest.raises(ValueError, match="3 blocks beside 2"):
        goal_ratio(_between(650, 660, 670), _between(650, 660), LEVEL)
