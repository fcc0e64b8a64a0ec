"""What a campaign makes outside its record, and how it is undone after a death."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from steelyard.campaign.cleanup import undoing
from steelyard.core import wording
from steelyard.core.outside import ControlGroup, MadeDirectory, Outside
from steelyard.gateways.doors import Doors
from steelyard.gateways.files import tree_bytes
from steelyard.gateways.stores import unmounted
from steelyard.places.local.groups import is_frozen, thaw
from steelyard.places.local.server import end_processes
from steelyard.record import registry
from steelyard.record.directory import (
    COPY_NOTE,
    CampaignDirectory,
    copied,
    has_begun,
    is_held,
    left_behind,
    may_be_there,
    read_standing,
    standing_in,
)
from steelyard.record.journal import Created, Journal, Removed, Standing


class JournalLedger:
    """Writes into the journal what is made or changed outside the record, before it is.

    The registry in the cache gets it before the journal: there ``clean`` finds it when the record
    was deleted, and of what the journal alone names it cannot know that it is ours.
    """

    def __init__(self, journal: Journal, campaign_id: str) -> None:
        self._journal = journal
        self._campaign_id = campaign_id

    def created(self, thing: Outside) -> None:
        """Note what is about to be made or changed."""
        registry.note(self._campaign_id, thing)
        self._journal.append(Created.of(thing))

    def removed(self, thing: Outside) -> None:
        """Note that it is gone again, or as it was."""
        self._journal.append(Removed.of(thing))


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """What a dead campaign left behind.

    Attributes:
        campaign_id: Its id, or ``?`` for a directory without a record.
        record: Directory of its record, or None when that is gone.
        things: Made or changed by it, as the registry knows them, and not undone; directories and
            control groups that still exist.
        processes: Ids of processes that still run in its directories.
        foreign: What the record lists and this account's registry does not know: another account,
            another cache or another machine has it, or nobody does. It is left alone.
        mounts: Where file systems of a crash test are mounted.
        frozen: Of the groups, those that are frozen.
        stopped: Of the processes, those that a signal stopped.
    """

    campaign_id: str
    record: Path | None
    things: tuple[Outside, ...]
    processes: tuple[int, ...]
    size_bytes: int
    foreign: tuple[Created, ...] = ()
    mounts: tuple[Path, ...] = ()
    frozen: tuple[Path, ...] = ()
    stopped: tuple[int, ...] = ()

    @property
    def directories(self) -> tuple[Path, ...]:
        """Return its directories."""
        return tuple(each.path for each in self.things if isinstance(each, MadeDirectory))

    @property
    def groups(self) -> tuple[Path, ...]:
        """Return its control groups."""
        return tuple(each.path for each in self.things if isinstance(each, ControlGroup))


def find_leftovers(doors: Doors, records: Sequence[Path] = ()) -> tuple[Leftover, ...]:
    """Return what dead campaigns left behind; living ones are passed over.

    Looked at are the directories in ``records``, or where there are none all that are registered.

    Raises:
        RecordError: One of ``records`` holds no campaign, or is damaged.
        PreflightError: One is a copy of a record that is in a cluster.
    """
    found = []
    for campaign_id, record in _candidates(records):
        leftover = _leftover(campaign_id, record, doors)
        if leftover is not None:
            found.append(leftover)
        elif not records and not undoing.is_alive(record):
            forget_if_over(campaign_id, record)
    return tuple(found)


def refuse_while_running() -> None:
    """Raise when a living campaign may be using the cache.

    Raises:
        PreflightError: With the record of one that runs.
    """
    for campaign_id, record in _candidates(()):
        if (record / "lock").exists() and is_held(record):
            raise wording.PreflightError(
                f"campaign {campaign_id} in {record} is running and uses the cache",
                hint="Wait for its end, or stop it.",
            )


def _candidates(records: Sequence[Path]) -> list[tuple[str, Path]]:
    if not records:
        return [(name, path) for name, path in registry.records() if not _is_copy(path)]
    for path in records:
        if _is_copy(path):
            raise wording.PreflightError(
                f"{path} is a copy of a record whose campaign runs in a cluster",
                hint=f"Remove it there: {copied(path, 'command') or 'steelyard attach'} --remove",
            )
    return [(read_standing(path).campaign_id, path) for path in records]


def _is_copy(record: Path) -> bool:
    return (record / COPY_NOTE).exists()


def _leftover(campaign_id: str, record: Path, doors: Doors) -> Leftover | None:
    if undoing.is_alive(record):
        return None
    foreign: tuple[Created, ...] = ()
    stands = standing_in(record)
    is_anothers = stands is not None and stands.campaign_id != campaign_id  # in its place
    if stands is None or is_anothers:
        ours = registry.made(campaign_id)
    else:
        ours, foreign = registry.known(campaign_id, record, stands)
    noted = registry.is_noted(campaign_id, record)
    # A path that is not here is gone, unless it was made on another machine.
    foreign = tuple(made for made in foreign if not noted or may_be_there(made))
    leftover = Leftover(
        campaign_id=campaign_id,
        record=record if record.exists() and not is_anothers else None,
        things=tuple(
            thing for thing in ours if undoing.may_be_left(thing, campaign_id, doors.cgroups)
        ),
        processes=(),
        size_bytes=0,
        foreign=foreign,
    )
    return _looked_at(leftover, doors) if leftover.things or foreign else None


def _looked_at(leftover: Leftover, doors: Doors) -> Leftover:
    """Return the same with what is in its directories and groups."""
    directories = leftover.directories
    # A slot's directory lies in that of its campaign.
    outermost = [path for path in directories if not set(path.parents) & set(directories)]
    processes = tuple(pid for path in outermost for pid in doors.processes.within(path))
    return replace(
        leftover,
        processes=processes,
        size_bytes=sum(tree_bytes(path) for path in outermost),
        mounts=tuple(undoing.our_mounts(leftover.campaign_id, directories, doors)),
        frozen=tuple(group for group in leftover.groups if is_frozen(group, doors.cgroups)),
        stopped=doors.families.stopped(processes),
    )


def undo(leftover: Leftover, doors: Doors) -> None:
    """End a dead campaign's processes, undo what it did on servers, remove groups and directories.

    Raises:
        LeftBehindError: A process would not end, a directory or group could not be removed, a
            server could not be reached, or a knob is not as it was, which keeps nothing else from
            being undone, but that directories and groups stay while a process or mount does; what
            was undone is noted.
    """
    # What works in a directory keeps that, and nothing on servers or in the kernel.
    stuck = _still_at_work(leftover, doors)
    stuck += wording.troubles_of(  # before its directories go, what is on another first
        lambda place: unmounted(place, doors.volumes, doors.clock), reversed(leftover.mounts)
    )
    kept = (MadeDirectory, ControlGroup) if stuck else ()
    wording.raise_all([*stuck, *_undone(leftover, doors, kept), *_left_alone(leftover)])
    if leftover.record is None:
        registry.unregister(leftover.campaign_id)
    else:
        forget_if_over(leftover.campaign_id, leftover.record)


def _still_at_work(leftover: Leftover, doors: Doors) -> list[wording.SteelyardError]:
    """End what works in its directories, and return what does not end.

    Thawed first, for what is frozen may not even die.
    """
    for group in leftover.frozen:
        with suppress(wording.TargetError):  # then its processes are named as those that do not end
            thaw(group, doors.cgroups)
    return wording.troubles_of(
        lambda directory: end_processes(directory, doors.processes, doors.clock),
        leftover.directories,
    )


def release_frozen(doors: Doors, told: Callable[[str], None]) -> None:
    """Thaw and end what dead campaigns left standing still, and remove their control groups.

    It holds memory, ports and locks. Its data and what else there is stay for ``clean``, or for a
    resume.

    ``told`` gets a sentence that names it, before anything is done.

    Raises:
        LeftBehindError: It does not end.
    """
    still = [each for each in find_leftovers(doors) if each.frozen or each.stopped]
    for leftover in still:
        names = [f"control group {group}" for group in leftover.frozen]
        names += [f"process {pid}" for pid in leftover.stopped]
        told(
            f"campaign {leftover.campaign_id}, which is dead, left frozen: {', '.join(names)}; they"
            " are thawed and ended (`steelyard clean` shows what else it left)"
        )
    wording.raise_all(wording.troubles_of(lambda leftover: _release(leftover, doors), still))


def _release(leftover: Leftover, doors: Doors) -> None:
    wording.raise_all(_still_at_work(leftover, doors))
    groups = tuple(each for each in leftover.things if isinstance(each, ControlGroup))
    wording.raise_all([*_undone(replace(leftover, things=groups), doors)])


def forget_if_over(campaign_id: str, record: Path, stands: Standing | None = None) -> None:
    """Forget a campaign that left nothing behind, unless it may go on.

    One whose record cannot be read stays: it may be mended. A copy or a stranger's record says
    nothing of it.
    """
    stands = stands or standing_in(record)
    if stands is None and _may_be_mended(record):
        return
    is_here = stands is not None and stands.campaign_id == campaign_id
    is_over = stands is not None and stands.status.is_finished
    if not is_here or (is_over and registry.is_noted(campaign_id, record)):
        registry.unregister(campaign_id)


def settle(campaign_id: str, record: Path) -> None:
    """Forget what a campaign made and undid, though it may go on; its record is still locked.

    The record may be moved: then the registry alone says what is left.
    """
    stands = standing_in(record)
    if stands is None or not registry.is_noted(campaign_id, record):
        return
    if not registry.known(campaign_id, record, stands)[0]:
        registry.settle(campaign_id)


def _may_be_mended(record: Path) -> bool:
    """Return whether a journal is there and damaged; one without a whole line was never begun."""
    try:
        return (record / "journal.jsonl").exists() and has_begun(record)
    except wording.RecordError:
        return True


def _left_alone(leftover: Leftover) -> Iterator[wording.SteelyardError]:
    """Yield that what the record lists and this account's campaign did not make is left alone."""
    if leftover.foreign:
        names = ", ".join(
            map(wording.printable, dict.fromkeys(made.name for made in leftover.foreign))
        )
        own = next(iter(registry.directories(leftover.campaign_id)), None)
        where = f"; the campaign's own record is {own}" if own else ""
        yield wording.LeftBehindError(
            f"{leftover.record} lists as left behind what this account did not make here, so it is"
            f" left alone: {names}{where}",
            hint="This was made elsewhere: run `steelyard clean` there, as the account that ran the"
            " campaign. If that is gone, undo by hand what `steelyard clean --dry-run"
            f" {leftover.record}` shows, then take the record over with `steelyard clean --adopt"
            f" {leftover.record}`.",
        )


