"""What endpoints offer to configurations that take turns: sessions of one are tried before."""

from dataclasses import replace
from typing import Any

import pytest

from fakes.campaigns import an_experiment, asks
from fakes.clock import FakeClock
from fakes.servers import FakeEngine, World
from fakes.sql import FakeSql, Row
from steelyard.core.campaign import ScriptsInOrder
from steelyard.core.experiment import Design, Experiment, Layer, Setting, SwitchCost
from steelyard.core.outside import ServerAddress
from steelyard.core.schedule import Load, Pausing
from steelyard.core.target import EndpointTarget
from steelyard.core.wording import PreflightError, RefusedError, TargetError
from steelyard.gateways.sql import TIMED_OUT, connection_failure
from steelyard.systems.postgres.existing.platform import _BACKEND, _SHOWN
from steelyard.systems.postgres.factory import RunningServer
from steelyard.systems.postgres.settings import SettingEntry, effective_setting
from steelyard.targets.differences import Room, choose_design, share_a_session
from steelyard.targets.endpoint import _room, fit_sessions, obstacles_on


def sessions_of(*hosts: str) -> Experiment:
    """Return two configurations on these servers, one of which wants more memory."""
    experiment = an_experiment()
    settings = (asks(work_mem="5MB"), asks(work_mem="9MB"))
    return replace(
        experiment,
        configurations=tuple(
            replace(each, target=EndpointTarget(host=host), settings=own)
            for each, host, own in zip(experiment.configurations, hosts, settings, strict=True)
        ),
    )


_ENTRANCE = ServerAddress(host="db", port=5432, user="bench", database="shop")


def running(*entries: tuple[str, str], **more: Any) -> RunningServer:
    """Return what is known of a server with settings of these contexts."""
    catalogue = {
        name: SettingEntry(name=name, context=context, group="", kind="")
        for name, context in entries
    }
    return RunningServer(
        version="17.2", superuser=True, tls=False, catalogue=catalogue, bounds={}, **more
    )


def asking(experiment: Experiment, *settings: tuple[Setting, ...]) -> Experiment:
    """Return an experiment whose configurations ask for these settings."""
    pairs = zip(experiment.configurations, settings, strict=True)
    configurations = tuple(replace(each, settings=own) for each, own in pairs)
    return replace(experiment, configurations=configurations)


def server(pids: list[int], work_mem_kb: list[int]) -> FakeSql:
    """Return one whose open sessions are on these backends, and new ones show these values."""
    on, shown = iter(pids), iter(work_mem_kb)

    def row() -> list[Row]:
        return [("work_mem", str(next(shown)), "kB")]

    return FakeSql({_BACKEND: lambda: [(next(on),)], _SHOWN: row})


def room_reason(experiment: Experiment, sql: FakeSql, **now: str) -> tuple[bool, str]:
    """Return whether they alternate in the room that there is, and why.

    ``now`` are settings of the servers.
    """
    engine = FakeEngine(World(clock=FakeClock(), experiment=experiment, now=now))
    entrances = dict.fromkeys(experiment.targets_of(EndpointTarget).values(), _ENTRANCE)
    room = _room(experiment, engine, entrances, (), sql)
    assert room.pausing is Pausing.GENERATOR
    assert room.memory_bytes is None
    choice = choose_design(experiment, engine, room)
    return choice.alternates, choice.reason


_APART = [1, 2, 3] * 2
_ARRIVED = [5120] * 3 + [9216] * 3


def test_sessions_that_have_what_they_asked_for_take_turns() -> None:
    """Each configuration's settings in several new sessions, on backends of their own."""
    assert room_reason(sessions_of("a", "a"), server(_APART, _ARRIVED))[0]


