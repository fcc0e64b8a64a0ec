"""Plans beside others: virtual machines of any kind, promised pages, nodes of unequal size."""

from dataclasses import replace

import pytest

from steelyard.core import stack
from steelyard.core.linux import LinuxFacts, PagePool, PoolUser
from steelyard.core.wording import GIB, KIB, MIB, InputError, PreflightError
from steelyard.tuning.plan.arithmetic import formula_counter
from steelyard.tuning.plan.designing import design_stack
from steelyard.tuning.plan.foreseen import foreseen
from steelyard.tuning.plan.topology import others_bytes, pages_to_come
from steelyard.tuning.rules.catalogue import judge
from support.made_machines import PAGE, bare, machine

SMALL = stack.StackRequest(cpus=2, memory_bytes=8 * GIB)
ORDINARY = stack.DomainFacts(name="other", vcpus=4, memory_bytes=48 * GIB, running=True)
PINNED = replace(
    ORDINARY,
    vcpu_pins={0: (1,), 1: (9,), 2: (2,), 3: (10,)},
    memory_mode="strict",
    memory_nodes=(0,),
)


def planned(facts: stack.StackFacts, **asked: object) -> stack.StackDesign:
    """Return the design of the small request, changed."""
    request = replace(SMALL, **asked)  # type: ignore[arg-type]
    return design_stack(request, facts, formula_counter(request.postgres_version))


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
