"""What a rule of the stack is; ``model.inspection`` has what judging by it gives."""

from collections.abc import Callable
from dataclasses import dataclass

from steelyard.model.findings import Severity
from steelyard.model.stack_facts import StackFacts
from steelyard.tuning.rules.outcomes import Outcome

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
