"""A libvirt domain from its design, and an existing domain changed to fit one.

Both are made by the same functions, which change an element where it is and append it where it
lacks. The reasons are those of the rules KVM001 to KVM018.
"""

from typing import Final
from xml.etree.ElementTree import Element, indent

from steelyard.model.cgroup import cpu_list
from steelyard.model.errors import InputError
from steelyard.model.stack import DomainDesign
from steelyard.tuning.facts.domain_tree import domain_text, parse_domain, whole
from steelyard.tuning.rendering.domain_devices import add_devices, patch_devices
from steelyard.tuning.rendering.domain_processor import set_hints, set_processor
from steelyard.tuning.rendering.elements import added, emptied, ensured, kib, removed, set_amount

_HEAD: Final = """\
<!-- Made by `steelyard stack plan`. Have libvirt validate it when it is defined: without that it
     drops what it does not know, and says nothing. -->
"""
_X86: Final = "x86_64"


def domain_xml(design: DomainDesign) -> str:
    """Return the XML of a new domain; it validates against libvirt's schema."""
    root = Element("domain", type="qemu" if design.emulated else "kvm")
    ensured(root, "name").text = design.name
    _set_memory(root, design)
    _set_pins(root, design)
    _add_system(root, design)
    set_hints(root, design)
    set_processor(root, design)
    _add_clock(root, design)
    add_devices(root, design)
    indent(root)
    return _HEAD + domain_text(root)


def patch_domain(existing_xml: str, design: DomainDesign) -> str:
    """Return an existing domain's XML with what the plan says, and nothing else, changed.

    Its devices stay, with two exceptions: the memory balloon, and a disk cache that ignores
    flushes. Disks on virtio get the I/O thread that the plan pins.

    Raises:
        InputError: It is no XML of a domain, or that of another domain.
    """
    root = parse_domain(existing_xml)
    name = (root.findtext("name") or "").strip()
    if name != design.name:
        message = f"the XML is that of domain `{name}`; the plan is for `{design.name}`"
        raise InputError(message, hint=f"Plan for it with `--name {name}`, or give the other XML.")
    _set_memory(root, design)
    _set_pins(root, design)
    set_hints(root, design)
    set_processor(root, design)
    patch_devices(root, design)
    indent(root)
    return domain_text(root)


def _set_memory(root: Element, design: DomainDesign) -> None:
    set_amount(root, "memory", design.memory_bytes)
    set_amount(root, "currentMemory", design.memory_bytes)
    if design.hard_limit_bytes is not None:
        set_amount(root, "memtune/hard_limit", design.hard_limit_bytes)
    backing = ensured(root, "memoryBacking")
    cells = {"nodeset": cpu_list(range(len(design.nodes)))}
    page = {"size": kib(design.page_bytes), "unit": "KiB", **cells}
    added(emptied(backing, "hugepages"), "page", page)
    ensured(backing, "nosharepages")
    if design.hard_limit_bytes is None:
        removed(backing, "locked")
    else:
        ensured(backing, "locked")
    ensured(backing, "allocation").set("mode", "immediate")


def _set_pins(root: Element, design: DomainDesign) -> None:
    vcpu = ensured(root, "vcpu")
    vcpu.attrib.pop("current", None)
    vcpu.set("placement", "static")
    vcpu.set("cpuset", cpu_list(design.vcpu_pins))
    vcpu.text = str(len(design.vcpu_pins))
    removed(root, "vcpus")  # the state of each CPU of the former number
    if design.io_thread_pins and root.find("iothreads") is None:
        ensured(root, "iothreads").text = "1"
    tune = ensured(root, "cputune")
    removed(tune, "vcpupin", "emulatorpin", "iothreadpin")
    for number, cpu in enumerate(design.vcpu_pins):
        added(tune, "vcpupin", {"vcpu": str(number), "cpuset": str(cpu)})
    if design.emulator_pins:
        added(tune, "emulatorpin", {"cpuset": cpu_list(design.emulator_pins)})
    for thread in _io_threads(root) if design.io_thread_pins else ():
        pin = {"iothread": thread, "cpuset": cpu_list(design.io_thread_pins)}
        added(tune, "iothreadpin", pin)
    _set_nodes(root, design)


def _io_threads(root: Element) -> list[str]:
    """Return the ids of the I/O threads; they count from 1 where none are given."""
    given = [each.get("id", "") for each in root.findall("iothreadids/iothread")]
    count = whole(root.findtext("iothreads"), "number of I/O threads")
    spare = (str(number) for number in range(1, count + len(given) + 1) if str(number) not in given)
    return (given + list(spare))[:count]


def _set_nodes(root: Element, design: DomainDesign) -> None:
    tune = ensured(root, "numatune")
    removed(tune, "memory", "memnode")
    added(tune, "memory", {"mode": "strict", "nodeset": cpu_list(design.nodes)})
    for cell, node in enumerate(design.nodes):
        at = {"cellid": str(cell), "mode": "strict", "nodeset": str(node)}
        added(tune, "memnode", at)


def _add_system(root: Element, design: DomainDesign) -> None:
    intel = design.architecture == _X86
    system = added(root, "os", {} if intel else {"firmware": "efi"})  # ACPI on Arm needs it
    machine = {"arch": design.architecture, "machine": "q35" if intel else "virt"}
    added(system, "type", machine, "hvm")
    added(system, "boot", {"dev": "hd"})
    features = added(root, "features", {})
    for feature in ("acpi", "apic") if intel else ("acpi",):
        added(features, feature, {})


def _add_clock(root: Element, design: DomainDesign) -> None:
    clock = added(root, "clock", {"offset": "utc"})
    if design.architecture == _X86:
        added(clock, "timer", {"name": "rtc", "tickpolicy": "catchup"})
        added(clock, "timer", {"name": "pit", "tickpolicy": "delay"})
        added(clock, "timer", {"name": "hpet", "present": "no"})
    for event, action in (("poweroff", "destroy"), ("reboot", "restart"), ("crash", "restart")):
        added(root, f"on_{event}", {}, action)
