"""The only door to Redis: sessions, and the client library's errors in words of fact.

Sessions are redis-py's connections, driven command by command: no pool and no second try, because
a lost connection is what a test is about.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from steelyard.core.outside import ServerAddress
from steelyard.core.wording import RefusedError

Reply = object  # what a command answers: bytes, int, None, or a list of such
TLS: Final = "tls"  # these are keys of ServerAddress.parameters
CACERT: Final = "cacert"
CERT: Final = "cert"
KEY: Final = "key"


class ReplyError(RefusedError):
    """The server answered with an error; ``message`` holds its words: ``MISCONF ...``."""


class RedisSession(Protocol):
    """A connection that stays open; once it is lost or closed, every command says so."""

    def command(self, *words: str | bytes | int) -> Reply:
        """Return the answer to one command.

        Raises:
            ReplyError: The server refuses it, in its words.
            TargetError: The server is gone or too slow.
        """

    def pipeline(self, commands: Sequence[Sequence[str | bytes | int]]) -> list[Reply]:
        """Return the answers to commands that are sent at once; an error is raised as for one.

        They go over the same connection.
        """

    def info(self, *sections: str) -> Mapping[str, str]:
        """Return what INFO says, every line of all sections, or of those named."""

    def close(self) -> None:
        """End the session; also from another thread, while a command hangs."""


def own_password() -> str:
    """Return the password that the environment has for Redis, as redis-cli takes it, or nothing."""
    return os.environ.get("REDISCLI_AUTH", "")


class RedisDoor:
    """Opens sessions of redis-py, which is imported when the first session is opened."""

    def connect(self, address: ServerAddress, *, timeout_s: float = 30.0) -> RedisSession:
        """Return a session in the database of the address, a number; empty means 0.

        Raises:
            ReplyError: The user may not use what a session begins with, or has no such database.
            TargetError: Nobody answers there, it is no Redis, or it refuses user and password.
        """
        from steelyard.gateways import redis_client  # noqa: PLC0415 - it takes 0.1 s

        return redis_client.connect(address, timeout_s)


@contextmanager
def opened(
    door: RedisDoor, address: ServerAddress, *, timeout_s: float = 30.0
) -> Iterator[RedisSession]:
    """Give a session that is closed afterwards.

    Raises:
        TargetError: As of ``RedisDoor.connect``.
    """
    session = door.connect(address, timeout_s=timeout_s)
    try:
        yield session
    finally:
        session.close()


def parse_info(answer: Reply) -> dict[str, str]:
    """Return the lines of INFO by name, without its headings; none where it is no text."""
    lines = answer.decode(errors="replace").splitlines() if isinstance(answer, bytes) else []
    pairs = (line.partition(":") for line in lines if line and line[0] != "#")
    return {name: value for name, _, value in pairs}


def as_text(word: Reply) -> str:
    """Return a word of an answer as a text."""
    return word.decode(errors="replace") if isinstance(word, bytes) else str(word)


def settings_like(session: RedisSession, *patterns: str) -> dict[str, str]:
    """Return the settings of these names, one question each: several at once are of 7.0.

    Raises:
        TargetError: The server is gone, or the user may not use CONFIG.
    """
    found = dict[str, str]()
    for pattern in patterns:
        answer = session.command("CONFIG", "GET", pattern)
        words = [as_text(word) for word in answer] if isinstance(answer, list) else []
        found |= dict(zip(words[::2], words[1::2], strict=False))
    return found


def socket_path(address: ServerAddress) -> Path | None:
    """Return the Unix socket of an address; None where it is reached by TCP.

    A host that begins with a slash is a directory, as for libpq, unless it ends in ``.sock`` or
    there is no port: then it is the socket itself.
    """
    if not address.host.startswith("/"):
        return None
    if address.host.endswith(".sock") or not address.port:
        return Path(address.host)
    return Path(address.host) / f"redis-{address.port}.sock"
