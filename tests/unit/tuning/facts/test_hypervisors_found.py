"""Which machine is the hypervisor, and whether it is asked for its virtual machines."""

from fakes.clock import FakeClock
from fakes.processes import FakeProcesses
from fakes.sql import FakeSql
from steelyard.core.stack import DomainFacts, Origin, StackFacts, Visibility
from steelyard.core.wording import GIB
from steelyard.gateways.doors import Doors
from steelyard.gateways.host import LocalHost
from steelyard.tuning.facts.collecting import Asked, Domains, collect
from support.two_nodes import RECORDED

_DOMAIN = DomainFacts(name="guest", vcpus=2, memory_bytes=GIB)


def _collected(domains: Domains | None) -> StackFacts:
    """Return the facts of the recorded machine, which is a virtual one."""
    doors = Doors(
        host=LocalHost(root=RECORDED), processes=FakeProcesses(), sql=FakeSql(), clock=FakeClock()
    )
    return collect(Asked(ping_pong=False), doors, domains)


def test_a_virtual_machine_does_not_see_its_hypervisor() -> None:
    """Where it has no domains of its own, the layers below are not visible, whoever looks."""
    nothing = {"domains": Origin(source="virsh list --all")}
    for domains in (None, lambda: ((), nothing), lambda: (None, nothing)):
        facts = _collected(domains)
        assert (facts.hypervisor, facts.domains) == (None, None)
        assert facts.origin("domains").visibility is Visibility.NO


def test_a_virtual_machine_with_domains_is_their_hypervisor() -> None:
    """Nested ones are told with where they come from."""
    facts = _collected(lambda: ((_DOMAIN,), {"domains": Origin(source="virsh list --all")}))
    assert facts.domains == (_DOMAIN,)
    assert facts.hypervisor == facts.linux
    assert facts.origin("domains").source == "virsh list --all"
