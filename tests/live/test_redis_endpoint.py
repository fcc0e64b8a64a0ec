"""Campaigns on Redis servers that are there already: measured, and left as they were found."""

import gzip
import json
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from steelyard.systems.redis.existing.databases import MARK_KEY
from support.live import LIMIT_S, Steelyard, ending, interrupted, lasting, wait_for, whole_report
from support.redis import RedisServer, redis_started
from support.redis_endpoint import keys_of, restart, setting_of, tls_started

if TYPE_CHECKING:
    import subprocess

pytestmark = pytest.mark.live

TINY = """\
version: 1
engine: redis
name: tiny redis endpoint
baseline: everysec
workloads:
  - {name: set, builtin: set, keys: 500, loaded: 500}
load: {clients: 2}
measure: {run_time: 1s, warm_up: 0s}
stop: {budget: 5m, width: 99%}
seed: 7
configurations:
  everysec:
    target: {kind: existing}
    redis: {appendonly: yes, appendfsync: everysec}
  off:
    extends: everysec
    redis: {appendonly: no}
"""
_ASKED = ("appendonly", "appendfsync", "save")


def at(server: RedisServer, text: str = TINY, **keys: object) -> str:
    """Return the experiment at the server's port, with further keys of the target."""
    given = {"kind": "existing", **({} if "uri" in keys else {"port": server.port}), **keys}
    return text.replace("{kind: existing}", json.dumps(given))


@pytest.fixture(scope="module")
def shared() -> Iterator[RedisServer]:
    """A server for the tests that leave it as it was."""
    with redis_started({"appendfsync": "no"}) as made:
        yield made


@pytest.fixture
def redis(shared: RedisServer) -> Iterator[RedisServer]:
    """The shared server; after the test it is as it was: its settings, its keys."""
    before = [setting_of(shared, name) for name in _ASKED]
    yield shared
    assert [setting_of(shared, name) for name in _ASKED] == before
    assert keys_of(shared) == {}


def _measured(steelyard: Steelyard, text: str, *more: str) -> None:
    """Run a campaign for one block; what it made is undone at every end."""
    source = steelyard.experiment(lasting(text))
    steelyard.until_blocks(1, "run", source, "--dir", "c", "--no-verdict", *more)


def _run(steelyard: Steelyard, text: str, *more: str) -> "subprocess.CompletedProcess[str]":
    return steelyard.run("run", steelyard.experiment(text), "--dir", "c", "--no-verdict", *more)


@pytest.mark.slow
def test_a_campaign_leaves_the_server_as_it_was(steelyard: Steelyard, redis: RedisServer) -> None:
    """A whole campaign: settings by CONFIG SET, an empty database, all undone and noted."""
    done = _run(steelyard, at(redis, ending(TINY)))
    assert done.returncode == 0, done.stderr
    summary = json.loads((steelyard.directory / "c" / "summary.json").read_text())
    assert summary["blocks"] == 3
    assert not [run for run in steelyard.runs if run["validity"] == "invalid"]
    labels = [e["name"] for e in steelyard.journal if e.get("resource") == "on-server"]
    assert sorted(labels[:2]) == sorted(labels[2:])
    assert {label.split(" on ")[0] for label in labels} == {
        "keys in database 0",
        "settings appendfsync, appendonly",
    }


def test_kill_9_leaves_what_clean_undoes(steelyard: Steelyard, redis: RedisServer) -> None:
    """The marker shows what is ours; `clean` empties only that and puts the settings back."""
    source = steelyard.experiment(lasting(at(redis)))
    process = steelyard.start("run", source, "--dir", "c", "--no-verdict")
    wait_for(lambda: len(steelyard.runs) >= 1, process)

    def stands_with_keys() -> bool:
        process.send_signal(signal.SIGSTOP)
        if keys_of(redis):
            return True
        process.send_signal(signal.SIGCONT)  # emptied, and not filled yet for the next start
        return False

    wait_for(stands_with_keys, process)
    process.kill()
    process.communicate(timeout=LIMIT_S)
    assert setting_of(redis, "appendfsync") == "everysec"
    held = keys_of(redis)  # those of a start, or on the way to those of the next one
    assert set(held) == {0}
    assert 1 <= held[0] <= 501
    assert str(redis.command("GET", MARK_KEY)).startswith("b'steelyard:")
    redis.command("SET", "order:1", "x", database=5)  # somebody else comes
    told = steelyard.run("clean", "--dry-run")
    assert "keys in database 0 on localhost" in told.stdout
    cleaned = steelyard.run("clean", "--yes")
    assert cleaned.returncode == 0, cleaned.stderr
    assert keys_of(redis) == {5: 1}
    redis.command("DEL", "order:1", database=5)


