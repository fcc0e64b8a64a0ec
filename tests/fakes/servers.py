"""A database world without servers: an engine and a platform whose throughput a test decides.

One server at a time, whose settings decide how fast it is: ``speed`` multiplies its throughput.
Runs take the clock's time and give one interval per second; faults are planted by run number.
Servers that are up together have a world each, by the port they listen at.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from signal import SIGALRM

from fakes.clock import FakeClock
from fakes.programs import FakeProgram
from fakes.standing import AtHome, FakeGenerators, FakeStandstill, FakeTurnLog
from steelyard.core import measurement
from steelyard.core.experiment import (
    EffectiveSetting,
    Experiment,
    Layer,
    Setting,
    SwitchCost,
    Workload,
)
from steelyard.core.findings import Fact, Finding
from steelyard.core.linux import KEYS
from steelyard.core.outside import Command, Completed, MadeDirectory, ServerAddress
from steelyard.core.schedule import Load, Stretch
from steelyard.core.wording import Complaint, MeasurementError, TargetError
from steelyard.gateways.files import remove_tree
from steelyard.gateways.host import Clock
from steelyard.places.protocol import Guarded, Ledger, LimitsInForce, PreparedState, Unfit
from steelyard.stats.histogram import histogram_of, to_text
from steelyard.systems.postgres import settings as postgres_settings
from steelyard.systems.protocol import Dataset, LoadProgram, RunRequest, ServerReader, TurnCounter

Fault = Callable[["World", Completed], Completed]
_PORT = 5555


@dataclass(kw_only=True)
class World:
    """What is the case outside, and everything that was done to it.

    Attributes:
        block: Which block runs, told by the progress; noise is a function of it.
        faults: What happens to a use of the generator, by its number, warm-ups included.
        stubborn: Settings that never take effect.
        refuses: How often the server refuses to start from now on.
        offered: Loads of all uses of the generator, in order.
        lost_from_logs: How many transactions of each run are not logged.
        skipped: Never started in each run.
        missing: Sentences about data that a started server has not.
        restless: Numbers of pauses in which this world's server does not stand still in time.
        dies_after_s: Of generators: their server is gone once they ran for so long.
        fails_after_s: Of generators: they end with an error once they ran for so long.
        connection_s: How long connecting takes.
        hangs: Generators in turns do not end when they are told to.
        beside: Worlds of servers in slots, by slot.
        slot: Its own; None for the one server.
        outer: The world of the one server; None there.
        needed_bytes: What each server may take.
        now: Settings of a server that is there.
    """

    clock: FakeClock
    experiment: Experiment
    noise: float = 0.01
    block: int = -1
    faults: dict[int, Fault] = field(default_factory=dict)
    stubborn: set[str] = field(default_factory=set)
    refuses: int = 0
    reflink: bool = True
    restore_s: float = 0.0
    first_restores_s: list[float] = field(default_factory=list)  # these before the others
    start_s: float = 0.0
    settings: dict[str, str] = field(default_factory=dict)
    limits: dict[str, str] = field(default_factory=dict)
    running: bool = False
    started_at: float = 0.0
    uses: int = 0
    lost_from_logs: int = 0
    skipped: int = 0
    logs_in_memory: bool = True
    missing: tuple[str, ...] = ()
    data_bytes: int = 1000
    steps: list[str] = field(default_factory=list)
    offered: list[Load] = field(default_factory=list)
    restless: set[int] = field(default_factory=set)
    dies_after_s: float | None = None
    fails_after_s: float | None = None
    connection_s: float = 0.0
    hangs: bool = False
    pauses: int = 0
    beside: dict[int, "World"] = field(default_factory=dict)
    slot: int | None = None
    outer: "World | None" = None
    needed_bytes: int = 1
    now: dict[str, str] = field(default_factory=dict)
    generators: list[FakeGenerators] = field(default_factory=list)

    @property
    def port(self) -> int:
        """Return where its server listens."""
        return _PORT + (self.slot or 0)

    def in_slot(self, slot: int) -> "World":
        """Return the world of one of several servers: what is outside of them is shared."""
        if slot not in self.beside:
            self.beside[slot] = replace(
                self,
                slot=slot,
                outer=self,
                settings={},
                limits={},
                running=False,
                generators=[],
                restless=set(),
            )
        return self.beside[slot]

    def at(self, port: int) -> "World":
        """Return the world whose server listens there."""
        return self if port == _PORT else self.beside[port - _PORT]

    def rate(self, workload: str, clients: int) -> float:
        """Return transactions per second: the speed, clients, and noise of this block alone."""
        speed = float(self.settings.get("speed", "1.0"))
        block = self.block if self.outer is None else self.outer.block
        label = f"{block} {workload} {clients} {speed}"
        deviation = self.noise * Random(label).gauss(0.0, 1.0)  # noqa: S311 - no secret
        return 1000.0 * speed * clients**0.5 * (1.0 + deviation)


@dataclass(kw_only=True)
class FakeLogReader:
    """Reads logs that hold one number: how many transactions of a millisecond there were."""

    script: str
    damaged: int = 0
    truncated: tuple[str, ...] = ()
    settled: list[float | None] = field(default_factory=list)
    _text: bytes = b""

    def feed(self, source: str, chunk: bytes) -> None:
        """Take bytes."""
        assert source
        self._text += chunk

    def finish(self, *, ramp_s: float | None = None) -> "FakeLogReader":
        """Return the log itself, and note the ramp."""
        self.settled.append(ramp_s)
        return self

    @property
    def counted(self) -> Mapping[int, int]:
        """Return nothing by second: all of it is one number."""
        return {}

    @property
    def shared(self) -> Mapping[int, float]:
        """Return the same: nothing lies over an edge."""
        return self.counted

    @property
    def ended(self) -> Mapping[int, int]:
        """Return nothing by second, likewise."""
        return {}

    @property
    def transactions(self) -> int:
        """Return the sum of all numbers."""
        return sum(int(word) for word in self._text.split())

    def run_latency(self, *, windows_s: float | None) -> measurement.RunLatency:
        """Return so many milliseconds, in one window where windows are asked for."""
        assert windows_s is None or windows_s > 0
        count = histogram_of([1000] * self.transactions)
        one = measurement.ScriptLatency(script=self.script, latency=to_text(count), longest_s=0.001)
        whole = measurement.LatencyWindow(start_s=0.0, end_s=windows_s or 0.0, latency=one.latency)
        return measurement.RunLatency(scripts=(one,), windows=() if windows_s is None else (whole,))

    def seconds_text(self) -> str:
        """Return a line."""
        return "{}\n"


class FakeEngine:
    """A database system that is a formula."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._programs = {t.name: FakeProgram() for t in world.experiment.configurations}

    def label(self, configuration: str) -> str:
        """Return the program's name and version."""
        return f"Fake {self._programs[configuration].version}"

    def known_settings(self, configuration: str) -> frozenset[str]:
        """Return what the configurations ask for."""
        assert configuration in self._programs
        return frozenset(s.name for t in self._world.experiment.configurations for s in t.settings)

    def complaints(self, configuration: str) -> tuple[Complaint, ...]:
        """Return none."""
        assert configuration in self._programs
        return ()

    def check_flags(self) -> None:
        """Allow every flag."""

    def findings(self) -> tuple[Finding, ...]:
        """Return none."""
        return ()

    def tools(self) -> Mapping[str, str]:
        """Return the version of each configuration's server."""
        return {f"server of {name}": program.version for name, program in self._programs.items()}

    def program(self, configuration: str) -> FakeProgram:
        """Return the server program of a configuration."""
        return self._programs[configuration]

    def switch_cost(self, configuration: str, names: Sequence[str]) -> SwitchCost:
        """Return a restart when a setting says so by its name, else a reload."""
        assert configuration in self._programs
        return SwitchCost.RESTART if any("restart" in n for n in names) else SwitchCost.RELOAD

    def asks_the_same(self, one: str, other: str, names: Sequence[str]) -> bool:
        """Return whether nothing differs: its values have one spelling."""
        assert {one, other} <= self._programs.keys()
        return not names

    def shown_now(self, configuration: str, names: Sequence[str]) -> Mapping[str, str]:
        """Return nothing: it is started for the campaign."""
        assert configuration in self._programs or names
        return {}

    def datasets(self) -> tuple[Dataset, ...]:
        """Return one data set."""
        return (Dataset(name="fake_s1", scale=1, prepare=()),)

    def build(
        self,
        dataset: Dataset,
        address: ServerAddress,
        configuration: str,
        directory: Path | None = None,  # noqa: ARG002 - by its protocol
    ) -> None:
        """Note that a data set was made."""
        self._world.steps.append(f"build {dataset.name} on {address.port} for {configuration}")

    def writes(self) -> bool:
        """Return whether any workload is not read-only by its name."""
        return not all(self.only_reads(each) for each in self._world.experiment.workloads)

    def only_reads(self, workload: Workload) -> bool:
        """Return whether its name says so."""
        return "read" in workload.name

    def memory_bytes(self, configuration: str) -> int:
        """Return what the world says."""
        assert configuration in self._programs
        return self._world.needed_bytes

    def huge_page_bytes(self, configuration: str) -> int | None:
        """Return 0: it knows no such pool."""
        assert configuration in self._programs
        return 0

    def beyond_sessions(self, configuration: str, names: Sequence[str]) -> tuple[str, ...]:
        """Return those that need a restart by their name."""
        del configuration
        return tuple(name for name in names if "restart" in name)

    def paid_by_others(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return those that speak of others."""
        return tuple(name for name in names if "others" in name)

    def short_limits(self, configuration: str, pause_s: float) -> Mapping[str, str]:
        """Return those that the experiment's configuration asks for, or its server has."""
        asked = self._world.experiment.configuration(configuration).asked_folded()
        return postgres_settings.short_limits({**self._world.now, **asked}, pause_s)

    def timed_settings(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return those that speak of the clock."""
        return tuple(name for name in names if "clock" in name)

    def keep_templates(self, address: ServerAddress) -> None:
        """Note it."""
        self._world.steps.append(f"keep templates at {address.port}")

    def restore_from_templates(self, address: ServerAddress) -> None:
        """Take half a second."""
        self._world.clock.advance(0.5)
        self._world.steps.append(f"restore templates at {address.port}")

    def missing_data(self, address: ServerAddress) -> tuple[str, ...]:  # noqa: ARG002 - likewise
        """Return what this world says of it."""
        return self._world.missing

    def reload(self, address: ServerAddress, configuration: str, clock: Clock) -> None:  # noqa: ARG002 - see its protocol
        """Note it."""
        self._world.steps.append(f"reload at {address.port}")

    def plans(
        self,
        address: ServerAddress,
        configuration: str,  # noqa: ARG002 - none have any
    ) -> tuple[measurement.StatementPlan, ...]:
        """Return none."""
        assert address.port
        return ()

    def checkpoint_settings(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return those that speak of the WAL."""
        return tuple(name for name in names if "wal" in name)

    def checkpoint_cycle_s(self, effective: Sequence[EffectiveSetting]) -> float | None:
        """Return what was asked for as it is, or nothing."""
        shown = {setting.name: setting.value for setting in effective}
        return float(shown["checkpoint_timeout"]) if "checkpoint_timeout" in shown else None

    def checkpoint_age(self, address: ServerAddress) -> measurement.CheckpointAge:
        """Return the seconds since the server's start: it never makes a checkpoint."""
        started_at = self._world.at(address.port).started_at
        return measurement.CheckpointAge(seconds=self._world.clock.monotonic() - started_at)

    def prewarm(self, address: ServerAddress, *, most_bytes: int | None = None) -> bool:
        """Note it, and how much at most where that is limited."""
        most = "" if most_bytes is None else f", up to {most_bytes} bytes"
        self._world.steps.append(f"prewarm at {address.port}{most}")
        return most_bytes is None or self._world.data_bytes <= most_bytes

    def effective(self, address: ServerAddress) -> tuple[EffectiveSetting, ...]:
        """Return the settings of the running server; stubborn ones kept their default."""
        shown = {"port": str(address.port), **self._world.at(address.port).settings}
        shown |= dict.fromkeys(self._world.stubborn, "default")
        return tuple(EffectiveSetting(name=n, value=v) for n, v in sorted(shown.items()))

    def deviations(
        self, asked: Sequence[Setting], effective: Sequence[EffectiveSetting]
    ) -> tuple[str, ...]:
        """Compare as for PostgreSQL."""
        return postgres_settings.deviations(asked, effective)

    def generator_address(self, address: ServerAddress, connection: str) -> ServerAddress:
        """Return the address itself."""
        assert connection in ("socket", "tcp", "address")
        return address

    def reader(self, address: ServerAddress, workload: Workload) -> ServerReader:
        """Refuse: it says nothing of itself."""
        raise TargetError(f"{address.host} shows nothing of {workload.name}")

    def pilot(self, request: RunRequest) -> tuple[Command, ...]:  # noqa: ARG002 - likewise
        """Return nothing: this generator takes a time."""
        return ()

    def learn(self, request: RunRequest, completed: Sequence[Completed]) -> None:
        """Learn nothing."""

    def run_commands(self, request: RunRequest) -> tuple[Command, ...]:
        """Return a command line that the fake platform understands."""
        self._world.offered.append(request.load)
        assert bool(request.in_turns) is (request.address.port != _PORT)
        words = (request.workload.name, str(request.load.clients), str(request.seconds))
        return (Command(argv=("generate", *words, str(request.log or ""))),)

    @property
    def load(self) -> LoadProgram:
        """Return itself."""
        return self

    @property
    def turns_end_signal(self) -> int:
        """Return pgbench's."""
        return SIGALRM

    def connected_within_s(self, completed: Sequence[Completed]) -> float:
        """Return that it connects at once; a failure is one."""
        return self._parsed(completed, ramp_s=0.0, started_at=1.0).connection_s or 0.0

    def turn_counter(self, request: RunRequest) -> TurnCounter | None:  # noqa: ARG002 - likewise
        """Return None: it logs every transaction."""
        return None

    def deadline_s(self, seconds: float) -> float:
        """Return when a run is given up."""
        return seconds + 60.0

    def parse_run(
        self,
        completed: Sequence[Completed],
        *,
        request: RunRequest,  # noqa: ARG002 - by its protocol
        ramp_s: float,
        started_at: float,
        run_time_s: float | None = None,
    ) -> measurement.Measurement:
        """Return what the fake platform printed, a second of it per interval."""
        return self._parsed(completed, ramp_s=ramp_s, started_at=started_at, run_time_s=run_time_s)

    def _parsed(
        self,
        completed: Sequence[Completed],
        *,
        ramp_s: float,
        started_at: float,
        run_time_s: float | None = None,
    ) -> measurement.Measurement:
        """Return the same."""
        for each in completed:
            if not each.succeeded:
                raise MeasurementError(f"the generator exited with {each.exit_status}")
        printed = json.loads(completed[-1].stdout)
        if "done" in printed:
            return _in_turns(printed)
        falls_at = printed.get("falls_at", printed["seconds"])
        series = tuple(
            measurement.Second(
                end_s=number + 1.0,
                transactions=printed["rate"] * (1.0 if number < falls_at else printed["falls_to"]),
                seconds=1.0,
                latency_mean_s=0.001,
            )
            for number in range(printed["seconds"])
        )
        assert started_at > 0
        assert len(completed) == 1
        after_s = printed["seconds"] - ramp_s
        measured_s = after_s if run_time_s is None else run_time_s
        return measurement.Measurement(
            transactions=printed["rate"] * measured_s,
            seconds=measured_s,
            tail_transactions=printed["rate"] * (after_s - measured_s),
            latency_mean_s=0.001,
            latency_stddev_s=None,
            failed=printed.get("failed", 0),
            connection_s=0.0,
            series=series,
            skipped=self._world.skipped,
        )

    def processed(self, completed: Sequence[Completed]) -> int:
        """Return the whole transactions in all that was printed."""
        printed = [json.loads(each.stdout) for each in completed]
        return sum(each.get("done", int(each["rate"] * each["seconds"])) for each in printed)

    def logs_transactions(self) -> bool:
        """Return that it logs every transaction."""
        return True

    def counts_by_log(self) -> bool:
        """Return that it does not: the rate is printed."""
        return False

    def takes_order(self, workload: Workload) -> bool:  # noqa: ARG002 - likewise
        """Return that it draws scripts."""
        return False

    def latency(self, completed: Sequence[Completed]) -> measurement.RunLatency | None:  # noqa: ARG002 - likewise
        """Return None: the log tells them."""
        return None

    def log_reader(
        self,
        request: RunRequest,
        *,
        started_at: float | Sequence[float],
        ramp_s: float,
        run_time_s: float | None = None,
        stretches: Sequence[Stretch] = (),
    ) -> FakeLogReader | FakeTurnLog:
        """Return a reader of the numbers that the fake platform logs."""
        assert bool(stretches) is bool(request.in_turns)
        if stretches:
            return FakeTurnLog(script=request.workload.name, stretches=stretches)
        clocks = [started_at] if isinstance(started_at, float) else started_at
        assert min(clocks) > 0
        assert ramp_s >= 0
        assert (run_time_s is not None) is request.load.is_open
        return FakeLogReader(script=request.workload.name)

    def ceilings(self) -> None:
        """Return no tools: what a formula can do at most is not measured."""


@dataclass(kw_only=True)
class FakePiece(AtHome, AbstractContextManager["FakePiece"]):
    """A generator that works for as long as it says."""

    world: World
    command: Command

    def __exit__(self, *_: object) -> None:
        """Nothing is held."""

    def completed(self) -> tuple[Completed, ...]:
        """Return what it printed."""
        world, argv = self.world, self.command.argv
        _, workload, clients, seconds, log = argv
        world.clock.advance(float(seconds))
        rate = world.rate(workload, int(clients))
        printed = {"rate": rate, "seconds": int(seconds)}
        if log:
            lost = world.lost_from_logs
            Path(f"{log}.1").write_text(f"{int(rate * int(seconds)) - lost}\n")
        completed = Completed(argv=argv, exit_status=0, stdout=json.dumps(printed), stderr="")
        number, world.uses = world.uses, world.uses + 1
        world.steps.append(f"run {workload} {clients} {seconds}s")
        fault = world.faults.get(number)
        return (fault(world, completed) if fault else completed,)


class FakePlatform:
    """A machine on which the world's one server runs."""

    def __init__(self, world: World, ledger: Ledger, root: Path) -> None:
        self._world = world
        self._ledger = ledger
        self._live = root / "live" / "fake-1"
        if world.slot is not None:
            self._live /= f"slot-{world.slot}"
        self._standstill = FakeStandstill(world)
        self._prepared: set[str] = set()
        self._copies: set[str] = set()

    @property
    def address(self) -> ServerAddress:
        """Return where the server is reached."""
        if not self._world.running:
            raise TargetError("the server is not running")
        return ServerAddress(host="/fake", port=self._world.port, user="steelyard")

    @property
    def root(self) -> Path | None:
        """Return where the data would be."""
        return self._live

    @property
    def scripts(self) -> Path:
        """Return a directory for scripts."""
        return self._made() / "scripts"

    @property
    def is_running(self) -> bool:
        """Return whether a server is up."""
        return self._world.running

    def require_ready(self) -> None:
        """Be ready always."""

    def free_bytes(self) -> int:
        """Return a terabyte."""
        return 10**12

    def find(self, program: FakeProgram, content: Sequence[object]) -> PreparedState | None:
        """Return a state that was prepared before."""
        key = f"{program.identity}{content}"
        return self._state(key) if key in self._prepared else None

    def _state(self, key: str) -> PreparedState:
        return PreparedState(key=key, data=Path("/fake/data"), size_bytes=1)

    def prepare(
        self,
        program: FakeProgram,
        content: Sequence[object],
        build: Callable[[ServerAddress], None],
    ) -> PreparedState:
        """Build once per content."""
        key = f"{program.identity}{content}"
        if key not in self._prepared:
            build(ServerAddress(host="/fake", port=5554))
            self._prepared.add(key)
        return self._state(key)

    def restore(self, state: PreparedState, means: str) -> float:
        """Stop and copy; return the seconds."""
        self.stop(keep_data=False)
        self._made()
        self._copies.add(state.key)
        first_s = self._world.first_restores_s
        restore_s = first_s.pop(0) if first_s else self._world.restore_s
        self._world.clock.advance(restore_s)
        self._world.steps.append(f"restore by {means}")
        return restore_s

    def reprovision(
        self,
        program: FakeProgram,
        content: Sequence[object],
        build: Callable[[ServerAddress], None],
    ) -> PreparedState:
        """Stop and build from nothing, in the time that a restore takes."""
        self.stop(keep_data=False)
        self._made()
        key = f"{program.identity}{content}"
        build(ServerAddress(host="/fake", port=5553))
        self._world.clock.advance(self._world.restore_s)
        self._copies.add(key)
        self._world.steps.append("reprovision")
        return self._state(key)

    def has_live_copy(self, state: PreparedState) -> bool:
        """Return whether the state was restored before."""
        return state.key in self._copies

    def copies_by_reflink(self, state: PreparedState) -> bool:
        """Return what the test decided."""
        assert state.key in self._prepared
        return self._world.reflink

    def start(
        self, state: PreparedState, program: FakeProgram, settings: Mapping[str, str]
    ) -> None:
        """Start the server, unless the world refuses."""
        assert state.key in self._copies
        assert not self._world.running
        self._made()
        if self._world.refuses > 0:
            self._world.refuses -= 1
            raise TargetError(f"the server ({program.version}) did not start:\nFATAL: no")
        self._world.clock.advance(self._world.start_s)
        self._world.running = True
        self._standstill = FakeStandstill(self._world)
        self._world.started_at = self._world.clock.monotonic()
        self.configure(settings)
        self._world.steps.append("start")

    def sight(self) -> None:
        """Return None: it is in no cluster."""

    def vantage(self) -> None:
        """Return nothing: its processes are nowhere."""

    def means(self) -> tuple[str, ...]:
        """Return all of a local machine's."""
        return ("reflink", "copy", "template")

    def facts(self) -> tuple[Fact, ...]:
        """Return none."""
        return ()

    def findings(self) -> tuple[Finding, ...]:
        """Return none."""
        return ()

    def configure(self, settings: Mapping[str, str]) -> bool:
        """Take other settings."""
        self._world.settings = {n: v for n, v in settings.items() if n not in self._world.stubborn}
        return True

    def unfit(self, limits: Mapping[str, str]) -> tuple[Unfit, ...]:
        """Return none."""
        assert set(limits) <= set(KEYS)
        return ()

    def limit(self, limits: Mapping[str, str]) -> LimitsInForce:
        """Take limits as they are asked for, but for those that the world does not keep."""
        asked = [s for t in self._world.experiment.configurations for s in t.settings]
        keys = {setting.name for setting in asked if setting.layer is Layer.CGROUP}
        self._world.limits = dict(limits)
        if keys:
            self._world.steps.append(f"limit {limits}" if limits else "unlimited")
        kept = {key: value for key, value in limits.items() if key not in self._world.stubborn}
        return LimitsInForce(
            effective=tuple(
                EffectiveSetting(name=Layer.CGROUP.name_of(key), value=kept.get(key, "unlimited"))
                for key in sorted(keys)
            ),
            deviations=tuple(f"{key} is not in force" for key in limits if key not in kept),
        )

    def stop(self, *, keep_data: bool) -> None:
        """Stop the server, if there is one."""
        if self._world.running:
            self._world.steps.append(f"stop{' in order' if keep_data else ''}")
        self._standstill.proceed()
        self._world.running = False

    @property
    def standstill(self) -> FakeStandstill:
        """Return what stops the server that runs, or the last one."""
        return self._standstill

    @property
    def guarded(self) -> Guarded:
        """Return its directory."""
        return Guarded(groups=(), directory=self._live)

    def begin_together(
        self, commands: Sequence[Command], *, timeout_s: float
    ) -> "FakeGenerators | FakePiece":
        """Let the generator work whenever it does not stand still, or to its end in one piece."""
        (command,) = commands
        _, workload, clients, seconds, log = command.argv
        if not self._world.running:
            raise TargetError("the server is not running")
        if timeout_s > float(seconds):
            return FakePiece(world=self._world, command=command)
        assert timeout_s == float(seconds)
        self._world.steps.append(f"connect {workload} {clients} at {self._world.port}")
        generators = FakeGenerators(
            world=self._world,
            standstill=self._standstill,
            command=command,
            rate=self._world.rate(workload, int(clients)),
            log=Path(f"{log}.1") if log else None,
        )
        self._world.generators.append(generators)
        return generators

    def log_directory(self) -> Path:
        """Return a directory for logs."""
        path = self._made() / "logs"
        path.mkdir(exist_ok=True)
        return path

    def logs_in_memory(self) -> bool:
        """Return what the world says."""
        return self._world.logs_in_memory

    def logs(self) -> str:
        """Return a line of the server's."""
        return "LOG:  ready\n" if self._copies else ""

    def destroy(self) -> None:
        """Remove what was made."""
        self.stop(keep_data=False)
        if self._live.exists():
            remove_tree(self._live)
            self._ledger.removed(MadeDirectory(path=self._live))

    def _made(self) -> Path:
        if not self._live.exists():
            self._ledger.created(MadeDirectory(path=self._live))
            self._live.mkdir(parents=True)
        return self._live


def _in_turns(printed: Mapping[str, float]) -> measurement.Measurement:
    """Return what a generator that was paused in between knows of its run."""
    return measurement.Measurement(
        transactions=printed["done"],
        seconds=printed["seconds"],
        latency_mean_s=0.001,
        latency_stddev_s=None,
        failed=0,
        connection_s=printed["connection_s"],
        series=(),
    )


def generator_fails(_world: World, completed: Completed) -> Completed:
    """Let the generator end with an error."""
    return Completed(argv=completed.argv, exit_status=2, stdout="", stderr="client 3 aborted\n")


def server_dies(world: World, completed: Completed) -> Completed:
    """Let the server be gone before the generator's end, which notices."""
    world.running = False
    return generator_fails(world, completed)


def generator_hangs(_world: World, completed: Completed) -> Completed:
    """Let the generator not end in time."""
    raise MeasurementError(f"{completed.argv[0]} did not end within 67 s and was killed")


def clock_jumps(world: World, completed: Completed) -> Completed:
    """Let somebody set the wall clock meanwhile."""
    world.clock.step_wall(7.0)
    return completed


def transactions_fail(_world: World, completed: Completed) -> Completed:
    """Let some transactions fail, which is no reason to throw a run away."""
    printed = {**json.loads(completed.stdout), "failed": 3}
    return Completed(
        argv=completed.argv, exit_status=0, stdout=json.dumps(printed), stderr=completed.stderr
    )


def rate_falls(at_s: int, share: float) -> Fault:
    """Return a fault that leaves so much of the rate from a second of the run on."""

    def fall(_world: World, completed: Completed) -> Completed:
        printed = {**json.loads(completed.stdout), "falls_at": at_s, "falls_to": share}
        return Completed(argv=completed.argv, exit_status=0, stdout=json.dumps(printed), stderr="")

    return fall
