"""What a plan foresees of itself: it violates no rule that it could have kept."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.core.findings import Severity, State
from steelyard.core.linux import LinuxFacts
from steelyard.core.stack import Place, StackDesign, StackFacts, StackRequest
from steelyard.core.wording import GIB, MIB, PreflightError
from steelyard.tuning.plan.arithmetic import formula_counter
from steelyard.tuning.plan.designing import design_stack
from steelyard.tuning.plan.foreseen import foreseen
from steelyard.tuning.rules.catalogue import judge
from support.made_machines import bare, machine, untuned_guest
from support.recorded_stacks import published, recommended

SERIOUS = (Severity.ERROR, Severity.WARNING)

machines = st.builds(
    machine,
    nodes=st.sampled_from((1, 2, 4)),
    cores=st.sampled_from((4, 8, 16)),
    threads=st.sampled_from((1, 2)),
    node_gib=st.sampled_from((16, 64, 256)),
    pages=st.sampled_from((0, 1000, 8192)),
)
requests = st.builds(
    StackRequest,
    cpus=st.integers(1, 12),
    memory_bytes=st.integers(2, 48).map(lambda halves: halves * 512 * MIB),
    place=st.sampled_from(Place),
    shared_buffers_bytes=st.one_of(st.none(), st.sampled_from((256 * MIB, 2 * GIB, 6 * GIB))),
    max_connections=st.one_of(st.none(), st.sampled_from((30, 100, 200))),
    postgres_version=st.integers(13, 18),
    instances=st.sampled_from((1, 3)),
    storage=st.sampled_from((None, "ssd", "hdd", "longhorn")),
    logical_decoding=st.booleans(),
    page_bytes=st.sampled_from((2 * MIB, 2 * MIB, GIB)),
)


def serious(facts: StackFacts) -> list[str]:
    """Return every sentence of an error or a warning."""
    return [
        f"{rule.code}: {message}"
        for rule in judge(facts)
        if rule.state is State.VIOLATED and rule.severity in SERIOUS
        for message in rule.messages
    ]


def planned(request: StackRequest, facts: StackFacts) -> StackDesign:
    """Return a design whose huge pages are counted by the formula."""
    return design_stack(request, facts, formula_counter(request.postgres_version))


def refusal(request: StackRequest, facts: StackFacts) -> PreflightError | None:
    """Return why a plan is refused; None where it is made."""
    try:
        planned(request, facts)
    except PreflightError as error:
        return error
    return None


def assert_consistent(request: StackRequest, facts: StackFacts) -> None:
    """Check that a plan keeps the rules, or that its refusal names a way out."""
    refused = refusal(request, facts)
    if refused is not None:
        assert refused.hint
        return
    made = planned(request, facts)
    assert serious(foreseen(made, facts)) == []
    assert_adds_up(made)


def assert_adds_up(made: StackDesign) -> None:
    """Check every total; a positive amount after a total begins a new sum."""
    running = 0
    begun = False
    for line in made.arithmetic:
        if line.total:
            assert line.amount_bytes == running, line
            assert line.amount_bytes >= 0, line
            begun = True
            continue
        if begun and line.amount_bytes > 0:
            running = 0
        begun = False
        running += line.amount_bytes


@pytest.mark.slow
@given(request=requests, linux=machines)
@settings(max_examples=150, deadline=None)
def test_plans_for_bare_metal_keep_the_rules(request: StackRequest, linux: LinuxFacts) -> None:
    """An untuned machine of any size: after the plan no rule has an error or a warning to tell."""
    assert_consistent(request, bare(linux))


@pytest.mark.slow
@given(request=requests, linux=machines, inside=machines)
@settings(max_examples=100, deadline=None)
def test_plans_above_a_hypervisor_keep_the_rules(
    request: StackRequest,
    linux: LinuxFacts,
    inside: LinuxFacts,
) -> None:
    """The same where the virtual machine is there already and is made anew by the plan."""
    request = replace(request, place=Place.CNPG if request.logical_decoding else Place.KVM)
    facts = StackFacts(hypervisor=linux, linux=untuned_guest(inside), domains=())
    assert_consistent(request, facts)


def test_a_plan_repairs_the_published_stack() -> None:
    """Planned from its own hypervisor, smaller, nothing serious is left but the comparison's."""
    facts = published()
    request = StackRequest(cpus=2, memory_bytes=8 * GIB, place=Place.CNPG, name="published")
    left = serious(foreseen(planned(request, facts), facts))
    assert [each for each in left if not each.startswith(("BEN", "RED", "OS012", "K8S004"))] == []


def test_a_plan_on_the_recommended_hypervisor() -> None:
    """With the recommended request it keeps the rules, on the node that has the pages."""
    facts = recommended()
    request = StackRequest(
        cpus=2,
        memory_bytes=16 * GIB,
        place=Place.CNPG,
        instances=3,
        shared_buffers_bytes=6 * GIB,
        name="pg-node-1",
    )
    made = planned(request, facts)
    assert made.domain is not None
    assert made.domain.nodes == (1,)
    assert serious(foreseen(made, facts)) == []
