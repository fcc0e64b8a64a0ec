"""Processes that hold huge pages."""

import re
from typing import Final

from steelyard.gateways.host import Host
from steelyard.model.linux_facts import PoolUser
from steelyard.model.units import KIB
from steelyard.tuning.facts.found import Found, hidden, seen

HOLDING: Final = r"HugetlbPages:[[:space:]]*[1-9]"  # as grep writes it; see wanted.py
_HELD: Final = re.compile(r"^HugetlbPages:\s*(\d+) kB$", re.MULTILINE)
_NAME: Final = re.compile(r"^Name:\s*(.+)$", re.MULTILINE)


def pool_users(host: Host) -> Found:
    """Return who holds huge pages; of touched pages alone, as the kernel counts them."""
    if not _HELD.search(host.read("/proc/self/status") or ""):
        return hidden("this kernel does not say which process holds huge pages")
    if host.read("/proc/1/status") is None:
        return hidden("processes of others are hidden (hidepid)")
    return seen(holders(host), "HugetlbPages in /proc/*/status")


def holders(host: Host) -> tuple[PoolUser, ...]:
    """Return who holds huge pages, as far as this account may see it."""
    pids = sorted(int(name) for name in host.names("/proc") if name.isdecimal())
    return tuple(user for pid in pids if (user := _user(host, pid)))


def _user(host: Host, pid: int) -> PoolUser | None:
    text = host.read(f"/proc/{pid}/status") or ""
    held, name = _HELD.search(text), _NAME.search(text)
    if held is None or name is None or held[1] == "0":
        return None
    return PoolUser(pid=pid, command=name[1], held_bytes=int(held[1]) * KIB)


def outside_of_pods(host: Host, users: tuple[PoolUser, ...], page_bytes: int) -> int:
    """Return how many huge pages are held by processes that run in no pod."""
    own = [u for u in users if "kubepods" not in (host.read(f"/proc/{u.pid}/cgroup") or "")]
    return sum(user.held_bytes for user in own) // page_bytes
