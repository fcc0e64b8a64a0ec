"""What a Redis server says of itself around one run, read on one session that stays open.

- INFO, compared with answers of 7.0.15. What it tells of the moment only (rewrites, saves, forks,
  the log) is added up look by look.
- ``INFO commandstats`` counts each command by its name, so that what others ask, and what is asked
  for the reading, is not among the workload's. ``TIME`` before it, in the same message, says when
  that was to the microsecond: the answer waits for those to others, for milliseconds on a busy
  machine (Redis 7.0.15 under 50 clients on two CPUs: up to 3 ms).
- The slow log and the latency monitor remember single moments. The arguments in the slow log are
  somebody's data and are passed over.

On a server that goes on under the next configuration, what one configuration began is waited for.

Source: Redis documentation, "INFO", "SLOWLOG GET" and "Latency monitoring".
"""

import contextlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from steelyard.core.measurement import Absence, Quantity
from steelyard.core.outside import ServerAddress
from steelyard.core.wording import MS_PER_S, US_PER_S, MeasurementError, TargetError
from steelyard.gateways.host import Clock
from steelyard.gateways.redis import (
    RedisDoor,
    RedisSession,
    Reply,
    ReplyError,
    as_text,
    parse_info,
)
from steelyard.systems.protocol import CountedAt, ServerReader, Waiting

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
_DATABASE: Final = re.compile(r"db\d+")


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


def count_told(told: Told) -> dict[str, float]:
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
    databases = [parts(value) for name, value in told.items() if _DATABASE.fullmatch(name)]
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


def lag_bytes(told: Told, of_replica: Told) -> float | None:
    """Return what a replica had not applied just after its primary was asked; None: not told."""
    sent, applied = number(told, "master_repl_offset"), number(of_replica, "slave_repl_offset")
    return None if sent is None or applied is None else max(sent - applied, 0.0)


def _commands(told: Told) -> list[str]:
    return [name for name in told if name.startswith(_COMMAND)]


def _command(name: str) -> str:
    """Return the command of a line, without its subcommand: ``cmdstat_config|get``."""
    return name.removeprefix(_COMMAND).partition("|")[0]


def _usec(told: Told, name: str) -> float:
    return number(parts(told[name]), "usec") or 0.0


ENTRIES: Final = 128  # of the slow log; as many as it keeps by default
# Events of the latency monitor that count as one; see latency.c and the documentation.
KINDS: Final = {
    "command": Quantity.WORST_COMMAND_S,
    "fast-command": Quantity.WORST_COMMAND_S,
    "fork": Quantity.WORST_FORK_S,
    "aof-write": Quantity.WORST_AOF_WRITE_S,
    "aof-write-pending-fsync": Quantity.WORST_AOF_WRITE_S,
    "aof-write-active-child": Quantity.WORST_AOF_WRITE_S,
    "aof-write-alone": Quantity.WORST_AOF_WRITE_S,
    "aof-fsync-always": Quantity.WORST_AOF_FSYNC_S,
    "expire-cycle": Quantity.WORST_EXPIRY_S,
    "eviction-cycle": Quantity.WORST_EXPIRY_S,
    "eviction-del": Quantity.WORST_EXPIRY_S,
}


def slow_commands(entries: Reply, *, after: int) -> dict[str, float]:
    """Return how many commands the slow log took up after an entry, and the longest it still has.

    Args:
        entries: The newest ``ENTRIES`` of it.
        after: Number of that entry, as ``newest`` gave it; they are counted from 0 on.
    """
    found = [(number, usec) for number, usec in _entries(entries) if number > after]
    if not found:
        return {Quantity.SLOW_COMMANDS: 0.0}
    # Fewer than were asked for: none was pushed out; older ones were, by somebody who emptied it.
    whole = len(found) < ENTRIES and after < 0
    number = len(found) if whole else newest(entries) - after
    return {
        Quantity.SLOW_COMMANDS: float(number),
        Quantity.SLOWEST_COMMAND_S: max(usec for _, usec in found) / US_PER_S,
    }


