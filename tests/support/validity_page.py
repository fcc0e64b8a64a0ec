"""The page docs/validity.md, made from the rules themselves.

``PYTHONPATH=tests python -m support.validity_page`` writes it anew.
"""

from collections.abc import Iterator
from pathlib import Path
from textwrap import fill
from typing import Any

from steelyard.analysis.judging.campaign_rules import CAMPAIGN_RULES
from steelyard.experiment.run_rules import RUN_RULES
from steelyard.model.rules import ENVIRONMENT, Rule

PAGE = Path(__file__).parents[2] / "docs" / "validity.md"
ALL_RULES: tuple[Rule[Any], ...] = (*RUN_RULES, *CAMPAIGN_RULES)
_WIDTH = 118

_HEAD = """\
# Validity

When a run may be believed, and what a campaign must be told beside its verdicts. This page is made from the rules in
the code; a test compares the two.

**Only what comes from outside the treatments makes a run invalid.** Then its whole block is redone, in all
treatments. What a treatment brings about itself is a **finding** and stays in: throwing it away would hide the effect
that is asked for. A **suspect** run stays in, too, with its reason.

A fact that was not measured makes a rule *not applicable*. No rule passes for want of a fact; the finding
`not-judged` says which rules could not be applied, and what they lacked. Thresholds that nothing but experience
stands behind are called guesses.

## When a block is redone, and when not any more

A cause like a dead server or a generator that fails ends the campaign when it comes three times in a row (exit
code 5): it is not going to pass by itself. A neighbour ({environment}) comes and goes. Its blocks are redone too, but
within limits: at most twice each, and in the whole campaign at most twice and a quarter of its complete blocks. After
that a block counts as it is; its runs are suspect, and the finding `measured-beside-neighbour` says how many blocks
that are. Otherwise a machine that is never quiet would spend its budget on blocks that are thrown away.

Whether a block is redone depends on the neighbour alone: on the share that others used in a run, and on how many tries
were lost to that before. It never depends on what a run gave, nor on the treatment that ran. Exchanging the labels of
two equal treatments would change nothing about what is kept, so the coin still decides the sign of every block, and
the interval keeps its level. Simulated with a neighbour that comes and goes and slows whichever run it meets, equal
treatments are called different in at most 5 % of campaigns within chance, as without one. A rule that redoes only the
blocks in which one of the arms was met fails the same test by far (`tests/method/test_redone_blocks.py`).

With real effects a bias is left where a treatment decides how much of a neighbour is seen: steal is seen only by those
who ask for CPU time. Where redone blocks fall under one treatment alone, the finding `blocks-redone` says so.

`measure.neighbours` is the share of CPU or disk that others may use; `ignore` notes them and redoes nothing.

## All rules

| rule | judges | makes it |
|---|---|---|
"""


def text() -> str:
    """Return the page."""
    rows = "".join(
        f"| [`{rule.code}`](#{rule.code}) | {rule.judges} | {_consequence(rule)} |\n"
        for rule in ALL_RULES
    )
    head = _HEAD.format(environment=", ".join(f"`{code}`" for code in sorted(ENVIRONMENT)))
    return head + rows + "".join(entry for rule in ALL_RULES for entry in _entry(rule))


def _consequence(rule: Rule[Any]) -> str:
    limited = ", redone within limits" if rule.code in ENVIRONMENT else ""
    severity = f" ({rule.severity})" if rule.consequence == "finding" else ""
    return f"{rule.consequence}{severity}{limited}"


def _entry(rule: Rule[Any]) -> Iterator[str]:
    yield f"\n## {rule.code}\n\n{_paragraph(rule.what)}"
    yield _item("Makes it", f"{_consequence(rule)}; judges a {rule.judges}.")
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
