"""The section ``target`` of an experiment file: where the server runs, or is there already."""

import re
import shlex
from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, WithJsonSchema

from steelyard.experiment import form_values as values
from steelyard.experiment.form_values import refusal
from steelyard.experiment.suggestions import choice, did_you_mean, shown
from steelyard.gateways.libpq import parsed_uri
from steelyard.model.errors import InputError

TARGETS: Final = ("local", "endpoint")
# Known from the design, so that they are told apart from misspellings.
LATER_TARGETS: Final = (
    "cloudnative-pg",
    "rds",
    "aurora",
    "redis-local",
    "redis-endpoint",
    "redis-kubernetes",
)
_GOVERNED_INITDB: Final = re.compile(
    r"-[DUWA]|--(pgdata|username|pwprompt|pwfile|auth|auth-host|auth-local)\b"
)
_PROGRAMS: Final = (
    "Write a version as 15, a directory with a `/`, a running server as postgresql://HOST/DATABASE."
)


class Form(BaseModel):
    """A section of the file; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _target_kind(value: object) -> str:
    kind = values.text(value)
    if kind in LATER_TARGETS:
        message = f"the target kind `{kind}` is not supported in this version"
        raise refusal(message, "Use `kind: local` or `kind: endpoint`.")
    if kind not in TARGETS:
        raise refusal(f"{shown(kind)} is no kind of target", choice(kind, TARGETS))
    return kind


def _uri(value: object) -> str:
    uri = values.text(value)
    try:
        parsed_uri(uri)
    except InputError as error:
        raise refusal(error.message, error.hint) from None
    return uri


TargetKind = Annotated[str, PlainValidator(_target_kind), WithJsonSchema({"enum": list(TARGETS)})]
Uri = Annotated[str, PlainValidator(_uri), WithJsonSchema({"type": "string"})]


def _initdb_option(value: object) -> str:
    option = values.text(value)
    if _GOVERNED_INITDB.match(option):
        hint = "Steelyard sets directory, user and authentication itself."
        raise refusal(f"the initdb option {shown(option)} is not yours to give", hint)
    return option


def _programs(value: object) -> str:
    given = values.text(value)
    is_path = "/" in given or given.startswith("~")
    if (
        given != "embedded"
        and not is_path
        and not re.fullmatch(r"[0-9]{1,2}(\.[0-9]{1,2})?", given)
    ):
        message = f"{shown(given)} is neither `embedded`, nor a version, nor a directory"
        hint = did_you_mean(given, ["embedded"]) or _PROGRAMS
        raise refusal(message, hint)
    return given


Programs = Annotated[str, PlainValidator(_programs), WithJsonSchema({"type": ["string", "number"]})]
InitdbOptions = Annotated[
    list[Annotated[str, PlainValidator(_initdb_option)]],
    BeforeValidator(values.split_words),
    WithJsonSchema(values.TEXTS),
]


def _words(value: object) -> tuple[str, ...]:
    try:
        words = shlex.split(value) if isinstance(value, str) else value
    except ValueError as error:
        raise refusal(f"{shown(value)} has an open quote", "Write a list of words.") from error
    if not isinstance(words, list | tuple) or not words:
        raise refusal(f"{shown(value)} is no command", "Write a list of words.")
    return tuple(values.text(word) for word in words)


RestartCommand = Annotated[tuple[str, ...], PlainValidator(_words), WithJsonSchema(values.TEXTS)]


class TargetForm(Form):
    """Where the server runs; what is not given is inherited."""

    kind: TargetKind | None = Field(default=None, description="The kind of target.")
    bin: Programs | None = Field(
        default=None,
        description="`embedded`, a version such as 15, or the directory of the programs.",
        examples=["embedded", "15", "/usr/lib/postgresql/15/bin"],
    )
    directory: values.Text | None = Field(
        default=None, description="Where data directories are made.", examples=["/mnt/nvme"]
    )
    port: values.Port | None = Field(
        default=None,
        description="TCP port: on the loopback interface, or of the endpoint.",
        examples=[54321],
    )
    connection: values.Connection | None = Field(
        default=None, description="How the generator connects."
    )
    run_as: values.Text | None = Field(
        default=None, description="Account of the server when run by root.", examples=["postgres"]
    )
    initdb: InitdbOptions | None = Field(
        default=None,
        description="Further initdb options, equal in all treatments.",
        examples=[["--data-checksums"]],
    )
    restore: values.Restore | None = Field(
        default=None, description="How data go back to the prepared state."
    )
    burst_lasts: values.Budget | None = Field(
        default=None,
        description="How long a full bucket of the platform's burst credits lasts at full load.",
        examples=["30m"],
    )
    uri: Uri | None = Field(
        default=None,
        description="libpq URI of an endpoint, without a password.",
        examples=["postgresql://bench@db.example.com/postgres?sslmode=require"],
    )
    host: values.Text | None = Field(
        default=None,
        description="Name, address or socket directory of an endpoint.",
        examples=["db.example.com"],
    )
    user: values.Text | None = Field(
        default=None, description="Who connects to an endpoint.", examples=["bench"]
    )
    dbname: values.Text | None = Field(
        default=None, description="Database of an endpoint to connect to.", examples=["postgres"]
    )
    service: values.Text | None = Field(
        default=None, description="Section of libpq's service file.", examples=["bench"]
    )
    allow_existing: values.Switch | None = Field(
        default=None,
        description="Measure in the named database, which Steelyard did not make.",
        examples=[True],
    )
    restart_command: RestartCommand | None = Field(
        default=None,
        description="Restarts an endpoint's server; run on this machine, without a shell.",
        examples=[["ssh", "db.example.com", "systemctl", "restart", "postgresql"]],
    )
