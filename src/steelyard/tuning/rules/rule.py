"""What a rule of the stack is, how one is applied to facts, and what several rules ask of these.

A missing fact makes a rule not applicable, never a pass; ``core.stack`` has what judging gives. An
absent setting has PostgreSQL's default, as in a configuration file; settings that nobody saw are
None.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from math import ceil
from typing import Any, Final, TypeVar

from steelyard.core import findings, stack, wording
from steelyard.core.findings import KEPT, Rule, Ruling, State, broken

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


def lacking_of(facts: object, layer: str, *names: str) -> Rulings:
    """Return which of these facts of a layer are missing."""
    return lacking(*(f"{layer}.{name}" for name in names if getattr(facts, name) is None))


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


def domains_of(facts: stack.StackFacts) -> tuple[stack.DomainFacts, ...]:
    """Return the virtual machines among facts."""
    return facts.domains or ()


def of_unread_domains(facts: stack.StackFacts) -> Rulings:
    """Return that the facts of domains that could not be read are missing, if there are such."""
    return lacking(*facts.unread_domains)


def listed(numbers: Iterable[int]) -> str:
    """Return numbers in order, as a list in a sentence."""
    return ", ".join(map(str, sorted(numbers)))


@dataclass(frozen=True, slots=True, kw_only=True)
class StackRule(Rule[stack.StackFacts]):
    """A rule of the stack; its code is such as ``KVM001``.

    Attributes:
        why: What goes wrong when it is violated.
        layers: That it joins: ``hypervisor``, ``kvm``, ``linux``, ``kubernetes``, ``postgres``,
            ``redis``, ``storage``, ``bench``.
        title: What holds where all is well.
        detect: From what it is seen.
        needs: Paths of the facts without which it is not applicable. Those of a single domain it
            cannot name: ``judge`` says where it lacks one.
    """

    why: str
    layers: tuple[str, ...]
    title: str
    detect: str
    needs: tuple[str, ...]


Judge = TypeVar("Judge", bound=Callable[..., Rulings])


def enter(
    rules: list[StackRule],
    *,
    of: Callable[[stack.StackFacts], Iterable[Any]] | None = None,
    among: Callable[[stack.StackFacts], Iterable[Any]] | None = None,
    **text: Any,  # noqa: ANN401 - the fields of a rule
) -> Callable[[Judge], Judge]:
    """Return a decorator that enters a function into ``rules`` as the judge of one.

    Args:
        rules: To which the rule is added.
        of: Yields what is judged one by one; None: the facts as a whole.
        among: Likewise, where the facts as a whole are looked at beside each of them.
        text: All else that a rule has.
    """

    def entered(judge: Judge) -> Judge:
        whole: Callable[[stack.StackFacts], Rulings] = judge
        if of is not None:
            whole = lambda facts: of_each(of(facts), judge)  # noqa: E731
        elif among is not None:
            whole = lambda facts: of_each(among(facts), lambda it: judge(it, facts))  # noqa: E731
        rules.append(StackRule(judge=whole, **text))
        return judge

    return entered


_DOMAINS: Final = "domains"


def judge_by(rule: StackRule, facts: stack.StackFacts) -> stack.JudgedRule:
    """Return what comes of one rule; each missing fact once."""
    rulings = _rulings(rule, facts)
    messages = tuple(each.message for each in rulings if each.state is State.VIOLATED)
    missing = dict.fromkeys(each.missing for each in rulings if each.missing)
    states = {each.state for each in rulings}
    state = State.VIOLATED if State.VIOLATED in states else State.NOT_APPLICABLE
    if State.HOLDS in states and state is not State.VIOLATED and not missing:
        state = State.HOLDS
    return stack.JudgedRule(
        code=rule.code,
        layers=rule.layers,
        severity=rule.severity,
        title=rule.title,
        state=state,
        messages=messages,
        missing=tuple(
            f"{path}: not in {origin.source}"  # which was read
            if (origin := facts.origin(path)).visibility is stack.Visibility.YES
            else f"{path}: {origin.source}"
            for path in missing
        ),
        why=rule.why,
        remedy=rule.remedy,
        source=rule.source,
    )


def _rulings(rule: StackRule, facts: stack.StackFacts) -> Rulings:
    """Return what the rule says; that facts are missing where it cannot be asked."""
    missing = tuple(path for path in rule.needs if _value(facts, path) is None)
    found = lacking(*missing) if missing else tuple(rule.judge(facts))
    if _DOMAINS in rule.needs and facts.domains is not None:
        return combined((found, of_unread_domains(facts)))
    return found


def _value(facts: stack.StackFacts, path: str) -> object:
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


def database_pods(facts: stack.StackFacts) -> tuple[stack.PodFacts, ...]:
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
    exact = amount(resources, name)
    return None if exact is None else ceil(exact)


def containers_of(pod: stack.PodFacts) -> Mapping[str, stack.ContainerFacts]:
    """Return the containers of a pod by their names in sentences, the server's first.

    Where none is known, there is one that has what the pod has.
    """
    own = {f"{pod.name}, container {each.name}": each for each in pod.containers}
    alone = stack.ContainerFacts(name=pod.name, requests=pod.requests, limits=pod.limits)
    return own or {pod.name: alone}


def server_of(pod: stack.PodFacts) -> tuple[str, stack.ContainerFacts]:
    """Return the container of the server, after its name in sentences."""
    return next(iter(containers_of(pod).items()))


def huge_pages_of(owner: stack.PodFacts | stack.ContainerFacts) -> dict[int, int]:
    """Return the bytes of huge pages that it may use, by page size; malformed ones left out."""
    limits = owner.limits
    sizes = {name: size for name in limits if (size := wording.page_bytes_of(name)) is not None}
    found = {size: bytes_of(limits, name) for name, size in sizes.items()}
    return {size: count for size, count in found.items() if count is not None}


def is_guaranteed(pod: stack.PodFacts) -> bool:
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


def whole_cpus(pod: stack.PodFacts, container: stack.ContainerFacts | None = None) -> int | None:
    """Return the CPUs that a container gets exclusively, by default the server's; None: none.

    Source: policy_static.go of the kubelet 1.34 (guaranteedCPUs; resources of a pod's own are
    passed over).
    """
    limit = amount((container or server_of(pod)[1]).limits, "cpu")
    if not limit or limit.denominator != 1 or pod.pod_level or not is_guaranteed(pod):
        return None
    return int(limit)


def exclusive_cpus(facts: stack.StackFacts, pod: stack.PodFacts) -> int | None:
    """Return the CPUs that the server's container has exclusively; None: none.

    Where only the sums of the pod are known, the container's own CPUs prove more than they do.
    """
    own, limit = pod.cpus or (), amount(pod.limits, "cpu") or 0
    shared = facts.kubernetes.shared_cpus if facts.kubernetes is not None else None
    proven = 0 < len(own) <= limit and shared is not None and not {*own} & {*shared}
    return len(own) if proven and not pod.containers and is_guaranteed(pod) else whole_cpus(pod)


def limits_path(facts: stack.StackFacts, of_machine: str) -> str:
    """Return the path of the fact that says what the database may use.

    That of a server that runs is of its process, or of a pod that is known.
    """
    if facts.kubernetes is not None and facts.kubernetes.pods is None:
        return "kubernetes.pods"
    runs_bare = facts.postgres and facts.postgres.running and not database_pods(facts)
    return f"postgres.usable_{of_machine}" if runs_bare else f"linux.{of_machine}"


def memory_of_database(facts: stack.StackFacts) -> int | None:
    """Return the memory that the database may use, huge pages included.

    That of its container, else of its process, before it starts of the machine; None: unknown.
    """
    for _, container in map(server_of, database_pods(facts)):
        memory_bytes = bytes_of(container.limits, "memory")
        if memory_bytes is not None:
            return memory_bytes + sum(huge_pages_of(container).values())
    there = facts.linux.memory_bytes if facts.linux is not None else None
    server = facts.postgres or stack.PostgresFacts()
    if server.usable_memory_bytes is not None and not database_pods(facts):
        whole = server.usable_memory_bytes + _on_huge_pages(facts)  # which no such limit counts
        return whole if there is None else min(whole, there)
    return there if limits_path(facts, "memory_bytes") == "linux.memory_bytes" else None


def _on_huge_pages(facts: stack.StackFacts) -> int:
    """Return the bytes that a server has on huge pages, as far as they are known."""
    server, size = facts.postgres or stack.PostgresFacts(), huge_page_of_server(facts) or 0
    needed = (server.huge_pages_needed or 0) * size if server.huge_pages_status == "on" else 0
    return server.huge_page_mapping_bytes or needed


def cpus_of_database(facts: stack.StackFacts) -> float | None:
    """Return the CPUs that its container, its process or the machine lets the database use."""
    for _, container in map(server_of, database_pods(facts)):
        limit = amount(container.limits, "cpu")
        if limit is not None:
            return float(limit)
    server = facts.postgres or stack.PostgresFacts()
    if server.usable_cpus is not None and not database_pods(facts):
        return server.usable_cpus
    if facts.linux is None or limits_path(facts, "cpus") != "linux.cpus":
        return None
    cpus = facts.linux.allowed_cpus or facts.linux.cpus
    return float(len(cpus)) if cpus else None


def setting(facts: stack.StackFacts, name: str, default: str) -> str | None:
    """Return a setting of the server as written; None where nobody saw its settings."""
    if facts.postgres is None or facts.postgres.settings is None:
        return None
    return facts.postgres.settings.get(name, default).strip()


def is_off(value: str) -> bool:
    """Return whether a setting's value means ``off``."""
    return value.lower() in _OFF


