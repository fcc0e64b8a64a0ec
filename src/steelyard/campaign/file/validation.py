"""From a document to the file's form, with all problems of single values and keys at once.

The whole file is validated for its problems; then each section on its own, so that the checks
across sections can run on the sound parts of a file that has other mistakes.

The JSON Schema of experiment files is made here, for editors with a YAML language server.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from steelyard.campaign.file.document import Document, Issue, KeyPath, Value
from steelyard.campaign.file.form import (
    LATER_LAYERS,
    SECTIONS,
    WHAT_IS_COMPARED,
    ConfigurationForm,
    ExperimentForm,
    GeneratorForm,
    LevelForm,
    StopForm,
    WorkloadForm,
    section,
)
from steelyard.campaign.file.form_parts import CapacityForm, LoadsForm, MeasureForm, goal
from steelyard.campaign.file.form_target import LATER_TARGETS
from steelyard.campaign.file.form_values import REFUSED, STRAY_KEY, Form, shown, written
from steelyard.core.errors import closest, did_you_mean, listed
from steelyard.core.experiment import LatencyGoal
from steelyard.core.target import TARGETS, EngineName, LocalTarget

FormT = TypeVar("FormT", bound=Form)

# Levels take a configuration's keys: where such a key belongs is said once.
_OTHER_HOMES: Final = tuple((kind,) for kind in WHAT_IS_COMPARED[1:])
_RENAMED: Final = {"sustained": "sustain"}  # keys of the top level, from old to new
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
        workloads: By their place in the list.
        configurations: By name.
        capacity: None also when it is not given.
        goal: Of `slo`; None also when it is not given.
        levels: Of factors, by the path of each; after ``factors.spelled_out``.
    """

    document: Document
    form: ExperimentForm | None
    workloads: Mapping[int, WorkloadForm]
    configurations: Mapping[str, ConfigurationForm]
    loads: LoadsForm | None
    measure: MeasureForm | None
    stop: StopForm | None
    generator: GeneratorForm | None = None
    capacity: CapacityForm | None = None
    goal: LatencyGoal | None = None
    levels: Mapping[KeyPath, LevelForm] = field(default_factory=dict)

    @property
    def configuration_names(self) -> tuple[str, ...]:
        """Return the names of all configurations, sound or not."""
        named = self.document.at(("configurations",))
        return tuple(named) if isinstance(named, dict) else ()

    @property
    def homes(self) -> tuple[KeyPath, ...]:
        """Return where keys of a configuration may stand: configurations, and levels of factors."""
        configurations = (("configurations", name) for name in self.configuration_names)
        return (*configurations, *level_paths(self.document))

    @property
    def engine(self) -> EngineName:
        """Return which database system the targets are of: PostgreSQL unless a kind says another.

        A misspelled kind counts as what it most likely means, so that the rest of the file is not
        told to be of the other system.
        """
        kinds = (self.document.at((*home, "target", "kind")) for home in self.homes)
        meant = (closest(kind, TARGETS) for kind in kinds if isinstance(kind, str))
        systems = (TARGETS[kind].system.name for kind in meant if kind)
        plain = EngineName.POSTGRES
        return next((each for each in systems if each != plain), plain)

    @property
    def factor_kinds(self) -> tuple[str, ...]:
        """Return which of ``factors``, ``ladder`` and ``ablation`` are given."""
        return tuple(k for k in WHAT_IS_COMPARED[1:] if self.document.at((k,)) is not None)


