"""Rules of a CloudNativePG cluster."""

from typing import Final

from steelyard.core.findings import Severity
from steelyard.core.kubernetes import OVERWRITTEN, REFUSED
from steelyard.core.stack_facts import ClusterFacts, StackFacts
from steelyard.tuning.rules.rule import Outcome, Rule

_CONFIGURATION: Final = "CloudNativePG documentation, 'PostgreSQL Configuration'"


def _cluster(facts: StackFacts) -> ClusterFacts | None:
    return facts.kubernetes.cluster if facts.kubernetes is not None else None


def _own_parameters(facts: StackFacts) -> Outcome:
    cluster = _cluster(facts)
    if cluster is None:
        return None
    refused = [f"{name} belongs to the operator" for name in cluster.parameters if name in REFUSED]
    lost = [f"the operator overwrites {name}" for name in cluster.parameters if name in OVERWRITTEN]
    untexted = [
        f"{name}: {value!r} is no text"
        for name, value in cluster.parameters.items()
        if not isinstance(value, str)
    ]
    return (*refused, *lost, *untexted)


def _wal_level(facts: StackFacts) -> Outcome:
    cluster = _cluster(facts)
    if cluster is None or facts.intent.logical_decoding:
        return None
    level = cluster.parameters.get("wal_level")
    if level is None:
        return ("wal_level is left at the operator's default, logical",)
    return (
        ("wal_level is logical, and nothing is known to decode it",) if level == "logical" else ()
    )


def _apart(facts: StackFacts) -> Outcome:
    cluster = _cluster(facts)
    if cluster is None or cluster.instances < 2:
        return None
    if cluster.anti_affinity == "required":
        return ()
    return (f"{cluster.instances} instances with podAntiAffinityType {cluster.anti_affinity}",)


def _budget(facts: StackFacts) -> Outcome:
    cluster = _cluster(facts)
    if cluster is None:
        return None
    if cluster.instances == 1 and cluster.disruption_budget:
        return ("a disruption budget for a single instance keeps its node from being drained",)
    if cluster.instances > 1 and not cluster.disruption_budget:
        return (f"{cluster.instances} instances without a disruption budget",)
    return ()


_NEEDS: Final = ("kubernetes.cluster",)

RULES: Final[tuple[Rule, ...]] = (
    Rule(
        code="CNPG001",
        layers=("kubernetes", "postgres"),
        severity=Severity.ERROR,
        title="The cluster sets none of the operator's own parameters",
        why="the webhook refuses a fixed parameter, and the schema a value that is no text",
        detect="spec.postgresql.parameters against the operator's list",
        remedy="Remove them; quote the values.",
        source="cloudnative-pg, pkg/postgres/configuration.go at b122f632,"
        " FixedConfigurationParameters",
        needs=_NEEDS,
        check=_own_parameters,
    ),
    Rule(
        code="CNPG002",
        layers=("kubernetes", "postgres"),
        severity=Severity.WARNING,
        title="wal_level is replica unless logical decoding is used",
        why="the operator's default is logical, which writes more WAL",
        detect="spec.postgresql.parameters.wal_level",
        remedy="Set wal_level: replica, or say that logical decoding is used.",
        source=_CONFIGURATION,
        needs=_NEEDS,
        check=_wal_level,
    ),
    Rule(
        code="CNPG003",
        layers=("kubernetes",),
        severity=Severity.WARNING,
        title="Instances run on different nodes",
        why="the operator only prefers that by default: one node may hold them all",
        detect="spec.affinity.podAntiAffinityType",
        remedy="Set podAntiAffinityType: required.",
        source="CloudNativePG documentation, 'Scheduling'",
        needs=_NEEDS,
        check=_apart,
    ),
    Rule(
        code="CNPG004",
        layers=("kubernetes",),
        severity=Severity.INFO,
        title="A disruption budget suits the number of instances",
        why="with one instance it blocks every drain; without one, several may go at once",
        detect="spec.enablePDB, spec.instances",
        remedy="Set enablePDB: false for a single instance, true for several.",
        source="CloudNativePG documentation, 'API Reference'",
        needs=_NEEDS,
        check=_budget,
    ),
)
