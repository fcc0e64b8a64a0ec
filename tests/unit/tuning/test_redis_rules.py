"""Rules of Redis, of storage, of comparisons and of wake-ups: on both sides of each."""

from dataclasses import replace
from typing import Any

import pytest

from steelyard.core.linux import IdleState, LinuxFacts, NumaNode, PingPong
from steelyard.core.stack import (
    BenchFacts,
    ClusterFacts,
    DomainFacts,
    JourneyStep,
    KubernetesFacts,
    Origin,
    PostgresFacts,
    RedisFacts,
    ScriptLatencies,
    StackFacts,
    StorageClassFacts,
    Visibility,
)
from steelyard.core.wording import GIB
from steelyard.tuning.rules.bench import wake_ups
from support.judged_rules import HOLDS, NOTHING, judged, rows_of, said

SERVER = RedisFacts(
    name="cache",
    role="primary",
    save="",
    appendonly=False,
    replicas=1,
    auto_restart=True,
    storage="local",
    maxmemory="2gb",
    memory_limit="4Gi",
)


def stack(**changes: Any) -> StackFacts:
    """Return the facts of one server."""
    return StackFacts(redis=(replace(SERVER, **changes),))


def test_units_are_those_of_redis() -> None:
    """In redis.conf 1g is 10^9 bytes and 1gb is 2^30."""
    limited = {"save": "60 1", "memory_limit": "1760Mi"}  # 60 % is 1,107,296,256 bytes
    assert said("RED004", stack(maxmemory="1g", **limited)) == HOLDS
    assert said("RED004", stack(maxmemory="1gb", **limited)) == HOLDS
    assert "maxmemory" in said("RED004", stack(maxmemory="1100mb", **limited))
    assert said("RED004", stack(maxmemory="1100m", **limited)) == HOLDS


def pair(primary: dict[str, Any] | None = None, **replica: Any) -> StackFacts:
    """Return the facts of a primary without persistence and a replica."""
    first = replace(SERVER, **(primary or {}))
    second = replace(SERVER, **{"name": "copy", "role": "replica", "replicas": 0, **replica})
    return StackFacts(redis=(first, second))


