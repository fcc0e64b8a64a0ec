"""Facts of a database in a cluster: what is seen of pod, node, kubelet and server, and what not."""

from dataclasses import replace

import pytest

from steelyard.core.kubernetes import NODE as NODE_KIND
from steelyard.core.kubernetes import POD, STORAGE_CLASS, Kind
from steelyard.core.stack import StackFacts, Visibility
from steelyard.core.wording import MIB, InputError, PreflightError, TargetError
from steelyard.tuning.facts.collecting import collect_in_cluster
from steelyard.tuning.facts.file import facts_yaml, parse_facts
from steelyard.tuning.facts.kubernetes import AskedCluster, probe_manifest
from steelyard.tuning.rules.catalogue import judge
from support.database_in_cluster import CONFIGZ, DATA, NODE, World, node_files, own_files, pod

_PG = AskedCluster(cluster="pg")


def _facts(world: World | None = None, asked: AskedCluster = _PG) -> StackFacts:
    return collect_in_cluster(asked, (world or World()).doors())


def test_the_server_is_asked_through_its_pod() -> None:
    """With the superuser's Secret; its mapping and /dev/shm are those of its container."""
    world = World()
    facts = _facts(world)
    assert facts.postgres is not None
    assert facts.postgres.huge_pages_needed == 22
    assert facts.postgres.huge_page_mapping_bytes == 64 * MIB
    assert facts.postgres.shared_memory_directory_bytes == 64 * MIB
    assert facts.postgres.processes is None  # they have other ids on the node
    assert world.api.open_forwards == []
    assert "planted" not in facts_yaml(facts)


def test_rules_of_kubernetes_judge_what_was_seen() -> None:
    """Exclusive CPUs, a throttled container, pages of pod and pool: each by its real facts."""
    facts = _facts()
    said = {rule.code: rule for rule in judge(facts)}
    assert said["K8S001"].state == "holds"
    assert "throttled in 4 periods" in said["K8S004"].messages[0]
    assert said["K8S008"].state == "holds"
    exclusive = replace(facts, intent=replace(facts.intent, exclusive_cpus=True))
    assert {rule.code: rule for rule in judge(exclusive)}["K8S003"].state == "holds"
    world = World()
    world.files("pg-1", lambda: {**own_files(), "/sys/fs/cgroup/cpuset.cpus.effective": "2-3\n"})
    said = {rule.code: rule for rule in judge(_facts(world))}
    assert said["K8S003"].messages == ("bench/pg-1: CPUs 3 are in the shared pool too",)


def test_huge_pages_outside_of_pods_are_told_where_all_owners_are_known() -> None:
    """In use or promised on the node, without the database's; unknown beside another owner."""
    world = World()
    kubernetes = _facts(world).kubernetes
    assert kubernetes is not None
    pages = kubernetes.non_pod_huge_pages
    world.api.put(pod("other-1", namespace="bench"))
    beside = _facts(world)
    assert beside.kubernetes is not None
    assert pages is not None
    assert beside.kubernetes.non_pod_huge_pages is None
    assert "other-1" in beside.origin("kubernetes.non_pod_huge_pages").source


def test_the_probe_may_do_nothing_and_is_gone_afterwards() -> None:
    """No privilege, no account, no directory of the node; a death leaves it to its deadline."""
    world = World()
    _facts(world)
    assert [each["metadata"]["name"] for each in world.api.list(POD, "bench")] == ["pg-1"]
    manifest = probe_manifest("bench", pod())
    spec = manifest["spec"]
    (container,) = spec["containers"]
    assert spec["nodeName"] == NODE
    assert spec["activeDeadlineSeconds"] > 0
    assert spec["automountServiceAccountToken"] is False
    assert "volumes" not in spec
    assert not {"hostPID", "hostNetwork", "hostIPC"} & spec.keys()
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["resources"]["requests"] != container["resources"]["limits"]
    assert spec["securityContext"]["runAsNonRoot"] is True


def test_probes_that_a_death_left_behind_are_removed() -> None:
    """An ended one of ours goes; a running one, and a campaign's, stay."""
    world = World()
    ours = {"app.kubernetes.io/managed-by": "steelyard", "steelyard/role": "probe"}
    for name, phase, more in (
        ("steelyard-inspect-old", "Failed", {}),
        ("steelyard-inspect-dead", "Failed", {"steelyard/campaign": "inspect-dead"}),
        ("steelyard-inspect-now", "Running", {"steelyard/campaign": "inspect-now"}),
        ("steelyard-c1-probe", "Failed", {"steelyard/campaign": "c1"}),
    ):
        left = pod(name)
        left["metadata"]["labels"] = {**ours, **more}
        left["status"] = {"phase": phase}
        world.api.put(left)
    _facts(world)
    made = [call.body for call in world.api.calls if call.verb == "apply" and call.body]
    assert {each["metadata"]["name"] for each in made} == {
        f"steelyard-{each['metadata']['labels']['steelyard/campaign']}" for each in made
    }
    names = {each["metadata"]["name"] for each in world.api.list(POD, "bench")}
    assert names == {"pg-1", "steelyard-inspect-now", "steelyard-c1-probe"}


