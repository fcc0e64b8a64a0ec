"""The pictures of docs/methods.md are what the simulator and the product's code draw."""

import re
from pathlib import Path

import pytest

from steelyard.report.charts import can_draw

DOCS = Path(__file__).parents[2] / "docs"
SHOWN = re.compile(r"!\[[^\]]+\]\(pictures/([a-z0-9-]+)\.svg\)")

if not can_draw():
    pytest.skip("pictures need the extra `charts`", allow_module_level=True)

import pictures


@pytest.mark.slow
@pytest.mark.parametrize("name", pictures.PICTURES)
def test_picture_is_current(name: str) -> None:
    """Drawn again, a picture is the same to the byte: none was touched by hand."""
    kept = (DOCS / "pictures" / f"{name}.svg").read_text(encoding="utf-8")
    assert kept == pictures.draw(name), "draw it again: python tests/method/pictures.py"


def test_every_picture_is_shown() -> None:
    """docs/methods.md shows each picture once, and none that is not drawn."""
    shown = SHOWN.findall((DOCS / "methods.md").read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(pictures.PICTURES)
