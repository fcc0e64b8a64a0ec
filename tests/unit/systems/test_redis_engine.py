"""The Redis engine: databases, paces, switches at run time, what runs printed, and turns."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from recorded_redis import recordings

from fakes.clock import FakeClock
from fakes.redis_sessions import ToldDoor, ToldSession
from steelyard.core.experiment import (
    Configuration,
    Experiment,
    GeneratorName,
    KeySpace,
    Layer,
    RedisWork,
    Setting,
    SwitchCost,
    Workload,
)
from steelyard.core.outside import Completed, Guest, ServerAddress
from steelyard.core.schedule import Load, Pausing
from steelyard.core.target import EngineName, RedisEndpointTarget, RedisLocalTarget
from steelyard.core.wording import MIB, InputError, MeasurementError, TargetError
from steelyard.gateways.redis import Reply
from steelyard.systems.protocol import RunRequest
from steelyard.systems.redis import redis_benchmark as benchmark
from steelyard.systems.redis.datasets import Databases, dataset_of, datasets_of
from steelyard.systems.redis.engine import Generator, RedisEngine
from steelyard.systems.redis.existing import readiness
from steelyard.systems.redis.factory import running_engine
from steelyard.systems.redis.reader import CommandCounter, await_quiet
from steelyard.systems.redis.server import RedisInstallation, RedisProgram
from steelyard.systems.redis.settings import RedisSetting, command_of

_ADDRESS = ServerAddress(host="/s", port=6379)
_LOAD = Load(clients=2, threads=1)
_SET = Workload(name="w", builtin="set", redis=RedisWork(space=KeySpace(keys=9, loaded=5)))
_GET = Workload(name="r", builtin="get", redis=RedisWork(space=KeySpace(keys=7, loaded=7)))
_OK: dict[str, list[Reply]] = {"PING": [b"PONG"]}


def _configuration(name: str, **settings: str) -> Configuration:
    asked = tuple(
        Setting(layer=Layer.REDIS, name=key.replace("_", "-"), value=value)
        for key, value in sorted(settings.items())
    )
    return Configuration(name=name, target=RedisLocalTarget(), settings=asked)


_EXPERIMENT = Experiment(
    name="x",
    baseline="one",
    engine=EngineName.REDIS,
    generator=GeneratorName.REDIS_BENCHMARK,
    workloads=(_SET, _GET),
    loads=(_LOAD,),
    seed=1,
    configurations=(
        _configuration("one", appendfsync="always", hz="50"),
        _configuration("two", AppendFsync="no", io_threads="4"),
    ),
)
_CATALOGUE = {
    "appendfsync": RedisSetting(name="appendfsync", default="everysec", changeable=True),
    "hz": RedisSetting(name="hz", default="10", changeable=True),
    "io-threads": RedisSetting(name="io-threads", default="1", changeable=False),
}


def _engine(
    answers: dict[str, list[Reply]] | None = None, experiment: Experiment = _EXPERIMENT
) -> tuple[RedisEngine, ToldSession]:
    session = ToldSession(answers or _OK)
    door = ToldDoor(session)
    installation = RedisInstallation(
        server=Path("/bin/redis-server"),
        benchmark=Path("/bin/redis-benchmark"),
        version="7.0.15",
        flavour="redis",
    )
    engine = RedisEngine(
        experiment,
        {
            t.name: RedisProgram(installation=installation, redis=door)
            for t in experiment.configurations
        },
        {t.name: _CATALOGUE for t in experiment.configurations},
        generator=Generator(program=Path("/bin/redis-benchmark"), version="7.0.15", account=None),
        databases=Databases(
            datasets=datasets_of(experiment.workloads), redis=door, persisted=False
        ),
    )
    return engine, session


def _request(configuration: str, workload: Workload = _SET, seconds: int = 5) -> RunRequest:
    return RunRequest(
        workload=workload,
        load=_LOAD,
        protocol="simple",
        seconds=seconds,
        address=_ADDRESS,
        configuration=configuration,
    )


def _printed(argv: tuple[str, ...], *, requests: int, seconds: float) -> Completed:
    """Return what redis-benchmark prints of a run, shortened to what counts here."""
    recording = next(each for each in recordings() if "set" in each.arguments)
    text = recording.completed().stdout
    begin = text.index("requests completed in") - 1
    line = text[text.rindex("\n", 0, begin) + 1 : text.index("\n", begin)]
    throughput = text[text.index("throughput summary:") :].split("\n")[0]
    text = text.replace(line, f"  {requests} requests completed in {seconds:.2f} seconds")
    text = text.replace(
        throughput, f"throughput summary: {requests / seconds:.2f} requests per second"
    )
    return Completed(argv=argv, exit_status=0, stdout=text, stderr="")


def _asked_requests(argv: tuple[str, ...]) -> int:
    return int(argv[argv.index("-n") + 1])


_FEW = {"connections": 4, "replicas": 1}


@pytest.mark.parametrize(
    ("there", "settings", "words"),
    [
        (
            None,
            {"maxclients": "6"},
            "2 clients do not fit into maxclients = 6 of configuration `b`",
        ),
        (None, {"maxclients": "7"}, ""),
        (None, {"maxmemory": "1kb"}, "the loaded keys take about 1.3 KiB, and maxmemory of"),
        (None, {"MaxMemory": "1mb"}, ""),
        (None, {"maxmemory": "0"}, ""),
        (None, {"min-replicas-to-write": "1"}, "takes no writes: 0 replicas follow it"),
        (None, {"min-replicas-to-write": "²"}, ""),  # the server refuses it
        (None, {"databases": "²"}, ""),
        (None, {"databases": "1"}, "have 2 different key spaces, and a server of `b` has 1"),
        ({}, {"maxclients": "3"}, "2 clients do not fit into maxclients = 3 of configuration `b`"),
        ({}, {"maxclients": "5"}, ""),
        (
            _FEW,
            {"maxclients": "8"},
            "2 clients do not fit into maxclients = 8 of configuration `b`",
        ),
        (_FEW, {"maxclients": "9"}, ""),
        (_FEW, {"min-replicas-to-write": "1"}, ""),
        (_FEW, {"min-replicas-to-write": "2"}, "takes no writes: 1 replicas follow it"),
        ({}, {"maxmemory": "1k"}, "the loaded keys take about 1.3 KiB, and maxmemory of"),
        (
            {},
            {"proto-max-bulk-len": "1mb"},
            "the largest value has 2.0 MiB, and proto-max-bulk-len",
        ),
        ({}, {"list-max-listpack-size": "-2", "slowlog-log-slower-than": "-1"}, ""),
        ({}, {"client-query-buffer-limit": "1mb"}, "the largest value has 2.0 MiB, and client-qu"),
    ],
)
def test_limits_are_those_of_each_configuration(
    there: dict[str, int] | None, settings: dict[str, str], words: str
) -> None:
    """Not of the server as it is now; the setting has its line."""
    value_bytes = 2 * MIB if "largest" in words else 3
    space = KeySpace(keys=9, loaded=5, value_bytes=value_bytes)
    work = replace(_SET, redis=RedisWork(space=space))
    target = RedisLocalTarget() if there is None else RedisEndpointTarget(restart_command=("x",))
    experiment = replace(
        _EXPERIMENT,
        baseline="a",
        workloads=(work, _GET),
        configurations=(
            replace(_configuration("a"), target=target),
            replace(_configuration("b", **settings), target=target),
        ),
    )
    engine, _ = _engine(experiment=experiment)
    if there is not None:
        engine = _running(experiment, settings={}, **there)
    found = engine.complaints("b")
    assert [each.message for each in found if words and words in each.message] == [
        each.message for each in found
    ]
    assert len(found) == bool(words)
    own = [name for name in settings if name != "databases"]
    assert [each.setting for each in found if each.setting] == own * bool(words)
    assert not engine.complaints("a")


def _running(experiment: Experiment, **known: Any) -> RedisEngine:
    """Return the engine for running servers of which this is known."""
    settings, lines = known.pop("settings"), {"redis_version": "7.0.15"}
    running = replace(readiness._state(lines, settings), **known)
    servers = {each.name: running for each in experiment.configurations}
    engine, _ = _engine(experiment=experiment)
    return running_engine(
        experiment, servers, engine._generator, engine._redis, fill=lambda *_: None
    )


def test_the_password_of_a_guest_stands_in_no_argument_that_is_kept() -> None:
    """The program gets it, and neither a message nor a record of it does."""
    guest = Guest(name="steelyard-1", password="for-a-day")
    address = replace(_ADDRESS, password="planted", guest=guest)
    engine, _ = _engine()
    request = replace(_request("one"), address=address)
    (command, *_) = engine.pilot(request)
    assert "for-a-day" not in repr(command) + repr(command.argv)
    assert any("for-a-day" in word for word in command.whole_argv)
    assert not any("planted" in word for word in command.whole_argv)


def test_what_a_replica_has_of_its_server_needs_a_restart() -> None:
    """A reload tells the server alone: its replica would keep what the one before asked."""
    for replica, cost in (
        (None, SwitchCost.RELOAD),
        ((), SwitchCost.RESTART),
        ((("appendonly", "yes"),), SwitchCost.RESTART),
        ((("AppendFsync", "no"),), SwitchCost.RELOAD),
    ):
        beside = [
            replace(each, target=RedisLocalTarget(replica=replica))
            for each in _EXPERIMENT.configurations
        ]
        engine, _ = _engine(experiment=replace(_EXPERIMENT, configurations=tuple(beside)))
        assert engine.switch_cost("one", ["appendfsync"]) is cost


def test_each_configuration_is_asked_for_what_its_server_does() -> None:
    """A try runs until it was long enough; then both runs are asked to last the same time."""
    engine, _ = _engine()
    for configuration, rate_per_s in (("one", 100.0), ("two", 40_000.0)):
        request = _request(configuration)
        tries = 0
        while pilots := engine.pilot(request):
            requests = sum(_asked_requests(each.argv) for each in pilots)
            done = _printed(pilots[0].argv, requests=requests, seconds=requests / rate_per_s)
            engine.learn(request, [done])
            tries += 1
        assert tries < 10
        (command,) = engine.run_commands(request)
        assert _asked_requests(command.argv) == pytest.approx(5 * rate_per_s, rel=0.02)
        assert command.argv[0] == "/bin/redis-benchmark"


def test_a_failed_try_is_told_and_teaches_nothing() -> None:
    """What redis-benchmark says of a server that refuses writes is the message."""
    engine, _ = _engine()
    (pilot,) = engine.pilot(_request("one"))
    said = "Error from server: MISCONF Errors writing to the AOF file: No space left on device"
    failed = Completed(argv=pilot.argv, exit_status=1, stdout="", stderr=said)
    with pytest.raises(MeasurementError, match="MISCONF"):
        engine.learn(_request("one"), [failed])
    assert engine.pilot(_request("one"))


def test_each_key_space_has_a_database_of_its_own() -> None:
    """Databases are numbered in the order of the workloads, unless the platform chose others."""
    engine, _ = _engine()
    numbers = []
    for workload in (_SET, _GET):
        (pilot,) = engine.pilot(_request("one", workload))
        numbers.append(pilot.argv[pilot.argv.index("--dbnum") + 1])
    assert numbers == ["0", "1"]
    chosen = replace(_ADDRESS, databases=((dataset_of(_GET).name, "7"),))
    (pilot,) = engine.pilot(replace(_request("one", _GET), address=chosen))
    assert pilot.argv[pilot.argv.index("--dbnum") + 1] == "7"


def test_equal_key_spaces_share_one() -> None:
    """Data are prepared once for two workloads on the same keys."""
    same = replace(_GET, redis=_SET.redis)
    assert len(datasets_of((_SET, same))) == 1


def test_a_run_is_named_like_its_test() -> None:
    """Its latencies carry the name that the experiment knows, not that of the output."""
    engine, _ = _engine()
    (pilot,) = engine.pilot(_request("one"))
    done = _printed(pilot.argv, requests=1000, seconds=0.5)
    latency = engine.latency([done])
    assert latency is not None
    assert [one.script for one in latency.scripts] == ["set"]
    request = _request("one")
    measured = engine.parse_run([done], request=request, ramp_s=0.0, started_at=1.0)
    assert (measured.transactions, measured.seconds) == (1000.0, 0.5)
    assert engine.processed([done]) == 1000


def test_a_switch_tells_the_server_every_setting_that_any_configuration_asks() -> None:
    """One that this configuration does not name goes back to its default; a fixed one is left."""
    answers: dict[str, list[Reply]] = {
        f"CONFIG SET {words}": [b"OK"]
        for words in ("appendfsync no", "hz 10", "appendfsync always", "hz 50")
    }
    quiet = {"INFO persistence": [b"rdb_bgsave_in_progress:0\r\n"]}
    engine, session = _engine(answers | quiet)
    engine.reload(_ADDRESS, "two", FakeClock())
    assert session.asked == ["CONFIG SET appendfsync no", "CONFIG SET hz 10", "INFO persistence"]


@pytest.mark.parametrize(
    "busy", ["rdb_bgsave_in_progress", "aof_rewrite_in_progress", "aof_pending_bio_fsync"]
)
def test_a_switch_waits_for_what_the_configuration_before_began(busy: str) -> None:
    """A save, a rewrite or an fsync under way would go on in the next configuration's run."""
    sets = ("appendfsync no", "hz 10")
    answers: dict[str, list[Reply]] = {f"CONFIG SET {words}": [b"OK"] for words in sets}
    answers["INFO persistence"] = [f"{busy}:{number}\r\n".encode() for number in (1, 1, 0)]
    answers["BLPOP steelyard:no-such-list 0.1"] = [None]
    engine, session = _engine(answers)
    engine.reload(_ADDRESS, "two", FakeClock())
    assert session.asked.count("BLPOP steelyard:no-such-list 0.1") == 2
    assert session.asked[-1] == "INFO persistence"


