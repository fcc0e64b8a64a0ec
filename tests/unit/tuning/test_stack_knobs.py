"""Knobs: their order, the machine each belongs to, and the directory that a plan is kept in."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from steelyard.core.stack import Knob, KnobKind, Place, StackFacts, StackPlan, StackRequest
from steelyard.core.wording import GIB, InputError
from steelyard.tuning.plan.arithmetic import formula_counter
from steelyard.tuning.plan.designing import knobs_of
from steelyard.tuning.plan.foreseen import make_plan, plan_json, write_plan
from support.made_machines import bare, machine

HOST = machine(nodes=2)
ABOVE = StackFacts(hypervisor=HOST, domains=())


def made(place: Place, facts: StackFacts) -> StackPlan:
    """Return a plan for a place."""
    request = StackRequest(cpus=2, memory_bytes=8 * GIB, place=place)
    return make_plan(request, facts, formula_counter(18))


def ancestors(knob: Knob, plan: StackPlan) -> set[str]:
    """Return the names of everything that must be in effect before a knob."""
    by_name = {each.name: each for each in plan.knobs}
    found: set[str] = set()
    open_ = list(knob.after)
    while open_:
        name = open_.pop()
        if name not in found:
            found.add(name)
            open_ += by_name[name].after
    return found


@pytest.mark.parametrize(
    ("place", "facts"),
    [
        (Place.LOCAL, bare(HOST)),
        (Place.KVM, ABOVE),
        (Place.CNPG, ABOVE),
        (Place.CNPG, bare(HOST)),
        (Place.RDS, StackFacts()),
    ],
)
def test_knobs_are_unique_and_in_an_order_that_their_edges_allow(
    place: Place, facts: StackFacts
) -> None:
    """Every edge points to a knob that stands earlier: so there is no circle either."""
    plan = made(place, facts)
    seen: set[str] = set()
    for knob in plan.knobs:
        assert knob.name not in seen
        assert set(knob.after) <= seen
        seen.add(knob.name)
    assert plan.knobs


def test_the_edges_go_from_the_bottom_up() -> None:
    """Hypervisor's pool, domain, guest's pool, kubelet, cluster: each rests on all before it."""
    plan = made(Place.CNPG, ABOVE)
    knobs = {knob.name: knob for knob in plan.knobs}
    chain = [
        "hypervisor:huge-pages@0",
        "kvm:domain postgres",
        "linux:huge-pages@0",
        "kubernetes:kubernetes/kubelet.yaml",
        "kubernetes:kubernetes/cluster.yaml",
    ]
    for place, name in enumerate(chain):
        assert set(chain[:place]) <= ancestors(knobs[name], plan)


@pytest.mark.parametrize(
    ("place", "facts", "waiting"),
    [
        (
            Place.LOCAL,
            bare(HOST),
            {"shared_buffers", "shared_memory_type", "huge_pages", "steelyard-huge-pages.service"},
        ),
        (Place.CNPG, bare(HOST), {"kubelet.yaml", "cluster.yaml", "steelyard-huge-pages.service"}),
    ],
)
def test_only_what_is_on_huge_pages_waits_for_them(
    place: Place, facts: StackFacts, waiting: set[str]
) -> None:
    """Where no pool can be had, every other knob is turned all the same."""
    plan = made(place, facts)
    pools = {knob.name for knob in plan.knobs if knob.kind is KnobKind.HUGE_PAGES}
    assert pools
    late = {knob.place.rpartition("/")[2] for knob in plan.knobs if pools & set(knob.after)}
    assert late == waiting
    if place is Place.LOCAL:
        others = [k for k in plan.knobs if k.layer == "postgres" and k.place not in waiting]
        assert len(others) > 10
        assert not any(knob.after for knob in others)


@pytest.mark.parametrize("place", [Place.LOCAL, Place.CNPG])
def test_a_plan_without_huge_pages_has_none_anywhere(place: Place) -> None:
    """No pool, no unit, no resource of a pod; ``off``, so that nobody else's pages are taken.

    What would have been on huge pages is in the pod's ordinary memory.
    """
    request = StackRequest(cpus=2, memory_bytes=8 * GIB, place=place, huge_pages=False)
    plan = make_plan(request, bare(machine(nodes=2, pages=2000)), formula_counter(18))
    settings = {each.name: each.value for each in plan.design.postgres.settings}
    assert settings["huge_pages"] == "off"
    assert not {"huge_page_size", "shared_memory_type"} & set(settings)
    machine_ = plan.design.machine
    assert machine_ is not None
    assert not machine_.pools
    assert not any("hugepages-" in file.content for file in plan.files)
    assert not any("huge-pages" in knob.name for knob in plan.knobs)
    assert sum(line.amount_bytes for line in plan.design.arithmetic[:3]) < 6 * GIB
    if plan.design.pod is not None:
        assert plan.design.pod.memory_bytes == 8 * GIB


@pytest.mark.parametrize(("place", "facts"), [(Place.KVM, ABOVE), (Place.RDS, StackFacts())])
def test_no_plan_of_a_virtual_machine_or_of_rds_goes_without(
    place: Place, facts: StackFacts
) -> None:
    """A domain's memory is on the hypervisor's pool; a class of RDS has its own."""
    request = StackRequest(cpus=2, memory_bytes=8 * GIB, place=place, huge_pages=False)
    with pytest.raises(InputError, match="--no-huge-pages"):
        make_plan(request, facts, formula_counter(18))


def test_a_plan_is_written_whole_and_read_back(tmp_path: Path) -> None:
    """plan.json gives the same plan, and every rendered file is beside it."""
    plan = made(Place.CNPG, ABOVE)
    write_plan(tmp_path / "plan", plan)
    text = (tmp_path / "plan" / "plan.json").read_text("utf-8")
    assert text == plan_json(plan)
    assert TypeAdapter(StackPlan).validate_json(text) == plan
    for file in plan.files:
        assert (tmp_path / "plan" / "files" / file.name).read_text("utf-8") == file.content


def test_an_applied_plan_and_foreign_files_are_left_alone(tmp_path: Path) -> None:
    """The record of an application is needed to revert it; other people's files are theirs."""
    plan = made(Place.LOCAL, bare(HOST))
    write_plan(tmp_path / "plan", plan)
    write_plan(tmp_path / "plan", plan)  # not applied: it may be made anew
    (tmp_path / "plan" / "applied.jsonl").touch()
    with pytest.raises(InputError, match="was applied"):
        write_plan(tmp_path / "plan", plan)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").touch()
    with pytest.raises(InputError, match="has other files in it"):
        write_plan(tmp_path / "other", plan)


