"""What a stack is and what is wrong with it: facts by layer, and what the rules say of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from steelyard.model.findings import Severity
from steelyard.model.inspection import JudgedRule, State
from steelyard.model.stack_facts import StackFacts
from steelyard.report.document import (
    Block,
    BulletList,
    Document,
    FindingItem,
    FindingList,
    Paragraph,
    Section,
    Tone,
)
from steelyard.report.formats import count
from steelyard.report.json_values import Json
from steelyard.report.stack_facts import fact_tables

_RANK = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}
_TONE = {Severity.ERROR: Tone.ERROR, Severity.WARNING: Tone.WARNING, Severity.INFO: Tone.PLAIN}
_WORD = {Severity.ERROR: "[ERROR]", Severity.WARNING: "[WARN]", Severity.INFO: "[INFO]"}
_MOST_NAMED = 8  # facts that are missing, in the short form


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """Facts and what was found in them.

    Attributes:
        place: Where the facts were collected, in words.
    """

    place: str
    facts: StackFacts
    judged: tuple[JudgedRule, ...]

    def in_state(self, state: State) -> tuple[JudgedRule, ...]:
        """Return the rules of which this came, in the catalogue's order."""
        return tuple(rule for rule in self.judged if rule.state is state)

    def severities(self) -> tuple[Severity, ...]:
        """Return how grave each violation is; a rule may be violated twice."""
        violated = self.in_state(State.VIOLATED)
        return tuple(rule.severity for rule in violated for _ in rule.messages)


def inspection_document(inspection: Inspection, *, every: bool = False) -> Document:
    """Return the inspection as a document.

    Args:
        inspection: What was found.
        every: Tell of each rule that is not applicable what is missing.
    """
    sections = (
        Section(
            anchor="facts",
            title="What this stack is",
            blocks=fact_tables(inspection.facts),
        ),
        _held(inspection),
        _missing(inspection, every=every),
        _violated(inspection),
    )
    return Document(
        title=f"The stack seen from {inspection.place}",
        subtitle=_summary(inspection),
        sections=tuple(section for section in sections if section is not None),
    )


def _summary(inspection: Inspection) -> str:
    found = inspection.severities()
    held = len(inspection.in_state(State.HOLDS))
    missing = len(inspection.in_state(State.NOT_APPLICABLE))
    return (
        f"{count(found.count(Severity.ERROR), 'error')}, "
        f"{count(found.count(Severity.WARNING), 'warning')}, "
        f"{found.count(Severity.INFO)} for information; "
        f"{count(held, 'rule')} of {len(inspection.judged)} hold, {missing} not applicable"
    )


def _held(inspection: Inspection) -> Section | None:
    held = inspection.in_state(State.HOLDS)
    items = tuple(
        FindingItem(
            severity=f"[OK] {rule.code}",
            tone=Tone.GOOD,
            subject="",
            message=rule.title,
            remedy="",
            source=rule.source,
            code=rule.code,
        )
        for rule in held
    )
    if not items:
        return None
    return Section(anchor="holds", title="What is right", blocks=(FindingList(items=items),))


def _violated(inspection: Inspection) -> Section:
    rules = sorted(inspection.in_state(State.VIOLATED), key=lambda rule: _RANK[rule.severity])
    items = tuple(map(_rule_item, rules))
    block: Block = Paragraph(text="No rule is violated.", tone=Tone.GOOD)
    if not inspection.in_state(State.HOLDS):
        block = Paragraph(text="Nothing was judged: the facts that rules need are missing.")
    if items:
        block = FindingList(items=items)
    return Section(anchor="findings", title="What is wrong", blocks=(block,))


def _rule_item(rule: JudgedRule) -> FindingItem:
    said = [rule.title, *(f"  - {message}" for message in rule.messages)]
    if len(rule.messages) == 1:
        said = [f"{rule.messages[0]} ({rule.title})"]
    return FindingItem(
        severity=f"{_WORD[rule.severity]} {rule.code}",
        tone=_TONE[rule.severity],
        subject="",
        message="\n".join(said),
        remedy=_below(rule.why, rule.remedy, rule.source),
        source=rule.source,
        code=rule.code,
    )


def _below(why: str, remedy: str, source: str) -> str:
    parts = (("Why", why), ("Remedy", remedy), ("Source", source))
    return "\n".join(f"{name}: {text}" for name, text in parts if text)


def _missing(inspection: Inspection, *, every: bool) -> Section | None:
    rules = inspection.in_state(State.NOT_APPLICABLE)
    if not rules:
        return None
    blocks = tuple(_each(rules)) if every else (_folded(rules),)
    return Section(anchor="not-applicable", title="What could not be judged", blocks=blocks)


def _folded(rules: Sequence[JudgedRule]) -> Block:
    """Return the facts that keep most rules from being judged, with the reason."""
    lacking: dict[str, list[str]] = {}
    for rule in rules:
        for missing in rule.missing or ("facts that depend on others: there are none",):
            lacking.setdefault(missing, []).append(rule.code)
    by_number = sorted(lacking.items(), key=lambda each: -len(each[1]))
    items = [f"{fact} ({', '.join(codes)})" for fact, codes in by_number[:_MOST_NAMED]]
    left = len(by_number) - len(items)
    more = (f"and {count(left, 'further fact')}: `--all` names them",) if left > 0 else ()
    lead = f"{count(len(rules), 'rule')} not applicable, which is no pass. Missing:"
    return BulletList(lead=lead, items=(*items, *more))


def _each(rules: Sequence[JudgedRule]) -> Iterator[Block]:
    for rule in rules:
        lacking = rule.missing or ("it depends on facts that are not there",)
        yield BulletList(lead=f"{rule.code}: {rule.title}", items=lacking)


def inspection_json(inspection: Inspection) -> dict[str, Json]:
    """Return what came of the rules for programs; the facts are in the form of a facts file."""
    found = inspection.severities()
    return {
        "counts": {
            **{severity.value: found.count(severity) for severity in Severity},
            "holds": len(inspection.in_state(State.HOLDS)),
            "not_applicable": len(inspection.in_state(State.NOT_APPLICABLE)),
        },
        "rules": [_rule_json(rule) for rule in inspection.judged],
    }


def _rule_json(rule: JudgedRule) -> dict[str, Json]:
    return {
        "code": rule.code,
        "layers": list(rule.layers),
        "severity": rule.severity.value,
        "state": rule.state.value,
        "title": rule.title,
        "messages": list(rule.messages),
        "missing": list(rule.missing),
        "why": rule.why,
        "remedy": rule.remedy,
        "source": rule.source,
    }
