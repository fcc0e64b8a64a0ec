"""The real redis-benchmark, driven and read as a campaign does, against a real server."""

import collections.abc
import shutil
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from steelyard.core.experiment import KeySpace, RedisWork, Workload
from steelyard.core.outside import Completed
from steelyard.core.schedule import Load
from steelyard.core.target import REDIS
from steelyard.core.wording import MeasurementError
from steelyard.systems.protocol import RunRequest
from steelyard.systems.redis import redis_benchmark as benchmark
from steelyard.systems.redis.redis_benchmark import Pace, Printed, measurement
from steelyard.systems.redis.settings import command_of
from support.lacking import lacking
from support.redis import RedisServer, redis_started

pytestmark = pytest.mark.live

_DB = 3


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    """One server for all tests; each works in a database that it empties."""
    if shutil.which("redis-benchmark") is None:
        lacking("there is no redis-benchmark")
    with redis_started() as started:
        yield started


@pytest.fixture(autouse=True)
def _empty(server: RedisServer) -> None:
    if server.is_running:
        server.command("FLUSHALL")
        server.command("CONFIG", "RESETSTAT")


def _request(
    server: RedisServer,
    builtin: str | None,
    *,
    space: KeySpace | None = None,
    load: Load | None = None,
    command: tuple[str, ...] = (),
) -> RunRequest:
    work = RedisWork(space=space or KeySpace(), command=command)
    return RunRequest(
        workload=Workload(name="w", builtin=builtin, redis=work),
        load=load or Load(clients=5, threads=1),
        protocol="",
        seconds=1,
        address=server.by_socket,
        configuration="a",
    )


def _call(arguments: tuple[str, ...], limit_s: float = 300) -> Completed:
    argv = ("redis-benchmark", *arguments)
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=limit_s)
    return Completed(argv=argv, exit_status=done.returncode, stdout=done.stdout, stderr=done.stderr)


def _printed(request: RunRequest, requests: int) -> tuple[Printed, ...]:
    lists = benchmark.argument_lists(request, requests=requests, dbnum=_DB)
    with ThreadPoolExecutor(len(lists)) as pool:
        return tuple(benchmark.parse(done) for done in pool.map(_call, lists))


def _calls(server: RedisServer) -> dict[str, int]:
    """Return how often the server was asked for each command since the test began."""
    return {
        name.removeprefix("cmdstat_"): int(told.split(",")[0].partition("=")[2])
        for name, told in server.info("commandstats").items()
        if name.startswith("cmdstat_")
    }


@pytest.mark.parametrize("name", REDIS.builtins)
def test_every_test_asks_for_its_command_alone(server: RedisServer, name: str) -> None:
    """The server answered as many of the test's command as were counted, and no other work."""
    server.command("CONFIG", "RESETSTAT")
    before = _calls(server)
    server.command("CONFIG", "RESETSTAT")
    (printed,) = _printed(_request(server, name), 500)
    assert printed.requests == printed.steps[-1].requests == 500
    calls = collections.Counter(_calls(server))
    calls.subtract(before)
    own = command_of(Workload(name="w", builtin=name))[0].lower()
    assert calls.pop(own) == 500
    assert {each for each, number in calls.items() if number > 0} <= {"select", "config|get"}


def test_gets_find_the_keys_that_were_loaded(server: RedisServer) -> None:
    """Keys are named as the generator names them, in the database that it uses."""
    session = server.session(_DB)
    session.pipeline([("SET", f"key:{number:012d}", "v") for number in range(100)])
    session.close()
    _printed(_request(server, "get", space=KeySpace(keys=100, loaded=100)), 2000)
    stats = server.info("stats")
    assert (stats["keyspace_hits"], stats["keyspace_misses"]) == ("2000", "0")


def test_one_key_is_one_key(server: RedisServer) -> None:
    """Without a key space all requests write the same key, of the size that was asked for."""
    _printed(_request(server, "set", space=KeySpace(keys=1, value_bytes=5000)), 1000)
    session = server.session(_DB)
    assert session.command("KEYS", "*") == [b"key:__rand_int__"]
    assert session.command("STRLEN", "key:__rand_int__") == 5000
    session.close()


def test_a_command_of_its_own_writes_a_value_of_the_size(server: RedisServer) -> None:
    """Numbers of keys and the value stand where the command has their words."""
    request = _request(
        server,
        None,
        space=KeySpace(keys=50, value_bytes=700),
        command=("SETEX", "s:__rand_int__", "600", "__data__"),
    )
    (printed,) = _printed(request, 1000)
    assert printed.requests == 1000
    session = server.session(_DB)
    keys = session.command("KEYS", "*")
    assert isinstance(keys, list)
    assert 1 < len(keys) <= 50
    assert session.command("STRLEN", keys[0]) == 700
    session.close()


def test_workers_are_processes_that_share_the_requests(server: RedisServer) -> None:
    """Three workers ask for as much as one, with all the clients together."""
    parts = _printed(_request(server, "set", load=Load(clients=7, threads=3)), 3000)
    assert len(parts) == 3
    assert measurement(parts).transactions == _calls(server)["set"]
    assert 3000 <= _calls(server)["set"] <= 3000 + 7


def test_pipelined_requests_are_all_counted(server: RedisServer) -> None:
    """Whole batches are sent: what was answered beyond the number asked for counts, too."""
    load = Load(clients=4, threads=1, pipeline=16)
    (printed,) = _printed(_request(server, "set", load=load), 1003)
    assert printed.requests >= 1003
    assert printed.requests <= _calls(server)["set"] <= 1003 + 4 * 16


def test_pilots_lead_to_a_number_of_requests(server: RedisServer) -> None:
    """A few growing pilots on the real server, then a run of what they say."""
    request = _request(server, "set", load=Load(clients=5, threads=1))
    pace = Pace()
    tried = 0
    while (requests := pace.pilot(request)) is not None:
        (printed,) = _printed(request, requests)
        pace.learn(request, printed.requests, printed.seconds)
        tried += 1
        assert tried < 12
    asked = pace.requests(replace(request, seconds=1))
    (printed,) = _printed(request, asked)
    assert printed.requests == asked
    assert sum(second.transactions for second in printed.series) == pytest.approx(asked, rel=0.1)


def _of_a_server_that_dies() -> Completed | None:
    """Return what the program said of SIGKILL under load; None: it turned in circles.

    One of 7.0.15 whose server dies may use a whole CPU for ever (seen twice). A campaign
    ends such a run by its time limit.
    """
    with redis_started() as own, ThreadPoolExecutor(1) as pool:
        request = _request(own, "set")
        (arguments,) = benchmark.argument_lists(request, requests=500_000_000, dbnum=_DB)
        running = pool.submit(_call, arguments, 60)
        answered = threading.Event()
        while not running.done() and _calls(own).get("set", 0) < 20_000:
            answered.wait(0.02)
        own.kill()
        try:
            return running.result()
        except subprocess.TimeoutExpired:
            return None


def test_a_server_that_dies_is_a_failed_measurement() -> None:
    """SIGKILL under load: an error in redis-benchmark's words, and no number."""
    tries = (_of_a_server_that_dies() for _ in range(5))
    completed = next(each for each in tries if each is not None)
    with pytest.raises(MeasurementError, match="redis-benchmark exited with 1"):
        benchmark.parse(completed)
