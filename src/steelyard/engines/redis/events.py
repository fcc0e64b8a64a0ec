"""What a server remembers of single moments of a run: its slow log and its latency monitor.

Source: Redis documentation, "SLOWLOG GET" and "Latency monitoring". The arguments in the slow log
are somebody's data and are passed over.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from steelyard.gateways.redis import Reply
from steelyard.model.evidence import Quantity
from steelyard.model.units import MS_PER_S, US_PER_S

ENTRIES: Final = 128  # of the slow log; as many as it keeps by default
# Events of the latency monitor that count as one; see latency.c and the documentation.
KINDS: Final = {
    "command": Quantity.WORST_COMMAND_S,
    "fast-command": Quantity.WORST_COMMAND_S,
    "fork": Quantity.WORST_FORK_S,
    "aof-write": Quantity.WORST_AOF_WRITE_S,
    "aof-write-pending-fsync": Quantity.WORST_AOF_WRITE_S,
    "aof-write-active-child": Quantity.WORST_AOF_WRITE_S,
    "aof-write-alone": Quantity.WORST_AOF_WRITE_S,
    "aof-fsync-always": Quantity.WORST_AOF_FSYNC_S,
    "expire-cycle": Quantity.WORST_EXPIRY_S,
    "eviction-cycle": Quantity.WORST_EXPIRY_S,
    "eviction-del": Quantity.WORST_EXPIRY_S,
}


def slow_commands(entries: Reply, *, after: int) -> dict[str, float]:
    """Return how many commands the slow log took up after an entry, and the longest it still has.

    Args:
        entries: The newest ``ENTRIES`` of it.
        after: Number of that entry, as ``newest`` gave it; they are counted from 0 on.
    """
    found = [(number, usec) for number, usec in _entries(entries) if number > after]
    if not found:
        return {Quantity.SLOW_COMMANDS: 0.0}
    # Fewer than were asked for: none was pushed out; older ones were, by somebody who emptied it.
    whole = len(found) < ENTRIES and after < 0
    number = len(found) if whole else newest(entries) - after
    return {
        Quantity.SLOW_COMMANDS: float(number),
        Quantity.SLOWEST_COMMAND_S: max(usec for _, usec in found) / US_PER_S,
    }


def newest(entries: Reply) -> int:
    """Return the number of the newest entry of the slow log; -1 where it is empty."""
    return max((number for number, _ in _entries(entries)), default=-1)


def event_names(latest: Reply) -> tuple[str, ...]:
    """Return the events that the latency monitor has seen and that count here."""
    rows = latest if isinstance(latest, list) else []
    names = [_text(row[0]) for row in rows if isinstance(row, list) and row]
    return tuple(name for name in names if name in KINDS)


def worst_s(history: Reply, *, since: int) -> float | None:
    """Return the longest of an event's moments from a second of the server's clock on."""
    rows = history if isinstance(history, list) else []
    pairs = [row for row in rows if isinstance(row, list) and len(row) >= 2]
    recent = [float(row[1]) / MS_PER_S for row in pairs if int(row[0]) >= since]
    return max(recent, default=None)


def _entries(reply: Reply) -> Iterator[tuple[int, float]]:
    """Yield number and microseconds of each entry."""
    for entry in reply if isinstance(reply, list) else []:
        if isinstance(entry, Sequence) and len(entry) >= 3:
            yield int(entry[0]), float(entry[2])


def _text(word: object) -> str:
    return word.decode(errors="replace") if isinstance(word, bytes) else str(word)
