"""The door to libvirt's domains: it defines one, and never starts or ends any.

A definition is in effect when its virtual machine is started; until then the knob is pending.
Invariants: only the domain that the knob names is defined or undefined, and under its own uuid;
neither a definition nor its return takes from a domain what it has beside the knob's settings.

A definition replaces the former one whole: what it does not name is gone from the domain. What
libvirt adds by itself to a definition without it is no loss (formatdomain; and what libvirt 9.0
added to the definitions of our tests).

What would keep a domain from starting is looked for beforehand: libvirt defines it without a word
and fails at the start (measured; the sentences name what it says then).
"""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final
from xml.etree.ElementTree import Element, SubElement

from steelyard.core.linux import cpu_list
from steelyard.core.stack import DomainFacts, Knob
from steelyard.core.wording import (
    KIB,
    MIB,
    InputError,
    PreflightError,
    PrivilegeError,
    TargetError,
    quoted,
)
from steelyard.gateways.host import Host
from steelyard.gateways.virsh import Domains
from steelyard.tuning.apply.door import Check, KnobDoor, Seen
from steelyard.tuning.facts.domain_xml import attribute, domain_facts, domain_text, parse_domain
from steelyard.tuning.facts.domains import GuestProcess, guest_process, online
from steelyard.tuning.facts.linux import default_page_bytes, mounted_sizes


def effects(asked: DomainFacts, process: GuestProcess) -> tuple[Check, ...]:
    """Return what came of each thing that was asked for, read from the process."""
    return (
        *_pins(asked, process),
        *_memory(asked, process),
        *_locked(asked, process),
        *_balloon(asked, process),
    )


def _pins(asked: DomainFacts, process: GuestProcess) -> Iterator[Check]:
    name = asked.name
    for number, cpus in sorted(asked.vcpu_pins.items()):
        remedy = f"virsh vcpupin {quoted(name)} {number} {cpu_list(cpus)} --live"
        yield _pin(f"virtual CPU {number}", cpus, process.vcpus.get(number), remedy)
    if asked.emulator_pins:
        remedy = f"virsh emulatorpin {quoted(name)} {cpu_list(asked.emulator_pins)} --live"
        yield _pin("the emulator", asked.emulator_pins, process.emulator, remedy)
    if asked.io_thread_pins:
        remedy = f"virsh iothreadpin {quoted(name)} NUMBER {cpu_list(asked.io_thread_pins)} --live"
        yield _pin("the I/O threads", asked.io_thread_pins, process.io_thread_cpus, remedy)


def _pin(what: str, asked: tuple[int, ...], seen: tuple[int, ...] | None, remedy: str) -> Check:
    if not seen:
        fact = f"{what} is to run on CPU {cpu_list(asked)}; QEMU has no such thread"
        return Check(holds=False, facts=(fact,), remedy="Shut the domain down and start it.")
    fact = (
        f"{what} is to run on CPU {cpu_list(asked)}; its threads may run on CPU"
        f" {cpu_list(seen)} (Cpus_allowed_list)"
    )
    holds = tuple(sorted(asked)) == tuple(sorted(seen))
    return Check(holds=holds, facts=(fact,), remedy=remedy)


def _memory(asked: DomainFacts, process: GuestProcess) -> Iterator[Check]:
    bound = cpu_list(asked.memory_nodes) if asked.memory_mode == "strict" else ""
    if not asked.huge_bytes:
        if bound:  # where ordinary pages lie is not read: QEMU has memory of its own among them
            fact = f"the memory is to be bound to node {bound}; without huge pages that is not read"
            yield Check(holds=None, facts=(fact,))
        return
    if not process.memory_seen:
        fact = f"/proc/{process.pid}/numa_maps is not readable from here"
        yield Check(holds=None, facts=(fact,))
        return
    memory = process.memory
    by_size = memory.bytes_by_size if memory else {}
    held = [
        f"{held // MIB} MiB lie on huge pages of {size // KIB} KiB"
        for size, held in sorted(by_size.items())
    ]
    for size, count in asked.huge_bytes.items():
        fact = (
            f"{count // MIB} MiB are to lie on huge pages of {size // KIB} KiB;"
            f" {', '.join(held) or '0 MiB lie on huge pages'} (numa_maps)"
        )
        yield Check(
            holds=by_size.get(size, 0) >= count,
            facts=(fact,),
            remedy="Allocate the pages on its node, then shut the domain down and start it.",
        )
    if memory and bound:
        fact = (
            f"the memory is bound to node {bound}; it lies on node"
            f" {cpu_list(memory.bytes_by_node)}{'' if memory.bound else ', not bound'} (numa_maps)"
        )
        yield Check(
            holds=memory.bound and set(memory.bytes_by_node) <= set(asked.memory_nodes),
            facts=(fact,),
            remedy="Shut the domain down and start it: memory in use does not move.",
        )


