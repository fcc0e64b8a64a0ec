"""The only door to SQL: short connections, and psycopg's errors in words of fact.

Statements are the engine's own text; values travel as parameters.

Every call of ``Sql`` connects anew: what is verified is what a new session of the generator would
get. Only ``session`` opens a connection that stays, for what watches a server.
"""

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

import psycopg
from psycopg import sql

from steelyard.gateways.clock import Clock
from steelyard.gateways.libpq import address_of, asked_for, connection_failure
from steelyard.gateways.patience import PATIENCE_S, PatientConnection
from steelyard.gateways.prepared import PreparedStatements
from steelyard.gateways.roundtrip import time_round_trips
from steelyard.model.command import ServerAddress
from steelyard.model.errors import RefusedError, TargetError

_CONNECT_TIMEOUT_S = 10
_NAME = "steelyard"
_PASSWORDS = ("PGPASSWORD", "PGPASSFILE")
# By name and not by process id, which a pooler invents.
_AT_WORK = """
SELECT count(*) FROM pg_stat_activity
WHERE application_name = %s AND state = 'active' AND pid <> pg_backend_pid()
"""
_LOADED_AT = "SELECT pg_conf_load_time()"
_RELOAD_TIMEOUT_S = 30.0
_RELOAD_POLL_S = 0.01

Row = tuple[object, ...]


