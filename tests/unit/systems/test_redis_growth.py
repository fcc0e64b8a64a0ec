"""How much memory a Redis workload takes beyond what is loaded."""

from dataclasses import replace

import pytest

from fakes.campaigns import an_experiment, asks_redis
from steelyard.core.experiment import Experiment, KeySpace, RedisWork, Workload
from steelyard.core.target import RedisLocalTarget
from steelyard.systems.redis.datasets import growth_bytes, growth_findings


def _growth(command: str = "", *, builtin: str | None = None) -> int | None:
    space = KeySpace(keys=1000, loaded=10, value_bytes=50_000)
    work = RedisWork(space=space, command=tuple(command.split()))
    return growth_bytes(Workload(name="x", builtin=builtin, redis=work))


def test_every_key_that_may_be_set_is_counted() -> None:
    """Not the loaded ones only: a thousand values of 50 kB, and something for each key."""
    for growth in (_growth(builtin="set"), _growth("SET k:__rand_int__ __data__")):
        assert growth is not None
        assert 50_000_000 < growth < 51_000_000
    ten = _growth(builtin="mset")
    assert ten is not None
    assert ten > 10 * 50_000_000


@pytest.mark.parametrize("builtin", ["get", "ping", "lrange_100", "lpop", "spop"])
def test_what_reads_or_removes_takes_nothing(builtin: str) -> None:
    """No key comes into being, or one goes."""
    assert _growth(builtin=builtin) == 0


@pytest.mark.parametrize("command", ["LPUSH l __data__", "RPUSH l x", "APPEND k x", "XADD s * f v"])
def test_what_grows_has_no_bound(command: str) -> None:
    """Each request makes more, whatever the number of keys; so does what is not known."""
    assert _growth(command) is None
    assert _growth(builtin="lpush") is None
    assert _growth("SETRANGE k 500000000 x") is None


def test_members_are_counted_for_each_key() -> None:
    """A thousand keys with one field, one key with a thousand, a thousand with a thousand each."""
    one = _growth("HSET k:__rand_int__ f v")
    other = _growth("HSET k f:__rand_int__ v")
    both = _growth("HSET k:__rand_int__ f:__rand_int__ v")
    assert one is not None
    assert other is not None
    assert both is not None
    assert 100_000 < one < 200_000
    assert 100_000 < other < 200_000
    assert both > 900 * one
    assert _growth("ZADD z __rand_int__ m") == _growth("ZADD z __rand_int__ m")
    fixed = _growth("ZADD z __rand_int__ m")
    assert fixed is not None
    assert fixed < 1000


SPACE = KeySpace(keys=100_000, loaded=20_000, value_bytes=180_000)


def weighing(work: Workload, **settings: str) -> Experiment:
    """Return an experiment on one workload whose configurations ask for these settings."""
    plain = an_experiment()
    arms = [
        replace(each, target=RedisLocalTarget(), settings=asks_redis(**settings))
        for each in plain.configurations
    ]
    return replace(plain, workloads=(work,), configurations=tuple(arms))


@pytest.mark.parametrize(
    ("builtin", "space", "said"),
    [
        ("set", SPACE, "SET may write up to 16.8 GiB"),
        ("lpush", KeySpace(keys=1, value_bytes=3), "LPUSH makes its data larger"),
        ("get", SPACE, ""),
        ("incr", SPACE, ""),
        ("set", replace(SPACE, loaded=100_000), ""),
        ("set", replace(SPACE, value_bytes=3), ""),
    ],
)
def test_what_grows_beyond_what_is_loaded_is_told(builtin: str, space: KeySpace, said: str) -> None:
    """A load that writes fills the server up to its keys, a list without end; others do not."""
    work = Workload(name="w", builtin=builtin, redis=RedisWork(space=space))
    found = [each.message for each in growth_findings(weighing(work))]
    assert len(found) == bool(said)
    assert all(message.startswith(said) for message in found)
    assert not list(growth_findings(weighing(work, maxmemory="1gb")))
