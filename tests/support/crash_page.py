"""The tables of docs/crash-tests.md, made from the tests that were kept beside it.

``PYTHONPATH=tests python -m support.crash_page`` writes them anew, and what is derived in the
kept files, too.
"""

import re
from pathlib import Path

from pydantic import TypeAdapter

from steelyard.answers.crashes import CrashSummary, crash_summaries
from steelyard.cli.campaigns import as_json
from steelyard.cli.crash_testing import crash_content
from steelyard.core.crash import CrashTest
from steelyard.core.redis import Death
from steelyard.core.wording import format_share

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "crash-tests.md"
KEPT = DOCS / "crash-tests"
_MARKED = re.compile(r"(<!-- table: (\S+) (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
_HEAD = (
    "| mode | {deaths} | with a loss | acknowledged | lost writes, median | lost seconds, median"
    " | most | chance of a loss | by its settings it may lose |\n"
    "|---|---:|---:|---:|---:|---:|---:|---:|---|\n"
)


def read_crash_test(text: str) -> CrashTest:
    """Return the test that a ``crash.json`` holds."""
    return TypeAdapter(CrashTest).validate_json(text)


def kept(name: str) -> CrashTest:
    """Return a test by the name of its file."""
    return read_crash_test((KEPT / f"{name}.json").read_text("utf-8"))


def text() -> str:
    """Return the page with the tables that the kept tests give."""

    def table(match: "re.Match[str]") -> str:
        return f"{match[1]}{_table(kept(match[2]), Death(match[3]))}{match[4]}"

    return _MARKED.sub(table, PAGE.read_text("utf-8"))


def tables() -> list[tuple[str, str]]:
    """Return which tests and deaths the page shows."""
    return [(match[2], match[3]) for match in _MARKED.finditer(PAGE.read_text("utf-8"))]


def _table(test: CrashTest, death: Death) -> str:
    found = [each for each in crash_summaries(test) if each.death is death]
    deaths = "cuts" if death is Death.POWER else "kills"
    return _HEAD.format(deaths=deaths) + "".join(_row(each) for each in found)


def _row(each: CrashSummary) -> str:
    lost, back = each.lost, each.lost_s
    cells = (
        f"`{each.mode}`",
        f"{each.crashes}",
        f"{each.losing}",
        f"{each.acknowledged:,.0f}",
        f"{lost.value:,.0f} [{lost.low:,.0f}, {lost.high:,.0f}]",
        f"{back.value:.2f} [{back.low:.2f}, {back.high:.2f}]",
        f"{each.most_lost_s:.2f}",
        f"at most {format_share(each.chance_at_most)}",
        each.promised.words,
    )
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    for path in sorted(KEPT.glob("*.json")):
        test = read_crash_test(path.read_text("utf-8"))
        path.write_text(as_json(crash_content(test)), "utf-8")
    PAGE.write_text(text(), "utf-8")
