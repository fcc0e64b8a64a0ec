"""Whatever a file holds: `claims` and `import` say a sentence or a result, never a traceback.

``STEELYARD_FUZZ`` is how many inputs of each kind are tried.
"""

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from steelyard.answers.claims.examination import examine, published_tables
from steelyard.answers.claims.section import (
    examination_document,
    examination_json,
    imported_document,
    repeats_numbered,
)
from steelyard.answers.claims.series import _text
from steelyard.answers.claims.statements import Publication, read_claims
from steelyard.answers.claims.tables import COLUMNS, read_table, table_text
from steelyard.core.errors import InputError
from steelyard.report.document import Document
from steelyard.report.html import render_html
from steelyard.report.terminal import render_terminal
from steelyard.systems.printed_results import FORMS, read_printed

NUMBER = int(os.environ.get("STEELYARD_FUZZ", "300"))
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
    table = read_table(_text("postgres_cells.csv"), "t.csv")
    examine(published_tables([table], base))


def _inputs(kind: str) -> Iterator[str]:
    generator = random.Random(20261124)  # noqa: S311 - a seed, no secret
    claims = _text("claims.toml")
    count = NUMBER // 15 if kind == "statements" else NUMBER
    for _ in range(count):
        if kind == "tables":
            text = _tables(generator)
            yield text if generator.random() < 0.7 else _damaged(generator, text)
        elif kind == "statements":
            yield _damaged(generator, claims)
        else:
            yield _damaged(generator, generator.choice(PRINTED))


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
    assert understood
    assert refused or kind == "forms"
    assert understood + refused == (NUMBER // 15 if kind == "statements" else NUMBER)
