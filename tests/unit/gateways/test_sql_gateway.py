"""SQL without a server: what both gateways promise, and what is made of libpq's words."""

import os
import select
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.sql import FakeSql
from steelyard.core.outside import ServerAddress
from steelyard.core.wording import ExitCode, InputError, LoginError, TargetError
from steelyard.gateways.sql import (
    PatientConnection,
    Sql,
    _open,
    _without_libpq_environment,
    asked_for,
    connection_failure,
    last_result,
    parsed_uri,
    prepared_name,
)

_NO_ROLE = 'FATAL: 28000: Rolle "b" fehlt LOCATION: InitializeSessionUserId, miscinit.c:7'


@pytest.fixture(params=["real", "fake"])
def unreachable(request: pytest.FixtureRequest) -> Sql:
    """Return each implementation without a server behind it."""
    if request.param == "real":
        return Sql()
    fake = FakeSql({"SELECT 1": [(1,)]})
    fake.reachable = False
    return fake


@pytest.fixture
def nowhere(tmp_path: Path) -> ServerAddress:
    """Return an address where nobody listens."""
    return ServerAddress(
        host=str(tmp_path), port=54321, user="steelyard", database="postgres", password="hush-hush"
    )


@pytest.mark.parametrize("missing", [OSError("no such library"), AttributeError("no symbol")])
def test_a_libpq_that_cannot_be_called_is_no_obstacle(
    nowhere: ServerAddress, monkeypatch: pytest.MonkeyPatch, missing: Exception
) -> None:
    """What it would say more of a refusal is absent; the sentence is there all the same."""

    def absent(_: object) -> object:
        raise missing

    monkeypatch.setattr("ctypes.CDLL", absent)
    with pytest.raises(TargetError, match="cannot be reached"):
        Sql().rows(nowhere, "SELECT 1")


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
        return {"server_encoding": self.encoding}.get(name, "")

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


def test_a_uri_gives_its_keywords() -> None:
    """Host, port, user, database and options."""
    found = parsed_uri("postgresql://bench@db:5433/shop?sslmode=require")
    expected = {"host": "db", "port": "5433", "user": "bench", "dbname": "shop"}
    assert found == {**expected, "sslmode": "require"}


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://u:hunter2@db/x",
        "postgresql://db/x?password=hunter2",
        "postgresql://db/x?p%61ssword=hunter2",
        "postgresql://db/x?sslpassword=hunter2",
        "postgresql://u:hunter2/y@db/x",
        "host=db password=hunter2",
        "postgresql://u@db:hunter2/x?bogus=1",
        "postgresql://u:hunter2?x=1@db/x",
        "postgresql://u:hunter2%zz@db/x",
        "u:hunter2://db/x",
        "u:hunter2@db",
    ],
)
def test_a_secret_is_refused_and_not_repeated(uri: str) -> None:
    """However it is written, and also where libpq would quote it."""
    with pytest.raises(InputError) as caught:
        parsed_uri(uri)
    assert "hunter2" not in f"{caught.value} {caught.value.hint} {caught.value.__cause__}"
    assert caught.value.hint


@given(st.text())
def test_any_text_is_a_uri_or_refused(text: str) -> None:
    """No foreign error comes through."""
    with suppress(InputError):
        assert isinstance(parsed_uri(text), dict)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("PgBouncer failed: FATAL: 08P01: SSL required", "without TLS"),
        ("FATAL: 28000: a FATAL: 28000: b", "with TLS or without"),
        ("server does not support SSL, but SSL was required", "no TLS connection"),
        ('certificate for "a" does not match host name "h"', "no TLS connection"),
        ("FATAL: 53300: trop de clients", "no connection left"),
        ("could not translate host name", "cannot be reached"),
        # Of PgBouncer 1.18, with one sentence of later versions.
        ("FATAL: unsupported startup parameter: options", "the pooler at db:5432 refuses what b"),
        ("FATAL: unsupported startup parameter in options: x", "refuses what b asks for"),
        ("FATAL: bouncer config error", "no entry for the database"),
        ('FATAL: 08P01: database "x" does not exist', 'refused: FATAL: database "x"'),
        ("FATAL: 08P01: password authentication failed", "refused the password of b"),
        ("FATAL: 08P01: SASL authentication failed", "refused the password of b"),
        ("FATAL: no such database: shop", "no entry for the database: FATAL: no such database"),
        ("FATAL: no such user: b", "does not know b"),
        ("FATAL: no more connections allowed (max_client_conn)", "no connection left"),
        ("FATAL: server login failed: x, retry (server_login_retry)", "does not reach its server"),
        ("FATAL: pgbouncer cannot connect to server", "does not reach its server"),
    ],
)
def test_failures_have_a_way_out(text: str, words: str) -> None:
    """Each is a sentence with the place, and a hint."""
    error = connection_failure(text, where="db:5432", user="b")
    assert words in error.message
    assert "db:5432" in error.message
    assert error.hint
    assert "Is it running" not in error.hint


def test_a_name_of_a_prepared_statement_means_one_statement() -> None:
    """Sessions behind a pooler find what others have prepared: it is the same text."""
    texts = ["SELECT 1", "SELECT 2", "SELECT 1 "]
    names = {prepared_name(text) for text in texts}
    assert len(names) == len(texts)
    assert prepared_name(texts[0]) == prepared_name("SELECT 1")


