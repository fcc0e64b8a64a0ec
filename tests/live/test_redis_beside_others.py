"""Beside keys of others on a Redis server: none of them is evicted, overwritten or lost."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
import redis

from fakes.programs import FakeLedger, FakeProgram
from steelyard.core.outside import ServerAddress
from steelyard.core.target import RedisEndpointTarget
from steelyard.core.wording import LeftBehindError, PreflightError, TargetError
from steelyard.gateways.doors import system_doors
from steelyard.systems.redis.existing.databases import MARK_KEY
from steelyard.systems.redis.existing.platform import RedisEndpointOptions, RedisEndpointPlatform
from steelyard.systems.redis.existing.readiness import address_of
from support.live import Steelyard
from support.redis import RedisServer, redis_started
from support.redis_endpoint import ended, keys_of, restart_command_of, setting_of

pytestmark = pytest.mark.live

MEANS = system_doors()
TINY = """\
version: 1
engine: redis
name: tiny redis endpoint
baseline: a
workloads:
  - {name: set, builtin: set, keys: 500, loaded: 500}
load: {clients: 2}
measure: {run_time: 1s, warm_up: 0s}
stop: {budget: 5m, width: 99%}
configurations:
  a:
    target: TARGET
  b: {extends: a, redis: SETTINGS}
"""


@pytest.fixture
def others() -> Iterator[RedisServer]:
    """A server on which others have 2000 keys of 10 kB."""
    with redis_started() as server:
        session = server.session(4)
        session.pipeline([("SET", f"order:{n}", "x" * 10_000) for n in range(2000)])
        session.close()
        yield server


@pytest.fixture
def empty() -> Iterator[RedisServer]:
    """A server on which nobody has anything yet."""
    with redis_started() as server:
        yield server


def _platform(
    server: RedisServer, *asked: tuple[str, str], **options: object
) -> RedisEndpointPlatform:
    given = RedisEndpointOptions(
        entrance=address_of(RedisEndpointTarget(host=str(server.socket)), server.password),
        campaign_id="night-1",
        datasets=(("set0", 1000),),
        settings=tuple(sorted({name for name, _ in asked})),
        asked=asked,
        allow_existing=True,
        clients=8,
    )
    return RedisEndpointPlatform(replace(given, **options), FakeLedger(), MEANS)  # type: ignore[arg-type]


def _build(address: ServerAddress) -> None:
    for name, _ in address.databases:
        session = MEANS.redis.connect(address.at(name))
        session.pipeline([("SET", f"key:{number:012}", "x" * 100_000) for number in range(100)])
        session.close()


def _start(platform: RedisEndpointPlatform, settings: dict[str, str]) -> None:
    state = platform.prepare(FakeProgram(), ["data"], _build)
    platform.restore(state, "refill")
    platform.start(state, FakeProgram(), settings)


def test_a_configuration_that_evicts_is_refused_before_anything_is_set(
    steelyard: Steelyard, others: RedisServer
) -> None:
    """The whole command: exit 3, and every key of others is there as before."""
    target = {"kind": "existing", "port": others.port, "allow_existing": True}
    settings = "{maxmemory: 1100kb, maxmemory-policy: allkeys-lru}"
    text = TINY.replace("TARGET", json.dumps(target)).replace("SETTINGS", settings)
    done = steelyard.run("run", steelyard.experiment(text), "--dir", "c", "--no-verdict")
    assert keys_of(others) == {4: 2000}
    assert done.returncode == 3, done.stderr
    assert "it may evict them" in " ".join(done.stderr.split())
    assert setting_of(others, "maxmemory") == "0"


@pytest.mark.parametrize(
    ("now", "asked"),
    [
        ({}, [("maxmemory", "1mb"), ("maxmemory-policy", "volatile-ttl")]),
        ({"maxmemory": "1gb"}, [("maxmemory-policy", "allkeys-lru")]),
        ({"maxmemory-policy": "allkeys-lru"}, [("maxmemory", "8gb")]),
        ({"maxmemory": "1gb", "maxmemory-policy": "allkeys-lru"}, [("maxmemory", "8gb")]),
        (  # no configuration evicts, but on the way to it
            {"maxmemory-policy": "allkeys-lru"},
            [("maxmemory", "1mb"), ("maxmemory-policy", "noeviction")],
        ),
        ({"maxmemory": "1gb", "maxmemory-policy": "volatile-lru"}, []),
    ],
)
def test_whatever_may_evict_is_refused_beside_others(
    others: RedisServer, now: dict[str, str], asked: list[tuple[str, str]]
) -> None:
    """As it is, as a configuration wants it, and on the way there and back."""
    for name, value in now.items():
        others.command("CONFIG", "SET", name, value)
    with pytest.raises(PreflightError, match="keys of others") as caught:
        _platform(others, *asked).require_ready()
    assert "name a server of your own" in caught.value.hint
    assert keys_of(others) == {4: 2000}


def test_a_limit_without_room_for_others_is_refused(others: RedisServer) -> None:
    """Nothing is evicted then, but what others write would be refused; a wide one is allowed."""
    with pytest.raises(PreflightError, match="would refuse what others write"):
        _platform(others, ("maxmemory", "1mb")).require_ready()
    _platform(others, ("maxmemory", "2gb"), ("maxmemory-policy", "noeviction")).require_ready()


def test_an_own_server_may_evict(empty: RedisServer) -> None:
    """Where nobody has keys, that is an experiment like any other."""
    asked = (("maxmemory", "100mb"), ("maxmemory-policy", "allkeys-lru"))
    platform = _platform(empty, *asked)
    platform.require_ready()
    _start(platform, dict(asked))
    platform.destroy()


def test_others_who_come_later_keep_their_keys(empty: RedisServer) -> None:
    """A setting that may evict is not set any more once somebody else has keys there."""
    asked = (("maxmemory", "1mb"), ("maxmemory-policy", "allkeys-lru"))
    platform = _platform(empty, *asked)
    platform.require_ready()
    _start(platform, {})
    session = empty.session(7)
    session.pipeline([("SET", f"order:{n}", "x" * 10_000) for n in range(500)])
    session.close()
    with pytest.raises(TargetError, match="may evict them"):
        platform.configure(dict(asked))
    with pytest.raises(TargetError, match="may evict them"):
        _start(platform, dict(asked))
    assert keys_of(empty)[7] == 500
    platform.destroy()
    assert keys_of(empty) == {7: 500}


def test_data_without_bound_are_refused_beside_others(others: RedisServer) -> None:
    """They would fill the memory of a server that is not ours; on an own one a finding says so."""
    with pytest.raises(PreflightError, match="workload queue makes data that grow"):
        _platform(others, growing=("queue",)).require_ready()
    others.command("FLUSHALL")
    platform = _platform(others, growing=("queue",))
    platform.require_ready()
    assert "data-grow" in {found.code for found in platform.findings()}


def test_nobody_restarts_what_others_have_come_to_keep(empty: RedisServer) -> None:
    """They came after the check: neither a start nor the putting back restarts the server."""
    command = restart_command_of(empty)
    asked = (("io-threads", "2"), ("appendfsync", "no"))
    platform = _platform(empty, *asked, restart_command=command)
    try:
        platform.require_ready()
        _start(platform, dict(asked))
        before = empty.info("server")["run_id"]
        empty.command("SET", "order:1", "x", database=7)
        with pytest.raises(TargetError, match="holds keys of others and would be restarted"):
            _start(platform, dict(asked))
        with pytest.raises(LeftBehindError, match="database 7 holds 1 keys of others"):
            platform.destroy()
        assert empty.info("server")["run_id"] == before
        assert keys_of(empty) == {7: 1}
        assert setting_of(empty, "appendfsync") == "everysec"  # what can go back has gone
        empty.command("DEL", "order:1", database=7)
        platform.destroy()
        assert setting_of(empty, "io-threads") == "1"
    finally:
        ended(empty)


@pytest.mark.slow
def test_a_mark_is_found_among_very_many_keys(empty: RedisServer) -> None:
    """Of any campaign in any database, however many keys there are: more than a scan would read."""
    filler = "for n = 1, 300000 do redis.call('SET', 'key:' .. n, 'x') end"
    for round_ in range(3):
        empty.command("FLUSHALL")
        empty.command("SET", MARK_KEY, f"steelyard:day-{round_}", database=2)
        empty.command("EVAL", filler, 0, database=2)
        with pytest.raises(PreflightError, match=f"steelyard:day-{round_}"):
            _platform(empty).require_ready()


def test_keys_are_made_under_the_settings_of_their_configuration(empty: RedisServer) -> None:
    """A limit of the configuration before does not stand in the way of the next one's keys."""
    platform = _platform(empty, ("maxmemory", "5mb"), ("maxmemory", "1gb"))
    _start(platform, {"maxmemory": "1gb"})
    platform.configure({"maxmemory": "5mb"})  # half of what the keys take
    _start(platform, {"maxmemory": "1gb"})
    assert keys_of(empty) == {0: 101}
    platform.destroy()


