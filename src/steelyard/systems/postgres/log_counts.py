"""What a transaction log says, counted: exact sums of blocks, files and generators.

While a log is being read it is sparse counts by second, script and bucket. A cell is a whole number
that stands for a second, whether it lies after the ramp, a script and a bucket. A run has few of
them however many transactions it has, and they add up exactly.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from steelyard.core.errors import InputError
from steelyard.core.measurement import LatencyWindow, RunLatency, ScriptLatency
from steelyard.core.units import US_PER_S
from steelyard.stats.histogram import Histogram, bucket_indices, histogram_of, to_text
from steelyard.systems.postgres.log_lines import Lines, LogForm, Origin

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """The transactions of one script in one second, on one side of the ramp's end."""

    second: int
    ramped: bool
    script: int
    histogram: Histogram


def keys_of(lines: Lines, buckets: IntArray, scripts: int) -> IntArray:
    """Return the cell of each transaction, where there are so many scripts."""
    keys = lines.second * 2
    keys += 1 if lines.ramped is None else lines.ramped
    keys *= scripts
    keys += lines.script
    keys *= BUCKETS
    keys += buckets
    return keys


def slots(cells: Cells, scripts: int) -> Iterator[Slot]:
    """Yield the histograms by second, side of the ramp's end and script, in this order."""
    owners, buckets = np.divmod(cells.keys, BUCKETS)
    firsts = np.flatnonzero(np.diff(owners, prepend=owners[:1] - 1))
    for first, last in zip(firsts, np.append(firsts, len(owners))[1:], strict=True):
        place, script = divmod(int(owners[first]), scripts)
        counts = np.zeros(BUCKETS, np.int64)
        counts[buckets[first:last]] = cells.counts[first:last]
        second, ramped = divmod(place, 2)
        yield Slot(
            second=second,
            ramped=bool(ramped),
            script=script,
            histogram=Histogram(counts=counts),
        )


