"""The experiment file as it is written: one class per section, as DESIGN's canonical file has it.

Only what a single value can tell is checked here; what takes two places of the file to see is
in ``checks`` and ``inheritance``. Descriptions and examples end in the JSON Schema.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, Final, TypeVar

from annotated_types import MinLen
from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, ErrorDetails

from steelyard.campaign.file import form_values, kinds
from steelyard.campaign.file import form_values as values
from steelyard.campaign.file.document import Document, Issue, KeyPath, Value
from steelyard.core.experiment import (
    Calibration,
    CapacityAsked,
    ManualStep,
    Measure,
    Script,
    Stop,
    Workload,
)
from steelyard.core.linux import Limits
from steelyard.core.quantities import (
    REDIS_SETTING,
    SETTING,
    as_text,
    refusal,
    shown,
    split_words,
    text_of,
    written,
)
from steelyard.core.schedule import GOAL, GeneratorAsked, LatencyGoal, LoadsAsked
from steelyard.core.target import TARGETS, EngineName, system_of, systems
from steelyard.core.wording import InputError, choice, closest, did_you_mean, listed
from steelyard.tuning.profiles import profile_names

LATER_LAYERS: Final = ("kubernetes",)


MEASURE: Final = form_values.Section(Measure)
MANUAL: Final = form_values.Section(ManualStep)
CALIBRATION: Final = form_values.Section(Calibration)
STOP: Final = form_values.Section(Stop)
CAPACITY: Final = form_values.Section(CapacityAsked)
WORKLOAD: Final = form_values.Section(Workload)
LOAD: Final = form_values.Section(LoadsAsked)
GENERATOR: Final = form_values.Section(GeneratorAsked)
LIMITS: Final = form_values.TextsOf(Limits)


def _profile(value: object) -> str:
    name = as_text(value)
    if name not in profile_names():
        raise refusal(f"there is no profile {shown(name)}", choice(name, profile_names()))
    return name


_PROFILE: Final = {"type": "string", "enum": list(profile_names())}
Profiles = Annotated[
    list[Annotated[str, values.ReadBy(_profile)]],
    BeforeValidator(split_words),
    WithJsonSchema({"anyOf": [_PROFILE, {"type": "array", "items": _PROFILE}]}),
]


def server_layers() -> list[str]:
    """Return the keys of settings of each database system."""
    return [each.layer for each in systems()]


def setting_keys() -> list[str]:
    """Return the keys of all layers with settings by name."""
    return [*server_layers(), "cgroup", "linux"]


def _settings(given: object) -> dict[str, str | None]:
    if not isinstance(given, dict | None):
        raise refusal(f"{shown(given)} is not a mapping of settings", "Write `name: value` lines.")
    return {name: SETTING.read(value) for name, value in (given or {}).items()}


FurtherSettings = Annotated[dict[str, str | None], values.ReadBy(_settings)]


def _describe_later_layers(schema: dict[str, Any]) -> None:
    schema["additionalProperties"] = False
    for layer in server_layers():
        schema["properties"].setdefault(layer, {"type": "object"})
    for layer in LATER_LAYERS:
        schema["properties"][layer] = {
            "type": "object",
            "description": "Known, and not supported yet: this version refuses it.",
        }


class LevelForm(form_values.Form):
    """What one level of a factor sets: a configuration's own keys."""

    # A database system without a section here has its settings below its layer.
    model_config = ConfigDict(extra="allow", json_schema_extra=_describe_later_layers)
    __pydantic_extra__: dict[
        Annotated[str, AfterValidator(values.only(server_layers))], FurtherSettings
    ] = Field(init=False)

    target: Annotated[kinds.WrittenTarget, kinds.TARGET, form_values.OR_EMPTY] = values.key(
        "Where the server runs.", default_factory=dict, validate_default=True
    )
    protocol: values.Protocol | None = values.key("pgbench's query mode, where it is what varies.")
    prepare: values.Texts = values.key(
        "SQL files that are run once by psql after those of the workloads, where the schema is"
        " what varies.",
        ["new-index.sql"],
        default_factory=list,
    )
    ddl: values.Statements = values.key(
        "Statements that are run once after those files, in this configuration's own data: CREATE"
        " INDEX, CREATE STATISTICS, ALTER TABLE.",
        ["CREATE INDEX ON orders (customer)"],
        default_factory=list,
    )
    scripts: Annotated[dict[str, values.Text], form_values.OR_EMPTY] = values.key(
        "Rewritten scripts: the file of a workload, and the one that runs in its place, by its name"
        " and with its weight.",
        {"report.sql": "report-rewritten.sql"},
        default_factory=dict,
    )
    profile: Profiles = values.key(
        "Named sets of settings; explicit ones come after them.", "fitted", default_factory=list
    )
    postgres: values.Settings = values.key(
        "PostgreSQL settings; null removes an inherited one.",
        {"shared_buffers": "2GB"},
        default_factory=dict,
    )
    redis: Annotated[
        dict[str, Annotated[str | None, values.ReadBy(REDIS_SETTING)]], form_values.OR_EMPTY
    ] = values.key(
        "Redis settings, as CONFIG SET takes them; null removes an inherited one, an empty text is"
        " a value.",
        {"appendonly": "yes", "appendfsync": "everysec"},
        default_factory=dict,
    )
    cgroup: Annotated[dict[str, str | None], LIMITS, form_values.OR_EMPTY] = values.key(
        "Limits of the server and the load generator by control groups; needs root.",
        {"cpus": 0.6},
        default_factory=dict,
    )
    linux: values.Settings = values.key(
        "Kernel settings of this machine, by sysctl or short name; null removes an inherited one."
        " Needs root.",
        {"vm.nr_hugepages": "auto"},
        default_factory=dict,
    )
    manual: Annotated[ManualStep, MANUAL, form_values.OR_EMPTY] | None = values.key(
        "What a person or a command does when this configuration comes into force after another"
        " one.",
        {"text": "Switch SMT off in the firmware.", "timeout": "15m"},
    )

    @property
    def settings(self) -> dict[str, dict[str, str | None]]:
        """Return the settings of each layer, names of Redis in small letters; None removes one."""
        return {
            "postgres": self.postgres,
            "cgroup": self.cgroup,
            "linux": self.linux,
            "redis": {name.lower(): value for name, value in self.redis.items()},
            **(self.__pydantic_extra__ or {}),
        }


