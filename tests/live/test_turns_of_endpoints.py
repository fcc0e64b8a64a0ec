"""Campaigns in turns on servers that are there already, and on Redis servers of this machine."""

import json
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from steelyard.core.schedule import TurnTimes
from support.endpoint import Server, at_work, started
from support.live import Steelyard, interrupted, living_servers, wait_for, whole_report
from support.redis import RedisServer, redis_started, require_redis

if TYPE_CHECKING:
    import subprocess

pytestmark = pytest.mark.live

# In pipelines a request costs little but its command, and a hash that is kept as a list is searched
# from its beginning: on a quiet machine that is a fifth of the rate.
KNOWN = """\
version: 1
engine: redis
name: a hash kept as a list
baseline: plain
design: alternating
workloads:
  - {name: fields, builtin: hset, keys: 1000, value_bytes: 64}
load: {clients: 2, threads: 1, pipeline: 32}
measure: {run_time: 2s, warm_up: 1s}
stop: {budget: 20m, width: 0.1%}
seed: 7
configurations:
  plain:
    target: {kind: local}
    redis: {save: "", appendonly: "no"}
  listed:
    extends: plain
    redis: {hash-max-listpack-entries: 100000}
"""
_DIES_WITHIN_S = 30.0


def ratios(runs: list[dict[str, Any]], configuration: str, baseline: str) -> list[float]:
    """Return the log ratio of each block."""
    rates: dict[int, dict[str, float]] = defaultdict(dict)
    for run in runs:
        turns = run["turns"]
        rate = sum(turn["transactions"] for turn in turns) / sum(turn["seconds"] for turn in turns)
        rates[run["block"]][run["configuration"]] = rate
    both = [each for each in rates.values() if {configuration, baseline} <= each.keys()]
    return [math.log(each[configuration] / each[baseline]) for each in both]


@pytest.mark.slow
def test_a_known_effect_shows_in_turns_that_the_server_counted(steelyard: Steelyard) -> None:
    """A server that searches a list answers fewer, in a block of 8 turns each.

    On a busy machine turns are longer, and fewer: at most half of those in the plan are lost.

    Each turn counts what ended in it after the settling, by the server; no latency is made up.
    """
    require_redis()
    done = steelyard.until_blocks(
        1, "run", steelyard.experiment(KNOWN), "--dir", "c", "--no-verdict"
    )
    assert done.returncode == 130
    runs = steelyard.counted_runs
    found = ratios(runs, "listed", "plain")
    assert all(each < -0.3 for each in found)
    assert len(found) == steelyard.complete_blocks
    (plan,) = (entry["plan"] for entry in steelyard.journal if entry["kind"] == "planned")
    (planned,) = (TurnTimes(**each["times"]).turns_in(2.0) for each in plan["turns"])
    for run in runs:
        assert run["latency"] is None
        assert run["measurement"]["latency_mean_s"] is None
        assert len(run["turns"]) >= 0.5 * planned
        for turn in run["turns"]:
            assert turn["seconds"] > 0.0
            assert 0 < turn["early"] < turn["transactions"]
        # What settled and warmed up, and more than half of each turn where nobody disturbs it.
        assert run["measurement"]["uncounted"] > sum(turn["early"] for turn in run["turns"])
    report = whole_report(steelyard.directory / "c")
    assert "keeps no log" in report


def states_in(cache: Path) -> list[str]:
    """Return the state of each process that works below a directory, whatever it is."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                inside = str((entry / "cwd").readlink()).startswith(f"{cache}/")
                if inside:
                    found.append((entry / "stat").read_text().rpartition(")")[2].split()[0])
            except OSError:
                continue
    return found


def kill(process: "subprocess.Popen[str]", left: Callable[[], object]) -> None:
    """Kill a campaign, and see that nothing of it is left after a while."""
    process.kill()
    process.communicate()
    deadline = time.monotonic() + _DIES_WITHIN_S
    while left() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left()


# The transactions of one are 2 ms longer, which is most of them.
NAPS = """\
version: 1
name: two endpoints, one naps
baseline: one
design: alternating
workloads:
  - name: naps
    prepare: [make.sql]
    scripts: [{file: nap.sql}]
load: {clients: 2, threads: 1, protocol: simple}
measure: {run_time: 2s, warm_up: 1s, turn: 250ms}
stop: {budget: 20m, width: 0.1%}
seed: 7
configurations:
  one:
    target: {kind: existing, uri: FIRST}
  two:
    target: {kind: existing, uri: SECOND}
    postgres: {work_mem: 9MB, log_checkpoints: "off"}
"""
MAKE = "CREATE TABLE seen (n bigint);\n"
# A loop, because a sleep would be known as one.
NAP = """\
DO $$ BEGIN
  IF current_setting('work_mem') = '9MB' THEN
    PERFORM count(*) FROM generate_series(1, 4000);
  END IF;
