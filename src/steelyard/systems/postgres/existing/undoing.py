"""Undoing what a campaign did on a server: in order at its end, by ``clean`` after a death.

Nothing is dropped that does not carry the campaign's mark, and doing it twice is no error.
"""

import shlex
from collections.abc import Iterable
from dataclasses import replace

from steelyard.core.command import ServerAddress
from steelyard.core.errors import LeftBehindError, TargetError
from steelyard.core.outside import Foreign, OnServer
from steelyard.gateways.sql import Sql, reload
from steelyard.places.elsewhere import token_of
from steelyard.systems.postgres.existing import databases as statements
from steelyard.systems.postgres.existing.readiness import MARK
from steelyard.systems.postgres.existing.settings import Means, in_system_file, restart

_PENDING = "SELECT 1 FROM pg_settings WHERE pending_restart AND lower(name) = ANY(%s)"
# What was made must go, however short the statements of this user may be; any user may set it.
_TAKE_THE_TIME = "SET statement_timeout = 0"
_VERSION = "SELECT current_setting('server_version_num')::int"
_DATABASE_MARK = "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = %s"
_TABLE_MARK = (
    "SELECT obj_description(to_regclass(%s), 'pg_class') WHERE to_regclass(%s) IS NOT NULL"
)


def undo(
    thing: OnServer, means: Means, *, password: str = "", reached: ServerAddress | None = None
) -> None:
    """Put one thing back or drop it.

    Args:
        thing: As it was noted before it was done.
        means: To reach its server.
        password: Of its user; empty lets libpq find it.
        reached: Where its server is reached now, where that is not what was noted.

    Raises:
        LeftBehindError: It does not carry the campaign's mark.
        TargetError: The server cannot be reached or refuses.
    """
    address = thing.address(password)
    if reached is not None:
        address = replace(reached, database=thing.entrance)
    if thing.resource is Foreign.SETTINGS:
        _put_back(thing, address, means)
    elif thing.resource is Foreign.TABLES:
        _drop_tables(thing, address, means.sql)
    else:
        _drop_database(thing, address, means.sql)


def described(thing: OnServer) -> tuple[str, ...]:
    """Return the SQL and the command that undoing a thing would send and run, for people."""
    if thing.resource is Foreign.SETTINGS:
        again = (shlex.join(thing.restart_command),) if thing.restart_command else ()
        return (*_changes(thing), "SELECT pg_reload_conf()", *again)
    if thing.resource is Foreign.TABLES:
        return (_drop_all(thing.names),)
    return (f"DROP DATABASE {statements.identifier(thing.database)}",)


def _changes(thing: OnServer) -> list[str]:
    return [statements.set_system(saved.name, saved.value) for saved in thing.saved]


def _drop_all(tables: Iterable[str]) -> str:
    return f"DROP TABLE {', '.join(map(statements.identifier, tables))}"


def _put_back(thing: OnServer, address: ServerAddress, means: Means) -> None:
    changes = _changes(thing)
    try:
        means.sql.execute(address, [_TAKE_THE_TIME, *changes])
    except TargetError:
        if not _is_as_it_was(thing, address, means.sql):
            raise
        return  # the server refuses ALTER SYSTEM, and refused the first change, too
    reload(address, means.sql, means.clock)
    if thing.restart_command and _waits_for_restart(thing, address, means.sql):
        restart(thing.restart_command, address, means)


def _is_as_it_was(thing: OnServer, address: ServerAddress, sql: Sql) -> bool:
    try:
        return in_system_file([saved.name for saved in thing.saved], sql, address) == thing.saved
    except TargetError:
        return False


def _waits_for_restart(thing: OnServer, address: ServerAddress, sql: Sql) -> bool:
    """Return whether the server still runs with a value that was put back in its file."""
    names = [saved.name for saved in thing.saved]
    return bool(sql.rows(address, _PENDING, [names]))


def _drop_database(thing: OnServer, address: ServerAddress, sql: Sql) -> None:
    found = sql.rows(address, _DATABASE_MARK, [thing.database])
    if not found:
        return
    # Without any comment it was made a moment before the death, and its name tells whose it is.
    if found[0][0] != thing.mark and not (found[0][0] is None and _is_named_by(thing)):
        raise _not_ours(f"database {thing.database}", thing)
    version = int(str(sql.rows(address, _VERSION)[0][0]))
    drop = statements.drop_database(thing.database, version)
    sql.execute(address, [_TAKE_THE_TIME, drop])


def _is_named_by(thing: OnServer) -> bool:
    """Return whether a database has the name that the campaign of the mark gives its own."""
    token = token_of(thing.mark.removeprefix(MARK))
    return thing.database.removesuffix("_prepared").endswith(f"_{token}")


def _drop_tables(thing: OnServer, address: ServerAddress, sql: Sql) -> None:
    ours = []
    for name in thing.names:
        found = sql.rows(address, _TABLE_MARK, [statements.identifier(name)] * 2)
        if found and found[0][0] != thing.mark:
            raise _not_ours(f"table {name} in database {thing.database}", thing)
        ours += [name] if found else []
    if ours:
        sql.execute(address, [_TAKE_THE_TIME, _drop_all(ours)])


def _not_ours(what: str, thing: OnServer) -> LeftBehindError:
    return LeftBehindError(
        f"{what} on {thing.host}:{thing.port} does not carry the mark {thing.mark!r},"
        " so it is left as it is",
        hint="Look at it, and drop it by hand if it is not needed.",
    )
