"""The processor that a domain shows its guest: its model, its cores and its NUMA cells."""

from typing import Final
from xml.etree.ElementTree import Element

from steelyard.model.cgroup import cpu_list
from steelyard.model.stack import DomainDesign
from steelyard.tuning.rendering.elements import added, emptied, ensured, kib, removed

_X86: Final = "x86_64"
_KEPT_OF_CELL: Final = ("memAccess", "discard")  # vhost-user and virtiofs need the first


def set_hints(root: Element, design: DomainDesign) -> None:
    """Tell the guest that its CPUs are its own, so that it may poll before it halts.

    KVM on x86 alone has these; without exclusive CPUs polling would cost somebody else.
    """
    if design.emulated or design.architecture != _X86:
        return
    for hint in ("hint-dedicated", "poll-control"):
        ensured(root, f"features/kvm/{hint}").set("state", "on")


def set_processor(root: Element, design: DomainDesign) -> None:
    """Set model, topology, caches and cells."""
    cpu = ensured(root, "cpu")
    removed(cpu, "model", "vendor")
    cpu.attrib.pop("match", None)
    cpu.set("mode", "maximum" if design.emulated else "host-passthrough")
    if not design.emulated:
        cpu.set("check", "none")
    native_x86 = design.architecture == _X86 and not design.emulated
    if native_x86:
        cpu.set("migratable", "off")
    _set_topology(cpu, design)
    if native_x86:
        ensured(cpu, "cache").set("mode", "passthrough")
        _set_topology_extension(cpu, design)
    _set_cells(cpu, design)


def _set_topology(cpu: Element, design: DomainDesign) -> None:
    """Show one socket per cell, and the threads of a core where CPUs come in whole cores."""
    count = len(design.vcpu_pins)
    threads = design.threads if count % design.threads == 0 else 1
    cells = len(design.nodes)
    sockets = cells if count % (cells * threads) == 0 else 1
    shape = {"sockets": sockets, "dies": 1, "cores": count // (sockets * threads)}
    told = {name: str(number) for name, number in {**shape, "threads": threads}.items()}
    emptied(cpu, "topology").attrib.update(told)


def _set_topology_extension(cpu: Element, design: DomainDesign) -> None:
    """Require what a guest on AMD needs to see siblings; measured: without it, it saw none."""
    if not design.amd or design.threads == 1:
        return
    for feature in cpu.findall("feature"):
        if feature.get("name") == "topoext":
            cpu.remove(feature)
    added(cpu, "feature", {"policy": "require", "name": "topoext"})


def _set_cells(cpu: Element, design: DomainDesign) -> None:
    former = cpu.findall("numa/cell")
    numa = emptied(cpu, "numa")
    cpus = _shares(len(design.vcpu_pins), len(design.nodes))
    pages = _shares(design.memory_bytes // design.page_bytes, len(design.nodes))
    first = 0
    for number, (width, count) in enumerate(zip(cpus, pages, strict=True)):
        kept = former[number].attrib if number < len(former) else {}
        cell = {
            "id": str(number),
            "cpus": cpu_list(range(first, first + width)),
            "memory": kib(count * design.page_bytes),
            "unit": "KiB",
        }
        added(numa, "cell", cell | {name: kept[name] for name in _KEPT_OF_CELL if name in kept})
        first += width


def _shares(count: int, parts: int) -> list[int]:
    """Return a number as whole parts that differ by one at most, the larger ones first."""
    each, rest = divmod(count, parts)
    return [each + (part < rest) for part in range(parts)]
