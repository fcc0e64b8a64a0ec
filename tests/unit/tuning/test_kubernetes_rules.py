"""Rules of Kubernetes and CloudNativePG: on both sides of each, and where a fact is missing."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from steelyard.core.findings import State
from steelyard.core.kubernetes import REFUSED
from steelyard.core.linux import LinuxFacts, NumaNode, PagePool
from steelyard.core.stack import (
    ClusterFacts,
    ContainerFacts,
    Intent,
    Kubelet,
    KubernetesFacts,
    PodFacts,
    PostgresFacts,
    StackFacts,
)
from steelyard.core.wording import GIB, MIB
from steelyard.tuning.facts.file import read_facts
from steelyard.tuning.rules.rule import cpus_of_database, memory_of_database
from support.judged_rules import HOLDS, NOTHING, judged, rows_of, said
from support.recorded_host import RECORDINGS

RESOURCES = {"cpu": "2", "memory": "10Gi", "hugepages-2Mi": "6500Mi"}
POD = PodFacts(name="pg-1", database=True, requests=RESOURCES, limits=RESOURCES)
STATIC = Kubelet(cpu_manager_policy="static", reserved_system_cpus="0-1")
POOL = PagePool(page_bytes=2 * MIB, total=3328, free=3328, reserved=0)
NODE = NumaNode(number=0, cpus=tuple(range(8)), memory_bytes=24 * GIB, pools=(POOL,))
LINUX = LinuxFacts(
    nodes=(NODE,), pools=(POOL,), memory_bytes=24 * GIB, huge_page_bytes=2 * MIB, smt=True
)
POSTGRES = PostgresFacts(version=18, huge_pages_needed=3177, settings={"huge_pages": "on"})


def stack(
    *pods: PodFacts,
    linux: LinuxFacts | None = LINUX,
    postgres: PostgresFacts | None = POSTGRES,
    exclusive: bool | None = True,
    **kubernetes: Any,
) -> StackFacts:
    """Return the facts of a node with these pods."""
    known = {"version": "1.34.4", "kubelet": STATIC, "pods": pods or (POD,), **kubernetes}
    return StackFacts(
        linux=linux,
        kubernetes=KubernetesFacts(**known),
        postgres=postgres,
        intent=Intent(exclusive_cpus=exclusive),
    )


def pod(limits: Mapping[str, str] | None = None, **changes: Any) -> PodFacts:
    """Return the database's pod with other limits, requested alike."""
    both = {**RESOURCES, **(limits or {})}
    return replace(POD, **{"requests": both, "limits": both, **changes})


def without_pages(**changes: Any) -> PodFacts:
    """Return the database's pod without huge pages."""
    both = {"cpu": "2", "memory": "10Gi", **changes}
    return replace(POD, requests=both, limits=both)


def of_containers(*cpus: str, pages: str | None = None, **changes: Any) -> PodFacts:
    """Return the database's pod of a server's container and others; memory is 5 GiB each."""
    containers = tuple(
        ContainerFacts(name=f"c{number}", requests=limits, limits=limits)
        for number, limits in enumerate({"cpu": each, "memory": "5Gi"} for each in cpus)
    )
    if pages is not None:
        limits = {**containers[-1].limits, "hugepages-2Mi": pages}
        containers = (*containers[:-1], replace(containers[-1], requests=limits, limits=limits))
    return pod(containers=containers, **changes)


def test_a_container_whose_cpus_nobody_saw_is_named_as_lacking() -> None:
    """K8S003 does not pass where the only proof of pinning is missing, or the pool's CPUs."""
    assert "kubernetes.pods.cpus" in judged("K8S003", stack(POD)).missing[0]
    found = judged("K8S003", stack(pod(cpus=(0, 1, 2))))
    assert found.state is State.VIOLATED
    assert "kubernetes.shared_cpus" in found.missing[0]


FULL = replace(STATIC, cpu_manager_options={"full-pcpus-only": "true"})
TWO_THREADS = replace(LINUX, siblings=((0, 1), (2, 3), (4, 5), (6, 7)))
FOUR_THREADS = replace(LINUX, siblings=((0, 1, 2, 3), (4, 5, 6, 7)))


