"""Negative controls: work that nothing of what differs between two treatments can touch.

Reads write no log, so how the log is written cannot make them faster or slower. Where they differ
all the same, the treatments differ in something else, and every other result of the comparison may
be that. Where they do not, that speaks for the comparison.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from steelyard.analysis.contrasts import HeadlineContrast, headline_contrasts
from steelyard.analysis.results import Comparison, SettingDifference
from steelyard.model.experiment import EngineName, Experiment, Treatment
from steelyard.model.findings import Finding, Severity
from steelyard.model.target import RedisKubernetesTarget, RedisLocalTarget, Target
from steelyard.model.units import format_percent
from steelyard.model.verdicts import Verdict
from steelyard.model.workload import Workload

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
        writers: Workloads of the same visits that write, and may still be at it in the background.
    """

    baseline: str
    treatment: str
    workload: str
    names: tuple[str, ...]
    writers: tuple[str, ...]


def negative_controls(
    experiment: Experiment, settings: Sequence[SettingDifference]
) -> tuple[Control, ...]:
    """Return the negative controls of an experiment, by comparison and workload in file order.

    Args:
        experiment: What is compared.
        settings: What differs between the treatments, asked for or not.
    """
    reading = [each for each in experiment.workloads if is_read_only(each, experiment.engine)]
    if not reading or not experiment.compares_throughput:
        return ()
    writers = tuple(each.name for each in experiment.workloads if each not in reading)
    return tuple(
        Control(
            baseline=asked.baseline,
            treatment=asked.treatment,
            workload=workload.name,
            names=names,
            writers=writers,
        )
        for asked in headline_contrasts(experiment)
        if (names := _of_the_log_alone(asked, experiment, settings))
        for workload in reading
    )


def is_read_only(workload: Workload, engine: EngineName) -> bool:
    """Return whether a workload surely writes nothing."""
    if workload.scripts:
        return False
    if engine is EngineName.POSTGRES or workload.redis is None:
        return workload.builtin in _READS_OF_POSTGRES
    if workload.redis.read_share is not None:
        return workload.redis.read_share == 1.0
    name = workload.builtin or (workload.redis.command or ("",))[0]
    return name.lower() in _READS_OF_REDIS or name.lower().startswith(_READING_TESTS)


def _of_the_log_alone(
    asked: HeadlineContrast, experiment: Experiment, settings: Sequence[SettingDifference]
) -> tuple[str, ...]:
    """Return what differs between the sides if all of it acts on what is written, else nothing.

    With factors each treatment of a side needs one on the other that differs in no more.
    """
    allowed = _OF_THE_LOG[experiment.engine]
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
    one: int, other: int, experiment: Experiment, settings: Sequence[SettingDifference]
) -> frozenset[str]:
    """Return the names of all that differs between two treatments."""
    first, second = experiment.treatments[one], experiment.treatments[other]
    asked = {each.label.lower() for each in set(first.settings) ^ set(second.settings)}
    seen = {each.name.lower() for each in settings if each.values[one] != each.values[other]}
    return frozenset(asked | seen | set(_around(first, second)))


def _around(first: Treatment, second: Treatment) -> Iterator[str]:
    """Yield what differs beside settings, where it is more than the place of Redis' files."""
    if _elsewhere(first.target) != _elsewhere(second.target):
        yield "target"
    if first.manual != second.manual:
        yield "manual"
    if first.protocol != second.protocol or first.domain_xml != second.domain_xml:
        yield "protocol or virtual machine"


def _elsewhere(target: Target) -> Target:
    """Return a target without the place of the files that Redis writes."""
    if isinstance(target, RedisLocalTarget):
        return replace(target, directory=None)
    if isinstance(target, RedisKubernetesTarget):
        return replace(target, storage="", storage_class=None)
    return target


