"""Facts of libvirt's domains: as they are defined, and of those that run, as they really are.

The definition of a domain is a request. The ``Cpus_allowed_list`` of its QEMU's threads, its
``numa_maps`` and its command line in /proc are what came of it. Of XML that somebody asked libvirt
for, what was not kept, or cannot be, is found too.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final
from xml.etree.ElementTree import Element

from steelyard.core.stack import DomainFacts, Origin, StackFacts, Visibility
from steelyard.core.wording import KIB, InputError, SteelyardError
from steelyard.gateways.host import Clock, Host, allowed_cpus, cpus_in
from steelyard.gateways.virsh import Domains
from steelyard.tuning.facts.domain_xml import (
    SMALLEST_HUGE_BYTES,
    amount_bytes,
    described,
    domain_facts,
    lost_elements,
    parse_domain,
)
from steelyard.tuning.facts.linux import default_page_bytes

# Where elements belong that tuning is about; elsewhere libvirt drops them (formatdomain).
_HOMES: Final = {
    "memballoon": "devices",
    "disk": "devices",
    "interface": "devices",
    "vcpupin": "cputune",
    "emulatorpin": "cputune",
    "iothreadpin": "cputune",
    "vcpusched": "cputune",
    "memnode": "numatune",
    "hugepages": "memoryBacking",
    "nosharepages": "memoryBacking",
    "locked": "memoryBacking",
    "hard_limit": "memtune",
    "cputune": "",
    "numatune": "",
    "memoryBacking": "",
    "memtune": "",
    "iothreads": "",
    "numa": "cpu",
    "hint-dedicated": "features/kvm",
    "poll-control": "features/kvm",
}
_CELLS_COUNT: Final = "memory (libvirt makes it that of the cells and memory modules)"
_FOREIGN: Final = ("metadata", "description", "{")  # of others: anything may stand in them


def with_asked_domain(
    facts: StackFacts, asked: str, source: str, defined: str | None
) -> StackFacts:
    """Return the facts with what became of the XML that somebody asked for.

    Args:
        facts: In which the domain may be, or not.
        asked: The XML.
        source: The file that it stands in.
        defined: The domain of that name as libvirt keeps it; None: libvirt has none, or was not
            asked. Then only elements are told that stand where libvirt drops them, and memory that
            is not that of the cells; that there are none is no proof that it keeps them all.

    Raises:
        InputError: It is no XML of a domain.
    """
    host = facts.hypervisor
    wanted = domain_facts(asked, huge_page_bytes=host.huge_page_bytes if host else None)
    root = parse_domain(asked)
    if defined is not None:
        lost: tuple[str, ...] | None = lost_elements(root, parse_domain(defined))
        told = f"{source}, compared with virsh dumpxml --inactive {wanted.name}"
    else:
        memory = amount_bytes(root.find("memory"))
        changed = () if memory in (None, wanted.memory_bytes) else (_CELLS_COUNT,)
        lost = (*misplaced_elements(root), *changed) or None
        told = f"{source}: elements in the wrong place; what libvirt kept was not compared"
    path = f"domains.{wanted.name}"
    origins = {**facts.origins, f"{path}.lost_elements": Origin(source=told)}
    known = facts.domains or ()
    if wanted.name not in {domain.name for domain in known}:
        origins[path] = Origin(source=f"{source}: as it would be, not as it is")
        known = (*known, replace(wanted, running=False))
    domains = tuple(
        replace(each, lost_elements=lost) if each.name == wanted.name else each for each in known
    )
    return replace(facts, domains=domains, origins=origins)


def misplaced_elements(root: Element) -> tuple[str, ...]:
    """Return elements of a domain that stand where libvirt drops them, and where they belong."""
    return tuple(_misplaced(root, ""))


def _misplaced(element: Element, path: str) -> Iterator[str]:
    for child in element:
        if not isinstance(child.tag, str) or child.tag.startswith(_FOREIGN) or ":" in child.tag:
            continue
        home = _HOMES.get(child.tag)
        below = f"{path}/{child.tag}" if path else child.tag
        if home is not None and home != path:
            belongs = f"<{home}>" if home else "<domain> itself"
            yield f"{described(child, below)} (belongs in {belongs})"
        else:
            yield from _misplaced(child, below)


_PID_FILE = "/run/libvirt/qemu/{name}.pid"
_VIRTUAL_CPU = re.compile(r"CPU (\d+)/")  # and KVM or TCG: QEMU's debug-threads, which libvirt sets
_IO_THREAD = re.compile(r"IO iothread(\d+)$")
_PAGE = re.compile(r" kernelpagesize_kB=(\d+)$")
_ON_NODE = re.compile(r" N(\d+)=(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class HugeMemory:
    """Guest memory on huge pages.

    Attributes:
        bytes_by_node: What was touched of it, by host node.
        bytes_by_size: Likewise by page size, also of sizes of which nothing was touched.
        bound: Its mappings may take memory from given nodes only, and no others.
    """

    bytes_by_node: Mapping[int, int]
    bytes_by_size: Mapping[int, int]
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
    locked = re.search(r"^VmLck:\s*(\d+) kB$", status, re.MULTILINE)
    maps = host.read(f"/proc/{pid}/numa_maps")
    return GuestProcess(
        pid=int(pid),
        vcpus=_numbered(threads, _VIRTUAL_CPU),
        emulator=allowed_cpus(status) or (),
        io_threads=_numbered(threads, _IO_THREAD),
        memory=huge_memory(maps or ""),
        memory_seen=bool(maps),
        locked_bytes=int(locked[1]) * KIB if locked else None,
        balloon=None if not command_line else "virtio-balloon" in command_line,
    )


def huge_memory(maps: str) -> HugeMemory | None:
    """Return what ``numa_maps`` says of memory on huge pages; None where there is none."""
    by_node, by_size = Counter[int](), Counter[int]()
    policies = set()
    for line in maps.splitlines():
        page = _PAGE.search(line)
        if page is None or " huge " not in line or int(page[1]) * KIB < SMALLEST_HUGE_BYTES:
            continue
        policies.add(line.split()[1].partition(":")[0].partition("=")[0])
        size = int(page[1]) * KIB
        by_size[size] += 0
        for node, pages in _ON_NODE.findall(line):
            by_node[int(node)] += int(pages) * size
            by_size[size] += int(pages) * size
    if not by_size:
        return None
    return HugeMemory(bytes_by_node=by_node, bytes_by_size=by_size, bound=policies == {"bind"})


def _threads(host: Host, pid: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    for thread in host.names(f"/proc/{pid}/task"):
        name = host.read(f"/proc/{pid}/task/{thread}/comm")
        status = host.read(f"/proc/{pid}/task/{thread}/status")
        if name is not None and status is not None:  # else it has ended meanwhile
            yield name.strip(), allowed_cpus(status) or ()


def _numbered(
    threads: tuple[tuple[str, tuple[int, ...]], ...], name: re.Pattern[str]
) -> Mapping[int, tuple[int, ...]]:
    found = ((name.match(thread), cpus) for thread, cpus in threads)
    return dict(sorted((int(match[1]), cpus) for match, cpus in found if match))


_PATH = "domains"
_ONLINE = "/sys/devices/system/{}/online"
_MOMENT_S = 1.0  # a guess: ten periods of the kernel's longest scheduling round


def collect_domains(
    domains: Domains, host: Host, clock: Clock, *, moment_s: float = _MOMENT_S
) -> tuple[tuple[DomainFacts, ...] | None, Mapping[str, Origin]]:
    """Return all domains of a libvirt, and where the facts come from.

    None instead of the domains where libvirt cannot be asked; then the origin says why.

    Args:
        domains: The libvirt.
        host: The same machine's own files.
        clock: The same machine's.
        moment_s: Over which the waiting of virtual CPUs is observed; 0: not at all.
    """
    try:
        running = frozenset(domains.names(running=True))
        texts = {name: domains.xml(name) for name in domains.names()}
        delays = _delays(domains, clock, moment_s) if running and moment_s > 0 else {}
        autostart = {name: domains.autostart(name) for name in texts}
    except SteelyardError as error:
        return None, {_PATH: Origin(source=error.message, visibility=Visibility.UNKNOWN)}
    page_bytes = default_page_bytes(host)
    found, origins = [], {_PATH: Origin(source="virsh list --all")}
    for name, text in texts.items():
        if text is None:
            continue  # it was removed meanwhile
        try:
            facts = domain_facts(text, huge_page_bytes=page_bytes)
            facts = replace(facts, autostart=autostart[name])
        except InputError as error:
            origins[f"{_PATH}.{name}"] = Origin(source=error.message, visibility=Visibility.UNKNOWN)
            continue
        process = guest_process(host, name) if name in running else None
        found.append(_in_effect(facts, process, host, delays.get(name)))
        origins[f"{_PATH}.{name}"] = _origin(name, process, running=name in running)
    return tuple(found), origins


def _delays(domains: Domains, clock: Clock, moment_s: float) -> Mapping[str, float]:
    """Return the largest share of a moment in which a virtual CPU waited, by domain."""
    begun, before = clock.monotonic(), domains.vcpu_delays_s()
    clock.sleep(moment_s)
    passed_s, after = clock.monotonic() - begun, domains.vcpu_delays_s()
    return {
        name: min(
            1.0, max(max(0.0, b - a) for a, b in zip(before[name], waits, strict=True)) / passed_s
        )
        for name, waits in after.items()
        if waits and len(before.get(name, ())) == len(waits)
    }


def _in_effect(
    facts: DomainFacts, process: GuestProcess | None, host: Host, delay_fraction: float | None
) -> DomainFacts:
    """Return a domain's facts with what its process says instead of what was asked for."""
    facts = replace(facts, vcpu_delay_fraction=delay_fraction)
    if process is None:
        return facts
    everywhere = online(host, "cpu")

    def pins(cpus: tuple[int, ...]) -> tuple[int, ...]:
        return () if cpus == everywhere else cpus

    memory = process.memory
    if process.memory_seen and memory is not None and facts.memory_nodes:
        facts = _with_nodes(facts, tuple(sorted(memory.bytes_by_node)))
    if process.memory_seen:
        facts = _with_pages(facts, frozenset(memory.bytes_by_size if memory else ()))
    return replace(
        facts,
        vcpu_pins={number: pins(cpus) for number, cpus in process.vcpus.items() if pins(cpus)},
        emulator_pins=pins(process.emulator),
        io_thread_pins=pins(process.io_thread_cpus),
        balloon=facts.balloon if process.balloon is not False else "none",
    )


