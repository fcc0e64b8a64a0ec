"""When what one treatment began is over, on a server that goes on under the next one."""

from collections.abc import Mapping
from typing import Final

from steelyard.gateways.redis import RedisSession
from steelyard.model.errors import TargetError

_POLL_S: Final = "0.1"
_REWRITE_POLLS: Final = 36_000  # an hour: tens of GB, a slow store
_SAVE_POLLS: Final = 600  # a minute, a guess: where saves are frequent the next one begins
_NEVER_LONG: Final = (
    *("aof_rewrite_in_progress", "aof_rewrite_scheduled", "aof_pending_bio_fsync"),
)


def await_quiet(session: RedisSession) -> None:
    """Return when no rewrite, fsync or save of the server is under way.

    Raises:
        TargetError: It does not come to an end, or the server is gone.
    """
    for poll in range(_REWRITE_POLLS):
        if not _is_busy(session.info("persistence"), poll):
            return
        # A wait at the server's side: no list is called like this.
        session.command("BLPOP", "steelyard:no-such-list", _POLL_S)
    raise TargetError(
        "the server still rewrites its append-only file, an hour after the last run",
        hint="Load fewer keys, or set `auto-aof-rewrite-percentage: 0` in every treatment.",
    )


def _is_busy(told: Mapping[str, str], poll: int) -> bool:
    if any(told.get(name, "0") != "0" for name in _NEVER_LONG):
        return True
    return told.get("rdb_bgsave_in_progress") == "1" and poll < _SAVE_POLLS
