"""A single pass, long runs, and the verbs that read campaigns, on real PostgreSQL servers."""

import json

import pytest

from support.live import TINY, Steelyard

pytestmark = pytest.mark.live

PASS = """\
version: 1
name: a pass
design: single-pass
workloads:
  - {name: reads, builtin: select-only, scale_factor: 1}
  - {name: writes, builtin: simple-update, scale_factor: 1}
loads: {clients: [1, 2], threads: [1, 2]}
measure: {slice: 1s, ramp: 0s, warm_up: 0s}
stop: {budget: 5m}
seed: 7
configurations:
  server:
    target: {kind: local, bin: embedded}
"""


@pytest.mark.slow
def test_a_single_pass_runs_every_cell_once(steelyard: Steelyard) -> None:
    """Exit code 0, no verdict, and the label in title, summary and list."""
    done = steelyard.run("run", steelyard.experiment(PASS, "pass.yaml"), "--out", "campaigns/pass")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("a pass (single unrepeated pass)")
    assert "no interval, no verdict" in done.stdout
    summary = json.loads((steelyard.directory / "campaigns/pass/summary.json").read_text())
    assert summary["single_pass"] is True
    assert summary["comparisons"] == []
    assert [cell["runs"] for cell in summary["cells"]] == [1] * 6
    assert "single unrepeated pass" in steelyard.run("list").stdout


@pytest.mark.slow
def test_long_runs_follow_the_blocks_and_campaigns_can_be_read(steelyard: Steelyard) -> None:
    """One cycle of 30 s per configuration after the last block; then list, show and compare."""
    asking = TINY.replace("seed: 7", "sustain: 10s\nseed: 7").replace(
        "bin: embedded}", "bin: embedded}\n    postgres: {checkpoint_timeout: 30s}"
    )
    source = steelyard.experiment(asking, "long.yaml")
    done = steelyard.run("run", source, "--out", "campaigns/long", "--set", "stop.precision=90%")
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
