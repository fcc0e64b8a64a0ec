"""Rules: what an acknowledged write of Redis survives, by settings, a replica and what holds it."""

from collections.abc import Mapping, Sequence
from typing import Final

from steelyard.analysis.durability_results import Fate, Loss, Survival
from steelyard.analysis.survival import volume_survival
from steelyard.model.environment import Fact
from steelyard.model.persistence import PromisedDeath, promised_loss
from steelyard.model.storage_classes import class_in
from steelyard.model.target import RedisEndpointTarget, RedisKubernetesTarget, RedisLocalTarget

_REPLICATION: Final = "Redis documentation, 'Redis replication'"
_Target = RedisLocalTarget | RedisEndpointTarget | RedisKubernetesTarget


def redis_survivals(
    target: _Target, settings: Mapping[str, str], facts: Sequence[Fact]
) -> tuple[Survival, ...]:
    """Return what an acknowledged write survives, one answer for each failure.

    Args:
        target: Where the server runs.
        settings: In force, by name. What is missing has Redis' default on a server of Steelyard's
            own; on one of others nobody knows it.
        facts: Of the record: the cluster's storage classes are among them.
    """
    return tuple(_survival(target, settings, facts, loss) for loss in Loss)


def _survival(
    target: _Target, settings: Mapping[str, str], facts: Sequence[Fact], loss: Loss
) -> Survival:
    if loss in (Loss.SERVER, Loss.POWER):
        return _started_again(target, settings, loss)
    if isinstance(target, RedisLocalTarget):
        why = "the data lie on this machine alone"
        return Survival(loss=loss, fate=Fate.ALL, reason=why, source="")
    if isinstance(target, RedisKubernetesTarget) and target.is_made:
        if loss is Loss.SITE:
            why = "no copy outside: neither a backup nor a replica elsewhere was made"
            return Survival(loss=loss, fate=Fate.ALL, reason=why, source="")
        left = _own(loss, promised_loss(settings).power)
        return volume_survival(class_in(facts, target.storage_class), loss, left)
    why = "Steelyard did not make this server, and sees neither its disks nor its replicas"
    return Survival(loss=loss, fate=Fate.UNKNOWN, reason=why, source="")


def _started_again(target: _Target, settings: Mapping[str, str], loss: Loss) -> Survival:
    """Return what is left of a server that died, or its machine with it, and nothing else."""
    if not _is_own(target) and "appendonly" not in settings:
        why = "Steelyard did not make this server, and it does not show its settings"
        return Survival(loss=loss, fate=Fate.UNKNOWN, reason=why, source="")
    promised = promised_loss(settings)
    return _beside(
        target, settings, _own(loss, promised.kill if loss is Loss.SERVER else promised.power)
    )


def _is_own(target: _Target) -> bool:
    if isinstance(target, RedisKubernetesTarget):
        return target.is_made
    return isinstance(target, RedisLocalTarget)


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
    )


def _beside(target: _Target, settings: Mapping[str, str], own: Survival) -> Survival:
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
        return Survival(loss=own.loss, fate=Fate.LAST, reason=why, source=_REPLICATION)
    replica = promised_loss({**settings, **dict(target.replica)}).power
    held = _own(own.loss, replica)
    if held.fate is Fate.ALL:
        return own
    why = f"on the replica, without what had not reached it, if it starts first: {held.reason}"
    return Survival(
        loss=own.loss,
        fate=Fate.LAST,
        reason=why,
        source=f"{_REPLICATION}; {held.source}",
        seconds=held.seconds,
        known_as=held.known_as,
    )
