"""Load generators on workers: agreed instants, clocks, versions, and a worker that is lost."""

import gc
import signal
import time
import zlib
from pathlib import Path
from typing import Any

import pytest

from fakes.workers import FakeWorkers
from steelyard.core.measurement import Quantity
from steelyard.core.outside import Command
from steelyard.core.schedule import Pausing
from steelyard.core.wording import MeasurementError, PreflightError
from steelyard.gateways.host import Clock
from steelyard.places.workers import Hand, Starts, WorkerGenerators, require_same

SLEEP = Command(argv=("sleep", "30"))


class _Ahead(Clock):
    """A clock that is ahead of ours."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def now(self) -> float:
        return super().now() + self._seconds


def _generators(number: int, *ahead_s: float) -> tuple[FakeWorkers, WorkerGenerators]:
    def made(place: int, hand: Hand) -> None:
        hand._clock = _Ahead(ahead_s[place] if ahead_s else 0.0)

    workers = FakeWorkers(number, made)
    return workers, WorkerGenerators(workers, Clock())


def test_parts_begin_at_one_instant_and_are_told_in_one_voice() -> None:
    """Each worker has its share; what they printed, their processes and their CPU are added up."""
    _, generators = _generators(2)
    commands = [Command(argv=("sh", "-c", f"sleep 0.5; echo {n}")) for n in range(3)]
    with generators.begin_together(commands, timeout_s=20) as running:
        assert len(running.pids) == 3
        printed = running.completed()
    assert sorted(each.stdout for each in printed) == ["0\n", "1\n", "2\n"]
    levels = running.levels()
    assert levels[Quantity.WORKERS] == 2.0
    assert levels[Quantity.START_SKEW_S] >= levels[Quantity.START_DOUBT_S] > 0.0
    assert running.cpu_s > 0.0
    assert running.pids == ()


def test_all_stand_still_between_turns_and_go_on_at_an_instant() -> None:
    """Nothing of them runs after a pause; the server is never among them."""
    _, generators = _generators(2, 0.003, -0.003)
    still = generators.with_server(None)
    assert still.kind is Pausing.GENERATOR
    assert still.pause()  # before there is anything
    with generators.begin_together([SLEEP, SLEEP], timeout_s=60) as running:
        assert running.all_run()
        assert still.pause()
        assert {_state(pid) for pid in running.pids} == {"T"}
        asked_at = time.time()
        still.announce()
        still.proceed()
        assert time.time() - asked_at >= 0.02  # nobody is told too late
        assert "T" not in {_state(pid) for pid in running.pids}
        still.proceed()  # what runs already is no error
        running.signal(signal.SIGTERM)
        assert {each.exit_status for each in running.completed(within_s=10)} == {-signal.SIGTERM}
    assert not running.all_run()


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:  # noqa: PTH123 - short
        return file.read().rpartition(")")[2].split()[0]


@pytest.mark.parametrize(("ahead_s", "told"), [(3600.0, "ahead of"), (-3600.0, "behind")])
def test_a_clock_that_is_apart_is_refused(ahead_s: float, told: str) -> None:
    """An hour is found, and nothing was started."""
    _, generators = _generators(2, 0.0, ahead_s)
    with pytest.raises(MeasurementError, match=f"the clock of worker 2 is 3.6e\\+03 s {told} ours"):
        generators.begin_together([SLEEP, SLEEP], timeout_s=60)


@pytest.mark.parametrize(
    ("offset_s", "doubt_s", "fits"), [(0.006, 0.001, True), (-0.0062, 0.001, False)]
)
def test_a_clock_is_apart_only_for_certain(offset_s: float, doubt_s: float, *, fits: bool) -> None:
    """Beyond 5 ms and what the round trips leave in doubt."""
    starts = Starts(offsets_s=[0.0, offset_s], doubts_s=[0.0, doubt_s])
    if fits:
        starts.require_together()
    else:
        with pytest.raises(MeasurementError, match="worker 2"):
            starts.require_together()


def test_the_skew_is_by_one_clock_and_includes_its_doubt() -> None:
    """Offsets are taken off; the two clocks that are known least well are in doubt."""
    starts = Starts(offsets_s=[0.0, 0.004, -0.002], doubts_s=[0.0001, 0.0003, 0.0002])
    starts.note([10.0, 10.005, 9.999])  # 10.0, 10.001, 10.001 by ours
    starts.note([20.0, 20.004, 19.998])
    assert starts.doubt_s == pytest.approx(0.0005)
    assert starts.levels()[Quantity.START_SKEW_S] == pytest.approx(0.0015)
    alone = Starts(offsets_s=[0.0], doubts_s=[0.2])
    assert alone.levels()[Quantity.START_SKEW_S] == 0.0
    assert alone.lead_s == pytest.approx(1.6)


def test_a_lost_worker_is_told_by_what_was_to_come_of_it() -> None:
    """Pauses and looks fail without a word; the next start has new workers."""
    hands: list[Hand] = []
    workers = FakeWorkers(2, lambda _, hand: hands.append(hand))
    generators = WorkerGenerators(workers, Clock())
    still = generators.standstill
    with generators.begin_together([SLEEP, SLEEP], timeout_s=60) as running:
        workers.stop()
        assert not still.pause()
        still.proceed()
        assert not running.all_run()
        with pytest.raises(MeasurementError, match="have ended"):
            running.completed()
    for hand in hands:  # the generators of a real worker end with it
        hand.close()
    with generators.begin_together([Command(argv=("true",))], timeout_s=9) as running:
        assert len(running.completed()) == 1
    assert workers.starts == 2


def test_other_versions_are_refused() -> None:
    """What is compared is named, with whose it is."""
    require_same(("1", "pgbench 18"), [("1", "pgbench 18")] * 2)
    with pytest.raises(PreflightError, match="load generator of worker 2 is pgbench 15, and ours"):
        require_same(("1", "pgbench 18"), [("1", "pgbench 18"), ("1", "pgbench 15")])
    with pytest.raises(PreflightError, match="Steelyard of worker 1 is 2, and ours is 1"):
        require_same(("1", ""), [("2", "")])


def test_a_worker_without_the_program_is_refused() -> None:
    """The versions are asked of each worker before anything is started there."""

    def made(place: int, hand: Any) -> None:
        if place:
            hand.versions = lambda program: ("other", program)

    generators = WorkerGenerators(FakeWorkers(2, made), Clock())
    with pytest.raises(PreflightError, match="Steelyard of worker 2 is other"):
        generators.begin_together([SLEEP, SLEEP], timeout_s=9)


def test_a_worker_elsewhere_has_the_files_for_a_run_only(tmp_path: Path) -> None:
    """What is read is put where it is read, what was written comes back, and nothing stays.

    What is there already, as on a shared file system, stays as it is.
    """
    script, shared, log = tmp_path / "a/s.sql", tmp_path / "shared.sql", tmp_path / "b/c/log-0"
    shared.write_text("SELECT 2;")
    command = Command(
        argv=("/nowhere/sh", "-c", f"cat {script} > {log}.7"),
        directory=tmp_path / "d",
        reads=(script, shared),
        writes=log,
    )
    hand = Hand()
    assert hand.take({script: "SELECT 1;", shared: "SELECT 2;"}, [command]) >= 1.0
    hand.begin([command], 10.0, 0.0)  # the program is found by its name
    ((completed,), _) = hand.completed(10.0)
    assert completed.succeeded
    assert {path: zlib.decompress(got) for path, got in hand.fetch().items()} == {
        Path(f"{log}.7"): b"SELECT 1;"
    }
    hand.close()
    assert [path.name for path in tmp_path.iterdir()] == ["shared.sql"]


def test_generators_end_with_whoever_holds_them() -> None:
    """Dask forgets the actor of a connection that has ended."""
    hand = Hand()
    _, pids = hand.begin([SLEEP], 60.0, 0.0)
    del hand
    gc.collect()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
