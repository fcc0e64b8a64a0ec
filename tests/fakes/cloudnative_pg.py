"""An operator of CloudNativePG that does not exist, and the servers that it runs: in memory.

It works while somebody sleeps on its clock, one step at a time, as the real one was seen to
(1.27.0): claims and volumes, then pods, then a phase; settings are read within a step, and where
the Cluster's annotation is another, or a setting waits for a restart, pods are made anew or servers
restarted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, NoReturn

from fakes.clock import FakeClock
from fakes.kubernetes_api import FakeKubernetesApi
from steelyard.core import kubernetes as k8s
from steelyard.core.outside import POSTGRES_MARK, ServerAddress
from steelyard.core.wording import TargetError
from steelyard.gateways.sql import Sql, SqlSession
from steelyard.systems.postgres.cloudnative_pg import existing as serving
from steelyard.systems.postgres.cloudnative_pg import operator, rollout
from steelyard.systems.postgres.cloudnative_pg import own_cluster as place_facts
from steelyard.systems.postgres.cloudnative_pg import own_cluster as platform
from steelyard.systems.postgres.cloudnative_pg.operator import HEALTHY, RESTARTED_AT
from steelyard.systems.postgres.existing import server as changed

Row = tuple[object, ...]
NEEDS_RESTART: Final = frozenset({"shared_buffers", "max_connections"})
FATAL: Final = (
    '{"logger":"postgres","msg":"2026-11-22 14:30:50.775 UTC [21] FATAL:  too many connections"}\n'
)
TOO_FEW: Final = (
    '{"logger":"postgres","record":{"error_severity":"FATAL","message":"recovery aborted because of'
    ' insufficient parameter settings","detail":"max_connections = 50 is a lower setting than on'
    ' the primary server, where its value was 100."}}\n'
)


class OperatorsClock(FakeClock):
    """Lets the operator work while somebody sleeps."""

    operator: "FakeOperator | None" = None

    def sleep(self, seconds: float) -> None:
        """Let time pass, and a step of the operator."""
        super().sleep(seconds)
        if self.operator is not None:
            self.operator.step()


@dataclass(kw_only=True)
class FakeServer:
    """A server: what it has read, and since when it runs."""

    loaded: dict[str, str] = field(default_factory=dict)
    running: dict[str, str] = field(default_factory=dict)
    starts: int = 1


@dataclass(kw_only=True)
class FakeOperator(Sql):
    """The operator of a cluster in memory, and its servers as a door to SQL.

    Attributes:
        refused: Values that no server starts with.
        ignored: Values that a server reads and does not take.
        stuck: It does nothing any more.
        moves: At the next restart another instance becomes the primary.
        hurries: Steps in which a standby, started with fewer connections before its primary is,
            ends for it, is started again, and has said nothing yet.
        policy: What becomes of volumes: ``Delete`` or ``Retain``.
        others: Databases, tables by database, and clients that are not ours.
    """

    api: FakeKubernetesApi
    clock: OperatorsClock
    refused: set[str] = field(default_factory=set)
    ignored: set[str] = field(default_factory=set)
    stuck: bool = False
    moves: bool = False
    hurries: int = 0
    policy: str = "Delete"
    superuser: bool = True
    databases: dict[str, str | None] = field(default_factory=dict)
    tables: dict[str, int] = field(default_factory=dict)
    clients: list[Row] = field(default_factory=list)
    servers: dict[str, FakeServer] = field(default_factory=dict)
    executed: list[str] = field(default_factory=list)

    def connected(self, address: ServerAddress) -> NoReturn:
        """Refuse: rows are copied between real servers alone."""
        raise AssertionError(address)

    def __post_init__(self) -> None:
        self.clock.operator = self
        self._numbers = count(1)
        self._ways: dict[int, str] = {}

    # The operator

    def step(self) -> None:
        """Do the next thing for every Cluster, and let volumes go that nobody claims."""
        if self.stuck:
            return
        clusters = self.api.objects.all_of(k8s.CLUSTER, "", {})
        for each in clusters:
            metadata = each["metadata"]
            self._step(self.api.get(k8s.CLUSTER, metadata["name"], metadata["namespace"]))
        claimed = {c["spec"].get("volumeName") for c in self.api.objects.all_of(k8s.CLAIM, "", {})}
        for volume in self.api.objects.all_of(k8s.VOLUME, "", {}):
            name = volume["metadata"]["name"]
            if name not in claimed and self.policy == "Delete":
                self.api.lose(k8s.VOLUME, name)

    def _step(self, cluster: dict[str, Any]) -> None:
        status = cluster.setdefault("status", {})
        pods = self._pods(cluster)
        if not status:
            status.update(phase="Setting up primary", phaseReason="Creating primary instance")
        elif not pods:
            self._make_instances(cluster)
        else:
            self._keep(cluster, pods)

    def _pods(self, cluster: k8s.Manifest) -> list[dict[str, Any]]:
        metadata = cluster["metadata"]
        found = self.api.objects.all_of(
            k8s.POD, metadata["namespace"], {k8s.OF_CLUSTER: metadata["name"]}
        )
        return [self.api.get(k8s.POD, p["metadata"]["name"], metadata["namespace"]) for p in found]

    def _make_instances(self, cluster: dict[str, Any]) -> None:
        for number in range(1, cluster["spec"]["instances"] + 1):
            name = f"{cluster['metadata']['name']}-{number}"
            self._make_claim(cluster, name)
            self._make_pod(cluster, name, node=f"node{number}")
        primary = f"{cluster['metadata']['name']}-1"
        self._serve(cluster, primary)
        cluster["status"].update(
            phase=HEALTHY, phaseReason="", currentPrimary=primary, targetPrimary=primary
        )

    def _owned(self, cluster: k8s.Manifest, name: str, **annotations: str) -> dict[str, Any]:
        metadata = cluster["metadata"]
        return {
            "name": name,
            "namespace": metadata["namespace"],
            "labels": {k8s.OF_CLUSTER: metadata["name"], "cnpg.io/podRole": "instance"},
            "annotations": {"cnpg.io/operatorVersion": "1.27.0", **annotations},
            "ownerReferences": [{"uid": metadata["uid"]}],
        }

    def _make_claim(self, cluster: k8s.Manifest, name: str) -> None:
        volume = f"pvc-{next(self._numbers)}"
        self.api.put(
            k8s.VOLUME.manifest(
                volume,
                spec={
                    "storageClassName": "fast",
                    "persistentVolumeReclaimPolicy": self.policy,
                    "capacity": {"storage": "1Gi"},
                },
            )
        )
        self.api.put(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": self._owned(cluster, name),
                "spec": {"volumeName": volume},
                "status": {"phase": "Bound"},
            }
        )

    def _make_pod(self, cluster: k8s.Manifest, name: str, node: str, *, runs: bool = True) -> None:
        stamp = (cluster["metadata"].get("annotations") or {}).get(RESTARTED_AT)
        annotations = {RESTARTED_AT: stamp} if stamp else {}
        container = {"name": "postgres", "ready": runs, "restartCount": 0 if runs else 1}
        container["state"] = {"running": {}} if runs else {"waiting": {"reason": "Ended"}}
        self.api.put(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": self._owned(cluster, name, **annotations),
                "spec": {"containers": [{"name": "postgres"}], "nodeName": node},
                "status": {
                    "phase": "Running",
                    "qosClass": "Guaranteed",
                    "conditions": [{"type": "Ready", "status": str(runs)}],
                    "containerStatuses": [container],
                },
            }
        )

    def _parameters(self, cluster: k8s.Manifest) -> dict[str, str]:
        return dict(cluster["spec"]["postgresql"].get("parameters") or {})

    def _serve(self, cluster: k8s.Manifest, name: str) -> None:
        old = self.servers.get(cluster["metadata"]["name"])
        asked = self._parameters(cluster)
        self.servers[cluster["metadata"]["name"]] = FakeServer(
            loaded=asked,
            running={k: v for k, v in asked.items() if v not in self.ignored},
            starts=1 if old is None else old.starts + 1,
        )
        self.api.container_logs[name] = ""

    def _keep(self, cluster: dict[str, Any], pods: list[dict[str, Any]]) -> None:
        asked = self._parameters(cluster)
        stamp = (cluster["metadata"].get("annotations") or {}).get(RESTARTED_AT)
        outdated = [p for p in pods if p["metadata"]["annotations"].get(RESTARTED_AT) != stamp]
        missing = cluster["spec"]["instances"] - len(pods)
        if self.hurries and stamp and outdated:
            self._hurry(cluster, pods[-1])
            return
        if (stamp and outdated) or missing:
            self._remake(cluster, pods, refused=bool(self.refused & set(asked.values())))
            return
        server = self.servers[cluster["metadata"]["name"]]
        server.loaded = asked
        for name in {*asked, *server.running} - NEEDS_RESTART:
            if asked.get(name) not in self.ignored:
                server.running = {**server.running, name: asked.get(name, "")}
        if self.pending(server):
            self._serve(cluster, cluster["status"]["currentPrimary"])

    def _hurry(self, cluster: dict[str, Any], pod: k8s.Manifest) -> None:
        name = pod["metadata"]["name"]
        (container,) = pod["status"]["containerStatuses"]
        first = not container["restartCount"]
        container.update(ready=False, restartCount=1, state={"running": {}})
        pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
        self.api.put(pod)
        self.api.container_logs[name] = TOO_FEW if first else ""
        cluster["status"]["phase"] = "Waiting for the instances to become active"
        self.hurries -= 1

    def _remake(
        self, cluster: dict[str, Any], pods: list[dict[str, Any]], *, refused: bool
    ) -> None:
        namespace, base = cluster["metadata"]["namespace"], cluster["metadata"]["name"]
        nodes = {p["metadata"]["name"]: p["spec"]["nodeName"] for p in pods}
        for name in nodes:
            self.api.lose(k8s.POD, name, namespace)
        for number in range(1, cluster["spec"]["instances"] + 1):
            name = f"{base}-{number}"
            self._make_pod(cluster, name, nodes.get(name, f"node{number}"), runs=not refused)
        status = cluster["status"]
        if self.moves and cluster["spec"]["instances"] > 1:
            status["currentPrimary"] = status["targetPrimary"] = f"{base}-2"
        if refused:
            status["phase"] = "Primary instance is being restarted without a switchover"
            self.api.container_logs[status["currentPrimary"]] = FATAL
        else:
            status["phase"] = HEALTHY
            self._serve(cluster, status["currentPrimary"])

    def pending(self, server: FakeServer) -> list[str]:
        """Return which settings wait for a restart."""
        return [n for n in sorted(NEEDS_RESTART) if server.loaded.get(n) != server.running.get(n)]

    # Its servers, by SQL

    def _server(self, address: ServerAddress) -> FakeServer:
        """Return the server that a forwarded port leads to, if its pod is still that pod."""
        if address.port not in self.api.open_forwards:
            raise TargetError(f"nothing listens at {address.port}")
        where = next(w for w, _, port in self.api.forwards if port == address.port)
        ref = k8s.ObjectRef(kind=k8s.POD, name=where.pod, namespace=where.namespace)
        pod = self.api.objects.held(ref)
        if pod is None or pod["status"]["conditions"][0]["status"] != "True":
            raise TargetError(f"pod {where.pod} does not answer")
        uid = self._ways.setdefault(address.port, pod["metadata"]["uid"])
        if uid != pod["metadata"]["uid"]:
            raise TargetError(f"the way to the former pod {where.pod} is closed")
        return self.servers[where.pod.rpartition("-")[0]]

    def _instances(self, address: ServerAddress) -> int:
        where = next(w for w, _, port in self.api.forwards if port == address.port)
        name = where.pod.rpartition("-")[0]
        return int(self.api.get(k8s.CLUSTER, name, where.namespace)["spec"]["instances"])

    def is_pooled(self, address: ServerAddress) -> bool:
        """Return that no pooler is in between."""
        return not self._server(address)

    def rows(
        self, address: ServerAddress, statement: str, parameters: Sequence[object] = ()
    ) -> list[Row]:
        """Answer a statement of the platform."""
        server = self._server(address)
        first = str(parameters[0]) if parameters else ""
        standbys = self._instances(address) - 1
        ignored = [(n, v) for n, v in server.loaded.items() if v in self.ignored]
        marks = {m for m in self.databases.values() if m and m.startswith(POSTGRES_MARK)}
        foreign = [n for n, m in self.databases.items() if not (m or "").startswith(POSTGRES_MARK)]
        answers: dict[str, list[Row]] = {
            "SELECT 1": [(1,)],
            rollout.SEEN: [(server.loaded.get(operator.CHANGE),)],
            rollout.PENDING: [(len(self.pending(server)),)],
            rollout.STARTED_AT: [(server.starts,)],
            rollout.STREAMING: [(standbys, standbys)],
            rollout.REFUSED: list(ignored),
            place_facts.STANDBYS: [
                (f"standby-{n}", "streaming", "quorum") for n in range(standbys)
            ],
            platform._SIZE: [(42,)],
            serving.OTHERS: [(name,) for name in sorted(foreign)],
            serving.APP_IS_THERE: [(1,)],
            serving.TABLES: [(self.tables.get(address.database, 0),)],
            serving.CLIENTS: self.clients,
            serving.IS_SUPERUSER: [(self.superuser,)],
            serving.PENDING: [(name,) for name in self.pending(server)],
            changed._STATE: [
                (False, False, 150020, self.superuser, True, 90, -1, "0", False, 0, True, "30s")
            ],
            changed._MARKED: [(mark,) for mark in marks],
            changed._IS_THERE: [(1,)] if first in self.databases else [],
            changed._DATABASE_MARK: ([(self.databases[first],)] if first in self.databases else []),
            changed._VERSION: [(150020,)],
        }
        return answers[statement]

    def execute(self, address: ServerAddress, statements: Sequence[str]) -> None:
        """Note statements, and keep databases with their marks."""
        self._server(address)
        for statement in statements:
            self.executed.append(statement)
            names = statement.split('"')[1::2]
            if statement.startswith("CREATE DATABASE"):
                self.databases[names[0]] = None
            elif statement.startswith("DROP DATABASE"):
                self.databases.pop(names[0], None)
            elif statement.startswith("COMMENT ON DATABASE"):
                self.databases[names[0]] = statement.split("'")[1]

    def reach(self, keywords: object) -> ServerAddress:
        """Refuse: nobody asks libpq for the way to a pod."""
        raise AssertionError(keywords)

    def set_password(self, address: ServerAddress, password: str) -> None:
        """Refuse: the operator sets passwords."""
        raise AssertionError(address, password)

    def round_trips(
        self,
        address: ServerAddress,
        statement: str,
        *,
        connections: int,
        most: int,
        most_s: float,
    ) -> tuple[float, ...]:
        """Refuse: nobody asks."""
        raise AssertionError(address, statement, connections, most, most_s)

    def session(self, address: ServerAddress, name: str, *, patience_s: float) -> SqlSession:
        """Refuse: nobody asks."""
        raise AssertionError(address, name, patience_s)

    def put_secret(self, name: str, namespace: str) -> None:
        """Have a Secret of a user there."""
        self.api.put(
            {
                "apiVersion": k8s.SECRET.api_version,
                "kind": k8s.SECRET.name,
                "metadata": {"name": name, "namespace": namespace},
                "stringData": {"username": "postgres", "password": "planted"},
            }
        )
