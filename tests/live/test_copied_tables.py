"""An index is tried on copies: of what statements name, beside sessions, and nothing is left."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from support.endpoint import Server, run, started
from support.lacking import lacking
from support.live import Steelyard, interrupted, small_file_system, wait_for, whole_report

pytestmark = [pytest.mark.live, pytest.mark.slow]

# Tables of several schemas, an enumeration, a function in a generated column's place, an identity,
# partitions, a view, extended statistics, a sequence that no table owns, and a foreign key from a
# table that is not copied.
SHOP = (
    "CREATE SCHEMA sales",
    "CREATE TYPE state AS ENUM ('new', 'paid', 'sent')",
    "CREATE FUNCTION taxed(n numeric) RETURNS numeric LANGUAGE sql IMMUTABLE AS 'SELECT n * 1.19'",
    "CREATE SEQUENCE sales.numbers",
    """CREATE TABLE sales.customers (id int PRIMARY KEY DEFAULT nextval('sales.numbers'),
       name text NOT NULL)""",
    """CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
       customer int NOT NULL REFERENCES sales.customers, state state NOT NULL, total numeric,
       gross numeric GENERATED ALWAYS AS (total * 1.19) STORED, note text)""",
    "CREATE TABLE unrelated (id int PRIMARY KEY, orders bigint REFERENCES orders)",
    "CREATE TABLE days (day date, v int) PARTITION BY RANGE (day)",
    "CREATE TABLE days_1 PARTITION OF days FOR VALUES FROM ('2026-01-01') TO ('2026-07-01')",
    "CREATE TABLE days_2 PARTITION OF days FOR VALUES FROM ('2026-07-01') TO ('2027-01-01')",
    "CREATE INDEX ON days (day)",
    "INSERT INTO sales.customers SELECT g, 'c' || g FROM generate_series(1, 1000) g",
    """INSERT INTO orders (customer, state, total, note) SELECT 1 + g % 1000,
       (ARRAY['new', 'paid', 'sent'])[1 + g % 3]::state, g, repeat('x', 60)
       FROM generate_series(1, 50000) g""",
    "INSERT INTO days SELECT date '2026-01-01' + g % 360, g FROM generate_series(1, 5000) g",
    "CREATE INDEX taxes ON orders (taxed(total))",
    "CREATE STATISTICS both_of ON customer, state FROM orders",
    "CREATE VIEW paid AS SELECT * FROM orders WHERE state = 'paid'",
    "ALTER DATABASE shop SET search_path = sales, public",
    "ALTER DATABASE shop SET log_statement = 'ddl'",
    "ANALYZE",
    "CREATE ROLE maker LOGIN CREATEDB",
    "GRANT USAGE ON SCHEMA sales TO PUBLIC",
    "GRANT SELECT ON orders TO maker",
    "CREATE ROLE reader LOGIN CREATEDB",
    "GRANT pg_read_all_data TO reader",
)
READS = """\
\\set c random(1, 1000)
SELECT count(*), sum(gross) FROM paid JOIN customers k ON k.id = customer WHERE customer = :c;
SELECT count(*) FROM days WHERE day = '2026-03-01';
"""
WRITES = (
    "\\set c random(1, 1000)\nUPDATE orders SET note = note WHERE customer = :c AND id < 900;\n"
)
INDEX = "CREATE INDEX ON orders (customer)"
_OLD = Path("/usr/lib/postgresql/15/bin")
_EXTENSIONS = Path("/usr/share/postgresql/15/extension")


@contextmanager
def shop_of(programs: Path) -> Iterator[Server]:
    """Give a server with the shop."""
    with started(programs) as server:
        server.do("CREATE DATABASE shop")
        server.do(*SHOP, database="shop")
        yield server


@pytest.fixture(scope="module")
def shop(programs: Path) -> Iterator[Server]:
    """A server of the newest version."""
    with shop_of(programs) as server:
        yield server


@pytest.fixture(scope="module")
def old_shop() -> Iterator[Server]:
    """A server of version 15, as packages have it."""
    if not (_OLD / "postgres").exists():
        lacking("there is no PostgreSQL 15 here")
    with shop_of(_OLD) as server:
        yield server


def words(
    server: Server, script: str = "reads.sql", user: str = "postgres", ddl: str = INDEX
) -> list[str]:
    """Return the command that tries an index on the shop."""
    place = f"host={server.home} port={server.port} dbname=shop user={user}"
    return ["try", "--dsn", place, "--ddl", ddl, "--script", script, "--clients", "2"]


def write_scripts(steelyard: Steelyard) -> None:
    """Write the scripts."""
    (steelyard.directory / "reads.sql").write_text(READS)
    (steelyard.directory / "writes.sql").write_text(WRITES)


def in_shop(server: Server) -> "psycopg.Connection[tuple[object, ...]]":
    """Return a session in the shop's own database."""
    return psycopg.connect(
        host=str(server.home), port=server.port, user="postgres", dbname="shop", autocommit=True
    )


