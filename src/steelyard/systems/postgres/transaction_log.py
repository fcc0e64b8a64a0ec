"""pgbench's log of every transaction, read into counts while it grows or afterwards.

Every thread of pgbench writes a file of its own, a line per transaction: see ``log_lines`` for the
columns. ``time`` is in microseconds; under ``--rate`` it counts from the scheduled start, so that
what waited for its turn is not left out, and ``time - schedule_lag`` is the service time. A
transaction that did not succeed has a word in its place: ``skipped`` (``--rate`` with
``--latency-limit``: it was later than the limit before it began), ``failed``, or ``serialization``
and ``deadlock`` with ``--failures-detailed``.

The aggregated log (``--aggregate-interval``) has sums by interval instead, and no percentiles:
means and extremes only. A line has 15 columns in PostgreSQL 15 and 18, in the same order:
``interval_start num_transactions sum_latency sum_latency_2 min_latency max_latency sum_lag
sum_lag_2 min_lag max_lag skipped retried retries serialization_failures deadlock_failures``.
pgbench writes 0 where a flag is missing that a column needs.

The clocks of several pgbench processes may differ, so each log is read by its own.

Source: PostgreSQL 18, ``doLog`` and ``processXactStats`` in pgbench.c; recordings of 15 and 18 in
``tests/recordings/pgbench_log``.
"""

import math
import re
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from steelyard.core.errors import MeasurementError
from steelyard.core.measurement import LoggedInterval, Spread
from steelyard.core.schedule import Stretch
from steelyard.core.units import US_PER_S
from steelyard.systems.postgres.log_counts import TransactionLog, log_of, merge
from steelyard.systems.postgres.log_lines import (
    LONGEST_LINE,
    Lines,
    LogForm,
    Origin,
    TurnClock,
    parse_lines,
)
from steelyard.systems.protocol import LogReader

_BLOCK_BYTES = 1 << 20  # smaller blocks have more steps of Python, of which one is taken at a time
_LARGEST_ARRAYS_BYTES = 1 << 24  # the largest of a block
_WORKERS = 2
_WAITING = 2 * _WORKERS  # blocks that may wait: they bound the memory
_TOGETHER = 32  # counts that are added up at once


_Pieces = list[bytes | memoryview]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Undecided:
    """Whole lines of which some lie where the run's measured part begins, so far as is known."""

    pieces: _Pieces


