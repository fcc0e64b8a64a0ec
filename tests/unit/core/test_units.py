"""Units: what users write becomes base units once, and base units read as people say them."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from steelyard.core import units
from steelyard.core.errors import ExitCode, InputError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        (90, 90.0),
        (1.5, 1.5),
        ("90s", 90.0),
        ("1.5m", 90.0),
        ("20min", 1200.0),
        ("1h30m", 5400.0),
        ("1 h 30 m", 5400.0),
        ("2d", 172_800.0),
        ("250ms", 0.25),
        (" 7 ", 7.0),
    ],
)
def test_durations_are_seconds(text: str | float, seconds: float) -> None:
    """Every documented form; ``m`` is minutes and ``ms`` milliseconds."""
    assert units.parse_duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8GB", 8 * units.GIB),
        ("512MiB", 512 * units.MIB),
        ("64k", 64 * units.KIB),
        ("64kB", 64 * units.KIB),
        ("1.5g", 3 * units.GIB // 2),
        ("1T", 1024 * units.GIB),
        ("4096", 4096),
        (4096, 4096),
        ("10 B", 10),
    ],
)
def test_sizes_are_bytes_in_powers_of_1024(text: str | int, size: int) -> None:
    """PostgreSQL's convention: a kB is 1024 bytes."""
    assert units.parse_bytes(text) == size


@pytest.mark.parametrize(
    ("text", "fraction"), [("3%", 0.03), ("0.03", 0.03), (0.5, 0.5), ("1.5 %", 0.015)]
)
def test_shares_are_fractions(text: str | float, fraction: float) -> None:
    """A percentage and a fraction mean the same."""
    assert units.parse_fraction(text) == pytest.approx(fraction)


@pytest.mark.parametrize("text", ["", "soon", "5 x", "-5s", "5s5", "h", "1,5m", "NaN", "1h soon"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    """The sentence quotes it, the hint shows how to write it."""
    with pytest.raises(InputError, match="is not a duration") as caught:
        units.parse_duration_s(text)
    assert repr(text) in caught.value.message
    assert caught.value.hint
    assert caught.value.exit_code is ExitCode.BAD_INPUT


@pytest.mark.parametrize("text", ["0", "1", "100%", "0%", "-3%", "3", "x", "", "nan", "3 percent"])
def test_what_is_no_share_is_refused(text: str) -> None:
    """Shares lie between 0 and 1 exclusive."""
    with pytest.raises(InputError, match="is not a share"):
        units.parse_fraction(text)


@pytest.mark.parametrize("text", ["", "GB", "8 apples", "-8GB", "8 G B", "1e9"])
def test_what_is_no_size_is_refused(text: str) -> None:
    """A size is a number with an optional unit."""
    with pytest.raises(InputError, match="is not a size"):
        units.parse_bytes(text)


@given(text=st.text())
@example(text="0\x1f")
@example(text="9" * 400)
@example(text="9" * 400 + "GB")
@example(text="9" * 400 + "h")
def test_any_text_is_a_value_or_an_input_error(text: str) -> None:
    """Nothing a user types ends in a traceback, and nothing negative comes out."""
    for parse in (units.parse_duration_s, units.parse_bytes, units.parse_fraction):
        try:
            value = parse(text)
        except InputError:
            continue
        assert 0 <= value < math.inf


@given(number=st.integers(0, 10**6), unit=st.sampled_from(["ms", "s", "m", "min", "h", "d"]))
def test_a_duration_scales_with_its_unit(number: int, unit: str) -> None:
    """Twice the number is twice the time, in every unit."""
    once = units.parse_duration_s(f"{number}{unit}")
    assert units.parse_duration_s(f"{2 * number}{unit}") == pytest.approx(2 * once)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.0 s"),
        (0.42, "0.4 s"),
        (45.0, "45 s"),
        (119.4, "119 s"),
        (360.0, "6 min"),
        (4800.0, "80 min"),
        (7200.0, "2 h"),
        (7199.9, "2 h"),
        (9000.0, "2 h 30 min"),
    ],
)
def test_durations_read_as_people_say_them(seconds: float, text: str) -> None:
    """Tenths below ten seconds, then seconds, minutes, hours."""
    assert units.format_duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (512, "512 B"), (1536, "1.5 KiB"), (1.5 * 1024**2, "1.5 MiB"), (24e9, "22.4 GiB")],
)
def test_sizes_have_a_binary_unit(count: float, text: str) -> None:
    """The unit says that it is binary."""
    assert units.format_bytes(count) == text


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (0.0284, "+2.8 %"),
        (-0.0284, "-2.8 %"),
        (0.0028, "+0.28 %"),
        (0.0, "+0.00 %"),
        (1.5, "+150 %"),
        (0.9996, "+100 %"),
        (0.00951, "+1.0 %"),
    ],
)
def test_percentages_have_digits_that_suit_their_size(fraction: float, text: str) -> None:
    """Two digits for small effects, none for large ones, always a sign."""
    assert units.format_percent(fraction) == text


def test_a_share_needs_no_sign() -> None:
    """A half-width is no change."""
    assert units.format_percent(0.01, signed=False) == units.format_share(0.01) == "1.0 %"


@given(fraction=st.floats(-10, 10))
def test_a_percentage_can_be_read_back(fraction: float) -> None:
    """What is printed is the value, up to its digits."""
    printed = float(units.format_percent(fraction).removesuffix(" %"))
    tolerance = 0.5 if abs(fraction) >= 0.99 else 0.05 if abs(fraction) >= 0.009 else 0.005
    assert printed == pytest.approx(100 * fraction, abs=tolerance * 1.001)
