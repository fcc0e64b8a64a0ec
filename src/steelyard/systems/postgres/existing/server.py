"""Somebody else's PostgreSQL server: what a campaign changes there, and how that is undone.

The databases are the campaign's own, or one that it was allowed to use. Settings are changed for
everyone, or for a campaign's own sessions only. The SQL that changes a server is here as text.

Invariant: before the first change, what stood in the server's store for every setting of the
campaign is in the ledger.

Where a restart is needed, the user's own command restarts the server. Whether it can be measured
is asked beforehand.

A change is undone at the end of a campaign, or by ``steelyard clean`` after a death. Nothing is
dropped that does not carry the campaign's mark, and doing it twice is no error.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace

from steelyard.core.findings import Finding, Severity
from steelyard.core.outside import (
    POSTGRES_MARK,
    Foreign,
    OnServer,
    SavedSetting,
    ServerAddress,
    host_and_port,
)
from steelyard.core.target import EndpointTarget
from steelyard.core.wording import (
    PRELOADS,
    LeftBehindError,
    PreflightError,
    RefusedError,
    TargetError,
    format_duration,
    is_empty_preload,
    setting_literals,
    sql_literal,
)
from steelyard.gateways.doors import Doors
from steelyard.gateways.sql import Sql, reload
from steelyard.places.elsewhere import restart_by, token_of
from steelyard.systems.existing import server_finding, unseen, without_secrets
from steelyard.systems.postgres.existing.copying import layout_of, settings_of

_INSUFFICIENT_PRIVILEGE = "42501"
READ_ONLY = "default_transaction_read_only"
_FORCE_FROM = 130000
_STRATEGY_FROM = 150000


def identifier(name: str) -> str:
    """Return a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def set_system(name: str, value: str | None) -> str:
    """Return ALTER SYSTEM for one setting; None removes it from ``postgresql.auto.conf``.

    So does an empty list of libraries, which is no value there.
    """
    named = ".".join(identifier(part) for part in name.split("."))
    if value is None or is_empty_preload(name, value):
        return f"ALTER SYSTEM RESET {named}"
    return f"ALTER SYSTEM SET {named} = {setting_literals(name, value)}"


def session_options(settings: Mapping[str, str]) -> str:
    """Return settings as libpq's ``options``, where backslashes protect spaces."""
    escaped = (re.sub(r"([\\\s])", r"\\\1", f"{name}={value}") for name, value in settings.items())
    return " ".join(f"-c {setting}" for setting in escaped)


def with_settings(address: ServerAddress, settings: Mapping[str, str]) -> ServerAddress:
    """Return an address whose sessions have these settings, beside those that it gives them."""
    parameters = dict(address.parameters)
    own = [parameters.get("options", ""), session_options(settings)]
    if options := " ".join(filter(None, own)):
        parameters["options"] = options
    return replace(address, parameters=tuple(parameters.items()))


def drop_database(name: str, version_num: int) -> str:
    """Return DROP DATABASE; from 13 on it ends the sessions in it."""
    force = " WITH (FORCE)" if version_num >= _FORCE_FROM else ""
    return f"DROP DATABASE IF EXISTS {identifier(name)}{force}"


def leave_database(name: str) -> str:
    """Return the statement that ends own sessions in a database: a pooler keeps them open."""
    return (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"  # noqa: S608 - a literal
        f" WHERE datname = {sql_literal(name)} AND usename = current_user"
        " AND pid <> pg_backend_pid()"
    )


def copy_database(name: str, template: str, version_num: int) -> str:
    """Return CREATE DATABASE from a template, by copying files: little WAL."""
    strategy = " STRATEGY FILE_COPY" if version_num >= _STRATEGY_FROM else ""
    return f"CREATE DATABASE {identifier(name)} TEMPLATE {identifier(template)}{strategy}"