def test_a_placed_unit_and_profile_are_not_called_enabled() -> None:
    """Each has a step of the operator's after it, with a check and a way back, that holds up none.

    Without it a server with huge_pages = on does not start after a reboot: its pool is empty.
    """
    for place, facts in ((Place.LOCAL, bare(HOST)), (Place.KVM, ABOVE)):
        plan = made(place, facts)
        steps = {knob.after: knob for knob in plan.knobs if knob.kind is KnobKind.MANUAL}
        placed = [
            knob
            for knob in plan.knobs
            if knob.kind is KnobKind.FILE and knob.place.endswith((".service", "/tuned.conf"))
        ]
        assert placed
        for knob in placed:
            step = steps[(knob.name,)]
            assert "systemctl enable" in step.place
            assert "systemctl is-enabled" in step.value
            assert step.undo
        machine_ = plan.design.machine
        assert machine_ is not None
        poolless = replace(plan.design, machine=replace(machine_, pools=()))
        for knobs in (plan.knobs, knobs_of(poolless, plan.files)):
            waiting = {name for knob in knobs for name in knob.after}
            assert not waiting & {step.name for step in steps.values()}


def test_the_check_says_that_no_systemd_runs(tmp_path: Path) -> None:
    """In a container the step stays open, and its check says why."""
    plan = made(Place.LOCAL, bare(HOST))
    check = next(k.value for k in plan.knobs if k.kind is KnobKind.MANUAL)
    for directory, words in (("nowhere", "no systemd runs here"), ("", "is-enabled was asked")):
        script = check.replace("/run/systemd/system", str(tmp_path / directory)).replace(
            "systemctl is-enabled", "echo is-enabled was asked; false"
        )
        argv = ["/bin/sh", "-c", script]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode != 0
        assert words in done.stdout + done.stderr
        assert ("was asked" in done.stdout) == (directory == "")