# What each rule says of facts, or its state.
SAID = {
    # No persistence, replicas and a restart together; pods restart by themselves.
    "RED001": [
        (stack(), "cache: no persistence, 1 replicas"),
        (stack(save='""'), "no persistence"),
        (stack(save="3600 1"), HOLDS),
        (stack(appendonly=True), HOLDS),
        (stack(replicas=0), HOLDS),
        (stack(auto_restart=False), HOLDS),
        (stack(fenced=True), HOLDS),
        (stack(fenced=False), "no persistence"),
        (replace(stack(auto_restart=None, fenced=True), kubernetes=KubernetesFacts()), HOLDS),
        (stack(auto_restart=None), NOTHING),
        (replace(stack(auto_restart=None), kubernetes=KubernetesFacts()), "no persistence"),
        (stack(save=None), NOTHING),
        (stack(replicas=None), NOTHING),
        (stack(role="replica"), NOTHING),
    ],
    # Network and replicated storage alike; a replica's nobody waits for.
    "RED002": [
        (stack(appendonly=True), HOLDS),
        (stack(appendonly=True, storage="longhorn"), "append-only file is on longhorn"),
        (stack(appendonly=True, storage="longhorn", role="replica"), NOTHING),
        (stack(appendonly=False, storage="nfs"), HOLDS),
        (stack(appendonly=True, storage=None), NOTHING),
        (stack(appendonly=None), NOTHING),
    ],
    # Neither at every write nor never during a rewrite.
    "RED003": [
        (stack(appendonly=True, appendfsync="everysec", no_appendfsync_on_rewrite=False), HOLDS),
        (stack(appendonly=True, appendfsync="everysec"), NOTHING),
        (stack(appendonly=True, no_appendfsync_on_rewrite=False), NOTHING),
        (stack(appendonly=True, appendfsync="always"), "waits for every write"),
        (stack(appendonly=True, no_appendfsync_on_rewrite=True), "may lose 30 s"),
        (stack(appendonly=False, appendfsync="always"), NOTHING),
    ],
    # 60 % of the limit where it saves or syncs a replica.
    "RED004": [
        (stack(save="3600 1", maxmemory="2gb"), HOLDS),
        (stack(save="3600 1", maxmemory="3gb"), "maxmemory 3gb of 4.0 GiB"),
        (stack(save="3600 1", maxmemory="2576980377"), HOLDS),  # 60 % of 4 GiB
        (stack(save="3600 1", maxmemory="2576980378"), "maxmemory 2576980378"),
        (stack(maxmemory="3gb", replicas=0), HOLDS),  # it never forks
        (stack(maxmemory="3gb"), "maxmemory 3gb of 4.0 GiB"),  # for a full sync it does
        (stack(maxmemory="3gb", replicas=None), NOTHING),
        (stack(maxmemory="0"), "no maxmemory"),
        (stack(maxmemory=None), "no maxmemory, its container ends at 4.0 GiB"),
        (stack(maxmemory="3 bananas"), NOTHING),
        (stack(memory_limit=None), NOTHING),
        (stack(memory_limit="4GiB"), NOTHING),
    ],
    # The longest interval, unless the append-only file is on.
    "RED005": [
        (stack(), HOLDS),
        (stack(save="3600 1"), "up to 60 min of writes"),
        (stack(save="60 10000 300 100"), "up to 5 min of writes"),
        (stack(save="3600 1", appendonly=True), HOLDS),
        (stack(save=None), NOTHING),
    ],
    # Of the two somebody writes a disk.
    "RED006": [
        (pair(appendonly=True), HOLDS),
        (pair(save="3600 1"), HOLDS),
        (pair(), "cache: neither it nor a replica"),
        (pair({"appendonly": True}), NOTHING),
        (pair({"replicas": 0}), NOTHING),
        (pair({"replicas": None}), NOTHING),
        (pair({"save": None}), NOTHING),
        (pair(appendonly=None), NOTHING),
        (stack(), NOTHING),  # nobody saw its replica
    ],
    # A primary without persistence and without its replica bounds no loss.
    "RED007": [
        (stack(min_replicas_to_write=1), HOLDS),
        (stack(min_replicas_to_write=0), "cache: takes writes while no replica"),
        (stack(min_replicas_to_write=0, appendonly=True), NOTHING),
        (stack(min_replicas_to_write=0, replicas=0), NOTHING),
        (stack(min_replicas_to_write=0, role="replica"), NOTHING),
        (stack(min_replicas_to_write=None), NOTHING),
        (stack(min_replicas_to_write=0, save=None), NOTHING),
    ],
    # Save points alone, replicas and a restart together lose what the replicas had.
    "RED008": [
        (stack(save="3600 1"), "up to 60 min of writes go, on its replicas, too"),
        (stack(save="3600 1 300 100 60 10000"), "up to 60 min of writes go"),
        (stack(save="300 100"), "up to 5 min of writes go"),
        (stack(save="3600 1", fenced=False), "up to 60 min"),
        (replace(stack(save="60 1", auto_restart=None), kubernetes=KubernetesFacts()), "60 s"),
        (stack(save="3600 1", appendonly=True), HOLDS),
        (stack(save="3600 1", auto_restart=False), HOLDS),
        (stack(save="3600 1", fenced=True), HOLDS),
        (stack(save="3600 1", replicas=0), HOLDS),
        (stack(save="3600 1", role="replica"), NOTHING),
        (stack(save="3600 1", auto_restart=None), NOTHING),
        (stack(save="3600 1", replicas=None), NOTHING),
        (stack(save="3600 1", appendonly=None), NOTHING),
        (stack(save=None), NOTHING),
        (stack(), NOTHING),
    ],
}


