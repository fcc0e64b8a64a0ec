"""The way out of a misspelling, and how offending values are shown."""

import difflib
import re
from collections.abc import Iterable
from typing import Final

from steelyard.experiment.document import Value, WrittenFloat, WrittenInt

_SHOWN_LENGTH: Final = 60
# A password in a URI (scheme://user:password@) or in a libpq keyword string.
SECRET: Final = re.compile(r"://[^\s/:@]*:[^\s/@]+@|\bpassword\s*=\s*[^\s&]", re.IGNORECASE)
# A password among the words of a command, or set for it: --password x, --token=x, PGPASSWORD=x.
COMMAND_SECRET: Final = re.compile(
    r"(?<!\S)--?(?:password|passwd|passphrase|pass|secret|token)(?:\s+|=)[^\s-]"
    r"|(?:password|passwd|passphrase|secret|token)=\S|\bsshpass\s+-p",
    re.IGNORECASE,
)


_LETTERS_PER_SLIP: Final = 3  # a guess: a third of a word may be wrong
_LEAST_BEGINNING: Final = 3  # letters that stand for the one word that begins with them


def closest(word: str, known: Iterable[str]) -> str:
    """Return the known word that a misspelled one most likely means, or "" when none is close."""
    by_folded = {name.casefold(): name for name in known}
    folded = word.casefold()
    begun = [name for name in by_folded if name.startswith(folded)]
    if folded not in by_folded and len(folded) >= _LEAST_BEGINNING and len(begun) == 1:
        return by_folded[begun[0]]
    alike = difflib.get_close_matches(folded, by_folded, n=len(by_folded) or 1, cutoff=0.6)
    close = [name for name in alike if slips(folded, name) <= _most_slips(folded, name)]
    return by_folded[close[0]] if close else ""


def slips(word: str, other: str) -> int:
    """Return how many letters are missing, too many, wrong, or swapped with their neighbour."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(word):
        above, before, row = before, row, [i + 1]
        for j, wanted in enumerate(other):
            cost = min(before[j] + (letter != wanted), before[j + 1] + 1, row[j] + 1)
            if i and j and (letter, word[i - 1]) == (other[j - 1], wanted):
                cost = min(cost, above[j - 1] + 1)
            row.append(cost)
    return row[-1]


def _most_slips(word: str, other: str) -> int:
    return max(len(word), len(other)) // _LETTERS_PER_SLIP


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return "did you mean `x`?" for the closest known word, or "" when none is close."""
    name = closest(word, known)
    return f"did you mean `{name}`?" if name else ""


def choice(word: str, known: Iterable[str]) -> str:
    """Return the closest known word as a question, or all of them when none is close."""
    names = list(known)
    return did_you_mean(word, names) or f"known: {listed(names)}"


def listed(names: Iterable[str]) -> str:
    """Return names as ``a, b or c``."""
    *first, last = [f"`{name}`" for name in names] or ["none"]
    return f"{', '.join(first)} or {last}" if first else last


def shown(value: object) -> str:
    """Return a value as the user wrote it, short, and never with a password in it."""
    text = written(value)
    if SECRET.search(text) or COMMAND_SECRET.search(text):
        return "a value with a password in it"
    return f"`{text if len(text) <= _SHOWN_LENGTH else text[: _SHOWN_LENGTH - 3] + '...'}`"


def written(value: object) -> str:
    """Return a value in YAML's words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, WrittenInt | WrittenFloat):
        return value.text
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {written(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(written(item) for item in value) + "]"
    return str(value)


def strings(value: Value) -> Iterable[str]:
    """Yield every text inside a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
