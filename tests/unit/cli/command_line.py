"""The command line in this process: what a user types, and what comes back."""

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from fakes.campaigns import a_record
from steelyard.cli import main as entry

EXPERIMENT = """\
version: 1
name: small
workloads:
  - {name: reads, builtin: select-only, scale: 1}
load: {clients: 1, protocol: simple}
seed: 1
configurations:
  default: {}
  other: {extends: default}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """Runs the command line and keeps what it printed."""

    monkeypatch: pytest.MonkeyPatch
    captured: pytest.CaptureFixture[str]

    def run(self, *words: str) -> tuple[int, str, str]:
        """Return exit code, standard output and standard error of ``steelyard WORDS``."""
        self.monkeypatch.setattr(sys, "argv", ["steelyard", *words])
        code = int(entry._outcome())
        out, err = self.captured.readouterr()
        return code, out, err


def a_campaign(path: Path) -> Path:
    """Return the directory of a campaign that was decided."""
    return a_record(path)
