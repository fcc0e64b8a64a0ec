"""The files of a split pair of Redis servers: for one machine, and for Kubernetes.

For a machine they are two redis.conf and the script that starts them, in Kubernetes two
StatefulSets behind the fence of ``start.sh``.
"""

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Final

from steelyard.core.redis import DEFAULT_PORT, Role, SplitDesign, SplitServer
from steelyard.core.stack import PlannedSetting, RenderedFile
from steelyard.tuning.files.yaml_text import Entry, hashed, quantity, remark, yaml_text

_KUBERNETES: Final = "Source: Kubernetes, '{}'."
_STATEFUL: Final = _KUBERNETES.format("StatefulSets")
_SECURITY: Final = _KUBERNETES.format("Pod Security Standards")
_CONFIG: Final = "/etc/redis-split"
_STOP_S: Final = 60
_READY: Final = "redis-cli role | head -n 1 | grep -qx master"
_READY_WHY: Final = (
    "Ready is who may be written to, and the clients' Service takes who is ready: neither a copy"
    " nor a server that waits. There is no liveness probe: it would kill a server that is only"
    " slow, and what it holds alone."
)
# Asked of the replica, whichever part it plays: its link as a copy, or its own copy's.
_COPIED: Final = (
    "redis-cli -h {} info replication | grep -q -e ^master_link_status:up -e state=online"
)
_IDLE: Final = "trap 'exit 0' TERM; while :; do sleep 60 & wait $!; done"


def cluster_objects(design: SplitDesign, files: Mapping[str, str]) -> str:
    """Return all objects as one file of several documents.

    Args:
        design: Of the pair.
        files: Of the ConfigMap, by name.
    """
    documents = (
        _config(design, files),
        _peers(design),
        _service(design),
        _budget(design),
        _stateful(design, "primary"),
        _stateful(design, "replica"),
        _watch(design),
    )
    texts = [yaml_text("", entries) for entries in documents]
    return _head(design) + "---\n" + "---\n".join(texts)


def _head(design: SplitDesign) -> str:
    secret = design.request.cluster.secret
    return hashed(
        "Made by `steelyard redis split`. The primary serves and writes no disk, the replica keeps"
        " the data. It holds no password; first make the Secret, from a file without a line end at"
        f" its end: kubectl create secret generic {secret} --from-file=password=FILE",
        "Clients use the Service of the pair's name. Redis forks: set vm.overcommit_memory=1 on"
        " the nodes. Source: Redis documentation, 'Redis administration'.",
    )


def _entries(**values: str | int | bool) -> tuple[Entry, ...]:
    return tuple(Entry(key=key, value=value) for key, value in values.items())


def _object(
    design: SplitDesign, kind: tuple[str, str], suffix: str, *rest: Entry
) -> tuple[Entry, ...]:
    version, name = kind
    namespace = design.request.cluster.namespace
    metadata = (
        Entry(key="name", value=design.request.name + suffix),
        *(_entries(namespace=namespace) if namespace else ()),
        Entry(key="labels", value=_labels(design)),
    )
    return (
        Entry(key="apiVersion", value=version),
        Entry(key="kind", value=name),
        Entry(key="metadata", value=metadata),
        *rest,
    )


def _labels(design: SplitDesign, role: Role | None = None) -> tuple[Entry, ...]:
    own = (Entry(key="app.kubernetes.io/name", value=design.request.name),)
    return (*own, Entry(key="role", value=role)) if role else own


def _config(design: SplitDesign, files: Mapping[str, str]) -> tuple[Entry, ...]:
    held = tuple(Entry(key=name, value=text) for name, text in files.items())
    return _object(design, ("v1", "ConfigMap"), "-split", Entry(key="data", value=held))


def _ports() -> Entry:
    return Entry(key="ports", value=((_entries(name="redis", port=DEFAULT_PORT)),))


def _peers(design: SplitDesign) -> tuple[Entry, ...]:
    spec = (
        Entry(key="clusterIP", value="None", why="Each pod has a name of its own."),
        Entry(
            key="publishNotReadyAddresses",
            value=True,
            why="The fence asks the replica before that is ready. " + _KUBERNETES.format("Service"),
        ),
        Entry(key="selector", value=_labels(design)),
        _ports(),
    )
    return _object(design, ("v1", "Service"), "-peers", Entry(key="spec", value=spec))


