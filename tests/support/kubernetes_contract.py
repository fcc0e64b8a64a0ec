"""What any cluster does with objects: the same tests for a real one and for the one in memory."""

import pytest

from steelyard.core.kubernetes import CONFIG_MAP, SECRET, Manifest, ObjectRef, ref_of
from steelyard.core.wording import PreflightError
from steelyard.gateways.kubernetes.api import KubernetesApi
from support.kubernetes import until


def words(namespace: str, name: str = "words", **data: str) -> Manifest:
    """Return the manifest of a ConfigMap."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


class ObjectContract:
    """Objects are made, changed, listed, and gone with what they own."""

    def test_an_object_is_made_changed_and_deleted(
        self, cluster_api: KubernetesApi, space: str
    ) -> None:
        """What apply no longer says goes away, null in a patch removes, and absent is no error."""
        ref = ref_of(words(space, "changed"))
        assert cluster_api.read(ref) is None
        made = cluster_api.apply(words(space, "changed", a="1", b="2"))
        assert made["metadata"]["uid"]
        assert cluster_api.apply(words(space, "changed", b="3"))["data"] == {"b": "3"}
        assert cluster_api.patch(ref, {"data": {"b": None, "c": "4"}})["data"] == {"c": "4"}
        assert cluster_api.delete(ref)
        until(lambda: cluster_api.read(ref) is None, "the ConfigMap is gone")
        assert not cluster_api.delete(ref)

    def test_a_dry_run_makes_nothing(self, cluster_api: KubernetesApi, space: str) -> None:
        """The server completes the object, and has none afterwards."""
        assert cluster_api.apply(words(space, "dry"), dry_run=True)["metadata"]["uid"]
        assert cluster_api.read(ref_of(words(space, "dry"))) is None

    def test_a_kind_or_namespace_that_is_not_there(
        self, cluster_api: KubernetesApi, space: str
    ) -> None:
        """Each is told as what it is."""
        kind = {"apiVersion": "nobody.example/v1", "kind": "Nothing"}
        with pytest.raises(PreflightError, match="no kind Nothing"):
            cluster_api.apply({**kind, "metadata": {"name": "x", "namespace": space}})
        with pytest.raises(PreflightError, match=f"no namespace {space}-not"):
            cluster_api.apply(words(f"{space}-not"))

    def test_lists_choose_by_labels(self, cluster_api: KubernetesApi, space: str) -> None:
        """Only what has all of the labels, and each says what it is."""
        for name, labels in (("a", {"x": "1", "y": "2"}), ("b", {"x": "1"})):
            manifest = words(space, name)
            cluster_api.apply({**manifest, "metadata": {**manifest["metadata"], "labels": labels}})
        found = cluster_api.list(CONFIG_MAP, space, {"x": "1", "y": "2"})
        assert [ref_of(each).label for each in found] == [f"ConfigMap {space}/a"]
        everywhere = cluster_api.list(CONFIG_MAP, labels={"x": "1"})
        assert {"a", "b"} <= {each["metadata"]["name"] for each in everywhere}

    def test_what_is_owned_goes_with_its_owner(
        self, cluster_api: KubernetesApi, space: str
    ) -> None:
        """The owner stays readable until what it owns is gone."""
        owner = cluster_api.apply(words(space, "owner"))
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "owner",
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": True,
        }
        owned = words(space, "owned")
        metadata = {**owned["metadata"], "ownerReferences": [reference]}
        ref = ref_of(cluster_api.apply({**owned, "metadata": metadata}))
        cluster_api.delete(ref_of(owner))
        until(lambda: cluster_api.read(ref_of(owner)) is None, "the owner is gone")
        assert cluster_api.read(ref) is None

    def test_a_secret_comes_back_encoded(self, cluster_api: KubernetesApi, space: str) -> None:
        """Words given as text are kept as the API keeps them, and only there."""
        ref = ObjectRef(kind=SECRET, name="secret", namespace=space)
        metadata = {"name": ref.name, "namespace": space}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
        cluster_api.apply({**secret, "stringData": {"password": "planted"}})
        found = cluster_api.read(ref) or {}
        assert found["data"] == {"password": "cGxhbnRlZA=="}
        assert "stringData" not in found
