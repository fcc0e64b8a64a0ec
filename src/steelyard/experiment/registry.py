"""The registry in the cache: what this account's campaigns make outside their records.

``clean`` finds there what is left when a record was deleted. A record may come from somebody else:
what root writes into the kernel is only what the registry knows, too.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from steelyard.gateways.files import (
    cache_directory,
    make_directory,
    read_text,
    remove_unfinished,
    sync_file,
    sync_names,
    translated,
    write_text,
)
from steelyard.model.outside import InCluster, OnServer, TurnedKnob

_T = TypeVar("_T")
_THING: Final = TypeAdapter(OnServer)
_KNOB: Final = TypeAdapter(TurnedKnob)
_PLACED: Final = "in-cluster "  # begins the line of an object in a Kubernetes cluster
_PLACED_FORM: Final = TypeAdapter(InCluster)
_TURNED: Final = "knob "  # begins the line of a knob
_GROUP: Final = "cgroup "  # begins the line of a control group; a directory's begins with "/"
_MOUNT: Final = "mount "  # begins the line of a directory where a file system is mounted


def directory() -> Path:
    """Return where the campaigns are noted, each in a file of its own."""
    return cache_directory() / "campaigns"


def register(campaign_id: str, record: Path) -> None:
    """Note where a campaign's record is, so that ``clean`` finds it after a death."""
    make_directory(directory())
    remove_unfinished(directory(), campaign_id)  # of a death at this very place
    write_text(directory() / campaign_id, f"{record.absolute()}\n")
    sync_names(directory())


def unregister(campaign_id: str) -> None:
    """Forget a campaign that left nothing behind."""
    note = directory() / campaign_id
    if note.exists():  # also where the cache itself cannot be a directory
        note.unlink(missing_ok=True)


def note_directory(campaign_id: str, path: Path) -> None:
    """Note a directory about to be made."""
    _note(campaign_id, str(path))


def note_group(campaign_id: str, path: Path) -> None:
    """Note a control group about to be made."""
    _note(campaign_id, f"{_GROUP}{path}")


def note_mount(campaign_id: str, place: Path) -> None:
    """Note a directory where a file system is about to be mounted."""
    _note(campaign_id, f"{_MOUNT}{place}")


def note_thing(campaign_id: str, thing: OnServer) -> None:
    """Note what is about to be made or changed on a server."""
    _note(campaign_id, _THING.dump_json(thing).decode())


def note_placed(campaign_id: str, thing: InCluster) -> None:
    """Note what is about to be made or changed in a Kubernetes cluster."""
    _note(campaign_id, f"{_PLACED}{_PLACED_FORM.dump_json(thing).decode()}")


def note_knob(campaign_id: str, knob: TurnedKnob) -> None:
    """Note a knob about to be turned for the first time."""
    _note(campaign_id, f"{_TURNED}{_KNOB.dump_json(knob).decode()}")


def _note(campaign_id: str, line: str) -> None:
    """Write a line and return once it is on disk: the journal rests on it."""
    target = directory() / campaign_id
    with translated(target), target.open("a") as file:
        file.write(f"{line}\n")
        sync_file(file)


def records() -> list[tuple[str, Path]]:
    """Return the campaigns that are noted, each with the directory of its record, by name."""
    if not directory().is_dir():
        return []
    # A hidden one is the half-written note of a campaign that died before it made anything.
    names = sorted(entry.name for entry in directory().iterdir() if entry.name[0] != ".")
    return [(name, directories(name)[0]) for name in names if directories(name)]


def directories(campaign_id: str) -> list[Path]:
    """Return the record's directory and those the campaign made."""
    lines = _lines(campaign_id)
    others = ("{", _GROUP, _MOUNT, _TURNED, _PLACED)
    return [Path(line) for line in lines if not line.startswith(others)]


def groups(campaign_id: str) -> list[Path]:
    """Return the control groups the campaign made."""
    lines = _lines(campaign_id)
    return [Path(line.removeprefix(_GROUP)) for line in lines if line.startswith(_GROUP)]


def mounts(campaign_id: str) -> list[Path]:
    """Return where the campaign mounted file systems."""
    lines = _lines(campaign_id)
    return [Path(line.removeprefix(_MOUNT)) for line in lines if line.startswith(_MOUNT)]


def things(campaign_id: str) -> tuple[OnServer, ...]:
    """Return what the campaign did on servers, last first."""
    noted = (line for line in reversed(_lines(campaign_id)) if line.startswith("{"))
    return tuple(_whole(_THING, noted))


def placed(campaign_id: str) -> tuple[InCluster, ...]:
    """Return what the campaign made or changed in clusters, last first."""
    lines = (line for line in reversed(_lines(campaign_id)) if line.startswith(_PLACED))
    return tuple(_whole(_PLACED_FORM, (line.removeprefix(_PLACED) for line in lines)))


def knobs(campaign_id: str) -> tuple[TurnedKnob, ...]:
    """Return the knobs the campaign turned, last first."""
    lines = (line for line in reversed(_lines(campaign_id)) if line.startswith(_TURNED))
    found = _whole(_KNOB, (line.removeprefix(_TURNED) for line in lines))
    return tuple(dict.fromkeys(found))


def _whole(form: TypeAdapter[_T], lines: Iterator[str]) -> Iterator[_T]:
    """Yield what whole lines say; a torn one is of a death before the thing itself was made."""
    for line in lines:
        try:
            yield form.validate_json(line)
        except ValidationError:
            continue


def _lines(campaign_id: str) -> list[str]:
    return (read_text(directory() / campaign_id) or "").splitlines()
