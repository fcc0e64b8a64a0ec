"""The XML that somebody asked for: what libvirt dropped of it, and what it is going to drop."""

import pytest

from steelyard.core.findings import State
from steelyard.core.stack import DomainFacts, StackFacts
from steelyard.core.wording import GIB
from steelyard.tuning.facts.domain_xml import parse_domain
from steelyard.tuning.facts.domains import misplaced_elements, with_asked_domain
from support.domain_cases import DEFINED
from support.judged_rules import judged
from support.recorded_host import RECORDINGS

RECORDED = RECORDINGS.parent / "libvirt"


def recorded(name: str) -> str:
    """Return a recorded domain XML."""
    return (RECORDED / name).read_text(encoding="utf-8")


def test_what_libvirt_dropped_violates_the_rule() -> None:
    """KVM001 from a file and libvirt's own: a balloon outside of the devices was lost."""
    asked, kept = recorded("misplaced-balloon.xml"), recorded("misplaced-balloon.dumpxml.xml")
    facts = with_asked_domain(StackFacts(domains=()), asked, "vm.xml", kept)
    found = judged("KVM001", facts)
    assert found.state is State.VIOLATED
    assert "lost memballoon[@model='none']" in found.messages[0]
    name = (facts.domains or ())[0].name
    assert "dumpxml --inactive" in facts.origin(f"domains.{name}.lost_elements").source


def test_what_libvirt_kept_whole_holds() -> None:
    """The rendered domain, as it was read back."""
    asked, kept = recorded("rendered.xml"), recorded("rendered.dumpxml.xml")
    known = DomainFacts(name="pg", vcpus=4, memory_bytes=8 * GIB, running=True)
    other = DomainFacts(name="other", vcpus=1, memory_bytes=GIB, lost_elements=())
    facts = with_asked_domain(StackFacts(domains=(other, known)), asked, "vm.xml", kept)
    assert judged("KVM001", facts).state is State.HOLDS
    assert facts.domains is not None
    assert facts.domains[1].running  # what is known of it otherwise stays
    assert facts.domains[0] == other


def test_without_libvirt_only_what_is_sure_is_told() -> None:
    """A misplaced element is lost for sure; that none is misplaced is no proof."""
    asked = recorded("misplaced-balloon.xml")
    found = judged("KVM001", with_asked_domain(StackFacts(), asked, "vm.xml", None))
    assert found.state is State.VIOLATED
    assert "memballoon[@model='none'] (belongs in <devices>)" in found.messages[0]
    whole = with_asked_domain(StackFacts(), recorded("rendered.xml"), "vm.xml", None)
    assert judged("KVM001", whole).state is State.NOT_APPLICABLE
    assert judged("KVM007", whole).state is State.HOLDS  # the file itself is judged


@pytest.mark.parametrize(
    ("name", "is_changed"),
    [
        ("more memory than cells", True),
        ("less memory than cells", True),
        ("a module", True),
        ("a module that is counted", False),
        ("cells alone", False),
        ("memory alone", False),
    ],
)
def test_memory_of_another_sum_than_the_cells_is_told(name: str, *, is_changed: bool) -> None:
    """Libvirt says nothing when it sets the memory to that of cells and modules."""
    found = judged("KVM001", with_asked_domain(StackFacts(), DEFINED[name], "vm.xml", None))
    assert any("lost memory (libvirt makes it" in each for each in found.messages) is is_changed


@pytest.mark.parametrize(
    ("inner", "told"),
    [
        ("<devices><memballoon model='none'/></devices>", ()),
        ("<vcpupin vcpu='0' cpuset='1'/>", ("vcpupin[@vcpu='0'][@cpuset='1'] (belongs in",)),
        ("<devices><hugepages/></devices>", ("devices/hugepages (belongs in <memoryBacking>)",)),
        ("<devices><cputune/></devices>", ("devices/cputune (belongs in <domain> itself)",)),
        ("<metadata><disk/></metadata>", ()),  # anybody's own
        ("<vcpus><vcpu id='0'/></vcpus>", ()),
    ],
)
def test_elements_have_a_place(inner: str, told: tuple[str, ...]) -> None:
    """An element that tuning is about, elsewhere than where libvirt looks for it."""
    found = misplaced_elements(parse_domain(f"<domain>{inner}</domain>"))
    assert len(found) == len(told)
    assert all(each.startswith(words) for each, words in zip(found, told, strict=True))


def test_no_password_is_told() -> None:
    """Libvirt shows none, so it is not compared; a lost element is told without it."""
    asked = "<domain><name>a</name><memory>1</memory><devices><graphics passwd='secret'/></devices>"
    asked += "</domain>"
    for kept in ("<devices><graphics/></devices>", "<devices/>"):
        whole = f"<domain><name>a</name><memory>1</memory>{kept}</domain>"
        facts = with_asked_domain(StackFacts(), asked, "vm.xml", whole)
        assert "secret" not in repr(facts)
