"""What a rule of the stack is; ``core.stack`` has what judging by it gives.

What a check gives, and how checks of several things become one.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from steelyard.core.findings import Severity
from steelyard.core.stack_facts import DomainFacts, StackFacts


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
