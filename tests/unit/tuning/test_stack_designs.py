"""Designs: where a database goes, what it is given, and what is refused with what would fit."""

from dataclasses import replace

import pytest

from steelyard.core import stack
from steelyard.core.findings import State
from steelyard.core.linux import BlockDevice, PoolUser
from steelyard.core.wording import GIB, KIB, MIB, InputError, PreflightError
from steelyard.tuning.plan.arithmetic import formula_counter
from steelyard.tuning.plan.designing import design_stack
from steelyard.tuning.plan.machine import deep_states
from support.judged_rules import judged
from support.made_machines import PAGE, bare, machine
from support.recorded_stacks import published

SMALL = stack.StackRequest(cpus=2, memory_bytes=8 * GIB)


def planned(facts: stack.StackFacts, **asked: object) -> stack.StackDesign:
    """Return the design of the small request, changed, on a stack."""
    request = replace(SMALL, **asked)  # type: ignore[arg-type]
    return design_stack(request, facts, formula_counter(request.postgres_version))


def refused(facts: stack.StackFacts, **asked: object) -> PreflightError:
    """Return the refusal of the small request, changed, on a stack."""
    with pytest.raises(PreflightError) as caught:
        planned(facts, **asked)
    return caught.value


def settings(made: stack.StackDesign) -> dict[str, str]:
    """Return the server's settings by name."""
    return {each.name: each.value for each in made.postgres.settings}


def running(name: str, *cpus: int, node: int = 0, gib: int = 8) -> stack.DomainFacts:
    """Return a running virtual machine, strictly on one node."""
    return stack.DomainFacts(
        name=name,
        vcpus=len(cpus),
        vcpu_pins={number: (cpu,) for number, cpu in enumerate(cpus)},
        memory_bytes=gib * GIB,
        memory_mode="strict",
        memory_nodes=(node,),
        running=True,
    )


def test_a_domain_has_whole_cores_of_one_node_and_its_helpers_beside_them() -> None:
    """Siblings side by side, CPU 0 left to the host, emulator and I/O on other cores there."""
    made = planned(bare(machine(nodes=2, cores=8, threads=2)), place=stack.Place.KVM, cpus=4)
    domain = made.domain
    assert domain is not None
    assert domain.vcpu_pins == (1, 17, 2, 18)
    assert domain.threads == 2
    assert domain.nodes == (0,)
    assert set(domain.emulator_pins) | set(domain.io_thread_pins) == {6, 22, 7, 23}


def test_an_odd_number_of_cpus_becomes_whole_cores() -> None:
    """Three on cores of two threads are four, and the plan says so; a pod of three is refused."""
    facts = bare(machine())
    made = planned(facts, place=stack.Place.KVM, cpus=3)
    assert made.domain is not None
    assert len(made.domain.vcpu_pins) == 4
    assert any("4 virtual CPUs, not 3" in each for each in made.assumptions)
    error = refused(facts, place=stack.Place.CNPG, cpus=3)
    assert "3 exclusive CPUs are no whole cores of 2 threads" in error.message
    assert (
        error.hint == "With everything else as asked, either of `--cpus 2`, `--cpus 4` would fit."
    )
    assert planned(facts, place=stack.Place.CNPG, cpus=3, exclusive_cpus=False).pod is not None


def test_the_node_with_free_pages_is_taken() -> None:
    """Of two nodes the one whose pool has the pages already: nothing has to be allocated."""
    linux = machine(nodes=2)
    full = tuple(
        replace(node, pools=(replace(node.pools[0], total=8192, free=8192), *node.pools[1:]))
        if node.number == 1
        else node
        for node in linux.nodes or ()
    )
    made = planned(bare(replace(linux, nodes=full)), place=stack.Place.KVM)
    assert made.domain is not None
    assert made.hypervisor is not None
    assert made.domain.nodes == (1,)
    assert [(pool.node, pool.pages) for pool in made.hypervisor.pools] == [(1, 8192)]


