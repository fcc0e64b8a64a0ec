"""What the user should know about a campaign beside its verdicts, once each, gravest first.

The check for warm-up asks whether the contrast still changes with the time since start; it is
a warning and no verdict. The phases tell where in the checkpoint cycle the runs began.

A negative control is work that nothing of what differs between two configurations can touch. Reads
write no log, so how the log is written cannot make them faster or slower. Where they differ all the
same, the configurations differ in something else, and every other result of the comparison may be
that. Where they do not, that speaks for the comparison.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from steelyard.answers import results
from steelyard.answers.observations import Observations, ResultContrast, result_contrasts
from steelyard.core import findings
from steelyard.core.campaign import BlockOutcome, CampaignPlan, CampaignRecord, RoundsFor, Status
from steelyard.core.experiment import RATE, Configuration, Experiment, Workload
from steelyard.core.measurement import Run
from steelyard.core.schedule import Mode
from steelyard.core.target import EngineName, RedisKubernetesTarget, RedisLocalTarget, Target
from steelyard.core.wording import (
    format_log_ratio,
    format_percent,
    format_utc,
    whole_minutes,
)
from steelyard.report import document as doc
from steelyard.report.texts import Texts
from steelyard.stats.drift import position_slope

_TEXTS: Final = Texts(__name__)
LEAST_BLOCKS = 6
LEAST_RUNS = 2


def check_warmup(
    seen: Observations, experiment: Experiment, mode: Mode
) -> tuple[results.WarmupCheck, ...]:
    """Return one check per result contrast, over all runs of closed loops in its starts.

    Back to back there is nothing to check: both sides share the server and its age.
    """
    if (
        mode is not Mode.STARTS
        or seen.blocks < LEAST_BLOCKS
        or len(seen.cells) * seen.rounds < LEAST_RUNS
    ):
        return ()
    return tuple(_check(seen, asked) for asked in result_contrasts(experiment))


def _check(seen: Observations, asked: ResultContrast) -> results.WarmupCheck:
    # The runs come in one order in all starts of a block: any start tells the places.
    positions = seen.places[:, :, asked.positive[0]]
    slope = position_slope(
        seen.weighted_slices(asked.weights).reshape(seen.blocks, -1),
        positions.reshape(seen.blocks, -1),
        rounds=seen.rounds,
    )
    return results.WarmupCheck(
        configuration=asked.configuration,
        slope_per_position=slope.per_position,
        p_value=slope.p_value,
    )


_ONE_SIDED = 2  # tries under one configuration alone: beyond chance enough to be told
_ONE_SIDED_NEIGHBOURS = 6  # a neighbour does not choose: of two configurations 2^-5, 3 %, by chance
_FEW_FRACTION = 0.2
STALL_LEVEL = 0.05
WARMUP_LEVEL = 0.01
NOTABLE_DRIFT = 0.10  # a guess; contrasts within blocks stand 30 % per hour (METHOD 3.8)
NOTABLE_RESIDUAL = 0.01
_DRIFT_FROM = 9  # thirds of three blocks


def campaign_findings(
    record: CampaignRecord,
    seen: Observations,
    stalls: Sequence[results.StallTest],
    warmup: Sequence[results.WarmupCheck],
) -> tuple[findings.Finding, ...]:
    """Return the record's own findings, then those of the analysis, gravest rules first."""
    return (
        *record.findings,
        *_single_pass(record),
        *_continued(record),
        *_holes(seen),
        *_too_few_blocks(seen, record),
        *_differing_stalls(stalls),
        *_visible_warmup(warmup, record.plan),
        *_failed_transactions(seen),
        *_warm_up(record.plan),
        *_drift(seen),
        *_redone(record),
    )


def _single_pass(record: CampaignRecord) -> Iterator[findings.Finding]:
    if record.experiment.is_single_pass:
        yield findings.Finding(
            code="single-pass",
            severity=findings.Severity.WARNING,
            message=_TEXTS.single_pass(),
            remedy=_TEXTS.single_pass_remedy(),
            source="METHOD 2",
            subject="campaign",
        )


