"""Settings of a running Redis server, by CONFIG SET and never in its file, and undoing a campaign.

Invariant: before the first change, what every setting of the campaign was is in the ledger.

A refill counts as so many changes, after which ``save`` begins a dump, and it makes the AOF grow,
after which that is rewritten; both would fall into what is measured. So they are waited for before
a slice, the same for every configuration.

A campaign is undone at its end, or by ``steelyard clean`` after a death. Nothing is emptied that
does not hold the campaign's marker, and doing it twice is no error.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Final

from steelyard.core.errors import LeftBehindError, PreflightError, TargetError
from steelyard.core.outside import Foreign, OnServer, SavedSetting, ServerAddress
from steelyard.gateways.host import Clock, looks
from steelyard.gateways.redis import RedisSession, ReplyError, opened
from steelyard.places.elsewhere import restart_by
from steelyard.systems.redis.existing.connection import RedisMeans, lacking_command
from steelyard.systems.redis.existing.databases import flush, keys_of_others, mark_in
from steelyard.systems.redis.existing.readiness import settings_like, started_at

# Records carry no secrets, and what is saved goes into the record.
SECRETS: Final = frozenset(
    {"requirepass", "masterauth", "tls-key-file-pass", "tls-client-key-file-pass"}
)
RESTART_VARIABLE: Final = "STEELYARD_SETTINGS"
_EMPTY: Final = '""'
_LAST: Final = "appendonly"  # it begins to rewrite at once, as the others say
_QUIET_TIMEOUT_S: Final = 1800.0  # a rewrite of the AOF writes all keys of the server
_SAVE_TIMEOUT_S: Final = 120.0
_POLL_S: Final = 0.1


class ServerSettings:
    """The settings that a campaign changes on one server.

    Args:
        names: Of every setting that any configuration on this server asks for.
        means: To reach it.
        keep: Called with what they were, before the first change.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        means: RedisMeans,
        keep: Callable[[tuple[SavedSetting, ...]], None],
    ) -> None:
        self._names = names
        self._means = means
        self._keep = keep
        self._before: tuple[SavedSetting, ...] | None = None

    def wanted(self, asked: Mapping[str, str], address: ServerAddress) -> Mapping[str, str]:
        """Return the value of every setting under a configuration.

        What was, where it asks for none.

        Raises:
            TargetError: The server is gone, or does not have one of them.
        """
        if self._before is None:
            before = read_saved(self._names, self._means, address)
            if before:
                self._keep(before)
            self._before = before
        by_name = {name.lower(): value for name, value in asked.items()}
        return {each.name: by_name.get(each.name, each.value or "") for each in self._before}

    def change(self, asked: Mapping[str, str], address: ServerAddress) -> None:
        """Set what a configuration asks for, put the rest back to what it was, and wait for quiet.

        Raises:
            TargetError: The server refuses, or does not become quiet.
        """
        wanted = self.wanted(asked, address)
        with opened(self._means.redis, address) as session:
            changed = set_all(session, wanted)
            await_quiet(session, self._means.clock, rewrites=_LAST in changed)


def read_saved(
    names: Sequence[str], means: RedisMeans, address: ServerAddress
) -> tuple[SavedSetting, ...]:
    """Return what each of these settings is now.

    Raises:
        TargetError: The server is gone, or does not have one of them.
    """
    folded = tuple(dict.fromkeys(name.lower() for name in names))
    if secret := sorted(SECRETS & set(folded)):
        raise PreflightError(
            f"`{secret[0]}` is a secret, and what it was would go into the record",
            hint="Remove it from the configurations.",
        )
    if not folded:
        return ()
    with opened(means.redis, address) as session:
        found = settings_like(session, *folded)
    if missing := [name for name in folded if name not in found]:
        raise TargetError(f"the server has no setting {missing[0]}", hint="Correct its name.")
    return tuple(SavedSetting(name=name, value=found[name]) for name in folded)


def set_all(session: RedisSession, wanted: Mapping[str, str]) -> tuple[str, ...]:
    """Set every setting that is not as wanted; return the names of those.

    Raises:
        TargetError: The server refuses one, in its words.
    """
    now = settings_like(session, *wanted)
    ordered = sorted(wanted, key=lambda each: (each == _LAST, each))
    changed = tuple(name for name in ordered if now.get(name) != wanted[name])
    for name in changed:
        try:
            session.command("CONFIG", "SET", name, wanted[name])
        except ReplyError as error:
            raise _not_set(name, error) from error
    return changed


def _not_set(name: str, error: ReplyError) -> TargetError:
    if "immutable" in error.message:
        return TargetError(
            f"`{name}` cannot be changed on a running server: {error.message}",
            hint="Let the `restart_command` of the target give the server its settings: they are"
            f" in its environment, {RESTART_VARIABLE}, as lines of redis.conf.",
        )
    return TargetError(f"`{name}` cannot be set: {error.message}", hint="Correct its value.")


def restart_text(wanted: Mapping[str, str]) -> str:
    """Return settings as lines of redis.conf."""
    return "".join(f"{name} {value or _EMPTY}\n" for name, value in wanted.items())


