"""The only door to SQL: connections by libpq, and psycopg's errors in words of fact.

Statements are the engine's own text; values travel as parameters.

Every call of ``Sql`` connects anew: what is verified is what a new session of the generator would
get. Only ``session`` opens a connection that stays, for what watches a server.

libpq finds a server as it always does: URIs, the service file, ``PG*`` variables, pgpass. The texts
of a failed connection are libpq's and the server's own; there is no SQLSTATE for most.

Prepared statements and timed round trips go to libpq itself, and never wait for ever. What watches
a server asks ten times a second, and its CPU time is taken from what it watches; psycopg's own way
of executing takes several times as much: it makes a cursor, adapts, and keeps account of
transactions.

A statement may take hours, so no time limit tells a long one from a server that hangs or a network
that swallows packets. What tells them apart is a second connection: where it gets no answer, or
nobody of ours is at work, the first is given up.
"""

import os
import re
import select
import statistics
import threading
import time
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NoReturn, TypeVar

import psycopg
from psycopg import adapt, errors, sql
from psycopg.conninfo import conninfo_to_dict

from steelyard.core.outside import ServerAddress
from steelyard.core.wording import InputError, LoginError, RefusedError, TargetError
from steelyard.gateways.host import Clock, until

PATIENCE_S = 60.0  # as long as a run may stay without an end; a guess
_Result = TypeVar("_Result")


class PatientConnection(psycopg.Connection[tuple[object, ...]]):
    """A connection whose statements end with the server that works on them."""

    _patience_s = PATIENCE_S
    _is_at_work: Callable[[], bool] = staticmethod(lambda: False)
    _is_unwanted: Callable[[], bool] = staticmethod(lambda: False)

    def be_patient(
        self,
        patience_s: float,
        is_at_work: Callable[[], bool],
        is_unwanted: Callable[[], bool] = lambda: False,
    ) -> None:
        """Ask, each time an answer takes longer than ``patience_s``, whether to go on waiting.

        Args:
            patience_s: How long nobody asks.
            is_at_work: Whether the server still works on a statement of ours.
            is_unwanted: Asked at every wake-up: whether nobody needs the answer any more.
        """
        self._patience_s = patience_s
        self._is_at_work = is_at_work
        self._is_unwanted = is_unwanted

    def wait(self, gen: Generator[Any, Any, _Result], *args: Any, **kwargs: Any) -> _Result:  # noqa: ANN401 - psycopg's
        """Wait as psycopg does, which wakes up several times a second."""
        return super().wait(self._heeded(gen), *args, **kwargs)

    def _heeded(self, gen: Generator[Any, Any, _Result]) -> Generator[Any, Any, _Result]:
        clock = Clock()
        asked_at = clock.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and self.heed(asked_at):
                    asked_at = clock.monotonic()
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def heed(self, asked_at: float) -> bool:
        """Return whether patience was at an end and is had anew, an answer being on its way.

        Args:
            asked_at: When the statement was sent, or patience was had anew; monotonic seconds.

        Raises:
            psycopg.OperationalError: The answer is not to be waited for any more.
        """
        if self._is_unwanted():
            self._give_up("nobody waits for the answer any more")
        if Clock().monotonic() - asked_at <= self._patience_s:
            return False
        self._require_work()
        return True

    def _require_work(self) -> None:
        """Raise when nobody works on the statement.

        Raises:
            psycopg.OperationalError: The server does not answer, or has no such statement.
        """
        try:
            if self._is_at_work():
                return
        except psycopg.Error:
            pass
        self._give_up(f"no answer within {self._patience_s:.0f} s: it hangs")

    def _give_up(self, why: str) -> NoReturn:
        # Without this psycopg would try to roll back on it, and say that it could not.
        self.pgconn.finish()
        raise psycopg.OperationalError(why)


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


