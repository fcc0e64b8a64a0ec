"""What a cluster lacks or refuses, through the command line: fact, way out, and nothing left."""

from dataclasses import replace

from steelyard.core.kubernetes import QUOTA, STORAGE_CLASS, ObjectRef
from steelyard.gateways.kubernetes.api import KubernetesApi
from support.cluster_campaigns import HERE, LASTING, on_a_service, only_the_record
from support.limited_account import account_kubeconfig, least_rights
from support.live import Steelyard
from support.postgres_pod import SERVICE, postgres_pod, postgres_secret


def _refused(steelyard: Steelyard, namespace: str, text: str = LASTING, *, status: int) -> str:
    """Run a campaign that ends with this status; return what it said."""
    words = (*HERE, "--dir", "c", "-n", namespace, "--yes", "--no-verdict")
    done = steelyard.run("run", steelyard.experiment(text), *words)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    assert "hint: " in done.stderr
    return done.stderr


def test_a_missing_permission_is_named(
    cluster_api: KubernetesApi, own_namespace: str, steelyard: Steelyard
) -> None:
    """One verb less than is printed: exit 8 with that verb and what it is for, nothing is made."""
    with (
        least_rights(cluster_api, own_namespace, steelyard, denied=("patch", "clusters")) as token,
        only_the_record(cluster_api, own_namespace, steelyard),
    ):
        path = steelyard.directory / "limited.kubeconfig"
        account_kubeconfig(path, token=token, namespace=own_namespace)
        limited = replace(steelyard, extra={"KUBECONFIG": str(path)})
        said = _refused(limited, own_namespace, status=8)
        assert "patch clusters" in said
        assert "steelyard kubernetes rbac" in said


def test_a_quota_that_is_exceeded_is_named_with_its_numbers(
    cluster_api: KubernetesApi, own_namespace: str, steelyard: Steelyard
) -> None:
    """Exit 3 before the start, with the quota and its limit."""
    cluster_api.apply(
        QUOTA.manifest("tight", namespace=own_namespace, spec={"hard": {"pods": "0"}})
    )
    with only_the_record(cluster_api, own_namespace, steelyard):
        said = _refused(steelyard, own_namespace, status=3)
        assert "tight" in said
        assert "pods" in said
        assert not (steelyard.directory / "c").exists()


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
    cluster_api.apply(STORAGE_CLASS.manifest(name, provisioner="steelyard.test/nobody"))
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
