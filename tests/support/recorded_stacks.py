"""The facts of two stacks: the published one, and one as it is recommended."""

from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from ruamel.yaml import YAML

from steelyard.core.stack import StackFacts

STACKS = Path(__file__).parents[1] / "recordings" / "stack"
PUBLISHED = STACKS / "published.yaml"
RECOMMENDED = STACKS / "recommended.yaml"


@cache
def published() -> StackFacts:
    """Return the published stack, with its guesses marked as assumed."""
    return read(PUBLISHED)


@cache
def recommended() -> StackFacts:
    """Return a stack without an error and without a warning."""
    return read(RECOMMENDED)


def read(path: Path) -> StackFacts:
    """Return the facts in a file."""
    return TypeAdapter(StackFacts).validate_python(document(path))


def document(path: Path) -> dict[str, Any]:
    """Return a file as YAML gives it."""
    loaded: dict[str, Any] = YAML(typ="safe").load(path.read_text("utf-8"))
    return loaded
