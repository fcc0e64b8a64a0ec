"""What a machine counts: devices, links, the main thread, memory, and quotas of control groups."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fakes.host import FakeHost
from steelyard.campaign.evidence.machine import server_levels
from steelyard.campaign.evidence.neighbours import (
    LinkSums,
    bytes_by_node,
    huge_bytes,
    remote_fraction,
)
from steelyard.campaign.evidence.processes import ServerProcesses
from steelyard.campaign.evidence.server import MainThread
from steelyard.campaign.evidence.sources import (
    BlockDevice,
    group_with_quota,
    parse_device,
    throttling,
)
from steelyard.core.measurement import Quantity, Vantage
from steelyard.gateways.host import Throttling, parse_throttling
from support.recorded_host import RECORDINGS, SERVER, maps_of, recorded_files, recorded_host
from support.recorded_iostat import RECORDED, SECONDS, printed_by_iostat, used_as_recorded

_KIB = 1024


def test_counters_are_those_of_iostat() -> None:
    """Every column of iostat -x that comes from one of them, to the two digits it prints."""
    printed = printed_by_iostat()
    used = {q.value.removeprefix("device_"): n for q, n in used_as_recorded().items()}
    expected = {
        "r/s": used["reads"] / SECONDS,
        "w/s": used["writes"] / SECONDS,
        "rkB/s": used["read_bytes"] / SECONDS / _KIB,
        "wkB/s": used["write_bytes"] / SECONDS / _KIB,
        "rareq-sz": used["read_bytes"] / used["reads"] / _KIB,
        "wareq-sz": used["write_bytes"] / used["writes"] / _KIB,
        "r_await": used["read_s"] / used["reads"] * 1000,
        "w_await": used["write_s"] / used["writes"] * 1000,
        "aqu-sz": used["queue_s"] / SECONDS,
        "%util": used["busy_s"] / SECONDS * 100,
        "f/s": used["flushes"] / SECONDS,
        "f_await": used["flush_s"] / used["flushes"] * 1000,
    }
    assert all(value > 0 for value in expected.values())
    for column, value in expected.items():
        assert value == pytest.approx(printed[column], abs=0.0051), column


def test_flushes_of_a_partition_are_unknown() -> None:
    """The kernel shows 0 there without counting; old kernels have no such field at all."""
    text = (RECORDED / "after.stat").read_text()
    whole, part = parse_device(text), parse_device(text, is_partition=True)
    old = parse_device(" ".join(text.split()[:11]))
    assert whole[Quantity.DEVICE_FLUSHES] == 600
    assert Quantity.DEVICE_FLUSH_S in whole
    assert part == old
    assert whole.keys() - old.keys() == {Quantity.DEVICE_FLUSHES, Quantity.DEVICE_FLUSH_S}
    assert whole | old == whole


def test_a_partition_is_read_by_itself() -> None:
    """The partition's own counters, not those of the disk that it is on."""
    stat = (RECORDED / "after.stat").read_text()
    files = {
        "/sys/dev/block/8:0/stat": stat,
        "/sys/dev/block/8:2/stat": stat.replace("3000", "2000", 1),
        "/sys/dev/block/8:2/partition": "2\n",
        "/srv/data/x": "",
        "/mnt/x": "",
    }
    host = FakeHost(files=files, devices={"/": (0, 31), "/srv/": (8, 2)})
    device = BlockDevice.of(host, "/srv/data")
    assert device is not None
    assert device.is_partition
    assert device.counters()[Quantity.DEVICE_READS] == 2000
    assert Quantity.DEVICE_FLUSHES not in device.counters()
    assert BlockDevice.of(host, "/mnt") is None, "a device without counters of its own"
    assert BlockDevice.of(host, "/absent") is None


_FULL = 125_000_000.0  # bytes a second through 1000 Mbit/s


def _host(**names: tuple[str, float, float]) -> FakeHost:
    """Return a machine with links: speed in Mbit/s as it says it, bytes received and sent."""
    files = {}
    for name, (speed, received, sent) in names.items():
        place = f"/sys/class/net/{name}"
        files[f"{place}/speed"] = f"{speed}\n"
        files[f"{place}/statistics/rx_bytes"] = f"{received:.0f}\n"
        files[f"{place}/statistics/tx_bytes"] = f"{sent:.0f}\n"
    return FakeHost(files=files)


