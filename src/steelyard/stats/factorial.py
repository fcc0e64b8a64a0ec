"""Designs of two-level factors, and the weights that turn a block's logs into effects (METHOD 5).

A block holds every combination of the design once, so that an effect is one weighted sum of the
block's log throughputs: one number per block, fed to the same pooling, interval and looks as the
log ratio of two configurations. Combinations are tuples of 0 (first level) and 1 (second level).

The result's sample is here, too: one contrast per block from those of its cells (METHOD 3.2).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations as subsets
from itertools import product
from typing import Final

import numpy as np

from steelyard.core.experiment import Combination, Effect
from steelyard.stats.intervals import FloatArray, hodges_lehmann_centres

MOST_FACTORS: Final = 7
# By number of factors: each further factor is the product of these earlier ones in -1/+1. The
# sign of a product of four is turned, so that the combination of all first levels is measured.
# Source: Box, Hunter & Hunter, Statistics for Experimenters, table of 2^(k-p) designs.
_GENERATORS: Final[dict[int, tuple[tuple[int, ...], ...]]] = {
    1: (),
    2: (),
    3: (),
    4: ((0, 1, 2),),
    5: ((0, 1, 2, 3),),
    6: ((0, 1, 2), (1, 2, 3)),
    7: ((0, 1, 2), (1, 2, 3), (0, 2, 3)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FactorialDesign:
    """The combinations of a two-level design.

    Attributes:
        combinations: Balanced: every factor has its second level in half of them. The first is
            that of all first levels.
        words: All defining words but the empty one, up to sign: effects that are constant over
            the design. () for a full factorial.
        resolution: Length of the shortest word; None for a full factorial.
    """

    combinations: tuple[Combination, ...]
    words: tuple[Effect, ...] = ()
    resolution: int | None = None


def factorial_design(factors: int) -> FactorialDesign:
    """Return the design for so many factors: full up to 3, then a fraction of 8 or 16.

    Args:
        factors: 1 to 7. With 4, 6 and 7 the resolution is IV, with 5 it is V.

    Raises:
        ValueError: There is no design for so many factors.

    Source:
        METHOD 5.
    """
    if factors not in _GENERATORS:
        raise ValueError(f"no design for {factors} factors, only for 1 to {MOST_FACTORS}")
    generators = _GENERATORS[factors]
    basic = factors - len(generators)
    words = _defining_words([(*made, basic + i) for i, made in enumerate(generators)])
    return FactorialDesign(
        combinations=tuple(
            (*levels, *(_made(levels, generator) for generator in generators))
            for levels in product((0, 1), repeat=basic)
        ),
        words=words,
        resolution=min(map(len, words), default=None),
    )


def _made(levels: Sequence[int], generator: Sequence[int]) -> int:
    """Return the level of a factor that is the product of others; all at 0 make 0."""
    return sum(levels[place] for place in generator) % 2


def _defining_words(generating: Sequence[Effect]) -> tuple[Effect, ...]:
    """Return every product of the generating words, shortest first."""
    words: set[Effect] = set()
    for size in range(1, len(generating) + 1):
        for chosen in subsets(generating, size):
            word: Effect = ()
            for part in chosen:
                word = times(word, part)
            words.add(word)
    return tuple(sorted(words, key=lambda word: (len(word), word)))


def times(one: Effect, other: Effect) -> Effect:
    """Return the product of two effects: a factor in both cancels, since (-1)^2 is 1."""
    return tuple(sorted(set(one) ^ set(other)))


def aliases(effect: Effect, words: Sequence[Effect]) -> tuple[Effect, ...]:
    """Return the other effects that a design cannot tell from one, shortest first.

    The estimate of an effect is that effect plus or minus all of these.
    """
    return tuple(sorted((times(effect, word) for word in words), key=lambda e: (len(e), e)))


def confounded_synergies(factors: int, words: Sequence[Effect]) -> tuple[tuple[Effect, ...], ...]:
    """Return the groups of pairs whose synergies a design cannot tell apart; singles left out."""
    groups: list[tuple[Effect, ...]] = []
    for pair in subsets(range(factors), 2):
        group = tuple(sorted([pair, *(a for a in aliases(pair, words) if len(a) == 2)]))
        if len(group) > 1 and group not in groups:
            groups.append(group)
    return tuple(groups)


def main_effect(combinations: Sequence[Combination], factor: int) -> FloatArray:
    """Return the weights of mean(second level) - mean(first level), over all combinations.

    Args:
        combinations: Of a balanced design.
        factor: Its place.

    Returns:
        Shape (combinations,); their product with logs is a log ratio.
    """
    signs = _signs(combinations)
    return np.asarray(signs[:, factor] * 2.0 / len(signs))


def synergy(combinations: Sequence[Combination], one: int, other: int) -> FloatArray:
    """Return the weights of y11 - y10 - y01 + y00, averaged over the other factors.

    It is what the two do together beyond what each does while the other is at its first level.
    Its variance is four times that of a main effect, so its interval is twice as wide.

    Args:
        combinations: Of a balanced design in which the two are not aliased with each other.
        one: Place of a factor.
        other: Place of another.

    Returns:
        Shape (combinations,); their product with logs is a log ratio.
    """
    signs = _signs(combinations)
    return np.asarray(signs[:, one] * signs[:, other] * 4.0 / len(signs))


def difference(
    combinations: Sequence[Combination], before: Combination, after: Combination
) -> FloatArray:
    """Return the weights of one combination minus another.

    Args:
        combinations: Of any design.
        before: Weight -1.
        after: Weight +1.

    Returns:
        Shape (combinations,); their product with logs is a log ratio.

    Raises:
        ValueError: One of the two is not measured.
    """
    weights = np.zeros(len(combinations))
    weights[list(combinations).index(after)] += 1.0
    weights[list(combinations).index(before)] -= 1.0
    return weights


def added_alone(combinations: Sequence[Combination], factor: int) -> FloatArray:
    """Return the weights of one factor's second level while all others are at their first."""
    return difference(combinations, *_flipped((0,) * len(combinations[0]), factor))


