"""The section ``target`` of an experiment file: where the server runs, or is there already.

Of a target in Kubernetes these are resources, replication, generators and a service. What the file
says of Redis alone is here as well: work, settings, and how a server is reached.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Annotated, Any, Final, Self

import pydantic

from steelyard.campaign.file import form_values as values
from steelyard.campaign.file.form_values import OR_EMPTY, Form
from steelyard.core import quantities
from steelyard.core.aws import STORAGE_TYPES
from steelyard.core.quantities import (
    REDIS_SETTING,
    TEXTS,
    as_text,
    refusal,
    shown,
    split_words,
)
from steelyard.core.redis import parse_redis_uri
from steelyard.core.storage import Store
from steelyard.core.target import TARGETS, EngineName, kind_words, system_of, systems
from steelyard.core.wording import InputError, choice, did_you_mean
from steelyard.gateways.sql import parsed_uri


class ResourcesForm(Form):
    """What a container asks for and gets at most; where one is given, the other is the same."""

    requests: values.Amounts | None = values.key(
        "What is set aside for it.", {"cpu": "2", "memory": "4Gi", "hugepages-2Mi": "1Gi"}
    )
    limits: values.Amounts | None = values.key(
        "What it gets at most.", {"cpu": "2", "memory": "4Gi"}
    )


Resources = Annotated[ResourcesForm, OR_EMPTY]


STORE: Final = values.Section(Store)


class SynchronousForm(Form):
    """Synchronous replication, as CloudNativePG takes it."""

    method: values.Method | None = values.key("`any` of the standbys, or the `first` of a list.")
    number: values.Count | None = values.key("How many standbys a commit waits for.", 1)
    data_durability: values.Durability | None = values.key(
        "`required` stops writes where standbys are missing, `preferred` goes on."
    )


class GeneratorsForm(Form):
    """The pod that the load comes from; equal in all configurations."""

    image: values.Image | None = values.key(
        "Image that pgbench and psql are taken from; the database's when left out.",
        "ghcr.io/cloudnative-pg/postgresql:18",
    )
    resources: Resources | None = values.key(
        "CPU and memory for the load.", {"limits": {"cpu": "2"}}
    )
    node_selector: values.Labels | None = values.key(
        "Labels of the nodes it may run on.", {"role": "load"}
    )
    tolerations: values.Tolerations | None = values.key(
        "Taints it tolerates, as in a manifest.", [{"key": "load", "operator": "Exists"}]
    )
    same_node: values.Switch | None = values.key("It may share a node with the database.", False)


Generators = Annotated[GeneratorsForm, OR_EMPTY]
_CONTEXT: Final = "Context of the kubeconfig; the current one when left out."


class ServiceForm(Form):
    """A PostgreSQL server in a Kubernetes cluster."""

    service: values.ServiceName | None = values.key("Name of its Service.", "db")
    port: values.Port | None = values.key("Port of the Service.", 5432)
    secret: values.ObjectName | None = values.key(
        "Name of the Secret with user and password.", "db-user"
    )
    user_key: values.SecretKey | None = values.key("Key of the user in it.", "username")
    password_key: values.SecretKey | None = values.key("Key of the password in it.", "password")
    namespace: values.NamespaceName | None = values.key(
        "Of the Service and the Secret; the context's when left out.", "prod"
    )
    context: values.Text | None = values.key(_CONTEXT, "lab")
    generators: Generators | None = values.key(
        "The pod that the load comes from.", {"same_node": True}
    )


Service = Annotated[ServiceForm, OR_EMPTY]


class ClusterForm(Form):
    """What a target has that is a Cluster of CloudNativePG."""

    context: values.Text | None = values.key(_CONTEXT, "lab")
    namespace: values.NamespaceName | None = values.key(
        "Where the Cluster is made, or is; one of the campaign's own when left out.", "bench"
    )
    cluster: values.ClusterName | None = values.key(
        "An existing Cluster, used as it is instead of one that is made.", "pg"
    )
    image: values.Image | None = values.key(
        "Image of the database; the operator's default when left out.",
        "ghcr.io/cloudnative-pg/postgresql:18",
    )
    instances: values.Count | None = values.key("The primary and its standbys.", 1)
    storage: values.Storage | None = values.key("Size of the volume of the data.", "20Gi")
    storage_class: values.ObjectName | None = values.key(
        "Its StorageClass; the cluster's default when left out.", "local-path"
    )
    wal_storage: values.Storage | None = values.key(
        "Size of a volume of its own for WAL; it has none when left out.", "5Gi"
    )
    wal_storage_class: values.ObjectName | None = values.key(
        "Its StorageClass; that of the data when left out."
    )
    resources: Resources | None = values.key(
        "Of each instance.", {"requests": {"cpu": "2", "memory": "4Gi"}}
    )
    synchronous: Annotated[SynchronousForm, OR_EMPTY] | None = values.key(
        "Synchronous replication; needs two instances.", {"method": "any", "number": 1}
    )
    node_selector: values.Labels | None = values.key(
        "Labels of the nodes that instances may run on.", {"disk": "nvme"}
    )
    tolerations: values.Tolerations | None = values.key(
        "Taints that instances tolerate, as in a manifest.", [{"key": "db", "operator": "Exists"}]
    )
    affinity: values.Affinity | None = values.key(
        "Further keys of the Cluster's `spec.affinity`.", {"podAntiAffinityType": "required"}
    )
    generators: Generators | None = values.key(
        "The pod that the load comes from.", {"same_node": True}
    )


_OF_ANY_CLUSTER: Final = {"context", "namespace", "cluster", "generators"}
# What belongs to the making of a Cluster: it has no meaning for one that is there.
MAKING_KEYS: Final = ClusterForm.model_fields.keys() - _OF_ANY_CLUSTER


def _replica(value: object) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise refusal(f"{shown(value)} is not a mapping of settings", "Write `{appendonly: yes}`.")
    read = {name: REDIS_SETTING.read(given) for name, given in value.items()}
    removed = [name for name, given in read.items() if given is None]
    if removed:
        message = f"{shown(removed[0])} of the replica is empty"
        raise refusal(message, "Write its value, or leave it out; an empty text is ''.")
    return {name: given for name, given in read.items() if given is not None}


RedisValue = Annotated[str | None, values.ReadBy(REDIS_SETTING)]
Replica = Annotated[
    dict[str, str],
    values.ReadBy(_replica, type=["object", "null"], additionalProperties=REDIS_SETTING.schema),
]
Whole = Annotated[int, values.ReadBy(quantities.whole(0))]


class RedisServerForm(Form):
    """What a target has that is a Redis server."""

    replica: Replica | None = values.key(
        "Settings of a replica that is started beside the server; it has the server's where it has"
        " none of its own.",
        {"appendonly": "yes"},
    )
    db: Whole | None = values.key(
        "Number of the database that is used; an empty one is looked for when left out.", 3
    )
    tls: values.Switch | None = values.key("The connection to the server is encrypted.", True)
    cacert: values.Text | None = values.key(
        "File with the certificates that the server's is checked against.", "ca.crt"
    )
    cert: values.Text | None = values.key("File with the client's certificate.", "client.crt")
    key: values.Text | None = values.key("File with its private key.", "client.key")
    secret: values.ObjectName | None = values.key(
        "Name of the Secret with user and password of a server in a cluster.", "redis-user"
    )
    user_key: values.SecretKey | None = values.key("Key of the user in it.", "username")
    password_key: values.SecretKey | None = values.key("Key of the password in it.", "password")


_GOVERNED_INITDB: Final = re.compile(
    r"-[DUWA]|--(pgdata|username|pwprompt|pwfile|auth|auth-host|auth-local)\b"
)
_PROGRAM_WORDS: Final = ("embedded", "redis-server", "valkey-server")  # that may be misspelled
_PROGRAMS: Final = (
    "Write a version as 15, a directory with a `/`, a running server as postgresql://HOST/DATABASE."
)


# Kinds that named the engine, too, from old to new.
OLD_KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "endpoint": (EngineName.POSTGRES, "existing"),
    "cloudnative-pg": (EngineName.POSTGRES, "kubernetes"),
    "redis-local": (EngineName.REDIS, "local"),
    "redis-endpoint": (EngineName.REDIS, "existing"),
    "redis-kubernetes": (EngineName.REDIS, "kubernetes"),
}


def renamed_kind(kind: str) -> str:
    """Return the new words for an old kind; empty for every other."""
    if kind not in OLD_KINDS:
        return ""
    engine, word = OLD_KINDS[kind]
    return f"Write `engine: {engine}` at the top and `kind: {word}` here."


def _target_kind(value: object, engine: str | None) -> str:
    """Return a kind of target of an engine, or of any."""
    kind = as_text(value)
    known = kind_words() if engine is None else tuple(TARGETS[engine])
    if kind in known:
        return kind
    whose = f" of {system_of(engine).words.server}" if engine and kind in kind_words() else ""
    message = f"{shown(kind)} is no kind of target{whose}"
    raise refusal(message, renamed_kind(kind) or choice(kind, known))


def _engine(value: object) -> str:
    return str(quantities.word(tuple(TARGETS)).read(value))


_URI_FORMS: Final[Mapping[str, Callable[[str], object]]] = {
    EngineName.POSTGRES: parsed_uri,
    EngineName.REDIS: parse_redis_uri,
}


def _uri(value: object, engine: str | None) -> str:
    """Return a URI of the engine that it names, or of this one."""
    uri = as_text(value)
    named = next((each.name for each in systems() if each.is_of(uri)), engine)
    try:
        _URI_FORMS.get(named or EngineName.POSTGRES, str)(uri)
    except InputError as error:
        raise refusal(error.message, error.hint) from None
    return uri


TargetKind = Annotated[str, values.ReadFor(_target_kind, enum=list(kind_words()))]
EngineWord = Annotated[str, values.ReadBy(_engine, enum=list(TARGETS))]
Uri = Annotated[str, values.ReadFor(_uri, type="string")]


def _initdb_option(value: object) -> str:
    option = as_text(value)
    if _GOVERNED_INITDB.match(option):
        hint = "Steelyard sets directory, user and authentication itself."
        raise refusal(f"the initdb option {shown(option)} is not yours to give", hint)
    return option


def _programs(value: object) -> str:
    given = as_text(value)
    if not is_directory(given) and not any(each.names_programs(given) for each in systems()):
        message = f"{shown(given)} is neither `embedded`, nor a version, nor a directory"
        hint = did_you_mean(given, _PROGRAM_WORDS) or _PROGRAMS
        raise refusal(message, hint)
    return given


def is_directory(given: str) -> bool:
    """Return whether programs are named by a directory, or by the path of a program."""
    return "/" in given or given.startswith("~")


def is_version(given: str) -> bool:
    """Return whether programs are named by a version of PostgreSQL."""
    return re.fullmatch(r"[0-9]{1,2}(\.[0-9]{1,2})?", given) is not None


Programs = Annotated[str, values.ReadBy(_programs, type=["string", "number"])]
InitdbOptions = Annotated[
    list[Annotated[str, values.ReadBy(_initdb_option)]],
    pydantic.BeforeValidator(split_words),
    pydantic.WithJsonSchema(TEXTS),
]


class CostForm(Form):
    """What a machine of one's own costs."""

    per_hour: values.Amount | None = values.key(
        "What it costs for an hour, all in all: power, place, price by its years.", 0.42
    )
    currency: values.Currency | None = values.key("Three letters; USD when left out.", "EUR")


