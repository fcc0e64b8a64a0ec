"""A Redis server that is there already, as a platform: left as it was found.

Invariant: every database that is used and every setting that is changed is in the ledger before,
and is empty or put back after ``destroy``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from steelyard.core.errors import PreflightError, SteelyardError, TargetError
from steelyard.core.findings import Finding
from steelyard.core.measurement import Fact
from steelyard.core.outside import Foreign, Guest, OnServer, ServerAddress, ServerProgram
from steelyard.gateways.redis import TLS, ReplyError, opened
from steelyard.places.elsewhere import restart_by
from steelyard.places.protocol import Ledger, PausedPrograms, PreparedState
from steelyard.systems.existing import (
    Announcing,
    Anywhere,
    OthersServer,
    ServerPlace,
    require_no_campaign,
)
from steelyard.systems.redis.existing import databases as eviction
from steelyard.systems.redis.existing import readiness
from steelyard.systems.redis.existing.connection import RedisMeans, refused
from steelyard.systems.redis.existing.databases import (
    Databases,
    Naming,
    keys_of_others,
    mark_of,
    other_marks,
)
from steelyard.systems.redis.existing.readiness import Guests
from steelyard.systems.redis.existing.settings import (
    RESTART_VARIABLE,
    ServerSettings,
    restart_text,
    settle,
    undo_on_redis,
    unsettled_by,
)

REFILL = "refill"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisEndpointOptions:
    """How a campaign uses a server.

    Attributes:
        entrance: Where it is reached; of no use where its place is known.
        first: Number of the first database that is used; None: the first empty one.
        datasets: Name of each, and about how much memory it takes.
        growing: Names of workloads whose data grow without bound.
        settings: Names of all settings that any configuration on it asks for.
        asked: These names in small letters, each with every value that is asked for.
        allow_existing: It may hold keys of others.
        restart_command: Restarts it at every start; empty: it is never restarted.
        clients: Of the largest load.
        guest: What a user has to be allowed who sends the load, as rules for ACL SETUSER.
    """

    entrance: ServerAddress
    first: int | None = None
    campaign_id: str
    datasets: tuple[tuple[str, int], ...]
    growing: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    asked: tuple[tuple[str, str], ...] = ()
    allow_existing: bool = False
    restart_command: tuple[str, ...] = ()
    clients: int
    guest: tuple[str, ...] = ()


class RedisEndpointPlatform(OthersServer):
    """One running Redis server.

    Args:
        options: How it is used.
        ledger: Is told before anything is made or changed.
        means: To reach it, and to run the generator.
        place: Where it is; None: at the entrance of the options, and nothing else is known of it.
        paused: As of every server of others.
    """

    def __init__(
        self,
        options: RedisEndpointOptions,
        ledger: Ledger,
        means: RedisMeans,
        place: ServerPlace | None = None,
        paused: PausedPrograms | None = None,
    ) -> None:
        announcing = Announcing(
            place=place or Anywhere(options.entrance),
            mark=mark_of(options.campaign_id),
            restart_command=options.restart_command,
            settings=Foreign.CONFIG,
        )
        super().__init__(options.campaign_id, announcing, ledger, means.processes, paused)
        self._options = options
        self._means = means
        naming = Naming(
            mark=self._mark,
            datasets=tuple(name for name, _ in options.datasets),
            first=options.first,
        )
        self._databases = Databases(
            naming, means, lambda number: self._changes.announce(Foreign.KEYS, number, ())
        )
        self._guests = Guests(
            options.guest,
            means,
            lambda name: self._changes.announce(Foreign.USER, "", (name,)),
        )
        self._guest: Guest | None = None
        self._settings = ServerSettings(options.settings, means, self._changes.keep)
        self._build: Callable[[ServerAddress], None] | None = None
        self._is_filled = False
        self._state: readiness.ServerState | None = None
        self._unsettled_by: tuple[str, ...] = ()

    @property
    def state(self) -> readiness.ServerState:
        """Return what the server said of itself when it was first asked."""
        if self._state is None:
            self._state = readiness.read_state(self._entrance, self._means, self._where)
        return self._state

    def _inside(self, entrance: ServerAddress) -> ServerAddress:
        live = self._databases.live
        return replace(
            entrance,
            database=live[0][1] if live else entrance.database,
            databases=live,
            guest=self._guest,
        )

    def _started_at(self) -> str:
        return readiness.started_at(self._entrance, self._means)

    def require_ready(self) -> None:
        """Check the server before anything is made or changed there.

        Raises:
            PreflightError: It is a node of a cluster or a replica, holds keys, or may lose those of
                others, takes no writes, has too few connections or databases, or the user may not
                use a command.
        """
        self._place.require_ready()
        state, options = self.state, self._options
        readiness.require_one_server(state, self._where)
        self._require_alone()
        if not options.allow_existing:
            readiness.require_no_keys(state, self._where)
        if options.restart_command:
            readiness.require_nothing_lost(state, self._where)
        if options.settings:
            readiness.require_settings(state, self._where, self._entrance.user)
        readiness.require_connections(state, options.clients, self._where)
        needed_bytes = sum(size for _, size in options.datasets)
        eviction.require_kept(state, options.asked, self._where)
        eviction.require_bounded(state, options.growing, self._where)
        eviction.require_fitting(state, options.asked, needed_bytes, self._where)
        readiness.require_room(state, needed_bytes, self._where)
        self._databases.choose(state, self._where)
        changes = (
            *(("CONFIG", "SET", name, "") for name in options.settings),
            *self._guests.needed(self._entrance),
        )
        self._databases.require_usable(self._entrance, changes, self._where)
        if state.saves or {"save", "appendonly"} & set(options.settings):
            with opened(self._means.redis, self._entrance) as session:
                self._unsettled_by = unsettled_by(session)

    def _require_alone(self) -> None:
        try:
            held = [number for number, _ in self.state.keys]
            others = other_marks(self._entrance, held, self._means, self._mark)
        except ReplyError as error:
            raise refused(error, where=self._where, user=self._entrance.user) from error
        require_no_campaign(others, self._where)

    def prepare(
        self,
        program: ServerProgram,
        content: Sequence[object],
        build: Callable[[ServerAddress], None],
    ) -> PreparedState:
        """Return the state: databases of our own, which every restore fills anew."""
        if self._prepared is None:
            self._databases.choose(self.state, self._where)
            self._databases.make(self._entrance)
            self._build = build
            self._prepared = self._state_of(program, content)
        return self._prepared

    def means(self) -> tuple[str, ...]:
        """Return how data go back here: all keys are removed, and made anew."""
        return (REFILL,)

    def restore(self, state: PreparedState, means: str) -> float:
        """Remove all keys; return the seconds. ``start`` makes the prepared ones.

        Made now, they would be written under the settings of the configuration before, and a
        restart could lose them.
        """
        begun = self._means.clock.monotonic()
        self._since = None
        self._is_filled = False
        self._databases.empty(self._entrance)
        return self._means.clock.monotonic() - begun

    def _fill(self) -> None:
        if self._build is None:
            raise TargetError("no data are prepared on the server")
        self._is_filled = False
        self._databases.refill(self._entrance, self._build)
        with opened(self._means.redis, self._entrance) as session:
            settle(session, self._means.clock)
        self._is_filled = True

    def has_live_copy(self, state: PreparedState) -> bool:
        """Return whether the keys were made already."""
        return self._is_filled

    @property
    def _made_kind(self) -> str:
        return "redis-local"

    def start(
        self, state: PreparedState, program: ServerProgram, settings: Mapping[str, str]
    ) -> float:
        """Bring settings into force, by a restart where the campaign needs one; then make the keys.

        Raises:
            TargetError: Others have keys there by now that would be lost, or the server refuses.
        """
        begun = self._means.clock.monotonic()
        self._require_harmless()
        if self._options.restart_command:
            self._restart(settings)
        self._settings.change(settings, self._entrance)
        if not self._is_filled or not self._databases.are_marked(self._entrance):
            self._fill()
        self._guest = self._guests.invite(self._entrance)  # a restart forgets it
        self._since = self._started_at()
        return self._means.clock.monotonic() - begun

    def _require_harmless(self) -> None:
        """Look again whether others have come with keys that they would lose.

        Raises:
            TargetError: They have: nothing is changed, and nothing is restarted.
        """
        others = keys_of_others(self._entrance, self._means, self._mark)
        if not others:
            return
        now = readiness.read_state(self._entrance, self._means, self._where)
        now = replace(now, keys=others)
        try:
            if self._options.restart_command:
                readiness.require_nothing_lost(now, self._where)
            eviction.require_kept(now, self._options.asked, self._where)
        except PreflightError as error:
            raise TargetError(error.message, hint=error.hint) from error

    def _restart(self, settings: Mapping[str, str]) -> None:
        wanted = self._settings.wanted(settings, self._entrance)
        environment = {RESTART_VARIABLE: restart_text(wanted)}
        restart_by(self._options.restart_command, self._means, self._started_at, environment)

    def configure(self, settings: Mapping[str, str]) -> bool:
        """Set a configuration's settings at once; nothing is left for the server to read.

        Raises:
            TargetError: As of ``start``.
        """
        self._require_harmless()
        self._settings.change(settings, self._entrance)
        return False

    def facts(self) -> tuple[Fact, ...]:
        """Return what a reader must know of the server."""
        state, options = self.state, self._options
        numbers = ", ".join(number for _, number in self._databases.live)
        facts = {
            "address": self._where,
            "user": self._entrance.user or "default",
            "user of the generator": "made for the campaign" if self._entrance.password else "",
            "TLS": "yes" if dict(self._entrance.parameters).get(TLS) else "no",
            "settings": "by CONFIG SET" if options.settings else "as they are",
            "restarted for a configuration": "yes" if options.restart_command else "never",
            "database": f"{numbers} of {state.databases}" if numbers else "",
            "keys of others": str(sum(count for _, count in state.keys)),
        }
        told = tuple(Fact(name=n, value=v, subject="endpoint") for n, v in facts.items() if v)
        return (*told, *self._place.facts())

    def findings(self) -> tuple[Finding, ...]:
        """Return what is worth knowing of the server."""
        said = (
            *readiness.state_findings(self.state, self._where),
            *readiness.changed_for_all(self._options.settings, self.state, self._where),
            *readiness.growing(self._options.growing, self._where),
            *readiness.unsettled(self._unsettled_by, self._where),
            *self._guests.findings(self._entrance, self._where),
        )
        return self._with_place(said)

    def _undo_there(self, thing: OnServer, password: str, reached: ServerAddress | None) -> None:
        undo_on_redis(thing, self._means, password=password, reached=reached)

    def _undone(self) -> list[SteelyardError]:
        """Put settings back, then empty the databases; return what went wrong, tried twice."""
        troubles = super()._undone()
        self._is_filled = False
        return troubles
