"""What a record lists as left outside, by kind."""

from pathlib import Path
from typing import TypeVar

from steelyard.core.outside import InCluster, OnServer, TurnedKnob
from steelyard.record.directory import read_standing

_T = TypeVar("_T")


def left_over(path: Path) -> tuple[str, ...]:
    """Return the directories."""
    return tuple(made.name for made in read_standing(path).left if made.resource == "directory")


def left_groups(path: Path) -> tuple[str, ...]:
    """Return the control groups."""
    return tuple(made.name for made in read_standing(path).left if made.resource == "cgroup")


def _things(path: Path, kind: type[_T]) -> tuple[_T, ...]:
    return tuple(each.thing for each in read_standing(path).left if isinstance(each.thing, kind))


def left_on_servers(path: Path) -> tuple[OnServer, ...]:
    """Return the things on servers."""
    return _things(path, OnServer)


def left_in_clusters(path: Path) -> tuple[InCluster, ...]:
    """Return the objects in clusters."""
    return _things(path, InCluster)


def left_knobs(path: Path) -> tuple[TurnedKnob, ...]:
    """Return the knobs."""
    return _things(path, TurnedKnob)
