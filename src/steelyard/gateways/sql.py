"""The only door to SQL: connections by libpq, and psycopg's errors in words of fact.

Statements are the engine's own text; values travel as parameters.

Every call of ``Sql`` connects anew: what is verified is what a new session of the generator would
get. Only ``session`` opens a connection that stays, for what watches a server.

libpq finds a server as it always does: URIs, the service file, ``PG*`` variables, pgpass. Where it
ends up is asked of the connection, made or failed; what the user wrote says less.

A server refuses a connection in its own language. Of its text the SQLSTATE and the routine are
read, which libpq adds for a connection whose errors are verbose. What libpq itself says is English:
Python leaves the locale of messages alone.

Prepared statements and timed round trips go to libpq itself, and never wait for ever. What watches
a server asks ten times a second, and its CPU time is taken from what it watches; psycopg's own way
of executing takes several times as much: it makes a cursor, adapts, and keeps account of
transactions.

A statement may take hours, so no time limit tells a long one from a server that hangs or a network
that swallows packets. What tells them apart is a second connection: where it gets no answer, or
nobody of ours is at work, the first is given up.
"""

import ctypes
import ctypes.util
import os
import re
import select
import statistics
import sys
import threading
import time
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, NoReturn, TypeVar

import psycopg
from psycopg import adapt, errors, pq, sql, waiting
from psycopg.conninfo import conninfo_to_dict

from steelyard.core.outside import ServerAddress, host_and_port
from steelyard.core.wording import InputError, LoginError, RefusedError, TargetError, listed
from steelyard.gateways.host import Clock, until

PATIENCE_S = 60.0  # as long as a run may stay without an end; a guess
_Result = TypeVar("_Result")
_BRIEF, _VERBOSE = 1, 2  # PQERRORS_DEFAULT and PQERRORS_VERBOSE of libpq-fe.h


