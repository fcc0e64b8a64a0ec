"""Every rule of virtual machines, on both sides and where a fact is missing."""

from dataclasses import replace
from typing import Any

import pytest

from steelyard.core.findings import State
from steelyard.core.linux import IdleState, NumaNode, PagePool
from steelyard.core.stack import DomainDisk, DomainFacts, GuestCell, Origin, StackFacts
from steelyard.core.wording import GIB, MIB
from steelyard.tuning.facts.domains import with_asked_domain
from steelyard.tuning.facts.file import read_facts
from steelyard.tuning.rules.catalogue import RULES
from support.judged_rules import judged, require_kinds
from support.recorded_host import RECORDINGS
from support.recorded_stacks import recommended
from support.rule_cases import domain, with_domain, with_domains, with_hypervisor, with_linux

FOREIGN = RECORDINGS.parent / "foreign" / "libvirt"
C6 = IdleState(name="C6", exit_latency_s=133e-6)
NOTHING = StackFacts()
LONE = {vcpu: (8 + vcpu,) for vcpu in range(8)}  # one thread of each of eight cores


def other(**changes: Any) -> StackFacts:
    """Return the recommended domain beside a copy of it that is called otherwise."""
    return with_domains(domain(), replace(domain(), name="other", **changes))


HOLDING = {
    **{f"KVM{number:03}": recommended() for number in range(1, 19)},
    "KVM010": with_domain(locked=False),
    "KVM015": with_domain(vcpu_delay_fraction=0.01),
    "KVM016": with_domain(cpu_mode="host-model"),
}
VIOLATED = {
    "KVM001": (with_domain(lost_elements=("memballoon",)), "lost memballoon"),
    "KVM002": (with_domain(memory_nodes=(0,)), "11, 24, 25, 26, 27 are not on node 0"),
    "KVM003": (with_domain(memory_bytes=100 * GIB), "need 100.0 GiB of 64.0 GiB"),
    "KVM004": (with_domain(vcpu_pins={0: (8,), 1: (8,)}), "host CPU 8: pinned to by"),
    "KVM005": (with_domain(vcpu_pins=LONE), "24, 25, 26, 27, 28, 29, 30, 31"),
    "KVM006": (with_domain(threads_per_core=1), "both threads of 4 core(s)"),
    "KVM007": (with_domain(vcpu_pins={0: (8,), 1: (24,)}), "2 of 8 virtual CPUs are pinned"),
    "KVM008": (with_domain(emulator_pins=(8,)), "share CPUs 8"),
    "KVM009": (with_domain(hard_limit_bytes=25 * GIB), "hard_limit 25.0 GiB"),
    "KVM010": (recommended(), "stays anyway"),
    "KVM011": (with_domain(balloon="virtio"), "memory balloon virtio"),
    "KVM012": (with_domain(disks=(DomainDisk(device="vdb", cache="unsafe"),)), "on vdb"),
    "KVM013": (with_hypervisor(dma_latency_s=None), "C6 (133 µs)"),
    "KVM014": (with_hypervisor(governor="powersave"), "the clock follows the load"),
    "KVM015": (with_domain(vcpu_delay_fraction=0.011), "1.1 % of the time"),
    "KVM016": (recommended(), "host-passthrough"),
    "KVM017": (with_domain(memory_bytes=257 * MIB, cells=()), "memory of 269484032 bytes"),
    "KVM018": (with_domain(huge_page_bytes=GIB), "pages of 1.0 GiB"),
}
# With the missing facts that are named; none where there is nothing to judge.
NOT_APPLICABLE = {
    "KVM001": (with_domain(lost_elements=None), ("domains.lost_elements",)),
    "KVM002": (with_hypervisor(nodes=None), ("hypervisor.nodes",)),
    "KVM003": (with_domain(memory_mode="preferred"), ()),
    "KVM004": (NOTHING, ("domains",)),
    "KVM005": (with_hypervisor(siblings=None), ("hypervisor.siblings",)),
    "KVM006": (with_domain(vcpu_pins={}), ()),
    "KVM007": (with_domain(vcpu_pins={}), ()),
    "KVM008": (with_domain(vcpu_pins={}), ()),
    "KVM009": (with_domain(locked=False), ()),
    "KVM010": (with_domain(huge_page_bytes=None), ()),
    "KVM011": (NOTHING, ("domains", "linux.balloon")),
    "KVM012": (with_domain(disks=()), ()),
    "KVM013": (with_hypervisor(idle_states=None), ("hypervisor.idle_states",)),
    "KVM014": (with_hypervisor(governor=None), ("hypervisor.governor",)),
    "KVM015": (with_domain(vcpu_delay_fraction=None), ("domains.vcpu_delay_fraction",)),
    "KVM016": (NOTHING, ("domains",)),
    "KVM017": (with_domain(huge_page_bytes=None), ()),
    "KVM018": (with_hypervisor(hugetlbfs=None), ("hypervisor.hugetlbfs",)),
}


