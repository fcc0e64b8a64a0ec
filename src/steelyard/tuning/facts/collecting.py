"""Everything that can be seen of a stack from where one looks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from steelyard.core.errors import TargetError
from steelyard.core.linux import LinuxFacts
from steelyard.core.stack_facts import DomainFacts, Origin, StackFacts
from steelyard.gateways.clock import Clock
from steelyard.gateways.host import Host, instance_type
from steelyard.gateways.placed_files import FetchedHost
from steelyard.gateways.process import Processes
from steelyard.gateways.redis import RedisDoor, RedisPy
from steelyard.gateways.sql import Sql, parsed_uri
from steelyard.gateways.ssh import SshMachine, parse_destination
from steelyard.tuning.facts.file import Found, hidden, seen, unknown
from steelyard.tuning.facts.kubernetes import collect_kubernetes
from steelyard.tuning.facts.linux import collect_linux, measure_wakeups, steal, with_finds
from steelyard.tuning.facts.machine import device_places, mount_of
from steelyard.tuning.facts.postgres import ServerSight, collect_postgres, pool_users, processes_of
from steelyard.tuning.facts.redis import RedisSight, collect_redis, redis_address
from steelyard.tuning.facts.wanted import wanted_at_first, wanted_later

_APART_S: Final = 1.0  # between the two looks
_USUAL_PLACES: Final = ("/var/lib/postgresql", "/var/lib/pgsql")
_NO_HYPERVISOR: Final = "a virtual machine does not see the hypervisor: collect its facts there"
_NO_SERVER: Final = "no server was asked: name one with --dsn URI"
_NO_REDIS: Final = "no Redis server was asked: name one with --redis URI"
_STAT: Final = "/proc/stat"

# Facts of the virtual machines of a hypervisor, None where they cannot be seen.
Domains = Callable[[], tuple[tuple[DomainFacts, ...] | None, Mapping[str, Origin]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Where to look, and for what.

    Attributes:
        on: Another machine as ``ssh://host``; None: this one.
        dsn: URI of a server, without a password; None: no server is asked.
        redis: URIs of Redis servers, without passwords.
        data_directory: Whose disk to look at; the server's own by default, else the usual ones.
        ping_pong: Measure what a wake-up costs.
        metadata: Ask the cloud's metadata service for the instance type.
    """

    on: str | None = None
    dsn: str | None = None
    redis: tuple[str, ...] = ()
    data_directory: str | None = None
    ping_pong: bool = True
    metadata: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FactDoors:
    """The gateways that facts come through.

    Attributes:
        host: This machine.
        domains: Collects the domains of this machine; None: nobody looks for them.
    """

    host: Host
    processes: Processes
    sql: Sql
    clock: Clock
    redis: RedisDoor = field(default_factory=RedisPy)
    domains: Domains | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machine:
    """The files of a machine and the facts that were made of them."""

    host: Host
    facts: LinuxFacts
    origins: Mapping[str, Origin]


def collect(asked: Asked, doors: FactDoors) -> StackFacts:
    """Return what can be seen of the stack.

    Raises:
        InputError: An address is none, or holds a password.
        TargetError: The machine or the server cannot be reached.
    """
    machine = None
    if asked.on is not None:
        machine = SshMachine(destination=parse_destination(asked.on), processes=doors.processes)
    server, caches = _server(asked, doors), _redis_servers(asked, doors)
    facts = with_redis(StackFacts(), caches)
    if server is None:
        facts = _with_origins(facts, {"postgres": unknown(_NO_SERVER).origin})
    else:
        facts = replace(_with_origins(facts, server.origins), postgres=server.facts)
    asked_of = [*([] if server is None else [server.is_here]), *(each.is_here for each in caches)]
    if machine is None and asked_of and not any(asked_of):
        return _without_machine(facts)
    directories = _directories(asked, server, caches)
    if machine is None:
        seen_here = _with_machine(facts, _here(directories, asked, doors), asked, doors)
        return _with_later_processes(seen_here, doors.host)
    return _with_machine(facts, _there(directories, machine, doors), asked, doors)


def _with_later_processes(facts: StackFacts, host: Host) -> StackFacts:
    """Return the facts with processes that the server has started since it was asked.

    They may be among those that hold huge pages, who were looked at later.
    """
    server = facts.postgres
    if server is None or not server.processes:
        return facts
    later = processes_of(host, server.processes[0])
    known = tuple(dict.fromkeys((*server.processes, *later)))
    return replace(facts, postgres=replace(server, processes=known))


def _with_origins(facts: StackFacts, origins: Mapping[str, Origin]) -> StackFacts:
    return replace(facts, origins={**facts.origins, **origins})


def _server(asked: Asked, doors: FactDoors) -> ServerSight | None:
    if asked.dsn is None:
        return None
    address = doors.sql.reach(parsed_uri(asked.dsn))
    # A server of another machine has no processes here, whatever address a tunnel gives it.
    host = doors.host if asked.on is None else FetchedHost()
    return collect_postgres(doors.sql, address, host)


def _redis_servers(asked: Asked, doors: FactDoors) -> tuple[RedisSight, ...]:
    host = doors.host if asked.on is None else FetchedHost()
    return tuple(collect_redis(doors.redis, redis_address(uri), host) for uri in asked.redis)


