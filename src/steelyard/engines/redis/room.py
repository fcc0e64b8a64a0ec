"""How much room a server's append-only file takes while a visit lasts."""

from collections.abc import Mapping
from typing import Final

from steelyard.model.redis_size import in_bytes
from steelyard.model.units import GIB, MIB

_UNBOUNDED: Final = GIB  # a guess: nothing but the length of a visit bounds a file never rewritten
_LEAST_REWRITTEN: Final = 64 * MIB  # auto-aof-rewrite-min-size of redis.conf
_FILES: Final = 2  # the one that grows and the new one, while it is rewritten


def aof_bytes(settings: Mapping[str, str], data: int) -> int:
    """Return about how much the append-only file takes beside the loaded data.

    It is rewritten when it has grown by a share of what it was, and is of a least size.

    Args:
        settings: Asked for, by name in small letters.
        data: Bytes of the loaded data on disk.
    """
    if settings.get("appendonly", "no").lower() != "yes":
        return 0
    share = settings.get("auto-aof-rewrite-percentage", "100")
    if not share.isdigit() or int(share) == 0:
        return _UNBOUNDED
    least = in_bytes(settings.get("auto-aof-rewrite-min-size", "")) or _LEAST_REWRITTEN
    return round(_FILES * max(least, data) * (1.0 + int(share) / 100.0))