def newest(entries: Reply) -> int:
    """Return the number of the newest entry of the slow log; -1 where it is empty."""
    return max((number for number, _ in _entries(entries)), default=-1)


def event_names(latest: Reply) -> tuple[str, ...]:
    """Return the events that the latency monitor has seen and that count here."""
    rows = latest if isinstance(latest, list) else []
    names = [as_text(row[0]) for row in rows if isinstance(row, list) and row]
    return tuple(name for name in names if name in KINDS)


def longest_s(history: Reply, *, since: int) -> float | None:
    """Return the longest of an event's moments from a second of the server's clock on."""
    rows = history if isinstance(history, list) else []
    pairs = [row for row in rows if isinstance(row, list) and len(row) >= 2]
    recent = [float(row[1]) / MS_PER_S for row in pairs if int(row[0]) >= since]
    return max(recent, default=None)


def _entries(reply: Reply) -> Iterator[tuple[int, float]]:
    for entry in reply if isinstance(reply, list) else []:
        if isinstance(entry, Sequence) and len(entry) >= 3:
            yield int(entry[0]), float(entry[2])


_POLL_S: Final = "0.1"
_REWRITE_POLLS: Final = 36_000  # an hour: tens of GB, a slow store
_SAVE_POLLS: Final = 600  # a minute, a guess: where saves are frequent the next one begins
_NEVER_LONG: Final = (
    *("aof_rewrite_in_progress", "aof_rewrite_scheduled", "aof_pending_bio_fsync"),
)


def await_quiet(session: RedisSession) -> None:
    """Return when no rewrite, fsync or save of the server is under way.

    Raises:
        TargetError: It does not come to an end, or the server is gone.
    """
    for poll in range(_REWRITE_POLLS):
        told = session.info("persistence")
        saves = told.get("rdb_bgsave_in_progress") == "1" and poll < _SAVE_POLLS
        if not saves and all(told.get(name, "0") == "0" for name in _NEVER_LONG):
            return
        # A wait at the server's side: no list is called like this.
        session.command("BLPOP", "steelyard:no-such-list", _POLL_S)
    raise TargetError(
        "the server still rewrites its append-only file, an hour after the last run",
        hint="Load fewer keys, or set `auto-aof-rewrite-percentage: 0` in every configuration.",
    )


COUNTER_PATIENCE_S: Final = 30.0  # a guess: a save that stops the server is shorter
_SECTION: Final = "commandstats"
_NOW: Final = ("TIME",)
_COUNTS: Final = ("INFO", _SECTION)


class CommandCounter:
    """Counts the commands of a name, in small letters, without its own."""

    def __init__(self, session: RedisSession, name: str) -> None:
        self._session = session
        self._name = name
        self._reads = 0

    def read(self) -> CountedAt:
        """Return how many there were so far, and when."""
        now, counts = self._session.pipeline((_NOW, _COUNTS))
        told = parse_info(counts)
        # One INFO less: it is counted when it is done.
        own = {"time": self._reads + 1, "info": self._reads}
        self._reads += 1
        found = calls_of(told, self._name) - own.get(self._name, 0)
        if not isinstance(now, list) or len(now) != 2 or not told:
            raise MeasurementError(
                "the server does not say how many commands it has done (INFO commandstats)",
                hint="Compare the configurations one by one: `design: one-by-one`.",
            )
        return CountedAt(at_s=int(now[0]) + int(now[1]) / US_PER_S, transactions=found)

    def close(self) -> None:
        """End the session."""
        self._session.close()


_REWRITING: Final = "aof_rewrite_in_progress"
_SAVING: Final = "rdb_bgsave_in_progress"
# Work in progress, and what it had copied when it ended.
_COPIES: Final = {_REWRITING: "aof_last_cow_size", _SAVING: "rdb_last_cow_size"}
_DURING: Final = {
    Quantity.AOF_REWRITING_S: _REWRITING,
    Quantity.RDB_SAVING_S: _SAVING,
    Quantity.AOF_FSYNC_PENDING_S: "aof_pending_bio_fsync",
}


