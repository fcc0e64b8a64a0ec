"""Writing and showing the reports of an analysis."""

from pathlib import Path

import click

from steelyard.answers.report import build_document
from steelyard.answers.results import CampaignAnalysis
from steelyard.answers.summary import summary
from steelyard.campaign.run.session import as_json
from steelyard.cli.campaigns import for_this_terminal
from steelyard.core.campaign import CampaignRecord
from steelyard.core.errors import RecordError
from steelyard.gateways.files import write_text
from steelyard.record.tables import write_tables
from steelyard.report.html import render_html
from steelyard.report.markdown import render_markdown


def write_reports(record: CampaignRecord, analysis: CampaignAnalysis, path: Path) -> None:
    """Write every derived file of a campaign; each is whole or not there.

    Raises:
        RecordError: The disk is full or read-only.
    """
    document = build_document(analysis)
    write_text(path / "summary.json", as_json(summary(analysis)), error_type=RecordError)
    write_text(path / "report.md", render_markdown(document), error_type=RecordError)
    write_text(path / "report.html", render_html(document), error_type=RecordError)
    write_tables(record, path)


def rendered(analysis: CampaignAnalysis, form: str) -> str:
    """Return the report in one form: ``terminal``, ``markdown``, ``html`` or ``json``."""
    if form == "json":
        return as_json(summary(analysis))
    document = build_document(analysis)
    if form == "markdown":
        return render_markdown(document)
    return render_html(document) if form == "html" else for_this_terminal(document)


def show(analysis: CampaignAnalysis, path: Path) -> None:
    """Print the short report for this terminal."""
    files = tuple(str(path / name) for name in ("report.html", "report.md", "summary.json"))
    click.echo(for_this_terminal(build_document(analysis), files=files), nl=False)
