"""Keys are loaded into a real server as the generator names them."""

import subprocess

import pytest

from steelyard.core.experiment import KeySpace
from steelyard.core.wording import TargetError
from steelyard.systems.redis.datasets import _pipelines, benchmark_key, fill, values
from support.redis import RedisServer, redis_server, redis_started

__all__ = ["redis_server"]
pytestmark = pytest.mark.live


def _asked_for(server: RedisServer, *options: str) -> tuple[int, int]:
    """Return hits and misses of a hundred GETs of redis-benchmark."""
    argv = ["redis-benchmark", "-p", str(server.port), "-t", "get", "-n", "100", "-q", *options]
    subprocess.run(argv, check=True, capture_output=True, timeout=60)
    stats = server.info("stats")
    return int(stats["keyspace_hits"]), int(stats["keyspace_misses"])


@pytest.mark.parametrize(("keys", "options"), [(50, ("-r", "50")), (1, ())])
def test_every_get_of_the_generator_finds_its_key(
    redis_server: RedisServer, keys: int, options: tuple[str, ...]
) -> None:
    """Names are those of redis-benchmark, of many keys and of the one: nothing is missed."""
    session = redis_server.session()
    space = KeySpace(keys=keys, loaded=keys, value_bytes=900)
    fill(session, space)
    assert session.command("DBSIZE") == keys
    assert _asked_for(redis_server, *options) == (100, 0)
    assert session.command("GET", benchmark_key(space, 0)) == values(900)(0)
    session.close()


def test_large_values_go_in_small_pipelines(redis_server: RedisServer) -> None:
    """Ten values of 300,000 bytes go in threes, and do not shrink when they are saved."""
    session = redis_server.session()
    space = KeySpace(keys=10, loaded=10, value_bytes=300_000)
    assert [len(batch) for batch in _pipelines(space)] == [3, 3, 3, 1]
    fill(session, space)
    session.command("SAVE")
    session.close()
    assert (redis_server.home / "dump.rdb").stat().st_size > 3_000_000


def test_a_server_that_evicts_is_told() -> None:
    """Keys that the server threw away while it was loaded are missed at the end."""
    with redis_started({"maxmemory": "3mb", "maxmemory-policy": "allkeys-random"}) as server:
        session = server.session()
        with pytest.raises(TargetError, match="was given 100 keys and holds"):
            fill(session, KeySpace(keys=100, loaded=100, value_bytes=100_000))
        session.close()
