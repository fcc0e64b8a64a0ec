"""File systems that lose their power: which programs are called, and what is told where not."""

import os
from pathlib import Path
from typing import Any

import pytest

from fakes.clock import FakeClock
from fakes.processes import Answer, FakeProcesses
from steelyard.core.wording import LeftBehindError, PrivilegeError, TargetError
from steelyard.gateways import stores as xfs
from steelyard.gateways.stores import XfsVolumes


def _volumes(processes: FakeProcesses) -> XfsVolumes:
    return XfsVolumes(processes, is_root=True)


def test_only_root_may() -> None:
    """Anybody else is told so before anything is made, with the way to do without."""
    with pytest.raises(PrivilegeError) as refused:
        XfsVolumes(FakeProcesses(), is_root=False).require()
    assert "--deaths kill" in refused.value.hint


def test_a_cut_flushes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is XFS_IOC_GOINGDOWN with NOLOGFLUSH, as ``xfs_io -x -c shutdown`` without -f."""
    called: list[tuple[int, bytes]] = []
    monkeypatch.setattr(xfs.fcntl, "ioctl", lambda _, number, flags: called.append((number, flags)))
    _volumes(FakeProcesses()).cut(tmp_path, FakeClock())
    assert called == [(0x8004587D, b"\x02\x00\x00\x00")]


def test_a_cut_begins_with_its_call(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What takes time before it, the opening of the directory, is no part of the cut."""
    clock, opened = FakeClock(), os.open

    def slow_open(*given: Any, **named: Any) -> int:
        clock.advance(5.0)
        return opened(*given, **named)

    monkeypatch.setattr(xfs.os, "open", slow_open)
    monkeypatch.setattr(xfs.fcntl, "ioctl", lambda *_: clock.advance(0.25))
    begun_at = clock.monotonic()
    cut = _volumes(FakeProcesses()).cut(tmp_path, clock)
    assert cut.begun_at >= begun_at + 5.0
    assert cut.ended_at - cut.begun_at == 0.25


def test_what_was_not_flushed_outlives_what_does_not_cut(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The file is left before the call; without its content, or without it, there was a cut."""
    monkeypatch.setattr(xfs.fcntl, "ioctl", lambda *_: None)
    volumes = _volumes(FakeProcesses())
    assert not volumes.outlived(tmp_path)
    volumes.cut(tmp_path, FakeClock())
    assert volumes.outlived(tmp_path)
    (left,) = tmp_path.iterdir()
    left.write_bytes(b"")
    assert not volumes.outlived(tmp_path)


def test_what_is_no_xfs_cannot_be_cut() -> None:
    """The kernel's word is passed on: /proc is certainly another file system."""
    with pytest.raises(TargetError, match="power of /proc cannot be cut"):
        _volumes(FakeProcesses()).cut(Path("/proc"), FakeClock())


def test_a_new_image_is_sparse_and_empty(tmp_path: Path) -> None:
    """What an earlier file system held is not in the new one, and the file takes no space."""
    processes = FakeProcesses()
    processes.on("mkfs.xfs")
    image = tmp_path / "image"
    image.write_bytes(b"x" * 4096)
    _volumes(processes).make(image, 10_000_000)
    assert image.stat().st_size == 10_000_000
    assert image.stat().st_blocks == 0


def test_a_kernel_without_xfs_is_told() -> None:
    """The words of mount are passed on, with the way to do without."""
    processes = FakeProcesses()
    processes.on("mount", answer=Answer(exit_status=32, stderr="unknown filesystem type 'xfs'"))
    with pytest.raises(TargetError, match="unknown filesystem type") as failed:
        _volumes(processes).mount(Path("/image"), Path("/place"))
    assert "--deaths kill" in failed.value.hint


def test_what_is_not_mounted_is_not_unmounted(tmp_path: Path) -> None:
    """No program is called for a directory that is only a directory."""
    processes = FakeProcesses()
    _volumes(processes).unmount(tmp_path)
    assert processes.ran == []


def test_what_stays_mounted_is_left_behind() -> None:
    """A busy file system is an error that `clean` can go on from; /proc is certainly mounted."""
    processes = FakeProcesses()
    processes.on("umount", answer=Answer(exit_status=32, stderr="target is busy"))
    with pytest.raises(LeftBehindError, match="target is busy"):
        _volumes(processes).unmount(Path("/proc"))


def test_the_room_of_an_image_counts_what_it_takes_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is made over: its own space is free for it, by blocks taken and not by its length."""
    monkeypatch.setattr(xfs, "free_bytes", lambda _: 1000)
    image = tmp_path / "image"
    assert _volumes(FakeProcesses()).room_bytes(image) == 1000
    with image.open("wb") as file:
        file.truncate(10_000_000)
    assert _volumes(FakeProcesses()).room_bytes(image) == 1000
    with image.open("r+b") as file:
        file.write(b"x" * 1_000_000)
        os.fsync(file.fileno())
    assert 1_000_000 <= _volumes(FakeProcesses()).room_bytes(image) - 1000 < 10_000_000
