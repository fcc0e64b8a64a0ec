"""What the lines of INFO mean: pure functions from one answer to quantities.

Source: Redis documentation, "INFO"; compared with answers of 7.0.15.
"""

import math
from collections.abc import Mapping
from typing import Final

from steelyard.model.evidence import Quantity
from steelyard.model.units import US_PER_S

Told = Mapping[str, str]  # the lines of INFO, by name
# Sums of lines, in these units.
_COUNTERS: Final[Mapping[Quantity, tuple[str, ...]]] = {
    Quantity.COMMANDS: ("total_commands_processed",),
    Quantity.ERROR_REPLIES: ("total_error_replies",),
    Quantity.KEYSPACE_HITS: ("keyspace_hits",),
    Quantity.KEYSPACE_MISSES: ("keyspace_misses",),
    Quantity.EVICTED_KEYS: ("evicted_keys",),
    Quantity.EXPIRED_KEYS: ("expired_keys",),
    Quantity.NETWORK_IN_BYTES: ("total_net_input_bytes",),
    Quantity.NETWORK_OUT_BYTES: ("total_net_output_bytes",),
    Quantity.AOF_DELAYED_FSYNCS: ("aof_delayed_fsync",),
    Quantity.AOF_REWRITES: ("aof_rewrites",),
    Quantity.RDB_SAVES: ("rdb_saves",),
    Quantity.FORKS: ("total_forks",),
    Quantity.REPLICATION_BYTES: ("master_repl_offset",),
    Quantity.MAIN_THREAD_CPU_S: ("used_cpu_sys_main_thread", "used_cpu_user_main_thread"),
    Quantity.CHILDREN_CPU_S: ("used_cpu_sys_children", "used_cpu_user_children"),
}
COUNTED: Final = (*_COUNTERS, Quantity.COMMAND_S)
_LEVELS: Final[Mapping[Quantity, str]] = {
    Quantity.USED_MEMORY_BYTES: "used_memory",
    Quantity.RESIDENT_BYTES: "used_memory_rss",
    Quantity.MAXMEMORY_BYTES: "maxmemory",
    Quantity.REPLICAS: "connected_slaves",
}
# What a server without an append-only file has none of; it leaves the lines out.
_OF_THE_AOF: Final = (Quantity.AOF_DELAYED_FSYNCS,)
_WATCHING: Final = ("info", "slowlog", "latency", "time")
_TO_REPLICAS: Final = "total_net_repl_output_bytes"
_COMMAND: Final = "cmdstat_"
_DATABASE: Final = "db"


def number(told: Told, name: str) -> float | None:
    """Return a line that is a number; None where it is missing or says something else."""
    try:
        value = float(told[name])
    except (KeyError, ValueError):
        return None
    return value if math.isfinite(value) else None


def parts(value: str) -> dict[str, str]:
    """Return what a line of several parts says: ``calls=3,usec=42``."""
    return dict(part.partition("=")[::2] for part in value.split(","))


def counted(told: Told) -> dict[str, float]:
    """Return the counters that the server has."""
    found: dict[str, float] = {}
    for quantity, names in _COUNTERS.items():
        values = [number(told, name) for name in names]
        if None not in values:
            found[quantity] = sum(value or 0.0 for value in values)
    if Quantity.NETWORK_OUT_BYTES in found:  # from 7.0 on the stream to replicas is in it
        found[Quantity.NETWORK_OUT_BYTES] -= number(told, _TO_REPLICAS) or 0.0
    if told.get("aof_enabled") == "0":
        found |= dict.fromkeys(_OF_THE_AOF, 0.0)
    spent_s = executing_s(told)
    if spent_s is not None:
        found[Quantity.COMMAND_S] = spent_s
    return found


def lines_of(quantity: Quantity) -> tuple[str, ...]:
    """Return the lines that a counter comes from."""
    return (f"{_COMMAND}*",) if quantity is Quantity.COMMAND_S else _COUNTERS[quantity]


def readings(told: Told) -> dict[str, float]:
    """Return the levels that the server has."""
    found = {quantity: number(told, name) for quantity, name in _LEVELS.items()}
    databases = [parts(value) for name, value in told.items() if _is_database(name)]
    keys = [number(each, "keys") for each in databases]
    found[Quantity.KEYS] = sum(each or 0.0 for each in keys)
    return {quantity: value for quantity, value in found.items() if value is not None}


def executing_s(told: Told) -> float | None:
    """Return the seconds spent on commands, without those that watch; None where not counted."""
    found = [_usec(told, name) for name in _commands(told) if _command(name) not in _WATCHING]
    return sum(found) / US_PER_S if any(_commands(told)) else None


def answering_s(told: Told) -> float:
    """Return the seconds spent on commands that watch, by whomever."""
    return sum(_usec(told, n) for n in _commands(told) if _command(n) in _WATCHING) / US_PER_S


def calls_of(told: Told, command: str) -> int:
    """Return how often a command was called, with those below it; 0 where it is not told."""
    found = [name for name in _commands(told) if _command(name) == command]
    return sum(int(number(parts(told[name]), "calls") or 0) for name in found)


def behind_bytes(told: Told) -> float | None:
    """Return how far the last of the replicas is behind; None without a replica.

    A replica says once a second how far it has come, so a second of the stream is in it.
    """
    sent = number(told, "master_repl_offset")
    lines = [parts(value) for name, value in told.items() if name.startswith("slave")]
    reached = [number(line, "offset") for line in lines if line.get("state") == "online"]
    known = [each for each in reached if each is not None]
    return None if sent is None or not known else max(sent - min(known), 0.0)


def _commands(told: Told) -> list[str]:
    return [name for name in told if name.startswith(_COMMAND)]


def _command(name: str) -> str:
    """Return the command of a line, without its subcommand: ``cmdstat_config|get``."""
    return name.removeprefix(_COMMAND).partition("|")[0]


def _usec(told: Told, name: str) -> float:
    return number(parts(told[name]), "usec") or 0.0


def _is_database(name: str) -> bool:
    return name.startswith(_DATABASE) and name.removeprefix(_DATABASE).isdecimal()
