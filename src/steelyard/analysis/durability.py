"""What each treatment may lose, and what its writes take: the price of losing less."""

import json
from collections.abc import Mapping, Sequence

from steelyard.analysis.durability_results import (
    Fate,
    Loss,
    Survival,
    TreatmentDurability,
    WriteLatency,
)
from steelyard.analysis.redis_survival import redis_survivals
from steelyard.analysis.results import CellSummary
from steelyard.analysis.survival import NO_WAIT, Footing, Keeper, survivals
from steelyard.model.environment import Environment, Fact
from steelyard.model.experiment import EngineName, Experiment, Treatment
from steelyard.model.persistence import folded_switch
from steelyard.model.redis_commands import changes_keys
from steelyard.model.schedule import CellKey
from steelyard.model.stack_facts import StorageClassFacts
from steelyard.model.storage_classes import class_in
from steelyard.model.target import CloudNativePgTarget, LocalTarget, RedisTarget
from steelyard.model.workload import Workload

_READ_ONLY = "select-only"  # the script of pgbench that changes nothing


def durability_of(
    experiment: Experiment, environment: Environment | None, cells: Sequence[CellSummary]
) -> tuple[TreatmentDurability, ...]:
    """Return what every treatment may lose; nothing where that is beside the question.

    It is not where servers run in Kubernetes, where treatments differ in it, where settings give
    up what PostgreSQL keeps by default, and where the server is a Redis.
    """
    found = tuple(
        TreatmentDurability(
            treatment=treatment.name,
            survivals=_survivals(treatment, environment),
            latencies=_latencies(treatment.name, experiment, cells),
        )
        for treatment in experiment.treatments
    )
    always = experiment.is_in_kubernetes or experiment.engine is EngineName.REDIS
    return found if always or _is_at_stake(found) else ()


def _survivals(treatment: Treatment, environment: Environment | None) -> tuple[Survival, ...]:
    if isinstance(treatment.target, RedisTarget):
        facts = () if environment is None else environment.facts
        return redis_survivals(treatment.target, _in_force(treatment, environment), facts)
    return survivals(footing(treatment, environment))


def _is_at_stake(found: Sequence[TreatmentDurability]) -> bool:
    """Return whether treatments differ in what they lose, or one loses what a restart brings."""
    known = [
        {each.fate(loss) for each in found if each.fate(loss) is not Fate.UNKNOWN} for loss in Loss
    ]
    weak = any(
        each.fate(loss) not in (Fate.KEPT, Fate.UNKNOWN)
        for each in found
        for loss in (Loss.SERVER, Loss.POWER)
    )
    return weak or any(len(fates) > 1 for fates in known)


def footing(treatment: Treatment, environment: Environment | None) -> Footing:
    """Return what an acknowledged commit of a treatment rests on, by settings, target and facts."""
    settings = _in_force(treatment, environment)
    target = treatment.target
    if isinstance(target, LocalTarget):
        return Footing(keeper=Keeper.MACHINE, settings=settings)
    if not isinstance(target, CloudNativePgTarget) or target.cluster is not None:
        return Footing(keeper=Keeper.OTHERS, settings=settings)
    facts = () if environment is None else environment.facts
    waits, why_not = _waiting(target, settings)
    return Footing(
        keeper=Keeper.CLUSTER,
        settings=settings,
        standbys=target.instances - 1,
        waits=waits,
        why_not=why_not,
        apart=json.loads(target.affinity).get("podAntiAffinityType") == "required",
        volumes=_volumes(target, facts),
    )


def _in_force(treatment: Treatment, environment: Environment | None) -> Mapping[str, str]:
    """Return the settings as the server showed them; where none was seen, as they were asked."""
    servers = () if environment is None else environment.servers
    seen = next((each for each in servers if each.treatment == treatment.name), None)
    if seen is not None:
        return {each.name: each.value for each in seen.settings}
    asked = treatment.asked_folded()
    if isinstance(treatment.target, RedisTarget):
        return asked
    return {
        name: value if folded_switch(value) != "off" else "off" for name, value in asked.items()
    }


def _waiting(target: CloudNativePgTarget, settings: Mapping[str, str]) -> tuple[str, str]:
    """Return whether commits wait for a standby, and if not why."""
    commit = settings.get("synchronous_commit", "on")
    if target.synchronous is None:
        return "", "no commit waits for it (synchronous: is not asked for)"
    if not settings.get("synchronous_standby_names", "unseen"):
        return "", "synchronous_standby_names is empty on the server"
    if commit in NO_WAIT:
        return "", f"synchronous_commit = {commit} waits for none"
    return target.synchronous.data_durability, ""


def _volumes(
    target: CloudNativePgTarget, facts: Sequence[Fact]
) -> tuple[StorageClassFacts | None, ...]:
    data = class_in(facts, target.storage_class)
    if target.wal_storage is None or target.wal_storage_class is None:
        return (data,)
    return data, class_in(facts, target.wal_storage_class)


def _latencies(
    treatment: str, experiment: Experiment, cells: Sequence[CellSummary]
) -> tuple[WriteLatency, ...]:
    load = min(experiment.loads, key=lambda each: (each.is_open, each.size))
    keys = [CellKey(workload=w.name, load=load) for w in experiment.workloads if _may_write(w)]
    seen = {each.cell: each for each in cells if each.treatment == treatment}
    return tuple(
        WriteLatency(cell=key)
        if (cell := seen.get(key)) is None
        else WriteLatency(cell=key, mean_s=cell.latency_mean_s, per_s=cell.tps.value)
        for key in keys
    )


def _may_write(workload: Workload) -> bool:
    """Return whether a workload may change data, as far as its name tells."""
    if workload.redis is not None:
        return changes_keys(workload)
    return workload.builtin != _READ_ONLY
