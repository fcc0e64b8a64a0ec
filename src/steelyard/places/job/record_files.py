"""The files of a record in a container, listed with checksums and read in pieces.

Both are done by the container's Python without any package, so that an image of another version of
Steelyard can be read, too.
"""

import base64
import binascii
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from steelyard.core.errors import RecordError, TargetError
from steelyard.core.kubernetes import ContainerRef
from steelyard.gateways.kubernetes.api import KubernetesApi

JOURNAL: Final = "journal.jsonl"
_LIST_S: Final = 600.0  # checksums of some gigabytes of kept logs, on a slow volume
_READ_S: Final = 120.0

# The journal first: what it tells of was in place before. It is still growing, so the checksum is
# of what was there when its size was taken.
_LIST: Final = """
import hashlib, json, os, sys
root = sys.argv[1]
names = []
for place, _, files in os.walk(root):
    names += [os.path.relpath(os.path.join(place, name), root) for name in files]
names.sort(key=lambda name: (name != "journal.jsonl", name))
for name in names:
    if name == "lock" or os.path.basename(name).startswith("."):
        continue
    digest, size = hashlib.sha256(), 0
    try:
        with open(os.path.join(root, name), "rb") as file:
            left = os.fstat(file.fileno()).st_size
            while left and (piece := file.read(min(left, 1 << 20))):
                digest.update(piece)
                left, size = left - len(piece), size + len(piece)
    except FileNotFoundError:
        continue
    print(json.dumps([name, size, digest.hexdigest()]))
"""
# A piece that is not there any more is empty.
_READ: Final = """
import base64, json, os, sys, zlib
for name, offset, size in json.loads(sys.argv[2]):
    try:
        with open(os.path.join(sys.argv[1], name), "rb") as file:
            file.seek(offset)
            piece = file.read(size)
    except FileNotFoundError:
        piece = b""
    print(base64.b64encode(zlib.compress(piece, 1)).decode())
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFile:
    """A file of a record; ``name`` is relative to it."""

    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of a file: from its byte ``offset`` on, at most so many."""

    name: str
    offset: int
    size_bytes: int


class RecordFiles:
    """The record in one directory of one container.

    Args:
        api: The cluster.
        where: A container that sees the record.
        directory: Of the record, there.
    """

    def __init__(self, api: KubernetesApi, where: ContainerRef, directory: str) -> None:
        self._api = api
        self._where = where
        self._directory = directory

    def listed(self) -> tuple[RecordFile, ...]:
        """Return all files but locks and half-written ones, the journal first.

        Raises:
            TargetError: The container cannot be reached, or does not answer as it should.
        """
        printed = self._run(_LIST, timeout_s=_LIST_S)
        try:
            entries = [json.loads(line) for line in printed.splitlines()]
            return tuple(_checked(*entry) for entry in entries)
        except (ValueError, TypeError) as error:
            raise self._odd(error) from error

    def read(self, pieces: Sequence[Piece]) -> tuple[bytes, ...]:
        """Return pieces of files; what is beyond an end is missing.

        Raises:
            TargetError: As of ``listed``.
        """
        asked = json.dumps([[each.name, each.offset, each.size_bytes] for each in pieces])
        printed = self._run(_READ, asked, timeout_s=_READ_S).splitlines()
        try:
            found = tuple(zlib.decompress(base64.b64decode(line)) for line in printed)
        except (binascii.Error, zlib.error) as error:
            raise self._odd(error) from error
        if len(found) != len(pieces):
            raise self._odd(ValueError(f"{len(found)} of {len(pieces)} pieces came"))
        return found

    def _run(self, script: str, *arguments: str, timeout_s: float) -> str:
        # Isolated and without site packages it starts in a third of the time, beside a measurement.
        argv = ("python3", "-I", "-S", "-c", script, self._directory, *arguments)
        ended = self._api.run(self._where, argv, timeout_s=timeout_s)
        if not ended.succeeded:
            raise TargetError(
                f"the record cannot be read in pod {self._where.pod}: {ended.tail(1)}",
                hint="Is the image one with Steelyard and Python in it?",
            )
        return ended.stdout

    def _odd(self, error: Exception) -> TargetError:
        return TargetError(
            f"pod {self._where.pod} answers something else than the record: {error}",
            hint="Try again.",
        )


def _checked(name: str, size: int, digest: str) -> RecordFile:
    """Return an entry of a list.

    Raises:
        RecordError: It would be written elsewhere than below the record.
    """
    if name.startswith("/") or ".." in name.split("/"):
        raise RecordError(f"the record in the cluster names a file {name}", hint="Look at it.")
    return RecordFile(name=name, size_bytes=int(size), sha256=str(digest))
