"""The section ``target``: how it becomes the class of its kind, and what it cannot have at once.

``core.target.TARGETS`` registers the kinds, whose fields are their keys. A problem is told of one
whole target, once everything is inherited: the key it is about, the fact and the way out;
``inheritance`` finds the line.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo, create_model
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema
from pydantic_core.core_schema import (
    no_info_before_validator_function,
    with_info_plain_validator_function,
)

from steelyard.campaign.file import form_values as values
from steelyard.core import target as targets
from steelyard.core import wording
from steelyard.core.places import PodResources, Store
from steelyard.core.quantities import Quantity, as_text, keyed, refusal, shown, text_of
from steelyard.core.quantities import word as word_of
from steelyard.core.redis import parse_redis_uri
from steelyard.core.target import TARGETS, EngineName
from steelyard.gateways.sql import parsed_uri

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


def _kind(value: object, engine: str | None) -> str:
    """Return a kind of target of an engine, or of any."""
    kind = as_text(value)
    known = targets.kind_words() if engine is None else tuple(TARGETS[engine])
    if kind in known:
        return kind
    is_others = engine is not None and kind in targets.kind_words()
    whose = f" of {targets.system_of(str(engine)).words.server}" if is_others else ""
    message = f"{shown(kind)} is no kind of target{whose}"
    raise refusal(message, renamed_kind(kind) or wording.choice(kind, known))


def _engine(value: object) -> str:
    return str(word_of(tuple(TARGETS)).read(value))


_URI_FORMS: Final[Mapping[str, Callable[[str], object]]] = {
    EngineName.POSTGRES: parsed_uri,
    EngineName.REDIS: parse_redis_uri,
}


def _uri(value: object, engine: str | None) -> str:
    """Return a URI of the engine that it names, or of this one."""
    uri = as_text(value)
    named = next((each.name for each in targets.systems() if each.is_of(uri)), engine)
    _URI_FORMS.get(named or EngineName.POSTGRES, str)(uri)
    return uri


EngineWord = Annotated[str, values.ReadBy(_engine, enum=list(TARGETS))]
_KIND: Final = values.ReadFor(_kind, enum=list(targets.kind_words()))
_URI: Final = values.ReadFor(_uri, type="string")  # the class does not know libpq


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenTarget:
    """A target as a file says it.

    Attributes:
        entries: What is written, by key; also what belongs to other kinds.
    """

    model: targets.Server
    entries: Mapping[str, Any]


class TargetSection:
    """The section: it becomes the class that its kind names, of the engine of the file.

    A key of another kind is read as that has it.
    """

    @property
    def form(self) -> type[values.Form]:
        """Return the keys of all kinds."""
        return _form(*_every_kind())

    def sections(self) -> dict[tuple[str, ...], type[values.Form]]:
        """Return the sections of all kinds with their paths."""
        below = (each for kind in _every_kind() for each in values.sections_of(kind))
        return {("target", *path): form for path, form in [((), self.form), *below]}

    def read(self, value: object, engine: str) -> WrittenTarget:
        """Return a written target; one that names no kind is on this machine."""
        kinds = TARGETS[engine]
        named = value.get("kind") if isinstance(value, dict) else None
        kind = kinds.get(text_of(named) or "") or kinds[targets.kind_here(engine)]
        form = _form(*dict.fromkeys((kind, *kinds.values(), *_every_kind())))
        entries = values.said(form.model_validate(value, context=engine), inherits=True)
        return WrittenTarget(model=values.filled(kind, entries), entries=entries)

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        def read(value: object, about: ValidationInfo) -> WrittenTarget:
            return self.read(value, about.context or EngineName.POSTGRES)

        return with_info_plain_validator_function(read)

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        form = self.form.__pydantic_core_schema__  # below a validator it has a name of its own
        return handler(no_info_before_validator_function(dict, form))


TARGET: Final = TargetSection()


def _every_kind() -> tuple[Any, ...]:
    """Return the classes of all kinds."""
    return tuple(kind for kinds in TARGETS.values() for kind in kinds.values())


@cache
def _form(*kinds: type[targets.Server]) -> type[values.Form]:
    """Return pydantic's model of a target; a key that kinds share is read as by the first one."""
    shared: dict[str, list[tuple[Any, Any]]] = {}
    for kind in kinds:
        for name, field in values.keys_of(kind, inherits=True).items():
            shared.setdefault(name, []).append(field)
    found: dict[str, Any] = {
        name: (fields[0][0], _one_of([info for _, info in fields]))
        for name, fields in shared.items()
    }
    found["uri"] = (Annotated[str, _URI] | None, found["uri"][1])
    about = "Place of the server; keys that are left out are inherited."
    found = {"kind": (Annotated[str, _KIND] | None, values.key("The kind of target.")), **found}
    return create_model("Target", __base__=values.Form, __doc__=about, **found)


