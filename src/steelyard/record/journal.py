"""The append-only journal, one JSON object per line, and the campaign that its lines tell of.

Each line has its own checksum and is fsync'd. Invariant: a line that ``append`` returned from is on
disk and will be read back. What stands after the last newline was torn by a death in the middle of
a write; it was never acknowledged and is cut off. A damaged line is an error, because what follows
it may rest on it.
"""

import json
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from steelyard.core.campaign import BlockOutcome, CampaignRecord
from steelyard.core.errors import RecordError
from steelyard.core.latency import LogPolicy
from steelyard.core.plan import Status
from steelyard.gateways.clock import Clock
from steelyard.gateways.files import sync_directory, translated
from steelyard.record.entries import (
    ENTRY,
    BlockEnded,
    BlockStarted,
    Created,
    Ended,
    Entry,
    EnvironmentRead,
    Line,
    Noted,
    Planned,
    Provisioned,
    Removed,
    RunFinished,
    Started,
    SustainedFinished,
)

FORMAT = 1
# A guess: a hundred times what campaigns of a day had.
_LARGEST_BYTES = 2 << 30
_CHECKSUM = ',"crc32":"{:08x}"}}'
_CHECKSUM_LENGTH = len(_CHECKSUM.format(0))


class Journal:
    """An open journal; ``append`` is the only way to write."""

    def __init__(self, path: Path, clock: Clock, *, mode: int = 0o644) -> None:
        """Open for appending, after cutting off a torn last line; a new file gets the mode.

        Raises:
            RecordError: The journal is damaged or cannot be written.
        """
        self._path = path
        self._clock = clock
        lines, good_bytes = read_lines(path) if path.exists() else ((), 0)
        # The next line's number, and the bytes of all lines that were acknowledged.
        self._next = (len(lines), good_bytes)
        self._elapsed_before = lines[-1].elapsed_s if lines else 0.0
        self._opened = clock.monotonic()
        with translated(path, RecordError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(path, flags, mode)
            sync_directory(path.parent)

    @property
    def elapsed_s(self) -> float:
        """Return seconds of work so far, over all sessions of the campaign."""
        return self._elapsed_before + self._clock.monotonic() - self._opened

    def append(self, entry: Entry) -> Line:
        """Write one entry and return once it is on disk.

        Raises:
            RecordError: The disk is full or fails.
        """
        sequence, good_bytes = self._next
        line = Line(
            sequence=sequence,
            at=self._clock.now(),
            elapsed_s=self.elapsed_s,
            entry=entry,
        )
        content = encode(line)
        with translated(self._path, RecordError):
            # A full disk or Ctrl-C may have ended an append before this one half-way.
            os.ftruncate(self._descriptor, good_bytes)
            _write_all(self._descriptor, content)
            os.fsync(self._descriptor)
        self._next = (sequence + 1, good_bytes + len(content))
        return line

    def close(self) -> None:
        """Close the file; closing twice is no error."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def encode(line: Line) -> bytes:
    """Return a line as JSON with the checksum of everything before it."""
    entry = ENTRY.dump_json(line.entry).decode()
    head = json.dumps(
        {
            "format": FORMAT,
            "sequence": line.sequence,
            "at": round(line.at, 6),
            "elapsed_s": round(line.elapsed_s, 6),
        },
        separators=(",", ":"),
    )
    body = f'{head[:-1]},"entry":{entry}'
    return (body + _CHECKSUM.format(zlib.crc32(body.encode())) + "\n").encode()


def read_lines(path: Path) -> tuple[tuple[Line, ...], int]:
    """Return all good lines and how many bytes they take; a torn last line is left out.

    Raises:
        RecordError: The file cannot be read, or a line is damaged.
    """
    with translated(path, RecordError):
        if path.stat().st_size > _LARGEST_BYTES:
            raise RecordError(
                f"{path} is larger than any journal", hint="Name the directory of a campaign."
            )
        content = path.read_bytes()
    *whole, torn = content.split(b"\n")
    lines = tuple(_line(raw, number, str(path)) for number, raw in enumerate(whole))
    return lines, len(content) - len(torn)


class JournalTail:
    """A journal that is read while another machine writes it, in pieces that end anywhere."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._next = 0
        self._torn = b""

    def feed(self, piece: bytes) -> tuple[Line, ...]:
        """Return the lines that are whole now and were not before.

        Raises:
            RecordError: A line is damaged.
        """
        *whole, self._torn = (self._torn + piece).split(b"\n")
        first, self._next = self._next, self._next + len(whole)
        return tuple(_line(raw, number, self._name) for number, raw in enumerate(whole, first))


def _line(raw: bytes, sequence: int, name: str) -> Line:
    try:
        return _decode(raw, expected_sequence=sequence)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise RecordError(
            f"{name} is damaged at line {sequence + 1}: {error}",
            hint="Restore it from a copy, or keep what is before that line in a copy of it.",
        ) from error


def _decode(raw: bytes, *, expected_sequence: int) -> Line:
    body, tail = raw[:-_CHECKSUM_LENGTH], raw[-_CHECKSUM_LENGTH:]
    if tail != _CHECKSUM.format(zlib.crc32(body)).encode():
        raise ValueError("its checksum does not fit")
    fields = json.loads(body + b"}")
    if fields["format"] != FORMAT:
        raise ValueError(f"format {fields['format']} is not known to this version of Steelyard")
    if fields["sequence"] != expected_sequence:
        raise ValueError(f"it is number {fields['sequence']}, expected {expected_sequence}")
    try:
        entry = ENTRY.validate_python(_as_it_was(fields["entry"]))
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{first['msg']} at {'.'.join(map(str, first['loc']))}") from error
    return Line(
        sequence=fields["sequence"],
        at=float(fields["at"]),
        elapsed_s=float(fields["elapsed_s"]),
        entry=entry,
    )


def _as_it_was(entry: Any) -> Any:  # noqa: ANN401 - JSON that is not validated yet
    """Return an entry that says what its version did: the first ones logged no transaction.

    Where such a campaign goes on, its further blocks are not logged either: a log costs throughput.
    """
    try:
        measure = entry["experiment"]["measure"]
    except (KeyError, TypeError):
        return entry
    if isinstance(measure, dict):
        measure.setdefault("log", LogPolicy.OFF.value)
    return entry


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


IN_FLIGHT = "Steelyard ended while it ran"


def replay(lines: Sequence[Line]) -> CampaignRecord:
    """Return the campaign that journal lines tell of.

    Raises:
        RecordError: The journal does not begin with the start of a campaign.
    """
    start = _start(lines)
    entries = [line.entry for line in lines]
    plan = [entry.plan for entry in entries if isinstance(entry, Planned)]
    planned_at = [line.elapsed_s for line in lines if isinstance(line.entry, Planned)]
    environment = [entry.environment for entry in entries if isinstance(entry, EnvironmentRead)]
    return CampaignRecord(
        campaign_id=start.campaign_id,
        experiment=start.experiment,
        status=_status(entries),
        plan=plan[-1] if plan else None,
        environment=environment[-1] if environment else None,
        runs=tuple(entry.run for entry in entries if isinstance(entry, RunFinished)),
        blocks=_outcomes(entries),
        findings=tuple(entry.finding for entry in entries if isinstance(entry, Noted)),
        started_at=lines[0].at,
        elapsed_s=lines[-1].elapsed_s,
        command=start.command,
        sustained=tuple(entry.run for entry in entries if isinstance(entry, SustainedFinished)),
        planned_at_s=planned_at[-1] if planned_at else None,
        made=tuple(entry.server for entry in entries if isinstance(entry, Provisioned)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a campaign stands, as far as those need to know who clear up after it.

    Attributes:
        left: Made or changed outside the record and not undone again, last made first.
        ever: All that was made or changed, undone or not.
    """

    campaign_id: str
    status: Status
    left: tuple[Created, ...]
    ever: tuple[Created, ...]


def standing(lines: Sequence[Line]) -> Standing:
    """Return where the campaign stands that journal lines tell of.

    Raises:
        RecordError: The journal does not begin with the start of a campaign.
    """
    return Standing(
        campaign_id=_start(lines).campaign_id,
        status=_status([line.entry for line in lines]),
        left=_left(lines),
        ever=tuple(line.entry for line in lines if isinstance(line.entry, Created)),
    )


def _start(lines: Sequence[Line]) -> Started:
    if not lines or not isinstance(lines[0].entry, Started):
        raise RecordError(
            "the journal does not begin with the start of a campaign",
            hint="Name the directory of a campaign.",
        )
    return lines[0].entry


def _left(lines: Sequence[Line]) -> tuple[Created, ...]:
    left: list[Created] = []
    for line in lines:
        entry = line.entry
        if isinstance(entry, Created):
            left.append(entry)
        elif isinstance(entry, Removed):
            gone = [m for m in left if (m.resource, m.name) == (entry.resource, entry.name)]
            if gone:
                left.remove(gone[0])
    return tuple(reversed(left))


def _status(entries: Sequence[Entry]) -> Status:
    last = entries[-1]
    for entry in reversed(entries):
        if not isinstance(entry, Removed):  # clearing up comes after the end
            last = entry
            break
    return last.status if isinstance(last, Ended) else Status.RUNNING


def _outcomes(entries: Sequence[Entry]) -> tuple[BlockOutcome, ...]:
    """Return one outcome per try; a try that never ended was in flight at a death."""
    outcomes: list[BlockOutcome] = []
    open_try: BlockStarted | None = None
    for entry in entries:
        if isinstance(entry, BlockStarted):
            if open_try is not None:
                outcomes.append(_in_flight(open_try))
            open_try = entry
        elif isinstance(entry, BlockEnded):
            outcomes.append(entry.outcome)
            open_try = None
    if open_try is not None:
        outcomes.append(_in_flight(open_try))
    return tuple(outcomes)


def _in_flight(started: BlockStarted) -> BlockOutcome:
    return BlockOutcome(
        index=started.index, attempt=started.attempt, complete=False, reason=IN_FLIGHT
    )
