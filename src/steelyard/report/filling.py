"""An engine's words in a finished document, wherever its texts have marks for them."""

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from steelyard.model.work_words import WorkWords
from steelyard.report.document import Figure

Part = TypeVar("Part")


def filled(part: Part, words: WorkWords) -> Part:
    """Return a document, or a part of one, with words at all marks; figures know them for axes."""
    done: Part = _filled(part, words)
    return done


def _filled(part: Any, words: WorkWords) -> Any:  # noqa: ANN401 - whatever a document holds
    """Return a part with all texts below it filled; what has no mark stays itself."""
    if type(part) is str:  # an enumeration's member is a text, too, and has no marks
        return words.fill(part)
    if isinstance(part, tuple):
        return tuple(_filled(each, words) for each in part)
    if not is_dataclass(part) or isinstance(part, type | WorkWords):
        return part
    values = {each.name: _filled(getattr(part, each.name), words) for each in fields(part)}
    if isinstance(part, Figure):
        values["words"] = words
    return replace(part, **values)
