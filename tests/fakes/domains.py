"""A libvirt of nothing but definitions, which treats them as the real one does."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import NAMESPACE_DNS, uuid5
from xml.etree.ElementTree import Element, SubElement

from steelyard.core.wording import TargetError
from steelyard.gateways.virsh import Domains
from steelyard.tuning.facts.domain_xml import domain_text, parse_domain


@dataclass(kw_only=True)
class FakeDomains(Domains):
    """Domains as they are defined, and as they were when a test started them.

    Attributes:
        forgets: Elements below ``domain`` that it does not keep.
        delays: What each look says of waiting virtual CPUs, one after the other.
        secret: Domains that have a password.
    """

    uri: str = "test:///fake"
    defined: dict[str, str] = field(default_factory=dict)
    active: dict[str, str] = field(default_factory=dict)
    starting: set[str] = field(default_factory=set)
    forgets: tuple[str, ...] = ()
    delays: list[Mapping[str, tuple[float, ...]]] = field(default_factory=list)
    secret: set[str] = field(default_factory=set)
    definitions: int = 0

    def names(self, *, running: bool = False) -> tuple[str, ...]:
        """Return the names of all domains, or of those that run."""
        return tuple(sorted(self.active if running else {**self.defined, **self.active}))

    def xml(self, name: str, *, defined: bool = False) -> str | None:
        """Return a domain as it runs, or as it is defined."""
        return self.defined.get(name) if defined else self.active.get(name, self.defined.get(name))

    def has_secrets(self, name: str) -> bool:
        """Return what a test says."""
        return name in self.secret

    def autostart(self, name: str) -> bool:
        """Return what a test says."""
        return name in self.starting

    def define(self, xml: str) -> None:
        """Define a domain; the schema of this one knows of misplaced balloons only."""
        domain = parse_domain(xml)
        name = domain.findtext("name") or ""
        if domain.find("memballoon") is not None:
            raise TargetError("virsh define failed: Did not expect element memballoon there")
        uuid = domain.findtext("uuid")
        if name in self.defined and uuid != parse_domain(self.defined[name]).findtext("uuid"):
            raise TargetError(f"virsh define failed: domain '{name}' already exists with uuid")
        self._complete(domain, name)
        self.definitions += 1
        self.defined[name] = domain_text(domain)

    def undefine(self, name: str) -> None:
        """Remove a definition; an absent one is no error."""
        self.defined.pop(name, None)

    def vcpu_delays_s(self) -> Mapping[str, tuple[float, ...]]:
        """Return the next look that a test has prepared."""
        return self.delays.pop(0) if self.delays else {}

    def start(self, name: str) -> None:
        """Start a domain with the definition that it has now."""
        self.active[name] = self.defined[name].replace("<domain ", "<domain id='1' ", 1)

    def end(self, name: str) -> None:
        """End a domain."""
        del self.active[name]

    def _complete(self, domain: Element, name: str) -> None:
        """Add what libvirt adds, and lose what it is to lose."""
        if domain.find("uuid") is None:
            SubElement(domain, "uuid").text = str(uuid5(NAMESPACE_DNS, name))
        devices = domain.find("devices")
        devices = SubElement(domain, "devices") if devices is None else devices
        if devices.find("memballoon") is None:
            SubElement(devices, "memballoon", {"model": "virtio"})
        for number, card in enumerate(devices.findall("interface")):
            if card.find("mac") is None:
                SubElement(
                    card, "mac", {"address": f"52:54:00:00:{self.definitions:02x}:{number:02x}"}
                )
        for tag in self.forgets:
            for element in domain.findall(tag):
                domain.remove(element)
