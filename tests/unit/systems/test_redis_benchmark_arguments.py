"""redis-benchmark's command line."""

from dataclasses import replace

import pytest

from steelyard.core.experiment import KeySpace, RedisWork, Workload
from steelyard.core.outside import ServerAddress
from steelyard.core.schedule import Load
from steelyard.core.wording import InputError, PreflightError
from steelyard.systems.protocol import RunRequest
from steelyard.systems.redis import redis_benchmark as benchmark

_SOCKET = ServerAddress(host="/srv/x", port=7000)
_TCP = ServerAddress(host="db.example", port=6380)


def _request(
    builtin: str | None = "set",
    *,
    load: Load | None = None,
    command: tuple[str, ...] = (),
    space: KeySpace | None = None,
    address: ServerAddress = _SOCKET,
) -> RunRequest:
    work = RedisWork(space=space or KeySpace(), command=command)
    return RunRequest(
        workload=Workload(name="w", builtin=builtin, redis=work),
        load=load or Load(clients=20, threads=1),
        protocol="",
        seconds=5,
        address=address,
        flags=("-k", "0"),
    )


def _arguments(request: RunRequest) -> list[str]:
    return list(benchmark.run_arguments(request, requests=1234, dbnum=3))


def _value(arguments: list[str], flag: str) -> str:
    return arguments[arguments.index(flag) + 1]


def test_every_word_of_the_experiment_arrives() -> None:
    """Clients, requests, size, keys, pipeline, database, test and the user's flags are passed."""
    space = KeySpace(keys=500, value_bytes=77)
    load = Load(clients=20, threads=1, pipeline=16)
    arguments = _arguments(_request(load=load, space=space))
    pairs = {"-s": "/srv/x/redis-7000.sock", "-c": "20", "-n": "1234", "-d": "77", "-r": "500"}
    pairs |= {"-P": "16", "--dbnum": "3", "-t": "set", "-k": "0"}
    assert {flag: _value(arguments, flag) for flag in pairs} == pairs


def test_one_key_is_asked_for_without_a_range() -> None:
    """With ``-r 1`` the key would be called otherwise: all zeros."""
    assert "-r" not in _arguments(_request(space=KeySpace(keys=1)))


def test_a_server_over_tcp_is_reached_with_its_certificates() -> None:
    """Host, port and TLS files are arguments; TLS is not asked for where the address has none."""
    assert _arguments(_request(address=_TCP))[:4] == ["-h", "db.example", "-p", "6380"]
    assert "--tls" not in _arguments(_request(address=_TCP))
    parameters = (("tls", "on"), ("cacert", "/ca"), ("cert", "/c"), ("key", "/k"))
    arguments = _arguments(_request(address=replace(_TCP, parameters=parameters)))
    assert "--tls" in arguments
    assert [_value(arguments, flag) for flag in ("--cacert", "--cert", "--key")] == [
        *("/ca", "/c", "/k")
    ]


def test_a_generator_beside_the_server_takes_the_inner_way() -> None:
    """What runs in the cluster connects to the service, whatever this machine connects to."""
    arguments = _arguments(_request(address=replace(_SOCKET, inside=("redis.ns", 6379))))
    assert arguments[:4] == ["-h", "redis.ns", "-p", "6379"]


def test_a_password_is_refused_and_never_an_argument() -> None:
    """redis-benchmark would show it in the list of processes."""
    address = replace(_TCP, password="geheim")
    with pytest.raises(PreflightError, match="only as an argument"):
        benchmark.refuse_password(address)
    assert not any("geheim" in word for word in _arguments(_request(address=address)))


def test_each_worker_is_a_process() -> None:
    """Threads become processes, their clients and requests add up to what was asked for."""
    request = _request(load=Load(clients=20, threads=3))
    lists = benchmark.argument_lists(request, requests=1000, dbnum=0)
    assert [_value(list(one), "-c") for one in lists] == ["7", "7", "6"]
    assert [_value(list(one), "-n") for one in lists] == ["350", "350", "300"]
    assert not any("--threads" in one for one in lists)


def test_generators_come_before_threads() -> None:
    """Where pods were asked for, there is one process in each, and never more than clients."""
    load = Load(clients=20, threads=8, generators=2)
    assert len(benchmark.divided(_request(load=load))) == 2
    assert len(benchmark.divided(_request(load=Load(clients=2, threads=8)))) == 2


@pytest.mark.parametrize("name", benchmark.BUILTINS)
def test_every_test_runs_alone(name: str) -> None:
    """No name asks for two tests at once, which would be two measurements in one output."""
    arguments = _arguments(_request(name))
    if "-t" in arguments:
        assert _value(arguments, "-t") in benchmark.TESTS
        assert not _value(arguments, "-t").startswith("lrange")
        assert _value(arguments, "-t") != "ping"
    else:
        assert arguments[-4:-1] == ["LRANGE", "mylist", "0"]


def test_a_test_that_it_does_not_have_is_refused() -> None:
    """With a name that it does not know redis-benchmark would run nothing and succeed."""
    with pytest.raises(InputError, match="no test 'sett'"):
        _arguments(_request("sett"))


def test_a_value_is_put_into_a_command() -> None:
    """``__data__`` becomes so many bytes; ``__rand_int__`` is left to redis-benchmark."""
    command = ("SETEX", "key:__rand_int__", "60", "__data__")
    request = _request(None, command=command, space=KeySpace(value_bytes=1000))
    *words, value = _arguments(request)[-4:]
    assert words == ["SETEX", "key:__rand_int__", "60"]
    assert len(value) == 1000
    assert "-t" not in _arguments(request)


def test_a_value_that_linux_does_not_take_is_refused() -> None:
    """A value of 180,000 bytes fits into no argument; a test has none."""
    command = ("SET", "k", "__data__")
    large = KeySpace(value_bytes=180_000)
    with pytest.raises(InputError, match="does not fit"):
        _arguments(_request(None, command=command, space=large))
    assert _value(_arguments(_request("set", space=large)), "-d") == "180000"


@pytest.mark.parametrize("flag", ["-c", "-n", "-d", "-r", "-P", "-t", "--csv", "-q", "-a", "-l"])
def test_flags_of_the_experiment_file_are_refused(flag: str) -> None:
    """What decides what is measured has one place."""
    with pytest.raises(InputError, match="set by Steelyard"):
        benchmark.refuse_own_flags((flag, "1"))


@pytest.mark.parametrize("word", ["extra", "--nosuch", "PING"])
def test_words_that_are_no_flags_are_refused(word: str) -> None:
    """A further word would be a command and silently replace the test."""
    with pytest.raises(InputError, match="no flag"):
        benchmark.refuse_own_flags(("-3", word))


def test_other_flags_and_their_values_pass() -> None:
    """A value is not taken for a flag."""
    benchmark.refuse_own_flags(("-k", "0", "-3", "--sni", "db.example"))


def test_requests_are_named_by_the_test() -> None:
    """Tables call the requests like the test, or like the command."""
    assert benchmark.test_name(_request("get").workload) == "get"
    assert benchmark.test_name(_request(None, command=("HGETALL", "h")).workload) == "hgetall"
