"""Designs: where a database goes, what it is given, and plans beside others."""

from dataclasses import replace

import pytest

from steelyard.core import stack
from steelyard.core.findings import State
from steelyard.core.linux import BlockDevice, LinuxFacts, PagePool, PoolUser
from steelyard.core.wording import GIB, KIB, MIB, InputError, PreflightError
from steelyard.tuning.plan.arithmetic import formula_counter
from steelyard.tuning.plan.designing import design_stack
from steelyard.tuning.plan.foreseen import foreseen
from steelyard.tuning.plan.machine import deep_states
from steelyard.tuning.plan.topology import others_bytes, pages_to_come
from steelyard.tuning.rules.catalogue import judge
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


ORDINARY = stack.DomainFacts(name="other", vcpus=4, memory_bytes=48 * GIB, running=True)
PINNED = replace(
    ORDINARY,
    vcpu_pins={0: (1,), 1: (9,), 2: (2,), 3: (10,)},
    memory_mode="strict",
    memory_nodes=(0,),
)


def beside(*domains: stack.DomainFacts, linux: LinuxFacts | None = None) -> stack.StackFacts:
    """Return bare metal with virtual machines."""
    return replace(bare(linux or machine()), domains=domains)


def sized(*gib: int) -> LinuxFacts:
    """Return a machine with nodes of these sizes."""
    linux = machine(nodes=len(gib))
    nodes = zip(linux.nodes or (), gib, strict=True)
    return replace(
        linux,
        memory_bytes=sum(gib) * GIB,
        nodes=tuple(replace(node, memory_bytes=size * GIB) for node, size in nodes),
    )


def pools(made: stack.StackDesign) -> dict[int | None, int]:
    """Return the planned pages of the database's machine by node."""
    assert made.machine is not None
    return {pool.node: pool.pages for pool in made.machine.pools}


def with_pool(linux: LinuxFacts, pool: PagePool) -> LinuxFacts:
    """Return a machine of one node with another pool of its size."""
    kept = tuple(each for each in linux.pools or () if each.page_bytes != pool.page_bytes)
    (node,) = linux.nodes or ()
    own = replace(node, pools=(replace(pool, reserved=None), *kept))
    return replace(linux, pools=(pool, *kept), nodes=(own,), requested_huge_pages=pool.total)


def test_memory_that_is_bound_nowhere_counts() -> None:
    """An ordinary guest of 48 GiB leaves no 50 GiB of 64, neither for a guest nor for a server."""
    for place in (stack.Place.KVM, stack.Place.LOCAL):
        with pytest.raises(PreflightError):
            planned(beside(ORDINARY), place=place, memory_bytes=50 * GIB)
        planned(beside(ORDINARY), place=place, memory_bytes=10 * GIB)


def test_a_server_keeps_off_the_cpus_of_virtual_machines() -> None:
    """Their cores are not its own, and more than the others are not to be had."""
    made = planned(beside(PINNED), cpus=4)
    assert made.machine is not None
    assert not {1, 9, 2, 10} & set(made.machine.cpus)
    with pytest.raises(PreflightError, match="cores with 12 of them are not pinned"):
        planned(beside(PINNED), cpus=13)
    assert any("pinned nowhere" in each for each in planned(beside(ORDINARY)).assumptions)


def test_machines_of_the_hypervisor_are_not_in_the_guest() -> None:
    """Inside a virtual machine its hypervisor's other guests take nothing of its memory."""
    facts = replace(beside(ORDINARY), linux=machine(node_gib=32))
    assert pools(planned(facts, memory_bytes=24 * GIB))


def test_ordinary_memory_and_huge_pages_add_up() -> None:
    """30 GiB of an ordinary guest and 20 GiB of used pages are 50; a guest on pages is in them."""
    used = 20 * GIB // PAGE
    linux = with_pool(machine(), PagePool(page_bytes=PAGE, total=used, free=0, reserved=0))
    (node,) = linux.nodes or ()
    ordinary = replace(PINNED, memory_bytes=30 * GIB)
    assert others_bytes(linux, node, (ordinary,), PAGE) == 50 * GIB
    on_pages = replace(PINNED, memory_bytes=20 * GIB, huge_page_bytes=PAGE)
    assert others_bytes(linux, node, (on_pages,), PAGE) == 20 * GIB
    assert others_bytes(linux, node, (replace(on_pages, running=False),), PAGE) == 40 * GIB
    assert others_bytes(linux, node, (), PAGE, own_pages=used) == 0
    assert others_bytes(linux, node, (), GIB) == 20 * GIB


