"""pgbench's log of every transaction, read into counts while it grows or afterwards.

Every thread of pgbench writes a file of its own, a line per transaction: see ``log_lines`` for the
columns. ``time`` is in microseconds; under ``--rate`` it counts from the scheduled start, so that
what waited for its turn is not left out, and ``time - schedule_lag`` is the service time. A
transaction that did not succeed has a word in its place: ``skipped`` (``--rate`` with
``--latency-limit``: it was later than the limit before it began), ``failed``, or ``serialization``
and ``deadlock`` with ``--failures-detailed``.

Source: PostgreSQL 18, ``doLog`` and ``processXactStats`` in pgbench.c; recordings of 15 and 18 in
``tests/recordings/pgbench_log``.

While a log is being read it is sparse counts by second, script and bucket. A cell is a whole number
that stands for a second, whether it lies after the ramp, a script and a bucket. A run has few of
them however many transactions it has, and they add up exactly.
"""

import json
import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from steelyard.core.measurement import (
    LatencyWindow,
    RunLatency,
    ScriptLatency,
)
from steelyard.core.schedule import Stretch
from steelyard.core.wording import US_PER_S, InputError, MeasurementError
from steelyard.stats.histogram import Histogram, bucket_indices, histogram_of, to_text
from steelyard.systems.postgres import log_lines

IntArray = npt.NDArray[np.int64]

BUCKETS = len(histogram_of([]).counts)
_TABLE_SIZE = 1 << 17  # 131 ms; 256 KiB stay in a CPU's own cache
_DENSE = 4  # counters to a value, beyond which sorting is cheaper than counting
_table: list[npt.NDArray[np.int16]] = []


def buckets_of(values: IntArray) -> IntArray:
    """Return the bucket of each value, as ``stats.histogram`` has them."""
    if not _table:
        _table.append(bucket_indices(np.arange(_TABLE_SIZE)).astype(np.int16))
    places = _table[0].take(values, mode="clip").astype(np.int64)
    large = np.flatnonzero(values >= _TABLE_SIZE)
    if len(large):
        places[large] = bucket_indices(values[large])
    return places


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cells:
    """How many transactions fell into each cell.

    Attributes:
        keys: Shape (n,), rising.
        counts: Shape (n,), above 0.
    """

    keys: IntArray
    counts: IntArray


NO_CELLS = Cells(keys=np.zeros(0, np.int64), counts=np.zeros(0, np.int64))


def counted(keys: IntArray) -> Cells:
    """Return the cells of transactions, shape (n,)."""
    if not len(keys):
        return NO_CELLS
    least = int(keys.min())
    width = int(keys.max()) - least + 1
    if width > _DENSE * len(keys) + BUCKETS:
        found, counts = np.unique(keys, return_counts=True)
        return Cells(keys=found, counts=counts.astype(np.int64))
    dense = np.bincount(keys - least)
    places = np.flatnonzero(dense)
    return Cells(keys=places + least, counts=dense[places])


def summed(parts: list[Cells]) -> Cells:
    """Return the sum of cells, exactly and in any order."""
    if len(parts) == 1:
        return parts[0]
    keys = np.concatenate([part.keys for part in (NO_CELLS, *parts)])
    counts = np.concatenate([part.counts for part in (NO_CELLS, *parts)])
    if not len(keys):
        return NO_CELLS
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    firsts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    return Cells(keys=ordered[firsts], counts=np.add.reduceat(counts[order], firsts))


def keys_of(lines: log_lines.Lines, buckets: IntArray, scripts: int) -> IntArray:
    """Return the cell of each transaction, where there are so many scripts."""
    keys = lines.second * 2
    keys += 1 if lines.ramped is None else lines.ramped
    keys *= scripts
    keys += lines.script
    keys *= BUCKETS
    keys += buckets
    return keys


def slots(cells: Cells, scripts: int) -> Iterator[tuple[int, bool, int, IntArray]]:
    """Yield second, whether it is after the ramp, script and counts of buckets, in this order."""
    owners, buckets = np.divmod(cells.keys, BUCKETS)
    firsts = np.flatnonzero(np.diff(owners, prepend=owners[:1] - 1))
    for first, last in zip(firsts, np.append(firsts, len(owners))[1:], strict=True):
        place, script = divmod(int(owners[first]), scripts)
        counts = np.zeros(BUCKETS, np.int64)
        counts[buckets[first:last]] = cells.counts[first:last]
        second, ramped = divmod(place, 2)
        yield second, bool(ramped), script, counts


