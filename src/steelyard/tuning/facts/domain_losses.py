"""What of a domain's XML libvirt did not keep: it drops what it does not know without a word."""

from collections.abc import Iterator
from typing import Final
from xml.etree.ElementTree import Element

from steelyard.tuning.facts.domain_tree import as_bytes, numbers

_SETS: Final = frozenset({"cpuset", "nodeset", "cpus"})
_AMOUNTS: Final = frozenset({"memory", "size"})  # attributes that have a unit beside them
_SECRETS: Final = frozenset({"passwd"})  # libvirt keeps them and does not show them
_KEYS: Final = {  # what tells elements of one tag from each other
    "vcpupin": "vcpu",
    "vcpusched": "vcpus",
    "iothreadpin": "iothread",
    "memnode": "cellid",
    "cell": "id",
    "sibling": "id",
    "timer": "name",
    "feature": "name",
}


def lost_elements(asked: Element, kept: Element) -> tuple[str, ...]:
    """Return the elements, attributes and values that were asked for and are not there.

    What libvirt only writes in another way is no loss: units of memory, the order of elements,
    lists of CPUs, capitals, the full name of a machine type. What it adds is none either.

    Returns:
        In the order of the request, such as ``memballoon[@model='none']``, or
        ``cpu@mode='host-passthrough' (is 'host-model')``.
    """
    return tuple(_losses(asked, kept, ""))


def _losses(asked: Element, kept: Element, path: str) -> Iterator[str]:
    yield from _lost_text(asked, kept, path)
    for name, value in asked.attrib.items():
        if not _is_kept(name, asked, kept):
            yield f"{path or 'domain'}@{name}={_told(value, kept.get(name))}"
    used: set[int] = set()
    for child in asked:
        if isinstance(child.tag, str):  # no comment
            yield from _lost_child(child, kept, path, used)


def _lost_child(child: Element, kept: Element, path: str, used: set[int]) -> Iterator[str]:
    """Compare a child with the one that is most like it and not yet another's."""
    below = f"{path}/{child.tag}" if path else str(child.tag)
    key = _key(child)
    chances: list[tuple[int, int, tuple[str, ...]]] = []
    for place, other in enumerate(kept):
        if other.tag == child.tag and place not in used and _key(other) == key:
            losses = tuple(_losses(child, other, below + key))
            chances.append((len(losses), place, losses))
    if not chances:
        yield described(child, below)
        return
    _, nearest, lost = min(chances)
    used.add(nearest)
    yield from lost


def described(element: Element, path: str) -> str:
    """Return an element with its attributes, as in ``memballoon[@model='none']``; no passwords."""
    shown = {name: value for name, value in element.attrib.items() if name not in _SECRETS}
    return path + "".join(f"[@{name}='{value}']" for name, value in shown.items())


def _key(element: Element) -> str:
    """Return what tells an element from its siblings, as in a path; empty where nothing does."""
    name = _KEYS.get(str(element.tag), "")
    if name in element.attrib:
        return f"[@{name}='{element.get(name)}']"
    target = element.find("target") if element.tag == "disk" else None
    return "" if target is None else f"[{target.get('dev')}]"


def _lost_text(asked: Element, kept: Element, path: str) -> Iterator[str]:
    wanted, found = (asked.text or "").strip(), (kept.text or "").strip()
    if not wanted or path == "uuid":  # libvirt writes its dashes and small letters
        return
    if _amount(wanted, asked) != _amount(found, kept) and not _alike(wanted, found):
        yield f"{path}={_told(wanted, found)}"


def _is_kept(name: str, asked: Element, kept: Element) -> bool:
    wanted, found = asked.get(name, ""), kept.get(name)
    if name == "unit" or name in _SECRETS:  # the former is told by the amount beside it
        return True
    if found is None:
        return False
    if name in _SETS:
        return numbers(wanted) == numbers(found)
    if name in _AMOUNTS:
        return _amount(wanted, asked) == _amount(found, kept)
    if name == "machine":  # `q35` becomes `pc-q35-7.2`
        return _alike(wanted, found) or found.startswith((f"pc-{wanted}-", f"{wanted}-"))
    return _alike(wanted, found)


def _alike(wanted: str, found: str) -> bool:
    return wanted.casefold() == found.casefold()


def _amount(text: str, element: Element) -> int | str:
    """Return an amount of memory in KiB, rounded up as libvirt does; other texts as they are."""
    if not text.isascii() or not text.isdigit():
        return text
    return -(-as_bytes(text, element.get("unit")) // 1024)


def _told(wanted: str, found: str | None) -> str:
    return f"'{wanted}' (is '{found}')" if found else f"'{wanted}'"
