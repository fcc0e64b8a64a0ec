"""The pods that load generators run in: made, found ready, made anew when they are lost."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Final

from steelyard.core import kubernetes as k8s
from steelyard.core import wording
from steelyard.core.outside import Completed
from steelyard.core.target import KubernetesPlace, PodResources
from steelyard.gateways.host import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.gateways.process import Dialogue
from steelyard.places.agent.agent import AgentHome, agent_script
from steelyard.places.kubernetes.belongings import Belongings
from steelyard.places.kubernetes.pods import (
    ANY_USER,
    DELETED,
    SAME_NODE_HINT,
    ReadyWait,
    UserNeededError,
    loss,
    mortal_pod,
    placing,
    restricted_container,
)

CONTAINER: Final = "generator"
SCRIPT: Final = "/steelyard/agent/agent.sh"
WORK: Final = "/steelyard/work"
LOGS: Final = "/steelyard/logs"
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
        deadline_s: After so long the cluster ends the pods by itself.
    """

    place: KubernetesPlace
    image: str
    number: int
    secret: k8s.SecretRef
    variables: tuple[str, str] = LIBPQ
    away_from: Mapping[str, str] = field(default_factory=dict)
    away_from_nodes: tuple[str, ...] = ()
    deadline_s: int

    @property
    def is_apart(self) -> bool:
        """Return whether the pods keep away from the database's node."""
        avoids = bool(self.away_from or self.away_from_nodes)
        return avoids and not self.place.generators.same_node


def agent_manifest(name: str) -> k8s.Manifest:
    """Return the ConfigMap that holds the agent's script."""
    return k8s.CONFIG_MAP.manifest(name, data={SCRIPT.rpartition("/")[2]: agent_script()})


def generator_manifest(
    plan: GeneratorPlan, *, name: str, agent: str, campaign_id: str, user: int | None = None
) -> k8s.Manifest:
    """Return a generator's pod.

    Args:
        plan: What it is.
        name: Of the pod.
        agent: Name of the ConfigMap with the agent's script.
        campaign_id: Whose other generators it keeps away from where it can.
        user: Numeric; None: the image's own.
    """
    asked = plan.place.generators
    logs = {"medium": "Memory", "sizeLimit": str(log_bytes(asked.resources))}
    spec = mortal_pod(
        _container(plan),
        user=user,
        lasts_s=max(plan.deadline_s, 1),
        grace_s=_GRACE_S,
        affinity=_affinity(plan, campaign_id),
        **placing(asked.node_selector, asked.tolerations),
        volumes=[
            {"name": "agent", "configMap": {"name": agent, "defaultMode": 0o555}},
            {"name": "work", "emptyDir": {"sizeLimit": "1Gi"}},
            {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}},
            {"name": "logs", "emptyDir": logs},
        ],
    )
    return k8s.POD.manifest(name, spec=spec)


def log_bytes(asked: PodResources) -> int:
    """Return how much room a generator has for logs, which lie in its memory."""
    return wording.parse_quantity_bytes(_resources(asked)["limits"]["memory"]) // _LOGS_SHARE


def _container(plan: GeneratorPlan) -> dict[str, Any]:
    return restricted_container(
        CONTAINER,
        plan.image,
        command=["bash", SCRIPT, "serve"],
        env=[
            *_credentials(plan),
            {"name": "HOME", "value": WORK},
            {"name": "LC_ALL", "value": "C"},
        ],
        resources=_resources(plan.place.generators.resources),
        volumeMounts=[
            {"name": "agent", "mountPath": SCRIPT.rpartition("/")[0], "readOnly": True},
            {"name": "work", "mountPath": WORK},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the pod's own
            {"name": "logs", "mountPath": LOGS},
        ],
    )


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


def _resources(asked: PodResources) -> dict[str, dict[str, str]]:
    """Return requests and limits: where one is not given, it is the other; else the default."""
    requests = {**_DEFAULTS, **dict(asked.limits), **dict(asked.requests)}
    limits = {**_DEFAULTS, **dict(asked.requests), **dict(asked.limits)}
    return {"requests": requests, "limits": limits}


