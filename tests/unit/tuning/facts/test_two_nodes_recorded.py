"""The recorded files of a guest of two NUMA nodes with two threads per core."""

from steelyard.core.wording import MIB
from steelyard.gateways.host import LocalHost
from steelyard.tuning.facts.linux import collect_linux
from support.two_nodes import PAGES, RECORDED


def test_the_topology_of_a_real_kernel_becomes_facts() -> None:
    """Nodes with CPUs, distances, memory and huge pages of their own; cores of two threads."""
    facts, _ = collect_linux(LocalHost(root=RECORDED), None)
    assert facts.nodes is not None
    assert [node.cpus for node in facts.nodes] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert [node.distances for node in facts.nodes] == [(10, 21), (21, 10)]
    assert [pool.total for node in facts.nodes for pool in node.pools if pool.total] == list(PAGES)
    assert facts.siblings == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert (facts.smt, facts.hugetlbfs) == (True, (2 * MIB,))
    pool = facts.pool()
    assert pool is not None
    assert pool.total == sum(PAGES)
    memory = [node.memory_bytes for node in facts.nodes]
    assert None not in memory
    assert sum(each or 0 for each in memory) == facts.memory_bytes
