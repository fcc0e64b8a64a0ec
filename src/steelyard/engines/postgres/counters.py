"""Where PostgreSQL counts what it does, by version.

Sources: PostgreSQL's documentation, chapter "The Cumulative Statistics System", of versions 13 to
18, and its release notes. Versions that are not run in the project's tests follow these texts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from steelyard.model.evidence import Absence, Quantity

_MAJOR: Final = 10000  # server_version_num is 10000 times the major version plus the minor


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One place where some versions count; a query of one row.

    Attributes:
        relation: What follows FROM.
        columns: SQL of each quantity.
        since: First major version that has it so.
        until: Last one; None means that there is no later change.
    """

    relation: str
    columns: Mapping[Quantity, str]
    since: int = 0
    until: int | None = None

    def serves(self, version: int) -> bool:
        """Return whether a server of this major version has it."""
        return self.since <= version and (self.until is None or version <= self.until)

    @property
    def statement(self) -> str:
        """Return its query."""
        columns = (f"({expression})::float8" for expression in self.columns.values())
        return f"SELECT {', '.join(columns)} FROM {self.relation}"  # noqa: S608 - all of it ours


_DATABASE = Source(
    relation="pg_stat_database WHERE datname = current_database()",
    columns={
        Quantity.COMMITS: "xact_commit",
        Quantity.ROLLBACKS: "xact_rollback",
        Quantity.PAGES_HIT: "blks_hit",
        # Up to 15 also the pages by which a table grows (measured).
        Quantity.PAGES_READ: "blks_read",
        Quantity.ROWS_RETURNED: "tup_returned",
        Quantity.ROWS_FETCHED: "tup_fetched",
        Quantity.ROWS_INSERTED: "tup_inserted",
        Quantity.ROWS_UPDATED: "tup_updated",
        Quantity.ROWS_DELETED: "tup_deleted",
        Quantity.TEMPORARY_BYTES: "temp_bytes",
        Quantity.DEADLOCKS: "deadlocks",
    },
)
# The position in the WAL is exact at once; sessions report wal_bytes of pg_stat_wal later.
_POSITION = Source(
    relation="(SELECT 1) AS one",
    columns={Quantity.WAL_BYTES: "pg_current_wal_insert_lsn() - '0/0'::pg_lsn"},
)
_WAL_14 = Source(
    relation="pg_stat_wal",
    columns={
        Quantity.WAL_RECORDS: "wal_records",
        Quantity.FULL_PAGE_IMAGES: "wal_fpi",
        Quantity.WAL_WRITES: "wal_write",
        Quantity.WAL_SYNCS: "wal_sync",
    },
    since=14,
    until=17,
)
_WAL_18 = Source(
    relation="pg_stat_wal",
    columns={Quantity.WAL_RECORDS: "wal_records", Quantity.FULL_PAGE_IMAGES: "wal_fpi"},
    since=18,
)
# Up to 17 an operation is a page, and op_bytes its size.
_IO_16 = Source(
    relation="pg_stat_io WHERE object = 'relation'",
    columns={
        Quantity.PAGES_WRITTEN: "sum(writes)",
        Quantity.RELATION_READ_BYTES: "sum(reads * op_bytes)",
        Quantity.RELATION_SYNCS: "sum(fsyncs)",
    },
    since=16,
    until=17,
)
# From 18 on an operation may be several pages, and the WAL is here, too; without the making of
# new segments, which pg_stat_wal never counted.
_IO_18 = Source(
    relation="pg_stat_io WHERE object IN ('relation', 'wal') AND context <> 'init'",
    columns={
        Quantity.PAGES_WRITTEN: "sum(write_bytes) FILTER (WHERE object = 'relation')"
        " / current_setting('block_size')::int",
        Quantity.RELATION_READ_BYTES: "sum(read_bytes) FILTER (WHERE object = 'relation')",
        Quantity.RELATION_SYNCS: "sum(fsyncs) FILTER (WHERE object = 'relation')",
        Quantity.WAL_WRITES: "sum(writes) FILTER (WHERE object = 'wal')",
        Quantity.WAL_SYNCS: "sum(fsyncs) FILTER (WHERE object = 'wal')",
    },
    since=18,
)
_CHECKPOINTS_16 = Source(
    relation="pg_stat_bgwriter",
    columns={Quantity.CHECKPOINTS: "checkpoints_timed + checkpoints_req"},
    until=16,
)
_CHECKPOINTS_17 = Source(
    relation="pg_stat_checkpointer",
    columns={Quantity.CHECKPOINTS: "num_timed + num_requested"},
    since=17,
)
SOURCES: Final = (
    *(_DATABASE, _POSITION, _WAL_14, _WAL_18),
    *(_IO_16, _IO_18, _CHECKPOINTS_16, _CHECKPOINTS_17),
)
# What older versions do not count, and in which version that began. pg_stat_bgwriter has the pages
# that backends wrote, up to 15, but learns of them at the next checkpoint only (measured): they
# would be counted in another run.
_NEWER: Final = {
    Quantity.WAL_RECORDS: 14,
    Quantity.FULL_PAGE_IMAGES: 14,
    Quantity.WAL_WRITES: 14,
    Quantity.WAL_SYNCS: 14,
    Quantity.PAGES_WRITTEN: 16,
    Quantity.RELATION_READ_BYTES: 16,
    Quantity.RELATION_SYNCS: 16,
}


def major_version(number: int) -> int:
    """Return the major version of a ``server_version_num``."""
    return number // _MAJOR


def tables_source(tables: tuple[int, ...]) -> Source:
    """Return the source that sums over tables, given by their oids.

    They are listed once: to look them up each time would count as the workload's reading.
    """
    numbers = ",".join(map(str, tables))
    return Source(
        relation=f"unnest('{{{numbers}}}'::oid[]) AS tables(oid)",
        columns={Quantity.AUTOVACUUMS: "coalesce(sum(pg_stat_get_autovacuum_count(oid)), 0)"},
    )


def sources_of(version: int) -> tuple[Source, ...]:
    """Return what a server of this major version has."""
    return tuple(source for source in SOURCES if source.serves(version))


def absences_of(version: int) -> tuple[Absence, ...]:
    """Return what a server of this major version does not count."""
    return tuple(
        Absence(
            subject=quantity,
            reason=f"PostgreSQL {version} does not count it, or not in time; {since} and later do.",
        )
        for quantity, since in _NEWER.items()
        if version < since
    )


def combined(sources: tuple[Source, ...]) -> str:
    """Return one statement for all of them; its columns are theirs, in order."""
    parts = (f"({source.statement}) AS s{number}" for number, source in enumerate(sources))
    return f"SELECT * FROM {', '.join(parts)}"  # noqa: S608 - all of it ours


def quantities(sources: tuple[Source, ...]) -> tuple[Quantity, ...]:
    """Return what the columns of ``combined`` are."""
    return tuple(quantity for source in sources for quantity in source.columns)
