"""The kinds of target as an experiment file knows them: keys, what is wrong with one, its model.

``core.target.TARGETS`` registers them, and the fields of their classes are their keys. A problem is
told of one whole target, once everything is inherited: the key it is about, the fact and the way
out; ``inheritance`` finds the line.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from steelyard.campaign.file import form_target
from steelyard.campaign.file.form_values import is_service_name
from steelyard.core import target as targets
from steelyard.core import wording
from steelyard.core.aws import volume_of
from steelyard.core.money import MACHINE, Part, Rates
from steelyard.core.quantities import shown
from steelyard.core.redis import DEFAULT_PORT, parse_redis_uri
from steelyard.core.storage import PodResources, Store

Told = tuple[str, str, str]  # the key below `target`, what is wrong, the way out
Locate = Callable[[str], str]  # makes the name of a file or directory absolute


TOLD: Final = ("memory", "cpus")  # what a user says of a server that nobody sees
_OF_ALL: Final = frozenset({"kind", "burst_lasts", "cost"})
_SEPARATE: Final = ("host", "port", "user", "dbname", "service", "db", "tls")
_FILES: Final = ("cacert", "cert", "key")
_OF_A_SERVICE: Final = frozenset({"secret", "port", "user_key", "password_key", "allow_existing"})
_OF_A_STATEFUL_SET: Final = frozenset(
    {"image", "storage", "storage_class", "resources", "node_selector", "tolerations"}
)
_LONGEST_LATENCY_S: Final = 10.0  # a guess: beyond it servers and generators give up
_WHOLE: Final = ("uri", "host", "port", "user", "service")  # how a server outside is reached


def kind_of(form: form_target.TargetForm) -> type[targets.Target]:
    """Return the class of a target; one that names no kind is on this machine."""
    return targets.TARGETS[form.engine][form.kind or targets.kind_here(form.engine)]


def keys_of(kind: type[targets.Target]) -> frozenset[str]:
    """Return the keys of a kind, besides those of all kinds: the fields of its class."""
    names = {each.name for each in fields(kind)}
    own = frozenset[str]().union(*(form_target.KEYS_OF_FIELDS.get(name, {name}) for name in names))
    return own | _OF_A_SERVICE if _has_service(names) else own


def _has_service(names: Collection[str]) -> bool:
    """Return whether the fields of a class have a Service in a cluster, spread over its keys."""
    return "place" in names and "service" in names


def model_of(form: form_target.TargetForm, locate: Locate = str) -> targets.Target:
    """Return the target of a form; where its class takes no value, that is told elsewhere."""
    kind = kind_of(form)
    try:
        return wording.form_of(kind).validate_python(_given(kind, form, locate))
    except ValidationError:
        return kind()


def _given(
    kind: type[targets.Target], form: form_target.TargetForm, locate: Locate
) -> dict[str, object]:
    """Return the fields of a target that a form says; what it does not say is the class's."""
    plain = form.model_dump(exclude_none=True)
    found: dict[str, object] = {"burst_lasts_s": form.burst_lasts}
    for name in {each.name for each in fields(kind)} - {"kind", "burst_lasts_s"}:
        if name in _LOCATED and name in plain:
            found[name] = _located(name, plain[name], locate)
        elif name in _READ:
            found[name] = _READ[name](form)
        else:
            found[name] = plain.get(name)
    if _has_service(found) and form.service is not None:
        found["service"] = _service(form, DEFAULT_PORT)
    return {name: value for name, value in found.items() if value is not None}


def _located(name: str, given: str, locate: Locate) -> str:
    """Return a file or directory as an absolute path; programs may be a version or a name, too."""
    return locate(given) if name != "server" or form_target.is_directory(given) else given


def target_problems(form: form_target.TargetForm) -> Iterator[Told]:
    """Yield what is wrong with one target once everything is inherited."""
    kind, name = kind_of(form), form.kind or targets.kind_here(form.engine)
    given = form.model_dump(exclude_none=True)
    for key in sorted(given.keys() - keys_of(kind) - _OF_ALL):
        message = f"`{key}` belongs to the target {_homes(key, form.engine)}, and this is `{name}`"
        hint = "Remove it."
        if key in TOLD and issubclass(kind, targets.Here):
            message = f"`{key}` is what nobody sees of a server, and Steelyard sees this machine"
            hint = "Leave it out; `cgroup` gives a server of this machine less than all of it."
        yield key, message, hint
    yield from _of_other_systems(form, kind.system)
    yield from _PROBLEMS.get(kind, partial(_refused_values, kind))(form)
    yield from _store_problems(form.store)
    if form.uri is not None:
        for key in _SEPARATE:
            if key in given:
                hint = "Write it into the URI, or use separate keys only."
                yield key, f"`uri` and `{key}` exclude each other", hint
    if kind.restores and form.restore not in (None, *kind.restores):
        hint = f"Use {wording.listed(kind.restores)}."
        yield "restore", f"the target `{name}` cannot restore by {form.restore}", hint
    if form.allow_existing and form.restore == "template":
        hint = "Remove `restore`: nothing is copied in a database that is not Steelyard's."
        yield "restore", "an existing database cannot be restored by template", hint