def test_bound_cells_count_where_they_are() -> None:
    """Of two cells on two nodes each counts on its own; what is unbound, on both by their size."""
    linux = sized(48, 16)
    first, second = linux.nodes or ()
    cells = (
        stack.GuestCell(number=0, memory_bytes=2 * GIB, memory_nodes=(1,)),
        stack.GuestCell(number=1, memory_bytes=6 * GIB, memory_nodes=(0,)),
    )
    crossed = replace(PINNED, memory_bytes=8 * GIB, memory_nodes=(), cells=cells)
    assert others_bytes(linux, first, (crossed,), PAGE) == 6 * GIB
    assert others_bytes(linux, second, (crossed,), PAGE) == 2 * GIB
    assert others_bytes(linux, first, (replace(ORDINARY, memory_bytes=8 * GIB),), PAGE) == 6 * GIB


def test_cells_on_pages_of_two_sizes_count_in_their_own_pools() -> None:
    """A guest that is off takes 4 GiB of the plan's pages, 3 GiB of others, 1 GiB of neither."""
    cells = (
        stack.GuestCell(number=0, memory_bytes=4 * GIB, huge_page_bytes=PAGE),
        stack.GuestCell(number=1, memory_bytes=3 * GIB, huge_page_bytes=GIB),
        stack.GuestCell(number=2, memory_bytes=1 * GIB),
    )
    off = replace(PINNED, running=False, memory_bytes=8 * GIB, cells=cells)
    linux = machine()
    (node,) = linux.nodes or ()
    assert pages_to_come((off,), node, (node,), PAGE) == 4 * GIB // PAGE
    assert pages_to_come((off,), node, (node,), GIB) == 3
    assert others_bytes(linux, node, (off,), PAGE) == 8 * GIB
    pool = PagePool(page_bytes=GIB, total=5, free=5, reserved=0)  # 2 GiB more than it takes
    node = replace(node, pools=(pool,))
    assert others_bytes(replace(linux, nodes=(node,)), node, (off,), PAGE) == 10 * GIB


def test_promised_pages_of_others_are_added() -> None:
    """3500 pages are promised and untouched: the server cannot have them, and PG001 agrees."""
    pool = PagePool(page_bytes=PAGE, total=4000, free=3900, reserved=3500)
    user = PoolUser(pid=9, command="postgres", held_bytes=100 * PAGE)
    facts = bare(replace(with_pool(machine(), pool), pool_users=(user,)))
    made = planned(facts)
    alone = pools(planned(bare(machine())))[0]
    assert pools(made)[0] == alone + 3600
    assert not [
        each.messages
        for each in judge(foreseen(made, facts))
        if each.code == "PG001" and each.messages
    ]
    hosted = planned(facts, place=stack.Place.KVM)
    assert hosted.hypervisor is not None
    assert hosted.domain is not None
    assert hosted.hypervisor.pools[0].pages == 3600 + hosted.domain.memory_bytes // PAGE


def test_only_the_pages_of_the_server_itself_are_given_back() -> None:
    """Of two servers on huge pages the one that was looked at is known by what it maps."""
    pool = PagePool(page_bytes=PAGE, total=1500, free=0, reserved=0)
    users = tuple(
        PoolUser(pid=pid, command="postgres", held_bytes=pages * PAGE)
        for pid, pages in ((9, 1000), (10, 500), (11, 500))
    )
    linux = replace(with_pool(machine(), pool), pool_users=users)
    alone = pools(planned(bare(machine())))[0]
    for server in (
        stack.PostgresFacts(huge_pages_status="on", huge_pages_needed=1000),
        stack.PostgresFacts(huge_page_mapping_bytes=1000 * PAGE),
    ):
        assert pools(planned(replace(bare(linux), postgres=server)))[0] == alone + 500
    other = stack.PostgresFacts(huge_page_mapping_bytes=GIB, settings={"huge_page_size": "1GB"})
    assert pools(planned(replace(bare(linux), postgres=other)))[0] == alone + 1500


def test_a_machine_that_is_off_keeps_its_pages() -> None:
    """A pool that shrank to the database's need would keep it from being started."""
    off = replace(PINNED, running=False, memory_bytes=8 * GIB, huge_page_bytes=PAGE)
    alone = pools(planned(bare(machine())))[0]
    assert pools(planned(beside(off)))[0] == alone + 4096


def test_a_node_full_of_other_pages_is_not_taken() -> None:
    """60 GiB of used pages of 1 GiB are on node 0: the database goes to node 1."""
    linux = machine(nodes=2)
    full = PagePool(page_bytes=GIB, total=60, free=0)
    first, second = linux.nodes or ()
    first = replace(first, pools=(first.pools[0], full))
    linux = replace(
        linux, nodes=(first, second), pools=((linux.pools or ())[0], replace(full, reserved=0))
    )
    made = planned(bare(linux), memory_bytes=16 * GIB)
    assert set(pools(made)) == {1}
    assert made.machine is not None
    assert set(made.machine.cpus) <= set(second.cpus)


