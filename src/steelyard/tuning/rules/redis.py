"""Rules of Redis."""

from functools import partial
from typing import Final

from steelyard.core.findings import Severity
from steelyard.core.redis import in_bytes
from steelyard.core.stack import RedisFacts, StackFacts
from steelyard.core.wording import format_bytes, format_duration
from steelyard.tuning.rules.rule import (
    HOLDS,
    NOTHING,
    Rulings,
    StackRule,
    bytes_of,
    enter,
    lacking,
    violated,
)

_REMOTE: Final = frozenset({"longhorn", "nfs", "ceph", "network"})
_MOST_OF_LIMIT: Final = 0.6
_REWRITE_LOSS_S: Final = 30
RULES: Final[list[StackRule]] = []
_rule = partial(enter, RULES, layers=("redis",), needs=("redis",))
_PERSISTENCE: Final = "Redis documentation, 'Redis persistence'"
_RECIPE: Final = "docs/redis.md, 'Keep the data when an empty primary restarts'"


def _servers(facts: StackFacts) -> tuple[RedisFacts, ...]:
    return facts.redis or ()


@_rule(
    code="RED001",
    layers=("redis", "kubernetes"),
    severity=Severity.ERROR,
    title="A primary without persistence does not restart by itself",
    why="it comes back empty, and its replicas copy that",
    detect='save "" and appendonly no, replicas, the restart policy, in proc-title-template the'
    " mark of the recipe",
    remedy=f"Use the recipe in {_RECIPE}, or promote a replica before the primary restarts."
    " Snapshots on the primary keep what is in the last of them, and no more.",
    source="Redis documentation, 'Redis replication', on safety when the primary has"
    " persistence turned off",
    among=_servers,
)
def _keeps_data(server: RedisFacts, facts: StackFacts) -> Rulings:
    if server.role != "primary":
        return NOTHING
    persistent, restarts = _is_persistent(server), _restarts(server, facts)
    if persistent or server.replicas == 0 or restarts is False or server.fenced:
        return HOLDS
    if persistent is None or server.replicas is None or restarts is None:
        return lacking("redis.save", "redis.appendonly", "redis.replicas", "redis.auto_restart")
    return violated(
        f"{server.name}: no persistence, {server.replicas} replicas, restarted by itself"
    )


def _restarts(server: RedisFacts, facts: StackFacts) -> bool | None:
    """Return whether a server that died is started again by itself; None where nobody saw it."""
    if server.auto_restart is None and facts.kubernetes is not None:
        return True  # pods are, unless told otherwise
    return server.auto_restart


@_rule(
    code="RED008",
    layers=("redis", "kubernetes"),
    severity=Severity.WARNING,
    title="A primary does not return with an old snapshot and wipe what its replicas hold",
    why="replicas copy a primary, whatever it holds: what came since its last snapshot is gone"
    " from all copies, though they had it",
    detect="save points without appendonly, replicas, the restart policy, in"
    " proc-title-template the mark of the recipe",
    remedy="Turn the append-only file on, on the primary; or use the recipe in"
    f" {_RECIPE}; or promote a replica before the primary restarts.",
    source="docs/redis.md, tried on Redis 7.0.15; Redis documentation, 'Redis"
    " replication', on safety when the primary has persistence turned off",
    among=_servers,
)
def _returns_with_all(server: RedisFacts, facts: StackFacts) -> Rulings:
    points, restarts = _save_points(server), _restarts(server, facts)
    if server.role != "primary" or (server.save is not None and not points):
        return NOTHING  # what keeps nothing is RED001's
    if server.appendonly or server.replicas == 0 or restarts is False or server.fenced:
        return HOLDS
    if None in (server.save, server.appendonly, server.replicas, restarts):
        return lacking("redis.save", "redis.appendonly", "redis.replicas", "redis.auto_restart")
    return violated(
        f"{server.name}: killed and restarted by itself, it returns with its last snapshot, and"
        f" up to {format_duration(max(points))} of writes go, on its replicas, too"
    )


def _is_persistent(server: RedisFacts) -> bool | None:
    """Return whether a server keeps its data over a restart; None where nobody saw it."""
    if _save_points(server) or server.appendonly:
        return True
    return None if server.save is None or server.appendonly is None else False


def _save_points(server: RedisFacts) -> tuple[int, ...]:
    """Return the seconds of a server's save points: ``3600 1 300 100`` has 3600 and 300."""
    words = (server.save or "").replace('"', "").split()
    return tuple(int(word) for word in words[::2] if word.isdecimal())


@_rule(
    code="RED002",
    layers=("redis", "storage"),
    severity=Severity.WARNING,
    title="The append-only file is not on replicated or network storage",
    why="each fsync waits for the copies; with everysec writes block once one takes 2 s",
    detect="appendonly and the kind of the volume",
    remedy="Keep it on a local disk, or on the replica.",
    source=f'{_PERSISTENCE}; Iwan Setiawan, "Redis AOF + Distributed Storage: A Cautionary'
    ' Benchmark", DEV Community',
    of=_servers,
)
def _local_log(server: RedisFacts) -> Rulings:
    if server.role == "replica":  # no client waits for its disk
        return NOTHING
    if server.appendonly is None or (server.appendonly and server.storage is None):
        return lacking("redis.appendonly", "redis.storage")
    if not server.appendonly or server.storage not in _REMOTE:
        return HOLDS
    return violated(f"{server.name}: its append-only file is on {server.storage}")


