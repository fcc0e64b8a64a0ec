"""From an experiment on running Redis servers to the engine and platforms that run it."""

from collections.abc import Sequence
from dataclasses import replace

from steelyard.core.command import ServerAddress
from steelyard.core.errors import PreflightError
from steelyard.core.experiment import Experiment, SwitchCost
from steelyard.core.schedule import Pausing
from steelyard.core.target import RedisEndpointTarget, RedisKubernetesTarget, RedisTarget
from steelyard.gateways.doors import Doors
from steelyard.gateways.redis import own_password
from steelyard.places.local.pausing import PausedGenerators
from steelyard.places.protocol import Ledger
from steelyard.systems.redis.commands import rights_of
from steelyard.systems.redis.datasets import dataset_of, datasets_of, growth_bytes
from steelyard.systems.redis.existing.connection import RedisMeans, address_of, asked_number
from steelyard.systems.redis.existing.platform import RedisEndpointOptions, RedisEndpointPlatform
from steelyard.systems.redis.existing.readiness import ServerState
from steelyard.systems.redis.factory import (
    RedisSurroundings,
    RunningRedis,
    needs_restart,
    redis_endpoint_engine,
)
from steelyard.targets.differences import Room
from steelyard.targets.endpoint import Endpoints


def assemble_redis_endpoints(
    experiment: Experiment, doors: Doors, *, campaign_id: str, ledger: Ledger
) -> Endpoints:
    """Return the engine and each treatment's platform; the servers are asked, nothing is changed.

    Raises:
        TargetError: A server cannot be reached.
        PreflightError: Two targets lead to one server, or there is no load generator.
    """
    targets = {
        name: target
        for name, target in experiment.redis_targets.items()
        if isinstance(target, RedisEndpointTarget)
    }
    means = RedisMeans(redis=doors.redis, processes=doors.processes, clock=doors.clock)
    platforms = {}
    for target in dict.fromkeys(targets.values()):
        options = _options(experiment, target, campaign_id)
        paused = PausedGenerators(doors.processes, doors.clock)
        platforms[target] = RedisEndpointPlatform(options, ledger, means, paused=paused)
    require_different([platform.state for platform in platforms.values()])
    surroundings = RedisSurroundings(
        processes=doors.processes,
        redis=doors.redis,
        account=None,
        reach=lambda programs, _parts, _label: programs,
    )
    engine = redis_endpoint_engine(
        experiment,
        {name: running(platforms[target].state) for name, target in targets.items()},
        {name: address_of(target, "") for name, target in targets.items()},
        surroundings,
    )
    by_name = {name: platforms[target] for name, target in targets.items()}
    return Endpoints(
        engine=engine,
        platforms=by_name,
        room=Room(pausing=Pausing.GENERATOR),
        seats=lambda: by_name,
    )


def running(state: ServerState) -> RunningRedis:
    """Return what an engine has to know of a server."""
    return RunningRedis(version=state.version, flavour=state.flavour, settings=state.settings)


def _options(
    experiment: Experiment, target: RedisEndpointTarget, campaign_id: str
) -> RedisEndpointOptions:
    options = redis_options(
        experiment, target, campaign_id, entrance=address_of(target, own_password())
    )
    restarts = _restarts(experiment, options.settings)
    return replace(
        options,
        first=asked_number(target),
        restart_command=target.restart_command if restarts else (),
    )


def redis_options(
    experiment: Experiment,
    target: RedisEndpointTarget | RedisKubernetesTarget,
    campaign_id: str,
    *,
    entrance: ServerAddress,
) -> RedisEndpointOptions:
    """Return how a campaign uses a server that it never restarts, in any empty database."""
    return RedisEndpointOptions(
        entrance=entrance,
        campaign_id=campaign_id,
        datasets=redis_needs(experiment),
        growing=growing_workloads(experiment),
        settings=redis_settings_on(experiment, target),
        asked=redis_values_on(experiment, target),
        allow_existing=target.allow_existing,
        clients=max(load.clients for load in experiment.loads),
        guest=rights_of(experiment.workloads),
    )


def redis_needs(experiment: Experiment) -> tuple[tuple[str, int], ...]:
    """Return each data set with about how much of a server's memory it takes in the end."""
    needs = {
        dataset.name: dataset.expected_memory_bytes for dataset in datasets_of(experiment.workloads)
    }
    for workload in experiment.workloads:
        needs[dataset_of(workload).name] += growth_bytes(workload) or 0
    return tuple(needs.items())


def growing_workloads(experiment: Experiment) -> tuple[str, ...]:
    """Return the names of workloads whose data grow for as long as they run."""
    return tuple(each.name for each in experiment.workloads if growth_bytes(each) is None)


def redis_settings_on(experiment: Experiment, target: RedisTarget) -> tuple[str, ...]:
    """Return the names of all settings that any treatment on a server asks for."""
    names = {
        name
        for treatment in experiment.treatments
        if treatment.target == target
        for name in treatment.asked_folded()
    }
    return tuple(sorted(names))


def redis_values_on(experiment: Experiment, target: RedisTarget) -> tuple[tuple[str, str], ...]:
    """Return every value of every setting that a treatment on a server asks for."""
    pairs = {
        pair
        for treatment in experiment.treatments
        if treatment.target == target
        for pair in treatment.asked_folded().items()
    }
    return tuple(sorted(pairs))


def _restarts(experiment: Experiment, names: Sequence[str]) -> bool:
    """Return whether every activation restarts the server, where it can be: all are alike then."""
    several = len({treatment.target for treatment in experiment.treatments}) > 1
    asked = experiment.measure.switch is SwitchCost.RESTART
    return several or asked or any(needs_restart(name) for name in names)


def require_different(states: Sequence[ServerState]) -> None:
    """Raise when two targets lead to one server: each would keep the other's settings."""
    if len({state.run_id for state in states}) < len(states):
        raise PreflightError(
            "two targets of the experiment lead to the same server",
            hint="Write the target once, in a treatment that the others extend.",
        )
