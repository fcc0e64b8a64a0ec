"""Whether a PostgreSQL server can be measured, asked beforehand, and undoing what was done there.

It is undone in order at the end of a campaign, or by ``steelyard clean`` after a death. Nothing is
dropped that does not carry the campaign's mark, and doing it twice is no error.
"""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from steelyard.core.errors import LeftBehindError, PreflightError, TargetError
from steelyard.core.findings import Finding, Severity
from steelyard.core.outside import Foreign, OnServer, ServerAddress
from steelyard.core.target import EndpointTarget
from steelyard.core.units import format_duration
from steelyard.gateways.sql import Sql, reload
from steelyard.places.elsewhere import token_of
from steelyard.systems.existing import require_no_campaign, server_finding, unseen
from steelyard.systems.postgres.existing import server as statements
from steelyard.systems.postgres.existing.server import DatasetNeeds, Means, in_system_file, restart

MARK = "steelyard campaign "
_OUR_SESSIONS = 2  # one for our own checks, one to spare
_STATE = """
SELECT pg_is_in_recovery(), current_setting('transaction_read_only') = 'on',
       current_setting('server_version_num')::int, r.rolsuper, r.rolsuper OR r.rolcreatedb,
       current_setting('max_connections')::int
         - CASE WHEN r.rolsuper THEN 0 ELSE
             current_setting('superuser_reserved_connections')::int
             + coalesce(current_setting('reserved_connections', true)::int, 0) END
         - (SELECT coalesce(sum(numbackends), 1) FROM pg_stat_database)::int + 1,
       r.rolconnlimit, current_setting('statement_timeout'),
       coalesce(current_setting('allow_alter_system', true), 'on') = 'on',
       (SELECT count(*) FROM pg_stat_activity WHERE state = 'active'
          AND pid <> pg_backend_pid() AND application_name NOT LIKE 'steelyard%%')::int,
       coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false)
FROM pg_roles r WHERE r.rolname = current_user AND %s <> ''
"""
_MARKED = """
SELECT DISTINCT shobj_description(oid, 'pg_database') FROM pg_database
WHERE shobj_description(oid, 'pg_database') LIKE %s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """What a server says of itself before a campaign.

    Attributes:
        connections_left: For the user that connects.
        active_others: Sessions of others that are at work; without superuser rights only the own
            user's are visible.
        other_marks: Marks of other campaigns on databases.
    """

    standby: bool
    read_only: bool
    version_num: int
    superuser: bool
    makes_databases: bool
    connections_left: int
    statement_timeout: str
    alters_system: bool
    active_others: int
    tls: bool
    other_marks: tuple[str, ...]


def read_state(address: ServerAddress, sql: Sql, mark: str) -> ServerState:
    """Return what a server says of itself.

    Raises:
        TargetError: It cannot be reached.
    """
    (row,) = sql.rows(address, _STATE, [mark])
    marks = [str(found[0]) for found in sql.rows(address, _MARKED, [f"{MARK}%"])]
    role_limit = int(str(row[6]))
    left = int(str(row[5]))
    return ServerState(
        standby=bool(row[0]),
        read_only=bool(row[1]),
        version_num=int(str(row[2])),
        superuser=bool(row[3]),
        makes_databases=bool(row[4]),
        connections_left=left if role_limit < 0 or row[3] else min(left, role_limit),
        statement_timeout=str(row[7]),
        alters_system=bool(row[8]),
        active_others=int(str(row[9])),
        tls=bool(row[10]),
        other_marks=tuple(sorted(found for found in marks if found != mark)),
    )


def require_writable(state: ServerState, where: str) -> None:
    """Raise when the server takes no writes.

    Raises:
        PreflightError: It is a standby, or read-only for this user.
    """
    if state.standby:
        raise PreflightError(
            f"the server at {where} is a standby: it takes no writes, so no data can be prepared",
            hint="Name the primary.",
        )
    if state.read_only:
        raise PreflightError(
            f"the server at {where} is read-only for this user (default_transaction_read_only)",
            hint="Turn it off for the user or the server.",
        )


def require_connections(state: ServerState, clients: int, where: str) -> None:
    """Raise when the largest load does not fit into what is left.

    Raises:
        PreflightError: With both numbers.
    """
    needed = clients + _OUR_SESSIONS
    if needed > state.connections_left:
        raise PreflightError(
            f"the server at {where} has {state.connections_left} connections left for this user;"
            f" {clients} clients need {needed}",
            hint="Lower `loads.clients`, close other sessions, or raise max_connections there.",
        )


def require_alter_system(state: ServerState, where: str) -> None:
    """Raise when settings cannot be changed by SQL.

    Raises:
        PreflightError: ALTER SYSTEM is off.
    """
    if not state.alters_system:
        raise PreflightError(
            f"the server at {where} does not allow ALTER SYSTEM (allow_alter_system is off)",
            hint="Change the settings where they are kept, and weigh two endpoints instead.",
        )


def require_alone(state: ServerState, where: str) -> None:
    """Raise when another campaign may be changing the settings.

    Raises:
        PreflightError: Another campaign's databases are there.
    """
    require_no_campaign(state.other_marks, where)


def state_findings(state: ServerState, where: str, *, alters: bool = False) -> Iterator[Finding]:
    """Yield what is worth knowing of a server that can be measured.

    Args:
        state: Of the server.
        where: It is.
        alters: The user has been granted to change the settings of the campaign for everyone.
    """
    yield unseen(where)
    if not state.superuser:
        sets = "" if alters else " it sets settings of its own sessions only,"
        yield server_finding(
            "no-superuser",
            f"Steelyard is no superuser at {where}:{sets or ' it'}"
            " does not see settings that are for superusers, nor what others' sessions do",
            where,
        )
    if state.statement_timeout not in ("0", ""):
        yield server_finding(
            "statement-timeout",
            f"statement_timeout is {state.statement_timeout} for this user: long statements fail",
            where,
            remedy="Set it to 0 for the user, if the data take longer to prepare.",
            severity=Severity.WARNING,
        )
    if state.active_others:
        yield server_finding(
            "other-load",
            f"{state.active_others} sessions of others were at work on the server at {where}",
            where,
            remedy="Measure when nobody else does; what they take is missing here.",
            severity=Severity.WARNING,
        )


def weaker_reset(where: str) -> Finding:
    """Return that the data do not go back as they were."""
    return server_finding(
        "weaker-reset",
        f"the data at {where} go back by vacuum and truncate only: rows that a"
        " workload changed stay changed, and bloat that vacuum leaves stays",
        where,
        remedy="Let Steelyard make its own database: it is copied from a template each time.",
        severity=Severity.WARNING,
    )


def reset_by_command(target: EndpointTarget, where: str) -> Finding:
    """Return what a user's command does, before it is run for the first time."""
    return server_finding(
        "reset-command",
        f"the data at {where} are brought back by `{shlex.join(target.reset_command)}`, run on this"
        " machine by the account of Steelyard before every start with fresh data, for at most"
        f" {format_duration(target.reset_timeout_s)} each: what it brings back Steelyard does not"
        " see, and it undoes nothing of it",
        where,
    )


def require_resettable(
    target: EndpointTarget, datasets: Sequence[DatasetNeeds], where: str, *, writes: bool
) -> None:
    """Raise where a user's command has nothing to bring back, or would take away what is needed.

    Raises:
        PreflightError: The database is Steelyard's, workloads only read, or they use tables that
            Steelyard makes.
    """
    if not target.allow_existing:
        raise PreflightError(
            f"a `reset_command` brings back data of your own, and the database at {where} is one"
            " that Steelyard makes and copies from a template each time",
            hint="Name yours with `dbname:` and `allow_existing: true` (or --allow-existing), or"
            " remove `reset_command`.",
        )
    if not writes:
        raise PreflightError(
            f"all workloads only read the data at {where}, in read-only sessions: the"
            " `reset_command` would have nothing to bring back",
            hint="Remove `reset_command`.",
        )
    if any(each.tables for each in datasets):
        raise PreflightError(
            "a `builtin` workload uses pgbench's tables, which Steelyard makes once, and the"
            " `reset_command` brings the data back to before that",
            hint="Use `scripts` on tables of your own, or remove `reset_command`.",
        )


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
