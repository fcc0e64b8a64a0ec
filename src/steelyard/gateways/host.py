"""The only door to what the machine says of itself, and to the kernel's own files that are written.

It reads /proc, /sys, the scheduler and file systems; parsers are pure, and give None where a text
is torn or odd. ``root`` may be a recorded tree, so that facts of machines that are not here can be
tested. Of mounts and of control groups, versions 1 and 2, here stands what their files say,
wherever they were read: here, over ssh, in a container.

``/dev/cpu_dma_latency`` says how long a CPU may take to wake up, while somebody asks. The kernel
keeps the request as long as the file is open, and drops it when its holder ends, however it ends:
nothing is left to undo. Source: Linux, power/pm_qos_interface.rst.

The clock is here, too, so that tests can turn it, and free ports are found. A cloud's metadata of
the machine are asked only when the user says so: Amazon's service with a token (IMDSv2), one
request for the token, one for the type.
"""

import errno
import http.client
import os
import platform
import re
import resource
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from steelyard.core.linux import parse_cpu_list
from steelyard.core.wording import InputError, PreflightError, PrivilegeError, TargetError


class Clock:
    """Wall and monotonic time of this machine, and waiting."""

    def now(self) -> float:
        """Return the wall clock in seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds that never jump, from an arbitrary start."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


def looks(clock: Clock, within_s: float, *pauses_s: float) -> Iterator[float]:
    """Yield the seconds that were waited before each look at something, at once and after pauses.

    The last look is the first one that begins too late: ``else`` of the loop is where what was
    waited for did not come. So a process that slept through its time looks once more.

    Args:
        clock: To wait by.
        within_s: How long to go on.
        pauses_s: Between the looks, one after the other; the last one again and again.
    """
    begun, pauses, pause_s = clock.monotonic(), iter(pauses_s), 0.0
    while True:
        waited_s = clock.monotonic() - begun
        yield waited_s
        if waited_s > within_s:
            return
        pause_s = next(pauses, pause_s)
        clock.sleep(pause_s)


def trouble_until(
    is_back: Callable[[], bool], clock: Clock, within_s: float, poll_s: float, trouble: str
) -> str:
    """Return nothing once a server is back, else what is wrong when the time is up.

    Args:
        is_back: Asks it; that it does not answer is what is wrong then.
        clock: To wait by.
        within_s: How long to go on.
        poll_s: Between two questions.
        trouble: What is wrong if it answers and is not back.
    """
    for _ in looks(clock, within_s, poll_s):
        try:
            if is_back():
                return ""
        except (TargetError, PreflightError) as error:  # a pod may not be there for a moment
            trouble = error.message
    return trouble


def until(holds: Callable[[], bool], clock: Clock, within_s: float, *pauses_s: float) -> bool:
    """Return whether something holds within a time; see ``looks``."""
    return any(holds() for _ in looks(clock, within_s, *pauses_s))


def thread_cpu_s() -> float:
    """Return the seconds of CPU that the calling thread has used."""
    return time.thread_time()


_CHUNK_BYTES = 1 << 16  # most files of /proc come in one piece
# The kernel hands out whole lines of a page's worth at least (fs/seq_file.c): after so short a
# piece comes nothing more, and every call that is not made is less of what is measured.
_SURELY_ALL_BYTES = 512
_NUMBER_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """The size of a file system and of its blocks, and what other accounts than root may write."""

    total_bytes: int
    free_bytes: int
    block_bytes: int


class Host(Protocol):
    """One machine's own account of itself; what has a body is so where a shell alone reads it."""

    def read(self, path: str) -> str | None:
        """Return the text of a file such as ``/proc/meminfo``, or None where it is absent."""

    def names(self, path: str) -> tuple[str, ...]:
        """Return the names in a directory such as ``/proc``; none where it is absent."""

    def number(self, path: str) -> int | None:
        """Return the 32-bit number that a device file holds, or None where it is closed to us."""

    def device(self, path: str) -> tuple[int, int] | None:  # noqa: ARG002 - a shell has no word for it
        """Return major and minor number of the device that holds a file, links followed."""
        return None

    def space(self, path: str) -> Space | None:  # noqa: ARG002 - likewise
        """Return the size of the file system that holds a file, or None where that is absent."""
        return None

    def cpus(self) -> int:
        """Return how many CPUs this process may run on."""

    def release(self) -> str:
        """Return the kernel release and machine type."""

    def own_cpu_s(self) -> float:
        """Return the seconds of CPU that this process has used, all threads."""
        return 0.0

    def children_cpu_s(self) -> float:
        """Return what the children of this process have used that ended and were waited for."""
        return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalHost(Host):
    """This machine, or a recorded tree of its files below ``root``."""

    root: Path = Path("/")

    def read(self, path: str) -> str | None:
        """Return the text of a file, or None where it is absent or unreadable.

        Probes read hundreds of files in a second: system calls alone, no file object.
        """
        try:
            descriptor = os.open(self._place(path), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            pieces = [os.read(descriptor, _CHUNK_BYTES)]
            while len(pieces[-1]) >= _SURELY_ALL_BYTES:
                pieces.append(os.read(descriptor, _CHUNK_BYTES))
        except OSError:
            return None  # a directory, or a process that ended meanwhile
        finally:
            os.close(descriptor)
        return b"".join(pieces).decode(errors="replace")

    def names(self, path: str) -> tuple[str, ...]:
        try:
            return tuple(os.listdir(self._place(path)))  # noqa: PTH208 - in a hot loop
        except OSError:
            return ()

    def number(self, path: str) -> int | None:
        try:
            with Path(self._place(path)).open("rb") as file:
                octets = file.read(_NUMBER_BYTES)
        except OSError:
            return None
        return int.from_bytes(octets, sys.byteorder) if len(octets) == _NUMBER_BYTES else None

    def device(self, path: str) -> tuple[int, int] | None:
        try:
            number = os.stat(self._place(path)).st_dev  # noqa: PTH116 - the path is a text
        except OSError:
            return None
        return os.major(number), os.minor(number)

    def space(self, path: str) -> Space | None:
        try:
            status = os.statvfs(self._place(path))
        except OSError:
            return None
        return Space(
            total_bytes=status.f_blocks * status.f_frsize,
            free_bytes=status.f_bavail * status.f_frsize,
            block_bytes=status.f_bsize,
        )

    def cpus(self) -> int:
        return len(os.sched_getaffinity(0))

    def release(self) -> str:
        return f"{platform.release()} {platform.machine()}"

    def own_cpu_s(self) -> float:
        return _cpu_s(resource.RUSAGE_SELF)

    def children_cpu_s(self) -> float:
        return _cpu_s(resource.RUSAGE_CHILDREN)

    def _place(self, path: str) -> str:
        return f"{self.root}/{path.lstrip('/')}"


def _cpu_s(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


_CLOSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFiles:
    """The kernel's files of this machine, for writing, or a tree of them below ``root``."""

    root: Path = Path("/")

    def obstacle(self, path: str) -> str | None:
        """Return why this account cannot write a file, or None where it can.

        Nothing is opened: for some files that alone has an effect.
        """
        place = self._place(path)
        if not os.path.exists(place):  # noqa: PTH110 - the path is a text
            return "it is not there"
        if os.access(place, os.W_OK):
            return None
        if os.statvfs(place).f_flag & os.ST_RDONLY:
            return "its file system is read-only here, as in a container"
        return "this account may not write it"

    def write(self, path: str, text: str) -> None:
        """Write a file in one piece, as the kernel wants it.

        Raises:
            PrivilegeError: The account may not, or the file system is read-only.
            TargetError: The file is absent, or the kernel refuses the text.
        """
        try:
            descriptor = os.open(self._place(path), os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(descriptor, text.encode())
            finally:
                os.close(descriptor)
        except OSError as error:
            raise _translated(error, path, text) from error

    def _place(self, path: str) -> str:
        return f"{self.root}/{path.lstrip('/')}"


def _translated(error: OSError, path: str, text: str) -> TargetError | PrivilegeError:
    if error.errno in _CLOSED:
        return PrivilegeError(
            f"{path} cannot be written: {error.strerror}",
            hint="Run this as root on the machine itself, not in a container.",
        )
    if error.errno == errno.ENOENT:
        return TargetError(f"{path} is not there", hint="This kernel does not have it.")
    return TargetError(
        f"the kernel refused {text!r} for {path}: {error.strerror}",
        hint="Look at what values it takes, in the kernel's admin guide.",
    )


_DEVICE: Final = Path("/dev/cpu_dma_latency")
_WORD: Final = struct.Struct("=i")


class CpuLatency:
    """The longest wake-up that is allowed to CPUs of this machine."""

    def __init__(self, device: Path = _DEVICE) -> None:
        self._device = device
        self._held: int | None = None

    def obstacle(self) -> str | None:
        """Return why this account cannot ask for a limit, or None where it can."""
        if not self._device.exists():
            return f"{self._device} is not there"
        if not os.access(self._device, os.W_OK):
            return f"this account may not write {self._device}"
        return None

    def in_force_us(self) -> int | None:
        """Return the limit in force, whoever asked for it; None where it cannot be read."""
        try:
            text = self._device.read_bytes()
        except OSError:
            return None
        return _WORD.unpack_from(text)[0] if len(text) >= _WORD.size else None

    def hold(self, microseconds: int) -> None:
        """Ask for a limit from now on; a former one of ours is replaced.

        Raises:
            PrivilegeError: This account may not.
            TargetError: The kernel refuses.
        """
        try:
            if self._held is None:
                self._held = os.open(self._device, os.O_RDWR | os.O_CLOEXEC)
            os.write(self._held, _WORD.pack(microseconds))
        except PermissionError as error:
            raise PrivilegeError(
                f"{self._device} cannot be written: {error.strerror}", hint="Run this as root."
            ) from error
        except OSError as error:
            raise TargetError(
                f"the kernel refused a wake-up of {microseconds} us: {error.strerror}",
                hint="Leave `dma_latency` out.",
            ) from error

    def release(self) -> None:
        """Ask for nothing any more."""
        if self._held is not None:
            os.close(self._held)
            self._held = None


ADDRESS: Final = "169.254.169.254"
_TIMEOUT_S: Final = 1.0  # it answers in milliseconds or is not there
_TOKEN: Final = "/latest/api/token"  # noqa: S105 - a path
_TYPE: Final = "/latest/meta-data/instance-type"
_LIFETIME: Final = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
_MOST_BYTES: Final = 200


def instance_type(address: str = ADDRESS) -> str:
    """Return what the service calls this machine's type, such as ``m6i.large``.

    Raises:
        TargetError: No such service answers.
    """
    token = _asked(address, "PUT", _TOKEN, _LIFETIME)
    return _asked(address, "GET", _TYPE, {"X-aws-ec2-metadata-token": token})


def _asked(address: str, method: str, path: str, headers: dict[str, str]) -> str:
    connection = http.client.HTTPConnection(address, timeout=_TIMEOUT_S)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        text = answer.read(_MOST_BYTES).decode(errors="replace").strip()
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise TargetError(f"no metadata service answers at {address}: {error}") from error
    finally:
        connection.close()
    if answer.status != http.HTTPStatus.OK or not text:
        raise TargetError(f"the metadata service at {address} answered {answer.status}")
    return text


LOOPBACK = "127.0.0.1"


def is_of_this_machine(host: str) -> bool:
    """Return whether a host is this machine: a socket, a loopback address, or one of its own.

    A name that nobody here knows is another's.
    """
    if host.startswith(("/", "@")):
        return True
    with suppress(OSError, UnicodeError):
        for family, _, _, _, address in socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM):
            # Only an address of its own can be bound.
            with suppress(OSError), closing(socket.socket(family, socket.SOCK_DGRAM)) as probe:
                probe.bind(address)
                return True
    return False


def free_port() -> int:
    """Return a TCP port of the loopback interface that nobody listens on just now."""
    with closing(socket.socket()) as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def require_free_port(port: int) -> None:
    """Raise when somebody listens on a port.

    Raises:
        PreflightError: The port is taken or may not be used.
    """
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise PreflightError(
                f"port {port} on {LOOPBACK} cannot be used: {error.strerror}",
                hint="Leave `port:` out to get a free one.",
            ) from error


# USER_HZ: what the kernel shows times of processes and CPUs in, 100 on every machine that
# PostgreSQL supports (include/asm-generic/param.h).
TICKS_PER_S = 100
_MOST_DIGITS = 20  # of an unsigned 64-bit number
_CPU_FIELDS = 8  # user nice system idle iowait irq softirq steal; guest is part of user


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTimes:
    """Seconds of all CPUs together since the start of the machine, and what else /proc/stat has.

    Attributes:
        user_s: Of programs, at whatever priority; guests of this machine included.
        system_s: Of the kernel, interrupts included.
        cpus: CPUs that are there.
    """

    user_s: float
    system_s: float
    idle_s: float
    iowait_s: float
    steal_s: float
    cpus: int
    context_switches: int | None

    @property
    def total_s(self) -> float:
        """Return the time of all CPUs, busy or not."""
        return self.user_s + self.system_s + self.idle_s + self.iowait_s + self.steal_s


def whole_number(text: str) -> int | None:
    """Return a number without sign, or None."""
    if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS:
        return int(text)
    return None


def whole_numbers(text: str | None) -> list[int] | None:
    """Return the numbers of a line, or None when it is absent or holds anything else."""
    return fields_as_numbers((text or "").split())


def fields_as_numbers(fields: Sequence[str]) -> list[int] | None:
    """Return fields without blanks as numbers, or None when there is none or one is no number."""
    joined = "".join(fields)  # hundreds of lines are read at a time: one look at all digits
    if not (joined.isascii() and joined.isdigit()):
        return None
    return None if max(map(len, fields)) > _MOST_DIGITS else list(map(int, fields))


def named_number(text: str | None, name: str) -> int | None:
    """Return the number of the line ``name value`` or ``name: value``, or None without it."""
    match = re.search(rf"^{name}:?[ \t]+([0-9]+)[ \t]*$", text or "", re.MULTILINE)
    return whole_number(match[1]) if match else None


def named_numbers(text: str | None) -> dict[str, int]:
    """Return the lines ``name value`` or ``name: value unit`` of a file; others are left out."""
    found = {}
    for line in (text or "").splitlines():
        name, _, rest = line.replace(":", " ", 1).partition(" ")
        fields = rest.split()
        number = whole_number(fields[0]) if fields else None
        if number is not None:
            found[name] = number
    return found


def memory_bytes(text: str | None) -> dict[str, int]:
    """Return the fields of the meminfo of a machine or node: bytes, or pages without a unit."""
    lines = re.sub(r"^Node [0-9]+ ", "", text or "", flags=re.MULTILINE)
    kilobytes = {line.partition(":")[0] for line in lines.splitlines() if line.endswith(" kB")}
    return {
        name: number * 1024 if name in kilobytes else number
        for name, number in named_numbers(lines).items()
    }


def cpu_times(text: str | None) -> CpuTimes | None:
    """Return the sums of /proc/stat."""
    lines = (text or "").splitlines()
    if not lines or not lines[0].startswith("cpu "):
        return None
    ticks = whole_numbers(lines[0][4:])
    cpus = sum(line.startswith("cpu") for line in lines) - 1
    if ticks is None or len(ticks) < _CPU_FIELDS or cpus < 1:
        return None
    user, nice, system, idle, iowait, irq, softirq, steal = (
        each / TICKS_PER_S for each in ticks[:_CPU_FIELDS]
    )
    switches = next((line[5:] for line in lines if line.startswith("ctxt ")), "")
    return CpuTimes(
        user_s=user + nice,
        system_s=system + irq + softirq,
        idle_s=idle,
        iowait_s=iowait,
        steal_s=steal,
        cpus=cpus,
        context_switches=whole_number(switches),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A file system that is mounted.

    Attributes:
        at: The directory.
        file_system: Its kind, such as ``ext4``.
        source: Its device, or what else it says it came from.
        options: Of the file system itself; those of the mount alone are left out where both are
            told apart.
        number: Major and minor number of its device as ``254:0``, major 0 is no disk; empty in
            tables that do not have it.
        root: The directory of the file system that is mounted, where the table has it.
    """

    at: str
    file_system: str
    source: str
    options: tuple[str, ...]
    number: str = ""
    root: str = "/"

    def holds(self, directory: str) -> bool:
        """Return whether a directory whose links are resolved is in it."""
        return _is_in(directory, self.at)


def parse_mounts(text: str | None) -> Iterator[Mount]:
    """Yield the lines of ``/proc/self/mounts`` in their order; what is torn is left out.

    In names the kernel writes blanks, tabs, line ends and backslashes as three octal digits, and
    nothing else (fs/proc_namespace.c of Linux): what Python takes for a blank or a line end may
    be part of a name.
    """
    for line in (text or "").split("\n"):
        fields = [_unescaped(field) for field in line.split(" ")]
        if len(fields) > 3:
            source, at, kind, options = fields[:4]
            yield Mount(at=at, file_system=kind, source=source, options=tuple(options.split(",")))


def parse_mountinfo(text: str | None) -> Iterator[Mount]:
    """Yield the lines of ``/proc/self/mountinfo`` in their order, written as the mounts are.

    Raises:
        ValueError: It is torn.
        LookupError: Likewise.
    """
    for line in filter(None, (text or "").split("\n")):
        before, _, after = line.partition(" - ")
        fields, (kind, source, *options) = before.split(" "), after.split(" ")
        yield Mount(
            root=_unescaped(fields[3]),
            at=_unescaped(fields[4]),
            file_system=kind,
            source=_unescaped(source),
            options=tuple(",".join(options).split(",")),
            number=fields[2],
        )


def innermost(mounts: Iterator[Mount], directory: str) -> Mount | None:
    """Return the file system below a directory whose links are resolved; None if not seen."""
    best = None
    for mount in mounts:  # a later one hides an earlier one at the same place
        if mount.holds(directory) and (best is None or len(mount.at) >= len(best.at)):
            best = mount
    return best


def mount_of(host: Host, directory: str) -> Mount | None:
    """Return the file system below a directory, with the numbers of its device.

    Raises:
        ValueError: As of ``parse_mountinfo``.
        LookupError: Likewise.
    """
    return innermost(parse_mountinfo(host.read("/proc/self/mountinfo")), directory)


def _unescaped(field: str) -> str:
    """Return a field of a table of mounts, in which some characters are their octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


GROUPS: Final = "/sys/fs/cgroup"
CPU_SETS: Final = ("cpuset.effective_cpus", "cpuset.cpus.effective", "cpuset.cpus")
GroupFile = Callable[[str], str | None]  # from the name of a group's file to its text


def files_of(host: Host, group: str) -> GroupFile:
    """Return what reads the files of a group, which is a directory."""
    return lambda name: host.read(f"{group}/{name}")


def groups_around(host: Host, pid: int | str, controller: str) -> Iterator[str]:
    """Yield the directories of a process's groups, from the nearest to the root of each hierarchy.

    They are of version 1 if that has the controller, of version 2 if not. A path that is not below
    a mount is that of a group outside of a container; the root of the mount is then the container's
    own, of a process in our own group. A mount of a group above a namespace does not tell which
    group below it is meant, nor is a group of another namespace below a mount of ours: they are
    left out.
    """
    try:
        mounts = tuple(parse_mountinfo(host.read("/proc/self/mountinfo")))
    except (ValueError, LookupError):
        mounts = ()
    lines = {
        line: line.partition(":")[2].partition(":")[::2]
        for line in (host.read(f"/proc/{pid}/cgroup") or "").splitlines()
    }
    own = (host.read("/proc/self/cgroup") or "").splitlines()
    # A controller is in one hierarchy: what version 1 has, version 2 has not.
    wanted = controller if any(controller in n.split(",") for n, _ in lines.values()) else ""
    for line, (controllers, path) in lines.items():
        named = controllers.split(",")
        if wanted not in named or path.startswith("/.."):
            continue
        places = [
            (mount.root, mount.at)
            for mount in mounts
            if mount.file_system == ("cgroup" if controllers else "cgroup2")
            and (not controllers or controller in mount.options)
            and not mount.root.startswith("/..")
        ]
        if not mounts:  # the table is not readable: the usual ones
            usual = dict.fromkeys((controllers, *named)) if controllers else ("", "unified")
            places = [("/", f"{GROUPS}/{name}".rstrip("/")) for name in usual]
        around = [(root.rstrip("/"), at) for root, at in places if _is_in(path, root)]
        for root, at in around or ((path, at) for _, at in places if line in own):
            parts = [part for part in path[len(root) :].split("/") if part]
            yield from ("/".join([at, *parts[:depth]]) for depth in range(len(parts), -1, -1))


def _is_in(path: str, directory: str) -> bool:
    """Return whether a path without links is a directory or below it."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


_LIMIT_FILES: Final = {
    "memory": ("memory.max", "memory.high", "memory.limit_in_bytes", "memory.stat"),
    "cpu": ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us"),
    "cpuset": CPU_SETS,
}


def limit_files(host: Host, pid: int) -> tuple[str, ...]:
    """Return the files that limit the memory and CPUs of a process, there or not."""
    of_groups = (
        f"{group}/{name}"
        for controller, names in _LIMIT_FILES.items()
        for group in groups_around(host, pid, controller)
        for name in names
    )
    return (f"/proc/{pid}/status", *of_groups)


def memory_limits(host: Host, pid: int | str) -> list[tuple[int, str]]:
    """Return each limit on the memory of a process, in bytes, and its group.

    Version 1 also tells the smallest limit of the groups that a container does not see.
    """
    found = []
    for group in groups_around(host, pid, "memory"):
        read = files_of(host, group)
        above = named_number(read("memory.stat"), "hierarchical_memory_limit")
        limits = (group_memory(read), above if above and above < _NO_LIMIT_BYTES else None)
        found += [(limit, group) for limit in limits if limit is not None]
    return found


def cpu_limits(host: Host, pid: int | str) -> list[tuple[float, str]]:
    """Return each limit on the CPUs of a process, and where it stands.

    A quota, a CPU set, its affinity, and what is online.
    """
    groups = (*groups_around(host, pid, "cpu"), *groups_around(host, pid, "cpuset"))
    reads = [(files_of(host, group), group) for group in dict.fromkeys(groups)]
    status, online = f"/proc/{pid}/status", "/sys/devices/system/cpu/online"
    cpus = [(group_cpus(read), group) for read, group in reads]
    cpus += [(allowed_cpus(host.read(status)), status), (cpus_in(host.read(online)), online)]
    quotas = [(group_quota(read), group) for read, group in reads]
    sets = [(float(len(numbers)), place) for numbers, place in cpus if numbers]
    return [*((quota, group) for quota, group in quotas if quota), *sets]


def group_quota(read: GroupFile) -> float | None:
    """Return how many CPUs the quota of a group is worth; None without one."""
    words = (read("cpu.max") or "").split()
    if not words:  # version 1
        words = [(read(f"cpu.cfs_{name}_us") or "").strip() for name in ("quota", "period")]
    numbers = [whole_number(word) for word in words]
    quota, period = numbers if len(numbers) == 2 else (None, None)
    return quota / period if quota and period else None


_NO_LIMIT_BYTES: Final = 1 << 60  # version 1 says "no limit" with a number near 2^63


def smallest_limit(read: GroupFile, *names: str) -> int | None:
    """Return the smallest limit in files of a group; None without one."""
    limits = [whole_number((read(name) or "").strip()) for name in names]
    return min(
        (each for each in limits if each is not None and each < _NO_LIMIT_BYTES), default=None
    )


def group_memory(read: GroupFile) -> int | None:
    """Return the bytes of memory that a group may use without being throttled or killed."""
    return smallest_limit(read, "memory.max", "memory.high", "memory.limit_in_bytes")


def group_cpus(read: GroupFile) -> tuple[int, ...] | None:
    """Return the CPUs that a group may use; None where its files do not say."""
    return cpus_in(next((text for name in CPU_SETS if (text := (read(name) or "").strip())), ""))


def allowed_cpus(status: str | None) -> tuple[int, ...] | None:
    """Return the CPUs that a process or thread may run on, from its ``status``."""
    allowed = re.search(r"^Cpus_allowed_list:\s*(\S+)$", status or "", re.MULTILINE)
    return cpus_in(allowed and allowed[1])


def cpus_in(text: str | None) -> tuple[int, ...] | None:
    """Return the CPUs of a list such as ``0-3,8``; None where it is absent or odd."""
    try:
        return parse_cpu_list(text.strip()) if text and text.strip() else None
    except InputError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttling:
    """Since the group was made.

    Attributes:
        periods: In which somebody of the group wanted a CPU.
        throttled: Those in which the quota was used up.
        throttled_s: Summed over CPUs, so it may be longer than the time that went by.
    """

    periods: int
    throttled: int
    throttled_s: float


def parse_throttling(text: str | None) -> Throttling | None:
    """Return what ``cpu.stat`` of a group says: nanoseconds in version 1, microseconds in 2."""
    counted = named_numbers(text)
    periods, throttled = counted.get("nr_periods"), counted.get("nr_throttled")
    if periods is None or throttled is None:
        return None
    if "throttled_usec" in counted:
        seconds = counted["throttled_usec"] / 1e6
    elif "throttled_time" in counted:
        seconds = counted["throttled_time"] / 1e9
    else:
        return None
    return Throttling(periods=periods, throttled=throttled, throttled_s=seconds)
