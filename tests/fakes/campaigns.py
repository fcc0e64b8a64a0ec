"""A whole campaign in a world without servers: made, run, killed and resumed in milliseconds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Self

from fakes.clock import FakeClock
from fakes.host import FakeHost
from fakes.servers import FakeEngine, FakePlatform, World
from fakes.standing import FakeGuards
from steelyard.answers.results import CampaignAnalysis
from steelyard.campaign.cleanup.leftovers import JournalLedger
from steelyard.campaign.run.bench import Bench
from steelyard.campaign.run.blocks import Slots
from steelyard.campaign.run.runner import Campaign
from steelyard.campaign.run.taking import Slot
from steelyard.core.campaign import BlockOutcome, CampaignPlan
from steelyard.core.experiment import (
    Configuration,
    Experiment,
    Layer,
    Measure,
    Setting,
    Stop,
    Workload,
)
from steelyard.core.findings import Fact
from steelyard.core.schedule import Load, Pausing
from steelyard.core.target import EngineName, LocalTarget, RedisLocalTarget
from steelyard.core.wording import GIB
from steelyard.gateways.process import Operator
from steelyard.record.directory import CampaignDirectory
from steelyard.record.journal import Entry, Journal, Line, Resumed, Started, encode
from steelyard.record.registry import register
from steelyard.report.document import Table
from steelyard.targets.assembly import Assembly
from steelyard.targets.differences import Room
from steelyard.targets.stack import StackSettings, TurnedKnobs

CAMPAIGN_ID = "fake-1"
RESTART = "speed_needs_restart"
IN_TURNS = Room(pausing=Pausing.SIGNALS, memory_bytes=64 * GIB)  # where all can be up together


def asks(**settings: str) -> tuple[Setting, ...]:
    """Return settings of the database."""
    made = [Setting(layer=Layer.POSTGRES, name=n, value=v) for n, v in settings.items()]
    return tuple(sorted(made))


def asks_redis(**settings: str) -> tuple[Setting, ...]:
    """Return settings of a Redis server; an underscore stands for a hyphen."""
    named = {name.replace("_", "-"): value for name, value in settings.items()}
    made = [Setting(layer=Layer.REDIS, name=n, value=v) for n, v in named.items()]
    return tuple(sorted(made))


def of_redis(experiment: Experiment) -> Experiment:
    """Return the same experiment on Redis servers, with settings of the same names."""
    return replace(
        experiment,
        engine=EngineName.REDIS,
        configurations=tuple(
            replace(
                each,
                target=RedisLocalTarget(),
                settings=tuple(replace(asked, layer=Layer.REDIS) for asked in each.settings),
            )
            for each in experiment.configurations
        ),
    )


def an_experiment(
    *,
    speed: float = 1.05,
    restart: bool = True,
    loads: int = 1,
    workloads: tuple[str, ...] = ("reads",),
    measure: Measure | None = None,
    stop: Stop | None = None,
) -> Experiment:
    """Return a baseline against a configuration that is ``speed`` times as fast."""
    settings = {"speed": f"{speed}", **({RESTART: "on"} if restart else {})}
    return Experiment(
        name="fake",
        baseline="slow",
        configurations=(
            Configuration(name="slow", target=LocalTarget()),
            Configuration(name="fast", target=LocalTarget(), settings=asks(**settings)),
        ),
        workloads=tuple(Workload(name=w, builtin="select-only") for w in workloads),
        loads=tuple(Load(clients=2**n, threads=1) for n in range(loads)),
        measure=measure or Measure(run_time_s=5.0, discard_start_s=1.0, warm_up_s=2.0),
        stop=stop or Stop(budget_s=3600.0),
        seed=11,
    )


def four_configurations() -> Experiment:
    """Return a baseline against three configurations, of which one is 5 % faster."""
    experiment = an_experiment(loads=2)
    slow, fast = experiment.configurations
    more = tuple(replace(slow, name=name) for name in ("same", "equal"))
    return replace(experiment, configurations=(slow, fast, *more))


def room_for(servers: int) -> Room:
    """Return room for so many servers at a time, each of which takes a byte."""
    return replace(IN_TURNS, memory_bytes=servers + 1)


@dataclass(kw_only=True)
class Listener:
    """Tells the world which block runs, and keeps what it hears."""

    world: World
    heard: list[str] = field(default_factory=list)
    plan: CampaignPlan | None = None
    contract: Table | None = None
    outcomes: list[BlockOutcome] = field(default_factory=list)
    looks: list[CampaignAnalysis] = field(default_factory=list)
    at_run: Callable[[int], None] = lambda _: None
    runs: int = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held."""

    def stage(self, what: str) -> None:
        """Keep it."""
        self.heard.append(what)

    def agreed(self, contract: Table) -> None:
        """Keep it."""
        self.contract = contract

    def planned(self, plan: CampaignPlan, *, elapsed_s: float) -> None:
        """Keep it."""
        assert elapsed_s >= 0
        self.plan = plan

    def run_started(self, *, block: int, label: str) -> None:
        """Let the world know the block, and let a test act before the run."""
        self.world.block = block
        self.heard.append(label)
        if not label.endswith(", warming up"):
            self.runs += 1
            self.at_run(self.runs)

    def block_ended(self, outcome: BlockOutcome) -> None:
        """Keep it."""
        self.outcomes.append(outcome)

    def looked(self, analysis: CampaignAnalysis, *, elapsed_s: float) -> None:
        """Keep it."""
        assert elapsed_s > 0
        self.looks.append(analysis)


