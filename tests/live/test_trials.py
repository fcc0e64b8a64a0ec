"""``steelyard try`` on a server that runs: several values, statements from elsewhere."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.endpoint import Server, run, started
from support.live import Steelyard, wait_for, whole_report

pytestmark = pytest.mark.live

_TABLES = (
    "CREATE TABLE sold (id int PRIMARY KEY, shop int, amount int, note text)",
    "INSERT INTO sold SELECT i, i % 50, i % 977, repeat('x', 50) FROM generate_series(1, 30000) i",
    "CREATE INDEX ON sold (shop)",
    "VACUUM ANALYZE sold",
)
_SORTED = (
    "SELECT count(*) FROM"
    " (SELECT amount, note FROM sold WHERE id < 2000 ORDER BY note, amount OFFSET 0) s;"
)


@pytest.fixture
def shop(server: Server) -> Iterator[Server]:
    """A server with a table of sales."""
    server.do(*_TABLES)
    yield server
    server.do("DROP TABLE sold")


def test_several_values_are_configurations_by_the_kind_of_the_setting(
    steelyard: Steelyard, shop: Server
) -> None:
    """The server says what a list is; the value that it has is the baseline, and said to be."""
    (steelyard.directory / "q.sql").write_text(_SORTED)
    ((own,),) = shop.rows("SHOW work_mem")
    words = ("try", "--dsn", shop.uri, "--script", "q.sql", "--clients", "1")
    done = steelyard.run(*words, "--set", f"work_mem={own},64kB,64MB", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "64kB (work_mem = 64kB), 64MB (work_mem = 64MB) vs now (baseline)" in done.stdout
    assert f"work_mem = {own} is the value of the server: it is the baseline, now" in done.stderr
    assert f"work_mem = 64kB or 64MB (now {own}), in sessions" in done.stderr
    text = ("--set", "search_path=public, pg_catalog", "--set", "search_path=public")
    done = steelyard.run(*words, *text, "--save", "s.yaml", "--run-time", "2s")
    assert done.returncode == 0, done.stderr
    saved = (steelyard.directory / "s.yaml").read_text()
    assert 'postgres: {"search_path": "public, pg_catalog"}' in saved
    assert 'postgres: {"search_path": "public"}' in saved
    assert 'measure: {"run_time": "2s"}' in saved
    done = steelyard.run(*words, "--set", "random_page_cost=1,2,x", "--dry-run")
    assert 'invalid value for parameter "random_page_cost": "x"' in done.stderr
    done = steelyard.run(*words, "--set", "random_page_cost=3.9,4.1", "--plans", "--json")
    assert done.returncode == 0, done.stderr
    series = json.loads(done.stdout)["series"]
    assert [each["settings"]["random_page_cost"] for each in series] == ["3.9", "4.1"]
    assert [len(each["statements"]) for each in series] == [1, 1]


@pytest.mark.slow
def test_the_smallest_value_that_is_about_as_good_as_the_best_is_named(
    steelyard: Steelyard, shop: Server
) -> None:
    """A sort that spills is slower, or not clearly; the server's own value does not spill."""
    (steelyard.directory / "q.sql").write_text(_SORTED.replace("2000", "15000"))
    words = ("try", "--dsn", shop.uri, "--script", "q.sql", "--clients", "1", "--dir", "c")
    words += ("--set", "work_mem=64kB,32MB,64MB", "--run-time", "1s", "--budget", "75s")
    done = steelyard.run(*words, "--yes", "--no-verdict")
    assert done.returncode == 0, done.stderr
    summary = json.loads((steelyard.directory / "c" / "summary.json").read_text())
    assert summary["configurations"] == ["now", "64kB", "32MB", "64MB"]
    (value,) = summary["smallest_values"]
    assert value["setting"] == "work_mem"
    assert value["value"] in (value["own"], "32MB", "64MB")
    assert value["low_percent"] is None or value["low_percent"] < value["high_percent"]
    assert "work_mem, under q: " in done.stdout
    # Each configuration was executed on the warm server, where 64 kB spill.
    executed = summary["plans"][0]["plans"]
    spilled = {name: "temp" in "".join(plan["runs"][-1]) for name, plan in executed.items()}
    assert spilled == {"now": False, "64kB": True, "32MB": False, "64MB": False}
    assert all("rows=" in run[0] for plan in executed.values() for run in plan["runs"])
    report = whole_report(steelyard.directory / "c")
    assert "temporary (pages)" in report
    assert "again (ms)" not in report


