"""Campaigns of these tests register in a cache of their own."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STEELYARD_CACHE", str(tmp_path / "cache"))
