"""Facts on their way into the model: each with where it comes from, or why it is absent."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from steelyard.gateways.host import Host
from steelyard.model.errors import InputError
from steelyard.model.stack_facts import Origin, Visibility

_MOST_SHOWN: Final = 40  # characters of a text that was not understood


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The value of one fact, None where there is none, and its origin."""

    value: Any
    origin: Origin


Finds = Mapping[str, Found]  # by the field's name


def seen(value: object, source: str) -> Found:
    """Return a fact that was seen; None says that there is nothing, as the source says."""
    return Found(value=value, origin=Origin(source=source))


def hidden(reason: str) -> Found:
    """Return a fact that cannot be seen from here, whatever one does."""
    return Found(value=None, origin=Origin(source=reason, visibility=Visibility.NO))


def unknown(reason: str) -> Found:
    """Return a fact that nobody looked for, or for which looking failed."""
    return Found(value=None, origin=Origin(source=reason, visibility=Visibility.UNKNOWN))


def read_fact(host: Host, path: str, parse: Callable[[str], object], *, absent: str = "") -> Found:
    """Return the fact that a file holds.

    Args:
        host: Whose file.
        path: Such as ``/proc/sys/vm/swappiness``.
        parse: From the file's text, stripped; it may raise ValueError or LookupError.
        absent: Why it cannot be seen where the file is absent; by default that it is.
    """
    text = host.read(path)
    if text is None or not text.strip():
        return hidden(absent or f"there is no {path}")
    return parsed(text, path, parse)


def parsed(text: str, source: str, parse: Callable[[str], object]) -> Found:
    """Return the fact that a text holds, unknown where it is not what it should be."""
    try:
        return seen(parse(text.strip()), source)
    except (ValueError, LookupError, InputError):
        shown = " ".join(text.split())[:_MOST_SHOWN]
        return unknown(f"{source} is not understood: {shown}")


def attempted(source: str, find: Callable[[], Found]) -> Found:
    """Return what is found, unknown where a file that it takes is not what it should be."""
    try:
        return find()
    except (ValueError, LookupError, InputError) as error:
        return unknown(f"{source} is not understood: {error}")


def values_of(finds: Finds) -> dict[str, Any]:
    """Return the values alone, as the arguments of a dataclass."""
    return {name: found.value for name, found in finds.items()}


def origins_of(finds: Finds, layer: str) -> dict[str, Origin]:
    """Return the origins by path below a layer."""
    return {f"{layer}.{name}": found.origin for name, found in finds.items()}


def selected(text: str) -> str:
    """Return the word in brackets of a file such as ``always [madvise] never``.

    Raises:
        ValueError: None is in brackets.
    """
    begin, end = text.index("["), text.index("]")
    return text[begin + 1 : end]
