"""Servers that are in a cluster already, Clusters or Services, under load from pods."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from steelyard.engines.postgres.endpoint import EndpointEngine
from steelyard.engines.postgres.factory import Surroundings
from steelyard.engines.postgres.running import RunningServer, read_running
from steelyard.experiment.endpoints import (
    dataset_needs,
    require_different_servers,
    restarts_on,
    settings_on,
)
from steelyard.experiment.kubernetes_asked import Asked, Placed
from steelyard.experiment.kubernetes_generators import Generators, generators_of, programs_of
from steelyard.experiment.kubernetes_manifests import generator_plan
from steelyard.experiment.kubernetes_site import KubernetesSite
from steelyard.model.errors import PreflightError
from steelyard.model.kubernetes import POD, Manifest, ObjectRef, SecretRef
from steelyard.model.outside import ServerInCluster
from steelyard.model.target import CloudNativePgTarget, ClusterService, EndpointTarget, Target
from steelyard.platforms.cloudnative_pg.existing import (
    ExistingCluster,
    ExistingOptions,
    endpoint_of,
    read_cluster,
    secret_of,
)
from steelyard.platforms.cloudnative_pg.options import ClusterMeans
from steelyard.platforms.cloudnative_pg.state import OF_CLUSTER
from steelyard.platforms.endpoint.place import ServerPlace
from steelyard.platforms.endpoint.platform import EndpointOptions, EndpointPlatform
from steelyard.platforms.endpoint.restarting import Means
from steelyard.platforms.endpoint.service_place import ENTRANCE, ServiceMeans, ServicePlace
from steelyard.platforms.kubernetes.generator_manifest import GeneratorPlan
from steelyard.platforms.kubernetes.reaching import Reach, nodes_of, pod_behind, sql_knock
from steelyard.platforms.platform import Platform


class Server(Protocol):
    """One server as it was found; its place needs what reaches it."""

    @property
    def secret(self) -> SecretRef:
        """Return where user and password are."""
        ...

    @property
    def endpoint(self) -> EndpointTarget:
        """Return its target as one of kind endpoint."""
        ...

    @property
    def image(self) -> str:
        """Return the image of its container."""
        ...

    def kept_away(self, plan: GeneratorPlan) -> GeneratorPlan:
        """Return the plan of generators that keep away from it."""
        ...

    def place(self, means: ClusterMeans, *, restarts: bool) -> ServerPlace:
        """Return its place."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cluster:
    """A Cluster of CloudNativePG that is there."""

    options: ExistingOptions
    manifest: Manifest
    secret: SecretRef
    nodes: tuple[str, ...]

    @property
    def endpoint(self) -> EndpointTarget:
        return endpoint_of(self.options, self.secret)

    @property
    def image(self) -> str:
        status, spec = self.manifest.get("status") or {}, self.manifest["spec"]
        return str(status.get("image") or spec.get("imageName") or "")

    def kept_away(self, plan: GeneratorPlan) -> GeneratorPlan:
        labels = {OF_CLUSTER: self.options.ref.name}
        return replace(plan, away_from=labels, away_from_nodes=self.nodes)

    def place(self, means: ClusterMeans, *, restarts: bool) -> ServerPlace:
        options = replace(self.options, restarts=restarts)
        return ExistingCluster(options, means, self.manifest, self.secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Service:
    """A server behind a Service."""

    target: EndpointTarget
    found: ServerInCluster
    image: str
    nodes: tuple[str, ...]

    @property
    def secret(self) -> SecretRef:
        return self.found.secret

    @property
    def endpoint(self) -> EndpointTarget:
        return self.target

    def kept_away(self, plan: GeneratorPlan) -> GeneratorPlan:
        return replace(plan, away_from_nodes=self.nodes)

    def place(self, means: ClusterMeans, *, restarts: bool) -> ServerPlace:  # noqa: ARG002
        reached = ServiceMeans(api=means.api, reach=means.reach, clock=means.clock, load=means.load)
        return ServicePlace(self.found, reached, self.target.dbname or ENTRANCE)


def servers_in_kubernetes(asked: Asked, site: KubernetesSite) -> Placed:
    """Return engine and platforms of servers that are there.

    Raises:
        PreflightError: One is not there, or two targets lead to one server.
        TargetError: One cannot be reached.
    """
    experiment, doors = asked.experiment, asked.doors
    first = _means(asked, site, None)
    targets = {treatment.name: treatment.target for treatment in experiment.treatments}
    found = {target: _find(target, asked, first) for target in dict.fromkeys(targets.values())}
    ways = {
        target: server.place(first, restarts=False).entrance() for target, server in found.items()
    }
    require_different_servers(ways.values(), doors.sql)
    running = {target: read_running(way, doors.sql) for target, way in ways.items()}
    site.plan = _plan(asked, site, found)
    programs = programs_of(site.plan, {}, site, doors.clock, asked.told)
    generators = generators_of(site.plan, site, doors.clock, asked.told)
    if asked.runs:
        generators.make(site, asked.told)
    else:
        generators.pods.require_room()
    engine = EndpointEngine(
        experiment,
        {name: running[target] for name, target in targets.items()},
        programs,
        Surroundings(
            processes=generators.processes,
            sql=doors.sql,
            account=None,
            reach=lambda path, _parts, _label: path,
        ),
    )
    platforms = {
        target: _platform(asked, target, server, running[target], (site, generators, engine))
        for target, server in found.items()
    }
    return Placed(
        engine=engine,
        platforms={name: platforms[target] for name, target in targets.items()},
        site=site,
    )


def _means(asked: Asked, site: KubernetesSite, generators: Generators | None) -> ClusterMeans:
    """Return the gateways; before there are generators those that find a server."""
    doors = asked.doors
    reach = Reach(site.api, sql_knock(doors.sql), doors.clock)
    site.closing.append(reach.close)
    return ClusterMeans(
        api=site.api,
        processes=doors.processes if generators is None else generators.processes,
        generators=tuple if generators is None else lambda: generators.pods.pods,
        start_skew=(lambda: None) if generators is None else lambda: generators.processes.last_skew,
        reach=reach,
        belongings=site.belongings,
        sql=doors.sql,
        clock=doors.clock,
        told=asked.told,
    )


def _find(target: Target, asked: Asked, means: ClusterMeans) -> Server:
    if isinstance(target, CloudNativePgTarget):
        options = ExistingOptions(
            target=target,
            campaign_id=means.belongings.campaign_id,
            namespace=means.belongings.namespace,
            settings=settings_on(asked.experiment, target),
            restarts=False,
        )
        manifest = read_cluster(options, means)
        labels = {OF_CLUSTER: options.ref.name}
        pods = means.api.list(POD, options.namespace, labels)
        nodes = (str(pod["spec"].get("nodeName") or "") for pod in pods)
        return _Cluster(
            options=options,
            manifest=manifest,
            secret=secret_of(manifest, means),
            nodes=tuple(dict.fromkeys(filter(None, nodes))),
        )
    assert isinstance(target, EndpointTarget)  # noqa: S101 - there are no others in a cluster
    assert target.inside is not None  # noqa: S101 - the file was checked
    return _service(target, target.inside, means, settings_on(asked.experiment, target))


def _service(
    target: EndpointTarget, asked: ClusterService, means: ClusterMeans, settings: Sequence[str]
) -> Server:
    api, namespace = means.api, means.belongings.namespace
    behind = pod_behind(api, asked.service, namespace, asked.port)
    place = ObjectRef(kind=POD, name=behind.where.pod, namespace=behind.where.namespace)
    pod = api.read(place) or {"metadata": {}, "spec": {}}
    cluster = (pod["metadata"].get("labels") or {}).get(OF_CLUSTER)
    if cluster is not None and settings:
        raise PreflightError(
            f"the Service {asked.service} leads to the Cluster {cluster} of CloudNativePG, whose"
            " settings are changed by its manifest and not by SQL",
            hint=f"Use `{{kind: cloudnative-pg, cluster: {cluster}, allow_existing: true}}`.",
        )
    return _Service(
        target=target,
        found=ServerInCluster(
            context="" if api.is_inside else api.context,
            server=api.server,
            namespace=namespace,
            service=asked.service,
            port=asked.port,
            secret=SecretRef(
                namespace=namespace,
                name=asked.secret,
                user_key=asked.user_key,
                password_key=asked.password_key,
            ),
        ),
        image=behind.image,
        nodes=nodes_of(api, asked.service, namespace),
    )


def _plan(asked: Asked, site: KubernetesSite, found: Mapping[Target, Server]) -> GeneratorPlan:
    """Return what the generators are: they keep away from every server.

    Raises:
        PreflightError: No image is known, or the servers have different passwords.
    """
    baseline = found[asked.experiment.treatment(asked.experiment.baseline).target]
    if len({server.secret for server in found.values()}) > 1:
        raise PreflightError(
            "the servers of the treatments have different Secrets, and the pods of the load"
            " generators get their password from one",
            hint="Make one Secret with a user that both servers know, and name it with `secret:`"
            " of each `kubernetes:` section.",
        )
    plan = generator_plan(asked.experiment, site.place, baseline.image, baseline.secret)
    if not plan.image:
        raise PreflightError(
            "which image the server has is not known, and the load generators need one",
            hint="Name one with pgbench with `generators: {image: ...}`.",
        )
    plans = [server.kept_away(plan) for server in found.values()]
    if len(plans) == 1 and plans[0].away_from:
        return replace(plans[0], away_from_nodes=())  # by label: also where it moves to
    nodes = dict.fromkeys(node for each in plans for node in each.away_from_nodes)
    return replace(plan, away_from_nodes=tuple(nodes))


def _platform(
    asked: Asked,
    target: Target,
    server: Server,
    running: RunningServer,
    made: tuple[KubernetesSite, Generators, EndpointEngine],
) -> Platform:
    site, generators, engine = made
    doors, experiment = asked.doors, asked.experiment
    names = settings_on(experiment, target)
    restarts = restarts_on(experiment, target, names, running)
    place = server.place(_means(asked, site, generators), restarts=restarts)
    options = EndpointOptions(
        target=server.endpoint,
        entrance=place.entrance(),
        campaign_id=site.belongings.campaign_id,
        datasets=dataset_needs(engine.datasets()),
        settings=names,
        restarts=restarts,
        clients=max(load.clients for load in experiment.loads),
    )
    means = Means(
        sql=doors.sql, processes=generators.processes, clock=doors.clock, here=doors.processes
    )
    return EndpointPlatform(options, asked.ledger, means, place)
