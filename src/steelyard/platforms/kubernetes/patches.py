"""Merge patches of objects: what differs, what brings an object there, and what brings it back.

A value that is absent and one that is null mean the same, as in a merge patch.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from steelyard.model.errors import InputError
from steelyard.model.quantities import parse_quantity

Difference = tuple[str, object, object]


def differences(asked: object, live: object, path: str = "") -> Iterator[Difference]:
    """Yield each field that is not as asked: its path, what is asked, and what is there."""
    if isinstance(asked, Mapping):
        there = live if isinstance(live, Mapping) else {}
        for name, value in asked.items():
            yield from differences(value, there.get(name), f"{path}.{name}" if path else name)
    elif not _same(asked, live):
        yield path, asked, live


def patch_for(asked: Mapping[str, Any], live: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch that brings an object to what is asked; empty where it is that."""
    patch: dict[str, Any] = {}
    for name, value in asked.items():
        there = live.get(name)
        if isinstance(value, Mapping) and isinstance(there, Mapping):
            inner = patch_for(value, there)
            if inner:
                patch[name] = inner
        elif not _same(value, there):
            patch[name] = value
    return patch


def merged(live: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an object becomes by a merge patch."""
    made = dict(live)
    for name, value in patch.items():
        there = made.get(name)
        is_inside = isinstance(value, Mapping) and isinstance(there, Mapping)
        made[name] = merged(there or {}, value) if is_inside else value
    return made


def before(patch: Mapping[str, Any], live: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch that puts back what a patch is about to change; null removes."""
    kept: dict[str, Any] = {}
    for name, value in patch.items():
        there = live.get(name)
        if isinstance(value, Mapping) and isinstance(there, Mapping):
            kept[name] = before(value, there)
        else:
            kept[name] = there
    return kept


def strange(
    asked: Mapping[str, Any], former: Mapping[str, Any], live: Mapping[str, Any]
) -> tuple[str, ...]:
    """Return the fields that have neither what is asked nor what they had before."""
    unlike = [path for path, _, _ in differences(former, live)]
    return tuple(
        path
        for path, _, _ in differences(asked, live)
        if any(path == each or path.startswith(f"{each}.") for each in unlike)
    )


def without(patch: Mapping[str, Any], paths: Collection[str], path: str = "") -> dict[str, Any]:
    """Return a merge patch that leaves fields at these paths alone."""
    kept: dict[str, Any] = {}
    for name, value in patch.items():
        here = f"{path}.{name}" if path else name
        if here in paths:
            continue
        kept[name] = without(value, paths, here) if isinstance(value, Mapping) else value
    return kept


def _same(asked: object, live: object) -> bool:
    """Return whether two values mean the same to Kubernetes: 1 and "1", 1Gi and 1024Mi."""
    if isinstance(asked, list):
        return (
            isinstance(live, list)
            and len(live) == len(asked)
            and not any(any(differences(a, b)) for a, b in zip(asked, live, strict=True))
        )
    if isinstance(asked, bool) or isinstance(live, bool) or live is None:
        return _word(asked) == _word(live)
    return _word(asked) == _word(live) or _equal(str(asked), str(live))


def _word(value: object) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _equal(one: str, other: str) -> bool:
    try:
        return parse_quantity(one) == parse_quantity(other)
    except InputError:
        return False
