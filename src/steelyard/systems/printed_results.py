"""What load generators and observers print, as rows of published tables.

Each form has what tells it from others and what reads it. Nothing is added up over forms, and what
a program does not print stays empty: one output is one run. Output comes from anybody, so numbers
are bounded and lines that are not understood are passed over.

The forms of pgbench, redis-benchmark, sysbench, iostat and EXPLAIN are tested with what the
programs printed; those of HammerDB and CloudWatch were made from their documentation.
"""

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from steelyard.core.outside import Completed
from steelyard.core.published import Printed, PublishedRow, exactly, parse_plan, parse_printed
from steelyard.core.wording import MS_PER_S, US_PER_S, InputError, MeasurementError
from steelyard.systems.redis import redis_benchmark

_N: Final = r"(\d{1,15}(?:\.\d{1,9})?)"
_MS: Final = 1.0 / MS_PER_S
_MOST_CLIENTS: Final = 1_000_000
_LONGEST_LINE: Final = 200  # bytes of a transaction's
_LEAST_COLUMNS: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How one program prints.

    Attributes:
        name: Of the program, for ``--form``.
        seen: A text has this form where the pattern is found in it.
        read: Returns its rows, without configuration; none where nothing is understood.
    """

    name: str
    seen: re.Pattern[str]
    read: Callable[[str], Sequence[PublishedRow]]


def _row(
    workload: str, figures: dict[str, Printed | None], **further: float | str | None
) -> PublishedRow:
    told = tuple((name, each) for name, each in figures.items() if each is not None)
    return PublishedRow(configuration="", workload=workload, figures=told, **further)  # type: ignore[arg-type]


def _other(
    name: str, value: Printed, unit: str, workload: str = "", statistic: str = ""
) -> PublishedRow:
    """Return a row of a quantity that no load generator prints."""
    return _row(workload, {name: value}, unit=unit, statistic=statistic)


def _found(pattern: str, text: str, factor: float = 1.0) -> Printed | None:
    match = re.search(pattern, text, re.MULTILINE)
    return None if match is None else parse_printed(match[1], factor)


def _count(pattern: str, text: str) -> int | None:
    found = _found(pattern, text)
    return int(found.value) if found and 1 <= found.value <= _MOST_CLIENTS else None


def _positive(found: Printed | None) -> float | None:
    return found.value if found is not None and found.value > 0.0 else None


# --- load generators ---


def _pgbench(text: str) -> list[PublishedRow]:
    return [row for part in text.split("transaction type:")[1:] for row in _pgbench_run(part)]


def _pgbench_run(text: str) -> Iterator[PublishedRow]:
    tps = _found(rf"^tps = {_N} \((?:without|excluding)", text) or _found(rf"^tps = {_N}", text)
    if tps is None:
        return
    builtin = re.match(r"\s*<builtin: ([^>\n]{1,60})>", text)
    workload = _BUILTINS.get(builtin[1], builtin[1]) if builtin else text.partition("\n")[0].strip()
    offered = re.search(r"^rate limit schedule lag", text, re.MULTILINE)
    yield _row(
        workload,
        {
            "tps": tps,
            "latency_mean": _found(rf"^latency average = {_N} ms", text, _MS),
            "latency_stddev": _found(rf"^latency stddev = {_N} ms", text, _MS),
        },
        clients=_count(rf"^number of clients: {_N}", text),
        seconds=_positive(_found(rf"^duration: {_N} s", text)),
        # What was offered is not printed; that something was is: clients do not limit the load.
        rate_per_s=tps.value if offered and tps.value > 0.0 else None,
        unit="transaction",
    )


_BUILTINS: Final = {
    "select only": "select-only",
    "simple update": "simple-update",
    "TPC-B (sort of)": "tpcb-like",
}


def _pgbench_log(text: str) -> list[PublishedRow]:
    content = text.encode(errors="replace").split(b"\n")
    lines = _transaction_lines(line for line in content if len(line) <= _LONGEST_LINE)
    columns = [line.split() for line in lines]
    took_us = sorted(int(row[2]) for row in columns if row[2].isdigit() and len(row[2]) < 15)
    ended_us = _last_end_us(lines)
    if not took_us or ended_us is None:
        return []
    seconds = (ended_us - _first_start_us(lines)) / US_PER_S
    if seconds <= 0.0:
        return []
    mean_us = sum(took_us) / len(took_us)
    figures = {"tps": exactly(len(took_us) / seconds), "latency_mean": exactly(mean_us / US_PER_S)}
    for name, share in (("latency_p50", 0.5), ("latency_p95", 0.95), ("latency_p99", 0.99)):
        at = min(len(took_us) - 1, int(share * len(took_us)))
        figures[name] = exactly(took_us[at] / US_PER_S)
    figures["latency_max"] = exactly(took_us[-1] / US_PER_S)
    clients = len({row[0] for row in columns})
    return [_row("", {**figures}, clients=clients, seconds=seconds, unit="transaction")]


def _transaction_lines(lines: Iterable[bytes]) -> list[bytes]:
    """Return the lines that can be a transaction's, of the number of columns that most have."""
    whole = list(_plain(lines))
    widths = Counter(len(line.split()) for line in whole)
    common = widths.most_common(1)[0][0] if widths else 0
    return [line for line in whole if len(line.split()) == common]


