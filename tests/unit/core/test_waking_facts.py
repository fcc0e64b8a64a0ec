"""Facts of wake-ups in a campaign's record: written as rows, read back, and read by nobody else."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.core.linux import IdleState, LinuxFacts, recorded_suspects, wake_up_facts
from steelyard.core.measurement import Fact

NAMES = ("idle driver", "idle states", "guest halt polling", "wake-up limit")
C1 = IdleState(name="C1", exit_latency_s=2e-6)
C6 = IdleState(name="C6", exit_latency_s=133e-6)
METAL = LinuxFacts(virtualization="none", idle_driver="intel_idle", idle_states=(C1, C6))
GUEST = LinuxFacts(virtualization="kvm", idle_driver="haltpoll", guest_halt_poll_s=0.0)


def rows(machine: LinuxFacts, *, limit_seen: bool = True) -> tuple[Fact, ...]:
    """Return a record's rows, with that of the kind of machine which every record has."""
    virtual = "none seen" if machine.virtualization == "none" else "virtual machine (KVM)"
    kind = Fact(name="virtualisation", value=virtual, subject="machine")
    return (kind, *wake_up_facts(machine, limit_seen=limit_seen))


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (METAL, ("enter C6, which takes 0.13 ms",)),
        (replace(METAL, idle_states=(C1, replace(C6, disabled=True))), ()),
        (replace(METAL, dma_latency_s=20e-6), ()),
        (replace(METAL, dma_latency_s=200e-6), ("enter C6",)),
        (replace(METAL, idle_driver="none", idle_states=None), ()),  # no virtual machine
        (GUEST, ("guest_halt_poll_ns = 0",)),
        (replace(GUEST, guest_halt_poll_s=200e-6), ()),
        (replace(GUEST, dma_latency_s=0.0), ()),  # it polls
        (replace(GUEST, idle_driver="none", guest_halt_poll_s=None), ("no idle driver",)),
        (LinuxFacts(virtualization="kvm"), ()),  # nothing was visible
    ],
)
def test_what_is_written_is_read_back(machine: LinuxFacts, words: tuple[str, ...]) -> None:
    """The suspects of the rows are those of the facts that they were made of."""
    found = recorded_suspects(rows(machine))
    assert len(found) == len(words)
    assert all(word in clause for word, clause in zip(words, found, strict=True))


def test_rows_say_what_was_not_visible() -> None:
    """A limit that nobody could look for is not the same as none."""
    blind = {fact.name: fact.value for fact in rows(LinuxFacts(), limit_seen=False)}
    assert [blind[name] for name in NAMES] == ["not visible"] * 4
    told = {fact.name: fact.value for fact in rows(replace(METAL, guest_halt_poll_s=2e-4))}
    assert [told[name] for name in NAMES] == [
        "intel_idle",
        "C1 2 µs, C6 133 µs",
        "200 µs",
        "none",
    ]


@given(st.lists(st.sampled_from([*NAMES, "virtualisation"])), st.text(max_size=60))
def test_no_row_breaks_the_reader(names: list[str], text: str) -> None:
    """A record may come from anywhere: whatever its rows say, clauses come of it or none."""
    facts = [Fact(name=name, value=text, subject="machine") for name in names]
    assert all(isinstance(clause, str) for clause in recorded_suspects(facts))


@given(st.from_regex(r"(C[0-9]{1,3} [0-9.e+]{1,12} µs( \(off\))?(, )?){1,4}", fullmatch=True))
def test_no_number_breaks_the_reader(text: str) -> None:
    """Neither two points nor an infinite power of ten."""
    facts = [Fact(name="idle states", value=text, subject="machine")]
    assert all(isinstance(clause, str) for clause in recorded_suspects(facts))