ONE_NODE = replace(STATIC, topology_manager_policy="single-numa-node")
HALF = replace(NODE, memory_bytes=12 * GIB)
UNSEEN = replace(NODE, memory_bytes=None)


def reserving(memory: str, **changes: Any) -> Kubelet:
    """Return a kubelet that promises this much reserved memory and reserves 2036Mi."""
    whole: dict[str, Any] = {
        "memory_manager_policy": "Static",
        "kube_reserved": {"memory": "1Gi"},
        "system_reserved": {"memory": "512Mi"},
        "eviction_hard": {"memory.available": "500Mi"},
        "reserved_memory": ({"numaNode": "0", "memory": memory},),
        **changes,
    }
    return Kubelet(**whole)


@pytest.mark.parametrize(
    ("kubelet", "told"),
    [
        (reserving("2036Mi"), HOLDS),
        (reserving("2035Mi"), "reservedMemory is 2035 MiB"),
        (reserving("1636Mi", eviction_hard={}), HOLDS),  # the default, 100Mi
        (reserving("2036Mi", eviction_hard={}), "evictionHard are 1636 MiB"),
        (
            reserving(
                "1018Mi",
                reserved_memory=(
                    {"numaNode": "0", "memory": "1018Mi"},
                    {"numaNode": "1", "memory": "1018Mi"},
                ),
            ),
            HOLDS,
        ),
        (
            reserving("2036Mi", reserved_memory=({"memory": "2036Mi", "hugepages-2Mi": "1Gi"},)),
            "has hugepages-2Mi",
        ),
        (reserving("4608Mi", eviction_hard={"memory.available": "12.5%"}), HOLDS),
        (reserving("1Gi", eviction_hard={"memory.available": "10%"}), "reservedMemory is 1024 MiB"),
        (Kubelet(), NOTHING),
        (None, NOTHING),
    ],
)
def test_reserved_memory_is_what_the_node_reserves(kubelet: Kubelet | None, told: str) -> None:
    """K8S007: to the byte, eviction threshold included, be it a share of the memory."""
    assert told in said("K8S007", stack(kubelet=kubelet))


def test_a_share_of_unknown_memory_is_no_reservation() -> None:
    """K8S007 is not applicable where evictionHard is a share and nobody saw the memory."""
    kubelet = reserving("1Gi", eviction_hard={"memory.available": "10%"})
    assert said("K8S007", stack(kubelet=kubelet, linux=None)) == NOTHING


@pytest.mark.parametrize(
    ("kubelet", "told"),
    [
        (STATIC, HOLDS),
        (Kubelet(cpu_manager_policy="static", kube_reserved={"cpu": "500m"}), HOLDS),
        (Kubelet(cpu_manager_policy="static", system_reserved={"cpu": "1"}), HOLDS),
        (Kubelet(cpu_manager_policy="static"), "no CPU is reserved"),
        (Kubelet(cpu_manager_policy="static", kube_reserved={"cpu": "0"}), "no CPU is reserved"),
        (Kubelet(), NOTHING),
    ],
)
def test_a_static_policy_reserves_cpus(kubelet: Kubelet, told: str) -> None:
    """K8S008: more than none, by whichever key."""
    assert told in said("K8S008", stack(kubelet=kubelet))


CAPACITY = {"hugepages-2Mi": "6656Mi"}


@pytest.mark.parametrize(
    ("capacity", "told"),
    [
        (CAPACITY, HOLDS),
        ({"hugepages-2Mi": "8Gi"}, "says 4096 pages of 2.0 MiB, the kernel has 3328"),
        ({"hugepages-2Mi": "0"}, "says 0 pages"),
        ({"hugepages-1Gi": "0"}, HOLDS),  # of 2 MiB nobody told
        ({"cpu": "8"}, NOTHING),
        ({**CAPACITY, "hugepages-1Gi": "1Gi"}, "says 1 pages of 1.0 GiB, the kernel has 0"),
        (None, NOTHING),
    ],
)
def test_the_node_offers_the_pages_of_the_kernel(
    capacity: Mapping[str, str] | None, told: str
) -> None:
    """K8S010: of every size that the node tells."""
    assert told in said("K8S010", stack(capacity=capacity))


