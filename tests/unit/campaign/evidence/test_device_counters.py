"""A device's counters, against recorded output of iostat."""

import pytest

from fakes.host import FakeHost
from steelyard.campaign.evidence.sources import BlockDevice, parse_device
from support.recorded_iostat import RECORDED, SECONDS, printed_by_iostat, used_as_recorded

_KIB = 1024


def test_counters_are_those_of_iostat() -> None:
    """Every column of iostat -x that comes from one of them, to the two digits it prints."""
    printed, used = printed_by_iostat(), used_as_recorded()
    expected = {
        "r/s": used.reads / SECONDS,
        "w/s": used.writes / SECONDS,
        "rkB/s": used.read_bytes / SECONDS / _KIB,
        "wkB/s": used.write_bytes / SECONDS / _KIB,
        "rareq-sz": used.read_bytes / used.reads / _KIB,
        "wareq-sz": used.write_bytes / used.writes / _KIB,
        "r_await": used.read_s / used.reads * 1000,
        "w_await": used.write_s / used.writes * 1000,
        "aqu-sz": used.queue_s / SECONDS,
        "%util": used.busy_s / SECONDS * 100,
        "f/s": (used.flushes or 0) / SECONDS,
        "f_await": (used.flush_s or 0) / (used.flushes or 1) * 1000,
    }
    assert all(value > 0 for value in expected.values())
    for column, value in expected.items():
        assert value == pytest.approx(printed[column], abs=0.0051), column


def test_flushes_of_a_partition_are_unknown() -> None:
    """The kernel shows 0 there without counting; old kernels have no such field at all."""
    text = (RECORDED / "after.stat").read_text()
    whole, part = parse_device(text), parse_device(text, is_partition=True)
    old = parse_device(" ".join(text.split()[:11]))
    assert whole is not None
    assert part is not None
    assert old is not None
    assert whole.flushes == 600
    assert whole.flush_s is not None
    assert (part.flushes, part.flush_s) == (old.flushes, old.flush_s) == (None, None)
    assert old.reads == part.reads == whole.reads


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
    counters = device.counters()
    assert counters is not None
    assert (counters.reads, counters.flushes) == (2000, None)
    assert BlockDevice.of(host, "/mnt") is None, "a device without counters of its own"
    assert BlockDevice.of(host, "/absent") is None
