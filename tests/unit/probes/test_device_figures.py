"""A device's counters, and the figures iostat makes of them: against its own recorded output."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.host import FakeHost
from steelyard.experiment.probes.devices import (
    BlockDevice,
    DeviceCounters,
    iostat_figures,
    parse_device,
)
from support.recorded_host import RECORDINGS

_RECORDED = RECORDINGS / "iostat"
_SECONDS = 6.0  # iostat -x loop0 6 2: the second report is about these
_KIB = 1024


def _printed() -> dict[str, float]:
    """Return the last line of the recorded output by its column."""
    lines = (_RECORDED / "iostat-x.txt").read_text().split("\n")
    heads = [line for line in lines if line.startswith("Device")]
    values = [line for line in lines if line.startswith("loop0")]
    return dict(zip(heads[-1].split()[1:], map(float, values[-1].split()[1:]), strict=True))


def _used() -> DeviceCounters:
    before, after = (
        parse_device((_RECORDED / f"{name}.stat").read_text()) for name in ("before", "after")
    )
    assert before is not None
    assert after is not None
    return after - before


def test_figures_are_those_of_iostat() -> None:
    """Every column of iostat -x that is asked for, to the two digits it prints."""
    printed, figures = _printed(), iostat_figures(_used(), _SECONDS)
    assert figures is not None
    expected = {
        "r/s": figures.reads_per_s,
        "w/s": figures.writes_per_s,
        "rkB/s": figures.read_bytes_per_s / _KIB,
        "wkB/s": figures.write_bytes_per_s / _KIB,
        "rareq-sz": (figures.read_size_bytes or 0) / _KIB,
        "wareq-sz": (figures.write_size_bytes or 0) / _KIB,
        "r_await": (figures.read_wait_s or 0) * 1000,
        "w_await": (figures.write_wait_s or 0) * 1000,
        "aqu-sz": figures.queue_length,
        "%util": figures.busy_fraction * 100,
    }
    assert all(value > 0 for value in expected.values())
    for column, value in expected.items():
        assert value == pytest.approx(printed[column], abs=0.0051), column
    assert (_used().flushes or 0) / _SECONDS == printed["f/s"]


def test_no_request_has_no_size_and_no_wait() -> None:
    """Where iostat prints 0.00: a mean over nothing is None, a rate over no time is nothing."""
    nothing = _used() - _used()
    figures = iostat_figures(nothing, 1.0)
    assert figures is not None
    assert (figures.reads_per_s, figures.queue_length, figures.busy_fraction) == (0, 0, 0)
    assert figures.read_size_bytes is figures.write_size_bytes is None
    assert figures.read_wait_s is figures.write_wait_s is None
    assert iostat_figures(nothing, 0.0) is None


def test_flushes_of_a_partition_are_unknown() -> None:
    """The kernel shows 0 there without counting; old kernels have no such field at all."""
    text = (_RECORDED / "after.stat").read_text()
    whole, part = parse_device(text), parse_device(text, is_partition=True)
    old = parse_device(" ".join(text.split()[:11]))
    assert whole is not None
    assert part is not None
    assert old is not None
    assert whole.flushes == 600
    assert part.flushes is None
    assert old.flushes is None
    assert (whole - part).flushes is None
    assert old.reads == part.reads == whole.reads


def test_a_partition_is_read_by_itself() -> None:
    """The partition's own counters, not those of the disk that it is on."""
    stat = (_RECORDED / "after.stat").read_text()
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


@given(st.lists(st.integers(0, 2**40), min_size=17, max_size=17), st.floats(0.01, 1e4))
def test_sizes_and_rates_belong_together(numbers: list[int], seconds: float) -> None:
    """Rate times mean size is the rate of bytes, and waits are no longer than all of them."""
    used = parse_device(" ".join(map(str, numbers)))
    assert used is not None
    figures = iostat_figures(used, seconds)
    assert figures is not None
    if figures.read_size_bytes is not None:
        whole = figures.reads_per_s * figures.read_size_bytes
        assert whole == pytest.approx(figures.read_bytes_per_s)
    assert 0 <= figures.busy_fraction <= 1
