"""An HdrHistogram in its compressed V2 encoding as counts, whatever its precision.

Source: HdrHistogram (Java), ``AbstractHistogram.decodeFromCompressedByteBuffer`` and
``valueFromIndex``; ZigZag LEB128 of at most 9 bytes, a negative number stands for so many zeros.
"""

import base64
import binascii
import math
import struct
import zlib
from collections.abc import Iterator
from typing import Final

from steelyard.engines.redis.printed import Step

_V2: Final = 0x1C849313
_V2_COMPRESSED: Final = 0x1C849314
_OUTER: Final = struct.Struct(">ii")
_HEADER: Final = struct.Struct(">iiiiqqd")
_MOST_BYTES: Final = 64 << 20  # a guess: far above what 5 digits over an hour take
_MOST_DIGITS: Final = 5
_LEB_BYTES: Final = 8  # of seven bits; a ninth has eight


def steps_of(text: str) -> tuple[Step, ...]:
    """Return how many values lie at or below the largest value of each used bucket.

    Args:
        text: Base64 of the compressed encoding.

    Raises:
        ValueError: It is none.
    """
    payload, digits, lowest = _unpacked(text)
    largest = 2 * 10**digits
    half_bits = max(math.ceil(math.log2(largest)), 1) - 1
    unit_bits = int(math.log2(lowest))
    steps, total, place = [], 0, 0
    for number in _numbers(payload):
        if number < 0:
            place -= number
            continue
        if number:
            total += number
            steps.append(Step(latency_us=_top(place, half_bits, unit_bits), requests=total))
        place += 1
    return tuple(steps)


def _unpacked(text: str) -> tuple[bytes, int, int]:
    """Return the counters, the number of significant digits and the lowest value told apart."""
    try:
        packed = base64.b64decode(text, validate=True)
        cookie, length = _OUTER.unpack_from(packed)
        inflating = zlib.decompressobj()
        plain = inflating.decompress(packed[_OUTER.size : _OUTER.size + length], _MOST_BYTES)
        inner, payload_length, offset, digits, lowest, _, _ = _HEADER.unpack_from(plain)
    except (binascii.Error, struct.error, zlib.error) as error:
        raise ValueError(f"no compressed HdrHistogram: {error}") from error
    known = (cookie, inner) == (_V2_COMPRESSED, _V2) and offset == 0
    if not known or not 0 <= digits <= _MOST_DIGITS or lowest < 1:
        raise ValueError("no HdrHistogram of encoding V2")
    payload = plain[_HEADER.size : _HEADER.size + payload_length]
    if len(payload) != payload_length:
        raise ValueError("an HdrHistogram that is cut off")
    return payload, digits, lowest


def _numbers(payload: bytes) -> Iterator[int]:
    value = shift = count = 0
    for byte in payload:
        if count == _LEB_BYTES:
            value |= byte << shift
        else:
            value |= (byte & 0x7F) << shift
            if byte & 0x80:
                shift, count = shift + 7, count + 1
                continue
        yield (value >> 1) ^ -(value & 1)
        value = shift = count = 0
    if count:
        raise ValueError("an HdrHistogram whose last number is cut off")


def _top(place: int, half_bits: int, unit_bits: int) -> int:
    """Return the largest value that counts in a bucket."""
    bucket, within = (place >> half_bits) - 1, place & ((1 << half_bits) - 1)
    if bucket < 0:
        bucket = 0
    else:
        within += 1 << half_bits
    bits = bucket + unit_bits
    if bits > 52:
        raise ValueError("an HdrHistogram with more counters than it has values")
    return ((within + 1) << bits) - 1
