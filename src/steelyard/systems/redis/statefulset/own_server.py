"""A Redis server of a StatefulSet that a campaign makes, measures and takes away.

Equal targets share one server for the campaign: its pod is started anew for each configuration, on
a copy of the prepared data, which lie beside the live ones in the same volume. Where targets
differ, every start makes its server anew, volume and all, and only one is there at a time.

For a start the set gets what the new pod is; then the old pod is deleted, and the set makes
another. What tells the new one is an annotation that no other start has.

redis-benchmark takes a password only as an argument, where others could read it. So the generators
come without one, as the default user: they may use keys, and not administer the server. Steelyard
itself has a user with a password that was drawn for the campaign; of that the server's own pod gets
the digest only. Source: Redis documentation, "ACL".
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Final

from steelyard.core import kubernetes as k8s
from steelyard.core.findings import Fact, Finding, facts_about
from steelyard.core.outside import Guest, ServerAddress, ServerProgram
from steelyard.core.target import RedisKubernetesTarget
from steelyard.core.wording import PreflightError, PrivilegeError, TargetError, format_duration
from steelyard.gateways.host import looks
from steelyard.gateways.redis import opened
from steelyard.places.kubernetes import made_server, pods
from steelyard.places.kubernetes.manifests import render_manifest, render_manifests
from steelyard.places.kubernetes.volumes import claim_obstacle, storage_class_facts, volume_facts
from steelyard.places.protocol import Ledger, PreparedState

PORT: Final = 6379
USERS: Final = "/etc/steelyard/users.acl"
# Who may come is said by the file of users, so the guard against servers without a password is off.
_OF_THE_POD: Final = f"""\
port {PORT}
protected-mode no
daemonize no
logfile ""
dir /data/live
aclfile {USERS}
"""


def pod_configuration(text: str) -> str:
    """Return a redis.conf with what is the pod's after all else, where it counts."""
    return f"{text.rstrip()}\n{_OF_THE_POD}".lstrip()


USER: Final = "steelyard"
USERS_KEY: Final = "users.acl"
# redis-benchmark prints two settings, and gives up where it may not read them.
_GENERATORS_MAY: Final = "~* &* +@all -@admin +config|get"
_GENERATOR: Final = Guest(name="default", password="")


def secret_manifest(ref: k8s.SecretRef, password: str) -> k8s.Manifest:
    """Return the Secret with a user, its password, and the server's file of users, readable."""
    texts = {ref.user_key: USER, ref.password_key: password, USERS_KEY: users_text(password)}
    return k8s.SECRET.manifest(ref.name, namespace=ref.namespace, type="Opaque", stringData=texts)


def users_text(password: str) -> str:
    """Return the file of users: what generators may, and who administers by this password."""
    digest = sha256(password.encode()).hexdigest()
    return f"user default on nopass {_GENERATORS_MAY}\nuser {USER} on #{digest} ~* &* +@all\n"


CONTAINER: Final = "redis"
CHANGE: Final = "steelyard/change"  # annotation of a pod: which start it is


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAsked:
    """One server.

    Attributes:
        name: Of the StatefulSet; other names are made of it.
        secret: With the file of its users.
    """

    target: RedisKubernetesTarget
    name: str
    namespace: str
    secret: k8s.SecretRef
    campaign_id: str

    @property
    def service(self) -> str:
        """Return the Service that leads to it."""
        return f"{self.name}-rw"

    @property
    def ref(self) -> k8s.ObjectRef:
        """Return the StatefulSet."""
        return self._ref(k8s.STATEFUL_SET, self.name)

    @property
    def pod(self) -> k8s.ObjectRef:
        """Return its only pod; the name is the same after every restart."""
        return self._ref(k8s.POD, f"{self.name}-0")

    @property
    def claim(self) -> k8s.ObjectRef:
        """Return the claim of its volume, which the cluster makes and removes with it."""
        return self._ref(k8s.CLAIM, f"data-{self.name}-0")

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels of its pod and claim."""
        return {**k8s.campaign_labels(self.campaign_id, k8s.DATABASE), k8s.SERVER: self.name}

    @property
    def selector(self) -> dict[str, str]:
        """Return the labels that no other server's pod has."""
        return {k8s.SERVER: self.name}

    def _ref(self, kind: k8s.Kind, name: str) -> k8s.ObjectRef:
        return k8s.ObjectRef(kind=kind, name=name, namespace=self.namespace)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStart:
    """One start of its pod.

    Attributes:
        change: A word that no other start has.
        configuration: Text of its configuration file.
        restore: The data are brought back to the prepared ones first.
    """

    change: str
    configuration: str
    restore: bool


