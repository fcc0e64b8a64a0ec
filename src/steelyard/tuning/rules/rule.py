"""What a rule of the stack is, how one is applied to facts, and what several rules ask of these.

A missing fact makes a rule not applicable, never a pass; ``core.stack`` has what judging gives. An
absent setting has PostgreSQL's default, as in a configuration file; settings that nobody saw are
None.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeVar

from steelyard.core.errors import InputError
from steelyard.core.findings import Severity
from steelyard.core.stack import JudgedRule, State
from steelyard.core.stack_facts import DomainFacts, PodFacts, StackFacts, Visibility
from steelyard.core.units import KIB, MIB, page_bytes_of, parse_quantity, parse_quantity_bytes
from steelyard.systems.postgres.settings import in_unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Partial:
    """What a check found that could not see everything; without messages it is not applicable.

    Attributes:
        messages: A sentence of fact per violation.
        missing: Paths of the facts that it lacked.
    """

    messages: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


Outcome = tuple[str, ...] | Partial | None  # none: there is nothing to judge


def lacking(*paths: str) -> Partial:
    """Return that these facts are missing."""
    return Partial(missing=paths)


def violated_if(broken: bool, message: str) -> tuple[str, ...]:  # noqa: FBT001 - the condition itself
    """Return one message, or none."""
    return (message,) if broken else ()


def combined(outcomes: Iterable[Outcome]) -> Outcome:
    """Return one outcome: all messages, every missing fact once; None when nothing was judged."""
    judged = [each for each in outcomes if each is not None]
    if not judged:
        return None
    messages = tuple(
        message
        for each in judged
        for message in (each.messages if isinstance(each, Partial) else each)
    )
    missing = dict.fromkeys(
        path for each in judged if isinstance(each, Partial) for path in each.missing
    )
    return Partial(messages=messages, missing=tuple(missing)) if missing else messages


def of_each_domain(
    check: Callable[[DomainFacts], Outcome],
) -> Callable[[StackFacts], Outcome]:
    """Return a check of all domains from one of a single domain."""

    def check_all(facts: StackFacts) -> Outcome:
        return combined(check(domain) for domain in facts.domains or ())

    return check_all


def of_unread_domains(facts: StackFacts) -> Outcome:
    """Return that the facts of domains that could not be read are missing; None: there are none."""
    return lacking(*facts.unread_domains) if facts.unread_domains else None


def listed(numbers: Iterable[int]) -> str:
    """Return numbers in order, as a list in a sentence."""
    return ", ".join(map(str, sorted(numbers)))


Check = Callable[[StackFacts], Outcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule, as data with one function.

    Attributes:
        code: Stable id such as ``KVM001``.
        layers: That it joins: ``hypervisor``, ``kvm``, ``linux``, ``kubernetes``, ``postgres``,
            ``redis``, ``storage``, ``bench``.
        title: What holds where all is well.
        why: What happens where it does not.
        detect: From what it is seen.
        remedy: The way out.
        source: Where the rule comes from.
        needs: Paths of the facts without which it is not applicable.
        check: Returns a sentence of fact per violation, none when it holds; None when there is
            nothing to judge; an ``outcomes.Partial`` when it lacked facts that ``needs`` cannot
            name, such as those of one domain.
    """

    code: str
    layers: tuple[str, ...]
    severity: Severity
    title: str
    why: str
    detect: str
    remedy: str
    source: str
    needs: tuple[str, ...]
    check: Check


_DOMAINS: Final = "domains"


def judge_by(rule: Rule, facts: StackFacts) -> JudgedRule:
    """Return what comes of one rule."""
    outcome = _outcome(rule, facts)
    if _DOMAINS in rule.needs and facts.domains is not None:
        outcome = combined((outcome, of_unread_domains(facts)))
    found = outcome if isinstance(outcome, Partial) else Partial(messages=outcome or ())
    return JudgedRule(
        code=rule.code,
        layers=rule.layers,
        severity=rule.severity,
        title=rule.title,
        state=_state(outcome, found),
        messages=found.messages,
        missing=tuple(f"{path}: {_reason(facts, path)}" for path in found.missing),
        why=rule.why,
        remedy=rule.remedy,
        source=rule.source,
    )


def _outcome(rule: Rule, facts: StackFacts) -> Outcome:
    """Return what the check says; that facts are missing where it cannot be asked."""
    missing = tuple(path for path in rule.needs if _value(facts, path) is None)
    return Partial(missing=missing) if missing else rule.check(facts)