RestartCommand = Annotated[tuple[str, ...], values.ReadBy(quantities.COMMAND)]


class ServerForm(Form):
    """What a target has that is a server of this machine, or any that is there already."""

    kind: TargetKind | None = values.key("The kind of target.")
    server: Programs | None = values.key(
        "`embedded`, a version such as 15, or the directory of the programs; of Redis"
        " `redis-server`, `valkey-server` or the directory.",
        "embedded",
        "15",
        "/usr/lib/postgresql/15/bin",
        "valkey-server",
    )
    directory: values.Text | None = values.key("Where data directories are made.", "/mnt/nvme")
    store: Annotated[Store, STORE, OR_EMPTY] | None = values.key(
        "Simulated storage for the data, which Steelyard makes; takes root.", {"latency": "2ms"}
    )
    port: values.Port | None = values.key(
        "TCP port: on the loopback interface, or of the endpoint.", 54321
    )
    connection: values.Connection | None = values.key("How the generator connects.")
    run_as: values.Text | None = values.key("Account of the server when run by root.", "postgres")
    initdb: InitdbOptions | None = values.key(
        "Further initdb options, equal in all configurations.", ["--data-checksums"]
    )
    restore: values.Restore | None = values.key("How data go back to the prepared state.")
    burst_lasts: values.Budget | None = values.key(
        "How long a full bucket of the platform's burst credits lasts at full load.", "30m"
    )
    cost: Annotated[CostForm, OR_EMPTY] | None = values.key(
        "What the server costs; inherited as a whole.", {"per_hour": 0.42, "currency": "EUR"}
    )
    uri: Uri | None = values.key(
        "libpq URI of an endpoint, or the URI of a Redis server, without a password.",
        "postgresql://bench@db.example.com/postgres?sslmode=require",
        "rediss://bench@cache.example.com:6379/3",
    )
    host: values.Text | None = values.key(
        "Name, address or socket directory of an endpoint.", "db.example.com"
    )
    user: values.Text | None = values.key("Who connects to an endpoint.", "bench")
    dbname: values.Text | None = values.key("Database of an endpoint to connect to.", "postgres")
    service: values.Text | None = values.key(
        "Section of libpq's service file; of Redis in Kubernetes the Service of a server that is"
        " there.",
        "bench",
    )
    allow_existing: values.Switch | None = values.key(
        "Measure in the named database, which Steelyard did not make; of Redis: change settings of"
        " a server that holds keys, and put them back.",
        True,
    )
    restart_command: RestartCommand | None = values.key(
        "Restarts an endpoint's server; run on this machine, without a shell.",
        ["ssh", "db.example.com", "systemctl", "restart", "postgresql"],
    )
    reset_command: RestartCommand | None = values.key(
        "Brings the data of an endpoint's own database back before every start; run on this"
        " machine, without a shell.",
        ["/srv/bench/rollback", "tank/pg@ready"],
    )
    reset_timeout: values.LongLength | None = values.key(
        "How long the `reset_command` may take (default: 10m).", "30m"
    )
    memory: values.ToldMemory | None = values.key(
        "What the server of an endpoint has, for profiles: nobody sees it from here.", "64GiB"
    )
    cpus: values.ToldCpus | None = values.key("CPUs of that server, likewise.", 16)


