"""The CloudNativePG operator of a cluster: what it takes, and how a Cluster stands by its word.

PostgreSQL's settings go into a Cluster as texts, without those that the operator keeps to itself. A
Cluster has one list beside the parameters, ``shared_preload_libraries``; here it is a setting like
any other.

Why a Cluster does not become healthy is looked for in its claims, jobs and pods, in the order in
which a Cluster comes up. What it takes to see is listed anew each time, so who asks does not ask
often.

Its server's last words are in the log of its pod. The instance manager writes JSON, one object a
line: what PostgreSQL logged once it runs in the key ``record``, what it wrote to standard error
before that in ``msg``, and its own messages between.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from steelyard.core import kubernetes as k8s
from steelyard.core import wording
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.places.kubernetes.pods import events_about, is_ready, listed, obstacle
from steelyard.places.kubernetes.volumes import claim_obstacle

_DEFINITION: Final = k8s.ObjectRef(kind=k8s.CRD, name="clusters.postgresql.cnpg.io")
# As its release manifest and its Helm chart label it.
_LABELS: Final = {"app.kubernetes.io/name": "cloudnative-pg"}
_HOME: Final = "cnpg-system"
_TAG: Final = re.compile(r":v?(\d+\.\d+\.\d+[^@/]*)(?:@.*)?$")
_OPEN: Final = "x-kubernetes-preserve-unknown-fields"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """What is known of the operator.

    Attributes:
        version: None where it is not visible, and ``unseen`` says why.
        image: Of its container; empty where it is not visible.
        definition: Version of the Cluster's definition that is used.
        spec: The schema of a Cluster's ``spec``; empty where it may not be read, and then only the
            server finds unknown fields.
    """

    version: str | None
    unseen: str = ""
    image: str = ""
    definition: str = "v1"
    spec: Mapping[str, Any]

    @property
    def label(self) -> str:
        """Return what it is called in messages."""
        return f"CloudNativePG {self.version}" if self.version else "this CloudNativePG"

    def knows(self, *path: str) -> bool:
        """Return whether a Cluster's spec has a field; true where the schema is not visible."""
        schema: Mapping[str, Any] = self.spec
        for part in path:
            if not schema:
                return True
            if part not in schema.get("properties", {}):
                return bool(schema.get(_OPEN))
            schema = schema["properties"][part]
        return True


def require_installed(api: KubernetesApi) -> None:
    """Require that the cluster has the operator's kind.

    Raises:
        PreflightError: CloudNativePG is not installed.
    """
    if not api.knows(k8s.CLUSTER):
        raise wording.PreflightError(
            f"CloudNativePG is not installed in the cluster {api.context}: it has no kind Cluster"
            f" ({k8s.CLUSTER.api_version})",
            hint="Install its operator (kubectl apply --server-side -f the release manifest of"
            " CloudNativePG, or its Helm chart), or name another cluster by `context:`.",
        )


def discover(api: KubernetesApi) -> Operator:
    """Return the operator of a cluster.

    Raises:
        PreflightError: CloudNativePG is not installed.
    """
    require_installed(api)
    image, version, unseen = _seen(api)
    definition, spec = _schema(api)
    return Operator(version=version, unseen=unseen, image=image, definition=definition, spec=spec)


def _seen(api: KubernetesApi) -> tuple[str, str | None, str]:
    found: tuple[k8s.Manifest, ...] = ()
    for namespace in ("", _HOME):
        try:
            found = api.list(k8s.DEPLOYMENT, namespace, _LABELS)
        except wording.PrivilegeError:
            continue
        break
    else:
        return "", None, "this account may not read the operator's deployment"
    for deployment in found:
        for container in deployment["spec"]["template"]["spec"]["containers"]:
            image = str(container.get("image") or "")
            labels = deployment["metadata"].get("labels") or {}
            named = version_of_image(image) or labels.get("app.kubernetes.io/version")
            return image, named, "" if named else f"its image {image} names no version"
    return "", None, "no deployment carries the operator's label"