def test_saves_that_never_end_are_not_waited_for_for_ever() -> None:
    """Where the next save begins as one ends a minute is enough; a rewrite has an hour."""
    for busy, polls in (("rdb_bgsave_in_progress", 600), ("aof_rewrite_in_progress", 36_000)):
        session = ToldSession(
            {
                "INFO persistence": [f"{busy}:1\r\n".encode()],
                "BLPOP steelyard:no-such-list 0.1": [None],
            }
        )
        with pytest.raises(TargetError, match="an hour") if polls > 600 else nullcontext():
            await_quiet(session)
        assert session.asked.count("BLPOP steelyard:no-such-list 0.1") == polls


def test_data_that_did_not_come_back_are_told() -> None:
    """A server that read the wrong file has no keys: the sentence has both numbers."""
    reads = replace(_EXPERIMENT, workloads=(_GET,))
    empty, _ = _engine({"DBSIZE": [0]}, reads)
    assert empty.missing_data(_ADDRESS) == ("database 0 holds 0 keys, not 7",)
    whole, _ = _engine({"DBSIZE": [7]}, reads)
    assert whole.missing_data(_ADDRESS) == ()


def test_secrets_and_places_are_not_in_the_settings_in_force() -> None:
    """CONFIG GET * shows them to its own user; a record does not."""
    secret: list[Reply] = [b"requirepass", b"s3cret", b"tls-key-file-pass", b"s3cret"]
    secret += [b"masterauth", b"s3cret", b"masteruser", b"app"]
    shown: list[Reply] = [b"hz", b"10", *secret, b"dir", b"/x"]
    shown += [b"proc-title-template", b"redis://app:s3cret@h"]
    engine, _ = _engine({"CONFIG GET *": [shown]})
    found = [(setting.name, setting.value) for setting in engine.effective(_ADDRESS)]
    assert found == [("hz", "10"), ("proc-title-template", "redis://app:***@h")]


