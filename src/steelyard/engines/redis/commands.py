"""Which commands stay with the keys of the database that they are sent in.

On a server of somebody else a workload may send these alone. It is a list of what is allowed: what
a newer server or a module brings is refused until somebody has looked at it. Source: COMMAND of
Redis 7.0 and 8 and Valkey 8: their keys, flags and categories; a test compares.
"""

from collections.abc import Sequence
from typing import Final

from steelyard.model.outside import REDIS_MARK

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
