"""Plans judged before they are made, and what they foresee of themselves."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.host import FakeHost
from steelyard.answers.stack.plan import plan_document
from steelyard.core import stack
from steelyard.core.findings import Severity, State
from steelyard.core.linux import LinuxFacts, PoolUser
from steelyard.core.stack import Place, StackDesign, StackFacts, StackRequest
from steelyard.core.wording import GIB, KIB, MIB, PreflightError
from steelyard.tuning.facts.linux import pool_facts
from steelyard.tuning.files.files import huge_page_unit
from steelyard.tuning.plan import foreseen as foresight
from steelyard.tuning.plan.arithmetic import formula_counter
from steelyard.tuning.plan.designing import design_stack, knobs_of
from steelyard.tuning.plan.foreseen import foreseen, make_plan
from steelyard.tuning.plan.machine import is_check
from steelyard.tuning.rules.catalogue import judge
from support.made_machines import PAGE, bare, machine, untuned_guest
from support.recorded_stacks import published, recommended

SMALL = stack.StackRequest(cpus=2, memory_bytes=8 * GIB)
FILE = "/etc/sysctl.d/80-huge.conf"


def made(facts: stack.StackFacts, **asked: object) -> stack.StackPlan:
    """Return a plan of the small request, changed."""
    request = replace(SMALL, **asked)  # type: ignore[arg-type]
    return make_plan(request, facts, formula_counter(request.postgres_version))


def asking(pages: int | None, source: str, linux: LinuxFacts | None = None) -> stack.StackFacts:
    """Return bare metal where somebody asks for huge pages."""
    facts = bare(replace(linux or machine(), requested_huge_pages=pages))
    return replace(facts, origins={"linux.requested_huge_pages": stack.Origin(source=source)})


def steps(plan: stack.StackPlan) -> list[tuple[str, str]]:
    """Return the steps of the operator that end at a reboot: what to do and how it is checked."""
    return [(each.place, each.value) for each in plan.knobs if each.scope is stack.Scope.REBOOT]


def test_what_was_broken_and_no_knob_turns_stays_and_is_told() -> None:
    """Pages of 64 KiB are what they are: the plan is made, and says so in every form."""
    plan = made(bare(replace(machine(), page_bytes=64 * KIB)))
    assert [each.partition(":")[0] for each in plan.left] == ["OS009"]
    assert "OS009" in repr(plan_document(plan, None))
    assert made(bare(machine())).left == ()


def test_a_plan_that_would_break_a_rule_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the pool forgotten, the server would not start: the rule says so beforehand."""

    def forgetting(*words: object) -> stack.StackFacts:
        facts = foreseen(*words)  # type: ignore[arg-type]
        assert facts.linux is not None
        return replace(facts, linux=replace(facts.linux, pools=()))

    monkeypatch.setattr(foresight, "foreseen", forgetting)
    with pytest.raises(PreflightError, match="would break rule PG001") as caught:
        made(bare(machine()))
    assert caught.value.hint


def test_huge_pages_of_the_guest_are_judged_by_its_own_default() -> None:
    """A hypervisor whose default is 1 GiB says nothing of its guest's: the plan is made."""
    host = replace(machine(node_gib=256), huge_page_bytes=GIB)
    assert made(bare(host), place=stack.Place.KVM, page_bytes=GIB, memory_bytes=32 * GIB).left == ()


def test_an_older_request_is_a_step_that_names_its_file() -> None:
    """8192 pages in a file of sysctl would come back; what the plan asks itself would not."""
    plan = made(asking(8192, FILE))
    ((what, check),) = steps(plan)
    assert FILE in what
    assert FILE in check
    assert steps(made(asking(None, "nobody asks"))) == []
    assert steps(made(asking(8192, stack.UNIT_PATH))) == []
    assert "command line" in steps(made(asking(8192, "hugepages= in /proc/cmdline")))[0][0]
    fewer = made(asking(1, FILE))
    assert steps(fewer) == steps(plan)
    both = made(asking(8192, f"host.yaml: {FILE}"), place=stack.Place.KVM)
    assert [each.layer for each in both.knobs if each.scope is stack.Scope.REBOOT] == ["hypervisor"]


