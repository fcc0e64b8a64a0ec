"""What an analysis says of a campaign, the only thing a report is made from; and its words.

Effects are relative: 0.03 means 3 % more transactions per second than the baseline. The words are
those of verdicts, of how a campaign ended, of what a load is called.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Final, TypeVar, cast

from steelyard.answers.durability.rules import DurabilityTrade
from steelyard.answers.observations import Observations
from steelyard.answers.scripts.verdicts import (
    MIXED,
    PENDING,
    ScriptResult,
    in_a_sentence,
    opposites,
)
from steelyard.core.campaign import CampaignPlan, CampaignRecord, Status
from steelyard.core.experiment import Experiment, Workload
from steelyard.core.findings import Estimate, Fact, Finding, Validity, Verdict
from steelyard.core.measurement import Run
from steelyard.core.quantities import INLINE, OPTIONAL, PERCENT, Computed, Named
from steelyard.core.schedule import (
    AllLoads,
    BaselineName,
    Blocks,
    Ceiling,
    CellKey,
    ConfigurationName,
    Load,
    Mode,
    WorkloadName,
)
from steelyard.core.wording import format_duration
from steelyard.report import document as doc
from steelyard.report.keys import load_data, row_of
from steelyard.stats.noise import LEAST_INSTANCES
from steelyard.stats.spending import has_many_cells
from steelyard.stats.turns import LEAST_BLOCKS

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSummary:
    """One configuration in one cell.

    Attributes:
        runs: That count.
        tps: Bounds are None below 6 blocks. With several rounds in a start they count as one run.
        latency_mean_s: None when not reported.
        stalled: See METHOD.md 3.6.
    """

    cell: Annotated[CellKey, INLINE]
    configuration: ConfigurationName
    runs: Annotated[int, "Number of runs."]
    tps: Annotated[
        Estimate,
        "Transactions or commands per second: median of the runs with its signed-rank interval over"
        " blocks. Never compare two of these: that is what `comparisons` are for.",
    ]
    latency_mean_s: Annotated[float | None, "Median over runs of their mean latency, s."]
    percentiles: Annotated[
        Mapping[str, float] | None,
        Named("printed_percentiles_s"),
        OPTIONAL,
        "Percentiles that the load generator prints, by name, s: medians over runs.",
    ] = None
    in_turns: Annotated[bool, OPTIONAL, "Measured in turns: other servers were up and paused."] = (
        False
    )
    validity: Annotated[Validity, "valid, suspect or invalid: the worst of the runs."]
    stalled: Annotated[int, "Runs that stalled."]
    findings: Annotated[
        tuple[Finding, ...], "Facts to know before relying on it, gravest first."
    ] = ()


EFFECT: Final = (
    "Relative difference in throughput against the baseline, %; positive is faster. Null before any"
    " block."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One configuration against the baseline, in one cell or pooled over a workload's loads.

    Attributes:
        load: The cell's load, or None for the pooled result.
        effect: With the repeated interval; None before any block.
        verdict: ``decided`` says whether it ends the question.
        no_practical_weight: Decided, but by less than the equivalence margin.
        contrasts: Log ratio of each block in run order (pooled or of the cell).
        depends_on_load: The cells' simultaneous intervals do not overlap.
        instances: None where both sides share one.
        control: Workload of ``suspect_by_control``. Empty where there is none.
        trades: Whatever the verdict.
    """

    baseline: BaselineName
    configuration: ConfigurationName
    workload: WorkloadName
    load: Load | None
    under: ClassVar = Computed(lambda c: c.load or AllLoads(), Annotated[AllLoads, INLINE])
    effect: Annotated[Estimate | None, PERCENT, INLINE, EFFECT]
    verdict: Annotated[Verdict, "faster, slower, equivalent, or no clear difference."]
    blocks: Blocks
    level: Annotated[
        float | None, "Two-sided level of the interval; null before the first interim result."
    ]
    no_practical_weight: Annotated[
        bool, "The difference is clear and smaller than `stop.margin`."
    ] = False
    contrasts: tuple[float, ...]
    depends_on_load: Annotated[
        bool, "The loads differ in their effects: read the cells, not the pooled result."
    ] = False
    minutes_to_decide: Annotated[
        float | None,
        "Further minutes until a difference of `stop.detect` is certain; may be null.",
    ] = None
    note: Annotated[str, "Limits of the statement, in a sentence; may be null."] = ""
    instances: Annotated[
        int | None, Named("instances_per_side"), OPTIONAL, "Servers of each side, if they differ."
    ] = None
    claims_cause: ClassVar = Computed(
        lambda c: None if c.instances is None else not c.is_of_pair,
        Annotated[bool, OPTIONAL, "False: the servers themselves may make the difference."],
    )
    control: str = ""
    suspect_by_control: ClassVar = Computed(
        lambda c: c.control if c.is_suspect else None,
        Annotated[
            str,
            OPTIONAL,
            "Workload that differs although the settings that differ cannot touch it.",
        ],
    )
    trades: Annotated[
        tuple[DurabilityTrade, ...],
        Named("durability_traded"),
        OPTIONAL,
        "Possible losses of one side that the other does not have.",
    ] = ()
    scripts: Annotated[
        tuple[ScriptResult, ...],
        OPTIONAL,
        "Each script at each load, if the workload has several; for all loads together alone.",
    ] = ()
    is_mixed: ClassVar = Computed(
        lambda c: opposites(c.scripts) is not None or None,
        Annotated[bool, OPTIONAL, "Some scripts are clearly faster and others clearly slower."],
    )

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

    baseline: BaselineName
    configuration: ConfigurationName
    workload: WorkloadName
    baseline_stalled: Annotated[int, "Stalled slices of the baseline."]
    baseline_runs: Annotated[int, "Slices of the baseline."]
    configuration_stalled: Annotated[int, "Stalled slices of the configuration."]
    configuration_runs: Annotated[int, "Slices of the configuration."]
    p_value: Annotated[float, "Two-sided p value of the test."]


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
    """Where in the checkpoint cycle the runs of a configuration began."""

    configuration: ConfigurationName
    runs: Annotated[int, "Runs that count."]
    known: Annotated[int, "Runs with a known phase."]
    least_s: Annotated[float | None, "Least seconds since the cycle began; null: none is known."]
    median_s: Annotated[float | None, "Median, s; may be null."]
    most_s: Annotated[float | None, "Most, s; may be null."]
    unknown: Annotated[str, "Why the others are not known; null where all are."] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDifference:
    """An effective setting that differs between configurations."""

    name: Annotated[str, "Name."]
    values: Annotated[
        Mapping[str, str | None], "Value by configuration; null if it does not apply."
    ]
    requested: Annotated[bool, "The experiment has this setting."]


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignAnalysis:
    """Everything a report says, computed; nothing in it needs the machine any more.

    Attributes:
        plan: What was frozen before the first block; None when the campaign did not get there.
        runs: Runs that count, in run order.
        ceilings: What the place can do at most; empty where that was not measured.
        warm_ups_s: Where configurations alternate: for how long of load each server was warmed up,
            the first length and every longer one after it.
        answers: What registered answers computed, by the function that does.
    """

    campaign_id: Annotated[str, Named("campaign"), "Id of the campaign."]
    experiment: Experiment
    name: ClassVar = Computed(
        lambda analysis: analysis.experiment.name, Annotated[str, "Name of the experiment."]
    )
    status: Annotated[Status, "State of the campaign: how it ended, or that it runs."]
    configurations: ClassVar = Computed(
        lambda analysis: tuple(each.name for each in analysis.experiment.configurations),
        Annotated[
            tuple[str, ...], "Names of the configurations, in the order of the experiment file."
        ],
    )
    baseline: ClassVar = Computed(lambda analysis: analysis.experiment.baseline, BaselineName)
    workloads: ClassVar = Computed(
        lambda analysis: tuple(each.name for each in analysis.experiment.workloads),
        Annotated[tuple[str, ...], "Names of the workloads."],
    )
    comparisons: Annotated[
        tuple[Comparison, ...],
        "Configurations against the baseline: for each workload one entry for all loads together"
        " (`clients` is `pooled`), and one for each cell.",
    ]
    cells: Annotated[tuple[CellSummary, ...], "Each configuration, workload and load."]
    stalls: Annotated[tuple[StallTest, ...], "Whether one side stalls more often (Fisher)."]
    settings: Annotated[tuple[SettingDifference, ...], "Effective settings that differ."]
    plan: CampaignPlan | None
    blocks: Blocks
    blocks_redone: Annotated[tuple[str, ...], "Tries that were thrown away, each with the reason."]
    seed: ClassVar = Computed(
        lambda analysis: analysis.experiment.seed, Annotated[int, "Seed of the random order."]
    )
    looks: Annotated[int, Named("interim_results"), "Analyses before the end."]
    unit: Annotated[
        str, "The repeated unit, in words: the intervals speak of it; null before the plan."
    ] = ""
    measured_s: Annotated[float, "Seconds of measured runs."]
    elapsed_s: Annotated[float, "Seconds of work, from the start to the last entry."]
    started_at: Annotated[float, "Start, seconds since 1970 (UTC)."]
    command: Annotated[str, "Command line that repeats the campaign; may be null."] = ""
    warmup: tuple[WarmupCheck, ...]
    runs: tuple[Run, ...]
    findings: tuple[Finding, ...]
    facts: tuple[Fact, ...]
    ceilings: tuple[Ceiling, ...] = ()
    warm_ups_s: tuple[float, ...] = ()
    answers: "Mapping[Computing, object]" = field(default_factory=dict)

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
    def names(self) -> tuple[str, ...]:
        """Return the baseline, then the others in file order: the order of the colours."""
        return (self.experiment.baseline, *self.experiment.contenders)

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
    seen: Observations
    closed: Observations
    analysis: CampaignAnalysis


