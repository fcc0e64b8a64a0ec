"""A Cluster that is there already, as the place of an endpoint.

It is never altered unless that is allowed, and then only its settings: by its manifest, not by
ALTER SYSTEM, which the operator does not know of. What it said of them is in the ledger before the
first change, and goes back at the end; a setting that it did not name is removed again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from steelyard.model.command import ServerAddress
from steelyard.model.environment import Fact
from steelyard.model.errors import PreflightError, SteelyardError, TargetError
from steelyard.model.findings import Finding
from steelyard.model.kubernetes import CLUSTER, SECRET, Manifest, ObjectRef, SecretRef
from steelyard.model.outside import ServerInCluster
from steelyard.model.target import CloudNativePgTarget, ClusterService, EndpointTarget
from steelyard.platforms.cloudnative_pg import place_facts, serving
from steelyard.platforms.cloudnative_pg.options import ClusterMeans
from steelyard.platforms.cloudnative_pg.parameters import (
    CHANGE,
    postgresql_spec,
    require_taken,
    settings_in,
)
from steelyard.platforms.cloudnative_pg.primary import PrimaryWay
from steelyard.platforms.cloudnative_pg.rollout import SEEN, Rollout, RolloutMeans
from steelyard.platforms.cloudnative_pg.state import RESTARTED_AT, ClusterState, look
from steelyard.platforms.cloudnative_pg.waiting import ROLLED_WITHIN_S, ClusterWait
from steelyard.platforms.endpoint.settings import SettingStore
from steelyard.platforms.kubernetes.place_findings import moved
from steelyard.platforms.kubernetes.sight import PodSight

_LOOKED_EVERY_S: Final = 5.0  # so long the primary is taken to be the same; a guess


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingOptions:
    """How a campaign uses a Cluster that is there.

    Attributes:
        target: That names it.
        namespace: Where it is.
        settings: Names of all settings that any treatment on it asks for.
        restarts: Whether every activation restarts it.
    """

    target: CloudNativePgTarget
    campaign_id: str
    namespace: str
    settings: tuple[str, ...]
    restarts: bool

    @property
    def ref(self) -> ObjectRef:
        """Return the Cluster."""
        name = self.target.cluster or ""
        return ObjectRef(kind=CLUSTER, name=name, namespace=self.namespace)


def read_cluster(options: ExistingOptions, means: ClusterMeans) -> Manifest:
    """Return the manifest of the Cluster.

    Raises:
        PreflightError: It is not there.
    """
    found = means.api.read(options.ref)
    if found is None:
        there = [each["metadata"]["name"] for each in means.api.list(CLUSTER, options.namespace)]
        raise PreflightError(
            f"{options.ref.label} is not there; the namespace has {', '.join(there) or 'none'}",
            hint="Name one of them with `cluster:`, another namespace, or leave `cluster:` out:"
            " then Steelyard makes one.",
        )
    return found


def secret_of(cluster: Manifest, means: ClusterMeans) -> SecretRef:
    """Return the Secret of the superuser where there is one, else of the application's user."""
    metadata, spec = cluster["metadata"], cluster["spec"]
    name, namespace = str(metadata["name"]), str(metadata["namespace"])
    if spec.get("enableSuperuserAccess"):
        given = (spec.get("superuserSecret") or {}).get("name")
        superuser = str(given or f"{name}-superuser")
        ref = ObjectRef(kind=SECRET, name=superuser, namespace=namespace)
        if means.api.read(ref) is not None:
            return SecretRef(namespace=namespace, name=superuser)
    initdb = (spec.get("bootstrap") or {}).get("initdb") or {}
    given = (initdb.get("secret") or {}).get("name")
    return SecretRef(namespace=namespace, name=str(given or f"{name}-app"))


def endpoint_of(options: ExistingOptions, secret: SecretRef) -> EndpointTarget:
    """Return the Cluster as a target of kind endpoint."""
    service = ClusterService(
        place=options.target.place,
        service=f"{options.ref.name}-rw",
        secret=secret.name,
        user_key=secret.user_key,
        password_key=secret.password_key,
    )
    return EndpointTarget(inside=service, burst_lasts_s=options.target.burst_lasts_s)


