"""A real server and pgbench that stand still: nothing of them runs, and nothing stays frozen.

Each by the freezer of both versions of control groups, and by signals as an ordinary account.
"""

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from steelyard.core.linux import Controller
from steelyard.core.wording import PrivilegeError
from steelyard.gateways.cgroups import Cgroups, Families
from steelyard.places.local.groups import is_frozen, thaw
from support.endpoint import as_account
from support.lacking import lacking
from support.live import TINY, wait_for, write_experiment
from support.paused import CLIENTS, KINDS, PAUSES, OneVersion, Paused

pytestmark = [pytest.mark.live, pytest.mark.slow]

_ROOT = Path(__file__).parents[2]
_SHARE = 0.01  # of a pause; a process that is frozen may have microseconds to go


class Account:
    """Whoever runs campaigns of one kind: root, or an ordinary account where signals are all."""

    def __init__(self, kind: str, programs: Path, home: Path) -> None:
        self.kind = kind
        self.cache = home / "cache"
        self._home = home
        self._programs = programs
        self._started: list[subprocess.Popen[str]] = []
        self._prefix = as_account() if kind == "signals" else []
        paths = os.pathsep.join(str(_ROOT / name) for name in ("src", "tests"))
        self._env = {**os.environ, "STEELYARD_CACHE": str(self.cache), "PYTHONPATH": paths}
        if self._prefix:
            entry = pwd.getpwnam("nobody")
            os.chown(home, entry.pw_uid, entry.pw_gid)
            if self._run("-c", "import steelyard, pydantic").returncode:
                lacking("an ordinary account cannot reach this Python")
        self._run(
            "-c", f"import os; os.mkdir({str(self.cache)!r}); os.chmod({str(self.cache)!r}, 0o755)"
        )

    def _run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*self._prefix, sys.executable, *words],
            check=False,
            cwd=self._home,
            env=self._env,
            capture_output=True,
            text=True,
            timeout=300,
        )

    def steelyard(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run Steelyard to its end."""
        return self._run("-m", "steelyard", *words)

    def start(self, verb: str) -> "subprocess.Popen[str]":
        """Start a server under load that is paused."""
        words = ["-m", "support.paused", self.kind, str(self._programs), str(self.cache), verb]
        process = subprocess.Popen(
            [*self._prefix, sys.executable, *words],
            cwd=self._home,
            env=self._env,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def end(self) -> None:
        """Kill what a failed test has left running; its guard ends with it."""
        for process in self._started:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def hold(self) -> "Held":
        """Return a campaign that stands still."""
        process = self.start("hold")
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.wait()
        return Held(process, json.loads(line))

    def experiment(self) -> None:
        """Write an experiment, and put something in the way of its record."""
        text = TINY.replace("server: embedded", f'server: "{self._programs}"')
        write_experiment(self._home / "tiny.yaml", text)
        (self._home / "c").mkdir()
        (self._home / "c" / "notes").write_text("of somebody else")


class Held:
    """A campaign that stands still."""

    def __init__(self, process: "subprocess.Popen[str]", seen: dict[str, Any]) -> None:
        self.process = process
        self.guard: int = seen["guard"]
        self.server: int = seen["server"]
        self.pids: list[int] = seen["pids"]
        self.groups = [Path(group) for group in seen["groups"]]

    def kill(self) -> None:
        """Kill Steelyard."""
        self.process.kill()
        self.process.communicate()

    @property
    def server_stands_still(self) -> bool:
        """Return whether the server is there and frozen or stopped."""
        families = Families()
        family = families.of([self.server])
        if self.groups:
            group = next(group for group in self.groups if group.name.endswith("server"))
            inside = set(family) <= set(Cgroups().members(group))
            return bool(family) and inside and is_frozen(group, Cgroups())
        return bool(family) and set(families.stopped(family)) == set(family)

    @property
    def is_over(self) -> bool:
        """Return whether every process of it is gone, and nothing is frozen."""
        lives = any(_lives(pid) for pid in (*self.pids, self.guard))
        return not lives and not any(is_frozen(group, Cgroups()) for group in self.groups)


def _lives(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.fixture(params=KINDS)
def account(request: pytest.FixtureRequest, programs: Path) -> Iterator[Account]:
    """Return who runs campaigns; whatever became of a test, nothing of it is frozen afterwards."""
    kind = str(request.param)
    if kind != "signals":
        _require_freezer(kind)
    home = Path(tempfile.mkdtemp(prefix="standstill-", dir="/var/tmp"))
    home.chmod(0o755)
    try:
        made = Account(kind, programs, home)
        try:
            yield made
        finally:
            made.end()
    finally:
        _rescue(home)
        shutil.rmtree(home)


def _require_freezer(kind: str) -> None:
    if os.geteuid() != 0:
        lacking("only root can make control groups")
    try:
        OneVersion(kind).hierarchy(Controller.FREEZER)
    except PrivilegeError as error:
        pytest.skip(error.message)  # machines have one version or the other


def _rescue(home: Path) -> None:
    """Thaw, end and remove all that works below a directory."""
    cgroups = Cgroups()
    named = (entry.name for entry in (home / "cache" / "records").glob("*"))
    names = {f"steelyard-{name}-{role}" for name in named for role in ("server", "generator")}
    groups = [root / name for root in cgroups.roots() for name in names]
    there = [group for group in groups if group.exists()]
    for group in there:
        thaw(group, cgroups)
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if str((entry / "cwd").readlink()).startswith(f"{home}/"):
                os.kill(int(entry.name), signal.SIGKILL)
                os.kill(int(entry.name), signal.SIGCONT)
    for group in there:
        wait_for(lambda each=group: cgroups.remove(each))  # type: ignore[misc]


def test_nothing_runs_in_a_pause_and_everything_after_it(account: Account) -> None:
    """Two hundred pauses under load: CPU time stands still in each, and goes on afterwards.

    In a long one neither utime nor stime of any process moves.
    """
    process = account.start("measure")
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    seen = json.loads(said)
    assert seen["kind"] == ("signals" if account.kind == "signals" else "freezer")
    assert seen["missed"] < PAUSES  # a machine may be that busy
    assert seen["ran_s"] < _SHARE * seen["watched_s"]
    assert seen["idle_afterwards"] < PAUSES
    assert seen["transactions"] > PAUSES
    assert len(seen["ticks_before"]) > CLIENTS + 2  # sessions, first process, generator, others
    assert seen["ticks_after"] == seen["ticks_before"]


def test_the_guard_lets_everything_go_when_steelyard_is_killed(account: Account) -> None:
    """After kill -9 in a pause the processes get the signal that they die by, and `clean` the rest.

    Interrupting the terminal or ending the session does not end the guard before.
    """
    held = account.hold()
    assert held.server_stands_still
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
        os.kill(held.guard, number)
    held.kill()
    wait_for(lambda: held.is_over)
    cleaned = account.steelyard("clean", "--yes")
    assert cleaned.returncode == 0, cleaned.stderr
    assert "frozen" not in cleaned.stdout
    assert not any(group.exists() for group in held.groups)


def _kill_with_guard(held: Held) -> None:
    """Kill both; the server stays as it is."""
    os.kill(held.guard, signal.SIGKILL)
    held.kill()
    time.sleep(0.5)
    assert held.server_stands_still


def test_clean_finds_what_stands_still_without_a_guard(account: Account) -> None:
    """It says what is frozen, then thaws, ends and removes it; a dry run leaves it as it is."""
    held = account.hold()
    _kill_with_guard(held)
    shown = account.steelyard("clean", "--dry-run")
    assert shown.returncode == 0, shown.stderr
    assert held.server_stands_still
    for group in held.groups:
        assert f"control group {group} (frozen)" in shown.stdout
    if account.kind == "signals":
        assert f"process {held.server} (stopped)" in shown.stdout
    cleaned = account.steelyard("clean", "--yes")
    assert cleaned.returncode == 0, cleaned.stderr
    assert held.is_over
    assert not any(group.exists() for group in held.groups)
    again = account.steelyard("clean", "--dry-run")
    assert "No campaign has left anything behind." in again.stdout


def test_the_next_campaign_ends_what_stands_still(account: Account) -> None:
    """Before anything else, also one that is refused: with the name of what was frozen."""
    held = account.hold()
    _kill_with_guard(held)
    account.experiment()
    refused = account.steelyard("run", "tiny.yaml", "--dir", "c", "--no-verdict")
    assert refused.returncode != 0
    frozen = [f"control group {group}" for group in held.groups] or [f"process {held.server}"]
    assert all(name in refused.stderr for name in frozen), refused.stderr
    assert "left frozen" in refused.stderr
    assert held.is_over
    assert not any(group.exists() for group in held.groups)


@pytest.mark.parametrize("account", ["v1", "v2"], indirect=True)
def test_a_server_whose_thread_died_in_a_pause_is_destroyed(
    account: Account, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel tells it to end with the thread that started it; frozen it hears that too late."""
    monkeypatch.setenv("STEELYARD_CACHE", str(account.cache))
    paused = Paused(account.kind, programs, account.cache, name=f"thread-{os.getpid()}")
    try:
        _in_thread(lambda: (paused.start(), paused.platform.standstill.pause()))
        pids = paused.pids
        assert all(is_frozen(group, Cgroups()) for group in paused.guarded.groups)
        assert len(pids) > CLIENTS
    finally:
        paused.destroy()
    assert not any(_lives(pid) for pid in pids)
    assert not any(group.exists() for group in paused.guarded.groups)


def _in_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
