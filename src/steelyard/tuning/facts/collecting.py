"""All that can be seen of a stack from where one looks: this machine, a server, a cluster.

Of a database in a Kubernetes cluster the API tells of pods, node, kubelet, storage classes and
Cluster; a shell in the database's container how that is limited; a probe on the node, or else the
same shell, what the kernel shows; SQL through a forwarded port what the server says.
"""

import pathlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from os.path import realpath
from types import MappingProxyType
from typing import Final

from steelyard.core.kubernetes import SECRET, ObjectRef, SecretRef
from steelyard.core.linux import LinuxFacts
from steelyard.core.outside import ServerAddress
from steelyard.core.stack import DomainFacts, Origin, PostgresFacts, StackFacts
from steelyard.core.wording import InputError, PreflightError, SteelyardError, TargetError
from steelyard.gateways.doors import Doors
from steelyard.gateways.host import Clock, Host, instance_type, limit_files, mount_of
from steelyard.gateways.placed_files import FetchedHost, Wanted
from steelyard.gateways.sql import Sql, parsed_uri
from steelyard.gateways.ssh import SshMachine, parse_destination
from steelyard.places.kubernetes.reaching import Reach, sql_knock
from steelyard.tuning.facts import file
from steelyard.tuning.facts import kubernetes as in_cluster
from steelyard.tuning.facts.linux import collect_linux, measure_wakeups, steal, with_finds
from steelyard.tuning.facts.machine import device_places
from steelyard.tuning.facts.servers import (
    USABLE,
    RedisSight,
    ServerSight,
    collect_postgres,
    collect_redis,
    huge_mapping_bytes,
    processes_of,
    redis_address,
    usable_by,
)

_APART_S: Final = 1.0  # between the two looks
_USUAL_PLACES: Final = ("/var/lib/postgresql", "/var/lib/pgsql")
_NO_HYPERVISOR: Final = "a virtual machine does not see the hypervisor: collect its facts there"
_NO_DOMAINS: Final = MappingProxyType({"domains": file.unknown("nobody looked for domains").origin})
_NO_SERVER: Final = "no server was asked: name one with --dsn URI"
_NO_REDIS: Final = "no Redis server was asked: name one with --redis URI"
_ELSEWHERE: Final = (
    "the server runs on another machine, or in a container: name it with --on ssh://HOST"
)
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
        data_directory: Whose disk to look at; by default that of the server, and the usual ones
            where no server is asked.
        ping_pong: Measure what a wake-up costs.
        metadata: Ask the cloud's metadata service for the instance type.
        memory_bytes: What the user says a server has whose machine nobody sees. So ``cpus``.
    """

    on: str | None = None
    dsn: str | None = None
    redis: tuple[str, ...] = ()
    data_directory: str | None = None
    ping_pong: bool = True
    metadata: bool = False
    memory_bytes: int | None = None
    cpus: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machine:
    host: Host
    facts: LinuxFacts
    origins: Mapping[str, Origin]


def collect(asked: Asked, doors: Doors, domains: Domains | None = None) -> StackFacts:
    """Return what can be seen of the stack.

    ``domains`` collects the virtual machines of this machine; None: nobody looks for them.

    Raises:
        InputError: An address is none, or holds a password.
        TargetError: The machine or the server cannot be reached.
    """
    machine = None
    if asked.on is not None:
        machine = SshMachine(destination=parse_destination(asked.on), processes=doors.processes)
    # A server of another machine has no processes here, whatever address a tunnel gives it.
    host = doors.host if asked.on is None else FetchedHost()
    server = None
    if asked.dsn is not None:
        server = collect_postgres(doors.sql, doors.sql.reach(parsed_uri(asked.dsn)), host)
    caches = tuple(collect_redis(doors.redis, redis_address(uri), host) for uri in asked.redis)
    facts = with_redis(StackFacts(), caches)
    if server is None:
        facts = _with_origins(facts, {"postgres": file.unknown(_NO_SERVER).origin})
    else:
        facts = replace(_with_origins(facts, server.origins), postgres=server.facts)
    asked_of = [*([] if server is None else [server.is_here]), *(each.is_here for each in caches)]
    if machine is None and asked_of and not any(asked_of):
        layers = ("linux", "hypervisor", "domains", "kubernetes", "storage")
        absent = dict.fromkeys(layers, file.hidden(_ELSEWHERE).origin)
        return _as_told(_with_origins(facts, absent), asked)
    if asked.memory_bytes is not None or asked.cpus is not None:
        option = "--server-cpus" if asked.memory_bytes is None else "--server-memory"
        raise InputError(
            f"{option} says what nobody sees of a server, and its machine is looked at",
            hint="Leave it out: what the machine has counts.",
        )
    directories = _directories(asked, server, caches)
    if machine is None:
        seen_here = _with_machine(facts, _here(directories, asked, doors), domains)
        return _with_later_processes(seen_here, doors.host)
    there = _there(directories, machine, doors)
    return _with_machine(_with_limits(facts, there.host), there)


def _with_limits(facts: StackFacts, there: Host) -> StackFacts:
    """Return the facts with what the server's process over there may use, if it is the only one."""
    if facts.postgres is None:
        return facts
    pids = in_cluster.servers_of(there)
    reason = f"{len(pids)} servers of PostgreSQL run over there: which of them it is is not visible"
    finds = (
        usable_by(there, pids[0]) if len(pids) == 1 else dict.fromkeys(USABLE, file.hidden(reason))
    )
    facts = replace(facts, postgres=replace(facts.postgres, **file.values_of(finds)))
    return _with_origins(facts, file.origins_of(finds, "postgres"))


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


