"""A pod of a moment on one node, from which the node's kernel is read.

It may do nothing: no privilege, no account of the cluster, no directory of the node, any user but
root (Pod Security Standard `restricted`). It sees what the kernel shows to every container, and by
its own CPU set which CPUs containers share that have none of their own.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from steelyard.gateways.clock import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.model.errors import SteelyardError
from steelyard.model.kubernetes import (
    CAMPAIGN,
    MANAGED_BY,
    MANAGER,
    POD,
    PROBE,
    ROLE,
    ContainerRef,
    Manifest,
    ref_of,
)
from steelyard.platforms.kubernetes.waiting import ReadyWait

CONTAINER: Final = "probe"
_LABELS: Final = {MANAGED_BY: MANAGER, ROLE: PROBE}
_LOOK: Final = "inspect-"
_NOBODY: Final = 65534
_LASTS_S: Final = 300  # then the cluster ends it, whatever became of Steelyard; a guess
_ENDED: Final = frozenset({"Succeeded", "Failed"})


def probe_manifest(namespace: str, beside: Manifest) -> dict[str, Any]:
    """Return a probe for the node of another pod, of the image that this pod has there already."""
    spec = beside["spec"]
    name = f"{_LOOK}{secrets.token_hex(4)}"
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": spec["containers"][0]["image"],
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", str(_LASTS_S)],
        # Never Guaranteed: it would not be on the CPUs that others share.
        "resources": {
            "requests": {"cpu": "10m", "memory": "16Mi"},
            "limits": {"cpu": "500m", "memory": "64Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }
    return {
        "apiVersion": POD.api_version,
        "kind": POD.name,
        "metadata": {
            "name": f"steelyard-{name}",
            "namespace": namespace,
            # As of a campaign of its own: `clean --context` finds what a death left.
            "labels": {**_LABELS, CAMPAIGN: name},
        },
        "spec": {
            "nodeName": spec["nodeName"],
            "restartPolicy": "Never",
            "activeDeadlineSeconds": _LASTS_S,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "tolerations": [{"operator": "Exists"}],
            "imagePullSecrets": list(spec.get("imagePullSecrets") or ()),
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": _NOBODY,
                "runAsGroup": _NOBODY,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
        },
    }


@contextmanager
def probe_on(
    api: KubernetesApi, namespace: str, beside: Manifest, clock: Clock
) -> Iterator[ContainerRef]:
    """Yield the container of a probe on the node of a pod; it is gone afterwards.

    Raises:
        SteelyardError: It may not be made there, or does not run.
    """
    _remove_ended(api, namespace)
    manifest = probe_manifest(namespace, beside)
    ref = ref_of(manifest)
    try:
        api.apply(manifest)
        ReadyWait(api, clock, _untold).until_ready((ref,))
        yield ContainerRef(namespace=namespace, pod=ref.name, container=CONTAINER)
    finally:
        with suppress(SteelyardError):  # it ends by itself, and the next one removes it
            api.delete(ref, grace_s=0)


def _remove_ended(api: KubernetesApi, namespace: str) -> None:
    """Remove probes whose Steelyard died before it could."""
    for pod in api.list(POD, namespace, _LABELS):
        campaign = (pod["metadata"].get("labels") or {}).get(CAMPAIGN, _LOOK)
        if (
            campaign.startswith(_LOOK)
            and (pod["metadata"]["name"]).startswith(f"steelyard-{_LOOK}")
            and (pod.get("status") or {}).get("phase") in _ENDED
        ):
            api.delete(ref_of(pod), grace_s=0)


_untold: Callable[[str], None] = lambda _message: None  # noqa: E731
