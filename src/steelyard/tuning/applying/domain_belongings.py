"""What a domain owns beside disks and cards: other devices, its firmware, what its owner wrote.

A definition replaces the former one whole: what it does not name is gone from the domain. What
libvirt adds by itself to a definition without it is no loss (formatdomain; and what libvirt 9.0
added to the definitions of our tests).
"""

from collections.abc import Iterator
from pathlib import PurePath
from typing import Final
from xml.etree.ElementTree import Element

_ELSEWHERE: Final = frozenset({"disk", "interface"})  # told by sources and addresses
_OF_ITSELF: Final = frozenset({"memballoon", "audio", "hub"})  # the first is the plan's
_USUAL_PROGRAMS: Final = ("/usr/bin/", "/usr/libexec/")  # QEMU as distributions install it
_OWN: Final = frozenset({"type", "model", "mode", "name", "bus"})
_PARTS: Final = ("source", "target", "backend", "model", "cid")
_OWNER_S: Final = (  # of the owner, below <domain>
    "title",
    "description",
    "metadata",
    "genid",
    "sysinfo",
    "launchSecurity",
    "seclabel",
)
_SYSTEM: Final = ("kernel", "initrd", "dtb")

Traits = frozenset[tuple[str, str]]


def lost_devices(asked: Element, present: Element) -> Iterator[str]:
    """Return which devices of the present definition have no counterpart in the asked one."""
    free = [(_kind(each), _traits(each)) for each in asked.findall("devices/*") if _is_told(each)]
    free.sort(key=lambda each: -len(each[1]))  # the most exact one first
    for device in present.findall("devices/*"):
        if not _is_told(device) or _is_made_by_libvirt(device, asked):
            continue
        traits = _traits(device)
        match = next((one for one in free if one[0] == _kind(device) and one[1] <= traits), None)
        if match is None:
            yield _named(device)
        else:
            free.remove(match)


def lost_system(asked: Element, present: Element) -> Iterator[str]:
    """Return what of firmware, kernel and the owner's own words the asked definition lacks."""
    yield from _lost_firmware(asked, present)
    for tag in _SYSTEM:
        if present.find(f"os/{tag}") is not None and asked.find(f"os/{tag}") is None:
            yield f"{tag} {_text(present, f'os/{tag}')}"
    there = {child.tag for child in asked}
    for child in present:
        foreign = isinstance(child.tag, str) and ":" in child.tag  # qemu:commandline
        if (foreign or child.tag in _OWNER_S) and child.tag not in there:
            yield f"<{child.tag}>"
    program = _text(present, "devices/emulator")
    other = not program.startswith(_USUAL_PROGRAMS)
    if program and other and program != _text(asked, "devices/emulator"):
        yield f"emulator {program}"


def _lost_firmware(asked: Element, present: Element) -> Iterator[str]:
    chosen = _system(present).get("firmware")
    if chosen and chosen == _system(asked).get("firmware"):
        return  # libvirt chooses the files
    loader, variables = _text(present, "os/loader"), _text(present, "os/nvram")
    if loader and loader != _text(asked, "os/loader"):
        yield f"firmware {loader}"
    elif chosen and not loader:
        yield f"firmware {chosen}"
    made = PurePath(variables).name.startswith(f"{_text(present, 'name')}_VARS.")
    wanted = _text(asked, "os/nvram")
    if variables and variables != wanted and (wanted or not made or not _text(asked, "os/loader")):
        yield f"firmware variables {variables}"


def _is_told(device: Element) -> bool:
    tag = device.tag
    return isinstance(tag, str) and tag not in _ELSEWHERE | _OF_ITSELF | {"emulator"}


def _is_made_by_libvirt(device: Element, asked: Element) -> bool:
    """Return whether libvirt adds such a device to a definition that lacks it."""
    if device.tag == "controller":
        return device.get("type") != "scsi" or device.get("model") in (None, "lsilogic")
    if device.tag == "console":  # that of the first serial port is the port itself
        return _attribute(device, "target", "type") in ("", "serial")
    if device.tag == "input":
        return device.get("bus") == "ps2"
    if device.tag == "video":
        return asked.find("devices/graphics") is not None and asked.find("devices/video") is None
    return device.tag == "watchdog" and device.get("model") == "itco"


def _kind(device: Element) -> str:
    """Return a device's tag; a lone console becomes a serial port."""
    serial = device.tag == "console" and _attribute(device, "target", "type") in ("", "serial")
    return "serial" if serial else str(device.tag)


def _traits(device: Element) -> Traits:
    """Return what tells a device from others of its kind."""
    own = {(name, value) for name, value in device.attrib.items() if name in _OWN}
    below = {
        (f"{part}/{each.tag}@{name}", _plain(value))
        for part in _PARTS
        for top in device.findall(part)
        for each in top.iter()
        for name, value in each.attrib.items()
    }
    return frozenset(own | below)


def _plain(value: str) -> str:
    """Return a number of an address without its leading zeros."""
    try:
        return str(int(value, 0))
    except ValueError:
        return value


def _named(device: Element) -> str:
    """Return a device in words: its tag, and what identifies it."""
    words = [device.get(name, "") for name in ("type", "model", "name") if device.get(name)]
    for part in ("source", "target"):
        for top in device.findall(part):
            words += [value for each in top.iter() for value in each.attrib.values()]
    return " ".join((str(device.tag), *words))


def _system(root: Element) -> Element:
    found = root.find("os")
    return Element("os") if found is None else found


def _text(root: Element, path: str) -> str:
    return (root.findtext(path) or "").strip()


def _attribute(element: Element, path: str, name: str) -> str:
    found = element.find(path)
    return "" if found is None else found.get(name, "")
