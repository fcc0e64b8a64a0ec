"""The XML that somebody asked libvirt for: what of it was kept, or cannot be."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final
from xml.etree.ElementTree import Element

from steelyard.model.stack_facts import DomainFacts, Origin, StackFacts
from steelyard.tuning.facts.domain_losses import described, lost_elements
from steelyard.tuning.facts.domain_tree import parse_domain
from steelyard.tuning.facts.domain_xml import domain_facts

# Where elements belong that tuning is about; elsewhere libvirt drops them (formatdomain).
_HOMES: Final = {
    "memballoon": "devices",
    "disk": "devices",
    "interface": "devices",
    "vcpupin": "cputune",
    "emulatorpin": "cputune",
    "iothreadpin": "cputune",
    "vcpusched": "cputune",
    "memnode": "numatune",
    "hugepages": "memoryBacking",
    "nosharepages": "memoryBacking",
    "locked": "memoryBacking",
    "hard_limit": "memtune",
    "cputune": "",
    "numatune": "",
    "memoryBacking": "",
    "memtune": "",
    "iothreads": "",
    "numa": "cpu",
    "hint-dedicated": "features/kvm",
    "poll-control": "features/kvm",
}
_FOREIGN: Final = ("metadata", "description", "{")  # of others: anything may stand in them


def with_asked_domain(
    facts: StackFacts, asked: str, source: str, defined: str | None
) -> StackFacts:
    """Return the facts with what became of the XML that somebody asked for.

    Args:
        facts: In which the domain may be, or not.
        asked: The XML.
        source: The file that it stands in.
        defined: The domain of that name as libvirt keeps it; None: libvirt has none, or was not
            asked. Then only elements are told that stand where libvirt drops them; that there are
            none is no proof that it keeps them all.

    Raises:
        InputError: It is no XML of a domain.
    """
    wanted = domain_facts(asked)
    root = parse_domain(asked)
    if defined is not None:
        lost: tuple[str, ...] | None = lost_elements(root, parse_domain(defined))
        told = f"{source}, compared with virsh dumpxml --inactive {wanted.name}"
    else:
        lost = misplaced_elements(root) or None
        told = f"{source}: elements in the wrong place; what libvirt kept was not compared"
    path = f"domains.{wanted.name}"
    origins = {**facts.origins, f"{path}.lost_elements": Origin(source=told)}
    known = facts.domains or ()
    if wanted.name not in {domain.name for domain in known}:
        origins[path] = Origin(source=f"{source}: as it would be, not as it is")
        known = (*known, replace(wanted, running=False))
    domains = tuple(_with_losses(each, wanted.name, lost) for each in known)
    return replace(facts, domains=domains, origins=origins)


def _with_losses(domain: DomainFacts, name: str, lost: tuple[str, ...] | None) -> DomainFacts:
    return replace(domain, lost_elements=lost) if domain.name == name else domain


def misplaced_elements(root: Element) -> tuple[str, ...]:
    """Return elements of a domain that stand where libvirt drops them, and where they belong."""
    return tuple(_misplaced(root, ""))


def _misplaced(element: Element, path: str) -> Iterator[str]:
    for child in element:
        if not isinstance(child.tag, str) or child.tag.startswith(_FOREIGN) or ":" in child.tag:
            continue
        home = _HOMES.get(child.tag)
        below = f"{path}/{child.tag}" if path else child.tag
        if home is not None and home != path:
            belongs = f"<{home}>" if home else "<domain> itself"
            yield f"{described(child, below)} (belongs in {belongs})"
        else:
            yield from _misplaced(child, below)
