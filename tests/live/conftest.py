"""Fixtures of the live tests."""

from support.live import cache, steelyard

__all__ = ["cache", "steelyard"]
