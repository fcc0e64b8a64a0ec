"""The directory of one campaign: who may write it, and what lies where in it."""

import gzip
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast, get_args

from steelyard.core.campaign import CampaignRecord
from steelyard.core.measurement import Environment
from steelyard.core.outside import Word
from steelyard.core.schedule import Schedule
from steelyard.core.wording import RecordError, form_of, printable_json, quoted, redacted
from steelyard.gateways import files
from steelyard.gateways.host import Clock
from steelyard.record.journal import (
    Created,
    Journal,
    Line,
    Standing,
    beginning,
    read_lines,
    replay,
    standing,
)

COPY_NOTE = "in-cluster.json"  # in a copy of a record whose campaign runs in a cluster
_EXPERIMENT = "experiment.yaml"
_BEFORE_THE_JOURNAL = {_EXPERIMENT, "journal.jsonl", "lock", "raw"}
_KINDS = get_args(Word)
_LONGEST_LINE_BYTES = 64 << 20  # a guess: a thousand times that of the largest experiment here


def copied(record: Path, key: str) -> str | None:
    """Return what the note in a copy says: its `campaign`, or the `command` that attaches to that.

    None where no note says it.
    """
    try:
        return str(json.loads(files.read_text(record / COPY_NOTE) or "")[key])
    except (ValueError, LookupError, TypeError):
        return None


class CampaignDirectory:
    """A campaign's directory, held by this process while it writes.

    Create one with ``create`` or ``reopen``; ``read_campaign`` needs no hold.
    """

    def __init__(self, path: Path, lock: files.Lock, clock: Clock) -> None:
        self.path = path
        self._lock = lock
        self.journal = Journal(path / "journal.jsonl", clock)

    @classmethod
    def create(cls, path: Path, clock: Clock, *, experiment_text: str) -> "CampaignDirectory":
        """Make the directory of a new campaign and hold it.

        Raises:
            RecordError: It holds a campaign already, something else, or cannot be written.
        """
        require_unused(path)
        files.make_directory(path)
        files.make_directory(path / "raw")
        lock = _hold(path)
        try:
            require_unused(path)  # again, now that nobody else can change it
            (path / "journal.jsonl").unlink(missing_ok=True)  # it has no whole line
            files.remove_unfinished(path, _EXPERIMENT)
            files.write_text(path / _EXPERIMENT, experiment_text, error_type=RecordError)
            files.sync_names(path, RecordError)
            return cls(path, lock, clock)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def reopen(cls, path: Path, clock: Clock) -> "CampaignDirectory":
        """Hold the directory of an existing campaign.

        Raises:
            RecordError: There is none, it is damaged, or another process holds it.
        """
        require_campaign(path)
        if (path / "raw").is_symlink():
            raise RecordError(
                f"{path / 'raw'} is a symbolic link", hint="Put the directory itself in its place."
            )
        lock = _hold(path)
        try:
            files.remove_unfinished(path)
            return cls(path, lock, clock)
        except BaseException:
            lock.release()
            raise

    def close(self) -> None:
        """Give the directory back."""
        self.journal.close()
        self._lock.release()

    def write_schedule(self, schedule: Schedule) -> None:
        """Store the order of all runs."""
        self._store("schedule.json", form_of(Schedule).dump_json(schedule, indent=1))

    def write_environment(self, environment: Environment) -> None:
        """Store the facts of machine and servers."""
        self._store("environment.json", form_of(Environment).dump_json(environment, indent=1))

    def _store(self, name: str, content: bytes) -> None:
        """Store a file that the journal is about to rest on."""
        text = printable_json(content.decode())
        files.write_text(self.path / name, f"{text}\n", error_type=RecordError)
        with files.translated(self.path, RecordError):
            files.sync_directory(self.path)

    def write_raw(self, name: str, text: str) -> str:
        """Store generator output, compressed; return the name it is stored under.

        It is on disk then, as what the journal names must be.

        Raises:
            RecordError: The disk is full or fails.
        """
        stored = f"{name}.gz"
        with self._flushed(stored) as file:
            file.write(gzip.compress(text.encode(), mtime=0))
        return stored

    @contextmanager
    def raw_file(self, name: str) -> Iterator[BinaryIO]:
        """Open a file below ``raw/`` that is compressed as it is written, quickly.

        It is on disk when it is closed.

        Raises:
            RecordError: The disk is full or fails.
        """
        with (
            self._flushed(f"{name}.gz") as plain,
            gzip.GzipFile("", "wb", compresslevel=1, fileobj=plain, mtime=0) as file,
        ):
            yield cast("BinaryIO", file)

    @contextmanager
    def _flushed(self, stored: str) -> Iterator[BinaryIO]:
        """Open a new file below ``raw/`` that is on disk, under its name, when it is closed."""
        target = self.path / "raw" / stored
        with files.translated(target, RecordError):
            target.unlink(missing_ok=True)  # of a try before, and never where a link leads
            with target.open("xb") as file:
                yield file
                files.sync_file(file)
            files.sync_directory(target.parent)

    def write_server_log(self, text: str) -> str:
        """Store what the servers of this session logged, without secrets; earlier logs stay."""
        earlier = len(list((self.path / "raw").glob("server-*.log.gz")))
        return self.write_raw(f"server-{earlier + 1}.log", redacted(text))

    def capacity_searches(self) -> int:
        """Return how many searches for the capacity left files, interrupted ones included."""
        names = (path.name.split("-") for path in (self.path / "raw").glob("capacity-*"))
        return len({parts[1] for parts in names})

    def read(self) -> CampaignRecord:
        """Return the campaign as the journal tells it."""
        return read_campaign(self.path)


