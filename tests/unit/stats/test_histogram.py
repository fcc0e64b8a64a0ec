"""Histograms, percentiles and chances: exact sums, sizes of samples, and intervals that hold."""

import math

import numpy as np
import pytest
from chance import highest_rate, lowest_rate
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import lfilter
from scipy.stats import binom

from steelyard.answers.latency.compute import (
    LatencyChange,
    Pool,
    compare_percentiles,
    percentile_of,
)
from steelyard.answers.observations import ResultContrast
from steelyard.core.schedule import CellKey, Load
from steelyard.core.wording import RecordError
from steelyard.stats import histogram as histograms
from steelyard.stats.histogram import Histogram, histogram_of
from steelyard.stats.intervals import (
    achieved_level,
    chance_of_so_few,
    critical_value,
    highest_chance,
)

latencies = st.lists(st.integers(0, 2**53 - 1), min_size=1, max_size=60)


@given(values=latencies)
def test_no_value_is_off_by_more_than_its_bucket(values: list[int]) -> None:
    """Whatever the size, a value's bucket stands for it within 0.4 %."""
    taken = np.maximum(np.array(values, dtype=np.int64), 1)
    told = histograms.bucket_values(histograms.bucket_indices(taken))
    assert (np.abs(told - taken) <= 0.004 * taken).all()


def test_buckets_follow_one_another() -> None:
    """Larger values never go to an earlier bucket, and no bucket between is skipped."""
    indices = histograms.bucket_indices(np.arange(1, 100_000))
    assert set(np.diff(indices)) == {0, 1}


@given(first=latencies, second=latencies)
def test_merging_is_counting_together(first: list[int], second: list[int]) -> None:
    """Two histograms added, in either order, are the histogram of all values."""
    one, other, both = (
        histograms.histogram_of(values) for values in (first, second, first + second)
    )
    for order in ((one, other), (other, one)):
        assert (histograms.merged(order).counts == both.counts).all()
    assert both.total == len(first) + len(second)


@given(values=latencies)
def test_counts_survive_their_text(values: list[int]) -> None:
    """Written and read again they are the same counts; nothing at all is an empty text."""
    counted = histograms.histogram_of(values)
    assert (histograms.from_text(histograms.to_text(counted)).counts == counted.counts).all()
    assert histograms.to_text(histograms.from_text("")) == ""


@pytest.mark.parametrize(
    "text",
    [
        *("5 0", "5 -1", "-1", "9999999", "5:0", "5:-2", "x", "x y", "5 ", " 5", "5\n", "5:", ":5"),
        *("\u0665", "9" * 5000, "1:" + "9" * 30, "6912", "5:1:1", "5\x1b[2J"),
    ],
    ids=ascii,
)
def test_a_text_that_is_no_counts_is_refused(text: str) -> None:
    """Buckets that do not rise, lie outside, or hold nothing."""
    with pytest.raises(RecordError, match="is not a valid count of latencies") as refused:
        histograms.from_text(text)
    assert refused.value.hint


@given(values=latencies, share=st.floats(0.0, 1.0))
def test_a_quantile_is_that_of_the_values(values: list[int], share: float) -> None:
    """Within 0.4 % of the value that this share does not exceed."""
    exact = float(np.quantile(np.maximum(values, 1), share, method="inverted_cdf"))
    assert histograms.histogram_of(values).quantile(share) == pytest.approx(exact, rel=0.004)


@pytest.mark.parametrize(("share", "least"), [(0.5, 20), (0.99, 1000), (0.999, 10_000)])
def test_a_quantile_needs_ten_values_beyond_it(share: float, least: int) -> None:
    """The 99th percentile of 999 transactions is not told, that of 1000 is."""
    counts = np.zeros(10, np.int64)
    counts[3] = least - 1
    assert not histograms.Histogram(counts=counts).tells(share)
    counts[3] = least
    assert histograms.Histogram(counts=counts).tells(share)


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf, 2.0**53])
def test_what_is_no_latency_is_refused(value: float) -> None:
    """Negative, missing and absurd values are not counted as anything."""
    with pytest.raises(ValueError, match="from 0"):
        histograms.histogram_of(np.array([5.0, value]))


