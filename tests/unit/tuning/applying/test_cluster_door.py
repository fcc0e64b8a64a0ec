"""The doors to objects of a cluster and to a kubelet, and commands that are to be pasted."""

import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.core.kubernetes import CLUSTER, POD, STORAGE_CLASS
from steelyard.core.kubernetes import NODE as NODE_KIND
from steelyard.core.stack import KnobKind
from steelyard.core.wording import InputError, PreflightError, PrivilegeError, TargetError, quoted
from steelyard.gateways.placed_files import PlacedFiles
from steelyard.places.kubernetes.undoing import before, merged, patch_for
from steelyard.tuning.apply.doors import read_plan
from steelyard.tuning.apply.kernel import FileDoor
from steelyard.tuning.apply.servers import KubeletDoor
from support.database_in_cluster import (
    CONFIGZ,
    KUBELET,
    LATE_CLASS,
    NODE,
    Operator,
    World,
    cluster_knob,
)
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
        (lambda live: live["spec"].update(instances=3), "instances is 3; the plan sets 1"),
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


ASKED = knob(
    KnobKind.KUBELET,
    "kubernetes/kubelet.yaml",
    'apiVersion: "kubelet.config.k8s.io/v1beta1"\nkind: "KubeletConfiguration"\n'
    'cpuManagerPolicy: "static"\nsystemReserved: {memory: "500Mi"}\n',
)


def _door(world: World, *nodes: str) -> KubeletDoor:
    return KubeletDoor(api=world.api, nodes=nodes)


def _says(world: World, **changes: Any) -> None:
    world.api.answers[CONFIGZ] = json.dumps({"kubeletconfig": {**KUBELET, **changes}})


def test_what_the_kubelet_runs_with_is_in_effect() -> None:
    """Of what the plan asks alone; 500Mi and 512000Ki are the same."""
    world = World()
    assert _door(world, NODE).verify(ASKED).holds
    _says(world, systemReserved={"memory": "512000Ki", "cpu": "1"})
    assert _door(world, NODE).verify(ASKED).holds
    assert _door(world, NODE).seen(ASKED).value == "done"


def test_another_configuration_is_a_step_for_the_operator() -> None:
    """With the node, the field, and what to do."""
    world = World()
    _says(world, cpuManagerPolicy="none")
    check = _door(world, NODE).verify(ASKED)
    assert check.holds is False
    assert check.facts == ('node1: cpuManagerPolicy is "none"; the plan sets "static".',)
    assert NODE in check.pending


def test_all_nodes_that_take_the_pod_are_looked_at() -> None:
    """A tainted node takes no pod of it; one that is open has to have it."""
    world = World()
    tainted = {"taints": [{"key": "k", "effect": "NoSchedule"}]}
    world.api.put(NODE_KIND.manifest("control", spec=tainted))
    assert _door(world).verify(ASKED).holds
    world.api.get(NODE_KIND, "control")["spec"] = {}
    assert _door(world).verify(ASKED).holds is None  # its kubelet does not answer


@pytest.mark.parametrize("answer", ["", "{}", "no JSON"])
def test_a_kubelet_that_cannot_be_asked_is_not_visible(answer: str) -> None:
    """That is no yes, and what is to be done is said."""
    world = World()
    world.api.answers[CONFIGZ] = answer
    check = _door(world, NODE).verify(ASKED)
    assert check.holds is None
    assert check.pending
    assert _door(world, NODE).seen(ASKED).value is None


STRANGE = 'a b/it\'s $(touch hit) "so"'


@pytest.mark.parametrize("is_rendered", [False, True])
def test_files_are_written_where_they_belong(tmp_path: Path, *, is_rendered: bool) -> None:
    """By a real shell, below directories whose names have blanks, quotes and a command."""
    place, content = tmp_path / STRANGE / "the file", "it's = 'so'\n"
    rendered = tmp_path / "plan's files" / "ready"
    rendered.parent.mkdir()
    rendered.write_text(content)
    known = {str(place): rendered} if is_rendered else {}
    door = FileDoor(files=PlacedFiles(), rendered=known)
    script = "\n".join(door.commands(knob(KnobKind.FILE, str(place), content)))
    subprocess.run(["/bin/sh", "-euc", script], cwd=tmp_path, check=True)
    assert place.read_text() == content
    found = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {place, rendered}


def test_a_context_and_a_directory_are_one_word_each() -> None:
    """A context may be called as anybody likes; a plan may lie anywhere."""
    world = Operator()
    world.api.context = "my lab; rm -rf /"
    (command,) = world.door().commands(cluster_knob())
    assert shlex.split(command)[2] == world.api.context
    with pytest.raises(InputError) as caught:
        read_plan(Path(STRANGE))
    assert shlex.split(caught.value.hint)[-1] == STRANGE


def test_a_plain_path_is_shown_as_it_is() -> None:
    """Quotes are for those that need them."""
    assert quoted(Path("/var/lib/campaigns/one")) == "/var/lib/campaigns/one"