def _first_start_us(lines: Iterable[bytes]) -> int:
    """Return when the earliest of some transactions was due, microseconds since the epoch.

    Under a rate that is its scheduled start. What did not succeed tells its end alone.

    Raises:
        ValueError: There is none.
    """
    rows = [line.split() for line in lines]
    return min(
        int(row[4]) * US_PER_S + int(row[5]) - (int(row[2]) if row[2].isdigit() else 0)
        for row in rows
    )


def _last_end_us(lines: Iterable[bytes]) -> int | None:
    """Return when the latest of some transactions ended; None where no line is one."""
    ends = [int(row[4]) * US_PER_S + int(row[5]) for row in map(bytes.split, _plain(lines))]
    return max(ends, default=None)


def _plain(lines: Iterable[bytes]) -> Iterable[bytes]:
    return (line for line in lines if _is_transaction(line.split()))


def _is_transaction(row: list[bytes]) -> bool:
    """Return whether these can be the words of a line: all numbers, but for the time."""
    fields = (*row[:2], *row[3:])
    epoch_s = row[4] if len(row) > 4 else b""
    return (
        _LEAST_COLUMNS <= len(row) <= _LEAST_COLUMNS + 2
        and all(field.isdigit() for field in fields)
        and len(epoch_s) == 10
        and len(row[3]) <= 4
    )


def _redis_csv(text: str) -> list[PublishedRow]:
    rows = []
    heads = {
        "rps": ("tps", 1.0),
        "avg_latency_ms": ("latency_mean", _MS),
        "p50_latency_ms": ("latency_p50", _MS),
        "p95_latency_ms": ("latency_p95", _MS),
        "p99_latency_ms": ("latency_p99", _MS),
        "max_latency_ms": ("latency_max", _MS),
    }
    names = ["test", "rps"]  # before Redis 6.2 no line of names was printed
    for line in _csv_lines(text):
        if line[:2] == ["test", "rps"]:
            names = line
        elif len(line) == len(names) and len(line) > 1:
            figures = {
                heads[name][0]: parse_printed(word, heads[name][1])
                for name, word in zip(names, line, strict=True)
                if name in heads
            }
            rows.append(_row(line[0].split(" ")[0] or line[0], {**figures}, unit="request"))
    return rows


def _csv_lines(text: str) -> Iterator[list[str]]:
    try:
        yield from csv.reader(line for line in text.splitlines() if line.strip())
    except csv.Error as error:
        raise InputError(f"it is no CSV: {error}") from error


def _redis(text: str) -> list[PublishedRow]:
    try:
        printed = redis_benchmark.parse(Completed(argv=(), exit_status=0, stdout=text, stderr=""))
    except MeasurementError as error:
        raise InputError(error.message) from error
    figures = {
        "tps": exactly(printed.requests / printed.seconds),
        "latency_mean": exactly(printed.mean_s),
        "latency_max": exactly(printed.longest_s),
    }
    clients = _count(rf"^ +{_N} parallel clients", text.replace("\r", "\n"))
    return [
        _row(printed.test, {**figures}, clients=clients, seconds=printed.seconds, unit="request")
    ]


def _sysbench(text: str) -> list[PublishedRow]:
    tps = _found(rf"^\s*transactions:\s+\d+\s+\({_N} per sec", text)
    unit = "transaction" if tps else "event"
    tps = tps or _found(rf"^\s*events per second:\s+{_N}", text)
    tps = tps or _found(rf"^\s*events/s \(eps\):\s+{_N}", text)
    if tps is None:
        return []
    offered = _found(rf"^Target transaction rate: {_N}/sec", text)
    figures = {
        "tps": tps,
        "latency_mean": _found(rf"^\s*avg:\s+{_N}$", text, _MS),
        "latency_p95": _found(rf"^\s*95th percentile:\s+{_N}$", text, _MS),
        "latency_p99": _found(rf"^\s*99th percentile:\s+{_N}$", text, _MS),
        "latency_max": _found(rf"^\s*max:\s+{_N}$", text, _MS),
    }
    return [
        _row(
            "sysbench",
            figures,
            clients=_count(rf"^Number of threads: {_N}", text),
            seconds=_positive(_found(rf"^\s*total time:\s+{_N}s", text)),
            rate_per_s=_positive(offered),
            unit=unit,
        )
    ]


