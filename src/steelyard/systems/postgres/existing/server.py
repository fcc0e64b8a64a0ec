"""What a campaign changes on somebody else's PostgreSQL server: its databases and its settings.

The databases are the campaign's own, or one that it was allowed to use. Settings are changed for
everyone, or for a campaign's own sessions only. The SQL that changes a server is here as text.

Invariant: before the first change, what stood in the server's store for every setting of the
campaign is in the ledger.

Where a restart is needed, the user's own command restarts the server.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from steelyard.core.errors import PreflightError, TargetError
from steelyard.core.outside import Foreign, SavedSetting, ServerAddress
from steelyard.gateways.sql import Sql, reload
from steelyard.places.elsewhere import RestartMeans, restart_by
from steelyard.places.protocol import HostSight

# Lists whose items the server quotes one by one (GUC_LIST_QUOTE): written as one literal, a list
# would become a single name.
_QUOTED_LISTS = frozenset(
    {
        "local_preload_libraries",
        "search_path",
        "session_preload_libraries",
        "shared_preload_libraries",
        "temp_tablespaces",
        "unix_socket_directories",
    }
)
_ITEM = re.compile(r'\s*("(?:[^"]|"")*"|[^,"]+)\s*(?:,|$)')
_FORCE_FROM = 130000
_STRATEGY_FROM = 150000


def identifier(name: str) -> str:
    """Return a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as SQL writes it, whatever ``standard_conforming_strings`` says."""
    quoted = text.replace("'", "''")
    if "\\" in quoted:
        doubled = quoted.replace("\\", "\\\\")
        return f"E'{doubled}'"
    return f"'{quoted}'"


def set_system(name: str, value: str | None) -> str:
    """Return ALTER SYSTEM for one setting; None removes it from ``postgresql.auto.conf``."""
    named = ".".join(identifier(part) for part in name.split("."))
    if value is None:
        return f"ALTER SYSTEM RESET {named}"
    return f"ALTER SYSTEM SET {named} = {', '.join(map(literal, _items(name, value)))}"


def _items(name: str, value: str) -> list[str]:
    if name.lower() not in _QUOTED_LISTS or not value.strip():
        return [value]
    items = [match[1].strip() for match in _ITEM.finditer(value)]
    return [i[1:-1].replace('""', '"') if i.startswith('"') else i for i in items]


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


def copy_database(name: str, template: str, version_num: int) -> str:
    """Return CREATE DATABASE from a template, by copying files: little WAL."""
    strategy = " STRATEGY FILE_COPY" if version_num >= _STRATEGY_FROM else ""
    return f"CREATE DATABASE {identifier(name)} TEMPLATE {identifier(template)}{strategy}"


def mark_database(name: str, mark: str) -> str:
    """Return the statement that marks a database as Steelyard's."""
    return f"COMMENT ON DATABASE {identifier(name)} IS {literal(mark)}"


def mark_tables(names: Iterable[str], mark: str) -> list[str]:
    """Return the statements that mark tables as Steelyard's."""
    return [f"COMMENT ON TABLE {identifier(name)} IS {literal(mark)}" for name in names]


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
    """

    name: str
    tables: bool
    scripts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """What a campaign calls its things on a server.

    Attributes:
        token: Of the campaign, part of every name.
        existing: Database that it was allowed to use instead of own ones, or None.
        suffix: Of the databases that are measured in, where several configurations have their own.
    """

    token: str
    mark: str
    existing: str | None
    suffix: str = ""

    def live(self, dataset: str) -> str:
        """Return the database that is measured in."""
        return self.existing or f"{dataset}_{self.token}{self.suffix}"

    def prepared(self, dataset: str) -> str:
        """Return the database that copies are made of."""
        return f"{dataset}_{self.token}_prepared"


class Databases:
    """Makes, marks, copies and resets databases; who calls it writes the ledger.

    Args:
        announce: Called with kind, database and tables before they are made.
    """

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
        for _, database in self.names(means):
            self._create(database, f"CREATE DATABASE {identifier(database)}", address)

    def mark_tables(self, address: ServerAddress) -> None:
        """Mark the generator's tables in a database that Steelyard did not make."""
        for each in self._datasets:
            if self._naming.existing is not None and each.tables:
                marks = mark_tables(GENERATOR_TABLES, self._naming.mark)
                self._sql.execute(address.at(each.name), marks)

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

    def copy(self, address: ServerAddress, version_num: int) -> None:
        """Make every measured database anew from its template."""
        for each in self._datasets:
            live = self._naming.live(each.name)
            copy = copy_database(live, self._naming.prepared(each.name), version_num)
            if not self._sql.rows(address, _IS_THERE, [live]):
                self._create(live, copy, address)
                continue
            mark = mark_database(live, self._naming.mark)
            drop = drop_database(live, version_num)
            self._sql.execute(address, [drop, copy, mark])

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
            hint="Use one `scale_factor`, or let Steelyard make its own databases.",
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


