"""What a campaign makes outside its record, and how it is undone after a death."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from steelyard.engines.residue import residue_of
from steelyard.experiment.doors import Doors
from steelyard.experiment.stack_doors import stack_doors
from steelyard.gateways.cgroups import Cgroups
from steelyard.gateways.files import (
    cache_directory,
    make_directory,
    read_text,
    remove_tree,
    remove_unfinished,
    translated,
    tree_bytes,
    write_text,
)
from steelyard.model.errors import (
    LeftBehindError,
    PreflightError,
    PrivilegeError,
    RecordError,
    SteelyardError,
    TargetError,
)
from steelyard.model.outside import OnServer, TurnedKnob, knob_label
from steelyard.model.stack import Knob
from steelyard.platforms.endpoint.restarting import Means
from steelyard.platforms.endpoint.undoing import undo as undo_on_server
from steelyard.platforms.local.ending import end_all
from steelyard.platforms.local.groups import remove_group
from steelyard.platforms.log_place import MEMORY
from steelyard.record.directory import (
    CampaignDirectory,
    is_held,
    left_groups,
    left_knobs,
    left_on_servers,
    left_over,
    read_campaign,
)
from steelyard.record.entries import Created, Removed
from steelyard.record.journal import Journal

_THING = TypeAdapter(OnServer)
_KNOB = TypeAdapter(TurnedKnob)
_TURNED = "knob "  # begins the registry's line of a knob
_GROUP = "cgroup "  # begins the registry's line of a control group; a directory's begins with "/"


class JournalLedger:
    """Writes into the journal what a platform makes, before it makes it.

    The registry in the cache gets it too: there ``clean`` finds it when the record was deleted.
    """

    def __init__(self, journal: Journal, campaign_id: str) -> None:
        self._journal = journal
        self._registered = _registry() / campaign_id
        self._turned: dict[str, str] = {}

    def created(self, directory: Path) -> None:
        """Note a directory about to be made."""
        self._journal.append(Created(resource="directory", name=str(directory)))
        with translated(self._registered), self._registered.open("a") as file:
            file.write(f"{directory}\n")

    def removed(self, directory: Path) -> None:
        """Note that it is gone again."""
        self._journal.append(Removed(resource="directory", name=str(directory)))

    def changed(self, thing: OnServer) -> None:
        """Note what is about to be made or changed on a server."""
        self._journal.append(Created(resource="on-server", name=thing.label, thing=thing))
        with translated(self._registered), self._registered.open("a") as file:
            file.write(_THING.dump_json(thing).decode() + "\n")

    def undone(self, thing: OnServer) -> None:
        """Note that it is as it was."""
        self._journal.append(Removed(resource="on-server", name=thing.label))

    def group_made(self, directory: Path) -> None:
        """Note a control group about to be made."""
        self._journal.append(Created(resource="cgroup", name=str(directory)))
        with translated(self._registered), self._registered.open("a") as file:
            file.write(f"{_GROUP}{directory}\n")

    def group_removed(self, directory: Path) -> None:
        """Note that it is gone again."""
        self._journal.append(Removed(resource="cgroup", name=str(directory)))

    def kept(self, knob: Knob) -> str | None:
        """Return what was at a knob's place before this session turned it; None: it did not."""
        return self._turned.get(knob_label(knob))

    def keep(self, knob: Knob, snapshot: str) -> None:
        """Note what is there before a knob is turned for the first time."""
        turned = TurnedKnob(knob=knob, snapshot=snapshot)
        # The registry first: a knob that it does not know is not turned back.
        with translated(self._registered), self._registered.open("a") as file:
            file.write(f"{_TURNED}{_KNOB.dump_json(turned).decode()}\n")
        self._journal.append(Created(resource="knob", name=turned.label, knob=turned))
        self._turned[turned.label] = snapshot

    def put_back(self, knob: Knob) -> None:
        """Note that it is as it was."""
        self._journal.append(Removed(resource="knob", name=knob_label(knob)))
        del self._turned[knob_label(knob)]


def register(campaign_id: str, directory: Path) -> None:
    """Note where a campaign's record is, so that ``clean`` finds it after a death."""
    make_directory(_registry())
    remove_unfinished(_registry(), campaign_id)  # of a death at this very place
    write_text(_registry() / campaign_id, f"{directory.absolute()}\n")


def unregister(campaign_id: str) -> None:
    """Forget a campaign that left nothing behind."""
    note = _registry() / campaign_id
    if note.exists():  # also where the cache itself cannot be a directory
        note.unlink(missing_ok=True)


def _registry() -> Path:
    return cache_directory() / "campaigns"


def _registered(campaign_id: str) -> list[Path]:
    """Return the record's directory and those the campaign made, as noted in the registry."""
    noted = _noted(campaign_id)
    return [Path(line) for line in noted if not line.startswith(("{", _GROUP, _TURNED))]


