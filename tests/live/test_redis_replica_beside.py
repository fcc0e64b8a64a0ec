"""The replica beside a Redis server of a campaign: it follows, it is seen, it leaves nothing."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.programs import FakeLedger
from steelyard.core.outside import ServerAddress
from steelyard.core.wording import TargetError
from steelyard.gateways.host import Clock
from steelyard.gateways.process import Processes
from steelyard.gateways.redis import RedisDoor, RedisSession
from steelyard.places.local.platform import LocalOptions, LocalPlatform
from steelyard.places.protocol import PreparedState
from steelyard.systems.redis.server import RedisProgram, find_redis
from support.redis import require_redis
from support.redis_pairs import wait_until

pytestmark = pytest.mark.live
KEYS = 300
_STARTS = 20  # one of a dozen was a second late
_AT_ONCE_S = 0.4  # the replica tells how far it has come once a second
PRIMARY = {"appendonly": "no", "save": ""}


def fill(address: ServerAddress) -> None:
    """Load the keys of a prepared state, in both files as the product does."""
    session = RedisDoor().connect(address)
    try:
        session.pipeline([("SET", f"key:{number}", "value") for number in range(KEYS)])
        session.command("SAVE")
    finally:
        session.close()


class Place:
    """A platform with a prepared state."""

    def __init__(self, root: Path) -> None:
        self.processes = Processes()
        account = "nobody" if os.geteuid() == 0 else None
        options = LocalOptions(root=root, campaign_id="c-1", account=account, port=None)
        self.platform = LocalPlatform(options, FakeLedger(), self.processes, Clock())
        self.program = RedisProgram(
            installation=find_redis("redis-server", self.processes),
            redis=RedisDoor(),
            replica=(("appendonly", "yes"), ("appendfsync", "always")),
        )

    def started(self) -> PreparedState:
        """Start the pair on a restored state."""
        state = self.platform.prepare(self.program, ("keys",), fill)
        self.platform.restore(state, "copy")
        self.platform.start(state, self.program, PRIMARY)
        return state

    def replica(self) -> RedisSession:
        """Return a session on the replica, whose socket is the newest: it was started last.

        A server that is killed leaves its own.
        """
        sockets = Path(self.platform.address.host).glob("redis-*.sock")
        newest = max(sockets, key=lambda path: path.stat().st_mtime_ns)
        return RedisDoor().connect(ServerAddress(host=str(newest), port=0))


@pytest.fixture
def place(cache: Path) -> Iterator[Place]:
    """Return a platform in the cache of the session, where the servers' account can reach it."""
    require_redis()
    made = Place(cache / "beside")
    yield made
    made.platform.destroy()


def test_it_has_the_data_and_persists_as_asked(place: Place) -> None:
    """When the start returns it holds all keys, on its disk, too; the primary has no file."""
    place.started()
    session = place.replica()
    try:
        assert session.command("DBSIZE") == KEYS
        assert session.command("CONFIG", "GET", "appendfsync") == [b"appendfsync", b"always"]
        assert session.info()["role"] == "slave"
    finally:
        session.close()
    primary = RedisDoor().connect(place.platform.address)
    try:
        assert primary.info()["connected_slaves"] == "1"
        assert primary.command("CONFIG", "GET", "appendonly") == [b"appendonly", b"no"]
    finally:
        primary.close()
    seen = place.platform.vantage()
    assert seen is not None
    assert [pid != seen.pid for pid in seen.beside] == [True]


@pytest.mark.slow
def test_what_is_written_after_the_start_arrives_at_once(place: Place) -> None:
    """The link is up before the primary sends on, which may take it a second: that is over."""
    for _ in range(_STARTS):
        place.started()
        primary = RedisDoor().connect(place.platform.address)
        replica = place.replica()
        try:
            primary.command("SET", "new", "value")
            sent = int(primary.info("replication")["master_repl_offset"])
            begun = time.monotonic()
            while int(replica.info("replication")["slave_repl_offset"]) < sent:
                assert time.monotonic() < begun + _AT_ONCE_S, "the primary sends nothing yet"
        finally:
            primary.close()
            replica.close()
            place.platform.stop(keep_data=False)


def test_a_start_leaves_no_process_and_no_data_of_it(place: Place) -> None:
    """After a stop both servers are gone, and the next start's replica has that start's data."""
    state = place.started()
    live = place.platform.scripts.parent
    assert len(place.processes.within(live)) == 2
    place.platform.stop(keep_data=False)
    assert place.processes.within(live) == ()
    assert not list(live.glob("*/beside/data"))
    place.platform.restore(state, "copy")
    place.platform.start(state, place.program, PRIMARY)
    session = place.replica()
    try:
        assert session.command("DBSIZE") == KEYS
    finally:
        session.close()


def test_a_replica_that_is_killed_is_told(place: Place) -> None:
    """Without it something else would be measured than what was asked for."""
    place.started()
    seen = place.platform.vantage()
    assert seen is not None
    place.processes.signal(seen.beside[0], 9)

    def is_told() -> bool:
        try:
            place.platform.server  # noqa: B018 - the property is asked
        except TargetError as error:
            return "the replica is not running" in error.message
        return False

    wait_until(is_told, "the death of the replica was not noticed")
