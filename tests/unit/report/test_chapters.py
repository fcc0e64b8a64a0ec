"""The seven chapters of a report: what they show, and what is a detail."""

import re
from dataclasses import replace

import pytest

from fakes import analyses, durable, redis_campaigns
from steelyard.answers.campaign import analyse
from steelyard.answers.report import build_document
from steelyard.answers.result.method import command_section
from steelyard.core.experiment import Layer, Setting
from steelyard.core.findings import Verdict
from steelyard.core.measurement import Quantity
from steelyard.core.wording import format_share
from steelyard.report.document import Chapter, Command, Paragraph, Table
from steelyard.report.html import render_html, render_markdown
from support.examples import analysis_of, report_of
from unit.answers.scripted_records import a_scripted_record

LONGEST = 1750  # words of the short form, with all signs that stand alone


def test_a_report_has_seven_chapters_and_is_read_in_minutes() -> None:
    """In their order; the short form has a quarter of the words that all of it has."""
    document = report_of("quick")
    assert [part.title for part in document.parts] == [*Chapter]
    short, whole = (render_markdown(document, short=each) for each in (True, False))
    assert len(short.split()) < min(LONGEST, len(whole.split()) / 3)


@pytest.mark.usefixtures("undrawn")
def test_a_detail_has_a_name_and_is_closed() -> None:
    """On a page it is opened by its name, which short Markdown tells with the way to it."""
    document = report_of("quick")
    page, short = render_html(document), render_markdown(document, short=True)
    detailed = [section for section in document.sections if section.more]
    assert page.count('<details class="more"') == len(detailed)
    for section in detailed:
        assert f"<summary>{section.more_title}</summary>" in page
        assert section.more_title in short
    assert len(set(re.findall(r' id="([^"]+)"', page))) == len(re.findall(r' id="', page))


def test_the_settings_of_what_is_faster_can_be_copied() -> None:
    """As statements, with what they may lose; nothing is copied where nothing is faster."""
    lines = [b.text for b in blocks(report_of("quick"), "command") if isinstance(b, Command)]
    assert lines[1:] == ["ALTER SYSTEM SET shared_buffers = '512MB';"]
    lead, _ = blocks(
        build_document(durable.traded(fitted={"synchronous_commit": "off"})), "command"
    )[2:]
    assert isinstance(lead, Paragraph)
    assert "may lose committed transactions" in lead.text
    assert len(blocks(build_document(analyses.same_twice()), "command")) == 2


def test_what_else_differs_is_named_beside_the_settings_to_copy() -> None:
    """A setting that the baseline alone has, another layer and another protocol."""
    analysis = analyses.quick()
    base, fitted = analysis.experiment.configurations
    jit = Setting(layer=Layer.POSTGRES, name="jit", value="off")
    swap = Setting(layer=Layer.LINUX, name="vm.swappiness", value="1")
    none = Setting(layer=Layer.POSTGRES, name="session_preload_libraries", value="")
    sides = (
        replace(base, settings=(*base.settings, jit)),
        replace(fitted, settings=(*fitted.settings, swap, none), protocol="extended"),
    )
    experiment = replace(analysis.experiment, configurations=sides)
    *_, lead, lines = command_section(replace(analysis, experiment=experiment)).blocks
    assert isinstance(lead, Paragraph)
    assert isinstance(lines, Command)
    assert lead.text.endswith(
        ", without jit, with linux: vm.swappiness = 1, with another protocol:"
    )
    assert "jit" not in lines.text
    assert "-- in postgresql.conf: session_preload_libraries = ''" in lines.text.splitlines()


@pytest.mark.parametrize("how", ["load", "scripts"])
def test_what_is_slower_at_one_load_or_with_one_script_is_not_copied(how: str) -> None:
    """Faster on average is not faster wherever somebody might copy the settings to."""
    analysis = analysis_of("quick")
    (mixed,) = analyse(a_scripted_record({"q1": 0.45, "q2": -0.7, "q3": -0.7})).results
    at = next(place for place, each in enumerate(analysis.comparisons) if each.load)
    changed = [*analysis.comparisons]
    if how == "load":
        changed[at] = replace(changed[at], verdict=Verdict.SLOWER)
    else:
        changed = [replace(each, scripts=mixed.scripts) for each in changed]
    without = replace(analysis, comparisons=tuple(changed))
    shown, hidden = (command_section(each).blocks for each in (analysis, without))
    assert [isinstance(each, Command) for each in shown].count(True) == 2
    assert [isinstance(each, Command) for each in hidden].count(True) == 1


def test_settings_of_redis_are_quoted_where_they_need_it() -> None:
    """An empty text, several words: one value; what a running server refuses is for its file."""
    analysis = redis_campaigns.aof()
    slower, *_ = analysis.results
    won = tuple(replace(each, verdict=Verdict.FASTER) for each in analysis.comparisons)
    own = ("save", "3600 1"), ("io-threads", "4"), ("requirepass", "")
    settings = tuple(Setting(layer=Layer.REDIS, name=name, value=value) for name, value in own)
    sides = tuple(
        replace(each, settings=settings) if each.name == slower.configuration else each
        for each in analysis.experiment.configurations
    )
    experiment = replace(analysis.experiment, configurations=sides)
    changed = replace(analysis, experiment=experiment, comparisons=won)
    *_, lines, _, for_file = command_section(changed).blocks
    assert isinstance(lines, Command)
    assert isinstance(for_file, Command)
    assert lines.text.splitlines() == ['CONFIG SET save "3600 1"', 'CONFIG SET requirepass ""']
    assert for_file.text == "io-threads 4"


def test_servers_are_known_by_their_counters() -> None:
    """Hits, WAL, temporary files, checkpoints and deadlocks: sums of the runs of a cell."""
    (table,) = (
        block
        for block in blocks(report_of("quick"), "costs")
        if isinstance(block, Table) and block.title == "What the servers counted"
    )
    runs = [
        run.evidence
        for run in analysis_of("quick").runs
        if (run.configuration, run.cell.workload) == ("small", "reads")
    ]
    hit, read, wal = (
        sum(run.total(quantity) for run in runs)
        for quantity in (Quantity.PAGES_HIT, Quantity.PAGES_READ, Quantity.WAL_BYTES)
    )
    seconds = sum(run.seconds for run in runs)
    row = dict(table.data[0])
    assert row["buffer_hits_percent"] == pytest.approx(100 * hit / (hit + read))
    assert row["wal_bytes_per_s"] == pytest.approx(wal / seconds)
    assert table.rows[0].texts[3] == format_share(hit / (hit + read))


def blocks(document, anchor):  # noqa: ANN001, ANN201 - of a section
    """Return the blocks of a section."""
    return next(each.blocks for each in document.sections if each.anchor == anchor)