def removed_last(combinations: Sequence[Combination], factor: int) -> FloatArray:
    """Return the weights of one factor's second level while all others are at their second."""
    after, before = _flipped((1,) * len(combinations[0]), factor)
    return difference(combinations, before, after)


def total(combinations: Sequence[Combination]) -> FloatArray:
    """Return the weights of all second levels minus all first levels."""
    factors = len(combinations[0])
    return difference(combinations, (0,) * factors, (1,) * factors)


def ladder(factors: int) -> tuple[Combination, ...]:
    """Return the rungs: all first levels, then one factor after another at its second."""
    return tuple((1,) * rung + (0,) * (factors - rung) for rung in range(factors + 1))


def ablation(factors: int) -> tuple[Combination, ...]:
    """Return all second levels, then each factor alone back at its first."""
    whole = (1,) * factors
    return (whole, *(_flipped(whole, factor)[1] for factor in range(factors)))


def _flipped(combination: Combination, factor: int) -> tuple[Combination, Combination]:
    """Return a combination, and the same with one factor at its other level."""
    changed = list(combination)
    changed[factor] = 1 - changed[factor]
    return combination, tuple(changed)


def _signs(combinations: Sequence[Combination]) -> FloatArray:
    return 2.0 * np.asarray(combinations, dtype=np.float64) - 1.0


TRIMMED_FROM = 4


def pooled_contrasts(contrasts: FloatArray) -> FloatArray:
    """Return the mean of the cells' centres plus each block's trimmed deviation from them.

    It estimates the mean effect over cells also when the effect depends on the load, and one
    stalled slice cannot spoil a block.

    Args:
        contrasts: Shape (n, cells), n >= 1, log ratio, paired within each block and cell.

    Returns:
        Shape (n,), log ratio. Deviations are stretched by sqrt(n / (n - 1)) because the centres
        were estimated from the same blocks; from 4 cells on the lowest and the highest of each
        block are dropped. A single cell is returned as it is: nothing was centred.

    Raises:
        ValueError: The array has no block or no cell.

    Source:
        METHOD 3.2.
    """
    blocks, cells = contrasts.shape
    if not blocks or not cells:
        raise ValueError(f"nothing to pool in {blocks} blocks of {cells} cells")
    if cells == 1:
        return contrasts[:, 0]
    centres = hodges_lehmann_centres(contrasts)
    deviations = contrasts - centres
    if cells >= TRIMMED_FROM:
        deviations = np.sort(deviations, axis=1)[:, 1:-1]
    stretch = np.sqrt(blocks / max(blocks - 1, 1))
    return np.asarray(stretch * deviations.mean(axis=1) + centres.mean())