def test_what_only_reads_needs_no_reset() -> None:
    """GET and a command that reads change nothing; SET and what nobody knows may."""
    reads = replace(_EXPERIMENT, workloads=(_GET,))
    assert not _engine(experiment=reads)[0].writes()
    assert _engine()[0].writes()
    for command, writes in ((("HGET", "h", "f"), False), (("FCALL", "f", "0"), True)):
        own = Workload(name="c", redis=RedisWork(command=command))
        engine, _ = _engine(experiment=replace(_EXPERIMENT, workloads=(own,)))
        assert engine.writes() is writes


def test_flags_that_steelyard_sets_are_refused() -> None:
    """The number of requests is the engine's."""
    engine, _ = _engine(experiment=replace(_EXPERIMENT, generator_flags=("-n", "5")))
    with pytest.raises(InputError, match="-n"):
        engine.check_flags()


def test_values_are_the_same_by_what_they_mean() -> None:
    """A default that is written out, in any case, is the default; another value is not."""
    configurations = (
        _configuration("one", hz="10"),
        _configuration("two", AppendFsync="EVERYSEC"),
        _configuration("three", hz="50"),
    )
    engine, _ = _engine(
        experiment=replace(_EXPERIMENT, baseline="one", configurations=configurations)
    )
    assert engine.asks_the_same("one", "two", ("hz", "AppendFsync"))
    assert not engine.asks_the_same("one", "three", ("hz",))
    assert not engine.asks_the_same("one", "two", ("what-is-not-known",))


