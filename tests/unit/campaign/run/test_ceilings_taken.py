"""Ceilings before the first block: which are taken, what they cost, and that none does harm."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from fakes.campaigns import Stage, an_experiment
from fakes.host import FakeHost
from fakes.processes import Answer, FakeProcess, FakeProcesses
from fakes.servers import FakeEngine, FakePlatform, World
from steelyard.answers.campaign import analyse
from steelyard.campaign.foresee.forecast import forecast
from steelyard.campaign.run.bench import Bench
from steelyard.campaign.run.ceilings import (
    _NOT_HERE,
    ALL_KINDS,
    DEVICE_S,
    LOG_WRITE_S,
    SHARE,
    CeilingTaker,
    ceilings_s,
    device_refused,
)
from steelyard.core.experiment import EffectiveSetting, Experiment, Measure, Stop
from steelyard.core.outside import Command, ServerAddress
from steelyard.core.schedule import Ceiling, CeilingKind, MachineLimits
from steelyard.core.target import LocalTarget
from steelyard.core.wording import Interrupted, PreflightError, SteelyardError, TargetError
from steelyard.record.directory import read_campaign
from steelyard.record.journal import EnvironmentRead, Planned, read_lines
from steelyard.systems.protocol import SyncRate
from steelyard.targets.assembly import Assembly
from support.left import left_over

PYTHON = Path(sys.executable).name
GAME = json.dumps({"cpus": [0, 1], "trips_ns": [5000, 6000, 7000]})
READS = json.dumps({"latencies_ns": [90_000, 110_000], "rate_per_s": 4000.0, "file_bytes": 2**24})
WRITES = json.dumps({"latencies_ns": [200_000_000, 250_000_000, 150_000_000]})
RATES = (SyncRate(method="fsync", per_s=500.0), SyncRate(method="open_sync", per_s=None))


@dataclass(kw_only=True)
class Tools:
    """Tools whose answers a test plants; an error planted is raised."""

    trips: Sequence[float] | Exception = (0.1, 0.2, 0.3)
    absent: Exception | None = None
    rates: tuple[SyncRate, ...] | None = RATES
    asked: list[ServerAddress] = field(default_factory=list)

    def round_trips(
        self, address: ServerAddress, *, connections: int, most: int, most_s: float
    ) -> tuple[float, ...]:
        """Return what was planted."""
        assert connections > 1
        assert most > 99
        assert most_s <= 0.5
        self.asked.append(address)
        if isinstance(self.trips, Exception):
            raise self.trips
        return tuple(self.trips)

    def sync_command(self, file: Path) -> Command:
        """Return a command, unless the program is missing."""
        if self.absent is not None:
            raise self.absent
        return Command(argv=("sync_test", str(file)), directory=file.parent)

    def sync_rates(self, text: str) -> tuple[SyncRate, ...] | None:
        """Return the rates once the output says so."""
        return self.rates if "table" in text else None

    def sync_method(self, effective: Sequence[EffectiveSetting]) -> str | None:
        """Return fsync for a configuration with the default speed."""
        return None if any(setting.name == "speed" for setting in effective) else "fsync"


@dataclass(kw_only=True)
class Place:
    """A world whose engine has tools."""

    experiment: Experiment
    stage: Stage
    tools: Tools
    processes: FakeProcesses
    platforms: dict[str, FakePlatform]
    engine: FakeEngine
    told: list[str] = field(default_factory=list)

    def taker(self) -> CeilingTaker:
        """Return the taker, on a bench whose servers are up and whose data were prepared."""
        assembly = Assembly(engine=self.engine, platforms=self.platforms)
        bench = Bench(self.experiment, assembly, self.stage.clock, FakeHost())
        bench.prepare(lambda _: None)
        self.stage.world.running = True
        return CeilingTaker(self.experiment, self.engine, bench, self.processes)

    def take(self) -> tuple[Ceiling, ...]:
        """Activate every configuration in turn and take everything."""
        taker = self.taker()
        for configuration in self.experiment.configurations:
            shown = [EffectiveSetting(name=s.name, value=s.value) for s in configuration.settings]
            taker.activated(configuration.name, shown)
        return taker.taken(self.told.append)


class ToolEngine(FakeEngine):
    """An engine with tools."""

    def __init__(self, world: World, tools: Tools) -> None:
        super().__init__(world)
        self.tools = tools

    def ceilings(self) -> Tools:
        """Return them."""
        return self.tools


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the campaign is."""
    return tmp_path / "campaign"


