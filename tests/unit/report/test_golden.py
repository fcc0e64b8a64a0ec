"""The report of synthetic campaigns, word for word, in this process and in any other."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fakes import analyses, durable, latencies, reasons, redis_campaigns, single_clients
from steelyard.answers.report import build_document, summary
from steelyard.answers.results import CampaignAnalysis
from steelyard.report.html import render_markdown
from steelyard.report.terminal import render_terminal
from support.snapshots import check_text

GOLDEN = Path(__file__).parents[2] / "golden" / "report"
SCENES: tuple[Callable[[], CampaignAnalysis], ...] = (
    analyses.quick,
    analyses.many_loads,
    analyses.same_twice,
    analyses.in_turns,
    analyses.interrupted,
    analyses.failed_early,
    analyses.hostile,
    analyses.scalability,
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
    check_text(GOLDEN / name, text)


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


TESTS = Path(__file__).parents[2]
PROGRAM = """
import hashlib, json
from fakes import analyses
from steelyard.answers.report import build_document
from steelyard.answers.report import summary
from steelyard.report.html import render_html, render_markdown
from steelyard.report.terminal import render_terminal
analysis = analyses.quick()
document = build_document(analysis)
texts = (
    render_html(document), render_markdown(document), render_terminal(document, 100),
    json.dumps(summary(analysis)), render_html(document),
)
print(" ".join(hashlib.sha256(text.encode()).hexdigest() for text in texts))
"""


def digests(hash_seed: str) -> list[str]:
    """Return the digests of every form, written by another process."""
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout.split()


@pytest.mark.slow
def test_two_processes_write_the_same_bytes() -> None:
    """Neither hash order nor the drawing library's counters show in any form."""
    first, second = digests("1"), digests("2")
    assert first == second
    assert first[0] == first[4], "HTML repeated within one process"
    assert hashlib.sha256(b"").hexdigest() not in first
