"""The experiment file as it is written: one class per section, as DESIGN's canonical file has it.

Only what a single value can tell is checked here; what takes two places of the file to see is
in ``checks`` and ``inheritance``. Descriptions and examples end in the JSON Schema.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

from annotated_types import MinLen
from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainValidator,
    WithJsonSchema,
)
from pydantic_core import CoreSchema

from steelyard.campaign.file import form_values as values
from steelyard.campaign.file.document import KeyPath
from steelyard.campaign.file.form_parts import (
    CalibrationForm,
    CapacityForm,
    CgroupForm,
    CommandForm,
    Goal,
    KvmForm,
    LinuxSettings,
    LoadsForm,
    ManualForm,
    MeasureForm,
)
from steelyard.campaign.file.form_target import (
    GeneratorsForm,
    ProgramWord,
    RedisValue,
    RedisWorkForm,
    ResourcesForm,
    ServiceForm,
    SynchronousForm,
    TargetForm,
)
from steelyard.campaign.file.form_values import Form, empty_as_mapping, refusal, shown
from steelyard.core.spelling import choice, listed
from steelyard.core.target import systems
from steelyard.systems.redis.redis_benchmark import BUILTINS
from steelyard.tuning.profiles import profile_names

LATER_LAYERS: Final = ("kubernetes",)


class ScriptForm(Form):
    """A script file of a workload."""

    file: values.Text = Field(
        description="File with the script, relative to the experiment file.",
        examples=["new-order.sql"],
    )
    weight: values.Count = Field(
        default=1, description="How often it runs relative to the workload's others.", examples=[9]
    )


Builtin = Annotated[
    str,
    PlainValidator(values.as_text),
    WithJsonSchema({"enum": [*values.BUILTINS, *BUILTINS]}),
]


def _variables(given: object) -> dict[str, int]:
    if not isinstance(given, dict | None):
        raise refusal(f"{shown(given)} is not a mapping", "Write `{warehouses: 4}`.")
    whole = values.whole_number(0, 2**62)
    for name in given or {}:
        if not re.fullmatch("[a-z][a-z_]*", str(name)) or name in _OF_PGBENCH:
            raise refusal(
                f"{shown(name)} is no name of a variable",
                "Use small letters and underscores, and none of "
                f"{listed(_OF_PGBENCH)}, which pgbench sets.",
            )
    return {name: whole(value) for name, value in (given or {}).items()}


_OF_PGBENCH: Final = ("client_id", "default_seed", "random_seed", "scale")
Variables = Annotated[
    dict[str, int],
    PlainValidator(_variables),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": "integer"}}),
]


class _PostgresWorkForm(Form):
    """What is asked of PostgreSQL: a builtin script, or script files with weights."""

    name: values.Name = Field(description="Unique among the workloads.", examples=["reads"])
    builtin: Builtin | None = Field(
        default=None,
        description="A script that pgbench brings, or a test of redis-benchmark.",
        examples=["select-only", "set"],
    )
    scale_factor: values.Count | None = Field(
        default=None,
        description="Size of pgbench's own tables: 100,000 accounts (about 16 MB) each.",
        examples=[100],
    )
    prepare: values.Texts = Field(
        default_factory=list,
        description="SQL files that are run once, after pgbench's own tables are made.",
        examples=[["orders.sql"]],
    )
    scripts: list[ScriptForm] = Field(
        default_factory=list,
        description="Own pgbench scripts.",
        examples=[[{"file": "new-order.sql", "weight": 9}]],
    )
    variables: Variables = Field(
        default_factory=dict,
        description="Whole numbers that `prepare` and `scripts` name as `:name`.",
        examples=[{"warehouses": 4}],
    )


POSTGRES_WORK_KEYS: Final = ("scale_factor", "prepare", "scripts", "variables")


class WorkloadForm(RedisWorkForm, _PostgresWorkForm):
    """What is asked of the server."""


class StopForm(Form):
    """When the campaign ends: at a decision or a precision, at the latest with the budget."""

    budget: values.Budget = Field(
        default=3600.0, description="Time for everything, preparation included.", examples=["60m"]
    )
    decide: values.Share | None = Field(
        default=None, description="Effect that is worth deciding.", examples=["3%"]
    )
    precision: values.Share | None = Field(
        default=None,
        description="Stop at this half-width of the interval instead of at a verdict.",
        examples=["1%"],
    )
    equivalence: values.Share = Field(
        default=0.01, description="A difference below it has no practical weight.", examples=["1%"]
    )
    blocks: values.FewBlocks | None = Field(
        default=None,
        description="Take so many blocks and look once, after the last: for few long runs.",
        examples=[4],
    )
    fail_if: values.Conditions = Field(
        default_factory=list,
        description="Conditions of a gate; the campaign ends when each has failed or passed.",
        examples=["slower > 3%"],
    )


class GeneratorForm(CommandForm):
    """The load generator."""

    program: ProgramWord | None = Field(
        default=None,
        description="Which program puts the load on; redis-benchmark for Redis, pgbench else.",
        examples=["redis-benchmark"],
    )
    flags: values.Texts = Field(
        default_factory=list,
        description="Handed to the generator unchanged.",
        examples=[["--random-seed=42"]],
    )


def _profile(value: object) -> str:
    name = values.as_text(value)
    if name not in profile_names():
        raise refusal(f"there is no profile {shown(name)}", choice(name, profile_names()))
    return name


_PROFILE: Final = {"type": "string", "enum": list(profile_names())}
Profiles = Annotated[
    list[Annotated[str, PlainValidator(_profile)]],
    BeforeValidator(values.split_words),
    WithJsonSchema({"anyOf": [_PROFILE, {"type": "array", "items": _PROFILE}]}),
]


def server_layers() -> list[str]:
    """Return the keys of settings of each database system."""
    return [each.name for each in systems()]


def setting_keys() -> list[str]:
    """Return the keys of all layers with settings by name."""
    return [*server_layers(), "cgroup", "linux"]


def _settings(given: object) -> dict[str, str | None]:
    if not isinstance(given, dict | None):
        raise refusal(f"{shown(given)} is not a mapping of settings", "Write `name: value` lines.")
    return {name: values.setting_value(value) for name, value in (given or {}).items()}


FurtherSettings = Annotated[dict[str, str | None], PlainValidator(_settings)]


def _describe_later_layers(schema: dict[str, Any]) -> None:
    schema["additionalProperties"] = False
    for layer in server_layers():
        schema["properties"].setdefault(layer, {"type": "object"})
    for layer in LATER_LAYERS:
        schema["properties"][layer] = {
            "type": "object",
            "description": "Known, and not supported yet: this version refuses it.",
        }


Settings = Annotated[
    dict[str, values.SettingValue],
    BeforeValidator(empty_as_mapping),
]


class LevelForm(Form):
    """What one level of a factor sets: a configuration's own keys."""

    # A database system without a section here has its settings below its name.
    model_config = ConfigDict(extra="allow", json_schema_extra=_describe_later_layers)
    __pydantic_extra__: dict[
        Annotated[str, AfterValidator(values.only(server_layers))], FurtherSettings
    ] = Field(init=False)

    target: Annotated[TargetForm, BeforeValidator(empty_as_mapping)] = Field(
        default_factory=TargetForm, description="Where the server runs."
    )
    protocol: values.Protocol | None = Field(
        default=None, description="pgbench's query mode, where it is what varies."
    )
    profile: Profiles = Field(
        default_factory=list,
        description="Named sets of settings; explicit ones come after them.",
        examples=["fitted"],
    )
    postgres: Settings = Field(
        default_factory=dict,
        description="PostgreSQL settings; null removes an inherited one.",
        examples=[{"shared_buffers": "2GB"}],
    )
    redis: Annotated[dict[str, RedisValue], BeforeValidator(empty_as_mapping)] = Field(
        default_factory=dict,
        description="Redis settings, as CONFIG SET takes them; null removes an inherited one, an "
        "empty text is a value.",
        examples=[{"appendonly": "yes", "appendfsync": "everysec"}],
    )
    cgroup: Annotated[CgroupForm, BeforeValidator(empty_as_mapping)] = Field(
        default_factory=CgroupForm,
        description="Limits of the server and the load generator by control groups; needs root.",
        examples=[{"cpus": 0.6}],
    )
    linux: LinuxSettings = Field(
        default_factory=dict,
        description="Kernel settings of this machine, by sysctl or short name; null removes an "
        "inherited one. Needs root.",
        examples=[{"vm.nr_hugepages": "auto"}],
    )
    kvm: Annotated[KvmForm, BeforeValidator(empty_as_mapping)] = Field(
        default_factory=KvmForm,
        description="The virtual machine of an endpoint, defined by the libvirt of this machine.",
        examples=[{"domain": "pg-node.xml"}],
    )
    manual: Annotated[ManualForm, BeforeValidator(empty_as_mapping)] = Field(
        default_factory=ManualForm,
        description="What a person or a command does when this configuration comes into force"
        " after "
        "another one.",
        examples=[{"text": "Switch SMT off in the firmware.", "timeout": "15m"}],
    )


