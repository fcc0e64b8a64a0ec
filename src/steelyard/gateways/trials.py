"""What the hardware below gives at most: reads past the page cache, forced writes, wake-ups.

As a program (``python -m steelyard.gateways.trials``) it prints JSON, or why there is nothing:

    reads FILE BYTES SECONDS: one reader for the latency, then several for the rate
    writes FILE SECONDS: long writes, forced out one after another, as WAL is
    ping-pong same|across SECONDS MOST [CPU CPU]: one byte back and forth between two processes

A file that is read stays as it is; one that is written is new, and the caller removes it. Its bytes
are random, so that nothing below compresses them. A round trip holds two wake-ups, as a statement
does: the server's and the generator's.
"""

import errno
import json
import mmap
import os
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from steelyard.core.schedule import LOG_WRITE_BYTES
from steelyard.gateways.process import Processes, answer_of

_PROGRAM = "steelyard.gateways.trials"
READERS = 16  # a device that serves many at once is not asked for its most by one; a guess
_READ_BEYOND_S = 30.0  # a read of a device that is throttled may take seconds
_MOST_SAMPLES = 20_000
_WORD = 8  # bytes of a count
_FROM_MEMORY = (
    "the kernel counts no reads of a device here: they came from memory, or from a file system that"
    " does not count them"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectReads:
    """What a device gives.

    Attributes:
        latencies_s: Of single reads, one after another.
        rate_per_s: Of ``READERS`` readers together.
        file_bytes: Size of the file; a small one may come from a cache in the device.
    """

    latencies_s: tuple[float, ...]
    rate_per_s: float
    file_bytes: int


def direct_reads(
    file: Path, *, size_bytes: int, processes: Processes, directory: Path, most_s: float
) -> DirectReads:
    """Return latency and rate of random reads of one size.

    Args:
        file: On the device; at least as long as a read.
        size_bytes: Of one read; a multiple of the device's block.
        processes: Runs it.
        directory: Working directory of the readers.
        most_s: Seconds that both parts take together.

    Raises:
        MeasurementError: The file system refuses such reads or answers them from memory.
    """
    found = answer_of(
        _PROGRAM,
        "reads",
        str(file),
        str(size_bytes),
        str(most_s),
        processes=processes,
        directory=directory,
        timeout_s=most_s + _READ_BEYOND_S,
    )
    return DirectReads(
        latencies_s=tuple(ns / 1e9 for ns in found["latencies_ns"]),
        rate_per_s=found["rate_per_s"],
        file_bytes=found["file_bytes"],
    )


def take_reads(file: str, size_bytes: int, most_s: float) -> dict[str, object]:
    """Return what ``main`` prints; forks, so the caller must have one thread."""
    length = os.stat(file).st_size  # noqa: PTH116 - as a program it needs no more than os
    if length < size_bytes:
        return {"unknown": f"the largest file of the data has only {length} bytes"}
    before = _device_bytes()
    try:
        latencies = list(_reads(file, size_bytes, most_s / 2))
        asked, after = len(latencies) * size_bytes, _device_bytes()
        rate = _rate(file, size_bytes, most_s / 2)
    except OSError as error:
        refused = error.errno in (errno.EINVAL, errno.EOPNOTSUPP)
        what = "the file system refuses O_DIRECT" if refused else "reading the data failed"
        return {"unknown": f"{what}: {error.strerror}"}
    if before is not None and after is not None and after - before < asked / 2:
        return {"unknown": _FROM_MEMORY}
    return {
        "latencies_ns": latencies[:_MOST_SAMPLES],
        "rate_per_s": rate,
        "file_bytes": length,
    }


def _reads(file: str, size_bytes: int, seconds: float) -> Iterator[int]:
    """Yield nanoseconds of each read at a random place."""
    places = random.Random()  # noqa: S311 - places in a file
    descriptor = os.open(file, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    with mmap.mmap(-1, size_bytes) as buffer:  # aligned to a page, as O_DIRECT wants it
        blocks = os.fstat(descriptor).st_size // size_bytes
        end = time.perf_counter_ns() + seconds * 1e9
        while (begun := time.perf_counter_ns()) < end:
            os.preadv(descriptor, [buffer], places.randrange(blocks) * size_bytes)
            yield time.perf_counter_ns() - begun
    os.close(descriptor)


def _rate(file: str, size_bytes: int, seconds: float) -> float:
    """Return reads per second of several readers at once."""
    receive, send = os.pipe()
    children = [_reader(file, size_bytes, seconds, send) for _ in range(READERS)]
    os.close(send)
    counts = b""
    while part := os.read(receive, READERS * _WORD):
        counts += part
    os.close(receive)
    for child in children:
        os.waitpid(child, 0)
    if len(counts) < READERS * _WORD:
        raise OSError(errno.EIO, "a reader failed")
    words = range(0, len(counts), _WORD)
    return sum(int.from_bytes(counts[at : at + _WORD], "big") for at in words) / seconds


def _reader(file: str, size_bytes: int, seconds: float, send: int) -> int:
    """Start a process that reads for so long and then sends how often; return its id."""
    child = os.fork()
    if child:
        return child
    try:
        count = sum(1 for _ in _reads(file, size_bytes, seconds))
        os.write(send, count.to_bytes(_WORD, "big"))
    finally:
        os._exit(0)


def _device_bytes() -> int | None:
    """Return how many bytes this process had read from devices; None where nobody counts."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return None
    found = [int(line.split()[1]) for line in lines if line.startswith("read_bytes:")]
    return found[0] if found else None


_PIECES = 16
_PLACES = 8  # of one write in the file, which is written over again and again, as WAL is
_WRITE_BEYOND_S = 60.0  # one write to a device that is throttled may take that


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
        _PROGRAM,
        "writes",
        str(file),
        str(most_s),
        processes=processes,
        directory=file.parent,
        timeout_s=most_s + _WRITE_BEYOND_S,
    )
    return LogWrites(latencies_s=tuple(ns / 1e9 for ns in found["latencies_ns"]))


def take_writes(file: str, most_s: float) -> dict[str, object]:
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


_TRIP_BEYOND_S = 10.0  # start and end of a program on a busy machine
_ONE_CPU = "only one CPU may be used here"


class Where(StrEnum):
    """Which CPUs the two processes have."""

    SAME = "same"
    ACROSS = "across"


@dataclass(frozen=True, slots=True, kw_only=True)
class PingPong:
    """Round trips between two processes, each pinned to a CPU."""

    cpus: tuple[int, int]
    trips_s: tuple[float, ...]


def ping_pong(
    where: Where,
    *,
    processes: Processes,
    directory: Path,
    most_s: float,
    most: int,
    cpus: tuple[int, int] | None = None,
) -> PingPong:
    """Return the round trips of a ping-pong on this machine.

    Args:
        where: On one CPU or across two, the first ones that we may use, or those in ``cpus``.
        processes: Runs it.
        directory: Working directory of the two processes.
        most_s: Seconds after which no other round trip is begun.
        most: Round trips to take.
        cpus: Which two, the same one twice for one; None: the first ones.

    Raises:
        MeasurementError: There is no second CPU, or it failed.
    """
    found = answer_of(
        _PROGRAM,
        "ping-pong",
        where.value,
        str(most_s),
        str(most),
        *map(str, cpus or ()),
        processes=processes,
        directory=directory,
        timeout_s=most_s + _TRIP_BEYOND_S,
    )
    first, second = found["cpus"]
    return PingPong(cpus=(first, second), trips_s=tuple(ns / 1e9 for ns in found["trips_ns"]))


def take_trips(cpus: tuple[int, int], *, most_s: float, most: int) -> list[int]:
    """Return nanoseconds of each round trip; forks, so the caller must have one thread."""
    ours, theirs = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        _echo(cpus[1], (ours, theirs))
    os.close(ours[0])
    os.close(theirs[1])
    os.sched_setaffinity(0, {cpus[0]})
    trips: list[int] = []
    begun = time.perf_counter_ns()
    while len(trips) < most and time.perf_counter_ns() - begun < most_s * 1e9:
        served = time.perf_counter_ns()
        os.write(ours[1], b"x")
        os.read(theirs[0], 1)
        trips.append(time.perf_counter_ns() - served)
    os.close(ours[1])  # which ends the other one
    os.close(theirs[0])
    os.waitpid(child, 0)
    return trips[1:]  # the first one waits for the other process to be there


def _echo(cpu: int, pipes: tuple[tuple[int, int], tuple[int, int]]) -> None:
    """Send every byte back until the other side is gone; never returns."""
    (receive, not_ours), (neither, send) = pipes
    try:
        os.close(not_ours)
        os.close(neither)
        os.sched_setaffinity(0, {cpu})
        while ball := os.read(receive, 1):
            os.write(send, ball)
    finally:
        os._exit(0)


def _ping_pong(where: str, most_s: str, most: str, *chosen: str) -> dict[str, object]:
    ours = sorted(os.sched_getaffinity(0))
    if not chosen and where == Where.ACROSS and len(ours) < 2:
        return {"unknown": _ONE_CPU}
    first, second = map(int, chosen) if chosen else (ours[0], ours[where == Where.ACROSS])
    cpus = (first, second)
    return {"cpus": cpus, "trips_ns": take_trips(cpus, most_s=float(most_s), most=int(most))}


def main(arguments: list[str]) -> None:
    """Print what a trial gives as JSON, or why it gives nothing."""
    name, first, *rest = arguments
    if name == "reads":
        found = take_reads(first, int(rest[0]), float(rest[1]))
    elif name == "writes":
        found = take_writes(first, float(rest[0]))
    else:
        found = _ping_pong(first, *rest)
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