def _locked(asked: DomainFacts, process: GuestProcess) -> Iterator[Check]:
    if asked.locked:
        locked = process.locked_bytes
        yield Check(
            holds=None if locked is None else locked > 0,
            facts=(f"the memory is to be locked; {(locked or 0) // MIB} MiB are (VmLck)",),
            remedy="Shut the domain down and start it; libvirtd needs CAP_SYS_RESOURCE for it.",
        )


def _balloon(asked: DomainFacts, process: GuestProcess) -> Iterator[Check]:
    if asked.balloon == "none":
        there = {None: "is not to be seen", True: "has one", False: "has none"}[process.balloon]
        yield Check(
            holds=None if process.balloon is None else not process.balloon,
            facts=(f"there is to be no memory balloon; the command line of QEMU {there}",),
            remedy="Shut the domain down and start it: <memballoon model='none'/> is defined.",
        )


_ELSEWHERE: Final = frozenset({"disk", "interface"})  # told by sources and addresses
_OF_ITSELF: Final = frozenset({"memballoon", "audio", "hub"})  # the first is the plan's
_USUAL_PROGRAMS: Final = ("/usr/bin/", "/usr/libexec/")  # QEMU as distributions install it
_OWN: Final = frozenset({"type", "model", "mode", "name", "bus"})
_PARTS: Final = ("source", "target", "backend", "model", "cid")
_OWNER_S: Final = (  # of the owner, below <domain>
    "title",
    "description",
    "metadata",
    "genid",
    "sysinfo",
    "launchSecurity",
    "seclabel",
)
_SYSTEM: Final = ("kernel", "initrd", "dtb")

Traits = frozenset[tuple[str, str]]


def lost_devices(asked: Element, present: Element) -> Iterator[str]:
    """Return which devices of the present definition have no counterpart in the asked one."""
    free = [(_kind(each), _traits(each)) for each in asked.findall("devices/*") if _is_told(each)]
    free.sort(key=lambda each: -len(each[1]))  # the most exact one first
    for device in present.findall("devices/*"):
        if not _is_told(device) or _is_made_by_libvirt(device, asked):
            continue
        traits = _traits(device)
        match = next((one for one in free if one[0] == _kind(device) and one[1] <= traits), None)
        if match is None:
            yield _named(device)
        else:
            free.remove(match)


def lost_system(asked: Element, present: Element) -> Iterator[str]:
    """Return what of firmware, kernel and the owner's own words the asked definition lacks."""
    yield from _lost_firmware(asked, present)
    for tag in _SYSTEM:
        if present.find(f"os/{tag}") is not None and asked.find(f"os/{tag}") is None:
            yield f"{tag} {_text(present, f'os/{tag}')}"
    there = {child.tag for child in asked}
    for child in present:
        foreign = isinstance(child.tag, str) and ":" in child.tag  # qemu:commandline
        if (foreign or child.tag in _OWNER_S) and child.tag not in there:
            yield f"<{child.tag}>"
    program = _text(present, "devices/emulator")
    other = not program.startswith(_USUAL_PROGRAMS)
    if program and other and program != _text(asked, "devices/emulator"):
        yield f"emulator {program}"


def _lost_firmware(asked: Element, present: Element) -> Iterator[str]:
    chosen = _system(present).get("firmware")
    if chosen and chosen == _system(asked).get("firmware"):
        return  # libvirt chooses the files
    loader, variables = _text(present, "os/loader"), _text(present, "os/nvram")
    if loader and loader != _text(asked, "os/loader"):
        yield f"firmware {loader}"
    elif chosen and not loader:
        yield f"firmware {chosen}"
    made = PurePath(variables).name.startswith(f"{_text(present, 'name')}_VARS.")
    wanted = _text(asked, "os/nvram")
    if variables and variables != wanted and (wanted or not made or not _text(asked, "os/loader")):
        yield f"firmware variables {variables}"


