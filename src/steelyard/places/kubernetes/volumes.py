"""What a cluster says of storage and resources: classes, volumes, why a claim has no volume.

Facts of classes and volumes are worth knowing and nothing needs them: what an account may not see
is left out. Quantities are those of Kubernetes: ``500m``, ``2``, ``512Mi``, ``1e3``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from steelyard.core.errors import InputError, PreflightError, PrivilegeError
from steelyard.core.kubernetes import (
    CLAIM,
    EVENT,
    STORAGE_CLASS,
    VOLUME,
    Kind,
    Manifest,
    ObjectRef,
    class_facts,
)
from steelyard.core.measurement import Fact
from steelyard.core.stack_facts import StorageClassFacts
from steelyard.core.target import PodResources
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.places.kubernetes.pod_state import Obstacle

_IS_DEFAULT: Final = "storageclass.kubernetes.io/is-default-class"


def require_class(api: KubernetesApi, name: str | None) -> str | None:
    """Return the name of a storage class that is there; for None that of the cluster's default.

    Who may not see classes gets back what was asked for.

    Raises:
        PreflightError: There is none of that name, or no default.
    """
    try:
        found = {str(each["metadata"]["name"]): each for each in api.list(STORAGE_CLASS)}
    except PrivilegeError:
        return name
    there = f"the cluster has {', '.join(sorted(found)) or 'none'}"
    if name is None:
        for each, manifest in found.items():
            if (manifest["metadata"].get("annotations") or {}).get(_IS_DEFAULT) == "true":
                return each
        raise PreflightError(
            f"the cluster has no default storage class; {there}",
            hint="Name one with `storage_class:`.",
        )
    if name not in found:
        raise PreflightError(
            f"there is no storage class {name}; {there}",
            hint="Name one of them with `storage_class:`, or make it first: `steelyard kubernetes"
            " storage-classes` prints those that presets name.",
        )
    return name


def claim_obstacle(api: KubernetesApi, claim: ObjectRef) -> Obstacle | None:
    """Return why a claim has no volume; None where it has one, or nothing is said of it."""
    found = api.read(claim)
    if found is None or (found.get("status") or {}).get("phase") == "Bound":
        return None
    said = _warnings(api, claim)
    if not said:
        return None
    return Obstacle(
        message=f"{claim.label} gets no volume: {said[-1]}",
        hint="Look at the storage class and its provisioner.",
        passes=True,
    )


def _warnings(api: KubernetesApi, claim: ObjectRef) -> list[str]:
    """Return what the cluster's events warn of, oldest first; nothing where nobody may see."""
    try:
        events = api.list(EVENT, claim.namespace)
    except PrivilegeError:
        return []
    about = (CLAIM.name, claim.name)
    warnings = [
        event
        for event in events
        if event.get("type") == "Warning"
        and (event["involvedObject"].get("kind"), event["involvedObject"].get("name")) == about
    ]
    warnings.sort(key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))
    return [f"{event.get('reason', '')}: {event.get('message', '')}" for event in warnings]


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


_SUFFIXES: Final = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", start=1)},
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", start=1)},
}
_FORM: Final = re.compile(
    r"(?P<number>[+-]?\d{1,30}(?:\.\d{0,30})?(?:[eE][+-]?\d{1,2})?)(?P<suffix>[A-Za-z]{0,2})"
)


def quantity(text: str) -> Decimal:
    """Return a quantity in its base unit: CPUs, bytes, or pieces.

    Raises:
        InputError: It is none.

    Source: Kubernetes API reference, "Quantity".
    """
    match = _FORM.fullmatch(text.strip())
    if match is None or match["suffix"] not in _SUFFIXES:
        raise InputError(
            f"{text!r} is no quantity of Kubernetes",
            hint="Write it as `500m`, `2`, `512Mi` or `4Gi`.",
        )
    return Decimal(match["number"]) * _SUFFIXES[match["suffix"]]


_HUGE: Final = "hugepages-"


def resources_of(resources: PodResources) -> dict[str, dict[str, str]]:
    """Return requests and limits; where only one is given, the other is the same.

    Huge pages cannot be overcommitted: what one of the two says of them, the other says, too.
    Source: Kubernetes, 'Manage HugePages'.
    """
    requests, limits = dict(resources.requests), dict(resources.limits)
    if not requests and not limits:
        return {}
    pages = {k: v for k, v in {**requests, **limits}.items() if k.startswith(_HUGE)}
    return {
        "requests": {**(requests or limits), **pages},
        "limits": {**(limits or requests), **pages},
    }