class TransactionLogReader:
    """Counts the transactions of one generator's log files.

    When the ramp was over is known best after the run. What may belong to it is held back, as it
    was fed, and counted at the end.
    """

    def __init__(
        self,
        form: LogForm,
        *,
        started_at: float,
        ramp_s: float,
        slice_s: float | None = None,
        stretches: Sequence[Stretch] = (),
        alone: bool = False,
    ) -> None:
        """Start without a transaction.

        Args:
            form: What the lines mean.
            started_at: Wall clock in seconds since the epoch; second 0 begins here.
            ramp_s: The ramp ends no later than ``started_at + ramp_s``.
            slice_s: Of an open loop: what was scheduled within so long after the ramp counts,
                whenever it ended; None: what ended after the ramp does.
            stretches: When the generator ran, where it was paused in between.
            alone: The server was not.
        """
        self._form = form
        self._slice_us = None if slice_s is None else round(slice_s * US_PER_S)
        # What counts wherever the ramp ends: it lasts no longer than that, and no less than 0 s.
        self._origin = Origin(
            started_us=round(started_at * US_PER_S),
            ramp_us=round(ramp_s * US_PER_S),
            end_us=self._slice_us,
            turns=TurnClock.of(stretches, alone=alone) if stretches else None,
        )
        self._open_lines: dict[str, bytes] = {}
        self._whole: _Pieces = []
        self._whole_bytes = 0
        self._counted: list[list[TransactionLog]] = []
        self._undecided: list[_Undecided] = []
        self._waiting: deque[Future[TransactionLog | _Undecided]] = deque()
        self._pool: ThreadPoolExecutor | None = None

    def feed(self, source: str, chunk: bytes) -> None:
        """Take the next bytes of a file; they may end anywhere, and files may alternate."""
        before = self._open_lines.get(source, b"")
        begin, end = 0, chunk.rfind(b"\n") + 1
        if not end:
            # What is longer than any line is damaged whatever follows.
            self._open_lines[source] = (before + chunk)[: LONGEST_LINE + 1]
            return
        self._open_lines[source] = chunk[end:][: LONGEST_LINE + 1]
        self._whole.append(before)
        content = memoryview(chunk)
        while begin < end:
            cut = chunk.rfind(b"\n", begin, begin + _BLOCK_BYTES) + 1 or (
                chunk.index(b"\n", begin) + 1
            )
            self._whole.append(content[begin:cut])
            self._whole_bytes += cut - begin
            begin = cut
            if self._whole_bytes >= _BLOCK_BYTES // 2:
                self._hand_over()

    def finish(self, *, ramp_s: float | None = None) -> TransactionLog:
        """Return all that was fed; a line without an end is not counted.

        Args:
            ramp_s: What ended before that is counted by second only; None: before the latest end
                of the ramp that was told at first.

        Raises:
            MeasurementError: The ramp ended later than was told at first.
        """
        origin = self._settled(ramp_s)
        self._take(self._counted_or_held(self._whole))
        self._whole, self._whole_bytes = [], 0
        self._collect(0)
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        cut = tuple(sorted(name for name, rest in self._open_lines.items() if rest))
        self._open_lines = {}
        settled_s = origin.ramp_us / US_PER_S
        end_s = None if origin.end_us is None else origin.end_us / US_PER_S
        logs = [
            replace(log, ramp_s=settled_s, end_s=end_s) for level in self._counted for log in level
        ]
        logs += [self._log_of(each.pieces, origin) for each in self._undecided]
        last = TransactionLog(form=self._form, ramp_s=settled_s, end_s=end_s, truncated=cut)
        return merge([last, *logs])

    def _settled(self, ramp_s: float | None) -> Origin:
        """Return where the ramp ended, known at last."""
        ramp_us = self._origin.ramp_us if ramp_s is None else round(ramp_s * US_PER_S)
        end_us = None if self._slice_us is None else ramp_us + self._slice_us
        settled = replace(self._origin, ramp_us=ramp_us, end_us=end_us)
        if settled.ramp_us > self._origin.ramp_us:
            raise MeasurementError(
                f"the ramp ended after {ramp_us / US_PER_S:.1f} s, and transactions that ended"
                f" after {self._origin.ramp_us / US_PER_S:.1f} s are counted already",
                hint="Connecting took long: use fewer clients, or a slice, which is read after it.",
            )
        return settled

    def _hand_over(self) -> None:
        """Let a worker count the whole lines."""
        if self._pool is None:
            _keep_freed_memory()
            self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="transaction-log")
        self._waiting.append(self._pool.submit(self._counted_or_held, self._whole))
        self._whole, self._whole_bytes = [], 0
        self._collect(_WAITING)

    def _collect(self, waiting: int) -> None:
        """Take what is counted, until at most so many blocks are under way."""
        while len(self._waiting) > waiting:
            self._take(self._waiting.popleft().result())

    def _take(self, block: TransactionLog | _Undecided) -> None:
        if isinstance(block, _Undecided):
            self._undecided.append(block)
        else:
            self._add(block)

    def _add(self, log: TransactionLog) -> None:
        """Keep counts, few of each size: each is added up with others a few times only."""
        for logs in self._counted:
            logs.append(log)
            if len(logs) < _TOGETHER:
                return
            log = merge(logs)
            logs.clear()
        self._counted.append([log])

    def _counted_or_held(self, pieces: _Pieces) -> TransactionLog | _Undecided:
        """Return the counts of a block that lies after the ramp for certain, else the block."""
        lines = parse_lines(pieces, self._form, self._origin)
        if self._origin.turns is not None or _is_decided(lines):
            return log_of(lines, self._form, self._origin)
        return _Undecided(pieces=pieces)

    def _log_of(self, pieces: _Pieces, origin: Origin) -> TransactionLog:
        return log_of(parse_lines(pieces, self._form, origin), self._form, origin)


