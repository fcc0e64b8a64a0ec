"""Redis settings: what a server knows, what a change costs, what may not be set; and its commands.

The list comes from the server itself (``CONFIG GET *``), and so does what can be changed while it
runs: each setting is given the value that it has, and the server says no where it never would. A
value in force counts as the one that was asked for however Redis spells it.

On a server of somebody else a workload may send only commands that stay with the keys of the
database that they are sent in. It is a list of what is allowed: what a newer server or a module
brings is refused until somebody has looked at it. Source: COMMAND of Redis 7.0 and 8 and Valkey 8:
their keys, flags and categories; a test compares. What the tests of redis-benchmark send is from
the end of ``main`` in redis-benchmark.c of 7.0 and 8.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from steelyard.core.experiment import EffectiveSetting, Layer, Setting, SwitchCost, Workload
from steelyard.core.outside import REDIS_MARK
from steelyard.core.redis import in_bytes
from steelyard.core.wording import redis_word
from steelyard.gateways.redis import RedisSession, ReplyError, settings_like
from steelyard.systems.existing import named_in

_CLASSES: Final = {"replica": "slave"}  # CONFIG GET says slave
_LIMIT_WORDS: Final = 4
_LIMITS: Final = "client-output-buffer-limit"
_LETTERS: Final = "notify-keyspace-events"  # shown in an order of its own, A for all classes
_ALL_LETTERS: Final = "g$lshzxetd"  # what A stands for (redis.conf)


def same_value(name: str, asked: str, actual: str) -> bool:
    """Return whether a server that shows ``actual`` does what was asked."""
    if name.lower() == _LIMITS:
        return _limits(asked) <= _limits(actual)
    if name.lower() == _LETTERS:
        return _letters(asked) == _letters(actual)
    wanted, shown = asked.lower().split(), actual.lower().split()
    return [_plain(word) for word in wanted] == [_plain(word) for word in shown]


def _plain(word: str) -> str:
    number = in_bytes(word)
    return word if number is None else str(number)


def _limits(text: str) -> frozenset[tuple[str, ...]]:
    """Return the limits of each class of clients; a file may name some of them only."""
    words = [_CLASSES.get(word, _plain(word)) for word in text.lower().split()]
    return frozenset(
        tuple(words[at : at + _LIMIT_WORDS]) for at in range(0, len(words), _LIMIT_WORDS)
    )


def _letters(text: str) -> frozenset[str]:
    return frozenset(text.strip('"').replace("A", _ALL_LETTERS))


# With these a configuration would take the server from the platform's hands; each with the way out.
_FIXED_BY_STEELYARD: Final = {
    "port": "Use `target: {port: ...}`.",
    **dict.fromkeys(
        ("bind", "unixsocket", "unixsocketperm"), "Use `target: {connection: socket | tcp}`."
    ),
    "dir": "Use `target: {directory: ...}`.",
    **dict.fromkeys(("dbfilename", "appendfilename", "appenddirname"), "Remove it."),
    **dict.fromkeys(
        ("daemonize", "supervised", "pidfile", "logfile", "syslog-enabled"), "Remove it."
    ),
    **dict.fromkeys(("replicaof", "slaveof"), "Use `target: {replica: {...}}`."),
    **dict.fromkeys(
        ("requirepass", "masterauth", "masteruser", "aclfile"),
        "Records carry no secrets: remove it.",
    ),
    **dict.fromkeys(
        ("cluster-enabled", "tls-port"), "Steelyard starts one server without TLS: remove it."
    ),
}
# Places and names, which differ from campaign to campaign and say nothing about speed; and secrets.
_NOT_RECORDED: Final = re.compile(
    "dir|port|bind|unixsocket|pidfile|logfile|requirepass|masterauth|masteruser|aclfile|.*-pass"
)
# They can be changed at run time, but what they began or left goes on under the next configuration:
# a save or a rewrite of the AOF under way, keys that were evicted, values kept in another form.
_GOES_ON: Final = re.compile(
    "appendonly|save|auto-aof-rewrite-.*|aof-use-rdb-preamble|rdbcompression|maxmemory.*"
    "|activedefrag|active-defrag-.*|.*-max-(listpack|ziplist|intset)-.*|list-compress-depth"
    "|hll-sparse-max-bytes|stream-node-max-.*|repl-diskless-.*"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisSetting:
    """What a server says of one of its settings.

    Attributes:
        default: Where the configuration file says nothing of it.
        changeable: By CONFIG SET, while the server runs.
    """

    name: str
    default: str
    changeable: bool


Catalogue = Mapping[str, RedisSetting]


def read_catalogue(session: RedisSession, names: Sequence[str]) -> Catalogue:
    """Return all settings of a server that nobody uses yet.

    Of those that are named it is asked whether they can be changed; of others that is not known.
    """
    wanted = {name.lower() for name in names}
    return {
        name: RedisSetting(
            name=name,
            default=value,
            changeable=name in wanted and _can_be_changed(session, name, value),
        )
        for name, value in settings_like(session, "*").items()
    }


def _can_be_changed(session: RedisSession, name: str, value: str) -> bool:
    try:
        session.command("CONFIG", "SET", name, value)
    except ReplyError as error:
        return "immutable" not in error.message and "protected" not in error.message
    return True


# Of several words each; before 7.0 they were not taken as one in quotation marks.
_SEVERAL_WORDS: Final = (
    *("save", "client-output-buffer-limit", "oom-score-adj-values", "bind", "replicaof"),
)


def file_lines(settings: Mapping[str, str]) -> str:
    """Return settings as lines of redis.conf."""
    return "".join(
        f"{name} {' '.join(map(redis_word, _words(name, value)))}\n"
        for name, value in settings.items()
    )


def _words(name: str, value: str) -> list[str]:
    return value.split() if name.lower() in _SEVERAL_WORDS and value.strip() else [value]


def recorded(settings: Mapping[str, str]) -> tuple[EffectiveSetting, ...]:
    """Return the settings that go into the record, by name: no places, no secrets."""
    return tuple(
        EffectiveSetting(name=name, value=value)
        for name, value in sorted(settings.items())
        if not _NOT_RECORDED.fullmatch(name)
    )


def switch_cost(names: Sequence[str], catalogue: Catalogue) -> SwitchCost:
    """Return the dearest switch cost among the named settings."""
    costs = [_cost(name.lower(), catalogue) for name in names]
    return max(costs, key=lambda cost: cost.rank, default=SwitchCost.SESSION)


def _cost(name: str, catalogue: Catalogue) -> SwitchCost:
    entry = catalogue.get(name)
    if entry is None or not entry.changeable or _GOES_ON.fullmatch(name):
        return SwitchCost.RESTART
    return SwitchCost.RELOAD


def refused_names(names: Sequence[str]) -> Mapping[str, str]:
    """Return the settings that an experiment may not set, with what to do instead.

    Redis' names do not differ by case; the result has them as they were given.
    """
    return named_in(names, _FIXED_BY_STEELYARD)


def deviations(asked: Sequence[Setting], effective: Sequence[EffectiveSetting]) -> tuple[str, ...]:
    """Return a sentence for each setting of the server that is not in force as asked."""
    found = {setting.name.lower(): setting.value for setting in effective}
    sentences = []
    for wanted in (setting for setting in asked if setting.layer is Layer.REDIS):
        actual = found.get(wanted.name.lower())
        if actual is None:
            sentences.append(f"{wanted.name} is not known to the running server")
        elif not same_value(wanted.name, wanted.value, actual):
            sentences.append(f"{wanted.name} was asked to be {wanted.value!r} and is {actual!r}")
    return tuple(sentences)


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


def command_of(workload: Workload) -> tuple[str, ...]:
    """Return the command that a workload sends, with its arguments."""
    own = workload.redis.command if workload.redis is not None else ()
    asked = workload.builtin or ""
    return own or COMMANDS[OTHER_NAMES.get(asked, asked)]


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
    if word == NUMBER:
        return "[0-9_]*"  # without a range of keys it is sent as it stands
    return re.sub(r"[\\*?\[\]]", r"\\\g<0>", word).replace(NUMBER, "*").replace(DATA, "*")


def _rules(workload: Workload) -> Iterator[str]:
    command = command_of(workload)
    if workload.redis is not None and workload.redis.command:
        yield from _own(command)
        return
    verb = command[0].lower()
    yield f"+{verb}"
    if verb not in _NO_KEY:
        yield f"~{command[1].replace(NUMBER, '*')}"