def version_of_image(image: str) -> str | None:
    """Return the version in an image's tag, or None."""
    found = _TAG.search(image)
    return found[1] if found else None


def _schema(api: KubernetesApi) -> tuple[str, Mapping[str, Any]]:
    wanted = k8s.CLUSTER.api_version.partition("/")[2]
    try:
        definition = api.read(_DEFINITION)
    except wording.PrivilegeError:
        return wanted, {}
    for version in (definition or {}).get("spec", {}).get("versions", ()):
        if version.get("name") == wanted:
            schema = version.get("schema", {}).get("openAPIV3Schema", {})
            return wanted, schema.get("properties", {}).get("spec", {})
    return wanted, {}


def require_known(manifest: k8s.Manifest, operator: Operator) -> None:
    """Raise when a Cluster has fields that the operator's definition has not.

    Raises:
        InputError: With all of them, and what may have been meant.
        PreflightError: The operator is too old for synchronous replication as it is asked for.
    """
    spec = manifest["spec"]
    if "synchronous" in spec.get("postgresql", {}) and not operator.knows(
        "postgresql", "synchronous"
    ):
        raise wording.PreflightError(
            f"{operator.label} has no spec.postgresql.synchronous (it came with 1.24), only"
            " minSyncReplicas and maxSyncReplicas, which say neither method nor durability",
            hint="Upgrade the operator, or leave `synchronous:` out.",
        )
    unknown = tuple(_unknown(spec, operator.spec, "spec"))
    if unknown:
        raise wording.InputError(
            f"{operator.label} does not know {'; '.join(unknown)}",
            hint="Correct the target; `kubectl explain cluster.spec` lists the fields.",
        )


