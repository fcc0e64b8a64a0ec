"""Campaigns in turns on real Redis servers of this machine, and their death in a turn."""

import math
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from steelyard.core.schedule import TurnTimes
from support.live import Steelyard, living_servers, wait_for
from support.redis import require_redis

pytestmark = pytest.mark.live

# In pipelines a request costs little but its command, and a hash that is kept as a list is searched
# from its beginning: on a quiet machine that is a fifth of the rate.
KNOWN = """\
version: 1
name: a hash kept as a list
baseline: plain
design: alternating
workloads:
  - {name: fields, builtin: hset, keys: 1000, value_bytes: 64}
loads: {clients: 2, threads: 1, pipeline: 32}
measure: {slice: 2s, warm_up: 1s}
stop: {budget: 20m, precision: 0.1%}
seed: 7
configurations:
  plain:
    target: {kind: redis-local}
    redis: {save: "", appendonly: "no"}
  listed:
    extends: plain
    redis: {hash-max-listpack-entries: 100000}
"""
_DIES_WITHIN_S = 30.0


def ratios(runs: list[dict[str, Any]], configuration: str, baseline: str) -> list[float]:
    """Return the log ratio of each block."""
    rates: dict[int, dict[str, float]] = defaultdict(dict)
    for run in runs:
        turns = run["turns"]
        rate = sum(turn["transactions"] for turn in turns) / sum(turn["seconds"] for turn in turns)
        rates[run["block"]][run["configuration"]] = rate
    both = [each for each in rates.values() if {configuration, baseline} <= each.keys()]
    return [math.log(each[configuration] / each[baseline]) for each in both]


@pytest.mark.slow
def test_a_known_effect_shows_in_turns_that_the_server_counted(steelyard: Steelyard) -> None:
    """A server that searches a list answers fewer, in a block of 8 turns each.

    On a busy machine turns are longer, and fewer: at most half of those in the plan are lost.

    Each turn counts what ended in it after the settling, by the server; no latency is made up.
    """
    require_redis()
    done = steelyard.until_blocks(1, "run", steelyard.experiment(KNOWN), "--out", "c", "--yes")
    assert done.returncode == 130
    runs = steelyard.counted_runs
    found = ratios(runs, "listed", "plain")
    assert all(each < -0.3 for each in found)
    assert len(found) == steelyard.complete_blocks
    (plan,) = (entry["plan"] for entry in steelyard.journal if entry["kind"] == "planned")
    (planned,) = (TurnTimes(**each["times"]).turns_in(2.0) for each in plan["turns"])
    for run in runs:
        assert run["latency"] is None
        assert run["measurement"]["latency_mean_s"] is None
        assert len(run["turns"]) >= 0.5 * planned
        for turn in run["turns"]:
            assert turn["seconds"] > 0.0
            assert 0 < turn["early"] < turn["transactions"]
        # What settled and warmed up, and more than half of each turn where nobody disturbs it.
        assert run["measurement"]["uncounted"] > sum(turn["early"] for turn in run["turns"])
    report = (steelyard.directory / "c" / "report.md").read_text()
    assert "keeps no log" in report


def in_a_turn(steelyard: Steelyard) -> bool:
    """Return whether a generator works on the blocks of a campaign."""
    begun = any(entry["kind"] == "block-started" for entry in steelyard.journal)
    return begun and any("redis-benchmark" in line for line in living_servers(steelyard.cache))


def states_in(cache: Path) -> list[str]:
    """Return the state of each process that works below a directory, whatever it is."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                inside = str((entry / "cwd").readlink()).startswith(f"{cache}/")
                if inside:
                    found.append((entry / "stat").read_text().rpartition(")")[2].split()[0])
            except OSError:
                continue
    return found


@pytest.mark.slow
def test_nothing_stands_still_for_ever_after_kill_9(steelyard: Steelyard) -> None:
    """Killed in the turns of a block, no server and no generator of it is left, paused or not."""
    require_redis()
    process = steelyard.start("run", steelyard.experiment(KNOWN), "--out", "c", "--yes")
    wait_for(lambda: in_a_turn(steelyard), process)
    time.sleep(0.7)  # some turns
    process.kill()
    process.communicate()
    deadline = time.monotonic() + _DIES_WITHIN_S
    while states_in(steelyard.cache) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert states_in(steelyard.cache) == []
    assert steelyard.run("clean", "--yes").returncode == 0
