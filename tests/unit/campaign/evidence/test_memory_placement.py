"""Huge pages and memory nodes of a process: recorded files, and made ones with two nodes."""

from collections import Counter
from pathlib import Path

import pytest

from fakes.host import FakeHost
from steelyard.campaign.evidence.machine import server_levels
from steelyard.campaign.evidence.neighbours import bytes_by_node, huge_bytes, remote_fraction
from steelyard.core.measurement import Quantity, Vantage
from support.recorded_host import RECORDINGS, SERVER, recorded_files, recorded_host

_MIB = 1 << 20
_TWO_NODES = """\
7f22 interleave:0-1 file=/anon_hugepage\\040(deleted) huge dirty=4 N0=3 N1=1 kernelpagesize_kB=2048
7f99 default heap anon=512 dirty=512 active=0 N0=512 kernelpagesize_kB=4
7f9a default file=/lib/x mapped=2 mapmax=15
"""
_SERVER = Vantage(pid=77, data=Path("/srv/data"))


def test_shared_memory_on_huge_pages_counts_whole() -> None:
    """The mapping has 142 MiB, of which the process itself has touched 14: all are huge pages."""
    smaps = (RECORDINGS / "smaps-huge-pages.txt").read_text()
    assert huge_bytes(smaps) == 142 * _MIB


def test_shared_memory_on_usual_pages_is_none_of_it() -> None:
    """A server without huge pages has 0 bytes on them: looked at, and nothing there."""
    assert huge_bytes(recorded_files()[f"/proc/{SERVER}/smaps"]) == 0


def test_transparent_huge_pages_of_shared_memory_count() -> None:
    """Shared memory that the kernel put on huge pages by itself; private memory does not."""
    mapping = "{} rw-{} 00000000 00:01 7  /dev/zero\nSize: 9216 kB\nKernelPageSize: 4 kB\n"
    smaps = (
        mapping.format("7f00-7f01", "s")
        + "ShmemPmdMapped:  6144 kB\n"
        + mapping.format("7f02-7f03", "p")
        + "ShmemPmdMapped:  2048 kB\n"
    )
    assert huge_bytes(smaps) == 6 * _MIB


def test_pages_count_with_their_size() -> None:
    """A huge page on a node weighs as much as 512 usual ones."""
    nodes = bytes_by_node(_TWO_NODES)
    assert nodes == Counter({0: 8 * _MIB, 1: 2 * _MIB})
    assert remote_fraction(nodes) == pytest.approx(0.2)
    assert remote_fraction(Counter()) is None


def _levels(nodes: int, **files: str) -> tuple[dict[Quantity, float], dict[str, str]]:
    made = {f"/sys/devices/system/node/node{n}/meminfo": "" for n in range(nodes)}
    made |= {"/sys/devices/system/node/possible": "0-1\n", "/srv/data/x": ""}
    host = FakeHost(files={**made, **{f"/proc/77/{name}": text for name, text in files.items()}})
    levels, absent = server_levels(host, _SERVER)
    return levels, {absence.subject: absence.reason for absence in absent}


def test_two_nodes_have_a_remote_part() -> None:
    """A machine with two nodes shows which part of the server is away from most of it."""
    levels, absent = _levels(2, numa_maps=_TWO_NODES)
    assert levels[Quantity.SERVER_REMOTE_NODE_FRACTION] == pytest.approx(0.2)
    assert "memory nodes of the server" not in absent


def test_a_closed_file_is_an_absence_and_one_node_is_none() -> None:
    """One node has no remote part, a fact; a file that may not be read has an unknown one."""
    for nodes, words in ((1, []), (2, ["root alone"])):
        levels, absent = _levels(nodes)
        assert Quantity.SERVER_REMOTE_NODE_FRACTION not in levels
        told = [text for subject, text in absent.items() if subject == "memory nodes of the server"]
        assert len(told) == len(words)
        assert all(word in text for word, text in zip(words, told, strict=True))


def test_a_recorded_server_has_all_other_levels() -> None:
    """Huge pages of machine and server, and the disk, from one machine's files."""
    host = recorded_host()
    levels, absent = server_levels(host, Vantage(pid=SERVER, data=Path("/srv/data")))
    assert levels[Quantity.SERVER_HUGE_BYTES] == levels[Quantity.HUGE_PAGES] == 0
    assert levels[Quantity.DISK_FREE_BYTES] == 400
    assert levels[Quantity.DISK_BYTES] == 1000
    assert absent == ()
