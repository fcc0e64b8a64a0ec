"""What a reader must know of a Cluster that was made, and what is worth knowing of it."""

from collections.abc import Iterator, Sequence
from typing import Final

from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.gateways.sql import Sql
from steelyard.model.command import ServerAddress
from steelyard.model.environment import Fact
from steelyard.model.findings import Finding
from steelyard.model.target import CloudNativePgTarget
from steelyard.platforms.cloudnative_pg.state import OF_CLUSTER, ClusterState
from steelyard.platforms.kubernetes.place_findings import early_volumes, place_finding
from steelyard.platforms.kubernetes.volumes import storage_class_facts, volume_facts

STANDBYS: Final = (
    "SELECT application_name, state, sync_state FROM pg_stat_replication"
    " WHERE state = 'streaming' ORDER BY application_name"
)
SWITCHED: Final = (
    "It stays where it is now. Without a switchover it is restarted in its place: set"
    " primaryUpdateMethod: restart in the Cluster."
)


def facts_of(
    api: KubernetesApi, sql: Sql, state: ClusterState, address: ServerAddress
) -> tuple[Fact, ...]:
    """Return what is known of a running Cluster: instances, nodes, volumes, replication."""
    primary, subject = state.primary_instance, f"Cluster {state.ref.name}"
    standbys = [each for each in state.instances if each != primary]
    told = {
        "operator": "" if primary is None else primary.operator,
        "instances": str(state.asked),
        "node of the primary": "" if primary is None else primary.node,
        "nodes of the standbys": ", ".join(each.node for each in standbys),
        "QoS class": "" if primary is None else primary.qos,
        "standbys": "; ".join(_standbys(sql, address)) if standbys else "",
    }
    return (
        *(Fact(name=n, value=value, subject=subject) for n, value in told.items() if value),
        *volume_facts(api, state.ref.namespace, {OF_CLUSTER: state.ref.name}),
    )


def _standbys(sql: Sql, address: ServerAddress) -> Iterator[str]:
    for name, state, synchronous in sql.rows(address, STANDBYS):
        yield f"{name}: {state}, {synchronous}"


def class_facts_of(api: KubernetesApi, target: CloudNativePgTarget) -> tuple[Fact, ...]:
    """Return what the storage classes of a target say of themselves."""
    classes = [target.storage_class]
    if target.wal_storage is not None:
        classes.append(target.wal_storage_class or target.storage_class)
    return storage_class_facts(api, dict.fromkeys(classes))


def findings_of(
    target: CloudNativePgTarget, facts: Sequence[Fact], state: ClusterState | None
) -> Iterator[Finding]:
    """Yield what is worth knowing of a Cluster and its storage class."""
    yield from early_volumes("database", target.storage_class, facts)
    nodes = [] if state is None else [each.node for each in state.instances]
    if len(set(nodes)) < len(nodes):
        yield place_finding(
            "instances-share-node",
            f"{len(nodes)} instances run on {', '.join(sorted(set(nodes)))}: those that share a"
            " node share its CPUs and disks, and fail with it",
            "Add `affinity: {podAntiAffinityType: required}`, and nodes for them.",
        )
