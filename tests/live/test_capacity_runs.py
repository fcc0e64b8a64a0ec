"""``steelyard capacity`` on a real PostgreSQL server."""

import json
import shlex

import pytest

from steelyard.cli.questions import CapacityOptions, capacity_text
from support.live import Steelyard

pytestmark = pytest.mark.live

# What `steelyard capacity embedded -s 1 -c 2 --slice 1s` writes, with fewer rounds.
_ASKED = {"place": "embedded", "client": 2, "scale": 1, "rate": "50%", "slice_": "1s"}
WRITTEN = (
    capacity_text(
        CapacityOptions(
            **{**dict.fromkeys(CapacityOptions.__dataclass_fields__), **_ASKED, "budget": "20m"}
        ),
        seed=3,
    )
    .replace("slice:", "warm_up: 0s\n  slice:")
    .replace("  warm_up: 5s\n", "")
)
WRITTEN += "capacity: {rounds: 3}\n"


def test_a_server_is_weighed_at_shares_of_its_capacity(steelyard: Steelyard) -> None:
    """Capacity, rates, latency from the scheduled start and the goal, in all reports."""
    words = ("capacity", steelyard.experiment(WRITTEN), "--rate", "20%,60%", "--slo", "p90 < 2s")
    done = steelyard.until_blocks(1, *words, "--out", "c")
    assert "finding the capacity: select-only, round 3 of 3" in done.stderr
    record = steelyard.directory / "c"
    summary = json.loads((record / "summary.json").read_text())
    (capacity,) = summary["capacity"]
    assert [point["clients"] for point in capacity["points"]] == [1, 2]
    assert capacity["tps"]["estimate"] > 0.0
    assert capacity["tps"]["low"] is None  # three rounds have no interval
    rates = summary["rates"]
    assert [rate["capacity_share"] for rate in rates] == [0.2, 0.6]
    for rate in rates:
        offered = rate["capacity_share"] * capacity["tps"]["estimate"]
        assert rate["offered_per_s"] == pytest.approx(offered, rel=0.001)
        assert rate["logged_transactions"] > 0
        assert rate["latency_p50_s"]["estimate"] > 0.0
        assert rate["schedule_lag_p99_s"]["estimate"] > 0.0
    (goal,) = summary["goal"]["rates"]
    # Nine of ten are done within two seconds, if the machine is not all but dead.
    assert goal["beyond"] == "above"
    assert goal["measured_per_s"] == [rate["offered_per_s"] for rate in rates]
    assert "The highest rate with p90 < 2 s" in done.stdout
    assert "## Capacity and rates" in (record / "report.md").read_text()
    assert "Throughput of closed loops" in (record / "report.html").read_text()
    assert len(list((record / "raw").glob("capacity-0-00-*.txt.gz"))) >= 6

    repeated = steelyard.run(*shlex.split(summary["command"])[1:], "--dry-run", "--json")
    assert json.loads(repeated.stdout)["seed"] == 3
    again = steelyard.run("run", str(record / "experiment.yaml"), "--dry-run", "--json")
    assert json.loads(again.stdout)["capacity_s"] > 0.0
    resumed = steelyard.resumed_for_a_block()
    assert "finding the capacity" not in resumed.stderr
    kept = json.loads((record / "summary.json").read_text())
    assert kept["capacity"] == summary["capacity"]
    assert [rate["offered_per_s"] for rate in kept["rates"]] == goal["measured_per_s"]
