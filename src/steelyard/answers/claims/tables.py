"""Tables of somebody else's results as CSV: read with all that is wrong at once, and written.

The article series is such tables, with single figures, steps and claims. Other tables come from
anybody. What looks like a formula or steers a terminal is text here; what is written for a
spreadsheet is marked as text there.
"""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.resources import files
from typing import Final

from steelyard.answers.claims.statements import Publication, read_claims
from steelyard.core.published import (
    METRICS,
    NamedFigure,
    Printed,
    PublishedRow,
    Step,
    parse_printed,
    parse_ratio,
    parts_of,
)
from steelyard.core.wording import MS_PER_S, InputError, did_you_mean

_MOST_ROWS: Final = 200_000
_MOST_TOLD: Final = 20  # problems
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
_YES: Final = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
_STATISTICS: Final = ("one run", "mean", "median", "max", "min")


class TableError(InputError):
    """A table with all that is wrong with it."""

    def __init__(self, source: str, problems: Sequence[tuple[int, str]]) -> None:
        self.problems = tuple(problems)
        several = len(problems) != 1
        told = [f"  {source}:{line}: {what}" for line, what in problems[:_MOST_TOLD]]
        if len(problems) > _MOST_TOLD:
            told.append(f"  and {len(problems) - _MOST_TOLD:,} more")
        heading = f"{source} has {len(problems):,} problem{'s' * several}:"
        super().__init__("\n".join([heading, *told]), hint="docs/claims.md lists the columns.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column that is read.

    Attributes:
        name: As it is documented and written.
        also: Other names that tables give it.
        meaning: For the documentation.
        read: Returns the value of a text that is not empty.
        field: Of the row that it fills; empty for a metric.
    """

    name: str
    meaning: str
    read: Callable[[str], object]
    field: str = ""
    also: tuple[str, ...] = ()


def _text(text: str) -> str:
    return text[1:] if text.startswith("'") and text[1:].startswith(_FORMULA) else text


def _count(text: str) -> int:
    number = parse_printed(text).value
    if number != int(number) or not 1 <= number <= 1_000_000:
        raise InputError(f"{text!r} is no number of clients")
    return int(number)


def _yes(text: str) -> bool:
    if text.lower() not in _YES:
        raise InputError(f"{text!r} is neither yes nor no")
    return _YES[text.lower()]


def _statistic(text: str) -> str:
    if text.lower() not in _STATISTICS:
        raise InputError(f"{text!r} is none of {', '.join(_STATISTICS)}")
    return text.lower()


def _amount(text: str) -> Printed:
    number = parse_printed(text)
    if number.value < 0.0:
        raise InputError(f"{text!r} is below 0, and nothing measured here is")
    return number


def _positive(text: str) -> float:
    number = _amount(text).value
    if not number:
        raise InputError(f"{text!r} is no time above 0")
    return number


def _latency(text: str) -> Printed:
    return _amount(text).times(1.0 / MS_PER_S)


def _rate(text: str) -> float | None:
    return _amount(text).value or None


def _label(name: str, meaning: str, *also: str, of: str = "") -> Column:
    return Column(name=name, meaning=meaning, read=_text, field=of or name, also=also)


def _milliseconds(name: str, meaning: str, *also: str) -> Column:
    return Column(name=f"{name}_ms", meaning=meaning, read=_latency, also=also)


COLUMNS: Final = (
    _label("configuration", "What was compared; needed.", "environment", "system", "name"),
    _label("workload", "What was asked of it; an average names all its parts with `+`.",
           "command", "test", "script", "benchmark"),
    Column(name="clients", meaning="Sessions at once; empty for an average over several.",
           read=_count, field="clients", also=("connections", "users", "concurrency")),
    _label("repeat", "Number or name of the run, where there are several.", "run", "iteration"),
    _label("block", "The same for runs that were taken one after the other, in random order."),
    Column(name="statistic", meaning="one run, mean, median, max or min.", read=_statistic,
           field="statistic"),
    Column(name="tps", meaning="Transactions or requests per second.", read=_amount,
           also=("rps", "ops_per_s", "qps", "requests_per_s", "throughput")),
    _milliseconds("latency_mean", "Mean latency, ms.", "latency_ms", "avg_latency_ms",
                  "mean_latency_ms", "latency_average_ms", "avg_ms"),
    _milliseconds("latency_stddev", "Standard deviation of the latency, ms.", "stddev_ms"),
    _milliseconds("latency_p50", "Percentiles of the latency, ms.", "p50_latency_ms", "p50_ms"),
    _milliseconds("latency_p95", "Likewise.", "p95_latency_ms", "p95_ms"),
    _milliseconds("latency_p99", "Likewise.", "p99_latency_ms", "p99_ms"),
    _milliseconds("latency_max", "The longest, ms.", "max_latency_ms", "max_ms"),
    Column(name="metric", meaning="Any other quantity, with `value` and `unit`.", read=_text),
    Column(name="value", meaning="Its figure.", read=parse_printed),
    _label("unit", "What one operation is (`8-KiB page read`), or the unit of `value`."),
    Column(name="rate", meaning="Offered rate of an open loop, 1/s; empty for a closed one.",
           read=_rate, field="rate_per_s"),
    Column(name="seconds", meaning="How long it was measured.", read=_positive, field="seconds",
           also=("duration_s",)),
    _label("against", "The configuration that the next two speak of."),
    Column(name="changed", meaning="Everything that differs from it, by semicolon.",
           read=parts_of, field="changed"),
    Column(name="stated_change", meaning="What its author says of tps: `+52%`, `1.5x`.",
           read=parse_ratio, field="stated_change", also=("delta", "change")),
    _label("equal_group", "The same for conditions that should be equal."),
    Column(name="control", meaning="yes: nothing that was changed can reach this workload.",
           read=_yes, field="is_control"),
    Column(name="burstable", meaning="yes: its volume or instance has a store of credits.",
           read=_yes, field="is_burstable"),
    Column(name="cost", meaning="What it costs, in one currency.", read=_amount, field="cost"),
    Column(name="cost_hours", meaning="What that pays for, in hours (a month is 730).",
           read=_positive, field="cost_hours"),
    _label("study", "Only rows of one study are compared.", "article"),
)  # fmt: skip
_BY_NAME: Final = {name: column for column in COLUMNS for name in (column.name, *column.also)}


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTable:
    """A table that was read.

    Attributes:
        unread: Columns that are not known, with a proposal where one is near.
    """

    source: str
    rows: tuple[PublishedRow, ...]
    unread: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class _Reading:
    """A table on its way, and what is wrong with it."""

    source: str
    problems: list[tuple[int, str]] = field(default_factory=list)

    def problem(self, line: int, what: str) -> None:
        self.problems.append((line, what))


def read_table(text: str, source: str) -> PublishedTable:
    """Return the rows of a CSV file with a line of column names.

    Raises:
        TableError: With everything that is wrong, each with its line.
    """
    reading = _Reading(source=source)
    lines = list(_lines(text, reading))
    if not lines:
        reading.problems = reading.problems or [
            (1, "it is empty: a line of column names begins it")
        ]
        raise TableError(source, reading.problems)
    (at, heads), *body = lines
    places, unread = _places(at, heads, reading)
    rows = [_row(line, words, places, len(heads), reading) for line, words in body]
    if not body:
        reading.problem(at, "no row follows the column names")
    found = tuple(row for row in rows if row is not None)
    _require_apart(found, reading)
    if reading.problems:
        raise TableError(source, sorted(reading.problems, key=lambda each: each[0]))
    return PublishedTable(source=source, rows=found, unread=unread)


def _lines(text: str, reading: _Reading) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines that are not empty, with their numbers."""
    plain = text.removeprefix("\ufeff")
    if "\0" in plain:
        reading.problem(1 + plain[: plain.index("\0")].count("\n"), "a byte of 0: it is no text")
        return
    head = plain.partition("\n")[0]
    delimiter = max(",;\t", key=head.count)
    reader = csv.reader(io.StringIO(plain, newline=""), delimiter=delimiter, strict=True)
    try:
        for count, words in enumerate(reader):
            if count > _MOST_ROWS:
                reading.problem(reader.line_num, f"more than {_MOST_ROWS:,} rows")
                return
            if any(word.strip() for word in words):
                yield reader.line_num, [word.strip() for word in words]
    except csv.Error as error:
        reading.problem(reader.line_num, f"no CSV: {error}")


def _places(
    line: int, heads: Sequence[str], reading: _Reading
) -> tuple[dict[int, Column], tuple[str, ...]]:
    """Return which place holds which column, and what is not read."""
    places: dict[int, Column] = {}
    unread = []
    for place, head in enumerate(heads):
        column = _BY_NAME.get(head.lower().replace(" ", "_"))
        if column is None:
            proposal = did_you_mean(head.lower(), _BY_NAME)
            unread.append(f"{head} ({proposal})" if proposal else head)
        elif column in places.values():
            reading.problem(line, f"{column.name} has two columns")
        else:
            places[place] = column
    names = {column.name for column in places.values()}
    for problem in _lacking(names, unread):
        reading.problem(line, problem)
    return places, tuple(unread)


def _lacking(names: set[str], unread: Sequence[str]) -> Iterator[str]:
    beside = f"; not known: {', '.join(unread)}" if unread else ""
    if "configuration" not in names:
        yield f"no column `configuration`{beside}"
    if not names & {"tps", "value", *(f"{name}_ms" for name in METRICS)}:
        yield f"no column of figures, such as `tps` or `latency_mean_ms`{beside}"
    if "value" in names and "metric" not in names:
        yield "a column `value` without one named `metric`"


def _row(
    line: int, words: Sequence[str], places: Mapping[int, Column], width: int, reading: _Reading
) -> PublishedRow | None:
    """Return a row; None where something is wrong with it."""
    if len(words) != width:
        reading.problem(line, f"{len(words)} fields, and {width} column names")
        return None
    found, wrong = _values(words, places)
    wrong = wrong or list(_empty(found, places))
    for problem in wrong:
        reading.problem(line, problem)
    return None if wrong or "configuration" not in found else _filled(line, found, reading.source)


def _values(
    words: Sequence[str], places: Mapping[int, Column]
) -> tuple[dict[str, object], list[str]]:
    """Return the values by column, and what is wrong with others."""
    found: dict[str, object] = {}
    wrong = []
    for place, column in places.items():
        if words[place]:
            try:
                found[column.name] = column.read(words[place])
            except InputError as error:
                wrong.append(f"{column.name}: {error.message}")
    return found, wrong


def _empty(found: Mapping[str, object], places: Mapping[int, Column]) -> Iterator[str]:
    named = any(column.name == "configuration" for column in places.values())
    if named and "configuration" not in found:
        yield "no configuration"
    if not any(isinstance(value, Printed) for value in found.values()):
        yield "no figure"


def _filled(line: int, found: Mapping[str, object], source: str) -> PublishedRow:
    values = {
        column.field: found[column.name]
        for column in COLUMNS
        if column.field and column.name in found
    }
    metrics = {name: found.get("tps" if name == "tps" else f"{name}_ms") for name in METRICS} | {
        str(found.get("metric", "")): found.get("value")
    }
    figures = tuple((name, each) for name, each in metrics.items() if isinstance(each, Printed))
    return PublishedRow(source=source, line=line, figures=figures, **values)  # type: ignore[arg-type]


def _require_apart(rows: Sequence[PublishedRow], reading: _Reading) -> None:
    """Note rows that are the same run of the same cell."""
    seen: dict[tuple[object, ...], int] = {}
    for row in rows:
        key = (
            *(row.study, row.configuration, row.workload, row.clients, row.repeat, row.block),
            *(row.statistic, tuple(name for name, _ in row.figures)),
        )
        if key in seen and (row.repeat or row.block):
            reading.problem(row.line, f"the same run as line {seen[key]}")
        seen.setdefault(key, row.line)


def table_text(rows: Sequence[PublishedRow]) -> str:
    """Return rows as CSV that ``read_table`` reads again, and that a spreadsheet takes for text."""
    used = [column for column in COLUMNS if any(_written(row, column) for row in rows)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column.name for column in used])
    writer.writerows([[_written(row, column) for column in used] for row in rows])
    return out.getvalue()