Computing = Callable[[Grounds], object]


TONES = {
    Verdict.FASTER: doc.Tone.GOOD,
    Verdict.SLOWER: doc.Tone.BAD,
    Verdict.EQUIVALENT: doc.Tone.EVEN,
    Verdict.NO_CLEAR_DIFFERENCE: doc.Tone.OPEN,
}


LABEL = "single unrepeated pass"
FIRST_LEVEL = "the first level"
BURST_ONLY = "burst, not sustained"


def blocks_of_all(analysis: CampaignAnalysis) -> str:
    """Return how many blocks there are of how many there might have been."""
    if analysis.plan is None:
        return doc.count(analysis.blocks, "block")
    most = analysis.plan.stopping.max_blocks
    if analysis.blocks >= most:
        return f"all {doc.count(most, 'block')}"
    return f"{analysis.blocks} of at most {doc.count(most, 'block')}"


def is_interim(analysis: CampaignAnalysis) -> bool:
    """Return whether more blocks may still change the verdicts: they run, or a resume adds them."""
    return analysis.status in (Status.RUNNING, Status.INTERRUPTED, Status.FAILED)


def stopped_early(analysis: CampaignAnalysis) -> bool:
    """Return whether the verdicts ended the campaign before its last look."""
    plan = analysis.plan
    return plan is not None and plan.stopping.stopped_early(analysis.status, analysis.blocks)


