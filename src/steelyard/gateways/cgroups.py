"""The only door to control groups: where they can be made, and their files, in both versions.

Version 1 has a hierarchy of groups for each controller, or one for several; version 2 has one for
all. A machine may have both, each with controllers of its own. ``root`` may be a tree of files, so
that machines that are not here can be tested.
"""

import errno
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from steelyard.core.command import quoted
from steelyard.core.errors import InputError, PrivilegeError, TargetError
from steelyard.core.linux import Controller, parse_cpu_list
from steelyard.gateways.files import existing_parent, read_text
from steelyard.gateways.pausing import FREEZE, Freezer, SystemFreezer

PROCESSES = "cgroup.procs"
_V1_NAMES = {
    Controller.CPU: "cpu",
    Controller.CPUSET: "cpuset",
    Controller.IO: "blkio",
    Controller.FREEZER: "freezer",
}
_CPUS_OF_A_GROUP = ("cpuset.effective_cpus", "cpuset.cpus.effective", "cpuset.cpus")
_ONLINE = "sys/devices/system/cpu/online"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchy:
    """Where groups of a controller are made: a mounted directory, and the version of its files."""

    root: Path
    version: int


class Cgroups(Protocol):
    """The control groups of one machine."""

    @property
    def privileged(self) -> bool:
        """Return whether this account may make groups."""
        ...

    def hierarchy(self, controller: Controller) -> Hierarchy:
        """Return where groups of a controller are made; raises PrivilegeError when nowhere."""
        ...

    def roots(self) -> frozenset[Path]:
        """Return every directory below which groups may be made."""
        ...

    def make(self, directory: Path) -> None:
        """Make a group; one that is there already is no error."""
        ...

    def remove(self, directory: Path) -> bool:
        """Remove a group; return false when processes are in it. An absent one is no error."""
        ...

    def exists(self, directory: Path) -> bool:
        """Return whether a group is there."""
        ...

    def read(self, directory: Path, name: str) -> str:
        """Return the text of a group's file without its newline, empty where it is absent."""
        ...

    def write(self, directory: Path, name: str, text: str) -> None:
        """Write a group's file; raises TargetError with the kernel's word when it refuses."""
        ...

    def freezer(self, directory: Path) -> Freezer:
        """Return what freezes and thaws a group; raises TargetError when it has nothing."""
        ...

    def members(self, directory: Path) -> tuple[int, ...]:
        """Return the ids of the processes in a group."""
        ...

    def cpus(self) -> tuple[int, ...]:
        """Return the CPUs that groups may be given; empty where nothing tells."""
        ...

    def device(self, path: Path) -> str | None:
        """Return ``MAJOR:MINOR`` of the whole disk that holds a path, None where there is none."""
        ...


