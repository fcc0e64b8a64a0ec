"""The door to objects of a cluster: made, patched, verified by their effect, put back exactly."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.core.kubernetes import CLUSTER, POD, STORAGE_CLASS
from steelyard.core.stack import KnobKind
from steelyard.core.wording import InputError, PreflightError, PrivilegeError, TargetError
from steelyard.places.kubernetes.undoing import before, merged, patch_for
from support.database_in_cluster import LATE_CLASS, Operator, cluster_knob
from support.stack import knob


def test_a_cluster_that_is_there_is_patched_and_put_back_exactly() -> None:
    """Only what the plan speaks of: its image stays, and its larger volume."""
    world = Operator()
    door, asked = world.door(), cluster_knob()
    was = world.api.get(CLUSTER, "pg", "bench")["spec"].copy()
    assert door.verify(asked).holds is False
    door.require(asked)
    snapshot = door.snapshot(asked)
    door.apply(asked)
    spec = world.api.get(CLUSTER, "pg", "bench")["spec"]
    assert spec["resources"]["limits"]["cpu"] == "1"
    assert spec["postgresql"]["parameters"]["work_mem"] == "8MB"
    assert spec["postgresql"]["parameters"]["shared_buffers"] == "32MB"
    assert (spec["imageName"], spec["storage"]["size"]) == ("postgresql:18", "10Gi")
    assert "imageCatalogRef" not in spec
    assert door.verify(asked).holds
    door.revert(asked, snapshot)
    assert world.api.get(CLUSTER, "pg", "bench")["spec"] == was


def test_a_cluster_that_is_not_there_is_made_with_its_image() -> None:
    """With a label that says who made it; a revert does not delete what may hold data."""
    world = Operator()
    door, asked = world.door(), cluster_knob("new")
    door.require(asked)
    snapshot = door.snapshot(asked)
    door.apply(asked)
    made = world.api.get(CLUSTER, "new", "bench")
    assert made["spec"]["imageCatalogRef"]["name"] == "postgresql"
    assert made["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "steelyard"}
    with pytest.raises(TargetError) as caught:
        door.revert(asked, snapshot)
    assert "kubectl delete cluster new -n bench" in caught.value.hint
    world.api.lose(CLUSTER, "new", "bench")
    door.revert(asked, snapshot)


def test_a_storage_class_is_made_and_removed() -> None:
    """It holds no data: volumes that were made of it stay."""
    world = Operator()
    door, asked = world.door(), knob(KnobKind.OBJECT, "kubernetes/storage-class.yaml", LATE_CLASS)
    door.require(asked)
    snapshot = door.snapshot(asked)
    door.apply(asked)
    assert door.verify(asked).holds
    door.revert(asked, snapshot)
    assert world.api.list(STORAGE_CLASS)[0]["metadata"]["name"] == "local-path"
    assert len(world.api.list(STORAGE_CLASS)) == 1


def test_a_rollout_that_goes_on_is_pending() -> None:
    """Asked is not in effect: the operator has to bring it, and waiting for it has an end."""
    world = Operator()
    world.works = False
    door, asked = world.door(), cluster_knob(resources=None)
    door.apply(asked)
    check = door.verify(asked)
    assert check.holds is False
    assert "operator" in check.pending
    assert "work_mem" in " ".join(check.facts)
    world.work_mem = "8192"
    assert door.verify(asked).holds


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda live: live["status"].update(phase="Upgrading cluster"), "Upgrading cluster"),
        (lambda live: live["spec"].update(instances=3), "instances was asked to be 1 and is 3"),
        (
            lambda live: live["spec"]["resources"].update(limits={"cpu": "9"}),
            "spec.resources.limits.cpu",
        ),
    ],
)
def test_what_is_not_in_effect_is_told(change: Callable[[Any], Any], told: str) -> None:
    """By its effect: phase, instances, and each field."""
    world = Operator()
    door, asked = world.door(), cluster_knob()
    door.apply(asked)
    change(world.api.get(CLUSTER, "pg", "bench"))
    check = door.verify(asked)
    assert check.holds is False
    assert told in " ".join(check.facts)


def test_pods_of_before_are_not_in_effect() -> None:
    """The Cluster says it, its pod not yet."""
    world = Operator()
    door, asked = world.door(), cluster_knob()
    door.apply(asked)
    old = world.api.get(POD, "pg-1", "bench")
    old["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "2"}}
    check = door.verify(asked)
    assert (check.holds, "pg-1" in check.facts[0]) == (False, True)
    assert check.pending


def test_a_database_that_cannot_be_asked_leaves_it_open() -> None:
    """The objects are as asked; whether the server reads it nobody saw: that is no yes."""
    world = Operator()
    door, asked = world.door(), cluster_knob()
    door.apply(asked)
    world.sql.reachable = False
    assert door.verify(asked).holds is None


def test_what_somebody_changed_since_is_told() -> None:
    """Neither the plan's value nor the former one; the former one, and other fields, are not."""
    world = Operator()
    door, asked = world.door(), cluster_knob()
    snapshot = door.snapshot(asked)
    door.apply(asked)
    live = world.api.get(CLUSTER, "pg", "bench")
    assert door.altered(asked, snapshot) == ""
    live["spec"]["logLevel"] = "debug"
    assert door.altered(asked, snapshot) == ""
    live["spec"]["postgresql"]["parameters"]["work_mem"] = "1GB"
    assert "work_mem" in door.altered(asked, snapshot)


