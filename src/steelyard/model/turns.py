"""Turns: how the load goes back and forth between configurations that are up at the same time.

The turn is a way of taking a run and never a unit of analysis: that is the block.
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

SHORTEST_TURN_S: Final = 0.15  # a guess: half as much again as settles at least
LONGEST_TURN_S: Final = 1.0  # measured: so long a turn loses a factor of two in reads
LATENCIES_IN_A_TURN: Final = 100  # else what straddles the edges would be more than 1 %
DEFAULT_TURN_S: Final = 0.25  # measured: shorter ones gain nothing, 1 s loses a factor of two
# Measured: after a pause the rate is 10 % low at first and flat from here on.
LEAST_SETTLING_S: Final = 0.1

# Of one set of connections in a run in turns, beside its turns: under load for a moment, of which
# nothing counts, and the end of its generators. Measured with 4 to 16 clients on two busy CPUs.
CONNECTION_S: Final = 0.5
_OF_A_TURN: Final = 5.0  # beyond a fifth of it, what did not fit into a turn begins to count
_STEP_S: Final = 0.05  # lengths of turns are multiples of it, so that plans can be read


class Pausing(StrEnum):
    """What stands still while another configuration has its turn."""

    FREEZER = "freezer"  # server and generator, by the freezer of their control groups
    SIGNALS = "signals"  # server and generator, by SIGSTOP of every process of the account
    GENERATOR = "generator"  # the generator alone: the server goes on with its background work


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnTimes:
    """How long things last inside a block whose configurations alternate, in seconds.

    Attributes:
        turn_s: One turn.
        settling_s: Of it, thrown away at its beginning.
        reconnections: How often the generators of a run are started anew after the first time.
    """

    turn_s: float = DEFAULT_TURN_S
    settling_s: float = LEAST_SETTLING_S
    reconnections: int = 0

    def for_latency(self, mean_s: float) -> "TurnTimes":
        """Return the same with turns that hold enough transactions of so long a mean latency."""
        needed_s = math.ceil(LATENCIES_IN_A_TURN * mean_s / _STEP_S) * _STEP_S
        return replace(self, turn_s=round(max(self.turn_s, needed_s), 3))

    def turns_in(self, seconds: float) -> int:
        """Return how many turns make up so many seconds, at least 2."""
        return max(2, round(seconds / self.turn_s))

    def sets(self, rounds: int) -> tuple[range, ...]:
        """Return which rounds of so many each set of connections has."""
        number = self.reconnections + 1
        ends = [rounds * each // number for each in range(number + 1)]
        return tuple(map(range, ends[:-1], ends[1:]))

    @property
    def told_to_s(self) -> float:
        """Return the longest latency that turns tell where the generator stands still alone.

        What counts ended after the settling, so that a pause fell into nothing that was shorter
        than that: up to there no transaction is missing.
        """
        return min(self.turn_s / _OF_A_TURN, self.settling_s)

    @property
    def counted_s(self) -> float:
        """Return how much of a turn counts."""
        return self.turn_s - self.settling_s


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadTurns:
    """How long things last in the turns of one workload, under all its loads."""

    workload: str
    times: TurnTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMemory:
    """What servers that are up together share.

    Attributes:
        needed_bytes: By all of them with their data, at worst.
        available_bytes: To all of them, before they start.
    """

    needed_bytes: int
    available_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A time in which a generator ran without a pause, in seconds since the epoch.

    Attributes:
        counted: From when to when what ended counts; None: nothing does.
    """

    began_at: float
    ended_at: float
    counted: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn of one configuration.

    Attributes:
        round: Counts from 0 within the run; every configuration has one turn in each.
        place: In its round, counting from 0.
        began_s: Since the first turn of any configuration in this cell of the block, wall clock.
        seconds: That count: without settling.
        transactions: That ended in them.
        early: Of these, in the first half of the seconds that count.
    """

    round: int
    place: int
    began_s: float
    seconds: float
    transactions: int
    early: int