def _continued(record: CampaignRecord) -> Iterator[findings.Finding]:
    """Yield a finding when a single pass was not taken in one go."""
    if not record.experiment.is_single_pass:
        return
    parts = Counter(run.attempt for run in record.counted_runs)
    if len(parts) < 2:
        return
    begun = {run.attempt: run.started_at for run in reversed(record.counted_runs)}
    taken = ", then ".join(
        f"{doc.count(number, 'run')} from {format_utc(begun[attempt])}"
        for attempt, number in sorted(parts.items())
    )
    yield findings.Finding(
        code="pass-continued",
        severity=findings.Severity.WARNING,
        message=_TEXTS.continued(parts=taken),
        remedy=_TEXTS.continued_remedy(),
        subject="campaign",
    )


def _holes(seen: Observations) -> Iterator[findings.Finding]:
    if seen.holes:
        numbers = ", ".join(str(index + 1) for index in seen.holes)
        yield findings.Finding(
            code="incomplete-block",
            severity=findings.Severity.ERROR,
            message=f"block {numbers}: called complete, but a run has no measurement; left out",
            remedy="The record may be damaged; keep it and report this.",
            source="METHOD 3.1",
            subject="campaign",
        )


TOO_FEW: Final = "not-enough-blocks"
_SLACK: Final = 1.05  # a guess: blocks are not equally long


def _way_to_first_look(missing: int, record: CampaignRecord, plan: CampaignPlan) -> str:
    """Return how long it would have taken with the blocks that are missing, and the option."""
    needed_s = None
    if record.status is Status.BUDGET:
        first = plan.stopping.first_look
        blocks_s = sum(plan.block_time_s(index) for index in range(first - missing, first))
        needed_s = _SLACK * (record.elapsed_s + blocks_s)
    longest, longest_s, shorter = _longest_part(record.experiment, plan)
    return _TEXTS.blocks_needed(
        needed_s=needed_s,
        minutes=whole_minutes(needed_s or 0.0),
        block_s=plan.block_s,
        longest=longest,
        longest_s=longest_s,
        shorter=shorter,
    )


def _longest_part(experiment: Experiment, plan: CampaignPlan) -> tuple[str, float, str]:
    """Return what a block spends most time on, its seconds, and what makes it shorter."""
    starts = 1 if plan.mode is Mode.BACK_TO_BACK else len(experiment.configurations)
    warmed = starts * (len(experiment.workloads) if plan.mode is Mode.ALTERNATING else 1)
    load_s = sum(experiment.run_time_s(each.name) for each in experiment.workloads)
    start_s = (plan.start_s or 0.0) + (plan.data_s or 0.0)
    load_s *= len(experiment.configurations) * len(experiment.loads) * plan.rounds
    return max(
        ("load", load_s, "fewer loads or a shorter measure.run_time"),
        ("warm-up", warmed * plan.warm_up.warm_up_s, "a shorter measure.warm_up"),
        ("starts and restoring", starts * start_s, "fewer configurations or less data"),
        key=lambda part: part[1],
    )


def _too_few_blocks(seen: Observations, record: CampaignRecord) -> Iterator[findings.Finding]:
    plan = record.plan
    if plan is None or not record.experiment.compares_throughput:
        return
    if seen.blocks >= plan.stopping.first_look:
        return
    yield findings.Finding(
        code=TOO_FEW,
        severity=findings.Severity.WARNING,
        message=(
            f"{doc.count(seen.blocks, 'complete block')}; "
            f"a verdict needs at least {plan.stopping.first_look}"
        ),
        remedy=_way_to_first_look(plan.stopping.first_look - seen.blocks, record, plan),
        source="METHOD 3.2",
        subject="campaign",
    )


def _differing_stalls(stalls: Sequence[results.StallTest]) -> Iterator[findings.Finding]:
    for test in stalls:
        if test.p_value < STALL_LEVEL / len(stalls):
            yield findings.Finding(
                code="stalls-differ",
                severity=findings.Severity.WARNING,
                message=_TEXTS.stalls_differ(
                    workload=test.workload,
                    name=test.configuration,
                    stalled=test.configuration_stalled,
                    runs=test.configuration_runs,
                    baseline=test.baseline,
                    baseline_stalled=test.baseline_stalled,
                    baseline_runs=test.baseline_runs,
                    p=f"{test.p_value:.2g}",
                ),
                remedy="The effect discounts stalls: weigh them beside it, and look for the cause.",
                source="METHOD 3.6, Fisher's exact test",
                subject=test.configuration,
            )


