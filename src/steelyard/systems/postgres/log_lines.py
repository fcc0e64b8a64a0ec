"""Lines of pgbench's transaction log as arrays: their columns, their clock, their numbers.

A line of ``pgbench --log`` is ``client_id transaction_no time script_no time_epoch time_us``, then
``schedule_lag`` under ``--rate`` and ``retries`` under ``--max-tries`` other than 1. Nothing in the
file says which of the two a seventh column is, so the columns follow from the flags alone.
Source: PostgreSQL 18, documentation of pgbench, "Per-Transaction Logging"; ``doLog`` in pgbench.c.

The log has the time of the wall, even where the generator is paused between its turns. What counts
is what ended in its turns, and a latency is what went by while it ran: where generator and server
stand still together, the pauses are known exactly. Where the server goes on, nobody knows how long
a transaction took that a pause fell into: the answer may have come at any time in it.

Almost all lines hold nothing but digits and single spaces. Their fields are found and turned into
numbers for a whole block at once, eight digits in one 64-bit word; what is not of this kind (a
word for the time, a damaged line) is read one by one. Both ways understand the same lines.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from steelyard.core.schedule import Stretch
from steelyard.core.wording import US_PER_S
from steelyard.stats.histogram import LARGEST

_LEAST_COLUMNS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class LogForm:
    """What the lines of a log mean.

    Attributes:
        scripts: Names by script number.
        open_loop: There is a column ``schedule_lag``: the run had a rate.
        retries: There is a column ``retries``: transactions could be tried more than once.
        latency_limit_s: Transactions that took longer are late; None: there is no limit.
        sampled: Share of the transactions that the log holds.
        has_latencies: Its times are latencies; else nobody knows how long a transaction took.
    """

    scripts: tuple[str, ...]
    open_loop: bool
    retries: bool
    latency_limit_s: float | None = None
    sampled: float = 1.0
    has_latencies: bool = True

    @property
    def columns(self) -> int:
        """Return how many columns a line has."""
        return _LEAST_COLUMNS + self.open_loop + self.retries


IntArray = npt.NDArray[np.int64]
Truths = npt.NDArray[np.bool_]
HALVES = 2  # of what counts of a stretch, told apart to see what one turn leaves to the next


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shares:
    """How much of transactions lies in halves of turns.

    Attributes:
        row: Shape (m,), number of the transaction.
        place: Shape (m,), as ``TurnClock.placed`` gives places.
        inside_us: Shape (m,).
        whole_us: Shape (n,), of each transaction, without pauses.
        script: Shape (n,), its number.
        cut: Shape (n,), whether a pause fell into it and nobody knows how long it took.
    """

    row: IntArray
    place: IntArray
    inside_us: IntArray
    whole_us: IntArray
    script: IntArray
    cut: Truths


_NO_PLACES = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TurnClock:
    """The stretches of one generator as arrays, in microseconds since the epoch.

    Attributes:
        begins: Shape (n,), rising.
        ends: Shape (n,), each before the next begin.
        counted_from: Shape (n,), from when on what ends counts; the end where nothing does.
        counted_to: Shape (n,), until when.
        run_us: Shape (n,), what it had run before each stretch.
        alone: The generator stood still alone: the server went on in the pauses.
    """

    begins: IntArray
    ends: IntArray
    counted_from: IntArray
    counted_to: IntArray
    run_us: IntArray
    alone: bool = False

    @classmethod
    def of(cls, stretches: Sequence[Stretch], *, alone: bool = False) -> "TurnClock":
        """Return the clock of stretches in order, at least one."""
        begins = _us([each.began_at for each in stretches])
        ends = _us([each.ended_at for each in stretches])
        counted = [each.counted or (each.ended_at, each.ended_at) for each in stretches]
        return cls(
            begins=begins,
            ends=ends,
            counted_from=_us([first for first, _ in counted]),
            counted_to=_us([last for _, last in counted]),
            run_us=np.concatenate(([0], np.cumsum(ends - begins)[:-1])),
            alone=alone,
        )

    def placed(self, ended_us: IntArray, took_us: IntArray) -> tuple[IntArray, IntArray, Truths]:
        """Return latencies without pauses, places, and whether they count, each of shape (n,).

        A place is twice the number of the stretch, and one more in the second half of what counts
        of it. What ended in a pause belongs to the stretch before it and does not count.

        Args:
            ended_us: Shape (n,), when transactions ended, since the epoch.
            took_us: Shape (n,), from their begin to their end, by the clock of the wall.
        """
        stretch = self._stretch(ended_us)
        first, last = self.counted_from[stretch], self.counted_to[stretch]
        inside = (ended_us >= first) & (ended_us < last)
        middle = (first + last) // 2
        ran_us = self._ran_us(ended_us) - self._ran_us(ended_us - took_us)
        return ran_us, HALVES * stretch + (ended_us >= middle), inside

    def cut(self, ended_us: IntArray, took_us: IntArray) -> Truths:
        """Return whether a pause fell into transactions whose latency nobody knows then.

        Args:
            ended_us: Shape (n,), as for ``placed``.
            took_us: Likewise.

        Returns:
            Shape (n,), only false where the server stood still, too.
        """
        if not self.alone:
            return np.zeros(len(ended_us), dtype=np.bool_)
        return np.asarray(ended_us - took_us < self.begins[self._stretch(ended_us)])

    def shares(self, ended_us: IntArray, took_us: IntArray, script: IntArray) -> "Shares":
        """Return how much of each transaction lies in each half of what counts, without pauses.

        Args:
            ended_us: Shape (n,), as for ``placed``.
            took_us: Likewise.
            script: Shape (n,), numbers of scripts.
        """
        to_us, from_us = self._ran_us(ended_us), self._ran_us(ended_us - took_us)
        middle = (self.counted_from + self.counted_to) // 2
        begins = np.stack((self.counted_from, middle), axis=1).ravel()
        ends = np.stack((middle, self.counted_to), axis=1).ravel()
        stretches = np.repeat(np.arange(len(self.begins)), HALVES)
        offset = self.run_us[stretches] - self.begins[stretches]
        begins, ends = begins + offset, ends + offset
        first = np.searchsorted(ends, from_us, side="right")
        last = np.searchsorted(begins, to_us, side="left") - 1
        rows, places, inside = [_NO_PLACES], [_NO_PLACES], [_NO_PLACES]
        for further in range(int((last - first).max(initial=-1)) + 1):
            row = np.flatnonzero(first + further <= last)
            place = first[row] + further
            share_us = np.minimum(to_us[row], ends[place]) - np.maximum(from_us[row], begins[place])
            rows.append(row)
            places.append(place)
            inside.append(share_us)
        return Shares(
            row=np.concatenate(rows),
            place=np.concatenate(places),
            inside_us=np.maximum(np.concatenate(inside), 0),
            whole_us=np.maximum(to_us - from_us, 1),
            script=script,
            cut=self.cut(ended_us, took_us),
        )

    def _stretch(self, at_us: IntArray) -> IntArray:
        found = np.searchsorted(self.begins, at_us, side="right") - 1
        return np.asarray(np.maximum(found, 0), dtype=np.int64)

    def _ran_us(self, at_us: IntArray) -> IntArray:
        stretch = self._stretch(at_us)
        within = np.minimum(at_us, self.ends[stretch]) - self.begins[stretch]
        return np.asarray(self.run_us[stretch] + within, dtype=np.int64)


def us_of(seconds: float) -> int:
    """Return seconds as whole microseconds."""
    return round(seconds * US_PER_S)


def _us(seconds: Sequence[float]) -> IntArray:
    return np.rint(np.asarray(seconds, dtype=np.float64) * US_PER_S).astype(np.int64)


Words = npt.NDArray[np.uint64]
_Bytes = npt.NDArray[np.uint8]

LONGEST_LINE = 256  # bytes; pgbench's are below 120
_PAD = b"0" * 16  # before a block, so that words can be loaded that end in its first field
_NEWLINE, _SPACE, _ZERO, _NINE = b"\n "[0], b"\n "[1], b"09"[0], b"09"[1]
_TIME, _SCRIPT, _EPOCH, _US, _LAG = 2, 3, 4, 5, 6
_MOST_DIGITS = {_TIME: 16, _SCRIPT: 4, _EPOCH: 10, _US: 6}
_LAG_DIGITS, _RETRY_DIGITS = 16, 10
_WORD = re.compile(rb"[a-z][a-z_-]{0,31}")
# A guess: no run is longer. One wild time stamp would make millions of empty seconds.
FURTHEST_S = 31 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """When a run began, and where its ramp ends, in whole microseconds.

    Attributes:
        started_us: Since the epoch; second 0 begins here.
        ramp_us: What ended before this much later is in no sum of the whole run.
        end_us: Of an open loop: in these sums is what was scheduled from ``ramp_us`` to this,
            whenever it ended; None: what ended after the ramp.
        turns: When the generator ran, where it was paused in between; then a "second" is half a
            turn, and what counts is in its turns instead of after a ramp.
    """

    started_us: int
    ramp_us: int
    end_us: int | None = None
    turns: TurnClock | None = None

    def holds(self, since_us: int) -> bool:
        """Return whether what was so long after the start lies in the measured part."""
        return since_us >= self.ramp_us and (self.end_us is None or since_us < self.end_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsuccessful:
    """A transaction without a latency.

    Attributes:
        word: What stands for the time: ``skipped``, ``failed``, ``serialization``, ``deadlock``.
        script: Number of the script.
        second: Since the start.
        ramped: It ended after the ramp, and before the end of an open loop's measured part.
        retries: Further tries; 0 where they are not logged.
    """

    word: str
    script: int
    second: int
    ramped: bool
    retries: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lines:
    """The transactions of a block of lines, in no particular order.

    Attributes:
        time_us: Shape (n,), latencies; under a rate from the scheduled start.
        script: Shape (n,), numbers of scripts.
        second: Shape (n,), in which they ended, since the start.
        ramped: Shape (n,), whether they ended after the ramp, or in an open loop were scheduled
            between its end and that of the measured part; None: all were.
        lag_us: Shape (n,), from the scheduled start to the start; None in a closed loop.
        retries: Shape (n,); None where they are not logged.
        cut: Shape (n,), those that count and whose latency a pause has cut; None: none of them.
        unsuccessful: All others.
        damaged: Lines that are none of pgbench's.
        shares: Of those in lines that are read together; None where nothing is paused.
    """

    time_us: IntArray
    script: IntArray
    second: IntArray
    ramped: Truths | None
    lag_us: IntArray | None
    retries: IntArray | None
    cut: Truths | None
    unsuccessful: tuple[Unsuccessful, ...]
    damaged: int
    shares: Shares | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Fields:
    """Where the fields of regular lines are: shape (n, columns), ends and widths."""

    ends: IntArray
    widths: IntArray


def parse_lines(pieces: Iterable[bytes | memoryview], form: LogForm, origin: Origin) -> Lines:
    """Return the transactions of whole lines, each with its newline, in pieces that join."""
    padded = b"".join((_PAD, *pieces))
    fields, odd = _split(padded, form)
    regular = _regular(padded, fields, form, origin)
    if not odd:
        return _fitting_together(regular, form)
    parsed = [_one(line, form, origin) for line in odd]
    rows = [row for row in parsed if isinstance(row, tuple)]
    joined = _joined(regular, np.array(rows, np.int64).reshape(-1, 7))
    if joined.shares is not None:
        joined = replace(joined, shares=_with_whole(joined.shares, rows))
    lines = _fitting_together(joined, form)
    return replace(
        lines,
        unsuccessful=tuple(row for row in parsed if isinstance(row, Unsuccessful)),
        damaged=lines.damaged + sum(row is None for row in parsed),
    )


def _split(padded: bytes, form: LogForm) -> tuple[_Fields, list[bytes]]:
    content = np.frombuffer(padded, np.uint8)
    columns = form.columns
    ends = np.flatnonzero(content < _ZERO)
    odd: list[bytes] = []
    widths = np.empty_like(ends)  # with the separator
    widths[:1] = ends[:1] - len(_PAD) + 1
    np.subtract(ends[1:], ends[:-1], out=widths[1:])
    if not _all_regular(content, ends, columns):
        chosen, odd = _sorted_out(padded, content, ends, columns)
        ends, widths = ends[chosen], widths[chosen]
    widths -= 1
    fields = _Fields(ends=ends.reshape(-1, columns), widths=widths.reshape(-1, columns))
    good = _of_good_widths(fields, form)
    if good is None:
        return fields, odd
    firsts = fields.ends[~good, 0] - fields.widths[~good, 0]
    spans = zip(firsts.tolist(), fields.ends[~good, -1].tolist(), strict=True)
    odd += [padded[first:last] for first, last in spans]
    return _Fields(ends=fields.ends[good], widths=fields.widths[good]), odd


def _all_regular(content: _Bytes, ends: IntArray, columns: int) -> bool:
    """Return whether all lines have these columns and nothing but digits and single spaces."""
    lines, rest = divmod(len(ends), columns)
    return (
        rest == 0
        and int(content.max(initial=0)) <= _NINE
        and int(np.count_nonzero(content == _SPACE)) == lines * (columns - 1)
        and bool((content[ends[columns - 1 :: columns]] == _NEWLINE).all())
    )


def _sorted_out(
    padded: bytes, content: _Bytes, ends: IntArray, columns: int
) -> tuple[Truths, list[bytes]]:
    """Return which field ends belong to regular lines, and the lines that are not regular."""
    newlines = np.flatnonzero(content == _NEWLINE)
    firsts = np.concatenate(([len(_PAD)], newlines[:-1] + 1))
    places = np.searchsorted(newlines, ends)
    irregular = np.bincount(places, minlength=len(newlines)) != columns
    letters = (content > _NINE) | ((content < _ZERO) & (content != _SPACE) & (content != _NEWLINE))
    irregular[np.searchsorted(newlines, np.flatnonzero(letters))] = True
    spans = zip(firsts[irregular].tolist(), newlines[irregular].tolist(), strict=True)
    return ~irregular[places], [padded[first:last] for first, last in spans]


def _of_good_widths(fields: _Fields, form: LogForm) -> Truths | None:
    """Return which lines have fields of the right widths; None: all."""
    widths, most = fields.widths, _most_digits(form)
    if not len(widths):
        return None
    others = LONGEST_LINE - sum(most.values()) - form.columns
    if (
        int(widths.min()) > 0
        and int(widths[:, _EPOCH].min()) == most[_EPOCH]
        and all(int(widths[:, column].max()) <= digits for column, digits in most.items())
        and int(widths[:, 0].max()) + int(widths[:, 1].max()) <= others
    ):
        return None
    good: Truths = (widths > 0).all(axis=1) & (widths[:, _EPOCH] == most[_EPOCH])
    good &= widths.sum(axis=1) + form.columns - 1 <= LONGEST_LINE
    for column, digits in most.items():
        good &= widths[:, column] <= digits
    return good


def _most_digits(form: LogForm) -> dict[int, int]:
    lag = {_LAG: _LAG_DIGITS} if form.open_loop else {}
    retries = {form.columns - 1: _RETRY_DIGITS} if form.retries else {}
    return {**_MOST_DIGITS, **lag, **retries}


def _regular(padded: bytes, fields: _Fields, form: LogForm, origin: Origin) -> Lines:
    def column(number: int) -> IntArray:
        return _numbers(padded, fields.ends[:, number], fields.widths[:, number])

    time_us = column(_TIME)
    single = int(fields.widths[:, _SCRIPT].max(initial=1)) == 1
    script = _single_digits(padded, fields) if single else column(_SCRIPT)
    ramped: Truths | None
    cut: Truths | None = None
    shares: Shares | None = None
    if origin.turns is not None:
        ended_us = column(_EPOCH) * US_PER_S + column(_US)
        cut = origin.turns.cut(ended_us, time_us)
        shares = origin.turns.shares(ended_us, time_us, script)
        time_us, second, ramped = origin.turns.placed(ended_us, time_us)
        cut &= ramped
    else:
        second, ramped = _placed(padded, fields, origin)
    if origin.end_us is not None:
        ended_us = column(_EPOCH) * US_PER_S + column(_US) - origin.started_us
        scheduled_us = ended_us - time_us
        ramped = (scheduled_us >= origin.ramp_us) & (scheduled_us < origin.end_us)
    return Lines(
        time_us=time_us,
        script=script,
        second=second,
        ramped=ramped,
        lag_us=column(_LAG) if form.open_loop else None,
        retries=column(form.columns - 1) if form.retries else None,
        cut=cut,
        unsuccessful=(),
        damaged=0,
        shares=shares,
    )


def _single_digits(padded: bytes, fields: _Fields) -> IntArray:
    digits = np.frombuffer(padded, np.uint8)[fields.ends[:, _SCRIPT] - 1]
    return digits.astype(np.int64) - _ZERO


def _placed(padded: bytes, fields: _Fields, origin: Origin) -> tuple[IntArray, Truths | None]:
    """Return the second of each line, and whether it lies after the ramp; None: all do.

    Neighbouring lines mostly ended in the same second, which is read once for all of them. Their
    microseconds are only compared, as digits.
    """
    if not len(fields.ends):
        return np.zeros(0, np.int64), None
    ends = fields.ends[:, _EPOCH]
    firsts = _changes(padded, ends)
    epochs_s = _numbers(padded, ends[firsts], np.full(len(firsts), _MOST_DIGITS[_EPOCH]))
    lengths = np.diff(firsts, append=len(ends))
    fractions = _digits(padded, fields.ends[:, _US], fields.widths[:, _US]).byteswap(inplace=True)
    begun_s, begun_us = divmod(origin.started_us, US_PER_S)
    second = np.repeat(epochs_s - begun_s, lengths)
    if begun_us:
        second -= fractions < _as_digits(begun_us)
    ramp_s, ramp_us = divmod(origin.started_us + origin.ramp_us, US_PER_S)
    if int(epochs_s.min()) > ramp_s:
        return second, None
    after = np.repeat(epochs_s > ramp_s, lengths)
    after |= np.repeat(epochs_s == ramp_s, lengths) & (fractions >= _as_digits(ramp_us))
    return second, after


def _changes(padded: bytes, ends: IntArray) -> IntArray:
    """Return the first of the lines of each run whose 10 digits that end there are the same."""
    anywhere = np.ndarray((len(padded) - 15,), "V16", padded, 0, (1,))
    words = anywhere[ends - 16].view("<u8").reshape(-1, 2)
    differing = words[1:, 1] != words[:-1, 1]  # the last 8 digits; 2 more end the word before
    differing |= (words[1:, 0] ^ words[:-1, 0]) >= 1 << 48
    return np.concatenate(([0], np.flatnonzero(differing) + 1))


def _as_digits(number: int) -> np.uint64:
    """Return a word that compares with others as the numbers do whose digits are its bytes."""
    return np.uint64(int.from_bytes(bytes(map(int, f"{number:08d}")), "big"))


def _digits(padded: bytes, ends: IntArray, widths: IntArray) -> Words:
    """Return the digits of the fields of at most 8 that end there, or the last 8 of longer ones.

    The lowest byte of a word is the first digit; what stands before the field is pushed out.
    """
    anywhere = np.ndarray((len(padded) - 7,), "V8", padded, 0, (1,))
    word = anywhere[ends - 8].view("<u8")
    foreign = widths * -8
    foreign += 64
    if int(widths.max(initial=0)) > 8:
        np.maximum(foreign, 0, out=foreign)
    shifts = foreign.view(np.uint64)
    word >>= shifts
    word <<= shifts
    word &= np.uint64(0x0F0F0F0F0F0F0F0F)
    return word


def _numbers(padded: bytes, ends: IntArray, widths: IntArray) -> IntArray:
    """Return the numbers of at most 16 digits that end there.

    Neighbouring digits are added up in pairs, then fours, then eights, within a 64-bit word.
    """
    word = _digits(padded, ends, widths)
    word *= np.uint64(10 * 2**8 + 1)
    word >>= np.uint64(8)
    word &= np.uint64(0x00FF00FF00FF00FF)
    word *= np.uint64(100 * 2**16 + 1)
    word >>= np.uint64(16)
    word &= np.uint64(0x0000FFFF0000FFFF)
    word *= np.uint64(10_000 * 2**32 + 1)
    word >>= np.uint64(32)
    values = word.view(np.int64)
    if int(widths.max(initial=0)) > 8:
        wide = np.flatnonzero(widths > 8)
        values[wide] += 10**8 * _numbers(padded, ends[wide] - 8, widths[wide] - 8)
    return values


def _one(line: bytes, form: LogForm, origin: Origin) -> tuple[int, ...] | Unsuccessful | None:
    """Return time, script, second, ramped, lag, retries and cut; None: it is no such line."""
    fields = line.split(b" ")
    if len(fields) != form.columns or len(line) > LONGEST_LINE:
        return None
    time, others = fields[_TIME], (*fields[:_TIME], *fields[_TIME + 1 :])
    most = {**_most_digits(form), _TIME: LONGEST_LINE}
    if (
        not all(field.isdigit() for field in others)
        or any(len(fields[column]) > digits for column, digits in most.items())
        or len(fields[_EPOCH]) != most[_EPOCH]
    ):
        return None
    script, retries = int(fields[_SCRIPT]), int(fields[-1]) if form.retries else 0
    since_us = int(fields[_EPOCH]) * US_PER_S + int(fields[_US]) - origin.started_us
    second = since_us // US_PER_S
    if origin.turns is not None:
        return _one_in_turns(fields, retries, form, origin.turns)
    if time.isdigit() and len(time) <= _MOST_DIGITS[_TIME]:
        lag = int(fields[_LAG]) if form.open_loop else 0
        placed_us = since_us if origin.end_us is None else since_us - int(time)
        return int(time), script, second, origin.holds(placed_us), lag, retries, False
    known = script < len(form.scripts) and abs(second) <= FURTHEST_S
    if _WORD.fullmatch(time) is None or not known:
        return None
    return Unsuccessful(
        word=time.decode(),
        script=script,
        second=second,
        ramped=origin.holds(since_us),  # when it was due is not logged
        retries=retries,
    )


def _one_in_turns(
    fields: list[bytes], retries: int, form: LogForm, turns: TurnClock
) -> tuple[int, ...] | Unsuccessful | None:
    """Return the same of a line that a generator wrote which was paused in between."""
    time, script = fields[_TIME], int(fields[_SCRIPT])
    ended_us = np.array([int(fields[_EPOCH]) * US_PER_S + int(fields[_US])])
    latency = time.isdigit() and len(time) <= _MOST_DIGITS[_TIME]
    took_us = np.array([int(time) if latency else 0])
    time_us, second, ramped = (values[0].item() for values in turns.placed(ended_us, took_us))
    if latency:
        cut = ramped and turns.cut(ended_us, took_us)[0].item()
        return time_us, script, second, ramped, 0, retries, cut
    if _WORD.fullmatch(time) is None or script >= len(form.scripts):
        return None
    return Unsuccessful(
        word=time.decode(), script=script, second=second, ramped=ramped, retries=retries
    )


def _joined(lines: Lines, rows: IntArray) -> Lines:
    if not len(rows):
        return lines

    def with_column(values: IntArray | None, number: int) -> IntArray | None:
        return None if values is None else np.concatenate((values, rows[:, number]))

    ramped = np.ones(len(lines.time_us), bool) if lines.ramped is None else lines.ramped
    cut = None if lines.cut is None else np.concatenate((lines.cut, rows[:, 6] > 0))
    return replace(
        lines,
        time_us=np.concatenate((lines.time_us, rows[:, 0])),
        script=np.concatenate((lines.script, rows[:, 1])),
        second=np.concatenate((lines.second, rows[:, 2])),
        ramped=np.concatenate((ramped, rows[:, 3] > 0)),
        lag_us=with_column(lines.lag_us, 4),
        retries=with_column(lines.retries, 5),
        cut=cut,
    )


def _with_whole(shares: Shares, rows: Sequence[tuple[int, ...]]) -> Shares:
    """Return shares with transactions that are read one by one, which count where they ended."""
    counted = [row for row in rows if row[3]]
    number = len(shares.whole_us)
    return Shares(
        row=np.append(shares.row, np.arange(number, number + len(counted))),
        place=np.append(shares.place, np.array([row[2] for row in counted], np.int64)),
        inside_us=np.append(shares.inside_us, np.ones(len(counted), np.int64)),
        whole_us=np.append(shares.whole_us, np.ones(len(counted), np.int64)),
        script=np.append(shares.script, np.array([row[1] for row in counted], np.int64)),
        cut=np.append(shares.cut, np.zeros(len(counted), np.bool_)),
    )


def _fitting_together(lines: Lines, form: LogForm) -> Lines:
    """Return the lines whose numbers can be true together; the others are damaged."""
    lag_us = lines.lag_us
    if (
        int(lines.script.max(initial=0)) < len(form.scripts)
        and int(lines.time_us.max(initial=0)) < LARGEST
        and int(lines.second.max(initial=0)) <= FURTHEST_S
        and int(lines.second.min(initial=0)) >= -FURTHEST_S
        and (lag_us is None or bool((lag_us <= lines.time_us).all()))
    ):
        return lines
    fit = (lines.script < len(form.scripts)) & (lines.time_us < LARGEST)
    fit &= np.abs(lines.second) <= FURTHEST_S
    if lag_us is not None:
        fit &= lag_us <= lines.time_us
    return replace(
        lines,
        time_us=lines.time_us[fit],
        script=lines.script[fit],
        second=lines.second[fit],
        ramped=None if lines.ramped is None else lines.ramped[fit],
        lag_us=None if lag_us is None else lag_us[fit],
        retries=None if lines.retries is None else lines.retries[fit],
        cut=None if lines.cut is None else lines.cut[fit],
        damaged=len(fit) - int(np.count_nonzero(fit)),
    )
