"""A Cluster that is there already, as the place of an endpoint.

Whether it serves nobody else is asked of its manifest and of the server.

It is never altered unless that is allowed, and then only its settings: by its manifest, not by
ALTER SYSTEM, which the operator does not know of. What it said of them is in the ledger before the
first change, and goes back at the end; a setting that it did not name is removed again.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from steelyard.core.findings import Fact, Finding, Severity
from steelyard.core.kubernetes import CLUSTER, SECRET, Manifest, ObjectRef, SecretRef
from steelyard.core.outside import POSTGRES_MARK, ServerAddress, ServerInCluster
from steelyard.core.places import ClusterService, PodResources, Provision
from steelyard.core.target import CloudNativePgTarget, EndpointTarget
from steelyard.core.wording import PreflightError, SteelyardError, TargetError
from steelyard.gateways.sql import Sql
from steelyard.places.kubernetes.made_server import MadeMeans, moved
from steelyard.places.kubernetes.reaching import findable
from steelyard.places.protocol import PodSight
from steelyard.systems.existing import ServerPlace, SettingStore
from steelyard.systems.postgres.cloudnative_pg import operator, rollout
from steelyard.systems.postgres.cloudnative_pg import own_cluster as place_facts

_HIBERNATION: Final = "cnpg.io/hibernation"
_FENCED: Final = "cnpg.io/fencedInstances"
_KEPT_BY: Final = ("argocd.argoproj.io/", "kustomize.toolkit.fluxcd.io/", "meta.helm.sh/")
_BOOTSTRAPS: Final = ("initdb", "recovery", "pg_basebackup")
OTHERS: Final = (
    "SELECT datname FROM pg_database WHERE NOT datistemplate AND datname NOT IN ('postgres', %s)"
    " AND coalesce(shobj_description(oid, 'pg_database'), '') NOT LIKE %s ORDER BY datname"
)
TABLES: Final = (
    "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE c.relkind IN ('r', 'p', 'm') AND n.nspname !~ '^(pg_|information_schema$)'"
)
APP_IS_THERE: Final = "SELECT 1 FROM pg_database WHERE datname = %s AND datallowconn"
# Who comes over the network; the instance manager and probes come through the pod's socket. To a
# role that may not read all statistics, backend_type and client_addr of others' sessions are null:
# then whoever has another name than the operator's own sessions is a client. Source: PostgreSQL 18,
# src/backend/utils/adt/pgstatfuncs.c, pg_stat_get_activity ("Values available to all callers").
CLIENTS: Final = (
    "SELECT usename, count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
    " AND application_name NOT LIKE 'steelyard%%' AND %s <> '' AND CASE"
    " WHEN backend_type IS NOT NULL"
    " THEN backend_type = 'client backend' AND client_addr IS NOT NULL"
    " ELSE usename NOT IN ('postgres', 'streaming_replica') END"
    " GROUP BY usename ORDER BY usename"
)
IS_SUPERUSER: Final = "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"
PENDING: Final = "SELECT name FROM pg_settings WHERE pending_restart ORDER BY name"


def require_measurable(ref: ObjectRef, cluster: Manifest) -> None:
    """Raise when a Cluster's manifest says that it cannot be put under load.

    Raises:
        PreflightError: It is a replica cluster, hibernated or fenced.
    """
    annotations = operator.annotations_of(cluster)
    if annotations.get(_HIBERNATION) == "on":
        raise PreflightError(
            f"{ref.label} is hibernated: no server of it runs",
            hint=f"Wake it up: kubectl annotate cluster {ref.name} --overwrite {_HIBERNATION}=off.",
        )
    if _fenced(annotations.get(_FENCED)):
        raise PreflightError(
            f"{ref.label} has fenced instances: {annotations[_FENCED]}",
            hint="Lift the fence: kubectl cnpg fencing off.",
        )
    if _is_replica(ref.name, cluster["spec"].get("replica") or {}):
        raise PreflightError(
            f"{ref.label} is a replica cluster: it takes no writes, so no data can be prepared",
            hint="Name the Cluster that it replicates.",
        )


def require_unchanged(ref: ObjectRef, cluster: Manifest) -> None:
    """Raise when the settings of a Cluster are those of another campaign.

    Raises:
        PreflightError: With its name.
    """
    change = operator.settings_in(cluster["spec"], [operator.CHANGE])[operator.CHANGE]
    if change is not None:
        campaign = str(change).rsplit("-", 2)[0]
        raise PreflightError(
            f"{ref.label} has the settings of a campaign that was not undone, or still runs:"
            f" {campaign} ({operator.CHANGE} = {change})",
            hint="Run `steelyard clean` as the account that ran it, or wait for its end; if nobody"
            f" has its record, put the settings right and remove {operator.CHANGE} from the"
            " manifest.",
        )


def _fenced(annotation: object) -> bool:
    try:
        return bool(json.loads(str(annotation))) if annotation else False
    except ValueError:
        return True


def _is_replica(name: str, replica: Mapping[str, Any]) -> bool:
    """Return whether a Cluster follows another; as the operator decides it.

    Source: cloudnative-pg 1.27.0, api/v1/cluster_funcs.go, IsReplica.
    """
    if replica.get("enabled") is not None:
        return bool(replica["enabled"])
    return bool(replica.get("primary")) and replica["primary"] != (replica.get("self") or name)


def require_alterable(ref: ObjectRef, cluster: Manifest) -> None:
    """Raise when changed settings would wait for somebody's hand.

    Raises:
        PreflightError: The primary is restarted by its user only.
    """
    if cluster["spec"].get("primaryUpdateStrategy") == "supervised":
        raise PreflightError(
            f"{ref.label} lets only its user restart the primary (primaryUpdateStrategy:"
            " supervised)",
            hint="Set it to unsupervised, or leave `allow_existing` out.",
        )


def require_alone(ref: ObjectRef, cluster: Manifest, sql: Sql, address: ServerAddress) -> None:
    """Raise when a Cluster serves others.

    Raises:
        PreflightError: It has databases or tables of others, or clients are connected.
    """
    found = "; ".join(_others(app_database(cluster), sql, address))
    if found:
        raise PreflightError(
            f"{ref.label} serves others: {found}",
            hint="Name a Cluster that serves nobody, or let Steelyard make one: leave `cluster:`"
            " out.",
        )


def _others(app: str, sql: Sql, address: ServerAddress) -> Iterator[str]:
    names = [str(row[0]) for row in sql.rows(address, OTHERS, [app, f"{POSTGRES_MARK}%"])]
    if names:
        yield f"it has the databases {', '.join(names)}"
    for database in ("postgres", app):
        if sql.rows(address, APP_IS_THERE, [database]):
            inside = replace(address, database=database)
            tables = int(str(sql.rows(inside, TABLES)[0][0]))
            if tables:
                yield f"its database {database} has {tables} tables of users"
    clients = [f"{count} of {user}" for user, count in sql.rows(address, CLIENTS, [POSTGRES_MARK])]
    if clients:
        yield f"clients are connected ({', '.join(clients)})"


def require_superuser(ref: ObjectRef, sql: Sql, address: ServerAddress) -> None:
    """Raise when nobody could see whether changed settings are in force.

    Raises:
        PreflightError: The user may not see what the server read.
    """
    if not sql.rows(address, IS_SUPERUSER)[0][0]:
        raise PreflightError(
            f"settings of {ref.label} can be changed, but {address.user} may not see whether the"
            " server took them",
            hint="Set enableSuperuserAccess: true in the Cluster, or leave `allow_existing` out.",
        )


def require_settled(ref: ObjectRef, sql: Sql, address: ServerAddress) -> None:
    """Raise when settings wait for a restart that is none of ours.

    Raises:
        PreflightError: With their names.
    """
    names = [str(row[0]) for row in sql.rows(address, PENDING)]
    if names:
        raise PreflightError(
            f"settings of {ref.label} wait for a restart: {', '.join(names)}",
            hint="Let it be restarted first: kubectl cnpg restart.",
        )


def app_database(cluster: Manifest) -> str:
    """Return the database that the operator made for an application."""
    bootstrap = cluster["spec"].get("bootstrap") or {}
    named = (each.get("database") for key in _BOOTSTRAPS if (each := bootstrap.get(key)))
    return str(next(filter(None, named), "app"))


def kept_elsewhere(ref: ObjectRef, cluster: Manifest) -> Finding | None:
    """Return that somebody else's tool may put the settings back while they are measured."""
    metadata = cluster["metadata"]
    keys = [*(metadata.get("labels") or {}), *operator.annotations_of(cluster)]
    tools = sorted({key for key in keys if str(key).startswith(_KEPT_BY)})
    if not tools:
        return None
    return Finding(
        code="cluster-kept-elsewhere",
        severity=Severity.WARNING,
        message=f"{ref.label} is kept by a tool ({', '.join(tools)}), which may put its settings"
        " back during the campaign",
        remedy="Pause its synchronisation; runs with settings that are not in force are refused.",
        subject="campaign",
    )


