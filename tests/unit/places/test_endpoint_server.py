"""A server that is there: the user's restart command, and the SQL that changes it."""

import os
import re
import signal
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.clock import FakeClock
from fakes.sql import FakeSql
from steelyard.core.outside import Command, ServerAddress
from steelyard.core.wording import TargetError
from steelyard.gateways.process import RunningProcess, SystemProcesses
from steelyard.places import elsewhere as restart_command
from steelyard.systems.postgres.existing import server as statements
from steelyard.systems.postgres.existing.server import STARTED_AT, Means, restart

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
        restart(("sh", "-c", script), lambda: _ADDRESS, means)


class _Patient(SystemProcesses):
    """Programs that have come to a file when they count as started."""

    def __init__(self, awaited: Path) -> None:
        self.awaited = awaited
        self.leader = 0

    def start(self, command: Command, *, output: Path) -> RunningProcess:
        process = super().start(command, output=output)
        self.leader = process.pid
        while not (self.awaited.exists() and self.awaited.read_text().endswith("\n")):
            assert process.exit_status() is None
            time.sleep(0.01)
        return process


def _runs(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def _hanging(monkeypatch: pytest.MonkeyPatch, script: str, awaited: Path) -> tuple[str, _Patient]:
    """Return what is said of a restart command that hangs."""
    monkeypatch.setattr(restart_command, "_TIMEOUT_S", 0.01)
    processes = _Patient(awaited)
    means = Means(sql=FakeSql({STARTED_AT: [("monday",)]}), processes=processes, clock=FakeClock())
    with pytest.raises(TargetError, match="the restart command did not end within") as caught:
        restart(("sh", "-c", script), lambda: _ADDRESS, means)
    return caught.value.hint, processes


def test_a_command_that_hangs_is_killed_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child of it would restart the server later, in the middle of a run."""
    child = tmp_path / "child"
    later = "for _ in $(seq 3000); do sleep 0.01; done; echo restarted"
    script = f"sh -c '{later}' & echo $! > {child}; wait"
    hint, processes = _hanging(monkeypatch, script, child)
    assert not _runs(int(child.read_text()))
    assert not Path(f"/proc/{processes.leader}").exists()  # and nobody has to reap it
    assert hint == "Try it by hand, as the account that runs Steelyard."


def test_what_left_the_session_of_a_command_that_hangs_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be the server itself, which is not killed; so it is told."""
    child = tmp_path / "child"
    script = f"setsid sh -c 'echo $$ > {child}; exec sleep 1000' & wait"
    hint, _ = _hanging(monkeypatch, script, child)
    pid = int(child.read_text())
    try:
        told = rf"It was killed, but .* still runs and may yet act: {pid} \((sh|sleep)\)\."
        assert re.match(told, hint)
        assert _runs(pid)
    finally:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("name", "value", "statement"),
    [
        ("work_mem", "9MB", "ALTER SYSTEM SET \"work_mem\" = '9MB'"),
        ("work_mem", None, 'ALTER SYSTEM RESET "work_mem"'),
        ("a.b", "it's", "ALTER SYSTEM SET \"a\".\"b\" = 'it''s'"),
        ("log_line_prefix", "\\x", "ALTER SYSTEM SET \"log_line_prefix\" = E'\\\\x'"),
        ("search_path", '"$user", public', "ALTER SYSTEM SET \"search_path\" = '$user', 'public'"),
        ("search_path", '"a, ""b"""', 'ALTER SYSTEM SET "search_path" = \'a, "b"\''),
        ("DateStyle", "ISO, DMY", "ALTER SYSTEM SET \"DateStyle\" = 'ISO, DMY'"),
    ],
)
def test_alter_system(name: str, value: str | None, statement: str) -> None:
    """Values are quoted; lists whose items the server quotes are given item by item."""
    assert statements.set_system(name, value) == statement


def test_session_options() -> None:
    """Spaces and backslashes survive libpq's splitting."""
    assert statements.session_options({}) == ""
    options = statements.session_options({"work_mem": "9 MB", "a.b": "x\\y"})
    assert options == r"-c work_mem=9\ MB -c a.b=x\\y"


@given(st.text(alphabet=st.characters(exclude_characters="\0")))
def test_a_literal_never_ends_early(text: str) -> None:
    """Whatever stands inside, undoing the quoting gives it back."""
    written = statements.literal(text)
    inside = written.removeprefix("E")[1:-1]
    if written.startswith("E"):
        inside = inside.replace("\\\\", "\\")
    assert inside.replace("''", "'") == text
    assert inside.count("'") % 2 == 0


@given(st.text())
def test_an_identifier_never_ends_early(text: str) -> None:
    """Double quotes are doubled."""
    assert statements.identifier(text)[1:-1].replace('""', '"') == text


@pytest.mark.parametrize(
    ("version", "drop", "copy"),
    [
        (120000, 'DROP DATABASE IF EXISTS "a"', 'CREATE DATABASE "a" TEMPLATE "b"'),
        (180006, "(FORCE)", "STRATEGY FILE_COPY"),
    ],
)
def test_versions(version: int, drop: str, copy: str) -> None:
    """What an old server does not know is left out."""
    assert statements.drop_database("a", version).endswith(drop)
    assert statements.copy_database("a", "b", version).endswith(copy)
