"""A real pod with a CPU and huge pages of its own: made by a plan, verified by inspect."""

import json
from dataclasses import replace
from pathlib import Path

from steelyard.core.kubernetes import CLUSTER, STORAGE_CLASS, ObjectRef
from steelyard.core.stack import Knob, KnobKind
from steelyard.core.wording import MIB
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.tuning.facts.file import read_facts
from steelyard.tuning.rules.catalogue import judge
from support.kubernetes import IMAGE, until
from support.lacking import lacking
from support.small_clusters import nodes_with, small_cluster, steelyard
from support.stack import knob, stack_plan, write_plan

NAME = "pinned"
PINNED = {"cpu": "1", "memory": "256Mi", "hugepages-2Mi": "64Mi"}


def _object(name: str, manifest: dict[str, object], *after: str) -> Knob:
    found = knob(KnobKind.OBJECT, f"kubernetes/{name}.yaml", json.dumps(manifest), after=after)
    return replace(found, name=f"kubernetes:{name}", layer="kubernetes")


def test_a_plan_makes_a_pinned_database_and_inspect_proves_it(
    cluster_api: KubernetesApi, own_namespace: str, tmp_path: Path
) -> None:
    """Its CPU is in no other's set, its memory lies on huge pages that its pod was promised.

    The class that the plan made goes with the revert; the Cluster may hold data, and is told.
    """
    if not nodes_with(cluster_api, "hugepages-2Mi"):
        lacking("no node of the cluster has huge pages of 2 MiB")
    class_name = f"steelyard-{own_namespace}"
    of_class = STORAGE_CLASS.manifest(
        class_name,
        provisioner="rancher.io/local-path",
        volumeBindingMode="WaitForFirstConsumer",
        reclaimPolicy="Delete",
    )
    parameters = {"shared_buffers": "32MB", "max_connections": "20", "huge_pages": "on"}
    of_cluster = small_cluster(
        own_namespace,
        NAME,
        imageName=IMAGE,
        resources={"requests": PINNED, "limits": PINNED},
        storage={"size": "1Gi", "storageClass": class_name},
        postgresql={"parameters": parameters},
    )
    plan = stack_plan(
        _object("class", of_class), _object("cluster", of_cluster, "kubernetes:class")
    )
    plan = replace(
        plan, design=replace(plan.design, request=replace(plan.design.request, name=NAME))
    )
    write_plan(tmp_path / "plan", plan)
    place = [str(tmp_path / "plan"), "-n", own_namespace]
    try:
        code, said = steelyard("stack", "apply", *place, "--yes")
        assert code == 0, said
        code, said = steelyard("stack", "verify", *place, "--json")
        assert [each["in_effect"] for each in json.loads(said)["knobs"]] == [True, True]
        _prove(own_namespace, tmp_path / "facts.yaml")
        code, said = steelyard("stack", "revert", str(tmp_path / "plan"), "--yes")
        assert code == 7, said
        assert "may hold data by now" in said
    finally:
        cluster = ObjectRef(kind=CLUSTER, name=NAME, namespace=own_namespace)
        cluster_api.delete(cluster)
        until(lambda: cluster_api.read(cluster) is None, "the Cluster is gone")
        code, said = steelyard("stack", "revert", str(tmp_path / "plan"), "--yes")
    assert code == 0, said
    made = ObjectRef(kind=STORAGE_CLASS, name=class_name)
    until(lambda: cluster_api.read(made) is None, "the storage class is gone")


def _prove(namespace: str, path: Path) -> None:
    """Check what inspect sees of the pod, its node and its server."""
    argv = ["inspect", "--cluster", NAME, "-n", namespace, "--save", str(path)]
    code, said = steelyard(*argv, "--fail-on", "never")
    assert code == 0, said
    facts = read_facts(path)
    assert facts.kubernetes is not None
    (found,) = [each for each in facts.kubernetes.pods or () if each.database]
    assert found.qos_class == "Guaranteed"
    assert found.limits == found.requests == PINNED
    assert (found.charged_huge_bytes or 0) >= 32 * MIB
    assert facts.postgres is not None
    assert (facts.postgres.huge_page_mapping_bytes or 0) >= 32 * MIB
    assert facts.kubernetes.kubelet is not None
    said = {rule.code: rule for rule in judge(facts)}
    for code in ("K8S001", "K8S009", "K8S012", "K8S013"):
        assert said[code].state == "holds", said[code]
    if facts.kubernetes.kubelet.cpu_manager_policy == "static":
        assert len(found.cpus or ()) == 1
        assert not {*(found.cpus or ())} & {*(facts.kubernetes.shared_cpus or ())}
        exclusive = replace(facts, intent=replace(facts.intent, exclusive_cpus=True))
        said = {rule.code: rule for rule in judge(exclusive)}
        assert said["K8S002"].state == said["K8S003"].state == "holds"
