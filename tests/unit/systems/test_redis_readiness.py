"""When a Redis server is ready: not before its data are loaded."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from fakes.redis_sessions import ToldDoor, ToldSession
from steelyard.core.outside import ServerAddress
from steelyard.gateways.redis import Reply
from steelyard.systems.redis.server import RedisInstallation, RedisProgram

INSTALLATION = RedisInstallation(
    server=Path("/usr/bin/redis-server"),
    benchmark=None,
    version="7.0.15",
    flavour="redis",
)


@pytest.mark.parametrize(
    ("answers", "is_ready"),
    [({"DBSIZE": [37_501]}, True), ({"PING": [b"PONG"]}, False)],
)
def test_a_server_that_loads_its_data_is_not_ready(
    answers: Mapping[str, Sequence[Reply]], *, is_ready: bool
) -> None:
    """Redis 7.0 answers PING while it loads and refuses what asks for keys; no session stays."""
    session = ToldSession(answers)
    program = RedisProgram(installation=INSTALLATION, redis=ToldDoor(session))
    assert program.is_ready(ServerAddress(host="/tmp/x", port=1)) is is_ready  # noqa: S108
    assert session.closed


@pytest.mark.parametrize(
    ("told", "is_loading"),
    [
        (b"loading:1\r\n", True),
        (b"loading:0\r\nmaster_sync_in_progress:1\r\n", True),
        (b"loading:0\r\naof_rewrite_in_progress:1\r\n", True),
        (b"loading:0\r\nmaster_sync_in_progress:0\r\n", False),
        (None, False),
    ],
)
def test_a_server_says_that_it_comes_nearer(told: bytes | None, *, is_loading: bool) -> None:
    """Reading its files, a sync and the rewrite after it take as long as the data are large."""
    session = ToldSession({} if told is None else {"INFO everything": [told]})
    program = RedisProgram(installation=INSTALLATION, redis=ToldDoor(session))
    assert program.is_loading(ServerAddress(host="/tmp/x", port=1)) is is_loading  # noqa: S108


@pytest.mark.parametrize(("datasets", "databases"), [(1, None), (16, None), (17, "17")])
def test_a_server_that_is_filled_has_a_database_for_each_set_of_keys(
    datasets: int, databases: str | None
) -> None:
    """One that has too few by itself would refuse the keys that they have room for."""
    door = ToldDoor(ToldSession({}))
    program = RedisProgram(installation=INSTALLATION, redis=door, datasets=datasets)
    assert program.while_preparing.get("databases") == databases
    assert program.while_preparing["save"] == ""