# libpq keywords whose values open a door.
_SECRETS: Final = frozenset(
    {"password", "sslpassword", "scram_client_key", "scram_server_key", "oauth_client_secret"}
)
# Said by ServerAddress itself, or decided anew for every connection.
_NOT_CARRIED: Final = frozenset(
    {
        *("host", "port", "user", "dbname", "service", "application_name"),
        *("connect_timeout", "client_encoding", "target_session_attrs", "load_balance_hosts"),
    }
)
_FROM_OUTSIDE: Final = "Put it into ~/.pgpass or PGPASSWORD; it has no place in an experiment file."
_FROM_INSIDE: Final = (
    "User and password come from a Secret beside the server: correct it, or name another one"
    " (`secret`)."
)
_CORRECT_IT: Final = "Correct it where libpq finds it: PGPASSWORD, else ~/.pgpass."
_REFUSED: Final = "password authentication failed"
_NONE_GIVEN: Final = "no password supplied|password supplied"
_ROLE: Final = r'role "[^"]*" does not exist'
_LOGIN: Final = f"{_REFUSED}|{_NONE_GIVEN}|{_ROLE}"
# What psycopg and libpq put before the reason; the place is named already.
_PREAMBLE: Final = re.compile(r"connection (?:to server (?:at|on) .*?)?\s*failed: ")
_QUESTION: Final = re.compile(r"\s*Is the server running[^?]*\?")  # of libpq; a hint has it
_FAILURES: Final = (
    # What PgBouncer says itself, in English alone and always with SQLSTATE 08P01.
    (
        "unsupported startup parameter",
        "the pooler at {where} refuses what {user} asks for when a session begins: {text}",
        "Leave it out of target and PG* variables, or let ignore_startup_parameters drop it there.",
    ),
    (
        "bouncer config error|no such database",
        "the pooler at {where} has no entry for the database: {text}",
        "Name a database of its [databases], or add an entry there.",
    ),
    (
        "no such user",
        "the pooler at {where} does not know {user}: {text}",
        "Add the user to its auth_file, or let it ask the server (auth_query).",
    ),
    (
        "no more connections allowed|max_client_conn",
        "the pooler at {where} has no connection left: {text}",
        "Close some, or raise max_client_conn there.",
    ),
    (
        "server_login_retry|pgbouncer cannot connect to server",
        "the pooler at {where} does not reach its server: {text}",
        "Is that server running? Its [databases] say where the pooler looks for it.",
    ),
    (
        _NONE_GIVEN,
        "the server at {where} asks {user} for a password, and there is none",
        _FROM_OUTSIDE,
    ),
    (
        _REFUSED,
        "the server at {where} refused the password of {user}",
        _CORRECT_IT,
    ),
    (
        r"pg_hba.conf.*SSL encryption",
        "the server at {where} does not let {user} in, with TLS or without: {text}",
        "Add a line to its pg_hba.conf, or connect as another user.",
    ),
    (
        r"no encryption|SSL off|server requires (SSL|encryption)|SSL connection is required",
        "the server at {where} does not let {user} in without TLS, or not at all: {text}",
        "Add `?sslmode=require` to the URI or set PGSSLMODE, or add a line to its pg_hba.conf.",
    ),
    (
        r"does not support SSL|SSL was required|certificate verify|root cert|match host name",
        "no TLS connection to the server at {where} came about: {text}",
        "Look at sslmode and sslrootcert, or PGSSLMODE and PGSSLROOTCERT.",
    ),
    (
        r"too many clients|connection slots are reserved|too many connections",
        "the server at {where} has no connection left: {text}",
        "Close some, or raise max_connections.",
    ),
    (
        r'database "[^"]*" does not exist',
        "the server at {where} refused: {text}",
        "Name a database that exists: `psql -l` lists those of the server.",
    ),
    (
        _ROLE,
        "the server at {where} does not let {user} in: {text}",
        "Name a role that exists: postgresql://ROLE@HOST/DATABASE; or CREATE ROLE ... LOGIN there.",
    ),
    (
        r"resolve host|translate host name|Name or service not known",
        "the server at {where} cannot be reached: {text}",
        "Correct the host name, or see what `getent hosts NAME` says of it on this machine.",
    ),
    (
        r"Connection refused|on socket .*No such file or directory",
        "the server at {where} cannot be reached: {text}",
        "Nothing listens there: is it running, and on this host, port or socket directory?",
    ),
    (
        r"no pg_hba.conf entry|authentication failed",
        "the server at {where} does not let {user} in: {text}",
        "Add a line to its pg_hba.conf, or connect as another user.",
    ),
)