_LOOKED_EVERY_S: Final = 5.0  # so long the primary is taken to be the same; a guess


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingOptions:
    """How a campaign uses a Cluster that is there.

    Attributes:
        target: That names it.
        namespace: Where it is.
        settings: Names of all settings that any configuration on it asks for.
    """

    target: CloudNativePgTarget
    namespace: str
    settings: tuple[str, ...]

    @property
    def ref(self) -> ObjectRef:
        """Return the Cluster."""
        name = self.target.cluster or ""
        return ObjectRef(kind=CLUSTER, name=name, namespace=self.namespace)


def read_cluster(options: ExistingOptions, means: MadeMeans) -> Manifest:
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


def secret_of(cluster: Manifest, means: MadeMeans) -> SecretRef:
    """Return the Secret of the superuser where there is one, else of the application's user."""
    metadata, spec = cluster["metadata"], cluster["spec"]
    name, namespace = str(metadata["name"]), str(metadata["namespace"])
    if spec.get("enableSuperuserAccess"):
        given = (spec.get("superuserSecret") or {}).get("name")
        superuser = str(given or f"{name}-superuser")
        ref = ObjectRef(kind=SECRET, name=superuser, namespace=namespace)
        if means.api.read(ref) is not None:
            return SecretRef(namespace=namespace, name=superuser)
    return SecretRef(namespace=namespace, name=_app_secret(cluster))


