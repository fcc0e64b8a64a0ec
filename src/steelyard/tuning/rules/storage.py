"""Rules of storage classes and replication."""

from typing import Final

from steelyard.core.findings import Severity
from steelyard.core.kubernetes import LATE, is_longhorn, is_node_bound, is_strict, replicas
from steelyard.core.stack import StackFacts, StorageClassFacts
from steelyard.tuning.rules.rule import HOLDS, NOTHING, Rulings, StackRule, of_each, violated


def _classes(facts: StackFacts) -> tuple[StorageClassFacts, ...]:
    classes = facts.kubernetes.storage_classes if facts.kubernetes is not None else None
    return classes or ()


def _one_replica(facts: StackFacts) -> Rulings:
    def check(each: StorageClassFacts) -> Rulings:
        if not is_strict(each):
            return NOTHING
        number = replicas(each)
        return (
            HOLDS
            if number == "1"
            else violated(f"{each.name}: strict-local with {number} replicas")
        )

    return of_each(_classes(facts), check)


def _replicated_once(facts: StackFacts) -> Rulings:
    cluster = facts.kubernetes.cluster if facts.kubernetes is not None else None
    if cluster is None:
        return NOTHING

    def check(each: StorageClassFacts) -> Rulings:
        number = replicas(each)
        if each.name != cluster.storage_class or not is_longhorn(each) or not number.isdigit():
            return NOTHING
        copies = cluster.instances * int(number)
        if cluster.instances == 1 or int(number) == 1:
            return HOLDS
        return violated(f"{cluster.instances} instances x {number} replicas = {copies} copies")

    return of_each(_classes(facts), check)


def _late_binding(facts: StackFacts) -> Rulings:
    def check(each: StorageClassFacts) -> Rulings:
        if not is_strict(each) and not is_node_bound(each):
            return NOTHING
        return (
            HOLDS
            if each.binding == LATE
            else violated(f"{each.name}: volumeBindingMode {each.binding}")
        )

    return of_each(_classes(facts), check)


def _second_engine(facts: StackFacts) -> Rulings:
    def check(each: StorageClassFacts) -> Rulings:
        if not is_longhorn(each):
            return NOTHING
        if each.parameters.get("dataEngine") != "v2":
            return HOLDS
        return violated(
            f"{each.name}: its engine takes 1024 pages of 2 MiB and one core of every node"
        )

    return of_each(_classes(facts), check)


_NEEDS: Final = ("kubernetes.storage_classes",)
_PARAMETERS: Final = "Longhorn documentation, 'Storage Class Parameters'"

RULES: Final[tuple[StackRule, ...]] = (
    StackRule(
        code="LH001",
        layers=("storage",),
        severity=Severity.ERROR,
        title="A strict-local volume has exactly one replica",
        why="its creation fails otherwise",
        detect="dataLocality and numberOfReplicas (3 by default) of the storage class",
        remedy='Set numberOfReplicas: "1".',
        source=_PARAMETERS,
        needs=_NEEDS,
        judge=_one_replica,
    ),
    StackRule(
        code="LH002",
        layers=("storage", "kubernetes"),
        severity=Severity.WARNING,
        title="Data are replicated once, by the database or by the storage",
        why="3 instances on 3 replicas are 9 copies, and every commit crosses the network twice",
        detect="the cluster's instances times the replicas of its storage class",
        remedy="Use strict-local volumes of one replica below a replicated database.",
        source="Longhorn documentation, 'Best Practices'",
        needs=(*_NEEDS, "kubernetes.cluster"),
        judge=_replicated_once,
    ),
    StackRule(
        code="LH003",
        layers=("storage", "kubernetes"),
        severity=Severity.WARNING,
        title="Volumes that live on one node bind late",
        why="bound at once, the volume chooses a node before the scheduler knows the pod",
        detect="volumeBindingMode of strict-local and node-local storage classes",
        remedy=f"Set volumeBindingMode: {LATE}.",
        source=f"Kubernetes documentation, 'Storage Classes'; {_PARAMETERS}",
        needs=_NEEDS,
        judge=_late_binding,
    ),
    StackRule(
        code="LH004",
        layers=("storage", "linux"),
        severity=Severity.WARNING,
        title="Longhorn's V2 engine does not compete with the database",
        why="it polls one core at 100 % and holds 2 GiB of huge pages on every node",
        detect="dataEngine of the storage class",
        remedy="Add 1024 pages to the pool and reserve a core, or use dataEngine: v1.",
        source="Longhorn documentation, 'V2 Data Engine: Prerequisites'",
        needs=_NEEDS,
        judge=_second_engine,
    ),
)
