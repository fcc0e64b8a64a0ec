"""What a rule of the stack is, how one is applied to facts, and what several rules ask of these.

A missing fact makes a rule not applicable, never a pass; ``core.stack`` has what judging gives. An
absent setting has PostgreSQL's default, as in a configuration file; settings that nobody saw are
None.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import Final, TypeVar

from steelyard.core import findings, wording
from steelyard.core.findings import KEPT, Rule, Ruling, State, broken
from steelyard.core.stack import (
    ContainerFacts,
    DomainFacts,
    JudgedRule,
    PodFacts,
    PostgresFacts,
    StackFacts,
    Visibility,
)

TUNING_ARTICLE: Final = (
    'Iwan Setiawan, "Bare Metal vs. AWS RDS: CPU/NUMA Pinning and HugePages - How We Beat Aurora on'
    ' Write Throughput" (part 2), DEV Community'
)
Rulings = tuple[Ruling, ...]
Subject = TypeVar("Subject")
NOTHING: Final[Rulings] = ()  # there is nothing to judge
HOLDS: Final[Rulings] = (KEPT,)


def lacking(*paths: str) -> Rulings:
    """Return that these facts are missing."""
    return tuple(map(findings.lacking, paths))


def violated(*messages: str) -> Rulings:
    """Return a violation for each sentence of fact; without any the rule holds."""
    return tuple(map(broken, messages)) or HOLDS


def violated_if(is_so: bool, message: str) -> Rulings:  # noqa: FBT001 - the condition itself
    """Return that a rule is violated, or that it holds."""
    return violated(message) if is_so else HOLDS


def combined(rulings: Iterable[Rulings]) -> Rulings:
    """Return all rulings in one."""
    return tuple(chain.from_iterable(rulings))


def of_each(subjects: Iterable[Subject], check: Callable[[Subject], Rulings]) -> Rulings:
    """Return the rulings on all subjects."""
    return combined(check(subject) for subject in subjects)


def of_all(
    subjects: Callable[[StackFacts], Iterable[Subject]], check: Callable[[Subject], Rulings]
) -> Callable[[StackFacts], Rulings]:
    """Return a check of all subjects among facts from one of a single subject."""
    return lambda facts: of_each(subjects(facts), check)


def of_each_domain(
    check: Callable[[DomainFacts], Rulings],
) -> Callable[[StackFacts], Rulings]:
    """Return a check of all domains from one of a single domain."""
    return of_all(lambda facts: facts.domains or (), check)


def of_unread_domains(facts: StackFacts) -> Rulings:
    """Return that the facts of domains that could not be read are missing, if there are such."""
    return lacking(*facts.unread_domains)


def listed(numbers: Iterable[int]) -> str:
    """Return numbers in order, as a list in a sentence."""
    return ", ".join(map(str, sorted(numbers)))


@dataclass(frozen=True, slots=True, kw_only=True)
class StackRule(Rule[StackFacts]):
    """A rule of the stack; its code is such as ``KVM001``.

    Attributes:
        layers: That it joins: ``hypervisor``, ``kvm``, ``linux``, ``kubernetes``, ``postgres``,
            ``redis``, ``storage``, ``bench``.
        title: What holds where all is well.
        detect: From what it is seen.
        needs: Paths of the facts without which it is not applicable. Those of a single domain it
            cannot name: ``judge`` says where it lacks one.
    """

    layers: tuple[str, ...]
    title: str
    detect: str
    needs: tuple[str, ...]


_DOMAINS: Final = "domains"


def judge_by(rule: StackRule, facts: StackFacts) -> JudgedRule:
    """Return what comes of one rule; each missing fact once."""
    rulings = _rulings(rule, facts)
    messages = tuple(each.message for each in rulings if each.state is State.VIOLATED)
    missing = dict.fromkeys(each.missing for each in rulings if each.missing)
    return JudgedRule(
        code=rule.code,
        layers=rule.layers,
        severity=rule.severity,
        title=rule.title,
        state=_state(rulings),
        messages=messages,
        missing=tuple(f"{path}: {_reason(facts, path)}" for path in missing),
        why=rule.why,
        remedy=rule.remedy,
        source=rule.source,
    )


def _rulings(rule: StackRule, facts: StackFacts) -> Rulings:
    """Return what the rule says; that facts are missing where it cannot be asked."""
    missing = tuple(path for path in rule.needs if _value(facts, path) is None)
    found = lacking(*missing) if missing else tuple(rule.judge(facts))
    if _DOMAINS in rule.needs and facts.domains is not None:
        return combined((found, of_unread_domains(facts)))
    return found


def _state(rulings: Rulings) -> State:
    states = {each.state for each in rulings}
    if State.VIOLATED in states:
        return State.VIOLATED
    unseen = any(each.missing for each in rulings)
    return State.HOLDS if State.HOLDS in states and not unseen else State.NOT_APPLICABLE


def _reason(facts: StackFacts, path: str) -> str:
    """Return why a fact is missing; a source that was read did not have it."""
    origin = facts.origin(path)
    return f"not in {origin.source}" if origin.visibility is Visibility.YES else origin.source


def _value(facts: StackFacts, path: str) -> object:
    """Return the fact at a path such as ``linux.governor``; None where it or a part is missing."""
    value: object = facts
    for name in path.split("."):
        if value is None:
            return None
        value = getattr(value, name)
    return value


_GUARANTEED: Final = "Guaranteed"
_OFF: Final = frozenset({"off", "false", "no", "0"})
# Unit in which the server takes a bare number, and the default; PostgreSQL 15 to 18 agree in them.
_SIZES: Final[Mapping[str, tuple[str, int]]] = {
    "shared_buffers": ("8kB", 128 * wording.MIB),
    "wal_buffers": ("8kB", -8 * wording.KIB),
    "work_mem": ("kB", 4 * wording.MIB),
    "maintenance_work_mem": ("kB", 64 * wording.MIB),
    "max_wal_size": ("MB", 1024 * wording.MIB),
    "huge_page_size": ("kB", 0),  # the kernel's default
}
_UNIT_BYTES: Final = {"8kB": 8 * wording.KIB, "kB": wording.KIB, "MB": wording.MIB}


def database_pods(facts: StackFacts) -> tuple[PodFacts, ...]:
    """Return the pods that PostgreSQL runs in."""
    pods = facts.kubernetes.pods if facts.kubernetes is not None else None
    return tuple(pod for pod in pods or () if pod.database)


def amount(resources: Mapping[str, str], name: str) -> Fraction | None:
    """Return how much of a resource there is; None where it is absent or no quantity."""
    try:
        return wording.parse_quantity(resources[name]) if name in resources else None
    except wording.InputError:
        return None


def bytes_of(resources: Mapping[str, str], name: str) -> int | None:
    """Return the bytes of a resource; None where it is absent or no quantity."""
    try:
        return wording.parse_quantity_bytes(resources[name]) if name in resources else None
    except wording.InputError:
        return None


def containers_of(pod: PodFacts) -> Mapping[str, ContainerFacts]:
    """Return the containers of a pod by their names in sentences, the server's first.

    Where none is known, there is one that has what the pod has.
    """
    own = {f"{pod.name}, container {each.name}": each for each in pod.containers}
    alone = ContainerFacts(name=pod.name, requests=pod.requests, limits=pod.limits)
    return own or {pod.name: alone}


def server_of(pod: PodFacts) -> tuple[str, ContainerFacts]:
    """Return the container of the server, after its name in sentences."""
    return next(iter(containers_of(pod).items()))


def huge_pages_of(owner: PodFacts | ContainerFacts) -> dict[int, int]:
    """Return the bytes of huge pages that it may use, by page size; malformed ones left out."""
    limits = owner.limits
    sizes = {name: size for name in limits if (size := wording.page_bytes_of(name)) is not None}
    found = {size: bytes_of(limits, name) for name, size in sizes.items()}
    return {size: count for size, count in found.items() if count is not None}


def is_guaranteed(pod: PodFacts) -> bool:
    """Return whether requests equal limits in CPU and memory; an absent request is its limit.

    In each container, also those that ended before, or in the pod's own. What the cluster says
    counts.
    """
    if pod.qos_class is not None:
        return pod.qos_class == _GUARANTEED
    for owner in (pod,) if pod.pod_level else containers_of(pod).values():
        for name in ("cpu", "memory"):
            limit = amount(owner.limits, name)
            if limit is None or limit != amount({name: owner.limits[name], **owner.requests}, name):
                return False
    return True


def whole_cpus(pod: PodFacts, container: ContainerFacts | None = None) -> int | None:
    """Return the CPUs that a container gets exclusively, by default the server's; None: none.

    Source: policy_static.go of the kubelet 1.34 (guaranteedCPUs; resources of a pod's own are
    passed over).
    """
    limit = amount((container or server_of(pod)[1]).limits, "cpu")
    if not limit or limit.denominator != 1 or pod.pod_level or not is_guaranteed(pod):
        return None
    return int(limit)


def exclusive_cpus(facts: StackFacts, pod: PodFacts) -> int | None:
    """Return the CPUs that the server's container has exclusively; None: none.

    Where only the sums of the pod are known, the container's own CPUs prove more than they do.
    """
    own, limit = pod.cpus or (), amount(pod.limits, "cpu") or 0
    shared = facts.kubernetes.shared_cpus if facts.kubernetes is not None else None
    proven = 0 < len(own) <= limit and shared is not None and not {*own} & {*shared}
    return len(own) if proven and not pod.containers and is_guaranteed(pod) else whole_cpus(pod)


def limits_path(facts: StackFacts, of_machine: str) -> str:
    """Return the path of the fact that says what the database may use.

    That of a server that runs is of its process, or of a pod that is known.
    """
    if facts.kubernetes is not None and facts.kubernetes.pods is None:
        return "kubernetes.pods"
    runs_bare = facts.postgres and facts.postgres.running and not database_pods(facts)
    return f"postgres.usable_{of_machine}" if runs_bare else f"linux.{of_machine}"


def memory_of_database(facts: StackFacts) -> int | None:
    """Return the memory that the database may use, huge pages included.

    That of its container, else of its process, before it starts of the machine; None: unknown.
    """
    for _, container in map(server_of, database_pods(facts)):
        memory_bytes = bytes_of(container.limits, "memory")
        if memory_bytes is not None:
            return memory_bytes + sum(huge_pages_of(container).values())
    there = facts.linux.memory_bytes if facts.linux is not None else None
    server = facts.postgres or PostgresFacts()
    if server.usable_memory_bytes is not None and not database_pods(facts):
        whole = server.usable_memory_bytes + _on_huge_pages(facts)  # which no such limit counts
        return whole if there is None else min(whole, there)
    return there if limits_path(facts, "memory_bytes") == "linux.memory_bytes" else None


def _on_huge_pages(facts: StackFacts) -> int:
    """Return the bytes that a server has on huge pages, as far as they are known."""
    server, size = facts.postgres or PostgresFacts(), huge_page_of_server(facts) or 0
    needed = (server.huge_pages_needed or 0) * size if server.huge_pages_status == "on" else 0
    return server.huge_page_mapping_bytes or needed


def cpus_of_database(facts: StackFacts) -> float | None:
    """Return the CPUs that its container, its process or the machine lets the database use."""
    for _, container in map(server_of, database_pods(facts)):
        limit = amount(container.limits, "cpu")
        if limit is not None:
            return float(limit)
    server = facts.postgres or PostgresFacts()
    if server.usable_cpus is not None and not database_pods(facts):
        return server.usable_cpus
    if facts.linux is None or limits_path(facts, "cpus") != "linux.cpus":
        return None
    cpus = facts.linux.allowed_cpus or facts.linux.cpus
    return float(len(cpus)) if cpus else None


def setting(facts: StackFacts, name: str, default: str) -> str | None:
    """Return a setting of the server as written; None where nobody saw its settings."""
    if facts.postgres is None or facts.postgres.settings is None:
        return None
    return facts.postgres.settings.get(name, default).strip()


def is_off(value: str) -> bool:
    """Return whether a setting's value means ``off``."""
    return value.lower() in _OFF


