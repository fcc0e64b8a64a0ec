"""Rules: what an acknowledged commit survives, by what holds a copy of it and since when.

Worst case of what the configuration allows, under one failure at a time. That disks keep what they
have flushed, and that nobody restores a backup, is taken for granted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from steelyard.analysis.durability_results import BY_WEIGHT, Fate, Loss, Survival
from steelyard.model.stack_facts import StorageClassFacts
from steelyard.model.storage_classes import is_longhorn, is_node_bound, replicas

_WAL: Final = "PostgreSQL documentation, 'Write Ahead Log'"
_ASYNCHRONOUS: Final = "PostgreSQL documentation, 'Asynchronous Commit'"
_REPLICATION: Final = "CloudNativePG documentation, 'Replication'"
_FAILOVER: Final = "CloudNativePG documentation, 'Automated failover'"
_LONGHORN: Final = "Longhorn documentation, 'Architecture and Concepts', 'Storage Class Parameters'"
_CACHES: Final = "longhorn/longhorn#4504"
_VOLUMES: Final = "Kubernetes documentation, 'Volumes'"
_APART: Final = f"{_REPLICATION}, 'Scheduling'"
_UNSAFE: Final = {
    "fsync": "nothing is flushed, and the whole database may be damaged",
    "full_page_writes": "a page that was torn in the middle of a write cannot be repaired",
}

NO_WAIT: Final = frozenset({"off", "local"})  # values of synchronous_commit that ask no standby


class Keeper(StrEnum):
    """Who made what lies below the server."""

    MACHINE = "this machine"
    CLUSTER = "a Cluster of Steelyard's"
    OTHERS = "others"


@dataclass(frozen=True, slots=True, kw_only=True)
class Footing:
    """What an acknowledged commit of a treatment rests on.

    Attributes:
        settings: In force, by name; what is missing has PostgreSQL's default.
        standbys: Beside the primary.
        waits: ``required`` or ``preferred``, where commits wait for a standby; empty: they do not.
        why_not: Then why not.
        apart: Instances may not share a node.
        volumes: Storage classes of the data and of WAL; None where one was not looked up. At
            least one for a Cluster.
    """

    keeper: Keeper
    settings: Mapping[str, str] = field(default_factory=dict)
    standbys: int = 0
    waits: str = ""
    why_not: str = ""
    apart: bool = False
    volumes: Sequence[StorageClassFacts | None] = ()


def survivals(footing: Footing) -> tuple[Survival, ...]:
    """Return what an acknowledged commit survives, one answer for each failure."""
    return tuple(_survival(footing, loss) for loss in Loss)


def _survival(footing: Footing, loss: Loss) -> Survival:
    if loss is Loss.SITE:
        return _site(footing)
    if footing.standbys:
        return _with_standby(footing, loss)
    if loss in (Loss.SERVER, Loss.POWER):
        return _on_own_volume(footing, loss)
    if footing.keeper is Keeper.CLUSTER:
        return _without_its_node(footing, loss)
    return _elsewhere(footing, loss)


def _on_own_volume(footing: Footing, loss: Loss) -> Survival:
    """Return what comes back when the same server starts again on the same data."""
    if loss is not Loss.SERVER:
        for name, why in _UNSAFE.items():
            if footing.settings.get(name, "on") == "off":
                return Survival(
                    loss=loss, fate=Fate.ALL, reason=f"{name} = off: {why}", source=_WAL
                )
    if footing.settings.get("synchronous_commit", "on") == "off":
        return Survival(
            loss=loss,
            fate=Fate.LAST,
            reason="synchronous_commit = off: a commit is acknowledged up to"
            f" {_lag(footing)} before its WAL is written",
            source=_ASYNCHRONOUS,
        )
    if loss is Loss.SERVER:
        why = "WAL is with the kernel before a commit is acknowledged"
        return Survival(loss=loss, fate=Fate.KEPT, reason=why, source=_WAL)
    return _flushed(footing, loss)


def _lag(footing: Footing) -> str:
    delay = footing.settings.get("wal_writer_delay", "")  # ms, as the server shows it
    return f"{3 * int(delay)} ms" if delay.isdigit() else "three times wal_writer_delay"


def _flushed(footing: Footing, loss: Loss) -> Survival:
    why, source = "WAL is flushed before a commit is acknowledged", _WAL
    if any(each is not None and is_longhorn(each) for each in footing.volumes):
        why += "; Longhorn passes over the kernel's cache, not that of the disk"
        source = f"{_WAL}; {_CACHES}"
    return Survival(loss=loss, fate=Fate.KEPT, reason=why, source=source)


def _without_its_node(footing: Footing, loss: Loss) -> Survival:
    """Return what is left of a single instance whose node or disk is gone: the worst volume's."""
    left = _on_own_volume(footing, Loss.POWER)
    found = [volume_survival(each, loss, left) for each in footing.volumes]
    return max(found, key=lambda each: BY_WEIGHT.index(each.fate))


