"""A Cluster of CloudNativePG that a campaign makes, measures and takes away.

Equal targets share one Cluster for the campaign: its settings are patched, its data come back from
templates on the running server. Where targets differ, every start makes its Cluster anew under a
name of its own, and only one is there at a time. It is taken away with all that it had: pods,
claims, and volumes that go with them.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from steelyard.core import kubernetes as k8s
from steelyard.core.findings import Fact, Finding, facts_about
from steelyard.core.outside import ServerAddress, ServerProgram
from steelyard.core.target import CloudNativePgTarget
from steelyard.core.wording import TargetError
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.gateways.sql import Sql
from steelyard.places.kubernetes import made_server
from steelyard.places.kubernetes.manifests import render_manifest
from steelyard.places.kubernetes.pods import placing, resources_of
from steelyard.places.kubernetes.volumes import storage_class_facts, volume_facts
from steelyard.places.protocol import Ledger, PreparedState
from steelyard.systems.postgres.cloudnative_pg import operator as operators
from steelyard.systems.postgres.cloudnative_pg import rollout as rolling
from steelyard.systems.postgres.existing.server import STARTED_AT


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions(made_server.MadeOptions):
    """How a campaign uses a Cluster of its own.

    Attributes:
        settings: Names of all settings that any configuration on it asks for.
        restarts: Whether every start restarts it.
        slot: Counts Clusters of one target that are up together, from 1.
    """

    target: CloudNativePgTarget
    settings: tuple[str, ...]
    restarts: bool
    slot: int = 1


STANDBYS: Final = (
    "SELECT application_name, state, sync_state FROM pg_stat_replication"
    " WHERE state = 'streaming' ORDER BY application_name"
)
SWITCHED: Final = (
    "It stays where it is now. Without a switchover it is restarted in its place: set"
    " primaryUpdateMethod: restart in the Cluster."
)


def facts_of(
    api: KubernetesApi, sql: Sql, state: operators.ClusterState, address: ServerAddress
) -> tuple[Fact, ...]:
    """Return what is known of a running Cluster: instances, nodes, volumes, replication."""
    primary = state.primary_instance
    standbys = [each for each in state.instances if each != primary]
    told = {
        "operator": "" if primary is None else primary.operator,
        "instances": str(state.asked),
        "node of the primary": "" if primary is None else primary.node,
        "nodes of the standbys": ", ".join(each.node for each in standbys),
        "QoS class": "" if primary is None else primary.qos,
        "standbys": "; ".join(
            f"{name}: {streams}, {synchronous}"
            for name, streams, synchronous in (sql.rows(address, STANDBYS) if standbys else ())
        ),
    }
    return (
        *facts_about(f"Cluster {state.ref.name}", told),
        *volume_facts(api, state.ref.namespace, {k8s.OF_CLUSTER: state.ref.name}),
    )


def class_facts_of(api: KubernetesApi, target: CloudNativePgTarget) -> tuple[Fact, ...]:
    """Return what the storage classes of a target say of themselves."""
    classes = [target.storage_class]
    if target.wal_storage is not None:
        classes.append(target.wal_storage_class or target.storage_class)
    return storage_class_facts(api, dict.fromkeys(classes))


def findings_of(
    target: CloudNativePgTarget, facts: Sequence[Fact], state: operators.ClusterState | None
) -> Iterator[Finding]:
    """Yield what is worth knowing of a Cluster and its storage class."""
    yield from made_server.early_volumes("database", target.storage_class, facts)
    nodes = [] if state is None else [each.node for each in state.instances]
    if len(set(nodes)) < len(nodes):
        yield made_server.place_finding(
            "instances-share-node",
            f"{len(nodes)} instances run on {', '.join(sorted(set(nodes)))}: those that share a"
            " node share its CPUs and disks, and fail with it",
            "Add `affinity: {podAntiAffinityType: required}`, and nodes for them.",
        )


def cluster_manifest(
    target: CloudNativePgTarget,
    *,
    name: str,
    namespace: str,
    secret: k8s.SecretRef,
    settings: Mapping[str, str],
    campaign_id: str = "",
) -> k8s.Manifest:
    """Return the Cluster of a target.

    Args:
        target: That makes its own Cluster.
        name: At most 50 characters.
        namespace: Where it goes; empty: the manifest names none.
        secret: Of the superuser, whom the operator gives its password.
        settings: Of PostgreSQL.
        campaign_id: In the labels of everything; empty: none is named.
    """
    unnamed = {k8s.MANAGED_BY: k8s.MANAGER, k8s.ROLE: k8s.DATABASE}
    return render_manifest(
        __package__,
        "cluster",
        target=target,
        name=name,
        namespace=namespace,
        labels=k8s.campaign_labels(campaign_id, k8s.DATABASE) if campaign_id else unnamed,
        secret=secret.name,
        affinity={
            **placing(target.node_selector, target.tolerations),
            **json.loads(target.affinity),
        },
        resources=resources_of(target.resources),
        postgresql={
            "parameters": {},
            operators.LIBRARIES: None,
            **operators.postgresql_spec(settings),
        },
    )


@dataclass(slots=True, kw_only=True)
class _There(made_server.Standing):
    way: rolling.PrimaryWay
    rollout: rolling.Rollout
    state: operators.ClusterState


TEMPLATE: Final = "template"  # the engine copies databases on the running server
_SIZE: Final = "SELECT coalesce(sum(pg_database_size(oid)), 0)::bigint FROM pg_database"


class CloudNativePgPlatform(made_server.MadeInCluster[_There]):
    """The Clusters of one target, one at a time."""

    noun = "Cluster"
    part = "primary"
    label = k8s.OF_CLUSTER
    _options: ClusterOptions

    def __init__(
        self, options: ClusterOptions, ledger: Ledger, means: made_server.MadeMeans
    ) -> None:
        what = options.target if options.slot == 1 else [options.target, options.slot]
        super().__init__(options, ledger, means, what)
        self._wait = rolling.ClusterWait(means.api, means.doors.clock, means.told)

    @property
    def container(self) -> k8s.ContainerRef | None:
        """Return its primary's container."""
        primary = self._there.way.instance
        return None if primary is None else primary.where

    def _entrance(self) -> ServerAddress:
        return self._there.way.address()

    def _started_at(self) -> object:
        return self._doors.sql.rows(self._entrance(), STARTED_AT)[0][0]

    def manifest(self, number: int) -> k8s.Manifest:
        """Return the Cluster of a number, as it is made."""
        options = self._options
        return cluster_manifest(
            options.target,
            name=self._name(number),
            namespace=options.namespace,
            secret=options.secret,
            settings={},
            campaign_id=options.campaign_id,
        )

    def _make(self) -> ServerAddress:
        self._announce()
        self._means.told(f"Cluster {self.name} is made: {self._options.target.label}, about 1 min")
        self._means.belongings.make(self.manifest(self._number))
        (ref,) = self._objects()
        way = rolling.PrimaryWay(ref, self._means.reach, self._options.secret)
        state = self._wait.until(
            ref,
            lambda state: state.is_healthy and self._answers(way, state),
            most_s=rolling.MADE_WITHIN_S,
        )
        self._current = _There(way=way, rollout=self._rollout(ref, way), state=state)
        self._look_around(self._current)
        return way.address()

    def _objects(self) -> tuple[k8s.ObjectRef, ...]:
        namespace = self._options.namespace
        return (k8s.ObjectRef(kind=k8s.CLUSTER, name=self.name, namespace=namespace),)

    def _rollout(self, ref: k8s.ObjectRef, way: rolling.PrimaryWay) -> rolling.Rollout:
        means, synchronous = self._means, self._options.target.synchronous
        return rolling.Rollout(
            ref,
            dict.fromkeys((name.lower() for name in self._options.settings), None),
            f"{self._token}-{self._number}",
            means,
            patch=lambda patch: means.api.patch(ref, patch),
            address=way.follow,
            synchronous=0 if synchronous is None else synchronous.number,
        )

    def _answers(self, way: rolling.PrimaryWay, state: operators.ClusterState) -> bool:
        """Return whether the primary lets us in: the operator sets the password by itself."""
        try:
            self._doors.sql.rows(way.follow(state), STARTED_AT)
        except TargetError:
            return False
        return True

    def _look_around(self, there: _There) -> None:
        primary = there.state.primary_instance
        if primary is not None:
            self._seen_on(primary.node)
        self._facts = facts_of(self._means.api, self._doors.sql, there.state, there.way.address())

    def _bring(self, settings: Mapping[str, str], *, restarts: bool) -> None:
        """Bring settings into force, and note since when the server runs.

        Raises:
            TargetError: Operator or server refuse them; those before are in force then.
        """
        there = self._there
        there.since = None
        if restarts:
            self._keep_log()
        if restarts or self._options.settings:
            there.state = there.rollout.apply(settings, restarts=restarts)
            self._look_around(there)
        there.since = self._started_at()

    def _close_way(self) -> None:
        self._there.way.forget()

    def _readable(self, log: str) -> str:
        return operators.plain_log(log)

    def require_ready(self) -> None:
        """Check all that can be known before anything is made.

        Raises:
            PreflightError: The operator is not there, or keeps a setting to itself.
            InputError: The operator does not know a field of the Cluster.
        """
        operator = operators.discover(self._means.api)
        operators.require_taken(self._options.settings)
        operators.require_known(self.manifest(0), operator)

    def _build(self, program: ServerProgram, build: Callable[[ServerAddress], None]) -> int:
        build(self._make())
        return int(str(self._doors.sql.rows(self._entrance(), _SIZE)[0][0]))

    def restore(self, state: PreparedState, means: str) -> float:
        """Do nothing: the engine brings data back from templates on the running server."""
        return 0.0

    def start(
        self, state: PreparedState, program: ServerProgram, settings: Mapping[str, str]
    ) -> None:
        """Bring settings into force.

        A server that was just made is restarted, too: else configurations whose settings need it
        would begin with empty buffers, and the others with those that the data were loaded through.
        """
        self._bring(settings, restarts=self._options.restarts or self._options.provisions)

    def configure(self, settings: Mapping[str, str]) -> bool:
        """Bring other settings into force on the running server; it has read them then."""
        self._bring(settings, restarts=False)
        return False

    def means(self) -> tuple[str, ...]:
        """Return how data go back here: from templates, on the running server."""
        return (TEMPLATE,)

    def _class_facts(self) -> tuple[Fact, ...]:
        return class_facts_of(self._means.api, self._options.target)

    def _target_findings(self) -> Iterator[Finding]:
        state = None if self._current is None else self._current.state
        return findings_of(self._options.target, self.facts(), state)
