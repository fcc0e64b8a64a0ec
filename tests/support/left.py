"""What a record lists as left outside, by kind."""

from pathlib import Path

from steelyard.core.outside import InCluster, OnServer, TurnedKnob
from steelyard.record.directory import read_standing


def left_over(path: Path) -> tuple[str, ...]:
    """Return the directories."""
    return tuple(made.name for made in read_standing(path).left if made.resource == "directory")


def left_groups(path: Path) -> tuple[str, ...]:
    """Return the control groups."""
    return tuple(made.name for made in read_standing(path).left if made.resource == "cgroup")


def left_on_servers(path: Path) -> tuple[OnServer, ...]:
    """Return the things on servers."""
    return tuple(made.thing for made in read_standing(path).left if made.thing is not None)


def left_in_clusters(path: Path) -> tuple[InCluster, ...]:
    """Return the objects in clusters."""
    return tuple(made.placed for made in read_standing(path).left if made.placed is not None)


def left_knobs(path: Path) -> tuple[TurnedKnob, ...]:
    """Return the knobs."""
    return tuple(made.knob for made in read_standing(path).left if made.knob is not None)