@pytest.mark.parametrize(("code", "facts", "told"), rows_of(SAID))
def test_a_rule_says_what_is_wrong(code: str, facts: StackFacts, told: str) -> None:
    """On both sides of its limit, and where there is nothing to judge."""
    assert told in said(code, facts)


STRICT = StorageClassFacts(
    name="fast",
    provisioner="driver.longhorn.io",
    binding="WaitForFirstConsumer",
    parameters={"numberOfReplicas": "1", "dataLocality": "strict-local"},
)
SPREAD = replace(STRICT, parameters={"dataLocality": "best-effort"})
LOCAL = StorageClassFacts(name="local", provisioner="rancher.io/local-path")


def storage_stack(
    *classes: StorageClassFacts, instances: int = 3, used: str = "fast"
) -> StackFacts:
    """Return the facts of a cluster and these storage classes."""
    cluster = ClusterFacts(instances=instances, storage_class=used)
    return StackFacts(kubernetes=KubernetesFacts(storage_classes=classes, cluster=cluster))


def with_replicas(number: str) -> StorageClassFacts:
    """Return a strict-local class of so many replicas."""
    return replace(STRICT, parameters={**STRICT.parameters, "numberOfReplicas": number})


@pytest.mark.parametrize(
    ("code", "facts", "told"),
    [
        ("LH001", storage_stack(STRICT), HOLDS),
        ("LH001", storage_stack(with_replicas("2")), "fast: strict-local with 2 replicas"),
        (
            "LH001",
            storage_stack(replace(STRICT, parameters={"dataLocality": "strict-local"})),
            "strict-local with 3 replicas",
        ),
        ("LH001", storage_stack(SPREAD), NOTHING),
        ("LH001", storage_stack(LOCAL), NOTHING),
        ("LH002", storage_stack(STRICT), HOLDS),
        ("LH002", storage_stack(SPREAD), "3 instances x 3 replicas = 9 copies"),
        ("LH002", storage_stack(SPREAD, instances=1), HOLDS),
        ("LH002", storage_stack(SPREAD, used="other"), NOTHING),
        ("LH002", storage_stack(LOCAL, used="local"), NOTHING),
        ("LH002", storage_stack(with_replicas("²")), NOTHING),
        ("LH003", storage_stack(STRICT), HOLDS),
        (
            "LH003",
            storage_stack(replace(STRICT, binding="Immediate")),
            "volumeBindingMode Immediate",
        ),
        ("LH003", storage_stack(LOCAL), "local: volumeBindingMode Immediate"),
        ("LH003", storage_stack(replace(SPREAD, binding="Immediate")), NOTHING),
        ("LH004", storage_stack(STRICT), HOLDS),
        ("LH004", storage_stack(replace(STRICT, parameters={"dataEngine": "v2"})), "1024 pages"),
        ("LH004", storage_stack(LOCAL), NOTHING),
    ],
)
def test_storage_rules_on_both_sides(code: str, facts: StackFacts, told: str) -> None:
    """Longhorn's default of 3 replicas counts where the class names no number."""
    assert told in said(code, facts)


def bench_stack(
    memory_bytes: int | None = 8 * GIB, buffers: str = "2GB", **bench: Any
) -> StackFacts:
    """Return the facts of a comparison on a machine of two CPUs with this memory."""
    return StackFacts(
        linux=LinuxFacts(memory_bytes=memory_bytes, cpus=(0, 1)),
        postgres=PostgresFacts(settings={"shared_buffers": buffers}),
        bench=BenchFacts(**bench),
    )


def made(each: float, commit: float, read_only: float | None = None) -> ScriptLatencies:
    """Return latencies that are made of these costs in milliseconds."""
    return ScriptLatencies(
        select_only_s=(each if read_only is None else read_only) / 1e3,
        simple_update_s=(5 * each + commit) / 1e3,
        tpcb_like_s=(7 * each + commit) / 1e3,
    )


