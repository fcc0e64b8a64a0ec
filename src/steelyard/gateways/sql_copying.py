"""Rows of tables, from one database into another of the same layout, past this machine's disk."""

from collections.abc import Sequence

from steelyard.core.outside import ServerAddress
from steelyard.gateways.sql import Sql

# The limits of the user's statements are another matter; an older server lacks some.
_WITHOUT_LIMITS = b"""
SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN ('statement_timeout',
  'transaction_timeout', 'idle_in_transaction_session_timeout', 'idle_session_timeout')
"""
# One snapshot for all tables, and their rows as they lie.
_BEGIN = (
    b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    b"SET LOCAL synchronize_seqscans = off",
)


def copy_rows(tables: Sequence[str], source: ServerAddress, to: ServerAddress, sql: Sql) -> None:
    """Copy the rows of tables, all of one snapshot; their own, not those of tables below them.

    Args:
        tables: Names as SQL writes them.
        source: Database that has them.
        to: Database that has the same tables, empty.
        sql: Reaches both.

    Raises:
        TargetError: A server refuses, such as for want of disk, or is gone.
    """
    with sql.connected(source) as giving, sql.connected(to) as taking:
        for connection in (giving, taking):
            connection.execute(_WITHOUT_LIMITS)
        for statement in _BEGIN:
            giving.execute(statement)
        for table in tables:
            out = f"COPY {table} TO STDOUT (FORMAT binary)"
            into = f"COPY {table} FROM STDIN (FORMAT binary)"
            with (
                giving.cursor().copy(out.encode()) as rows,
                taking.cursor().copy(into.encode()) as filled,
            ):
                for block in rows:
                    filled.write(block)
        giving.execute(b"COMMIT")
