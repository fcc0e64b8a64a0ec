"""What only whole targets in Kubernetes show: keys that exclude each other, and pairs of targets.

Each check yields the key it is about, the fact and the way out; ``merged_targets`` finds the line.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from steelyard.experiment.form_kubernetes import (
    MAKING_KEYS,
    GeneratorsForm,
    ResourcesForm,
    ServiceForm,
    SynchronousForm,
)
from steelyard.experiment.form_target import TargetForm
from steelyard.experiment.kubernetes_values import is_service_name
from steelyard.experiment.suggestions import listed, shown
from steelyard.model.quantities import page_bytes_of, parse_quantity
from steelyard.model.target import Synchronous

CLUSTER: Final = "cloudnative-pg"
REDIS_CLUSTER: Final = "redis-kubernetes"
Told = tuple[str, str, str]  # the key below `target`, what is wrong, the way out
_OF_A_SERVICE: Final = frozenset({"secret", "port", "user_key", "password_key", "allow_existing"})
_OF_A_STATEFUL_SET: Final = frozenset(
    {"image", "storage", "storage_class", "resources", "node_selector", "tolerations"}
)
REDIS_CLUSTER_KEYS: Final = frozenset(
    {"context", "namespace", "generators", "service", *_OF_A_SERVICE, *_OF_A_STATEFUL_SET}
)
_WHOLE: Final = ("uri", "host", "port", "user", "service")  # how a server outside is reached


def is_in_kubernetes(target: TargetForm) -> bool:
    """Return whether a target's server is a pod, and so are its generators."""
    return target.kind in (CLUSTER, REDIS_CLUSTER) or (
        target.kind == "endpoint" and target.kubernetes is not None
    )


def is_provisioned(target: TargetForm) -> bool:
    """Return whether Steelyard makes the Cluster, or the StatefulSet of a Redis server."""
    if target.kind == REDIS_CLUSTER:
        return target.service is None
    return target.kind == CLUSTER and target.cluster is None


def is_here(target: TargetForm) -> bool:
    """Return whether Steelyard starts the server on this machine."""
    return target.kind in (None, "local", "redis-local")


def kubernetes_problems(target: TargetForm) -> Iterator[Told]:
    """Yield what is wrong with one target."""
    if target.kind == CLUSTER:
        yield from _existing(target) if target.cluster is not None else _made(target)
        yield from _generators("generators", target.generators)
    elif target.kind == REDIS_CLUSTER:
        yield from redis_pod_problems(target)
        yield from _generators("generators", target.generators)
    elif target.kind == "endpoint" and target.kubernetes is not None:
        yield from _service(target, target.kubernetes)


def _existing(target: TargetForm) -> Iterator[Told]:
    given = target.model_dump(exclude_none=True)
    for key in sorted(MAKING_KEYS & set(given)):
        yield (
            key,
            f"`cluster` names a Cluster that is there, and `{key}` is for one that is made",
            f"Remove `{key}`, or `cluster`.",
        )


def _made(target: TargetForm) -> Iterator[Told]:
    if target.allow_existing:
        hint = "Remove it, or name an existing Cluster with `cluster`."
        yield "allow_existing", "Steelyard makes this Cluster, and may change it", hint
    if target.wal_storage_class is not None and target.wal_storage is None:
        hint = "Give its size with `wal_storage`."
        yield "wal_storage_class", "`wal_storage_class` is for a volume that is not there", hint
    yield from _synchronous(target.synchronous, target.instances or 1)
    yield from _resources("resources", target.resources)


def redis_pod_problems(target: TargetForm) -> Iterator[Told]:
    """Yield what is wrong with a Redis server in a cluster: made, or there already."""
    given = target.model_dump(exclude_none=True)
    if target.service is None:
        for key in sorted(given.keys() & _OF_A_SERVICE):
            hint = "Remove it, or name an existing Service with `service`."
            yield key, f"Steelyard makes this server, and `{key}` is for one that is there", hint
        yield from _resources("resources", target.resources)
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


def _synchronous(asked: SynchronousForm | None, instances: int) -> Iterator[Told]:
    if asked is None:
        return
    number = asked.number or Synchronous().number
    if number >= instances:
        standbys = "1 standby" if number == 1 else f"{number} standbys"
        has = "1 instance" if instances == 1 else f"{instances} instances"
        yield (
            "synchronous",
            f"a commit is to wait for {standbys}, and the Cluster has {has}",
            f"Write `instances: {number + 1}` or more.",
        )


