"""Limits on huge pages of the control group around a server, in both versions.

A limit that counts when pages are touched kills: the server starts, because nothing counted its
reservation, and ends by SIGBUS when it touches a page above the limit. Only a limit on
reservations (``rsvd``) refuses it in order. Measured with PostgreSQL 15 and 18: exit status 135,
nothing in the log. Source: Documentation/admin-guide/cgroup-v1/hugetlb.rst.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from steelyard.gateways.host import Host
from steelyard.model.units import GIB, KIB, MIB

_HUGETLB = "hugetlb"
_UNLIMITED_FROM = 1 << 60  # version 1 writes the largest multiple of a page


@dataclass(frozen=True, slots=True, kw_only=True)
class HugetlbLimit:
    """Limits of one control group; None: unlimited, or a kernel without the file.

    Attributes:
        faults_bytes: Of pages that are touched.
        reservations_bytes: Of pages that are promised.
        reserving_group: Whose limit on promised pages it is; another one may be tighter there.
    """

    group: str
    faults_bytes: int | None
    reservations_bytes: int | None
    reserving_group: str = ""


def tightest(pid: int, page_bytes: int, host: Host) -> HugetlbLimit | None:
    """Return the group above a process with the lowest limit on touched pages, None without one.

    A reservation limit of any group above counts for it.
    """
    found = list(_limits(pid, page_bytes, host))
    reserving = [each for each in found if each.reservations_bytes is not None]
    limited = [each for each in found if each.faults_bytes is not None]
    if not limited and not reserving:
        return None
    lowest = min(limited or reserving, key=lambda each: each.faults_bytes or 0)
    first = min(reserving, key=lambda each: each.reservations_bytes or 0, default=None)
    return HugetlbLimit(
        group=lowest.group,
        faults_bytes=lowest.faults_bytes,
        reservations_bytes=None if first is None else first.reservations_bytes,
        reserving_group="" if first is None else first.group,
    )


def _limits(pid: int, page_bytes: int, host: Host) -> Iterator[HugetlbLimit]:
    size = _size_name(page_bytes)
    for root, path, version in _groups(pid, host):
        faults, reservations = (
            (f"hugetlb.{size}.max", f"hugetlb.{size}.rsvd.max")
            if version == 2
            else (f"hugetlb.{size}.limit_in_bytes", f"hugetlb.{size}.rsvd.limit_in_bytes")
        )
        parts = [part for part in path.split("/") if part]
        for depth in range(len(parts), -1, -1):
            group = "/".join([root, *parts[:depth]])
            yield HugetlbLimit(
                group=group,
                faults_bytes=_limit(host.read(f"{group}/{faults}")),
                reservations_bytes=_limit(host.read(f"{group}/{reservations}")),
            )


def _groups(pid: int, host: Host) -> Iterator[tuple[str, str, int]]:
    """Yield mounted root, path of the process's group, and version of each hierarchy."""
    mounts = [line.split() for line in (host.read("/proc/self/mounts") or "").splitlines()]
    for line in (host.read(f"/proc/{pid}/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        for mount in (fields for fields in mounts if len(fields) > 3):
            _, root, kind, options = mount[:4]
            if not controllers and kind == "cgroup2":
                yield root, path, 2
            elif _HUGETLB in controllers.split(",") and _is_v1(kind, options):
                yield root, path, 1


def _is_v1(kind: str, options: str) -> bool:
    return kind == "cgroup" and _HUGETLB in options.split(",")


def _limit(text: str | None) -> int | None:
    if text is None or not re.fullmatch(r"\d+", text.strip()):
        return None  # absent, or `max`
    limit = int(text)
    return None if limit >= _UNLIMITED_FROM else limit


def _size_name(page_bytes: int) -> str:
    for unit, name in ((GIB, "GB"), (MIB, "MB")):
        if page_bytes >= unit:
            return f"{page_bytes // unit}{name}"
    return f"{page_bytes // KIB}KB"