def _busiest(before: FakeHost, after: FakeHost, seconds: float = 2.0) -> float | None:
    """Return what was used of the links in a run."""
    sums = LinkSums(host=(host := FakeHost(files=before.files)))
    sums.begin()
    host.files = after.files
    sums.end()
    return sums.busiest_fraction(seconds)


def test_the_busier_direction_of_the_busiest_link_counts() -> None:
    """Received at 40 % of its speed, sent at 10 %; another link stands by."""
    before = _host(eth0=("1000", 5.0, 5.0), eth1=("100", 0.0, 0.0))
    after = _host(eth0=("1000", 5 + 2 * 0.4 * _FULL, 5 + 0.2 * _FULL), eth1=("100", 9, 9))
    assert _busiest(before, after) == pytest.approx(0.4)


def test_a_link_without_a_speed_cannot_be_full() -> None:
    """Virtual ones say -1 or nothing, and the loopback has none."""
    host = _host(eth0=("-1", 0, 0), lo=("10000", 0, 0), veth=("", 0, 0))
    assert _busiest(host, host) is None


def test_a_link_that_came_or_was_reset_counts_for_nothing() -> None:
    """Its counter begins anew: that is no traffic below nothing."""
    before = _host(eth0=("1000", 900.0, 900.0))
    after = _host(eth0=("1000", 1.0, 1.0), eth1=("1000", 1e12, 1e12))
    assert _busiest(before, after) == 0.0
    assert _busiest(before, after, 0.0) is None


_PLACE = "/proc/7/task/7"


def _stat(state: str, name: str = "redis-server") -> str:
    return f"7 ({name}) {state} 1 7 7 0 -1 4194304 1 0\n"


@dataclass
class _Machine(FakeHost):
    """One whose files a test may change while it is watched."""

    files: dict[str, str] = field(default_factory=dict)


def _host_of_threads(state: str = "S", queued_ns: int = 0, name: str = "redis-server") -> _Machine:
    files = {f"{_PLACE}/stat": _stat(state, name), f"{_PLACE}/schedstat": f"1 {queued_ns} 3\n"}
    return _Machine(files=files)


def test_a_look_stands_for_the_time_since_the_last() -> None:
    """Held up at two looks of four, a tenth of a second each; a lost look is no gap."""
    host = _host_of_threads()
    thread = MainThread(host=host, pid=7)
    for at_s, state in ((0.1, "D"), (0.2, "S"), (0.4, "D"), (0.5, "R")):
        host.files[f"{_PLACE}/stat"] = _stat(state)
        thread.look(at_s)
    assert thread.totals()[Quantity.MAIN_THREAD_BLOCKED_S] == pytest.approx(0.3)


@pytest.mark.parametrize("name", ["a) D (b", "x) D ", ") D 1"])
def test_a_program_may_be_called_as_it_likes(name: str) -> None:
    """The kernel prints the name as it is: what looks like a state in it is none."""
    thread = MainThread(host=_host_of_threads("S", name=name), pid=7)
    thread.look(0.1)
    assert thread.totals()[Quantity.MAIN_THREAD_BLOCKED_S] == 0.0


def test_time_in_the_queue_is_the_kernels_difference() -> None:
    """Of the main thread alone, from the beginning to the end."""
    host = _host_of_threads(queued_ns=2_000_000)
    thread = MainThread(host=host, pid=7)
    host.files[f"{_PLACE}/schedstat"] = "1 5500000 9\n"
    assert thread.totals() == {Quantity.MAIN_THREAD_RUN_QUEUE_S: 0.0035}


def test_what_cannot_be_read_is_absent() -> None:
    """A process of another machine, or one that ended: no zero is made of that."""
    thread = MainThread(host=FakeHost(), pid=7)
    thread.look(0.1)
    assert thread.totals() == {}


def test_all_threads_of_a_server_count() -> None:
    """Two threads and a process that was forked: the queue is that of all three."""
    files = {
        "/proc/7/stat": _stat("S") + " ".join(["0"] * 50),
        "/proc/7/schedstat": "1000 1000 1\n",
        "/proc/7/task/7/schedstat": "1000 1000 1\n",
        "/proc/7/task/8/schedstat": "2000000000 3000000000 5\n",
        "/proc/7/task/7/children": "9 ",
        "/proc/7/task/8/children": "",
        "/proc/9/schedstat": "1000000000 500000000 2\n",
    }
    host = FakeHost(files=files)
    sampled = ServerProcesses(host=host, pid=7).sampled()
    assert sampled[Quantity.SERVER_RUN_QUEUE_S] == pytest.approx(3.500001)


