"""The page docs/rules.md, made from the rules of the stack themselves.

``PYTHONPATH=tests python -m support.rule_pages`` writes it anew.
"""

from collections.abc import Iterator
from pathlib import Path
from textwrap import fill

from steelyard.tuning.rules.catalogue import RULES
from steelyard.tuning.rules.rule import StackRule

_DOCS = Path(__file__).parents[2] / "docs"
STACK_PAGE = _DOCS / "rules.md"
_WIDTH = 118


def stack_text() -> str:
    """Return the page of the rules of the stack."""
    rows = (
        f"| [{rule.code}](#{rule.code.lower()}) | {', '.join(rule.layers)} | {rule.severity} |"
        f" {rule.title} |\n"
        for rule in RULES
    )
    head = Path(__file__).with_name("rules_head.md").read_text("utf-8")
    return "".join([head, *rows, *(part for rule in RULES for part in _stack_entry(rule))])


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
    STACK_PAGE.write_text(stack_text(), "utf-8")