class _Extending(form_values.Form):
    """What a configuration has that a level has not."""

    extends: values.Name | None = values.key("The configuration that this one changes.", "default")


class ConfigurationForm(LevelForm, _Extending):
    """One combination of levels; what is not given is inherited through `extends`."""

    model_config = LevelForm.model_config


class _TwoLevels:
    """Describes a factor to editors: two levels by name, or one setting with its two values."""

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        level = handler(core)["additionalProperties"]
        value = {"type": ["string", "number", "boolean"]}
        pair = {"type": "array", "items": value, "minItems": 2, "maxItems": 2}
        one = {"type": "object", "minProperties": 1, "maxProperties": 1}
        levels = {"patternProperties": {"^.+$": {"anyOf": [level, {"type": "null"}]}}}
        settings = {**one, "patternProperties": {"^.+$": pair}}
        short = (
            {**one, "required": [key], "properties": {key: settings}} for key in setting_keys()
        )
        return {
            "anyOf": [
                {"type": "object", **levels, "minProperties": 2, "maxProperties": 2},
                *short,
            ]
        }


Factor = Annotated[dict[str, Annotated[LevelForm, form_values.OR_EMPTY]], _TwoLevels()]
Factors = Annotated[dict[str, Factor], MinLen(1)]
Configurations = Annotated[dict[str, Annotated[ConfigurationForm, form_values.OR_EMPTY]], MinLen(1)]
WHAT_IS_COMPARED: Final = ("configurations", "factors", "ladder", "ablation")
_BUFFERS: Final = {
    "128MB": {"postgres": {"shared_buffers": "128MB"}},
    "2GB": {"postgres": {"shared_buffers": "2GB"}},
}


