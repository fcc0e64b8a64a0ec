"""The devices of a domain: disks that keep flushes, no balloon."""

from itertools import product
from string import ascii_lowercase
from typing import Final
from xml.etree.ElementTree import Element

from steelyard.model.stack import DomainDesign
from steelyard.tuning.rendering.elements import added, emptied, ensured, removed

_RANDOM: Final = "/dev/urandom"
_NAMES: Final = tuple("vd" + "".join(pair) for pair in product(("", *"abc"), ascii_lowercase))


def add_devices(root: Element, design: DomainDesign) -> None:
    """Add the devices of a new domain."""
    devices = added(root, "devices", {})
    for name, path in zip(_NAMES, design.disks, strict=False):
        _add_disk(devices, name, path, design)
    if design.bridge is not None:
        _add_interface(devices, design)
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
        thread = root.find("iothreadids/iothread")
        _use_thread(devices, "1" if thread is None else thread.get("id", "1"))


def _use_thread(devices: Element, thread: str) -> None:
    for disk in devices.findall("disk"):
        target = disk.find("target")
        if target is not None and target.get("bus") == "virtio":
            driver = ensured(disk, "driver")
            if "iothread" not in driver.attrib:
                driver.set("iothread", thread)


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


def _add_interface(devices: Element, design: DomainDesign) -> None:
    interface = added(devices, "interface", {"type": "bridge"})
    added(interface, "source", {"bridge": design.bridge or ""})
    added(interface, "model", {"type": "virtio"})
    if not design.emulated:
        queues = str(len(design.vcpu_pins))
        added(interface, "driver", {"name": "vhost", "queues": queues})
