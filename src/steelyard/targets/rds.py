"""From an experiment on instances of Amazon RDS and Aurora to its engine and platforms.

An instance is made for the campaign, reached as any server that is there, and deleted as a whole at
the end: what was made inside goes with it. Its settings are those of a parameter group, for nobody
has ALTER SYSTEM there; static ones take a reboot.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from steelyard.core.aws import CLASSES
from steelyard.core.experiment import Experiment
from steelyard.core.findings import Fact, Finding, Severity, facts_about
from steelyard.core.measurement import ProviderSeries
from steelyard.core.outside import OnServer, Outside, Rented, ServerAddress
from steelyard.core.places import Provision
from steelyard.core.schedule import Pausing
from steelyard.core.target import AuroraTarget, EndpointTarget, RdsTarget, RentedTarget, Target
from steelyard.core.wording import PreflightError, SteelyardError, TargetError, in_unit, undo_after
from steelyard.gateways.aws import AwsApi
from steelyard.gateways.doors import Doors
from steelyard.gateways.host import trouble_until
from steelyard.places import aws
from steelyard.places.local.server import ProgramReach
from steelyard.places.protocol import Ledger
from steelyard.systems.existing import ServerPlace
from steelyard.systems.postgres import factory
from steelyard.systems.postgres.existing.platform import EndpointOptions, EndpointPlatform
from steelyard.systems.postgres.existing.server import STARTED_AT
from steelyard.systems.postgres.settings import SettingEntry, as_boolean
from steelyard.targets import endpoint as endpoints
from steelyard.targets.differences import Room
from steelyard.targets.prices import PricedServer, Prices, rates_of

_USER: Final = "steelyard"
_ENTRANCE: Final = "postgres"
_AT_ONCE: Final = 20  # parameters of one call
_REBOOT_S: Final = 900.0
_POLL_S: Final = 1.0
_STATIC: Final = "static"
_ON_ONE: Final = "several of them are on one instance, which has one at a time"


def rents(experiment: Experiment) -> bool:
    """Return whether a server of an experiment is rented."""
    return any(isinstance(each.target, RentedTarget) for each in experiment.configurations)


def priced(experiment: Experiment, prices: Callable[[], Prices]) -> Experiment:
    """Return an experiment whose rented servers cost what the prices say; the file comes first."""
    if not rents(experiment):
        return experiment
    known = prices()
    return experiment.with_targets(lambda target: _priced(target, known))


def _priced(target: Target, prices: Prices) -> Target:
    if not isinstance(target, RentedTarget) or target.cost is not None:
        return target
    kind = CLASSES.get(target.instance_class)
    server = PricedServer(
        region=target.region,
        instance_class=target.instance_class,
        volume=target.volume,
        surplus_at_most=0.0 if kind is None else kind.vcpus * (1.0 - kind.cpu_baseline),
    )
    if isinstance(target, RdsTarget):
        server = replace(server, is_multi_az=target.multi_az)
    if isinstance(target, AuroraTarget):
        server = replace(
            server,
            instance_class=None if target.is_serverless else target.instance_class,
            units=target.max_capacity,
            gib=target.gib,
            is_optimized=target.io_optimized,
            ios_at_most=target.io_at_most,
        )
    return replace(target, cost=rates_of(server, prices))


def expiring(experiment: Experiment, ttl_s: float | None) -> Experiment:
    """Return an experiment whose rented servers say in their tags that they expire then.

    Raises:
        PreflightError: AWS is to delete them, and nobody says when.
    """
    if ttl_s is None:
        targets = (each.target for each in experiment.configurations)
        if any(isinstance(each, RentedTarget) and each.delete_role for each in targets):
            raise PreflightError(
                "`delete_role` lets AWS delete the instance after a time, and none is given",
                hint="Add --ttl, such as --ttl 4h: longer than the campaign may take.",
            )
        return experiment
    return experiment.with_targets(
        lambda target: replace(target, ttl_s=ttl_s) if isinstance(target, RentedTarget) else target
    )


class _GoesWhole:
    """A ledger that passes over what is made inside an instance: it goes with it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def created(self, thing: Outside) -> None:
        """Note what is elsewhere."""
        if not isinstance(thing, OnServer):
            self._ledger.created(thing)

    def removed(self, thing: Outside) -> None:
        """Note what is elsewhere."""
        if not isinstance(thing, OnServer):
            self._ledger.removed(thing)


