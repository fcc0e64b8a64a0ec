"""SQL: what the real gateway and the fake promise without a server."""

import os
from pathlib import Path

import pytest

from fakes.sql import FakeSql
from steelyard.core.errors import ExitCode, TargetError
from steelyard.core.outside import ServerAddress
from steelyard.gateways.sql import PsycopgSql, Sql, _without_libpq_environment


@pytest.fixture(params=["real", "fake"])
def unreachable(request: pytest.FixtureRequest) -> Sql:
    """Return each implementation without a server behind it."""
    if request.param == "real":
        return PsycopgSql()
    fake = FakeSql({"SELECT 1": [(1,)]})
    fake.reachable = False
    return fake


@pytest.fixture
def nowhere(tmp_path: Path) -> ServerAddress:
    """Return an address where nobody listens."""
    return ServerAddress(
        host=str(tmp_path), port=54321, user="steelyard", database="postgres", password="hush-hush"
    )


@pytest.mark.parametrize("call", ["rows", "execute", "set_password", "round_trips", "session"])
def test_an_unreachable_server_is_a_target_error(
    unreachable: Sql, nowhere: ServerAddress, call: str
) -> None:
    """The sentence names the place and the way out, and holds no password."""
    calls = {
        "rows": lambda: unreachable.rows(nowhere, "SELECT 1"),
        "execute": lambda: unreachable.execute(nowhere, ["SELECT 1"]),
        "session": lambda: unreachable.session(nowhere, "watcher", patience_s=1),
        "set_password": lambda: unreachable.set_password(nowhere, "other-secret"),
        "round_trips": lambda: unreachable.round_trips(nowhere, "SELECT 1", most=5, most_s=0.1),
    }
    with pytest.raises(TargetError, match="cannot be reached") as caught:
        calls[call]()
    assert f"{nowhere.host}:{nowhere.port}" in caught.value.message
    assert caught.value.hint
    assert caught.value.exit_code is ExitCode.TARGET
    assert "hush-hush" not in caught.value.message
    assert "other-secret" not in caught.value.message


def test_the_fake_answers_from_its_table(nowhere: ServerAddress) -> None:
    """Known statements give their rows, each time anew; unknown ones are refused."""
    sql = FakeSql({"SELECT 1": [(1,)]})
    sql.rows(nowhere, "SELECT 1").clear()
    assert sql.rows(nowhere, "SELECT 1") == [(1,)]
    with pytest.raises(TargetError, match="refused"):
        sql.rows(nowhere, "SELECT 2")


def test_a_session_of_the_fake_ends(nowhere: ServerAddress) -> None:
    """It answers like the fake until it is closed; closing twice is closing once."""
    sql = FakeSql({"SELECT 1": [(1,)]})
    session = sql.session(nowhere, "watcher", patience_s=1)
    assert session.rows("SELECT 1") == [(1,)]
    assert sql.open_sessions == 1
    session.close()
    session.close()
    assert sql.open_sessions == 0
    with pytest.raises(TargetError, match="closed"):
        session.rows("SELECT 1")


def test_an_address_does_not_show_its_password(nowhere: ServerAddress) -> None:
    """The representation that ends up in logs and tracebacks is without the secret."""
    assert "hush-hush" not in repr(nowhere)


def test_a_password_is_found_where_the_address_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """`clean` and `--resume` get addresses from records, which hold no password."""
    for name in ("PGPASSWORD", "PGPASSFILE", "PGOPTIONS", "PGHOSTADDR"):
        monkeypatch.setenv(name, "planted")
    with _without_libpq_environment():
        assert {n for n in os.environ if n.startswith("PG")} == {"PGPASSWORD", "PGPASSFILE"}
    assert os.environ["PGOPTIONS"] == "planted"
