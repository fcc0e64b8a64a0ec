"""The section ``target`` of an experiment file: where the server runs, or is there already.

Of a target in Kubernetes these are resources, replication, generators and a service. What the file
says of Redis alone is here as well: work, settings, and how a server is reached.
"""

import re
from dataclasses import fields
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    WithJsonSchema,
)

from steelyard.campaign.file import form_values as kubernetes
from steelyard.campaign.file import form_values as values
from steelyard.campaign.file.document import WrittenFloat, WrittenInt
from steelyard.campaign.file.form_values import Form, empty_as_mapping, refusal, shown
from steelyard.core.aws import STORAGE_TYPES
from steelyard.core.errors import InputError, choice, did_you_mean
from steelyard.core.redis import is_redis_uri, parse_redis_uri
from steelyard.core.target import TARGETS, systems
from steelyard.gateways.sql import parsed_uri


class ResourcesForm(Form):
    """What a container asks for and gets at most; where one is given, the other is the same."""

    requests: kubernetes.Amounts | None = Field(
        default=None,
        description="What is set aside for it.",
        examples=[{"cpu": "2", "memory": "4Gi", "hugepages-2Mi": "1Gi"}],
    )
    limits: kubernetes.Amounts | None = Field(
        default=None,
        description="What it gets at most.",
        examples=[{"cpu": "2", "memory": "4Gi"}],
    )


Resources = Annotated[ResourcesForm, BeforeValidator(empty_as_mapping)]


class StoreForm(Form):
    """Simulated storage: XFS in a file that is slower than the disk it lies on. Takes root."""

    latency: values.Length | None = Field(
        default=None, description="What each flush takes longer.", examples=["2ms"]
    )
    iops: values.Count | None = Field(
        default=None,
        description="Reads and writes together, per second, at most.",
        examples=[900, 3000],
    )
    bandwidth: values.Bandwidth | None = Field(
        default=None, description="Bytes per second at most.", examples=["48MB"]
    )
    burst_iops: values.Count | None = Field(
        default=None, description="As `iops`, while there are credits.", examples=[3000]
    )
    burst_credits: values.Count | None = Field(
        default=None,
        description="Reads and writes in a full bucket of credits, which it is at first; `iops` a"
        " second fill it.",
        examples=[5400000],
    )
    block_size: values.BlockSize | None = Field(
        default=None, description="Of the file system.", examples=["4KiB", "16KiB", "64KiB"]
    )
    size: values.VolumeSize | None = Field(
        default=None,
        description="Of the file; what is not written takes no space.",
        examples=["16GiB"],
    )


Store = Annotated[StoreForm, BeforeValidator(empty_as_mapping)]


class SynchronousForm(Form):
    """Synchronous replication, as CloudNativePG takes it."""

    method: kubernetes.Method | None = Field(
        default=None, description="`any` of the standbys, or the `first` of a list."
    )
    number: values.Count | None = Field(
        default=None, description="How many standbys a commit waits for.", examples=[1]
    )
    data_durability: kubernetes.Durability | None = Field(
        default=None,
        description="`required` stops writes where standbys are missing, `preferred` goes on.",
    )


class GeneratorsForm(Form):
    """The pods of the load generators; equal in all configurations."""

    image: kubernetes.Image | None = Field(
        default=None,
        description="Image with pgbench, psql and bash; the database's when left out.",
        examples=["ghcr.io/cloudnative-pg/postgresql:18"],
    )
    resources: Resources | None = Field(
        default=None, description="Of each pod.", examples=[{"limits": {"cpu": "2"}}]
    )
    node_selector: kubernetes.Labels | None = Field(
        default=None,
        description="Labels of the nodes they may run on.",
        examples=[{"role": "load"}],
    )
    tolerations: kubernetes.Tolerations | None = Field(
        default=None,
        description="Taints they tolerate, as in a manifest.",
        examples=[[{"key": "load", "operator": "Exists"}]],
    )
    same_node: values.Switch | None = Field(
        default=None, description="They may share a node with the database.", examples=[False]
    )


