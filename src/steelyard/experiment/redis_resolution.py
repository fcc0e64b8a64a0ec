"""From what a file says of Redis to what the model calls it."""

from collections.abc import Callable
from typing import Final

from steelyard.engines.redis.memtier import FIRST_KEY
from steelyard.engines.redis.words import OTHER_NAMES
from steelyard.experiment.form import WorkloadForm
from steelyard.experiment.form_target import TargetForm
from steelyard.experiment.kubernetes_resolution import (
    generator_place,
    pod_resources,
    sorted_pairs,
)
from steelyard.model.experiment import EngineName, GeneratorName
from steelyard.model.redis_uri import DEFAULT_PORT
from steelyard.model.target import (
    ClusterService,
    RedisEndpointTarget,
    RedisKubernetesTarget,
    RedisLocalTarget,
    RedisTarget,
)
from steelyard.model.workload import KeySpace, RedisWork

DEFAULTS: Final = {
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


def redis_work(
    form: WorkloadForm, generator: GeneratorName = GeneratorName.REDIS_BENCHMARK
) -> RedisWork:
    """Return what a workload asks of Redis, with keys that the generator can name."""
    plain = KeySpace()
    return RedisWork(
        space=KeySpace(
            keys=form.keys or plain.keys,
            loaded=form.loaded or plain.loaded,
            value_bytes=form.value_bytes or plain.value_bytes,
            first=FIRST_KEY if generator is GeneratorName.MEMTIER else plain.first,
        ),
        command=form.command or (),
        read_share=form.read_share,
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
    memtier gives every thread as many clients, so the number of threads divides that of clients.
    """
    most = min(clients, cpus)
    if generator is GeneratorName.REDIS_BENCHMARK:
        return max(processes, min(most, _ENOUGH_OF_REDIS_BENCHMARK * processes))
    if generator is GeneratorName.PGBENCH:
        return most
    return next(count for count in range(most, 0, -1) if clients % count == 0)
