"""Rules of a virtual machine's definition: what was kept of it, disks, CPU model."""

from typing import Final

from steelyard.core.findings import Severity
from steelyard.core.stack_facts import DomainFacts
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
