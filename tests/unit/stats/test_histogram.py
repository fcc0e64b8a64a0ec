"""The histogram: exact sums, small errors, and percentiles of the whole."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.core.wording import RecordError
from steelyard.stats import histogram as histograms

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