def service_manifests(asked: ServerAsked) -> tuple[k8s.Manifest, ...]:
    """Return the Service that a StatefulSet needs, and the one that leads to the server."""
    labels = k8s.campaign_labels(asked.campaign_id)
    return render_manifests(__package__, "services", server=asked, labels=labels, port=PORT)


def set_manifest(asked: ServerAsked, start: ServerStart) -> k8s.Manifest:
    """Return the StatefulSet as it is for one start."""
    target = asked.target
    return render_manifest(
        __package__,
        "set",
        server=asked,
        target=target,
        start=start,
        labels=k8s.campaign_labels(asked.campaign_id),
        port=PORT,
        resources=pods.resources_of(target.resources),
        script=files(__package__).joinpath("server.sh").read_text(),
        **pods.placing(target.node_selector, target.tolerations),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulSetOptions(made_server.MadeOptions):
    """How a campaign uses a Redis server of its own; its Secret has the file of users, too."""

    target: RedisKubernetesTarget


# Lines of the log begin with process, role, time and level: `1:C 22 Nov 2026 17:00:00.000 # ...`.
_LOGGED: Final = re.compile(r"^\d+:[XCSM] .{15,30}? (?P<level>[.\-*#]) (?P<text>.*)$")
_GRAVE: Final = "#"
_USUAL: Final = ("WARNING", "oO0OoO", "Warning:", "Redis version", "Configuration loaded")
_FATAL: Final = "FATAL CONFIG FILE ERROR"
_MOST_LINES: Final = 3


def complaint_in(log: str) -> str:
    """Return what a server complains of, in one line; empty where it does not."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    for place, line in enumerate(lines):
        if _FATAL in line:
            return " ".join(lines[place + 1 : place + 1 + _MOST_LINES])
    logged = (_LOGGED.match(line) for line in lines)
    grave = [m["text"] for m in logged if m is not None and m["level"] == _GRAVE]
    told = [text for text in grave if not any(word in text for word in _USUAL)]
    bare = [line for line in lines if _LOGGED.match(line) is None]
    return " ".join((told or bare)[-_MOST_LINES:])


_REPLACED_WITHIN_S: Final = 180.0  # a node may take its time to end a pod; a guess
_PAUSES_S: Final = (0.2, 0.3, 0.5, 1.0)  # the last one again and again
_WARNED_S: Final = 20.0  # a pod that is refused for so long will not come; a guess
_LOOKED_EVERY_S: Final = 5.0
_AT_ONCE_S: Final = 1  # data that are brought back need no orderly end
_LOG_LINES: Final = 40


@dataclass(slots=True, kw_only=True)
class _Warned:
    looked_at: float
    said: str = ""
    since: float = 0.0

    def lasts(self, now: float) -> bool:
        """Return whether it has been said for so long that it will not pass."""
        return bool(self.said) and now - self.since >= _WARNED_S


@dataclass(slots=True, kw_only=True)
class _There(made_server.Standing):
    """A server that is there.

    Attributes:
        pod: As it was when it was started last.
    """

    pod: k8s.Manifest


COPY: Final = "copy"  # of the prepared data, in the server's own volume


class RedisKubernetesPlatform(made_server.MadeInCluster[_There]):
    """The Redis servers of one target, one at a time."""

    noun = "Redis server"
    part = "server"
    label = k8s.SERVER
    _options: StatefulSetOptions

    def __init__(
        self, options: StatefulSetOptions, ledger: Ledger, means: made_server.MadeMeans
    ) -> None:
        super().__init__(options, ledger, means, options.target)
        self._starts = 0
        self._is_due = True  # the next start brings the data back

    @property
    def container(self) -> k8s.ContainerRef:
        """Return its container."""
        pod = self._asked.pod
        return k8s.ContainerRef(namespace=pod.namespace, pod=pod.name, container=CONTAINER)

    @property
    def _asked(self) -> ServerAsked:
        options = self._options
        return ServerAsked(
            target=options.target,
            name=self.name,
            namespace=options.namespace,
            secret=options.secret,
            campaign_id=options.campaign_id,
        )

    def _make(self, configuration: str) -> ServerAddress:
        self._announce()
        asked = self._asked
        where = self._options.target.storage_class or "the default storage class"
        self._means.told(f"Redis server {asked.name} is made on {where}, about 15 s")
        for manifest in service_manifests(asked):
            self._means.belongings.make(manifest)
        self._current = _There(pod=self._started(configuration, restore=False))
        self._look_around()
        return self._means.reach.await_answer(self._entrance)

    def _restart(self, configuration: str, *, restore: bool) -> None:
        """Start it anew with other settings, on the prepared data where asked.

        The first time that data are brought back, those that are there become the prepared ones.

        Raises:
            TargetError: It does not start, for a reason that is told.
        """
        there = self._there
        self._keep_log()
        there.since = None
        self._close_way()
        there.pod = self._started(configuration, restore=restore)
        self._means.reach.await_answer(self._entrance)
        there.since = self._started_at()
        self._look_around()

    def _started(self, configuration: str, *, restore: bool) -> k8s.Manifest:
        """Make the server, or start it anew; return its pod once it serves.

        Raises:
            TargetError: It does not start, for a reason that is told.
        """
        self._starts += 1
        start = ServerStart(
            change=f"{self._token}-{self._starts}",
            configuration=pod_configuration(configuration),
            restore=restore,
        )
        server, api = self._asked, self._means.api
        made = self._means.belongings.make(set_manifest(server, start))
        generation = int(made["metadata"].get("generation") or 0)

        def is_seen() -> bool:
            status = (api.read(server.ref) or {}).get("status") or {}
            return int(status.get("observedGeneration") or 0) >= generation

        self._until(is_seen, "is not looked after by the cluster")
        self._replace(server, start)
        # Every start starts the pod, so only what keeps it from that is news.
        wait = pods.ReadyWait(
            api,
            self._doors.clock,
            self._means.told,
            also=lambda: claim_obstacle(api, server.claim),
        )
        try:
            return wait.until_ready([server.pod])[0]
        except PreflightError as error:
            said = ""
            with suppress(TargetError, PrivilegeError):  # it never began, or nobody may ask
                said = complaint_in(api.logs(self.container, lines=_LOG_LINES))
            message = f"{error.message}{f'; it says: {said}' if said else ''}"
            raise TargetError(message, hint=error.hint) from error

    def _replace(self, server: ServerAsked, start: ServerStart) -> None:
        """Delete the pod of another start, and wait for that of this one."""
        deleted: set[str] = set()

        def is_new() -> bool:
            pod = self._means.api.read(server.pod)
            if pod is None:
                return False
            metadata = pod["metadata"]
            if (metadata.get("annotations") or {}).get(CHANGE) == start.change:
                return True
            uid = str(metadata["uid"])
            if uid not in deleted and not metadata.get("deletionTimestamp"):
                self._means.api.delete(server.pod, grace_s=_AT_ONCE_S if start.restore else None)
                deleted.add(uid)
            return False

        self._until(is_new, "gets no new pod")

    def _until(self, holds: Callable[[], bool], otherwise: str) -> None:
        warned = _Warned(looked_at=self._doors.clock.monotonic())
        for waited_s in looks(self._doors.clock, _REPLACED_WITHIN_S, *_PAUSES_S):
            if holds():
                return
            now = self._doors.clock.monotonic()
            self._look_for_warnings(warned, now)
            if waited_s > _REPLACED_WITHIN_S or warned.lasts(now):
                break
        said = f": {warned.said}" if warned.said else ""
        raise TargetError(
            f"{self._asked.ref.label} {otherwise} within {format_duration(waited_s)}{said}",
            hint="`kubectl describe` says more of the set and its pod.",
        )

    def _look_for_warnings(self, warned: "_Warned", now: float) -> None:
        if now - warned.looked_at < _LOOKED_EVERY_S:
            return
        warned.looked_at = now
        events = pods.warnings_about(self._means.api, self._asked.ref)
        said = str(events[0].get("message") or "") if events else ""
        if said and not warned.said:
            warned.since = now
            self._means.told(f"Redis server {self.name}: {said}")
        warned.said = said

    def _entrance(self) -> ServerAddress:
        asked = self._asked
        way = self._means.reach.address(
            self.container,
            asked.service,
            asked.namespace,
            self._options.secret,
            "",
            port=PORT,
            pod_port=PORT,
        )
        return replace(way, guest=_GENERATOR)

    def _started_at(self) -> str | None:
        with opened(self._doors.redis, self._entrance()) as session:
            return session.info("server").get("run_id") or None

    def _look_around(self) -> None:
        there, asked = self._there, self._asked
        node = str(there.pod["spec"].get("nodeName") or "")
        self._seen_on(node)
        told = {
            "node": node,
            "image": self._options.target.image,
            "QoS class": str((there.pod.get("status") or {}).get("qosClass") or ""),
        }
        self._facts = (
            *facts_about(f"Redis server {asked.name}", told),
            *volume_facts(self._means.api, asked.namespace, asked.selector),
        )

    def _close_way(self) -> None:
        self._means.reach.forget(self.container)

    def _objects(self) -> Iterator[k8s.ObjectRef]:
        yield self._asked.ref
        yield from map(k8s.ref_of, service_manifests(self._asked))

    def require_ready(self) -> None:
        """Look at nothing: what can be known was asked when the campaign was assembled."""

    def _build(self, program: ServerProgram, build: Callable[[ServerAddress], None]) -> int:
        build(self._make(_text(program, program.while_preparing)))
        self._is_due = True
        return 0

    def restore(self, state: PreparedState, means: str) -> float:
        """Have the data brought back by the next start, which takes the time for it."""
        self._rest()
        self._is_due = True
        return 0.0

    def start(
        self, state: PreparedState, program: ServerProgram, settings: Mapping[str, str]
    ) -> None:
        """Start the pod anew with settings."""
        self._restart(_text(program, settings), restore=self._is_due)
        self._is_due = False

    def configure(self, settings: Mapping[str, str]) -> bool:
        """Return that the running server has to be told: its pod has what it started with."""
        return True

    def means(self) -> tuple[str, ...]:
        """Return how data go back here: by a copy inside the volume, while no server runs."""
        return (COPY,)

    def _class_facts(self) -> tuple[Fact, ...]:
        return storage_class_facts(self._means.api, [self._options.target.storage_class])

    def _target_findings(self) -> Iterator[Finding]:
        return made_server.early_volumes("server", self._options.target.storage_class, self.facts())


def _text(program: ServerProgram, settings: Mapping[str, str]) -> str:
    """Return the server's configuration file but for what is its pod's."""
    nowhere = ServerAddress(host="", port=PORT)
    return "".join(program.configuration(settings, nowhere, Path("/")).values())
