"""A campaign: what it freezes before its first block, and its record as it is read again.

What must have been measured of a run before its rules can judge it is here, too. The noise of a
set-up is measured by an A/A campaign, or assumed and said so; all deviations are of ln(tps): 0.02
means about 2 %.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice, repeat
from typing import Annotated, ClassVar, Final

from steelyard.core import measurement
from steelyard.core.experiment import Experiment, Reset, SwitchCost
from steelyard.core.findings import (
    FOREIGN_DISK,
    GENERATOR_SATURATED,
    NEIGHBOUR_CPU,
    STEAL,
    Estimate,
    Fact,
    Finding,
    Validity,
)
from steelyard.core.quantities import OPTIONAL, Computed, Named
from steelyard.core.schedule import (
    CLIENTS,
    THREADS,
    CellKey,
    ConfigurationName,
    Mode,
    Pausing,
    SharedMemory,
    TurnTimes,
    WorkloadName,
    WorkloadTurns,
)
from steelyard.core.target import DatabaseSystem


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityPoint:
    """Throughput of a closed loop with some clients, 1/s: the median over slices.

    Attributes:
        slices: In the order they were taken, 1/s; slice k of all points belongs to round k.
    """

    clients: Annotated[int, CLIENTS]
    threads: Annotated[int, THREADS]
    tps: Annotated[Estimate, "Rate, 1/s."]
    slices: Annotated[tuple[float, ...], Named("runs_tps"), "Rate of the short runs, 1/s."]


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """The most that one configuration sustained under a workload, before the first block.

    Attributes:
        configuration: Whose it is: the baseline.
        points: One per number of clients, rising.
        clients: Fewest clients that reach it.
    """

    workload: WorkloadName
    configuration: ConfigurationName
    points: Annotated[tuple[CapacityPoint, ...], "Loads that were tried."]
    clients: Annotated[int, "Fewest clients that reach it."]
    tps: Annotated[Estimate, "Rate, 1/s."]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRate:
    """The rate that a load's share of the capacity became, 1/s; the same for all configurations."""

    cell: CellKey
    rate_per_s: float


