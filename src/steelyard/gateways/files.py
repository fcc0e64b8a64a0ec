"""The only door to files outside the record: trees of data, locks, free space.

Files that another program writes into one directory are read as they grow, and removed. The
directory may belong to another account: nothing but a plain file with one name is opened in it.
"""

import ctypes
import errno
import fcntl
import grp
import os
import re
import secrets
import shutil
import stat
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, Self

from steelyard.core.wording import (
    InputError,
    MeasurementError,
    PreflightError,
    PrivilegeError,
    RecordError,
    SteelyardError,
    quoted,
)
from steelyard.gateways.process import SHARED, account_entry

_UNFINISHED = re.compile(r"\.(.+)\.[0-9a-f]{8}")  # as ``write_bytes`` names it
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_TRANSLATED = {
    errno.EISDIR: ("{path} is a directory", "Name a file."),
    errno.ENOSPC: ("no space is left on the device of {path}", "Free some, or name another place."),
    errno.EDQUOT: ("the disk quota at {path} is used up", "Free some, or name another place."),
    errno.EROFS: ("{path} is on a read-only file system", "Name another place."),
    errno.EACCES: (
        "{path} may not be written by this account",
        "Change its owner or name another.",
    ),
    errno.EPERM: ("{path} may not be written by this account", "Change its owner or name another."),
}


@contextmanager
def translated(path: Path, error_type: type[SteelyardError] = PreflightError) -> Iterator[None]:
    """Turn an OSError at ``path`` into a sentence of fact and the way out."""
    try:
        yield
    except OSError as error:
        message, hint = _TRANSLATED.get(error.errno or 0, ("{path}: " + str(error.strerror), ""))
        gone = [each for each in path.absolute().parents if not each.is_dir()]
        if gone and error.errno in (errno.ENOENT, errno.ENOTDIR):
            message = f"{{path}}: there is no directory {gone[-1]}"
            hint = "Put it back or make it, or name another place."
        raise error_type(message.format(path=error.filename or path), hint=hint) from error


def cache_directory() -> Path:
    """Return where prepared data and staged programs are kept between campaigns.

    ``STEELYARD_CACHE`` when set; for root ``/var/cache/steelyard``, because the unprivileged
    account that runs the server must reach it; else below the user's cache directory.

    Raises:
        PreflightError: Another account owns or may change it, or what lies directly in it.
    """
    override = os.environ.get("STEELYARD_CACHE")
    if override:
        path = Path(override).absolute()
    elif os.geteuid() == 0:
        path = Path("/var/cache/steelyard")
    else:
        path = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "steelyard"
    require_own(path)
    with suppress(OSError):  # it is not there yet, or this account may not look into it
        for entry in path.iterdir():
            require_own(entry)
    return path


def require_own(path: Path) -> None:
    """Refuse a path of the cache that another account may change, as ssh does a key file.

    Root may change everything, so what root owns is taken. A sticky directory above, such as
    ``/tmp``, keeps what is ours; links on the way may lead to files of ours that others wrote.

    Raises:
        PreflightError: Another account owns it or a link that leads to it, or may write it.
    """
    own = {0, os.geteuid()}
    with suppress(OSError):  # what is absent or closed to this account is not acted on
        links = [place for place in (path, *path.parents) if place.is_symlink()]
        places = [(place, place.lstat().st_uid) for place in links]
        status = path.stat()
        for place, owner in (*places, (path, status.st_uid)):
            if owner not in own:
                raise _not_own(f"account {owner} owns {place}", place, f"chown -h {os.geteuid()}")
        if _others_may_write(path, status):
            raise _not_own(f"other accounts may write {path}", path, "chmod go-w")


def _not_own(fact: str, path: Path, command: str) -> PreflightError:
    return PreflightError(
        f"{fact}, and what the cache says is done with your rights",
        hint=f"If everything in it is yours: `{command} {quoted(path)}`. Else set STEELYARD_CACHE"
        " to a directory that no other account may write.",
    )