class ParameterGroup:
    """The settings of one instance; for everyone, as the server's own file would be.

    An instance in a cluster has two groups: its own, and the cluster's for what that does not have.

    Attributes:
        label: How settings are changed.
    """

    label: Final = "by a parameter group"

    def __init__(self, target: RentedTarget, name: str, api: AwsApi, doors: Doors) -> None:
        self._target = target
        self._name = name
        self._api = api
        self._doors = doors
        self._set: dict[str, str] = {}
        self._of_instance: frozenset[str] = frozenset()
        self.server: factory.RunningServer | None = None
        self.started_at: Callable[[], object] = object

    def change(self, settings: Mapping[str, str]) -> bool:
        """Put settings into the group, whose dynamic ones come into force by themselves."""
        wanted = {name.lower(): self._value(name.lower(), text) for name, text in settings.items()}
        gone = [_parameter(name, self._how(name)) for name in self._set.keys() - wanted.keys()]
        other = [
            {**_parameter(name, self._how(name)), "ParameterValue": value}
            for name, value in wanted.items()
            if self._set.get(name) != value
        ]
        self._send("Reset", gone)
        self._send("Modify", other)
        self._set = wanted
        if gone or other:
            aws.await_serving(self._name, self._api, self._doors.clock)
        return False

    def _send(self, verb: str, parameters: list[dict[str, str]]) -> None:
        levels: dict[str, list[dict[str, str]]] = {}
        for each in parameters:
            levels.setdefault(self._level(each["ParameterName"]), []).append(each)
        for level, of_level in levels.items():
            group = f"DB{level}ParameterGroup"
            for first in range(0, len(of_level), _AT_ONCE):
                part = of_level[first : first + _AT_ONCE]
                given = {f"{group}Name": self._name, "Parameters": part}
                self._api.call("rds", f"{verb}{group}", **given)

    def _level(self, name: str) -> str:
        """Return whose group has a parameter: the cluster's, where the instance's has it not."""
        if not isinstance(self._target, AuroraTarget):
            return ""
        if not self._of_instance:
            self._of_instance = frozenset(default_parameters(self._target, self._api, ""))
        return "" if name in self._of_instance else _CLUSTER

    def _how(self, name: str) -> str:
        entry = None if self.server is None else self.server.catalogue.get(name)
        is_static = entry is not None and entry.context == "postmaster"
        return "pending-reboot" if is_static else "immediate"

    def _value(self, name: str, text: str) -> str:
        """Return a value as a parameter group takes it: in the server's unit, without one."""
        server = self.server
        entry = None if server is None else server.catalogue.get(name)
        if server is None or entry is None:
            return text
        if entry.kind == "bool":
            return {"on": "1", "off": "0"}.get(as_boolean(text), text)
        bounds = server.bounds.get(name)
        number = None if bounds is None else in_unit(text, bounds.unit)
        return text if number is None else f"{number:.15g}"

    def activate(self, settings: Mapping[str, str], *, restarts: bool) -> None:
        """Bring settings into force, by a reboot where asked.

        Raises:
            TargetError: The server does not come back.
        """
        self.change(settings)
        if restarts:
            before = self.started_at()
            self._api.call("rds", "RebootDBInstance", DBInstanceIdentifier=self._name)
            self._await_other(before)
            aws.await_serving(self._name, self._api, self._doors.clock)

    def _await_other(self, before: object) -> None:
        trouble = trouble_until(
            lambda: self.started_at() != before,
            self._doors.clock,
            _REBOOT_S,
            _POLL_S,
            "it was not started anew",
        )
        if trouble:
            raise TargetError(
                f"{_REBOOT_S / 60:.0f} minutes after its reboot {self._name} is not back:"
                f" {trouble}",
                hint="Look at its events in the console.",
            )


_CLUSTER: Final = "Cluster"  # in the names of calls


def default_parameters(
    target: RentedTarget, api: AwsApi, level: str
) -> dict[str, Mapping[str, Any]]:
    """Return what may be set on a level of a version, by name: the instance's, or `Cluster`."""
    found = api.listed(
        "rds",
        f"DescribeEngineDefault{level}Parameters",
        "EngineDefaults.Parameters",
        DBParameterGroupFamily=_family(target),
    )
    return {str(each["ParameterName"]): each for each in found if each.get("IsModifiable", True)}


