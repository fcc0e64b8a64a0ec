"""``steelyard noise`` on a real PostgreSQL server."""

import json
import shlex

import pytest

from support.live import TINY, Steelyard

pytestmark = pytest.mark.live


def test_a_set_up_is_weighed_against_itself_and_remembered(steelyard: Steelyard) -> None:
    """A tiny A/A campaign ends at its budget, says what it can see, and leaves its profile."""
    text = TINY.replace("slice: 1s", "slice: 4s").replace(
        "warm_up: 0s", "warm_up: 0s, reset: campaign"
    )
    options = ("--out", "c", "--budget", "90s", "--switch", "session", "--yes")
    done = steelyard.run("noise", steelyard.experiment(text), *options)
    assert done.returncode == 0, done.stderr
    record = steelyard.directory / "c"
    summary = json.loads((record / "summary.json").read_text())
    assert summary["configurations"] == ["default", "again"]
    assert (summary["status"], summary["design"]["switch"]) == ("budget reached", "session")
    (workload,) = summary["noise"]["workloads"]
    assert workload["second_sd_percent"]["estimate"] > 0.0
    assert workload["comparisons"][0]["expected"][-1]["half_width_percent"]["estimate"] > 0.0
    assert "a block varies by" in done.stdout
    assert "## Noise" in (record / "report.md").read_text()

    (profile,) = (steelyard.cache / "noise").glob("*.json")
    assert str(profile) in done.stderr
    stored = json.loads(profile.read_text())["profile"]
    assert stored["origin"] == "measured"
    assert stored["start_s"] > 0.0
    assert stored["campaign_id"] == summary["campaign"]

    again = shlex.split(summary["command"])[1:]
    repeated = steelyard.run(*again, "--dry-run", "--json")
    forecast = json.loads(repeated.stdout)
    assert (forecast["seed"], forecast["budget_s"]) == (summary["seed"], 90.0)
