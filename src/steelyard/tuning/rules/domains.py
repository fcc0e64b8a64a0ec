"""Rules of virtual machines: CPUs and memory on the hypervisor's, the definition, what is below.

Of the definition: what was kept of it, disks, CPU model. Below are the hypervisor's CPUs: idle
states, frequency.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final

from steelyard.core.findings import Severity
from steelyard.core.linux import WAITED_FRACTION, LinuxFacts, NumaNode
from steelyard.core.stack import DomainFacts, GuestCell, StackFacts
from steelyard.core.wording import GIB, US_PER_S, format_bytes, format_share
from steelyard.tuning.rules.rule import (
    HOLDS,
    NOTHING,
    Rulings,
    StackRule,
    combined,
    domains_of,
    enter,
    groups_at_once,
    lacking,
    listed,
    of_each,
    of_unread_domains,
    violated,
    violated_if,
)

_OWN_CPU: Final = ("host-passthrough", "maximum")  # modes that give the guest the host's CPU
_TOPOEXT: Final = "topoext"
_X86: Final = "x86_64"

RULES: Final[list[StackRule]] = []
_rule = partial(enter, RULES, layers=("kvm",), needs=("domains",))


@_rule(
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
    among=domains_of,
)
def _pins_on_their_nodes(domain: DomainFacts, facts: StackFacts) -> Rulings:
    nodes = {node.number: frozenset(node.cpus) for node in _nodes(facts)}
    bound = {*domain.memory_nodes, *(n for cell in domain.cells for n in cell.memory_nodes)}
    if not bound:
        return NOTHING
    if absent := bound - set(nodes):
        return violated(
            f"{domain.name}: no node {listed(absent)} for its memory on this hypervisor"
        )
    return _far_from_memory(domain, nodes) if domain.vcpu_pins else NOTHING


def _far_from_memory(domain: DomainFacts, nodes: Mapping[int, frozenset[int]]) -> Rulings:
    """Judge each cell that is bound itself, then the virtual CPUs of all others together."""
    outcomes: list[Rulings] = []
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
) -> Rulings:
    far = pinned - frozenset().union(*(nodes[number] for number in bound))
    told = f"{whose}: CPUs {listed(far)} are not on node {listed(bound)} of its memory"
    return violated_if(bool(far), told)


@_rule(
    code="KVM004",
    severity=Severity.ERROR,
    title="No host CPU is pinned to by two virtual CPUs",
    why="Virtual CPUs that are confined to fewer CPUs than they are must wait for each other: "
    "the guest sees steal that no neighbour causes.",
    detect="vcpupin of all domains that run or start by themselves, together; of each other "
    "domain alone. Sets of CPUs count as well as single ones.",
    remedy="Give each virtual CPU a CPU of its own.",
    source='libvirt, Domain XML format, section "CPU Tuning" (vcpupin)',
    of=lambda facts: groups_at_once(facts.domains or ()),
)
def _too_many_pins(domains: Sequence[DomainFacts]) -> Rulings:
    """Return the smallest sets of CPUs that more virtual CPUs are confined to than they are."""
    claims = {
        f"{domain.name}/{vcpu}": frozenset(cpus)
        for domain in domains
        for vcpu, cpus in sorted(domain.vcpu_pins.items())
    }
    if not claims:
        return NOTHING
    confined = {
        cpus: [name for name, own in claims.items() if own <= cpus]
        for cpus in sorted(set(claims.values()), key=lambda cpus: (len(cpus), sorted(cpus)))
    }
    crowded = [cpus for cpus, names in confined.items() if len(names) > len(cpus)]
    return violated(
        *(
            f"host CPU {listed(cpus)}: pinned to by {', '.join(confined[cpus])}"
            for cpus in crowded
            if not any(other < cpus for other in crowded)
        )
    )


@_rule(
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
    among=domains_of,
)
def _owns_whole_cores(domain: DomainFacts, facts: StackFacts) -> Rulings:
    pinned = domain.pinned_cpus
    if not pinned:
        return NOTHING
    split = [core for core in _cores(facts) if core & pinned and not core <= pinned]
    inside = frozenset().union(*split) & pinned
    outside = frozenset().union(*split) - pinned
    return violated_if(
        bool(split),
        f"{domain.name}: the siblings of CPUs {listed(inside)} are outside of the virtual machine:"
        f" {listed(outside)}",
    )


@_rule(
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
    among=domains_of,
)
def _shows_real_cores(domain: DomainFacts, facts: StackFacts) -> Rulings:
    if not domain.pinned_cpus:
        return NOTHING
    wrong = violated(*_wrong_cores(domain, _cores(facts)))
    return combined((wrong, _hidden_siblings(domain, facts.hypervisor or LinuxFacts())))


def _hidden_siblings(domain: DomainFacts, below: LinuxFacts) -> Rulings:
    """Return whether the guest of an AMD CPU is shown threads without the feature that tells them.

    Named models of AMD have it; the host's own CPU is passed without it.
    """
    if (
        domain.threads_per_core == 1
        or domain.cpu_mode not in _OWN_CPU
        or _TOPOEXT in domain.features
    ):
        return HOLDS
    if below.has_amd_cpu is None:
        on_x86 = below.architecture in (None, _X86)
        return lacking("hypervisor.cpu_vendor") if on_x86 else HOLDS
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


@_rule(
    code="KVM007",
    severity=Severity.WARNING,
    title="Where virtual CPUs are pinned, all are",
    why="A virtual CPU without a pin floats over all CPUs, also over those that its neighbours "
    "are pinned to.",
    detect="Number of vcpupin elements against vcpu.",
    remedy="Write one vcpupin for each virtual CPU.",
    source='libvirt, Domain XML format, section "CPU Tuning" (vcpupin: without it the virtual '
    "CPU may run on all of vcpu's cpuset, by default all)",
    of=domains_of,
)
def _pins_all(domain: DomainFacts) -> Rulings:
    if not domain.vcpu_pins:
        return NOTHING
    loose = set(range(domain.vcpus)) - set(domain.vcpu_pins)
    return violated_if(
        bool(loose),
        f"{domain.name}: {domain.vcpus - len(loose)} of {domain.vcpus} virtual CPUs are pinned;"
        f" {listed(loose)} float",
    )


@_rule(
    code="KVM008",
    severity=Severity.WARNING,
    title="Emulator and I/O threads keep off the virtual CPUs",
    why="Unpinned, QEMU's threads for disk and network run on any CPU and take it from a "
    "virtual CPU in the middle of a statement.",
    detect="emulatorpin and iothreadpin against vcpupin.",
    remedy="Pin them with emulatorpin and iothreadpin to other cores of the same NUMA node.",
    source='libvirt, Domain XML format, section "CPU Tuning" (emulatorpin, iothreadpin)',
    of=domains_of,
)
def _emulator_apart(domain: DomainFacts) -> Rulings:
    if not domain.vcpu_pins:
        return NOTHING
    if not domain.emulator_pins:
        return violated(f"{domain.name}: the emulator's threads are not pinned")
    shared = domain.pinned_cpus & {*domain.emulator_pins, *domain.io_thread_pins}
    return violated_if(
        bool(shared),
        f"{domain.name}: emulator or I/O threads share CPUs {listed(shared)} with virtual CPUs",
    )


@_rule(
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
    of=domains_of,
)
def _not_waiting(domain: DomainFacts) -> Rulings:
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


@_rule(
    code="KVM001",
    severity=Severity.ERROR,
    title="libvirt kept all elements of the domain",
    why="Without validation libvirt drops an element that is unknown or in the wrong place and "
    "says nothing. A <memballoon model='none'/> outside of <devices> is lost, and a virtio "
    "balloon is added in its stead.",
    detect="The XML that was asked for (inspect --domain-xml FILE), compared with virsh "
    "dumpxml --inactive; where libvirt has no such domain, elements of it that stand in the "
    "wrong place, and memory that is not that of the cells.",
    remedy="Check with virt-xml-validate, define with virsh define --validate, and read back.",
    source='libvirt, virsh(1), define --validate; Domain XML format, section "Memory balloon '
    'device"; tried with libvirt 9.0',
    of=domains_of,
)
def _kept_whole(domain: DomainFacts) -> Rulings:
    if domain.lost_elements is None:
        return lacking("domains.lost_elements")
    return violated(*(f"{domain.name}: lost {element}" for element in domain.lost_elements))


@_rule(
    code="KVM012",
    severity=Severity.ERROR,
    title="Disks honour flushes",
    why="cache='unsafe' ignores flushes: a commit that was confirmed is lost when the "
    "hypervisor fails, and the numbers compare with no durable system.",
    detect="disk/driver/@cache of every disk.",
    remedy="Set cache='none' with io='native' or io='io_uring' on a raw block device.",
    source='libvirt, Domain XML format, section "Hard drives, floppy disks, CDROMs" (driver, '
    "cache: unsafe ignores sync requests from the guest)",
    of=domains_of,
)
def _flushes(domain: DomainFacts) -> Rulings:
    if not domain.disks:
        return NOTHING
    unsafe = ", ".join(disk.device for disk in domain.disks if disk.cache == "unsafe")
    return violated_if(bool(unsafe), f"{domain.name}: cache='unsafe' on {unsafe}")


@_rule(
    code="KVM016",
    severity=Severity.INFO,
    title="host-passthrough is chosen knowingly",
    why="The guest sees the hypervisor's CPU as it is, which is fastest; it can move only to a "
    "hypervisor with the same CPU, kernel and QEMU.",
    detect="cpu/@mode of the domain.",
    remedy="None is needed for a virtual machine that is pinned; say it in its description.",
    source='libvirt, Domain XML format, section "CPU model and topology" (host-passthrough)',
    of=domains_of,
)
def _can_move(domain: DomainFacts) -> Rulings:
    return violated_if(
        domain.cpu_mode == "host-passthrough", f"{domain.name}: CPU mode host-passthrough"
    )


_DYNAMIC: Final = ("intel_pstate", "amd-pstate", "amd-pstate-epp")  # powersave is dynamic there
_FASTEST: Final = "performance"


@_rule(
    code="KVM013",
    layers=("hypervisor",),
    severity=Severity.WARNING,
    title="Idle CPUs of the hypervisor stay in shallow states",
    why="Leaving a deep state takes 85 to 170 µs on server CPUs. At low load every wake-up of "
    "client, server and device pays it: the latency at one client suffers, not the "
    "throughput at saturation.",
    detect="/sys/devices/system/cpu/cpu0/cpuidle/state*/{latency,disable} and the limit in "
    "/dev/cpu_dma_latency: a state slower than 10 µs that is enabled and within the limit.",
    remedy="On the hypervisor, choose TuneD's latency-performance profile, or disable the deep "
    "states: cpupower idle-set -D 10.",
    source="Linux, drivers/idle/intel_idle.c (exit latencies; commits e9a7bed4 and d484b8bf); "
    'Documentation/admin-guide/pm/cpuidle.rst, section "Power Management Quality of Service '
    'for CPUs"; TuneD, profiles/latency-performance/tuned.conf (force_latency)',
    needs=("hypervisor.idle_states",),
)
def _idles_shallow(facts: StackFacts) -> Rulings:
    machine = facts.hypervisor
    if machine is None or not machine.idle_states:
        return NOTHING
    deep = machine.deep_states
    named = ", ".join(f"{each.name} ({each.exit_latency_s * US_PER_S:.0f} µs)" for each in deep)
    return violated_if(bool(deep), f"idle CPUs of the hypervisor may enter {named}")


@_rule(
    code="KVM014",
    layers=("hypervisor",),
    severity=Severity.WARNING,
    title="The hypervisor's CPU governor is performance",
    why="Other governors lower the clock at low load, which the latency at one client shows "
    "most. What powersave means depends on the driver: with intel_pstate and amd-pstate the "
    "clock follows the load, with acpi-cpufreq it is always the lowest.",
    detect="/sys/devices/system/cpu/cpu*/cpufreq/{scaling_driver,scaling_governor,"
    "energy_performance_preference} of the hypervisor.",
    remedy="On the hypervisor: cpupower frequency-set -g performance, kept over reboots by a "
    "TuneD profile. In a virtual machine there is nothing to set.",
    source='Linux, Documentation/admin-guide/pm/intel_pstate.rst, section "Active Mode"; '
    'Documentation/admin-guide/pm/cpufreq.rst, section "Generic Scaling Governors"',
    needs=("hypervisor.governor",),
)
def _runs_fast(facts: StackFacts) -> Rulings:
    machine = facts.hypervisor
    if machine is None or machine.governor is None:
        return NOTHING
    preference = machine.energy_preference
    if machine.governor != _FASTEST:
        driver = machine.scaling_driver or "driver not seen"
        meaning = ""  # names of governors mislead
        if machine.governor == "powersave":
            is_dynamic = driver in _DYNAMIC
            meaning = ": the clock follows the load" if is_dynamic else ": always the lowest clock"
        return violated(f"governor {machine.governor} ({driver}{meaning})")
    return violated_if(
        preference not in (None, _FASTEST), f"energy performance preference {preference}"
    )


FOR_GUESTS: Final = 0.94  # of a node's memory; that the hypervisor needs the rest is a guess
_OVERHEAD_BYTES: Final = 2 * GIB  # QEMU's own; a guest of 256 MiB locked 1.56 GB
_OVERHEAD_SHARE: Final = 0.10
_STRICT: Final = "strict"


Demand = tuple[GuestCell, bool]  # strict memory, and whether its domain runs


@_rule(
    code="KVM003",
    layers=("kvm", "hypervisor"),
    severity=Severity.ERROR,
    title="Strict memory fits its NUMA nodes",
    why="Strict memory comes from its nodes or not at all: the domain is defined and does not "
    'start ("unable to map backing store for guest RAM: Cannot allocate memory").',
    detect="Memory of the domains that run or start by themselves together, of each other one "
    "alone, each cell on the nodes that it is bound to, against the nodes' MemTotal, of which "
    "6 % are left to the hypervisor (a guess); of those that are off, against the free huge "
    "pages of the size that they ask for.",
    remedy="Ask for a smaller virtual machine, allocate more pages on that node, or show the "
    "guest two cells on two nodes.",
    source='libvirt, Domain XML format, section "NUMA Node Tuning" (mode strict); the message '
    "is that of QEMU 7.2 under libvirt 9.0",
    needs=("domains", "hypervisor.nodes"),
)
def _fits_its_nodes(facts: StackFacts) -> Rulings:
    nodes = {node.number: node for node in _nodes(facts)}
    groups = [_demands(group, nodes) for group in groups_at_once(facts.domains or ())]
    return combined(_fits(group, nodes) for group in groups if group)


def _demands(domains: Sequence[DomainFacts], nodes: Mapping[int, NumaNode]) -> list[Demand]:
    """Return the strict memory of domains; a node that does not exist is KVM002's matter."""
    return [
        (part, domain.running)
        for domain in domains
        for part in domain.memory_parts.values()
        if part.memory_mode == _STRICT
        and part.memory_nodes
        and nodes.keys() >= {*part.memory_nodes}
    ]


