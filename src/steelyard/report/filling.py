"""An engine's words in a finished document, wherever its texts have marks for them."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from steelyard.model.work_words import WorkWords
from steelyard.report.document import Figure

Part = TypeVar("Part")


def filled(part: Part, words: WorkWords) -> Part:
    """Return a document, or a part of one, with words at all marks; figures know them for axes."""
    done: Part = _reworded(part, words.fill, {"words": words})
    return done


def reworded(part: Part, change: Callable[[str], str]) -> Part:
    """Return a document, or a part of one, with all its texts changed."""
    done: Part = _reworded(part, change, {})
    return done


def _reworded(part: Any, change: Callable[[str], str], of_figures: dict[str, Any]) -> Any:  # noqa: ANN401 - whatever a document holds
    """Return a part with all texts below it changed; what has nothing to change stays itself."""
    if type(part) is str:  # an enumeration's member is a text, too, and has no marks
        return change(part)
    if isinstance(part, tuple):
        return tuple(_reworded(each, change, of_figures) for each in part)
    if not is_dataclass(part) or isinstance(part, type | WorkWords):
        return part
    values = {
        each.name: _reworded(getattr(part, each.name), change, of_figures) for each in fields(part)
    }
    return replace(part, **(values | of_figures if isinstance(part, Figure) else values))
