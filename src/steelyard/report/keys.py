"""Keys of the answers for programs, and their JSON Schema, made from one declaration.

A field of a dataclass is a key where its annotation says what it is, in a sentence::

    second_sd: Annotated[Estimate | None, PERCENT, "Deviation from second to second, %."]

Fields without a sentence are for Steelyard alone. A key has the name of its field and ends in its
unit. What is not there is null: a text is that where it is empty and may be so by its default.
"""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from enum import Enum
from functools import cache, partial
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

from steelyard.core.findings import Estimate
from steelyard.core.quantities import (
    BOUNDS,
    EMPTY,
    INLINE,
    OPTIONAL,
    PLAIN,
    By,
    Computed,
    Named,
    Unit,
)
from steelyard.core.schedule import AllLoads, Load
from steelyard.report.document import Datum, Json, bounds, column_key, interval, number

Schema = dict[str, Any]
_NULL: Final = type(None)
_NAMES: Final = {bool: "boolean", int: "integer", float: "number", str: "string", _NULL: "null"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Key:
    """One declared field.

    Attributes:
        hint: The type of its value.
        default: Of the field; ``MISSING`` where it has none.
        by: Field of its items that they are found by; empty: they are a list.
        sentences: Of a mapping that is inline: of each of its values, by key.
        is_null_if_empty: It is a text that may be missing.
    """

    attribute: str
    name: str
    hint: Any
    description: str
    unit: Unit
    default: Any = MISSING
    by: str = ""
    sentences: Mapping[str, str] = field(default_factory=dict)
    is_optional: bool = False
    is_inline: bool = False
    has_bounds: bool = False
    is_null_if_empty: bool = False

    def value_of(self, thing: object) -> Any:  # noqa: ANN401 - whatever the field holds
        """Return the value of the field."""
        value = getattr(thing, self.attribute)
        return {getattr(each, self.by): each for each in value} if self.by else value

    def is_left_out(self, value: object) -> bool:
        """Return whether there is no key for such a value."""
        return self.is_optional and (value is None or value in ((), self.default))

    @property
    def is_effect(self) -> bool:
        """Return whether it has a key for each bound."""
        return (self.is_inline or self.has_bounds) and Estimate in _kinds(self.hint)

    @property
    def ends(self) -> tuple[str, str, str]:
        """Return the keys of a value and of its bounds."""
        stem = f"{self.name.removesuffix(self.unit.suffix)}_" if self.has_bounds else ""
        return (self.name, f"{stem}low{self.unit.suffix}", f"{stem}high{self.unit.suffix}")


@dataclass(frozen=True, slots=True)
class Declared:
    """The declared keys of ``summary.json`` of one answer.

    Attributes:
        hint: Type of what it computes.
        name: The key that all of it stands below; empty: its own keys are at the top.
        description: Of that key.
    """

    hint: Any
    name: str = ""
    description: str = ""

    def __call__(self, value: Any) -> dict[str, Json]:  # noqa: ANN401 - of that type
        """Return the keys with their values."""
        return {self.name: _plain(value, PLAIN)} if self.name else keys_of(value)

    def of(self, value: object | None) -> dict[str, Json]:
        """Return the keys with their values, or no keys without a value."""
        return self(value) if value else {}

    @property
    def properties(self) -> dict[str, Schema]:
        """Return the schema of the keys."""
        if not self.name:
            return properties_of(self.hint)
        return {self.name: {"description": self.description, **_schema(*_kinds(self.hint))}}


@cache
def _keys(kind: Any) -> tuple[_Key, ...]:  # noqa: ANN401 - a type
    """Return the keys that a class declares, in its order."""
    defaults = {field.name: field.default for field in fields(kind)}
    keys = []
    for name, declared in get_type_hints(kind, include_extras=True).items():
        computed = getattr(kind, name, None)
        hint = computed.hint if isinstance(computed, Computed) else declared
        value, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        description = next((mark for mark in marks if isinstance(mark, str)), "")
        unit = next((mark for mark in marks if isinstance(mark, Unit)), PLAIN)
        other = next((mark.key for mark in marks if isinstance(mark, Named)), "")
        sentences = next((mark for mark in marks if isinstance(mark, Mapping)), {})
        by = next((mark.field for mark in marks if isinstance(mark, By)), "")
        key = _Key(
            attribute=name,
            name=other or name.removesuffix(unit.suffix) + unit.suffix,
            hint=Mapping[str, get_args(value)[0]] if by else value,  # type: ignore[misc]
            description=description,
            unit=unit,
            default=defaults.get(name, MISSING),
            by=by,
            sentences=sentences,
            is_optional=OPTIONAL in marks,
            is_inline=INLINE in marks,
            has_bounds=BOUNDS in marks,
            is_null_if_empty=value is str and defaults.get(name) == "" and EMPTY not in marks,
        )
        if description or key.is_inline:
            keys.append(key)
    return tuple(keys)


def keys_of(thing: object) -> dict[str, Json]:
    """Return the keys of an object with their values, ready for ``json.dumps``."""
    written: dict[str, Json] = {}
    for key in _keys(type(thing)):  # type: ignore[arg-type]  # a class has a hash
        value = key.value_of(thing)
        if key.is_left_out(value):
            continue
        if key.is_effect:
            low, high = bounds(value) or (None, None)
            ends = (None if value is None else value.value, low, high)
            written |= {n: number(v, key.unit) for n, v in zip(key.ends, ends, strict=True)}
        elif key.sentences:
            written |= {name: _plain(value[name], key.unit) for name in key.sentences}
        elif key.is_inline:
            written |= {} if value is None else keys_of(value)
        else:
            is_nothing = key.is_null_if_empty and not value
            written[key.name] = None if is_nothing else _plain(value, key.unit)
    return written


def row_of(thing: object, prefix: str = "") -> tuple[Datum, ...]:
    """Return the keys of an object as a row of data: a column for a value, and for a bound.

    The keys of an object below have the name of its key before theirs; lists are left out.
    """
    keys = keys_of(thing).items()
    return tuple(datum for key, value in keys for datum in _columns(f"{prefix}{key}", value))


def _columns(name: str, value: Json) -> Iterator[Datum]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _columns(name if key == "estimate" else f"{name}_{key}", part)
    elif not isinstance(value, list):
        yield column_key(name), value


def load_data(load: Load | None) -> tuple[Datum, ...]:
    """Return by which keys programs find a load, or the result over all loads of a workload."""
    return row_of(load or AllLoads())


def _plain(value: Any, unit: Unit) -> Json:  # noqa: ANN401 - whatever a field holds
    if isinstance(value, Estimate):
        return interval(value, partial(number, unit=unit))
    if isinstance(value, Enum):
        return _plain(value.value, unit)
    if isinstance(value, float):
        return number(value, unit)
    if isinstance(value, Mapping):
        return {str(_plain(name, PLAIN)): _plain(each, unit) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(each, unit) for each in value]
    return keys_of(value) if is_dataclass(value) else value


def properties_of(kind: Any) -> dict[str, Schema]:  # noqa: ANN401 - a type
    """Return the schema of each key that a class declares."""
    properties: dict[str, Schema] = {}
    for key in _keys(kind):
        if key.is_effect:
            of = f"the interval, {key.unit.symbol}" if key.unit.symbol else "its interval"
            bound = f"bound of {of}; may be null."
            descriptions = (key.description, f"Lower {bound}", f"Upper {bound}")
            for name, description in zip(key.ends, descriptions, strict=True):
                properties[name] = {"description": description, **_schema(float)}
        elif key.sentences:
            value = _schema(*_kinds(get_args(key.hint)[1]))
            properties |= {
                name: {"description": said, **value} for name, said in key.sentences.items()
            }
        elif key.is_inline:
            properties |= properties_of(next(each for each in _kinds(key.hint) if each != _NULL))
        else:
            kinds = {*_kinds(key.hint), *([_NULL] if key.is_null_if_empty else [])}
            kinds -= {_NULL} if key.is_optional else set()
            properties[key.name] = {"description": key.description, **_schema(*kinds)}
    return properties


def _kinds(hint: Any) -> tuple[Any, ...]:  # noqa: ANN401 - a type
    """Return the types of a union, or the one type."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _schema(*kinds: Any) -> Schema:  # noqa: ANN401 - types
    """Return the schema of a value of one of some types."""
    if Estimate in kinds:
        return {"anyOf": [{"$ref": "#/$defs/interval"}, {"type": "null"}]}
    names = {_name(each) for each in kinds} | ({"null"} if float in kinds else set())
    schema: Schema = {"type": sorted(names) if len(names) > 1 else names.pop()}
    for each in kinds:
        if get_origin(each) is tuple:
            schema["items"] = _schema(*_kinds(get_args(each)[0]))
        elif get_origin(each) is Mapping:
            schema["additionalProperties"] = _schema(*_kinds(get_args(each)[1]))
        elif is_dataclass(each):
            schema["properties"] = properties_of(each)
        elif issubclass(each, Enum):
            schema["enum"] = [member.value for member in each] + [None] * (_NULL in kinds)
    return schema


def _name(kind: Any) -> str:  # noqa: ANN401 - a type
    """Return what JSON Schema calls a type."""
    if get_origin(kind) is tuple:
        return "array"
    if get_origin(kind) is Mapping or is_dataclass(kind):
        return "object"
    return next(name for known, name in _NAMES.items() if issubclass(kind, known))
