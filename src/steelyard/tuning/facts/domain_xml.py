"""The XML of a libvirt domain: read, written back, and as facts of a virtual machine.

Namespaces stay as they are written (``qemu:commandline``, ``xmlns:qemu``), so that a tree written
back is the text that was read. A document type is refused: libvirt writes none, and entities are
how a small file of a stranger becomes a large one.

libvirt drops what it does not know without a word; ``lost_elements`` finds it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final
from xml.etree.ElementTree import Element, ParseError, TreeBuilder
from xml.parsers import expat
from xml.sax.saxutils import escape

from steelyard.core.linux import parse_cpu_list
from steelyard.core.stack import DomainDisk, DomainFacts, GuestCell
from steelyard.core.wording import KIB, MIB, InputError

_DEEPEST: Final = 64  # libvirt's own documents are ten deep; deeper ones are no domains
_MOST_DIGITS: Final = 18
_POWERS: Final = "KMGTPE"
_UNLIMITED_BYTES: Final = (2**53 - 1) * 1024  # from there on libvirt means "no limit"
_IN_ATTRIBUTES: Final = {"'": "&apos;", "\n": "&#10;", "\t": "&#9;", "\r": "&#13;"}
_HINT: Final = "Give it as `virsh dumpxml NAME --inactive` prints it."


class _Reader:
    """Builds a tree from what the parser meets."""

    def __init__(self) -> None:
        self.builder = TreeBuilder(insert_comments=True)
        self.depth = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Begin an element, unless there are too many around it."""
        self.depth += 1
        if self.depth > _DEEPEST:
            message = f"the domain XML has elements more than {_DEEPEST} deep"
            raise InputError(message, hint=_HINT)
        self.builder.start(tag, attributes)

    def end(self, tag: str) -> None:
        """End an element."""
        self.depth -= 1
        self.builder.end(tag)

    def refuse(self, *_: object) -> None:
        """Refuse a document type."""
        message = "the domain XML declares a document type, which libvirt never writes"
        raise InputError(message, hint="Remove the `<!DOCTYPE ...>` and its entities.")


def parse_domain(xml: str) -> Element:
    """Return the tree of a domain's XML, comments included.

    Raises:
        InputError: It is no XML, no domain, or has a document type.
    """
    reader = _Reader()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = reader.refuse
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.builder.data
    parser.CommentHandler = reader.builder.comment
    try:
        parser.Parse(xml, True)  # noqa: FBT003 - expat takes no keywords
        root = reader.builder.close()
    except (expat.ExpatError, ParseError, UnicodeError) as error:
        raise InputError(f"the domain XML cannot be read: {error}", hint=_HINT) from error
    if root.tag != "domain":
        raise InputError(f"the XML describes a <{root.tag}>, not a <domain>", hint=_HINT)
    return root


def domain_text(root: Element) -> str:
    """Return a tree as XML in libvirt's own style: two spaces, single quotes."""
    return _written(root) + "\n"


def _written(element: Element) -> str:
    if not isinstance(element.tag, str):  # a comment: its tag is the function that makes one
        return f"<!--{element.text}-->"
    quoted = {name: escape(value, _IN_ATTRIBUTES) for name, value in element.attrib.items()}
    attributes = "".join(f" {name}='{value}'" for name, value in quoted.items())
    inside = escape(element.text or "")
    inside += "".join(_written(child) + escape(child.tail or "") for child in element)
    if not inside:
        return f"<{element.tag}{attributes}/>"
    return f"<{element.tag}{attributes}>{inside}</{element.tag}>"


def amount_bytes(element: Element | None) -> int | None:
    """Return an amount of memory such as ``<memory unit='GiB'>24</memory>``.

    None where there is none, and where libvirt means that it has no limit.

    Raises:
        InputError: It is no amount.
    """
    if element is None:
        return None
    count = as_bytes(element.text or "", element.get("unit"))
    return None if count >= _UNLIMITED_BYTES else count


