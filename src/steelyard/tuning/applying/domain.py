"""The door to libvirt's domains: it defines one, and never starts or ends any.

A definition is in effect when its virtual machine is started; until then the knob is pending.
Invariants: only the domain that the knob names is defined or undefined, and under its own uuid;
neither a definition nor its return takes from a domain what it has beside the knob's settings.
"""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from steelyard.gateways.host import Host
from steelyard.gateways.virsh import Domains
from steelyard.model.command import quoted
from steelyard.model.errors import InputError, PreflightError, PrivilegeError, TargetError
from steelyard.model.stack import Knob
from steelyard.model.stack_facts import DomainFacts
from steelyard.tuning.applying.domain_effects import Effect, effects
from steelyard.tuning.applying.domain_identity import dropped, identified
from steelyard.tuning.applying.domain_requirements import unstartable
from steelyard.tuning.applying.door import Check, Seen
from steelyard.tuning.facts.domain_tree import domain_text, parse_domain
from steelyard.tuning.facts.domain_xml import domain_facts
from steelyard.tuning.facts.guest_process import guest_process

_ABSENT = ""  # the snapshot and the value of a domain that is not there
# What tells nothing of a definition: libvirt fills in the mode of the CPU.
_NEUTRAL = frozenset({"running", "autostart", "lost_elements", "vcpu_delay_fraction", "cpu_mode"})
# What a machine is started with and its process does not tell.
_STARTED_WITH = ("vcpus", "memory_bytes", "cells", "hard_limit_bytes", "threads_per_core")


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainDoor:
    """Defines domains of one libvirt.

    Attributes:
        host: The machine of that libvirt, where effects are read.
    """

    domains: Domains
    host: Host

    def seen(self, knob: Knob) -> Seen:
        """Return the domain as it is defined: the knob's own text where they agree."""
        source = f"virsh dumpxml {quoted(knob.place)} --inactive"
        present = self.domains.xml(knob.place, defined=True)
        if present is None:
            return Seen(value=_ABSENT, source=source, reason="there is no such domain")
        if _disagreement(knob.value, present):
            return Seen(value=present, source=source)
        return Seen(value=knob.value, source=source, pending=self._pending(knob))

    def require(self, knob: Knob) -> None:
        """Check that the domain may be defined, would start, and takes nothing from a present one.

        Raises:
            PreflightError: It could not start here, is another domain than the present one, or
                that one has a password, which no record may have.
            PrivilegeError: The account may not speak to libvirt.
            TargetError: There is no libvirt.
        """
        asked = _asked(knob)
        present = self.domains.xml(knob.place, defined=True)
        if present is not None:
            self._require_same(knob, asked, present)
            self._require_no_password(knob)
        reasons = tuple(unstartable(domain_facts(knob.value), self.host))
        if reasons:
            message = f"the domain {knob.place} could not start here: {'; '.join(reasons)}"
            raise PreflightError(message, hint="Plan it anew with the facts of this host.")

    def snapshot(self, knob: Knob) -> str:
        """Return the definition, empty where there is none.

        Raises:
            PreflightError: It holds a password, which no record may have.
        """
        self._require_no_password(knob)
        return self.domains.xml(knob.place, defined=True) or _ABSENT

    def apply(self, knob: Knob) -> None:
        """Define the domain and read it back.

        Raises:
            TargetError: libvirt refuses it, or did not keep all of it.
        """
        asked = _asked(knob)
        present = self.domains.xml(knob.place, defined=True)
        if present is not None:
            self._require_same(knob, asked, present)
            if not _disagreement(knob.value, present):
                return
            identified(asked, parse_domain(present))
        self.domains.define(domain_text(asked))
        disagreement = _disagreement(knob.value, self._defined(knob))
        if disagreement:
            raise TargetError(
                f"libvirt did not keep all of {knob.place}: {disagreement}",
                hint="It drops what it does not know at that place (virt-xml-validate).",
            )

    def verify(self, knob: Knob) -> Check:
        """Return whether the virtual machine has what was asked, read from its process."""
        present = self.domains.xml(knob.place, defined=True)
        if present is None:
            fact = f"there is no domain {knob.place} at {self.domains.uri}"
            return Check(holds=False, facts=(fact,), remedy="Apply the plan.")
        disagreement = _disagreement(knob.value, present)
        if disagreement:
            fact = f"the definition of {knob.place} is another one: {disagreement}"
            return Check(holds=False, facts=(fact,), remedy="Apply the plan.")
        return self._running_check(knob)

    def revert(self, knob: Knob, snapshot: str) -> None:
        """Define what was there before, or remove the definition where nothing was.

        Raises:
            TargetError: It runs and was not there before, somebody has changed what it owns since,
                or libvirt refuses.
        """
        present = self.domains.xml(knob.place, defined=True) or _ABSENT
        if present == snapshot:
            return
        if present != _ABSENT:
            self._require_unchanged(knob, snapshot, present)
        if snapshot == _ABSENT:
            self._remove(knob)
            return
        self.domains.define(snapshot)
        restored = self._defined(knob)
        if restored != snapshot and _disagreement(snapshot, restored):
            raise TargetError(
                f"{knob.place} is not defined as it was before:"
                f" {_disagreement(snapshot, restored)}",
                hint=f"Compare it with the snapshot by hand: virsh edit {quoted(knob.place)}.",
            )

    def commands(self, knob: Knob) -> Sequence[str]:
        """Return the call of virsh, with the definition in it, for the domain that is there."""
        text = self._to_define(knob).rstrip()
        end = "DOMAIN"
        while end in text.splitlines():
            end += "_"
        call = f"virsh --connect={shlex.quote(self.domains.uri)} define --validate /dev/stdin"
        return (f"{call} <<'{end}'\n{text}\n{end}",)

    def _to_define(self, knob: Knob) -> str:
        """Return the knob's definition with the uuid and addresses of the present domain."""
        try:
            asked, present = _asked(knob), self.domains.xml(knob.place, defined=True)
        except (PreflightError, PrivilegeError, TargetError):
            return knob.value  # libvirt does not say whether it is there
        if present is None:
            return knob.value
        identified(asked, parse_domain(present))
        return domain_text(asked)

    def _require_no_password(self, knob: Knob) -> None:
        if self.domains.has_secrets(knob.place):
            raise PreflightError(
                f"the definition of {knob.place} holds a password, which is not written anywhere",
                hint=f"Change it by hand: virsh edit {quoted(knob.place)}.",
            )

    def _require_same(self, knob: Knob, asked: Element, present: str) -> None:
        there = parse_domain(present)
        wanted, uuid = asked.findtext("uuid"), there.findtext("uuid")
        if wanted and wanted != uuid:
            raise PreflightError(
                f"there is another domain {knob.place} already, with the uuid {uuid}",
                hint="Give the plan another name.",
            )
        lost = tuple(dropped(asked, there))
        if lost:
            raise PreflightError(
                f"{knob.place} exists and has what the plan lacks: {', '.join(lost)}",
                hint=f"Let the plan start from it (virsh dumpxml {quoted(knob.place)} --inactive"
                " > FILE; steelyard stack plan --domain-xml FILE), or give the plan another name.",
            )

    def _require_unchanged(self, knob: Knob, snapshot: str, present: str) -> None:
        """Check that a domain owns what it did before or by the plan, and nothing else.

        Its settings are the plan's: those of a later hand go back with them.
        """
        there, asked = parse_domain(present), parse_domain(knob.value)
        added, gone = set(dropped(asked, there)), set[str]()
        if snapshot != _ABSENT:
            former = parse_domain(snapshot)
            added &= set(dropped(former, there))
            gone = set(dropped(there, former)) - set(dropped(asked, former))
        for verb, things in (("given", added), ("taken from", gone)):
            if things:
                way_out = f"Undo that by hand (virsh edit {quoted(knob.place)}), then revert again."
                if snapshot == _ABSENT:
                    way_out += f" If nobody needs the domain: virsh undefine {quoted(knob.place)}."
                raise TargetError(
                    f"somebody has {verb} {knob.place} since the plan was applied:"
                    f" {', '.join(sorted(things))}",
                    hint=way_out,
                )

    def _remove(self, knob: Knob) -> None:
        if knob.place in self.domains.names(running=True):
            raise TargetError(
                f"{knob.place} runs, and there was no such domain before the plan",
                hint=f"Shut it down first: virsh shutdown {quoted(knob.place)}. Then revert again.",
            )
        self.domains.undefine(knob.place)

    def _defined(self, knob: Knob) -> str:
        text = self.domains.xml(knob.place, defined=True)
        if text is None:
            raise TargetError(
                f"libvirt took the domain {knob.place} and does not have it",
                hint="Is somebody else removing it?",
            )
        return text

    def _running_check(self, knob: Knob) -> Check:
        """Return what a running virtual machine says of its definition."""
        name = knob.place
        if name not in self.domains.names(running=True):
            fact = f"{name} is defined as asked and does not run: nothing is in effect yet"
            return Check(holds=False, facts=(fact,), pending=_start(name))
        process = guest_process(self.host, name)
        if process is None:
            fact = f"{name} runs; its process is not visible from here (/run/libvirt/qemu, /proc)"
            return Check(
                holds=None, facts=(fact,), remedy="Run the command as root on that machine."
            )
        found = (*effects(domain_facts(knob.value), process), *self._started_with(knob))
        remedies = dict.fromkeys(each.remedy for each in found if each.holds is False)
        unseen = f"nothing that is asked of {name} can be read from its process"
        return Check(
            holds=_all_hold(found),
            facts=tuple(each.fact for each in found) or (unseen,),
            remedy=" ".join(remedy for remedy in remedies if remedy),
            pending=self._pending(knob) if remedies else "",
        )

    def _started_with(self, knob: Knob) -> Iterator[Effect]:
        """Return what the machine was started with otherwise, and its process does not tell."""
        wanted, active = domain_facts(knob.value), self.domains.xml(knob.place)
        if active is None:
            return
        there = domain_facts(active)
        for name in _STARTED_WITH:
            if getattr(there, name) != getattr(wanted, name):
                fact = f"it was started with other {name.replace('_', ' ')} (virsh dumpxml)"
                yield Effect(holds=False, fact=fact, remedy="Shut the domain down and start it.")

    def _pending(self, knob: Knob) -> str:
        """Return what must happen before the definition is in effect; empty when nothing must."""
        name = knob.place
        if name not in self.domains.names(running=True):
            return _start(name)
        active = self.domains.xml(name)
        if active is None or not _disagreement(knob.value, active):
            return ""
        return (
            f"a power cycle of {name}, which still runs with another configuration"
            f" (virsh shutdown {quoted(name)}, and when it is off virsh start {quoted(name)})"
        )


