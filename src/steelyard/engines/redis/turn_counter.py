"""What a Redis server did of one workload, counted by itself while it runs.

``INFO commandstats`` counts each command by its name, so that what others ask, and what is asked
for the reading, is not among the workload's. ``TIME`` before it, in the same message, says when
that was to the microsecond: the answer waits for those to others, for milliseconds on a busy
machine (Redis 7.0.15 under 50 clients on two CPUs: up to 3 ms).
"""

from collections.abc import Collection
from typing import Final

from steelyard.engines.reading import CountedAt
from steelyard.engines.redis.figures import Told, calls_of
from steelyard.gateways.redis import RedisSession, Reply, parse_info
from steelyard.model.errors import MeasurementError
from steelyard.model.units import US_PER_S

COUNTER_PATIENCE_S: Final = 30.0  # a guess: a save that stops the server is shorter
_SECTION: Final = "commandstats"
_NOW: Final = ("TIME",)
_COUNTS: Final = ("INFO", _SECTION)


class CommandCounter:
    """Counts the commands of some names, without its own.

    Args:
        session: On the server.
        names: In small letters.
    """

    def __init__(self, session: RedisSession, names: Collection[str]) -> None:
        self._session = session
        self._names = names
        self._reads = 0

    def read(self) -> CountedAt:
        """Return how many there were so far, and when.

        Raises:
            MeasurementError: The server does not count commands.
            TargetError: It is gone.
        """
        now, counts = self._session.pipeline((_NOW, _COUNTS))
        told = parse_info(counts)
        # One INFO less: it is counted when it is done.
        own = {"time": self._reads + 1, "info": self._reads}
        self._reads += 1
        found = sum(calls_of(told, name) - own.get(name, 0) for name in self._names)
        return CountedAt(at_s=_seconds(now, told), transactions=found)

    def close(self) -> None:
        """End the session."""
        self._session.close()


def _seconds(now: Reply, told: Told) -> float:
    if not isinstance(now, list) or len(now) != 2 or not told:
        raise MeasurementError(
            "the server does not say how many commands it has done (INFO commandstats)",
            hint="Compare the configurations one by one: `design: one-by-one`.",
        )
    return int(now[0]) + int(now[1]) / US_PER_S
