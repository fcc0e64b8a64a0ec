"""Rules of storage classes and replication."""

from typing import Final

from steelyard.core.findings import Severity
from steelyard.core.kubernetes import LATE, is_longhorn, is_node_bound, is_strict, replicas
from steelyard.core.stack_facts import StackFacts, StorageClassFacts
from steelyard.tuning.rules.rule import Outcome, Rule, of_each


def _classes(facts: StackFacts) -> tuple[StorageClassFacts, ...]:
    classes = facts.kubernetes.storage_classes if facts.kubernetes is not None else None
    return classes or ()


def _one_replica(facts: StackFacts) -> Outcome:
    def check(each: StorageClassFacts) -> Outcome:
        if not is_strict(each):
            return None
        number = replicas(each)
        return () if number == "1" else (f"{each.name}: strict-local with {number} replicas",)

    return of_each(_classes(facts), check)


def _replicated_once(facts: StackFacts) -> Outcome:
    cluster = facts.kubernetes.cluster if facts.kubernetes is not None else None
    if cluster is None:
        return None

    def check(each: StorageClassFacts) -> Outcome:
        number = replicas(each)
        if each.name != cluster.storage_class or not is_longhorn(each) or not number.isdigit():
            return None
        copies = cluster.instances * int(number)
        if cluster.instances == 1 or int(number) == 1:
            return ()
        return (f"{cluster.instances} instances x {number} replicas = {copies} copies",)

    return of_each(_classes(facts), check)


def _late_binding(facts: StackFacts) -> Outcome:
    def check(each: StorageClassFacts) -> Outcome:
        if not is_strict(each) and not is_node_bound(each):
            return None
        return () if each.binding == LATE else (f"{each.name}: volumeBindingMode {each.binding}",)

    return of_each(_classes(facts), check)


def _second_engine(facts: StackFacts) -> Outcome:
    def check(each: StorageClassFacts) -> Outcome:
        if not is_longhorn(each):
            return None
        if each.parameters.get("dataEngine") != "v2":
            return ()
        return (f"{each.name}: its engine takes 1024 pages of 2 MiB and one core of every node",)

    return of_each(_classes(facts), check)


_NEEDS: Final = ("kubernetes.storage_classes",)
_PARAMETERS: Final = "Longhorn documentation, 'Storage Class Parameters'"

RULES: Final[tuple[Rule, ...]] = (
    Rule(
        code="LH001",
        layers=("storage",),
        severity=Severity.ERROR,
        title="A strict-local volume has exactly one replica",
        why="its creation fails otherwise",
        detect="dataLocality and numberOfReplicas (3 by default) of the storage class",
        remedy='Set numberOfReplicas: "1".',
        source=_PARAMETERS,
        needs=_NEEDS,
        check=_one_replica,
    ),
    Rule(
        code="LH002",
        layers=("storage", "kubernetes"),
        severity=Severity.WARNING,
        title="Data are replicated once, by the database or by the storage",
        why="3 instances on 3 replicas are 9 copies, and every commit crosses the network twice",
        detect="the cluster's instances times the replicas of its storage class",
        remedy="Use strict-local volumes of one replica below a replicated database.",
        source="Longhorn documentation, 'Best Practices'",
        needs=(*_NEEDS, "kubernetes.cluster"),
        check=_replicated_once,
    ),
    Rule(
        code="LH003",
        layers=("storage", "kubernetes"),
        severity=Severity.WARNING,
        title="Volumes that live on one node bind late",
        why="bound at once, the volume chooses a node before the scheduler knows the pod",
        detect="volumeBindingMode of strict-local and node-local storage classes",
        remedy=f"Set volumeBindingMode: {LATE}.",
        source=f"Kubernetes documentation, 'Storage Classes'; {_PARAMETERS}",
        needs=_NEEDS,
        check=_late_binding,
    ),
    Rule(
        code="LH004",
        layers=("storage", "linux"),
        severity=Severity.WARNING,
        title="Longhorn's V2 engine does not compete with the database",
        why="it polls one core at 100 % and holds 2 GiB of huge pages on every node",
        detect="dataEngine of the storage class",
        remedy="Add 1024 pages to the pool and reserve a core, or use dataEngine: v1.",
        source="Longhorn documentation, 'V2 Data Engine: Prerequisites'",
        needs=_NEEDS,
        check=_second_engine,
    ),
)
