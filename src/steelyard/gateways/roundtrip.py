"""Round trips on an open connection, timed as closely as Python can.

psycopg's own way of executing takes several times as long as a round trip on a socket; this goes
to libpq itself, and never waits for ever.
"""

import select
import time
from functools import partial

import psycopg

from steelyard.gateways.answers import last_result

_PATIENCE_MS = 10_000  # for one answer; beyond it the server hangs


def time_round_trips(
    connection: "psycopg.Connection[tuple[object, ...]]",
    statement: bytes,
    *,
    most: int,
    most_s: float,
) -> tuple[float, ...]:
    """Return the seconds of each round trip, after one that does not count.

    Args:
        connection: Open, and nobody else uses it.
        statement: Returns rows.
        most: Round trips to take.
        most_s: Seconds after which no other is begun.

    Raises:
        psycopg.Error: The server refuses, is gone, or does not answer.
    """
    _round_trip(connection, statement)
    trips: list[float] = []
    begun = time.perf_counter()
    while len(trips) < most and time.perf_counter() - begun < most_s:
        asked = time.perf_counter()
        _round_trip(connection, statement)
        trips.append(time.perf_counter() - asked)
    return tuple(trips)


def _round_trip(connection: "psycopg.Connection[tuple[object, ...]]", statement: bytes) -> None:
    pgconn = connection.pgconn
    pgconn.send_query(statement)
    result = last_result(pgconn, partial(_wait, pgconn.socket))
    if result.status != psycopg.pq.ExecStatus.TUPLES_OK:
        raise psycopg.OperationalError(result.get_error_message())


def _wait(socket: int, events: int) -> None:
    poll = select.poll()
    poll.register(socket, events)
    if not poll.poll(_PATIENCE_MS):
        raise psycopg.OperationalError(f"no answer within {_PATIENCE_MS / 1000:.0f} s: it hangs")