def _others_may_write(path: Path, status: os.stat_result) -> bool:
    """Return whether more accounts than its owner may write; an ACL shows in the group's bits."""
    if not status.st_mode & stat.S_IWGRP or status.st_mode & stat.S_IWOTH:
        return bool(status.st_mode & stat.S_IWOTH)
    members: list[str] = []
    with suppress(KeyError):  # in a container the group may have no name
        members = grp.getgrgid(status.st_gid).gr_mem
    # The group that an account has for itself alone has its number.
    is_private = status.st_gid == status.st_uid and not members
    return not is_private or "system.posix_acl_access" in os.listxattr(path)


@contextmanager
def holding_cache(*, alone: bool = False) -> Iterator[None]:
    """Hold the cache with others who use it, or alone: only who is alone may remove what is in it.

    Who uses it waits until a removal is over.

    Raises:
        PreflightError: It is asked for alone, and somebody uses it; or it cannot be written.
    """
    make_directory(cache_directory())
    lock = Lock(cache_directory() / "lock", PreflightError)
    if not lock.acquire(wait=not alone, shared=not alone):
        raise PreflightError(
            f"a campaign that has just begun uses the cache in {cache_directory()}",
            hint="Wait for its end, or stop it.",
        )
    try:
        yield
    finally:
        lock.release()


def make_directory(path: Path, *, account: str | None = None, mode: int = 0o755) -> None:
    """Make a directory and its parents; the last one belongs to ``account`` when root asks.

    Parents that are made may be entered by every account, whatever the umask.
    """
    with translated(path):
        made = [parent for parent in path.parents if not parent.exists()]
        if path.is_dir():
            return  # somebody's own directory keeps its owner and mode
        path.mkdir(parents=True)
        for parent in made:
            parent.chmod(0o755)
        path.chmod(mode)
        _hand_over(path, account)


def _hand_over(path: Path, account: str | None) -> None:
    """Give a directory to an account when root asks.

    Where others run as that account, too, they would be the owner: so its group alone may enter.
    """
    if account is None or os.geteuid() != 0:
        return
    entry = account_entry(account)
    is_shared = account == SHARED
    os.chown(path, 0 if is_shared else entry.pw_uid, entry.pw_gid)
    if is_shared:
        path.chmod(0o770)


def belongs_to(path: Path, account: str | None) -> bool:
    """Return whether a path's owner is ``account``; None: our own."""
    uid = os.geteuid() if account is None or os.geteuid() != 0 else account_entry(account).pw_uid
    with translated(path):
        return path.stat().st_uid == uid


def remove_tree(path: Path) -> None:
    """Remove a directory with everything in it; an absent one is no error."""
    with translated(path):
        while path.exists():
            try:
                shutil.rmtree(path)
            except FileNotFoundError:
                continue  # a dying server removed one of its files first


def rename(source: Path, target: Path) -> None:
    """Rename atomically within one file system."""
    with translated(target):
        source.rename(target)


def short_directory(
    prefix: str,
    *,
    account: str | None = None,
    announce: Callable[[Path], None],
    parent: Path = Path("/tmp"),  # noqa: S108 - mkdir makes it private
) -> Path:
    """Return a fresh private directory with a short path: Unix socket paths end at 107 bytes.

    ``announce`` is called with the path before the directory is made.
    """
    path = parent / f"{prefix}{secrets.token_hex(4)}"
    announce(path)
    with translated(path):
        path.mkdir(mode=0o700)
        _hand_over(path, account)
    return path


def is_in_memory(path: Path) -> bool:
    """Return whether a file system kept in memory is mounted at a path."""
    mounts = read_text(Path("/proc/self/mounts")) or ""
    kinds = [line.split()[2] for line in mounts.splitlines() if line.split()[1:2] == [str(path)]]
    return bool(kinds) and kinds[-1] == "tmpfs"  # the last mount hides those before it


def tree_bytes(path: Path) -> int:
    """Return the bytes allocated below a directory, each file counted once."""
    total = 0
    for name in _files_below(path):
        with suppress(FileNotFoundError):
            total += os.lstat(name).st_blocks * 512
    return total