def _service(design: SplitDesign) -> tuple[Entry, ...]:
    why = (
        "Clients go to whichever of the two is ready, that is, takes writes: the role is not"
        " asked for here, so a promoted replica is found, and left when the primary takes over."
    )
    spec = (Entry(key="selector", value=_labels(design), why=why), _ports())
    return _object(design, ("v1", "Service"), "", Entry(key="spec", value=spec))


def _budget(design: SplitDesign) -> tuple[Entry, ...]:
    why = (
        "Nodes are drained one after the other. Ready are who takes writes and, while the other"
        " has a copy, the watch: without the copy nobody may take the last one away. "
        + _KUBERNETES.format("Disruptions")
    )
    counted = (
        *_entries(key="app.kubernetes.io/name", operator="In"),
        Entry(key="values", value=(design.request.name, _watch_name(design))),
    )
    spec = (
        Entry(key="minAvailable", value=1, why=why),
        Entry(key="selector", value=(Entry(key="matchExpressions", value=(counted,)),)),
    )
    kind = ("policy/v1", "PodDisruptionBudget")
    return _object(design, kind, "", Entry(key="spec", value=spec))


def _watch_name(design: SplitDesign) -> str:
    return f"{design.request.name}-watch"


def _watch(design: SplitDesign) -> tuple[Entry, ...]:
    """Return a pod that is ready while both have the data: no server of the pair can say that."""
    labels = (Entry(key="app.kubernetes.io/name", value=_watch_name(design)),)
    pod = (
        *_entries(terminationGracePeriodSeconds=5, automountServiceAccountToken=False),
        Entry(key="securityContext", value=tuple(_account(design))),
        Entry(key="containers", value=(tuple(_watching(design)),)),
    )
    template = (
        Entry(key="metadata", value=(Entry(key="labels", value=labels),)),
        Entry(key="spec", value=pod),
    )
    why = (
        "For the budget alone; it holds nothing and is no server. Its label is its own, so that no"
        " client is sent to it."
    )
    spec = (
        Entry(key="replicas", value=1, why=why),
        Entry(key="selector", value=(Entry(key="matchLabels", value=labels),)),
        Entry(key="template", value=template),
    )
    return _object(design, ("apps/v1", "Deployment"), "-watch", Entry(key="spec", value=spec))


def _watching(design: SplitDesign) -> Iterator[Entry]:
    name = design.request.name
    yield Entry(key="name", value="watch")
    yield Entry(key="image", value=design.request.cluster.image)
    yield Entry(key="command", value=("sh", "-c", _IDLE))
    yield Entry(key="env", value=(_password(design),))
    amounts = _entries(cpu="50m", memory="32Mi")
    both = (Entry(key="requests", value=amounts), Entry(key="limits", value=amounts))
    yield Entry(key="resources", value=both, why="A guess.")
    yield _probe(
        _COPIED.format(f"{name}-replica-0.{name}-peers"),
        "Ready while there are two copies: the replica follows, or is followed.",
    )
    yield _restricted()


def _stateful(design: SplitDesign, role: Role) -> tuple[Entry, ...]:
    why = f"At most one pod has this name at a time: no second primary. {_STATEFUL}"
    template = (
        Entry(key="metadata", value=(Entry(key="labels", value=_labels(design, role)),)),
        Entry(key="spec", value=tuple(_pod(design, role))),
    )
    spec = (
        Entry(key="replicas", value=1, why=why),
        Entry(key="serviceName", value=f"{design.request.name}-peers"),
        Entry(key="selector", value=(Entry(key="matchLabels", value=_labels(design, role)),)),
        *_updates(role),
        Entry(key="template", value=template),
        *_claims(design, role),
    )
    kind = ("apps/v1", "StatefulSet")
    return _object(design, kind, f"-{role}", Entry(key="spec", value=spec))


def _updates(role: Role) -> Iterator[Entry]:
    if role == "primary":
        why = (
            "A change of both templates would restart both at once. Once the watch is ready"
            f" again, delete the primary's pod: it fetches the data back. {_STATEFUL}"
        )
        strategy = (Entry(key="type", value="OnDelete"),)
        yield Entry(key="updateStrategy", value=strategy, why=why)