def _homes(key: str, engine: str) -> str:
    """Return the kinds of target of an engine that have a key, or those of the others."""
    homes = {
        name: [kind for kind, each in kinds.items() if key in keys_of(each)]
        for name, kinds in targets.TARGETS.items()
    }
    if homes[engine]:
        return wording.listed(homes[engine])
    return " or ".join(
        f"{wording.listed(kinds)} of {targets.system_of(other).words.server}"
        for other, kinds in homes.items()
        if kinds
    )


def _refused_values(kind: type[targets.Target], form: form_target.TargetForm) -> Iterator[Told]:
    """Yield the values that the class of a target does not take, where no form checks them."""
    try:
        wording.form_of(kind).validate_python(_given(kind, form, str))
    except ValidationError as error:
        for each in error.errors():
            yield str(each["loc"][0]), f"{shown(each['input'])} is not understood", each["msg"]


def _of_other_systems(
    form: form_target.TargetForm, system: targets.DatabaseSystem
) -> Iterator[Told]:
    """Yield programs and URIs of another database system."""
    for other in targets.systems():
        if other is system:
            continue
        change = f"`engine: {other.name}`"
        if form.server is not None and other.names_programs(form.server):
            message = f"`{form.server}` names no programs of {system.words.server}"
            yield "server", message, f"Write {system.has_programs}, or {change} at the top."
        if form.uri is not None and other.is_of(form.uri):
            message = f"the URI is one of {other.words.server}, not of {system.words.server}"
            yield "uri", message, f"Write {change} at the top, or correct the URI."


def located(base: Path) -> Locate:
    """Return what makes a name absolute: from a directory, ``~`` being the account's home."""

    def locate(given: str) -> str:
        home = str(Path.home())
        expanded = home + given[1:] if given == "~" or given.startswith("~/") else given
        return str((base / expanded).absolute())

    return locate


# A guess: pgbench keeps one CPU busy with a few clients, and its logs of a slice fit into memory.
_AMOUNTS: Final = (("cpu", "1"), ("memory", "512Mi"))
_GENERATOR: Final = PodResources(requests=_AMOUNTS, limits=_AMOUNTS)


def _rates(form: form_target.CostForm | None) -> Rates | None:
    if form is None or form.per_hour is None:
        return None
    plain = Rates(parts=(Part(name=MACHINE, per_hour=form.per_hour),))
    return replace(plain, currency=form.currency) if form.currency is not None else plain


def _service(
    form: form_target.ServiceForm | form_target.TargetForm, port: int | None = None
) -> targets.ClusterService:
    """Return a server in a cluster by its Service, with a port for one that names none."""
    plain = targets.ClusterService(service=form.service or "", secret=form.secret or "")
    return replace(
        plain,
        place=_generator_place(form),
        port=form.port or port or plain.port,
        user_key=form.user_key or plain.user_key,
        password_key=form.password_key or plain.password_key,
    )


def _generator_place(
    form: form_target.ServiceForm | form_target.TargetForm,
) -> targets.KubernetesPlace:
    return targets.KubernetesPlace(
        context=form.context,
        namespace=form.namespace,
        generators=_generators(form.generators or form_target.GeneratorsForm()),
    )


def _generators(form: form_target.GeneratorsForm) -> targets.GeneratorPods:
    given = _pod_resources(form.resources)
    return targets.GeneratorPods(
        image=form.image,
        resources=given if given != PodResources() else _GENERATOR,
        node_selector=_sorted_pairs(form.node_selector),
        tolerations=form.tolerations or targets.GeneratorPods().tolerations,
        same_node=bool(form.same_node),
    )


def _synchronous(form: form_target.SynchronousForm | None) -> targets.Synchronous | None:
    return None if form is None else targets.Synchronous(**form.model_dump(exclude_none=True))


def _pod_resources(form: form_target.ResourcesForm | None) -> PodResources:
    """Return what was given; what was given on one side only is the same on the other."""
    if form is None:
        return PodResources()
    requests, limits = form.requests or form.limits, form.limits or form.requests
    return PodResources(requests=_sorted_pairs(requests), limits=_sorted_pairs(limits))