def _affinity(plan: GeneratorPlan, campaign_id: str) -> dict[str, Any]:
    """Return the rules of placement: away from the database, and from each other if possible."""
    others = {k8s.CAMPAIGN: k8s.campaign_value(campaign_id), k8s.ROLE: k8s.GENERATOR}
    spread = {"weight": 100, "podAffinityTerm": _term(others)}
    pods: dict[str, Any] = {"preferredDuringSchedulingIgnoredDuringExecution": [spread]}
    found: dict[str, Any] = {"podAntiAffinity": pods}
    if plan.is_apart and plan.away_from:
        pods["requiredDuringSchedulingIgnoredDuringExecution"] = [_term(plan.away_from)]
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


def _term(labels: Mapping[str, str]) -> dict[str, Any]:
    return {"topologyKey": _HOSTNAME, "labelSelector": {"matchLabels": dict(labels)}}


_SPARE_SHARE: Final = 2  # logs are fetched while they grow when less than this part is free
_LAST_WORD_S: Final = 2.0
_OVER: Final = frozenset({"Succeeded", "Failed"})
_PODS_OF_A_NODE: Final = 110  # of a kubelet, unless it is told another number
_REPELLING: Final = frozenset({"NoSchedule", "NoExecute"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyPod:
    """A pod that takes orders; see ``AgentPlace``.

    Attributes:
        uid: So that another one of its name is not taken for it.
    """

    api: KubernetesApi = field(compare=False, repr=False)
    clock: Clock = field(compare=False, repr=False)
    where: k8s.ContainerRef
    uid: str
    node: str

    needs: ClassVar[str] = "Name an image with bash, psql and pgbench: `generators: {image: ...}`."

    @property
    def label(self) -> str:
        """Return what it is called."""
        return f"pod {self.where.pod}"

    @property
    def home(self) -> AgentHome:
        """Return where its agent has its files."""
        return AgentHome(script=SCRIPT, work=WORK, logs=LOGS)

    def run(self, argv: Sequence[str], *, timeout_s: float, stdin: str = "") -> Completed:
        """Run a command in it to its end."""
        return self.api.run(self.where, argv, timeout_s=timeout_s, stdin=stdin)

    def talk(self, argv: Sequence[str]) -> Dialogue:
        """Start a command in it that answers lines."""
        return self.api.talk(self.where, argv)

    def loss(self) -> str:
        """Return why it works no more; an API that does not answer says nothing about that."""
        reason = self._loss()
        if not reason:
            return ""
        # A container ends before the cluster says why; and an evicted pod is deleted soon.
        self.clock.sleep(_LAST_WORD_S)
        again = self._loss()
        return again if again not in {"", DELETED} else reason

    def _loss(self) -> str:
        try:
            return loss(self.api.read(_ref(self.where)), uid=self.uid)
        except wording.TargetError:
            return ""


class GeneratorPods:
    """The generators of one campaign."""

    def __init__(
        self, plan: GeneratorPlan, belongings: Belongings, api: KubernetesApi, clock: Clock
    ) -> None:
        self.plan = plan
        self._belongings = belongings
        self._api = api
        self._clock = clock
        self._ready: dict[int, ReadyPod] = {}
        self._user: int | None = None
        self._renewing = threading.Lock()  # servers that start side by side all look after them

    @property
    def ready(self) -> tuple[ReadyPod, ...]:
        """Return the pods with what tells them from others; none before ``make``."""
        return tuple(self._ready[number] for number in sorted(self._ready))

    @property
    def pods(self) -> tuple[k8s.ContainerRef, ...]:
        """Return the pods, the i-th for the i-th command."""
        return tuple(pod.where for pod in self.ready)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the node of each pod."""
        return tuple(pod.node for pod in self.ready)

    @property
    def spare_log_kib(self) -> int:
        """Return the room for logs below which they are fetched while they grow."""
        return log_bytes(self.plan.place.generators.resources) // _SPARE_SHARE // wording.KIB

    def make(self, told: Callable[[str], None]) -> None:
        """Make the pods and wait until they are ready.

        Raises:
            PreflightError: They cannot be: image, quota, or no node that is not the database's.
        """
        self.require_room()
        missing = [n for n in range(self.plan.number) if n not in self._ready]
        if missing:
            told(f"starting {len(missing)} load generator{'s' if len(missing) > 1 else ''} in pods")
            self._make(missing, told)

    def renew(self, told: Callable[[str], None]) -> None:
        """Make those anew that are lost, once ``make`` was called."""
        if not self._ready:
            raise wording.TargetError("no load generator's pod was made yet")
        with self._renewing:
            self._renew(told)

    def _renew(self, told: Callable[[str], None]) -> None:
        lost = {number: why for number, pod in self._ready.items() if (why := self._loss(pod))}
        if not lost:
            return
        for number, why in lost.items():
            told(f"pod {self._ready[number].where.pod} {why}; it is made anew")
        try:
            self._make(tuple(lost), told)
        except wording.PreflightError as error:
            message = f"a lost load generator cannot be made anew: {error.message}"
            raise wording.MeasurementError(message, hint=error.hint) from error

    def close(self) -> None:
        """Remove the pods; their agent, which other generators may need, goes with the campaign."""
        for pod in self.ready:
            self._belongings.remove(_ref(pod.where), grace_s=1)
        self._ready.clear()

    @property
    def _agent_name(self) -> str:
        return self._belongings.name("agent")

    def _loss(self, pod: ReadyPod) -> str:
        return loss(self._api.read(_ref(pod.where)), uid=pod.uid)

    def _make(self, numbers: tuple[int, ...] | list[int], told: Callable[[str], None]) -> None:
        try:
            self._make_as(numbers, told)
        except UserNeededError:
            if self._user is not None:
                raise
            self._user = ANY_USER
            self._make_as(numbers, told)

    def _make_as(self, numbers: tuple[int, ...] | list[int], told: Callable[[str], None]) -> None:
        """Make pods under names of their own: those of lost ones may still be taken."""
        for number in numbers:
            lost = self._ready.get(number)
            if lost is not None:
                self._dismiss(_ref(lost.where))
        self._belongings.make(agent_manifest(self._agent_name))
        refs: dict[int, k8s.ObjectRef] = {}
        try:
            for number in numbers:
                refs[number] = k8s.ref_of(
                    self._belongings.make(self._manifest(), role=k8s.GENERATOR)
                )
            wait = ReadyWait(self._api, self._clock, told)
            for number, pod in zip(refs, wait.until_ready(tuple(refs.values())), strict=True):
                self._ready[number] = self._found(pod)
        except wording.SteelyardError:
            for ref in refs.values():
                self._dismiss(ref)
            raise

    def _found(self, pod: k8s.Manifest) -> ReadyPod:
        metadata = pod["metadata"]
        where = k8s.ContainerRef(
            namespace=str(metadata["namespace"]), pod=str(metadata["name"]), container=CONTAINER
        )
        return ReadyPod(
            api=self._api,
            clock=self._clock,
            where=where,
            uid=str(metadata["uid"]),
            node=str(pod["spec"]["nodeName"]),
        )

    def _dismiss(self, ref: k8s.ObjectRef) -> None:
        """Delete a pod that is of no use; one on a lost node stays until the campaign's end."""
        with suppress(wording.SteelyardError):
            self._belongings.drop(ref, grace_s=0)

    def _manifest(self) -> k8s.Manifest:
        return generator_manifest(
            self.plan,
            name=self._belongings.free_name(k8s.POD, "generator"),
            agent=self._agent_name,
            campaign_id=self._belongings.campaign_id,
            user=self._user,
        )

    def require_room(self) -> None:
        """Refuse a cluster of one node where the database and its load need two.

        Raises:
            PreflightError: With the way out.
        """
        if not self.plan.is_apart:
            return
        try:
            found = self._api.list(k8s.NODE)
        except wording.PrivilegeError:  # then the scheduler says it, of whichever pod comes second
            return
        tolerant = self.plan.place.generators.tolerations != "[]"
        nodes = [node for node in found if _takes_pods(node, tolerant=tolerant)]
        taken, names = self.plan.away_from_nodes, [node["metadata"]["name"] for node in nodes]
        least = 1 if taken else 2
        if len(set(names) - set(taken)) < least:
            there = ", ".join(names) or "none"
            only = "all usable nodes are" if taken else "the cluster has one usable node only"
            raise wording.PreflightError(
                f"the load generators need a node that is not the database's, and {only}: {there}",
                hint=SAME_NODE_HINT,
            )


def _takes_pods(node: k8s.Manifest, *, tolerant: bool) -> bool:
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
        if _takes_pods(node, tolerant=tolerant)
    )


def _further(node: k8s.Manifest, pods: Iterable[k8s.Manifest], asked: Mapping[str, str]) -> int:
    """Return how many pods fit on a node beside those that are there and go on."""
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


def _ref(where: k8s.ContainerRef) -> k8s.ObjectRef:
    return k8s.ObjectRef(kind=k8s.POD, name=where.pod, namespace=where.namespace)
