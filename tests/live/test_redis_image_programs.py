"""What is asked of an image's Redis, asked of the one that is installed here; and its own keys."""

import re
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fakes.campaigns import asks_redis
from steelyard.core.experiment import Configuration, KeySpace
from steelyard.core.target import RedisKubernetesTarget
from steelyard.core.wording import PreflightError
from steelyard.gateways.process import Processes
from steelyard.gateways.redis import RedisSession
from steelyard.systems.redis.datasets import fill, fill_by_script
from steelyard.systems.redis.factory import (
    RedisImage,
    describe_redis_image,
    find_in_image,
    generator_in_image,
)
from support.redis import RedisServer, redis_server

__all__ = ["redis_server"]
pytestmark = pytest.mark.live
_PROCESSES = Processes()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[str]:
    """Yield a directory for servers of a moment; those that go on are ended."""
    place = tmp_path / "trial"
    yield str(place)
    for pid in _PROCESSES.within(place):
        _PROCESSES.signal(pid, signal.SIGKILL)


def _described(home: str, *configurations: Configuration) -> RedisImage:
    names = sorted({name for each in configurations for name in each.asked_folded()})
    return describe_redis_image("localhost/redis:7", configurations, names, _PROCESSES, home=home)


def _configuration(name: str, **settings: str) -> Configuration:
    return Configuration(name=name, target=RedisKubernetesTarget(), settings=asks_redis(**settings))


def test_the_programs_of_an_image_are_found_with_their_versions(redis_server: RedisServer) -> None:
    """Server and generator are named by their paths, with the versions that they print."""
    found = find_in_image("localhost/redis:7", _PROCESSES)
    assert found.server.name == Path(redis_server.program).name
    assert re.fullmatch(r"\d+\.\d+\.\d+", found.version)
    generator = generator_in_image("localhost/redis:7", _PROCESSES)
    assert generator.program.name == "redis-benchmark"
    assert generator.version.startswith(found.version)


def test_settings_are_asked_of_the_image_s_own_server(home: str) -> None:
    """Defaults are its own, also of what a trial sets; what it refuses is known."""
    image = _described(
        home,
        _configuration("good", appendonly="yes", io_threads="2"),
        _configuration("bad", appendfsync="sometimes", maxmemory="much"),
    )
    assert image.catalogue["save"].default == "3600 1 300 100 60 10000"
    assert image.catalogue["appendonly"].default == "no"
    assert image.catalogue["appendonly"].changeable
    assert not image.catalogue["io-threads"].changeable
    assert image.refused["good"] == ()
    refused = {each.setting: each.message for each in image.refused["bad"]}
    assert set(refused) == {"appendfsync", "maxmemory"}
    assert "memory value" in refused["maxmemory"]


def test_an_image_without_programs_is_refused_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of a server and of a generator that is not there the name of the image is told."""
    for tool in ("sh", "env"):
        (tmp_path / tool).symlink_to(f"/bin/{tool}")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PreflightError, match="localhost/other:1 does not have redis-server"):
        find_in_image("localhost/other:1", _PROCESSES)
    with pytest.raises(PreflightError, match="has no redis-benchmark"):
        generator_in_image("localhost/other:1", _PROCESSES)


def _values(session: RedisSession, space: KeySpace) -> list[object]:
    names = [f"key:{number:012d}" for number in range(space.loaded)]
    if space.keys == 1:
        names[0] = "key:__rand_int__"
    return [session.command("GET", name) for name in names]


@pytest.mark.parametrize(
    "space",
    [
        KeySpace(keys=5000, loaded=321, value_bytes=3),
        KeySpace(keys=5000, loaded=67, value_bytes=1_000_001),
        KeySpace(keys=1, loaded=2, value_bytes=100),
    ],
)
def test_a_server_makes_the_very_keys_that_are_sent_elsewhere(
    redis_server: RedisServer, space: KeySpace
) -> None:
    """Byte by byte, across the borders of scripts: arms in pods and here have equal data."""
    with closing(redis_server.session()) as session:
        fill_by_script(session, space)
        assert session.command("DBSIZE") == space.loaded
        made = _values(session, space)
        session.command("FLUSHALL")
        fill(session, space)
        assert made == _values(session, space)


def test_a_user_who_may_run_no_scripts_sends_the_keys(redis_server: RedisServer) -> None:
    """Where EVAL is refused the keys are there all the same."""
    space = KeySpace(keys=100, loaded=100, value_bytes=5)
    with closing(redis_server.session()) as session:
        session.command("ACL", "SETUSER", "default", "-eval")
        fill_by_script(session, space)
        assert session.command("DBSIZE") == 100
