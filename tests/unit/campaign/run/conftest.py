"""Campaigns of these tests flush nothing, and ask their images anew."""

import os
from collections.abc import Iterator

import pytest

from steelyard.targets import kubernetes_site as kubernetes_images


@pytest.fixture(autouse=True)
def _no_power_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flush nothing: thousands of flushes wait for a disk that all tests share."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(autouse=True)
def _nothing_known() -> Iterator[None]:
    """Let every test ask its images anew."""
    kubernetes_images._KNOWN.clear()
    yield
    kubernetes_images._KNOWN.clear()