@pytest.mark.parametrize(
    ("pids", "shown", "reason"),
    [
        ([1] * 6, _ARRIVED, "transaction mode"),
        (_APART, [5120] * 6, "work_mem was asked to be '9MB' and is '5120' (unit kB)"),
        (_APART, [5120] * 3 + [9216, 9216, 5120], "work_mem was asked to be '9MB'"),
    ],
)
def test_what_a_pooler_does_keeps_one_server_from_turns(
    pids: list[int], shown: list[int], reason: str
) -> None:
    """Sessions that share a backend; settings that do not arrive, in one of several, too."""
    alternates, told = room_reason(sessions_of("a", "a"), server(pids, shown))
    assert not alternates
    assert reason in told


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("refused", "sessions there have no settings of their own: refused"),
        (
            "connection failed: FATAL: unsupported startup parameter: options",  # PgBouncer 1.18
            "a pooler in between refuses libpq's `options`, by which a session has settings",
        ),
    ],
)
def test_settings_that_are_refused_are_told(words: str, reason: str) -> None:
    """In the server's words, or as a pooler; that the server cannot be reached is no reason."""
    on = iter(_APART)

    def refused() -> list[Row]:
        raise TargetError(words)

    sql = FakeSql({_BACKEND: lambda: [(next(on),)], _SHOWN: refused})
    assert room_reason(sessions_of("a", "a"), sql) == (False, reason)


_TIMED_OUT = RefusedError("canceling statement due to statement timeout", code=TIMED_OUT)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            connection_failure(
                'connection failed: FATAL: 22023: invalid value for parameter "TimeZone": "Mars/X"',
                where="db:5432",
                user="app",
            ),
            'invalid value for parameter "TimeZone": "Mars/X"',
        ),
        (_TIMED_OUT, "canceling statement due to statement timeout"),
    ],
)
def test_a_value_with_which_no_session_works_ends_the_plan(error: TargetError, words: str) -> None:
    """It is not set by ALTER SYSTEM instead, for everyone on the server."""
    on = iter(_APART)

    def refused() -> list[Row]:
        raise error

    sql = FakeSql({_BACKEND: lambda: [(next(on),)], _SHOWN: refused})
    with pytest.raises(PreflightError, match=words) as caught:
        room_reason(sessions_of("a", "a"), sql)
    assert caught.value.hint == "Correct `work_mem`."


@pytest.mark.parametrize("design", [Design.AUTO, Design.ONE_BY_ONE])
def test_nobody_is_asked_where_it_does_not_matter(design: Design) -> None:
    """Two servers, or configurations that are measured one by one."""
    hosts = ("a", "b") if design is Design.AUTO else ("a", "a")
    sql = FakeSql({})
    alternates, _ = room_reason(replace(sessions_of(*hosts), design=design), sql)
    assert alternates is (design is Design.AUTO)
    assert sql.asked == []
    assert sql.open_sessions == 0


def _limited(value: str) -> FakeSql:
    """Return a server whose new sessions show this limit, and what they asked for."""
    on, shown = iter(_APART * 2), iter(_ARRIVED)

    def rows() -> list[Row]:
        memory = next(shown, 0)
        limit: Row = ("idle_session_timeout", value, "ms")
        return [limit, ("work_mem", str(memory), "kB")] if memory else [limit]

    return FakeSql({_BACKEND: lambda: [(next(on),)], _SHOWN: rows})


@pytest.mark.parametrize("hosts", [("a", "a"), ("a", "b")])
@pytest.mark.parametrize("shown", ["0", "200"])
def test_a_limit_by_the_clock_is_lifted_where_sessions_can(
    hosts: tuple[str, str], shown: str
) -> None:
    """The plan says from what; where the session shows another value there are no turns."""
    experiment = sessions_of(*hosts)
    if hosts == ("a", "b"):
        experiment = asking(experiment, (), ())
    alternates, told = room_reason(experiment, _limited(shown), idle_session_timeout="200ms")
    assert alternates is (shown == "0")
    words = "idle_session_timeout = 0 (now 200ms)" if alternates else "was asked to be '0'"
    assert words in told


@pytest.mark.parametrize("text", ["0", "10min", "10001ms"])
def test_a_limit_that_no_pause_uses_up_is_left(text: str) -> None:
    """None, or longer than all turns of the others."""
    sql = FakeSql({})
    told = room_reason(sessions_of("a", "b"), sql, idle_session_timeout=text)
    assert told == (True, "all of them can be up at the same time")
    assert sql.asked == []