def await_quiet(
    session: RedisSession, clock: Clock, *, rewrites: bool, saves: bool = False
) -> None:
    """Return when the server has done what a change began: rewritten its AOF, freed its keys.

    A save is waited for, too, but not for ever: where saves are frequent the next one begins.

    Args:
        session: On the server.
        clock: To wait.
        rewrites: The change may have begun a rewrite of the AOF, which has to succeed.
        saves: A save was asked for, and it is waited for as long as a rewrite.

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
            raise TargetError(
                "the server cannot rewrite its AOF (aof_last_bgrewrite_status is err)",
                hint="Look into its log: its disk may be full, or its directory not writable.",
            )
        frees = told.get("lazyfree_pending_objects", "0") != "0"
        is_saving = told.get("rdb_bgsave_in_progress") == "1"
        if not (is_rewriting or frees or (is_saving and (saves or waited_s < _SAVE_TIMEOUT_S))):
            return
        if waited_s > _QUIET_TIMEOUT_S:
            raise TargetError(
                f"the server still rewrites its AOF, or saves, after {waited_s:.0f} s",
                hint="Load fewer keys.",
            )


_DUMP: Final = "BGSAVE"
_REWRITE: Final = "BGREWRITEAOF"
_UNKNOWN: Final = "unknown command"
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
        if not (_is_refusal(error) or "in progress" in error.message):
            raise


def unsettled_by(session: RedisSession) -> tuple[str, ...]:
    """Return which of the commands a user may not use: they are queued and thrown away."""
    refused = list[str]()
    for command in SETTLING:
        try:
            session.command("MULTI")
            session.command(command)
        except ReplyError as error:
            if not _is_refusal(error):
                raise
            if lacking_command(error) == "MULTI":
                return ()  # that is not known then
            refused.append(command)
        try:
            session.command("DISCARD")
        except ReplyError as error:
            if "without MULTI" not in error.message and not _is_refusal(error):
                raise
    return tuple(refused)


def _is_refusal(error: ReplyError) -> bool:
    return lacking_command(error) is not None or _UNKNOWN in error.message


def undo_on_redis(
    thing: OnServer,
    means: RedisMeans,
    *,
    password: str = "",
    reached: ServerAddress | None = None,
) -> None:
    """Put settings back, or remove keys or a user.

    Args:
        thing: As it was noted before it was done.
        means: To reach its server.
        password: Of its user; from REDISCLI_AUTH.
        reached: Where its server is reached now, where that is not what was noted.

    Raises:
        LeftBehindError: The keys are not marked as the campaign's.
        TargetError: The server cannot be reached or refuses.
    """
    address = thing.address(password)
    if reached is not None:
        address = replace(reached, database=thing.entrance)
    if thing.resource is Foreign.CONFIG:
        _put_back(thing, address, means)
    elif thing.resource is Foreign.USER:
        with opened(means.redis, address) as session:
            session.command("ACL", "DELUSER", *thing.names)  # 0 where it is gone
    else:
        _empty(thing, address, means)


def described(thing: OnServer) -> tuple[str, ...]:
    """Return the commands that undoing a thing would send and run, for people."""
    if thing.resource is Foreign.CONFIG:
        again = (shlex.join(thing.restart_command),) if thing.restart_command else ()
        words = [("CONFIG", "SET", each.name, each.value or "") for each in thing.saved]
        return (*map(shlex.join, words), *again)
    if thing.resource is Foreign.USER:
        return (shlex.join(("ACL", "DELUSER", *thing.names)),)
    return (f"SELECT {thing.database}; FLUSHDB ASYNC",)


def _empty(thing: OnServer, address: ServerAddress, means: RedisMeans) -> None:
    with opened(means.redis, address) as session:
        if mark_in(session) == thing.mark:
            flush(session, "ASYNC")
            return
        found = int(str(session.command("DBSIZE")))
    if found:
        where = _where(thing)
        raise LeftBehindError(
            f"database {thing.database} on {where} holds {found} keys and not the mark"
            f" {thing.mark!r}, so it is left as it is",
            hint="Look at it, and empty it by hand if nobody needs them:"
            f" redis-cli -n {thing.database} FLUSHDB; then run `steelyard clean` again.",
        )


def _put_back(thing: OnServer, address: ServerAddress, means: RedisMeans) -> None:
    saved = {each.name: each.value or "" for each in thing.saved}
    if thing.restart_command and not _set_back(saved, address, means):
        _require_nobody(thing, address, means)
        environment = {RESTART_VARIABLE: restart_text(saved)}
        restart_by(thing.restart_command, means, lambda: started_at(address, means), environment)
    with opened(means.redis, address) as session:
        set_all(session, saved)


def _require_nobody(thing: OnServer, address: ServerAddress, means: RedisMeans) -> None:
    """Raise when a restart may lose what others have come to keep there.

    Raises:
        LeftBehindError: Some settings stay as a configuration had them.
    """
    if others := keys_of_others(address, means, thing.mark):
        number, count = others[0]
        raise LeftBehindError(
            f"not all settings of the server on {_where(thing)} can go back without a restart, and"
            f" database {number} holds {count} keys of others now, which it might lose",
            hint="Restart it yourself when they are safe on disk (redis-cli BGSAVE), or remove"
            " them; then run `steelyard clean` again.",
        )


def _where(thing: OnServer) -> str:
    return f"{thing.host}:{thing.port}" if thing.port else thing.host


def _set_back(saved: dict[str, str], address: ServerAddress, means: RedisMeans) -> bool:
    """Put back what a running server takes; return whether that was everything."""
    with opened(means.redis, address) as session:
        for name, value in saved.items():
            try:
                set_all(session, {name: value})
            except TargetError as error:
                if not isinstance(error.__cause__, ReplyError):
                    raise
        return settings_like(session, *saved) == saved