@dataclass(slots=True)
class Passing:
    """Sums since the first look, as fine as looks are frequent."""

    _last: Told = field(default_factory=dict)
    _last_s: float = 0.0
    _log_per_s: float = 0.0  # of the last look without a rewrite
    _sums: dict[str, float] = field(default_factory=dict)
    _copied: float = 0.0
    _behind: float | None = None
    _lag: float | None = None
    _background_s: float = 0.0

    @property
    def counters(self) -> dict[str, float]:
        """Return the sums so far."""
        return dict(self._sums)

    @property
    def levels(self) -> dict[str, float]:
        """Return the most of what was seen at a moment."""
        found: dict[str, float] = {}
        if Quantity.FORK_S in self._sums:
            found[Quantity.COPIED_BYTES] = self._copied
        if self._behind is not None:
            found[Quantity.REPLICA_BEHIND_BYTES] = self._behind
        if self._lag is not None:
            found[Quantity.REPLICA_LAG_BYTES] = self._lag
        return found

    def look(self, told: Told, at_s: float) -> None:
        """Take what the server says at a moment."""
        if self._last:
            for quantity, name in _DURING.items():
                if quantity in self._sums and number(told, name):
                    self._sums[quantity] += at_s - self._last_s
            self._add_log(told, at_s - self._last_s)
            self._add_forks(told)
            self._note_copies(told)
        else:
            self._begin(told)
        self._note_background(told)
        behind = behind_bytes(told)
        if behind is not None:
            self._behind = max(behind, self._behind or 0.0)
        self._last, self._last_s = told, at_s

    def compare(self, told: Told, of_replica: Told) -> None:
        """Take what a replica says of itself just after its primary was asked."""
        lag = lag_bytes(told, of_replica)
        if lag is not None:
            self._lag = max(lag, self._lag or 0.0)

    def _begin(self, told: Told) -> None:
        """Start every sum that this server can have; one without the log has 0 of it."""
        without = told.get("aof_enabled") == "0"
        for quantity, name in _DURING.items():
            if name in told or without:
                self._sums[quantity] = 0.0
        if "aof_current_size" in told or without:
            self._sums[Quantity.AOF_BYTES] = 0.0
        if "total_forks" in told:
            self._sums[Quantity.FORK_S] = 0.0

    def _add_log(self, told: Told, took_s: float) -> None:
        """Add what the log has grown by; across a rewrite at least as much as before, in its time.

        What was written from the last look to the begin of a rewrite is in no size. With two
        rewrites from look to look nothing is known of the first, and then there is no sum.
        """
        size, before = number(told, "aof_current_size"), number(self._last, "aof_current_size")
        base, old_base = number(told, "aof_base_size"), number(self._last, "aof_base_size")
        if size is None or before is None or Quantity.AOF_BYTES not in self._sums:
            return
        if (number(told, "aof_rewrites") or 0.0) > (number(self._last, "aof_rewrites") or 0.0) + 1:
            del self._sums[Quantity.AOF_BYTES]
            return
        if base != old_base or size < before:
            grown = max(size - (base or 0.0), self._log_per_s * took_s)
        else:
            grown = size - before
            self._log_per_s = grown / took_s if took_s > 0.0 else 0.0
        self._sums[Quantity.AOF_BYTES] += grown

    def _add_forks(self, told: Told) -> None:
        forks, before = number(told, "total_forks"), number(self._last, "total_forks")
        took = number(told, "latest_fork_usec")
        if forks is not None and before is not None and took is not None and forks > before:
            self._sums[Quantity.FORK_S] += (forks - before) * took / US_PER_S

    def _note_copies(self, told: Told) -> None:
        for work, ended in _COPIES.items():
            if number(told, work):
                self._copied = max(self._copied, number(told, "current_cow_size") or 0.0)
            elif number(self._last, work) or told.get(ended) != self._last.get(ended):
                self._copied = max(self._copied, number(told, ended) or 0.0)

    def _note_background(self, told: Told) -> None:
        """Keep the CPU time of all threads but the main one; read apart, so it may step back."""
        names = ("used_cpu_sys", "used_cpu_user")
        whole = [number(told, name) for name in names]
        main = [number(told, f"{name}_main_thread") for name in names]
        known = [value for value in (*whole, *main) if value is not None]
        if len(known) == len(whole) + len(main):
            spent_s = known[0] + known[1] - known[2] - known[3]
            self._background_s = max(self._background_s, spent_s)
            self._sums[Quantity.BACKGROUND_CPU_S] = self._background_s


