"""A file system of our own that loses its power under a campaign, and what must outlive that."""

import gzip
import json
import os
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from steelyard.core.outside import OnServer
from steelyard.gateways.doors import Doors, system_doors
from steelyard.gateways.stores import VOLUME_PROGRAMS
from steelyard.places.local.server import end_all
from steelyard.record.directory import read_schedule
from steelyard.record.journal import Created, EnvironmentRead, Planned, read_lines, standing
from support.kills import Death, Lane, entries_in, journal_in, phase_of
from support.lacking import lacking
from support.live import living_servers

if TYPE_CHECKING:
    import subprocess

_BYTES = 3 * 1024**3  # sparse
_LOOK_S = 0.002
_THING = TypeAdapter(OnServer)


def require_power() -> None:
    """Skip where no file system can lose its power."""
    if os.geteuid() != 0:
        lacking("only root may mount file systems")
    if any(which(name) is None for name in VOLUME_PROGRAMS):
        lacking("there is no xfsprogs")


def mounts_below(place: Path) -> list[str]:
    """Return where file systems are mounted below a directory."""
    text = Path("/proc/self/mounts").read_text()
    return [line.split()[1] for line in text.splitlines() if str(place) in line]


def loops_below(place: Path) -> list[str]:
    """Return the files below a directory that are loop devices."""
    files = Path("/sys/block").glob("loop*/loop/backing_file")
    return [text for file in files if str(place) in (text := file.read_text())]


@dataclass(frozen=True, kw_only=True)
class Instant:
    """When the power goes: that long after a line of the journal.

    Attributes:
        line: How many lines there are then.
        later_s: How long after the last of them.
    """

    line: int
    later_s: float

    @classmethod
    def drawn(cls, coin: random.Random, gaps_s: list[float], *, after: int = 0) -> "Instant":
        """Return an instant between any two lines, or before the first, or after the last.

        Args:
            coin: Draws.
            gaps_s: From each line to the next, of a campaign that nobody cut.
            after: How many lines there are already.
        """
        line = coin.randrange(after, max(len(gaps_s), after + 1))
        return cls(line=line, later_s=coin.random() * gaps_s[min(line, len(gaps_s) - 1)])


@dataclass(frozen=True, kw_only=True)
class Disk:
    """An XFS in a file, with the cache and the records of a lane on it."""

    home: Path
    doors: Doors = field(default_factory=system_doors)

    @property
    def place(self) -> Path:
        """Return where it is mounted."""
        return self.home / "disk"

    @property
    def image(self) -> Path:
        """Return the file that it is in."""
        return self.home / "image"

    def make(self) -> Lane:
        """Make and mount it; return its lane."""
        self.place.mkdir()
        self.doors.volumes.make(self.image, _BYTES)
        self.doors.volumes.mount(self.image, self.place)
        self.place.chmod(0o755)
        lane = Lane(cache=self.place / "cache", home=self.place / "work")
        lane.home.mkdir()
        return lane

    def flush(self) -> None:
        """Bring what the test itself wrote to disk."""
        self.doors.volumes.flush(self.place)

    def cut(self, process: "subprocess.Popen[bytes]") -> None:
        """Take Steelyard and its file system their power at once, and bring the latter back."""
        process.send_signal(signal.SIGKILL)  # it must not hear of the cut and act on it
        self.doors.volumes.cut(self.place, self.doors.clock)
        process.wait()
        # A real cut ends these, too; what they hold in the kernel's memory must not stay here.
        assert end_all(self.place, self.doors.processes, self.doors.clock) == ()
        self.doors.volumes.unmount(self.place)
        self.doors.volumes.mount(self.image, self.place)
        assert not self.doors.volumes.outlived(self.place), "nothing was cut"

    def remove(self) -> None:
        """Unmount it, whatever became of it."""
        end_all(self.place, self.doors.processes, self.doors.clock)
        self.doors.volumes.unmount(self.place)


