"""Campaigns of these tests register in a cache of their own, and ask their images anew."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.experiment import kubernetes_images


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STEELYARD_CACHE", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def _nothing_known() -> Iterator[None]:
    """Let every test ask its images anew."""
    kubernetes_images._KNOWN.clear()
    yield
    kubernetes_images._KNOWN.clear()
