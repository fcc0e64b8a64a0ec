"""Servers of CloudNativePG in a cluster: Clusters to be made, and those there already under load.

What can be known to fail of a Cluster is looked for before one is made: operator, classes, sizes,
fields. What volumes of the storage classes can do is measured before the campaign begins.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from steelyard.core.experiment import Experiment, SwitchCost
from steelyard.core.findings import facts_about
from steelyard.core.kubernetes import (
    DATABASE,
    OF_CLUSTER,
    POD,
    Manifest,
    ObjectRef,
    SecretRef,
    campaign_labels,
)
from steelyard.core.places import ClusterService
from steelyard.core.schedule import MachineLimits, Pausing
from steelyard.core.target import CloudNativePgTarget, EndpointTarget, Target
from steelyard.core.wording import PreflightError
from steelyard.places.kubernetes.made_server import MadeMeans
from steelyard.places.kubernetes.nodes import pods_that_fit
from steelyard.places.kubernetes.pods import resources_of
from steelyard.places.kubernetes.reaching import (
    ServerBehind,
    find_server,
    secret_of,
    sql_knock,
)
from steelyard.places.kubernetes.volumes import StorageQuestion, probe_storage, require_class
from steelyard.systems.existing import ENTRANCE, ServerPlace, ServicePlace
from steelyard.systems.postgres import factory
from steelyard.systems.postgres.cloudnative_pg import existing as existing_cluster
from steelyard.systems.postgres.cloudnative_pg import operator as operators
from steelyard.systems.postgres.cloudnative_pg.own_cluster import (
    CloudNativePgPlatform,
    ClusterOptions,
)
from steelyard.systems.postgres.engine import PostgresCeilings, dataset_of
from steelyard.systems.postgres.existing.platform import EndpointPlatform
from steelyard.systems.postgres.server import Installation
from steelyard.systems.protocol import Dataset
from steelyard.targets import endpoint as endpoints
from steelyard.targets import kubernetes_site
from steelyard.targets.differences import Room, can_alternate, limits_to_lift, switch_cost
from steelyard.targets.kubernetes_site import (
    KubernetesSite,
    LoadPlan,
    require_room,
    trial_namespace,
)


def check_clusters(
    experiment: Experiment, site: KubernetesSite, datasets: Sequence[Dataset]
) -> Mapping[str, str]:
    """Return the image of each configuration's server, the operator's default filled in.

    The Clusters are only tried. What is known of the operator becomes a fact of the site.

    Raises:
        InputError: A field is not known to the operator's definition.
        PreflightError: There is no operator, no such storage class, no room in the volume, or the
            operator or a quota refuses a Cluster.
    """
    operator = operators.discover(site.api)
    facts = {
        "CloudNativePG": operator.version or f"not known: {operator.unseen}",
        "its definition of a Cluster": operator.definition,
    }
    site.further += facts_about("Kubernetes", facts)
    images: dict[str, str] = {}
    for name, target in experiment.targets_of(CloudNativePgTarget).items():
        if not target.is_made:
            continue
        configuration = experiment.configuration(name)
        operators.require_taken(configuration.asked())
        for storage_class in sorted(set(_classes(target)), key=str):
            require_class(site.api, storage_class)
        require_room(target, configuration.asked_folded(), datasets)
        campaign_id = site.belongings.campaign_id
        manifest = kubernetes_site.cluster_of(
            configuration, target, campaign_id, trial_namespace(site)
        )
        operators.require_known(manifest, operator)
        tried = site.api.apply(manifest, dry_run=True)  # the operator judges its settings, too
        images[name] = target.image or _image_of(tried)
    return images


def _image_of(cluster: Manifest) -> str:
    spec: Mapping[str, Any] = cluster["spec"]
    image = spec.get("imageName")
    if not image:
        raise PreflightError(
            "the operator does not say which image it would take",
            hint="Name one with `image:` in the target.",
        )
    return str(image)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cluster:
    """A Cluster of CloudNativePG that is there; ``endpoint`` is its target as one of that kind."""

    options: existing_cluster.ExistingOptions
    manifest: Manifest
    secret: SecretRef
    nodes: tuple[str, ...]

    @property
    def endpoint(self) -> EndpointTarget:
        return existing_cluster.endpoint_of(self.options, self.secret)

    @property
    def image(self) -> str:
        status, spec = self.manifest.get("status") or {}, self.manifest["spec"]
        return str(status.get("image") or spec.get("imageName") or "")

    def place(self, means: MadeMeans) -> ServerPlace:
        return existing_cluster.ExistingCluster(self.options, means, self.manifest, self.secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Service:
    endpoint: EndpointTarget
    found: ServerBehind

    @property
    def image(self) -> str:
        return self.found.behind.image

    @property
    def nodes(self) -> tuple[str, ...]:
        return self.found.nodes

    def place(self, means: MadeMeans) -> ServerPlace:
        return ServicePlace(self.found.server, means.reach, self.endpoint.dbname or ENTRANCE)


_Server = _Cluster | _Service


def servers_in_kubernetes(asked: endpoints.Asked, site: KubernetesSite) -> endpoints.Servers:
    """Return engine and platforms of servers that are there.

    Raises:
        PreflightError: One is not there, or two targets lead to one server.
        TargetError: One cannot be reached.
    """
    experiment, doors = asked.experiment, asked.doors
    first = _means(asked, site)
    targets = {
        each.name: each.target for each in experiment.configurations if each.target.home is not None
    }
    found = {target: _find(target, asked, first) for target in dict.fromkeys(targets.values())}
    ways = {target: server.place(first).entrance() for target, server in found.items()}
    endpoints.require_different_servers(ways.values(), doors.sql)
    running = {target: factory.read_running(way, doors.sql) for target, way in ways.items()}
    plan = _plan(asked, site, found)
    tls = any(server.tls for server in running.values())
    engine = factory.EndpointEngine(
        experiment,
        {name: running[target] for name, target in targets.items()},
        kubernetes_site.programs_of(plan, {}, asked, site, tls=tls),
        doors,
    )
    room = Room(unable=_ON_ONE) if len(found) < len(targets) else _TOGETHER
    lifted: dict[Target, dict[str, str]] = {}
    if can_alternate(experiment, engine, room):
        lifted = {target: limits_to_lift(experiment, engine, target) for target in found}
        room = replace(room, lifted={n: v for each in lifted.values() for n, v in each.items()})
    platforms = {
        target: _platform(
            asked,
            target,
            server,
            running[target],
            (site, engine),
            lifted.get(target, {}),
        )
        for target, server in found.items()
    }
    by_name = {name: platforms[target] for name, target in targets.items()}
    return endpoints.Servers(
        engine=engine,
        platforms=by_name,
        room=room,
        slots=lambda _: endpoints.one_each(by_name),
    )


_TOGETHER: Final = Room(pausing=Pausing.GENERATOR)
_ON_ONE: Final = "several of them are on one server in the cluster, which has one at a time"


def _means(asked: endpoints.Asked, site: KubernetesSite) -> MadeMeans:
    return kubernetes_site.means_of(asked, site, sql_knock(asked.doors.sql))


def _find(target: Target, asked: endpoints.Asked, means: MadeMeans) -> _Server:
    if isinstance(target, CloudNativePgTarget):
        options = existing_cluster.ExistingOptions(
            target=target,
            namespace=means.belongings.namespace,
            settings=endpoints.settings_on(asked.experiment, target),
        )
        manifest = existing_cluster.read_cluster(options, means)
        labels = {OF_CLUSTER: options.ref.name}
        pods = means.api.list(POD, options.namespace, labels)
        nodes = (str(pod["spec"].get("nodeName") or "") for pod in pods)
        return _Cluster(
            options=options,
            manifest=manifest,
            secret=existing_cluster.secret_of(manifest, means),
            nodes=tuple(dict.fromkeys(filter(None, nodes))),
        )
    assert isinstance(target, EndpointTarget)  # noqa: S101 - there are no others in a cluster
    assert target.inside is not None  # noqa: S101 - the file was checked
    return _service(target, target.inside, means, endpoints.settings_on(asked.experiment, target))


def _service(
    target: EndpointTarget, asked: ClusterService, means: MadeMeans, settings: Sequence[str]
) -> _Service:
    api, namespace = means.api, means.belongings.namespace
    found = find_server(api, namespace, asked, secret_of(asked, namespace))
    where = found.behind.where
    place = ObjectRef(kind=POD, name=where.pod, namespace=where.namespace)
    pod = api.read(place) or {"metadata": {}, "spec": {}}
    cluster = (pod["metadata"].get("labels") or {}).get(OF_CLUSTER)
    if cluster is not None and settings:
        raise PreflightError(
            f"the Service {asked.service} leads to the Cluster {cluster} of CloudNativePG, whose"
            " settings are changed by its manifest and not by SQL",
            hint=f"Use `{{kind: kubernetes, cluster: {cluster}, allow_existing: true}}`.",
        )
    return _Service(endpoint=target, found=found)


def _plan(
    asked: endpoints.Asked, site: KubernetesSite, found: Mapping[Target, _Server]
) -> LoadPlan:
    baseline, servers = asked.experiment.configuration(asked.experiment.baseline), [*found.values()]
    first = [found[baseline.target]] if baseline.target in found else []
    image = next(filter(None, (server.image for server in (*first, *servers))), "")
    if len(servers) == 1 and isinstance(servers[0], _Cluster):  # by label: also where it moves to
        labels = {OF_CLUSTER: servers[0].options.ref.name}
        return site.plan_load(image, away_from=labels)
    nodes = dict.fromkeys(node for server in servers for node in server.nodes)
    return site.plan_load(image, away_from_nodes=tuple(nodes))


def _platform(
    asked: endpoints.Asked,
    target: Target,
    server: _Server,
    running: factory.RunningServer,
    made: tuple[KubernetesSite, factory.EndpointEngine],
    lifted: Mapping[str, str],
) -> EndpointPlatform:
    site, engine = made
    experiment = asked.experiment
    names = endpoints.settings_on(experiment, target)
    restarts = endpoints.restarts_on(experiment, target, names, running)
    place, named = server.place(_means(asked, site)), server.endpoint
    options = replace(
        endpoints.use_of(asked, engine, target, named, place.entrance()),
        campaign_id=site.belongings.campaign_id,
        restarts=restarts,
        lifted=lifted,
        obstacles=endpoints.obstacles_on(experiment, target, running, allowed=named.allow_existing),
    )
    return EndpointPlatform(options, asked.ledger, asked.doors, place)


def probe_storages(asked: endpoints.Asked, images: Mapping[str, str], site: KubernetesSite) -> None:
    """Measure what a volume of each class can do, and add it to the facts of the site.

    A pod of the configuration's image is made with one for a moment; not with `ceilings: off`.

    Raises:
        PreflightError: A volume cannot be had.
    """
    experiment, doors = asked.experiment, asked.doors
    if experiment.measure.machine_limits is MachineLimits.OFF:
        return
    tools = PostgresCeilings((), doors)

    def rates(text: str) -> Mapping[str, float | None] | None:
        found = tools.sync_rates(text)
        return None if found is None else {each.method: each.per_s for each in found}

    for question in dict.fromkeys(_questions(experiment, images)):
        facts = probe_storage(
            site.belongings, question, sync_rates=rates, told=asked.told, clock=doors.clock
        )
        site.further.extend(facts)


def _questions(experiment: Experiment, images: Mapping[str, str]) -> Iterator[StorageQuestion]:
    for name, target in experiment.targets_of(CloudNativePgTarget).items():
        if target.is_made:
            for storage_class in dict.fromkeys(_classes(target)):
                yield StorageQuestion(
                    image=images[name],
                    storage_class=storage_class,
                    node_selector=target.node_selector,
                    tolerations=target.tolerations,
                )


def _classes(target: CloudNativePgTarget) -> Iterator[str | None]:
    yield target.storage_class
    if target.wal_storage is not None:
        yield target.wal_storage_class or target.storage_class


def clusters_made(asked: endpoints.Asked, site: KubernetesSite) -> endpoints.Servers:
    """Return what runs Clusters that Steelyard makes."""
    experiment, doors, told = asked.experiment, asked.doors, asked.told
    datasets = dict.fromkeys(dataset_of(workload) for workload in experiment.workloads)
    names = check_clusters(experiment, site, tuple(datasets))
    images = kubernetes_site.describe_images(experiment, names, site, told)
    secret = kubernetes_site.secret_of(asked, site)
    plan = site.plan_load(
        names.get(experiment.baseline) or next(iter(names.values())),
        away_from=campaign_labels(site.belongings.campaign_id, DATABASE),
    )
    programs = _programs(plan, images, asked, site)
    if asked.runs:
        probe_storages(asked, names, site)
    engine = factory.InImageEngine(
        experiment,
        {name: images[image] for name, image in names.items()},
        programs,
        doors,
    )
    alone = len(names) == len(experiment.configurations)  # beside others all restart
    restarts = not alone or switch_cost(experiment, engine) is SwitchCost.RESTART
    made = partial(_made, asked, site, secret)
    first = made(restarts=restarts, slot=1)
    return endpoints.Servers(
        engine=engine,
        platforms=first,
        room=_room(asked, site),
        slots=lambda number: (
            first,
            *(made(restarts=True, slot=slot) for slot in range(2, number + 1)),
        ),
    )


def _programs(
    plan: LoadPlan,
    images: Mapping[str, factory.ImagePrograms],
    asked: endpoints.Asked,
    site: KubernetesSite,
) -> Installation:
    """Return the client programs, with TLS if there are any: the operator's servers speak it."""
    try:
        return kubernetes_site.programs_of(plan, images, asked, site, tls=True)
    except PreflightError:
        return kubernetes_site.programs_of(plan, images, asked, site, tls=False)


