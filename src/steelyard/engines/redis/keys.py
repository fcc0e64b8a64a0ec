"""The keys that exist when a visit begins: their names, their values, and how they get there.

They are named as the generator names those that it asks for, so that reads hit; their values are
random bytes, the same on every server, so that neither LZF nor a file system shrinks them.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from steelyard.gateways.redis import RedisSession
from steelyard.model.errors import TargetError
from steelyard.model.workload import KeySpace

Namer = Callable[[KeySpace, int], str]
Words = tuple[str | bytes, ...]
# redis-benchmark.c: `key:__rand_int__`, where the word becomes 12 digits only with -r.
ONE_KEY: Final = "key:__rand_int__"
_SEED: Final = 9  # any; it must stay, because prepared states are kept
VALUE_SHIFTS: Final = 4096  # so many different values, of one random text shifted byte by byte
VALUE_STEP: Final = 61  # prime to it, so that neighbours differ
# What is under way at once: neither we nor the server's buffers hold more (guesses).
PIPELINE_BYTES: Final = 1024**2
PIPELINE_COMMANDS: Final = 1000


def benchmark_key(space: KeySpace, number: int) -> str:
    """Return how the generators name a key; redis-benchmark's single key is the word itself."""
    is_word = space.keys == 1 and space.first == 0 and number == 0
    return ONE_KEY if is_word else f"key:{space.first + number:012d}"


def random_text(value_bytes: int) -> bytes:
    """Return the text of which every value of that size is a part."""
    return random.Random(_SEED).randbytes(value_bytes + VALUE_SHIFTS)  # noqa: S311 - no secret


def values(value_bytes: int) -> Callable[[int], bytes]:
    """Return the value of each key by its number: random bytes that any process makes again."""
    text = random_text(value_bytes)

    def value(number: int) -> bytes:
        begin = number * VALUE_STEP % VALUE_SHIFTS
        return text[begin : begin + value_bytes]

    return value


def fill(
    session: RedisSession,
    space: KeySpace,
    *,
    named: Namer = benchmark_key,
    told: Callable[[int], None] = lambda _: None,
    beside: int = 0,
) -> int:
    """Load the keys of a space into the session's database; return how many are there then.

    They go in pipelines of at most ``PIPELINE_BYTES``, or of one value where that is larger.

    Args:
        session: In the database.
        space: Which keys, and how large.
        named: How the generator names them.
        told: Is told how many are loaded, after each pipeline.
        beside: So many other keys are there already.

    Raises:
        ReplyError: The server refuses: it is out of memory, or its disk is full.
        TargetError: It is gone, or holds another number of keys than it was given.
    """
    done = 0
    for batch in _pipelines(space, named):
        session.pipeline(batch)
        done += len(batch)
        told(done)
    return require_held(session, space, beside=beside)


def require_held(session: RedisSession, space: KeySpace, *, beside: int = 0) -> int:
    """Return how many keys of a space a database holds, ``beside`` those that were there.

    Raises:
        TargetError: It is another number.
    """
    held = int(str(session.command("DBSIZE"))) - beside
    if held != space.loaded:
        raise TargetError(
            f"the server was given {space.loaded} keys and holds {held}",
            hint="Does it evict (maxmemory), or does somebody else write to it?",
        )
    return space.loaded


def _pipelines(space: KeySpace, named: Namer) -> Iterator[Sequence[Words]]:
    value = values(space.value_bytes)
    most = max(1, min(PIPELINE_COMMANDS, PIPELINE_BYTES // max(1, space.value_bytes)))
    for begin in range(0, space.loaded, most):
        numbers = range(begin, min(begin + most, space.loaded))
        yield [("SET", named(space, number), value(number)) for number in numbers]
