"""From what a file says of targets in Kubernetes and of Redis to what the model calls them.

What only a whole Redis target shows is checked on the way: programs and URIs of another system, TLS
by halves.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from steelyard.campaign.file.form import WorkloadForm
from steelyard.campaign.file.form_target import (
    REDIS_SERVERS,
    REDIS_TARGETS,
    GeneratorsForm,
    ResourcesForm,
    ServiceForm,
    SynchronousForm,
    TargetForm,
    is_version,
)
from steelyard.core.experiment import EngineName, GeneratorName, KeySpace, RedisWork
from steelyard.core.redis import DEFAULT_PORT, is_redis_uri, parse_redis_uri
from steelyard.core.spelling import listed
from steelyard.core.target import (
    CloudNativePgTarget,
    ClusterService,
    GeneratorPods,
    KubernetesPlace,
    PodResources,
    RedisEndpointTarget,
    RedisKubernetesTarget,
    RedisLocalTarget,
    RedisTarget,
    Synchronous,
)
from steelyard.core.units import parse_quantity
from steelyard.systems.redis.settings import OTHER_NAMES

_Told = tuple[str, str, str]  # the key below `target`, what is wrong, the way out
_FILES = ("cacert", "cert", "key")


def redis_target_problems(target: TargetForm) -> Iterator[_Told]:
    """Yield what is of the wrong database system, and what is wrong with the way to the server."""
    kind = target.kind or "local"
    redis = kind in REDIS_TARGETS
    if target.bin is not None and redis == _is_postgres(target.bin):
        hint = f"Write {listed(REDIS_SERVERS)}, or a directory with a `/`."
        if not redis:
            hint = "Use `kind: redis-local`, or a version of PostgreSQL."
        yield "bin", f"`{target.bin}` names no programs of the target `{kind}`", hint
    if target.uri is not None and redis != is_redis_uri(target.uri):
        other = "endpoint" if redis else "redis-endpoint"
        message = f"the URI is one of the target `{other}`, and this is `{kind}`"
        yield "uri", message, f"Use `kind: {other}`, or correct the URI."
    elif kind == "redis-endpoint":
        yield from _tls(target)


def _is_postgres(programs: str) -> bool | None:
    """Return whose programs these are; None: a directory does not say."""
    if programs in REDIS_SERVERS:
        return False
    return True if programs == "embedded" or is_version(programs) else None


def _tls(target: TargetForm) -> Iterator[_Told]:
    encrypted = bool(target.tls)
    if target.uri is not None:
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


# A guess: pgbench keeps one CPU busy with a few clients, and its logs of a slice fit into memory.
_AMOUNTS: Final = (("cpu", "1"), ("memory", "512Mi"))
_GENERATOR: Final = PodResources(requests=_AMOUNTS, limits=_AMOUNTS)


def cluster_target(form: TargetForm) -> CloudNativePgTarget:
    """Return the Cluster that a target asks for, or names."""
    plain = CloudNativePgTarget()
    return CloudNativePgTarget(
        place=generator_place(form.context, form.namespace, form.generators),
        cluster=form.cluster,
        allow_existing=bool(form.allow_existing),
        image=form.image,
        instances=form.instances or plain.instances,
        storage=form.storage or plain.storage,
        storage_class=form.storage_class,
        wal_storage=form.wal_storage,
        wal_storage_class=form.wal_storage_class,
        resources=pod_resources(form.resources),
        synchronous=None if form.synchronous is None else _synchronous(form.synchronous),
        node_selector=sorted_pairs(form.node_selector),
        tolerations=form.tolerations or plain.tolerations,
        affinity=form.affinity or plain.affinity,
        burst_lasts_s=form.burst_lasts,
    )


def cluster_service(form: ServiceForm) -> ClusterService:
    """Return the server that a Service and a Secret lead to."""
    service, secret = form.service or "", form.secret or ""
    plain = ClusterService(service=service, secret=secret)
    return ClusterService(
        place=generator_place(form.context, form.namespace, form.generators),
        service=service,
        port=form.port or plain.port,
        secret=secret,
        user_key=form.user_key or plain.user_key,
        password_key=form.password_key or plain.password_key,
    )


def generator_place(
    context: str | None, namespace: str | None, generators: GeneratorsForm | None
) -> KubernetesPlace:
    """Return where in which cluster servers and generators are."""
    return KubernetesPlace(
        context=context,
        namespace=namespace,
        generators=_generators(generators or GeneratorsForm()),
    )


def _generators(form: GeneratorsForm) -> GeneratorPods:
    given = pod_resources(form.resources)
    return GeneratorPods(
        image=form.image,
        resources=given if given != PodResources() else _GENERATOR,
        node_selector=sorted_pairs(form.node_selector),
        tolerations=form.tolerations or GeneratorPods().tolerations,
        same_node=bool(form.same_node),
    )


def _synchronous(form: SynchronousForm) -> Synchronous:
    plain = Synchronous()
    return Synchronous(
        method=form.method or plain.method,
        number=form.number or plain.number,
        data_durability=form.data_durability or plain.data_durability,
    )


def pod_resources(form: ResourcesForm | None) -> PodResources:
    """Return what was given; what was given on one side only is the same on the other."""
    if form is None:
        return PodResources()
    requests, limits = form.requests or form.limits, form.limits or form.requests
    return PodResources(requests=sorted_pairs(requests), limits=sorted_pairs(limits))


def sorted_pairs(mapping: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    """Return a mapping as the model keeps it; empty where there is none."""
    return tuple(sorted((mapping or {}).items()))


def generator_cpus(generators: GeneratorPods) -> int:
    """Return how many threads of one generator's pod have a CPU of their own, at least 1."""
    limits = dict(generators.resources.limits or generators.resources.requests)
    cpus = limits.get("cpu")
    return max(1, math.floor(parse_quantity(cpus))) if cpus is not None else 1


