"""Rules about the machine: quota, memory, disk, huge pages, neighbours, caches, what was not seen.

Those about caches, storage and durability ask whether both sides do the same work with the disk.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from steelyard.answers import neighbours
from steelyard.answers import observations as obs
from steelyard.answers.durability.compute import GIVEN_UP, keeps_commits
from steelyard.answers.validity.facts import (
    CampaignFacts,
    Runs,
    Sides,
    levels,
    rate,
    ratio,
    total,
    totals,
    weighed,
)
from steelyard.core import findings
from steelyard.core.aws import gp3_price
from steelyard.core.experiment import Configuration, Layer
from steelyard.core.linux import THROTTLES
from steelyard.core.measurement import Quantity, Run
from steelyard.core.target import EngineName
from steelyard.core.wording import MIB, format_bytes, format_share, in_unit
from steelyard.report.document import count
from steelyard.report.texts import Texts
from steelyard.stats.turns import LEAST_BLOCKS, SUSPECT_LEVEL

_TEXTS: Final = Texts(__name__)
MEMORY_PRESSURE_SHARE: Final = 0.01
SWAPPED_PER_S: Final = 10.0
DISK_FREE_SHARE: Final = 0.10
AMPLIFICATION: Final = 2.0
LEAST_PERIODS: Final = 10  # of a quota, of 100 ms each by default
_MOST_ABSENCES: Final = 8
MOST_RUNS: Final = 0.5  # what holds for more of them is the rule


def _throttled(facts: CampaignFacts) -> Iterator[findings.Ruling]:
    for configuration in facts.configurations:
        name, runs = configuration.name, facts.runs_of(configuration.name)
        found = totals(runs, Quantity.QUOTA_PERIODS, Quantity.THROTTLED_PERIODS)
        if found is None:
            if "cpus" in configuration.asked(Layer.CGROUP):
                yield findings.lacking("throttled_periods")
        elif found[1] > 0 and max(found) >= LEAST_PERIODS:
            waited_s = totals(runs, Quantity.THROTTLED_S)
            message = _TEXTS.throttled(
                name=name,
                share=found[1] / max(found[0], found[1]),
                waited_s=f"{waited_s[0]:.1f}" if waited_s else "",
            )
            yield findings.broken(message, subject=name)


def _memory_pressure(facts: CampaignFacts) -> Iterator[findings.Ruling]:
    for name in facts.seen.configurations:
        share = rate(facts.runs_of(name), Quantity.MEMORY_PRESSURE_S)
        if share is None:
            yield findings.lacking("memory_pressure_s")
        elif share > MEMORY_PRESSURE_SHARE:
            message = f"{name}: processes waited for memory in {format_share(share)} of the time"
            yield findings.broken(message, subject=name)


def _swapping(facts: CampaignFacts) -> Iterator[findings.Ruling]:
    for name in facts.seen.configurations:
        pages_per_s = rate(facts.runs_of(name), Quantity.SWAPPED_PAGES)
        if pages_per_s is None:
            yield findings.lacking("swapped_pages")
        elif pages_per_s > SWAPPED_PER_S:
            message = f"{name}: the machine swapped {pages_per_s:.0f} pages a second"
            yield findings.broken(message, subject=name)


def _device_limit(facts: CampaignFacts) -> Iterator[findings.Ruling]:
    for name in facts.seen.configurations:
        if total(facts.runs_of(name), Quantity.DEVICE_BUSY_S) is None:
            yield findings.lacking("device_busy_s")
            continue
        for place, cell in enumerate(facts.seen.cells):
            runs = facts.seen.runs[name, cell]
            limit = obs.device_limit(run.evidence for run in runs if run.evidence)
            if limit is not None:
                message = _TEXTS.device_limit(
                    name=name,
                    limit=limit.words,
                    workload=cell.workload,
                    clients=cell.load.clients,
                )
                remedy = _wanted(facts, name, place, limit)
                yield findings.broken(message, subject=name, remedy=remedy)
                break


def _wanted(facts: CampaignFacts, name: str, place: int, limit: obs.DeviceLimit) -> str:
    """Return what the fastest configuration's rate would take of a limit; empty for the fastest."""
    seen = facts.seen
    rates = dict(zip(seen.configurations, np.median(seen.log_tps[..., place], axis=0), strict=True))
    best = max(rates, key=lambda each: float(rates[each]))
    if best == name:
        return ""
    needs = limit.times(float(np.exp(rates[best] - rates[name])))
    price = gp3_price(needs.requests_per_s or 0.0, (needs.bytes_per_s or 0.0) / MIB)
    return _TEXTS.device_limit_remedy(best=best, needs=needs.words, price=price)


