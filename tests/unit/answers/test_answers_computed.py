"""A registered answer brings its computing along: one line, and no other file changes."""

import numpy as np
import pytest
from made_records import a_record, an_experiment

from steelyard.answers import report
from steelyard.answers.campaign import analyse
from steelyard.answers.report import summary
from steelyard.answers.results import CampaignAnalysis, Grounds
from steelyard.core.campaign import CampaignRecord
from steelyard.core.findings import Finding, Severity
from steelyard.report.document import Column, Paragraph, Row, Section, Shown, Table
from steelyard.report.html import render_markdown
from steelyard.report.terminal import render_terminal


def fastest_run(grounds: Grounds) -> str:
    """Return whose run was the fastest of all."""
    runs = grounds.record.counted_runs
    return max((run.measurement.tps, run.configuration) for run in runs if run.measurement)[1]


def shouted(grounds: Grounds) -> str:
    """Return the same in capitals, from the answer before."""
    return (grounds.analysis.answer(fastest_run) or "").upper()


def _section(analysis: CampaignAnalysis) -> tuple[Section, ...]:
    text = f"The fastest run was one of {analysis.answer(fastest_run)}."
    return (Section(anchor="fastest", title="The fastest run", blocks=(Paragraph(text=text),)),)


def _record() -> CampaignRecord:
    log_tps = np.zeros((8, 2, 1))
    log_tps[:, 1] = 0.5
    return a_record(log_tps, an_experiment(loads=1))


def test_an_answer_computes_from_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its line is all: what it computes is in the analysis, the report and the summary."""
    new = report.Answer(
        compute=fastest_run,
        sections=_section,
        json=lambda analysis: {"fastest": analysis.answer(fastest_run)},
    )
    monkeypatch.setattr(report, "ANSWERS", (*report.ANSWERS, new))
    analysis = analyse(_record())
    assert analysis.answer(fastest_run) == "t1"
    assert summary(analysis)["fastest"] == "t1"
    assert "The fastest run was one of t1." in render_markdown(report.build_document(analysis))


def test_an_answer_may_rest_on_those_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are computed in their order; an interim result computes none of them."""
    lines = (report.Answer(compute=fastest_run), report.Answer(compute=shouted))
    monkeypatch.setattr(report, "ANSWERS", (*report.ANSWERS, *lines))
    assert analyse(_record()).answer(shouted) == "T1"
    assert analyse(_record(), curves=False).answer(shouted) is None


def _noted(grounds: Grounds) -> tuple[Finding, ...]:
    """Note whose run was the fastest, or that nobody has looked yet."""
    told = grounds.analysis.answer(fastest_run) or "nobody looked"
    return (Finding(code="fastest-run", severity=Severity.INFO, message=told),)


def test_an_answer_brings_its_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    """They stand with those of all others, in an interim result, too."""
    new = report.Answer(compute=fastest_run, findings=_noted)
    monkeypatch.setattr(report, "ANSWERS", (*report.ANSWERS, new))
    assert [f.message for f in analyse(_record()).findings if f.code == "fastest-run"] == ["t1"]
    early = analyse(_record(), curves=False).findings
    assert [f.message for f in early if f.code == "fastest-run"] == ["nobody looked"]


@pytest.mark.parametrize("shown", Shown)
def test_an_answer_says_what_a_terminal_shows_of_it(
    monkeypatch: pytest.MonkeyPatch, shown: Shown
) -> None:
    """Nothing, its words, its tables or all of it; the whole report has all."""
    table = Table(title="", columns=(Column(name="whose"),), rows=(Row(cells=("one of a table",)),))
    blocks = (Paragraph(text="Read me first."), table, Paragraph(text="One of words."))
    section = Section(anchor="fastest", title="The fastest run", blocks=blocks)
    new = report.Answer(sections=lambda _: (section,), shown=shown)
    monkeypatch.setattr(report, "ANSWERS", (new,))
    document = report.build_document(analyse(_record()))
    text = render_terminal(document)
    assert ("The fastest run" in text) is (shown is not Shown.NOTHING)
    assert ("One of words." in text) is (shown in (Shown.WORDS, Shown.ALL))
    assert ("one of a table" in text) is (shown in (Shown.TABLES, Shown.ALL))
    whole = render_terminal(document, whole=True)
    assert "One of words." in whole
    assert "one of a table" in whole