def _is_told(device: Element) -> bool:
    tag = device.tag
    return isinstance(tag, str) and tag not in _ELSEWHERE | _OF_ITSELF | {"emulator"}


def _is_made_by_libvirt(device: Element, asked: Element) -> bool:
    """Return whether libvirt adds such a device to a definition that lacks it."""
    if device.tag == "controller":
        return device.get("type") != "scsi" or device.get("model") in (None, "lsilogic")
    if device.tag == "console":  # that of the first serial port is the port itself
        return (attribute(device, "target", "type") or "serial") == "serial"
    if device.tag == "input":
        return device.get("bus") == "ps2"
    if device.tag == "video":
        return asked.find("devices/graphics") is not None and asked.find("devices/video") is None
    return device.tag == "watchdog" and device.get("model") == "itco"


def _kind(device: Element) -> str:
    """Return a device's tag; a lone console becomes a serial port."""
    serial = (attribute(device, "target", "type") or "serial") == "serial"
    return "serial" if serial and device.tag == "console" else str(device.tag)


def _traits(device: Element) -> Traits:
    """Return what tells a device from others of its kind."""
    own = {(name, value) for name, value in device.attrib.items() if name in _OWN}
    below = {
        (f"{part}/{each.tag}@{name}", _plain(value))
        for part in _PARTS
        for top in device.findall(part)
        for each in top.iter()
        for name, value in each.attrib.items()
    }
    return frozenset(own | below)


def _plain(value: str) -> str:
    """Return a number of an address without its leading zeros."""
    try:
        return str(int(value, 0))
    except ValueError:
        return value


def _named(device: Element) -> str:
    """Return a device in words: its tag, and what identifies it."""
    words = [device.get(name, "") for name in ("type", "model", "name") if device.get(name)]
    for part in ("source", "target"):
        for top in device.findall(part):
            words += [value for each in top.iter() for value in each.attrib.values()]
    return " ".join((str(device.tag), *words))


def _system(root: Element) -> Element:
    found = root.find("os")
    return Element("os") if found is None else found


def _text(root: Element, path: str) -> str:
    return (root.findtext(path) or "").strip()


_NO_ADDRESS = frozenset({"index", "startupPolicy"})  # attributes of a source that do not name it


def dropped(asked: Element, present: Element) -> Iterator[str]:
    """Return what of the present definition would be gone if the asked one took its place.

    Settings are none of it: memory, CPUs, pins and features are what a plan changes.
    """
    disks = {_source(disk) for disk in asked.findall("devices/disk")}
    for disk in present.findall("devices/disk"):
        if _source(disk) not in disks:
            yield f"disk {' '.join(_source(disk)) or 'without a source'}"
    yield from _dropped_cards(asked, present)
    yield from lost_devices(asked, present)
    yield from lost_system(asked, present)


def _dropped_cards(asked: Element, present: Element) -> Iterator[str]:
    cards = asked.findall("devices/interface")
    addresses = [_address(card) for card in cards]
    unnamed = addresses.count("")  # libvirt makes up an address for these
    for card in present.findall("devices/interface"):
        if _address(card) in addresses:
            continue
        unnamed -= 1
        if unnamed < 0:
            yield f"network card {_address(card)}"


def identified(asked: Element, present: Element) -> None:
    """Give a definition the uuid and the network addresses of the domain that is there.

    Without a uuid libvirt would take it for another domain of the same name; without an address
    the guest would wake up with a card that it has not seen before.
    """
    uuid = asked.find("uuid")
    if uuid is None:
        uuid = SubElement(asked, "uuid")
    uuid.text = present.findtext("uuid")
    cards = asked.findall("devices/interface")
    taken = {_address(card) for card in cards}
    free = [
        address
        for card in present.findall("devices/interface")
        if (address := _address(card)) not in taken
    ]
    for card in cards:
        if not _address(card) and free:
            SubElement(card, "mac", {"address": free.pop(0)})


def _address(card: Element) -> str:
    return (attribute(card, "mac", "address") or "").lower()


def _source(disk: Element) -> tuple[str, ...]:
    source = disk.find("source")
    attributes = {} if source is None else source.attrib
    return tuple(sorted(value for name, value in attributes.items() if name not in _NO_ADDRESS))