def _disk_nearly_full(facts: CampaignFacts) -> Iterator[findings.Ruling]:
    seen = [_disk(run) for run in facts.runs]
    disks = [disk for disk in seen if disk is not None]
    if not disks:
        yield findings.lacking("disk_free_bytes and disk_bytes")
        return
    free, size = min(disks, key=lambda disk: disk[0] / disk[1])  # configurations may have several
    if free / size < DISK_FREE_SHARE:
        message = _TEXTS.disk_nearly_full(
            free_share=free / size, free=format_bytes(free), size=format_bytes(size)
        )
        yield findings.broken(message, subject="campaign")


def _disk(run: Run) -> tuple[float, float] | None:
    """Return what was free of the data's disk after a run, and its size; None: not known."""
    if run.evidence is None:
        return None
    free, size = (
        run.evidence.level(each) for each in (Quantity.DISK_FREE_BYTES, Quantity.DISK_BYTES)
    )
    return None if free is None or not size else (free, size)


def _read_amplification(facts: CampaignFacts) -> Iterator[findings.Ruling]:
    for name in facts.seen.configurations:
        found = totals(
            facts.runs_of(name), Quantity.DEVICE_READ_BYTES, Quantity.RELATION_READ_BYTES
        )
        if found is None:
            yield findings.lacking("device_read_bytes and relation_read_bytes")
        elif (
            obs.reads_weigh(facts.runs_of(name))
            and found[0] >= obs.ENOUGH_READ_BYTES
            and found[1] > 0
            and found[0] / found[1] > AMPLIFICATION
        ):
            message = _TEXTS.read_amplification(
                name=name,
                factor=f"{found[0] / found[1]:.1f}",
                read=format_bytes(found[0]),
                wanted=format_bytes(found[1]),
            )
            yield findings.broken(message, subject=name)


def _huge_pages_tried(facts: CampaignFacts) -> Iterator[findings.Ruling]:
    for configuration in facts.configurations:
        if configuration.asked_folded().get("huge_pages", "").lower() != "try":
            continue
        status = facts.in_force(configuration.name).get("huge_pages_status", "")
        used = levels(facts.runs_of(configuration.name), Quantity.SERVER_HUGE_BYTES)
        if status not in ("on", "off") and not used:
            yield findings.lacking("huge_pages_status or server_huge_bytes")
        elif status == "off" or (used and max(used) == 0):
            yield _not_on_huge_pages(facts, configuration)


def _not_on_huge_pages(facts: CampaignFacts, configuration: Configuration) -> findings.Ruling:
    in_force = facts.in_force(configuration.name)
    kib = int(in_unit(in_force.get("huge_page_size", "0"), "kB") or 0)
    runs = () if kib else facts.runs_of(configuration.name)  # these count the default size
    free = levels(runs, Quantity.HUGE_PAGES_FREE)
    needed = in_force.get("shared_memory_size_in_huge_pages", "")
    needed = needed if needed.isdigit() else ""
    kind = in_force.get("shared_memory_type", "mmap")
    return findings.broken(
        _TEXTS.not_on_huge_pages(
            name=configuration.name, free=f"{free[-1]:.0f}" if free else None, needed=needed
        ),
        subject=configuration.name,
        remedy=_TEXTS.huge_pages_remedy(pages=needed or "...", kib=kib)
        if kind == "mmap"
        else f"Set `shared_memory_type: mmap`: {kind} is never on huge pages.",
    )


