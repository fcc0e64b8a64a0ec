"""A guest of two NUMA nodes: where the recorded topology comes from.

``PYTHONPATH=tests python -m support.two_nodes`` boots it and records its files anew.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from steelyard.core.wording import MIB
from steelyard.gateways.virsh import Domains
from support.huge_pages import more_huge_pages
from support.libvirtd import PREFIX, a_libvirt, guest_directory, running, wait_for
from support.tiny_guest import DONE, told_files

NAME = f"{PREFIX}two-nodes"
RECORDED = Path(__file__).parents[1] / "recordings" / "host" / "two-nodes"
PAGES = (2, 6)  # huge pages that it reserves on each of its nodes
_CELL_MIB = 128
_DROPPED = ("_map", "_cpus", "_siblings", "cpumap", "demote", "demote_size", "compact", "modalias")
_DROPPED_BELOW = ("/cluster_", "/coherency_", "/number_of_sets", "/physical_line", "/ways_of")
# An Intel processor: one of AMD's without topoext would show its threads as cores.
_XML = """
<domain type='qemu'>
  <name>{name}</name>
  <memory unit='MiB'>{memory}</memory>
  <memoryBacking>
    <hugepages><page size='2' unit='MiB' nodeset='0-1'/></hugepages>
    <nosharepages/>
    <allocation mode='immediate'/>
  </memoryBacking>
  <vcpu placement='static'>8</vcpu>
  <os>
    <type arch='x86_64' machine='q35'>hvm</type>
    <kernel>{directory}/vmlinuz</kernel>
    <initrd>{directory}/initrd</initrd>
    <cmdline>console=ttyS0 panic=-1 quiet no_timer_check</cmdline>
  </os>
  <features><acpi/><apic/></features>
  <cpu mode='custom' match='exact' check='none'>
    <model fallback='forbid'>Nehalem</model>
    <topology sockets='2' dies='1' cores='2' threads='2'/>
    <numa>
      <cell id='0' cpus='0-3' memory='{cell}' unit='MiB'>
        <distances><sibling id='0' value='10'/><sibling id='1' value='21'/></distances>
      </cell>
      <cell id='1' cpus='4-7' memory='{cell}' unit='MiB'>
        <distances><sibling id='0' value='21'/><sibling id='1' value='10'/></distances>
      </cell>
    </numa>
  </cpu>
  <on_reboot>destroy</on_reboot>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <serial type='file'><source path='{directory}/console'/><target port='0'/></serial>
    <memballoon model='none'/>
  </devices>
</domain>
"""


@contextmanager
def two_nodes(libvirt: Domains) -> Iterator[dict[str, str]]:
    """Give the files of the guest by path, while it runs."""
    with (
        guest_directory(huge_pages=PAGES, told=True) as directory,
        more_huge_pages(2 * _CELL_MIB * MIB // (2 * MIB)) as provide,
    ):
        xml = _XML.format(name=NAME, directory=directory, cell=_CELL_MIB, memory=2 * _CELL_MIB)
        libvirt.define(xml)
        with running(NAME, provide):
            yield told_files(wait_for(directory / "console", DONE))
        libvirt.undefine(NAME)


def kept(files: dict[str, str]) -> dict[str, str]:
    """Return what is worth recording: no masks beside lists, nothing that reads as nothing."""
    return {
        path: text
        for path, text in files.items()
        if text and not path.endswith(_DROPPED) and not any(part in path for part in _DROPPED_BELOW)
    }


def recorded() -> dict[str, str]:
    """Return the recorded files by path."""
    return {
        f"/{path.relative_to(RECORDED)}": path.read_text()
        for path in RECORDED.rglob("*")
        if path.is_file()
    }


def record() -> None:
    """Boot the guest and write its files."""
    with a_libvirt() as libvirt, two_nodes(libvirt) as files:
        shutil.rmtree(RECORDED, ignore_errors=True)
        for path, text in kept(files).items():
            place = RECORDED / path.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)


if __name__ == "__main__":
    record()
