"""From plain values to dataclasses, with every problem noted at its path."""

import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from difflib import get_close_matches
from enum import Enum
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from steelyard.model.cgroup import parse_cpu_list
from steelyard.model.errors import InputError
from steelyard.model.units import parse_bytes

Path = tuple[str | int, ...]
_WORDS: Final = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
_FRACTION: Final = "_fraction"
_SIZE: Final = "_bytes"  # the suffix of fields that hold one


class _Refused(Exception):  # noqa: N818 - never leaves this module
    """A value that is not what its place takes."""


@dataclass(slots=True)
class Decoder:
    """Decodes one document; problems are (path, message, hint)."""

    problems: list[tuple[Path, str, str]] = field(default_factory=list)

    def problem(self, path: Path, message: str, hint: str) -> None:
        """Note that something is wrong at a path."""
        self.problems.append((path, message, hint))

    def decode(self, kind: Any, value: object, path: Path) -> Any:  # noqa: ANN401 - any type
        """Return a value as its kind; None and a problem where it is no such thing."""
        try:
            return self._decoded(kind, value, path)
        except _Refused as refused:
            message, hint = refused.args
            self.problem(path, message, hint)
            return None

    def _decoded(self, kind: Any, value: object, path: Path) -> Any:  # noqa: ANN401 - any type
        origin = get_origin(kind)
        if origin in (Union, types.UnionType):
            inner = next(each for each in get_args(kind) if each is not type(None))
            return None if value is None else self._decoded(inner, value, path)
        if kind is object:
            return value
        if is_dataclass(kind):
            return self._dataclass(kind, value, path)
        if origin is tuple:
            return self._tuple(get_args(kind)[0], value, path)
        if origin is Mapping:
            return self._mapping(get_args(kind), value, path)
        return _scalar(kind, value, path)

    def _dataclass(self, kind: Any, value: object, path: Path) -> Any:  # noqa: ANN401 - any type
        if not isinstance(value, dict):
            raise _Refused(f"{_shown(value)} is not a mapping", "Write `name: value` lines.")
        known = get_type_hints(kind)
        for name in value:
            if name not in known:
                near = get_close_matches(str(name), known, n=1)
                hint = f"Did you mean `{near[0]}`?" if near else f"Known: {', '.join(known)}."
                self.problem((*path, name), f"there is no fact `{name}`", hint)
        before = len(self.problems)
        given = {
            name: self.decode(known[name], value[name], (*path, name))
            for name in known
            if name in value
        }
        required = [each.name for each in fields(kind) if _is_required(each)]
        for name in required:
            if name not in value:
                self.problem(path, f"`{name}` is missing", "")
        return kind(**given) if len(self.problems) == before else None

    def _tuple(self, kind: Any, value: object, path: Path) -> Any:  # noqa: ANN401 - any type
        if kind is int and isinstance(value, str):
            return _cpus(value)
        if not isinstance(value, list):
            raise _Refused(f"{_shown(value)} is not a list", "Write it as [a, b].")
        return tuple(self.decode(kind, each, (*path, at)) for at, each in enumerate(value))

    def _mapping(self, kinds: Any, value: object, path: Path) -> Any:  # noqa: ANN401 - any type
        if not isinstance(value, dict):
            raise _Refused(f"{_shown(value)} is not a mapping", "Write `name: value` lines.")
        key_kind, kind = kinds
        return {
            self.decode(key_kind, _key(key_kind, key), (*path, key)): self.decode(
                kind, each, (*path, key)
            )
            for key, each in value.items()
        }


def _key(kind: Any, key: object) -> object:  # noqa: ANN401 - any type
    """Return a key: in JSON, all of them are texts."""
    return int(key) if kind is int and isinstance(key, str) and key.isdecimal() else key


def _is_required(each: Any) -> bool:  # noqa: ANN401 - Field takes a type
    return each.default is MISSING and each.default_factory is MISSING


def _word(kind: type[Enum], value: object) -> Enum:
    known = [each.value for each in kind]
    if value not in known:
        raise _Refused(f"{_shown(value)} is none of its words", f"Known: {', '.join(known)}.")
    return kind(value)


def _scalar(kind: Any, value: object, path: Path) -> Any:  # noqa: ANN401 - any type
    if issubclass(kind, Enum):
        return _word(kind, value)
    if kind is bool and isinstance(value, bool):
        return value
    if kind is str and isinstance(value, str):
        return str(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        _require_possible(value, str(path[-1]))
        if kind is float:
            return float(value)
        if kind is int and isinstance(value, int):
            return int(value)
    if kind is int and isinstance(value, str) and str(path[-1]).endswith(_SIZE):
        return _size(value)
    hint = f'Quote it: "{value}".' if kind is str else ""
    raise _Refused(f"{_shown(value)} is not {_WORDS[kind]}", hint)


def _require_possible(value: float, name: str) -> None:
    """Refuse what no fact can be: no number of things, bytes or seconds is negative."""
    if not math.isfinite(value):
        raise _Refused(f"{_shown(value)} is no quantity", "Leave out what nobody knows.")
    if value < 0:
        raise _Refused(f"{_shown(value)} is less than nothing", "")
    if value > 1 and name.endswith(_FRACTION):
        raise _Refused(f"{_shown(value)} is more than the whole", "1 % is written as 0.01.")


def _size(text: str) -> int:
    try:
        return parse_bytes(text)
    except InputError as error:
        raise _Refused(error.message, error.hint) from error


def _cpus(text: str) -> tuple[int, ...]:
    try:
        return parse_cpu_list(text)
    except InputError as error:
        raise _Refused(error.message, error.hint) from error


def _shown(value: object) -> str:
    text = " ".join(str(value).split())
    return f"`{text[:40]}`" if text else "nothing"
