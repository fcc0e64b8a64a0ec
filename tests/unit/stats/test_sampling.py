"""The size of a sample drawn by chance: exact, and seldom wrongly accused."""

import math

import numpy as np
import pytest

from steelyard.stats.intervals import chance_of_so_few


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
