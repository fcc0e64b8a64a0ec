"""The report of synthetic campaigns, word for word.

``STEELYARD_UPDATE_GOLDEN=1`` writes the files anew; read the difference before committing it.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fakes import analyses, curves, durable, latencies, reasons, redis_campaigns, single_clients
from steelyard.answers.report import build_document, summary
from steelyard.answers.results import CampaignAnalysis
from steelyard.report.html import render_markdown
from steelyard.report.terminal import render_terminal

GOLDEN = Path(__file__).parents[2] / "golden" / "report"
SCENES: tuple[Callable[[], CampaignAnalysis], ...] = (
    analyses.quick,
    analyses.many_loads,
    analyses.same_twice,
    analyses.in_turns,
    analyses.interrupted,
    analyses.failed_early,
    analyses.hostile,
    curves.scalability,
    single_clients.statements,
    analyses.noise_floor,
    analyses.noise_in_turns,
    analyses.two_servers,
    analyses.made_servers,
    reasons.explained,
    latencies.tails,
    latencies.open_loop,
    durable.high_availability,
    redis_campaigns.aof,
)


def check(name: str, text: str) -> None:
    """Compare with the golden file, or write it when asked to."""
    path = GOLDEN / name
    if os.environ.get("STEELYARD_UPDATE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_markdown(scene: Callable[[], CampaignAnalysis]) -> None:
    """The Markdown report says what it said before, to the letter."""
    check(f"{scene.__name__}.md", render_markdown(build_document(scene())))


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_terminal(scene: Callable[[], CampaignAnalysis]) -> None:
    """The terminal report at 100 columns without colour says what it said before."""
    text = render_terminal(build_document(scene()), 100, files=("campaign/report.html",))
    check(f"{scene.__name__}.txt", text)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_summary(scene: Callable[[], CampaignAnalysis]) -> None:
    """``summary.json`` is strict JSON, without NaN, and the same as before."""
    text = json.dumps(summary(scene()), indent=2, ensure_ascii=False, allow_nan=False)
    check(f"{scene.__name__}.json", text + "\n")