def mark_database(name: str, mark: str) -> str:
    """Return the statement that marks a database as Steelyard's."""
    return f"COMMENT ON DATABASE {identifier(name)} IS {sql_literal(mark)}"


def mark_tables(names: Iterable[str], mark: str) -> list[str]:
    """Return the statements that mark tables as Steelyard's."""
    return [f"COMMENT ON TABLE {identifier(name)} IS {sql_literal(mark)}" for name in names]


TEMPLATE = "template database"
VACUUM = "vacuum"
COMMAND = "reset command"
GENERATOR_TABLES = ("pgbench_accounts", "pgbench_branches", "pgbench_history", "pgbench_tellers")
_HISTORY = "pgbench_history"
_IS_THERE = "SELECT 1 FROM pg_database WHERE datname = %s"
_MAY_CREATE = "SELECT coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetNeeds:
    """What a data set needs of a server.

    Attributes:
        tables: Whether it has the generator's tables.
        scripts: Whether own scripts make a part of it, or a command of the load generator's.
        is_copied: It begins with copies of tables of the database that is connected to.
    """

    name: str
    tables: bool
    scripts: bool
    is_copied: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """What a campaign calls its things on a server.

    Attributes:
        token: Of the campaign, part of every name.
        existing: Database that it was allowed to use instead of own ones, or None.
        suffix: Of the databases that are measured in, where several configurations have their own.
        is_changed: The configuration has changes of its own: its copies are made of another one.
        is_kept: The load only reads, so that what copies would be made of is measured itself.
    """

    token: str
    mark: str
    existing: str | None
    suffix: str = ""
    is_changed: bool = False
    is_kept: bool = False

    def live(self, dataset: str) -> str:
        """Return the database that is measured in."""
        if self.is_kept:
            return self.prepared(dataset)
        return self.existing or f"{dataset}_{self.token}{self.suffix}"

    def common(self, dataset: str) -> str:
        """Return the database that has the data before changes of a configuration's own."""
        return f"{dataset}_{self.token}_prepared"

    def prepared(self, dataset: str) -> str:
        """Return the database that copies are made of."""
        return f"{dataset}_{self.token}{self.suffix * self.is_changed}_prepared"


