"""Commands of Redis that change nothing, as workloads and tests of redis-benchmark name them."""

from typing import Final

from steelyard.model.workload import Workload

# Source: COMMAND of 7.0.15: those with the flag readonly, and some that name no key or only look;
# those that come with hash fields that expire are of 7.4.
READ_ONLY: Final = frozenset(
    (
        *("get", "mget", "getrange", "substr", "strlen", "exists", "type", "ttl", "pttl"),
        *("getbit", "bitcount", "bitpos", "bitfield_ro", "expiretime", "pexpiretime", "lcs"),
        *("lrange", "llen", "lindex", "lpos", "dump", "object", "memory", "randomkey"),
        *("hget", "hgetall", "hmget", "hlen", "hkeys", "hvals", "hexists", "hstrlen"),
        *("hrandfield", "hscan", "sismember", "smismember", "smembers", "scard", "srandmember"),
        *("sinter", "sintercard", "sunion", "sdiff", "sscan", "zrange", "zrangebyscore"),
        *("zrevrange", "zrevrangebyscore", "zrangebylex", "zrevrangebylex", "zscore", "zmscore"),
        *("zcard", "zcount", "zlexcount", "zrank", "zrevrank", "zrandmember", "zscan"),
        *("zinter", "zintercard", "zunion", "zdiff", "xlen", "xrange", "xrevrange", "xread"),
        *("pfcount", "geodist", "geohash", "geopos", "geosearch", "sort_ro", "eval_ro"),
        *("geohash", "georadius_ro", "georadiusbymember_ro", "hexpiretime", "hpexpiretime", "httl"),
        *("hpttl", "xpending", "touch"),
        *("evalsha_ro", "fcall_ro", "scan", "keys", "dbsize", "ping", "echo", "time"),
    )
)
_TESTS: Final = frozenset({"ping_inline", "ping_mbulk"})  # of redis-benchmark, beside get
_LISTS: Final = "lrange_"  # lrange_100 and so on


def changes_keys(workload: Workload) -> bool:
    """Return whether a workload of Redis may change keys: a test, a command or a mixture."""
    work = workload.redis
    if workload.builtin is not None:
        name = workload.builtin
        return name not in READ_ONLY | _TESTS and not name.startswith(_LISTS)
    if work is None or not work.command:
        return work is None or work.read_share != 1.0
    return work.command[0].lower() not in READ_ONLY
