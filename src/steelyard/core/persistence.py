"""What a configuration may lose of the writes that it acknowledged: rules, by settings.

Worst case of what the settings allow. That a disk keeps what it has flushed is taken for granted;
replicas and backups are not looked at. ``steelyard redis crash-test`` and ``steelyard postgres
crash-test`` measure it.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from steelyard.core.units import MS_PER_S

_DEFAULTS: Final = {
    "appendonly": "no",
    "appendfsync": "everysec",
    "no-appendfsync-on-rewrite": "no",
    "save": "3600 1 300 100 60 10000",
}
_CONF: Final = "Redis 7.0, redis.conf"
_PERSISTENCE: Final = "Redis documentation, 'Redis persistence'"
_LATENCY: Final = "Redis documentation, 'Diagnosing latency issues', on AOF and disk I/O"
# Linux writes a dirty page back when it is 30 s old (vm.dirty_expire_centisecs, 3000 by default),
# and looks for such ones every 5 s (vm.dirty_writeback_centisecs, 500).
_OLD_S: Final = 30.0
_LOOKS_S: Final = 5.0
_VM: Final = "Linux documentation, sysctl/vm, on dirty_expire_centisecs"
_HELD_BACK_S: Final = 2.0  # so long Redis keeps answered writes to itself while a flush goes on
_WAL: Final = "PostgreSQL documentation, 'Write Ahead Log'"
_ASYNCHRONOUS: Final = "PostgreSQL documentation, 'Asynchronous Commit'"
_WRITER_DELAYS: Final = 3  # of wal_writer_delay, by the chapter on asynchronous commit
_WRITER_DELAY_MS: Final = 200.0  # its default
_DELAY: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?) *(us|ms|s|min|h|d)?")
_SECONDS_PER: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_OFF: Final = frozenset({"off", "of", "false", "fals", "fal", "fa", "f", "no", "n", "0"})
_AT_ONCE: Final = "each write is with the kernel before its answer, and the kernel lives on"


class Death(StrEnum):
    """How a server dies."""

    KILL = "kill"
    POWER = "power"


@dataclass(frozen=True, slots=True, kw_only=True)
class PromisedDeath:
    """What may be gone of what was acknowledged after one death.

    Attributes:
        most_s: Only what was acknowledged in so many seconds before it; 0: nothing is gone; None:
            there is no such bound.
        reason: Why, to be read after "because".
        source: Who says so.
        known_as: The bound in words, where it is none of time.
        on_top: What is added to the seconds, in words: its length follows from no setting.
        most_writes: So many writes may be gone however old they are; None: no such bound.
    """

    most_s: float | None
    reason: str
    source: str
    known_as: str = ""
    on_top: str = ""
    most_writes: int | None = None

    @property
    def rank(self) -> tuple[float, float, bool]:
        """Return what orders bounds, the least loss first: without one in seconds is worst."""
        if self.most_s is not None:
            return self.most_s, 0.0, bool(self.on_top)
        return math.inf, math.inf if self.most_writes is None else self.most_writes, False

    @property
    def words(self) -> str:
        """Return the bound in words."""
        if self.known_as:
            return self.known_as
        if self.most_writes is not None:
            return f"up to {_writes(self.most_writes)}, however old"
        if self.most_s is None:
            return "everything"
        if self.on_top:
            return f"{self.most_s:g} s of writes and {self.on_top}"
        return f"{self.most_s:g} s of writes" if self.most_s else "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class PromisedLoss:
    """What a configuration promises for each death of one server."""

    kill: PromisedDeath
    power: PromisedDeath

    def after(self, death: Death) -> PromisedDeath:
        """Return what may be gone after one death."""
        return self.kill if death is Death.KILL else self.power


def promised_loss(settings: Mapping[str, str]) -> PromisedLoss:
    """Return what a Redis with these settings may lose; what is not named has its default."""
    given = {name.lower(): value.strip().lower() for name, value in settings.items()}
    asked = {**_DEFAULTS, **given}
    if asked["appendonly"] != "yes":
        snapshots = _by_snapshots(asked["save"])
        return PromisedLoss(kill=snapshots, power=snapshots)
    return PromisedLoss(kill=_log_killed(asked["appendfsync"]), power=_log_cut(asked))


def promised_by_replica() -> PromisedLoss:
    """Return what is gone when a replica takes the place of a dead Redis: the same both ways."""
    death = PromisedDeath(
        most_s=None,
        reason="no write waits for the replica; what it had not received died with the primary",
        source="Redis documentation, 'Redis replication'",
        known_as="what the replica lacked",
    )
    return PromisedLoss(kill=death, power=death)


def _by_snapshots(save: str) -> PromisedDeath:
    """Return what is gone with what was in memory alone: the same for both deaths.

    A save point asks for seconds and for changes: only one that asks for a single change bounds
    the seconds.
    """
    words = save.replace('"', "").split()
    pairs = zip(map(_whole, words[::2]), map(_whole, words[1::2]), strict=False)
    points = [pair for pair in pairs if pair[0] > 0]  # Redis takes no others
    if not points:
        reason = "the data are in memory alone (appendonly no, no save points)"
        return PromisedDeath(most_s=None, reason=reason, source=_PERSISTENCE)
    by_time = [seconds for seconds, changes in points if changes <= 1]
    return _within(min(by_time)) if by_time else _too_few(points)


def _within(seconds: int) -> PromisedDeath:
    reason = (
        "only the last complete snapshot comes back, and the next begins when more than"
        f" {seconds} s, counted in whole ones, have passed since that was complete; what was"
        " written while that was saved, and while the next is, is gone with it"
    )
    return PromisedDeath(
        most_s=float(seconds),
        reason=reason,
        source=f"{_CONF}, on save; {_PERSISTENCE}",
        on_top="the time of two saves",
    )


def _too_few(points: Sequence[tuple[int, int]]) -> PromisedDeath:
    seconds, changes = min(points, key=lambda point: (point[1], point[0]))
    reason = (
        "only the last complete snapshot comes back, and none begins before there were"
        f" {changes:,} writes, however long that takes; where they come faster, what was written"
        f" in {seconds} s and the time of two saves is gone, however much"
    )
    return PromisedDeath(
        most_s=None, reason=reason, source=f"{_CONF}, on save", most_writes=changes - 1
    )


def _writes(number: int) -> str:
    return "1 write" if number == 1 else f"{number:,} writes"


def _whole(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _log_killed(appendfsync: str) -> PromisedDeath:
    if appendfsync != "everysec":
        return PromisedDeath(most_s=0.0, reason=_AT_ONCE, source=_PERSISTENCE)
    reason = (
        f"{_AT_ONCE}; only while a flush goes on are answered writes held back in memory,"
        f" {_HELD_BACK_S:g} s at most"
    )
    return PromisedDeath(most_s=_HELD_BACK_S, reason=reason, source=_LATENCY)


def _log_cut(asked: Mapping[str, str]) -> PromisedDeath:
    appendfsync = asked["appendfsync"]
    if appendfsync == "no" or asked["no-appendfsync-on-rewrite"] == "yes":
        what = (
            "appendfsync no: nobody asks for a flush"
            if appendfsync == "no"
            else "no-appendfsync-on-rewrite yes: nobody flushes during a rewrite or a snapshot"
        )
        reason = (
            f"{what}, and Linux writes back what is {_OLD_S:g} s old, and looks for it every"
            f" {_LOOKS_S:g} s, by default"
        )
        source = f"{_CONF}, on no-appendfsync-on-rewrite; {_VM}"
        return PromisedDeath(most_s=_OLD_S + _LOOKS_S, reason=reason, source=source)
    if appendfsync == "always":
        reason = "the log is flushed before a write is answered"
        return PromisedDeath(most_s=0.0, reason=reason, source=f"{_CONF}, on appendfsync")
    reason = (
        "the log is flushed once a second, and what comes while a flush goes on waits for the"
        " next; a flush that takes longer than a second adds its length"
    )
    source = f"{_CONF}, on appendfsync; {_LATENCY}"
    return PromisedDeath(most_s=_HELD_BACK_S, reason=reason, source=source)


def folded_switch(value: str) -> str:
    """Return off for every spelling of it that PostgreSQL takes; other values in lower case.

    Source: PostgreSQL documentation, "Parameter Names and Values": any unambiguous prefix will do.
    """
    said = value.strip().lower()
    return "off" if said in _OFF else said


def _writer_delay_s(value: str) -> float:
    """Return a delay, of which a bare number is ms; the default where it is none."""
    found = _DELAY.fullmatch(value.strip())
    if found is None:
        return _WRITER_DELAY_MS / MS_PER_S
    return float(found[1]) * _SECONDS_PER[found[2] or "ms"]


def promised_commits(settings: Mapping[str, str]) -> PromisedLoss:
    """Return what a PostgreSQL with these settings may lose; what is not named has its default.

    Of ``fsync``, ``full_page_writes``, ``synchronous_commit`` and ``wal_writer_delay``, as a
    configuration file may spell them.
    """
    if folded_switch(settings.get("synchronous_commit", "on")) == "off":
        most_s = _WRITER_DELAYS * _writer_delay_s(settings.get("wal_writer_delay", ""))
        reason = f"synchronous_commit off: WAL is written up to {most_s:g} s after the answer"
        written = PromisedDeath(most_s=most_s, reason=reason, source=_ASYNCHRONOUS)
        flushed = written
    else:
        reason = "WAL is with the kernel before a commit is answered, and the kernel lives on"
        written = PromisedDeath(most_s=0.0, reason=reason, source=_WAL)
        reason = "WAL is flushed before a commit is answered"
        flushed = PromisedDeath(most_s=0.0, reason=reason, source=_WAL)
    unsafe = [
        name
        for name in ("fsync", "full_page_writes")
        if folded_switch(settings.get(name, "")) == "off"
    ]
    if unsafe:
        reason = f"{' and '.join(unsafe)} off: the whole database may be damaged"
        flushed = PromisedDeath(most_s=None, reason=reason, source=_WAL)
    return PromisedLoss(kill=written, power=flushed)