def _visible_warmup(
    warmup: Sequence[results.WarmupCheck], plan: CampaignPlan | None
) -> Iterator[findings.Finding]:
    for check in warmup:
        if check.p_value < WARMUP_LEVEL:
            yield findings.Finding(
                code="warm-up-differs",
                severity=findings.Severity.WARNING,
                message=_TEXTS.warm_up_differs(
                    name=check.configuration,
                    change=format_log_ratio(check.slope_per_position),
                    p=f"{check.p_value:.2g}",
                    over_cycle=plan is not None and plan.rounds_for is RoundsFor.CYCLE,
                ),
                remedy="Measure the warm-up (calibration), or set a longer warm-up.",
                source="METHOD 3.7",
                subject=check.configuration,
            )


def _failed_transactions(seen: Observations) -> Iterator[findings.Finding]:
    for configuration in seen.configurations:
        runs = seen.runs_of(configuration)
        measured = [run.measurement for run in runs if run.measurement is not None]
        failed = sum(measurement.failed for measurement in measured)
        if failed:
            yield findings.Finding(
                code="failed-transactions",
                severity=findings.Severity.WARNING,
                message=f"{configuration}: {doc.count(failed, 'failed transaction')}",
                remedy="They are not counted as done; the raw output says why they failed.",
                source="the load generator's own count",
                subject=configuration,
            )


def _warm_up(plan: CampaignPlan | None) -> Iterator[findings.Finding]:
    if plan is None:
        return
    residuals = [loss for loss in plan.warm_up.residual_fraction if loss is not None]
    grave = plan.warm_up.is_grave or max(residuals, default=0.0) > NOTABLE_RESIDUAL
    if not grave or not plan.warm_up.risk:
        return  # a fact of the design, which the method tells
    yield findings.Finding(
        code="warm-up-risk",
        severity=findings.Severity.WARNING,
        message=plan.warm_up.risk,
        remedy="Set a longer `measure.warm_up`, or `measure.prewarm: true`.",
        source="METHOD 3.7",
        subject="campaign",
    )


def _drift(seen: Observations) -> Iterator[findings.Finding]:
    """Compare the last third of the blocks with the first, over all configurations and cells."""
    seen = seen.of_closed_loops()  # an open loop holds its rate, whatever the machine does
    if seen.blocks < _DRIFT_FROM or not seen.cells:
        return
    centred = seen.log_tps - np.median(seen.log_tps, axis=0)
    by_block = centred.mean(axis=(1, 2))
    third = seen.blocks // 3
    change = float(np.expm1(np.median(by_block[-third:]) - np.median(by_block[:third])))
    if abs(change) >= NOTABLE_DRIFT:
        yield findings.Finding(
            code="drift",
            severity=findings.Severity.INFO,
            message=_TEXTS.drift(change=format_percent(change)),
            remedy=f"The comparison is unaffected; the absolute {RATE} values are not.",
            source="METHOD 3.8",
            subject="campaign",
        )


def _redone(record: CampaignRecord) -> Iterator[findings.Finding]:
    thrown = [block for block in record.blocks if not block.complete]
    if not thrown or record.experiment.is_single_pass:
        return
    under = Counter(block.configuration for block in thrown if block.configuration)
    advice = _advice(thrown)
    many = len(thrown) > max(1, _FEW_FRACTION * len(record.blocks))
    by_configuration = ", ".join(f"{number} under {name}" for name, number in sorted(under.items()))
    yield findings.Finding(
        code="blocks-redone",
        severity=findings.Severity.WARNING if many or advice else findings.Severity.INFO,
        message=_TEXTS.redone(
            thrown=len(thrown),
            blocks=len(record.blocks),
            by_configuration=by_configuration,
            causes=_causes(thrown),
        ),
        remedy=advice or "OK if rare. Otherwise stop other work on this machine.",
        source="METHOD 3.1",
        subject="campaign",
    )