class SqlSession(Protocol):
    """A connection that stays open, each statement in a transaction of its own."""

    def rows(self, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
        """Return all rows of one statement; without parameters it is prepared at its first use."""
        ...

    def close(self) -> None:
        """End the session; from another thread it also ends a pending wait for an answer."""
        ...


class Sql(Protocol):
    """Runs statements on a server."""

    def reach(self, keywords: Mapping[str, str]) -> ServerAddress:
        """Return where libpq ends up with these keywords and all that it finds by itself."""
        ...

    def rows(
        self, address: ServerAddress, statement: str, parameters: Sequence[object] = ()
    ) -> list[Row]:
        """Return all rows of one statement."""
        ...

    def execute(self, address: ServerAddress, statements: Sequence[str]) -> None:
        """Run statements one by one, each in its own transaction."""
        ...

    def set_password(self, address: ServerAddress, password: str) -> None:
        """Give the address's user a password; only its verifier travels."""
        ...

    def round_trips(
        self, address: ServerAddress, statement: str, *, most: int, most_s: float
    ) -> tuple[float, ...]:
        """Return the seconds of each round trip of a statement on one open connection."""
        ...

    def session(self, address: ServerAddress, name: str, *, patience_s: float) -> SqlSession:
        """Return a new session that the server shows as ``name``.

        Args:
            address: Where.
            name: Its application_name.
            patience_s: Without an answer for so long, a statement is given up.
        """
        ...


class PsycopgSql:
    """SQL through psycopg 3.

    Args:
        patience_s: After so long without an answer the server is asked whether it is at work.
    """

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s

    def reach(self, keywords: Mapping[str, str]) -> ServerAddress:
        """Return where libpq ends up with these keywords and all that it finds by itself.

        Who names no database gets libpq's, or `postgres` where that one does not exist.

        Raises:
            TargetError: Nowhere, or the server lets nobody in.
        """
        asked = {"connect_timeout": str(_CONNECT_TIMEOUT_S), **keywords}
        try:
            try:
                with psycopg.connect(application_name=_NAME, **asked) as connection:  # type: ignore[arg-type]
                    return address_of(connection)
            except psycopg.OperationalError as error:
                if "dbname" in keywords or not _lacks_database(error):
                    raise
            return self.reach({**keywords, "dbname": "postgres"})
        except psycopg.Error as error:
            text = " ".join(str(error).split())
            where, user = asked_for(keywords)
            raise connection_failure(text, where=where, user=user) from error

    def rows(
        self, address: ServerAddress, statement: str, parameters: Sequence[object] = ()
    ) -> list[Row]:
        """Return all rows of one statement.

        Raises:
            TargetError: The server cannot be reached or refuses the statement.
        """
        try:
            with self._connect(address) as connection:
                return connection.execute(statement.encode(), parameters or None).fetchall()
        except psycopg.Error as error:
            raise _translated(error, address) from error

    def execute(self, address: ServerAddress, statements: Sequence[str]) -> None:
        """Run statements one by one, each in its own transaction.

        Raises:
            TargetError: The server cannot be reached or refuses a statement.
        """
        try:
            with self._connect(address) as connection:
                for statement in statements:
                    connection.execute(statement.encode())
        except psycopg.Error as error:
            raise _translated(error, address) from error

    def set_password(self, address: ServerAddress, password: str) -> None:
        """Give the address's user a password; only its verifier travels.

        Raises:
            TargetError: The server cannot be reached or refuses.
        """
        try:
            with self._connect(address) as connection:
                verifier = connection.pgconn.encrypt_password(
                    password.encode(), address.user.encode(), b"scram-sha-256"
                )
                role = sql.Identifier(address.user)
                connection.execute(
                    sql.SQL("ALTER ROLE {} PASSWORD {}").format(role, verifier.decode())
                )
        except psycopg.Error as error:
            raise _translated(error, address) from error

    def round_trips(
        self, address: ServerAddress, statement: str, *, most: int, most_s: float
    ) -> tuple[float, ...]:
        """Return the seconds of each round trip of a statement on one open connection.

        Raises:
            TargetError: The server cannot be reached, refuses or does not answer.
        """
        try:
            with self._connect(address) as connection:
                return time_round_trips(connection, statement.encode(), most=most, most_s=most_s)
        except psycopg.Error as error:
            raise _translated(error, address) from error

    def session(self, address: ServerAddress, name: str, *, patience_s: float) -> SqlSession:
        """Return a new session that the server shows as ``name``.

        Raises:
            TargetError: The server cannot be reached.
        """
        try:
            return PsycopgSession(_open(address, name), address, patience_s)
        except psycopg.Error as error:
            raise _translated(error, address) from error

    def _connect(self, address: ServerAddress) -> PatientConnection:
        def is_at_work() -> bool:
            with _open(address) as other:
                other.be_patient(_CONNECT_TIMEOUT_S, lambda: False)
                return bool(other.execute(_AT_WORK, [_NAME]).fetchall()[0][0])

        connection = _open(address)
        connection.be_patient(self._patience_s, is_at_work)
        return connection


class PsycopgSession:
    """A connection that stays, for one thread; another may close it."""

    def __init__(
        self, connection: PatientConnection, address: ServerAddress, patience_s: float
    ) -> None:
        self._connection = connection
        self._address = address
        self._ended = threading.Event()
        self._in_use = threading.Lock()
        connection.be_patient(patience_s, lambda: False, self._ended.is_set)
        self._prepared = PreparedStatements(connection)

    def rows(self, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
        """Return all rows of one statement; without parameters it is prepared at its first use.

        Raises:
            TargetError: The server refuses it, is gone or does not answer, or the session ended.
        """
        try:
            with self._in_use:
                if parameters:
                    return self._connection.execute(statement.encode(), parameters).fetchall()
                return self._prepared.rows(statement)
        except psycopg.Error as error:
            raise _translated(error, self._address) from error

    def close(self) -> None:
        """End the session; from another thread it also ends a pending wait for an answer."""
        # The other thread sees it within a tenth of a second, psycopg's wake-up, and lets go:
        # libpq's connection is never touched by two threads at a time.
        self._ended.set()
        with self._in_use:
            self._connection.close()


def _open(address: ServerAddress, name: str = _NAME) -> PatientConnection:
    with _without_libpq_environment():
        return PatientConnection.connect(
            host=address.host,
            port=address.port,
            user=address.user or None,
            dbname=address.database or None,
            password=address.password or None,
            connect_timeout=_CONNECT_TIMEOUT_S,
            application_name=name,
            autocommit=True,
            **dict(address.parameters),  # type: ignore[arg-type]
        )


def reload(address: ServerAddress, sql: Sql, clock: Clock) -> None:
    """Make a server read its configuration, and return once new sessions see it.

    Raises:
        TargetError: It does not read it.
    """
    before = sql.rows(address, _LOADED_AT)
    sql.rows(address, "SELECT pg_reload_conf()")
    deadline = clock.monotonic() + _RELOAD_TIMEOUT_S
    while sql.rows(address, _LOADED_AT) == before:
        if clock.monotonic() > deadline:
            raise TargetError(
                "the server did not read its changed configuration", hint="Its log says why."
            )
        clock.sleep(_RELOAD_POLL_S)


@contextmanager
def _without_libpq_environment() -> Iterator[None]:
    """Hide PG* variables, which the generator does not get either: an address says it all.

    PGOPTIONS would verify a setting that the generator does not have, and PGHOSTADDR would lead
    to another server. Where a password is to be found stays: no record holds one, so an address
    from a journal comes without.
    """
    names = [name for name in os.environ if name.startswith("PG") and name not in _PASSWORDS]
    hidden = {name: os.environ.pop(name) for name in names}
    try:
        yield
    finally:
        os.environ.update(hidden)


def _lacks_database(error: psycopg.Error) -> bool:
    return 'database "' in str(error) and "does not exist" in str(error)


def _translated(error: psycopg.Error, address: ServerAddress) -> TargetError:
    # A forwarded port says nothing to anybody: it is the server's service that is named.
    host, port = address.inside or (address.host, address.port)
    where = f"{host}:{port}"
    text = " ".join(str(error).split())
    if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
        in_cluster = address.inside is not None
        return connection_failure(text, where=where, user=address.user, in_cluster=in_cluster)
    if isinstance(error, psycopg.errors.QueryCanceled):
        return TargetError(
            f"the server at {where} broke a statement off: {text}",
            hint="If statement_timeout is too short for this user, set it to 0: ALTER ROLE ... SET"
            " statement_timeout = 0.",
        )
    return RefusedError(f"the server at {where} refused: {text}")
