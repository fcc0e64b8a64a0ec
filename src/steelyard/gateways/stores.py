"""The only door to file systems of our own: XFS in a file, which can lose its power or be slow.

A loop device passes to its file what the file system wrote, and the file outlives the cut, as a
disk does. What the file system had not written yet is gone with the kernel's cache of it.

Simulated storage takes as long as it is told to. Its file is served by FUSE, below a loop device:
what the device reads, writes and flushes passes through a process of ours, which adds latency and
holds to limits: one bucket for reads and writes together, as the volumes of clouds have it, which
control groups cannot. The kernel's protocol is spoken directly (include/uapi/linux/fuse.h of
Linux), so that nothing has to be built or installed.

``python -m steelyard.gateways.stores FILE DIRECTORY LIMITS`` serves FILE as DIRECTORY/disk until it
is unmounted; LIMITS is JSON. Needs root.
"""

import ctypes
import errno
import fcntl
import json
import os
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Final

from steelyard.core.outside import Command
from steelyard.core.places import Store
from steelyard.core.wording import LeftBehindError, PreflightError, PrivilegeError, TargetError
from steelyard.gateways.files import free_bytes, read_text, translated
from steelyard.gateways.host import Clock, looks, parse_mounts
from steelyard.gateways.process import Processes, RunningProcess

VOLUME_PROGRAMS: Final = ("mkfs.xfs", "mount", "umount", "sync")
# Source: fs/xfs/libxfs/xfs_fs.h of Linux: XFS_IOC_GOINGDOWN is _IOR('X', 125, __u32), and of its
# flags XFS_FSOP_GOING_FLAGS_NOLOGFLUSH flushes neither the journal nor data.
_GOING_DOWN: Final = 2 << 30 | 4 << 16 | ord("X") << 8 | 125
_NO_LOG_FLUSH: Final = 2
_UNFLUSHED: Final = "unflushed"
_CONTENT: Final = b"x" * 4096
_TIMEOUT_S: Final = 60.0
_BLOCK_BYTES: Final = 512  # of st_blocks, whatever the file system has: stat(2)
_SYSTEM_PATH: Final = "/usr/sbin:/sbin:/usr/bin:/bin"  # an account's PATH may lack the first two


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The call that cuts: when it began and when it was over, in monotonic seconds."""

    begun_at: float
    ended_at: float


class _Mounted:
    """File systems in files, by the system's own programs, which only root may use so."""

    _way_out: str  # where one of them fails

    def __init__(self, processes: Processes, *, is_root: bool) -> None:
        self._processes = processes
        self._is_root = is_root

    def _run(self, *words: str) -> str:
        """Return what a program printed.

        Raises:
            TargetError: It failed.
        """
        command = Command(argv=words, environment={"PATH": _SYSTEM_PATH, "LC_ALL": "C"})
        completed = self._processes.run(command, timeout_s=_TIMEOUT_S)
        if not completed.succeeded:
            told = f"{' '.join(words[:2])} ... {words[-1]} failed: {completed.tail(1)}"
            raise TargetError(told, hint=self._way_out)
        return completed.stdout


