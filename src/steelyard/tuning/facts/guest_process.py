"""What a running virtual machine really has: threads, memory and devices of its QEMU, from /proc.

The definition of a domain is a request. Its threads' ``Cpus_allowed_list``, its ``numa_maps`` and
its command line are what came of it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from steelyard.gateways.host import Host
from steelyard.model.cgroup import parse_cpu_list
from steelyard.model.errors import InputError
from steelyard.model.units import KIB

_PID_FILE = "/run/libvirt/qemu/{name}.pid"
_VIRTUAL_CPU = re.compile(r"CPU (\d+)/")  # and KVM or TCG: QEMU's debug-threads, which libvirt sets
_IO_THREAD = re.compile(r"IO iothread(\d+)$")
_ALLOWED = re.compile(r"^Cpus_allowed_list:\s*(\S+)$", re.MULTILINE)
_PAGE = re.compile(r" kernelpagesize_kB=(\d+)$")
_ON_NODE = re.compile(r" N(\d+)=(\d+)")
_SMALLEST_HUGE_BYTES = 64 * KIB  # 64 KiB is the smallest of any architecture (Arm, contiguous PTEs)


@dataclass(frozen=True, slots=True, kw_only=True)
class HugeMemory:
    """Guest memory on huge pages.

    Attributes:
        bytes_by_node: What was touched of it, by host node.
        page_bytes: The smallest of its page sizes.
        bound: Its mappings may take memory from given nodes only, and no others.
    """

    bytes_by_node: Mapping[int, int]
    page_bytes: int
    bound: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestProcess:
    """The QEMU of one domain; None: this account may not read it.

    Attributes:
        vcpus: Host CPUs that each virtual CPU's thread may run on; likewise the next two.
        emulator: Of the main thread.
        memory: None where it has none on huge pages, or may not be seen.
        memory_seen: Whether ``numa_maps`` could be read.
        locked_bytes: Ordinary memory that cannot be swapped out.
        balloon: Whether it has a virtio balloon.
    """

    pid: int
    vcpus: Mapping[int, tuple[int, ...]]
    emulator: tuple[int, ...]
    io_threads: Mapping[int, tuple[int, ...]]
    memory: HugeMemory | None
    memory_seen: bool
    locked_bytes: int | None
    balloon: bool | None

    @property
    def io_thread_cpus(self) -> tuple[int, ...]:
        """Return all host CPUs that any of its I/O threads may run on."""
        return tuple(sorted({cpu for cpus in self.io_threads.values() for cpu in cpus}))


def guest_process(host: Host, name: str) -> GuestProcess | None:
    """Return the QEMU of a domain, or None where none of that name runs or its pid is hidden."""
    pid = (host.read(_PID_FILE.format(name=name)) or "").strip()
    if not pid.isdigit():
        return None
    status = host.read(f"/proc/{pid}/status")
    if status is None:
        return None
    command_line = host.read(f"/proc/{pid}/cmdline")
    threads = tuple(_threads(host, pid))
    maps = host.read(f"/proc/{pid}/numa_maps")
    return GuestProcess(
        pid=int(pid),
        vcpus=_numbered(threads, _VIRTUAL_CPU),
        emulator=_allowed(status),
        io_threads=_numbered(threads, _IO_THREAD),
        memory=huge_memory(maps or ""),
        memory_seen=bool(maps),
        locked_bytes=_amount(status, "VmLck"),
        balloon=None if not command_line else "virtio-balloon" in command_line,
    )


def huge_memory(maps: str) -> HugeMemory | None:
    """Return what ``numa_maps`` says of memory on huge pages; None where there is none."""
    by_node: dict[int, int] = {}
    sizes, policies = set(), set()
    for line in maps.splitlines():
        page = _PAGE.search(line)
        if page is None or " huge " not in line or int(page[1]) * KIB < _SMALLEST_HUGE_BYTES:
            continue
        sizes.add(int(page[1]) * KIB)
        policies.add(line.split()[1].partition(":")[0].partition("=")[0])
        for node, pages in _ON_NODE.findall(line):
            by_node[int(node)] = by_node.get(int(node), 0) + int(pages) * int(page[1]) * KIB
    if not sizes:
        return None
    return HugeMemory(bytes_by_node=by_node, page_bytes=min(sizes), bound=policies == {"bind"})


def _threads(host: Host, pid: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    for thread in host.names(f"/proc/{pid}/task"):
        name = host.read(f"/proc/{pid}/task/{thread}/comm")
        status = host.read(f"/proc/{pid}/task/{thread}/status")
        if name is not None and status is not None:  # else it has ended meanwhile
            yield name.strip(), _allowed(status)


def _numbered(
    threads: tuple[tuple[str, tuple[int, ...]], ...], name: re.Pattern[str]
) -> Mapping[int, tuple[int, ...]]:
    found = ((name.match(thread), cpus) for thread, cpus in threads)
    return dict(sorted((int(match[1]), cpus) for match, cpus in found if match))


def _allowed(status: str) -> tuple[int, ...]:
    match = _ALLOWED.search(status)
    try:
        return parse_cpu_list(match[1]) if match else ()
    except InputError:
        return ()


def _amount(status: str, field: str) -> int | None:
    match = re.search(rf"^{field}:\s*(\d+) kB$", status, re.MULTILINE)
    return int(match[1]) * KIB if match else None
