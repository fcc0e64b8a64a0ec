"""How the kernel's files say a value, and when two texts mean the same."""

import re

_SELECTED = re.compile(r"\[([^\]]+)\]")
# Parameters of modules: they take 1 and show Y (kernel/params.c, param_get_bool).
_TRUTH = {"Y": "1", "N": "0"}


def current(text: str) -> str:
    """Return the value in a file: of a selection such as ``always [madvise] never`` the chosen."""
    match = _SELECTED.search(text)
    return match[1] if match else " ".join(text.split())


def same(asked: str, actual: str) -> bool:
    """Return whether what is asked for is what is there, however its blanks are."""
    return _plain(asked) == _plain(actual)


def _plain(text: str) -> str:
    words = " ".join(text.split())
    return _TRUTH.get(words, words)
