"""What containers' files say, and the scripts that read them in a real bash."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.campaign.evidence import pods as accounts
from steelyard.campaign.evidence.pods import (
    Account,
    Devices,
    absent,
    loop_script,
    renewal,
    server_counters,
    server_levels,
    server_script,
)
from steelyard.core.measurement import Quantity
from steelyard.gateways.placed_files import FetchedHost, parse_fetched
from support.containers import account, recorded, server_files


def test_a_recorded_container_of_version_1() -> None:
    """CPU, its limit of 200m, throttling, disk of the volume, memory as the kubelet counts it."""
    seen = recorded("container-v1.txt")
    devices = Devices.of(seen)
    counted = server_counters(seen, devices)
    assert devices == Devices(data="254:0", wal=None)
    assert accounts.quota_cpus(seen) == 0.2
    assert accounts.usable_cpus(seen) == 0.2
    assert counted[Quantity.SERVER_CPU_S] == pytest.approx(_number(seen, "cpuacct.usage") / 1e9)
    assert counted[Quantity.THROTTLED_PERIODS] > 0
    assert counted[Quantity.DEVICE_WRITE_BYTES] > 0
    assert counted[Quantity.SERVER_READ_BYTES] == 8060928
    assert Quantity.SERVER_WRITTEN_BYTES not in counted
    levels = server_levels(seen)
    assert levels[Quantity.CPUS] == 2
    assert levels[Quantity.SERVER_MEMORY_BYTES] == 56279040
    assert levels[Quantity.SERVER_WORKING_SET_BYTES] < 56279040
    assert levels[Quantity.DISK_FREE_BYTES] < levels[Quantity.DISK_BYTES]
    assert levels[Quantity.SERVER_HUGE_BYTES] == 0
    assert {each.subject for each in absent(seen, counted | levels)} == {
        "server_written_bytes",
        "run-queue time of the server",
    }


def test_a_container_of_version_2() -> None:
    """The same quantities from usage_usec, cpu.max, io.stat and memory.current."""
    seen = account(server_files(10))
    counted = server_counters(seen, Devices.of(seen))
    assert counted[Quantity.SERVER_CPU_S] == 5.0
    assert counted[Quantity.QUOTA_PERIODS] == 100
    assert counted[Quantity.THROTTLED_PERIODS] == 30
    assert counted[Quantity.THROTTLED_S] == 1.0
    assert counted[Quantity.SERVER_READ_BYTES] == 10_000_000
    assert counted[Quantity.SERVER_WRITTEN_BYTES] == 20_000_000
    assert counted[Quantity.DEVICE_WRITES] == 1000
    assert counted[Quantity.CPU_PRESSURE_S] == 2.0
    levels = server_levels(seen)
    assert levels[Quantity.SERVER_CPUS] == 0.5
    assert levels[Quantity.SERVER_WORKING_SET_BYTES] == 3_000_000
    assert levels[Quantity.SERVER_HUGE_BYTES] == 64 * 1024 * 1024
    assert levels[Quantity.HUGE_PAGES_FREE] == 40


def test_a_container_without_a_quota_can_use_its_cpu_set() -> None:
    """No quota is no throttling, and no limit but the set of CPUs."""
    files = server_files(10) | {
        "/sys/fs/cgroup/cpu.max": "max 100000\n",
        "/sys/fs/cgroup/cpu.stat": "usage_usec 5\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n",
        "/sys/fs/cgroup/cpuset.cpus.effective": "1\n",
    }
    seen = account(files)
    assert accounts.throttled(seen) is None
    assert accounts.usable_cpus(seen) == 1.0
    assert Quantity.THROTTLED_S not in server_counters(seen, Devices())


def test_what_a_container_does_not_show_is_absent_with_a_reason() -> None:
    """Nothing is 0 that nobody saw: no group, no volume of a disk, no server, no pressure."""
    files = {"/proc/stat": "cpu  1 0 1 1 0 0 0 0 0 0\ncpu0 0\n"}
    seen = account(files)
    counted = server_counters(seen, Devices.of(seen)) | server_levels(seen)
    assert Quantity.SERVER_CPU_S not in counted
    told = {each.subject: each.reason for each in absent(seen, counted)}
    assert {"the server's processes", "pressure", "free disk", "huge pages of the server"} <= set(
        told
    )
    assert "device of the data directory" in told
    assert all(reason for reason in told.values())


@given(st.dictionaries(st.sampled_from(sorted(server_files(1))), st.text(max_size=60)))
def test_odd_files_are_no_figures_and_no_errors(files: dict[str, str]) -> None:
    """Whatever a container prints, the probe neither fails nor counts backwards."""
    seen = account(files)
    counted = server_counters(seen, Devices.of(seen)) | server_levels(seen)
    assert all(value >= 0 for value in counted.values())
    assert absent(seen, counted)


def _number(seen: accounts.Account, name: str) -> int:
    return int(seen.of_group(name) or "")


_MARK = "fetched-0123"
_SERVERS = ("postgres", "redis-server", "valkey-server")


def _printed(script: str) -> FetchedHost:
    done = subprocess.run(
        ["/bin/bash", "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    host = parse_fetched(done.stdout, _MARK)
    assert host is not None, done.stdout
    return host


def test_the_scripts_read_whole_files() -> None:
    """What bash printed is what stands in the files, to the last line."""
    host = _printed(server_script(_MARK, at_end=True))
    info = Path("/proc/meminfo").read_text().splitlines()
    lines = (host.read("/proc/meminfo") or "").splitlines()
    assert [line.partition(":")[0] for line in lines] == [line.partition(":")[0] for line in info]
    assert host.read("/proc/self/mountinfo")
    assert Account(host=host).own_cost_s


@pytest.mark.parametrize("name", _SERVERS)
def test_a_server_is_found_with_its_directory(tmp_path: Path, name: str) -> None:
    """A process of that name whose parent is none; its child is not taken for the first."""
    program = tmp_path / name
    program.write_bytes(Path("/bin/sleep").read_bytes())
    program.chmod(0o755)
    (tmp_path / "pg_wal").mkdir()
    with subprocess.Popen([program, "60"], cwd=tmp_path) as server:
        try:
            host = _printed(server_script(_MARK, at_end=False))
        finally:
            server.kill()
    found = host.number("pid")
    if found != server.pid:  # another server runs on this machine: one of them is found
        assert (Path(f"/proc/{found}/comm").read_text()).strip() in _SERVERS
        return
    assert host.resolved == {"data": str(tmp_path), "wal": str(tmp_path / "pg_wal")}


def test_the_loop_prints_until_its_lease_ends() -> None:
    """Turns about a second apart, each whole; first lines where they are asked for; then an end."""
    began = time.monotonic()
    script = loop_script(_MARK, ["/proc/uptime", "/proc/stat:2", "/nowhere"], lease_s=2)
    done = subprocess.run(
        ["/bin/bash", "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    turns = done.stdout.split(f"{_MARK} end\n")
    assert time.monotonic() - began >= 1.0
    assert len(turns) >= 3
    assert turns[-1] == ""
    first = parse_fetched(f"{turns[0]}{_MARK} end\n", _MARK)
    assert first is not None
    assert len((first.read("/proc/stat") or "").splitlines()) == 2
    assert first.number("pid")
    assert first.read("/nowhere") is None


def test_the_loop_is_renewed_and_ended_by_signals() -> None:
    """What `renewal` says makes it go on beyond its lease; a plain kill ends it."""
    script = loop_script(_MARK, ["/proc/uptime"], lease_s=2)
    with subprocess.Popen(["/bin/bash", "-c", script], stdout=subprocess.PIPE, text=True) as loop:
        assert loop.stdout is not None
        ends = 0
        for line in loop.stdout:
            ends += line == f"{_MARK} end\n"
            if ends == 5:
                break
            subprocess.run(["/bin/bash", "-c", renewal(loop.pid)], check=True, timeout=60)
        assert ends == 5
        os.kill(loop.pid, signal.SIGTERM)
        loop.stdout.read()
        loop.wait(timeout=60)
