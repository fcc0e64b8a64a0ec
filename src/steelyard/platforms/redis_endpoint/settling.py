"""What making the keys left for later, done before a slice: the same for every treatment.

A refill counts as so many changes, after which ``save`` begins a dump, and it makes the AOF grow,
after which that is rewritten; both would fall into what is measured.
"""

from typing import Final

from steelyard.gateways.clock import Clock
from steelyard.gateways.redis import RedisSession, ReplyError
from steelyard.platforms.redis_endpoint.readiness import settings_like
from steelyard.platforms.redis_endpoint.settings import await_quiet
from steelyard.platforms.redis_endpoint.words import lacking_command

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
