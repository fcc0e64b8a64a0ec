"""What several tests of reports need."""

import pytest

from steelyard.report import html


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the charts out of a page, because to draw them takes longer than all the rest."""
    monkeypatch.setattr(html, "can_draw", lambda: False)
