"""The scalars of an experiment file: how each is read, refused, shown, and described to editors.

Limits of a Kubernetes target are those of Kubernetes itself. Sources: Kubernetes, "Object Names and
IDs", "Labels and Selectors", "Quantity" and "Taints and Tolerations"; the OCI distribution
specification for names of images.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields
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
from steelyard.core.kubernetes import DNS_LABEL, DNS_SUBDOMAIN, IMAGE_REFERENCE, LABEL
from steelyard.core.quantities import (
    LONG,
    NAME,
    SETTING,
    SWITCH,
    TEXT,
    TEXTS,
    Key,
    Quantity,
    as_text,
    duration,
    refusal,
    share,
    shown,
    split_words,
    whole,
    word,
)
from steelyard.core.schedule import PROTOCOL

REFUSED: Final = "refused"
SEED_LIMIT: Final = 2**31
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


def amount(value: object) -> float:
    """Return an amount of money, 0 or more."""
    try:
        number = float(value) if isinstance(value, str | int | float) else math.nan
    except ValueError:
        number = math.nan
    if isinstance(value, bool) or not math.isfinite(number) or number < 0:
        raise refusal(f"{shown(value)} is no amount", "Write a number such as 0.42.")
    return number


def currency(value: object) -> str:
    """Return the three letters of a currency."""
    if not isinstance(value, str) or re.fullmatch(r"[A-Z]{3}", value) is None:
        raise refusal(f"{shown(value)} is no currency", "Write three capitals, such as EUR.")
    return value


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
    """

    def __init__(self, kind: type) -> None:
        self._kind = kind
        self.form = _form_of(kind)

    def read(self, value: object) -> Any:  # noqa: ANN401 - as the class is
        """Return the meaning of a written section; the class has the defaults."""
        return _filled(self._kind, self.form.model_validate(value))

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return no_info_after_validator_function(
            lambda form: _filled(self._kind, form),
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
    return tuple(_keys(kind))


@cache
def _form_of(kind: type) -> type[Form]:
    about = cleandoc(kind.__doc__ or "").partition("\n\n")[0]
    return create_model(kind.__name__, __base__=Form, __doc__=about, **_keys(kind))


def _keys(kind: type) -> dict[str, Any]:
    """Return the fields of pydantic's model of a section."""
    found: dict[str, Any] = {}
    for name, each, key in _keyed(kind):
        if key is None:
            found |= _keys(each.metadata["inside"])
            continue
        takes, default = _taken(key.takes), each.default
        if default is None:
            word = key.takes.word if isinstance(key.takes, Quantity) else ""
            default, takes = (word, takes) if word else (None, takes | None)
        said: dict[str, Any] = {"default": PydanticUndefined if default is MISSING else default}
        said = {"default_factory": tuple} if default == () else said  # nothing to tell an editor
        info = Field(**said, description=key.description, examples=[*key.examples] or None)
        found[name] = (takes, info)
    return found


def _keyed(kind: Any) -> Iterator[tuple[str, Any, Key | None]]:  # noqa: ANN401 - any dataclass
    """Yield keys of a class with their fields, and fields whose class has keys, too."""
    for each in fields(kind):
        key = each.metadata.get("key")
        if key is not None:
            unit = key.takes.unit if isinstance(key.takes, Quantity) else ""
            yield key.name or each.name.removesuffix(unit), each, key
        elif "inside" in each.metadata:
            yield each.name, each, None


def _taken(quantity: Any) -> Any:  # noqa: ANN401 - an annotation
    """Return the annotation of what a key takes for pydantic; a list names the wrong item."""
    if get_origin(quantity) is list:
        return list[_taken(get_args(quantity)[0])]  # type: ignore[misc]
    if not isinstance(quantity, Quantity):
        return Annotated[Any, Section(quantity)]
    if quantity.items is None:
        return Annotated[Any, ReadBy(quantity)]
    schema, least = dict(quantity.schema), quantity.schema["anyOf"][1].get("minItems", 0)
    items = list[Annotated[Any, ReadBy(quantity.items)]]
    return Annotated[items, BeforeValidator(split_words), MinLen(least), WithJsonSchema(schema)]


def _filled(kind: type, form: Form) -> Any:  # noqa: ANN401 - as the class is
    """Return what a section says as its class."""
    given = {}
    for name, each, key in _keyed(kind):
        if key is None:
            held = each.metadata["inside"]
            if each.default is MISSING or form.model_fields_set & _keys(held).keys():
                given[each.name] = _filled(held, form)
        elif name in form.model_fields_set:
            value = getattr(form, name)
            given[each.name] = tuple(value) if isinstance(value, list) else value
    return kind(**given)


def key(description: str, *examples: object, **default: Any) -> Any:  # noqa: ANN401 - as of Field
    """Return a key that may be left out; it is None then, or what ``default`` says as Field does.

    Its description and examples are for editors.
    """
    said = default or {"default": None}
    return Field(description=description, examples=list(examples) or None, **said)


OR_EMPTY: Final = BeforeValidator(empty_as_mapping)
Text = Annotated[str, ReadBy(TEXT)]
Name = Annotated[str, ReadBy(NAME)]
Count = Annotated[int, ReadBy(whole())]
Port = Annotated[int, ReadBy(whole(1, 65535))]
Seed = Annotated[int, ReadBy(whole(0, SEED_LIMIT - 1))]
Version = Annotated[int, ReadBy(version, const=1)]
Length = Annotated[float, ReadBy(duration())]
LongLength = Annotated[float, ReadBy(LONG)]
Budget = Annotated[float, ReadBy(duration(above=True))]
Amount = Annotated[float, ReadBy(amount, type="number", minimum=0)]
Currency = Annotated[str, ReadBy(currency, type="string", pattern="^[A-Z]{3}$")]
Share = Annotated[float, ReadBy(share())]
Switch = Annotated[bool, ReadBy(SWITCH)]
Texts = Annotated[list[Text], BeforeValidator(split_words), WithJsonSchema(TEXTS)]
SettingValue = Annotated[str | None, ReadBy(SETTING)]
Settings = Annotated[dict[str, SettingValue], OR_EMPTY]
Conditions = Annotated[
    list[Annotated[Condition, ReadBy(condition)]],
    BeforeValidator(split_words),
    WithJsonSchema(TEXTS),
]
Protocol = Annotated[str, ReadBy(PROTOCOL)]
Connection = Annotated[
    str,
    ReadBy(
        word(
            (
                "socket",
                "tcp",
            )
        )
    ),
]
Restore = Annotated[
    str,
    ReadBy(
        word(
            (
                "reflink",
                "copy",
                "template",
                "vacuum",
            )
        )
    ),
]
DesignWord = Annotated[str, ReadBy(word(DESIGNS))]
TRACKS = ("as-shipped", "matched")
TrackWord = Annotated[str, ReadBy(word(TRACKS))]


_SERVICE: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")  # RFC 1035: no digit in front
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_LABEL_KEY: Final = re.compile(
    rf"({LABEL}(\.{LABEL})*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}"
    r"[A-Za-z0-9])?"
)
_CLUSTER_LENGTH: Final = 50  # the operator adds suffixes and refuses longer names
_KEY_OF_SECRET: Final = re.compile(r"[-._A-Za-z0-9]{1,253}")
_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "hugepages-1Gi")
_HUGE: Final = "hugepages-"
_TOLERATION: Final = ("key", "operator", "value", "effect", "tolerationSeconds")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_OWN_KEYS: Final = {"nodeSelector": "node_selector", "tolerations": "tolerations"}


