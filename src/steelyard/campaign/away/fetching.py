"""Bringing a record out of a cluster: checksummed, resumable, and read before it is believed.

Files come whole: each is put together beside its place and moved there when its checksum fits. The
journal comes last, so that what it tells of is there whenever it is.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from steelyard.campaign.away.following import PatientSource, Source
from steelyard.core.campaign import CampaignRecord
from steelyard.core.errors import RecordError
from steelyard.gateways.clock import Clock
from steelyard.gateways.files import make_directory, read_text, remove_tree, translated, write_text
from steelyard.places.job.record_files import JOURNAL, Piece, RecordFile
from steelyard.record.directory import COPY_NOTE, read_campaign

_MOST_BYTES: Final = 2 * 1024**2  # of one request; the answer is a third longer
_MOST_PIECES: Final = 40  # they stand in the request's URL, and some proxies take 8 KiB of it
_TRIES: Final = 3  # of what changes while it is brought
_PARTS: Final = ".parts"  # files that are not whole yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A record that is here.

    Attributes:
        record: What it tells.
        files: How many it has.
        came_bytes: What had to be brought; the rest was here.
    """

    record: CampaignRecord
    files: int
    came_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """One record to bring here.

    Attributes:
        campaign_id: That it must be of.
        target: Directory, new or of an earlier fetch.
        command: That brings it again, noted in the directory.
        told: Hears how it goes.
    """

    campaign_id: str
    target: Path
    command: str
    told: Callable[[str], None]


def fetch(
    asked: Fetch, opened: Callable[[], AbstractContextManager[Source]], clock: Clock
) -> Fetched:
    """Bring a record here, or what of it is not here yet; return it, verified.

    Args:
        asked: Which one, and where to.
        opened: Opens a way to it; a way that breaks is opened again.
        clock: Waits between tries.

    Raises:
        RecordError: The directory holds something else, files change faster than they are brought,
            or what came is no record of this campaign.
        TargetError: The cluster cannot be reached for a long time.
    """
    _require_room(asked)
    came, spoilt = 0, ["the journal"]
    with PatientSource(opened, clock, asked.told) as source:
        for _ in range(_TRIES):
            listed = source.listed()
            _require_journal(listed, asked)
            missing = [each for each in listed if not _is_here(asked.target / each.name, each)]
            came += sum(each.size_bytes for each in missing)
            spoilt = _bring(missing, asked.target, source)
            if not spoilt:
                break
    if spoilt:
        raise RecordError(
            f"the checksum of {', '.join(spoilt)} does not fit, however often it is brought",
            hint="Attach again when the campaign is at its end.",
        )
    return Fetched(record=_verified(asked), files=len(listed), came_bytes=came)


def _require_room(asked: Fetch) -> None:
    """Make the directory, or see that it is of an earlier fetch, and note where it comes from.

    Raises:
        RecordError: It holds something else.
    """
    target, note = asked.target, asked.target / COPY_NOTE
    occupied = target.exists() and (not target.is_dir() or any(target.iterdir()))
    if occupied and _campaign_of(note) != asked.campaign_id:
        raise RecordError(
            f"{target} exists and is no copy of campaign {asked.campaign_id}",
            hint="Name another directory with --out.",
        )
    make_directory(target)
    text = json.dumps({"campaign": asked.campaign_id, "command": asked.command}, indent=1)
    write_text(note, f"{text}\n", error_type=RecordError)


def _campaign_of(note: Path) -> str | None:
    """Return of which campaign a directory is a copy; None where no note says it."""
    try:
        return str(json.loads(read_text(note) or "")["campaign"])
    except (ValueError, LookupError, TypeError):
        return None


def _require_journal(listed: Sequence[RecordFile], asked: Fetch) -> None:
    if JOURNAL not in {each.name for each in listed}:
        raise RecordError(
            f"campaign {asked.campaign_id} has written nothing yet",
            hint="Attach again when it has begun; one that failed: steelyard attach"
            f" {asked.campaign_id} --remove",
        )


def _is_here(path: Path, wanted: RecordFile) -> bool:
    whole = path.is_file() and path.stat().st_size == wanted.size_bytes
    return whole and _digest(path) == wanted.sha256


def _digest(path: Path) -> str:
    with translated(path, RecordError), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _bring(missing: Sequence[RecordFile], target: Path, source: Source) -> list[str]:
    """Bring files, the journal last; return the names of those that changed on the way."""
    parts = target / _PARTS
    make_directory(parts)
    ordered = sorted(missing, key=lambda each: each.name == JOURNAL)
    by_name = {each.name: each for each in ordered}
    for each in ordered:
        _begin(each, parts, target)
    for batch in _batches(ordered, parts):
        for piece, content in zip(batch, source.read(batch), strict=True):
            _append(_part(by_name[piece.name], parts), content)
    spoilt = [each.name for each in ordered if not _settled(each, parts, target)]
    if not spoilt:
        remove_tree(parts)
    return spoilt


def _part(wanted: RecordFile, parts: Path) -> Path:
    """Return where a file is put together: a place of its own for each name and content."""
    return parts / hashlib.sha256(f"{wanted.sha256} {wanted.name}".encode()).hexdigest()


def _begin(wanted: RecordFile, parts: Path, target: Path) -> None:
    """Begin a part where there is none; that of a journal with the shorter one that is here."""
    part, here = _part(wanted, parts), target / wanted.name
    if part.exists():
        return
    with translated(part, RecordError):
        if wanted.name == JOURNAL and here.exists():
            shutil.copyfile(here, part)
        else:
            part.touch()


def _batches(ordered: Sequence[RecordFile], parts: Path) -> Iterator[list[Piece]]:
    """Yield the pieces that are not here yet, as many at once as one request takes."""
    batch: list[Piece] = []
    room = _MOST_BYTES
    for each in ordered:
        offset = _part(each, parts).stat().st_size
        while offset < each.size_bytes:
            size = min(room, each.size_bytes - offset)
            batch.append(Piece(name=each.name, offset=offset, size_bytes=size))
            offset, room = offset + size, room - size
            if not room or len(batch) == _MOST_PIECES:
                yield batch
                batch, room = [], _MOST_BYTES
    if batch:
        yield batch


def _append(part: Path, content: bytes) -> None:
    with translated(part, RecordError), part.open("ab") as file:
        file.write(content)


def _settled(wanted: RecordFile, parts: Path, target: Path) -> bool:
    """Move a part to its place and return true; one that does not fit is thrown away."""
    part, place = _part(wanted, parts), target / wanted.name
    if _digest(part) != wanted.sha256:
        part.unlink()
        if wanted.name == JOURNAL:
            place.unlink(missing_ok=True)  # it was no beginning of the new one
        return False
    make_directory(place.parent)
    with translated(place, RecordError):
        part.replace(place)
    return True


def _verified(asked: Fetch) -> CampaignRecord:
    """Return the campaign that the journal here tells of, every line of it checked.

    Raises:
        RecordError: It is damaged, or of another campaign.
    """
    record = read_campaign(asked.target)
    if record.campaign_id != asked.campaign_id:
        raise RecordError(
            f"the record that came is of campaign {record.campaign_id}, not of {asked.campaign_id}",
            hint="Look at the volume in the cluster before anything is removed.",
        )
    return record
