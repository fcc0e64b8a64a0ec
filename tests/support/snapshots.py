"""Values written down as JSON, in order to be compared with what the code makes of them later."""

import dataclasses
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path

SNAPSHOTS = Path(__file__).parents[1] / "golden" / "snapshots"
_SHOWN = 40  # differences: enough to see what they have in common
_NUMBER = re.compile(r"/\d+(?=/|$)")


def shape(value: object) -> object:
    """Return a value as JSON has it: all fields of dataclasses, and lists of lines for texts."""
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: shape(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): shape(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [shape(inner) for inner in value]
    return value.split("\n") if isinstance(value, str) and "\n" in value else value


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Yield each value of a JSON document with the way to it; an empty container is a value."""
    if isinstance(value, dict) and value:
        for key, inner in sorted(value.items()):
            yield from leaves(inner, f"{path}/{key}")
    elif isinstance(value, list) and value:
        for number, inner in enumerate(value):
            yield from leaves(inner, f"{path}/{number}")
    else:
        yield path, value


def differences(old: object, new: object, *, rel: float = 0.0) -> list[str]:
    """Return a line for each value that is not the same in two JSON documents.

    Args:
        old: What was there.
        new: What is there now.
        rel: What two numbers that count as the same may differ by, as a fraction.
    """
    before, after = dict(leaves(old)), dict(leaves(new))
    return [
        f"{path}: {_shown(before, path)} -> {_shown(after, path)}"
        for path in dict.fromkeys((*before, *after))
        if path not in before or path not in after or not _same(before[path], after[path], rel)
    ]


def _same(one: object, other: object, rel: float) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=rel)
    return one == other


def _shown(values: Mapping[str, object], path: str) -> str:
    return json.dumps(values[path], ensure_ascii=False) if path in values else "(nothing)"


def check_text(path: Path, text: str) -> None:
    """Compare a text with its file, to the letter, or write the file when asked to."""
    if os.environ.get("STEELYARD_UPDATE_GOLDEN") == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")


def check_snapshots(
    group: str, values: Mapping[str, object], *, folder: Path | None = None
) -> None:
    """Compare values with the files of a group, one for each name; write the files when asked to.

    Args:
        group: Folder below ``SNAPSHOTS``.
        values: What is there now, by name; a name may have slashes.
        folder: Of this run of the tests alone: another word stands for it.
    """
    kept_in = SNAPSHOTS / group
    own = "" if folder is None else str(folder)
    now = {}
    for name, value in values.items():
        text = json.dumps(shape(value))
        now[name] = json.loads(text.replace(own, "/folder") if own else text)
    if os.environ.get("STEELYARD_UPDATE_GOLDEN") == "1":
        _write(kept_in, now)
    kept = {
        str(path.relative_to(kept_in).with_suffix("")): json.loads(path.read_text("utf-8"))
        for path in kept_in.rglob("*.json")
    }
    changed = [f"{name}: no snapshot of it" for name in sorted(now.keys() - kept.keys())]
    changed += [f"{name}: nothing has this snapshot" for name in sorted(kept.keys() - now.keys())]
    both = sorted(now.keys() & kept.keys())
    changed += folded({name: differences(kept[name], now[name]) for name in both})
    more = [f"and {len(changed) - _SHOWN} more"] if len(changed) > _SHOWN else []
    assert not changed, "\n".join([f"{group} changed:", *changed[:_SHOWN], *more])


def folded(changes: Mapping[str, Sequence[str]]) -> list[str]:
    """Return differences of several documents; of those that are the same but for numbers, one.

    Args:
        changes: Differences of each document by its name.
    """
    alike: dict[str, list[str]] = {}
    for name, lines in changes.items():
        for line in lines:
            path, _, values = line.partition(": ")
            alike.setdefault(f"{_NUMBER.sub('/*', path)}: {values}", []).append(f"{name}{line}")
    return [
        lines[0]
        if len(lines) == 1
        else f"{line} ({len(lines)} times, first in {lines[0].partition(':')[0]})"
        for line, lines in alike.items()
    ]


def _write(folder: Path, now: Mapping[str, object]) -> None:
    for path in folder.rglob("*.json"):
        if str(path.relative_to(folder).with_suffix("")) not in now:
            path.unlink()
    for name, value in now.items():
        path = folder / f"{name}.json"
        text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
