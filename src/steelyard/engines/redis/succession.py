"""A Redis replica that takes the place of its dead primary."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from steelyard.engines.redis import figures
from steelyard.engines.redis.server import RedisProgram
from steelyard.gateways.clock import Clock
from steelyard.gateways.redis import RedisDoor, RedisSession, opened
from steelyard.model.command import ServerAddress
from steelyard.model.errors import MeasurementError, TargetError

_NOTICED_S: Final = 60.0
_POLL_S: Final = 0.02


class RedisSuccession:
    """Replicas of one installed program."""

    def __init__(self, program: RedisProgram) -> None:
        self._program = program

    def program(self, replica: Sequence[tuple[str, str]]) -> RedisProgram:
        """Return the program with a replica."""
        return replace(self._program, replica=tuple(replica))

    def watch(self, server: ServerAddress, replica: ServerAddress) -> "OffsetWatch":
        """Return what compares the offsets of the two."""
        door = self._program.redis
        first = door.connect(server)
        try:
            return OffsetWatch(first, door.connect(replica))
        except TargetError:
            first.close()
            raise

    def promote(self, replica: ServerAddress, clock: Clock) -> None:
        """Make a replica a primary, once its link is down: then it has read all there was."""
        deadline = clock.monotonic() + _NOTICED_S
        door: RedisDoor = self._program.redis
        with opened(door, replica) as session:
            while session.info("replication").get("master_link_status") != "down":
                if clock.monotonic() > deadline:
                    raise MeasurementError(
                        "the replica did not notice that its primary is dead",
                        hint="Does somebody else listen on the port of the primary?",
                    )
                clock.sleep(_POLL_S)
            session.command("REPLICAOF", "NO", "ONE")


class OffsetWatch:
    """How much of the stream a replica has not applied, by what both say at nearly one moment.

    The primary alone knows of its replica's offset once a second.
    """

    def __init__(self, primary: RedisSession, replica: RedisSession) -> None:
        self._primary = primary
        self._replica = replica

    def behind_bytes(self) -> int | None:
        """Return the difference of the offsets; the primary is asked first, so it may be 0."""
        sent = figures.number(self._primary.info("replication"), "master_repl_offset")
        applied = figures.number(self._replica.info("replication"), "slave_repl_offset")
        return None if sent is None or applied is None else int(max(sent - applied, 0))

    def close(self) -> None:
        """End both sessions."""
        self._primary.close()
        self._replica.close()
