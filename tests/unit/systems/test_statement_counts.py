"""What pg_stat_statements tells, and why it tells nothing: a server that is played."""

from collections.abc import Sequence

import pytest

from steelyard.core.measurement import BEGIN, COMMIT, ROLLBACK
from steelyard.core.wording import TargetError
from steelyard.gateways.sql import Row
from steelyard.systems.postgres.statement_uses import StatementCounts, one_text, uses_statement

USED = (10.0, 0.5, 20.0, 30.0, 4.0, 60.0)


class PlayedServer:
    """Answers the question for its facts, then the one for statements.

    Args:
        schema: Of the extension; None where the database lacks it.
        uses: Rows of the view.
    """

    def __init__(
        self,
        schema: str | None = "public",
        *,
        is_loaded: bool = True,
        is_marked: bool = False,
        uses: Sequence[Row] = (),
    ) -> None:
        self.schema = schema
        self.is_loaded = is_loaded
        self.is_marked = is_marked
        self.uses = uses
        self.done: list[str] = []
        self.asked: list[str] = []

    def rows(self, statement: str, parameters: Sequence[object] = ()) -> list[Row]:  # noqa: ARG002
        """Answer."""
        self.asked.append(statement)
        if "pg_extension" in statement:
            return [(self.schema, self.is_loaded, self.is_marked)]
        return list(self.uses)

    def do(self, statement: str) -> None:
        """Make the extension."""
        self.done.append(statement)
        self.schema = "public"

    def close(self) -> None:
        """Nothing is open."""


def counts(server: PlayedServer, version: int = 18, *, is_own: bool = False) -> StatementCounts:
    """Return what reads it."""
    return StatementCounts(server, server.rows, version, is_own=is_own)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("begin", BEGIN),
        ("BEGIN TRANSACTION", BEGIN),
        ("start  transaction;", BEGIN),
        ("END", COMMIT),
        ("commit work", COMMIT),
        ("abort", ROLLBACK),
        ("BEGIN ISOLATION LEVEL SERIALIZABLE", "BEGIN ISOLATION LEVEL SERIALIZABLE"),
        ("COMMIT PREPARED $1", "COMMIT PREPARED $1"),
        ("ROLLBACK TO SAVEPOINT a", "ROLLBACK TO SAVEPOINT a"),
        ("SELECT  1", "SELECT  1"),
    ],
)
def test_transaction_control_has_one_text(text: str, told: str) -> None:
    """What does the same is one statement; what does more, and all others, stay as they are."""
    assert one_text(text) == told


def test_what_is_one_statement_is_summed() -> None:
    """END and commit are one, with the sums of both; a select stays by itself."""
    server = PlayedServer(uses=[("END", *USED), ("SELECT $1", *USED), ("commit", *USED)])
    commit, select = counts(server).read()
    assert (commit.text, select.text) == (COMMIT, "SELECT $1")
    assert (commit.calls, commit.seconds, commit.rows) == (20.0, 1.0, 40.0)
    assert (commit.pages_hit, commit.pages_read, commit.wal_bytes) == (60.0, 8.0, 120.0)
    assert (select.calls, select.wal_bytes) == (10.0, 60.0)


@pytest.mark.parametrize(
    ("server", "version", "reason"),
    [
        (PlayedServer(), 12, "PostgreSQL 12 does not count it, 13 does"),
        (PlayedServer(is_loaded=False), 18, "add it to shared_preload_libraries"),
        (PlayedServer(None), 18, "CREATE EXTENSION pg_stat_statements"),
    ],
)
def test_a_server_that_does_not_tell_it_says_why(
    server: PlayedServer, version: int, reason: str
) -> None:
    """And nothing is made in a database of others."""
    with pytest.raises(TargetError, match=reason):
        counts(server, version).read()
    assert server.done == []


@pytest.mark.parametrize("is_own", [True, False])
def test_the_extension_is_made_in_databases_that_steelyard_made(*, is_own: bool) -> None:
    """By the server it is on, or by its mark; once."""
    server = PlayedServer(None, is_marked=not is_own)
    reader = counts(server, is_own=is_own)
    reader.read()
    reader.read()
    assert server.done == ["CREATE EXTENSION pg_stat_statements"]


def test_only_top_level_statements_where_they_are_told_apart() -> None:
    """The time of nested ones is in theirs; 13 has no such column."""
    assert "toplevel" in uses_statement("public", 14)
    assert "toplevel" not in uses_statement("public", 13)
    assert "FROM stats.pg_stat_statements" in uses_statement("stats", 13)