def test_redis_keeps_no_templates() -> None:
    """Data come back by files alone."""
    engine, _ = _engine()
    with pytest.raises(TargetError, match="no templates"):
        engine.restore_from_templates(_ADDRESS)
    assert engine.checkpoint_cycle_s([]) is None
    assert engine.checkpoint_age(_ADDRESS).seconds is None


_FIRST = b"# Commandstats\r\ncmdstat_get:calls=7,usec=5,usec_per_call=0.7\r\n"
_SECOND = _FIRST.replace(b"calls=7", b"calls=19") + b"cmdstat_set:calls=900,usec=1\r\n"


def counter(name: str, counts: list[Reply] | None = None) -> tuple[CommandCounter, ToldSession]:
    """Return a counter on a server that tells two readings, a tenth of a second apart."""
    times: list[Reply] = [[b"1000", b"250000"], [b"1000", b"350000"]]
    found = counts or [_FIRST, _SECOND]
    session = ToldSession({"TIME": times, "INFO commandstats": found})
    return CommandCounter(session, name), session


def a_request(**changes: object) -> RunRequest:
    """Return a run in turns."""
    request = RunRequest(
        workload=_SET,
        load=Load(clients=5, threads=2),
        protocol="",
        seconds=86_400,
        address=_ADDRESS,
        configuration="one",
        in_turns=Pausing.SIGNALS,
    )
    return replace(request, **changes)  # type: ignore[arg-type]


