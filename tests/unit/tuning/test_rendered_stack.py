"""All files of a design, word for word.

``STEELYARD_UPDATE_GOLDEN=1`` writes the files anew; read the difference before committing it.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fakes import stack_designs
from steelyard.core.stack import StackDesign
from steelyard.tuning.files.files import render

GOLDEN = Path(__file__).parents[2] / "golden" / "stack"
SCENES: tuple[Callable[[], StackDesign], ...] = (
    stack_designs.local,
    stack_designs.kvm,
    stack_designs.cnpg,
    stack_designs.rds,
)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_files_of_a_place(scene: Callable[[], StackDesign]) -> None:
    """Every file says what it said before, to the letter, and there is no other."""
    folder = GOLDEN / scene.__name__
    files = render(scene())
    if os.environ.get("STEELYARD_UPDATE_GOLDEN") == "1":
        for file in files:
            (folder / file.name).parent.mkdir(parents=True, exist_ok=True)
            (folder / file.name).write_text(file.content, encoding="utf-8")
    for file in files:
        assert file.content == (folder / file.name).read_text(encoding="utf-8")
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {file.name for file in files} == there
