"""Requests: those that no plan is made of, what would fit, and those that start from a domain."""

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.domains import FakeDomains
from fakes.host import FakeHost
from steelyard.core.linux import LinuxFacts
from steelyard.core.stack import (
    DomainFacts,
    KnobKind,
    Place,
    StackDesign,
    StackFacts,
    StackPlan,
    StackRequest,
)
from steelyard.core.wording import GIB, KIB, MIB, InputError, PreflightError, parse_bytes
from steelyard.tuning.apply.domain import DomainDoor
from steelyard.tuning.facts.domain_xml import domain_facts
from steelyard.tuning.plan.arithmetic import formula_counter
from steelyard.tuning.plan.designing import design_stack
from steelyard.tuning.plan.foreseen import make_plan
from steelyard.tuning.plan.guests import present_name
from support.made_machines import bare, machine, untuned_guest

SMALL = StackRequest(cpus=2, memory_bytes=8 * GIB)


def planned(**asked: object) -> StackDesign:
    """Return a design on a large machine."""
    request = replace(SMALL, **asked)  # type: ignore[arg-type]
    facts = bare(machine(nodes=1, cores=16, node_gib=1024))
    return design_stack(request, facts, formula_counter(request.postgres_version))


@pytest.mark.parametrize(
    ("asked", "fact"),
    [
        ({"name": "../../../evil"}, "is no name that every layer of local takes"),
        ({"name": "../evil", "place": Place.KVM}, "is no name"),
        ({"name": "My_DB", "place": Place.CNPG}, "is no name that every layer of cnpg takes"),
        ({"name": "my.db", "place": Place.CNPG}, "is no name"),
        ({"name": "a" * 51, "place": Place.CNPG}, "is no name"),
        ({"name": "my_db", "place": Place.RDS}, "is no name"),
        ({"max_connections": 3}, "3 are reserved for superusers"),
        ({"shared_buffers_bytes": 0}, "less than any server takes"),
        ({"shared_buffers_bytes": 127 * KIB}, "less than any server takes"),
        ({"volume_bytes": GIB}, "--volume-size is of a cluster"),
        ({"storage_class": "gp3"}, "--storage-class is of a cluster"),
        ({"disks": ("/dev/sda",)}, "--disk is of a virtual machine"),
        ({"bridge": "br0", "place": Place.CNPG}, "--bridge is of a virtual machine"),
        ({"disks": ("vda",), "place": Place.KVM}, "is no path of a disk"),
        ({"bridge": "a bridge", "place": Place.KVM}, "is no name of a bridge"),
    ],
)
def test_what_no_layer_takes_is_refused(asked: dict[str, object], fact: str) -> None:
    """Before any machine is asked, in a sentence with the way out."""
    with pytest.raises(InputError) as caught:
        planned(**asked)
    assert fact in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    "asked",
    [
        {"name": "My_DB.1", "place": Place.KVM},
        {"name": "my-db", "place": Place.CNPG},
        {"name": "My-DB", "place": Place.RDS},
        {"max_connections": 4},
        {"shared_buffers_bytes": 128 * KIB},
    ],
)
def test_what_every_layer_takes_is_planned(asked: dict[str, object]) -> None:
    """The bounds themselves are no errors."""
    assert planned(**asked).postgres.settings


def wal(made: StackDesign) -> str:
    """Return max_wal_size."""
    return {each.name: each.value for each in made.postgres.settings}["max_wal_size"]


def test_the_wal_fits_on_the_volume() -> None:
    """A volume grows with the WAL, and is told; a volume that was asked for bounds it."""
    large = planned(place=Place.CNPG, memory_bytes=400 * GIB)
    assert large.pod is not None
    assert wal(large) == "100GB"
    assert large.pod.volume_bytes == 400 * GIB
    assert any("volumes of 400.0 GiB" in each for each in large.assumptions)
    bounded = planned(place=Place.CNPG, memory_bytes=400 * GIB, volume_bytes=240 * GIB)
    assert wal(bounded) == "60GB"
    assert not any("volumes of" in each for each in bounded.assumptions)
    with pytest.raises(InputError, match="no room for the WAL") as caught:
        planned(place=Place.CNPG, memory_bytes=400 * GIB, volume_bytes=50 * GIB)
    enough = int(caught.value.hint.partition("MiB")[0].rpartition(" ")[2]) * MIB
    assert wal(planned(place=Place.CNPG, memory_bytes=400 * GIB, volume_bytes=enough)) == "50GB"


