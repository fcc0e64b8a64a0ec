"""What is told of the place of a server in a cluster, whatever database system it is."""

import pytest

from steelyard.core.findings import Severity
from steelyard.core.kubernetes import VOLUME, ObjectRef
from steelyard.places.kubernetes.made_server import moved, stays
from steelyard.places.kubernetes.undoing import Held


@pytest.mark.parametrize(
    ("storage_class", "words"),
    [("slow", "its class slow retains volumes"), ("", "its class retains volumes")],
)
def test_a_volume_that_stays_is_told_with_its_class(storage_class: str, words: str) -> None:
    """A volume that names no class, as one made by hand, is told without one."""
    volume = ObjectRef(kind=VOLUME, name="pvc-1")
    finding = stays(Held(ref=volume, storage_class=storage_class, stays=True))
    assert words in finding.message
    assert finding.severity is Severity.INFO


def test_only_more_than_one_node_is_worth_a_word() -> None:
    """A server that stayed where it was gives no finding."""
    assert not list(moved("server", ["one"]))
    (finding,) = moved("server", ["one", "two"])
    assert "the server ran on several nodes: one, two" in finding.message
