"""What a domain's XML says of a virtual machine."""

from collections.abc import Iterator, Mapping
from typing import Final
from xml.etree.ElementTree import Element

from steelyard.model.errors import InputError
from steelyard.model.stack_facts import DomainDisk, DomainFacts, GuestCell
from steelyard.model.units import MIB
from steelyard.tuning.facts.domain_losses import lost_elements
from steelyard.tuning.facts.domain_tree import amount_bytes, as_bytes, numbers, parse_domain, whole

_DISKS: Final = ("disk", "lun")  # no CD-ROMs and floppies
_REFUSED: Final = ("disable", "forbid")  # policies of a CPU feature that the guest shall not see
_USUAL_MODE: Final = "strict"  # of libvirt, where none is named
_HUGE_PAGE_BYTES: Final = 2 * MIB  # x86-64 and 4 KiB pages of Arm, where the XML names no size


def domain_facts(
    xml: str, asked: str | None = None, *, huge_page_bytes: int = _HUGE_PAGE_BYTES
) -> DomainFacts:
    """Return what a domain's XML says; that it runs when it has an id, as only running ones have.

    Args:
        xml: As ``virsh dumpxml`` prints it.
        asked: The XML that libvirt was given; then what it did not keep is compared.
        huge_page_bytes: The host's default size, for ``<hugepages/>`` without a size.

    Raises:
        InputError: One of them is no XML of a domain.
    """
    root = parse_domain(xml)
    topology = _attribute(root, "cpu/topology", "threads")
    return DomainFacts(
        name=(root.findtext("name") or "").strip(),
        vcpus=_vcpus(root),
        running="id" in root.attrib,
        vcpu_pins=_vcpu_pins(root),
        emulator_pins=numbers(_attribute(root, "cputune/emulatorpin", "cpuset")) or _anywhere(root),
        io_thread_pins=_union(root, "cputune/iothreadpin", "cpuset") or _io_threads(root),
        memory_bytes=_memory_bytes(root),
        cells=_cells(root),
        memory_mode=_memory_mode(root),
        memory_nodes=_memory_nodes(root),
        huge_page_bytes=_huge_page_bytes(root, huge_page_bytes),
        locked=root.find("memoryBacking/locked") is not None,
        hard_limit_bytes=amount_bytes(root.find("memtune/hard_limit")),
        balloon=_attribute(root, "devices/memballoon", "model") or "virtio",
        cpu_mode=_cpu_mode(root.find("cpu")),
        threads_per_core=1 if topology is None else whole(topology, "number of threads"),
        features=tuple(_features(root)),
        disks=tuple(_disk(each) for each in root.findall("devices/disk") if _holds_data(each)),
        lost_elements=None if asked is None else lost_elements(parse_domain(asked), root),
    )


def _attribute(root: Element, path: str, name: str) -> str | None:
    found = root.find(path)
    return None if found is None else found.get(name)


def _union(root: Element, path: str, name: str) -> tuple[int, ...]:
    found = {each for element in root.findall(path) for each in numbers(element.get(name))}
    return tuple(sorted(found))


def _vcpus(root: Element) -> int:
    """Return how many virtual CPUs it starts with: one where libvirt is told none."""
    vcpu = root.find("vcpu")
    return 1 if vcpu is None else whole(vcpu.get("current") or vcpu.text, "number of CPUs")


def _anywhere(root: Element) -> tuple[int, ...]:
    """Return the CPUs of whatever has no pin of its own; empty where libvirt is told none.

    The set counts unless libvirt asks numad instead (formatdomain, vcpu: cpuset, placement).
    """
    vcpu = root.find("vcpu")
    if vcpu is None or vcpu.get("placement") == "auto":
        return ()
    return numbers(vcpu.get("cpuset"))


