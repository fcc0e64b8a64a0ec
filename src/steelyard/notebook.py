"""One campaign for a notebook: ``steelyard.open(directory)``.

What it gives is computed from the record when it is asked for, and kept. Nothing is written.
"""

from collections.abc import Iterator
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard.answers.campaign import analyse
from steelyard.answers.report import build_document, summary
from steelyard.answers.results import CampaignAnalysis, CellSummary, Comparison, verdict_sentence
from steelyard.core.campaign import CampaignRecord
from steelyard.core.findings import Finding
from steelyard.core.wording import InputError
from steelyard.record.directory import read_campaign
from steelyard.record.tables import tables_of
from steelyard.report.charts import INSTALL, can_draw
from steelyard.report.document import Document, Figure, Json
from steelyard.report.html import render_html

if TYPE_CHECKING:
    import pyarrow as pa


class Campaign:
    """A campaign as it is on disk, finished or not.

    Attributes:
        directory: Where its record is.
        record: What the journal holds.
    """

    def __init__(self, directory: Path, record: CampaignRecord) -> None:
        self.directory = directory
        self.record = record

    def __repr__(self) -> str:
        told = [verdict_sentence(self.analysis, each) for each in self.verdicts]
        return "\n".join([f"{self.name} ({self.analysis.status.value})", *told])

    @property
    def name(self) -> str:
        """Return the name of the experiment."""
        return self.record.experiment.name

    @cached_property
    def analysis(self) -> CampaignAnalysis:
        """Return everything that the report says, typed."""
        return analyse(self.record)

    @property
    def verdicts(self) -> tuple[Comparison, ...]:
        """Return the results: one for each workload and configuration, pooled over its loads."""
        return self.analysis.results

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """Return the results and the comparisons of single cells."""
        return self.analysis.comparisons

    @property
    def cells(self) -> tuple[CellSummary, ...]:
        """Return rates and latencies of each configuration, workload and load."""
        return self.analysis.cells

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return what should be known before relying on the verdicts."""
        return self.analysis.findings

    @cached_property
    def tables(self) -> dict[str, "pa.Table"]:
        """Return runs, intervals, waits, counters, statements, host, latency: tables of pyarrow.

        Raises:
            InputError: pyarrow is not installed.
        """
        return tables_of(self.record)

    @property
    def summary(self) -> dict[str, Json]:
        """Return what ``summary.json`` holds."""
        return summary(self.analysis)

    @cached_property
    def charts(self) -> dict[str, Any]:
        """Return the charts of the report by name, as charts of Altair.

        Raises:
            InputError: The packages that draw are not installed.
        """
        if not can_draw():
            message = "charts need altair and vl-convert, which are not installed"
            raise InputError(message, hint=f"Run {INSTALL}.")
        import altair as alt  # noqa: PLC0415 - an extra

        from steelyard.report.chart_specs import specification  # noqa: PLC0415 - imports Altair

        return {
            figure.identity: alt.Chart.from_json(specification(figure))
            for figure in self._figures()
        }

    def _figures(self) -> Iterator[Figure]:
        for section in self.document.sections:
            for block in section.every:
                if isinstance(block, Figure) and block.rows:
                    yield block

    @cached_property
    def document(self) -> Document:
        """Return the report as a document."""
        return build_document(self.analysis)

    def report_html(self) -> str:
        """Return the report as one page; charts are in it where they can be drawn."""
        return render_html(self.document)


def read(directory: str | PathLike[str]) -> Campaign:
    """Return the campaign in a directory.

    Raises:
        RecordError: There is none, or it is damaged.
    """
    path = Path(directory)
    return Campaign(path, read_campaign(path))
