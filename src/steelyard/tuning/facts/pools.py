"""Huge pages: what the kernel has of each size, what was asked for, where they can be mounted."""

import re
from typing import Final

from steelyard.gateways.host import Host
from steelyard.model.linux_facts import PagePool
from steelyard.model.units import KIB, parse_bytes
from steelyard.tuning.facts.found import Finds, Found, attempted, hidden, read_fact, seen
from steelyard.tuning.rendering.machine import UNIT_PATH

POOLS: Final = "/sys/kernel/mm/hugepages"
SYSCTL_PLACES: Final = ("/usr/lib/sysctl.d", "/run/sysctl.d", "/etc/sysctl.d")  # later ones win
_SYSCTL_FILE: Final = "/etc/sysctl.conf"
_REQUEST: Final = re.compile(r"^\s*-?\s*vm[./]nr_hugepages\s*=\s*(\d+)\s*$", re.MULTILINE)
# As `tuning.rendering.machine` writes it.
_ALLOCATION: Final = re.compile(r"echo (\d+) >\S*/hugepages-(\d+)kB/nr_hugepages")
_DIRECTORY: Final = re.compile(r"hugepages-(\d+)kB")


def pools_in(host: Host, directory: str) -> tuple[PagePool, ...]:
    """Return the huge pages by size below a directory such as ``/sys/kernel/mm/hugepages``."""
    matches = filter(None, map(_DIRECTORY.fullmatch, host.names(directory)))
    kib = sorted(int(match[1]) for match in matches)
    pools = (pool_at(host, f"{directory}/hugepages-{size}kB", size * KIB) for size in kib)
    return tuple(pool for pool in pools if pool is not None)


def pool_at(host: Host, directory: str, page_bytes: int) -> PagePool | None:
    """Return the huge pages of one size, None where the kernel tells none in this directory."""
    total, free, surplus, reserved = (
        _count(host.read(f"{directory}/{name}_hugepages"))
        for name in ("nr", "free", "surplus", "resv")
    )
    if total is None or free is None:
        return None
    return PagePool(
        page_bytes=page_bytes, total=total, free=free, surplus=surplus or 0, reserved=reserved
    )


def _count(text: str | None) -> int | None:
    return int(text) if text and text.strip().isdecimal() else None


def pool_facts(host: Host) -> Finds:
    """Return the facts of huge pages."""
    pools = pools_in(host, POOLS)
    return {
        "huge_page_bytes": _default_size(host),
        "pools": seen(pools, POOLS) if pools else hidden(f"there is no {POOLS}"),
        "requested_huge_pages": _requested(host),
        "overcommit_huge_pages": read_fact(host, "/proc/sys/vm/nr_overcommit_hugepages", int),
        "hugetlbfs": attempted("/proc/self/mounts", lambda: _mounted(host)),
    }


def _default_size(host: Host) -> Found:
    match = re.search(r"^Hugepagesize:\s+(\d+) kB", host.read("/proc/meminfo") or "", re.MULTILINE)
    if match is None:
        return hidden("/proc/meminfo names no Hugepagesize: this kernel has no huge pages")
    return seen(int(match[1]) * KIB, "Hugepagesize in /proc/meminfo")


def _requested(host: Host) -> Found:
    """Return what the configuration asks for: ``/proc/sys`` only says what the kernel gave."""
    found = _on_command_line(host)
    for path in _sysctl_files(host):
        matches = _REQUEST.findall(host.read(path) or "")
        if matches:
            found = seen(int(matches[-1]), path)
    in_unit = _in_unit(host)
    return in_unit if (in_unit.value or -1) > (found.value or 0) else found


def _in_unit(host: Host) -> Found:
    """Return what Steelyard's own unit asks for at boot, of the default size, on all nodes."""
    default = _default_size(host).value
    asked = _ALLOCATION.findall(host.read(UNIT_PATH) or "")
    pages = [int(count) for count, kib in asked if int(kib) * KIB == default]
    return seen(sum(pages) if pages else None, UNIT_PATH)


def _sysctl_files(host: Host) -> tuple[str, ...]:
    """Return the files in the order that systemd-sysctl reads them (sysctl.d(5)).

    One file of a name in a later place replaces the others; they are read by name.
    """
    by_name = {
        name: f"{place}/{name}"
        for place in SYSCTL_PLACES
        for name in host.names(place)
        if name.endswith(".conf")
    }
    return (*(by_name[name] for name in sorted(by_name)), _SYSCTL_FILE)


def _on_command_line(host: Host) -> Found:
    line = host.read("/proc/cmdline") or ""
    sizes = re.findall(r"\bdefault_hugepagesz=(\S+)", line)
    size: str | None = None
    count: int | None = None
    for name, value in re.findall(r"\b(hugepagesz|hugepages)=(\S+)", line):
        if name == "hugepagesz":
            size = value
        elif value.isdecimal() and (size is None or size in sizes):
            count = int(value)
    if count is None:
        return seen(None, "no file of sysctl and no kernel argument asks for any")
    return seen(count, "hugepages= in /proc/cmdline")


def _mounted(host: Host) -> Found:
    text = host.read("/proc/self/mounts")
    if not text:
        return hidden("there is no /proc/self/mounts")
    return seen(mounted_sizes(text, default_page_bytes(host)), "/proc/self/mounts")


def default_page_bytes(host: Host) -> int | None:
    """Return the size of huge pages where none is named; None where it cannot be seen."""
    size = _default_size(host).value
    return size if isinstance(size, int) else None


def mounted_sizes(mounts: str, default: int | None) -> tuple[int, ...]:
    """Return the page sizes for which a hugetlbfs is mounted, from ``/proc/mounts``.

    Args:
        mounts: Its text.
        default: The size of a mount that names none, which older kernels do not write.
    """
    sizes = set()
    for line in mounts.splitlines():
        _, _, kind, options, *_ = line.split()
        if kind == "hugetlbfs":
            match = re.search(r"\bpagesize=(\w+)", options)
            sizes.add(parse_bytes(match[1]) if match else default)
    return tuple(sorted(size for size in sizes if size))
