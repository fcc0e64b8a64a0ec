"""What an account must be allowed in a cluster: one table, for RBAC objects and for preflight.

A verb is that of the API's authorizer. Server-side apply is ``patch``, and ``create`` where the
object is not there yet (Kubernetes documentation, "Server-Side Apply"). A session with a pod begins
as a WebSocket with a GET, which is ``get``; from 1.35 on ``create`` is asked for, too
(kubernetes/kubernetes pull request 134577, AuthorizePodWebsocketUpgradeCreatePermission).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from steelyard.core import kubernetes as k8s

_MADE: Final = ("get", "create", "patch", "delete")


class Purpose(StrEnum):
    """What a permission is for; a campaign asks for those that it needs."""

    CAMPAIGN = "every campaign"
    OUTSIDE = "a campaign that is run from outside the cluster"
    INSIDE = "the campaign in the Job of run --in-cluster"
    INSPECT = "inspect and stack verify of a database and its node"
    STACK = "stack apply"
    CLUSTERS = "targets of kind cloudnative-pg"
    REDIS = "targets of kind redis-kubernetes that are made"
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


PERMISSIONS: Final = (
    Permission(
        kind=k8s.CONFIG_MAP, verbs=_MADE, why="keep the anchor that owns all that a campaign makes"
    ),
    Permission(
        kind=k8s.SECRET, verbs=_MADE, why="make the database's password, or read a given one"
    ),
    Permission(
        kind=k8s.POD,
        verbs=("get", "list", "create", "patch", "delete"),
        why="make, watch and remove load generators and probes, and watch the database's pods",
    ),
    Permission(
        kind=k8s.POD,
        verbs=("list",),
        cluster_wide=True,
        optional=True,
        purpose=Purpose.CLUSTERS,
        why="see whether the nodes have room for a Cluster of each configuration at the same time",
    ),
    Permission(
        kind=k8s.POD,
        part="exec",
        verbs=("get", "create"),
        why="run the load generator and collect its results",
    ),
    Permission(
        kind=k8s.POD,
        part="log",
        verbs=("get",),
        why="show what a pod said that failed",
        optional=True,
    ),
    Permission(
        kind=k8s.POD,
        part="portforward",
        verbs=("get", "create"),
        purpose=Purpose.OUTSIDE,
        why="reach the database by SQL from outside the cluster",
    ),
    Permission(
        kind=k8s.CLAIM,
        verbs=("get", "list", "create", "patch", "delete"),
        why="make volumes for the probe of the storage, and see what the database's are",
    ),
    Permission(kind=k8s.SERVICE, verbs=("get",), why="find the server that is put under load"),
    Permission(
        kind=k8s.SERVICE, verbs=("list",), optional=True, why="say which servers there are instead"
    ),
    Permission(
        kind=k8s.EVENT,
        verbs=("list",),
        why="say why a pod or volume does not come up",
        optional=True,
    ),
    Permission(
        kind=k8s.QUOTA,
        verbs=("list",),
        why="say which quota keeps a pod from being made",
        optional=True,
    ),
    Permission(
        kind=k8s.NAMESPACE,
        verbs=("get",),
        why="see whether the namespace is one that Steelyard made",
    ),
    Permission(
        kind=k8s.JOB,
        verbs=("get",),
        purpose=Purpose.INSIDE,
        optional=True,
        why="let all that the campaign makes go with its Job",
    ),
    Permission(
        kind=k8s.CLUSTER,
        verbs=_MADE,
        purpose=Purpose.CLUSTERS,
        why="make Clusters, change their settings and remove them",
    ),
    Permission(
        kind=k8s.CLUSTER,
        verbs=("list",),
        purpose=Purpose.CLUSTERS,
        optional=True,
        why="say which Clusters there are instead",
    ),
    Permission(
        kind=k8s.CRD,
        verbs=("get",),
        purpose=Purpose.CLUSTERS,
        cluster_wide=True,
        optional=True,
        why="see before the start which fields the operator knows",
    ),
    Permission(
        kind=k8s.DEPLOYMENT,
        verbs=("list",),
        purpose=Purpose.CLUSTERS,
        cluster_wide=True,
        optional=True,
        why="record the operator's version",
    ),
    Permission(
        kind=k8s.JOB,
        verbs=("list",),
        purpose=Purpose.CLUSTERS,
        optional=True,
        why="say why a Cluster does not come up",
    ),
    Permission(
        kind=k8s.STATEFUL_SET,
        verbs=_MADE,
        purpose=Purpose.REDIS,
        why="make Redis servers, start them with other settings and remove them",
    ),
    Permission(
        kind=k8s.SERVICE,
        verbs=_MADE,
        purpose=Purpose.REDIS,
        why="make the Services by which load generators reach them",
    ),
    Permission(
        kind=k8s.NODE,
        verbs=("list",),
        cluster_wide=True,
        optional=True,
        why="see before the start whether generators have a node beside the database's",
    ),
    Permission(
        kind=k8s.STORAGE_CLASS,
        verbs=("list",),
        cluster_wide=True,
        optional=True,
        why="check the names of storage classes and record what they are",
    ),
    Permission(
        kind=k8s.VOLUME,
        verbs=("get",),
        cluster_wide=True,
        optional=True,
        why="record driver, node and replicas of the database's volumes",
    ),
    Permission(
        kind=k8s.NODE,
        verbs=("get",),
        purpose=Purpose.INSPECT,
        cluster_wide=True,
        optional=True,
        why="read what the database's node has",
    ),
    Permission(
        kind=k8s.NODE,
        part="proxy",
        verbs=("get",),
        purpose=Purpose.INSPECT,
        cluster_wide=True,
        optional=True,
        # kubernetes/kubernetes pull request 136550 says so of the kubelet's own API.
        why="read the kubelet's configuration; whoever may do that may run commands in all pods",
    ),
    Permission(
        kind=k8s.POD,
        verbs=("list",),
        purpose=Purpose.INSPECT,
        cluster_wide=True,
        optional=True,
        why="see which pods share the node",
    ),
    Permission(
        kind=k8s.STORAGE_CLASS,
        verbs=_MADE,
        purpose=Purpose.STACK,
        cluster_wide=True,
        why="make the storage class of a plan",
    ),
    Permission(
        kind=k8s.NAMESPACE,
        verbs=_MADE,
        purpose=Purpose.OWN_NAMESPACE,
        cluster_wide=True,
        why="make a namespace for the campaign and remove it",
    ),
    Permission(
        kind=k8s.JOB,
        verbs=("get", "list", "create", "patch", "delete"),
        purpose=Purpose.RUNNER,
        why="run the campaign as a Job, find it again and remove it",
    ),
    *(
        Permission(
            kind=kind,
            verbs=_MADE,
            purpose=Purpose.RUNNER_ACCOUNT,
            why="give the Job an account that may do what the campaign needs, and no more",
            cluster_wide=not kind.namespaced,
        )
        for kind in (
            k8s.ACCOUNT,
            k8s.ROLE_KIND,
            k8s.ROLE_BINDING,
            k8s.CLUSTER_ROLE,
            k8s.CLUSTER_ROLE_BINDING,
        )
    ),
    *(
        Permission(
            kind=kind,
            verbs=("get", "list", "delete"),
            purpose=Purpose.CLEAN,
            why="find by their label things that dead campaigns left, and remove them",
            cluster_wide=not kind.namespaced,
            optional=not kind.namespaced,
        )
        for kind in (
            *(
                k8s.JOB,
                k8s.CLUSTER,
                k8s.STATEFUL_SET,
                k8s.POD,
                k8s.CLAIM,
                k8s.SERVICE,
                k8s.SECRET,
                k8s.ROLE_BINDING,
                k8s.ROLE_KIND,
                k8s.ACCOUNT,
            ),
            *(k8s.CONFIG_MAP, k8s.CLUSTER_ROLE_BINDING, k8s.CLUSTER_ROLE, k8s.NAMESPACE),
        )
    ),
)
"""Everything, each kind of object and part once per purpose."""


def plural(kind: k8s.Kind) -> str:
    """Return a kind as the paths of the API name it: ``persistentvolumeclaims``."""
    name = kind.name.lower()
    if name.endswith("ss"):
        return f"{name}es"
    return name if name.endswith("s") else f"{name}s"


def needed(purposes: Iterable[Purpose]) -> tuple[Permission, ...]:
    """Return what is needed for these purposes; that of every campaign is always among them."""
    asked = {Purpose.CAMPAIGN, *purposes}
    return tuple(each for each in PERMISSIONS if each.purpose in asked)


_GROUP: Final = "rbac.authorization.k8s.io"


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
    return _object(k8s.ACCOUNT, grant.name, grant.account_namespace, grant)


def grants(grant: Grant) -> tuple[k8s.Manifest, ...]:
    """Return roles and bindings: those of each namespace, then what is cluster-wide."""
    inside = [each for each in grant.permissions if not each.cluster_wide]
    wide = [each for each in grant.permissions if each.cluster_wide]
    made: list[k8s.Manifest] = []
    for namespace in grant.namespaces if inside else ():
        role = _object(k8s.ROLE_KIND, grant.name, namespace, grant)
        binding = _object(k8s.ROLE_BINDING, grant.name, namespace, grant)
        made += [{**role, "rules": rules(inside)}, {**binding, **_bound(grant, k8s.ROLE_KIND)}]
    if wide:
        role = _object(k8s.CLUSTER_ROLE, grant.cluster_name, "", grant)
        binding = _object(k8s.CLUSTER_ROLE_BINDING, grant.cluster_name, "", grant)
        made += [{**role, "rules": rules(wide)}, {**binding, **_bound(grant, k8s.CLUSTER_ROLE)}]
    return tuple(made)


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


def _object(kind: k8s.Kind, name: str, namespace: str, grant: Grant) -> dict[str, Any]:
    return kind.manifest(name, namespace=namespace, labels=grant.labels)


def _bound(grant: Grant, role: k8s.Kind) -> dict[str, Any]:
    name = grant.name if role.namespaced else grant.cluster_name
    subject = {
        "kind": k8s.ACCOUNT.name,
        "name": grant.name,
        "namespace": grant.account_namespace,
    }
    return {
        "roleRef": {"apiGroup": _GROUP, "kind": role.name, "name": name},
        "subjects": [subject],
    }
