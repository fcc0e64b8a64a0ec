"""Quantities of Kubernetes: exact numbers, or an input error."""

from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from steelyard.core.wording import InputError, page_bytes_of, parse_quantity, parse_quantity_bytes


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


@given(number=st.integers(0, 10**15), suffix=st.sampled_from(["", "m", "k", "Ki", "Mi", "Gi"]))
def test_a_written_number_is_read_back(number: int, suffix: str) -> None:
    """Whatever the suffix, the number is multiplied by it and by nothing else."""
    assert parse_quantity(f"{number}{suffix}") == number * parse_quantity(f"1{suffix}")