def test_commands_of_the_workload_are_counted_at_the_servers_time() -> None:
    """What others send is not among them; the time is the server's, to the microsecond."""
    read, _ = counter("get")
    first, second = read.read(), read.read()
    assert (first.transactions, second.transactions) == (7, 19)
    assert (first.at_s, second.at_s) == (1000.25, 1000.35)


def test_what_was_never_called_counts_nothing() -> None:
    """A server lists a command from its first call on."""
    read, _ = counter("set")
    assert [read.read().transactions for _ in range(2)] == [0, 900]


def test_commands_below_a_command_count_as_it_and_like_names_do_not() -> None:
    """OBJECT ENCODING is listed as such; GETRANGE is no GET."""
    lines = ("cmdstat_object|encoding:calls=5", "cmdstat_object|freq:calls=2")
    told = "\r\n".join((*lines, "cmdstat_getrange:calls=9")).encode()
    read, _ = counter("object", counts=[told])
    assert read.read().transactions == 7
    read, _ = counter("get", counts=[told])
    assert read.read().transactions == 0


def test_what_asking_costs_is_taken_off() -> None:
    """A workload of TIME or INFO has the counter's own among its commands: INFO when it is done."""
    told: list[Reply] = [b"cmdstat_time:calls=11\r\ncmdstat_info:calls=20"]
    told.append(b"cmdstat_time:calls=12\r\ncmdstat_info:calls=21")
    read, _ = counter("time", counts=told)
    assert [read.read().transactions for _ in range(2)] == [10, 10]
    read, _ = counter("info", counts=told)
    assert [read.read().transactions for _ in range(2)] == [20, 20]


