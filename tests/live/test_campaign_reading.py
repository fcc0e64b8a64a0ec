"""Long runs, and the verbs that read campaigns, on real PostgreSQL servers."""

import json

import pytest

from support.live import Steelyard, ending

pytestmark = pytest.mark.live


@pytest.mark.slow
def test_long_runs_follow_the_blocks_and_campaigns_can_be_read(steelyard: Steelyard) -> None:
    """One cycle of 30 s per configuration after the last block; then list, show and compare."""
    asking = (
        ending()
        .replace("seed: 7", "sustain: 10s\nseed: 7")
        .replace("bin: embedded}", "bin: embedded}\n    postgres: {checkpoint_timeout: 30s}")
    )
    source = steelyard.experiment(asking, "long.yaml")
    done = steelyard.run("run", source, "--out", "campaigns/long")
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
