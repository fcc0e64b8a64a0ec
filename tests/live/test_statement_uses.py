"""What each statement takes in whole campaigns, and limits of time that end one."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.endpoint import PLAIN_PASSWORD, Server, run, started
from support.live import LIMIT_S, Steelyard, lasting, wait_for, whole_report

pytestmark = [pytest.mark.live, pytest.mark.slow]

LOCAL = """\
version: 1
name: statements of own servers
baseline: fast
workloads:
  - {name: writes, builtin: simple-update, scale: 1}
load: {clients: 2, threads: 1, protocol: simple}
measure: {run_time: 2s, warm_up: 1s, runs_per_start: 1}
stop: {budget: 20m, width: 0.1%}
seed: 7
configurations:
  fast:
    target: {kind: local, server: embedded}
    postgres: {shared_preload_libraries: pg_stat_statements}
  durable:
    extends: fast
    postgres: {fsync: "off", commit_delay: 10000, commit_siblings: 0}
"""
SHARED = """\
version: 1
name: statements of sessions
baseline: one
design: alternating
workloads:
  - name: shop
    prepare: [make.sql]
    scripts: [{file: shop.sql}]
load: {clients: 2, threads: 1, protocol: simple}
measure: {run_time: 2s, warm_up: 1s, runs_per_start: 1}
stop: {budget: 20m, width: 0.1%}
seed: 7
configurations:
  one:
    target: {kind: existing, uri: PLACE}
    postgres: {enable_indexscan: "on"}
  two:
    extends: one
    postgres: {enable_indexscan: "off", enable_bitmapscan: "off", enable_indexonlyscan: "off"}
"""
MAKE = """\
CREATE TABLE orders AS SELECT g id, g % 1000 customer, 0 n FROM generate_series(1, 20000) g;
CREATE INDEX ON orders (customer);
ANALYZE orders;
"""
COUNT = "SELECT count(*) FROM orders WHERE customer = :c;\n"
NOTE = "UPDATE orders SET n = n + 1 WHERE ctid = '(0,1)';\n"


@pytest.fixture(scope="module")
def counting(programs: Path) -> Iterator[Server]:
    """A server of somebody who has loaded pg_stat_statements."""
    with started(programs) as made:
        made.do("ALTER SYSTEM SET shared_preload_libraries = pg_stat_statements")
        run(made.restart_command)
        yield made


def uses_in(steelyard: Steelyard) -> Any:
    """Return what the summary says of statements, after the report was made again."""
    assert steelyard.run("report", "c", "--write").returncode == 0
    return json.loads((steelyard.directory / "c" / "summary.json").read_text())["statement_uses"]


def test_own_servers_tell_what_each_statement_takes(steelyard: Steelyard) -> None:
    """The extension is made in Steelyard's own database; figures are of each configuration."""
    done = steelyard.until_blocks(
        2, "run", steelyard.experiment(LOCAL), "--dir", "c", "--no-verdict"
    )
    assert done.returncode == 130, done.stderr
    for taken in steelyard.runs:
        calls = {each["text"].split(" ")[0]: each for each in taken["evidence"]["statements"]}
        assert calls["UPDATE"]["calls"] == calls["COMMIT"]["calls"] > 0
    (tally,) = uses_in(steelyard)
    per = {each["statement"].split(" ")[0]: each for each in tally["statements"]}
    assert per["UPDATE"]["calls_per_transaction"] == pytest.approx([1.0, 1.0], rel=0.05)
    assert per["UPDATE"]["wal_bytes_per_call"]["baseline"] > 50
    assert "Statements on the server" in whole_report(steelyard.directory / "c")


