"""Fixtures of the live tests."""

import pytest

from support.endpoint import programs, server
from support.live import cache, steelyard

__all__ = ["cache", "programs", "server", "steelyard"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest test first: beside it others can run, after it nobody would."""
    items.sort(key=lambda item: "test_kills" not in item.nodeid)