def test_nothing_has_no_quantile() -> None:
    """An empty histogram says so instead of zero."""
    with pytest.raises(ValueError, match="of 0 values"):
        histograms.merged(()).quantile(0.5)


@given(values=latencies)
def test_the_bounds_of_a_bucket_enclose_its_values(values: list[int]) -> None:
    """Each value lies in its bucket, and the next bucket begins right after it."""
    taken = np.maximum(np.array(values, dtype=np.int64), 1)
    indices = histograms.bucket_indices(taken)
    low, high = histograms.bucket_bounds(indices)
    assert ((low <= taken) & (taken <= high)).all()
    assert (histograms.bucket_bounds(indices + 1)[0] == high + 1).all()


def test_a_rank_is_exact_where_a_share_is_not() -> None:
    """Value k of 1 to n is k, though k / n times n is now and then a little more than k."""
    rounded = 0
    for total in range(1, 200):
        histogram = histograms.histogram_of(np.arange(1, total + 1))
        assert [histogram.value_at(rank) for rank in (1, total)] == [1.0, float(total)]
        for rank in range(1, total + 1):
            if histograms.rank_of(rank / total, total) != rank:
                rounded += 1
                assert histogram.value_at(rank) == rank
    assert rounded > 0
    for rank in (0, 3):
        with pytest.raises(ValueError, match="among 2"):
            histograms.histogram_of([1, 2]).value_at(rank)


BLOCKS = 16
TRANSACTIONS = 4000
CAMPAIGNS = 200
SHARES = (0.5, 0.9, 0.95, 0.99)
CELL = CellKey(workload="w", load=Load(clients=8, threads=4))
ASKED = ResultContrast(baseline="a", configuration="b", weights=(-1.0, 1.0))


def a_slice(rng: np.random.Generator, level: float) -> Histogram:
    """Return 4000 transactions whose log latency is autoregressive: 0.9 from one to the next."""
    shocks = 0.6 * np.sqrt(1.0 - 0.9**2) * rng.standard_normal(TRANSACTIONS)
    logs = lfilter([1.0], [1.0, -0.9], shocks) + level
    return histogram_of(np.exp(logs) * 2000.0)


