"""Servers that are killed under load, alone or with a replica: acknowledged writes are counted."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from steelyard.core.crash import CrashTest
from steelyard.core.outside import ServerAddress
from steelyard.core.redis import Death
from steelyard.crash.testing import REDIS_MODES, Asked, Subject, crash_test, redis_subject
from steelyard.gateways.doors import system_doors
from steelyard.gateways.redis import RedisDoor, opened
from steelyard.systems.redis.engine import OffsetWatch, RedisSuccession
from support.lacking import lacking
from support.live import Steelyard, interrupted, wait_for
from support.redis import require_redis

pytestmark = pytest.mark.live

_SHORT = ("--deaths", "kill", "--longest", "1s", "--seed", "3", "--json")


def _test(steelyard: Steelyard, *words: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """Return the exit code and the summaries by mode."""
    ended = steelyard.run(*words, *_SHORT)
    assert ended.returncode in (0, 10), ended.stderr
    found = json.loads(ended.stdout)
    assert all(crash["acknowledged"] > 0 for crash in found["crashes"])
    return ended.returncode, {each["mode"]: each for each in found["summaries"]}


def _nothing_left(steelyard: Steelyard) -> None:
    assert list((steelyard.cache / "live").glob("crash-test-*")) == []
    cleaned = steelyard.run("clean", "--dry-run")
    assert "No campaign has left anything behind." in cleaned.stdout


def test_killed_redis_loses_what_no_log_held(steelyard: Steelyard) -> None:
    """With a log nothing is lost that may not be; without one everything is: the test can tell."""
    require_redis()
    code, found = _test(steelyard, "crash-test", "redis", "--modes", "off,no,always", "--cuts", "2")
    assert code == 0
    assert found["off"]["whole_load"] == 2
    assert found["no"]["losing"] == found["always"]["losing"] == 0
    _nothing_left(steelyard)


def test_killed_postgres_keeps_what_it_committed(steelyard: Steelyard) -> None:
    """A commit that waits for its WAL survives a kill, even where nothing is ever flushed."""
    code, found = _test(
        steelyard, "crash-test", "postgresql", "--modes", "sync,no-fsync", "--cuts", "1"
    )
    assert code == 0
    assert found["sync"]["losing"] == found["no-fsync"]["losing"] == 0
    _nothing_left(steelyard)


def test_a_setting_that_the_server_refuses_is_told_in_its_words(steelyard: Steelyard) -> None:
    """It ends before the first death, with the server's own sentence, and leaves nothing."""
    require_redis()
    words = ("--modes", "always", "--set", "io-threads=many")
    ended = steelyard.run("crash-test", "redis", *words, "--deaths", "kill")
    assert ended.returncode == 4
    assert "io-threads" in ended.stderr
    _nothing_left(steelyard)


def test_an_interrupted_test_leaves_its_results_and_nothing_else(steelyard: Steelyard) -> None:
    """Ctrl-C in the middle: what was taken is in the report, marked; servers and data are gone."""
    require_redis()
    words = ("--modes", "off", "--deaths", "kill", "--cuts", "1000", "--longest", "1s")
    process = steelyard.start("crash-test", "redis", *words, "--dir", "out")
    out = steelyard.directory / "out"
    wait_for((out / "report.html").exists, process)  # the last that is written
    interrupted(process)
    found = json.loads((out / "crash.json").read_text())
    assert found["interrupted"] is True
    assert found["crashes"]
    _nothing_left(steelyard)


def test_a_place_that_servers_cannot_enter_is_refused(steelyard: Steelyard) -> None:
    """Root's own directory is none for the account of the servers; nothing is made there."""
    if os.geteuid() != 0:
        lacking("only root runs servers as another account")
    require_redis()
    closed = steelyard.directory / "closed"
    closed.mkdir(mode=0o700)
    words = ("--deaths", "kill", "--data-directory", str(closed))
    ended = steelyard.run("crash-test", "redis", *words)
    assert ended.returncode == 3
    assert "may not be entered by" in ended.stderr
    assert list(closed.iterdir()) == []


SPLIT = next(mode for mode in REDIS_MODES if mode.name == "split")


class CutOff(RedisSuccession):
    """A replica whose link is cut before the load begins: it gets nothing of it."""

    def watch(self, server: ServerAddress, replica: ServerAddress) -> OffsetWatch:
        """Point it to where nobody is; what it has stays."""
        made = super().watch(server, replica)
        with opened(RedisDoor(), replica) as session:
            session.command("REPLICAOF", "127.0.0.1", "1")
        return made


@pytest.fixture
def taken(cache: Path) -> Callable[[type[RedisSuccession]], CrashTest]:
    """Return what takes two deaths of a primary, with replicas of some kind."""
    require_redis()
    doors = system_doors()
    account = "nobody" if os.geteuid() == 0 else None
    asked = Asked(
        modes=(SPLIT,),
        deaths=(Death.KILL,),
        cuts=2,
        clients=4,
        pipeline=16,
        longest_s=1.0,
        seed=1,
        root=cache / "heirs",
        account=account,
    )

    def take(kind: type[RedisSuccession]) -> CrashTest:
        found: Subject = redis_subject("redis-server", account, doors)
        program = found.program
        subject = replace(found, succession=kind(program))  # type: ignore[arg-type]
        return crash_test(subject, asked, doors, lambda _: None)

    return take


def test_a_replica_that_follows_has_what_reached_it(
    taken: Callable[[type[RedisSuccession]], CrashTest],
) -> None:
    """What had reached its socket counts as received, so some of the load is there.

    How much the primary still held depends on the CPUs. How far its replica was behind was seen.
    """
    for crash in taken(RedisSuccession).crashes:
        assert 0 <= crash.lost < crash.acknowledged
        assert crash.behind_bytes is not None


def test_what_the_replica_did_not_get_is_found_missing(
    taken: Callable[[type[RedisSuccession]], CrashTest],
) -> None:
    """With its link cut, everything that was acknowledged is gone: the count finds what is lost."""
    for crash in taken(CutOff).crashes:
        assert 0 < crash.acknowledged == crash.lost
        assert crash.oldest_lost_s is not None


def test_the_verb_has_the_mode(steelyard: Steelyard) -> None:
    """`--modes split` tells beside the loss how far the replica was behind; nothing stays."""
    require_redis()
    words = ("--modes", "split", "--deaths", "kill", "--cuts", "1", "--longest", "1s")
    ended = steelyard.run("crash-test", "redis", *words, "--dir", "out")
    assert ended.returncode == 0, ended.stderr
    told = " ".join(ended.stdout.split())
    assert "the server stays down, and its replica is promoted" in told
    assert "'Keep the data when an empty primary restarts'" in told
    found = json.loads((steelyard.directory / "out" / "crash.json").read_text())
    assert found["modes"][0]["replica"]
    assert list((steelyard.cache / "live").glob("crash-test-*")) == []
