"""What is said of workloads that make their data larger."""

from dataclasses import replace

import pytest

from fakes.campaigns import an_experiment, asks_redis
from steelyard.core.experiment import Experiment, KeySpace, RedisWork, Workload
from steelyard.core.target import RedisLocalTarget
from steelyard.systems.redis.datasets import growth_findings

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