@pytest.mark.parametrize(
    ("gigabytes", "told"), [(6, "6 pages, 7 are needed"), (7, HOLDS), (None, NOTHING)]
)
def test_pages_of_another_size_are_counted_by_that_size(gigabytes: int | None, told: str) -> None:
    """K8S012: huge_page_size = 1GB needs so many pages of 1 GiB; those of 2 MiB do not count."""
    settings = {"huge_pages": "on", "huge_page_size": "1GB"}
    server = replace(POSTGRES, settings=settings, huge_pages_needed=7)
    own = {} if gigabytes is None else {"hugepages-1Gi": f"{gigabytes}Gi"}
    assert told in said("K8S012", stack(pod({"hugepages-2Mi": "2Mi", **own}), postgres=server))


def test_pages_of_an_unknown_size_cover_nothing() -> None:
    """K8S012 names the size that it lacks instead of taking it for 2 MiB."""
    found = judged("K8S012", stack(linux=replace(LINUX, huge_page_bytes=None)))
    assert found.state is State.NOT_APPLICABLE
    assert found.missing[0].startswith("linux.huge_page_bytes")


OFF = replace(POSTGRES, settings={"huge_pages": "off"})
TRIES = ClusterFacts(parameters={})


@pytest.mark.parametrize(
    ("memory", "settings", "told"),
    [
        ("10Gi", {}, HOLDS),
        ("1990Mi", {}, HOLDS),  # 100 x (6 + 2 x 4) MiB + 3 x 64 MiB = 1592 MiB = 80 %
        ("1989Mi", {}, "1.6 GiB in the worst case"),
        ("10Gi", {"work_mem": "64MB"}, "13.3 GiB in the worst case"),
        ("10Gi", {"max_connections": "1000"}, "in the worst case"),
        ("10Gi", {"max_connections": "many"}, NOTHING),
    ],
)
def test_the_limit_covers_what_is_not_on_huge_pages(
    memory: str, settings: Mapping[str, str], told: str
) -> None:
    """K8S014: backends, work_mem and maintenance within 80 % of the limit."""
    postgres = replace(POSTGRES, settings=settings)
    assert told in said("K8S014", stack(pod({"memory": memory}), postgres=postgres))


def test_what_the_database_may_use_is_what_its_container_may() -> None:
    """Sidecars have memory, CPUs and pages of their own."""
    facts = stack(of_containers("2", "1", pages="6500Mi"))
    assert (memory_of_database(facts), cpus_of_database(facts)) == (5 * GIB, 2.0)
    assert memory_of_database(stack(of_containers("2", pages="1Gi"))) == 6 * GIB
    postgres = replace(POSTGRES, settings={"work_mem": "20MB"})  # 4.8 GiB, and the cache
    assert "c0: 4.8 GiB in the worst case" in said(
        "K8S014", stack(facts.kubernetes.pods[0], postgres=postgres)
    )


def test_a_pod_whose_sidecar_has_a_fraction_of_a_cpu() -> None:
    """The file knows sums alone, and the CPUs of the container, which are its own."""
    facts = read_facts(RECORDINGS.parent / "foreign" / "kubernetes" / "pod-facts.yaml")
    for code in ("K8S001", "K8S002", "K8S003", "K8S004", "K8S005"):
        assert said(code, facts) == HOLDS


def test_buffers_that_are_not_on_huge_pages_count_too() -> None:
    """K8S014: 8 GB of shared_buffers fit the limit of 10 GiB only on huge pages."""
    postgres = replace(POSTGRES, settings={"shared_buffers": "8GB"})
    assert said("K8S014", stack(postgres=postgres)) == HOLDS
    assert "worst case" in said("K8S014", stack(without_pages(), postgres=postgres))


