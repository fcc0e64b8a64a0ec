"""The screens of ``docs/statements.md`` are those that the program makes of its example."""

import os
import re
from functools import cache

import pytest

from steelyard.answers import gate
from steelyard.answers.campaign import analyse
from steelyard.answers.report import build_document
from steelyard.answers.results import CampaignAnalysis
from steelyard.core.findings import Outcome, parse_condition
from steelyard.core.measurement import StatementPlan
from steelyard.report.terminal import render_terminal
from support import doc_pages
from unit.answers.scripted_records import a_scripted_record

PAGE = doc_pages.ROOT / "docs" / "statements.md"
TRUTH = {"q18": 0.5, **{f"q{number}": -0.08 for number in range(1, 6)}, "same": 0.0, "wild": 0.0}


def plans(node: str) -> list[StatementPlan]:
    """Return the plan of each script; that of q18 has this node."""
    return [
        StatementPlan(
            workload="reports",
            statement=f"SELECT {name}",
            lines=(node if name == "q18" else "Seq Scan on lines",),
            script=f"{name}.sql",
        )
        for name in TRUTH
    ]


@cache
def example() -> CampaignAnalysis:
    """Return the campaign of the page."""
    noise = {**dict.fromkeys(TRUTH, 0.03), "wild": 0.7}
    told = {"t0": plans("GroupAggregate"), "t1": plans("HashAggregate")}
    return analyse(a_scripted_record(TRUTH, noise=noise, plans=told, seed=18))


def mixed() -> str:
    """Return the first screen, from the verdict to the table of scripts."""
    screen = render_terminal(build_document(example()), 100, more="steelyard report DIR")
    verdict = screen[screen.index("reports, t1 vs") :]
    lines, scripts = verdict.split("\n\n", 1)[0], verdict[verdict.index("Scripts ") :]
    return f"{lines}\n\n{scripts[: scripts.index('Plans of the statements')]}".strip()


def judged() -> str:
    """Return the lines of a gate that fail."""
    outcomes = gate.judge(example(), (parse_condition("slower > 10%"),))
    return "\n".join(each.line for each in outcomes if each.outcome is Outcome.FAILED)


@pytest.mark.parametrize(("name", "made"), [("mixed", mixed), ("gate", judged)])
def test_a_screen_is_what_the_program_makes(name: str, made) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001 - one of the two above
    """STEELYARD_UPDATE_GOLDEN=1 writes it anew."""
    text = PAGE.read_text("utf-8")
    place = re.compile(rf"(<!-- screen: {name} -->\n```text\n)(.*?)(```\n)", re.DOTALL)
    shown = f"{made()}\n"
    if os.environ.get("STEELYARD_UPDATE_GOLDEN"):
        PAGE.write_text(place.sub(lambda it: f"{it[1]}{shown}{it[3]}", text), "utf-8")
        text = PAGE.read_text("utf-8")
    found = place.search(text)
    assert found is not None
    assert found[2] == shown