def _set_verbosity(pgconn: "pq.abc.PGconn", verbosity: int) -> None:
    """Choose how much libpq says of an error, by libpq itself: psycopg has no name for it.

    Where libpq cannot be called, refusals lack their SQLSTATE and get a general sentence.
    """
    module = str(sys.modules[type(pgconn).__module__].__file__)
    libpq = ctypes.util.find_library("pq") if module.endswith(".py") else module
    place = ctypes.c_void_p(pgconn.pgconn_ptr)  # type: ignore[attr-defined]
    with suppress(OSError, AttributeError):
        ctypes.CDLL(libpq).PQsetErrorVerbosity(place, verbosity)


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

    @classmethod
    def _connect_gen(cls, conninfo: str = "") -> Generator[Any, Any, "PatientConnection"]:
        """Connect as psycopg does; the text of a refusal has its SQLSTATE and routine."""
        pgconn = pq.PGconn.connect_start(conninfo.encode())
        _set_verbosity(pgconn, _VERBOSE)
        while pgconn.status != pq.ConnStatus.BAD:
            polled = pgconn.connect_poll()
            if polled == pq.PollingStatus.OK:
                _set_verbosity(pgconn, _BRIEF)
                pgconn.nonblocking = 1
                return cls(pgconn)
            reads = polled == pq.PollingStatus.READING
            while polled and not (yield pgconn.socket, waiting.Wait.R if reads else waiting.Wait.W):
                pass
        message = f"connection failed: {pgconn.get_error_message()}"
        raise psycopg.OperationalError(message, pgconn=errors.finish_pgconn(pgconn))

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
_NONE_GIVEN: Final = "no password supplied"
# PgBouncer gives 08P01 for all, also for what it passes on from the server.
_REFUSED: Final = ": 28P01: |: 08P01: (password|SASL) authentication failed"
_NO_DATABASE: Final = ': 3D000: |: 08P01: database "[^"]*" does not exist'
NO_ENTRY: Final = "bouncer config error|no such database"
_ROLE: Final = ": 28000: .*LOCATION: InitializeSessionUserId"
_LOGIN: Final = f"{_REFUSED}|{_NONE_GIVEN}|{_ROLE}"
# What psycopg and libpq put before the reason; the place is named already.
_PREAMBLE: Final = re.compile(r"connection (?:to server (?:at|on) .*?)?\s*failed: ")
_QUESTION: Final = re.compile(r"\s*Is the server running[^?]*\?")  # of libpq; a hint has it
# psycopg tells the last of several attempts, then all of them.
_LAST_OF_SEVERAL: Final = re.compile(r"^.*All failures were: - ")
_TWICE: Final = re.compile(r"^(.+) \1$")  # with TLS and without
# What an error of a server is called, in the words of libpq's verbose errors.
_SQLSTATE: Final = re.compile(r"(?<=: )(?=[A-Z]*\d)[0-9A-Z]{5}: ")
_ROUTINE: Final = re.compile(r" LOCATION: \w+, \S+:\d+")
_KEPT_OUT: Final = "the server at {where} does not let {user} in: {text}"
_NO_TLS: Final = "the server at {where} does not let {user} in without TLS, or not at all: {text}"
_SAID_NO: Final = "the server at {where} refused: {text}"
_UNREACHED: Final = "the server at {where} cannot be reached: {text}"
_HBA: Final = "Add a line to its pg_hba.conf, or connect as another user."
_ASK_FOR_TLS: Final = (
    "Add `?sslmode=require` to the URI or set PGSSLMODE, or add a line to its pg_hba.conf."
)
_LISTENING: Final = "Is it running, and does it listen there?"
_MISTOLD: Final = (
    "invalid .*(value|number|option|size)|bad value|could not (match|parse)|service|not support"
    "|(channel binding|authentication|GSSAPI|protocol).*(require|range|requirement)|requirepeer"
    "|peer |cannot be|too long"
)
# The first that fits counts. A code is the server's SQLSTATE; all other words are libpq's or those
# of a pooler, which speaks English.
_FAILURES: Final = (
    # What PgBouncer says itself, in English alone and always with SQLSTATE 08P01.
    (
        "unsupported startup parameter",
        "the pooler at {where} refuses what {user} asks for when a session begins: {text}",
        "Leave it out of target and PG* variables, or let ignore_startup_parameters drop it there.",
    ),
    (
        NO_ENTRY,
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
    (_REFUSED, "the server at {where} refused the password of {user}", _CORRECT_IT),
    (
        _ROLE,
        _KEPT_OUT,
        "Name a role that exists: postgresql://ROLE@HOST/DATABASE; or CREATE ROLE ... LOGIN there.",
    ),
    (
        ": 28000: (?!.*All failures were).*: 28000: ",
        "the server at {where} does not let {user} in, with TLS or without: {text}",
        _HBA,
    ),
    (": 28000: .* sslmode=disable$", _NO_TLS, _ASK_FOR_TLS),
    (": 28000: ", _KEPT_OUT, _HBA),
    (
        ": 53300: |no more connections allowed",
        "the server at {where} has no connection left: {text}",
        "Close some, or raise max_connections, or CONNECTION LIMIT of the role or database.",
    ),
    (
        _NO_DATABASE,
        _SAID_NO,
        "Name a database that exists: `psql -l` lists those of the server.",
    ),
    (": 55000: ", _SAID_NO, "Name another database."),
    (
        ": 57P0[1-5]: ",
        "the server at {where} takes no connections at the moment: {text}",
        "Wait until it is up; its log says how far it is.",
    ),
    (
        ": 42501: ",
        _KEPT_OUT,
        "Grant the role what it lacks, or connect as another one.",
    ),
    (
        ": (22|42)[0-9A-Z]{3}: ",
        _SAID_NO,
        "Correct `options` in the URI, or PGOPTIONS.",
    ),
    ("SSL required", _NO_TLS, _ASK_FOR_TLS),
    (r": (?=[A-Z]*\d)[0-9A-Z]{5}: ", _SAID_NO, "Its log may say more."),
    (
        "does not support SSL|SSL was required|certificate|root cert|private key|SSL error",
        "no TLS connection to the server at {where} came about: {text}",
        "Look at sslmode and sslrootcert, or PGSSLMODE and PGSSLROOTCERT.",
    ),
    (
        "resolve host|translate host name|Name or service not known",
        _UNREACHED,
        "Correct the host name, or see what `getent hosts NAME` says of it on this machine.",
    ),
    (
        "Connection refused|on socket .*No such file or directory",
        _UNREACHED,
        "Nothing listens there: is it running, and on this host, port or socket directory?",
    ),
    (
        "session is (not )?read-only|server is (not )?in hot standby",
        "the server at {where} is not one that target_session_attrs asks for: {text}",
        "Leave target_session_attrs and PGTARGETSESSIONATTRS out, or name further hosts.",
    ),
    (
        _MISTOLD,
        "libpq does not connect to the server at {where} with these options: {text}",
        "Correct it where libpq finds it: the URI, a PG* variable, or the service file.",
    ),
)


def parsed_uri(uri: str) -> Mapping[str, str]:
    """Return the keywords of a libpq URI.

    Raises:
        InputError: It is none, or it holds a secret; the message repeats nothing of it.
    """
    try:
        keywords = conninfo_to_dict(uri)
    except psycopg.ProgrammingError as error:
        # Without the cause: libpq's message quotes parts of the URI, and they may be a secret.
        raise _no_uri(uri, str(error).splitlines()[0].partition(' "')[0].rstrip(":")) from None
    if _SECRETS & set(keywords):
        raise InputError(
            "the URI has a password in it",
            hint="Records carry no secrets: use ~/.pgpass or PGPASSWORD.",
        )
    if not re.fullmatch(r"[0-9,]*", str(keywords.get("port", ""))) or "@" in str(
        keywords.get("dbname", "")
    ):
        # What a password with an unescaped slash looks like to libpq.
        raise _no_uri(uri, "its port is not a number")
    if keywords.get("replication", "false") not in ("false", "off", "no", "0"):
        raise InputError(
            "a connection for replication takes no queries", hint="Leave `replication` out."
        )
    return {name: str(value) for name, value in keywords.items()}


_SCHEMES: Final = ("postgresql", "postgres")
_FORM: Final = "Write postgresql://USER@HOST:PORT/DATABASE?sslmode=require, without a password."
# Parameters that other drivers take from a URI, and what libpq has in their place.
_OF_OTHERS: Final = {
    "schema": "options=-csearch_path%3DSCHEMA",
    "currentschema": "options=-csearch_path%3DSCHEMA",
    "search_path": "options=-csearch_path%3DSCHEMA",
    "ssl": "sslmode=require",
    "username": "user=ROLE",
    "database": "dbname=DATABASE",
    "sslcertificate": "sslcert=FILE",
    "timeout": "connect_timeout=SECONDS",
    "command_timeout": "options=-cstatement_timeout%3DMILLISECONDS",
}


def _no_uri(uri: str, reason: str) -> InputError:
    """Return what is wrong with a URI; of its text only a scheme and names of parameters."""
    scheme, is_uri, rest = uri.partition("://")
    if is_uri and scheme not in _SCHEMES and re.fullmatch(r"(jdbc:)?[a-z][a-z0-9+.-]*", scheme):
        return InputError(
            f"`{scheme}://` is the URI of another driver, and libpq does not understand it",
            hint=_FORM,
        )
    known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()} | {"ssl"}
    query = rest.partition("?")[2]
    names = [pair.partition("=")[0] for pair in query.split("&")]
    foreign = [name for name in names if name not in known]
    # Behind a `?` of a password that is not escaped there is an `@`.
    if foreign and "@" not in query and all(name.isidentifier() for name in names):
        instead = [_OF_OTHERS[name.lower()] for name in foreign if name.lower() in _OF_OTHERS]
        return InputError(
            f"libpq does not know {listed(foreign)}",
            hint=f"Leave it out, or write {listed(instead)}."
            if instead
            else "Leave it out: it may belong to another driver.",
        )
    if "=" not in uri and not is_uri:
        return InputError("this is neither a URI nor a list of libpq's keywords", hint=_FORM)
    return InputError(f"this is not a URI that libpq understands: {reason}", hint=_FORM)


