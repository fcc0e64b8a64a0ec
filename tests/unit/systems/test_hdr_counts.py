"""HdrHistograms of other programs, against an independent encoder."""

import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given
from hypothesis import strategies as st

from steelyard.systems.redis.memtier import steps_of


def _encoded(values: list[int], *, lowest: int, digits: int) -> tuple[HdrHistogram, str]:
    histogram = HdrHistogram(lowest, 60_000_000, digits)
    for value in values:
        histogram.record_value(value)
    return histogram, histogram.encode().decode()


@given(
    st.lists(st.integers(min_value=1, max_value=59_000_000), min_size=1, max_size=60),
    st.sampled_from([1, 10]),
    st.sampled_from([1, 2, 3, 4]),
)
def test_counts_are_those_of_the_program_that_wrote_them(
    values: list[int], lowest: int, digits: int
) -> None:
    """Of any values, lowest value and precision: each count stands at its bucket's upper end."""
    histogram, text = _encoded(values, lowest=lowest, digits=digits)
    steps = steps_of(text)
    assert steps[-1].requests == len(values)
    for step in steps:
        expected = sum(
            histogram.get_highest_equivalent_value(value) <= step.latency_us for value in values
        )
        assert step.requests == expected


def test_an_empty_histogram_has_no_steps() -> None:
    """Nothing was counted: no step, and no error."""
    assert steps_of(_encoded([], lowest=10, digits=3)[1]) == ()


@given(st.text(alphabet="HISTFAbcdef0123+/=", max_size=80))
def test_any_text_is_refused_or_counted(text: str) -> None:
    """Damaged text is a ValueError, never another error."""
    try:
        steps_of(text)
    except ValueError:
        return


@given(st.integers(min_value=0), st.integers(min_value=0, max_value=255))
def test_a_changed_histogram_is_refused_or_counted(place: int, byte: int) -> None:
    """So is one of which a byte was changed."""
    import base64  # noqa: PLC0415

    _, text = _encoded([100, 2000, 30_000], lowest=10, digits=3)
    packed = bytearray(base64.b64decode(text))
    packed[place % len(packed)] = byte
    try:
        steps_of(base64.b64encode(bytes(packed)).decode())
    except ValueError:
        return


def test_a_histogram_that_is_cut_off_is_refused() -> None:
    """Half of it is no smaller histogram."""
    _, text = _encoded(list(range(1, 5000, 7)), lowest=1, digits=3)
    with pytest.raises(ValueError, match="HdrHistogram"):
        steps_of(text[: len(text) // 8 * 4])