def size_of(facts: stack.StackFacts, name: str) -> int | None:
    """Return a size among the settings in bytes, negative where the server chooses it itself.

    None where nobody saw the settings, or the value is no size.
    """
    unit, default_bytes = _SIZES[name]
    each_bytes = _UNIT_BYTES[unit]
    written = setting(facts, name, str(default_bytes // each_bytes))
    value = wording.in_unit(written, unit) if written is not None else None
    return None if value is None else int(value * each_bytes)


def number_of(facts: stack.StackFacts, name: str, default: float) -> float | None:
    """Return a setting that is a plain number; None: it was not seen, or is another text."""
    written = setting(facts, name, str(default))
    return wording.in_unit(written, None) if written is not None else None


def huge_page_of_server(facts: stack.StackFacts) -> int | None:
    """Return the size of the huge pages that PostgreSQL asks for; None where nobody saw it."""
    told = facts.postgres.huge_page_bytes if facts.postgres is not None else None
    default = facts.linux.huge_page_bytes if facts.linux is not None else None
    return told or size_of(facts, "huge_page_size") or default


def huge_pages_asked(facts: stack.StackFacts) -> str | None:
    """Return ``on``, ``try`` or ``off``: of the server, else of its cluster; None when unseen."""
    asked = setting(facts, "huge_pages", "try")
    cluster = facts.kubernetes.cluster if facts.kubernetes is not None else None
    if asked is None and cluster is not None:
        asked = str(cluster.parameters.get("huge_pages", "try"))
    return "off" if asked is not None and is_off(asked) else asked


def groups_at_once(
    domains: tuple[stack.DomainFacts, ...],
) -> Iterator[tuple[stack.DomainFacts, ...]]:
    """Yield the domains that run at once, then each other one alone.

    A domain that is shut off and not started by itself claims nothing as long as it is off; where
    nobody saw whether it starts by itself, it counts as one that does.
    """
    at_once = tuple(each for each in domains if each.running or each.autostart is not False)
    if at_once:
        yield at_once
    yield from ((each,) for each in domains if each not in at_once)
