"""The trap of split persistence on real servers: a primary that comes back empty."""

import pytest

from steelyard.core.findings import State
from steelyard.core.stack import RedisFacts, StackFacts
from support.judged_rules import judged
from support.redis import RedisServer
from support.redis_pairs import RedisPair, keys_of, pair_started, wait_until

pytestmark = pytest.mark.live
WRITTEN = 200


def state_of_the_rule(primary: RedisServer, *, restarts: bool) -> State:
    """Return what RED001 says of a primary as it is configured and followed now."""
    session = primary.session()
    try:
        reply = session.command("CONFIG", "GET", "save", "appendonly")
        assert isinstance(reply, list)
        words = [word.decode() for word in reply]
        settings = dict(zip(words[::2], words[1::2], strict=True))
        replicas = int(session.info("replication")["connected_slaves"])
    finally:
        session.close()
    facts = RedisFacts(
        name="primary",
        role="primary",
        save=settings["save"],
        appendonly=settings["appendonly"] == "yes",
        replicas=replicas,
        auto_restart=restarts,
    )
    return judged("RED001", StackFacts(redis=(facts,))).state


def restarted_alone(server: RedisServer) -> None:
    """Restart a replica as a server of its own, on what its disk holds."""
    server.kill()
    server.settings = {name: text for name, text in server.settings.items() if name != "replicaof"}
    server.start()


def wait_followed_again(pair: RedisPair) -> None:
    """Wait until the replica has copied the primary that came back."""
    wait_until(
        lambda: pair.primary.info("replication").get("connected_slaves") == "1",
        "the replica did not come back to the primary",
    )
    pair.wait_linked()


def test_an_empty_primary_that_comes_back_wipes_its_replica() -> None:
    """The replica copies the nothing, in memory and on its disk; RED001 says it before."""
    with pair_started() as pair:
        pair.write(range(WRITTEN))
        assert keys_of(pair.replica) == WRITTEN
        assert state_of_the_rule(pair.primary, restarts=True) is State.VIOLATED
        pair.primary.kill()
        pair.primary.start()
        wait_followed_again(pair)
        assert keys_of(pair.replica) == 0
        restarted_alone(pair.replica)
        assert keys_of(pair.replica) == 0


def test_without_a_restart_the_replica_keeps_everything() -> None:
    """A primary that stays down harms nobody: the replica is promoted and also its disk has all."""
    with pair_started() as pair:
        pair.write(range(WRITTEN))
        assert state_of_the_rule(pair.primary, restarts=False) is State.HOLDS
        pair.primary.kill()
        assert pair.replica.command("REPLICAOF", "NO", "ONE") == b"OK"
        assert keys_of(pair.replica) == WRITTEN
        pair.replica.stop()  # orderly: what it holds is flushed
        restarted_alone(pair.replica)
        assert keys_of(pair.replica) == WRITTEN


def test_a_snapshot_on_the_primary_keeps_what_is_in_it_and_no_more() -> None:
    """With save points a restart gives the last snapshot, and the replica loses what came since."""
    with pair_started({"save": "3600 1"}) as pair:
        pair.write(range(WRITTEN))
        assert pair.primary.command("SAVE") == b"OK"
        pair.write(range(WRITTEN, 2 * WRITTEN))
        assert keys_of(pair.replica) == 2 * WRITTEN
        assert state_of_the_rule(pair.primary, restarts=True) is State.HOLDS
        pair.primary.kill()
        pair.primary.start()
        wait_followed_again(pair)
        assert keys_of(pair.replica) == WRITTEN
