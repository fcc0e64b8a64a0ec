"""A file made short: what ``run --short`` changes in it, so that all of it can be tried in minutes.

These are overrides like those of the command line, made from what the file says. So the record's
experiment has them, and what the command line overrides itself comes after them and counts.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from steelyard.campaign.file.document import Document, KeyPath, Value
from steelyard.core.schedule import CLOSED, LEAST_ASKED
from steelyard.core.wording import InputError, parse_duration_s

TITLE: Final = "(shortened)"  # behind the names of experiments and articles
RUN_S: Final = 2.0
_DISCARDED_S: Final = 1.0
_MOST: Final = 3  # numbers of clients, threads and rates
_LISTS: Final = ("clients", "threads", "rate", "pipeline")
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
        yield "capacity.runs", LEAST_ASKED
    if not is_once:
        yield "stop.blocks", LEAST_ASKED
    if document.at(("stop", "width")) is not None:  # which asks for as many as it takes
        yield "stop.width", None
    yield from _loads(document)
    yield from _data(document)


def _loads(document: Document) -> Iterator[tuple[str, Value]]:
    """Yield fewer loads; the others of the file still fit those that stay."""
    for key in _LISTS:
        items = _listed(document.at(("load", key)))
        if len(items) > _MOST:
            yield f"load.{key}", _few(items, _kept(key, items))


def _kept(key: str, items: Sequence[Value]) -> Iterator[int]:
    """Yield the places of what must stay, because others of the file refer to it."""
    numbers = [_number(item) for item in items]
    if key == "clients":  # no threads, and no clients of the capacity, are more
        yield numbers.index(max(numbers))
    elif key == "threads":  # each load has at least so many clients
        yield numbers.index(min(numbers))
    elif key == "rate":  # throughput is compared in a closed loop, the capacity is for shares
        yield from (place for place, item in enumerate(items) if item == CLOSED)
        yield from [place for place, item in enumerate(items) if "%" in str(item)][:1]


def _few(items: Sequence[Value], kept: Iterable[int]) -> list[Value]:
    """Return what must stay, the first, the last and the one in the middle: three in all."""
    places = dict.fromkeys([*kept, 0, len(items) - 1, len(items) // 2])
    return [items[place] for place in sorted([*places][:_MOST])]


def _listed(value: Value) -> Sequence[Value]:
    """Return the items of a list, or of a comma list in one text."""
    if isinstance(value, str):
        return [word.strip() for word in value.split(",")]
    return value if isinstance(value, list) else ()


def _number(value: Value) -> int:
    """Return a number, also as text, of `8/2` the first; 0 of a text that its form refuses."""
    text = str(value).partition("/")[0].strip()
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else 0


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
    yield from _turns(document)
    if document.at(("sustain",)) is not None:  # a whole checkpoint cycle of each, at the least
        yield "sustain", None


def _turns(document: Document) -> Iterator[tuple[str, Value]]:
    """Yield the lengths of a turn of which a short run would not hold two."""
    if document.at(("measure", "turn")) is None:
        return
    if not _is_below(document, ("measure", "turn"), RUN_S / 2):
        yield "measure.turn", f"{RUN_S / 2:g}s"
        discard = ("measure", "turn_discard")
        if document.at(discard) is not None and not _is_below(document, discard, RUN_S / 4):
            yield "measure.turn_discard", f"{RUN_S / 4:g}s"


def _is_below(document: Document, path: KeyPath, limit_s: float) -> bool:
    """Return whether the file asks for at most so long; an unreadable value passes."""
    value = document.at(path)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return False
    try:
        return parse_duration_s(value) <= limit_s
    except InputError:
        return True


def _data(document: Document) -> Iterator[tuple[str, Value]]:
    for index, work in _workloads(document):
        for key in _DATA:
            amount = _number(work.get(key))
            if amount > 1:
                yield f"workloads.{index}.{key}", max(1, amount // _OF_DATA)


def _workloads(document: Document) -> Iterator[tuple[int, dict[str, Value]]]:
    works = document.at(("workloads",))
    for index, work in enumerate(works if isinstance(works, list) else ()):
        if isinstance(work, dict):
            yield index, work
