"""A real database with a CPU limit of 200m: watched in its pod, inspected, and its plan applied."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.campaign.evidence.pods import PodProbe
from steelyard.core.kubernetes import CLUSTER, POD, ContainerRef, ObjectRef
from steelyard.core.measurement import Quantity
from steelyard.gateways.host import Clock, LocalHost
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.places.protocol import PodSight
from steelyard.tuning.facts.file import read_facts
from steelyard.tuning.rules.catalogue import judge
from support.database_in_cluster import cluster_knob
from support.kubernetes import namespace_in
from support.small_clusters import small_cluster, start_cluster, steelyard
from support.stack import stack_plan, write_plan
from support.watching import seen_by

LIMITED = {
    "requests": {"cpu": "100m", "memory": "256Mi"},
    "limits": {"cpu": "200m", "memory": "256Mi"},
}
NAME = "watched"
_BUSY = "for ((turn = 0; turn < 300000; turn++)); do :; done"


@pytest.fixture(scope="module")
def database(cluster_api: KubernetesApi) -> Iterator[ContainerRef]:
    """Yield the container of a small database that may use a fifth of a CPU."""
    with namespace_in(cluster_api) as namespace:
        yield start_cluster(cluster_api, small_cluster(namespace, NAME, resources=LIMITED))


def _busy(api: KubernetesApi, database: ContainerRef) -> None:
    """Keep the database's container busy beyond its limit for a moment."""
    api.run(database, ("bash", "-c", _BUSY), timeout_s=300.0)


def test_a_throttled_database_is_seen(cluster_api: KubernetesApi, database: ContainerRef) -> None:
    """CPU, throttling, limit, the node, a timeline, the generator here; nothing of ours is left."""
    sight = PodSight(api=cluster_api, database=database)
    probe = PodProbe(sight=sight, host=LocalHost(), clock=Clock())
    _, seen = seen_by(lambda: _busy(cluster_api, database), probe)
    assert "the database's container" not in {each.subject for each in seen.absent}, seen.absent
    assert (seen.total(Quantity.THROTTLED_PERIODS) or 0) > 0
    assert (seen.total(Quantity.THROTTLED_PERIODS) or 0) <= (
        seen.total(Quantity.QUOTA_PERIODS) or 0
    )
    server_s = seen.total(Quantity.SERVER_CPU_S) or 0.0
    assert 0 < server_s < seen.seconds
    assert seen.total(Quantity.GENERATOR_CPU_S) is not None
    assert seen.total(Quantity.OTHERS_CPU_S) is not None
    assert seen.level(Quantity.SERVER_CPUS) == pytest.approx(0.2)
    assert (seen.level(Quantity.GENERATOR_CPUS) or 0.0) > 0
    assert seen.level(Quantity.GENERATORS_BESIDE) is not None
    assert seen.level(Quantity.SERVER_HUGE_BYTES) == 0
    host = seen.series_of("host")
    assert host is not None
    assert {Quantity.SERVER_CPU_S, Quantity.THROTTLED_S, Quantity.CPU_IDLE_S} <= set(host.names)
    column = [row[host.names.index(Quantity.SERVER_CPU_S)] or 0.0 for row in host.rows]
    assert sum(column) == pytest.approx(server_s, abs=0.01)
    assert seen.cost is not None
    assert 0 < (seen.cost.server_cpu_s or 0.0) < server_s
    left = cluster_api.run(
        database,
        ("bash", "-c", "for d in /proc/[0-9]*; do mapfile -d '' a <$d/cmdline; echo ${a[@]}; done"),
        timeout_s=60.0,
    )
    assert "fetched-" not in left.stdout


def test_a_throttled_database_is_seen_in_turns(
    cluster_api: KubernetesApi, database: ContainerRef
) -> None:
    """Its control group before the first turn and after the last, with its levels."""
    sight = PodSight(api=cluster_api, database=database)
    probe = PodProbe(sight=sight, host=LocalHost(), clock=Clock(), in_turns=True)
    _, seen = seen_by(lambda: _busy(cluster_api, database), probe)
    assert "the database's container" not in {each.subject for each in seen.absent}, seen.absent
    assert 0 < (seen.total(Quantity.SERVER_CPU_S) or 0.0) < seen.seconds
    assert (seen.total(Quantity.THROTTLED_PERIODS) or 0) > 0
    assert seen.level(Quantity.SERVER_CPUS) == pytest.approx(0.2)
    assert (seen.level(Quantity.SERVER_MEMORY_BYTES) or 0.0) > 0
    assert seen.level(Quantity.SERVER_HUGE_BYTES) == 0


def _inspected(database: ContainerRef, path: Path, *options: str) -> None:
    """Inspect the database and save its facts."""
    argv = ["inspect", "--cluster", NAME, "-n", database.namespace, "--save", str(path), *options]
    code, said = steelyard(*argv, "--fail-on", "never")
    assert code == 0, said


def test_a_database_in_a_cluster_is_inspected(
    cluster_api: KubernetesApi, database: ContainerRef, tmp_path: Path
) -> None:
    """Pod, node, kubelet by configz, Cluster, server by SQL; the probe is gone; rules judge it."""
    _inspected(database, tmp_path / "facts.yaml")
    facts = read_facts(tmp_path / "facts.yaml")
    assert facts.kubernetes is not None
    (found,) = [each for each in facts.kubernetes.pods or () if each.database]
    assert (found.qos_class, found.quota_cpus) == ("Burstable", 0.2)
    assert found.limits["cpu"] == "200m"
    assert (found.throttled_periods or 0) > 0
    assert found.cpus
    assert facts.kubernetes.shared_cpus
    assert facts.kubernetes.kubelet is not None
    assert facts.kubernetes.capacity is not None
    assert facts.kubernetes.cluster is not None
    assert facts.kubernetes.cluster.parameters["shared_buffers"] == "32MB"
    assert facts.linux is not None
    assert facts.linux.page_bytes is not None
    assert facts.linux.swappiness is not None
    assert facts.postgres is not None
    assert (facts.postgres.settings or {})["shared_buffers"] == "32MB"
    said = {rule.code: rule for rule in judge(facts)}
    assert said["K8S001"].messages
    assert "throttled in" in said["K8S004"].messages[0]
    assert said["CNPG001"].state == "holds"
    left = cluster_api.list(POD, database.namespace, {"steelyard/role": "probe"})
    assert left == ()


def test_a_plan_for_the_cluster_is_applied_verified_and_reverted(
    cluster_api: KubernetesApi, database: ContainerRef, tmp_path: Path
) -> None:
    """A patch that the operator rolls out: in effect in the database, then exactly as it was."""
    ref = ObjectRef(kind=CLUSTER, name=NAME, namespace=database.namespace)
    asked = cluster_knob(
        NAME,
        resources=None,
        imageCatalogRef=None,
        storage=None,
        postgresql={"parameters": {"work_mem": "6MB", "max_connections": "25"}},
    )
    write_plan(tmp_path / "plan", stack_plan(asked))
    was = (cluster_api.read(ref) or {})["spec"]
    place = ["--only", "kubernetes", "-n", database.namespace, str(tmp_path / "plan")]
    code, said = steelyard("stack", "apply", *place, "--yes")
    assert code == 0, said
    assert "In effect." in said
    code, said = steelyard("stack", "verify", *place, "--json")
    (checked,) = json.loads(said)["knobs"]
    assert checked["in_effect"] is True
    assert "settings in force" in " ".join(checked["facts"])
    code, said = steelyard("stack", "revert", str(tmp_path / "plan"), "--yes")
    assert code == 0, said
    assert (cluster_api.read(ref) or {})["spec"] == was
