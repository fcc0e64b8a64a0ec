"""What a domain's XML is read as; and rendered domains, valid and read back as designed."""

import difflib
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import stack_designs
from steelyard.core.findings import Severity, State
from steelyard.core.stack import DomainDesign, DomainDisk, GuestCell, StackFacts
from steelyard.core.wording import GIB, KIB, MIB, InputError
from steelyard.tuning.facts.domain_xml import (
    as_bytes,
    domain_facts,
    domain_text,
    numbers,
    parse_domain,
)
from steelyard.tuning.files.files import domain_xml, patch_domain
from steelyard.tuning.rules.catalogue import judge
from support.domain_cases import DEFINED, PARTS
from support.lacking import lacking

RECORDED = Path(__file__).parents[2] / "recordings" / "libvirt"


def recorded(name: str) -> str:
    """Return a recorded domain XML."""
    return (RECORDED / name).read_text(encoding="utf-8")


def a_domain(inner: str = "", *, attributes: str = "") -> str:
    """Return a small domain with more in it."""
    return f"<domain type='kvm'{attributes}><name>a</name><memory>1024</memory>{inner}</domain>"


def test_all_facts_of_a_dumped_domain() -> None:
    """What libvirt printed is read in full: pins, cells, pages, limits, disks, balloon."""
    facts = domain_facts(recorded("rendered.dumpxml.xml"))

    assert (facts.name, facts.vcpus, facts.running) == ("pg", 4, False)
    assert facts.vcpu_pins == {0: (8,), 1: (24,), 2: (9,), 3: (25,)}
    assert (facts.emulator_pins, facts.io_thread_pins) == ((14, 30), (15, 31))
    assert facts.memory_bytes == 8 * GIB
    (cell,) = facts.cells
    assert (cell.number, cell.memory_bytes, cell.cpus) == (0, 8 * GIB, (0, 1, 2, 3))
    assert (cell.memory_mode, cell.memory_nodes) == ("strict", (1,))
    assert (facts.memory_mode, facts.memory_nodes) == ("strict", (1,))
    assert (facts.huge_page_bytes, facts.locked) == (2 * MIB, True)
    assert facts.hard_limit_bytes == 10 * GIB
    assert (facts.balloon, facts.cpu_mode) == ("none", "host-passthrough")
    assert facts.threads_per_core == 2
    assert {"hint-dedicated", "poll-control", "acpi"} <= set(facts.features)
    assert facts.disks[0] == DomainDisk(device="vda", cache="none", io="native")
    assert facts.lost_elements is None


def test_what_is_not_said_is_libvirt_s_default() -> None:
    """Ordinary pages, a virtio balloon, one thread per core, no pins: as libvirt makes them."""
    facts = domain_facts(a_domain())

    assert (facts.vcpus, facts.balloon, facts.threads_per_core) == (1, "virtio", 1)
    assert (facts.huge_page_bytes, facts.locked, facts.hard_limit_bytes) == (None, False, None)
    assert (facts.memory_mode, facts.memory_nodes, facts.cpu_mode) == (None, (), None)
    assert facts.vcpu_pins == {}


CELLS = (
    "<cpu><numa><cell id='0' cpus='0' memory='512'/><cell id='1' cpus='1' memory='512'/></numa>"
    "</cpu>"
)


def test_each_cell_has_the_nodes_of_its_memnode() -> None:
    """Bound by id and not by order; one without a memnode has none of its own."""
    crossed = (
        "<memnode cellid='1' mode='preferred' nodeset='0'/><memnode cellid='0' nodeset='1-2'/>"
    )
    first, second = domain_facts(a_domain(f"{CELLS}<numatune>{crossed}</numatune>")).cells
    assert (first.memory_nodes, first.memory_mode) == ((1, 2), "strict")
    assert (second.memory_nodes, second.memory_mode) == ((0,), "preferred")


