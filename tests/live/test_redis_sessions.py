"""Sessions, keys and commands on a real Redis, and a campaign whose cause is known."""

import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import redis

from steelyard.answers.campaign import analyse
from steelyard.answers.costs import Cost
from steelyard.answers.reasons.compute import campaign_reasons
from steelyard.core.experiment import KeySpace
from steelyard.core.measurement import Quantity
from steelyard.core.wording import TargetError
from steelyard.gateways import redis_client
from steelyard.gateways.redis import RedisDoor, RedisSession, Reply, ReplyError
from steelyard.record.directory import read_campaign
from steelyard.systems.redis.datasets import benchmark_key, fill, values
from steelyard.systems.redis.settings import STAYING, stays_in_database
from support.live import Steelyard
from support.redis import RedisServer, redis_server, redis_started, require_redis, require_valkey

__all__ = ["redis_server"]
pytestmark = pytest.mark.live
_ROUNDS = 60


def _connections(server: RedisServer) -> int:
    return int(server.info("stats")["total_connections_received"])


def test_one_connection_serves_single_commands_and_several(redis_server: RedisServer) -> None:
    """The server knows the session by one number, whichever way it is asked."""
    session = redis_server.session()
    try:
        alone = session.command("CLIENT", "ID")
        assert session.pipeline([("CLIENT", "ID")] * 2) == [alone, alone]
        assert session.info("clients")["connected_clients"] == "1"
    finally:
        session.close()


