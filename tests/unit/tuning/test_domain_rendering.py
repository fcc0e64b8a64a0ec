"""Rendered domains: valid by libvirt's schema, read back as designed; patches change no more."""

import difflib
import shutil
import subprocess
from pathlib import Path

import pytest

from fakes import stack_designs
from steelyard.core.findings import Severity, State
from steelyard.core.stack import DomainDesign, GuestCell, StackFacts
from steelyard.core.wording import GIB, MIB, InputError
from steelyard.tuning.facts.domain_xml import domain_facts
from steelyard.tuning.files.domain import domain_xml, patch_domain
from steelyard.tuning.rules.catalogue import judge
from support.lacking import lacking

RECORDED = Path(__file__).parents[2] / "recordings" / "libvirt"

DESIGNS = {
    "locked": stack_designs.domain(),
    "amd": stack_designs.domain(amd=True),
    "emulated": stack_designs.domain(emulated=True, hard_limit_bytes=None),
    "two-cells": stack_designs.domain(nodes=(0, 1), threads=1),
    "arm": stack_designs.domain(architecture="aarch64", threads=1),
    "bare": stack_designs.domain(io_thread_pins=(), disks=(), bridge=None, hard_limit_bytes=None),
    "uneven": stack_designs.domain(vcpu_pins=(8, 9, 10), threads=2),
}


@pytest.fixture(params=DESIGNS)
def a_design(request: pytest.FixtureRequest) -> DomainDesign:
    """Return each design in turn."""
    return DESIGNS[request.param]