def _one_of(infos: Sequence[FieldInfo]) -> Any:  # noqa: ANN401 - as of pydantic's Field
    """Return what kinds say of a key that they share."""
    first, *_ = infos
    words = dict.fromkeys(str(each.description) for each in infos)
    examples: list[object] = []
    for each in (one for info in infos for one in info.examples or ()):
        examples += [each] if each not in examples else []
    default = None if first.default_factory else first.default
    return Field(default, description=" ".join(words), examples=examples or None)


def keys_of(kind: type[targets.Server]) -> frozenset[str]:
    """Return the keys of a kind."""
    return frozenset(values.section_keys(kind)) | {"kind"}


def located(target: targets.Server, base: Path) -> targets.Server:
    """Return a target whose files and directories are absolute, ``~`` being the account's home."""

    def absolute(name: str) -> str:
        home = str(Path.home())
        expanded = home + name[1:] if name == "~" or name.startswith("~/") else name
        return str((base / expanded).absolute())

    found: dict[str, Any] = {
        each.name: absolute(value)
        for _, each, key in keyed(type(target))
        if key is not None and isinstance(key.takes, Quantity)
        if isinstance(value := getattr(target, each.name), str) and key.takes.names_path(value)
    }
    return replace(target, **found)


Told = tuple[str, str, str]  # the key below `target`, what is wrong, the way out
# The same of each of several keys that is given, which stands for ``{key}`` in the words.
Rules = Iterator[tuple[str | Sequence[str], str, str]]
TOLD: Final = ("memory", "cpus")  # what a user says of a server that nobody sees


def target_problems(written: WrittenTarget) -> Iterator[Told]:
    """Yield what is wrong with one target once everything is inherited."""
    target, own = written.model, keys_of(type(written.model))
    yield from _strays(target, sorted(written.entries.keys() - own))
    for kind, rules in _RULES:
        for keys, message, hint in rules(target) if isinstance(target, kind) else ():
            if isinstance(keys, str):
                yield keys, message, hint
                continue
            for key in sorted({*keys} & written.entries.keys() & own):
                yield key, message.replace("{key}", key), hint.replace("{key}", key)


def _strays(target: targets.Server, keys: Sequence[str]) -> Iterator[Told]:
    """Yield keys of other kinds."""
    for key in keys:
        homes = _homes(key, target.system.name)
        message = f"`{key}` belongs to the target {homes}, and this is `{target.kind}`"
        hint = "Remove it."
        if key in TOLD and target.is_here:
            message = f"`{key}` is what nobody sees of a server, and Steelyard sees this machine"
            hint = "Leave it out; `cgroup` gives a server of this machine less than all of it."
        yield key, message, hint


def _homes(key: str, engine: str) -> str:
    """Return the kinds of target of an engine that have a key, or those of the others."""
    homes = {
        name: [kind for kind, each in kinds.items() if key in keys_of(each)]
        for name, kinds in TARGETS.items()
    }
    if homes[engine]:
        return wording.listed(homes[engine])
    return " or ".join(
        f"{wording.listed(kinds)} of {targets.system_of(other).words.server}"
        for other, kinds in homes.items()
        if kinds
    )


def _of_any(its: targets.Server) -> Rules:
    if its.restore not in its.restores:
        message = f"the target `{its.kind}` cannot restore by {its.restore}"
        yield ("restore",), message, f"Use {wording.listed(its.restores)}."


