"""Tables as CSV, as a program reads them: numbers are numbers, and rows are found by their keys."""

import csv
import io
import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from steelyard.report.document import Section, Table
from support.examples import EXAMPLES

# Tables that have texts alone, each with a kept campaign that has it. A table leaves this list
# when its columns are typed; none comes in.
TEXT_TABLES = {
    "contract: Contract": "places",
    "settings: Effective settings that differ": "article-001/persistence",
    "settings: Settings that differ unasked": "quick",
}
LOAD = ("clients", "threads", "rate_per_s")
# Of any characters: a configuration may be called 4KiB.
_NAMES = {"baseline", "campaign", "configuration", "of", "statement", "workload"}
_NUMBER = r"[±+-]?\d[\d,]*(\.\d+)?"
_UNIT = r"(%|[a-zµ]?s|min|h|days|[KMGT]?i?B(/s)?|1/s|pages?|runs?|blocks?|clients?)"
_QUANTITY = re.compile(rf"{_NUMBER}( ?{_UNIT})?|.*\d to {_NUMBER}.*|.*\[{_NUMBER}.*\].*|–")  # noqa: RUF001


def kind_of(section: Section, table: Table) -> str:
    """Return what a table is called whatever the cell and the sides that it is of."""
    title, against, _ = table.title.partition(" against ")
    is_of_a_cell = re.search(r", \d+ clients?\b", title)
    return f"{section.anchor}: {'of a cell' if is_of_a_cell else title}{against.rstrip()}"


def rows_of(text: str) -> list[dict[str, str]]:
    """Return the rows of a CSV file."""
    return list(csv.DictReader(io.StringIO(text), strict=True))


def flaws(text: str) -> Iterator[str]:
    """Yield what keeps a program from reading a CSV file."""
    rows = rows_of(text)
    columns = list(rows[0]) if rows else []
    for column in columns:
        values = [row[column] for row in rows if row[column]]
        numbers = [value for value in values if _is_number(value)]
        texts = [value for value in values if not _is_number(value)]
        if column in _NAMES:
            continue
        if numbers and texts and column not in LOAD:
            yield f"{column} has numbers and texts: {numbers[0]}, {texts[0]}"
        yield from (f"{column}: {value}" for value in texts if _QUANTITY.fullmatch(value))
        if not re.fullmatch(r"[\w-]+", column):
            yield f"{column} is no key"
        stem, _, bound = column.rpartition("_")
        if bound in ("low", "high") and not {stem, f"{stem}_low", f"{stem}_high"} <= {*columns}:
            yield f"{column}: its value or other bound is missing"
    if {"clients", "threads"} & {*columns} and not {*LOAD} <= {*columns}:
        yield f"of a load there are not all of {LOAD}"
    if "load" in columns:
        yield "a load in words"


def strangers(text: str, name: str) -> Iterator[str]:
    """Yield rows that a campaign's summary does not have: by configuration, workload and load."""
    known = _known(name)
    for row in rows_of(text):
        for keys in (("configuration",), ("baseline",), ("workload",), LOAD):
            if keys[0] not in row:
                continue
            found = tuple(row.get(key, "") for key in keys)
            if any(found) and found not in known[keys]:
                yield f"{keys}: {found}"


@cache
def _known(name: str) -> dict[tuple[str, ...], set[tuple[str, ...]]]:
    summary = json.loads((EXAMPLES / name / "summary.json").read_text())
    configurations = {(each,) for each in summary["configurations"]}
    return {
        ("configuration",): configurations | {*_values(summary, "configuration")},
        ("baseline",): configurations | {*_values(summary, "baseline")},
        ("workload",): {(each,) for each in summary["workloads"]},
        LOAD: set(_loads(summary)) | {("pooled", "", "")},
    }


def _values(part: Any, key: str) -> Iterator[tuple[str]]:
    if isinstance(part, dict):
        if isinstance(part.get(key), str):
            yield (part[key],)
        for each in part.values():
            yield from _values(each, key)
    elif isinstance(part, list):
        for each in part:
            yield from _values(each, key)


def _loads(part: Any) -> Iterator[tuple[str, ...]]:
    if isinstance(part, dict):
        if {*LOAD} <= {*part}:
            yield tuple("" if part[key] is None else str(part[key]) for key in LOAD)
        for each in part.values():
            yield from _loads(each)
    elif isinstance(part, list):
        for each in part:
            yield from _loads(each)


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
