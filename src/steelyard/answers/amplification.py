"""Read amplification: what a device reads for each byte that the server asks for, and why.

PostgreSQL asks the operating system for pages. A file system reads whole blocks of its own, a
kernel whole pages of its memory, and read-ahead what may come next. What is read beyond the need
takes bandwidth, and room in the page cache.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from steelyard.answers.costs import POINTWISE
from steelyard.answers.observations import level, ratio_of_sums, sum_of, watched_blocks
from steelyard.answers.results import CampaignAnalysis, Grounds, cell_name
from steelyard.answers.validity.machine_rules import ENOUGH_READ_BYTES
from steelyard.core.findings import Estimate
from steelyard.core.measurement import Quantity
from steelyard.core.schedule import CellKey
from steelyard.core.storage import Provision
from steelyard.core.units import KIB, MIB, format_bytes
from steelyard.report.document import (
    MISSING,
    Block,
    BulletList,
    Column,
    Json,
    Row,
    Section,
    Table,
    bounds,
    interval,
    number_column,
    significant,
)

PAGE_BYTES: Final = 8 * KIB  # of PostgreSQL, unless it was built otherwise
# So close to a unit a request is of that unit; below, little more was read than was asked for. With
# nothing cached, requests were within 1 % of blocks of 16 and 64 KiB on one machine.
_CLOSE: Final = 1.25
_LEAST: Final = 0.1  # below, the page cache served nearly everything; a guess
TITLE: Final = "Read amplification"


class ReadCause(StrEnum):
    """What makes a device read more than the server asks for."""

    NONE = "none"
    BLOCKS = "blocks"  # of the file system
    MEMORY_PAGES = "memory-pages"  # of the kernel
    READ_AHEAD = "read-ahead"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFigures:
    """What was read in a cell under one configuration; medians over blocks with intervals.

    Attributes:
        amplification: Bytes that the device read for each that the server asked for.
        asked_bytes: By the server, per second.
        device_bytes: By the device, per second.
        request_bytes: Of one read of the device, on average.
        place: What is known of the file system and the kernel.
    """

    configuration: str
    cell: CellKey
    amplification: Estimate
    asked_bytes: Estimate
    device_bytes: Estimate
    request_bytes: Estimate
    place: Provision

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
        if (figures := _figures(grounds, name, cell, places.get(name, Provision()))) is not None
    )


_COUNTED: Final = (Quantity.DEVICE_READ_BYTES, Quantity.RELATION_READ_BYTES, Quantity.DEVICE_READS)
_READ, _ASKED, _READS = _COUNTED
_RATIOS: Final = ((_READ, _ASKED), (_ASKED, None), (_READ, None), (_READ, _READS))


def _figures(grounds: Grounds, name: str, cell: CellKey, place: Provision) -> ReadFigures | None:
    blocks = [
        block
        for block in watched_blocks(grounds.seen, name, cell)
        if all(ratio_of_sums(block, each, None) for each in _COUNTED)
    ]
    read = sum_of([run.total(_READ) for block in blocks for run in block])
    if read is None or read < ENOUGH_READ_BYTES:
        return None
    amplification, asked_s, device_s, request = (
        level(np.array([ratio_of_sums(block, above, below) for block in blocks], dtype=float))
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


def read_section(analysis: CampaignAnalysis) -> tuple[Section, ...]:
    """Return what devices read for what was asked for; nothing where they read little."""
    found: tuple[ReadFigures, ...] = analysis.answer(read_figures) or ()
    if not found:
        return ()
    blocks: tuple[Block, ...] = (
        _table(analysis, found),
        BulletList(lead=_LEAD, items=tuple(_told(found))),
    )
    return (Section(anchor="read-amplification", title=TITLE, blocks=blocks),)


def _table(analysis: CampaignAnalysis, found: tuple[ReadFigures, ...]) -> Table:
    columns = (
        Column(name="workload"),
        Column(name="load", spare=True),
        Column(name="configuration"),
        number_column("amplification"),
        number_column("95 % interval"),
        number_column("asked for", "MiB/s"),
        number_column("read", "MiB/s"),
        number_column("request", "KiB"),
        number_column("file-system block"),
        number_column("memory page", spare=True),
        number_column("read-ahead", spare=True),
    )
    rows = tuple(
        Row(
            cells=(
                each.cell.workload,
                cell_name(analysis.experiment, each.cell.load),
                each.configuration,
                significant(each.amplification.value),
                _range(each.amplification),
                significant(each.asked_bytes.value / MIB),
                significant(each.device_bytes.value / MIB),
                significant(each.request_bytes.value / KIB),
                _size(each.place.block_bytes),
                _size(each.place.page_bytes),
                _size(each.place.read_ahead_bytes),
            )
        )
        for each in found
    )
    note = (
        "Amplification is what the device of the data read over what the server asked the operating"
        " system for, WAL left out; below 1 the rest was in the kernel's page cache. A request is"
        f" one read of the device, on average. Medians over blocks. {POINTWISE}"
    )
    return Table(title="Reads of the device", columns=columns, rows=rows, note=note)


def _range(value: Estimate) -> str:
    pair = bounds(value)
    return MISSING if pair is None else " to ".join(map(significant, pair))


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
        yield _IN_THE_CACHE
        yield _IN_BANDWIDTH


def _words(each: ReadFigures) -> dict[str, str]:
    return {
        "amplification": significant(each.amplification.value),
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
_IN_THE_CACHE: Final = (
    "What is read beyond the need takes room in the page cache, which then holds fewer pages that"
    " somebody wants: `effective_cache_size` should count what shared buffers hold and, of the"
    " rest, the wanted part (one over the amplification)."
)
_IN_BANDWIDTH: Final = (
    "A device that is limited in bytes per second reaches that limit sooner, by the amplification,"
    " and one that is limited in requests does not. A random page then costs as many bytes as"
    " several in sequence: `random_page_cost` should be higher than on the same device with small"
    " blocks, where bytes are what is short."
)


def read_json(analysis: CampaignAnalysis) -> dict[str, Json]:
    """Return the same as plain values, where devices read enough; units are in the names."""
    found: tuple[ReadFigures, ...] = analysis.answer(read_figures) or ()
    if not found:
        return {}
    return {
        "read_amplification": [
            {
                "configuration": each.configuration,
                "workload": each.cell.workload,
                "clients": each.cell.load.clients,
                "amplification": interval(each.amplification),
                "asked_bytes_per_s": interval(each.asked_bytes),
                "device_bytes_per_s": interval(each.device_bytes),
                "request_bytes": interval(each.request_bytes),
                "block_bytes": each.place.block_bytes,
                "page_bytes": each.place.page_bytes,
                "read_ahead_bytes": each.place.read_ahead_bytes,
                "cause": each.cause.value,
            }
            for each in found
        ]
    }
