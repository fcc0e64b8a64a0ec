"""The only door to control groups: where they can be made, their files, and their freezer.

Version 1 has a hierarchy of groups for each controller, or one for several; version 2 has one for
all. A machine may have both, each with controllers of its own. ``root`` may be a tree of files, so
that machines that are not here can be tested.

A pause must cost little, so the files of a freezer are held open. Version 1 has ``freezer.state``,
version 2 ``cgroup.freeze`` and ``cgroup.events``. In version 1 a frozen process ignores even
SIGKILL until it is thawed.

The guard is a process that lets everything go on when Steelyard dies while it stands still. It
outlives us by design: in a session of its own, immune to the signals that end a terminal's or a
service's programs, it waits for the end of a pipe that only we hold open. The kernel closes that
whenever and however we die.
"""

import errno
import os
import select
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from steelyard.core.linux import Controller, parse_cpu_list
from steelyard.core.wording import InputError, PrivilegeError, TargetError, quoted
from steelyard.gateways.files import existing_parent, read_text
from steelyard.gateways.host import CPU_SETS, parse_mounts

_STILL: Final = frozenset({b"T", b"t", b"Z", b"X"})  # stopped, traced, dead: proc_pid_stat(5)


class _Look(NamedTuple):
    """What ``/proc/PID/stat`` says of a process."""

    parent: int
    runs: bool
    is_dead: bool


class Families:
    """Processes and their descendants, of this machine or of a tree of files below ``root``."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._proc = str(root / "proc")

    def of(self, first: Iterable[int]) -> Mapping[int, bool]:
        """Return processes and all that descend from them, parents first, and whether each runs.

        One that is gone is not in it. One runs as long as any of its threads does. Only processes
        of the same accounts are looked at: others may be many.
        """
        first = tuple(first)
        everybody = dict(self._processes_of(frozenset(self._accounts(first))))
        children: dict[int, list[int]] = {}
        for pid, look in everybody.items():
            children.setdefault(look.parent, []).append(pid)
        family = [pid for pid in dict.fromkeys(first) if pid in everybody]
        for pid in family:  # it grows while it is gone through
            family += [child for child in children.get(pid, ()) if child not in first]
        return {pid: everybody[pid].runs for pid in family}

    def stopped(self, pids: Iterable[int]) -> tuple[int, ...]:
        """Return those that were stopped by a signal and not continued."""
        looks = {pid: self._look(pid) for pid in pids}
        return tuple(
            pid for pid, look in looks.items() if look and not look.runs and not look.is_dead
        )

    def _accounts(self, pids: Iterable[int]) -> Iterator[int]:
        for pid in pids:
            try:
                yield os.stat(f"{self._proc}/{pid}").st_uid  # noqa: PTH116 - often, as below
            except FileNotFoundError:
                continue

    def _processes_of(self, accounts: frozenset[int]) -> Iterator[tuple[int, _Look]]:
        with os.scandir(self._proc) as entries:
            for entry in entries:
                if not entry.name.isdigit():
                    continue
                try:
                    is_one = entry.stat(follow_symlinks=False).st_uid in accounts
                except OSError:
                    continue  # it ended
                if is_one and (look := self._look(int(entry.name))) is not None:
                    yield int(entry.name), look

    def _look(self, pid: int) -> _Look | None:
        words = _words(f"{self._proc}/{pid}/stat")
        if words is None:
            return None
        runs = words[0] not in _STILL
        if not runs and words[17] not in {b"0", b"1"}:  # threads
            runs = self._any_thread_runs(pid)
        return _Look(parent=int(words[1]), runs=runs, is_dead=words[0] in {b"Z", b"X"})

    def _any_thread_runs(self, pid: int) -> bool:
        """Return whether one of its threads is still on its way to stopping."""
        try:
            threads = os.listdir(f"{self._proc}/{pid}/task")  # noqa: PTH208 - names only
        except OSError:
            return False
        looks = (_words(f"{self._proc}/{pid}/task/{thread}/stat") for thread in threads)
        return any(words is not None and words[0] not in _STILL for words in looks)


def _words(path: str) -> list[bytes] | None:
    """Return the fields after the name, which may hold anything; None when it is gone."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - pathlib takes twice as long
            return file.read(1024).rpartition(b")")[2].split()
    except OSError:
        return None


