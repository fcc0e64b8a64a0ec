"""From an experiment to the engine and platforms that run it; a campaign's, or only to look at.

The one place that knows which engines and which kinds of target there are. Kinds may differ between
configurations: each way in which servers come about serves its own, and they are put together.

For looking, ledgers keep nothing, and in a cluster nothing is made but a short-lived pod per image.
For a campaign its namespace and password are made here.
``--context`` and ``--namespace`` take the place of what the file says.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Protocol, runtime_checkable

from steelyard.core.experiment import Experiment, Layer
from steelyard.core.outside import MadeDirectory, Outside
from steelyard.core.schedule import Pausing
from steelyard.core.target import (
    CloudNativePgTarget,
    Here,
    LocalTarget,
    RedisEndpointTarget,
    RedisKubernetesTarget,
    RedisLocalTarget,
    RentedTarget,
    Target,
)
from steelyard.core.wording import InputError, PreflightError, undo_after
from steelyard.gateways.doors import Doors
from steelyard.gateways.files import cache_directory
from steelyard.gateways.host import memory_bytes
from steelyard.gateways.workers import Workers, require_workers
from steelyard.places.kubernetes.workers import pods_beside_job
from steelyard.places.local.groups import GroupPlan, ServerGroups, pausing_of
from steelyard.places.local.machine import MadeStores, capacity
from steelyard.places.local.platform import LocalOptions, LocalPlatform
from steelyard.places.local.server import ProgramReach, server_account, staged, where_it_is
from steelyard.places.protocol import Ledger
from steelyard.record import registry
from steelyard.systems.postgres.cloudnative_pg.operator import require_installed
from steelyard.systems.postgres.engine import PostgresEngine
from steelyard.systems.postgres.factory import JoinedEngine, postgres_engine
from steelyard.systems.protocol import Engine
from steelyard.systems.redis.factory import redis_engine
from steelyard.targets import endpoint
from steelyard.targets.cloudnative_pg import clusters_made, servers_in_kubernetes
from steelyard.targets.differences import Room, shared_room
from steelyard.targets.kubernetes_site import KubernetesSite, find_site
from steelyard.targets.rds import assemble_rds
from steelyard.targets.redis_kubernetes import redis_servers_made, redis_services
from steelyard.targets.stack import Hooks, HugePageNeeds, StackMeans, StackSettings, TurnedKnobs
from steelyard.tuning.apply.kernel import kernel_doors


class NoLedger:
    """A ledger for looking only: nothing is made."""

    def created(self, thing: Outside) -> None:
        """Nothing is made."""

    def removed(self, thing: Outside) -> None:
        """Nothing was made."""


class RegistryLedger:
    """A ledger for looking at a cluster: a pod of a moment is noted in the registry alone.

    There is no record. After a death `steelyard clean` finds what the registry lists.
    """

    def __init__(self) -> None:
        self.campaign_id = f"look-{secrets.token_hex(4)}"
        self._is_noted = False
        self._there: set[str] = set()

    def created(self, thing: Outside) -> None:
        """Note it."""
        if not self._is_noted:
            registry.register(self.campaign_id, Path("no-record", self.campaign_id))
            self._is_noted = True
        registry.note(self.campaign_id, thing)
        self._there.add(thing.label)

    def removed(self, thing: Outside) -> None:
        """Forget the look when nothing of it is left, however it ended."""
        self._there.discard(thing.label)
        if not self._there:
            registry.unregister(self.campaign_id)
            self._is_noted = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly(endpoint.Servers):
    """What runs an experiment.

    Attributes:
        stack: What configurations set outside their servers; None where none does.
        site: Where in a Kubernetes cluster it works; None where it is in none.
    """

    stack: StackSettings | None = None
    site: KubernetesSite | None = None

    def close(self) -> None:
        """Remove what was made beside the platforms; a second time changes nothing.

        Raises:
            LeftBehindError: Something is still there.
        """
        try:
            self.leave()
        finally:
            if self.site is not None:
                self.site.close()


@runtime_checkable
class Assembled(Protocol):
    """A target whose class says how an experiment on targets of its kind is assembled.

    It gets the whole experiment and serves the configurations whose targets are of its kind: there
    may be others, which are assembled for themselves.
    """

    def assembled(self, asked: endpoint.Asked) -> Assembly:
        """Return engine and platforms of these configurations, as ``assemble`` does.

        Where there are others, ``put_together`` makes one assembly of all.
        """


def assemble(
    experiment: Experiment,
    doors: Doors,
    *,
    campaign_id: str = "",
    ledger: Ledger | None = None,
    told: Callable[[str], None] = lambda _: None,
) -> Assembly:
    """Return engine and platforms of an experiment; no server is started yet.

    Whoever calls closes the assembly.

    Args:
        experiment: What is to run.
        doors: To the outside.
        campaign_id: Names the live data; not needed for looking only.
        ledger: Where the platforms note what they make; None for looking only, when no program
            is copied either.
        told: Is told what takes time.

    Raises:
        PreflightError: Programs are absent.
        PrivilegeError: There is no account to run the server as.
        TargetError: An endpoint cannot be reached.
    """
    asked = endpoint.Asked(
        experiment=experiment,
        doors=doors,
        campaign_id=campaign_id,
        ledger=ledger or NoLedger(),
        runs=ledger is not None,
        told=told,
    )
    parts = []
    with ExitStack() as made:
        workers = _workers(asked)
        if workers is not None:
            asked = replace(asked, doors=replace(doors, workers=workers))
            made.callback(workers.close)
        for way in _ways_of(experiment):
            part = way(asked)
            made.callback(part.close)
            parts.append(part)
        whole = put_together(experiment, asked.doors, parts)
        made.pop_all()
    if workers is None:
        return whole
    return replace(whole, leave=partial(endpoint.leave_each, [workers.close, whole.leave]))


def _workers(request: endpoint.Asked) -> Workers | None:
    """Return the workers that have the load generators, if any; no program starts yet.

    Raises:
        PreflightError: What starts workers is not installed.
    """
    workers, ledger = request.experiment.workers, request.ledger
    if workers is None:
        return None
    require_workers()
    doors, campaign = request.doors, request.campaign_id
    there = workers.are_here and request.runs
    pods = pods_beside_job(doors.kubernetes, ledger, campaign, doors.clock) if there else None
    return Workers(
        workers,
        doors.processes,
        doors.clock,
        pods=pods,
        created=lambda path: ledger.created(MadeDirectory(path=path)),
        removed=lambda path: ledger.removed(MadeDirectory(path=path)),
    )


_Way = Callable[[endpoint.Asked], Assembly]


def _ways_of(experiment: Experiment) -> list[_Way]:
    """Return in which ways the servers of an experiment come about, each once.

    One target of a class that says its own way speaks for all of that class. What is first is
    stopped first: servers of this machine are, before the directory that all share is removed.
    """
    found: dict[object, _Way] = {}
    for target in (each.target for each in experiment.configurations):
        if isinstance(target, Assembled):
            found.setdefault(type(target), target.assembled)
        else:
            way = _way_of(target)
            found[way] = way
    return sorted(found.values(), key=lambda each: each is not _here)


def _way_of(target: Target) -> _Way:
    if target.home is not None:
        return _in_kubernetes
    if isinstance(target, RentedTarget):
        return _rented
    return _here if target.is_here else _there


def put_together(experiment: Experiment, doors: Doors, parts: Sequence[Assembly]) -> Assembly:
    """Return one assembly of several, each of which serves some of the configurations.

    Servers that are up together are one slot each, or as many as their part makes.

    Raises:
        PreflightError: No engine can drive all of them.
    """
    if len(parts) == 1:
        return parts[0]
    served = {name: part for part in parts for name in part.platforms}
    engines = {each.name: served[each.name].engine for each in experiment.configurations}
    known = {name: one for name, one in engines.items() if isinstance(one, PostgresEngine)}
    if len(known) < len(engines):
        kinds = sorted({each.target.kind for each in experiment.configurations})
        raise PreflightError(f"no load generator drives servers of {' and '.join(kinds)} alike")
    makes = [(part.slots, len(part.platforms)) for part in parts if part.slots is not None]
    return Assembly(
        engine=JoinedEngine(experiment, known, doors),
        platforms={name: part.platforms[name] for name, part in served.items()},
        stack=next((part.stack for part in parts if part.stack is not None), None),
        site=next((part.site for part in parts if part.site is not None), None),
        room=shared_room([part.room for part in parts]),
        leave=partial(endpoint.leave_each, [part.leave for part in parts]),
        slots=(lambda number: tuple(s for make, most in makes for s in make(min(number, most))))
        if len(makes) == len(parts)
        else None,
    )


def _with_stack(
    found: endpoint.Servers, stack: StackSettings | None, site: KubernetesSite | None = None
) -> Assembly:
    parts = {field.name: getattr(found, field.name) for field in fields(found)}
    return Assembly(**parts, stack=stack, site=site)


def _rented(asked: endpoint.Asked) -> Assembly:
    stack = _stack(asked)
    return _with_stack(assemble_rds(asked, _programs_here(asked)[1]), stack)


def _there(asked: endpoint.Asked) -> Assembly:
    stack = _stack(asked)
    if asked.experiment.targets_of(RedisEndpointTarget):
        return _with_stack(endpoint.assemble_redis_endpoints(asked), stack)
    return _with_stack(endpoint.assemble_endpoints(asked, _programs_here(asked)[1]), stack)


def _in_kubernetes(asked: endpoint.Asked) -> Assembly:
    look = RegistryLedger()
    inside = asked if asked.runs else replace(asked, campaign_id=look.campaign_id, ledger=look)
    experiment, stack = asked.experiment, _stack(asked)
    site = find_site(experiment, asked.doors, inside.campaign_id, inside.ledger)
    try:
        if experiment.targets_of(CloudNativePgTarget):
            require_installed(site.api)  # before permissions, which name its kind
        if asked.runs:
            site.open()
        else:
            site.require_allowed()
        makes_all = experiment.makes_all_in_kubernetes
        if experiment.targets_of(RedisKubernetesTarget):
            assembled = redis_servers_made if makes_all else redis_services
        else:
            assembled = clusters_made if makes_all else servers_in_kubernetes
        found = assembled(inside, site)
    except BaseException as error:
        undo_after(error, site.close)
        raise
    if not asked.runs:
        site.close()
    return _with_stack(found, stack, site)


def _here(asked: endpoint.Asked) -> Assembly:
    of_redis = asked.experiment.targets_of(RedisLocalTarget)
    return assemble_here(asked, redis_engine if of_redis else postgres_engine)


def _programs_here(asked: endpoint.Asked) -> tuple[str | None, ProgramReach]:
    """Return the account of servers of this machine, and where it reaches programs.

    Where no server is started here there is none; for looking only nothing is copied.
    """
    doors, targets = asked.doors, asked.experiment.targets_of(Here).values()
    account = server_account({each.run_as for each in targets if each.run_as}) if targets else None
    copied = partial(staged, account=account, processes=doors.processes)
    reach = copied if asked.runs and targets else where_it_is
    return account, reach


def assemble_here(
    asked: endpoint.Asked, making: Callable[[Experiment, Doors, str | None, ProgramReach], Engine]
) -> Assembly:
    """Return the assembly of servers that Steelyard starts on this machine, with an engine."""
    experiment, doors = asked.experiment, asked.doors
    targets, (account, reach) = experiment.targets_of(Here), _programs_here(asked)
    engine = making(experiment, doors, account, reach)
    stores = MadeStores(asked.campaign_id, asked.ledger, doors.stores, doors.volumes, doors.clock)
    ground = _Ground(
        asked=asked,
        account=account,
        templates=isinstance(engine, PostgresEngine),
        stores=stores,
    )
    stack = _stack(asked, _needs(experiment, engine, doors, account))
    with ExitStack() as made:
        made.callback(stores.remove)
        found = endpoint.Servers(
            engine=engine,
            platforms=ground.platforms(targets),
            room=ground.room(),
            leave=stores.remove,
            slots=lambda number: tuple(
                ground.platforms(targets, slot=slot) for slot in range(1, number + 1)
            ),
        )
        made.pop_all()
    return _with_stack(found, stack)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ground:
    """What all servers of a campaign on this machine share.

    Attributes:
        templates: The servers can keep copies of their data.
        stores: Makes simulated storage.
    """

    asked: endpoint.Asked
    account: str | None
    templates: bool
    stores: MadeStores

    @property
    def _is_alone(self) -> bool:
        """Return whether all servers are here.

        Those that take turns with others go on in pauses as these do: else background work would
        cost the ones and not the others. Those with generators on workers do, too.
        """
        return self.asked.experiment.is_all_here and self.asked.doors.workers is None

    @property
    def _pausing(self) -> Pausing:
        return pausing_of(self.asked.doors.cgroups) if self._is_alone else Pausing.GENERATOR

    def platforms(
        self, targets: Mapping[str, Here], *, slot: int | None = None
    ) -> dict[str, LocalPlatform]:
        """Return the platform of each configuration; those on one target share one.

        Where there are slots, a port that is asked for is that of the first.
        """
        by_place: dict[tuple[Path, int | None], LocalPlatform] = {}
        roots = {name: self._root(target) for name, target in targets.items()}
        for name, target in targets.items():
            key = roots[name], target.port
            if key not in by_place:
                port = target.port if slot in (None, 1) else None
                by_place[key] = self._platform(key[0], port, slot, len(by_place))
        return {name: by_place[roots[name], target.port] for name, target in targets.items()}

    def _root(self, target: Here) -> Path:
        """Return where a target's data lie; for looking only, where its storage would be made."""
        root = data_root(target)
        if target.store is None or not self.asked.runs:
            return root
        return self.stores.volume(root, target.store)

    def _platform(
        self, root: Path, port: int | None, slot: int | None, number: int
    ) -> LocalPlatform:
        doors, ledger, campaign_id = self.asked.doors, self.asked.ledger, self.asked.campaign_id
        options = LocalOptions(
            root=root,
            campaign_id=campaign_id,
            account=self.account,
            port=port,
            templates=self.templates,
            slot=slot,
            goes_on=not self._is_alone,
            refill=self.stores.refill,
        )
        place = (slot or 0) * _PLACES_OF_A_SLOT + number
        plan = GroupPlan(
            name=f"steelyard-{campaign_id}{f'-{place + 1}' if place else ''}",
            keys=frozenset(
                key
                for configuration in self.asked.experiment.configurations
                for key in configuration.asked(Layer.CGROUP)
            ),
            place=root,
            pausing=slot is not None and self._pausing is Pausing.FREEZER,
        )
        needed = plan.keys or plan.pausing
        groups = ServerGroups(plan, doors.cgroups, ledger, doors.clock) if needed else None
        return LocalPlatform(
            options, ledger, doors.processes, doors.clock, groups, workers=doors.workers
        )

    def room(self) -> Room:
        """Return what this machine offers to servers that are up together."""
        host = self.asked.doors.host
        available = memory_bytes(host.read("/proc/meminfo"))
        usable = capacity(host).memory_bytes
        return Room(
            pausing=self._pausing,
            memory_bytes=min(usable, available.get("MemAvailable", usable)),
            huge_page_bytes=available.get("HugePages_Free", 0) * available.get("Hugepagesize", 0)
            if available.get("HugePages_Total", 0)
            else None,
        )