def _shared_machine(facts: CampaignFacts) -> Iterator[findings.Ruling]:
    beside = [run for run in facts.runs if _is_beside(run)]
    if beside:
        yield _shared_node(beside, facts)
        return
    local = all(configuration.target.is_here for configuration in facts.configurations)
    limits = [name for t in facts.configurations for name in t.asked(Layer.CGROUP)]
    if not local or any("cpuset" in name for name in limits):
        return
    cpus = levels(facts.runs, Quantity.CPUS)
    per_s = rate(facts.runs, Quantity.GENERATOR_CPU_S)
    if per_s is None or not cpus or cpus[-1] <= 0:
        yield findings.lacking("generator_cpu_s and cpus")
        return
    message = _TEXTS.shared_machine(cpus=int(cpus[-1]), share=per_s / cpus[-1])
    yield findings.broken(message, subject="campaign")


def _is_beside(run: Run) -> bool:
    """Return whether the load generator was on the machine of a server in a cluster."""
    return run.evidence is not None and bool(run.evidence.level(Quantity.GENERATORS_BESIDE))


def _shared_node(beside: Sequence[Run], facts: CampaignFacts) -> findings.Ruling:
    cpus, per_s = levels(beside, Quantity.CPUS), rate(beside, Quantity.GENERATOR_CPU_S)
    share = per_s / cpus[-1] if cpus and cpus[-1] > 0 and per_s is not None else None
    return findings.broken(
        _TEXTS.shared_node(beside=len(beside), runs=len(facts.runs), share=share),
        subject="campaign",
        remedy=_TEXTS.shared_node_remedy(),
    )


def _beside_neighbours(facts: CampaignFacts) -> Iterator[findings.Ruling]:
    """Tell of blocks that count although a neighbour was there, and of neighbours only noted."""
    found = [
        (run, finding)
        for run in facts.runs
        for finding in run.findings
        if finding.code in findings.ENVIRONMENT
    ]
    borne = [
        (run, finding) for run, finding in found if finding.severity is findings.Severity.WARNING
    ]
    if borne:
        message = _TEXTS.beside_neighbours(
            beset=len({run.block for run, _ in borne}),
            blocks=facts.seen.blocks,
            causes=_by_code([finding.code for _, finding in borne]),
            first=borne[0][1].message,
        )
        yield findings.broken(message, subject="campaign")
    elif found:
        beset = len({run.place for run, _ in found})
        in_turns = any(run.turns for run, _ in found)
        most = beset > len(facts.runs) * MOST_RUNS and not in_turns
        message = _TEXTS.neighbours(
            beset=beset,
            runs=len(facts.runs),
            causes=_by_code([finding.code for _, finding in found]),
            first=found[0][1].message,
        )
        remedy = _TEXTS.neighbours_remedy(is_most=most, in_turns=in_turns)
        ruling = findings.broken(message, subject="campaign", remedy=remedy)
        yield ruling if most else replace(ruling, severity=findings.Severity.INFO)


def _foreign_load(facts: CampaignFacts) -> Iterator[findings.Ruling]:
    for found in neighbours.foreign_differences(facts.seen, facts.experiment, facts.results):
        result, share = found.result, found.share
        if share is None:
            yield findings.lacking(
                f"{count(LEAST_BLOCKS, 'block')} with others_cpu_s, server_cpu_s and"
                f" generator_cpu_s; {found.blocks} are there"
            )
        elif found.is_suspect:
            names = result.configuration, result.baseline
            more, less = names if share.estimate > 0 else reversed(names)
            low, high = sorted((abs(share.low), abs(share.high)))
            message = _TEXTS.foreign_load(
                more=more,
                less=less,
                workload=result.workload,
                share=abs(share.estimate),
                confidence=f"{100 * (1 - SUSPECT_LEVEL):g}",
                low=low,
                high=high,
                blocks=found.blocks,
                limit=found.limit,
            )
            yield findings.broken(message, subject=result.configuration)


def _by_code(codes: list[str]) -> str:
    return ", ".join(
        f"{findings.words_of(code)}: {count(number, 'run')}"
        for code, number in sorted(Counter(codes).items())
    )


