"""What one run of the load generator gave, and the facts of machine, tools and servers behind it.

Runs are in base units and in run order. The facts are what must be known to trust a number.
"""

import math
from dataclasses import dataclass

from steelyard.core.evidence import Evidence
from steelyard.core.experiment import Setting
from steelyard.core.findings import Finding, Validity
from steelyard.core.latency import RunLatency
from steelyard.core.schedule import Ceiling, CellKey, Turn
from steelyard.core.target import Provision


@dataclass(frozen=True, slots=True, kw_only=True)
class Second:
    """One progress interval of the generator, about a second long.

    Attributes:
        end_s: End of the interval, seconds since the run's first connection attempt.
        transactions: Completed in the interval, from rate times length, so not always whole.
        seconds: Length of the interval.
        latency_mean_s: Mean latency of the transactions that ended in it; None when none did.
        failed: Failed transactions.
    """

    end_s: float
    transactions: float
    seconds: float
    latency_mean_s: float | None
    failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One run as the generator reported it, connection time and ramp excluded.

    Attributes:
        transactions: Completed after the ramp, and before the tail of an open loop.
        seconds: From the end of the ramp to the end of the last transaction, or to the tail.
        latency_mean_s: Mean over the whole run as seen by the client; None if not reported.
        latency_stddev_s: Standard deviation of it; None if not reported.
        failed: Failed transactions of the whole run.
        connection_s: Time to open all connections; None if not reported.
        series: One entry per progress interval of the whole run, ramp included.
        tail_transactions: Completed after the measured part, in the tail of an open loop.
        percentiles: Latencies in seconds by their share, as the generator printed them; empty where
            it prints none, or a log tells them.
        uncounted: Completed while a run was taken in turns, outside of what counts of them: while
            connections opened and while turns settled.
        skipped: Never started after the ramp, because they were later than the latency limit; 0
            also in records of versions that did not read it.
    """

    transactions: float
    seconds: float
    latency_mean_s: float | None
    latency_stddev_s: float | None
    failed: int
    connection_s: float | None
    series: tuple[Second, ...]
    tail_transactions: float = 0.0
    skipped: int = 0
    uncounted: float = 0.0
    percentiles: tuple[tuple[float, float], ...] = ()

    @property
    def tps(self) -> float:
        """Return completed transactions per second after the ramp."""
        return self.transactions / self.seconds

    @property
    def log_tps(self) -> float:
        """Return ln(tps), floored at one transaction per run so that a dead run stays finite."""
        return math.log(max(self.transactions, 1.0) / self.seconds)


RunPlace = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointAge:
    """Where a server stands in its checkpoint cycle.

    Attributes:
        seconds: Since its last complete checkpoint began or since it was started, whichever is
            later; None where the server does not tell.
        unknown: Why not; empty when it is known.
    """

    seconds: float | None
    unknown: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run in the record.

    Attributes:
        block: Index of its block, counting from 0.
        attempt: Which try of that block, counting from 0; only the last complete try counts, but
            of a single pass the valid runs of all tries.
        start: Place of its start in the block.
        position: Place in its start.
        started_at: Wall clock, seconds since the epoch.
        since_start_s: Seconds from the server's start (or last reset) to the run's start.
        measurement: None when the generator gave none; ``findings`` say why.
        raw: Name of the generator's stored output below the campaign's ``raw/``.
        checkpoint: Phase of the checkpoint cycle just before the run; None in records of versions
            that did not ask for it.
        evidence: What the probes saw; None in records of versions without probes.
        latency: Every transaction; None where none was logged, or where the log cannot be used:
            then a finding says why.
        turns: Of a run that was taken in turns, in order; empty for one in a single piece.
        sub_block: Of its block, counting from 0; the baseline has a run in each.
    """

    block: int
    attempt: int
    start: int
    position: int
    configuration: str
    cell: CellKey
    started_at: float
    since_start_s: float
    measurement: Measurement | None
    validity: Validity
    findings: tuple[Finding, ...] = ()
    raw: str = ""
    checkpoint: CheckpointAge | None = None
    evidence: Evidence | None = None
    latency: RunLatency | None = None
    turns: tuple[Turn, ...] = ()
    sub_block: int = 0

    @property
    def place(self) -> RunPlace:
        """Return where it stands in the schedule: block, start and position."""
        return (self.block, self.start, self.position)


@dataclass(frozen=True, slots=True, kw_only=True)
class SustainedRun:
    """One long run after the last block; it belongs to no block and to no estimate.

    Attributes:
        started_at: Wall clock, seconds since the epoch.
        ramp_s: Seconds at its start that do not count.
        measurement: None when the generator gave none; ``findings`` say why.
        raw: Name of the generator's stored output below the campaign's ``raw/``.
        evidence: What the probes saw; None in records of versions without probes.
        latency: Every transaction; None as for ``Run``.
        part: 0, and counting on for each further run that went on right after this one, because
            a late drop called for more.
    """

    configuration: str
    cell: CellKey
    started_at: float
    ramp_s: float
    measurement: Measurement | None
    validity: Validity
    findings: tuple[Finding, ...] = ()
    raw: str = ""
    evidence: Evidence | None = None
    latency: RunLatency | None = None
    part: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One fact about the machine, server or tools, ready to print."""

    name: str
    value: str
    subject: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveSetting:
    """One setting as the running server reports it.

    Attributes:
        name: As the server spells it.
        value: In the server's own unit.
        unit: The server's unit for it, or None.
        source: Where the server took the value from (``default``, ``configuration file``).
    """

    name: str
    value: str
    unit: str | None = None
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementPlan:
    """How a server would run a statement.

    Attributes:
        statement: As its script has it.
        lines: Of EXPLAIN, without costs.
        trouble: Why there is none; else empty.
    """

    workload: str
    statement: str
    lines: tuple[str, ...] = ()
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEnvironment:
    """One configuration's server as it was found running.

    Attributes:
        settings: All of them, as a new session sees them.
        requested: What the experiment asked for.
        plans: Of the statements of scripts; empty where there are none, or nobody asked.
        provision: What its place gives it; None in old records.
    """

    configuration: str
    version: str
    settings: tuple[EffectiveSetting, ...]
    requested: tuple[Setting, ...] = ()
    plans: tuple[StatementPlan, ...] = ()
    provision: Provision | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Facts of the campaign's machine, tools and servers.

    Attributes:
        facts: Of the machine and the tools, in the order to print them.
        servers: One per configuration that was activated at least once, in configuration order.
        ceilings: What the place can do at most; empty in old records and where nobody asked.
    """

    facts: tuple[Fact, ...]
    servers: tuple[ServerEnvironment, ...] = ()
    format: int = 1
    ceilings: tuple[Ceiling, ...] = ()
