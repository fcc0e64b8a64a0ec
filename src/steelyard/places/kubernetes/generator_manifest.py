"""Manifests of load generators, pods of a stock image that wait for orders; and a pod of a moment.

Both pass the Pod Security Standard `restricted`.
Source: kubernetes.io/docs/concepts/security/pod-security-standards.

In the pod of a moment an image's programs are asked what they are.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from steelyard.core.command import Command, Completed
from steelyard.core.errors import TargetError
from steelyard.core.kubernetes import (
    CAMPAIGN,
    CONFIG_MAP,
    GENERATOR,
    POD,
    PROBE,
    ROLE,
    ContainerRef,
    Manifest,
    SecretRef,
    campaign_value,
    ref_of,
)
from steelyard.core.target import GeneratorPods, KubernetesPlace, PodResources
from steelyard.gateways.clock import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.gateways.process import RunningProcess
from steelyard.places.kubernetes.agent import LOGS, SCRIPT, WORK
from steelyard.places.kubernetes.belongings import Belongings
from steelyard.places.kubernetes.pod_state import ReadyWait
from steelyard.places.kubernetes.volumes import quantity

CONTAINER: Final = "generator"
ANY_USER: Final = 26  # CloudNativePG's; any will do where the image names no numeric one
_HOSTNAME: Final = "kubernetes.io/hostname"
_DEFAULTS: Final = {"cpu": "1", "memory": "512Mi"}
_LOGS_SHARE: Final = 2  # of the memory limit, in which logs in memory count; a guess
_GRACE_S: Final = 5
LIBPQ: Final = ("PGUSER", "PGPASSWORD")
NO_CREDENTIALS: Final = ("", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorPlan:
    """What pods are asked for.

    Attributes:
        place: Resources, node selector, tolerations, and whether they may share the database's
            node.
        image: With bash and the generator.
        number: Of pods: the most generators that any load of the experiment has.
        secret: The pods get the user's variables from it; in the campaign's namespace.
        variables: By which the generator's programs learn user and password; an empty one: they
            are not told.
        away_from: Labels of the database's pods, whose nodes are avoided now and later.
        away_from_nodes: Names of nodes to avoid: those of a server that is there already.
        database_namespaces: Where pods with these labels are, if not beside the generators.
        deadline_s: After so long the cluster ends the pods by itself.
    """

    place: KubernetesPlace
    image: str
    number: int
    secret: SecretRef
    variables: tuple[str, str] = LIBPQ
    away_from: Mapping[str, str] = field(default_factory=dict)
    away_from_nodes: tuple[str, ...] = ()
    database_namespaces: tuple[str, ...] = ()
    deadline_s: int

    @property
    def is_apart(self) -> bool:
        """Return whether the pods keep away from the database's node."""
        avoids = bool(self.away_from or self.away_from_nodes)
        return avoids and not self.place.generators.same_node


def agent_manifest(name: str) -> Manifest:
    """Return the ConfigMap that holds the agent's script."""
    script = files("steelyard.places.kubernetes").joinpath("agent.sh").read_text()
    return {
        "apiVersion": CONFIG_MAP.api_version,
        "kind": CONFIG_MAP.name,
        "metadata": {"name": name},
        "data": {SCRIPT.rpartition("/")[2]: script},
    }


def generator_manifest(
    plan: GeneratorPlan, *, name: str, agent: str, campaign_id: str, user: int | None = None
) -> Manifest:
    """Return a generator's pod.

    Args:
        plan: What it is.
        name: Of the pod.
        agent: Name of the ConfigMap with the agent's script.
        campaign_id: Whose other generators it keeps away from where it can.
        user: Numeric; None: the image's own.
    """
    asked = plan.place.generators
    return {
        "apiVersion": POD.api_version,
        "kind": POD.name,
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": max(plan.deadline_s, 1),
            "terminationGracePeriodSeconds": _GRACE_S,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": _pod_security(user),
            "affinity": _affinity(plan, campaign_id),
            **_placing(asked),
            "containers": [_container(plan)],
            "volumes": [
                {"name": "agent", "configMap": {"name": agent, "defaultMode": 0o555}},
                {"name": "work", "emptyDir": {"sizeLimit": "1Gi"}},
                {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}},
                {
                    "name": "logs",
                    "emptyDir": {"medium": "Memory", "sizeLimit": str(log_bytes(asked))},
                },
            ],
        },
    }


