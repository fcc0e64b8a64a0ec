"""Verdicts, estimates with their intervals, facts, findings, rules, and conditions of a gate.

A finding is something the user should know, as data, with evidence and remedy. A rule turns facts
into a ruling, with everything that explains it as data. A fact that is missing makes a rule not
applicable; it never passes for want of a fact.

A condition of a gate says what a whole interval has to lie beyond, so that a pipeline fails. It
asks for one direction and one size: ``slower > 3%``. Nothing else is a condition: an effect on
throughput is the only thing that a campaign's results share their error over.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Final, Generic, TypeVar

from steelyard.core.quantities import EMPTY
from steelyard.core.target import EngineName
from steelyard.core.wording import InputError


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
class Fact:
    """One fact about the machine, server or tools, ready to print."""

    name: str
    value: str
    subject: str = ""


def facts_about(subject: str, values: Mapping[str, object]) -> tuple[Fact, ...]:
    """Return facts by their names; what is empty or None is not known, and none."""
    return tuple(
        Fact(name=name, value=str(value), subject=subject)
        for name, value in values.items()
        if value not in ("", None)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something the user should know.

    Attributes:
        code: In kebab-case.
        message: With the measured value and its unit.
        remedy: Or why none is needed.
        subject: A configuration, a cell, the campaign; for grouping.
    """

    code: Annotated[str, "Stable code of the rule."]
    severity: Annotated[Severity, "error, warning or info."]
    subject: Annotated[str, EMPTY, "The subject."] = ""
    message: Annotated[str, "The fact."]
    remedy: Annotated[str, EMPTY, "The way out."] = ""
    source: Annotated[str, EMPTY, "Source of the rule; may be empty."] = ""


NEIGHBOUR_CPU: Final = "neighbour-cpu"
STEAL: Final = "steal"
FOREIGN_DISK: Final = "foreign-disk"
GENERATOR_SATURATED: Final = "generator-saturated"
# Causes that come and go with the surroundings of the machine: redone within limits, then borne.
ENVIRONMENT: Final = frozenset({NEIGHBOUR_CPU, STEAL, FOREIGN_DISK})
_IN_WORDS: Final = {
    NEIGHBOUR_CPU: "CPU time of other processes",
    STEAL: "CPU time taken by the hypervisor",
    FOREIGN_DISK: "disk use of other processes",
}


BUDGET_TOO_SHORT: Final = "budget-before-first-interim-result"
"""Told by the plan before block 1; once there are too few blocks, these are told."""


