"""``crash-test`` of both engines: what is refused before anything starts, and what is shown."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Shell

from fakes.crashes import ALWAYS, NO, a_crash, a_test
from steelyard.cli import crash_testing
from steelyard.core.crash import CrashTest
from steelyard.core.redis import Death
from steelyard.core.wording import PreflightError
from steelyard.crash import testing as engines
from steelyard.crash.testing import Asked, Subject, crash_test
from steelyard.gateways.doors import Doors
from support.crash_page import read_crash_test


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Asked]:
    """Take the place of the test itself; return what it was asked for."""
    seen: list[Asked] = []

    def found(subject: Subject, asked: Asked, doors: Doors, taken: object) -> CrashTest:
        assert callable(taken)
        seen.append(asked)
        one = a_test(a_crash(NO, 900))
        taken(one)
        return one

    monkeypatch.setattr(crash_testing, "crash_test", found)
    monkeypatch.setattr(engines, "redis_subject", lambda *_: None)
    return seen


def test_a_mode_cannot_be_made_another(shell: Shell) -> None:
    """A setting that a mode is about is not changed behind its name."""
    words = ("--modes", "always", "--set", "appendfsync=no")
    code, _, err = shell.run("crash-test", "redis", *words)
    assert code == 2
    assert "would change what mode always is" in err


def test_an_absent_server_is_told(shell: Shell) -> None:
    """Exit code 3 with the package that has it."""
    code, _, err = shell.run("crash-test", "redis", "--server", "no-such-redis", "--deaths", "kill")
    assert code == 3
    assert "no-such-redis" in err


def test_a_server_with_a_replica_is_killed_and_never_cut(shell: Shell, asked: list[Asked]) -> None:
    """Beside others it has no part in the cuts: there it would be a kill by another name."""
    words = ("--modes", "off,split", "--deaths", "kill,power")
    shell.run("crash-test", "redis", *words)
    pairs = [(mode.name, death) for mode, death in asked[0].pairs()]
    kills = [("off", Death.KILL), ("off", Death.POWER), ("split", Death.KILL)]
    assert pairs == kills


def test_a_cut_of_a_server_with_a_replica_alone_is_refused(tmp_path: Path) -> None:
    """Before anything is begun, with the way out."""
    split = next(mode for mode in engines.REDIS_MODES if mode.replica is not None)
    asked = Asked(
        modes=(split,),
        deaths=(Death.POWER,),
        cuts=1,
        clients=1,
        pipeline=1,
        longest_s=1.0,
        seed=1,
        root=tmp_path,
        account=None,
    )
    nothing: Any = None
    with pytest.raises(PreflightError, match="split cannot be cut") as caught:
        crash_test(nothing, asked, nothing, lambda _: None)
    assert "--deaths kill" in (caught.value.hint or "")


def test_modes_and_settings_reach_the_test(shell: Shell, asked: list[Asked]) -> None:
    """Further settings come before a mode's own, which therefore win where a file allows both."""
    words = ("--modes", "no,always", "--deaths", "power", "--set", "io-threads=2", "--seed", "5")
    code, out, err = shell.run("crash-test", "redis", *words, "--longest", "2s", "--cuts", "3")
    assert code == 0, err
    (seen,) = asked
    assert [mode.name for mode in seen.modes] == ["no", "always"]
    assert seen.modes[0].settings[0] == ("io-threads", "2")
    assert (seen.deaths, seen.cuts, seen.seed) == ((Death.POWER,), 3, 5)
    assert seen.longest_s == 2.0
    assert "1 of 6: no, power after 2.0 s: 1,000 acknowledged, 900 lost" in err
    assert "The power is cut" in out


def test_progress_and_table_count_alike(capsys: pytest.CaptureFixture[str]) -> None:
    """What a server answers while it is killed counts in the line of progress, too."""
    crash_testing._tell(a_test(a_crash(NO, 5, death=Death.KILL, late_lost=7)), 1)
    assert "no, kill after 2.0 s: 1,007 acknowledged, 12 lost" in capsys.readouterr().err


def test_results_are_written_and_can_be_read_again(tmp_path: Path) -> None:
    """``crash.json`` holds the test itself: reports can be made of it anew."""
    test = a_test(a_crash(NO, 900), a_crash(ALWAYS, unusable="x"))
    text = json.dumps(crash_testing.crash_content(test))
    assert read_crash_test(text) == test


def test_a_broken_promise_is_a_gate(
    shell: Shell, asked: list[Asked], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loss under appendfsync always ends with exit code 10, quietly asked for or not."""
    broken = a_test(a_crash(ALWAYS, 1))
    monkeypatch.setattr(crash_testing, "crash_test", lambda *_: broken)
    code, out, _ = shell.run("crash-test", "redis", "--json", "--quiet")
    assert code == 10
    assert json.loads(out)["broken"] is True