def decided_early(analysis: CampaignAnalysis, comparison: Comparison) -> bool:
    """Return whether this verdict took part in ending the campaign early."""
    return stopped_early(analysis) and comparison.verdict.decided


def ending(analysis: CampaignAnalysis) -> str:
    """Return how the campaign ended, in one clause."""
    precision = analysis.experiment.stop.width
    words = {
        Status.RUNNING: "not finished",
        Status.DECIDED: "decided",
        Status.PRECISION: f"asked half-width of ±{doc.share(precision or 0.0)} reached",
        Status.BUDGET: f"budget of {format_duration(analysis.experiment.stop.budget_s)} used up",
        Status.PASSED: LABEL,
        Status.COMPLETE: "as many blocks as were asked for",
        Status.INTERRUPTED: "interrupted",
        Status.FAILED: "failed",
    }
    if analysis.blocks == 0:
        return f"{words[analysis.status]} before the first block was complete"
    if analysis.status is Status.PASSED:
        return f"{LABEL}, {doc.count(len(analysis.runs), 'run')}"
    if analysis.status is Status.BUDGET:  # which says why there are no more
        return f"{words[analysis.status]}, after {doc.count(analysis.blocks, 'block')}"
    early = "stopped early, " if stopped_early(analysis) else ""
    return f"{words[analysis.status]}, {early}after {blocks_of_all(analysis)}"


def load_name(load: Load | None) -> str:
    """Return a load for tables and charts; None is the pooled result."""
    return "all loads" if load is None else load.label


def cell_name(experiment: Experiment, load: Load | None) -> str:
    """Return a load with its threads where the number of clients alone does not tell it."""
    if load is None:
        return load_name(load)
    alike = _alike(experiment, load)
    threads = f", {doc.count(load.threads, 'thread')}" if len(alike) > 1 else ""
    return f"{load_name(load)}{threads}"


