"""How libpq finds a server: URIs, the service file, ``PG*`` variables, pgpass, and its failures.

The texts of a failed connection are libpq's and the server's own; there is no SQLSTATE for most.
"""

import re
from collections.abc import Mapping
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from steelyard.model.command import ServerAddress
from steelyard.model.errors import InputError, LoginError, TargetError

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
_REFUSED: Final = r"password authentication failed|no password supplied|password supplied"
_ROLE: Final = r'role "[^"]*" does not exist'
_LOGIN: Final = f"{_REFUSED}|{_ROLE}"
_FAILURES: Final = (
    (
        _REFUSED,
        "the server at {where} refused the password of {user}, or got none",
        _FROM_OUTSIDE,
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
        "Name a database that exists; Steelyard connects to it to make its own.",
    ),
    (
        _ROLE,
        "the server at {where} does not let {user} in: {text}",
        "Name a role that exists: postgresql://ROLE@HOST/DATABASE; or CREATE ROLE ... LOGIN there.",
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
    for pattern, message, hint in _FAILURES:
        if re.search(pattern, text):
            hint = _FROM_INSIDE if in_cluster and hint is _FROM_OUTSIDE else hint  # noqa: PLW2901
            kind = LoginError if re.search(_LOGIN, text) else TargetError
            return kind(message.format(where=where, user=named, text=text), hint=hint)
    return TargetError(
        f"the server at {where} cannot be reached: {text}",
        hint="Is it running, and does it listen there?",
    )
