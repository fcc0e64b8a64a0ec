"""The figures of a run's device: against recorded output of iostat."""

from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from watched import seen

from steelyard.answers import observations as device
from steelyard.campaign.evidence.sources import DeviceCounters
from steelyard.core.measurement import Evidence, Quantity
from support.recorded_iostat import SECONDS, printed_by_iostat, used_as_recorded

_KIB = 1024
_FIGURES = (
    device.busy_fraction,
    device.queue_length,
    device.reads_per_s,
    device.requests_per_s,
    device.read_size_bytes,
    device.wait_s,
)
_COUNTS = st.integers(0, 2**40)


def _evidence(used: DeviceCounters, seconds: float) -> Evidence:
    totals = {
        Quantity.DEVICE_READS: used.reads,
        Quantity.DEVICE_READ_BYTES: used.read_bytes,
        Quantity.DEVICE_READ_S: used.read_s,
        Quantity.DEVICE_WRITES: used.writes,
        Quantity.DEVICE_WRITE_S: used.write_s,
        Quantity.DEVICE_BUSY_S: used.busy_s,
        Quantity.DEVICE_QUEUE_S: used.queue_s,
    }
    return replace(seen(totals), seconds=seconds)


def test_figures_are_those_of_iostat() -> None:
    """Its columns to the two digits it prints; of reads and writes together, their sum or mean."""
    printed, run = printed_by_iostat(), _evidence(used_as_recorded(), SECONDS)
    requests_per_s = printed["r/s"] + printed["w/s"]
    waits = printed["r_await"] * printed["r/s"] + printed["w_await"] * printed["w/s"]
    expected = (
        (device.reads_per_s(run), printed["r/s"]),
        (device.requests_per_s(run), requests_per_s),
        ((device.read_size_bytes(run) or 0) / _KIB, printed["rareq-sz"]),
        ((device.wait_s(run) or 0) * 1000, waits / requests_per_s),
        (device.queue_length(run), printed["aqu-sz"]),
        ((device.busy_fraction(run) or 0) * 100, printed["%util"]),
    )
    for place, (value, shown) in enumerate(expected):
        assert value, place
        assert value == pytest.approx(shown, abs=0.0102), place


def test_no_request_has_no_size_and_no_wait() -> None:
    """Where iostat prints 0.00: a mean over nothing is None, a rate over no time is nothing."""
    nothing = DeviceCounters(**dict.fromkeys(asdict(used_as_recorded()), 0.0))
    run = _evidence(nothing, 1.0)
    assert device.reads_per_s(run) == device.requests_per_s(run) == 0
    assert device.queue_length(run) == device.busy_fraction(run) == 0
    assert device.read_size_bytes(run) is device.wait_s(run) is None
    assert [figure(_evidence(nothing, 0.0)) for figure in _FIGURES] == [None] * len(_FIGURES)


def test_without_counters_there_are_no_figures() -> None:
    """Of a device that was not visible nothing is told, least of all 0."""
    assert [figure(seen()) for figure in _FIGURES] == [None] * len(_FIGURES)


@given(reads=_COUNTS, read_bytes=_COUNTS, writes=_COUNTS, seconds=st.floats(0.01, 1e4))
def test_sizes_and_rates_belong_together(
    reads: int, read_bytes: int, writes: int, seconds: float
) -> None:
    """Rate times mean size is the rate of bytes, and reads are no more than all requests."""
    used = replace(used_as_recorded(), reads=reads, read_bytes=read_bytes, writes=writes)
    run = _evidence(used, seconds)
    size_bytes, reads_per_s = device.read_size_bytes(run), device.reads_per_s(run)
    assert reads_per_s is not None
    assert (size_bytes is None) is (reads == 0)
    if size_bytes is not None:
        assert reads_per_s * size_bytes == pytest.approx(read_bytes / seconds)
    assert reads_per_s <= (device.requests_per_s(run) or 0)
