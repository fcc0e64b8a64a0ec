"""Whether this machine has the huge pages that treatments insist on.

With ``huge_pages = on`` a server without enough of them does not start; with ``try`` it starts
without them and says nothing, so that a comparison would weigh nothing.
"""

import re

from steelyard.gateways.host import Host
from steelyard.model.errors import InputError, PreflightError
from steelyard.model.experiment import Experiment, Treatment
from steelyard.model.units import KIB, MIB, format_bytes, parse_bytes

_DEFAULT_BUFFERS = "128MB"
_DEFAULT_CONNECTIONS = "100"
_PAGE_BYTES = 8 * KIB
# A lower bound of shared_memory_size, measured with PostgreSQL 18 from 16 MB to 4 GB of buffers
# and 20 to 400 connections; the server itself says exactly, but needs a data directory for it.
_PER_BUFFER = 1.03
_FIXED_BYTES = 4 * MIB
_PER_CONNECTION_BYTES = 50 * KIB
_ROOM = 1.1  # of what the hint asks for: the bound is below the need by up to 7 %


def require_huge_pages(experiment: Experiment, host: Host) -> None:
    """Raise when a treatment with ``huge_pages = on`` could not start here.

    Nothing is checked where the machine does not tell its huge pages, and nothing for endpoints.

    Raises:
        PreflightError: With what is needed, what is free, and the command that reserves it.
    """
    free, page_bytes = _free_pages(host)
    if free is None or not page_bytes:
        return
    asking = [t for t in experiment.treatments if t.name in experiment.local_targets]
    needs = {t.name: -(-_needed_bytes(t) // page_bytes) for t in asking if _insists(t)}
    if not needs:
        return
    name = max(needs, key=lambda treatment: needs[treatment])
    if needs[name] > free:
        reserve = int(needs[name] * _ROOM) + 1
        raise PreflightError(
            f"treatment `{name}` asks for huge_pages = on and needs at least {needs[name]} huge"
            f" pages of {format_bytes(page_bytes)}; {free} are free",
            hint=f"Reserve them (root): sysctl -w vm.nr_hugepages={reserve}, and set it back to"
            " what it was afterwards.",
        )


def _insists(treatment: Treatment) -> bool:
    asked = treatment.asked().get("huge_pages", "").lower()
    return asked in ("on", "true", "yes", "1")


def _needed_bytes(treatment: Treatment) -> int:
    settings = treatment.asked()
    connections = settings.get("max_connections", _DEFAULT_CONNECTIONS)
    shared = int(_PER_BUFFER * _buffer_bytes(settings.get("shared_buffers", _DEFAULT_BUFFERS)))
    each = int(connections) if connections.isdigit() else int(_DEFAULT_CONNECTIONS)
    return shared + _FIXED_BYTES + _PER_CONNECTION_BYTES * each


def _buffer_bytes(value: str) -> int:
    """Return ``shared_buffers`` in bytes; a bare number counts pages of 8 kB."""
    if value.isdigit():
        return int(value) * _PAGE_BYTES
    try:
        return parse_bytes(value)
    except InputError:
        return 0  # the server refuses such a value in its own words


def _free_pages(host: Host) -> tuple[int | None, int]:
    """Return how many huge pages a server could still get, and the size of one."""
    found = {
        name: int(value)
        for name, value in re.findall(
            r"^(HugePages_\w+|Hugepagesize):\s+(\d+)",
            host.read("/proc/meminfo") or "",
            re.MULTILINE,
        )
    }
    if "HugePages_Free" not in found:
        return None, 0
    more = (host.read("/proc/sys/vm/nr_overcommit_hugepages") or "0").strip()
    surplus = max(int(more) - found.get("HugePages_Surp", 0), 0) if more.isdigit() else 0
    free = found["HugePages_Free"] - found.get("HugePages_Rsvd", 0) + surplus
    return free, found.get("Hugepagesize", 0) * KIB
