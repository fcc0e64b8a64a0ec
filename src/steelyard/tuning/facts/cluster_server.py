"""The server in a cluster: by SQL through its pod, and by the files of its container.

Everything that can be seen of a database in a Kubernetes cluster, of its pod and of its node.

The API tells of pods, node, kubelet, storage classes and Cluster; a shell in the database's
container how that is limited; a probe on the node, or else the same shell, what the kernel shows;
SQL through a forwarded port what the server says.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from steelyard.core.command import ServerAddress
from steelyard.core.errors import PreflightError, SteelyardError
from steelyard.core.kubernetes import SECRET, ObjectRef, SecretRef
from steelyard.core.linux import LinuxFacts
from steelyard.core.stack_facts import Origin, PostgresFacts, StackFacts
from steelyard.gateways.clock import Clock
from steelyard.gateways.kubernetes.api import Kubernetes
from steelyard.gateways.placed_files import FetchedHost, Wanted
from steelyard.gateways.sql import Sql, parsed_uri
from steelyard.places.kubernetes.reaching import Reach, sql_knock
from steelyard.tuning.facts import node_probe as files
from steelyard.tuning.facts.file import Finds, Found, hidden, seen, unknown
from steelyard.tuning.facts.kubernetes import (
    AskedCluster,
    Database,
    find_database,
    kubernetes_facts,
)
from steelyard.tuning.facts.linux import collect_linux, steal, with_finds
from steelyard.tuning.facts.machine import device_places, mount_of
from steelyard.tuning.facts.node_probe import PodMachine, probe_on
from steelyard.tuning.facts.postgres import ServerSight, collect_postgres, huge_mapping_bytes
from steelyard.tuning.facts.wanted import wanted_later

_SUPERUSER: Final = ("superuser", "postgres")  # suffix of the Secret, and its database
_OWNER: Final = ("app", "app")
_NOWHERE: Final = FetchedHost()  # its processes are none of this machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Unasked:
    """Why a server was not asked."""

    reason: str


@contextmanager
def reached(
    database: Database, asked: AskedCluster, sql: Sql, clock: Clock
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


def _secret(database: Database) -> tuple[SecretRef, str]:
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
    for suffix, dbname in (_SUPERUSER, _OWNER):
        ref = ObjectRef(kind=SECRET, name=f"{name}-{suffix}", namespace=database.namespace)
        if database.api.read(ref) is not None:
            return SecretRef(namespace=database.namespace, name=ref.name), _named(database, dbname)
    raise PreflightError(
        f"Cluster {database.namespace}/{name} has neither a Secret {name}-superuser nor {name}-app",
        hint="Name the server with --dsn, through a port that you forward yourself.",
    )


def _named(database: Database, dbname: str) -> str:
    """Return the application's database, which its Cluster may call otherwise."""
    if dbname == _SUPERUSER[1]:
        return dbname
    bootstrap = ((database.cluster or {})["spec"].get("bootstrap") or {}).get("initdb") or {}
    return str(bootstrap.get("database") or dbname)


def ask(database: Database, asked: AskedCluster, sql: Sql, clock: Clock) -> ServerSight | Unasked:
    """Return what the server says, or why nobody could ask it."""
    try:
        with reached(database, asked, sql, clock) as address:
            return collect_postgres(sql, address, _NOWHERE)
    except SteelyardError as error:
        hint = f" ({error.hint})" if error.hint else ""
        return Unasked(reason=f"{error.message}{hint}")


def wanted_of_server(own: FetchedHost) -> Wanted:
    """Return what is looked at of the server's first process, once that is known."""
    pid = files.server_of(own)
    return Wanted(files=() if pid is None else (f"/proc/{pid}/smaps",))


def with_container(sight: ServerSight, own: FetchedHost) -> tuple[PostgresFacts, dict[str, Origin]]:
    """Return a server's facts with what its container's files add.

    Its processes have other ids on the node, so they are not named.
    """
    found = {"huge_page_mapping_bytes": _mapping(own), "shared_memory_directory_bytes": _shm(own)}
    facts = replace(sight.facts, **{name: each.value for name, each in found.items()})
    told = {f"postgres.{name}": each.origin for name, each in found.items()}
    return facts, {**sight.origins, **told}