def _fits(demands: Sequence[Demand], nodes: Mapping[int, NumaNode]) -> Rulings:
    """Return where demands that are confined to some nodes exceed what these have together.

    Memory may be divided among its nodes at will, so demands fit if and only if no union of their
    node sets is asked for more than it has (Hall's condition for a transport problem).
    """
    outcomes: list[Rulings] = []
    for union in _unions({frozenset(part.memory_nodes) for part, _ in demands}):
        confined = [each for each in demands if union.issuperset(each[0].memory_nodes)]
        members = [nodes[number] for number in sorted(union)]
        outcomes.append(_in_memory(sum(part.memory_bytes for part, _ in confined), members))
        to_come = [part for part, runs in confined if not runs]
        sizes = {part.huge_page_bytes for part in to_come if part.huge_page_bytes}
        outcomes += [_in_pages(to_come, members, size) for size in sorted(sizes)]
    return combined(outcomes)


def _unions(sets: set[frozenset[int]]) -> list[frozenset[int]]:
    """Return all unions of some of the sets, the smallest first."""
    found: set[frozenset[int]] = set()
    for each in sets:
        found |= {each, *(each | union for union in found)}
    return sorted(found, key=lambda union: (len(union), sorted(union)))


def _in_memory(needed: int, nodes: Sequence[NumaNode]) -> Rulings:
    sizes = [node.memory_bytes for node in nodes if node.memory_bytes is not None]
    if len(sizes) < len(nodes):
        return lacking("hypervisor.nodes.memory_bytes")
    numbers = listed(node.number for node in nodes)
    return violated_if(
        needed > FOR_GUESTS * sum(sizes),
        f"node {numbers}: strict virtual machines need {format_bytes(needed)} of"
        f" {format_bytes(sum(sizes))}",
    )