def _named(form: re.Pattern[str], what: str, hint: str) -> Callable[[object], str]:
    """Return a validator for names of one form."""

    def read(value: object) -> str:
        name = as_text(value)
        if not form.fullmatch(name):
            raise refusal(f"{shown(name)} is no {what}", hint)
        return name

    return read


def is_service_name(name: str) -> bool:
    """Return whether a Service can have this name."""
    return _SERVICE.fullmatch(name) is not None


def _cluster(value: object) -> str:
    name = _object_name(value)
    if len(name) > _CLUSTER_LENGTH or "." in name:
        hint = f"Names of Clusters have up to {_CLUSTER_LENGTH} characters and no dot."
        raise refusal(f"{shown(name)} is no name of a Cluster", hint)
    return name


def quantity(value: object) -> str:
    """Return an amount as written; one that is not above zero is refused."""
    text = as_text(value)
    try:
        amount = wording.parse_quantity(text)
    except wording.InputError as error:
        raise refusal(f"{shown(value)} is no quantity of Kubernetes", error.hint) from None
    if not amount:
        raise refusal(f"{shown(value)} is nothing", "Write more than 0.")
    return text


def told_memory(value: object) -> str:
    """Return a server's memory as written; a number without a unit is hardly meant."""
    text = as_text(value)
    try:
        size = wording.parse_bytes(text)
    except wording.InputError as error:
        raise refusal(f"{shown(value)} is no size of a memory", error.hint) from None
    if size < wording.MIB:
        raise refusal(f"{shown(value)} is {size} bytes of memory", "Write it as 64GiB.")
    return text