STATE: Final = "freezer.state"  # version 1
FREEZE: Final = "cgroup.freeze"  # version 2
EVENTS: Final = "cgroup.events"
FROZEN: Final = "FROZEN"
THAWED: Final = "THAWED"
_ROOM: Final = 256  # more than either file has


class Freezer:
    """Lets all processes of a group stand still, whichever version the group is of."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._is_first = (directory / STATE).exists()
        self._control = self._open(STATE if self._is_first else FREEZE, os.O_RDWR)
        try:
            self._state = self._control if self._is_first else self._open(EVENTS, os.O_RDONLY)
        except TargetError:
            os.close(self._control)
            raise

    def _open(self, name: str, way: int) -> int:
        try:
            return os.open(self._directory / name, way | os.O_CLOEXEC)
        except OSError as error:
            raise TargetError(
                f"the control group {self._directory} cannot be frozen: {error.strerror}: {name}",
                hint="Version 2 can since Linux 5.2; or run one configuration at a time.",
            ) from error

    def freeze(self) -> None:
        """Begin to freeze; ``is_frozen`` tells when it is done."""
        self._write(FROZEN if self._is_first else "1")

    def thaw(self) -> None:
        """Let everything go on."""
        self._write(THAWED if self._is_first else "0")

    def is_frozen(self) -> bool:
        """Return whether nothing in the group runs."""
        words = os.pread(self._state, _ROOM, 0).decode().split("\n")
        return (FROZEN if self._is_first else "frozen 1") in words

    def _write(self, word: str) -> None:
        try:
            os.pwrite(self._control, f"{word}\n".encode(), 0)
        except OSError as error:
            raise TargetError(
                f"the kernel refuses `{word}` for the control group {self._directory}:"
                f" {error.strerror}"
            ) from error

    def close(self) -> None:
        """Thaw, and give back what is held open."""
        if self._control >= 0:
            with suppress(TargetError):  # the group is gone
                self.thaw()
            for descriptor in {self._control, self._state}:
                os.close(descriptor)
            self._control = self._state = -1


_SHELL: Final = "/bin/sh"
_READY_S: Final = 10.0  # a guess: a shell takes milliseconds, a machine that swaps does not
_END_S: Final = 5.0
_SAYS: Final = b"ready\n"
# Words: g:GROUP, d:DIRECTORY. Only what a POSIX shell has in itself, and ls: it names a process and
# its working directory without touching that, which may be on a file system that hangs.
_SCRIPT: Final = r"""
trap '' HUP INT QUIT TERM TSTP PIPE
echo ready
exec >&-
while read -r line; do :; done
for each; do
  place=${each#?:}
  case $each in
  g:*)
    if [ -e "$place/freezer.state" ]; then echo THAWED >"$place/freezer.state"; fi
    if [ -e "$place/cgroup.freeze" ]; then echo 0 >"$place/cgroup.freeze"; fi
    ;;
  esac