def test_a_domain_is_bound_where_all_of_its_cells_are() -> None:
    """One bound cell of two says nothing of the other's memory."""
    one = "<numatune><memnode cellid='0' nodeset='1'/></numatune>"
    facts = domain_facts(a_domain(CELLS + one))
    assert facts.memory_nodes == ()
    assert [cell.memory_nodes for cell in facts.cells] == [(1,), ()]
    both = one.replace("</numatune>", "<memnode cellid='1' nodeset='0'/></numatune>")
    assert domain_facts(a_domain(CELLS + both)).memory_nodes == (0, 1)


def test_without_a_pin_the_cpuset_of_the_domain_counts() -> None:
    """Virtual CPUs, emulator and I/O threads run there unless they are pinned or numad chooses."""
    pin = "<cputune><vcpupin vcpu='1' cpuset='6'/></cputune>"
    facts = domain_facts(a_domain(f"<vcpu cpuset='4-5'>2</vcpu><iothreads>1</iothreads>{pin}"))
    assert facts.vcpu_pins == {0: (4, 5), 1: (6,)}
    assert (facts.emulator_pins, facts.io_thread_pins) == ((4, 5), (4, 5))
    auto = domain_facts(a_domain("<vcpu placement='auto' cpuset='4-5'>2</vcpu>"))
    assert (auto.vcpu_pins, auto.emulator_pins) == ({}, ())
    assert domain_facts(a_domain("<vcpu cpuset='4-5'>2</vcpu>")).io_thread_pins == ()


def test_only_a_domain_with_an_id_runs() -> None:
    """The id that libvirt gives to running domains makes the difference."""
    assert domain_facts(a_domain(attributes=" id='3'")).running
    assert not domain_facts(a_domain()).running


@pytest.mark.parametrize(
    ("inner", "default", "size"),
    [
        ("<hugepages/>", 512 * MIB, 512 * MIB),
        ("<hugepages><page size='1' unit='G'/></hugepages>", 2 * MIB, GIB),
        ("<hugepages><page size='2048'/></hugepages>", GIB, 2 * MIB),
    ],
)
def test_page_size(inner: str, default: int, size: int) -> None:
    """A named size counts, in KiB where no unit is named; without one the host's default."""
    xml = a_domain(f"<memoryBacking>{inner}</memoryBacking>")
    assert domain_facts(xml, huge_page_bytes=default).huge_page_bytes == size


def test_switched_off_features_are_none() -> None:
    """A feature with state off, or a CPU feature that is disabled, is not told."""
    facts = domain_facts(
        a_domain(
            "<features><acpi/><pmu state='off'/><kvm><poll-control state='on'/>"
            "<hint-dedicated state='off'/></kvm></features>"
            "<cpu><feature policy='disable' name='svm'/><feature name='topoext'/></cpu>"
        )
    )
    assert facts.features == ("acpi", "poll-control", "topoext")


def test_no_limit_is_no_limit() -> None:
    """The number by which libvirt means that there is no limit is not read as one."""
    xml = a_domain("<memtune><hard_limit unit='KiB'>9007199254740991</hard_limit></memtune>")
    assert domain_facts(xml).hard_limit_bytes is None


def test_memory_of_the_cells_where_none_is_said() -> None:
    """Libvirt adds up the cells; a domain without both is refused."""
    cells = "<cpu><numa><cell memory='2' unit='GiB'/><cell memory='1' unit='GiB'/></numa></cpu>"
    facts = domain_facts(f"<domain><name>a</name>{cells}</domain>")

    assert facts.memory_bytes == 3 * GIB
    assert [cell.number for cell in facts.cells] == [0, 1]
    with pytest.raises(InputError, match="how much memory"):
        domain_facts("<domain><name>a</name></domain>")


