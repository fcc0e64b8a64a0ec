"""A libvirt domain from its design, and an existing domain changed to fit one.

Both are made by the same functions, which change an element where it is and append it where it
lacks: the processor with its cores and NUMA cells, memory, disks that keep flushes, no balloon.
The reasons are those of the rules KVM001 to KVM018.
"""

from collections.abc import Mapping
from itertools import product
from string import ascii_lowercase
from typing import Final
from xml.etree.ElementTree import Element, SubElement, indent

from steelyard.core.linux import cpu_list
from steelyard.core.stack import DomainDesign
from steelyard.core.wording import KIB, InputError
from steelyard.tuning.facts.domain_xml import domain_text, parse_domain, whole


def ensured(parent: Element, path: str) -> Element:
    """Return the first element at a path below a parent; what lacks is appended."""
    for tag in path.split("/"):
        found = parent.find(tag)
        parent = SubElement(parent, tag) if found is None else found
    return parent


def emptied(parent: Element, tag: str) -> Element:
    """Return the first child of a tag, in its place, without what was in it."""
    child = ensured(parent, tag)
    after = child.tail
    child.clear()
    child.tail = after
    return child


def removed(parent: Element, *tags: str) -> None:
    """Remove all children of some tags."""
    for child in [each for each in parent if each.tag in tags]:
        parent.remove(child)


def added(parent: Element, tag: str, attributes: Mapping[str, str], text: str = "") -> Element:
    """Append a child and return it."""
    child = SubElement(parent, tag, dict(attributes))
    if text:
        child.text = text
    return child


def set_amount(root: Element, path: str, count: int) -> None:
    """Set an amount of memory, in KiB as libvirt writes it."""
    element = ensured(root, path)
    element.set("unit", "KiB")
    element.text = kib(count)


def kib(count: int) -> str:
    """Return bytes in whole KiB, rounded up."""
    return str(-(-count // KIB))


_RANDOM: Final = "/dev/urandom"
_NAMES: Final = tuple("vd" + "".join(pair) for pair in product(("", *"abc"), ascii_lowercase))


def add_devices(root: Element, design: DomainDesign) -> None:
    """Add the devices of a new domain."""
    devices = added(root, "devices", {})
    for name, path in zip(_NAMES, design.disks, strict=False):
        _add_disk(devices, name, path, design)
    if design.bridge is not None:
        interface = added(devices, "interface", {"type": "bridge"})
        added(interface, "source", {"bridge": design.bridge})
        added(interface, "model", {"type": "virtio"})
        if not design.emulated:
            queues = str(len(design.vcpu_pins))
            added(interface, "driver", {"name": "vhost", "queues": queues})
    added(devices, "serial", {"type": "pty"})
    added(devices, "console", {"type": "pty"})
    added(devices, "memballoon", {"model": "none"})
    added(added(devices, "rng", {"model": "virtio"}), "backend", {"model": "random"}, _RANDOM)


def patch_devices(root: Element, design: DomainDesign) -> None:
    """Take the balloon away, and make disks keep flushes and use the I/O thread."""
    removed(root, "memballoon")  # misplaced: libvirt would drop it and add a balloon
    devices = ensured(root, "devices")
    emptied(devices, "memballoon").set("model", "none")
    for driver in devices.findall("disk/driver"):
        if driver.get("cache") == "unsafe":
            driver.set("cache", "none")
    if design.io_thread_pins:
        given = root.find("iothreadids/iothread")
        thread = "1" if given is None else given.get("id", "1")
        for disk in devices.findall("disk"):
            target = disk.find("target")
            if target is not None and target.get("bus") == "virtio":
                driver = ensured(disk, "driver")
                driver.set("iothread", driver.get("iothread", thread))


def _add_disk(devices: Element, name: str, path: str, design: DomainDesign) -> None:
    """Add a disk past the host's page cache, which would only keep a second copy."""
    block = path.startswith("/dev/")
    disk = added(devices, "disk", {"type": "block" if block else "file", "device": "disk"})
    form = "qcow2" if path.endswith(".qcow2") else "raw"
    driver = {"name": "qemu", "type": form, "cache": "none", "io": "native", "discard": "unmap"}
    if design.io_thread_pins:
        driver["iothread"] = "1"
    added(disk, "driver", driver | {"queues": str(len(design.vcpu_pins))})
    added(disk, "source", {"dev" if block else "file": path})
    added(disk, "target", {"dev": name, "bus": "virtio"})


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
        if design.amd and design.threads > 1:  # measured: without it, a guest saw no siblings
            for feature in cpu.findall("feature"):
                if feature.get("name") == "topoext":
                    cpu.remove(feature)
            added(cpu, "feature", {"policy": "require", "name": "topoext"})
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


_HEAD: Final = """\
<!-- Made by `steelyard stack plan`. Have libvirt validate it when it is defined: without that it
     drops what it does not know, and says nothing. -->
"""


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
    if root.find("devices/memory") is not None:
        raise InputError(
            f"the XML of `{name}` has memory modules, which libvirt adds to the planned memory",
            hint="Take them and <maxMemory> out: virsh detach-device NAME FILE --config.",
        )
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
    memory = ensured(root, "numatune")
    removed(memory, "memory", "memnode")
    added(memory, "memory", {"mode": "strict", "nodeset": cpu_list(design.nodes)})
    for cell, node in enumerate(design.nodes):
        added(memory, "memnode", {"cellid": str(cell), "mode": "strict", "nodeset": str(node)})


def _io_threads(root: Element) -> list[str]:
    """Return the ids of the I/O threads; they count from 1 where none are given."""
    given = [each.get("id", "") for each in root.findall("iothreadids/iothread")]
    count = whole(root.findtext("iothreads"), "number of I/O threads")
    spare = (str(number) for number in range(1, count + len(given) + 1) if str(number) not in given)
    return (given + list(spare))[:count]


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