done
ls -ln /proc/[0-9]*/cwd | while read -r line; do
  where=${line#* -> }
  pid=${line#* /proc/}
  for each; do
    case $each in
    d:*)
      case $where/ in
      "${each#d:}"/*) kill -s CONT "${pid%%/*}" ;;
      esac
      ;;
    esac
  done
done
"""


class Guards:
    """Starts guards."""

    def start(self, groups: Sequence[Path], directories: Sequence[Path]) -> "Guard":
        """Return a guard once it is ready.

        Args:
            groups: Control groups that it thaws; they need not be there yet.
            directories: Whose processes it continues: those that work in one or below.

        Raises:
            TargetError: It does not start.
        """
        words = [f"g:{group}" for group in groups]
        words += [f"d:{os.path.realpath(directory)}" for directory in directories]
        return Guard(words)


class Guard:
    """Watches over what stands still: a shell that waits for our end."""

    def __init__(self, words: Sequence[str]) -> None:
        try:
            self._process = subprocess.Popen(
                [_SHELL, "-c", _SCRIPT, "steelyard-guard", *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
                start_new_session=True,
            )
        except OSError as error:
            raise TargetError(f"{_SHELL} cannot be run: {error.strerror}") from error
        try:
            self._await_ready()
        except BaseException:
            self._process.kill()
            self.close()
            raise

    def _await_ready(self) -> None:
        """Wait until it ignores what would end it.

        Raises:
            TargetError: It does not get there.
        """
        assert self._process.stdout is not None  # noqa: S101 - asked for
        with self._process.stdout as said:
            ready, _, _ = select.select([said], [], [], _READY_S)
            if not ready or said.readline() != _SAYS:
                raise TargetError(
                    "the guard that thaws servers after a death did not start",
                    hint=f"Does `{_SHELL} -c 'echo ready'` work here?",
                )

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self._process.pid

    def stands(self) -> bool:
        """Return whether it is alive."""
        return self._process.poll() is None

    def close(self) -> None:
        """Close the pipe that it waits on; it thaws and continues everything before it ends."""
        assert self._process.stdin is not None  # noqa: S101 - asked for
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


PROCESSES = "cgroup.procs"
_V1_NAMES = {
    Controller.CPU: "cpu",
    Controller.CPUSET: "cpuset",
    Controller.IO: "blkio",
    Controller.MEMORY: "memory",
    Controller.FREEZER: "freezer",
}
_ONLINE = "sys/devices/system/cpu/online"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchy:
    """Where groups of a controller are made: a mounted directory, and the version of its files."""

    root: Path
    version: int


class Cgroups:
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

    def _mounts(self) -> list[tuple[Path, str, tuple[str, ...]]]:
        """Return directory, type and options of every mounted hierarchy."""
        return [
            (self._root / mount.at.lstrip("/"), mount.file_system, mount.options)
            for mount in parse_mounts(read_text(self._root / "proc/self/mounts"))
            if mount.file_system in ("cgroup", "cgroup2")
        ]

    def make(self, directory: Path) -> None:
        """Make a group; one that is there already is no error, a TargetError the kernel's word."""
        try:
            directory.mkdir(exist_ok=True)
        except OSError as error:
            raise TargetError(
                f"the control group {directory} cannot be made: {error.strerror}"
            ) from error

    def remove(self, directory: Path) -> bool:
        """Remove a group; return false when processes are in it. An absent one is no error.

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
        """Return the text of a group's file without its newline, empty where it is absent."""
        return (read_text(directory / name) or "").strip()

    def write(self, directory: Path, name: str, text: str) -> None:
        """Write a group's file; raises TargetError with the kernel's word when it refuses."""
        try:
            (directory / name).write_bytes(f"{text}\n".encode())
        except OSError as error:
            raise TargetError(
                f"the kernel refuses `{text}` in {directory / name}: {error.strerror}",
                hint="Correct the value below `cgroup:`.",
            ) from error

    def freezer(self, directory: Path) -> Freezer:
        """Return what freezes and thaws a group; raises TargetError when it has nothing.

        Its files are open until it is closed.
        """
        return Freezer(directory)

    def members(self, directory: Path) -> tuple[int, ...]:
        """Return the ids of the processes in a group."""
        return tuple(int(pid) for pid in self.read(directory, PROCESSES).split())

    def cpus(self) -> tuple[int, ...]:
        """Return the CPUs of the hierarchy for them, or those that are online; else none."""
        texts = [read_text(self._root / _ONLINE) or ""]
        with suppress(PrivilegeError):
            root = self.hierarchy(Controller.CPUSET).root
            texts = [*(self.read(root, name) for name in CPU_SETS), *texts]
        for text in filter(None, map(str.strip, texts)):
            with suppress(InputError):
                return parse_cpu_list(text)
        return ()

    def device(self, path: Path) -> str | None:
        """Return ``MAJOR:MINOR`` of the whole disk that holds a path, None where there is none."""
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
