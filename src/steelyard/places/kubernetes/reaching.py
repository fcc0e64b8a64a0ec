"""How a server in a cluster is reached: by its Service inside, by a forwarded port from outside.

Users and passwords live in Secrets and nowhere else.
"""

import base64
import binascii
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from typing import Final

from steelyard.core import kubernetes as k8s
from steelyard.core.outside import ServerAddress, ServerInCluster
from steelyard.core.places import ClusterService
from steelyard.core.wording import (
    LoginError,
    PreflightError,
    PrivilegeError,
    SteelyardError,
    TargetError,
)
from steelyard.gateways.host import Clock, trouble_until
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.gateways.redis import RedisDoor
from steelyard.gateways.sql import Sql
from steelyard.places.kubernetes.belongings import Belongings
from steelyard.places.kubernetes.pods import is_ready

SUPERUSER: Final = "postgres"  # the only name that CloudNativePG takes for its superuserSecret
_PASSWORD_BYTES: Final = 24


def superuser_secret(ref: k8s.SecretRef, password: str) -> k8s.Manifest:
    """Return the Secret with the superuser of a Cluster and a password, readable."""
    texts = {ref.user_key: SUPERUSER, ref.password_key: password}
    kind = "kubernetes.io/basic-auth"
    return k8s.SECRET.manifest(ref.name, namespace=ref.namespace, type=kind, stringData=texts)


def make_secret(
    belongings: Belongings,
    manifest: Callable[[k8s.SecretRef, str], k8s.Manifest] = superuser_secret,
) -> k8s.SecretRef:
    """Return the campaign's Secret with a password of its own, made now.

    Args:
        belongings: Of the campaign.
        manifest: Returns it for a password, readable.
    """
    made = k8s.SecretRef(namespace=belongings.namespace, name=belongings.name())
    readable = dict(manifest(made, secrets.token_urlsafe(_PASSWORD_BYTES)))
    texts = readable.pop("stringData")
    data = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
    belongings.make({**readable, "data": data})
    return made


def read_secret(api: KubernetesApi, ref: k8s.SecretRef) -> tuple[str, str]:
    """Return user and password of a Secret; without a name there are none.

    A reference without a key for the user is to a Secret of a user who has no name.

    Raises:
        PreflightError: It is not there, or has no such keys.
        PrivilegeError: This account may not read it.
    """
    if not ref.name:
        return "", ""
    place = k8s.ObjectRef(kind=k8s.SECRET, name=ref.name, namespace=ref.namespace)
    found = api.read(place)
    if found is None:
        raise PreflightError(
            f"{place.label} is not there",
            hint="Name the Secret with the user and password of the database, in this namespace.",
        )
    kept: Mapping[str, str] = found.get("data") or {}
    user = _value(kept, ref.user_key, place) if ref.user_key else ""
    return user, _value(kept, ref.password_key, place)