def test_other_machines_keep_their_cores_and_their_memory() -> None:
    """Their CPUs are not pinned twice, and a node that they fill is not taken."""
    facts = replace(
        bare(machine(nodes=2)), domains=(running("other", 1, 17, gib=56), running("far", 9, node=1))
    )
    made = planned(facts, place=stack.Place.KVM)
    assert made.domain is not None
    assert made.domain.nodes == (1,)
    assert not {9, 25} & set(made.domain.vcpu_pins)


def test_a_domain_may_be_planned_again() -> None:
    """What a machine of the same name has is its own: planned anew it stays where it is."""
    linux = machine(nodes=1, node_gib=16)
    facts = replace(bare(linux), domains=(running("postgres", 1, 9, gib=12),))
    made = planned(facts, place=stack.Place.KVM)
    assert made.domain is not None
    assert made.domain.vcpu_pins == (1, 9)


def test_no_room_is_refused_with_what_would_fit() -> None:
    """The published machine has 16 GiB on a node; more was asked of it: each node is named."""
    error = refused(published(), place=stack.Place.KVM, cpus=8, memory_bytes=20 * GIB)
    assert "node 0: 15.0 GiB of its 16.0 GiB can be had" in error.message
    assert "node 1" in error.message
    assert "`--memory " in error.hint


