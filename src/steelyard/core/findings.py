"""Verdicts, estimates with their intervals, findings, and what a rule is.

A finding is something the user should know, as data, with evidence and remedy. A rule turns facts
into a ruling, with everything that explains it as data. A fact that is missing makes a rule not
applicable; it never passes for want of a fact.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Generic, TypeVar

from steelyard.core.target import EngineName


class Verdict(StrEnum):
    """What can be said of a configuration against the baseline (METHOD.md 3.6)."""

    FASTER = "faster"
    SLOWER = "slower"
    EQUIVALENT = "equivalent"
    NO_CLEAR_DIFFERENCE = "no clear difference"

    @property
    def decided(self) -> bool:
        """Return whether the question is answered."""
        return self is not Verdict.NO_CLEAR_DIFFERENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A value with its interval, in the unit its owner states.

    Attributes:
        low: Lower bound, or None when there are too few blocks for one.
        high: Upper bound, or None likewise.
    """

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def leaves_out_zero(self) -> bool:
        """Return whether both bounds are known and on one side of zero."""
        if self.low is None or self.high is None:
            return False
        return self.low > 0.0 or self.high < 0.0


class Severity(StrEnum):
    """How much a finding weighs."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Validity(StrEnum):
    """Whether a run may be believed."""

    VALID = "valid"
    SUSPECT = "suspect"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something the user should know.

    Attributes:
        code: Stable kebab-case name of the rule.
        message: The fact, with the measured value and its unit.
        remedy: The way out, or why none is needed.
        source: Where the rule comes from.
        subject: What it is about (a configuration, a cell, the campaign), for grouping.
    """

    code: str
    severity: Severity
    message: str
    remedy: str = ""
    source: str = ""
    subject: str = ""


NEIGHBOUR_CPU: Final = "neighbour-cpu"
STEAL: Final = "steal"
FOREIGN_DISK: Final = "foreign-disk"
GENERATOR_SATURATED: Final = "generator-saturated"
# Causes that come and go with the surroundings of the machine: redone within limits, then borne.
ENVIRONMENT: Final = frozenset({NEIGHBOUR_CPU, STEAL, FOREIGN_DISK})
BESIDE_NEIGHBOUR: Final = "measured-beside-neighbour"  # what a campaign tells of them
NOT_JUDGED: Final = "not-judged"

Facts = TypeVar("Facts")


class Judges(StrEnum):
    """What a rule looks at as a whole."""

    RUN = "run"
    CONFIGURATION = "configuration"
    COMPARISON = "comparison"
    CAMPAIGN = "campaign"


class State(StrEnum):
    """What a rule says of the facts."""

    HOLDS = "holds"
    VIOLATED = "violated"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """A number that a rule compares with.

    Attributes:
        shown: The number with its unit and what it is a share or number of.
        reason: Why this value; says "a guess" where nothing was measured.
    """

    value: float
    shown: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What a rule says of some facts.

    Attributes:
        message: The fact with the measured value, where it is violated.
        missing: The fact that would have been needed; empty when the rule has nothing to judge.
        subject: What it is about, for the finding.
        remedy: In place of the rule's own; empty keeps that.
        severity: Likewise; None keeps the rule's.
    """

    state: State
    message: str = ""
    missing: str = ""
    subject: str = ""
    remedy: str = ""
    severity: Severity | None = None


KEPT: Final = Ruling(state=State.HOLDS)
NOTHING_TO_JUDGE: Final = Ruling(state=State.NOT_APPLICABLE)


def lacking(fact: str) -> Ruling:
    """Return that a rule cannot judge without a fact."""
    return Ruling(state=State.NOT_APPLICABLE, missing=fact)


def broken(message: str, *, subject: str = "", remedy: str = "") -> Ruling:
    """Return that the facts violate a rule."""
    return Ruling(state=State.VIOLATED, message=message, subject=subject, remedy=remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Generic[Facts]):
    """One rule, as data with one function, and all that its page in the documentation says.

    Attributes:
        code: Stable id.
        severity: Of what it finds.
        why: What goes wrong when it is violated.
        remedy: The way out.
        source: Where the rule comes from.
        judge: Gives a ruling for each thing that it looks at; none when there is nothing to judge.
    """

    code: str
    severity: Severity
    why: str
    remedy: str
    source: str
    judge: Callable[[Facts], Iterable[Ruling]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidityRule(Rule[Facts]):
    """A rule of what was measured; of a run an error makes it invalid, a warning suspect.

    Attributes:
        what: When it is violated, in one sentence.
        thresholds: Numbers in it, if any.
        engine: Whose servers it judges; None: all.
    """

    judges: Judges
    what: str
    thresholds: tuple[Threshold, ...] = ()
    engine: EngineName | None = None

    def concerns(self, engine: EngineName) -> bool:
        """Return whether it judges servers of an engine."""
        return self.engine in (None, engine)

    def finding(self, ruling: Ruling) -> Finding:
        """Return the finding of a ruling that it is violated."""
        return Finding(
            code=self.code,
            severity=ruling.severity or self.severity,
            message=ruling.message,
            remedy=ruling.remedy or self.remedy,
            source=self.source,
            subject=ruling.subject,
        )

    @property
    def consequence(self) -> str:
        """Return what it makes of what it judges when it is violated, in one word."""
        if self.judges is not Judges.RUN:
            return "finding"
        words = {Severity.ERROR: "invalid", Severity.WARNING: "suspect"}
        return words.get(self.severity, "finding")


def not_judged(missing: Iterable[tuple[str, str]], subject: str = "") -> tuple[Finding, ...]:
    """Return one finding of all rules that lacked a fact; none when no rule did.

    Args:
        missing: Code of each such rule with what it lacked.
        subject: Of the finding.
    """
    told = "; ".join(dict.fromkeys(f"{code} ({fact})" for code, fact in missing))
    if not told:
        return ()
    finding = Finding(
        code=NOT_JUDGED,
        severity=Severity.INFO,
        message=f"not checked, because a fact is missing: {told}",
        remedy="Nothing to do where the facts cannot be had: docs/validity.md says what a rule"
        " needs.",
        source="docs/validity.md",
        subject=subject,
    )
    return (finding,)