def a_place(
    path: Path, *, asked: MachineLimits = MachineLimits.ON, budget_s: float = 3600.0
) -> Place:
    """Return a world in which every ceiling can be taken."""
    measure = Measure(run_time_s=5.0, discard_start_s=1.0, warm_up_s=2.0, machine_limits=asked)
    experiment = an_experiment(measure=measure, stop=Stop(budget_s=budget_s))
    stage = Stage.new(experiment, path)
    tools = Tools()
    engine = ToolEngine(stage.world, tools)
    (platform,) = {id(p): p for p in stage.bench()._platforms.values()}.values()
    processes = FakeProcesses(stage.clock)
    processes.on(PYTHON, "steelyard.gateways.trials", "ping-pong", answer=Answer(stdout=GAME))
    processes.on(PYTHON, "steelyard.gateways.trials", "reads", answer=Answer(stdout=READS))
    processes.on(PYTHON, "steelyard.gateways.trials", "writes", answer=Answer(stdout=WRITES))
    processes.on_start("sync_test")
    processes.begun = lambda process: process.log("table")
    data = path.with_name("data")
    data.mkdir()
    (data / "relation").write_bytes(bytes(8192))
    platform._state = lambda key: replace(FakePlatform._state(platform, key), data=data)
    return Place(
        experiment=experiment,
        stage=stage,
        tools=tools,
        processes=processes,
        platforms={t.name: platform for t in experiment.configurations},
        engine=engine,
    )


def of(kind: CeilingKind, found: Sequence[Ceiling]) -> list[Ceiling]:
    """Return those of a kind."""
    return [ceiling for ceiling in found if ceiling.kind is kind]


def test_everything_that_can_be_taken_is_taken(path: Path) -> None:
    """Round trips, both games, every method there is, both sizes; each with its source."""
    place = a_place(path)
    found = place.take()
    assert [c.kind for c in found] == [
        CeilingKind.ROUND_TRIP,
        *[CeilingKind.PING_PONG] * 2,
        CeilingKind.SYNC,
        *[CeilingKind.DIRECT_READ] * 2,
        CeilingKind.LOG_WRITE,
    ]
    assert all(c.how and not c.unknown for c in found)
    (trip,) = of(CeilingKind.ROUND_TRIP, found)
    assert (trip.latency_s, trip.samples) == (0.2, 3)
    assert trip.fastest_s == pytest.approx(0.11)
    assert trip.p99_s == pytest.approx(0.298)
    assert [c.latency_s for c in of(CeilingKind.PING_PONG, found)] == [6e-6, 6e-6]
    (sync,) = of(CeilingKind.SYNC, found)
    assert (sync.subject, sync.rate_per_s, sync.latency_s) == ("fsync", 500.0, 0.002)
    reads = of(CeilingKind.DIRECT_READ, found)
    assert [(c.subject, c.rate_per_s, c.latency_s) for c in reads] == [
        ("4 KiB", 4000.0, 1e-4),
        ("8 KiB", 4000.0, 1e-4),
    ]
    (log,) = of(CeilingKind.LOG_WRITE, found)
    assert (log.subject, log.configurations) == ("16 MiB", ("slow", "fast"))
    assert (log.rate_per_s, log.latency_s) == (pytest.approx(5.0), pytest.approx(0.2))
    assert place.told == ["measuring round trips and disks, a few seconds"]


def test_ceilings_know_whom_they_hold_for(path: Path) -> None:
    """Configurations share round trip and device.

    A method is of those whose commits wait for it.
    """
    found = a_place(path).take()
    assert of(CeilingKind.ROUND_TRIP, found)[0].configurations == ("slow", "fast")
    assert of(CeilingKind.SYNC, found)[0].configurations == ("slow",)
    assert of(CeilingKind.DIRECT_READ, found)[0].configurations == ("slow", "fast")
    assert of(CeilingKind.PING_PONG, found)[0].configurations == ()


def test_another_way_to_the_server_has_a_round_trip_of_its_own(path: Path) -> None:
    """By socket and by TCP are two; the generator's own address is taken, in its database."""
    place = a_place(path)
    first, second = place.experiment.configurations
    second = replace(second, target=LocalTarget(connection="tcp"))
    place.experiment = replace(place.experiment, configurations=(first, second))
    trips = of(CeilingKind.ROUND_TRIP, place.take())
    assert [trip.configurations for trip in trips] == [("slow",), ("fast",)]
    assert "socket" in trips[0].subject
    assert "tcp" in trips[1].subject
    assert [address.database for address in place.tools.asked] == ["fake_s1", "fake_s1"]


def test_nothing_of_the_scratch_is_left(path: Path) -> None:
    """The sync test is ended by the signal on which it removes its file, and its place is gone."""
    place = a_place(path)
    place.take()
    (process,) = place.processes.started
    assert process.signals == [2]
    scratch = process.output.parent
    assert scratch.is_relative_to(place.platforms["slow"].scripts)
    assert not scratch.exists()


