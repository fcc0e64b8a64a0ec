"""Whole lines of a transaction log as arrays.

Almost all lines hold nothing but digits and single spaces. Their fields are found and turned into
numbers for a whole block at once, eight digits in one 64-bit word; what is not of this kind (a
word for the time, a damaged line) is read one by one. Both ways understand the same lines.
"""

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from steelyard.engines.postgres.log_form import LogForm
from steelyard.stats.histogram import LARGEST

IntArray = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]

LONGEST_LINE = 256  # bytes; pgbench's are below 120
_PAD = b"0" * 16  # before a block, so that words can be loaded that end in its first field
_NEWLINE, _SPACE, _ZERO, _NINE = b"\n "[0], b"\n "[1], b"09"[0], b"09"[1]
_TIME, _SCRIPT, _EPOCH, _US = 2, 3, 4, 5
_MOST_DIGITS = {_TIME: 16, _SCRIPT: 4, _EPOCH: 10, _US: 6}
_LAG_DIGITS, _RETRY_DIGITS = 16, 10
_WORD = re.compile(rb"[a-z][a-z_-]{0,31}")
_US_PER_S = 1_000_000
FURTHEST_US = 31 * 86_400 * _US_PER_S  # a guess: no run is longer, so the clock was not the run's


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsuccessful:
    """A transaction without a latency.

    Attributes:
        word: What stands for the time: ``skipped``, ``failed``, ``serialization``, ``deadlock``.
        script: Number of the script.
        ended_us: When it was logged, microseconds since the epoch.
        retries: Further tries; 0 where they are not logged.
    """

    word: str
    script: int
    ended_us: int
    retries: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lines:
    """The transactions of a block of lines, in no particular order.

    Attributes:
        time_us: Shape (n,), latencies; under a rate from the scheduled start.
        script: Shape (n,), numbers of scripts.
        ended_us: Shape (n,), microseconds since the epoch.
        lag_us: Shape (n,), from the scheduled start to the start; None in a closed loop.
        retries: Shape (n,); None where they are not logged.
        unsuccessful: All others.
        damaged: Lines that are none of pgbench's.
    """

    time_us: IntArray
    script: IntArray
    ended_us: IntArray
    lag_us: IntArray | None
    retries: IntArray | None
    unsuccessful: tuple[Unsuccessful, ...]
    damaged: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Fields:
    """Where the fields of regular lines are: shape (n, columns), ends and widths."""

    ends: IntArray
    widths: IntArray


def parse_lines(block: bytes, form: LogForm) -> Lines:
    """Return the transactions of whole lines, each with its newline."""
    padded = _PAD + block
    fields, odd = _split(padded, form)
    regular = _regular(padded, fields, form)
    parsed = [_one(line, form) for line in odd]
    rows = [row for row in parsed if isinstance(row, tuple)]
    lines = _joined(regular, np.array(rows, dtype=np.int64).reshape(-1, 5), form)
    fit = lines.script < len(form.scripts)
    fit &= lines.time_us < LARGEST
    if lines.lag_us is not None:
        fit &= lines.lag_us <= lines.time_us
    return _kept(
        lines,
        fit,
        unsuccessful=tuple(row for row in parsed if isinstance(row, Unsuccessful)),
        damaged=sum(row is None for row in parsed),
    )


def within_reach(lines: Lines, started_us: int) -> Lines:
    """Return the lines that ended within a month of the start; others are damaged.

    A single wild time stamp would make millions of empty seconds.
    """
    fit = np.abs(lines.ended_us - started_us) <= FURTHEST_US
    near = [u for u in lines.unsuccessful if abs(u.ended_us - started_us) <= FURTHEST_US]
    far = len(lines.unsuccessful) - len(near)
    return _kept(lines, fit, unsuccessful=tuple(near), damaged=lines.damaged + far)


def _split(padded: bytes, form: LogForm) -> tuple[_Fields, list[bytes]]:
    """Return the fields of all regular lines, and all other lines."""
    content = np.frombuffer(padded, np.uint8)
    columns = form.columns
    ends = np.flatnonzero(content < _ZERO)
    odd: list[bytes] = []
    starts = np.concatenate(([len(_PAD)], ends[:-1] + 1))
    if not _all_regular(content, ends, columns):
        chosen, odd = _sorted_out(padded, content, ends, columns)
        ends, starts = ends[chosen], starts[chosen]
    fields = _Fields(ends=ends.reshape(-1, columns), widths=(ends - starts).reshape(-1, columns))
    good = _fitting(fields, starts, form)
    if good is None:
        return fields, odd
    firsts = starts.reshape(-1, columns)[:, 0]
    odd += [
        padded[first:last]
        for first, last in zip(firsts[~good].tolist(), fields.ends[~good, -1].tolist(), strict=True)
    ]
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
) -> tuple[npt.NDArray[np.bool_], list[bytes]]:
    """Return which field ends belong to regular lines, and the lines that are not regular."""
    newlines = np.flatnonzero(content == _NEWLINE)
    firsts = np.concatenate(([len(_PAD)], newlines[:-1] + 1))
    places = np.searchsorted(newlines, ends)
    irregular = np.bincount(places, minlength=len(newlines)) != columns
    letters = (content > _NINE) | ((content < _ZERO) & (content != _SPACE) & (content != _NEWLINE))
    irregular[np.searchsorted(newlines, np.flatnonzero(letters))] = True
    spans = zip(firsts[irregular].tolist(), newlines[irregular].tolist(), strict=True)
    return ~irregular[places], [padded[first:last] for first, last in spans]


