"""A primary that is killed and stays down: what its replica has not is counted."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from steelyard.core.crash import CrashTest
from steelyard.core.outside import ServerAddress
from steelyard.core.redis import Death
from steelyard.crash.testing import REDIS_MODES, Asked, Subject, crash_test, redis_subject
from steelyard.gateways.doors import system_doors
from steelyard.gateways.redis import RedisDoor, opened
from steelyard.systems.redis.engine import OffsetWatch, RedisSuccession
from support.live import Steelyard
from support.redis import require_redis

pytestmark = pytest.mark.live
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
    ended = steelyard.run("redis", "crash-test", *words, "--out", "out")
    assert ended.returncode == 0, ended.stderr
    told = " ".join(ended.stdout.split())
    assert "the server stays down, and its replica is promoted" in told
    assert "'Keep the data when an empty primary restarts'" in told
    found = json.loads((steelyard.directory / "out" / "crash.json").read_text())
    assert found["modes"][0]["replica"]
    assert list((steelyard.cache / "live").glob("crash-test-*")) == []