def _registered_groups(campaign_id: str) -> list[Path]:
    """Return the control groups the campaign made, as noted in the registry."""
    noted = _noted(campaign_id)
    return [Path(line.removeprefix(_GROUP)) for line in noted if line.startswith(_GROUP)]


def _registered_things(campaign_id: str) -> tuple[OnServer, ...]:
    """Return what the campaign did on servers, as noted in the registry, last first."""
    noted = [line for line in _noted(campaign_id) if line.startswith("{")]
    return tuple(_THING.validate_json(line) for line in reversed(noted))


def _registered_knobs(campaign_id: str) -> tuple[TurnedKnob, ...]:
    """Return the knobs the campaign turned, as noted in the registry, last first."""
    noted = [line for line in _noted(campaign_id) if line.startswith(_TURNED)]
    lines = (line.removeprefix(_TURNED) for line in reversed(noted))
    return tuple(dict.fromkeys(_KNOB.validate_json(line) for line in lines))


def _noted(campaign_id: str) -> list[str]:
    return (read_text(_registry() / campaign_id) or "").splitlines()


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """What a dead campaign left behind.

    Attributes:
        campaign_id: Its id, or ``?`` for a directory without a record.
        record: Directory of its record, or None when that is gone.
        directories: Made and not removed; those that still exist.
        processes: Ids of processes that still run in them.
        things: Made or changed on servers and not undone.
        groups: Control groups made and not removed; those that still exist.
        knobs: Of the stack, turned and not put back.
    """

    campaign_id: str
    record: Path | None
    directories: tuple[Path, ...]
    processes: tuple[int, ...]
    size_bytes: int
    things: tuple[OnServer, ...] = ()
    groups: tuple[Path, ...] = ()
    knobs: tuple[TurnedKnob, ...] = ()


def find_leftovers(doors: Doors, records: Sequence[Path] = ()) -> tuple[Leftover, ...]:
    """Return what dead campaigns left behind; living ones are passed over.

    Args:
        doors: To find their processes.
        records: Campaign directories to look at; empty means every one that is registered.

    Raises:
        RecordError: One of ``records`` holds no campaign, or is damaged.
    """
    found = []
    for campaign_id, record in _candidates(records):
        leftover = _leftover(campaign_id, record, doors)
        if leftover is not None:
            found.append(leftover)
        elif not records and not (record.exists() and is_held(record)):
            unregister(campaign_id)
    return tuple(found)


def refuse_while_running() -> None:
    """Raise when a living campaign may be using the cache.

    Raises:
        PreflightError: With the record of one that runs.
    """
    for campaign_id, record in _candidates(()):
        if (record / "lock").exists() and is_held(record):
            raise PreflightError(
                f"campaign {campaign_id} in {record} is running and uses the cache",
                hint="Wait for its end, or stop it.",
            )


def _candidates(records: Sequence[Path]) -> list[tuple[str, Path]]:
    if records:
        return [(read_campaign(path).campaign_id, path) for path in records]
    if not _registry().is_dir():
        return []
    # A hidden one is the half-written note of a campaign that died before it made anything.
    names = sorted(entry.name for entry in _registry().iterdir() if entry.name[0] != ".")
    return [(name, _registered(name)[0]) for name in names if _registered(name)]


def _leftover(campaign_id: str, record: Path, doors: Doors) -> Leftover | None:
    if (record / "journal.jsonl").exists() and is_held(record):
        return None
    try:
        names, things = [Path(name) for name in left_over(record)], left_on_servers(record)
        grouped = [Path(name) for name in left_groups(record)]
        # A record may come from somebody else: it cannot name what root writes into the kernel.
        known = _registered_knobs(campaign_id)
        knobs = tuple(knob for knob in left_knobs(record) if knob in known)
    except RecordError:  # the record was deleted or is damaged
        names, things = _registered(campaign_id)[1:], _registered_things(campaign_id)
        grouped, knobs = _registered_groups(campaign_id), _registered_knobs(campaign_id)
    directories = tuple(path for path in names if _is_ours(path, campaign_id) and path.exists())
    groups = tuple(path for path in grouped if _is_our_group(path, campaign_id, doors.cgroups))
    if not directories and not things and not groups and not knobs:
        return None
    return Leftover(
        campaign_id=campaign_id,
        record=record if record.exists() else None,
        directories=directories,
        processes=tuple(pid for path in directories for pid in doors.processes.within(path)),
        size_bytes=sum(tree_bytes(path) for path in directories),
        things=things,
        groups=groups,
        knobs=knobs,
    )


def _is_our_group(path: Path, campaign_id: str, cgroups: Cgroups) -> bool:
    """Return whether a path is an existing group with the name of one that the campaign made."""
    name = rf"steelyard-{re.escape(campaign_id)}(-[0-9]+)?-(server|generator)"
    named = path.parent in cgroups.roots() and re.fullmatch(name, path.name) is not None
    return named and cgroups.exists(path)