class Volumes(_Mounted):
    """Makes, mounts, cuts and takes away file systems in files."""

    _way_out = (
        "Power cuts need XFS and loop devices of the kernel, which a container may not have;"
        " --deaths kill does without them."
    )

    def require(self) -> None:
        """Raise where this machine or this account cannot do that.

        Raises:
            PrivilegeError: Only root may.
            PreflightError: A program is not here.
        """
        if not self._is_root:
            raise PrivilegeError(
                "only root can cut the power of a file system: it is mounted for that",
                hint="Run it as root, or leave the power cuts out: --deaths kill.",
            )
        require_programs(
            VOLUME_PROGRAMS,
            hint="apt-get install xfsprogs, or leave the power cuts out: --deaths kill.",
        )

    def room_bytes(self, image: Path) -> int:
        """Return how large a file may get here: what is free, and what the file itself takes."""
        with translated(image):
            own = image.stat().st_blocks * _BLOCK_BYTES if image.exists() else 0
        return free_bytes(image.parent) + own

    def make(self, image: Path, size_bytes: int) -> None:
        """Make an empty XFS in a sparse file, over what was there."""
        with translated(image):
            image.unlink(missing_ok=True)
        make_sparse(image, size_bytes)
        self._run("mkfs.xfs", "-q", "-f", str(image))

    def mount(self, image: Path, place: Path) -> None:
        """Mount it at an empty directory; what its journal holds is replayed.

        The loop device goes when it is unmounted.
        """
        self._run("mount", "-t", "xfs", "-o", "loop,nosuid,nodev", str(image), str(place))

    def flush(self, place: Path) -> None:
        """Return once everything on it is in its file."""
        self._run("sync", "-f", str(place))

    def cut(self, place: Path, clock: Clock) -> Cut:
        """Shut it down without a flush of its journal, as ``xfs_io -x -c shutdown`` does.

        Just before, a file is left on it that nobody flushes.

        Called directly, and all else is done before: while a program starts or a path is looked
        up, a server has tens of milliseconds to flush what was acknowledged before.
        """
        try:
            descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                (place / _UNFLUSHED).write_bytes(_CONTENT)
                flags = struct.pack("I", _NO_LOG_FLUSH)
                begun_at = clock.monotonic()
                fcntl.ioctl(descriptor, _GOING_DOWN, flags)
                return Cut(begun_at=begun_at, ended_at=clock.monotonic())
            finally:
                os.close(descriptor)
        except OSError as error:
            raise TargetError(
                f"the power of {place} cannot be cut: {error.strerror}",
                hint="It takes an XFS and root; --deaths kill does without.",
            ) from error

    def outlived(self, place: Path) -> bool:
        """Return whether that file is there with all it held: then nothing was cut.

        Its name may be: a flush of the server's writes the journal for all.
        """
        return read_text(place / _UNFLUSHED) == _CONTENT.decode()

    def unmount(self, place: Path) -> None:
        """Unmount it; nothing happens where nothing is mounted.

        Raises:
            LeftBehindError: Somebody uses it.
        """
        if self.mounted_from(place) is None:
            return
        try:
            self._run("umount", str(place))
        except TargetError as error:
            raise LeftBehindError(
                f"{place} is still mounted: {error.message}",
                hint="Look who uses it with fuser -m, then run `steelyard clean`.",
            ) from error

    def mounted_from(self, place: Path) -> Path | None:
        """Return the file below the loop device that is mounted there; None where none is."""
        mounts = parse_mounts(read_text(Path("/proc/self/mounts")))
        devices = [mount.source for mount in mounts if mount.at == str(place)]
        if not devices:
            return None
        backing = read_text(Path("/sys/block", Path(devices[-1]).name, "loop/backing_file"))
        return Path(backing.removesuffix("\n")) if backing else Path(devices[-1])


def require_programs(names: Iterable[str], *, hint: str) -> None:
    """Raise where programs of the system are not on this machine.

    Raises:
        PreflightError: Which are not.
    """
    absent = [name for name in names if which(name, path=_SYSTEM_PATH) is None]
    if absent:
        raise PreflightError(f"there is no {' and no '.join(absent)} on this machine", hint=hint)


def make_sparse(image: Path, size_bytes: int) -> None:
    """Make an empty file of a size, which takes no space until something is written."""
    with translated(image), image.open("wb") as file:
        file.truncate(size_bytes)


_BUSY_S: Final = 10.0  # until the last process let go of a file system; a guess
_POLL_S: Final = 0.05


def unmounted(place: Path, volumes: Volumes, clock: Clock) -> None:
    """Unmount; a process that was just killed may hold it for a moment yet.

    Raises:
        LeftBehindError: Somebody holds it for longer.
    """
    for waited_s in looks(clock, _BUSY_S, _POLL_S):
        try:
            volumes.unmount(place)
        except LeftBehindError:
            if waited_s > _BUSY_S:
                raise
        else:
            return


