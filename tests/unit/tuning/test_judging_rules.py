"""Judging: a missing fact is never a pass, and says why it is missing."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, get_args, get_type_hints

import pytest

from steelyard.core import stack
from steelyard.core.findings import Severity, State
from steelyard.core.linux import LinuxFacts, PingPong
from steelyard.core.wording import GIB
from steelyard.tuning.rules.catalogue import RULES, judge
from steelyard.tuning.rules.rule import (
    HOLDS,
    NOTHING,
    Rulings,
    StackRule,
    combined,
    judge_by,
    lacking,
    violated,
    violated_if,
)
from support.recorded_stacks import recommended

FACTS = stack.StackFacts(
    linux=LinuxFacts(governor="performance"),
    origins={
        "linux": stack.Origin(source="/proc and /sys"),
        "linux.swappiness": stack.Origin(
            source="no cpufreq in a guest", visibility=stack.Visibility.NO
        ),
    },
)


def rule(rulings: Rulings, *needs: str) -> StackRule:
    """Return a rule that gives these rulings."""
    words = dict.fromkeys(("title", "why", "detect", "remedy", "source"), "words")
    return StackRule(
        code="TST001",
        layers=("linux",),
        severity=Severity.ERROR,
        needs=needs,
        judge=lambda _: rulings,
        **words,
    )


@pytest.mark.parametrize(
    ("rulings", "state"),
    [
        (HOLDS, State.HOLDS),
        (violated("bad"), State.VIOLATED),
        (NOTHING, State.NOT_APPLICABLE),
        (lacking("linux.smt"), State.NOT_APPLICABLE),
        ((*violated("bad"), *lacking("linux.smt")), State.VIOLATED),
        ((*HOLDS, *lacking("linux.smt")), State.NOT_APPLICABLE),
        ((*HOLDS, *violated("bad")), State.VIOLATED),
    ],
)
def test_the_state_follows_from_the_rulings(rulings: Rulings, state: State) -> None:
    """One violation is enough; what lacks a fact or has nothing to judge is not applicable."""
    assert judge_by(rule(rulings), FACTS).state is state


def test_a_check_is_not_asked_without_its_facts() -> None:
    """Each missing fact is named with why it is missing: not visible, not there, not looked at."""
    found = judge_by(
        rule(HOLDS, "linux.governor", "linux.swappiness", "linux.smt", "postgres.settings"), FACTS
    )
    assert found.state is State.NOT_APPLICABLE
    assert found.missing == (
        "linux.swappiness: no cpufreq in a guest",
        "linux.smt: not in /proc and /sys",
        "postgres.settings: nobody looked",
    )


def test_a_fact_that_is_zero_or_false_is_there() -> None:
    """Only None is missing."""
    facts = stack.StackFacts(linux=LinuxFacts(swappiness=0, smt=False, nodes=()))
    found = judge_by(rule(HOLDS, "linux.swappiness", "linux.smt", "linux.nodes"), facts)
    assert found.state is State.HOLDS


def test_rulings_on_several_things_become_one() -> None:
    """Messages add up, a lack is named once, and what had nothing to judge does not count."""
    assert combined([NOTHING, NOTHING]) == NOTHING
    assert combined([NOTHING, HOLDS]) == violated() == violated_if(False, "a") == HOLDS  # noqa: FBT003
    found = judge_by(rule(combined([violated("a"), HOLDS, violated("b", "a")])), FACTS)
    assert (found.messages, found.missing) == (("a", "b", "a"), ())
    found = judge_by(rule(combined([lacking("x"), violated("a"), lacking("x", "y")])), FACTS)
    assert found.messages == ("a",)
    assert found.missing == ("x: nobody looked", "y: nobody looked")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_needs_name_facts_that_exist(rule: StackRule) -> None:
    """A misspelt path would fail only when somebody has the facts before it."""
    for path in rule.needs:
        known: object = stack.StackFacts
        for name in path.split("."):
            assert is_dataclass(known), path
            assert name in {field.name for field in fields(known)}, path
            hint = get_type_hints(known)[name]
            known = next((each for each in get_args(hint) if is_dataclass(each)), hint)


@pytest.mark.parametrize(
    "facts", [stack.StackFacts(), stack.StackFacts(redis=())], ids=["nothing", "no Redis"]
)
def test_without_facts_no_rule_passes(facts: stack.StackFacts) -> None:
    """No rule raises, holds or is violated; those of PostgreSQL say what they lack."""
    judged = judge(facts)
    assert len(judged) == len(RULES)
    assert {rule.state for rule in judged} == {State.NOT_APPLICABLE}
    assert all(rule.missing for rule in judged if rule.code.startswith("PG"))


def _cache(name: str, **changes: Any) -> stack.RedisFacts:
    """Return a server that writes snapshots and a log, and knows its limits."""
    server = stack.RedisFacts(
        name=name,
        role="primary",
        save="3600 1",
        appendonly=True,
        appendfsync="everysec",
        no_appendfsync_on_rewrite=False,
        replicas=1,
        auto_restart=True,
        fenced=False,
        storage="local",
        maxmemory="1gb",
        memory_limit="4Gi",
        min_replicas_to_write=1,
    )
    return replace(server, **changes)


@cache
def _sound() -> tuple[stack.StackFacts, ...]:
    """Return stacks in which, all together, every rule holds."""
    first = recommended()
    linux, server, below = first.linux, first.postgres, first.hypervisor
    cluster = first.kubernetes
    assert linux is not None
    assert server is not None
    assert below is not None
    assert cluster is not None
    [domain] = first.domains or ()
    latencies = stack.ScriptLatencies(select_only_s=1e-4, simple_update_s=2e-4, tpcb_like_s=4e-4)
    other = replace(
        first,
        linux=replace(
            linux,
            instance_type="m6i.large",
            scaling_driver="acpi-cpufreq",
            ping_pong=PingPong(same_cpu_s=1e-6, across_s=2e-6, other_node_s=2.5e-6),
            pool_users=(),
        ),
        hypervisor=replace(below, energy_preference="performance"),
        domains=(replace(domain, locked=False, cpu_mode="host-model"),),
        postgres=replace(
            server,
            running=False,
            settings={**(server.settings or {}), "io_method": "io_uring"},
            io_uring_available=True,
            huge_page_mapping_bytes=GIB,
            checkpoints_requested=1,
            checkpoints_timed=100,
        ),
        redis=(_cache("a"), _cache("b", role="replica", replicas=0)),
        bench=stack.BenchFacts(
            reference_class="db.m6i.large",
            reference_cpus=2,
            reference_memory_bytes=16 * GIB,
            scale=10000,
            repeats=5,
            steps=(stack.JourneyStep(name="x", knobs=("a",)),),
            before=latencies,
            after=latencies,
        ),
        kubernetes=replace(cluster, non_pod_huge_pages=0),
        intent=replace(first.intent, guest_governor="performance"),
    )
    nothing_kept = _cache("a", save="", appendonly=False, auto_restart=False)
    third = replace(
        first,
        redis=(nothing_kept, other.redis[1]) if other.redis else None,
        postgres=replace(server, huge_page_mapping_bytes=GIB),
    )
    outside = replace(other, kubernetes=None)
    on_metal = replace(below, virtualization="none")
    limited = replace(
        server, huge_page_mapping_bytes=GIB, usable_memory_bytes=24 * GIB, usable_cpus=6.0
    )
    bare = replace(
        third, linux=on_metal, hypervisor=None, domains=None, kubernetes=None, postgres=limited
    )
    return (first, other, third, outside, bare)


# Without these facts a rule holds by another one that was seen, or they are no facts of the rule.
_SUMS = ("kubernetes.pods.cpus", "kubernetes.shared_cpus")  # a pod's limits are known
_BY_ANOTHER = {
    "K8S001": ("intent", *_SUMS),  # what is wanted, which no machine tells
    "K8S003": ("intent", "kubernetes.kubelet"),  # the CPUs of the container are seen
    "K8S004": ("kubernetes.pods.throttled_periods", *_SUMS),  # nothing may throttle it
    "K8S005": ("intent", *_SUMS),
    "K8S006": ("kubernetes.kubelet.reserved_system_cpus",),  # a kubelet that reserves none
    "K8S007": ("linux",),  # for a share of the memory alone
    "K8S012": ("kubernetes.cluster", "postgres.settings"),  # of the other
    "K8S013": ("kubernetes.cluster", "postgres"),
    "KVM003": ("domains.huge_page_bytes",),  # of XML that has none
    "KVM006": ("domains.cpu_mode",),
    # Pages count wherever they are.
    **dict.fromkeys(("KVM010", "KVM017", "KVM018"), ("domains.memory_mode",)),
    "KVM011": ("domains", "linux"),  # of the other
    "KVM012": ("domains.disks.cache",),
    "KVM014": ("hypervisor.energy_preference",),  # a driver without any
    "KVM016": ("domains.cpu_mode",),
    # Who else asks for pages makes fewer of them idle.
    "OS002": ("domains", "hypervisor", "kubernetes", "linux.pools.reserved", "postgres"),
    "OS005": ("linux.swap_bytes", "linux.swappiness"),  # either is enough
    "OS009": ("linux.huge_page_bytes",),  # for the words alone
    "OS012": ("bench", "linux.virtualization"),  # the machine's own type is seen
    "PG001": ("postgres.running",),  # one that runs has its pages already
    "PG002": ("kubernetes", "postgres.settings", "postgres.huge_pages_status"),  # cluster; mapping
    # No cluster; a configuration that does not run; huge pages, which make the memory more.
    "PG003": (
        *("kubernetes", "linux", "linux.memory_bytes", "linux.huge_page_bytes"),
        *("postgres.running", "postgres.huge_page_mapping_bytes", "postgres.huge_pages_status"),
        *("postgres.huge_pages_needed", "postgres.huge_page_bytes"),
    ),
    "PG004": ("kubernetes", "postgres.running"),
    "PG007": ("postgres.checkpoints_requested", "postgres.checkpoints_timed"),  # settings
    "PG009": ("linux",),  # the storage as it was named
    "PG010": ("linux", "postgres.version"),  # the server's own word
    "PG011": ("kubernetes",),  # the server's settings
    "PG012": ("postgres.settings",),  # room for everything
    "RED001": ("redis",),  # one means of keeping the data, or none that would lose them
    "RED004": ("redis.save", "redis.appendonly"),  # it forks for its replica
    "RED006": ("redis.replicas", "redis.save"),
    "RED007": ("redis.save",),
    "RED008": ("redis.auto_restart", "redis.save"),
    "WAK001": ("domains", "hypervisor", "linux"),  # causes, told where a wake-up is dear
    "WAK002": ("domains", "hypervisor", "linux"),
}
_PARTS_OF_A_PATH = {"PG003": "kubernetes", "PG004": "kubernetes"}  # not what is below them


@contextmanager
def _reading() -> Iterator[set[tuple[int, str]]]:
    """Yield what is read of facts: the object and the field; comparisons read all of them."""
    seen: set[tuple[int, str]] = set()

    def watched(self: object, name: str) -> object:
        if sys._getframe(1).f_code.co_name != "__eq__":
            seen.add((id(self), name))
        return object.__getattribute__(self, name)

    kinds = {stack.StackFacts, *_kinds(stack.StackFacts)}
    for kind in kinds:
        kind.__getattribute__ = watched  # type: ignore[assignment]
    try:
        yield seen
    finally:
        for kind in kinds:
            del kind.__getattribute__


def _kinds(kind: Any) -> Iterator[Any]:
    """Yield the dataclasses of facts below one of them."""
    for hint in get_type_hints(kind).values():
        for part in (hint, *get_args(hint), *(b for a in get_args(hint) for b in get_args(a))):
            if is_dataclass(part) and part is not stack.Origin:
                yield part
                yield from _kinds(part)


def _without_one(facts: Any, above: str = "") -> Iterator[tuple[int, str, str, Any]]:
    """Yield object, field, path and a copy of the facts, for each fact that may be missing."""
    hints = get_type_hints(type(facts))
    for name in (field.name for field in fields(facts)):
        value, path = getattr(facts, name), f"{above}{name}"
        if value is not None and type(None) in get_args(hints[name]):
            yield id(facts), name, path, replace(facts, **{name: None})
        parts = value if isinstance(value, tuple) else (value,)
        for at, part in enumerate(parts):
            if not is_dataclass(part) or name == "origins":
                continue
            for owner, own, below, copy in _without_one(part, f"{path}."):
                new = (*parts[:at], copy, *parts[at + 1 :]) if isinstance(value, tuple) else copy
                yield owner, own, below, replace(facts, **{name: new})


def _may_hold(code: str, path: str) -> bool:
    if _PARTS_OF_A_PATH.get(code) is not None:
        return path in _BY_ANOTHER[code]
    return any(f"{path}.".startswith(f"{known}.") for known in _BY_ANOTHER.get(code, ()))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_rule_holds_by_facts_that_were_seen(rule: StackRule) -> None:
    """Each fact that it reads is taken away, one at a time: what is left is not a pass.

    Where another fact is evidence enough, ``_BY_ANOTHER`` names the one that may be missing.
    """
    held = 0
    passed = set()
    for facts in _sound():
        with _reading() as seen:
            state = judge_by(rule, facts).state
        if state is not State.HOLDS:
            continue
        held += 1
        for owner, name, path, copy in _without_one(facts):
            if (owner, name) in seen and judge_by(rule, copy).state is State.HOLDS:
                passed.add(path)
    assert held
    assert not {path for path in passed if not _may_hold(rule.code, path)}