def test_a_class_that_nobody_saw_is_an_assumption() -> None:
    """It is taken to be there and to bind late."""
    made = planned(place=Place.CNPG, storage_class="gp3")
    assert any("'gp3'" in each for each in made.assumptions)


_OPTIONS = {
    "--memory": "memory_bytes",
    "--cpus": "cpus",
    "--shared-buffers": "shared_buffers_bytes",
    "--max-connections": "max_connections",
}

machines = st.builds(
    machine,
    nodes=st.sampled_from((1, 2, 4)),
    cores=st.sampled_from((1, 2, 4, 8)),
    threads=st.sampled_from((1, 2)),
    node_gib=st.sampled_from((4, 16, 64)),
    pages=st.sampled_from((0, 1000)),
)
requests = st.builds(
    StackRequest,
    cpus=st.sampled_from((1, 2, 3, 7, 16, 31)),
    memory_bytes=st.sampled_from((256 * MIB, GIB, 3 * GIB, 12 * GIB, 100 * GIB)),
    place=st.sampled_from((Place.LOCAL, Place.KVM, Place.CNPG)),
    shared_buffers_bytes=st.sampled_from((None, None, 128 * MIB, 6 * GIB)),
    max_connections=st.sampled_from((None, None, 30, 500)),
    postgres_version=st.sampled_from((13, 15, 18)),
)


def refusal(request: StackRequest, facts: StackFacts) -> PreflightError | None:
    """Return why a plan is refused; None where it is made."""
    try:
        design_stack(request, facts, formula_counter(request.postgres_version))
    except PreflightError as error:
        return error
    return None


def obeyed(request: StackRequest, words: str) -> StackRequest:
    """Return a request with options of the command line in effect."""
    changes = {}
    for option, value in re.findall(r"(--[a-z-]+) (\S+)", words):
        changes[_OPTIONS[option]] = parse_bytes(value)
    assert changes, words
    return replace(request, **changes)


@pytest.mark.slow
@given(request=requests, linux=machines, above=st.booleans())
@settings(max_examples=40, deadline=None)
def test_every_literal_hint_is_accepted_when_obeyed(
    *, request: StackRequest, linux: LinuxFacts, above: bool
) -> None:
    """Each option in backquotes is planned, with everything else as it was asked for."""
    facts = bare(linux)
    if above:
        facts = StackFacts(hypervisor=linux, linux=untuned_guest(linux), domains=())
    error = refusal(request, facts)
    if error is None:
        return
    options = re.findall(r"`([^`]*)`", error.hint)
    assert options or error.hint.startswith("Nothing of the kind fits"), error.hint
    for words in options:
        assert refusal(obeyed(request, words), facts) is None, (words, error.message)


@pytest.mark.parametrize("place", [Place.LOCAL, Place.KVM])
def test_where_nothing_fits_no_number_is_named(place: Place) -> None:
    """A node that another machine fills has no room for the least server, and the hint says so."""
    full = DomainFacts(name="full", vcpus=1, memory_bytes=15 * GIB, memory_nodes=(0,))
    facts = replace(bare(machine(node_gib=16)), domains=(full,))
    error = refusal(StackRequest(cpus=2, memory_bytes=8 * GIB, place=place), facts)
    assert error is not None
    assert error.hint.startswith("Nothing of the kind fits there")


def test_what_fits_is_near_to_the_limit() -> None:
    """A hint of a tenth of what could be had would be true and useless: 5 % more is refused."""
    request, facts = StackRequest(cpus=2, memory_bytes=100 * GIB), bare(machine())
    error = refusal(request, facts)
    assert error is not None
    (words,) = re.findall(r"`([^`]*)`", error.hint)
    near = obeyed(request, words)
    assert refusal(replace(near, memory_bytes=int(1.05 * near.memory_bytes)), facts) is not None


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
