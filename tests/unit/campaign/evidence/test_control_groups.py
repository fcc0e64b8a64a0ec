"""CPU quotas of control groups: which group binds a server, in both versions."""

from pathlib import Path

import pytest

from fakes.host import FakeHost
from steelyard.campaign.evidence.sources import group_with_quota, throttling
from steelyard.core.measurement import Vantage
from steelyard.gateways.host import Throttling, parse_throttling

_V1 = "nr_periods 120\nnr_throttled 45\nthrottled_time 1500000000\nnr_bursts 0\n"
_V2 = "usage_usec 9\nnr_periods 120\nnr_throttled 45\nthrottled_usec 1500000\n"
_EXPECTED = Throttling(periods=120, throttled=45, throttled_s=1.5)
_SERVER = Vantage(pid=77, data=Path("/srv/data"))


@pytest.mark.parametrize("text", [_V1, _V2])
def test_both_versions_say_the_same(text: str) -> None:
    """Nanoseconds of version 1 and microseconds of version 2 are the same seconds."""
    assert parse_throttling(text) == _EXPECTED


def test_a_group_without_the_controller_says_nothing() -> None:
    """Version 2 always has ``cpu.stat``, with the periods only where the controller is on."""
    assert parse_throttling("usage_usec 9\nuser_usec 4\n") is None
    assert parse_throttling("nr_periods 1\nnr_throttled 0\n") is None


@pytest.mark.parametrize(
    ("cgroup", "files", "expected"),
    [
        (
            "3:cpuset:/\n1:cpu,cpuacct:/db/pg\n",
            {
                "/sys/fs/cgroup/cpu,cpuacct/db/pg/cpu.cfs_quota_us": "60000\n",
                "/sys/fs/cgroup/cpu,cpuacct/db/pg/cpu.cfs_period_us": "100000\n",
            },
            "/sys/fs/cgroup/cpu,cpuacct/db/pg",
        ),
        (
            "1:cpu:/db/pg\n",
            {
                "/sys/fs/cgroup/cpu/db/pg/cpu.cfs_quota_us": "-1\n",
                "/sys/fs/cgroup/cpu/db/cpu.cfs_quota_us": "150000\n",
                "/sys/fs/cgroup/cpu/db/cpu.cfs_period_us": "100000\n",
            },
            "/sys/fs/cgroup/cpu/db",
        ),
        (
            "0::/pod/pg\n",
            {
                "/sys/fs/cgroup/pod/pg/cpu.max": "max 100000\n",
                "/sys/fs/cgroup/pod/cpu.max": "60000 100000\n",
            },
            "/sys/fs/cgroup/pod",
        ),
        ("0::/\n", {"/sys/fs/cgroup/cpu.max": "200000 100000\n"}, "/sys/fs/cgroup"),
        ("0::/../another/one\n", {"/sys/fs/cgroup/cpu.max": "200000 100000\n"}, None),
        (
            "0::/pod/pg\n",
            {
                "/sys/fs/cgroup/pod/pg/cpu.max": "200000 100000\n",
                "/sys/fs/cgroup/pod/cpu.max": "60000 100000\n",
            },
            "/sys/fs/cgroup/pod",
        ),
        (
            "0::/pod/pg\n",
            {
                "/sys/fs/cgroup/pod/pg/cpu.max": "60000 100000\n",
                "/sys/fs/cgroup/pod/cpu.max": "120000 200000\n",
            },
            "/sys/fs/cgroup/pod/pg",
        ),
        ("0::/\n", {"/sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
        ("odd\n:\n::::\n", {}, None),
    ],
    ids=[
        "own",
        "above",
        "version 2 above",
        "container",
        "another container",
        "tighter above",
        "equal",
        "no quota",
        "odd",
    ],
)
def test_the_group_with_the_smallest_quota_binds(
    cgroup: str, files: dict[str, str], expected: str | None
) -> None:
    """Of the server's own group and those above, the nearest of equal ones; -1 is none."""
    host = FakeHost(files={"/proc/77/cgroup": cgroup, **files})
    assert group_with_quota(host, _SERVER.pid) == expected


def test_groups_of_the_vantage_come_first() -> None:
    """A group that Steelyard made is asked before those that were there."""
    made = "/sys/fs/cgroup/cpu/steelyard"
    host = FakeHost(
        files={
            "/proc/77/cgroup": "1:cpu:/\n",
            "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "200000\n",
            f"{made}/cpu.cfs_quota_us": "60000\n",
            f"{made}/cpu.cfs_period_us": "100000\n",
            f"{made}/cpu.stat": _V1,
        }
    )
    blkio = Path("/sys/fs/cgroup/blkio/steelyard")
    vantage = Vantage(pid=77, data=Path("/srv/data"), groups=(blkio, Path(made)))
    assert group_with_quota(host, vantage.pid, vantage.groups) == made
    assert throttling(host, made) == _EXPECTED
    assert throttling(host, str(blkio)) is None