REFERENCE = {"reference_memory_bytes": 8 * GIB, "reference_cpus": 2}


# What each rule says of facts, or its state.
BENCH_SAID = {
    # Within a tenth, more as well as less; both must be known to be equal.
    "BEN001": [
        (bench_stack(**REFERENCE), HOLDS),
        (bench_stack(8 * GIB + 8 * GIB // 10, **REFERENCE), HOLDS),
        (
            bench_stack(9 * GIB, **REFERENCE),
            "may use 9.0 GiB, what it is compared with has 8.0 GiB",
        ),
        (bench_stack(7 * GIB, **REFERENCE), "may use 7.0 GiB"),
        (bench_stack(None, **REFERENCE), NOTHING),
        (bench_stack(), NOTHING),
        (
            bench_stack(**{**REFERENCE, "reference_cpus": 4}),
            "may use 2 CPUs, what it is compared with",
        ),
        (bench_stack(**{**REFERENCE, "reference_cpus": 1}), "compared with has 1"),
        (bench_stack(reference_memory_bytes=8 * GIB), NOTHING),  # equal memory alone is no pass
        (bench_stack(9 * GIB, reference_memory_bytes=8 * GIB), "may use 9.0 GiB"),
        (bench_stack(reference_cpus=2), NOTHING),
        (replace(bench_stack(**REFERENCE), linux=LinuxFacts(memory_bytes=8 * GIB)), NOTHING),
    ],
    # Two at once are attributed to neither.
    "BEN002": [
        (
            bench_stack(
                steps=(JourneyStep(name="a", knobs=("governor",)), JourneyStep(name="b", knobs=()))
            ),
            HOLDS,
        ),
        (
            bench_stack(steps=(JourneyStep(name="a", knobs=("governor", "pinning")),)),
            "a changes 2 things at once: governor, pinning",
        ),
        (bench_stack(), NOTHING),
    ],
    # 15.1 MiB per unit of scale.
    "BEN003": [
        (bench_stack(scale=136), HOLDS),  # 2053.6 MiB
        (bench_stack(scale=135), "scale 135 is 2.0 GiB, shared_buffers 2.0 GiB"),
        (bench_stack(buffers="much", scale=1), NOTHING),
        (bench_stack(), NOTHING),
    ],
}


@pytest.mark.parametrize(("code", "facts", "told"), rows_of(BENCH_SAID))
def test_a_rule_of_the_bench_says_what_is_wrong(code: str, facts: StackFacts, told: str) -> None:
    """On both sides of its limit, and where there is nothing to judge."""
    assert told in said(code, facts)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (made(1.3, 0.9), made(0.4, 0.0), "every statement of the writing scripts changed alike"),
        (made(0.4, 0.0), made(1.3, 0.9), "0.40 ms to 1.30 ms (+0.90 ms)"),
        # A commit that became cheaper is storage; statements stayed what they were.
        (made(0.2, 2.0), made(0.2, 0.5), HOLDS),
        # The read-only statement stayed while those that write changed: work, not waiting.
        (made(1.3, 0.9, 0.4), made(0.4, 0.9, 0.4), HOLDS),
        # Less than a tenth of a statement, or than 20 µs, is what one run each cannot tell.
        (made(1.3, 0.9), made(1.2, 0.9), HOLDS),
        (made(0.03, 0.1), made(0.015, 0.1), HOLDS),
    ],
)
def test_equal_changes_of_all_statements_are_waits(
    before: ScriptLatencies, after: ScriptLatencies, told: str
) -> None:
    """BEN004: alike at every statement, read-only included, and large enough to be told."""
    assert told in said("BEN004", bench_stack(before=before, after=after))


