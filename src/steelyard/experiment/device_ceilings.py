"""What the device below the data can do at most: forced writes, short and long, and reads.

Files are made in the campaign's live directory, on the file system of the data; a death leaves
them to whoever clears that directory.
"""

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from steelyard.engines.reading import CeilingTools, SyncRate
from steelyard.experiment.ceiling_values import or_why_not, timed
from steelyard.gateways.direct_read import READERS, direct_reads
from steelyard.gateways.files import largest_file, make_directory, read_text, remove_tree
from steelyard.gateways.log_write import log_writes
from steelyard.gateways.process import Processes, RunningProcess
from steelyard.model.ceilings import LOG_WRITE_BYTES, Ceiling, CeilingKind
from steelyard.model.errors import MeasurementError
from steelyard.model.units import KIB, MIB, format_bytes

_READ_SIZES = (4 * KIB, 8 * KIB)  # usual block of a device; page of PostgreSQL
_READ_S = 1.0
_SYNC_S = 4.5  # the four methods of Linux, a second each, and making the file: measured
_PROGRAM_S = 0.2  # start and end of a program: measured, rounded up
_SYNC_MOST_S = 20.0
_POLL_S = 0.1
_STOP_S = 5.0
_TESTED = "sync-test"
_SYNC_HOW = "pg_test_fsync, one 8 KiB write, mean of one second"
_LOG_S = 1.0
_LOG = "log"
_LONG = f"{LOG_WRITE_BYTES // MIB} MiB"
_LOG_HOW = "one write after another, each forced out by fdatasync, for one second"

# What one place costs, in seconds; of a server that has no tools of its own, the log alone.
LOG_WRITE_S = _LOG_S + _PROGRAM_S
DEVICE_S = _SYNC_S + len(_READ_SIZES) * (_READ_S + _PROGRAM_S) + LOG_WRITE_S
ALL_KINDS = (CeilingKind.SYNC, CeilingKind.DIRECT_READ, CeilingKind.LOG_WRITE)


def no_device(
    place: str, reason: str, kinds: Sequence[CeilingKind] = ALL_KINDS
) -> tuple[Ceiling, ...]:
    """Return the ceilings of a device that were not taken."""
    return tuple(Ceiling(kind=kind, subject=place, unknown=reason) for kind in kinds)


def device_ceilings(
    tools: CeilingTools,
    *,
    place: str,
    scratch: Path,
    data: Path,
    methods: Mapping[str, str | None],
    processes: Processes,
) -> tuple[Ceiling, ...]:
    """Return what a device can do, or why that is not known.

    Args:
        tools: Of the engine.
        place: What tells it from other devices; empty when there is one.
        scratch: Directory to make on the file system of the data; removed again.
        data: Prepared data, which are only read.
        methods: By which each treatment's commits are forced out; None: they wait for none.
        processes: Runs programs.
    """

    def syncs() -> Sequence[Ceiling]:
        with _made(scratch):
            return _syncs(_sync_rates(tools, scratch, processes), methods)

    def reads(size_bytes: int) -> Sequence[Ceiling]:
        with _made(scratch):
            return [_reads(data, size_bytes, scratch, processes)]

    found = [*or_why_not(CeilingKind.SYNC, "", syncs)]
    for size_bytes in _READ_SIZES:
        taken = or_why_not(CeilingKind.DIRECT_READ, _size(size_bytes), partial(reads, size_bytes))
        found += (replace(each, treatments=tuple(methods)) for each in taken)
    placed = tuple(_placed(each, place) for each in found)
    names = tuple(methods)
    return (*placed, *log_ceilings(names, place=place, scratch=scratch, processes=processes))


def log_ceilings(
    names: Sequence[str], *, place: str, scratch: Path, processes: Processes
) -> tuple[Ceiling, ...]:
    """Return how many long writes a device takes, or why that is not known.

    Args:
        names: Treatments whose logs are there.
        place: As of ``device_ceilings``.
        scratch: Likewise.
        processes: Likewise.
    """

    def take() -> Sequence[Ceiling]:
        with _made(scratch):
            found = log_writes(scratch / _LOG, processes=processes, most_s=_LOG_S)
        taken = timed(CeilingKind.LOG_WRITE, _LONG, found.latencies_s, how=_LOG_HOW)
        return [replace(taken, rate_per_s=found.rate_per_s)]

    taken = or_why_not(CeilingKind.LOG_WRITE, _LONG, take)
    return tuple(_placed(replace(each, treatments=tuple(names)), place) for each in taken)


def _size(size_bytes: int) -> str:
    return f"{size_bytes // KIB} KiB"


def _placed(ceiling: Ceiling, place: str) -> Ceiling:
    return replace(ceiling, subject=", ".join(filter(None, (ceiling.subject, place))))


@contextmanager
def _made(directory: Path) -> Iterator[None]:
    make_directory(directory)
    try:
        yield
    finally:
        remove_tree(directory)


def _syncs(rates: Sequence[SyncRate], methods: Mapping[str, str | None]) -> list[Ceiling]:
    """Return a ceiling of each method that there is here."""
    return [
        Ceiling(
            kind=CeilingKind.SYNC,
            subject=rate.method,
            latency_s=1.0 / rate.per_s,
            rate_per_s=rate.per_s,
            how=_SYNC_HOW,
            treatments=tuple(name for name, used in methods.items() if used == rate.method),
        )
        for rate in rates
        if rate.per_s
    ]


def _sync_rates(tools: CeilingTools, scratch: Path, processes: Processes) -> tuple[SyncRate, ...]:
    """Return the rates, without waiting for the rest of what the program would test.

    Raises:
        MeasurementError: It ended or took long without them.
        SteelyardError: There is no such program.
    """
    output = scratch / f"{_TESTED}.txt"
    process = processes.start(tools.sync_command(scratch / _TESTED), output=output)
    try:
        for _ in range(int(_SYNC_MOST_S / _POLL_S)):
            ended = process.wait(_POLL_S)
            rates = tools.sync_rates(read_text(output) or "")
            if rates:
                return rates
            if ended:
                break
    finally:
        _end(process)
    said = (read_text(output) or "").strip().splitlines()
    raise MeasurementError(f"the sync test printed no rates: {said[-1] if said else 'nothing'}")


def _end(process: RunningProcess) -> None:
    """End the sync test; by the first signal it removes its file itself."""
    for number in (signal.SIGINT, signal.SIGKILL):
        process.signal(number)
        if process.wait(_STOP_S):
            return


def _reads(data: Path, size_bytes: int, scratch: Path, processes: Processes) -> Ceiling:
    file = largest_file(data)
    if file is None:
        raise MeasurementError(f"there is no file to read in {data}")
    found = direct_reads(
        file, size_bytes=size_bytes, processes=processes, directory=scratch, most_s=_READ_S
    )
    how = (
        f"O_DIRECT at random places of {format_bytes(found.file_bytes)} of data; latency of one"
        f" reader, rate of {READERS}"
    )
    latency = timed(CeilingKind.DIRECT_READ, _size(size_bytes), found.latencies_s, how=how)
    return replace(latency, rate_per_s=found.rate_per_s)