def _family(target: RentedTarget) -> str:
    return f"{target.product}{target.version.partition('.')[0]}"


def _parameter(name: str, how: str) -> dict[str, str]:
    return {"ParameterName": name, "ApplyMethod": how}


class Instance(ServerPlace):
    """The place of one instance, made when it is asked for.

    Attributes:
        label: Its name, and that of its parameter group.
    """

    label: str = ""

    def __init__(self, target: RentedTarget, name: str, maker: aws.AwsMaker, doors: Doors) -> None:
        self._target = target
        self.label = self._name = name
        self._maker = maker
        self._doors = doors
        self._entrance: ServerAddress | None = None
        self._said: Mapping[str, Any] = {}
        self._load: tuple[ProviderSeries, ...] = ()
        self._served_s = 0.0
        self.group = ParameterGroup(target, name, maker.api, doors)
        self.group.started_at = lambda: doors.sql.rows(self.entrance(), STARTED_AT)[0][0]

    def make(self, told: Callable[[str], None]) -> None:
        """Make it, and return when it serves.

        Raises:
            TargetError: It cannot be made, or does not come into service.
        """
        target, password = self._target, secrets.token_urlsafe(24)
        told(f"making {target.label}; that takes 5 to 15 minutes")
        made = [*steps(target, self._name, password)]
        if target.delete_role:
            kinds = [resource for resource, _, _ in made]
            self._maker.delete_later(self._name, kinds, target.delete_role)
        for resource, action, given in made:
            self._maker.make(resource, self._name, action, **given)
        self._said = aws.await_serving(self._name, self._maker.api, self._doors.clock, told=told)
        endpoint = self._said["Endpoint"]
        self._entrance = ServerAddress(
            host=str(endpoint["Address"]),
            port=int(endpoint["Port"]),
            user=_USER,
            database=_ENTRANCE,
            password=password,
        )
        self._served_s = self._doors.clock.now()
        self._read_load()  # a missing permission is told before anything was measured

    def _read_load(self) -> tuple[ProviderSeries, ...]:
        if not self._target.performance_insights:
            return ()
        span = self._served_s, self._doors.clock.now()
        return aws.read_load(self._name, str(self._said["DbiResourceId"]), self._maker.api, span)

    def entrance(self) -> ServerAddress:
        if self._entrance is None:
            raise TargetError(f"the instance {self._name} is made when the campaign begins")
        return self._entrance

    def store(self, own_file: object) -> ParameterGroup:  # noqa: ARG002 - out of reach
        """Return its parameter group."""
        return self.group

    def provision(self) -> Provision:
        """Return what its class and storage give it."""
        return self._target.provision

    def facts(self) -> tuple[Fact, ...]:
        """Return what AWS says of it."""
        said, target = self._said, self._target
        cost = target.cost
        facts = {
            "class": said.get("DBInstanceClass", target.instance_class),
            "storage": None
            if target.volume is None
            else f"{said.get('AllocatedStorage')} GiB of {said.get('StorageType')}",
            "IOPS that last": None if target.volume is None else f"{target.volume.base_iops:,.0f}",
            "zone": said.get("AvailabilityZone"),
            "resource id": said.get("DbiResourceId"),
            "prices": None if cost is None else cost.source,
        }
        return facts_about(target.noun, facts)

    def read_counts(
        self, span: tuple[float, float], patience_s: float
    ) -> tuple[ProviderSeries, ...]:
        """Return what CloudWatch has of it, and Performance Insights had when it went.

        Raises as ``places.aws.read_counts``.
        """
        thing = Rented.CLUSTER if isinstance(self._target, AuroraTarget) else Rented.INSTANCE
        count = partial(aws.read_counts, thing, self._name, self._maker.api, span)
        return aws.await_counts(count, self._doors.clock, span[1], patience_s) + self._load

    def leave(self) -> None:
        """Delete it, with all that was made for it.

        Raises:
            LeftBehindError: Something is still there.
        """
        if self._entrance is not None:
            # AWS does not promise them for an instance that is gone. It goes, whatever they say.
            with suppress(SteelyardError):
                self._load = self._read_load()
        self._entrance = None
        self._maker.delete(self._doors.clock)


_Step = tuple[Rented, str, Mapping[str, object]]  # what, by which call, with what beside its name


