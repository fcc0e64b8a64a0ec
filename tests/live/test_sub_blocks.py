"""Sub-blocks on real servers: four combinations of which two fit into memory; the death of one."""

import json
import signal
from pathlib import Path

import pytest

from steelyard.core.wording import MIB
from steelyard.record.directory import read_campaign, read_schedule
from support.live import TINY, Steelyard, lasting, living_servers, wait_for

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
  server: {{target: {{kind: local, bin: embedded}}, postgres: {{shared_buffers: {buffers}MB}}}}
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
    steelyard.until_blocks(2, "run", source, "--out", "c", "--yes")
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
    assert "in sub-blocks of at most 2" in (steelyard.directory / "c" / "report.md").read_text()


def test_a_campaign_in_sub_blocks_that_was_killed_goes_on(steelyard: Steelyard) -> None:
    """In the middle of a sub-block: the whole block is redone, and its order is the stored one."""
    # Turns enough that some of them are whole where the machine is busy.
    text = lasting(_four_large_servers()).replace("slice: 1s", "slice: 3s")
    source = steelyard.experiment(text)
    process = steelyard.start("run", source, "--out", "c", "--yes")

    def in_a_later_sub_block() -> bool:
        journal = steelyard.journal
        if steelyard.complete_blocks < 1 or not journal:
            return False
        works = any("pgbench" in line for line in living_servers(steelyard.cache))
        return works and journal[-1]["kind"] == "run"

    wait_for(in_a_later_sub_block, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    drawn = (steelyard.directory / "c" / "schedule.json").read_bytes()
    before = read_campaign(steelyard.directory / "c")
    complete = {block.index for block in before.blocks if block.complete}
    steelyard.resumed_for_a_block()
    after = read_campaign(steelyard.directory / "c")
    assert (steelyard.directory / "c" / "schedule.json").read_bytes() == drawn
    again = {block.index for block in after.blocks if block.complete} - complete
    assert again
    for index in again:
        runs = [run for run in after.counted_runs if run.block == index]
        assert [run.sub_block for run in runs] == [0, 0, 1, 1, 2, 2]
        assert {run.configuration for run in runs} == _NAMES
        assert len({run.attempt for run in runs}) == 1
    assert steelyard.run("clean", "--dry-run").stdout.startswith("No campaign has left anything")
