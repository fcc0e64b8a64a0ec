"""The manifest of a Cluster: everything that a target says, and what a campaign needs beside."""

from typing import Any

import pytest

from steelyard.core.kubernetes import OVERWRITTEN, REFUSED, SecretRef
from steelyard.core.places import PodResources, Synchronous
from steelyard.core.target import CloudNativePgTarget
from steelyard.core.wording import PreflightError
from steelyard.places.kubernetes.pods import resources_of
from steelyard.systems.postgres.cloudnative_pg.operator import (
    postgresql_spec,
    require_taken,
    settings_in,
)
from steelyard.systems.postgres.cloudnative_pg.own_cluster import cluster_manifest

_SECRET = SecretRef(namespace="bench", name="steelyard-night")


def _spec(target: CloudNativePgTarget, **settings: str) -> dict[str, Any]:
    manifest = cluster_manifest(
        target, name="pg", namespace="bench", secret=_SECRET, settings=settings, campaign_id="night"
    )
    spec: dict[str, Any] = manifest["spec"]
    return spec


def test_a_bare_target() -> None:
    """One instance without budget, restarted where it is, its superuser known to us."""
    assert _spec(CloudNativePgTarget()) == {
        "instances": 1,
        "imagePullPolicy": "IfNotPresent",
        "enablePDB": False,
        "primaryUpdateStrategy": "unsupervised",
        "primaryUpdateMethod": "restart",
        "smartShutdownTimeout": 10,
        "inheritedMetadata": {
            "labels": {
                "app.kubernetes.io/managed-by": "steelyard",
                "steelyard/campaign": "night",
                "steelyard/role": "database",
            }
        },
        "enableSuperuserAccess": True,
        "superuserSecret": {"name": "steelyard-night"},
        "storage": {"size": "10Gi"},
        "postgresql": {"parameters": {}},
    }


def test_everything_that_a_target_can_say() -> None:
    """Image, volumes with their classes, placement, resources and replication arrive."""
    target = CloudNativePgTarget(
        image="ghcr.io/cloudnative-pg/postgresql:18",
        instances=3,
        storage="20Gi",
        storage_class="local-path",
        wal_storage="5Gi",
        wal_storage_class="fast",
        resources=PodResources(requests=(("cpu", "2"), ("memory", "4Gi"))),
        synchronous=Synchronous(method="first", number=2, data_durability="preferred"),
        node_selector=(("disk", "nvme"),),
        tolerations='[{"key": "db", "operator": "Exists"}]',
        affinity='{"podAntiAffinityType": "required"}',
    )
    spec = _spec(target, work_mem="8MB")
    assert spec["imageName"] == "ghcr.io/cloudnative-pg/postgresql:18"
    assert spec["storage"] == {"size": "20Gi", "storageClass": "local-path"}
    assert spec["walStorage"] == {"size": "5Gi", "storageClass": "fast"}
    assert spec["enablePDB"] is True
    assert spec["affinity"] == {
        "nodeSelector": {"disk": "nvme"},
        "tolerations": [{"key": "db", "operator": "Exists"}],
        "podAntiAffinityType": "required",
    }
    assert spec["postgresql"] == {
        "parameters": {"work_mem": "8MB"},
        "synchronous": {"method": "first", "number": 2, "dataDurability": "preferred"},
    }


def test_wal_goes_to_the_class_of_the_data_where_no_other_is_named() -> None:
    """A WAL volume without a class is on the class of `storage_class`, not on the default."""
    spec = _spec(CloudNativePgTarget(storage_class="slow", wal_storage="1Gi"))
    assert spec["walStorage"] == {"size": "1Gi", "storageClass": "slow"}


def test_without_a_campaign_the_labels_name_none() -> None:
    """Manifests that are only looked at, such as golden files, hold no campaign."""
    manifest = cluster_manifest(
        CloudNativePgTarget(), name="pg", namespace="", secret=_SECRET, settings={}
    )
    assert "namespace" not in manifest["metadata"]
    assert "steelyard/campaign" not in manifest["metadata"]["labels"]


@pytest.mark.parametrize("given", ["requests", "limits"])
def test_one_of_requests_and_limits_is_both(given: str) -> None:
    """Who says one of the two gets a Guaranteed pod."""
    resources = PodResources(**{given: (("cpu", "2"), ("memory", "4Gi"))})  # type: ignore[arg-type]
    both = {"cpu": "2", "memory": "4Gi"}
    assert resources_of(resources) == {"requests": both, "limits": both}


def test_huge_pages_are_in_both_whatever_else_is() -> None:
    """Kubernetes refuses huge pages whose request is not their limit."""
    resources = PodResources(
        requests=(("cpu", "1"), ("hugepages-2Mi", "1Gi")), limits=(("cpu", "2"),)
    )
    assert resources_of(resources) == {
        "requests": {"cpu": "1", "hugepages-2Mi": "1Gi"},
        "limits": {"cpu": "2", "hugepages-2Mi": "1Gi"},
    }


@pytest.mark.parametrize("name", sorted((REFUSED | OVERWRITTEN) - {"shared_preload_libraries"}))
def test_settings_that_the_operator_keeps_are_refused(name: str) -> None:
    """Each of them is complained about before anything is made, in whatever case."""
    with pytest.raises(PreflightError, match=name):
        require_taken(["work_mem", name.upper()])


def test_libraries_are_a_list_of_the_cluster_and_may_be_set() -> None:
    """`shared_preload_libraries` is a key of its own, and is read back as a setting."""
    require_taken(["shared_preload_libraries", "work_mem"])
    spec = postgresql_spec({"shared_preload_libraries": 'pg_stat_statements, "auto_explain"'})
    assert spec == {"shared_preload_libraries": ["pg_stat_statements", "auto_explain"]}
    found = settings_in({"postgresql": spec}, ["Shared_Preload_Libraries", "work_mem"])
    assert found == {
        "shared_preload_libraries": "pg_stat_statements, auto_explain",
        "work_mem": None,
    }


def test_what_was_not_there_is_removed_by_null() -> None:
    """A setting without a value, and libraries, become null: a merge patch removes them."""
    assert postgresql_spec({"Work_Mem": None, "shared_preload_libraries": None}) == {
        "shared_preload_libraries": None,
        "parameters": {"work_mem": None},
    }
