"""A Redis server that is there already, as a platform: left as it was found.

Invariant: every database that is used, and what every setting of the campaign was, is in the ledger
before the first change, and is empty or put back after ``destroy``. Settings are changed by CONFIG
SET and never in the server's file.

A refill counts as so many changes, after which ``save`` begins a dump, and it makes the AOF grow,
after which that is rewritten; both would fall into what is measured. So they are waited for before
a slice, the same for every configuration.

A campaign is undone at its end, or by ``steelyard clean`` after a death. Nothing is emptied that
does not hold the campaign's marker, and doing it twice is no error.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from steelyard.core import outside, wording
from steelyard.core.findings import Fact, Finding, facts_about
from steelyard.gateways.doors import Doors
from steelyard.gateways.host import Clock, looks
from steelyard.gateways.redis import TLS, RedisSession, ReplyError, opened, settings_like
from steelyard.places.elsewhere import restart_by
from steelyard.places.protocol import Ledger, PreparedState
from steelyard.systems import existing
from steelyard.systems.redis.existing import databases, readiness
from steelyard.systems.redis.settings import file_lines

RESTART_VARIABLE: Final = "STEELYARD_SETTINGS"
_LAST: Final = "appendonly"  # it begins to rewrite at once, as the others say
_QUIET_TIMEOUT_S: Final = 1800.0  # a rewrite of the AOF writes all keys of the server
_SAVE_TIMEOUT_S: Final = 120.0
_POLL_S: Final = 0.1


class ServerSettings:
    """The settings that a campaign changes on one server.

    Args:
        names: Of every setting that any configuration on this server asks for.
        keep: Called with what they were, before the first change.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        doors: Doors,
        keep: Callable[[tuple[outside.SavedSetting, ...]], None],
    ) -> None:
        self._names = names
        self._doors = doors
        self._keep = keep
        self._before: tuple[outside.SavedSetting, ...] | None = None

    def wanted(self, asked: Mapping[str, str], address: outside.ServerAddress) -> Mapping[str, str]:
        """Return the value of every setting under a configuration.

        What was, where it asks for none.

        Raises:
            TargetError: The server is gone, or does not have one of them.
        """
        if self._before is None:
            before = read_saved(self._names, self._doors, address)
            if before:
                self._keep(before)
            self._before = before
        by_name = {name.lower(): value for name, value in asked.items()}
        return {each.name: by_name.get(each.name, each.value or "") for each in self._before}

    def change(self, asked: Mapping[str, str], address: outside.ServerAddress) -> None:
        """Set what a configuration asks for, put the rest back to what it was, and wait for quiet.

        Raises:
            TargetError: The server refuses, or does not become quiet.
        """
        wanted = self.wanted(asked, address)
        with opened(self._doors.redis, address) as session:
            changed = set_all(session, wanted)
            await_quiet(session, self._doors.clock, rewrites=_LAST in changed)


def read_saved(
    names: Sequence[str], doors: Doors, address: outside.ServerAddress
) -> tuple[outside.SavedSetting, ...]:
    """Return what each of these settings is now.

    Raises:
        TargetError: The server is gone, or does not have one of them.
    """
    folded = tuple(dict.fromkeys(name.lower() for name in names))
    if not folded:
        return ()
    with opened(doors.redis, address) as session:
        found = settings_like(session, *folded)
    if missing := [name for name in folded if name not in found]:
        raise wording.TargetError(
            f"the server has no setting {missing[0]}", hint="Correct its name."
        )
    return existing.without_secrets(
        outside.SavedSetting(name=name, value=found[name]) for name in folded
    )