GENERATORS: Final = {
    EngineName.POSTGRES: GeneratorName.PGBENCH,
    EngineName.REDIS: GeneratorName.REDIS_BENCHMARK,
}

_ENOUGH_OF_REDIS_BENCHMARK: Final = 2  # seen on 2 CPUs: one was at 96 to 99 % in GET and PING


def redis_target(form: TargetForm, located: Callable[[str], str]) -> RedisTarget:
    """Return the Redis server of a target; ``located`` makes names of files absolute."""
    if form.kind == "redis-kubernetes":
        return _pod(form)
    return _endpoint(form, located) if form.kind == "redis-endpoint" else _local(form, located)


def _local(form: TargetForm, located: Callable[[str], str]) -> RedisLocalTarget:
    plain = RedisLocalTarget()
    programs = form.bin or plain.bin
    return RedisLocalTarget(
        bin=located(programs) if "/" in programs or programs.startswith("~") else programs,
        directory=located(form.directory) if form.directory else None,
        port=form.port,
        connection=form.connection or plain.connection,
        run_as=form.run_as,
        restore=form.restore,
        replica=None if form.replica is None else _folded(form.replica),
        burst_lasts_s=form.burst_lasts,
    )


def _folded(settings: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name.lower(), value) for name, value in settings.items()))


def _endpoint(form: TargetForm, located: Callable[[str], str]) -> RedisEndpointTarget:
    return RedisEndpointTarget(
        uri=form.uri,
        host=form.host,
        port=form.port,
        user=form.user,
        db=form.db,
        tls=bool(form.tls),
        cacert=None if form.cacert is None else located(form.cacert),
        cert=None if form.cert is None else located(form.cert),
        key=None if form.key is None else located(form.key),
        allow_existing=bool(form.allow_existing),
        restart_command=form.restart_command or (),
        burst_lasts_s=form.burst_lasts,
    )


def _pod(form: TargetForm) -> RedisKubernetesTarget:
    plain = RedisKubernetesTarget()
    place = generator_place(form.context, form.namespace, form.generators)
    service = None
    if form.service is not None:
        names = ClusterService(service=form.service, secret=form.secret or "")
        service = ClusterService(
            place=place,
            service=form.service,
            port=form.port or DEFAULT_PORT,
            secret=form.secret or "",
            user_key=form.user_key or names.user_key,
            password_key=form.password_key or names.password_key,
        )
    return RedisKubernetesTarget(
        place=place,
        service=service,
        allow_existing=bool(form.allow_existing),
        image=form.image or plain.image,
        storage=form.storage or plain.storage,
        storage_class=form.storage_class,
        resources=pod_resources(form.resources),
        node_selector=sorted_pairs(form.node_selector),
        tolerations=form.tolerations or plain.tolerations,
        burst_lasts_s=form.burst_lasts,
    )


def redis_work(form: WorkloadForm) -> RedisWork:
    """Return what a workload asks of Redis."""
    plain = KeySpace()
    return RedisWork(
        space=KeySpace(
            keys=form.keys or plain.keys,
            loaded=form.loaded or plain.loaded,
            value_bytes=form.value_bytes or plain.value_bytes,
        ),
        command=form.command or (),
    )


def one_test(builtin: str | None, generator: GeneratorName) -> str | None:
    """Return the one test of the generator that a word stands for: ``ping`` is ``ping_mbulk``."""
    if builtin is None or generator is GeneratorName.PGBENCH:
        return builtin
    return OTHER_NAMES.get(builtin, builtin)


def generator_threads(generator: GeneratorName, clients: int, cpus: int, processes: int) -> int:
    """Return the threads of ``threads: auto``, of all processes of the generator together.

    One of redis-benchmark is about as fast as the thread of the server that answers it, and would
    be measured itself: each process of the generator has two where clients and CPUs are there.
    """
    most = min(clients, cpus)
    if generator is GeneratorName.PGBENCH:
        return most
    return max(processes, min(most, _ENOUGH_OF_REDIS_BENCHMARK * processes))