class Databases:
    """Makes, marks, copies and resets databases; ``announce`` is called before they are made."""

    def __init__(
        self,
        naming: Naming,
        datasets: tuple[DatasetNeeds, ...],
        sql: Sql,
        announce: Callable[[Foreign, str, tuple[str, ...]], None],
    ) -> None:
        self._naming = naming
        self._datasets = datasets
        self._sql = sql
        self._announce = announce

    def names(self, means: str) -> tuple[tuple[str, str], ...]:
        """Return where each data set is built: in its template, or where it is measured."""
        return tuple(
            (
                each.name,
                self._naming.prepared(each.name)
                if means == TEMPLATE
                else self._naming.live(each.name),
            )
            for each in self._datasets
        )

    @property
    def live(self) -> tuple[tuple[str, str], ...]:
        """Return where each data set is measured."""
        return self.names(VACUUM)

    def make(self, means: str, address: ServerAddress) -> None:
        """Make the databases that the data sets are built in, marked; an allowed one is used."""
        if self._naming.existing is not None:
            if any(each.tables for each in self._datasets):
                self._announce(Foreign.TABLES, self._naming.existing, GENERATOR_TABLES)
            return
        copied = {each.name for each in self._datasets if each.is_copied}
        for dataset, database in self.names(means):
            layout = f" {layout_of(address, self._sql)}" if dataset in copied else ""
            self._create(database, f"CREATE DATABASE {identifier(database)}{layout}", address)

    def change(self, address: ServerAddress, version_num: int) -> None:
        """Make what the configuration's own changes are applied to, from what all have in common.

        No session is in that one yet but those of a pooler, which are ended.
        """
        for each in self._datasets:
            common, own = self._naming.common(each.name), self._naming.prepared(each.name)
            self._sql.execute(address, [leave_database(common)])
            self._create(own, copy_database(own, common, version_num), address)

    def mark_tables(self, address: ServerAddress, *, is_torn: bool = False) -> None:
        """Mark the generator's tables in a database that Steelyard did not make.

        ``is_torn``: their making was ended, and only some may be there.
        """
        for each in self._datasets:
            if self._naming.existing is not None and each.tables:
                marks = mark_tables(GENERATOR_TABLES, self._naming.mark)
                for batch in [[mark] for mark in marks] if is_torn else [marks]:
                    with suppress(TargetError) if is_torn else nullcontext():
                        self._sql.execute(address.at(each.name), batch)

    def _create(self, database: str, statement: str, address: ServerAddress) -> None:
        if self._sql.rows(address, _IS_THERE, [database]):
            raise TargetError(
                f"there is a database {database} on the server already, and Steelyard did not"
                " make it in this session",
                hint="Undo what a dead campaign left by `steelyard clean`.",
            )
        self._announce(Foreign.DATABASE, database, ())
        mark = mark_database(database, self._naming.mark)
        self._sql.execute(address, [statement, mark])
        self._set(database, address)

    def _set(self, database: str, address: ServerAddress) -> None:
        """Let sessions in a copy have what those of its origin have (ALTER DATABASE).

        That the origin is read-only is left out, and what a superuser alone may set: logging and
        the like, which no plan depends on.
        """
        if not any(each.is_copied for each in self._datasets):
            return
        for is_own, name, value in settings_of(address, self._sql):
            of = "ROLE CURRENT_USER IN DATABASE" if is_own else "DATABASE"
            listed_values = setting_literals(name, value)
            named = ".".join(identifier(part) for part in name.split("."))
            change = f"ALTER {of} {identifier(database)} SET {named} = {listed_values}"
            try:
                self._sql.execute(address, [change] if name != READ_ONLY else [])
            except RefusedError as error:
                if error.code != _INSUFFICIENT_PRIVILEGE:
                    raise

    def copy(self, address: ServerAddress, version_num: int) -> None:
        """Make every measured database anew from its template."""
        for each in self._datasets:
            live = self._naming.live(each.name)
            template = self._naming.prepared(each.name)
            copy = copy_database(live, template, version_num)
            leave = [leave_database(template)]
            if not self._sql.rows(address, _IS_THERE, [live]):
                self._sql.execute(address, leave)
                self._create(live, copy, address)
                continue
            mark = mark_database(live, self._naming.mark)
            drop = drop_database(live, version_num)
            self._sql.execute(address, [drop, *leave, copy, mark])
            self._set(live, address)

    def vacuum(self, address: ServerAddress) -> None:
        """Clear dead rows away and empty the generator's history: the weaker reset."""
        for each in self._datasets:
            own = address.at(each.name)
            if each.tables:
                tables = ", ".join(t for t in GENERATOR_TABLES if t != _HISTORY)
                self._sql.execute(own, [f"TRUNCATE {_HISTORY}", f"VACUUM {tables}"])
            if self._naming.existing is None and each.scripts:
                self._sql.execute(own, ["VACUUM"])


def require_usable(
    database: str, datasets: tuple[DatasetNeeds, ...], address: ServerAddress, sql: Sql, mark: str
) -> None:
    """Raise when an existing database cannot take what the campaign needs.

    Raises:
        PreflightError: The generator's tables are there already, or own scripts or a command would
            make things that cannot be told from what was there.
    """
    if any(each.scripts for each in datasets):
        raise PreflightError(
            f"`prepare` scripts or a `prepare_command` would make things in {database} that cannot"
            " be told from what is there",
            hint="Let Steelyard make its own database: remove `dbname` and `allow_existing`.",
        )
    with_tables = [each for each in datasets if each.tables]
    if len(with_tables) > 1:
        raise PreflightError(
            f"the workloads need pgbench's tables in {len(with_tables)} sizes, and {database} can"
            " hold them once",
            hint="Use one `scale`, or let Steelyard make its own databases.",
        )
    if with_tables:
        _require_free_names(database, address, sql, mark)


