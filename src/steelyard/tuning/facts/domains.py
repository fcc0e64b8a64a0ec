"""Facts of libvirt's domains: as they are defined, and of those that run, as they really are."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from steelyard.gateways.clock import Clock
from steelyard.gateways.host import Host
from steelyard.gateways.virsh import Domains
from steelyard.model.cgroup import parse_cpu_list
from steelyard.model.errors import InputError, SteelyardError
from steelyard.model.stack_facts import DomainFacts, Origin, Visibility
from steelyard.tuning.facts.domain_xml import domain_facts
from steelyard.tuning.facts.guest_process import GuestProcess, guest_process

_PATH = "domains"
_ONLINE = "/sys/devices/system/cpu/online"
_MOMENT_S = 1.0  # a guess: ten periods of the kernel's longest scheduling round


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypervisor:
    """Where domains are looked at.

    Attributes:
        domains: Of its libvirt.
        host: The same machine's own files.
        moment_s: Over which the waiting of virtual CPUs is observed; 0: not at all.
    """

    domains: Domains
    host: Host
    clock: Clock
    moment_s: float = _MOMENT_S


def collect_domains(
    hypervisor: Hypervisor,
) -> tuple[tuple[DomainFacts, ...] | None, Mapping[str, Origin]]:
    """Return all domains of a libvirt, and where the facts come from.

    None instead of the domains where libvirt cannot be asked; then the origin says why.
    """
    try:
        running = frozenset(hypervisor.domains.names(running=True))
        texts = {name: hypervisor.domains.xml(name) for name in hypervisor.domains.names()}
        delays = _delays(hypervisor) if running and hypervisor.moment_s > 0 else {}
        autostart = {name: hypervisor.domains.autostart(name) for name in texts}
    except SteelyardError as error:
        return None, {_PATH: Origin(source=error.message, visibility=Visibility.UNKNOWN)}
    found, origins = [], {_PATH: Origin(source="virsh list --all")}
    for name, text in texts.items():
        if text is None:
            continue  # it was removed meanwhile
        try:
            facts = replace(domain_facts(text), autostart=autostart[name])
        except InputError as error:
            origins[f"{_PATH}.{name}"] = Origin(source=error.message, visibility=Visibility.UNKNOWN)
            continue
        process = guest_process(hypervisor.host, name) if name in running else None
        found.append(_in_effect(facts, process, hypervisor.host, delays.get(name)))
        origins[f"{_PATH}.{name}"] = _origin(name, process, running=name in running)
    return tuple(found), origins


def _delays(hypervisor: Hypervisor) -> Mapping[str, float]:
    """Return the largest share of a moment in which a virtual CPU waited, by domain."""
    begun, before = hypervisor.clock.monotonic(), hypervisor.domains.vcpu_delays_s()
    hypervisor.clock.sleep(hypervisor.moment_s)
    passed_s, after = hypervisor.clock.monotonic() - begun, hypervisor.domains.vcpu_delays_s()
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
    everywhere = _online(host)

    def pins(cpus: tuple[int, ...]) -> tuple[int, ...]:
        return () if cpus == everywhere else cpus

    memory = process.memory
    if process.memory_seen and memory is not None and facts.memory_nodes:
        facts = _with_nodes(facts, tuple(sorted(memory.bytes_by_node)))
    if process.memory_seen:
        facts = replace(facts, huge_page_bytes=memory.page_bytes if memory else None)
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


def _online(host: Host) -> tuple[int, ...]:
    try:
        return parse_cpu_list((host.read(_ONLINE) or "").strip())
    except InputError:
        return ()


def _origin(name: str, process: GuestProcess | None, *, running: bool) -> Origin:
    asked = f"virsh dumpxml {name}"
    if process is not None:
        return Origin(source=f"/proc/{process.pid} of its QEMU, {asked}, virsh domstats")
    if running:
        return Origin(source=f"{asked}; its QEMU's /proc is not visible from here")
    return Origin(source=asked)
