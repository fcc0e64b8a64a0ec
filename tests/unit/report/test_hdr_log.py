"""HdrHistogram logs: what its own reader finds in them is what was counted, bucket for bucket."""

from pathlib import Path

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.answers.logged import HdrInterval, encoded, hdr_log
from steelyard.stats.histogram import (
    LARGEST,
    Histogram,
    bucket_bounds,
    bucket_indices,
    histogram_of,
    merged,
)

BUCKETS = len(histogram_of([]).counts)
USABLE = int(bucket_indices(np.array([LARGEST - 1]))[0]) + 1
LATENCIES = st.one_of(st.integers(0, 300), st.integers(0, 10_000_000), st.integers(0, LARGEST - 1))


def like_ours() -> HdrHistogram:
    """Return an empty histogram of HdrHistogram with our unit, digits and range."""
    return HdrHistogram(1, LARGEST - 1, 2)


def counts_in(text: bytes) -> list[int]:
    """Return the counters that HdrHistogram's decoder finds."""
    found = HdrHistogram.decode(text)
    return [found.get_count_at_index(place) for place in range(found.counts_len)]


def of(pairs: dict[int, int]) -> Histogram:
    """Return the histogram of counts by bucket."""
    counts = np.zeros(BUCKETS, np.int64)
    for place, number in pairs.items():
        counts[place] = number
    return Histogram(counts=counts)


@settings(max_examples=150, deadline=None)
@given(st.lists(LATENCIES, max_size=60))
def test_what_the_reader_decodes_is_what_was_counted(values: list[int]) -> None:
    """Any latencies: every counter comes back, and it is where HdrHistogram itself counts it.

    But for 0, which is counted as 1 here.
    """
    ours = histogram_of(values)
    theirs = like_ours()
    for value in values:
        assert theirs.record_value(max(value, 1))
    decoded = counts_in(encoded(ours))
    assert decoded == ours.counts[:USABLE].tolist()
    assert decoded == [theirs.get_count_at_index(place) for place in range(theirs.counts_len)]
    assert ours.counts[USABLE:].sum() == 0


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.integers(1, USABLE - 1), st.integers(1, 2**60), min_size=1, max_size=8))
def test_counts_of_any_size_come_back(pairs: dict[int, int]) -> None:
    """From one byte to the nine of the longest counter, beside runs of zeros of any length."""
    ours = of(pairs)
    assert counts_in(encoded(ours)) == ours.counts[:USABLE].tolist()


def test_every_bucket_has_the_bounds_that_hdrhistogram_gives_it() -> None:
    """Least and largest value of every bucket fall into the counter of the same number."""
    reference = like_ours()
    assert reference.counts_len == USABLE
    least, largest = bucket_bounds(np.arange(1, USABLE))
    for place, (low, high) in enumerate(zip(least.tolist(), largest.tolist(), strict=True), 1):
        assert reference._counts_index_for(low) == place
        assert reference._counts_index_for(high) == place


def test_an_empty_histogram_is_one() -> None:
    """A second in which nothing ended has no counter and does not stop the reader."""
    assert sum(counts_in(encoded(histogram_of([])))) == 0


def test_the_log_is_read_by_hdrhistograms_reader(tmp_path: Path) -> None:
    """Tags, times, maxima and counters of every line; the sum of a tag is that of its lines."""
    seconds = [histogram_of([250, 250, 1_500_000]), histogram_of([]), histogram_of([0, 90_000])]
    intervals = [
        HdrInterval(
            tag="script 0, of a", start_s=1_795_296_543.25 + at, seconds=1.0, histogram=each
        )
        for at, each in enumerate(seconds)
    ]
    path = tmp_path / "run.hlog"
    path.write_text("".join(hdr_log(intervals, started_at=1_795_296_543.25)))
    reader = HistogramLogReader(str(path), like_ours())
    read = [reader.get_next_interval_histogram() for _ in seconds]
    assert reader.get_next_interval_histogram() is None
    reader.close()
    assert {each.get_tag() for each in read} == {"script_0_of_a"}
    assert [each.get_start_time_stamp() / 1000 for each in read] == pytest.approx(
        [each.start_s for each in intervals]
    )
    assert [each.get_end_time_stamp() - each.get_start_time_stamp() for each in read] == [1000] * 3
    whole = like_ours()
    for each in read:
        whole.add(each)
    expected = merged(seconds).counts[:USABLE].tolist()
    assert [whole.get_count_at_index(place) for place in range(whole.counts_len)] == expected
    line = path.read_text().splitlines()[5]
    assert float(line.split(",")[3]) == pytest.approx(1500, rel=0.008)