def words_of(code: str) -> str:
    """Return what a rule that throws a run away is called in a sentence."""
    return _IN_WORDS.get(code, code.replace("-", " "))


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
    """One rule, as data with one function.

    Attributes:
        code: Stable id.
        severity: Of what it finds.
        remedy: The way out.
        source: Where the rule comes from.
        judge: Gives a ruling for each thing that breaks it or lacks what it needs; for others it
            may.
    """

    code: str
    severity: Severity
    remedy: str
    source: str
    judge: Callable[[Facts], Iterable[Ruling]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidityRule(Rule[Facts]):
    """A rule of what was measured; of a run an error makes it invalid, a warning suspect.

    What it says in full, and why its thresholds are what they are, stands in docs/validity.md.

    Attributes:
        engine: Whose servers it judges; None: all.
    """

    judges: Judges
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


def grouped(found: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings with those of one rule and remedy made one, where the first of them stands.

    What they say alike is said once, with the names of all; what differs stands after each name.
    """
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for each in found:
        groups.setdefault((each.code, each.severity.value, each.remedy), []).append(each)
    return tuple(_merged(alike) for alike in groups.values())


def _merged(alike: Sequence[Finding]) -> Finding:
    if len(alike) == 1:
        return alike[0]
    subjects = [each.subject for each in alike]
    texts = [each.message.removeprefix(f"{each.subject}:").strip() for each in alike]
    if len(set(texts)) == 1:
        *others, last = dict.fromkeys(subjects)
        names = f"{', '.join(others)} and {last}" if others else last
        message = f"{names}: {texts[0]}" if names else texts[0]
        return replace(alike[0], message=message, subject="")
    words = [text.split() for text in texts]
    head, tail = _shared(words), _shared([each[::-1] for each in words])
    if not any(
        character.isdigit() for each in words for character in "".join(each[head : head + 1])
    ):
        head = 0  # a name differs: its sentence is needed to read it
    while tail and words[0][-tail] in _UNITS:  # they stay with their numbers
        tail -= 1
    told = [f"{name}: {text}" if name else text for name, text in zip(subjects, texts, strict=True)]
    for place, each in enumerate(words[1:], start=1):
        own = " ".join(each[head : max(head, len(each) - tail)]).rstrip(",;:")
        own += ")" * (own.count("(") - own.count(")"))
        told[place] = f"{subjects[place]}: {own}" if subjects[place] and own else texts[place]
    return replace(alike[0], message="; likewise ".join((told[0], "; ".join(told[1:]))), subject="")


_UNITS: Final = frozenset({"%", "s", "ms", "KiB", "MiB", "GiB"})


def _shared(texts: Sequence[Sequence[str]]) -> int:
    """Return how many words all texts begin with."""
    together = zip(*texts, strict=False)
    return next((n for n, words in enumerate(together) if len(set(words)) > 1), 0)


_WRITTEN: Final = re.compile(r"\s*(slower|faster)\s*>\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*")
_WAY_OUT: Final = "Write `slower > 3%` or `faster > 1%`: a direction and a size of the effect."
_LATENCY: Final = re.compile(r"\s*(p[0-9]|latency|max\b|mean\b)", re.IGNORECASE)


class Outcome(StrEnum):
    """What a condition makes of one effect."""

    FAILED = "failed"
    PASSED = "passed"
    UNDECIDED = "undecided"


class Direction(StrEnum):
    """Which way an effect has to go for a gate to fail."""

    SLOWER = "slower"
    FASTER = "faster"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Fails a gate where an effect lies wholly beyond a size in one direction.

    Attributes:
        beyond: Relative difference in tps, a size without sign (0.03 = 3 %).
    """

    direction: Direction
    beyond: float

    def __str__(self) -> str:
        """Return it as it is written and read again."""
        return f"{self.direction} > {round(100.0 * self.beyond, 9):g}%"

    def judge(self, effect: Estimate | None) -> Outcome:
        """Return what it makes of an effect: only a whole interval fails or passes.

        Args:
            effect: Relative difference with its interval; without both bounds nothing is decided.
        """
        if effect is None or effect.low is None or effect.high is None:
            return Outcome.UNDECIDED
        near, far = effect.low, effect.high
        if self.direction is Direction.SLOWER:
            near, far = -effect.high, -effect.low
        if near > self.beyond:
            return Outcome.FAILED
        return Outcome.PASSED if far <= self.beyond else Outcome.UNDECIDED


def worst(outcomes: tuple[Outcome, ...]) -> Outcome:
    """Return what several outcomes come to: one that failed fails all, else one undecided."""
    for outcome in (Outcome.FAILED, Outcome.UNDECIDED):
        if outcome in outcomes:
            return outcome
    return Outcome.PASSED


def parse_condition(text: str) -> Condition:
    """Return a condition from ``slower > 3%`` or ``faster > 1%``.

    Raises:
        InputError: The text is neither, or its size cannot be reached.
    """
    match = _WRITTEN.fullmatch(text)
    if match is None:
        of_latency = ""
        if _LATENCY.match(text):
            of_latency = (
                " Intervals of latencies stand alone and do not share the campaign's error, so no"
                " gate rests on them."
            )
        raise InputError(f"`{text}` is no condition", hint=f"{_WAY_OUT}{of_latency}")
    direction, percent = Direction(match[1]), float(match[2])
    if direction is Direction.SLOWER and percent >= 100.0:
        raise InputError(
            f"`{text}` can never be so: nothing is slower by 100 % or more", hint=_WAY_OUT
        )
    return Condition(direction=direction, beyond=percent / 100.0)