SKIPPED = "skipped"
_NOWHERE = np.zeros(BUCKETS, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TransactionLog:
    """The logs of one run, of one generator or of all.

    Attributes:
        form: Of all of them.
        ramp_s: What ended before is in no sum of the whole run.
        end_s: Where an open loop's measured part ended, whose tail is in no such sum either; None:
            it has no tail.
        cells: Latencies by second, side of the ramp's end, script and bucket.
        lag: Counts after the ramp, shape (buckets,); zeros in a closed loop.
        service: Likewise, from the start to the end.
        longest_us: The longest after the ramp, by script number; -1 without a transaction.
        unsuccessful: How many transactions had no latency.
        cut: How many count whose latency a pause has cut, by second and script number; the cells
            have them on the other side of the ramp's end.
        shares: Transactions by the half of a turn in which their shares lie; without those whose
            latency a pause has cut.
        edges: Those, as half, script number, time in it and time in all as far as it is known, us.
        late: Took longer than the limit, after the ramp.
        retried: Tried more than once, after the ramp; skipped ones are not among them.
        retries: Further tries in all, after the ramp.
        damaged: Lines that were not understood.
        truncated: Sources whose last line has no end: their generator was killed.
    """

    form: log_lines.LogForm
    ramp_s: float
    end_s: float | None = None
    cells: Cells = NO_CELLS
    lag: IntArray = field(default_factory=_NOWHERE.copy)
    service: IntArray = field(default_factory=_NOWHERE.copy)
    longest_us: Mapping[int, int] = field(default_factory=dict)
    unsuccessful: Mapping[log_lines.Unsuccessful, int] = field(default_factory=dict)
    cut: Mapping[tuple[int, int], int] = field(default_factory=dict)
    shares: Mapping[int, float] = field(default_factory=dict)
    edges: tuple[tuple[int, int, int, int], ...] = ()
    late: int = 0
    retried: int = 0
    retries: int = 0
    damaged: int = 0
    truncated: tuple[str, ...] = ()

    @property
    def transactions(self) -> int:
        """Return how many succeeded, the ramp included, as logged: not scaled by sampling."""
        return int(self.cells.counts.sum())

    @property
    def counted(self) -> Mapping[int, int]:
        """Return how many succeeded in each second of the measured part, by its number."""
        return self._by_second(ramped_only=True)

    @property
    def ended(self) -> Mapping[int, int]:
        """Return how many succeeded in each second, the ramp included."""
        return self._by_second(ramped_only=False)

    @property
    def shared(self) -> Mapping[int, float]:
        """Return how many lie in each half of a turn, those over an edge by their share.

        One that a pause of the generator alone has cut is taken to be as long as the others of its
        script, or as it was seen to last if that is longer.
        """
        if not self.form.has_latencies:
            return self.counted
        found = dict(self.shares)
        sums: dict[int, IntArray] = {}
        for _, is_ramped, script, counts in slots(self.cells, len(self.form.scripts)):
            if is_ramped:
                sums[script] = sums.get(script, _NOWHERE) + counts
        means = {script: Histogram(counts=counts).mean() for script, counts in sums.items()}
        for place, script, inside_us, whole_us in self.edges:
            whole = max(means.get(script) or 0.0, whole_us)
            found[place] = found.get(place, 0.0) + inside_us / whole
        return found

    def _by_second(self, *, ramped_only: bool) -> Mapping[int, int]:
        owners = self.cells.keys // (BUCKETS * len(self.form.scripts))
        found: Counter[int] = Counter()
        for (second, _), count in self.cut.items():
            found[second] += count
        for owner, count in zip(owners.tolist(), self.cells.counts.tolist(), strict=True):
            if owner % 2 or not ramped_only:
                found[owner // 2] += count
        return found

    def run_latency(self, *, windows_s: float | None) -> RunLatency | None:
        """Return the latencies after the ramp; None where the lines have none.

        Args:
            windows_s: Length of the windows of a long run, whole seconds; None: no windows. They
                begin where the ramp ends; the last ends with the last second that has a
                transaction.
        """
        if not self.form.has_latencies:
            return None
        whole: dict[int, IntArray] = {}
        for _, is_ramped, script, counts in slots(self.cells, len(self.form.scripts)):
            if is_ramped:
                whole[script] = whole.get(script, _NOWHERE) + counts
        ramped = [(each, n) for each, n in self.unsuccessful.items() if each.ramped]
        words: Counter[str] = Counter()
        for each, number in ramped:
            words[each.word] += number
        skipped = words.pop(SKIPPED, 0)
        cut = {script for _, script in self.cut}
        ran = sorted({*whole, *cut, *(each.script for each, _ in ramped)})
        return RunLatency(
            scripts=tuple(self._script(n, whole.get(n, _NOWHERE)) for n in ran),
            lag=to_text(Histogram(counts=self.lag)),
            service=to_text(Histogram(counts=self.service)),
            failed=dict(sorted(words.items())),
            skipped=skipped,
            late=None if self.form.latency_limit_s is None else self.late,
            retried=self.retried,
            retries=self.retries,
            sampled=self.form.sampled,
            windows=() if windows_s is None else tuple(self._windows(windows_s)),
        )

    def seconds_text(self) -> str:
        """Return a JSON object per second and script, each in a line.

        ``second`` counts from the start, ``script`` is its name, ``counts`` are microseconds as
        ``stats.histogram.to_text`` writes them, ``apart`` likewise those that the whole does not
        count (ramp and tail), ``failed`` and ``skipped`` are numbers.
        """
        counted: dict[tuple[int, int], IntArray] = {}
        apart: dict[tuple[int, int], IntArray] = {}
        for second, is_ramped, script, counts in slots(self.cells, len(self.form.scripts)):
            found = counted if is_ramped else apart
            found[second, script] = counts
        failed: Counter[tuple[int, int]] = Counter()
        skipped: Counter[tuple[int, int]] = Counter()
        for each, number in self.unsuccessful.items():
            (skipped if each.word == SKIPPED else failed)[each.second, each.script] += number
        lines = [
            {
                "second": second,
                "script": self.form.scripts[script],
                "counts": to_text(Histogram(counts=counted.get((second, script), _NOWHERE))),
                "apart": to_text(Histogram(counts=apart.get((second, script), _NOWHERE))),
                "failed": failed[second, script],
                "skipped": skipped[second, script],
            }
            for second, script in sorted({*counted, *apart, *failed, *skipped})
        ]
        return "".join(json.dumps(line) + "\n" for line in lines)

    def _script(self, number: int, counts: IntArray) -> ScriptLatency:
        longest_us = self.longest_us.get(number)
        return ScriptLatency(
            script=self.form.scripts[number],
            latency=to_text(Histogram(counts=counts)),
            longest_s=None if longest_us is None else longest_us / US_PER_S,
            cut=sum(count for (_, script), count in self.cut.items() if script == number),
        )

    def _windows(self, length_s: float) -> Iterator[LatencyWindow]:
        """Yield windows without a gap: one in which nothing ended is a stall, and is empty.

        What was still waiting at the end of the measured part counts in its last second, and less
        than half a window at the end belongs to the one before: it would hold the stragglers alone.
        """
        length = max(round(length_s), 1)
        first = math.floor(self.ramp_s)
        final = math.inf if self.end_s is None else math.ceil(self.end_s) - 1
        sums: dict[int, IntArray] = {}
        last = first
        for second, is_ramped, _, counts in slots(self.cells, len(self.form.scripts)):
            if is_ramped:
                ended = int(min(second, final))
                window = (ended - first) // length
                sums[window] = sums.get(window, _NOWHERE) + counts
                last = max(last, ended + 1)
        count = max(sums, default=-1) + 1
        if count > 1 and last - first - (count - 1) * length < length / 2:
            count -= 1
            sums[count - 1] = sums.get(count - 1, _NOWHERE) + sums.pop(count)
        for window in range(count):
            begin = first + window * length
            yield LatencyWindow(
                start_s=max(float(begin), self.ramp_s),
                end_s=float(last if window == count - 1 else begin + length),
                latency=to_text(Histogram(counts=sums.get(window, _NOWHERE))),
            )


def merge(logs: Iterable[TransactionLog]) -> TransactionLog:
    """Return all transactions of several logs in one: exact, in any order.

    Raises:
        InputError: There is none, or they are of different forms or ramps.
    """
    parts = list(logs)
    if len({(part.form, part.ramp_s, part.end_s) for part in parts}) != 1:
        raise InputError(
            "only logs of the same scripts, columns and ramp can be merged",
            hint="Merge the logs of generators that were started together.",
        )
    unsuccessful: Counter[log_lines.Unsuccessful] = Counter()
    cut: Counter[tuple[int, int]] = Counter()
    longest: dict[int, int] = {}
    shares: dict[int, float] = {}
    for part in parts:
        unsuccessful.update(part.unsuccessful)
        cut.update(part.cut)
        for place, share in part.shares.items():
            shares[place] = shares.get(place, 0.0) + share
        for script, value in part.longest_us.items():
            longest[script] = max(value, longest.get(script, 0))
    return TransactionLog(
        form=parts[0].form,
        ramp_s=parts[0].ramp_s,
        end_s=parts[0].end_s,
        cells=summed([part.cells for part in parts]),
        lag=np.sum([part.lag for part in parts], axis=0),
        service=np.sum([part.service for part in parts], axis=0),
        longest_us=longest,
        unsuccessful=dict(unsuccessful),
        cut=dict(cut),
        shares=shares,
        edges=tuple(edge for part in parts for edge in part.edges),
        late=sum(part.late for part in parts),
        retried=sum(part.retried for part in parts),
        retries=sum(part.retries for part in parts),
        damaged=sum(part.damaged for part in parts),
        truncated=tuple(sorted({name for part in parts for name in part.truncated})),
    )


def log_of(
    lines: log_lines.Lines, form: log_lines.LogForm, origin: log_lines.Origin
) -> TransactionLog:
    """Return a block of lines, counted."""
    cut, lines = _set_apart(lines)
    ramped = lines.ramped

    def after(values: IntArray | None) -> IntArray:
        if values is None:
            return lines.time_us[:0]
        return values if ramped is None else values[ramped]

    buckets = buckets_of(lines.time_us)
    time_us, lag_us, retries = after(lines.time_us), after(lines.lag_us), after(lines.retries)
    tries = [each.retries for each in lines.unsuccessful if each.ramped and each.word != SKIPPED]
    return TransactionLog(
        form=form,
        ramp_s=origin.ramp_us / US_PER_S,
        end_s=None if origin.end_us is None else origin.end_us / US_PER_S,
        cells=counted(keys_of(lines, buckets, len(form.scripts))),
        lag=_dense(lag_us),
        service=_dense(time_us - lag_us) if form.open_loop else _NOWHERE,
        longest_us=_longest(after(lines.script), time_us),
        unsuccessful=Counter(lines.unsuccessful),
        cut=cut,
        shares={} if lines.shares is None else _whole_shares(lines.shares),
        edges=() if lines.shares is None else tuple(_edges(lines.shares)),
        late=_late(time_us, form),
        retried=int(np.count_nonzero(retries)) + sum(number > 0 for number in tries),
        retries=int(retries.sum()) + sum(tries),
        damaged=lines.damaged,
    )


def _set_apart(lines: log_lines.Lines) -> tuple[Counter[tuple[int, int]], log_lines.Lines]:
    if lines.cut is None or lines.ramped is None or not lines.cut.any():
        return Counter(), lines
    places = zip(lines.second[lines.cut].tolist(), lines.script[lines.cut].tolist(), strict=True)
    return Counter(places), replace(lines, ramped=lines.ramped & ~lines.cut)


def _whole_shares(shares: log_lines.Shares) -> dict[int, float]:
    """Return the sum of shares in each half, of transactions whose length is known."""
    known = ~shares.cut[shares.row]
    parts = shares.inside_us[known] / shares.whole_us[shares.row[known]]
    sums = np.bincount(shares.place[known], weights=parts)
    return {place: float(sums[place]) for place in np.flatnonzero(sums).tolist()}


def _edges(shares: log_lines.Shares) -> Iterator[tuple[int, int, int, int]]:
    """Yield the parts of transactions that a pause of the generator alone has cut."""
    cut = np.flatnonzero(shares.cut[shares.row] & (shares.inside_us > 0))
    rows = shares.row[cut]
    columns = (shares.place[cut], shares.script[rows], shares.inside_us[cut], shares.whole_us[rows])
    yield from zip(*(column.tolist() for column in columns), strict=True)


def _dense(values: IntArray) -> IntArray:
    if not len(values):
        return _NOWHERE
    return np.bincount(buckets_of(values), minlength=BUCKETS).astype(np.int64, copy=False)


def _late(time_us: IntArray, form: log_lines.LogForm) -> int:
    if form.latency_limit_s is None:
        return 0
    return int(np.count_nonzero(time_us > round(form.latency_limit_s * US_PER_S)))


def _longest(scripts: IntArray, time_us: IntArray) -> dict[int, int]:
    if not len(scripts):
        return {}
    there = np.flatnonzero(np.bincount(scripts)).tolist()
    if len(there) == 1:
        return {there[0]: int(time_us.max())}
    return {script: int((time_us * (scripts == script)).max()) for script in there}


_BLOCK_BYTES = 1 << 20  # smaller blocks have more steps of Python, of which one is taken at a time
_LARGEST_ARRAYS_BYTES = 1 << 24  # the largest of a block
_WORKERS = 2
_WAITING = 2 * _WORKERS  # blocks that may wait: they bound the memory
_TOGETHER = 32  # counts that are added up at once


_Pieces = list[bytes | memoryview]


class TransactionLogReader:
    """Counts the transactions of one generator's log files.

    When the ramp was over is known best after the run. What may belong to it is held back, as it
    was fed, and counted at the end.
    """

    def __init__(
        self,
        form: log_lines.LogForm,
        *,
        started_at: float,
        ramp_s: float,
        run_time_s: float | None = None,
        stretches: Sequence[Stretch] = (),
        alone: bool = False,
    ) -> None:
        """Start without a transaction.

        Args:
            form: What the lines mean.
            started_at: Wall clock in seconds since the epoch; second 0 begins here.
            ramp_s: The ramp ends no later than ``started_at + ramp_s``.
            run_time_s: Of an open loop: what was scheduled within so long after the ramp counts,
                whenever it ended; None: what ended after the ramp does.
            stretches: When the generator ran, where it was paused in between.
            alone: The server was not.
        """
        self._form = form
        self._slice_us = None if run_time_s is None else round(run_time_s * US_PER_S)
        # What counts wherever the ramp ends: it lasts no longer than that, and no less than 0 s.
        self._origin = log_lines.Origin(
            started_us=round(started_at * US_PER_S),
            ramp_us=round(ramp_s * US_PER_S),
            end_us=self._slice_us,
            turns=log_lines.TurnClock.of(stretches, alone=alone) if stretches else None,
        )
        self._open_lines: dict[str, bytes] = {}
        self._whole: _Pieces = []
        self._whole_bytes = 0
        self._counted: list[list[TransactionLog]] = []
        # Whole lines of which some lie where the run's measured part begins, so far as is known.
        self._undecided: list[_Pieces] = []
        self._waiting: deque[Future[TransactionLog | _Pieces]] = deque()
        self._pool: ThreadPoolExecutor | None = None

    def feed(self, source: str, chunk: bytes) -> None:
        """Take the next bytes of a file; they may end anywhere, and files may alternate."""
        before = self._open_lines.get(source, b"")
        begin, end = 0, chunk.rfind(b"\n") + 1
        if not end:
            # What is longer than any line is damaged whatever follows.
            self._open_lines[source] = (before + chunk)[: log_lines.LONGEST_LINE + 1]
            return
        self._open_lines[source] = chunk[end:][: log_lines.LONGEST_LINE + 1]
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

        What ended before the ramp's end is counted by second only.
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
        logs += [self._log_of(pieces, origin) for pieces in self._undecided]
        last = TransactionLog(form=self._form, ramp_s=settled_s, end_s=end_s, truncated=cut)
        return merge([last, *logs])

    def _settled(self, ramp_s: float | None) -> log_lines.Origin:
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

    def _take(self, block: TransactionLog | _Pieces) -> None:
        if isinstance(block, TransactionLog):
            self._add(block)
        else:
            self._undecided.append(block)

    def _add(self, log: TransactionLog) -> None:
        """Keep counts, few of each size: each is added up with others a few times only."""
        for logs in self._counted:
            logs.append(log)
            if len(logs) < _TOGETHER:
                return
            log = merge(logs)
            logs.clear()
        self._counted.append([log])

    def _counted_or_held(self, pieces: _Pieces) -> TransactionLog | _Pieces:
        """Return the counts of a block that lies after the ramp for certain, else the block."""
        lines = log_lines.parse_lines(pieces, self._form, self._origin)
        if self._origin.turns is not None or _is_decided(lines):
            return log_of(lines, self._form, self._origin)
        return pieces

    def _log_of(self, pieces: _Pieces, origin: log_lines.Origin) -> TransactionLog:
        return log_of(log_lines.parse_lines(pieces, self._form, origin), self._form, origin)


def _keep_freed_memory() -> None:
    """Let the C library give the arrays of one block to the next.

    glibc returns arrays above 128 KiB to the kernel, which clears the pages of each new one: a
    third of the whole time. It stops doing so for sizes up to that of the largest it has seen
    freed. Source: mallopt(3), M_MMAP_THRESHOLD. Elsewhere this does nothing; it costs no memory.
    """
    np.empty(_LARGEST_ARRAYS_BYTES, np.uint8)  # freed at once, and never touched


def _is_decided(lines: log_lines.Lines) -> bool:
    after = lines.ramped is None or bool(lines.ramped.all())
    return after and all(each.ramped for each in lines.unsuccessful)
