"""A PostgreSQL in a pod of a test, with a Service, as somebody may run one without any operator."""

import base64
from dataclasses import dataclass
from typing import Any

from steelyard.core import kubernetes as k8s
from steelyard.core.kubernetes import (
    NODE,
    POD,
    SECRET,
    ContainerRef,
    Manifest,
    ObjectRef,
    SecretRef,
)
from steelyard.gateways.kubernetes.api import KubernetesApi
from support.kubernetes import start_pod, until, waiting_pod

LABELS = {"app": "steelyard-test-db"}
SERVICE = "db"
# Programs are where Debian has them; the password comes from the Secret.
_SERVE = """
PATH=$(echo /usr/lib/postgresql/*/bin):$PATH
[ -e /data/own ] || initdb -D /data/own --username="$PGUSER" --pwfile=<(echo "$PGPASSWORD") \
    --auth=scram-sha-256 --no-sync >/dev/null
echo 'host all all all scram-sha-256' >> /data/own/pg_hba.conf
unset PGPASSWORD
exec postgres -D /data/own -c listen_addresses='*' -c unix_socket_directories=/data \
    -c shared_buffers=32MB -c fsync=off
"""


@dataclass(frozen=True, kw_only=True)
class PostgresPod:
    """A server that runs."""

    where: ContainerRef
    node: str
    secret: SecretRef


def postgres_pod(api: KubernetesApi, secret: SecretRef, name: str = "db-0") -> PostgresPod:
    """Start a server beside a Secret with its user and password, and a Service before it.

    It is on the first node that takes pods, so that every run of a test has it there.
    """
    api.apply(_service(secret.namespace))
    usable = (n for n in api.list(NODE) if not n["spec"].get("taints"))
    host = next(usable)["metadata"]["labels"]["kubernetes.io/hostname"]
    pod = _pod(secret, name)
    pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": host}
    where = start_pod(api, pod)
    ready = ["sh", "-c", "psql -h 127.0.0.1 -d postgres -c 'SELECT 1'"]
    until(lambda: api.run(where, ready, timeout_s=60).succeeded, "the server accepts")
    there = api.read(ObjectRef(kind=POD, name=name, namespace=secret.namespace)) or {}
    return PostgresPod(where=where, node=str(there["spec"]["nodeName"]), secret=secret)


def postgres_secret(api: KubernetesApi, namespace: str, name: str, password: str) -> SecretRef:
    """Make the Secret of a superuser."""
    data = {"username": "postgres", "password": password}
    api.apply(
        SECRET.manifest(
            name,
            namespace=namespace,
            type="kubernetes.io/basic-auth",
            data={key: base64.b64encode(text.encode()).decode() for key, text in data.items()},
        )
    )
    return SecretRef(namespace=namespace, name=name)


def _pod(secret: SecretRef, name: str) -> dict[str, Any]:
    pod = dict(
        waiting_pod(
            secret.namespace,
            name,
            securityContext={"runAsUser": 26, "runAsGroup": 26, "fsGroup": 26},
            volumes=[{"name": "data", "emptyDir": {}}],
        )
    )
    pod["metadata"]["labels"] = LABELS
    container = pod["spec"]["containers"][0]
    container["command"] = ["bash", "-c", _SERVE]
    container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    container["env"] = [
        {"name": variable, "valueFrom": {"secretKeyRef": {"name": secret.name, "key": key}}}
        for variable, key in (("PGUSER", secret.user_key), ("PGPASSWORD", secret.password_key))
    ]
    container["ports"] = [{"name": "postgres", "containerPort": 5432}]
    return pod


def _service(namespace: str) -> Manifest:
    return k8s.SERVICE.manifest(
        SERVICE,
        namespace=namespace,
        spec={"selector": LABELS, "ports": [{"port": 6543, "targetPort": "postgres"}]},
    )
