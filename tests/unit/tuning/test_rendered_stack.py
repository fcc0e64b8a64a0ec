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


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_files_are_fit_to_be_written(scene: Callable[[], StackDesign]) -> None:
    """Names are unique and relative, lines end, and long comments are wrapped."""
    files = render(scene())
    assert len({file.name for file in files}) == len(files)
    for file in files:
        assert not file.name.startswith("/")
        assert ".." not in file.name
        assert file.content.endswith("\n")
        assert not file.content.endswith("\n\n")
        comments = [line for line in file.content.splitlines() if line.lstrip().startswith("#")]
        assert all(len(line) <= 100 for line in comments)


def test_only_files_of_machines_have_paths() -> None:
    """Domains, objects and settings are handed over otherwise; the others name where they go."""
    files = {file.name: file.path for file in render(stack_designs.kvm())}
    assert files["kvm/pg.xml"] == files["postgres/steelyard.conf"] == ""
    assert files["hypervisor/90-steelyard.conf"] == "/etc/sysctl.d/90-steelyard.conf"
    assert {file.path for file in render(stack_designs.rds())} == {""}


def test_each_layer_is_rendered_once() -> None:
    """A design of each place gives the files of its layers and no others."""
    layers = {scene.__name__: {file.layer for file in render(scene())} for scene in SCENES}
    assert layers == {
        "local": {"linux", "postgres"},
        "kvm": {"hypervisor", "kvm", "linux", "postgres"},
        "cnpg": {"linux", "kubernetes"},
        "rds": {"postgres"},
    }
