"""The scalars of an experiment file: how each is read, refused, shown, and described to editors."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING
from functools import cache
from inspect import cleandoc
from typing import Annotated, Any, Final, get_args, get_origin

from annotated_types import MinLen
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
    create_model,
)
from pydantic_core import CoreSchema, PydanticCustomError, PydanticUndefined
from pydantic_core.core_schema import (
    no_info_after_validator_function,
    no_info_wrap_validator_function,
    plain_serializer_function_ser_schema,
)

from steelyard.core import wording
from steelyard.core.findings import Condition, parse_condition
from steelyard.core.quantities import (
    LONG,
    NAME,
    SETTING,
    TEXT,
    TEXTS,
    Quantity,
    as_text,
    keyed,
    refusal,
    shown,
    split_words,
    whole,
    word,
)
from steelyard.core.schedule import PROTOCOL

REFUSED: Final = "refused"
DESIGNS: Final = ("auto", "alternating", "one-by-one", "single-pass")


class Form(BaseModel):
    """A section of the file; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


STRAY_KEY: Final = "extra_forbidden"  # as pydantic calls a key that a section has not


def only(names: Callable[[], Iterable[str]]) -> Callable[[str], str]:
    """Return a validator for keys that registered systems and targets add to a section."""

    def known(key: str) -> str:
        if key not in names():
            raise PydanticCustomError(STRAY_KEY, "unknown key")
        return key

    return known


def version(value: object) -> int:
    """Return the version of the file format; there is one so far."""
    if isinstance(value, str | float) and value in ("1", 1):
        written = f"the text '{value}'" if isinstance(value, str) else shown(value)
        hint = "Write `version: 1`, without quotation marks or a point."
        raise refusal(f"the version of the file format is {written}, not a whole number", hint)
    if isinstance(value, bool) or value != 1:
        message = f"version {shown(value)} of the file format is not known here"
        raise refusal(message, "Write `version: 1`, or use a newer Steelyard.")
    return 1


def condition(value: object) -> Condition:
    """Return a condition of a gate."""
    try:
        return parse_condition(str(value))
    except wording.InputError as error:
        raise refusal(error.message, error.hint) from error


def empty_as_mapping(value: object) -> object:
    """Return an empty mapping for ``key:`` with nothing after it."""
    return {} if value is None else value


def _refusing(read: Callable[[object], object]) -> Callable[[object], object]:
    """Return a validator whose refusal becomes a problem."""

    def validated(value: object) -> object:
        try:
            return read(value)
        except wording.InputError as error:
            told = {"message": error.message, "hint": error.hint}
            raise PydanticCustomError(REFUSED, "{message}", told) from None

    return validated


class ReadBy:
    """How a value is read, and the JSON Schema by which editors know it."""

    def __init__(self, read: Quantity | Callable[[object], object], /, **schema: object) -> None:
        quantity = read if isinstance(read, Quantity) else Quantity(read=read, schema=schema)
        self._validator = PlainValidator(_refusing(quantity.read))
        self._schema = WithJsonSchema(dict(quantity.schema))

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return self._validator.__get_pydantic_core_schema__(source, handler)

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return self._schema.__get_pydantic_json_schema__(core, handler)


class ReadFor(ReadBy):
    """How a value is read by a reader that needs the engine, the context of the validation."""

    def __init__(self, read: Callable[[object, str | None], object], /, **schema: object) -> None:
        super().__init__(str, **schema)

        def told(value: object, about: ValidationInfo) -> object:
            return _refusing(lambda value: read(value, about.context))(value)

        self._validator = PlainValidator(told)


class Section:
    """A section whose keys are the fields of a class: it is read, and becomes one.

    Fields without a ``Key`` are no keys, but those whose class has some: they are in this section.
    Where keys are inherited, null stands for one that is not given.
    """

    def __init__(self, kind: type, *, inherits: bool = False) -> None:
        self._kind = kind
        self._inherits = inherits
        self.form = form_of(kind, inherits=inherits)

    def read(self, value: object) -> Any:  # noqa: ANN401 - as the class is
        """Return the meaning of a written section; the class has the defaults."""
        return self._filled(self.form.model_validate(value))

    def _filled(self, form: Form) -> Any:  # noqa: ANN401 - as the class is
        return filled(self._kind, said(form, inherits=self._inherits))

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return no_info_after_validator_function(
            self._filled,
            handler.generate_schema(self.form),
            serialization=plain_serializer_function_ser_schema(lambda read: read),
        )


class TextsOf(Section):
    """A section of settings: read as its class has them, and kept as the texts that they are."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        def texts(value: object, read: Callable[[object], object]) -> dict[str, str | None]:
            read(value)
            given = value if isinstance(value, dict) else {}
            return {key: None if text is None else as_text(text) for key, text in given.items()}

        return no_info_wrap_validator_function(texts, handler.generate_schema(self.form))


def section_keys(kind: type) -> tuple[str, ...]:
    """Return the keys of a class."""
    return tuple(keys_of(kind))


@cache
def form_of(kind: type, *, inherits: bool = False) -> type[Form]:
    """Return pydantic's model of a section whose keys are those of a class."""
    about = cleandoc(kind.__doc__ or "").partition("\n\n")[0]
    keys = keys_of(kind, inherits=inherits)
    return create_model(kind.__name__, __base__=Form, __doc__=about, **keys)


