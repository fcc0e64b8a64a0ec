"""What a Redis server says of itself around one run, read on one session that stays open."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Final

from steelyard.engines.reading import Waiting
from steelyard.engines.redis import events, figures
from steelyard.engines.redis.figures import Told
from steelyard.engines.redis.passing import Passing
from steelyard.gateways.clock import Clock, SystemClock
from steelyard.gateways.redis import RedisDoor, RedisSession, Reply, ReplyError, parse_info
from steelyard.model.command import ServerAddress
from steelyard.model.errors import TargetError
from steelyard.model.evidence import Absence, Quantity

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


class RedisReader:
    """Reads counters and what passes between them; what it does itself is not among them.

    Args:
        session: On the server.
        clock: Tells looks apart.
        replica: On a replica beside it; None: there is none to ask.
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
        process = figures.number(told, "process_id")
        self._process = None if process is None else int(process)
        self._several = _major(told) >= _SEVERAL_FROM
        self._since_s = self._server_time()
        self._slow = self._newest_slow()
        self._answering_s = self._begin()

    @property
    def source(self) -> str:
        """Return what would be said of waits."""
        return "INFO"

    @property
    def pid(self) -> None:
        """Return that a session has no process of its own."""
        return

    @property
    def serving_pid(self) -> int | None:
        """Return the server's process; its number holds where the server runs."""
        return self._process

    @property
    def answering_s(self) -> float:
        """Return the seconds that the server has spent on answering, as far as it was last read."""
        return figures.answering_s(self._told) - self._answering_s

    @property
    def absent(self) -> tuple[Absence, ...]:
        """Return what this version or this user does not show."""
        return (_NO_WAITS, *self._lacking)

    def skip(self, seconds: float) -> None:
        """Take note that for so long nothing went on: what is summed over time leaves it out."""
        self._skipped_s += seconds

    def waits(self) -> Sequence[Waiting]:
        """Return nothing; a look is taken at what INFO says of the moment only."""
        self._look(_PASSING)
        return ()

    def counters(self) -> Mapping[str, float]:
        """Return all counters there are, since an arbitrary start, by ``Quantity``."""
        self._told = self._look(_ALL)
        found: dict[str, float] = {**figures.counted(self._told), **self._passing.counters}
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
        found: dict[str, float] = {**figures.readings(self._told), **self._passing.levels}
        if self._slow is not None:
            entries = self._asked("SLOWLOG", "GET", events.ENTRIES)
            found |= events.slow_commands(entries, after=self._slow)
        return {**found, **self._worst()}

    def close(self) -> None:
        """End the session; also from another thread, while a command hangs."""
        self._session.close()
        if self._replica is not None:
            self._replica.close()

    def _begin(self) -> float:
        """Look for the first time, and note what this server does not tell."""
        self._told = self._look(_ALL)
        counted = figures.counted(self._told)
        lacking = {q: figures.lines_of(q) for q in figures.COUNTED if q not in counted}
        lacking |= {q: (n,) for q, n in _SUMMED.items() if q not in self._passing.counters}
        self._lacking.extend(
            Absence(
                subject=quantity,
                reason=f"INFO of {self._label} has no {' and no '.join(names)}.",
            )
            for quantity, names in lacking.items()
        )
        self._note_monitor()
        return figures.answering_s(self._told)

    def _look(self, sections: tuple[str, ...]) -> Told:
        told = self._info(*(sections if self._several else _ALL_OF_OLD))
        self._passing.look(told, self._clock.monotonic() - self._skipped_s)
        self._compare(told)
        return told

    def _compare(self, told: Told) -> None:
        """Ask the replica how far it is, as long as it answers."""
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
        """Return the longest of each kind of event since the beginning."""
        found: dict[str, float] = {}
        for name in events.event_names(self._allowed("LATENCY", "LATEST")):
            history = self._asked("LATENCY", "HISTORY", name)
            worst_s = events.worst_s(history, since=self._since_s)
            if worst_s is not None:
                kind = events.KINDS[name]
                found[kind] = max(worst_s, found.get(kind, 0.0))
        return found

    def _note_monitor(self) -> None:
        """Say where the latency monitor is off; who may not ask is told by what it then lacks."""
        answer = self._allowed("CONFIG", "GET", "latency-monitor-threshold")
        if isinstance(answer, list) and answer[1:] == [b"0"]:
            off = "The server's latency monitor is off: set latency-monitor-threshold (in ms)."
            self._lacking.append(Absence(subject="latency events", reason=off))

    def _newest_slow(self) -> int | None:
        answer = self._allowed("SLOWLOG", "GET", 1)
        return None if answer is None else events.newest(answer)

    def _server_time(self) -> int:
        answer = self._asked("TIME")
        return int(answer[0]) if isinstance(answer, list) else 0

    def _info(self, *sections: str) -> Told:
        return parse_info(self._asked("INFO", *sections))

    def _allowed(self, *words: str | int) -> Reply:
        """Return an answer, or None where this user may not ask or the server does not know."""
        with contextlib.suppress(ReplyError):
            return self._asked(*words)
        asked = " ".join(map(str, words))
        reason = f"{self._label} refuses {asked} to this user."
        self._lacking.append(Absence(subject=asked, reason=reason))
        return None

    def _asked(self, *words: str | int) -> Reply:
        """Return an answer, and keep count of what asking adds to the server's counters."""
        self._commands += 1
        self._in_bytes += _sent_bytes(words)
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
        return RedisReader(session, clock or SystemClock(), replica)
    except TargetError:
        session.close()
        if replica is not None:
            replica.close()
        raise


def _sent_bytes(words: Sequence[str | int]) -> int:
    """Return the length of a command on the wire (RESP, an array of bulk strings)."""
    lengths = [len(str(word).encode()) for word in words]
    return len(f"*{len(words)}\r\n") + sum(len(f"${size}\r\n\r\n") + size for size in lengths)


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


def _major(told: Told) -> int:
    head = told.get("redis_version", "").partition(".")[0]
    return int(head) if head.isdecimal() else 0
