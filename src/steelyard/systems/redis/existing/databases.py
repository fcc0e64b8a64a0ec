"""The databases of a Redis server that a campaign uses: empty ones, marked, emptied and filled.

Invariants: a database is announced before its first key, its first key is the marker, and nothing
is emptied that holds keys without it. Beside keys of others nothing is loaded or set where the
server may evict.

The marker has one name in all campaigns, so that it is found without reading a database through;
what it holds names the campaign.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from steelyard.core.outside import REDIS_MARK, ServerAddress
from steelyard.core.redis import in_bytes
from steelyard.core.wording import PreflightError, TargetError, format_bytes
from steelyard.gateways.doors import Doors
from steelyard.gateways.redis import RedisSession, ReplyError, opened
from steelyard.systems.redis.existing.readiness import (
    Need,
    ServerState,
    keys_by_database,
    refused,
    rehearse,
)

_LIMIT: Final = "maxmemory"
_POLICY: Final = "maxmemory-policy"
_KEEPS: Final = "noeviction"
_EVICTS: Final = "allkeys"
_WAY_OUT: Final = "name a server of your own"
Asked = Sequence[tuple[str, str]]


def require_kept(state: ServerState, asked: Asked, where: str) -> None:
    """Raise when a server may evict keys of others, as it is or as configurations want it.

    Limit and policy are set one after the other and go back likewise, so every limit is looked at
    together with every policy.

    Args:
        state: What the server holds of others, and how it is set.
        asked: Names, in small letters, and values of all settings of all configurations.
        where: The server.

    Raises:
        PreflightError: With what would be in force.
    """
    if not state.keys:
        return
    limits = {state.limit_bytes, *(in_bytes(value) for value in _values(asked, _LIMIT))}
    policies = {state.policy, *(value.lower() for value in _values(asked, _POLICY))}
    if limits == {0} or policies == {_KEEPS}:
        return
    if len(limits) == len(policies) == 1:
        raise PreflightError(
            f"the server at {where} holds keys of others and evicts keys when its memory is full"
            f" ({state.policy}, maxmemory {format_bytes(state.limit_bytes)}): those of the"
            " workloads would drive them out",
            hint=f"Give it the policy {_KEEPS} for as long as the campaign lasts, or {_WAY_OUT}.",
        )
    wanted = ", ".join(dict.fromkeys(f"{n} {v}" for n, v in asked if n in (_LIMIT, _POLICY)))
    raise PreflightError(
        f"the server at {where} holds keys of others, and with what the configurations ask for"
        f" ({wanted}) it may evict them: it has maxmemory {format_bytes(state.limit_bytes)} and"
        f" the policy {state.policy or 'unknown'}",
        hint=f"Remove them from the configurations, or {_WAY_OUT}.",
    )


def require_fitting(state: ServerState, asked: Asked, needed_bytes: int, where: str) -> None:
    """Raise when a limit that a configuration sets has no room for keys of others and the own.

    Beside keys of others nothing may be evicted. Where there are none, a policy may make room.

    Raises:
        PreflightError: Their writes would be refused.
    """
    limits = [in_bytes(value) or 0 for value in _values(asked, _LIMIT)]
    least = min((limit for limit in limits if limit), default=None)
    policies = {state.policy, *(value.lower() for value in _values(asked, _POLICY))}
    makes_room = not state.keys and any(each.startswith(_EVICTS) for each in policies)
    if makes_room or least is None or state.used_bytes + needed_bytes <= least:
        return
    others, then = "", "then it would refuse writes"
    if state.keys:
        others, then = ", where others have keys", "then it would refuse what others write"
    raise PreflightError(
        f"a configuration limits the server at {where} to {format_bytes(least)}{others}: it uses"
        f" {format_bytes(state.used_bytes)}, the workloads make about"
        f" {format_bytes(needed_bytes)}, and {then}",
        hint=f"Raise `maxmemory` in the configuration, load fewer or smaller keys, or {_WAY_OUT}.",
    )


def require_bounded(state: ServerState, growing: Sequence[str], where: str) -> None:
    """Raise when workloads that grow without bound would fill a server of others.

    Raises:
        PreflightError: With the first of them.
    """
    if state.keys and growing:
        raise PreflightError(
            f"the workload {growing[0]} makes data that grow without bound, and the server at"
            f" {where} holds keys of others: it may run out of memory",
            hint=f"Take a workload that overwrites its keys (set, hset, zadd), or {_WAY_OUT}.",
        )


def _values(asked: Asked, name: str) -> Iterator[str]:
    return (value for asked_name, value in asked if asked_name == name)


MARK_KEY: Final = f"{REDIS_MARK}campaign"
_LOADED_KEY: Final = "key:000000000000"


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
    entrance: ServerAddress, numbers: Sequence[int], doors: Doors, mark: str
) -> tuple[str, ...]:
    """Return the marks of other campaigns in databases that hold keys."""
    found = {_mark(entrance, number, doors) for number in numbers}
    return tuple(sorted(each for each in found - {mark} if each.startswith(REDIS_MARK)))


def keys_of_others(entrance: ServerAddress, doors: Doors, mark: str) -> tuple[tuple[int, int], ...]:
    """Return number and keys of each database that holds keys now and does not have this mark.

    Raises:
        TargetError: The server cannot be reached.
    """
    with opened(doors.redis, entrance) as session:
        held = keys_by_database(session.info("keyspace"))
    return tuple(
        (number, count) for number, count in held if _mark(entrance, number, doors) != mark
    )


def _mark(entrance: ServerAddress, number: int, doors: Doors) -> str:
    with opened(doors.redis, replace(entrance, database=str(number))) as session:
        return mark_in(session)


_EMPTYING_TIMEOUT_S: Final = 600.0  # freeing keys one by one holds the server up


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """What a campaign's databases are called.

    Attributes:
        mark: What the key holds that marks them as the campaign's.
        datasets: One database for each.
        first: Number of the first, the others follow; None: the first empty ones.
    """

    mark: str
    datasets: tuple[str, ...]
    first: int | None


class Databases:
    """The databases of one campaign on one server.

    Args:
        naming: What they are called.
        doors: To reach the server.
        announce: Is told the number before the first key is made in it.
    """

    def __init__(self, naming: Naming, doors: Doors, announce: Callable[[str], None]) -> None:
        self._naming = naming
        self._doors = doors
        self._announce = announce
        self._numbers: tuple[int, ...] = ()
        self._announced: set[int] = set()

    @property
    def live(self) -> tuple[tuple[str, str], ...]:
        """Return the number of each data set's database, once they are chosen."""
        return tuple(zip(self._naming.datasets, map(str, self._numbers), strict=False))

    def choose(self, state: ServerState, where: str) -> tuple[int, ...]:
        """Return the numbers that are used, chosen by what the server held at first.

        Raises:
            PreflightError: There are not so many empty ones, or the one that is named holds keys.
        """
        if not self._numbers:
            self._numbers = _chosen(self._naming, state, where)
        return self._numbers

    def require_usable(self, entrance: ServerAddress, where: str) -> None:
        """Raise when the server takes no writes, or a database that was empty holds keys.

        Args:
            entrance: Of the server.
            where: The server, for messages.

        Raises:
            PreflightError: Why.
            TargetError: The server is gone.
        """
        for number in self._numbers:
            address = replace(entrance, database=str(number))
            try:
                with opened(self._doors.redis, address) as session:
                    if held := int(str(session.command("DBSIZE"))):
                        raise PreflightError(
                            f"a database that was empty holds {held} keys now",
                            hint="Somebody else uses it; name another with `db:`.",
                        )
                    rehearsal = rehearse(session, self.needs, address.user)
            except ReplyError as error:
                raise refused(error, where=where, user=address.user) from error
            for _, refusal in rehearsal.refusals:
                raise refused(refusal, where=where, user=address.user)

    @property
    def needs(self) -> tuple[Need, ...]:
        """Return the commands that making, filling and emptying databases takes."""
        mark, first = (f"~{REDIS_MARK}*",), self._naming.first or 0
        others = first > 0 or len(self._naming.datasets) > 1
        select = (("SELECT", str(first)),) if others else ()
        looks = (("INFO",), ("DBSIZE",), ("TIME",), *select)
        return (
            *(Need(words=words, harmless=words) for words in looks),
            Need(words=("FLUSHDB",), harmless=("FLUSHDB", "STEELYARD")),
            Need(words=("GET", MARK_KEY), harmless=("GET", MARK_KEY), keys=mark),
            _setting(MARK_KEY, self._naming.mark, mark),
            _setting(_LOADED_KEY, "", ("~key:*",)),
        )

    def make(self, entrance: ServerAddress) -> None:
        """Announce and mark the databases.

        Raises:
            TargetError: One holds keys that are not ours.
        """
        for number in self._numbers:
            address = replace(entrance, database=str(number))
            with opened(self._doors.redis, address) as session:
                self._mark(session, number)

    def _mark(self, session: RedisSession, number: int) -> None:
        if number not in self._announced:
            _require_empty(session, number)
            self._announced.add(number)
            self._announce(str(number))
        if not self._is_ours(session):  # the first time, or the server has lost its keys
            _require_empty(session, number)
            set_mark(session, self._naming.mark)

    def _is_ours(self, session: RedisSession) -> bool:
        return mark_in(session) == self._naming.mark

    def refill(self, entrance: ServerAddress, build: Callable[[ServerAddress], None]) -> None:
        """Empty the databases and have them filled.

        Raises:
            TargetError: One holds keys and no marker: they are not ours.
        """
        self.empty(entrance)
        build(replace(entrance, databases=self.live))

    def empty(self, entrance: ServerAddress) -> None:
        """Remove all keys but the marker."""
        self.make(entrance)
        for number in self._numbers:
            address = replace(entrance, database=str(number))
            with opened(self._doors.redis, address, timeout_s=_EMPTYING_TIMEOUT_S) as session:
                flush(session, "SYNC")
                set_mark(session, self._naming.mark)

    def are_marked(self, entrance: ServerAddress) -> bool:
        """Return whether the server still has what was made: it may have been started anew."""
        for number in self._numbers:
            with opened(self._doors.redis, replace(entrance, database=str(number))) as session:
                if not self._is_ours(session):
                    return False
        return True


