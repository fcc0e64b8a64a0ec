"""From an experiment on a Kubernetes cluster to the engine and platforms that run it.

For looking nothing is made but a pod of a moment per image. For a campaign its namespace, password
and generators are made here, because the engine needs programs that run.
"""

from collections.abc import Mapping
from dataclasses import replace

from steelyard.core.errors import SteelyardError
from steelyard.core.experiment import SwitchCost
from steelyard.core.kubernetes import SecretRef
from steelyard.places.kubernetes.reaching import Reach, make_secret, sql_knock
from steelyard.places.protocol import Platform
from steelyard.systems.postgres.cloudnative_pg.operator import require_installed
from steelyard.systems.postgres.cloudnative_pg.own_cluster import ClusterMeans, ClusterOptions
from steelyard.systems.postgres.cloudnative_pg.platform import CloudNativePgPlatform
from steelyard.systems.postgres.engine import dataset_of
from steelyard.systems.postgres.factory import InImageEngine
from steelyard.targets.cloudnative_pg import check_clusters, probe_storages, servers_in_kubernetes
from steelyard.targets.differences import switch_cost
from steelyard.targets.endpoint import settings_on
from steelyard.targets.generators import (
    Generators,
    database_labels,
    describe_images,
    generator_plan,
    generators_of,
    programs_of,
)
from steelyard.targets.kubernetes_site import Asked, KubernetesSite, Placed, find_site
from steelyard.targets.redis_kubernetes import redis_servers_made, redis_services


def assemble_in_kubernetes(asked: Asked) -> Placed:
    """Return engine and platforms.

    Raises:
        SteelyardError: The cluster cannot be reached, the account lacks permissions, or something
            is not there. What was made is removed.
    """
    doors = asked.doors
    site = find_site(asked.experiment, doors, campaign_id=asked.campaign_id, ledger=asked.ledger)
    try:
        if asked.experiment.cluster_targets:
            require_installed(site.api)  # before permissions, which name its kind
        if asked.runs:
            site.open()
        else:
            site.require_allowed()
        placed = _placed(asked, site)
    except BaseException as error:
        _close_after(error, site)
        raise
    if not asked.runs:
        site.close()
    return placed


def _placed(asked: Asked, site: KubernetesSite) -> Placed:
    """Return engine and platforms of the servers, whose kind all treatments share."""
    makes_all = asked.experiment.makes_all_in_kubernetes
    if asked.experiment.redis_in_kubernetes:
        return (redis_servers_made if makes_all else redis_services)(asked, site)
    return _clusters(asked, site) if makes_all else servers_in_kubernetes(asked, site)


def _close_after(error: BaseException, site: KubernetesSite) -> None:
    """Remove what was made; that this fails, too, does not hide why there is no campaign."""
    try:
        site.close()
    except SteelyardError as trouble:
        if isinstance(error, SteelyardError):
            error.hint = " ".join(filter(None, [error.hint, f"Besides: {trouble.message}."]))


def _clusters(asked: Asked, site: KubernetesSite) -> Placed:
    """Return what runs Clusters that Steelyard makes."""
    experiment, doors, told = asked.experiment, asked.doors, asked.told
    datasets = dict.fromkeys(dataset_of(workload) for workload in experiment.workloads)
    checked = check_clusters(experiment, site, tuple(datasets))
    site.further.extend(checked.facts())
    images = describe_images(experiment, checked.images, site, doors.clock, told)
    secret = _secret(asked, site)
    plan = replace(
        generator_plan(experiment, site.place, checked.images[experiment.baseline], secret),
        away_from=database_labels(site.belongings.campaign_id),
    )
    site.plan = plan
    programs = programs_of(plan, images, site, doors.clock, told)
    generators = generators_of(plan, site, doors.clock, told)
    if asked.runs:
        generators.make(site, told)
        probe_storages(experiment, checked.images, site, doors, told)
    else:
        generators.pods.require_room()
    engine = InImageEngine(
        experiment,
        {name: images[image] for name, image in checked.images.items()},
        programs,
        processes=generators.processes,
        sql=doors.sql,
    )
    cost = switch_cost(experiment, engine)
    return Placed(
        engine=engine,
        platforms=_made(asked, site, generators, secret, restarts=cost is SwitchCost.RESTART),
        site=site,
    )


def _secret(asked: Asked, site: KubernetesSite) -> SecretRef:
    if asked.runs:
        return make_secret(site.belongings)
    return SecretRef(namespace=site.namespace, name=site.belongings.name())


def _made(
    asked: Asked,
    site: KubernetesSite,
    generators: Generators,
    secret: SecretRef,
    *,
    restarts: bool,
) -> Mapping[str, Platform]:
    """Return the platform of each treatment; treatments with equal Clusters share one."""
    experiment, doors = asked.experiment, asked.doors
    reach = Reach(site.api, sql_knock(doors.sql), doors.clock)
    site.closing.append(reach.close)
    means = ClusterMeans(
        api=site.api,
        processes=generators.processes,
        generators=lambda: generators.pods.pods,
        start_skew=lambda: generators.processes.last_skew,
        reach=reach,
        belongings=site.belongings,
        sql=doors.sql,
        clock=doors.clock,
        told=asked.told,
    )
    platforms: dict[object, Platform] = {}
    for target in experiment.cluster_targets.values():
        if target not in platforms:
            options = ClusterOptions(
                target=target,
                campaign_id=site.belongings.campaign_id,
                namespace=site.namespace,
                secret=secret,
                settings=settings_on(experiment, target),
                restarts=restarts,
                provisions=experiment.is_made_anew,
            )
            platforms[target] = CloudNativePgPlatform(options, asked.ledger, means)
    return {name: platforms[target] for name, target in experiment.cluster_targets.items()}