def keys_of(kind: type, *, inherits: bool = False) -> dict[str, Any]:
    """Return the fields of pydantic's model of a section."""
    found: dict[str, Any] = {}
    for name, each, key in keyed(kind):
        if key is None:
            found |= keys_of(each.metadata["inside"], inherits=inherits)
            continue
        of, default = key.takes, each.default
        word, type_ = (
            (of.word, of.schema.get("type")) if isinstance(of, Quantity) else ("", "object")
        )
        takes = _taken(of, inherits=inherits)
        if inherits or (default is None and not word):
            takes |= None
        said: dict[str, Any] = {"default": word or None}
        if default is MISSING and key.unwritten is None:
            said = {"default": PydanticUndefined}
        elif default == ():
            said = {"default_factory": tuple}  # nothing to tell an editor
        elif isinstance(default, str | int | float | tuple) and type_ not in ("array", "object"):
            said = {"default": default}
        info = Field(**said, description=key.description, examples=[*key.examples] or None)
        found[name] = (takes, info)
    return found


def sections_of(kind: type) -> Iterator[tuple[tuple[str, ...], type[Form]]]:
    """Yield sections that keys of a class have, with their paths."""
    for name, each, key in keyed(kind):
        if key is None:
            yield from sections_of(each.metadata["inside"])
        elif isinstance(key.takes, type):
            yield (name,), form_of(key.takes, inherits=True)
            yield from (((name, *path), form) for path, form in sections_of(key.takes))


def _taken(quantity: Any, *, inherits: bool) -> Any:  # noqa: ANN401 - an annotation
    """Return the annotation of what a key takes for pydantic; a list names the wrong item."""
    if get_origin(quantity) is list:
        return list[_taken(get_args(quantity)[0], inherits=inherits)]  # type: ignore[misc]
    if not isinstance(quantity, Quantity):
        return Annotated[Any, Section(quantity, inherits=inherits)]
    if quantity.items is None:
        return Annotated[Any, ReadBy(quantity)]
    schema, least = dict(quantity.schema), quantity.schema["anyOf"][1].get("minItems", 0)
    items = list[Annotated[Any, ReadBy(quantity.items)]]
    return Annotated[items, BeforeValidator(split_words), MinLen(least), WithJsonSchema(schema)]


def said(form: Form, *, inherits: bool = False) -> dict[str, Any]:
    """Return what a section says by its keys."""
    given = {name: getattr(form, name) for name in form.model_fields_set}
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in given.items()
        if value is not None or not inherits
    }


def filled(kind: type, given: Mapping[str, Any]) -> Any:  # noqa: ANN401 - as the class is
    """Return what a section says as its class."""
    found = {}
    for name, each, key in keyed(kind):
        if key is None:
            held, by = each.metadata["inside"], each.metadata["by"]
            if each.default is MISSING or given.keys() & set(by or keys_of(held)):
                found[each.name] = filled(held, given)
        elif name in given or key.unwritten is not None:
            found[each.name] = given.get(name, key.unwritten)
    return kind(**found)


def key(description: str, *examples: object, **default: Any) -> Any:  # noqa: ANN401 - as of Field
    """Return a key that may be left out; it is None then, or what ``default`` says as Field does.

    Its description and examples are for editors.
    """
    said = default or {"default": None}
    return Field(description=description, examples=list(examples) or None, **said)


OR_EMPTY: Final = BeforeValidator(empty_as_mapping)
Text = Annotated[str, ReadBy(TEXT)]
Name = Annotated[str, ReadBy(NAME)]
Seed = Annotated[int, ReadBy(whole(0, wording.SEED_LIMIT - 1))]
Version = Annotated[int, ReadBy(version, const=1)]
LongLength = Annotated[float, ReadBy(LONG)]
Texts = Annotated[list[Text], BeforeValidator(split_words), WithJsonSchema(TEXTS)]


def _as_change(value: object) -> str:
    text = as_text(value)
    if not _CHANGES.match(text):
        raise refusal(
            f"{shown(text)} does not change a table",
            "Use CREATE, ALTER or DROP of INDEX or STATISTICS, ALTER TABLE, CLUSTER or REINDEX;"
            " files of `prepare` take any SQL.",
        )
    return text


_CHANGES = re.compile(
    r"\s*((create|alter|drop)\s+((unique\s+)?index|statistics)|alter\s+table|cluster|reindex)\b",
    re.IGNORECASE,
)
# A statement may have commas.
Statements = Annotated[
    list[Annotated[str, ReadBy(Quantity(read=_as_change, schema=TEXT.schema))]],
    BeforeValidator(lambda given: [given] if isinstance(given, str) else given),
    WithJsonSchema({"anyOf": [TEXT.schema, {"type": "array", "items": TEXT.schema}]}),
]
SettingValue = Annotated[str | None, ReadBy(SETTING)]
Settings = Annotated[dict[str, SettingValue], OR_EMPTY]
Conditions = Annotated[
    list[Annotated[Condition, ReadBy(condition)]],
    BeforeValidator(split_words),
    WithJsonSchema(TEXTS),
]
Protocol = Annotated[str, ReadBy(PROTOCOL)]
DesignWord = Annotated[str, ReadBy(word(DESIGNS))]
TRACKS = ("as-shipped", "matched")
TermsWord = Annotated[str, ReadBy(word(TRACKS))]
