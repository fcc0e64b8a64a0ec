"""Redis servers that a campaign makes in a cluster, and the load generators beside them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from steelyard.engines.redis.engine import Generator
from steelyard.engines.redis.in_image import (
    InImageRedisEngine,
    RedisImage,
    describe_redis_image,
    generator_in_image,
)
from steelyard.experiment.kubernetes_asked import Asked, Placed
from steelyard.experiment.kubernetes_generators import Generators, generators_of
from steelyard.experiment.kubernetes_images import asked_once
from steelyard.experiment.kubernetes_manifests import (
    database_labels,
    generator_plan,
    redis_set_of,
)
from steelyard.experiment.kubernetes_site import KubernetesSite, trial_namespace
from steelyard.experiment.redis_volume_room import require_redis_room
from steelyard.gateways.clock import Clock
from steelyard.model.experiment import Experiment
from steelyard.model.kubernetes import SecretRef
from steelyard.platforms.kubernetes.claims import require_class
from steelyard.platforms.kubernetes.generator_manifest import NO_CREDENTIALS
from steelyard.platforms.kubernetes.reaching import Reach, redis_knock
from steelyard.platforms.kubernetes.sight import LoadPods
from steelyard.platforms.platform import Platform
from steelyard.platforms.redis_kubernetes.credentials import make_redis_secret
from steelyard.platforms.redis_kubernetes.platform import (
    RedisKubernetesPlatform,
    RedisMeans,
    RedisOptions,
)

_DESCRIBED: Final = "redis"  # tells what is asked of an image from what PostgreSQL's are asked


def redis_servers_made(asked: Asked, site: KubernetesSite) -> Placed:
    """Return what runs Redis servers that Steelyard makes.

    Raises:
        PreflightError: A storage class or image is not there, or has not what is needed.
    """
    experiment, doors, told = asked.experiment, asked.doors, asked.told
    _check(experiment, site)
    images = _images(experiment, site, doors.clock, told)
    secret = _secret(asked, site)
    baseline = experiment.redis_in_kubernetes[experiment.baseline]
    plan = replace(
        generator_plan(experiment, site.place, baseline.image, secret),
        variables=NO_CREDENTIALS,
        away_from=database_labels(site.belongings.campaign_id),
    )
    site.plan = plan
    program = redis_generator(experiment, plan.image, site, doors.clock, told)
    generators = generators_of(plan, site, doors.clock, told)
    if asked.runs:
        generators.make(site, told)
    else:
        generators.pods.require_room()
    engine = InImageRedisEngine(experiment, images, program, redis=doors.redis)
    return Placed(engine=engine, platforms=_platforms(asked, site, generators, secret), site=site)


def _check(experiment: Experiment, site: KubernetesSite) -> None:
    """Look for what can be known to fail before a server is made.

    Raises:
        PreflightError: There is no such storage class, no room in the volume, or a quota or policy
            refuses the set.
        InputError: The cluster is too old to know a field of the set.
    """
    for name, target in experiment.redis_in_kubernetes.items():
        require_class(site.api, target.storage_class)
        require_redis_room(target, experiment.workloads)
        campaign_id = site.belongings.campaign_id
        manifests = redis_set_of(
            experiment.treatment(name), target, campaign_id, trial_namespace(site)
        )
        site.api.apply(manifests[-1], dry_run=True)


def _images(
    experiment: Experiment, site: KubernetesSite, clock: Clock, told: Callable[[str], None]
) -> Mapping[str, RedisImage]:
    """Return what the image of each treatment's server says; each image is asked once."""
    names = {name for treatment in experiment.treatments for name in treatment.asked_folded()}
    found: dict[str, RedisImage] = {}
    for image in dict.fromkeys(t.image for t in experiment.redis_in_kubernetes.values()):
        treatments = [
            experiment.treatment(name)
            for name, target in experiment.redis_in_kubernetes.items()
            if target.image == image
        ]
        wanted = tuple((t.name, tuple(t.asked().items())) for t in treatments)
        ask = partial(describe_redis_image, image, treatments, sorted(names))
        question = (image, _DESCRIBED, wanted, tuple(sorted(names)))
        found[image] = asked_once(question, site, clock, told, ask=ask)
    return {name: found[target.image] for name, target in experiment.redis_in_kubernetes.items()}


def redis_generator(
    experiment: Experiment,
    image: str,
    site: KubernetesSite,
    clock: Clock,
    told: Callable[[str], None],
) -> Generator:
    """Return the load generator of the generators' image.

    Raises:
        PreflightError: It has none.
    """
    ask = partial(generator_in_image, experiment.generator, image)
    return asked_once((image, experiment.generator), site, clock, told, ask=ask)


def _secret(asked: Asked, site: KubernetesSite) -> SecretRef:
    if asked.runs:
        return make_redis_secret(site.belongings)
    return SecretRef(namespace=site.namespace, name=site.belongings.name())


def redis_reach(asked: Asked, site: KubernetesSite) -> Reach:
    """Return the ways to Redis servers, which close with the site."""
    doors = asked.doors
    reach = Reach(site.api, redis_knock(doors.redis), doors.clock)
    site.closing.append(reach.close)
    return reach


def load_pods(generators: Generators) -> LoadPods:
    """Return the generators' pods, to be watched."""
    return LoadPods(
        pods=lambda: generators.pods.pods, start_skew=lambda: generators.processes.last_skew
    )


def _platforms(
    asked: Asked, site: KubernetesSite, generators: Generators, secret: SecretRef
) -> Mapping[str, Platform]:
    """Return the platform of each treatment; treatments with equal targets share one."""
    experiment, doors = asked.experiment, asked.doors
    means = RedisMeans(
        api=site.api,
        processes=generators.processes,
        load=load_pods(generators),
        reach=redis_reach(asked, site),
        belongings=site.belongings,
        door=doors.redis,
        clock=doors.clock,
        told=asked.told,
    )
    targets = experiment.redis_in_kubernetes
    platforms = {
        target: RedisKubernetesPlatform(
            RedisOptions(
                target=target,
                campaign_id=site.belongings.campaign_id,
                namespace=site.namespace,
                secret=secret,
                provisions=experiment.is_made_anew,
            ),
            asked.ledger,
            means,
        )
        for target in dict.fromkeys(targets.values())
    }
    return {name: platforms[target] for name, target in targets.items()}
