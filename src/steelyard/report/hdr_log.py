"""Counts by second as an HdrHistogram log (``.hlog``), which HdrHistogram's own tools read.

Our buckets are those of an HdrHistogram with unit 1 and two significant digits, so that every
counter is handed over as it is. A latency of 0 us was counted as 1 us. All histograms have the same
settings, because tools add only those that have: the highest value is that of our last bucket.

Source: HdrHistogram (Java), ``AbstractHistogram.encodeIntoCompressedByteBuffer``, V2 encoding,
``ZigZagEncoding`` (LEB128 of at most 9 bytes) and ``HistogramLogWriter``, log format 1.2.
"""

import base64
import re
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from steelyard.model.units import MS_PER_S, US_PER_S
from steelyard.stats.histogram import LARGEST, Histogram, bucket_bounds

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
    payload = b"".join(map(_zigzag, _runs(numbers)))
    header = _HEADER.pack(_V2, len(payload), 0, _DIGITS, _LOWEST, _HIGHEST, 1.0)
    packed = zlib.compress(header + payload)
    return base64.b64encode(_OUTER.pack(_V2_COMPRESSED, len(packed)) + packed)


def _largest(histogram: Histogram) -> int:
    """Return the largest value that the last used bucket can hold, 0 of none."""
    used = np.flatnonzero(histogram.counts)
    return int(bucket_bounds(used[-1:])[1][0]) if len(used) else 0


def _runs(numbers: list[int]) -> Iterator[int]:
    """Yield the counters; several zeros in a row become their number, negative."""
    zeros = 0
    for number in numbers:
        if not number:
            zeros += 1
            continue
        if zeros:
            yield -zeros if zeros > 1 else 0
            zeros = 0
        yield number


def _zigzag(number: int) -> bytes:
    """Return a signed number of 64 bits: seven bits to a byte, the lowest first."""
    rest = (number << 1) ^ (number >> 63)
    written = bytearray()
    while rest > 0x7F and len(written) < _LEB_BYTES:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    written.append(rest)
    return bytes(written)
