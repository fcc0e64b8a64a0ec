"""What a campaign makes in a cluster, as manifests, and what it is told by images.

Each image is asked once in a process what its programs say. The manifests are what ``--dry-run``
prints.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from steelyard.core import kubernetes as k8s
from steelyard.core.experiment import Configuration, Experiment
from steelyard.core.target import CloudNativePgTarget, EngineName, RedisKubernetesTarget
from steelyard.core.wording import PreflightError
from steelyard.gateways.process import Runner
from steelyard.places.kubernetes.belongings import Belongings, object_name
from steelyard.places.kubernetes.made_server import MadeMeans
from steelyard.places.kubernetes.pods import image_pod
from steelyard.places.kubernetes.reaching import Knock, Reach, make_secret, superuser_secret
from steelyard.systems.postgres.cloudnative_pg.own_cluster import cluster_manifest
from steelyard.systems.postgres.factory import CLIENTS, ImagePrograms, describe_image, find_in_image
from steelyard.systems.postgres.server import Installation, find_clients
from steelyard.systems.redis.server import configuration_text
from steelyard.systems.redis.statefulset import own_server
from steelyard.targets.endpoint import Asked
from steelyard.targets.kubernetes_site import KubernetesSite, LoadPlan

# A preflight and the campaign after it ask the same: by cluster, image, and what is asked of it.
_KNOWN: Final[dict[tuple[object, ...], Any]] = {}
AnswerT = TypeVar("AnswerT")


def means_of(asked: Asked, site: KubernetesSite, knock: Knock) -> MadeMeans:
    """Return what servers in a cluster need; the ways to them close with the site."""
    reach = Reach(site.api, knock, asked.doors.clock)
    site.closing.append(reach.close)
    return MadeMeans(
        api=site.api,
        doors=asked.doors,
        reach=reach,
        belongings=site.belongings,
        told=asked.told,
    )


def secret_of(
    asked: Asked,
    site: KubernetesSite,
    manifest: Callable[[k8s.SecretRef, str], k8s.Manifest] = superuser_secret,
) -> k8s.SecretRef:
    """Return the campaign's Secret, made now for a run."""
    if asked.runs:
        return make_secret(site.belongings, manifest)
    return k8s.SecretRef(namespace=site.namespace, name=site.belongings.name())


def describe_images(
    experiment: Experiment,
    images: Mapping[str, str],
    site: KubernetesSite,
    told: Callable[[str], None],
) -> Mapping[str, ImagePrograms]:
    """Return what each image of the servers says of an experiment's settings.

    Raises:
        PreflightError: An image is not found, or is none of PostgreSQL.
    """
    found: dict[str, ImagePrograms] = {}
    for image in dict.fromkeys(images.values()):
        configurations = [t for t in experiment.configurations if images.get(t.name) == image]
        asked = tuple((t.name, tuple(t.asked().items())) for t in configurations)
        ask = partial(describe_image, image, configurations)
        found[image] = asked_once((image, asked), site, told, ask=ask)
    return found


def asked_once(
    question: Sequence[object],
    site: KubernetesSite,
    told: Callable[[str], None],
    *,
    ask: Callable[[Runner], AnswerT],
) -> AnswerT:
    """Return what a pod of an image answers, or answered before; it is there for a moment.

    A question begins with the image, and goes on with what tells its answer from others.
    """
    key = (site.api.server, *question)
    if key not in _KNOWN:
        belongings = _somewhere(site)
        try:
            with image_pod(belongings, str(question[0]), site.clock, told) as processes:
                _KNOWN[key] = ask(processes)
        finally:
            if belongings is not site.belongings:
                belongings.remove_all()
    answer: AnswerT = _KNOWN[key]
    return answer


def _somewhere(site: KubernetesSite) -> Belongings:
    """Return where a pod can be made now.

    Before a campaign its own namespace is not there; then the context's serves, as for
    `kubectl run`, where the account may use it.
    """
    if site.is_opened or not site.makes_namespace:
        return site.belongings
    if not site.api.allowed("create", k8s.POD, site.api.namespace):
        site.open()
        return site.belongings
    return site.elsewhere(site.api.namespace)


