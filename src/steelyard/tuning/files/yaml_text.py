"""YAML with a remark above whatever needs one: why a setting has its value, and who says so."""

from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from textwrap import wrap
from typing import Final

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString

from steelyard.core.stack import PlannedSetting
from steelyard.core.units import GIB, KIB, MIB

HEAD: Final = "Made by `steelyard stack plan`."
_WIDTH: Final = 98


def remark(setting: PlannedSetting) -> str:
    """Return why a setting has its value, what it is expected to bring and where that is from."""
    parts = [
        setting.reason.rstrip(" ."),
        f"Expected: {setting.effect.rstrip(' .')}" if setting.effect else "",
        f"Source: {setting.source.rstrip(' .')}" if setting.source else "",
    ]
    return " ".join(f"{part}." for part in parts if part)


def hashed(*paragraphs: str) -> str:
    """Return paragraphs as lines of comment, each line begun by ``#``."""
    lines = [line for each in paragraphs for line in wrap(each, _WIDTH)]
    return "".join(f"# {line}\n" for line in lines)


_STEP: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One key of a mapping.

    Attributes:
        value: A text is always quoted, so that no reader takes ``on`` for a truth or ``2`` for a
            number; one of several lines is a block. A sequence of entries is a mapping below.
        why: Told in a comment above it.
    """

    key: str
    value: "Value"
    why: str = ""


Value = str | int | bool | Sequence[Entry] | Sequence[Sequence[Entry]] | Sequence[str]


def yaml_text(head: str, entries: Sequence[Entry]) -> str:
    """Return a document as text, after a head of comment lines."""
    yaml = YAML()
    yaml.width = 4096  # lines are never folded
    yaml.indent(mapping=_STEP, sequence=4, offset=_STEP)
    text = StringIO()
    yaml.dump(_mapping(entries, 0), text)
    return head + text.getvalue()


def _mapping(entries: Sequence[Entry], depth: int) -> CommentedMap:
    made = CommentedMap()
    for entry in entries:
        made[entry.key] = _node(entry.value, depth)
        if entry.why:
            before = "\n".join(wrap(entry.why, _WIDTH - depth))
            made.yaml_set_comment_before_after_key(entry.key, before=before, indent=depth)
    return made


def _node(value: Value, depth: int) -> object:
    if isinstance(value, str):
        return LiteralScalarString(value) if "\n" in value else DoubleQuotedScalarString(value)
    if isinstance(value, int):
        return value
    return _sequence(value, depth)


def _sequence(
    value: Sequence[Entry] | Sequence[Sequence[Entry]] | Sequence[str], depth: int
) -> object:
    entries = [each for each in value if isinstance(each, Entry)]
    if value and len(entries) == len(value):
        return _mapping(entries, depth + _STEP)
    return [_item(each, depth + 2 * _STEP) for each in value if not isinstance(each, Entry)]


def _item(each: str | Sequence[Entry], depth: int) -> object:
    return DoubleQuotedScalarString(each) if isinstance(each, str) else _mapping(each, depth)


def quantity(count: int) -> str:
    """Return bytes as Kubernetes writes them, exactly, in the largest unit: ``6500Mi``, ``2Gi``."""
    for suffix, size in (("Gi", GIB), ("Mi", MIB), ("Ki", KIB)):
        if count and count % size == 0:
            return f"{count // size}{suffix}"
    return str(count)
