"""From the sections of a target in Kubernetes to what the model calls them."""

import math
from collections.abc import Mapping
from typing import Final

from steelyard.experiment.form_kubernetes import (
    GeneratorsForm,
    ResourcesForm,
    ServiceForm,
    SynchronousForm,
)
from steelyard.experiment.form_target import TargetForm
from steelyard.model.quantities import parse_quantity
from steelyard.model.target import (
    CloudNativePgTarget,
    ClusterService,
    GeneratorPods,
    KubernetesPlace,
    PodResources,
    Synchronous,
)

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