Generators = Annotated[GeneratorsForm, BeforeValidator(empty_as_mapping)]
_CONTEXT: Final = "Context of the kubeconfig; the current one when left out."


class ServiceForm(Form):
    """A PostgreSQL server in a Kubernetes cluster, under load from pods there."""

    service: kubernetes.ServiceName | None = Field(
        default=None, description="Name of its Service.", examples=["db"]
    )
    port: values.Port | None = Field(
        default=None, description="Port of the Service.", examples=[5432]
    )
    secret: kubernetes.ObjectName | None = Field(
        default=None, description="Name of the Secret with user and password.", examples=["db-user"]
    )
    user_key: kubernetes.SecretKey | None = Field(
        default=None, description="Key of the user in it.", examples=["username"]
    )
    password_key: kubernetes.SecretKey | None = Field(
        default=None, description="Key of the password in it.", examples=["password"]
    )
    namespace: kubernetes.NamespaceName | None = Field(
        default=None,
        description="Of the Service and the Secret; the context's when left out.",
        examples=["prod"],
    )
    context: values.Text | None = Field(default=None, description=_CONTEXT, examples=["lab"])
    generators: Generators | None = Field(
        default=None, description="The pods of the load generators.", examples=[{"same_node": True}]
    )


Service = Annotated[ServiceForm, BeforeValidator(empty_as_mapping)]


class ClusterForm(Form):
    """What a target has that is a Cluster of CloudNativePG."""

    context: values.Text | None = Field(default=None, description=_CONTEXT, examples=["lab"])
    namespace: kubernetes.NamespaceName | None = Field(
        default=None,
        description="Where the Cluster is made, or is; one of the campaign's own when left out.",
        examples=["bench"],
    )
    cluster: kubernetes.ClusterName | None = Field(
        default=None,
        description="An existing Cluster, used as it is instead of one that is made.",
        examples=["pg"],
    )
    image: kubernetes.Image | None = Field(
        default=None,
        description="Image of the database; the operator's default when left out.",
        examples=["ghcr.io/cloudnative-pg/postgresql:18"],
    )
    instances: values.Count | None = Field(
        default=None, description="The primary and its standbys.", examples=[1]
    )
    storage: kubernetes.Storage | None = Field(
        default=None, description="Size of the volume of the data.", examples=["20Gi"]
    )
    storage_class: kubernetes.ObjectName | None = Field(
        default=None,
        description="Its StorageClass; the cluster's default when left out.",
        examples=["local-path"],
    )
    wal_storage: kubernetes.Storage | None = Field(
        default=None,
        description="Size of a volume of its own for WAL; it has none when left out.",
        examples=["5Gi"],
    )
    wal_storage_class: kubernetes.ObjectName | None = Field(
        default=None, description="Its StorageClass; that of the data when left out."
    )
    resources: Resources | None = Field(
        default=None,
        description="Of each instance.",
        examples=[{"requests": {"cpu": "2", "memory": "4Gi"}}],
    )
    synchronous: Annotated[SynchronousForm, BeforeValidator(empty_as_mapping)] | None = Field(
        default=None,
        description="Synchronous replication; needs two instances.",
        examples=[{"method": "any", "number": 1}],
    )
    node_selector: kubernetes.Labels | None = Field(
        default=None,
        description="Labels of the nodes that instances may run on.",
        examples=[{"disk": "nvme"}],
    )
    tolerations: kubernetes.Tolerations | None = Field(
        default=None,
        description="Taints that instances tolerate, as in a manifest.",
        examples=[[{"key": "db", "operator": "Exists"}]],
    )
    affinity: kubernetes.Affinity | None = Field(
        default=None,
        description="Further keys of the Cluster's `spec.affinity`.",
        examples=[{"podAntiAffinityType": "required"}],
    )
    generators: Generators | None = Field(
        default=None, description="The pods of the load generators.", examples=[{"same_node": True}]
    )


