"""The nodes of a cluster: which take pods, and whether there is room for more."""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from fractions import Fraction
from typing import Final

from steelyard.core import kubernetes as k8s
from steelyard.core import wording
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.places.kubernetes.pods import SAME_NODE_HINT

_OVER: Final = frozenset({"Succeeded", "Failed"})
_PODS_OF_A_NODE: Final = 110  # of a kubelet, unless it is told another number
_REPELLING: Final = frozenset({"NoSchedule", "NoExecute"})


def require_node_apart(api: KubernetesApi, taken: Collection[str], *, tolerant: bool) -> None:
    """Refuse a cluster in which the load has no node that is not the database's.

    Args:
        api: The cluster.
        taken: Names of the database's nodes; empty: it is not there yet, and gets one.
        tolerant: The load's pod may be on a tainted node.

    Raises:
        PreflightError: With the way out.
    """
    try:
        nodes = [node for node in api.list(k8s.NODE) if takes_pods(node, tolerant=tolerant)]
    except wording.PrivilegeError:  # then the scheduler says it, of whichever pod comes second
        return
    names = [str(node["metadata"]["name"]) for node in nodes]
    if len(set(names) - set(taken)) < (1 if taken else 2):
        there = ", ".join(names) or "none"
        only = "all usable nodes are" if taken else "the cluster has one usable node only"
        raise wording.PreflightError(
            f"the load needs a node that is not the database's, and {only}: {there}",
            hint=SAME_NODE_HINT,
        )


def takes_pods(node: k8s.Manifest, *, tolerant: bool) -> bool:
    """Return whether ordinary pods are put on a node; tolerant ones may be on a tainted one."""
    spec = node.get("spec") or {}
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    tainted = any(each["effect"] in _REPELLING for each in spec.get("taints") or ())
    return ready and not spec.get("unschedulable") and (tolerant or not tainted)


def pods_that_fit(
    api: KubernetesApi, asked: Mapping[str, str], selector: Mapping[str, str], *, tolerant: bool
) -> int | None:
    """Return how many further pods of this size the nodes have room for now.

    Args:
        api: The cluster.
        asked: What one requests, by resource; what it does not, it needs none of.
        selector: Labels of the nodes that it runs on.
        tolerant: It may be on a tainted node.

    Returns:
        None where nobody may look. Of other pods that nobody may see nothing is taken off.
    """
    try:
        nodes = api.list(k8s.NODE, labels=selector)
    except wording.PrivilegeError:
        return None
    taken: dict[str, list[k8s.Manifest]] = {}
    with suppress(wording.PrivilegeError):
        for pod in api.list(k8s.POD):
            taken.setdefault(str(pod["spec"].get("nodeName") or ""), []).append(pod)
    return sum(
        _further(node, taken.get(node["metadata"]["name"], ()), asked)
        for node in nodes
        if takes_pods(node, tolerant=tolerant)
    )


def _further(node: k8s.Manifest, pods: Iterable[k8s.Manifest], asked: Mapping[str, str]) -> int:
    """Return how many more pods fit on a node."""
    has = (node.get("status") or {}).get("allocatable") or {}
    running = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in _OVER]
    numbers = [_PODS_OF_A_NODE - len(running)]
    for resource, each in asked.items():
        used = sum((_requested(pod, resource) for pod in running), Fraction(0))
        numbers.append(
            int(
                (wording.parse_quantity(has.get(resource, "0")) - used)
                / wording.parse_quantity(each)
            )
        )
    return max(min(numbers), 0)


def _requested(pod: k8s.Manifest, resource: str) -> Fraction:
    containers = pod["spec"].get("containers") or ()
    requests = ((each.get("resources") or {}).get("requests") or {} for each in containers)
    return sum((wording.parse_quantity(each.get(resource, "0")) for each in requests), Fraction(0))