@pytest.mark.parametrize("sizes", [(64, 4), (4, 64), (64, 16, 4)])
def test_no_node_is_given_more_pages_than_it_holds(sizes: tuple[int, ...]) -> None:
    """Where no node holds the database its pages go by the nodes' sizes, and none is lost."""
    memory = (sum(sizes) - 4) * GIB
    made = planned(bare(sized(*sizes)), memory_bytes=memory, shared_buffers_bytes=24 * GIB)
    found = pools(made)
    assert all(found[node] * PAGE < size * GIB for node, size in enumerate(sizes))
    alone = planned(bare(sized(sum(sizes))), memory_bytes=memory, shared_buffers_bytes=24 * GIB)
    assert sum(found.values()) == sum(pools(alone).values())


def test_nodes_that_do_not_hold_it_together_refuse_it() -> None:
    """The machine's own figure may be larger than what its nodes have."""
    linux = replace(sized(16, 4), memory_bytes=64 * GIB)
    with pytest.raises(PreflightError, match="the NUMA nodes have too little"):
        planned(bare(linux), memory_bytes=30 * GIB)


@pytest.mark.parametrize("size", [3 * MIB, 4 * KIB, 0, 100 * MIB])
def test_what_is_no_size_of_huge_pages_is_refused(size: int) -> None:
    """On no architecture is there such a page; zero ends in a sentence, too."""
    with pytest.raises(InputError, match="no size of huge pages"):
        planned(bare(machine()), page_bytes=size)


@pytest.mark.parametrize("place", [stack.Place.LOCAL, stack.Place.KVM, stack.Place.CNPG])
def test_a_size_that_the_kernel_lacks_is_refused(place: stack.Place) -> None:
    """512 MiB are of arm64: here the sizes that there are are named."""
    with pytest.raises(PreflightError, match=r"no huge pages of 512\.0 MiB") as caught:
        planned(bare(machine()), page_bytes=512 * MIB, place=place)
    assert caught.value.hint == "It has 2.0 MiB, 1.0 GiB."


def test_the_page_size_is_written_unless_the_kernel_has_it_by_default() -> None:
    """The hypervisor's default says nothing of its guest's; 13 does not know the setting."""

    def written(facts: stack.StackFacts, **asked: object) -> str | None:
        found = {each.name: each.value for each in planned(facts, **asked).postgres.settings}
        return found.get("huge_page_size")

    assert written(bare(machine())) is None
    assert written(bare(machine()), place=stack.Place.KVM) == "2048kB"
    guest = replace(machine(), virtualization="kvm")
    assert written(replace(bare(machine()), linux=guest), place=stack.Place.KVM) is None
    assert written(replace(bare(machine()), linux=None), place=stack.Place.KVM) == "2048kB"
    assert written(bare(machine()), place=stack.Place.KVM, postgres_version=13) is None


def test_a_guest_is_larger_than_what_it_counts() -> None:
    """The kernel's own part grows with the guest: 1/64 of it, and 40 MiB."""
    small, large = (
        planned(bare(machine(node_gib=512)), place=stack.Place.KVM, memory_bytes=size * GIB)
        for size in (4, 256)
    )
    lines = [
        next(each.amount_bytes for each in made.arithmetic if "its kernel takes" in each.label)
        for made in (small, large)
    ]
    assert 100 * MIB < lines[0] < 200 * MIB
    assert 4 * GIB < lines[1] < 5 * GIB
    facts = foreseen(large, bare(machine(node_gib=512)))
    assert facts.linux is not None
    assert large.domain is not None
    assert facts.linux.memory_bytes == large.domain.memory_bytes * 63 // 64 - 40 * MIB


def test_gaps_are_told_as_assumptions() -> None:
    """Unseen siblings, unseen CPUs, instances beyond the one machine."""
    linux = machine()
    told = [
        planned(bare(replace(linux, siblings=None))).assumptions,
        planned(bare(replace(linux, cpus=None, siblings=None, nodes=None))).assumptions,
        planned(bare(linux), instances=3).assumptions,
        planned(bare(linux), instances=3, place=stack.Place.CNPG).assumptions,
    ]
    assert any("though SMT is on" in each for each in told[0])
    assert any("nobody saw the CPUs" in each for each in told[1])
    assert any("plan of one machine" in each for each in told[2])
    assert any("each of the 3 instances" in each for each in told[3])


def test_cpus_are_those_that_may_be_used() -> None:
    """Nodes tell the CPUs where nobody saw them otherwise; a container has only its own."""
    linux = machine()
    with pytest.raises(PreflightError, match="the machine has 16 CPUs, 31 were asked for"):
        planned(bare(replace(linux, cpus=None)), cpus=31)
    with pytest.raises(PreflightError, match="2 may be used by this container"):
        planned(bare(replace(linux, allowed_cpus=(0, 1))), cpus=8)