def _setting(key: str, value: str, patterns: tuple[str, ...]) -> Need:
    """Return that a key is set; with two conditions that exclude each other it never is."""
    return Need(words=("SET", key, value), harmless=("SET", key, value, "XX", "NX"), keys=patterns)


def _require_empty(session: RedisSession, number: int) -> None:
    found = int(str(session.command("DBSIZE")))
    if found:
        raise TargetError(
            f"database {number} holds {found} keys that are not Steelyard's: they are left alone",
            hint="Somebody else has begun to use it; name another with `db:`.",
        )


def flush(session: RedisSession, how: str) -> None:
    """Remove all keys of the session's database: at once, ``SYNC``, or later, ``ASYNC``."""
    try:
        session.command("FLUSHDB", how)  # of 6.2 and 4.0; bare it means what the server's owner set
    except ReplyError as error:
        if "syntax" not in error.message:
            raise
        session.command("FLUSHDB")


def _chosen(naming: Naming, state: ServerState, where: str) -> tuple[int, ...]:
    taken = {number for number, _ in state.keys}
    count = len(naming.datasets)
    unseen = 0 if state.settings else (naming.first or 0) + count
    last = max(state.databases, unseen)  # a server that does not show how many there are
    free = [number for number in range(last) if number not in taken]
    if naming.first is None:
        if len(free) < count:
            raise PreflightError(
                f"{count} empty databases are needed, and the server at {where} has {len(free)} of"
                f" {state.databases}",
                hint="Empty one, or raise `databases` in its configuration.",
            )
        return tuple(free[:count])
    numbers = tuple(range(naming.first, naming.first + count))
    held = [number for number in numbers if number not in free]
    if held:
        counts = dict(state.keys)
        what = f"holds {counts[held[0]]} keys" if held[0] in counts else "does not exist"
        raise PreflightError(
            f"database {held[0]} of the server at {where} {what}, and only an empty one is used",
            hint=f"Empty are {_listed(free)}; or leave `db` out.",
        )
    return numbers


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "") or "none"
