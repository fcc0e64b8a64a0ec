"""What a campaign makes outside its record, and how it is undone after a death."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from steelyard.engines.residue import residue_of
from steelyard.experiment import registry
from steelyard.experiment.cluster_leftovers import not_ours, split, undo_placed
from steelyard.experiment.doors import Doors
from steelyard.experiment.knob_leftovers import require_as_it_was, turn_back
from steelyard.experiment.local_leftovers import is_alive, is_our_group, our_mounts
from steelyard.experiment.server_leftovers import undo_on_server
from steelyard.experiment.troubles import raise_all, trouble_of
from steelyard.experiment.unmounting import unmounted
from steelyard.gateways.files import remove_tree, tree_bytes
from steelyard.model.errors import LeftBehindError, PreflightError, RecordError, SteelyardError
from steelyard.model.outside import InCluster, OnServer, TurnedKnob, in_undoing_order, knob_label
from steelyard.model.stack import Knob
from steelyard.platforms.local.ending import end_all
from steelyard.platforms.local.groups import remove_group
from steelyard.platforms.log_place import MEMORY
from steelyard.record.directory import (
    COPY_NOTE,
    CampaignDirectory,
    is_held,
    left_behind,
    left_groups,
    left_in_clusters,
    left_knobs,
    left_on_servers,
    left_over,
    read_campaign,
)
from steelyard.record.entries import Created, Removed
from steelyard.record.journal import Journal


class JournalLedger:
    """Writes into the journal what a platform makes, before it makes it.

    The registry in the cache gets it before the journal: there ``clean`` finds it when the record
    was deleted, and of what the journal alone names it cannot know that it is ours.
    """

    def __init__(self, journal: Journal, campaign_id: str) -> None:
        self._journal = journal
        self._campaign_id = campaign_id
        self._turned: dict[str, str] = {}

    def created(self, directory: Path) -> None:
        """Note a directory about to be made."""
        registry.note_directory(self._campaign_id, directory)
        self._journal.append(Created(resource="directory", name=str(directory)))

    def removed(self, directory: Path) -> None:
        """Note that it is gone again."""
        self._journal.append(Removed(resource="directory", name=str(directory)))

    def changed(self, thing: OnServer) -> None:
        """Note what is about to be made or changed on a server."""
        registry.note_thing(self._campaign_id, thing)
        self._journal.append(Created(resource="on-server", name=thing.label, thing=thing))

    def undone(self, thing: OnServer) -> None:
        """Note that it is as it was."""
        self._journal.append(Removed(resource="on-server", name=thing.label))

    def group_made(self, directory: Path) -> None:
        """Note a control group about to be made."""
        registry.note_group(self._campaign_id, directory)
        self._journal.append(Created(resource="cgroup", name=str(directory)))

    def group_removed(self, directory: Path) -> None:
        """Note that it is gone again."""
        self._journal.append(Removed(resource="cgroup", name=str(directory)))

    def placed(self, thing: InCluster) -> None:
        """Note what is about to be made or changed in a Kubernetes cluster."""
        registry.note_placed(self._campaign_id, thing)
        self._journal.append(Created(resource="in-cluster", name=thing.label, placed=thing))

    def taken_away(self, thing: InCluster) -> None:
        """Note that it is gone, or as it was."""
        self._journal.append(Removed(resource="in-cluster", name=thing.label))

    def kept(self, knob: Knob) -> str | None:
        """Return what was at a knob's place before this session turned it; None: it did not."""
        return self._turned.get(knob_label(knob))

    def keep(self, knob: Knob, snapshot: str) -> None:
        """Note what is there before a knob is turned for the first time."""
        turned = TurnedKnob(knob=knob, snapshot=snapshot)
        registry.note_knob(self._campaign_id, turned)
        self._journal.append(Created(resource="knob", name=turned.label, knob=turned))
        self._turned[turned.label] = snapshot

    def put_back(self, knob: Knob) -> None:
        """Note that it is as it was."""
        self._journal.append(Removed(resource="knob", name=knob_label(knob)))
        del self._turned[knob_label(knob)]


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
        foreign: Knobs of the record that this account's registry does not know: another account
            or another cache turned them, or nobody did.
        placed: Made or changed in Kubernetes clusters and not undone.
        foreign_placed: Changes there that this account's registry does not know.
        mounts: Where file systems of a crash test are mounted.
    """

    campaign_id: str
    record: Path | None
    directories: tuple[Path, ...]
    processes: tuple[int, ...]
    size_bytes: int
    things: tuple[OnServer, ...] = ()
    groups: tuple[Path, ...] = ()
    knobs: tuple[TurnedKnob, ...] = ()
    foreign: tuple[TurnedKnob, ...] = ()
    placed: tuple[InCluster, ...] = ()
    foreign_placed: tuple[InCluster, ...] = ()
    mounts: tuple[Path, ...] = ()


def find_leftovers(doors: Doors, records: Sequence[Path] = ()) -> tuple[Leftover, ...]:
    """Return what dead campaigns left behind; living ones are passed over.

    Args:
        doors: To find their processes.
        records: Campaign directories to look at; empty means every one that is registered.

    Raises:
        RecordError: One of ``records`` holds no campaign, or is damaged.
        PreflightError: One is a copy of a record that is in a cluster.
    """
    found = []
    for campaign_id, record in _candidates(records):
        leftover = _leftover(campaign_id, record, doors)
        if leftover is not None:
            found.append(leftover)
        elif not records and not (record.exists() and is_held(record)):
            registry.unregister(campaign_id)
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
    if not records:
        return [(name, path) for name, path in registry.records() if not _is_copy(path)]
    for path in records:
        if _is_copy(path):
            raise PreflightError(
                f"{path} is a copy of a record whose campaign runs in a cluster",
                hint="`steelyard attach NAME --remove` removes it there; the command is in"
                f" {path / COPY_NOTE}.",
            )
    return [(read_campaign(path).campaign_id, path) for path in records]


def _is_copy(record: Path) -> bool:
    return (record / COPY_NOTE).exists()


def _leftover(campaign_id: str, record: Path, doors: Doors) -> Leftover | None:
    if is_alive(record):
        return None
    known = registry.knobs(campaign_id)
    foreign: tuple[TurnedKnob, ...] = ()
    try:
        names, things = [Path(name) for name in left_over(record)], left_on_servers(record)
        grouped = [Path(name) for name in left_groups(record)]
        # A record may come from somebody else: it cannot name what root writes into the kernel.
        knobs = tuple(knob for knob in left_knobs(record) if knob in known)
        foreign = tuple(knob for knob in left_knobs(record) if knob not in known)
        placed = left_in_clusters(record)
    except RecordError:  # the record was deleted or is damaged
        names, things = registry.directories(campaign_id)[1:], registry.things(campaign_id)
        grouped, knobs = registry.groups(campaign_id), known
        placed = registry.placed(campaign_id)
    placed, strange = split(placed, campaign_id)
    directories = tuple(path for path in names if _is_ours(path, campaign_id) and path.exists())
    groups = tuple(path for path in grouped if is_our_group(path, campaign_id, doors.cgroups))
    mounts = tuple(our_mounts(campaign_id, directories, doors))
    if not any((directories, things, groups, knobs, foreign, placed, strange)):
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
        foreign=foreign,
        placed=placed,
        foreign_placed=strange,
        mounts=mounts,
    )


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
        LeftBehindError: A process would not end, a directory or group could not be removed, a
            server could not be reached, or a knob is not as it was, which keeps nothing else from
            being undone; what was undone is noted.
    """
    for directory in leftover.directories:
        end_processes(directory, doors)
    for place in leftover.mounts:  # before their directories
        unmounted(place, doors)
    troubles = [
        # The servers first: a way to one may lead through what is taken away after it.
        *_undone(leftover, doors),
        *_taken_away(leftover, doors),
        *_turned_back(leftover, doors),
        *_removed(leftover, doors),
    ]
    raise_all(troubles)
    registry.unregister(leftover.campaign_id)


