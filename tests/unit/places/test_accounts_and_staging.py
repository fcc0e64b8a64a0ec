"""Which account servers run as, and programs where that account can reach them."""

import os
import pwd
import shutil
from pathlib import Path

import pytest

from fakes.processes import Answer, FakeProcesses
from steelyard.core.outside import Command
from steelyard.core.wording import ExitCode, PreflightError, PrivilegeError
from steelyard.places.local import server as account
from steelyard.places.local import server as staging
from steelyard.places.local.server import server_account


def test_an_ordinary_user_runs_servers_as_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing to change, and another account cannot be had."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert server_account([]) is None
    with pytest.raises(PrivilegeError, match="only root") as caught:
        server_account(["postgres"])
    assert caught.value.exit_code is ExitCode.PRIVILEGE


def test_root_takes_the_first_unprivileged_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL refuses root: what is named counts, else its own account, else ``nobody``."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    there = {entry.pw_name for entry in pwd.getpwall()}
    assert server_account([]) == ("postgres" if "postgres" in there else "nobody")
    monkeypatch.setattr(account, "_ACCOUNTS", ("no-such-account", "nobody"))
    assert server_account([]) == "nobody"
    assert server_account(["nobody"]) == "nobody"


@pytest.mark.parametrize("asked", ["root", "no-such-account"])
def test_an_account_that_will_not_do_is_refused(
    monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    """Root itself and absent accounts, with the key that sets another."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(PrivilegeError, match=f"there is no account {asked}") as caught:
        server_account([asked])
    assert "run_as" in caught.value.hint


def test_two_accounts_in_one_experiment_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prepared data belong to one account."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(PreflightError, match="daemon, nobody"):
        server_account(["nobody", "daemon"])


def _copies(command: Command) -> None:
    *parts, target = command.argv[2:]
    for part in parts:
        shutil.copytree(part, Path(target) / Path(part).name)


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Return the parts of a wheel, with a cache beside them and nobody who can reach them."""
    monkeypatch.setenv("STEELYARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(staging, "reachable_by", lambda _path, account: account is None)
    parts = (tmp_path / "site" / "pg", tmp_path / "site" / "pg.libs")
    for part in parts:
        (part / "bin").mkdir(parents=True)
    (parts[0] / "bin" / "postgres").touch()
    return parts


def test_programs_within_reach_stay_where_they_are(wheel: tuple[Path, Path]) -> None:
    """Nothing is copied without need."""
    programs = wheel[0] / "bin"
    found = staging.staged(programs, wheel, "pg-18.6", account=None, processes=FakeProcesses())
    assert found == programs


def test_programs_out_of_reach_are_copied_once_with_their_libraries(
    wheel: tuple[Path, Path], tmp_path: Path
) -> None:
    """The copy has the same shape, and the next campaign finds it."""
    processes = FakeProcesses()
    processes.on("cp", answer=Answer(does=_copies))
    processes.on("sync")
    for _ in range(2):
        found = staging.staged(
            wheel[0] / "bin", wheel, "pg-18.6", account="nobody", processes=processes
        )
        assert found == tmp_path / "cache" / "programs" / "pg-18.6" / "pg" / "bin"
        assert (found / "postgres").exists()
        assert (found.parents[1] / "pg.libs").is_dir()
    assert [command.argv[0] for command in processes.ran] == ["cp", "sync"]


def test_a_copy_has_its_name_when_it_is_on_disk(wheel: tuple[Path, Path], tmp_path: Path) -> None:
    """After a power cut a copy that is there is whole: it is flushed under another name."""
    home = tmp_path / "cache" / "programs" / "pg-18.6"
    unfinished = home.with_name("pg-18.6.unfinished")
    seen: list[tuple[tuple[str, ...], bool]] = []
    processes = FakeProcesses()
    processes.on("cp", answer=Answer(does=_copies))
    processes.on("sync", answer=Answer(does=lambda c: seen.append((c.argv[1:], home.exists()))))
    staging.staged(wheel[0] / "bin", wheel, "pg-18.6", account="nobody", processes=processes)
    assert seen == [(("--file-system", str(unfinished)), False)]
    assert home.exists()


def test_a_copy_that_failed_or_was_broken_off_is_made_anew(
    wheel: tuple[Path, Path], tmp_path: Path
) -> None:
    """Half a copy is never used, and the failure is a sentence."""
    processes = FakeProcesses()
    processes.on("sync")
    processes.on("cp", answer=Answer(exit_status=1, stderr="cp: No space left on device\n"))
    home = tmp_path / "cache" / "programs"
    (home / "pg-18.6.unfinished" / "half").mkdir(parents=True)

    def stage() -> Path:
        return staging.staged(
            wheel[0] / "bin", wheel, "pg-18.6", account="nobody", processes=processes
        )

    with pytest.raises(PreflightError, match="No space left on device") as caught:
        stage()
    assert "STEELYARD_CACHE" in caught.value.hint
    assert not (home / "pg-18.6").exists()
    processes.on("cp", answer=Answer(does=_copies))
    assert (stage() / "postgres").exists()
    assert not (home / "pg-18.6" / "half").exists()
