"""Redis servers that are in a cluster already, behind Services, under load from pods."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from steelyard.engines.redis.endpoint import MARKERS, RedisEndpointEngine, running_engine
from steelyard.engines.redis.engine import Generator
from steelyard.engines.redis.scripted_fill import fill_by_script
from steelyard.experiment.kubernetes_asked import Asked, Placed
from steelyard.experiment.kubernetes_generators import Generators, generators_of
from steelyard.experiment.kubernetes_manifests import generator_plan
from steelyard.experiment.kubernetes_redis import load_pods, redis_generator, redis_reach
from steelyard.experiment.kubernetes_site import KubernetesSite
from steelyard.experiment.redis_endpoints import redis_options, require_different, running
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.gateways.redis import RedisDoor
from steelyard.model.errors import PreflightError, TargetError
from steelyard.model.experiment import Experiment
from steelyard.model.kubernetes import SECRET, ObjectRef, SecretRef
from steelyard.model.outside import ServerInCluster
from steelyard.model.target import ClusterService, RedisKubernetesTarget
from steelyard.platforms.endpoint.service_place import ServiceMeans, ServicePlace
from steelyard.platforms.kubernetes.generator_manifest import NO_CREDENTIALS, GeneratorPlan
from steelyard.platforms.kubernetes.reaching import PodBehind, Reach, nodes_of, pod_behind
from steelyard.platforms.kubernetes.sight import LoadPods
from steelyard.platforms.redis_endpoint.connection import RedisMeans
from steelyard.platforms.redis_endpoint.platform import RedisEndpointPlatform

Targets = Mapping[RedisKubernetesTarget, "_Found"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A server behind a Service, as it was found.

    Attributes:
        nodes: Of all pods that the Service selects.
    """

    server: ServerInCluster
    behind: PodBehind
    nodes: tuple[str, ...]

    def place(self, api: KubernetesApi, reach: Reach, asked: Asked, load: LoadPods) -> ServicePlace:
        """Return its place; ``load`` are the pods that put the load on."""
        means = ServiceMeans(api=api, reach=reach, clock=asked.doors.clock, load=load)
        return ServicePlace(self.server, means, database="")


def redis_services(asked: Asked, site: KubernetesSite) -> Placed:
    """Return engine and platforms of servers that are there.

    Raises:
        PreflightError: One is not there, or two targets lead to one.
        TargetError: One cannot be reached.
    """
    experiment, doors = asked.experiment, asked.doors
    targets = experiment.redis_in_kubernetes
    reach = redis_reach(asked, site)
    found = {target: _find(target, site) for target in dict.fromkeys(targets.values())}
    for each in found.values():
        _require_open(each.place(site.api, reach, asked, LoadPods()), doors.redis)
    site.plan = _plan(experiment, site, found)
    program = redis_generator(experiment, site.plan.image, site, doors.clock, asked.told)
    generators = generators_of(site.plan, site, doors.clock, asked.told)
    places = {
        target: each.place(site.api, reach, asked, load_pods(generators))
        for target, each in found.items()
    }
    platforms = {
        target: _platform(asked, site, target, place, generators)
        for target, place in places.items()
    }
    require_different([platform.state for platform in platforms.values()])
    if asked.runs:
        generators.make(site, asked.told)
    else:
        generators.pods.require_room()
    engine = _engine(asked, {n: platforms[t] for n, t in targets.items()}, program)
    by_name = {name: platforms[target] for name, target in targets.items()}
    return Placed(engine=engine, platforms=by_name, site=site)


def _find(target: RedisKubernetesTarget, site: KubernetesSite) -> _Found:
    service, api = target.service, site.api
    assert service is not None  # noqa: S101 - none is made
    namespace = site.namespace
    server = ServerInCluster(
        context="" if api.is_inside else api.context,
        server=api.server,
        namespace=namespace,
        service=service.service,
        port=service.port,
        secret=_secret_of(service, namespace, api),
    )
    return _Found(
        server=server,
        behind=pod_behind(api, service.service, namespace, service.port),
        nodes=nodes_of(api, service.service, namespace),
    )


def _secret_of(service: ClusterService, namespace: str, api: KubernetesApi) -> SecretRef:
    """Return where the password is; a Secret without a user is the default user's."""
    secret = SecretRef(
        namespace=namespace,
        name=service.secret,
        user_key=service.user_key,
        password_key=service.password_key,
    )
    if not service.secret or service.user_key != SecretRef(namespace="", name="").user_key:
        return secret
    kept = api.read(ObjectRef(kind=SECRET, name=service.secret, namespace=namespace)) or {}
    has_user = service.user_key in (kept.get("data") or {})
    return secret if has_user else replace(secret, user_key="")


def _require_open(place: ServicePlace, door: RedisDoor) -> None:
    """Look whether we may come in.

    Raises:
        TargetError: The server cannot be reached, or refuses what the Secret says.
    """
    address = place.entrance()
    try:
        door.connect(address).close()
    except TargetError as error:
        secret = "" if place.inside is None else place.inside.secret.name
        said = f"Are user and password right in the Secret {secret}?" if secret else error.hint
        raise TargetError(f"{place.label}: {error.message}", hint=said) from error


def _plan(experiment: Experiment, site: KubernetesSite, found: Targets) -> GeneratorPlan:
    """Return what the generators are: they keep away from every server.

    Raises:
        PreflightError: No image is known.
    """
    baseline = found[experiment.redis_in_kubernetes[experiment.baseline]]
    plan = generator_plan(experiment, site.place, baseline.behind.image, baseline.server.secret)
    if not plan.image:
        raise PreflightError(
            "which image the server has is not known, and the load generators need one",
            hint="Name one with redis-benchmark with `generators: {image: ...}`.",
        )
    nodes = dict.fromkeys(node for each in found.values() for node in each.nodes)
    return replace(plan, variables=NO_CREDENTIALS, away_from_nodes=tuple(nodes))


def _platform(
    asked: Asked,
    site: KubernetesSite,
    target: RedisKubernetesTarget,
    place: ServicePlace,
    generators: Generators,
) -> RedisEndpointPlatform:
    doors = asked.doors
    campaign_id = site.belongings.campaign_id
    options = redis_options(asked.experiment, target, campaign_id, entrance=place.entrance())
    means = RedisMeans(
        redis=doors.redis,
        processes=generators.processes,
        clock=doors.clock,
        here=doors.processes,
    )
    return RedisEndpointPlatform(options, asked.ledger, means, place)


def _engine(
    asked: Asked, platforms: Mapping[str, RedisEndpointPlatform], program: Generator
) -> RedisEndpointEngine:
    """Return the engine of the servers by treatment."""
    servers = {name: running(platform.state) for name, platform in platforms.items()}
    filling = partial(fill_by_script, beside=MARKERS)
    return running_engine(asked.experiment, servers, program, asked.doors.redis, fill=filling)