def _describe_own_keys(schema: dict[str, Any]) -> None:
    schema["additionalProperties"] = False
    for key in sorted(_own_keys()):
        schema["properties"].setdefault(key, {})


# Fields of target classes that have other names in a file, or are spread over several keys.
KEYS_OF_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "kind": frozenset(),
    "burst_lasts_s": frozenset(),
    "ttl_s": frozenset(),
    "cost": frozenset(),
    "reset_timeout_s": frozenset({"reset_timeout"}),
    "told_memory_bytes": frozenset({"memory"}),
    "told_cpus": frozenset({"cpus"}),
    "place": frozenset({"context", "namespace", "generators"}),
    "inside": frozenset({"kubernetes"}),
}


def _own_keys() -> set[str]:
    """Return the fields of all target classes that are keys of the same name."""
    models = (model for kinds in TARGETS.values() for model in kinds.values())
    names = {each.name for model in models for each in fields(model)}
    return names - KEYS_OF_FIELDS.keys()


StorageType = Annotated[str, values.ReadBy(quantities.word(STORAGE_TYPES))]


class RentedForm(Form):
    """What a target has that is made in an account of AWS."""

    region: values.Text | None = values.key("Region of AWS.", "us-east-1")
    accounts: values.Texts | None = values.key(
        "Numbers of the accounts it may be made in; none is assumed.", ["123456789012"]
    )
    version: values.Text | None = values.key("Of PostgreSQL, with or without its minor.", "16")
    instance_class: values.Text | None = values.key("Class of the DB instance.", "db.t3.large")
    storage_type: StorageType | None = values.key("Kind of its storage.", "gp3")
    io_optimized: values.Switch | None = values.key(
        "Of Aurora: requests to the storage are in the price.", True
    )
    io_at_most: values.Amount | None = values.key(
        "Requests a second to Aurora's storage, at most: for the plan and `--max-cost`.", 30000
    )
    min_capacity: values.Amount | None = values.key(
        "Of Aurora's class `db.serverless`: least capacity, ACU.", 0.5
    )
    max_capacity: values.Amount | None = values.key("Most of it, ACU; the price is of that.", 4)
    iops: values.Count | None = values.key("Provisioned IOPS; of gp3 from 400 GiB on.", 16000)
    storage_throughput: values.Count | None = values.key("MiB/s of gp3 from 400 GiB on.", 700)
    multi_az: values.Switch | None = values.key("It has a standby in another zone.", False)
    subnet_group: values.Text | None = values.key("DB subnet group; the default one when left out.")
    security_groups: values.Texts | None = values.key(
        "Ids of its security groups; the default one when left out."
    )
    delete_role: values.Text | None = values.key(
        "ARN of the role under which AWS itself deletes it when --ttl has passed.",
        "arn:aws:iam::123456789012:role/steelyard-delete",
    )
    performance_insights: values.Switch | None = values.key(
        "AWS counts active sessions by what they wait for; kept for seven days.", True
    )
    public: values.Switch | None = values.key("It has an address outside of its VPC.", False)


class TargetForm(RedisServerForm, ClusterForm, RentedForm, ServerForm):
    """Where the server runs; what is not given is inherited."""

    # Keys that no section here has are those of a registered class of targets.
    model_config = pydantic.ConfigDict(extra="allow", json_schema_extra=_describe_own_keys)
    __pydantic_extra__: dict[
        Annotated[str, pydantic.AfterValidator(values.only(_own_keys))], object
    ] = pydantic.Field(init=False)
    _engine: str = EngineName.POSTGRES

    @pydantic.model_validator(mode="after")
    def _of_the_file(self, about: pydantic.ValidationInfo) -> Self:
        self._engine = about.context or EngineName.POSTGRES
        return self

    @property
    def engine(self) -> str:
        """Return the engine of the file, from the context of the validation."""
        return self._engine

    kubernetes: Service | None = values.key(
        "A server in a Kubernetes cluster, by the names of its Service and Secret.",
        {"service": "db", "secret": "db-user"},
    )