def campaigns(effect: float, seed: int) -> list[tuple[LatencyChange, ...]]:
    """Return the changes of many campaigns in which b takes longer by a known effect."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(CAMPAIGNS):
        blocks = 0.1 * rng.standard_normal(BLOCKS)
        slices = 0.03 * rng.standard_normal((2, BLOCKS))
        pools = {
            (name, CELL): Pool.of(
                [a_slice(rng, blocks[row] + slices[side, row] + shift) for row in range(BLOCKS)]
            )
            for side, (name, shift) in enumerate((("a", 0.0), ("b", np.log1p(effect))))
        }
        found.append(compare_percentiles(ASKED, ("a", "b"), (CELL,), pools))
    return found


@pytest.fixture(scope="module")
def of_equals() -> list[tuple[LatencyChange, ...]]:
    """Return campaigns in which nothing differs."""
    return campaigns(0.0, seed=8)


@pytest.mark.slow
def test_intervals_cover_a_known_difference() -> None:
    """Each percentile of b is 10 % higher, and its intervals hold that as often as they say."""
    promised = 1.0 - achieved_level(BLOCKS, critical_value(BLOCKS, 0.045))
    found = campaigns(0.1, seed=88)
    for place, share in enumerate(SHARES):
        estimates = [changes[place].change for changes in found]
        held = np.mean(
            [e is not None and (e.low or 0.0) <= 0.1 <= (e.high or 0.0) for e in estimates]
        )
        assert held >= lowest_rate(promised, CAMPAIGNS), share


@pytest.mark.slow
def test_equals_are_rarely_called_different(of_equals: list[tuple[LatencyChange, ...]]) -> None:
    """In no more than 4.5 % of campaigns any percentile is called, all of them together."""
    called = np.mean([any(change.called for change in changes) for changes in of_equals])
    assert called <= highest_rate(0.045, CAMPAIGNS)


def test_levels_cover_the_percentile_of_a_typical_block() -> None:
    """The median over blocks lies around the true percentile as often as its interval says."""
    rng = np.random.default_rng(888)
    truth_s = 0.002 * np.exp(0.6 * 1.6448536)  # p95 of the lognormal
    held = []
    for _ in range(CAMPAIGNS // 2):
        levels = 0.05 * rng.standard_normal(BLOCKS)
        value = percentile_of(Pool.of([a_slice(rng, level) for level in levels]), 0.95).value_s
        held.append(value is not None and (value.low or 0.0) <= truth_s <= (value.high or 0.0))
    assert np.mean(held) >= lowest_rate(0.95, len(held))


@pytest.mark.parametrize(
    ("found", "of", "share"), [(0, 10, 0.5), (3, 10, 0.25), (9, 10, 0.9), (40, 60, 0.7)]
)
def test_the_chance_is_the_sum_of_its_terms(found: int, of: int, share: float) -> None:
    """The binomial distribution function, written out."""
    terms = (math.comb(of, k) * share**k * (1 - share) ** (of - k) for k in range(found + 1))
    assert chance_of_so_few(found, of=of, share=share) == pytest.approx(sum(terms), rel=1e-9)


@pytest.mark.parametrize(("of", "share"), [(40, 0.1), (10_000, 0.01), (1_000_000, 0.5)])
def test_whole_samples_are_seldom_accused(of: int, share: float) -> None:
    """At a level of 1 %: in 20,000 drawings no more than 1 % and four deviations."""
    drawn = np.random.default_rng(7).binomial(of, share, 20_000)
    sizes, numbers = np.unique(drawn, return_counts=True)
    accused = sum(
        int(number)
        for size, number in zip(sizes.tolist(), numbers.tolist(), strict=True)
        if chance_of_so_few(size, of=of, share=share) < 0.01
    )
    assert accused <= 200 + 4 * math.sqrt(200)


def test_a_large_sample_that_lost_a_percent_is_seen() -> None:
    """Of a million transactions a tenth is logged, and a hundredth of that is lost."""
    assert chance_of_so_few(99_000, of=1_000_000, share=0.1) < 1e-3
    assert chance_of_so_few(98_000, of=1_000_000, share=0.1) < 1e-9


def test_no_event_has_the_bound_that_people_know() -> None:
    """None in 20 leaves at most 1 - 0.05^(1/20); all of them leave everything."""
    assert highest_chance(0, of=20, level=0.05) == pytest.approx(1 - 0.05 ** (1 / 20))
    assert highest_chance(20, of=20, level=0.05) == 1.0


@pytest.mark.parametrize("chance", [0.001, 0.03, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("trials", [1, 5, 20, 60])
def test_the_bound_holds_at_its_level(chance: float, trials: int) -> None:
    """Calibration: the probability of a sample whose bound lies below the truth is at most 5 %.

    It is summed over all samples, not simulated.
    """
    missed = sum(
        float(binom.pmf(found, trials, chance))
        for found in range(trials + 1)
        if highest_chance(found, of=trials, level=0.05) < chance
    )
    assert missed <= 0.05


def test_impossible_samples_are_refused() -> None:
    """More events than trials, or no trial, is no sample."""
    for found, of in ((2, 1), (0, 0), (-1, 3)):
        with pytest.raises(ValueError, match="proportion"):
            highest_chance(found, of=of, level=0.05)
