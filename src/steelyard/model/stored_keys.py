"""Keys under which prepared data and noise profiles are found again, in a later version too.

A key is the hash of JSON: the fields of a dataclass by their names, sorted. The name of the class
is no part of it, nor is a field that has its default, so that a class may be renamed and a field
with a default added. Who changes what a default means changes ``FORMAT``.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, Final

FORMAT: Final = 1
_LENGTH: Final = 16
_ALWAYS: Final = "kind"  # tells classes apart whose other fields are equal


def stored_key(value: object) -> str:
    """Return the key of a value: equal for equal ones, in every process and version."""
    text = json.dumps([FORMAT, canonical(value)], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]


def canonical(value: Any) -> Any:  # noqa: ANN401 - what JSON can hold
    """Return what counts of a value as JSON has it.

    Raises:
        TypeError: It is no dataclass, sequence, mapping or plain value.
    """
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, tuple | list):
        return [canonical(part) for part in value]
    if isinstance(value, Mapping):
        return {str(name): canonical(part) for name, part in value.items()}
    if is_dataclass(value):
        said = {each.name: (getattr(value, each.name), each) for each in fields(value)}
        return {n: canonical(part) for n, (part, each) in said.items() if _counts(each, part)}
    raise TypeError(f"no stored key is made of {type(value).__name__}")


def _counts(each: "Field[Any]", value: object) -> bool:
    """Return whether a field is part of the key: it is compared, and has not its default."""
    if each.name == _ALWAYS or not each.compare:
        return each.compare
    default = each.default if each.default_factory is MISSING else each.default_factory()
    return default is MISSING or value != default