def _app_secret(cluster: Manifest) -> str:
    initdb = (cluster["spec"].get("bootstrap") or {}).get("initdb") or {}
    given = (initdb.get("secret") or {}).get("name")
    return str(given or f"{cluster['metadata']['name']}-app")


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


class ExistingCluster(ServerPlace):
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
        means: MadeMeans,
        cluster: Manifest,
        secret: SecretRef,
    ) -> None:
        self._options = options
        self._means = means
        self._cluster = cluster
        self._secret = secret
        is_app = secret.name == _app_secret(cluster)
        database = app_database(cluster) if is_app else rollout.ENTRANCE
        self._way = rollout.PrimaryWay(options.ref, means.reach, secret, database)
        self._looked_at: float | None = None
        self._nodes: dict[str, None] = {}  # of the primary, in the order of seeing it there
        self._state: operator.ClusterState | None = None
        self._store = ManifestStore(options, means, self._followed)

    @property
    def label(self) -> str:
        """Return name and namespace."""
        return self._options.ref.label

    def provision(self) -> Provision:
        """Return what the manifest gives its pods at most, and the volume of its data."""
        spec = self._cluster["spec"]
        asked, storage = (spec.get(key) or {} for key in ("resources", "storage"))
        requests, limits = (
            tuple((name, str(value)) for name, value in (asked.get(key) or {}).items())
            for key in ("requests", "limits")
        )
        size, of_class = storage.get("size", "a volume"), storage.get("storageClass")
        return PodResources(requests=requests, limits=limits).provision(size, of_class)

    @property
    def inside(self) -> ServerInCluster | None:
        namespace = self._options.namespace
        return findable(self._means.api, namespace, self._way.service, self._secret)

    def entrance(self) -> ServerAddress:
        """Return where the primary is reached now.

        Raises:
            TargetError: It has none, or the way there is closed.
        """
        now = self._means.doors.clock.monotonic()
        if self._looked_at is None or now - self._looked_at > _LOOKED_EVERY_S:
            return self._followed(self._looked())
        return self._way.address()

    def _looked(self) -> operator.ClusterState:
        state = operator.look(self._means.api, self._options.ref)
        if state is None:
            raise TargetError(f"{self.label} is not there any more")
        return state

    def _followed(self, state: operator.ClusterState) -> ServerAddress:
        address = self._way.follow(state)
        self._state, self._looked_at = state, self._means.doors.clock.monotonic()
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
        ref, cluster, sql = self._options.ref, self._cluster, self._means.doors.sql
        require_measurable(ref, cluster)
        require_unchanged(ref, cluster)
        state = self._looked()
        if not state.is_healthy:
            raise PreflightError(
                f"{ref.label} is not healthy: {state.progress}",
                hint="Wait until it is; `kubectl describe cluster` says what is wrong.",
            )
        address = self._followed(state)
        require_alone(ref, cluster, sql, address)
        if self._options.target.allow_existing and self._options.settings:
            operator.require_taken(self._options.settings)
            require_alterable(ref, cluster)
            require_superuser(ref, sql, address)
            require_settled(ref, sql, address)

    def sight(self) -> PodSight | None:
        """Return what of its primary's pod can be watched."""
        primary = self._way.instance
        if primary is None:
            return None
        return PodSight(api=self._means.api, database=primary.where)

    def facts(self) -> tuple[Fact, ...]:
        address = self.entrance()
        if self._state is None:
            return ()
        return place_facts.facts_of(self._means.api, self._means.doors.sql, self._state, address)

    def findings(self) -> tuple[Finding, ...]:
        nodes = tuple(self._nodes)
        switched = tuple(moved("primary", nodes, place_facts.SWITCHED))
        if not self._options.target.allow_existing:
            return switched
        found = kept_elsewhere(self._options.ref, self._cluster)
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
        means: MadeMeans,
        followed: Callable[[operator.ClusterState], ServerAddress],
    ) -> None:
        self._options = options
        self._ref = options.ref
        self._means = means
        self._followed = followed
        self._rollout: rollout.Rollout | None = None  # none before the first change

    def _begun(self) -> rollout.Rollout:
        """Return what changes its settings; what they were is read now, before the first change.

        Raises:
            PreflightError: Another campaign has changed them.
            TargetError: The Cluster is not there any more.
        """
        ref, means, belongings = self._ref, self._means, self._means.belongings
        cluster = means.api.read(ref)
        if cluster is None:
            raise TargetError(f"{ref.label} is not there any more")
        require_unchanged(ref, cluster)
        before = operator.settings_in(cluster["spec"], self._options.settings)
        undoing = patch_back(cluster, before)
        # Pods keep the mark of an earlier session's restart: none may have this one's token.
        generation = cluster["metadata"].get("generation") or 0
        postgresql = cluster["spec"].get("postgresql") or {}
        return rollout.Rollout(
            ref,
            before,
            f"{belongings.name()}-{generation}",
            means,
            patch=lambda patch: belongings.alter(ref, patch, before=undoing),
            address=self._followed,
            synchronous=int((postgresql.get("synchronous") or {}).get("number") or 0),
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
        wait = rollout.ClusterWait(self._means.api, self._means.doors.clock, self._means.told)
        sql = self._means.doors.sql

        def is_back(state: operator.ClusterState) -> bool:
            if not state.is_healthy:
                return False
            try:
                address = self._followed(state)
                return not sql.rows(address, rollout.SEEN)[0][0] and not sql.rows(address, PENDING)
            except SteelyardError:
                return False

        wait.until(self._ref, is_back, most_s=rollout.ROLLED_WITHIN_S)


def patch_back(cluster: Manifest, before: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the merge patch that brings a Cluster back; null removes what was not there."""
    return {
        "metadata": {
            "annotations": {
                operator.RESTARTED_AT: operator.annotations_of(cluster).get(operator.RESTARTED_AT)
            }
        },
        "spec": {"postgresql": operator.postgresql_spec({**before, operator.CHANGE: None})},
    }