def set_all(session: RedisSession, wanted: Mapping[str, str]) -> tuple[str, ...]:
    """Set every setting that is not as wanted; return the names of those.

    Raises:
        TargetError: The server refuses one, in its words.
    """
    now = settings_like(session, *wanted)
    changed = tuple(name for name in sorted(wanted, key=_in_order) if now.get(name) != wanted[name])
    for name in changed:
        try:
            session.command("CONFIG", "SET", name, wanted[name])
        except ReplyError as error:
            if "immutable" not in error.message:
                raise wording.SettingError(
                    f"`{name}` cannot be set: {error.message}",
                    hint="Correct its value.",
                    setting=name,
                    value=wanted[name],
                ) from error
            raise wording.TargetError(
                f"`{name}` cannot be changed on a running server: {error.message}",
                hint="Let the `restart_command` of the target give the server its settings: they"
                f" are in its environment, {RESTART_VARIABLE}, as lines of redis.conf.",
            ) from error
    return changed


def _in_order(name: str) -> tuple[bool, str]:
    return name == _LAST, name


def await_quiet(
    session: RedisSession, clock: Clock, *, rewrites: bool, saves: bool = False
) -> None:
    """Return when the server has done what a change began: rewritten its AOF, freed its keys.

    A save is waited for, too, but not for ever: where saves are frequent the next one begins.

    ``rewrites``: the change may have begun a rewrite of the AOF, which has to succeed; ``saves``:
    a save was asked for, and it is waited for as long as a rewrite.

    Raises:
        TargetError: The AOF cannot be rewritten, or it takes too long.
    """
    for waited_s in looks(clock, inf, _POLL_S):
        told = {**session.info("persistence"), **session.info("memory")}
        is_rewriting = any(
            told.get(f"aof_rewrite_{n}") == "1" for n in ("in_progress", "scheduled")
        )
        failed = told.get("aof_last_bgrewrite_status") == "err"
        if rewrites and failed and not is_rewriting and told.get("aof_enabled") == "1":
            raise wording.TargetError(
                "the server cannot rewrite its AOF (aof_last_bgrewrite_status is err)",
                hint="Look into its log: its disk may be full, or its directory not writable.",
            )
        frees = told.get("lazyfree_pending_objects", "0") != "0"
        is_saving = told.get("rdb_bgsave_in_progress") == "1"
        if not (is_rewriting or frees or (is_saving and (saves or waited_s < _SAVE_TIMEOUT_S))):
            return
        if waited_s > _QUIET_TIMEOUT_S:
            raise wording.TargetError(
                f"the server still rewrites its AOF, or saves, after {waited_s:.0f} s",
                hint="Load fewer keys.",
            )


_DUMP: Final = "BGSAVE"
_REWRITE: Final = "BGREWRITEAOF"
SETTLING: Final = (_DUMP, _REWRITE)


def settle(session: RedisSession, clock: Clock) -> None:
    """Write a dump where the server dumps by itself, and rewrite the AOF where it has one.

    A server that refuses these commands goes without; a finding told so before.

    Raises:
        TargetError: The AOF cannot be rewritten, or it takes too long.
    """
    await_quiet(session, clock, rewrites=False)
    told = session.info("persistence")
    try:
        dumps = bool(settings_like(session, "save").get("save"))
    except ReplyError:
        dumps = False  # it does not show its settings, so none is changed
    if dumps and told.get("rdb_changes_since_last_save") != "0":
        _do(session, _DUMP)
        await_quiet(session, clock, rewrites=False, saves=True)
    if told.get("aof_enabled") == "1":
        _do(session, _REWRITE)
        await_quiet(session, clock, rewrites=True)


def _do(session: RedisSession, command: str) -> None:
    try:
        session.command(command)
    except ReplyError as error:
        if not (readiness.is_lack(error) or "in progress" in error.message):
            raise


def unsettled_by(session: RedisSession, user: str) -> tuple[str, ...]:
    """Return which of the commands a user may not use."""
    needs = [readiness.Need(words=(command,)) for command in SETTLING]
    return tuple(
        need.verb for need in readiness.rehearse(session, needs, user).needs(readiness.is_lack)
    )