@pytest.fixture
def counting(programs: Path) -> Iterator[Server]:
    """A server that has loaded pg_stat_statements, with a table and another database."""
    with started(programs) as made:
        made.do("ALTER SYSTEM SET shared_preload_libraries = pg_stat_statements")
        run(made.restart_command)
        made.do(*_TABLES, "CREATE EXTENSION pg_stat_statements", "CREATE DATABASE other")
        yield made


def require_nothing_after_kill_9(steelyard: Steelyard, server: Server, *words: str) -> None:
    """Kill a trial in its first block, and require that the server is as it was."""
    before = server.configuration, server.databases
    done = ("--run-time", "1s", "--budget", "10m", "--yes", "--no-verdict", "--quiet")
    process = steelyard.start("try", "--dsn", server.uri, *words, *done, "--dir", "c")
    wait_for(lambda: len(steelyard.runs) >= 1, process)
    process.kill()
    process.communicate()
    wait_for(lambda: server.rows(_SESSIONS) == [(0,)])
    assert steelyard.run("clean", "--yes").returncode == 0
    assert (server.configuration, server.databases) == before
    assert "No campaign has left anything" in steelyard.run("clean", "--dry-run").stdout


_SESSIONS = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
)


@pytest.mark.slow
@pytest.mark.parametrize("load", [("--script", "q.sql"), ("--scale", "1", "-c", "2")])
def test_kill_9_while_values_are_compared_leaves_nothing(
    steelyard: Steelyard, shop: Server, load: tuple[str, ...]
) -> None:
    """Neither of sessions on tables that are there, nor of databases that Steelyard makes."""
    (steelyard.directory / "q.sql").write_text(_SORTED)
    words = ("--set", "work_mem=64kB,32MB,64MB", *load)
    require_nothing_after_kill_9(steelyard, shop, *words)


@pytest.mark.slow
def test_kill_9_while_the_dearest_statements_are_compared_leaves_nothing(
    steelyard: Steelyard, counting: Server
) -> None:
    """But the scripts, which are the user's."""
    counting.do(_BOTH, _SECRET)
    words = ("--set", "work_mem=64kB,64MB", "--top", "2")
    require_nothing_after_kill_9(steelyard, counting, *words)
    assert len([*steelyard.directory.glob("top-statements/*.sql")]) == 2


_BOTH = "SELECT count(*) FROM sold a JOIN sold b USING (shop) WHERE a.amount > 5 AND b.id IN (1, 2)"
_UPPER = "SELECT count(*) FROM sold, (SELECT 1 FROM sold LIMIT 20) b WHERE upper(note) = 'A'"
_SECRET = "SELECT count(*) FROM sold a WHERE note LIKE '%$1;%' AND a.shop = 3"


def test_the_dearest_statements_run_with_common_values(
    steelyard: Steelyard, counting: Server
) -> None:
    """What writes, is of another database, or has a parameter of no column is left out by name."""
    counting.do("SELECT pg_stat_statements_reset()")
    counting.do(_BOTH, _UPPER, _SECRET, "UPDATE sold SET amount = amount + 1")
    counting.do("SELECT count(*) FROM generate_series(1, 3000000)", database="other")
    words = ("try", "--dsn", counting.uri, "--set", "random_page_cost=1.1", "--plans", "--top")
    done = steelyard.run(*words, "2")
    assert done.returncode == 0, done.stderr
    assert "left out: it is of the database other" in done.stderr
    assert "left out: it may write" in done.stderr
    assert "of sold.amount)" in done.stderr
    scripts = sorted(steelyard.directory.glob("top-statements/*.sql"))
    texts = " ".join(path.read_text() for path in scripts)
    assert len(scripts) == 2
    assert "IN ('" in texts
    assert "a.shop = '" in texts
    assert "$" not in texts
    names = [line.split()[0] for line in done.stderr.splitlines() if "upper(note)" in line]
    if names:  # it took longer than the two that run
        assert "is compared with no column" in done.stderr
    ((name,),) = counting.rows(
        "SELECT queryid::text FROM pg_stat_statements WHERE query LIKE '%upper(note)%'"
        " AND query NOT LIKE '%queryid%'"
    )
    (steelyard.directory / "values.yaml").write_text(f"{name}: [1, 20, X]\n")
    done = steelyard.run(*words, "3", "--parameters", "values.yaml", "--json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["statements"]) == 3
    assert "$3 = X (given)" in done.stderr
    (steelyard.directory / "values.yaml").write_text("- 1\n")
    done = steelyard.run(*words, "3", "--parameters", "values.yaml")
    assert done.returncode == 2, done.stderr
    assert "QUERYID: [value of $1" in done.stderr
