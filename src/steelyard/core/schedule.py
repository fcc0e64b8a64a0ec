"""The load on a server, the order of a campaign, turns, and what the place can do at most.

The order is drawn from a seed and stored before the first run, and what the place can do at most is
measured before the first block. The turn is a way of taking a run and never a unit of analysis:
that is the block.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Final

from steelyard.core.places import WorkersAsked
from steelyard.core.quantities import (
    COMMAND,
    INLINE,
    LONG,
    OPTIONAL,
    TEXT,
    Named,
    Quantity,
    WrittenFloat,
    WrittenInt,
    as_text,
    counts,
    duration,
    either,
    inside,
    key,
    refusal,
    required,
    several,
    shown,
    split_words,
    whole,
    word,
)
from steelyard.core.target import DatabaseSystem, systems
from steelyard.core.wording import MIB, InputError, parse_fraction

# Keys that stand beside many numbers.
WorkloadName = Annotated[str, "Name of the workload."]
ConfigurationName = Annotated[str, "Name of the configuration."]
BaselineName = Annotated[str, "Name of the configuration that the others are compared with."]
Blocks = Annotated[int, "Complete blocks behind it: each has every configuration once."]
Missing = Annotated[str, "Why a value is missing; null if it is there."]
CLIENTS: Final = "Client sessions, in all; `pooled`: the result over all loads of the workload."
THREADS: Final = "Threads of the load generator; null if it is pooled or follows the clients."


RATE: Final = "Rate of an open loop, 1/s; null for a closed one."


@dataclass(frozen=True, slots=True, kw_only=True)
class AllLoads:
    """The keys of a load for all loads of a workload together."""

    clients: Annotated[int | str, CLIENTS] = "pooled"
    threads: Annotated[int | None, THREADS] = None
    rate_per_s: Annotated[float | None, RATE] = None


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
    rate_per_s: Annotated[float | None, RATE] = None
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyGoal:
    """A service level: this share of all transactions is faster than a limit.

    Attributes:
        share: Between 0 and 1; 0.99 for p99.
        limit_s: Latency that this percentile must stay below, from the scheduled start.
    """

    share: float
    limit_s: float

    @classmethod
    def of(cls, value: object) -> "LatencyGoal":
        """Return the goal of ``p99 < 10ms``.

        Raises:
            InputError: It is none, or out of range.
        """
        match = _GOAL.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            raise refusal(f"{shown(value)} is not a goal of latency", _GOAL_FORM)
        percent = float(match[1])
        if not _LEAST_GOAL <= percent <= _MOST_GOAL:
            raise refusal(f"p{match[1]} is out of range", _GOAL_FORM)
        limit_s = float(match[2]) * _SECONDS_PER[match[3]]
        if not limit_s > 0.0:
            raise refusal(f"{shown(value)} can never be met", "Write a latency above 0.")
        return cls(share=round(percent / 100.0, 8), limit_s=round(limit_s, 12))

    @property
    def label(self) -> str:
        """Return it as in an experiment file: ``p99 < 10 ms``."""
        factor, unit = (1e3, "ms") if self.limit_s < 1.0 else (1.0, "s")
        if self.limit_s < 1e-3:
            factor, unit = 1e6, "us"
        return f"p{100.0 * self.share:.6g} < {self.limit_s * factor:.6g} {unit}"


_GOAL_FORM: Final = "Write it as `p99 < 10ms`: p50 to p99.99, then us, ms or s."
_GOAL: Final = re.compile(
    r"\s*p([0-9]{1,2}(?:\.[0-9]{1,4})?)\s*<=?\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(us|\u00b5s|\u03bcs|ms|s)\s*",
    re.ASCII,  # the two letters are the micro sign and the Greek mu
)
_SECONDS_PER: Final = {"us": 1e-6, "\u00b5s": 1e-6, "\u03bcs": 1e-6, "ms": 1e-3, "s": 1.0}
_LEAST_GOAL, _MOST_GOAL = 50.0, 99.99
GOAL: Final = Quantity(
    read=LatencyGoal.of,
    schema={
        "type": "string",
        "pattern": r"^\s*p[0-9]{1,2}(\.[0-9]+)?\s*<=?\s*[0-9.]+\s*(us|\u00b5s|\u03bcs|ms|s)",
    },
)


CLOSED: Final = "closed"
LEAST_ASKED: Final = 3  # blocks, runs of a capacity: two have an interval of 13 standard errors
GOAL_SHARES: Final = (0.5, 0.6, 0.7, 0.8, 0.9)  # of the capacity, where only `slo` is given
_MOST_PER_S: Final = 1_000_000.0  # pgbench counts in microseconds
_DECIMAL: Final = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]{1,3})?", re.ASCII)
_RATE_FORMS: Final = "Write transactions per second, a share of the capacity as `70%`, or `closed`."


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A rate as the file gives it: one of the two, neither for a closed loop.

    Attributes:
        per_s: Transactions per second, all generators together.
        share: Of the capacity.
    """

    per_s: float | None = None
    share: float | None = None

    @property
    def is_closed(self) -> bool:
        """Return whether no rate is asked for."""
        return self.per_s is None and self.share is None

    def __str__(self) -> str:
        if self.per_s is not None:
            return f"{self.per_s:.10g}"
        return CLOSED if self.share is None else f"{100.0 * self.share:g}%"


