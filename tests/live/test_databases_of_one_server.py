"""What is no setting, on a server that is there: existing databases of it, rewritten scripts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.endpoint import Server, started
from support.live import Steelyard, whole_report

pytestmark = [pytest.mark.live, pytest.mark.slow]

PAIR = """\
version: 1
name: an index
baseline: without
workloads:
  - {name: orders, scripts: [{file: q.sql}]}
load: {clients: 2, threads: 1}
measure: {run_time: 2s, warm_up: 1s}
stop: {budget: 20m, detect: 5%, margin: 5%}
seed: 7
configurations:
  without:
    target: {kind: existing, PLACE, dbname: DATABASE, allow_existing: ALLOWED}
  with:
    target: {kind: existing, uri: "URI", allow_existing: ALLOWED}
    postgres: {SETTINGS}
"""
READS = "\\set c random(1, 1000)\nSELECT count(*) FROM orders WHERE customer = :c;\n"
WRITES = "\\set c random(1, 1000)\nUPDATE orders SET note = note WHERE customer = :c;\n"


@pytest.fixture(scope="module")
def shop(programs: Path) -> Iterator[Server]:
    """A server with two databases of the user's own, one with an index more."""
    with started(programs) as server:
        server.do("CREATE DATABASE plain")
        server.do(
            "CREATE TABLE orders AS SELECT g % 1000 AS customer, repeat('x', 40) AS note"
            " FROM generate_series(1, 20000) g",
            "ANALYZE orders",
            database="plain",
        )
        server.do("CREATE DATABASE indexed TEMPLATE plain")
        server.do("CREATE INDEX ON orders (customer)", database="indexed")
        yield server


def pair(steelyard: Steelyard, shop: Server, script: str, **words: str) -> str:
    """Write the experiment on both databases, and its script."""
    (steelyard.directory / "q.sql").write_text(script)
    place = f"host: {shop.home}, port: {shop.port}, user: postgres"
    text = PAIR.replace("PLACE", place).replace(
        "URI", shop.uri.replace("@/postgres?", "@/indexed?")
    )
    text = text.replace("DATABASE", words.get("database", "plain"))
    text = text.replace("ALLOWED", words.get("allowed", "true"))
    return steelyard.experiment(text.replace("SETTINGS", words.get("settings", "work_mem: 9MB")))


@pytest.mark.parametrize("script", [READS, WRITES], ids=["reads", "writes"])
def test_an_index_of_one_database_shows_in_turns(
    steelyard: Steelyard, shop: Server, script: str
) -> None:
    """Both are there before and after; who writes does so in a database of its own."""
    before = shop.databases
    file = pair(steelyard, shop, script)
    planned = steelyard.run("run", file, "--dry-run")
    assert planned.returncode == 0, planned.stderr
    assert "without, with are on databases of one server" in " ".join(planned.stdout.split())
    done = steelyard.run("run", file, "--dir", "c", "--no-verdict")
    assert done.returncode == 0, done.stderr
    assert {run["turns"] is not None for run in steelyard.counted_runs} == {True}
    assert "faster" in done.stdout
    assert shop.databases == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"database": "indexed"}, "two targets of the experiment lead to the same server"),
        ({"allowed": "false"}, "two targets of the experiment lead to the same server"),
        ({"settings": "wal_compression: 'on'"}, "all of it has `wal_compression` in common"),
    ],
)
def test_what_both_would_have_is_refused(
    steelyard: Steelyard, shop: Server, words: dict[str, str], said: str
) -> None:
    """One database twice, databases of Steelyard's own, and a setting of the whole server."""
    done = steelyard.run("run", pair(steelyard, shop, READS, **words), "--dry-run")
    assert done.returncode == 3
    assert said in done.stderr


OLD = """\
\\set c random(1, 1000)
SELECT count(*) FROM orders WHERE customer + 0 = :c;
"""


def test_a_rewritten_statement_is_a_configuration(steelyard: Steelyard, shop: Server) -> None:
    """Both run in turns under one name; the report shows both with their plans."""
    home, before = steelyard.directory, shop.databases
    (home / "old.sql").write_text(OLD)
    (home / "new.sql").write_text(READS)
    (home / "wrong.sql").write_text("SELECT 1;\nSELECT nothing FROM orders;\n")
    words = ["try", "--dsn", shop.uri.replace("@/postgres?", "@/indexed?"), "--clients", "2"]
    refused = steelyard.run(*words, "--rewrite", "old.sql=wrong.sql", "--dry-run")
    assert refused.returncode == 2
    assert "wrong.sql:2: " in refused.stderr
    absent = steelyard.run(*words, "--rewrite", "old.sql=absent.sql", "--dry-run")
    assert absent.returncode == 2
    assert "--rewrite: there is no file `absent.sql`" in absent.stderr
    done = steelyard.run(*words, "--rewrite", "old.sql=new.sql", "--yes", "--dir", "c")
    assert done.returncode == 0, done.stderr
    assert "script     new.sql in place of old.sql" in done.stderr
    assert "faster" in done.stdout
    assert {run["turns"] is not None for run in steelyard.counted_runs} == {True}
    report = whole_report(home / "c")
    assert "new.sql for old.sql" in report
    assert "2 of 2 statements have different plans" in report
    assert shop.databases == before
