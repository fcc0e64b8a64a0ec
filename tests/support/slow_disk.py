"""A disk whose flushes take longer: one file, served by FUSE with a delay, below a loop device.

``python -m support.slow_disk FILE DIRECTORY SECONDS`` serves FILE as DIRECTORY/disk until it is
unmounted; every fsync of it takes that much longer. The kernel's protocol is spoken directly
(include/uapi/linux/fuse.h), so that nothing has to be built or installed. ``slow_directory`` makes
a file system on such a disk and mounts it, also in the mount namespaces of others. Needs root.
"""

import ctypes
import errno
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

_NAME: Final = b"disk"
_ROOT, _DISK = 1, 2  # node ids
_MAX_WRITE: Final = 128 * 1024
_FOREVER_S: Final = 1 << 30
_DIE_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG
_IN: Final = struct.Struct("<IIQQIIII")
_OUT: Final = struct.Struct("<IiQ")
_SILENT: Final = (2, 42, 36)  # FORGET, BATCH_FORGET and INTERRUPT have no answer


class Served:
    """One file, as the kernel asks for it."""

    def __init__(self, file: Path, flush_s: float) -> None:
        self._file = os.open(file, os.O_RDWR)
        self._size = file.stat().st_size
        self._flush_s = flush_s
        self._answers: dict[int, Callable[[int, memoryview], bytes]] = {
            1: self._lookup,
            3: lambda node, _: struct.pack("<QII", _FOREVER_S, 0, 0) + self._attributes(node),
            4: lambda node, _: struct.pack("<QII", _FOREVER_S, 0, 0) + self._attributes(node),
            14: lambda *_: struct.pack("<QII", 0, 0, 0),  # OPEN
            15: self._read,
            16: self._write,
            17: lambda *_: struct.pack("<QQQQQIIII6I", *(0,) * 5, 4096, 255, 4096, *(0,) * 7),
            18: lambda *_: b"",  # RELEASE
            20: self._flush,
            25: lambda *_: b"",  # FLUSH
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
        return struct.pack("<IIIIHHIIHHI7I", 7, 31, readahead, 0, 12, 9, _MAX_WRITE, 1, *(0,) * 10)

    def _lookup(self, _: int, body: memoryview) -> bytes:
        if bytes(body).rstrip(b"\0") != _NAME:
            raise FileNotFoundError(errno.ENOENT, "no such file")
        held = struct.pack("<QQQQII", _DISK, 0, _FOREVER_S, _FOREVER_S, 0, 0)
        return held + self._attributes(_DISK)

    def _attributes(self, node: int) -> bytes:
        mode, size = (0o100600, self._size) if node == _DISK else (0o040700, 0)
        return struct.pack(
            "<6Q10I", node, size, size // 512, *(0,) * 6, mode, 1, *(0,) * 3, 4096, 0
        )

    def _read(self, _: int, body: memoryview) -> bytes:
        _, offset, size = struct.unpack_from("<QQI", body)
        return os.pread(self._file, size, offset)

    def _write(self, _: int, body: memoryview) -> bytes:
        _, offset, size = struct.unpack_from("<QQI", body)
        written = os.pwrite(self._file, body[40 : 40 + size], offset)
        return struct.pack("<II", written, 0)

    def _flush(self, *_: object) -> bytes:
        os.fdatasync(self._file)
        time.sleep(self._flush_s)
        return b""


def serve(file: Path, directory: Path, flush_s: float) -> None:
    """Serve a file below a directory until that is unmounted."""
    device = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_DIE_WITH_PARENT, signal.SIGTERM)  # a test that is killed leaves no server behind
    told = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
    if libc.mount(b"slow-disk", os.fsencode(directory), b"fuse", 0, told):
        raise OSError(ctypes.get_errno(), "mount of a FUSE file system", str(directory))
    served = Served(file, flush_s)
    while True:
        try:
            asked = memoryview(os.read(device, _MAX_WRITE + 4096))
        except OSError as error:
            if error.errno == errno.ENODEV:  # unmounted
                return
            if error.errno in (errno.EINTR, errno.ENOENT):  # what was asked is not wanted any more
                continue
            raise
        _, operation, unique, node, *_ = _IN.unpack_from(asked)
        if operation in _SILENT:
            continue
        number, body = served.answer(operation, node, asked[_IN.size :])
        os.write(device, _OUT.pack(_OUT.size + len(body), -number, unique) + body)


@contextmanager
def slow_directory(
    target: Path, *, below: Path, flush_s: float, size: int, namespaces: Sequence[int] = ()
) -> Iterator[None]:
    """Have an ext4 on a slow disk at a directory while this lasts.

    Args:
        target: Made where it is not there.
        below: An empty directory for what is needed meanwhile.
        flush_s: What a flush takes longer.
        size: Of the disk; it takes what is written to it.
        namespaces: Processes in whose mount namespaces it is mounted, instead of this one.
    """
    image, mounted = below / "image", below / "served"
    image.touch()
    os.truncate(image, size)
    _run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(image))
    mounted.mkdir()
    words = [sys.executable, "-m", __spec__.name, str(image), str(mounted), str(flush_s)]
    with ExitStack() as stack:
        server = subprocess.Popen(words, cwd=Path(__file__).parents[1])
        stack.callback(server.wait, timeout=30)
        stack.callback(subprocess.run, ["umount", "-l", str(mounted)], check=False)
        disk = _within(10.0, lambda: mounted / "disk" if (mounted / "disk").exists() else None)
        loop = _run("losetup", "-f", "--show", str(disk)).strip()
        stack.callback(_run, "losetup", "-d", loop)
        for entered in [f"nsenter -t {pid} -m".split() for pid in namespaces] or [[]]:
            _run(*entered, "mkdir", "-p", str(target))
            _run(*entered, "mount", loop, str(target))
            stack.callback(subprocess.run, [*entered, "rmdir", str(target)], check=False)
            stack.callback(_run, *entered, "umount", str(target))
            _run(*entered, "chmod", "777", str(target))
        yield


def _run(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def _within(seconds: float, find: Callable[[], Path | None]) -> Path:
    for _ in range(int(seconds * 10)):
        if (found := find()) is not None:
            return found
        time.sleep(0.1)
    raise TimeoutError(f"not there within {seconds:g} s")


if __name__ == "__main__":
    serve(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]))