def _as_rate(value: object) -> Rate:
    text = value.text if isinstance(value, WrittenInt | WrittenFloat) else value
    if isinstance(value, bool) or not isinstance(text, str | int | float):
        raise refusal(f"{shown(value)} is not a rate", _RATE_FORMS)
    text = str(text).strip()
    if text == CLOSED:
        return Rate()
    if text.endswith("%"):
        return Rate(share=_share_of_capacity(value, text))
    if not _DECIMAL.fullmatch(text):
        raise refusal(f"{shown(value)} is not a rate", _RATE_FORMS)
    per_s = float(text)
    if not 0.0 < per_s <= _MOST_PER_S:
        hint = f"Write more than 0 and at most {_MOST_PER_S:.0f} per second."
        raise refusal(f"{shown(value)} is out of range", hint)
    return Rate(per_s=per_s)


def _share_of_capacity(value: object, text: str) -> float:
    try:
        return parse_fraction(text)
    except InputError:
        message = f"rates are below 100 % of the capacity, and {shown(value)} is not"
        hint = "Write at most 99%, or an absolute number to overload on purpose."
        raise refusal(message, hint) from None


_RATE: Final = Quantity(
    read=_as_rate,
    schema={
        "anyOf": [
            {"type": "number", "exclusiveMinimum": 0, "maximum": _MOST_PER_S},
            {"type": "string", "examples": ["70%", CLOSED]},
        ]
    },
)


class Sessions(int):
    """A number of clients; ``threads`` are those of the generator, where the file pairs them."""

    threads: int | None = None

    @property
    def written(self) -> str:
        """Return it as a file has it."""
        return str(int(self)) if self.threads is None else f"{int(self)}/{self.threads}"


def _as_sessions(value: object) -> Sessions:
    clients, slash, threads = str(value).partition("/")
    read = whole().read
    if not slash:
        return Sessions(read(value))
    found = Sessions(read(clients))
    found.threads = read(threads)
    if found.threads > found:
        message = f"{shown(value)} has more threads than clients"
        raise refusal(message, "The generator needs at least one client per thread.")
    return found


