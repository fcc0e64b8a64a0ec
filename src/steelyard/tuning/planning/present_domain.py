"""A domain that is there already: a plan changes what it speaks of, and keeps all the rest."""

from dataclasses import replace
from typing import Final
from xml.etree.ElementTree import Element

from steelyard.model.errors import InputError
from steelyard.model.stack import StackDesign, StackRequest
from steelyard.model.stack_facts import StackFacts
from steelyard.tuning.facts.domain_tree import parse_domain
from steelyard.tuning.facts.domain_xml import domain_facts

_AS_DEFINED: Final = "Write it by `virsh dumpxml NAME --inactive`."


def present_name(xml: str) -> str:
    """Return the name of a domain that a plan can start from.

    Raises:
        InputError: It is none, that of a running machine, or has a password in it.
    """
    root = parse_domain(xml)
    if "id" in root.attrib:
        message = "the domain XML is that of the running machine, not its definition"
        raise InputError(message, hint=_AS_DEFINED)
    if any("passwd" in each.attrib for each in root.iter()):
        message = "the domain XML has a password in it, and plans carry no secrets"
        raise InputError(message, hint=f"{_AS_DEFINED} It leaves passwords out.")
    name = (root.findtext("name") or "").strip()
    if not name:
        raise InputError("the domain XML has no <name>", hint=_AS_DEFINED)
    return name


def facts_with(facts: StackFacts, xml: str) -> StackFacts:
    """Return facts that know of the domain; those that knew of it stay."""
    found, known = domain_facts(xml), facts.domains or ()
    if any(each.name == found.name for each in known):
        return facts
    return replace(facts, domains=(*known, found))


def design_for(design: StackDesign, xml: str) -> StackDesign:
    """Return a design for the present domain: run by what runs it, and said to be that one.

    Raises:
        InputError: The design has no domain, or devices were asked for.
    """
    _require_its_devices(design.request)
    if design.domain is None:
        message = f"a plan for `{design.request.place}` has no domain here, and one was given"
        raise InputError(message, hint="Leave --domain-xml out, or plan --for kvm.")
    domain = replace(design.domain, emulated=_is_emulated(parse_domain(xml)))
    said = (
        f"the domain {domain.name!r} is still as in the XML that the plan started from; what the"
        " plan does not speak of stays"
    )
    return replace(design, domain=domain, assumptions=(*design.assumptions, said))


def design_without(design: StackDesign, facts: StackFacts) -> StackDesign:
    """Return a design that says so where its domain is there and nobody gave its XML."""
    names = {each.name for each in facts.domains or ()}
    if design.domain is None or design.domain.name not in names:
        return design
    disks = "other" if design.domain.disks else "no"
    said = (
        f"the domain {design.domain.name!r} is there and its XML was not given: this one has"
        f" {disks} disks, and is not defined over one that has its own; --domain-xml starts from it"
    )
    return replace(design, assumptions=(*design.assumptions, said))


def _require_its_devices(request: StackRequest) -> None:
    """Refuse devices for a domain that is there: it keeps its own."""
    if request.disks or request.bridge:
        option = "--disk" if request.disks else "--bridge"
        raise InputError(
            f"{option} is for a new virtual machine, and {request.name!r} is there: it keeps its"
            " devices",
            hint="Leave it out, or plan for another --name.",
        )


def _is_emulated(root: Element) -> bool:
    return root.get("type") == "qemu"
