"""Campaigns in turns on real servers: verdict and record, deaths and Ctrl-C at instants, memory."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from steelyard.core.wording import MIB
from steelyard.gateways.cgroups import Cgroups
from steelyard.record.directory import read_campaign
from support.live import TINY, Steelyard, interrupted, lasting, living_servers, wait_for

pytestmark = [pytest.mark.live, pytest.mark.slow]

_IN_TURNS = TINY.replace("measure: {", "design: alternating\nmeasure: {")
# A turn holds a hundred latencies, and others may write to the device.
_READING = _IN_TURNS.replace("simple-update", "select-only")
_DERIVED = ("report.md", "report.html", "summary.json", "runs.parquet", "intervals.parquet")


def _is_in_a_later_block(steelyard: Steelyard, *, at_work: bool) -> bool:
    """Return whether the load works in a block after the first, or servers start for it."""
    journal = steelyard.journal
    if steelyard.complete_blocks < 1 or journal[-1]["kind"] != "block-started":
        return False
    return any("pgbench" in line for line in living_servers(steelyard.cache)) is at_work


def _groups(steelyard: Steelyard) -> list[Path]:
    """Return the control groups of the campaign, frozen or not."""
    name = f"steelyard-{steelyard.campaign_id}*"
    return [group for root in Cgroups().roots() for group in root.glob(name)]


def test_a_campaign_in_turns_ends_with_a_verdict_in_every_form(steelyard: Steelyard) -> None:
    """One command: reads and writes, each run with its turns; the report says how it was done.

    It is rebuilt from the record alone to the same bytes.
    """
    text = _IN_TURNS.replace(
        "workloads:", "workloads:\n  - {name: reads, builtin: select-only, scale_factor: 1}"
    ).replace("warm_up: 0s", "warm_up: 500ms, reconnections: 1")
    done = steelyard.run("run", steelyard.experiment(text), "--out", "c")
    assert done.returncode == 0, done.stderr
    summary: dict[str, Any] = json.loads((steelyard.directory / "c" / "summary.json").read_text())
    results = [c for c in summary["comparisons"] if c["clients"] == "pooled"]
    assert {c["workload"] for c in results} == {"reads", "writes"}
    assert all(c["blocks"] >= 6 and c["low_percent"] < c["high_percent"] for c in results)
    assert summary["design"]["mode"] == "alternating"
    record = read_campaign(steelyard.directory / "c")
    for run in record.counted_runs:
        measured = run.measurement
        assert measured is not None
        assert {turn.round for turn in run.turns} <= set(range(4))
        assert measured.transactions == sum(turn.transactions for turn in run.turns) > 0
        assert measured.seconds == pytest.approx(sum(turn.seconds for turn in run.turns))
        assert measured.latency_mean_s is not None
        assert run.latency is not None
    for place in {(run.block, run.cell) for run in record.counted_runs}:
        pair = [run for run in record.counted_runs if (run.block, run.cell) == place]
        assert len({tuple(turn.round for turn in run.turns) for run in pair}) == 1
        reads_first = [run.cell.workload for run in record.counted_runs if run.block == place[0]]
        assert reads_first == ["reads"] * 2 + ["writes"] * 2
    assert "the load takes turns" in (steelyard.directory / "c" / "report.md").read_text()
    assert "the load takes turns" in (steelyard.directory / "c" / "report.html").read_text()
    assert "tps" in done.stdout
    first = {name: (steelyard.directory / "c" / name).read_bytes() for name in _DERIVED}
    for name in _DERIVED:
        (steelyard.directory / "c" / name).unlink()
    assert steelyard.run("report", "c").returncode == 0
    assert {n: (steelyard.directory / "c" / n).read_bytes() for n in _DERIVED} == first
    assert _groups(steelyard) == []


def test_a_campaign_in_turns_that_was_killed_goes_on(steelyard: Steelyard) -> None:
    """Its record can be read, what was complete is kept, and the block in flight is redone."""
    source = steelyard.experiment(lasting(_READING))
    process = steelyard.start("run", source, "--out", "c", "--yes")
    wait_for(lambda: _is_in_a_later_block(steelyard, at_work=True), process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    path = steelyard.directory / "c" / "journal.jsonl"
    acknowledged = path.read_bytes()
    acknowledged = acknowledged[: acknowledged.rfind(b"\n") + 1]
    before = read_campaign(steelyard.directory / "c")
    complete = {block.index for block in before.blocks if block.complete}
    in_flight = {e["index"] for e in steelyard.journal if e["kind"] == "block-started"} - complete
    steelyard.resumed_for_a_block()
    after = read_campaign(steelyard.directory / "c")
    assert path.read_bytes().startswith(acknowledged)
    assert list(after.counted_runs)[: len(before.counted_runs)] == list(before.counted_runs)
    again = {block.index for block in after.blocks if block.complete} - complete
    assert in_flight <= again
    assert again
    for index in again:
        runs = [run for run in after.counted_runs if run.block == index]
        assert {run.configuration for run in runs} == {"default", "buffers"}
        assert all(run.turns for run in runs)
    assert _groups(steelyard) == []


def test_ctrl_c_leaves_nothing_that_runs_or_stands_still(steelyard: Steelyard) -> None:
    """While servers start it ends in order at once, with what is complete, and may be resumed."""
    source = steelyard.experiment(lasting(_READING))
    process = steelyard.start("run", source, "--out", "c", "--yes")
    wait_for(lambda: _is_in_a_later_block(steelyard, at_work=False), process)
    complete = steelyard.complete_blocks
    interrupted(process)
    assert living_servers(steelyard.cache) == []
    assert _groups(steelyard) == []
    assert steelyard.blocks_left_complete >= complete >= 1
    assert read_campaign(steelyard.directory / "c").status.value == "interrupted"
    assert steelyard.run("clean", "--dry-run").stdout.startswith("No campaign has left anything")


def _with_buffers(text: str, size_bytes: int) -> str:
    """Return an experiment whose two servers ask for so much each."""
    buffers = f"{size_bytes // MIB}MB"
    return text.replace(
        "embedded}", f"embedded}}\n    postgres: {{shared_buffers: {buffers}}}"
    ).replace("shared_buffers: 64MB", f"shared_buffers: {buffers}, max_connections: 90")


def test_servers_that_do_not_fit_together_are_measured_one_by_one(steelyard: Steelyard) -> None:
    """The plan says so before anything is started; whoever asks for turns is refused."""
    amounts = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    large = (int(amounts["MemAvailable"].split()[0]) << 10) * 45 // 100
    foretold = {}
    for name, size in (("small", 64 * MIB), ("large", large)):
        source = steelyard.experiment(_with_buffers(TINY, size), f"{name}.yaml")
        done = steelyard.run("run", source, "--dry-run", "--json")
        assert done.returncode == 0, done.stderr
        foretold[name] = json.loads(done.stdout)
    assert (foretold["small"]["mode"], foretold["large"]["mode"]) == ("alternating", "starts")
    told = steelyard.run("run", "large.yaml", "--dry-run").stdout
    assert "of memory are available" in " ".join(told.split())
    source = steelyard.experiment(_with_buffers(_IN_TURNS, large), "asks.yaml")
    refused = steelyard.run("run", source, "--dry-run")
    assert refused.returncode == 2
    assert "the configurations cannot alternate: together they may take" in refused.stderr
    assert "Leave `design` out" in refused.stderr