@pytest.mark.slow
def test_a_killed_campaign_is_resumed(steelyard: Steelyard, redis: RedisServer) -> None:
    """What the dead session left is undone first; its settings are not taken for the server's."""
    source = steelyard.experiment(lasting(at(redis)))
    process = steelyard.start("run", source, "--dir", "c", "--no-verdict")
    wait_for(lambda: steelyard.complete_blocks >= 1, process)
    process.kill()
    process.communicate(timeout=LIMIT_S)
    steelyard.resumed_for_a_block()


@pytest.mark.slow
def test_a_server_that_dies_is_told_and_cleaned_later(steelyard: Steelyard) -> None:
    """Its failure ends the campaign, which says what it could not put back; `clean` does it."""
    with redis_started({"appendfsync": "no"}) as own:
        source = steelyard.experiment(lasting(at(own)))
        process = steelyard.start("run", source, "--dir", "c", "--no-verdict")
        wait_for(lambda: len(steelyard.runs) >= 1, process)
        own.kill()
        _, err = process.communicate(timeout=LIMIT_S)
        assert process.returncode in (4, 5), err
        assert "left behind: " in err
        assert "steelyard clean" in err
        failed = steelyard.run("clean", "--yes")
        assert failed.returncode == 7, failed.stderr
        assert "REDISCLI_AUTH" in failed.stderr
        own.start()
        cleaned = steelyard.run("clean", "--yes")
        assert cleaned.returncode == 0, cleaned.stderr
        assert keys_of(own) == {}
        assert setting_of(own, "appendonly") == "no"


@pytest.mark.slow
def test_keys_of_others_are_refused_and_left(steelyard: Steelyard, redis: RedisServer) -> None:
    """Refused until it is allowed; then an empty database is used and theirs are as they were."""
    redis.command("SET", "order:1", "x")
    text = at(redis)
    refused = _run(steelyard, text)
    assert refused.returncode == 3, refused.stderr
    assert "holds keys: 1 in database 0" in refused.stderr
    assert "--allow-existing" in refused.stderr
    _measured(steelyard, text, "--allow-existing")
    assert keys_of(redis) == {0: 1}
    assert "keys in database 1" in json.dumps(steelyard.journal)
    report = whole_report(steelyard.directory / "c")
    assert "also for the keys that were there" in " ".join(report.split())
    redis.command("DEL", "order:1")


def test_a_password_that_nobody_sees(steelyard: Steelyard) -> None:
    """It comes from the environment; the generator, whose arguments all can read, has another."""
    with redis_started({"appendfsync": "no"}, password="planted-3e") as own:
        secret = replace(steelyard, extra={"REDISCLI_AUTH": "planted-3e"})
        source = secret.experiment(lasting(at(own)))
        process = secret.start("run", source, "--dir", "c", "--no-verdict")
        seen: set[str] = set()

        def has_run() -> bool:
            seen.update(_command_lines())
            return secret.complete_blocks >= 1

        wait_for(has_run, process)
        interrupted(process)
        ours = [line for line in seen if f"-p {own.port}" in line]
        assert any("--user steelyard-" in line for line in ours)
        assert not any("planted-3e" in line for line in seen)
        guests = {line.split(" -a ")[1].split()[0] for line in ours}
        for path in (steelyard.directory / "c").rglob("*"):
            held = path.read_bytes() if path.is_file() else b""
            held = gzip.decompress(held) if path.suffix == ".gz" else held
            assert not any(word.encode() in held for word in ("planted-3e", *guests)), path
        assert own.command("ACL", "USERS") == [b"default"]
        assert keys_of(own) == {}


def _command_lines() -> Iterator[str]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield path.read_text(errors="replace").replace("\0", " ")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("io-threads: 4", "`io-threads` needs a restart of the server"),
        ("requirepass: x", "requirepass"),
    ],
)
def test_settings_that_cannot_be_changed_have_their_line(
    steelyard: Steelyard, redis: RedisServer, setting: str, words: str
) -> None:
    """What needs a restart, does not exist, or is a secret is told before anything is changed."""
    done = _run(steelyard, at(redis, TINY.replace("{appendonly: no}", f"{{{setting}}}")))
    assert done.returncode == 2, done.stderr
    assert words.lower() in done.stderr.lower()
    assert "tiny.yaml:" in done.stderr