def _here(its: targets.Here) -> Rules:
    own = its.system
    for other in targets.systems():
        if other is not own and other.names_programs(its.server):
            message = f"`{its.server}` names no programs of {own.words.server}"
            hint = f"Write {own.has_programs}, or `engine: {other.name}` at the top."
            yield "server", message, hint
    store = its.store or Store()
    if store.latency_s > _LONGEST_LATENCY_S:
        yield "store", f"a flush of {store.latency_s:g} s is no disk's", "Write `latency: 2ms`."
    block = store.block_bytes
    if block & (block - 1):
        message = f"a file system has no blocks of {wording.format_bytes(block)}"
        yield "store", message, "Write a power of two: 4KiB, 16KiB or 64KiB."
    if (store.burst_iops is None) != (not store.burst_credits):
        there, lacking = "burst_iops", "burst_credits"
        if store.burst_iops is None:
            there, lacking = lacking, there
        yield "store", f"`{there}` is of no use without `{lacking}`", f"Add `{lacking}`."
    elif store.burst_iops is not None and store.burst_iops <= (store.iops or store.burst_iops):
        message = "`burst_iops` is to be more than `iops`, which fills the bucket"
        yield "store", message, "Write both, as in {iops: 900, burst_iops: 3000, ...}."


_LONGEST_LATENCY_S: Final = 10.0  # a guess: beyond it servers and generators give up


def _there(its: targets.There) -> Rules:
    own = its.system
    for other in targets.systems():
        if its.uri and other is not own and other.is_of(its.uri):
            message = f"the URI is one of {other.words.server}, not of {own.words.server}"
            yield "uri", message, f"Write `engine: {other.name}` at the top, or correct the URI."
    if its.uri:
        separate = ("host", "port", "user", "dbname", "service", "db", "tls")
        hint = "Write it into the URI, or use separate keys only."
        yield separate, "`uri` and `{key}` exclude each other", hint


def _endpoint(its: targets.EndpointTarget) -> Rules:
    if not its.reset_command:
        message = "`reset_timeout` is the time of a `reset_command`, and there is none"
        yield ("reset_timeout",), message, "Add the command, or remove it."
    elif its.restore is not None:
        message = f"`reset_command` and `restore: {its.restore}` exclude each other"
        yield "restore", message, "Remove one of the two."
    if its.allow_existing and its.restore == "template":
        hint = "Remove `restore`: nothing is copied in a database that is not Steelyard's."
        yield "restore", "an existing database cannot be restored by template", hint
    if its.inside is None:
        return
    hint = "Remove it: the Service and its Secret say where the server is and who connects."
    whole = ("uri", "host", "port", "user", "service")
    yield whole, "`kubernetes` and `{key}` exclude each other", hint
    for key in ("service", "secret"):
        if not getattr(its.inside, key):
            example = "{service: db, secret: db-user}"
            yield "kubernetes", f"`{key}` is missing", f"Add it, as in `kubernetes: {example}`."
    yield from _resources("kubernetes", its.inside.place.generators.resources)


def _redis_endpoint(its: targets.RedisEndpointTarget) -> Rules:
    by_uri = its.uri is not None and its.system.is_of(its.uri) and parse_redis_uri(its.uri).tls
    if not its.tls and not by_uri:
        hint = "Add `tls: true`, or write the URI with rediss://."
        message = "`{key}` is for a connection with TLS, and this one has none"
        yield ("cacert", "cert", "key"), message, hint
    for there, lacking in (("cert", "key"), ("key", "cert")):
        if getattr(its, lacking) is None:
            yield (there,), f"`{there}` is of no use without `{lacking}`", f"Add `{lacking}`."
    if its.tls and its.host is not None and its.host.startswith("/"):
        yield "tls", "a Unix socket is not encrypted", "Remove `tls`, or name a host."