def _is_ours(path: Path, campaign_id: str) -> bool:
    """Return whether a path has the form of what Steelyard makes.

    A journal may come from somebody else: it must not be able to name what is removed.
    """
    if not path.is_absolute() or path.is_symlink() or ".." in path.parts:
        return False
    if path.parent in (Path("/tmp"), MEMORY):  # noqa: S108 - compared, not made
        return re.fullmatch(r"steelyard-[0-9a-f]{8}", path.name) is not None
    return path.parent.name == "live" and path.name == campaign_id


def undo(leftover: Leftover, doors: Doors) -> None:
    """End a dead campaign's processes, undo what it did on servers, remove groups and directories.

    Raises:
        LeftBehindError: A process would not end, a directory or group could not be removed, or a
            server could not be reached; what was undone before is noted.
    """
    for directory in leftover.directories:
        end_processes(directory, doors)
    for thing in leftover.things:
        _undo_on_server(thing, doors)
        with suppress(RecordError):
            _note(leftover, doors, Removed(resource="on-server", name=thing.label))
    for knob in leftover.knobs:
        _turn_back(knob, doors)
        with suppress(RecordError):
            _note(leftover, doors, Removed(resource="knob", name=knob.label))
    for group in leftover.groups:
        remove_group(group, doors.cgroups, doors.clock)
        with suppress(RecordError):
            _note(leftover, doors, Removed(resource="cgroup", name=str(group)))
    for directory in leftover.directories:
        _free_shared_memory(directory, doors)
        try:
            remove_tree(directory)
        except SteelyardError as error:
            raise LeftBehindError(error.message, hint=error.hint) from error
    # Without a readable journal there is nowhere to note it, and nothing to note it for.
    with suppress(RecordError):
        gone = [Removed(resource="directory", name=str(path)) for path in leftover.directories]
        _note(leftover, doors, *gone)
    unregister(leftover.campaign_id)


def _turn_back(turned: TurnedKnob, doors: Doors) -> None:
    try:
        stack_doors(doors)[turned.knob.kind].revert(turned.knob, turned.snapshot)
    except (TargetError, PrivilegeError) as error:
        raise LeftBehindError(
            f"{turned.label} is not as it was: {error.message}",
            hint=f"{error.hint} Then run `steelyard clean` again.".strip(),
        ) from error


def _undo_on_server(thing: OnServer, doors: Doors) -> None:
    try:
        undo_on_server(thing, Means(sql=doors.sql, processes=doors.processes, clock=doors.clock))
    except TargetError as error:
        raise LeftBehindError(
            f"{thing.label} is left behind: {error.message}",
            hint="Run `steelyard clean` again with the password in PGPASSWORD or ~/.pgpass, when"
            " the server can be reached.",
        ) from error


def _note(leftover: Leftover, doors: Doors, *removed: Removed) -> None:
    if leftover.record is None:
        return
    directory = CampaignDirectory.reopen(leftover.record, doors.clock)
    try:
        for entry in removed:
            directory.journal.append(entry)
    finally:
        directory.close()


def note_gone(directory: CampaignDirectory) -> None:
    """Note what a session removed, or never made, before it died without a word."""
    for name in left_over(directory.path):
        if not Path(name).exists():
            directory.journal.append(Removed(resource="directory", name=name))
    for name in left_groups(directory.path):
        if not Path(name).exists():
            directory.journal.append(Removed(resource="cgroup", name=name))


def end_processes(directory: Path, doors: Doors) -> None:
    """End every process that works in a directory: in order first, then by force.

    Raises:
        LeftBehindError: One is still there.
    """
    remaining = end_all(directory, doors.processes, doors.clock)
    if remaining:
        raise LeftBehindError(
            f"processes {', '.join(map(str, remaining))} in {directory} do not end",
            hint="They may wait for a disk that hangs; look at them with ps.",
        )


def _free_shared_memory(directory: Path, doors: Doors) -> None:
    for data in directory.glob("*/data"):
        for command in residue_of(data):
            with suppress(SteelyardError):  # without ipcrm it stays until the machine restarts
                doors.processes.run(command, timeout_s=10)


def require_nothing_left(directory: Path) -> None:
    """Raise when a finished campaign's journal still lists something.

    Raises:
        LeftBehindError: With what it lists.
    """
    try:
        made = [*left_over(directory), *left_groups(directory)]
        names = [name for name in made if Path(name).exists()]
        names += [thing.label for thing in left_on_servers(directory)]
        names += [knob.label for knob in left_knobs(directory)]
    except RecordError:
        return
    if names:
        raise LeftBehindError(
            f"left behind: {', '.join(names)}", hint="Remove it with `steelyard clean`."
        )