@pytest.mark.parametrize("name", PARTS)
def test_each_part_of_the_memory_has_its_own_pages(name: str) -> None:
    """Cells, modules, else the whole; the memory is that of the cells and modules."""
    facts = domain_facts(DEFINED[name])
    sizes = {"4K": None, "2M": 2 * MIB, "1G": GIB}
    parts = [part.split() for part in PARTS[name].split(", ")]
    read = [(-(-p.memory_bytes // MIB), p.huge_page_bytes) for p in facts.memory_parts.values()]
    assert read == [(int(count), sizes[page]) for count, page in parts]
    assert -(-facts.memory_bytes // MIB) == sum(int(count) for count, _ in parts)
    assert sum(facts.huge_bytes.values()) <= facts.memory_bytes


@pytest.mark.parametrize(
    "name", ["a module on a node of its own", "a module beside a bound cell", "modules apart"]
)
def test_a_module_with_nodes_of_its_own_is_bound_strictly(name: str) -> None:
    """Unless its cell or the domain has another mode; without nodes it is not bound."""
    module = domain_facts(DEFINED[name]).memory_parts["memory module 0"]
    assert (module.memory_mode, module.memory_nodes) == {"modules apart": (None, ())}.get(
        name, ("strict", (0,))
    )


def test_virtual_cpus_of_no_cell_are_in_the_first_one() -> None:
    """Libvirt puts them there; cells are told in the order of their numbers."""
    (first, second) = domain_facts(DEFINED["virtual CPUs in no cell"]).cells
    assert (first.cpus, second.cpus) == ((0, 1), (2, 3))
    crossed = domain_facts(DEFINED["cells in another order"]).cells
    assert [(cell.number, cell.cpus) for cell in crossed] == [(0, (2, 3)), (1, (0, 1))]


def test_cdroms_are_no_disks() -> None:
    """Only what holds data is judged by its cache."""
    xml = a_domain(
        "<devices><disk device='cdrom'><target dev='sda'/></disk>"
        "<disk><driver cache='unsafe'/><target dev='vda'/></disk></devices>"
    )
    assert domain_facts(xml).disks == (DomainDisk(device="vda", cache="unsafe"),)


def test_the_misplaced_balloon_is_told_as_lost() -> None:
    """The published element outside of <devices> vanished, and a balloon is there after all."""
    facts = domain_facts(
        recorded("misplaced-balloon.dumpxml.xml"), recorded("misplaced-balloon.xml")
    )
    assert facts.lost_elements == ("memballoon[@model='none']",)
    assert facts.balloon == "virtio"


def test_what_libvirt_only_writes_otherwise_is_not_lost() -> None:
    """Units, order, machine types and what libvirt adds by itself are no losses."""
    kept = recorded("rendered.dumpxml.xml")
    assert domain_facts(kept, recorded("rendered.xml")).lost_elements == ()


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        ("<vcpupin vcpu='2' cpuset='9'/>", "", "cputune/vcpupin[@vcpu='2'][@cpuset='9']"),
        ("cpuset='14,30'", "cpuset='14'", "cputune/emulatorpin@cpuset='14,30' (is '14')"),
        ("<locked/>", "", "memoryBacking/locked"),
        ("8388608</memory>", "8388609</memory>", "memory='8388608' (is '8388609')"),
        (" cache='none'", "", "devices/disk[vda]/driver@cache='none'"),
    ],
)
def test_each_loss_is_told_alone(before: str, after: str, lost: str) -> None:
    """One thing taken from what was kept is one loss, and drags no neighbour along."""
    kept = recorded("rendered.dumpxml.xml").replace(before, after, 1)
    assert domain_facts(kept, recorded("rendered.xml")).lost_elements == (lost,)


def test_a_machine_type_may_become_longer_but_not_another() -> None:
    """``q35`` becomes ``pc-q35-7.2``; ``virt`` does not."""
    asked = a_domain("<os><type machine='q35'>hvm</type></os>")
    longer = asked.replace("q35", "pc-q35-7.2")
    other = asked.replace("q35", "virt-7.2")
    assert domain_facts(longer, asked).lost_elements == ()
    assert domain_facts(other, asked).lost_elements == ("os/type@machine='q35' (is 'virt-7.2')",)


@pytest.mark.parametrize(
    ("xml", "word"),
    [
        ("<!DOCTYPE domain [<!ENTITY a 'b'>]><domain>&a;</domain>", "document type"),
        ("<domain><name>a</domain>", "cannot be read"),
        ("", "cannot be read"),
        ("<network/>", "<network>"),
        ("<domain>" + "<a>" * 100 + "</a>" * 100 + "</domain>", "deep"),
        (a_domain("<vcpu>many</vcpu>"), "`many`"),
        (a_domain("<memtune><hard_limit unit='GiB'>x</hard_limit></memtune>"), "`x GiB`"),
        (a_domain("<cputune><vcpupin vcpu='0' cpuset='a-b'/></cputune>"), "`a-b`"),
    ],
)
def test_what_is_no_domain_is_refused(xml: str, word: str) -> None:
    """Document types, broken XML, other documents, impossible numbers: each is named."""
    with pytest.raises(InputError, match=word):
        domain_facts(xml)


@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda raw: raw.decode("latin-1")))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text of a stranger ends in anything but facts or a refusal."""
    for xml in (text, f"<domain>{text}</domain>", a_domain(text)):
        with suppress(InputError):
            assert domain_facts(xml, a_domain()).memory_bytes >= 0


def test_libvirt_s_text_survives_reading_and_writing() -> None:
    """A tree written back is what libvirt printed, quotes, order and comments included."""
    text = recorded("rendered.dumpxml.xml")
    assert domain_text(parse_domain(text)) == text
    odd = "<domain a='1 &apos;&lt;&#10;'><!-- kept -->x &amp; y<qemu:arg value='\"'/></domain>\n"
    assert domain_text(parse_domain(odd)) == odd


@pytest.mark.parametrize(
    ("unit", "factor"),
    [
        *((None, KIB), ("b", 1), ("bytes", 1), ("KB", 1000), ("k", KIB), ("kib", KIB)),
        *(("MiB", MIB), ("G", GIB), ("GB", 10**9), ("t", 1024 * GIB), (" MiB ", MIB)),
    ],
)
def test_units_of_libvirt(unit: str | None, factor: int) -> None:
    """The units of libvirt's documentation, KiB where there is none."""
    assert as_bytes("3072", unit) == 3072 * factor


