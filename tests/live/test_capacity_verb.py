"""``steelyard capacity`` on a real PostgreSQL server."""

import json
import shlex

import pytest

from support.live import Steelyard

pytestmark = pytest.mark.live


def test_a_server_is_weighed_at_shares_of_its_capacity(steelyard: Steelyard) -> None:
    """Capacity, rates, latency from the scheduled start and the goal, in all reports."""
    done = steelyard.run(
        *("capacity", "embedded", "-s", "1", "-c", "2", "--slice", "1s", "--rate", "20%,60%"),
        *("--slo", "p90 < 2s", "--budget", "60s", "--seed", "3", "--out", "c"),
    )
    assert done.returncode == 0, done.stderr
    assert "finding the capacity: select-only, round 6 of 6" in done.stderr
    record = steelyard.directory / "c"
    summary = json.loads((record / "summary.json").read_text())
    assert summary["status"] == "budget reached"
    (capacity,) = summary["capacity"]
    assert [point["clients"] for point in capacity["points"]] == [1, 2]
    assert capacity["tps"]["low"] <= capacity["tps"]["estimate"] <= capacity["tps"]["high"]
    rates = summary["rates"]
    assert [rate["capacity_share"] for rate in rates] == [0.2, 0.6]
    for rate in rates:
        offered = rate["capacity_share"] * capacity["tps"]["estimate"]
        assert rate["offered_per_s"] == pytest.approx(offered, rel=0.001)
        assert rate["transactions"] > 0
        assert 0.0 < rate["latency_p50_s"]["estimate"] < rate["latency_p99_s"]["estimate"]
        assert rate["schedule_lag_p99_s"]["estimate"] > 0.0
    (goal,) = summary["goal"]["rates"]
    assert goal["beyond"] == "above"  # nine of ten are done within two seconds at any share
    assert goal["rate_per_s"]["low"] == rates[1]["offered_per_s"]
    assert "The highest rate with p90 < 2 s" in done.stdout
    assert "## Capacity and rates" in (record / "report.md").read_text()
    assert "Throughput of closed loops" in (record / "report.html").read_text()
    assert len(list((record / "raw").glob("capacity-00-*"))) == 12

    repeated = steelyard.run(*shlex.split(summary["command"])[1:], "--dry-run", "--json")
    assert json.loads(repeated.stdout)["seed"] == 3
    again = steelyard.run("run", str(record / "experiment.yaml"), "--dry-run", "--json")
    assert json.loads(again.stdout)["capacity_s"] > 0.0
