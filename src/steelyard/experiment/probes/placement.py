"""Where a process's memory is: on huge pages, and on which memory nodes."""

import re
from collections import Counter

from steelyard.experiment.probes.procfs import whole_number

_MAPPING = re.compile(r"^[0-9a-f]+-[0-9a-f]+ (?P<mode>[rwxsp-]{4}) ")
_KB_FIELD = re.compile(r"^(Size|KernelPageSize|ShmemPmdMapped): +([0-9]+) kB$")
_PAGE_SIZE = re.compile(r"^KernelPageSize: +([1-9][0-9]*) kB$", re.MULTILINE)
_ON_HUGE_PAGES = re.compile(r"^ShmemPmdMapped: +[1-9]", re.MULTILINE)
_FIELDS = ("Size:", "KernelPageSize:", "ShmemPmdMapped:")  # of some twenty of each mapping
# What is mapped on huge pages of the pool without a file, as PostgreSQL does (fs/hugetlbfs).
_ANONYMOUS_HUGE = re.compile(
    r"^([0-9a-f]{1,16})-([0-9a-f]{1,16}) ...s .*/anon_hugepage", re.MULTILINE
)
_ROLLED_UP = re.compile(r"^ShmemPmdMapped: +([0-9]{1,20}) kB$", re.MULTILINE)
_ON_NODE = re.compile(r"\bN([0-9]+)=([0-9]+)\b")
_PAGE_KB = re.compile(r"\bkernelpagesize_kB=([0-9]+)\b")


def huge_bytes(smaps: str | None) -> int | None:
    """Return how much of its shared memory a process has on huge pages; None without ``smaps``.

    A mapping made of huge pages counts with its size: the process itself may have touched little
    of it. Shared memory on transparent huge pages counts as far as the process maps it.
    """
    if not _may_have_huge_pages(smaps or ""):
        return 0
    mappings = _shared_mappings(smaps or "")
    sizes = [kilobytes.get("KernelPageSize", 0) for _, kilobytes in mappings]
    if not any(sizes):
        return None
    usual = min(size for size in sizes if size)
    return 1024 * sum(
        kilobytes.get("Size", 0)
        if kilobytes.get("KernelPageSize", 0) > usual
        else kilobytes.get("ShmemPmdMapped", 0)
        for is_shared, kilobytes in mappings
        if is_shared
    )


def anonymous_huge_bytes(maps: str | None, rollup: str | None) -> int | None:
    """Return the same from ``maps`` and ``smaps_rollup``, which are a tenth of ``smaps``."""
    if not maps:
        return None
    pool = sum(int(end, 16) - int(begin, 16) for begin, end in _ANONYMOUS_HUGE.findall(maps))
    transparent = _ROLLED_UP.search(rollup or "")
    return pool + 1024 * int(transparent[1]) if transparent else pool


def bytes_by_node(numa_maps: str | None) -> Counter[int]:
    """Return the bytes that a process maps on each memory node."""
    found: Counter[int] = Counter()
    for line in (numa_maps or "").splitlines():
        match = _PAGE_KB.search(line)
        kilobytes = whole_number(match[1]) if match else None
        for node, pages in _ON_NODE.findall(line) if kilobytes else ():
            found[int(node[:9])] += (whole_number(pages) or 0) * (kilobytes or 0) * 1024
    return found


def remote_fraction(nodes: Counter[int]) -> float | None:
    """Return the part that is not on the node which holds the most; None of nothing."""
    whole = nodes.total()
    return 1.0 - max(nodes.values()) / whole if whole else None


def _may_have_huge_pages(smaps: str) -> bool:
    """Return whether it takes a look at every mapping: on most machines it does not."""
    return len(set(_PAGE_SIZE.findall(smaps))) != 1 or bool(_ON_HUGE_PAGES.search(smaps))


def _shared_mappings(smaps: str) -> list[tuple[bool, dict[str, int]]]:
    """Return each mapping: whether it is shared, and its sizes in kB."""
    found: list[tuple[bool, dict[str, int]]] = []
    for line in smaps.splitlines():
        if line.startswith(_FIELDS):
            field = _KB_FIELD.match(line)
            if found and field:
                found[-1][1][field[1]] = whole_number(field[2]) or 0
        elif not line[:1].isupper() and (mapping := _MAPPING.match(line)):
            found.append((mapping["mode"].endswith("s"), {}))
    return found
