"""A Cluster with its pod on a node of metal, in a cluster that does not exist."""

import base64
import json
from collections.abc import Callable
from typing import Any

from fakes.facts import SETTINGS
from fakes.kubernetes_api import FakeKubernetes, FakeKubernetesApi, run_pods
from fakes.sql import FakeSql
from steelyard.core import kubernetes as k8s
from steelyard.core.kubernetes import CLUSTER, NAMESPACE, POD, SECRET, STORAGE_CLASS
from steelyard.core.stack import Knob, KnobKind
from steelyard.gateways.doors import Doors
from steelyard.tuning.apply.servers import SETTINGS_IN_FORCE, ClusterDoor
from steelyard.tuning.facts import servers as postgres
from support.containers import Containers
from support.machines import metal

NODE = "node1"
_WANTED = {"cpu": "1", "memory": "2Gi"}
RESOURCES = {"cpu": "2", "memory": "4Gi", "hugepages-2Mi": "64Mi"}
LATE_CLASS = """\
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local-path-late}
provisioner: rancher.io/local-path
reclaimPolicy: Retain
volumeBindingMode: WaitForFirstConsumer
"""
CONFIGZ = f"/api/v1/nodes/{NODE}/proxy/configz"
KUBELET: dict[str, Any] = {
    "cpuManagerPolicy": "static",
    "topologyManagerPolicy": "single-numa-node",
    "systemReserved": {"cpu": "400m", "memory": "500Mi"},
    "reservedSystemCPUs": "0,4",
    "cpuCFSQuota": True,
}
DATA = "/var/lib/postgresql/data/pgdata"
_SMAPS = """\
7f0000000000-7f0004000000 rw-s 00000000 00:0f 1 /anon_hugepage (deleted)
Size:              65536 kB
KernelPageSize:     2048 kB
7f0200000000-7f0200001000 r--p 00000000 fd:00 1 /usr/lib/libc.so
Size:                  4 kB
KernelPageSize:        4 kB
"""


def pod(name: str = "pg-1", *, namespace: str = "bench", **spec: Any) -> dict[str, Any]:
    """Return a pod on the node; of the Cluster where it is in its namespace."""
    labels = {"cnpg.io/cluster": "pg", "cnpg.io/podRole": "instance"}
    container = {
        "name": "postgres",
        "image": "postgresql:18",
        "env": [{"name": "PGDATA", "value": DATA}],
        "resources": {"requests": RESOURCES, "limits": RESOURCES},
    }
    return POD.manifest(
        name,
        namespace=namespace,
        labels=labels,
        spec={"nodeName": NODE, "containers": [container], **spec},
        status={
            "phase": "Running",
            "qosClass": "Guaranteed",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "postgres", "ready": True, "restartCount": 0}],
        },
    )


def cluster(**spec: Any) -> dict[str, Any]:
    """Return the Cluster as its operator has it: healthy."""
    return CLUSTER.manifest(
        "pg",
        namespace="bench",
        spec={
            "instances": 1,
            "imageName": "postgresql:18",
            "resources": {"requests": RESOURCES, "limits": RESOURCES},
            "storage": {"size": "10Gi"},
            "postgresql": {"parameters": {"archive_mode": "on", "shared_buffers": "32MB"}},
            **spec,
        },
        status={
            "phase": "Cluster in healthy state",
            "currentPrimary": "pg-1",
            "targetPrimary": "pg-1",
            "readyInstances": 1,
        },
    )


def own_files() -> dict[str, str]:
    """Return the files of the database's container."""
    return {
        "/sys/fs/cgroup/cpuset.cpus.effective": "1-2\n",
        "/sys/fs/cgroup/cpu.max": "200000 100000\n",
        "/sys/fs/cgroup/cpu.stat": "usage_usec 5\nnr_periods 9\nnr_throttled 4\nthrottled_usec 7\n",
        "/sys/fs/cgroup/hugetlb.2MB.current": "8388608\n",
        "/sys/fs/cgroup/hugetlb.2MB.rsvd.current": "67108864\n",
        "/proc/self/mountinfo": "24 1 8:0 / /var/lib/postgresql/data rw - ext4 /dev/sda rw\n"
        "25 1 0:44 / /dev/shm rw - tmpfs shm rw,size=65536k\n",
        "/proc/22/stat": "22 (postgres) S 1 22 22 0 -1\n",
        "/proc/31/stat": "31 (postgres) S 22 22 22 0 -1\n",
        "/proc/22/smaps": _SMAPS,
    }


def node_files() -> dict[str, str]:
    """Return what the kernel of the node shows in a container on the shared CPUs."""
    machine = {path: text for path, text in metal().files.items() if not path.startswith("/etc")}
    return {
        **machine,
        "/proc/self/cgroup": "0::/kubepods.slice/x\n",
        "/proc/self/mountinfo": "1 0 0:5 / / ro - overlay overlay ro\n",
        "/sys/fs/cgroup/cpuset.cpus.effective": "0,3-7\n",
        "/sys/dev/block/8:0/queue/rotational": "0\n",
        "/sys/dev/block/8:0/queue/read_ahead_kb": "128\n",
    }


