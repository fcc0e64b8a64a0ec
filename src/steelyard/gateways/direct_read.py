"""Random reads of a file past the page cache: what the device below it gives.

As a program (``python -m steelyard.gateways.direct_read FILE BYTES SECONDS``) it prints JSON: first
one reader for the latency, then several for the rate. The file is only read.
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
from pathlib import Path

from steelyard.gateways.process import Processes, answer_of

READERS = 16  # a device that serves many at once is not asked for its most by one; a guess
_BEYOND_S = 30.0  # a read of a device that is throttled may take seconds
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
        "steelyard.gateways.direct_read",
        str(file),
        str(size_bytes),
        str(most_s),
        processes=processes,
        directory=directory,
        timeout_s=most_s + _BEYOND_S,
    )
    return DirectReads(
        latencies_s=tuple(ns / 1e9 for ns in found["latencies_ns"]),
        rate_per_s=found["rate_per_s"],
        file_bytes=found["file_bytes"],
    )


def take(file: str, size_bytes: int, most_s: float) -> dict[str, object]:
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


def main(arguments: list[str]) -> None:
    """Print the reads as JSON, or why there are none."""
    file, size_bytes, most_s = arguments
    sys.stdout.write(json.dumps(take(file, int(size_bytes), float(most_s))))


if __name__ == "__main__":
    main(sys.argv[1:])
