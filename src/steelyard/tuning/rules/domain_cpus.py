"""Rules of a virtual machine's CPUs on the hypervisor's."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from steelyard.core.findings import Severity
from steelyard.core.linux import WAITED_FRACTION, LinuxFacts, NumaNode
from steelyard.core.stack_facts import DomainFacts, StackFacts
from steelyard.core.units import format_share
from steelyard.tuning.rules.rule import (
    Outcome,
    Rule,
    combined,
    groups_at_once,
    lacking,
    listed,
    of_each_domain,
    violated_if,
)

_OWN_CPU: Final = ("host-passthrough", "maximum")  # modes that give the guest the host's CPU
_TOPOEXT: Final = "topoext"
_X86: Final = "x86_64"

Claims = dict[str, frozenset[int]]  # CPUs by virtual CPU


def _pins_on_their_nodes(facts: StackFacts) -> Outcome:
    nodes = {node.number: frozenset(node.cpus) for node in _nodes(facts)}

    def check(domain: DomainFacts) -> Outcome:
        bound = {*domain.memory_nodes, *(n for cell in domain.cells for n in cell.memory_nodes)}
        if not bound:
            return None
        if absent := bound - set(nodes):
            return (f"{domain.name}: no node {listed(absent)} for its memory on this hypervisor",)
        return _far_from_memory(domain, nodes) if domain.vcpu_pins else None

    return of_each_domain(check)(facts)


def _far_from_memory(domain: DomainFacts, nodes: Mapping[int, frozenset[int]]) -> Outcome:
    """Judge each cell that is bound itself, then the virtual CPUs of all others together."""
    outcomes: list[Outcome] = []
    loose = set(domain.vcpu_pins)
    for cell in domain.cells:
        if cell.memory_nodes and cell.cpus:
            loose -= set(cell.cpus)
            pinned = {cpu for vcpu in cell.cpus for cpu in domain.vcpu_pins.get(vcpu, ())}
            whose = f"cell {cell.number} of {domain.name}"
            outcomes.append(_far(whose, pinned, cell.memory_nodes, nodes))
    if loose and domain.memory_nodes:
        pinned = {cpu for vcpu in loose for cpu in domain.vcpu_pins[vcpu]}
        outcomes.append(_far(domain.name, pinned, domain.memory_nodes, nodes))
    return combined(outcomes)


def _far(
    whose: str, pinned: AbstractSet[int], bound: Sequence[int], nodes: Mapping[int, frozenset[int]]
) -> Outcome:
    far = pinned - frozenset().union(*(nodes[number] for number in bound))
    told = f"{whose}: CPUs {listed(far)} are not on node {listed(bound)} of its memory"
    return violated_if(bool(far), told)


def _no_cpu_pinned_twice(facts: StackFacts) -> Outcome:
    return combined(_too_many_on(_claims(group)) for group in groups_at_once(facts.domains or ()))


def _claims(domains: Sequence[DomainFacts]) -> Claims:
    return {
        f"{domain.name}/{vcpu}": frozenset(cpus)
        for domain in domains
        for vcpu, cpus in sorted(domain.vcpu_pins.items())
    }


def _too_many_on(claims: Claims) -> Outcome:
    """Return the smallest sets of CPUs that more virtual CPUs are confined to than they are."""
    if not claims:
        return None
    confined = {
        cpus: [name for name, own in claims.items() if own <= cpus]
        for cpus in sorted(set(claims.values()), key=lambda cpus: (len(cpus), sorted(cpus)))
    }
    crowded = [cpus for cpus, names in confined.items() if len(names) > len(cpus)]
    return tuple(
        f"host CPU {listed(cpus)}: pinned to by {', '.join(confined[cpus])}"
        for cpus in crowded
        if not any(other < cpus for other in crowded)
    )


def _owns_whole_cores(facts: StackFacts) -> Outcome:
    cores = _cores(facts)

    def check(domain: DomainFacts) -> Outcome:
        pinned = domain.pinned_cpus
        if not pinned:
            return None
        split = [core for core in cores if core & pinned and not core <= pinned]
        inside = frozenset().union(*split) & pinned
        outside = frozenset().union(*split) - pinned
        return violated_if(
            bool(split),
            f"{domain.name}: the siblings of CPUs {listed(inside)} are outside of the"
            f" virtual machine: {listed(outside)}",
        )

    return of_each_domain(check)(facts)


def _shows_real_cores(facts: StackFacts) -> Outcome:
    cores = _cores(facts)

    def check(domain: DomainFacts) -> Outcome:
        if not domain.pinned_cpus:
            return None
        below = facts.hypervisor or LinuxFacts()
        return combined((tuple(_wrong_cores(domain, cores)), _hidden_siblings(domain, below)))

    return of_each_domain(check)(facts)


def _hidden_siblings(domain: DomainFacts, below: LinuxFacts) -> Outcome:
    """Return whether the guest of an AMD CPU is shown threads without the feature that tells them.

    Named models of AMD have it; the host's own CPU is passed without it.
    """
    if (
        domain.threads_per_core == 1
        or domain.cpu_mode not in _OWN_CPU
        or _TOPOEXT in domain.features
    ):
        return ()
    if below.has_amd_cpu is None:
        on_x86 = below.architecture in (None, _X86)
        return lacking("hypervisor.cpu_vendor") if on_x86 else ()
    return violated_if(
        below.has_amd_cpu,
        f"{domain.name}: cores of {domain.threads_per_core} threads on a CPU of"
        f" {below.cpu_vendor} without feature topoext: its guest sees no siblings",
    )


def _wrong_cores(domain: DomainFacts, cores: Sequence[frozenset[int]]) -> Iterator[str]:
    """Yield how the cores that the guest is shown differ from those that it has."""
    threads = [len(core & domain.pinned_cpus) for core in cores]
    full, single = sum(n > 1 for n in threads), threads.count(1)
    if full and domain.threads_per_core == 1:
        yield (
            f"{domain.name}: it has both threads of {full} core(s), and its guest is shown"
            " cores of one thread"
        )
    if full and single:
        yield (
            f"{domain.name}: {single} single threads beside {full} full core(s): its virtual"
            " CPUs are unequal"
        )
    if domain.threads_per_core > 1:
        yield from _false_siblings(domain, cores)


def _false_siblings(domain: DomainFacts, cores: Sequence[frozenset[int]]) -> Iterator[str]:
    """Yield the guest's cores whose threads do not run on the threads of one core."""
    for first in range(0, domain.vcpus, domain.threads_per_core):
        vcpus = range(first, first + domain.threads_per_core)
        pins = frozenset(cpu for vcpu in vcpus for cpu in domain.vcpu_pins.get(vcpu, ()))
        if pins and not any(pins <= core for core in cores):
            yield (
                f"{domain.name}: virtual CPUs {listed(vcpus)} are one core to the guest and run"
                f" on CPUs {listed(pins)}, which are not"
            )