class World:
    """The cluster, its database's SQL, and the gateways to both."""

    def __init__(self) -> None:
        self.api = Containers(namespace="bench")
        self.sql = FakeSql()
        self._serve()
        self._fill()
        self.api.files = {"pg-1": own_files, "steelyard-inspect-": node_files}
        self.api.react(POD, run_pods(NODE))
        self.api.answers[CONFIGZ] = json.dumps({"kubeletconfig": KUBELET})

    def doors(self) -> Doors:
        """Return the gateways."""
        return Doors(
            kubernetes=FakeKubernetes(clusters={"lab": self.api}),
            sql=self.sql,
            clock=self.api.clock,
        )

    def files(self, name: str, files: Callable[[], dict[str, str]]) -> None:
        """Let a pod have other files."""
        self.api.files[name] = files

    def _serve(self) -> None:
        shown = {**SETTINGS, "data_directory": DATA, "shared_memory_size_in_huge_pages": "22"}
        self.sql.answers = {
            postgres.IDENTITY: [(180004, 31, "10.0.0.1")],
            postgres.SETTINGS: [(name, text, False) for name, text in shown.items()],
            postgres.IO_METHODS: [],
            postgres.CHECKPOINTS: [(3, 40)],
        }

    def _fill(self) -> None:
        api: FakeKubernetesApi = self.api
        for manifest in (
            cluster(),
            pod(),
            k8s.NODE.manifest(
                NODE,
                status={
                    "capacity": {"cpu": "8", "memory": "65536Ki", "hugepages-2Mi": "128Mi"},
                    "allocatable": {"cpu": "6", "memory": "60000Ki", "hugepages-2Mi": "128Mi"},
                    "nodeInfo": {"kubeletVersion": "v1.34.4"},
                },
            ),
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {
                    "name": "local-path",
                    "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
                },
                "provisioner": "rancher.io/local-path",
                "volumeBindingMode": "WaitForFirstConsumer",
            },
            {
                "apiVersion": SECRET.api_version,
                "kind": "Secret",
                "metadata": {"name": "pg-superuser", "namespace": "bench"},
                "data": {
                    "username": base64.b64encode(b"postgres").decode(),
                    "password": base64.b64encode(b"planted").decode(),
                },
            },
        ):
            if manifest["metadata"].get("namespace"):
                self._namespace(manifest["metadata"]["namespace"])
            api.put(manifest)

    def _namespace(self, name: str) -> None:
        self.api.put(NAMESPACE.manifest(name))


def cluster_knob(name: str = "pg", **spec: Any) -> Knob:
    """Return a knob that asks for a Cluster, as plans write it."""
    asked = {
        "imageCatalogRef": {"kind": "ClusterImageCatalog", "name": "postgresql", "major": 18},
        "instances": 1,
        "enablePDB": False,
        "resources": {"requests": _WANTED, "limits": _WANTED},
        "storage": {"size": "4Gi"},
        "postgresql": {"parameters": {"work_mem": "8MB"}},
        **spec,
    }
    manifest = CLUSTER.manifest(
        name, spec={key: value for key, value in asked.items() if value is not None}
    )
    return Knob(
        name="kubernetes:kubernetes/cluster.yaml",
        layer="kubernetes",
        kind=KnobKind.OBJECT,
        place="kubernetes/cluster.yaml",
        value=json.dumps(manifest),
    )


class Operator(World):
    """A cluster whose operator brings pods and settings to what a Cluster says, or not yet."""

    def __init__(self) -> None:
        super().__init__()
        self.work_mem = "4096"
        self.works = True
        self.sql.answers[SETTINGS_IN_FORCE] = lambda: [
            ("work_mem", self.work_mem, "kB", "configuration file", False)
        ]
        self.api.react(CLUSTER, self._bring)

    def state(self) -> object:
        """Return what plans could change in the cluster."""
        clusters = {each["metadata"]["name"]: each["spec"] for each in self.api.list(CLUSTER)}
        return clusters, [each["metadata"]["name"] for each in self.api.list(STORAGE_CLASS)]

    def door(self) -> ClusterDoor:
        """Return the door to its objects."""
        return ClusterDoor(api=self.api, namespace="bench", sql=self.sql, clock=self.api.clock)

    def _bring(self, made: dict[str, Any]) -> None:
        if not self.works:
            return
        name = made["metadata"]["name"]
        made["status"] = {**cluster()["status"], "currentPrimary": f"{name}-1"}
        made["status"]["targetPrimary"] = f"{name}-1"
        brought = pod(f"{name}-1")
        brought["metadata"]["labels"]["cnpg.io/cluster"] = name
        brought["spec"]["containers"][0]["resources"] = made["spec"]["resources"]
        self.api.put(brought)
        parameters = made["spec"]["postgresql"]["parameters"]
        self.work_mem = {"8MB": "8192"}.get(parameters.get("work_mem", ""), "4096")