def test_a_measured_wake_up_stands_beside_the_change() -> None:
    """BEN004: the ping-pong of the same machine says what one takes."""
    facts = bench_stack(before=made(1.3, 0.9), after=made(0.4, 0.0))
    probe = PingPong(same_cpu_s=5e-6, across_s=40e-6)
    probed = replace(facts, linux=LinuxFacts(ping_pong=probe))
    assert "another CPU takes 17.5 µs here" in said("BEN004", probed)
    assert "takes" not in said("BEN004", facts).replace("would take", "")


@pytest.mark.parametrize(
    ("repeats", "told"), [(3, HOLDS), (2, "2 runs each"), (1, "a single run"), (None, NOTHING)]
)
def test_figures_are_repeated(repeats: int | None, told: str) -> None:
    """BEN005: three times or more."""
    assert told in said("BEN005", bench_stack(repeats=repeats))


SLOW = PingPong(same_cpu_s=5e-6, across_s=40e-6, across_p99_s=135e-6)
FAST = PingPong(same_cpu_s=5e-6, across_s=5.2e-6, across_p99_s=20e-6)
C6 = IdleState(name="C6", exit_latency_s=133e-6)
C1 = IdleState(name="C1", exit_latency_s=2e-6)
NODES = tuple(NumaNode(number=number, cpus=(number,)) for number in (0, 1))
DOMAIN = DomainFacts(name="vm", vcpus=2, memory_bytes=4 * GIB, memory_nodes=(1,))


def metal(ping_pong: PingPong | None = SLOW, **linux: Any) -> StackFacts:
    """Return the facts of bare metal, where the hypervisor is the database's own machine."""
    machine = LinuxFacts(virtualization="none", ping_pong=ping_pong, **linux)
    return StackFacts(hypervisor=machine, linux=machine)


def guest(hypervisor: LinuxFacts | None = None, **linux: Any) -> StackFacts:
    """Return the facts of a virtual machine."""
    known = {"virtualization": "kvm", "ping_pong": SLOW, **linux}
    return StackFacts(hypervisor=hypervisor, linux=LinuxFacts(**known))


def between(seconds: float) -> PingPong:
    """Return a probe whose round trips between nodes take this long."""
    return replace(SLOW, other_node_s=seconds)


@pytest.mark.parametrize(
    ("probe", "told"),
    [
        (FAST, HOLDS),
        (replace(SLOW, across_s=24.9e-6), HOLDS),  # 9.95 µs per wake-up
        (replace(SLOW, across_s=25.1e-6), "takes 10.1 µs"),
        (SLOW, "waking up a thread on another CPU takes 17.5 µs"),
        (replace(SLOW, same_cpu_s=None), NOTHING),
        (None, NOTHING),
    ],
)
def test_a_wake_up_is_weighed_against_memory_distance(probe: PingPong | None, told: str) -> None:
    """WAK001: a round trip has two of them; above 10 µs each they are told."""
    assert told in said("WAK001", metal(probe))


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        (metal(idle_states=(C1, C6)), ("this machine enter C6, which takes 0.13 ms",)),
        (metal(idle_states=(C1,)), ()),
        (metal(idle_states=(replace(C6, disabled=True),)), ()),
        (metal(idle_states=(C6,), dma_latency_s=2e-6), ()),
        (metal(idle_states=(C6,), dma_latency_s=200e-6), ("enter C6",)),
        (guest(LinuxFacts(idle_states=(C6,))), ("idle CPUs of the hypervisor enter C6",)),
        (guest(guest_halt_poll_s=0.0), ("halts at once (guest_halt_poll_ns = 0)",)),
        (
            guest(LinuxFacts(halt_poll_s=0.0), guest_halt_poll_s=0.0),
            ("the hypervisor does not poll either",),
        ),
        (guest(guest_halt_poll_s=200e-6), ()),
        (guest(guest_halt_poll_s=0.0, dma_latency_s=0.0), ()),
        (metal(guest_halt_poll_s=0.0), ()),
        (guest(idle_driver="none"), ("halts at once (no idle driver",)),
        (guest(idle_driver="none", dma_latency_s=0.0), ("halts at once (no idle driver",)),
        (guest(idle_driver="haltpoll", guest_halt_poll_s=200e-6), ()),
        (metal(idle_driver="none"), ()),
        (
            replace(guest(), domains=(replace(DOMAIN, vcpu_delay_fraction=0.03),)),
            ("virtual CPUs of vm waited 3.0 % of the time",),
        ),
        (replace(guest(), domains=(replace(DOMAIN, vcpu_delay_fraction=0.01),)), ()),
        (guest(steal_fraction=0.02), ("took 2.0 % of CPU time",)),
        (metal(cpu_pressure_fraction=0.2), ("in 20.0 % of the time a task waited",)),
        (metal(cpu_pressure_fraction=0.1), ()),
        (metal(replace(SLOW, across_p99_s=3e-3)), ("1 round trip in 100 takes 3.00 ms",)),
    ],
)
def test_suspects_are_facts(facts: StackFacts, told: tuple[str, ...]) -> None:
    """Idle states, halting and contention: named where they are seen, once, and only then."""
    suspects = wake_ups(facts).suspects
    assert len(suspects) == len(told)
    for suspect, words in zip(suspects, told, strict=True):
        assert words in suspect
        assert suspect in said("WAK001", facts)