def _require_free_names(database: str, address: ServerAddress, sql: Sql, mark: str) -> None:
    for table in GENERATOR_TABLES:
        found = sql.rows(address, _TABLE_MARK, [table, table])
        if found and found[0][0] != mark:
            raise PreflightError(
                f"there is a table {table} in the database {database}, which Steelyard did not"
                " make",
                hint="Name another database, or let Steelyard make its own.",
            )
    if not sql.rows(address, _MAY_CREATE)[0][0]:
        raise PreflightError(
            f"{address.user} may not create tables in the database {database}",
            hint="GRANT CREATE ON its schema, or connect as its owner.",
        )


_TABLE_MARK = (
    "SELECT obj_description(to_regclass(%s), 'pg_class') WHERE to_regclass(%s) IS NOT NULL"
)


STARTED_AT = "SELECT (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint"


def restart(command: tuple[str, ...], entrance: Callable[[], ServerAddress], doors: Doors) -> None:
    """Restart a server by its user's command and return when it answers where it is reached then.

    Raises:
        TargetError: The command failed, or the server was not restarted by it.
    """
    restart_by(command, doors, lambda: doors.sql.rows(entrance(), STARTED_AT))


# The last line for a setting is the one that counts; ALTER SYSTEM leaves one of each.
_IN_FILE = """
SELECT lower(name), setting FROM pg_file_settings
WHERE sourcefile LIKE '%postgresql.auto.conf' ORDER BY seqno
"""


class AlterSystem:
    """The store that every server has: ``postgresql.auto.conf``.

    Args:
        names: Of every setting that any configuration on this server asks for.
        entrance: Where the server is reached now.
        restart_command: Of the user; empty: the server is never restarted.
        keep: Called with what stood there, before the first change.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        doors: Doors,
        entrance: Callable[[], ServerAddress],
        restart_command: tuple[str, ...],
        keep: Callable[[tuple[SavedSetting, ...]], None],
    ) -> None:
        self._names = names
        self._doors = doors
        self._entrance = entrance
        self._restart_command = restart_command
        self._keep = keep
        self._before: tuple[SavedSetting, ...] | None = None

    @property
    def label(self) -> str:
        """Return how settings are changed."""
        return "by ALTER SYSTEM"

    def change(self, settings: Mapping[str, str]) -> bool:
        """Write settings; those that are not asked for go back to what was.

        The server has yet to read them.
        """
        if not self._names:
            return False
        address, sql = self._entrance(), self._doors.sql
        if trouble := file_trouble(address, sql, f"{address.host}:{address.port}"):
            raise TargetError(trouble, hint=CORRECT_FILE)
        if self._before is None:
            before = without_secrets(in_system_file(self._names, sql, address))
            self._keep(before)
            self._before = before
        by_name = {name.lower(): value for name, value in settings.items()}
        wanted = {saved.name: by_name.get(saved.name, saved.value) for saved in self._before}
        sql.execute(address, [set_system(n, v) for n, v in wanted.items()])
        return True

    def activate(self, settings: Mapping[str, str], *, restarts: bool) -> None:
        """Write settings, have them read, and restart the server where asked."""
        if self.change(settings):
            reload(self._entrance(), self._doors.sql, self._doors.clock)
        if restarts:
            restart(self._restart_command, self._entrance, self._doors)


def in_system_file(
    names: Sequence[str], sql: Sql, address: ServerAddress
) -> tuple[SavedSetting, ...]:
    """Return what ``postgresql.auto.conf`` has for each of these settings.

    Raises:
        TargetError: The server cannot be reached, or does not show its files to this user.
    """
    found = {str(name): str(value) for name, value in sql.rows(address, _IN_FILE)}
    folded = dict.fromkeys(name.lower() for name in names)
    return tuple(SavedSetting(name=name, value=found.get(name)) for name in folded)


OUR_SESSIONS = 2  # one for our own checks, one to spare
_STATE = """
SELECT pg_is_in_recovery(), current_setting('transaction_read_only') = 'on',
       current_setting('server_version_num')::int, r.rolsuper, r.rolsuper OR r.rolcreatedb,
       current_setting('max_connections')::int
         - CASE WHEN r.rolsuper THEN 0 ELSE
             current_setting('superuser_reserved_connections')::int
             + coalesce(current_setting('reserved_connections', true)::int, 0) END
         - (SELECT coalesce(sum(numbackends), 1) FROM pg_stat_database)::int + 1,
       coalesce(least(
         CASE WHEN r.rolconnlimit >= 0 THEN greatest(0, r.rolconnlimit + 1
           - (SELECT count(*) FROM pg_stat_activity
              WHERE usesysid = r.oid AND backend_type = 'client backend')::int) END,
         (SELECT greatest(0, d.datconnlimit + 1
           - (SELECT count(*) FROM pg_stat_activity a
              WHERE a.datid = d.oid AND a.backend_type = 'client backend')::int)
          FROM pg_database d WHERE d.datname = %s AND d.datconnlimit >= 0)), -1),
       current_setting('statement_timeout'),
       coalesce(current_setting('allow_alter_system', true), 'on') = 'on',
       (SELECT count(*) FROM pg_stat_activity WHERE state = 'active'
          AND pid <> pg_backend_pid() AND application_name NOT LIKE 'steelyard%%')::int,
       coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false),
       current_setting('max_standby_streaming_delay')
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
        replay_waits: How long a standby lets statements stand in the way of its primary's changes.
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
    replay_waits: str
    other_marks: tuple[str, ...]