# What each rule says of facts, or its state.
SAID = {
    # Equal requests and limits, whole CPUs; where nobody wants them there is no rule.
    "K8S001": [
        (stack(), HOLDS),
        (stack(of_containers("2", "100m")), HOLDS),
        (stack(of_containers("1500m", "500m")), "pg-1, container c0: 1500m CPUs are no whole"),
        (stack(pod(qos_class="Guaranteed", limits={"cpu": "0"})), "0 CPUs are no whole number"),
        (stack(replace(POD, qos_class="Guaranteed", limits={})), "0 CPUs are no whole number"),
        (stack(pod(pod_level=True)), "resources of the pod's own"),
        # Of sums alone the container's own CPUs prove more.
        (stack(pod({"cpu": "2100m"}, cpus=(1, 2)), shared_cpus=(0, 3)), HOLDS),
        (stack(pod({"cpu": "2100m"}, cpus=(1, 2)), shared_cpus=(0, 1, 2)), "2100m CPUs are no"),
        (stack(pod({"cpu": "2100m"}, cpus=(1, 2))), "2100m CPUs are no"),
        (stack(pod({"cpu": "1500m"}, cpus=(1, 2)), shared_cpus=(0, 3)), "1500m CPUs are no"),
        (stack(of_containers("1500m", "500m", cpus=(1, 2)), shared_cpus=(0,)), "1500m CPUs"),
        (stack(pod(requests={"memory": "10Gi"})), HOLDS),  # an absent request is its limit
        (stack(pod(requests={**RESOURCES, "cpu": "2000m"})), HOLDS),
        (stack(pod(requests={**RESOURCES, "cpu": "1"})), "not equal"),
        (stack(pod(limits={"memory": "10Gi"}, requests={})), HOLDS),
        (stack(replace(POD, limits={"cpu": "2"})), "not equal"),
        (stack(pod({"cpu": "2500m"})), "2500m CPUs are no whole number"),
        (stack(pod({"cpu": "2500m"}), exclusive=None), "no whole number"),
        (stack(pod({"cpu": "2500m"}), exclusive=False), NOTHING),
        (stack(replace(POD, database=False)), NOTHING),
        (stack(pods=None), NOTHING),
    ],
    # Asked only where somebody wants exclusive CPUs.
    "K8S002": [
        (stack(), HOLDS),
        (stack(kubelet=Kubelet()), "cpuManagerPolicy is none"),
        (stack(kubelet=Kubelet(), exclusive=False), NOTHING),
        (stack(kubelet=Kubelet(), exclusive=None), NOTHING),
        (stack(kubelet=None), NOTHING),
    ],
    # As many as its limit, and none of the shared pool.
    "K8S003": [
        (stack(pod(cpus=(2, 3)), shared_cpus=(0, 1, 4, 5)), HOLDS),
        (stack(pod(cpus=(2, 3))), NOTHING),  # nobody saw the shared pool
        (stack(pod(cpus=(0, 1, 2, 3))), "may run on CPUs 0-3, its limit is 2"),
        (stack(pod(cpus=(2, 3)), shared_cpus=(0, 1, 3)), "CPUs 3 are in the shared pool too"),
        (stack(POD), NOTHING),
        (stack(pod({"cpu": "4"}, cpus=(1, 2, 3)), shared_cpus=(0,)), HOLDS),  # sums of a pod
        (stack(of_containers("3", "1", cpus=(1, 2, 3)), shared_cpus=(0,)), HOLDS),
        (stack(of_containers("3", "1", cpus=(1, 2))), "c0: may run on CPUs 1-2, its limit is 3"),
        (stack(pod(cpus=(0, 1, 2, 3)), kubelet=Kubelet(), exclusive=None), NOTHING),
        (stack(pod(cpus=(0, 1, 2, 3)), kubelet=Kubelet()), "its limit is 2"),
        (stack(pod({"cpu": "1500m"}, cpus=(0, 1, 2, 3))), NOTHING),  # K8S001 says it
    ],
    # 1.33 is the first version without a quota on exclusive CPUs; throttling counts.
    "K8S004": [
        (stack(version="1.33"), HOLDS),
        (stack(version="v1.34.4+k3s1"), HOLDS),
        (stack(version="1.32"), "1.32 keeps the CFS quota"),
        (stack(version="1.9"), "1.9 keeps the CFS quota"),
        (stack(of_containers("2", "100m"), version="1.32"), "1.32 keeps the CFS quota"),
        (stack(of_containers("2500m", "500m"), version="1.32"), NOTHING),  # in the shared pool
        (stack(of_containers("2", "100m")), HOLDS),
        (stack(version="1.32", kubelet=replace(STATIC, cpu_cfs_quota=False)), HOLDS),
        (stack(version="1.32", kubelet=Kubelet()), NOTHING),  # a quota is all that it has
        (stack(pod(throttled_periods=0), version="1.32", kubelet=Kubelet()), HOLDS),
        (stack(version="1.32", kubelet=Kubelet(cpu_cfs_quota=False)), HOLDS),
        (stack(pod({"cpu": "1500m"})), NOTHING),  # in the shared pool, with a quota
        (stack(replace(POD, limits={"memory": "10Gi"}), kubelet=Kubelet()), HOLDS),  # no limit
        (stack(pod(throttled_periods=7)), "throttled in 7 periods"),
        (stack(pod(throttled_periods=7), kubelet=None), "throttled in 7 periods"),
        (stack(pod(throttled_periods=0), version=None), NOTHING),  # it may keep the quota
        (stack(pod(throttled_periods=0), kubelet=None), NOTHING),
        (stack(version=None), NOTHING),
        (stack(kubelet=None), NOTHING),
        (stack(replace(POD, database=False)), NOTHING),
    ],
    # Only where cores have several threads and CPUs are exclusive.
    "K8S005": [
        (stack(kubelet=FULL, linux=TWO_THREADS), HOLDS),
        (stack(kubelet=FULL), NOTHING),  # nobody saw how many threads a core has
        (stack(kubelet=STATIC), "full-pcpus-only is off"),
        (stack(pod({"cpu": "3"}), kubelet=FULL), "3 CPUs are no whole cores of 2 threads"),
        (stack(kubelet=FULL, linux=FOUR_THREADS), "2 CPUs are no whole cores of 4 threads"),
        (stack(pod({"cpu": "3"}), linux=replace(LINUX, smt=False)), HOLDS),
        (stack(of_containers("4", "500m"), kubelet=FULL, linux=TWO_THREADS), HOLDS),
        (stack(of_containers("3", "1"), kubelet=FULL), "c0: 3 CPUs are no whole cores"),
        (stack(of_containers("2", "1"), kubelet=FULL), "c1: 1 CPUs are no whole cores"),  # refused
        (stack(of_containers("500m", "1"), kubelet=FULL), "c1: 1 CPUs are no whole cores"),
        (stack(of_containers("500m", "1")), NOTHING),
        (stack(linux=replace(LINUX, smt=None)), NOTHING),
        (stack(kubelet=Kubelet()), NOTHING),
    ],
    # CPUs that are not reserved, memory beside the pool, and huge pages, on one node.
    "K8S006": [
        (stack(kubelet=ONE_NODE), HOLDS),
        (stack(pod({"cpu": "6"}), kubelet=ONE_NODE), HOLDS),
        (stack(pod({"cpu": "7"}), kubelet=ONE_NODE), "no NUMA node has 7 CPUs"),  # 2 are reserved
        (stack(pod({"memory": "18Gi"}), kubelet=ONE_NODE), "18.0 GiB of memory"),
        (stack(pod({"hugepages-2Mi": "8Gi"}), kubelet=ONE_NODE), "8.0 GiB of 2.0 MiB pages"),
        (stack(of_containers("4", "4"), kubelet=ONE_NODE), HOLDS),  # each of them for itself
        (stack(pod({"cpu": "8"}), kubelet=ONE_NODE), "no NUMA node has 8 CPUs"),
        (stack(of_containers("4", "7"), kubelet=ONE_NODE), "c1: no NUMA node has 7 CPUs"),
        (
            stack(
                of_containers("4", "4", limits={"cpu": "8"}),
                kubelet=replace(ONE_NODE, topology_manager_scope="pod"),
            ),
            "pg-1: no NUMA node has 8 CPUs",
        ),
        (stack(kubelet=ONE_NODE, linux=replace(LINUX, nodes=(HALF, NODE))), HOLDS),
        (stack(kubelet=ONE_NODE, linux=replace(LINUX, nodes=(HALF, HALF))), "no NUMA node"),
        (stack(kubelet=ONE_NODE, linux=replace(LINUX, nodes=(UNSEEN,))), NOTHING),
        (stack(kubelet=STATIC), NOTHING),
        (stack(kubelet=ONE_NODE, linux=replace(LINUX, nodes=None)), NOTHING),
    ],
    # Equal, whole, of an offered size, and quantities at all.
    "K8S009": [
        (stack(capacity=CAPACITY), HOLDS),
        (stack(), NOTHING),  # nobody saw what the node offers
        (stack(pod(requests={"hugepages-2Mi": "1Gi"})), "requests 1Gi and limits 6500Mi"),
        (stack(pod({"hugepages-2Mi": "6501Mi"})), "no whole pages"),
        (stack(pod({"hugepages-1Gi": "2Gi"}), capacity=CAPACITY), "offers no hugepages-1Gi"),
        (stack(pod({"hugepages-big": "2Gi"})), "names no page size"),
        (stack(without_pages(memory="4GiB")), "'4GiB', is not a quantity"),
        (stack(of_containers("2", "1", pages="1Mi")), "container c1: 1Mi are no whole pages"),
        (stack(of_containers("2", "much")), "c1: its request of cpu, 'much', is not a quantity"),
        (stack(without_pages()), NOTHING),
    ],
    # Pods and bystanders together; not a pass where bystanders were not seen.
    "K8S011": [
        (stack(non_pod_huge_pages=78), HOLDS),  # 3250 + 78 = 3328
        (stack(non_pod_huge_pages=79), "others hold 79, the pool has 3328"),
        (stack(pod({"hugepages-2Mi": "6658Mi"})), "pods need 3329 pages"),
        (stack(POD, replace(POD, name="pg-2")), "pods need 6500 pages"),
        (stack(), NOTHING),  # who else holds pages was not seen
        (stack(without_pages(), non_pod_huge_pages=0), NOTHING),
        (stack(linux=replace(LINUX, pools=None)), NOTHING),
        (stack(linux=replace(LINUX, huge_page_bytes=None), non_pod_huge_pages=0), NOTHING),
    ],
    # To the page.
    "K8S012": [
        (stack(pod({"hugepages-2Mi": "6354Mi"})), HOLDS),  # 3177 pages
        (stack(pod({"hugepages-2Mi": "6352Mi"})), "3176 pages, 3177 are needed"),
        (stack(of_containers("2", pages="6352Mi")), "c0: 3176 pages, 3177 are needed"),
        (stack(of_containers("2", "1", pages="2Mi")), NOTHING),  # those of its neighbour
        (stack(pod({"hugepages-2Mi": "2Mi"}), postgres=PostgresFacts()), NOTHING),
        (stack(without_pages()), NOTHING),
        (
            stack(
                pod({"hugepages-2Mi": "2Mi"}),
                postgres=replace(POSTGRES, settings={"huge_pages": "off"}),
            ),
            NOTHING,
        ),
    ],
    # The SIGBUS case: try is PostgreSQL's default, a pool makes it deadly.
    "K8S013": [
        (stack(), HOLDS),
        (stack(without_pages()), "huge_pages = on, no limit of huge pages, and the node has 3328"),
        (stack(without_pages(), postgres=replace(POSTGRES, settings={})), "huge_pages = try"),
        (stack(without_pages(), postgres=None, cluster=TRIES), "huge_pages = try"),
        (stack(of_containers("2", pages="6500Mi")), HOLDS),
        (stack(of_containers("2", "1", pages="6500Mi")), "c0: huge_pages = on, no limit"),
        (stack(without_pages(), postgres=OFF), HOLDS),
        (stack(without_pages(), linux=replace(LINUX, pools=(replace(POOL, total=0),))), HOLDS),
        (stack(without_pages(), postgres=None), NOTHING),
        (stack(without_pages(), linux=replace(LINUX, pools=None)), NOTHING),
    ],
    # What the node says, else its memory less pool and reservations.
    "K8S015": [
        (stack(), HOLDS),  # 24 - 6.5 - 2 GiB are left
        (stack(pod({"memory": "15872Mi"})), HOLDS),
        (stack(pod({"memory": "15873Mi"})), "15.5 GiB are left"),
        (stack(allocatable={"memory": "10Gi"}), HOLDS),
        (stack(allocatable={"memory": "10239Mi"}), "pods ask for 10.0 GiB"),
        (stack(pod({"memory": "15873Mi"}), kubelet=reserving("2036Mi")), HOLDS),
        (stack(linux=replace(LINUX, memory_bytes=None)), NOTHING),
        (stack(pods=()), NOTHING),
    ],
}