def test_several_commands_have_the_time_of_one(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit of the greeting is over with it: what takes longer is waited for."""
    monkeypatch.setattr(redis_client, "_GREETING_TIMEOUT_S", 0.5)
    session = RedisDoor().connect(redis_server.by_socket, timeout_s=30.0)
    try:
        wait = ("BLPOP", "no-such-list", "1")
        assert session.command(*wait) is None
        assert session.pipeline([wait]) == [None]
    finally:
        session.close()


def test_a_refusal_among_several_leaves_no_answer_behind(redis_server: RedisServer) -> None:
    """It is told in the server's words, and the next command gets its own answer."""
    session = redis_server.session()
    try:
        several = [("SET", "key", "value"), ("INCR", "key"), ("GET", "key")]
        with pytest.raises(ReplyError, match=r"refuses a command: .*not an integer"):
            session.pipeline(several)
        assert session.command("ECHO", "next") == b"next"
    finally:
        session.close()


def test_a_lost_connection_is_not_made_anew(redis_server: RedisServer) -> None:
    """A server that came back is another one: its counters began again."""
    session = redis_server.session()
    redis_server.kill()
    with pytest.raises(TargetError, match="does not answer any more"):
        session.info("server")
    redis_server.start()
    before = _connections(redis_server)
    with pytest.raises(TargetError, match="does not answer any more"):
        session.info("server")
    with pytest.raises(TargetError, match="does not answer any more"):
        session.pipeline([("TIME",)])
    assert _connections(redis_server) == before + 1  # this one's own


def test_a_closed_session_connects_no_more(redis_server: RedisServer) -> None:
    """What a thread asks that has not heard of its end leaves no connection behind."""
    session = redis_server.session()
    session.close()
    before = _connections(redis_server)
    with pytest.raises(TargetError, match="the session is over"):
        session.info("server")
    assert _connections(redis_server) == before + 1


def test_a_session_ends_in_any_moment_of_a_command(redis_server: RedisServer) -> None:
    """Closed by another thread, it raises what a lost server raises, and leaves none connected."""
    odd: list[Exception] = []

    def ask(session: RedisSession) -> None:
        try:
            while True:
                session.pipeline([("ECHO", "1"), ("ECHO", "2")])
        except TargetError:
            return
        except Exception as error:  # noqa: BLE001 - that there is none is what is shown
            odd.append(error)

    for turn in range(_ROUNDS):
        session = redis_server.session()
        thread = threading.Thread(target=ask, args=(session,))
        thread.start()
        threading.Event().wait(turn * 3e-5)
        session.close()
        thread.join(30.0)
        assert not thread.is_alive()
    assert odd == []
    assert redis_server.info("clients")["connected_clients"] == "1"


def _asked_for(server: RedisServer, *options: str) -> tuple[int, int]:
    """Return hits and misses of a hundred GETs of redis-benchmark."""
    argv = ["redis-benchmark", "-p", str(server.port), "-t", "get", "-n", "100", "-q", *options]
    subprocess.run(argv, check=True, capture_output=True, timeout=60)
    stats = server.info("stats")
    return int(stats["keyspace_hits"]), int(stats["keyspace_misses"])


@pytest.mark.parametrize(("keys", "options"), [(50, ("-r", "50")), (1, ())])
def test_every_get_of_the_generator_finds_its_key(
    redis_server: RedisServer, keys: int, options: tuple[str, ...]
) -> None:
    """Names are those of redis-benchmark, of many keys and of the one: nothing is missed."""
    session = redis_server.session()
    space = KeySpace(keys=keys, loaded=keys, value_bytes=900)
    fill(session, space)
    assert session.command("DBSIZE") == keys
    assert _asked_for(redis_server, *options) == (100, 0)
    assert session.command("GET", benchmark_key(space, 0)) == values(900)(0)
    session.close()


def test_large_values_go_in_small_pipelines(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten values of 300,000 bytes go in threes, and do not shrink when they are saved."""
    session = redis_server.session()
    sizes, pipeline = [], type(session).pipeline

    def counted(self: RedisSession, commands: Sequence[Sequence[str | bytes | int]]) -> list[Reply]:
        sizes.append(len(commands))
        return pipeline(self, commands)

    monkeypatch.setattr(type(session), "pipeline", counted)
    fill(session, KeySpace(keys=10, loaded=10, value_bytes=300_000))
    assert sizes == [3, 3, 3, 1, 1]  # the last asks how many there are
    session.command("SAVE")
    session.close()
    assert (redis_server.home / "dump.rdb").stat().st_size > 3_000_000


def test_a_server_that_evicts_is_told() -> None:
    """Keys that the server threw away while it was loaded are missed at the end."""
    with redis_started({"maxmemory": "3mb", "maxmemory-policy": "allkeys-random"}) as server:
        session = server.session()
        with pytest.raises(TargetError, match="was given 100 keys and holds"):
            fill(session, KeySpace(keys=100, loaded=100, value_bytes=100_000))
        session.close()


_REACHING_FAR = ("admin", "dangerous", "scripting", "pubsub", "transaction", "blocking")


@pytest.mark.parametrize("flavour", ["redis", "valkey"])
def test_what_is_allowed_has_keys_and_does_no_harm(flavour: str) -> None:
    """Of all commands that a server has: each allowed one is of keys, and of no bad category."""
    program = "redis-server" if flavour == "redis" else f"{require_valkey()}/valkey-server"
    with redis_started(program=program) as server:
        commands, harmful = _said(server)
    allowed = {name for name in commands if stays_in_database((name,))}
    assert len(allowed) > 120
    assert not allowed & harmful
    keyless = {name for name in allowed if not commands[name]["first_key_pos"]}
    assert keyless == {"ping"}
    open_ended = {name for name in allowed if "movablekeys" in commands[name]["flags"]}
    assert not open_ended  # which keys they take depends on their words, as of ... STORE
    for name in ("flushall", "eval", "copy", "move", "swapdb", "config", "restore", "function"):
        assert name in commands
        assert name not in allowed
    if flavour == "redis":
        newer = STAYING - set(commands)
        assert all(name.startswith("h") for name in newer), newer  # times to live of fields, of 7.4


def test_what_is_allowed_names_no_database() -> None:
    """No argument of an allowed command is the number of a database, as of COPY and MOVE."""
    with redis_started() as server:
        docs = server.command("COMMAND", "DOCS")
    assert isinstance(docs, list)
    told = dict(zip(docs[::2], docs[1::2], strict=True))
    naming = {name.decode() for name, said in told.items() if "db" in _words(said)}
    assert {"copy", "move"} <= naming
    assert not naming & STAYING


def _said(server: RedisServer) -> tuple[Mapping[str, Mapping[str, Any]], set[str]]:
    client = redis.Redis(unix_socket_path=str(server.socket), decode_responses=True)
    commands = client.command()
    harmful = {name for each in _REACHING_FAR for name in client.acl_cat(each)}
    client.close()
    return commands, harmful


def _words(said: object) -> set[str]:
    """Return the parts of all words in an answer: of `destination-db` both."""
    if isinstance(said, list):
        return {word for each in said for word in _words(each)}
    text = said.decode() if isinstance(said, bytes) else str(said)
    return set(text.lower().split("-")) if " " not in text else set()


_VALUE_BYTES = 20_000
_ALWAYS = f"""\
version: 1
engine: redis
name: every write flushed
baseline: unlogged
workloads:
  - {{name: writes, builtin: set, value_bytes: {_VALUE_BYTES}, keys: 200, loaded: 200}}
load: {{clients: 8, threads: 1}}
measure: {{run_time: 1s, warm_up: 0s}}
stop: {{budget: 10m, width: 99%}}
seed: 7
configurations:
  unlogged:
    target: {{kind: local}}
    redis: {{appendonly: no, save: "", auto-aof-rewrite-percentage: 0}}
  flushed: {{extends: unlogged, redis: {{appendonly: yes, appendfsync: always}}}}
"""


@pytest.mark.slow
def test_a_log_that_is_flushed_is_found_in_bytes_flushes_and_words(steelyard: Steelyard) -> None:
    """Each request's bytes are in the log of the one arm alone; parts of its time make the whole.

    What the evidence says is the whole of the latency, split by what the main thread did, and that
    the faster arm keeps less.
    """
    require_redis()
    ended = steelyard.run("run", steelyard.experiment(_ALWAYS), "--dir", "c")
    assert ended.returncode == 0, ended.stderr
    analysis = analyse(read_campaign(steelyard.directory / "c"))
    request = len("*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000000\r\n$20000\r\n\r\n") + _VALUE_BYTES
    for run in analysis.runs:
        assert run.evidence is not None
        assert run.measurement is not None
        sent = run.evidence.total(Quantity.COMMANDS)
        assert sent is not None
        assert sent - run.measurement.transactions in (0, 1, 2)  # CONFIG GET, once or twice
        logged = run.evidence.total(Quantity.AOF_BYTES)
        assert logged is not None
        assert (logged == 0) is (run.configuration == "unlogged")
    assert analysis.answer(campaign_reasons) is not None
    (change,) = analysis.answer(campaign_reasons).ledger.changes
    written = change.cost(Cost.AOF_BYTES)
    assert written.clear
    assert written.configuration == pytest.approx(request, rel=0.001)
    for cell in analysis.answer(campaign_reasons).budget.cells:
        assert cell.latency is not None
        whole = sum(part.value for part in cell.parts.values())
        assert whole == pytest.approx(cell.latency.value, rel=0.3)  # medians do not add
    found = {finding.code: finding for finding in analysis.findings}
    assert found["persistence-traded"].subject == "unlogged"
    (told,) = analysis.answer(campaign_reasons).explanations
    assert Cost.AOF_BYTES in told.costs
    assert "appendonly" in told.differing