def programs_of(
    plan: LoadPlan,
    known: Mapping[str, ImagePrograms],
    asked: Asked,
    site: KubernetesSite,
    *,
    tls: bool,
) -> Installation:
    """Return the client programs that drive the servers: those of this machine.

    Where this machine has none, a look at a campaign that will run in the cluster takes those of
    the image that its pod gets them from.

    Args:
        plan: With that image.
        known: What is known of images.
        asked: What is assembled.
        site: The cluster.
        tls: They have to speak it.

    Raises:
        PreflightError: There are none.
    """
    try:
        return find_clients(asked.doors.processes, tls=tls)
    except PreflightError:
        if asked.runs:
            raise
    if plan.image not in known:
        return asked_once(
            (plan.image, CLIENTS),
            site,
            asked.told,
            ask=lambda inside: find_in_image(plan.image, inside, CLIENTS),
        )
    return known[plan.image].installation


# A guess: pulling images, and Clusters that come up slowly, are no part of the budget.
_MARGIN_S: Final = 3600.0
_BUDGETS: Final = 1.5
PLACEHOLDER: Final = "drawn-when-the-campaign-starts"


def deadline_s(experiment: Experiment, long_runs_s: float | None = None) -> int:
    """Return after how long the cluster ends a campaign's pods by itself: well after its end.

    Args:
        experiment: With its budget.
        long_runs_s: What the runs after the last block may take; None: their least length.
    """
    runs = len(experiment.configurations) * len(experiment.workloads)
    long_s = runs * (experiment.sustained_s or 0.0) if long_runs_s is None else long_runs_s
    return round(_BUDGETS * (experiment.stop.budget_s + long_s) + _MARGIN_S)


def redis_set_of(
    configuration: Configuration,
    target: RedisKubernetesTarget,
    campaign_id: str,
    namespace: str,
    *,
    suffix: str = "",
) -> tuple[k8s.Manifest, ...]:
    """Return the Services and, last, the StatefulSet of a configuration, with its settings."""
    asked = own_server.ServerAsked(
        target=target,
        name=object_name(campaign_id, suffix),
        namespace=namespace,
        secret=k8s.SecretRef(namespace=namespace, name=object_name(campaign_id)),
        campaign_id=campaign_id,
    )
    start = own_server.ServerStart(
        change="first",
        configuration=own_server.pod_configuration(configuration_text(configuration.asked())),
        restore=False,
    )
    return (*own_server.service_manifests(asked), own_server.set_manifest(asked, start))


def cluster_of(
    configuration: Configuration,
    target: CloudNativePgTarget,
    campaign_id: str,
    namespace: str,
    *,
    suffix: str = "",
) -> k8s.Manifest:
    """Return the Cluster of one configuration, with its settings in it."""
    return cluster_manifest(
        target,
        name=object_name(campaign_id, suffix),
        namespace=namespace,
        secret=k8s.SecretRef(namespace=namespace, name=object_name(campaign_id)),
        settings=configuration.asked(),
        campaign_id=campaign_id,
    )


def campaign_manifests(
    experiment: Experiment, campaign_id: str, *, namespace: str | None
) -> Iterator[k8s.Manifest]:
    """Yield what a campaign makes, in the order in which it does; of servers one per configuration.

    Args:
        experiment: Whose servers are made.
        campaign_id: In names and labels.
        namespace: That is there already; None: one of the campaign's own is made, too.
    """
    name = object_name(campaign_id)
    makes, namespace = namespace is None, namespace or name
    if makes:
        yield _labelled(k8s.NAMESPACE.manifest(namespace), campaign_id)
    data = {"campaign": campaign_id}
    anchor = k8s.CONFIG_MAP.manifest(name, namespace=namespace, data=data)
    yield _labelled(anchor, campaign_id)
    if experiment.made_targets:
        secret = k8s.SecretRef(namespace=namespace, name=name)
        yield _labelled(_secret(secret, experiment.engine), campaign_id)
    for number, (configuration, target) in enumerate(experiment.made_targets.items(), 1):
        asked, suffix = experiment.configuration(configuration), f"configuration-{number}"
        if isinstance(target, RedisKubernetesTarget):
            yield from redis_set_of(asked, target, campaign_id, namespace, suffix=suffix)
        else:
            yield cluster_of(asked, target, campaign_id, namespace, suffix=suffix)


def _secret(ref: k8s.SecretRef, engine: EngineName) -> k8s.Manifest:
    if engine is EngineName.REDIS:
        return own_server.secret_manifest(ref, PLACEHOLDER)
    return superuser_secret(ref, PLACEHOLDER)


def _labelled(manifest: k8s.Manifest, campaign_id: str) -> k8s.Manifest:
    labels = k8s.campaign_labels(campaign_id)
    return {**manifest, "metadata": {**manifest["metadata"], "labels": labels}}