@dataclass(frozen=True, kw_only=True)
class Noted:
    """What the registry says that a campaign has outside its record."""

    directories: frozenset[str]
    labels: frozenset[str]

    @classmethod
    def by(cls, lane: Lane) -> "Noted":
        """Return what is noted of the one campaign of a lane."""
        notes = [path for path in (lane.cache / "campaigns").glob("[!.]*") if path.is_file()]
        lines = [line for path in notes for line in path.read_text().splitlines()]
        return cls(
            directories=frozenset(line for line in lines if line.startswith("/")),
            labels=frozenset(
                _THING.validate_json(line).label
                for line in lines
                if line.startswith("{") and line.endswith("}")
            ),
        )


def die_by_power(lane: Lane, disk: Disk, folder: Path, at: Instant, *arguments: str) -> Death:
    """Start Steelyard and cut the power at an instant; return what was acknowledged before."""
    known = len(entries_in(folder / "c"))
    disk.flush()
    begun = time.monotonic()
    process = lane.start(folder, *arguments)
    while process.poll() is None and journal_in(folder / "c").count(b"\n") < at.line:
        time.sleep(_LOOK_S)
    time.sleep(at.later_s)  # whatever happens in that time is as good an instant
    alive = process.poll() is None
    measuring = any("pgbench" in line for line in living_servers(lane.cache))
    said = (folder / "err").read_text()
    lines = _whole_lines(folder / "c").splitlines(keepends=True)
    acknowledged, noted = b"".join(lines[:-1]), Noted.by(lane)
    lasted_s = time.monotonic() - begun
    disk.cut(process)
    _require_kept(lane, folder / "c", acknowledged, noted)
    entries = entries_in(folder / "c")
    phase = phase_of(entries[known:], said, measuring=measuring, resumed=bool(known))
    planned = any(isinstance(entry, Planned) for entry in entries)
    return Death(
        at_s=lasted_s,
        phase=phase if alive else "after the end",
        acknowledged=_whole_lines(folder / "c"),
        schedule=(folder / "c" / "schedule.json").read_bytes() if planned else None,
    )


def _whole_lines(campaign: Path) -> bytes:
    content = journal_in(campaign)
    return content[: content.rfind(b"\n") + 1]


def _require_kept(lane: Lane, campaign: Path, acknowledged: bytes, noted: Noted) -> None:
    """No acknowledged line is lost, and what the lines that are there rest on is there and whole.

    What is outside and is still there is in the registry, as is all that the journal lists.
    """
    assert journal_in(campaign).startswith(acknowledged)
    if not _whole_lines(campaign):
        return
    lines, _ = read_lines(campaign / "journal.jsonl")
    entries = [line.entry for line in lines]
    assert (campaign / "experiment.yaml").read_text() == (campaign / "../killed.yaml").read_text()
    if any(isinstance(entry, Planned) for entry in entries):
        assert read_schedule(campaign).blocks
    if any(isinstance(entry, EnvironmentRead) for entry in entries):
        assert json.loads((campaign / "environment.json").read_text())["facts"]
    for name in _raw_files(campaign):
        assert gzip.decompress((campaign / "raw" / name).read_bytes()), f"{name} is empty"
    after = Noted.by(lane)
    there = {name for name in noted.directories if Path(name).exists()}
    assert there <= after.directories, "the registry lost a directory that is there"
    _require_known(standing(lines).left, after)


def _require_known(listed: tuple[Created, ...], noted: Noted) -> None:
    assert {each.name for each in listed if each.resource == "directory"} <= noted.directories
    assert {each.name for each in listed if each.resource == "on-server"} <= noted.labels


def _raw_files(campaign: Path) -> Iterator[str]:
    """Yield the names of all raw files that the journal names."""
    for line in _whole_lines(campaign).splitlines():
        yield from _names(json.loads(line))


def _names(value: object) -> Iterator[str]:
    if isinstance(value, str) and value.endswith(".gz"):
        yield value
    for inner in value.values() if isinstance(value, dict) else ():
        yield from _names(inner)
    for inner in value if isinstance(value, list) else ():
        yield from _names(inner)
