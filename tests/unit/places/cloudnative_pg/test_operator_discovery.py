"""The operator is found, its version where it is visible, and fields it does not know are named."""

import pytest

from fakes.kubernetes_api import FakeKubernetesApi
from steelyard.core.kubernetes import CLUSTER, CRD, DEPLOYMENT, SecretRef
from steelyard.core.target import CloudNativePgTarget, Synchronous
from steelyard.core.wording import InputError, PreflightError
from steelyard.systems.postgres.cloudnative_pg.operator import (
    Operator,
    discover,
    require_known,
    version_of_image,
)
from steelyard.systems.postgres.cloudnative_pg.own_cluster import cluster_manifest
from support.recorded_clusters import objects


def _installed() -> FakeKubernetesApi:
    api = FakeKubernetesApi()
    for each in objects("operator"):
        api.put(each)
    return api


def _manifest(**target: object) -> dict[str, object]:
    secret = SecretRef(namespace="bench", name="superuser")
    made = CloudNativePgTarget(**target)  # type: ignore[arg-type]
    return dict(cluster_manifest(made, name="pg", namespace="bench", secret=secret, settings={}))


def test_an_absent_operator_is_refused_with_the_way_out() -> None:
    """A cluster without the kind is refused before anything is made."""
    api = _installed()
    api.kinds.discard(CLUSTER)
    with pytest.raises(PreflightError, match="CloudNativePG is not installed") as caught:
        discover(api)
    assert "Install its operator" in caught.value.hint


def test_version_and_fields_of_the_recorded_operator() -> None:
    """The version comes from the image of the deployment, the fields from the definition."""
    operator = discover(_installed())
    assert (operator.version, operator.definition) == ("1.27.0", "v1")
    assert operator.knows("postgresql", "synchronous")
    assert not operator.knows("postgresql", "synchronos")


def test_what_may_not_be_read_is_no_error() -> None:
    """Without rights on deployments and definitions the reason is known, and nothing is refused."""
    api = _installed()
    api.refuse("list", DEPLOYMENT)
    api.refuse("get", CRD)
    operator = discover(api)
    assert operator.version is None
    assert "may not read" in operator.unseen
    require_known(_manifest(affinity='{"podAntiAfinityType": "required"}'), operator)


def test_a_deployment_may_be_visible_in_its_own_namespace_only() -> None:
    """An account that may read cnpg-system only finds the version there."""
    api = _installed()
    api.refuse("list", DEPLOYMENT, namespace="nowhere")
    assert discover(api).version == "1.27.0"


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("ghcr.io/cloudnative-pg/cloudnative-pg:1.27.0", "1.27.0"),
        ("localhost:5000/cnpg:v1.25.1@sha256:abc", "1.25.1"),
        ("localhost:5000/cnpg", None),
        ("ghcr.io/cloudnative-pg/cloudnative-pg@sha256:abc", None),
    ],
)
def test_versions_of_images(image: str, version: str | None) -> None:
    """The tag is the version; a port or a digest is none."""
    assert version_of_image(image) == version


def test_every_field_that_is_written_is_known() -> None:
    """A target with everything in it has no field that the recorded definition lacks."""
    manifest = _manifest(
        image="postgresql:17",
        wal_storage="1Gi",
        wal_storage_class="fast",
        storage_class="slow",
        instances=2,
        synchronous=Synchronous(),
        node_selector=(("disk", "nvme"),),
        tolerations='[{"key": "db", "operator": "Exists"}]',
        affinity='{"podAntiAffinityType": "required"}',
    )
    require_known(manifest, discover(_installed()))


def test_unknown_fields_are_named_with_what_was_meant() -> None:
    """A misspelt key of `affinity` fails before the apply, and the right one is offered."""
    manifest = _manifest(affinity='{"podAntiAfinityType": "required", "zone": {"a": 1}}')
    with pytest.raises(InputError) as caught:
        require_known(manifest, discover(_installed()))
    assert "spec.affinity.podAntiAfinityType (did you mean podAntiAffinityType?)" in str(
        caught.value
    )
    assert "spec.affinity.zone" in str(caught.value)


def test_unknown_fields_in_lists_are_found() -> None:
    """Items of a list are compared with the schema of its items."""
    manifest = _manifest(tolerations='[{"key": "a"}, {"kye": "b"}]')
    with pytest.raises(InputError, match=r"spec.affinity.tolerations\[1\].kye"):
        require_known(manifest, discover(_installed()))


def test_synchronous_replication_needs_an_operator_that_has_it() -> None:
    """An operator with minSyncReplicas only is refused, and its version is named."""
    schema = {"properties": {"postgresql": {"properties": {"parameters": {}}}}}
    operator = Operator(version="1.23.1", spec=schema)
    with pytest.raises(PreflightError, match=r"CloudNativePG 1.23.1 has no .*minSyncReplicas"):
        require_known(_manifest(instances=2, synchronous=Synchronous()), operator)