def _alike(experiment: Experiment, load: Load) -> list[Load]:
    """Return the loads that only their threads tell apart, this one among them."""
    return [other for other in experiment.loads if replace(other, threads=load.threads) == load]


def short_load(experiment: Experiment, load: Load) -> str:
    """Return a load as a tick on an axis of clients: ``8``, ``8 (2 threads)``, ``8 at 500/s``."""
    alike = _alike(experiment, load)
    threads = f" ({doc.count(load.threads, 'thread')})" if len(alike) > 1 else ""
    rated = f" at {load.rate_label}" if load.is_open else ""
    return f"{load.clients}{threads}{rated}"


def pool_name(experiment: Experiment, load: Load) -> str:
    """Return the clients of a load whatever its rate, with threads where they alone do not tell."""
    threads = f", {doc.count(load.threads, 'thread')}" if _has_twin(experiment, load) else ""
    return f"{doc.count(load.clients, 'client')}{threads}"


def short_pool(experiment: Experiment, load: Load) -> str:
    """Return the same for a column of clients: ``8``, ``8 (2 threads)``."""
    threads = f" ({doc.count(load.threads, 'thread')})" if _has_twin(experiment, load) else ""
    return f"{load.clients}{threads}"


def _has_twin(experiment: Experiment, load: Load) -> bool:
    """Return whether other loads have as many clients on another number of threads."""
    threads = {other.threads for other in experiment.loads if other.clients == load.clients}
    return bool(threads - {load.threads})


def place_name(experiment: Experiment, cell: CellKey) -> str:
    """Return a cell by its workload and its load."""
    return f"{cell.workload}, {cell_name(experiment, cell.load)}"


def compared_data(change: Any) -> tuple[doc.Datum, ...]:  # noqa: ANN401 - whatever has them
    """Return by which keys programs find a configuration against the baseline in a cell."""
    sides = ("baseline", change.baseline), ("configuration", change.configuration)
    return (*row_of(change.cell), *sides)


def cell_columns(experiment: Experiment) -> tuple[doc.Cells, ...]:
    """Return the columns by which cells are found."""
    return (
        doc.column("workload", lambda item: item.cell.workload),
        doc.column("configuration", lambda item: item.configuration),
        doc.Cells(
            doc.number_column("clients"),
            lambda item: short_load(experiment, item.cell.load),
            lambda item: load_data(item.cell.load),
        ),
    )


def compared_names(analysis: CampaignAnalysis) -> tuple[str, ...]:
    """Return the configurations that are compared, the reference first; of factors that alone.

    A factor is no configuration, and has the colour of none.
    """
    return analysis.names if analysis.experiment.attribution is None else (FIRST_LEVEL,)


def cells_together(experiment: Experiment) -> str:
    """Return in what sense the intervals of the cells hold (METHOD.md 3.5)."""
    if has_many_cells(len(experiment.closed_loads)):
        return f"{doc.CONFIDENCE}, on average over the cells called different"
    return f"simultaneous {doc.CONFIDENCE}"


def intervals_together(experiment: Experiment) -> str:
    """Return what the intervals of the cells are called for that."""
    told = cells_together(experiment)
    many = has_many_cells(len(experiment.closed_loads))
    return f"intervals at {told}" if many else f"{told} intervals"


def uncompared(experiment: Experiment) -> str:
    """Return why throughput is not compared, in a sentence; empty where it is."""
    if experiment.compares_throughput or experiment.is_single_pass:
        return ""
    if experiment.closed_loads:
        return "Nothing is compared: there is one configuration."
    return (
        "Throughput is not compared: all loads are open loops, which complete what was asked for."
    )


def looked_for(experiment: Experiment) -> str:
    """Return what a campaign that compares no throughput is for, as a noun."""
    rates = dict.fromkeys(load.rate_label for load in experiment.loads if load.is_open)
    at = doc.enumeration(tuple(rates))
    whole = " of the capacity" if all(load.share for load in experiment.loads) else ""
    if experiment.goal is not None:
        return f"the highest rate with {experiment.goal.label}, tried at {at}{whole}"
    return f"latency at {at}{whole}"