def _probes_absent(facts: CampaignFacts) -> Iterator[findings.Ruling]:
    watched = [run.evidence for run in facts.runs if run.evidence is not None]
    absences = Counter(
        (absent.subject, absent.reason)
        for evidence in watched
        for absent in dict.fromkeys(evidence.absent)
        # One thread that serves all is accounted for without them.
        if absent.subject != obs.WAITS[0] or evidence.total(Quantity.MAIN_THREAD_CPU_S) is None
    )
    if not absences:
        return
    told = [
        f"{subject} ({reason.rstrip('.')}; {number} of {count(len(watched), 'run')})"
        for (subject, reason), number in absences.most_common(_MOST_ABSENCES)
    ]
    yield findings.broken(f"not measured: {', '.join(told)}", subject="campaign")


MACHINE_RULES: Final[tuple[findings.ValidityRule[CampaignFacts], ...]] = (
    findings.ValidityRule(
        code=findings.BESIDE_NEIGHBOUR,
        judges=findings.Judges.CAMPAIGN,
        severity=findings.Severity.WARNING,
        remedy="Quieten the machine and measure again; or read the intervals as they are.",
        source="METHOD 3.1",
        judge=_beside_neighbours,
    ),
    findings.ValidityRule(
        code="foreign-load-differs",
        judges=findings.Judges.COMPARISON,
        severity=findings.Severity.WARNING,
        remedy="Stop what else runs on the machine, and measure again.",
        source="the kernel's /proc/stat and /proc/PID/stat; threshold: a guess",
        judge=_foreign_load,
    ),
    findings.ValidityRule(
        code="quota-throttled",
        judges=findings.Judges.CONFIGURATION,
        severity=findings.Severity.WARNING,
        remedy="None if the quota is what you compare; otherwise raise it.",
        source="the kernel's cgroup cpu.stat",
        judge=_throttled,
    ),
    findings.ValidityRule(
        code="memory-pressure",
        judges=findings.Judges.CONFIGURATION,
        severity=findings.Severity.WARNING,
        remedy="Lower shared_buffers or work_mem of the configuration, or give the machine more.",
        source="the kernel's pressure stall information; threshold: a guess",
        judge=_memory_pressure,
    ),
    findings.ValidityRule(
        code="device-limit",
        judges=findings.Judges.CONFIGURATION,
        severity=findings.Severity.WARNING,
        remedy="None if the limit is what you compare; otherwise raise it, or keep more of the data"
        " in memory.",
        source="`/proc/diskstats`, second by second; thresholds: guesses",
        judge=_device_limit,
    ),
    findings.ValidityRule(
        code="swapping",
        judges=findings.Judges.CONFIGURATION,
        severity=findings.Severity.WARNING,
        remedy="Lower what the configuration keeps in memory, or give the machine more.",
        source="the kernel's /proc/vmstat; threshold: a guess",
        judge=_swapping,
    ),
    findings.ValidityRule(
        code="disk-nearly-full",
        judges=findings.Judges.CAMPAIGN,
        severity=findings.Severity.WARNING,
        remedy="Make room, or name another place with `target.directory`.",
        source="statvfs of the data directory; threshold: a guess",
        judge=_disk_nearly_full,
    ),
    findings.ValidityRule(
        code="read-amplification",
        engine=EngineName.POSTGRES,
        judges=findings.Judges.CONFIGURATION,
        severity=findings.Severity.WARNING,
        remedy="Look at the device's read_ahead_kb, and at its block size against 8 KiB pages.",
        source="pg_stat_io and /proc/diskstats",
        judge=_read_amplification,
    ),
    findings.ValidityRule(
        code="huge-pages-not-in-effect",
        engine=EngineName.POSTGRES,
        judges=findings.Judges.CONFIGURATION,
        severity=findings.Severity.WARNING,
        remedy="Reserve them (vm.nr_hugepages) and ask for `on`.",
        source="PostgreSQL's documentation, huge_pages and huge_pages_status",
        judge=_huge_pages_tried,
    ),
    findings.ValidityRule(
        code="shared-machine",
        judges=findings.Judges.CAMPAIGN,
        severity=findings.Severity.INFO,
        remedy="For numbers of the server alone put the load generator elsewhere, or bind both"
        " with `cgroup`.",
        source="PostgreSQL's documentation, pgbench, Good Practices",
        judge=_shared_machine,
    ),
    findings.ValidityRule(
        code="not-measured",
        judges=findings.Judges.CAMPAIGN,
        severity=findings.Severity.INFO,
        remedy="Verdicts do without it; only explanations that rest on it are left out.",
        source="the probe",
        judge=_probes_absent,
    ),
)