def steps(target: RentedTarget, name: str, password: str) -> Iterator[_Step]:
    """Yield what is made for a target, in order, each with its call and what that is given.

    Groups of settings, the cluster where there is one, the instance. All have one name: they are of
    different kinds.
    """
    group: dict[str, object] = {
        "DBParameterGroupFamily": _family(target),
        "Description": "Made by Steelyard for a campaign",
    }
    owner: dict[str, object] = {
        "Engine": target.product,
        "EngineVersion": target.version,
        "MasterUsername": _USER,
        "MasterUserPassword": password,
        "DeletionProtection": False,
        "CopyTagsToSnapshot": True,
        # Else an old version is enrolled in a support that costs more than the instance.
        "EngineLifecycleSupport": "open-source-rds-extended-support-disabled",
        **_network(target),
    }
    server: dict[str, object] = {
        "DBInstanceClass": target.instance_class,
        "DBParameterGroupName": name,
        "PubliclyAccessible": target.public,
        "AutoMinorVersionUpgrade": False,
    }
    if target.performance_insights:
        # Seven days are kept without a charge.
        server |= {"EnablePerformanceInsights": True, "PerformanceInsightsRetentionPeriod": 7}
    yield Rented.PARAMETER_GROUP, "CreateDBParameterGroup", group
    if isinstance(target, AuroraTarget):
        yield Rented.CLUSTER_PARAMETER_GROUP, "CreateDBClusterParameterGroup", group
        cluster = {**owner, **_of_cluster(target), "DBClusterParameterGroupName": name}
        yield Rented.CLUSTER, "CreateDBCluster", cluster
        server |= {"Engine": target.product, "DBClusterIdentifier": name}
    if isinstance(target, RdsTarget):
        server |= owner | dict(_of_instance(target))
    yield Rented.INSTANCE, "CreateDBInstance", server


def _network(target: RentedTarget) -> dict[str, object]:
    given = {
        "DBSubnetGroupName": target.subnet_group,
        "VpcSecurityGroupIds": list(target.security_groups) or None,
    }
    return {name: value for name, value in given.items() if value is not None}


def _of_cluster(target: AuroraTarget) -> dict[str, object]:
    """Return what a cluster has for itself; of backups a day is the least."""
    given: dict[str, object] = {"BackupRetentionPeriod": 1}
    if target.io_optimized:
        given["StorageType"] = "aurora-iopt1"
    if target.is_serverless:
        given["ServerlessV2ScalingConfiguration"] = {
            "MinCapacity": target.min_capacity,
            "MaxCapacity": target.max_capacity,
        }
    return given


def _of_instance(target: RdsTarget) -> Iterator[tuple[str, object]]:
    yield from {
        "AllocatedStorage": target.gib,
        "StorageType": target.storage_type,
        "MultiAZ": target.multi_az,
        "BackupRetentionPeriod": 0,
    }.items()
    given = {"Iops": target.iops, "StorageThroughput": target.storage_throughput}
    yield from ((name, value) for name, value in given.items() if value is not None)


class InstancePlatform(EndpointPlatform):
    """An instance that was made for the campaign; with it goes what was made inside."""

    _place: Instance

    def provider_series(
        self, since_s: float, until_s: float, *, patience_s: float
    ) -> tuple[ProviderSeries, ...]:
        """Return what CloudWatch counted of it; raises as ``places.aws.read_counts``."""
        return self._place.read_counts((since_s, until_s), patience_s)

    def _undone(self) -> list[SteelyardError]:
        self._since = None
        try:
            self._place.leave()
        except SteelyardError as error:
            return [error]
        return []


class PlannedPlatform(EndpointPlatform):
    """An instance that is only looked at: it is not there, and nothing is asked of it."""

    def __init__(
        self,
        options: EndpointOptions,
        ledger: Ledger,
        doors: Doors,
        place: Instance,
        *,
        asked: RentedTarget,
        seconds: float,
    ) -> None:
        super().__init__(options, ledger, doors, place)
        self._asked = asked
        self._seconds = seconds

    def require_ready(self) -> None:
        """Look at nothing: account and region were asked for it."""

    def facts(self) -> tuple[Fact, ...]:
        """Return nothing yet."""
        return ()

    def findings(self) -> tuple[Finding, ...]:
        """Return what its credits will hide."""
        return tuple(
            Finding(
                code="burst-hides",
                severity=Severity.INFO,
                message=f"{self._asked.label}: {told}",
                source='"Amazon RDS User Guide", sections "DB instance storage" and "DB instance'
                ' classes"',
                subject="campaign",
            )
            for told in self._asked.hidden_by_burst(self._seconds)
        )


