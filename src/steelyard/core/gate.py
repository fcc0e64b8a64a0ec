"""Conditions of a gate: what a whole interval has to lie beyond, so that a pipeline fails.

A condition asks for one direction and one size: ``slower > 3%``. Nothing else is a condition:
an effect on throughput is the only thing that a campaign's results share their error over.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from steelyard.core.errors import InputError
from steelyard.core.findings import Estimate

_WRITTEN: Final = re.compile(r"\s*(slower|faster)\s*>\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*")
_WAY_OUT: Final = "Write `slower > 3%` or `faster > 1%`: a direction and a size of the effect."
_LATENCY: Final = re.compile(r"\s*(p[0-9]|latency|max\b|mean\b)", re.IGNORECASE)


class Outcome(StrEnum):
    """What a condition makes of one effect."""

    FAILED = "failed"
    PASSED = "passed"
    UNDECIDED = "undecided"


class Direction(StrEnum):
    """Which way an effect has to go for a gate to fail."""

    SLOWER = "slower"
    FASTER = "faster"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Fails a gate where an effect lies wholly beyond a size in one direction.

    Attributes:
        beyond: Relative difference in tps, a size without sign (0.03 = 3 %).
    """

    direction: Direction
    beyond: float

    def __str__(self) -> str:
        """Return it as it is written and read again."""
        return f"{self.direction} > {round(100.0 * self.beyond, 9):g}%"

    def judge(self, effect: Estimate | None) -> Outcome:
        """Return what it makes of an effect: only a whole interval fails or passes.

        Args:
            effect: Relative difference with its interval; without both bounds nothing is decided.
        """
        if effect is None or effect.low is None or effect.high is None:
            return Outcome.UNDECIDED
        near, far = effect.low, effect.high
        if self.direction is Direction.SLOWER:
            near, far = -effect.high, -effect.low
        if near > self.beyond:
            return Outcome.FAILED
        return Outcome.PASSED if far <= self.beyond else Outcome.UNDECIDED


def worst(outcomes: tuple[Outcome, ...]) -> Outcome:
    """Return what several outcomes come to: one that failed fails all, else one undecided."""
    for outcome in (Outcome.FAILED, Outcome.UNDECIDED):
        if outcome in outcomes:
            return outcome
    return Outcome.PASSED


def parse_condition(text: str) -> Condition:
    """Return a condition from ``slower > 3%`` or ``faster > 1%``.

    Raises:
        InputError: The text is neither, or its size cannot be reached.
    """
    match = _WRITTEN.fullmatch(text)
    if match is None:
        raise InputError(f"`{text}` is no condition", hint=_hint(text))
    direction, percent = Direction(match[1]), float(match[2])
    if direction is Direction.SLOWER and percent >= 100.0:
        raise InputError(
            f"`{text}` can never be so: nothing is slower by 100 % or more", hint=_WAY_OUT
        )
    return Condition(direction=direction, beyond=percent / 100.0)


def _hint(text: str) -> str:
    if not _LATENCY.match(text):
        return _WAY_OUT
    return (
        f"{_WAY_OUT} Intervals of latencies stand alone and do not share the campaign's error, so"
        " no gate rests on them."
    )