HIT_RATIO_POINTS: Final = 0.05
DEVICE_READS_FACTOR: Final = 2.0
LEAST_DEVICE_READS: Final = 0.1  # per transaction
LEAST_PAGES: Final = 1.0  # likewise, for a hit ratio
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


def _cache_regime(facts: CampaignFacts) -> Iterator[findings.Ruling]:
    for sides in facts.sides():
        every = [_regime(facts, sides, each.name) for each in facts.experiment.workloads]
        # The workload that differs most. The subject: what it reads beyond the other slows it.
        found = max((each for each in every if each is not None), default=None)
        if found is None:
            yield findings.lacking("pages_hit and pages_read, or device_reads and commits")
        elif found[2]:
            yield findings.broken(f"{found[1]}: {found[2]}", subject=found[1])


def _regime(facts: CampaignFacts, sides: Sides, workload: str) -> tuple[float, str, str] | None:
    """Return how far the sides differ under a workload, the poorer one and a clause.

    Both are empty where the sides are alike; None: neither pages nor reads were counted.
    """
    both = [
        tuple(run for run in runs if run.cell.workload == workload)
        for runs in (sides.mine, sides.theirs)
    ]
    hits = [_hit_ratio(runs) for runs in both]
    reads = [ratio(runs, Quantity.DEVICE_READS, Quantity.COMMITS) for runs in both]
    if None in hits and None in reads:
        return None
    poorer = _reads_more(hits, reads)
    if poorer is None:
        return 0.0, "", ""
    names = sides.name, sides.other
    name, other = names[poorer], names[1 - poorer]
    of = f" of {workload}" if len(facts.experiment.workloads) > 1 else ""
    told = [
        *_hits_differ(hits[poorer], hits[1 - poorer], other, of),
        *_reads_differ(reads[poorer], reads[1 - poorer], other, facts.experiment.words.one),
    ]
    apart = 0.0 if None in hits else abs((hits[0] or 0.0) - (hits[1] or 0.0))
    return apart, name, "; ".join(told)


def _reads_more(hits: list[float | None], reads: list[float | None]) -> int | None:
    """Return the side that found fewer pages in memory; None: they are alike."""
    if any(_hits_differ(hits[0], hits[1], "")):
        return int((hits[0] or 0.0) > (hits[1] or 0.0))
    if any(_reads_differ(reads[0], reads[1], "", "")):
        return int((reads[0] or 0.0) < (reads[1] or 0.0))
    return None


def _hit_ratio(runs: Runs) -> float | None:
    found = totals(runs, Quantity.PAGES_HIT, Quantity.PAGES_READ, Quantity.COMMITS)
    if found is None:
        return None
    pages = found[0] + found[1]
    return found[0] / pages if pages > 0 and pages >= LEAST_PAGES * found[2] else None


def _hits_differ(
    one: float | None, of_other: float | None, other: str, of: str = ""
) -> Iterator[str]:
    if one is not None and of_other is not None and abs(one - of_other) > HIT_RATIO_POINTS:
        yield (
            f"{format_share(one)} of the pages{of} were found in shared_buffers, under {other}"
            f" {format_share(of_other)}: valid for this size of data"
        )


def _reads_differ(
    one: float | None, of_other: float | None, other: str, work: str
) -> Iterator[str]:
    if one is None or of_other is None or max(one, of_other) <= LEAST_DEVICE_READS:
        return
    if max(one, of_other) > DEVICE_READS_FACTOR * min(one, of_other):
        yield f"{one:.2f} reads of the disk per {work}, under {other} {of_other:.2f}"