CLUSTER_KEYS: Final = frozenset(ClusterForm.model_fields)
# What belongs to the making of a Cluster: it has no meaning for one that is there.
MAKING_KEYS: Final = CLUSTER_KEYS - {"context", "namespace", "cluster", "generators"}
# Sections whose keys are inherited one by one; other mappings are inherited whole.
NESTED: Final = ("kubernetes", "generators", "synchronous")


_LARGEST_VALUE: Final = 512 * 1024**2  # Redis, "Strings": 512 MB by default (proto-max-bulk-len)
_SETTING: Final = {"type": ["string", "number", "boolean", "null"]}
_KNOWN_TYPES: Final = "Write it on one line, as CONFIG SET takes it."


def redis_value(value: object) -> str | None:
    """Return the text that CONFIG SET takes, None to remove the setting; empty text is a value."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, WrittenInt | WrittenFloat):
        return value.text
    if not isinstance(value, str):
        message = f"{shown(value)} is a list or mapping, not a setting's value"
        raise refusal(message, "Write it as one text: '900 1 300 10'.")
    if re.search(r"[\0\r\n]", value):
        raise refusal("the value has a line break or NUL in it", _KNOWN_TYPES)
    return value.strip()


def _replica(value: object) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise refusal(f"{shown(value)} is not a mapping of settings", "Write `{appendonly: yes}`.")
    read = {name: redis_value(given) for name, given in value.items()}
    removed = [name for name, given in read.items() if given is None]
    if removed:
        message = f"{shown(removed[0])} of the replica is empty"
        raise refusal(message, "Write its value, or leave it out; an empty text is ''.")
    return {name: given for name, given in read.items() if given is not None}


def _tokens(value: object) -> tuple[str, ...]:
    tokens = values.command_words(value)
    if any(re.search(r"[\0\r\n]", token) for token in tokens):
        raise refusal("the command has a line break or NUL in it", "Write one command.")
    return tokens


RedisValue = Annotated[str | None, PlainValidator(redis_value), WithJsonSchema(_SETTING)]
Replica = Annotated[
    dict[str, str],
    PlainValidator(_replica),
    WithJsonSchema({"type": ["object", "null"], "additionalProperties": _SETTING}),
]
RedisCommand = Annotated[tuple[str, ...], PlainValidator(_tokens), WithJsonSchema(values.TEXTS)]
Whole = Annotated[
    int,
    PlainValidator(values.whole_number(0)),
    WithJsonSchema({"type": "integer", "minimum": 0}),
]
Database = Whole
# redis-benchmark fills a key's number into twelve digits.
Keys = Annotated[
    int,
    PlainValidator(values.whole_number(1, 10**12)),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": 10**12}),
]
ValueBytes = Annotated[
    int,
    PlainValidator(values.whole_number(1, _LARGEST_VALUE)),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": _LARGEST_VALUE}),
]


def generators() -> list[str]:
    """Return the names of all load generators."""
    return [each.words.generator for each in systems()]


def _program_word(value: object) -> str:
    return values.one_of(*generators())(value)


ProgramWord = Annotated[
    str,
    PlainValidator(_program_word),
    WithJsonSchema({"enum": generators()}),
]


class RedisWorkForm(Form):
    """What a workload has that is for Redis."""

    command: RedisCommand | None = Field(
        default=None,
        description="Redis: one command with its arguments, in which __rand_int__ stands for the "
        "number of a key and __data__ for a value.",
        examples=[["HGET", "user:__rand_int__", "name"]],
    )
    value_bytes: ValueBytes | None = Field(
        default=None, description="Redis: size of each value, loaded or written.", examples=[1024]
    )
    keys: Keys | None = Field(
        default=None,
        description="Redis: requests choose among so many keys at random; 1: all use one key.",
        examples=[100000],
    )
    loaded: Whole | None = Field(
        default=None,
        description="Redis: so many keys exist when a start begins.",
        examples=[100000],
    )


REDIS_WORK_KEYS: Final = tuple(RedisWorkForm.model_fields)


class RedisServerForm(Form):
    """What a target has that is a Redis server."""

    replica: Replica | None = Field(
        default=None,
        description="Settings of a replica that is started beside the server; it has the server's "
        "where it has none of its own.",
        examples=[{"appendonly": "yes"}],
    )
    db: Database | None = Field(
        default=None,
        description="Number of the database that is used; an empty one is looked for when left "
        "out.",
        examples=[3],
    )
    tls: values.Switch | None = Field(
        default=None, description="The connection to the server is encrypted.", examples=[True]
    )
    cacert: values.Text | None = Field(
        default=None,
        description="File with the certificates that the server's is checked against.",
        examples=["ca.crt"],
    )
    cert: values.Text | None = Field(
        default=None, description="File with the client's certificate.", examples=["client.crt"]
    )
    key: values.Text | None = Field(
        default=None, description="File with its private key.", examples=["client.key"]
    )
    secret: kubernetes.ObjectName | None = Field(
        default=None,
        description="Name of the Secret with user and password of a server in a cluster.",
        examples=["redis-user"],
    )
    user_key: kubernetes.SecretKey | None = Field(
        default=None, description="Key of the user in it.", examples=["username"]
    )
    password_key: kubernetes.SecretKey | None = Field(
        default=None, description="Key of the password in it.", examples=["password"]
    )


REDIS_SERVERS: Final = ("redis-server", "valkey-server")
_GOVERNED_INITDB: Final = re.compile(
    r"-[DUWA]|--(pgdata|username|pwprompt|pwfile|auth|auth-host|auth-local)\b"
)
_PROGRAMS: Final = (
    "Write a version as 15, a directory with a `/`, a running server as postgresql://HOST/DATABASE."
)


def _target_kind(value: object) -> str:
    kind = values.as_text(value)
    if kind not in TARGETS:
        raise refusal(f"{shown(kind)} is no kind of target", choice(kind, [*TARGETS]))
    return kind


def _uri(value: object) -> str:
    uri = values.as_text(value)
    try:
        parse_redis_uri(uri) if is_redis_uri(uri) else parsed_uri(uri)
    except InputError as error:
        raise refusal(error.message, error.hint) from None
    return uri


TargetKind = Annotated[str, PlainValidator(_target_kind), WithJsonSchema({"enum": list(TARGETS)})]
Uri = Annotated[str, PlainValidator(_uri), WithJsonSchema({"type": "string"})]


def _initdb_option(value: object) -> str:
    option = values.as_text(value)
    if _GOVERNED_INITDB.match(option):
        hint = "Steelyard sets directory, user and authentication itself."
        raise refusal(f"the initdb option {shown(option)} is not yours to give", hint)
    return option


def _programs(value: object) -> str:
    given = values.as_text(value)
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


class CostForm(Form):
    """What a machine of one's own costs."""

    per_hour: values.Amount | None = Field(
        default=None,
        description="What it costs for an hour, all in all: power, place, price by its years.",
        examples=[0.42],
    )
    currency: values.Currency | None = Field(
        default=None, description="Three letters; USD when left out.", examples=["EUR"]
    )


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
    store: Store | None = Field(
        default=None,
        description="Simulated storage for the data, which Steelyard makes; takes root.",
        examples=[{"latency": "2ms"}],
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
        description="Further initdb options, equal in all configurations.",
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
    cost: Annotated[CostForm, BeforeValidator(empty_as_mapping)] | None = Field(
        default=None,
        description="What the server costs; inherited as a whole.",
        examples=[{"per_hour": 0.42, "currency": "EUR"}],
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
    reset_command: RestartCommand | None = Field(
        default=None,
        description="Brings the data of an endpoint's own database back before every start; run on "
        "this machine, without a shell.",
        examples=[["/srv/bench/rollback", "tank/pg@ready"]],
    )
    reset_timeout: values.LongLength | None = Field(
        default=None,
        description="How long the `reset_command` may take (default: 10m).",
        examples=["30m"],
    )
    memory: values.ToldMemory | None = Field(
        default=None,
        description="What the server of an endpoint has, for profiles: nobody sees it from here.",
        examples=["64GiB"],
    )
    cpus: values.ToldCpus | None = Field(
        default=None, description="CPUs of that server, likewise.", examples=[16]
    )


def _describe_own_keys(schema: dict[str, Any]) -> None:
    schema["additionalProperties"] = False
    for key in sorted(_own_keys()):
        schema["properties"].setdefault(key, {})


# Fields of targets whose keys have other names.
_OF_MODELS: Final = frozenset(
    {
        "burst_lasts_s",
        "reset_timeout_s",
        "told_memory_bytes",
        "told_cpus",
        "ttl_s",
        "place",
        "inside",
    }
)


def _own_keys() -> set[str]:
    """Return the fields of all target classes."""
    return {each.name for model in TARGETS.values() for each in fields(model)} - _OF_MODELS


StorageType = Annotated[
    str,
    PlainValidator(values.one_of(*STORAGE_TYPES)),
    WithJsonSchema({"enum": list(STORAGE_TYPES)}),
]


class RentedForm(Form):
    """What a target has that is made in an account of AWS."""

    region: values.Text | None = Field(
        default=None, description="Region of AWS.", examples=["us-east-1"]
    )
    accounts: values.Texts | None = Field(
        default=None,
        description="Numbers of the accounts it may be made in; none is assumed.",
        examples=[["123456789012"]],
    )
    version: values.Text | None = Field(
        default=None, description="Of PostgreSQL, with or without its minor.", examples=["16"]
    )
    instance_class: values.Text | None = Field(
        default=None, description="Class of the DB instance.", examples=["db.t3.large"]
    )
    storage_type: StorageType | None = Field(
        default=None, description="Kind of its storage.", examples=["gp3"]
    )
    io_optimized: values.Switch | None = Field(
        default=None,
        description="Of Aurora: requests to the storage are in the price.",
        examples=[True],
    )
    min_capacity: values.Amount | None = Field(
        default=None,
        description="Of Aurora's class `db.serverless`: least capacity, ACU.",
        examples=[0.5],
    )
    max_capacity: values.Amount | None = Field(
        default=None, description="Most of it, ACU; the price is of that.", examples=[4]
    )
    iops: values.Count | None = Field(
        default=None, description="Provisioned IOPS; of gp3 from 400 GiB on.", examples=[16000]
    )
    storage_throughput: values.Count | None = Field(
        default=None, description="MiB/s of gp3 from 400 GiB on.", examples=[700]
    )
    multi_az: values.Switch | None = Field(
        default=None, description="It has a standby in another zone.", examples=[False]
    )
    subnet_group: values.Text | None = Field(
        default=None, description="DB subnet group; the default one when left out."
    )
    security_groups: values.Texts | None = Field(
        default=None, description="Ids of its security groups; the default one when left out."
    )
    delete_role: values.Text | None = Field(
        default=None,
        description="ARN of the role under which AWS itself deletes it when --ttl has passed.",
        examples=["arn:aws:iam::123456789012:role/steelyard-delete"],
    )
    performance_insights: values.Switch | None = Field(
        default=None,
        description="AWS counts active sessions by what they wait for; kept for seven days.",
        examples=[True],
    )
    public: values.Switch | None = Field(
        default=None, description="It has an address outside of its VPC.", examples=[False]
    )


class TargetForm(RedisServerForm, ClusterForm, RentedForm, ServerForm):
    """Where the server runs; what is not given is inherited."""

    # Keys that no section here has are those of a registered class of targets.
    model_config = ConfigDict(extra="allow", json_schema_extra=_describe_own_keys)
    __pydantic_extra__: dict[Annotated[str, AfterValidator(values.only(_own_keys))], object] = (
        Field(init=False)
    )

    kubernetes: Service | None = Field(
        default=None,
        description="A server in a Kubernetes cluster, by the names of its Service and Secret.",
        examples=[{"service": "db", "secret": "db-user"}],
    )