def told_cpus(value: object) -> str:
    """Return how many CPUs a server has, as written; 0.5 is half of one."""
    text = str(value) if isinstance(value, float) else as_text(value)
    is_number = re.fullmatch(r"[0-9]{1,5}(\.[0-9]{1,3})?", text)
    if not is_number or not float(text):
        raise refusal(f"{shown(value)} is no number of CPUs", "Write it as 16.")
    return text


def _storage(value: object) -> str:
    text = quantity(value)
    if wording.parse_quantity(text) % 1:
        raise refusal(f"{shown(value)} is no size of a volume", "Write it as 20Gi.")
    return text


def amounts(value: object) -> dict[str, str]:
    """Return amounts by resource, as Kubernetes names them."""
    if not isinstance(value, dict) or not value:
        hint = "Write it as in `{cpu: 2, memory: 4Gi}`."
        raise refusal(f"{shown(value)} names no resources", hint)
    for name in value:
        if name in _RESOURCES or _is_extended(name):
            continue
        hint = wording.did_you_mean(name, _RESOURCES) or f"known: {wording.listed(_RESOURCES)}"
        raise refusal(f"{shown(name)} is no resource of a container", hint)
    return {name: quantity(amount) for name, amount in value.items()}


def _is_extended(name: str) -> bool:
    """Return whether a resource is of a device plugin, or huge pages of another size."""
    if name.startswith(_HUGE):
        return wording.page_bytes_of(name) is not None
    return "/" in name and _LABEL_KEY.fullmatch(name) is not None


def labels(value: object) -> dict[str, str]:
    """Return labels that a node must have, as Kubernetes takes them: text by text."""
    if not isinstance(value, dict):
        raise refusal(f"{shown(value)} is no mapping of labels", "Write it as {disk: nvme}.")
    found = {}
    for key, given in value.items():
        if not _LABEL_KEY.fullmatch(key):
            hint = "Write it as `disk` or `example.com/disk`."
            raise refusal(f"{shown(key)} is no key of a label", hint)
        text = "" if given == "" else _label_value(key, given)
        found[key] = text
    return found


def _label_value(key: str, given: object) -> str:
    if isinstance(given, bool):  # YAML's true; a label is text
        given = "true" if given else "false"
    text = as_text(given)
    if not _LABEL_VALUE.fullmatch(text):
        hint = "Labels have up to 63 letters, digits, hyphens, underscores and dots."
        raise refusal(f"{shown(given)} is no value of the label `{key}`", hint)
    return text


def canonical(value: object) -> str:
    """Return YAML's plain values as JSON whose text is the same wherever the meaning is."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _fragment(value: object) -> object:
    """Return a fragment as plain values; one that was read already is JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        hint = "Write it as in a manifest."
        raise refusal(f"{shown(value)} is no YAML of a manifest", hint) from None


def tolerations(value: object) -> str:
    """Return tolerations as Kubernetes takes them, a JSON list."""
    items = _fragment(value)
    if not isinstance(items, list):
        hint = "Write it as in `[{key: dedicated, operator: Exists}]`."
        raise refusal(f"{shown(value)} is no list of tolerations", hint)
    for item in items:
        _check_toleration(item)
    return canonical(items)