def _state(outcome: Outcome, found: Partial) -> State:
    if found.messages:
        return State.VIOLATED
    return State.NOT_APPLICABLE if outcome is None or found.missing else State.HOLDS


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


Subject = TypeVar("Subject")
_GUARANTEED: Final = "Guaranteed"
_OFF: Final = frozenset({"off", "false", "no", "0"})
# Unit in which the server takes a bare number, and the default; PostgreSQL 15 to 18 agree in them.
_SIZES: Final[Mapping[str, tuple[str, int]]] = {
    "shared_buffers": ("8kB", 128 * MIB),
    "wal_buffers": ("8kB", -8 * KIB),
    "work_mem": ("kB", 4 * MIB),
    "maintenance_work_mem": ("kB", 64 * MIB),
    "max_wal_size": ("MB", 1024 * MIB),
    "huge_page_size": ("kB", 0),  # the kernel's default
}
_UNIT_BYTES: Final = {"8kB": 8 * KIB, "kB": KIB, "MB": MIB}


def of_each(subjects: Iterable[Subject], check: Callable[[Subject], Outcome]) -> Outcome:
    """Return one outcome of all subjects; None where the check applies to none of them."""
    return combined(check(subject) for subject in subjects)


def database_pods(facts: StackFacts) -> tuple[PodFacts, ...]:
    """Return the pods that PostgreSQL runs in."""
    pods = facts.kubernetes.pods if facts.kubernetes is not None else None
    return tuple(pod for pod in pods or () if pod.database)


def amount(resources: Mapping[str, str], name: str) -> Fraction | None:
    """Return how much of a resource there is; None where it is absent or no quantity."""
    try:
        return parse_quantity(resources[name]) if name in resources else None
    except InputError:
        return None


def bytes_of(resources: Mapping[str, str], name: str) -> int | None:
    """Return the bytes of a resource; None where it is absent or no quantity."""
    try:
        return parse_quantity_bytes(resources[name]) if name in resources else None
    except InputError:
        return None


def huge_pages_of(pod: PodFacts) -> dict[int, int]:
    """Return the bytes of huge pages that a pod may use, by page size; malformed ones left out."""
    sizes = {name: size for name in pod.limits if (size := page_bytes_of(name)) is not None}
    found = {size: bytes_of(pod.limits, name) for name, size in sizes.items()}
    return {size: count for size, count in found.items() if count is not None}


def is_guaranteed(pod: PodFacts) -> bool:
    """Return whether requests equal limits in CPU and memory; an absent request is its limit.

    What the cluster says counts: it looks at each container, also those that ended before.
    """
    if pod.qos_class is not None:
        return pod.qos_class == _GUARANTEED
    for name in ("cpu", "memory"):
        limit = amount(pod.limits, name)
        if limit is None or limit != amount({name: pod.limits[name], **pod.requests}, name):
            return False
    return True


def whole_cpus(pod: PodFacts) -> int | None:
    """Return the CPUs of a pod that may have them exclusively; None where it may not."""
    limit = amount(pod.limits, "cpu")
    if limit is None or limit.denominator != 1 or not is_guaranteed(pod):
        return None
    return int(limit)


def memory_of_database(facts: StackFacts) -> int | None:
    """Return the memory that the database may use, huge pages included.

    That of its pod, else of the machine; None where neither is known.
    """
    for pod in database_pods(facts):
        memory_bytes = bytes_of(pod.limits, "memory")
        if memory_bytes is not None:
            return memory_bytes + sum(huge_pages_of(pod).values())
    return facts.linux.memory_bytes if facts.linux is not None else None


def cpus_of_database(facts: StackFacts) -> float | None:
    """Return the CPUs that the database may use: those of its pod, else of the machine."""
    for pod in database_pods(facts):
        limit = amount(pod.limits, "cpu")
        if limit is not None:
            return float(limit)
    if facts.linux is None:
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
    value = in_unit(written, unit) if written is not None else None
    return None if value is None else int(value * each_bytes)


def number_of(facts: StackFacts, name: str, default: float) -> float | None:
    """Return a setting that is a plain number; None where nobody saw it or it is none."""
    written = setting(facts, name, str(default))
    return in_unit(written, None) if written is not None else None


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
