"""What a crash test has outside is taken away, by itself or by `clean`, unless it lives."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fakes.clock import FakeClock
from fakes.doors import fake_doors
from fakes.processes import FakeProcesses
from fakes.volumes import FakeVolumes
from steelyard.campaign.cleanup import leftovers
from steelyard.core.outside import MadeDirectory
from steelyard.core.redis import Death
from steelyard.core.wording import LeftBehindError, PreflightError
from steelyard.crash.testing import VOLUME_BYTES, Belongings, CutVolume, belongings
from steelyard.gateways.doors import Doors
from steelyard.gateways.files import Lock, make_directory
from steelyard.record import registry


@pytest.fixture
def volumes() -> FakeVolumes:
    """Return mounts that are none."""
    return FakeVolumes()


@pytest.fixture
def doors(volumes: FakeVolumes) -> Doors:
    """Return doors to nothing else."""
    processes = FakeProcesses(FakeClock())
    processes.on("cp")
    return fake_doors(processes.clock, processes=processes, volumes=volumes)


def _mount(own: Belongings, doors: Doors) -> Path:
    make_directory(own.work / "template")
    ground = CutVolume(own, None, doors)
    ground.renew(own.work / "template")
    return own.work / "volume"


@contextmanager
def _dying(root: Path, doors: Doors) -> Iterator[Belongings]:
    """Have belongings whose process ends without a word: only the kernel gives the lock back."""
    name, work = "crash-test-dead", root / "live" / "crash-test-dead"
    registry.register(name, work)
    registry.note(name, MadeDirectory(path=work))
    make_directory(work)
    lock = Lock(work / "lock")
    assert lock.acquire()
    yield Belongings(name=name, work=work, sockets=root)
    lock.release()


@contextmanager
def _interrupted(root: Path, doors: Doors) -> Iterator[Belongings]:
    with belongings(root, None, doors) as own:
        yield own
        raise KeyboardInterrupt


@contextmanager
def _busy_at_the_end(
    root: Path, doors: Doors, volumes: FakeVolumes, busy: int
) -> Iterator[Belongings]:
    with belongings(root, None, doors) as own:
        yield own
        volumes.busy = busy


def test_everything_is_taken_away_at_the_end(
    tmp_path: Path, doors: Doors, volumes: FakeVolumes
) -> None:
    """The mount goes before the directories, and the registry forgets the test."""
    with belongings(tmp_path, None, doors) as own:
        place = _mount(own, doors)
        assert place in volumes.mounted
        sockets = own.sockets
    assert volumes.mounted == {}
    assert not own.work.exists()
    assert not sockets.exists()
    assert registry.records() == []


def test_it_is_taken_away_after_an_interruption(
    tmp_path: Path, doors: Doors, volumes: FakeVolumes
) -> None:
    """Ctrl-C in the middle leaves as little."""
    with pytest.raises(KeyboardInterrupt), _interrupted(tmp_path, doors) as own:
        _mount(own, doors)
    assert volumes.mounted == {}
    assert not own.work.exists()


def test_what_stays_mounted_stays_known(tmp_path: Path, doors: Doors, volumes: FakeVolumes) -> None:
    """Nothing is removed under a mount that does not go, and `clean` finds it."""
    for_ever = _busy_at_the_end(tmp_path, doors, volumes, 1000)
    with pytest.raises(LeftBehindError), for_ever as own:
        _mount(own, doors)
    assert own.work.exists()
    (left,) = leftovers.find_leftovers(doors)
    assert left.mounts == (own.work / "volume",)


def test_clean_finds_the_mount_of_a_dead_test(
    tmp_path: Path, doors: Doors, volumes: FakeVolumes
) -> None:
    """After a kill -9 the mount goes first, then the directory; a second look finds nothing."""
    with _dying(tmp_path, doors) as own:
        place = _mount(own, doors)
        assert leftovers.find_leftovers(doors) == ()  # it lives
        with pytest.raises(PreflightError, match="is running"):
            leftovers.refuse_while_running()
    (left,) = leftovers.find_leftovers(doors)
    assert (left.mounts, left.directories) == ((place,), (own.work,))
    leftovers.undo(left, doors)
    assert volumes.mounted == {}
    assert not own.work.exists()
    assert leftovers.find_leftovers(doors) == ()


@pytest.mark.parametrize("image", ["/dev/sda1", "/home/somebody/volume.img"])
def test_clean_unmounts_nothing_of_others(
    tmp_path: Path, doors: Doors, volumes: FakeVolumes, image: str
) -> None:
    """Only what is mounted from a file beside its own place is ours."""
    with _dying(tmp_path, doors) as own:
        place = _mount(own, doors)
        volumes.mounted[place] = Path(image)
    (left,) = leftovers.find_leftovers(doors)
    assert left.mounts == ()


def test_a_file_system_that_is_busy_for_a_moment_is_waited_for(
    tmp_path: Path, doors: Doors, volumes: FakeVolumes
) -> None:
    """A process that was just killed may hold it yet."""
    with belongings(tmp_path, None, doors) as own:
        make_directory(own.work / "template")
        ground = CutVolume(own, None, doors)
        ground.renew(own.work / "template")
        volumes.busy = 2
        ground.renew(own.work / "template")
    first = ["make volume.img", "mount volume.img", "flush"]
    assert volumes.did == [*first, "unmount", *first, "unmount"]


def test_what_is_busy_for_a_moment_at_the_end_is_waited_for(
    tmp_path: Path, doors: Doors, volumes: FakeVolumes
) -> None:
    """After an interruption, too, a server that was just killed may hold its file system yet."""
    with _busy_at_the_end(tmp_path, doors, volumes, 2) as own:
        _mount(own, doors)
    assert volumes.mounted == {}
    assert not own.work.exists()


def test_clean_waits_for_what_is_busy_for_a_moment(
    tmp_path: Path, doors: Doors, volumes: FakeVolumes
) -> None:
    """It has just ended the servers of a dead test itself."""
    with _dying(tmp_path, doors) as own:
        _mount(own, doors)
    (left,) = leftovers.find_leftovers(doors)
    volumes.busy = 2
    leftovers.undo(left, doors)
    assert volumes.mounted == {}
    assert leftovers.find_leftovers(doors) == ()


def test_no_file_system_is_made_where_it_may_not_fit(
    tmp_path: Path, doors: Doors, volumes: FakeVolumes
) -> None:
    """A full disk below a sparse file loses what XFS has taken, and the server would be blamed."""
    volumes.room = VOLUME_BYTES - 1
    with belongings(tmp_path, None, doors) as own:
        with pytest.raises(PreflightError, match="has room for") as refused:
            _mount(own, doors)
        assert volumes.did == []
        volumes.room += 1
        assert _mount(own, doors) in volumes.mounted
    assert "--directory" in refused.value.hint


def test_room_is_looked_at_before_each_death(
    tmp_path: Path, doors: Doors, volumes: FakeVolumes
) -> None:
    """Others fill a disk while a test goes on; the file of the last death does not count."""
    with belongings(tmp_path, None, doors) as own:
        make_directory(own.work / "template")
        ground = CutVolume(own, None, doors)
        ground.renew(own.work / "template")
        volumes.room = VOLUME_BYTES - 1
        with pytest.raises(PreflightError, match="has room for"):
            ground.renew(own.work / "template")


@pytest.mark.parametrize("cuts", [True, False])
def test_each_cut_says_how_it_went(
    tmp_path: Path, doors: Doors, volumes: FakeVolumes, *, cuts: bool
) -> None:
    """When its call began, how long it took, and whether it took what was not flushed."""
    volumes.cuts = cuts
    server: Any = SimpleNamespace(kill=lambda: doors.clock.sleep(1.0))
    with belongings(tmp_path, None, doors) as own:
        make_directory(own.work / "template")
        ground = CutVolume(own, None, doors)
        ground.renew(own.work / "template")
        begun_at = doors.clock.monotonic()
        ended = ground.die(server, Death.POWER)
        assert ended.window_s == pytest.approx(0.01)
        assert (ended.begun_at, ended.took_unflushed) == (begun_at, cuts)
        killed = ground.die(server, Death.KILL)
        assert (killed.window_s, killed.took_unflushed) == (None, None)