def test_sessions_that_write_have_a_database_each_and_are_told_apart(
    steelyard: Steelyard, counting: Server
) -> None:
    """The statement without its index is the one that adds; the other does not."""
    databases = counting.databases
    (steelyard.directory / "make.sql").write_text(MAKE)
    (steelyard.directory / "shop.sql").write_text("\\set c random(1, 1000)\n" + COUNT + NOTE)
    file = steelyard.experiment(SHARED.replace("PLACE", json.dumps(counting.uri)))
    done = steelyard.until_blocks(2, "run", file, "--dir", "c", "--no-verdict")
    assert done.returncode == 130, done.stderr
    (tally,) = uses_in(steelyard)
    first = tally["statements"][0]
    assert first["statement"].startswith("SELECT count(*) FROM orders")
    assert first["seconds_per_transaction"]["estimate"] > 0
    assert first["seconds_per_call"]["change"]["estimate"] > 1.0
    assert first["pages_hit_per_call"]["change"]["estimate"] > 1.0
    assert counting.databases == databases


def test_sessions_that_read_the_same_database_cannot_be_told_apart(
    steelyard: Steelyard, counting: Server
) -> None:
    """It is absent, with the reason; not the sum of both."""
    (steelyard.directory / "make.sql").write_text(MAKE)
    (steelyard.directory / "shop.sql").write_text("\\set c random(1, 1000)\n" + COUNT)
    file = steelyard.experiment(SHARED.replace("PLACE", json.dumps(counting.uri)))
    done = steelyard.until_blocks(1, "run", file, "--dir", "c", "--no-verdict")
    assert done.returncode == 130, done.stderr
    for taken in steelyard.runs:
        assert taken["evidence"]["statements"] is None
        reasons = {each["subject"]: each["reason"] for each in taken["evidence"]["absent"]}
        assert "in the same database by the same role" in reasons["statements"]


SLOW = """\
version: 1
name: slow statements
baseline: default
workloads:
  - {name: naps, scale: 1, scripts: [{file: nap.sql}]}
load: {clients: 2, threads: 1, protocol: simple}
measure: {run_time: 2s, discard_start: 0s, warm_up: 0s}
stop: {budget: 5m, width: 99%}
seed: 7
configurations:
  default:
    target: {kind: existing}
  other:
    extends: default
    postgres: {work_mem: 9MB}
"""


@pytest.fixture
def plain(steelyard: Steelyard, server: Server) -> Iterator[Steelyard]:
    """Steelyard as an ordinary role, whose timeout is reset after the test; no database is left."""
    (steelyard.directory / "nap.sql").write_text("SELECT pg_sleep(0.2);\n")
    variables = {**server.tcp, "PGUSER": "plain", "PGPASSWORD": PLAIN_PASSWORD}
    yield replace(steelyard, extra=variables)
    server.do("ALTER ROLE plain RESET statement_timeout")
    assert server.databases == set()


def test_data_that_cannot_be_prepared_in_time_are_said(plain: Steelyard, server: Server) -> None:
    """Exit 4 with the setting and how to change it; the finding was said before."""
    server.do("ALTER ROLE plain SET statement_timeout = '5s'")
    (plain.directory / "long.sql").write_text("SELECT pg_sleep(600);\n")
    text = SLOW.replace("scripts:", "prepare: [long.sql], scripts:")
    done = plain.run("run", plain.experiment(text), "--dir", "c", "--no-verdict")
    assert done.returncode == 4, done.stderr
    assert "Traceback" not in done.stderr
    assert "statement timeout" in done.stderr
    assert "statement_timeout = 0" in done.stderr
    findings = [e["finding"]["code"] for e in plain.journal if e["kind"] == "finding"]
    assert "statement-timeout" in findings


def test_work_that_is_cut_off_in_the_campaign_ends_it(plain: Steelyard, server: Server) -> None:
    """Exit 5 with the server's words, everything dropped all the same; then `--resume` goes on."""
    process = plain.start("run", plain.experiment(lasting(SLOW)), "--dir", "c", "--no-verdict")
    wait_for(lambda: len(plain.runs) >= 1, process)
    server.do("ALTER ROLE plain SET statement_timeout = '100ms'")
    _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 5, err
    assert "Traceback" not in err
    assert "due to statement timeout" in err
    assert "run --resume" in err
    assert "left behind" not in err
    assert server.databases == set()
    server.do("ALTER ROLE plain RESET statement_timeout")
    before = plain.runs
    plain.resumed_for_a_block()
    assert plain.runs[: len(before)] == before
