"""The reader of INFO on real servers: exact counts, and events that were made on purpose."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from steelyard.campaign.evidence.server import ServerProbe
from steelyard.core.measurement import Evidence, Quantity
from steelyard.core.wording import MS_PER_S, US_PER_S, TargetError
from steelyard.gateways.host import LocalHost
from steelyard.gateways.redis import RedisDoor
from steelyard.systems.redis.reader import RedisReader, open_reader
from support.redis import RedisServer, redis_started, require_redis
from support.watching import seen_by

pytestmark = pytest.mark.live
_BENCHMARK = "redis-benchmark"
_LOG = {"appendonly": "yes", "appendfsync": "everysec"}


@contextmanager
def _read(server: RedisServer) -> Iterator[RedisReader]:
    reader = open_reader(RedisDoor(), server.by_socket)
    try:
        yield reader
    finally:
        reader.close()


def _difference(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    return {name: after[name] - before[name] for name in before}


def _benchmark(server: RedisServer, *arguments: str) -> None:
    subprocess.run(
        [require_redis(_BENCHMARK), "-s", str(server.socket), *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=300,
    )


def _watched(server: RedisServer, *arguments: str) -> Evidence:
    """Return what the probe of the server saw around a run of the generator."""
    probe = ServerProbe(
        open_reader=lambda: open_reader(RedisDoor(), server.by_socket),
        ramp_s=0.0,
        nearby=LocalHost(),
    )
    return seen_by(lambda: _benchmark(server, *arguments), probe)[1]


def test_a_server_that_is_only_watched_does_nothing() -> None:
    """Fifty looks and two full readings: not one command, not one byte in any counter."""
    with redis_started(_LOG) as server, _read(server) as reader:
        before = reader.counters()
        for _ in range(50):
            reader.waits()
        found = _difference(before, reader.settled_counters())
        cpu = {Quantity.MAIN_THREAD_CPU_S, Quantity.BACKGROUND_CPU_S}
        assert {name: value for name, value in found.items() if value and name not in cpu} == {}
        assert reader.answering_s > 0


@pytest.mark.parametrize("fsync", ["always", "everysec", "no"])
def test_a_run_is_counted_to_the_last_request(fsync: str) -> None:
    """Requests, their bytes on the wire and in the log, under every way of flushing it."""
    count = 50_000  # several looks at the main thread, and a log too small for a rewrite
    with redis_started({**_LOG, "appendfsync": fsync}) as server:
        seen = _watched(
            server, "-n", str(count), "-c", "10", "-d", "1000", "-r", "100", "-t", "set"
        )
        # redis-benchmark asks for two settings first.
        assert seen.total(Quantity.COMMANDS) == count + 2
        request = len("*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000000\r\n$1000\r\n\r\n") + 1000
        logged = seen.total(Quantity.AOF_BYTES)
        assert logged is not None
        assert logged == pytest.approx(count * request, rel=0.001)
        assert seen.total(Quantity.AOF_REWRITES) == 0
        assert seen.total(Quantity.KEYSPACE_MISSES) == 0
        main, executing = seen.total(Quantity.MAIN_THREAD_CPU_S), seen.total(Quantity.COMMAND_S)
        assert main is not None
        assert executing is not None
        assert executing > 0
        assert seen.total(Quantity.MAIN_THREAD_RUN_QUEUE_S) is not None
        assert seen.total(Quantity.MAIN_THREAD_BLOCKED_S) is not None
        assert seen.cost is not None
        assert seen.cost.server_cpu_s is not None


def test_a_rewrite_and_a_save_are_seen_with_their_forks() -> None:
    """Begun by hand while the reader looks: their time, the forks', and what children copied."""
    settings = {**_LOG, "rdb-key-save-delay": "200"}  # µs a key: 5000 keys take a second
    with redis_started(settings) as server, _read(server) as reader:
        _benchmark(server, "-n", "20000", "-d", "100", "-r", "5000", "-t", "set")
        before = reader.counters()
        for command in ("BGREWRITEAOF", "BGSAVE"):
            server.command(command)
            _until_no_child(server, reader)
        found = _difference(before, reader.settled_counters())
        assert found[Quantity.FORKS] == 2
        assert found[Quantity.FORK_S] > 0
        assert found[Quantity.AOF_REWRITES] == 1
        assert found[Quantity.AOF_REWRITING_S] > 0.3
        assert found[Quantity.RDB_SAVING_S] > 0.3
        assert found[Quantity.CHILDREN_CPU_S] > 0
        assert reader.levels()[Quantity.COPIED_BYTES] > 0


