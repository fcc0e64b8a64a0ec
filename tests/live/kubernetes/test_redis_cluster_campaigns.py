"""Whole campaigns on Redis in a cluster, taken from here: on own servers and others', deaths."""

import base64
import json
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from steelyard.core import kubernetes as k8s
from steelyard.gateways.kubernetes.api import KubernetesApi
from support.cluster_campaigns import HERE
from support.kubernetes import left_of, until
from support.live import Steelyard, assert_nothing_holds, wait_for
from support.live_redis_clusters import MADE, REDIS_IMAGE

_ADMIN, _PASSWORD = "admin", "hunter2-of-others"


def _server_of(api: KubernetesApi, steelyard: Steelyard) -> Any:
    (found,) = api.list(k8s.POD, labels=k8s.campaign_labels(steelyard.campaign_id, k8s.DATABASE))
    return found


def _read(steelyard: Steelyard, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((steelyard.directory / "c" / name).read_text())
    return found


def test_a_campaign_survives_a_lost_server_and_a_kill(
    cluster_api: KubernetesApi, steelyard: Steelyard
) -> None:
    """The server's pod is deleted in a run: the block is redone; after `kill -9` all is resumed.

    What the dead session left is named by `show`; what was in force is in the record, and no
    password; at the end nothing is left.
    """
    api = cluster_api
    text = MADE.replace("run_time: 1s", "run_time: 3s")
    process = steelyard.start("run", steelyard.experiment(text), *HERE, "--dir", "c")
    wait_for(lambda: len(steelyard.runs) >= 1, process)
    server = _server_of(api, steelyard)
    namespace = str(server["metadata"]["namespace"])
    kept = [each["data"]["password"] for each in api.list(k8s.SECRET, namespace)]
    api.delete(k8s.ref_of(server), grace_s=0)
    wait_for(lambda: any(not each["complete"] for each in steelyard.blocks), process)
    done = steelyard.complete_blocks
    wait_for(lambda: steelyard.complete_blocks > done, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    shown = steelyard.run("show", "c").stdout
    assert f"Namespace {namespace}" in shown
    assert "StatefulSet" in shown
    steelyard.resumed_for_a_block()
    assert left_of(api, steelyard.campaign_id) == []
    assert api.read(k8s.ObjectRef(kind=k8s.NAMESPACE, name=namespace)) is None
    words = [*kept, *(base64.b64decode(each).decode() for each in kept)]
    assert_nothing_holds(steelyard.directory / "c", words)
    wanted = {"off": "no", "always": "yes"}
    for each in _read(steelyard, "environment.json")["servers"]:
        settings = {one["name"]: one["value"] for one in each["settings"]}
        assert settings["appendonly"] == wanted[each["configuration"]]
    summary = _read(steelyard, "summary.json")
    assert summary["design"]["switch"] == "restart"
    assert {run["validity"] for run in steelyard.counted_runs} <= {"valid", "suspect"}


class _Somebodys:
    """A server of others behind a Service, which lets nobody in but its administrator."""

    def __init__(self, api: KubernetesApi, namespace: str) -> None:
        self.api, self.namespace = api, namespace
        users = ["user default off", f"user {_ADMIN} on >{_PASSWORD} ~* &* +@all"]
        lines = "\\n".join(["protected-mode no", "dir /data", 'save ""', *users])
        self._make("Secret", "cache", stringData={"username": _ADMIN, "password": _PASSWORD})
        port = {"port": 6380, "targetPort": 6379}
        self._make("Service", "cache", spec={"selector": {"app": "cache"}, "ports": [port]})
        container = {
            "name": "c",
            "image": REDIS_IMAGE,
            "imagePullPolicy": "IfNotPresent",
            "command": ["sh", "-c", f"printf '{lines}\\n' >/data/c && exec redis-server /data/c"],
            "ports": [{"containerPort": 6379}],
            "readinessProbe": {"tcpSocket": {"port": 6379}, "periodSeconds": 1},
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        }
        volumes = [{"name": "data", "emptyDir": {}}]
        spec = {"containers": [container], "volumes": volumes, "terminationGracePeriodSeconds": 0}
        self._make("Pod", "cache-0", labels={"app": "cache"}, spec=spec)
        ref = k8s.ObjectRef(kind=k8s.POD, name="cache-0", namespace=namespace)

        def is_ready() -> bool:
            status = (api.read(ref) or {}).get("status") or {}
            return any(c["ready"] for c in status.get("containerStatuses") or ())

        until(is_ready, "the server of others is ready")

    def _make(
        self, kind: str, name: str, labels: dict[str, str] | None = None, **keys: object
    ) -> None:
        metadata = {"name": name, "namespace": self.namespace, "labels": labels or {}}
        self.api.apply({"apiVersion": "v1", "kind": kind, "metadata": metadata, **keys})

    def says(self, *words: str) -> list[str]:
        """Return what it answers its administrator."""
        where = k8s.ContainerRef(namespace=self.namespace, pod="cache-0", container="c")
        login = ("redis-cli", "--user", _ADMIN, "--pass", _PASSWORD, "--no-auth-warning")
        return self.api.run(where, (*login, *words), timeout_s=30).stdout.splitlines()

    @property
    def keyspace(self) -> list[str]:
        """Return which databases hold how many keys."""
        return self.says("INFO", "keyspace")[1:]


@pytest.fixture
def somebodys(cluster_api: KubernetesApi, own_namespace: str) -> Iterator[_Somebodys]:
    """Yield a server of others, which nobody changed in the end."""
    server = _Somebodys(cluster_api, own_namespace)
    server.says("-n", "3", "SET", "theirs", "kept")
    yield server
    assert server.says("CONFIG", "GET", "appendfsync") == ["appendfsync", "everysec"]
    assert server.says("CONFIG", "GET", "appendonly") == ["appendonly", "no"]
    assert server.says("-n", "3", "GET", "theirs") == ["kept"]
    assert [line.partition(":")[0] for line in server.keyspace] == ["db3"]
    assert set(server.says("ACL", "USERS")) == {_ADMIN, "default"}


def _on_somebodys(namespace: str, **keys: str) -> str:
    said = "".join(f"\n      {key}: {value}" for key, value in keys.items())
    head = MADE.partition("configurations:")[0].replace("baseline: off", "baseline: everysec")
    return f"""{head}configurations:
  everysec:
    target:
      kind: kubernetes
      namespace: {namespace}
      service: cache
      port: 6380
      secret: cache{said}
    redis: {{appendonly: yes, appendfsync: everysec}}
  always: {{extends: everysec, redis: {{appendfsync: always}}}}
"""


def test_a_service_of_others_is_left_as_it_was(somebodys: _Somebodys, steelyard: Steelyard) -> None:
    """Settings and databases go back at the end, and by `clean` after a `kill -9`."""
    text = _on_somebodys(somebodys.namespace, allow_existing="true")
    source = steelyard.experiment(text)
    steelyard.until_blocks(1, "run", source, *HERE, "--dir", "c", "--yes", "--no-verdict")
    campaign_id = steelyard.campaign_id
    assert somebodys.says("CONFIG", "GET", "appendonly") == ["appendonly", "no"]
    assert left_of(somebodys.api, campaign_id) == []
    assert_nothing_holds(steelyard.directory / "c", [_PASSWORD])
    (steelyard.directory / "c").rename(steelyard.directory / "first")
    process = steelyard.start("run", source, *HERE, "--dir", "c", "--yes", "--no-verdict")
    wait_for(lambda: len(steelyard.runs) >= 1, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert somebodys.says("CONFIG", "GET", "appendonly") == ["appendonly", "yes"]
    cleaned = steelyard.run("clean", "--yes")
    assert cleaned.returncode == 0, cleaned.stderr
    assert left_of(somebodys.api, steelyard.campaign_id) == []
