"""Rules about caches, storage and durability: whether both sides do the same work with the disk."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from steelyard.analysis.contrasts import headline_contrasts
from steelyard.analysis.durability import GIVEN_UP, keeps_commits
from steelyard.analysis.judging.facts import (
    CampaignFacts,
    Runs,
    Sides,
    levels,
    ratio,
    totals,
)
from steelyard.analysis.judging.promises import weighed
from steelyard.model.cgroup import THROTTLES
from steelyard.model.evidence import Quantity
from steelyard.model.experiment import EngineName, Layer
from steelyard.model.findings import Severity
from steelyard.model.rules import (
    KEPT,
    NOTHING_TO_JUDGE,
    Judges,
    Rule,
    Ruling,
    Threshold,
    broken,
    lacking,
)
from steelyard.model.target import AnyLocalTarget, CloudNativePgTarget, RedisKubernetesTarget
from steelyard.model.units import format_bytes, format_share

HIT_RATIO_POINTS: Final = 0.05
DEVICE_READS_FACTOR: Final = 2.0
LEAST_DEVICE_READS: Final = 0.1  # per transaction
_DIRECT: Final = "debug_io_direct"
_IO_SETTINGS: Final = frozenset(
    {
        "backend_flush_after",
        "bgwriter_flush_after",
        "checkpoint_flush_after",
        _DIRECT,
        "effective_io_concurrency",
        "io_combine_limit",
        "io_max_combine_limit",
        "io_max_concurrency",
        "io_method",
        "io_workers",
        "maintenance_io_concurrency",
        "wal_sync_method",
    }
)


def _cache_regime(facts: CampaignFacts) -> Iterator[Ruling]:
    for sides in facts.sides():
        hits = [_hit_ratio(runs) for runs in (sides.mine, sides.theirs)]
        reads = [
            ratio(runs, Quantity.DEVICE_READS, Quantity.COMMITS)
            for runs in (sides.mine, sides.theirs)
        ]
        if None in hits and None in reads:
            yield lacking("pages_hit and pages_read, or device_reads and commits")
            continue
        told = [
            *_hits_differ(hits, sides),
            *_reads_differ(reads, sides, facts.experiment.words.one),
        ]
        subject = sides.name
        yield broken(f"{subject}: {'; '.join(told)}", subject=subject) if told else KEPT


def _hit_ratio(runs: Runs) -> float | None:
    found = totals(runs, Quantity.PAGES_HIT, Quantity.PAGES_READ)
    return found[0] / sum(found) if found is not None and sum(found) > 0 else None


def _hits_differ(hits: list[float | None], sides: Sides) -> Iterator[str]:
    mine, theirs = hits
    if mine is not None and theirs is not None and abs(mine - theirs) > HIT_RATIO_POINTS:
        yield (
            f"{format_share(mine)} of the pages were found in shared_buffers, under {sides.other}"
            f" {format_share(theirs)}"
        )


def _reads_differ(reads: list[float | None], sides: Sides, one: str) -> Iterator[str]:
    mine, theirs = reads
    if mine is None or theirs is None or max(mine, theirs) <= LEAST_DEVICE_READS:
        return
    if max(mine, theirs) > DEVICE_READS_FACTOR * min(mine, theirs):
        yield f"{mine:.2f} reads of the disk per {one}, under {sides.other} {theirs:.2f}"


def _durability(facts: CampaignFacts) -> Iterator[Ruling]:
    for asked in headline_contrasts(facts.experiment):
        for setting in GIVEN_UP:
            promised, traded = partial(keeps_commits, setting), partial(_traded, setting)
            yield weighed(facts, asked, promised, traded, f"{setting} in force")


def _traded(setting: str, one: tuple[str, bool], other: tuple[str, bool]) -> Ruling:
    """Rule on one setting of two sides, by whether each keeps what was committed."""
    (weak, least), (strong, most) = sorted((one, other), key=lambda side: side[1])
    if least == most:
        return KEPT
    return broken(f"{weak}: {setting} gives up durability that {strong} keeps", subject=weak)


def _fits_in_memory(facts: CampaignFacts) -> Iterator[Ruling]:
    why = _judges_storage(facts)
    if not why:
        yield NOTHING_TO_JUDGE
        return
    sizes = levels(facts.runs, Quantity.DATABASE_BYTES)
    buffers = levels(facts.runs, Quantity.SHARED_BUFFERS_BYTES)
    # Direct I/O of data files goes past the operating system's memory.
    direct = all("data" in facts.in_force(t.name).get(_DIRECT, "") for t in facts.treatments)
    memory = [] if direct else levels(facts.runs, Quantity.MEMORY_BYTES)
    held = [
        (what, min(found))
        for what, found in (("shared_buffers", buffers), ("the machine's memory", memory))
        if found and sizes and max(sizes) < min(found)
    ]
    if not sizes or not (held or memory or (direct and buffers)):
        yield lacking("database_bytes, shared_buffers_bytes and memory_bytes")
    elif held:
        what, room = held[0]
        yield broken(
            f"the treatments differ in storage ({why}), and the data ({format_bytes(max(sizes))})"
            f" fit in {what} ({format_bytes(room)}): reads do not reach it",
            subject="campaign",
        )
    else:
        yield KEPT


def _judges_storage(facts: CampaignFacts) -> str:
    """Return by what the treatments differ that concerns storage; empty for nothing."""
    places = [t.target.directory for t in facts.treatments if isinstance(t.target, AnyLocalTarget)]
    if len(set(places)) > 1:
        return "target.directory"
    pods = CloudNativePgTarget | RedisKubernetesTarget
    clusters = [t.target for t in facts.treatments if isinstance(t.target, pods)]
    for key in ("storage_class", "wal_storage_class", "wal_storage"):
        if len({getattr(cluster, key, None) for cluster in clusters}) > 1:
            return f"target.{key}"
    settings = [treatment.asked_folded() for treatment in facts.treatments]
    limits = [treatment.asked(Layer.CGROUP) for treatment in facts.treatments]
    for names, asked in ((sorted(_IO_SETTINGS), settings), (THROTTLES, limits)):
        for name in names:
            if len({each.get(name) for each in asked}) > 1:
                return name
    return ""


STORAGE_RULES: Final[tuple[Rule[CampaignFacts], ...]] = (
    Rule(
        code="cache-regime-differs",
        engine=EngineName.POSTGRES,
        judges=Judges.COMPARISON,
        severity=Severity.WARNING,
        what="One side found its pages in shared_buffers, or without reading the disk, and the"
        " other did not.",
        why="Then the sides do different work. It may be the treatment's very effect; with other"
        " sizes of data or memory the effect is another one.",
        thresholds=(
            Threshold(
                value=HIT_RATIO_POINTS,
                shown=f"{100 * HIT_RATIO_POINTS:g} points of the hit ratio",
                reason="a guess",
            ),
            Threshold(
                value=DEVICE_READS_FACTOR,
                shown=f"{DEVICE_READS_FACTOR:g} times the reads of the disk per transaction, and"
                f" more than {LEAST_DEVICE_READS:g}",
                reason="a guess",
            ),
        ),
        remedy="Say for which size of data it holds; try a scale factor on either side of memory.",
        source="pg_stat_database, /proc/diskstats; thresholds: guesses",
        judge=_cache_regime,
    ),
    Rule(
        code="durability-traded",
        engine=EngineName.POSTGRES,
        judges=Judges.COMPARISON,
        severity=Severity.WARNING,
        what="fsync, full_page_writes or synchronous_commit keeps less on one side than on the"
        " other, by the settings in force.",
        why="A part of the speed is bought with commits, or the whole database, that a crash may"
        " take.",
        remedy="Compare at equal durability, or say what the speed costs.",
        source="PostgreSQL's documentation, asynchronous commit and WAL settings",
        judge=_durability,
    ),
    Rule(
        code="fits-in-memory",
        engine=EngineName.POSTGRES,
        judges=Judges.CAMPAIGN,
        severity=Severity.WARNING,
        what="The treatments differ in storage (`target.directory`, block throttles, settings of"
        " I/O), and the data fit in memory.",
        why="Reads are then answered from memory whatever the storage is; only writes and syncs"
        " are judged.",
        thresholds=(
            Threshold(
                value=1.0,
                shown="data smaller than shared_buffers, or than the machine's memory",
                reason="the operating system keeps what shared_buffers does not hold",
            ),
        ),
        remedy="Raise the scale factor beyond the machine's memory.",
        source="PostgreSQL's documentation, shared_buffers",
        judge=_fits_in_memory,
    ),
)
