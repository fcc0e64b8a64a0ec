"""Rules of the CPUs as the database's kernel sees them: the time on them, and what wake-ups cost.

The cost of a wake-up is told from that of distant memory.
"""

import re
from typing import Final

from steelyard.core.findings import Severity
from steelyard.core.linux import PRESSED_FRACTION, WAITED_FRACTION, LinuxFacts
from steelyard.core.stack_facts import DomainFacts, StackFacts, Visibility
from steelyard.core.units import format_latencies, format_share
from steelyard.tuning.facts.machine import WakeUps, wake_ups
from steelyard.tuning.rules.rule import (
    Outcome,
    Rule,
    combined,
    lacking,
    listed,
    of_each_domain,
    violated_if,
)

# A guess between what was measured on one machine: 17 to 20 µs where idle CPUs halt, below 1 µs
# where they poll.
_DEAR_S: Final = 10e-6
_FARTHER_S: Final = 2e-6  # a guess: a cache line between sockets takes 0.1 to 0.2 µs


def _cheap(facts: StackFacts) -> Outcome:
    known = wake_ups(facts)
    if known.each_s is None:
        return lacking("linux.ping_pong.same_cpu_s", "linux.ping_pong.across_s")
    return (_told(known, known.each_s),) if known.each_s > _DEAR_S else ()


def _told(known: WakeUps, each_s: float) -> str:
    (latency,) = format_latencies([each_s])
    cost = (
        f"waking up a thread on another CPU takes {latency}, twice or more in every statement of a"
        " single client"
    )
    parts = [cost]
    if known.one_node:
        parts.append("there is one NUMA node, so no memory is far")
    parts += known.suspects
    if known.unseen:
        parts.append(f"not visible from here: {', '.join(known.unseen)}")
    return "; ".join(parts)


def _near(facts: StackFacts) -> Outcome:
    known = wake_ups(facts)
    if known.farther_s is None or known.each_s is None:
        return None if known.one_node else lacking("linux.ping_pong.other_node_s")
    if known.farther_s <= _FARTHER_S:
        return ()
    farther, each = format_latencies([known.farther_s, known.each_s])
    larger = "more" if known.farther_s > known.each_s else "less"
    told = (
        f"a wake-up on another NUMA node takes {farther} more than one on the same node, {larger}"
        f" than the {each} that the latter takes beyond a switch on one CPU"
    )
    return (told,)


WAKING_RULES: Final[tuple[Rule, ...]] = (
    Rule(
        code="WAK001",
        layers=("hypervisor", "kvm", "linux"),
        severity=Severity.WARNING,
        title="Waking up another CPU costs little",
        why="at one client it is in every statement, reads and writes alike, and is easily taken"
        " for the distance of memory",
        detect="round trips of one byte between two threads, on one CPU and across two; idle"
        " states, halt polling, run-queue delay. More than"
        f" {_DEAR_S * 1e6:.0f} µs per wake-up is a guess",
        remedy="Change one thing at a time and repeat the probe: hold the latency down (tuned"
        " latency-performance or /dev/cpu_dma_latency), poll before halting (haltpoll), give"
        " virtual CPUs their own; memory placement does not help here.",
        source="measured between two virtual CPUs of one node: 40 µs a round trip, 5 µs with halt"
        " polling; Linux, Documentation/virt/guest-halt-polling.rst",
        needs=("linux.ping_pong",),
        check=_cheap,
    ),
    Rule(
        code="WAK002",
        layers=("linux",),
        severity=Severity.INFO,
        title="Crossing NUMA nodes adds little to a wake-up",
        why="then the node of the load generator, pooler or client shows in every statement",
        detect="the same between nodes;"
        f" more than {_FARTHER_S * 1e6:.0f} µs per wake-up is a guess",
        remedy="Keep server and client on one node, or on other machines; say in reports which.",
        source="the published series does not say on which node its load generator ran",
        needs=("linux.ping_pong",),
        check=_near,
    ),
)


