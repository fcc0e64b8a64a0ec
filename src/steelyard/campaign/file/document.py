"""A YAML text as plain values with the line and column of every key and value.

The node graph is read, not ruamel's round-trip objects: nodes keep each scalar as it was written
(``1.10``, ``0700``) and where it stands, duplicate keys can all be reported at once, and nothing
is constructed that a file could choose (dates, tags).
"""

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, StringMark, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from steelyard.core.quantities import WrittenFloat, WrittenInt
from steelyard.core.wording import Problem

KeyPath = tuple[str | int, ...]
Value = None | bool | int | float | str | list["Value"] | dict[str, "Value"]

# What is behind a decimal comma: digits and a unit.
_AFTER_COMMA: Final = re.compile(r"[0-9]+ ?(?:%|[A-Za-z]{1,3})")
_OTHER_SPACE: Final = re.compile(r"(\w+):[^\S ]+(.*)")  # no-break, thin: as editors put them
# Aliases can make a small text describe a huge value; no experiment comes near this. A guess.
MAX_VALUES: Final = 50_000
MAX_DEPTH: Final = 40
_TAG: Final = "tag:yaml.org,2002:"
_PLAIN_TAGS: Final = {
    *("str", "int", "float", "bool", "null", "timestamp", "value", "merge", "map", "seq")
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a key and its value stand, as 1-based (line, column); None outside the file.

    Attributes:
        key: Of the key, or of the item in a list.
        value: Of the value.
        given_as: The option the value came from, ``--override`` or ``--target``; empty for the
            file's own.
    """

    key: tuple[int, int] | None
    value: tuple[int, int] | None
    given_as: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """Something wrong at a path of the document, before its line is looked up.

    Attributes:
        at_key: It is about the key (unknown, missing below it), not about its value.
    """

    path: KeyPath
    message: str
    hint: str = ""
    at_key: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A parsed text: its value, the place of everything in it, and what is wrong with it so far.

    Attributes:
        written: The path in the text of what was merged into the value, by its path there.
    """

    value: Value
    places: Mapping[KeyPath, Place]
    problems: tuple[Problem, ...] = ()
    written: Mapping[KeyPath, KeyPath] = field(default_factory=dict)

    def at(self, path: KeyPath) -> Value:
        """Return the value at a path, or None where there is none."""
        value = self.value
        for step in path:
            if isinstance(value, dict) and isinstance(step, str):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                return None
        return value

    def written_at(self, path: KeyPath) -> KeyPath:
        """Return where in the text something stands that is inherited or made of factors."""
        for length in range(len(path), 0, -1):
            if (at := self.written.get(path[:length])) is not None:
                return (*at, *path[length:])
        return path

    def also(self, path: KeyPath, other: KeyPath) -> "Document":
        """Return the document with a further path, whose keys stand where those of another do."""
        size = len(other)
        same = {(*path, *k[size:]): at for k, at in self.written.items() if k[:size] == other}
        return replace(self, written={path: other, **self.written, **same})

    def place(self, path: KeyPath) -> Place:
        """Return the place of a path, or of the nearest thing that holds it."""
        return self._nearest(self.written_at(path))

    def _nearest(self, path: KeyPath) -> Place:
        for length in range(len(path), 0, -1):
            if path[:length] in self.places:
                return self.places[path[:length]]
        return Place(key=(1, 1), value=(1, 1))

    def dotted(self, path: KeyPath) -> str:
        """Return a path in words, list items by their name: ``workloads.reads.scale``."""
        words = []
        for index, step in enumerate(path):
            item = self.at(path[: index + 1]) if isinstance(step, int) else None
            name = item.get("name") if isinstance(item, dict) else None
            words.append(name if isinstance(name, str) and name else str(step))
        return ".".join(words)

    def problem(self, issue: Issue) -> Problem:
        """Return the issue with its line and column."""
        path = issue.path
        while path and isinstance(path[-1], int) and not isinstance(self.at(path[:-1]), list):
            path = path[:-1]  # one word was given where a list may stand
        path = self.written_at(path)
        place = self._nearest(path)
        where = place.key if issue.at_key else place.value
        words = self.dotted(path)
        return Problem(
            message=issue.message,
            hint=issue.hint,
            path=f"--override {words}"
            if place.given_as == "--override"
            else place.given_as or words,
            line=where and where[0],
            column=where and where[1],
        )


def parse_document(text: str) -> Document:
    """Return the document of a YAML text; it carries its problems instead of raising them."""
    try:
        node = compose(text)
    except RecursionError:
        return _unreadable(Problem(message="it is nested too deeply", line=1, column=1))
    except ReaderError as error:
        before = text[: error.position]
        line = before.count("\n") + 1
        column = len(before) - (before.rfind("\n") + 1) + 1
        message = f"character U+{ord(text[error.position]):04X} is not allowed in YAML"
        return _unreadable(Problem(message=message, hint="Remove it.", line=line, column=column))
    except MarkedYAMLError as error:
        return _unreadable(_syntax_problem(text, error))
    except (YAMLError, ValueError, LookupError, AttributeError, TypeError, AssertionError) as error:
        # The scanner lets these through on malformed input; fuzzing found them.
        reason = str(error).split("\n", maxsplit=1)[0] or type(error).__name__
        return _unreadable(Problem(message=f"it is not YAML: {reason}", line=1, column=1))
    if node is None:
        return _unreadable(Problem(message="it is empty", hint=_START, line=1, column=1))
    return _built(node)


def compose(text: str) -> Node | None:
    """Return the root node of a text, None for an empty one.

    Raises:
        YAMLError: The text is not YAML, or more than one document.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a reused anchor is allowed by YAML 1.2
        node: Node | None = YAML(typ="safe", pure=True).compose(text)
        return node


_START: Final = "`steelyard presets quick` prints an experiment to start from."


def _unreadable(problem: Problem) -> Document:
    return Document(value=None, places={}, problems=(problem,))


def _built(node: Node) -> Document:
    builder = _Builder()
    value = builder.value(node, ())
    if builder.count > MAX_VALUES:  # what was not read is not missing
        return Document(value=None, places={}, problems=tuple(builder.problems))
    return Document(value=value, places=builder.places, problems=tuple(builder.problems))


_NOT_CLOSED: Final = r"end of stream|<stream end>|could not find expected ':'"


def _syntax_problem(text: str, error: MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    if error.context_mark and re.search(_NOT_CLOSED, str(error.problem)):
        mark = error.context_mark  # where it began: its end is missed lines below, or at the end
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    told = " ".join(str(part) for part in (error.problem, error.context) if part)
    message = f"it is not YAML: {told or 'it cannot be parsed'}"
    lines = text.split("\n")
    written = lines[line - 1] if line <= len(lines) else ""
    hint = "Look at the indentation, colons and brackets of this line and the one before."
    if re.match(r"\s*\t", written):
        hint = "Indent with spaces: YAML does not allow tabs."
    elif written.startswith("---"):
        hint = "Keep one document: an experiment has a file of its own."
    elif "end of stream while scanning a quoted scalar" in message:
        hint = "Close the quotation mark."
    return Problem(message=message, hint=hint, line=line, column=column)


@dataclass(slots=True)
class _Builder:
    """Turns nodes into plain values, noting places and problems on the way."""

    places: dict[KeyPath, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    count: int = 0
    open_nodes: list[int] = field(default_factory=list)

    def value(self, node: Node, path: KeyPath) -> Value:
        """Return the value of a node; what cannot be used becomes None and a problem."""
        self.count += 1
        if id(node) in self.open_nodes:
            self.refuse(node, path, "the alias contains itself")
            return None
        if self.count > MAX_VALUES:
            if self.count == MAX_VALUES + 1:
                self.refuse(node, path, f"more than {MAX_VALUES} values, by aliases of aliases")
            return None
        if len(self.open_nodes) > MAX_DEPTH:
            self.refuse(node, path, "it is nested too deeply")
            return None
        if trouble := _unusable(node):
            self.refuse(node, path, trouble)
            return None
        self.open_nodes.append(id(node))
        value = self.plain(node, path)
        self.open_nodes.pop()
        return value

    def plain(self, node: Node, path: KeyPath) -> Value:
        """Return the value of a node whose tag is known."""
        if isinstance(node, MappingNode):
            return self.mapping(node, path)
        if isinstance(node, SequenceNode):
            return self.sequence(node, path)
        return scalar(node)

    def mapping(self, node: MappingNode, path: KeyPath) -> dict[str, Value]:
        """Return a mapping; the first of several equal keys counts.

        What a merge key or a comma in a number was meant to say counts, too: so what is wrong with
        them is one problem.
        """
        result: dict[str, Value] = {}
        merged: dict[str, Value] = {}
        before: tuple[Node, KeyPath] | None = None
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode) or _unusable(key_node):
                self.refuse(key_node, path, "the key is not a word", "Write `key: value`.")
                continue
            if key_node.tag == f"{_TAG}merge":
                hint = "Use `extends: NAME` in a configuration, or write the keys out."
                self.refuse(key_node, path, "the merge key `<<` is not taken", hint)
                value = self.value(value_node, path)
                for part in value if isinstance(value, list) else [value]:
                    merged |= part if isinstance(part, dict) else {}
                continue
            key = str(key_node.value)
            if before and _is_absent(value_node) and self.comma(*before, key_node):
                result[str(before[1][-1])] = f"{before[0].value}.{key}"
                continue
            if _is_absent(value_node) and (odd := _OTHER_SPACE.fullmatch(key)):
                message = f"behind `{odd[1]}:` stands a space that YAML does not know"
                self.refuse(key_node, (*path, odd[1]), message, "Write a plain space there.")
                result[odd[1]] = odd[2]
                continue
            before = value_node, (*path, key)
            if key in result:
                line = self.places[(*path, key)].key or (0, 0)
                message = f"the key `{key}` was already given on line {line[0]}"
                self.refuse(key_node, (*path, key), message, "Keep one of the two.")
                continue
            self.places[(*path, key)] = Place(
                key=_start(key_node), value=_value_start(key_node, value_node)
            )
            result[key] = self.value(value_node, (*path, key))
        return {**merged, **result}

    def sequence(self, node: SequenceNode, path: KeyPath) -> list[Value]:
        """Return a list."""
        result: list[Value] = []
        before: Node | None = None
        for item in node.value:
            where = (*path, len(result))
            if before and self.comma(before, (*path, len(result) - 1), item):
                result[-1] = f"{before.value}.{item.value}"
                continue
            before = item
            self.places[where] = Place(key=_start(item), value=_start(item))
            result.append(self.value(item, where))
        return result

    def comma(self, before: Node, path: KeyPath, after: Node) -> bool:
        """Note where `[0,5%]` and `{budget: 1,5h}` are a number with a comma; return whether.

        In brackets and braces YAML reads two values. A number alone behind the comma may be one.
        """
        whole, rest = str(before.value), str(after.value)
        is_number = isinstance(before, ScalarNode) and re.fullmatch("[0-9]+", whole)
        is_rest = isinstance(after, ScalarNode) and _AFTER_COMMA.fullmatch(rest)
        if not (is_number and is_rest and after.start_mark.index == before.end_mark.index + 1):
            return False
        message = f"`{whole},{rest}` has a comma where a decimal point belongs"
        self.refuse(before, path, message, f"Write `{whole}.{rest}`.")
        return True

    def refuse(self, node: Node, path: KeyPath, message: str, hint: str = "") -> None:
        """Note a problem at a node."""
        line, column = _start(node)
        hint = hint or "Write the value out."
        words = ".".join(map(str, path))
        self.problems.append(
            Problem(message=message, hint=hint, path=words, line=line, column=column)
        )


def scalar(node: Node) -> Value:
    """Return None, a boolean, a number with its spelling, or text; dates stay text."""
    text = str(node.value)
    kind = str(node.tag).removeprefix(_TAG)
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() == "true"
    if kind in ("int", "float"):
        return _number(text, kind)
    return text


def _number(text: str, kind: str) -> Value:
    plain = text.replace("_", "")
    number: WrittenFloat | WrittenInt
    try:
        if kind == "float":
            number = WrittenFloat(plain.replace(".inf", "inf").replace(".nan", "nan"))
        else:  # YAML 1.2 reads 010 as ten; 0x and 0o have their base in front
            number = WrittenInt(plain, 0 if re.match(r"[-+]?0[xob]", plain) else 10)
    except ValueError:
        return text
    number.text = text
    return number


def _unusable(node: Node) -> str:
    """Return why a node cannot be used, "" when it can."""
    tag = str(node.tag)
    if not (tag.startswith(_TAG) and tag.removeprefix(_TAG) in _PLAIN_TAGS):
        return f"the YAML tag {tag!r} means nothing here"
    if isinstance(node, ScalarNode) and re.search("[\ud800-\udfff]", str(node.value)):
        return "an escape in it is half a character"
    return ""


def _start(node: Node) -> tuple[int, int]:
    return _one_based(node.start_mark)


def _value_start(key: Node, value: Node) -> tuple[int, int]:
    # An absent value (`loads:` and nothing) is marked at the next token, perhaps lines below.
    return _start(key) if _is_absent(value) else _start(value)


def _is_absent(value: Node) -> bool:
    return isinstance(value, ScalarNode) and value.start_mark.index == value.end_mark.index


def _one_based(mark: StringMark) -> tuple[int, int]:
    return (mark.line + 1, mark.column + 1)