def _pods(its: targets.InPods) -> Rules:
    yield from _resources("generators", its.place.generators.resources)
    if its.is_made:
        yield from _resources("resources", its.resources)
        return
    made = ("image", "storage", "storage_class", "resources", "node_selector", "tolerations")
    of_cluster = ("instances", "wal_storage", "wal_storage_class", "synchronous", "affinity")
    there = f"`{its.existing_key}` names a {its.noun} that is there"
    message = there + ", and `{key}` is for one that is made"
    yield (*made, *of_cluster), message, "Remove `{key}`, or " + f"`{its.existing_key}`."


def _cluster(its: targets.CloudNativePgTarget) -> Rules:
    if not its.is_made:
        return
    if its.allow_existing:
        hint = "Remove it, or name an existing Cluster with `cluster`."
        yield "allow_existing", "Steelyard makes this Cluster, and may change it", hint
    if its.wal_storage is None:
        message = "`wal_storage_class` is for a volume that is not there"
        yield ("wal_storage_class",), message, "Give its size with `wal_storage`."
    number = 0 if its.synchronous is None else its.synchronous.number
    if number >= its.instances:
        standbys = "1 standby" if number == 1 else f"{number} standbys"
        has = "1 instance" if its.instances == 1 else f"{its.instances} instances"
        message = f"a commit is to wait for {standbys}, and the Cluster has {has}"
        yield "synchronous", message, f"Write `instances: {number + 1}` or more."


def _redis_pods(its: targets.RedisKubernetesTarget) -> Rules:
    if its.is_made:
        of_a_service = ("secret", "port", "user_key", "password_key", "allow_existing")
        message = "Steelyard makes this server, and `{key}` is for one that is there"
        yield of_a_service, message, "Remove it, or name an existing Service with `service`."


def _resources(key: str, asked: PodResources) -> Rules:
    requests, limits = dict(asked.requests), dict(asked.limits)
    for name in sorted(requests.keys() & limits.keys()):
        wanted, most = wording.parse_quantity(requests[name]), wording.parse_quantity(limits[name])
        if wanted > most:
            message = f"it asks for {requests[name]} of {name} and is limited to {limits[name]}"
            yield key, message, "Raise the limit."
    for name in sorted(requests.keys() | limits.keys()):
        if name.startswith("hugepages-") and requests.get(name) != limits.get(name):
            message = f"{name} differs between requests and limits: huge pages are set aside"
            yield key, message, "Write the same amount in both."
    if any(map(wording.page_bytes_of, requests)) and not {"cpu", "memory"} & requests.keys():
        message = "huge pages are asked for without `cpu` or `memory`, which Kubernetes refuses"
        yield key, message, "Add `memory`."


def _rented(its: targets.RentedTarget) -> Rules:
    for key, example in (("region", "us-east-1"), ("accounts", "['123456789012']")):
        if not getattr(its, key):
            hint = f"Add `{key}: {example}`: nothing is made where nobody meant it."
            yield key, f"`{key}` of a server that is made in an account of AWS is missing", hint
    try:
        _ = its.volume
    except wording.InputError as error:
        yield "storage_type", error.message, error.hint


def _aurora(its: targets.AuroraTarget) -> Rules:
    least, most = its.min_capacity, its.max_capacity
    if not its.is_serverless:
        hint = f"Write `instance_class: {its.serverless}`, or remove it."
        message = "`{key}` is of the class " + f"{its.serverless} alone"
        yield ("min_capacity", "max_capacity"), message, hint
    elif least > most or most < 1.0 or (2.0 * least) % 1.0 or (2.0 * most) % 1.0:
        hint = "Write the least first, in steps of 0.5, the most at least 1: `max_capacity: 4`."
        yield "max_capacity", f"{least:g} to {most:g} ACU is no range", hint


# What does not go together in one target, by its class.
_RULES: Final[Sequence[tuple[type[targets.Server], Callable[[Any], Rules]]]] = (
    (targets.Server, _of_any),
    (targets.Here, _here),
    (targets.There, _there),
    (targets.EndpointTarget, _endpoint),
    (targets.RedisEndpointTarget, _redis_endpoint),
    (targets.InPods, _pods),
    (targets.CloudNativePgTarget, _cluster),
    (targets.RedisKubernetesTarget, _redis_pods),
    (targets.RentedTarget, _rented),
    (targets.AuroraTarget, _aurora),
)