@pytest.mark.parametrize("code", HOLDING)
def test_a_rule_on_both_sides_and_without_its_facts(code: str) -> None:
    """One changed fact violates it; without one that it needs it is not applicable."""
    require_kinds(code, HOLDING[code], VIOLATED[code], NOT_APPLICABLE[code])


def test_every_rule_has_a_case_of_each_kind() -> None:
    """No rule is left out."""
    codes = {rule.code for rule in RULES if rule.code.startswith("KVM")}
    assert codes == set(HOLDING) == set(VIOLATED) == set(NOT_APPLICABLE)


def test_one_domain_that_was_not_seen_spoils_a_pass_but_no_violation() -> None:
    """Of two domains one was not compared: that is no pass; a loss of the other is still told."""
    assert judged("KVM001", other(lost_elements=None)).state is State.NOT_APPLICABLE
    found = judged(
        "KVM001", with_domains(replace(domain(), lost_elements=("memballoon",)), _not_compared())
    )
    assert found.state is State.VIOLATED
    assert len(found.messages) == len(found.missing) == 1


def _not_compared() -> DomainFacts:
    return replace(domain(), name="other", lost_elements=None)


def test_a_missing_node_is_told_before_pins() -> None:
    """A node that the hypervisor lacks is named as such."""
    found = judged("KVM002", with_domain(memory_nodes=(4,)))
    assert "no node 4" in found.messages[0]


def test_an_amd_cpu_tells_its_threads_on_request_only() -> None:
    """With the host's own CPU topoext is needed on AMD, and nobody may guess the vendor."""
    facts = recommended()
    below = facts.hypervisor
    assert below is not None
    assert domain().threads_per_core == 2
    for vendor, mode, features, state in (
        ("AuthenticAMD", "host-passthrough", (), State.VIOLATED),
        ("HygonGenuine", "maximum", (), State.VIOLATED),
        ("AuthenticAMD", "host-passthrough", ("topoext",), State.HOLDS),
        ("AuthenticAMD", "custom", (), State.HOLDS),
        ("GenuineIntel", "host-passthrough", (), State.HOLDS),
        (None, "host-passthrough", (), State.NOT_APPLICABLE),
        (None, "host-passthrough", ("topoext",), State.HOLDS),
    ):
        shown = replace(domain(), cpu_mode=mode, features=features)
        known = replace(facts, domains=(shown,), hypervisor=replace(below, cpu_vendor=vendor))
        assert judged("KVM006", known).state is state, (vendor, mode, features)
    arm = replace(below, cpu_vendor=None, architecture="aarch64")
    assert judged("KVM006", replace(facts, hypervisor=arm)).state is State.HOLDS


def _two_cells(places: tuple[int, int], mode: str | None = None) -> DomainFacts:
    """Return a domain of two cells of 12 GiB, on CPUs of node 0 and of node 1."""
    below = recommended().hypervisor
    assert below is not None
    pins = {i: (node.cpus[2],) for i, node in enumerate(below.nodes or ())}
    cells = tuple(
        GuestCell(
            number=i, memory_bytes=12 * GIB, cpus=(i,), memory_mode=mode, memory_nodes=(node,)
        )
        for i, node in enumerate(places)
    )
    return replace(domain(), vcpus=2, vcpu_pins=pins, memory_nodes=(0, 1), cells=cells)


def test_crossed_cells_are_far_from_their_memory() -> None:
    """Each cell by itself: the union of nodes covers all CPUs, and every access is remote."""
    assert judged("KVM002", with_domains(_two_cells((0, 1)))).state is State.HOLDS
    found = judged("KVM002", with_domains(_two_cells((1, 0))))
    assert len(found.messages) == 2
    assert "cell 0 of" in found.messages[0]
    assert "not on node 1 of its memory" in found.messages[0]


def test_a_cell_that_only_prefers_its_node_may_start_elsewhere() -> None:
    """Two cells of 12 GiB on a node of 16 GiB fail when strict, and not when they prefer it."""
    nodes = _nodes(16 * GIB, 16 * GIB)
    for mode, state in (("preferred", State.NOT_APPLICABLE), (None, State.VIOLATED)):
        cells = replace(_two_cells((1, 1), mode), huge_page_bytes=None)
        assert judged("KVM003", replace(nodes, domains=(cells,))).state is state, mode