def test_an_older_request_for_another_size_is_a_step_too() -> None:
    """4 pages of 1 GiB on the command line would come back beside those of the plan."""
    linux = replace(machine(node_gib=256), requested_other_pages={GIB: 4})
    source = stack.Origin(source="hugepages= in /proc/cmdline")
    facts = replace(bare(linux), origins={"linux.requested_other_pages": source})
    plan = made(facts, page_bytes=GIB, memory_bytes=32 * GIB)
    ((what, check),) = [step for step in steps(plan) if "Take away" in step[0]]
    assert "command line" in what
    assert is_check(check)
    assert plan.left == ()
    assert steps(made(facts)) == []  # pages of 2 MiB: those of 1 GiB are another pool's


def test_the_check_of_a_step_tells_the_line(tmp_path: Path) -> None:
    """It fails while the line is there, and succeeds without it, or without the file."""
    file = tmp_path / "huge.conf"
    file.write_text("vm.swappiness = 1\nvm.nr_hugepages = 8192\n")
    ((_, check),) = steps(made(asking(8192, str(file))))

    def succeeds() -> bool:
        return subprocess.run(["/bin/sh", "-c", check], check=False).returncode == 0

    assert not succeeds()
    file.write_text("vm.swappiness = 1\n# vm.nr_hugepages = 8192\n")
    assert succeeds()
    file.unlink()
    assert succeeds()


def test_a_forgotten_request_would_be_foreseen() -> None:
    """Without the step the facts keep the request, and OS001 finds it."""
    facts = asking(8192, FILE)
    design = made(facts).design
    assert design.machine is not None

    def violated(forgotten: object) -> bool:
        judged = judge(foreseen(forgotten, facts))  # type: ignore[arg-type]
        return any(each.code == "OS001" and each.messages for each in judged)

    assert not violated(design)
    assert violated(replace(design, machine=replace(design.machine, steps=())))


def test_the_unit_is_a_request() -> None:
    """What Steelyard's unit asks for at boot counts, on all nodes, unless a file asks for more."""
    unit = huge_page_unit(
        (
            stack.PoolDesign(page_bytes=PAGE, pages=1000, node=0),
            stack.PoolDesign(page_bytes=PAGE, pages=24, node=1),
            stack.PoolDesign(page_bytes=GIB, pages=3, node=1),
        )
    )
    files = {"/proc/meminfo": "Hugepagesize:       2048 kB\n", stack.UNIT_PATH: unit}
    found = pool_facts(FakeHost(files=files))["requested_huge_pages"]
    assert (found.value, found.origin.source) == (1024, stack.UNIT_PATH)
    more = {**files, "/etc/sysctl.d/a.conf": "vm.nr_hugepages = 5000\n"}
    assert pool_facts(FakeHost(files=more))["requested_huge_pages"].value == 5000


def test_two_experiments_are_told_as_two() -> None:
    """Placement was measured on one node; the share of memory distance is of another machine."""
    plan = made(bare(machine()), place=stack.Place.KVM)
    (domain,) = (each for each in knobs_of(plan.design, plan.files) if each.layer == "kvm")
    placement, distance = domain.effect.split(". ", 1)
    assert "one NUMA node" in placement
    assert "3.2-fold" in placement
    assert "Iwan Setiawan published" in distance


@pytest.mark.parametrize("place", [stack.Place.LOCAL, stack.Place.KVM, stack.Place.CNPG])
def test_pages_of_others_do_not_count_as_idle(place: stack.Place) -> None:
    """2 GiB that a bystander holds are in use, beside what the server is about to take (OS002)."""
    linux = machine(pages=1000)
    whole, *rest = linux.pools or ()
    (node,) = linux.nodes or ()
    full = replace(node, pools=(replace(node.pools[0], free=0), *node.pools[1:]))
    held = replace(linux, pools=(replace(whole, free=0), *rest), nodes=(full,))
    assert made(bare(held), place=place).left == ()
    domain = stack.DomainFacts(
        name="other",
        vcpus=1,
        running=True,
        memory_bytes=2000 * MIB,
        huge_page_bytes=PAGE,
        memory_nodes=(0,),
    )
    left = made(replace(bare(held), domains=(domain,)), place=place).left
    assert not [each for each in left if each.startswith("OS002")]


def test_what_was_unseen_is_no_reason_to_refuse() -> None:
    """Without a machine, or with a bystander that nobody judged before, the plan is made."""
    assert made(stack.StackFacts()).left == ()
    user = PoolUser(pid=9, command="postgres", held_bytes=100 * PAGE)
    plan = made(bare(replace(machine(), pool_users=(user,))))
    assert [each.partition(":")[0] for each in plan.left] == ["OS015"]


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
    request: StackRequest, linux: LinuxFacts, inside: LinuxFacts
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
