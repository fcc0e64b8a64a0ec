"""The door to domains: defined and put back exactly, verified in the process, no other touched."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.domains import FakeDomains
from fakes.host import FakeHost
from steelyard.core.stack import DomainDesign, Knob, KnobKind, Scope
from steelyard.core.wording import KIB, MIB, PreflightError, TargetError
from steelyard.tuning.apply.domain import DomainDoor, dropped, effects
from steelyard.tuning.facts.domain_xml import domain_facts, domain_text, parse_domain
from steelyard.tuning.facts.domains import guest_process
from steelyard.tuning.files.files import domain_xml, patch_domain
from support.guest_files import Guest


def _design(**changes: object) -> DomainDesign:
    return DomainDesign(
        **{
            "name": "guest",
            "memory_bytes": 256 * MIB,
            "vcpu_pins": (0, 1),
            "emulator_pins": (1,),
            "io_thread_pins": (0,),
            "nodes": (0,),
            "emulated": True,
            "bridge": "br0",
            "disks": ("/srv/guest.qcow2",),
            **changes,
        }  # type: ignore[arg-type]
    )


def _knob(xml: str = "", place: str = "guest", **changes: object) -> Knob:
    return Knob(
        name=f"kvm:domain {place}",
        layer="kvm",
        kind=KnobKind.DOMAIN,
        place=place,
        value=xml or domain_xml(_design(**changes)),
        scope=Scope.MACHINE,
    )


def _door(domains: FakeDomains, guest: Guest | None = None) -> DomainDoor:
    return DomainDoor(domains=domains, host=FakeHost(files=(guest or Guest()).files()))


def test_a_domain_is_defined_and_removed_again() -> None:
    """Where nothing was, the snapshot is empty, and reverting leaves nothing but the neighbour."""
    domains = FakeDomains()
    domains.define(domain_xml(_design(name="neighbour")))
    before = dict(domains.defined)
    door, knob = _door(domains), _knob()
    door.require(knob)
    snapshot = door.snapshot(knob)
    door.apply(knob)
    assert door.seen(knob).value == knob.value
    assert door.seen(knob).pending == "the start of guest (virsh start guest)"
    door.revert(knob, snapshot)
    door.revert(knob, snapshot)
    assert domains.defined == before


def test_an_existing_definition_comes_back_exactly() -> None:
    """Its uuid and the address of its network card stay throughout."""
    domains = FakeDomains()
    domains.define(domain_xml(_design(vcpu_pins=(2, 3))))
    former = domains.defined["guest"]
    door, knob = _door(domains), _knob()
    door.require(knob)
    snapshot = door.snapshot(knob)
    door.apply(knob)
    changed = domains.defined["guest"]
    for lasting in ("<uuid>", "<mac "):
        line = next(line for line in former.splitlines() if lasting in line)
        assert line.strip().partition(lasting)[2].partition(">")[0] in changed
    assert domains.defined["guest"] != former
    door.revert(knob, snapshot)
    assert domains.defined["guest"] == former


def test_what_is_defined_already_is_not_defined_again() -> None:
    """A plan that is applied twice touches libvirt once."""
    domains = FakeDomains()
    door, knob = _door(domains), _knob()
    door.apply(knob)
    door.apply(knob)
    assert domains.definitions == 1


def test_what_libvirt_loses_is_a_failure() -> None:
    """An element that is gone after the definition is named."""
    door, knob = _door(FakeDomains(forgets=("cputune",))), _knob()
    with pytest.raises(TargetError, match=r"did not keep all of guest.*cputune"):
        door.apply(knob)


def test_the_definition_that_was_asked_with_less_is_another_one() -> None:
    """A definition with pins that are not asked for is not in effect, though nothing is lost."""
    domains = FakeDomains()
    door = _door(domains)
    door.apply(_knob())
    fewer = _knob(domain_xml(_design()).replace("<emulatorpin cpuset='1'/>", ""))
    check = door.verify(fewer)
    assert check.holds is False
    assert "emulator pins" in check.facts[0]


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"vcpu_pins": (0, 9)}, "no CPU 9, only 0-3"),
        ({"nodes": (5,)}, "no NUMA node 5, only 0-1"),
        ({"page_bytes": 1024 * MIB, "memory_bytes": 1024 * MIB}, "no pages of 1048576 KiB"),
    ],
)
def test_what_could_not_start_is_refused_before(changes: dict[str, object], fact: str) -> None:
    """Libvirt defines all of these, and fails at the start."""
    with pytest.raises(PreflightError, match=fact):
        _door(FakeDomains()).require(_knob(**changes))


def _two_sizes() -> Knob:
    """Return the knob of a domain with a cell on pages of 1 GiB and one on pages of 2 MiB."""
    xml = domain_xml(_design(memory_bytes=2048 * MIB, nodes=(0, 1)))
    page = "<page size='2048' unit='KiB' nodeset='0-1'/>"
    pages = "<page size='1' unit='G' nodeset='0'/><page size='2' unit='M' nodeset='1'/>"
    assert page in xml
    return _knob(xml.replace(page, pages))


def test_each_cell_must_be_whole_pages_of_its_own_size() -> None:
    """Cells of 1 GiB suit both sizes, of which the host must have pages."""
    knob = _two_sizes()
    with pytest.raises(PreflightError) as refused:
        _door(FakeDomains()).require(knob)
    assert "start here: the host has no pages of 1048576 KiB" in refused.value.message
    odd = replace(knob, value=knob.value.replace("'1048576' unit='KiB'", "'350209' unit='KiB'"))
    with pytest.raises(PreflightError) as refused:
        _door(FakeDomains()).require(odd)
    for size in (1048576, 2048):
        assert f"350209 KiB are no multiple of its pages of {size} KiB" in refused.value.message


@pytest.mark.parametrize(
    ("pages", "holds"), [((512, 1024 * 1024), (True, False)), ((2**19, 2048), (False, True))]
)
def test_each_page_size_is_verified_alone(pages: tuple[int, int], holds: tuple[bool, bool]) -> None:
    """Memory of one size is none of the other."""
    count, size_kib = pages
    guest = Guest(memory_bytes=count * size_kib * KIB, page_bytes=size_kib * KIB)
    process = guest_process(FakeHost(files=guest.files()), "guest")
    assert process is not None
    found = [
        check
        for check in effects(domain_facts(_two_sizes().value), process)
        if "are to lie on huge pages" in check.facts[0]
    ]
    assert tuple(check.holds for check in found) == holds
    assert "1024 MiB are to lie on huge pages of 1048576 KiB" in found[0].facts[0]


def test_huge_pages_need_a_mounted_hugetlbfs() -> None:
    """Without one libvirt finds no place for the memory."""
    files = {**Guest().files(), "/proc/mounts": "proc /proc proc rw 0 0\n"}
    door = DomainDoor(domains=FakeDomains(), host=FakeHost(files=files))
    with pytest.raises(PreflightError, match="no hugetlbfs is mounted"):
        door.require(_knob())


def test_another_domain_of_the_same_name_is_refused() -> None:
    """Its disks and cards would be lost, or it has a uuid of its own; nothing is defined."""
    domains = FakeDomains()
    domains.define(domain_xml(_design(disks=("/srv/somebody.qcow2",))))
    before = dict(domains.defined)
    door = _door(domains)
    own = domain_xml(_design(disks=("/srv/somebody.qcow2",)))
    other = own.replace("</name>", "</name><uuid>6ba7b810-9dad-11d1-80b4-00c04fd430c8</uuid>")
    for knob, fact in ((_knob(), "disk /srv/somebody"), (_knob(other), "another domain guest")):
        with pytest.raises(PreflightError, match=fact):
            door.require(knob)
        with pytest.raises(PreflightError, match=fact):
            door.apply(knob)
    assert domains.defined == before


def test_a_network_card_is_not_dropped() -> None:
    """A card with an address of its own is missed when the plan has none."""
    domains = FakeDomains()
    domains.define(domain_xml(_design()))
    with pytest.raises(PreflightError, match="network card 52:54:00"):
        _door(domains).require(_knob(bridge=None))


@pytest.mark.parametrize("xml", ["no XML", domain_xml(_design(name="other"))])
def test_a_knob_for_another_name_is_refused(xml: str) -> None:
    """Only the domain that the knob names is ever defined."""
    domains = FakeDomains()
    with pytest.raises(PreflightError, match="kvm:domain guest"):
        _door(domains).apply(_knob(xml))
    assert not domains.defined


def test_a_password_is_kept_out_of_the_record() -> None:
    """A definition with one is not changed at all: it could not be put back."""
    domains = FakeDomains(secret={"guest"})
    with pytest.raises(PreflightError, match="holds a password"):
        _door(domains).snapshot(_knob())


def test_a_password_is_refused_before_anything_of_the_plan_is_turned() -> None:
    """Not in the middle of it: ``require`` of all knobs comes before the first change."""
    domains = FakeDomains(secret={"guest"})
    domains.define(domain_xml(_design(vcpu_pins=(2, 3))))
    with pytest.raises(PreflightError, match="holds a password"):
        _door(domains).require(_knob())


def test_a_running_domain_that_was_not_there_before_is_not_removed() -> None:
    """Somebody started it: the way out is told."""
    domains = FakeDomains()
    door, knob = _door(domains), _knob()
    door.apply(knob)
    domains.start("guest")
    with pytest.raises(TargetError, match="guest runs"):
        door.revert(knob, "")
    assert "guest" in domains.defined


def test_a_domain_that_somebody_gave_a_disk_is_not_removed() -> None:
    """A definition that has grown is no longer only ours."""
    domains = FakeDomains()
    door, knob = _door(domains), _knob()
    door.apply(knob)
    domains.define(domains.defined["guest"].replace("guest.qcow2", "data.qcow2"))
    with pytest.raises(TargetError, match="disk /srv/data"):
        door.revert(knob, "")


def test_a_definition_is_in_effect_when_its_machine_was_started() -> None:
    """Not there or not started: false, the latter pending; started: each effect is read."""
    domains = FakeDomains()
    door, knob = _door(domains), _knob()
    assert door.verify(knob).holds is False
    door.apply(knob)
    defined = door.verify(knob)
    assert (defined.holds, defined.pending) == (False, "the start of guest (virsh start guest)")
    domains.start("guest")
    running = door.verify(knob)
    assert (running.holds, running.pending) == (True, "")
    assert len(running.facts) == 7  # two virtual CPUs, emulator, I/O, pages, node, balloon


@pytest.mark.parametrize(
    ("changes", "fact", "remedy"),
    [
        ({"vcpus": {0: (0,), 1: (0,)}}, "virtual CPU 1 is to run on CPU 1", "vcpupin guest 1 1"),
        ({"vcpus": {0: (0,)}}, "no such thread", "start it"),
        ({"emulator": (0, 1)}, "the emulator is to run on CPU 1", "emulatorpin guest 1"),
        ({"io_threads": {1: (0, 2)}}, "threads may run on CPU 0,2", "iothreadpin"),
        ({"memory_bytes": 128 * MIB}, "128 MiB lie on huge pages", "Allocate the pages"),
        ({"node": 1}, "it lies on node 1", "does not move"),
        ({"policy": "prefer:0"}, "not bound", "does not move"),
        ({"balloon": True}, "QEMU has one", "memballoon"),
    ],
)
def test_each_effect_that_is_missing_is_told(
    changes: dict[str, object], fact: str, remedy: str
) -> None:
    """What the process has otherwise than asked makes the check fail, with its way out."""
    domains = FakeDomains()
    door, knob = _door(domains, Guest().but(**changes)), _knob()
    door.apply(knob)
    domains.start("guest")
    check = door.verify(knob)
    assert check.holds is False
    assert any(fact in each for each in check.facts)
    assert remedy in check.remedy
    assert (
        check.pending == ""
    )  # it runs with this definition: starting it anew is not what it lacks


def test_locked_memory_is_seen_in_the_process() -> None:
    """Where the plan locks memory, QEMU must have locked pages."""
    locked = _knob(hard_limit_bytes=3 * 1024 * MIB)
    for amount, holds in ((2 * MIB, True), (0, False)):
        domains = FakeDomains()
        door = _door(domains, Guest(locked_bytes=amount))
        door.apply(locked)
        domains.start("guest")
        assert door.verify(locked).holds is holds


def test_what_cannot_be_seen_is_not_taken_for_granted() -> None:
    """Without numa_maps or without the process the check says neither yes nor no."""
    for files in (Guest(maps=False).files(), {}):
        domains = FakeDomains()
        door = DomainDoor(domains=domains, host=FakeHost(files=files))
        door.apply(_knob())
        domains.start("guest")
        assert door.verify(_knob()).holds is None


def test_a_changed_definition_waits_for_the_power_cycle() -> None:
    """A machine that still runs with the former one is pending until it was ended and started."""
    domains = FakeDomains()
    door = _door(domains)
    door.apply(_knob(emulator_pins=(2,)))
    domains.start("guest")
    door.apply(_knob())
    changed = DomainDoor(domains=domains, host=FakeHost(files=Guest(emulator=(2,)).files()))
    check = changed.verify(_knob())
    assert check.holds is False
    assert "a power cycle of guest" in check.pending
    assert "a power cycle" in door.seen(_knob()).pending
    domains.end("guest")
    domains.start("guest")
    assert door.verify(_knob()).holds


def test_the_commands_define_the_same() -> None:
    """Who lacks the privilege gets the call with the definition in it."""
    (command,) = _door(FakeDomains()).commands(_knob())
    assert command.startswith(
        "virsh --connect=test:///fake define --validate /dev/stdin <<'DOMAIN'"
    )
    assert domain_xml(_design()).strip() in command


_CARD = (
    "<hostdev mode='subsystem' type='pci' managed='yes'><source>"
    "<address domain='0x0000' bus='0x65' slot='0x00' function='0x0'/></source></hostdev>"
)
_SHARE = "<filesystem type='mount'><source dir='/srv/share'/><target dir='share'/></filesystem>"
_FIRMWARE = (
    "<loader readonly='yes' type='pflash'>/usr/share/OVMF/OVMF_CODE.fd</loader>"
    "<nvram>/var/lib/libvirt/qemu/nvram/guest_VARS.fd</nvram>"
)
_OWNED = {  # the end of an element, and what a domain has before it
    "hostdev pci 0x0000 0x65": ("</devices>", _CARD),
    "filesystem mount /srv/share share": ("</devices>", _SHARE),
    "tpm tpm-crb": ("</devices>", "<tpm model='tpm-crb'><backend type='emulator'/></tpm>"),
    "controller scsi virtio-scsi": (
        "</devices>",
        "<controller type='scsi' index='0' model='virtio-scsi'/>",
    ),
    "rng virtio": ("</devices>", "<rng model='virtio'><backend model='egd'/></rng>"),
    "emulator /opt/qemu/bin/qemu": ("</devices>", "<emulator>/opt/qemu/bin/qemu</emulator>"),
    "firmware /usr/share/OVMF/OVMF_CODE.fd": ("</os>", _FIRMWARE),
    "kernel /boot/vmlinuz": ("</os>", "<kernel>/boot/vmlinuz</kernel>"),
    "<metadata>": ("</domain>", "<metadata/>"),
    "<qemu:commandline>": ("</domain>", "<qemu:commandline/>"),
}


def _with(xml: str, owned: str) -> str:
    end, added = _OWNED[owned]
    return xml.replace(end, added + end, 1)


@pytest.mark.parametrize("owned", _OWNED)
def test_what_an_existing_domain_owns_is_not_taken_from_it(owned: str) -> None:
    """A plan without it is refused and names it; one that was made from the domain is not."""
    domains = FakeDomains()
    domains.define(_with(domain_xml(_design(vcpu_pins=(2, 3))), owned))
    former, door = domains.defined["guest"], _door(domains)
    for refuse in (door.require, door.apply):
        with pytest.raises(PreflightError, match=re.escape(owned)) as caught:
            refuse(_knob())
        assert "stack plan --domain-xml" in caught.value.hint
    assert domains.defined["guest"] == former
    door.require(_knob(patch_domain(former, _design())))
    door.apply(_knob(patch_domain(former, _design())))
    assert domains.defined["guest"] == patch_domain(former, _design())


def test_what_libvirt_adds_by_itself_is_no_loss() -> None:
    """Neither what it completed of ours, nor devices that it gives every machine."""
    recorded = Path(__file__).parents[3] / "recordings" / "libvirt"
    asked = parse_domain((recorded / "rendered.xml").read_text())
    kept = (recorded / "rendered.dumpxml.xml").read_text()
    added = (
        "<emulator>/usr/bin/qemu-system-x86_64</emulator><input type='mouse' bus='ps2'/>"
        "<controller type='pci' index='0' model='pcie-root'/><audio id='1' type='none'/>"
        "<controller type='usb' index='0' model='qemu-xhci'/><watchdog model='itco'/></devices>"
    )
    present = parse_domain(kept.replace("</devices>", added))
    assert tuple(dropped(asked, present)) == ()


def test_firmware_that_libvirt_chooses_is_no_loss() -> None:
    """Asked for by its kind, it is written into the definition as files."""
    asked = domain_xml(_design(architecture="aarch64"))
    present = asked.replace("</os>", f"{_FIRMWARE}</os>")
    assert tuple(dropped(parse_domain(asked), parse_domain(present))) == ()
    without = domain_xml(_design())  # of the kind that boots without any
    chosen = without.replace("<os>", "<os firmware='efi'>")
    assert tuple(dropped(parse_domain(without), parse_domain(chosen))) == ("firmware efi",)


@pytest.mark.parametrize("owned", ["hostdev pci 0x0000 0x65", "kernel /boot/vmlinuz", "disk"])
def test_what_somebody_gave_a_domain_since_is_not_lost(owned: str) -> None:
    """Reverting would define the former definition without it: it is refused, and told."""
    domains = FakeDomains()
    domains.define(domain_xml(_design(vcpu_pins=(2, 3))))
    door, knob = _door(domains), _knob()
    snapshot = door.snapshot(knob)
    door.apply(knob)
    applied = domains.defined["guest"]
    disk = "<disk type='block'><source dev='/dev/vg/new'/></disk></devices>"
    changed = applied.replace("</devices>", disk) if owned == "disk" else _with(applied, owned)
    domains.define(changed)
    with pytest.raises(TargetError, match=f"has given guest since.*{owned}") as caught:
        door.revert(knob, snapshot)
    assert "virsh edit guest" in caught.value.hint
    assert domains.defined["guest"] == changed
    domains.define(applied)
    door.revert(knob, snapshot)
    assert domains.defined["guest"] == snapshot


def test_what_somebody_took_from_a_domain_since_does_not_come_back() -> None:
    """A disk that was there before and by the plan is gone by a later hand, which is told."""
    domains = FakeDomains()
    domains.define(domain_xml(_design(vcpu_pins=(2, 3))))
    door, knob = _door(domains), _knob()
    snapshot = door.snapshot(knob)
    door.apply(knob)
    root = parse_domain(domains.defined["guest"])
    devices, disk = root.find("devices"), root.find("devices/disk")
    assert devices is not None
    assert disk is not None
    devices.remove(disk)
    domains.define(domain_text(root))
    with pytest.raises(TargetError, match=r"has taken from guest since.*guest\.qcow2"):
        door.revert(knob, snapshot)


def test_a_mount_for_other_pages_is_none() -> None:
    """Libvirt defines a domain on 1 GiB pages where only 2 MiB ones are mounted, and fails."""
    gib = 1024 * MIB
    knob = _knob(page_bytes=gib, memory_bytes=gib)
    files = {**Guest().files(), "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "4\n"}
    with pytest.raises(PreflightError, match="pages of 1048576 KiB, only for those of 2048 KiB"):
        DomainDoor(domains=FakeDomains(), host=FakeHost(files=files)).require(knob)
    files["/proc/mounts"] += "hugetlbfs /dev/hugepages1G hugetlbfs rw,pagesize=1024M 0 0\n"
    DomainDoor(domains=FakeDomains(), host=FakeHost(files=files)).require(knob)


def test_the_commands_are_for_the_domain_that_is_there() -> None:
    """Without its uuid libvirt refuses the definition as another domain's."""
    domains = FakeDomains()
    domains.define(domain_xml(_design(vcpu_pins=(2, 3))))
    (command,) = _door(domains).commands(_knob())
    text = command.partition("<<'DOMAIN'\n")[2].removesuffix("\nDOMAIN")
    domains.define(text)
    assert _door(domains).seen(_knob()).value == _knob().value


