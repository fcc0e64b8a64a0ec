"""Trials through a real PgBouncer: what the plan promises runs, and what cannot run is refused."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from steelyard.core.wording import TargetError
from steelyard.gateways.sql import Sql
from steelyard.systems.postgres.existing.platform import mixed_sessions
from steelyard.targets.endpoint import passes_options
from support.endpoint import Server, pooled, run, started
from support.live import Steelyard

pytestmark = [pytest.mark.live, pytest.mark.slow]

_DROPS = "ignore_startup_parameters = options"
_SMALL = "default_pool_size = 4"
_POOLERS = {
    "session": ("session",),
    "session, drops": ("session", _DROPS),
    "transaction": ("transaction",),
    "transaction, drops": ("transaction", _DROPS),
    "statement": ("statement",),
    "statement, drops": ("statement", _DROPS),
    "small": ("session", _SMALL),
    "small, drops": ("session", _SMALL, _DROPS),
    "tiny": ("transaction", "default_pool_size = 1"),
    "few": ("session", "max_client_conn = 4"),
}


@pytest.fixture(scope="module")
def shop(programs: Path) -> Iterator[Server]:
    """A server with a database of the user's own, and an ordinary user who may read it."""
    with started(programs) as server:
        server.do(
            "CREATE DATABASE shop",
            "CREATE ROLE reader LOGIN",
            "ALTER SYSTEM SET max_connections = 300",
        )
        run(server.restart_command)
        server.do(
            "CREATE TABLE orders AS SELECT g AS id FROM generate_series(1, 1000) g",
            "GRANT SELECT ON orders TO reader",
            database="shop",
        )
        yield server


@pytest.fixture(scope="module")
def poolers(shop: Server) -> Iterator[dict[str, int]]:
    """Return the ports of poolers with databases of any name, and of one that has `shop` alone."""
    with ExitStack() as stack:
        ports = {
            name: stack.enter_context(pooled(shop, *lines)) for name, lines in _POOLERS.items()
        }
        yield {**ports, "shop": stack.enter_context(pooled(shop, "session", databases="shop"))}


@pytest.fixture
def words(steelyard: Steelyard) -> list[str]:
    """Return a trial of a script that only reads."""
    (steelyard.directory / "q.sql").write_text("SELECT count(*) FROM orders;\n")
    return ["--script", "q.sql", "--dir", "c"]


def dsn(port: int, user: str = "postgres", database: str = "shop") -> list[str]:
    """Return the words that name a database behind a pooler."""
    return ["try", "--dsn", f"postgresql://{user}@127.0.0.1:{port}/{database}"]


_PROMISED = [
    ("session", ()),
    ("session, drops", ()),
    ("transaction", ("--protocol", "extended")),
    ("transaction, drops", ("--protocol", "simple")),
    ("small, drops", ("--clients", "2")),
    ("tiny", ("--protocol", "simple")),
    ("shop", ()),
]