@pytest.mark.parametrize(("code", "facts", "told"), rows_of(SAID))
def test_a_rule_says_what_is_wrong(code: str, facts: StackFacts, told: str) -> None:
    """On both sides of its limit, and where there is nothing to judge."""
    assert told in said(code, facts)


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"shared_buffers": "6GB", "huge_pages": "on", "wal_level": "replica"}, HOLDS),
        ({}, HOLDS),
        ({"archive_mode": "off"}, "archive_mode belongs to the operator"),
        ({"allow_alter_system": "on"}, "the operator overwrites allow_alter_system"),
        ({"max_connections": 200}, "max_connections: 200 is no text"),
        ({"huge_pages": True}, "huge_pages: True is no text"),
    ],
)
def test_the_operators_parameters_stay_its_own(parameters: Mapping[str, object], told: str) -> None:
    """CNPG001: what the webhook refuses, what the operator overwrites, what is no text."""
    assert told in said("CNPG001", stack(cluster=ClusterFacts(parameters=parameters)))


def test_what_a_plan_sets_is_not_fixed() -> None:
    """The list of today: huge_pages and wal_level are the user's, the socket's place is not."""
    assert not REFUSED & {"huge_pages", "wal_level", "full_page_writes", "shared_buffers"}
    assert {"unix_socket_directories", "port", "ssl", "restart_after_crash"} <= REFUSED