@pytest.mark.parametrize(
    ("asked", "fact", "fits"),
    [
        ({"shared_buffers_bytes": 6 * GIB}, "75 % of the 8.0 GiB", "`--shared-buffers 3276MiB`"),
        ({"max_connections": 200}, "200 connections on 2 CPUs", "`--max-connections 100`"),
        ({"memory_bytes": GIB // 2}, "512.0 MiB hold no such server", "`--memory "),
        ({"memory_bytes": 64 * GIB}, "the machine has 64.0 GiB", "`--memory "),
        ({"cpus": 17}, "the machine has 16 CPUs", "`--cpus 16`"),
        (
            {"place": stack.Place.CNPG, "cpus": 16},
            "beside the core that the kubelet",
            "`--cpus 14`",
        ),
        ({"page_bytes": GIB, "postgres_version": 13}, "default huge pages of 2.0 MiB", "14"),
    ],
)
def test_what_cannot_be_had_is_refused_with_what_would_fit(
    asked: dict[str, object], fact: str, fits: str
) -> None:
    """Every constraint says what fails and a number that does not."""
    error = refused(bare(machine(nodes=1, cores=8, node_gib=64)), **asked)
    assert fact in error.message
    assert fits in error.hint


def test_pages_that_nobody_mounted_are_refused() -> None:
    """QEMU finds no memory of a size for which there is no hugetlbfs; the command makes one."""
    facts = bare(replace(machine(), hugetlbfs=(PAGE,)))
    error = refused(facts, page_bytes=GIB, memory_bytes=16 * GIB, place=stack.Place.KVM)
    assert "no hugetlbfs mounted for pages of 1.0 GiB" in error.message
    assert "pagesize=1048576K" in error.hint


def test_small_memory_lowers_what_backends_may_take() -> None:
    """First work_mem, then maintenance_work_mem, then connections; each says why."""
    made = planned(bare(machine()), memory_bytes=2 * GIB)
    chosen = {each.name: each for each in made.postgres.settings}
    assert chosen["work_mem"].value == "4MB"
    assert 20 <= int(chosen["max_connections"].value) < 100
    assert "pooler" in chosen["max_connections"].reason


def test_the_pool_is_what_the_server_needs_and_what_others_hold() -> None:
    """2 % more than counted; a bystander's pages besides; the planned server's own are not."""
    linux = machine()
    alone = planned(bare(linux)).machine
    holder = replace(
        linux, pool_users=(PoolUser(pid=7, command="postgres", held_bytes=100 * PAGE),)
    )
    beside = planned(bare(holder)).machine
    own = replace(
        bare(holder), postgres=stack.PostgresFacts(huge_pages_status="on", huge_pages_needed=100)
    )
    assert alone is not None
    assert beside is not None
    needed = planned(bare(linux)).postgres.huge_pages
    assert needed * 1.02 - 1 < alone.pools[0].pages <= needed * 1.02
    assert beside.pools[0].pages == alone.pools[0].pages + 100
    assert planned(own).machine == alone


@pytest.mark.parametrize("limit_s", [None, 5e-6, 20e-6, 500e-6])
def test_a_plan_leaves_the_states_that_the_rule_calls_deep(limit_s: float | None) -> None:
    """Also under a latency limit: what no CPU can enter is neither a violation nor disabled."""
    linux = replace(machine(), dma_latency_s=limit_s)
    assert tuple(state for _, state in deep_states(linux)) == linux.deep_states
    judged_as = judged("KVM013", stack.StackFacts(hypervisor=linux)).state
    assert (judged_as is State.VIOLATED) is bool(deep_states(linux))


@pytest.mark.parametrize(("vendor", "amd"), [("AuthenticAMD", True), ("GenuineIntel", False)])
def test_the_cpu_and_not_the_maker_of_the_machine_decides_on_topoext(
    vendor: str, *, amd: bool
) -> None:
    """A virtual machine on a server of Dell with CPUs of AMD needs the feature."""
    linux = replace(machine(threads=2), vendor="Dell Inc.", cpu_vendor=vendor)
    made = planned(bare(linux), place=stack.Place.KVM, cpus=4).domain
    assert made is not None
    assert made.amd is amd


@pytest.mark.parametrize(
    ("there", "kib"),
    [(8 * MIB, ["4096"]), (4 * MIB, []), (128 * KIB, []), (64 * KIB, ["128"]), (0, ["128"])],
)
def test_read_ahead_is_brought_within_the_bounds_of_its_rule(there: int, kib: list[str]) -> None:
    """8 MiB becomes the 4 MiB of the named source, which scans gain from; none is too little."""
    device = BlockDevice(name="vda", kind="virtio", read_ahead_bytes=there)
    facts = bare(replace(machine(), device=device))
    made = planned(facts).machine
    assert made is not None
    settings = [each for each in made.sysfs if "read_ahead" in each.name]
    assert [each.value for each in settings] == kib
    assert all("128 KiB, the kernel's default" in each.reason for each in settings)
    assert (judged("OS008", facts).state is State.HOLDS) is (not kib)


@pytest.mark.parametrize(
    ("version", "has", "lacks"),
    [
        (13, {"checkpoint_completion_target": "0.9"}, {"io_method", "huge_page_size"}),
        (15, {"effective_io_concurrency": "64"}, {"io_method", "checkpoint_completion_target"}),
        (18, {"io_method": "worker", "effective_io_concurrency": "64"}, set[str]()),
    ],
)
def test_settings_follow_the_version(version: int, has: dict[str, str], lacks: set[str]) -> None:
    """No setting is planned for a version that does not know it."""
    found = settings(planned(bare(machine()), postgres_version=version))
    assert has.items() <= found.items()
    assert not lacks & found.keys()


def test_an_unknown_version_is_refused() -> None:
    """The catalogue says which versions it knows."""
    with pytest.raises(InputError, match="PostgreSQL 12 is not in the catalogue"):
        planned(bare(machine()), postgres_version=12)


def test_settings_follow_place_and_storage() -> None:
    """RDS keeps its huge pages to itself; disks seek; durability that is off is put back."""
    facts = bare(machine())
    assert (
        not {"huge_pages", "wal_level", "shared_memory_type"}
        & settings(planned(facts, place=stack.Place.RDS)).keys()
    )
    assert settings(planned(facts, storage="hdd"))["random_page_cost"] == "4"
    off = replace(facts, postgres=stack.PostgresFacts(settings={"fsync": "off"}))
    assert settings(planned(off))["fsync"] == "on"
    assert "fsync" not in settings(planned(facts))
    assert settings(planned(facts, logical_decoding=True))["wal_level"] == "logical"
    one_gib = planned(bare(machine()), page_bytes=GIB, memory_bytes=16 * GIB)
    assert settings(one_gib)["huge_page_size"] == "1048576kB"
