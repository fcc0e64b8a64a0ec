"""The limit of wake-ups: held while a file is open, told in the kernel's own words."""

import struct
from pathlib import Path

import pytest

from steelyard.core.wording import TargetError
from steelyard.gateways.host import SystemCpuLatency


def test_a_limit_is_written_as_the_kernel_wants_it(tmp_path: Path) -> None:
    """A word of four bytes, while the file is held open; released, nothing is open any more."""
    device = tmp_path / "latency"
    device.write_bytes(struct.pack("=i", 2_000_000_000))
    latency = SystemCpuLatency(device)
    assert latency.obstacle() is None
    assert latency.in_force_us() == 2_000_000_000
    latency.hold(20)
    assert device.read_bytes()[:4] == struct.pack("=i", 20)
    assert latency.in_force_us() == 20
    latency.release()
    latency.release()
    assert latency._held is None


def test_without_the_device_there_is_no_limit(tmp_path: Path) -> None:
    """Nothing is visible, and nothing can be asked for."""
    latency = SystemCpuLatency(tmp_path / "absent")
    assert latency.in_force_us() is None
    assert "is not there" in str(latency.obstacle())
    with pytest.raises(TargetError, match="refused a wake-up of 5 us"):
        latency.hold(5)
