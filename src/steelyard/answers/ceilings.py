"""Figures of the database beside what its place was measured to do at most.

A figure above a ceiling means that one of the two is wrong. A log close to what the device takes
is limited by its bytes. A commit of one client waits for its own flush, because nobody is there to
share it with; an empty statement is the least that a statement can be; a read of the server that
the device serves is one of its reads.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Annotated, ClassVar, Final

from steelyard.answers import observations
from steelyard.answers.results import CampaignAnalysis, CellSummary, Grounds
from steelyard.core.experiment import Experiment, Layer
from steelyard.core.findings import Finding, Severity
from steelyard.core.measurement import Evidence, Quantity, Run
from steelyard.core.quantities import PERCENT, SECONDS, Computed, Named
from steelyard.core.schedule import (
    LOG_WRITE_BYTES,
    Ceiling,
    CeilingKind,
    ConfigurationName,
    WorkloadName,
)
from steelyard.core.wording import KIB, MIB, US_PER_S, format_bytes, format_share
from steelyard.report import document as doc
from steelyard.report.document import share

# A ceiling is the mean of one second, and printed without a spread: a guess. A device that others
# use moves by more, which the remedy says.
MARGIN = 0.2
# One commit per transaction, which writes. Of own scripts nobody knows.
_COMMITTING = frozenset({"simple-update", "tpcb-like"})
_LEAST_READ_BYTES = 4 * KIB  # the smallest size whose ceiling is measured
_ONE_STATEMENT = "select-only"
# Of the log's bytes, above which they and not the flushes are the limit. Data pages, snapshots and
# rewrites take from the same device, and the ceiling is one quiet second: a guess.
LOG_SHARE = 0.8
_LOGS = (Quantity.WAL_BYTES, Quantity.AOF_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRate:
    """The log of one configuration under one workload beside what its device takes.

    Attributes:
        how: The source of the ceiling, in words.
    """

    configuration: ConfigurationName
    workload: WorkloadName
    bytes_per_s: Annotated[float, "Bytes of the log per second: median over runs, ramp included."]
    most_bytes_per_s: Annotated[
        float | None,
        Named("device_bytes_per_s"),
        "Bytes per second that the device took in long writes; null where it was not measured.",
    ] = None
    absent: Annotated[str, "Why the device was not measured; null where it was."] = ""
    how: str = ""
    share: ClassVar = Computed(
        lambda log: log.bytes_per_s / log.most_bytes_per_s if log.most_bytes_per_s else None,
        Annotated[float | None, PERCENT, "The log's part of that, %; may be null."],
    )


def ceiling_findings(
    ceilings: Sequence[Ceiling], cells: Sequence[CellSummary], experiment: Experiment
) -> Iterator[Finding]:
    """Yield a warning for each cell of one client that is above a ceiling of its server."""
    for cell in cells:
        if cell.cell.load.clients != 1 or not cell.runs:
            continue
        builtin = experiment.workload(cell.cell.workload).builtin
        if builtin in _COMMITTING:
            yield from _above_sync(cell, _of(ceilings, CeilingKind.SYNC, cell.configuration))
        elif builtin == _ONE_STATEMENT and not _is_limited(experiment, cell.configuration):
            yield from _below_trip(cell, _of(ceilings, CeilingKind.ROUND_TRIP, cell.configuration))


def device_read_findings(ceilings: Sequence[Ceiling], runs: Iterable[Run]) -> Iterator[Finding]:
    """Warn of each configuration whose runs read faster than direct reads, by the median.

    Runs whose reads are smaller than any that was measured say nothing.
    """
    rates: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        rate_per_s = _reads_per_s(run.evidence) if run.evidence is not None else None
        if rate_per_s is not None:
            rates[run.configuration].append(rate_per_s)
    for configuration, found in rates.items():
        yield from read_findings(ceilings, configuration, median(found))


def _reads_per_s(seen: Evidence) -> float | None:
    size_bytes = observations.read_size_bytes(seen)
    if size_bytes is None or size_bytes < _LEAST_READ_BYTES:
        return None
    return observations.reads_per_s(seen)


def read_findings(
    ceilings: Sequence[Ceiling], configuration: str, reads_per_s: float
) -> Iterator[Finding]:
    """Yield a warning where a device served more reads than it was measured to give.

    Args:
        ceilings: Of the campaign.
        configuration: Whose server read.
        reads_per_s: Reads of its data device, of any size.
    """
    here = _of(ceilings, CeilingKind.DIRECT_READ, configuration)
    rates = [(c.rate_per_s, c) for c in here if c.rate_per_s is not None]
    if not rates:
        return
    most, ceiling = max(rates, key=lambda pair: pair[0])
    if reads_per_s > most * (1.0 + MARGIN):
        yield _warning(
            "above-read-ceiling",
            configuration,
            f"{configuration}: the device served {reads_per_s:,.0f} reads/s, and direct reads of"
            f" {ceiling.subject} reached {most:,.0f}/s: above its ceiling: a cache below the"
            " file system answered, more reads were in flight than there were readers, the ceiling"
            " was measured under a throttle or a neighbour, or the counter is of several devices",
            ceiling,
        )


def logs(grounds: Grounds) -> tuple[LogRate, ...]:
    """Return the logs of the runs that count, and what their devices take."""
    return log_rates(grounds.analysis.ceilings, grounds.analysis.runs)


def log_rates(ceilings: Sequence[Ceiling], runs: Iterable[Run]) -> tuple[LogRate, ...]:
    """Return the logs that were written, by configuration and workload in run order.

    The largest load of a workload counts, the one that writes most. Empty where nobody asked for
    the ceiling, as in old records.
    """
    if not any(each.kind is CeilingKind.LOG_WRITE for each in ceilings):
        return ()
    rates: dict[tuple[str, str], dict[object, list[float]]] = {}
    for run in runs:
        per_s = _log_per_s(run.evidence) if run.evidence is not None else None
        if per_s is not None:
            by_load = rates.setdefault((run.configuration, run.cell.workload), {})
            by_load.setdefault(run.cell.load, []).append(per_s)
    found = (
        _log_rate(ceilings, *key, max(map(median, by_load.values())))
        for key, by_load in rates.items()
    )
    return tuple(
        sorted((each for each in found if each.bytes_per_s), key=lambda e: e.configuration)
    )


def _log_per_s(seen: Evidence) -> float | None:
    written = next((total for each in _LOGS if (total := seen.total(each)) is not None), None)
    return None if written is None or seen.seconds <= 0 else written / seen.seconds


def _log_rate(
    ceilings: Sequence[Ceiling], configuration: str, workload: str, bytes_per_s: float
) -> LogRate:
    here = _of(ceilings, CeilingKind.LOG_WRITE, configuration)
    known = [each for each in here if each.rate_per_s is not None]
    told = here or [each for each in ceilings if each.kind is CeilingKind.LOG_WRITE]
    return LogRate(
        configuration=configuration,
        workload=workload,
        bytes_per_s=bytes_per_s,
        most_bytes_per_s=(known[0].rate_per_s or 0.0) * LOG_WRITE_BYTES if known else None,
        absent="" if known else told[0].unknown or "not measured where its log is",
        how=known[0].how if known else "",
    )


def log_findings(rates: Iterable[LogRate]) -> Iterator[Finding]:
    """Yield a warning for each configuration whose log comes near what the device takes."""
    worst: dict[str, LogRate] = {}
    for each in rates:
        if (each.share or 0.0) > LOG_SHARE:
            before = worst.setdefault(each.configuration, each)
            if (each.share or 0.0) > (before.share or 0.0):
                worst[each.configuration] = each
    for each in worst.values():
        yield Finding(
            code="log-limited-by-bytes",
            severity=Severity.WARNING,
            message=f"{each.configuration}: under {each.workload} the log is limited by bytes per"
            f" second, not by flushes: it wrote {format_bytes(each.bytes_per_s)}/s, which is"
            f" {format_share(each.share or 0.0)} of the"
            f" {format_bytes(each.most_bytes_per_s or 0.0)}/s that the device took in long writes",
            remedy="Do not read this as the price of a flush: smaller values or records, a"
            " compressed log (wal_compression) or a device with more bandwidth move it, fewer"
            f" flushes do not. Above {format_share(LOG_SHARE)} is a guess.",
            source=each.how,
            subject=each.configuration,
        )


def _is_limited(experiment: Experiment, configuration: str) -> bool:
    """Return whether the load generator may have run on other CPUs than the round trip."""
    return bool(experiment.configuration(configuration).asked(Layer.CGROUP))


def _of(ceilings: Iterable[Ceiling], kind: CeilingKind, configuration: str) -> list[Ceiling]:
    return [c for c in ceilings if c.kind is kind and configuration in c.configurations]


def _above_sync(cell: CellSummary, ceilings: Sequence[Ceiling]) -> Iterator[Finding]:
    surely = cell.tps.value if cell.tps.low is None else cell.tps.low
    for ceiling in ceilings:
        most = ceiling.rate_per_s
        if most is None or surely <= most * (1.0 + MARGIN):
            continue
        yield _warning(
            "above-sync-ceiling",
            cell.configuration,
            f"{cell.configuration}: {surely:,.0f} commits/s by one client in {cell.cell.workload},"
            f" and {ceiling.subject} reached {most:,.0f}/s: above its ceiling: a write cache or the"
            " clock lies, or fsync is not reaching the device",
            ceiling,
        )


def _below_trip(cell: CellSummary, ceilings: Sequence[Ceiling]) -> Iterator[Finding]:
    latency_s = cell.latency_mean_s
    for ceiling in ceilings:
        fastest_s = ceiling.fastest_s
        if latency_s is None or fastest_s is None or latency_s >= fastest_s * (1.0 - MARGIN):
            continue
        yield _warning(
            "below-round-trip",
            cell.configuration,
            f"{cell.configuration}: {latency_s * US_PER_S:,.0f} µs per transaction of one client in"
            f" {cell.cell.workload}, and 95 % of the round trips of an empty statement took"
            f" more than {fastest_s * US_PER_S:,.0f} µs: above its ceiling: the clock lies, or"
            " the way to the server was another one",
            ceiling,
        )


_REMEDIES = {
    "above-sync-ceiling": "Do not believe the commits before you know which it is: compare"
    " `fsync` and the place of pg_wal in the settings, repeat it on a quiet device (the ceiling is"
    f" the mean of one second; {format_share(MARGIN)} above it are let pass), and"
    " ask whether the drive's write cache survives a power cut.",
    "below-round-trip": "Do not believe the latency before you know why: repeat it on a quiet"
    " machine, and look for a pooler or proxy between generator and server.",
    "above-read-ceiling": "Repeat it on a quiet device, with data larger than every cache below.",
}


def _warning(code: str, configuration: str, message: str, ceiling: Ceiling) -> Finding:
    return Finding(
        code=code,
        severity=Severity.WARNING,
        message=message,
        remedy=_REMEDIES[code],
        source=ceiling.how,
        subject=configuration,
    )


_NAMES = {
    CeilingKind.ROUND_TRIP: "round trip",
    CeilingKind.PING_PONG: "ping-pong",
    CeilingKind.SYNC: "forced write",
    CeilingKind.DIRECT_READ: "direct read",
    CeilingKind.LOG_WRITE: "log write",
}
_NOTE = (
    "Measured before the first block. A figure of the database above one of these is a finding."
    " Latency is the median; of forced writes the mean. The method that a configuration's commits"
    " wait for names the configuration."
)

_LOG_NOTE = (
    "The log is WAL or the append-only file, by the median run at the load that writes most of it."
    f" Above {share(LOG_SHARE)} of what the device takes a finding says that bytes are the limit,"
    " not flushes; data pages, snapshots and rewrites go to the same device on top."
)


def microseconds(seconds: float | None) -> str:
    """Return a duration in µs with two significant digits or more, or a dash."""
    if doc.present(seconds) is None or seconds is None:
        return doc.MISSING
    value = seconds * US_PER_S
    return f"{value:,.{0 if value >= 10 else 1 if value >= 1 else 2}f}"


_PER_S: Final = doc.Form(show=doc.rate, heading="1/s")
_MICROSECONDS: Final = doc.Form(show=microseconds, unit=SECONDS, heading="µs")
_BANDWIDTH: Final = doc.Form(show=lambda bytes_per_s: doc.rate(bytes_per_s / MIB), heading="MiB/s")


def ceiling_tables(analysis: CampaignAnalysis) -> tuple[doc.Table, ...]:
    """Return the ceilings that were taken of this place, and the bytes of its logs."""
    taken = [each for each in analysis.ceilings if not each.unknown]
    place = doc.table_of(
        taken,
        doc.Cells(
            doc.Column(name="ceiling"),
            lambda ceiling: _NAMES[ceiling.kind],
            lambda ceiling: (("kind", ceiling.kind.value),),
        ),
        doc.column("of", lambda ceiling: ceiling.subject or None),
        doc.column("rate", lambda ceiling: ceiling.rate_per_s, _PER_S, key="rate_per_s"),
        doc.column("latency", lambda ceiling: ceiling.latency_s, _MICROSECONDS),
        doc.numbers(f"{doc.CONFIDENCE} interval", _median_interval, "µs", spare=True),
        doc.column("5 %", lambda ceiling: ceiling.fastest_s, _MICROSECONDS, key="fastest"),
        doc.column("99 %", lambda ceiling: ceiling.p99_s, _MICROSECONDS, key="p99"),
        doc.column("samples", lambda ceiling: ceiling.samples, doc.WHOLE, spare=True),
        doc.column(
            "holds for",
            lambda ceiling: doc.enumeration(ceiling.configurations) or None,
            key="configurations",
        ),
        doc.column("how", lambda ceiling: ceiling.how or None),
        title="Ceilings of this place",
        note=_NOTE,
    )
    return (*((place,) if taken else ()), *_log_table(analysis.answer(logs) or ()))


def _median_interval(ceiling: Ceiling) -> str:
    return (
        f"{microseconds(ceiling.low_s)} to {microseconds(ceiling.high_s)}"
        if ceiling.low_s
        else doc.MISSING
    )


def _log_table(rates: Sequence[LogRate]) -> tuple[doc.Table, ...]:
    """Return the logs beside what their device takes; none where no log was written."""
    if not rates:
        return ()
    table = doc.table_of(
        rates,
        doc.column("configuration", lambda log: log.configuration),
        doc.column("workload", lambda log: log.workload),
        doc.column("log", lambda log: log.bytes_per_s, _BANDWIDTH, key="bytes_per_s"),
        doc.column(
            "device, long writes",
            lambda log: log.most_bytes_per_s,
            _BANDWIDTH,
            key="device_bytes_per_s",
        ),
        doc.column("share", lambda log: log.share, doc.Form(show=format_share, unit=PERCENT)),
        title="Bytes of the log beside what the device takes",
        note=_LOG_NOTE,
    )
    return (table,)
