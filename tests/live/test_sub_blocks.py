"""Sub-blocks on real servers: four combinations of which two fit into memory."""

import json
from pathlib import Path

import pytest

from steelyard.core.wording import MIB
from steelyard.record.directory import read_campaign, read_schedule
from support.live import TINY, Steelyard, lasting, whole_report

pytestmark = [pytest.mark.live, pytest.mark.slow]

_NAMES = {"server", "connections", "locks", "connections+locks"}


def _four_large_servers() -> str:
    """Return a factorial whose servers ask for 30 % of what is available each.

    They only read: a turn holds a hundred latencies, and others may write to the device.
    """
    amounts = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    buffers = (int(amounts["MemAvailable"].split()[0]) << 10) * 30 // 100 // MIB
    head = TINY[: TINY.index("configurations:")].replace("simple-update", "select-only")
    return (
        head.replace("baseline: default\n", "")
        + f"""\
factors:
  connections: {{postgres: {{max_connections: [100, 90]}}}}
  locks: {{postgres: {{max_locks_per_transaction: [64, 80]}}}}
configurations:
  server: {{target: {{kind: local, server: embedded}}, postgres: {{shared_buffers: {buffers}MB}}}}
"""
    )


def test_a_factorial_that_does_not_fit_alternates_in_sub_blocks(steelyard: Steelyard) -> None:
    """The plan says so; two servers are up at a time, the baseline in each sub-block.

    Two blocks show it; what the method makes of sub-blocks is a simulation's to show.
    """
    source = steelyard.experiment(lasting(_four_large_servers()))
    foretold = steelyard.run("run", source, "--dry-run", "--json")
    assert foretold.returncode == 0, foretold.stderr
    told = json.loads(foretold.stdout)
    assert (told["mode"], told["turns"]["memory"]["at_once"]) == ("alternating", 2)
    shown = " ".join(steelyard.run("run", source, "--dry-run").stdout.split())
    assert "alternating in sub-blocks of at most 2 configurations" in shown
    steelyard.until_blocks(2, "run", source, "--dir", "c", "--no-verdict")
    record = read_campaign(steelyard.directory / "c")
    drawn = read_schedule(steelyard.directory / "c").blocks
    indices = {block.index for block in record.blocks if block.complete}
    assert len(indices) >= 2
    for index in indices:
        runs = [run for run in record.counted_runs if run.block == index]
        for starts in drawn[index].sub_blocks:
            mine = [run for run in runs if run.sub_block == starts[0].sub_block]
            assert [run.configuration for run in mine] == [each.configuration for each in starts]
            assert len(mine) == 2
            assert "server" in {run.configuration for run in mine}
            first, second = mine
            took = [turn.began_s for run in mine for turn in run.turns]
            assert first.started_at == second.started_at
            assert len(took) == len(set(took)) > 0
        assert {run.configuration for run in runs} == _NAMES
    summary = json.loads((steelyard.directory / "c" / "summary.json").read_text())
    results = [c for c in summary["comparisons"] if c["clients"] == "pooled"]
    assert [c["configuration"] for c in results] == ["connections=90", "locks=80"]
    assert "in sub-blocks of at most 2" in whole_report(steelyard.directory / "c")