@pytest.mark.parametrize(
    ("contender", "words"),
    [
        ({"idle_session_timeout": "100ms"}, "idle_session_timeout = 200ms of slow"),
        ({"Idle_Session_Timeout": "1h"}, "idle_session_timeout = 200ms of slow"),
        ({"transaction_timeout": "1"}, "transaction_timeout = 1 of fast"),
    ],
)
def test_a_limit_that_is_compared_is_never_lifted(contender: dict[str, str], words: str) -> None:
    """Who does not ask for it has the server's."""
    experiment = sessions_of("a", "a")
    experiment = asking(experiment, experiment.configurations[0].settings, asks(**contender))
    alternates, told = room_reason(experiment, _limited("0"), idle_session_timeout="200ms")
    assert not alternates
    assert told == f"{words} goes on in the pauses, which may last 10 s"


@pytest.mark.parametrize(
    ("context", "setting", "shown", "fits"),
    [
        ("user", "work_mem", _ARRIVED, True),
        ("backend", "work_mem", _ARRIVED, True),
        ("user", "work_mem", [5120] * 6, False),  # a pooler
        ("sighup", "work_mem", _ARRIVED, False),
        ("superuser", "work_mem", _ARRIVED, False),
        ("user", "maintenance_work_mem", _ARRIVED, False),  # autovacuum's, too
        (None, "work_mem", _ARRIVED, False),
    ],
)
def test_settings_that_fit_sessions_are_changed_for_nobody_else(
    context: str | None, setting: str, shown: list[int], *, fits: bool
) -> None:
    """Whoever connects, also where configurations are measured one by one."""
    experiment = sessions_of("a", "a")
    values = (asks(**{setting: "5MB"}), asks(**{setting: "9MB"}))
    experiment = asking(experiment, *values)
    (target,) = set(experiment.targets_of(EndpointTarget).values())
    there = running((setting, context)) if context else running()
    assert fit_sessions(experiment, target, there, _ENTRANCE, server(_APART, shown)) is fits


@pytest.mark.parametrize(
    ("source", "now", "allowed", "words"),
    [
        ("command line", "4096", True, "on the command line of the server; a change for everyone"),
        ("global", "4096", False, "for all users (ALTER ROLE ALL)"),
        ("database", "4096", True, "for the database shop (ALTER DATABASE)"),
        ("database", "4096", False, ""),  # not of those that Steelyard makes
        ("user", "4096", False, "for the user bench (ALTER ROLE)"),
        ("database user", "4096", True, "for the user bench in the database shop"),
        ("database user", "4096", False, ""),
        ("client", "4096", True, "by libpq's `options`"),
        ("override", "4096", True, "by the server itself"),
        ("command line", "9216", True, ""),  # as it is asked for
        ("configuration file", "4096", True, ""),
        ("environment variable", "4096", True, ""),  # below the files
        ("default", "4096", True, ""),
    ],
)
def test_what_is_set_above_the_files_is_seen_before_the_start(
    source: str, now: str, *, allowed: bool, words: str
) -> None:
    """Each source has its name and its way out; a value that is in force needs no change."""
    (fact, way), *others = (*_obstacles(source, now, allowed=allowed), ("", ""))
    assert words in fact
    assert bool(fact) is bool(words)
    assert ("work_mem" in way) is bool(words)
    assert not fact or others == [("", "")]


def _obstacles(
    source: str, now: str = "9216", *, allowed: bool = True, **more: object
) -> tuple[tuple[str, str], ...]:
    experiment = sessions_of("a", "a")
    changed = experiment.configurations[1]
    experiment = replace(experiment, configurations=(replace(changed, name="one"), changed))
    (target,) = set(experiment.targets_of(EndpointTarget).values())
    if "restarts" in more:
        target = replace(target, restart_command=("restart",))
        measure = replace(experiment.measure, switch=SwitchCost.RESTART)
        experiment = replace(experiment, measure=measure)
    there = running(
        in_force={"work_mem": effective_setting("work_mem", now, "kB", source)},
        pending=tuple(str(more.get("pending", "")).split()),
        address=_ENTRANCE,
    )
    return obstacles_on(experiment, target, there, allowed=allowed)


