"""Trials that only read: where nothing may be written, and where sessions end by the clock.

A standby, roles that may only read, and limits of sessions that are shorter than pauses of turns.
"""

import json
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from steelyard.core.outside import ServerAddress
from steelyard.core.wording import RefusedError
from steelyard.gateways.sql import Sql
from steelyard.systems.postgres.existing.server import read_state
from support.endpoint import Server, as_account, free_port, make_home, run, started
from support.live import Steelyard, wait_for

pytestmark = pytest.mark.live

FOREIGN = Path(__file__).parents[1] / "recordings" / "foreign"
_READS = "\\set c random(1, 100)\nBEGIN;\nSELECT count(*) FROM orders WHERE customer = :c;\nEND;\n"
_ROLES = (
    "CREATE ROLE turned LOGIN",
    "ALTER ROLE turned SET default_transaction_read_only = on",
    "CREATE ROLE reader LOGIN",
    "CREATE ROLE ended LOGIN",
    "ALTER ROLE ended SET idle_in_transaction_session_timeout = '100ms'",
    "ALTER ROLE ended IN DATABASE shop SET transaction_timeout = '1500ms'",
    "ALTER ROLE turned SET idle_session_timeout = '200ms'",
    "ALTER DATABASE shop SET lock_timeout = '1900ms'",
)
_DATA = (
    "CREATE TABLE orders AS SELECT g id, g % 100 customer FROM generate_series(1, 2000) g",
    "CREATE TABLE secrets (n int)",  # which no role but its owner may read
    "GRANT SELECT ON orders TO turned, reader, ended",
    "VACUUM ANALYZE",
)
_FILE = """\
version: 1
name: reads
baseline: now
workloads: [{name: reads, scripts: [{file: reads.sql}]}]
load: {clients: 2, threads: 1, protocol: simple}
measure: {run_time: 1s, discard_start: 0s, warm_up: 0s, prewarm: true}
stop: {budget: 20m, width: 0.1%}
seed: 7
configurations:
  now: {target: {kind: existing, uri: PLACE, allow_existing: true}}
  other: {extends: now, postgres: {SETTING}}
"""


@pytest.fixture(scope="module")
def primary(programs: Path) -> Iterator[Server]:
    """A server with a database of somebody, and roles that may only read it."""
    with started(programs) as made:
        made.do("CREATE DATABASE shop", *_ROLES)
        made.do(*_DATA, database="shop")
        yield made


@pytest.fixture(scope="module")
def standby(primary: Server) -> Iterator[Server]:
    """A standby that streams from it, and ends statements in its way at once."""
    made = Server(home=make_home(), programs=primary.programs, port=free_port())
    way = ["-h", str(primary.home), "-p", str(primary.port), "-U", "postgres"]
    copy = [str(primary.programs / "pg_basebackup"), "-D", str(made.data), "-R", "-c", "fast", *way]
    run([*as_account(), *copy])
    with (made.data / "postgresql.conf").open("a") as file:
        file.write(
            f"port = {made.port}\nunix_socket_directories = '{made.home}'\n"
            "max_standby_streaming_delay = 0\n"
        )
    run(made.control("start", "-l", str(made.home / "log")))
    yield made
    run(made.control("stop", "-m", "immediate"))
    shutil.rmtree(made.home)


