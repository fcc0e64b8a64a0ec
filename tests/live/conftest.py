"""Fixtures of the live tests."""

import pytest

from support.endpoint import programs, server
from support.live import cache, steelyard

__all__ = ["cache", "programs", "server", "steelyard"]


_MACHINE = ("test_stack_", "test_libvirt_")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what changes the machine: every PostgreSQL beside it would take of its huge pages."""
    if item.path.name.startswith(_MACHINE):
        item.add_marker("machine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest tests first: beside them others can run, after them nobody would."""
    long = ("test_kills", "test_burst_cliffs")
    items.sort(key=lambda item: not any(name in item.nodeid for name in long))
