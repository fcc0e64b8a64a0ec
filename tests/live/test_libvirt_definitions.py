"""What libvirt makes of memory, cells and page sizes, and what a guest of two nodes says."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path

import pytest

from steelyard.core.stack import DomainFacts
from steelyard.core.wording import GIB, MIB
from steelyard.tuning.facts.domain_xml import domain_facts
from support.domain_cases import DEFINED, REFUSED
from support.lacking import lacking
from support.libvirtd import PROGRAMS, a_libvirt
from support.two_nodes import PAGES, kept, recorded, two_nodes

pytestmark = pytest.mark.live

_OF_MEMORY = [
    each.name
    for each in fields(DomainFacts)
    if each.name in ("vcpus", "cells", "modules") or each.name.startswith(("memory", "huge"))
]
_BACKEND = re.compile(r"'(\{\"qom-type\":\"memory-backend-[^']*\})'")


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Return what virsh says of each domain: as it is defined, and how QEMU would be started.

    Its mounts are gone before a libvirtd looks for huge pages: QEMU's account may not enter them.
    """
    if any(shutil.which(program) is None for program in PROGRAMS):
        lacking("there is no libvirt (packages libvirt-daemon-system, qemu-system-x86)")
    directory = tmp_path_factory.mktemp("libvirt")
    lines = []
    for name, xml in {**DEFINED, **REFUSED}.items():
        path = directory / name.replace(" ", "-")
        path.write_text(re.sub("<name>.*?</name>", "<name>a</name>", xml))
        lines += [f"echo '#{name}'", f"define {path}", "dumpxml a --inactive"]
        lines += [f"domxml-to-native qemu-argv {path}", "undefine a"]
    with ExitStack() as stack:
        for size in ("2M", "1G"):
            _mount(stack, size, directory / size)
        argv = ["virsh", "-c", f"qemu:///embed?root={directory}/root", "; ".join(lines)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    parts = (part.partition("\n") for part in f"\n{done.stdout}".split("\n#"))
    return {name: text for name, _, text in parts}


def _mount(stack: ExitStack, size: str, directory: Path) -> None:
    directory.mkdir()
    argv = ["mount", "-t", "hugetlbfs", "-o", f"pagesize={size}", "none", str(directory)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        lacking(f"no hugetlbfs of {size} can be mounted (only root can): {done.stderr}")
    stack.callback(subprocess.run, ["umount", str(directory)], check=True)


@pytest.mark.parametrize("name", DEFINED)
def test_memory_is_read_as_libvirt_defines_it(answers: Mapping[str, str], name: str) -> None:
    """A request has the facts that its definition has, whose memory is what libvirt says."""
    defined = re.search("<domain .*</domain>", answers[name], re.DOTALL)
    assert defined, answers[name]
    asked, kept = domain_facts(DEFINED[name]), domain_facts(defined[0])
    for field in _OF_MEMORY:
        assert getattr(asked, field) == getattr(kept, field), field
    said = re.search(r"<memory unit='KiB'>(\d+)</memory>", defined[0])
    assert said
    assert -(-asked.memory_bytes // 1024) == int(said[1])


@pytest.mark.parametrize("name", DEFINED)
def test_pages_are_those_that_qemu_is_started_with(answers: Mapping[str, str], name: str) -> None:
    """Each cell and module has the size, the page size and the nodes of QEMU's backend for it."""
    asked = domain_facts(DEFINED[name])
    found = _BACKEND.findall(answers[name].replace('"memnvdimm', '"memdimm'))
    backends = {each["id"]: each for each in map(json.loads, found)}
    names = {"cell 0": "ram-node0", "cell 1": "ram-node1", "memory": "pc.ram"}
    names |= {f"memory module {number}": f"memdimm{number}" for number in range(2)}
    assert {names[own] for own in asked.memory_parts} == backends.keys()
    for own, part in asked.memory_parts.items():
        backend = backends[names[own]]
        assert -(-part.memory_bytes // MIB) * MIB == backend["size"]
        sizes = {"1G": GIB, "2M": 2 * MIB}
        mounted = [size for at, size in sizes.items() if f"/{at}/" in backend.get("mem-path", "")]
        assert [part.huge_page_bytes] == (mounted or [None])
        assert list(part.memory_nodes) == backend.get("host-nodes", [])
        modes = {"bind": "strict", "preferred": "preferred", None: None}
        assert part.memory_mode == modes[backend.get("policy")]


@pytest.mark.parametrize("name", REFUSED)
def test_what_libvirt_refuses_is_not_defined(answers: Mapping[str, str], name: str) -> None:
    """No answer is needed where there is no domain: these are not among the definitions."""
    assert "<domain " not in answers[name]


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