END $$;
"""
REDIS = (
    KNOWN.replace("{kind: local}", "{kind: existing, uri: FIRST}")
    .replace('    redis: {save: "", appendonly: "no"}\n', "")
    .replace("    extends: plain\n", "    target: {kind: existing, uri: SECOND}\n")
)


@pytest.fixture
def other_server(programs: Path) -> Iterator[Server]:
    """A second server beside the session's own."""
    with started(programs) as made:
        yield made


@pytest.fixture
def pair() -> Iterator[tuple[RedisServer, RedisServer]]:
    """Two servers of Redis."""
    require_redis()
    with redis_started() as one, redis_started() as two:
        yield one, two


def naps(steelyard: Steelyard, one: Server, two: Server) -> str:
    """Write the experiment on two servers of PostgreSQL and its scripts."""
    (steelyard.directory / "make.sql").write_text(MAKE)
    (steelyard.directory / "nap.sql").write_text(NAP)
    text = NAPS.replace("FIRST", json.dumps(one.uri)).replace("SECOND", json.dumps(two.uri))
    return steelyard.experiment(text)


@pytest.mark.slow
def test_endpoints_of_postgres_take_turns_and_are_left_as_found(
    steelyard: Steelyard, server: Server, other_server: Server
) -> None:
    """What makes one slower shows in two blocks; only generators stood still, and it is said so.

    Percentiles are told as far as turns can tell them, and no further. Each arm runs on its own
    server, only one of which is changed.
    """
    servers = (server, other_server)
    before = [(each.configuration, each.databases) for each in servers]
    done = steelyard.until_blocks(
        2, "run", naps(steelyard, server, other_server), "--dir", "c", "--no-verdict"
    )
    assert done.returncode == 130
    runs = steelyard.counted_runs
    found = ratios(runs, "two", "one")
    assert len(found) == steelyard.complete_blocks
    assert all(ratio < -0.1 for ratio in found)
    (plan,) = (entry["plan"] for entry in steelyard.journal if entry["kind"] == "planned")
    assert plan["pausing"] == "generator"
    # A busy machine needs longer turns, which tell more.
    (turns,) = (TurnTimes(**each["times"]) for each in plan["turns"])
    assert turns.turn_s >= 0.25
    assert all(run["latency"]["told_to_s"] == pytest.approx(turns.told_to_s) for run in runs)
    assert all(run["measurement"]["latency_mean_s"] > 0 for run in runs)
    report = whole_report(steelyard.directory / "c")
    assert "with pauses for background work" in report
    assert all(str(each.home) in report for each in servers)
    made = [e["thing"] for e in steelyard.journal if e["kind"] == "created" and e.get("thing")]
    assert {thing["host"] for thing in made if thing["resource"] == "database"} == {
        str(each.home) for each in servers
    }
    changed = [thing["host"] for thing in made if thing["resource"] == "settings"]
    assert changed == [str(other_server.home)]
    assert [(each.configuration, each.databases) for each in servers] == before


@pytest.mark.slow
def test_endpoints_of_redis_take_turns_and_are_left_as_found(
    steelyard: Steelyard, pair: tuple[RedisServer, RedisServer]
) -> None:
    """What makes one slower shows in a block; the servers count, and go on."""
    one, two = pair
    setting = ("CONFIG", "GET", "hash-max-listpack-entries")
    before = [each.command(*setting) for each in pair]
    text = REDIS.replace("FIRST", json.dumps(one.uri)).replace("SECOND", json.dumps(two.uri))
    done = steelyard.until_blocks(
        1, "run", steelyard.experiment(text), "--dir", "c", "--no-verdict"
    )
    assert done.returncode == 130
    runs = steelyard.counted_runs
    found = ratios(runs, "listed", "plain")
    assert len(found) == steelyard.complete_blocks
    assert all(each < -0.3 for each in found)
    assert all(run["latency"] is None for run in runs)
    assert [each.command("DBSIZE") for each in pair] == [0, 0]
    assert [each.command(*setting) for each in pair] == before


@pytest.mark.slow
def test_no_generator_stays_stopped_after_kill_9(
    steelyard: Steelyard, server: Server, other_server: Server
) -> None:
    """Killed in its turns: the stopped one dies, and the servers get rid of its sessions."""
    file = naps(steelyard, server, other_server)
    process = steelyard.start("run", file, "--dir", "c", "--no-verdict")

    def in_turns() -> bool:
        begun = any(entry["kind"] == "block-started" for entry in steelyard.journal)
        return begun and "T" in states_in(steelyard.cache)

    wait_for(in_turns, process)
    kill(
        process,
        lambda: living_servers(steelyard.cache) or at_work(server) or at_work(other_server),
    )
    assert steelyard.run("clean", "--yes").returncode == 0
    assert server.databases == other_server.databases == set()


