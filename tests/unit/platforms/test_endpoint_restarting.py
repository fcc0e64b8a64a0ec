"""The user's restart command: what it says is told, and nothing of it stays behind."""

import tempfile
from pathlib import Path

import pytest

from fakes.clock import FakeClock
from fakes.sql import FakeSql
from steelyard.gateways.process import SystemProcesses
from steelyard.model.command import ServerAddress
from steelyard.model.errors import TargetError
from steelyard.platforms.endpoint.restarting import STARTED_AT, Means, restart

_ADDRESS = ServerAddress(host="/fake", port=5432, user="postgres", database="postgres")


def test_a_death_during_a_restart_leaves_no_file_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the command is at work its output has no name, and what it prints is still told."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    means = Means(
        sql=FakeSql({STARTED_AT: [("monday",)]}), processes=SystemProcesses(), clock=FakeClock()
    )
    # It goes on once the directory is empty; where that never comes, it says so.
    script = f"""
        for _ in $(seq 100); do
            [ -z "$(ls {tmp_path})" ] && echo nothing is left && exit 3
            sleep 0.05
        done
        ls {tmp_path}; exit 4
    """
    with pytest.raises(TargetError, match="exited with 3: nothing is left"):
        restart(("sh", "-c", script), _ADDRESS, means)
