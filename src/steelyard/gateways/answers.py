"""Answers of libpq itself, without psycopg's own way of executing and its cost."""

import select
from collections.abc import Callable

import psycopg


def last_result(
    pgconn: "psycopg.pq.abc.PGconn", wait: Callable[[int], None]
) -> "psycopg.pq.abc.PGresult":
    """Return the last result of what was sent on a connection that does not block.

    Args:
        pgconn: Open, and nobody else uses it.
        wait: Returns when the connection's socket has one of the poll events that it is given.

    Raises:
        psycopg.OperationalError: There was none. What ``wait`` raises goes on.
    """
    last = None
    while pgconn.flush():
        wait(select.POLLOUT)
    while True:
        while pgconn.is_busy():
            wait(select.POLLIN)
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:
            break
        last = result
    if last is None:
        raise psycopg.OperationalError("the server gave no answer")
    return last
