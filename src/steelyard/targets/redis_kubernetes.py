"""Redis servers in a cluster, made by a campaign or there already."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from steelyard.core.experiment import Experiment, GeneratorName
from steelyard.core.kubernetes import DATABASE, SECRET, ObjectRef, SecretRef, campaign_labels
from steelyard.core.places import ClusterService
from steelyard.core.target import RedisKubernetesTarget
from steelyard.core.wording import PreflightError, TargetError
from steelyard.gateways.redis import RedisDoor
from steelyard.places.kubernetes import reaching
from steelyard.places.kubernetes.volumes import require_class
from steelyard.places.protocol import Platform
from steelyard.systems.existing import ServicePlace
from steelyard.systems.protocol import Engine
from steelyard.systems.redis import factory
from steelyard.systems.redis.datasets import fill_by_script
from steelyard.systems.redis.engine import Generator
from steelyard.systems.redis.existing.readiness import ServerState
from steelyard.systems.redis.server import RedisInstallation, find_benchmark
from steelyard.systems.redis.statefulset import own_server
from steelyard.targets import kubernetes_site
from steelyard.targets.endpoint import Asked, Servers, redis_options, redis_servers
from steelyard.targets.kubernetes_site import asked_once, redis_set_of

_DESCRIBED: Final = "redis"  # tells what is asked of an image from what PostgreSQL's are asked


def redis_servers_made(asked: Asked, site: kubernetes_site.KubernetesSite) -> Servers:
    """Return what runs Redis servers that Steelyard makes.

    Raises:
        PreflightError: A storage class or image is not there, or has not what is needed.
    """
    experiment, doors, told = asked.experiment, asked.doors, asked.told
    _check(experiment, site)
    images = _images(experiment, site, told)
    secret = kubernetes_site.secret_of(asked, site, own_server.secret_manifest)
    plan = site.plan_load(
        experiment.targets_of(RedisKubernetesTarget)[experiment.baseline].image,
        away_from=campaign_labels(site.belongings.campaign_id, DATABASE),
    )
    program = redis_generator(plan, asked, site, [image.installation for image in images.values()])
    engine = factory.InImageRedisEngine(experiment, images, program, redis=doors.redis)
    return Servers(engine=engine, platforms=_platforms(asked, site, secret))


def _check(experiment: Experiment, site: kubernetes_site.KubernetesSite) -> None:
    for name, target in experiment.targets_of(RedisKubernetesTarget).items():
        require_class(site.api, target.storage_class)
        kubernetes_site.require_redis_room(target, experiment.workloads)
        campaign_id = site.belongings.campaign_id
        manifests = redis_set_of(
            experiment.configuration(name),
            target,
            campaign_id,
            kubernetes_site.trial_namespace(site),
        )
        site.api.apply(manifests[-1], dry_run=True)


def _images(
    experiment: Experiment, site: kubernetes_site.KubernetesSite, told: Callable[[str], None]
) -> Mapping[str, factory.RedisImage]:
    names = {
        name for configuration in experiment.configurations for name in configuration.asked_folded()
    }
    found: dict[str, factory.RedisImage] = {}
    for image in dict.fromkeys(
        t.image for t in experiment.targets_of(RedisKubernetesTarget).values()
    ):
        configurations = [
            experiment.configuration(name)
            for name, target in experiment.targets_of(RedisKubernetesTarget).items()
            if target.image == image
        ]
        wanted = tuple((t.name, tuple(t.asked().items())) for t in configurations)
        ask = partial(factory.describe_redis_image, image, configurations, sorted(names))
        question = (image, _DESCRIBED, wanted, tuple(sorted(names)))
        found[image] = asked_once(question, site, told, ask=ask)
    return {
        name: found[target.image]
        for name, target in experiment.targets_of(RedisKubernetesTarget).items()
    }


def redis_generator(
    plan: kubernetes_site.LoadPlan,
    asked: Asked,
    site: kubernetes_site.KubernetesSite,
    servers: Sequence[RedisInstallation],
) -> Generator:
    """Return the load generator of this machine.

    A look at a campaign that will run in the cluster takes that of the image that its pod gets it
    from, where this machine has none.

    Raises:
        PreflightError: There is none.
    """
    doors = asked.doors
    found = [replace(each, benchmark=find_benchmark(flavour=each.flavour)) for each in servers]
    try:
        return factory.find_generator(found, doors.processes)
    except PreflightError:
        if asked.runs:
            raise
    ask = partial(factory.generator_in_image, plan.image)
    return asked_once((plan.image, GeneratorName.REDIS_BENCHMARK), site, asked.told, ask=ask)


def _platforms(
    asked: Asked, site: kubernetes_site.KubernetesSite, secret: SecretRef
) -> Mapping[str, Platform]:
    experiment = asked.experiment
    means = kubernetes_site.means_of(asked, site, reaching.redis_knock(asked.doors.redis))
    targets = experiment.targets_of(RedisKubernetesTarget)
    platforms = {
        target: own_server.RedisKubernetesPlatform(
            own_server.StatefulSetOptions(
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


def redis_services(asked: Asked, site: kubernetes_site.KubernetesSite) -> Servers:
    """Return engine and platforms of servers that are there.

    Raises:
        PreflightError: One is not there, or two targets lead to one.
        TargetError: One cannot be reached.
    """
    experiment, doors = asked.experiment, asked.doors
    targets = experiment.targets_of(RedisKubernetesTarget)
    found = {
        target: _find(target.service, site)
        for target in dict.fromkeys(targets.values())
        if target.service is not None  # as of all that are not made
    }
    reach = kubernetes_site.means_of(asked, site, reaching.redis_knock(doors.redis)).reach
    places = {
        target: ServicePlace(each.server, reach, database="") for target, each in found.items()
    }
    for place in places.values():
        _require_open(place, doors.redis)
    baseline = found[targets[experiment.baseline]]
    nodes = dict.fromkeys(node for each in found.values() for node in each.nodes)
    plan = site.plan_load(baseline.behind.image, away_from_nodes=tuple(nodes))

    def engine_of(servers: Mapping[str, ServerState]) -> Engine:
        installations = [factory.installation_of(server) for server in servers.values()]
        generator = redis_generator(plan, asked, site, installations)
        filling = partial(fill_by_script, beside=factory.MARKERS)
        return factory.running_engine(experiment, servers, generator, doors.redis, fill=filling)

    campaign_id = site.belongings.campaign_id
    used = {
        target: (redis_options(experiment, target, campaign_id, entrance=place.entrance()), place)
        for target, place in places.items()
    }
    return redis_servers(asked, targets, used, engine_of, takes_turns=False)


def _find(service: ClusterService, site: kubernetes_site.KubernetesSite) -> reaching.ServerBehind:
    """Return a server; a Secret without a user is the default user's."""
    api, secret = site.api, reaching.secret_of(service, site.namespace)
    if secret.name and secret.user_key == SecretRef(namespace="", name="").user_key:
        ref = ObjectRef(kind=SECRET, name=secret.name, namespace=secret.namespace)
        if secret.user_key not in ((api.read(ref) or {}).get("data") or {}):
            secret = replace(secret, user_key="")
    return reaching.find_server(api, site.namespace, service, secret)


def _require_open(place: ServicePlace, door: RedisDoor) -> None:
    address = place.entrance()
    try:
        door.connect(address).close()
    except TargetError as error:
        secret = "" if place.inside is None else place.inside.secret.name
        said = f"Are user and password right in the Secret {secret}?" if secret else error.hint
        raise TargetError(f"{place.label}: {error.message}", hint=said) from error