_FAST_CLOCKS: Final = frozenset(
    {"tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "timebase", "tod"}
)
_BURSTABLE: Final = re.compile(r"(?:db\.|cache\.)?t(?:1|2|3a?|4g)\.")


def _no_governor_in_guest(facts: StackFacts) -> Outcome:
    machine = facts.linux or LinuxFacts()
    wanted = facts.intent.guest_governor
    if wanted is None or machine.virtualization == "none":
        return None
    if machine.scaling_driver is not None:
        return ()
    if facts.origin("linux.scaling_driver").visibility is not Visibility.NO:
        return lacking("linux.scaling_driver")
    return (f"governor {wanted} is to be set in a virtual machine that has no cpufreq",)


def _no_idle_scanning(facts: StackFacts) -> Outcome:
    machine = facts.linux or LinuxFacts()
    return violated_if(
        bool(machine.numa_balancing) and len(machine.nodes or ()) == 1,
        f"kernel.numa_balancing = {machine.numa_balancing} with one node",
    )


def _fast_clock(facts: StackFacts) -> Outcome:
    clock = (facts.linux or LinuxFacts()).clocksource
    return violated_if(clock not in _FAST_CLOCKS, f"clock source {clock}")


def _undisturbed(facts: StackFacts) -> Outcome:
    machine = facts.linux or LinuxFacts()
    return combined(
        (
            _below("steal_fraction", machine.steal_fraction, WAITED_FRACTION, "steal"),
            _below(
                "cpu_pressure_fraction",
                machine.cpu_pressure_fraction,
                PRESSED_FRACTION,
                "tasks waited for a CPU in",
            ),
        )
    )


def _below(fact: str, value: float | None, limit: float, words: str) -> Outcome:
    if value is None:
        return lacking(f"linux.{fact}")
    return violated_if(value > limit, f"{words} {format_share(value)} of the time")


def _steady_instance(facts: StackFacts) -> Outcome:
    """Judge the machine's own type, which bare metal has none of, and the class compared with."""
    machine = facts.linux or LinuxFacts()
    compared = facts.bench.reference_class if facts.bench else None
    own = lacking("linux.instance_type") if machine.virtualization != "none" else None
    return combined(
        (
            _steady(machine.instance_type) if machine.instance_type else own,
            _steady(compared) if compared else None,
        )
    )


def _steady(name: str) -> Outcome:
    return violated_if(bool(_BURSTABLE.match(name)), f"{name} is burstable")


def _shows_its_nodes(facts: StackFacts) -> Outcome:
    nodes = (facts.hypervisor.nodes if facts.hypervisor else None) or ()
    home = {cpu: node.number for node in nodes for cpu in node.cpus}

    def check(domain: DomainFacts) -> Outcome:
        bound = {*domain.memory_nodes, *(n for cell in domain.cells for n in cell.memory_nodes)}
        spanned = bound | {home[cpu] for cpu in domain.pinned_cpus if cpu in home}
        shown = max(1, len(domain.cells))
        if not spanned:
            return None
        return violated_if(
            len(spanned) > shown,
            f"{domain.name}: it spans nodes {listed(spanned)} and its guest is shown {shown}",
        )

    return of_each_domain(check)(facts)


RULES: Final[tuple[Rule, ...]] = (
    Rule(
        code="OS003",
        layers=("linux", "hypervisor"),
        severity=Severity.INFO,
        title="No CPU governor is set within a virtual machine",
        why="The guest has no cpufreq: cpupower fails there or does nothing, and the hypervisor's "
        "clock stays as it was.",
        detect="The intent to set a governor, and no /sys/devices/system/cpu/cpu0/cpufreq.",
        remedy="Set it on the hypervisor (KVM014), or ask who runs it.",
        source='Linux, Documentation/admin-guide/pm/cpufreq.rst, section "Policy Interface in '
        'sysfs"; tried in guests of KVM and TCG (cpupower: "Error setting new values")',
        needs=("linux.virtualization",),
        check=_no_governor_in_guest,
    ),
    Rule(
        code="OS007",
        layers=("linux",),
        severity=Severity.INFO,
        title="Automatic NUMA balancing is off where there is one node",
        why="It unmaps pages to see who touches them, at the price of page faults, and with one "
        "node there is nowhere to move them to. Memory that is bound to nodes is left alone by "
        "the kernel itself.",
        detect="/proc/sys/kernel/numa_balancing and /sys/devices/system/node/online.",
        remedy="kernel.numa_balancing = 0 in a file of /etc/sysctl.d.",
        source="Linux, Documentation/admin-guide/sysctl/kernel.rst, numa_balancing; "
        "kernel/sched/fair.c, task_numa_work (passes over memory whose policy forbids moving); "
        "TuneD, profiles/network-latency/tuned.conf (kernel.numa_balancing=0)",
        needs=("linux.numa_balancing", "linux.nodes"),
        check=_no_idle_scanning,
    ),
    Rule(
        code="OS010",
        layers=("linux",),
        severity=Severity.WARNING,
        title="Reading the clock needs no system call",
        why="hpet, acpi_pm and xen make each look at the clock a system call or an exit to the "
        "hypervisor: EXPLAIN ANALYZE, track_io_timing and Redis look often.",
        detect="/sys/devices/system/clocksource/clocksource0/current_clocksource; pg_test_timing "
        "shows more than 200 ns.",
        remedy="Use tsc, or kvm-clock in a guest of KVM: write it to current_clocksource; find out "
        "from the kernel's log why it was given up.",
        source="Redis, src/syscheck.c, checkClocksource; PostgreSQL 18 documentation, "
        '"pg_test_timing"; a guest under TCG fell back to hpet',
        needs=("linux.clocksource",),
        check=_fast_clock,
    ),
    Rule(
        code="OS011",
        layers=("linux", "bench"),
        severity=Severity.WARNING,
        title="Nobody else takes CPU time",
        why="Busy neighbours made latencies 12 to 20 times longer. In a virtual machine they are "
        "pressure, below it they are steal; one does not show the other.",
        detect="Growth of steal in /proc/stat above 1 % of the time, or some of /proc/pressure/cpu "
        "above 10 % (guesses).",
        remedy="Find who it is, and measure when it is quiet.",
        source="Linux, Documentation/filesystems/proc.rst, section 1.7 (steal); "
        "Documentation/accounting/psi.rst; the factor was measured",
        needs=(),
        check=_undisturbed,
    ),
    Rule(
        code="OS012",
        layers=("linux", "bench"),
        severity=Severity.WARNING,
        title="The instance has its CPUs at all times",
        why="A burstable instance is entitled to a share (30 % of each CPU of a t3.large) and "
        "borrows the rest: a short test sees the burst only. RDS runs T3 in unlimited mode, so it "
        "bills what is borrowed and does not slow down.",
        detect="/sys/class/dmi/id/product_name or the metadata's instance-type, and the class "
        "compared with: t1, t2, t3, t3a, t4g.",
        remedy="Use a class of the m, r or c families; or run until credits are gone and record "
        "CPUCreditBalance and CPUSurplusCreditsCharged.",
        source='AWS, "Amazon EC2 User Guide", section "Burstable performance instances"; AWS, '
        '"Amazon RDS User Guide", section "DB instance class types" (T3 in unlimited mode)',
        needs=(),
        check=_steady_instance,
    ),
    Rule(
        code="OS014",
        layers=("linux", "kvm", "hypervisor"),
        severity=Severity.INFO,
        title="A guest that spans NUMA nodes is shown them",
        why="A guest that takes two nodes for one cannot keep a process near its memory.",
        detect="Host nodes of numatune and of the pinned CPUs against the domain's numa cells.",
        remedy="Show one cell for each host node, bound by numatune/memnode.",
        source='libvirt, Domain XML format, sections "NUMA Node Tuning" (memnode) and "CPU model '
        'and topology" (numa, cell)',
        needs=("domains",),
        check=_shows_its_nodes,
    ),
)
