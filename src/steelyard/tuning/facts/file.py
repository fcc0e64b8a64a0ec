"""Facts with where each comes from, or why it is absent, and the files that hold them.

The files are YAML or JSON, to be kept, judged elsewhere, or written by hand. They may say sizes as
``16GiB`` and CPUs as ``0-3,8``; every problem is noted at its path.
"""

import io
import json
import math
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.representer import SafeRepresenter

from steelyard.core.linux import parse_cpu_list
from steelyard.core.stack import Origin, StackFacts, Visibility
from steelyard.core.wording import InputError, Problem, parse_bytes
from steelyard.gateways.files import read_text, write_text
from steelyard.gateways.host import Host

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


KeyPath = tuple[str | int, ...]
_WORDS: Final = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
_FRACTION: Final = "_fraction"
_SIZE: Final = "_bytes"  # the suffix of fields that hold one


class _Refused(Exception):  # noqa: N818 - never leaves this module
    """A value that is not what its place takes."""


@dataclass(slots=True)
class Decoder:
    """Decodes one document; problems are (path, message, hint)."""

    problems: list[tuple[KeyPath, str, str]] = field(default_factory=list)

    def problem(self, path: KeyPath, message: str, hint: str) -> None:
        """Note that something is wrong at a path."""
        self.problems.append((path, message, hint))

    def decode(self, kind: Any, value: object, path: KeyPath) -> Any:  # noqa: ANN401 - any type
        """Return a value as its kind; None and a problem where it is no such thing."""
        try:
            return self._decoded(kind, value, path)
        except _Refused as refused:
            message, hint = refused.args
            self.problem(path, message, hint)
            return None

    def _decoded(self, kind: Any, value: object, path: KeyPath) -> Any:  # noqa: ANN401 - any type
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

    def _dataclass(self, kind: Any, value: object, path: KeyPath) -> Any:  # noqa: ANN401 - any type
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
        for each in fields(kind):
            is_required = each.default is MISSING and each.default_factory is MISSING
            if is_required and each.name not in value:
                self.problem(path, f"`{each.name}` is missing", "")
        return kind(**given) if len(self.problems) == before else None

    def _tuple(self, kind: Any, value: object, path: KeyPath) -> Any:  # noqa: ANN401 - any type
        if kind is int and isinstance(value, str):
            return _parsed(parse_cpu_list, value)
        if not isinstance(value, list):
            raise _Refused(f"{_shown(value)} is not a list", "Write it as [a, b].")
        return tuple(self.decode(kind, each, (*path, at)) for at, each in enumerate(value))

    def _mapping(self, kinds: Any, value: object, path: KeyPath) -> Any:  # noqa: ANN401 - any type
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


def _word(kind: type[Enum], value: object) -> Enum:
    known = [each.value for each in kind]
    if value not in known:
        raise _Refused(f"{_shown(value)} is none of its words", f"Known: {', '.join(known)}.")
    return kind(value)


def _scalar(kind: Any, value: object, path: KeyPath) -> Any:  # noqa: ANN401 - any type
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
        return _parsed(parse_bytes, value)
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


def _parsed(parse: Callable[[str], object], text: str) -> object:
    try:
        return parse(text)
    except InputError as error:
        raise _Refused(error.message, error.hint) from error


def _shown(value: object) -> str:
    text = " ".join(str(value).split())
    return f"`{text[:40]}`" if text else "nothing"


_FORMAT: Final = 1
# Characters that JSON may hold as they are and YAML may not, or takes for the end of a line; and
# those that turn the direction of a text on a terminal.
_NOT_YAML: Final = re.compile(
    "[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff]"
)
_ESCAPE: Final = re.compile(r"\\[bfnrtu]")  # of JSON, for what YAML escapes, too
_HINT: Final = "`steelyard inspect --save FILE` writes such a file."


def read_facts(path: Path) -> StackFacts:
    """Return the facts in a file.

    Raises:
        InputError: It cannot be used; all its problems are told together, each with its line.
    """
    text = read_text(path)
    if text is None:
        raise InputError(f"{path} is not there or cannot be read", hint=_HINT)
    return parse_facts(text, str(path))


