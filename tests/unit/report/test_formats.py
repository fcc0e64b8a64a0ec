"""Numbers as readers see them."""

import math

import pytest

from steelyard.core.findings import Estimate
from steelyard.report import document


def test_an_effect_carries_its_interval_and_unit() -> None:
    """Estimate and interval both have a sign and a percent sign."""
    estimate = Estimate(value=0.123, low=0.081, high=0.169)
    assert document.effect_value(estimate) == "+12.3 %"
    assert document.effect_interval(estimate) == "[+8.1 %, +16.9 %]"


@pytest.mark.parametrize(
    "estimate",
    [
        None,
        Estimate(value=0.1),
        Estimate(value=0.1, low=0.05),
        Estimate(value=0.1, low=-math.inf, high=0.2),
        Estimate(value=0.1, low=math.nan, high=0.2),
    ],
)
def test_half_an_interval_is_none(estimate: Estimate | None) -> None:
    """Without both finite bounds a dash stands where the interval would."""
    assert document.bounds(estimate) is None
    assert document.effect_interval(estimate) == document.MISSING


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_what_is_missing_is_a_dash_and_never_zero(value: float | None) -> None:
    """Rates and latencies that are not there are not 0."""
    assert document.rate(value) == document.MISSING
    assert document.milliseconds(value) == document.MISSING


@pytest.mark.parametrize(
    ("value", "text"),
    [(51234.4, "51,234"), (999.96, "1,000.0"), (812.35, "812.4"), (7.256, "7.26"), (0.0, "0.00")],
)
def test_rates_have_about_four_digits(value: float, text: str) -> None:
    """Digits follow the size of the rate."""
    assert document.rate(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.000_157, "0.157"), (0.003_424, "3.42"), (0.0211, "21.1"), (1.25, "1,250")],
)
def test_latency_is_in_milliseconds(seconds: float, text: str) -> None:
    """Three significant digits, in ms."""
    assert document.milliseconds(seconds) == text


def test_times_are_utc() -> None:
    """The moment of a campaign does not depend on the reader's time zone."""
    assert document.utc(1_795_269_600.0) == "2026-11-21 14:00 UTC"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("done", "done."), ("done.", "done."), (" really? ", "really?"), ("", "")],
)
def test_a_sentence_has_one_full_stop(text: str, sentence: str) -> None:
    """Texts from elsewhere are joined without a doubled or a missing full stop."""
    assert document.ended(text) == sentence


@pytest.mark.parametrize(
    ("names", "text"),
    [((), ""), (("a",), "a"), (("a", "b"), "a and b"), (("a", "b", "c"), "a, b and c")],
)
def test_names_are_listed_in_words(names: tuple[str, ...], text: str) -> None:
    """One to many names read as a sentence does."""
    assert document.enumeration(names) == text
