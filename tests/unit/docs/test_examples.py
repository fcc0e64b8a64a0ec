"""The example campaigns: real records from which today's code makes the reports shown."""

import json

import pytest

from steelyard.cli.campaigns import rendered
from steelyard.record.directory import read_campaign
from steelyard.report.document import Table, VerdictCards
from steelyard.report.html import render_summary, table_csv
from steelyard.report.terminal import render_terminal
from support.csv_tables import TEXT_TABLES, flaws, kind_of, strangers
from support.examples import CAMPAIGNS, EXAMPLES, analysis_of, report_of
from support.snapshots import differences

LONGEST_S = 16 * 60  # a quarter of an hour, and the block that had begun
MORE = "steelyard report --full campaigns/one"
# Each block of it makes Clusters and volumes anew, three times.
ON_KUBERNETES, LONGEST_ON_KUBERNETES_S = "published-storage", 2 * 3600


@pytest.fixture(scope="module", params=CAMPAIGNS)
def name(request: pytest.FixtureRequest) -> str:
    """Return an example; all tests of one follow each other, so that it is analysed once."""
    campaign: str = request.param
    return campaign


def test_the_examples_are_there() -> None:
    """The campaigns that the project promises."""
    promised = {"aa", "fitted", "protocol", "versions", "published-matrix"}
    promised |= {"noise", "attribution", "scalability"}
    assert set(CAMPAIGNS) >= promised


def test_the_record_gives_the_report_that_is_shown(name: str) -> None:
    """A journal of an earlier day is still read, and gives the stored report to the byte.

    Figures may differ in the last digits, which depend on the CPU.
    """
    path, analysis = EXAMPLES / name, analysis_of(name)
    assert (path / "report.md").read_text() == rendered(analysis, "markdown")
    stored = json.loads((path / "summary.json").read_text())
    written = json.loads(rendered(analysis, "json"))
    assert differences(stored, written, rel=1e-9) == []


def test_its_tables_are_data(name: str) -> None:
    """A program reads numbers in base units, and finds each row in the summary by its keys.

    Tables that have texts alone are named, with a campaign that has it: none more, none less.
    """
    tables = [
        (kind_of(section, block), block)
        for section in report_of(name).sections
        for block in section.every
        if isinstance(block, Table) and block.rows
    ]
    texts = {kind for kind, table in tables if not table.data}
    assert texts <= {*TEXT_TABLES}
    assert {kind for kind, example in TEXT_TABLES.items() if example == name} <= texts
    for kind, table in tables:
        if table.data:
            assert [*flaws(table_csv(table))] == [], kind
            assert [*strangers(table_csv(table), name)] == [], kind


def test_an_example_takes_at_most_fifteen_minutes(name: str) -> None:
    """Whoever repeats one need not wait longer, a long run and Kubernetes apart."""
    record = read_campaign(EXAMPLES / name)
    long_s = sum(run.measurement.seconds for run in record.sustained if run.measurement is not None)
    longest_s = LONGEST_ON_KUBERNETES_S if name == ON_KUBERNETES else LONGEST_S
    assert record.elapsed_s - long_s <= longest_s
    assert round(long_s) <= LONGEST_S


@pytest.mark.parametrize("width", [60, 100])
def test_an_answer_fits_on_a_screen(name: str, width: int) -> None:
    """At most 40 lines of 100 columns, none wider; the way to the rest is the last."""
    lines = render_terminal(report_of(name), width, more=MORE).splitlines()
    assert len(lines) <= (40 if width == 100 else 54)
    assert all(len(line) <= width for line in lines)
    assert MORE in " ".join(lines[-2:])


def test_a_summary_has_ten_lines(name: str) -> None:
    """Whatever the kind of campaign; no table, and no answer is lost without a count."""
    text = render_summary(report_of(name))
    lines = text.splitlines()
    assert len(lines) <= 10
    assert not [line for line in lines if line.startswith("|")]
    first = [
        block for section in report_of(name).sections if section.first for block in section.blocks
    ]
    for block in first:
        shown = block.rankings or block.cards if isinstance(block, VerdictCards) else ()
        assert text.count("\n- ") >= len(shown)


def test_every_example_has_its_command_in_the_index() -> None:
    """The index names each campaign and the command that repeats it."""
    index = (EXAMPLES / "README.md").read_text()
    for name in CAMPAIGNS:
        assert f"({name}/report.md)" in index
        assert read_campaign(EXAMPLES / name).command in index
