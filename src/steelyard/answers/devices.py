"""Devices of the data: how they stood, what sessions waited for, and what is read beyond the need.

Devices and wait events are the columns of ``iostat -x`` and the ranked wait events of each
configuration and cell, as the record has them. They describe; no verdict rests on them.

Read amplification is what a device reads for each byte that the server asks for, and why.
PostgreSQL asks the operating system for pages. A file system reads whole blocks of its own, a
kernel whole pages of its memory, and read-ahead what may come next. What is read beyond the need
takes bandwidth, and room in the page cache.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Annotated, ClassVar, Final, NamedTuple

import numpy as np

from steelyard.answers import observations as obs
from steelyard.answers.observations import level
from steelyard.answers.results import CampaignAnalysis, Grounds, cell_name
from steelyard.answers.sustained.compute import long_runs
from steelyard.core.experiment import Experiment
from steelyard.core.findings import Estimate
from steelyard.core.measurement import Evidence, Quantity, SustainedRun, WaitClass
from steelyard.core.places import Provision
from steelyard.core.quantities import INLINE, PER_SECOND, Computed, Named
from steelyard.core.schedule import CellKey, ConfigurationName, WorkloadName
from steelyard.core.wording import KIB, MIB, format_bytes, format_share
from steelyard.report import document as doc
from steelyard.report.keys import row_of
from steelyard.report.texts import Texts

_TEXTS: Final = Texts(__name__)


class Device(StrEnum):
    """Whose device: of the data, or of the WAL where that lies on another one."""

    DATA = "data"
    WAL = "wal"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceColumn:
    """A column of ``iostat -x``: a counter over the seconds, or over another counter.

    Attributes:
        name: As iostat prints it.
        unit: In a table, with ``show``, which takes base units.
        key: In ``summary.json``, in base units.
        above: Of the device of the data.
        below: None: the seconds.
        spare: May be left out where a table is too wide.
    """

    name: str
    unit: str
    key: str
    above: Quantity
    below: Quantity | None
    show: Callable[[float], str]
    spare: bool = False


def _mebibytes(value: float) -> str:
    return doc.significant(value / MIB)


def _kibibytes(value: float) -> str:
    return doc.significant(value / KIB)


def _percent(value: float) -> str:
    return doc.significant(100.0 * value)


_READS, _WRITES = Quantity.DEVICE_READS, Quantity.DEVICE_WRITES
_READ_BYTES, _WRITTEN_BYTES = Quantity.DEVICE_READ_BYTES, Quantity.DEVICE_WRITE_BYTES
_FLUSHES = Quantity.DEVICE_FLUSHES
# Each a name, a unit, a key, what is divided by what, how it is shown, and whether it is spare.
DEVICE_COLUMNS: Final = tuple(
    DeviceColumn(name=n, unit=u, key=k, above=a, below=b, show=show, spare=spare)
    for n, u, k, a, b, show, spare in (
        ("r/s", "", "reads_per_s", _READS, None, doc.rate, False),
        ("w/s", "", "writes_per_s", _WRITES, None, doc.rate, False),
        ("f/s", "", "flushes_per_s", _FLUSHES, None, doc.rate, False),
        ("read", "MiB/s", "read_bytes_per_s", _READ_BYTES, None, _mebibytes, False),
        ("written", "MiB/s", "written_bytes_per_s", _WRITTEN_BYTES, None, _mebibytes, False),
        ("r_await", "ms", "read_s", Quantity.DEVICE_READ_S, _READS, doc.milliseconds, False),
        ("w_await", "ms", "write_s", Quantity.DEVICE_WRITE_S, _WRITES, doc.milliseconds, False),
        ("f_await", "ms", "flush_s", Quantity.DEVICE_FLUSH_S, _FLUSHES, doc.milliseconds, True),
        ("aqu-sz", "", "in_flight", Quantity.DEVICE_QUEUE_S, None, doc.significant, False),
        ("rareq-sz", "KiB", "read_size_bytes", _READ_BYTES, _READS, _kibibytes, True),
        ("wareq-sz", "KiB", "write_size_bytes", _WRITTEN_BYTES, _WRITES, _kibibytes, True),
        ("%util", "", "busy_fraction", Quantity.DEVICE_BUSY_S, None, _percent, False),
    )
)
_MEANINGS: Final = {
    "reads_per_s": "r/s.",
    "writes_per_s": "w/s.",
    "flushes_per_s": "f/s.",
    "read_bytes_per_s": "Bytes read per second.",
    "written_bytes_per_s": "Bytes written per second.",
    "read_s": "r_await: mean time of a read, queue included, s.",
    "write_s": "w_await: mean time of a write, queue included, s.",
    "flush_s": "f_await: mean time of a flush, s.",
    "in_flight": "aqu-sz: mean requests in flight.",
    "read_size_bytes": "rareq-sz: mean size of a read.",
    "write_size_bytes": "wareq-sz: mean size of a write.",
    "busy_fraction": "%util as a fraction: time with any request in flight; no limit of a device"
    " that serves many at once.",
}
_SUSTAINED: Final = "A long run: it has neither blocks nor intervals."
NOT_COUNTED: Final = "not counted"
_NOT_HELD: Final = "not in the record"
_NO_READS_OF_WAL: Final = "of the WAL's device writes and flushes alone are recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotCounted:
    """A figure that was not counted."""

    figure: Annotated[str, "Key of the figure."]
    reason: Annotated[str, "Why not."]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFigures:
    """How a device stood in a cell or in a long run, under one configuration.

    Attributes:
        values: By key of ``DEVICE_COLUMNS``, medians over blocks with their intervals (none below 6
            blocks); None where it was not counted, and of a mean over no request at all.
        not_counted: By key, why not.
    """

    configuration: ConfigurationName
    cell: Annotated[CellKey, INLINE]
    sustained: Annotated[bool, _SUSTAINED]
    blocks: Annotated[int, "Blocks in which the device was counted; 0 of a long run."]
    device: Annotated[Device, "Device of the data directory, or a separate one of the WAL."]
    values: Annotated[Mapping[str, Estimate | None], INLINE, _MEANINGS]
    not_counted: dict[str, str]
    reasons: ClassVar = Computed(
        lambda figures: tuple(
            NotCounted(figure=key, reason=why) for key, why in figures.not_counted.items()
        ),
        Annotated[
            tuple[NotCounted, ...], Named("not_counted"), "Figures without a count, and why."
        ],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitShare:
    """What sessions of the load generator did for a part of their time.

    Attributes:
        name: Empty for CPU.
        share: With its interval.
    """

    kind: Annotated[str, Named("type"), "wait_event_type of pg_stat_activity, or CPU."]
    name: Annotated[str, Named("event"), "wait_event; null of CPU."] = ""
    group: Annotated[WaitClass, Named("class"), "Its class in the latency budget."]
    share: Annotated[
        Estimate, "Share of all samples of these sessions, a fraction: median over blocks."
    ]
    sessions: Annotated[float, "Mean sessions: median over blocks."]

    @property
    def label(self) -> str:
        """Return it as PostgreSQL's documentation writes it: ``IO: DataFileRead``."""
        return f"{self.kind}: {self.name}" if self.name else self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedWaits:
    """The wait events of a cell or of a long run, the largest share first."""

    configuration: ConfigurationName
    cell: Annotated[CellKey, INLINE]
    sustained: Annotated[bool, _SUSTAINED]
    blocks: Annotated[int, "Blocks in which they were sampled; 0 of a long run."]
    missing: Annotated[str, "Why there are no events; may be null."] = ""
    events: tuple[WaitShare, ...]
    largest: ClassVar = Computed(
        lambda waits: waits.events[:_MOST_TOLD],
        Annotated[tuple[WaitShare, ...], Named("events"), "At most 30, the largest share first."],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicesAndWaits:
    """All cells, workload by workload, and after them the long runs."""

    devices: Annotated[
        tuple[DeviceFigures, ...],
        "Columns of `iostat -x` for each configuration and cell, and each long run: medians over"
        " blocks, null if not counted, and of a mean over no request.",
    ]
    waits: Annotated[
        tuple[RankedWaits, ...],
        Named("wait_events"),
        "Wait events of the load generator's sessions for each configuration and cell, and each"
        " long run.",
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watched:
    """What was seen of a cell: of each block the evidence of its runs; a long run is one block."""

    configuration: str
    cell: CellKey
    blocks: tuple[tuple[Evidence, ...], ...]
    sustained: bool = False

    @property
    def all(self) -> list[Evidence]:
        return [seen for block in self.blocks for seen in block]

    def level(self, values: Iterable[float | None]) -> Estimate | None:
        """Return the median over blocks; None where no block has a value."""
        return level(np.array([np.nan if value is None else value for value in values]))


def devices_and_waits(grounds: Grounds) -> DevicesAndWaits | None:
    """Return how devices stood and what sessions waited for; None where no run was watched."""
    long = grounds.analysis.answer(long_runs) or ()
    watched = [*_of_cells(grounds.seen), *(_of_long_run(each.parts) for each in long)]
    watched = [each for each in watched if each.all]
    if not watched:
        return None
    return DevicesAndWaits(
        devices=tuple(figures for each in watched for figures in _devices_of(each)),
        waits=tuple(map(_ranked, watched)),
    )


def _of_cells(seen: obs.Observations) -> Iterator[_Watched]:
    for cell in seen.cells:
        for name in seen.configurations:
            blocks = obs.watched_blocks(seen, name, cell)
            yield _Watched(configuration=name, cell=cell, blocks=blocks)


def _of_long_run(parts: Sequence[SustainedRun]) -> _Watched:
    first = parts[0]
    return _Watched(
        configuration=first.configuration,
        cell=first.cell,
        blocks=(tuple(part.evidence for part in parts if part.evidence is not None),),
        sustained=True,
    )


def _devices_of(watched: _Watched) -> Iterator[DeviceFigures]:
    yield _figures(watched, Device.DATA)
    if any(seen.total(Quantity.WAL_DEVICE_WRITES) is not None for seen in watched.all):
        yield _figures(watched, Device.WAL)


def _figures(watched: _Watched, device: Device) -> DeviceFigures:
    values: dict[str, Estimate | None] = {}
    not_counted: dict[str, str] = {}
    for column in DEVICE_COLUMNS:
        above, below = _of_device(column.above, device), _of_device(column.below, device)
        blocks = [block for block in watched.blocks if _counts(block, above, below)]
        values[column.key] = watched.level(
            None if above is None else obs.ratio_of_sums(block, above, below) for block in blocks
        )
        if not blocks:
            not_counted[column.key] = _why_not(watched, above)
    counted = [b for b in watched.blocks if _counts(b, _of_device(_WRITES, device), None)]
    return DeviceFigures(
        configuration=watched.configuration,
        cell=watched.cell,
        device=device,
        sustained=watched.sustained,
        blocks=0 if watched.sustained else len(counted),
        values=values,
        not_counted=not_counted,
    )


# What a counter is called of the WAL's device; of some there is none.
_OF_WAL: Final = {each.value: each for each in Quantity if each.value.startswith("wal_device_")}


def _of_device(quantity: Quantity | None, device: Device) -> Quantity | None:
    """Return the counter of a device; None where none is recorded, and for the seconds."""
    if quantity is None or device is Device.DATA:
        return quantity
    return _OF_WAL.get(f"wal_{quantity.value}")


def _counts(block: Sequence[Evidence], above: Quantity | None, below: Quantity | None) -> bool:
    needed = [each for each in (above, below) if each is not None]
    counted = all(seen.total(each) is not None for seen in block for each in needed)
    return above is not None and bool(block) and counted


def _why_not(watched: _Watched, above: Quantity | None) -> str:
    if above is None:
        return _NO_READS_OF_WAL
    return obs.reason_among(watched.all, obs.subjects_of(above)) or _NOT_HELD


_Event = tuple[str, str, WaitClass]


def _ranked(watched: _Watched) -> RankedWaits:
    sampled = [found for block in watched.blocks if (found := _session_samples(block)) is not None]
    names = dict.fromkeys(event for found, _ in sampled for event in found)
    ranked = sorted(
        (_share_of(watched, event, sampled) for event in names),
        key=lambda each: (-each.share.value, -each.sessions, each.label),
    )
    missing = obs.reason_among(watched.all, obs.WAITS) or "wait events were not sampled"
    return RankedWaits(
        configuration=watched.configuration,
        cell=watched.cell,
        sustained=watched.sustained,
        blocks=0 if watched.sustained else len(sampled),
        events=tuple(ranked),
        missing="" if ranked else missing,
    )


def _session_samples(block: Sequence[Evidence]) -> tuple[dict[_Event, float], int] | None:
    """Return how often a session was seen with each event, and of how many samples.

    None where a run was not sampled, or nobody was there.
    """
    found: dict[_Event, float] = defaultdict(float)
    samples = 0
    for seen in block:
        if seen.waits is None or not seen.waits.samples:
            return None
        samples += seen.waits.samples
        for event in seen.waits.events:
            key = event.kind, event.name, event.group
            found[key] += event.sessions * seen.waits.samples
    return (found, samples) if sum(found.values()) > 0 else None


def _share_of(
    watched: _Watched, event: _Event, sampled: Sequence[tuple[dict[_Event, float], int]]
) -> WaitShare:
    kind, name, group = event
    shares = [found.get(event, 0.0) / sum(found.values()) for found, _ in sampled]
    sessions = [found.get(event, 0.0) / samples for found, samples in sampled]
    share = watched.level(shares) or Estimate(value=0.0)
    return WaitShare(
        kind=kind, name=name, group=group, share=share, sessions=float(np.median(sessions))
    )


DEVICES_TITLE: Final = "Devices and wait events"
_MOST_SHOWN: Final = 6  # wait events of a configuration; all are in summary.json
_MOST_TOLD: Final = 30  # there
_LEAST_SHOWN: Final = 0.01
_IN_ONE_PIECE: Final = "Counters are of the whole run, ramp included; samples come after it."


def device_section(analysis: CampaignAnalysis, found: DevicesAndWaits) -> tuple[doc.Section, ...]:
    """Return how devices stood and what sessions waited for."""
    blocks = (*_device_blocks(analysis, found.devices), *_wait_table(analysis, found.waits))
    return (doc.Section(anchor="devices", title=DEVICES_TITLE, blocks=blocks),)


def _device_blocks(
    analysis: CampaignAnalysis, devices: Sequence[DeviceFigures]
) -> Iterator[doc.Block]:
    """Yield the table, or why there is none."""
    if all(len(each.not_counted) == len(DEVICE_COLUMNS) for each in devices):
        reasons = dict.fromkeys(why for each in devices for why in each.not_counted.values())
        yield doc.Paragraph(
            text=doc.ended(f"The device of the data: {NOT_COUNTED}: {'; '.join(reasons)}")
        )
        return
    with_wal = any(each.device is Device.WAL for each in devices)
    device = ("device", lambda each: "WAL" if each.device is Device.WAL else "data")
    reach = _TEXTS.in_turns() if analysis.is_in_turns else _IN_ONE_PIECE
    yield doc.table_of(
        devices,
        ("workload", lambda each: each.cell.workload),
        (doc.Column(name="load", spare=True), partial(_load, analysis)),
        ("configuration", lambda each: each.configuration),
        *((device,) if with_wal else ()),
        *(
            doc.numbers(column.name, partial(_device_cell, column), column.unit, spare=column.spare)
            for column in DEVICE_COLUMNS
        ),
        title="Devices",
        note=" ".join((_TEXTS.devices(), reach, *_not_counted_words(devices))),
        data=row_of,
        reason=lambda each: "; ".join(dict.fromkeys(each.not_counted.values())),
    )


def _device_cell(column: DeviceColumn, each: DeviceFigures) -> str:
    if column.key in each.not_counted:
        return NOT_COUNTED
    value = each.values[column.key]
    return doc.MISSING if value is None else doc.with_interval(value, column.show)


def _load(analysis: CampaignAnalysis, each: DeviceFigures | RankedWaits) -> str:
    load = cell_name(analysis.experiment, each.cell.load)
    return f"{load}, long run" if each.sustained else load


def _not_counted_words(devices: Sequence[DeviceFigures]) -> Iterator[str]:
    """Yield what was not counted and why, reason by reason."""
    by_reason: dict[str, dict[str, None]] = defaultdict(dict)
    for each in devices:
        for column in DEVICE_COLUMNS:
            if column.key in each.not_counted:
                by_reason[each.not_counted[column.key]][column.name] = None
    for reason, names in by_reason.items():
        yield doc.ended(f"Not counted: {doc.enumeration(tuple(names))}: {reason}")


def _wait_table(analysis: CampaignAnalysis, waits: Sequence[RankedWaits]) -> Iterator[doc.Block]:
    """Yield the first wait events of each cell, or why there are none."""
    if not any(each.events for each in waits):
        reasons = dict.fromkeys(each.missing for each in waits if each.missing)
        if reasons:
            yield doc.Paragraph(text=doc.ended(f"Wait events: {'; '.join(reasons)}"))
        return
    least = format_share(_LEAST_SHOWN)
    left = f"At most {_MOST_SHOWN} of a configuration and from {least} on; the others are in"
    left += " summary.json."
    yield doc.table_of(
        (row for each in waits for row in _wait_rows(each)),
        ("workload", lambda row: row.waits.cell.workload if row.is_first else ""),
        (
            doc.Column(name="load", spare=True),
            lambda row: _load(analysis, row.waits) if row.is_first else "",
        ),
        ("configuration", lambda row: row.waits.configuration if row.is_first else ""),
        (
            "wait event",
            lambda row: row.event.label if row.event else f"not sampled: {row.waits.missing}",
        ),
        doc.numbers(
            "share", lambda row: format_share(row.event.share.value) if row.event else doc.MISSING
        ),
        doc.numbers(
            "95 % interval",
            lambda row: doc.between(row.event.share if row.event else None, format_share),
        ),
        doc.numbers(
            "sessions",
            lambda row: doc.significant(row.event.sessions) if row.event else doc.MISSING,
        ),
        title="Wait events by share",
        note=f"{_TEXTS.waits()} {left}",
        data=lambda row: (*row_of(row.waits), *(row_of(row.event) if row.event else ())),
    )


class _WaitRow(NamedTuple):
    """A wait event of a configuration; None where it was not sampled."""

    waits: RankedWaits
    event: WaitShare | None
    is_first: bool = True


def _wait_rows(waits: RankedWaits) -> Iterator[_WaitRow]:
    if not waits.events:
        yield _WaitRow(waits, None)
    for place, event in enumerate(waits.events[:_MOST_SHOWN]):
        if event.share.value < _LEAST_SHOWN:
            return
        yield _WaitRow(waits, event, is_first=not place)


PAGE_BYTES: Final = 8 * KIB  # of PostgreSQL, unless it was built otherwise
# So close to a unit a request is of that unit; below, little more was read than was asked for. With
# nothing cached, requests were within 1 % of blocks of 16 and 64 KiB on one machine.
_CLOSE: Final = 1.25
_LEAST: Final = 0.1  # below, the page cache served nearly everything; a guess
READ_TITLE: Final = "Read amplification"


class ReadCause(StrEnum):
    """What makes a device read more than the server asks for."""

    NONE = "none"
    BLOCKS = "blocks"  # of the file system
    MEMORY_PAGES = "memory-pages"  # of the kernel
    READ_AHEAD = "read-ahead"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFigures:
    """What was read in a cell under one configuration; medians over blocks with intervals."""

    configuration: ConfigurationName
    cell: CellKey
    workload: ClassVar = Computed(lambda reads: reads.cell.workload, WorkloadName)
    clients: ClassVar = Computed(
        lambda reads: reads.cell.load.clients, Annotated[int, "Client sessions, in all."]
    )
    amplification: Annotated[
        Estimate, "Bytes that the device read for each that the server requested."
    ]
    asked_bytes: Annotated[Estimate, PER_SECOND, "Bytes that the server requested, per second."]
    device_bytes: Annotated[Estimate, PER_SECOND, "Bytes that the device read, per second."]
    request_bytes: Annotated[Estimate, "Bytes of one read of the device, on average."]
    place: Annotated[Provision, INLINE]
    likely: ClassVar = Computed(
        lambda reads: reads.cause, Annotated[ReadCause, Named("cause"), "The likely cause."]
    )

    @property
    def cause(self) -> ReadCause:
        """Return what explains it, by the units in which each may read.

        What was found in the page cache was asked for and not read, so where much is cached the
        amplification is too small to tell, and nothing is said.
        """
        if self.amplification.value < _CLOSE:
            return ReadCause.NONE
        units = {
            ReadCause.BLOCKS: self.place.block_bytes,
            ReadCause.MEMORY_PAGES: self.place.page_bytes,
        }
        for cause, unit in units.items():
            if unit is not None and unit > PAGE_BYTES and self._is_in_units_of(unit):
                return cause
        largest = max(PAGE_BYTES, *(unit or 0 for unit in units.values()))
        if self.place.read_ahead_bytes and self.request_bytes.value > largest * _CLOSE:
            return ReadCause.READ_AHEAD
        return ReadCause.UNKNOWN

    def _is_in_units_of(self, unit: int) -> bool:
        return unit / _CLOSE <= self.request_bytes.value <= unit * _CLOSE


def read_figures(grounds: Grounds) -> tuple[ReadFigures, ...]:
    """Return what was read, in all cells in which a device read enough to judge by."""
    environment = grounds.record.environment
    servers = () if environment is None else environment.servers
    places = {server.configuration: server.provision or Provision() for server in servers}
    return tuple(
        figures
        for cell in grounds.seen.cells
        for name in grounds.seen.configurations
        if (figures := _reads_of(grounds, name, cell, places.get(name, Provision()))) is not None
    )


_ASKED: Final = Quantity.RELATION_READ_BYTES
_COUNTED: Final = (_READ_BYTES, _ASKED, _READS)
_RATIOS: Final = (
    (_READ_BYTES, _ASKED),
    (_ASKED, None),
    (_READ_BYTES, None),
    (_READ_BYTES, _READS),
)


def _reads_of(grounds: Grounds, name: str, cell: CellKey, place: Provision) -> ReadFigures | None:
    blocks = [
        block
        for block in obs.watched_blocks(grounds.seen, name, cell)
        if all(obs.ratio_of_sums(block, each, None) for each in _COUNTED)
    ]
    read = obs.sum_of([run.total(_READ_BYTES) for block in blocks for run in block])
    if read is None or read < obs.ENOUGH_READ_BYTES:
        return None
    if not obs.reads_weigh(grounds.seen.runs[name, cell]):
        return None
    amplification, asked_s, device_s, request = (
        level(np.array([obs.ratio_of_sums(block, above, below) for block in blocks], dtype=float))
        for above, below in _RATIOS
    )
    if amplification is None or asked_s is None or device_s is None or request is None:
        return None
    if amplification.value < _LEAST:
        return None
    return ReadFigures(
        configuration=name,
        cell=cell,
        amplification=amplification,
        asked_bytes=asked_s,
        device_bytes=device_s,
        request_bytes=request,
        place=place,
    )


def read_section(
    analysis: CampaignAnalysis, found: tuple[ReadFigures, ...]
) -> tuple[doc.Section, ...]:
    """Return what devices read for what was asked for."""
    table = _read_table(analysis.experiment, found)
    causes = doc.BulletList(lead=_LEAD, items=tuple(_told(found)))
    return (doc.Section(anchor="read-amplification", title=READ_TITLE, blocks=(table, causes)),)


def _read_table(experiment: Experiment, found: Sequence[ReadFigures]) -> doc.Table:
    return doc.table_of(
        found,
        ("workload", lambda each: each.cell.workload),
        (doc.Column(name="load", spare=True), lambda each: cell_name(experiment, each.cell.load)),
        ("configuration", lambda each: each.configuration),
        doc.numbers("amplification", lambda each: doc.significant(each.amplification.value)),
        doc.numbers("95 % interval", lambda each: doc.between(each.amplification, doc.significant)),
        doc.numbers(
            "asked for", lambda each: doc.with_interval(each.asked_bytes, _mebibytes), "MiB/s"
        ),
        doc.numbers("read", lambda each: doc.with_interval(each.device_bytes, _mebibytes), "MiB/s"),
        doc.numbers(
            "request", lambda each: doc.with_interval(each.request_bytes, _kibibytes), "KiB"
        ),
        doc.numbers("file-system block", lambda each: _size(each.place.block_bytes)),
        doc.numbers("memory page", lambda each: _size(each.place.page_bytes), spare=True),
        doc.numbers("read-ahead", lambda each: _size(each.place.read_ahead_bytes), spare=True),
        title="Reads of the device",
        note="Amplification is what the device of the data read over what the server asked the"
        " operating system for, WAL left out; below 1 the rest was in the kernel's page cache. A"
        f" request is one read of the device, on average. Medians over blocks. {doc.POINTWISE}",
        data=lambda each: (*row_of(each.cell), *row_of(each)),
    )


def _size(value: int | None) -> str:
    return "not known" if value is None else format_bytes(value)


def _told(found: tuple[ReadFigures, ...]) -> Iterator[str]:
    """Yield the cause for each configuration, at its largest amplification, and what follows."""
    worst: dict[str, ReadFigures] = {}
    for each in found:
        known = worst.get(each.configuration)
        if known is None or each.amplification.value > known.amplification.value:
            worst[each.configuration] = each
    for each in worst.values():
        yield f"{each.configuration}: {_CAUSES[each.cause].format(**_words(each))}"
    if any(each.cause in _WITH_EFFECTS for each in worst.values()):
        yield _TEXTS.in_the_cache()
        yield _TEXTS.in_bandwidth()


def _words(each: ReadFigures) -> dict[str, str]:
    return {
        "amplification": doc.significant(each.amplification.value),
        "request": format_bytes(round(each.request_bytes.value)),
        "block": _size(each.place.block_bytes),
        "page": _size(each.place.page_bytes),
        "ahead": _size(each.place.read_ahead_bytes),
        "asked": format_bytes(PAGE_BYTES),
    }


_LEAD: Final = "At its largest, for each configuration:"
_WITH_EFFECTS: Final = (ReadCause.BLOCKS, ReadCause.MEMORY_PAGES, ReadCause.READ_AHEAD)
_CAUSES: Final = {
    ReadCause.NONE: "the device read little more than the server asked for"
    " ({amplification} bytes for one, {request} a request).",
    ReadCause.BLOCKS: "{amplification} bytes for one, because the file system has blocks of"
    " {block}: a miss of {asked} reads a whole one.",
    ReadCause.MEMORY_PAGES: "{amplification} bytes for one, because the kernel has memory pages of"
    " {page}: a miss of {asked} fills a whole one.",
    ReadCause.READ_AHEAD: "{amplification} bytes for one in requests of {request}, larger than a"
    " block ({block}) and a memory page ({page}): what fits is read-ahead (at most {ahead}). A"
    " campaign with `linux: {{read_ahead: ...}}` would show it.",
    ReadCause.UNKNOWN: "{amplification} bytes for one in requests of {request}. Neither blocks"
    " ({block}) nor memory pages ({page}) are of that size: other programs, or other files on the"
    " device, may have read, too.",
}
