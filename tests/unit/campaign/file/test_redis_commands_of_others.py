"""What a workload may send to a Redis server that is there already: refused at its line."""

import pytest
from experiment_texts import only_problem, problems_of

OTHERS = """\
version: 1
name: small
workloads:
  - {name: x, command: COMMAND}
loads: {clients: 4}
seed: 1
configurations:
  default: {target: {TARGET}}
  other: {extends: default}
"""
ENDPOINT = "kind: redis-endpoint, host: db1"
SERVICE = "kind: redis-kubernetes, service: cache"


def _sending(command: str, target: str = ENDPOINT) -> str:
    return OTHERS.replace("COMMAND", command).replace("TARGET", target)


@pytest.mark.parametrize("target", [ENDPOINT, SERVICE])
@pytest.mark.parametrize(
    "command",
    [
        "[EVAL, \"return redis.call('FLUSHALL')\", '0']",
        "COPY a b DB 5 REPLACE",
        "XGROUP CREATE a b 0",
        "GEORADIUS a 1 1 1 m STORE b",
        "OBJECT FREQ a",
        "FCALL f 0",
        "SORT a STORE b",
        "PUBLISH a b",
        "RESTORE a 0 b REPLACE",
        "eval x 0",
        "NEWCOMMAND a",
        "[GET, a, ;, NEWCOMMAND]",
        "DEL steelyard:campaign",
    ],
)
def test_what_may_reach_beyond_the_keys_has_its_line(command: str, target: str) -> None:
    """Scripts, other databases, what nobody has looked at: none of them goes to others' servers."""
    told = only_problem(_sending(command, target))
    assert "is not known to stay with the keys of the workload" in told
    assert ":4:" in told
    assert "redis-local" in told


@pytest.mark.parametrize(
    "command",
    ["PING", "GET a", "hset h f __data__", "MGET a b", "ZADD z 1 __rand_int__", "MSET a 1 b 2"],
)
def test_what_stays_with_its_keys_is_sent(command: str) -> None:
    """The usual reads and writes, in whichever case, to both kinds of servers."""
    assert not problems_of(_sending(command))
    assert not problems_of(_sending(command, SERVICE))


def test_own_servers_get_scripts() -> None:
    """A server that Steelyard starts holds nothing of others: only what is no load is refused."""
    assert not problems_of(_sending("EVAL 'return 1' 0", "kind: redis-local"))
    for command in ("SCRIPT FLUSH", "FUNCTION DELETE x", "SLOWLOG RESET", "MOVE a 1"):
        assert "is no load" in only_problem(_sending(command, "kind: redis-local"))
