"""The only door to files of the machine that a plan places: their bytes, mode, owner, attributes.

A file is replaced by a rename, so that whoever reads it sees the old one or the new one, whole.

The files of a machine elsewhere are what one shell script printed there. Nothing is needed over
there but a POSIX shell with ``cat``, ``grep``, ``od`` and ``uname``, which every Linux has, also
those with busybox alone; ``gateways.ssh`` brings it there.
"""

import os
import secrets
import shlex
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from steelyard.core.wording import PrivilegeError, TargetError
from steelyard.gateways.files import NEW_FILE, remove_unfinished, sync_directory, translated
from steelyard.gateways.host import Host


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedFile:
    """A file as it is, or as it shall be.

    Attributes:
        attributes: Extended ones: access control lists, labels, capabilities.
    """

    content: bytes
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    attributes: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedFiles:
    """The files of this machine, or of a tree below ``root``, by path.

    A TargetError is what the machine says where it refuses.
    """

    root: Path = Path("/")

    def look(self, path: str) -> PlacedFile | None:
        """Return a file, or None where it is absent.

        Raises:
            TargetError: It is a link, a directory or a device, or cannot be read.
        """
        place = self._at(path)
        with translated(place, TargetError):
            if not os.path.lexists(place):
                return None
            status = place.lstat()
            if not stat.S_ISREG(status.st_mode):
                raise TargetError(
                    f"{path} is a link, a directory or a device, no plain file",
                    hint="Look at what it is; a plan replaces plain files only.",
                )
            return PlacedFile(
                content=place.read_bytes(),
                mode=stat.S_IMODE(status.st_mode),
                uid=status.st_uid,
                gid=status.st_gid,
                attributes=_attributes(place),
            )

    def absent_directories(self, path: str) -> tuple[str, ...]:
        """Return the directories above a path that are not there, the outermost first."""
        above = [parent for parent in Path(path).parents if not self._at(str(parent)).exists()]
        return tuple(str(parent) for parent in reversed(above))

    def obstacle(self, path: str) -> str | None:
        """Return why this account cannot place a file there, or None where it can."""
        parent = self._at(path).parent
        while not parent.exists():
            parent = parent.parent
        if not parent.is_dir():
            return f"{parent} is no directory"
        if os.access(parent, os.W_OK | os.X_OK):
            return None
        if os.statvfs(parent).f_flag & os.ST_RDONLY:
            return f"{parent} is on a read-only file system"
        return f"this account may not write in {parent}"

    def place(self, path: str, file: PlacedFile) -> None:
        """Put a file there, whole or not at all, with the directories above it.

        Raises:
            PrivilegeError: It needs an owner that this account may not give.
        """
        target = self._at(path)
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        with translated(target, TargetError):
            target.parent.mkdir(parents=True, exist_ok=True)
            remove_unfinished(target.parent, target.name)  # of a death at this very place
            try:
                _write(temporary, file)
                temporary.replace(target)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
            sync_directory(target.parent)

    def remove(self, path: str) -> None:
        """Remove a file and what a death in the middle of ``place`` left; absent is no error."""
        target = self._at(path)
        if not target.parent.is_dir():
            return
        with translated(target, TargetError):
            remove_unfinished(target.parent, target.name)
            target.unlink(missing_ok=True)
            sync_directory(target.parent)

    def remove_directory(self, path: str) -> None:
        """Remove a directory if nothing is in it; somebody else's files keep it."""
        with suppress(OSError):
            self._at(path).rmdir()

    def _at(self, path: str) -> Path:
        return self.root / path.lstrip("/")


def _write(path: Path, file: PlacedFile) -> None:
    descriptor = os.open(path, NEW_FILE, 0o600)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(file.content)
        opened.flush()
        status = os.fstat(descriptor)
        if (status.st_uid, status.st_gid) != (file.uid, file.gid):
            _give(descriptor, path, file)
        for name, value in file.attributes.items():
            os.setxattr(descriptor, name, value)
        os.fchmod(descriptor, file.mode)  # after the owner, whose change clears set-uid bits
        os.fsync(descriptor)


def _give(descriptor: int, path: Path, file: PlacedFile) -> None:
    try:
        os.fchown(descriptor, file.uid, file.gid)
    except PermissionError as error:
        raise PrivilegeError(
            f"{path.parent} needs a file of user {file.uid} and group {file.gid}, which this"
            " account may not make",
            hint="Run it as root.",
        ) from error


def _attributes(path: Path) -> dict[str, bytes]:
    try:
        return {name: os.getxattr(path, name) for name in os.listxattr(path)}
    except OSError:
        return {}  # a file system without them


