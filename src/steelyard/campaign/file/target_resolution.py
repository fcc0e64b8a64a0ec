"""From what a file says of targets in Kubernetes and of Redis to what the model calls them.

What only a whole Redis target shows is checked on the way: programs and URIs of another system, TLS
by halves.
"""

import math
from typing import Final

from steelyard.campaign.file.form import WorkloadForm
from steelyard.core.experiment import GeneratorName, KeySpace, RedisWork
from steelyard.core.target import (
    EngineName,
    GeneratorPods,
)
from steelyard.core.units import parse_quantity
from steelyard.systems.redis.settings import OTHER_NAMES

_Told = tuple[str, str, str]  # the key below `target`, what is wrong, the way out
_FILES = ("cacert", "cert", "key")


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