class ExistingCluster:
    """The place of a Cluster that is there.

    Args:
        options: Which, and what is changed there.
        means: To reach it; their belongings are those in its namespace.
        cluster: Its manifest, before anything was changed.
        secret: Of the user that connects.
    """

    def __init__(
        self,
        options: ExistingOptions,
        means: ClusterMeans,
        cluster: Manifest,
        secret: SecretRef,
    ) -> None:
        self._options = options
        self._means = means
        self._cluster = cluster
        self._secret = secret
        database = None if _is_superuser(cluster, secret) else serving.app_database(cluster)
        self._way = PrimaryWay(
            options.ref, means.reach, secret, *([] if database is None else [database])
        )
        self._looked_at: float | None = None
        self._nodes: dict[str, None] = {}  # of the primary, in the order of seeing it there
        self._state: ClusterState | None = None
        self._store = ManifestStore(options, means, self._followed)

    @property
    def label(self) -> str:
        """Return name and namespace."""
        return self._options.ref.label

    @property
    def inside(self) -> ServerInCluster | None:
        """Return how it is found again."""
        api = self._means.api
        return ServerInCluster(
            context="" if api.is_inside else api.context,
            server=api.server,
            namespace=self._options.namespace,
            service=self._way.service,
            secret=self._secret,
        )

    def entrance(self) -> ServerAddress:
        """Return where the primary is reached now.

        Raises:
            TargetError: It has none, or the way there is closed.
        """
        now = self._means.clock.monotonic()
        if self._looked_at is None or now - self._looked_at > _LOOKED_EVERY_S:
            return self._followed(self._looked())
        return self._way.address()

    def _looked(self) -> ClusterState:
        state = look(self._means.api, self._options.ref)
        if state is None:
            raise TargetError(f"{self.label} is not there any more")
        return state

    def _followed(self, state: ClusterState) -> ServerAddress:
        address = self._way.follow(state)
        self._state, self._looked_at = state, self._means.clock.monotonic()
        primary = state.primary_instance
        if primary is not None and primary.node:
            self._nodes[primary.node] = None
        return address

    def store(self, own_file: SettingStore) -> SettingStore | None:  # noqa: ARG002 - not its way
        """Return the manifest, where it may be changed."""
        return self._store if self._options.target.allow_existing else None

    def require_ready(self) -> None:
        """Look whether it can be put under load, and harms nobody.

        Raises:
            PreflightError: It takes no load, serves others, has settings of another campaign, or
                its settings cannot be changed.
        """
        ref, cluster, sql = self._options.ref, self._cluster, self._means.sql
        serving.require_measurable(ref, cluster)
        serving.require_unchanged(ref, cluster)
        state = self._looked()
        if not state.is_healthy:
            raise PreflightError(
                f"{ref.label} is not healthy: {state.progress}",
                hint="Wait until it is; `kubectl describe cluster` says what is wrong.",
            )
        address = self._followed(state)
        serving.require_alone(ref, cluster, sql, address)
        if self._options.target.allow_existing and self._options.settings:
            require_taken(self._options.settings)
            serving.require_alterable(ref, cluster)
            serving.require_superuser(ref, sql, address)
            serving.require_settled(ref, sql, address)

    def sight(self) -> PodSight | None:
        """Return what of its primary's pod can be watched."""
        primary = self._way.instance
        if primary is None:
            return None
        return self._means.load.sight(self._means.api, primary.where, primary.node)

    def facts(self) -> tuple[Fact, ...]:
        """Return what a reader must know of it."""
        address = self.entrance()
        if self._state is None:
            return ()
        return place_facts.facts_of(self._means.api, self._means.sql, self._state, address)

    def findings(self) -> tuple[Finding, ...]:
        """Return what is worth knowing of it."""
        nodes = tuple(self._nodes)
        switched = tuple(moved("primary", nodes, place_facts.SWITCHED))
        if not self._options.target.allow_existing:
            return switched
        found = serving.kept_elsewhere(self._options.ref, self._cluster)
        return switched if found is None else (found, *switched)

    def leave(self) -> None:
        """Put its settings back."""
        self._store.put_back()


