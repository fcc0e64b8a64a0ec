"""The pages docs/validity.md and docs/rules.md, made from the rules themselves.

``PYTHONPATH=tests python -m support.rule_pages`` writes both anew.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from textwrap import fill
from typing import Any

from steelyard.answers.validity.work_rules import CAMPAIGN_RULES
from steelyard.campaign.evidence.run_rules import RUN_RULES
from steelyard.core.findings import ENVIRONMENT, Judges, Severity, ValidityRule
from steelyard.core.target import EngineName
from steelyard.tuning.rules.catalogue import RULES
from steelyard.tuning.rules.rule import StackRule

VALIDITY_RULES: tuple[ValidityRule[Any], ...] = (*RUN_RULES, *CAMPAIGN_RULES)
_DOCS = Path(__file__).parents[2] / "docs"
VALIDITY_PAGE, STACK_PAGE = _DOCS / "validity.md", _DOCS / "rules.md"
_WIDTH = 118
_ENGINES = {EngineName.POSTGRES: "PostgreSQL", EngineName.REDIS: "Redis"}


def validity_text() -> str:
    """Return the page of the rules of what was measured."""
    rows = (
        f"| [`{rule.code}`](#{rule.code}) | {rule.judges} | {_consequence(rule)} |\n"
        for rule in VALIDITY_RULES
    )
    return _page("validity_head.md", rows, map(_validity_entry, VALIDITY_RULES))


def stack_text() -> str:
    """Return the page of the rules of the stack."""
    rows = (
        f"| [{rule.code}](#{rule.code.lower()}) | {', '.join(rule.layers)} | {rule.severity} |"
        f" {rule.title} |\n"
        for rule in RULES
    )
    return _page("rules_head.md", rows, map(_stack_entry, RULES))


def _page(head: str, rows: Iterable[str], entries: Iterable[Iterator[str]]) -> str:
    begun = Path(__file__).with_name(head).read_text("utf-8")
    return begun + "".join(rows) + "".join(part for entry in entries for part in entry)


def _consequence(rule: ValidityRule[Any]) -> str:
    limited = ", redone within limits; in turns noted only" if rule.code in ENVIRONMENT else ""
    words = {Severity.ERROR: "invalid", Severity.WARNING: "suspect"}
    made = words.get(rule.severity) if rule.judges is Judges.RUN else None
    return f"{made or f'finding ({rule.severity})'}{limited}"


def _validity_entry(rule: ValidityRule[Any]) -> Iterator[str]:
    yield f"\n## {rule.code}\n\n{_filled(rule.what)}\n"
    yield _item("Makes it", f"{_consequence(rule)}; judges a {rule.judges}.")
    if rule.engine is not None:
        yield _item("Only for", _ENGINES[rule.engine])
    yield _item("Why", rule.why)
    for threshold in rule.thresholds:
        yield _item("Threshold", f"{threshold.shown}. Reason: {threshold.reason}")
    yield _item("Remedy", rule.remedy)
    yield _item("Source", rule.source)


def _stack_entry(rule: StackRule) -> Iterator[str]:
    yield f"\n## {rule.code}\n\n{_filled(_escaped(_ended(rule.title)))}\n"
    yield _item("Severity", f"{rule.severity}; layers: {', '.join(rule.layers)}.")
    yield _item("Why", _escaped(rule.why))
    yield _item("Seen from", _escaped(rule.detect))
    if rule.needs:
        yield _item("Needs", ", ".join(f"`{path}`" for path in rule.needs))
    yield _item("Remedy", _escaped(rule.remedy))
    yield _item("Source", _escaped(rule.source))


def _item(name: str, words: str) -> str:
    return _filled(f"- **{name}**: {_ended(words)}", indent="  ")


def _filled(words: str, indent: str = "") -> str:
    filled = fill(
        words, _WIDTH, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )
    return f"{filled}\n"


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith(".") else f"{sentence}."


def _escaped(words: str) -> str:
    """Return words in which Markdown sees neither elements nor emphasis."""
    return words.replace("<", "&lt;").replace(">", "&gt;").replace("*", "\\*")


if __name__ == "__main__":
    VALIDITY_PAGE.write_text(validity_text(), "utf-8")
    STACK_PAGE.write_text(stack_text(), "utf-8")