@pytest.mark.parametrize("number", ["1.5", "-3", "", "3 GiB", "0x10", "1e3", "³"])
def test_what_is_no_amount_is_refused(number: str) -> None:
    """Libvirt takes whole numbers alone; it rounds up what is no whole KiB."""
    with pytest.raises(InputError, match="is no amount of memory"):
        as_bytes(number, "MiB")
    with pytest.raises(InputError, match="is no amount of memory"):
        as_bytes("3", "XiB")
    assert as_bytes(" 1025 ", "b") == 2 * KIB


def test_what_stands_around_a_domain_changes_nothing() -> None:
    """Declaration, comments, the namespace of QEMU; a balloon elsewhere is none of the devices."""
    plain = a_domain("<devices><memballoon model='none'/></devices>")
    told = plain.replace("<domain ", "<domain xmlns:qemu='http://libvirt.org/schemas/qemu' ")
    told = told.replace("</domain>", "<qemu:commandline/><memballoon model='virtio'/></domain>")
    head = "<?xml version='1.0' encoding='UTF-8'?><!-- of virsh edit -->"
    assert domain_facts(head + told) == domain_facts(plain)
    with pytest.raises(InputError, match="<domainsnapshot>"):
        domain_facts(f"<domainsnapshot>{plain}</domainsnapshot>")


def test_numbers_may_be_excluded() -> None:
    """A caret takes a number out of what was said before it."""
    assert numbers("8-11,^9") == (8, 10, 11)
    assert numbers(None) == ()


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
            number=1, memory_bytes=4 * GIB, cpus=(2, 3), memory_mode="strict", memory_nodes=(1,)
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
