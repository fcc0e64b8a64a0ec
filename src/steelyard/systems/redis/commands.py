"""Which commands stay with the keys of the database that they are sent in.

On a server of somebody else a workload may send these alone. It is a list of what is allowed: what
a newer server or a module brings is refused until somebody has looked at it. Source: COMMAND of
Redis 7.0 and 8 and Valkey 8: their keys, flags and categories; a test compares.

What the tests of redis-benchmark send, under their names.

Source: the end of ``main`` in redis-benchmark.c of 7.0 and 8.

What a user must be allowed who sends the load of an experiment, and nothing beyond it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from steelyard.core.experiment import Workload
from steelyard.core.outside import REDIS_MARK

# MOVE and COPY name another database, GEORADIUS and SORT another key to store in, XGROUP none.
_OF_ONE_KEY: Final = (
    "append bitcount bitfield bitfield_ro bitpos decr decrby dump expire expireat expiretime get"
    " getbit getdel getex getrange getset incr incrby incrbyfloat persist pexpire pexpireat"
    " pexpiretime psetex pttl set setbit setex setnx setrange strlen substr ttl type"
    " geoadd geodist geohash geopos georadius_ro georadiusbymember_ro geosearch"
    " hdel hexists hexpire hexpireat hexpiretime hget hgetall hgetdel hgetex hincrby hincrbyfloat"
    " hkeys hlen hmget hmset hpersist hpexpire hpexpireat hpexpiretime hpttl hrandfield hscan hset"
    " hsetex hsetnx hstrlen httl hvals"
    " lindex linsert llen lpop lpos lpush lpushx lrange lrem lset ltrim rpop rpush rpushx"
    " pfadd sadd scard sismember smembers smismember spop srandmember srem sscan"
    " xack xadd xautoclaim xclaim xdel xlen xpending xrange xrevrange xtrim"
    " zadd zcard zcount zincrby zlexcount zmscore zpopmax zpopmin zrandmember zrange zrangebylex"
    " zrangebyscore zrank zrem zremrangebylex zremrangebyrank zremrangebyscore zrevrange"
    " zrevrangebylex zrevrangebyscore zrevrank zscan zscore"
)
# Of several keys, all of them in the database that they are sent in.
_OF_KEYS: Final = "del exists lcs mget mset msetnx pfcount sdiff sinter sunion touch unlink"
STAYING: Final = frozenset({"ping", *_OF_ONE_KEY.split(), *_OF_KEYS.split()})
_ANOTHER: Final = ";"  # valkey-benchmark 9 takes several commands with this between them


def stays_in_database(command: Sequence[str]) -> bool:
    """Return whether a command can reach nothing but keys of the database that it is sent in.

    The key that marks the database as Steelyard's is not one of the workload's.
    """
    if not command or command[0].lower() not in STAYING:
        return False
    return not any(word == _ANOTHER or word.startswith(REDIS_MARK) for word in command[1:])


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


_NO_KEY: Final = frozenset({"ping"})
_ANY_KEY: Final = frozenset({"sort", "sort_ro"})  # BY and GET take a right to all
# Source: the commands with subcommands of Redis 7.4; a right to one of them is one to all of its.
_CONTAINERS: Final = frozenset(
    (
        *("acl", "client", "cluster", "command", "config", "function", "latency", "memory"),
        *("module", "object", "pubsub", "script", "slowlog", "xgroup", "xinfo"),
    )
)


def rights_of(workloads: Sequence[Workload]) -> tuple[str, ...]:
    """Return the rules for ACL SETUSER: the commands of the workloads, on the names of their keys.

    Which words of a command of the user's own are keys is not known: it may use those that are
    called like any of its words. That of a command with commands below it is the one below alone.
    """
    rules = dict.fromkeys(rule for workload in workloads for rule in _rules(workload))
    return ("+select", *rules)


def _own(command: Sequence[str]) -> Iterator[str]:
    verb, *words = command
    below = verb.lower() in _CONTAINERS and words
    yield f"+{verb}|{words[0]}".lower() if below else f"+{verb}".lower()
    if verb.lower() in _ANY_KEY:
        yield "~*"
        return
    # A value is no name of a key, unless it comes first.
    keys = [word for number, word in enumerate(words) if number == 0 or DATA not in word]
    yield from (f"~{_named(word)}" for word in keys)


def _named(word: str) -> str:
    """Return the names of the keys that a word stands for, as a pattern."""
    if word == NUMBER:
        return "[0-9_]*"  # without a range of keys it is sent as it stands
    return re.sub(r"[\\*?\[\]]", r"\\\g<0>", word).replace(NUMBER, "*").replace(DATA, "*")


def _rules(workload: Workload) -> Iterator[str]:
    own = workload.redis.command if workload.redis is not None else ()
    if own:
        yield from _own(own)
        return
    asked = workload.builtin or ""
    named = OTHER_NAMES.get(asked, asked)
    for command in [COMMANDS[named]] if named in COMMANDS else [COMMANDS[name] for name in MIX]:
        verb = command[0].lower()
        yield f"+{verb}"
        if verb not in _NO_KEY:
            yield f"~{command[1].replace(NUMBER, '*')}"