_PLACES_OF_A_SLOT = 100  # more than one experiment has directories


def _needs(
    experiment: Experiment, engine: Engine, doors: Doors, account: str | None
) -> HugePageNeeds | None:
    if not isinstance(engine, PostgresEngine):
        return None
    installations = {
        name: engine.program(name).installation for name in experiment.targets_of(LocalTarget)
    }
    return HugePageNeeds(installations, doors.processes, account, doors.host)


def _stack(asked: endpoint.Asked, needs: HugePageNeeds | None = None) -> StackSettings | None:
    experiment, doors = asked.experiment, asked.doors
    if not any(
        configuration.manual or configuration.asked(Layer.LINUX)
        for configuration in experiment.configurations
    ):
        return None
    places = {name: data_root(target) for name, target in experiment.targets_of(Here).items()}
    means = StackMeans(
        doors=kernel_doors(doors.host, doors.kernel),
        host=doors.host,
        latency=doors.latency,
        hooks=Hooks(processes=doors.processes, operator=doors.operator),
        ledger=TurnedKnobs(asked.ledger),
        devices={name: doors.cgroups.device(place) for name, place in places.items()},
        needs=needs,
    )
    return StackSettings(experiment, means)


def data_root(target: Here) -> Path:
    """Return where a target's prepared states and live data lie."""
    return Path(target.directory).absolute() if target.directory else cache_directory()


