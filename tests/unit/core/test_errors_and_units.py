"""Wording: units become base units once and read as people say them; errors say the way out."""

import math
from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from steelyard.core import wording
from steelyard.core.wording import (
    ExitCode,
    ExperimentFileError,
    InputError,
    Problem,
    SteelyardError,
    page_bytes_of,
    parse_quantity,
    parse_quantity_bytes,
)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (wording.InputError, 2),
        (wording.PreflightError, 3),
        (wording.TargetError, 4),
        (wording.MeasurementError, 5),
        (wording.RecordError, 6),
        (wording.LeftBehindError, 7),
        (wording.PrivilegeError, 8),
    ],
)
def test_every_kind_has_its_code_message_and_hint(kind: type[SteelyardError], code: int) -> None:
    """One base for all, caught once."""
    error = kind("it is so", hint="do this")
    assert isinstance(error, SteelyardError)
    assert (int(error.exit_code), error.message, error.hint) == (code, "it is so", "do this")
    assert str(error) == "it is so"


def test_an_interruption_is_no_failure_that_anybody_expects() -> None:
    """It has words and a code, and neither our retries nor those of libraries swallow it."""
    stop = wording.Interrupted("stopped", hint="go on")
    assert (int(stop.exit_code), stop.message, stop.hint) == (130, "stopped", "go on")
    with pytest.raises(wording.Interrupted), suppress(Exception):
        raise stop


def test_a_problem_is_a_line_that_editors_can_jump_to() -> None:
    """File, line and column, the path in words, fact and way out; an override has no line."""
    problem = Problem(message="unknown", hint="did you mean `b`?", path="a.c", line=3, column=7)
    assert problem.located("x.yaml") == "x.yaml:3:7: a.c: unknown (did you mean `b`?)"
    small = Problem(message="too small", path="stop.budget")
    assert small.located("--override") == "--override: stop.budget: too small"


def test_all_problems_of_a_file_come_at_once() -> None:
    """The message counts them and lists each on its line."""
    problems = [Problem(message=f"wrong {n}", line=n, column=1) for n in (1, 2)]
    error = ExperimentFileError("x.yaml", problems)
    assert error.message == ("x.yaml has 2 problems:\n  x.yaml:1:1: wrong 1\n  x.yaml:2:1: wrong 2")
    assert error.exit_code is ExitCode.BAD_INPUT
    assert "steelyard schema" in error.hint
    assert ExperimentFileError("x", problems[:1]).message.startswith("x has 1 problem:")


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
    assert wording.parse_duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["20", 20, "0.5", " 90 "])
def test_a_budget_has_a_unit(text: str | int) -> None:
    """Twenty what? pgbench takes seconds, and a person means minutes."""
    with pytest.raises(wording.InputError, match="has no unit") as refused:
        wording.parse_budget_s(text)
    assert "20m" in refused.value.hint
    assert wording.parse_budget_s("90s") == 90.0


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8GB", 8 * wording.GIB),
        ("512MiB", 512 * wording.MIB),
        ("64k", 64 * wording.KIB),
        ("64kB", 64 * wording.KIB),
        ("1.5g", 3 * wording.GIB // 2),
        ("1T", 1024 * wording.GIB),
        ("4096", 4096),
        (4096, 4096),
        ("10 B", 10),
    ],
)
def test_sizes_are_bytes_in_powers_of_1024(text: str | int, size: int) -> None:
    """PostgreSQL's convention: a kB is 1024 bytes."""
    assert wording.parse_bytes(text) == size


@pytest.mark.parametrize(
    ("text", "fraction"), [("3%", 0.03), ("0.03", 0.03), (0.5, 0.5), ("1.5 %", 0.015)]
)
def test_shares_are_fractions(text: str | float, fraction: float) -> None:
    """A percentage and a fraction mean the same."""
    assert wording.parse_fraction(text) == pytest.approx(fraction)


