"""What a refusal says would fit: obeyed to the letter, it does."""

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.core.linux import LinuxFacts
from steelyard.core.stack import DomainFacts, Place, StackFacts, StackRequest
from steelyard.core.wording import GIB, MIB, PreflightError, parse_bytes
from steelyard.tuning.plan.arithmetic import formula_counter
from steelyard.tuning.plan.designing import design_stack
from support.made_machines import bare, machine, untuned_guest

_OPTIONS = {
    "--memory": "memory_bytes",
    "--cpus": "cpus",
    "--shared-buffers": "shared_buffers_bytes",
    "--max-connections": "max_connections",
}

machines = st.builds(
    machine,
    nodes=st.sampled_from((1, 2, 4)),
    cores=st.sampled_from((1, 2, 4, 8)),
    threads=st.sampled_from((1, 2)),
    node_gib=st.sampled_from((4, 16, 64)),
    pages=st.sampled_from((0, 1000)),
)
requests = st.builds(
    StackRequest,
    cpus=st.sampled_from((1, 2, 3, 7, 16, 31)),
    memory_bytes=st.sampled_from((256 * MIB, GIB, 3 * GIB, 12 * GIB, 100 * GIB)),
    place=st.sampled_from((Place.LOCAL, Place.KVM, Place.CNPG)),
    shared_buffers_bytes=st.sampled_from((None, None, 128 * MIB, 6 * GIB)),
    max_connections=st.sampled_from((None, None, 30, 500)),
    postgres_version=st.sampled_from((13, 15, 18)),
)


def refusal(request: StackRequest, facts: StackFacts) -> PreflightError | None:
    """Return why a plan is refused; None where it is made."""
    try:
        design_stack(request, facts, formula_counter(request.postgres_version))
    except PreflightError as error:
        return error
    return None


def obeyed(request: StackRequest, words: str) -> StackRequest:
    """Return a request with options of the command line in effect."""
    changes = {}
    for option, value in re.findall(r"(--[a-z-]+) (\S+)", words):
        changes[_OPTIONS[option]] = parse_bytes(value)
    assert changes, words
    return replace(request, **changes)


@pytest.mark.slow
@given(request=requests, linux=machines, above=st.booleans())
@settings(max_examples=40, deadline=None)
def test_every_literal_hint_is_accepted_when_obeyed(
    *, request: StackRequest, linux: LinuxFacts, above: bool
) -> None:
    """Each option in backquotes is planned, with everything else as it was asked for."""
    facts = bare(linux)
    if above:
        facts = StackFacts(hypervisor=linux, linux=untuned_guest(linux), domains=())
    error = refusal(request, facts)
    if error is None:
        return
    options = re.findall(r"`([^`]*)`", error.hint)
    assert options or error.hint.startswith("Nothing of the kind fits"), error.hint
    for words in options:
        assert refusal(obeyed(request, words), facts) is None, (words, error.message)


@pytest.mark.parametrize("place", [Place.LOCAL, Place.KVM])
def test_where_nothing_fits_no_number_is_named(place: Place) -> None:
    """A node that another machine fills has no room for the least server, and the hint says so."""
    full = DomainFacts(name="full", vcpus=1, memory_bytes=15 * GIB, memory_nodes=(0,))
    facts = replace(bare(machine(node_gib=16)), domains=(full,))
    error = refusal(StackRequest(cpus=2, memory_bytes=8 * GIB, place=place), facts)
    assert error is not None
    assert error.hint.startswith("Nothing of the kind fits there")


def test_what_fits_is_near_to_the_limit() -> None:
    """A hint of a tenth of what could be had would be true and useless: 5 % more is refused."""
    request, facts = StackRequest(cpus=2, memory_bytes=100 * GIB), bare(machine())
    error = refusal(request, facts)
    assert error is not None
    (words,) = re.findall(r"`([^`]*)`", error.hint)
    near = obeyed(request, words)
    assert refusal(replace(near, memory_bytes=int(1.05 * near.memory_bytes)), facts) is not None