def _advice(thrown: Sequence[BlockOutcome]) -> str:
    """Return what to do where the tries fell under one configuration alone; empty where not."""
    own = [block for block in thrown if block.cause not in findings.ENVIRONMENT]
    if _under_one(own, _ONE_SIDED):
        return _TEXTS.under_one()
    if _under_one([b for b in thrown if b.cause in findings.ENVIRONMENT], _ONE_SIDED_NEIGHBOURS):
        return _TEXTS.neighbours_under_one()
    return ""


def _under_one(blocks: Sequence[BlockOutcome], least: int) -> bool:
    under = Counter(block.configuration for block in blocks if block.configuration)
    return len(under) == 1 and sum(under.values()) >= least


def _causes(thrown: Sequence[BlockOutcome]) -> str:
    """Return how many tries which rule threw away; nothing where no record says."""
    causes = Counter(block.cause for block in thrown if block.cause)
    if not causes:
        return ""
    others = len(thrown) - sum(causes.values())
    told = [f"{findings.words_of(code)} ({number})" for code, number in sorted(causes.items())]
    return ", ".join([*told, *([f"others ({others})"] if others else [])])


SOURCE: Final = "METHOD 3.16"
# Settings that act on nothing but what is written: how the log and the snapshots are made, when
# they reach the disk, whom a commit waits for. What also sizes memory (wal_buffers) or moves other
# work (max_wal_size, checkpoints of pages that an earlier workload wrote) is left out.
_OF_THE_LOG: Final = {
    # Source: PostgreSQL documentation, "Write Ahead Log" and "Replication".
    EngineName.POSTGRES: frozenset(
        {
            "commit_delay",
            "commit_siblings",
            "fsync",
            "full_page_writes",
            "synchronous_commit",
            "synchronous_standby_names",
            "wal_compression",
            "wal_init_zero",
            "wal_recycle",
            "wal_sync_method",
            "wal_writer_delay",
            "wal_writer_flush_after",
        }
    ),
    # Source: Redis 7.0, redis.conf, "SNAPSHOTTING" and "APPEND ONLY MODE".
    EngineName.REDIS: frozenset(
        {
            "aof-rewrite-incremental-fsync",
            "aof-timestamp-enabled",
            "aof-use-rdb-preamble",
            "appendfsync",
            "appendonly",
            "auto-aof-rewrite-min-size",
            "auto-aof-rewrite-percentage",
            "dir",
            "no-appendfsync-on-rewrite",
            "rdb-save-incremental-fsync",
            "rdbchecksum",
            "rdbcompression",
            "save",
            "stop-writes-on-bgsave-error",
        }
    ),
}
# Where Redis keeps its files. It reads none of them while it serves.
_PLACES_OF_FILES: Final = frozenset(
    {"target: directory", "target: storage", "target: storage_class"}
)
# Work that writes nothing. Own scripts are not read: nobody knows.
_READS_OF_POSTGRES: Final = frozenset({"select-only"})
_READS_OF_REDIS: Final = frozenset(
    {"echo", "exists", "get", "hget", "llen", "lrange", "mget", "ping", "strlen"}
)
# Tests of redis-benchmark whose names are none of commands.
_READING_TESTS: Final = ("ping_", "lrange_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """A workload that a comparison cannot move.

    Attributes:
        names: What differs between the sides.
        writers: Workloads of the same starts that write, and may still be at it in the background.
    """

    baseline: str
    configuration: str
    workload: str
    names: tuple[str, ...]
    writers: tuple[str, ...]


def negative_controls(
    experiment: Experiment, settings: Sequence[results.SettingDifference]
) -> tuple[Control, ...]:
    """Return the negative controls of an experiment, by comparison and workload in file order.

    Args:
        experiment: What is compared.
        settings: What differs between the configurations, asked for or not.
    """
    reading = [each for each in experiment.workloads if is_read_only(each, experiment.engine)]
    if not reading or not experiment.compares_throughput:
        return ()
    writers = tuple(each.name for each in experiment.workloads if each not in reading)
    return tuple(
        Control(
            baseline=asked.baseline,
            configuration=asked.configuration,
            workload=workload.name,
            names=names,
            writers=writers,
        )
        for asked in result_contrasts(experiment)
        if (names := _of_the_log_alone(asked, experiment, settings))
        for workload in reading
    )


def is_read_only(workload: Workload, engine: EngineName) -> bool:
    """Return whether a workload surely writes nothing."""
    if workload.scripts:
        return False
    if engine is EngineName.POSTGRES or workload.redis is None:
        return workload.builtin in _READS_OF_POSTGRES
    name = workload.builtin or (workload.redis.command or ("",))[0]
    return name.lower() in _READS_OF_REDIS or name.lower().startswith(_READING_TESTS)


def _of_the_log_alone(
    asked: ResultContrast, experiment: Experiment, settings: Sequence[results.SettingDifference]
) -> tuple[str, ...]:
    """Return what differs between the sides if all of it acts on what is written, else nothing.

    With factors each configuration of a side needs one on the other that differs in no more.
    """
    allowed = _OF_THE_LOG.get(experiment.engine, frozenset())
    if experiment.engine is EngineName.REDIS:
        allowed |= _PLACES_OF_FILES
    names: set[str] = set()
    for ones, others in ((asked.negative, asked.positive), (asked.positive, asked.negative)):
        for one in ones:
            found = [_apart(one, other, experiment, settings) for other in others]
            fitting = [each for each in found if each and each <= allowed]
            if not fitting:
                return ()
            names |= min(fitting, key=len)
    return tuple(sorted(names))


def _apart(
    one: int, other: int, experiment: Experiment, settings: Sequence[results.SettingDifference]
) -> frozenset[str]:
    """Return the names of all that differs between two configurations."""
    first, second = experiment.configurations[one], experiment.configurations[other]
    asked = {each.label.lower() for each in set(first.settings) ^ set(second.settings)}
    names = (first.name, second.name)
    seen = {each.name.lower() for each in settings if len({*map(each.values.get, names)}) > 1}
    return frozenset(asked | seen | set(_around(first, second)))


def _around(first: Configuration, second: Configuration) -> Iterator[str]:
    """Yield what differs beside settings, where it is more than the place of Redis' files."""
    if _elsewhere(first.target) != _elsewhere(second.target):
        yield "target"
    if first.prepare != second.prepare:
        yield "prepare"
    if first.scripts != second.scripts:
        yield "scripts"
    if first.manual != second.manual:
        yield "manual"
    if first.protocol != second.protocol:
        yield "protocol"


def _elsewhere(target: Target) -> Target:
    """Return a target without the place of the files that Redis writes."""
    if isinstance(target, RedisLocalTarget):
        return replace(target, directory=None)
    if isinstance(target, RedisKubernetesTarget):
        return replace(target, storage="", storage_class=None)
    return target


def with_controls(
    comparisons: Sequence[results.Comparison], controls: Sequence[Control]
) -> tuple[results.Comparison, ...]:
    """Return the comparisons; beside a control that differs each names it."""
    differing = {
        (found.baseline, found.configuration): found.workload
        for found, control in _judged(comparisons, controls)
        if _differs(found)
    }
    return tuple(
        replace(each, control=differing.get((each.baseline, each.configuration), ""))
        for each in comparisons
    )


def control_findings(
    comparisons: Sequence[results.Comparison], controls: Sequence[Control]
) -> Iterator[findings.Finding]:
    """Yield a warning for each control that differs, and one line for all that do not."""
    found = list(_judged(comparisons, controls))
    yield from (_differing(each, control) for each, control in found if _differs(each))
    quiet = [each for each, _ in found if not _differs(each) and _is_bounded(each)]
    agreeing = [each for each in quiet if each.verdict.decided]
    undecided = [each for each in quiet if not each.verdict.decided]
    if agreeing:
        yield _without_difference("negative-control-agrees", agreeing, decided=True)
    if undecided:
        yield _without_difference("negative-control-undecided", undecided, decided=False)


def _judged(
    comparisons: Sequence[results.Comparison], controls: Sequence[Control]
) -> Iterator[tuple[results.Comparison, Control]]:
    by_pair = {(each.baseline, each.configuration, each.workload): each for each in controls}
    for each in comparisons:
        control = by_pair.get((each.baseline, each.configuration, each.workload))
        if control is not None and each.load is None:
            yield each, control


def _differs(found: results.Comparison) -> bool:
    return (
        found.verdict in (findings.Verdict.FASTER, findings.Verdict.SLOWER)
        and not found.no_practical_weight
    )


def _differing(found: results.Comparison, control: Control) -> findings.Finding:
    return findings.Finding(
        code="negative-control-differs",
        severity=findings.Severity.WARNING,
        message=_TEXTS.control_differs(
            name=found.configuration,
            baseline=found.baseline,
            workload=found.workload,
            effect=_effect(found),
            settings=", ".join(control.names),
            writers=", ".join(control.writers),
        ),
        remedy=_TEXTS.control_differs_remedy(),
        source=SOURCE,
        subject=found.configuration,
    )


def _without_difference(
    code: str, found: Sequence[results.Comparison], *, decided: bool
) -> findings.Finding:
    """Return one line on controls that do not differ: each with its comparisons."""
    listed = "; ".join(
        _span([each for each in found if each.workload == workload])
        for workload in dict.fromkeys(each.workload for each in found)
    )
    return findings.Finding(
        code=code,
        severity=findings.Severity.INFO,
        message=_TEXTS.controls(decided=decided, comparisons=listed),
        source=SOURCE,
        subject="campaign",
    )


def _span(found: Sequence[results.Comparison]) -> str:
    """Return the comparisons of one workload, and how far their intervals reach."""
    bounds = [each.effect for each in found if each.effect is not None]
    low = min(each.low for each in bounds if each.low is not None)
    high = max(each.high for each in bounds if each.high is not None)
    who = ", ".join(each.configuration for each in found)
    reach = f"{format_percent(low)} to {format_percent(high)}"
    return f"{found[0].workload}, {doc.versus(who, found[0].baseline)}: {reach}"


def _is_bounded(found: results.Comparison) -> bool:
    return found.effect is not None and None not in (found.effect.low, found.effect.high)


def _effect(found: results.Comparison) -> str:
    effect = found.effect
    if effect is None or effect.low is None or effect.high is None:
        return "an unknown amount" if effect is None else format_percent(effect.value)
    low, high = format_percent(effect.low), format_percent(effect.high)
    return f"{format_percent(effect.value)} [{low}, {high}]"


NOTABLE_PHASE_S = 30.0  # a tenth of the default cycle: a guess


def checkpoint_phases(grounds: results.Grounds) -> tuple[results.CheckpointPhase, ...]:
    """Return one summary per configuration; none where no run recorded its phase."""
    seen = grounds.seen
    if not grounds.record.experiment.system.has_checkpoints:
        return ()
    runs = {name: seen.runs_of(name) for name in seen.configurations}
    if not any(run.checkpoint is not None for of_one in runs.values() for run in of_one):
        return ()
    return tuple(_summary(name, of_one) for name, of_one in runs.items())


def _summary(configuration: str, runs: Sequence[Run]) -> results.CheckpointPhase:
    asked = [run.checkpoint for run in runs if run.checkpoint is not None]
    ages = [age.seconds for age in asked if age.seconds is not None]
    return results.CheckpointPhase(
        configuration=configuration,
        runs=len(runs),
        known=len(ages),
        least_s=min(ages, default=None),
        median_s=float(np.median(ages)) if ages else None,
        most_s=max(ages, default=None),
        unknown=next((age.unknown for age in asked if age.unknown), ""),
    )


def phase_findings(seen: Observations, experiment: Experiment) -> Iterator[findings.Finding]:
    """Yield a note for each result whose two sides began their runs in different phases."""
    by_block = [_mean_ages(seen.runs_of(name)) for name in seen.configurations]
    for asked in result_contrasts(experiment):
        name = asked.configuration
        mine, theirs = (
            _together([by_block[place] for place in places])
            for places in (asked.positive, asked.negative)
        )
        shared = sorted(mine.keys() & theirs.keys())
        if not shared:
            continue
        later_s = float(np.median([mine[block] - theirs[block] for block in shared]))
        if abs(later_s) >= NOTABLE_PHASE_S:
            yield findings.Finding(
                code="checkpoint-phase-differs",
                severity=findings.Severity.INFO,
                message=_TEXTS.phase_differs(name=name, baseline=asked.baseline, later_s=later_s),
                remedy=_TEXTS.phase_differs_remedy(),
                source="METHOD 12",
                subject=name,
            )


def _together(ages: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """Return the mean age over configurations, of the blocks in which all recorded theirs."""
    shared = set.intersection(*(set(of_one) for of_one in ages))
    return {block: float(np.mean([of_one[block] for of_one in ages])) for block in shared}


def _mean_ages(runs: Sequence[Run]) -> dict[int, float]:
    """Return the mean age of the cycle by block, over the runs that recorded it."""
    ages: dict[int, list[float]] = defaultdict(list)
    for run in runs:
        if run.checkpoint is not None and run.checkpoint.seconds is not None:
            ages[run.block].append(run.checkpoint.seconds)
    return {block: float(np.mean(of_block)) for block, of_block in ages.items()}


_RANK = {findings.Severity.ERROR: 0, findings.Severity.WARNING: 1, findings.Severity.INFO: 2}
_OF_LOSS = frozenset({"durability-traded", "persistence-traded"})


def collected(analysis: results.CampaignAnalysis) -> tuple[findings.Finding, ...]:
    """Return every different finding of campaign and cells, in the order of their weight.

    By severity; of the same one first neighbours of most runs, which leave no figure sure, then
    what a configuration may lose, since no other measuring makes it good, and the rest as they
    came: what concerns the whole campaign before its cells. Of neighbours the campaign tells as a
    whole, so their cells do not tell again. That blocks will be too few is not told where they are.
    """
    told = {finding.code for finding in analysis.findings}
    again = findings.ENVIRONMENT if findings.BESIDE_NEIGHBOUR in told else frozenset()
    lengths = _lengths(analysis)
    again |= {each.code for each in lengths}
    of_cells = (f for cell in analysis.cells for f in cell.findings if f.code not in again)
    foretold = findings.BUDGET_TOO_SHORT if TOO_FEW in told else ""
    found = [*(f for f in analysis.findings if f.code != foretold), *lengths, *of_cells]
    beset = [any(f.code in findings.ENVIRONMENT for f in run.findings) for run in analysis.runs]
    in_most = 2 * sum(beset) > len(beset)
    order = [{findings.BESIDE_NEIGHBOUR} if in_most else set(), _OF_LOSS]

    def weight(finding: findings.Finding) -> tuple[int, ...]:
        return _RANK[finding.severity], *(finding.code not in codes for codes in order)

    return tuple(sorted(dict.fromkeys(found), key=weight))


# Each slows its subject, a configuration, and belongs to it: it stays in the comparison.
EXPLAINING: Final = frozenset(
    {
        "cache-regime-differs",
        "device-limit",
        "fork-on-huge-pages",
        "io-threads-spin",
        "log-limited-by-bytes",
        "quota-throttled",
        "read-amplification",
    }
)


def split_by_weight(
    analysis: results.CampaignAnalysis,
) -> tuple[tuple[findings.Finding, ...], tuple[findings.Finding, ...]]:
    """Return the findings that weaken the results, and those that explain a difference.

    A finding explains a difference if its subject is on the slower side and the faster side lacks
    it. A cause that both sides share hides a difference, and so weakens.
    """
    every = collected(analysis)
    slowed: dict[str, set[str]] = defaultdict(set)
    for finding in every:
        slowed[finding.code].add(finding.subject)
    sides = tuple(_slower_and_faster(analysis))

    def explains(finding: findings.Finding) -> bool:
        return finding.code in EXPLAINING and any(
            finding.subject in slower and not faster & slowed[finding.code]
            for slower, faster in sides
        )

    explaining = tuple(filter(explains, every))
    return tuple(each for each in every if each not in explaining), explaining


def _slower_and_faster(
    analysis: results.CampaignAnalysis,
) -> Iterator[tuple[frozenset[str], frozenset[str]]]:
    """Yield the names of both sides of each difference: with the configurations of a level."""
    names = [configuration.name for configuration in analysis.experiment.configurations]
    sides = {
        (asked.configuration, asked.baseline): (
            frozenset({asked.configuration, *(names[place] for place in asked.positive)}),
            frozenset({asked.baseline, *(names[place] for place in asked.negative)}),
        )
        for asked in result_contrasts(analysis.experiment)
    }
    for found in analysis.results:
        mine, theirs = sides[found.configuration, found.baseline]
        if _differs(found):
            slower = found.verdict is findings.Verdict.SLOWER
            yield (mine, theirs) if slower else (theirs, mine)


_LENGTH: Final = "slice-length"


def _lengths(analysis: results.CampaignAnalysis) -> tuple[findings.Finding, ...]:
    """Return one finding of all runs that were much shorter or longer than meant, by cell."""
    taken: dict[str, dict[str, list[float]]] = {}
    found = None
    for run in analysis.runs:
        first = next((each for each in run.findings if each.code == _LENGTH), None)
        if first is not None and run.measurement is not None:
            found = found or first
            cell = results.place_name(analysis.experiment, run.cell)
            by_name = taken.setdefault(cell, {})
            by_name.setdefault(run.configuration, []).append(run.measurement.seconds)
    if found is None:
        return ()
    meant = {analysis.experiment.run_time_s(each.name) for each in analysis.experiment.workloads}
    number = sum(len(lengths) for by_name in taken.values() for lengths in by_name.values())
    cells = (
        f"{cell}: {', '.join(f'{name} {_span_s(s)}' for name, s in by_name.items())}"
        for cell, by_name in taken.items()
    )
    message = _TEXTS.lengths(
        number=number,
        runs=len(analysis.runs),
        meant_s=meant.pop() if len(meant) == 1 else None,
        cells="; ".join(cells),
    )
    return (replace(found, message=message, subject="campaign"),)


def _span_s(seconds: Sequence[float]) -> str:
    if len(seconds) == 1:
        return f"{seconds[0]:.2g} s"
    return f"{min(seconds):.2g} to {max(seconds):.2g} s ({len(seconds)} runs)"


def anchor(place: int) -> str:
    """Return the name of a finding in the document, by its place in the list."""
    return f"finding-{place + 1}"


EXPLAINED: Final = "explained"


def explained_section(analysis: results.CampaignAnalysis) -> tuple[doc.Section, ...]:
    """Return the causes of differences; empty without one."""
    _, explaining = split_by_weight(analysis)
    items = tuple(f"{doc.ended(f.message)} {f.remedy}" for f in findings.grouped(explaining))
    blocks = (doc.BulletList(lead="It belongs to the configuration, and stays in:", items=items),)
    title = "Causes of differences"
    return (doc.Section(anchor=EXPLAINED, title=title, blocks=blocks),) if items else ()


def finding_section(analysis: results.CampaignAnalysis) -> doc.Section:
    """Return the findings that weaken the results, or the sentence that there are none."""
    weakening, _ = split_by_weight(analysis)
    items = tuple(
        replace(_item(finding), anchor=anchor(place))
        for place, finding in enumerate(findings.grouped(weakening))
    )
    shown = tuple(each for each in items if each.code not in _NOT_SEEN)
    unseen = tuple(each for each in items if each.code in _NOT_SEEN)
    return doc.Section(
        anchor="findings",
        title="Warnings",
        blocks=(doc.FindingList(items=shown) if shown else doc.Paragraph(text="None."),),
        more=(doc.FindingList(title="Not measured, not checked", items=unseen),) if unseen else (),
    )


_NOT_SEEN: Final = ("not-measured", findings.NOT_JUDGED)


def _item(finding: findings.Finding) -> doc.FindingItem:
    named = finding.message.startswith(f"{finding.subject}:")
    return doc.FindingItem(
        severity=finding.severity.value,
        tone=doc.TONES[finding.severity],
        subject="" if named else finding.subject,
        message=finding.message,
        remedy=finding.remedy,
        source=finding.source,
        code=finding.code,
    )