class _Extending(Form):
    """What a configuration has that a level has not."""

    extends: values.Name | None = Field(
        default=None, description="The configuration that this one changes.", examples=["default"]
    )


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


Factor = Annotated[dict[str, Annotated[LevelForm, BeforeValidator(empty_as_mapping)]], _TwoLevels()]
Factors = Annotated[dict[str, Factor], MinLen(1)]
Configurations = Annotated[
    dict[str, Annotated[ConfigurationForm, BeforeValidator(empty_as_mapping)]], MinLen(1)
]
WHAT_IS_COMPARED: Final = ("configurations", "factors", "ladder", "ablation")
_BUFFERS: Final = {
    "128MB": {"postgres": {"shared_buffers": "128MB"}},
    "2GB": {"postgres": {"shared_buffers": "2GB"}},
}


class ExperimentForm(Form):
    """An experiment: which configurations are weighed, on which work, and when it is enough."""

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": [key]} for key in WHAT_IS_COMPARED]}
    )

    version: values.Version = Field(description="Version of this file format.", examples=[1])
    name: values.Text = Field(description="Title of the report.", examples=["huge pages"])
    description: values.Text | None = Field(
        default=None, description="Why the question is asked.", examples=["Before the upgrade."]
    )
    design: values.DesignWord = Field(
        default="auto",
        description="How configurations are compared in blocks: `alternating` has all of them up"
        " and "
        "lets the load take turns, `one-by-one` brings up one after another, `auto` alternates "
        "where that can be. `single-pass` runs one configuration once per cell in file order,"
        " without "
        "interval or verdict.",
    )
    track: values.TrackWord | None = Field(
        default=None,
        description="On what terms servers in different places are compared: `as-shipped` takes"
        " each as its vendor ships it and labels what differs; `matched` refuses servers that"
        " differ in CPUs, memory, version or durability. Left out, what differs is a warning.",
        examples=["matched"],
    )
    baseline: values.Name | None = Field(
        default=None,
        description="Configuration that the others are compared with; may be left out when one "
        "configuration is called `baseline` or `default`.",
        examples=["default"],
    )
    workloads: list[WorkloadForm] = Field(
        description="What is asked of the server; workloads are never averaged.",
        examples=[[{"name": "reads", "builtin": "select-only", "scale_factor": 100}]],
        min_length=1,
    )
    loads: LoadsForm = Field(
        description="Loads offered to the server.", examples=[{"clients": [1, 10, 50]}]
    )
    slo: Goal | None = Field(
        default=None,
        description="Service level; the highest rate that meets it is looked for.",
        examples=["p99 < 10ms"],
    )
    capacity: Annotated[CapacityForm, BeforeValidator(empty_as_mapping)] | None = Field(
        default=None,
        description="How the capacity is found before the first block; only where loads are "
        "shares of it.",
        examples=[{"clients": [1, 2, 4, 8], "rounds": 6}],
    )
    measure: Annotated[MeasureForm, BeforeValidator(empty_as_mapping)] = Field(
        default_factory=MeasureForm,
        description="Lengths of a run and of what is thrown away around it.",
    )
    stop: Annotated[StopForm, BeforeValidator(empty_as_mapping)] = Field(
        default_factory=StopForm, description="When the campaign ends."
    )
    sustain: values.LongLength | None = Field(
        default=None,
        description="Least length of one long run per configuration and workload after the last "
        "block, beside the budget; rounded up to whole checkpoint cycles.",
        examples=["10m"],
    )
    seed: values.Seed | None = Field(
        default=None, description="Fixes the order; drawn when left out.", examples=[20261121]
    )
    generator: Annotated[GeneratorForm, BeforeValidator(empty_as_mapping)] = Field(
        default_factory=GeneratorForm,
        description="Which load generator, and what goes to it as it is.",
    )
    configurations: Configurations | None = Field(
        default=None,
        description="What is compared, by name; beside factors the one that all combinations "
        "start from.",
        examples=[{"default": {}, "buffers": {"postgres": {"shared_buffers": "2GB"}}}],
    )
    factors: Factors | None = Field(
        default=None,
        description="Factors with two levels each; their combinations are measured in complete "
        "blocks, all of them up to three factors, a fraction above.",
        examples=[{"buffers": _BUFFERS}],
    )
    ladder: Factors | None = Field(
        default=None,
        description="Factors whose second levels are added one after another.",
        examples=[{"buffers": _BUFFERS}],
    )
    ablation: Factors | None = Field(
        default=None,
        description="Factors whose second levels are taken away one at a time.",
        examples=[{"buffers": _BUFFERS}],
    )


