"""Facts of machines that were never built: nodes, cores and memory as a test wants them."""

from dataclasses import replace

from steelyard.core.linux import IdleState, LinuxFacts, NumaNode, PagePool
from steelyard.core.stack import StackFacts
from steelyard.core.wording import GIB, MIB

PAGE = 2 * MIB


def machine(
    *, nodes: int = 1, cores: int = 8, threads: int = 2, node_gib: int = 64, pages: int = 0
) -> LinuxFacts:
    """Return bare metal whose CPUs are numbered as usual: first threads of all cores come first."""
    total = nodes * cores
    siblings = tuple(
        tuple(core + total * thread for thread in range(threads)) for core in range(total)
    )
    there = tuple(
        NumaNode(
            number=node,
            cpus=tuple(
                sorted(cpu for core in siblings[node * cores : (node + 1) * cores] for cpu in core)
            ),
            memory_bytes=node_gib * GIB,
            pools=(
                PagePool(page_bytes=PAGE, total=pages, free=pages),
                PagePool(page_bytes=GIB, total=0, free=0),
            ),
        )
        for node in range(nodes)
    )
    return LinuxFacts(
        virtualization="none",
        architecture="x86_64",
        cpus=tuple(range(total * threads)),
        nodes=there,
        siblings=siblings,
        smt=threads > 1,
        memory_bytes=nodes * node_gib * GIB,
        swap_bytes=8 * GIB,
        page_bytes=4096,
        huge_page_bytes=PAGE,
        hugetlbfs=(PAGE, GIB),
        pools=(
            PagePool(page_bytes=PAGE, total=nodes * pages, free=nodes * pages, reserved=0),
            PagePool(page_bytes=GIB, total=0, free=0, reserved=0),
        ),
        requested_huge_pages=nodes * pages,
        transparent_huge_pages="always",
        swappiness=60,
        dirty_bytes=0,
        dirty_ratio=20,
        overcommit_memory=0,
        numa_balancing=1,
        clocksource="tsc",
        scaling_driver="intel_pstate",
        governor="powersave",
        idle_states=(
            IdleState(name="C1", exit_latency_s=2e-6),
            IdleState(name="C6", exit_latency_s=133e-6),
        ),
        steal_fraction=0.0,
        cpu_pressure_fraction=0.0,
        balloon=False,
        pool_users=(),
    )


def bare(linux: LinuxFacts) -> StackFacts:
    """Return the facts as they are seen on bare metal: it is its own hypervisor."""
    return StackFacts(hypervisor=linux, linux=linux, domains=())


def untuned_guest(linux: LinuxFacts) -> LinuxFacts:
    """Return a virtual machine of the same size as a machine, as it is seen inside."""
    return replace(
        linux, virtualization="kvm", governor=None, scaling_driver=None, idle_states=None
    )