# What changes between two looks at the counters, ten times a second, and what those need.
_PASSING: Final = ("persistence", "stats", "replication", "cpu")
_ALL: Final = (*_PASSING, "memory", "commandstats", "keyspace")
_ALL_OF_OLD: Final = ("all",)  # Redis 7.0 is the first that takes several names
_SEVERAL_FROM: Final = 7
_NO_WAITS: Final = Absence(
    subject="wait events",
    reason="Redis does not say what its sessions wait for: one thread serves them all in turn.",
)
_SUMMED: Final = {
    Quantity.AOF_BYTES: "aof_current_size",
    Quantity.AOF_FSYNC_PENDING_S: "aof_pending_bio_fsync",
    Quantity.AOF_REWRITING_S: "aof_rewrite_in_progress",
    Quantity.RDB_SAVING_S: "rdb_bgsave_in_progress",
    Quantity.FORK_S: "total_forks",
    Quantity.BACKGROUND_CPU_S: "used_cpu_user_main_thread",
}


class RedisReader(ServerReader):
    """Reads counters and what passes between them; what it does itself is not among them.

    Its session has no process of its own; a replica beside it is asked, too, where there is one.
    """

    def __init__(
        self, session: RedisSession, clock: Clock, replica: RedisSession | None = None
    ) -> None:
        self._session = session
        self._replica = replica
        self._clock = clock
        self._skipped_s = 0.0
        self._commands = 0
        self._in_bytes = 0
        self._out_bytes = 0
        self._before_bytes = 0  # of them, before the answer to the last command
        self._passing = Passing()
        self._told: Told = {}
        self._lacking: list[Absence] = []
        told = self._info("server")
        self._label = _label(told)
        process = number(told, "process_id")
        self._process = None if process is None else int(process)
        major = told.get("redis_version", "").partition(".")[0]
        self._several = major.isdecimal() and int(major) >= _SEVERAL_FROM
        now = self._asked("TIME")
        self._since_s = int(now[0]) if isinstance(now, list) else 0
        slow = self._allowed("SLOWLOG", "GET", 1)
        self._slow = None if slow is None else newest(slow)
        self._answering_s = self._begin()

    @property
    def source(self) -> str:
        """Return what would be said of waits."""
        return "INFO"

    @property
    def serving_pid(self) -> int | None:
        """Return the server's process; its number holds where the server runs."""
        return self._process

    @property
    def answering_s(self) -> float:
        """Return the seconds that the server has spent on answering, as far as it was last read."""
        return answering_s(self._told) - self._answering_s

    @property
    def absent(self) -> tuple[Absence, ...]:
        return (_NO_WAITS, *self._lacking)

    def skip(self, seconds: float) -> None:
        self._skipped_s += seconds

    def waits(self) -> Sequence[Waiting]:
        """Return nothing; a look is taken at what INFO says of the moment only."""
        self._look(_PASSING)
        return ()

    def counters(self) -> Mapping[str, float]:
        self._told = self._look(_ALL)
        found: dict[str, float] = {**count_told(self._told), **self._passing.counters}
        for quantity, own in (
            (Quantity.COMMANDS, self._commands - 1),  # this INFO is counted when it is done
            (Quantity.NETWORK_IN_BYTES, self._in_bytes),
            (Quantity.NETWORK_OUT_BYTES, self._before_bytes),
        ):
            if quantity in found:
                found[quantity] -= own
        return found

    def settled_counters(self) -> Mapping[str, float]:
        """Return the same when the generator is gone: Redis counts what it does at once."""
        return self.counters()

    def levels(self) -> Mapping[str, float]:
        """Return memory, keys and replicas, and the worst moments of the run."""
        found: dict[str, float] = {**readings(self._told), **self._passing.levels}
        if self._slow is not None:
            entries = self._asked("SLOWLOG", "GET", ENTRIES)
            found |= slow_commands(entries, after=self._slow)
        return {**found, **self._worst()}

    def close(self) -> None:
        self._session.close()
        if self._replica is not None:
            self._replica.close()

    def _begin(self) -> float:
        """Look for the first time, and note what this server does not tell."""
        self._told = self._look(_ALL)
        counted = count_told(self._told)
        lacking = {q: lines_of(q) for q in COUNTED if q not in counted}
        lacking |= {q: (n,) for q, n in _SUMMED.items() if q not in self._passing.counters}
        self._lacking.extend(
            Absence(
                subject=quantity,
                reason=f"INFO of {self._label} has no {' and no '.join(names)}.",
            )
            for quantity, names in lacking.items()
        )
        # Who may not ask whether the latency monitor is on is told by what it then lacks.
        answer = self._allowed("CONFIG", "GET", "latency-monitor-threshold")
        if isinstance(answer, list) and answer[1:] == [b"0"]:
            off = "The server's latency monitor is off: set latency-monitor-threshold (in ms)."
            self._lacking.append(Absence(subject="latency events", reason=off))
        return answering_s(self._told)

    def _look(self, sections: tuple[str, ...]) -> Told:
        told = self._info(*(sections if self._several else _ALL_OF_OLD))
        self._passing.look(told, self._clock.monotonic() - self._skipped_s)
        self._compare(told)
        return told

    def _compare(self, told: Told) -> None:
        if self._replica is None:
            return
        try:
            self._passing.compare(told, self._replica.info("replication"))
        except TargetError as error:
            self._replica.close()
            self._replica = None
            lag = Absence(subject=Quantity.REPLICA_LAG_BYTES, reason=error.message)
            self._lacking.append(lag)

    def _worst(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for name in event_names(self._allowed("LATENCY", "LATEST")):
            history = self._allowed("LATENCY", "HISTORY", name)
            worst_s = longest_s(history, since=self._since_s)
            if worst_s is not None:
                kind = KINDS[name]
                found[kind] = max(worst_s, found.get(kind, 0.0))
        return found

    def _info(self, *sections: str) -> Told:
        return parse_info(self._asked("INFO", *sections))

    def _allowed(self, *words: str | int) -> Reply:
        with contextlib.suppress(ReplyError):
            return self._asked(*words)
        asked = " ".join(map(str, words))
        reason = f"{self._label} refuses {asked} to this user."
        self._lacking.append(Absence(subject=asked, reason=reason))
        return None

    def _asked(self, *words: str | int) -> Reply:
        """Return an answer, and keep count of what asking adds to the server's counters."""
        self._commands += 1
        lengths = [len(str(word).encode()) for word in words]
        self._in_bytes += len(f"*{len(words)}\r\n")
        self._in_bytes += sum(len(f"${size}\r\n\r\n") + size for size in lengths)
        self._before_bytes = self._out_bytes
        answer = self._session.command(*words)
        self._out_bytes += _answered_bytes(answer)
        return answer


def open_reader(door: RedisDoor, address: ServerAddress, clock: Clock | None = None) -> RedisReader:
    """Return a reader on a new session.

    Raises:
        TargetError: The server lets nobody in, or does not let this user ask for INFO.
    """
    session = door.connect(address)
    replica = None
    try:
        replica = None if address.beside is None else door.connect(address.beside)
        return RedisReader(session, clock or Clock(), replica)
    except TargetError:
        session.close()
        if replica is not None:
            replica.close()
        raise


def _answered_bytes(answer: Reply) -> int:
    """Return the length of an answer on the wire; numbers and nested arrays as RESP 2 has them."""
    if isinstance(answer, bytes):
        return len(f"${len(answer)}\r\n\r\n") + len(answer)
    if isinstance(answer, list):
        return len(f"*{len(answer)}\r\n") + sum(map(_answered_bytes, answer))
    return len(f":{answer}\r\n")


def _label(told: Told) -> str:
    name, version = "Redis", told.get("redis_version", "")
    if told.get("server_name") == "valkey":
        name, version = "Valkey", told.get("valkey_version", version)
    return f"{name} {version}".strip()
