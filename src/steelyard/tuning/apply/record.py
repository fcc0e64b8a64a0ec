"""The record of a plan that is applied: DIR/applied.jsonl, a journal like that of a campaign.

It has its own copy of the knobs, so that a revert does not depend on the plan's file, and every
snapshot, each on disk before its knob is turned. A record may come from somebody else: digests of
what this account wrote into its records are in its cache, on disk before the record has it.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Final

from steelyard.core.errors import PreflightError
from steelyard.core.stack import Knob
from steelyard.gateways.clock import Clock
from steelyard.gateways.files import Lock, add_line, cache_directory, make_directory, read_text
from steelyard.record.journal import (
    ENTRY,
    Entry,
    Journal,
    KnobKept,
    KnobPutBack,
    KnobTurned,
    StackBegun,
    read_lines,
)

NAME: Final = "applied.jsonl"
_LOCK: Final = "applied.lock"
_OWN: Final = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What a record says.

    Attributes:
        begun: The last plan that was begun; None where none was.
        snapshots: Of knobs that were turned and not put back, by name, in the order of turning.
        pending: What must still happen until a turned knob is in effect, by name.
    """

    begun: StackBegun | None
    snapshots: dict[str, KnobKept]
    pending: dict[str, str]


def read_applied(directory: Path) -> Applied:
    """Return what the record of a plan's directory says; an absent one says nothing.

    Raises:
        RecordError: It is damaged.
    """
    path = directory / NAME
    lines = read_lines(path)[0] if path.exists() else ()
    return _replayed([line.entry for line in lines])


def _replayed(entries: list[Entry]) -> Applied:
    begun: StackBegun | None = None
    snapshots: dict[str, KnobKept] = {}
    pending: dict[str, str] = {}
    for entry in entries:
        if isinstance(entry, StackBegun):
            if not snapshots and (begun is None or begun.knobs != entry.knobs):
                pending = {}  # the words of an operator about another plan
            begun = entry
        elif isinstance(entry, KnobKept):
            snapshots.setdefault(entry.knob.name, entry)  # the first is what was there before
        elif isinstance(entry, KnobTurned):
            pending[entry.name] = entry.pending
        elif isinstance(entry, KnobPutBack):
            snapshots.pop(entry.knob.name, None)
            pending.pop(entry.knob.name, None)
    return Applied(begun=begun, snapshots=snapshots, pending=pending)


def is_ours(applied: Applied) -> bool:
    """Return whether this account wrote what a revert would rest on: the server and the values."""
    known = set((read_text(_known()) or "").splitlines())
    wrote = [applied.begun, *applied.snapshots.values()]
    return all(_digest(entry) in known for entry in wrote if entry is not None)


def _known() -> Path:
    return cache_directory() / NAME


def _digest(entry: Entry) -> str:
    return sha256(ENTRY.dump_json(entry)).hexdigest()


class AppliedRecord:
    """An open record; the ledger of one application or revert."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        # Snapshots have the content of files that not everybody may read.
        self._journal = Journal(directory / NAME, clock, mode=_OWN)
        self.applied = read_applied(directory)

    def _write(self, entry: StackBegun | KnobKept) -> None:
        make_directory(cache_directory())
        add_line(_known(), _digest(entry))
        self._journal.append(entry)

    def begin(self, begun: StackBegun) -> None:
        """Note what is about to be applied; the same plan goes on where it was.

        Raises:
            PreflightError: Another plan is applied here and not reverted.
            RecordError: It cannot be written.
        """
        before = self.applied.begun
        if not self.applied.snapshots or before is None:
            self._write(begun)
            same = before is not None and before.knobs == begun.knobs
            pending = self.applied.pending if same else {}
            self.applied = Applied(begun=begun, snapshots={}, pending=pending)
        elif not _same(before, begun):
            raise PreflightError(
                "another plan, or the same for another server, is applied from this directory",
                hint="Revert it first with `steelyard stack revert`; the record has all it needs.",
            )
        elif _adds(before, begun):
            merged = replace(
                begun,
                server=begun.server or before.server,
                system_identifier=begun.system_identifier or before.system_identifier,
                server_place=begun.server_place or before.server_place,
                cluster=begun.cluster or before.cluster,
            )
            self._write(merged)
            self.applied = replace(self.applied, begun=merged)

    def kept(self, knob: Knob) -> str | None:
        """Return the snapshot that was kept and not put back yet, or None."""
        kept = self.applied.snapshots.get(knob.name)
        return None if kept is None else kept.snapshot

    def keep(self, knob: Knob, snapshot: str) -> None:
        """Store a snapshot, and return once it is on disk.

        Raises:
            RecordError: The disk is full or fails.
        """
        entry = KnobKept(knob=knob, snapshot=snapshot)
        self._write(entry)
        self.applied.snapshots.setdefault(knob.name, entry)

    def turned(self, knob: Knob, pending: str) -> None:
        """Note that a knob was turned, and what is pending."""
        if self.applied.pending.get(knob.name) != pending:
            self._journal.append(KnobTurned(name=knob.name, pending=pending))
            self.applied.pending[knob.name] = pending

    def put_back(self, knob: Knob) -> None:
        """Note that the snapshot is in effect again."""
        self._journal.append(KnobPutBack(knob=knob))
        self.applied.snapshots.pop(knob.name, None)
        self.applied.pending.pop(knob.name, None)

    def close(self) -> None:
        """Close the file."""
        self._journal.close()


def _adds(before: StackBegun, begun: StackBegun) -> bool:
    """Return whether a part of the plan is begun whose server or cluster was not named before."""
    return (before.server is None and begun.server is not None) or (
        before.cluster is None and begun.cluster is not None
    )


def _same(first: StackBegun, second: StackBegun) -> bool:
    """Return whether two beginnings are of one plan, whatever part of it was asked for.

    The part may grow: a plan that was applied with ``--only`` goes on as a whole.
    """
    servers = {each.system_identifier for each in (first, second) if each.system_identifier}
    places = {each.server_place for each in (first, second) if each.server_place}
    clusters = {(c.server, c.namespace) for c in (first.cluster, second.cluster) if c is not None}
    different = max(len(servers), len(places), len(clusters))
    return first.knobs == second.knobs and different < 2


@contextmanager
def opened(directory: Path, clock: Clock) -> Iterator[AppliedRecord]:
    """Yield the record of a directory, held against other Steelyards.

    Raises:
        PreflightError: Another one works there.
        RecordError: It is damaged or cannot be written.
    """
    lock = Lock(directory / _LOCK)
    if not lock.acquire():
        raise PreflightError(
            f"another Steelyard applies or reverts the plan in {directory}",
            hint="Wait for its end.",
        )
    try:
        with closing(AppliedRecord(directory, clock)) as record:
            yield record
    finally:
        lock.release()
