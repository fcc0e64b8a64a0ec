"""The kept campaigns of ``docs/examples``, each read and analysed once for several tests."""

from functools import cache, lru_cache
from pathlib import Path

from steelyard.answers.campaign import analyse
from steelyard.answers.report import build_document
from steelyard.answers.results import CampaignAnalysis
from steelyard.record.directory import read_campaign
from steelyard.report.document import Document

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
CAMPAIGNS = sorted(
    str(path.parent.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("journal.jsonl")
)


@lru_cache(maxsize=4)  # they hold all evidence of all runs
def analysis_of(name: str) -> CampaignAnalysis:
    """Return what a kept campaign's record gives."""
    return analyse(read_campaign(EXAMPLES / name))


@cache
def report_of(name: str) -> Document:
    """Return the report of a kept campaign."""
    return build_document(analysis_of(name))
