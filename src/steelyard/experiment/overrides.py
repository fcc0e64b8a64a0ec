"""``--set path=value``: one value of an experiment file, replaced on the command line."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from steelyard.experiment.document import (
    Document,
    KeyPath,
    Place,
    Value,
    parse_document,
)
from steelyard.experiment.form import WHAT_IS_COMPARED
from steelyard.experiment.retargeting import (
    fitting_target,
    require_no_targets_below,
    retargeted,
    treatments_of,
)
from steelyard.experiment.suggestions import choice, shown
from steelyard.model.errors import InputError, Problem

# `--target` stands for this path, which no file has: the target of every treatment.
TARGET: Final = "target"

# Asking for the one on the command line withdraws the other of the file.
_EXCLUDES: Final[Mapping[KeyPath, KeyPath]] = {
    ("stop", "precision"): ("stop", "decide"),
    ("stop", "decide"): ("stop", "precision"),
}

# Where the settings stand in a path; a factor's short form has no level.
_SETTINGS_AT: Final[Mapping[str, tuple[int, ...]]] = {
    "treatments": (2,),
    **dict.fromkeys(WHAT_IS_COMPARED[1:], (2, 3)),
}


class _Refused(Exception):  # noqa: N818 - never leaves this module
    def __init__(self, problem: Problem) -> None:
        self.problem = problem


def apply_overrides(document: Document, overrides: Sequence[str]) -> Document:
    """Return a document with values replaced; wrong overrides become its problems.

    Unknown keys are put in all the same: validation refuses them like those of the file, and
    says what was meant. ``target=...`` comes first, wherever it stands: the others may change it.
    """
    if not isinstance(document.value, dict):
        return document
    value = _copied(document.value)
    places = dict(document.places)
    problems = list(document.problems)
    given: set[KeyPath] = set()
    for override in sorted(overrides, key=lambda each: not _is_target(each)):
        try:
            path = _put(value, places, override)
        except _Refused as refused:
            problems.append(refused.problem)
            continue
        given.add(path)
        _withdraw(value, _EXCLUDES.get(path, ()), given)
        _withdraw_old_kind(document, value, path, given)
    return Document(value=value, places=places, problems=tuple(problems))


def _is_target(override: str) -> bool:
    return override.partition("=")[0].strip() == TARGET


def _retarget(root: Value, places: dict[KeyPath, Place], override: str) -> KeyPath:
    """Put one target in place of those of all treatments."""
    treatments = treatments_of(root) if isinstance(root, dict) else None
    if isinstance(root, dict) and treatments is not None:
        try:
            require_no_targets_below(root)
            target = fitting_target(root, override.partition("=")[2])
            root["treatments"] = retargeted(treatments, target)
        except InputError as error:
            problem = Problem(message=error.message, hint=error.hint, path="--target")
            raise _Refused(problem) from None
        for name in treatments:
            _displace(places, ("treatments", name, "target"), "--target")
    return (TARGET,)


def _put(root: Value, places: dict[KeyPath, Place], override: str) -> KeyPath:
    words, separator, text = override.partition("=")
    if not separator or not words.strip():
        hint = "Write it as in `--set stop.budget=20m`."
        raise _refused(override, f"{shown(override)} is no `path=value`", hint)
    if words.strip() == TARGET:
        return _retarget(root, places, override)
    path = _path(root, override, _steps(root, words.strip()))
    holder = root
    for step in path[:-1]:
        holder = _below(holder, step)
    value = _value(override, text)
    if isinstance(holder, dict):
        holder[str(path[-1])] = value
    elif isinstance(holder, list) and isinstance(path[-1], int):
        holder[path[-1]] = value
    _displace(places, path, "--set")
    return path


def _displace(places: dict[KeyPath, Place], path: KeyPath, option: str) -> None:
    """Forget the file's places from a path on; what is new has none."""
    for known in [known for known in places if known[: len(path)] == path]:
        del places[known]
    nowhere = Place(key=None, value=None, given_as=option)
    for length in range(1, len(path)):
        places.setdefault(path[:length], nowhere)
    places[path] = nowhere