def _pod(design: SplitDesign, role: Role) -> Iterator[Entry]:
    yield Entry(
        key="affinity",
        value=(Entry(key="podAntiAffinity", value=(_apart(design),)),),
        why=(
            "On two nodes if it can be: the pair is down if both die. Not required: a primary"
            " that comes first to the node of the replica's volume would keep the replica away."
        ),
    )
    yield Entry(
        key="terminationGracePeriodSeconds",
        value=_STOP_S,
        why="An orderly stop waits for the replica (shutdown-timeout) and flushes.",
    )
    yield Entry(
        key="automountServiceAccountToken", value=False, why="It asks nothing of the cluster."
    )
    yield Entry(key="securityContext", value=tuple(_account(design)))
    yield Entry(key="containers", value=(tuple(_container(design, role)),))
    yield Entry(key="volumes", value=tuple(_volumes(design, role)))


def _apart(design: SplitDesign) -> Entry:
    selector = (Entry(key="matchLabels", value=_labels(design)),)
    term = (
        Entry(key="topologyKey", value="kubernetes.io/hostname"),
        Entry(key="labelSelector", value=selector),
    )
    preferred = (Entry(key="weight", value=100), Entry(key="podAffinityTerm", value=term))
    return Entry(key="preferredDuringSchedulingIgnoredDuringExecution", value=(preferred,))


def _account(design: SplitDesign) -> Iterator[Entry]:
    number = design.request.cluster.account
    yield Entry(key="runAsNonRoot", value=True, why=_SECURITY)
    yield Entry(key="runAsUser", value=number, why="The account redis of the image.")
    yield Entry(key="runAsGroup", value=number)
    yield Entry(key="fsGroup", value=number, why="It may write its volume.")
    yield Entry(key="seccompProfile", value=_entries(type="RuntimeDefault"))


def _container(design: SplitDesign, role: Role) -> Iterator[Entry]:
    yield Entry(key="name", value="redis")
    yield Entry(key="image", value=design.request.cluster.image)
    yield Entry(
        key="command",
        value=("sh", f"{_CONFIG}/start.sh", role),
        why="The fence is here and in no init container: that is passed over when the container"
        " restarts in its pod. " + _KUBERNETES.format("Init Containers"),
    )
    yield Entry(key="env", value=(_password(design),))
    yield Entry(key="ports", value=((_entries(name="redis", containerPort=DEFAULT_PORT)),))
    yield _resources(design)
    yield _probe(_READY, _READY_WHY)
    yield _restricted()
    mounts = (
        _entries(name="config", mountPath=_CONFIG, readOnly=True),
        _entries(name="data", mountPath="/data"),
    )
    yield Entry(key="volumeMounts", value=mounts)


def _restricted() -> Entry:
    return Entry(
        key="securityContext",
        value=(
            *_entries(allowPrivilegeEscalation=False, readOnlyRootFilesystem=True),
            Entry(key="capabilities", value=(Entry(key="drop", value=("ALL",)),)),
        ),
        why=_SECURITY,
    )


def _password(design: SplitDesign) -> Sequence[Entry]:
    reference = _entries(name=design.request.cluster.secret, key="password")
    why = "In no argument: redis-cli reads it here, start.sh hands it on by standard input."
    return (
        Entry(key="name", value="REDISCLI_AUTH", why=why),
        Entry(key="valueFrom", value=(Entry(key="secretKeyRef", value=reference),)),
    )


def _resources(design: SplitDesign) -> Entry:
    memory = quantity(design.request.memory_bytes)
    amounts = _entries(cpu=design.request.cluster.cpus, memory=memory)
    both = (Entry(key="requests", value=amounts), Entry(key="limits", value=amounts))
    why = "Requests equal limits: neither is evicted for the other pods' sake. " + (
        _KUBERNETES.format("Pod Quality of Service Classes")
    )
    return Entry(key="resources", value=both, why=why)


def _probe(check: str, why: str) -> Entry:
    run = (Entry(key="command", value=("sh", "-c", check)),)
    every = _entries(periodSeconds=2, timeoutSeconds=5, failureThreshold=1)
    return Entry(key="readinessProbe", value=(Entry(key="exec", value=run), *every), why=why)


def _volumes(design: SplitDesign, role: Role) -> Iterator[Sequence[Entry]]:
    config = _entries(name=f"{design.request.name}-split")
    yield (Entry(key="name", value="config"), Entry(key="configMap", value=config))
    if role == "primary":
        why = "Nothing to keep: the file of a full sync lies here for a moment."
        yield (
            Entry(key="name", value="data", why=why),
            Entry(key="emptyDir", value=_entries(sizeLimit=quantity(design.request.memory_bytes))),
        )