def _durability(facts: CampaignFacts) -> Iterator[findings.Ruling]:
    for asked in obs.result_contrasts(facts.experiment):
        for setting in GIVEN_UP:
            promised, traded = partial(_keeps, facts, setting), partial(_traded, setting)
            yield from weighed(facts, asked, promised, traded, f"{setting} in force")


def _keeps(facts: CampaignFacts, setting: str, configuration: str) -> bool | None:
    return keeps_commits(setting, facts.in_force(configuration))


def _traded(
    setting: str, one: tuple[str, bool], other: tuple[str, bool]
) -> Iterator[findings.Ruling]:
    """Rule on one setting of two sides, by whether each keeps what was committed."""
    (weak, least), (strong, most) = sorted((one, other), key=lambda side: side[1])
    if least != most:
        yield findings.broken(
            f"{weak}: {setting} gives up durability that {strong} keeps", subject=weak
        )


def _fits_in_memory(facts: CampaignFacts) -> Iterator[findings.Ruling]:
    why = _judges_storage(facts)
    if not why:
        return
    sizes = levels(facts.runs, Quantity.DATABASE_BYTES)
    buffers = levels(facts.runs, Quantity.SHARED_BUFFERS_BYTES)
    # Direct I/O of data files goes past the operating system's memory.
    direct = all("data" in facts.in_force(t.name).get(_DIRECT, "") for t in facts.configurations)
    memory = [] if direct else levels(facts.runs, Quantity.MEMORY_BYTES)
    held = [
        (what, min(found))
        for what, found in (("shared_buffers", buffers), ("the machine's memory", memory))
        if found and sizes and max(sizes) < min(found)
    ]
    if not sizes or not (held or memory or (direct and buffers)):
        yield findings.lacking("database_bytes, shared_buffers_bytes and memory_bytes")
    elif held:
        what, room = held[0]
        message = _TEXTS.fits_in_memory(
            why=why, data=format_bytes(max(sizes)), where=what, room=format_bytes(room)
        )
        yield findings.broken(message, subject="campaign")


def _judges_storage(facts: CampaignFacts) -> str:
    """Return by what the configurations differ that concerns storage; empty for nothing."""
    for key in ("directory", "storage_class", "wal_storage_class", "wal_storage"):
        if len({getattr(each.target, key, None) for each in facts.configurations}) > 1:
            return f"target.{key}"
    settings = [configuration.asked_folded() for configuration in facts.configurations]
    limits = [configuration.asked(Layer.CGROUP) for configuration in facts.configurations]
    for names, asked in ((sorted(_IO_SETTINGS), settings), (THROTTLES, limits)):
        for name in names:
            if len({each.get(name) for each in asked}) > 1:
                return name
    return ""


STORAGE_RULES: Final[tuple[findings.ValidityRule[CampaignFacts], ...]] = (
    findings.ValidityRule(
        code="cache-regime-differs",
        engine=EngineName.POSTGRES,
        judges=findings.Judges.COMPARISON,
        severity=findings.Severity.WARNING,
        remedy="Say for which size of data it holds; try a scale factor on either side of memory.",
        source="pg_stat_database, /proc/diskstats; thresholds: guesses",
        judge=_cache_regime,
    ),
    findings.ValidityRule(
        code="durability-traded",
        engine=EngineName.POSTGRES,
        judges=findings.Judges.COMPARISON,
        severity=findings.Severity.WARNING,
        remedy="Compare at equal durability, or say what the speed costs.",
        source="PostgreSQL's documentation, asynchronous commit and WAL settings",
        judge=_durability,
    ),
    findings.ValidityRule(
        code="fits-in-memory",
        engine=EngineName.POSTGRES,
        judges=findings.Judges.CAMPAIGN,
        severity=findings.Severity.WARNING,
        remedy="Raise the scale factor beyond the machine's memory.",
        source="PostgreSQL's documentation, shared_buffers",
        judge=_fits_in_memory,
    ),
)
