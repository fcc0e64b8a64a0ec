"""Targets of several kinds in one experiment: one engine, one room, each its own platform."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from fakes.campaigns import Stage, an_experiment
from fakes.clock import FakeClock
from fakes.doors import fake_doors
from fakes.host import FakeHost
from fakes.processes import FakeProcesses
from fakes.programs import FakeLedger
from fakes.servers import FakeEngine, FakePlatform, World
from fakes.sql import FakeSql
from steelyard.campaign.run.bench import Bench
from steelyard.campaign.run.beside_blocks import choose_means
from steelyard.core.campaign import ANEW
from steelyard.core.experiment import Experiment
from steelyard.core.outside import ServerAddress
from steelyard.core.schedule import Pausing
from steelyard.core.target import CloudNativePgTarget, EndpointTarget
from steelyard.core.wording import InputError, PreflightError, TargetError
from steelyard.places.local.platform import LocalOptions, LocalPlatform
from steelyard.systems.postgres import engine
from steelyard.systems.postgres.engine import PostgresEngine
from steelyard.systems.postgres.factory import (
    EndpointEngine,
    JoinedEngine,
    RunningServer,
)
from steelyard.systems.postgres.server import Installation, PostgresProgram
from steelyard.systems.protocol import Engine, RunRequest
from steelyard.targets.assembly import Assembly, put_together
from steelyard.targets.differences import Room, shared_room

_ADDRESS = ServerAddress(host="db", port=5432, user="bench", database="postgres")


def mixed() -> Experiment:
    """Return a baseline on this machine beside a configuration on a server that is there."""
    experiment = an_experiment()
    slow, fast = experiment.configurations
    there = replace(fast, target=EndpointTarget(host="db"), settings=())
    return replace(experiment, configurations=(slow, there))


def _installation(version: str) -> Installation:
    programs = Path("/programs") / version
    return Installation(programs=programs, root=programs, version=version)


def _joined(*, here: str, there: str, tls: bool = False) -> JoinedEngine:
    """Return the engine of a server here and one there, with pgbench of these versions."""
    experiment, processes, sql = mixed(), FakeProcesses(FakeClock()), FakeSql()
    own = PostgresProgram(installation=_installation(here), initdb=(), sql=sql)
    around = fake_doors(processes=processes, sql=sql)
    local = PostgresEngine(experiment, {"slow": own}, {"slow": {}}, around, "nobody")
    server = RunningServer(
        version="17.2", superuser=True, tls=tls, catalogue={}, bounds={}, address=_ADDRESS
    )
    endpoint = EndpointEngine(experiment, {"fast": server}, _installation(there), around)
    engines = {"slow": local, "fast": endpoint}
    return JoinedEngine(experiment, engines, around)


@pytest.mark.parametrize(
    ("here", "there", "tls", "driver"),
    [
        ("18.6", "16.1", False, "18.6"),
        ("16.1", "18.6", False, "18.6"),
        ("18.6", "16.1", True, "16.1"),  # the one here may not speak it
    ],
)
def test_one_pgbench_drives_all(here: str, there: str, driver: str, *, tls: bool) -> None:
    """The newest, or the newest that speaks TLS; each server keeps its version and its account."""
    engine = _joined(here=here, there=there, tls=tls)
    assert engine.tools()["pgbench"] == driver
    assert engine.label("slow") == f"PostgreSQL {here}"
    assert engine.label("fast") == "PostgreSQL 17.2"
    experiment = mixed()
    for name, account in (("slow", "nobody"), ("fast", None)):
        request = RunRequest(
            workload=experiment.workloads[0],
            load=experiment.loads[0],
            protocol="simple",
            seconds=1,
            address=_ADDRESS,
            configuration=name,
        )
        (command,) = engine.run_commands(request)
        assert command.argv[0] == f"/programs/{driver}/pgbench"
        assert command.account == account


def test_each_server_is_reloaded_where_its_user_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rights on functions of a server that is there are granted in the database that was named."""
    asked: list[str] = []
    monkeypatch.setattr(engine, "reload", lambda address, *_: asked.append(address.database))
    for name in ("slow", "fast"):
        own = replace(_ADDRESS, database="steelyard_s1")
        _joined(here="18.6", there="18.6").reload(own, name, FakeClock())
    assert asked == ["steelyard_s1", "postgres"]