_MIB = 1 << 20
_TWO_NODES = """\
7f22 interleave:0-1 file=/anon_hugepage\\040(deleted) huge dirty=4 N0=3 N1=1 kernelpagesize_kB=2048
7f99 default heap anon=512 dirty=512 active=0 N0=512 kernelpagesize_kB=4
7f9a default file=/lib/x mapped=2 mapmax=15
"""
_SERVER = Vantage(pid=77, data=Path("/srv/data"))


def test_shared_memory_on_huge_pages_counts_whole() -> None:
    """The mapping has 142 MiB, of which the process itself has touched 14: all are huge pages."""
    smaps = (RECORDINGS / "smaps-huge-pages.txt").read_text()
    assert huge_bytes(*maps_of(smaps)) == 142 * _MIB


def test_shared_memory_on_usual_pages_is_none_of_it() -> None:
    """A server without huge pages has 0 bytes on them: looked at, and nothing there."""
    assert huge_bytes(*maps_of(recorded_files()[f"/proc/{SERVER}/smaps"])) == 0
    assert huge_bytes("", "") is None


def test_transparent_huge_pages_of_shared_memory_count() -> None:
    """Shared memory that the kernel put on huge pages by itself, as the sum of all mappings."""
    maps = "7f00-7f01 rw-s 00000000 00:01 7  /dev/zero\n"
    assert huge_bytes(maps, "7f00-7fff ---p 0 00:00 0 [rollup]\nShmemPmdMapped: 6144 kB\n") == (
        6 * _MIB
    )


def test_pages_count_with_their_size() -> None:
    """A huge page on a node weighs as much as 512 usual ones."""
    nodes = bytes_by_node(_TWO_NODES)
    assert nodes == Counter({0: 8 * _MIB, 1: 2 * _MIB})
    assert remote_fraction(nodes) == pytest.approx(0.2)
    assert remote_fraction(Counter()) is None


def _levels(nodes: int, **files: str) -> tuple[dict[Quantity, float], dict[str, str]]:
    made = {f"/sys/devices/system/node/node{n}/meminfo": "" for n in range(nodes)}
    made |= {"/sys/devices/system/node/possible": "0-1\n", "/srv/data/x": ""}
    host = FakeHost(files={**made, **{f"/proc/77/{name}": text for name, text in files.items()}})
    levels, absent = server_levels(host, _SERVER)
    return levels, {absence.subject: absence.reason for absence in absent}


def test_two_nodes_have_a_remote_part() -> None:
    """A machine with two nodes shows which part of the server is away from most of it."""
    levels, absent = _levels(2, numa_maps=_TWO_NODES)
    assert levels[Quantity.SERVER_REMOTE_NODE_FRACTION] == pytest.approx(0.2)
    assert "memory nodes of the server" not in absent


def test_a_closed_file_is_an_absence_and_one_node_is_none() -> None:
    """One node has no remote part, a fact; a file that may not be read has an unknown one."""
    for nodes, words in ((1, []), (2, ["root alone"])):
        levels, absent = _levels(nodes)
        assert Quantity.SERVER_REMOTE_NODE_FRACTION not in levels
        told = [text for subject, text in absent.items() if subject == "memory nodes of the server"]
        assert len(told) == len(words)
        assert all(word in text for word, text in zip(words, told, strict=True))


def test_a_recorded_server_has_all_other_levels() -> None:
    """Huge pages of machine and server, and the disk, from one machine's files."""
    host = recorded_host()
    levels, absent = server_levels(host, Vantage(pid=SERVER, data=Path("/srv/data")))
    assert levels[Quantity.SERVER_HUGE_BYTES] == levels[Quantity.HUGE_PAGES] == 0
    assert levels[Quantity.DISK_FREE_BYTES] == 400
    assert levels[Quantity.DISK_BYTES] == 1000
    assert absent == ()


_V1 = "nr_periods 120\nnr_throttled 45\nthrottled_time 1500000000\nnr_bursts 0\n"
_V2 = "usage_usec 9\nnr_periods 120\nnr_throttled 45\nthrottled_usec 1500000\n"
_EXPECTED = Throttling(periods=120, throttled=45, throttled_s=1.5)


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