_PAIR: Final = {"type": "string", "pattern": r"^\s*[0-9]+\s*/\s*[0-9]+\s*$"}
_SESSIONS: Final = Quantity(read=_as_sessions, schema={"anyOf": [whole().schema, _PAIR]})
PROTOCOL: Final = word(("simple", "extended", "prepared"))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadsAsked:
    """Loads offered to the server; every combination of clients, threads and rates is measured."""

    clients: tuple[Sessions, ...] = required(
        several(_SESSIONS, least=1, form="[0-9]+(/[0-9]+)?"),
        "Server sessions open at once, always the total; `8/4` pairs them with threads of the"
        " generator.",
        [1, 10, 50],
    )
    threads: tuple[int, ...] | None = key(
        None,
        either("auto", counts()),
        "Worker threads of the generator; auto is min(clients, CPUs), of redis-benchmark two"
        " processes per generator at most.",
        "auto",
    )
    rate: tuple[Rate, ...] | None = key(
        None,
        several(_RATE, least=1),
        "Arrival rates of open loops: transactions per second of all generators together, a share"
        " of the capacity as `70%`, or `closed` for none.",
        [500, "70%", CLOSED],
    )
    latency_limit_s: float | None = key(
        None,
        duration(1e-4),
        "Open loops only: transactions that are later than this are skipped.",
        "100ms",
    )
    generators: int = key(
        1,
        whole(),
        "Processes of the generator, among which clients, threads and rate are divided.",
        2,
    )
    pipeline: tuple[int, ...] = key(
        (1,),
        counts(),
        "Redis: requests that a client sends before it waits for their answers.",
        1,
    )
    protocol: str = key("prepared", PROTOCOL, "pgbench's query mode.", "simple")

    def rates(self, goal: LatencyGoal | None) -> tuple[Rate, ...]:
        """Return its rates: its own, shares where only a goal is given, else none."""
        shares = tuple(Rate(share=share) for share in GOAL_SHARES)
        return self.rate or (shares if goal else (Rate(),))

    def loads(self, goal: LatencyGoal | None, auto: Callable[[int, int], int]) -> tuple[Load, ...]:
        """Return every combination; ``auto`` has the threads of clients and generators."""
        return tuple(
            Load(
                clients=int(clients),
                threads=threads,
                rate_per_s=rate.per_s,
                share=rate.share,
                latency_limit_s=None if rate.is_closed else self.latency_limit_s,
                generators=self.generators,
                pipeline=pipeline,
            )
            for clients in self.clients
            for threads in (
                (clients.threads,)
                if clients.threads is not None
                else self.threads or (auto(clients, self.generators),)
            )
            if threads <= clients
            for pipeline in self.pipeline
            for rate in self.rates(goal)
        )


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

    Attributes:
        counted_s: So much of each of its runs counts at most; None: as much as the file asks for.
    """

    index: int
    starts: tuple[PlannedStart, ...]
    counted_s: float | None = None

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
LONGEST_TURN_S: Final = 5.0  # a guess
LATENCIES_IN_A_TURN: Final = 100  # else what straddles the edges would be more than 1 %
# Measured: so long a turn loses a factor of two in reads. From here on turns hold fewer latencies,
# at least so many, and transactions over an edge count by their share.
LONG_TURN_S: Final = 1.0
LEAST_LATENCIES: Final = 20
LONGEST_LATENCY_S: Final = LONGEST_TURN_S / LEAST_LATENCIES
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

    turn_s: Annotated[float, "Length of a turn, s."] = key(
        DEFAULT_TURN_S,
        duration(SHORTEST_TURN_S),
        "Length of one turn where configurations alternate; 400ms where a CPU quota holds a server"
        " or a load generator back.",
        "250ms",
    )
    turn_discard_s: Annotated[float, "Its beginning that does not count, s."] = key(
        LEAST_SETTLING_S,
        duration(LEAST_SETTLING_S),
        "Thrown away at the beginning of each turn; 200ms, two periods of the quota, where one"
        " holds a server or a load generator back.",
        "100ms",
    )
    reconnects: Annotated[int, "Reconnections of all clients in a run."] = key(
        0,
        whole(0, 100),
        "How often the load generators of an alternating run are started anew.",
        5,
    )

    def for_latency(self, mean_s: float) -> "TurnTimes":
        """Return the same with turns that hold enough transactions of so long a mean latency."""
        least_s = min(LATENCIES_IN_A_TURN * mean_s, max(LONG_TURN_S, LEAST_LATENCIES * mean_s))
        needed_s = math.ceil(round(least_s / _STEP_S, 6)) * _STEP_S
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
    def shares_edges(self) -> bool:
        """Return whether transactions over an edge of a turn count by their share in it."""
        return self.turn_s >= LONG_TURN_S

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
        at_once: A block is taken in sub-blocks then. None: all of them are.
    """

    needed_bytes: Annotated[
        int, "Need of all servers with their data, at worst, bytes; in sub-blocks of those of one."
    ]
    available_bytes: Annotated[int, "Free memory before they start, bytes."]
    at_once: Annotated[
        int | None, OPTIONAL, "Servers that are up together, the baseline's among them, if not all."
    ] = None


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
        transactions: That ended in them; in long turns those over an edge count by their share.
        early: Of these, in the first half of the seconds that count.
    """

    round: int
    place: int
    began_s: float
    seconds: float
    transactions: float
    early: float


LOG_WRITE_BYTES: Final = 16 * MIB  # a segment of WAL


class CeilingKind(StrEnum):
    """What was measured."""

    ROUND_TRIP = "round trip"  # an empty statement on one open connection
    PING_PONG = "ping-pong"  # two processes that wake each other up; one trip is two wake-ups
    SYNC = "sync"  # 8 KiB written and forced out, one after another
    DIRECT_READ = "direct read"  # past the page cache
    LOG_WRITE = "log write"  # LOG_WRITE_BYTES written and forced out, one after another


class MachineLimits(StrEnum):
    """Whether the limits of the machine are measured."""

    AUTO = "auto"  # those of the device only where they cost little of the budget
    ON = "on"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """One ceiling, or why it is not known.

    Attributes:
        latency_s: Of pg_test_fsync, which prints no other, the mean.
        configurations: Of a method of forcing out, those whose commits wait for it. Empty: it holds
            for none in particular.
    """

    kind: Annotated[CeilingKind, "Kind of limit."]
    subject: Annotated[
        str, Named("of"), "The server, CPUs, method of forcing out or size of a read."
    ]
    rate_per_s: Annotated[
        float | None, "The most per second; null if only a latency was measured, or it failed."
    ] = None
    latency_s: Annotated[
        float | None, "Median latency, s (mean of forced writes); null if unknown."
    ] = None
    low_s: Annotated[
        float | None,
        "Lower bound of the 95 % interval of the median, s; null where only a mean is known.",
    ] = None
    high_s: Annotated[float | None, "Upper bound, s; may be null."] = None
    fastest_s: Annotated[
        float | None, "5 % quantile, s: few were faster; null when not measured."
    ] = None
    p99_s: Annotated[float | None, "99th percentile, s; may be null."] = None
    samples: Annotated[int, "Measurements behind the quantiles."] = 0
    configurations: Annotated[tuple[str, ...], "Configurations whose server it holds for."] = ()
    how: Annotated[str, "How it was found; null if it was not."] = ""
    unknown: Annotated[str, "Why it is not known; null where it is."] = ""


JSON_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[\"([^\"]+)\"\]")  # of a JSON path


def as_place(value: object) -> str:
    """Return where the output of a program has a number: a regular expression or a JSON path."""
    place, wrong = as_text(value), ""
    if place.startswith("$"):
        rest = JSON_STEP.sub("", place[1:])
        if rest or place == "$":
            wrong = f"{rest!r} of the JSON path is not understood"
    else:
        try:
            if not re.compile(place, re.MULTILINE).groups:
                wrong = "the regular expression has no group"
        except re.error as error:
            wrong = f"it is no regular expression: {error}"
    if wrong:
        raise refusal(
            f"{shown(place)} finds no number: {wrong}",
            "Write a regular expression such as `tps = (?P<rate>[0-9.]+)`, or a JSON path such as"
            " `$.results.rate`.",
        )
    return place


def _as_latencies(value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict) or not value:
        raise refusal(f"{shown(value)} is not a mapping", "Write `{p95: 'p95: ([0-9.]+)'}`.")
    for name in value:
        if name != MEAN and share_of(str(name)) is None:
            message = f"{shown(name)} is neither `mean` nor a percentile"
            raise refusal(message, "Write `mean`, `p50`, `p95`, `p99` or `p99.9`.")
    return tuple((str(name), as_place(given)) for name, given in value.items())


def share_of(name: str) -> float | None:
    """Return the share of ``p99.9``; None where it names no percentile."""
    found = re.fullmatch(r"p(\d{1,2}(\.\d{1,3})?)", name)
    return round(float(found[1]) / 100.0, 6) if found and float(found[1]) else None


def _as_columns(value: object) -> tuple[str, ...]:
    if value == PGBENCH_LOG:
        return (PGBENCH_LOG,)
    columns = [as_text(column) for column in split_words(value)]
    for column in columns:
        if column not in _COLUMNS:
            message = f"{shown(column)} is no column that is read"
            hint = f"Write `time`, `latency`, and `{_OTHER_COLUMN}` for every other column;"
            raise refusal(message, f"{hint} `pgbench` alone stands for pgbench's own lines.")
    if columns.count(TIME_COLUMN) != 1 or columns.count(LATENCY_COLUMN) > 1:
        message = "each line needs one time, and at most one latency"
        raise refusal(message, "Write `[time]`, or `[time, latency]`.")
    return tuple(columns)


MEAN: Final = "mean"
PGBENCH_LOG: Final = "pgbench"
TIME_COLUMN: Final = "time"
LATENCY_COLUMN: Final = "latency"
_OTHER_COLUMN: Final = "skip"
_COLUMNS: Final = (TIME_COLUMN, LATENCY_COLUMN, _OTHER_COLUMN)
_COLUMN_LIST: Final = {"type": "array", "items": {"enum": [*_COLUMNS]}, "minItems": 1}
_LOG: Final = Quantity(read=_as_columns, schema={"anyOf": [{"const": PGBENCH_LOG}, _COLUMN_LIST]})
_PLACE: Final = Quantity(read=as_place, schema={"type": "string"})
_LATENCIES: Final = Quantity(
    read=_as_latencies, schema={"type": "object", "additionalProperties": {"type": "string"}}
)
RATE_UNITS: Final = {"1/s": 1.0, "1/min": 1.0 / 60.0, "1/h": 1.0 / 3600.0}
LATENCY_UNITS: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
TIME_UNITS: Final = {**LATENCY_UNITS, "ns": 1e-9}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCommand:
    """A program of the user's that puts the load on, with names in braces for what it is told.

    Attributes:
        prepare: Empty: ``Workload.prepare`` and the like make the data.
        log: Columns in order; None: it prints a rate.
        rate: Where it is in the output; None: the log tells.
        latency: Where they are by name, of percentiles and the mean; empty: it prints none.
    """

    argv: tuple[str, ...] = key(
        (),
        COMMAND,
        "Any program that puts load on PostgreSQL and prints a rate or logs its transactions,"
        " started without a shell for each run; names in braces stand for what it is told.",
        ["sysbench", "{workload}", "--threads={clients}", "--time={seconds}", "run"],
        name="command",
    )
    prepare: tuple[str, ...] = key(
        (),
        COMMAND,
        "Program that makes the command's data once; they are part of the prepared state.",
        ["sysbench", "oltp_read_only", "--pgsql-db={database}", "prepare"],
        name="prepare_command",
    )
    log: tuple[str, ...] | None = key(
        None,
        _LOG,
        "The command writes a line for each transaction to the file `{log}`, by which it is"
        " counted, in turns, too: the columns of a line, or `pgbench`.",
        ["time", "latency"],
        "pgbench",
    )
    log_time_unit: str = key(
        "s",
        word(tuple(TIME_UNITS)),
        "Unit of the times in the log, which count from the epoch.",
        "us",
    )
    rate: str | None = key(
        None,
        _PLACE,
        "Where the command's output has its rate: a regular expression with a group, or a JSON"
        " path that begins with `$`; the last match counts.",
        "transactions: .*\\((?P<rate>[0-9.]+) per sec",
    )
    rate_unit: str = key("1/s", word(tuple(RATE_UNITS)), "Unit of the printed rate.", "1/min")
    latency: tuple[tuple[str, str], ...] = key(
        (),
        _LATENCIES,
        "Where the output has latencies: `mean`, `p95` and so on, each as `rate` is written.",
        {"p95": "95th percentile: +(?P<latency>[0-9.]+)"},
    )
    latency_unit: str = key(
        "ms", word(tuple(LATENCY_UNITS)), "Unit of printed or logged latencies.", "us"
    )
    grace_s: float = key(
        60.0,
        LONG,
        "How much longer than it was asked for the command may run, until it is killed.",
        "2m",
    )

    @property
    def name(self) -> str:
        """Return the name of the program, without its directory."""
        return self.argv[0].rpartition("/")[2]

    @property
    def has_ramp(self) -> bool:
        """Return whether its start is left out: it is told what of it, or its log is cut."""
        return self.log is not None or any("{discard_start}" in word for word in self.argv)

    @property
    def logs_latencies(self) -> bool:
        """Return whether each line of its log tells how long its transaction took."""
        return bool({PGBENCH_LOG, LATENCY_COLUMN} & {*(self.log or ())})

    def seen_in(self, system: DatabaseSystem) -> DatabaseSystem:
        """Return what records and reports must know of a system under this program."""
        words = replace(system.words, generator=self.name)
        logs = self.log is not None
        return replace(system, words=words, has_ramp=self.has_ramp, logs_transactions=logs)


def _program() -> Quantity:
    return word(tuple(each.words.generator for each in systems()))


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorAsked:
    """The load generator."""

    program: str | None = key(
        None,
        Quantity(read=lambda value: _program().read(value), schema=_program().schema),
        "Which program puts the load on; redis-benchmark for Redis, pgbench else.",
        "redis-benchmark",
    )
    flags: tuple[str, ...] = key(
        (), several(TEXT), "Handed to the generator unchanged.", ["--random-seed=42"]
    )
    workers: WorkersAsked | None = inside(WorkersAsked, optional=True, by=["workers", "hosts"])
    command: LoadCommand = inside(LoadCommand)
