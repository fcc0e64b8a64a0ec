"""From an experiment on running servers, PostgreSQL or Redis, to its engine and platforms.

What every way in which servers come about is asked, and what it gives, stands here, too: the other
ways build on this one.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeVar

from steelyard.core.experiment import Configuration, Experiment, Layer, Setting, SwitchCost
from steelyard.core.outside import ServerAddress
from steelyard.core.redis import needs_restart
from steelyard.core.schedule import Pausing
from steelyard.core.target import (
    EndpointTarget,
    RedisEndpointTarget,
    RedisKubernetesTarget,
    Target,
    There,
)
from steelyard.core.wording import PreflightError, RefusedError, TargetError
from steelyard.gateways.doors import Doors
from steelyard.gateways.redis import own_password
from steelyard.gateways.sql import INVALID_VALUE, TIMED_OUT, Sql
from steelyard.places.local.server import ProgramReach
from steelyard.places.protocol import Ledger, Platform
from steelyard.systems.existing import ServerPlace
from steelyard.systems.postgres import factory
from steelyard.systems.postgres.existing import platform as postgres
from steelyard.systems.postgres.existing import server as existing_server
from steelyard.systems.postgres.settings import beyond_sessions, deviations
from steelyard.systems.protocol import Dataset, Engine
from steelyard.systems.redis import factory as redis_factory
from steelyard.systems.redis.datasets import dataset_of, datasets_of, growth_bytes
from steelyard.systems.redis.existing import readiness as redis_readiness
from steelyard.systems.redis.existing.platform import RedisEndpointOptions, RedisEndpointPlatform
from steelyard.systems.redis.settings import command_of, rights_of
from steelyard.targets.differences import Room, can_alternate, limits_to_lift


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is assembled.

    Attributes:
        experiment: As a whole: it may have servers that come about in other ways.
        campaign_id: In names and labels; for looking none, or one of a moment.
        ledger: Is told what is made, before it is.
        runs: The campaign begins, and what it needs is made. Else all is looked at, and what can
            be known to fail fails.
        told: Is told what goes on, which takes seconds.
    """

    experiment: Experiment
    doors: Doors
    campaign_id: str
    ledger: Ledger
    runs: bool
    told: Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """What runs those configurations of an experiment whose servers come about in one way.

    Attributes:
        platforms: Of each configuration, by name; configurations on one target share one.
        room: What the place offers to servers that are up together.
        slots: Makes so many places for them, each with the platforms of the configurations it can
            take; None: it cannot.
        leave: Removes further what was made; a second time changes nothing.
    """

    engine: Engine
    platforms: Mapping[str, Platform]
    room: Room = field(default_factory=Room)
    slots: Callable[[int], tuple[Mapping[str, Platform], ...]] | None = None
    leave: Callable[[], None] = lambda: None


def one_each(
    platforms: Mapping[str, Platform],
) -> tuple[Mapping[str, Platform], ...]:
    """Return a slot for each configuration, with its platform."""
    return tuple({name: platform} for name, platform in platforms.items())


def leave_each(leaves: Iterable[Callable[[], None]]) -> None:
    """Remove what was made beside platforms and site, each whatever becomes of others."""
    with ExitStack() as leaving:
        for leave in leaves:
            leaving.callback(leave)


