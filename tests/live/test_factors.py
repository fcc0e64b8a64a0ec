"""Factors end to end on a real PostgreSQL server."""

import json

import pytest

from support.live import TINY, Steelyard, lasting

pytestmark = pytest.mark.live

FACTORS = """\
factors:
  commit: {postgres: {synchronous_commit: ["on", "off"]}}
  statements: {simple: , prepared: {protocol: prepared}}
configurations:
  server: {target: {kind: local, bin: embedded}}
"""
FACTORIAL = (
    TINY[: TINY.index("configurations:")]
    .replace("baseline: default\n", "")
    .replace("warm_up: 0s", "warm_up: 0s, reset: campaign")
    + FACTORS
)


@pytest.mark.slow
def test_a_factorial_is_measured_in_complete_blocks_and_reported(steelyard: Steelyard) -> None:
    """Two factors of sessions: four combinations in every block, effects in every form."""
    source = steelyard.experiment(lasting(FACTORIAL))
    done = steelyard.until_blocks(4, "run", source, "--out", "c", "--yes")
    assert "full factorial (4 combinations)" in done.stderr
    record = steelyard.directory / "c"
    schedule = json.loads((record / "schedule.json").read_text())
    assert schedule["mode"] == "back-to-back"
    names = {"server", "statements", "commit", "commit+statements"}
    for block in schedule["blocks"]:
        runs = [run["configuration"] for start in block["starts"] for run in start["runs"]]
        assert sorted(runs) == sorted(names)
    summary = json.loads((record / "summary.json").read_text())
    told = summary["attribution"]
    assert set(told["combinations"]) == names
    assert {effect["effect"] for effect in told["effects"]} == {
        "synergy",
        "added alone",
        "removed last",
        "total",
    }
    results = [c for c in summary["comparisons"] if c["clients"] == "pooled"]
    assert [c["configuration"] for c in results] == ["commit=off", "statements=prepared"]
    page = (record / "report.md").read_bytes()
    assert b"## What each factor buys" in page
    (record / "report.md").unlink()
    again = steelyard.run("report", "c", "--full")
    assert again.returncode == 0
    assert "What each factor buys" in again.stdout
    assert (record / "report.md").read_bytes() == page
    pair = steelyard.run("compare", "c", "server", "commit+statements")
    assert pair.returncode == 0, pair.stderr
    assert "additional analysis" in pair.stdout


def test_the_dry_run_says_what_a_design_costs(steelyard: Steelyard) -> None:
    """Combinations, and what they cannot tell apart, are known before anything is started."""
    name = steelyard.experiment(FACTORIAL.replace("factors:", "ladder:"))
    ladder = steelyard.run("run", "--dry-run", name)
    assert ladder.returncode == 0, ladder.stderr
    assert "3 configurations x 1 cell" in ladder.stdout
    assert "depends on the order chosen: commit, then statements" in ladder.stdout
    full = steelyard.run("run", "--dry-run", steelyard.experiment(FACTORIAL))
    assert "synergies are twice as wide" in full.stdout
