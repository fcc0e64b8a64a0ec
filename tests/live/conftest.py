"""Fixtures of the live tests."""

from support.endpoint import programs, server
from support.live import cache, steelyard

__all__ = ["cache", "programs", "server", "steelyard"]
