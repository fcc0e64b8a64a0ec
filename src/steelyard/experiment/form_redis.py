"""What an experiment file says of Redis alone: work, settings, and how a server is reached."""

import re
from typing import Annotated, Final

from pydantic import Field, PlainValidator, WithJsonSchema

from steelyard.experiment import form_values as values
from steelyard.experiment import kubernetes_values as kubernetes
from steelyard.experiment.document import WrittenFloat, WrittenInt
from steelyard.experiment.form_values import Form, refusal
from steelyard.experiment.suggestions import shown
from steelyard.model.experiment import GeneratorName

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
ProgramWord = Annotated[
    str,
    PlainValidator(values.one_of(*GeneratorName)),
    WithJsonSchema({"enum": [str(name) for name in GeneratorName]}),
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
        description="Redis: so many keys exist when a visit begins.",
        examples=[100000],
    )
    read_share: values.Share | None = Field(
        default=None,
        description="Redis: share of GET in a mix of GET and SET; memtier_benchmark only.",
        examples=["90%"],
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
