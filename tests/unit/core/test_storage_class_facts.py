"""Storage classes as facts of a record: what was noted can be read again."""

from steelyard.core.kubernetes import (
    class_facts,
    class_in,
    is_longhorn,
    is_node_bound,
    is_strict,
    replicas,
)
from steelyard.core.measurement import Fact
from steelyard.core.stack import StorageClassFacts

TWICE = StorageClassFacts(
    name="longhorn-2r",
    provisioner="driver.longhorn.io",
    binding="WaitForFirstConsumer",
    parameters={"numberOfReplicas": "2", "dataLocality": "best-effort"},
)
LOCAL = StorageClassFacts(name="local-path", provisioner="rancher.io/local-path")


def test_what_was_not_noted_is_not_known() -> None:
    """Another name, or a class without its provisioner, is no class."""
    assert class_in(class_facts(TWICE), "longhorn-1r") is None
    torn = (Fact(name="numberOfReplicas", value="2", subject="storage class torn"),)
    assert class_in(torn, "torn") is None


def test_what_a_class_says_of_the_place() -> None:
    """Longhorn by its provisioner, replicas by parameter or by Longhorn's default of three."""
    assert (is_longhorn(TWICE), is_node_bound(TWICE), is_strict(TWICE)) == (True, False, False)
    assert (is_longhorn(LOCAL), is_node_bound(LOCAL)) == (False, True)
    strict = {"numberOfReplicas": "1", "dataLocality": "strict-local"}
    kept = StorageClassFacts(name="kept", provisioner=TWICE.provisioner, parameters=strict)
    assert is_strict(kept)
    assert not is_strict(StorageClassFacts(name="x", provisioner="x", parameters=strict))
    bare = StorageClassFacts(name="bare", provisioner=TWICE.provisioner)
    assert [replicas(each) for each in (TWICE, kept, bare)] == ["2", "1", "3"]
