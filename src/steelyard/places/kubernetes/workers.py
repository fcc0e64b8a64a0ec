"""Pods that have the load generators of a campaign: a Deployment with the Job that runs it.

They are made like the Job's own pod: of its image, with its programs, on nodes of its kind. What is
made goes with the Job, and is removed when the workers end.
"""

import base64
import os
from collections.abc import Mapping
from typing import Any, Final

from steelyard.core import kubernetes as k8s
from steelyard.core.outside import InCluster
from steelyard.core.wording import PrivilegeError, TargetError, UnconfiguredError
from steelyard.gateways.host import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.gateways.kubernetes.connecting import KubectlConfiguration
from steelyard.gateways.workers import pod_command
from steelyard.places.kubernetes import undoing
from steelyard.places.kubernetes.belongings import object_name
from steelyard.places.kubernetes.manifests import render_manifest
from steelyard.places.kubernetes.pods import obstacle
from steelyard.places.protocol import Ledger

_ROLE: Final = "worker"
_CERTIFICATE_AT: Final = "/certificate"
_PROGRAMS: Final = "programs"  # the volume, and what fills it
_RUNNING: Final = f'export PATH="/{_PROGRAMS}/bin:$PATH"\nexec "$@"\n'


class PodsOfWorkers:
    """The Deployment of a campaign's workers, and the Secret with their certificate.

    Args:
        pod: The Job's own, as the API has it.
    """

    def __init__(
        self,
        api: KubernetesApi,
        pod: k8s.Manifest,
        ledger: Ledger,
        campaign_id: str,
        clock: Clock,
    ) -> None:
        self._api, self._pod, self._ledger = api, pod, ledger
        self._campaign_id, self._clock = campaign_id, clock
        self._made: list[InCluster] = []
        self._times = 0

    @property
    def address(self) -> str:
        """Return where the Job's pod is reached."""
        return str(self._pod["status"]["podIP"])

    def begin(self, number: int, files: Mapping[str, str]) -> None:
        """Make so many pods, which find these files as their certificate and scheduler.

        Raises:
            SteelyardError: The cluster refuses one of the objects.
        """
        self._times += 1
        # One that was removed may be on its way out, so each has another name.
        name = object_name(self._campaign_id, f"workers-{self._times}")
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in files.items()}
        secret = k8s.SECRET.manifest(
            name, namespace=self._namespace, labels=self._labels, data=encoded
        )
        secret["metadata"]["ownerReferences"] = self._owners
        self._make(secret)
        self._make(self._deployment(name, number))

    def trouble(self) -> str:
        """Return why a pod does not run; empty if the cluster does not say."""
        pods = self._api.list(k8s.POD, self._namespace, self._labels)
        found = [(pod["metadata"]["name"], obstacle(pod)) for pod in pods]
        return next((f"pod {name}: {why.message}" for name, why in found if why is not None), "")

    def end(self) -> None:
        """Remove what was made.

        Raises:
            LeftBehindError: Something is still there.
        """
        while self._made:
            undoing.undo(self._made[-1], self._api, clock=self._clock, grace_s=0)
            self._ledger.removed(self._made.pop())

    @property
    def _namespace(self) -> str:
        return str(self._pod["metadata"]["namespace"])

    @property
    def _labels(self) -> dict[str, str]:
        return k8s.campaign_labels(self._campaign_id, _ROLE)

    @property
    def _owners(self) -> Any:  # noqa: ANN401 - as the API has it
        """Return the owner of the pod: the Job."""
        return self._pod["metadata"].get("ownerReferences")

    def _make(self, manifest: k8s.Manifest) -> None:
        thing = InCluster(
            context="",
            server=self._api.server,
            ref=k8s.ref_of(manifest),
            campaign_id=k8s.campaign_value(self._campaign_id),
            before="",
            cluster=undoing.identity(self._api, self._namespace),
        )
        self._ledger.created(thing)
        self._made.append(thing)
        self._api.apply(manifest)

    def _deployment(self, name: str, number: int) -> k8s.Manifest:
        spec = self._pod["spec"]
        (own,) = spec["containers"]
        return render_manifest(
            __package__,
            "workers",
            name=name,
            namespace=self._namespace,
            labels=self._labels,
            owners=self._owners,
            number=number,
            node_selector=spec.get("nodeSelector"),
            tolerations=spec.get("tolerations"),
            affinity=spec.get("affinity"),
            security=spec["securityContext"],
            programs=[_without_account(each) for each in spec.get("initContainers") or ()] or None,
            image=own["image"],
            running=("sh", "-c", _RUNNING, "sh", *pod_command(_CERTIFICATE_AT)),
            container_security=own["securityContext"],
            resources=own["resources"],
            certificate_at=_CERTIFICATE_AT,
        )


def _without_account(container: Mapping[str, Any]) -> dict[str, Any]:
    """Return a container without what the cluster added to it for its account."""
    mounts = [each for each in container["volumeMounts"] if each["name"] == _PROGRAMS]
    return {**container, "volumeMounts": mounts}


def pods_beside_job(
    configuration: KubectlConfiguration, ledger: Ledger, campaign_id: str, clock: Clock
) -> PodsOfWorkers | None:
    """Return the pods of workers of a campaign that a Job runs; None if this pod is another."""
    try:
        api = configuration.connect()
        if not api.is_inside:
            return None
        name = os.environ.get("HOSTNAME", "")
        pod = api.read(k8s.ObjectRef(kind=k8s.POD, name=name, namespace=api.namespace))
    except (PrivilegeError, TargetError, UnconfiguredError):
        return None
    labels = (pod or {}).get("metadata", {}).get("labels") or {}
    ours = k8s.campaign_labels(campaign_id, k8s.RUNNER)
    if pod is None or not ours.items() <= labels.items():
        return None
    return PodsOfWorkers(api, pod, ledger, campaign_id, clock)