def validate(xml: str, folder: Path) -> None:
    """Check XML by libvirt's own schema."""
    program = shutil.which("virt-xml-validate")
    if program is None:
        lacking("virt-xml-validate is not installed (Debian: libvirt-clients, libxml2-utils)")
    path = folder / "domain.xml"
    path.write_text(xml, encoding="utf-8")
    done = subprocess.run(
        [program, str(path), "domain"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_domain_validates(a_design: DomainDesign, tmp_path: Path) -> None:
    """The schema of libvirt knows every element that is rendered, where it is rendered."""
    validate(domain_xml(a_design), tmp_path)


def test_every_patched_domain_validates(a_design: DomainDesign, tmp_path: Path) -> None:
    """So it does after a change of a domain that was there."""
    existing = (RECORDED / "rendered.dumpxml.xml").read_text(encoding="utf-8")
    kvm = existing.replace("type='test'", "type='kvm'", 1)
    validate(patch_domain(kvm, a_design), tmp_path)


def test_what_was_designed_is_read_back(a_design: DomainDesign) -> None:
    """Reading the XML gives the pins, the memory and the pages of the design."""
    facts = domain_facts(domain_xml(a_design))

    assert facts.vcpus == len(a_design.vcpu_pins)
    assert facts.vcpu_pins == {at: (cpu,) for at, cpu in enumerate(a_design.vcpu_pins)}
    assert facts.emulator_pins == a_design.emulator_pins
    assert facts.io_thread_pins == a_design.io_thread_pins
    assert facts.memory_bytes == a_design.memory_bytes
    assert sum(cell.memory_bytes for cell in facts.cells) == a_design.memory_bytes
    assert all(cell.memory_bytes % a_design.page_bytes == 0 for cell in facts.cells)
    assert (facts.memory_mode, facts.memory_nodes) == ("strict", a_design.nodes)
    assert facts.huge_page_bytes == a_design.page_bytes
    assert facts.locked == (a_design.hard_limit_bytes is not None)
    assert facts.hard_limit_bytes == a_design.hard_limit_bytes
    assert facts.balloon == "none"
    assert {disk.cache for disk in facts.disks} <= {"none"}
    assert len(facts.disks) == len(a_design.disks)


@pytest.mark.parametrize("name", ["locked", "amd", "arm", "bare"])
def test_no_rule_objects_to_a_rendered_domain(name: str) -> None:
    """Judged as a running domain that kept all of it, it violates no rule but those that inform."""
    xml = domain_xml(DESIGNS[name])
    facts = StackFacts(domains=(domain_facts(xml, xml),))
    judged = {each.code: each for each in judge(facts)}
    violated = {code for code, each in judged.items() if each.state is State.VIOLATED}

    assert {code for code in violated if judged[code].severity is not Severity.INFO} == set()
    assert judged["KVM001"].state is judged["KVM007"].state is State.HOLDS


def test_cells_share_cpus_and_pages() -> None:
    """Two nodes give two cells with half of the CPUs and of the pages each, odd ones first."""
    facts = domain_facts(
        domain_xml(stack_designs.domain(nodes=(0, 1), memory_bytes=8 * GIB + 2 * MIB))
    )
    assert facts.cells == (
        GuestCell(
            number=0,
            memory_bytes=4 * GIB + 2 * MIB,
            cpus=(0, 1),
            memory_mode="strict",
            memory_nodes=(0,),
        ),
        GuestCell(
            number=1,
            memory_bytes=4 * GIB,
            cpus=(2, 3),
            memory_mode="strict",
            memory_nodes=(1,),
        ),
    )


def test_siblings_are_shown() -> None:
    """Whole cores are shown as such; on AMD that takes a feature; an odd number shows none."""
    assert domain_facts(domain_xml(DESIGNS["locked"])).threads_per_core == 2
    assert "topoext" in domain_facts(domain_xml(DESIGNS["amd"])).features
    assert "topoext" not in domain_facts(domain_xml(DESIGNS["locked"])).features
    assert domain_facts(domain_xml(DESIGNS["uneven"])).threads_per_core == 1


def test_an_emulated_machine_asks_for_no_kvm() -> None:
    """Under TCG there is no host-passthrough and no polling hint; with KVM there are both."""
    emulated = domain_facts(domain_xml(DESIGNS["emulated"]))
    native = domain_facts(domain_xml(DESIGNS["locked"]))

    assert (emulated.cpu_mode, native.cpu_mode) == ("maximum", "host-passthrough")
    assert "hint-dedicated" not in emulated.features
    assert {"hint-dedicated", "poll-control"} <= set(native.features)
    assert domain_xml(DESIGNS["emulated"]).find("type='qemu'") > 0


def test_libvirt_keeps_all_of_it() -> None:
    """Today's rendering is still the recorded one, which libvirt kept in full."""
    recorded = (RECORDED / "rendered.xml").read_text(encoding="utf-8")
    assert domain_xml(DESIGNS["locked"]).replace("type='kvm'", "type='test'", 1) == recorded


def test_a_patch_of_what_fits_changes_nothing() -> None:
    """A domain that is as planned stays to the letter as libvirt prints it."""
    existing = (RECORDED / "rendered.dumpxml.xml").read_text(encoding="utf-8")
    assert patch_domain(existing, stack_designs.domain()) == existing


def test_a_patch_changes_what_the_plan_says() -> None:
    """Other pins are changed line by line; nothing else of the file moves."""
    existing = (RECORDED / "rendered.dumpxml.xml").read_text(encoding="utf-8")
    patched = patch_domain(existing, stack_designs.domain(vcpu_pins=(8, 24, 10, 26)))
    diff = difflib.unified_diff(existing.splitlines(), patched.splitlines(), n=0)
    changed = [line for line in list(diff)[2:] if not line.startswith("@")]
    assert changed == [
        "-  <vcpu placement='static' cpuset='8-9,24-25'>4</vcpu>",
        "+  <vcpu placement='static' cpuset='8,10,24,26'>4</vcpu>",
        "-    <vcpupin vcpu='2' cpuset='9'/>",
        "-    <vcpupin vcpu='3' cpuset='25'/>",
        "+    <vcpupin vcpu='2' cpuset='10'/>",
        "+    <vcpupin vcpu='3' cpuset='26'/>",
    ]


EXISTING = """\
<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>pg</name>
  <!-- mine -->
  <memory unit='GiB'>4</memory>
  <memballoon model='none'/>
  <vcpu current='1'>2</vcpu>
  <vcpus><vcpu id='0' enabled='yes'/><vcpu id='1' enabled='no'/></vcpus>
  <iothreads>2</iothreads>
  <cputune><shares>2048</shares><vcpupin vcpu='0' cpuset='0-3'/></cputune>
  <memoryBacking><source type='memfd'/><access mode='shared'/></memoryBacking>
  <cpu mode='custom' match='exact'>
    <model>Skylake-Server</model>
    <feature policy='disable' name='arch-capabilities'/>
    <numa><cell id='0' cpus='0-1' memory='4' unit='GiB' memAccess='shared'/></numa>
  </cpu>
  <devices>
    <disk type='file'><driver cache='unsafe'/><target dev='vda' bus='virtio'/></disk>
    <disk type='file'><driver cache='writeback'/><target dev='sda' bus='sata'/></disk>
    <memballoon model='virtio'><address type='pci'/></memballoon>
  </devices>
  <qemu:commandline><qemu:arg value='-s'/></qemu:commandline>
</domain>
"""


def test_a_patch_keeps_what_is_the_user_s_own() -> None:
    """Shares, shared memory, other features, comments and QEMU's own arguments stay."""
    patched = patch_domain(EXISTING, stack_designs.domain())

    for kept in (
        "xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'",
        "<!-- mine -->",
        "<shares>2048</shares>",
        "<source type='memfd'/>",
        "<feature policy='disable' name='arch-capabilities'/>",
        "memAccess='shared'",
        "<qemu:arg value='-s'/>",
        "<driver cache='writeback'/>",
    ):
        assert kept in patched


def test_a_patch_takes_away_what_contradicts_the_plan() -> None:
    """The balloon, a cache without flushes, the model of the CPU and CPUs that are off go."""
    patched = patch_domain(EXISTING, stack_designs.domain())
    facts = domain_facts(patched)

    assert patched.count("memballoon") == 1
    assert facts.balloon == "none"
    assert [disk.cache for disk in facts.disks] == ["none", "writeback"]
    assert (facts.cpu_mode, facts.vcpus, facts.memory_bytes) == ("host-passthrough", 4, 8 * GIB)
    assert not any(word in patched for word in ("Skylake", "<vcpus>", "current=", "match="))
    assert [f"iothread='{at}'" in patched for at in (1, 2, 3)] == [True, True, False]
    assert patched.count("iothread='1' cpuset='15,31'") == 1


def test_a_patch_unlocks_where_the_plan_does_not_lock() -> None:
    """Memory that the plan does not lock is not left locked without a limit of the plan's."""
    existing = domain_xml(stack_designs.domain())
    patched = patch_domain(existing, stack_designs.domain(hard_limit_bytes=None))
    assert not domain_facts(patched).locked


def test_named_io_threads_are_pinned_by_their_names() -> None:
    """I/O threads with numbers of their own are pinned by these, the others by the free ones."""
    existing = EXISTING.replace(
        "<iothreads>2</iothreads>",
        "<iothreads>2</iothreads><iothreadids><iothread id='7'/></iothreadids>",
    )
    patched = patch_domain(existing, stack_designs.domain())
    assert "iothread='7' cpuset" in patched
    assert "iothread='1' cpuset" in patched
    assert "iothread='2' cpuset" not in patched


def test_another_domain_is_not_touched() -> None:
    """The XML of a domain with another name is refused, and the way out is told."""
    with pytest.raises(InputError, match=r"`pg`.*`other`") as refused:
        patch_domain(EXISTING, stack_designs.domain(name="other"))
    assert "--name pg" in refused.value.hint
    modules = EXISTING.replace("</devices>", "<memory model='dimm'/></devices>")
    with pytest.raises(InputError, match="memory modules"):
        patch_domain(modules, stack_designs.domain(name="pg"))
