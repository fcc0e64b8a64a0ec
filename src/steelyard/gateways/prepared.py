"""Prepared statements on an open connection, at the least cost in CPU time.

What watches a server asks ten times a second, and its CPU time is taken from what it watches.
psycopg's own way of executing takes several times as much: it makes a cursor, adapts, and keeps
account of transactions. This goes to libpq itself, and never waits for ever.
"""

import select
import time
from functools import partial

import psycopg
from psycopg import adapt, errors

from steelyard.gateways.answers import last_result
from steelyard.gateways.patience import PatientConnection

_WAKE_UP_MS = 100  # as often as psycopg looks whether anybody still waits


class PreparedStatements:
    """Statements without parameters on a connection in autocommit mode that nobody else uses."""

    def __init__(self, connection: PatientConnection) -> None:
        self._connection = connection
        self._names: dict[str, bytes] = {}
        self._loading = adapt.Transformer(connection)
        self._readable, self._writable = select.poll(), select.poll()
        self._readable.register(connection.pgconn.socket, select.POLLIN)
        self._writable.register(connection.pgconn.socket, select.POLLOUT)

    def rows(self, statement: str) -> list[tuple[object, ...]]:
        """Return all rows of a statement, which the server prepares at its first use.

        Raises:
            psycopg.Error: The server refuses it, is gone, or nobody waits for it any more.
        """
        name = self._names.get(statement)
        if name is None:
            name = b"steelyard_%d" % len(self._names)
            self._connection.pgconn.send_prepare(name, statement.encode())
            self._answer()
            self._names[statement] = name
        self._connection.pgconn.send_query_prepared(name, None)
        result = self._answer()
        self._loading.set_pgresult(result)
        return self._loading.load_rows(0, result.ntuples, tuple)

    def _answer(self) -> "psycopg.pq.abc.PGresult":
        """Return the result of what was sent."""
        last = last_result(self._connection.pgconn, partial(self._wait, time.monotonic()))
        if last.status not in (psycopg.pq.ExecStatus.TUPLES_OK, psycopg.pq.ExecStatus.COMMAND_OK):
            raise errors.error_from_result(last)
        return last

    def _wait(self, asked_at: float, events: int) -> None:
        """Wait for the connection, and ask now and then whether to go on."""
        ready = self._readable if events == select.POLLIN else self._writable
        while not ready.poll(_WAKE_UP_MS):
            if self._connection.heed(asked_at):
                asked_at = time.monotonic()
