"""A real libvirt: the rendered domain is defined, boots with its pins, and is verified in /proc.

One guest is booted, under emulation, for all tests of this module.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.domains import FakeDomains
from steelyard.core.stack import DomainDesign, DomainFacts, Knob, KnobKind, Scope
from steelyard.core.wording import MIB, PreflightError, TargetError
from steelyard.gateways.host import Clock, LocalHost
from steelyard.gateways.virsh import Domains
from steelyard.tuning.apply.domain import DomainDoor
from steelyard.tuning.facts.domain_xml import domain_facts
from steelyard.tuning.facts.domains import collect_domains
from steelyard.tuning.files.files import domain_xml, patch_domain
from support.huge_pages import more_huge_pages
from support.lacking import lacking
from support.libvirtd import PREFIX, guest_directory, libvirt, running, virsh, wait_for
from support.tiny_guest import DONE

__all__ = ["libvirt"]

pytestmark = pytest.mark.live

_NAME = f"{PREFIX}pins"
_NEIGHBOUR = f"{PREFIX}neighbour"
_MEMORY_BYTES = 256 * MIB
_PAGE_BYTES = 2 * MIB
# As it was published: no --validate, and a balloon where libvirt does not look for it.
_PUBLISHED = """
<domain type='qemu'>
  <name>{name}</name>
  <memory unit='GiB'>24</memory>
  <vcpu placement='static'>8</vcpu>
  <cputune>
    <vcpupin vcpu='0' cpuset='8'/>
    <vcpupin vcpu='1' cpuset='9'/>
  </cputune>
  <numatune><memory mode='strict' nodeset='1'/></numatune>
  <memoryBacking><hugepages/><locked/></memoryBacking>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <memballoon model='none'/>