def _mapping(own: FetchedHost) -> Found:
    pid = files.server_of(own)
    text = None if pid is None else own.read(f"/proc/{pid}/smaps")
    if not text:
        return unknown("no process called postgres may be read in the container")
    return seen(huge_mapping_bytes(text), f"/proc/{pid}/smaps in the container")


def _shm(own: FetchedHost) -> Found:
    size = files.shm_bytes_of(own)
    if size is None:
        return unknown("the mount of /dev/shm in the container names no size")
    return seen(size, "the mount of /dev/shm in the container")


_APART_S: Final = 1.0  # between the two looks
_DATA: Final = "/var/lib/postgresql/data"
_STAT: Final = "/proc/stat"
_MOUNTS: Final = "/proc/self/mountinfo"
_NO_PROBE: Final = "a probe on the node tells it, and --no-node-probe left it out"
_NO_HYPERVISOR: Final = "a virtual machine does not see the hypervisor: collect its facts there"
# What a container shows of itself, and not of its node.
_OF_CONTAINERS: Final[Finds] = {
    "pool_users": hidden("processes of other pods are not visible in a container"),
    "hugetlbfs": hidden("mounts of the node are not visible in a container"),
    "dma_latency_s": hidden("/dev/cpu_dma_latency is not there in a container"),
    "allowed_cpus": hidden("those of a container are told with its pod"),
    "ping_pong": unknown("it is not measured in a cluster"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDoors:
    """The gateways that facts of a cluster come through."""

    kubernetes: Kubernetes
    sql: Sql
    clock: Clock


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
    shared: Found


def collect_in_cluster(asked: AskedCluster, doors: ClusterDoors) -> StackFacts:
    """Return what can be seen of a database in a cluster.

    What one account, one container or one server refuses is missing, with the reason.

    Raises:
        InputError: Nothing names the database, or there is no such context.
        TargetError: It is not there, or the API cannot be reached.
    """
    database = find_database(doors.kubernetes.connect(asked.context), asked)
    server = ask(database, asked, doors.sql, doors.clock)
    directory = _directory(server, database)
    looks = _look(database, asked, doors.clock, directory)
    linux, told = _linux(looks, directory)
    kubernetes, of_kubernetes = kubernetes_facts(database, looks.own, looks.shared, linux)
    facts = StackFacts(
        linux=linux,
        kubernetes=kubernetes,
        storage=linux.device.kind if linux is not None and linux.device else None,
        origins={
            **told,
            **of_kubernetes,
            "redis": unknown("no Redis server is asked").origin,
            "storage": told.get("linux.device", told.get("linux", unknown("").origin)),
        },
    )
    return _with_hypervisor(_with_server(facts, server, looks.own))


def _directory(server: ServerSight | Unasked, database: Database) -> str:
    """Return where the data are: as the server says, its container's environment, or usually."""
    told = server.data_directory if isinstance(server, ServerSight) else None
    for container in database.pod["spec"]["containers"]:
        for variable in container.get("env") or ():
            if container["name"] == database.container.container and variable["name"] == "PGDATA":
                told = told or variable.get("value")
    return told or _DATA


def _look(database: Database, asked: AskedCluster, clock: Clock, directory: str) -> _Looks:
    """Return what the database's container and the node's kernel show."""
    container = PodMachine(api=database.api, where=database.container)
    own = _fetched(container, files.wanted_of_container())
    places = _places(own, directory)
    if asked.node_probe:
        try:
            with probe_on(database.api, database.namespace, database.pod, clock) as probe:
                looks = _twice(PodMachine(api=database.api, where=probe), places, clock)
            shared = _shared(looks[1])
            return _Looks(own=_with_server_files(container, own), node=looks, shared=shared)
        except SteelyardError as error:
            reason = f"no probe on the node: {error.message}"
    else:
        reason = _NO_PROBE
    shared = unknown(reason)
    if isinstance(own, SteelyardError):
        return _Looks(own=own, node=own, shared=shared)
    try:
        looks = _twice(container, places, clock)
    except SteelyardError as error:
        return _Looks(own=own, node=error, shared=shared)
    return _Looks(own=_with_server_files(container, own), node=looks, shared=shared)


def _shared(probe: FetchedHost) -> Found:
    """Return the CPUs of a probe, which never gets any of its own."""
    cpus = files.cpus_of(probe)
    if cpus is None:
        return unknown("the probe on the node sees no CPU set of its own")
    return seen(cpus, "CPU set of a probe on the node")


def _fetched(machine: PodMachine, wanted: Wanted) -> FetchedHost | SteelyardError:
    try:
        return machine.fetch(wanted)
    except SteelyardError as error:
        return error


def _with_server_files(
    container: PodMachine, own: FetchedHost | SteelyardError
) -> FetchedHost | SteelyardError:
    if isinstance(own, SteelyardError):
        return own
    more = _fetched(container, wanted_of_server(own))
    return own if isinstance(more, SteelyardError) else own.with_more(more)


def _places(own: FetchedHost | SteelyardError, directory: str) -> tuple[str, ...]:
    """Return where sysfs tells of the disk below the data."""
    if isinstance(own, SteelyardError):
        return ()
    try:
        return device_places(mount_of(own, directory))
    except (ValueError, LookupError):  # mountinfo is torn
        return ()


def _twice(
    machine: PodMachine, places: tuple[str, ...], clock: Clock
) -> tuple[FetchedHost, FetchedHost]:
    """Return two looks, the second with the disk, and with the first where it brings no newer."""
    first = machine.fetch(files.wanted_of_kernel())
    clock.sleep(_APART_S)
    later = machine.fetch(wanted_later(places, ()))
    return first, first.with_more(later)


def _linux(looks: _Looks, directory: str) -> tuple[LinuxFacts | None, dict[str, Origin]]:
    if isinstance(looks.node, SteelyardError):
        return None, {
            "linux": unknown(f"{looks.node.message}; {looks.shared.origin.source}").origin
        }
    first, last = looks.node
    host = last
    if not isinstance(looks.own, SteelyardError):  # the volume is mounted there alone
        host = files.with_files(last, looks.own, (_MOUNTS,))
    facts, origins = collect_linux(host, directory)
    finds: dict[str, Found] = {
        **_OF_CONTAINERS,
        "steal_fraction": steal(first.read(_STAT), last.read(_STAT)),
    }
    if facts.requested_huge_pages is None:
        finds["requested_huge_pages"] = unknown(
            "no kernel argument asks for any; the node's files of sysctl are not visible"
        )
    return with_finds(facts, origins, finds)


def _with_server(
    facts: StackFacts, server: ServerSight | Unasked, own: FetchedHost | SteelyardError
) -> StackFacts:
    if isinstance(server, Unasked):
        return _with_origins(facts, {"postgres": unknown(server.reason).origin})
    postgres, told = server.facts, dict(server.origins)
    if not isinstance(own, SteelyardError):
        postgres, told = with_container(server, own)
    return _with_origins(replace(facts, postgres=postgres), told)


def _with_hypervisor(facts: StackFacts) -> StackFacts:
    """Return the facts with those of the hypervisor: the node itself where it is real."""
    absent = hidden(_NO_HYPERVISOR).origin
    if facts.linux is None or facts.linux.virtualization != "none":
        return _with_origins(facts, {"hypervisor": absent, "domains": absent})
    copied = {
        f"hypervisor.{path.removeprefix('linux.')}": origin
        for path, origin in facts.origins.items()
        if path.startswith("linux.")
    }
    domains = unknown("nobody looked for domains").origin
    return _with_origins(replace(facts, hypervisor=facts.linux), {**copied, "domains": domains})


def _with_origins(facts: StackFacts, origins: Mapping[str, Origin]) -> StackFacts:
    return replace(facts, origins={**facts.origins, **origins})