def _with_nodes(facts: DomainFacts, nodes: tuple[int, ...]) -> DomainFacts:
    """Return the facts with the nodes that the memory is on; cell by cell nobody sees them.

    As long as the whole is where it was asked to be, the cells are taken to be, too.
    """
    cells = facts.cells
    if {node for cell in cells for node in cell.memory_nodes} != set(nodes):
        cells = tuple(replace(cell, memory_mode=None, memory_nodes=()) for cell in cells)
    return replace(facts, memory_nodes=nodes, cells=cells)


def _with_pages(facts: DomainFacts, sizes: frozenset[int]) -> DomainFacts:
    """Return the facts with the sizes of pages that the memory is on; see ``_with_nodes``."""
    if sizes == frozenset(facts.huge_bytes):
        return facts
    cells, modules = (
        tuple(replace(part, huge_page_bytes=None) for part in parts)
        for parts in (facts.cells, facts.modules)
    )
    size = min(sizes, default=None)
    return replace(facts, huge_page_bytes=size, cells=cells, modules=modules)


def online(host: Host, what: str) -> tuple[int, ...]:
    """Return the numbers of a host's CPUs or nodes (``cpu``, ``node``); empty: not visible."""
    return cpus_in(host.read(_ONLINE.format(what))) or ()


def _origin(name: str, process: GuestProcess | None, *, running: bool) -> Origin:
    asked = f"virsh dumpxml {name}"
    if process is not None:
        return Origin(source=f"/proc/{process.pid} of its QEMU, {asked}, virsh domstats")
    if running:
        return Origin(source=f"{asked}; its QEMU's /proc is not visible from here")
    return Origin(source=asked)
