"""A kubelet's configuration is the operator's to write; what configz says is its check."""

import json
from typing import Any

import pytest

from steelyard.core.kubernetes import NODE as NODE_KIND
from steelyard.core.stack import KnobKind
from steelyard.tuning.apply.servers import KubeletDoor
from support.database_in_cluster import CONFIGZ, KUBELET, NODE, World
from support.stack import knob

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
    assert check.facts == ('node1: cpuManagerPolicy was asked to be "static" and is "none".',)
    assert NODE in check.pending


def test_all_nodes_that_take_the_pod_are_looked_at() -> None:
    """A tainted node takes no pod of it; one that is open has to have it."""
    world = World()
    tainted = {"taints": [{"key": "k", "effect": "NoSchedule"}]}
    world.api.put(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "control"}, "spec": tainted}
    )
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
