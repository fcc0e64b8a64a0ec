"""What a record holds of storage classes and volumes, and what it does without."""

from typing import Any

from fakes.kubernetes_api import FakeKubernetesApi
from steelyard.core import kubernetes as k8s
from steelyard.core.findings import Fact
from steelyard.core.stack import StorageClassFacts
from steelyard.places.kubernetes.volumes import storage_class_facts, volume_facts

LABELS = {"cnpg.io/cluster": "pg"}


def storage_class(name: str, provisioner: str, **parameters: str) -> dict[str, Any]:
    """Return a storage class."""
    return k8s.STORAGE_CLASS.manifest(
        name,
        provisioner=provisioner,
        volumeBindingMode="WaitForFirstConsumer",
        parameters=parameters,
    )


def claim(name: str, volume: str | None) -> dict[str, Any]:
    """Return a claim that is bound to a volume, or to none yet."""
    return k8s.CLAIM.manifest(
        name, namespace="bench", labels=LABELS, spec={"volumeName": volume} if volume else {}
    )


def local_volume(name: str) -> dict[str, Any]:
    """Return a volume as the local-path provisioner makes it."""
    on = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node2"]}
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": name,
            "annotations": {"pv.kubernetes.io/provisioned-by": "rancher.io/local-path"},
        },
        "spec": {
            "storageClassName": "local-path",
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [zone, on]}]}},
        },
    }


def longhorn_volume(name: str) -> dict[str, Any]:
    """Return a volume as Longhorn's driver makes it."""
    return k8s.VOLUME.manifest(
        name,
        spec={
            "storageClassName": "longhorn-2r",
            "capacity": {"storage": "20Gi"},
            "csi": {
                "driver": "driver.longhorn.io",
                "volumeAttributes": {"numberOfReplicas": "2", "dataLocality": "best-effort"},
            },
        },
    )


def cluster() -> FakeKubernetesApi:
    """Return a cluster with two classes, of which one is the default, and two volumes."""
    api = FakeKubernetesApi()
    local = storage_class("local-path", "rancher.io/local-path")
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    api.put({**local, "metadata": {"name": "local-path", "annotations": default}})
    api.put(storage_class("longhorn-2r", "driver.longhorn.io", numberOfReplicas="2"))
    for volume in (local_volume("pvc-1"), longhorn_volume("pvc-2")):
        api.put(volume)
    for each in (claim("pg-2", "pvc-2"), claim("pg-1", "pvc-1"), claim("pg-3", None)):
        api.put(each)
    return api


def test_classes_are_noted_by_name() -> None:
    """The classes that are used, as they are, and no other."""
    facts = storage_class_facts(cluster(), ["longhorn-2r"])
    found = k8s.class_in(facts, "longhorn-2r")
    assert found is not None
    assert found.provisioner == "driver.longhorn.io"
    assert (found.name, found.binding) == ("longhorn-2r", "WaitForFirstConsumer")
    assert found.parameters == {"numberOfReplicas": "2"}
    assert k8s.class_in(facts, "local-path") is None


def test_without_a_name_the_default_is_noted() -> None:
    """A target that names no class gets the cluster's default, which the record then names."""
    facts = storage_class_facts(cluster(), [None])
    found = k8s.class_in(facts, None)
    assert found is not None
    assert (found.name, found.parameters) == ("local-path", {})
    assert k8s.class_in(facts, "longhorn-2r") is None
    assert k8s.class_in(storage_class_facts(cluster(), ["longhorn-2r"]), None) is None


def test_volumes_are_told_by_driver_node_and_replicas() -> None:
    """In the order of the claims; one that is not bound yet has nothing to tell."""
    facts = volume_facts(cluster(), "bench", LABELS)
    told = [(fact.subject, fact.name, fact.value) for fact in facts]
    assert told == [
        ("volume of pg-1", "driver", "rancher.io/local-path"),
        ("volume of pg-1", "class", "local-path"),
        ("volume of pg-1", "size", "1Gi"),
        ("volume of pg-1", "node", "node2"),
        ("volume of pg-2", "driver", "driver.longhorn.io"),
        ("volume of pg-2", "class", "longhorn-2r"),
        ("volume of pg-2", "size", "20Gi"),
        ("volume of pg-2", "replicas", "2"),
    ]


def test_what_an_account_may_not_see_is_left_out() -> None:
    """Classes and volumes are no condition of a campaign: without the verb there are no facts."""
    api = cluster()
    api.refuse("list", k8s.STORAGE_CLASS)
    api.refuse("get", k8s.VOLUME)
    assert storage_class_facts(api, ["longhorn-2r"]) == ()
    assert volume_facts(api, "bench", LABELS) == ()
    api.permit()
    api.refuse("list", k8s.CLAIM)
    assert volume_facts(api, "bench", LABELS) == ()


TWICE = StorageClassFacts(
    name="longhorn-2r",
    provisioner="driver.longhorn.io",
    binding="WaitForFirstConsumer",
    parameters={"numberOfReplicas": "2", "dataLocality": "best-effort"},
)
LOCAL = StorageClassFacts(name="local-path", provisioner="rancher.io/local-path")


def test_what_was_not_noted_is_not_known() -> None:
    """Another name, or a class without its provisioner, is no class."""
    assert k8s.class_in(k8s.class_facts(TWICE), "longhorn-1r") is None
    torn = (Fact(name="numberOfReplicas", value="2", subject="storage class torn"),)
    assert k8s.class_in(torn, "torn") is None


def test_what_a_class_says_of_the_place() -> None:
    """Longhorn by its provisioner, replicas by parameter or by Longhorn's default of three."""
    assert (k8s.is_longhorn(TWICE), k8s.is_node_bound(TWICE), k8s.is_strict(TWICE)) == (
        True,
        False,
        False,
    )
    assert (k8s.is_longhorn(LOCAL), k8s.is_node_bound(LOCAL)) == (False, True)
    strict = {"numberOfReplicas": "1", "dataLocality": "strict-local"}
    kept = StorageClassFacts(name="kept", provisioner=TWICE.provisioner, parameters=strict)
    assert k8s.is_strict(kept)
    assert not k8s.is_strict(StorageClassFacts(name="x", provisioner="x", parameters=strict))
    bare = StorageClassFacts(name="bare", provisioner=TWICE.provisioner)
    assert [k8s.replicas(each) for each in (TWICE, kept, bare)] == ["2", "1", "3"]