@pytest.mark.parametrize(
    ("parameters", "logical", "told"),
    [
        ({"wal_level": "replica"}, None, HOLDS),
        ({}, None, "left at the operator's default"),
        ({}, False, "left at the operator's default"),
        ({"wal_level": "logical"}, None, "wal_level is logical"),
        ({}, True, NOTHING),
    ],
)
def test_wal_is_logical_only_where_it_is_decoded(
    *, parameters: Mapping[str, object], logical: bool | None, told: str
) -> None:
    """CNPG002: the operator's default is logical."""
    facts = stack(cluster=ClusterFacts(parameters=parameters))
    assert told in said("CNPG002", replace(facts, intent=Intent(logical_decoding=logical)))


@pytest.mark.parametrize(
    ("code", "cluster", "told"),
    [
        ("CNPG003", ClusterFacts(instances=3, anti_affinity="required"), HOLDS),
        ("CNPG003", ClusterFacts(instances=2), "2 instances with podAntiAffinityType preferred"),
        ("CNPG003", ClusterFacts(instances=1), NOTHING),
        ("CNPG004", ClusterFacts(instances=3), HOLDS),
        ("CNPG004", ClusterFacts(instances=1, disruption_budget=False), HOLDS),
        ("CNPG004", ClusterFacts(instances=1), "single instance"),
        ("CNPG004", ClusterFacts(instances=3, disruption_budget=False), "3 instances without"),
    ],
)
def test_instances_live_apart_and_end_one_by_one(
    code: str, cluster: ClusterFacts, told: str
) -> None:
    """CNPG003 and CNPG004: both need to know how many there are."""
    assert told in said(code, stack(cluster=cluster))
