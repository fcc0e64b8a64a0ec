"""Power cuts under real servers: an XFS on a loop device is shut down and mounted again.

A few cuts here; docs/crash-tests.md has the table of many.
"""

import json
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from steelyard.answers.crashes import CrashSummary, crash_summaries
from steelyard.core.outside import ServerAddress
from steelyard.core.redis import Death
from steelyard.crash.testing import REDIS_MODES, Asked, crash_test, redis_subject
from steelyard.gateways.doors import system_doors
from steelyard.places.local.server import server_account
from support.live import Steelyard, wait_for
from support.machine_lock import machine
from support.power import loops_below, mounts_below, require_power
from support.redis import require_redis

__all__ = ["machine"]
pytestmark = [pytest.mark.live, pytest.mark.machine]


@pytest.fixture
def power(machine: None, steelyard: Steelyard) -> Iterator[Steelyard]:
    """Steelyard where power can be cut; nothing is mounted and no loop device is left after it."""
    require_power()
    require_redis()
    place = steelyard.cache
    yield steelyard
    steelyard.end_all()
    left = [*mounts_below(place), *loops_below(place)]
    steelyard.run("clean", "--yes")
    assert left == []


def _summaries(steelyard: Steelyard, *words: str) -> dict[str, dict[str, Any]]:
    ended = steelyard.run(*words, "--deaths", "power", "--json")
    assert ended.returncode == 0, ended.stderr
    return {each["mode"]: each for each in json.loads(ended.stdout)["summaries"]}


def test_redis_loses_by_its_mode(power: Steelyard) -> None:
    """Nothing is lost with always, something with everysec, and with no all that was written.

    The kernel writes back only what is older than the load. Of everysec a cut may hit the instant
    after a flush; three in a row do not.
    """
    words = ("crash-test", "redis", "--modes", "no,everysec,always", "--cuts", "3")
    found = _summaries(power, *words, "--longest", "2s", "--seed", "1")
    assert found["always"]["losing"] == 0
    assert found["no"]["whole_load"] == 3
    assert found["no"]["control"] is True
    assert found["everysec"]["losing"] > 0
    assert [each["unflushed_taken"] for each in found.values()] == [3, 3, 3]
    assert all(each["longest_window_s"] > 0 for each in found.values())


def test_postgres_loses_by_its_mode(power: Steelyard) -> None:
    """A flushed commit survives a cut; without fsync all that was committed under load is gone."""
    words = ("crash-test", "postgresql", "--modes", "sync,no-fsync", "--cuts", "2")
    found = _summaries(power, *words, "--longest", "2s", "--seed", "1")
    assert found["sync"]["losing"] == 0
    assert found["no-fsync"]["losing"] == 2


def test_a_server_that_lies_about_its_flushes_is_found_out(power: Steelyard) -> None:
    """A Redis that says always and flushes never breaks its promise in the first cut."""
    (summary,) = _by_a_liar(power.cache)
    assert summary.promised.most_s == 0
    assert summary.is_broken


def _by_a_liar(root: Path) -> tuple[CrashSummary, ...]:
    doors, account = system_doors(), server_account(())
    honest = redis_subject("redis-server", account, doors)
    liar = replace(honest, program=_Liar(honest.program))
    asked = Asked(
        modes=tuple(mode for mode in REDIS_MODES if mode.name == "always"),
        deaths=(Death.POWER,),
        cuts=1,
        clients=2,
        pipeline=4,
        longest_s=1.0,
        seed=1,
        root=root,
        account=account,
    )
    return crash_summaries(crash_test(liar, asked, doors, lambda _: None))


class _Liar:
    """A Redis whose configuration file says another appendfsync than it was given."""

    def __init__(self, honest: Any) -> None:
        self._honest = honest

    def configuration(
        self, settings: Mapping[str, str], address: ServerAddress, sockets: Path
    ) -> Mapping[str, str]:
        """Write `appendfsync no` whatever was asked."""
        changed = {**settings, "appendfsync": "no"}
        found: Mapping[str, str] = self._honest.configuration(changed, address, sockets)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._honest, name)


def test_a_killed_test_is_cleaned_up(power: Steelyard) -> None:
    """After kill -9 the server is dead, and `clean` unmounts and removes what is left."""
    place = power.cache
    words = ("--modes", "everysec", "--deaths", "power", "--cuts", "1000", "--longest", "2s")
    process = power.start("crash-test", "redis", *words, "--dir", "out")
    wait_for((power.directory / "out" / "crash.json").exists, process)

    def stopped_while_mounted() -> bool:
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)  # an umount that it had begun ends meanwhile
        if not mounts_below(place):
            process.send_signal(signal.SIGCONT)
        return mounts_below(place) != []

    wait_for(stopped_while_mounted, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert mounts_below(place) != []
    cleaned = power.run("clean", "--yes")
    assert cleaned.returncode == 0, cleaned.stderr
    assert "file system mounted at" in cleaned.stdout
    assert (mounts_below(place), loops_below(place)) == ([], [])
    assert list((place / "live").glob("crash-test-*")) == []


def test_an_interrupted_test_unmounts(power: Steelyard) -> None:
    """Ctrl-C while a server is under load ends it, unmounts and removes everything at once."""
    place = power.cache
    words = ("--modes", "everysec", "--deaths", "power", "--cuts", "1000", "--longest", "2s")
    process = power.start("crash-test", "redis", *words)
    wait_for(lambda: mounts_below(place) != [], process)
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 130
    assert (mounts_below(place), loops_below(place)) == ([], [])
    assert list((place / "live").glob("crash-test-*")) == []