@pytest.mark.parametrize("text", ["", "soon", "5 x", "-5s", "5s5", "h", "1,5m", "NaN", "1h soon"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    """The sentence quotes it, the hint shows how to write it."""
    with pytest.raises(InputError, match="is not a duration") as caught:
        wording.parse_duration_s(text)
    assert repr(text) in caught.value.message
    assert caught.value.hint
    assert caught.value.exit_code is ExitCode.BAD_INPUT


@pytest.mark.parametrize("text", ["0", "1", "100%", "0%", "-3%", "3", "x", "", "nan", "3 percent"])
def test_what_is_no_share_is_refused(text: str) -> None:
    """Shares lie between 0 and 1 exclusive."""
    with pytest.raises(InputError, match="is not a share"):
        wording.parse_fraction(text)


@pytest.mark.parametrize("text", ["", "GB", "8 apples", "-8GB", "8 G B", "1e9"])
def test_what_is_no_size_is_refused(text: str) -> None:
    """A size is a number with an optional unit."""
    with pytest.raises(InputError, match="is not a size"):
        wording.parse_bytes(text)


@pytest.mark.slow
@given(text=st.text())
@example(text="0\x1f")
@example(text="9" * 400)
@example(text="9" * 400 + "GB")
@example(text="9" * 400 + "h")
def test_any_text_is_a_value_or_an_input_error(text: str) -> None:
    """Nothing a user types ends in a traceback, and nothing negative comes out."""
    for parse in (
        wording.parse_duration_s,
        wording.parse_budget_s,
        wording.parse_bytes,
        wording.parse_fraction,
    ):
        try:
            value = parse(text)
        except InputError:
            continue
        assert 0 <= value < math.inf


@given(number=st.integers(0, 10**6), unit=st.sampled_from(["ms", "s", "m", "min", "h", "d"]))
def test_a_duration_scales_with_its_unit(number: int, unit: str) -> None:
    """Twice the number is twice the time, in every unit."""
    once = wording.parse_duration_s(f"{number}{unit}")
    assert wording.parse_duration_s(f"{2 * number}{unit}") == pytest.approx(2 * once)


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
    assert wording.format_duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (512, "512 B"), (1536, "1.5 KiB"), (1.5 * 1024**2, "1.5 MiB"), (24e9, "22.4 GiB")],
)
def test_sizes_have_a_binary_unit(count: float, text: str) -> None:
    """The unit says that it is binary."""
    assert wording.format_bytes(count) == text


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
    assert wording.format_percent(fraction) == text


def test_a_share_needs_no_sign() -> None:
    """A half-width is no change."""
    assert wording.format_percent(0.01, signed=False) == wording.format_share(0.01) == "1.0 %"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("2", 2),
        ("500m", Fraction(1, 2)),
        ("0.5", Fraction(1, 2)),
        (".5", Fraction(1, 2)),
        ("1.", 1),
        ("+2", 2),
        ("100u", Fraction(1, 10_000)),
        ("6500Mi", 6500 * 1024**2),
        ("8Gi", 8 * 1024**3),
        ("1k", 1000),
        ("1Ki", 1024),
        ("2G", 2 * 10**9),
        ("1e3", 1000),
        ("12E2", 1200),
        ("1E", 10**18),
        ("1500e-3", Fraction(3, 2)),
        (" 2Ti ", 2 * 1024**4),
    ],
)
def test_every_documented_form_is_exact(text: str, number: Fraction) -> None:
    """Decimal, binary and exponent forms; ``E`` alone is exa, before digits it is an exponent."""
    assert parse_quantity(text) == number


@pytest.mark.parametrize("text", ["", "GB", "4GiB", "4GB", "-1", "1 Gi", "1ki", "0x10", "1e", "m"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    """The sentence quotes it, the hint shows how to write it; 4GiB is not Kubernetes's."""
    with pytest.raises(InputError, match="not a quantity") as caught:
        parse_quantity(text)
    assert repr(text) in caught.value.message
    assert "Mi" in caught.value.hint


def test_bytes_are_rounded_up() -> None:
    """Half a byte is a byte, as for Kubernetes."""
    assert parse_quantity_bytes("500m") == 1
    assert parse_quantity_bytes("1.5Ki") == 1536


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("hugepages-2Mi", 2 * 1024**2),
        ("hugepages-1Gi", 1024**3),
        ("hugepages-many", None),
        ("hugepages-0", None),
        ("memory", None),
    ],
)
def test_a_resource_names_its_page_size(name: str, size: int | None) -> None:
    """Only huge pages have one, and only of a size above nothing."""
    assert page_bytes_of(name) == size


@given(text=st.text())
@example(text="9" * 31)
@example(text="1e999999999")
@example(text="1\n")
@example(text="٣")
def test_any_text_is_a_number_or_an_input_error(text: str) -> None:
    """Nothing in a manifest ends in a traceback, in a negative number or in an endless one."""
    try:
        value = parse_quantity(text)
    except InputError:
        return
    assert 0 <= value < 10**130