def as_bytes(number: str, unit: str | None) -> int:
    """Return bytes from a number and a unit of libvirt's: KiB where none is named.

    They are whole KiB, rounded up, as libvirt keeps them. ``k`` and ``KiB`` are powers of 1024,
    ``KB`` is one of 1000 (libvirt, formatdomain, memory allocation).

    Raises:
        InputError: The number or the unit is none.
    """
    text = number.strip()
    factor = _factor((unit or "KiB").strip())
    if not _is_whole(text) or factor is None:
        shown = f"{text} {unit or 'KiB'}"
        raise InputError(f"`{shown}` in the domain XML is no amount of memory", hint=_HINT)
    return -(-int(text) * factor // KIB) * KIB


def _factor(unit: str) -> int | None:
    if unit in ("b", "bytes"):
        return 1
    power = _POWERS.find(unit[:1].upper()) + 1 if unit[:1] else 0
    rest = unit[1:].lower()
    if not power or rest not in ("", "ib", "b"):
        return None
    return int((1000 if rest == "b" else 1024) ** power)


def numbers(text: str | None) -> tuple[int, ...]:
    """Return the numbers of a set such as ``8-11,^9``, in order; empty where there is no set.

    Raises:
        InputError: It is no such set.
    """
    taken: set[int] = set()
    for part in (text or "").split(","):
        number = part.strip()
        if number.startswith("^"):
            taken -= set(parse_cpu_list(number[1:]))
        elif number:
            taken |= set(parse_cpu_list(number))
    return tuple(sorted(taken))


def whole(text: str | None, what: str) -> int:
    """Return a whole number of the domain XML.

    Raises:
        InputError: It is none, or there is none.
    """
    number = (text or "").strip()
    if not _is_whole(number):
        raise InputError(f"`{number}` in the domain XML is no {what}", hint=_HINT)
    return int(number)


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


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
    wanted, found = (asked.text or "").strip(), (kept.text or "").strip()
    # Of the uuid libvirt writes its dashes and small letters.
    is_other = wanted and path != "uuid" and _amount(wanted, asked) != _amount(found, kept)
    if is_other and not _alike(wanted, found):
        yield f"{path}={_told(wanted, found)}"
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


def _is_kept(name: str, asked: Element, kept: Element) -> bool:
    wanted, found = asked.get(name, ""), kept.get(name)
    if name == "unit" or name in _SECRETS:  # the former is told by the amount beside it
        return True
    if found is None:  # without cells the first one is the whole domain, and is not written
        return asked.tag == "page" and numbers(wanted) == (0,)
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
    """Return an amount of memory in bytes; other texts as they are."""
    if not text.isascii() or not text.isdigit():
        return text
    return as_bytes(text, element.get("unit"))


def _told(wanted: str, found: str | None) -> str:
    return f"'{wanted}' (is '{found}')" if found else f"'{wanted}'"


_DISKS: Final = ("disk", "lun")  # no CD-ROMs and floppies
_REFUSED: Final = ("disable", "forbid")  # policies of a CPU feature that the guest shall not see
_USUAL_MODE: Final = "strict"  # of libvirt, where none is named
_HUGE_PAGE_BYTES: Final = 2 * MIB  # x86-64 and 4 KiB pages of Arm, where the XML names no size
SMALLEST_HUGE_BYTES: Final = 64 * KIB  # of any architecture (Arm, contiguous PTEs)
_MOST_CPUS: Final = 2**14  # that libvirt takes in a set
_REST: Final = -1  # memory of cells whose page size is not named
_Pages = Mapping[int, int | None]


def domain_facts(
    xml: str, asked: str | None = None, *, huge_page_bytes: int | None = None
) -> DomainFacts:
    """Return what a domain's XML says; that it runs when it has an id, as only running ones have.

    Args:
        xml: As ``virsh dumpxml`` prints it.
        asked: The XML that libvirt was given; then what it did not keep is compared.
        huge_page_bytes: The host's default size, for ``<hugepages/>`` without a size; None: it was
            not seen, and is taken to be the usual one.

    Raises:
        InputError: One of them is no XML of a domain.
    """
    root = parse_domain(xml)
    pages = _pages(root, huge_page_bytes or _HUGE_PAGE_BYTES)
    cells, modules = _cells(root, pages), tuple(_modules(root, pages))
    sizes = {part.huge_page_bytes for part in (*cells, *modules)} or {pages.get(_REST)}
    if len(sizes) == 1:  # a page size of the whole domain
        cells, modules = (
            tuple(replace(part, huge_page_bytes=None) for part in parts)
            for parts in (cells, modules)
        )
    topology, cpu = attribute(root, "cpu/topology", "threads"), root.find("cpu")
    bindings = (root.find(f"numatune/{name}") for name in ("memory", "memnode"))
    binding = next((it for it in bindings if it is not None), None)
    model = None if cpu is None or cpu.find("model") is None else "custom"  # only one is named
    return DomainFacts(
        name=(root.findtext("name") or "").strip(),
        vcpus=_vcpus(root),
        running="id" in root.attrib,
        vcpu_pins=_vcpu_pins(root),
        emulator_pins=numbers(attribute(root, "cputune/emulatorpin", "cpuset")) or _anywhere(root),
        io_thread_pins=_union(root, "cputune/iothreadpin", "cpuset")
        or (() if root.find("iothreads") is None else _anywhere(root)),
        memory_bytes=_memory_bytes(root, cells, modules),
        cells=cells,
        modules=modules,
        memory_mode=None if binding is None else binding.get("mode", _USUAL_MODE),
        memory_nodes=_memory_nodes(root, cells),
        huge_page_bytes=sizes.pop() if len(sizes) == 1 else None,
        locked=root.find("memoryBacking/locked") is not None,
        hard_limit_bytes=amount_bytes(root.find("memtune/hard_limit")),
        balloon=attribute(root, "devices/memballoon", "model") or "virtio",
        cpu_mode=None if cpu is None else cpu.get("mode") or model,
        threads_per_core=1 if topology is None else whole(topology, "number of threads"),
        features=tuple(_features(root)),
        disks=tuple(
            DomainDisk(
                device=attribute(disk, "target", "dev") or "",
                cache=attribute(disk, "driver", "cache"),
                io=attribute(disk, "driver", "io"),
            )
            for disk in root.findall("devices/disk")
            if disk.get("device", "disk") in _DISKS
        ),
        lost_elements=None if asked is None else lost_elements(parse_domain(asked), root),
    )


def attribute(root: Element, path: str, name: str) -> str | None:
    """Return an attribute of the first element at a path; None: one of them is not there."""
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


def _memory_bytes(
    root: Element, cells: tuple[GuestCell, ...], modules: tuple[GuestCell, ...]
) -> int:
    """Return the memory: libvirt's driver of QEMU sets it to that of the cells and modules."""
    if sum(cell.memory_bytes for cell in cells):
        return sum(part.memory_bytes for part in (*cells, *modules))
    memory_bytes = amount_bytes(root.find("memory"))
    if memory_bytes is None:
        message = "the domain XML does not say how much memory the machine has"
        raise InputError(message, hint="Add `<memory unit='GiB'>8</memory>` under <domain>.")
    return memory_bytes


def _cells(root: Element, pages: _Pages) -> tuple[GuestCell, ...]:
    """Return the cells in order; virtual CPUs that no cell names are in the first one."""
    cells = sorted(
        (
            replace(
                _part(root, cell.get("id", str(place)), pages),
                memory_bytes=as_bytes(cell.get("memory", ""), cell.get("unit")),
                cpus=numbers(cell.get("cpus")),
            )
            for place, cell in enumerate(root.findall("cpu/numa/cell"))
        ),
        key=lambda cell: cell.number,
    )
    most = min(whole(root.findtext("vcpu", "1"), "number of CPUs"), _MOST_CPUS)
    loose = set(range(most)) - {cpu for cell in cells for cpu in cell.cpus}
    first = (replace(cell, cpus=tuple(sorted({*cell.cpus, *loose}))) for cell in cells[:1])
    return (*first, *cells[1:])


def _modules(root: Element, pages: _Pages) -> Iterator[GuestCell]:
    """Yield the memory devices: what they do not say is as in their cell."""
    general = root.find("numatune/memory")
    usual = _USUAL_MODE if general is None else general.get("mode", _USUAL_MODE)
    for device in root.findall("devices/memory"):
        part = _part(root, device.findtext("target/node", "0"), pages)
        page_bytes = amount_bytes(device.find("source/pagesize"))
        if page_bytes is not None or device.find("source/path") is not None:  # of its own, a file
            part = replace(part, huge_page_bytes=_if_huge(page_bytes or 0))
        own = numbers(device.findtext("source/nodemask"))
        yield replace(
            part,
            memory_bytes=amount_bytes(device.find("target/size")) or 0,
            memory_mode=part.memory_mode or (usual if own else None),
            memory_nodes=own or part.memory_nodes,
        )


def _part(root: Element, cell: str, pages: _Pages) -> GuestCell:
    """Return memory of a cell, bound and backed as that is; how much is not known yet."""
    number = whole(cell, "number of a cell")
    nodes = root.findall("numatune/memnode")
    own = next((n for n in nodes if whole(n.get("cellid"), "number of a cell") == number), None)
    return GuestCell(
        number=number,
        memory_bytes=0,
        memory_mode=None if own is None else own.get("mode", _USUAL_MODE),
        memory_nodes=() if own is None else numbers(own.get("nodeset")),
        huge_page_bytes=pages.get(number, pages.get(_REST)),
    )


def _pages(root: Element, default: int) -> _Pages:
    """Return the sizes of huge pages by cell, and by ``_REST`` that of all other memory.

    Without cells, libvirt takes a node set of the first one for the whole domain.
    """
    backing = root.find("memoryBacking/hugepages")
    if backing is None:
        return {}
    shown = root.find("cpu/numa/cell") is not None
    sizes = {
        cell: _if_huge(as_bytes(page.get("size", ""), page.get("unit")))
        for page in backing.findall("page")
        for cell in (shown and numbers(page.get("nodeset"))) or (_REST,)
    }
    return sizes or {_REST: default}


def _if_huge(page_bytes: int) -> int | None:
    """Return a size of huge pages; None where it is that of ordinary ones (formatdomain)."""
    return page_bytes if page_bytes >= SMALLEST_HUGE_BYTES else None


def _memory_nodes(root: Element, cells: tuple[GuestCell, ...]) -> tuple[int, ...]:
    """Return the host nodes of its memory; the cells' own where each cell has one."""
    own = {node for cell in cells for node in cell.memory_nodes}
    whole_domain = _union(root, "numatune/memory", "nodeset")
    return whole_domain or (tuple(sorted(own)) if all(c.memory_nodes for c in cells) else ())


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
