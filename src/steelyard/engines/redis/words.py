"""What the tests of redis-benchmark send, under their names.

Source: the end of ``main`` in redis-benchmark.c of 7.0 and 8.
"""

from collections.abc import Mapping
from typing import Final

from steelyard.model.workload import Workload

NUMBER: Final = "__rand_int__"  # stands for the number of a key
DATA: Final = "__data__"  # stands for a value
_LISTS: Final = {
    f"lrange_{number}": ("LRANGE", "mylist", "0", f"{number - 1}")
    for number in (100, 300, 500, 600)
}
COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "ping_inline": ("PING",),
    "ping_mbulk": ("PING",),
    "set": ("SET", f"key:{NUMBER}", DATA),
    "get": ("GET", f"key:{NUMBER}"),
    "incr": ("INCR", f"counter:{NUMBER}"),
    "lpush": ("LPUSH", "mylist", DATA),
    "rpush": ("RPUSH", "mylist", DATA),
    "lpop": ("LPOP", "mylist"),
    "rpop": ("RPOP", "mylist"),
    "sadd": ("SADD", "myset", f"element:{NUMBER}"),
    "hset": ("HSET", "myhash", f"element:{NUMBER}", DATA),
    "spop": ("SPOP", "myset"),
    "zadd": ("ZADD", "myzset", "0", f"element:{NUMBER}"),
    "zpopmin": ("ZPOPMIN", "myzset"),
    "mset": ("MSET", *(f"key:{NUMBER}", DATA) * 10),
    **_LISTS,
}
OTHER_NAMES: Final = {"ping": "ping_mbulk"}
MIX: Final = ("get", "set")  # of memtier_benchmark
READ_ONLY: Final = frozenset({"get", "ping", "ping_inline", "ping_mbulk", *_LISTS})


def commands_of(workload: Workload) -> frozenset[str]:
    """Return the names of the commands that a workload sends, in small letters."""
    own = workload.redis.command if workload.redis is not None else ()
    if own:
        return frozenset({own[0].lower()})
    asked = workload.builtin or ""
    named = OTHER_NAMES.get(asked, asked)
    return frozenset({COMMANDS[named][0].lower()} if named in COMMANDS else MIX)