def with_redis(facts: StackFacts, caches: tuple[RedisSight, ...]) -> StackFacts:
    """Return the facts with Redis servers, or with the reason that there are none."""
    if not caches:
        return _with_origins(facts, {"redis": unknown(_NO_REDIS).origin})
    origins = {path: origin for each in caches for path, origin in each.origins.items()}
    return replace(
        _with_origins(facts, {"redis": Origin(source="the servers named by --redis"), **origins}),
        redis=tuple(each.facts for each in caches),
    )


def _directories(
    asked: Asked, server: ServerSight | None, caches: tuple[RedisSight, ...]
) -> tuple[str, ...]:
    """Return where the data may be, the surest first."""
    if asked.data_directory is not None:
        return (asked.data_directory,)
    if server is not None and server.data_directory is not None:
        return (server.data_directory,)
    told = tuple(each.directory for each in caches if each.directory is not None and each.is_here)
    return told or _USUAL_PLACES


def _without_machine(facts: StackFacts) -> StackFacts:
    reason = "the server runs on another machine, or in a container: name it with --on ssh://HOST"
    absent = hidden(reason).origin
    layers = ("linux", "hypervisor", "domains", "kubernetes", "storage")
    return _with_origins(facts, dict.fromkeys(layers, absent))


def _here(directories: tuple[str, ...], asked: Asked, doors: FactDoors) -> _Machine:
    host, clock = doors.host, doors.clock
    found = [path for name in directories if (path := Path(name).resolve()).is_dir()]
    facts, origins = collect_linux(host, str(found[0]) if found else None)
    begun, before = clock.monotonic(), host.read(_STAT)
    finds = {}
    if asked.ping_pong:
        finds["ping_pong"] = measure_wakeups(facts, doors.processes)
    if asked.metadata:
        finds["instance_type"] = _asked_cloud()
    clock.sleep(max(0.0, _APART_S - (clock.monotonic() - begun)))
    finds["steal_fraction"] = steal(before, host.read(_STAT))
    facts, origins = with_finds(facts, origins, finds)
    return _Machine(host=host, facts=facts, origins=origins)


def _there(directories: tuple[str, ...], machine: SshMachine, doors: FactDoors) -> _Machine:
    """Return a machine elsewhere after two looks, each one call of ssh."""
    first = machine.fetch(wanted_at_first(directories))
    resolved = [first.resolved[name] for name in directories if name in first.resolved]
    directory = resolved[0] if resolved else None
    places = device_places(mount_of(first, directory)) if directory else ()
    pids = tuple(user.pid for user in pool_users(first).value or ())
    doors.clock.sleep(_APART_S)
    second = machine.fetch(wanted_later(places, pids))
    host = second.with_more(first)
    facts, origins = collect_linux(host, directory)
    finds = {
        "steal_fraction": steal(first.read(_STAT), second.read(_STAT)),
        "ping_pong": unknown("nothing of ours runs over there"),
    }
    facts, origins = with_finds(facts, origins, finds)
    return _Machine(host=host, facts=facts, origins=origins)


def _with_machine(
    facts: StackFacts, machine: _Machine, asked: Asked, doors: FactDoors
) -> StackFacts:
    linux = machine.facts
    kubernetes, of_kubernetes = collect_kubernetes(machine.host, linux)
    facts = replace(
        facts,
        linux=linux,
        kubernetes=kubernetes,
        storage=linux.device.kind if linux.device else None,
        origins={
            **facts.origins,
            **machine.origins,
            **of_kubernetes,
            "storage": machine.origins["linux.device"],
        },
    )
    return _with_hypervisor(facts, asked, doors)


def _with_hypervisor(facts: StackFacts, asked: Asked, doors: FactDoors) -> StackFacts:
    """Return the facts with those of the hypervisor: this machine where none is below it.

    A virtual machine that has virtual machines of its own is their hypervisor.
    """
    domains, told = _domains(asked, doors)
    unread = any(path.startswith("domains.") for path in told)
    if facts.linux is None or (facts.linux.virtualization != "none" and not domains and not unread):
        absent = hidden(_NO_HYPERVISOR).origin
        return _with_origins(facts, {"hypervisor": absent, "domains": absent})
    copied = {
        f"hypervisor.{path.removeprefix('linux.')}": origin
        for path, origin in facts.origins.items()
        if path.startswith("linux.")
    }
    return replace(
        facts,
        hypervisor=facts.linux,
        domains=domains,
        origins={**facts.origins, **copied, **told},
    )


def _domains(
    asked: Asked, doors: FactDoors
) -> tuple[tuple[DomainFacts, ...] | None, Mapping[str, Origin]]:
    if doors.domains is None or asked.on is not None:
        return None, {"domains": unknown("nobody looked for domains").origin}
    return doors.domains()


def _asked_cloud() -> Found:
    try:
        return seen(instance_type(), "the cloud's metadata service")
    except TargetError as error:
        return unknown(error.message)


def above(facts: StackFacts, below: StackFacts, source: str) -> StackFacts:
    """Return the facts of a virtual machine with those of its hypervisor.

    Args:
        facts: Of the virtual machine.
        below: Collected on the hypervisor.
        source: Where ``below`` comes from, to be named in every origin.
    """
    layers = ("hypervisor", "domains")
    kept = {p: o for p, o in facts.origins.items() if p.partition(".")[0] not in layers}
    added = {
        path: replace(origin, source=f"{source}: {origin.source}")
        for path, origin in below.origins.items()
        if path.partition(".")[0] in layers
    }
    return replace(
        facts, hypervisor=below.hypervisor, domains=below.domains, origins={**kept, **added}
    )
