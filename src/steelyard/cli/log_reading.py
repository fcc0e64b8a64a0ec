"""Reading log files of pgbench, one pass over each, in bounded memory."""

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click

from steelyard.analysis.logged import AggregatedGroup, LoggedGroup, intervals_together
from steelyard.cli.log_files import Known, unpacked, widened
from steelyard.engines.postgres.aggregated_log import parse_aggregated
from steelyard.engines.postgres.log_form import LogForm, last_end_us
from steelyard.engines.postgres.transaction_log import LogReader, TransactionLog
from steelyard.model.errors import InputError
from steelyard.model.units import US_PER_S, format_bytes

_CHUNK_BYTES = 1 << 20
_TAIL_BYTES = 1 << 12
_LARGE_BYTES = 200 << 20  # a second or two of reading; below it nothing is said
_STEPS = 10


@dataclass(slots=True, kw_only=True)
class Progress:
    """Says how far the reading is, on standard error, where there is much to read.

    Attributes:
        total_bytes: Of all files.
        quiet: Nothing is said.
    """

    total_bytes: int
    quiet: bool = False
    _read_bytes: int = 0
    _told: int = 0

    def add(self, count: int) -> None:
        """Count bytes that were read."""
        self._read_bytes += count
        step = _STEPS * self._read_bytes // max(self.total_bytes, 1)
        if step > self._told and self.total_bytes >= _LARGE_BYTES and not self.quiet:
            self._told = step
            share = min(100 * step // _STEPS, 100)
            click.echo(f"read {share} % of {format_bytes(self.total_bytes)}", err=True)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadGroup:
    """A group and all its transactions."""

    group: LoggedGroup
    log: TransactionLog


@dataclass(slots=True, kw_only=True)
class _Feed:
    """Hands files to a reader, and remembers how each ended."""

    take: Callable[[str, bytes], None]
    progress: Progress
    tails: dict[str, bytes] = field(default_factory=dict)

    def file(self, path: Path) -> None:
        name = str(path)
        for chunk, read_bytes in _chunks(path):
            self.take(name, chunk)
            kept = chunk if len(chunk) >= _TAIL_BYTES else self.tails.get(name, b"") + chunk
            self.tails[name] = kept[-_TAIL_BYTES:]
            self.progress.add(read_bytes)

    @property
    def ended_us(self) -> int | None:
        """Return when the last transaction of all files ended."""
        ends = [last_end_us(tail.split(b"\n")[:-1]) for tail in self.tails.values()]
        return max((end for end in ends if end is not None), default=None)


def stored_bytes(groups: Sequence[Known]) -> int:
    """Return how much there is to read."""
    return sum(path.stat().st_size for group in groups for path in group.files)


def read_group(known: Known, ramp_s: float, progress: Progress) -> ReadGroup:
    """Return the transactions of a group.

    Raises:
        InputError: A file changed or its compression is damaged.
    """
    assert known.form is not None  # noqa: S101 - aggregated ones go to read_aggregated
    form = known.form
    log, ended_us = _read(known, form, ramp_s, progress)
    if log.damaged:
        # Perhaps a script that ran late for the first time: only the whole log tells.
        wider, ended_us = _read(known, widened(form), ramp_s, progress)
        log = wider if wider.damaged < log.damaged else log
    began_us = known.started_us + round(ramp_s * US_PER_S)
    seconds = max((ended_us or began_us) - began_us, 0) / US_PER_S
    group = LoggedGroup(
        name=known.name,
        files=len(known.files),
        open_loop=form.open_loop,
        tells_retries=form.retries,
        started_at=known.started_us / US_PER_S,
        ramp_s=ramp_s,
        seconds=seconds,
        latency=log.run_latency(windows_s=None),
        damaged=log.damaged,
        truncated=log.truncated,
        empty=known.empty,
    )
    return ReadGroup(group=group, log=log)


def _read(
    known: Known, form: LogForm, ramp_s: float, progress: Progress
) -> tuple[TransactionLog, int | None]:
    reader = LogReader(form, started_at=known.started_us / US_PER_S, ramp_s=ramp_s)
    feed = _Feed(take=reader.feed, progress=progress)
    for path in known.files:
        feed.file(path)
    return reader.finish(), feed.ended_us


def read_aggregated(known: Known, progress: Progress) -> AggregatedGroup:
    """Return the intervals of aggregated logs, the threads together.

    Raises:
        InputError: As for ``read_group``.
    """
    contents: dict[str, list[bytes]] = {str(path): [] for path in known.files}
    feed = _Feed(take=lambda name, chunk: contents[name].append(chunk), progress=progress)
    for path in known.files:
        feed.file(path)
    logs = {name: parse_aggregated(b"".join(chunks)) for name, chunks in contents.items()}
    return AggregatedGroup(
        name=known.name,
        files=len(known.files),
        intervals=intervals_together(i for log in logs.values() for i in log.intervals),
        damaged=sum(log.damaged for log in logs.values()),
        truncated=tuple(name for name, log in logs.items() if log.truncated),
    )


def _chunks(path: Path) -> Iterator[tuple[bytes, int]]:
    """Yield what is in a file, and how many of its stored bytes that took."""
    taken = 0
    try:
        with path.open("rb") as plain, unpacked(plain) as file:
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk, plain.tell() - taken
                taken = plain.tell()
    except (OSError, EOFError, zlib.error) as error:
        words = getattr(error, "strerror", None) or "its compression is damaged"
        raise InputError(
            f"{path} cannot be read: {words}", hint="Restore it from a copy."
        ) from error