def undo_all(found: Sequence[Leftover], doors: Doors) -> None:
    """Undo what several dead campaigns left behind; one that fails does not keep the others.

    Raises:
        LeftBehindError: Something is still there.
    """
    tried = [trouble_of(partial(undo, leftover, doors)) for leftover in found]
    raise_all([trouble for trouble in tried if trouble is not None])


def _undone(leftover: Leftover, doors: Doors) -> Iterator[LeftBehindError]:
    """Undo what is on servers, note it, and yield what is left."""
    for thing in in_undoing_order(leftover.things):
        trouble = trouble_of(partial(undo_on_server, thing, doors))
        if trouble is not None:
            yield trouble
            continue
        with suppress(RecordError):
            _note(leftover, doors, Removed(resource="on-server", name=thing.label))


def _removed(leftover: Leftover, doors: Doors) -> Iterator[LeftBehindError]:
    """Remove groups and directories, note it, and yield what is left."""
    for group in leftover.groups:
        trouble = trouble_of(partial(remove_group, group, doors.cgroups, doors.clock))
        if trouble is not None:
            yield trouble
            continue
        with suppress(RecordError):
            _note(leftover, doors, Removed(resource="cgroup", name=str(group)))
    for directory in leftover.directories:
        _free_shared_memory(directory, doors)
        trouble = trouble_of(partial(remove_tree, directory))
        if trouble is not None:
            yield trouble
            continue
        # Without a readable journal there is nowhere to note it, and nothing to note it for.
        with suppress(RecordError):
            _note(leftover, doors, Removed(resource="directory", name=str(directory)))


def _turned_back(leftover: Leftover, doors: Doors) -> list[LeftBehindError]:
    """Turn the knobs back that are ours, note it, and return what is wrong with the others."""
    troubles = []
    for turned in (*leftover.knobs, *leftover.foreign):
        try:
            if turned in leftover.foreign:
                require_as_it_was(turned, doors)
            else:
                turn_back(turned, doors)
        except LeftBehindError as error:
            troubles.append(error)
            continue
        with suppress(RecordError):
            _note(leftover, doors, Removed(resource="knob", name=turned.label))
    return troubles


def _taken_away(leftover: Leftover, doors: Doors) -> list[LeftBehindError]:
    """Undo what is in clusters, note it, and return what is left."""
    troubles = [not_ours(thing) for thing in leftover.foreign_placed]
    for thing in leftover.placed:
        try:
            undo_placed(thing, doors)
        except LeftBehindError as error:
            troubles.append(error)
            continue
        with suppress(RecordError):
            _note(leftover, doors, Removed(resource="in-cluster", name=thing.label))
    return troubles


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
        RecordError: It cannot be read.
    """
    names = left_behind(directory)
    if names:
        raise LeftBehindError(
            f"left behind: {', '.join(names)}", hint="Remove it with `steelyard clean`."
        )
