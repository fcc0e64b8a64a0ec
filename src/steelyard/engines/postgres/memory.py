"""How much memory a PostgreSQL server may take, by the settings that are asked of it."""

from typing import Final

from steelyard.engines.postgres.settings import as_boolean, in_unit
from steelyard.model.experiment import Treatment
from steelyard.model.units import MIB

_DEFAULT_BUFFERS_BYTES: Final = 128 * MIB
_DEFAULT_WORK_BYTES: Final = 4 * MIB
# What a bare number of each counts: pages, and kilobytes.
_PAGES: Final = ("8kB", 8192)
_KILOBYTES: Final = ("kB", 1024)
# Of a backend beside work_mem, its page tables with it: a guess, on the safe side of the 5 to 8 MB
# that one of pgbench has.
_BACKEND_BYTES: Final = 12 * MIB
# Shared memory beside the buffers: 3 to 5 % of them, and some MB for locks and the WAL: a guess.
_BESIDE: Final = 1.1


def most_bytes(treatment: Treatment, clients: int) -> int:
    """Return about the most that a treatment's server takes under so many clients, in bytes."""
    asked = treatment.asked_folded()
    buffers = _bytes(asked.get("shared_buffers"), unit=_PAGES, default=_DEFAULT_BUFFERS_BYTES)
    work = _bytes(asked.get("work_mem"), unit=_KILOBYTES, default=_DEFAULT_WORK_BYTES)
    return round(_BESIDE * buffers) + clients * (work + _BACKEND_BYTES)


def huge_bytes(treatment: Treatment) -> int:
    """Return about what a treatment's server takes of a pool of huge pages; 0 where it may not."""
    asked = treatment.asked_folded()
    if as_boolean(asked.get("huge_pages", "try")) != "on":
        return 0
    buffers = _bytes(asked.get("shared_buffers"), unit=_PAGES, default=_DEFAULT_BUFFERS_BYTES)
    return round(_BESIDE * buffers)


def may_take_huge_pages(treatment: Treatment) -> bool:
    """Return whether it takes huge pages where there are some, and does without where not."""
    return as_boolean(treatment.asked_folded().get("huge_pages", "try")) not in ("on", "off")


def _bytes(value: str | None, *, unit: tuple[str, int], default: int) -> int:
    name, size = unit
    found = None if value is None else in_unit(value, name)
    return default if found is None else round(found * size)
