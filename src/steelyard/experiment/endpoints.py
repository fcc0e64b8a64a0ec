"""From an experiment on running servers to the engine and platforms that run it."""

from collections.abc import Collection, Mapping, Sequence

from steelyard.engines.engine import Dataset, Engine
from steelyard.engines.postgres.endpoint import endpoint_engine
from steelyard.engines.postgres.factory import Surroundings
from steelyard.engines.postgres.running import RunningServer, read_running
from steelyard.experiment.doors import Doors
from steelyard.gateways.sql import Sql
from steelyard.model.command import ServerAddress
from steelyard.model.errors import PreflightError
from steelyard.model.experiment import Experiment, Layer
from steelyard.model.measure import SwitchCost
from steelyard.model.target import Target, is_restarted
from steelyard.platforms.endpoint.connection import keywords_of
from steelyard.platforms.endpoint.databases import DatasetNeeds
from steelyard.platforms.endpoint.platform import EndpointOptions, EndpointPlatform
from steelyard.platforms.endpoint.restarting import STARTED_AT, Means
from steelyard.platforms.platform import Ledger, Platform


def assemble_endpoints(
    experiment: Experiment, doors: Doors, *, campaign_id: str, ledger: Ledger
) -> tuple[Engine, Mapping[str, Platform]]:
    """Return the engine and each treatment's platform; the servers are asked, nothing is changed.

    Raises:
        TargetError: A server cannot be reached.
        PreflightError: Two targets lead to one server, or there is no pgbench.
    """
    targets = experiment.endpoint_targets
    entrances = {target: doors.sql.reach(keywords_of(target)) for target in targets.values()}
    require_different_servers(entrances.values(), doors.sql)
    servers = {target: read_running(address, doors.sql) for target, address in entrances.items()}
    surroundings = Surroundings(
        processes=doors.processes,
        sql=doors.sql,
        account=None,
        reach=lambda programs, _parts, _label: programs,
    )
    engine = endpoint_engine(
        experiment, {name: servers[target] for name, target in targets.items()}, surroundings
    )
    needs = dataset_needs(engine.datasets())
    means = Means(sql=doors.sql, processes=doors.processes, clock=doors.clock)
    platforms = {}
    for target, server in servers.items():
        names = settings_on(experiment, target)
        options = EndpointOptions(
            target=target,
            entrance=entrances[target],
            campaign_id=campaign_id,
            datasets=needs,
            settings=names,
            restarts=restarts_on(experiment, target, names, server),
            clients=max(load.clients for load in experiment.loads),
        )
        platforms[target] = EndpointPlatform(options, ledger, means)
    return engine, {name: platforms[target] for name, target in targets.items()}


def dataset_needs(datasets: Sequence[Dataset]) -> tuple[DatasetNeeds, ...]:
    """Return what the data sets need on a server that is there already."""
    return tuple(
        DatasetNeeds(
            name=each.name, tables=each.scale_factor is not None, scripts=bool(each.prepare)
        )
        for each in datasets
    )


def settings_on(experiment: Experiment, target: Target) -> tuple[str, ...]:
    """Return the names of all settings that any treatment on a server asks for."""
    names = {
        setting.name.lower()
        for treatment in experiment.treatments
        for setting in treatment.settings
        if treatment.target == target and setting.layer is Layer.POSTGRES
    }
    return tuple(sorted(names))


def restarts_on(
    experiment: Experiment, target: Target, names: tuple[str, ...], server: RunningServer
) -> bool:
    """Return whether every activation restarts the server: then all treatments are alike."""
    if not is_restarted(target):
        return False
    several = len({treatment.target for treatment in experiment.treatments}) > 1
    known = [server.catalogue[name] for name in names if name in server.catalogue]
    needed = several or any(entry.context == "postmaster" for entry in known)
    return needed or experiment.measure.switch is SwitchCost.RESTART


def require_different_servers(entrances: Collection[ServerAddress], sql: Sql) -> None:
    """Raise when two targets lead to one server: each would keep the other's settings.

    Raises:
        PreflightError: They do.
    """
    statement = f"{STARTED_AT}, current_setting('port')"
    seen = {repr(sql.rows(address, statement)) for address in entrances}
    if len(seen) < len(entrances):
        raise PreflightError(
            "two targets of the experiment lead to the same server",
            hint="Write the target once, in a treatment that the others extend.",
        )