def test_a_password_of_a_server_in_a_cluster_is_in_a_secret() -> None:
    """There the way out is the Secret; for all else it is as anywhere."""
    wrong, closed = "FATAL: 28P01: refused", "Connection refused"
    hints = [
        connection_failure(text, where="db.ns.svc:5432", user="b", in_cluster=True).hint
        for text in (wrong, closed)
    ]
    assert "Secret" in hints[0]
    assert "PGPASSWORD" not in hints[0]
    assert hints[1] == connection_failure(closed, where="db:5432", user="b").hint


@pytest.mark.parametrize(
    ("text", "words", "way_out"),
    [
        (_NO_ROLE, 'does not let b in: FATAL: Rolle "b" fehlt', "CREATE ROLE"),
        ("FATAL: 3D000: x fehlt", "refused: FATAL: x fehlt", "Name a database that exists"),
        ("connection failed: Connection refused", "cannot be reached", "Nothing listens there"),
        ("failed to resolve host 'db': Name or service not known", "resolve", "host name"),
        ('could not translate host name "db" to address', "cannot be reached", "host name"),
        (
            'on socket "/x/.s.PGSQL.5432" failed: No such file or directory',
            "cannot be reached",
            "Nothing listens there",
        ),
        ("FATAL: 28000: kein Eintrag LOCATION: f, a.c:1", "kein Eintrag", "pg_hba.conf"),
        ("ВАЖНО: 57P03: x", "at the moment: ВАЖНО: x", "Wait until it is up"),
        ("FATAL: 55000: template0", "refused: FATAL: template0", "Name another database"),
        ("FATAL: 42704: x FATAL: 42704: x", "refused: FATAL: x", "Correct `options`"),
        ("FATAL: XX000: x", "refused: FATAL: x", "Its log may say more"),
        ('invalid port number: "abc"', "with these options", "Correct it where libpq finds it"),
        ("server is not in hot standby mode", "target_session_attrs", "name further hosts"),
        ("channel binding required, but", "with these options", "a PG* variable"),
    ],
)
def test_the_way_out_is_that_of_the_error(text: str, words: str, way_out: str) -> None:
    """Proves that pg_hba.conf is named only where it is what refuses."""
    error = connection_failure(text, where="db:5432", user="b")
    assert words in error.message
    assert way_out in error.hint
    assert ("pg_hba" in error.hint) == ("pg_hba" in way_out)


def test_the_question_of_libpq_is_no_part_of_the_message() -> None:
    """The way out asks it; behind the reason it would stand without a full stop between them."""
    asked = "Is the server running on that host and accepting TCP/IP connections?"
    text = f'connection to server at "h", port 1 failed: Connection refused {asked}'
    error = connection_failure(f"{text} {text}", where="h:1", user="b")
    assert error.message.endswith("cannot be reached: Connection refused")
    assert "make its own" not in connection_failure("FATAL: 3D000: x", where="h:1", user="b").hint


def test_messages_name_what_libpq_will_try(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keywords come before variables; a service is named as such."""
    monkeypatch.setenv("PGHOST", "variable")
    monkeypatch.setenv("PGUSER", "me")
    assert asked_for({"port": "7"}) == ("variable:7", "me")
    assert asked_for({"host": "given"})[0] == "given:5432"
    assert asked_for({"service": "lab"})[0] == "service lab"
    assert asked_for({"host": "::1"})[0] == "[::1]:5432"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            'connection failed: connection to server at "db", port 5433 failed: Connection refused',
            "Connection refused",
        ),
        (
            'connection to server on socket "/tmp/.s.PGSQL.5432" failed: No such file or directory',
            "No such file or directory",
        ),
        (
            'connection to server at "db" (10.0.0.1), port 5 failed: role "b" does not exist',
            'role "b" does not exist',
        ),
    ],
)
def test_a_reason_is_told_once(text: str, reason: str) -> None:
    """Without what libpq and psycopg put before it: the place is named already."""
    error = connection_failure(text, where="db:5432", user="b")
    assert error.message.endswith(f": {reason}")
    assert "failed" not in error.message


def test_a_wrong_password_and_none_are_told_apart() -> None:
    """Who has one in the wrong place must not look for a mistyped one."""
    wrong, none = (
        connection_failure(text, where="db:5432", user="b")
        for text in ("FATAL: 28P01: x", "fe_sendauth: no password supplied")
    )
    assert wrong.message == "the server at db:5432 refused the password of b"
    assert "asks b for a password, and there is none" in none.message
    assert wrong.hint != none.hint
    assert isinstance(wrong, LoginError)
    assert isinstance(none, LoginError)


@dataclass
class _Answering:
    """A connection of libpq that has something to send, and is busy before each result."""

    results: list[str]
    unsent: int = 2
    steps: list[str] = field(default_factory=list)
    _consumed: bool = False

    def flush(self) -> int:
        self.unsent -= 1
        return int(self.unsent >= 0)

    def is_busy(self) -> int:
        return int(not self._consumed)

    def consume_input(self) -> None:
        self.steps.append("consume")
        self._consumed = True

    def get_result(self) -> str | None:
        self._consumed = False
        return self.results.pop(0) if self.results else None


def _answer(results: Sequence[str]) -> tuple[object, list[str]]:
    connection: Any = _Answering(list(results))
    names = {select.POLLIN: "in", select.POLLOUT: "out"}
    found = last_result(connection, lambda events: connection.steps.append(names[events]))
    return found, connection.steps


def test_the_last_result_comes_back_when_all_was_taken() -> None:
    """Everything is sent first; input is taken only after the socket had some."""
    found, steps = _answer(["first", "last"])
    assert found == "last"
    assert steps == ["out", "out", *["in", "consume"] * 3]


def test_no_result_is_an_error() -> None:
    """None is not an empty answer."""
    with pytest.raises(psycopg.OperationalError, match="the server gave no answer"):
        _answer([])
