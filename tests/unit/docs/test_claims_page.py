"""docs/claims.md is made from the registry of checks and the columns that are read."""

import os
from pathlib import Path

from steelyard.answers.claims.claim_checks import COMPARISON_CHECKS
from steelyard.answers.claims.figure_checks import FIGURE_CHECKS
from steelyard.answers.claims.grounds import Check
from steelyard.answers.claims.table_checks import TABLE_CHECKS
from steelyard.answers.claims.tables import COLUMNS

PAGE = Path(__file__).parents[3] / "docs" / "claims.md"
BEGIN, END = "<!-- made from the program -->", "<!-- up to here -->"


def _made() -> str:
    lines = ["", "### Rules for claims", "", *_rules((*COMPARISON_CHECKS, *FIGURE_CHECKS))]
    lines += ["", "### Rules for tables", "", *_rules(TABLE_CHECKS), "", "### Columns", ""]
    lines += ["| column | also called | what it holds |", "|---|---|---|"]
    for column in COLUMNS:
        also = ", ".join(f"`{name}`" for name in column.also)
        lines.append(f"| `{column.name}` | {also} | {column.meaning} |")
    return "\n".join([*lines, ""])


def _rules(checks: tuple[Check, ...]) -> list[str]:
    rows = [f"| `{each.id}` | {each.needs} | {each.finds} |" for each in checks]
    return ["| rule | needs | finds |", "|---|---|---|", *rows]


def test_the_page_is_what_the_program_does() -> None:
    """Every rule and every column, in the order of the program, and no other."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    written, _, after = rest.partition(END)
    made = f"\n{_made()}\n"
    if os.environ.get("STEELYARD_UPDATE_GOLDEN") == "1":
        PAGE.write_text(f"{before}{BEGIN}{made}{END}{after}")
        written = made
    assert written == made
