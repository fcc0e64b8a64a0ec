"""How far a replica beside a server is behind: both are asked, one just after the other."""

from collections.abc import Mapping, Sequence

import pytest

from fakes.clock import FakeClock
from fakes.redis_sessions import ToldSession
from steelyard.core.measurement import Quantity
from steelyard.core.outside import ServerAddress
from steelyard.core.wording import TargetError
from steelyard.gateways.redis import RedisSession, Reply
from steelyard.systems.redis.reader import RedisReader, open_reader

TIME: Mapping[str, Sequence[Reply]] = {"TIME": [[b"1000", b"0"]]}


class Primary(ToldSession):
    """A server whose stream has come so far at each look; the first INFO asks who it is."""

    def __init__(self, *offsets: int) -> None:
        super().__init__(TIME)
        self._offsets = [0, *offsets]

    def command(self, *words: str | bytes | int) -> Reply:
        """Answer INFO with the next offset."""
        if words[0] != "INFO":
            return super().command(*words)
        at = self._offsets.pop(0) if len(self._offsets) > 1 else self._offsets[0]
        return f"redis_version:7.0.15\r\nmaster_repl_offset:{at}\r\n".encode()


def replica(*offsets: int) -> ToldSession:
    """Return a session on a replica that has come so far at each look."""
    told = [f"role:slave\r\nslave_repl_offset:{at}\r\n".encode() for at in offsets]
    return ToldSession({"INFO replication": told})


def test_the_most_of_all_looks_is_the_lag() -> None:
    """A replica that is ahead of the earlier answer of its primary is not behind by less than 0."""
    read = RedisReader(Primary(100, 900, 1000), FakeClock(), replica(100, 400, 1005))
    read.waits()
    read.waits()
    assert read.levels()[Quantity.REPLICA_LAG_BYTES] == 500.0


def test_without_a_replica_to_ask_there_is_none() -> None:
    """Its absence is no lag of 0."""
    read = RedisReader(Primary(100, 900), FakeClock())
    read.waits()
    assert Quantity.REPLICA_LAG_BYTES not in read.levels()


def test_a_replica_that_does_not_answer_is_asked_once_and_told() -> None:
    """What it showed before stays; the reason is in the record, and the server is read on."""
    dead = ToldSession({})
    read = RedisReader(Primary(100, 900), FakeClock(), dead)
    read.waits()
    read.waits()
    assert dead.asked == ["INFO replication"]
    assert dead.closed
    (told,) = [each for each in read.absent if each.subject == Quantity.REPLICA_LAG_BYTES]
    assert "NOPERM" in told.reason


def test_both_sessions_end_together() -> None:
    """Closing the reader leaves none open."""
    sessions = (Primary(1), replica(1))
    read = RedisReader(sessions[0], FakeClock(), sessions[1])
    read.close()
    assert all(each.closed for each in sessions)


class Door:
    """Opens the sessions it was given by port; others cannot be reached."""

    def __init__(self, sessions: Mapping[int, ToldSession]) -> None:
        self._sessions = sessions

    def connect(self, address: ServerAddress, *, timeout_s: float = 30.0) -> RedisSession:
        """Return the session of a port."""
        del timeout_s
        if address.port not in self._sessions:
            raise TargetError("nobody answers")
        return self._sessions[address.port]


ADDRESS = ServerAddress(host="/fake", port=1, beside=ServerAddress(host="/fake", port=2))


def test_the_reader_of_a_pair_asks_both() -> None:
    """The address says that there is a replica, and where."""
    door = Door({1: Primary(500), 2: replica(200)})
    read = open_reader(door, ADDRESS, FakeClock())
    assert read.levels()[Quantity.REPLICA_LAG_BYTES] == 300.0


def test_no_session_stays_open_when_the_replica_cannot_be_reached() -> None:
    """The failure is told, and the session on the server ended."""
    server = Primary(500)
    with pytest.raises(TargetError, match="nobody answers"):
        open_reader(Door({1: server}), ADDRESS, FakeClock())
    assert server.closed
