"""The registry in the cache: which campaigns this account began, and what they make outside.

``clean`` finds there what is left when a record was deleted. A record may come from somebody else:
nothing outside its directory is undone, and no campaign goes on, unless the registry knows it too.
"""

import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from steelyard.core import outside
from steelyard.core.experiment import Experiment
from steelyard.core.wording import RecordError, form_of
from steelyard.gateways import files
from steelyard.record.directory import standing_in
from steelyard.record.journal import Created, Standing

_PATHS: Final = (outside.MadeDirectory, outside.ControlGroup)
_MOUNT: Final = "mount "  # begins the line of a directory where a file system is mounted
_EXPERIMENT: Final = "experiment "  # begins the line of what the campaign compares, as JSON
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")  # never a path, never hidden


def directory() -> Path:
    """Return where the campaigns are noted, each in a file of its own."""
    return files.cache_directory() / "campaigns"


def register(campaign_id: str, record: Path, experiment: Experiment | None = None) -> None:
    """Note where a campaign's record is, so that ``clean`` finds it after a death.

    What is noted of it already stays.

    Args:
        campaign_id: Of the campaign.
        record: Its directory.
        experiment: What it may go on with; None: it has no journal, and nothing goes on with it.
    """
    files.make_directory(directory())
    files.remove_unfinished(directory(), campaign_id)  # of a death at this very place
    for other, place in records():
        if place == record.absolute() and other != campaign_id and not made(other):
            unregister(other)  # it died before its first line, or its record was removed
    lines = [_one_line(record.absolute())]
    if experiment is not None:
        lines.append(f"{_EXPERIMENT}{form_of(Experiment).dump_json(experiment).decode()}")
    lines += [line for line in _lines(campaign_id)[1:] if not line.startswith(_EXPERIMENT)]
    files.write_text(_file(campaign_id), "".join(f"{line}\n" for line in lines))
    files.sync_names(directory())


def settle(campaign_id: str) -> None:
    """Forget what a campaign made that is undone, all of it; it may go on, and makes it anew."""
    lines = _lines(campaign_id)
    kept = [lines[0], *(line for line in lines[1:] if line.startswith(_EXPERIMENT))]
    if lines != kept:
        files.write_text(_file(campaign_id), "".join(f"{line}\n" for line in kept))
        files.sync_names(directory())


def _one_line(path: Path) -> str:
    if "\n" in str(path):
        raise RecordError(
            f"the path {str(path)!r} has a line break in it", hint="Name another directory."
        )
    return str(path)


def _file(campaign_id: str) -> Path:
    """Return where a campaign is noted.

    Raises:
        RecordError: Its id, which a record may have from anybody, is no name of a file.
    """
    if _ID.fullmatch(campaign_id) is None:
        raise RecordError(
            f"{campaign_id!r} is no id of a campaign",
            hint="The record was changed by hand, or was not made by Steelyard.",
        )
    return directory() / campaign_id


def began(campaign_id: str, record: Path, experiment: Experiment) -> bool:
    """Return whether this account began the campaign of a record, with this very experiment."""
    return is_noted(campaign_id, record) and _experiment(campaign_id) == experiment


def _experiment(campaign_id: str) -> Experiment | None:
    for line in _lines(campaign_id):
        if line.startswith(_EXPERIMENT):
            with suppress(ValidationError):
                return form_of(Experiment).validate_json(line.removeprefix(_EXPERIMENT))
    return None


def is_noted(campaign_id: str, record: Path) -> bool:
    """Return whether a record is the one that is noted, or that one moved, and no copy of it.

    What has no experiment (a crash test, a look into a cluster) has no journal either: whatever
    claims its id is another's.
    """
    noted = directories(campaign_id)[:1]
    if not noted or _experiment(campaign_id) is None:
        return False
    with suppress(OSError):
        if noted[0].samefile(record):
            return True
    there = standing_in(noted[0])  # where it was moved, another may be in its place
    return there is None or there.campaign_id != campaign_id


def known(
    campaign_id: str, record: Path, stands: Standing
) -> tuple[tuple[outside.Outside, ...], tuple[Created, ...]]:
    """Return what a campaign of this account left, and what else its record claims.

    What is its own is read here and nowhere else: a record can only say that some of it is undone.
    So it is left also where the record does not list it at all: an older copy may be in its place.
    """
    if not is_noted(campaign_id, record):
        return (), stands.left
    ours = {Created.of(thing).key: thing for thing in made(campaign_id)}
    ever = {entry.key for entry in stands.ever}
    left = {entry.key for entry in stands.left}
    still = tuple(thing for key, thing in ours.items() if key in left or key not in ever)
    return still, tuple(entry for entry in stands.left if entry.key not in ours)


def unregister(campaign_id: str) -> None:
    """Forget a campaign that left nothing behind and does not go on."""
    note = _file(campaign_id)
    if note.exists():  # also where the cache itself cannot be a directory
        note.unlink(missing_ok=True)


def note(campaign_id: str, thing: outside.Outside) -> None:
    """Note what is about to be made or changed outside the record."""
    kind = type(thing)
    if isinstance(thing, _PATHS):
        line = _one_line(thing.path)
    else:
        line = form_of(kind).dump_json(thing).decode()
    # On disk before the journal rests on it.
    files.add_line(_file(campaign_id), f"{_begin(kind)}{line}")


def _begin(kind: type[outside.Outside]) -> str:
    """Return how the lines of a kind begin, before a path or the JSON of a thing."""
    return "" if kind in (outside.MadeDirectory, outside.OnServer) else f"{kind.word} "


def note_mount(campaign_id: str, place: Path) -> None:
    """Note a directory where a file system is about to be mounted."""
    files.add_line(_file(campaign_id), f"{_MOUNT}{place}")


def records() -> list[tuple[str, Path]]:
    """Return the campaigns that are noted, each with the directory of its record, by name."""
    if not directory().is_dir():
        return []
    # A hidden one is the half-written note of a campaign that died before it made anything.
    names = sorted(entry.name for entry in directory().iterdir() if entry.name[0] != ".")
    return [(name, directories(name)[0]) for name in names if directories(name)]


def directories(campaign_id: str) -> list[Path]:
    """Return the record's directory and those the campaign made."""
    return [Path(line) for line in _lines(campaign_id) if line.startswith("/")]


def mounts(campaign_id: str) -> list[Path]:
    """Return where the campaign mounted file systems."""
    lines = _lines(campaign_id)
    return [Path(line.removeprefix(_MOUNT)) for line in lines if line.startswith(_MOUNT)]


def made(campaign_id: str) -> tuple[outside.Outside, ...]:
    """Return what the campaign made or changed outside, last first."""
    things = [thing for line in _lines(campaign_id)[1:] if (thing := _thing(line)) is not None]
    return tuple(dict.fromkeys(reversed(things)))


def _thing(line: str) -> outside.Outside | None:
    """Return what a line notes; None for a torn one, of a death before the thing was made."""
    for kind in outside.KINDS:
        start, text = _begin(kind), line.removeprefix(_begin(kind))
        if line.startswith(f"{start}/") and issubclass(kind, _PATHS):
            return kind(path=Path(text))
        if line.startswith(f"{start}{{"):
            with suppress(ValidationError):
                read: outside.Outside = form_of(kind).validate_json(text)
                return read
    return None


def _lines(campaign_id: str) -> list[str]:
    """Return the lines of what is noted of a campaign.

    Raises:
        PreflightError: Another account may have written them.
    """
    path = _file(campaign_id)
    files.require_own(path)
    return (files.read_text(path) or "").split("\n")[:-1]
