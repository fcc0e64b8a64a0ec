"""The page on the architecture names what there is, and its walks lead downward."""

import importlib
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
LAYERS = next(each["layers"] for each in PROJECT["contracts"] if each["type"] == "layers")
FLOOR = {name: floor for floor, row in enumerate(LAYERS) for name in row.split(" | ")}
NAMES = sorted(set(re.findall(rf"`((?:{'|'.join(FLOOR)})(?:\.\w+)+)`", PAGE)))
WALKS = re.findall(
    r"^\*\*(.+)\*\*\n\n((?:\d+\. .+\n)+)", PAGE.split("\n## ")[2].partition("\n")[2], re.MULTILINE
)
MOST_ROOMS = 8


def _exists(name: str) -> bool:
    """Return whether it is a module, or what a module has."""
    try:
        importlib.import_module(f"steelyard.{name}")
    except ModuleNotFoundError:
        module, _, attribute = name.rpartition(".")
        return "." in name and hasattr(importlib.import_module(f"steelyard.{module}"), attribute)
    return True


@pytest.mark.parametrize("name", NAMES)
def test_what_the_page_names_is_there(name: str) -> None:
    """A module, or a class, function or table of one."""
    assert _exists(name)


def test_there_are_four_walks() -> None:
    """Of a load, a setting, a latency and a finding."""
    assert len(WALKS) == 4


@pytest.mark.parametrize(("title", "walk"), WALKS, ids=[title for title, _ in WALKS])
def test_a_walk_leads_downward_in_few_rooms(title: str, walk: str) -> None:
    """Each line lies on the floor of the one above it, or below; none names two floors."""
    rooms = walk.splitlines()
    assert len(rooms) <= MOST_ROOMS, title
    named = [set(re.findall(r"`(\w+)\.\w", room)) & set(FLOOR) for room in rooms]
    floors = [{FLOOR[package] for package in packages} for packages in named]
    assert all(len(floor) == 1 for floor in floors), title
    assert [f for floor in floors for f in floor] == sorted(f for floor in floors for f in floor)