class ExperimentForm(form_values.Form):
    """An experiment: which configurations are weighed, on which work, and when it is enough."""

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": [key]} for key in WHAT_IS_COMPARED]}
    )

    version: values.Version = Field(description="Version of this file format.", examples=[1])
    name: values.Text = Field(description="Title of the report.", examples=["huge pages"])
    description: values.Text | None = values.key(
        "Why the question is asked.", "Before the upgrade."
    )
    engine: kinds.EngineWord = values.key(
        "The database system of all targets.", "redis", default=EngineName.POSTGRES.value
    )
    design: values.DesignWord = values.key(
        "How configurations are compared in blocks: `alternating` has all of them up and lets the"
        " load take turns, `one-by-one` brings up one after another, `auto` alternates where that"
        " can be. `single-pass` runs one configuration once per cell in file order, without"
        " interval or verdict.",
        default="auto",
    )
    terms: values.TermsWord | None = values.key(
        "On what terms servers in different places are compared: `as-shipped` takes each as its"
        " vendor ships it and labels what differs; `matched` refuses servers that differ in CPUs,"
        " memory, version or durability. Left out, what differs is a warning.",
        "matched",
    )
    baseline: values.Name | None = values.key(
        "Configuration that the others are compared with; may be left out when one configuration"
        " is called `baseline` or `default`.",
        "default",
    )
    workloads: list[Annotated[Workload, WORKLOAD]] = Field(
        description="What is asked of the server; workloads are never averaged.",
        examples=[[{"name": "reads", "builtin": "select-only", "scale": 100}]],
        min_length=1,
    )
    load: Annotated[LoadsAsked, LOAD] = Field(
        description="Loads offered to the server.", examples=[{"clients": [1, 10, 50]}]
    )
    slo: Annotated[LatencyGoal, values.ReadBy(GOAL)] | None = values.key(
        "Service level; the highest rate that meets it is looked for.", "p99 < 10ms"
    )
    capacity: Annotated[CapacityAsked, CAPACITY, form_values.OR_EMPTY] | None = values.key(
        "How the capacity is found before the first block; only where loads are shares of it.",
        {"clients": [1, 2, 4, 8], "runs": 6},
    )
    measure: Annotated[Measure, MEASURE, form_values.OR_EMPTY] = values.key(
        "Lengths of a run and of what is thrown away around it.",
        default_factory=Measure,
    )
    stop: Annotated[Stop, STOP, form_values.OR_EMPTY] = values.key(
        "When the campaign ends: with a verdict or a width, at the latest with the budget.",
        default_factory=Stop,
    )
    gate: values.Conditions = values.key(
        "Conditions of a gate; the campaign ends when each has failed or passed.",
        "slower > 3%",
        default_factory=list,
    )
    sustain: values.LongLength | None = values.key(
        "Least length of one long run per configuration and workload after the last block, beside"
        " the budget; rounded up to whole checkpoint cycles.",
        "10m",
    )
    seed: values.Seed | None = values.key("Fixes the order; drawn when left out.", 20261121)
    generator: Annotated[GeneratorAsked, GENERATOR, form_values.OR_EMPTY] = values.key(
        "Which load generator, and what goes to it as it is.", default_factory=GeneratorAsked
    )
    configurations: Configurations | None = values.key(
        "What is compared, by name; beside factors the one that all combinations start from.",
        {"default": {}, "buffers": {"postgres": {"shared_buffers": "2GB"}}},
    )
    factors: Factors | None = values.key(
        "Factors with two levels each; their combinations are measured in complete blocks, all of"
        " them up to three factors, a fraction above.",
        {"buffers": _BUFFERS},
    )
    ladder: Factors | None = values.key(
        "Factors whose second levels are added one after another.", {"buffers": _BUFFERS}
    )
    ablation: Factors | None = values.key(
        "Factors whose second levels are taken away one at a time.", {"buffers": _BUFFERS}
    )


def section(path: KeyPath) -> type[form_values.Form] | None:
    """Return the class of the section at a path, None where there is none."""
    for pattern, form in SECTIONS.items():
        if len(pattern) == len(path) and all(
            wanted in ("*", str(step)) for wanted, step in zip(pattern, path, strict=True)
        ):
            return form
    return None


_OF_A_LEVEL: Final[Mapping[tuple[str, ...], type[form_values.Form]]] = {
    **kinds.TARGET.sections(),
    ("cgroup",): LIMITS.form,
    ("manual",): MANUAL.form,
}
SECTIONS: Final[Mapping[tuple[str, ...], type[form_values.Form]]] = {
    (): ExperimentForm,
    ("workloads", "*"): WORKLOAD.form,
    ("workloads", "*", "scripts", "*"): form_values.Section(Script).form,
    ("load",): LOAD.form,
    ("capacity",): CAPACITY.form,
    ("measure",): MEASURE.form,
    ("measure", "calibration"): CALIBRATION.form,
    ("stop",): STOP.form,
    ("generator",): GENERATOR.form,
    ("configurations", "*"): ConfigurationForm,
    **{("configurations", "*", *rest): form for rest, form in _OF_A_LEVEL.items()},
    **{(kind, "*", "*"): LevelForm for kind in WHAT_IS_COMPARED[1:]},
    **{
        (kind, "*", "*", *rest): form
        for kind in WHAT_IS_COMPARED[1:]
        for rest, form in _OF_A_LEVEL.items()
    },
}