def tone_of(comparison: Comparison) -> doc.Tone:
    """Return how a verdict is meant: what one side pays with durability has a tone of its own."""
    if doc.bounds(comparison.effect) is None:
        return doc.Tone.OPEN
    is_slower = comparison.verdict is Verdict.SLOWER and not comparison.depends_on_load
    if comparison.trades and is_slower is not comparison.is_less_durable:
        return doc.Tone.WARNING
    if comparison.is_mixed:
        return doc.Tone.WARNING
    return doc.Tone.OPEN if comparison.depends_on_load else TONES[comparison.verdict]


def weighed(tone: doc.Tone, comparison: Comparison) -> doc.Tone:
    """Return how a difference is meant where one side pays with durability: not good, not bad."""
    paid = doc.Tone.GOOD if comparison.is_less_durable else doc.Tone.BAD
    return doc.Tone.WARNING if comparison.trades and tone is paid else tone


def durability_word(comparison: Comparison) -> str:
    """Return what has to stand beside the word of every verdict; empty for equal durability."""
    if comparison.is_less_durable:
        return ", less durable"
    return ", more durable" if _is_safer(comparison) else ""


def _is_safer(comparison: Comparison) -> bool:
    """Return whether a verdict is one on a configuration that keeps what the baseline may lose."""
    decided = comparison.verdict.decided or comparison.depends_on_load
    return bool(comparison.trades) and not comparison.is_less_durable and decided


def durability_clause(comparison: Comparison) -> str:
    """Return who may lose what, when and why, to follow a verdict; empty for equal durability."""
    is_slower = comparison.verdict is Verdict.SLOWER and not comparison.depends_on_load
    if comparison.is_less_durable:
        losses = tuple(f"{weaker} {loss}" for weaker, loss in _losses(comparison))
        return f"{'and' if is_slower else 'but'} {doc.enumeration(losses)}"
    if not _is_safer(comparison):
        return ""
    lead = f"but {comparison.baseline} pays for its speed with durability: it"
    losses = tuple(loss for _, loss in _losses(comparison))
    return f"{lead if is_slower else f'and {comparison.baseline}'} {doc.enumeration(losses)}"


