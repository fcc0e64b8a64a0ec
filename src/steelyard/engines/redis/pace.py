"""How many requests fill a time, where the generator takes no time.

redis-benchmark is told a number of requests. If all treatments were told the same, a fast one would
be measured for a moment and a slow one for minutes; so each is asked for what its own server does
in the time asked for, by what it did before.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from steelyard.model.load import Load

FIRST_REQUESTS: Final = 50  # a guess: even 10 requests a second answer them in seconds
LONG_ENOUGH_S: Final = 0.5  # a guess: so much is 1 % more or less by the start of 5 ms
_AIM_S: Final = 0.8  # the next pilot's, so that it is not just too short again
_LEAST_GROWTH: Final = 2
_MOST_GROWTH: Final = 20  # a first pilot of a millisecond tells little of a second
MOST_REQUESTS: Final = 1_000_000_000  # redis-benchmark counts in 32 bits
REMEMBERED: Final = 5  # a guess: enough to outweigh a pilot, few enough to follow a drift


@dataclass(frozen=True, slots=True, kw_only=True)
class PaceKey:
    """What a rate belongs to."""

    treatment: str
    workload: str
    load: Load


@dataclass(frozen=True, slots=True, kw_only=True)
class _Past:
    requests: int
    seconds: float


@dataclass(slots=True)
class Pace:
    """What each server has done so far, and what that says of the next run.

    The rate of a key is that of its last runs together, so that a pilot counts for little as soon
    as a run was taken.
    """

    _past: dict[PaceKey, deque[_Past]] = field(default_factory=dict)
    _tried: dict[PaceKey, _Past] = field(default_factory=dict)

    def pilot(self, key: PaceKey) -> int | None:
        """Return how many requests to try first; None when the rate is known."""
        if key in self._past:
            return None
        tried = self._tried.get(key)
        if tried is None:
            # A client that waits for its turn is none; each should come more than once.
            return max(FIRST_REQUESTS, 2 * key.load.clients * key.load.pipeline)
        growth = _AIM_S / tried.seconds if tried.seconds > 0.0 else _MOST_GROWTH
        growth = min(max(growth, _LEAST_GROWTH), _MOST_GROWTH)
        return min(round(tried.requests * growth), MOST_REQUESTS)

    def learn(self, key: PaceKey, requests: int, seconds: float) -> None:
        """Take in what a run or a pilot did; one that was too short only leads to a longer one."""
        done = _Past(requests=requests, seconds=seconds)
        too_short = seconds < LONG_ENOUGH_S and requests < MOST_REQUESTS
        if requests <= 0 or seconds <= 0.0 or (too_short and key not in self._past):
            self._tried[key] = _Past(requests=max(requests, 1), seconds=seconds)
            return
        self._past.setdefault(key, deque(maxlen=REMEMBERED)).append(done)

    def requests(self, key: PaceKey, seconds: float) -> int:
        """Return how many requests the server answers in that time, at least one per client.

        Raises:
            KeyError: Nothing is known of it: no pilot has run.
        """
        past = self._past[key]
        rate_per_s = sum(one.requests for one in past) / sum(one.seconds for one in past)
        least = key.load.clients * key.load.pipeline
        return min(max(round(rate_per_s * seconds), least), MOST_REQUESTS)
