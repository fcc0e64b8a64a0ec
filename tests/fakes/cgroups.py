"""Control groups without a kernel: files in memory that answer as a kernel's would."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from steelyard.core.linux import Controller
from steelyard.core.wording import PrivilegeError, TargetError
from steelyard.gateways.cgroups import FREEZE, FROZEN, STATE, THAWED, Cgroups, Freezer, Hierarchy

_ROOT = Path("/fake/cgroup")


@dataclass(kw_only=True)
class FakeCgroups(Cgroups):
    """A machine with all controllers in one version.

    Attributes:
        lacks: Controllers that are nowhere.
        refuses: Files that take no text.
        ignores: Files that take a text and keep what they had.
        within: Who is in a group.
        busy: How often a removal is refused because of processes.
        restless: Of a frozen group, how many looks find that something in it still runs.
    """

    version: int = 1
    privileged: bool = True
    lacks: frozenset[Controller] = frozenset()
    refuses: set[str] = field(default_factory=set)
    ignores: set[str] = field(default_factory=set)
    there: tuple[int, ...] = (0, 1)
    disk: str | None = "254:0"
    within: Callable[[Path], tuple[int, ...]] = lambda _: ()
    busy: int = 0
    restless: int = 0
    groups: set[Path] = field(default_factory=set)
    files: dict[Path, str] = field(default_factory=dict)
    written: list[tuple[Path, str]] = field(default_factory=list)

    def hierarchy(self, controller: Controller) -> Hierarchy:
        """Return one directory for each controller in version 1, one for all in version 2."""
        if controller in self.lacks:
            raise PrivilegeError(f"no hierarchy has `{controller}`", hint="The fake lacks it.")
        root = _ROOT / controller if self.version == 1 else _ROOT
        return Hierarchy(root=root, version=self.version)

    def roots(self) -> frozenset[Path]:
        """Return the directories of all controllers."""
        return frozenset(self.hierarchy(c).root for c in set(Controller) - self.lacks)

    def make(self, directory: Path) -> None:
        """Make a group."""
        self.groups.add(directory)

    def remove(self, directory: Path) -> bool:
        """Remove a group, unless it is busy."""
        if self.busy > 0:
            self.busy -= 1
            return False
        self.groups.discard(directory)
        return True

    def exists(self, directory: Path) -> bool:
        """Return whether a group is there."""
        return directory in self.groups

    def read(self, directory: Path, name: str) -> str:
        """Return what was written; the root has all CPUs and one memory node."""
        if directory in self.roots():
            cpus = ",".join(map(str, self.there))
            return {"cpuset.cpus": cpus, "cpuset.mems": "0"}.get(name, "")
        return self.files.get(directory / name, "")

    def write(self, directory: Path, name: str, text: str) -> None:
        """Write a file of a group; nothing outside the groups may be written."""
        assert directory in self.groups
        if name in self.refuses:
            raise TargetError(
                f"the kernel refuses `{text}` in {directory / name}: Invalid argument"
            )
        self.written.append((directory / name, text))
        if name not in self.ignores:
            self.files[directory / name] = text

    def freezer(self, directory: Path) -> "FakeFreezer":
        """Return what freezes a group that is there."""
        if directory not in self.groups:
            raise TargetError(f"the control group {directory} cannot be frozen: it is not there")
        return FakeFreezer(cgroups=self, directory=directory)

    def frozen(self) -> set[Path]:
        """Return the groups that are frozen."""
        words = {STATE: FROZEN, FREEZE: "1"}
        return {path.parent for path, text in self.files.items() if words.get(path.name) == text}

    def members(self, directory: Path) -> tuple[int, ...]:
        """Return who is in a group."""
        return self.within(directory)

    def cpus(self) -> tuple[int, ...]:
        """Return all CPUs."""
        return self.there

    def device(self, path: Path) -> str | None:
        """Return the one disk, wherever a path is."""
        assert path.is_absolute()
        return self.disk


@dataclass(kw_only=True)
class FakeFreezer(Freezer):
    """The freezer of one group: its files are those of its version."""

    cgroups: FakeCgroups
    directory: Path
    closed: bool = False
    looks: int = 0

    def freeze(self) -> None:
        """Begin to freeze."""
        self.looks = 0
        self._write(FROZEN, "1")

    def thaw(self) -> None:
        """Let everything go on."""
        self._write(THAWED, "0")

    def is_frozen(self) -> bool:
        """Return whether nothing in the group runs, after as many looks as the test wants."""
        assert not self.closed
        self.looks += 1
        return self.directory in self.cgroups.frozen() and self.looks > self.cgroups.restless

    def close(self) -> None:
        """Thaw and be done."""
        if not self.closed and self.directory in self.cgroups.groups:
            self.thaw()
        self.closed = True

    def _write(self, first: str, second: str) -> None:
        assert not self.closed
        is_first = self.cgroups.version == 1
        name, word = (STATE, first) if is_first else (FREEZE, second)
        self.cgroups.write(self.directory, name, word)