def placed(experiment: Experiment, *, context: str | None, namespace: str | None) -> Experiment:
    """Return the experiment with all its targets in this context and namespace, where given.

    Raises:
        InputError: None of its targets is in Kubernetes.
    """
    given = {"--context": context, "--namespace": namespace}
    options = [option for option, value in given.items() if value is not None]
    if not options:
        return experiment
    if not experiment.is_in_kubernetes:
        raise InputError(
            f"{' and '.join(options)} are for targets in Kubernetes, and the experiment has none",
            hint="Leave it out, or give a target: --target kubernetes.",
        )
    return moved(experiment, context, namespace)


def moved(experiment: Experiment, context: str | None, namespace: str | None = None) -> Experiment:
    """Return an experiment with its targets in Kubernetes elsewhere; None leaves them."""
    return experiment.with_targets(lambda target: _moved(target, context, namespace))


def settled(experiment: Experiment, assembly: Assembly) -> Experiment:
    """Return an experiment that names its context: tomorrow another one may be the current.

    In a pod there is none.
    """
    site = assembly.site
    if site is None or site.api.is_inside:
        return experiment
    return moved(experiment, site.api.context)


def _moved(target: Target, context: str | None, namespace: str | None) -> Target:
    place = target.home
    if place is None:
        return target
    namespace = namespace or place.namespace
    return target.at(replace(place, context=context or place.context, namespace=namespace))
