"""What an analysis says about a campaign: the only thing a report is made from.

Effects are relative: 0.03 means 3 % more transactions per second than the baseline.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar, cast

from steelyard.core.campaign import CampaignPlan, CampaignRecord, Status
from steelyard.core.experiment import Experiment
from steelyard.core.findings import Estimate, Finding, Validity, Verdict
from steelyard.core.measurement import Fact, Run
from steelyard.core.schedule import Ceiling, CellKey, Load, Mode
from steelyard.stats.noise import LEAST_INSTANCES

if TYPE_CHECKING:
    from steelyard.answers.durability.results import (
        ConfigurationDurability,
        DurabilityTrade,
    )
    from steelyard.answers.latency.results import LatencyAnalysis
    from steelyard.answers.observations import Observations
    from steelyard.answers.reasons.compute import Reasons
    from steelyard.answers.sustained.compute import SustainedSummary

FORMAT = 1  # of ``summary.json`` and of whatever else is printed for programs
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
        checkpoints: Phase of the checkpoint cycle by configuration; empty where no run recorded it.
        ceilings: What the place can do at most; empty where that was not measured.
        reasons: What the evidence around the runs says; None where there is none, and at looks.
        latency: What the logs of all transactions say; None where there are none, and at looks.
        durability: What each configuration may lose; empty where that is beside the question.
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
    checkpoints: tuple[CheckpointPhase, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()
    reasons: "Reasons | None" = None
    latency: "LatencyAnalysis | None" = None
    durability: "tuple[ConfigurationDurability, ...]" = ()
    warm_ups_s: tuple[float, ...] = ()
    answers: "Mapping[Computing, object]" = field(default_factory=dict)
    format: int = 1

    def answer(self, computing: "Callable[[Grounds], T]") -> T | None:
        """Return what a registered answer computed; None where it was not computed."""
        return cast("T | None", self.answers.get(computing))

    def with_answer(self, computing: "Callable[[Grounds], T]", computed: T) -> "CampaignAnalysis":
        """Return the analysis with what a registered answer computed."""
        return replace(self, answers={**self.answers, computing: computed})

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