def parsed_uri(uri: str) -> Mapping[str, str]:
    """Return the keywords of a libpq URI.

    Raises:
        InputError: It is none, or it holds a secret; the message repeats nothing of it.
    """
    try:
        keywords = conninfo_to_dict(uri)
    except psycopg.ProgrammingError:
        # Without the cause: libpq's message quotes parts of the URI, and they may be a secret.
        raise _no_uri() from None
    if _SECRETS & set(keywords):
        raise InputError(
            "the URI has a password in it",
            hint="Records carry no secrets: use ~/.pgpass or PGPASSWORD.",
        )
    if not re.fullmatch(r"[0-9,]*", str(keywords.get("port", ""))) or "@" in str(
        keywords.get("dbname", "")
    ):
        # What a password with an unescaped slash looks like to libpq.
        raise _no_uri()
    return {name: str(value) for name, value in keywords.items()}


def _no_uri() -> InputError:
    return InputError(
        "this is no URI that libpq understands",
        hint="Write postgresql://USER@HOST:PORT/DATABASE?sslmode=require, without a password.",
    )


def asked_for(keywords: Mapping[str, str]) -> tuple[str, str]:
    """Return place and user that libpq will try, for messages; no server is asked."""
    defaults = {
        option.keyword.decode(): (option.val or b"").decode(errors="replace")
        for option in psycopg.pq.Conninfo.get_defaults()
    }
    known = {**{name: value for name, value in defaults.items() if value}, **keywords}
    if "service" in keywords:
        return f"service {keywords['service']}", keywords.get("user", "its user")
    where = f"{known.get('host', 'the default socket')}:{known.get('port', '5432')}"
    return where, known.get("user", "this account")


def address_of(connection: "psycopg.Connection[tuple[object, ...]]") -> ServerAddress:
    """Return where an open connection led, so that others can follow it."""
    carried = connection.info.get_parameters().items()
    return ServerAddress(
        host=connection.info.host,
        port=connection.info.port,
        user=connection.info.user,
        database=connection.info.dbname,
        password=connection.info.password,
        parameters=tuple(sorted((n, v) for n, v in carried if n not in _NOT_CARRIED | _SECRETS)),
    )


def connection_failure(
    text: str, *, where: str, user: str, in_cluster: bool = False
) -> TargetError:
    """Return a failed connection in words of fact, with the way out.

    Args:
        text: What libpq said.
        where: The server.
        user: Who was not let in; empty for this account.
        in_cluster: The server is in a cluster, and the password from a Secret there.
    """
    named = user or "this account"
    reason = _QUESTION.sub("", _PREAMBLE.sub("", text))
    for pattern, message, hint in _FAILURES:
        if re.search(pattern, text):
            is_of_password = hint in (_FROM_OUTSIDE, _CORRECT_IT)
            hint = _FROM_INSIDE if in_cluster and is_of_password else hint  # noqa: PLW2901
            kind = LoginError if re.search(_LOGIN, text) else TargetError
            return kind(message.format(where=where, user=named, text=reason), hint=hint)
    return TargetError(
        f"the server at {where} cannot be reached: {reason}",
        hint="Is it running, and does it listen there?",
    )


_CONNECT_TIMEOUT_S = 10
_NAME = "steelyard"
_UNENCODED: Final = "SQL_ASCII"
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