def with_redis(facts: StackFacts, caches: tuple[RedisSight, ...]) -> StackFacts:
    """Return the facts with Redis servers, or with the reason that there are none."""
    if not caches:
        return _with_origins(facts, {"redis": file.unknown(_NO_REDIS).origin})
    origins = {path: origin for each in caches for path, origin in each.origins.items()}
    return replace(
        _with_origins(facts, {"redis": Origin(source="the servers named by --redis"), **origins}),
        redis=tuple(each.facts for each in caches),
    )


def _directories(
    asked: Asked, server: ServerSight | None, caches: tuple[RedisSight, ...]
) -> tuple[str, ...]:
    """Return where the data may be, the surest first; those of a server only where it shows it.

    PostgreSQL's first process works in the data directory; its name is for superusers.
    """
    if asked.data_directory is not None:
        return (asked.data_directory,)
    if server is not None:
        first = (server.facts.processes or ())[:1]
        own = server.data_directory
        return (own,) if own is not None else tuple(f"/proc/{pid}/cwd" for pid in first)
    told = tuple(each.directory for each in caches if each.directory is not None and each.is_here)
    return told or _USUAL_PLACES


def _as_told(facts: StackFacts, asked: Asked) -> StackFacts:
    """Return the facts with what the user says of the machine; the numbers of its CPUs are ours."""
    options = {"memory_bytes": "--server-memory", "cpus": "--server-cpus"}
    server = facts.postgres
    origins = {
        f"{path}{name}": Origin(source=f"as told by {option}", assumed=True)
        for name, option in options.items()
        if getattr(asked, name) is not None
        for path in ("linux.", *(("postgres.usable_",) if server is not None else ()))
    }
    if not origins:
        return facts
    cpus = None if asked.cpus is None else tuple(range(asked.cpus))
    linux = LinuxFacts(memory_bytes=asked.memory_bytes, cpus=cpus)
    if server is not None:
        server = replace(server, usable_memory_bytes=asked.memory_bytes, usable_cpus=asked.cpus)
    return _with_origins(replace(facts, linux=linux, postgres=server), origins)


def _here(directories: tuple[str, ...], asked: Asked, doors: Doors) -> _Machine:
    host, clock = doors.host, doors.clock
    found = [path for name in directories if pathlib.Path(path := realpath(name)).is_dir()]
    facts, origins = collect_linux(host, found[0] if found else None)
    begun, before = clock.monotonic(), host.read(_STAT)
    finds = {}
    if asked.ping_pong:
        finds["ping_pong"] = measure_wakeups(facts, doors.processes)
    if asked.metadata:
        try:
            finds["instance_type"] = file.seen(instance_type(), "the cloud's metadata service")
        except TargetError as error:
            finds["instance_type"] = file.unknown(error.message)
    clock.sleep(max(0.0, _APART_S - (clock.monotonic() - begun)))
    finds["steal_fraction"] = steal(before, host.read(_STAT))
    facts, origins = with_finds(facts, origins, finds)
    return _Machine(host=host, facts=facts, origins=origins)