@pytest.mark.parametrize("answer", [b"", None, b"# Commandstats\r\n"])
def test_a_server_that_counts_nothing_is_told(answer: Reply) -> None:
    """Nothing is not taken for no commands: with the way out."""
    read, _ = counter("get", counts=[answer])
    with pytest.raises(MeasurementError, match="INFO commandstats") as caught:
        read.read()
    assert "one-by-one" in caught.value.hint


def test_the_session_is_given_back() -> None:
    """Whoever opened the counter closes it."""
    read, session = counter("get")
    read.close()
    assert session.closed


@pytest.mark.parametrize(
    ("workload", "name"),
    [
        (_GET, "GET"),
        (Workload(name="p", builtin="ping"), "PING"),
        (Workload(name="p", builtin="ping_inline"), "PING"),
        (Workload(name="m", builtin="mset"), "MSET"),
        (Workload(name="o", redis=RedisWork(command=("HGETALL", "h"))), "HGETALL"),
    ],
)
def test_the_command_is_the_one_that_the_generator_sends(workload: Workload, name: str) -> None:
    """By the test's name, or by the own command."""
    assert command_of(workload)[0] == name


def test_redis_benchmark_goes_on_until_it_is_ended_and_prints_nothing() -> None:
    """Without a pilot; each process for itself; in one piece both are otherwise."""
    engine, _ = _engine()
    lines = [command.argv for command in engine.run_commands(a_request())]
    assert len(lines) == 2
    for line in lines:
        assert line[0] == "/bin/redis-benchmark"
        assert "--csv" in line
        assert 10**9 / 2 <= int(line[line.index("-n") + 1]) < 2**31
    whole = benchmark.argument_lists(a_request(in_turns=None), requests=1000, dbnum=0)
    assert all("--csv" not in line for line in whole)


def ended(status: int, stderr: str = "") -> Completed:
    """Return how a generator ended."""
    return Completed(argv=("redis-benchmark",), exit_status=status, stdout="", stderr=stderr)


def test_generators_end_by_our_signal() -> None:
    """SIGTERM, and SIGKILL for those that are ended because the first one is."""
    engine, _ = _engine()
    assert engine.turns_end_signal == 15
    assert engine.connected_within_s([ended(-15), ended(-9)]) == 0.0


@pytest.mark.parametrize("status", [0, 1, -6])
def test_one_that_ended_by_itself_has_failed(status: int) -> None:
    """Whatever it says of it: its turns after that had no load."""
    engine, _ = _engine()
    with pytest.raises(MeasurementError, match=f"exited with {status} in its turns: Connection"):
        engine.connected_within_s([ended(-15), ended(status, "Connection refused")])


def test_turns_are_counted_on_the_server() -> None:
    """The engine opens the counter of the workload's commands where the generator connects."""
    told: dict[str, list[Reply]] = {"TIME": [[b"1", b"0"]], "INFO commandstats": [_SECOND]}
    engine, session = _engine(told)
    opened = engine.turn_counter(a_request(workload=_EXPERIMENT.workloads[0]))
    assert opened.read().transactions == 900
    assert session.asked == ["TIME", "INFO commandstats"]


@pytest.mark.parametrize(
    ("text", "is_short"), [("1", True), ("2", True), ("3", False), ("0", False)]
)
def test_idle_connections_end_by_the_clock(text: str, *, is_short: bool) -> None:
    """Seconds, and 0 is never; without the setting none end."""
    first, *others = _EXPERIMENT.configurations
    ending = replace(first, settings=(Setting(layer=Layer.REDIS, name="timeout", value=text),))
    engine, _ = _engine(experiment=replace(_EXPERIMENT, configurations=(ending, *others)))
    found = engine.short_limits(first.name, 2.0)
    assert found == ({"timeout": f"{text} s"} if is_short else {})
    assert not any(engine.short_limits(each.name, 2.0) for each in others)


def test_idle_connections_end_by_what_a_running_server_has() -> None:
    """A configuration that asks for no ``timeout`` keeps that of the server, as it shows it."""
    engine = _running(_EXPERIMENT, settings={"timeout": "2"})
    assert engine.short_limits("one", 2.0) == {"timeout": "2 s"}
    assert not engine.short_limits("one", 1.0)
