"""A server that is there already, as a platform: changed through SQL, left as it was found.

Invariant: every database, table and setting is in the ledger before it is made or changed, and is
gone or put back after ``destroy``.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from steelyard.gateways.files import cache_directory, free_bytes, make_directory, remove_tree
from steelyard.model.command import Command, Completed, ServerAddress
from steelyard.model.environment import Fact
from steelyard.model.errors import PreflightError, SteelyardError, TargetError
from steelyard.model.findings import Finding, Severity
from steelyard.model.outside import Foreign, OnServer, SavedSetting
from steelyard.model.program import ServerProgram
from steelyard.model.target import EndpointTarget
from steelyard.model.vantage import Vantage
from steelyard.platforms.endpoint import readiness
from steelyard.platforms.endpoint.connection import named_database
from steelyard.platforms.endpoint.databases import (
    TEMPLATE,
    VACUUM,
    Databases,
    DatasetNeeds,
    Naming,
    require_usable,
)
from steelyard.platforms.endpoint.restarting import STARTED_AT, Means, reload, restart
from steelyard.platforms.endpoint.settings import SystemSettings
from steelyard.platforms.endpoint.statements import session_options
from steelyard.platforms.endpoint.undoing import undo
from steelyard.platforms.log_place import LogPlace
from steelyard.platforms.platform import Ledger, LimitsInForce, PreparedState, Unfit


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointOptions:
    """How a campaign uses a server.

    Attributes:
        entrance: Where libpq found it.
        settings: Names of all settings that any treatment on it asks for.
        restarts: Whether every activation restarts it.
        clients: Of the largest load.
    """

    target: EndpointTarget
    entrance: ServerAddress
    campaign_id: str
    datasets: tuple[DatasetNeeds, ...]
    settings: tuple[str, ...]
    restarts: bool
    clients: int


class EndpointPlatform:
    """One running server."""

    def __init__(self, options: EndpointOptions, ledger: Ledger, means: Means) -> None:
        self._options = options
        self._entrance = options.entrance
        self._ledger = ledger
        self._means = means
        self._mark = f"{readiness.MARK}{options.campaign_id}"
        self._live = cache_directory() / "live" / options.campaign_id
        self._logs = LogPlace(ledger, account=None, beside=lambda: self._made(self._live))
        self._databases = Databases(
            _naming(options, self._mark), options.datasets, means.sql, self._announce
        )
        self._system = SystemSettings(options.settings, means.sql, self._keep)
        self._done: list[OnServer] = []
        self._prepared: PreparedState | None = None
        self._session: Mapping[str, str] = {}
        self._since: object = None
        self._state: readiness.ServerState | None = None

    @property
    def _where(self) -> str:
        return f"{self._entrance.host}:{self._entrance.port}"

    @property
    def state(self) -> readiness.ServerState:
        """Return what the server said of itself when it was first asked."""
        if self._state is None:
            self._state = readiness.read_state(self._entrance, self._means.sql, self._mark)
        return self._state

    @property
    def address(self) -> ServerAddress:
        """Return where sessions under the treatment in force go.

        Raises:
            TargetError: No treatment is in force.
        """
        if self._since is None:
            raise TargetError("no treatment is in force on the server")
        return self._in_session(self._entrance)

    def _in_session(self, address: ServerAddress) -> ServerAddress:
        """Return an address whose sessions have the treatment's own settings."""
        parameters = dict(address.parameters)
        own = [parameters.get("options", ""), session_options(self._session)]
        if options := " ".join(filter(None, own)):
            parameters["options"] = options
        live = self._databases.live
        return replace(
            address,
            database=live[0][1] if live else address.database,
            parameters=tuple(parameters.items()),
            databases=live,
        )

    @property
    def root(self) -> Path | None:
        """Return None: the data take no disk of this machine."""
        return None

    @property
    def scripts(self) -> Path:
        """Return a directory whose files the generator can read."""
        return self._made(self._live / "scripts")

    @property
    def is_running(self) -> bool:
        """Return whether the server answers and was not restarted since the activation."""
        try:
            return self._since is not None and self._started_at() == self._since
        except TargetError:
            return False

    def _started_at(self) -> object:
        return self._means.sql.rows(self._entrance, STARTED_AT)[0][0]

    def require_ready(self) -> None:
        """Check the server before anything is made or changed there.

        Raises:
            PreflightError: It takes no writes, has too few connections or no room for own
                databases, or its settings cannot be changed alone.
        """
        state = self.state
        readiness.require_writable(state, self._where)
        readiness.require_connections(state, self._options.clients, self._where)
        readiness.require_alone(state, self._options.settings, self._where)
        self._require_database()

    def _require_database(self) -> None:
        named, target = named_database(self._options.target), self._options.target
        if target.allow_existing and named is None:
            raise PreflightError(
                "an existing database may be used, and none is named",
                hint="Name it with `dbname:` in the target, or leave `allow_existing` out.",
            )
        if target.allow_existing and named is not None:
            inside = replace(self._entrance, database=named)
            require_usable(named, self._options.datasets, inside, self._means.sql, self._mark)
        elif not self.state.makes_databases:
            raise PreflightError(
                f"{self._entrance.user} may not create a database at {self._where}, and Steelyard"
                " uses none that it did not make",
                hint="ALTER ROLE ... CREATEDB, or name a database with `dbname:` and allow it by"
                " `allow_existing: true` or --allow-existing.",
            )

    def find(self, program: ServerProgram, content: Sequence[object]) -> PreparedState | None:
        """Return the state that this session has made, or None: none is kept on the server."""
        return self._prepared

    def prepare(
        self,
        program: ServerProgram,
        content: Sequence[object],
        build: Callable[[ServerAddress], None],
    ) -> PreparedState:
        """Return the state, made now in databases of our own or in the one that is allowed."""
        if self._prepared is None:
            means = self.means()[0]
            self._databases.make(means, self._entrance)
            place = replace(self._entrance, databases=self._databases.names(means))
            build(place)
            self._databases.mark_tables(place)
            key = _token(repr((program.identity, content)))
            self._prepared = PreparedState(key=key, data=self._live, size_bytes=0)
        return self._prepared

    def vantage(self) -> Vantage | None:
        """Return None: it may run anywhere, and is nobody's to look into."""
        return None

    def means(self) -> tuple[str, ...]:
        """Return how data go back here: from templates where we may, else by vacuum."""
        if self._options.target.allow_existing or self._options.target.restore == VACUUM:
            return (VACUUM,)
        return (TEMPLATE,)

    def restore(self, state: PreparedState, means: str) -> float:
        """Bring the data back as far as the means goes; return the seconds."""
        begun = self._means.clock.monotonic()
        self._since = None
        if means == TEMPLATE:
            self._databases.copy(self._entrance, self.state.version_num)
        else:
            self._databases.vacuum(replace(self._entrance, databases=self._databases.live))
        return self._means.clock.monotonic() - begun

    def reprovision(
        self,
        program: ServerProgram,
        content: Sequence[object],
        build: Callable[[ServerAddress], None],
    ) -> PreparedState:
        """Refuse: nobody may remake what somebody else made.

        Raises:
            PreflightError: Always.
        """
        raise PreflightError(
            f"Steelyard did not make the server at {self._where} and cannot make it anew",
            hint="Use a target that Steelyard makes (`kind: local`), or leave `switch` out.",
        )

    def has_live_copy(self, state: PreparedState) -> bool:
        """Return false where the measured databases are yet to be copied."""
        made = {thing.database for thing in self._done}
        return self._options.target.allow_existing or {n for _, n in self._databases.live} <= made

    def start(
        self, state: PreparedState, program: ServerProgram, settings: Mapping[str, str]
    ) -> float:
        """Bring settings into force, by a restart where the campaign needs one."""
        begun = self._means.clock.monotonic()
        if self.configure(settings):
            reload(self._entrance, self._means)
        if self._options.restarts:
            restart(self._options.target.restart_command, self._entrance, self._means)
        self._since = self._started_at()
        return self._means.clock.monotonic() - begun

    def configure(self, settings: Mapping[str, str]) -> bool:
        """Take other settings; return whether the server has to read them."""
        if self.state.superuser:
            self._system.change(settings, self._entrance)
            return bool(self._options.settings)
        self._session = dict(settings)
        return False

    def unfit(self, limits: Mapping[str, str]) -> tuple[Unfit, ...]:
        """Return nothing: the file has none for an endpoint."""
        return ()

    def limit(self, limits: Mapping[str, str]) -> LimitsInForce:
        """Limit nothing: the machine of an endpoint is out of reach."""
        return LimitsInForce()

    def stop(self, *, keep_data: bool) -> None:
        """Leave the server alone: it is not ours to stop."""
        self._since = None

    def log_directory(self) -> Path:
        """Return a private directory for the generator's logs, in memory where there is room."""
        return self._logs.directory()

    def logs_in_memory(self) -> bool:
        """Return whether that directory lies in memory."""
        return self._logs.in_memory

    def run_together(
        self, commands: Sequence[Command], *, timeout_s: float
    ) -> tuple[Completed, ...]:
        """Run commands on this machine at the same time, recognisable by their directory."""
        directory = self._made(self._live)
        placed = [replace(command, directory=directory) for command in commands]
        return self._means.processes.run_together(placed, timeout_s=timeout_s)

    def copies_by_reflink(self, state: PreparedState) -> bool:
        """Return false: the files of the data are out of reach."""
        return False

    def free_bytes(self) -> int:
        """Return the free space of this machine's cache, where scripts go."""
        return free_bytes(cache_directory())

    def logs(self) -> str:
        """Return nothing: the server's log is out of reach."""
        return ""

    def facts(self) -> tuple[Fact, ...]:
        """Return what a reader must know of the server."""
        state, target = self.state, self._options.target
        facts = {
            "address": self._where,
            "user": f"{self._entrance.user}, {'' if state.superuser else 'not '}a superuser",
            "TLS": "yes" if state.tls else "no",
            "settings": "by ALTER SYSTEM" if state.superuser else "of own sessions only",
            "restarted for a treatment": "yes" if self._options.restarts else "never",
            "database": named_database(target) or ""
            if target.allow_existing
            else "Steelyard's own",
        }
        return tuple(Fact(name=n, value=v, subject="endpoint") for n, v in facts.items())

    def findings(self) -> tuple[Finding, ...]:
        """Return what is worth knowing of the server."""
        weaker = Finding(
            code="weaker-reset",
            severity=Severity.WARNING,
            message=f"the data at {self._where} go back by vacuum and truncate only: rows that a"
            " workload changed stay changed, and bloat that vacuum leaves stays",
            remedy="Let Steelyard make its own database: it is copied from a template each time.",
            subject=self._where,
        )
        found = (*readiness.state_findings(self.state, self._where),)
        return (*found, weaker) if self.means() == (VACUUM,) else found

    def destroy(self) -> None:
        """Put back what was changed and drop what was made, each thing whatever became of others.

        Raises:
            SteelyardError: The first trouble, after everything was tried.
        """
        self._since = None
        troubles: list[SteelyardError] = []
        for thing in sorted(self._done, key=lambda each: each.resource is not Foreign.SETTINGS):
            try:
                undo(thing, self._means, password=self._entrance.password)
                self._done.remove(thing)
                self._ledger.undone(thing)
            except SteelyardError as error:
                troubles.append(error)
        logs = self._logs.remove()
        if self._live.exists():
            remove_tree(self._live)
            self._ledger.removed(self._live)
        if logs is not None:
            self._ledger.removed(logs)
        if troubles:
            raise troubles[0]

    def _announce(self, resource: Foreign, database: str, names: tuple[str, ...]) -> None:
        entrance = database if resource is Foreign.TABLES else self._entrance.database
        thing = self._thing(resource, database=database, entrance=entrance)
        self._note(replace(thing, names=names))

    def _keep(self, saved: tuple[SavedSetting, ...]) -> None:
        again = self._options.target.restart_command if self._options.restarts else ()
        entrance = self._entrance.database
        thing = self._thing(Foreign.SETTINGS, database=entrance, entrance=entrance)
        self._note(replace(thing, saved=saved, restart_command=again))

    def _thing(self, resource: Foreign, *, database: str, entrance: str) -> OnServer:
        return OnServer(
            resource=resource,
            host=self._entrance.host,
            port=self._entrance.port,
            user=self._entrance.user,
            parameters=self._entrance.parameters,
            database=database,
            entrance=entrance,
            mark=self._mark,
        )

    def _note(self, thing: OnServer) -> None:
        self._ledger.changed(thing)
        self._done.append(thing)

    def _made(self, directory: Path) -> Path:
        if not self._live.exists():
            self._ledger.created(self._live)
        make_directory(directory)
        return directory


def _naming(options: EndpointOptions, mark: str) -> Naming:
    allowed = options.target.allow_existing
    return Naming(
        token=_token(options.campaign_id),
        mark=mark,
        existing=named_database(options.target) if allowed else None,
    )


def _token(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:10]