def test_only_servers_of_this_machine_take_its_memory() -> None:
    """What is elsewhere keeps no other from being up."""
    engine = _joined(here="18.6", there="18.6")
    assert engine.memory_bytes("slow") > 0
    assert engine.memory_bytes("fast") == 0
    assert engine.huge_page_bytes("fast") == 0


def test_an_older_pgbench_is_told_of_the_one_that_drives() -> None:
    """The server of 17 under a 16 is a finding; under the other place's 18 it is none."""
    assert not _codes(_joined(here="18.6", there="16.1"))
    assert _codes(_joined(here="16.3", there="16.1")) == {"older-pgbench"}


def _codes(engine: JoinedEngine) -> set[str]:
    return {each.code for each in engine.findings() if each.code == "older-pgbench"}


_HERE = Room(pausing=Pausing.FREEZER, memory_bytes=10, huge_page_bytes=4)
_THERE = Room(pausing=Pausing.GENERATOR)


@pytest.mark.parametrize(
    ("rooms", "pausing", "memory_bytes"),
    [
        ([_HERE, _THERE], Pausing.GENERATOR, 10),
        ([_HERE, _HERE], Pausing.FREEZER, 10),
        ([_HERE, Room()], None, None),
    ],
)
def test_all_stand_still_alike(
    rooms: list[Room], pausing: Pausing | None, memory_bytes: int | None
) -> None:
    """Where one server goes on in pauses all do; where one cannot be up with others none can."""
    room = shared_room(rooms)
    assert (room.pausing, room.memory_bytes) == (pausing, memory_bytes)


@pytest.mark.parametrize(("goes_on", "kind"), [(True, Pausing.GENERATOR), (False, Pausing.SIGNALS)])
def test_a_server_here_goes_on_beside_others(
    tmp_path: Path, kind: Pausing, *, goes_on: bool
) -> None:
    """Then only its generators are stopped, whether a server runs or not."""
    options = LocalOptions(
        root=tmp_path, campaign_id="c", account=None, port=None, slot=1, goes_on=goes_on
    )
    platform = LocalPlatform(options, FakeLedger(), FakeProcesses(FakeClock()), FakeClock())
    if goes_on:
        assert platform.standstill.kind is kind
        return
    with pytest.raises(TargetError):  # it would stop the server, and there is none
        _ = platform.standstill


def _parts(tmp_path: Path, engine: Engine) -> list[Assembly]:
    """Return an assembly of each configuration."""
    world = World(clock=FakeClock(), experiment=mixed())
    parts = []
    for name, room in (("slow", _HERE), ("fast", _THERE)):
        seat = {name: FakePlatform(world, FakeLedger(), tmp_path)}
        slots = partial(_seats, seat)
        parts.append(Assembly(engine=engine, platforms=seat, room=room, slots=slots))
    return parts


def _seats(seat: dict[str, FakePlatform], number: int) -> tuple[dict[str, FakePlatform], ...]:
    assert number > 0
    return (seat,)


def test_parts_are_put_together_by_configuration(tmp_path: Path) -> None:
    """Each keeps the platform and the slots of its own part, in the order of the file."""
    parts = _parts(tmp_path, _joined(here="18.6", there="18.6"))
    whole = put_together(mixed(), fake_doors(), parts)
    assert list(whole.platforms) == ["slow", "fast"]
    assert whole.platforms["fast"] is parts[1].platforms["fast"]
    assert whole.room.pausing is Pausing.GENERATOR
    assert whole.slots is not None
    assert [set(slot) for slot in whole.slots(2)] == [{"slow"}, {"fast"}]
    assert isinstance(whole.engine, JoinedEngine)


def test_a_part_alone_is_left_as_it_is(tmp_path: Path) -> None:
    """Nothing is joined where there is one kind."""
    (part, _) = _parts(tmp_path, _joined(here="18.6", there="18.6"))
    assert put_together(an_experiment(), fake_doors(), [part]) is part