@pytest.fixture(params=["primary", "standby"])
def place(request: pytest.FixtureRequest) -> Server:
    """Both, one after the other."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Server)
    return found


def _uri(place: Server, role: str) -> str:
    return f"postgresql://{role}@/shop?host={place.home}&port={place.port}"


@pytest.mark.parametrize("role", ["postgres", "turned", "reader"])
def test_a_trial_that_only_reads_is_ready(steelyard: Steelyard, place: Server, role: str) -> None:
    """Whoever is asked, and where: what is touched says what the server is."""
    (steelyard.directory / "reads.sql").write_text(_READS)
    words = ["--set", "random_page_cost=1.1", "--script", "reads.sql", "--dry-run"]
    done = steelyard.run("try", "--dsn", _uri(place, role), *words)
    assert done.returncode == 0, done.stderr
    assert "nothing of the server is changed" in done.stderr
    is_standby = place.rows("SELECT pg_is_in_recovery()") == [(True,)]
    assert ("(a standby), as" in done.stderr) is is_standby


@pytest.mark.parametrize(
    ("role", "words", "why"),
    [
        ("postgres", ("--builtin", "select-only"), "is a standby.*make the data there"),
        ("turned", ("--script", "writes.sql"), "is a standby.*scripts may change data"),
    ],
)
def test_what_has_to_write_is_refused_on_a_standby(
    steelyard: Steelyard, standby: Server, role: str, words: tuple[str, ...], why: str
) -> None:
    """With the reason, and both ways out."""
    (steelyard.directory / "writes.sql").write_text("UPDATE orders SET customer = 1;\n")
    tried = ("try", "--dsn", _uri(standby, role), "--set", "jit=off", *words, "--dry-run")
    done = steelyard.run(*tried)
    assert done.returncode == 3, done.stderr
    said = " ".join(done.stderr.split())
    assert re.search(why, said), said
    assert "Name the primary" in said
    assert "scripts that only read" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("role", "setting", "mode"),
    [
        ("reader", "random_page_cost: 2", "alternating"),
        ("postgres", "wal_compression: 'on'", "back-to-back"),
    ],
)
def test_blocks_are_taken_on_a_standby(
    steelyard: Steelyard, standby: Server, role: str, setting: str, mode: str
) -> None:
    """In turns, or by ALTER SYSTEM, which is put back; what is not seen has a reason."""
    before = standby.configuration
    (steelyard.directory / "reads.sql").write_text(_READS)
    text = _FILE.replace("PLACE", json.dumps(_uri(standby, role))).replace("SETTING", setting)
    done = steelyard.until_blocks(
        1, "run", steelyard.experiment(text), "--dir", "c", "--no-verdict"
    )
    assert done.returncode == 130
    (plan,) = (entry["plan"] for entry in steelyard.journal if entry["kind"] == "planned")
    assert plan["mode"] == mode
    assert all(run["measurement"]["failed"] == 0 for run in steelyard.counted_runs)
    absent = [each for one in steelyard.runs for each in one["evidence"]["absent"]]
    reasons = {each["subject"]: each["reason"] for each in absent}
    if mode == "back-to-back":
        assert "recovery is in progress" in reasons["wal_bytes"]
    assert standby.configuration == before


def test_a_statement_that_recovery_ends_has_a_way_out(primary: Server, standby: Server) -> None:
    """The server says it by its code, in whatever language: what to set stands in the hint."""
    primary.do("CREATE TABLE held AS SELECT 1 n", database="shop")
    wait_for(lambda: standby.rows("SELECT to_regclass('held') IS NOT NULL", "shop") == [(True,)])
    address = ServerAddress(
        host=str(standby.home), port=standby.port, user="postgres", database="shop"
    )
    errors: list[RefusedError] = []

    def hold() -> None:
        try:
            Sql().rows(address, "SELECT count(*), pg_sleep(60) FROM held")
        except RefusedError as error:
            errors.append(error)

    asking = threading.Thread(target=hold)
    asking.start()
    at_work = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%60%held' AND state='active'"
    wait_for(lambda: standby.rows(at_work) == [(1,)])
    primary.do("DROP TABLE held", database="shop")
    asking.join(timeout=60)
    (error,) = errors
    assert error.code == "40001"
    assert "max_standby_streaming_delay" in error.hint
    assert "hot_standby_feedback" in error.hint


@pytest.mark.parametrize(
    ("limits", "database", "left"),
    [
        (("ROLE reader CONNECTION LIMIT 6",), "", 5),
        (("ROLE reader CONNECTION LIMIT 3",), "", 2),
        (("DATABASE shop CONNECTION LIMIT 4",), "shop", 3),
        (("DATABASE shop CONNECTION LIMIT 4",), "", None),  # the load is put on another one
        (("ROLE reader CONNECTION LIMIT 9", "DATABASE shop CONNECTION LIMIT 7"), "shop", 6),
    ],
)
def test_limits_of_role_and_database_count_the_sessions_that_are_open(
    primary: Server, limits: tuple[str, ...], database: str, left: int | None
) -> None:
    """One session of the role is open in the database beside that which asks."""
    address = ServerAddress(
        host=str(primary.home), port=primary.port, user="reader", database="shop"
    )
    ended = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'reader'"
    wait_for(lambda: primary.rows(ended) == [(0,)])
    primary.do(*(f"ALTER {limit}" for limit in limits))
    try:
        with closing(Sql().session(address, "held", patience_s=9.0)):
            state = read_state(address, Sql(), "steelyard campaign x", database)
    finally:
        primary.do(
            "ALTER ROLE reader CONNECTION LIMIT -1", "ALTER DATABASE shop CONNECTION LIMIT -1"
        )
    assert state.connections_left == left or (left is None and state.connections_left > 9)


@pytest.mark.parametrize(
    ("role", "options", "changed", "words"),
    [
        ("turned", "", "jit=off", "idle_session_timeout = 0 (now 200ms)"),
        ("reader", "", "jit=off", "lock_timeout = 0 (now 1900ms)"),
        ("ended", "", "jit=off", "transaction_timeout = 0 (now 1500ms)"),
        ("ended", "", "jit=off", "idle_in_transaction_session_timeout = 0 (now 100ms)"),
        ("reader", "-c statement_timeout=1s", "jit=off", "statement_timeout = 0 (now 1s)"),
        (
            *("reader", "", "idle_session_timeout=1s"),
            "idle_session_timeout = 1s of tried goes on in the pauses, which may last 10 s",
        ),
    ],
)
def test_limits_by_the_clock_are_seen_before_the_start(
    steelyard: Steelyard, primary: Server, role: str, options: str, changed: str, words: str
) -> None:
    """Of a database, a role, both, or asked for: lifted, or what is compared, one by one."""
    (steelyard.directory / "reads.sql").write_text(_READS)
    asked = replace(steelyard, extra={"PGOPTIONS": options})
    words_of_try = ["--set", changed, "--script", "reads.sql", "--dry-run"]
    done = asked.run("try", "--dsn", _uri(primary, role), *words_of_try)
    assert done.returncode == 0, done.stderr
    assert words in " ".join((done.stdout + done.stderr).split())


@pytest.mark.slow
def test_turns_are_taken_where_sessions_would_end_in_their_pauses(
    steelyard: Steelyard, primary: Server
) -> None:
    """Transactions that a pause cuts in two go on; the server's limits are what they were."""
    (steelyard.directory / "reads.sql").write_text(_READS)
    text = _FILE.replace("PLACE", json.dumps(_uri(primary, "ended")))
    text = text.replace("SETTING", "work_mem: 9MB").replace("run_time: 1s", "run_time: 2s")
    done = steelyard.until_blocks(
        1, "run", steelyard.experiment(text), "--dir", "c", "--no-verdict"
    )
    assert done.returncode == 130, done.stderr
    (plan,) = (entry["plan"] for entry in steelyard.journal if entry["kind"] == "planned")
    assert plan["mode"] == "alternating"
    assert "transaction_session_timeout = 0 (now 100ms)" in plan["design_reason"]
    assert all(run["measurement"]["failed"] == 0 for run in steelyard.counted_runs)
    assert [each["attempt"] for each in steelyard.blocks[:1]] == [0]


@pytest.mark.parametrize(
    ("name", "setting", "words"),
    [
        ("z38", "idle_session_timeout: 100ms", "not alternating, because idle_session_timeout"),
        ("z38", "transaction_timeout: 2000", "not alternating, because transaction_timeout = 2000"),
        ("z38", "statement_timeout: 1h", "alternating, because all of them"),
        ("z35", "statement_timeout: 1ms", "not alternating, because statement_timeout = 1ms of b"),
    ],
)
def test_limits_of_the_file_are_compared_one_by_one(
    steelyard: Steelyard, name: str, setting: str, words: str
) -> None:
    """Local servers: a limit that no pause uses up changes nothing."""
    text = (FOREIGN / "experiments" / f"{name}.yaml").read_text()
    text = re.sub(r"postgres: \{.*\}", f"postgres: {{{setting}}}", text)
    done = steelyard.run("run", steelyard.experiment(text), "--dry-run")
    assert done.returncode == 0, done.stderr
    assert words in " ".join(done.stdout.split())
