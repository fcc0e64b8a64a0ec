"""What a cluster says of the storage below its pods: the classes, and the volumes made of them.

All of it is worth knowing and nothing needs it: what an account may not see is left out.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.model.environment import Fact
from steelyard.model.errors import PrivilegeError
from steelyard.model.kubernetes import CLAIM, STORAGE_CLASS, VOLUME, Kind, Manifest, ObjectRef
from steelyard.model.stack_facts import StorageClassFacts
from steelyard.model.storage_classes import class_facts

_IS_DEFAULT: Final = "storageclass.kubernetes.io/is-default-class"
_PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
_HOST: Final = "kubernetes.io/hostname"


def storage_class_facts(api: KubernetesApi, names: Iterable[str | None]) -> tuple[Fact, ...]:
    """Return the classes of these names, and for None the cluster's default, as facts."""
    asked = set(names)
    found = [
        each
        for each in _listed(api, STORAGE_CLASS)
        if each["metadata"]["name"] in asked or (None in asked and _is_default(each))
    ]
    return tuple(
        fact for each in found for fact in class_facts(_class(each), is_default=_is_default(each))
    )


def _class(each: Manifest) -> StorageClassFacts:
    return StorageClassFacts(
        name=str(each["metadata"]["name"]),
        provisioner=str(each["provisioner"]),
        binding=str(each.get("volumeBindingMode") or "Immediate"),
        parameters={str(k): str(v) for k, v in (each.get("parameters") or {}).items()},
    )


def _is_default(each: Manifest) -> bool:
    return _annotations(each).get(_IS_DEFAULT) == "true"


def volume_facts(api: KubernetesApi, namespace: str, labels: Mapping[str, str]) -> tuple[Fact, ...]:
    """Return driver, class, size, node and replicas of the volumes behind these claims."""
    claims = sorted(
        _listed(api, CLAIM, namespace, labels), key=lambda each: str(each["metadata"]["name"])
    )
    return tuple(fact for claim in claims for fact in _facts_behind(api, claim))


def _facts_behind(api: KubernetesApi, claim: Manifest) -> Iterator[Fact]:
    bound = str(claim["spec"].get("volumeName") or "")
    volume = _read(api, ObjectRef(kind=VOLUME, name=bound)) if bound else None
    if volume is None:
        return
    told = {
        "driver": _driver(volume),
        "class": str(volume["spec"].get("storageClassName") or ""),
        "size": str((volume["spec"].get("capacity") or {}).get("storage") or ""),
        "node": ", ".join(_nodes(volume)),
        "replicas": _attributes(volume).get("numberOfReplicas", ""),
    }
    subject = f"volume of {claim['metadata']['name']}"
    yield from (Fact(name=n, value=v, subject=subject) for n, v in told.items() if v)


def _driver(volume: Manifest) -> str:
    """Return who made it: the driver it is reached by, else who provisioned it."""
    csi = volume["spec"].get("csi") or {}
    return str(csi.get("driver") or _annotations(volume).get(_PROVISIONED_BY) or "")


def _attributes(volume: Manifest) -> Mapping[str, str]:
    attributes: Mapping[str, str] = (volume["spec"].get("csi") or {}).get("volumeAttributes") or {}
    return attributes


def _nodes(volume: Manifest) -> Iterator[str]:
    """Yield the nodes it can be used on, where it is bound to some by name."""
    required = (volume["spec"].get("nodeAffinity") or {}).get("required") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for expression in term.get("matchExpressions") or ():
            if expression.get("key") == _HOST and expression.get("operator") == "In":
                yield from map(str, expression.get("values") or ())


def _annotations(each: Manifest) -> Mapping[str, Any]:
    annotations: Mapping[str, Any] = each["metadata"].get("annotations") or {}
    return annotations


def _listed(
    api: KubernetesApi,
    kind: Kind,
    namespace: str = "",
    labels: Mapping[str, str] | None = None,
) -> tuple[Manifest, ...]:
    try:
        return api.list(kind, namespace, labels)
    except PrivilegeError:
        return ()


def _read(api: KubernetesApi, ref: ObjectRef) -> Manifest | None:
    try:
        return api.read(ref)
    except PrivilegeError:
        return None