def test_without_a_shared_generator_they_are_refused(tmp_path: Path) -> None:
    """The fake system has no engine that is PostgreSQL's."""
    engine = FakeEngine(World(clock=FakeClock(), experiment=mixed()))
    with pytest.raises(PreflightError, match="existing and local"):
        put_together(mixed(), fake_doors(), _parts(tmp_path, engine))


def test_what_is_made_anew_is_so_beside_what_stays(tmp_path: Path) -> None:
    """Two Clusters that differ are made for each start; an endpoint keeps its server.

    It gets its data back by its own means.
    """
    experiment, clock = mixed(), FakeClock()
    slow, there = experiment.configurations
    other = replace(slow, name="other", target=CloudNativePgTarget(storage_class="slow"))
    clusters = (replace(slow, target=CloudNativePgTarget()), other)
    experiment = replace(experiment, configurations=(*clusters, there))
    world = World(clock=clock, experiment=experiment)
    platforms = {
        "slow": FakePlatform(world, FakeLedger(), tmp_path),
        "other": FakePlatform(world, FakeLedger(), tmp_path),
        "fast": _There(world, FakeLedger(), tmp_path),
    }
    assembly = Assembly(engine=FakeEngine(world), platforms=platforms)
    bench = Bench(experiment, assembly, clock, FakeHost())
    prepared: list[str] = []
    bench.prepare(prepared.append)
    assert len(prepared) == 1
    chosen = choose_means(experiment, bench, clock)
    assert (chosen.means, chosen.others) == (ANEW, (("fast", "template database"),))
    world.steps.clear()
    for name in ("slow", "fast"):
        bench.activate(name, restore=True, means=chosen.means)
    found = [step for step in world.steps if step.startswith(("re", "template"))]
    assert found == ["reprovision", "restore by template database"]


class _There(FakePlatform):
    """A server whose files are out of reach."""

    @property
    def root(self) -> Path | None:
        """Return None."""
        return None

    def means(self) -> tuple[str, ...]:
        """Return what a server that is there already has."""
        return ("template database",)


def test_each_place_restores_by_its_own_means(tmp_path: Path) -> None:
    """The plan names both, and a start uses that of its place."""
    clock = FakeClock()
    world = World(clock=clock, experiment=mixed())
    here = FakePlatform(world, FakeLedger(), tmp_path)
    platforms = {"slow": here, "fast": _There(world, FakeLedger(), tmp_path)}
    assembly = Assembly(engine=FakeEngine(world), platforms=platforms)
    bench = Bench(mixed(), assembly, clock, FakeHost())
    bench.prepare(lambda _: None)
    chosen = choose_means(mixed(), bench, clock)
    assert (chosen.means, chosen.others) == ("reflink", (("fast", "template database"),))
    world.steps.clear()
    bench.activate("fast", restore=True, means=chosen.means)
    bench.activate("slow", restore=True, means=chosen.means)
    found = [step for step in world.steps if step.startswith("restore")]
    assert found == ["restore by template database", "restore by reflink"]


def test_a_campaign_over_both_says_so(tmp_path: Path) -> None:
    """It ends like any other; one instance a side, no cause, and which were there already."""
    stage = Stage.new(mixed(), tmp_path / "campaign")
    analysis = stage.run()
    assert analysis.unit is not None
    assert "some of which were there already" in analysis.unit
    assert [result.instances for result in analysis.results] == [1]


def test_each_engine_checks_what_it_drives(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is there says which names of a script it does not know, here too."""
    monkeypatch.setattr(EndpointEngine, "script_problems", lambda _: ("q.sql:1: no t",))
    with pytest.raises(InputError, match=r"^q\.sql:1: no t$"):
        _joined(here="18.6", there="18.6").check_flags()


def test_what_means_the_same_is_known_to_the_engine_of_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of two configurations of one engine it is asked; of two engines the settings say it."""
    engine = _joined(here="18.6", there="18.6")
    monkeypatch.setattr(PostgresEngine, "asks_the_same", lambda *_: False)
    monkeypatch.setattr(EndpointEngine, "asks_the_same", lambda *_: True)
    assert engine.asks_the_same("fast", "fast", ("work_mem",))
    assert not engine.asks_the_same("slow", "fast", ("work_mem",))