PROGRAMS: Final = ("mkfs.xfs", "mount", "umount", "losetup", "blockdev")
_READ_AHEAD_SECTORS: Final = 256  # 128 KiB, as the kernel sets it for a disk that says nothing
_READY_S: Final = 10.0
_DISK: Final = "disk"
_ROOT_NODE, _DISK_NODE = 1, 2
_MAX_WRITE: Final = 128 * 1024  # what a kernel takes that is not asked for more
_FOREVER_S: Final = 1 << 30
_THREADS: Final = 16  # so that a flush that waits does not keep reads waiting
_IN: Final = struct.Struct("<IIQQIIII")
_OUT: Final = struct.Struct("<IiQ")
_SILENT: Final = frozenset({2, 42, 36})  # FORGET, BATCH_FORGET and INTERRUPT have no answer
_NOT_CACHED: Final = 1 | 1 << 6  # FOPEN_DIRECT_IO, FOPEN_PARALLEL_DIRECT_WRITES
_ASYNC: Final = 1 | 1 << 15  # FUSE_ASYNC_READ, FUSE_ASYNC_DIO
_NOSUID_NODEV: Final = 2 | 4
_Answer = Callable[[int, memoryview], bytes]  # to a request about a node


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePaths:
    """Where one store lies: all in one directory, which is removed after it.

    Attributes:
        image: What it holds, a sparse file.
        served: Where that is served from, an empty directory.
        volume: Where its file system is mounted, likewise.
    """

    image: Path
    served: Path
    volume: Path


