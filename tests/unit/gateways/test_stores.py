"""Simulated storage and file systems that lose their power: what is made and taken away."""

import json
import os
from dataclasses import dataclass, field
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fakes.clock import FakeClock
from fakes.processes import Answer, FakeProcesses
from fakes.volumes import FakeVolumes
from steelyard.core.outside import MadeDirectory, Outside
from steelyard.core.places import Store
from steelyard.core.wording import LeftBehindError, PrivilegeError, TargetError
from steelyard.gateways import stores as xfs
from steelyard.gateways.host import Clock
from steelyard.gateways.process import Processes
from steelyard.gateways.stores import Bucket, Limits, StorePaths, Stores, Volumes, limits_of
from steelyard.places.local.machine import MadeStores
from steelyard.record import registry


def _volumes(processes: FakeProcesses) -> Volumes:
    return Volumes(processes, is_root=True)


def test_only_root_may() -> None:
    """Anybody else is told so before anything is made, with the way to do without."""
    with pytest.raises(PrivilegeError) as refused:
        Volumes(FakeProcesses(), is_root=False).require()
    assert "--deaths kill" in refused.value.hint
    with pytest.raises(PrivilegeError, match="root"):
        Stores(Processes(), is_root=False).require()


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


def test_one_bucket_for_all() -> None:
    """At 100 a second the n-th request passes n/100 s after the first."""
    bucket = Bucket(100.0)
    assert [round(bucket.turn(1.0, 5.0), 6) for _ in range(4)] == [5.0, 5.01, 5.02, 5.03]
    assert bucket.turn(1.0, 9.0) == 9.0  # what was not used is not saved


def test_credits_are_used_up_and_come_back() -> None:
    """1000 a second while there are credits, 100 after, and what is not used fills the bucket."""
    bucket = Bucket(100.0, 1000.0, 50.0)
    turns = [bucket.turn(1.0, 0.0) for _ in range(60)]
    assert turns[49] == pytest.approx(0.049)
    assert turns[-1] == pytest.approx(0.050 + 9 / 100.0)
    assert bucket.turn(1.0, 10.0) == 10.0
    later = [bucket.turn(1.0, 10.0) for _ in range(20)]
    assert later[-1] == pytest.approx(10.020)


def test_a_bucket_that_is_filled_is_as_at_first() -> None:
    """Limits that are refilled let through the whole burst again, without a wait."""
    bucket = Bucket(100.0, 1000.0, 50.0)
    for _ in range(500):
        bucket.turn(1.0, 0.0)
    bucket.fill()
    turns = [bucket.turn(1.0, 6.0) for _ in range(50)]
    assert turns[-1] - turns[0] == pytest.approx(0.049)


def test_an_empty_bucket_lets_through_what_fills_it() -> None:
    """Ten clients that ask again when they are answered: 3000 a second, then 900 and not more."""
    bucket = Bucket(900.0, 3000.0, 21_000.0)
    answered = [0.0] * 10
    passed: list[float] = []
    while passed[-1:] < [30.0]:
        now = heappop(answered)
        passed.append(bucket.turn(1.0, now))
        heappush(answered, passed[-1] + 0.002)
    seconds = np.histogram(passed, bins=30, range=(0.0, 30.0))[0]
    assert seconds[:10] == pytest.approx(3000.0, rel=0.01)  # 21,000 last 10 s: 900 a second come in
    assert seconds[11:30] == pytest.approx(900.0, rel=0.01)


def test_what_the_serving_process_is_told() -> None:
    """Its limits are made of just that."""
    told = json.loads(json.dumps(limits_of(Store(latency_s=0.5, iops=10))))
    assert isinstance(Limits(**told), Limits)


@dataclass
class FakeStores(Stores):
    """Mounts in a dictionary; what is made is remembered."""

    volumes: FakeVolumes
    made: list[Store] = field(default_factory=list)

    def require(self) -> None:
        """Everything is there."""

    def make(self, paths: StorePaths, store: Store, clock: Clock) -> None:
        """Remember both mounts, which were noted before."""
        assert isinstance(clock, FakeClock)
        assert registry.mounts("one-1")[-2:] == [paths.served, paths.volume]
        self.made.append(store)
        self.volumes.mounted |= {paths.served: paths.image, paths.volume: paths.served / "disk"}


@dataclass
class Ledger:
    """What is there."""

    things: list[Outside] = field(default_factory=list)

    def created(self, thing: Outside) -> None:
        """Note it."""
        self.things.append(thing)

    def removed(self, thing: Outside) -> None:
        """Forget it."""
        self.things.remove(thing)


@pytest.fixture
def made(tmp_path: Path) -> tuple[MadeStores, FakeStores, Ledger, Path]:
    """Return stores of a campaign that is noted, and where they lie."""
    registry.register("one-1", tmp_path / "record")
    stores, ledger = FakeStores(FakeVolumes()), Ledger()
    whole = MadeStores("one-1", ledger, stores, stores.volumes, FakeClock())
    return whole, stores, ledger, tmp_path / "cache"


def test_equal_stores_of_one_place_are_one(
    made: tuple[MadeStores, FakeStores, Ledger, Path],
) -> None:
    """Configurations on one target share it; another latency or place is another one."""
    whole, stores, ledger, root = made
    fast, slow = Store(), Store(latency_s=0.001)
    assert whole.volume(root, fast) == whole.volume(root, fast)
    places = {whole.volume(root, slow), whole.volume(root, fast), whole.volume(root.parent, fast)}
    assert (len(places), stores.made) == (3, [fast, slow, fast])
    assert len(ledger.things) == 2  # a directory in each place


def test_nothing_is_left(made: tuple[MadeStores, FakeStores, Ledger, Path]) -> None:
    """What is mounted goes before what it lies on, then the directory; twice changes nothing."""
    whole, stores, ledger, root = made
    volume = whole.volume(root, Store())
    (thing,) = ledger.things
    assert isinstance(thing, MadeDirectory)
    assert thing.path == volume.parent
    whole.remove()
    whole.remove()
    assert (stores.volumes.mounted, ledger.things, volume.parent.exists()) == ({}, [], False)
    assert stores.volumes.did == ["unmount", "unmount"]


def test_what_is_used_stays_noted(made: tuple[MadeStores, FakeStores, Ledger, Path]) -> None:
    """Nothing is removed from below a mount; `clean` goes on from there."""
    whole, stores, ledger, root = made
    volume = whole.volume(root, Store())
    stores.volumes.busy = 10_000
    with pytest.raises(LeftBehindError):
        whole.remove()
    assert ledger.things
    assert volume.parent.exists()