def _check_toleration(item: object) -> None:
    if not isinstance(item, dict):
        hint = "Write it as in `[{key: dedicated, operator: Exists}]`."
        raise refusal(f"{shown(item)} is no toleration", hint)
    for key in item:
        if key not in _TOLERATION:
            raise refusal(f"a toleration has no key {shown(key)}", wording.choice(key, _TOLERATION))
    operator, effect = item.get("operator", "Equal"), item.get("effect")
    if operator not in ("Exists", "Equal"):
        hint = "Use `Exists` or `Equal`."
        raise refusal(f"{shown(operator)} is no operator of a toleration", hint)
    if operator == "Equal" and not item.get("key"):
        hint = "Name the `key` of the taint, or write `operator: Exists`."
        raise refusal("a toleration without `key` fits no taint", hint)
    if effect is not None and effect not in _EFFECTS:
        hint = wording.choice(str(effect), _EFFECTS)
        raise refusal(f"{shown(effect)} is no effect of a taint", hint)


def affinity(value: object) -> str:
    """Return further keys of a Cluster's ``spec.affinity``, a JSON object."""
    keys = _fragment(value)
    if not isinstance(keys, dict):
        hint = "Write it as below `spec.affinity` of a Cluster."
        raise refusal(f"{shown(value)} is no mapping", hint)
    for theirs, ours in _OWN_KEYS.items():
        if theirs in keys:
            hint = f"Write it below `{ours}` of the target."
            raise refusal(f"`{theirs}` has a key of its own", hint)
    return canonical(keys)


_object_name = _named(
    DNS_SUBDOMAIN,
    "name of an object in Kubernetes",
    "Use small letters, digits, hyphens and dots, with a letter or digit at both ends.",
)
_namespace = _named(
    DNS_LABEL, "name of a namespace", "Use up to 63 small letters, digits and hyphens."
)
_image = _named(
    IMAGE_REFERENCE, "reference of an image", "Write it as registry.example.com/name:tag."
)
_service = _named(
    _SERVICE, "name of a Service", "Use up to 63 small letters, digits and hyphens, a letter first."
)
_secret_key = _named(
    _KEY_OF_SECRET, "key of a Secret", "Use letters, digits, hyphens, underscores and dots."
)

_TEXT: Final = {"type": "string"}
_AMOUNT: Final[Mapping[str, Any]] = {"type": ["string", "number"], "examples": ["500m", "8Gi", 2]}
ObjectName = Annotated[str, ReadBy(_object_name, **_TEXT)]
ClusterName = Annotated[str, ReadBy(_cluster, **_TEXT, maxLength=_CLUSTER_LENGTH)]
NamespaceName = Annotated[str, ReadBy(_namespace, **_TEXT, maxLength=63)]
ServiceName = Annotated[str, ReadBy(_service, **_TEXT, maxLength=63)]
SecretKey = Annotated[str, ReadBy(_secret_key, **_TEXT)]
Image = Annotated[str, ReadBy(_image, **_TEXT)]
Storage = Annotated[str, ReadBy(_storage, **_AMOUNT)]
Amounts = Annotated[
    dict[str, str],
    ReadBy(amounts, type="object", additionalProperties=dict(_AMOUNT), minProperties=1),
]
Labels = Annotated[
    dict[str, str],
    ReadBy(labels, type="object", additionalProperties={"type": ["string", "number", "boolean"]}),
]
Tolerations = Annotated[str, ReadBy(tolerations, type="array", items={"type": "object"})]
Affinity = Annotated[str, ReadBy(affinity, type="object")]
ToldMemory = Annotated[str, ReadBy(told_memory, type="string")]
ToldCpus = Annotated[str, ReadBy(told_cpus, type="number")]
Method = Annotated[
    str,
    ReadBy(
        word(
            (
                "any",
                "first",
            )
        )
    ),
]
Durability = Annotated[
    str,
    ReadBy(
        word(
            (
                "required",
                "preferred",
            )
        )
    ),
]