@pytest.mark.parametrize("version", ["shop", "old_shop"])
def test_an_index_is_measured_beside_sessions_of_others(
    steelyard: Steelyard, version: str, request: pytest.FixtureRequest
) -> None:
    """What it costs is told before; the originals are left alone, and the copies are dropped."""
    shop: Server = request.getfixturevalue(version)
    write_scripts(steelyard)
    with closing(in_shop(shop)) as session:
        session.execute("BEGIN")
        session.execute("INSERT INTO orders (customer, state) VALUES (1, 'new')")
        told = steelyard.run(*words(shop), "--dry-run")
        assert told.returncode == 0, told.stderr
        said = " ".join(told.stderr.split())
        assert f"change {INDEX}, in copies" in said
        assert "of days_1, days_2, orders, sales.customers of database shop" in said
        assert "of the server's disk" in said
        assert "are free" in said
        done = steelyard.run(*words(shop), "--yes", "--dir", "c")
        session.execute("ROLLBACK")
    assert done.returncode == 0, done.stderr
    assert "faster" in done.stdout
    assert {run["turns"] is not None for run in steelyard.counted_runs} == {True}
    report = whole_report(steelyard.directory / "c")
    assert "no bloat" in report
    assert INDEX in report
    assert shop.databases == {"shop"}
    assert indexes_of(shop) == 2


def test_a_user_who_may_read_and_create_databases_has_copies(
    steelyard: Steelyard, shop: Server
) -> None:
    """What a superuser alone may set on the original (logging) is left out."""
    write_scripts(steelyard)
    words_of_it = words(shop, user="reader")
    done = steelyard.until_blocks(1, *words_of_it, "--yes", "--no-verdict", "--dir", "c")
    assert done.returncode == 130, done.stderr
    assert shop.databases == {"shop"}


def indexes_of(shop: Server) -> object:
    """Return how many indexes the original has."""
    return shop.rows("SELECT count(*) FROM pg_indexes WHERE tablename = 'orders'", "shop")[0][0]


def test_who_writes_has_fresh_copies_in_every_block(steelyard: Steelyard, shop: Server) -> None:
    """Extended statistics and an index cost time there; the originals are as they were."""
    write_scripts(steelyard)
    before = shop.rows("SELECT count(*), max(xmin::text::int) FROM orders", "shop")
    statistics = "CREATE STATISTICS more ON customer, total FROM orders"
    command = [*words(shop, "writes.sql"), "--ddl", statistics, "--yes", "--dir", "c"]
    done = steelyard.until_blocks(1, *command)
    assert done.returncode == 130, done.stderr
    assert steelyard.complete_blocks
    assert shop.databases == {"shop"}
    assert shop.rows("SELECT count(*), max(xmin::text::int) FROM orders", "shop") == before


@pytest.mark.parametrize(
    ("ddl", "user", "code", "said"),
    [
        ("CREATE INDEX ON orders (nothing)", "postgres", 4, 'column "nothing" does not exist'),
        (INDEX, "maker", 3, "maker may not read sales.customers"),
        (INDEX, "poor", 3, "poor may not create a database"),
        ("DROP TABLE orders", "postgres", 2, "--ddl: `DROP TABLE orders` does not change a table"),
    ],
)
def test_what_cannot_be_tried_leaves_nothing(
    steelyard: Steelyard, shop: Server, *, ddl: str, user: str, code: int, said: str
) -> None:
    """A wrong statement fails on empty tables; rights are asked for before anything is made."""
    write_scripts(steelyard)
    done = steelyard.run(*words(shop, user=user, ddl=ddl), "--yes", "--dir", "c")
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert shop.databases == {"shop"}


def copying(server: Server) -> bool:
    """Return whether rows are on their way into a copy."""
    statement = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'COPY %%FROM STDIN%%'"
    return bool(server.rows(f"{statement} AND state = 'active'"))


