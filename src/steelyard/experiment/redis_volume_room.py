"""Whether the volume of a Redis server has room for what a campaign puts there."""

from collections.abc import Sequence
from typing import Final

from steelyard.engines.redis.datasets import datasets_of
from steelyard.model.errors import PreflightError
from steelyard.model.quantities import parse_quantity_bytes
from steelyard.model.target import RedisKubernetesTarget
from steelyard.model.units import MIB, format_bytes
from steelyard.model.workload import Workload

# A dump and an append-only file of all keys, once prepared and once live; then a rewrite of the
# latter beside it, and what a workload appends: a guess.
_COPIES: Final = 5
_KEY_BYTES: Final = 60  # a key's name and its words in both files; a guess
_OWN_BYTES: Final = 64 * MIB


def require_redis_room(target: RedisKubernetesTarget, workloads: Sequence[Workload]) -> None:
    """Look whether the prepared keys and what grows beside them have room.

    Raises:
        PreflightError: The volume is too small.
    """
    spaces = [dataset.space for dataset in datasets_of(workloads) if dataset.space is not None]
    keys = sum(space.loaded * (space.value_bytes + _KEY_BYTES) for space in spaces)
    needed = _OWN_BYTES + _COPIES * keys
    if needed > parse_quantity_bytes(target.storage):
        raise PreflightError(
            f"the volume of {target.storage} has no room for about {format_bytes(needed)}: dump and"
            " append-only file of the prepared keys, their live copies, and what grows",
            hint="Make `storage:` larger, or load fewer keys or smaller values.",
        )
