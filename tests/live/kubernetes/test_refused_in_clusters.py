"""What a cluster lacks or refuses, through the command line: fact, way out, and nothing left."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from steelyard.core.kubernetes import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    STORAGE_CLASS,
    Manifest,
    ObjectRef,
)
from steelyard.gateways.kubernetes.api import KubernetesApi
from support.api_without_operator import api_without_operator
from support.cluster_campaigns import LASTING, on_a_service, only_the_record
from support.limited_account import documents, token_of, write_kubeconfig
from support.live import Steelyard
from support.postgres_pod import SERVICE, postgres_pod, postgres_secret


def _refused(steelyard: Steelyard, namespace: str, text: str = LASTING, *, status: int) -> str:
    """Run a campaign that ends with this status; return what it said."""
    words = ("--out", "c", "-n", namespace, "--yes")
    done = steelyard.run("run", steelyard.experiment(text), *words)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    assert "hint: " in done.stderr
    return done.stderr


def test_without_the_operator_it_is_named(
    cluster_api: KubernetesApi, own_namespace: str, steelyard: Steelyard, tmp_path: Path
) -> None:
    """The API has no kind Cluster: exit 3 before anything is made, and where to get it."""
    with (
        api_without_operator(tmp_path) as path,
        only_the_record(cluster_api, own_namespace, steelyard),
    ):
        blind = replace(steelyard, extra={"KUBECONFIG": str(path)})
        said = _refused(blind, own_namespace, status=3)
        assert "CloudNativePG is not installed in the cluster limited" in said
        assert not (steelyard.directory / "c").exists()


@contextmanager
def _account_without(
    api: KubernetesApi, namespace: str, steelyard: Steelyard, denied: tuple[str, str]
) -> Iterator[Path]:
    """Yield a kubeconfig of an account that may what `kubernetes rbac` prints but for one verb."""
    verb, resource = denied
    printed = steelyard.run("kubernetes", "rbac", "-n", namespace, "--account", "limited").stdout
    made, taken = [], 0
    for manifest in documents(printed):
        for rule in manifest.get("rules", ()):
            if resource in rule["resources"] and verb in rule["verbs"]:
                taken += 1
                rule["verbs"] = [each for each in rule["verbs"] if each != verb]
        made.append(api.apply(manifest))
    assert taken
    try:
        token = token_of(api, namespace, "limited")
        path = steelyard.directory / "limited.kubeconfig"
        yield write_kubeconfig(path, token=token, namespace=namespace)
    finally:
        for kind in (CLUSTER_ROLE, CLUSTER_ROLE_BINDING):
            for each in made:
                if each["kind"] == kind.name:
                    api.delete(ObjectRef(kind=kind, name=each["metadata"]["name"]))


@pytest.mark.parametrize("denied", [("create", "pods"), ("patch", "clusters")])
def test_a_missing_permission_is_named(
    cluster_api: KubernetesApi, own_namespace: str, steelyard: Steelyard, denied: tuple[str, str]
) -> None:
    """One verb less than is printed: exit 8 with that verb and what it is for, nothing is made."""
    with (
        _account_without(cluster_api, own_namespace, steelyard, denied) as path,
        only_the_record(cluster_api, own_namespace, steelyard),
    ):
        limited = replace(steelyard, extra={"KUBECONFIG": str(path)})
        said = _refused(limited, own_namespace, status=8)
        verb, resource = denied
        assert verb in said
        assert resource in said
        assert "steelyard kubernetes rbac" in said


def _quota(namespace: str, **hard: str) -> Manifest:
    limits = {name.replace("_", "."): value for name, value in hard.items()}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "tight", "namespace": namespace},
        "spec": {"hard": limits},
    }


@pytest.mark.parametrize(("hard", "status"), [("pods", 3), ("requests_storage", 4)])
def test_a_quota_that_is_exceeded_is_named_with_its_numbers(
    cluster_api: KubernetesApi, own_namespace: str, steelyard: Steelyard, hard: str, status: int
) -> None:
    """For a pod before the start, for a volume when the Cluster asks for it: quota and limit."""
    cluster_api.apply(_quota(own_namespace, **{hard: "0"}))
    with only_the_record(cluster_api, own_namespace, steelyard):
        said = _refused(steelyard, own_namespace, status=status)
        assert "tight" in said
        assert hard.replace("_", ".") in said
        assert (steelyard.directory / "c").exists() == (status == 4)


def test_an_image_that_nobody_has_is_named(
    cluster_api: KubernetesApi, own_namespace: str, steelyard: Steelyard
) -> None:
    """Exit 3 with the image and the node's words, before a campaign begins."""
    text = LASTING.replace("image: localhost/postgresql:15", "image: localhost/nowhere:15")
    assert text != LASTING
    with only_the_record(cluster_api, own_namespace, steelyard):
        said = _refused(steelyard, own_namespace, text, status=3)
        assert "cannot be pulled" in said
        assert "localhost/nowhere:15" in said
        assert not (steelyard.directory / "c").exists()


def test_a_volume_that_nobody_makes_is_named(
    cluster_api: KubernetesApi, own_namespace: str, steelyard: Steelyard
) -> None:
    """The claim stays unbound: exit 4 with claim and provisioner, and the Cluster goes."""
    name = f"{own_namespace}-nobody"
    cluster_api.apply(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": "steelyard.test/nobody",
        }
    )
    try:
        text = LASTING.replace("storage: 1Gi", f"storage: 1Gi\n      storage_class: {name}")
        with only_the_record(cluster_api, own_namespace, steelyard):
            said = _refused(steelyard, own_namespace, text, status=4)
            assert "gets no volume yet" in said
            assert "steelyard.test/nobody" in said
            assert "Does the provisioner of the storage class run?" in said
    finally:
        cluster_api.delete(ObjectRef(kind=STORAGE_CLASS, name=name))


def test_a_wrong_password_is_told_and_never_shown(
    cluster_api: KubernetesApi, own_namespace: str, steelyard: Steelyard
) -> None:
    """The Secret does not fit the server: exit 4 with service and Secret, and it is not printed."""
    right = postgres_secret(cluster_api, own_namespace, "right", "the-right-one")
    postgres_pod(cluster_api, right)
    postgres_secret(cluster_api, own_namespace, "wrong", "the-wrong-one")
    text = on_a_service(SERVICE, "wrong")
    with only_the_record(cluster_api, own_namespace, steelyard):
        said = _refused(steelyard, own_namespace, text, status=4)
        assert f"{SERVICE}.{own_namespace}.svc:6543 refused the password of postgres" in said
        assert "Secret" in said
        assert "the-wrong-one" not in said
