"""Durability: failures, what an acknowledged commit or write survives, and what writes take.

The rules tell the worst case of what the configuration allows, under one failure at a time, by
what holds a copy and since when. That disks keep what they have flushed, and that nobody restores
a backup, is taken for granted.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Final

from steelyard.core.findings import Fact
from steelyard.core.kubernetes import class_in, is_longhorn, is_node_bound, replicas
from steelyard.core.quantities import INLINE, OPTIONAL, By, Named
from steelyard.core.redis import PromisedDeath, PromisedLoss, promised_loss
from steelyard.core.schedule import CellKey, ConfigurationName
from steelyard.core.stack import StorageClassFacts
from steelyard.core.target import RedisKubernetesTarget, RedisLocalTarget, Target


class Loss(StrEnum):
    """What fails."""

    SERVER = "server killed"
    POWER = "power lost"
    NODE = "node lost"
    DISK = "disk lost"
    SITE = "site lost"


class Fate(StrEnum):
    """What then becomes of what was acknowledged."""

    KEPT = "nothing"
    LAST = "last commits"
    ALL = "everything"
    UNKNOWN = "not known"


BY_WEIGHT: Final = (Fate.KEPT, Fate.LAST, Fate.UNKNOWN, Fate.ALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Survival:
    """What becomes of an acknowledged commit under one failure.

    Attributes:
        most_writes: So many writes at most; None where there is no such bound.
        writes: So many at the rate that was measured, and at least what ``most_writes`` says.
    """

    loss: Loss
    fate: Annotated[Fate, Named("what"), "Possible loss of acknowledged writes."]
    reason: Annotated[str, "Why."]
    source: Annotated[str, "Source; null if it follows from the set-up alone."] = ""
    seconds: Annotated[
        float | None,
        OPTIONAL,
        "Longest time from the acknowledgement of a lost write to the failure, s, if bounded.",
    ] = None
    known_as: Annotated[
        str, Named("words"), OPTIONAL, "The loss in words, if seconds alone do not say it."
    ] = ""
    most_writes: int | None = None
    writes: float | None = None

    @property
    def rank(self) -> tuple[int, float, float, bool]:
        """Return what orders known fates, the least loss first."""
        seconds = math.inf if self.seconds is None else self.seconds
        writes = math.inf if self.most_writes is None else float(self.most_writes)
        return BY_WEIGHT.index(self.fate), seconds, writes, bool(self.known_as)


@dataclass(frozen=True, slots=True, kw_only=True)
class DurabilityTrade:
    """What one side of a comparison may lose and the other keeps, or loses less of.

    Attributes:
        what: ``committed transactions``.
        when: ``after a crash``.
        because: Or what else of the set-up, in words.
    """

    weaker: Annotated[str, Named("less_durable"), "Configuration that may lose it."]
    stronger: Annotated[str, Named("more_durable"), "Configuration that keeps it."]
    what: Annotated[str, Named("may_lose"), "Possible loss."]
    when: Annotated[str, "Kind of failure."]
    because: Annotated[str, "The setting or place behind it."]
    instead: Annotated[
        str, Named("the_other_may_lose"), "Possible loss of the other side in that case, or null."
    ] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteLatency:
    """What a transaction takes under a workload that may write, with the fewest clients."""

    cell: Annotated[CellKey, INLINE]
    mean_s: Annotated[float | None, "Mean latency, s: median over runs."] = None
    per_s: Annotated[float | None, OPTIONAL, "Writes of a Redis per second: median over runs."] = (
        None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationDurability:
    """One configuration."""

    configuration: ConfigurationName
    survivals: Annotated[
        tuple[Survival, ...], Named("may_lose"), By("loss"), "Possible loss by kind of failure."
    ]
    latencies: Annotated[
        tuple[WriteLatency, ...], Named("write_latency"), "Each workload that may write."
    ]

    def fate(self, loss: Loss) -> Fate:
        """Return what becomes of acknowledged commits under one failure."""
        return next(each.fate for each in self.survivals if each.loss is loss)

    @property
    def lost_in_a_power_cut(self) -> str:
        """Return in a few words what of the acknowledged may be lost then."""
        cut = next(each for each in self.survivals if each.loss is Loss.POWER)
        if cut.writes is not None:
            noun = "write" if cut.writes == 1 else "writes"
            return f"\N{GREATER-THAN OR EQUAL TO} {cut.writes:,.0f} {noun}"
        if cut.seconds is not None and cut.known_as:  # and those during two saves
            return f"\N{GREATER-THAN OR EQUAL TO} {cut.seconds:g} s of writes"
        if cut.seconds is not None:
            return f"last {cut.seconds:g} s"
        return "the last ones" if cut.fate is Fate.LAST else cut.fate.value


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLag:
    """The replica of one configuration in one cell whose load writes."""

    configuration: ConfigurationName
    cell: Annotated[CellKey, INLINE]
    runs: Annotated[int, "Runs with such a reading."]
    most_bytes: Annotated[float, "Bytes of the stream, the most at any moment of any run."]
    usual_bytes: Annotated[float, "Median over runs of the most bytes in each."]
    usual_s: Annotated[
        float, "Median over runs of the time in which the primary wrote the most bytes of each, s."
    ]
    compared: Annotated[
        bool,
        "Both servers answered at nearly one moment. False: the primary alone was, which knows of"
        " its replica once a second: a second of the stream is in it.",
    ]


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
    """What an acknowledged commit of a configuration rests on.

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
        if footing.keeper is Keeper.OTHERS:
            return _elsewhere(footing, Loss.SITE)
        why = "no copy outside: neither a backup nor a replica elsewhere was made"
        return Survival(loss=Loss.SITE, fate=Fate.ALL, reason=why)
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
        return Survival(loss=loss, fate=Fate.ALL, reason=why)
    why = "Steelyard did not make this server, and sees neither its disks nor its standbys"
    return Survival(loss=loss, fate=Fate.UNKNOWN, reason=why)