@pytest.mark.parametrize("setting", ["random_page_cost=1.1", "wal_compression=on"])
@pytest.mark.parametrize(("name", "more"), _PROMISED)
def test_a_superusers_settings_go_by_alter_system(
    steelyard: Steelyard,
    poolers: dict[str, int],
    words: list[str],
    setting: str,
    name: str,
    more: tuple[str, ...],
) -> None:
    """Each mode, with and without libpq's `options`; sessions are not promised to be read-only."""
    done = steelyard.run(*dsn(poolers[name]), "--set", setting, *words, *more, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "by ALTER SYSTEM, for everyone on the server" in done.stderr
    assert "read-only sessions: no: a pooler in between does not pass them on" in done.stderr


_STATEMENT = "takes no transactions (statement mode)"
_PREPARED = "prepared statements (transaction mode)"
_NOT_PASSED = "does not pass them on (libpq's `options`)"
_REFUSED = [
    ("transaction", "postgres", (), _PREPARED),
    ("transaction, drops", "postgres", (), _PREPARED),
    ("statement", "postgres", (), _STATEMENT),
    ("statement, drops", "postgres", ("--protocol", "simple"), _STATEMENT),
    ("session", "reader", (), _NOT_PASSED),
    ("session, drops", "reader", (), _NOT_PASSED),
    ("transaction, drops", "reader", ("--protocol", "simple"), _NOT_PASSED),
    ("small", "postgres", (), "serves 4 sessions at the same time; 8 clients need 10"),
    ("small, drops", "postgres", ("--clients", "3"), "serves 4 sessions"),
    ("few", "postgres", (), "serves 4 sessions"),
]


@pytest.mark.parametrize(("name", "user", "more", "told"), _REFUSED)
def test_what_a_pooler_keeps_from_running_is_refused(
    steelyard: Steelyard,
    poolers: dict[str, int],
    words: list[str],
    name: str,
    user: str,
    more: tuple[str, ...],
    told: str,
) -> None:
    """Before anything starts, with the reason and a way out."""
    asked = [*dsn(poolers[name], user), "--set", "random_page_cost=1.1", "--clients", "8"]
    done = steelyard.run(*asked, *words, *more, "--yes", "--no-verdict")
    assert done.returncode == 3, done.stderr
    assert told in done.stderr
    assert "Is it running" not in done.stderr
    assert "pool" in done.stderr.partition("hint: ")[2] or "--protocol" in done.stderr


@pytest.mark.parametrize(
    ("name", "setting", "more"),
    [
        ("session", "wal_compression=on", ()),
        ("transaction", "random_page_cost=1.1", ("--protocol", "extended")),
        ("session", "wal_compression=on", None),
    ],
)
def test_what_the_plan_promises_runs(
    steelyard: Steelyard,
    shop: Server,
    poolers: dict[str, int],
    words: list[str],
    name: str,
    setting: str,
    more: tuple[str, ...] | None,
) -> None:
    """By ALTER SYSTEM, in the user's database or, None, in one that is copied; all is put back."""
    before = (shop.configuration, shop.databases)
    source = ["--scale", "1", "--dir", "c"] if more is None else [*words, *more]
    trial = [*dsn(poolers[name]), "--set", setting, "--clients", "2", *source]
    saved = steelyard.run(*trial, "--save", "trial.yaml")
    assert saved.returncode == 0, saved.stderr
    text = (steelyard.directory / "trial.yaml").read_text()
    (steelyard.directory / "trial.yaml").write_text(
        text + "measure: {run_time: 1s, discard_start: 0s, warm_up: 0s, runs_per_start: 1,"
        " max_other_load: ignore}\n"
    )
    done = steelyard.until_blocks(1, "run", "trial.yaml", "--dir", "c", "--no-verdict")
    assert done.returncode == 130, done.stderr
    assert steelyard.complete_blocks >= 1
    assert not [each for each in steelyard.blocks if not each["complete"]]
    assert (shop.configuration, shop.databases) == before


def test_what_sessions_of_a_pooler_do_not_read_again_is_refused(
    steelyard: Steelyard, poolers: dict[str, int], words: list[str]
) -> None:
    """A new session would show it, and those that the pooler has would be measured without it."""
    trial = [*dsn(poolers["session"]), "--set", "log_disconnections=on", *words, "--dry-run"]
    done = steelyard.run(*trial)
    assert done.returncode == 3, done.stderr
    assert "`log_disconnections` is read when a session begins" in done.stderr


def test_databases_of_our_own_need_an_entry(steelyard: Steelyard, poolers: dict[str, int]) -> None:
    """A pooler that lists its databases is seen before one is made."""
    words = [*dsn(poolers["shop"]), "--set", "wal_compression=on", "--dry-run"]
    done = steelyard.run(*words)
    assert done.returncode == 3, done.stderr
    assert "does not lead to databases that Steelyard makes" in done.stderr
    assert "Add an entry `*`" in done.stderr


@pytest.mark.parametrize(
    ("name", "database", "options", "told"),
    [
        ("shop", "attic", "", "has no entry for the database"),
        ("session", "shop", "?options=-c%20work_mem%3D9MB", "refuses what postgres asks for"),
        ("session", "attic", "", "Name a database that exists"),
    ],
)
def test_what_a_pooler_says_itself_has_a_way_out(
    steelyard: Steelyard,
    poolers: dict[str, int],
    words: list[str],
    name: str,
    database: str,
    options: str,
    told: str,
) -> None:
    """Nobody is asked whether the server runs."""
    at = dsn(poolers[name], database=f"{database}{options}")
    done = steelyard.run(*at, "--set", "jit=off", *words, "--dry-run")
    assert done.returncode == 4, done.stderr
    assert told in done.stderr
    assert "Is it running" not in done.stderr


@pytest.mark.parametrize("name", ["session", "shop"])
def test_a_database_of_the_users_name_is_not_needed(poolers: dict[str, int], name: str) -> None:
    """Where it does not exist `postgres` is tried, and it is that one which an entry lacks."""
    words = {"host": "127.0.0.1", "port": str(poolers[name]), "user": "reader"}
    if name == "session":
        assert Sql().reach(words).database == "postgres"
        return
    with pytest.raises(TargetError, match="no entry for the database"):
        Sql().reach(words)


@pytest.mark.parametrize("name", ["session", "session, drops", "transaction, drops"])
def test_a_pooler_is_recognised_by_the_number_of_the_backend(
    shop: Server, poolers: dict[str, int], name: str
) -> None:
    """It invents one; transactions that change backends and settings that are lost are seen."""
    sql = Sql()
    keywords = {"host": "127.0.0.1", "user": "postgres", "dbname": "shop"}
    entrance = sql.reach({**keywords, "port": str(poolers[name])})
    assert sql.is_pooled(entrance)
    assert ("transaction mode" in mixed_sessions(entrance, sql)) is ("transaction" in name)
    assert not passes_options(entrance, sql)
    direct = sql.reach({**keywords, "host": str(shop.home), "port": str(shop.port)})
    assert not sql.is_pooled(direct)
    assert passes_options(direct, sql)
