"""Sizes as Redis writes them."""

import re
from typing import Final

# redis.conf: "1k => 1000 bytes, 1kb => 1024 bytes", and so on; case does not matter.
_BYTES: Final = {
    "": 1,
    "b": 1,
    "k": 1000,
    "kb": 1024,
    "m": 1000**2,
    "mb": 1024**2,
    "g": 1000**3,
    "gb": 1024**3,
}
_SIZE: Final = re.compile(r"(-?\d+)(b|[kmg]b?)?", re.IGNORECASE)


def in_bytes(text: str) -> int | None:
    """Return the number that a size means; None where the text is none."""
    match = _SIZE.fullmatch(text.strip())
    return None if match is None else int(match[1]) * _BYTES[(match[2] or "").lower()]
