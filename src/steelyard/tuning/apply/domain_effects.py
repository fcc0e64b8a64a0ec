"""Whether a running virtual machine has what its definition asks for."""

from collections.abc import Iterator
from dataclasses import dataclass

from steelyard.core.command import quoted
from steelyard.core.linux import cpu_list
from steelyard.core.stack_facts import DomainFacts
from steelyard.core.units import MIB
from steelyard.tuning.facts.domains import GuestProcess


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One thing that was asked for.

    Attributes:
        holds: None where it cannot be seen.
        fact: What was asked, what is there, and where it was seen.
        remedy: The way out where it does not hold.
    """

    holds: bool | None
    fact: str
    remedy: str = ""


def effects(asked: DomainFacts, process: GuestProcess) -> tuple[Effect, ...]:
    """Return what came of each thing that was asked for, read from the process."""
    return (
        *_pins(asked, process),
        *_memory(asked, process),
        *_locked(asked, process),
        *_balloon(asked, process),
    )


def _pins(asked: DomainFacts, process: GuestProcess) -> Iterator[Effect]:
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


def _pin(what: str, asked: tuple[int, ...], seen: tuple[int, ...] | None, remedy: str) -> Effect:
    if not seen:
        fact = f"{what} is to run on CPU {cpu_list(asked)}; QEMU has no such thread"
        return Effect(holds=False, fact=fact, remedy="Shut the domain down and start it.")
    return Effect(
        holds=tuple(sorted(asked)) == tuple(sorted(seen)),
        fact=f"{what} is to run on CPU {cpu_list(asked)}; its threads may run on CPU"
        f" {cpu_list(seen)} (Cpus_allowed_list)",
        remedy=remedy,
    )


def _memory(asked: DomainFacts, process: GuestProcess) -> Iterator[Effect]:
    if asked.huge_page_bytes is None:
        yield from _unread(asked)
        return
    if not process.memory_seen:
        yield Effect(holds=None, fact=f"/proc/{process.pid}/numa_maps is not readable from here")
        return
    memory = process.memory
    held = sum(memory.bytes_by_node.values()) if memory else 0
    size = memory.page_bytes if memory else None
    yield Effect(
        holds=held >= asked.memory_bytes and size == asked.huge_page_bytes,
        fact=f"{asked.memory_bytes // MIB} MiB are to lie on huge pages of"
        f" {asked.huge_page_bytes // 1024} KiB; {held // MIB} MiB lie on huge pages"
        + (f" of {size // 1024} KiB" if size else "")
        + " (numa_maps)",
        remedy="Allocate the pages on its node, then shut the domain down and start it.",
    )
    if memory and asked.memory_mode == "strict" and asked.memory_nodes:
        yield Effect(
            holds=memory.bound and set(memory.bytes_by_node) <= set(asked.memory_nodes),
            fact=f"the memory is bound to node {cpu_list(asked.memory_nodes)}; it lies on node"
            f" {cpu_list(memory.bytes_by_node)}{'' if memory.bound else ', not bound'} (numa_maps)",
            remedy="Shut the domain down and start it: memory in use does not move.",
        )


def _unread(asked: DomainFacts) -> Iterator[Effect]:
    """Say that nobody reads where memory on ordinary pages lies: QEMU has it among its own."""
    if asked.memory_mode == "strict" and asked.memory_nodes:
        nodes = cpu_list(asked.memory_nodes)
        fact = f"the memory is to be bound to node {nodes}; without huge pages that is not read"
        yield Effect(holds=None, fact=fact)


def _locked(asked: DomainFacts, process: GuestProcess) -> Iterator[Effect]:
    if asked.locked:
        locked = process.locked_bytes
        yield Effect(
            holds=None if locked is None else locked > 0,
            fact=f"the memory is to be locked; {(locked or 0) // MIB} MiB are (VmLck)",
            remedy="Shut the domain down and start it; libvirtd needs CAP_SYS_RESOURCE for it.",
        )


def _balloon(asked: DomainFacts, process: GuestProcess) -> Iterator[Effect]:
    if asked.balloon == "none":
        there = {None: "is not to be seen", True: "has one", False: "has none"}[process.balloon]
        yield Effect(
            holds=None if process.balloon is None else not process.balloon,
            fact=f"there is to be no memory balloon; the command line of QEMU {there}",
            remedy="Shut the domain down and start it: <memballoon model='none'/> is defined.",
        )