def _resources(key: str, asked: ResourcesForm | None) -> Iterator[Told]:
    if asked is None:
        return
    requests, limits = asked.requests or {}, asked.limits or {}
    for name in sorted(requests.keys() & limits.keys()):
        wanted, most = parse_quantity(requests[name]), parse_quantity(limits[name])
        if wanted > most:
            message = f"it asks for {requests[name]} of {name} and is limited to {limits[name]}"
            yield key, message, "Raise the limit."
    if requests and limits:
        for name in sorted(requests.keys() | limits.keys()):
            if name.startswith("hugepages-") and requests.get(name) != limits.get(name):
                message = f"{name} differs between requests and limits: huge pages are set aside"
                yield key, message, "Write the same amount in both."
    given = requests or limits
    if any(page_bytes_of(name) for name in given) and not {"cpu", "memory"} & given.keys():
        message = "huge pages are asked for without `cpu` or `memory`, which Kubernetes refuses"
        yield key, message, "Add `memory`."


def _generators(key: str, asked: GeneratorsForm | None) -> Iterator[Told]:
    if asked is not None:
        yield from _resources(key, asked.resources)


def _service(target: TargetForm, asked: ServiceForm) -> Iterator[Told]:
    given = target.model_dump(exclude_none=True)
    for key in _WHOLE:
        if key in given:
            hint = "Remove it: the Service and its Secret say where the server is and who connects."
            yield key, f"`kubernetes` and `{key}` exclude each other", hint
    for key in ("service", "secret"):
        if getattr(asked, key) is None:
            example = "{service: db, secret: db-user}"
            yield "kubernetes", f"`{key}` is missing", f"Add it, as in `kubernetes: {example}`."
    yield from _generators("kubernetes", asked.generators)


def pair_problems(targets: Mapping[str, TargetForm]) -> Iterator[tuple[str, str, str]]:
    """Yield what keeps treatments in Kubernetes apart: the treatment, the fact, the way out."""
    inside = {name: is_in_kubernetes(target) for name, target in targets.items()}
    if not any(inside.values()):
        return
    first = next(iter(targets))
    for name, target in targets.items():
        if inside[name] != inside[first]:
            message = f"the servers of `{first}` and `{name}` are not both in Kubernetes"
            yield name, message, "Put the load on both from the same place."
            return
        for what, message, hint in _differing(targets[first], target):
            yield name, f"`{first}` and `{name}` {message}", f"{hint} ({what})."
            return
    yield from _unnamed_image(targets)


def _differing(one: TargetForm, other: TargetForm) -> Iterator[Told]:
    """Yield what two treatments of one experiment must share."""
    if is_provisioned(one) != is_provisioned(other):
        hint = "Let Steelyard make both, or name an existing one in both"
        if one.kind == REDIS_CLUSTER:
            yield "service", "are a server that is made and one that is there", hint
        else:
            yield "cluster", "are a Cluster that is made and one that is there", hint
    if one.cluster is not None and other.cluster is not None and one.cluster != other.cluster:
        message = (
            f"name two Clusters that are there, {one.cluster} and {other.cluster}: each has a"
            " Secret of its own, and the load generators get user and password from one"
        )
        hint = (
            "Name one Cluster in both and let settings differ; or let Steelyard make both; or make"
            " one Secret with a user that both servers know, and reach them by `kind: endpoint`"
            " with `kubernetes: {service: NAME-rw, secret: ...}`"
        )
        yield "cluster", message, hint
    shared = (_shared(one), _shared(other))
    for place, what in enumerate(("context", "namespace", "generators")):
        if shared[0][place] != shared[1][place]:
            hint = "Write it once, in a treatment that the others extend"
            yield what, f"differ in `{what}`, which all treatments share", hint


def _shared(target: TargetForm) -> tuple[object, ...]:
    place = target.kubernetes or target
    return place.context, place.namespace, place.generators


def _unnamed_image(targets: Mapping[str, TargetForm]) -> Iterator[Told]:
    """Yield that the generators have no image of their own where the databases' differ."""
    made = {n: t for n, t in targets.items() if t.kind == CLUSTER and is_provisioned(t)}
    images = {name: target.image for name, target in made.items()}
    if len(set(images.values())) < 2:
        return
    name, target = next(iter(made.items()))
    if target.generators is None or target.generators.image is None:
        shown = listed(sorted(image or "the operator's default" for image in set(images.values())))
        yield (
            name,
            f"the Clusters have different images ({shown}), and one pgbench drives them all",
            "Name the newest with `generators: {image: ...}` in the target.",
        )
