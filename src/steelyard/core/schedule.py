"""The load on a server, the order of a campaign, turns, and what the place can do at most.

The order is drawn from a seed and stored before the first run, and what the place can do at most is
measured before the first block. The turn is a way of taking a run and never a unit of analysis:
that is the block.
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Final

from steelyard.core.quantities import INLINE, OPTIONAL, Named, duration, key, whole
from steelyard.core.target import DatabaseSystem
from steelyard.core.wording import MIB

# Keys that stand beside many numbers.
WorkloadName = Annotated[str, "Name of the workload."]
ConfigurationName = Annotated[str, "Name of the configuration."]
BaselineName = Annotated[str, "Name of the configuration that the others are compared with."]
Blocks = Annotated[int, "Complete blocks behind it: each has every configuration once."]
Missing = Annotated[str, "Why a value is missing; null if it is there."]
CLIENTS: Final = "Client sessions, in all; `pooled`: the result over all loads of the workload."
THREADS: Final = "Threads of the load generator; null if it is pooled or follows the clients."


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Load offered to the server.

    Attributes:
        rate_per_s: Of all generators together; None: see ``share``.
        share: The capacity is measured before the first block; None means closed loop, unless
            ``rate_per_s`` is given.
        latency_limit_s: Open loop only: transactions that are later than this already are skipped
            (pgbench's ``--latency-limit``); None: none is.
        generators: Clients, threads and rate are divided among them.
    """

    clients: Annotated[int, CLIENTS]
    threads: Annotated[int, THREADS]
    rate_per_s: Annotated[float | None, "Rate of an open loop, 1/s; null for a closed one."] = None
    share: Annotated[
        float | None, Named("capacity_share"), OPTIONAL, "The rate as a share of the capacity."
    ] = None
    latency_limit_s: float | None = None
    generators: Annotated[int, OPTIONAL, "Load generators, if there are several."] = 1
    pipeline: Annotated[int, OPTIONAL, "Commands in flight per client, if there are several."] = 1

    def __lt__(self, other: "Load") -> bool:
        return self._rank < other._rank

    @property
    def _rank(self) -> tuple[float, ...]:
        """Return what orders loads: closed loops before open ones."""
        rates = (self.rate_per_s or 0.0, self.share or 0.0, self.latency_limit_s or 0.0)
        return (self.clients, self.threads, *rates, self.generators, self.pipeline)

    @property
    def is_open(self) -> bool:
        """Return whether transactions are scheduled at a rate, whatever the server does."""
        return self.rate_per_s is not None or self.share is not None

    @property
    def size(self) -> tuple[float, ...]:
        """Return what makes a load the largest: a closed loop keeps all its clients busy.

        Of open loops the highest rate is; what a share becomes is unknown here, and taken as more
        than a fixed rate.
        """
        rates = (self.share or 0.0, self.rate_per_s or 0.0)
        return (float(not self.is_open), *rates, self.clients, self.threads)

    @property
    def as_closed(self) -> "Load":
        """Return the same clients without a rate: as much as the server gives."""
        return replace(self, rate_per_s=None, share=None, latency_limit_s=None)

    @property
    def rate_label(self) -> str:
        """Return the rate for tables: ``500/s``, ``70 %``; empty for a closed loop."""
        if self.rate_per_s is not None:
            return f"{self.rate_per_s:.10g}/s"
        return "" if self.share is None else f"{100.0 * self.share:g} %"

    @property
    def label(self) -> str:
        """Return the load as a short word for tables: ``8 clients at 500/s``."""
        rate = f" at {self.rate_label}" if self.is_open else ""
        piped = f", pipeline {self.pipeline}" if self.pipeline != 1 else ""
        return f"{self.clients} client{'s' if self.clients != 1 else ''}{piped}{rate}"


