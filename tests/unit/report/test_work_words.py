"""What a report calls the work: by its engine, everywhere, and without a mark that stayed."""

import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from fakes import analyses, curves, latencies, open_loops, reasons, redis_campaigns
from steelyard.answers.reasons.section import Choice, explain_document
from steelyard.answers.report import build_document, summary
from steelyard.answers.results import CampaignAnalysis
from steelyard.core import experiment as work_words
from steelyard.core.schedule import Load
from steelyard.core.target import REDIS_WORDS
from steelyard.report.chart_specs import specification
from steelyard.report.document import Document, Figure, Table, filled
from steelyard.report.html import render_html, render_markdown
from steelyard.report.terminal import render_terminal

_MARKS = re.compile("[\ue000-\uf8ff]")
# What Redis has not; the statement of where a rule comes from may name another's documentation.
_OF_POSTGRES = re.compile(
    r"transaction|\btps\b|pgbench(?!,)|vacuum|checkpoint|\bWAL\b|protocol simple", re.IGNORECASE
)


# Every kind of section is in one of them.
_SCENES: tuple[Callable[[], CampaignAnalysis], ...] = (
    analyses.many_loads,
    reasons.explained,
    latencies.tails,
    open_loops.with_rates,
    curves.scalability,
    redis_campaigns.aof,
)


def _figures(document: Document) -> list[Figure]:
    blocks = [block for section in document.sections for block in section.blocks]
    return [block for block in blocks if isinstance(block, Figure)]


@pytest.mark.slow
@pytest.mark.parametrize("scene", _SCENES, ids=lambda scene: str(scene.__name__))
def test_no_mark_is_left_in_any_report(scene: Callable[[], CampaignAnalysis]) -> None:
    """Markdown, terminal, HTML, charts, reasons and JSON have words where texts had marks."""
    analysis = scene()
    document = build_document(analysis)
    charts = [specification(figure) for figure in _figures(document)]
    explained = render_markdown(explain_document(analysis, Choice()))
    json_text = json.dumps(summary(analysis), ensure_ascii=False)
    pages = [render_markdown(document), render_terminal(document, 100), render_html(document)]
    found = _MARKS.search("\n".join([*pages, *charts, explained, json_text]))
    assert found is None


def test_a_report_of_redis_speaks_of_requests() -> None:
    """Not a word of transactions, their rate, pgbench, vacuum or checkpoints."""
    analysis = redis_campaigns.aof()
    document = build_document(analysis)
    text = render_markdown(document) + render_terminal(document, 100)
    text += "".join(specification(figure) for figure in _figures(document))
    # The name of a column of numbers behind a chart.
    text = re.sub(r'"tps"|tps:Q|datum\.tps', "", text)
    told = [line for line in text.splitlines() if _OF_POSTGRES.search(line)]
    assert not told
    for words in (
        "Requests per second",
        "effect on ops/s",
        "its next request when",
        "| requests |",
    ):
        assert words in text


def _latency_table(analysis: CampaignAnalysis) -> tuple[str, Table]:
    (section,) = [s for s in build_document(analysis).sections if s.anchor == "latency"]
    tables = [block for block in section.blocks if isinstance(block, Table)]
    return render_markdown(build_document(analysis)), tables[0]


def test_latencies_are_labelled_by_what_the_generator_tells() -> None:
    """redis-benchmark's tables are rounded and end at 3 s; pipelines have a label of their own."""
    analysis = redis_campaigns.aof()
    text, table = _latency_table(analysis)
    assert "Counts are exact, and p50, p95 and p99 are within 8 µs or 0.4 %" in text
    assert "first answer of a batch" not in text
    assert "each is within 0.4 % of that of its" not in table.note
    longest = [row.cells[-1] for row in table.rows]
    assert [cell.startswith("at least 3,000") for cell in longest] == [False, True] * 4
    experiment = analysis.experiment
    piped = (*experiment.loads, Load(clients=1, threads=1, pipeline=16))
    text, _ = _latency_table(replace(analysis, experiment=replace(experiment, loads=piped)))
    assert "first answer of a batch" in text


def test_words_fill_their_own_marks() -> None:
    """Every mark has a word of each engine, and what has no mark stays as it is."""
    marks = [getattr(work_words, name) for name in ("ONE", "MANY", "RATE", "SERVER", "GENERATOR")]
    told = filled(" ".join(marks), REDIS_WORDS)
    assert told == "request requests ops/s Redis redis-benchmark"
    assert filled(("tps", 5, None), REDIS_WORDS) == ("tps", 5, None)
