"""The example campaigns: real records from which today's code makes the reports shown."""

import json
from pathlib import Path

import pytest

from steelyard.analysis.campaign import analyse
from steelyard.cli.reports import rendered
from steelyard.record.directory import read_campaign

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
CAMPAIGNS = sorted(path.parent for path in EXAMPLES.glob("*/journal.jsonl"))
LONGEST_S = 15 * 60


def test_the_examples_are_there() -> None:
    """The four campaigns that the project promises."""
    assert {path.name for path in CAMPAIGNS} >= {"aa", "fitted", "protocol", "versions"}


@pytest.mark.parametrize("path", CAMPAIGNS, ids=lambda path: path.name)
def test_the_record_gives_the_report_that_is_shown(path: Path) -> None:
    """A journal of an earlier day is still read, and gives the stored report to the byte."""
    analysis = analyse(read_campaign(path))
    assert (path / "report.md").read_text() == rendered(analysis, "markdown")
    assert json.loads((path / "summary.json").read_text()) == json.loads(rendered(analysis, "json"))


@pytest.mark.parametrize("path", CAMPAIGNS, ids=lambda path: path.name)
def test_an_example_takes_at_most_fifteen_minutes(path: Path) -> None:
    """Whoever repeats one need not wait longer."""
    assert read_campaign(path).elapsed_s <= LONGEST_S


def test_every_example_has_its_command_in_the_index() -> None:
    """The index names each campaign and the command that repeats it."""
    index = (EXAMPLES / "README.md").read_text()
    for path in CAMPAIGNS:
        assert f"({path.name}/report.md)" in index
        assert read_campaign(path).command in index