# Levels take a configuration's keys: where such a key belongs is said once.
_OTHER_HOMES: Final = tuple((kind,) for kind in WHAT_IS_COMPARED[1:])
# By section, from old keys to new ones; what is no key of that section is one of the top level.
RENAMED: Final[Mapping[type[form_values.Form], Mapping[str, str]]] = {
    ExperimentForm: {"loads": "load", "sustained": "sustain", "track": "terms"},
    WORKLOAD.form: {"scale_factor": "scale", "slice": "run_time"},
    CAPACITY.form: {"rounds": "runs"},
    MEASURE.form: {
        "ceilings": "machine_limits",
        "neighbours": "max_other_load",
        "ramp": "discard_start",
        "reconnections": "reconnects",
        "rounds": "runs_per_start",
        "settling": "turn_discard",
        "slice": "run_time",
    },
    CALIBRATION.form: {"run": "run_time"},
    STOP.form: {
        "decide": "detect",
        "equivalence": "margin",
        "fail_if": "gate",
        "precision": "width",
    },
    kinds.TARGET.form: {"bin": "server"},
}
_LEAST_MISSPELLED: Final = 5  # letters: shorter ones are like some key of some other section
_MAPPING: Final = "a mapping (`key: value` lines)"
_EXPECTED: Final = {
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
    "dict_type": _MAPPING,
    "list_type": "a list",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What of a file is sound, section by section.

    Attributes:
        form: The whole file, None when anything in it is not sound.
        meant: The document as unknown keys were most likely meant.
        workloads: By their place in the list.
        configurations: By name.
        capacity: None also when it is not given.
        goal: Of `slo`; None also when it is not given.
        levels: Of factors, by the path of each; after ``inheritance.spelled_out``.
    """

    document: Document
    meant: Document
    form: ExperimentForm | None
    workloads: Mapping[int, Workload]
    configurations: Mapping[str, ConfigurationForm]
    load: LoadsAsked | None
    measure: Measure | None
    stop: Stop | None
    generator: GeneratorAsked | None = None
    capacity: CapacityAsked | None = None
    goal: LatencyGoal | None = None
    levels: Mapping[KeyPath, LevelForm] = field(default_factory=dict)

    def given(self, path: KeyPath) -> frozenset[str]:
        """Return the keys of the section at a path, whatever stands there."""
        held = self.meant.at(path)
        return frozenset(held if isinstance(held, dict) else ())

    @property
    def configuration_names(self) -> tuple[str, ...]:
        """Return the names of all configurations, sound or not."""
        named = self.document.at(("configurations",))
        return tuple(named) if isinstance(named, dict) else ()

    @property
    def homes(self) -> tuple[KeyPath, ...]:
        """Return where keys of a configuration may stand: configurations, and levels of factors."""
        return home_paths(self.document)

    @property
    def engine(self) -> EngineName:
        """Return which database system the targets are of."""
        return engine_of(self.document)

    @property
    def factor_kinds(self) -> tuple[str, ...]:
        """Return which of ``factors``, ``ladder`` and ``ablation`` are given."""
        return tuple(k for k in WHAT_IS_COMPARED[1:] if self.document.at((k,)) is not None)

    @property
    def design(self) -> str | None:
        """Return the word of the design, which may be unknown."""
        return text_of(self.meant.at(("design",)))


def validate(document: Document) -> tuple[Draft, tuple[Issue, ...]]:
    """Return the sound parts of a document and everything that is wrong with single values."""
    form: ExperimentForm | None = None
    issues: tuple[Issue, ...] = ()
    meant = document
    engine = engine_of(document)
    try:
        form = ExperimentForm.model_validate(document.value, context=engine)
    except ValidationError as error:
        details = error.errors(include_url=False)
        stray = {each["loc"] for each in details if each["type"] == form_values.STRAY_KEY}
        meant = _meant(document, stray)
        told = [
            each
            for each in details
            if each["type"] == form_values.STRAY_KEY
            or not (each["loc"] in stray or _is_misspelled(meant, each))
        ]
        issues = tuple(issue for each in told for issue in _issues(document, each))
        document = replace(document, written=meant.written)
    workloads = meant.at(("workloads",))
    configurations, capacity = meant.at(("configurations",)), meant.at(("capacity",))
    draft = Draft(
        document=document,
        meant=meant,
        form=form,
        workloads=_sound(
            WORKLOAD.read, dict(enumerate(workloads)) if isinstance(workloads, list) else {}
        ),
        configurations=_sound(
            partial(ConfigurationForm.model_validate, context=engine),
            configurations if isinstance(configurations, dict) else {},
        ),
        load=_attempt(LOAD.read, meant.at(("load",))),
        measure=_attempt(MEASURE.read, meant.at(("measure",))),
        stop=_attempt(STOP.read, meant.at(("stop",))),
        generator=_attempt(GENERATOR.read, meant.at(("generator",))),
        capacity=None if capacity is None else _attempt(CAPACITY.read, capacity),
        goal=_goal(meant.at(("slo",))),
        levels=_sound(
            partial(LevelForm.model_validate, context=engine),
            {path: meant.at(path) for path in level_paths(document)},
        ),
    )
    return draft, issues


def engine_of(document: Document) -> EngineName:
    """Return the engine of a file; PostgreSQL by default.

    A misspelled one counts as what it most likely means, and so does an old kind of target that
    names it, so that the rest of the file is not told to be of the other system.
    """
    named = as_meant(document.value, "engine", ExperimentForm)
    if named is not None:
        meant = closest(named, TARGETS) if isinstance(named, str) else ""
        return EngineName(meant or EngineName.POSTGRES)
    words = (document.at((*home, "target", "kind")) for home in home_paths(document))
    old = (kinds.OLD_KINDS.get(str(word)) for word in words)
    return EngineName(next((each[0] for each in old if each is not None), EngineName.POSTGRES))


def as_meant(mapping: Value, key: str, form: type[form_values.Form]) -> Value:
    """Return what a mapping has for a key of its section, or for an unknown one that means it."""
    if not isinstance(mapping, dict) or key in mapping:
        return mapping.get(key) if isinstance(mapping, dict) else None
    known = form.model_fields
    words = (word for word in mapping if word not in known and closest(word, known) == key)
    return mapping.get(next(words, key))


def home_paths(document: Document) -> tuple[KeyPath, ...]:
    """Return where keys of a configuration may stand: configurations, and levels of factors."""
    named = document.at(("configurations",))
    names = named if isinstance(named, dict) else ()
    return (*(("configurations", name) for name in names), *level_paths(document))


_SECRETS: Final = ("password", "passfile", "pgpassword")  # as keys, which no section has


def _meant(document: Document, stray: Iterable[KeyPath]) -> Document:
    """Return the document as unknown keys were most likely meant; the others are left out.

    So they hide nothing, and what is missing instead of a misspelled key is not told as well.
    """
    value, written = deepcopy(document.value), dict(document.written)
    for path in stray:
        holder, key = Document(value=value, places={}).at(path[:-1]), str(path[-1])
        if not isinstance(holder, dict) or key not in holder:
            continue
        given, form = holder.pop(key), section(path[:-1])
        known = form.model_fields if form else {}
        meant = RENAMED.get(form, {}).get(key, closest(key, known)) if form else ""
        if meant in known and meant not in holder and key.lower() not in _SECRETS:
            holder[meant] = given
            written[*path[:-1], meant] = document.written_at(path)
    return replace(document, value=value, written=written)


def _is_misspelled(meant: Document, error: ErrorDetails) -> bool:
    """Return whether a key is missing because an unknown one stands for it."""
    return error["type"] == "missing" and meant.at(error["loc"]) is not None


def level_paths(document: Document) -> Iterator[KeyPath]:
    """Yield the path of every level of every factor, whatever stands there."""
    for kind in WHAT_IS_COMPARED[1:]:
        factors = document.at((kind,))
        for factor, levels in factors.items() if isinstance(factors, dict) else ():
            for level in levels if isinstance(levels, dict) else ():
                yield (kind, factor, level)


KeyT = TypeVar("KeyT", int, str, KeyPath)
SoundT = TypeVar("SoundT")


def _sound(read: Callable[[Value], SoundT], raw: Mapping[KeyT, Value]) -> dict[KeyT, SoundT]:
    attempts = {key: _attempt(read, value) for key, value in raw.items()}
    return {key: sound for key, sound in attempts.items() if sound is not None}


def _attempt(read: Callable[[Value], SoundT], value: Value) -> SoundT | None:
    try:
        return read({} if value is None else value)
    except ValidationError:
        return None


def _goal(value: Value) -> LatencyGoal | None:
    try:
        return None if value is None else LatencyGoal.of(value)
    except InputError:
        return None


def _issues(document: Document, error: ErrorDetails) -> Iterator[Issue]:
    path: KeyPath = error["loc"]
    context: dict[str, Any] = error.get("ctx", {})
    kind = error["type"]
    if kind == form_values.REFUSED:
        yield Issue(path=path, message=context["message"], hint=context["hint"])
    elif kind == form_values.STRAY_KEY:
        yield from _unknown_key(document, path)
    elif kind == "missing":
        yield missing_key(path)
    elif kind == "too_short":
        yield Issue(path=path, message=f"`{path[-1]}` is empty", hint="Give at least one.")
    elif error["input"] is None:
        yield Issue(path=path, message="it is empty", hint=_form_of(kind), at_key=True)
    else:
        message = f"{shown(error['input'])} is not {_EXPECTED.get(kind, 'understood')}"
        yield Issue(path=path, message=message, hint=_form_of(kind))


def _form_of(kind: str) -> str:
    return f"Write {_EXPECTED[kind]}." if kind in _EXPECTED else ""


def _unknown_key(document: Document, path: KeyPath) -> Iterator[Issue]:
    *parents, key = path
    holder = tuple(parents)
    form = section(holder)
    if "target" in holder and str(key).lower() in _SECRETS:
        hint = f"Records carry no secrets: use {system_of(engine_of(document)).passwords}."
        if holder[-1] == "kubernetes":
            hint = "Records carry no secrets: name the Secret that holds it with `secret`."
        message = f"{shown(key)} has no place in an experiment file"
        yield Issue(path=path, message=message, hint=hint, at_key=True)
        return
    if form in (ConfigurationForm, LevelForm) and key in LATER_LAYERS:
        message = f"the layer `{key}` is not supported yet"
        hint = "Remove it: this version sets `postgres:`, `redis:`, `cgroup:` and `linux:`."
    else:
        message = f"unknown key {shown(key)}"
        hint = _way_out(str(key), form)
    yield Issue(path=path, message=message, hint=hint, at_key=True)


def _way_out(key: str, form: type[form_values.Form] | None) -> str:
    known = form.model_fields if form else {}
    if form and (new := RENAMED.get(form, {}).get(key)):
        is_here = new in known
        return f"it is called `{new}` now" if is_here else f"it is `{new}` at the top level now"
    if hint := did_you_mean(key, known):
        return hint
    if elsewhere := _belongs_to(key):
        return elsewhere
    takes_settings = form in (ConfigurationForm, LevelForm)
    advice = "; PostgreSQL settings go below `postgres:`" if takes_settings else ""
    return f"known: {listed(known)}{advice}"


def _belongs_to(key: str) -> str:
    """Return where a key of another section, perhaps misspelled, would be right."""
    every_key = [name for form in SECTIONS.values() for name in form.model_fields]
    name = closest(key, every_key)
    if not name or (name != key and len(key) < _LEAST_MISSPELLED):
        return ""
    homes = [
        ".".join(step for step in where if step != "*") or "the top level"
        for where, form in SECTIONS.items()
        if name in form.model_fields and where[:1] not in _OTHER_HOMES
    ]
    which = "it" if name == key else f"`{name}`"
    return f"{which} belongs to {listed(homes)}"


def missing_key(path: KeyPath) -> Issue:
    """Return the issue that a required key is not there, with an example of it."""
    form = section(path[:-1])
    key = str(path[-1])
    example = (form.model_fields[key].examples or [""])[0] if form else ""
    hint = f"Add it, as in `{key}: {written(example)}`."
    return Issue(path=path, message=f"`{key}` is missing", hint=hint, at_key=True)


def experiment_schema() -> dict[str, Any]:
    """Return a JSON Schema (draft 2020-12) of the experiment file.

    It refuses what an editor can see in one place; loading a file refuses more.
    """
    schema = _without_noise(ExperimentForm.model_json_schema(mode="validation"))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Steelyard experiment",
        **schema,
    }


def _without_noise(node: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a schema without titles made from key names and without defaults of null."""
    if isinstance(node, list):
        return [_without_noise(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _named(value) if key in ("properties", "$defs") else _without_noise(value)
        for key, value in node.items()
        if key != "title" and not (key == "default" and value is None)
    }


def _named(schemas: dict[str, Any]) -> dict[str, Any]:
    """Return schemas by name; the names are no keywords, even when they are called `title`."""
    return {name: _without_noise(schema) for name, schema in schemas.items()}