def _files_below(path: Path) -> Iterator[str]:
    """Yield the path of everything below a directory that is no directory; as text, for speed."""
    for directory, _, names in os.walk(path):
        for name in names:
            yield os.path.join(directory, name)  # noqa: PTH118


_NO_SURPRISE: Final = os.O_NOFOLLOW | os.O_NONBLOCK  # neither another's file nor a pipe's other end


def drop_cached(path: Path) -> None:
    """Write back what is cached of the files below a directory, and let the kernel forget it."""
    for name in _files_below(path):
        try:
            file = os.open(name, os.O_RDONLY | _NO_SURPRISE)
        except OSError:  # it is gone, or no file
            continue
        try:
            if stat.S_ISREG(os.fstat(file).st_mode):
                os.fsync(file)
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)


def largest_file(path: Path) -> Path | None:
    """Return the largest file below a directory, None where there is none that may be seen."""
    sizes: dict[Path, int] = {}
    for name in _files_below(path):
        found = Path(name)
        with suppress(OSError):
            sizes[found] = found.lstat().st_size
    return max(sizes, key=sizes.__getitem__, default=None)


def free_bytes(path: Path) -> int:
    """Return the bytes an unprivileged account may still write on the file system of ``path``."""
    with translated(path):
        status = os.statvfs(existing_parent(path))
    return status.f_bavail * status.f_frsize


def existing_parent(path: Path) -> Path:
    """Return the path itself or the nearest directory above it that exists."""
    path = path.absolute()
    with translated(path):
        while not path.exists():
            path = path.parent
    return path


def read_text(path: Path) -> str | None:
    """Return a small file's text, or None where it is absent or unreadable."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def read_tail(path: Path, most_bytes: int) -> str:
    """Return the end of a file, from a line's start; empty where it is absent or unreadable."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - most_bytes, 0))
            content = file.read()
    except OSError:
        return ""
    if size > most_bytes:
        content = b"(earlier lines are left out)\n" + content.partition(b"\n")[2]
    return content.decode(errors="replace")


def append_text(path: Path, text: str) -> None:
    """Append to a file in a directory of our own."""
    with translated(path), path.open("a", encoding="utf-8") as file:
        file.write(text)


def write_text(
    path: Path,
    text: str,
    *,
    account: str | None = None,
    error_type: type[SteelyardError] = PreflightError,
) -> None:
    """Write a file through a temporary name and a rename, so that it is whole or not there."""
    write_bytes(path, text.encode(), account=account, error_type=error_type)


def write_bytes(
    path: Path,
    content: bytes | Callable[[IO[bytes]], None],
    *,
    account: str | None = None,
    error_type: type[SteelyardError] = PreflightError,
) -> None:
    """Write a file through a temporary name and a rename, so that it is whole or not there.

    What is too large to be held is written by a function. The directory may belong to the server's
    account, so nothing in it is followed or reused: the temporary file is a new one, and it changes
    hands by its descriptor.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with translated(path, error_type):
        try:
            descriptor = os.open(temporary, NEW_FILE, 0o644)
            with os.fdopen(descriptor, "wb") as file:
                if callable(content):
                    content(file)
                else:
                    file.write(content)
                sync_file(file)
                if account is not None and os.geteuid() == 0:
                    entry = account_entry(account)
                    os.fchown(file.fileno(), entry.pw_uid, entry.pw_gid)
            temporary.replace(path)
        except BaseException as error:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            if isinstance(error, OSError):
                error.filename = str(path)  # what was asked for, not its temporary name
            raise


def sync_file(file: IO[Any]) -> None:
    """Return once what was written to a file is on disk; its name is its directory's."""
    file.flush()
    os.fsync(file.fileno())


def add_line(path: Path, line: str) -> None:
    """Write a line at the end of a file and return once it is on disk, with the file's name.

    Raises:
        PreflightError: The disk is full or fails.
    """
    with translated(path):
        is_new = not path.exists()
        with path.open("a+b") as file:
            file.seek(max(0, file.tell() - 1))
            torn = file.read(1) not in (b"", b"\n")  # a full disk ended the one before half-way
            file.write(b"\n" * torn + line.encode() + b"\n")
            sync_file(file)
    if is_new:
        sync_names(path.parent)


