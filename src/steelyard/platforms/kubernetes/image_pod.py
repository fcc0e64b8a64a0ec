"""A pod of an image, for a moment: its programs are asked what they are."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from steelyard.gateways.clock import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.gateways.process import RunningProcess
from steelyard.model.command import Command, Completed
from steelyard.model.errors import TargetError
from steelyard.model.kubernetes import POD, PROBE, ContainerRef, Manifest, ref_of
from steelyard.platforms.kubernetes.belongings import Belongings
from steelyard.platforms.kubernetes.generator_manifest import ANY_USER
from steelyard.platforms.kubernetes.waiting import ReadyWait

_CONTAINER: Final = "image"
_LASTS_S: Final = 600
_RESOURCES: Final = {"cpu": "100m", "memory": "128Mi"}


class ExecProcesses:
    """Runs short programs in a container; they die with the connection."""

    def __init__(self, api: KubernetesApi, where: ContainerRef) -> None:
        self._api = api
        self._where = where

    def run(self, command: Command, *, timeout_s: float, stdin: str = "") -> Completed:
        """Run a command to its end and return what it printed."""
        variables = [f"{name}={value}" for name, value in command.environment.items()]
        argv = ("env", *variables, *command.argv) if variables else command.argv
        return self._api.run(self._where, argv, timeout_s=timeout_s, stdin=stdin)

    def run_together(
        self, commands: Sequence[Command], *, timeout_s: float
    ) -> tuple[Completed, ...]:
        """Run commands one after the other: what is asked here takes no time."""
        return tuple(self.run(command, timeout_s=timeout_s) for command in commands)

    def start(self, command: Command, *, output: Path) -> RunningProcess:  # noqa: ARG002
        """Refuse.

        Raises:
            TargetError: Always.
        """
        raise TargetError(f"{command.argv[0]} cannot be started in a pod to go on by itself")

    def within(self, directory: Path) -> tuple[int, ...]:  # noqa: ARG002
        """Return nothing: no process of a pod works in a directory of this machine."""
        return ()

    def signal(self, pid: int, number: int) -> None:
        """Do nothing: no process id of a pod is known here."""


@contextmanager
def image_pod(
    belongings: Belongings, image: str, clock: Clock, told: Callable[[str], None]
) -> Iterator[ExecProcesses]:
    """Yield what runs programs of an image; its pod is removed at the end.

    Raises:
        PreflightError: The image is not found, or the pod cannot run.
    """
    manifest = image_manifest(image, name=belongings.name("image"))
    told(f"asking the image {image} what it is")
    ref = ref_of(belongings.completed(manifest))
    try:
        belongings.make(manifest, role=PROBE)
        (pod,) = ReadyWait(belongings.api, clock, told).until_ready([ref])
        metadata = pod["metadata"]
        where = ContainerRef(
            namespace=metadata["namespace"], pod=metadata["name"], container=_CONTAINER
        )
        yield ExecProcesses(belongings.api, where)
    finally:
        belongings.remove(ref, grace_s=0)


def image_manifest(image: str, *, name: str) -> Manifest:
    """Return a pod of an image that waits, on any node."""
    security = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container: dict[str, Any] = {
        "name": _CONTAINER,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "infinity"],
        "env": [{"name": "LC_ALL", "value": "C"}],
        "resources": {"requests": dict(_RESOURCES), "limits": dict(_RESOURCES)},
        "securityContext": security,
    }
    return {
        "apiVersion": POD.api_version,
        "kind": POD.name,
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": _LASTS_S,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": ANY_USER,
                "runAsGroup": ANY_USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
        },
    }
