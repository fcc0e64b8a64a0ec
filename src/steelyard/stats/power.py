"""When a campaign that looks after every block decides an effect that is really there.

The block contrasts are taken as normal. The chance to have crossed no boundary yet follows from
the same recursion as the levels themselves (stats.spending), with the effect as a drift.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from steelyard.stats import special
from steelyard.stats.signed_rank import EXACT_UP_TO, block_interval
from steelyard.stats.student import FloatArray

# Asymptotic efficiency of the Hodges-Lehmann centre against the mean, normal values: 3 / pi.
HODGES_LEHMANN_EFFICIENCY = 3.0 / np.pi
_GRID_POINTS = 301
_LARGEST_DRIFT = 50.0  # standard deviations per block
_BISECTIONS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look: how many blocks there are, and the two-sided level of the interval."""

    blocks: int
    level: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """The chance to be decided by each look, for any effect.

    Attributes:
        looks: At least one, rising.
        cumulative: Whether a campaign stops at its first verdict; otherwise each look stands
            for itself.
        paths: Per look the grid of sums of standardised contrasts that crossed nothing, and the
            probability mass at its points when there is no effect.
    """

    looks: tuple[Look, ...]
    cumulative: bool
    paths: tuple[tuple[FloatArray, FloatArray], ...]

    def decided(self, drift: float) -> FloatArray:
        """Return the chance of a verdict by each look, shape (looks,).

        Args:
            drift: Effect over the standard deviation of one block's contrast, >= 0.
        """
        found = np.array([self._chance(place, drift) for place in range(len(self.looks))])
        return np.asarray(np.maximum.accumulate(found) if self.cumulative else found)

    def _chance(self, place: int, drift: float) -> float:
        """Return the chance to be decided by one look, over what the noise is taken for."""
        drift = min(drift, _LARGEST_DRIFT) * float(np.sqrt(HODGES_LEHMANN_EFFICIENCY))
        mixed = sum(w * self._at(place, drift * f) for f, w in _spread(self.looks[place].blocks))
        return min(max(mixed, 0.0), 1.0)

    def _at(self, place: int, drift: float) -> float:
        look = self.looks[place]
        if not self.cumulative:
            return _power_at(look, drift)
        ends, mass = self.paths[place]
        # The likelihood ratio of a path with drift depends on its end alone.
        return 1.0 - float(mass @ np.exp(drift * ends - drift**2 * look.blocks / 2.0))

    def blocks_until(self, drift: float, share: float) -> int | None:
        """Return after how many blocks this share of campaigns has decided; None: not at all."""
        reached = np.flatnonzero(self.decided(drift) >= share)
        return self.looks[reached[0]].blocks if len(reached) else None

    def drift_needed(self, share: float) -> float:
        """Return the least drift that this share of campaigns decides by the last look."""
        last, low, high = len(self.looks) - 1, 0.0, _LARGEST_DRIFT
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2.0
            low, high = (low, middle) if self._chance(last, middle) >= share else (middle, high)
        return high


@lru_cache(maxsize=512)
def crossing(looks: tuple[Look, ...], *, cumulative: bool = True) -> Crossing:
    """Return when a plan of looks decides.

    Args:
        looks: Rising block counts with the levels of their intervals.
        cumulative: As in ``Crossing``.

    Raises:
        ValueError: There is no look.

    Source:
        Armitage, McPherson & Rowe (1969), Journal of the Royal Statistical Society A 132; the
        effect enters by the likelihood ratio of a Brownian motion with drift (Girsanov).
    """
    if not looks:
        raise ValueError("a plan without an interim result decides nothing")
    paths = tuple(_paths(looks)) if cumulative else ()
    return Crossing(looks=looks, cumulative=cumulative, paths=paths)


def half_width(look: Look, deviation: float) -> float:
    """Return the half-width to expect of a look's interval.

    The product's own interval of a typical normal sample (Blom's scores): the asymptotic formula
    is far too narrow where signed ranks must reach a small level with few blocks.

    Args:
        look: At least 2 blocks.
        deviation: Of one block's contrast, any unit; so is the result.
    """
    return _unit_half_width(look.blocks, look.level) * deviation


@lru_cache(maxsize=4096)
def _unit_half_width(blocks: int, level: float) -> float:
    asymptotic = -float(special.ndtri(level / 2.0)) / float(
        np.sqrt(HODGES_LEHMANN_EFFICIENCY * blocks)
    )
    if blocks > EXACT_UP_TO:
        # What the formula lacks where exact ranks end fades like 1 / n.
        lacking = _unit_half_width(EXACT_UP_TO, level) * np.sqrt(EXACT_UP_TO / blocks) / asymptotic
        return asymptotic * (1.0 + (float(lacking) - 1.0) * EXACT_UP_TO / blocks)
    scores = special.ndtri((np.arange(1, blocks + 1) - 0.375) / (blocks + 0.25))
    found = block_interval(scores / scores.std(ddof=1), level)
    return (found.high - found.low) / 2.0


def _critical(look: Look) -> float:
    """Return how many standard errors an estimate must be from 0 to decide."""
    return half_width(look, float(np.sqrt(HODGES_LEHMANN_EFFICIENCY * look.blocks)))


def _spread(blocks: int) -> tuple[tuple[float, float], ...]:
    """Return by what factors a campaign over- or underrates its noise, with their weights.

    A width is estimated from as many blocks: its relative deviation is about 1 / sqrt(2 (n - 1)).
    Three points of Gauss-Hermite quadrature.
    """
    off = np.sqrt(3.0 / (2.0 * (blocks - 1)))
    return (float(np.exp(-off)), 1.0 / 6.0), (1.0, 2.0 / 3.0), (float(np.exp(off)), 1.0 / 6.0)


def _power_at(look: Look, drift: float) -> float:
    away = drift * np.sqrt(look.blocks)
    critical = _critical(look)
    return float(special.ndtr(away - critical) + special.ndtr(-away - critical))


def _paths(looks: Sequence[Look]) -> list[tuple[FloatArray, FloatArray]]:
    """Return the surviving sums at each look, without an effect."""
    found: list[tuple[FloatArray, FloatArray]] = []
    grid, mass, before = np.zeros(1), np.ones(1), 0
    for look in looks:
        boundary = _critical(look) * np.sqrt(look.blocks)
        points = np.linspace(-boundary, boundary, _GRID_POINTS)
        spread = np.sqrt(look.blocks - before)
        steps = (points[:, None] - grid) / spread
        density = np.exp(-(steps**2) / 2.0) @ mass / (spread * np.sqrt(2.0 * np.pi))
        weight = np.full(_GRID_POINTS, points[1] - points[0])
        weight[[0, -1]] /= 2.0  # trapezoid rule
        grid, mass, before = points, density * weight, look.blocks
        found.append((grid, mass))
    return found
