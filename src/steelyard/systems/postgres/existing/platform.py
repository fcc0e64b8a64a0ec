"""A PostgreSQL server that is there already, as a platform: changed by SQL, left as it was found.

Invariant: every database, table and setting is in the ledger before it is made or changed, and is
gone or put back after ``destroy``.

Several configurations may be up at the same time on one server: the sessions of each have its
settings, and nothing is altered.
"""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from typing import Final

from steelyard.core import outside
from steelyard.core.experiment import EffectiveSetting
from steelyard.core.findings import Fact, Finding, facts_about
from steelyard.core.places import Provision
from steelyard.core.target import EndpointTarget
from steelyard.core.wording import PreflightError, TargetError, format_bytes
from steelyard.gateways.doors import Doors
from steelyard.gateways.sql import NO_ENTRY, Sql, parsed_uri, prepared_name
from steelyard.places import protocol
from steelyard.places.elsewhere import reset_by, token_of
from steelyard.systems import existing
from steelyard.systems.postgres.existing import copying
from steelyard.systems.postgres.existing import server as readiness
from steelyard.systems.postgres.pgbench import environment


def keywords_of(target: EndpointTarget) -> Mapping[str, str]:
    """Return the libpq keywords that the target gives; libpq finds the rest.

    Raises:
        InputError: Its URI is none.
    """
    given = {
        "host": target.host,
        "port": target.port,
        "user": target.user,
        "dbname": target.dbname,
        "service": target.service,
    }
    keywords = dict(parsed_uri(target.uri)) if target.uri else {}
    return keywords | {name: str(value) for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointOptions:
    """How a campaign uses a server.

    Attributes:
        entrance: Where libpq found it; of no use where its place is known.
        settings: Names of all settings that any configuration on it asks for.
        restarts: Whether every start restarts it.
        clients: Of the largest load, for each of the configurations that are up ``at_once``.
        sessions: Settings are of own sessions only, whoever asks: nothing is changed for everyone.
        alters: The user may change all of them for everyone, though no superuser.
        writes: A workload may change the data.
        lifted: Limits by the clock, as they are there, which the sessions of the load go without.
        is_pooled: A pooler is in between.
        passes: Sessions get what they ask for by libpq's ``options``.
        obstacles: What keeps a change for everyone from the sessions, each with the way out.
        copied: Tables of the database at the entrance that data sets begin with; None: none do.
    """

    target: EndpointTarget
    entrance: outside.ServerAddress
    campaign_id: str
    datasets: tuple[readiness.DatasetNeeds, ...]
    settings: tuple[str, ...]
    restarts: bool
    clients: int
    at_once: int = 1
    sessions: bool = False
    alters: bool = False
    writes: bool = True
    lifted: Mapping[str, str] = field(default_factory=dict)
    is_pooled: bool = False
    passes: bool = True
    obstacles: tuple[tuple[str, str], ...] = ()
    copied: copying.CopyPlan | None = None

    @property
    def existing(self) -> str | None:
        """Return the existing database that may be used; None without permission or a name."""
        if not self.target.allow_existing:
            return None
        return self.target.dbname if self.target.inside else self.entrance.database or None


class EndpointPlatform(existing.OthersServer):
    """One running server.

    Args:
        place: Where it is; None: at the entrance of the options, and nothing else is known of it.
    """

    def __init__(
        self,
        options: EndpointOptions,
        ledger: protocol.Ledger,
        doors: Doors,
        place: existing.ServerPlace | None = None,
    ) -> None:
        here = place or existing.Anywhere(options.entrance)
        again = options.target.restart_command
        announcing = existing.Announcing(
            place=here,
            mark=f"{outside.POSTGRES_MARK}{options.campaign_id}",
            undo=readiness.undo,
            restart_command=again if options.restarts else (),
        )
        super().__init__(options.campaign_id, announcing, ledger, doors)
        self._options = options
        self._databases = self._databases_of(self._changes)
        self._alter_system = readiness.AlterSystem(
            options.settings, doors, self._place.entrance, again, self._changes.keep
        )
        self._session: Mapping[str, str] = {}
        self._state: readiness.ServerState | None = None

    @property
    def changes(self) -> existing.Changes:
        """Return what is made and changed there, to be undone in the end."""
        return self._changes

    def _databases_of(
        self, changes: existing.Changes, suffix: str = "", own: "OwnData | None" = None
    ) -> readiness.Databases:
        options = self._options
        token = token_of(options.campaign_id)
        naming = readiness.Naming(
            token=token,
            mark=self._mark,
            existing=options.existing,
            suffix=suffix,
            is_changed=own is not None and own.change is not None,
            is_kept=own is not None and not options.writes,
        )
        return readiness.Databases(naming, options.datasets, self._doors.sql, changes.announce)

    @property
    def _store(self) -> existing.SettingStore | None:
        """Return where settings are changed for everyone; None: of own sessions only."""
        if self._options.sessions:
            return None
        store = self._place.store(self._alter_system)
        may_alter = self.state.superuser or self._options.alters
        return None if store is self._alter_system and not may_alter else store

    @property
    def state(self) -> readiness.ServerState:
        """Return what the server said of itself when it was first asked."""
        if self._state is None:
            found = self._entrance.database if self._options.target.allow_existing else ""
            self._state = readiness.read_state(self._entrance, self._doors.sql, self._mark, found)
        return self._state

    def _inside(self, entrance: outside.ServerAddress) -> outside.ServerAddress:
        live, options = self._databases.live, self._options
        reading = {readiness.READ_ONLY: "on"} if self._only_read and options.passes else {}
        return replace(
            readiness.with_settings(
                entrance, {**self._session, **reading, **dict.fromkeys(options.lifted, "0")}
            ),
            database=live[0][1] if live else entrance.database,
            databases=live,
        )

    @property
    def _only_read(self) -> bool:
        """Return whether a function that writes is to fail, whatever its name promises.

        The data are somebody's, or all configurations read them.
        """
        options = self._options
        return not options.writes and (options.sessions or options.target.allow_existing)

    def _started_at(self) -> object:
        return self._doors.sql.rows(self._entrance, readiness.STARTED_AT)[0][0]

    def require_ready(self) -> None:
        """Check the server before anything is made or changed there.

        Raises:
            PreflightError: It takes no writes, has too few connections or no room for own
                databases, or its settings cannot be changed alone.
        """
        self._place.require_ready()
        state = self.state
        options = self._options
        if why := _writes(options):
            readiness.require_writable(state, self._where, why)
        if not options.is_pooled or options.at_once > 1:
            readiness.require_connections(state, options.clients, options.at_once, self._where)
        if options.settings:
            self._require_changeable()
        self._require_database()
        if options.copied is not None:
            copying.require_copies(options.copied, is_pooled=options.is_pooled, where=self._where)
        if options.target.reset_command:
            readiness.require_resettable(
                options.target, options.datasets, self._where, writes=options.writes
            )

    def _require_changeable(self) -> None:
        options, store = self._options, self._store
        if store is None:
            if not options.passes:
                raise PreflightError(
                    f"{self._entrance.user} can change settings of own sessions only, and the"
                    f" pooler at {self._where} does not pass them on (libpq's `options`)",
                    hint="Name the server itself, not the pooler, or connect as a superuser.",
                )
            return
        existing.require_no_campaign(self.state.other_marks, self._where)
        if options.obstacles:
            facts, ways = zip(*options.obstacles, strict=True)
            raise PreflightError("\n".join(facts), hint=" ".join(ways))
        if store is self._alter_system:
            readiness.require_alter_system(self.state, self._where)
            if trouble := readiness.file_trouble(self._entrance, self._doors.sql, self._where):
                raise PreflightError(trouble, hint=readiness.CORRECT_FILE)

    def _require_database(self) -> None:
        named = self._options.existing
        if self._options.target.allow_existing and named is None:
            raise PreflightError(
                "an existing database may be used, and none is named",
                hint="Name it with `dbname:` in the target, or leave `allow_existing` out.",
            )
        if named is not None:
            inside = replace(self._entrance, database=named)
            readiness.require_usable(
                named, self._options.datasets, inside, self._doors.sql, self._mark
            )
        elif not self.state.makes_databases:
            raise PreflightError(
                f"{self._entrance.user} may not create a database at {self._where}, and Steelyard"
                " uses none that it did not make",
                hint="ALTER ROLE ... CREATEDB; or measure in a database that is there: name it with"
                " `dbname:` and allow it by `allow_existing: true` or --allow-existing, or give"
                " `steelyard try` a --script on its tables.",
            )
        elif self._options.is_pooled:
            require_any_database(self._entrance, self._doors.sql, self._where)

    def prepare(
        self,
        program: outside.ServerProgram,
        content: Sequence[object],
        build: Callable[[outside.ServerAddress], None],
    ) -> protocol.PreparedState:
        """Return the state, made now in databases of our own or in the one that is allowed."""
        if self._prepared is None:
            means = self.means()[0]
            self._databases.make(means, self._entrance)
            place = replace(self._entrance, databases=self._databases.names(means))
            try:
                build(place)
                self._databases.mark_tables(place)
            except BaseException:  # without their mark they would never be dropped
                self._databases.mark_tables(place, is_torn=True)
                raise
            self._prepared = self._state_of(program, content)
        return self._prepared

    def means(self) -> tuple[str, ...]:
        """Return how data go back here: by command, from templates where we may, or by vacuum."""
        if self._options.target.reset_command:
            return (readiness.COMMAND,)
        if self._options.target.allow_existing or self._options.target.restore == readiness.VACUUM:
            return (readiness.VACUUM,)
        return (readiness.TEMPLATE,)

    def restore(self, state: protocol.PreparedState, means: str) -> float:
        """Bring the data back as far as the means goes; return the seconds."""
        begun = self._doors.clock.monotonic()
        self._since = None
        if means == readiness.COMMAND:
            self._reset()
        elif means == readiness.TEMPLATE:
            self._databases.copy(self._entrance, self.state.version_num)
        else:
            self._databases.vacuum(replace(self._entrance, databases=self._databases.live))
        return self._doors.clock.monotonic() - begun

    def _reset(self) -> None:
        target = self._options.target
        place = replace(self._entrance, database=self._options.existing or "")
        variables = {**environment(place), "PGAPPNAME": _RESETTING}
        command = outside.Command(argv=target.reset_command, environment=variables)
        reset_by(command, self._doors, self._started_at, timeout_s=target.reset_timeout_s)

    def has_live_copy(self, state: protocol.PreparedState) -> bool:
        """Return false where the measured databases are yet to be copied."""
        live = {name for _, name in self._databases.live}
        return self._options.target.allow_existing or live <= self._changes.databases

    def start(
        self,
        state: protocol.PreparedState,
        program: outside.ServerProgram,
        settings: Mapping[str, str],
    ) -> None:
        """Bring settings into force, by a restart where the campaign needs one."""
        store, restarts = self._store, self._options.restarts
        if store is not None:
            store.activate(settings, restarts=restarts)
        else:
            self._session = dict(settings)
            if restarts:
                readiness.restart(
                    self._options.target.restart_command, self._place.entrance, self._doors
                )
        self._since = self._started_at()

    def configure(self, settings: Mapping[str, str]) -> bool:
        store = self._store
        if store is not None:
            return store.change(settings)
        self._session = dict(settings)
        return False

    def provision(self) -> Provision:
        """Return what the place says that it gives the server; of an address nothing is known."""
        return self._place.provision()

    def facts(self) -> tuple[Fact, ...]:
        options = self._options
        state, target, store = self.state, options.target, self._store
        is_guarded = self._options.passes or not self._only_read
        memory, cpus = target.told_memory_bytes, target.told_cpus
        facts = {
            "address": self._where,
            "user": f"{self._entrance.user}, {'' if state.superuser else 'not '}a superuser",
            "standby": "yes" if state.standby else "",
            "TLS": "yes" if state.tls else "no",
            "settings": "of own sessions only" if store is None else store.label,
            "restarted for a configuration": "yes" if self._options.restarts else "never",
            "data brought back by": shlex.join(target.reset_command),
            "read-only sessions": "" if is_guarded else _NOT_PASSED,
            # The user says so; nobody has seen it.
            "memory, as told": "" if memory is None else format_bytes(memory),
            "CPUs, as told": "" if cpus is None else f"{cpus:g}",
            "database": (self._options.existing or "")
            if target.allow_existing
            else "Steelyard's own",
            "tables copied": "" if options.copied is None else options.copied.label,
            "copies take": "" if options.copied is None else options.copied.costs,
        }
        return (*facts_about("endpoint", facts), *self._place.facts())

    def findings(self) -> tuple[Finding, ...]:
        said = readiness.state_findings(self.state, self._where, alters=self._options.alters)
        found = self._with_place(said)
        weakly = self._options.writes and self.means() == (readiness.VACUUM,)
        weaker = (readiness.weaker_reset(self._where),) if weakly else ()
        target = self._options.target
        told = (readiness.reset_by_command(target, self._where),) if target.reset_command else ()
        copied = self._options.copied
        copies = () if copied is None else (readiness.on_copies(copied.label, self._where),)
        return (*found, *weaker, *told, *copies)


def _writes(options: EndpointOptions) -> str:
    if not options.target.allow_existing or any(each.tables for each in options.datasets):
        return "Steelyard would make the data there"
    return "the scripts may change data" if options.writes else ""


_NOT_PASSED: Final = (
    "no: a pooler in between does not pass them on, so a function that writes is not stopped"
)
_RESETTING: Final = "steelyard-reset"
_SESSIONS: Final = 3  # a pooler in transaction mode has one backend for all that are idle
_NAME: Final = "steelyard-sessions"
_PATIENCE_S: Final = 10.0
_SHOWN: Final = """
SELECT name, CASE source WHEN 'session' THEN reset_val ELSE setting END, unit
FROM pg_settings WHERE lower(name) = ANY(%s)
"""
# With a parameter it is not prepared: a pooler gives the name of a statement to a backend.
_BACKEND: Final = "SELECT pg_backend_pid() WHERE %s <> ''"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnData:
    """How a configuration comes to data that differ from those of others on its server.

    Attributes:
        build: Makes what all have in common.
        change: Applies what is its own; None: it has nothing of its own.
    """

    build: Callable[[outside.ServerAddress], None]
    change: Callable[[outside.ServerAddress], None] | None


class EndpointSessions(EndpointPlatform):
    """The sessions of one configuration on a server that has those of others at the same time.

    What is made there is the server's own to undo, so that it is undone once.

    Args:
        server: As a whole: it has the prepared data.
        number: Of the databases that this configuration writes into; None: all read the same ones.
        own: How its data come to differ; None: they are those of all.
    """

    def __init__(
        self,
        options: EndpointOptions,
        ledger: protocol.Ledger,
        doors: Doors,
        *,
        server: EndpointPlatform,
        number: int | None,
        own: OwnData | None = None,
    ) -> None:
        super().__init__(options, ledger, doors)
        self._server = server
        self._number = number
        self._own = own
        self._changes = server.changes
        suffix = "" if number is None else f"_{number}"
        self._databases = self._databases_of(server.changes, suffix, own)

    def find(
        self, program: outside.ServerProgram, content: Sequence[object]
    ) -> protocol.PreparedState | None:
        """Return the state of the server, or of its own where it differs."""
        return self._server.find(program, content) if self._own is None else self._prepared

    def prepare(
        self,
        program: outside.ServerProgram,
        content: Sequence[object],
        build: Callable[[outside.ServerAddress], None],
    ) -> protocol.PreparedState:
        """Return the state of the server, made now where it is not there, with its own changes."""
        if self._prepared is None or self._own is None:
            common = build if self._own is None else self._own.build
            self._prepared = self._server.prepare(program, content, common)
            if self._own is not None and self._own.change is not None:
                self._databases.change(self._entrance, self.state.version_num)
                means = readiness.TEMPLATE
                self._own.change(replace(self._entrance, databases=self._databases.names(means)))
                self._prepared = self._state_of(program, content)
        return self._prepared

    def restore(self, state: protocol.PreparedState, means: str) -> float:
        """Copy the own databases anew; those that all read are copied once."""
        begun = self._doors.clock.monotonic()
        self._since = None
        is_kept = self._own is not None and not self._options.writes
        if is_kept:
            return 0.0
        if means == readiness.TEMPLATE and (
            self._number is not None or not self.has_live_copy(state)
        ):
            self._databases.copy(self._entrance, self.state.version_num)
        return self._doors.clock.monotonic() - begun

    def start(
        self,
        state: protocol.PreparedState,
        program: outside.ServerProgram,
        settings: Mapping[str, str],
    ) -> None:
        """Let sessions have the settings from now on."""
        self._session = dict(settings)
        self._since = self._started_at()


_IN_POOL_WITHIN_S: Final = 5.0  # a pooler has a backend for a session; a guess
_NOWHERE: Final = "steelyard_not_there"


def require_pool(address: outside.ServerAddress, sql: Sql, *, clients: int, prepared: bool) -> None:
    """Raise when a load cannot go through the pooler that is in between.

    Args:
        address: Of the pooler.
        sql: To reach it.
        clients: Of the largest load.
        prepared: The load prepares its statements.

    Raises:
        PreflightError: It takes no transactions (statement mode), serves too few sessions at the
            same time, or gives prepared statements to other sessions (transaction mode).
        TargetError: The server lets nobody in.
    """
    where = f"{address.host}:{address.port}"
    with closing(sql.session(address, _NAME, patience_s=_PATIENCE_S)) as session:
        try:
            session.do("BEGIN")
            session.do("ROLLBACK")
        except TargetError as error:
            raise PreflightError(
                f"the pooler at {where} takes no transactions (statement mode): {error.message}",
                hint="Name the server itself, or a pooler with `pool_mode = session`.",
            ) from error
    _require_sessions(address, sql, clients, where)
    if prepared and (why := _forgotten(address, sql)):
        raise PreflightError(
            f"the pooler at {where} does not keep a session's prepared statements (transaction"
            f" mode): {why}",
            hint="Set `load.protocol` to extended or simple, or name the server itself.",
        )


def _require_sessions(address: outside.ServerAddress, sql: Sql, clients: int, where: str) -> None:
    needed = clients + readiness.OUR_SESSIONS
    with ExitStack() as stack:
        for served in range(needed):
            try:
                session = sql.session(address, _NAME, patience_s=_IN_POOL_WITHIN_S)
                stack.enter_context(closing(session)).rows(_BACKEND, [_NAME])
            except TargetError as error:
                raise PreflightError(
                    f"the pooler at {where} serves {served} sessions at the same time; {clients}"
                    f" clients need {needed}, with {readiness.OUR_SESSIONS} for Steelyard. The"
                    f" next one failed: {error.message}",
                    hint=f"Let it have {needed}: default_pool_size (or pool_size of the database),"
                    " max_db_connections, max_user_connections, max_client_conn; or lower"
                    " `load.clients`.",
                ) from error


def _forgotten(address: outside.ServerAddress, sql: Sql) -> str:
    """Return why a session does not find what it has prepared; empty where it does.

    Another session's transaction takes the backend on which it was prepared, if it can.
    """
    statement = "SELECT 1"
    with (
        closing(sql.session(address, _NAME, patience_s=_IN_POOL_WITHIN_S)) as session,
        closing(sql.session(address, _NAME, patience_s=_IN_POOL_WITHIN_S)) as other,
    ):
        try:
            session.rows(statement)
            other.do("BEGIN")
            session.rows(statement)
        except TargetError as error:
            with suppress(TargetError):
                other.do(f"DEALLOCATE {prepared_name(statement)}")
            return error.message
    return ""


def require_any_database(address: outside.ServerAddress, sql: Sql, where: str) -> None:
    """Raise when a pooler leads to those databases only that it lists.

    Another one is asked for than will be made: a pooler remembers failures for a while.

    Raises:
        PreflightError: It has no entry for databases that Steelyard makes.
    """
    try:
        sql.rows(replace(address, database=_NOWHERE), readiness.STARTED_AT)
    except TargetError as error:
        if re.search(NO_ENTRY, error.message):
            raise PreflightError(
                f"the pooler at {where} does not lead to databases that Steelyard makes:"
                f" {error.message}",
                hint="Add an entry `*` to its [databases], name the server itself, or give"
                " `steelyard try` a --script on the tables of your database.",
            ) from error


def mixed_sessions(address: outside.ServerAddress, sql: Sql) -> str:
    """Return why sessions there have no backend of their own, as a clause; empty where they have.

    In transaction pooling several open sessions are seen on one backend, or one on several.

    Raises:
        TargetError: The server lets nobody in.
    """
    with ExitStack() as stack:
        sessions = [
            stack.enter_context(closing(sql.session(address, _NAME, patience_s=_PATIENCE_S)))
            for _ in range(_SESSIONS)
        ]
        seen = [[str(each.rows(_BACKEND, [_NAME])[0][0]) for each in sessions] for _ in range(2)]
    first, again = seen
    if len(set(first)) < len(first) or first != again:
        return "a pooler gives transactions of one session to several backends (transaction mode)"
    return ""


def shown_settings(
    settings: Mapping[str, str], address: outside.ServerAddress, sql: Sql
) -> tuple[EffectiveSetting, ...]:
    """Return how several new sessions with settings of their own show these settings.

    Raises:
        TargetError: None of them comes about.
    """
    own = readiness.with_settings(address, settings)
    names = [name.lower() for name in settings]
    rows = [row for _ in range(_SESSIONS) for row in sql.rows(own, _SHOWN, [names])]
    return tuple(
        EffectiveSetting(name=str(name), value=str(value), unit=None if unit is None else str(unit))
        for name, value, unit in rows
    )