SESSIONS = """\
version: 1
name: sessions of one server
baseline: one
design: alternating
workloads:
  - name: naps
    prepare: [make.sql]
    scripts: [{file: nap.sql}]
  - {name: reads, builtin: select-only, scale: 1}
load: {clients: 2, threads: 1, protocol: simple}
measure: {run_time: 2s, warm_up: 1s}
stop: {budget: 20m, width: 0.1%}
seed: 7
configurations:
  one:
    target: {kind: existing, uri: PLACE}
    postgres: {work_mem: 5MB}
  two:
    extends: one
    postgres: {work_mem: 9MB}
"""


@pytest.mark.slow
def test_sessions_of_one_server_take_turns_and_nothing_of_it_is_altered(
    steelyard: Steelyard, server: Server
) -> None:
    """Each has its own settings and databases; not even a superuser's campaign alters anything.

    What makes one slower shows in a block; what the server counts is of both, and absent.
    """
    before, databases = server.configuration, server.databases
    (steelyard.directory / "make.sql").write_text(MAKE)
    (steelyard.directory / "nap.sql").write_text(NAP)
    file = steelyard.experiment(SESSIONS.replace("PLACE", json.dumps(server.uri)))
    process = steelyard.start("run", file, "--dir", "c", "--no-verdict")
    wait_for(lambda: at_work(server), process)
    wait_for(lambda: steelyard.complete_blocks >= 1, process)
    assert server.configuration == before
    done = interrupted(process)
    assert done.returncode == 130
    runs = steelyard.counted_runs
    found = ratios([r for r in runs if r["cell"]["workload"] == "naps"], "two", "one")
    assert all(ratio < -0.1 for ratio in found)
    absent = [each for run in runs for each in run["evidence"]["absent"]]
    assert all(
        "which counts what all of them do" in each["reason"]
        for each in absent
        if each["subject"] == "server"
    )
    assert sum(each["subject"] == "server" for each in absent) == len(runs)
    made = [e["thing"] for e in steelyard.journal if e["kind"] == "created" and e.get("thing")]
    names = {thing["database"] for thing in made}
    assert len(names) == 2 * 4  # of each data set: its template, the first copy, one for each
    assert {thing["resource"] for thing in made} == {"database"}
    assert server.databases == databases
    (environment,) = [e["environment"] for e in steelyard.journal if e["kind"] == "environment"]
    shown = {
        each["configuration"]: {s["name"]: s["value"] for s in each["settings"]}["work_mem"]
        for each in environment["servers"]
    }
    assert shown == {"one": "5120", "two": "9216"}


READS = """\
\\set c random(1, 100)
SELECT count(*) FROM orders WHERE customer = :c;
"""


@pytest.mark.slow
def test_a_setting_is_tried_on_a_server_and_nothing_of_it_is_altered(
    steelyard: Steelyard, server: Server
) -> None:
    """Scripts that read share the user's own database, in turns; an index that is left out costs.

    Without anybody to agree nothing is started; who writes by a function is stopped.
    """
    server.do("CREATE DATABASE shop")
    server.do(
        "CREATE TABLE orders AS SELECT g id, g % 100 customer FROM generate_series(1, 20000) g",
        "CREATE INDEX ON orders (customer)",
        "VACUUM ANALYZE orders",
        "CREATE FUNCTION note() RETURNS void LANGUAGE sql AS 'INSERT INTO orders VALUES (0)'",
        database="shop",
    )
    before = (server.configuration, server.databases)
    dsn = f"host={server.home} port={server.port} user=postgres dbname=shop"
    (steelyard.directory / "q.sql").write_text(READS)
    words = ["try", "--dsn", dsn, "--script", "q.sql", "--clients", "2", "--dir", "c"]
    words += ["--set", "enable_indexscan=off", "--set", "enable_bitmapscan=off"]
    words += ["--set", "enable_indexonlyscan=off"]
    asked = steelyard.run(*words)
    assert asked.returncode == 3, asked.stderr
    assert "nobody is there to agree" in asked.stderr
    assert "nothing of the server is changed" in asked.stderr
    assert "database shop, which was there before: the scripts only read" in asked.stderr
    assert not (steelyard.directory / "c").exists()
    done = steelyard.run(*words, "--yes", "--no-verdict")
    assert done.returncode == 0, done.stderr
    summary = json.loads((steelyard.directory / "c" / "summary.json").read_text())
    assert summary["design"]["mode"] == "alternating"
    assert {row["verdict"] for row in summary["comparisons"]} == {"slower"}
    assert "go back by vacuum" not in done.stdout  # nothing was changed
    (steelyard.directory / "q.sql").write_text("SELECT note();\n")
    stopped = steelyard.run(*words[:-1], "enable_sort=off", "--yes", "--no-verdict", "--dir", "d")
    assert stopped.returncode == 5, stopped.stderr
    assert "read-only transaction" in stopped.stderr
    assert server.rows("SELECT count(*) FROM orders", "shop") == [(20000,)]
    assert (server.configuration, server.databases) == before
    server.do("DROP DATABASE shop")
