"""URIs without secrets, and libpq's failures in words of fact."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.core.wording import InputError, LoginError
from steelyard.gateways.sql import asked_for, connection_failure, parsed_uri


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
        ('FATAL: password authentication failed for user "b"', "refused the password of b"),
        ("fe_sendauth: no password supplied", "asks b for a password, and there is none"),
        ('FATAL: no pg_hba.conf entry for host "h", no encryption', "without TLS"),
        (
            "FATAL: no pg_hba.conf entry for h, SSL encryption FATAL: the same, no encryption",
            "with TLS or without",
        ),
        ("server does not support SSL, but SSL was required", "no TLS connection"),
        ('certificate for "a" does not match host name "h"', "no TLS connection"),
        ("FATAL: sorry, too many clients already", "no connection left"),
        ('FATAL: database "x" does not exist', "does not exist"),
        ('FATAL: role "b" does not exist', "does not let b in"),
        ("Connection refused", "cannot be reached"),
        ("could not translate host name", "cannot be reached"),
    ],
)
def test_failures_have_a_way_out(text: str, words: str) -> None:
    """Each is a sentence with the place, and a hint."""
    error = connection_failure(text, where="db:5432", user="b")
    assert words in error.message
    assert "db:5432" in error.message
    assert error.hint


def test_a_password_of_a_server_in_a_cluster_is_in_a_secret() -> None:
    """There the way out is the Secret; for all else it is as anywhere."""
    wrong, closed = "password authentication failed", "Connection refused"
    hints = [
        connection_failure(text, where="db.ns.svc:5432", user="b", in_cluster=True).hint
        for text in (wrong, closed)
    ]
    assert "Secret" in hints[0]
    assert "PGPASSWORD" not in hints[0]
    assert hints[1] == connection_failure(closed, where="db:5432", user="b").hint


@pytest.mark.parametrize(
    ("text", "way_out"),
    [
        ('FATAL: role "b" does not exist', "CREATE ROLE"),
        ('FATAL: database "x" does not exist', "Name a database that exists"),
        ("connection failed: Connection refused", "Nothing listens there"),
        ('on socket "/x/.s.PGSQL.5432" failed: No such file or directory', "Nothing listens"),
        ("FATAL: no pg_hba.conf entry for host", "pg_hba.conf"),
        ('FATAL: Peer authentication failed for user "b"', "pg_hba.conf"),
    ],
)
def test_the_way_out_is_that_of_the_error(text: str, way_out: str) -> None:
    """Proves that pg_hba.conf is named only where it is what refuses."""
    hint = connection_failure(text, where="db:5432", user="b").hint
    assert way_out in hint
    assert ("pg_hba" in hint) == ("pg_hba" in way_out)


def test_messages_name_what_libpq_will_try(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keywords come before variables; a service is named as such."""
    monkeypatch.setenv("PGHOST", "variable")
    monkeypatch.setenv("PGUSER", "me")
    assert asked_for({"port": "7"}) == ("variable:7", "me")
    assert asked_for({"host": "given"})[0] == "given:5432"
    assert asked_for({"service": "lab"})[0] == "service lab"


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
        for text in ("password authentication failed", "fe_sendauth: no password supplied")
    )
    assert wrong.message == "the server at db:5432 refused the password of b"
    assert "there is none" in none.message
    assert wrong.hint != none.hint
    assert isinstance(wrong, LoginError)
    assert isinstance(none, LoginError)
