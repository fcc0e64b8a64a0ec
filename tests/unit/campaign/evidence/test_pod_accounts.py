"""What containers' files say, of both versions of control groups, recorded and made."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.campaign.evidence import pod_script as accounts
from steelyard.campaign.evidence.pods import (
    Devices,
    absent,
    server_counters,
    server_levels,
)
from steelyard.core.measurement import Quantity
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
