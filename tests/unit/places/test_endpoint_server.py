"""A server that is there: commands that restart and reset it, and the SQL that changes it."""

import os
import re
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_endpoint_platform import _Place

from fakes.doors import fake_doors
from fakes.programs import FakeProgram
from fakes.sql import FakeSql
from steelyard.core.outside import Command, ServerAddress
from steelyard.core.target import EndpointTarget
from steelyard.core.wording import PreflightError, TargetError, sql_literal
from steelyard.gateways.process import Processes, RunningProcess
from steelyard.places import elsewhere
from steelyard.places import elsewhere as restart_command
from steelyard.systems.postgres.existing import server as statements
from steelyard.systems.postgres.existing.platform import EndpointPlatform
from steelyard.systems.postgres.existing.server import COMMAND, STARTED_AT, DatasetNeeds, restart

_ADDRESS = ServerAddress(host="/fake", port=5432, user="postgres", database="postgres")


def test_a_death_during_a_restart_leaves_no_file_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the command is at work its output has no name, and what it prints is still told."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    means = fake_doors(sql=FakeSql({STARTED_AT: [("monday",)]}), processes=Processes())
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


class _Patient(Processes):
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
    means = fake_doors(sql=FakeSql({STARTED_AT: [("monday",)]}), processes=processes)
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
        ("local_preload_libraries", "", 'ALTER SYSTEM RESET "local_preload_libraries"'),
        ("search_path", "", "ALTER SYSTEM SET \"search_path\" = ''"),
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
    written = sql_literal(text)
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


_SCRIPTS = DatasetNeeds(name="steelyard_scripts", tables=False, scripts=False)
_TABLES = DatasetNeeds(name="steelyard_s1", tables=True, scripts=False)


def _platform(script: str, *, timeout_s: float = 20.0, writes: bool = True) -> EndpointPlatform:
    """Return a server with the database `shop`, which a shell script brings back."""
    target = EndpointTarget(
        dbname="shop",
        allow_existing=True,
        reset_command=("sh", "-c", script),
        reset_timeout_s=timeout_s,
    )
    place = _Place(target=target, datasets=(_SCRIPTS,))
    place.server.databases["shop"] = None
    means = replace(place.means, processes=Processes())
    options = replace(place.platform._options, writes=writes)
    return EndpointPlatform(options, place.ledger, means)


def _refuse_to_build(_: object) -> None:
    return None


def test_the_command_brings_the_data_back_before_every_start(tmp_path: Path) -> None:
    """It knows the database as every client of libpq, and the server goes on afterwards."""
    said = tmp_path / "said"
    names = "$PGHOST $PGPORT $PGUSER $PGDATABASE $PGPASSWORD $PGAPPNAME"
    platform = _platform(f'echo "{names}" >> {said}')
    state = platform.prepare(FakeProgram(), ["data"], _refuse_to_build)
    assert platform.means() == (COMMAND,)
    for starts in (1, 2):
        assert platform.restore(state, COMMAND) >= 0.0
        platform.start(state, FakeProgram(), {"work_mem": "9MB"})
        assert platform.is_running
        lines = said.read_text().splitlines()
        assert lines == ["db 5432 bench shop planted steelyard-reset"] * starts


def test_nothing_runs_it_but_the_start(tmp_path: Path) -> None:
    """Checks, findings, facts and the preparation tell what it is, and leave it alone."""
    mark = tmp_path / "mark"
    platform = _platform(f"touch {mark}")
    platform.require_ready()
    (told,) = [each for each in platform.findings() if each.code == "reset-command"]
    assert f"touch {mark}" in told.message
    assert "for at most 20 s each" in told.message
    assert any(f"touch {mark}" in fact.value for fact in platform.facts())
    assert "weaker-reset" not in {each.code for each in platform.findings()}
    platform.prepare(FakeProgram(), ["data"], _refuse_to_build)
    platform.destroy()
    assert not mark.exists()


@pytest.mark.parametrize(
    ("script", "timeout_s", "words"),
    [
        ("echo one; echo two >&2; exit 3", 20.0, "the reset command exited with 3: one two"),
        ("exit 1", 20.0, "the reset command exited with 1: it printed nothing"),
        ("echo begun; sleep 600", 0.2, "the reset command did not end within 0 s"),
    ],
)
def test_a_command_that_fails_is_told_with_what_it_said(
    script: str, timeout_s: float, words: str
) -> None:
    """And the data count as brought back by nobody: no configuration is in force."""
    platform = _platform(script, timeout_s=timeout_s)
    state = platform.prepare(FakeProgram(), ["data"], _refuse_to_build)
    with pytest.raises(TargetError, match=words):
        platform.restore(state, COMMAND)
    assert not platform.is_running


def test_what_hangs_is_ended(tmp_path: Path) -> None:
    """A restore that goes on would change the data in the middle of a run."""
    pid = tmp_path / "pid"
    platform = _platform(f"echo $$ > {pid}; exec sleep 600", timeout_s=1.0)
    state = platform.prepare(FakeProgram(), ["data"], _refuse_to_build)
    with pytest.raises(TargetError, match="did not end within 1 s"):
        platform.restore(state, COMMAND)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_a_server_that_does_not_come_back_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rollback that stopped the server and did not start it again."""
    platform = _platform("true")
    state = platform.prepare(FakeProgram(), ["data"], _refuse_to_build)
    monkeypatch.setattr(elsewhere, "_TIMEOUT_S", 0.2)
    monkeypatch.setattr(platform, "_started_at", _unreachable)
    with pytest.raises(TargetError, match="after the reset command the server is not back: gone"):
        platform.restore(state, COMMAND)


def _unreachable() -> object:
    raise TargetError("gone")


def _reads_only() -> EndpointPlatform:
    return _platform("true", writes=False)


def _with_builtin() -> EndpointPlatform:
    platform = _platform("true")
    platform._options = replace(platform._options, datasets=(_TABLES,))
    return platform


def _with_own_database() -> EndpointPlatform:
    platform = _platform("true")
    target = EndpointTarget(reset_command=("true",))
    platform._options = replace(platform._options, target=target)
    return platform


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (_reads_only, "would have nothing to bring back"),
        (_with_builtin, "which Steelyard makes once"),
        (_with_own_database, "Steelyard makes and copies from a template"),
    ],
)
def test_it_is_refused_where_it_makes_no_sense(
    made: Callable[[], EndpointPlatform], words: str
) -> None:
    """Where nothing is written, and where it would take away the tables of the campaign."""
    with pytest.raises(PreflightError, match=words) as caught:
        made().require_ready()
    assert "remove `reset_command`" in caught.value.hint.replace("Remove", "remove")


def test_an_interruption_ends_the_command(tmp_path: Path) -> None:
    """It has a session of its own and would act on the server after Steelyard."""
    pid = tmp_path / "pid"
    command = Command(argv=("sh", "-c", f"echo $$ > {pid}; exec sleep 600"))

    def interrupted() -> None:
        with elsewhere._started(command, Processes()):
            while not pid.exists() or not pid.read_text():
                time.sleep(0.01)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
