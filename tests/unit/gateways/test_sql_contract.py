"""SQL: what the real gateway and the fake promise without a server."""

import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fakes.sql import FakeSql
from steelyard.core.outside import ServerAddress
from steelyard.core.wording import ExitCode, TargetError
from steelyard.gateways.sql import (
    PatientConnection,
    PsycopgSql,
    Sql,
    _open,
    _without_libpq_environment,
)


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
        "round_trips": lambda: unreachable.round_trips(
            nowhere, "SELECT 1", connections=1, most=5, most_s=0.1
        ),
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


@dataclass
class _Connection:
    """A connection that notes what becomes of text."""

    encoding: str
    statements: list[bytes] = field(default_factory=list)
    loaders: dict[str, type] = field(default_factory=dict)

    @property
    def info(self) -> "_Connection":
        return self

    @property
    def adapters(self) -> "_Connection":
        return self

    def parameter_status(self, name: str) -> str:
        return {"server_encoding": self.encoding}[name]

    def execute(self, statement: bytes) -> None:
        self.statements.append(statement)

    def register_loader(self, name: str, loader: type) -> None:
        self.loaders[name] = loader


@pytest.mark.parametrize("encoding", ["UTF8", "LATIN1", "SQL_ASCII"])
def test_text_is_text_whatever_the_encoding_of_the_database(
    encoding: str, nowhere: ServerAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UTF-8 is asked for; where the server converts nothing, bytes of any encoding are read."""
    asked: dict[str, object] = {}
    made = _Connection(encoding)
    monkeypatch.setattr(PatientConnection, "connect", lambda **words: asked.update(words) or made)
    _open(nowhere)
    assert asked["client_encoding"] == "UTF8"
    if encoding != "SQL_ASCII":
        assert not made.loaders
        assert not made.statements
        return
    assert made.statements == [b"SET client_encoding TO SQL_ASCII"]
    assert {"text", "name"} <= set(made.loaders)
    load = made.loaders["text"](25).load
    assert [load(b"16MB"), load("grün".encode()), load(b"gr\xfcn")] == ["16MB", "grün", "gr�n"]


def test_variables_stay_hidden_until_the_last_has_reached_its_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Servers are reached side by side, by threads of one process with one environment."""
    monkeypatch.setenv("PGOPTIONS", "planted")
    first, second = _without_libpq_environment(), _without_libpq_environment()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert "PGOPTIONS" not in os.environ
    second.__exit__(None, None, None)
    assert os.environ["PGOPTIONS"] == "planted"