def _written(row: PublishedRow, column: Column) -> str:
    known = {*METRICS}
    further = [(name, figure) for name, figure in row.figures if name not in known]
    if column.name in ("metric", "value"):
        if not further:
            return ""
        return _inert(further[0][0]) if column.name == "metric" else _digits(further[0][1], 1.0)
    if not column.field:
        name = column.name.removesuffix("_ms")
        figure = row.figure(name)
        return "" if figure is None else _digits(figure, MS_PER_S if name != column.name else 1.0)
    value = getattr(row, column.field)
    return _shown(value, {each.name: each.default for each in fields(PublishedRow)}[column.field])


def _shown(value: object, absent: object) -> str:
    if value is None or value == absent:
        return ""
    if isinstance(value, bool):
        return "yes"
    if isinstance(value, tuple):
        return _inert("; ".join(value))
    if isinstance(value, Printed):
        return _digits(value, 1.0)
    return _inert(str(value)) if isinstance(value, str) else f"{value:g}"


def _digits(figure: Printed, factor: float) -> str:
    return f"{figure.value * factor:.10g}"


def _inert(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text


_REDIS_CLIENTS = 20  # redis-benchmark -c 20
_RUN_S = 60.0  # pgbench -T 60
_ALL = "select-only + simple-update + tpcb-like"
_NOT_TOLD = "not told"


@cache
def article_series() -> Publication:
    """Return the published series."""
    articles, claims = read_claims(_shipped("claims.toml"), "claims.toml")
    return Publication(
        rows=(*_postgres(), *_averages(), *_redis()),
        figures=tuple(
            NamedFigure(
                article=row["article"],
                name=row["figure"],
                value=parse_printed(row["value"]),
                unit=row["unit"],
            )
            for row in _records("figures.csv")
        ),
        steps=tuple(map(_step, _records("changes.csv"))),
        articles=articles,
        claims=claims,
    )


def _shipped(name: str) -> str:
    return files("steelyard.answers").joinpath("published_files", name).read_text("utf-8")


def _records(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(_shipped(name).splitlines()))


def _postgres() -> tuple[PublishedRow, ...]:
    rows = read_table(_shipped("postgres_cells.csv"), "postgres_cells.csv").rows
    return tuple(replace(row, seconds=_RUN_S) for row in rows)


def _redis() -> tuple[PublishedRow, ...]:
    rows = read_table(_shipped("redis_cells.csv"), "redis_cells.csv").rows
    return tuple(replace(row, study="redis", clients=_REDIS_CLIENTS) for row in rows)


def _averages() -> list[PublishedRow]:
    """Return the printed averages: rows without a number of clients."""
    found = []
    for place, record in enumerate(_records("postgres_averages.csv"), start=2):
        latency = parse_printed(record["avg_rw_latency_ms"], 1.0 / MS_PER_S)
        by_workload = {
            "select-only": (("tps", parse_printed(record["avg_ro_tps"])),),
            "simple-update": (
                ("tps", parse_printed(record["avg_rw_tps"])),
                ("latency_mean", latency),
            ),
            _ALL: (("tps", parse_printed(record["overall_avg_tps"])),),
        }
        for workload, figures in by_workload.items():
            row = PublishedRow(
                source="postgres_averages.csv",
                line=place,
                study=record["article"],
                configuration=record["environment"],
                workload=workload,
                figures=figures,
            )
            found.append(row)
    return found


def _step(record: dict[str, str]) -> Step:
    changed, measured = record["changed_at_once"], record["measured"]
    told = () if changed == "nothing" else parts_of(changed)
    nothing = measured == "nothing" or measured.startswith("no ")
    return Step(
        article=record["article"],
        name=record["step"],
        changed=None if changed == _NOT_TOLD else told,
        measured=None if nothing else measured,
        repeated=record["repeated"],
    )
