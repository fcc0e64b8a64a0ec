"""The scalability section: its numbers, its words where there are none, and when it is absent."""

import json
import math

import pytest

from fakes import analyses, curves
from steelyard.answers.report import build_document, summary
from steelyard.answers.scalability import scalability_curves, scalability_section
from steelyard.core.target import POSTGRES_WORDS
from steelyard.report.document import Figure, Section, Table, filled


@pytest.fixture
def section() -> Section:
    """Return the section of a campaign with every kind of curve."""
    analysis = curves.scalability()
    (found,) = scalability_section(analysis, analysis.answer(scalability_curves) or ())
    return filled(found, POSTGRES_WORDS)


def rows(section: Section) -> dict[tuple[str, str], dict[str, str]]:
    """Return the table's rows by workload and configuration, cells by the name of their column."""
    table = section.blocks[0]
    assert isinstance(table, Table)
    names = [column.name for column in table.columns]
    cells = (dict(zip(names, row.cells, strict=True)) for row in table.rows)
    return {(row["workload"], row["configuration"]): row for row in cells}


def test_numbers_stand_with_their_intervals(section: Section) -> None:
    """Alpha, beta, N* and the rate there, each with its interval."""
    row = rows(section)["reads", "default"]
    assert row["alpha"] == "5.0 [4.5, 5.5]"
    assert row["beta"] == "0.090 [0.076, 0.103]"
    assert row["N*"] == "32 [30, 35]"
    assert row["tps at N*"] == "89,235 [87,451, 91,020]"
    assert row["falls from"] == "not seen"


def test_what_is_not_known_is_said_in_words(section: Section) -> None:
    """No peak in range, no beta, a misfit: no number stands where there is none."""
    told = rows(section)
    assert told["reads", "fitted"]["N*"] == "no peak in range"
    assert told["reads", "fitted"]["beta"] == "none seen"
    assert told["writes", "fitted"]["N*"] == told["writes", "fitted"]["tps at N*"] == "–"  # noqa: RUF001
    assert told["writes", "fitted"]["fit"] == "does not fit"
    assert told["writes", "fitted"]["largest miss"] == "11.0 %"
    assert told["writes", "default"]["falls from"] == "64"


def test_the_chart_has_points_and_curve_of_every_configuration(section: Section) -> None:
    """Seven points and a curve for each of the four, all with bounds."""
    figure = section.blocks[1]
    assert isinstance(figure, Figure)
    records = [dict(zip(figure.columns, row, strict=True)) for row in figure.rows]
    assert sum(not record["fitted"] for record in records) == 4 * 7
    assert all(math.isfinite(record[end]) for record in records for end in ("low", "high"))


def test_without_curves_there_is_no_section() -> None:
    """Campaigns of one load have neither the section nor the key of the summary."""
    analysis = analyses.quick()
    assert "scalability" not in [part.anchor for part in build_document(analysis).sections]
    assert "scalability" not in summary(analysis)


def test_the_summary_holds_the_curves() -> None:
    """Raw fractions, null where nothing is known, strict JSON."""
    told = json.loads(json.dumps(summary(curves.scalability()), allow_nan=False))["scalability"]
    assert [curve["peak_clients"] is None for curve in told] == [False, True, False, True]
    assert told[1]["beta"] == {"estimate": 0.0, "low": 0.0, "high": None}
    assert told[2]["falls_from_clients"] == 64
    assert told[3]["fits"] is False
    assert len(told[0]["measured"]) == 7