def _there(directories: tuple[str, ...], machine: SshMachine, doors: Doors) -> _Machine:
    """Return a machine elsewhere after two looks, each one call of ssh."""
    first = machine.fetch(in_cluster.wanted_at_first(directories))
    resolved = [first.resolved[name] for name in directories if name in first.resolved]
    directory = resolved[0] if resolved else None
    places = device_places(mount_of(first, directory)) if directory else ()
    limits = (name for pid in in_cluster.servers_of(first) for name in limit_files(first, pid))
    doors.clock.sleep(_APART_S)
    second = machine.fetch(in_cluster.wanted_later(places, tuple(limits)))
    host = second.with_more(first)
    facts, origins = collect_linux(host, directory)
    finds = {
        "steal_fraction": steal(first.read(_STAT), second.read(_STAT)),
        "ping_pong": file.unknown("nothing of ours runs over there"),
    }
    facts, origins = with_finds(facts, origins, finds)
    return _Machine(host=host, facts=facts, origins=origins)


def _with_machine(
    facts: StackFacts, machine: _Machine, domains: Domains | None = None
) -> StackFacts:
    linux = machine.facts
    kubernetes, of_kubernetes = in_cluster.collect_kubernetes(machine.host, linux)
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
    return _with_hypervisor(facts, *(domains() if domains is not None else ()))


def _with_hypervisor(
    facts: StackFacts,
    domains: tuple[DomainFacts, ...] | None = None,
    told: Mapping[str, Origin] = _NO_DOMAINS,
) -> StackFacts:
    """Return the facts with those of the hypervisor: this machine where none is below it.

    A virtual machine that has virtual machines of its own is their hypervisor. ``told`` has the
    origins of the domains.
    """
    unread = any(path.startswith("domains.") for path in told)
    if facts.linux is None or (facts.linux.virtualization != "none" and not domains and not unread):
        absent = file.hidden(_NO_HYPERVISOR).origin
        return _with_origins(facts, {"hypervisor": absent, "domains": absent})
    copied = {
        f"hypervisor.{path.removeprefix('linux.')}": origin
        for path, origin in facts.origins.items()
        if path.startswith("linux.")
    }
    facts = replace(facts, hypervisor=facts.linux, domains=domains)
    return _with_origins(facts, {**copied, **told})


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


_NOWHERE: Final = FetchedHost()  # its processes are none of this machine


@contextmanager
def reached(
    database: in_cluster.Database, asked: in_cluster.AskedCluster, sql: Sql, clock: Clock
) -> Iterator[ServerAddress]:
    """Yield the address of the server, which holds while the way to it is open.

    Raises:
        SteelyardError: There is no Secret for it, or no way.
    """
    if asked.dsn is not None:
        yield sql.reach(parsed_uri(asked.dsn))
        return
    secret, dbname = _secret(database)
    reach = Reach(database.api, sql_knock(sql), clock)
    name = str((database.cluster or {})["metadata"]["name"])
    try:
        yield reach.address(database.container, f"{name}-rw", database.namespace, secret, dbname)
    finally:
        reach.close()


def _secret(database: in_cluster.Database) -> tuple[SecretRef, str]:
    """Return the Secret of a Cluster's superuser, else of its application, with a database.

    Raises:
        PreflightError: No Cluster is known whose Secrets these could be, or it has none.
    """
    if database.cluster is None:
        raise PreflightError(
            "no Secret of this server is known",
            hint="Forward a port of the pod yourself, and name the server with --dsn.",
        )
    name = database.cluster["metadata"]["name"]
    bootstrap = (database.cluster["spec"].get("bootstrap") or {}).get("initdb") or {}
    # Secrets by suffix, each with its database; the application's may be called otherwise.
    names = {"superuser": "postgres", "app": str(bootstrap.get("database") or "app")}
    for suffix, dbname in names.items():
        ref = ObjectRef(kind=SECRET, name=f"{name}-{suffix}", namespace=database.namespace)
        if database.api.read(ref) is not None:
            return SecretRef(namespace=database.namespace, name=ref.name), dbname
    raise PreflightError(
        f"Cluster {database.namespace}/{name} has neither a Secret {name}-superuser nor {name}-app",
        hint="Name the server with --dsn, through a port that you forward yourself.",
    )