def _keep_freed_memory() -> None:
    """Let the C library give the arrays of one block to the next.

    glibc returns arrays above 128 KiB to the kernel, which clears the pages of each new one: a
    third of the whole time. It stops doing so for sizes up to that of the largest it has seen
    freed. Source: mallopt(3), M_MMAP_THRESHOLD. Elsewhere this does nothing; it costs no memory.
    """
    np.empty(_LARGEST_ARRAYS_BYTES, np.uint8)  # freed at once, and never touched


def _is_decided(lines: Lines) -> bool:
    """Return whether all transactions count wherever the ramp ends."""
    after = lines.ramped is None or bool(lines.ramped.all())
    return after and all(each.ramped for each in lines.unsuccessful)


_PLACE: Final = re.compile(r"^.*?-([0-9]+)\.")  # `generators.divided` names each one's logs so


class SeveralLogs:
    """Reads the logs of generators that were started together on different machines.

    Args:
        readers: Of each generator, in the order of their commands.
    """

    def __init__(self, readers: Sequence[LogReader]) -> None:
        self._readers = tuple(readers)

    def feed(self, source: str, chunk: bytes) -> None:
        """Take the next bytes of a file of one of them."""
        found = _PLACE.match(source)
        place = int(found[1]) if found else 0
        self._readers[min(place, len(self._readers) - 1)].feed(source, chunk)

    def finish(self, *, ramp_s: float | None = None) -> TransactionLog:
        """Return what all of them wrote.

        Raises:
            MeasurementError: The ramp of one was over later than was told at first.
        """
        logs = [reader.finish(ramp_s=ramp_s) for reader in self._readers]
        return merge([log for log in logs if isinstance(log, TransactionLog)])


_COLUMNS = 15
_MOST_DIGITS = 40  # sums of squares of microseconds; longer ones are none of pgbench's


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregatedLog:
    """One file.

    Attributes:
        intervals: In the order of the file.
        damaged: Lines that were not understood.
        truncated: Its last line has no end, and is not counted.
    """

    intervals: tuple[LoggedInterval, ...]
    damaged: int
    truncated: bool


def parse_aggregated(content: bytes) -> AggregatedLog:
    """Return the intervals of a file; it never raises."""
    *lines, rest = content.split(b"\n")
    parsed = [_interval(line) for line in lines]
    return AggregatedLog(
        intervals=tuple(interval for interval in parsed if interval is not None),
        damaged=sum(interval is None for interval in parsed),
        truncated=bool(rest),
    )


def _interval(line: bytes) -> LoggedInterval | None:
    fields = line.split(b" ")
    if len(fields) != _COLUMNS or not all(
        field.isdigit() and len(field) <= _MOST_DIGITS for field in fields
    ):
        return None
    numbers = [int(field) for field in fields]
    return LoggedInterval(
        start_s=numbers[0],
        transactions=numbers[1],
        latency=_spread(numbers[1], numbers[2:6]),
        lag=_spread(numbers[1], numbers[6:10]) if any(numbers[6:10]) else None,
        skipped=numbers[10],
        retried=numbers[11],
        retries=numbers[12],
        serialization_failures=numbers[13],
        deadlock_failures=numbers[14],
    )


def _spread(number: int, sums: list[int]) -> Spread | None:
    """Return the spread of times from their sum, sum of squares, least and longest."""
    if not number:
        return None
    total, squares, least, longest = sums
    # Whole numbers, because the difference of two large floats would be none of theirs.
    variance = max(number * squares - total * total, 0)
    return Spread(
        mean_s=total / number / US_PER_S,
        stddev_s=math.sqrt(variance) / number / US_PER_S,
        least_s=least / US_PER_S,
        longest_s=longest / US_PER_S,
    )