def with_controls(
    comparisons: Sequence[Comparison], controls: Sequence[Control]
) -> tuple[Comparison, ...]:
    """Return the comparisons; beside a control that differs each names it."""
    differing = {
        (found.baseline, found.treatment): found.workload
        for found, control in _judged(comparisons, controls)
        if _differs(found)
    }
    return tuple(
        replace(each, control=differing.get((each.baseline, each.treatment), ""))
        for each in comparisons
    )


def control_findings(
    comparisons: Sequence[Comparison], controls: Sequence[Control]
) -> Iterator[Finding]:
    """Yield a warning for each control that differs, and one line for all that do not."""
    found = list(_judged(comparisons, controls))
    yield from (_differing(each, control) for each, control in found if _differs(each))
    quiet = [each for each, _ in found if not _differs(each) and _is_bounded(each)]
    agreeing = [each for each in quiet if each.verdict.decided]
    undecided = [each for each in quiet if not each.verdict.decided]
    if agreeing:
        yield _told(
            "negative-control-agrees",
            agreeing,
            "equal within the margin, which speaks for the other results of these comparisons",
        )
    if undecided:
        yield _told(
            "negative-control-undecided",
            undecided,
            "not told apart, which says as little as its interval is wide",
        )


def _judged(
    comparisons: Sequence[Comparison], controls: Sequence[Control]
) -> Iterator[tuple[Comparison, Control]]:
    by_pair = {(each.baseline, each.treatment, each.workload): each for each in controls}
    for each in comparisons:
        control = by_pair.get((each.baseline, each.treatment, each.workload))
        if control is not None and each.load is None:
            yield each, control


def _differs(found: Comparison) -> bool:
    return found.verdict in (Verdict.FASTER, Verdict.SLOWER) and not found.no_practical_weight


def _differing(found: Comparison, control: Control) -> Finding:
    behind = ""
    if control.writers:
        behind = (
            f", or the log of {', '.join(control.writers)} is still written in the background"
            " beside it"
        )
    return Finding(
        code="negative-control-differs",
        severity=Severity.WARNING,
        message=f"{found.treatment} against {found.baseline}: the negative control"
        f" {found.workload} differs by {_effect(found)}. It writes no log, so"
        f" {', '.join(control.names)} cannot touch it: the treatments differ in something else,"
        f" such as host, order or limits{behind}. The other results of this comparison are suspect",
        remedy="Find what else differs before relying on them: compare each with itself"
        " (`steelyard noise`), and measure the control alone, in an experiment without writes.",
        source=SOURCE,
        subject=found.treatment,
    )


def _told(code: str, found: Sequence[Comparison], words: str) -> Finding:
    """Return one line on controls that do not differ: each with its comparisons."""
    listed = "; ".join(
        _span([each for each in found if each.workload == workload])
        for workload in dict.fromkeys(each.workload for each in found)
    )
    return Finding(
        code=code,
        severity=Severity.INFO,
        message=f"negative controls, which nothing of what differs can touch: {words}. {listed}",
        source=SOURCE,
        subject="campaign",
    )


def _span(found: Sequence[Comparison]) -> str:
    """Return the comparisons of one workload, and how far their intervals reach."""
    bounds = [each.effect for each in found if each.effect is not None]
    low = min(each.low for each in bounds if each.low is not None)
    high = max(each.high for each in bounds if each.high is not None)
    who = ", ".join(each.treatment for each in found)
    reach = f"{format_percent(low)} to {format_percent(high)}"
    return f"{found[0].workload}, {who} against {found[0].baseline}: {reach}"


def _is_bounded(found: Comparison) -> bool:
    return found.effect is not None and None not in (found.effect.low, found.effect.high)


def _effect(found: Comparison) -> str:
    effect = found.effect
    if effect is None or effect.low is None or effect.high is None:
        return "an unknown amount" if effect is None else format_percent(effect.value)
    low, high = format_percent(effect.low), format_percent(effect.high)
    return f"{format_percent(effect.value)} [{low}, {high}]"
