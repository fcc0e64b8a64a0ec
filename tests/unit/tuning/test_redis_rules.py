"""Rules of Redis: on both sides of each."""

from dataclasses import replace
from typing import Any

import pytest

from steelyard.core.stack import KubernetesFacts, RedisFacts, StackFacts
from support.judged_rules import HOLDS, NOTHING, rows_of, said

SERVER = RedisFacts(
    name="cache",
    role="primary",
    save="",
    appendonly=False,
    replicas=1,
    auto_restart=True,
    storage="local",
    maxmemory="2gb",
    memory_limit="4Gi",
)


def stack(**changes: Any) -> StackFacts:
    """Return the facts of one server."""
    return StackFacts(redis=(replace(SERVER, **changes),))


def test_units_are_those_of_redis() -> None:
    """In redis.conf 1g is 10^9 bytes and 1gb is 2^30."""
    limited = {"save": "60 1", "memory_limit": "1760Mi"}  # 60 % is 1,107,296,256 bytes
    assert said("RED004", stack(maxmemory="1g", **limited)) == HOLDS
    assert said("RED004", stack(maxmemory="1gb", **limited)) == HOLDS
    assert "maxmemory" in said("RED004", stack(maxmemory="1100mb", **limited))
    assert said("RED004", stack(maxmemory="1100m", **limited)) == HOLDS


def pair(primary: dict[str, Any] | None = None, **replica: Any) -> StackFacts:
    """Return the facts of a primary without persistence and a replica."""
    first = replace(SERVER, **(primary or {}))
    second = replace(SERVER, **{"name": "copy", "role": "replica", "replicas": 0, **replica})
    return StackFacts(redis=(first, second))


# What each rule says of facts, or its state.
SAID = {
    # No persistence, replicas and a restart together; pods restart by themselves.
    "RED001": [
        (stack(), "cache: no persistence, 1 replicas"),
        (stack(save='""'), "no persistence"),
        (stack(save="3600 1"), HOLDS),
        (stack(appendonly=True), HOLDS),
        (stack(replicas=0), HOLDS),
        (stack(auto_restart=False), HOLDS),
        (stack(fenced=True), HOLDS),
        (stack(fenced=False), "no persistence"),
        (replace(stack(auto_restart=None, fenced=True), kubernetes=KubernetesFacts()), HOLDS),
        (stack(auto_restart=None), NOTHING),
        (replace(stack(auto_restart=None), kubernetes=KubernetesFacts()), "no persistence"),
        (stack(save=None), NOTHING),
        (stack(replicas=None), NOTHING),
        (stack(role="replica"), NOTHING),
    ],
    # Network and replicated storage alike; a replica's nobody waits for.
    "RED002": [
        (stack(appendonly=True), HOLDS),
        (stack(appendonly=True, storage="longhorn"), "append-only file is on longhorn"),
        (stack(appendonly=True, storage="longhorn", role="replica"), NOTHING),
        (stack(appendonly=False, storage="nfs"), HOLDS),
        (stack(appendonly=True, storage=None), NOTHING),
        (stack(appendonly=None), NOTHING),
    ],
    # Neither at every write nor never during a rewrite.
    "RED003": [
        (
            stack(appendonly=True, appendfsync="everysec", no_appendfsync_on_rewrite=False),
            HOLDS,
        ),
        (stack(appendonly=True, appendfsync="everysec"), NOTHING),
        (stack(appendonly=True, no_appendfsync_on_rewrite=False), NOTHING),
        (stack(appendonly=True, appendfsync="always"), "waits for every write"),
        (stack(appendonly=True, no_appendfsync_on_rewrite=True), "may lose 30 s"),
        (stack(appendonly=False, appendfsync="always"), NOTHING),
    ],
    # 60 % of the limit where it saves or syncs a replica.
    "RED004": [
        (stack(save="3600 1", maxmemory="2gb"), HOLDS),
        (stack(save="3600 1", maxmemory="3gb"), "maxmemory 3gb of 4.0 GiB"),
        (stack(save="3600 1", maxmemory="2576980377"), HOLDS),  # 60 % of 4 GiB
        (stack(save="3600 1", maxmemory="2576980378"), "maxmemory 2576980378"),
        (stack(maxmemory="3gb", replicas=0), HOLDS),  # it never forks
        (stack(maxmemory="3gb"), "maxmemory 3gb of 4.0 GiB"),  # for a full sync it does
        (stack(maxmemory="3gb", replicas=None), NOTHING),
        (stack(maxmemory="0"), "no maxmemory"),
        (stack(maxmemory=None), "no maxmemory, its container ends at 4.0 GiB"),
        (stack(maxmemory="3 bananas"), NOTHING),
        (stack(memory_limit=None), NOTHING),
        (stack(memory_limit="4GiB"), NOTHING),
    ],
    # The longest interval, unless the append-only file is on.
    "RED005": [
        (stack(), HOLDS),
        (stack(save="3600 1"), "up to 60 min of writes"),
        (stack(save="60 10000 300 100"), "up to 5 min of writes"),
        (stack(save="3600 1", appendonly=True), HOLDS),
        (stack(save=None), NOTHING),
    ],
    # Of the two somebody writes a disk.
    "RED006": [
        (pair(appendonly=True), HOLDS),
        (pair(save="3600 1"), HOLDS),
        (pair(), "cache: neither it nor a replica"),
        (pair({"appendonly": True}), NOTHING),
        (pair({"replicas": 0}), NOTHING),
        (pair({"replicas": None}), NOTHING),
        (pair({"save": None}), NOTHING),
        (pair(appendonly=None), NOTHING),
        (stack(), NOTHING),  # nobody saw its replica
    ],
    # A primary without persistence and without its replica bounds no loss.
    "RED007": [
        (stack(min_replicas_to_write=1), HOLDS),
        (stack(min_replicas_to_write=0), "cache: takes writes while no replica"),
        (stack(min_replicas_to_write=0, appendonly=True), NOTHING),
        (stack(min_replicas_to_write=0, replicas=0), NOTHING),
        (stack(min_replicas_to_write=0, role="replica"), NOTHING),
        (stack(min_replicas_to_write=None), NOTHING),
        (stack(min_replicas_to_write=0, save=None), NOTHING),
    ],
    # Save points alone, replicas and a restart together lose what the replicas had.
    "RED008": [
        (stack(save="3600 1"), "up to 60 min of writes go, on its replicas, too"),
        (stack(save="3600 1 300 100 60 10000"), "up to 60 min of writes go"),
        (stack(save="300 100"), "up to 5 min of writes go"),
        (stack(save="3600 1", fenced=False), "up to 60 min"),
        (replace(stack(save="60 1", auto_restart=None), kubernetes=KubernetesFacts()), "60 s"),
        (stack(save="3600 1", appendonly=True), HOLDS),
        (stack(save="3600 1", auto_restart=False), HOLDS),
        (stack(save="3600 1", fenced=True), HOLDS),
        (stack(save="3600 1", replicas=0), HOLDS),
        (stack(save="3600 1", role="replica"), NOTHING),
        (stack(save="3600 1", auto_restart=None), NOTHING),
        (stack(save="3600 1", replicas=None), NOTHING),
        (stack(save="3600 1", appendonly=None), NOTHING),
        (stack(save=None), NOTHING),
        (stack(), NOTHING),
    ],
}


@pytest.mark.parametrize(("code", "facts", "told"), rows_of(SAID))
def test_a_rule_says_what_is_wrong(code: str, facts: StackFacts, told: str) -> None:
    """On both sides of its limit, and where there is nothing to judge."""
    assert told in said(code, facts)