def _until_no_child(server: RedisServer, reader: RedisReader) -> None:
    while True:
        reader.waits()
        told = server.info("persistence")
        if told["aof_rewrite_in_progress"] == told["rdb_bgsave_in_progress"] == "0":
            reader.waits()
            return
        time.sleep(0.1)


def test_slow_commands_and_worst_moments_are_the_runs() -> None:
    """One before the run, two in it: the slow log and the monitor are read from there on."""
    settings = {"latency-monitor-threshold": "1", "enable-debug-command": "yes"}
    with redis_started(settings) as server:
        server.command("DEBUG", "SLEEP", "0.3")
        time.sleep(1.1)  # the monitor knows whole seconds
        with _read(server) as reader:
            reader.counters()
            server.command("DEBUG", "SLEEP", "0.05")
            server.command("DEBUG", "SLEEP", "0.02")
            reader.settled_counters()
            levels = reader.levels()
        slow = _rows(server.command("SLOWLOG", "GET", 128))
        moments = _rows(server.command("LATENCY", "HISTORY", "command"))
        in_run = [int(entry[2]) for entry in slow if int(entry[0]) > 0]
        assert levels[Quantity.SLOW_COMMANDS] == len(in_run) >= 2
        assert levels[Quantity.SLOWEST_COMMAND_S] == max(in_run) / US_PER_S
        assert levels[Quantity.WORST_COMMAND_S] == max(int(ms) for _, ms in moments[1:]) / MS_PER_S


def _rows(answer: object) -> list[list[int]]:
    assert isinstance(answer, list)
    return answer


def test_evictions_and_misses_are_counted() -> None:
    """A server that is full, and reads of keys that it has thrown out."""
    settings = {"maxmemory": "8mb", "maxmemory-policy": "allkeys-random"}
    with redis_started(settings) as server:
        write = ("-n", "4000", "-d", "5000", "-r", "4000", "-t", "set")
        written = _watched(server, *write)
        read = _watched(server, "-n", "4000", "-r", "4000", "-t", "get")
        assert (written.total(Quantity.EVICTED_KEYS) or 0) > 1000
        misses, hits = (
            read.total(each) for each in (Quantity.KEYSPACE_MISSES, Quantity.KEYSPACE_HITS)
        )
        assert misses is not None
        assert hits is not None
        assert misses + hits == 4000
        assert misses > 1000
        assert written.level(Quantity.MAXMEMORY_BYTES) == 8 * 2**20


def test_a_user_without_rights_is_refused_with_the_servers_words() -> None:
    """Nobody reads INFO against an ACL, and no session is left behind."""
    with redis_started() as server:
        server.command("ACL", "SETUSER", "poor", "on", "nopass", "+@connection", "+select")
        server.user = "poor"
        with pytest.raises(TargetError, match="no permissions to run"):
            open_reader(RedisDoor(), server.by_socket)
        server.user = ""
        clients = server.command("CLIENT", "LIST")
        assert isinstance(clients, bytes)
        assert b"user=poor" not in clients


def test_a_server_that_dies_makes_the_probe_absent() -> None:
    """Killed while it is watched: the evidence is there without it, and says why."""
    with redis_started() as server:
        probe = ServerProbe(
            open_reader=lambda: open_reader(RedisDoor(), server.by_socket),
            ramp_s=0.0,
            nearby=LocalHost(),
        )
        _, seen = seen_by(server.kill, probe)
    assert Quantity.COMMANDS not in seen.totals
    assert any(absence.subject == "server" for absence in seen.absent)


def test_a_replica_that_stands_still_is_behind() -> None:
    """Its process is stopped while the primary writes: the stream goes on without it."""
    with redis_started() as primary, redis_started() as replica, _read(primary) as reader:
        replica.command("REPLICAOF", "127.0.0.1", str(primary.port))
        while "state=online" not in primary.info("replication").get("slave0", ""):
            time.sleep(0.05)
        before = reader.counters()
        os.kill(replica.pid, signal.SIGSTOP)
        try:
            _benchmark(primary, "-n", "2000", "-d", "5000", "-r", "100", "-t", "set")
            found = _difference(before, reader.settled_counters())
        finally:
            os.kill(replica.pid, signal.SIGCONT)
        levels = reader.levels()
    assert found[Quantity.REPLICATION_BYTES] > 2000 * 5000
    assert levels[Quantity.REPLICAS] == 1
    assert levels[Quantity.REPLICA_BEHIND_BYTES] > 2000 * 5000 / 2
