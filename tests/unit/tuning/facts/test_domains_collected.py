"""Facts of domains: the request where they are shut off, the effect where they run."""

import re
from dataclasses import replace

import pytest

from fakes.clock import FakeClock
from fakes.domains import FakeDomains
from fakes.host import FakeHost
from fakes.processes import FakeProcesses
from steelyard.answers.stack.inspection import fact_tables
from steelyard.core.findings import State
from steelyard.core.stack import DomainDesign, StackFacts, Visibility
from steelyard.core.wording import GIB, MIB
from steelyard.gateways.virsh import Domains
from steelyard.report.document import Table
from steelyard.tuning.facts.domains import Hypervisor, collect_domains
from steelyard.tuning.files.domain import domain_xml
from support.guest_files import Guest
from support.judged_rules import judged

_DESIGN = DomainDesign(
    name="guest",
    memory_bytes=256 * MIB,
    vcpu_pins=(0, 1),
    emulator_pins=(1,),
    io_thread_pins=(0,),
    nodes=(0,),
    emulated=True,
)


def _hypervisor(domains: FakeDomains, guest: Guest | None = None) -> Hypervisor:
    files = guest.files() if guest else {}
    return Hypervisor(domains=domains, host=FakeHost(files=files), clock=FakeClock(), moment_s=2.0)


def _defined() -> FakeDomains:
    domains = FakeDomains(starting={"guest"})
    domains.define(domain_xml(_DESIGN))
    return domains


def test_a_domain_that_is_shut_off_is_told_as_defined() -> None:
    """Its pins are those of the XML, and nothing is said of waiting."""
    found, origins = collect_domains(_hypervisor(_defined()))
    assert found is not None
    (facts,) = found
    assert facts.vcpu_pins == {0: (0,), 1: (1,)}
    assert (facts.running, facts.autostart, facts.vcpu_delay_fraction) == (False, True, None)
    assert origins["domains.guest"].source == "virsh dumpxml guest"


def test_a_running_domain_is_told_as_it_is() -> None:
    """A pin that did not take effect, ordinary pages and a balloon come from /proc, not the XML."""
    domains = _defined()
    domains.start("guest")
    strayed = Guest(vcpus={0: (0,), 1: (0, 1, 2, 3)}, emulator=(2,), node=1)
    found, origins = collect_domains(_hypervisor(domains, strayed))
    assert found is not None
    (facts,) = found
    assert facts.running
    assert facts.vcpu_pins == {0: (0,)}  # a thread that may run anywhere is not pinned
    assert (facts.emulator_pins, facts.io_thread_pins) == ((2,), (0,))
    assert (facts.memory_nodes, facts.huge_page_bytes) == ((1,), 2 * MIB)
    assert facts.cells[0].memory_nodes == ()  # what was asked for is not what is
    assert "/proc/4711" in origins["domains.guest"].source


@pytest.mark.parametrize(
    ("size", "read"), [("2048", (None, None, 2 * MIB)), ("1048576", (2 * MIB, None, None))]
)
def test_page_sizes_of_cells_are_those_of_the_process(
    size: str, read: tuple[int | None, ...]
) -> None:
    """QEMU has pages of 2 MiB: those of the second cell, unless it was to have others."""
    xml = domain_xml(replace(_DESIGN, nodes=(0, 1)))
    page = f"<page size='{size}' unit='KiB' nodeset='1'/>"
    domains = FakeDomains()
    domains.define(re.sub("<page .*?/>", page, xml))
    domains.start("guest")
    ((facts,), _) = collect_domains(_hypervisor(domains, Guest()))
    assert (facts.huge_page_bytes, *(cell.huge_page_bytes for cell in facts.cells)) == read


def test_waiting_is_the_largest_share_of_the_moment() -> None:
    """Of two looks two seconds apart, the virtual CPU counts that waited longest."""
    domains = _defined()
    domains.start("guest")
    domains.delays = [{"guest": (1.0, 5.0)}, {"guest": (1.1, 5.5), "new": (1.0,)}]
    found, _ = collect_domains(_hypervisor(domains, Guest()))
    assert found is not None
    assert found[0].vcpu_delay_fraction == 0.25


def test_without_its_process_a_running_domain_is_told_by_its_xml() -> None:
    """From afar /proc is not there: then the origin says so."""
    domains = _defined()
    domains.start("guest")
    found, origins = collect_domains(_hypervisor(domains))
    assert found is not None
    assert found[0].vcpu_pins == {0: (0,), 1: (1,)}
    assert "not visible" in origins["domains.guest"].source


def test_a_machine_without_libvirt_has_no_facts_of_domains() -> None:
    """None, not an empty list: nobody knows whether there are any, and the origin says why."""
    absent = Hypervisor(
        domains=Domains(processes=FakeProcesses()), host=FakeHost(), clock=FakeClock()
    )
    found, origins = collect_domains(absent)
    assert found is None
    assert origins["domains"].visibility is Visibility.UNKNOWN
    assert "virsh" in origins["domains"].source


def test_one_unreadable_domain_does_not_hide_the_others() -> None:
    """What is no XML is told with the reason, and no rule of domains passes without it."""
    domains = _defined()
    domains.defined["broken"] = "<domain>"
    found, origins = collect_domains(_hypervisor(domains))
    assert found is not None
    assert [facts.name for facts in found] == ["guest"]
    assert origins["domains.broken"].visibility is Visibility.UNKNOWN
    facts = StackFacts(domains=found, origins=origins)
    assert facts.unread_domains == ("domains.broken",)
    assert judged("KVM012", StackFacts(domains=found)).state is State.NOT_APPLICABLE  # no disks
    unmoved = judged("KVM004", facts)
    assert unmoved.state is State.NOT_APPLICABLE
    assert unmoved.missing[0].startswith("domains.broken: the domain XML cannot be read")
    assert judged("KVM004", StackFacts(domains=found)).state is State.HOLDS
    assert "domains.broken" in judged("KVM011", facts).missing[0]


def test_the_report_names_a_domain_that_could_not_be_read() -> None:
    """Among the virtual machines, with the reason; also where no other is there."""
    domains = FakeDomains()
    domains.defined["broken"] = "<domain>"
    found, origins = collect_domains(_hypervisor(domains))
    told = fact_tables(StackFacts(domains=found, origins=origins))
    (table,) = [each for each in told if isinstance(each, Table) and "Virtual" in each.title]
    (row,) = table.rows
    assert row.cells[0] == "broken"
    assert "cannot be read" in row.cells[3]


def test_pages_without_a_size_are_of_the_hosts_default() -> None:
    """On a host booted with pages of 1 GiB, `<hugepages/>` asks for these."""
    domains = FakeDomains(starting={"guest"})
    text = re.sub(r"(?s)<memoryBacking>.*</memoryBacking>", "", domain_xml(_DESIGN))
    backed = "<memoryBacking><hugepages/></memoryBacking>"
    domains.define(text.replace("</domain>", f"{backed}</domain>"))
    host = FakeHost(files={"/proc/meminfo": "Hugepagesize:    1048576 kB\n"})
    found, _ = collect_domains(Hypervisor(domains=domains, host=host, clock=FakeClock()))
    assert found is not None
    assert found[0].huge_page_bytes == GIB
