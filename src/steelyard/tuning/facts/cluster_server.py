"""The server in a cluster: by SQL through its pod, and by the files of its container."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from steelyard.gateways.clock import Clock
from steelyard.gateways.fetched import FetchedHost, Wanted
from steelyard.gateways.libpq import parsed_uri
from steelyard.gateways.sql import Sql
from steelyard.model.command import ServerAddress
from steelyard.model.errors import PreflightError, SteelyardError
from steelyard.model.kubernetes import SECRET, ObjectRef, SecretRef
from steelyard.model.stack_facts import Origin, PostgresFacts
from steelyard.platforms.kubernetes.reaching import Reach, sql_knock
from steelyard.tuning.facts import container_files as files
from steelyard.tuning.facts.cluster_objects import AskedCluster, Database
from steelyard.tuning.facts.found import Found, seen, unknown
from steelyard.tuning.facts.postgres import ServerSight, collect_postgres, huge_mapping_bytes

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