def read_state(address: ServerAddress, sql: Sql, mark: str, database: str = "") -> ServerState:
    """Return what a server says of itself; an existing database may be used for the load.

    Raises:
        TargetError: It cannot be reached.
    """
    (row,) = sql.rows(address, _STATE, [database, mark])
    marks = [str(found[0]) for found in sql.rows(address, _MARKED, [f"{POSTGRES_MARK}%"])]
    left, by_limit = int(str(row[5])), int(str(row[6]))
    return ServerState(
        standby=bool(row[0]),
        read_only=bool(row[1]),
        version_num=int(str(row[2])),
        superuser=bool(row[3]),
        makes_databases=bool(row[4]),
        connections_left=left if by_limit < 0 or row[3] else min(left, by_limit),
        statement_timeout=str(row[7]),
        alters_system=bool(row[8]),
        active_others=int(str(row[9])),
        tls=bool(row[10]),
        replay_waits=str(row[11]),
        other_marks=tuple(sorted(found for found in marks if found != mark)),
    )


def require_writable(state: ServerState, where: str, why: str) -> None:
    """Raise when the server takes no writes, and some are needed; ``why`` is a clause.

    Raises:
        PreflightError: It is a standby, or read-only for this user.
    """
    if state.standby:
        raise PreflightError(
            f"the server at {where} is a standby: it takes no writes, and {why}",
            hint=f"Name the primary. {_READ_THERE}",
        )
    if state.read_only:
        raise PreflightError(
            f"the server at {where} is read-only for this user (default_transaction_read_only),"
            f" and {why}",
            hint=f"Turn it off for the user or the server. {_READ_THERE}",
        )


_READ_THERE = (
    "Or run scripts that only read on your own tables: `steelyard try --script`, or `scripts` and"
    " `allow_existing: true` in a file."
)