def undo_on_redis(
    thing: outside.OnServer,
    doors: Doors,
    *,
    password: str = "",
    reached: outside.ServerAddress | None = None,
) -> None:
    """Put settings back, or remove keys or a user.

    Args:
        thing: As it was noted before it was done.
        doors: To reach its server.
        password: Of its user; from REDISCLI_AUTH.
        reached: Where its server is reached now, where that is not what was noted.

    Raises:
        LeftBehindError: The keys are not marked as the campaign's.
        TargetError: The server cannot be reached or refuses.
    """
    address = thing.address(password)
    if reached is not None:
        address = replace(reached, database=thing.entrance)
    if thing.resource is outside.Foreign.CONFIG:
        _put_back(thing, address, doors)
    elif thing.resource is outside.Foreign.USER:
        with opened(doors.redis, address) as session:
            session.command("ACL", "DELUSER", *thing.names)  # 0 where it is gone
    else:
        _empty(thing, address, doors)


def described(thing: outside.OnServer) -> tuple[str, ...]:
    """Return the commands that undoing a thing would send and run, for people."""
    if thing.resource is outside.Foreign.CONFIG:
        again = (shlex.join(thing.restart_command),) if thing.restart_command else ()
        words = [("CONFIG", "SET", each.name, each.value or "") for each in thing.saved]
        return (*map(shlex.join, words), *again)
    if thing.resource is outside.Foreign.USER:
        return (shlex.join(("ACL", "DELUSER", *thing.names)),)
    return (f"SELECT {thing.database}; FLUSHDB ASYNC",)


def _empty(thing: outside.OnServer, address: outside.ServerAddress, doors: Doors) -> None:
    with opened(doors.redis, address) as session:
        if databases.mark_in(session) == thing.mark:
            databases.flush(session, "ASYNC")
            return
        found = int(str(session.command("DBSIZE")))
    if found:
        where = _where(thing)
        raise wording.LeftBehindError(
            f"database {thing.database} on {where} holds {found} keys and not the mark"
            f" {thing.mark!r}, so it is left as it is",
            hint="Look at it, and empty it by hand if nobody needs them:"
            f" redis-cli -n {thing.database} FLUSHDB; then run `steelyard clean` again.",
        )


def _put_back(thing: outside.OnServer, address: outside.ServerAddress, doors: Doors) -> None:
    saved = {each.name: each.value or "" for each in thing.saved}
    is_back, refused = _set_back(saved, address, doors)
    if thing.restart_command and not is_back:
        _require_nobody(thing, address, doors)
        environment = {RESTART_VARIABLE: file_lines(saved)}
        restart_by(
            thing.restart_command, doors, lambda: readiness.started_at(address, doors), environment
        )
        _, refused = _set_back(saved, address, doors)
    if refused:
        raise wording.LeftBehindError(
            f"the server on {_where(thing)} does not take back {'; '.join(refused)}",
            hint="All other settings are back. Set these by redis-cli CONFIG SET or by a restart;"
            f" they were: {', '.join(file_lines(saved).splitlines())}.",
        )


def _require_nobody(thing: outside.OnServer, address: outside.ServerAddress, doors: Doors) -> None:
    if others := databases.keys_of_others(address, doors, thing.mark):
        number, count = others[0]
        raise wording.LeftBehindError(
            f"not all settings of the server on {_where(thing)} can go back without a restart, and"
            f" database {number} holds {count} keys of others now, which it might lose",
            hint="Restart it yourself when they are safe on disk (redis-cli BGSAVE), or remove"
            " them; then run `steelyard clean` again.",
        )


def _where(thing: outside.OnServer) -> str:
    return outside.host_and_port(thing.host, thing.port) if thing.port else thing.host


