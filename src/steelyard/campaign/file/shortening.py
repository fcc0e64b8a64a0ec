"""A file made short: what ``run --short`` changes in it, so that all of it can be tried in minutes.

These are overrides like those of the command line, made from what the file says. So the record's
experiment has them, and what the command line overrides itself comes after them and counts.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Final

from steelyard.campaign.file.document import Document, KeyPath, Value
from steelyard.core.wording import InputError, parse_duration_s

TITLE: Final = "(shortened)"  # behind the names of experiments and articles
RUN_S: Final = 2.0
_DISCARDED_S: Final = 1.0
_MOST: Final = 3  # numbers of clients, threads and rates
_LEAST: Final = 3  # blocks, and runs of a capacity: the fewest that a file may have
_OF_DATA: Final = 10
_DATA: Final = ("scale", "keys", "loaded")
NOTICE: Final = (
    f"Figures of a shortened run, not those of the experiment: runs of {RUN_S:g} s without warm-up,"
    f" at most {_MOST} numbers of clients, a tenth of the data, few repetitions, no long runs."
)


def shortened(document: Document) -> tuple[str, ...]:
    """Return the overrides that make a file short, and mark its name and description."""
    return tuple(f"{path}={json.dumps(value)}" for path, value in _changes(document))


def _changes(document: Document) -> Iterator[tuple[str, Value]]:
    is_once = document.at(("design",)) == "single-pass"
    yield "name", f"{document.at(('name',)) or 'experiment'} {TITLE}"
    yield "description", f"{NOTICE} {document.at(('description',)) or ''}".strip()
    yield from _runs(document)
    yield "measure.warm_up", "0s"
    yield "measure.runs_per_start", 1
    if document.at(("measure", "calibration")) is not None:  # which would measure the warm-up
        yield "measure.calibration", None
    if document.at(("capacity",)) is not None:
        yield "capacity.runs", _LEAST
    if not is_once:
        yield "stop.blocks", _LEAST
    if document.at(("stop", "width")) is not None:  # which asks for as many as it takes
        yield "stop.width", None
    for key in ("clients", "threads", "rate", "pipeline"):
        if few := _few(document.at(("load", key))):
            yield f"load.{key}", few
    yield from _data(document)


def _runs(document: Document) -> Iterator[tuple[str, Value]]:
    """Yield the lengths of runs; one that is shorter already stays."""
    if not _is_below(document, ("measure", "run_time"), RUN_S):
        yield "measure.run_time", f"{RUN_S:g}s"
    for index, work in _workloads(document):
        if "run_time" in work and not _is_below(document, ("workloads", index, "run_time"), RUN_S):
            yield f"workloads.{index}.run_time", f"{RUN_S:g}s"
    if document.at(("measure", "discard_start")) is not None and not _is_below(
        document, ("measure", "discard_start"), _DISCARDED_S
    ):
        yield "measure.discard_start", f"{_DISCARDED_S:g}s"
    if document.at(("sustain",)) is not None:  # a whole checkpoint cycle of each, at the least
        yield "sustain", None


def _is_below(document: Document, path: KeyPath, limit_s: float) -> bool:
    """Return whether the file asks for at most so long; an unreadable value passes."""
    value = document.at(path)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return False
    try:
        return parse_duration_s(value) <= limit_s
    except InputError:
        return True


def _few(value: Value) -> list[Value]:
    """Return the first, the middle and the last of more than three, as a list or as one text."""
    items: Sequence[Value] = value if isinstance(value, list) else ()
    if isinstance(value, str):
        items = [word.strip() for word in value.split(",")]
    return [items[0], items[len(items) // 2], items[-1]] if len(items) > _MOST else []


def _data(document: Document) -> Iterator[tuple[str, Value]]:
    for index, work in _workloads(document):
        for key in _DATA:
            amount = work.get(key)
            if isinstance(amount, int) and amount > 1:
                yield f"workloads.{index}.{key}", max(1, int(amount) // _OF_DATA)


def _workloads(document: Document) -> Iterator[tuple[int, dict[str, Value]]]:
    works = document.at(("workloads",))
    for index, work in enumerate(works if isinstance(works, list) else ()):
        if isinstance(work, dict):
            yield index, work
