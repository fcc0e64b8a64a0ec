"""What would keep a domain from starting.

libvirt defines all of these without a word, and fails at the start (measured; the sentences name
what it says then).
"""

from collections.abc import Iterator

from steelyard.gateways.host import Host
from steelyard.model.cgroup import cpu_list, parse_cpu_list
from steelyard.model.errors import InputError
from steelyard.model.stack_facts import DomainFacts
from steelyard.model.units import KIB

_ONLINE = "/sys/devices/system/{}/online"
_HUGE_PAGES = "/sys/kernel/mm/hugepages"


def unstartable(asked: DomainFacts, host: Host) -> Iterator[str]:
    """Return why a domain could not start on a host, in sentences."""
    pins = asked.pinned_cpus | {*asked.emulator_pins, *asked.io_thread_pins}
    yield from _absent("CPU", pins, _online(host, "cpu"))
    yield from _absent("NUMA node", frozenset(asked.memory_nodes), _online(host, "node"))
    size = asked.huge_page_bytes
    if size is None:
        return
    for amount in (asked.memory_bytes, *(cell.memory_bytes for cell in asked.cells)):
        if amount % size:
            yield f"{amount // KIB} KiB are no multiple of its pages of {size // KIB} KiB"
    pools = host.names(_HUGE_PAGES)
    if pools and f"hugepages-{size // KIB}kB" not in pools:
        yield f"the host has no pages of {size // KIB} KiB"
    elif " hugetlbfs " not in (host.read("/proc/mounts") or " hugetlbfs "):
        yield "no hugetlbfs is mounted, which libvirt takes huge pages from (/dev/hugepages)"


def _absent(what: str, wanted: frozenset[int], there: frozenset[int] | None) -> Iterator[str]:
    if there is not None and wanted - there:
        yield f"the host has no {what} {cpu_list(wanted - there)}, only {cpu_list(there)}"


def _online(host: Host, what: str) -> frozenset[int] | None:
    try:
        return frozenset(parse_cpu_list((host.read(_ONLINE.format(what)) or "").strip())) or None
    except InputError:
        return None
