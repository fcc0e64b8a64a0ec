"""Whatever a record holds: a sentence or a result, never a traceback or a script.

``STEELYARD_FUZZ`` is how many records are tried.
"""

import copy
import json
import math
import os
import random
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.answers.browse import Head, blocks_page, list_document, run_page
from steelyard.answers.campaign import analyse
from steelyard.answers.report import Listed
from steelyard.core.campaign import CampaignRecord
from steelyard.core.wording import SteelyardError
from steelyard.record.journal import _CHECKSUM, FORMAT, _line, read_lines, replay
from steelyard.report.html import render_html

NUMBER = int(os.environ.get("STEELYARD_FUZZ", "1000"))
WORDS = (
    *("", "0", "-1", "1", "7.48", "1e9", "1e-9", "1e99", "9" * 40, "1,355", "nan", "inf", "٣", "²"),
    *("=1+1", "@x", "\x1b[31m", "<script>", "a + b", "average", "yes", "no", "max", "+52%", "2x"),
    *("\0", '"', ",", ";", "\n", "\r", "\r\n", "\t", "{", "]", "[tps a b 1]", "\ufeff", "\ud800"),
    *("x" * 5000, "9" * 5000, "a;b", "g", "default", "tuned", "10", "60"),
)
Json = Any
JOURNAL = Path(__file__).parents[3] / "docs" / "examples" / "cause-commit" / "journal.jsonl"
NUMBERS: tuple[Json, ...] = (0, -1, 1, 7.5, 1e308, -1e308, 10**30, 2**63, math.nan, math.inf, True)
TEXTS = (*WORDS, "<script>alert(1)</script>", "default", "writes")
OTHERS: tuple[Json, ...] = (None, [], {}, [[]], *NUMBERS, *TEXTS)


def _places(value: Json, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the ways to everything in a JSON value; of lists only to the first few."""
    yield path
    below = value.items() if isinstance(value, dict) else ()
    below = enumerate(value[:5]) if isinstance(value, list) else below
    for key, each in below:
        yield from _places(each, (*path, key))


def _struck(generator: random.Random, entry: Json, places: list[tuple[Any, ...]]) -> Json:
    """Return an entry with one thing in it gone, doubled or another."""
    path = generator.choice(places)
    if not path:
        return generator.choice(OTHERS)
    *way, last = path
    entry = copy.deepcopy(entry)
    around = entry
    for key in way:
        around = around[key]
    there, chance = around[last], generator.random()
    if chance < 0.1:
        del around[last]
    elif isinstance(there, list) and chance < 0.4:
        around[last] = there * 2 if generator.random() < 0.5 else there[:1]
    elif isinstance(there, int | float) and chance < 0.6:
        around[last] = generator.choice(NUMBERS)
    elif isinstance(there, str) and chance < 0.7:
        around[last] = generator.choice(TEXTS)
    else:
        around[last] = generator.choice(OTHERS)
    return entry


def _shown_as_pages(record: CampaignRecord) -> None:
    """Analyse a record and make pages of it."""
    analysis = analyse(record, curves=False)
    head = Head(key="x", name=record.experiment.name, started_at=record.started_at)
    listed = Listed(directory="d", size_bytes=1, analysis=analysis)
    whole = list_document([(head, listed)], place="p", query="", found=1, page=1)
    for page in (whole, blocks_page(record, analysis), run_page(record, 1)):
        assert page is None or "<script>alert" not in render_html(page)


# Numbers at the edge of what a computer holds overflow in numpy, which tells and goes on.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_no_record_gives_a_traceback() -> None:
    """One thing in one line of a whole journal is another: refused as damage, or shown as text."""
    lines, _ = read_lines(JOURNAL)
    entries = [json.loads(line)["entry"] for line in JOURNAL.read_bytes().splitlines()]
    places = [list(_places(entry)) for entry in entries]
    weights = [1 if entry["kind"] in ("created", "removed") else 5 for entry in entries]
    generator = random.Random(20261126)  # noqa: S311 - a seed, no secret
    refused = shown = 0
    for _ in range(NUMBER):
        (at,) = generator.choices(range(len(entries)), weights)
        struck = _struck(generator, entries[at], places[at])
        head = {"format": FORMAT, "sequence": at, "at": lines[at].at, "elapsed_s": 1.0}
        body = json.dumps({**head, "entry": struck})[:-1].encode()
        raw = body + _CHECKSUM.format(zlib.crc32(body)).encode()
        try:
            line = _line(raw, at, "journal")
            _shown_as_pages(replay((*lines[:at], line, *lines[at + 1 :])))
            shown += 1
        except SteelyardError as error:
            refused += bool(error.message)
    assert shown
    assert refused
    assert shown + refused == NUMBER