@_rule(
    code="RED003",
    severity=Severity.WARNING,
    title="The append-only file is flushed every second",
    why="always costs a flush per round of the event loop; no-appendfsync-on-rewrite loses up"
    f" to {_REWRITE_LOSS_S} s during a rewrite",
    detect="CONFIG GET appendfsync, no-appendfsync-on-rewrite",
    remedy="Set appendfsync everysec and no-appendfsync-on-rewrite no, or state the loss.",
    source="Redis 7, redis.conf, comments on appendfsync and no-appendfsync-on-rewrite",
    of=_servers,
)
def _known_loss(server: RedisFacts) -> Rulings:
    if not server.appendonly:
        return NOTHING if server.appendonly is False else lacking("redis.appendonly")
    told = []
    if server.appendfsync == "always":
        told.append(f"{server.name}: appendfsync always waits for every write")
    if server.no_appendfsync_on_rewrite:
        told.append(
            f"{server.name}: no-appendfsync-on-rewrite may lose {_REWRITE_LOSS_S} s of writes"
        )
    if not told and None in (server.appendfsync, server.no_appendfsync_on_rewrite):
        return lacking("redis.appendfsync", "redis.no_appendfsync_on_rewrite")
    return violated(*told)


@_rule(
    code="RED004",
    layers=("redis", "kubernetes"),
    severity=Severity.WARNING,
    title="maxmemory leaves room in the container's limit",
    why="while it forks to save or to sync a replica, writes copy pages: its memory can double,"
    " and the kernel kills it at the limit",
    detect="maxmemory against the memory limit, 60 % where it persists or has replicas",
    remedy="Set maxmemory to half of the limit, 60 % at most.",
    source="Redis documentation, 'Redis administration'; the 60 % are a guess",
    of=_servers,
)
def _room_to_fork(server: RedisFacts) -> Rulings:
    limit = bytes_of({"memory": server.memory_limit or ""}, "memory")
    if limit is None:
        return lacking("redis.memory_limit")
    largest = in_bytes(server.maxmemory or "0")
    if largest == 0:
        return violated(f"{server.name}: no maxmemory, its container ends at {format_bytes(limit)}")
    if largest is None or _forks(server) is None:
        return lacking("redis.maxmemory", "redis.save", "redis.appendonly", "redis.replicas")
    if not _forks(server) or largest <= _MOST_OF_LIMIT * limit:
        return HOLDS
    return violated(f"{server.name}: maxmemory {server.maxmemory} of {format_bytes(limit)}")


def _forks(server: RedisFacts) -> bool | None:
    """Return whether a server forks: to save, or for the full sync of a replica."""
    if _is_persistent(server) or server.replicas:
        return True
    return None if _is_persistent(server) is None or server.replicas is None else False


@_rule(
    code="RED005",
    severity=Severity.INFO,
    title="What may be lost is stated",
    why="snapshots alone lose what came since the last one: up to the longest save interval",
    detect="CONFIG GET save, appendonly",
    remedy="State it, or turn the append-only file on.",
    source=_PERSISTENCE,
    of=_servers,
)
def _stated_loss(server: RedisFacts) -> Rulings:
    if server.save is None or server.appendonly is None:
        return lacking("redis.save", "redis.appendonly")
    points = _save_points(server)
    if not points or server.appendonly:
        return HOLDS
    return violated(f"{server.name}: up to {format_duration(max(points))} of writes may be lost")


@_rule(
    code="RED006",
    severity=Severity.WARNING,
    title="What a primary does not keep, a replica keeps",
    why="copies in memory alone are gone when both lose their power",
    detect="save, appendonly of primary and replicas",
    remedy=f"Turn the append-only file on, on a replica, by the recipe in {_RECIPE}.",
    source=_PERSISTENCE,
    among=_servers,
)
def _kept_by_a_replica(server: RedisFacts, facts: StackFacts) -> Rulings:
    copies = [_is_persistent(each) for each in _servers(facts) if each.role == "replica"]
    persistent = _is_persistent(server)
    if server.role != "primary" or persistent or server.replicas == 0:
        return NOTHING
    if any(copies) and persistent is False:
        return HOLDS
    if persistent is None or server.replicas is None or not copies or None in copies:
        return lacking("redis.save", "redis.appendonly", "redis.replicas")
    return violated(f"{server.name}: neither it nor a replica of it writes a disk")


@_rule(
    code="RED007",
    severity=Severity.INFO,
    title="A primary without persistence takes no writes while its replica is away",
    why="what is written then is in one memory alone, without a bound",
    detect="min-replicas-to-write of a primary without persistence",
    remedy="Set min-replicas-to-write 1 and min-replicas-max-lag, or state the loss.",
    source="Redis 7.0, redis.conf, comments on min-replicas-to-write",
    of=_servers,
)
def _bounded_loss(server: RedisFacts) -> Rulings:
    persistent = _is_persistent(server)
    if server.role != "primary" or persistent or server.replicas == 0:
        return NOTHING
    if persistent is None or None in (server.replicas, server.min_replicas_to_write):
        return lacking(
            "redis.save", "redis.appendonly", "redis.replicas", "redis.min_replicas_to_write"
        )
    if server.min_replicas_to_write:
        return HOLDS
    return violated(f"{server.name}: takes writes while no replica is there to keep them")
