"""Undoing what a campaign did on a Redis server: at its end, or by ``clean`` after a death.

Nothing is emptied that does not hold the campaign's marker, and doing it twice is no error.
"""

import shlex
from dataclasses import replace

from steelyard.gateways.redis import ReplyError, opened
from steelyard.model.command import ServerAddress
from steelyard.model.errors import LeftBehindError, TargetError
from steelyard.model.outside import Foreign, OnServer
from steelyard.platforms.redis_endpoint.connection import RedisMeans
from steelyard.platforms.redis_endpoint.databases import flush
from steelyard.platforms.redis_endpoint.marking import keys_of_others, mark_in
from steelyard.platforms.redis_endpoint.readiness import settings_like, started_at
from steelyard.platforms.redis_endpoint.settings import (
    RESTART_VARIABLE,
    restart_text,
    set_all,
)
from steelyard.platforms.restart_command import restart_by


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
        LeftBehindError: Some settings stay as a treatment had them.
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
