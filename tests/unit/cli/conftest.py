"""Every test has a directory of its own."""

from pathlib import Path

import pytest
from command_line import Shell


@pytest.fixture
def shell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Shell:
    """Return a shell in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return Shell(monkeypatch=monkeypatch, captured=capsys)
