"""Long writes that are forced out, one after another: the bytes per second that a log may take.

As a program (``python -m steelyard.gateways.log_write FILE SECONDS``) it makes the file, which the
caller removes, and prints JSON. The bytes are random, so that nothing below compresses them.
"""

import errno
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from steelyard.core.schedule import LOG_WRITE_BYTES
from steelyard.gateways.process import Processes, answer_of

_PIECES = 16
_PLACES = 8  # of one write in the file, which is written over again and again, as WAL is
_BEYOND_S = 60.0  # one write to a device that is throttled may take that


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWrites:
    """What a device takes: seconds of each write of ``LOG_WRITE_BYTES``, forced out."""

    latencies_s: tuple[float, ...]

    @property
    def rate_per_s(self) -> float:
        """Return writes per second, one after another."""
        return len(self.latencies_s) / sum(self.latencies_s)


def log_writes(file: Path, *, processes: Processes, most_s: float) -> LogWrites:
    """Return what the device below a new file takes.

    Args:
        file: Made, and left to the caller; up to 128 MiB.
        processes: Runs it.
        most_s: After which no further write begins.

    Raises:
        MeasurementError: Writing failed.
    """
    found = answer_of(
        "steelyard.gateways.log_write",
        str(file),
        str(most_s),
        processes=processes,
        directory=file.parent,
        timeout_s=most_s + _BEYOND_S,
    )
    return LogWrites(latencies_s=tuple(ns / 1e9 for ns in found["latencies_ns"]))


def take(file: str, most_s: float) -> dict[str, object]:
    """Return what ``main`` prints."""
    try:
        return {"latencies_ns": list(_writes(file, most_s))}
    except OSError as error:
        what = "no room to write" if error.errno == errno.ENOSPC else "writing failed"
        return {"unknown": f"{what}: {error.strerror}"}


def _writes(file: str, most_s: float) -> Iterator[int]:
    """Yield nanoseconds of each write, the first of which is made but not counted."""
    piece = os.urandom(LOG_WRITE_BYTES // _PIECES)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        end = time.perf_counter_ns() + most_s * 1e9
        count = 0
        while count < 2 or time.perf_counter_ns() < end:
            begun = time.perf_counter_ns()
            place = count % _PLACES * LOG_WRITE_BYTES
            for number in range(_PIECES):
                _write(descriptor, piece, place + number * len(piece))
            os.fdatasync(descriptor)
            if count:
                yield time.perf_counter_ns() - begun
            count += 1
    finally:
        os.close(descriptor)


def _write(descriptor: int, piece: bytes, place: int) -> None:
    written = 0
    while written < len(piece):
        written += os.pwrite(descriptor, piece[written:], place + written)


def main(arguments: list[str]) -> None:
    """Print the writes as JSON, or why there are none."""
    file, most_s = arguments
    sys.stdout.write(json.dumps(take(file, float(most_s))))


if __name__ == "__main__":
    main(sys.argv[1:])
