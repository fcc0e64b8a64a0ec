"""The same analysis gives the same bytes, in this process and in any other."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

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
