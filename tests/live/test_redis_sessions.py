"""A session is one connection: for single commands and for several at once, until it is over."""

import threading

import pytest

from steelyard.core.wording import TargetError
from steelyard.gateways import redis_client
from steelyard.gateways.redis import RedisDoor, RedisSession, ReplyError
from support.redis import RedisServer, redis_server

__all__ = ["redis_server"]
pytestmark = pytest.mark.live
_ROUNDS = 60


def _connections(server: RedisServer) -> int:
    return int(server.info("stats")["total_connections_received"])


def test_one_connection_serves_single_commands_and_several(redis_server: RedisServer) -> None:
    """The server knows the session by one number, whichever way it is asked."""
    session = redis_server.session()
    try:
        alone = session.command("CLIENT", "ID")
        assert session.pipeline([("CLIENT", "ID")] * 2) == [alone, alone]
        assert session.info("clients")["connected_clients"] == "1"
    finally:
        session.close()


def test_several_commands_have_the_time_of_one(
    redis_server: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The limit of the greeting is over with it: what takes longer is waited for."""
    monkeypatch.setattr(redis_client, "_GREETING_TIMEOUT_S", 0.5)
    session = RedisDoor().connect(redis_server.by_socket, timeout_s=30.0)
    try:
        wait = ("BLPOP", "no-such-list", "1")
        assert session.command(*wait) is None
        assert session.pipeline([wait]) == [None]
    finally:
        session.close()


def test_a_refusal_among_several_leaves_no_answer_behind(redis_server: RedisServer) -> None:
    """It is told in the server's words, and the next command gets its own answer."""
    session = redis_server.session()
    try:
        several = [("SET", "key", "value"), ("INCR", "key"), ("GET", "key")]
        with pytest.raises(ReplyError, match=r"refuses a command: .*not an integer"):
            session.pipeline(several)
        assert session.command("ECHO", "next") == b"next"
    finally:
        session.close()


def test_a_lost_connection_is_not_made_anew(redis_server: RedisServer) -> None:
    """A server that came back is another one: its counters began again."""
    session = redis_server.session()
    redis_server.kill()
    with pytest.raises(TargetError, match="does not answer any more"):
        session.info("server")
    redis_server.start()
    before = _connections(redis_server)
    with pytest.raises(TargetError, match="does not answer any more"):
        session.info("server")
    with pytest.raises(TargetError, match="does not answer any more"):
        session.pipeline([("TIME",)])
    assert _connections(redis_server) == before + 1  # this one's own


def test_a_closed_session_connects_no_more(redis_server: RedisServer) -> None:
    """What a thread asks that has not heard of its end leaves no connection behind."""
    session = redis_server.session()
    session.close()
    before = _connections(redis_server)
    with pytest.raises(TargetError, match="the session is over"):
        session.info("server")
    assert _connections(redis_server) == before + 1


def test_a_session_ends_in_any_moment_of_a_command(redis_server: RedisServer) -> None:
    """Closed by another thread, it raises what a lost server raises, and leaves none connected."""
    odd: list[Exception] = []

    def ask(session: RedisSession) -> None:
        try:
            while True:
                session.pipeline([("ECHO", "1"), ("ECHO", "2")])
        except TargetError:
            return
        except Exception as error:  # noqa: BLE001 - that there is none is what is shown
            odd.append(error)

    for turn in range(_ROUNDS):
        session = redis_server.session()
        thread = threading.Thread(target=ask, args=(session,))
        thread.start()
        threading.Event().wait(turn * 3e-5)
        session.close()
        thread.join(30.0)
        assert not thread.is_alive()
    assert odd == []
    assert redis_server.info("clients")["connected_clients"] == "1"
