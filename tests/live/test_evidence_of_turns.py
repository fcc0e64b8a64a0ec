"""Runs in turns of real servers are watched: what their evidence says is of their turns alone."""

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from steelyard.core.linux import Controller
from steelyard.core.wording import PrivilegeError
from steelyard.gateways.cgroups import Cgroups
from support.lacking import lacking
from support.live import TINY, Steelyard

pytestmark = [pytest.mark.live, pytest.mark.slow]

_CLIENTS = 2
_IN_TURNS = (
    TINY.replace("measure: {", "design: alternating\nmeasure: {")
    .replace("run_time: 1s, discard_start: 0s, warm_up: 0s", "run_time: 2s, warm_up: 3s")
    .replace("workloads:\n", "workloads:\n  - {name: reads, builtin: select-only, scale: 1}\n")
)
_CHARGED, _SPARED = "buffers", "default"
_ITS_SETTING = "64MB"  # of shared_buffers, which tells its server from the other
_NAME = "sy-neighbour"
_TOLD = 5  # of other processes
# It works half of the time, so that the servers work, too, and before all others: where two CPUs
# have much other work, no five processes can have used more than it. Its session of its own is for
# kernels that share the CPUs among sessions (autogroup).
_WORKS = f"""
import os, time
open("/proc/self/comm", "w").write("{_NAME}")
os.setpriority(os.PRIO_PROCESS, 0, -20)
if os.path.exists("/proc/self/autogroup"):
    open("/proc/self/autogroup", "w").write("-20")
print(flush=True)
while True:
    until = time.monotonic() + 0.005
    while time.monotonic() < until:
        pass
    time.sleep(0.005)
"""


@dataclass
class Neighbour:
    """A process that works whenever the server of one configuration does not stand still.

    It is no part of the server: it is put into the group that Steelyard freezes with it.
    """

    cache: Path
    root: Path  # of the hierarchy of control groups that freezes
    over: threading.Event = field(default_factory=threading.Event)
    worked: int = 0
    servers: set[int] = field(default_factory=set)  # processes of both configurations

    def follow(self) -> None:
        """Accompany each server of the configuration for as long as it is up."""
        beside: dict[str, subprocess.Popen[bytes]] = {}
        while not self.over.wait(0.02):
            servers = self._servers()
            for pid in beside.keys() - servers.keys():
                _end(beside.pop(pid))
            for pid in servers.keys() - beside.keys():
                beside[pid] = self._join(servers[pid])
        for process in beside.values():
            _end(process)

    def _servers(self) -> dict[str, Path]:
        """Return the groups of the configuration's first processes, by their ids."""
        found = {}
        for pid_file in self.cache.glob("live/*/*/*/data/postmaster.pid"):
            with suppress(OSError, IndexError, StopIteration):
                pid = pid_file.read_text().split()[0]
                children = Path("/proc", pid, "task", pid, "children").read_text().split()
                self.servers |= {int(pid), *map(int, children)}
                if _ITS_SETTING not in pid_file.with_name("postgresql.auto.conf").read_text():
                    continue
                groups = Path("/proc", pid, "cgroup").read_text()
                name = next(iter(re.findall(r"/(steelyard-\S+-server)", groups)))
                found[pid] = self.root / name
        return found

    def _join(self, group: Path) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(
            [sys.executable, "-c", _WORKS], stdout=subprocess.PIPE, start_new_session=True
        )
        assert process.stdout is not None
        process.stdout.readline()  # it has its name
        (group / "cgroup.procs").write_text(f"{process.pid}")
        self.worked += 1
        return process


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


@contextmanager
def _neighbour(cache: Path) -> Iterator[Neighbour]:
    """Let a neighbour follow what happens in a cache."""
    cgroups = Cgroups()
    try:
        if not cgroups.privileged:
            lacking("only root can freeze control groups")
        root = cgroups.hierarchy(Controller.FREEZER).root
    except PrivilegeError as error:
        lacking(error.message)
    neighbour = Neighbour(cache=cache, root=root)
    thread = threading.Thread(target=neighbour.follow)
    thread.start()
    try:
        yield neighbour
    finally:
        neighbour.over.set()
        thread.join()


def _whole(run: dict[str, Any]) -> float:
    return float(run["measurement"]["transactions"] + run["measurement"]["uncounted"])