def test_a_sync_test_that_does_not_heed_is_killed(path: Path) -> None:
    """What goes on after the first signal gets the one that cannot be ignored."""
    place = a_place(path)

    def stubborn(process: FakeProcess) -> None:
        process.ends_by = frozenset({9})
        process.log("table")

    place.processes.begun = stubborn
    assert of(CeilingKind.SYNC, place.take())[0].rate_per_s == 500.0
    assert place.processes.started[0].signals == [2, 9]


@pytest.mark.parametrize(
    "error",
    [TargetError("the server is gone"), SteelyardError("whatever"), OSError(28, "no space", "f")],
)
def test_what_fails_is_absent_with_the_reason(path: Path, error: Exception) -> None:
    """Every ceiling may fail alone: it says why, and the others are there."""
    place = a_place(path)
    place.tools.trips = error
    found = place.take()
    (trip,) = of(CeilingKind.ROUND_TRIP, found)
    assert trip.latency_s is None
    assert trip.unknown == (error.message if isinstance(error, SteelyardError) else "f: no space")
    assert trip.configurations == ("slow", "fast")
    assert all(not c.unknown for c in found if c.kind is not CeilingKind.ROUND_TRIP)


def test_a_missing_program_and_refused_reads_are_absent(path: Path) -> None:
    """Each with its own words, and a value of nothing."""
    place = a_place(path)
    place.tools.absent = PreflightError("there is no sync_test on this machine")
    refused = Answer(stdout='{"unknown": "the file system refuses O_DIRECT"}')
    place.processes.on(PYTHON, "steelyard.gateways.trials", "reads", answer=refused)
    full = Answer(stdout='{"unknown": "no room to write"}')
    place.processes.on(PYTHON, "steelyard.gateways.trials", "writes", answer=full)
    one = Answer(stdout='{"unknown": "only one CPU may be used here"}')
    place.processes.on(PYTHON, "steelyard.gateways.trials", "ping-pong", "across", answer=one)
    found = place.take()
    absent = {(c.kind, c.subject): c.unknown for c in found if c.unknown}
    assert absent == {
        (CeilingKind.PING_PONG, "two CPUs"): "only one CPU may be used here",
        (CeilingKind.SYNC, ""): "there is no sync_test on this machine",
        (CeilingKind.DIRECT_READ, "4 KiB"): "the file system refuses O_DIRECT",
        (CeilingKind.DIRECT_READ, "8 KiB"): "the file system refuses O_DIRECT",
        (CeilingKind.LOG_WRITE, "16 MiB"): "no room to write",
    }
    assert all(c.rate_per_s is c.latency_s is None for c in found if c.unknown)


@pytest.mark.parametrize("printed", ["could not open output file: No space left", ""])
def test_a_sync_test_without_rates_says_what_it_said(path: Path, printed: str) -> None:
    """One that ends early, as on a full disk, is absent with its last words."""
    place = a_place(path)

    def ends(process: FakeProcess) -> None:
        process.log(f"1 second per test\n{printed}" if printed else "")
        process.finish(1)

    place.processes.begun = ends
    (sync,) = of(CeilingKind.SYNC, place.take())
    assert sync.unknown == f"the sync test printed no rates: {printed or 'nothing'}"


def test_a_sync_test_that_hangs_is_given_up(path: Path) -> None:
    """It gets seconds and not for ever, and is ended."""
    place = a_place(path)
    place.processes.begun = lambda _: None
    begun = place.stage.clock.monotonic()
    (sync,) = of(CeilingKind.SYNC, place.take())
    assert "printed no rates" in sync.unknown
    assert place.stage.clock.monotonic() - begun < 60.0
    assert place.processes.started[0].status is not None


@pytest.mark.parametrize("interruption", [Interrupted("stop"), KeyboardInterrupt()])
def test_an_interruption_is_no_reason_for_absence(path: Path, interruption: BaseException) -> None:
    """Whoever stops the campaign stops it here, too."""
    place = a_place(path)
    place.tools.trips = interruption  # type: ignore[assignment]

    def interrupted(*_: object, **__: object) -> tuple[float, ...]:
        raise interruption

    place.tools.round_trips = interrupted  # type: ignore[method-assign]
    with pytest.raises(type(interruption)):
        place.take()


@pytest.mark.parametrize(("budget_s", "taken"), [(DEVICE_S / SHARE - 1, False), (420.0, True)])
def test_auto_takes_the_device_where_it_costs_little(
    path: Path, budget_s: float, *, taken: bool
) -> None:
    """Up to 2 % of the budget; beyond, the reason says how to have it. The rest is always taken."""
    place = a_place(path, asked=MachineLimits.AUTO, budget_s=budget_s)
    found = place.take()
    device = [c for c in found if c.kind in ALL_KINDS]
    assert {not c.unknown for c in device} == {taken}
    assert all("more than 2.0 % of the budget" in c.unknown for c in device if not taken)
    assert all("`measure.machine_limits: on` takes it" in c.unknown for c in device if not taken)
    assert all(not c.unknown for c in found if c not in device)
    assert len(place.processes.started) == int(taken)


