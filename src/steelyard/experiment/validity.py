"""Whether a run may be believed: only causes from outside the treatments make it invalid."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from steelyard.experiment.run_facts import RunFacts
from steelyard.experiment.run_rules import RUN_RULES
from steelyard.model.findings import Finding, Severity, Validity
from steelyard.model.rules import ENVIRONMENT, Rule, Standing

_REDONE: Final = "The block is redone in all arms."
_BORNE: Final = (
    "It counts and is suspect: redone as often as is allowed. Quieten the machine for the next"
    " campaign."
)
_ASKED_FOR: Final = "None: `measure.neighbours: ignore` asks for it."


def validity_of(findings: Sequence[Finding]) -> Validity:
    """Return what the findings of a run make of it."""
    severities = {finding.severity for finding in findings}
    if Severity.ERROR in severities:
        return Validity.INVALID
    return Validity.SUSPECT if Severity.WARNING in severities else Validity.VALID


def rule_of(code: str) -> Rule[RunFacts]:
    """Return the rule for runs of that code."""
    return next(rule for rule in RUN_RULES if rule.code == code)


def judge(facts: RunFacts, *, bearing: bool = False) -> tuple[Finding, ...]:
    """Return what the rules find in a run; what they lack is told once for the whole campaign.

    Args:
        facts: Of the run. Of one without a result only why there is none is judged.
        bearing: Count it also beside a neighbour: then it is suspect, not invalid.
    """
    if facts.failure or facts.server_died:
        return _found(rule_of("server-died" if facts.server_died else "generator-failed"), facts)
    return tuple(
        _borne(finding, facts, bearing=bearing)
        for rule in RUN_RULES
        for finding in _found(rule, facts)
    )


def _found(rule: Rule[RunFacts], facts: RunFacts) -> tuple[Finding, ...]:
    rulings = [ruling for ruling in rule.judge(facts) if ruling.standing is Standing.BROKEN]
    return tuple(_told(rule.finding(ruling)) for ruling in rulings)


def _told(finding: Finding) -> Finding:
    """Return a run's finding with what is done about it, where something is."""
    if finding.severity is not Severity.ERROR:
        return finding
    return replace(finding, remedy=f"{_REDONE} {finding.remedy}")


def _borne(finding: Finding, facts: RunFacts, *, bearing: bool) -> Finding:
    """Return a neighbour's finding as it weighs here, every other as it is."""
    if finding.code not in ENVIRONMENT:
        return finding
    if facts.neighbours is None:
        return replace(finding, severity=Severity.INFO, remedy=_ASKED_FOR)
    return replace(finding, severity=Severity.WARNING, remedy=_BORNE) if bearing else finding


def generator_failed(message: str, *, server_died: bool, last_words: str = "") -> Finding:
    """Return the finding that a run has no result."""
    (finding,) = judge(RunFacts(failure=message, server_died=server_died, last_words=last_words))
    return finding


def not_in_force(treatment: str, deviations: tuple[str, ...]) -> Finding | None:
    """Return the finding that a treatment is not what is measured; None when it is."""
    facts = RunFacts(treatment=treatment, deviations=deviations)
    return next(iter(_found(rule_of("not-in-force"), facts)), None)
