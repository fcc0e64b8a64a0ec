"""Probes around a run, in one piece and in turns: what fails is absent, and nobody is held up."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

import pytest

from fakes.campaigns import an_experiment
from fakes.clock import FakeClock
from fakes.host import FakeHost
from fakes.servers import FakeEngine, World
from steelyard.campaign.evidence.probe import Part, Probe
from steelyard.campaign.evidence.watch import Place, Watch, WatchedPlace, moments, watches
from steelyard.core.experiment import Workload
from steelyard.core.kubernetes import ContainerRef
from steelyard.core.measurement import SERVERS_MACHINE, Absence, Evidence, Quantity
from steelyard.core.outside import ServerAddress
from steelyard.core.schedule import TurnTimes
from steelyard.core.wording import TargetError
from steelyard.gateways.host import Clock
from steelyard.places.protocol import PodSight
from support.containers import Containers, server_files
from support.watching import seen_by

_TIMES = TurnTimes(turn_s=0.06, turn_discard_s=0.01)
_PATIENCE_S = 30.0


@dataclass
class Server(Probe):
    """A probe of a server that answers only while it runs.

    Attributes:
        samples: Times of the samples that are kept.
        began: A sample has begun that a pause can catch.
    """

    subject: str = "server"
    interval_s: float = 0.01
    fails_in: str = ""
    hangs_in: str = ""
    samples: list[float] = field(default_factory=list)
    forgotten: list[float] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    runs: threading.Event = field(default_factory=threading.Event)
    began: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    abandoned: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        """Let it run."""
        self.runs.set()

    def _asked(self, name: str) -> None:
        self.calls.append(name)
        while name == self.hangs_in or not self.runs.wait(0.01):
            if self.abandoned.wait(0.01):
                raise TargetError("the session was closed")
        if name == self.fails_in:
            raise TargetError(f"refused in {name}")

    def begin(self) -> None:
        """Begin."""
        self._asked("begin")

    def sample(self, at_s: float) -> None:
        """Sample."""
        self.began.release()
        self._asked("sample")
        self.samples.append(at_s)

    def forget(self, at_s: float) -> None:
        """Forget."""
        self.samples.remove(at_s)
        self.forgotten.append(at_s)

    def finish(self, at_s: float, *, lost: int) -> Part:
        """Finish."""
        self._asked("finish")
        return Part(totals={"ran_s": at_s, "lost": float(lost)}, server_cpu_s=0.25)

    def abandon(self) -> None:
        """Let go."""
        self.abandoned.set()


@dataclass
class Machine(Probe):
    """What reads the machine, as far as a watch calls it."""

    subject: str = "the machine"
    interval_s: float = 0.01
    calls: list[str] = field(default_factory=list)
    fails_in: str = ""

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if name == self.fails_in:
            raise ValueError("no such file")

    def begin(self) -> None:
        """Begin."""

    def sample(self, at_s: float) -> None:
        """Sample."""
        assert at_s > 0.0
        self._called("sample")

    def finish(self, at_s: float, *, lost: int) -> Part:
        """Finish."""
        assert lost >= 0
        assert at_s > 0.0
        return Part(totals={"edges": float(self.calls.count("halt"))})

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: self._called(name)


def _watch(*probes: Probe, machine: Machine | None = None) -> Watch:
    reads: Any = machine
    return Watch(clock=Clock(), probes=probes, machine=reads)


def _turn(watch: Watch, server: Server, within: Callable[[], object]) -> None:
    """Let the server run for a turn, in which something happens."""
    watch.resume()
    server.runs.set()
    watch.begin_turn(_TIMES)
    watch.settle_turn()
    within()
    watch.end_turn()
    server.runs.clear()
    watch.halt()


def _begun(watch: Watch, server: Server) -> None:
    watch.begin()
    server.runs.clear()


def _finished(watch: Watch, server: Server) -> Evidence:
    watch.take_stock()
    server.runs.set()
    watch.finish()
    evidence = watch.evidence()
    assert evidence is not None
    return evidence


def _until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    for _ in range(int(_PATIENCE_S / 0.005)):
        if holds():
            return
        threading.Event().wait(0.005)
    raise AssertionError("it never held")


def _told(evidence: Evidence) -> list[tuple[str, str]]:
    return [(gone.subject, gone.reason) for gone in evidence.absent]


def test_a_run_in_one_piece_is_seen_from_before_to_after() -> None:
    """First reading, samples at its own interval while the work goes on, last reading after it."""
    server, machine = Server(), Machine()
    reads: Any = machine
    _, evidence = seen_by(
        lambda: _until(lambda: len(server.samples) > 2 and "sample" in machine.calls),
        server,
        machine=reads,
    )
    assert server.calls[0] == "begin"
    assert server.calls[-1] == "finish"
    assert server.samples == sorted(server.samples)
    assert 0.01 <= server.samples[0] < server.samples[-1] <= evidence.seconds + 0.01
    assert server.forgotten == []
    assert evidence.absent == ()
    assert evidence.cost is not None
    assert evidence.cost.server_cpu_s == 0.25
    edges = [call for call in machine.calls if call != "sample"]
    assert edges == ["look_around", "resume", "settle", "halt"]


def test_samples_that_something_held_up_are_lost_and_not_taken_late() -> None:
    """The first takes ten intervals: those that were due meanwhile are counted as lost."""
    server = Server()

    def held_up() -> None:
        assert server.began.acquire(timeout=_PATIENCE_S)
        server.runs.clear()
        threading.Event().wait(0.2)
        server.runs.set()
        _until(lambda: len(server.samples) > 3)

    _, evidence = seen_by(held_up, server)
    assert evidence.totals["lost"] >= 5


@pytest.mark.parametrize("where", ["begin", "sample", "finish"])
def test_a_probe_that_fails_is_absent_and_the_run_goes_on(where: str) -> None:
    """The reason is the error's sentence; another probe is not touched by it."""
    failing, other = Server(subject="failing", fails_in=where), Server(subject="other")
    _, evidence = seen_by(
        lambda: _until(lambda: len(other.samples) > 0 and (where in (*failing.calls, "finish"))),
        failing,
        other,
    )
    assert _told(evidence) == [("failing", f"refused in {where}")]
    assert "ran_s" in evidence.totals