@pytest.mark.parametrize(
    ("asked", "budget_s", "why"),
    [
        (MachineLimits.ON, 10.0, ""),
        (MachineLimits.AUTO, LOG_WRITE_S / SHARE + 1, ""),
        (MachineLimits.AUTO, LOG_WRITE_S / SHARE - 1, "more than 2.0 % of the budget"),
    ],
)
def test_without_tools_the_log_alone_is_taken(
    path: Path, asked: MachineLimits, budget_s: float, why: str
) -> None:
    """An engine without tools, as Redis, still has a log and a device that takes it."""
    place = a_place(path, asked=asked, budget_s=budget_s)
    place.engine = FakeEngine(place.stage.world)  # type: ignore[assignment]
    (log,) = place.take()
    assert log.kind is CeilingKind.LOG_WRITE
    assert (log.rate_per_s is None) is bool(why)
    assert why in log.unknown
    expected_s = ceilings_s(place.experiment, place.engine, place.platforms)
    assert expected_s == pytest.approx(0.0 if why else LOG_WRITE_S)


def test_two_devices_cost_twice(path: Path) -> None:
    """The share of the budget is that of all places together."""
    experiment = a_place(path, asked=MachineLimits.AUTO, budget_s=1.5 * DEVICE_S / SHARE).experiment
    assert device_refused(experiment, 1) == ""
    assert "not taken" in device_refused(experiment, 2)


def test_off_takes_nothing(path: Path) -> None:
    """No program runs, no server is asked, and no time is foretold."""
    place = a_place(path, asked=MachineLimits.OFF)
    assert place.take() == ()
    assert place.processes.ran == place.processes.started == place.tools.asked == place.told == []
    assert ceilings_s(place.experiment, place.engine, place.platforms) == 0.0


def test_a_server_elsewhere_has_only_its_round_trip(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is on its machine cannot be seen from here; no program runs and no file is made."""
    monkeypatch.setattr(FakePlatform, "root", None)
    place = a_place(path)
    found = place.take()
    assert of(CeilingKind.ROUND_TRIP, found)[0].latency_s == 0.2
    others = [c for c in found if c.kind is not CeilingKind.ROUND_TRIP]
    assert {c.kind for c in others} == set(CeilingKind) - {CeilingKind.ROUND_TRIP}
    assert {c.unknown for c in others} == {_NOT_HERE}
    assert place.processes.ran == place.processes.started == []


def test_the_forecast_counts_them(path: Path) -> None:
    """The preparation is longer by what they take, and by less without the device."""
    place = a_place(path)
    assembly = Assembly(engine=place.engine, platforms=place.platforms)

    def preparation_s(asked: MachineLimits) -> float:
        measure = replace(place.experiment.measure, machine_limits=asked)
        return forecast(replace(place.experiment, measure=measure), assembly).preparation_s

    on, off = preparation_s(MachineLimits.ON), preparation_s(MachineLimits.OFF)
    short = replace(place.experiment, stop=Stop(budget_s=60.0))
    auto = replace(short, measure=replace(short.measure, machine_limits=MachineLimits.AUTO))
    cheap_s = ceilings_s(auto, place.engine, place.platforms)
    assert on - off == pytest.approx(cheap_s + DEVICE_S)
    assert 0 < cheap_s < 2.0


def test_a_campaign_keeps_them_and_its_analysis_has_them(path: Path) -> None:
    """They are in the journal before the plan, in environment.json, and in what is reported."""
    place = a_place(path)
    campaign = place.stage.campaign()
    campaign.ceilings = CeilingTaker(
        place.experiment, place.engine, campaign.bench, place.processes
    )
    try:
        analysis = campaign.run()
    finally:
        place.stage.directory.close()
    record = read_campaign(path)
    assert record.environment is not None
    assert {c.kind for c in record.environment.ceilings} == set(CeilingKind)
    assert analysis.ceilings == analyse(record).ceilings == record.environment.ceilings
    stored = json.loads((path / "environment.json").read_text())["ceilings"]
    assert len(stored) == len(analysis.ceilings)
    entries = [line.entry for line in read_lines(path / "journal.jsonl")[0]]
    kinds = [type(entry) for entry in entries]
    assert kinds.index(EnvironmentRead) < kinds.index(Planned)
    assert place.stage.listener.heard.count("measuring round trips and disks, a few seconds") == 1
    assert left_over(path) == ()