def undo_all(found: Sequence[Leftover], doors: Doors) -> None:
    """Undo what several dead campaigns left behind; one that fails does not keep the others.

    Raises:
        LeftBehindError: Something is still there.
    """
    wording.raise_all(wording.troubles_of(lambda leftover: undo(leftover, doors), found))


def _undone(
    leftover: Leftover, doors: Doors, kept: tuple[type[Outside], ...] = ()
) -> Iterator[wording.SteelyardError]:
    """Undo what is ours but for ``kept``, each whatever becomes of others, and note it.

    Yields:
        What is left of it.
    """
    things = [thing for thing in leftover.things if not isinstance(thing, kept)]
    for thing, trouble in undoing.undo_each(things, doors):
        if trouble is not None:
            yield trouble
            continue
        # Without a readable journal there is nowhere to note it, and nothing to note it for.
        with suppress(wording.RecordError):
            _note(leftover, doors, Removed.of(thing))


def _note(leftover: Leftover, doors: Doors, removed: Removed) -> None:
    if leftover.record is None:
        return
    directory = CampaignDirectory.reopen(leftover.record, doors.clock)
    try:
        directory.journal.append(removed)
    finally:
        directory.close()


def note_gone(directory: CampaignDirectory) -> None:
    """Note what a session removed, or never made, before it died without a word."""
    for made in read_standing(directory.path).left:
        if made.is_path and not Path(made.name).exists():
            directory.journal.append(Removed.of(made))


def require_nothing_left(directory: Path) -> Standing:
    """Return where a campaign stands whose journal lists nothing any more.

    Raises:
        LeftBehindError: With what it lists.
        RecordError: It cannot be read.
    """
    stands = read_standing(directory)
    names = left_behind(stands.left)
    if names:
        raise wording.LeftBehindError(
            f"left behind: {', '.join(names)}", hint="Remove it with `steelyard clean`."
        )
    return stands