def test_a_refill_leaves_nothing_to_dump_or_to_rewrite(empty: RedisServer) -> None:
    """Else a dump would begin in the slice because of the refill, and the AOF would hold it."""
    platform = _platform(empty, ("save", "3600 1"), ("appendonly", "yes"))
    _start(platform, {"save": "3600 1", "appendonly": "yes"})
    told = empty.info("persistence")
    assert told["rdb_changes_since_last_save"] == "0"
    assert told["rdb_bgsave_in_progress"] == told["aof_rewrite_in_progress"] == "0"
    assert told["aof_base_size"] == told["aof_current_size"]
    assert "refill-unsettled" not in {found.code for found in platform.findings()}
    platform.destroy()


def test_a_user_who_may_not_dump_is_told() -> None:
    """The campaign goes on without, and a finding says what may fall into a slice."""
    with redis_started({"user": "default on nopass ~* +@all -bgsave"}) as server:
        platform = _platform(server, ("save", "3600 1"))
        platform.require_ready()
        told = {found.code: found.message for found in platform.findings()}
        assert "may not use BGSAVE at" in told["refill-unsettled"]
        _start(platform, {"save": "3600 1"})
        assert keys_of(server) == {0: 101}
        platform.destroy()


def test_what_a_guest_leaves_in_the_log_of_the_server_is_told() -> None:
    """It may not see settings, where passwords are; the refusal stays in ACL LOG, and is said."""
    with redis_started(password="planted-7c") as server:
        platform = _platform(server, guest=("+select", "+set", "~key:*"))
        platform.require_ready()
        _start(platform, {})
        guest = platform.address.guest
        assert guest is not None
        client = redis.Redis(
            unix_socket_path=str(server.socket), username=guest.name, password=guest.password
        )
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.execute_command("CONFIG", "GET", "requirepass")
        client.close()
        assert server.command("ACL", "LOG")
        assert "guest-in-acl-log" in {found.code for found in platform.findings()}
        platform.destroy()
