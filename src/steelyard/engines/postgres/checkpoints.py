"""PostgreSQL's checkpoint cycle: which settings it matters for, how long it is, where it stands.

After a checkpoint the first change of every page writes the whole page to the WAL, so the WAL is
heavy at the beginning of a cycle and light at its end; the checkpoint's own writes are spread over
a part of the cycle. Source: PostgreSQL's documentation, chapters "WAL Configuration" and "Write
Ahead Log".
"""

from collections.abc import Sequence

from steelyard.engines.postgres.settings import in_unit
from steelyard.gateways.sql import Sql
from steelyard.model.command import ServerAddress
from steelyard.model.environment import EffectiveSetting
from steelyard.model.measurement import CheckpointAge

# A setting whose effect at the beginning of a cycle says little about its effect at the end.
CYCLE_SETTINGS = {
    "checkpoint_completion_target": "how much of the cycle the checkpoint's writes are spread over",
    "checkpoint_flush_after": "how soon the checkpoint's writes reach the disk",
    "checkpoint_timeout": "the length of the cycle itself",
    "fsync": "whether a checkpoint waits for the disk",
    "full_page_writes": "whether whole pages are written to the WAL after a checkpoint",
    "max_wal_size": "whether the WAL ends the cycle before its time does",
    "min_wal_size": "whether segments are recycled or made anew after a checkpoint",
    "wal_buffers": "room for the burst of whole pages after a checkpoint",
    "wal_compression": "the cost of whole pages, which are many after a checkpoint and few later",
    "wal_init_zero": "the cost of a new segment, of which a cycle makes most at its beginning",
    "wal_level": "how much is written to the WAL",
    "wal_log_hints": "whole pages also where only hint bits change, after each checkpoint",
    "wal_recycle": "whether segments are recycled or made anew after a checkpoint",
}
# Settings of what is done at times, whatever the work; `synchronous_commit` leaves it to the WAL
# writer, which wakes up by the clock. Documentation: "Resource Consumption", "Write Ahead Log",
# "Automatic Vacuuming".
_TIMED_SETTINGS = ("synchronous_commit", "wal_writer_delay", "wal_writer_flush_after")
_PAID_BY_OTHERS = (
    *("synchronous_commit", "commit_delay", "commit_siblings", "wal_compression"),
    "backend_flush_after",
)
_TIMED_FAMILIES = ("autovacuum", "bgwriter_")
# A restart from a clean shutdown writes no checkpoint, but begins a cycle: the checkpointer's clock
# starts, and every page is older than the last checkpoint. Its time is that of its beginning, and
# is told when it is complete (pg_control_checkpoint, since 9.6), in whole seconds.
_AGE = """
SELECT extract(epoch FROM clock_timestamp()
                          - greatest(checkpoint_time, pg_postmaster_start_time()))::float8
FROM pg_control_checkpoint()
"""


def cycle_settings(names: Sequence[str]) -> tuple[str, ...]:
    """Return those of these settings whose effect changes over a checkpoint cycle."""
    return tuple(name for name in names if name.lower() in CYCLE_SETTINGS)


def timed_settings(names: Sequence[str]) -> tuple[str, ...]:
    """Return those of these settings that act by the clock, at times shorter than a block.

    A checkpoint comes after minutes, or after so much WAL, which is work.
    """
    return tuple(
        name
        for name in names
        if name.lower() in _TIMED_SETTINGS or name.lower().startswith(_TIMED_FAMILIES)
    )


def paid_by_others(names: Sequence[str]) -> tuple[str, ...]:
    """Return those of these settings of a session that others pay for, or are spared by.

    What one session leaves in the WAL or does not write others flush, and a checkpoint writes.
    """
    return tuple(name for name in names if name.lower() in _PAID_BY_OTHERS)


def cycle_s(effective: Sequence[EffectiveSetting]) -> float | None:
    """Return the length of the cycle in force; None when the server does not show it."""
    for setting in effective:
        if setting.name == "checkpoint_timeout":
            return in_unit(f"{setting.value}{setting.unit or ''}", "s")
    return None


def checkpoint_age(address: ServerAddress, sql: Sql) -> CheckpointAge:
    """Return how long ago the cycle began: by a checkpoint, or by the server's start.

    Raises:
        TargetError: The server cannot be reached, or does not let this user ask.
    """
    ((seconds,),) = sql.rows(address, _AGE)
    return CheckpointAge(seconds=round(max(float(str(seconds)), 0.0), 3))