def _set_back(
    saved: Mapping[str, str], address: outside.ServerAddress, doors: Doors
) -> tuple[bool, list[str]]:
    """Set settings one by one; return whether all are back, and errors of those refused."""
    refused = []
    with opened(doors.redis, address) as session:
        for name in sorted(saved, key=_in_order):
            try:
                set_all(session, {name: saved[name]})
            except wording.TargetError as error:
                if not isinstance(error.__cause__, ReplyError):
                    raise
                refused.append(error.message)
        return settings_like(session, *saved) == saved, refused


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
        commands: Of the load.
    """

    entrance: outside.ServerAddress
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
    commands: tuple[tuple[str, ...], ...] = ()


class RedisEndpointPlatform(existing.OthersServer):
    """One running Redis server.

    Args:
        place: Where it is; None: at the entrance of the options, and nothing else is known of it.
    """

    def __init__(
        self,
        options: RedisEndpointOptions,
        ledger: Ledger,
        doors: Doors,
        place: existing.ServerPlace | None = None,
    ) -> None:
        announcing = existing.Announcing(
            place=place or existing.Anywhere(options.entrance),
            mark=databases.mark_of(options.campaign_id),
            undo=undo_on_redis,
            restart_command=options.restart_command,
            settings=outside.Foreign.CONFIG,
        )
        super().__init__(options.campaign_id, announcing, ledger, doors)
        self._options = options
        naming = databases.Naming(
            mark=self._mark,
            datasets=tuple(name for name, _ in options.datasets),
            first=options.first,
        )
        self._databases = databases.Databases(
            naming, doors, lambda number: self._changes.announce(outside.Foreign.KEYS, number, ())
        )
        self._guests = readiness.Guests(
            options.guest,
            doors,
            lambda name: self._changes.announce(outside.Foreign.USER, "", (name,)),
        )
        self._guest: outside.Guest | None = None
        self._settings = ServerSettings(options.settings, doors, self._changes.keep)
        self._build: Callable[[outside.ServerAddress], None] | None = None
        self._is_filled = False
        self._state: readiness.ServerState | None = None
        self._unsettled_by: tuple[str, ...] = ()

    @property
    def state(self) -> readiness.ServerState:
        """Return what the server said of itself when it was first asked."""
        if self._state is None:
            readiness.require_allowed(self._entrance, self._doors, self._where, self._needs())
            self._state = readiness.read_state(self._entrance, self._doors, self._where)
            if self._options.settings and self._state.settings is None:
                raise readiness.without_settings(self._where, "shows no settings (CONFIG GET)")
        return self._state

    def _needs(self) -> tuple[readiness.Need, ...]:
        """Return every command of the campaign; without a guest the user sends the load, too."""
        options = self._options
        sent = () if self._entrance.password else options.commands
        keys = tuple(rule for rule in options.guest if rule.startswith("~"))
        reads = [("CONFIG", "GET", name) for name in options.settings]
        changes = [("CONFIG", "SET", name, "") for name in options.settings]
        no_change = ("CONFIG", "SET", "steelyard-has-no-such", "")
        return (
            *self._databases.needs,
            *(readiness.Need(words=words, harmless=words) for words in reads),
            *(readiness.Need(words=words, harmless=no_change) for words in changes),
            *self._guests.needed(self._entrance),
            *(readiness.Need(words=words, keys=keys) for words in sent),
        )

    def _inside(self, entrance: outside.ServerAddress) -> outside.ServerAddress:
        live = self._databases.live
        return replace(
            entrance,
            database=live[0][1] if live else entrance.database,
            databases=live,
            guest=self._guest,
        )

    def _started_at(self) -> str:
        return readiness.started_at(self._entrance, self._doors)

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
        readiness.require_connections(state, options.clients, self._where)
        needed_bytes = sum(size for _, size in options.datasets)
        databases.require_kept(state, options.asked, self._where)
        databases.require_bounded(state, options.growing, self._where)
        databases.require_fitting(state, options.asked, needed_bytes, self._where)
        readiness.require_room(state, needed_bytes, self._where)
        self._databases.choose(state, self._where)
        self._databases.require_usable(self._entrance, self._where)
        if state.saves or {"save", "appendonly"} & set(options.settings):
            with opened(self._doors.redis, self._entrance) as session:
                self._unsettled_by = unsettled_by(session, self._entrance.user)

    def _require_alone(self) -> None:
        try:
            held = [number for number, _ in self.state.keys]
            others = databases.other_marks(self._entrance, held, self._doors, self._mark)
        except ReplyError as error:
            raise readiness.refused(error, where=self._where, user=self._entrance.user) from error
        existing.require_no_campaign(others, self._where)

    def prepare(
        self,
        program: outside.ServerProgram,
        content: Sequence[object],
        build: Callable[[outside.ServerAddress], None],
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
        begun = self._doors.clock.monotonic()
        self._since = None
        self._is_filled = False
        self._databases.empty(self._entrance)
        return self._doors.clock.monotonic() - begun

    def _fill(self) -> None:
        if self._build is None:
            raise wording.TargetError("no data are prepared on the server")
        self._is_filled = False
        self._databases.refill(self._entrance, self._build)
        with opened(self._doors.redis, self._entrance) as session:
            settle(session, self._doors.clock)
        self._is_filled = True

    def has_live_copy(self, state: PreparedState) -> bool:
        """Return whether the keys were made already."""
        return self._is_filled

    def start(
        self, state: PreparedState, program: outside.ServerProgram, settings: Mapping[str, str]
    ) -> None:
        """Bring settings into force, by a restart where the campaign needs one; then make the keys.

        Raises:
            TargetError: Others have keys there by now that would be lost, or the server refuses.
        """
        self._require_harmless()
        if self._options.restart_command:
            wanted = self._settings.wanted(settings, self._entrance)
            environment = {RESTART_VARIABLE: file_lines(wanted)}
            restart_by(self._options.restart_command, self._doors, self._started_at, environment)
        self._settings.change(settings, self._entrance)
        if not self._is_filled or not self._databases.are_marked(self._entrance):
            self._fill()
        self._guest = self._guests.invite(self._entrance)  # a restart forgets it
        self._since = self._started_at()

    def _require_harmless(self) -> None:
        others = databases.keys_of_others(self._entrance, self._doors, self._mark)
        if not others:
            return
        now = readiness.read_state(self._entrance, self._doors, self._where)
        now = replace(now, keys=others)
        try:
            if self._options.restart_command:
                readiness.require_nothing_lost(now, self._where)
            databases.require_kept(now, self._options.asked, self._where)
        except wording.PreflightError as error:
            raise wording.TargetError(error.message, hint=error.hint) from error

    def configure(self, settings: Mapping[str, str]) -> bool:
        """Set a configuration's settings at once; nothing is left for the server to read."""
        self._require_harmless()
        self._settings.change(settings, self._entrance)
        return False

    def facts(self) -> tuple[Fact, ...]:
        state, options = self.state, self._options
        numbers = ", ".join(number for _, number in self._databases.live)
        of_all = f" of {state.databases}" if state.settings else ""
        facts = {
            "address": self._where,
            "user": self._entrance.user or "default",
            "user of the generator": "made for the campaign" if self._entrance.password else "",
            "TLS": "yes" if dict(self._entrance.parameters).get(TLS) else "no",
            "settings": "by CONFIG SET" if options.settings else "as they are",
            "restarted for a configuration": "yes" if options.restart_command else "never",
            "database": f"{numbers}{of_all}" if numbers else "",
            "keys of others": str(sum(count for _, count in state.keys)),
        }
        return (*facts_about("endpoint", facts), *self._place.facts())

    def findings(self) -> tuple[Finding, ...]:
        said = (
            *readiness.state_findings(self.state, self._where),
            *readiness.changed_for_all(self._options.settings, self.state, self._where),
            *readiness.growing(self._options.growing, self._where),
            *readiness.unsettled(self._unsettled_by, self._where),
            *self._guests.findings(self._entrance, self._where),
        )
        return self._with_place(said)

    def _undone(self) -> list[wording.SteelyardError]:
        self._is_filled = False
        return super()._undone()
