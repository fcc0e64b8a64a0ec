"""A PostgreSQL server seen from the machine it runs on: its process, memory and control group."""

import re
from dataclasses import dataclass

from steelyard.gateways.host import Host
from steelyard.gateways.sql import Sql
from steelyard.model.command import ServerAddress
from steelyard.model.errors import TargetError
from steelyard.model.units import KIB

_WHERE = """
SELECT current_setting('data_directory'), extract(epoch FROM pg_postmaster_start_time())::float8
"""
# The server notes its start twice, a moment apart: in the file and for the function.
_SAME_START_S = 10.0
_MAPPING = re.compile(
    r"^\S+ \S+ \S+ \S+ \S+\s+/?anon_hugepage.*\n(?:(?!^[0-9a-f]+-[0-9a-f]+ ).*\n)*?"
    r"Size:\s+(\d+) kB\nKernelPageSize:\s+(\d+) kB",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapping:
    """Shared memory on huge pages: its size, and the size of a page."""

    size_bytes: int
    page_bytes: int


def find_process(address: ServerAddress, sql: Sql, host: Host) -> int | None:
    """Return the first process of a server, None where it runs elsewhere or hides its directory.

    The address alone tells nothing: a tunnel ends at localhost, too. What decides is that the
    directory of the server has its process and its moment of start in ``postmaster.pid``.
    """
    try:
        ((data, started),) = sql.rows(address, _WHERE)
    except TargetError:
        return None  # this user may not see data_directory
    lines = (host.read(f"{data}/postmaster.pid") or "").splitlines()
    if len(lines) < 3 or not lines[0].isdigit() or not lines[2].isdigit():
        return None
    close = abs(float(lines[2]) - float(str(started))) <= _SAME_START_S
    alive = host.read(f"/proc/{lines[0]}/comm") is not None
    return int(lines[0]) if close and alive else None


def huge_page_mapping(pid: int, host: Host) -> Mapping | None:
    """Return the largest mapping on huge pages of a process, None where none is seen.

    What counts is the size of its pages: pages that are only reserved are in no ``Rss`` (measured).
    """
    found = _MAPPING.findall(host.read(f"/proc/{pid}/smaps") or "")
    mappings = [Mapping(size_bytes=int(s) * KIB, page_bytes=int(p) * KIB) for s, p in found]
    return max(mappings, key=lambda mapping: mapping.size_bytes, default=None)