</domain>
"""


def _rendered(directory: Path, name: str = _NAME, emulator: int = 1) -> str:
    """Return the domain of a design, booted from a kernel and not from a disk."""
    design = DomainDesign(
        name=name,
        memory_bytes=_MEMORY_BYTES,
        vcpu_pins=(0, 1),
        emulator_pins=(emulator,),
        io_thread_pins=(0,),
        nodes=(0,),
        page_bytes=_PAGE_BYTES,
        emulated=True,
    )
    system = (
        f"<kernel>{directory}/vmlinuz</kernel><initrd>{directory}/initrd</initrd>"
        "<cmdline>console=ttyS0 panic=-1 quiet no_timer_check</cmdline>"
    )
    console = f"<serial type='file'><source path='{directory}/console'/></serial>"
    xml = domain_xml(design).replace("<boot dev='hd'/>", system)
    return xml.replace("<serial type='pty'/>", console).replace("<console type='pty'/>", "")


def _knob(directory: Path, emulator: int = 1) -> Knob:
    return Knob(
        name=f"kvm:domain {_NAME}",
        layer="kvm",
        kind=KnobKind.DOMAIN,
        place=_NAME,
        value=_rendered(directory, emulator=emulator),
        scope=Scope.MACHINE,
    )


def _door(domains: Domains) -> DomainDoor:
    return DomainDoor(domains=domains, host=LocalHost())


def _collected(domains: Domains, name: str = _NAME) -> DomainFacts:
    found, _ = collect_domains(domains, LocalHost(), Clock(), moment_s=0.5)
    assert found is not None
    return next(facts for facts in found if facts.name == name)


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    """Return a directory with kernel and memory disk."""
    if len(LocalHost().names("/sys/devices/system/cpu/cpu1")) == 0:
        lacking("pins need two CPUs")
    with guest_directory() as directory:
        yield directory


@pytest.fixture(scope="module")
def booted(libvirt: Domains, directory: Path) -> Iterator[Domains]:
    """Define the rendered domain through the door, boot it and wait until its Linux is up."""
    door, knob = _door(libvirt), _knob(directory)
    with more_huge_pages(_MEMORY_BYTES // _PAGE_BYTES) as provide:
        door.require(knob)
        assert door.snapshot(knob) == ""
        door.apply(knob)
        defined = door.verify(knob)
        assert (defined.holds, defined.pending) == (
            False,
            f"the start of {_NAME} (virsh start {_NAME})",
        )
        with running(_NAME, provide):
            wait_for(directory / "console", DONE)
            yield libvirt
        door.revert(knob, "")
        assert _NAME not in libvirt.names()


@pytest.fixture(params=["real", "fake"])
def domains(request: pytest.FixtureRequest) -> Domains:
    """Return each implementation in turn."""
    return request.getfixturevalue("libvirt") if request.param == "real" else FakeDomains()


def test_the_fake_does_as_libvirt_does(domains: Domains, directory: Path) -> None:
    """Defining, completing, refusing and removing: what the tests without libvirt rest on."""
    name = f"{PREFIX}contract"
    xml = _rendered(directory, name)
    assert domains.xml(name) is None
    assert not domains.has_secrets(name)
    domains.define(xml.replace("<memballoon model='none'/>", ""))
    told = domains.xml(name, defined=True)
    assert told is not None
    assert domain_facts(told).balloon == "virtio"
    assert domain_facts(told, xml).lost_elements == (
        "devices/memballoon@model='none' (is 'virtio')",
    )
    assert (name in domains.names(), name in domains.names(running=True)) == (True, False)
    assert (domains.has_secrets(name), domains.autostart(name)) == (False, False)
    with pytest.raises(TargetError):
        domains.define(xml)  # without the uuid it is another domain of the same name
    with pytest.raises(TargetError, match="memballoon"):
        domains.define(xml.replace("<devices>", "<memballoon model='none'/><devices>"))
    domains.define(told)
    assert domains.xml(name, defined=True) == told
    domains.undefine(name)
    domains.undefine(name)
    assert name not in domains.names()


def test_the_rendered_domain_validates(libvirt: Domains, directory: Path, tmp_path: Path) -> None:
    """Libvirt's own schema accepts it."""
    path = tmp_path / "domain.xml"
    path.write_text(_rendered(directory))
    argv = ["virt-xml-validate", str(path), "domain"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_published_domain_is_caught(libvirt: Domains, tmp_path: Path) -> None:
    """Through the door it is refused; defined by hand, what libvirt lost is told."""
    name = f"{PREFIX}published"
    xml = _PUBLISHED.format(name=name)
    knob = Knob(name="kvm:domain", layer="kvm", kind=KnobKind.DOMAIN, place=name, value=xml)
    with pytest.raises(TargetError, match="memballoon"):
        _door(libvirt).apply(knob)
    assert name not in libvirt.names()
    path = tmp_path / "published.xml"
    path.write_text(xml)
    virsh("define", str(path))
    facts = domain_facts(libvirt.xml(name, defined=True) or "", xml)
    assert facts.lost_elements == ("memballoon[@model='none']",)
    assert _collected(libvirt, name).balloon == "virtio"
    check = _door(libvirt).verify(knob)
    assert check.holds is False
    assert "memballoon" in check.facts[0]
    libvirt.undefine(name)


def test_the_running_guest_has_what_was_asked(booted: Domains, directory: Path) -> None:
    """Pins, bound huge pages and the absent balloon are read from its process."""
    check = _door(booted).verify(_knob(directory))
    assert check.holds, check.facts
    assert check.pending == ""
    assert any("256 MiB lie on huge pages of 2048 KiB" in fact for fact in check.facts)
    assert _door(booted).seen(_knob(directory)).value == _knob(directory).value


def test_facts_of_the_running_guest_come_from_its_process(booted: Domains) -> None:
    """What collects facts sees the same, and how long virtual CPUs wait for a CPU."""
    facts = _collected(booted)
    assert (facts.running, facts.autostart) == (True, False)
    assert facts.vcpu_pins == {0: (0,), 1: (1,)}
    assert (facts.emulator_pins, facts.io_thread_pins) == ((1,), (0,))
    assert (facts.memory_mode, facts.memory_nodes) == ("strict", (0,))
    assert (facts.huge_page_bytes, facts.memory_bytes) == (_PAGE_BYTES, _MEMORY_BYTES)
    assert facts.balloon == "none"
    assert facts.vcpu_delay_fraction is not None
    assert 0.0 <= facts.vcpu_delay_fraction <= 1.0


def test_inspect_shows_the_running_guest(booted: Domains) -> None:
    """The command finds the domain beside the facts of the machine, and judges it."""
    argv = [sys.executable, "-m", "steelyard", "inspect", "--json", "--no-ping-pong"]
    done = subprocess.run([*argv, "--fail-on", "never"], capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    guest = next(each for each in told["facts"]["domains"] if each["name"] == _NAME)
    assert guest["vcpu_pins"] == {"0": [0], "1": [1]}
    assert told["facts"]["origins"][f"domains.{_NAME}"]["source"].startswith("/proc/")
    states = {rule["code"]: rule["state"] for rule in told["rules"]}
    assert states["KVM007"] == "holds"  # every virtual CPU is pinned
    assert states["KVM008"] == "violated"  # the emulator shares their CPUs: there are but two


def test_a_strayed_pin_is_caught(booted: Domains, directory: Path) -> None:
    """A virtual CPU that an operator pins elsewhere is found, and the remedy puts it right."""
    door, knob = _door(booted), _knob(directory)
    virsh("vcpupin", _NAME, "1", "0", "--live")
    strayed = door.verify(knob)
    assert strayed.holds is False
    assert any("virtual CPU 1 is to run on CPU 1" in fact for fact in strayed.facts)
    assert _collected(booted).vcpu_pins == {0: (0,), 1: (0,)}
    remedy = f"vcpupin {_NAME} 1 1 --live"
    assert remedy in strayed.remedy
    virsh(*remedy.split())
    assert door.verify(knob).holds


def test_a_change_of_a_running_guest_waits_and_comes_back(booted: Domains, directory: Path) -> None:
    """The new definition is pending; put back, it is the former one to the letter."""
    door, former = _door(booted), booted.xml(_NAME, defined=True)
    knob = _knob(directory, emulator=0)
    snapshot = door.snapshot(knob)
    assert snapshot == former
    door.apply(knob)
    changed = door.verify(knob)
    assert changed.holds is False
    assert f"a power cycle of {_NAME}" in changed.pending
    door.revert(knob, snapshot)
    assert booted.xml(_NAME, defined=True) == former
    assert door.verify(_knob(directory)).holds


def test_no_other_domain_is_touched(booted: Domains, directory: Path) -> None:
    """A neighbour's definition stays to the letter while ours comes, changes and goes."""
    booted.define(_rendered(directory, _NEIGHBOUR))
    before = booted.xml(_NEIGHBOUR, defined=True)
    door, knob = _door(booted), _knob(directory, emulator=0)
    snapshot = door.snapshot(knob)
    door.apply(knob)
    door.revert(knob, snapshot)
    with pytest.raises(TargetError, match="runs, and there was no such domain"):
        door.revert(knob, "")
    assert booted.xml(_NEIGHBOUR, defined=True) == before
    assert _NAME in booted.names(running=True)


def test_a_number_for_a_name_is_not_the_running_guest(booted: Domains, directory: Path) -> None:
    """A domain that is called as another one's id is itself, also when it is removed."""
    name = virsh("domid", _NAME).strip()
    assert booted.xml(name) is None
    booted.define(_rendered(directory, name))
    try:
        assert f"<name>{name}</name>" in (booted.xml(name) or "")
        assert f"<name>{name}</name>" in (booted.xml(name, defined=True) or "")
    finally:
        booted.undefine(name)
    assert name not in booted.names()
    assert _NAME in booted.names()


def test_an_existing_domain_keeps_what_it_owns(libvirt: Domains, directory: Path) -> None:
    """Patched through the door it has all of its devices; put back, it is the former one."""
    name = f"{PREFIX}owner"
    owned = (
        "<controller type='scsi' index='0' model='virtio-scsi'/>"
        "<filesystem type='mount'><source dir='/srv'/><target dir='share'/></filesystem>"
        "<input type='tablet' bus='usb'/><graphics type='vnc' port='-1'/></devices>"
    )
    libvirt.define(_rendered(directory, name).replace("</devices>", owned))
    former = libvirt.xml(name, defined=True) or ""
    design = DomainDesign(
        name=name,
        memory_bytes=_MEMORY_BYTES // 2,
        vcpu_pins=(1,),
        emulator_pins=(0,),
        io_thread_pins=(0,),
        nodes=(0,),
        emulated=True,
    )
    door = _door(libvirt)
    knob = Knob(name="kvm:domain", layer="kvm", kind=KnobKind.DOMAIN, place=name, value="")
    with pytest.raises(PreflightError, match=r"virtio-scsi.*filesystem mount /srv share"):
        door.require(replace(knob, value=_rendered(directory, name)))
    knob = replace(knob, value=patch_domain(former, design))
    door.require(knob)
    snapshot = door.snapshot(knob)
    door.apply(knob)
    applied = libvirt.xml(name, defined=True) or ""
    assert domain_facts(applied).vcpu_pins == {0: (1,)}
    for kept in ("model='virtio-scsi'", "<source dir='/srv'/>", "'tablet'", "type='vnc'"):
        assert kept in applied
    disk = "<disk type='file'><source file='/srv/new'/><target dev='vdz' bus='virtio'/></disk>"
    libvirt.define(applied.replace("</devices>", f"{disk}</devices>"))
    with pytest.raises(TargetError, match=f"given {name} since the plan .*/srv/new"):
        door.revert(knob, snapshot)
    libvirt.define(applied)
    door.revert(knob, snapshot)
    assert libvirt.xml(name, defined=True) == former
    libvirt.undefine(name)
