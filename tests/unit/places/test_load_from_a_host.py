"""Load generators on a host: the real agent behind an ``ssh`` that stays on this machine."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.core.outside import Command
from steelyard.core.wording import MeasurementError, PreflightError, TargetError
from steelyard.gateways.host import Clock
from steelyard.gateways.process import SystemProcesses
from steelyard.gateways.ssh import Destination, SshHost
from steelyard.places.agent import host as hosts
from steelyard.places.agent.host import GeneratorHost, HostProcesses

# The last word is what the shell over there reads; `-M` holds a connection open.
_SSH = """\
#!/bin/sh
[ -e "{home}/down" ] && {{ echo "no route to host" >&2; exit 255; }}
for last; do :; done
export TMPDIR={home}
exec sh -c "$last"
"""
_NAME = "steelyard-trial-0a1b"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where directories are made over there; `ssh` is one that stays here."""
    programs = tmp_path / "bin"
    programs.mkdir()
    there = tmp_path / "there"
    there.mkdir()
    (programs / "ssh").write_text(_SSH.format(home=there))
    (programs / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return there


@pytest.fixture
def host(home: Path) -> Iterator[GeneratorHost]:
    """Yield a host whose agent was not started yet; it is closed."""
    reached = SshHost(destination=Destination(host="lab"), processes=SystemProcesses())
    made = GeneratorHost(reached, f"{_NAME}-{home.parent.name}", 2)
    yield made
    made.close()
    assert not list(home.iterdir())
    assert not list(Path("/dev/shm").glob(f"{_NAME}-{home.parent.name}*"))  # noqa: S108


@pytest.fixture
def told() -> list[str]:
    """Return what was told."""
    return []


@pytest.fixture
def there(host: GeneratorHost, tmp_path: Path, told: list[str]) -> HostProcesses:
    """Return what runs programs there."""
    host.make()
    return HostProcesses(host, Clock(), roots=[tmp_path], told=told.append)


def _shell(text: str, *words: object, **environment: str) -> Command:
    argv = ("bash", "-c", text, *map(str, words))
    return Command(argv=argv, environment=environment)


def test_a_program_runs_there_with_its_files(there: HostProcesses, tmp_path: Path) -> None:
    """What it reads goes along, what it writes beside a prefix comes back, and its CPU is known."""
    (tmp_path / "script.sql").write_text("SELECT 1;\n")
    log = tmp_path / "log"
    text = 'cat "$0"; for ((n = 0; n < 200000; n++)); do :; done; echo logged >"$1.7"'
    (done,) = there.run_together([_shell(text, tmp_path / "script.sql", log)], timeout_s=20)
    assert done.stdout == "SELECT 1;\n"
    assert (tmp_path / "log.7").read_text() == "logged\n"
    assert 0.0 < there.sight.used_s() < 20.0
    assert there.sight.cpus == len(os.sched_getaffinity(0))


def test_a_password_gets_there_and_stays_in_no_file(there: HostProcesses, home: Path) -> None:
    """The program has it in its environment; no order's file holds it once it runs."""
    text = 'grep -rl "[s]ecret word" "$0" || echo nowhere; echo "$PGPASSWORD"'
    done = there.run(_shell(text, home, PGPASSWORD="a secret word's"), timeout_s=20)
    assert done.stdout.splitlines() == ["nowhere", "a secret word's"]


def test_two_begin_together_and_take_turns(there: HostProcesses) -> None:
    """They are stopped and go on, and end with what they printed."""
    programs = there.begin_together([_shell("sleep 0.2; echo over")] * 2, timeout_s=20)
    try:
        assert programs.stop()
        programs.go()
        assert [each.stdout for each in programs.completed()] == ["over\n"] * 2
    finally:
        programs.close()


def test_an_agent_that_was_killed_is_started_anew(
    there: HostProcesses, host: GeneratorHost, home: Path, told: list[str]
) -> None:
    """The next run has a new one in another directory; what the old one left is taken away."""
    (server,) = home.glob("*/server")
    os.kill(int(server.read_text()), signal.SIGKILL)
    assert there.run(_shell("echo again"), timeout_s=20).stdout == "again\n"
    assert told == ["the agent on host lab has ended; it is started anew"]
    assert [each.name.rpartition("-")[2] for each in home.iterdir()] == ["2"]


def test_an_agent_leaves_when_it_hears_of_nobody(
    host: GeneratorHost, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all that it started and all of its files, as after our death."""
    monkeypatch.setattr(hosts, "LEASE_S", 1)
    host.make()
    assert list(home.iterdir())
    until = time.monotonic() + 60
    while list(home.iterdir()):
        assert time.monotonic() < until
        time.sleep(0.1)


def test_a_host_that_is_away_is_said(host: GeneratorHost, home: Path) -> None:
    """With ssh's own words, and the command to try."""
    (home / "down").touch()
    try:
        with pytest.raises(TargetError, match="lab cannot be reached over ssh: no route") as told:
            host.make()
        assert "ssh -o BatchMode=yes -- lab true" in told.value.hint
    finally:
        (home / "down").unlink()


def test_a_host_without_room_is_refused(host: GeneratorHost, home: Path) -> None:
    """Where no directory can be made the reason is told."""
    (home / f"{_NAME}-{home.parent.name}-1").touch()
    try:
        with pytest.raises(PreflightError, match="no directory can be made there"):
            host.make()
    finally:
        (home / f"{_NAME}-{home.parent.name}-1").unlink()


def test_more_generators_than_were_asked_for_are_refused(there: HostProcesses) -> None:
    """There are as many places as the largest load has generators."""
    with pytest.raises(MeasurementError, match="3 load generators need as many"):
        there.run_together([_shell("true")] * 3, timeout_s=5)
