"""Memory of a machine and how its kernel handles it, huge pages excepted."""

import re

from steelyard.gateways.host import Host
from steelyard.model.units import KIB
from steelyard.tuning.facts.found import Finds, Found, hidden, read_fact, seen, selected

_VM = {
    "swappiness": "/proc/sys/vm/swappiness",
    "dirty_bytes": "/proc/sys/vm/dirty_bytes",
    "dirty_background_bytes": "/proc/sys/vm/dirty_background_bytes",
    "dirty_ratio": "/proc/sys/vm/dirty_ratio",
    "overcommit_memory": "/proc/sys/vm/overcommit_memory",
}


def memory_facts(host: Host) -> Finds:
    """Return the facts of memory."""
    huge = "/sys/kernel/mm/transparent_hugepage"
    no_huge = f"there is no {huge}: this kernel has no transparent huge pages"
    alone = "this kernel cannot do it"
    return {
        "memory_bytes": _meminfo(host, "MemTotal"),
        "swap_bytes": _meminfo(host, "SwapTotal"),
        "page_bytes": _page(host),
        "transparent_huge_pages": read_fact(host, f"{huge}/enabled", selected, absent=no_huge),
        "thp_defrag": read_fact(host, f"{huge}/defrag", selected, absent=no_huge),
        **{name: read_fact(host, path, int) for name, path in _VM.items()},
        "numa_balancing": read_fact(host, "/proc/sys/kernel/numa_balancing", int, absent=alone),
        "zone_reclaim_mode": read_fact(host, "/proc/sys/vm/zone_reclaim_mode", int, absent=alone),
    }


def _meminfo(host: Host, name: str) -> Found:
    match = re.search(rf"^{name}:\s+(\d+) kB", host.read("/proc/meminfo") or "", re.MULTILINE)
    if match is None:
        return hidden(f"/proc/meminfo names no {name}")
    return seen(int(match[1]) * KIB, f"{name} in /proc/meminfo")


def _page(host: Host) -> Found:
    """Return the size of ordinary pages, which is that of the looker's own first mapping."""
    match = re.search(
        r"^KernelPageSize:\s+(\d+) kB", host.read("/proc/self/smaps") or "", re.MULTILINE
    )
    if match is None:
        return hidden("/proc/self/smaps names no KernelPageSize")
    return seen(int(match[1]) * KIB, "KernelPageSize in /proc/self/smaps")