def size_of(facts: StackFacts, name: str) -> int | None:
    """Return a size among the settings in bytes, negative where the server chooses it itself.

    None where nobody saw the settings, or the value is no size.
    """
    unit, default_bytes = _SIZES[name]
    each_bytes = _UNIT_BYTES[unit]
    written = setting(facts, name, str(default_bytes // each_bytes))
    value = wording.in_unit(written, unit) if written is not None else None
    return None if value is None else int(value * each_bytes)


def number_of(facts: StackFacts, name: str, default: float) -> float | None:
    """Return a setting that is a plain number; None: it was not seen, or is another text."""
    written = setting(facts, name, str(default))
    return wording.in_unit(written, None) if written is not None else None


def huge_page_of_server(facts: StackFacts) -> int | None:
    """Return the size of the huge pages that PostgreSQL asks for; None where nobody saw it."""
    told = facts.postgres.huge_page_bytes if facts.postgres is not None else None
    default = facts.linux.huge_page_bytes if facts.linux is not None else None
    return told or size_of(facts, "huge_page_size") or default


def huge_pages_asked(facts: StackFacts) -> str | None:
    """Return ``on``, ``try`` or ``off``: of the server, else of its cluster; None when unseen."""
    asked = setting(facts, "huge_pages", "try")
    cluster = facts.kubernetes.cluster if facts.kubernetes is not None else None
    if asked is None and cluster is not None:
        asked = str(cluster.parameters.get("huge_pages", "try"))
    return "off" if asked is not None and is_off(asked) else asked


def groups_at_once(domains: tuple[DomainFacts, ...]) -> Iterator[tuple[DomainFacts, ...]]:
    """Yield the domains that run at once, then each other one alone.

    A domain that is shut off and not started by itself claims nothing as long as it is off; where
    nobody saw whether it starts by itself, it counts as one that does.
    """
    at_once = tuple(each for each in domains if each.running or each.autostart is not False)
    if at_once:
        yield at_once
    yield from ((each,) for each in domains if each not in at_once)