def asked_for(keywords: Mapping[str, str], error: psycopg.Error | None = None) -> tuple[str, str]:
    """Return place and user that libpq will try, or has tried where ``error`` ended it."""
    known = {**_filled_in(pq.Conninfo.get_defaults()), **_tried(error), **keywords}
    user = known.get("user", "this account")
    if "service" in known and "host" not in _tried(error):
        return f"service {known['service']}", keywords.get("user", "its user")
    host = known.get("host", known.get("hostaddr", "the default socket"))
    return host_and_port(host, known.get("port", "5432")), user


def _tried(error: psycopg.Error | None) -> Mapping[str, str]:
    """Return the keywords of a failed connection, as libpq resolved them."""
    pgconn = error and error.pgconn
    return _filled_in(pgconn.info) if pgconn else {}


def _filled_in(options: "Sequence[pq.ConninfoOption]") -> Mapping[str, str]:
    return {
        each.keyword.decode(): each.val.decode(errors="replace") for each in options if each.val
    }


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
    text: str, *, where: str, user: str, in_cluster: bool = False, sslmode: str = ""
) -> TargetError:
    """Return a failed connection in words of fact, with the way out.

    Args:
        text: What libpq said, verbose.
        where: The server.
        user: Who was not let in; empty for this account.
        in_cluster: The server is in a cluster, and the password from a Secret there.
        sslmode: That libpq was to use.
    """
    reason = text
    for unwanted in (_LAST_OF_SEVERAL, _PREAMBLE, _QUESTION, _SQLSTATE, _ROUTINE):
        reason = unwanted.sub("", reason)
    reason = _TWICE.sub(r"\1", reason)
    facts = f"{text} sslmode={sslmode}"
    failures = (known for known in _FAILURES if re.search(known[0], facts))
    _, message, hint = next(failures, ("", _UNREACHED, _LISTENING))
    if in_cluster and hint in (_FROM_OUTSIDE, _CORRECT_IT):
        hint = _FROM_INSIDE
    words = message.format(where=where, user=user or "this account", text=reason)
    if re.search(f": {INVALID_VALUE}: ", text):
        return RefusedError(words, hint=hint, code=INVALID_VALUE)
    return (LoginError if re.search(_LOGIN, text) else TargetError)(words, hint=hint)