def _losses(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield who may lose something, and each loss with all its failures."""
    failures: dict[tuple[str, str, str], list[str]] = {}
    for trade in comparison.trades:
        failures.setdefault((trade.weaker, trade.what, trade.because), []).append(trade.when)
    for (weaker, what, because), when in failures.items():
        yield weaker, f"may lose {what} {' or '.join(when)} ({because})"


def verdict_word(comparison: Comparison, margin: float) -> str:
    """Return the verdict in a word or two, and whether it is bought with durability."""
    if comparison.effect is None or doc.bounds(comparison.effect) is None:
        return PENDING
    return f"{plain_word(comparison, margin)}{durability_word(comparison)}"


DIVIDED: Final = "depends on load"


def plain_word(comparison: Comparison, margin: float, span: str = "") -> str:
    """Return the verdict of an interval without its durability.

    Args:
        comparison: It.
        margin: Of equivalence.
        span: Of its cells, told where it depends on load.
    """
    suspect = ", suspect" if comparison.is_suspect else ""
    if comparison.depends_on_load:  # METHOD.md 3.5: one word for all loads would be wrong
        return f"{DIVIDED}: {span}{suspect}" if span else f"{DIVIDED}{suspect}"
    pair = ", one pair only" if comparison.is_of_pair and comparison.verdict.decided else ""
    pair += suspect
    if comparison.is_mixed:
        weighs = comparison.verdict in (Verdict.FASTER, Verdict.SLOWER)
        weighs = weighs and not comparison.no_practical_weight
        return f"{comparison.verdict.value}, {MIXED}{pair}" if weighs else f"{MIXED}{pair}"
    if comparison.verdict is Verdict.EQUIVALENT:
        return f"equivalent within {doc.share(margin)}{pair}"
    if comparison.no_practical_weight:
        return f"{comparison.verdict.value}, by less than {doc.share(margin)}{pair}"
    return f"{comparison.verdict.value}{pair}"


def control_limit(comparison: Comparison) -> str:
    """Return that a negative control makes a verdict suspect, or nothing."""
    if not comparison.is_suspect:
        return ""
    return f"; suspect: the negative control {comparison.control} differs"


def time_to_decide(comparison: Comparison) -> str:
    """Return about how much more measuring would decide, or nothing when that is unknown."""
    minutes = comparison.minutes_to_decide
    if minutes is None or comparison.verdict.decided:
        return ""
    if minutes >= 600:  # a forecast of many hours is not good to the minute
        return f"{round(minutes / 60)} h"
    return format_duration(60.0 * minutes) if minutes >= 120 else f"{max(1, round(minutes))} min"


def more_minutes(comparison: Comparison, decide: float) -> str:
    """Return what further measuring would bring, or nothing when that is unknown."""
    minutes = comparison.minutes_to_decide
    if minutes is None or comparison.verdict.decided:
        return ""
    if minutes >= 120:
        return f"about {time_to_decide(comparison)} more would decide {doc.share(decide)}"
    return (
        f"about {doc.count(max(1, round(minutes)), 'more minute')} would decide {doc.share(decide)}"
    )


def pending(comparison: Comparison) -> str:
    """Return why there is no interval yet, with the estimate so far if there is one."""
    if comparison.effect is None:
        return "no block is complete"
    reason = comparison.note or doc.count(comparison.blocks, "block")
    return f"{reason}; {doc.effect_value(comparison.effect)} so far, without an interval"


def effect_phrase(comparison: Comparison, margin: float) -> str:
    """Return the effect: its interval first, because an early stop biases the estimate."""
    pair = doc.bounds(comparison.effect)
    value = doc.effect_value(comparison.effect)
    if pair is None:
        return value
    return f"{bounds_phrase(comparison, pair, margin)} ({doc.CONFIDENCE}), estimate {value}"


def bounds_phrase(comparison: Comparison, pair: tuple[float, float], margin: float) -> str:
    """Return an interval; both ends of an equivalent one lie within the margin as printed."""
    inside = margin if comparison.verdict is Verdict.EQUIVALENT else None
    return doc.effect_range(*pair, inside=inside)


def verdict_clause(analysis: CampaignAnalysis, comparison: Comparison) -> str:
    """Return the verdict on one comparison as a clause without the workload's name."""
    margin, sides = analysis.experiment.stop.margin, contest(comparison)
    if doc.bounds(comparison.effect) is None:
        return f"{sides}: no verdict yet, {pending(comparison)}"
    if comparison.depends_on_load:
        return f"{sides}: {_divided_clause(analysis, comparison)}"
    if extremes := opposites(comparison.scripts):
        told = script_sentence(analysis.experiment, extremes)
        return f"{sides}: {MIXED}, {told}; throughput of all {effect_phrase(comparison, margin)}"
    more = more_minutes(comparison, analysis.experiment.stop.detect)
    told = f"{plain_word(comparison, margin)}, {effect_phrase(comparison, margin)}"
    return f"{sides}: {told}{'; ' if more else ''}{more}"


def contest(comparison: Comparison) -> str:
    """Return what is compared with what."""
    return doc.versus(*contestants(comparison))


def script_sentence(experiment: Experiment, scripts: Sequence[ScriptResult]) -> str:
    """Return the sentence on several scripts, with their load if there are several."""

    def name(script: ScriptResult) -> str:
        place = f" at {cell_name(experiment, script.load)}"
        return f"{script.title}{place if len(experiment.closed_loads) > 1 else ''}"

    return in_a_sentence(scripts, name)


def contest_of(experiment: Experiment) -> str:
    """Return what an experiment compares with what: ``a, b vs c (baseline)``."""
    if not experiment.contenders:
        return f"{experiment.baseline} alone"
    return doc.versus(", ".join(experiment.contenders), experiment.baseline)


def contestants(comparison: Comparison) -> tuple[str, str]:
    """Return whom a verdict speaks of: the configurations, or only the servers they live on."""
    word = "server " if comparison.is_of_pair else ""
    return f"{word}{comparison.configuration}", f"{word}{comparison.baseline}"


def pair_limit(comparison: Comparison) -> str:
    """Return what a verdict on a pair of instances cannot say, or nothing."""
    if not comparison.is_of_pair or comparison.verdict is Verdict.NO_CLEAR_DIFFERENCE:
        return ""
    number = comparison.instances or 0
    per_side = "one instance" if number == 1 else doc.count(number, "instance")
    if comparison.verdict is Verdict.EQUIVALENT:
        return f"; this speaks of these instances alone: {per_side} per side"
    why = "the difference may be the servers, not the settings"
    return f"; {why}: {per_side} per side"


def _divided_clause(analysis: CampaignAnalysis, result: Comparison) -> str:
    word, extremes = (
        plain_word(result, analysis.experiment.stop.margin),
        extreme_cells(analysis, result),
    )
    if extremes is None:
        return f"{word}, see the loads"
    together = cells_together(analysis.experiment)
    least, most = (effect_at(analysis.experiment, cell) for cell in extremes)
    return f"{word}, {least} to {most} ({together})"


def extreme_cells(
    analysis: CampaignAnalysis, result: Comparison
) -> tuple[Comparison, Comparison] | None:
    """Return a result's cells with the least and the largest effect.

    They stand in for the one number that would be wrong everywhere (METHOD.md 3.5).
    """
    cells = sorted(
        weighed_cells(analysis, result), key=lambda c: c.effect.value if c.effect else 0.0
    )
    return (cells[0], cells[-1]) if cells else None


def weighed_cells(analysis: CampaignAnalysis, result: Comparison) -> tuple[Comparison, ...]:
    """Return the cells of a result whose effect has an interval."""
    return tuple(
        c
        for c in analysis.comparisons
        if c.load is not None
        and (c.workload, c.configuration) == (result.workload, result.configuration)
        and doc.bounds(c.effect) is not None
    )


def span_of(analysis: CampaignAnalysis, result: Comparison) -> str:
    """Return the least and the largest effect of a result that depends on load; else nothing."""
    extremes = extreme_cells(analysis, result) if result.depends_on_load else None
    return " to ".join(doc.effect_value(cell.effect) for cell in extremes or ())


def effect_at(experiment: Experiment, cell: Comparison) -> str:
    """Return the effect of one cell, with its interval and its load."""
    effect = f"{doc.effect_value(cell.effect)} {doc.effect_interval(cell.effect)}"
    return f"{effect} at {cell_name(experiment, cell.load)}"


def early_note(verdict: Verdict, blocks: int) -> str:
    """Return what an early stop means: the estimate of a difference is too far from zero.

    A verdict may come before the checks of the design have enough blocks.
    """
    unchecked = blocks < LEAST_BLOCKS
    notes = (
        "" if verdict is Verdict.EQUIVALENT else "the true effect is probably a little smaller",
        f"the checks of the design need {LEAST_BLOCKS} blocks (--stop-early no)" * unchecked,
    )
    return ": ".join(filter(None, ("stopped early", "; ".join(filter(None, notes)))))


def verdict_sentence(analysis: CampaignAnalysis, comparison: Comparison) -> str:
    """Return the verdict on one comparison as a sentence that can be read alone."""
    clause = verdict_clause(analysis, comparison)
    if doc.bounds(comparison.effect) is None:
        return f"{comparison.workload}, {clause}"
    is_early = decided_early(analysis, comparison)
    early = f", {early_note(comparison.verdict, comparison.blocks)}" if is_early else ""
    blocks = doc.count(comparison.blocks, "block")
    price = durability_clause(comparison)
    told = f"{clause}, {price}" if price else clause
    when = ", interim" if is_interim(analysis) else ""
    limits = f"{pair_limit(comparison)}{control_limit(comparison)}"
    return f"{comparison.workload}, {told}{when}; {blocks}{early}{limits}"


def what_it_runs(workload: Workload) -> str:
    """Return the test, scripts or command of a workload; empty if none."""
    if workload.redis is not None and workload.redis.command:
        return " ".join(workload.redis.command)
    if workload.command is not None:
        return shlex.join(workload.command.argv)
    return workload.builtin or doc.enumeration(tuple(script.name for script in workload.scripts))


def command_pairs(experiment: Experiment) -> tuple[tuple[str, str], ...]:
    """Return each command that the experiment names, under what it is for."""
    named = [workload.command for workload in experiment.workloads if workload.command]
    pairs = (
        *(("prepares", shlex.join(each.prepare)) for each in named if each.prepare),
        *(("runs", shlex.join(each.argv)) for each in named),
    )
    return tuple(dict.fromkeys(pairs))


def one_key_label(experiment: Experiment) -> str:
    """Return which workloads ask for a single key, in a sentence; empty where none does."""
    names = tuple(
        workload.name
        for workload in experiment.workloads
        if workload.redis is not None and workload.redis.space.keys == 1
    )
    if not names:
        return ""
    verb = "uses" if len(names) == 1 else "use"
    return (
        f"{doc.enumeration(names)} {verb} one key: all requests go to the same value, which the"
        " caches"
        " of the CPU hold; that says nothing of a key space."
    )