def _vcpu_pins(root: Element) -> dict[int, tuple[int, ...]]:
    """Return the CPUs of each virtual CPU that may not run everywhere."""
    anywhere = _anywhere(root)
    pins = {
        whole(pin.get("vcpu"), "virtual CPU"): numbers(pin.get("cpuset"))
        for pin in root.findall("cputune/vcpupin")
    }
    return pins | {n: anywhere for n in range(_vcpus(root)) if anywhere and n not in pins}


def _io_threads(root: Element) -> tuple[int, ...]:
    """Return the CPUs of I/O threads without a pin; empty where there are no such threads."""
    return _anywhere(root) if root.find("iothreads") is not None else ()


def _memory_bytes(root: Element) -> int:
    """Return the memory; libvirt adds up the cells where it is not said."""
    said = amount_bytes(root.find("memory"))
    cells = sum(cell.memory_bytes for cell in _cells(root))
    if said is None and not cells:
        message = "the domain XML does not say how much memory the machine has"
        raise InputError(message, hint="Add `<memory unit='GiB'>8</memory>` under <domain>.")
    return cells if said is None else said


def _cells(root: Element) -> tuple[GuestCell, ...]:
    bound = {
        whole(node.get("cellid"), "number of a cell"): node
        for node in root.findall("numatune/memnode")
    }
    cells = enumerate(root.findall("cpu/numa/cell"))
    return tuple(_cell(cell, place, bound) for place, cell in cells)


def _cell(cell: Element, place: int, bound: Mapping[int, Element]) -> GuestCell:
    number = whole(cell.get("id", str(place)), "number of a cell")
    own = bound.get(number)
    return GuestCell(
        number=number,
        memory_bytes=as_bytes(cell.get("memory", ""), cell.get("unit")),
        cpus=numbers(cell.get("cpus")),
        memory_mode=None if own is None else own.get("mode", _USUAL_MODE),
        memory_nodes=() if own is None else numbers(own.get("nodeset")),
    )


def _memory_mode(root: Element) -> str | None:
    """Return how strictly memory is bound; libvirt binds strictly where no mode is said."""
    for path in ("numatune/memory", "numatune/memnode"):
        if (found := root.find(path)) is not None:
            return found.get("mode", _USUAL_MODE)
    return None


def _memory_nodes(root: Element) -> tuple[int, ...]:
    """Return the host nodes of its memory; the cells' own where each cell has one."""
    cells = _cells(root)
    own = {node for cell in cells for node in cell.memory_nodes}
    whole_domain = _union(root, "numatune/memory", "nodeset")
    return whole_domain or (tuple(sorted(own)) if all(c.memory_nodes for c in cells) else ())


def _huge_page_bytes(root: Element, default: int) -> int | None:
    """Return the size of the pages behind its memory; the largest where cells differ."""
    backing = root.find("memoryBacking/hugepages")
    if backing is None:
        return None
    sizes = [as_bytes(each.get("size", ""), each.get("unit")) for each in backing.findall("page")]
    return max(sizes, default=default)


def _cpu_mode(cpu: Element | None) -> str | None:
    """Return how its CPU is chosen: ``custom`` where only a model is named."""
    if cpu is None:
        return None
    return cpu.get("mode") or ("custom" if cpu.find("model") is not None else None)


def _features(root: Element) -> Iterator[str]:
    """Return what is switched on: of the machine, of KVM, and of the CPU beyond its model."""
    for feature in root.findall("features/*"):
        if feature.tag == "kvm":
            yield from (str(each.tag) for each in feature if each.get("state") == "on")
        elif isinstance(feature.tag, str) and feature.get("state", "on") == "on":
            yield feature.tag
    for feature in root.findall("cpu/feature"):
        if feature.get("policy", "require") not in _REFUSED:
            yield feature.get("name", "")


def _holds_data(disk: Element) -> bool:
    return disk.get("device", "disk") in _DISKS


def _disk(disk: Element) -> DomainDisk:
    return DomainDisk(
        device=_attribute(disk, "target", "dev") or "",
        cache=_attribute(disk, "driver", "cache"),
        io=_attribute(disk, "driver", "io"),
    )