_REDIS_REPLICATION: Final = "Redis documentation, 'Redis replication'"


def redis_survivals(
    target: Target,
    settings: Mapping[str, str],
    facts: Sequence[Fact],
    per_s: float | None = None,
) -> tuple[Survival, ...]:
    """Return what an acknowledged write survives, one answer for each failure.

    Args:
        target: Where the server runs.
        settings: In force, by name. What is missing has Redis' default on a server of Steelyard's
            own; on one of others nobody knows it.
        facts: Of the record: the cluster's storage classes are among them.
        per_s: Writes per second, where they were measured.
    """
    promised = promised_loss(settings, per_s)
    return tuple(_redis_survival(target, settings, facts, loss, promised) for loss in Loss)


def _redis_survival(
    target: Target,
    settings: Mapping[str, str],
    facts: Sequence[Fact],
    loss: Loss,
    promised: PromisedLoss,
) -> Survival:
    if loss in (Loss.SERVER, Loss.POWER):
        return _started_again(target, settings, loss, promised)
    if target.is_here:
        why = "the data lie on this machine alone"
        return Survival(loss=loss, fate=Fate.ALL, reason=why)
    if isinstance(target, RedisKubernetesTarget) and target.is_made:
        if loss is Loss.SITE:
            why = "no copy outside: neither a backup nor a replica elsewhere was made"
            return Survival(loss=loss, fate=Fate.ALL, reason=why)
        left = _own(loss, promised.power)
        return volume_survival(class_in(facts, target.storage_class), loss, left)
    why = "Steelyard did not make this server, and sees neither its disks nor its replicas"
    return Survival(loss=loss, fate=Fate.UNKNOWN, reason=why)


def _started_again(
    target: Target, settings: Mapping[str, str], loss: Loss, promised: PromisedLoss
) -> Survival:
    """Return what is left of a server that died, or its machine with it, and nothing else."""
    if not target.is_made and "appendonly" not in settings:
        why = "Steelyard did not make this server, and it does not show its settings"
        return Survival(loss=loss, fate=Fate.UNKNOWN, reason=why)
    return _beside(
        target, settings, _own(loss, promised.kill if loss is Loss.SERVER else promised.power)
    )


def _own(loss: Loss, promised: PromisedDeath) -> Survival:
    """Return what comes back when the same server starts again on the same data."""
    fate = {None: Fate.ALL, 0.0: Fate.KEPT}.get(promised.most_s, Fate.LAST)
    partly = bool(promised.on_top) or promised.most_writes is not None
    return Survival(
        loss=loss,
        fate=Fate.LAST if partly else fate,
        reason=promised.reason,
        source=promised.source,
        seconds=promised.most_s or None,
        known_as=promised.words if partly else "",
        most_writes=promised.most_writes,
        writes=promised.writes,
    )


def _beside(target: Target, settings: Mapping[str, str], own: Survival) -> Survival:
    """Return what is left where a replica beside the server has a copy, too."""
    if not isinstance(target, RedisLocalTarget) or target.replica is None:
        return own
    if own.fate is not Fate.ALL:
        return own  # it comes back by itself with more than a replica is sure to have
    if own.loss is Loss.SERVER:
        why = (
            "the replica has all but what had not reached it, if it is promoted before the primary"
            " starts again: an empty primary that comes back wipes it"
        )
        return Survival(loss=own.loss, fate=Fate.LAST, reason=why, source=_REDIS_REPLICATION)
    replica = promised_loss({**settings, **dict(target.replica)}).power
    held = _own(own.loss, replica)
    if held.fate is Fate.ALL:
        return own
    why = f"on the replica, without what had not reached it, if it starts first: {held.reason}"
    return Survival(
        loss=own.loss,
        fate=Fate.LAST,
        reason=why,
        source=f"{_REDIS_REPLICATION}; {held.source}",
        seconds=held.seconds,
        known_as=held.known_as,
        writes=held.writes,
    )
