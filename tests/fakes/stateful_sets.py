"""A controller of StatefulSets that does not exist, and the Redis servers in its pods: in memory.

It works while somebody sleeps on its clock, one step at a time: a claim with its volume, then the
pod of the set as it is written now; a pod is replaced when somebody deletes it (`OnDelete`).
"""

import base64
import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from fakes.clock import FakeClock
from fakes.kubernetes_api import FakeKubernetesApi, run_pods
from steelyard.core.kubernetes import CLAIM, EVENT, POD, SECRET, STATEFUL_SET, VOLUME, Manifest
from steelyard.core.outside import ServerAddress
from steelyard.core.wording import TargetError
from steelyard.gateways.redis import RedisDoor, Reply

FATAL: Final = (
    "\n*** FATAL CONFIG FILE ERROR (Redis 7.0.15) ***\n"
    "Reading the configuration file, at line 7\n>>> '{line}'\nargument must be a memory value\n"
)


class ControllersClock(FakeClock):
    """Lets the controller work while somebody sleeps."""

    controller: "FakeSets | None" = None

    def sleep(self, seconds: float) -> None:
        """Let time pass, and a step of the controller."""
        super().sleep(seconds)
        if self.controller is not None:
            self.controller.step()


@dataclass(kw_only=True)
class FakeSets(RedisDoor):
    """The controller, and a door to the servers that it runs.

    Attributes:
        refused: Lines of a configuration that no server starts with.
        stuck: It makes no pods any more, and warns of this.
        stale: So many times a pod is made as the set was before.
        policy: What becomes of volumes: ``Delete`` or ``Retain``.
        run_ids: Of the server in each pod that runs, by the pod's uid.
    """

    api: FakeKubernetesApi
    clock: ControllersClock
    refused: set[str] = field(default_factory=set)
    stuck: str = ""
    stale: int = 0
    policy: str = "Delete"
    run_ids: dict[str, str] = field(default_factory=dict)
    starts: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock.controller = self
        self._numbers = count(1)
        self._templates: dict[str, Any] = {}
        self._run = run_pods()

    # The controller

    def step(self) -> None:
        """Do the next thing for every set, and let volumes go that nobody claims."""
        for each in self.api.objects.all_of(STATEFUL_SET, "", {}):
            metadata = each["metadata"]
            self._step(self.api.get(STATEFUL_SET, metadata["name"], metadata["namespace"]))
        claimed = {c["spec"].get("volumeName") for c in self.api.objects.all_of(CLAIM, "", {})}
        for volume in self.api.objects.all_of(VOLUME, "", {}):
            name = volume["metadata"]["name"]
            if name not in claimed and self.policy == "Delete":
                self.api.lose(VOLUME, name)

    def _step(self, each: dict[str, Any]) -> None:
        metadata = each["metadata"]
        each.setdefault("status", {})["observedGeneration"] = metadata["generation"]
        name, namespace = f"{metadata['name']}-0", metadata["namespace"]
        if any(p["metadata"]["name"] == name for p in self.api.list(POD, namespace)):
            return
        if self.stuck:
            self._warn(each)
            return
        self._make_claim(each, name)
        template = copy.deepcopy(each["spec"]["template"])
        if self.stale and metadata["name"] in self._templates:
            self.stale -= 1
            template = self._templates[metadata["name"]]
        self._templates[metadata["name"]] = copy.deepcopy(template)
        self._make_pod(each, name, template)

    def _warn(self, each: Manifest) -> None:
        about = {"kind": "StatefulSet", "name": each["metadata"]["name"]}
        self.api.put(
            EVENT.manifest(
                "failed",
                namespace=each["metadata"]["namespace"],
                type="Warning",
                reason="FailedCreate",
                message=self.stuck,
                involvedObject=about,
            )
        )

    def _make_claim(self, each: Manifest, pod: str) -> None:
        namespace = each["metadata"]["namespace"]
        (template,) = each["spec"]["volumeClaimTemplates"]
        name = f"{template['metadata']['name']}-{pod}"
        if any(c["metadata"]["name"] == name for c in self.api.list(CLAIM, namespace)):
            return
        volume = f"pvc-{next(self._numbers)}"
        spec = {"persistentVolumeReclaimPolicy": self.policy, "capacity": {"storage": "1Gi"}}
        made = VOLUME.manifest(volume)
        self.api.put({**made, "spec": {**spec, "storageClassName": "fast"}})
        metadata = {
            "name": name,
            "namespace": namespace,
            "labels": template["metadata"]["labels"],
            "ownerReferences": [{"uid": each["metadata"]["uid"]}],
        }
        self.api.put(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": metadata,
                "spec": {**template["spec"], "volumeName": volume},
                "status": {"phase": "Bound"},
            }
        )

    def _make_pod(self, each: Manifest, name: str, template: dict[str, Any]) -> None:
        metadata = {
            **template["metadata"],
            "name": name,
            "namespace": each["metadata"]["namespace"],
            "ownerReferences": [{"uid": each["metadata"]["uid"]}],
        }
        pod = self.api.put(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        )
        self._run(pod)
        environment = {
            each["name"]: each.get("value", "") for each in pod["spec"]["containers"][0]["env"]
        }
        self.starts.append(environment)
        lines = set(environment["STEELYARD_SETTINGS"].splitlines())
        if bad := lines & self.refused:
            self._end(pod, FATAL.format(line=bad.pop()))
            return
        self.run_ids[pod["metadata"]["uid"]] = f"run-{next(self._numbers)}"

    def _end(self, pod: dict[str, Any], said: str) -> None:
        pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
        ended = {"exitCode": 1, "reason": "Error"}
        pod["status"]["containerStatuses"][0]["state"] = {"terminated": ended}
        self.api.container_logs[pod["metadata"]["name"]] = said

    def crash(self) -> None:
        """Let every server end and come up again in its pod."""
        self.run_ids = {uid: f"run-{next(self._numbers)}" for uid in self.run_ids}

    # The door

    def connect(self, address: ServerAddress, *, timeout_s: float = 30.0) -> "_Session":
        """Return a session with the server in the only pod, for whoever has its password."""
        del timeout_s
        pods = [p for p in self.api.objects.all_of(POD, "", {}) if self._runs(p)]
        if not pods:
            raise TargetError("nobody answers there")
        namespace = pods[0]["metadata"]["namespace"]
        kept = self.api.objects.all_of(SECRET, namespace, {})[0]["data"]
        wanted = tuple(base64.b64decode(kept[key]).decode() for key in ("username", "password"))
        if (address.user, address.password) != wanted:
            raise TargetError("it refuses user and password")
        return _Session(self.run_ids[pods[0]["metadata"]["uid"]])

    def _runs(self, pod: Manifest) -> bool:
        return pod["metadata"]["uid"] in self.run_ids


@dataclass
class _Session:
    """A session that knows which start of the server it is with."""

    run_id: str

    def command(self, *words: str | bytes | int) -> Reply:
        """Refuse: what these tests do needs none."""
        raise TargetError(f"not known: {words}")

    def pipeline(self, commands: Sequence[Sequence[str | bytes | int]]) -> list[Reply]:
        """Refuse likewise."""
        raise TargetError(f"not known: {commands}")

    def info(self, *sections: str) -> Mapping[str, str]:
        """Return which start it is."""
        assert sections == ("server",)
        return {"run_id": self.run_id}

    def close(self) -> None:
        """End it."""
