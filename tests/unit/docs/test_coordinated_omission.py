"""The picture and the table of coordinated omission are what the stored logs give."""

import json
import re
from pathlib import Path
from typing import Any

import doc_pages
import numpy as np
import pytest
from click.testing import CliRunner

from steelyard.cli.main import cli
from steelyard.report.charts import can_draw

DOCS = doc_pages.ROOT / "docs"
LOGS = DOCS / "examples" / "coordinated-omission"
PICTURE = DOCS / "pictures" / "coordinated-omission.svg"
STALL_S = 1.5
CLIENTS = 4


def invoke(*words: str) -> str:
    """Return what the command of the page prints, with further words."""
    paths = (f"closed={LOGS}/closed.log.gz", f"open={LOGS}/open.log.gz", "--columns", "lag")
    result = CliRunner().invoke(cli, ["latency", *paths, *words])
    assert result.exit_code == 0, (result.exception, result.output)
    return result.output


@pytest.fixture(scope="module")
def runs() -> dict[str, Any]:
    """Return both runs by name."""
    return {run["name"]: run for run in json.loads(invoke("--json"))["runs"]}


def seconds(run: dict[str, Any], of: str = "latency") -> dict[str, float]:
    """Return the percentiles of a run."""
    return next(each["seconds"] for each in run["percentiles"] if each["of"] == of)


@pytest.mark.skipif(not can_draw(), reason="pictures need the extra `charts`")
def test_the_picture_is_drawn_from_the_stored_logs(tmp_path: Path) -> None:
    """To the byte, by the command that the page beside the logs shows."""
    drawn = tmp_path / "drawn.svg"
    invoke("--svg", str(drawn))
    assert drawn.read_text() == PICTURE.read_text(), "draw it again: see the page beside the logs"
    assert f"(pictures/{PICTURE.name})" in doc_pages.page("docs/latency.md")


def test_the_table_has_the_figures_of_the_logs(runs: dict[str, Any]) -> None:
    """Every number of the page's table, computed from all transactions anew."""
    for name, label in (("closed", "closed loop"), ("open", "open loop, 500/s")):
        row = next(row for row in doc_pages.rows("docs/latency.md") if row[0] == label)
        shown = [float(re.sub(r"[^\d.]", "", cell)) for cell in row[1:]]
        taken_ms = np.loadtxt(LOGS / f"{name}.log.gz", usecols=2) / 1000.0
        told = [1000 * seconds(runs[name])[p] for p in ("p50", "p99", "p99.9", "max")]
        assert shown[0] == len(taken_ms) == runs[name]["transactions"]
        assert shown[1] == pytest.approx(taken_ms.mean(), rel=0.01)
        assert shown[2:6] == pytest.approx(told, rel=0.01)
        assert shown[6] == np.count_nonzero(taken_ms > 1000 * STALL_S / 2)


def test_the_stall_is_in_the_open_loop_and_hidden_in_the_closed_one(runs: dict[str, Any]) -> None:
    """p99.9 of the open loop is the stall; of the closed one, a small part of it."""
    opened, closed = seconds(runs["open"]), seconds(runs["closed"])
    assert STALL_S * 0.95 < opened["p99.9"] <= opened["max"] < STALL_S * 1.05
    assert STALL_S * 0.95 < closed["max"] < STALL_S * 1.05
    assert closed["p99.9"] < STALL_S / 20
    assert seconds(runs["open"], "service time")["p99.9"] < STALL_S / 20
    taken_s = np.loadtxt(LOGS / "closed.log.gz", usecols=2) / 1e6
    assert np.count_nonzero(taken_s > STALL_S / 2) == CLIENTS
