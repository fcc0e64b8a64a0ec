"""``steelyard try`` on a server that runs: several values, statements from elsewhere."""

import json
from collections.abc import Iterator

import pytest

from support.endpoint import Server
from support.live import Steelyard

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
    assert "now against 64kB against 64MB" in done.stdout
    assert f"work_mem = {own} is the value of the server: it is the baseline, now" in done.stderr
    assert f"work_mem = 64kB or 64MB (now {own}), in sessions" in done.stderr
    text = ("--set", "search_path=public, pg_catalog", "--set", "search_path=public")
    done = steelyard.run(*words, *text, "--save", "s.yaml", "--run-time", "2s")
    assert done.returncode == 0, done.stderr
    saved = (steelyard.directory / "s.yaml").read_text()
    assert 'postgres: {"search_path": "public, pg_catalog"}' in saved
    assert 'postgres: {"search_path": "public"}' in saved
    assert 'measure: {run_time: "2s"}' in saved
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
    """A sort that spills is slower; the server's own value does not spill."""
    (steelyard.directory / "q.sql").write_text(_SORTED)
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
    report = (steelyard.directory / "c" / "report.md").read_text()
    assert "temporary (pages)" in report
    assert "again (ms)" not in report
