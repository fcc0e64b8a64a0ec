"""Rules of a virtual machine's definition, and of the CPUs of the machine below it.

Of the definition: what was kept of it, disks, CPU model. Of the machine: idle states, frequency.
"""

from typing import Final

from steelyard.core.findings import Severity
from steelyard.core.stack_facts import DomainFacts, StackFacts
from steelyard.core.units import US_PER_S
from steelyard.tuning.rules.rule import Outcome, Rule, lacking, of_each_domain, violated_if


def _kept_whole(domain: DomainFacts) -> Outcome:
    if domain.lost_elements is None:
        return lacking("domains.lost_elements")
    return tuple(f"{domain.name}: lost {element}" for element in domain.lost_elements)


def _flushes(domain: DomainFacts) -> Outcome:
    if not domain.disks:
        return None
    unsafe = ", ".join(disk.device for disk in domain.disks if disk.cache == "unsafe")
    return violated_if(bool(unsafe), f"{domain.name}: cache='unsafe' on {unsafe}")


def _can_move(domain: DomainFacts) -> Outcome:
    return violated_if(
        domain.cpu_mode == "host-passthrough", f"{domain.name}: CPU mode host-passthrough"
    )


RULES: Final[tuple[Rule, ...]] = (
    Rule(
        code="KVM001",
        layers=("kvm",),
        severity=Severity.ERROR,
        title="libvirt kept all elements of the domain",
        why="Without validation libvirt drops an element that is unknown or in the wrong place and "
        "says nothing. A <memballoon model='none'/> outside of <devices> is lost, and a virtio "
        "balloon is added in its stead.",
        detect="The XML that was asked for (inspect --domain-xml FILE), compared with virsh "
        "dumpxml --inactive; where libvirt has no such domain, elements of it that stand in the "
        "wrong place.",
        remedy="Check with virt-xml-validate, define with virsh define --validate, and read back.",
        source='libvirt, virsh(1), define --validate; Domain XML format, section "Memory balloon '
        'device"; tried with libvirt 9.0',
        needs=("domains",),
        check=of_each_domain(_kept_whole),
    ),
    Rule(
        code="KVM012",
        layers=("kvm",),
        severity=Severity.ERROR,
        title="Disks honour flushes",
        why="cache='unsafe' ignores flushes: a commit that was confirmed is lost when the "
        "hypervisor fails, and the numbers compare with no durable system.",
        detect="disk/driver/@cache of every disk.",
        remedy="Set cache='none' with io='native' or io='io_uring' on a raw block device.",
        source='libvirt, Domain XML format, section "Hard drives, floppy disks, CDROMs" (driver, '
        "cache: unsafe ignores sync requests from the guest)",
        needs=("domains",),
        check=of_each_domain(_flushes),
    ),
    Rule(
        code="KVM016",
        layers=("kvm",),
        severity=Severity.INFO,
        title="host-passthrough is chosen knowingly",
        why="The guest sees the hypervisor's CPU as it is, which is fastest; it can move only to a "
        "hypervisor with the same CPU, kernel and QEMU.",
        detect="cpu/@mode of the domain.",
        remedy="None is needed for a virtual machine that is pinned; say it in its description.",
        source='libvirt, Domain XML format, section "CPU model and topology" (host-passthrough)',
        needs=("domains",),
        check=of_each_domain(_can_move),
    ),
)


_DYNAMIC: Final = ("intel_pstate", "amd-pstate", "amd-pstate-epp")  # powersave is dynamic there
_FASTEST: Final = "performance"


def _idles_shallow(facts: StackFacts) -> Outcome:
    machine = facts.hypervisor
    if machine is None or not machine.idle_states:
        return None
    deep = machine.deep_states
    named = ", ".join(f"{each.name} ({each.exit_latency_s * US_PER_S:.0f} µs)" for each in deep)
    return violated_if(bool(deep), f"idle CPUs of the hypervisor may enter {named}")


def _runs_fast(facts: StackFacts) -> Outcome:
    machine = facts.hypervisor
    if machine is None or machine.governor is None:
        return None
    preference = machine.energy_preference
    if machine.governor != _FASTEST:
        driver = machine.scaling_driver or "driver not seen"
        return (f"governor {machine.governor} ({driver}{_meaning(machine.governor, driver)})",)
    return violated_if(
        preference not in (None, _FASTEST), f"energy performance preference {preference}"
    )


def _meaning(governor: str, driver: str) -> str:
    """Return what ``powersave`` means with this driver, as names of governors mislead."""
    if governor != "powersave":
        return ""
    return ": the clock follows the load" if driver in _DYNAMIC else ": always the lowest clock"


HYPERVISOR_RULES: Final[tuple[Rule, ...]] = (
    Rule(
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
        check=_idles_shallow,
    ),
    Rule(
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
        check=_runs_fast,
    ),
)