def test_what_a_guest_cannot_see_is_said() -> None:
    """A virtual machine does not know its hypervisor: not seen is not absent."""
    origin = Origin(source="inside of a virtual machine", visibility=Visibility.NO)
    facts = replace(guest(), origins={"hypervisor": origin})
    told = said("WAK001", facts)
    assert "not visible from here: the idle states of the hypervisor" in told
    assert "(inside of a virtual machine)" in told
    seen = guest(LinuxFacts(idle_states=(C1,), halt_poll_s=200e-6))
    assert "not visible" not in said("WAK001", replace(seen, domains=(DOMAIN,)))
    assert "not visible" not in said("WAK001", metal())


@pytest.mark.parametrize(
    ("facts", "one"),
    [
        (metal(nodes=NODES[:1]), True),
        (metal(nodes=NODES), False),
        (guest(nodes=NODES[:1]), None),  # its memory may be spread below
        (replace(guest(nodes=NODES[:1]), domains=(DOMAIN,)), True),
        (replace(guest(nodes=NODES[:1]), domains=(replace(DOMAIN, memory_nodes=(0, 1)),)), False),
        (replace(guest(nodes=NODES[:1]), domains=(replace(DOMAIN, memory_nodes=()),)), None),
        (metal(), None),
    ],
)
def test_one_node_leaves_nothing_far(facts: StackFacts, *, one: bool | None) -> None:
    """Then no latency is a distance; in a guest only where its memory is bound to one node."""
    assert wake_ups(facts).one_node is one
    assert ("no memory is far" in said("WAK001", facts)) is (one is True)


@pytest.mark.parametrize(
    ("probe", "told"),
    [
        (between(40e-6), HOLDS),
        (between(43.9e-6), HOLDS),
        (between(44.1e-6), "takes 2.0 µs more than one on the same node, less than the 17.5 µs"),
        (between(90e-6), "takes 25.0 µs more than one on the same node, more than the 17.5 µs"),
        (SLOW, NOTHING),
    ],
)
def test_crossing_nodes_is_told_apart(probe: PingPong, told: str) -> None:
    """WAK002: what distance adds to a wake-up, beside what the wake-up is anyway."""
    assert told in said("WAK002", metal(probe, nodes=NODES))


def test_one_node_has_no_other() -> None:
    """WAK002 lacks nothing where there is one node; where there are two it lacks the probe."""
    assert judged("WAK002", metal(nodes=NODES[:1])).missing == ()
    assert "other_node_s" in judged("WAK002", metal(nodes=NODES)).missing[0]
