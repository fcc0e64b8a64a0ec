"""A real guest of two NUMA nodes: the recorded topology is what a Linux kernel really says."""

from collections.abc import Iterator

import pytest

from support.libvirtd import a_libvirt
from support.two_nodes import PAGES, kept, recorded, two_nodes

pytestmark = pytest.mark.live

_TOPOLOGY = ("/cpulist", "/distance", "_list", "/online", "/smt/active", "/current_driver")


@pytest.fixture(scope="module")
def told() -> Iterator[dict[str, str]]:
    """Boot the guest once and return its files."""
    with a_libvirt() as libvirt, two_nodes(libvirt) as files:
        yield kept(files)


def test_the_recorded_topology_is_that_of_the_guest(told: dict[str, str]) -> None:
    """Nodes, distances and siblings of the recording are those of a guest that boots today."""
    recording = {p: text for p, text in recorded().items() if p.endswith(_TOPOLOGY)}
    assert len(recording) > 40
    assert recording == {p: text for p, text in told.items() if p.endswith(_TOPOLOGY)}


def test_each_node_has_the_pages_that_it_was_asked_for(told: dict[str, str]) -> None:
    """Huge pages are those of a node, in the guest as in the recording."""
    for node, pages in enumerate(PAGES):
        pool = f"/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/nr_hugepages"
        assert [int(files[pool]) for files in (told, recorded())] == [pages, pages]
