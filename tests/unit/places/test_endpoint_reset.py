"""Data of one's own, brought back by a command of one's own: when it runs, with what, and how not.

The commands are real programs; the server is a few dictionaries.
"""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from test_endpoint_platform import _Place

from fakes.programs import FakeProgram
from steelyard.core.outside import Command
from steelyard.core.target import EndpointTarget
from steelyard.core.wording import PreflightError, TargetError
from steelyard.gateways.process import SystemProcesses
from steelyard.places import elsewhere
from steelyard.systems.postgres.existing.platform import EndpointPlatform
from steelyard.systems.postgres.existing.server import COMMAND, DatasetNeeds

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
    means = replace(place.means, processes=SystemProcesses())
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
        with elsewhere._started(command, SystemProcesses()):
            while not pid.exists() or not pid.read_text():
                time.sleep(0.01)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
