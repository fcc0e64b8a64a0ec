"""Redis in turns: what is counted, what the generator is asked for, and how it ends."""

from dataclasses import replace

import pytest
from test_redis_engine import _ADDRESS, _EXPERIMENT, _GET, _SET, _engine

from fakes.redis_sessions import ToldSession
from steelyard.core.experiment import RedisWork, Workload
from steelyard.core.outside import Completed
from steelyard.core.schedule import Load, Pausing
from steelyard.core.wording import MeasurementError
from steelyard.gateways.redis import Reply
from steelyard.systems.protocol import RunRequest
from steelyard.systems.redis import redis_benchmark as benchmark
from steelyard.systems.redis.reader import CommandCounter
from steelyard.systems.redis.settings import command_of

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