def _asked(knob: Knob) -> Element:
    """Return the knob's definition.

    Raises:
        PreflightError: It is none, or that of another domain.
    """
    try:
        asked = parse_domain(knob.value)
    except InputError as error:
        raise PreflightError(f"{knob.name}: {error.message}", hint=error.hint) from error
    name = (asked.findtext("name") or "").strip()
    if name != knob.place:
        raise PreflightError(
            f"{knob.name} is to define {knob.place}, and its XML defines {name or 'no name'}",
            hint="Plan it anew.",
        )
    return asked


def _disagreement(asked: str, found: str) -> str:
    """Return in which a definition is not the one that was asked for; empty when it is."""
    there = domain_facts(found, asked)
    if there.lost_elements:
        return "it lacks " + ", ".join(there.lost_elements)
    wanted = domain_facts(asked)
    names = (name for name in DomainFacts.__slots__ if name not in _NEUTRAL)
    differing = [name for name in names if getattr(wanted, name) != getattr(there, name)]
    return "it differs in " + ", ".join(differing).replace("_", " ") if differing else ""


def _start(name: str) -> str:
    return f"the start of {name} (virsh start {quoted(name)})"


def _all_hold(found: Sequence[Effect]) -> bool | None:
    """Return whether all hold; None where something, or all of it, is not seen."""
    states = {each.holds for each in found}
    if False in states:
        return False
    return True if states == {True} else None