def sync_names(path: Path, error_type: type[SteelyardError] = PreflightError) -> None:
    """Return once a path leads to the names in a directory on disk.

    Who made the directories above it may have died before they were there, so each of them is
    asked for; one that is there already takes no time.
    """
    with translated(path, error_type):
        device = path.stat().st_dev
        for directory in (path.absolute(), *path.absolute().parents):
            if directory.stat().st_dev != device:
                return  # what it is mounted at was there before
            with suppress(PermissionError):  # somebody else's, where we made nothing
                sync_directory(directory)


def sync_directory(path: Path) -> None:
    """Return once the names in a directory are on disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_unfinished(directory: Path, of: str | None = None) -> None:
    """Remove what a death in the middle of ``write_text`` or ``write_bytes`` left.

    Args:
        directory: Where nobody else writes now.
        of: Name of the one file that was being written; None means any.
    """
    for path in unfinished_files(directory, of):
        with translated(path):
            path.unlink(missing_ok=True)


def unfinished_files(directory: Path, of: str | None = None) -> tuple[Path, ...]:
    """Return what a death in the middle of ``write_text`` or ``write_bytes`` left there."""
    with translated(directory):
        found = [(path, _UNFINISHED.fullmatch(path.name)) for path in directory.iterdir()]
    return tuple(path for path, match in found if match and of in (None, match[1]))


class Lock:
    """A lock on a file that the kernel releases when the holder dies.

    It belongs to the open file, as that of ``flock`` does, and can be asked for without being
    taken, which that of ``flock`` cannot: fcntl(2), open file description locks.
    """

    def __init__(self, path: Path, error_type: type[SteelyardError] = RecordError) -> None:
        self._path = path
        self._error_type = error_type
        self._descriptor: int | None = None

    def acquire(self, *, wait: bool = False, shared: bool = False) -> bool:
        """Take the lock; return whether it was free (always true when waiting).

        Args:
            wait: Until it is free.
            shared: With others who share it; nobody has it alone then.
        """
        with translated(self._path, self._error_type):
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(self._path, flags, 0o644)
        try:
            how = fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK
            fcntl.fcntl(descriptor, how, _lock_words(fcntl.F_RDLCK if shared else fcntl.F_WRLCK))
        except BlockingIOError:
            os.close(descriptor)
            return False
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return True

    def is_held(self) -> bool:
        """Return whether somebody has it, alone or with others; nothing is taken or made."""
        if not self._path.exists():
            return False
        with translated(self._path, self._error_type):
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            held = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _lock_words(fcntl.F_WRLCK))
        finally:
            os.close(descriptor)
        return bool(struct.unpack_from("h", held)[0] != fcntl.F_UNLCK)

    def release(self) -> None:
        """Give the lock back; giving it back twice is no error."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        self.acquire(wait=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _lock_words(kind: int) -> bytes:
    """Return a ``struct flock`` over the whole file, as fcntl(2) has it."""
    return struct.pack("hhqqi0q", kind, os.SEEK_SET, 0, 0, 0)


def may_write(directory: Path) -> bool:
    """Return whether this account may make files in a directory."""
    return directory.is_dir() and os.access(directory, os.W_OK | os.X_OK)


def require_place_for(path: Path) -> None:
    """Check that a file can be made, before the work whose result it is to hold.

    Raises:
        InputError: Its directory is not there, or the name is a directory's.
        PrivilegeError: This account may not write there.
    """
    directory = path.absolute().parent
    if path.is_dir() or not directory.is_dir():
        what = f"{path} is a directory" if path.is_dir() else f"there is no directory {directory}"
        raise InputError(
            f"{what}, so nothing can be written to it",
            hint="Name a file in a directory that is there.",
        )
    if not may_write(directory):
        raise PrivilegeError(
            f"{directory} may not be written by this account",
            hint="Change its owner or name another.",
        )