def _pins_all(domain: DomainFacts) -> Outcome:
    if not domain.vcpu_pins:
        return None
    loose = set(range(domain.vcpus)) - set(domain.vcpu_pins)
    return violated_if(
        bool(loose),
        f"{domain.name}: {domain.vcpus - len(loose)} of {domain.vcpus} virtual CPUs are pinned;"
        f" {listed(loose)} float",
    )


def _emulator_apart(domain: DomainFacts) -> Outcome:
    if not domain.vcpu_pins:
        return None
    if not domain.emulator_pins:
        return (f"{domain.name}: the emulator's threads are not pinned",)
    shared = domain.pinned_cpus & {*domain.emulator_pins, *domain.io_thread_pins}
    return violated_if(
        bool(shared),
        f"{domain.name}: emulator or I/O threads share CPUs {listed(shared)} with virtual CPUs",
    )


def _not_waiting(domain: DomainFacts) -> Outcome:
    delay = domain.vcpu_delay_fraction
    if delay is None:
        return lacking("domains.vcpu_delay_fraction")
    return violated_if(
        delay > WAITED_FRACTION,
        f"{domain.name}: a virtual CPU waited for a CPU in {format_share(delay)} of the time",
    )


def _nodes(facts: StackFacts) -> tuple[NumaNode, ...]:
    return (facts.hypervisor.nodes if facts.hypervisor else None) or ()


def _cores(facts: StackFacts) -> list[frozenset[int]]:
    """Return the threads of each core of the hypervisor."""
    siblings = facts.hypervisor.siblings if facts.hypervisor else None
    return [frozenset(core) for core in siblings or ()]


