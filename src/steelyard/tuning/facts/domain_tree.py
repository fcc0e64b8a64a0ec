"""libvirt domain XML as a tree and back; its amounts and its lists of numbers.

Namespaces stay as they are written (``qemu:commandline``, ``xmlns:qemu``), so that a tree written
back is the text that was read. A document type is refused: libvirt writes none, and entities are
how a small file of a stranger becomes a large one.
"""

from typing import Final
from xml.etree.ElementTree import Element, ParseError, TreeBuilder
from xml.parsers import expat
from xml.sax.saxutils import escape

from steelyard.model.cgroup import parse_cpu_list
from steelyard.model.errors import InputError

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
        """Refuse a document type.

        Raises:
            InputError: Always.
        """
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
    attributes = "".join(f" {name}={_quoted(value)}" for name, value in element.attrib.items())
    inside = escape(element.text or "")
    inside += "".join(_written(child) + escape(child.tail or "") for child in element)
    if not inside:
        return f"<{element.tag}{attributes}/>"
    return f"<{element.tag}{attributes}>{inside}</{element.tag}>"


def _quoted(value: str) -> str:
    return f"'{escape(value, _IN_ATTRIBUTES)}'"


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

    ``k`` and ``KiB`` are powers of 1024, ``KB`` is one of 1000 (libvirt, formatdomain, memory
    allocation).

    Raises:
        InputError: The number or the unit is none.
    """
    text = number.strip()
    factor = _factor((unit or "KiB").strip())
    if not _is_whole(text) or factor is None:
        shown = f"{text} {unit or 'KiB'}"
        raise InputError(f"`{shown}` in the domain XML is no amount of memory", hint=_HINT)
    return int(text) * factor


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
