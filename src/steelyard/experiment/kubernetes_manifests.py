"""All objects that a campaign makes in a cluster, as manifests: what `--dry-run` prints."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from steelyard.engines.redis import benchmark
from steelyard.engines.redis.server import configuration_text
from steelyard.model.experiment import EngineName, Experiment, GeneratorName, Treatment
from steelyard.model.kubernetes import (
    CAMPAIGN,
    CONFIG_MAP,
    DATABASE,
    GENERATOR,
    NAMESPACE,
    ROLE,
    SECRET,
    Manifest,
    SecretRef,
    campaign_labels,
    campaign_value,
)
from steelyard.model.load import Load
from steelyard.model.target import CloudNativePgTarget, KubernetesPlace, RedisKubernetesTarget
from steelyard.platforms.cloudnative_pg.manifest import cluster_manifest
from steelyard.platforms.kubernetes.credentials import SUPERUSER
from steelyard.platforms.kubernetes.generator_manifest import (
    GeneratorPlan,
    agent_manifest,
    generator_manifest,
)
from steelyard.platforms.kubernetes.naming import object_name
from steelyard.platforms.redis_kubernetes.configuration import pod_configuration
from steelyard.platforms.redis_kubernetes.credentials import secret_manifest
from steelyard.platforms.redis_kubernetes.manifest import (
    ServerAsked,
    ServerStart,
    service_manifests,
    set_manifest,
)

# A guess: pulling images, and Clusters that come up slowly, are no part of the budget.
_MARGIN_S: Final = 3600.0
_BUDGETS: Final = 1.5
PLACEHOLDER: Final = "drawn-when-the-campaign-starts"


def database_labels(campaign_id: str) -> Mapping[str, str]:
    """Return the labels by which a campaign's databases are told from all other pods."""
    return {CAMPAIGN: campaign_value(campaign_id), ROLE: DATABASE}


def deadline_s(experiment: Experiment, long_runs_s: float | None = None) -> int:
    """Return after how long the cluster ends a campaign's pods by itself: well after its end.

    Args:
        experiment: With its budget.
        long_runs_s: What the runs after the last block may take; None: their least length.
    """
    runs = len(experiment.treatments) * len(experiment.workloads)
    long_s = runs * (experiment.sustained_s or 0.0) if long_runs_s is None else long_runs_s
    return round(_BUDGETS * (experiment.stop.budget_s + long_s) + _MARGIN_S)


def generator_plan(
    experiment: Experiment, place: KubernetesPlace, image: str, secret: SecretRef
) -> GeneratorPlan:
    """Return what an experiment's load generators are, but for what they keep away from."""
    return GeneratorPlan(
        place=place,
        image=place.generators.image or image,
        number=max(_pods(load, experiment.generator) for load in experiment.loads),
        secret=secret,
        deadline_s=deadline_s(experiment),
    )


def _pods(load: Load, generator: GeneratorName) -> int:
    """Return how many pods put a load on: one for each process of the generator."""
    is_benchmark = generator is GeneratorName.REDIS_BENCHMARK
    return benchmark.processes(load) if is_benchmark else load.generators


def redis_set_of(
    treatment: Treatment,
    target: RedisKubernetesTarget,
    campaign_id: str,
    namespace: str,
    *,
    suffix: str = "",
) -> tuple[Manifest, ...]:
    """Return the Services and, last, the StatefulSet of one treatment, with its settings in it."""
    asked = ServerAsked(
        target=target,
        name=object_name(campaign_id, suffix),
        namespace=namespace,
        secret=SecretRef(namespace=namespace, name=object_name(campaign_id)),
        campaign_id=campaign_id,
    )
    start = ServerStart(
        change="first",
        configuration=pod_configuration(configuration_text(treatment.asked())),
        restore=False,
    )
    return (*service_manifests(asked), set_manifest(asked, start))


def cluster_of(
    treatment: Treatment,
    target: CloudNativePgTarget,
    campaign_id: str,
    namespace: str,
    *,
    suffix: str = "",
) -> Manifest:
    """Return the Cluster of one treatment, with its settings in it."""
    return cluster_manifest(
        target,
        name=object_name(campaign_id, suffix),
        namespace=namespace,
        secret=SecretRef(namespace=namespace, name=object_name(campaign_id)),
        settings=treatment.asked(),
        campaign_id=campaign_id,
    )


def campaign_manifests(
    experiment: Experiment, plan: GeneratorPlan, campaign_id: str, *, namespace: str | None
) -> Iterator[Manifest]:
    """Yield what a campaign makes, in the order in which it does; of servers one per treatment.

    Args:
        experiment: Whose servers are made.
        plan: Of its generators.
        campaign_id: In names and labels.
        namespace: That is there already; None: one of the campaign's own is made, too.
    """
    name = object_name(campaign_id)
    makes, namespace = namespace is None, namespace or name
    if makes:
        yield _labelled(
            {"apiVersion": "v1", "kind": NAMESPACE.name, "metadata": {"name": namespace}},
            campaign_id,
        )
    anchor: Manifest = {
        "apiVersion": CONFIG_MAP.api_version,
        "kind": CONFIG_MAP.name,
        "metadata": {"name": name, "namespace": namespace},
        "data": {"campaign": campaign_id},
    }
    yield _labelled(anchor, campaign_id)
    if experiment.made_targets:
        secret = SecretRef(namespace=namespace, name=name)
        yield _labelled(_secret(secret, experiment.engine), campaign_id)
        plan = replace(plan, secret=secret, away_from=database_labels(campaign_id))
    agent = object_name(campaign_id, "agent")
    yield _labelled(_inside(agent_manifest(agent), namespace), campaign_id)
    for number in range(plan.number):
        pod = generator_manifest(
            plan,
            name=object_name(campaign_id, f"generator-{number}"),
            agent=agent,
            campaign_id=campaign_id,
        )
        yield _labelled(_inside(pod, namespace), campaign_id, GENERATOR)
    for number, (treatment, target) in enumerate(experiment.made_targets.items(), 1):
        asked, suffix = experiment.treatment(treatment), f"treatment-{number}"
        if isinstance(target, RedisKubernetesTarget):
            yield from redis_set_of(asked, target, campaign_id, namespace, suffix=suffix)
        else:
            yield cluster_of(asked, target, campaign_id, namespace, suffix=suffix)


def _secret(ref: SecretRef, engine: EngineName) -> Manifest:
    if engine is EngineName.REDIS:
        return secret_manifest(ref, PLACEHOLDER)
    return {
        "apiVersion": SECRET.api_version,
        "kind": SECRET.name,
        "metadata": {"name": ref.name, "namespace": ref.namespace},
        "type": "kubernetes.io/basic-auth",
        "stringData": {"username": SUPERUSER, "password": PLACEHOLDER},
    }


def _inside(manifest: Manifest, namespace: str) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}


def _labelled(manifest: Manifest, campaign_id: str, role: str = "") -> Manifest:
    labels = campaign_labels(campaign_id, role)
    return {**manifest, "metadata": {**manifest["metadata"], "labels": labels}}
