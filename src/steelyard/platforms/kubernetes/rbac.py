"""The RBAC objects that allow what the table of permissions says, and no more."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from steelyard.model.kubernetes import (
    ACCOUNT,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    MANAGED_BY,
    MANAGER,
    ROLE_BINDING,
    ROLE_KIND,
    Kind,
    Manifest,
)
from steelyard.platforms.kubernetes.permissions import Permission

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
    labels: dict[str, str] = field(default_factory=lambda: {MANAGED_BY: MANAGER})

    @property
    def cluster_name(self) -> str:
        """Return the name of what is cluster-wide: accounts of two namespaces never share it."""
        return f"{self.name}-{self.account_namespace}"


def account(grant: Grant) -> Manifest:
    """Return the account itself."""
    return _object(ACCOUNT, grant.name, grant.account_namespace, grant)


def grants(grant: Grant) -> tuple[Manifest, ...]:
    """Return roles and bindings: those of each namespace, then what is cluster-wide."""
    inside = [each for each in grant.permissions if not each.cluster_wide]
    wide = [each for each in grant.permissions if each.cluster_wide]
    made: list[Manifest] = []
    for namespace in grant.namespaces if inside else ():
        role = _object(ROLE_KIND, grant.name, namespace, grant)
        binding = _object(ROLE_BINDING, grant.name, namespace, grant)
        made += [{**role, "rules": rules(inside)}, {**binding, **_bound(grant, ROLE_KIND)}]
    if wide:
        role = _object(CLUSTER_ROLE, grant.cluster_name, "", grant)
        binding = _object(CLUSTER_ROLE_BINDING, grant.cluster_name, "", grant)
        made += [{**role, "rules": rules(wide)}, {**binding, **_bound(grant, CLUSTER_ROLE)}]
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


def _object(kind: Kind, name: str, namespace: str, grant: Grant) -> dict[str, Any]:
    place = {"namespace": namespace} if namespace else {}
    metadata = {"name": name, **place, "labels": dict(grant.labels)}
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata}


def _bound(grant: Grant, role: Kind) -> dict[str, Any]:
    name = grant.name if role.namespaced else grant.cluster_name
    subject = {
        "kind": ACCOUNT.name,
        "name": grant.name,
        "namespace": grant.account_namespace,
    }
    return {
        "roleRef": {"apiGroup": _GROUP, "kind": role.name, "name": name},
        "subjects": [subject],
    }
