"""Crash tests: what they have outside, what counts as acknowledged, and what as lost."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fakes.clock import FakeClock
from fakes.doors import fake_doors
from fakes.processes import FakeProcesses
from fakes.volumes import FakeVolumes
from steelyard.campaign.cleanup import leftovers
from steelyard.core.crash import Crash, CrashMode
from steelyard.core.outside import MadeDirectory, ServerAddress
from steelyard.core.redis import Death
from steelyard.core.wording import (
    LeftBehindError,
    MeasurementError,
    PreflightError,
    SilentError,
    TargetError,
)
from steelyard.crash.testing import (
    VOLUME_BYTES,
    Answers,
    Belongings,
    CutVolume,
    Died,
    Ended,
    Lag,
    Load,
    belongings,
    counted,
    crash,
    why_unusable,
)
from steelyard.gateways.doors import Doors
from steelyard.gateways.files import Lock, make_directory
from steelyard.gateways.host import Clock
from steelyard.gateways.redis import ReplyError
from steelyard.record import registry
from steelyard.systems.redis.engine import OffsetWatch


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
    assert "--data-directory" in refused.value.hint


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


_NOWHERE = ServerAddress(host="/nowhere", port=1)


def _answers(writer: int, *answers: tuple[int, float]) -> Answers:
    numbers, at = zip(*answers, strict=True) if answers else ((), ())
    return Answers(writer=writer, numbers=list(numbers), at=list(at))


def test_what_was_answered_before_the_death_counts() -> None:
    """An answer after the death was ordered is late: it is no loss that a cut would have made."""
    died = Died(
        ended=Ended(begun_at=10.0),
        under_load_s=3.0,
        answers=[_answers(0, (16, 8.0), (32, 9.5), (48, 10.1))],
    )
    crash = counted(died, [list(range(20, 49))])
    assert (crash.acknowledged, crash.lost) == (32, 13)
    assert (crash.late, crash.late_lost) == (16, 16)


def test_the_oldest_lost_write_is_told_by_its_answer() -> None:
    """The age is that of the answer of the oldest lost number, over all writers."""
    answers = [_answers(0, (1, 7.0), (2, 9.0)), _answers(1, (1, 8.0), (2, 9.9))]
    crash = counted(
        Died(ended=Ended(begun_at=10.0), under_load_s=3.0, answers=answers), [[2], [1, 2]]
    )
    assert (crash.acknowledged, crash.lost) == (4, 3)
    assert crash.oldest_lost_s == pytest.approx(2.0)


def test_nothing_lost_has_no_age() -> None:
    """Where nothing is gone there is no oldest one, whatever came late."""
    died = Died(
        ended=Ended(begun_at=10.0),
        under_load_s=3.0,
        answers=[_answers(0, (5, 9.0), (6, 10.2)), _answers(1)],
    )
    crash = counted(died, [[6], []])
    assert (crash.lost, crash.late_lost, crash.oldest_lost_s) == (0, 1, None)


def test_the_cut_itself_is_kept() -> None:
    """How long the call took, and whether it took what was not flushed, is in the record."""
    ended = Ended(begun_at=10.0, window_s=0.004, took_unflushed=True)
    found = counted(Died(ended=ended, under_load_s=3.0, answers=[]), [])
    assert (found.window_s, found.took_unflushed) == (0.004, True)


@dataclass
class _Writes:
    """Connections that answer until the server dies, or until a number that it refuses."""

    refuses: int = 10**9
    dead: threading.Event = field(default_factory=threading.Event)
    written: list[tuple[int, int, int]] = field(default_factory=list)

    def writer(self, address: ServerAddress, writer: int) -> "_Writer":
        """Return a connection."""
        assert address == _NOWHERE
        return _Writer(self, writer)


@dataclass
class _Writer:
    writes: _Writes
    number: int

    def write(self, first: int, count: int) -> None:
        """Answer, or fail."""
        if self.writes.dead.wait(0.001):
            raise TargetError("connection closed")
        if first >= self.writes.refuses:
            raise TargetError("MISCONF the disk is full")
        self.writes.written.append((self.number, first, count))

    def close(self) -> None:
        """Nothing is open."""


def test_numbers_go_on_without_gaps_and_count_when_answered() -> None:
    """Every writer numbers from 1 on in whole pipelines; the one that broke off is not counted."""
    writes, clock = _Writes(), Clock()
    load = Load(writes, _NOWHERE, clients=2, pipeline=3, clock=clock)
    while len(writes.written) < 20:
        clock.sleep(0.001)
    died_at = clock.monotonic()
    writes.dead.set()
    for answers in load.end(died_at):
        own = [(first, count) for who, first, count in writes.written if who == answers.writer]
        assert own == [(1 + 3 * place, 3) for place in range(len(own))]
        assert answers.last == 3 * len(own)
        assert len(answers.at) == len(answers.numbers) == len(own)


def test_a_write_that_fails_before_the_death_is_no_crash() -> None:
    """A server that refuses writes while it should be under load spoils the measurement."""
    writes, clock = _Writes(refuses=5), Clock()
    load = Load(writes, _NOWHERE, clients=1, pipeline=1, clock=clock)
    while len(writes.written) < 4:
        clock.sleep(0.001)
    clock.sleep(0.05)
    with pytest.raises(MeasurementError, match="before the server was to die: MISCONF"):
        load.end(clock.monotonic())


class Watch(OffsetWatch):
    """Says one distance after the other, then that the server is gone."""

    def __init__(self, told: Sequence[int | None]) -> None:
        self._told = list(told)
        self.said = threading.Event()
        self.closed = False

    def behind_bytes(self) -> int | None:
        """Return the next."""
        if not self._told:
            self.said.set()
            raise TargetError("connection closed")
        return self._told.pop(0)

    def close(self) -> None:
        """Note that it is over."""
        self.closed = True


@pytest.mark.parametrize(
    ("told", "most"), [((0, 70, 20), 70), ((0,), 0), ((None, 5), 5), ((None,), None), ((), None)]
)
def test_the_most_counts(told: Sequence[int | None], most: int | None) -> None:
    """Not the last: the lag at a death is that of a moment nobody chose; never seen is None."""
    watch = Watch(told)
    with Lag(watch) as lag:
        assert watch.said.wait(30)
    assert lag.most_bytes == most
    assert watch.closed


_MODE = CrashMode(name="always", settings=())


@dataclass
class _Scene:
    """A server, what it lies on and who writes to it: it dies, and fails when it is read.

    Attributes:
        failure: Of its second start, or of the reading.
        at_start: It fails at the start.
        outlives: Its process runs after the failure.
    """

    failure: TargetError
    at_start: bool = False
    outlives: bool = True
    starts: int = 0
    is_running: bool = False
    dead: threading.Event = field(default_factory=threading.Event)
    address: ServerAddress = _NOWHERE
    data: Path = Path("/nowhere")

    def start(self, _: Mapping[str, str], **__: object) -> None:
        """Start; the second one may fail."""
        self.starts += 1
        self.is_running = True
        if self.starts == 2 and self.at_start:
            self.let_die()
            raise self.failure

    def let_die(self) -> None:
        """It has ended, or it goes on."""
        self.is_running = self.outlives

    def kill(self) -> None:
        """End."""
        self.is_running = False

    def die(self, *_: object) -> Ended:
        """Die."""
        begun_at = Clock().monotonic()
        self.dead.set()
        return Ended(begun_at=begun_at)

    def renew(self, template: Path) -> Path:
        """Nothing is on a disk here."""
        return template

    def writer(self, *_: object) -> Any:
        """Return a connection that is answered until the death."""

        def write(*_: int) -> None:
            if self.dead.wait(0.001):
                raise TargetError("connection closed")

        return SimpleNamespace(write=write, close=lambda: None)

    def missing(self, *_: object) -> list[int]:
        """Fail."""
        raise self.failure

    def crash(self) -> Crash:
        """Take one crash."""
        means: Any = SimpleNamespace(
            ground=self,
            server=lambda _: self,
            template=Path("/nowhere"),
            subject=SimpleNamespace(writes=self),
            asked=SimpleNamespace(clients=1, pipeline=1),
            doors=SimpleNamespace(clock=Clock()),
        )
        return crash(_MODE, Death.POWER, 0.05, means)


def test_a_server_that_ended_has_lost_everything() -> None:
    """It did not start on what was left, and its log is what is told."""
    found = _Scene(TargetError("Bad file format"), at_start=True, outlives=False).crash()
    assert found.lost == found.acknowledged > 0
    assert found.unusable == "Bad file format"


def test_a_server_that_refuses_has_lost_everything() -> None:
    """It runs and says in its own words that it cannot read."""
    assert _Scene(ReplyError("refuses: MISCONF")).crash().unusable == "refuses: MISCONF"


def test_a_server_that_takes_long_to_start_has_lost_nothing_yet() -> None:
    """Two minutes on a slow machine are no broken promise, though it was ended for it."""
    scene = _Scene(SilentError("did not answer within 120 s"), at_start=True, outlives=False)
    with pytest.raises(MeasurementError, match="could not be read: did not answer within 120 s"):
        scene.crash()
    assert not scene.is_running


def test_a_server_that_is_slow_to_read_has_lost_nothing_yet() -> None:
    """A timeout of a client, or a refused connection, says nothing of the data."""
    with pytest.raises(MeasurementError, match="could not be read: Timeout reading"):
        _Scene(TargetError("Timeout reading from socket")).crash()


def test_a_server_that_ended_while_it_was_read_has_lost_everything() -> None:
    """The connection broke because its process is gone."""
    assert why_unusable(TargetError("closed"), is_running=False) == "closed"