class Sql:
    """Runs statements on a server, through psycopg 3.

    A TargetError is raised where it cannot be reached, refuses or does not answer.

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

    def is_pooled(self, address: ServerAddress) -> bool:
        """Return whether a pooler is in between: it invents the number of a session's backend."""
        with self._connected(address) as connection:
            rows = connection.execute(b"SELECT pg_backend_pid()").fetchall()
            return rows != [(connection.info.backend_pid,)]

    def rows(
        self, address: ServerAddress, statement: str, parameters: Sequence[object] = ()
    ) -> list[Row]:
        """Return all rows of one statement."""
        with self._connected(address) as connection:
            return connection.execute(statement.encode(), parameters or None).fetchall()

    def execute(self, address: ServerAddress, statements: Sequence[str]) -> None:
        """Run statements one by one, each in its own transaction."""
        with self._connected(address) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def set_password(self, address: ServerAddress, password: str) -> None:
        """Give the address's user a password; only its verifier travels."""
        with self._connected(address) as connection:
            verifier = connection.pgconn.encrypt_password(
                password.encode(), address.user.encode(), b"scram-sha-256"
            )
            role = sql.Identifier(address.user)
            connection.execute(sql.SQL("ALTER ROLE {} PASSWORD {}").format(role, verifier.decode()))

    def round_trips(
        self,
        address: ServerAddress,
        statement: str,
        *,
        connections: int,
        most: int,
        most_s: float,
    ) -> tuple[float, ...]:
        """Return the seconds of each round trip of a statement on the quickest connection.

        The kernel puts a session on its client's CPU or on another, and leaves it there: on one
        connection alone that doubles a round trip, or not.
        """
        found: list[tuple[float, ...]] = []
        share_s = most_s / connections
        for _ in range(connections):
            with self._connected(address) as connection:
                found.append(
                    time_round_trips(connection, statement.encode(), most=most, most_s=share_s)
                )
        return min(found, key=statistics.median)

    def session(self, address: ServerAddress, name: str, *, patience_s: float) -> "SqlSession":
        """Return a new session that the server shows as ``name``.

        Args:
            address: Where.
            name: Its application_name.
            patience_s: Without an answer for so long, a statement is given up.
        """
        with _in_words(address):
            return SqlSession(_open(address, name), address, patience_s)

    @contextmanager
    def _connected(self, address: ServerAddress) -> Iterator[PatientConnection]:
        """Give a new connection, which is closed afterwards, and its errors in words of fact."""

        def is_at_work() -> bool:
            with _open(address) as other:
                other.be_patient(_CONNECT_TIMEOUT_S, lambda: False)
                return bool(other.execute(_AT_WORK, [_NAME]).fetchall()[0][0])

        with _in_words(address), _open(address) as connection:
            connection.be_patient(self._patience_s, is_at_work)
            yield connection


_WAKE_UP_MS = 100  # as often as psycopg looks whether anybody still waits


def prepared_name(statement: str) -> str:
    """Return what sessions call a statement that they prepare.

    A pooler in transaction mode mixes their backends: one name must not mean two statements.
    """
    return f"{_NAME}_{zlib.crc32(statement.encode()):08x}"