def test_strict_memory_on_ordinary_pages_is_not_taken_for_granted() -> None:
    """Where it lies is not read: neither that nor a domain that asks for nothing is in effect."""
    huge = "<memoryBacking>", "</memoryBacking>"
    whole = domain_xml(_design())
    ordinary = whole[: whole.index(huge[0])] + whole[whole.index(huge[1]) + len(huge[1]) :]
    bare = (
        "<domain type='kvm'><name>guest</name><memory unit='MiB'>256</memory>"
        "<vcpu>2</vcpu><os><type>hvm</type></os></domain>"
    )
    for xml, fact in ((ordinary, "without huge pages that is not read"), (bare, "nothing")):
        domains = FakeDomains()
        door = _door(domains, Guest(node=1))
        door.apply(_knob(xml))
        domains.start("guest")
        check = door.verify(_knob(xml))
        assert check.holds is None
        assert any(fact in each for each in check.facts)


def test_what_only_a_start_brings_is_not_in_effect_before() -> None:
    """Another topology is not seen in the process: a machine started with the former has it not."""
    domains = FakeDomains()
    door = _door(domains)
    door.apply(_knob())
    domains.start("guest")
    other = _knob(threads=2)
    door.apply(other)
    check = door.verify(other)
    assert check.holds is False
    assert "threads per core" in " ".join(check.facts)
    assert "a power cycle of guest" in check.pending
