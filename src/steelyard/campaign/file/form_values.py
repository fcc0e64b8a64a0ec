"""The scalars of an experiment file: how each is read, refused, shown, and described to editors.

Limits of a Kubernetes target are those of Kubernetes itself. Sources: Kubernetes, "Object Names and
IDs", "Labels and Selectors", "Quantity" and "Taints and Tolerations"; the OCI distribution
specification for names of images.
"""

import json
import math
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Final

from annotated_types import MinLen
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainValidator,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, PydanticCustomError

from steelyard.campaign.file.document import Value, WrittenFloat, WrittenInt
from steelyard.core import wording
from steelyard.core.findings import Condition, parse_condition
from steelyard.core.kubernetes import DNS_LABEL, DNS_SUBDOMAIN, IMAGE_REFERENCE, LABEL
from steelyard.core.schedule import LEAST_SETTLING_S, SHORTEST_TURN_S

_SHOWN_LENGTH: Final = 60


def shown(value: object) -> str:
    """Return a value as the user wrote it, short, and never with a password in it."""
    text = written(value)
    if wording.command_holds_secret(text):
        return "a value with a password in it"
    return f"`{text if len(text) <= _SHOWN_LENGTH else text[: _SHOWN_LENGTH - 3] + '...'}`"


def written(value: object) -> str:
    """Return a value in YAML's words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, WrittenInt | WrittenFloat):
        return value.text
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {written(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(written(item) for item in value) + "]"
    return str(value)


def strings(value: Value) -> Iterable[str]:
    """Yield every text inside a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)


REFUSED: Final = "refused"
SEED_LIMIT: Final = 2**31
BUILTINS: Final = ("select-only", "simple-update", "tpcb-like")
_EVERYTHING: Final = re.compile(r"\s*(100\s*%|1(\.0+)?)\s*")
LEAST_FIXED: Final = 3  # two have one degree of freedom: their interval is 13 standard errors wide
PROTOCOLS: Final = ("simple", "extended", "prepared")
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


def refusal(message: str, hint: str = "") -> PydanticCustomError:
    """Return the error that a validator raises; ``validation`` makes it a problem."""
    return PydanticCustomError(REFUSED, "{message}", {"message": message, "hint": hint})