def _hammerdb(text: str) -> list[PublishedRow]:
    found = re.finditer(r"System achieved (\d{1,12}) NOPM from (\d{1,12}) (\w{1,20}) TPM", text)
    clients = _count(r"(\d{1,7}) (?:Active )?Virtual Users configured", text)
    return [
        _row(
            "TPROC-C",
            {"NOPM": parse_printed(match[1])},
            clients=clients,
            unit="new orders per minute",
        )
        for match in found
    ]


# --- observers ---


def _iostat(text: str) -> list[PublishedRow]:
    """Return means over the reports but the first, which counts from the start of the machine."""
    reports = [_report(part) for part in re.split(r"^Device:?\s+", text, flags=re.MULTILINE)[1:]]
    counted = reports[1:] or reports
    rows = []
    for device in dict.fromkeys(name for report in counted for name in report):
        told = [report[device] for report in counted if device in report]
        for column in told[0]:
            values = [each[column] for each in told if column in each]
            mean = Printed(
                value=fmean(each.value for each in values),
                low=fmean(each.low for each in values),
                high=fmean(each.high for each in values),
            )
            rows.append(_other(f"{device} {column}", mean, _unit(column), statistic="mean"))
    return rows


def _report(text: str) -> dict[str, dict[str, Printed]]:
    heads, *lines = text.split("\n")
    found = {}
    for line in lines:
        words = line.split()
        if len(words) != len(heads.split()) + 1:
            break
        numbers = zip(heads.split(), words[1:], strict=True)
        found[words[0]] = {head: parse_printed(number) for head, number in numbers}
    return found


def _unit(column: str) -> str:
    if column.startswith("%"):
        return "%"
    if column.endswith(("_await", "await", "svctm")):
        return "ms"
    if column.endswith("-sz"):
        return "requests" if column.startswith(("aqu", "avgqu")) else "KiB"
    if column.endswith("B/s"):
        return "KiB/s" if "kB" in column else "MiB/s"
    return "1/s"


def _explain(text: str) -> list[PublishedRow]:
    return [_other(name, value, unit) for name, (value, unit) in parse_plan(text).items()]


_STAMP: Final = re.compile(r'^"?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d')


def _cloudwatch(text: str) -> list[PublishedRow]:
    """Return the mean, the least and the most of every column below its label."""
    lines = [line for line in _csv_lines(text) if len(line) > 1]
    labels = next((line for line in lines if line[0].strip().casefold() == "label"), None)
    stamped = [line for line in lines if _STAMP.match(line[0])]
    labels = labels or next((line for line in lines if not _STAMP.match(line[0])), [])
    rows = []
    for place, label in enumerate(labels[1:], start=1):
        values = [
            parse_printed(line[place])
            for line in stamped
            if place < len(line) and line[place].strip()
        ]
        for statistic, choose in (("mean", fmean), ("min", min), ("max", max)):
            if values:
                value = choose([each.value for each in values])
                rows.append(
                    _other(
                        label.strip() or f"column {place + 1}",
                        exactly(float(value)),
                        "",
                        statistic=statistic,
                    )
                )
    return rows


def _form(name: str, pattern: str, read: Callable[[str], Sequence[PublishedRow]]) -> Form:
    return Form(name=name, seen=re.compile(pattern, re.MULTILINE), read=read)


# In this order: the first that is seen.
FORMS: Final = (
    _form("pgbench", r"^transaction type:", _pgbench),
    _form("redis-benchmark-csv", r'^"test","rps"|^"[A-Z_ ()]{3,40}","[0-9.]+"', _redis_csv),
    _form("redis-benchmark", r"====== .{1,200} ======", _redis),
    _form("sysbench", r"^sysbench \d", _sysbench),
    _form("hammerdb", r"System achieved \d+ NOPM", _hammerdb),
    _form("iostat", r"^Device:?\s+\S*r/s|^Device:?\s+tps", _iostat),
    _form("explain", r"\(cost=[\d.]+\.\.[\d.]+ rows=|^\s*Execution Time: ", _explain),
    _form("cloudwatch", r'^(?:"?Full label|"?Label|"?Id|"?Timestamp)"?,', _cloudwatch),
    _form("pgbench-log", r"^\d+ \d+ (?:\d+|failed|skipped) \d+ \d{9,11} \d{1,6}\b", _pgbench_log),
)


def read_printed(text: str, name: str = "") -> tuple[str, tuple[PublishedRow, ...]]:
    """Return the form of a text, and its rows without configuration.

    Args:
        text: What a program printed.
        name: Of its form; empty: the first that is seen.

    Raises:
        InputError: It has no form that is known, or nothing in it is understood.
    """
    form = next((f for f in FORMS if (f.name == name if name else f.seen.search(text))), None)
    if form is None:
        raise InputError("it is the output of no program that is known")
    rows = tuple(form.read(text.replace("\r\n", "\n")))
    if not rows:
        raise InputError(f"it looks like {form.name}, and no result is in it")
    return form.name, rows