def _fitting(fields: _Fields, starts: IntArray, form: LogForm) -> npt.NDArray[np.bool_] | None:
    """Return which lines have fields of the right widths; None: all."""
    widths = fields.widths
    if not len(widths):
        return None
    most = {**_MOST_DIGITS, **_further_digits(form)}
    lengths = fields.ends[:, -1] - starts.reshape(-1, form.columns)[:, 0]
    if (
        int(widths.min()) > 0
        and int(lengths.max()) <= LONGEST_LINE
        and int(widths[:, _EPOCH].min()) == most[_EPOCH]
        and all(int(widths[:, column].max()) <= digits for column, digits in most.items())
    ):
        return None
    good = (widths > 0).all(axis=1) & (lengths <= LONGEST_LINE)
    good &= widths[:, _EPOCH] == most[_EPOCH]
    for column, digits in most.items():
        good &= widths[:, column] <= digits
    return good


def _further_digits(form: LogForm) -> dict[int, int]:
    """Return the most digits of the columns that not every log has."""
    lag = {_US + 1: _LAG_DIGITS} if form.open_loop else {}
    return lag | ({form.columns - 1: _RETRY_DIGITS} if form.retries else {})


def _regular(padded: bytes, fields: _Fields, form: LogForm) -> Lines:
    """Return the numbers of regular lines."""

    def column(number: int) -> IntArray:
        return _numbers(padded, fields.ends[:, number], fields.widths[:, number])

    return Lines(
        time_us=column(_TIME),
        script=column(_SCRIPT),
        ended_us=column(_EPOCH) * _US_PER_S + column(_US),
        lag_us=column(_US + 1) if form.open_loop else None,
        retries=column(form.columns - 1) if form.retries else None,
        unsuccessful=(),
        damaged=0,
    )


def _numbers(padded: bytes, ends: IntArray, widths: IntArray) -> IntArray:
    """Return the numbers of at most 16 digits that end there.

    Neighbouring digits are added up in pairs, then fours, then eights, within a 64-bit word whose
    lowest byte is the first digit; digits before the field are pushed out by the shifts.
    """
    anywhere = np.ndarray((len(padded) - 7,), "V8", padded, 0, (1,))
    word = anywhere[ends - 8].view("<u8")
    foreign = (np.maximum(8 - widths, 0) * 8).astype(np.uint64)
    word >>= foreign
    word <<= foreign
    word &= np.uint64(0x0F0F0F0F0F0F0F0F)
    word *= np.uint64(10 * 2**8 + 1)
    word >>= np.uint64(8)
    word &= np.uint64(0x00FF00FF00FF00FF)
    word *= np.uint64(100 * 2**16 + 1)
    word >>= np.uint64(16)
    word &= np.uint64(0x0000FFFF0000FFFF)
    word *= np.uint64(10_000 * 2**32 + 1)
    word >>= np.uint64(32)
    values = word.view(np.int64)
    wide = np.flatnonzero(widths > 8)
    if len(wide):
        values[wide] += 10**8 * _numbers(padded, ends[wide] - 8, widths[wide] - 8)
    return values


def _one(line: bytes, form: LogForm) -> tuple[int, ...] | Unsuccessful | None:
    """Return what one line says: time, script, end, lag and retries; None: it is no such line."""
    fields = line.split(b" ")
    if len(fields) != form.columns or len(line) > LONGEST_LINE:
        return None
    time, others = fields[_TIME], (*fields[:_TIME], *fields[_TIME + 1 :])
    most = {**_MOST_DIGITS, **_further_digits(form), _TIME: 32}
    if (
        not all(field.isdigit() for field in others)
        or any(len(fields[column]) > digits for column, digits in most.items())
        or len(fields[_EPOCH]) != most[_EPOCH]
    ):
        return None
    script, retries = int(fields[_SCRIPT]), int(fields[-1]) if form.retries else 0
    ended_us = int(fields[_EPOCH]) * _US_PER_S + int(fields[_US])
    if time.isdigit() and len(time) <= _MOST_DIGITS[_TIME]:
        lag = int(fields[_US + 1]) if form.open_loop else 0
        return int(time), script, ended_us, lag, retries
    if _WORD.fullmatch(time) is None or script >= len(form.scripts):
        return None
    return Unsuccessful(word=time.decode(), script=script, ended_us=ended_us, retries=retries)


def _joined(lines: Lines, rows: IntArray, form: LogForm) -> Lines:
    """Return the transactions of regular lines and of those that were read one by one."""
    if not len(rows):
        return lines

    def with_column(values: IntArray | None, number: int) -> IntArray | None:
        return None if values is None else np.concatenate((values, rows[:, number]))

    return Lines(
        time_us=np.concatenate((lines.time_us, rows[:, 0])),
        script=np.concatenate((lines.script, rows[:, 1])),
        ended_us=np.concatenate((lines.ended_us, rows[:, 2])),
        lag_us=with_column(lines.lag_us, 3) if form.open_loop else None,
        retries=with_column(lines.retries, 4) if form.retries else None,
        unsuccessful=(),
        damaged=0,
    )


def _kept(
    lines: Lines,
    fit: npt.NDArray[np.bool_],
    *,
    unsuccessful: tuple[Unsuccessful, ...],
    damaged: int,
) -> Lines:
    """Return the lines whose numbers fit together; the others are damaged."""
    unfit = int(len(fit) - np.count_nonzero(fit))

    def kept(values: IntArray) -> IntArray:
        return values[fit] if unfit else values

    return Lines(
        time_us=kept(lines.time_us),
        script=kept(lines.script),
        ended_us=kept(lines.ended_us),
        lag_us=None if lines.lag_us is None else kept(lines.lag_us),
        retries=None if lines.retries is None else kept(lines.retries),
        unsuccessful=unsuccessful,
        damaged=damaged + unfit,
    )