def _own_cpu_s(run: dict[str, Any]) -> float:
    """Return what a neighbour used in a run, by its name; none where it is not among the first."""
    others = run["evidence"]["others"]
    return float(sum(other["cpu_s"] for other in others if other["name"] == _NAME))


def test_evidence_of_turns_is_of_the_turns(steelyard: Steelyard) -> None:
    """A block of real servers, beside a neighbour in the turns of one configuration alone.

    It is charged to that one and not to the other, which is no neighbour itself; waits, counters,
    CPU and device are of own turns, and the parts fit together.
    """
    with _neighbour(steelyard.cache) as neighbour:
        name = steelyard.experiment(_IN_TURNS)
        done = steelyard.until_blocks(1, "run", name, "--dir", "c")
    assert neighbour.worked >= 2, done.stderr
    complete = {(each["index"], each["attempt"]) for each in steelyard.blocks if each["complete"]}
    runs = [run for run in steelyard.runs if (run["block"], run["attempt"]) in complete]
    assert len(runs) >= 2 * 2
    for run in runs:
        _assert_of_its_turns(run)
    told = {other["pid"] for run in runs for other in run["evidence"]["others"]}
    assert not told & neighbour.servers
    assert neighbour.servers
    charged, spared = (
        sum(_own_cpu_s(run) for run in runs if run["configuration"] == configuration)
        for configuration in (_CHARGED, _SPARED)
    )
    if not charged and all(len(run["evidence"]["others"]) == _TOLD for run in runs):
        lacking(f"{_TOLD} other processes of this machine are busier than the neighbour")
    assert charged > 0.0
    assert spared < 0.05 * charged
    _assert_in_tables(steelyard.directory / "c")


def _assert_of_its_turns(run: dict[str, Any]) -> None:
    evidence, totals = run["evidence"], run["evidence"]["totals"]
    seconds = evidence["seconds"]
    in_turns_s = sum(turn["seconds"] for turn in run["turns"])
    lasted_s = run["turns"][-1]["began_s"] + run["turns"][-1]["seconds"]
    assert in_turns_s < seconds
    # CPUs that are used, idle or stolen are all that there are in so many seconds, in ticks.
    modes = ("user", "system", "iowait", "idle", "steal")
    cpus_s = sum(totals[f"cpu_{mode}_s"] for mode in modes)
    assert cpus_s == pytest.approx(evidence["levels"]["cpus"] * seconds, rel=0.15)
    parts = ("server", "generator", "steelyard", "others")
    used_s = sum(totals[f"{part}_cpu_s"] for part in parts)
    assert used_s == pytest.approx(totals["cpu_user_s"] + totals["cpu_system_s"], rel=0.01)
    assert 0.0 < totals["server_cpu_s"] < evidence["levels"]["cpus"] * seconds
    assert totals["generator_cpu_s"] > 0.0
    # Sessions commit a little more than pgbench counts: what they do when they begin.
    assert _whole(run) <= totals["commits"] <= _whole(run) * 1.01 + 50
    waits = evidence["waits"]
    assert waits["source"] == "pg_stat_activity in turns"
    assert 0 < waits["samples"] <= 10 * seconds, "as often as in one piece, and not in pauses"
    assert sum(event["sessions"] for event in waits["events"]) == pytest.approx(_CLIENTS, rel=0.2)
    if "device_writes" in totals:
        assert {"settling_write_bytes", "settled_write_bytes"} <= totals.keys()
        assert totals["settling_s"] + totals["settled_s"] < seconds
        assert totals["settling_s"] + totals["settled_s"] > in_turns_s
        assert totals["settled_s"] + totals["settling_s"] < lasted_s, "the other's are not in it"
    assert not [gone for gone in evidence["absent"] if gone["subject"] in ("server", "the machine")]
    ends = [series["end_s"] for series in evidence["series"]]
    assert all(end_s == sorted(end_s) and end_s[-1] <= seconds + 0.01 for end_s in ends)
    assert run["measurement"]["series"][-1]["end_s"] <= seconds


def _assert_in_tables(record: Path) -> None:
    """The tables of the record have rows of both configurations."""
    for name in ("host", "waits", "counters"):
        rows = pq.read_table(record / f"{name}.parquet").to_pylist()
        assert {row["configuration"] for row in rows} == {_CHARGED, _SPARED}
    summary = json.loads((record / "summary.json").read_text())
    assert summary["comparisons"] or summary["blocks"]