def test_memory_that_may_come_from_either_node_fits_where_halves_would_not() -> None:
    """24 GiB over two nodes of which one has 8 GiB: dividing evenly would call that too much."""
    nodes = _nodes(8 * GIB, 64 * GIB)
    spread = replace(domain(), memory_nodes=(0, 1), huge_page_bytes=None)
    assert judged("KVM003", replace(nodes, domains=(spread,))).state is State.HOLDS
    tight = replace(spread, name="tight", memory_bytes=60 * GIB, memory_nodes=(1,))
    found = judged("KVM003", replace(nodes, domains=(spread, tight)))
    assert found.messages == ("node 0, 1: strict virtual machines need 84.0 GiB of 72.0 GiB",)


def test_cells_are_judged_on_the_nodes_that_they_are_bound_to() -> None:
    """Two cells of 12 GiB fit two nodes of 16 GiB; both on one node do not."""
    nodes = _nodes(16 * GIB, 16 * GIB)
    apart, together = (
        replace(
            domain(),
            huge_page_bytes=None,
            memory_nodes=(0, 1),
            cells=tuple(
                GuestCell(number=i, memory_bytes=12 * GIB, memory_nodes=(node,))
                for i, node in enumerate(places)
            ),
        )
        for places in ((0, 1), (1, 1))
    )
    assert judged("KVM003", replace(nodes, domains=(apart,))).state is State.HOLDS
    found = judged("KVM003", replace(nodes, domains=(together,)))
    assert found.messages == ("node 1: strict virtual machines need 24.0 GiB of 16.0 GiB",)


def test_domains_that_do_not_run_at_once_are_not_added_up() -> None:
    """Two of 40 GiB do not fit 64 GiB, unless one is off and not started by itself."""
    large = replace(domain(), memory_bytes=40 * GIB, huge_page_bytes=None)
    for autostart, state in ((True, State.VIOLATED), (None, State.VIOLATED), (False, State.HOLDS)):
        second = replace(large, name="second", autostart=autostart)
        assert judged("KVM003", with_domains(large, second)).state is state, autostart


def test_pages_of_a_running_domain_are_not_asked_for_again() -> None:
    """Its pages are no longer free, and it needs no others."""
    taken = PagePool(page_bytes=2 * MIB, total=12400, free=0)
    facts = _with_pools(taken)
    assert judged("KVM003", facts).state is State.VIOLATED
    running = replace(domain(), running=True)
    assert judged("KVM003", replace(facts, domains=(running,))).state is State.HOLDS


def test_pools_that_nobody_saw_are_no_pass() -> None:
    """The memory fits; whether the pages do is not known, with the reason."""
    facts = replace(
        _with_pools(), origins={"hypervisor.nodes": Origin(source="/sys/devices/system/node")}
    )
    found = judged("KVM003", facts)
    assert found.state is State.NOT_APPLICABLE
    assert found.missing == ("hypervisor.nodes.pools: not in /sys/devices/system/node",)


def test_two_virtual_cpus_may_share_two_cpus_and_not_one() -> None:
    """Sets of CPUs are no conflict until more virtual CPUs are confined to them than they hold."""
    pins = {0: (8, 9), 1: (8, 9)}
    assert judged("KVM004", with_domain(vcpu_pins=pins)).state is State.HOLDS
    found = judged("KVM004", with_domain(vcpu_pins={**pins, 2: (9,)}))
    assert found.messages == ("host CPU 8, 9: pinned to by pg-node-1/0, pg-node-1/1, pg-node-1/2",)


def test_domains_on_the_same_cpus_conflict_only_if_they_run_at_once() -> None:
    """A domain that is off and stays off claims no CPU."""
    assert judged("KVM004", other(autostart=True)).state is State.VIOLATED
    assert judged("KVM004", other(autostart=False)).state is State.HOLDS


def test_siblings_that_are_none_are_told() -> None:
    """Cores of two threads on CPUs of different cores mislead the guest as well."""
    crossed = {**domain().vcpu_pins, 1: (9,), 2: (24,)}
    found = judged("KVM006", with_domain(vcpu_pins=crossed))
    assert [each.split(" to the guest")[0] for each in found.messages] == [
        "pg-node-1: virtual CPUs 0, 1 are one core",
        "pg-node-1: virtual CPUs 2, 3 are one core",
    ]


