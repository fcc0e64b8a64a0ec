"""Whether a Cluster that is there serves nobody else: asked of its manifest and of the server."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from steelyard.gateways.sql import Sql
from steelyard.model.command import ServerAddress
from steelyard.model.errors import PreflightError
from steelyard.model.findings import Finding, Severity
from steelyard.model.kubernetes import Manifest, ObjectRef
from steelyard.platforms.cloudnative_pg.parameters import CHANGE, settings_in
from steelyard.platforms.endpoint.readiness import MARK

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
    annotations = _annotations(cluster)
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
    change = settings_in(cluster["spec"], [CHANGE])[CHANGE]
    if change is not None:
        campaign = str(change).rsplit("-", 2)[0]
        raise PreflightError(
            f"{ref.label} has the settings of a campaign that was not undone, or still runs:"
            f" {campaign} ({CHANGE} = {change})",
            hint="Run `steelyard clean` as the account that ran it, or wait for its end; if nobody"
            f" has its record, put the settings right and remove {CHANGE} from the manifest.",
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
    names = [str(row[0]) for row in sql.rows(address, OTHERS, [app, f"{MARK}%"])]
    if names:
        yield f"it has the databases {', '.join(names)}"
    for database in ("postgres", app):
        if sql.rows(address, APP_IS_THERE, [database]):
            inside = replace(address, database=database)
            tables = int(str(sql.rows(inside, TABLES)[0][0]))
            if tables:
                yield f"its database {database} has {tables} tables of users"
    clients = [f"{count} of {user}" for user, count in sql.rows(address, CLIENTS, [MARK])]
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
    keys = [*(metadata.get("labels") or {}), *_annotations(cluster)]
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


def _annotations(manifest: Manifest) -> Mapping[str, Any]:
    annotations: Mapping[str, Any] = manifest["metadata"].get("annotations") or {}
    return annotations