def section(path: KeyPath) -> type[Form] | None:
    """Return the class of the section at a path, None where there is none."""
    for pattern, form in SECTIONS.items():
        if len(pattern) == len(path) and all(
            wanted in ("*", str(step)) for wanted, step in zip(pattern, path, strict=True)
        ):
            return form
    return None


_OF_A_LEVEL: Final[Mapping[tuple[str, ...], type[Form]]] = {
    ("target",): TargetForm,
    ("target", "resources"): ResourcesForm,
    ("target", "synchronous"): SynchronousForm,
    ("target", "generators"): GeneratorsForm,
    ("target", "generators", "resources"): ResourcesForm,
    ("target", "kubernetes"): ServiceForm,
    ("target", "kubernetes", "generators"): GeneratorsForm,
    ("target", "kubernetes", "generators", "resources"): ResourcesForm,
    ("cgroup",): CgroupForm,
    ("kvm",): KvmForm,
    ("manual",): ManualForm,
}
SECTIONS: Final[Mapping[tuple[str, ...], type[Form]]] = {
    (): ExperimentForm,
    ("workloads", "*"): WorkloadForm,
    ("workloads", "*", "scripts", "*"): ScriptForm,
    ("loads",): LoadsForm,
    ("capacity",): CapacityForm,
    ("measure",): MeasureForm,
    ("measure", "calibration"): CalibrationForm,
    ("stop",): StopForm,
    ("generator",): GeneratorForm,
    ("configurations", "*"): ConfigurationForm,
    **{("configurations", "*", *rest): form for rest, form in _OF_A_LEVEL.items()},
    **{(kind, "*", "*"): LevelForm for kind in WHAT_IS_COMPARED[1:]},
    **{
        (kind, "*", "*", *rest): form
        for kind in WHAT_IS_COMPARED[1:]
        for rest, form in _OF_A_LEVEL.items()
    },
}
