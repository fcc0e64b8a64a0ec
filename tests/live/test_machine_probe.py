"""The machine probe on this machine: its sums close, a neighbour has a name, a quota shows."""

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from steelyard.campaign.evidence.machine import MachineProbe
from steelyard.core.measurement import Evidence, Vantage
from steelyard.gateways.host import LocalHost
from support.lacking import lacking
from support.live import Steelyard, wait_for
from support.watching import seen_by

pytestmark = pytest.mark.live

_V1_CPU = Path("/sys/fs/cgroup/cpu")
_NEIGHBOUR = "busy-neighbour"  # a program's name has at most 15 characters
_ONE_RUN = """\
version: 1
name: one run
design: single-pass
workloads:
  - {name: writes, builtin: simple-update, scale: 1}
load: {clients: 4, threads: 2, protocol: simple}
measure: {run_time: 4s, discard_start: 0s, warm_up: 0s}
configurations:
  server:
    target: {kind: local, server: embedded}
"""


@contextmanager
def _neighbour(directory: Path) -> Iterator[int]:
    """Run a busy loop whose program has a name of its own; no child of ours, or it were ours."""
    program = directory / _NEIGHBOUR
    program.symlink_to(sys.executable)
    started = subprocess.run(
        ["/bin/sh", "-c", f"'{program}' -c 'while True: pass' >/dev/null 2>&1 & echo $!"],
        env={**os.environ, "PYTHONHOME": sys.base_prefix},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        start_new_session=True,
    )
    pid = int(started.stdout)
    with suppress(OSError):  # only root may; only the heaviest are named, and other tests work too
        os.setpriority(os.PRIO_PROCESS, pid, -20)
        Path(f"/proc/{pid}/autogroup").write_text("-20")
    try:
        wait_for(lambda: _cpu_s(pid) >= 0.2)
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _watched(vantage: Vantage | None, seconds: float) -> Evidence:
    machine = MachineProbe(host=LocalHost(), vantage=vantage)
    return seen_by(lambda: time.sleep(seconds), machine=machine)[1]


@pytest.mark.slow
def test_the_cpus_of_a_campaigns_runs_add_up(steelyard: Steelyard) -> None:
    """Server, generator, Steelyard, others and what was not used are all CPUs for all seconds.

    Each part has a source of its own, and what is left for others must not have been cut at 0:
    that would be a part counted twice.
    """
    done = steelyard.run(
        "run", steelyard.experiment(_ONE_RUN), "--dir", "c", "--no-verdict", "--quiet"
    )
    assert done.returncode == 0, done.stderr
    found = [run["evidence"] for run in steelyard.runs]
    assert found
    assert all(found)
    for evidence in found:
        totals, levels = evidence["totals"], evidence["levels"]
        used = ("server", "generator", "steelyard", "others")
        parts = [totals[f"{part}_cpu_s"] for part in used]
        parts += [totals[f"cpu_{mode}_s"] for mode in ("idle", "iowait", "steal")]
        assert sum(parts) == pytest.approx(levels["cpus"] * evidence["seconds"], rel=0.05)
        assert totals["server_cpu_s"] > totals["generator_cpu_s"] > 0
        assert totals["server_run_queue_s"] >= 0
        series = next(each for each in evidence["series"] if each["subject"] == "host")
        column = series["names"].index("server_cpu_s")
        whole = sum(row[column] for row in series["rows"])
        assert whole == pytest.approx(totals["server_cpu_s"], abs=0.05)
    assert (steelyard.directory / "c" / "host.parquet").stat().st_size > 0


def test_a_busy_loop_beside_it_is_named(tmp_path: Path) -> None:
    """A neighbour appears with its program's name and the CPU that the kernel counts for it."""
    with _neighbour(tmp_path) as pid:
        before = _cpu_s(pid)
        evidence = _watched(None, 2.0)
        used_s = _cpu_s(pid) - before
    mine = [other for other in evidence.others if other.pid == pid]
    assert [other.name for other in mine] == [_NEIGHBOUR]
    assert mine[0].cpu_s == pytest.approx(used_s, rel=0.15)
    assert evidence.totals["others_cpu_s"] >= 0.8 * mine[0].cpu_s
    assert [absence.subject for absence in evidence.absent] == ["the server's machine"]


def test_a_process_of_ours_is_no_neighbour(tmp_path: Path) -> None:
    """The same loop as the server that is watched: its CPU is the server's, under no name."""
    with _neighbour(tmp_path) as pid:
        before = _cpu_s(pid)
        evidence = _watched(Vantage(pid=pid, data=tmp_path), 2.0)
        used_s = _cpu_s(pid) - before
    # The probe's own beginning and end are not watched.
    assert 0.5 * used_s < evidence.totals["server_cpu_s"] < used_s + 0.05
    assert pid not in [other.pid for other in evidence.others]
    assert evidence.levels["disk_bytes"] > evidence.levels["disk_free_bytes"] > 0


@contextmanager
def _quota(pid: int) -> Iterator[Path]:
    """Put a process under a quota of a fifth of a CPU, and take the group away afterwards."""
    if os.geteuid() != 0 or not (_V1_CPU / "cpu.cfs_quota_us").exists():
        lacking("a CPU quota needs root and a cgroup hierarchy of version 1 with cpu")
    group = _V1_CPU / f"steelyard-test-{secrets.token_hex(4)}"
    group.mkdir()
    try:
        (group / "cpu.cfs_period_us").write_text("50000")
        (group / "cpu.cfs_quota_us").write_text("10000")
        (group / "cgroup.procs").write_text(str(pid))
        yield group
    finally:
        (_V1_CPU / "cgroup.procs").write_text(str(pid))
        group.rmdir()


@pytest.mark.parametrize("told", [True, False], ids=["of the vantage", "found by itself"])
def test_a_quota_shows_as_throttled_periods(tmp_path: Path, *, told: bool) -> None:
    """A busy process under a quota is held back in its periods, whoever made the group."""
    with _neighbour(tmp_path) as pid, _quota(pid) as group:
        vantage = Vantage(pid=pid, data=tmp_path, groups=(group,) if told else ())
        evidence = _watched(vantage, 2.0)
    totals = evidence.totals
    assert totals["quota_periods"] >= totals["throttled_periods"] > 0
    assert totals["throttled_s"] > 0
    assert totals["server_cpu_s"] < 0.5 * evidence.seconds
    assert not [absence for absence in evidence.absent if absence.subject == "throttling"]