def assemble_endpoints(asked: Asked, reach: ProgramReach) -> Servers:
    """Return the engine and each configuration's platform, of those that are at an endpoint.

    The servers are asked, nothing is changed. The generator runs as servers of this machine do:
    one drives all.

    Raises:
        TargetError: A server cannot be reached.
        PreflightError: Two targets lead to one database, or to databases of one server whose
            configurations differ in more than settings of a session; or there is no pgbench.
    """
    experiment, doors = asked.experiment, asked.doors
    targets = {
        n: each for n, each in experiment.targets_of(EndpointTarget).items() if each.home is None
    }
    entrances = {
        target: doors.sql.reach(
            postgres.keywords_of(target), any_database=not target.allow_existing
        )
        for target in targets.values()
    }
    together = _databases_of_one_server(entrances, doors.sql)
    pooled = {target: doors.sql.is_pooled(address) for target, address in entrances.items()}
    clients = max(load.clients for load in experiment.loads)
    protocols = {each.protocol or experiment.protocol for each in experiment.configurations}
    for target, is_pooled in pooled.items():
        if is_pooled:
            postgres.require_pool(
                entrances[target], doors.sql, clients=clients, prepared="prepared" in protocols
            )
    servers = {
        target: factory.read_running(address, doors.sql) for target, address in entrances.items()
    }
    engine = factory.endpoint_engine(
        experiment, {name: servers[target] for name, target in targets.items()}, doors, reach
    )
    changed = _with_own_data(experiment, targets.values())
    for group in (*together, *((target,) for target in changed)):
        _require_own_settings(experiment, {each: servers[each] for each in group}, doors.sql)
    room = _room(experiment, engine, entrances, together, doors.sql)
    alternates = can_alternate(experiment, engine, room)
    ground = _Ground(
        asked=asked,
        engine=engine,
        shared=experiment.shared_servers if alternates else {},
        together=together,
        changed=changed,
        alternates=alternates,
        lifts=bool(room.lifted),
    )
    options = {
        target: ground.options(target, entrances[target], server, is_pooled=pooled[target])
        for target, server in servers.items()
    }
    platforms = {
        target: postgres.EndpointPlatform(each, asked.ledger, doors)
        for target, each in options.items()
    }
    # With data of their own they are sessions, however they are brought together.
    apart = {
        name: ground.seat(name, platforms[target], options[target])
        for name, target in targets.items()
        if target in changed
    }
    return Servers(
        engine=engine,
        platforms={name: platforms[target] for name, target in targets.items()} | apart,
        room=room,
        slots=lambda _: one_each(
            {
                name: apart.get(name) or ground.seat(name, platforms[target], options[target])
                for name, target in targets.items()
            }
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ground:
    """What all servers of a campaign have in common.

    Attributes:
        shared: Servers on which several configurations take turns, by sessions of their own.
        together: Targets that are databases of one server, by server.
        changed: Targets whose configurations have data of their own there.
        alternates: The configurations take turns.
        lifts: Sessions of the load go without limits that would end them in pauses.
    """

    asked: Asked
    engine: factory.EndpointEngine
    shared: Mapping[There, tuple[str, ...]]
    together: Sequence[Sequence[EndpointTarget]]
    changed: Collection[EndpointTarget]
    alternates: bool
    lifts: bool

    def options(
        self,
        target: EndpointTarget,
        entrance: ServerAddress,
        server: factory.RunningServer,
        *,
        is_pooled: bool,
    ) -> postgres.EndpointOptions:
        """Return how a server is used."""
        experiment, sql = self.asked.experiment, self.asked.doors.sql
        names = settings_on(experiment, target)
        beside = next((group for group in self.together if target in group), ())
        has_sessions = target in self.shared or target in self.changed or bool(beside)
        name = next(each.name for each in _on(experiment, target))
        restarts = not has_sessions and restarts_on(experiment, target, names, server)
        at_once = sum(len(_on(experiment, each)) for each in beside or (target,))
        return replace(
            use_of(self.asked, self.engine, target, target, entrance),
            restarts=restarts,
            at_once=at_once if self.alternates else 1,
            sessions=has_sessions
            or (not restarts and fit_sessions(experiment, target, server, entrance, sql)),
            alters=not server.not_alterable(names),
            lifted=limits_to_lift(experiment, self.engine, target) if self.lifts else {},
            is_pooled=is_pooled,
            passes=not is_pooled or passes_options(entrance, sql),
            copied=self.engine.copies(name),
            obstacles=obstacles_on(
                experiment, target, server, allowed=target.allow_existing, is_pooled=is_pooled
            ),
        )

    def seat(
        self,
        configuration: str,
        server: postgres.EndpointPlatform,
        options: postgres.EndpointOptions,
    ) -> postgres.EndpointPlatform:
        """Return a configuration's server, or where it has several its sessions."""
        names = tuple(each.name for each in _on(self.asked.experiment, options.target))
        if options.target not in self.shared and options.target not in self.changed:
            return server
        own = None
        if options.target in self.changed:
            change = partial(self.engine.change_own, configuration=configuration)
            has_own = bool(self.asked.experiment.configuration(configuration).prepare)
            own = postgres.OwnData(
                build=partial(self.engine.build_common, configuration=configuration),
                change=change if has_own else None,
            )
        return postgres.EndpointSessions(
            options,
            self.asked.ledger,
            self.asked.doors,
            server=server,
            number=names.index(configuration) + 1 if self.engine.writes() or own else None,
            own=own,
        )


def use_of(
    asked: Asked, engine: Engine, target: Target, named: EndpointTarget, entrance: ServerAddress
) -> postgres.EndpointOptions:
    """Return how a server is used, ``named`` as an endpoint, whose settings are as they are."""
    return postgres.EndpointOptions(
        target=named,
        entrance=entrance,
        campaign_id=asked.campaign_id,
        datasets=dataset_needs(engine.datasets()),
        settings=settings_on(asked.experiment, target),
        restarts=False,
        clients=max(load.clients for load in asked.experiment.loads),
        writes=engine.writes(),
    )


def _with_own_data(
    experiment: Experiment, targets: Iterable[EndpointTarget]
) -> tuple[EndpointTarget, ...]:
    """Return targets on which a configuration changes its data, each once."""
    distinct = dict.fromkeys(targets)
    return tuple(t for t in distinct if any(each.prepare for each in _on(experiment, t)))


def _room(
    experiment: Experiment,
    engine: Engine,
    entrances: Mapping[EndpointTarget, ServerAddress],
    together: Sequence[Sequence[EndpointTarget]],
    sql: Sql,
) -> Room:
    """Return what servers offer that go on in pauses; their sessions are tried where they differ.

    They are tried only where nothing else keeps the configurations from taking turns.
    """
    of_one = tuple(
        tuple(each.name for each in experiment.configurations if each.target in group)
        for group in together
    )
    room = Room(pausing=Pausing.GENERATOR, of_one=of_one)
    if not can_alternate(experiment, engine, room):
        return room
    lifted = {target: limits_to_lift(experiment, engine, target) for target in entrances}
    mixed = next(_troubles_in_turns(experiment, lifted, entrances, sql), "")
    if mixed:
        return replace(room, mixed_sessions=mixed)
    return replace(room, lifted={n: v for each in lifted.values() for n, v in each.items()})


def _troubles_in_turns(
    experiment: Experiment,
    lifted: Mapping[EndpointTarget, Mapping[str, str]],
    entrances: Mapping[EndpointTarget, ServerAddress],
    sql: Sql,
) -> Iterator[str]:
    for target, entrance in entrances.items():
        without = dict.fromkeys(lifted[target], "0")
        names = experiment.shared_servers.get(target, ())
        wanted = [{**experiment.configuration(each).asked(), **without} for each in names]
        yield from _troubles(wanted or ([without] if without else []), entrance, sql)


# A session may have them, but it is autovacuum that works by them.
_OF_VACUUM: Final = ("maintenance_", "vacuum_", "default_statistics_target")
_REFUSED: Final = "unsupported startup parameter"  # PgBouncer, of what it does not track


def _troubles(
    wanted: Sequence[Mapping[str, str]], entrance: ServerAddress, sql: Sql
) -> Iterator[str]:
    """Yield why sessions on a server cannot have these settings for themselves.

    Raises:
        PreflightError: No session works with one of the values; ALTER SYSTEM is no way out.
    """
    if not wanted:
        return
    try:
        if mixed := postgres.mixed_sessions(entrance, sql):
            yield mixed
        for values in wanted:
            shown = postgres.shown_settings(values, entrance, sql)
            settings = [Setting(layer=Layer.POSTGRES, name=n, value=v) for n, v in values.items()]
            for deviation in deviations(settings, shown):
                yield f"a session does not get what it asks for by libpq's `options`: {deviation}"
    except TargetError as error:
        if isinstance(error, RefusedError) and error.code in (INVALID_VALUE, TIMED_OUT):
            names = dict.fromkeys(name for values in wanted for name in values)
            culprits = [n for n in names if n.lower() in error.message.lower()] or names
            raise PreflightError(
                f"no session works with these settings: {error.message}",
                hint=f"Correct {' or '.join(f'`{name}`' for name in culprits)}.",
            ) from error
        if _REFUSED in error.message:
            yield "a pooler in between refuses libpq's `options`, by which a session has settings"
            return
        yield f"sessions there have no settings of their own: {error.message}"


def passes_options(entrance: ServerAddress, sql: Sql) -> bool:
    """Return whether sessions there get what they ask for by libpq's ``options``.

    A pooler may refuse or drop them, or give a transaction to a session of somebody else's.
    """
    wanted = [{existing_server.READ_ONLY: value} for value in ("on", "off")]
    return next(_troubles(wanted, entrance, sql), None) is None


def fit_sessions(
    experiment: Experiment,
    target: EndpointTarget,
    server: factory.RunningServer,
    entrance: ServerAddress,
    sql: Sql,
) -> bool:
    """Return whether sessions may have all settings for themselves, and have them when tried.

    Then nothing is changed for anybody else.
    """
    names = settings_on(experiment, target)
    if not names or beyond_sessions(names, server.catalogue):
        return False
    if any(name.startswith(_OF_VACUUM) for name in names):
        return False
    asking = [each.asked() for each in _on(experiment, target)]
    return next(_troubles(asking, entrance, sql), None) is None


# What is above the server's files, by its name in pg_settings, with the way out. `override` is also
# that of values that the server finds itself, such as wal_buffers = -1 (up to 14).
_ABOVE: Final = {
    "command line": (
        "on the command line of the server",
        "Take {name} from there (a container's `command:`, Patroni), and restart the server.",
    ),
    "global": ("for all users (ALTER ROLE ALL)", "ALTER ROLE ALL RESET {name}."),
    "database": (
        "for the database {database} (ALTER DATABASE)",
        "ALTER DATABASE {database} RESET {name}.",
    ),
    "user": ("for the user {user} (ALTER ROLE)", "ALTER ROLE {user} RESET {name}."),
    "database user": (
        "for the user {user} in the database {database} (ALTER ROLE)",
        "ALTER ROLE {user} IN DATABASE {database} RESET {name}.",
    ),
    "client": (
        "for these sessions by libpq's `options`",
        "Leave {name} out of PGOPTIONS and of the target.",
    ),
    "override": ("by the server itself", "Leave {name} out."),
}
_OF_DATABASE: Final = ("database", "database user")


def obstacles_on(
    experiment: Experiment,
    target: Target,
    server: factory.RunningServer,
    *,
    allowed: bool,
    is_pooled: bool = False,
) -> tuple[tuple[str, str], ...]:
    """Return what keeps a change for everyone from the sessions of a load, each with the way out.

    Args:
        experiment: What it asks for and is in force already meets no obstacle.
        target: Of the configurations that share the server.
        server: As a session of the same user saw it.
        allowed: The load runs in the database of that session, not in one of Steelyard's own.
        is_pooled: A pooler is in between, whose sessions on the server go on.
    """
    wanted = [
        setting
        for configuration in _on(experiment, target)
        for setting in configuration.settings
        if setting.layer is Layer.POSTGRES
    ]
    names = settings_on(experiment, target)
    restarts = restarts_on(experiment, target, names, server)
    waiting = [
        (
            f"`{name}` was changed on the server and waits for a restart",
            f"Restart the server first, or take the change of {name} back.",
        )
        for name in server.pending
        if restarts or name.lower() in names
    ]
    kept = [
        (
            f"`{name}` is read when a session begins, and a pooler goes on with those that it has",
            f"Name the server itself to try {name}.",
        )
        for name in names
        if is_pooled and not restarts
        if name.endswith("_preload_libraries")
        or ((entry := server.catalogue.get(name)) and entry.context.endswith("backend"))
    ]
    return (*dict.fromkeys(_set_above(wanted, server, allowed=allowed)), *waiting, *kept)


def _set_above(
    wanted: Sequence[Setting], server: factory.RunningServer, *, allowed: bool
) -> Iterator[tuple[str, str]]:
    there = server.address or ServerAddress(host="", port=0)
    for setting in wanted:
        now = server.in_force.get(setting.name.lower())
        if now is None or now.source not in _ABOVE or not deviations((setting,), (now,)):
            continue
        if now.source in _OF_DATABASE and not allowed:
            continue
        where, way = _ABOVE[now.source]
        at = where.format(user=there.user, database=there.database)
        user, database = (
            existing_server.identifier(there.user),
            existing_server.identifier(there.database),
        )
        yield (
            f"`{now.name}` is set {at}; a change for everyone does not reach it",
            way.format(name=now.name, user=user, database=database),
        )


def dataset_needs(datasets: Sequence[Dataset]) -> tuple[existing_server.DatasetNeeds, ...]:
    """Return what the data sets need on a server that is there already."""
    return tuple(
        existing_server.DatasetNeeds(
            name=each.name,
            tables=each.scale is not None,
            scripts=bool(each.prepare or each.command or each.is_copied),
            is_copied=each.is_copied,
        )
        for each in datasets
    )


def settings_on(experiment: Experiment, target: Target) -> tuple[str, ...]:
    """Return the names of all settings that any configuration on a server asks for."""
    return tuple(sorted({name for name, _ in _values_on(experiment, target)}))


def _values_on(experiment: Experiment, target: Target) -> tuple[tuple[str, str], ...]:
    asked = (each.asked_folded().items() for each in _on(experiment, target))
    return tuple(sorted({pair for pairs in asked for pair in pairs}))


def _on(experiment: Experiment, target: Target) -> list[Configuration]:
    return [each for each in experiment.configurations if each.target == target]


def restarts_on(
    experiment: Experiment, target: Target, names: tuple[str, ...], server: factory.RunningServer
) -> bool:
    """Return whether every start restarts the server: then all configurations are alike."""
    if not target.is_restarted:
        return False
    several = len({configuration.target for configuration in experiment.configurations}) > 1
    known = [server.catalogue[name] for name in names if name in server.catalogue]
    needed = several or any(entry.context == "postmaster" for entry in known)
    return needed or experiment.measure.switch is SwitchCost.RESTART


def _databases_of_one_server(
    entrances: Mapping[EndpointTarget, ServerAddress], sql: Sql
) -> tuple[tuple[EndpointTarget, ...], ...]:
    """Return the targets that are databases of one server, by server where there are several.

    Raises:
        PreflightError: Two lead to one database, or to databases that Steelyard makes there.
    """
    statement = f"{existing_server.STARTED_AT}, current_setting('port'), current_database()"
    found: dict[object, dict[EndpointTarget, object]] = {}
    for target, address in entrances.items():
        *server, database = sql.rows(address, statement)[0]
        found.setdefault(repr(server), {})[target] = database
    several = [databases for databases in found.values() if len(databases) > 1]
    for databases in several:
        there = {name for target, name in databases.items() if target.allow_existing}
        _require_as_many(there, databases, way=_TWO_DATABASES)
    return tuple(map(tuple, several))


def _require_own_settings(
    experiment: Experiment, servers: Mapping[EndpointTarget, factory.RunningServer], sql: Sql
) -> None:
    """Raise where what one of the databases of a server needs would change the others, too.

    Raises:
        PreflightError: A setting is for all sessions of the server, or a target is restarted.
    """
    names = {
        f"`{name}`"
        for target, server in servers.items()
        if server.address and not fit_sessions(experiment, target, server, server.address, sql)
        for asked in [settings_on(experiment, target)]
        for name in beyond_sessions(asked, server.catalogue) or asked
    }
    if any(target.is_restarted for target in servers):
        names.add("`restart_command`")
    if names:
        raise PreflightError(
            "configurations have databases of their own on one server, and all of it has"
            f" {', '.join(sorted(names))} in common",
            hint="Leave it out, or set it there before, for both. Settings that any session may"
            " have for itself (work_mem, jit) may differ.",
        )


def require_different_servers(entrances: Collection[ServerAddress], sql: Sql) -> None:
    """Raise when two targets lead to one server: each would keep the other's settings.

    Raises:
        PreflightError: They do.
    """
    statement = f"{existing_server.STARTED_AT}, current_setting('port')"
    seen = {repr(sql.rows(address, statement)) for address in entrances}
    _require_as_many(seen, entrances)


_TWO_DATABASES: Final = (
    " Two existing databases of one server may be compared: give each target its `dbname:` and"
    " `allow_existing: true`."
)


def _require_as_many(
    servers: Collection[object], targets: Collection[object], *, way: str = ""
) -> None:
    if len(servers) < len(targets):
        raise PreflightError(
            "two targets of the experiment lead to the same server",
            hint=f"Write the target once, in a configuration that the others extend.{way}",
        )


def assemble_redis_endpoints(asked: Asked) -> Servers:
    """Return the engine and each configuration's platform.

    The servers are asked, nothing is changed.

    Raises:
        TargetError: A server cannot be reached.
        PreflightError: Two targets lead to one server, or there is no load generator.
    """
    experiment, doors = asked.experiment, asked.doors
    targets = experiment.targets_of(RedisEndpointTarget)
    platforms = {
        target: (_options(experiment, target, asked.campaign_id), None)
        for target in dict.fromkeys(targets.values())
    }
    addresses = {name: redis_readiness.address_of(target, "") for name, target in targets.items()}
    return redis_servers(
        asked,
        targets,
        platforms,
        lambda servers: redis_factory.redis_endpoint_engine(experiment, servers, addresses, doors),
        takes_turns=True,
    )


RedisT = TypeVar("RedisT", RedisEndpointTarget, RedisKubernetesTarget)


def redis_servers(
    asked: Asked,
    targets: Mapping[str, RedisT],
    used: Mapping[RedisT, tuple[RedisEndpointOptions, ServerPlace | None]],
    make_engine: Callable[[Mapping[str, redis_readiness.ServerState]], Engine],
    *,
    takes_turns: bool,
) -> Servers:
    """Return what runs Redis servers that are there: how each is used, and where it is.

    Raises:
        TargetError: A server cannot be reached.
        PreflightError: Two targets lead to one server, or there is no load generator.
    """
    platforms = {
        target: RedisEndpointPlatform(options, asked.ledger, asked.doors, place)
        for target, (options, place) in used.items()
    }
    states = {target: platform.state for target, platform in platforms.items()}
    # Each would keep the other's settings.
    _require_as_many({state.run_id or str(n) for n, state in enumerate(states.values())}, states)
    by_name = {name: platforms[target] for name, target in targets.items()}
    return Servers(
        engine=make_engine({name: states[target] for name, target in targets.items()}),
        platforms=by_name,
        room=Room(pausing=Pausing.GENERATOR) if takes_turns else Room(),
        slots=(lambda _: one_each(by_name)) if takes_turns else None,
    )


def _options(
    experiment: Experiment, target: RedisEndpointTarget, campaign_id: str
) -> RedisEndpointOptions:
    options = redis_options(
        experiment, target, campaign_id, entrance=redis_readiness.address_of(target, own_password())
    )
    several = len({configuration.target for configuration in experiment.configurations}) > 1
    asked = experiment.measure.switch is SwitchCost.RESTART
    # Where one start restarts the server, every one does: all starts are alike then.
    restarts = several or asked or any(needs_restart(name) for name in options.settings)
    return replace(
        options,
        first=redis_readiness.asked_number(target),
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
    needs = {each.name: each.expected_memory_bytes for each in datasets_of(experiment.workloads)}
    for workload in experiment.workloads:
        needs[dataset_of(workload).name] += growth_bytes(workload) or 0
    return RedisEndpointOptions(
        entrance=entrance,
        campaign_id=campaign_id,
        datasets=tuple(needs.items()),
        growing=tuple(each.name for each in experiment.workloads if growth_bytes(each) is None),
        settings=settings_on(experiment, target),
        asked=_values_on(experiment, target),
        allow_existing=target.allow_existing,
        clients=max(load.clients for load in experiment.loads),
        guest=rights_of(experiment.workloads),
        commands=tuple(map(command_of, experiment.workloads)),
    )