class Mode(StrEnum):
    """How a block brings its configurations together (METHOD.md 3.1)."""

    STARTS = "starts"  # a start per configuration: activate, warm-up, one run per cell
    # A start per configuration, all up at the same time; in each cell the load takes turns.
    ALTERNATING = "alternating"
    BACK_TO_BACK = "back-to-back"  # one start; in each cell all configurations one after another


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class CellKey:
    """A workload under a load; with a configuration it is a cell of the design."""

    workload: WorkloadName
    load: Annotated[Load, INLINE]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """One timed slice to take: which configuration, in which cell."""

    configuration: str
    cell: CellKey


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStart:
    """One start and the runs in it, in order.

    Attributes:
        configuration: The configuration that is activated first (in back-to-back mode the runs
            switch).
        sub_block: Which of those that are up together it is with, counting from 0 in its block.
    """

    configuration: str
    runs: tuple[PlannedRun, ...]
    sub_block: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBlock:
    """One complete block: each configuration equally often in each cell; ``index`` from 0.

    In sub-blocks the baseline is in each of them.
    """

    index: int
    starts: tuple[PlannedStart, ...]

    @property
    def sub_blocks(self) -> tuple[tuple[PlannedStart, ...], ...]:
        """Return the starts of each sub-block, in order."""
        numbers = dict.fromkeys(start.sub_block for start in self.starts)
        return tuple(
            tuple(start for start in self.starts if start.sub_block == number) for number in numbers
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """All blocks a campaign may take.

    Attributes:
        seed: What the order was drawn from.
        blocks: In order; a campaign may stop before the last.
    """

    seed: int
    mode: Mode
    blocks: tuple[PlannedBlock, ...]
    format: int = 1


LEAST_AT_ONCE: Final = 2  # the baseline and one other: fewer compare nothing


def sub_block_sizes(others: int, at_once: int) -> tuple[int, ...]:
    """Return over how many sub-blocks configurations beside the baseline spread, and how evenly.

    The first is the largest, so that each place of a server is used in it.

    Raises:
        ValueError: Not even the baseline and one other are up together.
    """
    if at_once < LEAST_AT_ONCE:
        raise ValueError(f"a sub-block of {at_once} compares nothing")
    number = max(math.ceil(others / (at_once - 1)), 1)
    return tuple((others + place) // number for place in reversed(range(number)))


SHORTEST_TURN_S: Final = 0.15  # a guess: half as much again as settles at least
LONGEST_TURN_S: Final = 1.0  # measured: so long a turn loses a factor of two in reads
LATENCIES_IN_A_TURN: Final = 100  # else what straddles the edges would be more than 1 %
LONGEST_LATENCY_S: Final = LONGEST_TURN_S / LATENCIES_IN_A_TURN
# Under a CPU quota: two periods of the kernel's 0.1 s, so that what was saved in the pause is used
# up, and a turn of which half counts (ALTERNATING 2).
QUOTA_SETTLING_S: Final = 0.2
QUOTA_TURN_S: Final = 0.4
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
    """How long things last inside a block whose configurations alternate, in seconds."""

    turn_s: float = key(
        DEFAULT_TURN_S,
        duration(SHORTEST_TURN_S),
        "Length of one turn where configurations alternate; 400ms where a CPU quota holds a server"
        " or a load generator back.",
        "250ms",
    )
    turn_discard_s: float = key(
        LEAST_SETTLING_S,
        duration(LEAST_SETTLING_S),
        "Thrown away at the beginning of each turn; 200ms, two periods of the quota, where one"
        " holds a server or a load generator back.",
        "100ms",
    )
    reconnects: int = key(
        0,
        whole(0, 100),
        "How often the load generators of an alternating run are started anew.",
        5,
    )

    def for_latency(self, mean_s: float) -> "TurnTimes":
        """Return the same with turns that hold enough transactions of so long a mean latency."""
        needed_s = math.ceil(LATENCIES_IN_A_TURN * mean_s / _STEP_S) * _STEP_S
        return replace(self, turn_s=round(max(self.turn_s, needed_s), 3))

    def turns_in(self, seconds: float) -> int:
        """Return how many turns make up so many seconds, at least 2."""
        return max(2, round(seconds / self.turn_s))

    def sets(self, rounds: int) -> tuple[range, ...]:
        """Return which rounds of so many each set of connections has."""
        number = self.reconnects + 1
        ends = [rounds * each // number for each in range(number + 1)]
        return tuple(map(range, ends[:-1], ends[1:]))

    @property
    def told_to_s(self) -> float:
        """Return the longest latency that turns tell where the generator stands still alone.

        What counts ended after the settling, so that a pause fell into nothing that was shorter
        than that: up to there no transaction is missing.
        """
        return min(self.turn_s / _OF_A_TURN, self.turn_discard_s)

    @property
    def counted_s(self) -> float:
        """Return how much of a turn counts."""
        return self.turn_s - self.turn_discard_s


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadTurns:
    """How long things last in the turns of one workload, under all its loads."""

    workload: str
    times: TurnTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMemory:
    """What servers that are up together share.

    Attributes:
        needed_bytes: By all of them with their data, at worst; in sub-blocks by those of one.
        available_bytes: To all of them, before they start.
        at_once: How many are up together where not all fit, the baseline's among them: a block is
            taken in sub-blocks then. None: all of them are.
    """

    needed_bytes: int
    available_bytes: int
    at_once: int | None = None


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


LOG_WRITE_BYTES: Final = 16 * MIB  # a segment of WAL


class CeilingKind(StrEnum):
    """What was measured."""

    ROUND_TRIP = "round trip"  # an empty statement on one open connection
    PING_PONG = "ping-pong"  # two processes that wake each other up; one trip is two wake-ups
    SYNC = "sync"  # 8 KiB written and forced out, one after another
    DIRECT_READ = "direct read"  # past the page cache
    LOG_WRITE = "log write"  # LOG_WRITE_BYTES written and forced out, one after another


class CeilingsAsked(StrEnum):
    """Which ceilings an experiment asks for."""

    AUTO = "auto"  # those of the device only where they cost little of the budget
    ON = "on"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """One ceiling, or why it is not known.

    Attributes:
        subject: What it is of: the server, the CPUs, the method of forcing out, the size of a read.
        latency_s: The median; of pg_test_fsync, which prints no other, the mean. None when unknown.
        fastest_s: The 5 % quantile: nearly nothing was faster. None when not measured.
        p99_s: The 99 % quantile; None likewise.
        rate_per_s: The most per second; None where only a latency was measured, or nothing.
        samples: Measurements behind the quantiles.
        low_s: Lower bound of the 95 % interval of the median; None where only a mean is known.
        high_s: Upper bound; None likewise.
        how: The source, in words.
        unknown: Why there is no value; empty when there is one.
        configurations: Those whose server it holds for; of a method of forcing out, those whose
            commits wait for it. Empty: it holds for none in particular.
    """

    kind: CeilingKind
    subject: str
    latency_s: float | None = None
    fastest_s: float | None = None
    p99_s: float | None = None
    rate_per_s: float | None = None
    samples: int = 0
    low_s: float | None = None
    high_s: float | None = None
    how: str = ""
    unknown: str = ""
    configurations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number in what a program prints.

    Attributes:
        place: A JSON path where it begins with ``$``, else a regular expression whose named group,
            or first one, is the number; the last match counts.
        factor: By which the printed number becomes one of our unit.
    """

    place: str
    factor: float = 1.0


TIME_COLUMN: Final = "time"
LATENCY_COLUMN: Final = "latency"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLog:
    """What stands in each line of the log that a program writes, a line per transaction.

    Attributes:
        columns: In order ``time``, at which it ended, ``latency``, and any other word for what is
            not read; empty: the lines are those of pgbench.
        time_unit_s: Of the times, since the epoch.
        latency_unit_s: Of the latencies.
    """

    columns: tuple[str, ...] = ()
    time_unit_s: float = 1.0
    latency_unit_s: float = 1e-3

    @property
    def has_latencies(self) -> bool:
        """Return whether each line tells how long its transaction took."""
        return not self.columns or LATENCY_COLUMN in self.columns


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCommand:
    """A program of the user's that puts the load on, with names in braces for what it is told.

    Attributes:
        argv: One run.
        prepare: Makes its data once; empty: ``Workload.prepare`` and the like do.
        rate: Transactions per second, over what counts of a run; None: its log tells.
        log: Of its transactions, by which they are counted; None: it prints a rate.
        mean: Mean latency in seconds; None: it prints none.
        percentiles: Latencies in seconds by their share; empty likewise.
        grace_s: How much longer than it was asked for it may run, until it is killed.
    """

    argv: tuple[str, ...]
    prepare: tuple[str, ...] = ()
    rate: Figure | None = None
    log: CommandLog | None = None
    mean: Figure | None = None
    percentiles: tuple[tuple[float, Figure], ...] = ()
    grace_s: float = 60.0

    @property
    def name(self) -> str:
        """Return the name of the program, without its directory."""
        return self.argv[0].rpartition("/")[2]

    @property
    def has_ramp(self) -> bool:
        """Return whether its start is left out: it is told what of it, or its log is cut."""
        return self.log is not None or any("{ramp}" in word for word in self.argv)

    def seen_in(self, system: DatabaseSystem) -> DatabaseSystem:
        """Return what records and reports must know of a system under this program."""
        words = replace(system.words, generator=self.name)
        logs = self.log is not None
        return replace(system, words=words, has_ramp=self.has_ramp, logs_transactions=logs)
