"""The recipe for an effect over many campaigns: program, file and commands of the page."""

import csv
import json
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from support import doc_pages
from support.examples import EXAMPLES
from support.lacking import lacking

CAMPAIGNS = 30
STEP_AT = 18
STEP_PERCENT = -4.0
# At 1.5 % Otava marked a neighbour of the right campaign in 34 of 200 series, at 0.5 % in none.
NOISE_PERCENT = 0.5
DAY_S = 86400.0
LOCK = doc_pages.ROOT / "requirements-otava.lock"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a directory with the files of the pages and a campaign for each of many nights.

    The nights are copies of a kept campaign whose effects vary by a little noise. Those of
    the writes are lower from one night on.
    """
    doc_pages.write_files(tmp_path)
    draw = random.Random(5)  # noqa: S311 - noise of a test
    for night in range(CAMPAIGNS):
        step = STEP_PERCENT if night >= STEP_AT else 0.0
        noise = [draw.gauss(0, NOISE_PERCENT) for _ in range(2)]
        shifts = {"reads": noise[0], "writes": noise[1] + step}
        made = _summary(night)
        for comparison in made["comparisons"]:
            for key in ("effect_percent", "low_percent", "high_percent"):
                comparison[key] += shifts[comparison["workload"]]
        _write(tmp_path, f"night-{night:02}", made)
    return tmp_path


def _summary(night: int) -> dict[str, Any]:
    """Return the summary of a kept campaign as if it had run in a night of the last weeks."""
    kept: dict[str, Any] = json.loads((EXAMPLES / "quick" / "summary.json").read_text())
    started_at = time.time() - (CAMPAIGNS - night) * DAY_S
    return {**kept, "campaign": f"nightly-{night}", "started_at": started_at}


def _write(place: Path, name: str, summary: dict[str, Any]) -> None:
    directory = place / "campaigns" / name
    directory.mkdir(parents=True)
    (directory / "summary.json").write_text(json.dumps(summary))


def _table(place: Path) -> list[dict[str, str]]:
    """Return the rows that the program of the page writes."""
    run = [sys.executable, "effects.py"]
    done = subprocess.run(run, cwd=place, capture_output=True, text=True, check=True)
    return list(csv.DictReader(done.stdout.splitlines()))


def test_the_table_has_a_row_for_each_campaign(place: Path) -> None:
    """Oldest first, an effect of +2 % as 102, between the bounds of its interval."""
    rows = _table(place)
    assert [row["campaign"] for row in rows] == [f"night-{night:02}" for night in range(CAMPAIGNS)]
    kept = json.loads((place / "campaigns" / "night-03" / "summary.json").read_text())
    for result in kept["comparisons"]:
        if result["clients"] == "pooled":
            name = f"{result['workload']}/{result['configuration']}"
            columns = (name, f"{name}/low", f"{name}/high")
            value, low, high = (float(rows[3][column]) for column in columns)
            assert value == pytest.approx(100 + result["effect_percent"])
            assert low < value < high


def test_the_table_leaves_out_what_cannot_be_compared(place: Path) -> None:
    """Unfinished, copied, without an interval, of other workloads: none has a row."""
    expected = _table(place)
    _write(place, "running", {**_summary(5), "campaign": "a", "status": "running"})
    copytree(place / "campaigns" / "night-06", place / "campaigns" / "night-06-copy")
    unbounded = _summary(CAMPAIGNS - 1) | {"campaign": "b"}
    for comparison in unbounded["comparisons"]:
        comparison |= {"effect_percent": None, "low_percent": None, "high_percent": None}
    _write(place, "unbounded", unbounded)
    reads = [row for row in _summary(7)["comparisons"] if row["workload"] == "reads"]
    _write(place, "reads-alone", {**_summary(7), "campaign": "c", "comparisons": reads})
    found = _table(place)
    assert [row["time"] for row in found] == [row["time"] for row in expected]


@pytest.mark.slow
def test_otava_names_the_campaign_from_which_on_the_effect_is_lower(place: Path) -> None:
    """The commands of the page mark one change, of the right column, above the right campaign."""
    _install(place / "otava")
    commands = next(
        block.text
        for block in doc_pages.fenced()
        if block.language == "sh" and "otava analyze" in block.text
    )
    done = subprocess.run(
        ["/bin/bash", "-euc", commands],
        cwd=place,
        env={
            **os.environ,
            "HOME": str(place),  # no settings of Otava that somebody has
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PIP_NO_INDEX": "1",  # what the lock names is there already
            "PIP_QUIET": "1",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    dots = [number for number, line in enumerate(lines) if re.fullmatch(r"[ ·]*·[ ·]*", line)]
    assert len(dots) == 2, done.stdout
    above, below = dots
    head = next(line for line in lines if line.split()[:2] == ["time", "campaign"])
    assert head.endswith("writes/large")
    assert len(lines[above].rstrip()) == len(head)
    assert lines[above].count("·") < len("reads/large  writes/large")
    change = float(lines[above + 1].strip().removesuffix("%"))
    assert change == pytest.approx(STEP_PERCENT, abs=0.5)
    assert f" night-{STEP_AT:02} " in lines[below + 1]


def _install(environment: Path) -> None:
    """Make the page's virtual environment with the locked packages."""
    install = ("install", "--quiet", "--no-compile", "--disable-pip-version-check")
    for command in (
        [sys.executable, "-m", "venv", environment],
        [environment / "bin" / "pip", *install, "--require-hashes", "-r", LOCK],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        if done.returncode:
            reason = (done.stderr or done.stdout).strip().rpartition("\n")[2]
            lacking(f"Otava cannot be installed: {reason}")