def _sorted_pairs(mapping: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    """Return a mapping as the model keeps it; empty where there is none."""
    return tuple(sorted((mapping or {}).items()))


def _folded(settings: dict[str, str] | None) -> tuple[tuple[str, str], ...] | None:
    if settings is None:
        return None
    return tuple(sorted((name.lower(), value) for name, value in settings.items()))


# Fields whose value in a file has another form.
_LOCATED: Final = frozenset({"server", "directory", *_FILES})
_READ: Final[Mapping[str, Callable[[form_target.TargetForm], object]]] = {
    "place": _generator_place,
    "inside": lambda form: None if form.kubernetes is None else _service(form.kubernetes),
    "cost": lambda form: _rates(form.cost),
    "resources": lambda form: _pod_resources(form.resources),
    "synchronous": lambda form: _synchronous(form.synchronous),
    "node_selector": lambda form: _sorted_pairs(form.node_selector),
    "replica": lambda form: _folded(form.replica),
    "reset_timeout_s": lambda form: form.reset_timeout,
    "told_memory_bytes": lambda form: (
        None if form.memory is None else wording.parse_bytes(form.memory)
    ),
    "told_cpus": lambda form: None if form.cpus is None else float(form.cpus),
}


def _store_problems(store: Store | None) -> Iterator[Told]:
    if store is None:
        return
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


def _tls(target: form_target.TargetForm) -> Iterator[Told]:
    encrypted = bool(target.tls)
    if target.uri is not None:
        if not targets.REDIS.is_of(target.uri):
            return  # which is told
        encrypted = parse_redis_uri(target.uri).tls
    for key in _FILES:
        if getattr(target, key) is not None and not encrypted:
            hint = "Add `tls: true`, or write the URI with rediss://."
            yield key, f"`{key}` is for a connection with TLS, and this one has none", hint
    if (target.cert is None) != (target.key is None):
        there, lacking = ("cert", "key") if target.cert is not None else ("key", "cert")
        message = f"`{there}` is of no use without `{lacking}`"
        yield there, message, f"Add `{lacking}`."
    if target.tls and target.host is not None and target.host.startswith("/"):
        yield "tls", "a Unix socket is not encrypted", "Remove `tls`, or name a host."


def _cluster_problems(target: form_target.TargetForm) -> Iterator[Told]:
    yield from _existing(target) if target.cluster is not None else _made(target)
    yield from _generator_problems("generators", target.generators)


def _existing(target: form_target.TargetForm) -> Iterator[Told]:
    given = target.model_dump(exclude_none=True)
    for key in sorted(form_target.MAKING_KEYS & set(given)):
        yield (
            key,
            f"`cluster` names a Cluster that is there, and `{key}` is for one that is made",
            f"Remove `{key}`, or `cluster`.",
        )


def _made(target: form_target.TargetForm) -> Iterator[Told]:
    if target.allow_existing:
        hint = "Remove it, or name an existing Cluster with `cluster`."
        yield "allow_existing", "Steelyard makes this Cluster, and may change it", hint
    if target.wal_storage_class is not None and target.wal_storage is None:
        hint = "Give its size with `wal_storage`."
        yield "wal_storage_class", "`wal_storage_class` is for a volume that is not there", hint
    yield from _synchronous_problems(target.synchronous, target.instances or 1)
    yield from _resource_problems("resources", target.resources)


def _redis_pod_problems(target: form_target.TargetForm) -> Iterator[Told]:
    yield from _generator_problems("generators", target.generators)
    given = target.model_dump(exclude_none=True)
    if target.service is None:
        for key in sorted(given.keys() & _OF_A_SERVICE):
            hint = "Remove it, or name an existing Service with `service`."
            yield key, f"Steelyard makes this server, and `{key}` is for one that is there", hint
        yield from _resource_problems("resources", target.resources)
        return
    if not is_service_name(target.service):
        hint = "Use up to 63 small letters, digits and hyphens, a letter first."
        yield "service", f"{shown(target.service)} is no name of a Service", hint
    for key in sorted(given.keys() & _OF_A_STATEFUL_SET):
        yield (
            key,
            f"`service` names a server that is there, and `{key}` is for one that is made",
            f"Remove `{key}`, or `service`.",
        )


def _synchronous_problems(
    asked: form_target.SynchronousForm | None, instances: int
) -> Iterator[Told]:
    if asked is None:
        return
    number = asked.number or targets.Synchronous().number
    if number >= instances:
        standbys = "1 standby" if number == 1 else f"{number} standbys"
        has = "1 instance" if instances == 1 else f"{instances} instances"
        yield (
            "synchronous",
            f"a commit is to wait for {standbys}, and the Cluster has {has}",
            f"Write `instances: {number + 1}` or more.",
        )


def _resource_problems(key: str, asked: form_target.ResourcesForm | None) -> Iterator[Told]:
    if asked is None:
        return
    requests, limits = asked.requests or {}, asked.limits or {}
    for name in sorted(requests.keys() & limits.keys()):
        wanted, most = wording.parse_quantity(requests[name]), wording.parse_quantity(limits[name])
        if wanted > most:
            message = f"it asks for {requests[name]} of {name} and is limited to {limits[name]}"
            yield key, message, "Raise the limit."
    if requests and limits:
        for name in sorted(requests.keys() | limits.keys()):
            if name.startswith("hugepages-") and requests.get(name) != limits.get(name):
                message = f"{name} differs between requests and limits: huge pages are set aside"
                yield key, message, "Write the same amount in both."
    given = requests or limits
    if any(wording.page_bytes_of(name) for name in given) and not {"cpu", "memory"} & given.keys():
        message = "huge pages are asked for without `cpu` or `memory`, which Kubernetes refuses"
        yield key, message, "Add `memory`."


def _generator_problems(key: str, asked: form_target.GeneratorsForm | None) -> Iterator[Told]:
    if asked is not None:
        yield from _resource_problems(key, asked.resources)


def _endpoint_problems(target: form_target.TargetForm) -> Iterator[Told]:
    yield from _reset_problems(target)
    yield from _service_problems(target)


def _reset_problems(target: form_target.TargetForm) -> Iterator[Told]:
    if target.reset_command is None:
        if target.reset_timeout is not None:
            message = "`reset_timeout` is the time of a `reset_command`, and there is none"
            yield "reset_timeout", message, "Add the command, or remove it."
        return
    if target.restore is not None:
        message = f"`reset_command` and `restore: {target.restore}` exclude each other"
        yield "restore", message, "Remove one of the two."


def _service_problems(target: form_target.TargetForm) -> Iterator[Told]:
    asked, given = target.kubernetes, target.model_dump(exclude_none=True)
    if asked is None:
        return
    for key in _WHOLE:
        if key in given:
            hint = "Remove it: the Service and its Secret say where the server is and who connects."
            yield key, f"`kubernetes` and `{key}` exclude each other", hint
    for key in ("service", "secret"):
        if getattr(asked, key) is None:
            example = "{service: db, secret: db-user}"
            yield "kubernetes", f"`{key}` is missing", f"Add it, as in `kubernetes: {example}`."
    yield from _generator_problems("kubernetes", asked.generators)


def _rented_problems(target: form_target.TargetForm, plain: targets.RentedTarget) -> Iterator[Told]:
    for key, example in (("region", "us-east-1"), ("accounts", "['123456789012']")):
        if not getattr(target, key):
            hint = f"Add `{key}: {example}`: nothing is made where nobody meant it."
            yield key, f"`{key}` of a server that is made in an account of AWS is missing", hint
    if target.version is not None and not form_target.is_version(target.version):
        yield "version", f"{shown(target.version)} is no version of PostgreSQL", "Write 16 or 16.4."
    if wording.parse_quantity(target.storage or plain.storage) % wording.GIB:
        yield "storage", f"{target.storage} are no whole GiB", "Write it as 300Gi."


def _instance_problems(target: form_target.TargetForm) -> Iterator[Told]:
    plain = targets.RdsTarget()
    yield from _rented_problems(target, plain)
    size = wording.parse_quantity(target.storage or plain.storage)
    if size % wording.GIB:
        return
    kind = target.storage_type or plain.storage_type
    try:
        volume_of(kind, int(size // wording.GIB), iops=target.iops, mib_s=target.storage_throughput)
    except wording.InputError as error:
        yield "storage_type", error.message, error.hint


def _aurora_problems(target: form_target.TargetForm) -> Iterator[Told]:
    plain = targets.AuroraTarget()
    yield from _rented_problems(target, plain)
    least = plain.min_capacity if target.min_capacity is None else target.min_capacity
    most = plain.max_capacity if target.max_capacity is None else target.max_capacity
    asked = target.min_capacity is not None or target.max_capacity is not None
    if asked and target.instance_class != plain.serverless:
        key = "min_capacity" if target.max_capacity is None else "max_capacity"
        hint = f"Write `instance_class: {plain.serverless}`, or remove it."
        yield key, f"`{key}` is of the class {plain.serverless} alone", hint
    elif least > most or most < 1.0 or (2.0 * least) % 1.0 or (2.0 * most) % 1.0:
        hint = "Write the least first, in steps of 0.5, the most at least 1: `max_capacity: 4`."
        yield "max_capacity", f"{least:g} to {most:g} ACU is no range", hint


_PROBLEMS: Final[
    Mapping[type[targets.Target], Callable[[form_target.TargetForm], Iterator[Told]]]
] = {
    targets.EndpointTarget: _endpoint_problems,
    targets.CloudNativePgTarget: _cluster_problems,
    targets.RdsTarget: _instance_problems,
    targets.AuroraTarget: _aurora_problems,
    targets.RedisEndpointTarget: _tls,
    targets.RedisKubernetesTarget: _redis_pod_problems,
}
