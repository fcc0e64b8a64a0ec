"""Long campaigns on real servers: long runs, noise, capacity, factors, and verbs that read them."""

import json
import shlex

import pytest

from steelyard.cli.questions import CapacityOptions, capacity_text
from support.live import TINY, Steelyard, ending, lasting, whole_report

pytestmark = pytest.mark.live


@pytest.mark.slow
def test_long_runs_follow_the_blocks_and_campaigns_can_be_read(steelyard: Steelyard) -> None:
    """One cycle of 30 s per configuration after the last block; then list, show and compare."""
    asking = (
        ending()
        .replace("seed: 7", "sustain: 10s\nseed: 7")
        .replace("server: embedded}", "server: embedded}\n    postgres: {checkpoint_timeout: 30s}")
    )
    source = steelyard.experiment(asking, "long.yaml")
    done = steelyard.run("run", source, "--dir", "campaigns/long")
    assert done.returncode == 0, done.stderr
    assert "on top of the budget" in done.stderr
    long = json.loads((steelyard.directory / "campaigns/long/summary.json").read_text())
    assert [one["configuration"] for one in long["sustained"]] == ["default", "buffers"]
    assert all(29.0 < one["seconds"] < 59.0 for one in long["sustained"])
    assert all(one["worst_10s_tps"] <= one["tps"] * 1.2 for one in long["sustained"])

    shown = json.loads(steelyard.run("show", "campaigns/long", "--json").stdout)
    assert shown["left_behind"] == []
    pair = steelyard.run("compare", "campaigns/long", "default", "buffers")
    assert "in the campaign's plan" in pair.stdout
    again = steelyard.run("compare", "campaigns/long", "campaigns/long", "--json")
    cells = json.loads(again.stdout)["cells"]
    assert {cell["word"] for cell in cells} == {"no clear difference"}


def test_a_set_up_is_weighed_against_itself_and_remembered(steelyard: Steelyard) -> None:
    """A tiny A/A campaign ends at its budget, says what it can see, and leaves its profile."""
    text = TINY.replace("run_time: 1s", "run_time: 4s").replace(
        "warm_up: 0s", "warm_up: 0s, reset: campaign"
    )
    options = ("--dir", "c", "--budget", "90s", "--switch", "session", "--no-verdict")
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
    assert "### Noise" in whole_report(record)

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


# What `steelyard capacity embedded -s 1 -c 2 --run-time 1s` writes, with fewer rounds.
_ASKED = {"place": "embedded", "clients": 2, "scale": 1, "rate": "50%", "run_time": "1s"}
WRITTEN = (
    capacity_text(
        CapacityOptions(
            **{**dict.fromkeys(CapacityOptions.__dataclass_fields__), **_ASKED, "budget": "20m"}
        ),
        seed=3,
    )
    .replace("run_time:", "warm_up: 0s\n  run_time:")
    .replace("  warm_up: 5s\n", "")
)
WRITTEN += "capacity: {runs: 3}\n"


def test_a_server_is_weighed_at_shares_of_its_capacity(steelyard: Steelyard) -> None:
    """Capacity, rates, latency from the scheduled start and the goal, in all reports."""
    words = ("capacity", steelyard.experiment(WRITTEN), "--rate", "20%,60%", "--slo", "p90 < 2s")
    done = steelyard.until_blocks(1, *words, "--dir", "c")
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
    assert "### Capacity and rates" in whole_report(record)
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


FACTORS = """\
factors:
  commit: {postgres: {synchronous_commit: ["on", "off"]}}
  statements: {simple: , prepared: {protocol: prepared}}
configurations:
  server: {target: {kind: local, server: embedded}}
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
    done = steelyard.until_blocks(4, "run", source, "--dir", "c", "--no-verdict")
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
    again = steelyard.run("report", "c", "--full", "--write")
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