_SCRIPT: Final = """\
LC_ALL=C; export LC_ALL
show() {{ for f do
  if {{ [ -f "$f" ] || [ -c "$f" ]; }} && [ -r "$f" ]; then
    printf '\\n%s file %s\\n' {mark} "$f"; cat "$f"
  fi
done; }}
main() {{
  printf '\\n%s kernel %s\\n' {mark} "$(uname -r) $(uname -m)"
  show {files}
{matching}{numbers}{directories}  printf '\\n%s end\\n' {mark}
}}
main </dev/null 2>/dev/null
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to bring from a machine; paths may hold the wildcards of a shell.

    Attributes:
        files: Whole files; what is absent or closed to us is left out.
        matching: Files by wildcard, of which those are wanted that hold the pattern of grep; of a
            process its ``cgroup``, too.
        numbers: Device files that hold a 32-bit number.
        directories: Whose links are to be resolved.
    """

    files: tuple[str, ...] = ()
    matching: tuple[tuple[str, str], ...] = ()
    numbers: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedHost(Host):
    """What was brought from a machine; what was not is as absent as what is not there.

    Attributes:
        files: Text by path.
        held: Numbers of device files, by path.
        resolved: Directories without links, by the path that was asked for.
        kernel: Release and machine type.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    held: Mapping[str, int] = field(default_factory=dict)
    resolved: Mapping[str, str] = field(default_factory=dict)
    kernel: str = ""

    def read(self, path: str) -> str | None:
        return self.files.get(path)

    def names(self, path: str) -> tuple[str, ...]:
        """Return what comes next below a path in the names of the files that were brought."""
        above = path.rstrip("/") + "/"
        below = (name[len(above) :] for name in self.files if name.startswith(above))
        return tuple(dict.fromkeys(name.partition("/")[0] for name in below))

    def number(self, path: str) -> int | None:
        return self.held.get(path)

    def cpus(self) -> int:
        """Return how many CPUs the machine's kernel says it has in ``/proc/stat``."""
        lines = self.files.get("/proc/stat", "").splitlines()
        return sum(line.startswith("cpu") and line[3:4].isdecimal() for line in lines)

    def release(self) -> str:
        return self.kernel

    def with_more(self, other: Self) -> Self:
        """Return this and what another look brought, which replaces the former."""
        return type(self)(
            files={**self.files, **other.files},
            held={**self.held, **other.held},
            resolved={**self.resolved, **other.resolved},
            kernel=other.kernel or self.kernel,
        )


def new_mark() -> str:
    """Return a word that stands in no file."""
    return f"fetched-{secrets.token_hex(12)}"


def script(wanted: Wanted, mark: str) -> str:
    """Return the shell script that prints what is wanted, parted by the mark."""
    return _SCRIPT.format(
        mark=mark,
        files=" ".join(map(_pattern, wanted.files)),
        matching="".join(
            f"  for f in {_pattern(files)}; do\n"
            f'    if grep -q {shlex.quote(pattern)} "$f"; then show "$f" "${{f%/*}}/cgroup"; fi\n'
            "  done\n"
            for files, pattern in wanted.matching
        ),
        numbers="".join(
            f"  if [ -r {path} ]; then printf '\\n%s number %s %s\\n' {mark} {path}"
            f' "$(od -A n -t d4 -N 4 {path})"; fi\n'
            for path in map(shlex.quote, wanted.numbers)
        ),
        directories="".join(
            f"  if r=$(cd -P -- {path} && pwd -P); then\n"
            f"    printf '\\n%s directory %s\\n%s\\n' {mark} {path} \"$r\"\n  fi\n"
            for path in map(shlex.quote, wanted.directories)
        ),
    )


def _pattern(path: str) -> str:
    """Return a path for the shell: quoted, but for the wildcards."""
    pieces: list[str] = [""]
    for character in path:
        if character in "*?[]":
            pieces += [character, ""]
        else:
            pieces[-1] += character
    return "".join(p if p in "*?[]" else shlex.quote(p) for p in pieces if p)


def parse_fetched(text: str, mark: str) -> FetchedHost | None:
    """Return what the script printed, None where its end is missing.

    What stands before the first mark was printed by the login shell's own files.
    """
    _, *parts = text.split(f"\n{mark} ")
    if not parts or parts[-1].strip() != "end":
        return None
    files: dict[str, str] = {}
    held: dict[str, int] = {}
    resolved: dict[str, str] = {}
    kernel = ""
    for head, _, body in (part.partition("\n") for part in parts[:-1]):
        kind, _, rest = head.partition(" ")
        if kind == "file":
            files[rest] = body
        elif kind == "number":
            path, _, digits = rest.partition(" ")
            if digits.strip().lstrip("-").isdecimal():
                held[path] = int(digits)
        elif kind == "directory":
            resolved[rest] = body.rstrip("\n")
        elif kind == "kernel":
            kernel = rest
    return FetchedHost(files=files, held=held, resolved=resolved, kernel=kernel)
