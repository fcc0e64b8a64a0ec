"""The objects of a Redis server that a campaign makes: two Services and a StatefulSet; pure.

redis-benchmark takes a password only as an argument, where others could read it. So the generators
come without one, as the default user: they may use keys, and not administer the server. Steelyard
itself has a user with a password that was drawn for the campaign; of that the server's own pod gets
the digest only. Source: Redis documentation, "ACL".
"""

import base64
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final

from steelyard.core.kubernetes import (
    CLAIM,
    DATABASE,
    POD,
    SECRET,
    SERVER,
    SERVICE,
    STATEFUL_SET,
    Kind,
    Manifest,
    ObjectRef,
    SecretRef,
    campaign_labels,
)
from steelyard.core.target import RedisKubernetesTarget
from steelyard.places.kubernetes.belongings import Belongings
from steelyard.places.kubernetes.pods import (
    claim_spec,
    placing,
    resources_of,
    restricted_container,
    restricted_pod,
)

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
_PASSWORD_BYTES: Final = 24
# redis-benchmark prints two settings, and gives up where it may not read them.
_GENERATORS_MAY: Final = "~* &* +@all -@admin +config|get"


def make_redis_secret(belongings: Belongings) -> SecretRef:
    """Return the campaign's Secret with a password of its own, made now."""
    made = SecretRef(namespace=belongings.namespace, name=belongings.name())
    password = secrets.token_urlsafe(_PASSWORD_BYTES)
    readable = secret_manifest(made, password)
    coded = {
        name: base64.b64encode(str(text).encode()).decode()
        for name, text in readable["stringData"].items()
    }
    belongings.make({**{k: v for k, v in readable.items() if k != "stringData"}, "data": coded})
    return made


def secret_manifest(ref: SecretRef, password: str) -> Manifest:
    """Return the Secret with a user, its password, and the server's file of users, readable."""
    texts = {ref.user_key: USER, ref.password_key: password, USERS_KEY: users_text(password)}
    return SECRET.manifest(ref.name, namespace=ref.namespace, type="Opaque", stringData=texts)


def users_text(password: str) -> str:
    """Return the file of users: what generators may, and who administers by this password."""
    digest = sha256(password.encode()).hexdigest()
    return f"user default on nopass {_GENERATORS_MAY}\nuser {USER} on #{digest} ~* &* +@all\n"


CONTAINER: Final = "redis"
CHANGE: Final = "steelyard/change"  # annotation of a pod: which start it is
_USER: Final = 999  # the account `redis` of the official images; any numeric one will do
_DATA: Final = "data"
_LOADS_WITHIN_S: Final = 3600  # of data that are loaded from the volume; a guess


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
    secret: SecretRef
    campaign_id: str

    @property
    def service(self) -> str:
        """Return the Service that leads to it."""
        return f"{self.name}-rw"

    @property
    def ref(self) -> ObjectRef:
        """Return the StatefulSet."""
        return self._ref(STATEFUL_SET, self.name)

    @property
    def pod(self) -> ObjectRef:
        """Return its only pod; the name is the same after every restart."""
        return self._ref(POD, f"{self.name}-0")

    @property
    def claim(self) -> ObjectRef:
        """Return the claim of its volume, which the cluster makes and removes with it."""
        return self._ref(CLAIM, f"{_DATA}-{self.name}-0")

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels of its pod and claim."""
        return {**campaign_labels(self.campaign_id, DATABASE), SERVER: self.name}

    @property
    def selector(self) -> dict[str, str]:
        """Return the labels that no other server's pod has."""
        return {SERVER: self.name}

    def manifest(self, kind: Kind, name: str, spec: Mapping[str, Any]) -> Manifest:
        """Return an object of the server's, with the campaign's labels."""
        labels = campaign_labels(self.campaign_id)
        return kind.manifest(name, namespace=self.namespace, labels=labels, spec=dict(spec))

    def _ref(self, kind: Kind, name: str) -> ObjectRef:
        return ObjectRef(kind=kind, name=name, namespace=self.namespace)


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


