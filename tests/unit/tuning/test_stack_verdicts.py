"""What the rules make of the published stack and of the recommended one."""

from collections import Counter

from steelyard.core.findings import Severity, State
from steelyard.core.stack import StackFacts
from steelyard.tuning.rules.catalogue import judge
from support.recorded_stacks import published, recommended

ERRORS = {"KVM001": 1, "KVM003": 2, "BEN001": 1, "BEN002": 1, "BEN004": 1}
WARNINGS = {
    "KVM005": 1,
    "KVM006": 2,
    "KVM008": 1,
    "KVM009": 1,
    "KVM011": 1,
    "KVM013": 1,
    "OS002": 1,
    "OS012": 1,
    "K8S004": 1,
    "K8S014": 1,
    "CNPG002": 1,
    "PG003": 1,
    "PG004": 1,
    "PG007": 1,
    "RED004": 2,
    "BEN003": 1,
    "BEN005": 1,
}


def violations(facts: StackFacts, severity: Severity) -> Counter[str]:
    """Return how often each rule of a severity is violated."""
    return Counter(
        found.code
        for found in judge(facts)
        if found.state is State.VIOLATED and found.severity is severity
        for _ in found.messages
    )


def test_the_published_stack_has_its_six_errors() -> None:
    """They are found by the rules, from the facts as printed and the guesses marked as such."""
    assert violations(published(), Severity.ERROR) == ERRORS
    assert sum(ERRORS.values()) == 6


def test_the_published_stack_has_at_least_its_nineteen_warnings() -> None:
    """Rules that come later may find more."""
    assert violations(published(), Severity.WARNING) >= Counter(WARNINGS)
    assert sum(WARNINGS.values()) == 19


def test_the_recommended_stack_has_neither() -> None:
    """No rule asks for what another forbids."""
    assert not violations(recommended(), Severity.ERROR)
    assert not violations(recommended(), Severity.WARNING)


def test_most_rules_apply_to_the_recommended_stack() -> None:
    """It is clean because rules hold, not because they lack facts."""
    states = Counter(found.state for found in judge(recommended()))
    assert states[State.HOLDS] > 3 * states[State.NOT_APPLICABLE]