SKIPPED = "skipped"
_NOWHERE = np.zeros(BUCKETS, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Transactions without a latency that are counted together.

    Attributes:
        second: Since the start.
        ramped: They ended after the ramp.
        script: Number of the script.
        word: ``skipped``, or how they failed.
    """

    second: int
    ramped: bool
    script: int
    word: str


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
        late: Took longer than the limit, after the ramp.
        retried: Tried more than once, after the ramp; skipped ones are not among them.
        retries: Further tries in all, after the ramp.
        damaged: Lines that were not understood.
        truncated: Sources whose last line has no end: their generator was killed.
    """

    form: LogForm
    ramp_s: float
    end_s: float | None = None
    cells: Cells = NO_CELLS
    lag: IntArray = field(default_factory=_NOWHERE.copy)
    service: IntArray = field(default_factory=_NOWHERE.copy)
    longest_us: Mapping[int, int] = field(default_factory=dict)
    unsuccessful: Mapping[Kind, int] = field(default_factory=dict)
    cut: Mapping[tuple[int, int], int] = field(default_factory=dict)
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
        owners = self.cells.keys // (BUCKETS * len(self.form.scripts))
        found: Counter[int] = Counter()
        for (second, _), count in self.cut.items():
            found[second] += count
        for owner, count in zip(owners.tolist(), self.cells.counts.tolist(), strict=True):
            if owner % 2:
                found[owner // 2] += count
        return found

    @property
    def failed(self) -> Mapping[str, int]:
        """Return how many failed, by the word in the log, the ramp included."""
        return self._failed(ramped_only=False)

    @property
    def skipped(self) -> int:
        """Return how many were skipped, the ramp included."""
        return sum(n for kind, n in self.unsuccessful.items() if kind.word == SKIPPED)

    def run_latency(self, *, windows_s: float | None) -> RunLatency:
        """Return the latencies after the ramp.

        Args:
            windows_s: Length of the windows of a long run, whole seconds; None: no windows. They
                begin where the ramp ends; the last ends with the last second that has a
                transaction.
        """
        whole: dict[int, IntArray] = {}
        for slot in slots(self.cells, len(self.form.scripts)):
            if slot.ramped:
                counts = whole.setdefault(slot.script, _NOWHERE.copy())
                counts += slot.histogram.counts
        ramped = [(kind, n) for kind, n in self.unsuccessful.items() if kind.ramped]
        cut = {script for _, script in self.cut}
        ran = sorted({*whole, *cut, *(kind.script for kind, _ in ramped)})
        return RunLatency(
            scripts=tuple(self._script(n, whole.get(n, _NOWHERE)) for n in ran),
            lag=to_text(Histogram(counts=self.lag)),
            service=to_text(Histogram(counts=self.service)),
            failed=self._failed(ramped_only=True),
            skipped=sum(n for kind, n in ramped if kind.word == SKIPPED),
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
        for slot in slots(self.cells, len(self.form.scripts)):
            place, found = (slot.second, slot.script), counted if slot.ramped else apart
            found[place] = found.get(place, _NOWHERE) + slot.histogram.counts
        failed: Counter[tuple[int, int]] = Counter()
        skipped: Counter[tuple[int, int]] = Counter()
        for kind, number in self.unsuccessful.items():
            (skipped if kind.word == SKIPPED else failed)[kind.second, kind.script] += number
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

    def _failed(self, *, ramped_only: bool) -> Mapping[str, int]:
        words: Counter[str] = Counter()
        for kind, number in self.unsuccessful.items():
            if kind.word != SKIPPED and (kind.ramped or not ramped_only):
                words[kind.word] += number
        return dict(sorted(words.items()))

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
        for slot in slots(self.cells, len(self.form.scripts)):
            if slot.ramped:
                second = int(min(slot.second, final))
                window = (second - first) // length
                sums[window] = sums.get(window, _NOWHERE) + slot.histogram.counts
                last = max(last, second + 1)
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
    unsuccessful: Counter[Kind] = Counter()
    cut: Counter[tuple[int, int]] = Counter()
    longest: dict[int, int] = {}
    for part in parts:
        unsuccessful.update(part.unsuccessful)
        cut.update(part.cut)
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
        late=sum(part.late for part in parts),
        retried=sum(part.retried for part in parts),
        retries=sum(part.retries for part in parts),
        damaged=sum(part.damaged for part in parts),
        truncated=tuple(sorted({name for part in parts for name in part.truncated})),
    )


def log_of(lines: Lines, form: LogForm, origin: Origin) -> TransactionLog:
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
        unsuccessful=Counter(
            Kind(second=each.second, ramped=each.ramped, script=each.script, word=each.word)
            for each in lines.unsuccessful
        ),
        cut=cut,
        late=_late(time_us, form),
        retried=int(np.count_nonzero(retries)) + sum(number > 0 for number in tries),
        retries=int(retries.sum()) + sum(tries),
        damaged=lines.damaged,
    )


def _set_apart(lines: Lines) -> tuple[Counter[tuple[int, int]], Lines]:
    """Return how many are cut by second and script, and lines of which those are in no sum."""
    if lines.cut is None or lines.ramped is None or not lines.cut.any():
        return Counter(), lines
    places = zip(lines.second[lines.cut].tolist(), lines.script[lines.cut].tolist(), strict=True)
    return Counter(places), replace(lines, ramped=lines.ramped & ~lines.cut)


def _dense(values: IntArray) -> IntArray:
    if not len(values):
        return _NOWHERE
    return np.bincount(buckets_of(values), minlength=BUCKETS).astype(np.int64, copy=False)


def _late(time_us: IntArray, form: LogForm) -> int:
    """Return how many took longer than the limit."""
    if form.latency_limit_s is None:
        return 0
    return int(np.count_nonzero(time_us > round(form.latency_limit_s * US_PER_S)))


def _longest(scripts: IntArray, time_us: IntArray) -> dict[int, int]:
    """Return the longest time of each script that is there."""
    if not len(scripts):
        return {}
    there = np.flatnonzero(np.bincount(scripts)).tolist()
    if len(there) == 1:
        return {there[0]: int(time_us.max())}
    return {script: int((time_us * (scripts == script)).max()) for script in there}
