"""The recorded stacks are read whole: nothing in the files is lost on the way into the model."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from steelyard.core.stack import StackFacts, Visibility
from support.recorded_stacks import PUBLISHED, RECOMMENDED, document, published, read


def lost(written: Any, kept: Any, path: str = "") -> list[str]:
    """Return the paths of what a file says and the model does not."""
    if isinstance(written, dict):
        return [
            each
            for key, value in written.items()
            for each in lost(value, (kept or {}).get(key), f"{path}.{key}")
        ]
    if isinstance(written, list) and isinstance(kept, list | tuple) and len(written) == len(kept):
        return [
            each for i, item in enumerate(written) for each in lost(item, kept[i], f"{path}.{i}")
        ]
    return [] if written == kept else [path]


@pytest.mark.parametrize("path", [PUBLISHED, RECOMMENDED], ids=lambda path: path.stem)
def test_nothing_in_the_file_is_lost(path: Path) -> None:
    """A misspelt key would be ignored in silence and its rule would not apply."""
    kept = TypeAdapter(StackFacts).dump_python(read(path))
    assert lost(document(path), kept) == []


def test_guesses_are_marked() -> None:
    """What the articles do not print is an assumption, what they print is none."""
    assert published().origin("hypervisor.nodes").assumed
    assert published().origin("hypervisor.idle_states").assumed
    assert not published().origin("postgres.settings").assumed
    assert published().origin("linux.governor").visibility is Visibility.NO


@pytest.mark.parametrize("path", [PUBLISHED, RECOMMENDED], ids=lambda path: path.stem)
def test_every_part_has_an_origin(path: Path) -> None:
    """No fact comes from nowhere."""
    facts = read(path)
    for part in document(path):
        if part not in ("format", "origins", "intent"):
            assert facts.origin(part).visibility is Visibility.YES, part
