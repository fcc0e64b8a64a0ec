"""What a PostgreSQL server has counted of each statement: the view of pg_stat_statements.

It is read before and after a run, on the reader's session; of the load's own role and database, so
that a database or a role of its own keeps configurations apart that share a server. Sources:
PostgreSQL's documentation, "pg_stat_statements", of versions 13 to 18; only top-level statements
where a version tells them apart (14 and later): time of nested ones is in theirs.

Seen on 15 and 18: of BEGIN, END and other utility statements that a session has prepared, only the
first execution is counted, because the extension clears the identifier in the plan that is kept.

Seen on 18: of statements with one parse tree the text is whoever's was first, so that the END of a
script is shown as the `commit` of whoever made its tables. Hence one text for each.

The extension is made only in databases that Steelyard made; in others it has to be there.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from steelyard.core.measurement import BEGIN, COMMIT, ROLLBACK, StatementUse
from steelyard.core.outside import POSTGRES_MARK
from steelyard.core.wording import TargetError
from steelyard.gateways.sql import Row, SqlSession

_FIRST: Final = 13  # with the WAL of each statement, and the execution apart from the planning
_TOP_LEVEL_SINCE: Final = 14
# ``pg_stat_statements.max`` is known if and only if the library is loaded, and to every role.
_FACTS: Final = f"""
SELECT (SELECT quote_ident(nspname) FROM pg_extension AS e
        JOIN pg_namespace AS n ON n.oid = e.extnamespace WHERE extname = 'pg_stat_statements'),
       current_setting('pg_stat_statements.max', true) IS NOT NULL,
       coalesce(shobj_description(oid, 'pg_database') LIKE '{POSTGRES_MARK}%', false)
FROM pg_database WHERE datname = current_database()
"""  # noqa: S608 - all of it ours
_CREATE: Final = "CREATE EXTENSION pg_stat_statements"
# What Steelyard itself asks: constants are not in the text, names of functions and views are.
_OWN: Final = "pg_(stat_|database_size|backend_pid)"
# PostgreSQL's documentation, of each command: WORK and TRANSACTION have no effect.
_CONTROL: Final = (
    (re.compile(r"(BEGIN( WORK| TRANSACTION)?|START TRANSACTION)", re.IGNORECASE), BEGIN),
    (re.compile(r"(END|COMMIT)( WORK| TRANSACTION)?", re.IGNORECASE), COMMIT),
    (re.compile(r"(ROLLBACK|ABORT)( WORK| TRANSACTION)?", re.IGNORECASE), ROLLBACK),
)
_LOAD_IT: Final = (
    "pg_stat_statements is not loaded; add it to shared_preload_libraries of all configurations"
)


def uses_statement(schema: str, version: int) -> str:
    """Return the query for what each statement of this role and database has used."""
    top = " AND toplevel" if version >= _TOP_LEVEL_SINCE else ""
    return (
        "SELECT query, sum(calls)::float8, (sum(total_exec_time) / 1000)::float8,"  # noqa: S608 - the schema is quoted by the server
        " sum(rows)::float8, sum(shared_blks_hit)::float8, sum(shared_blks_read)::float8,"
        f" sum(wal_bytes)::float8 FROM {schema}.pg_stat_statements"
        " WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())"
        " AND userid = (SELECT oid FROM pg_roles WHERE rolname = current_user)"
        f"{top} AND query !~ '{_OWN}' GROUP BY query"
    )


class StatementCounts:
    """Reads them on a session that others use, too.

    Args:
        session: In the workload's database.
        rows: Asks it; counts what is asked as its own.
        version: Major version of the server.
        is_own: The database is Steelyard's, by the server that it is on.
    """

    def __init__(
        self,
        session: SqlSession,
        rows: Callable[[str], Sequence[Row]],
        version: int,
        *,
        is_own: bool,
    ) -> None:
        self._session = session
        self._rows = rows
        self._version = version
        self._is_own = is_own
        self._statement: str | None = None

    def read(self) -> tuple[StatementUse, ...]:
        """Return what each statement has used so far.

        Raises:
            TargetError: The server does not tell it: why.
        """
        if self._statement is None:
            self._statement = uses_statement(self._schema(), self._version)
        return _merged(_use(row) for row in self._rows(self._statement))

    def _schema(self) -> str:
        """Return the schema of the extension, which is made where that is allowed."""
        if self._version < _FIRST:
            raise TargetError(f"PostgreSQL {self._version} does not count it, {_FIRST} does")
        ((schema, is_loaded, is_marked),) = self._rows(_FACTS)
        if not is_loaded:
            raise TargetError(_LOAD_IT)
        if schema is None and not (self._is_own or is_marked):
            raise TargetError(f"the database lacks the extension: {_CREATE}")
        if schema is None:
            self._session.do(_CREATE)
            ((schema, *_),) = self._rows(_FACTS)
        return str(schema)


def one_text(text: str) -> str:
    """Return a statement's text; of transaction control, the same for all ways to write it."""
    plain = " ".join(text.split()).rstrip("; ")
    return next((name for form, name in _CONTROL if form.fullmatch(plain)), text)


def _merged(uses: Iterable[StatementUse]) -> tuple[StatementUse, ...]:
    """Return one of each text, with the sums of those that have it."""
    found: dict[str, StatementUse] = {}
    for each in uses:
        known = found.get(each.text)
        found[each.text] = each if known is None else known.plus(each)
    return tuple(found.values())


def _use(row: Row) -> StatementUse:
    text, *numbers = row
    calls, seconds, rows, hit, read, wal = (float(str(number)) for number in numbers)
    return StatementUse(
        text=one_text(str(text)),
        calls=calls,
        seconds=seconds,
        rows=rows,
        pages_hit=hit,
        pages_read=read,
        wal_bytes=wal,
    )