def reachable_by(path: Path, account: str | None) -> bool:
    """Return whether ``account`` may read and enter ``path`` and everything above it."""
    if account is None or os.geteuid() != 0:
        return os.access(path, os.R_OK | os.X_OK)
    entry = account_entry(account)
    return all(
        _may_enter(directory, entry.pw_uid, entry.pw_gid)
        for directory in [path.resolve(), *path.resolve().parents]
    )


def _may_enter(path: Path, uid: int, gid: int) -> bool:
    try:
        status = path.stat()
    except OSError as error:
        raise PrivilegeError(f"{path} cannot be read: {error.strerror}") from error
    shift = 6 if status.st_uid == uid else 3 if status.st_gid == gid else 0
    return (status.st_mode >> shift) & 0o5 == 0o5


_CHUNK_BYTES = 1 << 20
_OPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_KEEP_SIZE, _PUNCH_HOLE = 0x01, 0x02  # linux/falloc.h
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


class GrowingFiles:
    """The files of a directory, each with how far it was read, whatever it is called meanwhile."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._open: dict[str, int] = {}
        self._read: dict[str, int] = {}
        self._left: set[str] = set()
        self._known: dict[tuple[int, int], str] = {}  # device and number: the name it had first

    def unread_bytes(self) -> int:
        """Return how many bytes were written and not read yet.

        Raises:
            MeasurementError: The directory is gone, or holds something else than plain files.
        """
        self._look()
        sizes = (os.fstat(self._open[name]).st_size - self._read[name] for name in self._open)
        return sum(max(size, 0) for size in sizes)

    def read(self) -> Iterator[tuple[str, bytes]]:
        """Yield what was written since the last reading, by name; its space is given back.

        Raises:
            MeasurementError: As for ``unread_bytes``.
        """
        self._look()
        with translated(self._directory, MeasurementError):
            for name, descriptor in self._open.items():
                yield from self._on(name, descriptor)

    def remove(self) -> None:
        """Close and remove every file, whoever made it; what stays is passed over from then on."""
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()
        self._read.clear()
        self._known.clear()
        with suppress(OSError):  # without the directory there is nothing to remove
            for path in list(self._directory.iterdir()):
                try:
                    path.unlink()
                except OSError:  # then the end of the campaign removes the directory
                    self._left.add(path.name)

    def drop(self) -> None:
        """Give back the space of all that was opened, read or not: nobody wants it any more."""
        for descriptor in self._open.values():
            with suppress(OSError):
                os.ftruncate(descriptor, 0)

    def _look(self) -> None:
        with translated(self._directory, MeasurementError):
            for name in sorted(path.name for path in self._directory.iterdir()):
                if name not in self._open and name not in self._left:
                    self._take(name)

    def _take(self, name: str) -> None:
        """Open a file, unless it is one that was renamed."""
        descriptor = self._opened(name)
        status = os.fstat(descriptor)
        if self._known.setdefault((status.st_dev, status.st_ino), name) != name:
            os.close(descriptor)
            return
        self._open[name], self._read[name] = descriptor, 0

    def _opened(self, name: str) -> int:
        descriptor = os.open(self._directory / name, _OPEN)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            os.close(descriptor)
            raise MeasurementError(
                f"{self._directory / name} is no file that the load generator made",
                hint="Who else writes there? Run the campaign again.",
            )
        return descriptor

    def _on(self, name: str, descriptor: int) -> Iterator[tuple[str, bytes]]:
        """Yield what follows in one file, up to its present end."""
        size = os.fstat(descriptor).st_size
        while self._read[name] < size:
            begin = self._read[name]
            chunk = os.pread(descriptor, min(_CHUNK_BYTES, size - begin), begin)
            if not chunk:
                return
            self._read[name] = begin + len(chunk)
            yield name, chunk
            # Refused by some file systems; then the space is free when the file is removed.
            _LIBC.fallocate(descriptor, _PUNCH_HOLE | _KEEP_SIZE, begin, len(chunk))