def _room(asked: endpoints.Asked, site: KubernetesSite) -> Room:
    """Return whether a Cluster of each configuration can be there at the same time.

    Before a campaign none is there, and when it begins neither.
    """
    targets = asked.experiment.targets_of(CloudNativePgTarget)
    target, number = next(iter(targets.values())), len(targets)
    requests = resources_of(target.resources).get("requests") or {}
    if not requests:
        return _TOGETHER
    fit = pods_that_fit(
        site.api, requests, dict(target.node_selector), tolerant=target.tolerations != "[]"
    )
    if fit is None or fit >= number * target.instances:
        return _TOGETHER
    pods = f"{number} Clusters" if target.instances == 1 else f"{number * target.instances} pods"
    return Room(
        unable=f"the nodes have room for {fit} more of the {pods} that would be up together"
    )


def _made(
    asked: endpoints.Asked,
    site: KubernetesSite,
    secret: SecretRef,
    *,
    restarts: bool,
    slot: int,
) -> Mapping[str, CloudNativePgPlatform]:
    experiment = asked.experiment
    means = _means(asked, site)
    platforms: dict[object, CloudNativePgPlatform] = {}
    for target in experiment.targets_of(CloudNativePgTarget).values():
        if target not in platforms:
            options = ClusterOptions(
                target=target,
                campaign_id=site.belongings.campaign_id,
                namespace=site.namespace,
                secret=secret,
                settings=endpoints.settings_on(experiment, target),
                restarts=restarts,
                provisions=experiment.is_made_anew,
                slot=slot,
            )
            platforms[target] = CloudNativePgPlatform(options, asked.ledger, means)
    return {
        name: platforms[target]
        for name, target in experiment.targets_of(CloudNativePgTarget).items()
    }
