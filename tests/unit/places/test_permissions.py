"""The permissions that campaigns need in a cluster, and the RBAC made from them."""

import pytest

from steelyard.core.kubernetes import (
    JOB,
    NODE,
    POD,
    STORAGE_CLASS,
    Kind,
    campaign_labels,
)
from steelyard.places.kubernetes import permissions as rbac
from steelyard.places.kubernetes.permissions import PERMISSIONS, Purpose, needed, plural


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (POD, "pods"),
        (STORAGE_CLASS, "storageclasses"),
        (Kind(api_version="v1", name="Endpoints"), "endpoints"),
        (JOB, "jobs"),
    ],
)
def test_a_kind_is_named_as_in_the_apis_paths(kind: Kind, path: str) -> None:
    """RBAC knows resources, not kinds; a wrong plural would allow nothing and say nothing."""
    assert plural(kind) == path


def test_each_resource_has_one_line_for_a_purpose() -> None:
    """Two lines for one thing could contradict each other; every one has verbs and a reason."""
    keys = [(each.purpose, each.group, each.resource, each.optional) for each in PERMISSIONS]
    assert len(keys) == len(set(keys))
    assert all(each.verbs and each.why for each in PERMISSIONS)


def test_what_has_no_namespace_is_allowed_cluster_wide() -> None:
    """A Role cannot allow nodes; a namespace itself is the exception, it lies in itself."""
    for each in PERMISSIONS:
        if not each.kind.namespaced and each.kind.name != "Namespace":
            assert each.cluster_wide, each.resource


def test_only_what_is_asked_for_is_needed() -> None:
    """Jobs and the kubelets' configuration are for those that ask; pods are for all."""
    resources = {each.resource for each in needed([])}
    assert "pods/exec" in resources
    assert not resources & {"jobs", "nodes/proxy", "pods/portforward", "clusters"}
    assert "nodes/proxy" in {each.resource for each in needed([Purpose.INSPECT])}


def _grant(*purposes: Purpose) -> rbac.Grant:
    return rbac.Grant(
        name="runner",
        account_namespace="bench",
        namespaces=("bench", "prod"),
        permissions=needed(purposes),
        labels=campaign_labels("c-1"),
    )


def test_the_roles_allow_exactly_the_table() -> None:
    """What the objects allow is what the table says: no verb more, none less, no wildcard."""
    grant = _grant(Purpose.CLUSTERS, Purpose.INSPECT)
    made = rbac.grants(grant)
    allowed = {
        (rule["apiGroups"][0], resource, verb, role["kind"] == "ClusterRole")
        for role in made
        if role["kind"].endswith("Role")
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    asked = {
        (each.group, each.resource, verb, each.cluster_wide)
        for each in grant.permissions
        for verb in each.verbs
    }
    assert allowed == asked


def test_each_namespace_gets_a_role_for_the_one_account() -> None:
    """The account works in two namespaces and lives in one; every binding names it there."""
    made = rbac.grants(_grant())
    namespaces = [each["metadata"].get("namespace") for each in made if each["kind"] == "Role"]
    assert namespaces == ["bench", "prod"]
    for each in made:
        assert each["metadata"]["labels"] == campaign_labels("c-1")
        if each["kind"].endswith("Binding"):
            assert each["subjects"] == [
                {"kind": "ServiceAccount", "name": "runner", "namespace": "bench"}
            ]


def test_a_resource_of_two_purposes_has_one_rule() -> None:
    """A namespace is read by all, and made by some: one rule with all verbs, in order."""
    found = rbac.rules(rbac.everywhere(needed([Purpose.OWN_NAMESPACE])))
    namespaces = [rule for rule in found if rule["resources"] == ["namespaces"]]
    assert [rule["verbs"] for rule in namespaces] == [["get", "create", "patch", "delete"]]


def test_what_is_cluster_wide_is_named_after_the_accounts_namespace() -> None:
    """Two accounts of the same name in two namespaces must not share a ClusterRole."""
    roles = [each for each in rbac.grants(_grant()) if each["kind"] == "ClusterRole"]
    assert [each["metadata"]["name"] for each in roles] == ["runner-bench"]
    assert any(rule["resources"] == [plural(NODE)] for rule in roles[0]["rules"])
