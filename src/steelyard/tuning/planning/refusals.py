"""Refusals of a plan for lack of room: what fits instead is found by planning it."""

from typing import Final

from steelyard.model.errors import PreflightError

_LESS: Final = "Ask for less, or plan for a larger machine."


class DoesNotFitError(PreflightError):
    """What was asked for has no room here; less of it, or a larger share of something, may."""

    def __init__(self, message: str, hint: str = _LESS) -> None:
        """Take the constraint; the hint is replaced by what was found to fit."""
        super().__init__(message, hint=hint)