def test_unequal_virtual_cpus_are_told() -> None:
    """Whole cores beside single threads make some virtual CPUs half as fast."""
    pins = {0: (8,), 1: (24,), 2: (9,)}
    found = judged("KVM006", with_domain(vcpus=3, vcpu_pins=pins, threads_per_core=1))
    assert "1 single threads beside 1 full core(s)" in found.messages[1]


@pytest.mark.parametrize(
    ("state", "limit_s", "expected"),
    [
        (C6, None, State.VIOLATED),
        (C6, 200e-6, State.VIOLATED),
        (C6, 20e-6, State.HOLDS),
        (replace(C6, disabled=True), None, State.HOLDS),
        (replace(C6, exit_latency_s=10e-6), None, State.HOLDS),
        (replace(C6, exit_latency_s=11e-6), None, State.VIOLATED),
    ],
)
def test_an_idle_state_counts_where_a_cpu_enters_it(
    state: IdleState, limit_s: float | None, expected: State
) -> None:
    """A limit keeps CPUs out of slower states; a state below 10 µs is shallow."""
    facts = with_hypervisor(idle_states=(state,), dma_latency_s=limit_s)
    assert judged("KVM013", facts).state is expected


def test_powersave_is_told_by_its_driver() -> None:
    """The same name means a dynamic clock with one driver and the lowest with another."""
    facts = with_hypervisor(governor="powersave", scaling_driver="acpi-cpufreq")
    assert "always the lowest clock" in judged("KVM014", facts).messages[0]
    mixed = with_hypervisor(governor="performance,schedutil")
    assert judged("KVM014", mixed).state is State.VIOLATED
    eager = with_hypervisor(energy_preference="balance_power")
    assert judged("KVM014", eager).messages == ("energy performance preference balance_power",)


def test_a_bound_balloon_is_seen_from_within() -> None:
    """The guest alone is evidence, for and against."""
    inside = replace(with_linux(balloon=True), domains=None)
    assert judged("KVM011", inside).messages == ("the guest has virtio_balloon bound",)
    assert judged("KVM011", replace(with_linux(balloon=False), domains=None)).state is State.HOLDS


def test_a_cell_of_half_a_page_is_told() -> None:
    """The sum may be whole pages while its cells are not."""
    cells = tuple(GuestCell(number=i, memory_bytes=12 * GIB + i * MIB - MIB) for i in (0, 2))
    found = judged("KVM017", with_domain(cells=cells))
    assert [each.split(" of ")[0] for each in found.messages] == [
        "pg-node-1: its cell 0",
        "pg-node-1: its cell 2",
    ]


@pytest.mark.parametrize("name", ["k1-two-sizes", "k2-two-sizes-reversed"])
def test_each_cell_is_judged_by_its_own_pages(name: str) -> None:
    """Of a domain on pages of two sizes: whole pages, free pages and mounts, size by size."""
    host, xml = read_facts(FOREIGN / "host.yaml"), (FOREIGN / f"{name}.xml").read_text()
    facts = with_asked_domain(host, xml, name, None)
    assert judged("KVM017", facts).state is State.HOLDS
    assert judged("KVM003", facts).state is State.HOLDS
    assert judged("KVM018", facts).messages == ("pg: no hugetlbfs for pages of 1.0 GiB",)
    odd = with_asked_domain(host, xml.replace("'4096'", "'4095'"), name, None)
    told = [message.rpartition("bytes is ")[2] for message in judged("KVM017", odd).messages]
    page = "1.0 GiB" if name == "k1-two-sizes" else "2.0 MiB"
    assert f"no multiple of {page}" in told
    below = host.hypervisor
    assert below is not None
    few = tuple(
        replace(node, pools=tuple(replace(pool, free=3) for pool in node.pools))
        for node in below.nodes or ()
    )
    found = judged("KVM003", replace(facts, hypervisor=replace(below, nodes=few)))
    assert len(found.messages) == 3  # of each size on its node; of the smaller one on both nodes


def _nodes(*sizes: int) -> StackFacts:
    return with_hypervisor(
        nodes=tuple(NumaNode(number=i, cpus=(), memory_bytes=size) for i, size in enumerate(sizes))
    )


def _with_pools(*pools: PagePool) -> StackFacts:
    machine = recommended().hypervisor
    assert machine is not None
    nodes = machine.nodes or ()
    return with_hypervisor(nodes=(nodes[0], replace(nodes[1], pools=pools)))
