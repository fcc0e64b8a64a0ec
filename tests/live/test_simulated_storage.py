"""Simulated storage under real servers: what was put in comes out, and nothing is left behind."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from shutil import which

import pytest

from steelyard.gateways.stores import PROGRAMS
from steelyard.record.directory import read_campaign
from support.lacking import lacking
from support.live import TINY, Steelyard, lasting, living_servers, wait_for
from support.machine_lock import machine
from support.power import loops_below, mounts_below

__all__ = ["machine"]
pytestmark = [pytest.mark.live, pytest.mark.machine, pytest.mark.slow]

_LATENCY_S = 0.004
_TWO = """\
configurations:
  disk: {target: {kind: local, bin: embedded, store: {}}}
  replica: {extends: disk, target: {store: {latency: 4ms}}}
"""


@pytest.fixture
def stored(machine: None, steelyard: Steelyard) -> Iterator[Steelyard]:
    """Steelyard where storage can be simulated; no mount and no loop device is left after it."""
    if os.geteuid() != 0 or not Path("/dev/fuse").exists():
        lacking("only root may mount file systems, and the kernel needs FUSE")
    if any(which(name) is None for name in PROGRAMS):
        lacking("there is no xfsprogs")
    yield steelyard
    steelyard.end_all()
    left = [*mounts_below(steelyard.cache), *loops_below(steelyard.cache)]
    steelyard.run("clean", "--yes")
    assert left == []


def _source(steelyard: Steelyard) -> Path:
    text = TINY[: TINY.index("configurations:")].replace("baseline: default", "baseline: disk")
    return steelyard.experiment(lasting(text + _TWO))


def test_the_latency_of_a_flush_is_in_each_commit(stored: Steelyard) -> None:
    """Each transaction takes longer by some flushes, and the result says so."""
    source = _source(stored)
    stored.until_blocks(6, "run", source, "--out", "c", "--yes")
    record = read_campaign(stored.directory / "c")
    means: dict[str, list[float]] = {"disk": [], "replica": []}
    for run in record.counted_runs:
        seconds = run.measurement.seconds / run.measurement.transactions * run.cell.load.clients
        means[run.configuration].append(seconds)
    added = sum(means["replica"]) / len(means["replica"]) - sum(means["disk"]) / len(means["disk"])
    # Commits share flushes and wait for each other's; on WAL whose blocks a copy shares XFS writes
    # its own journal, too, and flushes three times.
    assert 0.5 * _LATENCY_S < added < 10.0 * _LATENCY_S
    summary = json.loads((stored.directory / "c" / "summary.json").read_text())
    pooled = next(each for each in summary["comparisons"] if each["clients"] == "pooled")
    assert pooled["effect_percent"] < -10.0
    assert "simulated, 4 ms per flush" in (stored.directory / "c" / "report.md").read_text()


def test_a_death_leaves_what_clean_unmounts(stored: Steelyard) -> None:
    """After kill -9 the mounts are found, told, unmounted and removed."""
    running = stored.start("run", _source(stored), "--out", "c", "--yes")
    wait_for(lambda: bool(living_servers(stored.cache)))
    assert len(mounts_below(stored.cache)) == 4
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    wait_for(lambda: not living_servers(stored.cache))
    cleaned = stored.run("clean", "--yes")
    assert cleaned.returncode == 0, cleaned.stderr
    assert mounts_below(stored.cache) == loops_below(stored.cache) == []
    assert not list(stored.cache.glob("stores/live/*"))