def test_a_server_that_cannot_write_its_log_is_told(steelyard: Steelyard) -> None:
    """An AOF that cannot be made ends the campaign with the reason, and `no` is in force again."""
    with redis_started({"appendfsync": "no"}) as own:
        gone = own.home / "gone"
        gone.mkdir()
        restart(own, dir=str(gone))
        gone.rmdir()
        done = _run(steelyard, at(own))
        assert done.returncode in (4, 5), done.stderr
        assert "appendonly" in done.stderr or "AOF" in done.stderr
        assert keys_of(own) == {}
        assert setting_of(own, "appendonly") == "no"


@pytest.fixture(scope="module")
def secure() -> Iterator[tuple[RedisServer, dict[str, Path]]]:
    """A server whose port speaks TLS only and asks for a client's certificate."""
    with tls_started({"appendfsync": "no"}) as started:
        yield started


@pytest.mark.slow
def test_a_campaign_through_verified_tls(
    steelyard: Steelyard, secure: tuple[RedisServer, dict[str, Path]]
) -> None:
    """Own commands and the generator go over TLS with the client's certificate."""
    own, files = secure
    uri = f"rediss://localhost:{own.port}"
    paths = {"cacert": files["ca.crt"], "cert": files["client.crt"], "key": files["client.key"]}
    _measured(steelyard, at(own, uri=uri, **{name: str(path) for name, path in paths.items()}))
    facts = json.loads((steelyard.directory / "c" / "environment.json").read_text())["facts"]
    assert [fact["value"] for fact in facts if fact["name"] == "TLS"] == ["yes"]
    assert not [run for run in steelyard.runs if run["validity"] == "invalid"]
    assert keys_of(own) == {}


_TAKEN = {
    "save": "900 1 300 10",
    "maxmemory": "100mb",
    "client-output-buffer-limit": "normal 0 0 0 pubsub 32mb 8mb 60",
    "notify-keyspace-events": "KEA",
    "maxmemory-clients": "5%",
    "oom-score-adj-values": "1 2",  # what it means is the server's machine's to say
}
_REFUSED = {
    "save": "3600 1 300",
    "client-output-buffer-limit": "normal 0 0",
    "maxmemory": "50%",
    "hz": "100.5",
    "latency-monitor-threshold": "100ms",
    "maxmemory-policy": "lru",
    "notify-keyspace-events": "Q",
}


def _with_settings(server: RedisServer, *asked: dict[str, str]) -> str:
    """Return an experiment whose further configurations ask for these settings, one a line."""
    lines = [
        line
        for number, settings in enumerate(asked)
        for line in (
            f"  c{number}:\n    extends: off\n    redis:",
            *(f"      {name}: '{value}'" for name, value in settings.items()),
        )
    ]
    return at(server) + "\n".join([*lines, ""])


def test_values_that_redis_refuses_are_told_before_the_start(
    steelyard: Steelyard, redis: RedisServer
) -> None:
    """A program of the same family here says all of them, with their lines; nothing is changed."""
    source = steelyard.experiment(_with_settings(redis, _TAKEN, {"save": "900"}, _REFUSED))
    done = steelyard.run("run", source, "--dry-run")
    assert done.returncode == 2
    problems = [line for line in done.stderr.splitlines() if " refuses this value: " in line]
    expected = [("c1", "save"), *(("c2", name) for name in _REFUSED)]
    assert len(problems) == len(expected)
    lines = Path(steelyard.directory / source).read_text().splitlines()
    for problem, (configuration, name) in zip(problems, expected, strict=True):
        line = lines[int(problem.split(":")[1]) - 1]
        assert f"configurations.{configuration}.redis.{name}: " in problem
        assert line.strip().startswith(f"{name}: ")


def test_a_value_that_the_server_alone_refuses_has_its_line(
    steelyard: Steelyard, redis: RedisServer
) -> None:
    """Redis' words at the start of the configuration, with the place in the file before them."""
    text = _with_settings(redis, {"oom-score-adj-values": "1 2"})
    done = _run(steelyard, text)
    number = text.splitlines().index("      oom-score-adj-values: '1 2'") + 1
    assert done.returncode == 4
    assert f":{number}:29: configurations.c0.redis.oom-score-adj-values: " in done.stderr
    assert "CONFIG SET failed" in done.stderr