def _value(kept: Mapping[str, str], key: str, place: k8s.ObjectRef) -> str:
    if key not in kept:
        raise PreflightError(
            f"{place.label} has no key {key}; it has {', '.join(sorted(kept)) or 'none'}",
            hint="Name the keys with `user_key:` and `password_key:`.",
        )
    try:
        return base64.b64decode(kept[key], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise PreflightError(
            f"the key {key} of {place.label} holds no text",
            hint="Put user and password there as UTF-8.",
        ) from error


PORT: Final = 5432
_HERE: Final = "127.0.0.1"
_TRUSTED_S: Final = 5.0  # so long a forward that worked is not asked again; a guess
_WITHIN_S: Final = 60.0  # a guess: kube-proxy of a busy node was seen to take some seconds
_LOOK_S: Final = 0.2
_REDIS_ANSWERS_S: Final = 10.0  # one command of another may hold it up; a guess
Knock = Callable[[ServerAddress], object]
"""Raises a TargetError where no server answers at an address."""


def sql_knock(sql: Sql) -> Knock:
    """Return what finds out whether a PostgreSQL server answers."""
    return lambda address: sql.rows(address, "SELECT 1")


def redis_knock(door: RedisDoor) -> Knock:
    """Return what finds out whether a Redis server answers."""
    return lambda address: door.connect(address, timeout_s=_REDIS_ANSWERS_S).close()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodBehind:
    """A pod that a Service leads to.

    Attributes:
        port: Of the pod, which may be another one than the Service's.
        node: Where it is; empty where nobody says.
        image: Of the container that listens at the port; empty where nobody says which it is.
    """

    where: k8s.ContainerRef
    port: int
    node: str = ""
    image: str = ""


class Reach:
    """Ways to the servers of a cluster, kept open while they work.

    From outside the cluster all sessions, those of the load, too, go through a forwarded port of
    the server's pod; from inside to the Service.

    Args:
        knock: Finds out whether a server answers.
    """

    def __init__(self, api: KubernetesApi, knock: Knock, clock: Clock) -> None:
        self.api = api
        self._knock = knock
        self.clock = clock
        # By namespace, pod and port: what closes it, and the local port.
        self._forwards: dict[tuple[str, str, int], tuple[AbstractContextManager[int], int]] = {}
        self._secrets: dict[k8s.SecretRef, tuple[str, str]] = {}
        # By host and port: the monotonic instant of the last answer.
        self._answered_at: dict[tuple[str, int], float] = {}

    def address(
        self,
        pod: k8s.ContainerRef,
        service: str,
        namespace: str,
        secret: k8s.SecretRef,
        database: str,
        *,
        port: int = PORT,
        pod_port: int = PORT,
    ) -> ServerAddress:
        """Return how to reach a server now; asked each time, because a forward may break.

        A forward that gives no answer is made anew once, and a Secret whose password is refused is
        read anew once; whether the server then answers, who connects will see.

        Args:
            pod: Where the server runs now; ``forget`` closes the ways to others.
            service: By which it is reached inside.
            namespace: Of the service.
            secret: With user and password.
            database: To connect to.
            port: Of the service.
            pod_port: Of the pod.

        Raises:
            PreflightError: The Secret is not there, or lacks a key.
            TargetError: The API cannot be reached, or the pod is gone.
        """
        is_kept = secret in self._secrets
        user, password = self._credentials(secret)
        host = f"{service}.{namespace}.svc"
        near = ServerAddress(
            host=host,
            port=port,
            user=user,
            database=database,
            password=password,
            service=(host, port),
        )
        way = near if self.api.is_inside else self._forwarded(near, pod, pod_port)
        if is_kept and isinstance(self._refusal(way), LoginError):
            del self._secrets[secret]
            user, password = self._credentials(secret)
        return replace(way, user=user, password=password)

    def await_answer(self, way: Callable[[], ServerAddress]) -> ServerAddress:
        """Return the way to a server once it answers: nodes hear of a Service one by one.

        Raises:
            TargetError: It does not after a minute.
        """

        def answers() -> bool:
            self._knock(way())
            return True

        if trouble := trouble_until(answers, self.clock, _WITHIN_S, _LOOK_S, ""):
            raise TargetError(
                trouble,
                hint="Does a NetworkPolicy keep it apart? Look with `kubectl get networkpolicy`.",
            )
        return way()

    def close(self) -> None:
        """Close every forward."""
        for key in list(self._forwards):
            self._hang_up(key)

    def forget(self, pod: k8s.ContainerRef) -> None:
        """Close the forwards to a pod: another is the primary, or it is about to be removed."""
        for key in list(self._forwards):
            if key[:2] == (pod.namespace, pod.pod):
                self._hang_up(key)

    def _credentials(self, secret: k8s.SecretRef) -> tuple[str, str]:
        if secret not in self._secrets:
            self._secrets[secret] = read_secret(self.api, secret)
        return self._secrets[secret]

    def _forwarded(
        self, near: ServerAddress, pod: k8s.ContainerRef, pod_port: int
    ) -> ServerAddress:
        key = (pod.namespace, pod.pod, pod_port)
        if key in self._forwards:
            way = replace(near, host=_HERE, port=self._forwards[key][1])
            refusal = self._refusal(way)
            if refusal is None or isinstance(refusal, LoginError):
                return way
            self._hang_up(key)
        forward = self.api.forward(pod, pod_port)
        port = forward.__enter__()
        self._forwards[key] = forward, port
        return replace(near, host=_HERE, port=port)

    def _refusal(self, way: ServerAddress) -> TargetError | None:
        """Return why nobody answers, or lets us in; None: somebody does, or did a moment ago."""
        place, now = (way.host, way.port), self.clock.monotonic()
        if now - self._answered_at.get(place, -_TRUSTED_S) < _TRUSTED_S:
            return None
        try:
            self._knock(way)
        except TargetError as error:
            return error
        self._answered_at[place] = now
        return None

    def _hang_up(self, key: tuple[str, str, int]) -> None:
        forward, port = self._forwards.pop(key)
        self._answered_at.pop((_HERE, port), None)
        with suppress(SteelyardError):  # it may be broken
            forward.__exit__(None, None, None)


def pods_behind(
    api: KubernetesApi, service: str, namespace: str, port: int = PORT
) -> tuple[PodBehind, ...]:
    """Return the ready pods that a Service leads to at one of its ports.

    They are found by its selector, which takes no more rights than the Service and the pods.

    Raises:
        PreflightError: There is no such Service, selector, port, or pod behind it.
    """
    ref = k8s.ObjectRef(kind=k8s.SERVICE, name=service, namespace=namespace)
    found = api.read(ref)
    if found is None:
        raise PreflightError(
            f"{ref.label} is not there{_others(api, namespace)}",
            hint="Name the Service of the database's primary with `service:`.",
        )
    selector = found["spec"].get("selector") or {}
    if not selector:
        raise PreflightError(
            f"{ref.label} selects no pods: what it leads to is nobody's to see here",
            hint="Use a Service with a selector; or run the campaign inside the cluster.",
        )
    target = _target_port(ref, found, port)
    behind = [
        _behind(pod, own)
        for pod in api.list(k8s.POD, namespace, selector)
        if is_ready(pod) and (own := _port_of(pod, target)) is not None
    ]
    if not behind:
        raise PreflightError(
            f"no ready pod is behind {ref.label}",
            hint="Does the database run? Its pods are those with the Service's selector.",
        )
    return tuple(behind)


def pod_behind(api: KubernetesApi, service: str, namespace: str, port: int = PORT) -> PodBehind:
    """Return the one ready pod that a Service leads to.

    Raises:
        PreflightError: There is none, or there are several: statements would go to one of them,
            and the load to all.
    """
    found = pods_behind(api, service, namespace, port)
    if len(found) > 1:
        ref = k8s.ObjectRef(kind=k8s.SERVICE, name=service, namespace=namespace)
        raise PreflightError(
            f"{len(found)} ready pods are behind {ref.label}:"
            f" {', '.join(sorted(each.where.pod for each in found))}; what is set and seen is of"
            " one of them, and the load goes to all",
            hint="Name a Service that leads to the primary alone, or make one whose selector does:"
            " a pod of a StatefulSet has the label statefulset.kubernetes.io/pod-name.",
        )
    return found[0]


def findable(
    api: KubernetesApi, namespace: str, service: str, secret: k8s.SecretRef, port: int = PORT
) -> ServerInCluster:
    """Return how a server behind a Service is found again."""
    return ServerInCluster(
        context="" if api.is_inside else api.context,
        server=api.server,
        namespace=namespace,
        service=service,
        port=port,
        secret=secret,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerBehind:
    """A server behind a Service, as it was found.

    Attributes:
        nodes: Of all pods that the Service selects, ready or not.
    """

    server: ServerInCluster
    behind: PodBehind
    nodes: tuple[str, ...]


def secret_of(service: ClusterService, namespace: str) -> k8s.SecretRef:
    """Return where user and password of a target's Service are."""
    return k8s.SecretRef(
        namespace=namespace,
        name=service.secret,
        user_key=service.user_key,
        password_key=service.password_key,
    )


def find_server(
    api: KubernetesApi, namespace: str, service: ClusterService, secret: k8s.SecretRef
) -> ServerBehind:
    """Return the server that a target's Service leads to; raises as ``pod_behind``."""
    name, port = service.service, service.port
    behind = pod_behind(api, name, namespace, port)
    found = api.read(k8s.ObjectRef(kind=k8s.SERVICE, name=name, namespace=namespace)) or {}
    selector = (found.get("spec") or {}).get("selector") or {}
    pods = api.list(k8s.POD, namespace, selector) if selector else ()
    nodes = (str(pod["spec"].get("nodeName") or "") for pod in pods)
    return ServerBehind(
        server=findable(api, namespace, name, secret, port),
        behind=behind,
        nodes=tuple(dict.fromkeys(filter(None, nodes))),
    )


def _others(api: KubernetesApi, namespace: str) -> str:
    """Return which Services there are, where this account may know."""
    try:
        there = [each["metadata"]["name"] for each in api.list(k8s.SERVICE, namespace)]
    except PrivilegeError:
        return ""
    return f"; the namespace has {', '.join(there) or 'none'}"


def _target_port(ref: k8s.ObjectRef, service: k8s.Manifest, port: int) -> int | str:
    """Return the pods' port, by number or name."""
    ports = {int(each["port"]): each.get("targetPort") for each in service["spec"]["ports"]}
    if port not in ports:
        raise PreflightError(
            f"{ref.label} has no port {port}; it has {', '.join(map(str, ports))}",
            hint="Name the port with `port:`.",
        )
    target: int | str | None = ports[port]
    return port if target is None else target


def _port_of(pod: k8s.Manifest, target: int | str) -> int | None:
    if isinstance(target, int):
        return target
    named = (
        int(each["containerPort"])
        for container in pod["spec"]["containers"]
        for each in container.get("ports") or ()
        if each.get("name") == target
    )
    return next(named, None)


def _behind(pod: k8s.Manifest, port: int) -> PodBehind:
    """Return a pod with the container that has the port; a forward is the whole pod's."""
    containers = pod["spec"]["containers"]
    server = _server_of(containers, port)
    return PodBehind(
        where=k8s.ContainerRef(
            namespace=str(pod["metadata"]["namespace"]),
            pod=str(pod["metadata"]["name"]),
            container=str((server or containers[0])["name"]),
        ),
        port=port,
        node=str(pod["spec"].get("nodeName") or ""),
        image="" if server is None else str(server.get("image") or ""),
    )


def _server_of(containers: Sequence[k8s.Manifest], port: int) -> k8s.Manifest | None:
    """Return the container that says it listens at a port, or the only one; else nobody knows.

    Where a proxy or a pooler has the Service's port, the database is at PostgreSQL's own.
    """
    if len(containers) == 1:
        return containers[0]
    for wanted in (PORT, port):
        for each in containers:
            if any(int(one["containerPort"]) == wanted for one in each.get("ports") or ()):
                return each
    return None