class SystemCgroups:
    """The control groups of this machine, or a tree of their files below ``root``."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    @property
    def privileged(self) -> bool:
        """Return whether this account is root."""
        return os.geteuid() == 0

    def hierarchy(self, controller: Controller) -> Hierarchy:
        """Return where groups of a controller are made, version 1 before version 2.

        Raises:
            PrivilegeError: No hierarchy has it, it is not enabled there, or it is read-only.
        """
        if controller is Controller.FREEZER:
            return self._freezing()
        for directory, kind, options in self._mounts():
            if kind == "cgroup" and _V1_NAMES[controller] in options:
                return _writable(Hierarchy(root=directory, version=1))
        for directory, kind, _ in self._mounts():
            known = self.read(directory, "cgroup.controllers").split()
            if kind == "cgroup2" and controller in known:
                control = "cgroup.subtree_control"
                if controller not in self.read(directory, control).split():
                    raise PrivilegeError(
                        f"the controller `{controller}` is not enabled for groups below"
                        f" {directory}",
                        hint=f"Enable it: echo +{controller} > {quoted(directory / control)}",
                    )
                return _writable(Hierarchy(root=directory, version=2))
        raise PrivilegeError(
            f"no hierarchy of control groups has the controller `{controller}`"
            f" (`{_V1_NAMES[controller]}` in version 1)",
            hint="Mount one, run where the container passes it on, or leave out the keys below"
            " `cgroup:` that need it.",
        )

    def _freezing(self) -> Hierarchy:
        """Return where groups can be frozen: the freezer of version 1, else any of version 2.

        In version 2 it is no controller that is listed and enabled.

        Raises:
            PrivilegeError: Nowhere, or it is read-only.
        """
        found = [
            Hierarchy(root=directory, version=1)
            for directory, kind, options in self._mounts()
            if kind == "cgroup" and _V1_NAMES[Controller.FREEZER] in options
        ]
        found += [
            Hierarchy(root=directory, version=2)
            for directory, kind, _ in self._mounts()
            if kind == "cgroup2" and _freezes(directory)
        ]
        if not found:
            raise PrivilegeError(
                "no hierarchy of control groups can freeze processes",
                hint="Version 2 can since Linux 5.2; in a container it has to be passed on.",
            )
        usable = [each for each in found if os.access(each.root, os.W_OK)]
        return _writable((usable or found)[0])

    def roots(self) -> frozenset[Path]:
        """Return every mounted directory of control groups."""
        return frozenset(directory for directory, _, _ in self._mounts())

    def _mounts(self) -> list[tuple[Path, str, list[str]]]:
        """Return directory, type and options of every mounted hierarchy."""
        found = []
        for line in (read_text(self._root / "proc/self/mounts") or "").splitlines():
            fields = line.split()
            if len(fields) > 3 and fields[2] in ("cgroup", "cgroup2"):
                path = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[1])
                found.append((self._root / path.lstrip("/"), fields[2], fields[3].split(",")))
        return found

    def make(self, directory: Path) -> None:
        """Make a group.

        Raises:
            TargetError: The kernel refuses.
        """
        try:
            directory.mkdir(exist_ok=True)
        except OSError as error:
            raise TargetError(
                f"the control group {directory} cannot be made: {error.strerror}"
            ) from error

    def remove(self, directory: Path) -> bool:
        """Remove a group.

        Raises:
            TargetError: The kernel refuses for another reason than processes in it.
        """
        try:
            directory.rmdir()
        except FileNotFoundError:
            return True
        except OSError as error:
            if error.errno in (errno.EBUSY, errno.ENOTEMPTY):
                return False
            raise TargetError(
                f"the control group {directory} cannot be removed: {error.strerror}",
                hint="Remove it as root with `steelyard clean`.",
            ) from error
        return True

    def exists(self, directory: Path) -> bool:
        """Return whether a group is there."""
        return directory.is_dir()

    def read(self, directory: Path, name: str) -> str:
        """Return the text of a group's file, empty where it is absent."""
        return (read_text(directory / name) or "").strip()

    def write(self, directory: Path, name: str, text: str) -> None:
        """Write a group's file in one piece, as the kernel takes it.

        Raises:
            TargetError: The kernel refuses.
        """
        try:
            (directory / name).write_bytes(f"{text}\n".encode())
        except OSError as error:
            raise TargetError(
                f"the kernel refuses `{text}` in {directory / name}: {error.strerror}",
                hint="Correct the value below `cgroup:`.",
            ) from error

    def freezer(self, directory: Path) -> Freezer:
        """Return what freezes and thaws a group; its files are open until it is closed.

        Raises:
            TargetError: The group has none, or it may not be written.
        """
        return SystemFreezer(directory)

    def members(self, directory: Path) -> tuple[int, ...]:
        """Return the ids of the processes in a group."""
        return tuple(int(pid) for pid in self.read(directory, PROCESSES).split())

    def cpus(self) -> tuple[int, ...]:
        """Return the CPUs of the hierarchy for them, or those that are online."""
        texts = [read_text(self._root / _ONLINE) or ""]
        with suppress(PrivilegeError):
            root = self.hierarchy(Controller.CPUSET).root
            texts = [*(self.read(root, name) for name in _CPUS_OF_A_GROUP), *texts]
        for text in filter(None, map(str.strip, texts)):
            with suppress(InputError):
                return parse_cpu_list(text)
        return ()

    def device(self, path: Path) -> str | None:
        """Return the disk of the file system that holds a path; a partition's is the whole disk."""
        number = existing_parent(path).stat().st_dev
        link = self._root / f"sys/dev/block/{os.major(number)}:{os.minor(number)}"
        node = link.resolve()
        if (node / "partition").exists():
            node = node.parent
        return (read_text(node / "dev") or "").strip() or None


def _freezes(root: Path) -> bool:
    """Return whether the groups below a mount of version 2 have the file: since Linux 5.2.

    The root has none. Where there is no other group yet, making one will tell.
    """
    others = [entry for entry in root.iterdir() if entry.is_dir()] if root.is_dir() else []
    return not others or any((other / FREEZE).exists() for other in others)


def _writable(hierarchy: Hierarchy) -> Hierarchy:
    if not os.access(hierarchy.root, os.W_OK):
        raise PrivilegeError(
            f"{hierarchy.root} may not be written: control groups cannot be made there",
            hint="Run Steelyard as root, and in a container with this directory writable.",
        )
    return hierarchy
