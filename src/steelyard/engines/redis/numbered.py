"""Numbered writes of Redis: a key for each, whose value says its number again."""

from collections.abc import Iterator
from typing import Final

from steelyard.gateways.redis import RedisDoor, RedisSession, opened
from steelyard.model.command import ServerAddress

_VALUE_BYTES: Final = 100
_AT_A_TIME: Final = 500  # keys of one MGET; a guess that keeps its answer below 64 KiB
_TIMEOUT_S: Final = 60.0


class NumberedKeys:
    """Keys ``crash:WRITER:NUMBER``.

    Args:
        redis: The door.
    """

    def __init__(self, redis: RedisDoor) -> None:
        self._redis = redis

    def prepare(self, address: ServerAddress) -> None:
        """Keys need nothing."""

    def writer(self, address: ServerAddress, writer: int) -> "KeyWriter":
        """Return a connection that writes; a pipeline is several writes at once."""
        return KeyWriter(self._redis.connect(address, timeout_s=_TIMEOUT_S), writer)

    def missing(self, address: ServerAddress, writer: int, last: int) -> list[int]:
        """Return which of a writer's keys up to the last are gone, or have another value."""
        batches = (
            range(first, min(first + _AT_A_TIME, last + 1))
            for first in range(1, last + 1, _AT_A_TIME)
        )
        with opened(self._redis, address, timeout_s=_TIMEOUT_S) as session:
            return [number for batch in batches for number in _absent(session, writer, batch)]


class KeyWriter:
    """One connection."""

    def __init__(self, session: RedisSession, writer: int) -> None:
        self._session = session
        self._writer = writer

    def write(self, first: int, count: int) -> None:
        """Set so many keys; see ``NumberedWriter``."""
        if count == 1:
            self._session.command("SET", _key(self._writer, first), _value(self._writer, first))
            return
        self._session.pipeline(
            [
                ("SET", _key(self._writer, number), _value(self._writer, number))
                for number in range(first, first + count)
            ]
        )

    def close(self) -> None:
        """End the connection."""
        self._session.close()


def _key(writer: int, number: int) -> str:
    return f"crash:{writer}:{number}"


def _value(writer: int, number: int) -> bytes:
    return f"{writer}:{number}".ljust(_VALUE_BYTES, ".").encode()


def _absent(session: RedisSession, writer: int, batch: range) -> Iterator[int]:
    found = session.command("MGET", *(_key(writer, number) for number in batch))
    values = found if isinstance(found, list) else [None] * len(batch)
    for number, value in zip(batch, values, strict=True):
        if value != _value(writer, number):
            yield number