def log_bytes(asked: GeneratorPods) -> int:
    """Return how much room a generator has for logs, which lie in its memory."""
    return int(quantity(dict(_resources(asked.resources)["limits"])["memory"])) // _LOGS_SHARE


def _container(plan: GeneratorPlan) -> dict[str, Any]:
    return {
        "name": CONTAINER,
        "image": plan.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["bash", SCRIPT, "serve"],
        "env": [
            *_credentials(plan),
            {"name": "HOME", "value": WORK},
            {"name": "LC_ALL", "value": "C"},
        ],
        "resources": _resources(plan.place.generators.resources),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [
            {"name": "agent", "mountPath": SCRIPT.rpartition("/")[0], "readOnly": True},
            {"name": "work", "mountPath": WORK},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the pod's own
            {"name": "logs", "mountPath": LOGS},
        ],
    }


def _credentials(plan: GeneratorPlan) -> list[dict[str, Any]]:
    keys = zip(plan.variables, (plan.secret.user_key, plan.secret.password_key), strict=True)
    return [
        {
            "name": variable,
            "valueFrom": {"secretKeyRef": {"name": plan.secret.name, "key": key}},
        }
        for variable, key in keys
        if variable
    ]


def _pod_security(user: int | None) -> dict[str, Any]:
    own = {} if user is None else {"runAsUser": user, "runAsGroup": user}
    return {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}, **own}


def _resources(asked: PodResources) -> dict[str, dict[str, str]]:
    """Return requests and limits: where one is not given, it is the other; else the default."""
    requests = {**_DEFAULTS, **dict(asked.limits), **dict(asked.requests)}
    limits = {**_DEFAULTS, **dict(asked.requests), **dict(asked.limits)}
    return {"requests": requests, "limits": limits}


def _placing(asked: GeneratorPods) -> dict[str, Any]:
    tolerations = json.loads(asked.tolerations)
    return {
        **({"nodeSelector": dict(asked.node_selector)} if asked.node_selector else {}),
        **({"tolerations": tolerations} if tolerations else {}),
    }


def _affinity(plan: GeneratorPlan, campaign_id: str) -> dict[str, Any]:
    """Return the rules of placement: away from the database, and from each other if possible."""
    others = {CAMPAIGN: campaign_value(campaign_id), ROLE: GENERATOR}
    spread = {"weight": 100, "podAffinityTerm": _term(others)}
    pods: dict[str, Any] = {"preferredDuringSchedulingIgnoredDuringExecution": [spread]}
    found: dict[str, Any] = {"podAntiAffinity": pods}
    if plan.is_apart and plan.away_from:
        database = _term(plan.away_from, plan.database_namespaces)
        pods["requiredDuringSchedulingIgnoredDuringExecution"] = [database]
    if plan.is_apart and plan.away_from_nodes:
        # By name, of which each requirement takes one.
        avoided = [
            {"key": "metadata.name", "operator": "NotIn", "values": [node]}
            for node in dict.fromkeys(plan.away_from_nodes)
        ]
        found["nodeAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchFields": avoided}]
            }
        }
    return found


def _term(labels: Mapping[str, str], namespaces: Sequence[str] = ()) -> dict[str, Any]:
    where = {"namespaces": list(namespaces)} if namespaces else {}
    selector = {"matchLabels": dict(labels)}
    return {"topologyKey": _HOSTNAME, "labelSelector": selector, **where}


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