def require_connections(state: ServerState, clients: int, at_once: int, where: str) -> None:
    """Raise when the largest load, of as many configurations at once, does not fit in.

    Raises:
        PreflightError: With both numbers.
    """
    needed = at_once * clients + OUR_SESSIONS
    of_each = f" for each of {at_once} configurations at the same time" if at_once > 1 else ""
    if needed > state.connections_left:
        raise PreflightError(
            f"the server at {where} has {state.connections_left} connections left for this user;"
            f" {clients} clients{of_each} need {needed}, with {OUR_SESSIONS} for Steelyard",
            hint="Lower `load.clients`, close other sessions, or raise max_connections there"
            " (for a role with a limit of its own: ALTER ROLE ... CONNECTION LIMIT).",
        )


_FILE_ERRORS = """
SELECT sourcefile, sourceline, name, error FROM pg_file_settings
WHERE error <> '' AND (SELECT NOT bool_or(applied) FROM pg_file_settings) ORDER BY seqno
"""
CORRECT_FILE = "Correct the file. Then SELECT pg_reload_conf() takes it."


def file_trouble(address: ServerAddress, sql: Sql, where: str) -> str:
    """Return why the server would take no change of its files, as a sentence; empty where it would.

    Of values that it does not take alone, or only with a restart, it says no more here.
    """
    try:
        rows = sql.rows(address, _FILE_ERRORS)
    except RefusedError:
        return ""  # this user may not look
    faults = (
        f"{file}, line {line}: {f'`{name}`: ' if name else ''}{error}"
        for file, line, name, error in rows
    )
    listed = "; ".join(faults)
    return f"the server at {where} cannot read its configuration: {listed}" if listed else ""


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


def state_findings(state: ServerState, where: str, *, alters: bool = False) -> Iterator[Finding]:
    """Yield what is worth knowing of a server that can be measured.

    ``alters``: the user has been granted to change the settings of the campaign for everyone.
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
    if state.standby:
        yield server_finding(
            "standby",
            f"the server at {where} is a standby: during the load it applies the changes of its"
            " primary, and ends statements that delay them by more than"
            f" max_standby_streaming_delay = {state.replay_waits}",
            where,
            remedy="If it ends statements of the load, raise max_standby_streaming_delay there, or"
            " set hot_standby_feedback = on.",
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


def on_copies(label: str, where: str) -> Finding:
    """Return that what is measured are copies, and how they differ from where they come from."""
    return server_finding(
        "copied-tables",
        f"the statements run on copies ({label}), which have no bloat, are vacuumed, and have fresh"
        " statistics: if the originals differ in that, their times and plans may differ, too",
        where,
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


# The server still runs with a value that was put back in its file.
_PENDING = "SELECT 1 FROM pg_settings WHERE pending_restart AND lower(name) = ANY(%s)"
# What was made must go, however short the statements of this user may be; any user may set it.
_TAKE_THE_TIME = "SET statement_timeout = 0"
_VERSION = "SELECT current_setting('server_version_num')::int"
_DATABASE_MARK = "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = %s"


def undo(
    thing: OnServer, doors: Doors, *, password: str = "", reached: ServerAddress | None = None
) -> None:
    """Put one thing back or drop it.

    Args:
        thing: As it was noted before it was done.
        doors: To reach its server.
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
        _put_back(thing, address, doors)
    elif thing.resource is Foreign.TABLES:
        _drop_tables(thing, address, doors.sql)
    else:
        _drop_database(thing, address, doors.sql)


def described(thing: OnServer) -> tuple[str, ...]:
    """Return the SQL and the command that undoing a thing would send and run, for people."""
    if thing.resource is Foreign.SETTINGS:
        again = (shlex.join(thing.restart_command),) if thing.restart_command else ()
        return (*_changes(thing), "SELECT pg_reload_conf()", *again)
    if thing.resource is Foreign.TABLES:
        return (_drop_all(thing.names),)
    return (f"DROP DATABASE {identifier(thing.database)}",)


def _changes(thing: OnServer) -> list[str]:
    """Return one statement a setting; libraries first, some settings are theirs."""
    ordered = sorted(thing.saved, key=lambda saved: PRELOADS.fullmatch(saved.name) is None)
    return [set_system(saved.name, saved.value) for saved in ordered]