@pytest.mark.parametrize(
    ("name", "context", "is_pooled", "is_kept"),
    [
        ("log_disconnections", "superuser-backend", True, True),
        ("ignore_system_indexes", "backend", True, True),
        ("session_preload_libraries", "superuser", True, True),
        ("log_disconnections", "superuser-backend", False, False),
        ("work_mem", "user", True, False),
    ],
)
def test_what_a_session_reads_at_its_begin_does_not_reach_those_of_a_pooler(
    name: str, context: str, *, is_pooled: bool, is_kept: bool
) -> None:
    """They were begun before the change: they would be measured without it."""
    experiment = asking(sessions_of("a", "a"), *[asks(**{name: "on"})] * 2)
    (target,) = set(experiment.targets_of(EndpointTarget).values())
    there = running((name, context))
    seen = obstacles_on(experiment, target, there, allowed=True, is_pooled=is_pooled)
    assert [fact.split("`")[1] for fact, _ in seen] == ([name] if is_kept else [])


@pytest.mark.parametrize(
    ("pending", "restarts", "names"),
    [
        ("Work_Mem", False, ["Work_Mem"]),
        ("shared_buffers", False, []),
        ("shared_buffers max_connections", True, ["shared_buffers", "max_connections"]),
    ],
)
def test_a_change_that_waits_for_a_restart_is_seen(
    pending: str, *, restarts: bool, names: list[str]
) -> None:
    """Of a setting that is asked for, and of any where a campaign's restarts would bring it."""
    more = {"restarts": True} if restarts else {}
    waiting = _obstacles("default", pending=pending, **more)
    assert [fact.split("`")[1] for fact, _ in waiting] == names


def in_succession(experiment: Experiment, workload: str = "reads") -> bool:
    """Return whether one session can have the settings of all under a workload."""
    engine = FakeEngine(World(clock=FakeClock(), experiment=experiment))
    return share_a_session(experiment, engine, workload)


def test_one_session_has_all_settings_where_nobody_disturbs_it() -> None:
    """One server, one client, and what only reads; more clients would run under both at once."""
    asked = sessions_of("db", "db")
    one = replace(asked, loads=(Load(clients=1, threads=1),))
    (reads,) = one.workloads
    writes = replace(reads, name="writes", builtin="simple-update")
    one = replace(one, workloads=(reads, writes))
    assert in_succession(one, reads.name)
    assert not in_succession(one, writes.name)
    assert not in_succession(replace(one, loads=(Load(clients=2, threads=1),)), reads.name)
    assert not in_succession(replace(sessions_of("db", "other"), loads=one.loads), reads.name)
    simple = replace(one.configurations[1], protocol="simple")
    assert not in_succession(
        replace(one, configurations=(one.configurations[0], simple)), reads.name
    )


def test_servers_that_differ_in_settings_of_a_session_share_one() -> None:
    """Also where Steelyard makes them; not where one needs a restart, or writes by its script."""
    asked = replace(an_experiment(), loads=(Load(clients=1, threads=1),))
    now, changed = asked.configurations

    def beside(**changes: Any) -> bool:
        settings = changes.pop("settings", asks(work_mem="9MB"))
        other = replace(changed, settings=settings, **changes)
        return in_succession(replace(asked, configurations=(now, other)))

    assert beside()
    assert not beside(settings=asks(work_mem="9MB", restart_count="2"))
    assert not beside(settings=asks(paid_by_others="on"))
    assert not beside(target=replace(now.target, server="15"))
    assert not beside(settings=(Setting(layer=Layer.CGROUP, name="cpu.max", value="1"),))


def test_a_given_order_alternates_in_one_session_or_by_runs() -> None:
    """The reason says which, and how few executions a run would hold."""
    experiment = replace(sessions_of("db", "db"), loads=(Load(clients=1, threads=1),))
    engine = FakeEngine(World(clock=FakeClock(), experiment=experiment))
    room = Room(pausing=Pausing.GENERATOR)
    order = ScriptsInOrder(workload="reads", executions=11.0, rounds=2, round_s=1.5)
    sessions = ((("work_mem", "5120"),), (("work_mem", "9216"),))
    shared = choose_design(experiment, engine, room, in_order=[replace(order, sessions=sessions)])
    assert shared.alternates
    assert "one session runs each script under all of them" in shared.reason
    alone = choose_design(experiment, engine, room, in_order=[order])
    assert alone.alternates
    assert (
        "a run of reads would hold about 11 executions, too few for drawn scripts" in alone.reason
    )
    assert "each runs its scripts while the others stand still" in alone.reason
