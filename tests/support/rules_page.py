"""The page docs/rules.md, made from the rules themselves.

``PYTHONPATH=tests python -m support.rules_page`` writes it anew.
"""

from collections.abc import Iterator
from pathlib import Path
from textwrap import fill

from steelyard.tuning.rules.catalogue import RULES
from steelyard.tuning.rules.rule import Rule

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"
_HEAD = Path(__file__).with_name("rules_head.md")
_WIDTH = 118


def text() -> str:
    """Return the page."""
    rows = "".join(_row(rule) for rule in RULES)
    entries = "".join(line for rule in RULES for line in _entry(rule))
    return _HEAD.read_text("utf-8") + rows + entries


def _row(rule: Rule) -> str:
    layers = ", ".join(rule.layers)
    return f"| [{rule.code}](#{rule.code.lower()}) | {layers} | {rule.severity} | {rule.title} |\n"


def _entry(rule: Rule) -> Iterator[str]:
    yield f"\n## {rule.code}\n\n{_paragraph(f'{rule.title}.')}\n"
    yield _item("Severity", f"{rule.severity}; layers: {', '.join(rule.layers)}.")
    yield _item("Why", rule.why)
    yield _item("Seen from", rule.detect)
    if rule.needs:
        yield _item("Needs", ", ".join(f"`{path}`" for path in rule.needs))
    yield _item("Remedy", rule.remedy)
    yield _item("Source", rule.source)


def _paragraph(words: str) -> str:
    return fill(_escaped(words), _WIDTH, break_on_hyphens=False, break_long_words=False) + "\n"


def _item(name: str, words: str) -> str:
    return (
        fill(
            f"- **{name}**: {_escaped(_ended(words))}",
            _WIDTH,
            subsequent_indent="  ",
            break_on_hyphens=False,
            break_long_words=False,
        )
        + "\n"
    )


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith(".") else f"{sentence}."


def _escaped(words: str) -> str:
    """Return words in which Markdown sees neither elements nor emphasis."""
    return words.replace("<", "&lt;").replace(">", "&gt;").replace("*", "\\*")


if __name__ == "__main__":
    PAGE.write_text(text(), "utf-8")
