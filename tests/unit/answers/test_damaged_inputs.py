"""Whatever a file or a record holds: a sentence or a result, never a traceback or a script.

``STEELYARD_FUZZ`` is how many inputs are tried in all; ``SHARES`` says of which kind.
"""

import copy
import json
import math
import os
import random
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.answers.browse import Head, blocks_page, list_document, run_page
from steelyard.answers.campaign import analyse
from steelyard.answers.claims.examination import (
    examination_document,
    examination_json,
    examine,
    imported_document,
    published_tables,
    repeats_numbered,
)
from steelyard.answers.claims.statements import Publication, read_claims
from steelyard.answers.claims.tables import COLUMNS, _shipped, read_table, table_text
from steelyard.answers.report import Listed
from steelyard.core.campaign import CampaignRecord
from steelyard.core.wording import InputError, SteelyardError
from steelyard.record.journal import _CHECKSUM, FORMAT, _line, read_lines, replay
from steelyard.report.document import Document
from steelyard.report.html import render_html
from steelyard.report.terminal import render_terminal
from steelyard.systems.printed_results import FORMS, read_printed

NUMBER = int(os.environ.get("STEELYARD_FUZZ", "4000"))
# By what they take: from 1 ms for a table to 15 for claims about one, 2.5 in the mean.
SHARES = {"tables": 0.4, "printed": 0.1, "forms": 0.25, "statements": 0.005, "records": 0.245}
RECORDINGS = Path(__file__).parents[2] / "recordings"
PRINTED = tuple(
    (RECORDINGS / name).read_text()
    for name in (
        "pgbench/15/rate.stdout",
        "pgbench_log/15/failed.log.0",
        "redis_benchmark/7.0.15/set.stdout",
        "redis_benchmark_csv/7.0.15/set-get.stdout",
        "sysbench/1.0.20/cpu.stdout",
        "host/iostat/iostat-x.txt",
    )
)
WORDS = (
    *("", "0", "-1", "1", "7.48", "1e9", "1e-9", "1e99", "9" * 40, "1,355", "nan", "inf", "٣", "²"),
    *("=1+1", "@x", "\x1b[31m", "<script>", "a + b", "average", "yes", "no", "max", "+52%", "2x"),
    *("\0", '"', ",", ";", "\n", "\r", "\r\n", "\t", "{", "]", "[tps a b 1]", "\ufeff", "\ud800"),
    *("x" * 5000, "9" * 5000, "a;b", "g", "default", "tuned", "10", "60"),
)


def _tables(generator: random.Random) -> str:
    """Return a table of hostile fields, most of the right width."""
    heads = generator.sample([column.name for column in COLUMNS], generator.randint(1, 12))
    heads += [name for name in ("configuration", "tps") if name not in heads]
    lines = [",".join(heads)]
    for _ in range(generator.randint(0, 12)):
        words = [_field(generator, head) for head in heads]
        lines.append(",".join(words[: generator.randint(len(words) - 1, len(words))] or words))
    return "\n".join(lines)


def _field(generator: random.Random, head: str) -> str:
    if head in ("configuration", "against", "workload"):
        return (
            generator.choice(("a", "b", "c", *WORDS))
            if generator.random() < 0.2
            else "ab"[generator.random() < 0.5]
        )
    if generator.random() < 0.8:
        fitting = {"statistic": "max", "control": "yes", "burstable": "no", "stated_change": "+5%"}
        return fitting.get(head, str(generator.choice((0, 1, 10, 7.5, 1000, 123456))))
    return generator.choice(WORDS)


def _damaged(generator: random.Random, text: str) -> str:
    """Return a text with words put in, cut out or doubled."""
    for _ in range(generator.randint(1, 6)):
        at = generator.randrange(len(text) + 1)
        to = min(len(text), at + generator.choice((0, 1, 5, 80)))
        text = text[:at] + generator.choice((*WORDS, text[at:to] * 2)) + text[to:]
    return text


def _show(document: Document) -> None:
    shown = render_terminal(document, whole=True)
    assert "\x1b" not in shown
    assert "<script>" not in render_html(document).partition("</head>")[2].partition("<script")[0]


def _claims_of(text: str) -> None:
    examination = examine(published_tables([read_table(text, "t.csv")]))
    examination_json(examination)
    _show(examination_document(examination, "t"))


def _import_of(text: str) -> None:
    rows = repeats_numbered([*read_printed(text)[1]])
    table_text(rows)
    _show(imported_document(rows, "t"))


def _form_of(text: str) -> None:
    for form in FORMS:
        try:
            read_printed(text, form.name)
        except InputError:
            continue


def _statements_of(text: str) -> None:
    articles, claims = read_claims(text, "c.toml")
    base = Publication(rows=(), articles=articles, claims=claims)
    table = read_table(_shipped("postgres_cells.csv"), "t.csv")
    examine(published_tables([table], base))


def _inputs(kind: str) -> Iterator[str]:
    generator = random.Random(20261124)  # noqa: S311 - a seed, no secret
    claims = _shipped("claims.toml")
    for _ in range(round(SHARES[kind] * NUMBER)):
        if kind == "tables":
            text = _tables(generator)
            yield text if generator.random() < 0.7 else _damaged(generator, text)
        elif kind == "statements":
            yield _damaged(generator, claims)
        else:
            yield _damaged(generator, generator.choice(PRINTED))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "use"),
    [
        ("tables", _claims_of),
        ("printed", _import_of),
        ("forms", _form_of),
        ("statements", _statements_of),
    ],
)
def test_no_input_gives_a_traceback(kind: str, use: Callable[[str], None]) -> None:
    """Each input is understood, or refused with a sentence; both happen."""
    refused = understood = 0
    for text in _inputs(kind):
        try:
            use(text)
            understood += 1
        except InputError as error:
            refused += bool(error.message)
    assert understood or NUMBER < 10_000
    assert refused or kind == "forms"
    assert understood + refused == round(SHARES[kind] * NUMBER)


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
    for _ in range(round(SHARES["records"] * NUMBER)):
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
    assert shown + refused == round(SHARES["records"] * NUMBER)
