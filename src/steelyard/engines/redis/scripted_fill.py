"""Keys that a server makes itself from one random text: for servers at the end of a narrow way.

The values are those of ``keys``. Through a forwarded port of a pod each value would go through the
cluster's API: 12 MB/s and 90 us for a key were measured on a busy machine of two cores. A script
gets the text once for many keys. Source: Redis documentation, "EVAL".
"""

from collections.abc import Callable, Iterator
from typing import Final

from steelyard.engines.redis.keys import (
    ONE_KEY,
    VALUE_SHIFTS,
    VALUE_STEP,
    fill,
    random_text,
    require_held,
)
from steelyard.gateways.redis import RedisSession, ReplyError
from steelyard.model.workload import KeySpace

# What one script makes: it holds the server up for so long, and nothing else asks it (guesses).
_SCRIPT_BYTES: Final = 64 * 1024**2
_SCRIPT_KEYS: Final = 10_000
# How a server says that a user may not run scripts, or that nobody may.
_NO_SCRIPTS: Final = ("NOPERM", "unknown command", "no permissions")
_SCRIPT: Final = """
local text, bytes = ARGV[1], tonumber(ARGV[2])
for number = tonumber(ARGV[3]), tonumber(ARGV[4]) - 1 do
  local begin = (number * tonumber(ARGV[5])) % tonumber(ARGV[6])
  local key = string.format('key:%012d', number + tonumber(ARGV[8]))
  if number == 0 and ARGV[7] ~= '' then key = ARGV[7] end
  redis.call('SET', key, string.sub(text, begin + 1, begin + bytes))
end
"""


def fill_by_script(
    session: RedisSession,
    space: KeySpace,
    *,
    told: Callable[[int], None] = lambda _: None,
    beside: int = 0,
) -> int:
    """Let the server make the keys of a space in the session's database; return how many it has.

    Where a server takes no scripts, the keys are sent to it one by one.

    Args:
        session: In the database.
        space: Which keys, and how large.
        told: Is told how many are loaded, after each script.
        beside: So many other keys are there already.

    Raises:
        ReplyError: The server refuses: it is out of memory, or its disk is full.
        TargetError: It is gone, or holds another number of keys.
    """
    text = random_text(space.value_bytes)
    word = ONE_KEY if space.keys == 1 and space.first == 0 else ""
    constant = (VALUE_STEP, VALUE_SHIFTS, word, space.first)
    for begin, end in _ranges(space):
        try:
            session.command(*("EVAL", _SCRIPT, 0, text, space.value_bytes, begin, end, *constant))
        except ReplyError as error:
            if begin == 0 and any(word in error.message for word in _NO_SCRIPTS):
                return fill(session, space, told=told, beside=beside)
            raise
        told(end)
    return require_held(session, space, beside=beside)


def _ranges(space: KeySpace) -> Iterator[tuple[int, int]]:
    most = max(1, min(_SCRIPT_KEYS, _SCRIPT_BYTES // max(1, space.value_bytes)))
    for begin in range(0, space.loaded, most):
        yield begin, min(begin + most, space.loaded)
