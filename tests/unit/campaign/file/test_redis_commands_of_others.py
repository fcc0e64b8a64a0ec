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


@pytest.mark.parametrize("command", ["FCALL f 0", "NEWCOMMAND a"])
def test_what_may_reach_beyond_the_keys_has_its_line(command: str) -> None:
    """Scripts, other databases, what nobody has looked at: none of them goes to others' servers.

    Behind a Service, too; a golden file has the commands that an endpoint does not get.
    """
    told = only_problem(_sending(command, SERVICE))
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
