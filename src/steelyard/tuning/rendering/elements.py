"""Elements of a tree that are made where they lack and changed where they are."""

from collections.abc import Mapping
from xml.etree.ElementTree import Element, SubElement

from steelyard.model.units import KIB


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