_HUGE_PAGES = "/sys/kernel/mm/hugepages"


def unstartable(asked: DomainFacts, host: Host) -> Iterator[str]:
    """Return why a domain could not start on a host, in sentences."""
    pins = asked.pinned_cpus | {*asked.emulator_pins, *asked.io_thread_pins}
    yield from _absent("CPU", pins, online(host, "cpu"))
    yield from _absent("NUMA node", frozenset(asked.memory_nodes), online(host, "node"))
    for part in asked.memory_parts.values():
        if part.huge_page_bytes and part.memory_bytes % part.huge_page_bytes:
            size = part.huge_page_bytes // KIB
            yield f"{part.memory_bytes // KIB} KiB are no multiple of its pages of {size} KiB"
    pools = host.names(_HUGE_PAGES)
    for size in asked.huge_bytes:
        if pools and f"hugepages-{size // KIB}kB" not in pools:
            yield f"the host has no pages of {size // KIB} KiB"
        else:
            yield from _unmounted(size, host)


def _unmounted(size: int, host: Host) -> Iterator[str]:
    """Return what is wrong with the mounts that libvirt takes huge pages from."""
    mounts = host.read("/proc/mounts")
    if not mounts:
        return
    sizes = mounted_sizes(mounts, default_page_bytes(host) or size)
    if not sizes:
        yield "no hugetlbfs is mounted, which libvirt takes huge pages from (/dev/hugepages)"
    elif size not in sizes:
        there = ", ".join(f"{each // KIB} KiB" for each in sizes)
        yield (
            f"no hugetlbfs is mounted for pages of {size // KIB} KiB, only for those of {there}:"
            f" mount -t hugetlbfs -o pagesize={size // KIB}K hugetlbfs"
            f" /dev/hugepages-{size // KIB}kB, and restart libvirtd"
        )


def _absent(what: str, wanted: frozenset[int], there: tuple[int, ...]) -> Iterator[str]:
    if there and (absent := wanted.difference(there)):
        yield f"the host has no {what} {cpu_list(absent)}, only {cpu_list(there)}"


_ABSENT = ""  # the snapshot and the value of a domain that is not there
# What tells nothing of a definition: libvirt fills in the mode of the CPU.
_NEUTRAL = frozenset({"running", "autostart", "lost_elements", "vcpu_delay_fraction", "cpu_mode"})
# What a machine is started with and its process does not tell.
_STARTED_WITH = (
    "vcpus",
    "memory_bytes",
    "cells",
    "modules",
    "hard_limit_bytes",
    "threads_per_core",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainDoor(KnobDoor):
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

        A present one has no password, which no record may have.
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
        """Define the domain and read it back: libvirt may not have kept all of it."""
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

        Not where it runs and was not there before, or somebody has changed what it owns since.
        """
        present = self.domains.xml(knob.place, defined=True) or _ABSENT
        if present == snapshot:
            return
        if present != _ABSENT:
            self._require_unchanged(knob, snapshot, present)
        if snapshot == _ABSENT:
            if knob.place in self.domains.names(running=True):
                shut = f"Shut it down first: virsh shutdown {quoted(knob.place)}."
                raise TargetError(
                    f"{knob.place} runs, and there was no such domain before the plan",
                    hint=f"{shut} Then revert again.",
                )
            self.domains.undefine(knob.place)
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
        states = {each.holds for each in found}
        unseen = f"nothing that is asked of {name} can be read from its process"
        return Check(
            # None where something, or all of it, is not seen.
            holds=False if False in states else True if states == {True} else None,
            facts=tuple(fact for each in found for fact in each.facts) or (unseen,),
            remedy=" ".join(remedy for remedy in remedies if remedy),
            pending=self._pending(knob) if remedies else "",
        )

    def _started_with(self, knob: Knob) -> Iterator[Check]:
        """Return what the machine was started with otherwise, and its process does not tell."""
        wanted, active = domain_facts(knob.value), self.domains.xml(knob.place)
        if active is None:
            return
        there = domain_facts(active)
        for name in _STARTED_WITH:
            if getattr(there, name) != getattr(wanted, name):
                fact = f"it was started with other {name.replace('_', ' ')} (virsh dumpxml)"
                remedy = "Shut the domain down and start it."
                yield Check(holds=False, facts=(fact,), remedy=remedy)

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