def _in_pages(parts: list[GuestCell], nodes: Sequence[NumaNode], page_bytes: int) -> Rulings:
    if not all(node.pools for node in nodes):
        return lacking("hypervisor.nodes.pools")
    sizes = [part.memory_bytes for part in parts if part.huge_page_bytes == page_bytes]
    asked = sum(-(-size // page_bytes) for size in sizes)
    pools = [pool for node in nodes for pool in node.pools if pool.page_bytes == page_bytes]
    free = sum(pool.free for pool in pools)
    numbers = listed(node.number for node in nodes)
    return violated_if(
        asked > free,
        f"node {numbers}: virtual machines that are off need {asked} pages of"
        f" {format_bytes(page_bytes)}, and {free} are free",
    )


@_rule(
    code="KVM009",
    severity=Severity.WARNING,
    title="Locked memory has a limit that suffices",
    why="Without hard_limit libvirt lets QEMU lock all memory of the hypervisor. A limit near "
    "the guest's memory kills the virtual machine: QEMU locks its own heap, too (1.56 GB for "
    "a guest of 256 MiB).",
    detect="memoryBacking/locked and memtune/hard_limit: at least the memory and 10 % of it, "
    "2 GiB at least.",
    remedy="Set hard_limit to the memory and 10 % of it, 2 GiB at least; or drop locked.",
    source='libvirt, Domain XML format, sections "Memory Backing" (locked: hard_limit is '
    'highly recommended) and "Memory Tuning"; the overhead was measured with QEMU 7.2, its '
    "bounds are guesses",
    of=domains_of,
)
def _locked_within_limits(domain: DomainFacts) -> Rulings:
    if not domain.locked:
        return NOTHING
    if domain.hard_limit_bytes is None:
        return violated(f"{domain.name}: locked without a hard_limit")
    overhead = max(_OVERHEAD_BYTES, int(_OVERHEAD_SHARE * domain.memory_bytes))
    return violated_if(
        domain.hard_limit_bytes < domain.memory_bytes + overhead,
        f"{domain.name}: hard_limit {format_bytes(domain.hard_limit_bytes)} leaves QEMU less than"
        f" {format_bytes(overhead)} beside {format_bytes(domain.memory_bytes)} of the guest",
    )


@_rule(
    code="KVM010",
    severity=Severity.INFO,
    title="Memory on huge pages needs no lock",
    why="Huge pages are never swapped out. Locking adds QEMU's own memory only, and the risk "
    "of KVM009.",
    detect="memoryBacking with locked and hugepages.",
    remedy="None is needed; locked may be dropped.",
    source="Linux, Documentation/admin-guide/mm/hugetlbpage.rst (huge pages cannot be swapped "
    "out under memory pressure)",
    of=domains_of,
)
def _locked_for_a_reason(domain: DomainFacts) -> Rulings:
    parts = domain.memory_parts.values()
    if any(part.huge_page_bytes is None for part in parts):
        return NOTHING
    return violated_if(
        domain.locked, f"{domain.name}: its memory is locked, and on huge pages it stays anyway"
    )


@_rule(
    code="KVM017",
    severity=Severity.ERROR,
    title="Guest memory is whole pages",
    why="257 MiB on pages of 2 MiB are accepted when the domain is defined and fail when it "
    'starts ("madvise: Invalid argument").',
    detect="memory, or else each numa/cell/@memory and memory device, against "
    "hugepages/page/@size, by its nodeset.",
    remedy="Round the memory, and that of each cell, up to whole pages.",
    source='libvirt, Domain XML format, section "Memory Backing" (hugepages); the failure is '
    "that of QEMU 7.2 under libvirt 9.0",
    of=domains_of,
)
def _whole_pages(domain: DomainFacts) -> Rulings:
    on_pages = {
        name: (part.memory_bytes, part.huge_page_bytes)
        for name, part in domain.memory_parts.items()
        if part.huge_page_bytes is not None
    }
    if not on_pages:
        return NOTHING
    return violated(
        *(
            f"{domain.name}: its {name} of {size} bytes is no multiple of {format_bytes(page)}"
            for name, (size, page) in on_pages.items()
            if size % page
        )
    )


@_rule(
    code="KVM018",
    layers=("kvm", "hypervisor"),
    severity=Severity.ERROR,
    title="The page size asked for has a hugetlbfs",
    why='The domain does not start ("Unable to find any usable hugetlbfs mount for 1048576 KiB").',
    detect="hugepages/page/@size against the hugetlbfs lines of /proc/mounts there.",
    remedy="Mount one: mount -t hugetlbfs -o pagesize=1G none /dev/hugepages1G; then restart "
    "libvirtd.",
    source='libvirt, Domain XML format, section "Memory Backing" (hugepages); the message is '
    "that of libvirt 9.0; Linux, Documentation/admin-guide/mm/hugetlbpage.rst",
    needs=("domains", "hypervisor.hugetlbfs"),
    among=domains_of,
)
def _pages_are_mounted(domain: DomainFacts, facts: StackFacts) -> Rulings:
    mounted = (facts.hypervisor.hugetlbfs if facts.hypervisor else None) or ()
    if not domain.huge_bytes:
        return NOTHING
    return violated(
        *(
            f"{domain.name}: no hugetlbfs for pages of {format_bytes(size)}"
            for size in sorted(set(domain.huge_bytes) - set(mounted))
        )
    )


@_rule(
    code="KVM011",
    layers=("kvm", "linux"),
    severity=Severity.WARNING,
    title="There is no memory balloon",
    why="A balloon takes memory from the guest while the database counts on it. libvirt adds "
    "one where the XML names none.",
    detect="devices/memballoon/@model of the domain; in the guest a virtio device 0x0005 with "
    "a driver.",
    remedy="Write <memballoon model='none'/> within <devices>, and power-cycle the virtual "
    "machine.",
    source='libvirt, Domain XML format, section "Memory balloon device"; VIRTIO 1.2, section 5 '
    "(device id 5)",
    needs=(),
)
def _without_balloon(facts: StackFacts) -> Rulings:
    """Judge by the domains, by the guest, or by both; either is evidence enough."""
    bound = facts.linux.balloon if facts.linux else None
    if facts.domains is None and bound is None:
        return lacking("domains", "linux.balloon")
    inside = NOTHING if bound is None else violated_if(bound, "the guest has virtio_balloon bound")
    domains = of_each(
        facts.domains or (),
        lambda it: violated_if(it.balloon != "none", f"{it.name}: memory balloon {it.balloon}"),
    )
    return combined([domains, of_unread_domains(facts), inside])
