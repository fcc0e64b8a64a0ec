"""The section ``target`` of an experiment file: where the server runs, or is there already."""

import re
from typing import Annotated, Final

from pydantic import BeforeValidator, Field, PlainValidator, WithJsonSchema

from steelyard.experiment import form_values as values
from steelyard.experiment.form_kubernetes import ClusterForm, Service
from steelyard.experiment.form_redis import RedisServerForm
from steelyard.experiment.form_values import Form, refusal
from steelyard.experiment.suggestions import choice, did_you_mean, listed, shown
from steelyard.gateways.libpq import parsed_uri
from steelyard.model.errors import InputError
from steelyard.model.redis_uri import is_redis_uri, parse_redis_uri

POSTGRES_TARGETS: Final = ("local", "endpoint", "cloudnative-pg")
REDIS_TARGETS: Final = ("redis-local", "redis-endpoint", "redis-kubernetes")
TARGETS: Final = (*POSTGRES_TARGETS, *REDIS_TARGETS)
# Known from the design, so that they are told apart from misspellings.
LATER_TARGETS: Final = ("rds", "aurora")
REDIS_SERVERS: Final = ("redis-server", "valkey-server")
_GOVERNED_INITDB: Final = re.compile(
    r"-[DUWA]|--(pgdata|username|pwprompt|pwfile|auth|auth-host|auth-local)\b"
)
_PROGRAMS: Final = (
    "Write a version as 15, a directory with a `/`, a running server as postgresql://HOST/DATABASE."
)


def _target_kind(value: object) -> str:
    kind = values.text(value)
    if kind in LATER_TARGETS:
        message = f"the target kind `{kind}` is not supported in this version"
        raise refusal(message, f"Use one of these kinds: {listed(TARGETS)}.")
    if kind not in TARGETS:
        raise refusal(f"{shown(kind)} is no kind of target", choice(kind, TARGETS))
    return kind


def _uri(value: object) -> str:
    uri = values.text(value)
    try:
        parse_redis_uri(uri) if is_redis_uri(uri) else parsed_uri(uri)
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
    known = given in ("embedded", *REDIS_SERVERS)
    if not known and not is_directory(given) and not is_version(given):
        message = f"{shown(given)} is neither `embedded`, nor a version, nor a directory"
        hint = did_you_mean(given, ["embedded", *REDIS_SERVERS]) or _PROGRAMS
        raise refusal(message, hint)
    return given


def is_directory(given: str) -> bool:
    """Return whether programs are named by a directory, or by the path of a program."""
    return "/" in given or given.startswith("~")


def is_version(given: str) -> bool:
    """Return whether programs are named by a version of PostgreSQL."""
    return re.fullmatch(r"[0-9]{1,2}(\.[0-9]{1,2})?", given) is not None


Programs = Annotated[str, PlainValidator(_programs), WithJsonSchema({"type": ["string", "number"]})]
InitdbOptions = Annotated[
    list[Annotated[str, PlainValidator(_initdb_option)]],
    BeforeValidator(values.split_words),
    WithJsonSchema(values.TEXTS),
]


RestartCommand = Annotated[
    tuple[str, ...], PlainValidator(values.command_words), WithJsonSchema(values.TEXTS)
]


class ServerForm(Form):
    """What a target has that is a server of this machine, or any that is there already."""

    kind: TargetKind | None = Field(default=None, description="The kind of target.")
    bin: Programs | None = Field(
        default=None,
        description="`embedded`, a version such as 15, or the directory of the programs; of Redis "
        "`redis-server`, `valkey-server` or the directory.",
        examples=["embedded", "15", "/usr/lib/postgresql/15/bin", "valkey-server"],
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
        description="libpq URI of an endpoint, or the URI of a Redis server, without a password.",
        examples=[
            "postgresql://bench@db.example.com/postgres?sslmode=require",
            "rediss://bench@cache.example.com:6379/3",
        ],
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
        default=None,
        description="Section of libpq's service file; of `redis-kubernetes` the Service of a "
        "server that is there.",
        examples=["bench"],
    )
    allow_existing: values.Switch | None = Field(
        default=None,
        description="Measure in the named database, which Steelyard did not make; of Redis: change "
        "settings of a server that holds keys, and put them back.",
        examples=[True],
    )
    restart_command: RestartCommand | None = Field(
        default=None,
        description="Restarts an endpoint's server; run on this machine, without a shell.",
        examples=[["ssh", "db.example.com", "systemctl", "restart", "postgresql"]],
    )


class TargetForm(RedisServerForm, ClusterForm, ServerForm):
    """Where the server runs; what is not given is inherited."""

    kubernetes: Service | None = Field(
        default=None,
        description="A server in a Kubernetes cluster, by the names of its Service and Secret.",
        examples=[{"service": "db", "secret": "db-user"}],
    )
