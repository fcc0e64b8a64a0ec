"""Whether configurations alternate: each obstacle, what it does in `auto`, and what it is not."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from fakes.campaigns import an_experiment, asks
from fakes.clock import FakeClock
from fakes.servers import FakeEngine, World
from steelyard.answers.turns import taken_words
from steelyard.core.experiment import (
    Calibration,
    CapacityAsked,
    Design,
    Experiment,
    GeneratorName,
    Layer,
    LogPolicy,
    Reset,
    Script,
    Setting,
    SwitchCost,
)
from steelyard.core.schedule import (
    LatencyGoal,
    Load,
    LoadCommand,
    Mode,
    Pausing,
    TurnTimes,
    WorkloadTurns,
)
from steelyard.core.target import (
    EndpointTarget,
    EngineName,
    LocalTarget,
    RedisEndpointTarget,
    RedisLocalTarget,
    Target,
)
from steelyard.core.wording import GIB, MIB, ExitCode, InputError
from steelyard.systems.protocol import Engine
from steelyard.targets.differences import DesignChoice, Room, can_alternate, choose_design

ROOM = Room(pausing=Pausing.SIGNALS, memory_bytes=4 * GIB)
Change = Callable[[Experiment], Experiment]


def an_engine(
    experiment: Experiment, *, needs: int = GIB, huge: dict[str, int | None] | None = None
) -> Engine:
    """Return an engine whose servers need so much memory, and so much of huge pages."""

    class _Engine(FakeEngine):
        def huge_page_bytes(self, configuration: str) -> int | None:
            return 0 if huge is None else huge[configuration]

    world = World(clock=FakeClock(), experiment=experiment)
    world.needed_bytes = needs
    return _Engine(world)


def chosen(
    experiment: Experiment,
    room: Room = ROOM,
    *,
    needs: int = GIB,
    huge: dict[str, int | None] | None = None,
    turns: tuple[WorkloadTurns, ...] = (),
) -> DesignChoice:
    """Return what is chosen."""
    return choose_design(experiment, an_engine(experiment, needs=needs, huge=huge), room, turns)


def measured(**changes: object) -> Change:
    """Return what changes `measure`."""

    def change(experiment: Experiment) -> Experiment:
        return replace(experiment, measure=replace(experiment.measure, **changes))  # type: ignore[arg-type]

    return change


def asked(**changes: object) -> Change:
    """Return what changes the experiment."""
    return lambda experiment: replace(experiment, **changes)  # type: ignore[arg-type]


def contender(*settings: Setting, **changes: object) -> Change:
    """Return what changes the second configuration."""

    def change(experiment: Experiment) -> Experiment:
        first, second = experiment.configurations
        second = replace(second, settings=(*second.settings, *settings), **changes)  # type: ignore[arg-type]
        return replace(experiment, configurations=(first, second))

    return change


def scripted(text: str) -> Change:
    """Return what makes the workload one of an own script."""

    def change(experiment: Experiment) -> Experiment:
        (workload,) = experiment.workloads
        script = Script(name="think.sql", text=text)
        return replace(experiment, workloads=(replace(workload, builtin=None, scripts=(script,)),))

    return change


def on(layer: Layer, name: str, value: str) -> Setting:
    """Return one setting."""
    return Setting(layer=layer, name=name, value=value)


def written(**changes: object) -> Change:
    """Return what changes `measure` of an experiment that writes."""

    def change(experiment: Experiment) -> Experiment:
        (workload,) = experiment.workloads
        renamed = replace(experiment, workloads=(replace(workload, name="writes"),))
        return measured(**changes)(renamed)

    return change


def after(*changes: Change) -> Change:
    """Return several changes as one."""

    def change(experiment: Experiment) -> Experiment:
        for each in changes:
            experiment = each(experiment)
        return experiment

    return change


OBSTACLES: dict[str, tuple[Change, str]] = {
    "one configuration": (
        lambda experiment: replace(experiment, configurations=experiment.configurations[:1]),
        "there is one configuration",
    ),
    "a rate": (
        asked(loads=(Load(clients=4, threads=1), Load(clients=4, threads=1, rate_per_s=100.0))),
        "under a rate what is due in a pause would be worked off after it",
    ),
    "a goal": (
        asked(goal=LatencyGoal(share=0.99, limit_s=0.02)),
        "a search for the capacity is not taken in turns",
    ),
    "a capacity": (
        asked(capacity=CapacityAsked(clients=(1, 2), runs=3)),
        "a search for the capacity is not taken in turns",
    ),
    "sleep": (scripted("SELECT 1;\n\\sleep 5 ms\n"), "think.sql sleeps"),
    "sleep in capitals": (scripted("  \\SLEEP 5 ms\n"), "think.sql sleeps"),
    "sleep in the server": (scripted("SELECT 1, PG_SLEEP (0.005);\n"), "think.sql sleeps"),
    "sleep for": (scripted("SELECT pg_sleep_for('5 ms');\n"), "think.sql sleeps"),
    "no log": (measured(log=LogPolicy.OFF), "`measure.log: off`"),
    "a sampled log": (measured(log_sampling=0.1), "`measure.log_sampling`"),
    "rounds": (
        measured(runs_per_start=2),
        "`measure.runs_per_start` asks for several runs in one start",
    ),
    "calibration": (
        measured(warm_up_s=None, calibration=Calibration()),
        "`measure.calibration` measures the warm-up of starts",
    ),
    "data once": (measured(reset=Reset.CAMPAIGN), "each block begins with fresh copies"),
    "servers made anew": (
        measured(switch=SwitchCost.REPROVISION),
        "each block begins with fresh copies",
    ),
    "kernel": (
        contender(on(Layer.LINUX, "vm.swappiness", "1")),
        "settings of the whole machine hold for all servers on it",
    ),
    "by the clock": (
        after(written(), contender(*asks(wall_clock_thing="on"))),
        "wall_clock_thing acts by the clock",
    ),
    "a limit of sessions under reads alone": (
        contender(*asks(statement_timeout="1ms")),
        "statement_timeout = 1ms of fast goes on in the pauses, which may last 10 s",
    ),
    "a checkpoint cycle": (
        after(written(), contender(*asks(max_wal_size="4GB"))),
        "the effect of max_wal_size changes over a checkpoint cycle",
    ),
}

NO_OBSTACLES: dict[str, Change] = {
    "nothing": lambda experiment: experiment,
    "a restart": contender(*asks(restart_thing="on")),
    "a limit of its own": contender(on(Layer.CGROUP, "cpus", "1")),
    "a script that does not sleep": scripted("SELECT pg_sleeping, 1; -- never \\sleep\n"),
    "a log that is kept": measured(log=LogPolicy.KEEP),
    "one round": measured(runs_per_start=1),
    "a declared warm-up beside a calibration": measured(warm_up_s=3.0, calibration=Calibration()),
    "data per start": measured(reset=Reset.START),
    "data per block": measured(reset=Reset.BLOCK),
    "a switch by restart": measured(switch=SwitchCost.RESTART),
    "a clock under reads alone": contender(*asks(wall_clock_thing="on")),
    "a checkpoint cycle under reads alone": contender(*asks(max_wal_size="4GB")),
    "the beginning of a checkpoint cycle": after(
        written(runs_per_start=1), contender(*asks(max_wal_size="4GB"))
    ),
    "the same clock for both": written(),
}


@pytest.mark.parametrize("name", OBSTACLES)
def test_an_obstacle_means_starts_and_is_said(name: str) -> None:
    """The reason stands in the plan; who asks for turns is refused with it, and the way out."""
    change, told = OBSTACLES[name]
    found = chosen(change(an_experiment()))
    assert not found.alternates
    assert told in found.reason
    with pytest.raises(InputError, match="the configurations cannot alternate: ") as caught:
        chosen(replace(change(an_experiment()), design=Design.ALTERNATING))
    assert told in caught.value.message
    assert "Leave `design` out" in caught.value.hint
    assert caught.value.exit_code is ExitCode.BAD_INPUT


@pytest.mark.parametrize("name", NO_OBSTACLES)
@pytest.mark.parametrize("design", [Design.AUTO, Design.ALTERNATING])
def test_what_is_no_obstacle(name: str, design: Design) -> None:
    """It alternates, and the reason says at whose wish."""
    found = chosen(replace(NO_OBSTACLES[name](an_experiment()), design=design))
    assert found.alternates
    by_itself = "all of them can be up at the same time"
    assert found.reason == (by_itself if design is Design.AUTO else "the experiment asks for it")


@pytest.mark.parametrize("design", [Design.ONE_BY_ONE, Design.ONCE])
def test_who_asks_for_starts_gets_them(design: Design) -> None:
    """Whatever would be possible."""
    experiment = replace(an_experiment(), design=design)
    assert not chosen(experiment).alternates


def test_a_place_without_a_pause_is_named_in_its_own_words() -> None:
    """Such as servers that somebody else runs."""
    room = Room(unable="its servers belong to somebody else")
    found = chosen(an_experiment(), room)
    assert (found.alternates, found.reason) == (False, "its servers belong to somebody else")


def test_all_obstacles_are_told_to_who_asks_for_turns() -> None:
    """One attempt, one list; `auto` needs only the first."""
    experiment = measured(runs_per_start=3, log=LogPolicy.OFF)(an_experiment())
    with pytest.raises(InputError) as caught:
        chosen(replace(experiment, design=Design.ALTERNATING))
    assert all(word in caught.value.message for word in ("measure.runs_per_start", "measure.log"))
    assert "measure.runs_per_start" not in chosen(experiment).reason


@pytest.mark.parametrize(
    ("available", "alternates"),
    [(None, True), (2500 * MIB, True), (2499 * MIB, False), (0, False)],
)
def test_servers_have_to_fit_into_memory_together(
    available: int | None, *, alternates: bool
) -> None:
    """Two of 1000 MiB into four fifths of what there is; where nobody knows, it is not asked."""
    room = replace(ROOM, memory_bytes=available)
    found = chosen(an_experiment(), room, needs=1000 * MIB)
    assert found.alternates is alternates
    if not alternates:
        assert "together they may take 2.0 GiB with their data" in found.reason


def several(**needs: int) -> tuple[Experiment, Engine]:
    """Return configurations with the memory that each of their servers needs; `slow` is one."""
    experiment = an_experiment()
    first = experiment.configurations[0]
    named = tuple(replace(first, name=name) for name in needs)

    class _Engine(FakeEngine):
        def memory_bytes(self, configuration: str) -> int:
            return needs[configuration]

        def huge_page_bytes(self, configuration: str) -> int:
            return needs[configuration]

    asked = replace(experiment, configurations=named)
    return asked, _Engine(World(clock=FakeClock(), experiment=asked))


@pytest.mark.parametrize(
    ("available_gib", "at_once", "needed_gib"),
    [(12.5, None, 10), (12.4, 3, 8), (10.0, 3, 8), (9.9, 2, 5), (6.25, 2, 5), (6.2, 0, 5)],
)
@pytest.mark.parametrize("of", ["memory", "huge pages"])
def test_as_many_as_fit_are_up_whichever_they_are(
    of: str, available_gib: float, at_once: int | None, needed_gib: int
) -> None:
    """The baseline and the largest others count; where not even one other fits, no turns."""
    experiment, engine = several(slow=1 * GIB, a=2 * GIB, b=4 * GIB, c=3 * GIB)
    free = int(available_gib * GIB)
    room = replace(ROOM, memory_bytes=free)
    if of == "huge pages":
        room = replace(ROOM, memory_bytes=100 * GIB, huge_page_bytes=int(0.8 * free))
    found = choose_design(experiment, engine, room)
    assert found.alternates is (at_once != 0)
    if at_once == 0:
        assert "the baseline and one other together" in found.reason
        return
    assert found.memory is not None
    assert found.memory.at_once == at_once
    assert found.memory.needed_bytes == needed_gib * GIB
    assert found.reason == (
        "all of them can be up at the same time"
        if at_once is None
        else "no more of them fit into memory at the same time"
    )


@pytest.mark.parametrize(
    ("free", "slow", "fast", "told"),
    [
        (None, None, None, ""),
        (0, 0, 0, ""),
        (GIB, 0, GIB, ""),
        (GIB, 512 * MIB, 512 * MIB, ""),
        (GIB, 513 * MIB, 512 * MIB, "together they take 1.0 GiB of huge pages"),
        (GIB, None, 0, ""),
        (GIB, None, GIB, "there are huge pages, which the server that starts first would take"),
        (GIB, None, None, "there are huge pages, which the server that starts first would take"),
    ],
)
def test_huge_pages_are_a_need_that_adds_up(
    free: int | None, slow: int | None, fast: int | None, told: str
) -> None:
    """Who only tries to get some would leave the next one fewer, and they would not be alike."""
    room = replace(ROOM, huge_page_bytes=free)
    found = chosen(an_experiment(), room, huge={"slow": slow, "fast": fast})
    assert found.alternates is not bool(told)
    assert told in found.reason


@pytest.mark.parametrize(
    ("latency_s", "turn_s"),
    [(0.001, 0.25), (0.009, 0.9), (0.01, 1.0), (0.04, 1.0), (0.0501, 1.05), (0.25, 5.0)],
)
def test_a_turn_holds_a_hundred_latencies_or_twenty_of_long_ones(
    latency_s: float, turn_s: float
) -> None:
    """From a second on transactions over an edge count by their share, so that fewer will do."""
    times = TurnTimes().for_latency(latency_s)
    assert times.turn_s == turn_s
    assert times.shares_edges is (turn_s >= 1.0)
    turns = WorkloadTurns(workload="reports", times=times)
    assert chosen(an_experiment(), turns=(turns,)).alternates


def test_transactions_that_are_too_long_for_turns_are_named() -> None:
    """After they were tried: with the workload and how long a turn would be."""
    times = TurnTimes().for_latency(0.26)
    turns = WorkloadTurns(workload="reports", times=times)
    found = chosen(an_experiment(), turns=(turns,))
    assert not found.alternates
    assert "a turn of reports would have to last 5.2 s" in found.reason
    asked = replace(an_experiment(), design=Design.ALTERNATING)
    with pytest.raises(InputError, match=re.escape(found.reason)) as refused:
        chosen(asked, turns=(turns,))
    assert "Leave `design` out" in refused.value.hint


def of_redis(replica: tuple[tuple[str, str], ...] | None) -> Experiment:
    """Return an experiment with servers of Redis on this machine."""
    experiment = an_experiment()
    target = RedisLocalTarget(replica=replica)
    return replace(
        experiment,
        engine=EngineName.REDIS,
        generator=GeneratorName.REDIS_BENCHMARK,
        configurations=tuple(replace(each, target=target) for each in experiment.configurations),
    )


def test_servers_that_count_by_themselves_need_no_log() -> None:
    """redis-benchmark logs no time, and `measure.log: off` changes nothing there."""
    experiment = of_redis(None)
    assert chosen(experiment).alternates
    assert chosen(measured(log=LogPolicy.OFF)(experiment)).alternates


@pytest.mark.parametrize("replica", [(), (("save", ""),)])
def test_a_server_with_a_replica_beside_it_is_not_paused(
    replica: tuple[tuple[str, str], ...],
) -> None:
    """The replica would look for a primary that died."""
    found = chosen(of_redis(replica))
    assert not found.alternates
    assert found.reason == "a replica watches its server, and would take a pause for its end"


_BACK_TO_BACK = "one by one, back to back, because {} is enough to switch; not alternating, because"
_ONE_REDIS = "slow, fast are on one server, and a setting of Redis holds for all its sessions"
_ONE_SERVER = "slow, fast are on one server, and no session can have its own shared_buffers"
_RATE = "under a rate what is due in a pause would be worked off after it"
_AT_A_RATE = replace(an_experiment(), loads=(Load(clients=1, threads=1, rate_per_s=5.0),))


@pytest.mark.parametrize(
    ("targets", "mode", "switch", "words"),
    [
        (
            [RedisEndpointTarget(uri="redis://h")] * 2,
            Mode.STARTS,
            SwitchCost.RESTART,
            f"one by one, because {_ONE_REDIS}; no server is restarted",
        ),
        (
            [RedisEndpointTarget(uri="redis://h", restart_command=("x",))] * 2,
            Mode.STARTS,
            SwitchCost.RESTART,
            f"one by one, because {_ONE_REDIS}",
        ),
        (
            [RedisEndpointTarget(uri="redis://h")] * 2,
            Mode.BACK_TO_BACK,
            SwitchCost.RELOAD,
            f"{_BACK_TO_BACK.format('CONFIG SET')} {_ONE_REDIS}",
        ),
        (
            [EndpointTarget(uri="postgresql://h/d")] * 2,
            Mode.BACK_TO_BACK,
            SwitchCost.RELOAD,
            f"{_BACK_TO_BACK.format('a reload')} {_ONE_SERVER}",
        ),
        (
            [EndpointTarget(uri="postgresql://h/d"), EndpointTarget(uri="postgresql://i/d")],
            Mode.STARTS,
            SwitchCost.RESTART,
            f"one by one, because {_RATE}; no server is restarted",
        ),
        (
            [LocalTarget(), EndpointTarget(uri="postgresql://i/d")],
            Mode.STARTS,
            SwitchCost.RESTART,
            f"one by one, because {_RATE}",
        ),
        (
            [LocalTarget()] * 2,
            Mode.STARTS,
            SwitchCost.RESTART,
            f"one by one, because switching needs a restart; not alternating, because {_RATE}",
        ),
    ],
)
def test_the_design_names_the_true_reason(
    targets: list[Target], mode: Mode, switch: SwitchCost, words: str
) -> None:
    """Of a server that is there already nobody reads that it is restarted, unless it will be."""

    class _Engine(FakeEngine):
        def beyond_sessions(self, *_: object) -> tuple[str, ...]:
            return ("shared_buffers",)

    of_redis_too = of_redis(None) if isinstance(targets[0], RedisEndpointTarget) else _AT_A_RATE
    pairs = zip(of_redis_too.configurations, targets, strict=True)
    experiment = replace(
        of_redis_too, configurations=tuple(replace(each, target=one) for each, one in pairs)
    )
    engine = _Engine(World(clock=FakeClock(), experiment=experiment))
    reason = choose_design(experiment, engine, Room(pausing=Pausing.GENERATOR)).reason
    assert taken_words(experiment, mode, reason, switch) == words


def bursting(experiment: Experiment) -> Experiment:
    """Return it on targets whose burst credits last for some time."""
    return replace(
        experiment,
        configurations=tuple(
            replace(each, target=replace(each.target, burst_lasts_s=60.0))
            for each in experiment.configurations
        ),
    )


@pytest.mark.parametrize(
    ("pausing", "credits_", "alternates"),
    [
        (Pausing.GENERATOR, True, False),
        (Pausing.GENERATOR, False, True),
        (Pausing.FREEZER, True, True),
        (Pausing.SIGNALS, True, True),
    ],
)
def test_credits_come_back_where_a_server_rests(
    pausing: Pausing, *, credits_: bool, alternates: bool
) -> None:
    """Servers of one machine spend the same credits all the time; others rest in their pauses."""
    experiment = at_endpoints(EndpointTarget(host="a"), EndpointTarget(host="b"))
    experiment = bursting(experiment) if credits_ else experiment
    found = chosen(experiment, Room(pausing=pausing))
    assert found.alternates is alternates
    if not alternates:
        assert found.reason == "burst credits come back in the pauses (`burst_lasts` of slow, fast)"


def at_endpoints(one: Target, other: Target, *settings: Setting) -> Experiment:
    """Return an experiment on servers that are there already."""
    experiment = contender(*settings)(an_experiment())
    targets = (one, other)
    return replace(
        experiment,
        configurations=tuple(
            replace(each, target=target)
            for each, target in zip(experiment.configurations, targets, strict=True)
        ),
    )


@pytest.mark.parametrize("existing", [True, False])
def test_a_redis_server_of_others_counts_their_commands(*, existing: bool) -> None:
    """Turns are counted by commands; where others keep keys, they send them too."""
    one, other = (
        RedisEndpointTarget(host=host, allow_existing=existing and host == "b") for host in "ab"
    )
    found = chosen(at_endpoints(one, other), Room(pausing=Pausing.GENERATOR))
    assert found.alternates is not existing
    if existing:
        assert "it counts their commands with ours" in found.reason


def test_memory_that_nobody_knows_is_no_obstacle() -> None:
    """Of endpoints: what they need is not asked."""
    experiment = at_endpoints(EndpointTarget(host="a"), EndpointTarget(host="b"))
    found = chosen(experiment, Room(pausing=Pausing.GENERATOR), needs=10**15)
    assert found.alternates
    assert found.memory is None


ONE_PLACE = EndpointTarget(host="a")
PAUSED = Room(pausing=Pausing.GENERATOR)


def on_one_server(target: Target = ONE_PLACE, *settings: Setting) -> Experiment:
    """Return two configurations on one server, which differ in a setting of a session, and more."""
    experiment = at_endpoints(target, target, *settings)
    return replace(
        experiment,
        configurations=tuple(
            replace(each, settings=tuple(s for s in each.settings if "speed" not in s.name))
            for each in experiment.configurations
        ),
    )


def test_sessions_of_one_server_alternate() -> None:
    """Writing where each has its own database; who only reads needs none; without a difference."""
    for target in (
        EndpointTarget(host="a", dbname="d", allow_existing=True),
        EndpointTarget(host="a", restore="vacuum"),
    ):
        assert chosen(on_one_server(target), PAUSED).alternates
    work_mem = on(Layer.POSTGRES, "work_mem", "9MB")
    assert chosen(written()(on_one_server(ONE_PLACE, work_mem)), PAUSED).alternates
    assert chosen(on_one_server(), PAUSED).alternates


def test_databases_of_one_server_alternate_by_settings_of_sessions() -> None:
    """Also where both write; what one pays for the other keeps them apart, and why is told."""
    pair = [EndpointTarget(host="a", dbname=name, allow_existing=True) for name in "de"]
    room = replace(PAUSED, of_one=(("slow", "fast"),))
    alone = at_endpoints(*pair)
    alike = replace(
        alone, configurations=tuple(replace(c, settings=()) for c in alone.configurations)
    )
    found = chosen(written()(alike), room)
    assert found.alternates
    assert found.reason.endswith("; slow, fast are on databases of one server")
    paying = on(Layer.POSTGRES, "others_pay", "1")
    apart = replace(
        alike,
        configurations=(
            alike.configurations[0],
            replace(alike.configurations[1], settings=(paying,)),
        ),
    )
    found = chosen(apart, room)
    assert not found.alternates
    assert "slow, fast are on one server, and sessions pay for the others_pay" in found.reason


SHARED: dict[str, tuple[Experiment, str]] = {
    "a setting of the server": (
        on_one_server(ONE_PLACE, on(Layer.POSTGRES, "restart_it", "1")),
        "slow, fast are on one server, and no session can have its own restart_it",
    ),
    "a cost of others": (
        on_one_server(ONE_PLACE, on(Layer.POSTGRES, "others_pay", "1")),
        "slow, fast are on one server, and sessions pay for the others_pay of others",
    ),
    "a restart": (
        measured(switch=SwitchCost.RESTART)(on_one_server()),
        "which cannot be restarted for one of them (`measure.switch`)",
    ),
    "one database": (
        written()(on_one_server(EndpointTarget(host="a", dbname="d", allow_existing=True))),
        "would write into one database of it (`allow_existing`)",
    ),
    "one database by vacuum": (
        written()(on_one_server(EndpointTarget(host="a", restore="vacuum"))),
        "would write into one database of it (`restore: vacuum`)",
    ),
    "redis": (
        on_one_server(RedisEndpointTarget(host="a")),
        "slow, fast are on one server, and a setting of Redis holds for all its sessions",
    ),
}


@pytest.mark.parametrize("name", SHARED)
def test_what_sessions_of_one_server_cannot_have(name: str) -> None:
    """Then it is one by one, with the reason; on a server of its own each of them alternates."""
    experiment, reason = SHARED[name]
    found = chosen(experiment, PAUSED)
    assert not found.alternates
    assert reason in found.reason
    first, second = experiment.configurations
    elsewhere = replace(second, target=replace(second.target, host="b"))
    assert chosen(replace(experiment, configurations=(first, elsewhere)), PAUSED).alternates


def test_a_pooler_that_mixes_sessions_keeps_one_server_from_turns() -> None:
    """Its reason is the design's: two servers are asked only where their sessions need settings."""
    room = replace(PAUSED, mixed_sessions="a pooler mixes them")
    found = chosen(on_one_server(), room)
    assert (found.alternates, found.reason) == (False, "a pooler mixes them")