def test_copies_go_after_ctrl_c_and_by_clean_after_kill_9(
    steelyard: Steelyard, shop: Server
) -> None:
    """In the midst of copying, and in the comparison."""
    write_scripts(steelyard)
    with closing(in_shop(shop)) as session:
        session.execute("CREATE TABLE sales.large AS SELECT g FROM generate_series(1, 2000000) g")
        (steelyard.directory / "large.sql").write_text("SELECT count(*) FROM large;\n")
        command = [*words(shop, "large.sql", ddl="CREATE INDEX ON sales.large (g)"), "--yes"]
        process = steelyard.start(*command, "--dir", "a")
        wait_for(lambda: copying(shop), process)
        interrupted(process)
        assert shop.databases == {"shop"}
        process = steelyard.start(*command, "--dir", "b")
        wait_for(lambda: copying(shop), process)
        process.kill()
        process.communicate()
        left = shop.databases - {"shop"}
        assert len(left) == 1
        listed = steelyard.run("clean", "--dry-run")
        assert f"database {next(iter(left))}" in listed.stdout
        assert steelyard.run("clean", "--yes").returncode == 0
        assert shop.databases == {"shop"}
        session.execute("DROP TABLE sales.large")
    process = steelyard.start(*words(shop), "--yes", "--dir", "c")
    wait_for(lambda: len(steelyard.runs) >= 1, process)
    process.kill()
    process.communicate()
    assert len(shop.databases) == 3
    assert steelyard.run("clean", "--yes").returncode == 0
    assert shop.databases == {"shop"}


@pytest.fixture
def small_shop(steelyard: Steelyard, programs: Path) -> Iterator[Server]:
    """A server whose databases, but not its WAL, are in a file system with room for no copy."""
    with ExitStack() as stack:
        server = stack.enter_context(shop_of(programs))
        place = stack.enter_context(
            contextmanager(small_file_system)(steelyard.cache / "small", "58m")
        )
        run(server.control("stop", "-m", "fast"))
        base = server.data / "base"
        run(["cp", "-a", str(base), str(place / "base")])
        shutil.rmtree(base)
        base.symlink_to(place / "base")
        run(["chmod", "-R", "a+rX", str(place)])
        run(server.control("start", "-l", str(server.home / "log")))
        yield server
        run(server.control("stop", "-m", "fast"))
        base.unlink()
        run(["cp", "-a", str(place / "base"), str(base)])
        run(server.control("start", "-l", str(server.home / "log")))


def test_a_disk_that_fills_up_ends_it_and_nothing_is_left(
    steelyard: Steelyard, small_shop: Server
) -> None:
    """The server's reason is told, and the space is free again."""
    write_scripts(steelyard)
    done = steelyard.run(*words(small_shop), "--yes", "--dir", "c")
    assert done.returncode in (4, 5), done.stderr
    assert "No space left on device" in done.stderr
    assert small_shop.databases == {"shop"}


def test_hypopg_tells_the_plans_without_a_copy(steelyard: Steelyard, old_shop: Server) -> None:
    """Where the extension is; else the way out."""
    write_scripts(steelyard)
    absent = steelyard.run(*words(old_shop), "--plans")
    assert absent.returncode == 2, absent.stderr
    assert "the database shop lacks it" in absent.stderr
    if not (_EXTENSIONS / "hypopg.control").exists():
        lacking("there is no HypoPG for PostgreSQL 15 here")
    old_shop.do("CREATE SCHEMA hypo", "CREATE EXTENSION hypopg SCHEMA hypo", database="shop")
    told = steelyard.run(*words(old_shop), "--plans")
    old_shop.do("DROP EXTENSION hypopg", database="shop")
    assert told.returncode == 0, told.stderr
    assert f"1 of 2 statements with another plan under {INDEX}" in told.stdout
    assert "btree_orders_customer" in told.stdout
    assert old_shop.databases == {"shop"}


# An index beside a setting of sessions, on data that Steelyard makes, with a workload that writes.
MADE = """\
version: 1
name: what an index costs
baseline: plain
design: one-by-one
workloads:
  - {name: writes, builtin: simple-update, scale: 1}
  - {name: reads, builtin: select-only, scale: 1}
load: {clients: 2, threads: 1}
measure: {run_time: 1s, discard_start: 0s, warm_up: 1s}
stop: {budget: 20m, width: 0.1%}
seed: 7
configurations:
  plain:
    target: {kind: existing, host: HOME, port: PORT, user: postgres}
  indexed:
    extends: plain
    ddl: CREATE INDEX ON pgbench_accounts (abalance)
    postgres: {work_mem: 9MB}
"""


def test_ddl_of_a_configuration_works_on_data_that_steelyard_makes(
    steelyard: Steelyard, shop: Server
) -> None:
    """One after the other, each in databases of its own; a setting of the server is refused."""
    text = MADE.replace("HOME", str(shop.home)).replace("PORT", str(shop.port))
    source = steelyard.experiment(text)
    refused = steelyard.run("run", source, "--override", _OF_ALL, "--dry-run", "--no-verdict")
    assert refused.returncode == 3
    assert "all of it has `wal_compression` in common" in refused.stderr
    done = steelyard.until_blocks(1, "run", source, "--dir", "c", "--no-verdict")
    assert done.returncode == 130, done.stderr
    assert steelyard.complete_blocks
    assert shop.databases == {"shop"}


_OF_ALL = "configurations.indexed.postgres.wal_compression=on"
