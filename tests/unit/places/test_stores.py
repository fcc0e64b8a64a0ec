"""Simulated storage: what holds requests back, what is made, and what is taken away."""

import json
from dataclasses import dataclass, field
from heapq import heappop, heappush
from pathlib import Path

import numpy as np
import pytest

from fakes.clock import FakeClock
from fakes.volumes import FakeVolumes
from steelyard.core.outside import MadeDirectory, Outside
from steelyard.core.storage import Store
from steelyard.core.wording import LeftBehindError, PrivilegeError
from steelyard.gateways.host import Clock
from steelyard.gateways.process import SystemProcesses
from steelyard.gateways.stores import Bucket, FuseStores, Limits, StorePaths, limits_of
from steelyard.places.local.machine import MadeStores
from steelyard.record import registry


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


def test_only_root_may() -> None:
    """The way out is told."""
    with pytest.raises(PrivilegeError, match="root"):
        FuseStores(SystemProcesses(), is_root=False).require()


@dataclass
class Stores:
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
def made(tmp_path: Path) -> tuple[MadeStores, Stores, Ledger, Path]:
    """Return stores of a campaign that is noted, and where they lie."""
    registry.register("one-1", tmp_path / "record")
    stores, ledger = Stores(FakeVolumes()), Ledger()
    whole = MadeStores("one-1", ledger, stores, stores.volumes, FakeClock())
    return whole, stores, ledger, tmp_path / "cache"


def test_equal_stores_of_one_place_are_one(made: tuple[MadeStores, Stores, Ledger, Path]) -> None:
    """Configurations on one target share it; another latency or place is another one."""
    whole, stores, ledger, root = made
    fast, slow = Store(), Store(latency_s=0.001)
    assert whole.volume(root, fast) == whole.volume(root, fast)
    places = {whole.volume(root, slow), whole.volume(root, fast), whole.volume(root.parent, fast)}
    assert (len(places), stores.made) == (3, [fast, slow, fast])
    assert len(ledger.things) == 2  # a directory in each place


def test_nothing_is_left(made: tuple[MadeStores, Stores, Ledger, Path]) -> None:
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


def test_what_is_used_stays_noted(made: tuple[MadeStores, Stores, Ledger, Path]) -> None:
    """Nothing is removed from below a mount; `clean` goes on from there."""
    whole, stores, ledger, root = made
    volume = whole.volume(root, Store())
    stores.volumes.busy = 10_000
    with pytest.raises(LeftBehindError):
        whole.remove()
    assert ledger.things
    assert volume.parent.exists()
