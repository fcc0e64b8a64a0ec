"""URIs of Redis servers: ``redis://``, ``rediss://`` (TLS) and ``unix://``.

As in the registration of the scheme with IANA, ``redis://USER@HOST:PORT/DB`` and ``?db=N``; what
stands alone before the ``@`` is the user, never a password.
"""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from steelyard.model.errors import InputError

DEFAULT_PORT: Final = 6379
SCHEMES: Final = ("redis", "rediss", "unix")
_FORMS: Final = "Write redis://USER@HOST:PORT/DB, rediss:// with TLS, or unix:///PATH?db=0."
_NUMBER: Final = re.compile(r"[0-9]{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisUri:
    """Where a Redis server is, by its URI.

    Attributes:
        host: Name or address, or the path of a Unix socket.
        port: None: not given; so the next two.
        user: Of the ACL.
        db: Number of the database.
        tls: The connection is encrypted.
    """

    host: str
    port: int | None = None
    user: str | None = None
    db: int | None = None
    tls: bool = False


def is_redis_uri(text: str) -> bool:
    """Return whether a URI has a scheme of Redis."""
    return text.partition("://")[0].lower() in SCHEMES and "://" in text


def parse_redis_uri(text: str) -> RedisUri:
    """Return what a URI says.

    Raises:
        InputError: It is none of Redis, or it has a password, which is not repeated.
    """
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise InputError(
            "the URI is not understood: its port or host is wrong", hint=_FORMS
        ) from error
    if parts.scheme not in SCHEMES:
        raise InputError("the URI is none of a Redis server", hint=_FORMS)
    if parts.password is not None:
        raise InputError(
            "the URI has a password in it",
            hint="Records carry no secrets: put it into REDISCLI_AUTH.",
        )
    user = unquote(parts.username) if parts.username else None
    if parts.scheme == "unix":
        return RedisUri(host=_socket(parts), user=user, db=_database(parts, path=""))
    return RedisUri(
        host=parts.hostname or "localhost",
        port=port,
        user=user,
        db=_database(parts, path=parts.path.strip("/")),
        tls=parts.scheme == "rediss",
    )


def _socket(parts: SplitResult) -> str:
    if not parts.path.startswith("/") or parts.path == "/" or parts.hostname:
        raise InputError("the URI names no Unix socket", hint="Write unix:///PATH, three slashes.")
    return unquote(parts.path)


def _database(parts: SplitResult, *, path: str) -> int | None:
    """Return the number of the database, in the path or as ``?db=``; None where there is none."""
    asked = parse_qs(parts.query, keep_blank_values=True)
    if asked.keys() - {"db"} or parts.fragment:
        raise InputError(
            "the URI has options that Steelyard does not know",
            hint="Only ?db= may be there; the target's keys say the rest (`cacert`, `cert`).",
        )
    given = [*asked.get("db", ()), *([path] if path else ())]
    if len(given) > 1 or not all(_NUMBER.fullmatch(number) for number in given):
        raise InputError("the URI names no database by its number", hint=_FORMS)
    return int(given[0]) if given else None
