"""What makes wake-ups slow on one machine, and how a campaign's record keeps it.

The record has facts as rows of text; what is written here is read back here.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from steelyard.model.environment import Fact
from steelyard.model.linux_facts import IdleState, LinuxFacts
from steelyard.model.units import US_PER_S, format_latencies

# Guesses; the first is for steal and for the delay of virtual CPUs: above the noise of an idle
# hypervisor, below what latencies at one client show.
WAITED_FRACTION: Final = 0.01
PRESSED_FRACTION: Final = 0.10

_MACHINE: Final = "machine"
_VIRTUALISATION: Final = "virtualisation"  # a row that every record has
_DRIVER, _STATES, _POLLING, _LIMIT = (
    "idle driver",
    "idle states",
    "guest halt polling",
    "wake-up limit",
)
_NOT_VISIBLE: Final = "not visible"
_NO_LIMIT: Final = "none"
_OFF: Final = " (off)"
_STATE: Final = re.compile(r"(.{1,40}) ([0-9.e+]{1,12}) µs( \(off\))?")
_TIME: Final = re.compile(r"([0-9.e+]{1,12}) µs")


def idle_suspects(machine: LinuxFacts, name: str) -> Iterator[str]:
    """Yield which idle state makes wake-ups slow, if one does."""
    deep = machine.deep_states
    if deep:
        deepest = max(deep, key=lambda state: state.exit_latency_s)
        (latency,) = format_latencies([deepest.exit_latency_s])
        yield f"idle CPUs of {name} enter {deepest.name}, which takes {latency} to leave"


def halt_suspects(machine: LinuxFacts) -> Iterator[str]:
    """Yield why idle virtual CPUs halt at once, if they do; nothing where nobody knows."""
    if machine.virtualization in (None, "none"):
        return
    if machine.idle_driver == "none":
        yield (
            "an idle virtual CPU halts at once (no idle driver, which a latency limit does not"
            " change)"
        )
        return
    held = machine.dma_latency_s is not None and machine.dma_latency_s <= 0.0  # polls, never halts
    if machine.guest_halt_poll_s == 0.0 and not held:
        yield "an idle virtual CPU halts at once (guest_halt_poll_ns = 0)"


def wake_up_facts(machine: LinuxFacts, *, limit_seen: bool) -> tuple[Fact, ...]:
    """Return what a record says of the wake-ups of its machine, in the order to print it.

    Args:
        machine: On which the campaign runs.
        limit_seen: Somebody could look for a latency limit: then None means that there is none.
    """
    states = ", ".join(
        f"{state.name} {_us(state.exit_latency_s)}{_OFF if state.disabled else ''}"
        for state in machine.idle_states or ()
    )
    poll, limit = machine.guest_halt_poll_s, machine.dma_latency_s
    rows = {
        _DRIVER: machine.idle_driver or _NOT_VISIBLE,
        _STATES: states or _NOT_VISIBLE,
        _POLLING: _NOT_VISIBLE if poll is None else _us(poll),
        _LIMIT: _us(limit) if limit is not None else _NO_LIMIT if limit_seen else _NOT_VISIBLE,
    }
    return tuple(Fact(name=name, value=text, subject=_MACHINE) for name, text in rows.items())


def recorded_suspects(facts: Iterable[Fact]) -> tuple[str, ...]:
    """Return what of a record's machine makes wake-ups slow; none of a record that lacks it."""
    rows = {fact.name: fact.value for fact in facts if fact.subject == _MACHINE}
    if _STATES not in rows:
        return ()
    driver = rows.get(_DRIVER, _NOT_VISIBLE)
    machine = LinuxFacts(
        virtualization=_virtualization(rows.get(_VIRTUALISATION, "")),
        idle_driver=None if driver == _NOT_VISIBLE else driver,
        idle_states=tuple(_states(rows[_STATES])),
        guest_halt_poll_s=_seconds(rows.get(_POLLING, "")),
        dma_latency_s=_seconds(rows.get(_LIMIT, "")),
    )
    return (*idle_suspects(machine, "this machine"), *halt_suspects(machine))


def _virtualization(text: str) -> str | None:
    if text.startswith("virtual machine"):
        return "unknown"  # of what kind does not matter here
    return "none" if text else None


def _states(text: str) -> Iterator[IdleState]:
    for part in text.split(", "):
        found, latency_s = _STATE.fullmatch(part), None
        if found is not None:
            latency_s = _number(found[2])
        if found is not None and latency_s is not None:
            yield IdleState(name=found[1], exit_latency_s=latency_s, disabled=bool(found[3]))


def _seconds(text: str) -> float | None:
    found = _TIME.fullmatch(text)
    return None if found is None else _number(found[1])


def _number(text: str) -> float | None:
    try:
        return float(text) / US_PER_S
    except ValueError:
        return None


def _us(seconds: float) -> str:
    return f"{seconds * US_PER_S:.10g} µs"