RULES: Final[tuple[Rule, ...]] = (
    Rule(
        code="KVM002",
        layers=("kvm", "hypervisor"),
        severity=Severity.ERROR,
        title="Pinned CPUs belong to the NUMA nodes of the memory",
        why="Memory is bound to its nodes: a virtual CPU elsewhere makes every cache miss a remote "
        "one. A node that the hypervisor lacks is accepted when the domain is defined and refused "
        'when it starts ("NUMA node 1 is unavailable").',
        detect="vcpupin (else the cpuset of vcpu) and numatune of the domain, cell by cell where "
        "these are bound by memnode, against /sys/devices/system/node/node*/cpulist.",
        remedy="Pin the virtual CPUs to CPUs of the memory's nodes, or move the memory to theirs.",
        source='libvirt, Domain XML format, sections "CPU Tuning" and "NUMA Node Tuning"; the '
        "message is libvirt 9.0's",
        needs=("domains", "hypervisor.nodes"),
        check=_pins_on_their_nodes,
    ),
    Rule(
        code="KVM004",
        layers=("kvm",),
        severity=Severity.ERROR,
        title="No host CPU is pinned to by two virtual CPUs",
        why="Virtual CPUs that are confined to fewer CPUs than they are must wait for each other: "
        "the guest sees steal that no neighbour causes.",
        detect="vcpupin of all domains that run or start by themselves, together; of each other "
        "domain alone. Sets of CPUs count as well as single ones.",
        remedy="Give each virtual CPU a CPU of its own.",
        source='libvirt, Domain XML format, section "CPU Tuning" (vcpupin)',
        needs=("domains",),
        check=_no_cpu_pinned_twice,
    ),
    Rule(
        code="KVM005",
        layers=("kvm", "hypervisor"),
        severity=Severity.WARNING,
        title="A virtual machine owns whole cores",
        why="Two threads share one core's units and caches: whoever uses the sibling takes about "
        "half of the core, at times that the guest cannot see.",
        detect="vcpupin of the domain against "
        "/sys/devices/system/cpu/cpu*/topology/thread_siblings_list.",
        remedy="Pin virtual CPUs to both threads of each core, or keep everything else off the "
        "siblings and switch them off.",
        source='Kubernetes, "Control CPU Management Policies on the Node", section '
        '"full-pcpus-only" (noisy neighbours on shared cores)',
        needs=("domains", "hypervisor.siblings"),
        check=_owns_whole_cores,
    ),
    Rule(
        code="KVM006",
        layers=("kvm", "hypervisor"),
        severity=Severity.WARNING,
        title="The guest is shown the cores that it has",
        why="A guest that takes threads for cores loads both threads of one core while another is "
        "idle, and full-pcpus-only gives two containers one core. One that is shown siblings "
        "that are none, or unequal ones, is misled alike.",
        detect="Full sibling pairs among the pinned CPUs against cpu/topology/@threads; virtual "
        "CPUs 2n and 2n+1 against the threads of one core; feature topoext where vendor_id in "
        "/proc/cpuinfo is AMD's and the guest is given the host's CPU.",
        remedy="Pin neighbouring virtual CPUs to the threads of one core and set topology "
        "threads='2'; with the host's CPU on AMD also feature topoext, without which the guest "
        "sees no siblings.",
        source='libvirt, Domain XML format, section "CPU model and topology"; QEMU, '
        "target/i386/cpu.c (no_autoenable_flags: topoext is not passed with -cpu host by itself); "
        "threads=2 without topoext was tried with QEMU 7.2",
        needs=("domains", "hypervisor.siblings"),
        check=_shows_real_cores,
    ),
    Rule(
        code="KVM007",
        layers=("kvm",),
        severity=Severity.WARNING,
        title="Where virtual CPUs are pinned, all are",
        why="A virtual CPU without a pin floats over all CPUs, also over those that its neighbours "
        "are pinned to.",
        detect="Number of vcpupin elements against vcpu.",
        remedy="Write one vcpupin for each virtual CPU.",
        source='libvirt, Domain XML format, section "CPU Tuning" (vcpupin: without it the virtual '
        "CPU may run on all of vcpu's cpuset, by default all)",
        needs=("domains",),
        check=of_each_domain(_pins_all),
    ),
    Rule(
        code="KVM008",
        layers=("kvm",),
        severity=Severity.WARNING,
        title="Emulator and I/O threads keep off the virtual CPUs",
        why="Unpinned, QEMU's threads for disk and network run on any CPU and take it from a "
        "virtual CPU in the middle of a statement.",
        detect="emulatorpin and iothreadpin against vcpupin.",
        remedy="Pin them with emulatorpin and iothreadpin to other cores of the same NUMA node.",
        source='libvirt, Domain XML format, section "CPU Tuning" (emulatorpin, iothreadpin)',
        needs=("domains",),
        check=of_each_domain(_emulator_apart),
    ),
    Rule(
        code="KVM015",
        layers=("kvm", "hypervisor"),
        severity=Severity.WARNING,
        title="Virtual CPUs do not wait for a CPU",
        why="Time in the hypervisor's run queue is steal, seen from below; each wait lasts up to a "
        "slice of the scheduler.",
        detect="virsh domstats --vcpu twice: growth of vcpu.N.delay over time, more than 1 % (a "
        "guess) for any of them.",
        remedy="Keep other domains and the hypervisor's own work off the pinned CPUs.",
        source="libvirt, virsh(1), domstats, vcpu.<num>.delay",
        needs=("domains",),
        check=of_each_domain(_not_waiting),
    ),
)
