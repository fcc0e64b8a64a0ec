"""A plan that starts from a domain: it changes that one, and the door takes it."""

from dataclasses import replace

import pytest

from fakes.domains import FakeDomains
from fakes.host import FakeHost
from steelyard.core.stack import KnobKind, Place, StackFacts, StackPlan, StackRequest
from steelyard.core.wording import GIB, InputError
from steelyard.tuning.apply.domain import DomainDoor
from steelyard.tuning.facts.domain_xml import domain_facts
from steelyard.tuning.plan.arithmetic import formula_counter
from steelyard.tuning.plan.foreseen import make_plan
from steelyard.tuning.plan.guests import present_name
from support.made_machines import machine

ABOVE = StackFacts(hypervisor=machine(nodes=2), domains=())
THERE = """\
<domain type='kvm'>
  <name>pg</name>
  <uuid>893db2c5-7844-4705-9810-64f504f64458</uuid>
  <memory unit='GiB'>4</memory>
  <vcpu>2</vcpu>
  <os firmware='efi'><type arch='x86_64' machine='pc-q35-7.2'>hvm</type></os>
  <devices>
    <disk type='block'><source dev='/dev/vg/pg'/><target dev='vda' bus='virtio'/></disk>
    <interface type='bridge'><mac address='52:54:00:ed:8e:bf'/><source bridge='br0'/></interface>
    <hostdev mode='subsystem' type='pci' managed='yes'>
      <source><address domain='0x0000' bus='0x65' slot='0x00' function='0x0'/></source>
    </hostdev>
  </devices>
</domain>
"""


def _made(present: str | None, facts: StackFacts = ABOVE, place: Place = Place.KVM) -> StackPlan:
    request = StackRequest(cpus=2, memory_bytes=8 * GIB, place=place, name="pg")
    return make_plan(request, facts, formula_counter(18), present)


def _xml(plan: StackPlan) -> str:
    (knob,) = (knob for knob in plan.knobs if knob.kind is KnobKind.DOMAIN)
    return knob.value


def test_the_present_domain_is_changed_and_keeps_what_it_owns() -> None:
    """Pins and memory are the plan's; uuid, firmware, disk, card and passed-through device stay."""
    plan = _made(THERE)
    xml = _xml(plan)
    for kept in ("893db2c5-", "firmware='efi'", "/dev/vg/pg", "52:54:00:ed:8e:bf", "bus='0x65'"):
        assert kept in xml
    design = plan.design.domain
    assert design is not None
    assert domain_facts(xml).vcpu_pins == {n: (cpu,) for n, cpu in enumerate(design.vcpu_pins)}
    assert domain_facts(xml).memory_bytes == design.memory_bytes
    assert next(file.content for file in plan.files if file.layer == "kvm") == xml
    assert not any("there is no domain 'pg'" in said for said in plan.design.assumptions)


def test_the_door_takes_it_and_puts_it_back() -> None:
    """What was planned from the domain takes nothing from it, and reverts to the letter."""
    domains = FakeDomains()
    domains.define(THERE)
    former = domains.defined["pg"]
    (knob,) = (knob for knob in _made(former).knobs if knob.kind is KnobKind.DOMAIN)
    door = DomainDoor(domains=domains, host=FakeHost())
    door.require(knob)
    snapshot = door.snapshot(knob)
    door.apply(knob)
    assert "bus='0x65'" in domains.defined["pg"]
    assert door.seen(knob).value == knob.value
    door.revert(knob, snapshot)
    assert domains.defined["pg"] == former


def test_a_domain_without_its_xml_is_an_assumption() -> None:
    """The plan says that it does not start from the domain that is there, and how it would."""
    known = replace(ABOVE, domains=(domain_facts(THERE),))
    said = " ".join(_made(None, known).design.assumptions)
    assert "the domain 'pg' is there and its XML was not given" in said
    assert "--domain-xml" in said
    assert "its XML was not given" not in " ".join(_made(THERE, known).design.assumptions)


def test_an_emulated_domain_stays_one() -> None:
    """What KVM alone has is not asked of a domain that TCG runs."""
    xml = _xml(_made(THERE.replace("type='kvm'", "type='qemu'", 1)))
    assert domain_facts(xml).cpu_mode == "maximum"
    assert "hint-dedicated" not in xml


def test_a_plan_without_a_domain_takes_none() -> None:
    """Given for a database on this machine, it is refused and not ignored."""
    here = StackFacts(hypervisor=machine(), linux=machine(), domains=())
    with pytest.raises(InputError, match="has no domain here") as caught:
        _made(THERE, here, Place.LOCAL)
    assert "--for kvm" in caught.value.hint


@pytest.mark.parametrize(
    ("xml", "fact"),
    [
        (THERE.replace("<domain ", "<domain id='3' "), "that of the running machine"),
        (THERE.replace("</devices>", "<graphics passwd='x'/></devices>"), "has a password"),
        (THERE.replace("<name>pg</name>", ""), "has no <name>"),
        ("<network/>", "not a <domain>"),
    ],
)
def test_what_no_plan_can_start_from_is_refused(xml: str, fact: str) -> None:
    """A live description, a password, a domain without a name: each with the way out."""
    with pytest.raises(InputError, match=fact) as caught:
        present_name(xml)
    assert "virsh dumpxml NAME --inactive" in caught.value.hint
    assert present_name(THERE) == "pg"


@pytest.mark.parametrize("asked", [{"disks": ("/dev/vg/other",)}, {"bridge": "br1"}])
def test_a_present_domain_takes_no_further_devices(asked: dict[str, object]) -> None:
    """It keeps its own: a disk or bridge that was asked for would be lost without a word."""
    request = replace(
        StackRequest(cpus=2, memory_bytes=8 * GIB, place=Place.KVM, name="pg"),
        **asked,  # type: ignore[arg-type]
    )
    with pytest.raises(InputError, match="it keeps its devices"):
        make_plan(request, ABOVE, formula_counter(18), THERE)
    assert make_plan(request, ABOVE, formula_counter(18), None).knobs