def ask(
    database: in_cluster.Database, asked: in_cluster.AskedCluster, sql: Sql, clock: Clock
) -> ServerSight | str:
    """Return what the server says, or why nobody could ask it."""
    try:
        with reached(database, asked, sql, clock) as address:
            return collect_postgres(sql, address, _NOWHERE)
    except SteelyardError as error:
        hint = f" ({error.hint})" if error.hint else ""
        return f"{error.message}{hint}"


def wanted_of_server(own: FetchedHost) -> Wanted:
    """Return what is looked at of the server's first process, once that is known."""
    return Wanted(files=tuple(f"/proc/{pid}/smaps" for pid in in_cluster.servers_of(own)[:1]))


def with_container(sight: ServerSight, own: FetchedHost) -> tuple[PostgresFacts, dict[str, Origin]]:
    """Return a server's facts with what its container's files add.

    Its processes have other ids on the node, so they are not named.
    """
    pid = next(iter(in_cluster.servers_of(own)), None)
    text, size, shm = (
        own.read(f"/proc/{pid}/smaps"),
        in_cluster.shm_bytes_of(own),
        "the mount of /dev/shm",
    )
    finds = {
        "huge_page_mapping_bytes": file.seen(
            huge_mapping_bytes(text), f"/proc/{pid}/smaps in the container"
        )
        if text
        else file.unknown("no process called postgres may be read in the container"),
        "shared_memory_directory_bytes": file.unknown(f"{shm} in the container names no size")
        if size is None
        else file.seen(size, f"{shm} in the container"),
    }
    facts = replace(sight.facts, **file.values_of(finds))
    return facts, {**sight.origins, **file.origins_of(finds, "postgres")}