def service_manifests(asked: ServerAsked) -> tuple[Manifest, ...]:
    """Return the Service that a StatefulSet needs, and the one that leads to the server."""
    port = {"name": "redis", "port": PORT, "targetPort": PORT}
    plain = {"selector": asked.selector, "ports": [port]}
    return (
        asked.manifest(SERVICE, asked.name, {"clusterIP": "None", **plain}),
        asked.manifest(SERVICE, asked.service, {"type": "ClusterIP", **plain}),
    )


def set_manifest(asked: ServerAsked, start: ServerStart) -> Manifest:
    """Return the StatefulSet as it is for one start.

    Its pod is replaced when Steelyard deletes it: a rolling update would wait for ever for a pod
    that a refused setting keeps from becoming ready. The claim goes with the set, which Kubernetes
    does since 1.27. Source: kubernetes.io, "StatefulSets", forced rollback; and
    "PersistentVolumeClaim retention".
    """
    template = {
        "metadata": {"labels": asked.labels, "annotations": {CHANGE: start.change}},
        "spec": _pod(asked, start),
    }
    volume = claim_spec(asked.target.storage, asked.target.storage_class)
    spec = {
        "replicas": 1,
        "serviceName": asked.name,
        "selector": {"matchLabels": asked.selector},
        "updateStrategy": {"type": "OnDelete"},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"},
        "template": template,
        "volumeClaimTemplates": [CLAIM.manifest(_DATA, labels=asked.labels, spec=volume)],
    }
    return asked.manifest(STATEFUL_SET, asked.name, spec)


def _pod(asked: ServerAsked, start: ServerStart) -> dict[str, Any]:
    users = {
        "secretName": asked.secret.name,
        "defaultMode": 0o440,
        "items": [{"key": USERS_KEY, "path": USERS.rpartition("/")[2]}],
    }
    return restricted_pod(
        _container(asked.target, start),
        user=_USER,
        security={"fsGroup": _USER, "fsGroupChangePolicy": "OnRootMismatch"},
        automountServiceAccountToken=False,
        enableServiceLinks=False,
        **placing(asked.target.node_selector, asked.target.tolerations),
        volumes=[
            {"name": "run", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
            {"name": "users", "secret": users},
        ],
    )


def _container(target: RedisKubernetesTarget, start: ServerStart) -> dict[str, Any]:
    """Return the server's container.

    Whether the data are loaded is asked by a command until they are; then by connecting, which
    costs a server under load nothing.
    """
    resources = resources_of(target.resources)
    asking = ["sh", "-c", 'test "$(redis-cli ping || valkey-cli ping)" = PONG']
    return restricted_container(
        CONTAINER,
        target.image,
        command=["sh", "-c", _script(), "server"],
        env=[
            {"name": "LC_ALL", "value": "C"},
            {"name": "STEELYARD_RESTORE", "value": start.change if start.restore else ""},
            {"name": "STEELYARD_SETTINGS", "value": start.configuration},
        ],
        ports=[{"name": "redis", "containerPort": PORT}],
        startupProbe={
            "exec": {"command": asking},
            "periodSeconds": 1,
            "timeoutSeconds": 5,
            "failureThreshold": _LOADS_WITHIN_S,
        },
        readinessProbe={"tcpSocket": {"port": PORT}, "periodSeconds": 10},
        terminationMessagePolicy="FallbackToLogsOnError",
        **({"resources": resources} if resources else {}),
        volumeMounts=[
            {"name": _DATA, "mountPath": "/data"},
            {"name": "run", "mountPath": "/run/steelyard"},
            {"name": "users", "mountPath": USERS.rpartition("/")[0], "readOnly": True},
        ],
    )


def _script() -> str:
    return files("steelyard.systems.redis.statefulset").joinpath("server.sh").read_text()
