"""The page docs/validity.md, made from the rules themselves.

``PYTHONPATH=tests python -m support.validity_page`` writes it anew.
"""

from collections.abc import Iterator
from pathlib import Path
from textwrap import fill
from typing import Any

from steelyard.answers.validity.work_rules import CAMPAIGN_RULES
from steelyard.campaign.evidence.run_rules import RUN_RULES
from steelyard.core.findings import ENVIRONMENT, Rule
from steelyard.core.target import EngineName

PAGE = Path(__file__).parents[2] / "docs" / "validity.md"
ALL_RULES: tuple[Rule[Any], ...] = (*RUN_RULES, *CAMPAIGN_RULES)
_WIDTH = 118

_ENGINES = {EngineName.POSTGRES: "PostgreSQL", EngineName.REDIS: "Redis"}
_HEAD = Path(__file__).with_name("validity_head.md")


def text() -> str:
    """Return the page."""
    rows = "".join(
        f"| [`{rule.code}`](#{rule.code}) | {rule.judges} | {_consequence(rule)} |\n"
        for rule in ALL_RULES
    )
    entries = "".join(entry for rule in ALL_RULES for entry in _entry(rule))
    return _HEAD.read_text("utf-8") + rows + entries


def _consequence(rule: Rule[Any]) -> str:
    limited = ", redone within limits" if rule.code in ENVIRONMENT else ""
    severity = f" ({rule.severity})" if rule.consequence == "finding" else ""
    return f"{rule.consequence}{severity}{limited}"


def _entry(rule: Rule[Any]) -> Iterator[str]:
    yield f"\n## {rule.code}\n\n{_paragraph(rule.what)}"
    yield _item("Makes it", f"{_consequence(rule)}; judges a {rule.judges}.")
    if rule.engine is not None:
        yield _item("Only for", f"{_ENGINES[rule.engine]}.")
    yield _item("Why", rule.why)
    for threshold in rule.thresholds:
        yield _item("Threshold", f"{threshold.shown}. Reason: {threshold.reason}.")
    yield _item("Remedy", rule.remedy)
    yield _item("Source", f"{rule.source}.")


def _paragraph(words: str) -> str:
    return fill(words, _WIDTH, break_on_hyphens=False, break_long_words=False) + "\n\n"


def _item(name: str, words: str) -> str:
    return (
        fill(
            f"- **{name}**: {words}",
            _WIDTH,
            subsequent_indent="  ",
            break_on_hyphens=False,
            break_long_words=False,
        )
        + "\n"
    )


if __name__ == "__main__":
    PAGE.write_text(text(), "utf-8")
