"""The key that says whose a database is, and so which keys on a server are of others.

It has one name in all campaigns, so that it is found without reading a database through; what it
holds names the campaign.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from steelyard.gateways.redis import RedisSession, ReplyError, opened
from steelyard.model.command import ServerAddress
from steelyard.model.outside import REDIS_MARK
from steelyard.platforms.redis_endpoint.connection import RedisMeans
from steelyard.platforms.redis_endpoint.readiness import keys_by_database

MARK_KEY: Final = f"{REDIS_MARK}campaign"


def mark_of(campaign_id: str) -> str:
    """Return what the key holds in a campaign's databases."""
    return f"{REDIS_MARK}{campaign_id}"


def mark_in(session: RedisSession) -> str:
    """Return what the key holds in the session's database; empty where there is none.

    Raises:
        ReplyError: The user may not read it.
    """
    try:
        answer = session.command("GET", MARK_KEY)
    except ReplyError as error:
        if "WRONGTYPE" in error.message:
            return ""
        raise
    return answer.decode(errors="replace") if isinstance(answer, bytes) else ""


def set_mark(session: RedisSession, mark: str) -> None:
    """Make the key in the session's database."""
    session.command("SET", MARK_KEY, mark)


def other_marks(
    entrance: ServerAddress, numbers: Sequence[int], means: RedisMeans, mark: str
) -> tuple[str, ...]:
    """Return the marks of other campaigns in databases that hold keys."""
    found = {_mark(entrance, number, means) for number in numbers}
    return tuple(sorted(each for each in found - {mark} if each.startswith(REDIS_MARK)))


def keys_of_others(
    entrance: ServerAddress, means: RedisMeans, mark: str
) -> tuple[tuple[int, int], ...]:
    """Return number and keys of each database that holds keys now and does not have this mark.

    Raises:
        TargetError: The server cannot be reached.
    """
    with opened(means.redis, entrance) as session:
        held = keys_by_database(session.info("keyspace"))
    return tuple(
        (number, count) for number, count in held if _mark(entrance, number, means) != mark
    )


def _mark(entrance: ServerAddress, number: int, means: RedisMeans) -> str:
    with opened(means.redis, replace(entrance, database=str(number))) as session:
        return mark_in(session)
