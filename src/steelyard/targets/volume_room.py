"""Whether the volumes of a Cluster have room for what a campaign puts there: data and WAL.

Whether the volume of a Redis server has room for what a campaign puts there.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from steelyard.core.errors import PreflightError
from steelyard.core.experiment import Workload
from steelyard.core.target import CloudNativePgTarget, RedisKubernetesTarget
from steelyard.core.units import GIB, MIB, format_bytes, parse_quantity_bytes
from steelyard.systems.postgres.settings import in_unit
from steelyard.systems.protocol import Dataset
from steelyard.systems.redis.datasets import datasets_of

# Prepared and measured side by side, with what grows in between: a guess.
_COPIES: Final = 2.5
# Beside data: what initdb makes, and WAL of settings that are the server's own; a guess.
_OWN_BYTES: Final = GIB // 4
# WAL grows beyond max_wal_size, which is a soft limit, by what is written during a checkpoint; a
# guess. Source: PostgreSQL 18, section 28.5, WAL Configuration.
_BEYOND: Final = 1.1
_DEFAULT_WAL: Final = "1GB"  # PostgreSQL's own max_wal_size


def require_room(
    target: CloudNativePgTarget, settings: Mapping[str, str], datasets: Sequence[Dataset]
) -> None:
    """Look whether data and WAL have room in the volumes that they are put on.

    WAL beside the data is counted where a treatment sizes it; on a volume of its own always.

    Args:
        target: The Cluster.
        settings: What a treatment asks of PostgreSQL, by name in small letters.
        datasets: All that are prepared.

    Raises:
        PreflightError: A volume is too small.
    """
    data = _OWN_BYTES + int(_COPIES * sum(dataset.expected_bytes for dataset in datasets))
    asked = settings.get("max_wal_size")
    if target.wal_storage is not None:
        wal = _wal_bytes(asked or _DEFAULT_WAL, settings)
        if wal > parse_quantity_bytes(target.wal_storage):
            raise PreflightError(
                f"the volume of {target.wal_storage} for WAL has no room for about"
                f" {format_bytes(wal)}: max_wal_size is {asked or _DEFAULT_WAL}, and a bit more"
                " may be written",
                hint="Make `wal_storage:` larger, or max_wal_size smaller.",
            )
    elif asked is not None:
        data += _wal_bytes(asked, settings)
    if data > parse_quantity_bytes(target.storage):
        wal_too = "" if asked is None or target.wal_storage is not None else ", WAL"
        raise PreflightError(
            f"the volume of {target.storage} has no room for about {format_bytes(data)}: the"
            f" data, their prepared copy{wal_too}, and what grows",
            hint="Make `storage:` larger, or the scale factor"
            f"{' or max_wal_size' if wal_too else ''} smaller.",
        )


def _wal_bytes(most: str, settings: Mapping[str, str]) -> int:
    """Return how much WAL there may be; nothing of a value that the server will refuse."""
    kept = in_unit(settings.get("wal_keep_size", "0"), "MB") or 0.0
    return int(max((in_unit(most, "MB") or 0.0) * _BEYOND, kept) * MIB)


# A dump and an append-only file of all keys, once prepared and once live; then a rewrite of the
# latter beside it, and what a workload appends: a guess.
_COPIES_REDIS_VOLUME_ROOM: Final = 5
_KEY_BYTES: Final = 60  # a key's name and its words in both files; a guess
_OWN_BYTES_REDIS_VOLUME_ROOM: Final = 64 * MIB


def require_redis_room(target: RedisKubernetesTarget, workloads: Sequence[Workload]) -> None:
    """Look whether the prepared keys and what grows beside them have room.

    Raises:
        PreflightError: The volume is too small.
    """
    spaces = [dataset.space for dataset in datasets_of(workloads) if dataset.space is not None]
    keys = sum(space.loaded * (space.value_bytes + _KEY_BYTES) for space in spaces)
    needed = _OWN_BYTES_REDIS_VOLUME_ROOM + _COPIES_REDIS_VOLUME_ROOM * keys
    if needed > parse_quantity_bytes(target.storage):
        raise PreflightError(
            f"the volume of {target.storage} has no room for about {format_bytes(needed)}: dump and"
            " append-only file of the prepared keys, their live copies, and what grows",
            hint="Make `storage:` larger, or load fewer keys or smaller values.",
        )