INVALID_VALUE: Final = "22023"  # of a setting
TIMED_OUT: Final = "57014"  # query_canceled, by statement_timeout
_CONNECT_TIMEOUT_S = 10
_NAME = "steelyard"
_UNENCODED: Final = "SQL_ASCII"
# What own sessions rely on, set where a role, a database or the server has it otherwise. All else
# is left as the generator's sessions have it: what is planned depends on it. A pooler refuses some
# of these when a session begins, and takes them afterwards. Who reads settings in force takes
# ``reset_val`` where the source is the session. Digits cost a statement, so only what watches a
# server sets them; single statements return whole numbers.
_STYLES: Final = (("DateStyle", "ISO"), ("IntervalStyle", "postgres"))  # the server reports them
_EXACT: Final = (
    "SELECT pg_catalog.set_config('extra_float_digits', '1', false)"
    " WHERE pg_catalog.current_setting('extra_float_digits')::int < 1"
)
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

    def reach(self, keywords: Mapping[str, str], *, any_database: bool = True) -> ServerAddress:
        """Return where libpq ends up with these keywords and all that it finds by itself.

        Args:
            keywords: Of libpq; Steelyard names its sessions itself.
            any_database: ``postgres`` will do if no database is named and the user's own does not
                exist.

        Raises:
            TargetError: Nowhere, or the server lets nobody in.
        """
        own = {"application_name": _NAME, "client_encoding": "UTF8"}  # names are read in it
        asked = {"connect_timeout": str(_CONNECT_TIMEOUT_S), **keywords, **own}
        try:
            with PatientConnection.connect(**asked) as connection:  # type: ignore[arg-type]
                return address_of(connection)
        except psycopg.Error as error:
            tried = _tried(error)
            is_named = "dbname" in keywords or tried.get("dbname") != tried.get("user")
            text = " ".join(str(error).split())
            lacks_it = re.search(f"{_NO_DATABASE}|{NO_ENTRY}", text)
            if any_database and not is_named and lacks_it:
                return self.reach({**keywords, "dbname": "postgres"})
            where, user = asked_for(keywords, error)
            sslmode = tried.get("sslmode", "")
            raise connection_failure(text, where=where, user=user, sslmode=sslmode) from error

    def is_pooled(self, address: ServerAddress) -> bool:
        """Return whether a pooler is in between: it invents the number of a session's backend."""
        with self.connected(address) as connection:
            rows = connection.execute(b"SELECT pg_backend_pid()").fetchall()
            return rows != [(connection.info.backend_pid,)]

    def rows(
        self, address: ServerAddress, statement: str, parameters: Sequence[object] = ()
    ) -> list[Row]:
        """Return all rows of one statement."""
        with self.connected(address) as connection:
            return connection.execute(statement.encode(), parameters or None).fetchall()

    def execute(self, address: ServerAddress, statements: Sequence[str]) -> None:
        """Run statements one by one, each in its own transaction."""
        with self.connected(address) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def set_password(self, address: ServerAddress, password: str) -> None:
        """Give the address's user a password; only its verifier travels."""
        with self.connected(address) as connection:
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
            with self.connected(address) as connection:
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
            session = SqlSession(_open(address, name), address, patience_s)
            session.do(_EXACT)
            return session

    @contextmanager
    def connected(self, address: ServerAddress) -> Iterator[PatientConnection]:
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
        own = {
            "host": address.host,
            "port": address.port,
            "user": address.user or None,
            "dbname": address.database or None,
            "password": address.password or None,
            "connect_timeout": _CONNECT_TIMEOUT_S,
            "application_name": name,
            "client_encoding": "UTF8",
        }
        connection = PatientConnection.connect(
            autocommit=True,
            **{**dict(address.parameters), **own},  # type: ignore[arg-type]
        )
    shown = [(name, connection.info.parameter_status(name), value) for name, value in _STYLES]
    foreign = [f"SET {name} TO {value};" for name, now, value in shown if now and value not in now]
    if foreign:
        connection.be_patient(_CONNECT_TIMEOUT_S, lambda: False)
        connection.execute("".join(foreign).encode())
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


@contextmanager
def _in_words(address: ServerAddress) -> Iterator[None]:
    """Turn psycopg's errors into words of fact."""
    try:
        yield
    except psycopg.Error as error:
        raise _translated(error, address) from error


def _translated(error: psycopg.Error, address: ServerAddress) -> TargetError:
    # A forwarded port says nothing to anybody: it is the server's service that is named.
    where = host_and_port(*(address.service or (address.host, address.port)))
    text = " ".join(str(error).split())
    if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
        return connection_failure(
            text,
            where=where,
            user=address.user,
            in_cluster=address.service is not None,
            sslmode=_tried(error).get("sslmode", ""),
        )
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
