"""When a value in force is the one that was asked for, however Redis spells it."""

from typing import Final

from steelyard.model.redis_size import in_bytes

_CLASSES: Final = {"replica": "slave"}  # CONFIG GET says slave
_LIMIT_WORDS: Final = 4
_LIMITS: Final = "client-output-buffer-limit"
_LETTERS: Final = "notify-keyspace-events"  # shown in an order of its own, A for all classes
_ALL_LETTERS: Final = "g$lshzxetd"  # what A stands for (redis.conf)


def same_value(name: str, asked: str, actual: str) -> bool:
    """Return whether a server that shows ``actual`` does what was asked."""
    if name.lower() == _LIMITS:
        return _limits(asked) <= _limits(actual)
    if name.lower() == _LETTERS:
        return _letters(asked) == _letters(actual)
    wanted, shown = asked.lower().split(), actual.lower().split()
    return [_plain(word) for word in wanted] == [_plain(word) for word in shown]


def _plain(word: str) -> str:
    number = in_bytes(word)
    return word if number is None else str(number)


def _limits(text: str) -> frozenset[tuple[str, ...]]:
    """Return the limits of each class of clients; a file may name some of them only."""
    words = [_CLASSES.get(word, _plain(word)) for word in text.lower().split()]
    return frozenset(
        tuple(words[at : at + _LIMIT_WORDS]) for at in range(0, len(words), _LIMIT_WORDS)
    )


def _letters(text: str) -> frozenset[str]:
    return frozenset(text.strip('"').replace("A", _ALL_LETTERS))