STARTED_AT = "SELECT pg_postmaster_start_time()"


@dataclass(frozen=True, slots=True, kw_only=True)
class Means(RestartMeans):
    """The gateways that a change on a server needs.

    Attributes:
        load: The host that its load comes from; None: it comes from here, or from pods.
    """

    sql: Sql
    load: HostSight | None = None


def restart(
    command: tuple[str, ...],
    address: ServerAddress,
    means: Means,
    *,
    again: Callable[[], ServerAddress] | None = None,
) -> None:
    """Restart a server and return when it answers.

    Args:
        command: Of the user, run on this machine.
        address: Of the server.
        means: To run it and to look.
        again: Tells where the server is reached afterwards; None: where it was.

    Raises:
        TargetError: The command failed, or the server was not restarted by it.
    """
    reached = again or (lambda: address)
    restart_by(command, means, lambda: means.sql.rows(reached(), STARTED_AT))


class AlterSystem:
    """The store that every server has: ``postgresql.auto.conf``.

    Args:
        settings: What of it the campaign changes.
        entrance: Where the server is reached now.
        restart_command: Of the user; empty: the server is never restarted.
        means: To reach and restart it.
    """

    def __init__(
        self,
        settings: "SystemSettings",
        entrance: Callable[[], ServerAddress],
        restart_command: tuple[str, ...],
        means: Means,
    ) -> None:
        self._settings = settings
        self._entrance = entrance
        self._restart_command = restart_command
        self._means = means

    @property
    def label(self) -> str:
        """Return how settings are changed."""
        return "by ALTER SYSTEM"

    def change(self, settings: Mapping[str, str]) -> bool:
        """Write settings; the server has yet to read them."""
        self._settings.change(settings, self._entrance())
        return self._settings.are_some

    def activate(self, settings: Mapping[str, str], *, restarts: bool) -> None:
        """Write settings, have them read, and restart the server where asked."""
        if self.change(settings):
            reload(self._entrance(), self._means.sql, self._means.clock)
        if restarts:
            again = self._entrance
            restart(self._restart_command, again(), self._means, again=again)


# The last line for a setting is the one that counts; ALTER SYSTEM leaves one of each.
_IN_FILE = """
SELECT lower(name), setting FROM pg_file_settings
WHERE sourcefile LIKE '%postgresql.auto.conf' ORDER BY seqno
"""


class SystemSettings:
    """The settings that a campaign changes on one server.

    Args:
        names: Of every setting that any configuration on this server asks for.
        keep: Called with what stood there, before the first change.
    """

    def __init__(
        self, names: tuple[str, ...], sql: Sql, keep: Callable[[tuple[SavedSetting, ...]], None]
    ) -> None:
        self._names = names
        self._sql = sql
        self._keep = keep
        self._before: tuple[SavedSetting, ...] | None = None

    @property
    def are_some(self) -> bool:
        """Return whether the campaign changes any."""
        return bool(self._names)

    def change(self, asked: Mapping[str, str], address: ServerAddress) -> None:
        """Write the settings of a configuration; those it does not ask for go back to what was."""
        if not self._names:
            return
        if self._before is None:
            before = in_system_file(self._names, self._sql, address)
            self._keep(before)
            self._before = before
        by_name = {name.lower(): value for name, value in asked.items()}
        wanted = {saved.name: by_name.get(saved.name, saved.value) for saved in self._before}
        self._sql.execute(address, [set_system(n, v) for n, v in wanted.items()])


def in_system_file(
    names: Sequence[str], sql: Sql, address: ServerAddress
) -> tuple[SavedSetting, ...]:
    """Return what stands in ``postgresql.auto.conf`` for each of these settings.

    Raises:
        TargetError: The server cannot be reached, or does not show its files to this user.
    """
    found = {str(name): str(value) for name, value in sql.rows(address, _IN_FILE)}
    folded = dict.fromkeys(name.lower() for name in names)
    return tuple(SavedSetting(name=name, value=found.get(name)) for name in folded)
