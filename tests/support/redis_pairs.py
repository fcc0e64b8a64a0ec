"""A Redis primary and its replica, both of the test's own: no Steelyard around them."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from support.redis import RedisServer, redis_started

_LINKED_S = 60.0
DURABLE = {"appendonly": "yes", "appendfsync": "everysec"}


@dataclass
class RedisPair:
    """A primary and a replica that follows it."""

    primary: RedisServer
    replica: RedisServer

    def write(self, names: range) -> None:
        """Write numbered keys to the primary and wait until the replica has them."""
        session = self.primary.session()
        try:
            # WAIT counts for the connection that wrote, so it goes the same way.
            writes = [("SET", f"key:{number}", "value") for number in names]
            assert session.pipeline([*writes, ("WAIT", "1", "10000")])[-1] == 1
        finally:
            session.close()

    def wait_linked(self) -> None:
        """Wait until the replica has a whole copy, on its disk too, and follows.

        A copy is on the disk when the rewrite after it has ended; before that Redis 7.0 does not
        even stop when it is told to ("Writing initial AOF, can't exit").
        """
        wait_until(self._is_linked, "the replica did not link to the primary")

    def _is_linked(self) -> bool:
        seen = self.replica.info("replication", "persistence")
        busy = (seen["aof_rewrite_in_progress"], seen["aof_rewrite_scheduled"])
        return seen.get("master_link_status") == "up" and busy == ("0", "0")


def wait_until(holds: Callable[[], bool], otherwise: str, timeout_s: float = _LINKED_S) -> None:
    """Wait until something holds; fail with the sentence if it never does."""
    end = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > end:
            pytest.fail(otherwise)
        time.sleep(0.05)


def keys_of(server: RedisServer) -> int:
    """Return how many keys a server holds."""
    count = server.command("DBSIZE")
    assert isinstance(count, int)
    return count


@contextmanager
def pair_started(
    primary: Mapping[str, str] | None = None, replica: Mapping[str, str] | None = None
) -> Iterator[RedisPair]:
    """Start a primary without persistence and a replica with it, changed by these settings."""
    soon = {"repl-diskless-sync-delay": "0", **(primary or {})}
    with redis_started(soon) as first:
        follows = {"replicaof": f"127.0.0.1 {first.port}"}
        with redis_started({**DURABLE, **follows, **(replica or {})}) as second:
            pair = RedisPair(primary=first, replica=second)
            pair.wait_linked()
            yield pair