def _steps(root: Value, words: str) -> list[str]:
    """Return the steps of a dotted path; a level's or a setting's name may have dots in it."""
    parts = words.split(".")
    if parts[0] in WHAT_IS_COMPARED[1:]:
        parts = _with_level(root, parts)
    for place in _SETTINGS_AT.get(parts[0], ()):
        if len(parts) > place + 2 and parts[place] in ("postgres", "redis", "linux"):
            return [*parts[: place + 1], ".".join(parts[place + 1 :])]
    return parts


def _with_level(root: Value, parts: list[str]) -> list[str]:
    """Return the steps with a known level in one piece: ``0.9``."""
    levels = root
    for step in parts[:2]:
        levels = levels.get(step) if isinstance(levels, dict) else None
    for end in range(len(parts), 3, -1):
        level = ".".join(parts[2:end])
        if isinstance(levels, dict) and level in levels:
            return [*parts[:2], level, *parts[end:]]
    return parts


def _path(root: Value, override: str, steps: Sequence[str]) -> KeyPath:
    """Return the path in the document, list items found by name or index; makes what is absent."""
    path: list[str | int] = []
    holder = root
    for index in range(len(steps)):
        last = index == len(steps) - 1
        key = _key(holder, override, steps[: index + 1])
        path.append(key)
        if isinstance(holder, dict) and not last and holder.get(str(key)) is None:
            holder[str(key)] = {}
        if not last:
            holder = _below(holder, key)
    return tuple(path)


def _below(holder: Value, key: str | int) -> Value:
    if isinstance(holder, list) and isinstance(key, int):
        return holder[key]
    return holder[key] if isinstance(holder, dict) and isinstance(key, str) else None


def _key(holder: Value, override: str, steps: Sequence[str]) -> str | int:
    """Return the key of the last step, or the index of the list item it names."""
    step = steps[-1]
    where = ".".join(steps[:-1])
    if isinstance(holder, list):
        names = [item.get("name") if isinstance(item, dict) else None for item in holder]
        if step in names:
            return names.index(step)
        if re.fullmatch(r"[0-9]{1,6}", step) and int(step) < len(holder):
            return int(step)
        known = [name for name in names if isinstance(name, str)]
        hint = choice(step, known) if known else "Write the whole list."
        raise _refused(override, f"`{where}` has no item {shown(step)}", hint)
    if not isinstance(holder, dict):
        hint = "Shorten the path."
        raise _refused(override, f"`{where}` has nothing below it", hint)
    if steps[:-1] == ["treatments"] and step not in holder:
        message = f"there is no treatment {shown(step)}"
        raise _refused(override, message, choice(step, holder))
    return step


def _value(override: str, text: str) -> Value:
    """Return the value of YAML text; what only looks like YAML (``%m [%p]``) is taken as text."""
    if not text.strip():
        return None
    document = parse_document(text)
    if not document.problems:
        return document.value
    if text.lstrip()[0] in "[{":
        problem = document.problems[0]
        raise _refused(override, f"the value: {problem.message}", "Quote it for the shell.")
    return text


def _withdraw(value: Value, path: KeyPath, given: set[KeyPath]) -> None:
    if not path or tuple(path) in given or not isinstance(value, dict):
        return
    holder = value.get(str(path[0]))
    if isinstance(holder, dict):
        holder.pop(str(path[1]), None)


def _withdraw_old_kind(file: Document, value: Value, path: KeyPath, given: set[KeyPath]) -> None:
    """Withdraw a target's keys in the file when its kind changes: they were the old one's."""
    if len(path) != 4 or path[0] != "treatments" or path[2:] != ("target", "kind"):
        return
    target = Document(value=value, places={}).at(path[:3])
    old = file.at(path) or "local"
    if not isinstance(target, dict) or target["kind"] == old or path[:3] in given:
        return
    for key in [key for key in target if (*path[:3], key) not in given]:
        del target[key]


def _copied(value: Value) -> Value:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value


def _refused(override: str, message: str, hint: str) -> _Refused:
    path = override.partition("=")[0].strip()
    return _Refused(Problem(message=message, hint=hint, path=f"--set {path}"))
