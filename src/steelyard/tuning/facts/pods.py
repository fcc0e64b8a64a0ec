"""Facts of pods, storage classes, Clusters and kubelets, from what the API says of them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from steelyard.model.errors import InputError
from steelyard.model.kubernetes import Manifest
from steelyard.model.operator_parameters import REFUSED
from steelyard.model.quantities import parse_quantity
from steelyard.model.stack_facts import ClusterFacts, Kubelet, PodFacts, StorageClassFacts
from steelyard.tuning.facts.kubernetes import parse_kubelet

DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_RESTARTS: Final = "Always"  # of an init container that stays beside the others


def pods_of(pods: Iterable[Manifest], node: str) -> tuple[Manifest, ...]:
    """Return the pods that hold something of a node."""
    return tuple(
        pod
        for pod in pods
        if pod["spec"].get("nodeName") == node
        and (pod.get("status") or {}).get("phase") not in _ENDED
    )


def pod_facts(pod: Manifest, *, database: bool = False) -> PodFacts:
    """Return what the API says of a pod: containers' requests and limits added up.

    A resource that one of the containers has no limit of is not limited.
    """
    metadata = pod["metadata"]
    return PodFacts(
        name=f"{metadata['namespace']}/{metadata['name']}",
        database=database,
        requests=_together(pod, "requests"),
        limits=_together(pod, "limits"),
        qos_class=(pod.get("status") or {}).get("qosClass"),
    )


def _together(pod: Manifest, kind: str) -> dict[str, str]:
    """Return the effective resources of a pod.

    Source: Kubernetes documentation, 'Sidecar Containers', "Resource sharing within containers".
    """
    inits: Sequence[Any] = pod["spec"].get("initContainers") or ()
    staying = [each for each in inits if each.get("restartPolicy") == _RESTARTS]
    passing = [each for each in inits if each.get("restartPolicy") != _RESTARTS]
    lasting = [*pod["spec"]["containers"], *staying]
    texts = [(each.get("resources") or {}).get(kind) or {} for each in lasting]
    names = {name for text in texts for name in text}
    if kind == "limits":
        names = {name for name in names if all(name in text for text in texts)}
    found = {name: _sum([text[name] for text in texts if name in text], name) for name in names}
    for each in passing:
        for name, text in ((each.get("resources") or {}).get(kind) or {}).items():
            if name in found or kind == "requests":
                found[name] = _larger(found.get(name, "0"), str(text))
    return dict(sorted(found.items()))


def _sum(texts: Sequence[str], name: str) -> str:
    if len(texts) == 1:
        return str(texts[0])
    try:
        return _written(sum(map(parse_quantity, texts), Fraction(0)), name)
    except InputError:
        return str(texts[0])  # rules tell of what is no quantity


def _larger(one: str, other: str) -> str:
    try:
        return one if parse_quantity(one) >= parse_quantity(other) else other
    except InputError:
        return one


def _written(amount: Fraction, name: str) -> str:
    if name == "cpu" and amount.denominator != 1:
        return f"{-(-amount.numerator * 1000 // amount.denominator)}m"
    return str(-(-amount.numerator // amount.denominator))


def huge_page_owners(pods: Iterable[Manifest]) -> frozenset[str]:
    """Return which pods may use huge pages, by ``namespace/name``."""
    return frozenset(
        fact.name
        for fact in map(pod_facts, pods)
        if any(name.startswith("hugepages-") for name in fact.limits)
    )


def storage_classes(classes: Iterable[Manifest]) -> tuple[StorageClassFacts, ...]:
    """Return the facts of storage classes."""
    return tuple(
        StorageClassFacts(
            name=str(each["metadata"]["name"]),
            provisioner=str(each.get("provisioner") or ""),
            binding=str(each.get("volumeBindingMode") or "Immediate"),
            parameters=_texts(each.get("parameters")),
        )
        for each in classes
    )


def default_class(classes: Iterable[Manifest]) -> str | None:
    """Return the class of volumes that name none."""
    for each in classes:
        if (each["metadata"].get("annotations") or {}).get(DEFAULT_CLASS) == "true":
            return str(each["metadata"]["name"])
    return None


def cluster_facts(cluster: Manifest, classes: Iterable[Manifest] = ()) -> ClusterFacts:
    """Return the facts of a Cluster that is there.

    What the operator alone may set is its own, whatever stands in the object: it writes its
    defaults there, and refuses anybody else's.
    """
    spec: Mapping[str, Any] = cluster["spec"]
    parameters = (spec.get("postgresql") or {}).get("parameters") or {}
    budget = spec.get("enablePDB")
    return ClusterFacts(
        instances=int(spec.get("instances") or 1),
        disruption_budget=budget is not False,
        anti_affinity=str((spec.get("affinity") or {}).get("podAntiAffinityType") or "preferred"),
        parameters={name: value for name, value in parameters.items() if name not in REFUSED},
        storage_class=(spec.get("storage") or {}).get("storageClass") or default_class(classes),
    )


def kubelet_of(configz: str) -> Kubelet:
    """Return a kubelet's configuration from what it answers at ``/configz``.

    Raises:
        ValueError: It is no such answer.
    """
    answered = json.loads(configz)
    given = answered.get("kubeletconfig") if isinstance(answered, dict) else None
    if not isinstance(given, dict):
        raise ValueError("no kubeletconfig")  # noqa: TRY004 - what the callers of a parser expect
    return parse_kubelet(json.dumps(given))


def _texts(value: Mapping[str, object] | None) -> dict[str, str]:
    return {str(name): str(each) for name, each in (value or {}).items()}
