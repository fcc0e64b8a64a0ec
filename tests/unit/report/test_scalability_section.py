"""The section of throughput over clients: its numbers, its chart, and when it is absent."""

import json
import math

import pytest

from fakes import analyses, curves
from steelyard.answers.report import build_document, summary
from steelyard.answers.scalability import scalability_curves, scalability_section
from steelyard.core.target import POSTGRES_WORDS
from steelyard.report.document import BulletList, Figure, Section, Table, filled


@pytest.fixture
def section() -> Section:
    """Return the section of a campaign of two workloads and two configurations."""
    analysis = curves.scalability()
    (section,) = scalability_section(analysis, analysis.answer(scalability_curves) or ())
    return filled(section, POSTGRES_WORDS)


def rows(section: Section) -> dict[tuple[str, str], dict[str, str]]:
    """Return the table's rows by workload and configuration, cells by the name of their column."""
    table = section.blocks[0]
    assert isinstance(table, Table)
    names = [column.name for column in table.columns]
    cells = (dict(zip(names, row.cells, strict=True)) for row in table.rows)
    return {(row["workload"], row["configuration"]): row for row in cells}


def test_rates_stand_below_their_clients(section: Section) -> None:
    """A row for each workload and configuration, a column for each number of clients."""
    table = rows(section)
    assert len(table) == 4
    assert table["reads", "default"]["1 client"] == "9,242"
    assert table["reads", "fitted"]["32 clients"] == "68,592"


def test_the_last_column_says_where_the_gain_ends(section: Section) -> None:
    """A number of clients in each row."""
    ends = {row: cells["no clear gain above"] for row, cells in rows(section).items()}
    assert ends["reads", "default"] == ends["writes", "fitted"] == "32 clients"
    assert ends["writes", "default"] == "16 clients"


def test_the_first_lines_say_where_the_gain_ends() -> None:
    """Below the verdicts, an item for each workload."""
    verdicts = build_document(curves.scalability()).sections[0]
    (answer,) = (block for block in verdicts.blocks if isinstance(block, BulletList))
    assert answer.lead == "More clients bring no clear gain above"
    assert answer.items == (
        "reads: 32 clients (default), 32 clients (fitted)",
        "writes: 16 clients (default), 32 clients (fitted)",
    )


def test_the_chart_has_points_and_line_of_every_configuration(section: Section) -> None:
    """Seven points and a line through them for each of the four, all with bounds."""
    figure = section.blocks[1]
    assert isinstance(figure, Figure)
    records = [dict(zip(figure.columns, row, strict=True)) for row in figure.rows]
    assert sum(not record["line"] for record in records) == 4 * 7
    assert sum(bool(record["line"]) for record in records) == 4 * 7
    assert all(math.isfinite(record[end]) for record in records for end in ("low", "high"))


def test_without_curves_there_is_no_section() -> None:
    """Campaigns of one load have neither the section nor the key of the summary."""
    analysis = analyses.quick()
    assert "scalability" not in [part.anchor for part in build_document(analysis).sections]
    assert "scalability" not in summary(analysis)


def test_the_summary_holds_the_curves() -> None:
    """Every point with its interval, strict JSON."""
    kept = json.loads(json.dumps(summary(curves.scalability()), allow_nan=False))["scalability"]
    assert [curve["configuration"] for curve in kept] == ["default", "fitted"] * 2
    assert [point["clients"] for point in kept[0]["measured"]] == list(curves.CLIENTS)
    assert kept[0]["measured"][0]["tps"]["estimate"] == pytest.approx(9242, abs=1)
    assert [curve["no_gain_above_clients"] for curve in kept] == [32, 32, 16, 32]
    assert [(curve["still_rises"], curve["reason"]) for curve in kept] == [(False, None)] * 4