class Stores(_Mounted):
    """Makes simulated storage; it is unmounted like any file system in a file."""

    _way_out = (
        "Simulated storage takes XFS with this block size and loop devices of the kernel, which a"
        " container may not have; leave `store` out."
    )

    def __init__(self, processes: Processes, *, is_root: bool) -> None:
        super().__init__(processes, is_root=is_root)
        self._serving: list[RunningProcess] = []

    def require(self) -> None:
        """Raise where this machine or this account cannot do that.

        Raises:
            PrivilegeError: Only root may.
            PreflightError: A program, or the kernel's FUSE, is not here.
        """
        if not self._is_root:
            raise PrivilegeError(
                "only root can have simulated storage: it is mounted for that",
                hint="Run it as root, or leave `store` out: `directory` names a real disk.",
            )
        require_programs(PROGRAMS, hint="apt-get install xfsprogs mount, or leave `store` out.")
        if not Path("/dev/fuse").exists():
            raise PreflightError(
                "there is no /dev/fuse on this machine, which serves simulated storage",
                hint="modprobe fuse, or leave `store` out.",
            )

    def make(self, paths: StorePaths, store: Store, clock: Clock) -> None:
        """Make an empty file system and mount it.

        Raises:
            TargetError: The kernel or a program refuses.
        """
        make_sparse(paths.image, store.size_bytes)
        self._run("mkfs.xfs", "-q", "-f", "-b", f"size={store.block_bytes}", str(paths.image))
        disk = self.serve(paths, store, clock)
        # Direct, or a cache below the device answers what the store is to answer.
        device = self._run("losetup", "--direct-io=on", "-f", "--show", str(disk)).strip()
        try:
            # A loop device keeps what an earlier file gave it, and stores are to be alike in it.
            self._run("blockdev", "--setra", str(_READ_AHEAD_SECTORS), device)
            self._run("mount", "-t", "xfs", "-o", "nosuid,nodev", device, str(paths.volume))
        finally:
            self._run("losetup", "-d", device)  # it goes when it is unmounted

    def serve(self, paths: StorePaths, store: Store, clock: Clock) -> Path:
        """Serve what the image holds, and return the file that takes as long as it is told to.

        Raises:
            TargetError: The kernel refuses.
        """
        disk = paths.served / _DISK
        argv = (sys.executable, "-m", __name__, str(paths.image), str(paths.served))
        command = Command(
            argv=(*argv, json.dumps(limits_of(store))),
            environment={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            directory=Path("/"),  # or `clean` took it for a process of what lies in the store
            parent_death_signal=signal.SIGTERM,
        )
        said = paths.image.with_suffix(".log")
        running = self._processes.start(command, output=said)
        for _ in looks(clock, _READY_S, 0.05):
            if disk.exists():
                self._serving.append(running)
                return disk
            if running.exit_status() is not None:
                break
        running.kill_all()
        raise TargetError(
            f"the simulated storage did not start: {said.read_text(errors='replace')[-400:]}",
            hint="It takes FUSE and root, which a container may not have: leave `store` out.",
        )

    def refill(self) -> None:
        """Fill the buckets of burst credits of all that are served."""
        for running in self._serving:
            running.signal(signal.SIGUSR1)

    def close(self) -> None:
        """Wait for what served stores that are unmounted by now; what goes on is killed."""
        while self._serving:
            running = self._serving.pop()
            if not running.wait(_READY_S):
                running.kill_all()


def limits_of(store: Store) -> dict[str, float | None]:
    """Return what the serving process is told of a store."""
    return {
        "latency_s": store.latency_s,
        "iops": store.iops,
        "bandwidth": store.bandwidth_bytes,
        "burst_iops": store.burst_iops,
        "burst_credits": store.burst_credits,
    }


class Bucket:
    """Holds what passes to a rate, in the order of arrival.

    With credits it is the bucket of a cloud's volume: full at first, filled at the rate, and while
    anything is in it as much passes as ``burst`` says.

    Args:
        rate: Units per second.
        burst: Units per second while there are credits.
        full: Units in a full bucket.
    """

    def __init__(self, rate: float, burst: float | None = None, full: float = 0.0) -> None:
        self._rate, self._burst, self._full = rate, burst or rate, full
        self._left, self._free_at = full, 0.0
        self._looked_at: float | None = None
        self._lock = threading.Lock()

    def fill(self) -> None:
        """Hold as many credits as at first."""
        with self._lock:
            self._left = self._full

    def turn(self, units: float, now: float) -> float:
        """Return the instant from which so many units may pass, on the clock of ``now``."""
        with self._lock:
            earned = 0.0 if self._looked_at is None else (now - self._looked_at) * self._rate
            self._looked_at = now
            # It may be below 0: what was let through on no credits is earned before it holds any.
            self._left = min(self._full, self._left + earned)
            rate = self._burst if self._left > 0.0 else self._rate
            self._left -= units
            begin = max(now, self._free_at)
            self._free_at = begin + units / rate
            return begin


class Limits:
    """What a store adds to the time of a request."""

    def __init__(
        self,
        *,
        latency_s: float,
        iops: float | None,
        bandwidth: float | None,
        burst_iops: float | None,
        burst_credits: float | None,
    ) -> None:
        self._latency_s = latency_s
        self._operations = Bucket(iops, burst_iops, burst_credits or 0.0) if iops else None
        self._bytes = Bucket(bandwidth) if bandwidth else None

    def refill(self) -> None:
        """Give back the burst credits that were spent."""
        if self._operations:
            self._operations.fill()

    def pass_data(self, size: int) -> None:
        """Return when a read or a write of so many bytes may be done."""
        now = time.monotonic()
        turns = [
            bucket.turn(units, now)
            for bucket, units in ((self._operations, 1.0), (self._bytes, float(size)))
            if bucket
        ]
        rest = max(turns, default=now) - time.monotonic()
        if rest > 0.0:
            time.sleep(rest)

    def pass_flush(self) -> None:
        """Return when a flush that is done may be told."""
        time.sleep(self._latency_s)


class Served:
    """One file, as the kernel asks for it."""

    def __init__(self, file: Path, limits: Limits) -> None:
        self._file = os.open(file, os.O_RDWR)
        self._size = file.stat().st_size
        self._limits = limits
        self._answers: dict[int, _Answer] = {
            1: self._lookup,
            3: lambda node, _: struct.pack("<QII", _FOREVER_S, 0, 0) + self._attributes(node),
            4: lambda node, _: struct.pack("<QII", _FOREVER_S, 0, 0) + self._attributes(node),
            14: lambda *_: struct.pack("<QII", 0, _NOT_CACHED, 0),  # OPEN
            15: self._read,
            16: self._write,
            17: lambda *_: struct.pack("<QQQQQIIII6I", *(0,) * 5, 4096, 255, 4096, *(0,) * 7),
            18: lambda *_: b"",  # RELEASE
            20: self._flush,
            25: lambda *_: b"",  # FLUSH: of a descriptor that is closed, not of the disk
            26: self._begin,
            27: lambda *_: struct.pack("<QII", 0, 0, 0),  # OPENDIR
            28: lambda *_: b"",  # READDIR: nothing more
            29: lambda *_: b"",  # RELEASEDIR
        }

    def answer(self, operation: int, node: int, body: memoryview) -> tuple[int, bytes]:
        """Return the error number, 0 for none, and the body of an answer."""
        if operation not in self._answers:
            return errno.ENOSYS, b""
        try:
            return 0, self._answers[operation](node, body)
        except OSError as error:
            return error.errno or errno.EIO, b""

    def _begin(self, _: int, body: memoryview) -> bytes:
        readahead = struct.unpack_from("<IIII", body)[2]
        waiting = 64, 48  # requests that may be under way, and from when the device is congested
        return struct.pack(
            "<IIIIHHIIHHI7I", 7, 31, readahead, _ASYNC, *waiting, _MAX_WRITE, 1, *(0,) * 10
        )

    def _lookup(self, _: int, body: memoryview) -> bytes:
        if bytes(body).rstrip(b"\0") != _DISK.encode():
            raise FileNotFoundError(errno.ENOENT, "no such file")
        held = struct.pack("<QQQQII", _DISK_NODE, 0, _FOREVER_S, _FOREVER_S, 0, 0)
        return held + self._attributes(_DISK_NODE)

    def _attributes(self, node: int) -> bytes:
        mode, size = (0o100600, self._size) if node == _DISK_NODE else (0o040700, 0)
        return struct.pack(
            "<6Q10I", node, size, size // 512, *(0,) * 6, mode, 1, *(0,) * 3, 4096, 0
        )

    def _read(self, _: int, body: memoryview) -> bytes:
        _, offset, size = struct.unpack_from("<QQI", body)
        self._limits.pass_data(size)
        return os.pread(self._file, size, offset)

    def _write(self, _: int, body: memoryview) -> bytes:
        _, offset, size = struct.unpack_from("<QQI", body)
        self._limits.pass_data(size)
        written = os.pwrite(self._file, body[40 : 40 + size], offset)
        return struct.pack("<II", written, 0)

    def _flush(self, *_: object) -> bytes:
        os.fdatasync(self._file)
        self._limits.pass_flush()
        return b""


def serve(file: Path, directory: Path, limits: Limits) -> None:
    """Serve a file below a directory until that is unmounted."""
    # The main thread, which takes signals, answers no request: it never holds a bucket's lock.
    signal.signal(signal.SIGUSR1, lambda *_: limits.refill())
    device = os.open("/dev/fuse", os.O_RDWR)
    told = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
    libc = ctypes.CDLL(None, use_errno=True)
    # Listed as mounted from the file, which says whose it is.
    named = os.fsencode(file), os.fsencode(directory)
    if libc.mount(*named, b"fuse", _NOSUID_NODEV, told):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(directory))
    served = Served(file, limits)
    threads = [threading.Thread(target=_answer_all, args=(device, served)) for _ in range(_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _answer_all(device: int, served: Served) -> None:
    while True:
        try:
            asked = memoryview(os.read(device, _MAX_WRITE + 4096))
        except OSError as error:
            if error.errno == errno.ENODEV:  # unmounted
                return
            if error.errno in (errno.EINTR, errno.ENOENT, errno.EAGAIN):  # not wanted any more
                continue
            raise
        _, operation, unique, node, *_ = _IN.unpack_from(asked)
        if operation in _SILENT:
            continue
        number, body = served.answer(operation, node, asked[_IN.size :])
        try:
            os.write(device, _OUT.pack(_OUT.size + len(body), -number, unique) + body)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENODEV):  # interrupted, or unmounted
                raise


if __name__ == "__main__":
    serve(Path(sys.argv[1]), Path(sys.argv[2]), Limits(**json.loads(sys.argv[3])))
