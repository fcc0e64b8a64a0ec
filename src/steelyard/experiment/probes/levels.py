"""Readings at the end of a run that are no counters: memory, huge pages, nodes, free disk."""

from collections import Counter

from steelyard.experiment.probes.placement import bytes_by_node, huge_bytes, remote_fraction
from steelyard.experiment.probes.processes import tree
from steelyard.experiment.probes.procfs import cpu_times, memory_bytes, named_number
from steelyard.gateways.clock import thread_cpu_s
from steelyard.gateways.host import Host
from steelyard.model.evidence import Absence, Quantity
from steelyard.model.vantage import Vantage

# A guess: numa_maps of a process that maps many small pages takes the kernel long.
_PLACEMENT_CPU_S = 0.5
MEMORY = {
    Quantity.MEMORY_BYTES: "MemTotal",
    Quantity.MEMORY_AVAILABLE_BYTES: "MemAvailable",
}
HUGE_PAGES = {
    Quantity.HUGE_PAGES: "HugePages_Total",
    Quantity.HUGE_PAGES_FREE: "HugePages_Free",
}
Found = tuple[dict[Quantity, float], tuple[Absence, ...]]


def machine_levels(host: Host) -> Found:
    """Return CPUs and memory of this machine."""
    memory, times = memory_bytes(host.read("/proc/meminfo")), cpu_times(host.read("/proc/stat"))
    levels = {quantity: float(memory[n]) for quantity, n in MEMORY.items() if n in memory}
    if times is not None:
        levels[Quantity.CPUS] = float(times.cpus)
    if len(levels) == len(MEMORY) + 1:
        return levels, ()
    reason = "/proc/meminfo or /proc/stat cannot be read here"
    return levels, (Absence(subject="CPUs and memory of the machine", reason=reason),)


def server_levels(host: Host, vantage: Vantage) -> Found:
    """Return what the server has of the machine: huge pages, memory nodes, disk."""
    memory = memory_bytes(host.read("/proc/meminfo"))
    levels = {quantity: float(memory[n]) for quantity, n in HUGE_PAGES.items() if n in memory}
    absent = []
    huge = huge_bytes(host.read(f"/proc/{vantage.pid}/smaps"))
    if huge is not None:
        levels[Quantity.SERVER_HUGE_BYTES] = float(huge)
    else:
        reason = "/proc/PID/smaps of the server may be read by its own account or root alone"
        absent.append(Absence(subject="huge pages of the server", reason=reason))
    allowed = named_number(host.read(f"/proc/{vantage.pid}/status"), "THP_enabled")
    if allowed is not None:
        levels[Quantity.SERVER_TRANSPARENT_HUGE] = float(allowed)
    space = host.space(str(vantage.data))
    if space is not None:
        levels[Quantity.DISK_FREE_BYTES] = float(space.free_bytes)
        levels[Quantity.DISK_BYTES] = float(space.total_bytes)
    else:
        reason = f"{vantage.data} cannot be reached"
        absent.append(Absence(subject="free disk", reason=reason))
    remote, missing = _remote(host, vantage)
    if remote is not None:
        levels[Quantity.SERVER_REMOTE_NODE_FRACTION] = remote
    return levels, (*absent, *missing)


def _remote(host: Host, vantage: Vantage) -> tuple[float | None, tuple[Absence, ...]]:
    """Return the part of the server's pages outside the node that holds the most.

    A page that several processes map counts for each. None without an absence where the machine
    has one node.
    """
    subject = "memory nodes of the server"
    names = host.names("/sys/devices/system/node")
    if sum(name.startswith("node") and name[4:].isdecimal() for name in names) < 2:
        return None, ()  # a fact about the machine: nothing of it can be elsewhere
    nodes: Counter[int] = Counter()
    begun_s = thread_cpu_s()
    for pid in tree(host, vantage.pid):
        nodes += bytes_by_node(host.read(f"/proc/{pid}/numa_maps"))
        if thread_cpu_s() - begun_s > _PLACEMENT_CPU_S:
            break
    fraction = remote_fraction(nodes)
    if fraction is None:
        reason = "/proc/PID/numa_maps of the server may be read by its own account or root alone"
        return None, (Absence(subject=subject, reason=reason),)
    return fraction, ()