class Killed(BaseException):
    """Stands for ``kill -9``: nothing that comes after it reaches the disk."""


@dataclass(kw_only=True)
class Fate:
    """Counts the instants of a session and ends it at one of them; then nothing happens any more.

    An instant is before a line of the journal, in its middle and after it, and each time when the
    clock goes on or something is done to a server. Servers that start side by side share theirs.

    Attributes:
        dies_at: Number of the instant; None: it lives.
        in_journal: Of each instant so far: whether it is one of a line.
    """

    dies_at: int | None = None
    in_journal: list[bool] = field(default_factory=list)
    is_dead: bool = False
    _lock: Lock = field(default_factory=Lock)

    @property
    def comes_next(self) -> bool:
        """Return whether the next instant is the last."""
        return self.is_dead or len(self.in_journal) == self.dies_at

    def pass_by(self, *, in_journal: bool = False) -> None:
        """Let an instant pass.

        Raises:
            Killed: It was the last.
        """
        with self._lock:
            self.is_dead = self.comes_next
            self.in_journal.append(in_journal)
        if self.is_dead:
            raise Killed


@dataclass(kw_only=True)
class MortalJournal:
    """A journal whose lines are instants."""

    journal: Journal
    path: Path
    fate: Fate

    @property
    def elapsed_s(self) -> float:
        """Return seconds of work so far."""
        return self.journal.elapsed_s

    def append(self, entry: Entry) -> Line:
        """Append, or half of it."""
        self.fate.pass_by(in_journal=True)
        line = self.journal.append(entry)
        if self.fate.comes_next:
            content = self.path.read_bytes()
            self.path.write_bytes(content[: len(content) - len(encode(line)) // 2])
        self.fate.pass_by(in_journal=True)
        self.fate.pass_by(in_journal=True)
        return line

    def close(self) -> None:
        """Close the file."""
        self.journal.close()


@dataclass(kw_only=True)
class Stage:
    """One session of work on a campaign in its own world.

    Attributes:
        room: Nothing can stand still, unless a test says otherwise: configurations do not
            alternate.
    """

    experiment: Experiment
    path: Path
    clock: FakeClock
    world: World
    listener: Listener
    directory: CampaignDirectory
    stacked: Callable[[TurnedKnobs], StackSettings | None] = lambda _: None
    room: Room = field(default_factory=Room)
    guards: FakeGuards = field(default_factory=FakeGuards)
    operator: Operator = field(default_factory=Operator)

    @classmethod
    def new(cls, experiment: Experiment, path: Path, clock: FakeClock | None = None) -> "Stage":
        """Begin a campaign."""
        clock = clock or FakeClock()
        directory = CampaignDirectory.create(path, clock, experiment_text="version: 1\n")
        started = Started(
            campaign_id=CAMPAIGN_ID, experiment=experiment, command="steelyard run", version="0"
        )
        directory.journal.append(started)
        register(CAMPAIGN_ID, path, experiment)
        return cls._at(experiment, directory, clock)

    @classmethod
    def resumed(cls, experiment: Experiment, path: Path, clock: FakeClock) -> "Stage":
        """Go on with a campaign, in a new process and so in a world where nothing runs."""
        directory = CampaignDirectory.reopen(path, clock)
        directory.journal.append(Resumed(version="0"))
        return cls._at(experiment, directory, clock)

    @classmethod
    def _at(cls, experiment: Experiment, directory: CampaignDirectory, clock: FakeClock) -> "Stage":
        world = World(clock=clock, experiment=experiment)
        return cls(
            experiment=experiment,
            path=directory.path,
            clock=clock,
            world=world,
            listener=Listener(world=world),
            directory=directory,
        )

    def dying(self, at: int, how: str) -> "Stage":
        """Let the journal die at an append from now on: before it, torn in its middle, or after."""
        return self.doomed(Fate(dies_at=3 * (at - 1) + ("before", "torn", "after").index(how)))

    def doomed(self, fate: Fate) -> "Stage":
        """Let lines of the journal be instants of a fate."""
        self.directory.journal = MortalJournal(
            journal=self.directory.journal, path=self.path / "journal.jsonl", fate=fate
        )
        return self

    def bench(self) -> Bench:
        """Return the bench of this world."""
        ledger = JournalLedger(self.directory.journal, CAMPAIGN_ID)
        return self._bench(self._platforms(self.world), self.stacked(TurnedKnobs(ledger)))

    def slots(self, number: int) -> tuple[Slot, ...]:
        """Return places for so many servers that are up together."""
        worlds = [self.world.in_slot(slot) for slot in range(1, number + 1)]
        platforms = [self._platforms(world) for world in worlds]
        return tuple(Slot(bench=self._bench(each, None)) for each in platforms)

    def _platforms(self, world: World) -> dict[str, FakePlatform]:
        root = self.path.with_name(f"{self.path.name}-outside")
        ledger = JournalLedger(self.directory.journal, CAMPAIGN_ID)
        platform = FakePlatform(world, ledger, root)
        return {configuration.name: platform for configuration in self.experiment.configurations}

    def _bench(self, platforms: dict[str, FakePlatform], stack: StackSettings | None) -> Bench:
        assembly = Assembly(engine=FakeEngine(self.world), platforms=platforms, stack=stack)
        return Bench(self.experiment, assembly, self.clock, FakeHost())

    def campaign(self) -> Campaign:
        """Return the campaign on its bench."""
        return Campaign(
            experiment=self.experiment,
            engine=FakeEngine(self.world),
            bench=self.bench(),
            directory=self.directory,
            clock=self.clock,
            progress=self.listener,
            operator=self.operator,
            facts=(Fact(name="kernel", value="fake", subject="machine"),),
            room=self.room,
            slots=Slots(made=self.slots, guards=self.guards),
        )

    def run(self) -> CampaignAnalysis:
        """Run to the end and give the directory back, whatever happens."""
        try:
            return self.campaign().run()
        finally:
            self.directory.close()


@cache
def _decided(speed: float) -> tuple[CampaignAnalysis, Mapping[str, bytes]]:
    with TemporaryDirectory() as folder:
        path = Path(folder, "campaign")
        analysis = Stage.new(an_experiment(speed=speed), path).run()
        files = [each for each in path.rglob("*") if each.is_file()]
        return analysis, {str(each.relative_to(path)): each.read_bytes() for each in files}


def decided(speed: float = 1.05) -> CampaignAnalysis:
    """Return the analysis of a campaign that nobody harmed; it runs once in a process."""
    return _decided(speed)[0]


def a_record(path: Path, speed: float = 1.05) -> Path:
    """Write the record of that campaign as if it had run there."""
    for name, content in _decided(speed)[1].items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    register(CAMPAIGN_ID, path, an_experiment(speed=speed))
    return path
