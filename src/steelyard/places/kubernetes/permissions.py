"""What an account must be allowed in a cluster, for RBAC objects and preflight: ``rbac.yaml``."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any

from steelyard.core import kubernetes as k8s
from steelyard.places.kubernetes.manifests import render_manifests


class Purpose(StrEnum):
    """What a permission is for; a campaign asks for those that it needs."""

    CAMPAIGN = "every campaign"
    OUTSIDE = "a campaign that is run from outside the cluster"
    INSIDE = "the campaign in the Job of run --in-cluster"
    WORKERS = "generator.workers of a campaign in the Job of run --in-cluster"
    INSPECT = "inspect and stack verify of a database and its node"
    STACK = "stack apply"
    CLUSTERS = "targets of kind kubernetes for PostgreSQL"
    REDIS = "targets of kind kubernetes for Redis that are made"
    OWN_NAMESPACE = "a namespace that Steelyard makes itself"
    RUNNER = "run --in-cluster and attach"
    CLEAN = "clean --context or --namespace"
    RUNNER_ACCOUNT = "run --in-cluster without --service-account"


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """Verbs on one kind of object, for one reason.

    Attributes:
        part: A subresource: ``exec`` of a pod.
        why: What it is needed for, as the end of "it is needed to ...".
        cluster_wide: In all namespaces, or on objects without one.
        optional: Without it a campaign runs, and only facts are missing from the record.
    """

    kind: k8s.Kind
    verbs: tuple[str, ...]
    why: str
    part: str = ""
    purpose: Purpose = Purpose.CAMPAIGN
    cluster_wide: bool = False
    optional: bool = False

    @property
    def group(self) -> str:
        """Return the API group as RBAC names it; empty for the core group."""
        return self.kind.api_version.rpartition("/")[0]

    @property
    def resource(self) -> str:
        """Return the resource as RBAC names it: ``pods/exec``."""
        return f"{plural(self.kind)}/{self.part}" if self.part else plural(self.kind)


@cache
def permissions() -> tuple[Permission, ...]:
    """Return everything, each kind of object and part once per purpose."""
    from ruamel.yaml import YAML  # noqa: PLC0415 - a mistyped command is told without it

    kinds = {plural(each): each for each in vars(k8s).values() if isinstance(each, k8s.Kind)}
    table = YAML(typ="safe", pure=True).load(files(__package__).joinpath("rbac.yaml").read_text())
    return tuple(
        Permission(
            kind=kinds[resource.partition("/")[0]],
            part=resource.partition("/")[2],
            verbs=tuple(row["verbs"]),
            why=row["why"],
            purpose=Purpose(purpose),
            cluster_wide=row.get("cluster_wide", False),
            optional=row.get("optional", False),
        )
        for purpose, rows in table.items()
        for row in rows
        for resource in row["resources"]
    )


def plural(kind: k8s.Kind) -> str:
    """Return a kind as the paths of the API name it: ``persistentvolumeclaims``."""
    name = kind.name.lower()
    if name.endswith("ss"):
        return f"{name}es"
    return name if name.endswith("s") else f"{name}s"


def needed(purposes: Iterable[Purpose]) -> tuple[Permission, ...]:
    """Return what is needed for these purposes; that of every campaign is always among them."""
    asked = {Purpose.CAMPAIGN, *purposes}
    return tuple(each for each in permissions() if each.purpose in asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Who gets what where.

    Attributes:
        name: Of the account, and of the roles in its namespace.
        account_namespace: Where the account lives.
        namespaces: Where it may work.
        permissions: What it may.
        labels: Of all objects.
    """

    name: str
    account_namespace: str
    namespaces: tuple[str, ...]
    permissions: tuple[Permission, ...]
    labels: dict[str, str] = field(default_factory=lambda: {k8s.MANAGED_BY: k8s.MANAGER})

    @property
    def cluster_name(self) -> str:
        """Return the name of what is cluster-wide: accounts of two namespaces never share it."""
        return f"{self.name}-{self.account_namespace}"


def account(grant: Grant) -> k8s.Manifest:
    """Return the account itself."""
    return k8s.ACCOUNT.manifest(grant.name, namespace=grant.account_namespace, labels=grant.labels)


def grants(grant: Grant) -> tuple[k8s.Manifest, ...]:
    """Return roles and bindings: those of each namespace, then what is cluster-wide."""
    inside = rules(each for each in grant.permissions if not each.cluster_wide)
    wide = rules(each for each in grant.permissions if each.cluster_wide)
    roles = [("Role", grant.name, namespace, inside) for namespace in grant.namespaces if inside]
    if wide:
        roles.append(("ClusterRole", grant.cluster_name, "", wide))
    return render_manifests(__package__, "grants", grant=grant, roles=roles)


def everywhere(permissions: Iterable[Permission]) -> tuple[Permission, ...]:
    """Return the permissions for all namespaces: those that will be made are not known before."""
    return tuple(replace(each, cluster_wide=True) for each in permissions)


def rules(permissions: Iterable[Permission]) -> list[dict[str, Any]]:
    """Return the rules of a role; one resource has one rule, with its verbs in the table's order.

    A resource stands in the table once for each purpose.
    """
    verbs: dict[tuple[str, str], dict[str, None]] = {}
    for each in permissions:
        verbs.setdefault((each.group, each.resource), {}).update(dict.fromkeys(each.verbs))
    return [
        {"apiGroups": [group], "resources": [resource], "verbs": list(allowed)}
        for (group, resource), allowed in verbs.items()
    ]


def reasons(permissions: Sequence[Permission]) -> list[str]:
    """Return a line for each permission that says what it is for."""
    return [
        f"{each.resource}: {', '.join(each.verbs)}: to {each.why}"
        f"{' (optional: only facts are lacking without it)' if each.optional else ''}"
        for each in permissions
    ]