class ManifestStore:
    """The settings of a Cluster that is there, in its manifest.

    Args:
        followed: Where the primary of a Cluster in some state is reached.
    """

    def __init__(
        self,
        options: ExistingOptions,
        means: ClusterMeans,
        followed: Callable[[ClusterState], ServerAddress],
    ) -> None:
        self._options = options
        self._ref = options.ref
        self._means = means
        self._followed = followed
        self._rollout: Rollout | None = None  # none before the first change

    def _begun(self) -> Rollout:
        """Return what changes its settings; what they were is read now, before the first change.

        Raises:
            PreflightError: Another campaign has changed them.
            TargetError: The Cluster is not there any more.
        """
        ref, means, belongings = self._ref, self._means, self._means.belongings
        cluster = means.api.read(ref)
        if cluster is None:
            raise TargetError(f"{ref.label} is not there any more")
        serving.require_unchanged(ref, cluster)
        before = settings_in(cluster["spec"], self._options.settings)
        undoing = patch_back(cluster, before)
        # Pods keep the mark of an earlier session's restart: none may have this one's token.
        generation = cluster["metadata"].get("generation") or 0
        return Rollout(
            ref,
            before,
            f"{belongings.name()}-{generation}",
            RolloutMeans(
                api=means.api,
                sql=means.sql,
                clock=means.clock,
                told=means.told,
                patch=lambda patch: belongings.alter(ref, patch, before=undoing),
                address=self._followed,
                synchronous=_synchronous(cluster),
            ),
        )

    @property
    def label(self) -> str:
        """Return how settings are changed."""
        return "by the Cluster's manifest"

    def change(self, settings: Mapping[str, str]) -> bool:
        """Bring settings into force; the server has read them when this returns."""
        self.activate(settings, restarts=False)
        return False

    def activate(self, settings: Mapping[str, str], *, restarts: bool) -> None:
        """Bring settings into force, by a restart where asked.

        Raises:
            TargetError: Operator or server refuse them; those before are in force then.
        """
        if self._rollout is None:
            self._rollout = self._begun()
        self._rollout.apply(settings, restarts=restarts)

    def put_back(self) -> None:
        """Bring the manifest back to what it said, and wait until the server runs by it.

        Raises:
            TargetError: The Cluster does not become healthy again.
        """
        if self._rollout is None:
            return
        left = self._means.belongings.put_back(self._ref)
        self._rollout = None
        if left is not None:
            self._means.told(f"{left.message}. {left.hint}")
        wait = ClusterWait(self._means.api, self._means.clock, self._means.told)
        wait.until(
            self._ref,
            lambda state: state.is_healthy and self._is_back(state),
            most_s=ROLLED_WITHIN_S,
        )

    def _is_back(self, state: ClusterState) -> bool:
        try:
            address, sql = self._followed(state), self._means.sql
            return not sql.rows(address, SEEN)[0][0] and not sql.rows(address, serving.PENDING)
        except SteelyardError:
            return False


def patch_back(cluster: Manifest, before: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the merge patch that brings a Cluster back; null removes what was not there."""
    annotations = cluster["metadata"].get("annotations") or {}
    return {
        "metadata": {"annotations": {RESTARTED_AT: annotations.get(RESTARTED_AT)}},
        "spec": {"postgresql": postgresql_spec({**before, CHANGE: None})},
    }


def _synchronous(cluster: Manifest) -> int:
    """Return how many synchronous standbys a Cluster is to have."""
    postgresql = cluster["spec"].get("postgresql") or {}
    return int((postgresql.get("synchronous") or {}).get("number") or 0)


def _is_superuser(cluster: Manifest, secret: SecretRef) -> bool:
    initdb = (cluster["spec"].get("bootstrap") or {}).get("initdb") or {}
    app = (initdb.get("secret") or {}).get("name") or f"{cluster['metadata']['name']}-app"
    return bool(secret.name != app)