def _unknown(value: object, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    if not schema or schema.get(_OPEN):
        return
    if isinstance(value, Mapping):
        yield from _unknown_keys(value, schema, path)
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from _unknown(item, schema.get("items", {}), f"{path}[{number}]")


def _unknown_keys(
    value: Mapping[str, object], schema: Mapping[str, Any], path: str
) -> Iterator[str]:
    known = schema.get("properties")
    if known is None:  # a map: any key, and perhaps a schema of its values
        inner = schema.get("additionalProperties")
        for key, each in value.items():
            yield from _unknown(each, inner if isinstance(inner, Mapping) else {}, f"{path}.{key}")
        return
    for key, each in value.items():
        if key in known:
            yield from _unknown(each, known[key], f"{path}.{key}")
        else:
            meant = get_close_matches(key, known, n=1)
            yield f"{path}.{key}" + (f" (did you mean {meant[0]}?)" if meant else "")


LIBRARIES: Final = "shared_preload_libraries"
CHANGE: Final = "steelyard.change"  # ours: what the server read last, see rollout.py
_WAY_OUT: Final = {
    "synchronous_standby_names": "`synchronous:` of the target says it",
    "allow_alter_system": "the operator writes it from spec.postgresql.enableAlterSystem",
}


def require_taken(names: Iterable[str]) -> None:
    """Raise when the operator keeps one of these settings to itself.

    Raises:
        PreflightError: With all of them.
    """
    kept = sorted(
        {name.lower() for name in names} & ((k8s.REFUSED | k8s.OVERWRITTEN) - {LIBRARIES})
    )
    if not kept:
        return
    ways = [f"{name}: {_WAY_OUT[name]}" for name in kept if name in _WAY_OUT]
    raise wording.PreflightError(
        f"CloudNativePG sets {', '.join(kept)} itself and takes no other value",
        hint="; ".join(["Leave them out of `postgres:`", *ways]) + ".",
    )


def postgresql_spec(settings: Mapping[str, str | None]) -> dict[str, Any]:
    """Return settings as keys of ``spec.postgresql``; None removes one in a merge patch."""
    named = {name.lower(): value for name, value in settings.items()}
    spec: dict[str, Any] = {}
    if LIBRARIES in named:
        libraries = named.pop(LIBRARIES)
        spec[LIBRARIES] = None if libraries is None else _listed(libraries)
    if named:
        spec["parameters"] = named
    return spec


def settings_in(spec: Mapping[str, Any], names: Iterable[str]) -> dict[str, str | None]:
    """Return what a Cluster's spec says of each setting; None where it says nothing."""
    postgresql = spec.get("postgresql") or {}
    parameters = {
        name.lower(): value for name, value in (postgresql.get("parameters") or {}).items()
    }
    libraries = postgresql.get(LIBRARIES)
    known = {**parameters, LIBRARIES: None if libraries is None else ", ".join(libraries)}
    return {name: known.get(name) for name in dict.fromkeys(n.lower() for n in names)}


def _listed(libraries: str) -> list[str]:
    return [each.strip().strip('"') for each in libraries.split(",") if each.strip()]


RESTARTED_AT: Final = "kubectl.kubernetes.io/restartedAt"
HEALTHY: Final = "Cluster in healthy state"
_POD_ROLE: Final = "cnpg.io/podRole"
_OPERATOR: Final = "cnpg.io/operatorVersion"


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """The pod of one server of a Cluster.

    Attributes:
        restarted_at: What the Cluster's annotation was when the pod was made.
        crashes: How often its container ended and was started anew.
        operator: Version of the operator that made it; empty in old ones.
        qos: Its class of service.
    """

    where: k8s.ContainerRef
    uid: str
    node: str
    is_ready: bool
    is_ending: bool
    restarted_at: str
    crashes: int
    has_ended: bool
    operator: str = ""
    qos: str = ""

    @property
    def name(self) -> str:
        """Return the pod's name: that of the instance, too."""
        return self.where.pod


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """A Cluster at one instant.

    Attributes:
        phase: In the operator's words; ``reason`` says more.
        asked: How many instances there are to be.
        primary: Name of the instance that takes writes; empty where there is none yet.
        target: Of the one that is to.
    """

    ref: k8s.ObjectRef
    phase: str
    reason: str
    asked: int
    primary: str
    target: str
    instances: tuple[Instance, ...]
    restarted_at: str = ""

    @property
    def ready(self) -> int:
        """Return how many instances are ready and stay."""
        return sum(each.is_ready and not each.is_ending for each in self.instances)

    @property
    def is_healthy(self) -> bool:
        """Return whether everything is as it is to be, and nothing is in motion."""
        return (
            self.phase == HEALTHY
            and self.ready == self.asked == len(self.instances)
            and self.primary == self.target
            and self.primary_instance is not None
        )

    @property
    def primary_instance(self) -> Instance | None:
        """Return the pod of the primary; None while it is away."""
        return next((each for each in self.instances if each.name == self.primary), None)

    @property
    def progress(self) -> str:
        """Return how far it is, for people."""
        reason = f" ({self.reason})" if self.reason else ""
        return (
            f"{self.phase or 'accepted by the operator'}{reason},"
            f" {self.ready} of {self.asked} instances ready"
        )


def look(api: KubernetesApi, ref: k8s.ObjectRef) -> ClusterState | None:
    """Return a Cluster as it is now, or None where there is none."""
    found = api.read(ref)
    return None if found is None else state_of(ref, found, instance_pods(api, ref))


def instance_pods(api: KubernetesApi, ref: k8s.ObjectRef) -> tuple[k8s.Manifest, ...]:
    """Return the pods of a Cluster's servers."""
    return api.list(k8s.POD, ref.namespace, {k8s.OF_CLUSTER: ref.name, _POD_ROLE: "instance"})


def state_of(
    ref: k8s.ObjectRef, cluster: k8s.Manifest, pods: tuple[k8s.Manifest, ...]
) -> ClusterState:
    """Return what a Cluster's status and its pods say together."""
    status: Mapping[str, Any] = cluster.get("status") or {}
    return ClusterState(
        ref=ref,
        phase=str(status.get("phase") or ""),
        reason=str(status.get("phaseReason") or ""),
        asked=int(cluster["spec"].get("instances") or 1),
        primary=str(status.get("currentPrimary") or ""),
        target=str(status.get("targetPrimary") or ""),
        instances=tuple(sorted(map(_instance, pods), key=lambda each: each.name)),
        restarted_at=str(annotations_of(cluster).get(RESTARTED_AT) or ""),
    )


def _instance(pod: k8s.Manifest) -> Instance:
    metadata, status = pod["metadata"], pod.get("status") or {}
    containers = status.get("containerStatuses") or ()
    server: Mapping[str, Any] = next(
        (c for c in containers if c["name"] == k8s.SERVER_CONTAINER), {}
    )
    return Instance(
        where=k8s.ContainerRef(
            namespace=metadata["namespace"], pod=metadata["name"], container=k8s.SERVER_CONTAINER
        ),
        uid=str(metadata.get("uid") or ""),
        node=str(pod["spec"].get("nodeName") or ""),
        is_ready=is_ready(pod),
        is_ending=bool(metadata.get("deletionTimestamp")),
        restarted_at=str(annotations_of(pod).get(RESTARTED_AT) or ""),
        crashes=int(server.get("restartCount") or 0),
        has_ended="terminated" in (server.get("state") or {}),
        operator=str(annotations_of(pod).get(_OPERATOR) or ""),
        qos=str(status.get("qosClass") or ""),
    )


def annotations_of(manifest: k8s.Manifest) -> Mapping[str, Any]:
    """Return the annotations of an object."""
    return manifest["metadata"].get("annotations") or {}


_SERVER: Final = "postgres"  # the logger that passes on what PostgreSQL says
_GRAVE: Final = frozenset({"FATAL", "PANIC"})
# The server is on its way up or down; somebody came with a wrong password.
_PASSING: Final = frozenset({"57P03", "57P01", "28P01"})
_PLAIN: Final = re.compile(r"^\S+ \S+ \S+ \[\d+\] (?P<severity>[A-Z]+):\s+(?P<message>.*)$")
_BEFORE: Final = 2  # lines that a refusal of the configuration explains itself in
_EXPLAINING: Final = ("parameter", "configuration", "invalid")
_SHOWN: Final = 300


def last_words(log: str) -> str:
    """Return why a server ended, as it said it; empty where it said nothing grave.

    That is the last grave message, and the lines of the server just before it, which name the
    setting where it was the configuration.
    """
    said = list(_said(log))
    grave = [n for n, (severity, _) in enumerate(said) if severity in _GRAVE]
    if not grave:
        return _own_errors(log)
    last = grave[-1]
    before = [text for _, text in said[max(0, last - _BEFORE) : last]]
    words = [text for text in before if any(word in text for word in _EXPLAINING)]
    return "; ".join([*words, said[last][1]])[:_SHOWN]


def plain_log(log: str) -> str:
    """Return what PostgreSQL itself said, a message a line."""
    return "".join(f"{severity}: {message}\n" for severity, message in _said(log))


def _said(log: str) -> Iterator[tuple[str, str]]:
    for line in _lines(log):
        if line.get("logger") != _SERVER:
            continue
        record = line.get("record")
        if isinstance(record, Mapping):
            if str(record.get("sql_state_code")) not in _PASSING:
                detail = f" ({record['detail']})" if record.get("detail") else ""
                yield str(record.get("error_severity")), f"{record.get('message')}{detail}"
            continue
        found = _PLAIN.match(str(line.get("msg") or ""))
        if found:
            yield found["severity"], found["message"]


def _own_errors(log: str) -> str:
    """Return the last error of a program that ran before the server, or of the manager itself."""
    lines = list(_lines(log))
    printed = [str(line.get("msg") or "").strip() for line in lines if line.get("pipe") == "stderr"]
    told = [text for text in printed if "error" in text.lower()]
    own = [
        ": ".join(filter(None, (str(line.get("msg") or ""), str(line.get("error") or ""))))
        for line in lines
        if line.get("level") == "error"
    ]
    return wording.redacted((told or own or [""])[-1])[:_SHOWN]


def _lines(log: str) -> Iterator[Mapping[str, Any]]:
    for line in log.splitlines():
        try:
            parsed = json.loads(line)
        except ValueError:  # cut off, or not from the instance manager
            continue
        if isinstance(parsed, Mapping):
            yield parsed


# How long something is borne before waiting is given up; guesses all.
_AT_ONCE_S: Final = 0.0
_SHORTLY_S: Final = 20.0  # a class or a quota may be made by the same hand, a moment later
_WHILE_S: Final = 90.0  # a node may come, a registry answer again, a slow provisioner work
_LOG_LINES: Final = 300
_FINAL_PHASES: Final = (
    "Cluster is unrecoverable",
    "Cluster has incomplete or invalid image catalog",
    "Cluster cannot proceed to reconciliation",
    "Unable to create required cluster objects",
    "Waiting for user action",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What keeps a Cluster from becoming healthy.

    Attributes:
        message: A sentence of fact.
        borne_s: How long it may last before waiting is given up.
    """

    message: str
    hint: str = ""
    borne_s: float = _WHILE_S


def trouble_of(api: KubernetesApi, state: ClusterState) -> Trouble | None:
    """Return what is stuck, or None where nothing is known to be."""
    return next(_troubles(api, state), None)


def _troubles(api: KubernetesApi, state: ClusterState) -> Iterator[Trouble]:
    labels = {k8s.OF_CLUSTER: state.ref.name}
    claims = api.list(k8s.CLAIM, state.ref.namespace, labels)
    yield from _of_phase(api, state, claims)
    for claim in claims:
        yield from _of_claim(api, claim)
    events = listed(api, k8s.EVENT, state.ref.namespace)
    for job in listed(api, k8s.JOB, state.ref.namespace, labels):
        yield from _of_job(api, job, events)
    # A quota also refuses the pods that the operator itself makes.
    for event in events_about(events, state.ref):
        if event.get("type") == "Warning" and "exceeded quota" in str(event.get("message")):
            yield _refused_pod(str(event["message"]))
    for pod in api.list(k8s.POD, state.ref.namespace, labels):
        yield from _of_pod(api, pod)


def _of_phase(
    api: KubernetesApi, state: ClusterState, claims: tuple[k8s.Manifest, ...]
) -> Iterator[Trouble]:
    if not state.phase.startswith(_FINAL_PHASES):
        return
    quotas = [] if claims else list(_full_quotas(api, state.ref.namespace))
    if quotas:  # the operator forgets why it got no claim, and speaks of a lost one
        yield Trouble(
            message=f"a quota of the namespace leaves no room for its volumes: {'; '.join(quotas)}",
            hint="Raise the ResourceQuota, or use another namespace.",
            borne_s=_AT_ONCE_S,
        )
    reason = f": {state.reason}" if state.reason else ""
    yield Trouble(
        message=f"the operator says: {state.phase}{reason}",
        hint="The log of the operator says more: kubectl -n cnpg-system logs"
        " deployment/cnpg-controller-manager.",
        borne_s=_SHORTLY_S,
    )


def _full_quotas(api: KubernetesApi, namespace: str) -> Iterator[str]:
    for quota in listed(api, k8s.QUOTA, namespace):
        status: Mapping[str, Any] = quota.get("status") or {}
        for resource, hard in (status.get("hard") or {}).items():
            used = (status.get("used") or {}).get(resource, "0")
            if "persistentvolumeclaims" in resource or resource.endswith("storage"):
                yield f"{quota['metadata']['name']} has {used} of {hard} {resource}"


def _of_claim(api: KubernetesApi, claim: k8s.Manifest) -> Iterator[Trouble]:
    ref = k8s.ref_of(claim)
    found = claim_obstacle(api, ref)
    if found is not None:
        absent = "not found" in found.message
        yield Trouble(
            message=found.message,
            hint="Name a storage class that is there; `kubectl get storageclass` lists them."
            if absent
            else found.hint,
            borne_s=_SHORTLY_S if absent else _WHILE_S,
        )
    elif (claim.get("status") or {}).get("phase") == "Pending":
        for event in events_about(listed(api, k8s.EVENT, ref.namespace), ref):
            if event.get("reason") == "ExternalProvisioning":
                yield Trouble(
                    message=f"{ref.label} gets no volume yet: {event.get('message')}",
                    hint="Does the provisioner of the storage class run?",
                )
                return


def _of_job(
    api: KubernetesApi, job: k8s.Manifest, events: tuple[k8s.Manifest, ...]
) -> Iterator[Trouble]:
    name, status = str(job["metadata"]["name"]), job.get("status") or {}
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    if (conditions.get("Failed") or {}).get("status") == "True" or status.get("failed"):
        pods = api.list(k8s.POD, job["metadata"]["namespace"], {"job-name": name})
        died = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Failed"]
        said = _pod_words(api, died[-1]) if died else ""
        yield Trouble(
            message=f"its job {name} failed{f': {said}' if said else ''}",
            hint="Look at it with `kubectl describe job`.",
            borne_s=_SHORTLY_S,
        )
    made = status.get("active") or status.get("succeeded")
    for event in () if made else events_about(events, k8s.ref_of(job)):
        if event.get("reason") == "FailedCreate":
            yield _refused_pod(str(event.get("message")))


def _refused_pod(message: str) -> Trouble:
    exceeded = "exceeded quota" in message
    return Trouble(
        message=f"its pod is refused: {message.removeprefix('Error creating: ')}",
        hint="Ask for less with `resources:`, raise the ResourceQuota, or use another namespace."
        if exceeded
        else "An admission rule of the cluster refuses it.",
        borne_s=_SHORTLY_S,
    )


def _of_pod(api: KubernetesApi, pod: k8s.Manifest) -> Iterator[Trouble]:
    status = pod.get("status") or {}
    gone = pod["metadata"].get("deletionTimestamp") or status.get("phase") == "Succeeded"
    if gone or is_ready(pod):
        return
    name = pod["metadata"]["name"]
    found = obstacle(pod)
    crashed = any(each.get("restartCount") for each in status.get("containerStatuses") or ())
    if crashed:
        said = f": {words}" if (words := _pod_words(api, pod)) else ""
        yield Trouble(
            message=f"the container of pod {name} ends again and again{said}",
            hint="`kubectl logs` shows the whole log.",
        )
    elif found is not None and not _ended_well(status):
        unpulled = "image cannot be pulled" in found.message
        yield Trouble(
            message=f"pod {name}: {found.message}",
            hint=found.hint,
            borne_s=_SHORTLY_S if unpulled or not found.passes else _WHILE_S,
        )


def _ended_well(status: Mapping[str, Any]) -> bool:
    """Return whether containers only ended as they were told: a restart is on its way."""
    states = [each.get("state") or {} for each in status.get("containerStatuses") or ()]
    ended = [state["terminated"] for state in states if state.get("terminated")]
    return bool(ended) and not any(each.get("exitCode") for each in ended)


def _pod_words(api: KubernetesApi, pod: k8s.Manifest) -> str:
    where = k8s.ContainerRef(
        namespace=pod["metadata"]["namespace"],
        pod=pod["metadata"]["name"],
        container=pod["spec"]["containers"][0]["name"],
    )
    return words_of(api, where)


def words_of(api: KubernetesApi, where: k8s.ContainerRef) -> str:
    """Return why the server in a container ended; empty where nothing of it can be read."""
    try:
        return last_words(api.logs(where, lines=_LOG_LINES))
    except wording.SteelyardError:
        return ""
