"""Logs of single runs, whoever ran them: percentiles and sums, as a document, as values, as .hlog.

One run is no experiment: nothing here knows how far a repetition would differ.

The buckets of histograms are those of an HdrHistogram with unit 1 and two significant digits, so
that every counter is handed over as it is. A latency of 0 us was counted as 1 us. All histograms
have the same settings, because tools add only those that have: the highest value is that of the
last bucket.

Source: HdrHistogram (Java), ``AbstractHistogram.encodeIntoCompressedByteBuffer``, V2 encoding,
``ZigZagEncoding`` (LEB128 of at most 9 bytes) and ``HistogramLogWriter``, log format 1.2.
"""

import base64
import math
import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np

from steelyard.answers.latency.compute import tail_points
from steelyard.answers.latency.results import (
    MAXIMUM,
    SHARES,
    Basis,
    PercentileLevel,
    TailPoint,
    Timed,
    histogram_of_run,
    percentile_name,
)
from steelyard.answers.latency.section import (
    CLOSED_LOOP,
    OPEN_LOOP,
    TAIL_CAPTION,
    TAIL_COLUMNS,
    TITLE,
    level_text,
    tail_values,
)
from steelyard.core.findings import Estimate
from steelyard.core.measurement import LoggedInterval, RunLatency, Spread
from steelyard.core.target import POSTGRES_WORDS
from steelyard.core.wording import MS_PER_S, US_PER_S
from steelyard.report.document import (
    FORMAT,
    MISSING,
    Block,
    ChartKind,
    Column,
    Document,
    Figure,
    Json,
    Paragraph,
    Row,
    Section,
    Table,
    Tone,
    count,
    enumeration,
    filled,
    milliseconds,
    number,
    number_column,
    rate,
    table_of,
    utc,
)
from steelyard.stats.histogram import LARGEST, Histogram, bucket_bounds, from_text, values_needed