def _instance(asked: endpoints.Asked, target: RentedTarget, number: int) -> Instance:
    doors = asked.doors
    api = doors.aws.connect(target.region)
    expires = datetime.fromtimestamp(doors.clock.now() + target.ttl_s, UTC)
    maker = aws.AwsMaker(
        api,
        account=aws.require_account(api, target.accounts),
        campaign_id=asked.campaign_id or "look",
        expires=expires.strftime("%Y-%m-%dT%H:%M:%SZ"),
        ledger=asked.ledger,
    )
    return Instance(target, f"{aws.prefix(asked.campaign_id or 'look')}-{number}", maker, doors)


def assemble_rds(asked: endpoints.Asked, reach: ProgramReach) -> endpoints.Servers:
    """Return the engine and each configuration's platform; to leave is to delete all instances.

    For a run they are made, else they are only looked at.

    Raises:
        SteelyardError: One cannot be made, or there is no pgbench; what was made is deleted.
    """
    targets = {
        each.name: each.target
        for each in asked.experiment.configurations
        if isinstance(each.target, RentedTarget)
    }
    places = {
        target: _instance(asked, target, number)
        for number, target in enumerate(dict.fromkeys(targets.values()), 1)
    }
    try:
        if asked.runs:
            for place in places.values():
                place.make(asked.told)
        return _assembled(asked, reach, targets, places)
    except BaseException as error:
        for place in places.values():
            undo_after(error, place.leave)
        raise


def _assembled(
    asked: endpoints.Asked,
    reach: ProgramReach,
    targets: Mapping[str, RentedTarget],
    places: Mapping[RentedTarget, Instance],
) -> endpoints.Servers:
    experiment, doors = asked.experiment, asked.doors
    servers = {target: _server(target, place, asked) for target, place in places.items()}
    engine = factory.endpoint_engine(
        experiment,
        {name: servers[target] for name, target in targets.items()},
        doors,
        reach,
    )
    platforms: dict[RentedTarget, EndpointPlatform] = {}
    for target, place in places.items():
        place.group.server = servers[target]
        entrance = place.entrance() if asked.runs else ServerAddress(host="", port=0)
        named = EndpointTarget(
            host=entrance.host, port=entrance.port, user=_USER, restore=target.restore
        )
        options = endpoints.use_of(asked, engine, target, named, entrance)
        restarts = endpoints.restarts_on(experiment, target, options.settings, servers[target])
        options, inner = replace(options, restarts=restarts), _GoesWhole(asked.ledger)
        if asked.runs:
            platforms[target] = InstancePlatform(options, inner, doors, place)
        else:
            platforms[target] = PlannedPlatform(
                options, inner, doors, place, asked=target, seconds=experiment.stop.budget_s
            )
    by_name = {name: platforms[target] for name, target in targets.items()}
    several = len(platforms) < len(by_name)
    return endpoints.Servers(
        engine=engine,
        platforms=by_name,
        room=Room(unable=_ON_ONE) if several else Room(pausing=Pausing.GENERATOR),
        slots=lambda _: endpoints.one_each(by_name),
        leave=partial(endpoints.leave_each, [place.leave for place in places.values()]),
    )


def _server(target: RentedTarget, place: Instance, asked: endpoints.Asked) -> factory.RunningServer:
    """Return what is known of a server; of one that is not there what AWS says of its version.

    Whoever owns the instance changes by its parameter group what takes a superuser elsewhere.
    """
    if asked.runs:
        return replace(factory.read_running(place.entrance(), asked.doors.sql), superuser=True)
    api = asked.doors.aws.connect(target.region)
    levels = (_CLUSTER, "") if isinstance(target, AuroraTarget) else ("",)
    catalogue = {
        name: SettingEntry(
            name=name,
            context="postmaster" if each.get("ApplyType") == _STATIC else "sighup",
            group="",
            kind=str(each.get("DataType", "string")),
        )
        for level in levels
        for name, each in default_parameters(target, api, level).items()
    }
    return factory.RunningServer(
        version=target.version, superuser=True, tls=False, catalogue=catalogue, bounds={}
    )
