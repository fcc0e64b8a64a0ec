"""A cluster in memory with an operator in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster_world import World, make_world


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Yield a cluster with an operator, a namespace and a Secret."""
    monkeypatch.setenv("STEELYARD_CACHE", str(tmp_path))
    world = make_world()
    yield world
    world.means.reach.close()