def parse_facts(text: str, source: str) -> StackFacts:
    """Return the facts in a text.

    Raises:
        InputError: It cannot be used; all its problems are told together, each with its line.
    """
    document = _loaded(text, source)
    decoder = Decoder()
    facts = decoder.decode(StackFacts, document, ())
    if isinstance(document, dict) and document.get("format", _FORMAT) != _FORMAT:
        decoder.problem(("format",), f"format {document['format']} is not known", "")
    if decoder.problems or not isinstance(facts, StackFacts):
        problems = [_placed(document, *each) for each in decoder.problems]
        raise _refusal(source, problems)
    return facts


def _loaded(text: str, source: str) -> Any:  # noqa: ANN401 - whatever a file holds
    try:
        return YAML(typ="rt", pure=True).load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        message = f"it is not YAML: {error.problem or error.context or 'it cannot be parsed'}"
        raise _refusal(source, [Problem(message=message, line=line, column=column)]) from error
    # The parser lets these through on malformed input, as in experiment files.
    except (YAMLError, ValueError, LookupError, AttributeError, TypeError, AssertionError) as error:
        reason = str(error).split("\n", maxsplit=1)[0] or type(error).__name__
        problem = Problem(message=f"it is not YAML: {reason}", line=1, column=1)
        raise _refusal(source, [problem]) from error
    except RecursionError:
        problem = Problem(message="it is nested too deeply", line=1, column=1)
        raise _refusal(source, [problem]) from None


def _placed(document: object, path: KeyPath, message: str, hint: str) -> Problem:
    """Return a problem with line and column of the nearest thing that holds it."""
    line, column = 1, 1
    node: Any = document
    for step in path:
        try:
            places: Any = node.lc
            place = places.item(step) if isinstance(node, list) else places.value(step)
            node = node[step]
        except (AttributeError, LookupError, TypeError):
            break
        line, column = place[0] + 1, place[1] + 1
    words = ".".join(map(str, path))
    return Problem(message=message, hint=hint, path=words, line=line, column=column)


def _refusal(source: str, problems: list[Problem]) -> InputError:
    number = len(problems)
    heading = f"{source} has {number} problem{'s' if number != 1 else ''}:"
    lines = [heading, *(f"  {problem.located(source)}" for problem in problems)]
    return InputError("\n".join(lines), hint=_HINT)


def write_facts(path: Path, facts: StackFacts) -> None:
    """Write facts to a file: JSON where it is called so, else YAML."""
    write_text(path, facts_json(facts) if path.suffix == ".json" else facts_yaml(facts))


def facts_json(facts: StackFacts) -> str:
    """Return facts as JSON, which is YAML, too."""
    text = json.dumps(plain(facts), indent=2, ensure_ascii=False)
    return _NOT_YAML.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


def facts_yaml(facts: StackFacts) -> str:
    """Return facts as YAML."""
    yaml: Any = YAML(typ="safe", pure=True)
    yaml.Representer = _Representer
    yaml.default_flow_style = None  # lists of numbers in one line
    text = json.dumps(plain(facts), ensure_ascii=False)
    # All of Unicode is escaped where there is something that must be: ruamel knows no better. Where
    # it folds a text after an escape, it adds a blank.
    yaml.allow_unicode = not _NOT_YAML.search(text)
    yaml.width = 100 if yaml.allow_unicode and not _ESCAPE.search(text) else len(text) * 10
    yaml.sort_base_mapping_type_on_output = False
    out = io.StringIO()
    yaml.dump(plain(facts), out)
    return out.getvalue()


class _Representer(SafeRepresenter):
    """Writes texts so that they are read again: a bare ``?`` begins a key in a mapping in line."""


def _text(representer: Any, text: str) -> Any:  # noqa: ANN401 - ruamel has no types for it
    style = '"' if text.startswith("?") else None
    return representer.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Representer.add_representer(str, _text)


def plain(value: object) -> Any:  # noqa: ANN401 - plain values
    """Return a dataclass as mappings, lists and plain values; defaults are left out."""
    if is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain(getattr(value, field.name))
            for field in fields(value)
            if field.name == "format" or not _is_default(field, getattr(value, field.name))
        }
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    return value.value if hasattr(value, "value") else value


def _is_default(field: Any, value: object) -> bool:  # noqa: ANN401 - Field takes a type
    if field.default_factory is not MISSING:
        return bool(value == field.default_factory())
    return field.default is not MISSING and value == field.default