def validate(document: Document) -> tuple[Draft, tuple[Issue, ...]]:
    """Return the sound parts of a document and everything that is wrong with single values."""
    form: ExperimentForm | None = None
    issues: tuple[Issue, ...] = ()
    try:
        form = ExperimentForm.model_validate(document.value)
    except ValidationError as error:
        details = error.errors(include_url=False)
        stray = {each["loc"] for each in details if each["type"] == STRAY_KEY}
        told = [each for each in details if each["type"] == STRAY_KEY or each["loc"] not in stray]
        issues = tuple(issue for each in told for issue in _issues(document, each))
    workloads = document.at(("workloads",))
    configurations = document.at(("configurations",))
    draft = Draft(
        document=document,
        form=form,
        workloads=_sound(
            WorkloadForm, dict(enumerate(workloads)) if isinstance(workloads, list) else {}
        ),
        configurations=_sound(
            ConfigurationForm, configurations if isinstance(configurations, dict) else {}
        ),
        loads=_attempt(LoadsForm, document.at(("loads",))),
        measure=_attempt(MeasureForm, document.at(("measure",))),
        stop=_attempt(StopForm, document.at(("stop",))),
        generator=_attempt(GeneratorForm, document.at(("generator",))),
        capacity=_given(CapacityForm, document.at(("capacity",))),
        goal=_goal(document.at(("slo",))),
        levels=_sound(LevelForm, {path: document.at(path) for path in level_paths(document)}),
    )
    return draft, issues


def level_paths(document: Document) -> Iterator[KeyPath]:
    """Yield the path of every level of every factor, whatever stands there."""
    for kind in WHAT_IS_COMPARED[1:]:
        factors = document.at((kind,))
        for factor, levels in factors.items() if isinstance(factors, dict) else ():
            for level in levels if isinstance(levels, dict) else ():
                yield (kind, factor, level)


KeyT = TypeVar("KeyT", int, str, KeyPath)


def _sound(form: type[FormT], raw: Mapping[KeyT, Value]) -> dict[KeyT, FormT]:
    attempts = {key: _attempt(form, value) for key, value in raw.items()}
    return {key: sound for key, sound in attempts.items() if sound is not None}


def _attempt(form: type[FormT], value: Value) -> FormT | None:
    try:
        return form.model_validate({} if value is None else value)
    except ValidationError:
        return None


def _given(form: type[FormT], value: Value) -> FormT | None:
    return None if value is None else _attempt(form, value)


def _goal(value: Value) -> LatencyGoal | None:
    try:
        return None if value is None else goal(value)
    except PydanticCustomError:
        return None


def _issues(document: Document, error: ErrorDetails) -> Iterator[Issue]:
    path: KeyPath = error["loc"]
    context: dict[str, Any] = error.get("ctx", {})
    kind = error["type"]
    if kind == REFUSED:
        yield Issue(path=path, message=context["message"], hint=context["hint"])
    elif kind == STRAY_KEY:
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
    if "target" in holder and str(key).lower() in ("password", "passfile", "pgpassword"):
        kind = TARGETS.get(str(document.at((*holder, "kind"))), LocalTarget)
        hint = f"Records carry no secrets: use {kind.system.passwords}."
        if holder[-1] == "kubernetes":
            hint = "Records carry no secrets: name the Secret that holds it with `secret`."
        message = f"{shown(key)} has no place in an experiment file"
        yield Issue(path=path, message=message, hint=hint, at_key=True)
        return
    if holder[-1:] == ("target",) and document.at((*holder, "kind")) in LATER_TARGETS:
        return  # what such a target needs is not known here; its kind is already refused
    if form in (ConfigurationForm, LevelForm) and key in LATER_LAYERS:
        message = f"the layer `{key}` is not supported yet"
        hint = "Remove it: this version sets `postgres:`, `redis:`, `cgroup:`, `linux:` and `kvm:`."
    else:
        message = f"unknown key {shown(key)}"
        hint = _way_out(str(key), form)
    yield Issue(path=path, message=message, hint=hint, at_key=True)


def _way_out(key: str, form: type[Form] | None) -> str:
    if form is ExperimentForm and key in _RENAMED:
        return f"it is called `{_RENAMED[key]}` now"
    known = form.model_fields if form else {}
    if hint := did_you_mean(key, known):
        return hint
    if key == "<<":
        return "Use `extends` instead of YAML's merge key."
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