def require_unused(path: Path) -> None:
    """Raise when a new campaign cannot have a directory.

    Raises:
        RecordError: It holds a campaign already, or something else.
    """
    if has_begun(path):
        raise RecordError(
            f"{path} holds a campaign already",
            hint=f"Go on with it by --resume {quoted(path)}, or name another directory with --dir.",
        )
    if not path.exists():
        return
    if path.is_dir():
        # A death may have left something before the journal.
        left = set(path.iterdir()) - set(files.unfinished_files(path, _EXPERIMENT))
        if {entry.name for entry in left} <= _BEFORE_THE_JOURNAL:
            return
    raise RecordError(
        f"{path} exists and is not an empty directory", hint="Name another with --dir."
    )


def read_campaign(path: Path) -> CampaignRecord:
    """Return the campaign in a directory, whoever writes it.

    Raises:
        RecordError: There is none, or it is damaged.
    """
    require_campaign(path)
    return replay(_begun(path))


def _begun(path: Path) -> tuple[Line, ...]:
    lines, _ = read_lines(path / "journal.jsonl")
    if not lines:
        raise RecordError(
            f"{path} holds no campaign: Steelyard ended before it wrote the first line of the"
            " journal",
            hint=f"Start it again: steelyard run FILE --dir {quoted(path)}",
        )
    return lines


def read_schedule(path: Path) -> Schedule:
    """Return the stored order of a campaign.

    Raises:
        RecordError: It is absent or damaged.
    """
    target = path / "schedule.json"
    with files.translated(target, RecordError):
        text = target.read_bytes()
    try:
        return form_of(Schedule).validate_json(text)
    except ValueError as error:
        raise RecordError(f"{target} is damaged", hint="Restore it from a copy.") from error


def read_beginning(path: Path) -> tuple[str, float]:
    """Return the experiment's name and when its campaign began, from the first line alone.

    Raises:
        RecordError: There is none, or it is damaged.
    """
    require_campaign(path)
    target = path / "journal.jsonl"
    with files.translated(target, RecordError), target.open("rb") as file:
        first = file.readline(_LONGEST_LINE_BYTES)
    return beginning(first, str(target))


def read_with_standing(path: Path) -> tuple[CampaignRecord, Standing]:
    """Return the campaign in a directory and where it stands, from one reading.

    Raises:
        RecordError: There is none, or it is damaged.
    """
    require_campaign(path)
    lines = _begun(path)
    return replay(lines), standing(lines)


def read_standing(path: Path) -> Standing:
    """Return where the campaign in a directory stands, and what it left outside.

    Raises:
        RecordError: There is none, or it is damaged.
    """
    require_campaign(path)
    return standing(_begun(path))


def left_behind(left: Iterable[Created]) -> tuple[str, ...]:
    """Return in words what a campaign made or changed outside its record and did not undo."""
    by_kind = sorted(left, key=lambda made: _KINDS.index(made.resource))
    there = [made for made in by_kind if may_be_there(made)]
    return tuple(f"knob {m.name}" if m.resource == "knob" else m.name for m in there)


def may_be_there(made: Created) -> bool:
    """Return false for a path that is gone: a death may come between a removal and its line."""
    try:
        return not made.is_path or Path(made.name).exists()
    except OSError:
        return True  # in another account's cache: it cannot be looked at


def standing_in(path: Path) -> Standing | None:
    """Return where the campaign in a directory stands; None where none can be read."""
    try:
        return read_standing(path)
    except RecordError:
        return None


def find_campaigns(root: Path) -> tuple[Path, ...]:
    """Return every directory at or below ``root`` that holds a journal, by name."""
    found = []
    for directory, below, names in os.walk(root):
        if "journal.jsonl" in names:
            found.append(Path(directory))
            below[:] = [name for name in below if name != "raw"]  # thousands of files
    return tuple(sorted(found))


def is_held(path: Path) -> bool:
    """Return whether a living process writes this campaign; one that begins to is not disturbed."""
    return files.Lock(path / "lock").is_held()


def has_begun(path: Path) -> bool:
    """Return whether a directory holds a campaign: a journal with at least its first line."""
    journal = path / "journal.jsonl"
    with files.translated(path, RecordError):
        return journal.exists() and bool(read_lines(journal)[0])


def _hold(path: Path) -> files.Lock:
    lock = files.Lock(path / "lock")
    if not lock.acquire():
        raise RecordError(
            f"another Steelyard is running the campaign in {path}",
            hint="Wait for it, stop it, or name another directory with --dir.",
        )
    return lock


def require_campaign(path: Path) -> None:
    """Raise when a directory holds no campaign.

    Raises:
        RecordError: There is no journal in it.
    """
    with files.translated(path, RecordError):
        there = (path / "journal.jsonl").is_file()
    if not there:
        below = find_campaigns(path)
        raise RecordError(
            f"{path} holds no campaign (no journal.jsonl)",
            hint=f"Name one below it; `steelyard list {quoted(str(path))}` lists them."
            if below
            else "Name the directory that `steelyard run` printed.",
        )