_FIRST = 0.01
_NONE_LAGGED = Spread(mean_s=0.0, stddev_s=0.0, least_s=0.0, longest_s=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedGroup:
    """The logs of one run: of its threads, or of generators that were started together.

    Attributes:
        files: How many.
        open_loop: The run had a rate, and latency counts from the scheduled start.
        tells_retries: The log has a column for them.
        started_at: When its first transaction was due, seconds since the epoch.
        ramp_s: What ended before ``started_at + ramp_s`` is left out.
        seconds: From the end of the ramp to the last end of a transaction.
        latency: Every transaction after the ramp.
        damaged: Lines that were not understood.
        truncated: Files whose last line has no end.
        empty: Files without a line.
    """

    name: str
    files: int
    open_loop: bool
    tells_retries: bool
    started_at: float
    ramp_s: float
    seconds: float
    latency: RunLatency
    damaged: int = 0
    truncated: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()

    @property
    def whole(self) -> Histogram:
        """Return the latencies of all scripts together."""
        return histogram_of_run(self.latency)

    @property
    def transactions(self) -> int:
        """Return how many succeeded after the ramp."""
        return self.whole.total

    @property
    def failed(self) -> int:
        """Return how many failed after the ramp, of any kind."""
        return sum(self.latency.failed.values())

    @property
    def achieved_per_s(self) -> float | None:
        """Return transactions per second; None where the log ends with the ramp."""
        return self.transactions / self.seconds if self.seconds > 0.0 else None

    @property
    def tail(self) -> tuple[TailPoint, ...]:
        """Return the distribution function of all scripts together, without its first hundredth.

        pgbench logs single transactions as 0 us, which would stretch a logarithmic axis.
        """
        whole = self.whole
        first_s = whole.quantile(_FIRST) / US_PER_S if whole.total else 0.0
        points = tail_points(whole)
        return (
            *(replace(each, share=_FIRST, latency_s=first_s) for each in points[:1]),
            *points[1:],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregatedGroup:
    """Aggregated logs of one run.

    Attributes:
        intervals: Its threads together, by start.
    """

    name: str
    files: int
    intervals: tuple[LoggedInterval, ...]
    damaged: int = 0
    truncated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedTimes:
    """The percentiles of one time of one script of one run.

    Attributes:
        script: Empty for all together.
        percentiles: Without intervals.
    """

    group: str
    timed: Timed
    script: str
    transactions: int
    percentiles: tuple[PercentileLevel, ...]


def logged_times(groups: Iterable[LoggedGroup]) -> tuple[LoggedTimes, ...]:
    """Return what to tell of some runs, the same of all beside each other."""
    found = [times for group in groups for times in _of_group(group)]
    order = {key: None for times in found for key in [(times.script, times.timed)]}
    return tuple(times for key in order for times in found if (times.script, times.timed) == key)


def _of_group(group: LoggedGroup) -> Iterator[LoggedTimes]:
    latency = group.latency
    longest = [each.longest_s for each in latency.scripts if each.longest_s is not None]
    yield _times(group, Timed.LATENCY, group.whole, longest_s=max(longest, default=None))
    for timed, text in ((Timed.LAG, latency.lag), (Timed.SERVICE, latency.service)):
        if group.open_loop:
            yield _times(group, timed, from_text(text))
    if len(latency.scripts) > 1:
        for each in latency.scripts:
            counted = from_text(each.latency)
            yield _times(
                group, Timed.LATENCY, counted, longest_s=each.longest_s, script=each.script
            )


def _times(
    group: LoggedGroup,
    timed: Timed,
    counted: Histogram,
    *,
    longest_s: float | None = None,
    script: str = "",
) -> LoggedTimes:
    """Return the percentiles; the longest is known exactly, or as exactly as its bucket."""
    if longest_s is None and counted.total:
        longest_s = counted.quantile(MAXIMUM) / US_PER_S
    longest = PercentileLevel(
        share=MAXIMUM,
        basis=Basis.TOO_FEW if longest_s is None else Basis.LONGEST,
        value_s=None if longest_s is None else Estimate(value=longest_s),
        there=counted.total,
        needed=1,
    )
    return LoggedTimes(
        group=group.name,
        timed=timed,
        script=script,
        transactions=counted.total,
        percentiles=(*(_percentile(counted, share) for share in SHARES), longest),
    )


def _percentile(counted: Histogram, share: float) -> PercentileLevel:
    told = counted.tells(share)
    return PercentileLevel(
        share=share,
        basis=Basis.ONE_RUN if told else Basis.TOO_FEW,
        value_s=Estimate(value=counted.quantile(share) / US_PER_S) if told else None,
        there=counted.total,
        needed=values_needed(share),
        reason="" if told else Basis.TOO_FEW.value,
    )


def intervals_together(intervals: Iterable[LoggedInterval]) -> tuple[LoggedInterval, ...]:
    """Return the intervals of several threads by their start: sums add up, extremes are kept."""
    found: dict[int, list[LoggedInterval]] = {}
    for each in intervals:
        found.setdefault(each.start_s, []).append(each)
    return tuple(_together(found[start]) for start in sorted(found))


def _together(parts: list[LoggedInterval]) -> LoggedInterval:
    return LoggedInterval(
        start_s=parts[0].start_s,
        transactions=sum(part.transactions for part in parts),
        latency=_logged_spread([(part.transactions, part.latency) for part in parts]),
        lag=_logged_spread([(part.transactions, part.lag) for part in parts]),
        skipped=sum(part.skipped for part in parts),
        retried=sum(part.retried for part in parts),
        retries=sum(part.retries for part in parts),
        serialization_failures=sum(part.serialization_failures for part in parts),
        deadlock_failures=sum(part.deadlock_failures for part in parts),
    )


def _logged_spread(parts: list[tuple[int, Spread | None]]) -> Spread | None:
    """Return mean, deviation and extremes of all values of the parts; None without any.

    A part of transactions without a spread beside one that has it is all 0: nothing lagged.
    """
    if all(spread is None for _, spread in parts):
        return None
    known = [(number, spread or _NONE_LAGGED) for number, spread in parts if number]
    total = sum(number for number, _ in known)
    mean_s = sum(number * spread.mean_s for number, spread in known) / total
    variance = (
        sum(
            number * (spread.stddev_s**2 + (spread.mean_s - mean_s) ** 2)
            for number, spread in known
        )
        / total
    )
    return Spread(
        mean_s=mean_s,
        stddev_s=math.sqrt(variance),
        least_s=min(spread.least_s for _, spread in known),
        longest_s=max(spread.longest_s for _, spread in known),
    )


NO_INTERVALS = (
    "Each is a single run: there are no intervals, and nothing says how far a repetition would"
    " differ. `steelyard run` takes runs in interleaved blocks and gives intervals."
)
NO_PERCENTILES = (
    "Aggregated logs (--aggregate-interval) hold sums by interval: means and extremes, and no"
    " percentile can be had from them. Without that option pgbench logs every transaction."
)
_NOTE = (
    "Within 0.4 % of the transactions' own; max is exact but for lag and service time. A percentile"
    " takes 10 / (1 - q) transactions, 1,000 for p99; with fewer the brackets say how many there"
    " are of how many it takes."
)
_RUN_NOTE = (
    "Seconds count from the end of the ramp to the last transaction; the run begins when its first"
    " transaction was due. Rates count what succeeded, as logged."
)
_SPARE = (0.9, 0.95)


def logged_document(
    groups: Sequence[LoggedGroup], aggregated: Sequence[AggregatedGroup]
) -> Document:
    """Return what the logs of some runs say."""
    blocks = [*_transactions(groups), *_intervals(aggregated)]
    every: list[LoggedGroup | AggregatedGroup] = [*groups, *aggregated]
    names = tuple(group.name for group in every)
    files = sum(group.files for group in every)
    document = Document(
        title="Latency of single runs",
        subtitle=f"{enumeration(names)} · {count(files, 'log file')}",
        sections=(Section(anchor="latency", title=TITLE, blocks=tuple(blocks)),),
    )
    return filled(document, POSTGRES_WORDS)


def _transactions(groups: Sequence[LoggedGroup]) -> Iterator[Block]:
    if not groups:
        return
    yield Paragraph(text=NO_INTERVALS)
    kinds = {group.open_loop for group in groups}
    yield Paragraph(text=" ".join(text for text in _loops(kinds)))
    yield from (Paragraph(text=text, tone=Tone.WARNING) for text in _warnings(groups))
    yield _runs(groups)
    yield _levels(logged_times(groups), groups)
    yield tail_figure(groups)


def _loops(kinds: set[bool]) -> Iterator[str]:
    if False in kinds:
        yield CLOSED_LOOP
    if True in kinds:
        yield OPEN_LOOP


def _warnings(groups: Sequence[LoggedGroup | AggregatedGroup]) -> Iterator[str]:
    for group in groups:
        if group.damaged:
            yield f"{group.name}: {count(group.damaged, 'line')} could not be understood."
        if group.truncated:
            yield (
                f"{group.name}: {enumeration(group.truncated)} ends inside a line, which is not"
                " counted: its pgbench was killed, or writes still."
            )
        if isinstance(group, LoggedGroup) and group.empty:
            yield f"{group.name}: {enumeration(group.empty)} is empty."


def _runs(groups: Sequence[LoggedGroup]) -> Table:
    return table_of(
        groups,
        ("run", lambda group: group.name),
        ("loop", lambda group: "open" if group.open_loop else "closed"),
        (Column(name="began", spare=True), lambda group: utc(group.started_at)),
        (
            number_column("time", "s"),
            lambda group: f"{group.seconds:,.{1 if group.seconds >= 10 else 2}f}",
        ),
        (number_column("transactions"), lambda group: f"{group.transactions:,}"),
        (number_column("achieved", "1/s"), lambda group: rate(group.achieved_per_s)),
        (
            number_column("skipped"),
            lambda group: f"{group.latency.skipped:,}" if group.open_loop else MISSING,
        ),
        (number_column("failed"), _failed),
        (
            number_column("retried"),
            lambda group: f"{group.latency.retried:,}" if group.tells_retries else MISSING,
        ),
        (
            number_column("retries", spare=True),
            lambda group: f"{group.latency.retries:,}" if group.tells_retries else MISSING,
        ),
        title="Runs",
        note=_RUN_NOTE,
    )


def _failed(group: LoggedGroup) -> str:
    """Return how many failed, by kind where the log tells."""
    kinds = group.latency.failed
    if set(kinds) <= {"failed"}:
        return f"{group.failed:,}"
    return ", ".join(f"{number:,} {kind}" for kind, number in kinds.items())


def _levels(found: Sequence[LoggedTimes], groups: Sequence[LoggedGroup]) -> Table:
    scripts = any(times.script for times in found)
    columns = (
        *((Column(name="script"),) if scripts else ()),
        Column(name="of"),
        Column(name="run"),
        number_column("transactions", spare=True),
        *(number_column(percentile_name(s), "ms", spare=s in _SPARE) for s in SHARES),
        number_column("max", "ms"),
    )
    rows = tuple(
        Row(
            cells=(
                *((times.script or "all",) if scripts else ()),
                times.timed.value,
                times.group,
                f"{times.transactions:,}",
                *(level_text(level) for level in times.percentiles),
            )
        )
        for times in found
    )
    title = "Percentiles, side by side" if len(groups) > 1 else "Percentiles"
    return Table(title=title, columns=columns, rows=rows, note=_NOTE)


def tail_figure(groups: Sequence[LoggedGroup]) -> Figure:
    """Return the distributions of some runs to their tails, in one chart."""
    names = tuple(group.name for group in groups)
    loops = enumeration(tuple(dict.fromkeys(_loop(group) for group in groups)))
    rows = tuple(
        ("all scripts", loops, group.name, *values)
        for group in groups
        for values in tail_values(group.tail)
    )
    return Figure(
        identity="latency-tail",
        kind=ChartKind.LATENCY_TAIL,
        title="Distribution of latency, to its tail",
        caption=f"The share of all transactions that are not slower; {TAIL_CAPTION}",
        alt=f"Cumulative distribution of latency of {enumeration(names)}, from the fastest"
        " hundredth to the tail; the table of percentiles has the numbers.",
        columns=TAIL_COLUMNS,
        rows=rows,
        configurations=names,
    )


def _loop(group: LoggedGroup) -> str:
    return "open loop" if group.open_loop else "closed loop"


# --- aggregated logs ---


def _intervals(groups: Sequence[AggregatedGroup]) -> Iterator[Block]:
    if not groups:
        return
    yield Paragraph(text=NO_PERCENTILES, tone=Tone.WARNING)
    yield from (Paragraph(text=text, tone=Tone.WARNING) for text in _warnings(groups))
    columns = (
        Column(name="run"),
        number_column("from", "s"),
        number_column("transactions"),
        *(number_column(name, "ms", spare=name == "min") for name in ("mean", "min", "max")),
        *(number_column(name, "ms", spare=True) for name in ("lag mean", "lag max")),
        *(number_column(name) for name in ("skipped", "failed", "retried")),
    )
    rows = tuple(_interval_row(group, each) for group in groups for each in group.intervals)
    yield Table(
        title="Intervals",
        columns=columns,
        rows=rows,
        note="All threads together, from the first interval on. pgbench writes 0 for what its"
        " options did not ask for: failures, retries, skipped transactions.",
    )


def _interval_row(group: AggregatedGroup, each: LoggedInterval) -> Row:
    return Row(
        cells=(
            group.name,
            f"{each.start_s - group.intervals[0].start_s:,}",
            f"{each.transactions:,}",
            *_spread(each.latency, ("mean_s", "least_s", "longest_s")),
            *_spread(each.lag, ("mean_s", "longest_s")),
            f"{each.skipped:,}",
            f"{each.serialization_failures + each.deadlock_failures:,}",
            f"{each.retried:,}",
        )
    )


def _spread(found: Spread | None, names: Sequence[str]) -> Iterator[str]:
    return (milliseconds(None if found is None else getattr(found, name)) for name in names)


# --- for programs ---


def logged_json(
    groups: Sequence[LoggedGroup], aggregated: Sequence[AggregatedGroup]
) -> dict[str, Json]:
    """Return the same for programs."""
    times = logged_times(groups)
    return {
        "format": FORMAT,
        "intervals": None,
        "no_intervals_because": "single runs: `steelyard run` gives intervals",
        "runs": [_run_json(group, times) for group in groups],
        "aggregated": [_aggregated_json(group) for group in aggregated],
    }


def _run_json(group: LoggedGroup, times: Sequence[LoggedTimes]) -> dict[str, Json]:
    latency = group.latency
    return {
        "name": group.name,
        "files": group.files,
        "open_loop": group.open_loop,
        "started_at": number(group.started_at),
        "ramp_s": number(group.ramp_s),
        "seconds": number(group.seconds),
        "transactions": group.transactions,
        "achieved_per_s": number(group.achieved_per_s),
        "skipped": latency.skipped if group.open_loop else None,
        "failed": {**latency.failed},
        "retried": latency.retried if group.tells_retries else None,
        "retries": latency.retries if group.tells_retries else None,
        "damaged_lines": group.damaged,
        "truncated_files": [*group.truncated],
        "empty_files": [*group.empty],
        "percentiles": [_times_json(each) for each in times if each.group == group.name],
    }


def _times_json(times: LoggedTimes) -> dict[str, Json]:
    levels = times.percentiles
    return {
        "of": times.timed.value,
        "script": times.script or None,
        "transactions": times.transactions,
        "seconds": {
            percentile_name(level.share): None
            if level.value_s is None
            else number(level.value_s.value)
            for level in levels
        },
        "needed": {percentile_name(level.share): level.needed for level in levels},
    }


def _aggregated_json(group: AggregatedGroup) -> dict[str, Json]:
    return {
        "name": group.name,
        "files": group.files,
        "percentiles": None,
        "damaged_lines": group.damaged,
        "truncated_files": [*group.truncated],
        "intervals": [
            {
                "start_s": each.start_s,
                "transactions": each.transactions,
                "latency": _spread_json(each.latency),
                "lag": _spread_json(each.lag),
                "skipped": each.skipped,
                "retried": each.retried,
                "retries": each.retries,
                "serialization_failures": each.serialization_failures,
                "deadlock_failures": each.deadlock_failures,
            }
            for each in group.intervals
        ],
    }


def _spread_json(found: Spread | None) -> dict[str, Json] | None:
    if found is None:
        return None
    return {
        "mean_s": number(found.mean_s),
        "stddev_s": number(found.stddev_s),
        "least_s": number(found.least_s),
        "longest_s": number(found.longest_s),
    }


_V2, _V2_COMPRESSED = 0x1C849313, 0x1C849314
_DIGITS, _LOWEST, _HIGHEST = 2, 1, LARGEST - 1
_HEADER = struct.Struct(">iiiiqqd")
_OUTER = struct.Struct(">ii")
_LEB_BYTES = 8  # of seven bits; a ninth has eight
_NOT_IN_A_TAG = re.compile(r"[\s,]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class HdrInterval:
    """The transactions that ended in a short time.

    Attributes:
        tag: Of which script, and of whose run.
        start_s: Since the epoch.
        seconds: Length.
        histogram: Microseconds.
    """

    tag: str
    start_s: float
    seconds: float
    histogram: Histogram


def hdr_log(intervals: Iterable[HdrInterval], *, started_at: float) -> Iterator[str]:
    """Yield the lines of a log, each with its end.

    Args:
        intervals: In the order of their starts, as readers expect.
        started_at: Since the epoch; the times of the lines count from here.
    """
    yield "#[Latencies of pgbench transactions in microseconds; Interval_Max in milliseconds]\n"
    yield "#[Histogram log format version 1.2]\n"
    moment = datetime.fromtimestamp(started_at, tz=UTC).isoformat(" ", "milliseconds")
    yield f"#[StartTime: {started_at:.3f} (seconds since epoch), {moment}]\n"
    yield f"#[BaseTime: {started_at:.3f} (seconds since epoch)]\n"
    yield '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"\n'
    for each in intervals:
        begin = max(each.start_s - started_at, 0.0)
        longest_ms = _largest(each.histogram) * MS_PER_S / US_PER_S
        tag = _NOT_IN_A_TAG.sub("_", each.tag)
        text = encoded(each.histogram).decode("ascii")
        yield f"Tag={tag},{begin:.3f},{each.seconds:.3f},{longest_ms:.3f},{text}\n"


def encoded(histogram: Histogram) -> bytes:
    """Return a histogram in HdrHistogram's compressed V2 encoding, in base64."""
    counts = histogram.counts
    used = np.flatnonzero(counts)
    numbers = counts[: int(used[-1]) + 1].tolist() if len(used) else []
    payload = b"".join(map(_zigzag, _with_zeros_counted(numbers)))
    header = _HEADER.pack(_V2, len(payload), 0, _DIGITS, _LOWEST, _HIGHEST, 1.0)
    packed = zlib.compress(header + payload)
    return base64.b64encode(_OUTER.pack(_V2_COMPRESSED, len(packed)) + packed)


def _largest(histogram: Histogram) -> int:
    """Return the largest value that the last used bucket can hold, 0 of none."""
    used = np.flatnonzero(histogram.counts)
    return int(bucket_bounds(used[-1:])[1][0]) if len(used) else 0


def _with_zeros_counted(numbers: list[int]) -> Iterator[int]:
    """Yield the counters; several zeros in a row become their number, negative."""
    zeros = 0
    for each in numbers:
        if not each:
            zeros += 1
            continue
        if zeros:
            yield -zeros if zeros > 1 else 0
            zeros = 0
        yield each


def _zigzag(number: int) -> bytes:
    """Return a signed number of 64 bits: seven bits to a byte, the lowest first."""
    rest = (number << 1) ^ (number >> 63)
    written = bytearray()
    while rest > 0x7F and len(written) < _LEB_BYTES:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    written.append(rest)
    return bytes(written)