def _drop_all(tables: Iterable[str]) -> str:
    return f"DROP TABLE {', '.join(map(identifier, tables))}"


def _put_back(thing: OnServer, address: ServerAddress, doors: Doors) -> None:
    refused = _sent(_changes(thing), address, doors.sql)
    if len(refused) == len(thing.saved) and _is_as_it_was(thing, address, doors.sql):
        return  # the server refuses ALTER SYSTEM, and refused the first change, too
    _have_read(thing, address, doors)
    # Before 17 a setting of a library is not known to a server that has not loaded it.
    if refused:
        refused = _sent(refused, address, doors.sql)
        _have_read(thing, address, doors)
    if refused and not _is_as_it_was(thing, address, doors.sql):
        raise LeftBehindError(
            f"the server refuses {'; '.join(refused)}: {next(iter(refused.values()))}",
            hint="All other settings are back. Send these as a superuser when the server takes"
            " them, then SELECT pg_reload_conf().",
        )


def _have_read(thing: OnServer, address: ServerAddress, doors: Doors) -> None:
    """Have a server read its file, and restart it where it still runs with another value."""
    if trouble := file_trouble(address, doors.sql, f"{address.host}:{address.port}"):
        raise LeftBehindError(
            f"postgresql.auto.conf has its old values again, but {trouble}",
            hint="Correct the file, and run `steelyard clean` again.",
        )
    reload(address, doors.sql, doors.clock)
    names = [saved.name for saved in thing.saved]
    if thing.restart_command and doors.sql.rows(address, _PENDING, [names]):
        restart(thing.restart_command, lambda: address, doors)


def _sent(changes: Iterable[str], address: ServerAddress, sql: Sql) -> dict[str, str]:
    """Send statements one by one; return those that the server refused, with its words."""
    refused = {}
    for change in changes:
        try:
            sql.execute(address, [_TAKE_THE_TIME, change])
        except RefusedError as error:
            refused[change] = error.message
    return refused


def _is_as_it_was(thing: OnServer, address: ServerAddress, sql: Sql) -> bool:
    try:
        return in_system_file([saved.name for saved in thing.saved], sql, address) == thing.saved
    except TargetError:
        return False


def _drop_database(thing: OnServer, address: ServerAddress, sql: Sql) -> None:
    found = sql.rows(address, _DATABASE_MARK, [thing.database])
    if not found:
        return
    # Without any comment it was made a moment before the death, and its name tells whose it is.
    if found[0][0] != thing.mark and not (found[0][0] is None and _is_named_by(thing)):
        raise _not_ours(f"database {thing.database}", thing)
    version = int(str(sql.rows(address, _VERSION)[0][0]))
    drop = drop_database(thing.database, version)
    sql.execute(address, [_TAKE_THE_TIME, drop])


def _is_named_by(thing: OnServer) -> bool:
    token = token_of(thing.mark.removeprefix(POSTGRES_MARK))
    return re.search(rf"_{re.escape(token)}(_[0-9]+)?(_prepared)?\Z", thing.database) is not None


def _drop_tables(thing: OnServer, address: ServerAddress, sql: Sql) -> None:
    ours = []
    for name in thing.names:
        found = sql.rows(address, _TABLE_MARK, [identifier(name)] * 2)
        if found and found[0][0] != thing.mark:
            raise _not_ours(f"table {name} in database {thing.database}", thing)
        ours += [name] if found else []
    if ours:
        sql.execute(address, [_TAKE_THE_TIME, _drop_all(ours)])


def _not_ours(what: str, thing: OnServer) -> LeftBehindError:
    return LeftBehindError(
        f"{what} on {host_and_port(thing.host, thing.port)} does not carry the mark {thing.mark!r},"
        " so it is left as it is",
        hint="Look at it, and drop it by hand if it is not needed.",
    )
