"""The way out of a misspelling: the known word that was meant, or all of them."""

import difflib
from collections.abc import Iterable
from typing import Final

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