@pytest.mark.parametrize("where", ["begin", "sample", "finish"])
def test_a_probe_that_hangs_is_left_behind(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither beginning nor end waits for it longer than its limit; its session is closed."""
    monkeypatch.setattr("steelyard.campaign.evidence.watch.BEGIN_WITHIN_S", 1.0)
    monkeypatch.setattr("steelyard.campaign.evidence.watch.END_WITHIN_S", 1.0)
    server, machine = Server(hangs_in=where), Machine()
    reads: Any = machine
    _, evidence = seen_by(lambda: threading.Event().wait(0.1), server, machine=reads)
    (told,) = evidence.absent
    assert "within" in told.reason
    assert server.abandoned.is_set()
    assert evidence.totals == {"edges": 1.0}, "what the machine told is kept"


def test_samples_are_taken_inside_turns_and_nowhere_else() -> None:
    """Two turns with a pause: one sample each, at the place it has without pauses."""
    server = Server()
    watch = _watch(server)
    _begun(watch, server)
    for turn in (1, 2):
        _turn(watch, server, lambda turn=turn: _until(lambda: len(server.samples) == turn))
        threading.Event().wait(0.3)  # five turns long: at a fixed rate it would sample here
        assert server.calls.count("sample") == turn
    evidence = _finished(watch, server)
    assert evidence.totals["lost"] == 0
    first, second = server.samples
    assert first >= _TIMES.turn_discard_s
    assert second - first < 0.3, "the pause is not in it"
    assert evidence.totals["ran_s"] == pytest.approx(evidence.seconds, abs=1e-3)


def test_a_sample_that_a_pause_catches_is_forgotten_and_delays_nobody() -> None:
    """Its answer comes in the next turn: it is lost, that turn is sampled, nothing is absent."""
    server = Server()
    watch = _watch(server)
    _begun(watch, server)
    watch.resume()
    watch.begin_turn(_TIMES)  # the server is slow: it stands still again before it answers
    assert server.began.acquire(timeout=_PATIENCE_S)
    watch.end_turn()
    watch.halt()
    assert server.samples == []
    _turn(
        watch, server, lambda: _until(lambda: len(server.samples) == 1 and server.forgotten != [])
    )
    evidence = _finished(watch, server)
    assert evidence.totals["lost"] == 1
    assert len(server.forgotten) == 1
    assert evidence.absent == ()


def test_what_is_not_due_before_a_pause_is_not_asked() -> None:
    """A turn that is over before its first sample: nothing is sent to a server that stands."""
    times = TurnTimes(turn_s=0.2, turn_discard_s=0.1)
    server = Server()
    watch = _watch(server)
    _begun(watch, server)
    watch.resume()
    watch.begin_turn(times)
    watch.end_turn()
    watch.halt()
    threading.Event().wait(2 * times.turn_s)
    assert "sample" not in server.calls
    assert _finished(watch, server).totals["lost"] == len(moments(times))


@pytest.mark.parametrize("where", ["resume", "settle_turn"])
def test_a_machine_that_cannot_be_read_is_absent_and_the_server_is_not(where: str) -> None:
    """One failure, also of our own, ends its readings: a sum with a hole in it would be wrong."""
    server, machine = Server(), Machine(fails_in=where)
    watch = _watch(server, machine=machine)
    _begun(watch, server)
    for _ in range(2):
        _turn(watch, server, lambda: None)
    evidence = _finished(watch, server)
    assert _told(evidence) == [("the machine", "ValueError: no such file")]
    assert "ran_s" in evidence.totals
    assert machine.calls[-1] == where


def test_a_run_that_is_torn_gives_up_its_session() -> None:
    """Whatever ends it, no thread and no session of it goes on; there is no evidence."""
    server = Server()
    watch = _watch(server)
    _begun(watch, server)
    watch.resume()
    watch.close()
    assert server.abandoned.is_set()
    assert watch.evidence() is None


def test_without_probes_there_is_no_evidence() -> None:
    """A warm-up, and a server that is gone: not an empty one, as if something was looked at."""
    watch = _watch()
    watch.resume()
    watch.halt()
    watch.begin()
    watch.take_stock()
    watch.finish()
    watch.close()
    assert watch.evidence() is None


@pytest.mark.parametrize(
    ("turn_s", "settling_s", "expected"),
    [
        (0.25, 0.1, (0.175,)),
        (0.15, 0.1, (0.125,)),
        (0.4, 0.1, (0.175, 0.325)),
        (0.41, 0.1, (0.1516666667, 0.255, 0.3583333333)),
    ],
)
def test_samples_lie_evenly_in_what_counts_of_a_turn(
    turn_s: float, settling_s: float, expected: tuple[float, ...]
) -> None:
    """At most 0.15 s of what counts for each of them, one at least, all of the same length."""
    found = moments(TurnTimes(turn_s=turn_s, turn_discard_s=settling_s))
    assert found == pytest.approx(expected)


def test_what_nobody_can_know_is_told_with_its_reason() -> None:
    """Of a server that has sessions of others, too: also where nothing else is watched."""
    absent = Absence(subject="server", reason="It counts what all of them do.")
    watch = Watch(clock=Clock(), absent=(absent,))
    watch.begin()
    watch.finish()
    evidence = watch.evidence()
    assert evidence is not None
    assert evidence.absent == (absent,)
    assert evidence.totals == {}


def _place(engine: FakeEngine, database: str, sight: PodSight | None = None) -> Place:
    return Place(
        engine=engine,
        address=ServerAddress(host="/s", port=1, database=database),
        workload=an_experiment().workloads[0],
        vantage=None,
        sight=sight,
    )


def test_a_server_that_is_shared_is_asked_for_statements_alone() -> None:
    """And only where databases or roles tell configurations apart; else it is asked for nothing."""
    asked: list[str] = []

    class _Engine(FakeEngine):
        def reader(self, address: ServerAddress, workload: Workload) -> NoReturn:
            asked.append(address.database)
            raise TargetError(f"no reader of {workload.name}")

    engine = _Engine(World(clock=FakeClock(), experiment=an_experiment()))
    for is_shared, databases, reasons in (
        (True, ("a", "a"), {"server": "what all of them do", "statements": "by the same role"}),
        (True, ("a", "b"), {"server": "what all of them do", "statements": "no reader of"}),
        (False, ("a", "a"), {"server": "no reader of"}),
    ):
        asked.clear()
        places = [
            WatchedPlace(place=_place(engine, database), generators=tuple, is_shared=is_shared)
            for database in databases
        ]
        for watch in watches(places, FakeHost(), Clock(), ramp_s=None):
            watch.begin()
            watch.finish()
            evidence = watch.evidence()
            assert evidence is not None
            told = dict(_told(evidence))
            assert all(words in told[subject] for subject, words in reasons.items())
        assert len(asked) == (0 if is_shared and databases == ("a", "a") else 2)


@pytest.mark.parametrize("ramp_s", [None, 0.0])
def test_a_server_in_a_container_is_read_there_and_its_generator_here(
    ramp_s: float | None,
) -> None:
    """In turns its node counts for all, and what this machine counts in own turns is told."""
    clock = FakeClock()
    second = [0.0]
    api = Containers(files={"pg-1": lambda: server_files(second[0])}, clock=clock)
    metadata = {"name": "pg-1", "namespace": "bench"}
    api.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})
    database = ContainerRef(namespace="bench", pod="pg-1", container="postgres")
    engine = FakeEngine(World(clock=clock, experiment=an_experiment()))
    place = _place(engine, "a", PodSight(api=api, database=database))
    host = FakeHost(files={"/proc/stat": "cpu  1 0 1 1 0 0 0 0 0 0\ncpu0 0\ncpu1 0\n"})
    (watch,) = watches([WatchedPlace(place=place, generators=tuple)], host, Clock(), ramp_s=ramp_s)
    watch.begin()
    watch.resume()
    second[0] = 2.0
    watch.halt()
    watch.take_stock()
    watch.finish()
    evidence = watch.evidence()
    assert evidence is not None
    assert evidence.totals[Quantity.SERVER_CPU_S] == pytest.approx(0.98)
    assert evidence.totals[Quantity.THROTTLED_PERIODS] == 6
    assert Quantity.CPU_IDLE_S in evidence.totals
    assert Quantity.GENERATOR_CPU_S in evidence.totals
    assert evidence.levels[Quantity.MEMORY_BYTES] == 2000 * 1024
    in_turns = {SERVERS_MACHINE, "the database's node"}
    assert in_turns & dict(_told(evidence)).keys() == (in_turns if ramp_s is None else set())
