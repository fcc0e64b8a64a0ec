"""``steelyard kubernetes rbac`` and ``storage-classes``: objects that kubectl takes."""

from collections.abc import Mapping
from typing import Any

import pytest
from command_line import Shell
from ruamel.yaml import YAML

from steelyard.core.wording import ExitCode


def _objects(shell: Shell, *words: str) -> tuple[list[Any], str]:
    code, out, err = shell.run("kubernetes", "rbac", *words)
    assert code == 0, err
    return list(YAML(typ="safe").load_all(out)), out


def _allowed(objects: list[Any], kind: str) -> set[tuple[str, str]]:
    return {
        (resource, verb)
        for each in objects
        if each["kind"] == kind
        for rule in each["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_a_namespace_gets_a_role_and_the_cluster_only_reads(shell: Shell) -> None:
    """In a given namespace nothing but reading is allowed outside of it."""
    objects, out = _objects(shell, "-n", "bench", "--account", "weigher")
    kinds = [each["kind"] for each in objects]
    assert kinds == ["ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"]
    assert {verb for _, verb in _allowed(objects, "ClusterRole")} == {"get", "list"}
    assert all("weigher" in each["metadata"]["name"] for each in objects)
    assert ("pods/exec", "get") in _allowed(objects, "Role")
    assert "# " in out.splitlines()[0]
    assert "to read what the database's container uses" in out


def test_campaigns_with_namespaces_of_their_own_need_all_of_them(shell: Shell) -> None:
    """Where the namespace is not known before, a Role cannot be given in it."""
    objects, _ = _objects(shell)
    assert "Role" not in [each["kind"] for each in objects]
    assert {("namespaces", "create"), ("pods", "create")} <= _allowed(objects, "ClusterRole")


@pytest.mark.parametrize(
    ("words", "resource", "there"),
    [
        ((), "nodes/proxy", False),
        (("--inspect",), "nodes/proxy", True),
        ((), "serviceaccounts", False),
        (("--in-cluster",), "serviceaccounts", True),
        (("--runner",), "pods/portforward", False),
        (("--runner",), "serviceaccounts", False),
    ],
)
def test_each_flag_takes_what_it_says(
    shell: Shell,
    words: tuple[str, ...],
    resource: str,
    there: bool,  # noqa: FBT001 - a case's expectation
) -> None:
    """A flag adds or leaves out exactly what it speaks of."""
    objects, _ = _objects(shell, "-n", "bench", *words)
    found = {name for name, _ in _allowed(objects, "Role") | _allowed(objects, "ClusterRole")}
    assert (resource in found) is there


def classes(text: str) -> dict[str, Mapping[str, Any]]:
    """Return the manifests of a text by name."""
    read = YAML(typ="safe").load_all(text)
    return {str(each["metadata"]["name"]): each for each in read}


def test_all_classes_are_printed_as_manifests(shell: Shell) -> None:
    """Without a name: every class, each complete and bound where the pod is placed."""
    code, out, _ = shell.run("kubernetes", "storage-classes")
    made = classes(out)
    assert code == 0
    assert {"local-path", "longhorn-1r", "longhorn-2r", "longhorn-2r-shared"} <= set(made)
    for each in made.values():
        assert (each["apiVersion"], each["kind"]) == ("storage.k8s.io/v1", "StorageClass")
        assert each["volumeBindingMode"] == "WaitForFirstConsumer"
        # A volume that stays behind would fill the disk within a campaign.
        assert each["reclaimPolicy"] == "Delete"


def test_those_of_longhorn_alone(shell: Shell) -> None:
    """`--longhorn` leaves out what the cluster brings; parameters are texts, as the API wants."""
    _, out, _ = shell.run("kubernetes", "storage-classes", "--longhorn")
    made = classes(out)
    assert "local-path" not in made
    assert {each["provisioner"] for each in made.values()} == {"driver.longhorn.io"}
    for each in made.values():
        assert all(isinstance(value, str) for value in each["parameters"].values())


def test_only_those_that_are_named_in_that_order(shell: Shell) -> None:
    """Names choose; each comes once, in the order given."""
    _, out, _ = shell.run(
        "kubernetes", "storage-classes", "longhorn-2r", "local-path", "longhorn-2r"
    )
    assert list(classes(out)) == ["longhorn-2r", "local-path"]


@pytest.mark.parametrize("words", [("longhorn-3r",), ("--longhorn", "local-path")])
def test_an_unknown_name_is_answered_with_the_known_ones(
    shell: Shell, words: tuple[str, ...]
) -> None:
    """Nothing is printed for a class that there is not, and the names are told."""
    code, out, err = shell.run("kubernetes", "storage-classes", *words)
    assert (code, out) == (ExitCode.BAD_INPUT, "")
    assert f"there is no storage class `{words[-1]}`" in err
    assert "longhorn-" in err
