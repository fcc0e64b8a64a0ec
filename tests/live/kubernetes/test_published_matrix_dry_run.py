"""The manifests of the published matrix before a real API server and CloudNativePG's definition.

Longhorn itself is not run: a storage class whose provisioner is absent is valid all the same.
"""

import copy

import pytest

from steelyard.core.kubernetes import CLUSTER, STORAGE_CLASS, ObjectRef
from steelyard.core.wording import SteelyardError
from steelyard.gateways.kubernetes.api import KubernetesApi
from support.kubernetes import no_cluster
from support.published_manifests import PRESETS, class_manifests, preset_manifests


@pytest.fixture
def operator_api(cluster_api: KubernetesApi) -> KubernetesApi:
    """Return the API of a cluster that has CloudNativePG."""
    if not cluster_api.knows(CLUSTER):
        no_cluster("the cluster has no CloudNativePG")
    return cluster_api


def test_every_cluster_of_the_presets_is_taken(
    operator_api: KubernetesApi, own_namespace: str
) -> None:
    """Strict server-side dry-run: the definition knows every field, the webhook every value."""
    manifests = [each for name in PRESETS for each in preset_manifests(name, own_namespace)]
    for each in (each for each in manifests if each["kind"] == "Cluster"):
        taken = operator_api.apply(each, dry_run=True)
        assert taken["spec"]["instances"] == each["spec"]["instances"]
        for name, value in each["spec"]["postgresql"]["parameters"].items():
            assert taken["spec"]["postgresql"]["parameters"][name] == value
        ref = ObjectRef(kind=CLUSTER, name=str(each["metadata"]["name"]), namespace=own_namespace)
        assert operator_api.read(ref) is None


def test_every_storage_class_is_taken(cluster_api: KubernetesApi) -> None:
    """The API server takes each class as it is printed, and makes none of it."""
    for name, manifest in class_manifests().items():
        ref = ObjectRef(kind=STORAGE_CLASS, name=name)
        before = cluster_api.read(ref)
        taken = cluster_api.apply(manifest, dry_run=True)
        for key in ("provisioner", "reclaimPolicy", "volumeBindingMode"):
            assert taken[key] == manifest[key]
        assert taken.get("parameters") == manifest.get("parameters")
        assert cluster_api.read(ref) == before


def test_an_unknown_field_would_have_been_refused(
    operator_api: KubernetesApi, own_namespace: str
) -> None:
    """The check bites: a misspelled key of a Cluster, or of a class, is an error that names it."""
    cluster = copy.deepcopy(dict(preset_manifests("published-storage", own_namespace)[-1]))
    cluster["spec"]["storage"]["storageClas"] = "longhorn-2r"
    made = {**class_manifests()["longhorn-2r"], "reclaimPolice": "Delete"}
    for manifest, field in ((cluster, "storageClas"), (made, "reclaimPolice")):
        with pytest.raises(SteelyardError, match=field):
            operator_api.apply(manifest, dry_run=True)
