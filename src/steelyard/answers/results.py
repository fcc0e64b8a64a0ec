"""What an analysis says about a campaign: the only thing a report is made from.

Effects are relative: 0.03 means 3 % more transactions per second than the baseline.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar, cast

from steelyard.core.campaign import CampaignRecord
from steelyard.core.experiment import Experiment
from steelyard.core.findings import Estimate, Finding, Validity, Verdict
from steelyard.core.measurement import Fact, Run
from steelyard.core.plan import CampaignPlan, Status
from steelyard.core.schedule import Ceiling, CellKey, Load, Mode
from steelyard.stats.noise import LEAST_INSTANCES, Components

if TYPE_CHECKING:
    from steelyard.answers.durability.results import (
        ConfigurationDurability,
        DurabilityTrade,
        ReplicaLag,
    )
    from steelyard.answers.latency.results import LatencyAnalysis
    from steelyard.answers.noise.floor import NoiseFloor
    from steelyard.answers.observations import Observations
    from steelyard.answers.published import PublishedFigures
    from steelyard.answers.reasons.compute import Reasons
    from steelyard.answers.reasons.waits import WaitReasoning
    from steelyard.answers.statements.costs import StatementFit
    from steelyard.answers.sustained.compute import SustainedSummary

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSummary:
    """One configuration in one cell.

    Attributes:
        runs: How many runs count.
        tps: Median of the runs, 1/s, with the signed-rank interval over blocks; bounds are None
            below 6 blocks. With several rounds in a start they count as one run. Never used for a
            comparison.
        latency_mean_s: Median over the runs of their mean latency; None when not reported.
        percentiles: Likewise of those that the generator prints, by their share; empty without any.
        validity: The worst of its runs.
        stalled: Runs that stalled (METHOD.md 3.6).
    """

    configuration: str
    cell: CellKey
    runs: int
    tps: Estimate
    latency_mean_s: float | None
    validity: Validity
    stalled: int
    findings: tuple[Finding, ...] = ()
    percentiles: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRate:
    """The log of one configuration under one workload beside what its device takes.

    Attributes:
        bytes_per_s: Median over its runs, ramp included.
        most_bytes_per_s: That the device took in long writes; None where it was not measured.
        absent: Why it was not.
        how: The source of the ceiling, in words.
    """

    configuration: str
    workload: str
    bytes_per_s: float
    most_bytes_per_s: float | None = None
    absent: str = ""
    how: str = ""

    @property
    def share(self) -> float | None:
        """Return the log's part of what the device takes."""
        most = self.most_bytes_per_s
        return self.bytes_per_s / most if most else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One configuration against the baseline, in one cell or pooled over a workload's loads.

    Attributes:
        load: The cell's load, or None for the pooled result.
        effect: Relative difference in tps with the repeated interval; None before any block.
        verdict: In words; ``decided`` says whether it ends the question.
        no_practical_weight: Decided, but by less than the equivalence margin.
        blocks: Complete blocks behind it.
        level: Two-sided level of the interval at this look; None before the first look.
        contrasts: Log ratio of each block in run order (pooled or of the cell).
        depends_on_load: The cells' simultaneous intervals do not overlap: read the cells.
        minutes_to_decide: About how many more minutes would decide ``Stop.decide``; None when
            decided or unknown.
        note: One sentence about what limits the statement; empty if nothing does.
        instances: Of each side, where the two live on different ones; None where they share one.
        control: Workload that nothing of what differs can touch, and that differs all the same:
            this result is suspect. Empty where there is none.
        trades: What one side may lose and the other keeps, whatever the verdict.
    """

    baseline: str
    configuration: str
    workload: str
    load: Load | None
    effect: Estimate | None
    verdict: Verdict
    no_practical_weight: bool = False
    blocks: int
    level: float | None
    contrasts: tuple[float, ...]
    depends_on_load: bool = False
    minutes_to_decide: float | None = None
    note: str = ""
    instances: int | None = None
    control: str = ""
    trades: "tuple[DurabilityTrade, ...]" = ()

    @property
    def is_suspect(self) -> bool:
        """Return whether a negative control beside it says that something else differs."""
        return self.control not in ("", self.workload)

    @property
    def is_less_durable(self) -> bool:
        """Return whether the configuration may lose what the baseline keeps."""
        return any(trade.weaker == self.configuration for trade in self.trades)

    @property
    def is_of_pair(self) -> bool:
        """Return whether the difference may be that of the instances and not of what differs."""
        return self.instances is not None and self.instances < LEAST_INSTANCES


class EffectFamily(StrEnum):
    """What factors do beside their main effects; each family shares an error of its own."""

    SYNERGY = "synergy"
    ADDED_ALONE = "added alone"
    REMOVED_LAST = "removed last"
    TOTAL = "total"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributedEffect:
    """What one factor, two together or all of them do, pooled over a workload's loads.

    Attributes:
        name: Of the factors: ``huge-pages``, ``huge-pages x buffers``.
        factors: Their places in the experiment.
        effect: Relative difference in tps with the repeated interval; for a synergy, what two
            factors do together beyond what each does without the other. None before any block.
        level: Two-sided level of the interval at this look; None before the first look.
        blocks: Complete blocks behind it.
    """

    workload: str
    family: EffectFamily
    name: str
    factors: tuple[int, ...]
    effect: Estimate | None
    level: float | None
    blocks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributionAnalysis:
    """Everything about the factors that the results do not say.

    Attributes:
        effects: Family by family, in each workload by workload.
        aliases: One sentence per group of synergies that the design cannot tell apart.
    """

    effects: tuple[AttributedEffect, ...]
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """Throughput at a number of clients, 1/s, the level of the blocks taken out.

    Attributes:
        load: The load that was measured; None for a point of the fitted curve.
    """

    clients: float
    tps: Estimate
    load: Load | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FallingLoad:
    """The first load at which throughput is surely lower than at the best one.

    Attributes:
        change: Relative to the best load, with an interval that holds with those of all loads.
    """

    load: Load
    best: Load
    change: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalabilityCurve:
    """How one configuration's throughput under one workload grows with its clients (METHOD 6).

    Attributes:
        threads: Of the generator when one number is used for all these loads; None where they
            follow the clients.
        blocks: Behind it.
        measured: One point per load, rising.
        fitted: The law's curve with a pointwise band.
        alpha: Contention, a fraction.
        beta: Coherency per pair of clients; no upper bound where it cannot be told from none.
        peak_clients: N*; None when the law does not fit or the peak is outside the loads.
        peak_tps: Throughput there, 1/s; None likewise.
        peak_in_range: Whether the fitted peak lies within the loads.
        max_error: Largest relative miss of the curve at a load.
        lack_of_fit_p: Of the test that the loads miss the curve by noise alone.
        fits: The curve may be believed.
        refuted: Noise does not explain how it misses the loads; else a curve that does not fit is
            one that is not known well enough.
        falling: Retrograde scaling as it was measured, whatever the law says; None if not seen.
    """

    workload: str
    configuration: str
    threads: int | None
    blocks: int
    measured: tuple[CurvePoint, ...]
    fitted: tuple[CurvePoint, ...]
    alpha: Estimate
    beta: Estimate
    peak_clients: Estimate | None
    peak_tps: Estimate | None
    peak_in_range: bool
    max_error: float
    lack_of_fit_p: float
    fits: bool
    refuted: bool
    falling: FallingLoad | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StallTest:
    """Stalled slices of a configuration against the baseline's, over a workload (Fisher's test).

    With factors, of the combinations at a factor's second level against those at its first.
    """

    baseline: str
    configuration: str
    workload: str
    baseline_stalled: int
    baseline_runs: int
    configuration_stalled: int
    configuration_runs: int
    p_value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmupCheck:
    """Whether the contrast still changes with the time since start: a warning light.

    Attributes:
        slope_per_position: Change of the log ratio per place in the start.
        p_value: Two-sided, t test of the slope over blocks.
    """

    configuration: str
    slope_per_position: float
    p_value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPhase:
    """Where in the checkpoint cycle the runs of a configuration began.

    Attributes:
        runs: That count.
        known: Of them, those whose phase the server told.
        least_s: Seconds since the cycle began, the least of them; None when none is known.
        median_s: Their median; None likewise.
        most_s: The largest; None likewise.
        unknown: Why the others are not known; empty when all are.
    """

    configuration: str
    runs: int
    known: int
    least_s: float | None
    median_s: float | None
    most_s: float | None
    unknown: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceNoise:
    """The two levels of noise where every start made its server anew.

    Attributes:
        configuration: The contender; the parts are those of one side, from both.
        parts: Of ln(tps), over the workload's loads.
        best_rounds: Runs per server that would give the narrowest interval in a given time.
    """

    configuration: str
    workload: str
    parts: Components
    best_rounds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDifference:
    """An effective setting that differs between configurations; values in configuration order."""

    name: str
    values: tuple[str | None, ...]
    requested: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignAnalysis:
    """Everything a report says, computed; nothing in it needs the machine any more.

    Attributes:
        plan: What was frozen before the first block; None when the campaign did not get there.
        runs: Runs that count, in run order.
        blocks_redone: Tries thrown away, with the reason of each.
        measured_s: Seconds of measured slices.
        elapsed_s: Wall seconds from the start to the last entry.
        unit: What was replicated, in words (the unit of replication).
        command: The command line that reproduces the campaign.
        sustained: Long runs after the last block, apart from everything else.
        burst_only: Configurations and workloads measured within the burst credits of their target
            alone, by what the file says of these.
        published: Published figures of the same work beside a single pass; else None.
        scalability: Curves over the clients, where there are loads and blocks enough.
        attribution: What factors do beside the results; None without factors.
        noise: The noise floor, of a finished A/A campaign; else None.
        checkpoints: Phase of the checkpoint cycle by configuration; empty where no run recorded it.
        statements: What a statement and a commit cost a single client; None where not all three
            of pgbench's scripts ran with one.
        waits: Whether a changed cost of statements is waiting or CPU time, where it is sure.
        ceilings: What the place can do at most; empty where that was not measured.
        log_rates: The logs that were written beside what their device takes; empty where nobody
            asked what it takes.
        reasons: What the evidence around the runs says; None where there is none, and at looks.
        latency: What the logs of all transactions say; None where there are none, and at looks.
        durability: What each configuration may lose; empty where that is beside the question.
        replica_lags: How far replicas were behind under writes; empty where none was seen.
        warm_ups_s: Where configurations alternate: for how long of load each server was warmed up,
            the first length and every longer one after it.
        answers: What registered answers computed, by the function that does; empty at looks.
    """

    campaign_id: str
    experiment: Experiment
    status: Status
    plan: CampaignPlan | None
    blocks: int
    blocks_redone: tuple[str, ...]
    looks: int
    measured_s: float
    elapsed_s: float
    started_at: float
    comparisons: tuple[Comparison, ...]
    cells: tuple[CellSummary, ...]
    stalls: tuple[StallTest, ...]
    warmup: tuple[WarmupCheck, ...]
    runs: tuple[Run, ...]
    findings: tuple[Finding, ...]
    settings: tuple[SettingDifference, ...]
    facts: tuple[Fact, ...]
    unit: str
    command: str
    sustained: "tuple[SustainedSummary, ...]" = ()
    burst_only: frozenset[tuple[str, str]] = frozenset()
    published: "PublishedFigures | None" = None
    scalability: tuple[ScalabilityCurve, ...] = ()
    attribution: AttributionAnalysis | None = None
    noise: "NoiseFloor | None" = None
    checkpoints: tuple[CheckpointPhase, ...] = ()
    statements: "StatementFit | None" = None
    waits: "tuple[WaitReasoning, ...]" = ()
    ceilings: tuple[Ceiling, ...] = ()
    log_rates: tuple[LogRate, ...] = ()
    reasons: "Reasons | None" = None
    latency: "LatencyAnalysis | None" = None
    durability: "tuple[ConfigurationDurability, ...]" = ()
    replica_lags: "tuple[ReplicaLag, ...]" = ()
    warm_ups_s: tuple[float, ...] = ()
    answers: "Mapping[Computing, object]" = field(default_factory=dict)
    format: int = 1

    def answer(self, computing: "Callable[[Grounds], T]") -> T | None:
        """Return what a registered answer computed; None where it was not computed."""
        return cast("T | None", self.answers.get(computing))

    @property
    def is_in_turns(self) -> bool:
        """Return whether its configurations alternate, so that runs were taken in turns."""
        return self.plan is not None and self.plan.mode is Mode.ALTERNATING

    @property
    def results(self) -> tuple[Comparison, ...]:
        """Return the pooled comparisons, one per workload and result contrast."""
        return tuple(c for c in self.comparisons if c.load is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grounds:
    """What an answer is computed from.

    Attributes:
        seen: The runs of complete blocks.
        closed: The same without open loops, whose throughput was asked for.
        analysis: All but this answer and those that are registered after it.
    """

    record: CampaignRecord
    seen: "Observations"
    closed: "Observations"
    analysis: CampaignAnalysis


Computing = Callable[[Grounds], object]