class Status(StrEnum):
    """Where a campaign stands."""

    RUNNING = "running"
    DECIDED = "decided"
    PRECISION = "precision reached"
    BUDGET = "budget reached"
    PASSED = "single pass done"
    COMPLETE = "all blocks taken"
    INTERRUPTED = "interrupted"
    FAILED = "failed"

    @property
    def is_finished(self) -> bool:
        """Return whether it came to its end; any other may go on."""
        return self in (
            Status.DECIDED,
            Status.PRECISION,
            Status.BUDGET,
            Status.PASSED,
            Status.COMPLETE,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpChoice:
    """How the warm-up came about, and what it may have missed.

    Attributes:
        residual_fraction: Loss of throughput left after the warm-up, per configuration; empty
            without a calibration.
        is_grave: What the risk says can turn a result round.
    """

    warm_up_s: Annotated[float, "Seconds of warm-up after each start."]
    how: Annotated[str, "How it was found: `declared`, `floor` or `measured`."]
    risk: Annotated[str, "Risk that the choice leaves, in a sentence."]
    measured_s: Annotated[
        tuple[float, ...],
        "Calibrated warm-up of each configuration, s; empty without a calibration.",
    ] = ()
    residual_fraction: tuple[float | None, ...] = ()
    restarts: Annotated[int, "Starts behind the measurement."] = 0
    is_grave: bool = False


# In place of the ramp, which redis-benchmark cannot leave out; as long as it is by itself.
_SETTLING_S = 2
ANEW = "reprovision"  # the means of restoring where every start makes its server and data


class RoundsFor(StrEnum):
    """What the number of rounds in a start was chosen for."""

    ONE = "one"  # nothing asks for more
    ASKED = "asked"
    CYCLE = "checkpoint cycle"  # one start's runs cover a whole one
    INSTANCES = "instances"  # best for newly made servers, by costs and variances


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """How many rounds each start has.

    Attributes:
        chosen_for: Why not one; ``reason`` says it in a sentence.
        early_only: Settings whose effect changes over a checkpoint cycle that one start's runs do
            not cover; empty where they do, or where it does not matter.
        covered_s: Seconds from the first run of a start to the end of its last.
        least_instances: Per side, to find the effect worth deciding, at the least; None where no
            servers are made anew.
    """

    number: int = 1
    chosen_for: RoundsFor = RoundsFor.ONE
    reason: str = ""
    early_only: tuple[str, ...] = ()
    covered_s: float = 0.0
    least_instances: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppingRule:
    """The looks and levels of a campaign, frozen before its first block.

    Attributes:
        max_blocks: N of the spending function.
        is_fixed: So many blocks were asked for: there is one look, after the last of them.
        ends_from: Blocks from which on verdicts end the campaign.
    """

    max_blocks: Annotated[int, "Blocks at most."]
    alpha: Annotated[float, "Total two-sided error of one result, after Bonferroni."]
    results: Annotated[int, "Results that share the error."]
    first_look: Annotated[int, Named("first_interim_result"), "Blocks at the first interim result."]
    cell_first_look: Annotated[int, Named("cell_first_interim_result"), "The same of single cells."]
    spending_power: Annotated[
        float, "How the error is spent over interim results: rho of alpha(t) = alpha t^rho."
    ]
    precision: Annotated[
        float | None, Named("width"), "Asked half-width, a fraction; null: verdicts stop it."
    ] = None
    is_fixed: bool = False
    ends_from: int = 0

    def stopped_early(self, status: Status, blocks: int) -> bool:
        """Return whether the verdicts ended a campaign before its last look.

        Only then the estimates are, on average, a little too large (METHOD.md 3.4); a campaign that
        was interrupted, or that ended at the asked precision, did not stop because of its effect.
        """
        return status is Status.DECIDED and blocks < self.max_blocks


FEW_EXECUTIONS: Final = 200  # in a run, below which the draw of a mix weighs: a guess
Sessions = tuple[tuple[tuple[str, str], ...], ...]  # settings by name, of each configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptsInOrder:
    """That the scripts of a workload run in a given order, each as often as its weight.

    pgbench draws them, and of long ones a run would hold so few that the draw would decide.

    Attributes:
        sessions: What the sessions of each configuration have, in the order of the experiment,
            where all of them run each execution one after the other; empty: each has runs of its
            own.
    """

    workload: Annotated[str, "Name of the workload."]
    executions: Annotated[float, "Executions that a run would hold if scripts were drawn."]
    rounds: Annotated[int, "Rounds of a run that count: each script as often as its weight."]
    round_s: Annotated[float, "Time of one round of one configuration, as it was tried, s."]
    sessions: Sessions = ()
    in_succession: ClassVar = Computed(
        lambda order: bool(order.sessions),
        Annotated[bool, "Whether configurations run each execution one after the other."],
    )
    discards_first: Annotated[
        bool, "Whether an execution that does not count goes before each of them, to load its data."
    ] = False

    @property
    def repeats(self) -> int:
        """Return how many executions of a script one that counts for each side takes."""
        return len(self.sessions) + self.discards_first if self.sessions else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortBlocks:
    """Blocks at the beginning of a campaign whose runs are shorter than the file asks for.

    Attributes:
        block_s: Estimated seconds of one of them.
    """

    blocks: Annotated[int, "Blocks of this length."]
    counted_s: Annotated[float, "Part of each of their runs that counts at most, s."]
    block_s: Annotated[float, "Estimated length of one of them, s."]


def times_of_blocks(short: Sequence[ShortBlocks], block_s: float) -> Iterator[float]:
    """Yield the estimated seconds of each block in order, without end."""
    for part in short:
        yield from repeat(part.block_s, part.blocks)
    yield from repeat(block_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignPlan:
    """How the blocks are made; a resumed campaign keeps it.

    Attributes:
        restore: The means of restoring: ``reflink``, ``copy``, ``template``, ``vacuum``, or
            ``ANEW``.
        restores: Configurations whose place has another means, with it; empty where all share one.
        restore_s: Measured seconds of one restore by each means tried.
        block_s: Estimated seconds of one block, from measured switch and restore times.
        start_s: Measured seconds of one restart until the server is ready; None in old records.
        data_s: Measured seconds of bringing the data back for one restart; None likewise.
        rounds: Runs of each cell in one start.
        rounds_for: What their number was chosen for.
        capacities: Of the baseline, one per workload; empty where no load is a share of it.
        rates: What the shares became, one per cell that has one.
        pausing: What stands still between turns; None where none are taken.
        turns: Their lengths by workload; empty likewise.
        in_order: Workloads whose scripts are not drawn; empty where all are.
        memory: Of the servers that are up together; None likewise, and where it is not known.
        noise: By workload as a profile of this place and this design has it that was stored before
            (``steelyard noise``); empty without one.
    """

    mode: Annotated[Mode, "How configurations are brought together."]
    design_reason: Annotated[
        str, Named("reason"), OPTIONAL, "Why they alternate or do not, as a clause."
    ] = ""
    switch: Annotated[SwitchCost, "Least change of the server that applies a configuration."]
    reset: Annotated[Reset, "When data are restored."]
    restore: str
    all_means: ClassVar = Computed(
        lambda plan: ", ".join(plan.means),
        Annotated[str, Named("restore"), "By what means data are restored."],
    )
    restore_s: tuple[tuple[str, float], ...]
    block_s: float
    stopping: Annotated[StoppingRule, "When the campaign may end."]
    warm_up: Annotated[WarmUpChoice, "Load after a start that does not count."]
    start_s: float | None = None
    data_s: float | None = None
    rounds: int = 1
    rounds_for: RoundsFor = RoundsFor.ONE
    runs_per_start: ClassVar = Computed(
        lambda plan: None if plan.rounds_for is RoundsFor.ONE else plan.rounds,
        Annotated[int, OPTIONAL, "Runs of each cell in a start, if there is a reason for several."],
    )
    rounds_reason: Annotated[
        str, Named("runs_per_start_reason"), OPTIONAL, "Why so many, in a sentence."
    ] = ""
    capacities: tuple[Capacity, ...] = ()
    rates: tuple[CellRate, ...] = ()
    pausing: Pausing | None = None
    turns: tuple[WorkloadTurns, ...] = ()
    in_order: Annotated[
        tuple[ScriptsInOrder, ...],
        OPTIONAL,
        "Workloads of long scripts, which run in an order drawn by the seed, the same for all.",
    ] = ()
    memory: SharedMemory | None = None
    restores: tuple[tuple[str, str], ...] = ()
    noise: tuple["WorkloadNoise", ...] = ()
    short: Annotated[
        tuple[ShortBlocks, ...],
        Named("short_blocks"),
        OPTIONAL,
        "First blocks that are shorter, so that a large difference ends the campaign early.",
    ] = ()
    copying_s: Annotated[
        float | None, OPTIONAL, "Part of a block in which data are brought back, s."
    ] = None

    def block_time_s(self, index: int) -> float:
        """Return the estimated seconds of a block by its number, from 0."""
        return next(islice(times_of_blocks(self.short, self.block_s), index, None))

    @property
    def means(self) -> tuple[str, ...]:
        """Return the means of restoring of all places, each once, that of most of them first."""
        return tuple(dict.fromkeys((self.restore, *dict(self.restores).values())))

    @property
    def at_once(self) -> int | None:
        """Return how many servers are up together where blocks have sub-blocks; else None."""
        return None if self.memory is None else self.memory.at_once


def order_of(plan: CampaignPlan, workload: str) -> ScriptsInOrder | None:
    """Return how the scripts of a workload run in a given order; None: they are drawn."""
    return next((each for each in plan.in_order if each.workload == workload), None)


def turn_times(plan: CampaignPlan, workload: str) -> TurnTimes:
    """Return how long things last in the turns of a workload, which are taken."""
    return next(each.times for each in plan.turns if each.workload == workload)


def settling_s(system: DatabaseSystem, warm_up_s: float) -> int:
    """Return how long a run is thrown away after each switch on a running server.

    What the configuration before left is done with in it: pages that are not written, an fsync of
    them. Only where the generator leaves out no ramp; where nothing is to be discarded, nothing is.
    """
    return 0 if system.has_ramp else min(_SETTLING_S, math.ceil(warm_up_s))


RUN_NEEDS: Final[Mapping[str, tuple[measurement.Quantity, ...]]] = {
    NEIGHBOUR_CPU: (measurement.Quantity.OTHERS_CPU_S, measurement.Quantity.CPUS),
    STEAL: (measurement.Quantity.CPU_STEAL_S, measurement.Quantity.CPUS),
    FOREIGN_DISK: (
        measurement.Quantity.DEVICE_BUSY_S,
        measurement.Quantity.DEVICE_READ_BYTES,
        measurement.Quantity.DEVICE_WRITE_BYTES,
        measurement.Quantity.SERVER_READ_BYTES,
        measurement.Quantity.SERVER_WRITTEN_BYTES,
    ),
    GENERATOR_SATURATED: (measurement.Quantity.GENERATOR_CPU_S, measurement.Quantity.CPUS),
}
OTHERS_IO: Final = "io_bytes of other processes"


def missing_for(code: str, evidence: measurement.Evidence) -> tuple[str, ...]:
    """Return what a rule for runs lacks; empty when it can judge, or needs nothing measured."""
    needed = RUN_NEEDS.get(code, ())
    missing = [
        quantity.value
        for quantity in needed
        if evidence.total(quantity) is None and evidence.level(quantity) is None
    ]
    if code == FOREIGN_DISK and all(other.io_bytes is None for other in evidence.others):
        missing.append(OTHERS_IO)
    return tuple(missing)


# Stalls, neighbours and checkpoints are in no part of a modelled noise. Without this factor
# half-widths on the method's simulator are 8 to 11 % wider than the parts say (calm), 17 to 21 %
# (typical), 24 to 43 % (hostile). 1.1 was chosen for the minutes: tests/method/test_planning.py has
# the bounds.
UNNAMED_NOISE = 1.1
# Measured parts need none. `stats.noise` leaves out only what is five robust deviations away, which
# the interval of the ranks feels little either; neighbours, checkpoints and lesser stalls are in
# the contrasts that it takes the parts from. On the simulator the pooled deviation of 30 blocks,
# stalls included, is then +1 % (calm), +4 % (typical) and -4 % (hostile) beside the parts', that of
# a cell 0, +9 and -5 %.
ALL_NAMED = 1.0
# Of a profile in turns, for advice on seconds of turns and connections: a deviation is then known
# to about a quarter of itself.
LEAST_STARTS = 10


class NoiseOrigin(StrEnum):
    """Where the figures of a profile come from."""

    MEASURED = "measured"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnNoise:
    """The parts of one workload's noise where configurations alternate, of one of them.

    Attributes:
        start_sd: What a start draws, shared by all cells of its block.
        connection_sd: What a set of connections draws; None: it is in ``start_sd``.
        second_sd: Of one second of turns that counts; it falls with the root of the seconds.
    """

    start_sd: float
    connection_sd: float | None
    second_sd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadNoise:
    """The parts of one workload's noise, over all its loads.

    Attributes:
        workload: Name in the experiment it was measured with.
        second_sd: Of one-second rates within a run.
        autocorrelation: Of successive seconds within a run, lag 1, between -1 and 1.
        slice_sd: What remains between runs of one start when the seconds are averaged out.
        restart_sd: Shared by all runs of one start: what a restart changes.
        drift_sd: Of the random walk, after one hour.
        trend_per_h: Slope of ln(tps) over the campaign; None when it was not measured.
        assumed: Names of the parts that the campaign could not show: they are those of
            ``ASSUMED_NOISE``, or halves of a sum that was measured.
        unnamed: Factor on the deviation of a contrast for what is in none of the parts.
        turns: The parts where configurations alternate; None where they were measured one by one.
        contrasts: Of the blocks of the A/A campaign, in standard deviations of those that no stall
            moved; empty where it had too few to draw campaigns from.
    """

    workload: str
    second_sd: float
    autocorrelation: float
    slice_sd: float
    restart_sd: float
    drift_sd: float
    trend_per_h: float | None = None
    assumed: tuple[str, ...] = ()
    unnamed: float = UNNAMED_NOISE
    turns: TurnNoise | None = None
    contrasts: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseProfile:
    """The noise of one set-up and what switching costs there.

    Attributes:
        mode: How the blocks were made; None when assumed.
        block_s: One of its blocks, of two configurations, seconds; None when assumed.
        origin: Measured here, or assumed from METHOD's profile ``typical``.
        workloads: One per workload; an assumed profile has one that stands for any.
        switch: The switch cost at which the starts were made; None when assumed.
        start_s: One restart until the server is ready, seconds; None when assumed.
        restore_s: Bringing the data back once, seconds; None likewise.
        warm_up_s: Thrown away after each start, seconds; None likewise.
        blocks: Blocks behind it; 0 when assumed.
        campaign_id: The campaign it was measured by; empty when assumed.
        measured_at: Seconds since the epoch; None when assumed.
        place: Machine and target in words; empty when assumed.
    """

    origin: NoiseOrigin
    workloads: tuple[WorkloadNoise, ...]
    mode: Mode | None = None
    switch: SwitchCost | None = None
    block_s: float | None = None
    start_s: float | None = None
    restore_s: float | None = None
    warm_up_s: float | None = None
    blocks: int = 0
    campaign_id: str = ""
    measured_at: float | None = None
    place: str = ""
    format: int = 2

    @property
    def is_of_turns(self) -> bool:
        """Return whether it was measured in turns."""
        return self.mode is Mode.ALTERNATING

    def is_measured_like(self, mode: Mode) -> bool:
        """Return whether it was measured, and in turns as blocks of this mode are, or as not."""
        measured = self.origin is NoiseOrigin.MEASURED
        return measured and self.is_of_turns is (mode is Mode.ALTERNATING)

    def of(self, workload: str) -> WorkloadNoise:
        """Return a workload's noise; where it was not measured, the noisiest one's."""
        for noise in self.workloads:
            if noise.workload == workload:
                return noise
        return max(self.workloads, key=lambda noise: noise.slice_sd + noise.restart_sd)


# METHOD 3.18, reads: measured on one busy virtual machine with 2 CPUs, 16 starts of 4 s of turns.
# The block's contrast varied by 7.9 %, of which the seconds are what blocks of 12 s show within;
# writes varied by less than half of it.
ASSUMED_TURNS = TurnNoise(start_sd=0.04, connection_sd=None, second_sd=0.065)
# METHOD.md, section 2, profile `typical`: a model, not a measurement of anybody's machine. Its
# between-run deviation of 2 % splits equally (in variance) into a restart and a slice part.
ASSUMED_NOISE = NoiseProfile(
    origin=NoiseOrigin.ASSUMED,
    workloads=(
        WorkloadNoise(
            workload="any",
            second_sd=0.05,
            autocorrelation=0.5,
            slice_sd=0.0141,
            restart_sd=0.0141,
            drift_sd=0.04,
            turns=ASSUMED_TURNS,
        ),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockOutcome:
    """How one try of a block ended.

    Attributes:
        index: The block, counting from 0.
        attempt: The try, counting from 0.
        complete: All its runs are valid or suspect; only then they count.
        reason: Why it was thrown away; empty when complete.
        configuration: The one that was in force then; empty when complete or not known.
        cause: Code of the rule that threw it away; empty when complete, when no rule did, and in
            records of versions that did not say.
        warm_up_s: For how long of load each server was warmed up in turns; None where the plan
            says it.
        lasted_s: How long it took; None in records of versions that did not say, and where it was
            interrupted.
    """

    index: int
    attempt: int
    complete: bool
    reason: str = ""
    configuration: str = ""
    cause: str = ""
    warm_up_s: float | None = None
    lasted_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerMade:
    """A server that was made for one start, and what its place said of it.

    Attributes:
        facts: Of its nodes and volumes, which differ from one to the next.
    """

    block: int
    attempt: int
    start: int
    configuration: str
    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignRecord:
    """Everything the journal holds, in order.

    Attributes:
        runs: All runs, those of thrown-away blocks too.
        blocks: One outcome per finished try.
        findings: About the campaign as a whole.
        started_at: Wall clock, seconds since the epoch.
        elapsed_s: Seconds of work, pauses between a kill and a resume excluded.
        command: The command line that reproduces the campaign.
        sustained: Long runs after the last block, in run order, failed tries too.
        planned_at_s: Seconds of work until the plan was frozen; None when it was not.
        made: Servers that were made for a start each, in run order, failed tries too.
        provider: What providers counted of servers, read at the end.
    """

    campaign_id: str
    experiment: Experiment
    status: Status
    plan: CampaignPlan | None
    environment: measurement.Environment | None
    runs: tuple[measurement.Run, ...]
    blocks: tuple[BlockOutcome, ...]
    findings: tuple[Finding, ...]
    started_at: float
    elapsed_s: float
    command: str
    sustained: tuple[measurement.SustainedRun, ...] = ()
    planned_at_s: float | None = None
    made: tuple[ServerMade, ...] = ()
    provider: tuple[measurement.ProviderSeries, ...] = ()

    @property
    def complete_blocks(self) -> tuple[tuple[int, int], ...]:
        """Return (index, attempt) of every block that counts, in block order."""
        return tuple(sorted((b.index, b.attempt) for b in self.blocks if b.complete))

    @property
    def counted_runs(self) -> tuple[measurement.Run, ...]:
        """Return the runs of complete blocks, in run order; of a single pass from all its tries."""
        counted = set(self.complete_blocks)
        if self.experiment.is_single_pass:
            return self.pass_runs if counted else ()
        return tuple(run for run in self.runs if (run.block, run.attempt) in counted)

    @property
    def pass_runs(self) -> tuple[measurement.Run, ...]:
        """Return the usable runs of a single pass so far, in run order: the last of each place.

        A pass has no interleaving to protect, so what one try has measured the next one keeps.
        Journals from before that hold a place more than once.
        """
        usable = [run for run in self.runs if run.validity is not Validity.INVALID]
        last = {run.place: run for run in usable}
        return tuple(last[place] for place in sorted(last))