def volume_survival(each: StorageClassFacts | None, loss: Loss, left: Survival) -> Survival:
    """Return what is left of a single instance on one volume when its node or disk is gone.

    Args:
        each: Class of the volume; None where it was not looked up.
        loss: Of the node or the disk.
        left: What the volume holds when the power fails: a copy elsewhere holds no more.
    """
    if each is None:
        why, source = "where its volume lies is not in the record", ""
    elif is_node_bound(each):
        why = f"{each.name} is a directory or disk of one node, and no instance is elsewhere"
        return Survival(loss=loss, fate=Fate.ALL, reason=why, source=_VOLUMES)
    elif is_longhorn(each):
        return _longhorn(each, loss, left)
    else:
        why, source = f"what {each.provisioner} does then is not known here", ""
    return Survival(loss=loss, fate=Fate.UNKNOWN, reason=why, source=source)


def _longhorn(each: StorageClassFacts, loss: Loss, left: Survival) -> Survival:
    number = replicas(each)
    if number == "1":
        why = f"{each.name} has one replica, on one node, and no instance is elsewhere"
    elif each.parameters.get("replicaSoftAntiAffinity") == "enabled":
        why = f"the {number} replicas of {each.name} may lie on one node"
    else:
        held = f"{number} replicas on {number} nodes have every write of {each.name}"
        sources = dict.fromkeys((_LONGHORN, *left.source.split("; ")))
        return Survival(
            loss=loss,
            fate=left.fate,
            reason=f"{held}; {left.reason}",
            source="; ".join(sources),
            seconds=left.seconds,
        )
    return Survival(loss=loss, fate=Fate.ALL, reason=why, source=_LONGHORN)


def _with_standby(footing: Footing, loss: Loss) -> Survival:
    """Return what is left where the operator promotes a standby, or where that is lost, too."""
    found = _promoted(footing, loss)
    if footing.apart or loss not in (Loss.NODE, Loss.DISK):
        return found
    together = _without_its_node(footing, loss)
    if BY_WEIGHT.index(together.fate) <= BY_WEIGHT.index(found.fate):
        return found
    return Survival(
        loss=loss,
        fate=together.fate,
        reason=f"the operator only prefers different nodes; on one: {together.reason}",
        source="; ".join(filter(None, (_APART, together.source))),
    )


def _promoted(footing: Footing, loss: Loss) -> Survival:
    """Return what is left where a standby elsewhere is promoted."""
    if not footing.waits:
        return Survival(
            loss=loss,
            fate=Fate.LAST,
            reason=f"a standby takes over, without what had not reached it: {footing.why_not}",
            source=f"{_FAILOVER}; {_REPLICATION}",
        )
    if footing.waits == "preferred":
        return _where_preferred(footing, loss)
    why = "a standby has every commit before it is acknowledged; without one, none is acknowledged"
    return Survival(loss=loss, fate=Fate.KEPT, reason=why, source=_APART)


def _where_preferred(footing: Footing, loss: Loss) -> Survival:
    if loss in (Loss.NODE, Loss.DISK):
        why = "while no standby is ready, commits are acknowledged without one (preferred)"
        return Survival(loss=loss, fate=Fate.LAST, reason=why, source=_REPLICATION)
    own = _on_own_volume(footing, loss)
    why = f"on a standby, or, while none is ready, on its own disk: {own.reason}"
    source = f"{_REPLICATION}; {own.source}"
    return Survival(loss=loss, fate=own.fate, reason=why, source=source)


def _elsewhere(footing: Footing, loss: Loss) -> Survival:
    """Return what is left of a server that Steelyard did not make, or made on this machine."""
    if footing.keeper is Keeper.MACHINE:
        why = "the data lie on this machine alone"
        return Survival(loss=loss, fate=Fate.ALL, reason=why, source="")
    why = "Steelyard did not make this server, and sees neither its disks nor its standbys"
    return Survival(loss=loss, fate=Fate.UNKNOWN, reason=why, source="")


def _site(footing: Footing) -> Survival:
    if footing.keeper is Keeper.OTHERS:
        return _elsewhere(footing, Loss.SITE)
    why = "no copy outside: neither a backup nor a replica elsewhere was made"
    return Survival(loss=Loss.SITE, fate=Fate.ALL, reason=why, source="")