def whole_number(low: int, high: int | None = None) -> Callable[[object], int]:
    """Return a validator for whole numbers in a range, both ends included."""
    bounds = f"at least {low}" if high is None else f"from {low} to {high}"

    def read(value: object) -> int:
        # `--override` and comma lists hand numbers over as text.
        if isinstance(value, str) and re.fullmatch(r"\s*[0-9]{1,18}\s*", value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise refusal(f"{shown(value)} is not a whole number", f"Write a number {bounds}.")
        if value < low or (high is not None and value > high):
            raise refusal(f"{shown(value)} is out of range", f"Write a number {bounds}.")
        return int(value)

    return read


def size(low: int, high: int | None = None) -> Callable[[object], int]:
    """Return a validator for sizes in bytes within a range, both ends included."""
    bounds = f"at least {wording.format_bytes(low)}"
    if high is not None:
        bounds = f"from {wording.format_bytes(low)} to {wording.format_bytes(high)}"

    def read(value: object) -> int:
        usable = isinstance(value, str | int) and not isinstance(value, bool)
        try:
            found = wording.parse_bytes(value) if usable else -1  # type: ignore[arg-type]
        except wording.InputError as error:
            raise refusal(f"{shown(value)} is not a size", error.hint) from error
        if found < low or (high is not None and found > high):
            raise refusal(f"{shown(value)} is out of range", f"Write a size {bounds}.")
        return found

    return read


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


def duration(
    low_s: float, *, above: bool = False, whole: bool = False
) -> Callable[[object], float]:
    """Return a validator for durations of at least (or above) a bound, in seconds."""

    def read(value: object) -> float:
        seconds = _seconds(value)
        if seconds < low_s or (above and seconds == low_s):
            limit = f"{'more than' if above else 'at least'} {low_s:g} s"
            raise refusal(f"{shown(value)} is too short", f"Write {limit}.")
        if whole and seconds != int(seconds):
            hint = "The load generator counts in whole seconds: write 5s, not 5.5s."
            raise refusal(f"{shown(value)} is not a whole number of seconds", hint)
        return seconds

    return read


def _seconds(value: object) -> float:
    usable = isinstance(value, str | int | float) and not isinstance(value, bool)
    try:
        seconds = wording.parse_duration_s(value) if usable else math.nan  # type: ignore[arg-type]
    except wording.InputError as error:
        raise refusal(f"{shown(value)} is not a duration", error.hint) from error
    if not math.isfinite(seconds):
        raise refusal(f"{shown(value)} is not a duration", "Write it as 90s, 20m or 1h30m.")
    return seconds


def warm_up(value: object) -> float | None:
    """Return seconds, or None for ``auto``."""
    return None if value == "auto" else duration(0.0)(value)


def rounds(value: object) -> int | None:
    """Return a number of rounds, or None for ``auto``."""
    return None if value == "auto" else whole_number(1)(value)


def share(value: object) -> float:
    """Return a fraction between 0 and 1, exclusive."""
    as_text = value.text if isinstance(value, WrittenInt | WrittenFloat) else value
    try:
        return wording.parse_fraction(as_text if isinstance(as_text, str) else str(as_text))
    except wording.InputError as error:
        message = f"{shown(value)} is not a share between 0 % and 100 %"
        raise refusal(message, error.hint) from error


def log_sampling(value: object) -> float:
    """Return a share, or 1 for all transactions."""
    return 1.0 if _EVERYTHING.fullmatch(str(value)) else share(value)


def neighbours(value: object) -> float | None:
    """Return a share, or None for ``ignore``."""
    return None if value == "ignore" else share(value)


def switch(value: object) -> bool:
    """Return a boolean from YAML 1.2's words and from those of YAML 1.1 that people still write."""
    words = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    raise refusal(f"{shown(value)} is neither true nor false", "Write true or false.")


def auto_or_switch(value: object) -> bool | None:
    """Return a boolean, or None for ``auto``."""
    if value is None or value == "auto":
        return None
    try:
        return switch(value)
    except PydanticCustomError as error:
        hint = "Write true or false, or auto."
        raise refusal(f"{shown(value)} is neither true nor false", hint) from error


def as_text(value: object) -> str:
    """Return non-empty text; numbers are taken as they are written."""
    if isinstance(value, WrittenInt | WrittenFloat):
        value = value.text
    if not isinstance(value, str) or not value.strip():
        raise refusal(f"{shown(value)} is not text", "Write some words.")
    if "\0" in value:
        raise refusal("the text holds a NUL character", "Remove it.")
    return value.strip()


def word(value: object) -> str:
    """Return a name: letters, digits, hyphens and underscores."""
    name = as_text(value)
    if not wording.NAME.fullmatch(name):
        hint = "Use up to 40 letters, digits, hyphens and underscores, as in `huge-pages`."
        raise refusal(f"{shown(name)} is no name for tables and file names", hint)
    return name


def one_of(*options: str) -> Callable[[object], str]:
    """Return a validator for one of some words."""

    def read(value: object) -> str:
        name = as_text(value)
        if name not in options:
            raise refusal(f"{shown(value)} is not known", wording.choice(name, options))
        return name

    return read


def split_words(value: object) -> list[object]:
    """Return a list: of the parts of a comma list, or of the single value."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    return value if isinstance(value, list) else [value]


def condition(value: object) -> Condition:
    """Return a condition of a gate."""
    try:
        return parse_condition(str(value))
    except wording.InputError as error:
        raise refusal(error.message, error.hint) from error


class Sessions(int):
    """A number of clients; ``threads`` are those of the generator, where the file pairs them."""

    threads: int | None = None

    @property
    def written(self) -> str:
        """Return it as a file has it."""
        return str(int(self)) if self.threads is None else f"{int(self)}/{self.threads}"


def sessions(value: object) -> Sessions:
    """Return a number of clients, or of clients and threads: ``8/8``."""
    clients, slash, threads = str(value).partition("/")
    read = whole_number(1)
    if not slash:
        return Sessions(read(value))
    found = Sessions(read(clients))
    found.threads = read(threads)
    if found.threads > found:
        message = f"{shown(value)} has more threads than clients"
        raise refusal(message, "The generator needs at least one client per thread.")
    return found


def thread_counts(value: object) -> tuple[int, ...] | None:
    """Return thread counts, or None for ``auto``."""
    if value == "auto":
        return None
    read = whole_number(1)
    counts = tuple(read(item) for item in split_words(value))
    if not counts:
        raise refusal("`threads` is empty", "Write `threads: auto`.")
    return counts


def setting_value(value: object) -> str | None:
    """Return the text that goes into the server's configuration, None to remove the setting."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, WrittenInt | WrittenFloat):
        return value.text
    if not isinstance(value, str):
        hint = "Write lists as text: 'a, b'."
        raise refusal(f"{shown(value)} is a list or mapping, not a setting's value", hint)
    if re.search(r"[\0\r\n]", value):
        raise refusal("the value has a line break or NUL in it", "Write it on one line.")
    return value


def command_words(value: object) -> tuple[str, ...]:
    """Return the words of a command: of a list, or of one line in the shell's quoting."""
    try:
        words = shlex.split(value) if isinstance(value, str) else value
    except ValueError as error:
        raise refusal(f"{shown(value)} has an open quote", "Write a list of words.") from error
    if not isinstance(words, list | tuple) or not words:
        raise refusal(f"{shown(value)} is no command", "Write a list of words.")
    return tuple(as_text(word) for word in words)


def empty_as_mapping(value: object) -> object:
    """Return an empty mapping for ``key:`` with nothing after it."""
    return {} if value is None else value


_DURATION = {"type": ["string", "number"], "examples": ["5s", "20m", "1h30m"]}
_BYTES = {"type": ["string", "integer"], "examples": ["48MB", "16GiB"]}
_SHARE = {"type": ["string", "number"], "examples": ["3%", 0.03]}
_ALLOWANCE = {"type": ["string", "number"], "examples": ["15%", "ignore"]}
_COUNT = {"type": "integer", "minimum": 1}
_COMMA_LIST = {"type": "string", "pattern": r"^\s*[0-9]+(\s*,\s*[0-9]+)*\s*$"}
_PAIR = {"type": "string", "pattern": r"^\s*[0-9]+\s*/\s*[0-9]+\s*$"}
_PAIRS_LIST = {"type": "string", "pattern": r"^\s*[0-9]+(/[0-9]+)?(\s*,\s*[0-9]+(/[0-9]+)?)*\s*$"}
_PAIRED = [
    _COUNT,
    _PAIRS_LIST,
    {"type": "array", "items": {"anyOf": [_COUNT, _PAIR]}, "minItems": 1},
]
_COUNTS = [_COUNT, _COMMA_LIST, {"type": "array", "items": _COUNT, "minItems": 1}]
TEXTS = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
_SETTING = {"type": ["string", "number", "boolean", "null"]}


class ReadBy:
    """How a value is read, and the JSON Schema by which editors know it."""

    def __init__(self, read: Callable[[object], object], /, **schema: object) -> None:
        self._validator = PlainValidator(read)
        self._schema = WithJsonSchema(schema)

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return self._validator.__get_pydantic_core_schema__(source, handler)

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return self._schema.__get_pydantic_json_schema__(core, handler)


def words(*options: str) -> ReadBy:
    """Return how one of some words is read."""
    return ReadBy(one_of(*options), enum=list(options))


def key(description: str, *examples: object, **default: Any) -> Any:  # noqa: ANN401 - as of Field
    """Return a key that may be left out; it is None then, or what ``default`` says as Field does.

    Its description and examples are for editors.
    """
    said = default or {"default": None}
    return Field(description=description, examples=list(examples) or None, **said)


OR_EMPTY: Final = BeforeValidator(empty_as_mapping)
Text = Annotated[str, ReadBy(as_text, type="string")]
Name = Annotated[str, ReadBy(word, type=["string", "integer"])]
Count = Annotated[int, ReadBy(whole_number(1), **_COUNT)]
FewBlocks = Annotated[int, ReadBy(whole_number(LEAST_FIXED), type="integer", minimum=LEAST_FIXED)]
Port = Annotated[int, ReadBy(whole_number(1, 65535), type="integer", minimum=1, maximum=65535)]
Seed = Annotated[
    int, ReadBy(whole_number(0, SEED_LIMIT - 1), type="integer", minimum=0, maximum=SEED_LIMIT - 1)
]
Version = Annotated[int, ReadBy(version, const=1)]
Counts = Annotated[
    list[Count], BeforeValidator(split_words), MinLen(1), WithJsonSchema({"anyOf": _COUNTS})
]
ClientCounts = Annotated[
    list[Annotated[Sessions, PlainValidator(sessions)]],
    BeforeValidator(split_words),
    MinLen(1),
    WithJsonSchema({"anyOf": _PAIRED}),
]
ThreadCounts = Annotated[
    tuple[int, ...] | None, ReadBy(thread_counts, anyOf=[{"const": "auto"}, *_COUNTS])
]
Slice = Annotated[float, ReadBy(duration(1.0, whole=True), **_DURATION)]
Ramp = Annotated[float, ReadBy(duration(0.0, whole=True), **_DURATION)]
Length = Annotated[float, ReadBy(duration(0.0), **_DURATION)]
Turn = Annotated[float, ReadBy(duration(SHORTEST_TURN_S), **_DURATION)]
Settling = Annotated[float, ReadBy(duration(LEAST_SETTLING_S), **_DURATION)]
Reconnections = Annotated[int, ReadBy(whole_number(0, 100), type="integer", minimum=0)]
LongLength = Annotated[float, ReadBy(duration(5.0, whole=True), **_DURATION)]
Bandwidth = Annotated[int, ReadBy(size(wording.MIB), **_BYTES)]
BlockSize = Annotated[int, ReadBy(size(4 * wording.KIB, 64 * wording.KIB), **_BYTES)]
VolumeSize = Annotated[int, ReadBy(size(wording.GIB), **_BYTES)]
Budget = Annotated[float, ReadBy(duration(0.0, above=True), **_DURATION)]
WarmUp = Annotated[float | None, ReadBy(warm_up, **_DURATION)]
Amount = Annotated[float, ReadBy(amount, type="number", minimum=0)]
Currency = Annotated[str, ReadBy(currency, type="string", pattern="^[A-Z]{3}$")]
Share = Annotated[float, ReadBy(share, **_SHARE)]
LogSampling = Annotated[float, ReadBy(log_sampling, **_SHARE)]
Neighbours = Annotated[float | None, ReadBy(neighbours, **_ALLOWANCE)]
Prewarm = Annotated[bool | None, ReadBy(auto_or_switch, enum=["auto", True, False])]
Switch = Annotated[bool, ReadBy(switch, type="boolean")]
Texts = Annotated[list[Text], BeforeValidator(split_words), WithJsonSchema(TEXTS)]
SettingValue = Annotated[str | None, ReadBy(setting_value, **_SETTING)]
Settings = Annotated[dict[str, SettingValue], OR_EMPTY]
Conditions = Annotated[
    list[Annotated[Condition, PlainValidator(condition)]],
    BeforeValidator(split_words),
    WithJsonSchema(TEXTS),
]
Protocol = Annotated[str, words(*PROTOCOLS)]
Connection = Annotated[str, words("socket", "tcp")]
Restore = Annotated[str, words("reflink", "copy", "template", "vacuum")]
DesignWord = Annotated[str, words(*DESIGNS)]
TRACKS = ("as-shipped", "matched")
TrackWord = Annotated[str, words(*TRACKS)]
ResetWord = Annotated[str, words("auto", "start", "block", "campaign")]
SwitchWord = Annotated[str, words("auto", "session", "reload", "restart", "reprovision")]
CeilingsWord = Annotated[str, words("auto", "on", "off")]
LogWord = Annotated[str, words("histograms", "keep", "off")]
Rounds = Annotated[int | None, ReadBy(rounds, anyOf=[{"const": "auto"}, _COUNT])]


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
Method = Annotated[str, words("any", "first")]
Durability = Annotated[str, words("required", "preferred")]
