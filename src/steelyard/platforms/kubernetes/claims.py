"""Which storage class a claim gets, and why a claim has no volume."""

from typing import Final

from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.model.errors import PreflightError, PrivilegeError
from steelyard.model.kubernetes import CLAIM, EVENT, STORAGE_CLASS, ObjectRef
from steelyard.platforms.kubernetes.pod_state import Obstacle

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