def _claims(design: SplitDesign, role: Role) -> Iterator[Entry]:
    if role == "primary":
        return
    asked = design.request.cluster
    requests = (Entry(key="requests", value=_entries(storage=quantity(design.storage_bytes))),)
    spec = (
        Entry(key="accessModes", value=("ReadWriteOnce",)),
        *(_entries(storageClassName=asked.storage_class) if asked.storage_class else ()),
        Entry(
            key="resources",
            value=requests,
            why="Four times maxmemory: the append-only file doubles before it is rewritten, and a"
            " rewrite and a full sync each write the data once more. A guess.",
        ),
    )
    claim = (
        Entry(key="metadata", value=_entries(name="data")),
        Entry(key="spec", value=spec),
    )
    yield Entry(key="volumeClaimTemplates", value=(claim,))


START: Final = "start.sh"
_HEAD: Final = "Made by `steelyard redis split`."
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_ROLES: Final[tuple[Role, ...]] = ("primary", "replica")
_HEADS: Final = {
    "primary": "The primary: it serves, and writes no disk. It is started by start.sh alone, which"
    " keeps it from coming back empty and wiping its replica (RED001).",
    "replica": "The replica: it follows the primary and keeps the data on its disk.",
}


def render_split(design: SplitDesign) -> tuple[RenderedFile, ...]:
    """Return the files of a design: for two machines, and for Kubernetes."""
    pair = design.request
    primary = configuration(design, "primary", pair.primary, pair.replica)
    replica = configuration(design, "replica", pair.replica, pair.primary)
    objects = cluster_objects(design, in_the_cluster(design))
    return (
        _file("redis/primary.conf", primary),
        _file("redis/replica.conf", replica),
        _file(f"redis/{START}", start_script(pair.primary, pair.replica), "sh -n {}"),
        _file("kubernetes/redis-split.yaml", objects, "kubectl apply --dry-run=server -f {}"),
    )


def _file(name: str, content: str, check: str = "") -> RenderedFile:
    layer = name.partition("/")[0]
    return RenderedFile(name=name, layer=layer, content=content, validated_by=check.format(name))


def in_the_cluster(design: SplitDesign) -> dict[str, str]:
    """Return the files of the ConfigMap: the same pair by the names of its pods."""
    name = design.request.name
    primary, replica = (
        SplitServer(host=f"{name}-{role}-0.{name}-peers", directory="/data") for role in _ROLES
    )
    return {
        "primary.conf": configuration(design, "primary", primary, replica),
        "replica.conf": configuration(design, "replica", replica, primary),
        START: start_script(primary, replica),
    }


def configuration(design: SplitDesign, role: Role, own: SplitServer, other: SplitServer) -> str:
    """Return the redis.conf of one of the two, with the reason above every line."""
    lines = (*_place(role, own, other), *design.settings(role))
    return "\n".join((hashed(f"{_HEAD} {_HEADS[role]}"), *map(_text, lines)))


def _text(setting: PlannedSetting) -> str:
    return f"{hashed(remark(setting))}{setting.name} {setting.value}\n"


def _place(role: Role, own: SplitServer, other: SplitServer) -> tuple[PlannedSetting, ...]:
    """Return where a server is and whom it follows."""
    alone = {own.host, other.host} <= _LOOPBACK
    follows = _line(
        "replicaof",
        f"{other.host} {other.port}",
        "It copies the primary, again and again, and whatever that holds",
    )
    return (
        _line(
            "bind",
            "127.0.0.1 -::1" if alone else "* -::*",
            "Both are on this machine"
            if alone
            else "The other server and the clients come from outside; while there is no password,"
            " protected-mode refuses them",
        ),
        _line("port", str(own.port), "As the other server and the clients reach it"),
        _line("dir", own.directory, "Its files, and nobody else's"),
        _line(
            "replica-announce-ip",
            own.host,
            "The other server knows it by this name, whatever its address is: FAILOVER needs it",
        ),
        _line("replica-announce-port", str(own.port), "Likewise"),
        *((follows,) if role == "replica" else ()),
    )


def _line(name: str, value: str, reason: str) -> PlannedSetting:
    source = f"Redis 7.0, redis.conf, comments on {name}"
    return PlannedSetting(name=name, value=value, reason=reason, source=source)


def start_script(primary: SplitServer, replica: SplitServer) -> str:
    """Return the script that starts either server, with the fence of the primary."""
    template = files(__package__).joinpath("redis_split_files", START).read_text("utf-8")
    for word, server in (("PRIMARY", primary), ("REPLICA", replica)):
        template = template.replace(f"@{word}@", server.host)
        template = template.replace(f"@{word}_PORT@", str(server.port))
    return template
