"""What makes a definition that of a present domain: its uuid, its devices, its firmware."""

from collections.abc import Iterator
from xml.etree.ElementTree import Element, SubElement

from steelyard.tuning.applying.domain_belongings import lost_devices, lost_system

_NO_ADDRESS = frozenset({"index", "startupPolicy"})  # attributes of a source that do not name it


def dropped(asked: Element, present: Element) -> Iterator[str]:
    """Return what of the present definition would be gone if the asked one took its place.

    Settings are none of it: memory, CPUs, pins and features are what a plan changes.
    """
    yield from _dropped_disks(asked, present)
    yield from _dropped_cards(asked, present)
    yield from lost_devices(asked, present)
    yield from lost_system(asked, present)


def _dropped_disks(asked: Element, present: Element) -> Iterator[str]:
    disks = {_source(disk) for disk in asked.findall("devices/disk")}
    for disk in present.findall("devices/disk"):
        if _source(disk) not in disks:
            yield f"disk {' '.join(_source(disk)) or 'without a source'}"


def _dropped_cards(asked: Element, present: Element) -> Iterator[str]:
    cards = asked.findall("devices/interface")
    addresses = [_address(card) for card in cards]
    unnamed = addresses.count("")  # libvirt makes up an address for these
    for card in present.findall("devices/interface"):
        if _address(card) in addresses:
            continue
        unnamed -= 1
        if unnamed < 0:
            yield f"network card {_address(card)}"


def identified(asked: Element, present: Element) -> None:
    """Give a definition the uuid and the network addresses of the domain that is there.

    Without a uuid libvirt would take it for another domain of the same name; without an address
    the guest would wake up with a card that it has not seen before.
    """
    uuid = asked.find("uuid")
    if uuid is None:
        uuid = SubElement(asked, "uuid")
    uuid.text = present.findtext("uuid")
    cards = asked.findall("devices/interface")
    taken = {_address(card) for card in cards}
    free = [
        address
        for card in present.findall("devices/interface")
        if (address := _address(card)) not in taken
    ]
    for card in cards:
        if not _address(card) and free:
            SubElement(card, "mac", {"address": free.pop(0)})


def _address(card: Element) -> str:
    mac = card.find("mac")
    return "" if mac is None else mac.get("address", "").lower()


def _source(disk: Element) -> tuple[str, ...]:
    source = disk.find("source")
    attributes = {} if source is None else source.attrib
    return tuple(sorted(value for name, value in attributes.items() if name not in _NO_ADDRESS))
