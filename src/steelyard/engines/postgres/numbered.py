"""Numbered writes of PostgreSQL: a row for each, in a transaction of its own."""

from typing import Final

from steelyard.gateways.sql import Sql, SqlSession
from steelyard.model.command import ServerAddress

_TABLE: Final = (
    "CREATE TABLE crash_test (writer integer NOT NULL, number bigint NOT NULL, filler text)"
)
# RETURNING: the row that comes back is the acknowledgement of a committed statement.
_INSERT: Final = (
    "INSERT INTO crash_test SELECT %s, number, repeat('.', 100)"
    " FROM generate_series(%s::bigint, %s::bigint) number RETURNING number"
)
_MISSING: Final = (
    "SELECT number FROM generate_series(1, %s::bigint) number"
    " EXCEPT SELECT number FROM crash_test WHERE writer = %s ORDER BY number"
)
_PATIENCE_S: Final = 60.0


class NumberedRows:
    """Rows of a table without an index, so that only the rows themselves are asked for.

    Args:
        sql: The door.
    """

    def __init__(self, sql: Sql) -> None:
        self._sql = sql

    def prepare(self, address: ServerAddress) -> None:
        """Make the table."""
        self._sql.execute(address, [_TABLE])

    def writer(self, address: ServerAddress, writer: int) -> "RowWriter":
        """Return a connection that writes."""
        name = f"steelyard crash test {writer}"
        return RowWriter(self._sql.session(address, name, patience_s=_PATIENCE_S), writer)

    def missing(self, address: ServerAddress, writer: int, last: int) -> list[int]:
        """Return which of a writer's rows up to the last are gone."""
        rows = self._sql.rows(address, _MISSING, (last, writer))
        return [int(str(number)) for (number,) in rows]


class RowWriter:
    """One connection."""

    def __init__(self, session: SqlSession, writer: int) -> None:
        self._session = session
        self._writer = writer

    def write(self, first: int, count: int) -> None:
        """Insert so many rows in one transaction; see ``NumberedWriter``."""
        self._session.rows(_INSERT, (self._writer, first, first + count - 1))

    def close(self) -> None:
        """End the connection."""
        self._session.close()