_DATA: Final = "/var/lib/postgresql/data"
_MOUNTS: Final = "/proc/self/mountinfo"
_NO_PROBE: Final = "a probe on the node tells it, and --no-node-probe left it out"
# What a container shows of itself, and not of its node.
_OF_CONTAINERS: Final[file.Finds] = {
    "pool_users": file.hidden("processes of other pods are not visible in a container"),
    "hugetlbfs": file.hidden("mounts of the node are not visible in a container"),
    "dma_latency_s": file.hidden("/dev/cpu_dma_latency is not there in a container"),
    "allowed_cpus": file.hidden("those of a container are told with its pod"),
    "ping_pong": file.unknown("it is not measured in a cluster"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Looks:
    """What the containers showed.

    Attributes:
        own: Of the database's container, or why it cannot be read.
        node: Where the kernel of the node was read, twice: a probe or the same container.
        shared: CPUs of containers that have none of their own.
    """

    own: FetchedHost | SteelyardError
    node: tuple[FetchedHost, FetchedHost] | SteelyardError
    shared: file.Found


def collect_in_cluster(asked: in_cluster.AskedCluster, doors: Doors) -> StackFacts:
    """Return what can be seen of a database in a cluster.

    What one account, one container or one server refuses is missing, with the reason.

    Raises:
        InputError: Nothing names the database, or there is no such context.
        TargetError: It is not there, or the API cannot be reached.
    """
    database = in_cluster.find_database(doors.kubernetes.connect(asked.context), asked)
    server = ask(database, asked, doors.sql, doors.clock)
    directory = _directory(server, database)
    looks = _look(database, asked, doors.clock, directory)
    linux, told = _linux(looks, directory)
    kubernetes, of_kubernetes = in_cluster.kubernetes_facts(
        database, looks.own, looks.shared, linux
    )
    facts = StackFacts(
        linux=linux,
        kubernetes=kubernetes,
        storage=linux.device.kind if linux is not None and linux.device else None,
        origins={
            **told,
            **of_kubernetes,
            "redis": file.unknown("no Redis server is asked").origin,
            "storage": told.get("linux.device", told.get("linux", file.unknown("").origin)),
        },
    )
    if isinstance(server, str):
        return _with_hypervisor(_with_origins(facts, {"postgres": file.unknown(server).origin}))
    postgres, of_server = server.facts, dict(server.origins)
    if not isinstance(looks.own, SteelyardError):
        postgres, of_server = with_container(server, looks.own)
    return _with_hypervisor(_with_origins(replace(facts, postgres=postgres), of_server))


def _directory(server: ServerSight | str, database: in_cluster.Database) -> str:
    """Return where the data are: as the server says, its container's environment, or usually."""
    told = server.data_directory if isinstance(server, ServerSight) else None
    for container in database.pod["spec"]["containers"]:
        for variable in container.get("env") or ():
            if container["name"] == database.container.container and variable["name"] == "PGDATA":
                told = told or variable.get("value")
    return told or _DATA


def _look(
    database: in_cluster.Database, asked: in_cluster.AskedCluster, clock: Clock, directory: str
) -> _Looks:
    container = in_cluster.PodMachine(api=database.api, where=database.container)
    own = _fetched(container, in_cluster.wanted_of_container())
    places: tuple[str, ...] = ()  # where sysfs tells of the disk below the data
    if not isinstance(own, SteelyardError):
        with suppress(ValueError, LookupError):  # mountinfo is torn
            places = device_places(mount_of(own, directory))
    if asked.node_probe:
        try:
            with in_cluster.probe_on(
                database.api, database.namespace, database.pod, clock
            ) as probe:
                looks = _twice(in_cluster.PodMachine(api=database.api, where=probe), places, clock)
            cpus = in_cluster.cpus_of(looks[1])  # it never gets any of its own
            shared = file.unknown("the probe on the node sees no CPU set of its own")
            if cpus is not None:
                shared = file.seen(cpus, "CPU set of a probe on the node")
            return _Looks(own=_with_server_files(container, own), node=looks, shared=shared)
        except SteelyardError as error:
            reason = f"no probe on the node: {error.message}"
    else:
        reason = _NO_PROBE
    shared = file.unknown(reason)
    if isinstance(own, SteelyardError):
        return _Looks(own=own, node=own, shared=shared)
    try:
        looks = _twice(container, places, clock)
    except SteelyardError as error:
        return _Looks(own=own, node=error, shared=shared)
    return _Looks(own=_with_server_files(container, own), node=looks, shared=shared)


def _fetched(machine: in_cluster.PodMachine, wanted: Wanted) -> FetchedHost | SteelyardError:
    try:
        return machine.fetch(wanted)
    except SteelyardError as error:
        return error


def _with_server_files(
    container: in_cluster.PodMachine, own: FetchedHost | SteelyardError
) -> FetchedHost | SteelyardError:
    if isinstance(own, SteelyardError):
        return own
    more = _fetched(container, wanted_of_server(own))
    return own if isinstance(more, SteelyardError) else own.with_more(more)


def _twice(
    machine: in_cluster.PodMachine, places: tuple[str, ...], clock: Clock
) -> tuple[FetchedHost, FetchedHost]:
    """Return two looks, the second with the disk, and with the first where it brings no newer."""
    first = machine.fetch(in_cluster.wanted_of_kernel())
    clock.sleep(_APART_S)
    later = machine.fetch(in_cluster.wanted_later(places))
    return first, first.with_more(later)


def _linux(looks: _Looks, directory: str) -> tuple[LinuxFacts | None, dict[str, Origin]]:
    if isinstance(looks.node, SteelyardError):
        return None, {
            "linux": file.unknown(f"{looks.node.message}; {looks.shared.origin.source}").origin
        }
    first, last = looks.node
    host = last
    if not isinstance(looks.own, SteelyardError):  # the volume is mounted there alone
        host = in_cluster.with_files(last, looks.own, (_MOUNTS,))
    facts, origins = collect_linux(host, directory)
    finds: dict[str, file.Found] = {
        **_OF_CONTAINERS,
        "steal_fraction": steal(first.read(_STAT), last.read(_STAT)),
    }
    if facts.requested_huge_pages is None:
        finds["requested_huge_pages"] = file.unknown(
            "no kernel argument asks for any; the node's files of sysctl are not visible"
        )
    return with_finds(facts, origins, finds)