class SqlSession:
    """A connection that stays open, for one thread; another may close it.

    Each statement is in a transaction of its own; those without parameters are prepared, and sent
    past psycopg. A TargetError is raised where the server refuses one, is gone or does not answer,
    and where the session has ended.
    """

    def __init__(
        self, connection: PatientConnection, address: ServerAddress, patience_s: float
    ) -> None:
        self._connection = connection
        self._address = address
        self._ended = threading.Event()
        self._in_use = threading.Lock()
        connection.be_patient(patience_s, lambda: False, self._ended.is_set)
        self._names: dict[str, bytes] = {}
        self._loading = adapt.Transformer(connection)
        self._readable, self._writable = select.poll(), select.poll()
        self._readable.register(connection.pgconn.socket, select.POLLIN)
        self._writable.register(connection.pgconn.socket, select.POLLOUT)

    def rows(self, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
        """Return all rows of one statement; without parameters it is prepared at its first use."""
        with _in_words(self._address), self._in_use:
            if parameters:
                return self._connection.execute(statement.encode(), parameters).fetchall()
            return self._prepared(statement)

    def prepare(self, statement: str, name: str = "") -> None:
        """Prepare a statement by libpq: ``pg_stat_statements`` then keeps its text alone."""
        with _in_words(self._address), self._in_use:
            self._connection.pgconn.send_prepare(name.encode(), statement.encode())
            self._answer()

    def columns(self, statement: str) -> tuple[str, ...]:
        """Return the names of what a statement would return, which is prepared and not executed."""
        self.prepare(statement)
        with _in_words(self._address), self._in_use:
            self._connection.pgconn.send_describe_prepared(b"")
            result = self._answer()
            names = map(result.fname, range(result.nfields))
            return tuple((name or b"").decode(errors="replace") for name in names)

    def do(self, statement: str) -> None:
        """Run one statement that returns nothing."""
        with _in_words(self._address), self._in_use:
            self._connection.execute(statement.encode())

    def close(self) -> None:
        """End the session; from another thread it also ends a pending wait for an answer."""
        # The other thread sees it within a tenth of a second, psycopg's wake-up, and lets go:
        # libpq's connection is never touched by two threads at a time.
        self._ended.set()
        with self._in_use:
            self._connection.close()

    def _prepared(self, statement: str) -> list[Row]:
        """Return all rows of a statement, which the server prepares at its first use."""
        name = self._names.get(statement)
        if name is None:
            name = prepared_name(statement).encode()
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


def _open(address: ServerAddress, name: str = _NAME) -> PatientConnection:
    with _without_libpq_environment():
        connection = PatientConnection.connect(
            host=address.host,
            port=address.port,
            user=address.user or None,
            dbname=address.database or None,
            password=address.password or None,
            connect_timeout=_CONNECT_TIMEOUT_S,
            application_name=name,
            client_encoding="UTF8",
            autocommit=True,
            **dict(address.parameters),  # type: ignore[arg-type]
        )
    if connection.info.parameter_status("server_encoding") == _UNENCODED:
        # The server converts nothing there, and refuses to send as UTF8 what is none.
        connection.execute(f"SET client_encoding TO {_UNENCODED}".encode())
        for kind in ("text", "varchar", "bpchar", "name", '"char"'):
            connection.adapters.register_loader(kind, _AnyText)
    return connection


class _AnyText(adapt.Loader):
    """Text that nothing has checked, of which psycopg would make bytes.

    Of a database without an encoding: other people's statements may be in any.
    """

    def load(self, data: "psycopg.abc.Buffer") -> str:
        """Return it, with a mark for each byte that is no UTF-8."""
        return bytes(data).decode(errors="replace")


def reload(address: ServerAddress, sql: Sql, clock: Clock) -> None:
    """Make a server read its configuration, and return once new sessions see it.

    Raises:
        TargetError: It does not read it.
    """
    before = sql.rows(address, _LOADED_AT)
    sql.rows(address, "SELECT pg_reload_conf()")

    def is_read() -> bool:
        return sql.rows(address, _LOADED_AT) != before

    if not until(is_read, clock, _RELOAD_TIMEOUT_S, _RELOAD_POLL_S):
        raise TargetError(
            "the server did not read its changed configuration", hint="Its log says why."
        )


_hiding = threading.Lock()
_hidden: list[dict[str, str]] = []  # one for each that hides; the first holds the variables


@contextmanager
def _without_libpq_environment() -> Iterator[None]:
    """Hide PG* variables, which the generator does not get either: an address says it all.

    PGOPTIONS would verify a setting that the generator does not have, and PGHOSTADDR would lead
    to another server. Where a password is to be found stays: no record holds one, so an address
    from a journal comes without.
    """
    with _hiding:
        _hidden.append({})
        for name in list(os.environ):
            if name.startswith("PG") and name not in _PASSWORDS:
                _hidden[0][name] = os.environ.pop(name)
    try:
        yield
    finally:
        with _hiding:  # servers are reached side by side: the last one brings them back
            os.environ.update(_hidden.pop())


def _lacks_database(error: psycopg.Error) -> bool:
    return 'database "' in str(error) and "does not exist" in str(error)


@contextmanager
def _in_words(address: ServerAddress) -> Iterator[None]:
    """Turn psycopg's errors into words of fact."""
    try:
        yield
    except psycopg.Error as error:
        raise _translated(error, address) from error


def _translated(error: psycopg.Error, address: ServerAddress) -> TargetError:
    # A forwarded port says nothing to anybody: it is the server's service that is named.
    host, port = address.inside or (address.host, address.port)
    where = f"{host}:{port}"
    text = " ".join(str(error).split())
    if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
        in_cluster = address.inside is not None
        return connection_failure(text, where=where, user=address.user, in_cluster=in_cluster)
    if isinstance(error, psycopg.errors.QueryCanceled):
        return RefusedError(
            f"the server at {where} broke a statement off: {text}",
            hint="If statement_timeout is too short for this user, set it to 0: ALTER ROLE ... SET"
            " statement_timeout = 0.",
            code=error.sqlstate or "",
        )
    code = error.sqlstate or ""
    hint = _RECOVERY if code in _IN_THE_WAY else ""
    return RefusedError(f"the server at {where} refused: {text}", hint=hint, code=code)


# serialization_failure and deadlock_detected: a standby gives them to statements that keep it from
# applying changes. Documentation: "Hot Standby", "Handling Query Conflicts".
_IN_THE_WAY: Final = frozenset({"40001", "40P01"})
_RECOVERY: Final = (
    "On a standby it kept changes of the primary waiting: raise max_standby_streaming_delay there,"
    " set hot_standby_feedback = on, or repeat it."
)