def test_whether_they_would_alternate_is_asked_without_an_error() -> None:
    """Also where the file asks for turns that cannot be taken."""
    engine = an_engine(an_experiment())
    assert can_alternate(an_experiment(), engine, ROOM)
    assert not can_alternate(measured(runs_per_start=2)(an_experiment()), engine, ROOM)
    for design in (Design.ONE_BY_ONE, Design.ONCE):
        assert not can_alternate(asked(design=design)(an_experiment()), engine, ROOM)
    forced = asked(design=Design.ALTERNATING)(measured(runs_per_start=2)(an_experiment()))
    assert not can_alternate(forced, engine, ROOM)


def test_a_program_of_ones_own_takes_turns_where_it_logs() -> None:
    """The reason names the program, and the key that would let it."""
    printing = LoadCommand(argv=("/opt/own",), rate="tps: (.*)")
    logging = LoadCommand(argv=("/opt/own",), log=("time",))

    def under(command: LoadCommand) -> Experiment:
        experiment = an_experiment()
        workloads = tuple(
            replace(each, builtin=None, command=command) for each in experiment.workloads
        )
        return replace(experiment, workloads=workloads, generator=GeneratorName("own"))

    assert not chosen(under(printing)).alternates
    assert "own writes no log of transactions" in chosen(under(printing)).reason
    assert "`generator.log`" in chosen(under(printing)).reason
    assert chosen(under(logging)).alternates
    assert "the log of own counts their turns" in chosen(under(logging)).reason