def test_refusals_come_before_anything_is_touched() -> None:
    """No right, no operator, another class, a class that differs, what the API refuses."""
    world = Operator()
    door = world.door()
    world.api.refuse("patch", CLUSTER)
    with pytest.raises(PrivilegeError):
        door.require(cluster_knob())
    world.api.permit()
    with pytest.raises(PreflightError, match="has its volumes on the default class"):
        door.require(cluster_knob(storage={"size": "4Gi", "storageClass": "fast"}))
    changed = LATE_CLASS.replace("local-path-late", "local-path").replace("Retain", "Delete")
    with pytest.raises(PreflightError, match="a class cannot be changed"):
        door.require(knob(KnobKind.OBJECT, "kubernetes/storage-class.yaml", changed))
    world.api.unknown_fields["Cluster"] = {"enablePDB"}
    with pytest.raises(InputError, match="enablePDB"):
        door.require(cluster_knob())
    world.api.kinds.discard(CLUSTER)
    with pytest.raises(PreflightError, match="no kind Cluster"):
        door.require(cluster_knob("new"))
    assert not [call for call in world.api.calls if call.verb in ("apply", "patch")]


def test_what_is_no_object_is_refused() -> None:
    """A file that somebody has changed does no harm."""
    for text in ("a: [", "3", "{}", "kind: Cluster"):
        with pytest.raises(InputError):
            Operator().door().verify(knob(KnobKind.OBJECT, "kubernetes/cluster.yaml", text))


_VALUES = st.recursive(
    st.sampled_from(["a", "b", "1", "1Gi"]) | st.integers(0, 3) | st.booleans(),
    lambda inner: st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=8,
)
_OBJECTS = st.dictionaries(st.sampled_from("pqr"), _VALUES, max_size=3)


@given(_OBJECTS, _OBJECTS)
def test_a_patch_brings_what_is_asked_and_its_reverse_what_was(
    asked: dict[str, Any], live: dict[str, Any]
) -> None:
    """For any two objects: nothing is left to patch, and the way back ends where it began."""
    patch = patch_for(asked, live)
    brought = _dropped(merged(live, patch))
    assert patch_for(asked, brought) == {}
    assert _dropped(merged(brought, before(patch, live))) == _dropped(live)


def _dropped(value: Any) -> Any:
    """Return an object without the keys that null removes."""
    if not isinstance(value, dict):
        return value
    return {name: _dropped(each) for name, each in value.items() if each is not None}