def test_without_a_probe_the_databases_container_shows_the_kernel() -> None:
    """Only the shared pool is missing, and says why."""
    world = World()
    world.files("pg-1", lambda: {**_node_without_groups(), **own_files()})
    facts = _facts(world, replace(_PG, node_probe=False))
    assert facts.linux is not None
    assert facts.linux.governor == "performance,powersave"
    assert facts.kubernetes is not None
    assert facts.kubernetes.shared_cpus is None
    assert "--no-node-probe" in facts.origin("kubernetes.shared_cpus").source
    assert not [call for call in world.api.calls if call.verb == "apply"]


def test_a_probe_that_is_refused_costs_the_shared_pool_alone() -> None:
    """Its reason is told: a policy of the namespace, a quota."""
    world = World()
    world.files("pg-1", lambda: {**_node_without_groups(), **own_files()})
    world.api.reject(POD, PreflightError("pods are forbidden: exceeded quota"))
    facts = _facts(world)
    assert facts.linux is not None
    assert "exceeded quota" in facts.origin("kubernetes.shared_cpus").source


@pytest.mark.parametrize(
    ("verb", "kind", "part", "path"),
    [
        ("list", STORAGE_CLASS, "", "kubernetes.storage_classes"),
        ("get", NODE_KIND, "", "kubernetes.capacity"),
        ("create", POD, "exec", "kubernetes.pods.cpus"),
    ],
)
def test_what_the_account_may_not_see_is_missing_with_the_verb(
    verb: str, kind: Kind, part: str, path: str
) -> None:
    """Everything else is collected; the origin names what is lacking."""
    world = World()
    world.api.refuse(verb, kind, part=part)
    facts = _facts(world)
    assert facts.kubernetes is not None
    assert f"may not {verb}" in facts.origin(path).source
    assert facts.kubernetes.node == NODE
    assert facts.postgres is not None


def test_a_kubelet_that_may_not_be_asked_is_unknown() -> None:
    """Configz needs nodes/proxy, which few accounts have."""
    world = World()
    del world.api.answers[CONFIGZ]
    facts = _facts(world)
    assert facts.kubernetes is not None
    assert facts.kubernetes.kubelet is None
    assert facts.origin("kubernetes.kubelet").visibility is Visibility.UNKNOWN


def test_a_server_that_cannot_be_asked_is_a_layer_of_which_nothing_is_known() -> None:
    """Where its Secret is not there, the way out is --dsn; the disk is found by PGDATA."""
    world = World()
    world.api.lose(Kind(api_version="v1", name="Secret"), "pg-superuser", "bench")
    facts = _facts(world)
    assert facts.postgres is None
    assert "--dsn" in facts.origin("postgres").source
    assert facts.linux is not None
    assert facts.linux.device is not None
    assert facts.origin("linux.device").source.startswith(DATA)


def test_a_pod_of_no_operator_is_seen_too() -> None:
    """A plain StatefulSet: no Cluster, and that is a fact."""
    world = World()
    plain = pod("db-0")
    plain["metadata"]["labels"] = {}
    world.api.put(plain)
    world.files("db-0", own_files)
    facts = _facts(world, AskedCluster(pod="db-0"))
    assert facts.kubernetes is not None
    assert facts.kubernetes.cluster is None
    assert facts.origin("kubernetes.cluster").visibility is Visibility.YES
    assert [each.name for each in facts.kubernetes.pods or () if each.database] == ["bench/db-0"]


@pytest.mark.parametrize(
    ("asked", "error", "told"),
    [
        (AskedCluster(), InputError, "--cluster NAME"),
        (AskedCluster(cluster="nix"), TargetError, "the namespace has pg"),
        (AskedCluster(pod="nix"), TargetError, "the namespace has pg-1"),
        (AskedCluster(cluster="pg", context="nix"), InputError, "nix"),
    ],
)
def test_what_is_not_there_is_an_error_with_what_is(
    asked: AskedCluster, error: type[Exception], told: str
) -> None:
    """The sentence names what the namespace has, or the options that name a database."""
    with pytest.raises(error) as caught:
        _facts(asked=asked)
    assert told in f"{caught.value} {getattr(caught.value, 'hint', '')}"


def test_facts_of_a_cluster_can_be_saved_and_judged_elsewhere() -> None:
    """A file says the same as the cluster did."""
    facts = _facts()
    again = parse_facts(facts_yaml(facts), "facts.yaml")
    assert judge(again) == judge(facts)


def _node_without_groups() -> dict[str, str]:
    files = node_files()
    return {path: text for path, text in files.items() if not path.startswith("/sys/fs/cgroup")}
