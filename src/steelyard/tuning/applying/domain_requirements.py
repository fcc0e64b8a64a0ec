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
from steelyard.tuning.facts.pools import default_page_bytes, mounted_sizes

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
    else:
        yield from _unmounted(size, host)


def _unmounted(size: int, host: Host) -> Iterator[str]:
    """Return what is wrong with the mounts that libvirt takes huge pages from."""
    mounts = host.read("/proc/mounts")
    if not mounts:
        return
    sizes = mounted_sizes(mounts, default_page_bytes(host) or size)
    if not sizes:
        yield "no hugetlbfs is mounted, which libvirt takes huge pages from (/dev/hugepages)"
    elif size not in sizes:
        there = ", ".join(f"{each // KIB} KiB" for each in sizes)
        yield (
            f"no hugetlbfs is mounted for pages of {size // KIB} KiB, only for those of {there}:"
            f" mount -t hugetlbfs -o pagesize={size // KIB}K hugetlbfs"
            f" /dev/hugepages-{size // KIB}kB, and restart libvirtd"
        )


def _absent(what: str, wanted: frozenset[int], there: frozenset[int] | None) -> Iterator[str]:
    if there is not None and wanted - there:
        yield f"the host has no {what} {cpu_list(wanted - there)}, only {cpu_list(there)}"


def _online(host: Host, what: str) -> frozenset[int] | None:
    try:
        return frozenset(parse_cpu_list((host.read(_ONLINE.format(what)) or "").strip())) or None
    except InputError:
        return None
